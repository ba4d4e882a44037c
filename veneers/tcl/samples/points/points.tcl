# Points that are moved and swapped, a procedure, and a list; with examples/points/points.theta.

package require bifrost

set s [bifrost connect $env(BIFROST_URL)]

# Swap the coordinates of a point, step by step: one crossing.
set home [$s lookup home point]
set x [$home x]
$home set_x [$home y]
$home set_y $x
set moved [list [$home x] [$home y]]
puts "x = [[lindex $moved 0] claim], y = [[lindex $moved 1] claim]"

# A procedure is a batch with a name: defined once, called like a routine.
set move [$s procedure move {p point by int} {} {
    $p set_x [[$p x] + $by]
    $p set_y [[$p y] + $by]
}]
$move $home 10
$move $home 100
set moved [list [$home x] [$home y]]
puts "x = [[lindex $moved 0] claim], y = [[lindex $moved 1] claim]"

# The sum of a list, with a loop over a cell.
set primes [$s lookup primes {list[int]}]
set at [$s cell {list[int]} $primes]
set total [$s cell int 0]
$s while {[$at get] notEmpty} {
    $total put [[$total get] + [[$at get] first]]
    $at put [[$at get] next]
}
set sum [[$total get] claim]
puts "sum = $sum, after [$s crossings] crossings"

# Or the whole list at once, as a list of Tcl.
puts "primes: [[$s get $primes] claim]"
$s close
