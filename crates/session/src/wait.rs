//! `wait`: a session rests until others have changed an object that its transaction has read.
//!
//! ```text
//!            read set unchanged                     a commit of others, or the time is over
//! `wait` ------------------------> resting ------------------------------------------------+
//!   |                                ^   | handled too early                               |
//!   | changed already                +---+                                                 v
//!   +---------------------------------------------------------------------------------> answered
//! ```
//!
//! A resting session has a [pause](Session::pause), and nothing of it runs. The repository calls
//! its waker; the caller of [`Session::handle`] then hands the rest of the bytes in.

use std::sync::Arc;
use std::time::Duration;

use bifrost_ir::Types;
use bifrost_repository::{Watcher, Watching};
use bifrost_runtime::Cx;
use bifrost_runtime::abi::Word;
use bifrost_wire::{ErrorNumber, Limit};

use crate::futures::Future;
use crate::session::Session;

const NS_PER_MS: u64 = 1_000_000;

/// A `wait` under way.
#[derive(Debug)]
pub(crate) struct Resting {
    /// The time at which it ends, by the clock of the context.
    until_ns: u64,
    /// The time that was left when the session was last handled.
    left: Duration,
    _watching: Watching,
}

/// The waker of a session.
pub(crate) struct Waker(Arc<dyn Watcher>);

impl std::fmt::Debug for Waker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Waker")
    }
}

impl Session {
    /// Enters the waker, which is called when a pause may be over before its time. Without one a
    /// `wait` lasts no time.
    pub fn set_waker(&mut self, waker: Arc<dyn Watcher>) {
        self.waker = Some(Waker(waker));
    }

    /// True while the session waits for commits of others.
    pub fn is_waiting(&self) -> bool {
        self.resting.is_some()
    }

    /// Ends a `wait` under way, and each further one, as one whose time is over: the client sends
    /// nothing more, and may be gone.
    pub fn wait_no_more(&mut self) {
        self.waker = None;
        if let Some(resting) = &mut self.resting {
            resting.until_ns = 0;
        }
    }

    /// Returns the time that is left for the `wait` under way.
    pub(crate) fn rest_left(&self) -> Option<Duration> {
        self.resting.as_ref().map(|resting| resting.left)
    }

    /// Executes `wait`. Its future is made at once, or when the session has rested.
    pub(crate) fn wait(&mut self, cx: &mut Cx, ms: u32) {
        // The answers are of the transaction that asked.
        self.join_all(cx);
        if let Some(doom) = cx.doomed() {
            let text = format!("{} ({doom})", ErrorNumber::Doomed.text());
            let failed = self.refuse(ErrorNumber::Doomed, text);
            return self.make_one(cx, Future::Failed(failed));
        }
        if cx.changed().next().is_some() {
            let text = "the transaction has changed something: commit or abort it before `wait`";
            let failed = self.refuse(ErrorNumber::InTransaction, text);
            return self.make_one(cx, Future::Failed(failed));
        }
        let ms = u64::from(ms).min(self.limits.get(Limit::WaitMs));
        let waker = self.waker.as_ref().filter(|_| ms > 0).map(|waker| waker.0.clone());
        let Some(waker) = waker else {
            let changed = self.transactions.cache().is_overtaken(cx);
            return self.waited(cx, changed);
        };
        match self.transactions.cache().watch(cx, waker) {
            None => self.waited(cx, true),
            Some(watching) => {
                let until_ns = cx.now_ns().saturating_add(ms.saturating_mul(NS_PER_MS));
                self.resting =
                    Some(Resting { until_ns, left: Duration::from_millis(ms), _watching: watching });
            }
        }
    }

    /// Makes the future of the `wait` under way, if others have changed an object or its time is
    /// over.
    pub(crate) fn wake(&mut self, cx: &mut Cx) {
        let Some(resting) = &mut self.resting else { return };
        let changed = self.transactions.cache().is_overtaken(cx);
        let left = resting.until_ns.saturating_sub(cx.now_ns());
        if !changed && left > 0 {
            resting.left = Duration::from_nanos(left);
            return;
        }
        self.resting = None;
        self.waited(cx, changed);
        self.measured_wait(cx);
    }

    fn waited(&mut self, cx: &mut Cx, changed: bool) {
        if changed {
            self.transactions.end_overtaken(cx);
        }
        self.make_one(cx, Future::Basic(Word::from(changed), Types::BOOL));
    }
}
