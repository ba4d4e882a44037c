# What a call costs in a batch: recorded by the library, and written by hand to a socket. The program
# is cases/programs/conformance.theta: `bifrost serve --listen tcp://127.0.0.1:7447
# --anonymous-loopback cases/programs/conformance.theta`, and its address in BIFROST_URL.

lappend auto_path [file dirname [file dirname [file normalize [info script]]]]
package require bifrost

lassign [expr {$argc ? $argv : {1000 21}}] calls rounds

set s [bifrost connect $env(BIFROST_URL)]
set p [$s lookup probe Probe]
[$p same_int 0] claim

regexp {^tcp://(.+):(\d+)$} $env(BIFROST_URL) -> host port
set raw [socket $host $port]
chan configure $raw -translation lf -encoding utf-8 -buffersize 65536
puts $raw "hello 2 json name bench\n\$p := lookup probe: Probe\nflush"
chan flush $raw
gets $raw
gets $raw

proc library {p calls} {
    for {set i 1} {$i <= $calls} {incr i} {
        set last [$p same_int $i]
    }
    if {[$last claim] != $calls} {
        error "a wrong result"
    }
}
proc bySocket {raw calls} {
    for {set i 1} {$i <= $calls} {incr i} {
        append lines "\$a := \$p.same_int($i)\n"
    }
    puts $raw "$lines? \$a"
    chan flush $raw
    if {![string match "*\"value\":${calls}\[,\}\]*" [gets $raw]]} {
        error "a wrong result"
    }
}
set systems [dict create library [list library $p $calls] socket [list bySocket $raw $calls]]
for {set round 0} {$round <= $rounds} {incr round} {
    dict for {name system} $systems {
        set microseconds [lindex [time $system 1] 0]
        # The first round warms up.
        if {$round} {
            lappend times($name) [expr {double($microseconds) / $calls}]
        }
    }
}
puts [format {batches of %d calls, us a call: %8s %8s} $calls median least]
foreach name {library socket} {
    set sorted [lsort -real $times($name)]
    puts [format {  %-26s %10.2f %8.2f} $name [lindex $sorted [expr {[llength $sorted] / 2}]] [lindex $sorted 0]]
}
puts [format {  %-26s %10.2f} {beyond the socket, median} [expr {
    [lindex [lsort -real $times(library)] [expr {$rounds / 2}]] - [lindex [lsort -real $times(socket)] [expr {$rounds / 2}]]}]]
$s close
