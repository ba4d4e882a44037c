//! The threads of the tasks: concurrency, tasks that are stuck, timers, the end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use bifrost_tasks::{Counts, Dropped, Export, Host, Limits, Pool, Refused, Settings, Work};
use parking_lot::Mutex;

const SOON: Duration = Duration::from_secs(20);

type Act = Box<dyn FnOnce() + Send>;

struct Job {
    act: Act,
    wanted: Arc<AtomicU32>,
}

impl Job {
    fn new(act: impl FnOnce() + Send + 'static) -> Job {
        Job { act: Box::new(act), wanted: Arc::new(AtomicU32::new(1)) }
    }
}

impl Work for Job {
    fn client(&self) -> u32 {
        0
    }

    fn priority(&self) -> u8 {
        4
    }

    fn is_alone(&self) -> bool {
        false
    }

    fn bytes(&self) -> usize {
        1
    }

    fn deadline_us(&self) -> Option<u64> {
        None
    }

    fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed) == 1
    }

    fn label(&self) -> String {
        "Job.run".to_owned()
    }
}

#[derive(Default)]
struct Notes {
    stuck: Mutex<Vec<(String, bool)>>,
    dropped: Mutex<Vec<Dropped>>,
}

struct Owner(Arc<Notes>);

impl Host<Job> for Owner {
    type Task = ();

    fn begin_task(&self) {}

    fn run(&self, (): &mut (), job: Job) {
        (job.act)();
    }

    fn drop_unrun(&self, _job: Job, why: Dropped) {
        self.0.dropped.lock().push(why);
    }

    fn note_stuck(&self, label: &str, _since: Duration, replaced: bool) {
        self.0.stuck.lock().push((label.to_owned(), replaced));
    }
}

fn pool(settings: Settings) -> (Pool<Job, Owner>, Arc<Notes>) {
    let notes = Arc::new(Notes::default());
    let pool = Pool::new(settings, Owner(notes.clone()));
    pool.start().expect("threads");
    (pool, notes)
}

fn export(concurrency: u32, queue_max: usize) -> Export {
    Export { concurrency, queue_max, counts: Arc::new(Counts::default()) }
}

/// A job that says that it runs, and ends when it is let go.
fn held(says: &Sender<()>) -> (Job, Sender<()>) {
    let (let_go, held): (Sender<()>, Receiver<()>) = channel();
    let says = says.clone();
    let job = Job::new(move || {
        let _ = says.send(());
        let _ = held.recv();
    });
    (job, let_go)
}

fn push(pool: &Pool<Job, Owner>, id: bifrost_tasks::ExportId, job: Job) -> Result<(), Refused> {
    pool.push(id, job).map_err(|(refused, _)| refused)
}

#[test]
fn as_many_run_at_once_as_there_are_tasks_and_as_the_export_allows() {
    for (tasks, concurrency, most) in [(3, 0, 3), (3, 2, 2), (2, 5, 2)] {
        let (pool, _) = pool(Settings { tasks, ..Settings::default() });
        let id = pool.open(export(concurrency, 100));
        let (says, said) = channel();
        let mut holds = Vec::new();
        for _ in 0..6 {
            let (job, let_go) = held(&says);
            push(&pool, id, job).expect("room");
            holds.push(let_go);
        }
        for _ in 0..most {
            said.recv_timeout(SOON).expect("it runs");
        }
        assert!(said.recv_timeout(Duration::from_millis(50)).is_err(), "{tasks} tasks, {concurrency}");
        drop(holds);
        for _ in most..6 {
            said.recv_timeout(SOON).expect("it runs");
        }
        pool.stop(SOON);
    }
}

#[test]
fn a_stuck_task_is_reported_and_replaced_as_often_as_there_are_tasks() {
    let settings = Settings { tasks: 1, stuck_after: Duration::from_millis(40), ..Settings::default() };
    let (pool, notes) = pool(settings);
    let id = pool.open(export(0, 100));
    let (says, said) = channel();
    let mut holds = Vec::new();
    for _ in 0..3 {
        let (job, let_go) = held(&says);
        push(&pool, id, job).expect("room");
        holds.push(let_go);
    }
    said.recv_timeout(SOON).expect("the first runs");
    said.recv_timeout(SOON).expect("the second runs in place of the stuck one");
    let until = Instant::now() + SOON;
    while notes.stuck.lock().len() < 2 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(2));
    }
    let label = || "Job.run".to_owned();
    assert_eq!(*notes.stuck.lock(), [(label(), true), (label(), false)], "one task, so one replacement");
    assert!(said.recv_timeout(Duration::from_millis(100)).is_err(), "both are stuck");
    drop(holds);
    said.recv_timeout(SOON).expect("the third runs when they are not");
    pool.stop(SOON);
}

#[test]
fn at_a_bound_those_that_nobody_wants_make_room() {
    let limits = Limits { waiting_max: 100, ..Limits::default() };
    let (pool, notes) = pool(Settings { tasks: 1, limits, ..Settings::default() });
    let id = pool.open(export(0, 2));
    let (says, said) = channel();
    let (job, let_go) = held(&says);
    push(&pool, id, job).expect("room");
    said.recv_timeout(SOON).expect("it runs");
    let gone = Job::new(|| panic!("nobody wants it"));
    let wanted = gone.wanted.clone();
    push(&pool, id, gone).expect("room");
    push(&pool, id, Job::new(|| {})).expect("room");
    assert_eq!(push(&pool, id, Job::new(|| {})), Err(Refused::Export));
    wanted.store(0, Ordering::Relaxed);
    let ran = Arc::new(AtomicU32::new(0));
    let count = ran.clone();
    let counted = Job::new(move || {
        count.fetch_add(1, Ordering::Relaxed);
    });
    push(&pool, id, counted).expect("it has made room");
    assert_eq!(*notes.dropped.lock(), [Dropped::Cancelled]);
    drop(let_go);
    let until = Instant::now() + SOON;
    while ran.load(Ordering::Relaxed) == 0 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(1));
    }
    pool.stop(SOON);
    assert_eq!(ran.load(Ordering::Relaxed), 1);
}

#[test]
fn the_end_awaits_what_runs_and_drops_what_waits() {
    let (pool, notes) = pool(Settings { tasks: 1, ..Settings::default() });
    let id = pool.open(export(0, 100));
    let (says, said) = channel();
    let (job, let_go) = held(&says);
    push(&pool, id, job).expect("room");
    push(&pool, id, Job::new(|| panic!("it waits"))).expect("room");
    said.recv_timeout(SOON).expect("it runs");
    let early = Instant::now();
    pool.stop(Duration::from_millis(20));
    assert!(early.elapsed() < SOON, "one that does not end is left");
    drop(let_go);
    assert_eq!(*notes.dropped.lock(), [Dropped::Closed]);
    assert_eq!(push(&pool, id, Job::new(|| {})), Err(Refused::Closed));
}

#[test]
fn timers_end_beside_work() {
    let (pool, _) = pool(Settings::default());
    let id = pool.open(export(0, 10));
    let (says, said) = channel();
    push(&pool, id, Job::new(move || says.send(()).unwrap_or_default())).expect("room");
    said.recv_timeout(SOON).expect("it runs");
    let ended = channel();
    pool.after(Duration::from_millis(1), move || ended.0.send(()).unwrap_or_default());
    ended.1.recv_timeout(SOON).expect("the timer ends");
    pool.stop(SOON);
}
