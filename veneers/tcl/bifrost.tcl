# Bifrost - calls to the objects of a Bifrost server, in batches.
#
#     set s [bifrost connect tcp://127.0.0.1:7447]
#     set db [$s lookup database DataBase]
#     set total [$s cell int 0]
#     $s foreach user [$db users] {
#         $s if [[$user visits] > 0] {
#             $total put [[$total get] + [$user visits]]
#         }
#     }
#     puts [[$total get] claim]
#
# Calls are recorded as lines of the text form (docs/spec/wire.md, section 6), and cross in a batch
# when a result is claimed. Methods are those of the server's types: a call is checked against
# `describe` when it is recorded. The README has a guide.
#
# Read the class `bifrost::Session` first. A *stub* is the command of a result; the session has its
# entry in `stubs`. A result of the batch is `@7` by its position; at the flush, each result whose
# stub is held gets a name, `$a3`, by which later batches know it. The parts of the file: limits,
# JSON, types, values, exceptions, the session (public methods, calls, structures, stubs, lines).

package require Tcl 8.6-

namespace eval ::bifrost {
    namespace export connect
    namespace ensemble create

    # The longest answer.
    variable answerBytesMax [expr {64 << 20}]
    # The nesting of arrays and objects in an answer.
    variable jsonDepthMax 200
    # Exceptions that a session knows when they are over.
    variable historyMax 1000
    # The longest wait of a live batch, in milliseconds, before it waits again.
    variable liveMs 10000
    # Stubs that are kept before the session looks for those that nobody holds any more.
    variable sweepMin 256
    # Results of a batch before it looks for those that nobody holds; if three quarters of so many
    # are held, the batch is sent.
    variable batchMax 4000
    # Results with a name that a session holds. The server has 10000 names.
    variable namesMax 9000

    variable basic {null bool int real char string bytes}
    # The operators, and the methods that they call.
    variable operators {
        + add - sub * mul / div % mod . concat < lt <= le > gt >= ge == equal eq equal
    }
    # The words of a stub that are no methods of the server.
    variable words {claim type as is send call keep free}
    variable count 0
}

# ----- JSON

namespace eval ::bifrost::json {
    # A token; any other character is one of its own, which stands nowhere.
    variable token {"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"}
    append token {|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?}
    append token {|true|false|null|[][{}:,]|[^ \t\r\n]}
}

# Reads a text of JSON. A value is a pair: its kind (string, number, boolean, null, array, object),
# and a string, a number, 0 or 1, an empty string, a list of values, or a dict of values.
proc ::bifrost::json::read {text} {
    variable token
    set tokens [regexp -all -inline $token $text]
    set at 0
    set value [Value 0]
    if {$at < [llength $tokens]} { Fail "more follows the value" }
    return $value
}

proc ::bifrost::json::Fail {why} { throw {BIFROST -json} "no JSON: $why" }

# Reads the value at `at` of the caller's `tokens`.
proc ::bifrost::json::Value {depth} {
    upvar 1 tokens tokens at at
    set token [lindex $tokens $at]
    incr at
    switch -glob -- $token {
        {"?*} { return [list string [String $token]] }
        {-[0-9]*} - {[0-9]*} { return [list number $token] }
        true { return {boolean 1} }
        false { return {boolean 0} }
        null { return {null {}} }
        {\[} { return [list array [Items $depth \] array]] }
        \{ { return [list object [Items $depth \} object]] }
        {} { Fail "it ends early" }
    }
    Fail "`$token` is no value"
}

# Reads the values of an array, or the fields of an object, up to its end.
proc ::bifrost::json::Items {depth close kind} {
    upvar 1 tokens tokens at at
    if {$depth >= $::bifrost::jsonDepthMax} { Fail "it nests more than $::bifrost::jsonDepthMax deep" }
    incr depth
    set items {}
    set next [lindex $tokens $at]
    if {$next eq $close} { incr at }
    while {$next ne $close} {
        if {$kind eq "object"} {
            set key [lindex $tokens $at]
            if {![string match {"?*} $key]} { Fail "`$key` is no name of a field" }
            set key [String $key]
            if {[dict exists $items $key]} { Fail "the field `$key` is there twice" }
            if {[lindex $tokens $at+1] ne ":"} { Fail "no `:` follows the name of a field" }
            incr at 2
            dict set items $key [Value $depth]
        } else {
            lappend items [Value $depth]
        }
        set next [lindex $tokens $at]
        incr at
        if {$next ni [list , $close]} { Fail "an $kind has no end" }
    }
    return $items
}

# The characters of a string with its quotes.
proc ::bifrost::json::String {token} {
    set text [string range $token 1 end-1]
    if {[string first \\ $text] < 0} { return $text }
    # Surrogates come in pairs.
    set units [string map {\\\\ {}} $text]
    regsub -all {\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}} $units {} units
    if {[regexp {\\u[dD][89a-fA-F]} $units]} { Fail "half a pair of surrogates" }
    # The escapes of JSON are also those of Tcl.
    return [subst -nocommands -novariables $text]
}

# A text as a string of JSON, which is one of the text form.
proc ::bifrost::json::quote {text} {
    if {[regexp {["\\\u0000-\u001f\u007f]} $text]} {
        variable escapes
        set text [string map $escapes $text]
    }
    if {![string is ascii $text] && ([catch {encoding convertto utf-8 $text} bytes]
        || [regexp {\xed[\xa0-\xbf]} $bytes])} {
        throw {BIFROST -usage} "a text has half a pair of surrogates, which is no character"
    }
    return "\"$text\""
}

apply {{} {
    set ::bifrost::json::escapes {\" \\\" \\ \\\\}
    for {set code 0} {$code < 32} {incr code} {
        lappend ::bifrost::json::escapes [format %c $code] [format {\u%04x} $code]
    }
    lappend ::bifrost::json::escapes \u007f {\u007f}
}}

# ----- types

# Splits a type: its name, and pairs of a field's name and its type.
proc ::bifrost::Parts {type} {
    if {![regexp {^([\w.]+)\[(.*)\]$} $type -> name inner]} { return [list $type] }
    return [list $name {*}[Items $inner]]
}

# Splits a list of types, each with a name or without: pairs.
proc ::bifrost::Items {text} {
    set items {}
    set depth 0
    set item {}
    foreach part [split $text ,] {
        append item $part
        incr depth [expr {[llength [split $part \[]] - [llength [split $part \]]]}]
        if {$depth > 0} {
            append item ,
            continue
        }
        if {[regexp {^\s*(?:(\w+):\s*)?(\S.*?)\s*$} $item -> name type]} {
            lappend items [list $name $type]
        }
        set item {}
    }
    return $items
}

# Reads lines as `  fetch (user: string) returns (DataElem) signals (not_found)`: a dict of
# headings, each a list of name, parameters, results, and whether it is an iterator.
proc ::bifrost::Headings {text} {
    set headings {}
    foreach line [split $text \n] {
        if {![regexp {^  ([\w.]+) (\(.*)$} $line -> name rest]} { continue }
        lassign [Group $rest] parameters rest
        set results {}
        set yields 0
        while {[regexp {^\s*(returns|yields|signals) (\(.*)$} $rest -> word rest]} {
            lassign [Group $rest] types rest
            if {$word ne "signals"} {
                set results $types
                set yields [expr {$word eq "yields"}]
            }
        }
        dict set headings $name [list $name $parameters $results $yields]
    }
    return $headings
}

# Reads a list of types in parentheses; returns the types, and the text behind it.
proc ::bifrost::Group {text} {
    set depth 0
    foreach at [regexp -all -inline -indices {[()]} $text] {
        set at [lindex $at 0]
        incr depth [expr {[string index $text $at] eq "(" ? 1 : -1}]
        if {!$depth} { break }
    }
    set types [lmap item [Items [string range $text 1 $at-1]] {lindex $item 1}]
    return [list $types [string range $text $at+1 end]]
}

# ----- values

proc ::bifrost::Wrong {text} { return -code error -errorcode {BIFROST -usage} $text }

# True for a number from 0 that a line can have.
proc ::bifrost::IsCount {text} { return [regexp {^(?:0|[1-9][0-9]{0,17})$} $text] }

# A value of JSON as one of Tcl, by its type; without a type as far as JSON tells.
proc ::bifrost::Decode {type json} {
    lassign $json kind value
    switch -- $type/$kind {
        int/number {
            if {[string is entier -strict $value]} { return $value }
        }
        real/number { return [expr {double($value)}] }
        real/string {
            if {$value in {inf -inf nan}} { return [string map {inf Inf nan NaN} $value] }
        }
        bool/boolean - string/string - char/string - null/null { return $value }
        bytes/object {
            if {[dict keys $value] eq "bytes" && [lindex [dict get $value bytes] 0] eq "string"} {
                return [binary decode hex [lindex [dict get $value bytes] 1]]
            }
        }
        default {
            if {$type ni $::bifrost::basic} { return [Contents $type $kind $value] }
        }
    }
    throw {BIFROST -connect} "the server has sent a value that is no $type"
}

# The items of a compound, or of a value whose type is not known.
proc ::bifrost::Contents {type kind value} {
    set parts [lassign [Parts $type] name]
    switch -- $name/$kind {
        sequence/array - array/array - vector/array - list/array {
            set element [lindex $parts 0 1]
            return [lmap item $value {Decode $element $item}]
        }
        map/array {
            # A list of pairs.
            set items {}
            foreach pair $value {
                foreach part $parts item [lindex $pair 1] {
                    lappend items [Decode [lindex $part 1] $item]
                }
            }
            return $items
        }
        struct/object - record/object - oneof/object - maybe/object {
            array set types [concat {*}$parts]
            if {$name eq "maybe"} { array set types [list some [lindex $parts 0 1] none null] }
            return [dict map {field item} $value {
                Decode [expr {[info exists types($field)] ? $types($field) : "any"}] $item
            }]
        }
    }
    switch -- $kind {
        array { return [lmap item $value {Decode any $item}] }
        object { return [dict map {field item} $value {Decode any $item}] }
        default { return $value }
    }
}

# ----- exceptions

# Makes exceptions of those that a batch was told, each with the exceptions that are told with it.
# `failed` has, for a call, the exceptions of its receiver and arguments from earlier batches.
proc ::bifrost::Exceptions {told failed} {
    set causes {}
    foreach json $told { dict set causes [Field $json call 0] $json }
    return [lmap json $told {Exception $json $causes $failed}]
}

# A dict: name, values, rounds (from 1, the outermost first), via (the calls that were not run
# because of it), text; call and calls (positions), and id, for the session.
proc ::bifrost::Exception {json causes failed} {
    set via {}
    set calls {}
    set root $json
    set earlier {}
    while {[dict exists $root unhandled]} {
        set call [Field $root call 0]
        lappend via [Field $root name "a call"]
        lappend calls $call
        set unhandled [lindex [dict get $root unhandled] 1]
        if {[dict exists $failed $call]} {
            set earlier [lindex [dict get $failed $call] [Field $unhandled argument 0]]
            if {$earlier ne ""} { break }
        }
        # A cause stands before what was not run because of it.
        set cause [Field $unhandled cause 0]
        if {![dict exists $causes $cause] || $cause >= $call} {
            set root {name {string {an earlier call}}}
            break
        }
        set root [dict get $causes $cause]
    }
    if {$earlier ne ""} {
        foreach key {name values rounds} { set $key [dict get $earlier $key] }
        set text [dict get $earlier said]
        lappend via {*}[dict get $earlier via]
    } else {
        lappend calls [Field $root call 0]
        set rounds [lmap round [Field $root rounds {}] {lindex $round 1}]
        set values [lmap value [Field $root values {}] {Signalled [lindex $value 1]}]
        set name [Field $root signal [Field $root refused unhandled_exc]]
        if {[dict exists $root refused]} {
            set text "[Field $root name {a call}] was refused: [Field $root text {no text}]"
        } else {
            set text "[Field $root name {a call}] signals $name"
            if {[llength $values]} { append text "([join $values {, }])" }
        }
    }
    set said $text
    if {[llength $via]} { append text "; not run: [join [lreverse $via] {, }]" }
    return [dict create name $name values $values rounds $rounds via $via text $text said $said \
        call [Field $json call 0] calls $calls id [incr ::bifrost::count]]
}

# A field of an object of JSON.
proc ::bifrost::Field {object name default} {
    return [expr {[dict exists $object $name] ? [lindex [dict get $object $name] 1] : $default}]
}

# A value of an exception: an object is its handle.
proc ::bifrost::Signalled {object} {
    if {[dict exists $object value]} { return [Decode any [dict get $object value]] }
    return [Field $object handle {}]
}

# The exception of a result that the server does not tell.
proc ::bifrost::Lost {what} {
    return [dict create name unhandled_exc values {} rounds {} via {} text "$what was not run" \
        said "$what was not run" call 0 calls {} id [incr ::bifrost::count]]
}

# Raises an exception: its code is BIFROST, its name, and its dict.
proc ::bifrost::Raise {exception {text {}}} {
    if {$text eq ""} { set text [dict get $exception text] }
    return -code error -errorcode [list BIFROST [dict get $exception name] $exception] $text
}

# ----- stubs that are held

# How often each value of a list is referred to, as far as this Tcl tells. A stub whose value is in
# no variable, list, dict, or command that runs has the same number as one that was never returned.
proc ::bifrost::References {stubs} {
    if {[info commands ::tcl::unsupported::representation] eq ""} {
        return [lrepeat [llength $stubs] {}]
    }
    return [lmap stub $stubs {
        set count {}
        scan [::tcl::unsupported::representation $stub] {%*[^0-9]%d} count
        set count
    }]
}

# ----- the session

# Connects to `tcp://host:port`, and returns a session. Options: -token, -name, and -timeout in
# milliseconds for the connection and for each answer (60000; 0 for none).
proc ::bifrost::connect {url args} {
    variable count
    # A number that nobody can know beforehand: no text from outside is the name of a stub.
    set session [format {::bifrost%d_%08x} [incr count] [expr {int(rand() * 0x100000000)}]]
    return [Session createWithNamespace $session $session $url $args]
}

oo::class create ::bifrost::Session {
    # The channel; why nothing can be recorded now, or an empty text; the word for an event.
    variable socket problem event input timeout
    # Lines that were not sent, and the number of those that were.
    variable pending lineNumber
    # The number of the last name, and the position of the last result of the batch.
    variable names position
    # Commands of the batch, their bytes, and the milliseconds for which they wait.
    variable commands bytes waits
    # Calls that can be recorded before the session looks for what else is to be done; and its
    # namespace.
    variable quick space
    # A stub's reference in lines, type, word for errors, and state (a structure's number; `value`
    # of a value that was told; empty); of several results of a call its position.
    variable stubs
    # Stubs of this batch, those of structures and iterators, those with a name, those with a value;
    # and how many of these are there until they are looked through.
    variable batch inner kept valued sweepAt
    # What a stub was told, in JSON; its exception; the columns of a table; the call of an iterator.
    variable told errors columns iterators
    # Stubs that are held by `keep`; names that the server can forget; the references of a stub that
    # nobody holds.
    variable pinned freed floor
    # The open structure: its lines and commands, depth, the kinds of its bodies, and the type that
    # `return` returns.
    variable block blockCommands blocks depth places returns
    # Headings by type and method; all methods of a type; the full names of types.
    variable headings plain methods types procedures
    # Exceptions of all batches, and those that no claim has told; those of operands, by call.
    variable history untold hasFailed failed
    variable transaction limits full longest welcome calls crossings

    constructor {url options} {
        namespace path [list {*}[namespace path] ::bifrost]
        namespace eval procedures {}
        lassign {} problem event input pending batch inner kept valued freed floor block places history \
            untold failed returns
        set space [self namespace]
        foreach number {quick lineNumber names position commands bytes waits blocks blockCommands depth
            hasFailed transaction calls crossings} {
            set $number 0
        }
        array set stubs {}
        array set errors {}
        set name [expr {[info exists ::argv0] ? $::argv0 : "tcl"}]
        set token [expr {[info exists ::env(BIFROST_TOKEN)] ? $::env(BIFROST_TOKEN) : ""}]
        set settings [dict create -name $name -timeout 60000 -token $token]
        foreach {option value} $options {
            if {![dict exists $settings $option]} {
                Wrong "connect has no option `$option`; it has: [join [dict keys $settings] {, }]"
            }
            dict set settings $option $value
        }
        dict with settings {}
        if {[llength $options] % 2 || ![IsCount ${-timeout}]} {
            Wrong "a timeout is in milliseconds, not `${-timeout}`"
        }
        set timeout ${-timeout}
        my Connect $url
        set hello "hello 2 json name [json::quote ${-name}]"
        if {${-token} ne ""} { append hello " token [json::quote ${-token}]" }
        my Say $hello
        # The limits come with the welcome.
        my Say limits
        set welcome [my Answer]
        if {[dict exists $welcome error]} {
            my Lost [Field $welcome text [Field $welcome error {no text}]]
        }
        set limits [dict map {name value} [my Part [my Answer] limits object] {
            if {![string is entier -strict [lindex $value 1]]} {
                my Lost "the server has sent a limit that is no number"
            }
            lindex $value 1
        }]
        # A batch is sent by itself before it reaches a limit of the server.
        set full(position) [expr {0.75 * [my Limit futures_max]}]
        set full(commands) [expr {0.75 * [my Limit batch_commands_max]}]
        set full(bytes) [expr {0.5 * [my Limit batch_bytes_max]}]
        set longest [my Limit frame_bytes_max]
        array set sweepAt [list valued $::bifrost::sweepMin]
        set sweepAt(kept) [expr {min($::bifrost::sweepMin, [my Limit handles_max] / 2)}]
        # A stub that is not returned tells how many references the session itself has.
        my Stub int probe
        set floor [lindex [References $batch] 0]
        my Forget [lindex $batch 0]
        lassign {} batch
        lassign {0 0} position names
    }

    destructor {
        if {[info exists socket]} { catch {chan close $socket} }
    }

    # The number of the session, for logs, and the name of the server.
    method number {} { return [Field $welcome session 0] }
    method server {} { return [Field $welcome server {}] }

    # The flushes that were answered, and the calls that they ran.
    method crossings {} { return $crossings }
    method calls {} { return $calls }

    # A well-known object. It has the type, or its first use fails.
    method lookup {name type} {
        my Outside lookup
        set type [my Type $type]
        my Room
        return [my Record "lookup [json::quote $name]: $type" $type lookup]
    }

    # A cell for values of a type, with a value if one is given.
    method cell {type args} {
        if {[llength $args] > 1} { Wrong "a cell has one value at most" }
        set type [my Type $type]
        my Room
        set cell [my Record "cell $type" "cell\[$type\]" cell]
        if {[llength $args]} { $cell put [lindex $args 0] }
        return $cell
    }

    # A value as a result, for methods of a value of Tcl: `[$s value int 7] to 8`.
    method value {type value} {
        set type [my Type $type]
        my Room
        set operand [my Operand $type $value]
        if {[string index $operand 0] eq "\{"} { set operand "value $type $operand" }
        return [my Record $operand $type value]
    }

    # A call of a routine of the program.
    method routine {name args} {
        if {![info exists types(routines)]} {
            set described [lmap line [split [my describe] \n] {string cat "  " $line}]
            set types(routines) [Headings [join $described \n]]
        }
        if {![dict exists $types(routines) $name]} {
            set known [join [lsort [dict keys $types(routines)]] {, }]
            Wrong "the server has no routine `$name`; it has: $known"
        }
        return [my Call {} [dict get $types(routines) $name] $args]
    }

    # The contents of an object as a value.
    method get {object} {
        my Outside get
        my Room
        return [my Record "get [my Receiver $object]" [lindex $stubs($object) 1] get]
    }

    # Runs the body for each value of an iterator.
    method foreach {variables iterator body} {
        my Iterate foreach $iterator [llength $variables]
        my Room
        my Structure {
            my Bind $variables [my Begin $iterator]
            my Body loop $body
            my Line end
        }
        return
    }

    # Runs the body while the condition is true: a body that records, whose last result is it.
    method while {condition body} {
        my Room
        my Structure {
            my Line while
            set test [my Body condition $condition]
            my Line "do [my Condition $test]"
            my Body loop $body
            my Line end
        }
        return
    }

    # Runs one of several bodies. A condition is a stub, a value, or a body as that of `while`.
    method if {test then args} {
        lassign $args word
        if {!([llength $args] == 0 || $word eq "else" && [llength $args] == 2
            || $word eq "elseif" && [llength $args] >= 3)} {
            Wrong "write `if CONDITION BODY ?elseif CONDITION BODY ...? ?else BODY?`"
        }
        my Room
        my Structure {
            if {[info exists stubs($test)] || [string is boolean -strict $test]} {
                my Line "if [my Condition $test] then" 2
            } else {
                my Line if
                set test [my Body block $test]
                my Line "then [my Condition $test]"
            }
            my Body block $then
            if {$word ne ""} { my Line else }
            if {$word eq "else"} {
                my Body block [lindex $args 1]
            } elseif {$word eq "elseif"} {
                uplevel 1 [list [self] if {*}[lrange $args 1 end]]
            }
            my Line end
        }
        return
    }

    # True if both are: the second one, a body, is run if the first one is true.
    method and {first second} { return [my Lazy $first $second 1] }

    # True if one is: the second one, a body, is run if the first one is false.
    method or {first second} { return [my Lazy $first $second 0] }

    # Leaves the innermost loop, or begins its next step.
    method break {} { my Leave break }
    method continue {} { my Leave continue }

    # Runs a body, and a handler if it signals an exception:
    #
    #     $s except {...} when not_found {} {...} when odd {n int} {...} others name {...}
    method except {body args} {
        set usage "except has `when NAME VARIABLES BODY` and `others VARIABLE BODY`"
        set handlers {}
        while {[llength $args]} {
            switch -- [lindex $args 0] {
                when { set args [lassign $args word name variables handler] }
                others { set args [lassign $args word variables handler]; set name {} }
                default { Wrong "$usage, not `[lindex $args 0]`" }
            }
            if {![regexp {^[A-Za-z0-9_]*$} $name]
                || $word eq "when" && ($name eq "" || [llength $variables] % 2)} {
                Wrong "write `when NAME {?VARIABLE TYPE ...?} BODY`"
            }
            lappend handlers $word $name $variables $handler
        }
        if {![llength $handlers]} { Wrong $usage }
        my Room
        my Structure {
            my Line except
            my Body block $body
            foreach {word name variables handler} $handlers {
                if {$word eq "when"} {
                    my Line "when $name [my Variables $variables]"
                } else {
                    my Line others[expr {$variables eq "" ? "" : " \$x"}]
                    if {$variables ne ""} { my Bind [list $variables] [my Stub string value] }
                }
                my Body block $handler
            }
            my Line end
        }
        return
    }

    # Defines a procedure of this session: `procedure twice {n int} int {$n * 2}`. Returns the
    # command that calls it. With an empty type of the result the body returns nothing.
    method procedure {name parameters result body} {
        if {$depth} { Wrong "a procedure stands outside other structures" }
        if {![regexp {^[A-Za-z0-9_]+$} $name] || [llength $parameters] % 2} {
            Wrong "write `procedure NAME {?VARIABLE TYPE ...?} RESULT BODY`"
        }
        if {[info exists procedures($name)]} { Wrong "the session has a procedure `$name`" }
        set result [expr {$result eq "" ? "" : [my Type $result]}]
        set wanted [lmap {variable type} $parameters {my Type $type}]
        set returns $result
        my Room
        my Structure {
            set returned [expr {$result eq "" ? "" : " returns $result"}]
            my Line "procedure $name [my Variables $parameters]$returned"
            set value [my Body procedure $body]
            if {$result ne ""} { my Line "return [my Operand $result $value]" }
            my Line end
        }
        set procedures($name) [list $name $wanted [expr {$result eq "" ? {} : [list $result]}] 0]
        set command ${space}::procedures::$name
        interp alias {} $command {} ${space}::my Run $name
        return $command
    }
    method Run {name args} { return [my Call {} $procedures($name) $args] }

    # Ends a procedure's run early, with its result.
    method return {args} {
        if {"procedure" ni $places} { Wrong "return stands in a procedure" }
        if {[llength $args] != ($returns ne "")} {
            Wrong "this procedure returns [expr {$returns eq "" ? "nothing" : "one $returns"}]"
        }
        my Line [expr {$returns eq "" ? "return" : "return [my Operand $returns [lindex $args 0]]"}]
        return
    }

    # A table: a row for each step of an iterator, with the values in the list that the body
    # returns. Its claim is a list of rows.
    method rows {variables iterator columnTypes body} {
        my Outside rows
        my Iterate rows $iterator [llength $variables]
        set wanted [lmap type $columnTypes {my Type $type}]
        my Room
        set rows [my Record "rows [join $wanted {, }]" rows rows]
        set columns($rows) $wanted
        my Structure {
            my Bind $variables [my Begin $iterator]
            set row [my Body loop $body]
            if {[llength $row] != [llength $wanted]} {
                Wrong "a row has [llength $row] values, and the table [llength $wanted] columns"
            }
            set operands [lmap type $wanted value $row {my Operand $type $value}]
            my Line "emit [lindex $stubs($rows) 0], [join $operands {, }]"
            incr position
            my Line end
        }
        return $rows
    }

    # Runs a body as a transaction: a batch of its own, which the server runs again after a
    # conflict. Returns what the body returns, once it is committed. The body is recorded once, and
    # claims nothing. Options before it: -tries (as many as the server likes); -batch, 32
    # hexadecimal digits and a number: with this name it is done once, however often it is sent, and
    # by any session.
    method transaction {args} {
        set options [dict create -tries 0 -batch {}]
        foreach {option value} [lrange $args 0 end-1] {
            if {![dict exists $options $option] || [llength $args] % 2 == 0} {
                Wrong "transaction has no option `$option`; it has: -tries, -batch"
            }
            dict set options $option $value
        }
        dict with options {}
        if {![IsCount ${-tries}] || ${-tries} > 65535} {
            Wrong "a transaction is tried from 0 (as the server likes) to 65535 times"
        }
        set command transaction
        if {${-tries}} { append command " ${-tries}" }
        if {${-batch} ne ""} {
            lassign ${-batch} client number
            if {![regexp {^[0-9a-f]{32}$} $client] || ![IsCount $number]} {
                Wrong "a batch has 32 hexadecimal digits and a number"
            }
            append command " batch \"$client\" $number"
        }
        my Outside transaction
        my flush
        my Tell transaction
        my Clear
        set done [my Record $command null transaction]
        set transaction 1
        set quick 0
        set code [catch {uplevel 1 [lindex $args end]} result info]
        set transaction 0
        if {$code} {
            if {$problem eq ""} {
                # The server refuses a transaction with an abort in it.
                my Record abort null abort
                my flush
                set untold {}
            }
            if {$code != 1} {
                set word [lindex {ok error return break continue} $code]
                Wrong "`$word` has left a transaction, which was dropped"
            }
            return -options $info $result
        }
        set failures [my flush]
        set untold {}
        # It is not committed after a failure, which says more than its own.
        if {[info exists errors($done)]} {
            foreach failure $failures {
                if {[dict get $failure name] ne "Unseen"} { Raise $failure }
            }
        }
        $done claim
        return $result
    }

    # Commits, or aborts, the transaction, and begins the next one. A commit fails if a failure of
    # the transaction was not claimed: then nothing is committed.
    method commit {} {
        my Outside commit
        my flush
        my Tell commit
        my Clear
        [my Record commit null commit] claim
        return
    }

    method abort {} {
        my Outside abort
        my flush
        set untold {}
        [my Record abort null abort] claim
        return
    }

    # Waits until others change an object that the transaction has read, for so many milliseconds.
    method wait {milliseconds} {
        my Outside wait
        if {![IsCount $milliseconds]} {
            Wrong "`$milliseconds` are no milliseconds"
        }
        my Room
        incr waits $milliseconds
        return [my Record "wait $milliseconds" bool wait]
    }

    # Records a batch whose last value is a list of stubs, sets variables to their values, and runs
    # a body; and does so again whenever others may have changed them, until the body leaves by
    # `break`. A wait and the next run are one crossing.
    method live {record variables body} {
        my commit
        set results [uplevel 1 $record]
        while 1 {
            my Bind $variables [lmap result $results {$result claim}]
            set code [catch {uplevel 1 $body} result info]
            if {$code == 3} {
                return
            } elseif {$code == 1 || $code == 2} {
                dict incr info -level
                return -options $info $result
            }
            set changed 0
            while {!$changed} {
                set wait [my wait $::bifrost::liveMs]
                set results [uplevel 1 $record]
                set changed [$wait claim]
            }
        }
    }

    # Sends the batch. Returns the exceptions that nobody has claimed.
    method flush {} {
        my Outside flush
        if {!$commands} { return {} }
        return [my Flush]
    }

    # The last exceptions, of all batches, the oldest first.
    method history {} { return $history }

    # The limits of the session, by their names.
    method limits {} { return $limits }

    # What the server knows of a type, or of all; the commands of the batch.
    method describe {{type {}}} {
        if {![regexp {^[\w.:,\[\] ]*$} $type]} { Wrong "`$type` is no type" }
        return [my Ask "describe $type" text string]
    }
    method explain {} { return [my Ask explain text string] }

    # Sends the batch, and ends the session; its results stay. The command of the session is
    # deleted by `destroy`.
    method close {} {
        if {![info exists socket]} { return }
        my Ready
        if {!$depth} { my flush }
        my Say bye
        my Answer
        my Hang "the session has ended"
    }

    # ----- calls

    # A stub with its words: a method of the server, which becomes a line, or a word of the stub.
    # This records plain calls, outside structures, as `Call` does; all else is `Word`'s.
    method Invoke {stub {method {}} args} {
        lassign $stubs($stub) reference type what state
        if {[incr quick -1] < 0 || $state ne "" || ![info exists plain($type)]
            || ![dict exists $plain($type) $method]} {
            return [my Word $stub $type $method $args]
        }
        lassign [dict get $plain($type) $method] name parameters result
        if {[llength $args] != [llength $parameters]} {
            my CheckCount $headings($type,$method) $args
        }
        set operands {}
        foreach parameter $parameters value $args {
            if {$parameter eq "int" && [string is entier -strict $value]
                && [string length $value] < 18} {
                lappend operands [expr {$value + 0}]
            } else {
                lappend operands [my Operand $parameter $value]
            }
        }
        set line "@[incr position] := $reference.${name}([join $operands {, }])"
        if {[string length $line] > 1000} {
            # The next call looks for room.
            set quick 0
            incr position -1
            my Fits $line
            incr position
        }
        lappend pending $line
        incr commands
        incr bytes [string length $line]
        set made ${space}::a[incr names]
        set stubs($made) [list @$position $result $name {}]
        interp alias {} $made {} ${space}::my Invoke $made
        lappend batch $made
        return $made
    }

    method Word {stub type method arguments} {
        if {$method eq ""} {
            # `{$test}` and `{[$n > 2]}` are bodies that return a stub.
            return $stub
        }
        set first [lindex $arguments 0]
        set count [dict get {claim 0 type 0 keep 0 free 0 as 1 is 1 call + send + {} {}} \
            [expr {$method in $::bifrost::words ? $method : ""}]]
        if {$count eq "+" ? $first eq "" : $count ne "" && $count != [llength $arguments]} {
            Wrong "$method takes [string map {+ {a method and its}} $count] arguments"
        }
        switch -- $method {
            claim { return [my Claim $stub] }
            type { return $type }
            keep { set pinned($stub) $stub; return $stub }
            free { my Forget $stub }
            as { return [my Cast $stub as [my Type $first] [my Type $first]] }
            is { return [my Cast $stub is [my Type $first] bool] }
            call { return [my Call $stub [my Heading $type $first] [lrange $arguments 1 end]] }
            send {
                my Room
                set heading [my Heading $type $first]
                my Line "send [my CallText $stub $heading [lrange $arguments 1 end]]"
                incr position
            }
            default { return [my Call $stub [my Heading $type $method] $arguments] }
        }
        return
    }

    method Cast {stub word type result} {
        my Room
        return [my Record "[my Receiver $stub] $word $type" $result $word]
    }

    # Records a call: of a method of a receiver, or of a routine.
    method Call {receiver heading arguments} {
        lassign $heading name parameters results yields
        if {$yields} {
            my CheckCount $heading $arguments
            return [my Iterator $receiver $heading $arguments]
        }
        my Room
        set text [my CallText $receiver $heading $arguments]
        set count [llength $results]
        if {$count < 2} {
            set stub [my Record $text [expr {$count ? [lindex $results 0] : "null"}] $name]
            set made [list $stub]
        } else {
            my Fits $text
            set call [expr {$position + 1}]
            set made [lmap type $results {my Stub $type $name $call}]
            set targets [lmap stub $made {lindex $stubs($stub) 0}]
            my Line "[join $targets {, }] := $text"
        }
        if {[array size errors]} {
            # What a stub of an earlier batch has failed with, the server does not tell again.
            set operands [lmap operand [concat [list $receiver] $arguments] {
                expr {[info exists errors($operand)] ? $errors($operand) : ""}
            }]
            if {$receiver eq ""} { set operands [lrange $operands 1 end] }
            dict set failed [string range [lindex $stubs([lindex $made 0]) 0] 1 end] $operands
        }
        return [expr {$count < 2 ? $stub : $made}]
    }

    method CheckCount {heading arguments} {
        lassign $heading name parameters
        if {[llength $arguments] != [llength $parameters]} {
            Wrong "$name takes [llength $parameters] arguments, not [llength $arguments]"
        }
    }

    # The text of a call.
    method CallText {receiver heading arguments} {
        my CheckCount $heading $arguments
        lassign $heading name parameters
        set operands [lmap type $parameters value $arguments {my Operand $type $value}]
        if {$receiver ne ""} { set name [my Receiver $receiver].$name }
        return "${name}([join $operands {, }])"
    }

    # The call of an iterator, which `foreach` and `rows` run: a command with the word `list`.
    method Iterator {receiver heading arguments} {
        my Ready
        set stub ${space}::i[incr names]
        set stubs($stub) [list {} iterator [lindex $heading 0] {}]
        set iterators($stub) [list $receiver $heading $arguments]
        interp alias {} $stub {} ${space}::my List $stub
        lappend inner $stub
        return $stub
    }

    # Sends the batch, and returns the first values.
    method List {stub {word list} {max 1000}} {
        if {$word ne "list" || ![IsCount $max]} {
            Wrong "the call of an iterator is for foreach and rows; or write `list ?MAX?`"
        }
        my Outside list
        my flush
        lassign $iterators($stub) receiver heading arguments
        set answer [my Ask "list $max [my CallText $receiver $heading $arguments]"]
        # It has ended the batch.
        lassign {0 0 0 0} position commands bytes quick
        set exceptions [my Part $answer exceptions array]
        if {[llength $exceptions]} {
            Raise [lindex [Exceptions [lmap json $exceptions {lindex $json 1}] {}] 0]
        }
        lassign $heading name parameters results
        return [lmap value [my Part $answer values array] {
            set value [lindex $value 1]
            if {![dict exists $value value]} {
                Wrong "the values of $name are objects: use foreach or rows"
            }
            Decode [lindex $results 0] [dict get $value value]
        }]
    }

    # Checks the operands of a loop over an iterator.
    method Iterate {word iterator count} {
        if {![info exists iterators($iterator)]} {
            Wrong "$word wants the call of an iterator, not `[my Shown $iterator]`"
        }
        lassign [lindex $iterators($iterator) 1] name parameters results
        if {[llength $results] != $count} {
            Wrong "$name yields [llength $results] values, and there are $count variables"
        }
    }

    # Begins a loop over an iterator; returns the stubs of its values.
    method Begin {iterator} {
        lassign $iterators($iterator) receiver heading arguments
        set text [my CallText $receiver $heading $arguments]
        set values [lmap type [lindex $heading 2] {my Stub $type value}]
        set count 0
        set targets [lmap value $values {string cat \$x [incr count]}]
        my Line "foreach [join $targets {, }] in $text do" 2
        return $values
    }

    # Sets variables of the program to values.
    method Bind {variables values} {
        foreach variable $variables value $values {
            upvar 2 $variable place
            set place $value
        }
    }

    # Sets variables of the program to stubs, by pairs of a name and a type; returns how a line has
    # them.
    method Variables {variables} {
        set count 0
        set typed [lmap {variable type} $variables {
            set type [my Type $type]
            upvar 2 $variable place
            set place [my Stub $type value]
            string cat \$x [incr count] ": " $type
        }]
        return [expr {$count ? "([join $typed {, }])" : ""}]
    }

    method Lazy {first second goesOn} {
        set cell [my cell bool $first]
        set body [list $cell put]
        set record "$body \[$second\n\]"
        if {$goesOn} {
            uplevel 2 [list [self] if [$cell get] $record]
        } else {
            uplevel 2 [list [self] if [$cell get] {} else $record]
        }
        return [$cell get]
    }

    method Leave {word} {
        # The condition of a loop is not left.
        if {[lsearch -inline -regexp $places {^(loop|condition)$}] ne "loop"} { Wrong "$word stands in a loop" }
        my Line $word
    }

    # The value of a stub, once the server has told it; sends the batch if it has not. The claim of
    # an object is the stub itself.
    method Claim {stub} {
        my Outside claim
        if {![info exists told($stub)] && ![info exists errors($stub)]} {
            my Ready
            my flush
        }
        lassign $stubs($stub) reference type what
        if {[info exists errors($stub)]} {
            set exception $errors($stub)
            set seen [list [dict get $exception id] {*}[dict get $exception causes]]
            set untold [lmap other $untold {
                if {[dict get $other id] in $seen} continue
                set other
            }]
            Raise $exception
        }
        if {![info exists told($stub)]} {
            Wrong "the result of $what was not told: its structure has ended"
        }
        set result $told($stub)
        if {[info exists columns($stub)]} {
            return [lmap row [my Part $result rows array] {
                if {[llength [lindex $row 1]] != [llength $columns($stub)]} {
                    my Lost "the server has sent a row of [llength [lindex $row 1]] values"
                }
                lmap item [lindex $row 1] column $columns($stub) {Decode $column $item}
            }]
        }
        if {[dict exists $result value]} { return [Decode $type [dict get $result value]] }
        return $stub
    }

    # ----- structures

    # Records a structure, whole or not at all. The script is run in the frame of the caller.
    method Structure {record} {
        my Ready
        set max [my Limit depth_max]
        if {$depth >= $max} { Wrong "structures nest $max deep at most" }
        set quick 0
        if {!$depth} {
            lassign {} block places
            set blockCommands 0
            incr blocks
        }
        set from [list [llength $block] $blockCommands $position [llength $inner]]
        incr depth
        set code [catch {uplevel 1 $record} result options]
        incr depth -1
        if {$code} {
            lassign $from count blockCommands position first
            set block [lrange $block 0 $count-1]
            # Their positions are given again.
            foreach stub [lrange $inner $first end] {
                if {[info exists stubs($stub)]} { lset stubs($stub) 3 -1 }
            }
            return -options $options $result
        }
        if {!$depth} {
            set recorded $block
            set block {}
            foreach line $recorded { my Append $line }
            incr commands $blockCommands
        }
    }

    # Runs the body of a structure once, in the frame of the program.
    method Body {kind body} {
        set outer $places
        set places [linsert $places 0 $kind]
        set code [catch {uplevel 2 $body} result options]
        set places $outer
        switch $code {
            0 { return $result }
            1 { return -options $options $result }
            2 { set word return }
            3 { set word break }
            4 { set word continue }
            default { set word "code $code" }
        }
        Wrong "`$word` has left a structure, which was dropped: write `\$session $word`"
    }

    method Outside {what} {
        if {$depth} { Wrong "$what stands outside structures" }
        if {$transaction && $what in {claim flush commit abort transaction wait list}} {
            Wrong "$what stands outside transactions"
        }
    }

    # ----- operands

    # A stub as it is shown in errors: its name says nothing.
    method Shown {value} {
        return [expr {[info exists stubs($value)] ? [lindex $stubs($value) 2] : $value}]
    }

    # The reference of a stub as a line has it.
    method Reference {stub} {
        if {![info exists stubs($stub)]} {
            my Strange $stub
            Wrong "`$stub` is no result of a call"
        }
        lassign $stubs($stub) reference type what state
        if {[string is integer -strict $state] && !($depth && $state == $blocks)} {
            Wrong "the stub of $what ended with its structure"
        }
        if {$reference eq ""} { Wrong "the $type of $what is no value" }
        return $reference
    }

    # The same, for a stub as a receiver: a value becomes a result of the batch.
    method Receiver {stub} {
        set reference [my Reference $stub]
        if {[lindex $stubs($stub) 3] eq "value"} {
            incr position
            if {[string index $reference 0] ne "\$"} {
                my Line "@$position := $reference"
                return @$position
            }
        }
        return $reference
    }

    # The same, for the condition of a structure.
    method Condition {test} {
        set operand [my Operand bool $test]
        if {[info exists stubs($test)]} { return [my Receiver $test] }
        my Line "@[incr position] := $operand"
        return @$position
    }

    # Fails if a text is the name of a stub of another session, or of one that is no more.
    method Strange {value} {
        if {[regexp {^::bifrost\d+_[0-9a-f]{8}::[ai]\d+$} $value]} {
            if {[string match ${space}::* $value]} {
                Wrong "the stub was dropped: no variable had it"
            }
            Wrong "the stub belongs to another session"
        }
    }

    # An argument of a type: a stub, or a value of Tcl.
    method Operand {type value} {
        if {[info exists stubs($value)]} {
            set actual [lindex $stubs($value) 1]
            if {$type ne $actual && $type in $::bifrost::basic && $actual in $::bifrost::basic} {
                Wrong "a $type is wanted, and this is a $actual"
            }
            return [my Reference $value]
        }
        if {$type eq "int" && [string is entier -strict $value]} {
            if {$value < -0x8000000000000000 || $value > 0x7fffffffffffffff} {
                Wrong "`$value` has more than the 64 bits of an int"
            }
            return [expr {$value + 0}]
        }
        my Strange $value
        switch -- $type {
            null {
                if {$value ne ""} { Wrong "nil is an empty string, not `$value`" }
                return nil
            }
            int { Wrong "`$value` is no int" }
            real {
                if {![string is double -strict $value] || [catch {expr {double($value)}} real]
                    || $real in {Inf -Inf}} {
                    Wrong "`$value` is no finite real"
                }
                return $real
            }
            bool {
                if {![string is boolean -strict $value]} { Wrong "`$value` is no bool" }
                return [expr {$value ? "true" : "false"}]
            }
            string { return [json::quote $value] }
            char {
                if {![regexp {^(?:[^\ud800-\udfff]|[\ud800-\udbff][\udc00-\udfff])$} $value]} {
                    Wrong "a char is one character, not `$value`"
                }
                return [format {'\u{%x}'} [scan $value %c]]
            }
            bytes {
                if {[regexp {[^\u0000-\u00ff]} $value]} {
                    Wrong "bytes are characters up to \\u00ff"
                }
                return "x\"[binary encode hex $value]\""
            }
        }
        return [my Compound $type $value]
    }

    # The items of a value that crosses by value.
    method Compound {type value} {
        set parts [lassign [Parts $type] name]
        if {$name in {sequence array vector list}} {
            if {![string is list $value]} { Wrong "a $type is a list" }
            set items [lmap item $value {my Operand [lindex $parts 0 1] $item}]
            return "{[join $items {, }]}"
        }
        if {$name ni {struct record oneof maybe}} { Wrong "a $type is a stub, not `$value`" }
        if {![string is list $value] || [llength $value] % 2} { Wrong "a $type is a dict" }
        if {$name in {oneof maybe}} {
            set tags [expr {$name eq "oneof" ? [concat {*}$parts]
                : [list some [lindex $parts 0 1] none null]}]
            lassign $value tag item
            if {[llength $value] != 2} { Wrong "a $type is a dict with its tag" }
            if {![dict exists $tags $tag]} { Wrong "a $type has no tag `$tag`" }
            return "{$tag: [my Operand [dict get $tags $tag] $item]}"
        }
        foreach field [dict keys $value] {
            if {$field ni [lmap part $parts {lindex $part 0}]} {
                Wrong "a $type has no field `$field`"
            }
        }
        set items [lmap part $parts {
            lassign $part field inner
            if {![dict exists $value $field]} { Wrong "a $type has the field `$field`" }
            string cat $field ": " [my Operand $inner [dict get $value $field]]
        }]
        return "{[join $items {, }]}"
    }

    # ----- types

    # The full name of a type, whose methods are known from then on.
    method Type {type} {
        if {[info exists types($type)]} { return $types($type) }
        try {
            set text [my describe $type]
        } trap {BIFROST -line} {} {
            Wrong "the server has no type `$type`"
        }
        # An equate: `point = record[x: int, y: int] = type`.
        set name $type
        regexp -line {^\w+ = (.+) = type$} $text -> name
        set types($type) $name
        set types($name) $name
        set methods($name) [Headings $text]
        dict for {method heading} $methods($name) {
            if {$method ni $::bifrost::words} { my Learn $name $method $heading }
        }
        dict for {operator method} $::bifrost::operators {
            if {[dict exists $methods($name) $method]} {
                my Learn $name $operator [dict get $methods($name) $method]
            }
        }
        return $name
    }

    method Learn {type word heading} {
        set headings($type,$word) $heading
        lassign $heading method parameters results yields
        if {!$yields && [llength $results] < 2} {
            set result [expr {[llength $results] ? [lindex $results 0] : "null"}]
            dict set plain($type) $word [list $method $parameters $result]
        }
    }

    # The heading of a method, from what the server says of the type.
    method Heading {type method} {
        if {$type in {iterator rows}} {
            Wrong "this is no object: its word is claim, or it is for foreach"
        }
        set name [my Type $type]
        if {[info exists headings($name,$method)]} { return $headings($name,$method) }
        if {![dict exists $methods($name) $method]} {
            set known [join [lsort [dict keys $methods($name)]] {, }]
            Wrong "$type has no method `$method`; it has: $known"
        }
        return [dict get $methods($name) $method]
    }

    # ----- stubs

    # Records a command that has a result, for which there is `Room`.
    method Record {text type what} {
        my Fits $text
        set stub [my Stub $type $what]
        my Line "[lindex $stubs($stub) 0] := $text"
        return $stub
    }

    # A stub for the next result of the batch.
    method Stub {type what {call {}}} {
        if {$problem ne ""} { my Ready }
        incr position
        set stub ${space}::a[incr names]
        set stubs($stub) [list @$position $type $what [expr {$depth ? $blocks : ""}] {*}$call]
        interp alias {} $stub {} ${space}::my Invoke $stub
        if {$depth} {
            lappend inner $stub
        } else {
            lappend batch $stub
        }
        return $stub
    }

    # Forgets a stub, and its name.
    method Forget {stub} {
        set reference [lindex $stubs($stub) 0]
        if {[string index $reference 0] eq "\$"} { lappend freed $reference }
        unset -nocomplain stubs($stub) told($stub) errors($stub) columns($stub) iterators($stub) \
            pinned($stub)
        interp alias {} $stub {}
    }

    # Forgets the stubs of a list that nobody holds. Each name in an array is a reference, too.
    method Sweep {which} {
        upvar #0 ${space}::$which list
        set isPlain [expr {$which eq "batch" && ![array size columns] && $floor ne ""}]
        set held {}
        foreach stub $list count [References $list] {
            if {$isPlain && $count == $floor} {
                # As `Forget`, in a hurry.
                unset stubs($stub)
                rename $stub {}
                continue
            }
            if {![info exists stubs($stub)]} { continue }
            set own [expr {[info exists told($stub)] + [info exists errors($stub)]
                + [info exists columns($stub)] + [info exists iterators($stub)]}]
            if {$floor eq "" || $count - $own > $floor} {
                lappend held $stub
            } else {
                my Forget $stub
            }
        }
        set list $held
    }

    # ----- the batch

    # Fails if nothing can be recorded.
    method Ready {} {
        if {$problem ne ""} { throw {BIFROST -connect} $problem }
    }

    # A limit of the session; another server may have none of this name.
    method Limit {name} { return [expr {[dict exists $limits $name] ? [dict get $limits $name] : 1e9}] }

    # Sends the batch if it is nearly full. References are good for lines that follow this. Counts
    # the calls that `Invoke` may record before it has to look again.
    method Room {} {
        if {$depth || $transaction} { return }
        set isLong [expr {[llength $batch] >= $::bifrost::batchMax}]
        if {$isLong} { my Sweep batch }
        if {$isLong && 4 * [llength $batch] > 3 * $::bifrost::batchMax || $position >= $full(position)
            || $commands >= $full(commands) || $bytes >= $full(bytes)} {
            my Flush
        }
        set quick 0
        if {$problem eq "" && ![array size errors]} {
            set quick [expr {int(min($full(position) - $position, $full(commands) - $commands,
                $::bifrost::batchMax - [llength $batch]))}]
        }
    }

    # Fails if a line is too long for the server.
    method Fits {line} {
        if {4 * [string length $line] > $longest
            && [string length [encoding convertto utf-8 $line]] > $longest - 64} {
            Wrong "a line has at most [expr {$longest - 64}] bytes (frame_bytes_max), and this has more"
        }
    }

    # Appends a line: to the open structure, or to the batch.
    method Line {line {count 1}} {
        my Ready
        my Fits $line
        if {$depth || $transaction} {
            set max [my Limit batch_commands_max]
            if {$commands + $blockCommands + $count > $max - 4} {
                Wrong "a batch has at most $max commands (batch_commands_max)"
            }
        }
        if {$depth} {
            lappend block $line
            incr blockCommands $count
        } else {
            my Append $line
            incr commands $count
        }
        return
    }

    method Append {line} {
        lappend pending $line
        incr bytes [string length $line]
    }

    # Sends the batch, and gives its results to the stubs that are held.
    method Flush {} {
        my Ready
        my Sweep batch
        my Sweep inner
        foreach list {kept valued} {
            if {[llength [set $list]] >= $sweepAt($list)} {
                my Sweep $list
                set sweepAt($list) [expr {max($::bifrost::sweepMin, 2 * [llength [set $list]])}]
            }
        }
        set sweepAt(kept) [expr {min($sweepAt(kept), [my Limit handles_max] / 2)}]
        if {[llength $batch] + [llength $kept] > $::bifrost::namesMax} {
            my Sweep kept
            if {[llength $batch] + [llength $kept] > $::bifrost::namesMax} {
                Wrong "a session holds at most $::bifrost::namesMax results (bifrost::namesMax): free some"
            }
        }
        my Unname
        # Stubs by the name that the answer has.
        set asked [dict create]
        foreach stub $batch {
            set reference [lindex $stubs($stub) 0]
            if {[llength $stubs($stub)] == 4} {
                lappend stubs($stub) [string range $reference 1 end]
            }
            if {![info exists columns($stub)]} {
                set name \$[namespace tail $stub]
                my Say "$name := $reference"
                lset stubs($stub) 0 $name
                set reference $name
            }
            dict set asked $reference $stub
        }
        # Nothing is run if a line before this was not taken: the position would be another.
        set mark @[incr position]
        my Say "$mark := 0"
        my Say "? $mark[join [linsert [dict keys $asked] 0 {}] {, }]"
        set answer [my Answer $waits]
        if {[dict exists $answer error]} {
            my Lost "[Field $answer error {}]: [Field $answer text {no text}]"
        }
        try {
            return [my Settle $answer $asked]
        } trap BIFROST {text} {
            my Lost $text
        } on error {text} {
            my Lost "the server has sent an answer that is none: $text"
        }
    }

    # Takes the answer to a batch, in which stubs have these names.
    method Settle {answer asked} {
        incr crossings
        incr calls [Field $answer calls 0]
        set exceptions [my Told [my Part $answer exceptions array]]
        set byCall [dict create]
        foreach exception $exceptions { dict set byCall [dict get $exception call] $exception }
        foreach result [my Part $answer results array] {
            set result [lindex $result 1]
            set name [Field $result name {}]
            if {[dict exists $asked $name]} {
                my Give [dict get $asked $name] $result $byCall $exceptions
            }
        }
        set history [lrange [concat $history $exceptions] end-[expr {$::bifrost::historyMax - 1}] end]
        lappend untold {*}$exceptions
        if {[llength $exceptions]} { set hasFailed 1 }
        lassign {0 0 0 0 0} position commands bytes waits quick
        lassign {} batch failed
        return $exceptions
    }

    # The exceptions of an answer, each with those that are told with it.
    method Told {told} {
        set exceptions [Exceptions [lmap json $told {lindex $json 1}] $failed]
        # In a loop a call may fail several times.
        set ids [dict create]
        foreach exception $exceptions {
            dict set ids [dict get $exception call] [dict get $exception id]
        }
        return [lmap exception $exceptions {
            set causes {}
            foreach call [dict get $exception calls] {
                if {[dict exists $ids $call]} { lappend causes [dict get $ids $call] }
            }
            dict set exception causes $causes
        }]
    }

    # Gives a stub its result: from now on it stands for it in lines.
    method Give {stub result byCall exceptions} {
        lassign $stubs($stub) reference type what state call
        if {[dict exists $result failed] || [dict exists $result not_reached]} {
            # What was not reached has the failure that ended the batch.
            if {[dict exists $result not_reached]} {
                set errors($stub) [lindex $exceptions end]
            } elseif {[dict exists $byCall $call]} {
                set errors($stub) [dict get $byCall $call]
            }
            if {![info exists errors($stub)] || $errors($stub) eq ""} {
                set errors($stub) [Lost $what]
            }
            set quick 0
            lappend kept $stub
            return
        }
        set told($stub) $result
        if {[info exists columns($stub)]} {
            # A table ends with its batch.
            lset stubs($stub) 0 {}
            lappend valued $stub
            return
        }
        if {![dict exists $result value]} {
            lappend kept $stub
            return
        }
        lset stubs($stub) 3 value
        if {$type in $::bifrost::basic} {
            set value [Decode $type [dict get $result value]]
            if {$value ni {Inf -Inf NaN} || $type ne "real"} {
                lset stubs($stub) 0 [my Operand $type $value]
                lappend freed $reference
                lappend valued $stub
                return
            }
        }
        lappend kept $stub
    }

    # Gives names back to the server.
    method Unname {} {
        for {set at 0} {$at < [llength $freed]} {incr at 1000} {
            my Say "free [join [lrange $freed $at $at+999] {, }]"
        }
        set freed {}
    }

    # Says that the program knows all failures: the server commits nothing before.
    method Clear {} {
        if {$hasFailed} {
            my Line clear
            set hasFailed 0
        }
    }

    # Fails with the first failure that nobody has claimed.
    method Tell {word} {
        if {![llength $untold]} { return }
        set more [lassign $untold first]
        set untold {}
        set text "$word was not sent: [dict get $first text]"
        if {[llength $more]} { append text ", and [llength $more] more failures" }
        Raise $first $text
    }

    # ----- the conversation

    method Connect {url} {
        if {![regexp {^tcp://(?:\[(.+)\]|([^]:[]+)):(\d{1,5})$} $url -> literal host port]
            || $port > 65535} {
            Wrong "`$url` is no address for this client: it speaks tcp://host:port"
        }
        set host $literal$host
        set limits {}
        try {
            set socket [socket -async $host $port]
            chan configure $socket -blocking 0 -translation binary -buffersize 65536
            # Tcl 9 has it.
            catch {chan configure $socket -nodelay 1}
        } on error {text} {
            set problem "nobody answers at $url: $text"
            my Ready
        }
        my Await writable [my Deadline 0] "nobody answers at $url within $timeout milliseconds"
        set error [chan configure $socket -error]
        if {$error ne ""} { my Lost "nobody answers at $url: $error" }
    }

    # The time at which patience ends, in milliseconds; 0 for never.
    method Deadline {more} {
        return [expr {$timeout ? [clock milliseconds] + $timeout + $more : 0}]
    }

    # Waits for the socket in the event loop, in which others may not use the session.
    method Await {direction deadline why} {
        set place ${space}::event
        set quick 0
        set problem "the session waits for an answer"
        chan event $socket $direction [list set $place ready]
        set timer {}
        if {$deadline} {
            set timer [after [expr {max(0, $deadline - [clock milliseconds])}] [list set $place late]]
        }
        vwait $place
        after cancel $timer
        chan event $socket $direction {}
        set problem {}
        if {$event eq "late"} { my Lost $why }
    }

    # Appends a line that is no command of the batch.
    method Say {line} {
        lappend pending $line
    }

    method Send {} {
        if {![llength $pending]} { return }
        incr lineNumber [llength $pending]
        set out [encoding convertto utf-8 [join $pending \n]\n]
        set pending {}
        try {
            puts -nonewline $socket $out
            chan flush $socket
        } on error {text} {
            my Lost "the server takes no more: $text"
        }
    }

    # Asks for something that is answered at once, in the middle of a batch, too; returns a part of
    # the answer, or all of it.
    method Ask {line {part {}} {kind {}}} {
        my Ready
        my Fits $line
        my Say $line
        set answer [my Answer]
        if {[dict exists $answer error]} {
            set text [Field $answer text {no text}]
            if {[Field $answer error {}] eq "BadLine" && [Field $answer line 0] == $lineNumber} {
                set column [Field $answer column 0]
                throw {BIFROST -line} "the server does not take a line, column $column: $text"
            }
            my Lost "[Field $answer error {}]: $text"
        }
        return [expr {$part eq "" ? $answer : [my Part $answer $part $kind]}]
    }

    # A part of an answer.
    method Part {answer part kind} {
        if {![dict exists $answer $part] || [lindex [dict get $answer $part] 0] ne $kind} {
            my Lost "the server has sent an answer without $part"
        }
        return [lindex [dict get $answer $part] 1]
    }

    # Sends what waits, and reads a line of JSON: the fields of an object.
    method Answer {{more 0}} {
        my Send
        set deadline [my Deadline $more]
        set end [string first \n $input]
        while {$end < 0} {
            if {[string length $input] > $::bifrost::answerBytesMax} {
                my Lost "an answer has more than $::bifrost::answerBytesMax bytes (bifrost::answerBytesMax)"
            }
            my Await readable $deadline "no answer came within $timeout milliseconds"
            try {
                set bytesRead [chan read $socket]
            } on error {text} {
                my Lost "the session is lost: $text"
            }
            if {$bytesRead eq "" && [chan eof $socket]} {
                my Lost "the server has ended the session"
            }
            set at [string first \n $bytesRead]
            if {$at >= 0} { set end [expr {[string length $input] + $at}] }
            append input $bytesRead
        }
        set line [string range $input 0 $end-1]
        set input [string range $input $end+1 end]
        if {![string is ascii $line]} {
            if {[catch {encoding convertfrom utf-8 $line} text]
                || [encoding convertto utf-8 $text] ne $line} {
                my Lost "the server has sent a line that is no UTF-8"
            }
            set line $text
        }
        try {
            lassign [json::read $line] kind answer
        } trap {BIFROST -json} {text} {
            my Lost "the server has sent a line that is no answer: $text"
        }
        if {$kind ne "object"} { my Lost "the server has sent a line that is no answer" }
        foreach list {results exceptions} {
            if {![dict exists $answer $list]} continue
            foreach item [my Part $answer $list array] {
                if {[lindex $item 0] ne "object"} {
                    my Lost "the server has sent an answer whose $list are no list"
                }
            }
        }
        return $answer
    }

    # Ends the session, without a word.
    method Hang {why} {
        set problem $why
        set quick 0
        catch {chan close $socket}
        unset -nocomplain socket
    }

    method Lost {why} {
        my Hang "the session has ended"
        throw {BIFROST -connect} $why
    }
}

oo::objdefine ::bifrost::Session export createWithNamespace
oo::define ::bifrost::Session export Invoke

package provide bifrost 0.1.0
