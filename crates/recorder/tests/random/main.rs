//! Random scripts: 500 of them are in `vectors/random.jsonl`, with their outputs, for the recorders
//! of all languages.
//!
//! | command | does |
//! | --- | --- |
//! | `cargo test -p bifrost-recorder --test random` | compares the file, and checks each session |
//! | `BIFROST_UPDATE=1 ...` | writes the file |
//! | `BIFROST_FUZZ_SECONDS=20 ...` | makes and checks more, as long as that |
//! | `BIFROST_FUZZ_RUNS=10000 BIFROST_FUZZ_SEED=7 ...` | makes and checks more, and writes them to `target/random.jsonl` |
//!
//! A script comes from its seed alone. It is made while a recorder runs it (`steps`), with replies
//! that fit the batches (`replies`), and run again from the start for its outputs. `check` reads
//! the bytes as a server does, without the recorder.

mod batch;
mod check;
mod dice;
mod replies;
#[path = "../script/mod.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod script;
mod steps;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use bifrost_wire::Limit;
use bifrost_wire::interface::Numbering;
use check::{Limits, Session};
use dice::Dice;
use replies::Server;
use script::{Client, Cut, Machine};
use serde_json::{Value as Json, json};
use steps::Author;

/// The scripts of the file.
const COUNT: u64 = 500;

/// The outputs that the file has.
const OUTPUTS: [&str; 7] =
    ["crossings", "results", "known", "history", "history_omitted", "counters", "closed"];

fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Makes the script of a seed.
fn script(client: &Client, seed: u64) -> Json {
    let mut case = json!({"case": format!("random_{seed}"), "script": []});
    let mut dice = Dice::new(seed);
    let mut author = Author::new(Dice::new(seed ^ 0x5bd1_e995), client);
    author.settings(&mut case);
    let same = case
        .get("server")
        .is_some_and(|changes| script::server_interface(client, changes).digest() == client.stubs.digest);
    if same {
        case.as_object_mut().expect("a case").remove("server");
    }
    let interface = case.get("server").map_or_else(
        || client.numbering.interface().clone(),
        |changes| script::server_interface(client, changes),
    );
    let mut server = Server::new(Dice::new(seed ^ 0xc2b2_ae35), Numbering::new(interface));
    let mut machine =
        Machine::new(client, &case, Cut::Whole).answered_by(Box::new(move |batch| server.answer(batch)));
    let mut script = Vec::new();
    let mut run = |machine: &mut Machine<'_>, author: &mut Author<'_>, step: Json| {
        machine.take(&step);
        author.ran(machine);
        // Replies stand before the step that needs them.
        script.extend(machine.take_given());
        script.push(step);
    };
    let count = 8 + dice.below(10) * dice.below(6);
    let mut left = count;
    while left > 0 {
        let step = author.step(&machine);
        run(&mut machine, &mut author, step);
        // Little is left to say in a session that is closed.
        left = if machine.recorder().is_closed() { left.min(6) - 1 } else { left - 1 };
    }
    if dice.percent(85) {
        while let Some(step) = author.close() {
            run(&mut machine, &mut author, step);
        }
    }
    if machine.recorder().depth() == 0 && dice.percent(60) {
        run(&mut machine, &mut author, json!({"flush": true}));
    }
    if dice.percent(25) {
        run(&mut machine, &mut author, json!({"leave": true}));
    }
    case["script"] = Json::Array(script);
    case
}

/// Runs a script from the start.
fn outputs(client: &Client, case: &Json, cut: Cut) -> Json {
    let steps = case["script"].as_array().expect("a script");
    Machine::new(client, case, cut).run(steps)
}

/// Checks the bytes of a session.
fn check(client: &Client, case: &Json, outputs: &Json) -> Result<(), String> {
    let server = case.get("server").map(|changes| Numbering::new(script::server_interface(client, changes)));
    let server = server.as_ref().unwrap_or(&client.numbering);
    let limit = |limit: Limit| {
        let told = case["limits"].get(limit.name()).and_then(Json::as_u64);
        told.unwrap_or(limit.default_value()) as usize
    };
    let limits = Limits {
        frame_bytes: limit(Limit::FrameBytes),
        batch_bytes: limit(Limit::BatchBytes),
        commands: limit(Limit::BatchCommands),
        futures: limit(Limit::Futures),
        depth: limit(Limit::Depth),
        under_way: limit(Limit::BatchesUnderWay),
    };
    let mut session = Session::new(server, &limits);
    for crossing in outputs["crossings"].as_array().expect("a list") {
        for piece in crossing["sent"].as_array().expect("a list") {
            session.sent(&script::json::unhex(piece.as_str().expect("bytes")))?;
        }
        if let Some(answered) = crossing["answered"].as_str() {
            session.answered(&script::json::unhex(answered));
        }
    }
    Ok(())
}

/// The line of a case: its script and its outputs. The commands and the answers are left out, since
/// they follow from the bytes and from the script.
fn line(case: &Json, outputs: &Json) -> String {
    let mut case = case.clone();
    for name in OUTPUTS {
        case[name] = outputs[name].clone();
    }
    for crossing in case["crossings"].as_array_mut().expect("a list") {
        crossing.as_object_mut().expect("a crossing").retain(|key, _| key == "sent");
    }
    script::print::flat(&case)
}

/// Makes, runs and checks the scripts of seeds; returns their lines.
fn make(client: &Client, seeds: impl Iterator<Item = u64>) -> Vec<String> {
    let mut lines = Vec::new();
    for seed in seeds {
        let case = script(client, seed);
        let whole = outputs(client, &case, Cut::Whole);
        if let Err(why) = check(client, &case, &whole) {
            panic!("seed {seed}: {why}\n{}", line(&case, &whole));
        }
        let cut = 1 + (seed % 13) as usize;
        assert!(
            outputs(client, &case, Cut::Every(cut)) == whole,
            "seed {seed}: replies cut every {cut} bytes"
        );
        lines.push(line(&case, &whole));
    }
    lines
}

#[test]
fn random_scripts_have_their_outputs() {
    let client = Client::new();
    let path = root().join("vectors/random.jsonl");
    let lines = make(&client, 1..=COUNT);
    if std::env::var_os("BIFROST_UPDATE").is_some() {
        std::fs::write(&path, lines.join("\n") + "\n").unwrap();
    }
    let file = std::fs::read_to_string(&path).unwrap();
    let update = "BIFROST_UPDATE=1 cargo test -p bifrost-recorder --test random";
    assert_eq!(file.lines().count(), lines.len(), "{update}");
    for (old, new) in file.lines().zip(&lines) {
        assert!(old == new, "other scripts or outputs ({update} writes them):\n{old}\n{new}");
    }
}

#[test]
fn more_random_scripts_follow_the_rules() {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let (runs, seconds) = (number("BIFROST_FUZZ_RUNS"), number("BIFROST_FUZZ_SECONDS"));
    let clock = || std::time::UNIX_EPOCH.elapsed().map_or(1, |since| since.as_secs());
    let first = number("BIFROST_FUZZ_SEED").unwrap_or_else(clock);
    let client = Client::new();
    let Some(runs) = runs else {
        // Some more each time, or as many as the time allows.
        let (begun, time) = (Instant::now(), Duration::from_secs(seconds.unwrap_or(0)));
        println!("seeds from {first}");
        let mut seed = first;
        while seed < first + 20 || begun.elapsed() < time {
            make(&client, seed..seed + 20);
            seed += 20;
        }
        return;
    };
    println!("seeds {first} to {}", first + runs - 1);
    let lines = make(&client, first..first + runs);
    let path = root().join("target/random.jsonl");
    std::fs::create_dir_all(root().join("target")).unwrap();
    std::fs::write(&path, lines.join("\n") + "\n").unwrap();
    println!("wrote {}", path.display());
}

/// The bytes of the scripts in `vectors/recorder` are those that a server could find nothing wrong
/// with, either.
#[test]
fn scripts_of_the_vectors_follow_the_rules() {
    let client = Client::new();
    let mut count = 0;
    for entry in std::fs::read_dir(root().join("vectors/recorder")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let cases: Vec<Json> = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        for case in cases {
            let whole = outputs(&client, &case, Cut::Whole);
            count += 1;
            if let Err(why) = check(&client, &case, &whole) {
                panic!("{}: {why}", case["case"]);
            }
        }
    }
    assert!(count > 130, "{count} cases");
}

/// The check finds what is wrong.
#[test]
fn mistakes_are_found() {
    use bifrost_wire::encode;
    use bifrost_wire::{MethodNumber, Ref, TypeNumber, Value, op};

    let client = Client::new();
    type Write = fn(&mut Vec<u8>);
    let wrong: [(&str, Write); 9] = [
        ("-1 cannot be named", |out| encode::call(out, MethodNumber(1), Ref::future(1), &[])),
        ("is not held", |out| encode::call(out, MethodNumber(1), Ref(5), &[])),
        ("is not kept", |out| encode::get(out, Ref(-(1 << 32 | 1)))),
        ("is not held", |out| encode::free(out, &[Ref(5)], 0)),
        ("a structure is open", |out| {
            encode::plain(out, op::EXCEPT);
            encode::flush(out, [], false);
        }),
        ("no condition", |out| {
            encode::plain(out, op::IF);
            encode::plain(out, op::END_IF);
        }),
        ("outside a loop", |out| encode::plain(out, op::BREAK)),
        ("2 cannot be named", |out| {
            encode::constant(out, &Value::Nil);
            encode::flush(out, [2], false);
        }),
        ("inside a structure", |out| {
            encode::plain(out, op::EXCEPT);
            encode::lookup(out, "a", Some(TypeNumber(7)));
        }),
    ];
    for (why, write) in wrong {
        let mut bytes = Vec::new();
        write(&mut bytes);
        let outputs = json!({"crossings": [{"sent": [script::json::hex(&bytes)], "answered": null}]});
        let found = check(&client, &json!({}), &outputs).unwrap_err();
        assert!(found.contains(why), "{found}, not {why}");
    }
}

/// Every step of the scripts, and every kind of error, is in the file.
#[test]
fn random_scripts_have_all_steps() {
    let file = std::fs::read_to_string(root().join("vectors/random.jsonl")).unwrap();
    let cases: Vec<Json> = file.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let steps: Vec<&Json> = cases.iter().flat_map(|case| case["script"].as_array().unwrap()).collect();
    // A random script has one session. These steps let another one act before the answer, or
    // repeat the steps of several.
    let elsewhere = ["transmit", "ship", "loop"];
    for operation in script::print::OPERATIONS.iter().filter(|operation| !elsewhere.contains(operation)) {
        let count = steps.iter().filter(|step| step.get(*operation).is_some()).count();
        assert!(count >= 3, "{count} steps `{operation}`");
    }
    for kind in
        ["signal", "unhandled", "refused", "not_reached", "not_sent", "unseen", "misuse", "missing", "closed"]
    {
        assert!(file.contains(&format!("\"kind\": \"{kind}\"")), "no error of kind {kind}");
    }
    for misuse in bifrost_recorder::Misuse::ALL {
        // These are of typed layers: a session has one interface in a script, and no tasks; its stubs
        // are not released by hand, blocks are not left by jumps, and texts are checked.
        let typed = ["OtherInterface", "NotAsynchronous", "Released", "LeftOpen", "NotText"];
        // Not every library runs modules: the scripts have none.
        let modules = ["NoModules", "ModuleInside"];
        let absent = typed.contains(&misuse.name()) || modules.contains(&misuse.name());
        let named = file.contains(&format!("\"misuse\": \"{}\"", misuse.name()));
        assert_eq!(named, !absent, "{}", misuse.name());
    }
    let bytes = file.len();
    assert!(bytes < 3_500_000, "{bytes} bytes");
}
