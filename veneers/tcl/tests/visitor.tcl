# A client among many of one server: `visitor.tcl NAME TIMES` visits Ann and a person of its own, so
# many times. veneers/together.sh runs it beside clients in other languages, over other media.

lappend auto_path [file dirname [file dirname [file normalize [info script]]]]
package require bifrost

lassign $argv name times
set s [bifrost connect $env(BIFROST_URL)]
set db [$s lookup database DataBase]
set own [$s transaction {$db new_user $name}]
set last -1
for {set i 0} {$i < $times} {incr i} {
    set visits [$s transaction {
        set ann [$db fetch ann]
        $ann touch
        $own touch
        $ann visits
    }]
    set seen [$visits claim]
    if {$seen <= $last} {
        error "Ann had $last visits, and has $seen"
    }
    set last $seen
}
puts "$name: [[$own visits] claim] visits, Ann at least $last"
$s close
