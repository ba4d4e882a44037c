# Points that are moved and swapped, a procedure, and a list; with examples/points/points.theta.

use v5.36;

use Bifrost;

my $s = Bifrost->connect($ENV{BIFROST_URL});

# Swap the coordinates of a point, step by step: one crossing.
my $home = $s->lookup(home => 'point');
my $x    = $home->x;
$home->set_x($home->y);
$home->set_y($x);
my @moved = ($home->x, $home->y);
say 'x = ', $moved[0]->claim, ', y = ', $moved[1]->claim;

# A procedure is a batch with a name: defined once, called like a routine.
my $move = $s->procedure(move => [ 'point', 'int' ], undef, sub ($p, $by) {
    $p->set_x($p->x + $by);
    $p->set_y($p->y + $by);
});
$move->($home, $_) for 10, 100;
@moved = ($home->x, $home->y);
say 'x = ', $moved[0]->claim, ', y = ', $moved[1]->claim;

# The sum of a list, with a loop over a cell.
my $primes = $s->lookup(primes => 'list[int]');
my ($at, $total) = ($s->cell('list[int]' => $primes), $s->cell(int => 0));
$s->while(sub { $at->get->notEmpty }, sub {
    $total->put($total->get + $at->get->first);
    $at->put($at->get->next);
});
say 'sum = ', $total->get->claim, ', after ', $s->crossings, ' crossings';

# Or the whole list at once, as a list of Perl.
say "primes: @{ $s->get($primes)->claim }";
$s->close;
