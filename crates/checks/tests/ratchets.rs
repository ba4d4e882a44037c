//! The measures of text and code keep their goals (`cargo run -p bifrost-checks` prints them all).

use bifrost_checks::measures::{Measure, measure};
use bifrost_checks::repository::none;

/// Measures whose goals are not reached yet.
const OPEN: [&str; 1] = ["circles: files of the largest"];

#[test]
fn measures_keep_their_goals() {
    let measures = measure(10).unwrap_or_else(|why| panic!("{why}"));
    let told = |measure: &Measure| {
        let goal = measure.goal.unwrap_or_default();
        let places = measure.worst.join("\n    ");
        format!("{}: {:.1}, where {goal} is the goal; the worst:\n    {places}", measure.name, measure.value)
    };
    let is_open = |measure: &Measure| OPEN.contains(&measure.name);
    let missed = measures.iter().filter(|measure| !measure.is_reached() && !is_open(measure));
    let reached = measures.iter().filter(|measure| measure.is_reached() && is_open(measure));
    let reached = reached.map(|measure| format!("{}: reached, and no longer open", measure.name));
    none(&missed.map(told).chain(reached).collect::<Vec<_>>());
}

#[test]
fn open_measures_exist() {
    let measures = measure(0).unwrap_or_else(|why| panic!("{why}"));
    for name in OPEN {
        assert!(measures.iter().any(|measure| measure.name == name), "there is no measure `{name}`");
    }
}
