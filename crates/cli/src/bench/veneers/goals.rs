//! The goals of each language.

use super::super::report::{Case, Target, ratio, summary};
use super::Language;
use super::subject::{OURS, Step};

/// The goals that a language has: nanoseconds of a recorded call and of one in a batch;
/// microseconds of a call in a batch beyond one that is written by hand, and of a pair of
/// crossings, alone or beyond the raw socket; the ratios to the best peer.
#[derive(Default)]
struct Goal {
    record: Option<f64>,
    batch: Option<f64>,
    beyond_socket_us: Option<f64>,
    pair_us: Option<f64>,
    beyond_raw_us: Option<f64>,
    pair_ratio: Option<f64>,
    batch_ratio: Option<f64>,
}

/// The value of a case that counts.
type Figure = fn(&Case) -> f64;

fn median(case: &Case) -> f64 {
    case.value
}

fn least(case: &Case) -> f64 {
    case.min
}

/// Returns the microseconds of a figure beyond those of another one, both in nanoseconds.
fn beyond_us(figure: f64, of: f64) -> f64 {
    (figure - of).max(0.0) / 1e3
}

fn goal(language: Language) -> Goal {
    let of = |record, batch, pair_ratio, batch_ratio| Goal {
        record: Some(record),
        batch: Some(batch),
        pair_ratio: Some(pair_ratio),
        batch_ratio: Some(batch_ratio),
        ..Goal::default()
    };
    let text = Goal { beyond_socket_us: Some(8.0), ..Goal::default() };
    match language {
        Language::Rust | Language::C | Language::Cpp => of(20.0, 50.0, 2.0, 200.0),
        Language::Python => Goal { beyond_raw_us: Some(15.0), ..of(400.0, 650.0, 5.0, 500.0) },
        Language::PythonNative => Goal { pair_us: Some(3.0), ..of(90.0, 150.0, 50.0, 2000.0) },
        Language::Typescript => Goal { beyond_raw_us: Some(8.0), ..of(50.0, 130.0, 4.0, 200.0) },
        Language::Java => Goal { beyond_raw_us: Some(2.0), ..of(20.0, 60.0, 3.0, 700.0) },
        Language::Go => Goal { beyond_raw_us: Some(2.0), ..of(15.0, 60.0, 3.0, 700.0) },
        Language::Perl => Goal { record: Some(4000.0), beyond_raw_us: Some(40.0), ..text },
        Language::Tcl | Language::Elisp => text,
    }
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
        let by_hand = ours(Step::Last).zip(ours(Step::Socket));
        let times = [
            ("record", Some(figure(record)), goal.record, "ns"),
            ("a call in a batch", Some(figure(batch)), goal.batch, "ns"),
            (
                "a call in a batch of 1,000 beyond the socket",
                by_hand.map(|(last, socket)| beyond_us(figure(last), figure(socket))),
                goal.beyond_socket_us,
                "us",
            ),
            ("a pair", Some(figure(pair) / 1e3), goal.pair_us, "us"),
            (
                "a pair beyond the raw socket",
                Some(beyond_us(figure(pair), figure(raw))),
                goal.beyond_raw_us,
                "us",
            ),
        ];
        for (what, reached, most, unit) in times {
            if let (Some(reached), Some(most)) = (reached, most) {
                targets.push(Target::new(name(what), reached, most, unit));
            }
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
            if let Some(bound) = bound.filter(|_| reached.is_finite()) {
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

        cases.push(case(Step::Last, OURS, [500.0, 600.0, 900.0]));
        cases.push(case(Step::Socket, OURS, [300.0, 350.0, 400.0]));
        let text = targets(Language::Tcl, &cases);
        assert_eq!(text.len(), 2);
        assert_eq!(text[0].target, "tcl: a call in a batch of 1,000 beyond the socket, median");
        assert_eq!((text[0].value, text[0].most, text[0].reached), (0.25, Some(8.0), true));
        assert_eq!(targets(Language::Perl, &cases).len(), 6);
    }
}
