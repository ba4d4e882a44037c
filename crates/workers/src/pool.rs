//! [`Workers`]: a few threads that run jobs.
//!
//! All workers wait for events at the same place of the system, which wakes the one that came last.
//! So an event needs no second thread to be heard, and any worker runs any job. Jobs that became
//! ready in another way, and fibers that go on, are in one queue, and ring a bell at that place.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
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

/// Returns the number of workers unless the options say otherwise: one for each processor, at least
/// two, so that a job which makes no way does not hold up all. More of them would take turns for
/// the processors, which costs a tenth of the throughput with many clients.
pub fn threads_default() -> usize {
    std::thread::available_parallelism().map_or(1, |count| count.get()).max(2)
}

/// Most threads more than the options say, for those that are blocked.
const BLOCKED_MAX: usize = 256;
/// The time after which a thread goes that is one too many and has nothing to do.
const LINGER: Duration = Duration::from_secs(1);
/// Most events that a worker takes at once. It runs the first, and others may take the rest.
const EVENTS_AT_ONCE: usize = 16;
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
    /// Workers that wait for events, or are about to.
    pub(crate) sleeping: AtomicUsize,
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
        self.pool.ring();
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
        self.wake_one();
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
    fn wake_one(&self) {
        // Pairs with the fence in `Pool::sleep`: one of both sees the other.
        fence(Ordering::SeqCst);
        if self.sleeping.load(Ordering::Relaxed) > 0 {
            self.ring();
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
                    // There may be work for two.
                    if self.is_pressed() {
                        self.wake_one();
                    }
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
        // The bell wakes one: it passes the news on.
        self.ring();
    }

    /// Waits for events, and returns the first job that became ready; the others go into the queue.
    fn sleep(&self, woken: &mut Woken) -> Option<Arc<Job>> {
        self.sleeping.fetch_add(1, Ordering::Relaxed);
        // Pairs with the fence in `wake_one`.
        fence(Ordering::SeqCst);
        if !self.is_pressed() && !self.stopped.load(Ordering::Relaxed) {
            self.gather(woken, false);
        }
        self.sleeping.fetch_sub(1, Ordering::Relaxed);
        let first = woken.jobs.pop_front();
        if !woken.jobs.is_empty() {
            let rest = std::mem::take(&mut woken.jobs);
            self.push_all(Woken { events: Vec::new(), jobs: rest });
        }
        first
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
    }

    /// Forgets a job that has ended.
    pub(crate) fn forget(&self, number: u64) {
        let job = self.jobs.write().forget(number);
        // Not under the lock.
        drop(job);
    }
}
