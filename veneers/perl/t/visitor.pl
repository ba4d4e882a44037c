# A client among many of one server: `visitor.pl NAME TIMES` visits Ann and a person of its own, so
# many times. veneers/together.sh runs it beside clients in other languages, over other media.

use v5.36;

use Bifrost;

my ($name, $times) = @ARGV;
my $s    = Bifrost->connect($ENV{BIFROST_URL});
my $db   = $s->lookup(database => 'DataBase');
my $own  = $s->transaction(sub { $db->new_user($name) });
my $last = -1;
for (1 .. $times) {
    my $visits = $s->transaction(sub {
        my $ann = $db->fetch('ann');
        $ann->touch;
        $own->touch;
        $ann->visits;
    });
    my $seen = $visits->claim;
    die "Ann had $last visits, and has $seen\n" unless $seen > $last;
    $last = $seen;
}
say "$name: ", $own->visits->claim, " visits, Ann at least $last";
$s->close;
