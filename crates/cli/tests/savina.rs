//! The programs of the Savina suite, small: the same results on one node and on two, compiled and interpreted, and in any order.

mod support;

use std::collections::BTreeSet;

use support::{bifrost, examples, stderr, stdout};

/// Each program with its sizes and what it prints.
const PROGRAMS: [(&str, &str, &str); 10] = [
    ("banking", "20 500", "500 transactions move 250630, 264390 after all"),
    ("big", "50 12", "12 actors, 600 pings"),
    ("boundedbuffer", "5 4 3 20 1 2", "80 items, sum 3240"),
    ("chameneos", "10 500", "10 creatures, 500 meetings"),
    ("counting", "1000", "1000 messages"),
    ("fjcreate", "200", "200 actors"),
    ("fjthroughput", "6 100", "6 actors, 600 messages"),
    ("philosophers", "5 100", "5 philosophers, 500 meals"),
    ("pingpong", "100", "100 rounds"),
    ("threadring", "7 1000", "1000 passes end at 7 of 7"),
];

#[test]
fn programs_give_the_same_in_every_way() {
    let folder = examples().join("../bench/savina");
    let ways: [&[&str]; 7] = [
        &[],
        &["--interpret"],
        &["--nodes", "2"],
        &["--nodes", "2", "--interpret"],
        &["--seed", "1"],
        &["--seed", "42", "--interpret"],
        &["--seed", "18446744073709551615"],
    ];
    for (name, sizes, result) in PROGRAMS {
        let file = folder.join(format!("{name}.theta"));
        let expected = format!("{name}: {result}\n");
        for way in ways {
            let output = bifrost().arg("run").args(way).arg(&file).args(sizes.split(' ')).output().unwrap();
            let said = (stdout(&output), stderr(&output), output.status.code());
            assert_eq!(said, (&*expected, "", Some(0)), "{name} {way:?}");
        }
    }
}

#[test]
fn every_program_is_tried() {
    let mut files = BTreeSet::new();
    for entry in std::fs::read_dir(examples().join("../bench/savina")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        // What they share is no program.
        if path.extension().is_some_and(|it| it == "theta") && name != "savina" {
            files.insert(name);
        }
    }
    assert_eq!(files, PROGRAMS.map(|(name, ..)| name.to_owned()).into());
}

#[test]
fn all_are_timed() {
    let run = |args: &[&str]| {
        bifrost().args(["bench", "savina", "--quick", "--samples", "2"]).args(args).output().unwrap()
    };
    let output = run(&["--json", "-"]);
    let said = (stdout(&output), stderr(&output));
    assert_eq!(output.status.code(), Some(0), "{said:?}");
    for (name, _, result) in PROGRAMS {
        let prints = result.split(' ').next().unwrap();
        let line = said.0.lines().find(|line| line.contains(&format!("\"{name}\"")));
        let line = line.unwrap_or_else(|| panic!("{name}: {said:?}"));
        assert!(line.contains(&format!("\"result\":{prints}")), "{line}");
    }
    let output = run(&["pingpong", "--nodes", "2"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let output = run(&["ringring"]);
    assert!(stderr(&output).contains("there is no program `ringring`"), "{}", stderr(&output));
}

#[test]
fn sizes_that_are_none() {
    let folder = examples().join("../bench/savina");
    for (name, sizes, said) in [
        ("counting", "many", "`many` is no size"),
        ("pingpong", "0", "a size is at least 1"),
        ("banking", "1", "one account pays nobody"),
    ] {
        let output =
            bifrost().arg("run").arg(folder.join(format!("{name}.theta"))).arg(sizes).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{name}");
        assert!(stderr(&output).contains(said), "{name}: {}", stderr(&output));
    }
}
