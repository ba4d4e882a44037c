//! [`Job`]: work that rests until something has happened, and the word that says so.
//!
//! The word has a bit for each kind of event, and [`RUNNING`] and [`ENDED`]. A job is in the queue
//! or about to be when it has events and neither of the two. So whoever sets the first event of a
//! resting job puts it into the queue, and nobody else does.

use std::io;
use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Instant;

use parking_lot::Mutex;
use rustix::event::epoll::{self, EventData, EventFlags};

use crate::pool::Pool;
use crate::timers::{Key, NEVER, Timer};

/// A worker, or a fiber that was left, has the job.
const RUNNING: u32 = 1 << 16;
/// The job is done.
const ENDED: u32 = 1 << 17;

/// Things that have happened to a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Events(u32);

impl Events {
    /// The job has just begun.
    pub const BEGIN: Events = Events(1);
    /// A descriptor can be read, written, or is at its end.
    pub const READY: Events = Events(2);
    /// Somebody has rung.
    pub const BELL: Events = Events(4);
    /// Its time is over.
    pub const TIME: Events = Events(8);
    const ALL: u32 = 15;

    /// True if one of these has happened.
    pub fn has(self, other: Events) -> bool {
        self.0 & other.0 != 0
    }
}

/// The next state of a job that has run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// It rests until something happens; at the latest until then.
    Rest(Option<Instant>),
    /// It is done.
    Done,
}

/// The work of a job.
pub trait Work: Send {
    /// Works until there is nothing to do. Runs on a fiber. Events may be missing that were seen
    /// before, and may be there without reason: look.
    ///
    /// A panic ends the job.
    fn run(&mut self, events: Events) -> Next;
}

/// The function that asks running work to make way.
type Ask = Box<dyn Fn() + Send + Sync>;

/// The function that hears of the end of a descriptor's peer.
type HearEnd = Box<dyn Fn(End) + Send + Sync>;

/// The end of the peer of a descriptor that is watched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// It has sent its last byte.
    SentLast,
    /// It has closed both directions, or is gone.
    HungUp,
}

/// Work that rests until something has happened.
pub(crate) struct Job {
    pub(crate) number: u64,
    word: AtomicU32,
    work: Mutex<Option<Box<dyn Work>>>,
    ask: Mutex<Option<Ask>>,
    hear_end: OnceLock<HearEnd>,
    /// The time at which it is rung, by the clock of the timers.
    deadline: AtomicU64,
    /// Its timer, at the deadline or before.
    timer: Mutex<Option<Key>>,
    /// The nanoseconds for which its fibers were parked, or blocked their threads.
    pub(crate) parked_ns: AtomicU64,
}

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Job").field("number", &self.number).finish_non_exhaustive()
    }
}

impl Job {
    /// Makes a job, which nobody runs before [`Job::begin`].
    pub(crate) fn new(number: u64) -> Job {
        Job {
            number,
            word: AtomicU32::new(RUNNING | Events::BEGIN.0),
            work: Mutex::new(None),
            ask: Mutex::new(None),
            hear_end: OnceLock::new(),
            deadline: AtomicU64::new(NEVER),
            timer: Mutex::new(None),
            parked_ns: AtomicU64::new(0),
        }
    }

    /// Adds the time since a moment to that for which it was parked. Only its own fiber does so.
    pub(crate) fn add_parked(&self, since: Instant) {
        let more = u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.parked_ns.fetch_add(more, Ordering::Relaxed);
    }

    /// Gives the job its work. It must then be put into the queue.
    pub(crate) fn begin(&self, work: Box<dyn Work>) {
        *self.work.lock() = Some(work);
        self.word.fetch_and(!RUNNING, Ordering::AcqRel);
    }

    /// Notes that something has happened. True if the job must be put into the queue.
    pub(crate) fn note(&self, events: Events) -> bool {
        // Release: who runs the job next sees what happened.
        let before = self.word.fetch_or(events.0, Ordering::AcqRel);
        before & (RUNNING | ENDED | Events::ALL) == 0
    }

    /// Runs the job, on a fiber, until it rests or ends.
    pub(crate) fn run(self: &Arc<Job>, pool: &Arc<Pool>) {
        let Some(mut work) = self.work.lock().take() else { return };
        loop {
            let events = Events(self.word.swap(RUNNING, Ordering::AcqRel) & Events::ALL);
            let Ok(Next::Rest(until)) = catch_unwind(AssertUnwindSafe(|| work.run(events))) else {
                // Its last effects come before others hear that it has ended.
                drop(work);
                return self.end(pool);
            };
            self.rest_until(pool, until);
            // Here before the word says that it rests: the next worker needs it.
            let mut place = self.work.lock();
            if self.word.compare_exchange(RUNNING, 0, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                *place = Some(work);
                return;
            }
            if pool.is_pressed() {
                // Others first. Its events are still there.
                *place = Some(work);
                self.word.fetch_and(!RUNNING, Ordering::AcqRel);
                drop(place);
                return pool.push_job(self.clone());
            }
        }
    }

    /// Sets the time at which it is rung.
    fn rest_until(self: &Arc<Job>, pool: &Pool, until: Option<Instant>) {
        let at = until.map_or(NEVER, |until| pool.timers.at(until));
        self.deadline.store(at, Ordering::Relaxed);
        if at == NEVER {
            return;
        }
        let mut timer = self.timer.lock();
        match *timer {
            // It finds the deadline when it fires.
            Some((before, _)) if before <= at => return,
            Some(later) => pool.timers.remove(later),
            None => {}
        }
        *timer = Some(pool.timers.add_at(at, Timer::Job(self.clone())));
    }

    /// Hears that its timer has fired. True if it must be put into the queue.
    pub(crate) fn hear_timer(self: &Arc<Job>, pool: &Pool, key: Key, now: u64) -> bool {
        let mut timer = self.timer.lock();
        if *timer != Some(key) {
            return false;
        }
        *timer = None;
        let at = self.deadline.load(Ordering::Relaxed);
        if at <= now {
            return self.note(Events::TIME);
        }
        if at != NEVER && self.word.load(Ordering::Relaxed) & ENDED == 0 {
            *timer = Some(pool.timers.add_at(at, Timer::Job(self.clone())));
        }
        false
    }

    fn end(&self, pool: &Pool) {
        self.word.store(ENDED, Ordering::Release);
        if let Some(key) = self.timer.lock().take() {
            pool.timers.remove(key);
        }
        *self.ask.lock() = None;
        pool.forget(self.number);
    }

    /// Hears of an event of its descriptor, before it is noted.
    pub(crate) fn hear(&self, flags: EventFlags) {
        let end = match flags {
            _ if flags.intersects(EventFlags::HUP | EventFlags::ERR) => End::HungUp,
            _ if flags.contains(EventFlags::RDHUP) => End::SentLast,
            _ => return,
        };
        self.hear_end.get().into_iter().for_each(|hear| hear(end));
    }

    /// Asks it to make way.
    pub(crate) fn ask(&self) {
        self.ask.lock().iter().for_each(|ask| ask());
    }
}

/// The way to a job, for those who ring it. It keeps nothing of the job alive once that is done.
#[derive(Clone, Debug)]
pub struct Handle {
    pub(crate) pool: Weak<Pool>,
    pub(crate) job: Weak<Job>,
}

impl Handle {
    /// Rings the job.
    pub fn ring(&self) {
        if let (Some(pool), Some(job)) = (self.pool.upgrade(), self.job.upgrade())
            && job.note(Events::BELL)
        {
            pool.push_job(job);
        }
    }

    /// Enters the function that asks the job to make way while it runs ([`make_way`]). It is called
    /// from another thread, and must not take long.
    ///
    /// [`make_way`]: crate::make_way
    pub fn on_ask(&self, ask: impl Fn() + Send + Sync + 'static) {
        if let Some(job) = self.job.upgrade() {
            *job.ask.lock() = Some(Box::new(ask));
        }
    }

    /// Enters the function that is called when the peer of a watched descriptor comes to its end,
    /// also while the job runs. It is called from other threads, perhaps more than once, and must
    /// not take long. The first one stays.
    pub fn on_end(&self, hear: impl Fn(End) + Send + Sync + 'static) {
        if let Some(job) = self.job.upgrade() {
            let _ = job.hear_end.set(Box::new(hear));
        }
    }

    /// Rings the job whenever more can be read from a descriptor, or its peer has gone, until the
    /// descriptor is closed. What can be read already rings it once.
    ///
    /// # Errors
    /// The system has no means for it.
    pub fn watch(&self, descriptor: impl AsFd) -> io::Result<()> {
        self.control(|epoll, data| epoll::add(epoll, descriptor, data, READABLE))
    }

    /// Rings the job, too, when the descriptor can be written, or no more.
    ///
    /// # Errors
    /// The descriptor is not watched.
    pub fn watch_room(&self, descriptor: impl AsFd, watched: bool) -> io::Result<()> {
        let flags = if watched { READABLE | EventFlags::OUT } else { READABLE };
        self.control(|epoll, data| epoll::modify(epoll, descriptor, data, flags))
    }

    fn control(
        &self,
        work: impl FnOnce(&std::os::fd::OwnedFd, EventData) -> rustix::io::Result<()>,
    ) -> io::Result<()> {
        let (Some(pool), Some(job)) = (self.pool.upgrade(), self.job.upgrade()) else { return Ok(()) };
        Ok(work(&pool.epoll, EventData::new_u64(job.number))?)
    }
}

/// Edge-triggered: a worker need not tell the system again that it waits.
const READABLE: EventFlags = EventFlags::IN.union(EventFlags::RDHUP).union(EventFlags::ET);
