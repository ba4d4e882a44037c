# Actors: requests that run at the same time, and messages; with examples/auctions/auctions.theta.

use v5.36;

use Bifrost;

my $s = Bifrost->connect($ENV{BIFROST_URL});

# Two auctions. Their references are used before they are known, and the first two bids run at the
# same time.
my $house = $s->lookup(house => 'House');
my ($lamp, $clock) = ($house->open('lamp', 10), $house->open('clock', 50));
my ($first, $second) = ($lamp->bid(12), $clock->bid(60));
say 'bids: ', $first->claim, ' and ', $second->claim;

# A bid that is too low is an exception of the call; the rest goes on.
my ($low, $price) = ($lamp->bid(11), $clock->price);
eval { $low->claim };
say 'too low: ', ($@->values)[0], ' is offered';
say 'the clock: ', $price->claim;

# Bids in a loop: all are sent before the first is awaited. Each failure says its round.
$s->foreach($s->value(int => 1)->to(5), sub ($n) { $lamp->bid($n * 5) });
say 'round ', $_->rounds, ': ', $_->name, ' (', $_->values, ')' for $s->flush;
say 'the lamp: ', $lamp->price->claim;

# Nobody waits for a message. Messages of a session to an actor arrive in their order.
$clock->send->bid(70);
$clock->send->bid(65);
say 'the clock: ', $clock->price->claim;
$s->close;
