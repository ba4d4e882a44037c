//! The thread that learns of the work of other processes, and does the work that is due.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

use crate::postgres::Shared;
use crate::postgres::link::{BEGIN, BEGIN_ASIDE, COMMIT, Request, Trouble};
use crate::postgres::tables::{Sql, number, orefs_as_bytes};
use crate::{Error, Oref, REPLIES_KEPT_BYTES_MAX, SESSIONS_KEPT_MAX, Tid};

/// The number of commits after which the log and the replies are trimmed.
const TRIM_AFTER: u64 = 1 << 12;
/// Orefs in one row of the objects that a process holds.
const HELD_AT_ONCE: usize = 1 << 16;

/// The thread. It ends when this is dropped.
pub struct Watch {
    stop: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    pub fn start(shared: &Arc<Shared>) -> std::io::Result<Watch> {
        let stop: Arc<(Mutex<bool>, Condvar)> = Arc::default();
        let (shared, stopped) = (shared.clone(), stop.clone());
        let run = move || watch(&shared, &stopped);
        let thread = std::thread::Builder::new().name("postgres".into()).spawn(run)?;
        Ok(Watch { stop, thread: Some(thread) })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        *self.stop.0.lock() = true;
        self.stop.1.notify_one();
        if let Some(thread) = self.thread.take() {
            // It ends by itself; a panic in it was reported where it happened.
            let _ = thread.join();
        }
    }
}

fn watch(shared: &Arc<Shared>, (stop, changed): &(Mutex<bool>, Condvar)) {
    let mut beaten = Instant::now();
    let mut trimmed = shared.head();
    let answering = Arc::new(AtomicU64::new(0));
    loop {
        let mut stopped = stop.lock();
        if !*stopped {
            changed.wait_for(&mut stopped, shared.options.poll_interval);
        }
        if *stopped {
            return;
        }
        drop(stopped);
        // A failure is tried again the next time.
        let position = shared.pool.once(|connection| shared.catch_up(connection));
        match position {
            Ok(position) if position.collection > position.answered => {
                // Holders may wait for a batch to end, and the process must be heard of meanwhile.
                if answering.swap(position.collection, Ordering::Relaxed) != position.collection {
                    let (shared, answering) = (shared.clone(), answering.clone());
                    std::thread::spawn(move || {
                        if shared.answer(position.collection).is_err() {
                            answering.store(0, Ordering::Relaxed);
                        }
                    });
                }
            }
            Ok(_) => {}
            Err(Trouble::Refused(error)) => {
                if let Error::Lost = shared.note(error) {
                    return;
                }
                // A process that cannot answer is not one that others must wait for.
                continue;
            }
            Err(_) => continue,
        }
        if beaten.elapsed() > shared.options.lease / 3 && shared.beat().is_ok() {
            beaten = Instant::now();
        }
        if shared.head().0 > trimmed.0 + TRIM_AFTER && shared.trim().is_ok() {
            trimmed = shared.head();
        }
    }
}

impl Shared {
    /// Says that this process is there, and ends a collection whose process is not.
    fn beat(&self) -> Result<(), Trouble> {
        let id = &self.id[..];
        // Commits read the row, and one that takes longer than the time between two beats would
        // never be done if a beat were in one order with it.
        self.pool.once(|connection| {
            connection.run(&[BEGIN_ASIDE, Request::With(Sql::Beat, vec![&id]), COMMIT]).map(|_| ())
        })?;
        self.end_abandoned().map(|_| ()).map_err(Trouble::Refused)
    }

    /// Tells a collection the objects that the sessions of this process hold. States that they
    /// fetch from now on are of its start or later.
    fn answer(&self, collection: u64) -> Result<(), Error> {
        // The start is known here, so this is not before it.
        self.reads_from.fetch_max(self.head().0, Ordering::SeqCst);
        let held = self.held();
        let orefs: Vec<Vec<u8>> = held.chunks(HELD_AT_ONCE).map(orefs_as_bytes).collect();
        let parts: Vec<i64> = (0..orefs.len() as i64).collect();
        let (id, collection) = (&self.id[..], collection as i64);
        self.ask(|connection| {
            let answers = connection.run(&[
                BEGIN,
                Request::With(Sql::LeaveHeld, vec![&id]),
                Request::With(Sql::Hold, vec![&id, &parts, &orefs]),
                Request::With(Sql::Answered, vec![&id, &collection]),
                COMMIT,
            ])?;
            if answers[3].is_empty() { Err(Error::Lost.into()) } else { Ok(()) }
        })
    }

    /// Returns the objects that the holders of this process name, each once, in order.
    pub fn held(&self) -> Vec<Oref> {
        let mut held = Vec::new();
        for holder in self.holders.all() {
            holder.held(&mut |oref| held.push(oref));
        }
        held.sort_unstable();
        held.dedup();
        held
    }

    /// Frees the rows of the log and of the replies that are not kept any more.
    fn trim(&self) -> Result<(), Error> {
        let floor = self.known.read().changes.floor();
        self.trim_to(floor)?;
        self.trim_replies()
    }

    fn trim_replies(&self) -> Result<(), Error> {
        let (sessions, bytes) = (SESSIONS_KEPT_MAX as i64, REPLIES_KEPT_BYTES_MAX as i64);
        let rows = self.ask(|connection| connection.ask(Sql::OldReplies, vec![&sessions, &bytes]))?;
        let last = rows.first().map_or(Ok(0), |row| number(row, 0))? as i64;
        if last > 0 {
            self.ask(|connection| connection.ask(Sql::Forget, vec![&last]))?;
        }
        Ok(())
    }

    fn trim_to(&self, floor: Tid) -> Result<(), Error> {
        let floor = floor.0 as i64;
        self.ask(|connection| connection.ask(Sql::Trim, vec![&floor])).map(|_| ())
    }

    /// Does as `trim`, for rows left by processes that ended before they had seen enough commits to
    /// do it.
    pub fn trim_excess(&self) -> Result<(), Error> {
        let kept = self.options.changes_kept as i64;
        let rows = self.ask(|connection| connection.ask(Sql::Excess, vec![&kept]))?;
        match rows.first().map_or(Ok(0), |row| number(row, 0))? {
            0 => {}
            floor => self.trim_to(Tid(floor))?,
        }
        self.trim_replies()
    }
}
