//! The behaviour vectors of `vectors/recorder/`: each script is run, and all outputs are compared.
//!
//! `BIFROST_UPDATE=1 cargo test -p bifrost-recorder` writes the outputs from the scripts.

#[allow(dead_code, reason = "other tests use the rest")]
mod script;

use std::path::PathBuf;

use script::{Client, Cut, Machine};
use serde_json::Value as Json;

/// The outputs of a case; all other keys are its script and its settings.
const OUTPUTS: [&str; 7] =
    ["crossings", "results", "known", "history", "history_omitted", "counters", "closed"];

/// The most bytes of a reply at which it is cut in two. It is cut at all others together.
const CUT_BYTES_MAX: usize = 64;

/// The most bytes of a case's replies that are changed, one in a run and each third one.
const CHANGED_BYTES_MAX: usize = 300;

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/recorder"))
}

/// The files of the folder, with their cases.
fn files() -> Vec<(PathBuf, Vec<Json>)> {
    let paths = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|e| e == "json")).collect();
    paths.sort();
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap();
        let cases = serde_json::from_str(&text).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
        (path, cases)
    };
    paths.into_iter().map(read).collect()
}

fn run(client: &Client, case: &Json, cut: Cut) -> Json {
    let steps = case["script"].as_array().expect("a script");
    Machine::new(client, case, cut).run(steps)
}

#[test]
fn scripts_have_their_outputs() {
    let client = Client::new();
    let mut stale = Vec::new();
    for (path, cases) in files() {
        let mut fresh = cases.clone();
        for case in &mut fresh {
            let outputs = run(&client, case, Cut::Whole);
            for name in OUTPUTS {
                case[name] = outputs[name].clone();
            }
        }
        if std::env::var_os("BIFROST_UPDATE").is_some() {
            std::fs::write(&path, script::print::file(&fresh)).unwrap();
            continue;
        }
        // As JSON, because the order of keys is not ours to say.
        for (old, new) in cases.iter().zip(&fresh) {
            for name in OUTPUTS.into_iter().filter(|name| old.get(name) != new.get(name)) {
                stale.push(format!("{}: {name} of {}", path.display(), old["case"]));
            }
        }
    }
    let update = "BIFROST_UPDATE=1 cargo test -p bifrost-recorder";
    assert!(stale.is_empty(), "other outputs ({update} writes them):\n{}", stale.join("\n"));
}

/// The lengths of a case's replies.
fn lengths(outputs: &Json) -> Vec<usize> {
    let replies = outputs["crossings"].as_array().expect("crossings").iter();
    let bytes = |hex: &str| hex.bytes().filter(|b| *b != b' ').count() / 2;
    replies.filter_map(|crossing| crossing["answered"].as_str()).map(bytes).collect()
}

#[test]
fn a_reply_may_be_cut_anywhere() {
    let client = Client::new();
    for (path, cases) in files() {
        for case in &cases {
            let whole = run(&client, case, Cut::Whole);
            let longest = lengths(&whole).into_iter().max().unwrap_or_default();
            // Greetings with another interface take their time.
            let most = if case.get("server").is_some() { 16 } else { CUT_BYTES_MAX };
            let cuts = (0..longest.min(most)).map(Cut::At);
            for cut in cuts.chain([Cut::Every(1), Cut::Every(5)]) {
                let outputs = run(&client, case, cut);
                assert_eq!(outputs, whole, "{}: {} cut at {cut:?}", path.display(), case["case"]);
            }
        }
    }
}

#[test]
fn no_byte_of_a_reply_is_trusted() {
    let client = Client::new();
    for (_, cases) in files() {
        for case in cases.iter().filter(|case| case.get("server").is_none()) {
            let length: usize = lengths(&run(&client, case, Cut::Whole)).iter().sum();
            // Nothing panics, and no session goes on that sends what is no command.
            for at in (0..length.min(CHANGED_BYTES_MAX)).step_by(3) {
                run(&client, case, Cut::Changed(at));
            }
        }
    }
}

#[test]
fn cases_are_named_once_and_say_why() {
    let mut names = Vec::new();
    for (path, cases) in files() {
        for case in cases {
            let name = case["case"].as_str().expect("a name").to_owned();
            let why = case["why"].as_str().unwrap_or_default();
            assert!(!why.is_empty(), "{}: {name} does not say why", path.display());
            assert!(!names.contains(&name), "two cases are named {name}");
            names.push(name);
        }
    }
    assert!(names.len() >= 40, "{} cases", names.len());
}
