//! Batches that name results of the batches before them.

mod support;

use bifrost_wire::{Limit, Ref, encode};
use support::{check, each_mode};

/// Plays a script in each execution; the told replies must be `expected`.
#[track_caller]
fn expect(script: &str, expected: &str) {
    check(script, expected);
}

#[test]
fn results_of_the_batches_before_are_operands() {
    expect(
        r#"
        db = lookup db DataBase
        e = DataBase.fetch db "ann"
        v = const 7
        s = const "cid"
        flush kept 0 db e v s
        n = DataElem.name @1.2
        w = int.add @1.3 1
        f = DataBase.fetch @1.1 @1.4
        flush kept 1 n w
        m = string.concat @1.1 @2.4
        x = int.add @2.3 @1.2
        flush kept 1 m x
        gone = DataElem.name @3.2
        flush gone
        "#,
        r#"
        db = DataBase#1.0
        e = DataElem#2.0
        v = 7
        s = "cid"
        n = "ann"
        w = 8
        m = "anncid"
        x = 15
        gone = exception of -1
        -1: BadFuture: -2 of 3 batches before is not kept; the number of batches that are: 2
        "#,
    );
}

#[test]
fn they_are_operands_in_structures_compounds_and_procedures() {
    expect(
        r#"
        db = lookup db DataBase
        t = lookup tally Tally
        v = const 3
        flush kept 0 db t v
        foreach
        e = DataBase.users @1.1
        a = Tally.add @1.2 @1.3
        end_foreach
        vs = lookup values Values
        sum = Values.total vs {1; @1.3; 5}
        after = Tally.value @1.2
        flush kept 1 sum after
        sum = int.add @1.5 @2.3
        flush sum
        "#,
        r#"
        db = DataBase#1.0
        t = Tally#2.0
        v = 3
        sum = 9
        after = 9
        sum = 12
        "#,
    );
}

#[test]
fn a_failure_of_a_batch_before_is_the_cause() {
    expect(
        r#"
        t = lookup tally Tally
        a = Tally.add t -1
        flush kept 0 t a
        b = int.add @1.2 1
        c = int.add b 1
        flush kept 1 b c
        d = int.add @1.1 @2.2
        flush d
        "#,
        r#"
        t = Tally#1.0
        a = exception of -2
        -2: negative(-1)
        b = exception of -1
        c = exception of -2
        -1: unhandled_exc, argument 0 of -2, 1 before
        -2: unhandled_exc, argument 0 of -1
        d = exception of -1
        -1: unhandled_exc, argument 0 of -1, 1 before
        "#,
    );
}

#[test]
fn a_batch_that_was_ended_is_the_cause_for_all_behind_its_end() {
    each_mode(|world| {
        let mut limits = bifrost_session::Limits::default();
        limits.set(Limit::Fuel, 3);
        let mut client = world.client_with(limits);
        client.record_all(
            "t = lookup tally Tally\n a = Tally.bump t\n b = Tally.bump t\n c = Tally.bump t\n d = Tally.bump t\n e = Tally.bump t",
        );
        let told = client.play("flush kept 0 t a b c d e");
        assert!(told.contains("OutOfFuel"), "{told}");
        let told = client.play("x = int.add @1.3 1\n y = int.add @1.6 1\n flush x y");
        // The fifth call is the one that the batch has ended at.
        assert!(told.contains("-2: unhandled_exc, argument 0 of -5, 1 before"), "{told}");
        assert!(!told.contains("-1: "), "{told}");
    });
}

#[test]
fn results_that_cannot_be_named_are_refused() {
    expect(
        r#"
        t = lookup tally Tally
        a = Tally.bump t
        r = rows int
        emit r a
        n = Tally.reset t
        flush kept 0 t r n
        b = int.add @1.2 1
        c = emit @1.3 1
        d = int.add @1.5 1
        e = int.add @2.1 1
        f = int.add @1.99 1
        flush b c d e f
        g = int.add @1.1 1
        flush g
        "#,
        r#"
        t = Tally#1.0
        r = rows (1)
        n = nil
        b = exception of -1
        c = exception of -2
        d = exception of -3
        e = exception of -4
        f = exception of -5
        -1: BadFuture: -2 of the batch before was not wanted by the `flush` of its batch
        -2: BadFuture: -3 of the batch before is a table of rows, which has ended with its batch
        -3: BadFuture: -5 of the batch before has no result
        -4: BadFuture: -1 of 2 batches before is not kept; the number of batches that are: 1
        -5: BadFuture: -99 of the batch before was not wanted by the `flush` of its batch
        g = exception of -1
        -1: BadFuture: -1 of the batch before is not kept; the number of batches that are: 0
        "#,
    );
}

#[test]
fn batches_and_results_that_are_kept_are_limited() {
    each_mode(|world| {
        let mut limits = bifrost_session::Limits::default();
        limits.set(Limit::BatchesUnderWay, 2);
        limits.set(Limit::Futures, 5);
        let mut client = world.client_with(limits);
        client.play("a = const 1\n flush kept 0 a");
        client.play("a = const 2\n flush kept 1 a");
        client.play("a = const 3\n flush kept 2 a");
        let told = client.play("a = int.add @2.1 10\n b = int.add @3.1 10\n flush kept 3 a b");
        assert!(
            told.contains(
                "-2: BadFuture: -1 of 3 batches before is not kept; the number of batches that are: 2"
            ),
            "{told}"
        );
        assert!(!told.contains("-1: "), "{told}");
        // Three and three results are one too many.
        client.play("a = const 1\n b = const 2\n c = const 3\n flush kept 0 a b c");
        client.play("a = const 1\n b = const 2\n c = const 3\n flush kept 1 a b c");
        let told = client.play("a = int.add @1.3 10\n b = int.add @2.3 10\n flush kept 1 a b");
        assert!(
            told.contains(
                "-2: BadFuture: -3 of 2 batches before is not kept; the number of batches that are: 1"
            ),
            "{told}"
        );
    });
}

#[test]
fn objects_of_an_aborted_transaction_are_gone() {
    expect(
        r#"
        t = new_tally()
        a = Tally.bump t
        flush kept 0 t a
        x = abort
        b = Tally.bump @1.1
        c = int.add @1.2 1
        flush b c
        "#,
        r#"
        t = Tally#1.0
        a = 1
        b = exception of -2
        c = 2
        -2: NoSuchHandle: the object was made in a transaction that was aborted
        "#,
    );
}

#[test]
fn objects_that_only_an_earlier_batch_has_live() {
    each_mode(|world| {
        let mut client = world.client();
        client.play("t = new_tally()\n a = Tally.bump t\n flush kept 0 t");
        // The client gives the handle back, and still names the result.
        client.play("free t\n flush kept 1");
        client.cx.collect();
        let told = client.play("b = Tally.bump @2.1\n flush b");
        assert_eq!(told, "b = 2\n");
    });
}

#[test]
fn a_handle_that_an_unanswered_batch_names_is_not_given_back() {
    each_mode(|world| {
        let mut client = world.client();
        client.play("t = lookup tally Tally\n flush kept 0 t");
        client.play("s = lookup tally Tally\n flush kept 0 s");
        let free = |client: &mut support::Client, unanswered: u8| {
            encode::free(&mut client.bytes, &[Ref(1)], unanswered);
            client.play("v = Tally.value #1\n flush v")
        };
        // The second batch has named it, and its answer may be on the way.
        assert_eq!(free(&mut client, 1), "v = 0\n");
        // That of the third has not.
        assert_eq!(free(&mut client, 2), "v = 0\n".to_owned());
        let told = free(&mut client, 0);
        assert!(told.contains("NoSuchHandle"), "{told}");
    });
}
