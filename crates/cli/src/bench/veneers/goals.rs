//! The goals of each language.

use super::super::report::{Case, Target, ratio, summary};
use super::Language;
use super::subject::{OURS, Step};

/// The goals of a language: nanoseconds of a recorded call and of one in a batch, microseconds
/// of a pair of crossings, alone or beyond the raw socket, and the ratios to the best peer.
struct Goal {
    record: f64,
    batch: f64,
    pair_us: Option<f64>,
    beyond_raw_us: Option<f64>,
    pair_ratio: f64,
    batch_ratio: f64,
}

/// The value of a case that counts.
type Figure = fn(&Case) -> f64;

fn median(case: &Case) -> f64 {
    case.value
}

fn least(case: &Case) -> f64 {
    case.min
}

fn goal(language: Language) -> Goal {
    let (record, batch, pair_us, beyond_raw_us, pair_ratio, batch_ratio) = match language {
        Language::Rust | Language::C | Language::Cpp => (20.0, 50.0, None, None, 2.0, 200.0),
        Language::Python => (400.0, 650.0, None, Some(15.0), 5.0, 500.0),
        Language::PythonNative => (90.0, 150.0, Some(3.0), None, 50.0, 2000.0),
        Language::Typescript => (50.0, 130.0, None, Some(8.0), 4.0, 200.0),
        Language::Java => (20.0, 60.0, None, Some(2.0), 3.0, 700.0),
        Language::Go => (15.0, 60.0, None, Some(2.0), 3.0, 700.0),
    };
    Goal { record, batch, pair_us, beyond_raw_us, pair_ratio, batch_ratio }
}

/// Returns the figures of a language beside its goals, in medians and in least values; none if its
/// client is not measured. The best peer is the one with the least.
pub fn targets(language: Language, cases: &[Case]) -> Vec<Target> {
    let ours = |step: Step| cases.iter().find(|case| case.case == step.name() && case.peer == OURS);
    let (Some(record), Some(pair), Some(batch), Some(raw)) =
        (ours(Step::Record), ours(Step::Pair), ours(Step::Batch), ours(Step::Raw))
    else {
        return Vec::new();
    };
    let (goal, mut targets) = (goal(language), Vec::new());
    let figures = [("median", median as Figure), ("least", least)];
    for (of, figure) in figures {
        let name = |what: &str| format!("{}: {what}, {of}", language.name());
        let best = |step: Step| {
            let peers = cases.iter().filter(|case| case.case == step.name() && case.peer != OURS);
            let mut values: Vec<f64> = peers.map(figure).collect();
            summary(&mut values).1
        };
        targets.push(Target::new(name("record"), figure(record), goal.record, "ns"));
        targets.push(Target::new(name("a call in a batch"), figure(batch), goal.batch, "ns"));
        if let Some(most) = goal.pair_us {
            targets.push(Target::new(name("a pair"), figure(pair) / 1e3, most, "us"));
        }
        if let Some(most) = goal.beyond_raw_us {
            let beyond = (figure(pair) - figure(raw)).max(0.0) / 1e3;
            targets.push(Target::new(name("a pair beyond the raw socket"), beyond, most, "us"));
        }
        let ratios = [
            ("the best peer's pair / ours", ratio(best(Step::Pair), figure(pair)), goal.pair_ratio),
            (
                "the best peer's pair / our call in a batch",
                ratio(best(Step::Pair), figure(batch)),
                goal.batch_ratio,
            ),
            (
                "the best peer's pipelined call / ours",
                ratio(best(Step::Batch), figure(batch)),
                goal.batch_ratio,
            ),
        ];
        for (what, reached, bound) in ratios {
            if reached.is_finite() {
                targets.push(Target::at_least(name(what), reached, bound, "x"));
            }
        }
    }
    targets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_peer_counts_in_medians_and_in_least_values() {
        let case = |step: Step, peer, values: [f64; 3]| {
            Case::new(step.name(), 1, "ns", &mut values.clone()).of(peer).by("python")
        };
        let mut cases = vec![
            case(Step::Record, OURS, [390.0, 410.0, 500.0]),
            case(Step::Pair, OURS, [10e3, 20e3, 90e3]),
            case(Step::Batch, OURS, [500.0, 600.0, 900.0]),
            case(Step::Raw, OURS, [4e3, 10e3, 80e3]),
        ];
        assert_eq!(targets(Language::Python, &cases).len(), 6);
        assert!(targets(Language::Python, &cases[1..]).is_empty());
        cases.push(case(Step::Pair, "grpcio", [100e3, 200e3, 300e3]));
        cases.push(case(Step::Pair, "pycapnp", [90e3, 300e3, 400e3]));
        cases.push(case(Step::Batch, "pycapnp", [60e3, 90e3, 400e3]));
        let native = targets(Language::PythonNative, &cases);
        let pair = native.iter().find(|target| target.target == "python-native: a pair, least").unwrap();
        assert_eq!((pair.value, pair.most, pair.reached), (10.0, Some(3.0), false));
        let all = targets(Language::Python, &cases);
        let of = |name: &str| {
            let found = all.iter().find(|target| target.target == format!("python: {name}")).unwrap();
            (found.value, found.reached)
        };
        assert_eq!(of("record, median"), (410.0, false));
        assert_eq!(of("record, least"), (390.0, true));
        assert_eq!(of("a pair beyond the raw socket, median"), (10.0, true));
        assert_eq!(of("the best peer's pair / ours, median"), (10.0, true));
        assert_eq!(of("the best peer's pair / ours, least"), (9.0, true));
        assert_eq!(of("the best peer's pipelined call / ours, median"), (150.0, false));
        assert_eq!(of("the best peer's pipelined call / ours, least"), (120.0, false));
    }
}
