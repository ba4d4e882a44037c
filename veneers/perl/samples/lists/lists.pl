# A linked list at the server, walked in one crossing; with examples/lists/lists.theta.

use v5.36;

use Bifrost;

my $s       = Bifrost->connect($ENV{BIFROST_URL});
my $squares = $s->lookup(squares => 'IntList');

# Ten steps along the list, one crossing: every step uses a result that does not exist yet.
my $at = $squares;
$at = $at->next for 1 .. 9;
say 'the 10th is ', $at->first->claim, ', after ', $s->crossings, ' crossing';

# How far the list goes is not known here: a loop at the server finds out.
my ($place, $count) = ($s->cell(IntList => $squares), $s->cell(int => 0));
$s->while(sub { $place->get->notEmpty }, sub {
    $count->put($count->get + 1);
    $place->put($place->get->next);
});
say 'it has ', $count->get->claim, ' elements, after ', $s->crossings, ' crossings';

# The same as a routine that the program has.
say 'the 10th is ', $s->routine(nth => $squares, 10)->claim;
eval { $s->routine(nth => $squares, 101)->claim };
say 'the 101st: ', $@->name;
$s->close;
