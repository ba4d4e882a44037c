# A tour of what a client can batch, with the objects of examples/database/database.theta.

use v5.36;

use Bifrost;

my $s  = Bifrost->connect($ENV{BIFROST_URL});
my $db = $s->lookup(database => 'DataBase');

# Every call returns at once. `$carol` is used before anybody knows which object it is.
my $carol = $db->new_user('carol');
$carol->touch for 1 .. 2;
my $child = $db->new_user($carol->name . ' junior');
my ($name, $visits) = ($child->name, $carol->visits);
say 'before the first claim: ', $s->crossings, ' crossings';
say $name->claim, ' is there; carol has ', $visits->claim, ' visits';
say 'after two claims: ', $s->crossings, ' crossing';

# A loop whose state is a cell at the server. The body runs once, here, and records what the server
# repeats.
my $bob    = $db->fetch('bob');
my $rounds = $s->cell(int => 0);
$s->while(sub { $rounds->get < 10 }, sub {
    $bob->touch;
    $rounds->put($rounds->get + 1);
});
my ($touched, $after) = ($bob->visits, $rounds->get);
say 'bob: ', $touched->claim, ' visits after ', $after->claim, ' rounds';

# Over an iterator of the server: skip whom nobody visits, and stop after the first with many.
$db->fetch('ann')->touch;
my $seen = $s->cell(string => '');
$s->foreach($db->users, sub ($user) {
    $s->if($user->visits == 0, sub { $s->continue });
    $seen->put($seen->get . $user->name . ' ');
    $s->if($user->visits > 5, sub { $s->break }, sub { $user->touch });
});
say 'visited, up to the first with many: ', $seen->get->claim =~ s/ $//r;

# A table of results, in one crossing.
my $rows = $s->rows($db->users, [qw(string int)], sub ($user) { ($user->name, $user->visits) });
say join '; ', map { "$_->[0] $_->[1]" } $rows->claim->@*;

# Exceptions, handled at the server or here.
$s->except(sub { $db->fetch('dora') }, when => [ not_found => sub { $db->new_user('dora') } ]);
say $db->fetch('dora')->name->claim, ' is there now';
eval { $db->fetch('zoe')->name->claim };
say "zoe: $@";

# A transaction is committed, or nothing of it is there.
$s->commit;
my $count = $s->transaction(sub { my $ann = $db->fetch('ann'); $ann->touch; $ann->visits });
say 'ann: ', $count->claim, ' visits';
eval {
    $db->new_user('ann');
    $s->commit;
};
say $@;
$s->abort;
$s->close;
