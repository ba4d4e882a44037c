//! The ticker: one thread that fires timers, and sees to it that nobody waits behind a long run.
//!
//! It ticks while workers run something, and for a while afterwards. Then it sleeps until the next
//! timer. At a tick it looks at each worker: a job that has run since the tick before, while others
//! wait for a worker, is asked to make way. If no worker waits for events, it looks for them
//! itself.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::pool::{Pool, Woken};
use crate::timers::Timer;

/// The time between two ticks: a job has at least so long before it makes way.
const TICK: Duration = Duration::from_millis(2);
/// Ticks without a run after which the ticker sleeps.
const CALM_TICKS: u32 = 50;
/// The time between two looks at stacks that nobody uses.
const TRIM: Duration = Duration::from_secs(1);

/// Runs until the pool stops.
pub(crate) fn tick(pool: &Arc<Pool>) {
    let (mut calm, mut trim_at) = (0, Instant::now());
    let mut seen: Vec<u64> = Vec::new();
    while !pool.stopped.load(Ordering::Acquire) {
        let busy = look(pool, &mut seen);
        calm = if busy { 0 } else { calm + 1 };
        fire(pool);
        let now = Instant::now();
        if now >= trim_at {
            trim_at = now + TRIM;
            pool.stacks.trim(false);
        }
        if calm < CALM_TICKS {
            pool.timers.sleep(Some(TICK), || false);
            continue;
        }
        pool.ticker_sleeps.store(true, Ordering::SeqCst);
        // Nobody will look again before something runs.
        pool.stacks.trim(true);
        pool.timers
            .sleep(None, || pool.is_pressed() || pool.is_running() || pool.stopped.load(Ordering::Acquire));
        pool.ticker_sleeps.store(false, Ordering::SeqCst);
        calm = 0;
    }
}

/// Fires the timers whose time has come.
fn fire(pool: &Arc<Pool>) {
    for (key, timer) in pool.timers.take_due() {
        match timer {
            Timer::Waiter(waiter) => {
                waiter.wake(false);
            }
            Timer::NoStack(job) => pool.push_job(job),
            Timer::Job(job) => {
                let now = pool.timers.at(Instant::now());
                if job.hear_timer(pool, key, now) {
                    pool.push_job(job);
                }
            }
        }
    }
}

/// Looks at all workers. True if one of them runs something.
fn look(pool: &Arc<Pool>, seen: &mut Vec<u64>) -> bool {
    if pool.sleeping.load(Ordering::Acquire) == 0 {
        let mut woken = Woken::default();
        pool.gather(&mut woken, true);
        pool.push_all(woken);
    }
    let pressed = pool.is_pressed();
    let slots = pool.slots.lock();
    seen.resize(slots.len(), 0);
    let mut busy = false;
    for (slot, seen) in slots.iter().zip(seen) {
        let runs = slot.runs.load(Ordering::Acquire);
        let running = runs % 2 == 1;
        busy |= running;
        if running && runs == *seen && pressed {
            slot.job.lock().iter().for_each(|job| job.ask());
        }
        *seen = runs;
    }
    busy
}
