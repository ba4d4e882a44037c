# A linked list at the server, walked in one crossing; with examples/lists/lists.theta.

package require bifrost

set s [bifrost connect $env(BIFROST_URL)]
set squares [$s lookup squares IntList]

# Ten steps along the list, one crossing: every step uses a result that does not exist yet.
set at $squares
for {set step 1} {$step < 10} {incr step} {
    set at [$at next]
}
set tenth [[$at first] claim]
puts "the 10th is $tenth, after [$s crossings] crossing"

# How far the list goes is not known here: a loop at the server finds out.
set place [$s cell IntList $squares]
set count [$s cell int 0]
$s while {[$place get] notEmpty} {
    $count put [[$count get] + 1]
    $place put [[$place get] next]
}
set length [[$count get] claim]
puts "it has $length elements, after [$s crossings] crossings"

# The same as a routine that the program has.
puts "the 10th is [[$s routine nth $squares 10] claim]"
try {
    [$s routine nth $squares 101] claim
} trap BIFROST {text info} {
    puts "the 101st: [lindex [dict get $info -errorcode] 1]"
}
$s close
