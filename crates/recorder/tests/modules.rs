//! Runs of modules: the bytes of a module go once, and refused runs send nothing.

use std::sync::Arc;

use bifrost_recorder::{
    BuiltinNumbers, CellNumbers, Error, Function, Greeting, Heading, Maker, Misuse, Operand, Recorder,
    Settings, Stubs,
};
use bifrost_wire::{Arg, Command, Decoded, Limit, ModuleNumber, TypeNumber, Value, decode, encode, operator};

static STUBS: Stubs = Stubs {
    digest: [7; 32],
    json: r#"{"types":[{"name":"int","kind":"int"}],"routines":[]}"#,
    basic: [(0, CellNumbers::NONE); 6],
    builtin: [BuiltinNumbers::NONE; 3],
    operators: [0; operator::COUNT],
};

fn recorder(limits: &[(Limit, u64)]) -> Recorder<u32> {
    let mut greeting = Greeting::new(&STUBS, "", "", Settings::default());
    greeting.sent(usize::MAX);
    let mut out = Vec::new();
    encode::welcome(&mut out, &[7; 32], limits, 1, "test");
    greeting.handle_bytes(&out).unwrap().expect("a session")
}

/// The commands that were recorded, in short.
fn recorded(r: &Recorder<u32>) -> Vec<String> {
    let (mut rest, mut all) = (r.recorded_bytes(), Vec::new());
    while let Ok(Decoded::Command(command, length)) = decode(rest, usize::MAX) {
        all.push(match command {
            Command::Module { number, bytes } => format!("module {} of {} bytes", number.0, bytes.len()),
            Command::Run(run) => {
                assert_eq!(run.args.iter().next(), Some(Arg::Value(Value::Int(5))));
                format!("run {} {} {:?}", run.module.0, run.export, run.expected)
            }
            other => format!("{other:?}"),
        });
        rest = &rest[length..];
    }
    all
}

fn run(r: &mut Recorder<u32>, module: &Arc<[u8]>, ty: u32) -> Result<Maker, Misuse> {
    let function = Function { module, export: "f", result: Some((ty, "int")) };
    let arguments = [Operand::Value(Value::Int(5))].into_iter();
    match r.run_module(Ok(()), function, arguments, 1) {
        Ok(made) => {
            r.new_result(made, 1);
            Ok(made)
        }
        Err(error) => Err(misuse(&error)),
    }
}

/// The misuse for which a call was not sent.
fn misuse(error: &Error<u32>) -> Misuse {
    match error {
        Error::NotSent { cause, .. } => misuse(cause),
        Error::Misuse(misuse) => *misuse,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_bytes_of_a_module_go_before_its_first_run() {
    let mut r = recorder(&[(Limit::Modules, 8)]);
    let (one, other): (Arc<[u8]>, Arc<[u8]>) = (Arc::from([1; 10]), Arc::from([2; 20]));
    let equal: Arc<[u8]> = Arc::from([1; 10]);
    for (module, number) in [(&one, 0), (&other, 1), (&equal, 0)] {
        assert_eq!(run(&mut r, module, 0), Ok(Maker::Module(number)));
    }
    let (run_0, run_1) = ("run 0 f Some(TypeNumber(0))", "run 1 f Some(TypeNumber(0))");
    assert_eq!(
        recorded(&r),
        ["module 0 of 10 bytes", run_0, "module 1 of 20 bytes", run_1, run_0],
        "equal bytes are one module"
    );
    assert_eq!((ModuleNumber(1).index(), TypeNumber(0).index()), (1, 0));
}

#[test]
fn a_run_that_is_refused_sends_nothing() {
    let module: Arc<[u8]> = Arc::from([1; 10]);
    for limits in [&[][..], &[(Limit::Modules, 0)]] {
        let mut r = recorder(limits);
        assert_eq!(run(&mut r, &module, 0), Err(Misuse::NoModules));
        assert!(recorded(&r).is_empty());
    }
    let mut r = recorder(&[(Limit::Modules, 8), (Limit::FrameBytes, 1000)]);
    assert_eq!(run(&mut r, &Arc::from([1; 2000]), 0), Err(Misuse::TooLong));
    r.open_procedure(Ok(()), "p", Heading { params: Vec::new(), result: None }, 1);
    assert_eq!(run(&mut r, &module, 0), Err(Misuse::ModuleInside));
    r.close_procedure();
    assert!(recorded(&r).is_empty(), "{:?}", recorded(&r));
    // The module was not sent, so it goes with the next run.
    assert!(run(&mut r, &module, 0).is_ok());
    assert_eq!(recorded(&r).len(), 2);
}
