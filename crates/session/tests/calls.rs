//! Single calls: handles, futures, values, exceptions and the history.

mod support;

use bifrost_session::places::LOGGED_FAILURES_MAX;
use support::{check, each_mode};

#[test]
fn results_are_values_or_handles() {
    check(
        r#"
        db = lookup db DataBase
        e = DataBase.fetch db "ann"
        n = DataElem.name e
        v = DataElem.visits e
        t = DataElem.touch e
        w = DataElem.visits e
        r = int.to_real w
        h = real.div r 2.0
        c = string.fetch n 1
        b = string.empty n
        flush db e n v t w h c b
        "#,
        r#"
        db = DataBase#1.0
        e = DataElem#2.0
        n = "ann"
        v = 0
        t = nil
        w = 1
        h = 0.5
        c = 'a'
        b = false
        "#,
    );
}

#[test]
fn an_object_has_one_handle_until_it_is_given_back() {
    check(
        r#"
        db = lookup db
        e = DataBase.fetch db "ann"
        flush db e
        again = lookup db
        f = DataBase.fetch db "ann"
        g = DataBase.fetch db "bob"
        flush again f g
        free e
        n = DataElem.name e
        m = DataElem.name f
        flush n m
        g2 = DataBase.fetch db "cid"
        flush g2
        n = DataElem.name e
        m = DataElem.name g2
        flush n m
        "#,
        r#"
        db = DataBase#1.0
        e = DataElem#2.0
        again = DataBase#1.0
        f = DataElem#2.0
        g = DataElem#3.0
        n = exception of -1
        m = exception of -2
        -1: NoSuchHandle: handle h2 is not a handle of this session, or it was freed
        -2: NoSuchHandle: handle h2 is not a handle of this session, or it was freed
        g2 = DataElem#2.1
        n = exception of -1
        m = "cid"
        -1: NoSuchHandle: handle h2 is not a handle of this session, or it was freed
        "#,
    );
}

#[test]
fn unwanted_futures_get_no_handles() {
    each_mode(|world| {
        let mut client = world.client();
        client.play("db = lookup db\n e = DataBase.fetch db \"ann\"\n n = DataElem.name e\n flush n");
        assert_eq!(client.session.handles(), 0);
        client.play("db = lookup db\n flush db");
        assert_eq!(client.session.handles(), 1);
        client.play("free db\n flush");
        assert_eq!(client.session.handles(), 0);
        assert_eq!(client.session.counters().crossings, 3);
        assert_eq!(client.session.counters().calls, 2);
    });
}

#[test]
fn lookups_check_name_and_type() {
    check(
        r#"
        a = lookup nobody
        b = lookup db Tally
        c = lookup square Shape
        d = lookup square Square
        e = lookup rectangle Square
        f = lookup db #4000
        g = Shape.area a
        flush a b c d e f g
        "#,
        r#"
        a = exception of -1
        b = exception of -2
        c = Square#1.0
        d = Square#1.0
        e = exception of -5
        f = exception of -6
        g = exception of -7
        -1: NoSuchName: there is no well-known object `nobody`
        -2: WrongType: `db` is a `DataBase`, not a `Tally`
        -5: WrongType: `rectangle` is a `Shape`, not a `Square`
        -6: NoSuchType: there is no type number 4000
        -7: unhandled_exc, argument 0 of -1
        "#,
    );
}

#[test]
fn constants_and_cells() {
    check(
        r#"
        a = const 20
        b = const "hello"
        c = const 'x'
        d = const true
        e = const nil
        f = const 1.5
        s = int.add a 22
        l = string.length b
        cell = cell int
        full = cell[int].full cell
        none = cell[int].get cell
        put = cell[int].put cell s
        got = cell[int].get cell
        flush a b c d e f s l cell full none put got
        "#,
        r#"
        a = 20
        b = "hello"
        c = 'x'
        d = true
        e = nil
        f = 1.5
        s = 42
        l = 5
        cell = cell[int]#1.0
        full = false
        none = exception of -11
        put = nil
        got = 42
        -11: not_possible
        "#,
    );
}

#[test]
fn a_call_may_have_several_results() {
    check(
        r#"
        t = lookup tally Tally
        x = Tally.add t 7
        n, s = Tally.pair t
        l = string.length s
        m = int.add n l
        flush n s m
        "#,
        r#"
        n = 7
        s = "7"
        m = 8
        "#,
    );
}

#[test]
fn exceptions_have_values_and_spread_to_dependents() {
    check(
        r#"
        t = lookup tally Tally
        a = Tally.add t -3
        b = Tally.add t 2000
        c = int.add a 1
        d = int.add 1 c
        db = lookup db DataBase
        e = DataBase.new_user db "bob"
        n = DataElem.name e
        s = is_same() db e
        ok = Tally.add t 5
        flush a b c d e n s ok
        "#,
        r#"
        a = exception of -2
        b = exception of -3
        c = exception of -4
        d = exception of -6
        e = exception of -8
        n = exception of -9
        s = exception of -10
        ok = 5
        -2: negative(-3)
        -3: too_much(2000, "more than 1000")
        -4: unhandled_exc, argument 0 of -2
        -6: unhandled_exc, argument 1 of -4
        -8: not_possible(DataElem#1.0)
        -9: unhandled_exc, argument 0 of -8
        -10: unhandled_exc, argument 2 of -8
        "#,
    );
}

#[test]
fn a_quiet_flush_tells_only_exceptions_of_what_is_wanted() {
    check(
        r#"
        t = lookup tally Tally
        a = Tally.add t -1
        b = Tally.add t -2
        c = Tally.add t -3
        flush quiet b t
        a = Tally.add t -1
        flush quiet
        "#,
        r#"
        b = exception of -3
        t = Tally#1.0
        -3: negative(-2)
        done
        "#,
    );
}

#[test]
fn the_error_handle_stands_for_a_call_that_failed_before() {
    check(
        r#"
        t = lookup tally Tally
        a = Tally.add #0 1
        s = is_same() t #0
        flush a s
        "#,
        r#"
        a = exception of -2
        s = exception of -3
        -2: unhandled_exc, argument 0 of -0
        -3: unhandled_exc, argument 2 of -0
        "#,
    );
}

#[test]
fn arithmetic_signals() {
    check(
        r#"
        m = const 9223372036854775807
        a = int.add m 1
        z = int.div m 0
        r = int.mod m 0
        n = int.negate -9223372036854775808
        s = int.shl 1 64
        c = int.to_char 1114112
        o = careless() 0
        f = string.fetch "abc" 4
        i = string.to_int "x"
        flush a z r n s c o f i
        "#,
        r#"
        a = exception of -2
        z = exception of -3
        r = exception of -4
        n = exception of -6
        s = exception of -8
        c = exception of -10
        o = exception of -11
        f = exception of -13
        i = exception of -15
        -2: overflow
        -3: zero
        -4: zero
        -6: overflow
        -8: bounds
        -10: illegal_char
        -11: failure("unhandled exception: zero")
        -13: bounds
        -15: bad_format
        "#,
    );
}

#[test]
fn the_history_keeps_exceptions_across_batches() {
    check(
        r#"
        t = lookup tally Tally
        a = Tally.add t -1
        flush quiet t
        b = Tally.add t 1001
        c = int.add b 1
        flush quiet
        x = lookup nobody
        flush quiet
        history
        clear_history
        history
        d = Tally.add t -2
        flush quiet
        history
        "#,
        r#"
        t = Tally#1.0
        done
        done
        history 1, -2: negative(-1)
        history 2, -1: too_much(1001, "more than 1000")
        history 2, -2: unhandled_exc, argument 0 of -1
        history 3, -1: NoSuchName: there is no well-known object `nobody`
        done
        history 4, -1: negative(-2)
        "#,
    );
}

#[test]
fn sequences_and_arrays() {
    check(
        r#"
        a = numbers()
        s = sum() a
        l = array[int].length a
        w = words()
        x = sequence[string].fetch w 2
        q = array[int].to_sequence a
        flush a s l w x
        "#,
        r#"
        a = array[int]#1.0
        s = 6
        l = 3
        w = sequence[string]#2.0
        x = "b"
        "#,
    );
}

#[test]
fn failures_that_wait_for_the_log_are_limited() {
    each_mode(|world| {
        let mut client = world.client();
        client.play("vs = lookup values Values\n flush vs");
        let call = format!("v = Values.total vs {{{};1}}\n", i64::MAX);
        client.play(&format!("{}flush", call.repeat(LOGGED_FAILURES_MAX + 5)));
        let (failures, omitted) = client.session.take_logged();
        assert_eq!((failures.len(), omitted), (LOGGED_FAILURES_MAX, 5));
        for (failure, call) in failures.iter().zip(1..) {
            assert_eq!((failure.call, &*failure.text), (call, "unhandled exception: overflow"));
            assert!(failure.places[0].contains(".total ("), "{failure:?}");
        }
        assert!(!client.session.has_logged());
    });
}
