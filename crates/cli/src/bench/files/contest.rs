//! All systems at all points, in turn: [`measure`].
//!
//! A [`Point`] is a number of tasks and of clients over a transport. Its [`Row`]s have the samples
//! of a system that copies in one way. In each round each system takes its turn, in one order and
//! then in the other, so that a change of the machine's speed hits all.

use std::path::Path;

use indicatif::ProgressBar;

use super::super::common::Failed;
use super::super::report::{Case, summary};
use super::queue::{Prediction, predict};
use super::subject::{Counts, Done, Files, Over, Server, Slow, Subject, Way, Work};

/// A measured combination.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Point {
    pub over: Over,
    pub tasks: u32,
    pub clients: u32,
}

/// The samples of a system and a way at a point.
#[derive(Clone, Debug)]
pub struct Row {
    pub system: &'static str,
    pub way: Way,
    /// Milliseconds of a copy, of each client in each round.
    pub ms: Vec<f64>,
    /// Pairs of crossings of a copy.
    pub crossings: u64,
    /// Processor time of the clients, in nanoseconds.
    pub client_cpu_ns: u64,
    /// The counts of the server.
    pub counts: Counts,
}

impl Row {
    /// Makes a row without samples.
    pub fn new(system: &'static str, way: Way) -> Row {
        Row { system, way, ms: Vec::new(), crossings: 0, client_cpu_ns: 0, counts: Counts::none() }
    }

    /// Adds the copies of a round, and the counts that they have made.
    pub fn add(&mut self, done: &[Done], counts: &Counts) {
        for done in done {
            self.ms.push(done.ns as f64 / 1e6);
            self.crossings = done.crossings;
            self.client_cpu_ns += done.cpu_ns;
        }
        self.counts.add(counts);
    }

    /// Returns the median time of a copy in milliseconds, and the least.
    pub fn time(&self) -> (f64, f64) {
        let (median, least, _) = summary(&mut self.ms.clone());
        (median, least)
    }

    fn each(&self, sum: Option<u64>) -> Option<f64> {
        (self.counts.taken > 0).then_some(sum? as f64 / self.counts.taken as f64)
    }

    /// Returns QLENGTH, if the system counts it.
    pub fn queue_length(&self) -> Option<f64> {
        self.each(self.counts.queue_length_sum)
    }

    /// Returns NACTIVE.
    pub fn active(&self) -> Option<f64> {
        self.each(Some(self.counts.active_sum))
    }

    /// Returns the microseconds that a task works on an invocation.
    pub fn service_us(&self) -> Option<f64> {
        Some(self.each(Some(self.counts.ran_ns))? / 1e3)
    }

    /// Returns the microseconds from the end of an invocation until the client's next one arrives:
    /// the cycle of a client without its wait and service.
    pub fn think_us(&self) -> Option<f64> {
        let cycle = self.ms.iter().sum::<f64>() * 1e3 / self.counts.taken as f64;
        let waited = self.each(self.counts.waited_ns)? / 1e3;
        Some(cycle - waited - self.service_us()?)
    }

    /// Returns the prediction for its queue. Only for clients with one call under way, and for
    /// systems that count waits.
    pub fn predicted(&self, point: &Point) -> Option<Prediction> {
        if self.way != Way::Single {
            return None;
        }
        predict(point.clients, point.tasks, self.service_us()?, self.think_us()?)
    }

    /// Returns the processor time of server and client for a copy, in nanoseconds.
    pub fn cpu_ns(&self) -> u64 {
        (self.counts.cpu_ns + self.client_cpu_ns).checked_div(self.ms.len() as u64).unwrap_or_default()
    }

    /// Returns its figures as cases of a benchmark.
    pub fn cases(&self, bench: &'static str, point: &Point) -> Vec<Case> {
        let at = format!("{}, {} tasks, {} clients", self.way.name(), point.tasks, point.clients);
        let case = |figure: &str, unit, samples: &mut [f64]| {
            let case = Case::new(format!("{at}: {figure}"), point.clients.into(), unit, samples);
            case.part_of(bench).of(self.system).by(point.over.name())
        };
        let copy = case("copy", "ms", &mut self.ms.clone());
        let mut cases = vec![Case { crossings: Some(self.crossings), cpu_ns: Some(self.cpu_ns()), ..copy }];
        let predicted = self.predicted(point);
        let figures = [
            ("queue length", "", self.queue_length(), predicted.map(|p| p.queue_length)),
            ("active tasks", "", self.active(), predicted.map(|p| p.active)),
            ("service", "us", self.service_us(), None),
            ("think", "us", self.think_us(), None),
        ];
        for (figure, unit, value, predicted) in figures {
            if let Some(value) = value {
                cases.push(case(figure, unit, &mut [value]).predicted(predicted));
            }
        }
        cases
    }
}

/// A point with its rows.
pub struct Measured {
    pub point: Point,
    pub rows: Vec<Row>,
}

impl Measured {
    /// Returns the row of a system and a way.
    pub fn row(&self, system: &str, way: Way) -> Option<&Row> {
        self.rows.iter().find(|row| row.system == system && row.way == way)
    }
}

/// The points, and the work at each of them.
pub struct Plan<'a> {
    pub over: Over,
    pub tasks: &'a [u32],
    pub clients: &'a [u32],
    pub rounds: u32,
    /// The ways to copy, of those that a system has.
    pub ways: &'a [Way],
    /// Reads under way with [`Way::Flight`].
    pub flight: u32,
    pub slow: Slow,
}

/// Measures all points over a transport, and shows each to `each`.
///
/// # Errors
/// A server or client fails.
pub fn measure(
    subjects: &[&dyn Subject],
    plan: &Plan<'_>,
    files: &Files,
    bar: &ProgressBar,
    mut each: impl FnMut(&Measured) -> Result<(), Failed>,
) -> Result<Vec<Measured>, Failed> {
    let subjects: Vec<&&dyn Subject> = subjects.iter().filter(|s| s.goes_over(plan.over)).collect();
    let mut all = Vec::new();
    for tasks in plan.tasks.iter().copied() {
        let folder = tempfile::tempdir()?;
        let mut servers = Vec::new();
        for subject in &subjects {
            bar.set_message(format!("starting {} over {}", subject.name(), plan.over.name()));
            servers.push(start(**subject, plan.over, tasks, files, folder.path())?);
        }
        for clients in plan.clients.iter().copied() {
            let point = Point { over: plan.over, tasks, clients };
            bar.set_message(format!(
                "{} over {}: {tasks} tasks, {clients} clients",
                "copies",
                plan.over.name()
            ));
            for (subject, server) in subjects.iter().zip(&mut servers) {
                server.connect(clients).map_err(|error| format!("{}: {error}", subject.name()))?;
            }
            let mut measured = Measured { point, rows: Vec::new() };
            for subject in &subjects {
                let ways = plan.ways.iter().filter(|way| subject.ways().contains(way));
                measured.rows.extend(ways.map(|way| Row::new(subject.name(), *way)));
            }
            for round in 0..=plan.rounds {
                let mut order: Vec<usize> = (0..measured.rows.len()).collect();
                if round % 2 == 1 {
                    order.reverse();
                }
                for at in order {
                    let row = &mut measured.rows[at];
                    let server = subjects.iter().position(|subject| subject.name() == row.system);
                    let server = &mut servers[server.ok_or("no server of a row")?];
                    let work = Work::Copy { way: row.way, flight: plan.flight, slow: plan.slow };
                    let sample = sample(server.as_mut(), &work);
                    let (done, counts) = sample
                        .map_err(|error| format!("{}, {point:?}, {}: {error}", row.system, row.way.name()))?;
                    // The first round warms up.
                    if round > 0 {
                        row.add(&done, &counts);
                    }
                }
            }
            bar.suspend(|| each(&measured))?;
            all.push(measured);
        }
    }
    Ok(all)
}

/// Starts the server of a system, with a place of its own in a folder.
///
/// # Errors
/// It does not start.
pub fn start<'a>(
    subject: &'a dyn Subject,
    over: Over,
    tasks: u32,
    files: &'a Files,
    folder: &Path,
) -> Result<Box<dyn Server + 'a>, Failed> {
    let place = folder.join(subject.name());
    std::fs::create_dir(&place)?;
    let server = subject.start(over, tasks, files, &place);
    server.map_err(|error| format!("{} over {}: {error}", subject.name(), over.name()).into())
}

/// Has all clients work once; the counts are those of this work.
fn sample(server: &mut dyn Server, work: &Work) -> Result<(Vec<Done>, Counts), Failed> {
    let before = server.counts()?;
    let done = server.run(work)?;
    Ok((done, server.counts()?.since(&before)))
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Makes a row of two copies with 10 invocations each.
    pub fn row(system: &'static str, way: Way, ms: f64, counts: Counts) -> Row {
        let mut row = Row::new(system, way);
        let done = Done { ns: (ms * 1e6) as u64, crossings: 10, cpu_ns: 1000 };
        row.add(&[done, done], &counts);
        row
    }

    #[test]
    fn figures_of_a_row_are_means_of_its_invocations() {
        let counts = Counts {
            taken: 20,
            queue_length_sum: Some(10),
            active_sum: 5,
            waited_ns: Some(20_000),
            ran_ns: 40_000,
            cpu_ns: 3000,
        };
        // Two copies of 0.1 ms: a cycle takes 10 us, of which 1 waits and 2 are service.
        let single = row("grpc", Way::Single, 0.1, counts);
        assert_eq!((single.queue_length(), single.active()), (Some(0.5), Some(0.25)));
        assert_eq!((single.service_us(), single.cpu_ns()), (Some(2.0), 2500));
        assert!((single.think_us().unwrap() - 7.0).abs() < 1e-9);
        let point = Point { over: Over::Unix, tasks: 1, clients: 2 };
        let expected = predict(2, 1, 2.0, single.think_us().unwrap());
        assert_eq!((single.predicted(&point), expected.is_some()), (expected, true));
        assert_eq!(row("grpc", Way::Flight, 0.1, counts).predicted(&point), None);
        let cases = single.cases("files", &point);
        assert_eq!(cases.len(), 5);
        assert_eq!((cases[0].crossings, cases[0].cpu_ns), (Some(10), Some(2500)));
        assert_eq!(cases[1].predicted, expected.map(|expected| expected.queue_length));

        let unseen = Counts { queue_length_sum: None, waited_ns: None, ..counts };
        let unseen = row("omniorb", Way::Single, 0.1, unseen);
        assert_eq!((unseen.queue_length(), unseen.active()), (None, Some(0.25)));
        assert_eq!((unseen.predicted(&point), unseen.cases("files", &point).len()), (None, 3));
        let none = Row::new("omniorb", Way::Single);
        assert_eq!((none.active(), none.predicted(&point), none.cpu_ns()), (None, None, 0));
    }
}
