# Servers and checks for the tests. BIFROST_BIN is the program `bifrost`; TCLLIBPATH has the package.

package require tcltest 2.5
package require bifrost

namespace eval support {
    namespace import ::tcltest::*
    namespace export serve stop begin end is like failure signal values child finish repository
    variable repository [file normalize [file join [file dirname [info script]] .. .. ..]]
}
namespace import ::tcltest::test

proc support::repository {} {
    variable repository
    return $repository
}

# Starts `$BIFROST_BIN serve PROGRAM` with further arguments, and waits until it is ready: a dict with
# its url, the number of its process, its channel and its folder.
proc support::serve {program args} {
    if {![info exists ::env(BIFROST_BIN)]} {
        error "BIFROST_BIN is the path of the program bifrost"
    }
    set folder [exec mktemp -d]
    set command [list env -C $folder XDG_STATE_HOME=$folder]
    # The server would take them for settings.
    foreach name [array names ::env BIFROST_*] {
        lappend command -u $name
    }
    # `-u` stands before the assignments.
    set command [list env -C $folder {*}[lrange $command 4 end] XDG_STATE_HOME=$folder]
    if {"--listen" ni $args} {
        lappend args --listen tcp://127.0.0.1:0 --anonymous-loopback
    }
    lappend command $::env(BIFROST_BIN) serve {*}$args [repository]/$program
    set output [open "|$command 2> $folder/log" r]
    while {[gets $output line] >= 0} {
        if {[regexp {^ready (\S+)} $line -> url]} {
            return [dict create url $url pid [pid $output] output $output folder $folder]
        }
    }
    set log [open $folder/log]
    error "the server of $program does not start: [read $log]"
}

# Ends a server; one that was ended already, too.
proc support::stop {server} {
    catch {exec kill -TERM [dict get $server pid]}
    catch {close [dict get $server output]}
    file delete -force [dict get $server folder]
}

# Begins a case: a server of a program of `cases/programs`, with settings, and a session `s`.
proc support::begin {program args} {
    variable globals [info globals]
    set settings {}
    foreach setting $args {
        lappend settings --set $setting
    }
    set ::server [serve cases/programs/$program.theta {*}$settings]
    set ::s [bifrost connect [dict get $::server url]]
}

# Ends a case: the session has to end well if it has not ended. Variables of the case end with it.
proc support::end {} {
    variable globals
    try {
        $::s close
        $::s destroy
    } finally {
        stop $::server
        foreach name [info globals] {
            if {$name ni $globals} {
                unset ::$name
            }
        }
    }
}

# Fails if a value is another one.
proc support::is {value expected} {
    if {$value ne $expected} {
        return -code error "it is {[string range $value 0 300]}, and should be {[string range $expected 0 300]}"
    }
}

# Fails if a text does not match an expression.
proc support::like {text expression} {
    if {![regexp -- $expression $text]} {
        return -code error "{$text} does not match {$expression}"
    }
}

# The text with which a script fails; empty if it does not.
proc support::failure {script} {
    if {[catch {uplevel 1 $script} text info] == 1} {
        return $text
    }
}

# The name of the exception that a script signals, and the values of it.
proc support::signal {script} {
    if {[catch {uplevel 1 $script} text info] == 1} {
        return [lindex [dict get $info -errorcode] 1]
    }
}
proc support::values {script} {
    if {[catch {uplevel 1 $script} text info] == 1} {
        set exception [lindex [dict get $info -errorcode] 2]
        return [list [dict get $exception name] {*}[dict get $exception values]]
    }
}

# Starts a process of Tcl with the library and a script; `finish` waits for it, and returns its output.
proc support::child {script} {
    set child [open "|[list [info nameofexecutable] 2>@stderr]" r+]
    puts $child "package require bifrost\n$script\nexit"
    flush $child
    return $child
}
proc support::finish {child} {
    set output [read -nonewline $child]
    close $child
    return $output
}
namespace import support::*
