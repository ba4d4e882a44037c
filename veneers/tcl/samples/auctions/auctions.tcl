# Actors: requests that run at the same time, and messages; with examples/auctions/auctions.theta.

package require bifrost

set s [bifrost connect $env(BIFROST_URL)]

# Two auctions. Their references are used before they are known, and the first two bids run at the
# same time.
set house [$s lookup house House]
set lamp [$house open lamp 10]
set clock [$house open clock 50]
set first [$lamp bid 12]
set second [$clock bid 60]
puts "bids: [$first claim] and [$second claim]"

# A bid that is too low is an exception of the call; the rest goes on.
set low [$lamp bid 11]
set price [$clock price]
try {
    $low claim
} trap {BIFROST too_low} {text info} {
    set exception [lindex [dict get $info -errorcode] 2]
    puts "too low: [lindex [dict get $exception values] 0] is offered"
}
puts "the clock: [$price claim]"

# Bids in a loop: all are sent before the first is awaited. Each failure says its round.
$s foreach n [[$s value int 1] to 5] {
    $lamp bid [$n * 5]
}
foreach exception [$s flush] {
    dict with exception {
        puts "round $rounds: $name ($values)"
    }
}
puts "the lamp: [[$lamp price] claim]"

# Nobody waits for a message. Messages of a session to an actor arrive in their order.
$clock send bid 70
$clock send bid 65
puts "the clock: [[$clock price] claim]"
$s close
