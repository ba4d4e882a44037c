//! Cases that every client language runs.
//!
//! A case is a program in the text form of the wire (`docs/spec/wire.md`, section 6) with the
//! knowledge that a client must have after it. [`read`] takes cases from `cases/*.yaml`;
//! [`Case::compile`] makes the script of a recorder of each (`vectors/recorder/README.md`).
//! [`live`] runs it against a server, [`replay`] against the answers that a server has given
//! before, which are in `cases/generated/`.
//!
//! | step | module |
//! | --- | --- |
//! | the files, and the form of a case | `file` |
//! | lines to steps of a script | `compile` |
//! | expectations | `expect` |
//! | a server as a child process, and its stream | `server` |
//!
//! The interpreter of scripts is that of the recorder's own tests. `cases/README.md` describes the
//! form for those who write cases.

mod compile;
mod expect;
mod file;
mod server;

#[path = "../../recorder/tests/script/mod.rs"]
#[allow(dead_code, missing_docs, reason = "the interpreter of the recorder's tests")]
mod script;

use std::path::{Path, PathBuf};

use bifrost_recorder::{Greeting, Recorder, Settings};
use bifrost_wire::Interface;
use serde_json::{Value as Json, json};

pub use file::{Case, read};

use compile::Action;
use expect::Check;
use script::{Client, Cut, Machine, Step};
use server::Server;

/// The outputs of a case in `cases/generated`.
const OUTPUTS: [&str; 7] =
    ["crossings", "results", "known", "history", "history_omitted", "counters", "closed"];

/// The folder of the cases.
pub fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../cases"))
}

/// The file of a case that was run.
pub fn generated(case: &Case) -> PathBuf {
    folder().join("generated").join(format!("{}.json", case.name))
}

/// The file of the interface of a program.
fn interface_file(program: &str) -> PathBuf {
    folder().join("generated").join(format!("{program}.interface.json"))
}

/// Reads the interface of a program, which [`interfaces`] wrote.
fn interface(program: &str) -> String {
    let path = interface_file(program);
    std::fs::read_to_string(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}

/// Has the interfaces of all programs written by `bifrost veneer`; returns those that are stale.
/// With `write` they are written.
pub fn interfaces(bifrost: &Path, write: bool) -> Vec<String> {
    let mut stale = Vec::new();
    for program in server::programs() {
        let text = server::interface(bifrost, &program);
        let path = interface_file(&program);
        if write {
            std::fs::create_dir_all(folder().join("generated")).expect("a writable folder");
            std::fs::write(&path, &text).expect("a writable folder");
        } else if std::fs::read_to_string(&path).ok().as_deref() != Some(&text) {
            stale.push(program);
        }
    }
    stale
}

/// Compiles a case with the interface of its client.
fn prepare(case: &Case) -> (Client, Vec<Action>) {
    let client = Client::of(interface(&case.client));
    let actions = case.compile(&client.numbering).unwrap_or_else(|why| panic!("{}: {why}", case.name));
    (client, actions)
}

/// The tags of cases that are about batches: call by call they are others.
const OF_BATCHES: &[&str] = &[
    "overlap",
    "rows",
    "transaction",
    "closed",
    "leave",
    "limits",
    "misuse",
    "unseen",
    "counters",
    "rounds",
];

/// Runs each case with a flush after each step, and compares values and failures: they are the
/// same as those of the batches. Cases about batches themselves are left out. Returns the names of
/// those that differ, and the number of all that were run.
pub fn check_evaluated(bifrost: &Path) -> (Vec<String>, usize) {
    let (mut others, mut count) = (Vec::new(), 0);
    for case in read(&folder()) {
        if case.covers.iter().any(|tag| OF_BATCHES.contains(&tag.as_str())) {
            continue;
        }
        count += 1;
        if std::panic::catch_unwind(|| evaluate(bifrost, &case)).is_err() {
            others.push(case.name);
        }
    }
    (others, count)
}

/// Runs a case with a flush after each step.
fn evaluate(bifrost: &Path, case: &Case) {
    let (client, actions) = prepare(case);
    let server = Server::start(bifrost, &case.program, &case.set);
    let mut stream = server.connect();
    let (recorder, _) = greet(&client, &mut stream);
    let mut machine = Machine::over(&client, recorder, Cut::Whole).answered_by(Box::new(move |batch| {
        stream.send(batch);
        let reply = stream.receive().expect("an answer");
        json!({"reply": {"bytes": script::json::hex(&reply)}})
    }));
    for (at, action) in actions.iter().enumerate() {
        let result = action.step().and_then(|step| machine.take(step));
        if let Action::Expect { check: check @ (Check::Value(_) | Check::Fails(_) | Check::Rows(_)), .. } =
            action
            && let Err(why) = check.holds(result.as_ref(), &machine)
        {
            panic!("{}: {why}", case.name);
        }
        // A further block follows its structure directly.
        let next = actions.get(at + 1).and_then(Action::step);
        if next.is_none_or(|step| step.get("reopen").is_none()) {
            machine.flush_between();
        }
    }
}

/// Runs the steps of a case and compares its expectations.
fn run(case: &Case, mut machine: Machine<'_>, actions: &[Action]) -> Json {
    for action in actions {
        match action {
            Action::Step(step) => drop(machine.take(step)),
            Action::Expect { step, check } => {
                let result = step.as_ref().and_then(|step| machine.take(step));
                if let Err(why) = check.holds(result.as_ref(), &machine) {
                    panic!("{}: {why}", case.name);
                }
            }
        }
    }
    let outputs = machine.finish();
    for action in actions {
        if let Action::Expect { check: Check::Named(part, name), .. } = action {
            assert!(expect::is_named(&outputs, part, name), "{}: no {part} {name}", case.name);
        }
    }
    outputs
}

/// Returns the file of a case: its description, its script, its outputs.
fn whole(case: &Case, actions: &[Action], limits: Json, outputs: &Json) -> Json {
    let mut file = case.describe();
    if limits != json!({}) {
        file["limits"] = limits;
    }
    file["script"] = actions.iter().filter_map(Action::step).cloned().collect();
    for name in OUTPUTS {
        file[name] = outputs[name].clone();
    }
    file
}

/// Returns the text of a file.
pub fn text(file: &Json) -> String {
    let file = script::print::file(std::slice::from_ref(file));
    // One case, not a list of them.
    let inner = file.trim().trim_start_matches('[').trim_end_matches(']').trim_matches('\n');
    let lines: Vec<&str> = inner.lines().map(|line| line.strip_prefix("  ").unwrap_or(line)).collect();
    lines.join("\n") + "\n"
}

/// Runs a case against a server of its own, compares its expectations, and returns its file.
///
/// # Panics
/// An expectation does not hold, or the server cannot be started.
pub fn live(bifrost: &Path, case: &Case) -> Json {
    let (client, actions) = prepare(case);
    let server = Server::start(bifrost, &case.program, &case.set);
    let mut stream = server.connect();
    let (recorder, limits) = greet(&client, &mut stream);
    let machine = Machine::over(&client, recorder, Cut::Whole).answered_by(Box::new(move |batch| {
        stream.send(batch);
        match stream.receive() {
            Some(reply) => json!({"reply": {"bytes": script::json::hex(&reply)}}),
            None => json!({"lose": true}),
        }
    }));
    let outputs = run(case, machine, &actions);
    whole(case, &actions, limits, &outputs)
}

/// Opens the session; returns the limits that are not the defaults.
fn greet(client: &Client, stream: &mut server::Connection) -> (Recorder<Step>, Json) {
    let mut limits = json!({});
    let mut greeting = Greeting::new(client.stubs, "", "cases", Settings::default());
    loop {
        stream.send(greeting.bytes_to_send());
        greeting.sent(usize::MAX);
        let reply = stream.receive().expect("an answer to the greeting");
        if let Ok(bifrost_wire::DecodedReply::Reply(bifrost_wire::Reply::Welcome(welcome), _)) =
            bifrost_wire::decode_reply(&reply, bifrost_wire::REPLY_BYTES_MAX)
        {
            for (number, value) in welcome.limits.iter() {
                let limit = bifrost_wire::Limit::from_number(number);
                if let Some(limit) = limit.filter(|limit| limit.default_value() != value) {
                    limits[limit.name()] = json!(value);
                }
            }
        }
        match greeting.handle_bytes(&reply) {
            Ok(Some(recorder)) => return (recorder, limits),
            Ok(None) => {}
            Err(why) => panic!("{why}"),
        }
    }
}

/// Runs a case against the answers in its file, compares its expectations, and returns its file
/// anew.
///
/// # Panics
/// An expectation does not hold, or there is no file.
pub fn replay(case: &Case) -> Json {
    let (client, actions) = prepare(case);
    let path = generated(case);
    let old = std::fs::read_to_string(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
    let old: Json = serde_json::from_str(&old).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
    let limits = old.get("limits").cloned().unwrap_or_else(|| json!({}));
    let mut greeted = json!({"limits": limits});
    if case.program != case.client {
        greeted["server_interface"] = json!(interface(&case.program));
    }
    let crossings = old["crossings"].as_array().cloned().unwrap_or_default();
    // No answer comes behind a stream that was lost.
    let mut answers = crossings
        .into_iter()
        .filter_map(|crossing| crossing["answered"].as_str().map(|bytes| json!({"reply": {"bytes": bytes}})));
    let machine = Machine::new(&client, &greeted, Cut::Whole)
        .answered_by(Box::new(move |_| answers.next().unwrap_or_else(|| json!({"lose": true}))));
    let outputs = run(case, machine, &actions);
    whole(case, &actions, limits, &outputs)
}

/// Reads the interface of a program.
///
/// # Panics
/// It was not written.
pub fn interface_of(program: &str) -> Interface {
    Interface::from_json(interface(program).as_bytes()).expect("an interface")
}

/// Runs cases against servers, each with one of its own, and compares their files in
/// `cases/generated`; with `update` they are written. Returns the names of those that are stale, or
/// whose expectations do not hold.
pub fn check_live(bifrost: &Path, update: bool, which: impl Fn(&Case) -> bool) -> Vec<String> {
    let mut stale = interfaces(bifrost, update);
    for case in read(&folder()).iter().filter(|case| which(case)) {
        // One case says nothing about the others.
        let Ok(file) = std::panic::catch_unwind(|| live(bifrost, case)) else {
            stale.push(case.name.clone());
            continue;
        };
        let text = self::text(&file);
        let path = generated(case);
        if update {
            std::fs::write(&path, &text).expect("a writable folder");
        } else if std::fs::read_to_string(&path).ok().as_deref() != Some(&text) {
            stale.push(case.name.clone());
        }
        println!("case {} ok", case.name);
    }
    stale
}
