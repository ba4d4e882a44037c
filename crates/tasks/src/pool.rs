//! The threads that take from the queue.

use std::collections::HashMap;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::counts::{Counts, End};
use crate::hall::Hall;
use crate::queue::{Dropped, Export, ExportId, Limits, Queue, Refused, Taken, Work};
use crate::timers::Timers;

pub use crate::timers::Timer;

/// The settings of a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The number of tasks.
    pub tasks: u32,
    /// The bounds of the queue.
    pub limits: Limits,
    /// A task that is in one invocation for longer is reported, and replaced.
    pub stuck_after: Duration,
}

impl Settings {
    /// Most tasks of a pool.
    pub const TASKS_MAX: u32 = 1024;
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { tasks: 8, limits: Limits::default(), stuck_after: Duration::from_secs(60) }
    }
}

/// The owner of a pool's work.
pub trait Host<W>: Send + Sync + 'static {
    /// The state of a task: made on its thread, and used by it alone.
    type Task;

    /// Makes the state of a task.
    fn begin_task(&self) -> Self::Task;

    /// Runs an invocation.
    fn run(&self, task: &mut Self::Task, work: W);

    /// Takes an invocation that is not run.
    fn drop_unrun(&self, work: W, why: Dropped);

    /// Hears of a task that has been in one invocation for so long. `replaced` is true if there is
    /// another one for it.
    fn note_stuck(&self, label: &str, since: Duration, replaced: bool);
}

/// An invocation that a thread runs.
#[derive(Debug)]
struct Running {
    label: String,
    since_us: u64,
    /// It was reported as stuck; true if another thread is there for this one.
    stuck: Option<bool>,
}

#[derive(Debug)]
struct State<W> {
    queue: Queue<W>,
    /// By thread: its invocation.
    running: HashMap<u64, Running>,
    /// The threads that there are, and those that there shall be.
    threads: u32,
    wanted: u32,
    /// The number of tasks that were replaced, and are in their invocations still.
    replaced: u32,
    /// A look for stuck tasks is set.
    looks: bool,
}

struct Shared<W, H> {
    hall: Hall<State<W>>,
    host: H,
    timers: Timers,
    settings: Settings,
    counts: Arc<Counts>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// The tasks with their queue.
pub struct Pool<W: Work, H: Host<W>> {
    shared: Arc<Shared<W, H>>,
}

impl<W: Work, H: Host<W>> std::fmt::Debug for Pool<W, H> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").field("settings", &self.shared.settings).finish_non_exhaustive()
    }
}

impl<W: Work, H: Host<W>> Clone for Pool<W, H> {
    fn clone(&self) -> Pool<W, H> {
        Pool { shared: self.shared.clone() }
    }
}

impl<W: Work + Send + 'static, H: Host<W>> Pool<W, H> {
    /// Makes a pool, still without threads.
    pub fn new(settings: Settings, host: H) -> Pool<W, H> {
        let counts = Arc::new(Counts::default());
        let tasks = settings.tasks.clamp(1, Settings::TASKS_MAX);
        let state = State {
            queue: Queue::new(settings.limits, counts.clone()),
            running: HashMap::new(),
            threads: 0,
            wanted: tasks,
            replaced: 0,
            looks: false,
        };
        let shared = Shared {
            hall: Hall::new(state),
            host,
            timers: Timers::new(Instant::now()),
            settings: Settings { tasks, ..settings },
            counts,
            threads: Mutex::default(),
        };
        Pool { shared: Arc::new(shared) }
    }

    /// Starts the threads.
    ///
    /// # Errors
    /// When no thread can be started; those that were run on.
    pub fn start(&self) -> std::io::Result<()> {
        (0..self.shared.settings.tasks).try_for_each(|_| self.spawn())
    }

    fn spawn(&self) -> std::io::Result<()> {
        let number = self.shared.hall.change(|state| {
            state.threads += 1;
            (state.threads, false)
        });
        let pool = self.clone();
        let thread = std::thread::Builder::new().name(format!("task-{number}"));
        match thread.spawn(move || pool.work()) {
            Ok(thread) => {
                self.shared.threads.lock().push(thread);
                Ok(())
            }
            Err(why) => {
                self.shared.hall.change(|state| {
                    state.threads -= 1;
                    ((), false)
                });
                Err(why)
            }
        }
    }

    /// Returns the owner of the work.
    pub fn host(&self) -> &H {
        &self.shared.host
    }

    /// Returns the figures of all exports together.
    pub fn counts(&self) -> &Arc<Counts> {
        &self.shared.counts
    }

    /// Returns the number of tasks.
    pub fn tasks(&self) -> u32 {
        self.shared.settings.tasks
    }

    /// Returns the time of the pool's clock, in microseconds since its start.
    pub fn now_us(&self) -> u64 {
        self.shared.timers.now_us()
    }

    /// Adds an export.
    pub fn open(&self, export: Export) -> ExportId {
        self.shared.hall.change(|state| (state.queue.open(export), false))
    }

    /// Ends an export. The invocations that wait for it are dropped.
    pub fn close(&self, id: ExportId) {
        let dropped = self.shared.hall.change(|state| (state.queue.close(id), false));
        dropped.into_iter().for_each(|work| self.shared.host.drop_unrun(work, Dropped::Closed));
    }

    /// Queues an invocation. At a bound, those that nobody wants any more are dropped first.
    ///
    /// # Errors
    /// The bound that it would exceed, and the invocation.
    pub fn push(&self, id: ExportId, work: W) -> Result<(), (Refused, W)> {
        let now = self.now_us();
        let push = |work| {
            self.shared.hall.change(|state| match state.queue.push(id, work, now) {
                Ok(wakes) => (Ok(()), wakes),
                Err(refused) => (Err(refused), false),
            })
        };
        let Err((refused, work)) = push(work) else { return Ok(()) };
        if refused == Refused::Closed {
            return Err((refused, work));
        }
        let dropped = self.shared.hall.change(|state| (state.queue.sweep(now), true));
        for work in dropped {
            let why = if work.is_wanted() { Dropped::Expired } else { Dropped::Cancelled };
            self.shared.host.drop_unrun(work, why);
        }
        push(work).inspect_err(|_| self.shared.counts.end(End::Refused))
    }

    /// Does something after a time, on a thread that others share: it must be short.
    pub fn after(&self, time: Duration, act: impl FnOnce() + Send + 'static) -> Timer {
        self.shared.timers.set(time, Box::new(act))
    }

    /// Takes a timer back. Returns true if it does nothing any more.
    pub fn cancel(&self, timer: Timer) -> bool {
        self.shared.timers.cancel(timer)
    }

    /// Ends the tasks: those that wait now, others at the end of their invocations, which are
    /// awaited until `patience` is over. Invocations that wait are dropped.
    pub fn stop(&self, patience: Duration) {
        self.shared.timers.end();
        self.shared.hall.end();
        let until = Instant::now() + patience;
        for thread in std::mem::take(&mut *self.shared.threads.lock()) {
            while !thread.is_finished() && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(1));
            }
            if thread.is_finished() {
                // One that panicked has ended, too.
                let _ = thread.join();
            }
        }
        let left = self.shared.hall.change(|state| (state.queue.close_all(), false));
        left.into_iter().for_each(|work| self.shared.host.drop_unrun(work, Dropped::Closed));
    }

    /// True if the pool was stopped.
    pub fn is_stopped(&self) -> bool {
        self.shared.hall.is_over()
    }

    /// Runs invocations until the end, or until the thread is one too many.
    fn work(self) {
        let shared = &self.shared;
        let mut task = shared.host.begin_task();
        let mut before: Option<(ExportId, u64, u64)> = None;
        loop {
            let number = thread_number();
            let mut looks = false;
            let taken = shared.hall.next(|state| {
                let now = shared.timers.now_us();
                if let Some((export, since, _)) = before.take() {
                    let ran = now.saturating_sub(since);
                    state.queue.done(export, ran, now);
                    let ended = state.running.remove(&number);
                    if ended.is_some_and(|running| running.stuck == Some(true)) {
                        state.replaced = state.replaced.saturating_sub(1);
                        state.wanted = shared.settings.tasks + state.replaced;
                    }
                }
                if state.threads > state.wanted {
                    return Some((None, true));
                }
                let taken = state.queue.take(now)?;
                if let Taken::Run(_, work) = &taken {
                    let running = Running { label: work.label(), since_us: now, stuck: None };
                    state.running.insert(number, running);
                    looks = !std::mem::replace(&mut state.looks, true);
                }
                let more = state.queue.is_ready();
                Some((Some((taken, now)), more))
            });
            if looks {
                self.look_later();
            }
            match taken {
                Some(Some((Taken::Run(export, work), now))) => {
                    shared.host.run(&mut task, work);
                    before = Some((export, now, number));
                }
                Some(Some((Taken::Drop(work, why), _))) => shared.host.drop_unrun(work, why),
                Some(None) | None => break,
            }
        }
        shared.hall.change(|state| {
            state.threads -= 1;
            ((), true)
        });
    }

    /// Looks for stuck tasks after a time, and again as long as anything runs.
    fn look_later(&self) {
        let pool = self.clone();
        self.after(self.shared.settings.stuck_after / 4, move || pool.look());
    }

    fn look(&self) {
        let now = self.now_us();
        let after = self.shared.settings.stuck_after.as_micros() as u64;
        let (stuck, again) = self.shared.hall.change(|state| {
            let mut stuck = Vec::new();
            for running in state.running.values_mut() {
                let since = now.saturating_sub(running.since_us);
                if running.stuck.is_none() && since >= after {
                    let replaced = state.replaced < self.shared.settings.tasks;
                    running.stuck = Some(replaced);
                    state.replaced += u32::from(replaced);
                    stuck.push((running.label.clone(), Duration::from_micros(since), replaced));
                }
            }
            state.wanted = self.shared.settings.tasks + state.replaced;
            state.looks = !state.running.is_empty();
            ((stuck, state.looks), false)
        });
        for (label, since, replaced) in stuck {
            let replaced = replaced && !self.is_stopped() && self.spawn().is_ok();
            self.shared.host.note_stuck(&label, since, replaced);
        }
        if again {
            self.look_later();
        }
    }
}

/// Returns a number that no other thread has.
fn thread_number() -> u64 {
    thread_local! {
        static NUMBER: u64 = {
            static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
            NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
        };
    }
    NUMBER.with(|number| *number)
}
