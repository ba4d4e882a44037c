//! The central queue as a state machine: invocations and times in, the next invocation out.
//!
//! Times are microseconds of any clock that does not go back. Nothing here blocks.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use crate::counts::{Counts, End};

/// The number of priorities; 0 is the lowest.
pub const PRIORITIES: u8 = 8;

/// The time of waiting that counts as one priority, in microseconds.
const AGE_US: u64 = 1_000_000;

/// An invocation, as the queue sees it.
pub trait Work {
    /// Returns the number of the client: clients of one export take turns.
    fn client(&self) -> u32;

    /// Returns the priority, 0 to 7.
    fn priority(&self) -> u8;

    /// True if nothing else of the export may run meanwhile.
    fn is_alone(&self) -> bool;

    /// Returns the bytes that it holds while it waits.
    fn bytes(&self) -> usize;

    /// Returns the time at which nobody waits for it any more, if there is one.
    fn deadline_us(&self) -> Option<u64>;

    /// True if somebody wants it to run.
    fn is_wanted(&self) -> bool;

    /// Returns the name of its method, for reports.
    fn label(&self) -> String;
}

/// The bounds of the whole queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Most invocations that wait, of all exports.
    pub waiting_max: usize,
    /// Most bytes that they hold together.
    pub waiting_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { waiting_max: 100_000, waiting_bytes_max: 64 << 20 }
    }
}

/// The settings of an export.
#[derive(Clone, Debug)]
pub struct Export {
    /// Most of its invocations that run at once; 0 is no bound.
    pub concurrency: u32,
    /// Most of its invocations that wait.
    pub queue_max: usize,
    /// Its figures.
    pub counts: Arc<Counts>,
}

/// The number of an export; used again after its end.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ExportId(usize);

/// The bound for which an invocation is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// As many of its export wait as may.
    Export,
    /// As many of all exports wait as may.
    All,
    /// Those that wait hold as many bytes as they may.
    Bytes,
    /// The export has ended.
    Closed,
}

/// The reason for which an invocation leaves the queue without having run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dropped {
    /// Its time was over.
    Expired,
    /// Nobody wants it.
    Cancelled,
    /// Its export has ended.
    Closed,
}

/// The next thing for a task.
#[derive(Debug)]
pub enum Taken<W> {
    /// An invocation to run; [`Queue::done`] ends it.
    Run(ExportId, W),
    /// One that is not run.
    Drop(W, Dropped),
}

/// An invocation that waits.
#[derive(Debug)]
struct Waiting<W> {
    work: W,
    since_us: u64,
}

/// The invocations of one priority of an export, by client.
#[derive(Debug)]
struct Lane<W> {
    turns: VecDeque<u32>,
    /// The numbers of clients are ours.
    by_client: HashMap<u32, VecDeque<Waiting<W>>>,
}

impl<W> Default for Lane<W> {
    fn default() -> Lane<W> {
        Lane { turns: VecDeque::new(), by_client: HashMap::new() }
    }
}

impl<W: Work> Lane<W> {
    fn push(&mut self, waiting: Waiting<W>) {
        let client = waiting.work.client();
        let own = self.by_client.entry(client).or_default();
        if own.is_empty() {
            self.turns.push_back(client);
        }
        own.push_back(waiting);
    }

    /// Returns the next one.
    fn first(&self) -> Option<&Waiting<W>> {
        self.by_client.get(self.turns.front()?)?.front()
    }

    fn pop(&mut self) -> Option<Waiting<W>> {
        let client = self.turns.pop_front()?;
        let own = self.by_client.get_mut(&client)?;
        let first = own.pop_front();
        match own.is_empty() {
            true => drop(self.by_client.remove(&client)),
            false => self.turns.push_back(client),
        }
        first
    }

    fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// Takes out those for which a condition holds.
    fn extract(&mut self, out: &mut Vec<W>, is: &dyn Fn(&W) -> bool) {
        for own in self.by_client.values_mut() {
            let (gone, left) = own.drain(..).partition(|waiting| is(&waiting.work));
            *own = left;
            let gone: VecDeque<Waiting<W>> = gone;
            out.extend(gone.into_iter().map(|waiting| waiting.work));
        }
        self.by_client.retain(|_, own| !own.is_empty());
        self.turns.retain(|client| self.by_client.contains_key(client));
    }
}

#[derive(Debug)]
struct Served<W> {
    export: Export,
    /// By priority.
    lanes: BTreeMap<u8, Lane<W>>,
    waiting: usize,
    active: u32,
    /// An invocation runs alone.
    alone: bool,
    /// The priority under which it is listed as ready, and the number of that entry.
    listed: Option<(u8, u64)>,
    /// It ends when nothing of it runs.
    closed: bool,
}

impl<W: Work> Served<W> {
    /// Returns the priority whose lane has the next invocation, and with its age the priority that
    /// it counts as.
    fn next(&self, now_us: u64) -> Option<(u8, u64)> {
        let lanes = self.lanes.iter().filter_map(|(priority, lane)| {
            let age = now_us.saturating_sub(lane.first()?.since_us) / AGE_US;
            Some((*priority, u64::from(*priority) + age))
        });
        // Of equal ones the higher priority.
        lanes.max_by_key(|(priority, counted)| (*counted, *priority))
    }

    /// True if its next invocation may run.
    fn is_ready(&self, now_us: u64) -> bool {
        let room = self.export.concurrency == 0 || self.active < self.export.concurrency;
        if self.alone || !room {
            return false;
        }
        let next = self.next(now_us).and_then(|(priority, _)| self.lanes.get(&priority)?.first());
        next.is_some_and(|next| self.active == 0 || !next.work.is_alone())
    }
}

/// A ready export in the list of its priority.
#[derive(Clone, Copy, Debug)]
struct Ready {
    export: usize,
    entry: u64,
    since_us: u64,
}

/// The central queue.
#[derive(Debug)]
pub struct Queue<W> {
    exports: Vec<Option<Served<W>>>,
    free: Vec<usize>,
    /// By priority: the ready exports, in turn. Entries whose number is not the export's are old.
    ready: [VecDeque<Ready>; PRIORITIES as usize],
    entries: u64,
    waiting: usize,
    waiting_bytes: usize,
    active: usize,
    limits: Limits,
    /// The figures of all exports together.
    counts: Arc<Counts>,
}

impl<W: Work> Queue<W> {
    /// Makes a queue without exports.
    pub fn new(limits: Limits, counts: Arc<Counts>) -> Queue<W> {
        Queue {
            exports: Vec::new(),
            free: Vec::new(),
            ready: Default::default(),
            entries: 0,
            waiting: 0,
            waiting_bytes: 0,
            active: 0,
            limits,
            counts,
        }
    }

    /// Adds an export.
    pub fn open(&mut self, export: Export) -> ExportId {
        let served = Served {
            export,
            lanes: BTreeMap::new(),
            waiting: 0,
            active: 0,
            alone: false,
            listed: None,
            closed: false,
        };
        match self.free.pop() {
            Some(at) => {
                self.exports[at] = Some(served);
                ExportId(at)
            }
            None => {
                self.exports.push(Some(served));
                ExportId(self.exports.len() - 1)
            }
        }
    }

    /// Ends an export: what waits for it is returned, and nothing is accepted any more.
    pub fn close(&mut self, id: ExportId) -> Vec<W> {
        let mut out = Vec::new();
        let Some(served) = self.exports.get_mut(id.0).and_then(Option::as_mut) else { return out };
        served.closed = true;
        for lane in served.lanes.values_mut() {
            lane.extract(&mut out, &|_| true);
        }
        self.left(id, &out);
        self.forget_closed(id);
        out
    }

    /// Returns the number of invocations that wait.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// True if a task that asks now may get something.
    pub fn is_ready(&mut self) -> bool {
        (0..PRIORITIES as usize).any(|priority| self.front(priority).is_some())
    }

    /// Returns the number of invocations that run.
    pub fn active(&self) -> usize {
        self.active
    }

    /// Queues an invocation. Returns true if a task could take one more than before.
    ///
    /// # Errors
    /// The bound that it would exceed, and the invocation.
    pub fn push(&mut self, id: ExportId, work: W, now_us: u64) -> Result<bool, (Refused, W)> {
        let bytes = work.bytes();
        let all = self.waiting >= self.limits.waiting_max;
        let too_large = self.waiting_bytes.saturating_add(bytes) > self.limits.waiting_bytes_max;
        let Some(served) = self.exports.get_mut(id.0).and_then(Option::as_mut) else {
            return Err((Refused::Closed, work));
        };
        let refused = match () {
            () if served.closed => Refused::Closed,
            () if served.waiting >= served.export.queue_max => Refused::Export,
            () if all => Refused::All,
            () if too_large => Refused::Bytes,
            () => {
                served.export.counts.queue(served.waiting);
                self.counts.queue(self.waiting);
                served.waiting += 1;
                self.waiting += 1;
                self.waiting_bytes += bytes;
                let priority = work.priority().min(PRIORITIES - 1);
                served.lanes.entry(priority).or_default().push(Waiting { work, since_us: now_us });
                return Ok(self.list(id, now_us));
            }
        };
        Err((refused, work))
    }

    /// Lists an export as ready, if it is. Returns true if it was not before, or under a lower
    /// priority.
    fn list(&mut self, id: ExportId, now_us: u64) -> bool {
        let Some(served) = self.exports[id.0].as_mut() else { return false };
        if !served.is_ready(now_us) {
            served.listed = None;
            return false;
        }
        let Some((priority, _)) = served.next(now_us) else { return false };
        if served.listed.is_some_and(|(listed, _)| listed >= priority) {
            return false;
        }
        self.entries += 1;
        served.listed = Some((priority, self.entries));
        let since_us = served.lanes.get(&priority).and_then(Lane::first).map_or(now_us, |one| one.since_us);
        self.ready[priority as usize].push_back(Ready { export: id.0, entry: self.entries, since_us });
        true
    }

    /// Removes old entries from the front of a list, and returns the first other one.
    fn front(&mut self, priority: usize) -> Option<Ready> {
        loop {
            let ready = *self.ready[priority].front()?;
            let served = self.exports.get(ready.export).and_then(Option::as_ref);
            if served.is_some_and(|it| it.listed.is_some_and(|(_, entry)| entry == ready.entry)) {
                return Some(ready);
            }
            self.ready[priority].pop_front();
        }
    }

    /// Takes the export that is next out of the lists.
    fn next_export(&mut self, now_us: u64) -> Option<ExportId> {
        loop {
            let mut best: Option<(u64, usize)> = None;
            for priority in 0..PRIORITIES as usize {
                let Some(ready) = self.front(priority) else { continue };
                let counted = priority as u64 + now_us.saturating_sub(ready.since_us) / AGE_US;
                if best.is_none_or(|(most, _)| counted >= most) {
                    best = Some((counted, priority));
                }
            }
            let ready = self.ready[best?.1].pop_front()?;
            let served = self.exports[ready.export].as_mut()?;
            served.listed = None;
            // Another of its invocations may be the next one by now, which must run alone.
            if served.is_ready(now_us) {
                return Some(ExportId(ready.export));
            }
        }
    }

    /// Takes the next invocation for a task; nothing if no export is ready.
    pub fn take(&mut self, now_us: u64) -> Option<Taken<W>> {
        let id = self.next_export(now_us)?;
        let served = self.exports[id.0].as_mut()?;
        let (lane, _) = served.next(now_us)?;
        let waiting = served.lanes.get_mut(&lane)?.pop()?;
        if served.lanes.get(&lane).is_some_and(Lane::is_empty) {
            served.lanes.remove(&lane);
        }
        served.waiting -= 1;
        self.waiting -= 1;
        self.waiting_bytes -= waiting.work.bytes();
        let Waiting { work, since_us } = waiting;
        let dropped = match () {
            () if work.deadline_us().is_some_and(|deadline| deadline <= now_us) => Some(Dropped::Expired),
            () if !work.is_wanted() => Some(Dropped::Cancelled),
            () => None,
        };
        if let Some(why) = dropped {
            Queue::<W>::count_dropped([&served.export.counts, &self.counts], why);
            self.list(id, now_us);
            return Some(Taken::Drop(work, why));
        }
        let waited = now_us.saturating_sub(since_us);
        served.export.counts.take(served.active, waited);
        self.counts.take(self.active as u32, waited);
        served.active += 1;
        served.alone = work.is_alone();
        self.active += 1;
        self.list(id, now_us);
        Some(Taken::Run(id, work))
    }

    fn count_dropped(counts: [&Counts; 2], why: Dropped) {
        let end = match why {
            Dropped::Expired => End::Expired,
            Dropped::Cancelled | Dropped::Closed => End::Cancelled,
        };
        for counts in counts {
            counts.drop_waiting();
            counts.end(end);
        }
    }

    /// Ends an invocation that ran so long. Returns true if its export is ready again.
    pub fn done(&mut self, id: ExportId, ran_us: u64, now_us: u64) -> bool {
        let Some(served) = self.exports.get_mut(id.0).and_then(Option::as_mut) else { return false };
        served.active -= 1;
        served.alone = false;
        self.active -= 1;
        served.export.counts.ran(ran_us);
        self.counts.ran(ran_us);
        if self.forget_closed(id) {
            return false;
        }
        self.list(id, now_us)
    }

    /// Takes out the invocations whose time is over, or that nobody wants.
    pub fn sweep(&mut self, now_us: u64) -> Vec<W> {
        let mut all = Vec::new();
        for at in 0..self.exports.len() {
            let Some(served) = self.exports[at].as_mut().filter(|served| served.waiting > 0) else {
                continue;
            };
            let mut out = Vec::new();
            let is_late = |work: &W| work.deadline_us().is_some_and(|deadline| deadline <= now_us);
            for lane in served.lanes.values_mut() {
                lane.extract(&mut out, &|work| is_late(work) || !work.is_wanted());
            }
            served.lanes.retain(|_, lane| !lane.is_empty());
            self.left(ExportId(at), &out);
            self.list(ExportId(at), now_us);
            all.extend(out);
        }
        all
    }

    /// Ends all exports, and returns what waits.
    pub fn close_all(&mut self) -> Vec<W> {
        (0..self.exports.len()).flat_map(|at| self.close(ExportId(at))).collect()
    }

    /// Counts invocations that have left the queue of an export unrun.
    fn left(&mut self, id: ExportId, out: &[W]) {
        let Some(served) = self.exports[id.0].as_mut() else { return };
        served.waiting -= out.len();
        self.waiting -= out.len();
        self.waiting_bytes -= out.iter().map(Work::bytes).sum::<usize>();
        let closed = served.closed;
        for work in out {
            let why = match work.is_wanted() {
                true if closed => Dropped::Closed,
                true => Dropped::Expired,
                false => Dropped::Cancelled,
            };
            Queue::<W>::count_dropped([&served.export.counts, &self.counts], why);
        }
    }

    /// Removes an export that has ended. Returns true if it is gone.
    fn forget_closed(&mut self, id: ExportId) -> bool {
        let gone = self.exports[id.0].as_ref().is_some_and(|served| served.closed && served.active == 0);
        if gone {
            self.exports[id.0] = None;
            self.free.push(id.0);
        }
        gone
    }
}
