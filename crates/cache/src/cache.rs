//! The table of persistent objects in a context, and transactions over them.
//!
//! Read [`Cache`] first. The repository and the classes are in [`Schema`]; records become objects
//! in `decode.rs`, and objects records in `encode.rs`.
//!
//! 1. The first touch of an absent object fetches it, with others that go along (`Shared::ask`).
//! 2. The tables of the objects note reads and writes.
//! 3. [`Cache::commit`] encodes the changed objects, and new ones that they refer to, and sends
//!    them to the repository.
//! 4. The changes of others are applied (`Shared::advance`): objects that they wrote become absent.
//!    If the transaction has read one, it cannot commit.
//! 5. [`Cache::abort`] restores the objects.
//!
//! `Shared` belongs to the session and to the keeper of its context. The table of objects is
//! `residents`; the records that were fetched along are `ahead`. All of it is current up to the
//! commit `valid_to`. No object is on its way
//! while the store asks what the session holds (`fetching.rs`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bifrost_repository::{
    BatchId, Changes, Commit, Error, Holder, Oref, Registration, Stored, Tid, Watcher, Watching,
};
use bifrost_runtime::abi::Word;
use bifrost_runtime::reference::{Blank, Open, Unseen};
use bifrost_runtime::{Cx, Keeper, Kept, Mode, NotFetched, NotKept, Object, Overtaken, UNDONE};
use bytes::Bytes;
use parking_lot::Mutex;
use rustc_hash::FxHashSet;

use crate::ahead::{Ahead, Prefetch};
use crate::decode::{Decoder, Filled};
use crate::encode::Encoder;
use crate::error::{NotCommitted, Unreadable};
use crate::fetching::Fetching;
use crate::migration::Migration;
use crate::residents::Residents;
use crate::schema::Schema;
use crate::sets::{Cached, Reads};

/// The number of times that an object's migration is run while others commit. If they do so each
/// time, the transaction ends as one that has read an object that others have changed.
pub const MIGRATIONS_MAX: u32 = 8;

/// The limits of a session's cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Bytes of objects. Beyond that, objects become absent that the transaction has not read;
    /// between calls also those that it has read and not written.
    pub bytes_max: usize,
    /// The bounds of objects that are fetched before they are asked for.
    pub prefetch: Prefetch,
}

impl Default for Options {
    fn default() -> Options {
        Options { bytes_max: 64 << 20, prefetch: Prefetch::default() }
    }
}

/// The objects that must not be collected while a session names them.
struct Held {
    residents: Arc<Mutex<Residents>>,
    ahead: Arc<Mutex<Ahead>>,
    fetching: Arc<Fetching>,
}

impl Holder for Held {
    fn held(&self, found: &mut dyn FnMut(Oref)) {
        // References of a state that was fetched and is not here yet would not be told.
        let _none = self.fetching.pause();
        // References of these records need not be told if they are fetched again.
        self.ahead.lock().clear();
        self.residents.lock().each_oref(found);
    }
}

/// The state that the keeper of a context and its session share.
pub(crate) struct Shared {
    pub(crate) schema: Arc<Schema>,
    /// Most bytes of objects.
    bytes_max: usize,
    pub(crate) residents: Arc<Mutex<Residents>>,
    pub(crate) ahead: Arc<Mutex<Ahead>>,
    /// Says so from before an object is asked for until it is here.
    fetching: Arc<Fetching>,
    valid_to: Mutex<Tid>,
    /// The objects that are being migrated from the state before their class was changed, and those
    /// that the transaction has migrated.
    migrating: Mutex<Vec<Object>>,
    migrated: Mutex<Vec<Object>>,
    /// The requests to the repository for objects, the objects that were fetched, and the
    /// transactions that were committed.
    fetches: AtomicU64,
    fetched: AtomicU64,
    commits: AtomicU64,
}

/// The persistent objects of one session.
pub struct Cache {
    pub(crate) shared: Arc<Shared>,
    _registration: Registration,
}

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cache").field("valid_to", &*self.shared.valid_to.lock()).finish_non_exhaustive()
    }
}

impl Cache {
    /// Gives a context that was just made the objects of a repository: its root directory becomes
    /// the repository's.
    pub fn open(cx: &mut Cx, schema: Arc<Schema>) -> Cache {
        Cache::open_with(cx, schema, &Options::default())
    }

    /// Does as [`Cache::open`], with a cache of another size.
    pub fn open_with(cx: &mut Cx, schema: Arc<Schema>, options: &Options) -> Cache {
        let residents = Arc::new(Mutex::new(Residents::default()));
        let ahead = Arc::new(Mutex::new(Ahead::new(options.prefetch)));
        let fetching = Arc::new(Fetching::default());
        let held = Held { residents: residents.clone(), ahead: ahead.clone(), fetching: fetching.clone() };
        let registration = schema.repository().register(Arc::new(held));
        let valid_to = Mutex::new(schema.repository().head());
        let shared = Arc::new(Shared {
            schema,
            bytes_max: options.bytes_max,
            residents,
            ahead,
            fetching,
            valid_to,
            migrating: Mutex::default(),
            migrated: Mutex::default(),
            fetches: AtomicU64::new(0),
            fetched: AtomicU64::new(0),
            commits: AtomicU64::new(0),
        });
        let cache = Cache { shared, _registration: registration };
        cache.enter(cx);
        cache.shared.enter_directory(cx);
        cache
    }

    /// The number of requests of this cache to the repository for objects.
    pub fn fetches(&self) -> u64 {
        self.shared.fetches.load(Ordering::Relaxed)
    }

    /// The number of objects that this cache has fetched, those that went along included.
    pub fn fetched(&self) -> u64 {
        self.shared.fetched.load(Ordering::Relaxed)
    }

    /// The number of transactions of this cache that were committed.
    pub fn commits(&self) -> u64 {
        self.shared.commits.load(Ordering::Relaxed)
    }

    /// Returns the schema.
    pub fn schema(&self) -> &Arc<Schema> {
        &self.shared.schema
    }

    /// Ends the transaction: the objects that it wrote, and those that they refer to now, become
    /// durable and visible to others.
    ///
    /// # Errors
    /// [`NotCommitted`]; the transaction is aborted, but for one that is
    /// [doomed](NotCommitted::Doomed).
    pub fn commit(&self, cx: &mut Cx, batch: Option<(BatchId, Bytes)>) -> Result<Tid, NotCommitted> {
        self.shared.commit(cx, batch)
    }

    /// Ends the transaction: all objects are restored to the state when it began.
    pub fn abort(&self, cx: &mut Cx) {
        self.shared.abort(cx);
    }

    /// Learns of the commits of others, if the session is between transactions. Costs one load if
    /// there is nothing new.
    pub fn refresh(&self, cx: &mut Cx) {
        if !self.is_busy(cx) {
            // Nothing was read.
            let _ = self.shared.advance(cx);
        }
    }

    /// True if the transaction has read or changed anything.
    pub fn is_busy(&self, cx: &Cx) -> bool {
        is_busy(cx)
    }

    /// Ends a transaction that has changed nothing, without a check that the objects read are
    /// current.
    pub fn end(&self, cx: &mut Cx) {
        debug_assert!(cx.changed().next().is_none(), "what was changed is committed or aborted");
        self.shared.end_transaction(cx, &mut self.shared.residents.lock(), false);
        let _ = self.shared.advance(cx);
    }

    /// Watches the objects that the transaction has read, until the result is dropped; none if
    /// others have changed one of them already. So no commit is missed between the read and the
    /// watch.
    ///
    /// Cost: linear in the objects read.
    pub fn watch(&self, cx: &mut Cx, watcher: Arc<dyn Watcher>) -> Option<Watching> {
        let read = {
            let residents = self.shared.residents.lock();
            let here = cx.reads().iter().filter(|object| object.number() != 0);
            let here = here.map(|object| residents.oref(object.number()));
            here.chain(residents.gone().iter().copied()).collect()
        };
        let watching = self.shared.schema.repository().watch(read, watcher);
        (!self.is_overtaken(cx)).then_some(watching)
    }

    /// True if others have committed a change to an object that the transaction has read: it can no
    /// longer commit. Costs one load if there is nothing new.
    pub fn is_overtaken(&self, cx: &mut Cx) -> bool {
        self.shared.advance(cx).is_err()
    }

    /// Names objects that calls will touch which have come and were not begun. When one object is
    /// fetched, these go along if they are absent. Objects that were named before and not fetched
    /// are forgotten.
    pub fn expect(&self, objects: impl Iterator<Item = Object>) {
        let residents = self.shared.residents.lock();
        let absent = objects.filter(|object| object.mode() == Mode::Absent && !object.is_undone());
        let orefs = absent.map(|object| residents.oref(object.number()));
        self.shared.ahead.lock().expect(orefs);
    }

    /// Makes objects absent if those that are here have too many bytes, also those that the
    /// transaction has read.
    ///
    /// No code runs meanwhile or is to go on afterwards.
    pub fn trim(&self, cx: &mut Cx) {
        let mut residents = self.shared.residents.lock();
        if residents.bytes() > self.shared.bytes_max {
            self.shared.evict(cx, &mut residents, true);
        }
    }

    /// Returns the bytes of the objects that are here, and their number.
    pub fn used(&self) -> (usize, usize) {
        let residents = self.shared.residents.lock();
        let here = residents.objects().filter(|object| object.mode() != Mode::Absent);
        (residents.bytes(), here.count())
    }
}

/// True if the transaction of a context has read or changed anything.
fn is_busy(cx: &Cx) -> bool {
    cx.read_count() > 0 || cx.changed().next().is_some()
}

/// Describes an object that others have changed.
fn overtaken(object: Object) -> Overtaken {
    Overtaken { class: object.info().name.clone(), object: object.word() }
}

/// Describes the failure of a fetch.
fn failed(text: &str) -> NotFetched {
    NotFetched::Failed(format!("the object cannot be fetched: {text}"))
}

/// Empties an object that is being fetched.
fn make_absent(cx: &mut Cx, object: Object) {
    // SAFETY: it was absent when its fetch began, and no code looks into it before its end.
    cx.make_absent(unsafe { Unseen::new(object) });
}

/// Returns an object that the transaction has changed, or that one of those refers to and that the
/// repository does not have: it is here.
fn opened(object: Object) -> Open {
    object.opened().expect("an object that is written is open")
}

impl Shared {
    fn commit(&self, cx: &mut Cx, batch: Option<(BatchId, Bytes)>) -> Result<Tid, NotCommitted> {
        if let Some(why) = cx.doomed() {
            let why = NotCommitted::Doomed(why.clone());
            why.counter(self.schema.counters()).add(1);
            return Err(why);
        }
        let done = self.try_commit(cx, batch);
        let counters = self.schema.counters();
        done.as_ref().map_or_else(|why| why.counter(counters), |_| &counters.commits).add(1);
        if done.is_ok() {
            self.commits.fetch_add(1, Ordering::Relaxed);
        }
        if done.is_err() {
            self.end_transaction(cx, &mut self.residents.lock(), true);
        }
        // The next one has read nothing, here and below.
        let _ = self.advance(cx);
        done
    }

    fn abort(&self, cx: &mut Cx) {
        self.schema.counters().aborts.add(usize::from(is_busy(cx)));
        self.end_transaction(cx, &mut self.residents.lock(), true);
        let _ = self.advance(cx);
    }

    fn try_commit(&self, cx: &mut Cx, batch: Option<(BatchId, Bytes)>) -> Result<Tid, NotCommitted> {
        let Shared { schema, residents, valid_to, .. } = self;
        let mut residents = residents.lock();
        let written: Vec<Object> = cx.changed().filter(|object| object.number() != 0).collect();
        let mut writes = Vec::with_capacity(written.len());
        let mut creates = Vec::new();
        let mut encoder = Encoder { cx, schema, residents: &mut residents, waiting: Vec::new() };
        let mut made = Vec::new();
        let encoded = (|| {
            for object in &written {
                let mut bytes = Vec::new();
                encoder.record(opened(*object), &mut bytes)?;
                writes.push((encoder.residents.oref(object.number()), Bytes::from(bytes)));
            }
            while let Some(object) = encoder.waiting.pop() {
                made.push(object);
                let mut bytes = Vec::new();
                encoder.record(opened(object), &mut bytes)?;
                let oref = match encoder.residents.lasting(object) {
                    Some(oref) => oref,
                    None => encoder.residents.oref(object.number()),
                };
                creates.push((oref, Bytes::from(bytes)));
            }
            Ok(())
        })();
        made.append(&mut encoder.waiting);
        let (count, limit) = (cx.read_count() + creates.len(), cx.limits().transaction_objects);
        let within_limit =
            if count > limit { Err(NotCommitted::TooManyObjects { count, limit }) } else { Ok(()) };
        let own: FxHashSet<Oref> = writes.iter().chain(&creates).map(|(oref, _)| *oref).collect();
        let sizes: Vec<(Oref, usize)> = writes.iter().chain(&creates).map(|(o, b)| (*o, b.len())).collect();
        let committed = encoded.and(within_limit).and_then(|()| {
            let reads = Reads { residents: &residents, here: cx.reads() };
            let valid_to = *valid_to.lock();
            let commit = Commit { valid_to, reads: &reads, writes, creates, batch };
            let start = cx.now_ns();
            let done = schema.repository().commit(commit);
            schema.counters().committing.add(cx.now_ns().saturating_sub(start));
            let overtaken = |oref: &Oref| residents.find(*oref).map(overtaken);
            done.map_err(|error| NotCommitted::of(error, overtaken))
        });
        match committed {
            Ok(tid) => {
                self.end_transaction(cx, &mut residents, false);
                self.charge(cx, &mut residents, &sizes);
                // Objects that were made never had to be fetched, so a fetch may not come to make
                // room.
                if residents.bytes() > self.bytes_max {
                    self.evict(cx, &mut residents, false);
                }
                let _ = self.advance_with(cx, &mut residents, Some((tid, &own)));
                Ok(tid)
            }
            Err(error) => {
                made.into_iter().for_each(|object| residents.leave(object));
                Err(error)
            }
        }
    }

    /// Ends the transaction of a context.
    fn end_transaction(&self, cx: &mut Cx, residents: &mut Residents, undo: bool) {
        // Below that nothing is evicted before the hand has much to choose from.
        if residents.bytes() > self.bytes_max / 2 {
            for object in cx.reads() {
                residents.touch(object.number());
            }
        }
        let migrated = std::mem::take(&mut *self.migrated.lock());
        cx.end_transaction(undo);
        residents.end_transaction();
        // The states made of old ones are not stored: they are made again when they are wanted.
        for object in migrated.into_iter().filter(|_| undo) {
            // SAFETY: these were changed in the transaction, so they are persistent objects of the
            // context, and nothing was collected since; no code is to go on with them.
            residents.make_absent(cx, unsafe { Unseen::new(object) });
        }
    }

    /// Notes the bytes of objects that were written, by the length of their records.
    fn charge(&self, cx: &mut Cx, residents: &mut Residents, sizes: &[(Oref, usize)]) {
        for (oref, bytes) in sizes {
            let Some(object) = residents.find(*oref) else { continue };
            residents.charge(object.number(), object.fields() * size_of::<Word>() + *bytes);
        }
        cx.set_kept_bytes(residents.bytes());
    }

    fn evict(&self, cx: &mut Cx, residents: &mut Residents, open: bool) {
        let mut evicted = residents.evict(cx, self.bytes_max, false);
        if open {
            evicted += residents.evict(cx, self.bytes_max, true);
        }
        self.schema.counters().evicted.add(evicted);
        cx.set_kept_bytes(residents.bytes());
    }

    fn advance(&self, cx: &mut Cx) -> Result<(), Vec<Overtaken>> {
        self.advance_with(cx, &mut self.residents.lock(), None)
    }

    /// Applies the changes that others have committed: objects that they wrote become absent,
    /// unless the transaction has read some of them. `own` is a commit of this session among them:
    /// its objects are here already, unless others have written them since.
    fn advance_with(
        &self,
        cx: &mut Cx,
        residents: &mut Residents,
        own: Option<(Tid, &FxHashSet<Oref>)>,
    ) -> Result<(), Vec<Overtaken>> {
        let (mut valid_to, mut ahead) = (self.valid_to.lock(), self.ahead.lock());
        let (repository, none) = (self.schema.repository(), FxHashSet::default());
        let of_own = own.map_or(&none, |(_, orefs)| orefs);
        let others = Cached { residents, ahead: &ahead, own: of_own };
        let mut changes = repository.changes(*valid_to, &others);
        if let Some((tid, orefs)) = own {
            // Asked after the changes of others, so that none is missing up to their `upto`. One
            // behind it is found early.
            match (&mut changes, repository.changes(tid, orefs)) {
                (Changes::Written { orefs, .. }, Changes::Written { orefs: later, .. }) => {
                    orefs.extend(later)
                }
                (Changes::Written { upto, .. }, Changes::TooOld { .. }) => {
                    changes = Changes::TooOld { upto: *upto };
                }
                (Changes::TooOld { .. }, _) => {}
            }
        }
        let mut good = Ok(());
        let stale = |cx: &mut Cx, residents: &mut Residents, object: Object| {
            match object.mode() {
                // Code around a transaction may be in the middle of it, and it was not changed.
                Mode::Unread if cx.spares(object) => {}
                // SAFETY: no code looks into objects that are not open.
                Mode::Unread => residents.make_absent(cx, unsafe { Unseen::new(object) }),
                Mode::Absent => {}
                Mode::Clean | Mode::Ordinary => return Err(vec![overtaken(object)]),
            }
            Ok(())
        };
        let gone = || Err(vec![]);
        let upto = match changes {
            Changes::Written { orefs, upto } => {
                for oref in &orefs {
                    ahead.forget(*oref);
                    if residents.gone().contains(oref) {
                        good = good.and_then(|()| gone());
                    }
                    if let Some(object) = residents.find(*oref) {
                        let found = stale(cx, residents, object);
                        good = good.and(found);
                    }
                }
                upto
            }
            Changes::TooOld { upto } => {
                ahead.clear();
                if !residents.gone().is_empty() {
                    good = gone();
                }
                for object in residents.objects().collect::<Vec<_>>() {
                    let found = stale(cx, residents, object);
                    good = good.and(found);
                }
                upto
            }
        };
        if good.is_ok() {
            *valid_to = upto;
        }
        good
    }

    fn fetch(&self, cx: &mut Cx, object: Object) -> Result<(), NotFetched> {
        let fetched = self.fetch_whole(cx, object);
        if let Err(NotFetched::Stale(_)) = fetched {
            self.schema.counters().stale.add(1);
        }
        fetched
    }

    fn fetch_whole(&self, cx: &mut Cx, object: Object) -> Result<(), NotFetched> {
        // A migration may take so long that others commit meanwhile.
        for _ in 0..MIGRATIONS_MAX {
            if self.try_fetch(cx, object)? {
                return Ok(());
            }
        }
        Err(NotFetched::Stale(vec![]))
    }

    /// Fetches an object; returns false if the fetched state may be old by now.
    fn try_fetch(&self, cx: &mut Cx, object: Object) -> Result<bool, NotFetched> {
        let _fetching = self.fetching.begin();
        // It has a number, if it was not made in an aborted transaction.
        let number = object.number();
        if number == 0 {
            return Err(NotFetched::Failed(UNDONE.to_owned()));
        }
        let stored = self.stored(cx, number, object)?;
        let before = cx.taken_bytes();
        let (migrated, filled) = match self.fill(cx, object, &stored.bytes) {
            Ok(Filled::Whole) => (false, Ok(())),
            Ok(Filled::Before(migration, words)) => match self.migrate(cx, object, &migration, &words)? {
                true => (true, Ok(())),
                false => return Ok(false),
            },
            Err(why) => (false, Err(why)),
        };
        if let Err(why) = filled {
            make_absent(cx, object);
            return Err(match why {
                Unreadable::Full(full) => NotFetched::Full(full),
                why => {
                    let text = self.schema.tell_as("its stored state cannot be read", &why.to_string());
                    failed(&text)
                }
            });
        }
        // SAFETY: the object is one of the repository, and its fields are here.
        unsafe { cx.set_mode(object, Mode::Unread) };
        let bytes = usize::try_from(cx.taken_bytes() - before).unwrap_or(usize::MAX);
        let mut residents = self.residents.lock();
        residents.charge(number, (object.fields() * size_of::<Word>()).saturating_add(bytes));
        cx.set_kept_bytes(residents.bytes());
        drop(residents);
        // The state made of the old one is written with the transaction, with all objects that it
        // refers to.
        if migrated {
            let opened = cx.open_to_change(object);
            if !opened.returned() {
                return Err(NotFetched::Ended(opened));
            }
        }
        Ok(true)
    }

    /// Returns the record of an absent object, which has come along with another or is asked for.
    fn stored(&self, cx: &mut Cx, number: u32, object: Object) -> Result<Stored, NotFetched> {
        let oref = {
            let mut residents = self.residents.lock();
            if residents.bytes() > self.bytes_max {
                self.evict(cx, &mut residents, false);
            }
            residents.oref(number)
        };
        let came_along = self.ahead.lock().take(oref);
        if came_along.is_some() {
            self.schema.counters().used.add(1);
        }
        came_along.map_or_else(|| self.ask(cx, number, object), Ok)
    }

    /// Fills an absent object from its record.
    fn fill(&self, cx: &mut Cx, object: Object, bytes: &[u8]) -> Result<Filled, Unreadable> {
        let mut decoder =
            Decoder { schema: &self.schema, residents: &self.residents, classes: self.schema.snapshot() };
        // SAFETY: the object is absent, and the caller of `Cx::open` keeps it.
        let blank = unsafe { Blank::new(object) };
        match decoder.fill(cx, blank, bytes) {
            Err(Unreadable::Record(_)) => {
                // It is of a class that is newer than those known here.
                decoder.classes = self.schema.refresh();
                make_absent(cx, object);
                decoder.fill(cx, blank, bytes)
            }
            filled => filled,
        }
    }

    /// Makes an object of its state before its class was changed. Returns false if others have
    /// committed meanwhile. It stays absent until it is whole.
    fn migrate(
        &self,
        cx: &mut Cx,
        object: Object,
        migration: &Migration,
        words: &[(Word, Option<Kept>)],
    ) -> Result<bool, NotFetched> {
        if self.migrating.lock().contains(&object) {
            return Err(failed("its migration uses the object that it makes"));
        }
        let valid_to = *self.valid_to.lock();
        self.migrating.lock().push(object);
        // SAFETY: the object is absent, and the caller of `Cx::open` keeps it.
        let done = migration.run(cx, unsafe { Blank::new(object) }, words);
        self.migrating.lock().retain(|other| *other != object);
        let done = done.map_err(|why| match why {
            NotFetched::Failed(text) => failed(&text),
            why => why,
        });
        if done.is_err() || valid_to != *self.valid_to.lock() {
            make_absent(cx, object);
            return done.map(|()| false);
        }
        self.migrated.lock().push(object);
        Ok(true)
    }

    /// Asks the repository for an absent object and those that go along with it.
    fn ask(&self, cx: &mut Cx, number: u32, object: Object) -> Result<Stored, NotFetched> {
        let plan = {
            let residents = self.residents.lock();
            self.ahead.lock().plan(&residents, number, object)
        };
        let counters = self.schema.counters();
        loop {
            counters.calls.add(1);
            self.fetches.fetch_add(1, Ordering::Relaxed);
            let start = cx.now_ns();
            let mut fetched = self.schema.repository().fetch(&plan.orefs);
            // A lost neighbour does not matter until it is asked for.
            if let Err(Error::Object { oref, .. }) = &fetched
                && *oref != plan.orefs[0]
            {
                self.fetches.fetch_add(1, Ordering::Relaxed);
                fetched = self.schema.repository().fetch(&plan.orefs[..1]);
            }
            counters.fetching.add(cx.now_ns().saturating_sub(start));
            let fetched = fetched.map_err(|error| failed(&self.schema.tell(&error)))?;
            // States of a later moment are used only when all changes until then are known here.
            if fetched.as_of > *self.valid_to.lock() {
                self.advance(cx).map_err(NotFetched::Stale)?;
                if fetched.as_of != *self.valid_to.lock() {
                    continue;
                }
            }
            let mut states = fetched.states.into_iter();
            let Some(Some(stored)) = states.next() else {
                return Err(failed("it is not in the repository"));
            };
            counters.asked.add(1);
            let along = self.ahead.lock().put(&plan, states);
            counters.ahead.add(along);
            self.fetched.fetch_add(1 + along as u64, Ordering::Relaxed);
            return Ok(stored);
        }
    }
}

/// The keeper of a context.
pub(crate) struct KeptBy(pub(crate) Arc<Shared>);

impl Keeper for KeptBy {
    fn fetch(&self, cx: &mut Cx, object: Object) -> Result<(), NotFetched> {
        self.0.fetch(cx, object)
    }

    fn begin(&self, cx: &mut Cx) {
        self.0.end_transaction(cx, &mut self.0.residents.lock(), false);
        let _ = self.0.advance(cx);
    }

    fn commit(&self, cx: &mut Cx) -> Result<(), NotKept> {
        let done = self.0.commit(cx, None);
        if let Err(NotCommitted::Doomed(_)) = &done {
            self.0.abort(cx);
        }
        done.map(|_| ()).map_err(|why| why.for_program(&self.0.schema))
    }

    fn abort(&self, cx: &mut Cx) {
        self.0.abort(cx);
    }

    fn collected(&self, lives: &dyn Fn(Object) -> bool) {
        self.0.residents.lock().collected(lives);
    }
}
