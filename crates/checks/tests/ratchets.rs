//! The measures of text and code keep their goals (`cargo run -p bifrost-checks` prints them all).

use bifrost_checks::measures::{Measure, measure};
use bifrost_checks::repository::none;

#[test]
fn measures_keep_their_goals() {
    let measures = measure(10).unwrap_or_else(|why| panic!("{why}"));
    let told = |measure: &Measure| {
        let goal = measure.goal.unwrap_or_default();
        let places = measure.worst.join("\n    ");
        format!("{}: {:.1}, where {goal} is the goal; the worst:\n    {places}", measure.name, measure.value)
    };
    let missed = measures.iter().filter(|measure| !measure.is_reached());
    none(&missed.map(told).collect::<Vec<_>>());
}
