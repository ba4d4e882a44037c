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
//! | long crossings in few words | `fold` |
//! | a server as a child process, and its stream | `server` |
//!
//! A case with several sessions has a recorder and a connection for each. Its steps are run one
//! after the other, so the sessions interleave as the file says.
//!
//! The interpreter of scripts is that of the recorder's own tests. `cases/README.md` describes the
//! form for those who write cases.

mod compile;
mod expect;
mod file;
mod fold;
mod server;

#[path = "../../recorder/tests/script/mod.rs"]
#[allow(dead_code, missing_docs, reason = "the interpreter of the recorder's tests")]
mod script;

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use bifrost_recorder::{Greeting, Recorder, Settings};
use bifrost_wire::Interface;
use serde_json::{Value as Json, json};

pub use file::{Case, read};

use compile::Action;
use expect::Check;
use script::rounds::Repeated;
use script::{Client, Cut, Machine, Step};
use server::{Connection, Server};

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

/// Returns the interface of the client, and the actions, each with the number of its session.
fn prepare(case: &Case) -> (Client, Vec<(usize, Action)>) {
    let client = Client::of(interface(&case.client));
    let actions = case.compile(&client.numbering).unwrap_or_else(|why| panic!("{}: {why}", case.name));
    (client, actions)
}

/// Returns the machine of a session.
fn machine<'c>(case: &Case, client: &'c Client, recorder: Recorder<Step>) -> Machine<'c> {
    let machine = Machine::over(client, recorder, Cut::Whole);
    match case.has_loops() {
        true => machine.written_by(fold::crossing),
        false => machine,
    }
}

/// Opens the sessions of a case; returns also the limits that are not the defaults.
fn connect<'c>(case: &Case, client: &'c Client, server: &Server) -> (Vec<Machine<'c>>, Json) {
    let mut limits = json!({});
    let machines = (0..case.sessions.len().max(1)).map(|_| {
        let mut stream = server.connect();
        let recorder;
        (recorder, limits) = greet(client, &mut stream);
        let stream = Rc::new(RefCell::new(stream));
        let sends = Rc::clone(&stream);
        machine(case, client, recorder)
            .sending_to(Box::new(move |piece| sends.borrow_mut().send(piece)))
            .answered_by(Box::new(move |_| match stream.borrow_mut().receive() {
                Some(reply) => json!({"reply": {"bytes": script::json::hex(&reply)}}),
                None => json!({"lose": true}),
            }))
    });
    let machines = machines.collect();
    (machines, limits)
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
    "not_reached",
    "remap_many",
    "growth",
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
    let (mut machines, _) = connect(case, &client, &server);
    for (at, (session, action)) in actions.iter().enumerate() {
        let machine = &mut machines[*session];
        let result = action.step().and_then(|step| machine.take(step));
        if let Action::Expect { check: check @ (Check::Value(_) | Check::Fails(_) | Check::Rows(_)), .. } =
            action
            && let Err(why) = check.holds(result.as_ref(), machine)
        {
            panic!("{}: {why}", case.name);
        }
        // A further block follows its structure directly.
        let next = actions.get(at + 1).and_then(|(_, action)| action.step());
        if next.is_none_or(|step| step.get("reopen").is_none()) {
            machine.flush_between();
        }
    }
}

/// Runs the steps of a case and compares its expectations. Returns the outputs of each session.
fn run(case: &Case, mut machines: Vec<Machine<'_>>, actions: &[(usize, Action)]) -> Vec<Json> {
    let mut number = 0;
    for (session, action) in actions {
        let machine = &mut machines[*session];
        if action.step().is_some() {
            number += 1;
            machine.begin(number);
        }
        if let Err(why) = act(action, machine) {
            panic!("{}: {why}", case.name);
        }
    }
    let outputs: Vec<Json> = machines.into_iter().map(Machine::finish).collect();
    for (session, action) in actions {
        if let Action::Expect { check: Check::Named(part, name), .. } = action {
            assert!(expect::is_named(&outputs[*session], part, name), "{}: no {part} {name}", case.name);
        }
    }
    outputs
}

/// Runs an action of the step that was begun.
fn act(action: &Action, machine: &mut Machine<'_>) -> Result<(), String> {
    match action {
        Action::Step(step) => drop(machine.take_here(step)),
        Action::Expect { step, check } => {
            let result = step.as_ref().and_then(|step| machine.take_here(step));
            check.holds(result.as_ref(), machine)?;
        }
        Action::Loop { step, actions } => {
            let steps: Vec<Option<Repeated<'_>>> =
                actions.iter().map(|action| action.step().map(Repeated::new)).collect();
            for round in 1..=step["loop"].as_u64().unwrap_or_default() {
                for (action, step) in actions.iter().zip(&steps) {
                    let result = step.as_ref().and_then(|step| machine.take_here(&step.in_round(round)));
                    if let Action::Expect { check, .. } = action {
                        let holds = check.in_round(round).holds(result.as_ref(), machine);
                        holds.map_err(|why| format!("in round {round}: {why}"))?;
                    }
                }
            }
        }
    }
    Ok(())
}

/// Returns the file of a case: its description, its script, its outputs.
fn whole(case: &Case, actions: &[(usize, Action)], limits: Json, outputs: Vec<Json>) -> Json {
    let mut file = case.describe();
    if limits != json!({}) {
        file["limits"] = limits;
    }
    file["script"] = actions.iter().filter_map(|(_, action)| action.step()).cloned().collect();
    let taken = |mut outputs: Json| -> serde_json::Map<String, Json> {
        if let (true, Json::Array(all)) = (case.has_loops(), &mut outputs["crossings"]) {
            outputs["crossings"] = fold::crossings(std::mem::take(all));
        }
        OUTPUTS.iter().map(|name| ((*name).to_owned(), outputs[name].take())).collect()
    };
    let mut outputs = outputs.into_iter().map(taken);
    match (case.sessions.as_slice(), file.as_object_mut()) {
        ([], Some(file)) => file.extend(outputs.next().into_iter().flatten()),
        (names, _) => {
            let named = names.iter().cloned().zip(outputs.map(Json::from));
            file["sessions"] = Json::Object(named.collect());
        }
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
    let (machines, limits) = connect(case, &client, &server);
    let outputs = run(case, machines, &actions);
    whole(case, &actions, limits, outputs)
}

/// Opens the session; returns the limits that are not the defaults.
fn greet(client: &Client, stream: &mut Connection) -> (Recorder<Step>, Json) {
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
    let machines = (0..case.sessions.len().max(1)).map(|index| {
        let outputs = match case.sessions.get(index) {
            Some(name) => &old["sessions"][name],
            None => &old,
        };
        let mut answers = fold::answers(&outputs["crossings"])
            .into_iter()
            .map(|answer| json!({"reply": {"bytes": script::json::hex(&answer)}}));
        let recorder = Machine::greeted(&client, &greeted);
        machine(case, &client, recorder)
            .answered_by(Box::new(move |_| answers.next().unwrap_or_else(|| json!({"lose": true}))))
    });
    let outputs = run(case, machines.collect(), &actions);
    whole(case, &actions, limits, outputs)
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
