//! What is refused, with what words; and that the session goes on.

mod support;

use bifrost_session::Limits;
use bifrost_wire::{Limit, VERSION};
use support::{World, assert_text, check, each_mode};

/// A batch that works only if the session is in order, and its answer.
const PROBE: &str =
    "t = lookup tally Tally\n x = Tally.reset t\n y = Tally.add t 2\n z = int.mul y 21\n flush z";

/// A script is answered as expected, and then the probe is.
#[track_caller]
fn refused(script: &str, expected: &str) {
    check(&format!("{script}\n{PROBE}"), &format!("{expected}\nz = 42"));
}

#[test]
fn handles_that_were_never_given() {
    refused(
        r#"
        a = Tally.value #1
        b = Tally.value #4294967297
        c = Tally.value #9223372036854775807
        d = is_same() #2 #3
        free #1
        flush quiet a b c d
        "#,
        r#"
        a = exception of -1
        b = exception of -2
        c = exception of -3
        d = exception of -4
        -1: NoSuchHandle: handle h1 is not a handle of this session, or it was freed
        -2: NoSuchHandle: handle h4294967297 is not a handle of this session, or it was freed
        -3: NoSuchHandle: handle h9223372036854775807 is not a handle of this session, or it was freed
        -4: NoSuchHandle: handle h2 is not a handle of this session, or it was freed
        "#,
    );
    refused(
        r#"
        free #77
        free #-1
        free #0
        flush
        "#,
        r#"
        -1: NoSuchHandle: handle h77 cannot be given back
        -1: NoSuchHandle: handle -1 cannot be given back
        -1: NoSuchHandle: handle 0 cannot be given back
        "#,
    );
}

#[test]
fn another_sessions_handles_mean_nothing_here() {
    each_mode(|world| {
        let mut one = world.client();
        let mut two = world.client();
        let expected = "t = Tally#1.0\n v = 7";
        assert_text(&one.play("t = lookup tally Tally\n v = Tally.add t 7\n flush t v"), expected, "");
        assert_text(
            &two.play("v = Tally.value #1\n flush v"),
            "v = exception of -1\n -1: NoSuchHandle: handle h1 is not a handle of this session, or it was freed",
            "",
        );
        // The objects are shared as soon as they are committed, the numbers are not.
        assert_text(&one.play("c = commit\n flush c"), "c = nil", "");
        assert_text(
            &two.play("clear_history\n a = abort\n d = lookup db\n t = lookup tally Tally\n flush d t"),
            "d = DataBase#1.0\n t = Tally#2.0",
            "",
        );
        assert_text(&two.play("v = Tally.bump t\n c = commit\n flush v c"), "v = 8\n c = nil", "");
        assert_text(&one.play("v = Tally.value t\n flush v"), "v = 8", "");
    });
}

#[test]
fn futures_that_are_not_defined() {
    refused(
        r#"
        a = int.add #-1 1
        b = int.add #-5 1
        c = int.add #-4294967295 1
        d = int.add #-4294967296 1
        e = int.add #-9223372036854775808 1
        t = lookup tally Tally
        n = Tally.reset t
        f = is_same() t n
        flush a
        "#,
        r#"
        a = exception of -1
        -1: BadFuture: -1 is not defined yet; the next future is -1
        -2: BadFuture: -5 is not defined yet; the next future is -2
        -3: BadFuture: -4294967295 is not defined yet; the next future is -3
        -4: BadFuture: -4294967296 is not a future of this batch or an earlier one
        -5: BadFuture: -9223372036854775808 is not a future of this batch or an earlier one
        -8: BadFuture: the call -7 has no result
        "#,
    );
    refused(
        r#"
        one = const 1
        foreach
            i = int.to one 3
            a = int.add #-3 1
        end_foreach
        foreach
            j = int.to one 3
            a = int.add #-9 1
        end_foreach
        foreach
            k = int.to one 3
        end_foreach
        foreach
            l = int.to one 3
            b = int.add k 1
        end_foreach
        if
            y = int.lt one 2
        then y
            m = int.add one 1
        else
            n = int.add m 1
        end_if
        p = cell int
        if
            y = int.lt one 2
        then y
            s = cell[int].put p 1
            q = int.add s 1
        end_if
        c = int.add m 1
        flush
        "#,
        r#"
        -3: BadFuture: -3 is not defined yet; the next future is -3
        -5: BadFuture: -9 is not defined yet; the next future is -5
        -8: BadFuture: -6 belongs to a control structure and is not valid outside it; store its value in a cell
        -11: BadFuture: the receiver: the call `-10` may not have run when its result is used here
        -15: BadFuture: the call -14 has no result
        -16: unhandled_exc, argument 0 of -11
        "#,
    );
}

#[test]
fn wrong_types_and_counts_of_single_calls() {
    refused(
        r#"
        t = lookup tally Tally
        a = Shape.area t
        b = Tally.add t "x"
        c = Tally.add t t
        d = Tally.add t
        e = Tally.add t 1 2
        f = sum() t
        g = sum()
        h = Tally.add 5 1
        i = Tally.add t nil
        j = Tally.add t true
        k = int.add t 1
        flush
        "#,
        r#"
        -2: WrongType: the receiver: expected `Shape`, found `Tally`
        -3: WrongType: argument 1: expected `int`, found `string`
        -4: WrongType: argument 1: expected `int`, found `Tally`
        -5: WrongCount: 1 arguments expected, 0 given
        -6: WrongCount: 1 arguments expected, 2 given
        -7: WrongType: argument 1: expected `array[int]`, found `Tally`
        -8: WrongCount: 1 arguments expected, 0 given
        -10: WrongType: the receiver: expected `Tally`, found `int`
        -11: WrongType: argument 1: expected `int`, found `null`
        -12: WrongType: argument 1: expected `int`, found `bool`
        -13: WrongType: the receiver: expected `int`, found `Tally`
        "#,
    );
}

#[test]
fn wrong_types_and_counts_in_structures() {
    let inside = |line: &str, what: &str| {
        refused(
            &format!(
                r#"
                t = lookup tally Tally
                c = cell bool
                if
                    y = bool.bnot c2
                then y
                    x = Tally.bump t
                    {line}
                end_if
                v = Tally.value t
                flush v
                "#
            )
            .replace("c = cell bool", "c2 = const false"),
            &{
                // A marker in the wrong place ends the batch: what follows is not run.
                let v = if what.contains("MarkerMismatch") { "absent" } else { "0" };
                if what.starts_with('-') {
                    format!("v = {v}\n {what}")
                } else {
                    format!("v = {v}\n -5: {what}")
                }
            },
        );
    };
    inside("z = Shape.area t", "WrongType: the receiver: expected `Shape`, found `Tally`");
    inside("z = Tally.add t true", "WrongType: argument 1: expected `int`, found `bool`");
    inside("z = Tally.add t t", "WrongType: argument 1: expected `int`, found `Tally`");
    inside("z = Tally.add t", "WrongCount: 1 arguments expected, 0 given");
    inside("z = Tally.add t 1 2 3", "WrongCount: 1 arguments expected, 3 given");
    inside("z = Tally.add x 1", "WrongType: the receiver: expected `Tally`, found `int`");
    inside("z = sum() x", "WrongType: argument 1: expected `array[int]`, found `int`");
    inside("z = #9999 t", "NoSuchMethod: there is no method number 9999");
    inside("z = #9999()", "NoSuchRoutine: there is no routine number 9999");
    inside(
        "z = proc 9 1",
        "NoSuchProcedure: there is no batched procedure number 9, or its definition was refused",
    );
    inside("z = cell #9999", "NoSuchType: there is no type number 9999");
    inside(
        "z = count_down() 1",
        "NotAProcedure: `count_down` is an iterator and can only be called by a loop",
    );
    inside("foreach\n z = Tally.value t\n end_foreach", "NotAnIterator: `Tally.value` is not an iterator");
    inside(
        "foreach\n end_foreach",
        "NotAnIterator: the command after FOREACH must be the call of an iterator",
    );
    inside(
        "foreach\n z = proc 0\n end_foreach",
        "NotAnIterator: the command after FOREACH must be the call of an iterator",
    );
    inside("if\n then x\n end_if", "-4: WrongType: the condition: expected `bool`, found `int`");
    inside("while\n do x\n end_while", "-4: WrongType: the condition: expected `bool`, found `int`");
    inside("z = Tally.value #5", "NoSuchHandle: handle h5 is not a handle of this session, or it was freed");
    inside("z = Tally.value #0", "unhandled_exc, argument 0 of -0");
    inside("break", "-4: MarkerMismatch: `break` or `continue` outside a loop");
    inside(
        "while\n break\n do y\n end_while",
        "-4: MarkerMismatch: `break` or `continue` would leave the condition of a loop",
    );
    inside(
        "except\n when never_heard_of\n end_except",
        "NoSuchName: no method or routine signals the exception `never_heard_of`",
    );
    inside(
        "except\n z = Tally.add t 1\n n = when negative string\n end_except",
        "WrongType: a handler takes `string`, but value 1 of `negative` is `int`",
    );
    inside(
        "except\n z = Tally.add t 1\n n, m = when negative int int\n end_except",
        "WrongCount: a handler takes 2 values, but `negative` has 1",
    );
    inside("return", "MarkerMismatch: `return` outside a PROCEDURE");
}

#[test]
fn numbers_that_name_nothing() {
    refused(
        r#"
        t = lookup tally Tally
        a = #9999 t
        b = #4294967295 t 1 2
        c = #9999() 1
        d = proc 0
        e = proc 4294967295 1
        f = cell #9999
        g = cell #4294967295
        h = count_down() 3
        i = int.to 1 3
        flush
        "#,
        r#"
        -2: NoSuchMethod: there is no method number 9999
        -3: NoSuchMethod: there is no method number 4294967295
        -4: NoSuchRoutine: there is no routine number 9999
        -5: NoSuchProcedure: there is no batched procedure number 0, or its definition was refused
        -6: NoSuchProcedure: there is no batched procedure number 4294967295, or its definition was refused
        -7: NoSuchType: there is no type number 9999
        -8: NoSuchType: there is no type number 4294967295
        -9: NotAProcedure: `count_down` is an iterator and can only be called by a FOREACH
        -11: NotAProcedure: `to` is an iterator and can only be called by a FOREACH
        "#,
    );
}

#[test]
fn private_methods_have_no_number() {
    each_mode(|world| {
        let interface = world.tables.numbering().interface();
        let names: Vec<&str> =
            interface.types.iter().flat_map(|t| &t.methods).map(|m| m.name.as_str()).collect();
        assert!(names.contains(&"touch"));
        assert!(!names.contains(&"secret"));
        assert!(
            !interface.types.iter().any(|t| t.name == "Elem" || t.name == "ArrayDB"),
            "classes are not seen"
        );
        assert!(!interface.routines.iter().any(|r| r.name.starts_with("cell_new")));
    });
}

#[test]
fn markers_without_a_structure() {
    let text = "-1: MarkerMismatch: the marker belongs to no open structure";
    for marker in [
        "do #1",
        "end_while",
        "then #1",
        "else",
        "end_if",
        "end_foreach",
        "break",
        "continue",
        "when not_found",
        "others",
        "end_except",
        "return",
        "end_procedure",
    ] {
        refused(&format!("{marker}\n flush"), text);
    }
}

#[test]
fn markers_of_another_structure() {
    let all = [
        ("while", "end_while", "the condition of a WHILE"),
        ("if", "end_if", "the condition of an IF"),
        ("foreach\n i = int.to one 2", "end_foreach", "a FOREACH"),
        ("except", "end_except", "an EXCEPT"),
        ("procedure p", "end_procedure", "a PROCEDURE"),
    ];
    for (begin, _, name) in all {
        for (other, end, _) in all {
            if begin == other && !matches!(begin, "while" | "if") {
                continue;
            }
            let next = if begin.starts_with("foreach") { 3 } else { 2 };
            refused(
                &format!("one = const 1\n {begin}\n {end}\n flush"),
                &format!("-{next}: MarkerMismatch: `{end}` inside {name}"),
            );
        }
    }
    let mut last = String::new();
    for (script, text) in [
        ("while\n else\n", "`else` inside the condition of a WHILE"),
        ("if\n else\n", "`else` inside the condition of an IF"),
        ("if\n do #-1\n", "`do` inside the condition of an IF"),
        ("if\n then one\n then one\n", "`then` inside an IF"),
        ("if\n then one\n else\n else\n", "`else` inside an IF"),
        ("while\n do one\n do one\n", "`do` inside a WHILE"),
        ("except\n others\n when not_found\n", "`when` inside an EXCEPT"),
        ("except\n others\n others\n", "`others` inside an EXCEPT"),
        ("while\n when not_found\n", "`when` inside the condition of a WHILE"),
    ] {
        last = format!("one = const true\n {script} flush");
        let name = text.split_once(" inside ").expect("a name").1;
        refused(&last, &format!("-2: MissingEnd: the batch ended inside {name}: its end marker is missing"));
    }
    assert!(!last.is_empty());
}

#[test]
fn a_batch_that_ends_inside_a_structure() {
    refused(
        r#"
        t = lookup tally Tally
        x = Tally.bump t
        one = const 1
        foreach
            i = int.to one 3
            y = Tally.bump t
        flush x y
        v = lookup tally Tally
        w = Tally.value v
        flush w
        "#,
        r#"
        x = 1
        y = exception of -4
        -4: MissingEnd: the batch ended inside a FOREACH: its end marker is missing
        w = 1
        "#,
    );
}

#[test]
fn what_cannot_be_said_inside_a_structure_ends_the_batch() {
    for line in ["x = lookup tally", "describe", "history", "clear_history"] {
        each_mode(|world| {
            let mut client = world.client();
            client.record_all(&format!(
                "t = lookup tally Tally\n except\n {line}\n end_except\n v = Tally.bump t\n flush v"
            ));
            assert_text(
                &client.send(),
                "v = absent\n -2: OpenStructure: this command is not allowed inside an EXCEPT",
                line,
            );
            assert_text(&client.play(PROBE), "z = 42", line);
        });
    }
}

#[test]
fn structures_nest_to_a_limit() {
    let nested = |depth: usize| {
        let open = "if\n then y\n".repeat(depth);
        let close = "end_if\n".repeat(depth);
        format!(
            "y = const true\n t = lookup tally Tally\n r = Tally.reset t\n {open} x = Tally.bump t\n {close} v = Tally.value t\n flush v"
        )
    };
    check(&nested(64), "v = 1");
    refused(&nested(65), "v = 0\n -4: TooDeep: 65 structures inside each other: 64 is the limit (depth_max)");
    refused(
        &nested(2000),
        "v = 0\n -4: TooDeep: 65 structures inside each other: 64 is the limit (depth_max)",
    );
}

fn limits(limit: Limit, value: u64) -> Limits {
    let mut limits = Limits::default();
    limits.set(limit, value);
    limits
}

/// A script in a session with one other limit is answered as expected; then the probe is.
#[track_caller]
fn limited(limit: Limit, value: u64, script: &str, expected: &str) {
    each_mode(|world| {
        for split in [None, Some(1)] {
            let mut client = world.client_with(limits(limit, value));
            client.split = split;
            let script = format!("t = lookup tally Tally\n r = Tally.reset t\n flush\n {script}\n {PROBE}");
            let told = client.play(&script);
            assert_text(&told, &format!("done\n {expected}\n z = 42"), limit.name());
        }
    });
}

#[test]
fn commands_bytes_and_futures_of_a_batch_are_limited() {
    let bumps = "x = Tally.bump t\n".repeat(20);
    let flush = "v = Tally.value t\n flush v\n t = lookup tally Tally\n w = Tally.value t\n flush w";
    limited(
        Limit::BatchCommands,
        10,
        &format!("t = lookup tally Tally\n {bumps} {flush}"),
        "v = absent\n -11: TooManyCommands: x\n w = 9"
            .replace(
                "TooManyCommands: x",
                "TooManyCommands: the batch has too many commands: 10 is the limit (batch_commands_max)",
            )
            .as_str(),
    );
    // `lookup` has 24 bytes, each call 16; the probe has 104.
    limited(
        Limit::BatchBytes,
        112,
        &format!("t = lookup tally Tally\n {bumps} {flush}"),
        "v = absent\n -7: BatchTooLong: the batch has too many bytes: 112 is the limit (batch_bytes_max)\n w = 5",
    );
    limited(
        Limit::Futures,
        22,
        // A `flush` that names a future beyond the limit would end the session.
        &format!("t = lookup tally Tally\n {bumps} y = Tally.bump t\n v, v2 = Tally.pair t\n {flush}")
            .replace("v = Tally.value t\n flush v", "flush x"),
        "x = 20\n -25: TooManyFutures: the batch has too many futures: 22 is the limit (futures_max)\n w = 21",
    );
    // Inside a structure: nothing of it is run, and what follows neither.
    let structure = format!("t = lookup tally Tally\n except\n {bumps} end_except\n {flush}");
    limited(
        Limit::BatchCommands,
        10,
        &structure,
        "v = absent\n -2: TooManyCommands: the batch has too many commands: 10 is the limit (batch_commands_max)\n w = 0",
    );
    limited(
        Limit::BatchBytes,
        112,
        &structure,
        "v = absent\n -2: BatchTooLong: the batch has too many bytes: 112 is the limit (batch_bytes_max)\n w = 0",
    );
    limited(
        Limit::Futures,
        15,
        &structure.replace("flush v", "flush"),
        "-2: TooManyFutures: the batch has too many futures: 15 is the limit (futures_max)\n w = 0",
    );
}

#[test]
fn procedures_are_limited() {
    let define = |name: &str| format!("{name} = procedure p int -> int\n return {name}\n end_procedure\n");
    let (two, three) =
        ([define("a"), define("b")].concat(), [define("a"), define("b"), define("c")].concat());
    limited(Limit::Procedures, 2, &format!("{two} x = proc 1 7\n flush x"), "x = 7");
    limited(
        Limit::Procedures,
        2,
        &format!("{three} x = proc 1 7\n y = proc 2 8\n flush x y"),
        "x = 7\n y = exception of -5\n -3: NoSuchProcedure: the session has 2 procedures; this is the limit \
         (procedures_max)\n -5: NoSuchProcedure: there is no batched procedure number 2, or its definition was refused",
    );
}

#[test]
fn handles_are_limited() {
    limited(
        Limit::Handles,
        2,
        r#"
        a = new_square() 1
        b = new_square() 2
        c = new_square() 3
        n = const 5
        flush a b c n
        free a
        flush
        d = new_square() 4
        flush d
        free b d
        flush
        "#,
        r#"
        a = Square#1.0
        b = Square#2.0
        c = absent
        n = absent
        -0: TooManyHandles: the session holds too many handles: 2 is the limit (handles_max)
        done
        d = Square#1.1
        done
        "#,
    );
}

#[test]
fn replies_are_limited() {
    limited(
        Limit::ReplyBytes,
        1000,
        r#"
        a = text_of() 500
        b = text_of() 500
        n = const 5
        flush a b n
        e = shout() 2000
        f = shout() 100
        flush e f
        history
        clear_history
        "#,
        r#"
        a = a string of 512 bytes
        b = absent
        n = absent
        -0: ReplyTooLong: the results are longer than a reply may be: 1000 is the limit (reply_bytes_max)
        e = exception of -1
        f = exception of -2
        -1: ReplyTooLong: the values of `loud` are too long for the reply
        -2: loud(a string of 128 bytes)
        history 2, -1: ReplyTooLong: the values of `loud` are too long for the reply
        history 2, -2: loud(a string of 128 bytes)
        "#
        .replace("history 2", "history 3")
        .as_str(),
    );
}

#[test]
fn few_bytes_cannot_ask_for_endless_replies() {
    each_mode(|world| {
        let mut client = world.client_with(limits(Limit::ReplyBytes, 100_000));
        bifrost_wire::encode::flush(&mut client.bytes, 1..=50_000, false);
        let bytes = std::mem::take(&mut client.bytes).repeat(100_000);
        // Each reply is sent before the next one is made.
        let used = client.session.handle(&mut client.cx, &bytes);
        assert_eq!(used * 100_000, bytes.len());
        assert!(client.session.has_more() && !client.session.ended());
        assert!(client.session.output().len() < 1 << 20, "{}", client.session.output().len());
    });
}

#[test]
fn steps_are_limited() {
    limited(
        Limit::Fuel,
        1000,
        r#"
        t = lookup tally Tally
        c = const true
        while
        do c
            x = Tally.bump t
        end_while
        y = Tally.bump t
        flush x y
        t = lookup tally Tally
        v = Tally.value t
        flush v
        "#,
        r#"
        x = exception of -3
        y = absent
        -3 in round [501]: OutOfFuel: the batch ran too many steps: 1000 is the limit (fuel_max)
        v = 501
        "#,
    );
    let calls = "x = Tally.bump t\n".repeat(30);
    limited(
        Limit::Fuel,
        20,
        &format!(
            "t = lookup tally Tally\n {calls} flush x\n t = lookup tally Tally\n v = Tally.value t\n flush v"
        ),
        r#"
        x = absent
        -22: OutOfFuel: the batch ran too many steps: 20 is the limit (fuel_max)
        v = 20
        "#,
    );
    // Each batch has its own: many small ones never run out.
    limited(Limit::Fuel, 20, &format!("{PROBE}\n").repeat(30), &"z = 42\n".repeat(30));
}

#[test]
fn each_batch_of_one_delivery_has_its_own_fuel() {
    each_mode(|world| {
        let mut client = world.client_with(limits(Limit::Fuel, 20));
        for _ in 0..20 {
            client.record_all("t = lookup tally Tally\n x = Tally.bump t\n y = Tally.bump t\n flush y");
            client.next = 1;
        }
        let told = client.send();
        assert_eq!(told.lines().count(), 20, "{told}");
        assert!(told.lines().all(|l| l.starts_with("y = ") && !l.contains("exception")), "{told}");
    });
}

#[test]
fn time_is_limited_from_another_thread() {
    for script in [
        "t = lookup tally Tally\n x = Tally.forever t\n y = Tally.bump t\n flush x y\n",
        "t = lookup tally Tally\n if\n y = const true\n then y\n x = Tally.forever t\n end_if\n y = Tally.bump t\n flush x y\n",
        "t = lookup tally Tally\n c = const true\n while\n do c\n x = Tally.value t\n end_while\n y = Tally.bump t\n flush x y\n",
    ] {
        each_mode(|world| {
            let mut client = world.client_with(limits(Limit::Fuel, u64::MAX));
            let poll = client.cx.poll().clone();
            let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
            let watch = {
                let stop = stop.clone();
                std::thread::spawn(move || {
                    // Kills whatever runs, again and again until the test is over: also what runs by right.
                    while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                        poll.kill(poll.epoch(), bifrost_runtime::Kill::Time);
                        std::thread::yield_now();
                    }
                })
            };
            let told = client.play(script);
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            watch.join().expect("the watch");
            let expected = "TimeLimit: the batch ran too long: 10000 is the limit (batch_time_ms_max)";
            assert!(told.contains(expected), "{told}");
            assert!(told.contains("y = absent"), "{told}");
            assert_text(&client.play(PROBE), "z = 42", "");
        });
    }
}

#[test]
fn a_kill_ends_one_batch_and_not_the_next_of_the_same_delivery() {
    each_mode(|world| {
        let mut client = world.client_with(limits(Limit::Fuel, 100));
        client.record_all("c = const true\n while\n do c\n end_while\n flush");
        client.next = 1;
        client.record_all("t = lookup tally Tally\n c = const true\n if\n then c\n x = Tally.reset t\n end_if\n v = Tally.bump t\n flush v");
        assert_text(
            &client.send(),
            "-2 in round [101]: OutOfFuel: the batch ran too many steps: 100 is the limit (fuel_max)\n v = 1",
            "",
        );
    });
}

#[test]
fn memory_is_limited() {
    for mode in support::modes() {
        let Some(tables) = support::tables(mode) else { continue };
        let limits = bifrost_runtime::cx::Limits {
            heap_bytes: 64 << 20,
            batch_heap_bytes: 8 << 20,
            stack_bytes: support::STACK_BYTES,
            ..Default::default()
        };
        let mut world = World::of(tables, limits);
        let mut client = world.client();
        let told = client.play(&format!(
            "e = eat()\n s = swallow()\n flush e s\n c = text_of() 100000000\n flush c\n {PROBE}"
        ));
        assert_text(
            &told,
            r#"
            e = exception of -1
            s = "failure"
            -1: failure("out of memory: the heap's limit of 8388608 bytes is reached")
            c = exception of -1
            -1: failure("out of memory: the heap's limit of 8388608 bytes is reached")
            z = 42
            "#,
            "",
        );
        // What is garbage when a batch begins is not counted against it, so there shall be none.
        client.cx.collect();
        // The client's own strings are refused when there is no room, and the rest of the batch with them.
        let long = "x".repeat(900_000);
        let many: String = (0..12).map(|_| format!("s = const \"{long}\"\n")).collect();
        let told = client.play(&format!("{many} v = const 1\n flush v\n{PROBE}"));
        assert!(told.starts_with("v = absent"), "{told}");
        assert!(told.contains("HeapLimit: the heap's limit of 8388608 bytes is reached"), "{told}");
        assert!(told.ends_with("z = 42\n"), "{told}");
    }
}

#[test]
fn the_stack_is_limited() {
    // Enough for the limit and for what runs above it.
    let run = std::thread::Builder::new().stack_size(32 << 20).spawn(|| {
        for mode in support::modes() {
            let Some(tables) = support::tables(mode) else { continue };
            let limits = bifrost_runtime::cx::Limits { stack_bytes: 16 << 20, ..Default::default() };
            let mut world = World::of(tables, limits);
            let mut client = world.client();
            let told = client.play(&format!(
                    "a = deep() 100\n b = deep() 100000000\n if\n y = int.gt a 0\n then y\n c = deep() 100000000\n end_if\n flush a b c\n {PROBE}"
                ),
            );
            assert_text(
                &told,
                r#"
                a = 100
                b = exception of -2
                c = exception of -4
                -2: failure("stack overflow")
                -4: failure("stack overflow")
                z = 42
                "#,
                "",
            );
        }
    });
    run.expect("a thread").join().expect("the test");
}

#[test]
fn many_exceptions_are_counted() {
    limited(
        Limit::Exceptions,
        3,
        &format!(
            "t = lookup tally Tally\n {} flush x\n history\n clear_history\n history",
            "x = Tally.add t -1\n".repeat(6)
        ),
        r#"
        x = absent
        -2: negative(-1)
        -3: negative(-1)
        -4: negative(-1)
        omitted 3
        history 2, -2: negative(-1)
        history 2, -3: negative(-1)
        history 2, -4: negative(-1)
        omitted 3
        "#,
    );
}

#[test]
fn the_history_keeps_the_newest() {
    each_mode(|world| {
        let mut client = world.client();
        client.play("t = lookup tally Tally\n flush t");
        for _ in 0..30 {
            let calls = "x = Tally.add t -1\n".repeat(50);
            client.play(&format!("{calls} flush quiet"));
        }
        let told = client.play("history");
        assert_eq!(told.lines().count(), 1001);
        assert!(told.starts_with("history 12, -1: negative(-1)"), "{}", &told[..200]);
        assert!(told.ends_with("omitted 500\n"));
    });
}

#[test]
fn a_long_name_is_not_kept_whole() {
    each_mode(|world| {
        let mut client = world.client();
        let told = client.play(&format!("x = lookup {}\n flush quiet\n history", "n".repeat(100_000)));
        assert!(told.len() < 1000, "{}", told.len());
        assert!(told.contains("nnn...\n"), "{told}");
    });
}

#[test]
fn too_many_errors_end_the_session() {
    each_mode(|world| {
        let mut client = world.client();
        for i in 1..=1000 {
            client.play("x = Tally.value #1\n flush quiet");
            assert!(!client.session.ended(), "{i}");
        }
        let told = client.play("x = Tally.value #1\n flush quiet");
        assert_text(&told, "error TooManyErrors at 2002: the session made too many errors", "");
        assert!(client.session.ended());
    });
}

#[test]
fn sessions_begin_with_one_hello() {
    each_mode(|world| {
        let told = |world: &mut World, version: u32| {
            let mut client = world.stranger(Limits::default());
            let told = client.hello(version);
            (told, client.session.ended(), client.session.greeted())
        };
        let n = 1;
        assert_eq!(told(world, VERSION), (format!("welcome {n}\n"), false, true));
        assert_eq!(
            told(world, VERSION + 1),
            (
                format!(
                    "error VersionMismatch at 1: the server supports version {VERSION}, the client sent version {}\n",
                    VERSION + 1
                ),
                true,
                false
            )
        );
        let mut twice = world.client();
        let told = twice.hello(VERSION);
        assert_eq!(told, "error OutOfOrder at 2: `hello` is allowed only as the first command\n");
    });
}

#[test]
fn nothing_runs_before_hello() {
    for script in [
        "x = new_database()",
        "describe",
        "history",
        "flush",
        "bye",
        "except\n x = lookup_()\n end_except",
        "if\n y = numbers()\n then y\n end_if",
        "procedure p\n end_procedure",
        "while",
        "else",
    ] {
        each_mode(|world| {
            let mut client = world.stranger(Limits::default());
            client.record_all(&script.replace("lookup_()", "eat()"));
            assert_eq!(
                client.send(),
                "error OutOfOrder at 1: the first command must be `hello`\n",
                "{script}"
            );
            assert!(client.session.ended());
            assert_eq!(client.session.counters().structures, 0);
        });
    }
}

#[test]
fn bytes_that_are_no_command_end_the_session() {
    let cases: [(&[u8], &str); 5] = [
        (&[0; 16], "BadWord"),
        (&[0xff; 32], "BadWord"),
        (&[0x12, 0, 0, 0, 1, 0, 0, 0], "BadWord"),
        (
            &[0x04, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0, 0, 0, 0, 0, 0xff, 0, 0, 0, 0, 0, 0, 0],
            "BadText",
        ),
        (&[0x04, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 1, 0, 0], "FrameTooLong"),
    ];
    for (bytes, name) in cases {
        for before in ["", "except\n"] {
            each_mode(|world| {
                let mut client = world.client();
                client.record_all(before);
                client.bytes.extend_from_slice(bytes);
                let told = client.send();
                assert!(told.starts_with(&format!("error {name} at ")), "{told}");
                assert!(client.session.ended());
                // What comes afterwards is not read.
                client.record_all("t = lookup tally Tally\n flush");
                let bytes = std::mem::take(&mut client.bytes);
                assert_eq!(client.handle(&bytes), 0);
                assert!(client.session.output().is_empty());
            });
        }
    }
}

#[test]
fn a_command_longer_than_the_frame_is_refused_by_its_length() {
    each_mode(|world| {
        let mut client = world.client_with(limits(Limit::FrameBytes, 100));
        client.record_all(&format!("s = const \"{}\"", "x".repeat(200)));
        let bytes: Vec<u8> = client.bytes.drain(..).take(16).collect();
        client.handle(&bytes);
        assert!(client.session.ended());
        let output = client.session.output().to_vec();
        assert!(client.tell(&output).starts_with("error FrameTooLong at "));
    });
}

#[test]
fn a_flush_of_futures_that_were_never_made() {
    each_mode(|world| {
        let mut client = world.client();
        client.record("x = const 1");
        bifrost_wire::encode::flush(&mut client.bytes, [1, 2, 3, 100_000], false);
        let bytes = std::mem::take(&mut client.bytes);
        client.handle(&bytes);
        let output = client.session.output().to_vec();
        client.session.clear_output();
        match bifrost_wire::decode_reply(&output, usize::MAX) {
            Ok(bifrost_wire::DecodedReply::Reply(bifrost_wire::Reply::Flushed(f), _)) => {
                use bifrost_wire::{Outcome, Value};
                let outcomes: Vec<_> = f.outcomes().collect();
                assert_eq!(outcomes[0], Outcome::Value(Value::Int(1)));
                assert_eq!(outcomes[1..], [Outcome::Absent; 3]);
            }
            other => panic!("{other:?}"),
        }
        client.next = 1;
        assert_text(&client.play(PROBE), "z = 42", "");
        bifrost_wire::encode::flush(&mut client.bytes, [100_001], false);
        assert_text(
            &client.send(),
            "error TooManyFutures at 9: `flush` names more futures than a batch may have",
            "",
        );
    });
}

#[test]
fn describe_and_history_are_answered_also_in_a_batch_that_is_over() {
    each_mode(|world| {
        let mut client = world.client_with(limits(Limit::Fuel, 1));
        client.record_all(
            "t = lookup tally Tally\n a = Tally.value t\n b = Tally.value t\n describe\n history\n flush a b",
        );
        let told = client.send();
        assert_text(
            &told,
            "interface\n history 1, -3: OutOfFuel: the batch ran too many steps: 1 is the limit (fuel_max)\n\
             a = 0\n b = exception of -3\n -3: OutOfFuel: the batch ran too many steps: 1 is the limit (fuel_max)",
            "",
        );
        assert_text(&client.play("bye"), "farewell", "");
        assert!(client.session.ended());
    });
}

#[test]
fn bye_inside_a_structure_ends_the_session() {
    each_mode(|world| {
        let mut client = world.client();
        client.record_all("except\n bye");
        assert_text(&client.send(), "farewell", "");
    });
}
