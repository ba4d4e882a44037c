//! Tables of rows, types at run time, and bytes as values.

mod support;

use bifrost_runtime::cx::Limits as CxLimits;
use bifrost_session::Limits;
use bifrost_wire::Limit;
use support::{STACK_BYTES, World, assert_text, check, each_mode, modes, tables};

#[test]
fn a_loop_fills_a_table() {
    check(
        r#"
        db = lookup db DataBase
        t = rows DataElem string int
        foreach
            n, e = DataBase.numbered db
            name = DataElem.name e
            r = emit t e name n
        end_foreach
        ann = DataBase.fetch db "ann"
        one = emit t ann "nobody" 7
        none = rows bool
        flush t one none
        "#,
        r#"
        t = rows (DataElem#1.0, "ann", 1) (DataElem#2.0, "bob", 2) (DataElem#3.0, "cid", 3) (DataElem#1.0, "nobody", 7)
        one = nil
        none = rows
        "#,
    );
}

#[test]
fn columns_have_values_of_all_basic_types() {
    check(
        r#"
        t = rows null bool int real char string any
        db = lookup db any
        a = emit t nil true 5 1.5 'c' "text" db
        b = emit t nil false -1 -0.5 'x' "" db
        flush t
        "#,
        r#"t = rows (nil, true, 5, 1.5, 'c', "text", any#1.0) (nil, false, -1, -0.5, 'x', "", any#1.0)"#,
    );
}

#[test]
fn rows_come_from_any_depth_and_from_procedures() {
    check(
        r#"
        t = rows int int
        p0 = procedure twice int
            m = int.mul p0 2
            r = emit t p0 m
        end_procedure
        one = const 1
        foreach
            i = int.to one 3
            if
                even = int.mod i 2
                is_even = int.equal even 0
            then is_even
                x = proc 0 i
            else
                foreach
                    j = int.to one i
                    y = emit t i j
                end_foreach
            end_if
        end_foreach
        z = proc 0 9
        flush t
        "#,
        "t = rows (1, 1) (2, 4) (3, 1) (3, 2) (3, 3) (9, 18)",
    );
}

#[test]
fn a_table_ends_with_its_batch() {
    each_mode(|world| {
        let mut client = world.client();
        let told = client.play(
            r#"
            t = rows int
            p0 = procedure p int
                r = emit t p0
            end_procedure
            x = proc 0 1
            flush t
            "#,
        );
        assert_text(&told, "t = rows (1)", "");
        let told = client.play("x = proc 0 2\n flush x");
        let text = "batched procedure number 0 adds rows to a table of an earlier batch, which is gone";
        assert_text(&told, &format!("x = exception of -1\n -1: NoSuchProcedure: {text}"), "");
        let told = client.play("x = emit #-1 2\n flush x");
        let text = "-1 is not defined yet; the next future is -1";
        assert_text(&told, &format!("x = exception of -1\n -1: BadFuture: {text}"), "");
    });
}

#[test]
fn rows_that_do_not_fit_are_refused() {
    check(
        r#"
        t = rows int string
        a = emit t 1
        b = emit t "text" 1
        c = emit a 1 "text"
        d = int.add 1 t
        db = lookup db DataBase
        e = emit db 1 "text"
        f = emit t 1 "good"
        flush t
        "#,
        r#"
        t = rows (1, "good")
        -2: WrongCount: 2 arguments expected, 1 given
        -3: WrongType: argument 1: expected `int`, found `string`
        -4: unhandled_exc, argument 0 of -2
        -6: BadFuture: -1 is a table of rows, which only `emit` and `flush` can name
        -8: WrongType: `emit` needs a table of this batch
        "#,
    );
}

#[test]
fn rows_of_structures_that_do_not_fit_are_refused() {
    check(
        r#"
        t = rows DataElem
        db = lookup db DataBase
        one = const 1
        foreach
            i = int.to one 3
            a = emit t i
        end_foreach
        foreach
            j = int.to one 3
            b = emit t db
        end_foreach
        foreach
            k = int.to one 3
            c = emit t
        end_foreach
        foreach
            l = int.to one 3
            u = rows int
        end_foreach
        flush t
        "#,
        r#"
        t = rows
        -5: WrongType: column 1: expected `DataElem`, found `int`
        -7: WrongType: column 1: expected `DataElem`, found `DataBase`
        -9: WrongCount: 1 arguments expected, 0 given
        -11: OpenStructure: this command is not allowed inside a FOREACH
        "#,
    );
}

#[test]
fn a_row_whose_cell_has_failed_is_not_appended() {
    check(
        r#"
        db = lookup db DataBase
        t = rows int
        lost = DataBase.fetch db "nobody"
        n = DataElem.visits lost
        a = emit t n
        tally = lookup tally Tally
        one = const 1
        foreach
            i = int.to one 3
            m = int.sub 2 i
            v = Tally.add tally m
            b = emit t i
        end_foreach
        flush t
        "#,
        r#"
        t = rows (1) (2)
        -3: not_found
        -4: unhandled_exc, argument 0 of -3
        -5: unhandled_exc, argument 1 of -4
        -11 in round [3]: negative(-1)
        "#,
    );
}

fn limits(limit: Limit, value: u64) -> Limits {
    let mut limits = Limits::default();
    limits.set(limit, value);
    limits
}

#[test]
fn tables_have_limits() {
    each_mode(|world| {
        let mut client = world.client_with(limits(Limit::Rows, 3));
        let fill = |count: u32| {
            format!("t = rows int\n{} u = rows int\n flush t u", "a = emit t 1\n".repeat(count as usize))
        };
        assert_text(&client.play(&fill(3)), "t = rows (1) (1) (1)\n u = rows", "");
        let told = client.play(&fill(4));
        assert_text(
            &told,
            "t = absent\n u = absent\n -0: ReplyTooLong: the results are longer than a reply may be: 3 is the limit (rows_max)",
            "",
        );
        let mut client = world.client_with(limits(Limit::ReplyBytes, 400));
        let told = client.play(&fill(100));
        assert_text(
            &told,
            "t = absent\n u = absent\n -0: ReplyTooLong: the results are longer than a reply may be: 400 is the limit (reply_bytes_max)",
            "",
        );
    });
}

#[test]
fn an_abort_ends_tables() {
    check(
        r#"
        t = rows int
        a = emit t 1
        x = abort
        b = emit t 2
        flush t
        "#,
        r#"
        t = exception of -1
        -4: NoSuchHandle: the object was made in a transaction that was aborted
        -1: NoSuchHandle: the object was made in a transaction that was aborted
        "#,
    );
}

#[test]
fn objects_are_seen_as_what_they_are() {
    check(
        r#"
        r = new_rectangle() 2 3
        s = new_square() 4
        a = is r Square
        b = is s Square
        c = is s Shape
        d = is s any
        square = as s Square
        side = Square.side square
        wrong = as r Square
        lost = Square.side wrong
        same = as s Shape
        again = as same Square
        flush a b c d side wrong lost again s
        "#,
        r#"
        a = false
        b = true
        c = true
        d = true
        side = 4
        wrong = exception of -9
        lost = exception of -10
        again = Square#1.0
        s = Square#1.0
        -9: wrong_type
        -10: unhandled_exc, argument 0 of -9
        "#,
    );
}

#[test]
fn values_are_seen_as_what_they_are() {
    check(
        r#"
        n = const 5
        t = const "text"
        a = as n int
        b = is n int
        c = is n string
        d = as n string
        e = as t string
        f = is t string
        g = as t any
        h = is #-1 #9999
        i = as #7 int
        flush a b c e f g
        "#,
        r#"
        a = 5
        b = true
        c = false
        e = "text"
        f = true
        g = "text"
        -6: WrongType: a value of `int` is never one of `string`
        -10: NoSuchType: there is no type number 9999
        -11: NoSuchHandle: handle h7 is not a handle of this session, or it was freed
        "#,
    );
}

#[test]
fn structures_see_objects_as_what_they_are() {
    check(
        r#"
        sum = cell int
        p = cell[int].put sum 0
        r = new_rectangle() 2 3
        s = new_square() 4
        names = rows bool int
        one = const 1
        foreach
            i = int.to one 2
            except
                if
                    first = int.equal i 1
                then first
                    a = as r Square
                    x = Square.side a
                    e = emit names true x
                else
                    b = as s Square
                    y = Square.side b
                    f = emit names false y
                end_if
            when wrong_type
                g = emit names true -1
            end_except
            q = is s Square
            w = is r Square
            v = is i int
            h = emit names q 1
            k = emit names w 2
            l = emit names v 3
        end_foreach
        foreach
            j = int.to one 2
            z = as r Square
        end_foreach
        flush names z
        "#,
        r#"
        names = rows (true, -1) (true, 1) (false, 2) (true, 3) (false, 4) (true, 1) (false, 2) (true, 3)
        z = exception of -23
        -23 in round [1]: wrong_type
        "#,
    );
}

#[test]
fn objects_that_hold_values_are_seen_as_values() {
    let script = |begin: &str, end: &str| {
        format!(
            r#"
            t = rows int bool bool
            x = boxed() 42
            {begin}
            a = as x int
            b = is x int
            c = is x string
            r = emit t a b c
            d = as x string
            {end}
            flush t
            "#
        )
    };
    check(&script("", ""), "t = rows (42, true, false)\n -7: wrong_type");
    let (begin, end) = ("one = const 1\nforeach\n i = int.to one 2", "end_foreach");
    check(&script(begin, end), "t = rows (42, true, false)\n -9 in round [1]: wrong_type");
}

#[test]
fn bytes_are_values() {
    check(
        r#"
        b = const x"00ff10"
        e = const x""
        n = bytes.length b
        i = bytes.fetch b 2
        two = bytes.concat b x"aa"
        same = bytes.equal two x"00ff10aa"
        text = string.to_bytes "zoe"
        t = rows bytes int
        one = const 1
        foreach
            k = int.to one 2
            more = bytes.concat b x"0b"
            x = emit t more k
            y = emit t x"" k
        end_foreach
        c = cell bytes
        p = cell[bytes].put c b
        back = cell[bytes].get c
        a = is b bytes
        z = as b any
        wrong = bytes.concat b "text"
        flush b e n i two same text t back a z
        "#,
        r#"
        b = x[00, ff, 10]
        e = x[]
        n = 3
        i = 255
        two = x[00, ff, 10, aa]
        same = true
        text = x[7a, 6f, 65]
        t = rows (x[00, ff, 10, 0b], 1) (x[], 1) (x[00, ff, 10, 0b], 2) (x[], 2)
        back = x[00, ff, 10]
        a = true
        z = x[00, ff, 10]
        -20: WrongType: argument 1: expected `bytes`, found `string`
        "#,
    );
}

#[test]
fn a_table_that_is_refused_leaves_no_handles() {
    each_mode(|world| {
        let fill = "db = lookup db DataBase\n t = rows DataElem\n foreach\n e = DataBase.users db\n r = emit t e\n end_foreach\n flush t";
        for (limit, value) in [(Limit::Handles, 2), (Limit::ReplyBytes, 80), (Limit::Rows, 2)] {
            let mut client = world.client_with(limits(limit, value));
            let told = client.play(fill);
            assert!(told.starts_with("t = absent\n") && told.contains(limit.name()), "{told}");
            assert_eq!(client.session.handles(), 0, "{}", limit.name());
        }
        // Handles that the client has stay.
        let mut client = world.client_with(limits(Limit::Handles, 2));
        client.play("db = lookup db DataBase\n ann = DataBase.fetch db \"ann\"\n flush ann");
        assert!(client.play(fill).starts_with("t = absent\n"));
        assert_eq!(client.session.handles(), 1);
        assert_text(&client.play("v = DataElem.name ann\n flush v"), "v = \"ann\"", "");
    });
}

#[test]
fn a_row_for_something_inside_is_refused() {
    check(
        r#"
        one = const 1
        foreach
            i = int.to one 3
            a = emit i 1
        end_foreach
        flush a
        "#,
        "a = exception of -3\n -3: WrongType: `emit` needs a table of this batch",
    );
}

#[test]
fn procedures_do_not_keep_the_rows_of_earlier_batches() {
    for mode in modes() {
        let Some(tables) = tables(mode) else { continue };
        let heap_bytes = 16 << 20;
        let mut world =
            World::of(tables, CxLimits { heap_bytes, stack_bytes: STACK_BYTES, ..CxLimits::default() });
        let mut client = world.client();
        for number in 0..40 {
            let told = client.play(&format!(
                "t = rows string\n p0 = procedure p string\n r = emit t p0\n end_procedure\n \
                 s = text_of() 1000000\n x = proc {number} s\n n = string.length s\n flush n"
            ));
            assert_text(&told, "n = 1048576", "");
        }
    }
}
