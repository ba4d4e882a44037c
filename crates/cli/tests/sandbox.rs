//! Modules of clients through a server: the Rust client, the settings, hostile modules.

mod support;

#[rustfmt::skip]
#[allow(clippy::all, missing_docs, dead_code, reason = "generated")]
#[path = "../src/bench/bifrost_stubs.rs"]
mod stubs;

use std::path::{Path, PathBuf};

use bifrost_veneer::wire::ErrorNumber;
use bifrost_veneer::{Error, Misuse, Module, Session};
use stubs::{Probe, Records};
use support::Server;

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/bench").join(name)
}

fn guest() -> Module {
    Module::new(std::fs::read(file("sandbox/guest.wasm")).unwrap())
}

const EIGHT: [&str; 2] = ["--set", "limits.modules_max=8"];

fn serve(arguments: &[&str]) -> Server {
    Server::serve(&file("bench.theta"), arguments)
}

fn number(error: &Error) -> Option<ErrorNumber> {
    match error {
        Error::Refused { number, .. } => ErrorNumber::from_number(*number),
        _ => None,
    }
}

fn misused(error: &Error, misuse: Misuse) -> bool {
    matches!(error.root(), Error::Misuse(found) if *found == misuse)
}

#[test]
fn a_client_runs_a_module_in_one_crossing() {
    for way in [&[][..], &["--interpret"]] {
        let server = serve(&[&EIGHT, way].concat());
        let s = stubs::connect(&server.urls[0]).unwrap();
        let module = guest();
        let (before, records) = (s.counters(), s.lookup::<Records>("records"));
        let probe = s.lookup::<Probe>("probe");
        let sum = s.run_wasm::<(i64,), i64>(&module, "sum", (100,));
        let done = s.run_wasm::<(Probe, i64), ()>(&module, "nothing_loop", (&probe, 1000));
        let fetched =
            s.run_wasm::<(Records, String, i64), i64>(&module, "fetch_loop", (&records, "user7", 10));
        // The result of a run is an argument of the next call.
        let more = &fetched + &sum;
        assert_eq!(more.claim().unwrap(), 5050 + 10);
        done.claim().unwrap();
        let after = s.counters();
        assert_eq!(after.crossings, before.crossings + 1);
        // Each run, its calls, and the addition.
        assert_eq!(after.executed - before.executed, 3 + 1000 + 30 + 1);
        // The module is there by now: the same function again is a few words.
        assert_eq!(s.run_wasm::<(i64,), i64>(&module, "sum", (3,)).claim().unwrap(), 6);
        // An exception of a call in the module is that of the run.
        let lost = s.run_wasm::<(Records, String, i64), i64>(&module, "fetch_loop", (&records, "nobody", 1));
        assert!(matches!(lost.claim(), Err(Error::Signal { .. })));
    }
}

#[test]
fn arguments_and_results_are_checked_by_the_server() {
    let server = serve(&EIGHT);
    let s = stubs::connect(&server.urls[0]).unwrap();
    let module = guest();
    let probe = s.lookup::<Probe>("probe");
    let cases = [
        (s.run_wasm::<(), i64>(&module, "missing", ()), ErrorNumber::NoSuchModule),
        (s.run_wasm::<(), i64>(&module, "sum", ()), ErrorNumber::WrongCount),
        (s.run_wasm::<(Probe,), i64>(&module, "sum", (&probe,)), ErrorNumber::WrongType),
        // It returns nothing.
        (s.run_wasm::<(), i64>(&module, "empty", ()), ErrorNumber::WrongType),
        (s.run_wasm::<(), i64>(&Module::new(*b"\0asm"), "empty", ()), ErrorNumber::BadModule),
    ];
    for (promise, expected) in cases {
        assert_eq!(number(&promise.claim().unwrap_err()), Some(expected));
    }
    let text = s.run_wasm::<(i64,), String>(&module, "sum", (3,));
    assert_eq!(number(&text.claim().unwrap_err()), Some(ErrorNumber::WrongType));
    s.clear_exceptions();
}

#[test]
fn runs_are_no_part_of_structures_and_part_of_transactions() {
    let server = serve(&EIGHT);
    let s = stubs::connect(&server.urls[0]).unwrap();
    let module = guest();
    let mut inside = None;
    s.foreach(s.value(1_i64).to(3), |_| inside = Some(s.run_wasm::<(i64,), i64>(&module, "sum", (1,))));
    assert!(misused(&s.flush().unwrap_err(), Misuse::ModuleInside));
    s.clear_exceptions();
    assert_eq!(s.run_wasm::<(i64,), i64>(&module, "sum", (4,)).claim().unwrap(), 10);
    s.commit().claim().unwrap();
}

#[test]
fn an_endless_module_ends_with_its_batch_and_others_go_on() {
    let server = serve(&[&EIGHT[..], &["--set", "limits.batch_time_ms_max=300"]].concat());
    let spinning = stubs::connect(&server.urls[0]).unwrap();
    let url = server.urls[0].clone();
    let other = std::thread::spawn(move || {
        let s: Session = stubs::connect(&url).unwrap();
        (0..50).all(|_| s.lookup::<Probe>("probe").one().claim().is_ok_and(|one| one == 1))
    });
    let error = spinning.run_wasm::<(), ()>(&guest(), "spin", ()).claim().unwrap_err();
    assert!(matches!(number(&error), Some(ErrorNumber::TimeLimit | ErrorNumber::OutOfFuel)), "{error}");
    assert!(other.join().unwrap());
    // The session goes on, too.
    assert_eq!(spinning.run_wasm::<(i64,), i64>(&guest(), "sum", (2,)).claim().unwrap(), 3);
}

#[test]
fn a_server_that_runs_no_modules_is_not_asked() {
    let server = serve(&[]);
    let s = stubs::connect(&server.urls[0]).unwrap();
    let refused = s.run_wasm::<(i64,), i64>(&guest(), "sum", (1,));
    assert!(misused(&refused.claim().unwrap_err(), Misuse::NoModules));
}

#[test]
fn all_forms_are_measured() {
    let measure = ["bench", "sandbox", "--rounds", "1", "--json", "-"];
    let output = support::bifrost().args(measure).output().unwrap();
    assert!(output.status.success(), "{}", support::stderr(&output));
    let lines = support::stdout(&output).lines().filter(|line| line.starts_with('{'));
    let lines: Vec<serde_json::Value> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
    // Of each form a loop of null calls, and its bytes; of most more loops.
    for (form, least) in [
        ("batch", 3),
        ("batched WHILE", 5),
        ("batched FOREACH", 5),
        ("batched procedure", 4),
        ("Theta method", 4),
        ("module", 5),
    ] {
        let found = lines.iter().filter(|line| line["case"] == form && line["unit"] != "KiB");
        assert!(found.clone().count() >= least, "{form}: {lines:?}");
        for line in found {
            assert!(line["value"].as_f64().is_some_and(|value| value > 0.0), "{line}");
        }
    }
    // The memory of each form; that of a batch that has run may be none.
    assert_eq!(lines.iter().filter(|line| line["unit"] == "KiB").count(), 5, "{lines:?}");
    assert!(lines.iter().all(|line| line["bench"] == "sandbox"), "{lines:?}");
}
