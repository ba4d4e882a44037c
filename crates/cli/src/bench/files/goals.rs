//! The goals of this program's own server, compared with the figures of one run.

use super::super::report::{Target, ratio};
use super::contest::Measured;
use super::subject::{OURS, Way};
use super::table::speed_up;

/// The most by which a second task may change the time of copies with short operations.
const SECOND_TASK_MOST: f64 = 1.15;
/// The most by which QLENGTH may differ from its prediction, as a part of it.
const QUEUE_OFF_MOST: f64 = 0.2;
/// The least prediction that is compared: shorter queues are noise.
const QUEUE_LEAST: f64 = 0.1;
/// The least time of a peer's copy by single reads, in copies by one batch.
const PEERS_LEAST: f64 = 5.0;
/// The least speed-up with 2, 3 and 4 tasks.
const SPEED_UP_LEAST: [(u32, f64); 3] = [(2, 1.95), (3, 2.9), (4, 3.8)];
/// The most by which NACTIVE may differ from the tasks less one.
const ACTIVE_OFF_MOST: f64 = 0.1;

/// Returns the goals of copies with short operations.
pub fn of_files(all: &[Measured]) -> Vec<Target> {
    let mut goals = Vec::new();
    for measured in all {
        let point = &measured.point;
        let at = format!("{}, {} tasks, {} clients", point.over.name(), point.tasks, point.clients);
        let single = measured.row(OURS, Way::Single);
        if let Some((found, predicted)) =
            single.and_then(|row| Some((row.queue_length()?, row.predicted(point)?.queue_length)))
            && predicted >= QUEUE_LEAST
        {
            let off = (found / predicted - 1.0).abs();
            goals.push(Target::new(format!("{at}: QLENGTH off its prediction"), off, QUEUE_OFF_MOST, ""));
        }
        let two = all.iter().find(|two| {
            two.point.tasks == 2 && (two.point.over, two.point.clients) == (point.over, point.clients)
        });
        if let (1, Some(one), Some(two)) =
            (point.tasks, single, two.and_then(|two| two.row(OURS, Way::Single)))
        {
            let (one, two) = (one.time().0, two.time().0);
            let change = ratio(one.max(two), one.min(two));
            goals.push(Target::new(format!("{at}: change by a second task"), change, SECOND_TASK_MOST, "x"));
        }
        let Some(batch) = measured.row(OURS, Way::Batch) else { continue };
        for peer in measured.rows.iter().filter(|row| row.system != OURS && row.way == Way::Single) {
            let times = ratio(peer.time().0, batch.time().0);
            let name = format!("{at}: single reads of {} against one batch", peer.system);
            goals.push(Target::at_least(name, times, PEERS_LEAST, "x"));
        }
    }
    goals
}

/// Returns the goals of copies with operations that compute and block.
pub fn of_blocking(all: &[Measured]) -> Vec<Target> {
    let mut goals = Vec::new();
    for measured in all {
        let point = &measured.point;
        let least = SPEED_UP_LEAST.into_iter().find(|(tasks, _)| *tasks == point.tasks);
        let (Some((tasks, least)), Some(row)) = (least, measured.row(OURS, Way::Single)) else { continue };
        // Fewer clients than tasks cannot keep all of them busy.
        if point.clients < tasks {
            continue;
        }
        let at = format!("{}, {tasks} tasks, {} clients", point.over.name(), point.clients);
        if let Some((value, _)) = speed_up(row, measured, all) {
            goals.push(Target::at_least(format!("{at}: speed-up"), value, least, "x"));
        }
        if let Some(active) = row.active() {
            let off = (active - f64::from(tasks - 1)).abs();
            goals.push(Target::new(format!("{at}: NACTIVE off {}", tasks - 1), off, ACTIVE_OFF_MOST, ""));
        }
    }
    goals
}

#[cfg(test)]
mod tests {
    use super::super::super::report::Verdict;
    use super::super::contest::{Point, tests::row};
    use super::super::subject::{Counts, Over};
    use super::*;

    fn counts(queue: f64, active: f64) -> Counts {
        Counts {
            taken: 1000,
            queue_length_sum: Some((queue * 1000.0) as u64),
            active_sum: (active * 1000.0) as u64,
            waited_ns: Some(0),
            ran_ns: 1_000_000,
            cpu_ns: 0,
        }
    }

    fn measured(tasks: u32, clients: u32, rows: Vec<super::super::contest::Row>) -> Measured {
        Measured { point: Point { over: Over::Shm, tasks, clients }, rows }
    }

    fn verdicts(goals: &[Target]) -> Vec<(&str, bool)> {
        goals.iter().map(|goal| (goal.target.as_str(), goal.verdict == Verdict::Reached)).collect()
    }

    #[test]
    fn goals_of_copies_are_those_of_the_issue() {
        let rows = |ms: f64, queue| {
            vec![
                row(OURS, Way::Single, ms, counts(queue, 0.0)),
                row(OURS, Way::Batch, 0.2, counts(0.0, 0.0)),
                row("omniorb", Way::Single, 1.1, counts(0.0, 0.0)),
                row("grpc", Way::Single, 0.9, counts(0.0, 0.0)),
            ]
        };
        // A copy of 500 invocations in 1 ms, service 1 us: with two clients a think time of 1 us.
        let of = |ms, queue| of_files(&[measured(1, 2, rows(1.0, queue)), measured(2, 2, rows(ms, 0.0))]);
        let reached = of(1.1, 0.0);
        // Two clients with one task: p0 of one client is 1/2, so nobody waits when another arrives.
        assert_eq!(
            verdicts(&reached),
            [
                ("shm, 1 tasks, 2 clients: change by a second task", true),
                ("shm, 1 tasks, 2 clients: single reads of omniorb against one batch", true),
                ("shm, 1 tasks, 2 clients: single reads of grpc against one batch", false),
                ("shm, 2 tasks, 2 clients: single reads of omniorb against one batch", true),
                ("shm, 2 tasks, 2 clients: single reads of grpc against one batch", false),
            ]
        );
        assert!(!verdicts(&of(1.2, 0.0))[0].1 && !verdicts(&of(0.8, 0.0))[0].1);
        // Four clients have a queue, whose prediction the count must meet.
        let predicted = rows(1.0, 0.0)[0].predicted(&measured(1, 4, Vec::new()).point).unwrap().queue_length;
        for (part, is_reached) in [(1.0, true), (0.85, true), (1.15, true), (0.7, false), (1.3, false)] {
            let goals = of_files(&[measured(1, 4, rows(1.0, predicted * part))]);
            assert_eq!(
                verdicts(&goals)[0],
                ("shm, 1 tasks, 4 clients: QLENGTH off its prediction", is_reached),
                "{part}"
            );
        }
    }

    #[test]
    fn goals_of_blocking_are_those_of_the_issue() {
        let point =
            |tasks, ms, active| measured(tasks, 4, vec![row(OURS, Way::Single, ms, counts(0.0, active))]);
        let all = [point(1, 400.0, 0.0), point(2, 204.0, 0.95), point(3, 140.0, 1.8), point(4, 105.0, 3.0)];
        assert_eq!(
            verdicts(&of_blocking(&all)),
            [
                ("shm, 2 tasks, 4 clients: speed-up", true),
                ("shm, 2 tasks, 4 clients: NACTIVE off 1", true),
                ("shm, 3 tasks, 4 clients: speed-up", false),
                ("shm, 3 tasks, 4 clients: NACTIVE off 2", false),
                ("shm, 4 tasks, 4 clients: speed-up", true),
                ("shm, 4 tasks, 4 clients: NACTIVE off 3", true),
            ]
        );
        assert!(of_blocking(&all[..1]).is_empty());
        assert!(
            of_blocking(&[measured(2, 1, vec![row(OURS, Way::Single, 1.0, counts(0.0, 0.0))])]).is_empty()
        );
    }

    #[test]
    fn without_our_server_there_are_no_goals() {
        let peers = || vec![row("grpc", Way::Single, 1.0, counts(0.0, 0.0))];
        let all = [measured(1, 4, peers()), measured(2, 4, peers())];
        assert!(of_files(&all).is_empty() && of_blocking(&all).is_empty());
    }
}
