//! A pool of sessions, for programs with many tasks.
//!
//! A session is one conversation: its transaction is that of all tasks that use it. [`Pool::get`]
//! lends a session to one task; it comes back when the [`Pooled`] is dropped. Then its transaction
//! is aborted, and its failures are told.

use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use async_lock::{Semaphore, SemaphoreGuardArc};

use crate::error::ConnectError;
use crate::session::{Builder, Session};
use crate::shared::Shared;

/// Sessions with one server, opened when they are needed and used again. Clones are the same pool.
///
/// A session that has ended, or of which the task has kept stubs, is not used again: another one is
/// opened in its place.
#[derive(Clone, Debug)]
pub struct Pool {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    builder: Builder,
    address: String,
    /// Has a permit for each session that may be lent.
    permits: Arc<Semaphore>,
    idle: Mutex<Vec<Session>>,
}

impl Inner {
    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Session>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Builder {
    /// Makes a pool of at most so many sessions. Nothing is connected before a session is asked
    /// for.
    pub fn pool(self, address: impl Into<String>, most: usize) -> Pool {
        let (permits, idle) = (Arc::new(Semaphore::new(most.max(1))), Mutex::new(Vec::new()));
        Pool { inner: Arc::new(Inner { builder: self, address: address.into(), permits, idle }) }
    }
}

impl Pool {
    /// Lends a session; waits while all are lent. The session begins a transaction, and has no
    /// untold failures.
    ///
    /// # Errors
    /// A new session was needed, and there is none: see [`ConnectError`].
    pub async fn get(&self) -> Result<Pooled, ConnectError> {
        let permit = self.inner.permits.acquire_arc().await;
        loop {
            let idle = self.inner.idle().pop();
            let session = match idle {
                // It may have ended while it was idle.
                Some(session) if session.is_open() && session.flush_async().await.is_ok() => session,
                Some(_) => continue,
                None => self.inner.builder.clone().connect_async(&self.inner.address).await?,
            };
            return Ok(Pooled { session: Some(session), pool: self.inner.clone(), _permit: permit });
        }
    }

    /// As [`Pool::get`], in a thread that may wait.
    ///
    /// # Errors
    /// As [`Pool::get`].
    pub fn get_blocking(&self) -> Result<Pooled, ConnectError> {
        async_io::block_on(self.get())
    }

    /// Returns the number of open sessions that are not lent.
    pub fn idle(&self) -> usize {
        self.inner.idle().len()
    }
}

/// A session that a pool has lent.
#[derive(Debug)]
pub struct Pooled {
    /// Absent when it is given back.
    session: Option<Session>,
    pool: Arc<Inner>,
    _permit: SemaphoreGuardArc,
}

impl Deref for Pooled {
    type Target = Session;

    fn deref(&self) -> &Session {
        self.session.as_ref().expect("it is here until it is dropped")
    }
}

impl Drop for Pooled {
    fn drop(&mut self) {
        let Some(session) = self.session.take() else { return };
        // A stub that was kept, or a clone, would act in the transaction of the next task.
        if Shared::strong_count(&session.core) > 1 || !session.begin_again() {
            return;
        }
        self.pool.idle().push(session);
    }
}
