//! The central queue: its figures as the paper counts them, turns, priorities, bounds.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use bifrost_tasks::{
    Counts, Dropped, End, Export, ExportId, Limits, PRIORITIES, Queue, Refused, Taken, Work,
};

#[derive(Clone, Debug)]
struct Call {
    name: u32,
    client: u32,
    priority: u8,
    alone: bool,
    bytes: usize,
    deadline_us: Option<u64>,
    wanted: Rc<Cell<bool>>,
}

fn call(name: u32, client: u32) -> Call {
    let wanted = Rc::new(Cell::new(true));
    Call { name, client, priority: 4, alone: false, bytes: 10, deadline_us: None, wanted }
}

impl Work for Call {
    fn client(&self) -> u32 {
        self.client
    }

    fn priority(&self) -> u8 {
        self.priority
    }

    fn is_alone(&self) -> bool {
        self.alone
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn deadline_us(&self) -> Option<u64> {
        self.deadline_us
    }

    fn is_wanted(&self) -> bool {
        self.wanted.get()
    }

    fn label(&self) -> String {
        self.name.to_string()
    }
}

fn queue() -> Queue<Call> {
    Queue::new(Limits::default(), Arc::default())
}

fn open(queue: &mut Queue<Call>, concurrency: u32) -> (ExportId, Arc<Counts>) {
    let counts = Arc::new(Counts::default());
    (queue.open(Export { concurrency, queue_max: 1000, counts: counts.clone() }), counts)
}

fn push(queue: &mut Queue<Call>, id: ExportId, call: Call, now: u64) {
    queue.push(id, call, now).map_err(|(refused, _)| refused).expect("it is accepted");
}

/// The name of the next invocation to run.
fn next(queue: &mut Queue<Call>, now: u64) -> Option<u32> {
    match queue.take(now)? {
        Taken::Run(_, call) => Some(call.name),
        Taken::Drop(call, why) => panic!("{} is dropped: {why:?}", call.name),
    }
}

#[test]
fn lengths_and_active_ones_are_counted_as_in_the_paper() {
    // Four clients send at once to an export with two tasks (004 section 6.2). The arriving
    // invocation is not counted as waiting, the taken one not as active.
    let mut queue = queue();
    let (id, counts) = open(&mut queue, 2);
    for client in 0..4 {
        push(&mut queue, id, call(client, client), 0);
    }
    assert_eq!((counts.queued(), counts.queue_length_sum()), (4, 1 + 2 + 3));
    assert_eq!(next(&mut queue, 100), Some(0));
    assert_eq!(next(&mut queue, 100), Some(1));
    assert_eq!(next(&mut queue, 100), None, "two run");
    assert_eq!((counts.taken(), counts.active_sum()), (2, 1));
    assert_eq!((counts.waiting(), counts.active()), (2, 2));
    queue.done(id, 50, 150);
    assert_eq!(next(&mut queue, 150), Some(2));
    queue.done(id, 50, 200);
    queue.done(id, 50, 200);
    assert_eq!(next(&mut queue, 200), Some(3));
    assert_eq!((counts.taken(), counts.active_sum()), (4, 1 + 1));
    queue.done(id, 50, 250);
    assert_eq!((counts.waiting(), counts.active()), (0, 0));
    assert_eq!(counts.runs.sum_us(), 200);
    assert_eq!(counts.waits.sum_us(), 100 + 100 + 150 + 200);
}

#[test]
fn with_one_client_nothing_waits_and_with_one_task_nothing_is_active() {
    let mut queue = queue();
    let (id, counts) = open(&mut queue, 1);
    for round in 0..10 {
        push(&mut queue, id, call(round, 7), u64::from(round));
        assert_eq!(next(&mut queue, u64::from(round)), Some(round));
        queue.done(id, 1, u64::from(round));
    }
    assert_eq!((counts.queue_length_sum(), counts.active_sum()), (0, 0));
}

#[test]
fn clients_take_turns_and_each_keeps_its_order() {
    let mut queue = queue();
    let (id, _) = open(&mut queue, 0);
    for name in 0..4 {
        push(&mut queue, id, call(name, 1), 0);
    }
    push(&mut queue, id, call(10, 2), 0);
    push(&mut queue, id, call(11, 2), 0);
    let order: Vec<u32> = std::iter::from_fn(|| next(&mut queue, 0)).collect();
    assert_eq!(order, [0, 10, 1, 11, 2, 3]);
}

#[test]
fn exports_of_one_priority_take_turns() {
    let mut queue = queue();
    let (one, _) = open(&mut queue, 0);
    let (other, _) = open(&mut queue, 0);
    for name in 0..3 {
        push(&mut queue, one, call(name, 1), 0);
    }
    push(&mut queue, other, call(10, 1), 0);
    let order: Vec<u32> = std::iter::from_fn(|| next(&mut queue, 0)).collect();
    assert_eq!(order, [0, 10, 1, 2]);
}

#[test]
fn a_higher_priority_goes_first_and_waiting_raises_it() {
    let mut queue = queue();
    let (id, _) = open(&mut queue, 0);
    let (other, _) = open(&mut queue, 0);
    push(&mut queue, id, Call { priority: 2, ..call(0, 1) }, 0);
    push(&mut queue, other, Call { priority: 4, ..call(1, 1) }, 1_500_000);
    push(&mut queue, id, Call { priority: 5, ..call(2, 2) }, 1_500_000);
    push(&mut queue, other, Call { priority: 3, ..call(3, 3) }, 3_900_000);
    // After four seconds the first counts as 6, the second as 6, the third as 7.
    let order: Vec<u32> = std::iter::from_fn(|| next(&mut queue, 4_000_000)).collect();
    assert_eq!(order, [2, 1, 0, 3]);
    assert_eq!(PRIORITIES, 8);
}

#[test]
fn what_changes_an_export_runs_alone() {
    let mut queue = queue();
    let (id, _) = open(&mut queue, 4);
    push(&mut queue, id, call(0, 1), 0);
    push(&mut queue, id, Call { alone: true, ..call(1, 1) }, 0);
    push(&mut queue, id, call(2, 1), 0);
    assert_eq!(next(&mut queue, 0), Some(0));
    assert_eq!(next(&mut queue, 0), None, "it waits for the first, and the third does not pass it");
    queue.done(id, 1, 1);
    assert_eq!(next(&mut queue, 1), Some(1));
    assert_eq!(next(&mut queue, 1), None, "it is alone");
    queue.done(id, 1, 2);
    assert_eq!(next(&mut queue, 2), Some(2));
}

#[test]
fn an_invocation_that_nobody_wants_or_that_is_late_does_not_run() {
    let mut queue = queue();
    let (id, counts) = open(&mut queue, 1);
    let gone = call(0, 1);
    gone.wanted.set(false);
    push(&mut queue, id, gone, 0);
    push(&mut queue, id, Call { deadline_us: Some(100), ..call(1, 1) }, 0);
    push(&mut queue, id, call(2, 1), 0);
    assert!(matches!(queue.take(100), Some(Taken::Drop(Call { name: 0, .. }, Dropped::Cancelled))));
    assert!(matches!(queue.take(100), Some(Taken::Drop(Call { name: 1, .. }, Dropped::Expired))));
    assert_eq!(next(&mut queue, 100), Some(2));
    let ends = End::ALL.map(|end| counts.ended(end));
    assert_eq!(ends, [0, 0, 0, 0, 1, 1]);
    assert_eq!((counts.taken(), counts.waiting()), (1, 0));
}

#[test]
fn each_bound_refuses_one_more() {
    let limits = Limits { waiting_max: 3, waiting_bytes_max: 100 };
    let mut queue: Queue<Call> = Queue::new(limits, Arc::default());
    let small = queue.open(Export { concurrency: 1, queue_max: 2, counts: Arc::default() });
    let (other, _) = open(&mut queue, 1);
    let refused = |queue: &mut Queue<Call>, id, call| queue.push(id, call, 0).map_err(|(why, _)| why).err();
    push(&mut queue, small, call(0, 1), 0);
    push(&mut queue, small, call(1, 1), 0);
    assert_eq!(refused(&mut queue, small, call(2, 1)), Some(Refused::Export));
    assert_eq!(refused(&mut queue, other, Call { bytes: 81, ..call(3, 1) }), Some(Refused::Bytes));
    push(&mut queue, other, Call { bytes: 80, ..call(3, 1) }, 0);
    assert_eq!(refused(&mut queue, other, Call { bytes: 0, ..call(4, 1) }), Some(Refused::All));
    // What leaves makes room.
    assert_eq!(next(&mut queue, 0), Some(0));
    push(&mut queue, small, call(5, 1), 0);
    let limits = Limits::default();
    assert_eq!((limits.waiting_max, limits.waiting_bytes_max), (100_000, 64 << 20));
}

#[test]
fn an_export_that_ends_gives_back_what_waits_and_takes_nothing_more() {
    let mut queue = queue();
    let (id, counts) = open(&mut queue, 1);
    push(&mut queue, id, call(0, 1), 0);
    push(&mut queue, id, call(1, 1), 0);
    assert_eq!(next(&mut queue, 0), Some(0));
    let left: Vec<u32> = queue.close(id).iter().map(|call| call.name).collect();
    assert_eq!(left, [1]);
    assert_eq!(queue.push(id, call(2, 1), 0).map_err(|(why, _)| why), Err(Refused::Closed));
    // The number is free when the last invocation has ended, and not before.
    let (second, _) = open(&mut queue, 1);
    assert_ne!(second, id);
    queue.done(id, 1, 1);
    let (third, _) = open(&mut queue, 1);
    assert_eq!(third, id);
    assert_eq!(counts.ended(End::Cancelled), 1);
    assert_eq!((queue.waiting(), queue.active()), (0, 0));
}

#[test]
fn random_orders_keep_the_rules() {
    for seed in 0..2_000_u64 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut random = |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        };
        let mut queue = queue();
        let exports: Vec<_> = (0..3).map(|_| open(&mut queue, random(4) as u32)).collect();
        let bounds: Vec<u32> = exports.iter().map(|_| 0).collect();
        let mut running: Vec<(ExportId, Call)> = Vec::new();
        let (mut pushed, mut ended, mut now) = (0_u32, 0_u32, 0);
        // By client and export: the last name that began, of one priority.
        let mut began = std::collections::HashMap::new();
        for _ in 0..200 {
            now += random(500_000);
            match random(3) {
                0 => {
                    let at = random(3) as usize;
                    let client = random(3) as u32;
                    let alone = random(5) == 0;
                    let priority = (client + 3) as u8;
                    let work = Call { priority, alone, ..call(pushed, client) };
                    push(&mut queue, exports[at].0, work, now);
                    pushed += 1;
                }
                1 => {
                    if let Some(Taken::Run(id, call)) = queue.take(now) {
                        let beside: Vec<_> = running.iter().filter(|(other, _)| *other == id).collect();
                        assert!(beside.is_empty() || !call.alone, "seed {seed}");
                        assert!(beside.iter().all(|(_, other)| !other.alone), "seed {seed}");
                        let last = began.insert((id, call.client), call.name);
                        assert!(last.is_none_or(|last| last < call.name), "seed {seed}: order of a client");
                        running.push((id, call));
                    }
                }
                _ if !running.is_empty() => {
                    let at = random(running.len() as u64) as usize;
                    let (id, _) = running.swap_remove(at);
                    queue.done(id, 1, now);
                    ended += 1;
                }
                _ => {}
            }
            assert_eq!(queue.active(), running.len(), "seed {seed}");
            let known = queue.waiting() + running.len() + ended as usize;
            assert_eq!(known, pushed as usize, "seed {seed}");
        }
        drop(bounds);
        // In the end everything runs.
        loop {
            while let Some(Taken::Run(id, call)) = queue.take(now) {
                running.push((id, call));
            }
            let Some((id, _)) = running.pop() else { break };
            queue.done(id, 1, now);
        }
        assert_eq!(queue.waiting(), 0, "seed {seed}");
    }
}
