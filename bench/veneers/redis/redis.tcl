# A peer of `bifrost bench veneers` in Tcl: Redis, at the port of 127.0.0.1 that is its argument. It speaks
# the protocol of Redis itself: a command is an array of strings, and replies come in the order of commands.

namespace eval redis {
    variable channel

    proc connect {port} {
        variable channel [socket 127.0.0.1 $port]
        chan configure $channel -translation binary -buffersize 65536
    }

    # Writes a command; it is sent by `reply`, or when the buffer is full.
    proc begin {args} {
        variable channel
        set text "*[llength $args]\r\n"
        foreach word $args {
            set bytes [encoding convertto utf-8 $word]
            append text "\$[string length $bytes]\r\n$bytes\r\n"
        }
        puts -nonewline $channel $text
    }

    # Sends what was written, and returns the next reply.
    proc reply {} {
        variable channel
        flush $channel
        return [Read]
    }

    proc call {args} {
        begin {*}$args
        return [reply]
    }

    proc Read {} {
        variable channel
        if {[gets $channel line] < 0} { error "the server has ended" }
        set rest [string range $line 1 end-1]
        switch -- [string index $line 0] {
            + - : { return $rest }
            - { error $rest }
            $ {
                if {$rest < 0} { return {} }
                set bytes [read $channel $rest]
                read $channel 2
                return [encoding convertfrom utf-8 $bytes]
            }
            * {
                set list {}
                for {set i 0} {$i < $rest} {incr i} { lappend list [Read] }
                return $list
            }
        }
        error "`$line` is no reply"
    }
}

# A case does so many steps, and returns the result and, if it does more, the end of the time.
namespace eval cases {
    # Begins calls.
    proc Begin {count} {
        for {set n 0} {$n < $count} {incr n} {
            redis::begin ECHO $n
        }
    }
    # Returns the sum of their results.
    proc Sum {count} {
        set result 0
        for {set n 0} {$n < $count} {incr n} {
            incr result [redis::reply]
        }
        return $result
    }
    proc record {count} {
        Begin $count
        set end [clock microseconds]
        return [list [Sum $count] $end]
    }
    proc batch {count} {
        Begin $count
        return [Sum $count]
    }
    proc null {count} {
        for {set n 0} {$n < $count} {incr n} {
            if {[redis::call PING] ne "PONG"} { error "no answer to PING" }
        }
        return $n
    }
    proc pair {count} {
        set result 0
        for {set n 0} {$n < $count} {incr n} {
            incr result [redis::call ECHO $n]
        }
        return $result
    }
    proc two {count} {
        set result 0
        for {set n 0} {$n < $count} {incr n} {
            if {[redis::call GET probe] eq ""} { error "there is no object" }
            incr result [redis::call ECHO $n]
        }
        return $result
    }
    proc table {count} {
        set result 0
        foreach {n text} [redis::call LRANGE pairs 0 [expr {2 * $count - 1}]] {
            incr result [expr {$n + [string length $text]}]
        }
        return $result
    }
}

# Has so many rows in the list `pairs`: two elements each.
proc fill {count} {
    if {[redis::call LLEN pairs] == 2 * $count} { return }
    redis::call DEL pairs
    for {set n 1} {$n <= $count} {incr n} {
        lappend values $n $n
    }
    redis::call RPUSH pairs {*}$values
}

redis::connect $argv
# The key of a call that returns an object.
redis::call SET probe object:1
while {[gets stdin line] >= 0} {
    lassign $line name count
    if {$name eq "table"} { fill $count }
    set begin [clock microseconds]
    lassign [cases::$name $count] result end
    if {$end eq ""} {
        set end [clock microseconds]
    }
    puts "[expr {1000 * ($end - $begin)}] $result"
    flush stdout
}
