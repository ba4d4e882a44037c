//! [`Workers`]: a few threads that run jobs.
//!
//! One idle worker at a time waits for the events of descriptors: it *listens*. The other idle ones
//! follow: they wait until they are called. The listener runs the jobs whose events it has taken, and
//! any worker runs any job. Jobs that became ready in another way, and fibers that go on, are in one
//! queue.
//!
//! While jobs are short, a worker that runs them leaves nobody listening, and calls nobody for a few
//! jobs in the queue: to wake a thread costs as much as they do, and takes a processor from the
//! clients of the machine. When a job has taken long ([`SLOW`]), others are called at once, for the
//! queue and to listen, until the jobs have been short again for a while. The ticker finds the first
//! long one.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, RwLock};
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use rustix::time::Timespec;

use crate::fiber::{Fiber, Left, set_worker_number};
use crate::job::{Events, Handle, Job, Work};
use crate::parked::{Parked, Reason};
use crate::stacks::Stacks;
use crate::ticker;
use crate::timers::{Timer, Timers};

/// The options of workers.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Threads that run jobs. Those that are in a call which [blocks](crate::blocking) do not
    /// count.
    pub threads: usize,
    /// Bytes of stack of a job that runs.
    pub stack_bytes: usize,
    /// Most stacks in use: those of jobs that run, and of those that wait in the middle of a run.
    /// A job for which there is none runs later.
    pub stacks_max: usize,
    /// Told that a job waits for a stack, and why; not more often than every
    /// [`SHORTAGE_TOLD_EVERY`].
    pub no_stack: fn(&io::Error),
}

/// The most stacks in use, unless the options say otherwise.
pub const STACKS_MAX: usize = 16_384;
/// The least time between two words about a lack of stacks.
pub const SHORTAGE_TOLD_EVERY: Duration = Duration::from_secs(60);

/// Returns the number of workers unless the options say otherwise: two for each processor, at least
/// four. More than one, so that a job which makes no way holds up few.
pub fn threads_default() -> usize {
    (2 * std::thread::available_parallelism().map_or(1, |count| count.get())).max(4)
}

/// Most threads more than the options say, for those that are blocked.
const BLOCKED_MAX: usize = 256;
/// The time after which a thread goes that is one too many and has nothing to do.
const LINGER: Duration = Duration::from_secs(1);
/// Most events that a worker takes at once. It runs the first, and others may take the rest.
const EVENTS_AT_ONCE: usize = 16;
/// Jobs in the queue for which another worker is called, while jobs are short.
const SHARE_AT: usize = 4;
/// The time after which a job has taken long.
const SLOW: Duration = Duration::from_micros(100);
/// Jobs from the queue after which a worker looks for events, too.
const LOOK_EVERY: u32 = 16;
/// The pause before a job is tried again for which there is no stack.
const NO_STACK_PAUSE: u64 = 10_000_000;
/// The data of the bell's events; the numbers of jobs are lower.
const BELL: u64 = u64::MAX;
/// The stack of a worker itself.
const WORKER_STACK_BYTES: usize = 256 << 10;

/// Numbers about workers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Threads.
    pub threads: usize,
    /// Threads that run nothing.
    pub idle: usize,
    /// Jobs, of any state.
    pub jobs: usize,
    /// Jobs and fibers that wait for a worker.
    pub queued: usize,
    /// Fibers that run or wait.
    pub fibers: usize,
    /// Threads in a call that blocks.
    pub blocked: usize,
    /// Fibers that are parked, in the order of [`Reason::ALL`].
    pub parked: [usize; Reason::ALL.len()],
    /// Runs that have made way for others since the start.
    pub preempted: u64,
    /// Times that a job has waited for a stack since the start.
    pub stack_waits: u64,
}

/// A few threads that run jobs, until this is dropped. Jobs that are left then are not run again;
/// let them end before.
#[derive(Debug)]
pub struct Workers {
    pool: Arc<Pool>,
}

/// The state of workers.
#[derive(Debug)]
pub(crate) struct Pool {
    options: Options,
    pub(crate) epoll: OwnedFd,
    bell: OwnedFd,
    queue: Mutex<VecDeque<Ready>>,
    /// The length of the queue.
    queued: AtomicUsize,
    /// Workers that run nothing, or are about to.
    pub(crate) sleeping: AtomicUsize,
    /// One of them waits for events, or is about to.
    pub(crate) listening: AtomicBool,
    /// The others.
    followers: Mutex<Followers>,
    called: Condvar,
    /// A job has taken long lately.
    pub(crate) slow: AtomicBool,
    /// Workers, and those of them that are in a call which blocks.
    threads: AtomicUsize,
    blocked: AtomicUsize,
    /// The numbers of workers that have gone, and the lowest that none has had.
    numbers: Mutex<(Vec<usize>, usize)>,
    pub(crate) parked: Parked,
    preempted: AtomicU64,
    stack_waits: AtomicU64,
    /// The time at which the lack of stacks may be told again.
    shortage_told: Mutex<Option<Instant>>,
    jobs: RwLock<Jobs>,
    pub(crate) stacks: Stacks,
    pub(crate) timers: Timers,
    pub(crate) slots: Mutex<Vec<Arc<Slot>>>,
    pub(crate) ticker_sleeps: AtomicBool,
    pub(crate) stopped: AtomicBool,
}

/// The jobs by their numbers, which are never used again.
#[derive(Debug, Default)]
struct Jobs {
    /// Places; a number has the place in its low half, and how often the place was used in its
    /// high half.
    places: Vec<(u32, Option<Arc<Job>>)>,
    free: Vec<u32>,
}

/// Workers that wait until they are called.
#[derive(Debug, Default)]
struct Followers {
    waiting: usize,
    /// Calls that none of them has heard.
    calls: usize,
}

/// A job that may run, or a fiber that goes on.
enum Ready {
    Job(Arc<Job>),
    Fiber(Fiber),
}

impl std::fmt::Debug for Ready {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let job = match self {
            Ready::Job(job) => job,
            Ready::Fiber(fiber) => &fiber.job,
        };
        job.fmt(f)
    }
}

/// The work of one worker, for the ticker.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    /// Counts entries into fibers, and exits; odd while one runs.
    pub(crate) runs: AtomicU64,
    pub(crate) job: Mutex<Option<Arc<Job>>>,
}

/// Jobs that have become ready.
#[derive(Default)]
pub(crate) struct Woken {
    events: Vec<Event>,
    jobs: VecDeque<Arc<Job>>,
}

impl Workers {
    /// Starts workers.
    ///
    /// # Errors
    /// The system refuses a thread or a descriptor.
    pub fn start(options: Options) -> io::Result<Workers> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &bell, EventData::new_u64(BELL), EventFlags::IN | EventFlags::ET)?;
        let threads = options.threads.max(1);
        let pool = Arc::new(Pool {
            options: Options { threads, ..options },
            epoll,
            bell,
            queue: Mutex::default(),
            queued: AtomicUsize::new(0),
            sleeping: AtomicUsize::new(0),
            listening: AtomicBool::new(false),
            followers: Mutex::default(),
            called: Condvar::new(),
            slow: AtomicBool::new(false),
            threads: AtomicUsize::new(0),
            blocked: AtomicUsize::new(0),
            numbers: Mutex::default(),
            parked: Parked::default(),
            preempted: AtomicU64::new(0),
            stack_waits: AtomicU64::new(0),
            shortage_told: Mutex::default(),
            jobs: RwLock::default(),
            stacks: Stacks::new(options.stack_bytes, 2 * threads, options.stacks_max),
            timers: Timers::new(),
            slots: Mutex::default(),
            ticker_sleeps: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
        });
        let workers = Workers { pool };
        for _ in 0..threads {
            workers.pool.add_thread()?;
        }
        let pool = workers.pool.clone();
        std::thread::Builder::new()
            .name("bifrost-ticker".to_owned())
            .stack_size(WORKER_STACK_BYTES)
            .spawn(move || ticker::tick(&pool))?;
        Ok(workers)
    }

    /// Enters a job, which runs at once. `make` makes its work, and is given the way to it.
    ///
    /// # Errors
    /// Those of `make`; then there is no job.
    pub fn enter<E>(&self, make: impl FnOnce(&Handle) -> Result<Box<dyn Work>, E>) -> Result<Handle, E> {
        let job = self.pool.jobs.write().enter();
        let handle = Handle { pool: Arc::downgrade(&self.pool), job: Arc::downgrade(&job) };
        match make(&handle) {
            Ok(work) => {
                job.begin(work);
                self.pool.push_job(job);
                Ok(handle)
            }
            Err(error) => {
                self.pool.forget(job.number);
                Err(error)
            }
        }
    }

    /// Returns numbers about the workers.
    pub fn counts(&self) -> Counts {
        let pool = &self.pool;
        Counts {
            threads: pool.threads.load(Ordering::Relaxed),
            idle: pool.sleeping.load(Ordering::Relaxed),
            jobs: pool.jobs.read().len(),
            queued: pool.queued.load(Ordering::Relaxed),
            fibers: pool.stacks.used(),
            blocked: pool.blocked.load(Ordering::Relaxed),
            parked: pool.parked.get(),
            preempted: pool.preempted.load(Ordering::Relaxed),
            stack_waits: pool.stack_waits.load(Ordering::Relaxed),
        }
    }

    /// Returns a number above those that workers have ([`worker_number`](crate::worker_number)).
    pub fn numbers_max(&self) -> usize {
        self.pool.options.threads + 2 * BLOCKED_MAX
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.pool.stopped.store(true, Ordering::SeqCst);
        self.pool.wake_all();
        self.pool.timers.wake();
    }
}

impl Jobs {
    fn enter(&mut self) -> Arc<Job> {
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push((0, None));
            (self.places.len() - 1) as u32
        });
        let (used, entry) = &mut self.places[place as usize];
        let job = Arc::new(Job::new(u64::from(*used) << 32 | u64::from(place)));
        *entry = Some(job.clone());
        job
    }

    fn get(&self, number: u64) -> Option<&Arc<Job>> {
        let (used, job) = self.places.get(number as u32 as usize)?;
        job.as_ref().filter(|_| u64::from(*used) == number >> 32)
    }

    fn forget(&mut self, number: u64) -> Option<Arc<Job>> {
        let (used, job) = self.places.get_mut(number as u32 as usize)?;
        if u64::from(*used) != number >> 32 || job.is_none() {
            return None;
        }
        let job = job.take();
        // A place whose count is used up is not used again.
        if let Some(next) = used.checked_add(1).filter(|next| *next < u32::MAX) {
            *used = next;
            self.free.push(number as u32);
        }
        // The table of many jobs that have ended is given back.
        if self.free.len() == self.places.len() {
            self.places.shrink_to_fit();
            self.free.shrink_to_fit();
        }
        job
    }

    fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }
}

impl Pool {
    /// True if jobs wait for a worker.
    pub(crate) fn is_pressed(&self) -> bool {
        self.queued.load(Ordering::Relaxed) > 0
    }

    /// True if a worker runs something.
    pub(crate) fn is_running(&self) -> bool {
        self.slots.lock().iter().any(|slot| slot.runs.load(Ordering::SeqCst) % 2 == 1)
    }

    pub(crate) fn push_job(&self, job: Arc<Job>) {
        self.push(Ready::Job(job));
    }

    /// Puts a job behind the others, by the worker that has run it and looks at the queue next.
    pub(crate) fn push_own(&self, job: Arc<Job>) {
        self.queue.lock().push_back(Ready::Job(job));
        self.queued.fetch_add(1, Ordering::Relaxed);
        self.share();
    }

    pub(crate) fn push_fiber(&self, fiber: Fiber) {
        self.push(Ready::Fiber(fiber));
    }

    pub(crate) fn push_fibers(&self, fibers: Vec<Fiber>) {
        if fibers.is_empty() {
            return;
        }
        let count = fibers.len();
        self.queue.lock().extend(fibers.into_iter().map(Ready::Fiber));
        self.queued.fetch_add(count, Ordering::Relaxed);
        self.wake_one();
    }

    fn push(&self, ready: Ready) {
        self.queue.lock().push_back(ready);
        self.queued.fetch_add(1, Ordering::Relaxed);
        self.wake_one();
    }

    pub(crate) fn push_all(&self, woken: Woken) {
        if woken.jobs.is_empty() {
            return;
        }
        let count = woken.jobs.len();
        self.queue.lock().extend(woken.jobs.into_iter().map(Ready::Job));
        self.queued.fetch_add(count, Ordering::Relaxed);
        self.share();
    }

    /// Wakes a worker if there is work for two.
    fn share(&self) {
        let queued = self.queued.load(Ordering::Relaxed);
        if queued >= SHARE_AT || queued > 0 && self.slow.load(Ordering::Relaxed) {
            self.wake_one();
        }
    }

    fn pop(&self) -> Option<Ready> {
        if !self.is_pressed() {
            return None;
        }
        let ready = self.queue.lock().pop_front()?;
        self.queued.fetch_sub(1, Ordering::Relaxed);
        Some(ready)
    }

    /// Wakes a worker that sleeps, if one does, after something was put into the queue.
    pub(crate) fn wake_one(&self) {
        // Pairs with the fences in `Pool::sleep` and `Pool::listen`: one of both sees the other.
        fence(Ordering::SeqCst);
        if self.sleeping.load(Ordering::Relaxed) > 0
            && !self.call_follower()
            && self.listening.load(Ordering::Relaxed)
        {
            self.ring();
        }
    }

    /// Wakes all workers that sleep.
    fn wake_all(&self) {
        let mut followers = self.followers.lock();
        followers.calls = followers.waiting;
        self.called.notify_all();
        drop(followers);
        self.ring();
    }

    /// Calls a follower, if there is one that is not called yet.
    fn call_follower(&self) -> bool {
        let mut followers = self.followers.lock();
        let calls = followers.waiting > followers.calls;
        if calls {
            followers.calls += 1;
            self.called.notify_one();
        }
        calls
    }

    /// Has another worker listen, if nobody does.
    pub(crate) fn let_listen(&self) {
        if !self.listening.load(Ordering::Relaxed) && self.sleeping.load(Ordering::Relaxed) > 0 {
            self.call_follower();
        }
    }

    fn ring(&self) {
        // Fails only if the counter is full: then it was just written.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    /// Takes events that are there, and notes them at their jobs.
    pub(crate) fn gather(&self, woken: &mut Woken, at_once: bool) {
        let time = if at_once { Some(Duration::ZERO) } else { self.linger() };
        let time =
            time.map(|time| Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() });
        let Woken { events, jobs } = woken;
        events.clear();
        events.reserve(EVENTS_AT_ONCE);
        // Fails only if a signal came: then there are none.
        let _ = epoll::wait(&self.epoll, spare_capacity(events), time.as_ref());
        if events.iter().all(|event| event.data.u64() == BELL) {
            return;
        }
        let table = self.jobs.read();
        for event in events {
            let Some(job) = table.get(event.data.u64()) else { continue };
            job.hear(event.flags);
            if job.note(Events::READY) {
                jobs.push_back(job.clone());
            }
        }
    }

    /// Returns the time for which a worker waits for events: for ever, unless it is one too many.
    fn linger(&self) -> Option<Duration> {
        self.has_too_many().then_some(LINGER)
    }

    fn has_too_many(&self) -> bool {
        let running =
            self.threads.load(Ordering::Relaxed).saturating_sub(self.blocked.load(Ordering::Relaxed));
        running > self.options.threads
    }

    fn add_thread(self: &Arc<Pool>) -> io::Result<()> {
        let (pool, slot) = (self.clone(), Arc::new(Slot::default()));
        let of_thread = slot.clone();
        self.threads.fetch_add(1, Ordering::Relaxed);
        let started = std::thread::Builder::new()
            .name("bifrost-worker".to_owned())
            .stack_size(WORKER_STACK_BYTES)
            .spawn(move || pool.work(&of_thread));
        match started {
            Ok(_) => self.slots.lock().push(slot),
            Err(_) => {
                self.threads.fetch_sub(1, Ordering::Relaxed);
            }
        }
        started.map(|_| ())
    }

    /// Notes that the thread is about to block. If nobody else would hear an event, another thread
    /// takes its place.
    pub(crate) fn block(self: &Arc<Pool>) {
        let blocked = self.blocked.fetch_add(1, Ordering::Relaxed) + 1;
        self.let_listen();
        if self.sleeping.load(Ordering::Relaxed) == 0 {
            let threads = self.threads.load(Ordering::Relaxed);
            if threads.saturating_sub(blocked) < self.options.threads
                && threads < self.options.threads + BLOCKED_MAX
            {
                // Without one more, jobs wait until this one goes on.
                let _ = self.add_thread();
            }
        }
    }

    pub(crate) fn unblock(&self) {
        self.blocked.fetch_sub(1, Ordering::Relaxed);
    }

    /// Gives this thread a number that no worker has.
    fn take_number(&self) -> usize {
        let mut numbers = self.numbers.lock();
        let (free, next) = &mut *numbers;
        let number = free.pop().unwrap_or_else(|| {
            *next += 1;
            *next - 1
        });
        set_worker_number(number);
        number
    }

    /// The loop of a worker.
    fn work(self: &Arc<Pool>, slot: &Arc<Slot>) {
        let number = self.take_number();
        let mut woken = Woken::default();
        let mut since_look = 0;
        loop {
            if self.stopped.load(Ordering::Acquire) {
                break;
            }
            if since_look >= LOOK_EVERY {
                since_look = 0;
                self.gather(&mut woken, true);
                self.push_all(std::mem::take(&mut woken));
            }
            let ready = match self.pop() {
                Some(ready) => {
                    self.share();
                    ready
                }
                None => match self.sleep(&mut woken) {
                    Some(job) => Ready::Job(job),
                    None if self.has_too_many() && !self.is_pressed() => break,
                    None => continue,
                },
            };
            since_look += 1;
            self.run(ready, slot);
        }
        self.numbers.lock().0.push(number);
        self.threads.fetch_sub(1, Ordering::Relaxed);
        self.slots.lock().retain(|other| !Arc::ptr_eq(other, slot));
        if self.stopped.load(Ordering::Acquire) {
            self.wake_all();
        } else {
            self.let_listen();
        }
    }

    /// Waits for events or until it is called. Returns the first job that became ready; the others
    /// go into the queue.
    fn sleep(&self, woken: &mut Woken) -> Option<Arc<Job>> {
        self.sleeping.fetch_add(1, Ordering::Relaxed);
        // Pairs with the fence in `wake_one`.
        fence(Ordering::SeqCst);
        match self.listening.swap(true, Ordering::SeqCst) {
            false => self.listen(woken),
            true => self.follow(),
        }
        self.sleeping.fetch_sub(1, Ordering::Relaxed);
        let first = woken.jobs.pop_front();
        if first.is_some() && self.slow.load(Ordering::Relaxed) {
            self.let_listen();
        }
        if !woken.jobs.is_empty() {
            let rest = std::mem::take(&mut woken.jobs);
            self.push_all(Woken { events: Vec::new(), jobs: rest });
        }
        first
    }

    /// Waits for events, as the only worker.
    fn listen(&self, woken: &mut Woken) {
        // Pairs with the fence in `wake_one`.
        fence(Ordering::SeqCst);
        if !self.is_pressed() && !self.stopped.load(Ordering::Relaxed) {
            self.gather(woken, false);
        }
        self.listening.store(false, Ordering::Release);
    }

    /// Waits until it is called.
    fn follow(&self) {
        let mut followers = self.followers.lock();
        // Who has put something into the queue looks for followers under this lock afterwards.
        if self.is_pressed() || self.stopped.load(Ordering::Relaxed) {
            return;
        }
        followers.waiting += 1;
        match self.linger() {
            None => self.called.wait(&mut followers),
            Some(time) => drop(self.called.wait_for(&mut followers, time)),
        }
        followers.waiting -= 1;
        followers.calls = followers.calls.saturating_sub(1);
    }

    #[cold]
    fn note_no_stack(&self, error: &io::Error) {
        self.stack_waits.fetch_add(1, Ordering::Relaxed);
        let now = Instant::now();
        let mut told = self.shortage_told.lock();
        if told.is_none_or(|again| again <= now) {
            *told = Some(now + SHORTAGE_TOLD_EVERY);
            drop(told);
            (self.options.no_stack)(error);
        }
    }

    fn run(self: &Arc<Pool>, ready: Ready, slot: &Slot) {
        let mut fiber = match ready {
            Ready::Fiber(fiber) => fiber,
            Ready::Job(job) => match self.stacks.take() {
                Ok(stack) => Fiber::new(stack, self.clone(), job),
                Err(error) => {
                    self.note_no_stack(&error);
                    // Others may give theirs back soon.
                    let at = self.timers.at(Instant::now()) + NO_STACK_PAUSE;
                    self.timers.add_at(at, Timer::NoStack(job));
                    return;
                }
            },
        };
        let began = Instant::now();
        *slot.job.lock() = Some(fiber.job.clone());
        slot.runs.fetch_add(1, Ordering::SeqCst);
        if self.ticker_sleeps.load(Ordering::SeqCst) && self.ticker_sleeps.swap(false, Ordering::SeqCst) {
            self.timers.wake();
        }
        loop {
            match fiber.enter() {
                Left::Ended => {
                    if let Some(stack) = fiber.into_stack() {
                        self.stacks.give(stack);
                    }
                    break;
                }
                Left::MadeWay => {
                    self.preempted.fetch_add(1, Ordering::Relaxed);
                    self.push_fiber(fiber);
                    break;
                }
                Left::Waits(waiter) => match waiter.settle(fiber) {
                    Some(woken) => fiber = woken,
                    None => break,
                },
            }
        }
        slot.runs.fetch_add(1, Ordering::AcqRel);
        *slot.job.lock() = None;
        if began.elapsed() > SLOW {
            self.slow.store(true, Ordering::Relaxed);
        }
    }

    /// Forgets a job that has ended.
    pub(crate) fn forget(&self, number: u64) {
        let job = self.jobs.write().forget(number);
        // Not under the lock.
        drop(job);
    }
}
