//! The profile of a batch: the time that it takes, and the cost of each of its commands.
//!
//! A session has a [`Profiler`] from `profile` with `on` until `profile` without it. Read
//! [`Session::mark`] and [`Session::measured`] first: they stand around each command outside
//! structures and around each structure. The reply gets the profile from [`Profiler::write`].
//!
//! The clock of a batch runs while the session is handled and while it has a
//! [pause](Session::pause); it stands while the server waits for bytes of the client.
//!
//! ```text
//! no profiler --profile on--> measuring --flush: the reply has the profile--> measuring
//! measuring --profile off--> no profiler
//! measuring --the transaction is run again--> measuring, its entries are dropped
//! ```
//!
//! Cost: without a profiler a call pays nothing, and another command one comparison. With one, each
//! measured command reads the clock twice.

use bifrost_cache::Cache;
use bifrost_runtime::Cx;
use bifrost_wire::encode::Flushed;
use bifrost_wire::profile::{Cost, ENTRY_BYTES, Entry, PROFILE_BYTES, Rest, Subject, Totals};
use bifrost_wire::{Command, Limit};

use crate::session::Session;
use crate::work::Run;

/// The counts of a session at some moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    nanoseconds: u64,
    calls: u64,
    fuel: i64,
    fetches: u64,
    objects: u64,
}

impl Counts {
    /// Returns the counts now. `calls` are those of the batch.
    pub fn now(cx: &Cx, cache: &Cache, calls: u64) -> Counts {
        let (fetches, objects) = (cache.fetches(), cache.fetched());
        Counts { nanoseconds: cx.now_ns(), calls, fuel: cx.fuel, fetches, objects }
    }
}

/// The begin of a command or structure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    /// The position of the next future.
    call: u32,
    counts: Counts,
}

/// The measurement of the batch under way.
#[derive(Debug, Default)]
pub(crate) struct Profiler {
    /// The moment since which the clock of the batch runs; absent while it stands.
    since: Option<u64>,
    /// The time of the batch up to that moment.
    nanoseconds: u64,
    /// The requests for objects, and the objects that came, before the batch.
    fetches: u64,
    objects: u64,
    /// The number of times that the batch was begun, if it is a transaction.
    runs: u32,
    entries: Vec<Entry>,
    /// The number of commands beyond the limit, and their cost.
    omitted: u32,
    rest: Cost,
    /// The begin of the `wait` under way.
    waits: Option<Mark>,
}

/// Returns a count in 32 bits: the greatest number for more.
fn capped(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

impl Profiler {
    /// Begins the next batch.
    fn begin(&mut self, now: &Counts) {
        let mut entries = std::mem::take(&mut self.entries);
        entries.clear();
        let since = Some(now.nanoseconds);
        *self =
            Profiler { since, fetches: now.fetches, objects: now.objects, entries, ..Profiler::default() };
    }

    /// Drops the entries of a run, because the batch is run again.
    fn begin_run(&mut self) {
        self.entries.clear();
        (self.omitted, self.rest) = (0, Cost::default());
        self.runs = self.runs.saturating_add(1);
    }

    fn add(&mut self, entry: Entry, entries_max: usize) {
        match self.entries.len() < entries_max {
            true => self.entries.push(entry),
            false => {
                self.omitted = self.omitted.saturating_add(1);
                self.rest.add(&entry.cost);
            }
        }
    }

    /// Appends the profile to a reply that may have so many further bytes; nothing if the shortest
    /// one has more.
    pub fn write(&self, reply: &mut Flushed<'_>, now: &Counts, room: usize) {
        let running = self.since.map_or(0, |since| now.nanoseconds.saturating_sub(since));
        let totals = Totals {
            nanoseconds: self.nanoseconds.saturating_add(running),
            fetches: capped(now.fetches.saturating_sub(self.fetches)),
            objects: capped(now.objects.saturating_sub(self.objects)),
            runs: self.runs.max(1),
        };
        let entries_of =
            |bytes: usize| room.checked_sub(PROFILE_BYTES + bytes).map(|bytes| bytes / ENTRY_BYTES);
        let is_whole = self.omitted == 0 && entries_of(0).is_some_and(|most| most >= self.entries.len());
        if is_whole {
            return reply.profile(&totals, self.entries.iter().copied(), None);
        }
        let Some(listed) = entries_of(ENTRY_BYTES) else { return };
        let (listed, others) = self.entries.split_at(listed.min(self.entries.len()));
        let mut cost = self.rest;
        others.iter().for_each(|entry| cost.add(&entry.cost));
        let omitted = self.omitted.saturating_add(others.len() as u32);
        reply.profile(&totals, listed.iter().copied(), Some(&Rest { omitted, cost }));
    }
}

/// True if a command outside structures has an entry.
fn is_measured(command: &Command<'_>) -> bool {
    matches!(
        command,
        Command::Call { .. }
            | Command::Send { .. }
            | Command::CallRoutine { .. }
            | Command::CallProcedure { .. }
            | Command::Run(_)
            | Command::Lookup { .. }
            | Command::As { .. }
            | Command::Is { .. }
            | Command::Get { .. }
            | Command::Emit { .. }
            | Command::Commit
            | Command::Abort
            | Command::Wait { .. }
    )
}

impl Session {
    /// Executes `profile`.
    pub(crate) fn profile(&mut self, cx: &Cx, on: bool) {
        match on {
            true if self.profiler.is_some() => {}
            true => {
                let mut profiler = Box::<Profiler>::default();
                profiler.begin(&self.counts(cx));
                self.profiler = Some(profiler);
            }
            false => self.profiler = None,
        }
        self.is_direct = self.greeted && !on;
    }

    /// Executes a command outside structures in a session with profiles.
    #[cold]
    pub(crate) fn command_measured(&mut self, run: &mut Run<'_>, command: Command<'_>) {
        let mark = if is_measured(&command) && !self.batch.dead { self.mark(run) } else { None };
        self.execute(run, command);
        if self.is_waiting()
            && let Some(profiler) = &mut self.profiler
        {
            profiler.waits = mark;
            return;
        }
        self.measured(run, mark, Subject::Command);
    }

    /// Notes the begin of a command or structure, if the session has profiles.
    pub(crate) fn mark(&self, cx: &Cx) -> Option<Mark> {
        self.profiler.as_ref().map(|_| Mark { call: self.next(), counts: self.counts(cx) })
    }

    /// Notes the end of a command or structure.
    pub(crate) fn measured(&mut self, cx: &Cx, mark: Option<Mark>, subject: Subject) {
        let Some(Mark { call, counts: before }) = mark else { return };
        let now = self.counts(cx);
        let entries_max = self.limits.size(Limit::ProfileEntries);
        let Some(profiler) = &mut self.profiler else { return };
        let cost = Cost {
            nanoseconds: now.nanoseconds.saturating_sub(before.nanoseconds),
            calls: capped(now.calls.saturating_sub(before.calls)),
            fuel: capped(before.fuel.saturating_sub(now.fuel).max(0) as u64),
            fetches: capped(now.fetches.saturating_sub(before.fetches)),
            objects: capped(now.objects.saturating_sub(before.objects)),
        };
        profiler.add(Entry { subject, call, cost }, entries_max);
    }

    /// Notes the end of the `wait` under way.
    pub(crate) fn measured_wait(&mut self, cx: &Cx) {
        let mark = self.profiler.as_mut().and_then(|profiler| profiler.waits.take());
        self.measured(cx, mark, Subject::Command);
    }

    /// Starts the clock of the batch, when bytes of it have come.
    pub(crate) fn start_clock(&mut self, cx: &Cx) {
        if let Some(profiler) = &mut self.profiler
            && profiler.since.is_none()
        {
            profiler.since = Some(cx.now_ns());
        }
    }

    /// Stops the clock of the batch, when its client is waited for.
    pub(crate) fn stop_clock(&mut self, cx: &Cx) {
        if self.profiler.is_none() || self.pause().is_some() {
            return;
        }
        let is_begun = self.batch.commands > 0;
        if let Some(profiler) = &mut self.profiler
            && let Some(since) = profiler.since.take()
            && is_begun
        {
            profiler.nanoseconds += cx.now_ns().saturating_sub(since);
        }
    }

    /// Begins the profile of the next batch.
    pub(crate) fn begin_profile(&mut self, cx: &Cx) {
        if let Some(profiler) = &mut self.profiler {
            profiler.begin(&Counts::now(cx, self.transactions.cache(), self.batch.calls));
        }
    }

    /// Begins a further run of the batch, which is a transaction.
    pub(crate) fn begin_profiled_run(&mut self) {
        if let Some(profiler) = &mut self.profiler {
            profiler.begin_run();
        }
    }

    fn counts(&self, cx: &Cx) -> Counts {
        Counts::now(cx, self.transactions.cache(), self.batch.calls)
    }
}
