//! The space of a session: its objects, and the code that works on them.
//!
//! Each session has a context of its own, whose objects are those of its cache. Its thread locks
//! the context while it handles the bytes that have arrived; others take the lock for the figures
//! of the heap. So objects need no locks of their own.
//!
//! A space that names no objects may [sleep](Space::sleep): it has no context then.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bifrost_engine::Engine;
use bifrost_runtime::cx::{Kill, Output, Poll};
use bifrost_runtime::{Cx, HeapStats, Limits};
use parking_lot::{MappedMutexGuard, Mutex, MutexGuard};

/// The objects of a session, and the code that works on them.
#[derive(Debug)]
pub struct Space {
    engine: Arc<Engine>,
    place: Mutex<Place>,
    poll: Arc<Poll>,
    limits: Limits,
    seed: u64,
}

/// The place of a context.
#[derive(Debug)]
struct Place {
    /// Nothing while the space sleeps.
    cx: Option<Box<Cx>>,
    /// The figures of the heaps of those that were there before.
    past: HeapStats,
}

/// The context of a space while it is locked. When dropped, it logs the collections that there
/// were, as an event.
#[derive(Debug)]
pub struct SpaceGuard<'a> {
    cx: MappedMutexGuard<'a, Cx>,
    collections: u64,
}

impl Deref for SpaceGuard<'_> {
    type Target = Cx;

    fn deref(&self) -> &Cx {
        &self.cx
    }
}

impl DerefMut for SpaceGuard<'_> {
    fn deref_mut(&mut self) -> &mut Cx {
        &mut self.cx
    }
}

impl Drop for SpaceGuard<'_> {
    fn drop(&mut self) {
        if self.cx.collections() == self.collections {
            return;
        }
        let stats = self.cx.heap_stats();
        let usage = stats.usage;
        tracing::debug!(
            collections = usage.collections - self.collections,
            pause_us = stats.pause_ns / 1000,
            pause_us_max = stats.pause_ns_max / 1000,
            live_bytes = usage.live_bytes,
            live_objects = usage.live_objects,
            used_bytes = usage.used_bytes,
            held_bytes = usage.held_bytes,
            limit_bytes = usage.limit_bytes,
            allocated_bytes = usage.allocated_bytes,
            "heap.collected"
        );
    }
}

/// The pause between two looks of the watch while nothing runs, and the longest one.
const LOOK_IDLE: Duration = Duration::from_millis(100);
/// The looks within the least limit of all spaces, while something runs. A look at all spaces costs
/// as much as there are, so the pause is at least [`LOOK_BUSY`] unless the limit is as short.
const LOOKS: u32 = 50;
const LOOK_BUSY: Duration = Duration::from_millis(5);

impl Space {
    /// Makes an empty space for a program. The bytes of stack in `limits` are those of machine
    /// code; the interpreter gets more, to get as deep.
    ///
    /// # Errors
    /// When the system has no random number for the seed.
    pub fn new(engine: Arc<Engine>, limits: Limits) -> std::io::Result<Arc<Space>> {
        let mut seed = [0; 8];
        getrandom::fill(&mut seed).map_err(std::io::Error::other)?;
        let seed = u64::from_le_bytes(seed);
        let limits = Limits { stack_bytes: engine.mode().stack_bytes(limits.stack_bytes), ..limits };
        let mut cx = Cx::new(engine.image().clone(), limits, seed, now_ms);
        cx.set_clock(now_ns);
        let poll = cx.poll().clone();
        let place = Mutex::new(Place { cx: Some(cx), past: HeapStats::default() });
        Ok(Arc::new(Space { engine, place, poll, limits, seed }))
    }

    /// Gives up the context with all its objects, until the space is locked again. The next one is
    /// as new: settings are to be made again.
    pub fn sleep(&self) {
        let mut place = self.place.lock();
        if let Some(cx) = place.cx.take() {
            place.past = place.past.with(&cx.heap_stats().past());
        }
    }

    /// Returns the figures of the heap, and of those before it. Wakes nothing.
    pub fn heap_stats(&self) -> HeapStats {
        let place = self.place.lock();
        place.cx.iter().fold(place.past, |past, cx| past.with(&cx.heap_stats()))
    }

    /// Runs `work` on a stack with room for running code, and for the needs of the runtime and the
    /// system besides.
    ///
    /// # Errors
    /// When no thread can be started.
    ///
    /// # Panics
    /// As `work` does.
    pub fn on_stack<T: Send>(&self, work: impl FnOnce() -> T + Send) -> std::io::Result<T> {
        std::thread::scope(|scope| {
            let bytes = self.stack_bytes();
            let thread = std::thread::Builder::new().stack_size(bytes).spawn_scoped(scope, work);
            let thread = thread.map_err(|e| {
                std::io::Error::new(
                    e.kind(),
                    format!("a thread with a stack of {bytes} bytes cannot be started: {e}"),
                )
            })?;
            match thread.join() {
                Ok(value) => Ok(value),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }

    /// Returns the bytes of stack that a thread needs to run code here.
    pub fn stack_bytes(&self) -> usize {
        self.limits.stack_bytes + STACK_EXTRA
    }

    /// Returns the value of [`Space::stack_bytes`] for these limits.
    pub fn stack_bytes_for(engine: &Engine, limits: Limits) -> usize {
        engine.mode().stack_bytes(limits.stack_bytes) + STACK_EXTRA
    }

    /// Returns the program.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Locks the context, for as long as the guard lives.
    pub fn lock(&self) -> SpaceGuard<'_> {
        let make = || {
            let (image, poll) = (self.engine.image().clone(), self.poll.clone());
            // Other numbers than those of the context before.
            let seed = self.seed ^ now_ns();
            let mut cx = Cx::with_poll(image, self.limits, seed, now_ms, poll);
            cx.set_clock(now_ns);
            cx
        };
        let place = self.place.lock();
        let cx = MutexGuard::map(place, |place| &mut **place.cx.get_or_insert_with(make));
        let collections = cx.collections();
        SpaceGuard { cx, collections }
    }

    /// Sends the text that programs print to a buffer instead of the standard output.
    pub fn capture_output(&self) {
        self.lock().set_output(Output::Buffer(String::new()));
    }

    /// Ends the run under way.
    pub fn interrupt(&self, why: Kill) {
        self.poll.kill(self.poll.epoch(), why);
    }

    /// Returns the poll, by which the context may be interrupted.
    pub fn poll(&self) -> &Arc<Poll> {
        &self.poll
    }
}

/// Ends runs that last too long, in any number of spaces. It looks often while something runs, and
/// seldom when nothing does.
#[derive(Debug)]
pub struct Watch {
    polls: Arc<Mutex<Vec<Watched>>>,
    limit: Duration,
}

/// A context, and the start of the run that was last seen.
#[derive(Debug)]
struct Watched {
    poll: Arc<Poll>,
    epoch: u64,
    since: Instant,
    /// The longest run.
    limit: Duration,
}

impl Watch {
    /// Starts the watch: a run longer than `limit` is ended, unless its space has another limit.
    /// The watch ends when this is dropped.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn start(limit: Duration) -> std::io::Result<Watch> {
        let watch = Watch { polls: Arc::default(), limit };
        let polls = Arc::downgrade(&watch.polls);
        std::thread::Builder::new().name("bifrost-watch".to_owned()).spawn(move || {
            while let Some(polls) = polls.upgrade() {
                let pause = look(&mut polls.lock());
                drop(polls);
                std::thread::sleep(pause);
            }
        })?;
        Ok(watch)
    }

    /// Watches a space as long as it lives.
    pub fn add(&self, space: &Space) {
        self.add_for(space, self.limit);
    }

    /// Watches a space whose runs have a limit of their own, as long as it has a context. One that
    /// is watched already stays so.
    pub fn add_for(&self, space: &Space, limit: Duration) {
        let poll = space.poll.clone();
        let mut polls = self.polls.lock();
        if !poll.set_watched(true) {
            polls.push(Watched { epoch: poll.epoch(), poll, since: Instant::now(), limit });
        }
    }

    /// The number of spaces that are watched.
    pub fn count(&self) -> usize {
        self.polls.lock().len()
    }
}

/// Looks at all contexts once. Returns the pause before the next look: it is short if something
/// runs, or did a moment ago.
fn look(polls: &mut Vec<Watched>) -> Duration {
    let (mut busy, mut least) = (false, Duration::MAX);
    polls.retain_mut(|watched| {
        let epoch = watched.poll.epoch();
        if epoch != watched.epoch {
            (watched.epoch, watched.since) = (epoch, Instant::now());
        } else if epoch % 2 == 1 && watched.since.elapsed() > watched.limit {
            watched.poll.kill(epoch, Kill::Time);
        }
        busy |= epoch % 2 == 1 || watched.since.elapsed() < LOOK_IDLE;
        least = least.min(watched.limit);
        let stays = !watched.poll.retired();
        if !stays {
            watched.poll.set_watched(false);
        }
        stays
    });
    let pause = if busy { (least / LOOKS).max(LOOK_BUSY) } else { LOOK_IDLE };
    pause.min(LOOK_IDLE).min(least / 2 + Duration::from_millis(1))
}

/// Returns milliseconds since 1970.
fn now_ms() -> i64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX))
}

/// Returns nanoseconds since the first question.
fn now_ns() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    u64::try_from(START.get_or_init(Instant::now).elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Stack besides that of running code, in bytes.
const STACK_EXTRA: usize = 8 << 20;
