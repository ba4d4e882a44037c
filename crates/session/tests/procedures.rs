//! Batched procedures.

mod support;

use bifrost_session::Limits;
use bifrost_wire::Limit;
use support::{World, assert_text, check, each_mode};

#[test]
fn a_procedure_has_typed_arguments_captures_and_a_result() {
    check(
        r#"
        t = lookup tally Tally
        k = const 100
        a, s = procedure weigh int Shape -> int
            ar = Shape.area s
            m = int.mul a ar
            n = int.add m k
            x = Tally.bump t
            return n
        end_procedure
        sq = lookup square Shape
        r = proc 0 2 sq
        rect = lookup rectangle Shape
        u = proc 0 r rect
        v = Tally.value t
        flush r u v t sq
        w = proc 0 1 sq
        v = Tally.value t
        z = proc 0 1 t
        y = proc 0 1
        q = proc 0 "a" sq
        p = proc 1
        flush w v z y q p
        "#,
        r#"
        r = 132
        u = 2212
        v = 2
        t = Tally#1.0
        sq = Square#2.0
        w = 116
        v = 3
        z = exception of -3
        y = exception of -4
        q = exception of -5
        p = exception of -6
        -3: WrongType: argument 2: expected `Shape`, found `Tally`
        -4: WrongCount: 2 arguments expected, 1 given
        -5: WrongType: argument 1: expected `int`, found `string`
        -6: NoSuchProcedure: there is no batched procedure number 1, or its definition was refused
        "#,
    );
}

#[test]
fn a_procedure_is_called_from_structures_and_procedures() {
    check(
        r#"
        n = procedure twice int -> int
            m = int.add n n
            return m
        end_procedure
        n = procedure four_times int -> int
            m = proc 0 n
            k = proc 0 m
            return k
        end_procedure
        c = cell int
        p = cell[int].put c 1
        one = const 1
        foreach
            i = int.to one 3
            v = cell[int].get c
            w = proc 1 v
            x = cell[int].put c w
        end_foreach
        r = cell[int].get c
        flush r
        "#,
        "r = 64",
    );
}

#[test]
fn a_procedure_without_result() {
    check(
        r#"
        t = lookup tally Tally
        flush t
        procedure bump
            x = Tally.bump t
            if
                y = int.gt x 2
            then y
                return
            end_if
            x = Tally.bump t
        end_procedure
        a = proc 0
        b = proc 0
        v = Tally.value t
        flush a b v
        "#,
        "t = Tally#1.0\n a = nil\n b = nil\n v = 3",
    );
}

#[test]
fn recursion_goes_to_its_limit() {
    let script = |n: u32| {
        format!(
            r#"
            n = procedure sum int -> int
                if
                    z = int.le n 0
                then z
                    return 0
                end_if
                m = int.sub n 1
                s = proc 0 m
                r = int.add s n
                return r
            end_procedure
            a = proc 0 {n}
            flush a
            b = proc 0 10
            flush b
            "#
        )
    };
    check(&script(10), "a = 55\n b = 55");
    // A thread with room for as many activations of the interpreter, in a debug build too.
    let run = std::thread::Builder::new().stack_size(64 << 20).spawn(move || {
        for mode in support::modes() {
            let Some(tables) = support::tables(mode) else { continue };
            let mut world = World::of(tables, bifrost_runtime::cx::Limits::default());
            let mut limits = Limits::default();
            limits.set(Limit::ProcedureDepth, 256);
            let mut client = world.client_with(limits);
            assert_text(&client.play(&script(254)), "a = 32385\n b = 55", "");
            let mut client = world.client_with(limits);
            assert_text(
                &client.play(&script(300)),
                "a = exception of -6\n -6: failure(\"batched procedures are nested too deeply: 256 is the limit \
                    (procedure_depth_max)\")\n b = 55",
                "",
            );
            // Beyond the stack there is no deeper nesting, whatever the limit is.
            limits.set(Limit::ProcedureDepth, 10_000_000);
            let mut client = world.client_with(limits);
            let told = client.play(&script(1_000_000));
            assert!(told.contains("stack overflow") && told.ends_with("b = 55\n"), "{told}");
        }
    });
    run.expect("a thread").join().expect("the test");
}

#[test]
fn exceptions_leave_procedures_and_can_be_handled_outside() {
    check(
        r#"
        t = lookup tally Tally
        n = procedure add int -> int
            one = const 1
            foreach
                i = int.to one n
                a = Tally.add t n
            end_foreach
            return a2
        end_procedure
        flush
        "#
        .replace("return a2", "return 5")
        .as_str(),
        "done",
    );
    check(
        r#"
        t = lookup tally Tally
        n = procedure add int -> int
            a = Tally.add t n
            return a
        end_procedure
        c = cell int
        except
            b = proc 0 2000
        k, s = when too_much int string
            x = cell[int].put c k
        end_except
        r = cell[int].get c
        d = proc 0 -4
        one = const 1
        foreach
            i = int.to one 3
            m = int.sub 1 i
            e = proc 0 m
        end_foreach
        flush r d e
        "#
        .replace("m = int.sub 1 i", "m = int.sub one i")
        .as_str(),
        r#"
        r = 2000
        d = exception of -10
        e = exception of -14
        -10: negative(-4)
        -14 in round [2]: negative(-1)
        "#,
    );
}

#[test]
fn a_refused_procedure_takes_its_number() {
    check(
        r#"
        n = procedure bad int -> int
            m = int.add n "x"
            return m
        end_procedure
        n = procedure missing int -> int
            m = int.add n 1
        end_procedure
        n = procedure good int -> int
            return n
        end_procedure
        a = proc 0 1
        b = proc 1 1
        c = proc 2 1
        flush a b c
        "#,
        r#"
        a = exception of -6
        b = exception of -7
        c = 1
        -2: WrongType: argument 1: expected `int`, found `string`
        -4: WrongCount: the end can be reached without returning a value
        -6: NoSuchProcedure: there is no batched procedure number 0, or its definition was refused
        -7: NoSuchProcedure: there is no batched procedure number 1, or its definition was refused
        "#,
    );
}

#[test]
fn procedures_keep_their_numbers_when_a_batch_is_over_early() {
    check(
        r#"
        x = #3()
        procedure outer
            n = procedure inner int
                m = int.add n 1
            end_procedure
        end_procedure
        procedure skipped
        end_procedure
        flush
        procedure unfinished
        flush
        n = procedure good int -> int
            m = int.add n 1
            return m
        end_procedure
        c = proc 4 1
        flush c
        "#
        .replace("x = #3()", "")
        .as_str(),
        r#"
        -1: OpenStructure: a PROCEDURE cannot be defined inside a structure
        -1: MissingEnd: the batch ended inside a PROCEDURE: its end marker is missing
        c = 2
        "#,
    );
}

#[test]
fn captured_objects_stay_when_their_handles_are_given_back() {
    each_mode(|world| {
        let mut client = world.client();
        let told = client.play(
            r#"
            e = new_database()
            x = DataBase.new_user e "zed"
            flush e x
            procedure name -> string
                n = DataElem.name x
                return n
            end_procedure
            free e x
            flush
            n = proc 0
            flush n
            "#,
        );
        assert_text(&told, "e = DataBase#1.0\n x = DataElem#2.0\n done\n n = \"zed\"", "");
        // Another session has its own procedures.
        let mut other = world.client();
        assert_text(
            &other.play("n = proc 0\n flush n"),
            "n = exception of -1\n -1: NoSuchProcedure: there is no batched procedure number 0, or its definition was refused",
            "",
        );
    });
}

#[test]
fn equal_procedures_with_other_captures_stay_apart() {
    check(
        r#"
        a = lookup rectangle Shape
        b = lookup other Shape
        procedure pa -> int
            r = Shape.area a
            return r
        end_procedure
        procedure pb -> int
            r = Shape.area b
            return r
        end_procedure
        c = cell int
        one = const 1
        foreach
            i = int.to one 1
            x = proc 0
            y = proc 1
            z = int.mul x 100
            w = int.add z y
            p = cell[int].put c w
        end_foreach
        r = cell[int].get c
        m = proc 0
        n = proc 1
        flush r m n
        "#,
        "r = 1615\n m = 16\n n = 15",
    );
}

#[test]
fn a_procedure_may_use_many_things_from_outside() {
    let sums =
        "s = int.add s 1\n x = Tally.add t s\n".repeat(60).replace("s = int.add s 1", "s = int.add n 1");
    check(
        &format!(
            "t = lookup tally Tally\n n = procedure many int\n {sums} end_procedure\n a = proc 0 1\n c = const true\n if\n then c\n b = proc 0 2\n end_if\n v = Tally.value t\n flush v"
        ),
        "v = 300",
    );
}
