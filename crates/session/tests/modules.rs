//! Modules of clients: what they may do is what a batch may do.

mod support;

use bifrost_session::Limits;
use bifrost_wire::{Limit, ModuleNumber, encode};
use support::{Client, GUEST, World};

#[track_caller]
fn same(found: &str, expected: &str) {
    support::assert_text(found, expected, "what is sent back");
}

fn limits() -> Limits {
    let mut limits = Limits::default();
    limits.set(Limit::Modules, 4);
    limits.set(Limit::Fuel, 200_000);
    limits
}

/// A client that has given the guest as module 0.
fn guest(world: &mut World, limits: Limits) -> Client {
    let mut client = world.client_with(limits);
    give(&mut client, 0, &wat::parse_str(GUEST).unwrap());
    client
}

fn give(client: &mut Client, number: u32, bytes: &[u8]) {
    encode::module(&mut client.bytes, ModuleNumber(number), bytes);
}

/// Plays a script in each way to run the program.
fn check_with(limits: Limits, script: &str, expected: &str) {
    support::each_mode(|world| {
        let mut client = guest(world, limits);
        same(&client.play(script), expected);
    });
}

fn check(script: &str, expected: &str) {
    check_with(limits(), script, expected);
}

#[test]
fn a_module_calls_objects_and_its_result_is_one_of_the_batch() {
    check(
        r#"
        db = lookup db DataBase
        e = DataBase.fetch db "ann"
        n = run 0 touch int e 5
        m = int.mul n 2
        v = DataElem.visits e
        same = run 0 same DataElem e
        w = DataElem.visits same
        any = run 0 same - "text"
        h = run 0 half real 3.0
        z = run 0 nothing -
        u = run 0 unknown -
        flush n m v same w any h z u e
        "#,
        r#"
        n = 5
        m = 10
        v = 5
        same = DataElem#1.0
        w = 5
        any = "text"
        h = 1.5
        z = nil
        u = -1
        e = DataElem#1.0
        "#,
    );
}

#[test]
fn strings_are_read_and_results_are_released() {
    check(
        r#"
        t = new_tally()
        a = Tally.add t 123
        p = run 0 pair string t
        l = string.length p
        n = run 0 pair_text - t
        r = run 0 pair_released - t
        x = run 0 released - t
        flush p l n r x
        "#,
        r#"
        p = "123"
        l = 3
        n = 3012849
        r = 1
        x = exception of -7
        -7: BadFuture: -8 is not a result of this run
        "#,
    );
}

#[test]
fn failures_of_calls_are_those_of_a_batch() {
    check(
        r#"
        t = new_tally()
        ok = run 0 add int t 7
        neg = run 0 add int t -1
        much = run 0 add int t 2000
        try = run 0 try_add - t -1
        fine = run 0 try_add - t 1
        raise = run 0 raise_add - t -5
        none = run 0 raise_add - t 1
        after = int.add neg 1
        v = Tally.value t
        flush ok neg much try fine raise none after v
        "#,
        r#"
        ok = 7
        neg = exception of -3
        much = exception of -4
        try = -992
        fine = 1000
        raise = exception of -7
        none = exception of -8
        after = exception of -9
        v = 9
        -3: negative(-1)
        -4: too_much(2000, "more than 1000")
        -7: negative(-5)
        -8: failure("the module has trapped: it raises a failure, and none was handled")
        -9: unhandled_exc, argument 0 of -3
        "#,
    );
}

#[test]
fn a_module_ends_its_run_with_a_text() {
    assert_eq!(bifrost_sandbox::FAIL_BYTES_MAX, 1000);
    let long = "x".repeat(1001);
    check(
        &format!(
            r#"
            a = run 0 fail - "no such thing"
            b = run 0 fail - ""
            c = run 0 fail - "{long}"
            d = run 0 nothing -
            flush a b c d
            "#
        ),
        r#"
        a = exception of -1
        b = exception of -2
        c = exception of -3
        d = nil
        -1: failure("no such thing")
        -2: failure("")
        -3: failure(a string of 1000 bytes)
        "#,
    );
}

#[test]
fn a_handled_failure_does_not_prevent_a_commit_and_another_does() {
    check(
        r#"
        t = lookup tally Tally
        a = run 0 try_add - t -1
        c = commit
        b = run 0 add - t -1
        d = commit
        flush a c b d
        "#,
        r#"
        a = -992
        c = nil
        b = exception of -4
        d = exception of -5
        -4: negative(-1)
        -5: Unseen: exceptions were neither read nor cleared; the transaction is aborted
        "#,
    );
}

#[test]
fn a_module_runs_in_a_batch_that_is_a_transaction() {
    check(
        r#"
        ok = transaction
        t = lookup tally Tally
        a = run 0 add int t 7
        b = run 0 add int t 8
        flush ok a b t
        ok = transaction
        a = run 0 add int t 8
        b = run 0 add int t -1
        flush ok a b
        t = lookup tally Tally
        v = Tally.value t
        flush v
        "#,
        r#"
        ok = nil
        a = 7
        b = 15
        t = Tally#1.0
        ok = exception of -1
        a = 23
        b = exception of -3
        -3: negative(-1)
        -1: Unseen: exceptions were neither read nor cleared; the transaction is aborted
        v = 15
        "#,
    );
}

#[test]
fn references_that_are_no_results_of_the_run_are_refused() {
    // Of the batch before the run, a handle, none, and one that is not there yet.
    for reference in ["-1", "-2", "1", "0", "-100", "-4294967297", "-9223372036854775808"] {
        check(
            &format!(
                "t = new_tally()\nv = Tally.value t\nx = run 0 raw - 4294967297 {reference} 16\nw = Tally.value t\nflush x w"
            ),
            &format!("x = exception of -3\nw = 0\n-3: BadFuture: {reference} is not a result of this run"),
        );
    }
}

#[test]
fn bytes_that_are_no_command_and_commands_of_the_session_end_the_run() {
    let cases = [
        // Nothing, half a word, an unknown code, a reply's code, flags that must be 0.
        ("1 0 0", "BadModule: the bytes of a command of the module: they are not one whole command"),
        ("1 0 4", "BadModule: the bytes of a command of the module: they are not one whole command"),
        ("1 0 8", "BadModule: the bytes of a command of the module: they are not one whole command"),
        ("8 0 16", "BadModule: the bytes of a command of the module: they are not one whole command"),
        ("255 0 8", "BadModule: the bytes of a command of the module: "),
        ("193 0 8", "BadModule: the bytes of a command of the module: "),
        // flush, bye, commit, abort, history, describe, while, free.
        ("8 0 8", "NotAllowed: a module gives calls, constants, cells, casts and lookups only"),
        ("11 0 8", "NotAllowed: "),
        ("49 0 8", "NotAllowed: "),
        ("50 0 8", "NotAllowed: "),
        ("10 0 8", "NotAllowed: "),
        ("9 0 8", "NotAllowed: "),
        ("16 0 8", "NotAllowed: "),
        ("7 0 8", "NotAllowed: "),
        // A method that is not there, and a routine.
        ("-4294967295 -1 16", ""),
        ("-4294967294 0 8", "NoSuchRoutine: there is no routine number 4294967295"),
    ];
    for (words, expected) in cases {
        let mut world = World::new(support::modes()[0]).unwrap();
        let mut client = guest(&mut world, limits());
        let answer = client.play(&format!("x = run 0 raw - {words}\ny = int.add 1 2\nflush x y"));
        let expected = format!("x = exception of -1\ny = 3\n-1: {expected}");
        assert!(answer.trim().starts_with(&expected), "{words}: {answer}");
    }
}

#[test]
fn refusals_in_a_module_count_as_those_of_the_batch() {
    let mut world = World::new(support::modes()[0]).unwrap();
    let mut client = guest(&mut world, limits());
    let mut last = String::new();
    for _ in 0..1100 {
        last = client.play("x = run 0 try_raw - -4294967294 0 8\nflush x");
        if client.session.ended() {
            break;
        }
        same(&last, "x = -2");
    }
    assert!(client.session.ended() && last.contains("TooManyErrors"), "{last}");
}

#[test]
fn hostile_modules_get_the_answers_of_a_batch() {
    check(
        "x = run 0 spin -\ny = int.add 1 2\nflush x y",
        "x = exception of -1\ny = absent\n-1: OutOfFuel: the batch ran too many steps: 200000 is the limit (fuel_max)",
    );
    check(
        "x = run 0 deep -\ny = int.add 1 2\nflush x y",
        "x = exception of -1\ny = 3\n-1: failure(\"the module has trapped: call stack exhausted\")",
    );
    check(
        "x = run 0 outside -\ny = int.add 1 2\nflush x y",
        "x = exception of -1\ny = 3\n-1: failure(\"the module has trapped: out of bounds memory access\")",
    );
    check(
        "x = run 0 grow -\ny = int.add 1 2\nflush x y",
        "x = exception of -1\ny = absent\n-1: HeapLimit: the session's objects need too much memory: the module needs 16842752 bytes of memory: 16777216 is the limit (module_memory_bytes_max)",
    );
}

#[test]
fn calls_of_a_module_take_the_fuel_of_the_batch() {
    let mut small = limits();
    small.set(Limit::Fuel, 100);
    check_with(
        small,
        "db = lookup db DataBase\ne = DataBase.fetch db \"ann\"\nx = run 0 touch int e 30\ny = run 0 touch int e 100\nflush x y",
        "x = 30\ny = exception of -4\n-4: OutOfFuel: the batch ran too many steps: 100 is the limit (fuel_max)",
    );
}

#[test]
fn a_run_that_lasts_too_long_is_ended() {
    // In the module's own loop, and in a method that it has called.
    for function in ["spin -", "forever - t"] {
        let mut world = World::new(support::modes()[1]).unwrap();
        let mut endless = limits();
        endless.set(Limit::Fuel, u64::MAX);
        let mut client = guest(&mut world, endless);
        let poll = client.cx.poll().clone();
        let stop = std::thread::spawn(move || {
            for _ in 0..100 {
                std::thread::sleep(std::time::Duration::from_millis(20));
                poll.kill(poll.epoch(), bifrost_runtime::cx::Kill::Time);
            }
        });
        let answer = client.play(&format!("t = new_tally()\nx = run 0 {function}\nflush x"));
        same(
            &answer,
            "x = exception of -2\n-2: TimeLimit: the batch ran too long: 10000 is the limit (batch_time_ms_max)",
        );
        drop(client);
        stop.join().unwrap();
    }
}

#[test]
fn results_of_a_run_have_the_limit_of_futures() {
    let mut few = limits();
    few.set(Limit::Futures, 10);
    check_with(few, "t = new_tally()\nx = run 0 pair_released - t\nflush x", "x = 1");
}

#[test]
fn arguments_and_results_are_checked() {
    check(
        r#"
        a = run 0 touch int 1
        b = run 0 touch int 1 2 3
        c = run 0 touch int 1 "x"
        d = run 0 half real 1
        e = run 0 same string 1
        f = run 0 missing int
        g = run 1 half real 1.0
        h = run 0 nothing int
        i = run 0 same - #7
        j = run 0 same - c
        flush a b c d e f g h i j
        "#,
        r#"
        a = exception of -1
        b = exception of -2
        c = exception of -3
        d = exception of -4
        e = exception of -5
        f = exception of -6
        g = exception of -7
        h = exception of -8
        i = exception of -9
        j = exception of -10
        -1: WrongCount: 2 arguments expected, 1 given
        -2: WrongCount: 2 arguments expected, 3 given
        -3: WrongType: argument 2: expected `int`, found `string`
        -4: WrongType: argument 1: expected `real`, found `int`
        -5: WrongType: the result of the module: expected `string`, found `int`
        -6: NoSuchModule: module 0 exports no function `missing` with parameters of i64, f64 and i32, and at most one result of these
        -7: NoSuchModule: there is no module number 1; at most 4 are kept (modules_max)
        -8: WrongType: the result of the module: expected `int`, found `null`
        -9: NoSuchHandle: handle h7 is not a handle of this session, or it was freed
        -10: unhandled_exc, argument 1 of -3
        "#,
    );
}

#[test]
fn modules_have_limits_and_are_replaced_by_number() {
    let text = |n: i64| {
        wat::parse_str(format!(r#"(module (func (export "f") (result i64) (i64.const {n})))"#)).unwrap()
    };
    let mut world = World::new(support::modes()[0]).unwrap();
    let mut two = limits();
    two.set(Limit::Modules, 2);
    two.set(Limit::ModuleBytes, 100);
    let mut client = world.client_with(two);
    give(&mut client, 5, &text(1));
    give(&mut client, 6, &text(2));
    give(&mut client, 7, &text(3));
    give(&mut client, 5, &text(4));
    give(&mut client, 6, &[0; 101]);
    same(
        &client.play("a = run 5 f int\nb = run 6 f int\nc = run 7 f int\nflush a b c"),
        "a = 4\nb = exception of -2\nc = exception of -3\n\
         -2: BadModule: the module is not accepted: it has 101 bytes, 100 is the limit (module_bytes_max)\n\
         -3: NoSuchModule: there is no module number 7; at most 2 are kept (modules_max)",
    );
    give(&mut client, 6, b"\0asm\x01\0\0\0\xff");
    let answer = client.play("b = run 6 f int\nflush b");
    assert!(answer.contains("-1: BadModule: the module is not accepted: "), "{answer}");

    let mut none = world.client_with(Limits::default());
    give(&mut none, 0, &text(1));
    same(
        &none.play("a = run 0 f int\nflush a"),
        "a = exception of -1\n-1: NotAllowed: this server runs no modules: `modules_max` is 0",
    );
}

#[test]
fn runs_are_refused_in_structures() {
    check(
        "t = new_tally()\nif\nq = Tally.value t\nz = int.lt q 1\nthen z\nx = run 0 nothing -\nend_if\nflush",
        "-4: OpenStructure: this command is not allowed inside an IF",
    );
}
