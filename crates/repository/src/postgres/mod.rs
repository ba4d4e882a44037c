//! The engine over a database server that speaks the protocol of PostgreSQL, which any number of
//! processes share.
//!
//! Read [`Postgres`] first, then [`commit`]. There is no state but in the database: a process knows
//! the objects that the last commits wrote, the classes, and the orefs that it may give. The rules
//! that keep it right, with their reasons in docs/spec/repository-format.md:
//!
//! - **Every decision is made in a transaction that locks or writes the row of the head.** So
//!   commits, the start and end of collections, and the coming of processes are in one order. Each
//!   sees all before it ([`commit`]).
//! - A statement sees one moment of the database, and every moment is one after some commit: a
//!   commit sees the head that it replaces. So states that are fetched together are of one commit.
//! - Before a session gets a state of a later commit, everything up to there is known here
//!   ([`known`]). A thread asks for new commits at intervals, for sessions that ask for nothing
//!   ([`watch`]).
//! - No snapshot is held: every call is one short transaction.
//! - A process has a row in the database. While a collection runs, every process must tell the
//!   objects that its sessions hold. One that is silent for long loses its row, and can then
//!   neither fetch nor commit ([`collect`]).
//!
//! Only plain tables and statements are used. Each transaction that decides something is
//! SERIALIZABLE, and done again when it fails because of others.

mod address;
mod collect;
mod commit;
mod known;
mod link;
mod tables;
mod watch;

use std::collections::HashMap;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bifrost_workers::{Condvar, Reason};
use bytes::Bytes;
use parking_lot::{Mutex, RwLock};

pub use address::{Address, is_url};

use crate::record::ClassDescriptor;
use crate::store::check::{Garbage, check_all};
use crate::store::{check_commit, class_digest};
use crate::watchers::Watchers;
use crate::{
    AllObjects, BatchId, CHANGES_KEPT_MAX, CLASSES_MAX, Changes, ClassNumber, Collected, Commit, CommitError,
    Error, Fetched, Gauges, Holder, Holders, Identity, Info, ObjectSet, Oref, Progress, Registration, Report,
    Repository, Stored, Tid, Watcher, Watching,
};
use commit::Queue;
use known::{Known, Position, no_row};
use link::{BEGIN, COMMIT, Connection, Pool, Request, Trouble};
use tables::{DROP, FILLING, FORMAT, Sql, bytes, encoded, maybe_number, number, oref};
use watch::Watch;

/// The number of orefs taken from the database at once; up to so many are lost when a process ends.
const OREFS_AT_ONCE: u64 = 1 << 12;

/// Bounds of a process's part of a store in a database.
#[derive(Clone, Debug)]
pub struct Options {
    /// Connections that are used at a time.
    pub connections: usize,
    /// The interval at which the database is asked for commits of other processes. Sessions that
    /// fetch or commit learn of them at once.
    pub poll_interval: Duration,
    /// A process that is silent for so long no longer counts when garbage is collected. It reports
    /// three times as often.
    pub lease: Duration,
    /// The time for which a call tries again while the database cannot be reached or others are in
    /// the way.
    pub patience: Duration,
    /// The longest wait for one answer of the database, and the longest idle time of a transaction.
    pub statement_timeout: Duration,
    /// The number of written orefs that are remembered for validation and changes, here and in the
    /// database.
    pub changes_kept: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            connections: 8,
            poll_interval: Duration::from_millis(100),
            lease: Duration::from_secs(30),
            patience: Duration::from_secs(15),
            statement_timeout: Duration::from_secs(60),
            changes_kept: CHANGES_KEPT_MAX,
        }
    }
}

/// A store in a database.
pub struct Postgres {
    shared: Arc<Shared>,
    watch: Option<Watch>,
}

/// The state that the threads of a process share.
struct Shared {
    pool: Pool,
    options: Options,
    /// The process's name among those that use the store: 128 random bits.
    id: [u8; 16],
    identity: Identity,
    head: AtomicU64,
    known: RwLock<Known>,
    queue: Mutex<Queue>,
    /// The last of those has compared its commit that a leader waits for.
    stirred: Condvar,
    /// Some commits are done, or will not be.
    settled: Condvar,
    /// Orefs that may be given.
    orefs: Mutex<Range<u64>>,
    /// Orefs below this one were given, by some process.
    given: AtomicU64,
    holders: Holders,
    watchers: Watchers,
    /// One collection or check at a time.
    maintenance: Mutex<()>,
    /// States from before this commit are fetched again: they may lead to objects that no holder
    /// has named.
    reads_from: AtomicU64,
    /// Collections that this process has begun.
    collections: AtomicU64,
    /// The process has lost its row.
    lost: AtomicBool,
}

/// True if the database has a store.
///
/// # Errors
/// [`Error::NotAStore`] and [`Error::Format`] if there is something else.
pub fn exists(address: &Address, options: &Options) -> Result<bool, Error> {
    tables::look(&Pool::new(address.clone(), options.clone()))
}

/// Opens the store in a database; makes one if there is none.
pub fn open(address: &Address, options: &Options) -> Result<Postgres, Error> {
    let pool = Pool::new(address.clone(), options.clone());
    if !tables::look(&pool)? {
        tables::create(&pool, None)?;
        tables::look(&pool)?;
    }
    enter(pool, options, new_id()?, true)
}

/// Makes a store in a database that has none, and has it filled. Until that is done there is
/// nothing that [`open`] opens; if it fails, there is nothing. The next process removes the rest of
/// one that was killed meanwhile, when that has been silent for [`Options::lease`].
///
/// # Errors
/// [`Error::Occupied`] if there is a store, [`Error::Unfinished`] if another process is making one;
/// and the errors of `fill`.
pub fn make<T, E: From<Error>>(
    address: &Address,
    options: &Options,
    fill: impl FnOnce(&Postgres) -> Result<T, E>,
) -> Result<T, E> {
    let pool = Pool::new(address.clone(), options.clone());
    match tables::look(&pool) {
        Err(Error::Unfinished) => clear_abandoned(&pool, options)?,
        there => refuse_occupied(there)?,
    }
    let id = new_id()?;
    if !tables::create(&pool, Some(&id))? {
        // Another process was faster.
        refuse_occupied(tables::look(&pool))?;
        return Err(Error::Unfinished.into());
    }
    let store = enter(pool, options, id, false)?;
    let made = fill(&store).and_then(|made| Ok(store.finish().map(|()| made)?));
    if made.is_err() {
        // Tables that cannot be removed are found, and removed, by the next attempt.
        let _ = store.remove();
    }
    made
}

fn refuse_occupied(there: Result<bool, Error>) -> Result<(), Error> {
    if there? { Err(Error::Occupied) } else { Ok(()) }
}

/// Removes a store that is not whole, if no process is filling it.
fn clear_abandoned(pool: &Pool, options: &Options) -> Result<(), Error> {
    let lease = options.lease.as_millis() as i64;
    pool.repeated(|connection| {
        let [lock, format] = [Sql::Lock, Sql::Format].map(|sql| Request::With(sql, vec![]));
        let alive = Request::With(Sql::Alive, vec![&lease]);
        let answers = connection.run(&[BEGIN, lock, format, alive])?;
        // It may have been finished meanwhile.
        let is_whole = number(answers[2].first().ok_or_else(no_row)?, 0)? != FILLING;
        match answers[3].is_empty() {
            _ if is_whole => Err(Error::Occupied.into()),
            false => Err(Error::Unfinished.into()),
            true => connection.run(&[Request::Plain(DROP), COMMIT]).map(|_| ()),
        }
    })
}

fn new_id() -> Result<[u8; 16], Error> {
    let mut id = [0; 16];
    getrandom::fill(&mut id).map_err(|error| Error::Database { reason: error.to_string() })?;
    Ok(id)
}

/// Returns the store for a process that takes its place, or has it already.
fn enter(pool: Pool, options: &Options, id: [u8; 16], takes_place: bool) -> Result<Postgres, Error> {
    let name = &id[..];
    let new = Identity::random()?;
    let new = &new.as_bytes()[..];
    let (position, identity) = pool.repeated(|connection| {
        let mut requests = vec![BEGIN, Request::With(Sql::Touch, vec![])];
        if takes_place {
            requests.push(Request::With(Sql::Join, vec![&name]));
        }
        requests.push(Request::With(Sql::Log, vec![&name, &i64::MAX]));
        // Only the first process that opens the store writes it.
        requests.push(Request::With(Sql::InitIdentity, vec![&new]));
        requests.push(Request::With(Sql::Identity, vec![]));
        requests.push(COMMIT);
        let answers = connection.run(&requests)?;
        let [.., position, _, identity, _] = &answers[..] else { return Err(no_row().into()) };
        Ok((Position::read(position)?, tables::identity(identity)?))
    })?;
    let shared = Arc::new(Shared {
        pool,
        options: options.clone(),
        id,
        identity,
        head: AtomicU64::new(position.head.0),
        known: RwLock::new(Known::new(position.head, options.changes_kept)),
        queue: Mutex::default(),
        stirred: Condvar::parking_for(Reason::Commit),
        settled: Condvar::parking_for(Reason::Commit),
        orefs: Mutex::new(0..0),
        given: AtomicU64::new(1),
        holders: Holders::default(),
        watchers: Watchers::default(),
        maintenance: Mutex::new(()),
        reads_from: AtomicU64::new(0),
        collections: AtomicU64::new(0),
        lost: AtomicBool::new(false),
    });
    let watch = Watch::start(&shared).map_err(|source| Error::Io { what: "starting a thread", source })?;
    let store = Postgres { watch: Some(watch), shared };
    store.shared.ask(|connection| store.shared.learn_classes(connection, position.classes))?;
    store.shared.trim_excess()?;
    Ok(store)
}

impl Postgres {
    /// Ends the filling of a store, in a transaction that sees that it has not been cleared away.
    /// Another process clears it away when this one was silent for too long.
    fn end_filling<'a>(&self, end: &dyn Fn() -> Request<'a>) -> Result<(), Error> {
        let (id, after) = (&self.shared.id[..], i64::MAX);
        self.shared.ask(|connection| {
            let log = Request::With(Sql::Log, vec![&id, &after]);
            let answers = connection.run(&[BEGIN, Request::With(Sql::Lock, vec![]), log])?;
            Position::read(&answers[2])?;
            connection.run(&[end(), COMMIT]).map(|_| ())
        })
    }

    /// Says that a store is whole.
    fn finish(&self) -> Result<(), Error> {
        let format = FORMAT as i64;
        self.end_filling(&|| Request::With(Sql::SetFormat, vec![&format]))
    }

    /// Removes a store that is not whole.
    fn remove(&self) -> Result<(), Error> {
        self.end_filling(&|| Request::Plain(DROP))
    }
}

impl Drop for Postgres {
    /// Gives up the process's place, so that no collection waits for it.
    fn drop(&mut self) {
        drop(self.watch.take());
        let id = &self.shared.id[..];
        // If it cannot be told now, it is found out when a collection has waited for long enough.
        let _ = self.shared.pool.once(|connection| {
            connection.run(&[Request::With(Sql::Leave, vec![&id]), Request::With(Sql::LeaveHeld, vec![&id])])
        });
    }
}

impl Shared {
    fn head(&self) -> Tid {
        Tid(self.head.load(Ordering::Acquire))
    }

    /// Does some work over a connection, and again if others are in the way or the connection is
    /// lost.
    fn ask<T>(&self, work: impl FnMut(&mut Connection) -> Result<T, Trouble>) -> Result<T, Error> {
        if self.lost.load(Ordering::Relaxed) {
            return Err(Error::Lost);
        }
        self.pool.repeated(work).map_err(|error| self.note(error))
    }

    /// Remembers that the process has lost its place.
    fn note(&self, error: Error) -> Error {
        if let Error::Lost = error {
            self.lost.store(true, Ordering::Relaxed);
        }
        error
    }

    /// Learns of the commits in the database after the last known one.
    fn catch_up(&self, connection: &mut Connection) -> Result<Position, Trouble> {
        let (id, after) = (&self.id[..], self.head().0 as i64);
        let rows = connection.ask(Sql::Log, vec![&id, &after])?;
        let mut position = Position::read(&rows)?;
        let log = std::mem::take(&mut position.log);
        self.learn(connection, Position { log, ..position })?;
        Ok(position)
    }

    /// Learns of commits and of the classes that their objects may have.
    fn learn(&self, connection: &mut Connection, position: Position) -> Result<(), Trouble> {
        self.learn_classes(connection, position.classes)?;
        self.publish(position);
        Ok(())
    }

    /// Makes commits visible to this process.
    fn publish(&self, position: Position) {
        let mut known = self.known.write();
        let before = known.head;
        known.learn(position);
        // Pairs with the load in `head`: a thread that sees the number finds the changes, under the
        // lock.
        self.head.store(known.head.0, Ordering::Release);
        if known.head == before {
            return;
        }
        let changes = known.changes.changes(before, known.head, &AllObjects);
        drop(known);
        match changes {
            Changes::Written { orefs, .. } => self.watchers.tell(&orefs),
            Changes::TooOld { .. } => self.watchers.tell_all(),
        }
    }

    fn learn_classes(&self, connection: &mut Connection, count: u64) -> Result<(), Trouble> {
        let known = self.known.read().classes.len() as u64;
        if count <= known {
            return Ok(());
        }
        for row in connection.ask(Sql::Classes, vec![&(known as i64)])? {
            let (place, class) = (number(&row, 0)?, bytes(&row, 1)?);
            let class = ClassDescriptor::decode(class).map_err(|error| Error::Damaged {
                what: format!("class {place} of the database, {error}"),
            })?;
            self.known.write().learn_class(place, class)?;
        }
        Ok(())
    }

    /// Returns the states of some objects, and the position of the store then: the last commit, and
    /// the number of classes.
    fn fetch_over(
        &self,
        connection: &mut Connection,
        wanted: &Vec<i64>,
    ) -> Result<((Tid, u64), States), Trouble> {
        let id = &self.id[..];
        let rows = connection.ask(Sql::Fetch, vec![&id, wanted])?;
        let first = rows.first().ok_or_else(no_row)?;
        let at = (Tid(number(first, 0)?), number(first, 1)?);
        maybe_number(first, 2)?.ok_or(Error::Lost)?;
        let mut states = HashMap::with_capacity(rows.len());
        for row in &rows {
            if maybe_number(row, 3)?.is_some() {
                states.insert(oref(row, 3)?, stored(row, 4)?);
            }
        }
        Ok((at, states))
    }

    /// True if an oref was given by some process.
    fn is_given(&self, oref: u64) -> Result<bool, Error> {
        if oref < self.given.load(Ordering::Relaxed) {
            return Ok(true);
        }
        let rows = self.ask(|connection| connection.ask(Sql::Given, vec![]))?;
        let given = number(rows.first().ok_or_else(no_row)?, 0)?;
        self.given.fetch_max(given, Ordering::Relaxed);
        Ok(oref < given)
    }

    /// Returns the number and the reply of the last batch of a session. A batch that was in doubt
    /// is not when this has been asked.
    fn last_batch(&self, batch: BatchId) -> Result<Option<(u64, Bytes)>, Error> {
        let session = batch.session.to_be_bytes();
        let sessions = vec![&session[..]];
        let answers = self.ask(|connection| {
            let replies = Request::With(Sql::Replies, vec![&sessions]);
            connection.run(&[BEGIN, Request::With(Sql::Touch, vec![]), replies, COMMIT])
        })?;
        let Some(row) = answers[2].first() else { return Ok(None) };
        Ok(Some((number(row, 1)?, Bytes::copy_from_slice(bytes(row, 2)?))))
    }

    /// Returns the number of a class in the database, which is new if it had none.
    fn define_over(
        &self,
        connection: &mut Connection,
        class: &ClassDescriptor,
    ) -> Result<ClassNumber, Trouble> {
        let (id, after) = (&self.id[..], i64::MAX);
        let log = Request::With(Sql::Log, vec![&id, &after]);
        let answers = connection.run(&[BEGIN, Request::With(Sql::Lock, vec![]), log])?;
        let position = Position::read(&answers[2])?;
        self.learn_classes(connection, position.classes)?;
        let known = self.known.read().class_numbers.get(&class_digest(class)).copied();
        if let Some(number) = known {
            connection.run(&[COMMIT])?;
            return Ok(number);
        }
        let next = position.classes + 1;
        if next > CLASSES_MAX as u64 {
            let (what, limit) = ("the number of classes of a store", CLASSES_MAX as u64);
            return Err(Error::Limit { what, value: next, limit }.into());
        }
        let (count, places, bytes) = (next as i64, vec![next as i64], vec![encoded(class)]);
        connection.run(&[
            Request::With(Sql::Class, vec![&places, &bytes]),
            Request::With(Sql::CountClass, vec![&count]),
            COMMIT,
        ])?;
        self.known.write().learn_class(next, class.clone())?;
        Ok(ClassNumber(next as u32))
    }
}

/// The states of the objects that are there.
type States = HashMap<Oref, Stored>;

/// The columns of a state.
fn stored(row: &tokio_postgres::Row, column: usize) -> Result<Stored, Error> {
    Ok(Stored { tid: Tid(number(row, column)?), bytes: Bytes::copy_from_slice(bytes(row, column + 1)?) })
}

impl Repository for Postgres {
    fn identity(&self) -> Identity {
        self.shared.identity
    }

    /// Returns the last commit that this process knows of; other processes may have gone on.
    fn head(&self) -> Tid {
        self.shared.head()
    }

    /// Fetches states. Costs one way there and back, and another one if other processes have
    /// committed since the last.
    fn fetch(&self, orefs: &[Oref]) -> Result<Fetched, Error> {
        let shared = &self.shared;
        let mut wanted: Vec<i64> = orefs.iter().map(|oref| oref.get() as i64).collect();
        wanted.sort_unstable();
        wanted.dedup();
        loop {
            let (as_of, states) = shared.ask(|connection| {
                let ((head, classes), states) = shared.fetch_over(connection, &wanted)?;
                if head > shared.head() {
                    shared.catch_up(connection)?;
                }
                shared.learn_classes(connection, classes)?;
                Ok((head, states))
            })?;
            if as_of.0 >= shared.reads_from.load(Ordering::SeqCst) {
                return Ok(Fetched {
                    states: orefs.iter().map(|oref| states.get(oref).cloned()).collect(),
                    as_of,
                });
            }
        }
    }

    fn changes(&self, after: Tid, among: &dyn ObjectSet) -> Changes {
        let head = self.head();
        if after >= head {
            return Changes::Written { orefs: Vec::new(), upto: head };
        }
        let known = self.shared.known.read();
        known.changes.changes(after, known.head, among)
    }

    fn allocate(&self, count: u32) -> Result<Range<u64>, Error> {
        let mut orefs = self.shared.orefs.lock();
        let count = u64::from(count);
        if orefs.end - orefs.start < count.max(1) {
            let (taken, limit) = (count.max(OREFS_AT_ONCE) as i64, Oref::MAX as i64);
            let rows = self.shared.ask(|connection| connection.ask(Sql::Allocate, vec![&taken, &limit]))?;
            let Some(row) = rows.first() else {
                let what = "the number of orefs given";
                return Err(Error::Limit { what, value: Oref::MAX, limit: Oref::MAX });
            };
            let end = number(row, 0)?;
            let start = end.checked_sub(taken as u64).filter(|start| *start > 0 && *start >= orefs.end);
            *orefs = start.ok_or_else(|| Error::Damaged { what: "orefs are given twice".to_owned() })?..end;
            self.shared.given.fetch_max(end, Ordering::Relaxed);
        }
        let given = orefs.start..orefs.start + count;
        orefs.start = given.end;
        Ok(given)
    }

    fn commit(&self, commit: Commit<'_>) -> Result<Tid, CommitError> {
        check_commit(&commit, self.head())?;
        if commit.writes.is_empty() && commit.creates.is_empty() && commit.batch.is_none() {
            let mut seen = commit.valid_to;
            self.shared.validate(&mut seen, commit.reads)?;
            return Ok(seen);
        }
        let last = commit.creates.iter().map(|(oref, _)| oref.get()).max().unwrap_or(0);
        if !self.shared.is_given(last)? {
            return Err(CommitError::Invalid("an object is created under an oref that was not allocated"));
        }
        if self.shared.lost.load(Ordering::Relaxed) {
            return Err(Error::Lost.into());
        }
        self.shared.commit_in_line(commit)
    }

    fn outcome(&self, batch: BatchId) -> Result<Option<Bytes>, Error> {
        match self.shared.last_batch(batch)? {
            Some((last, reply)) if last == batch.number => Ok(Some(reply)),
            Some((last, _)) if last > batch.number => Err(Error::Forgotten { last }),
            _ => Ok(None),
        }
    }

    fn define_class(&self, class: &ClassDescriptor) -> Result<ClassNumber, Error> {
        if let Some((what, value, limit)) = class.oversize() {
            return Err(Error::Limit { what, value, limit });
        }
        if let Some(number) = self.shared.known.read().class_numbers.get(&class_digest(class)) {
            return Ok(*number);
        }
        self.shared.ask(|connection| self.shared.define_over(connection, class))
    }

    fn classes(&self) -> Vec<Arc<ClassDescriptor>> {
        self.shared.known.read().classes.to_vec()
    }

    fn register(&self, holder: Arc<dyn Holder>) -> Registration {
        self.shared.holders.register(holder)
    }

    fn watch(&self, orefs: Vec<Oref>, watcher: Arc<dyn Watcher>) -> Watching {
        self.shared.watchers.watch(orefs, watcher)
    }

    fn scan(&self, from: Oref, limit: usize) -> Result<Vec<(Oref, Stored)>, Error> {
        let (from, limit) = (from.get() as i64, i64::try_from(limit.max(1)).unwrap_or(i64::MAX));
        self.shared.ask(|connection| {
            let rows = connection.ask(Sql::Scan, vec![&from, &limit])?;
            // The commits of the objects found are known here.
            self.shared.catch_up(connection)?;
            Ok(rows.iter().map(|row| Ok((oref(row, 0)?, stored(row, 1)?))).collect::<Result<_, Error>>()?)
        })
    }

    fn collect(&self, progress: &mut dyn FnMut(Progress) -> ControlFlow<()>) -> Result<Collected, Error> {
        self.shared.collect_garbage(progress)
    }

    fn check(&self, progress: &mut dyn FnMut(Progress)) -> Result<Report, Error> {
        let _alone = self.shared.maintenance.lock();
        let scan = |from, limit| {
            let found = self.scan(from, limit)?;
            Ok(found.into_iter().map(|(oref, stored)| (oref, Ok(stored))).collect())
        };
        check_all(self, &scan, Garbage::HalfFreed, progress)
    }

    /// Counts, which reads everything.
    fn info(&self) -> Result<Info, Error> {
        let rows = self.shared.ask(|connection| connection.ask(Sql::Info, vec![]))?;
        let row = rows.first().ok_or_else(no_row)?;
        Ok(Info {
            head: Tid(number(row, 0)?),
            classes: number(row, 1)?,
            next_oref: number(row, 2)?,
            objects: number(row, 3)?,
            base_bytes: number(row, 4)?,
            sessions: number(row, 5)?,
            buffered_bytes: 0,
            log_bytes: 0,
        })
    }

    fn gauges(&self) -> Gauges {
        let known = self.shared.known.read();
        Gauges {
            head: known.head,
            classes: known.classes.len() as u64,
            collections: self.shared.collections.load(Ordering::Relaxed),
            ..Gauges::default()
        }
    }
}
