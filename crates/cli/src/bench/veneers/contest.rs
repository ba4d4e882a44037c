//! All subjects of a language at all cases, in turn: [`measure`].
//!
//! In each round each subject has its turn, in one order and then in the other, so that a change of
//! the machine's speed meets all of them.

use indicatif::ProgressBar;

use super::super::common::Failed;
use super::super::report::Case;
use super::Language;
use super::subject::{OURS, Step, Subject};

/// The sizes of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The samples of each figure.
    pub rounds: u32,
    /// The divisor of the steps of a sample.
    pub part: u32,
}

/// Measures all cases. A figure is nanoseconds of a step.
///
/// # Errors
/// A subject fails, or gives another result than it must.
pub fn measure(
    language: Language,
    subjects: &mut [Box<dyn Subject>],
    plan: Plan,
    bar: &ProgressBar,
) -> Result<Vec<Case>, Failed> {
    let mut cases: Vec<Case> = Vec::new();
    let called = language.name();
    for step in Step::ALL {
        bar.set_message(format!("{called}: {}", step.name()));
        let count = step.count(language) / plan.part;
        let mut taking: Vec<&mut Box<dyn Subject>> =
            subjects.iter_mut().filter(|subject| step.is_of(language, subject.name())).collect();
        let mut samples = vec![Vec::new(); taking.len()];
        for round in 0..=plan.rounds {
            let mut order: Vec<usize> = (0..taking.len()).collect();
            if round % 2 == 1 {
                order.reverse();
            }
            for at in order {
                let name = taking[at].name();
                let failed = |why: String| format!("{called}: {name}, {}: {why}", step.name());
                let (ns, result) = taking[at].run(step, count).map_err(|why| failed(why.to_string()))?;
                let expected = step.result(count);
                if result != expected {
                    return Err(failed(format!("the result is {result}, not {expected}")).into());
                }
                // The first round warms up.
                if round > 0 {
                    samples[at].push(ns / f64::from(count));
                }
            }
        }
        let first = cases.len();
        for (subject, samples) in taking.iter().zip(&mut samples) {
            let case = Case::new(step.name(), count.into(), "ns", samples);
            let case = case.part_of("veneers").of(subject.name()).by(called);
            let ours = cases.get(first).filter(|ours| ours.peer == OURS);
            let case = match ours {
                Some(ours) => case.beside(ours),
                None => case,
            };
            cases.push(case);
        }
    }
    Ok(cases)
}

/// Prints the figures of a language.
pub fn print(language: &str, cases: &[Case]) {
    let bold = anstyle::Style::new().bold();
    anstream::println!("\n{bold}Figures of {language}, in ns of a call or row{bold:#}");
    anstream::println!(
        "  {:<8} {:<11} {:>12} {:>12}   of ours: median, least",
        "case",
        "",
        "median",
        "least"
    );
    for case in cases {
        let times = |ratio: Option<f64>| ratio.map_or(String::new(), |ratio| format!("{ratio:.2} x"));
        let line = format!(
            "  {:<8} {:<11} {:>12.1} {:>12.1} {:>12} {:>12}",
            case.case,
            case.peer,
            case.value,
            case.min,
            times(case.times_ours),
            times(case.times_our_least)
        );
        anstream::println!("{}", line.trim_end());
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;

    struct Known(&'static str, f64, i64, Rc<RefCell<Vec<&'static str>>>);

    impl Subject for Known {
        fn name(&self) -> &'static str {
            self.0
        }

        fn run(&mut self, step: Step, count: u32) -> Result<(f64, i64), Failed> {
            self.3.borrow_mut().push(self.0);
            Ok((self.1 * f64::from(count), step.result(count) + self.2))
        }
    }

    #[test]
    fn subjects_take_turns_and_have_ratios_to_ours() {
        let turns = Rc::new(RefCell::new(Vec::new()));
        let known = |name, ns, off| Box::new(Known(name, ns, off, turns.clone())) as Box<dyn Subject>;
        let plan = Plan { rounds: 2, part: 10 };
        let bar = ProgressBar::hidden();
        let mut subjects = [known(OURS, 2.0, 0), known("other", 30.0, 0)];
        let cases = measure(Language::C, &mut subjects, plan, &bar).unwrap();
        // Six cases of both, and the raw socket.
        assert_eq!(cases.len(), 13);
        assert_eq!(turns.borrow()[..6], [OURS, "other", "other", OURS, OURS, "other"]);
        let other = cases.iter().find(|case| case.case == "batch" && case.peer == "other").unwrap();
        assert_eq!((other.n, other.value, other.times_ours), (1000, 30.0, Some(15.0)));
        assert_eq!((cases[12].case.as_str(), cases[12].peer), ("raw", OURS));

        // Without ours there is nothing to compare with.
        let cases = measure(Language::C, &mut [known("other", 30.0, 0)], plan, &bar).unwrap();
        assert!(cases.len() == 6 && cases.iter().all(|case| case.times_ours.is_none()));

        // Batches over the text form are shorter, and written by hand, too.
        let mut subjects = [known(OURS, 2.0, 0), known("other", 30.0, 0)];
        let cases = measure(Language::Perl, &mut subjects, plan, &bar).unwrap();
        let by_hand: Vec<&Case> = cases.iter().filter(|case| case.case == "socket").collect();
        assert!(by_hand.len() == 1 && by_hand[0].peer == OURS && by_hand[0].n == 100);
        assert!(cases.iter().all(|case| case.case != "batch" || case.n == 100));

        let wrong = measure(Language::C, &mut [known(OURS, 2.0, 1)], plan, &bar).unwrap_err();
        assert_eq!(wrong.to_string(), "c: bifrost, record: the result is 4951, not 4950");
    }
}
