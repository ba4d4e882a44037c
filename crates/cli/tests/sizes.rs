//! `bifrost bench sizes`: small, or at their full sizes if `BIFROST_ACTOR_SIZES` is `full`, which a release build does in a minute.

mod support;

use std::collections::BTreeMap;

use serde_json::Value;
use support::{bifrost, stderr};

/// What is measured.
const FIGURES: [&str; 19] = [
    "idle",
    "mailbox, 1,000 others wait",
    "mailbox, all others wait",
    "queens, from the kill to the end",
    "queens, runs that have counted",
    "queens, runs that were told",
    "requests",
    "requests, memory for all",
    "requests, memory for each",
    "runaway, all of it",
    "runaway, longest time without a turn",
    "sends",
    "sends, memory for all",
    "session, heap",
    "session, process",
    "spread, placed by hand",
    "spread, placed by load",
    "spread-capsules, placed by hand",
    "spread-capsules, placed by load",
];

#[test]
fn great_numbers_fit() {
    let full = std::env::var("BIFROST_ACTOR_SIZES").is_ok_and(|it| it == "full");
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("sizes.jsonl");
    let mut bench = bifrost();
    bench.args(["bench", "sizes", "--json"]).arg(&json).args((!full).then_some("--quick"));
    let output = bench.output().unwrap();
    // Results that are not what they must be end the program.
    assert!(output.status.success(), "{}", stderr(&output));
    let lines = std::fs::read_to_string(json).unwrap();
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let figures = lines.iter().filter_map(|line| Some((line["case"].as_str()?, line)));
    let figures: BTreeMap<&str, &Value> = figures.collect();
    assert_eq!(figures.keys().copied().collect::<Vec<_>>(), FIGURES);
    for case in ["idle", "sends", "requests"] {
        assert_eq!(figures[case]["result"], figures[case]["n"], "{case}");
    }
    let runs = ["queens, runs that have counted", "queens, runs that were told"];
    assert_eq!(runs.map(|runs| figures[runs]["value"].as_f64().unwrap()).iter().sum::<f64>(), 10.0);
    let target = |what: &str| {
        let found = lines.iter().find(|line| line["target"].as_str().is_some_and(|it| it.starts_with(what)));
        found.unwrap_or_else(|| panic!("{what}: {lines:?}"))
    };
    // Memory is what it is on any machine; of fewer actors what a process has anyway is a part.
    assert_eq!(target("sends")["reached"], true, "{:?}", target("sends"));
    assert!(!full || target("idle")["reached"] == true, "{:?}", target("idle"));
    // Of a hundred actors one is a percent or two.
    for spread in ["spread, difference", "spread-capsules, difference"] {
        assert!(target(spread)["value"].as_f64().is_some_and(|it| it <= 25.0), "{:?}", target(spread));
    }
    for time in ["mailbox", "runaway"] {
        assert!(target(time)["value"].as_f64().is_some());
    }
}

#[test]
fn sizes_are_of_one_case() {
    for (arguments, said) in [
        (&["idles"][..], "there is no case `idles`"),
        (&["--size", "5"], "`--size` is the size of one case: name it"),
        (&["queens", "--size", "17"], "17 queens: 1 to 16 are known"),
    ] {
        let output = bifrost().args(["bench", "sizes"]).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains(said), "{}", stderr(&output));
    }
    let output = bifrost().args(["bench", "sizes", "idle", "--size", "1234"]).output().unwrap();
    assert!(support::stdout(&output).contains("idle, 1234"), "{}", stderr(&output));
}
