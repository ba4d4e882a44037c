//! `bifrost demo` as a program: its tables, its chart, its figures.

mod support;

use std::path::Path;
use std::process::Output;

use serde_json::Value;
use support::{bifrost, stderr, stdout};

const WAYS: [(&str, &str); 5] = [
    ("client", "client loop"),
    ("perfect", "perfect batching"),
    ("while", "batched WHILE"),
    ("for", "batched FOREACH"),
    ("theta", "Theta method"),
];
const STEPS: [u64; 8] = [1, 2, 4, 8, 16, 32, 64, 128];

fn demo(arguments: &[&str], folder: &Path) -> Output {
    let output = bifrost().arg("demo").args(arguments).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    output
}

/// Crossings and calls of a way, with so many iterations.
fn counts(case: &str, n: u64) -> (u64, u64) {
    match case {
        "client" => (n, 4 * n),
        "perfect" => (1, 4 * n),
        // Nine calls in a round (000, 7.1.3); the cell, and `get` and `lt` once more.
        "while" => (1, 9 * n + 3),
        "for" => (1, 4 * n + 1),
        _ => (1, 1),
    }
}

#[test]
fn the_terminal_shows_all_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let output = demo(&[], folder.path());
    let text = stdout(&output);
    let row = |name: &str| -> Vec<&str> {
        let line = text
            .lines()
            .find(|line| line.trim_start().starts_with(name))
            .unwrap_or_else(|| panic!("{name}: {text}"));
        line.trim_start()[name.len()..].split_whitespace().collect()
    };
    // The element of a list: a crossing for each `next` and one for `first`, against one. The swap:
    // three against one.
    assert_eq!(row("each call waits for its result")[0], "20");
    assert_eq!(row("one batch")[0], "1");
    assert!(text.contains("The element is 400."), "{text}");
    assert_eq!(row("x and y are claimed")[0], "3");
    assert_eq!(row("x and y stay promises")[0], "1");
    assert!(text.contains("The point is at (3, 4)."), "{text}");
    assert!(text.contains("Record.user was not run, because its receiver failed:"), "{text}");
    assert!(text.contains("Records.fetch signalled not_found"), "{text}");
    for (case, name) in WAYS {
        let (crossings, calls) = counts(case, 128);
        assert_eq!(row(name)[..2], [crossings.to_string(), calls.to_string()], "{name}");
    }
    // The prediction beside the measurement, for each batch.
    for batch in STEPS {
        let line = text.lines().find(|line| {
            let predicted = line.matches(" us").count() == 2 || line.ends_with("not measured");
            line.trim_start().starts_with(&format!("{batch} ")) && predicted
        });
        assert!(line.is_some(), "{batch}: {text}");
    }
    // The chart: each way has its letter, and an axis.
    let chart: Vec<&str> = text.lines().filter(|line| line.contains(" |")).collect();
    assert!(chart.len() > 10, "{text}");
    for letter in ['c', 'p', 'w', 'f', 't'] {
        assert!(chart.iter().any(|line| line.contains([letter, '*'])), "{letter}: {text}");
    }
    assert!(text.contains("c client loop   p perfect batching   w batched WHILE"), "{text}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left behind");
}

#[test]
fn figures_and_chart_go_to_files() {
    let folder = tempfile::tempdir().unwrap();
    let output = demo(&["--svg", "ways.svg", "--json", "figures.jsonl"], folder.path());
    assert!(!stdout(&output).contains(" |"), "the chart is in the file: {}", stdout(&output));
    let svg = std::fs::read_to_string(folder.path().join("ways.svg")).unwrap();
    assert!(svg.starts_with("<svg") && WAYS.iter().all(|(_, name)| svg.contains(name)), "{svg}");
    let figures = std::fs::read_to_string(folder.path().join("figures.jsonl")).unwrap();
    let figures: Vec<Value> = figures.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let find = |case: &str, way: Option<&str>, n: u64| {
        let found = figures
            .iter()
            .find(|f| f["case"] == case && f["n"] == n && f.get("way").and_then(Value::as_str) == way);
        found.unwrap_or_else(|| panic!("{case} {way:?} {n}: {figures:#?}"))
    };
    for (case, _) in WAYS {
        for n in STEPS {
            let figure = find(case, None, n);
            assert!(figure["value"].as_f64().unwrap() > 0.0, "{figure}");
            let (crossings, calls) = counts(case, n);
            assert_eq!(
                (&figure["crossings"], &figure["calls"]),
                (&crossings.into(), &calls.into()),
                "{figure}"
            );
            assert_eq!(figure["unit"], "us");
        }
        find(case, Some("start-up"), 1);
        find(case, Some("iteration"), 1);
    }
    // t = t_c + t_d / B, as it is written down.
    let of = |figure: &Value| figure["value"].as_f64().unwrap();
    let fitted = |name| find(name, Some("fitted"), 1)["value"].as_f64();
    for batch in STEPS {
        assert!(of(find("batch", None, batch)) > 0.0);
        let predicted = find("batch", Some("predicted"), batch)["value"].as_f64();
        // A fit that came out negative in the noise predicts nothing.
        let expected = fitted("t_c").zip(fitted("t_d")).map(|(t_c, t_d)| t_c + t_d / batch as f64);
        assert_eq!(predicted.is_some(), expected.is_some());
        assert!((predicted.unwrap_or_default() - expected.unwrap_or_default()).abs() < 1e-6);
    }
}
