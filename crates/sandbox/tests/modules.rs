//! Modules from text: well-behaved and hostile ones, against a session that answers by itself.

#![cfg(feature = "wasm")]

use bifrost_sandbox::{
    Bounds, Ended, HostCall, IMPORTS, INSTRUCTIONS_PER_FUEL, KEPT_MAX, Kind, LoadError, Module, Modules, Run,
    SLICE, Step, Value,
};
use std::sync::Arc;

const BOUNDS: Bounds = Bounds { memory_bytes: 1 << 20 };

fn load(text: &str) -> Arc<Module> {
    Modules::shared().load(&wat::parse_str(text).unwrap()).unwrap()
}

/// Runs to the end. Each command is answered with its own bytes, and the number of them.
fn finish(mut run: Run, slices_max: u32) -> Result<Option<Value>, String> {
    let (mut slices, mut input) = (0, Vec::new());
    loop {
        match run.step() {
            Step::Call { call: HostCall::Command { .. }, .. } => {
                run.swap_input(&mut input);
                run.answer(input.len() as i32, &input);
            }
            Step::Call { .. } => run.answer(7, b""),
            Step::Slice if slices == slices_max => return Err("too long".to_owned()),
            Step::Slice => slices += 1,
            Step::Done(value) => return Ok(value),
            Step::Ended(ended) => return Err(ended.to_string()),
        }
    }
}

fn run(text: &str, args: &[Value]) -> Result<Option<Value>, String> {
    finish(Run::begin(&load(text), "f", args, BOUNDS), 50)
}

#[test]
fn a_function_gets_its_arguments_and_gives_its_result() {
    let text = r#"(module
        (func (export "f") (param i64 i64) (result i64) (i64.mul (local.get 0) (local.get 1)))
        (func (export "g") (param f64) (result f64) (f64.neg (local.get 0)))
        (func (export "h") (param i32) (result i32) (local.get 0))
        (func (export "none"))
        (func (export "two") (result i64 i64) (i64.const 1) (i64.const 2))
        (func (export "single") (param f32)))"#;
    assert_eq!(run(text, &[Value::Int(6), Value::Int(-7)]), Ok(Some(Value::Int(-42))));
    let module = load(text);
    let begin = |name, arg| finish(Run::begin(&module, name, &[arg], BOUNDS), 0);
    assert_eq!(begin("g", Value::Real(1.5)), Ok(Some(Value::Real(-1.5))));
    assert_eq!(begin("h", Value::Position(3)), Ok(Some(Value::Position(3))));
    assert_eq!(finish(Run::begin(&module, "none", &[], BOUNDS), 0), Ok(None));
    let signature = module.signature("f").unwrap();
    assert_eq!((&signature.params[..], signature.result), (&[Kind::Int, Kind::Int][..], Some(Kind::Int)));
    for name in ["two", "single", "missing"] {
        assert_eq!(module.signature(name), None, "{name}");
    }
}

#[test]
fn a_call_carries_bytes_in_both_directions() {
    let text = r#"(module
        (import "bifrost" "run" (func $run (param i32 i32 i32 i32) (result i32)))
        (memory (export "memory") 1)
        (data (i32.const 16) "abcd")
        (func (export "f") (result i64)
            ;; Four bytes there, and room for three of the answer.
            (drop (call $run (i32.const 16) (i32.const 4) (i32.const 64) (i32.const 3)))
            (i64.load (i32.const 64))))"#;
    assert_eq!(run(text, &[]), Ok(Some(Value::Int(i64::from(u32::from_le_bytes(*b"abc\0"))))));
}

#[test]
fn a_run_begins_with_memory_of_its_own() {
    let text = r#"(module (memory (export "memory") 1)
        (func (export "f") (result i64)
            (i64.store (i32.const 0) (i64.add (i64.load (i32.const 0)) (i64.const 1)))
            (i64.load (i32.const 0))))"#;
    for _ in 0..3 {
        assert_eq!(run(text, &[]), Ok(Some(Value::Int(1))));
    }
}

#[test]
fn an_endless_loop_comes_back_after_each_slice_and_can_be_dropped() {
    let module = load(r#"(module (func (export "f") (loop $l (br $l))))"#);
    let mut run = Run::begin(&module, "f", &[], BOUNDS);
    for _ in 0..10 {
        assert!(matches!(run.step(), Step::Slice));
    }
    assert_eq!(run.take_instructions(), 10 * SLICE);
    assert_eq!(run.take_instructions(), 0);
    drop(run);
}

#[test]
fn instructions_of_a_short_run_are_counted_at_its_end() {
    let module = load(
        r#"(module (func (export "f") (param i64) (loop $l
            (br_if $l (i64.ne (i64.const 0) (local.tee 0 (i64.sub (local.get 0) (i64.const 1))))))))"#,
    );
    let mut run = Run::begin(&module, "f", &[Value::Int(1000)], BOUNDS);
    assert!(matches!(run.step(), Step::Done(None)));
    let taken = run.take_instructions();
    assert!((4000..10_000).contains(&taken), "{taken} instructions");
    assert!(taken / INSTRUCTIONS_PER_FUEL > 0);
}

#[test]
fn memory_has_a_limit() {
    let grow = r#"(module (memory (export "memory") 1)
        (func (export "f") (loop $l (drop (memory.grow (i32.const 1))) (br $l))))"#;
    let error = run(grow, &[]).unwrap_err();
    assert_eq!(
        error,
        format!(
            "the module needs {} bytes of memory: 1048576 is the limit (module_memory_bytes_max)",
            17 << 16
        )
    );
    let first = r#"(module (memory (export "memory") 17) (func (export "f")))"#;
    assert_eq!(run(first, &[]).unwrap_err(), error);
    let fits = r#"(module (memory (export "memory") 1)
        (func (export "f") (result i64) (i64.extend_i32_s (memory.grow (i32.const 15)))))"#;
    assert_eq!(run(fits, &[]), Ok(Some(Value::Int(1))));
}

#[test]
fn tables_have_a_limit() {
    let text = r#"(module (table 1 funcref)
        (func (export "f") (result i64)
            (i64.extend_i32_s (table.grow (ref.null func) (i32.const 10000)))))"#;
    assert_eq!(run(text, &[]), Ok(Some(Value::Int(-1))));
    let large = r#"(module (table 10001 funcref) (func (export "f")))"#;
    assert!(run(large, &[]).is_err());
}

#[test]
fn instructions_that_cannot_be_carried_out_end_the_run() {
    let cases = [
        ("(unreachable)", "unreachable"),
        ("(drop (i64.load (i32.const -8)))", "out of bounds memory access"),
        ("(i64.store (i32.const 65529) (i64.const 1))", "out of bounds memory access"),
        ("(drop (i32.div_s (i32.const 1) (i32.const 0)))", "divide by zero"),
        ("(call $f)", "call stack exhausted"),
        ("(call_indirect (i32.const 5))", "out of bounds table access"),
        ("(drop (i32.trunc_f64_s (f64.const nan)))", "invalid conversion"),
    ];
    for (body, expected) in cases {
        let text = format!(
            r#"(module (memory (export "memory") 1) (table 1 funcref) (func $f (export "f") {body}))"#
        );
        let error = run(&text, &[]).unwrap_err();
        assert!(error.starts_with("the module has trapped: ") && error.contains(expected), "{body}: {error}");
    }
}

#[test]
fn places_outside_the_memory_end_the_run_before_the_call_has_an_effect() {
    let cases = [(-1, 4, 0, 0), (65_533, 4, 0, 0), (0, -1, 0, 0), (0, 8, 65_535, 2), (0, 8, -16, 32)];
    for (at, length, out, room) in cases {
        let text = format!(
            r#"(module (import "bifrost" "run" (func $run (param i32 i32 i32 i32) (result i32)))
                (memory (export "memory") 1)
                (func (export "f") (drop (call $run
                    (i32.const {at}) (i32.const {length}) (i32.const {out}) (i32.const {room})))))"#
        );
        let mut run = Run::begin(&load(&text), "f", &[], BOUNDS);
        let Step::Ended(Ended::Trap(error)) = run.step() else { panic!("{at} {length} {out} {room}") };
        assert!(error.contains("out of bounds"), "{error}");
        // A run that is over stays over.
        assert!(matches!(run.step(), Step::Ended(_)));
    }
}

#[test]
fn a_module_without_an_exported_memory_makes_no_calls() {
    let text = r#"(module (import "bifrost" "raise" (func $raise (result i32)))
        (func (export "f") (drop (call $raise))))"#;
    assert_eq!(run(text, &[]).unwrap_err(), "the module has trapped: it exports no memory as `memory`");
}

#[test]
fn every_import_can_be_called_and_nothing_else_can_be_imported() {
    for (name, params, _) in IMPORTS {
        let (types, args) = ("i32 ".repeat(*params), "(i32.const 0) ".repeat(*params));
        let text = format!(
            r#"(module (import "bifrost" "{name}" (func $g (param {types}) (result i32)))
                (memory (export "memory") 1)
                (func (export "f") (result i64) (i64.extend_i32_s (call $g {args}))))"#
        );
        let expected = if name.contains("run") { 0 } else { 7 };
        assert_eq!(run(&text, &[]), Ok(Some(Value::Int(expected))), "{name}");
    }
    let bad = [
        r#"(module (import "wasi_snapshot_preview1" "fd_write" (func (param i32 i32 i32 i32) (result i32))))"#,
        r#"(module (import "bifrost" "system" (func)))"#,
        r#"(module (import "bifrost" "run" (func)))"#,
        r#"(module (import "bifrost" "run" (memory 1)))"#,
        r#"(module (import "env" "memory" (memory 1)))"#,
    ];
    for text in bad {
        let error = Modules::shared().load(&wat::parse_str(text).unwrap()).unwrap_err();
        assert!(matches!(&error, LoadError::Bad(_)), "{error}");
        assert!(error.to_string().len() < 400 && !error.to_string().contains('\n'), "{error}");
    }
}

#[test]
fn malformed_bytes_are_refused() {
    let good = wat::parse_str(
        r#"(module (memory (export "memory") 1) (func (export "f") (result i64) (i64.const 3)))"#,
    )
    .unwrap();
    assert!(Modules::shared().load(&good).is_ok());
    for bytes in [&b""[..], b"\0asm", b"(module)", b"\0asm\x0d\0\x01\0", &[0xff; 100]] {
        assert!(matches!(Modules::shared().load(bytes), Err(LoadError::Bad(_))), "{bytes:?}");
    }
    // Cut off anywhere, and with any byte changed: an error, or another module.
    for end in 0..good.len() {
        let _ = Modules::shared().load(&good[..end]);
        let mut changed = good.clone();
        changed[end] ^= 0x15;
        let _ = Modules::shared().load(&changed);
    }
}

#[test]
fn a_start_function_is_part_of_the_run() {
    let text = r#"(module (func $start (loop $l (br $l))) (start $start) (func (export "f")))"#;
    assert_eq!(run(text, &[]).unwrap_err(), "too long");
}

#[test]
fn equal_bytes_are_one_module_and_the_number_kept_has_a_limit() {
    let text = |n: usize| format!(r#"(module (func (export "f") (result i64) (i64.const {n})))"#);
    assert!(Arc::ptr_eq(&load(&text(1)), &load(&text(1))));
    for n in 0..KEPT_MAX + 20 {
        load(&text(n));
        assert!(Modules::shared().kept() <= KEPT_MAX);
    }
}

#[test]
fn runs_that_wait_in_calls_do_not_disturb_each_other() {
    let text = r#"(module (import "bifrost" "run" (func $run (param i32 i32 i32 i32) (result i32)))
        (memory (export "memory") 1)
        (func (export "f") (param i64) (result i64)
            (drop (call $run (i32.const 0) (i32.const 8) (i32.const 0) (i32.const 0)))
            (if (i64.eqz (local.get 0)) (then (unreachable)))
            (local.get 0)))"#;
    let module = load(text);
    let mut runs: Vec<Run> = (0..8).map(|n| Run::begin(&module, "f", &[Value::Int(n)], BOUNDS)).collect();
    for run in &mut runs {
        assert!(matches!(run.step(), Step::Call { .. }));
    }
    // Each goes on in another thread, in another order, and half of them are dropped in the call.
    let ends: Vec<(usize, String)> = std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for (n, mut run) in runs.into_iter().enumerate().filter(|(n, _)| n % 2 == 0).rev() {
            threads.push(scope.spawn(move || {
                run.answer(0, b"");
                (n, format!("{:?}", run.step()))
            }));
        }
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for (n, end) in ends {
        match n {
            0 => assert!(end.contains("unreachable"), "{end}"),
            n => assert_eq!(end, format!("Done(Some(Int({n})))")),
        }
    }
}

/// The guest of `bifrost bench sandbox` is committed as bytes, since the program has no reader of
/// the text form.
#[test]
fn the_module_of_the_measurements_is_made_of_its_text() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../cli/src/bench/sandbox");
    let made = wat::parse_file(folder.join("guest.wat")).unwrap();
    if std::env::var_os("BIFROST_UPDATE").is_some() {
        std::fs::write(folder.join("guest.wasm"), &made).unwrap();
    }
    let is_fresh = std::fs::read(folder.join("guest.wasm")).is_ok_and(|found| found == made);
    assert!(is_fresh, "refresh it: BIFROST_UPDATE=1 cargo test --workspace --test modules");
    let module = Modules::shared().load(&made).unwrap();
    let run = Run::begin(&module, "sum", &[Value::Int(100)], BOUNDS);
    assert_eq!(finish(run, 1), Ok(Some(Value::Int(5050))));
}
