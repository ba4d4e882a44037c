//! The tables of 004 sections 6.2 and 6.3: our figures, with the paper's in the same columns.

use super::super::report::summary;
use super::contest::{Measured, Row};

/// The paper's figures for a number of tasks and clients.
pub struct Paper {
    pub tasks: u32,
    pub clients: u32,
    /// QLENGTH and NACTIVE of its new version, where it tells them.
    pub counts: Option<(f64, f64)>,
    /// The versions, each with the seconds of its copies.
    pub seconds: &'static [(&'static str, &'static [f64])],
}

/// The copies of section 6.2, with short operations.
pub const FILES: [Paper; 3] = [
    Paper {
        tasks: 1,
        clients: 1,
        counts: Some((0.0, 0.0)),
        seconds: &[("vanilla", &[7.49]), ("ver 1", &[6.41]), ("ver 2", &[3.85]), ("2 local", &[1.75])],
    },
    Paper {
        tasks: 1,
        clients: 4,
        counts: Some((0.9, 0.0)),
        seconds: &[("vanilla", &[25.40, 28.16, 26.75, 27.83]), ("ver 1", &[14.37, 14.32, 14.38, 14.32])],
    },
    Paper {
        tasks: 2,
        clients: 4,
        counts: Some((0.5, 0.6)),
        seconds: &[("vanilla", &[27.34, 27.03, 25.92, 26.92]), ("ver 1", &[14.80, 15.10, 15.31, 15.42])],
    },
];

/// The copies of section 6.3, with operations that compute and block.
pub const BLOCKING: [Paper; 4] = [
    Paper { tasks: 1, clients: 4, counts: None, seconds: &[("ver 1", &[85.70])] },
    Paper { tasks: 2, clients: 4, counts: None, seconds: &[("ver 1", &[43.78])] },
    Paper { tasks: 3, clients: 4, counts: None, seconds: &[("ver 1", &[29.82])] },
    Paper { tasks: 4, clients: 4, counts: None, seconds: &[("ver 1", &[25.54])] },
];

/// The last columns of a table: which of the two it is.
pub enum Last<'a> {
    /// How many times as long as the quickest row of the point a copy takes; crossings, processor
    /// time.
    Costs,
    /// The speed-up against the point of one task, and its prediction.
    SpeedUp(&'a [Measured]),
}

/// Returns the speed-up of a row against the same one with one task, and its prediction.
pub fn speed_up(row: &Row, measured: &Measured, all: &[Measured]) -> Option<(f64, Option<f64>)> {
    let alone = all.iter().chain([measured]).find(|one| {
        let (one, point) = (&one.point, &measured.point);
        one.tasks == 1 && (one.over, one.clients) == (point.over, point.clients)
    })?;
    let base = alone.row(row.system, row.way)?;
    let predicted = || {
        let (of, base) = (row.predicted(&measured.point)?, base.predicted(&alone.point)?);
        Some(of.throughput / base.throughput)
    };
    Some((base.time().0 / row.time().0, predicted()))
}

/// Returns the text of a figure that may be absent.
fn figure(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.2}"))
}

/// The columns that both tables have.
struct Columns {
    tasks: u32,
    clients: u32,
    system: &'static str,
    way: &'static str,
    /// QLENGTH, its prediction, NACTIVE, its prediction.
    counts: [Option<f64>; 4],
    /// COPYTIME and its least value.
    time: [String; 2],
}

impl Columns {
    fn line(&self, last: &str) -> String {
        let Columns { tasks, clients, system, way, time: [time, least], .. } = self;
        let [queue, queue_predicted, active, active_predicted] = self.counts.map(figure);
        let line = format!(
            "  {tasks:>6} {clients:>5}  {system:<8} {way:<8} {queue:>5} {queue_predicted:>5} {active:>6} \
             {active_predicted:>5} {time:>11} {least:>9} {last}"
        );
        line.trim_end().to_owned()
    }
}

/// Returns the heads of the columns.
pub fn head(last: &Last<'_>) -> String {
    let last = match last {
        Last::Costs => format!("{:>8} {:>9} {:>8}", "slower", "crossings", "CPU ms"),
        Last::SpeedUp(_) => format!("{:>8} {:>9}", "speed-up", "predicted"),
    };
    format!(
        "  {:>6} {:>5}  {:<8} {:<8} {:>5} {:>5} {:>6} {:>5} {:>11} {:>9} {last}",
        "NTASKS", "NCLTS", "system", "way", "QLEN", "pred", "NACT", "pred", "COPYTIME", "least"
    )
}

/// Returns the lines of a point: those of its rows, then those of the paper.
pub fn lines(measured: &Measured, paper: &[Paper], last: &Last<'_>) -> Vec<String> {
    let point = &measured.point;
    let quickest = measured.rows.iter().map(|row| row.time().0).fold(f64::INFINITY, f64::min);
    let mut lines = Vec::new();
    for row in &measured.rows {
        let predicted = row.predicted(point);
        // With several calls under way a client is none of the paper's.
        let counted = |value: Option<f64>| value.filter(|_| row.way == super::subject::Way::Single);
        let (median, least) = row.time();
        let columns = Columns {
            tasks: point.tasks,
            clients: point.clients,
            system: row.system,
            way: row.way.name(),
            counts: [
                counted(row.queue_length()),
                predicted.map(|p| p.queue_length),
                counted(row.active()),
                predicted.map(|p| p.active),
            ],
            time: [format!("{median:.2} ms"), format!("{least:.2}")],
        };
        let end = match last {
            Last::Costs => {
                let slower = format!("{:.1}x", median / quickest);
                format!("{slower:>8} {:>9} {:>8.2}", row.crossings, row.cpu_ns() as f64 / 1e6)
            }
            Last::SpeedUp(all) => match speed_up(row, measured, all) {
                Some((value, predicted)) => format!("{value:>8.2} {:>9}", figure(predicted)),
                None => String::new(),
            },
        };
        lines.push(columns.line(&end));
    }
    let of = |p: &&Paper| (p.tasks, p.clients) == (point.tasks, point.clients);
    for figures in paper.iter().filter(of) {
        for (version, seconds) in figures.seconds {
            let (median, least, _) = summary(&mut seconds.to_vec());
            // The old version has no central queue.
            let counts = figures.counts.filter(|_| *version != "vanilla");
            let columns = Columns {
                tasks: point.tasks,
                clients: point.clients,
                system: "paper",
                way: version,
                counts: [counts.map(|c| c.0), None, counts.map(|c| c.1), None],
                time: [format!("{median:.2} s"), format!("{least:.2}")],
            };
            let base = paper.iter().find(|one| one.tasks == 1).and_then(|one| one.seconds.first());
            let end = match (last, base) {
                (Last::SpeedUp(_), Some((_, [base]))) => format!("{:>8.2}", base / median),
                _ => String::new(),
            };
            lines.push(columns.line(&end));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::super::contest::{Point, tests::row};
    use super::super::subject::{Counts, Over, Way};
    use super::*;

    fn measured(tasks: u32, ms: f64) -> Measured {
        let counts = Counts {
            taken: 40,
            queue_length_sum: Some(60),
            active_sum: 20,
            waited_ns: Some(20_000_000),
            ran_ns: 40_000_000,
            cpu_ns: 6_000_000,
        };
        let unseen = Counts { queue_length_sum: None, waited_ns: None, ..counts };
        let rows = vec![
            row("omniorb", Way::Single, ms * 2.0, unseen),
            row("grpc", Way::Single, ms * 4.0, counts),
            row("grpc", Way::Whole, ms, counts),
        ];
        Measured { point: Point { over: Over::Unix, tasks, clients: 4 }, rows }
    }

    #[test]
    fn a_table_has_the_form_of_the_paper() {
        let mut text = vec![head(&Last::Costs)];
        text.extend(lines(&measured(2, 20.0), &FILES, &Last::Costs));
        insta::assert_snapshot!(text.join("\n"));
    }

    #[test]
    fn speed_ups_are_against_one_task() {
        let all = [measured(1, 60.0), measured(3, 21.0)];
        let mut text = vec![head(&Last::SpeedUp(&all))];
        for one in &all {
            text.extend(lines(one, &BLOCKING, &Last::SpeedUp(&all)));
        }
        insta::assert_snapshot!(text.join("\n"));
        // Nothing to compare with.
        let alone = measured(3, 21.0);
        assert!(speed_up(&alone.rows[0], &alone, &[]).is_none());
        let printed: Vec<f64> = BLOCKING.iter().map(|one| 85.70 / one.seconds[0].1[0]).collect();
        let rounded: Vec<String> = printed[1..].iter().map(|value| format!("{value:.2}")).collect();
        assert_eq!(rounded, ["1.96", "2.87", "3.36"]);
    }
}
