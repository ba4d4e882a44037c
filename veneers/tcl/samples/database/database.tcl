# A tour of what a client can batch, with the objects of examples/database/database.theta.

package require bifrost

set s [bifrost connect $env(BIFROST_URL)]
set db [$s lookup database DataBase]

# Every call returns at once. `$carol` is used before anybody knows which object it is.
set carol [$db new_user carol]
$carol touch
$carol touch
set child [$db new_user [[$carol name] . " junior"]]
set name [$child name]
set visits [$carol visits]
puts "before the first claim: [$s crossings] crossings"
puts "[$name claim] is there; carol has [$visits claim] visits"
puts "after two claims: [$s crossings] crossing"

# A loop whose state is a cell at the server. The body runs once, here, and records what the server
# repeats.
set bob [$db fetch bob]
set rounds [$s cell int 0]
$s while {[$rounds get] < 10} {
    $bob touch
    $rounds put [[$rounds get] + 1]
}
set touched [$bob visits]
set after [$rounds get]
puts "bob: [$touched claim] visits after [$after claim] rounds"

# Over an iterator of the server: skip whom nobody visits, and stop after the first with many.
[$db fetch ann] touch
set seen [$s cell string {}]
$s foreach user [$db users] {
    $s if {[$user visits] == 0} {$s continue}
    $seen put [[[$seen get] . [$user name]] . " "]
    $s if {[$user visits] > 5} {
        $s break
    } else {
        $user touch
    }
}
puts "visited, up to the first with many: [string trim [[$seen get] claim]]"

# A table of results, in one crossing.
set rows [$s rows user [$db users] {string int} {list [$user name] [$user visits]}]
puts [join [lmap row [$rows claim] {join $row}] "; "]

# Exceptions, handled at the server or here.
$s except {
    $db fetch dora
} when not_found {} {
    $db new_user dora
}
puts "[[[$db fetch dora] name] claim] is there now"
try {
    [[$db fetch zoe] name] claim
} trap {BIFROST not_found} text {
    puts "zoe: $text"
}

# A transaction is committed, or nothing of it is there.
$s commit
set count [$s transaction {
    set ann [$db fetch ann]
    $ann touch
    $ann visits
}]
puts "ann: [$count claim] visits"
try {
    $db new_user ann
    $s commit
} trap {BIFROST not_possible} text {
    puts $text
}
$s abort
$s close
