# The measured client of `bifrost bench veneers` in Tcl.
#
# It connects to BIFROST_URL, a server of cases/programs/conformance.theta at a TCP socket, and answers
# lines `CASE N` by the nanoseconds and the result of N steps (bench/veneers/README.md).
# `bench.tcl echo` is the other end of the case `raw`.

# Bytes of the messages of `raw`: those of a call with one integer that is claimed, and of its answer.
set callBytes 61
set answerBytes 91

# Connects to a port of this machine.
proc dial {host port} {
    set channel [socket $host $port]
    chan configure $channel -translation lf -encoding utf-8 -buffersize 65536
    return $channel
}

# Listens, writes the port, and sends back an answer for each message, until the one client ends.
proc echo {} {
    set listener [socket -server accept -myaddr 127.0.0.1 0]
    puts [lindex [chan configure $listener -sockname] 2]
    flush stdout
    vwait ::client
    close $listener
    chan configure $::client -translation binary
    set answer [string repeat x $::answerBytes]
    while {[string length [read $::client $::callBytes]] == $::callBytes} {
        puts -nonewline $::client $answer
        flush $::client
    }
}
proc accept {channel host port} { set ::client $channel }

# A case does so many steps, and returns the result and, if it does more, the end of the time.
namespace eval cases {
    proc record {count} {
        set result 0
        # The stubs are dropped: the recording alone.
        for {set n 0} {$n < $count} {incr n} {
            $::probe same_int $n
            incr result $n
        }
        set end [clock microseconds]
        $::s flush
        return [list $result $end]
    }
    proc batch {count} {
        set stubs {}
        for {set n 0} {$n < $count} {incr n} {
            lappend stubs [$::probe same_int $n]
        }
        [lindex $stubs end] claim
        set end [clock microseconds]
        set result 0
        foreach stub $stubs {
            incr result [$stub claim]
        }
        return [list $result $end]
    }
    proc null {count} {
        for {set n 0} {$n < $count} {incr n} {
            [$::probe nothing] claim
        }
        return $n
    }
    proc pair {count} {
        set result 0
        for {set n 0} {$n < $count} {incr n} {
            incr result [[$::probe same_int $n] claim]
        }
        return $result
    }
    proc two {count} {
        set result 0
        for {set n 0} {$n < $count} {incr n} {
            incr result [[[$::probe itself] same_int $n] claim]
        }
        return $result
    }
    proc table {count} {
        set rows [$::s rows {n text} [$::probe pairs $count] {int string} {list $n $text}]
        set result 0
        foreach row [$rows claim] {
            lassign $row n text
            incr result [expr {$n + [string length $text]}]
        }
        return $result
    }
    proc raw {count} {
        set message [string repeat y $::callBytes]
        for {set n 0} {$n < $count} {incr n} {
            puts -nonewline $::raw $message
            flush $::raw
            if {[string length [read $::raw $::answerBytes]] != $::answerBytes} {
                error "the other end of `raw` has ended"
            }
        }
        return $n
    }
    proc last {count} {
        for {set n 0} {$n < $count} {incr n} {
            set last [$::probe same_int $n]
        }
        return [$last claim]
    }
    proc socket {count} {
        for {set n 0} {$n < $count} {incr n} {
            append lines "\$a := \$p.same_int($n)\n"
        }
        puts $::text "$lines? \$a"
        flush $::text
        if {![regexp {"value":(\d+)} [gets $::text] -> last]} {
            error "`socket` has no result"
        }
        return $last
    }
}

if {$argv eq "echo"} {
    echo
    exit
}

lappend auto_path [file dirname [file dirname [file normalize [info script]]]]
package require bifrost

set raw [dial 127.0.0.1 [gets [open |[list [info nameofexecutable] [info script] echo]]]]

# The text form, written by hand.
if {![regexp {^tcp://(.+):(\d+)$} $env(BIFROST_URL) -> host port]} {
    error "BIFROST_URL is no tcp:// address"
}
set text [dial $host $port]
puts $text "hello 2 json name bench\n\$p := lookup probe: Probe\nflush"
flush $text
gets $text
gets $text

set s [bifrost connect $env(BIFROST_URL)]
set probe [$s lookup probe Probe]
$s flush

while {[gets stdin line] >= 0} {
    lassign $line name count
    set begin [clock microseconds]
    lassign [cases::$name $count] result end
    if {$end eq ""} {
        set end [clock microseconds]
    }
    puts "[expr {1000 * ($end - $begin)}] $result"
    flush stdout
}
