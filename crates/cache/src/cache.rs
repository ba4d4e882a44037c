//! The table of persistent objects in a context, and transactions over them.

use std::cell::RefCell;
use std::sync::Arc;

use bifrost_heap::{NUMBER_MAX, number, set_number};
use bifrost_repository::{
    BatchId, Changes, Commit, CommitError, Error, Holder, Oref, ReadSet, Registration, Repository, Tid,
};
use bifrost_runtime::abi::Word;
use bifrost_runtime::{Cx, Keeper, Mode, NotFetched, Table};
use bytes::Bytes;
use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::decode::{Decoder, Unreadable};
use crate::encode::Encoder;
use crate::schema::{Schema, Volatile};

/// Orefs that are asked for at once.
const OREFS_AT_ONCE: u32 = 256;

/// Why a transaction was not committed. It is aborted: everything is as it was when it began.
#[derive(Debug, thiserror::Error)]
pub enum NotCommitted {
    /// Others have changed what it has read.
    #[error("others have changed what the transaction has read")]
    Conflict,
    /// It would store an object that cannot be.
    #[error(transparent)]
    Volatile(#[from] Volatile),
    /// The context has as many persistent objects as it can number.
    #[error("the session's cache has {NUMBER_MAX} objects, and more it cannot have")]
    TooMany,
    /// The repository failed. Only then it is not sure that nothing is stored ([`Error::InDoubt`]).
    #[error(transparent)]
    Store(Error),
}

/// Whoever must not be collected while a session names it.
struct Held(Arc<Mutex<Residents>>);

impl Holder for Held {
    fn held(&self, found: &mut dyn FnMut(Oref)) {
        let residents = self.0.lock();
        residents.by_oref.keys().copied().for_each(&mut *found);
        residents.lasting.values().copied().for_each(found);
    }
}

/// The persistent objects that have a place in a context.
#[derive(Default)]
pub(crate) struct Residents {
    /// By number; the first is not used.
    entries: Vec<Option<(Oref, Word)>>,
    free: Vec<u32>,
    by_oref: FxHashMap<Oref, u32>,
    /// Orefs of objects that all contexts share.
    lasting: FxHashMap<Word, Oref>,
    /// Orefs that no object has yet.
    orefs: std::ops::Range<u64>,
}

impl Residents {
    /// The object that stands for an oref.
    pub fn find(&self, oref: Oref) -> Option<Word> {
        self.by_oref.get(&oref).and_then(|number| Some(self.entries.get(*number as usize)?.as_ref()?.1))
    }

    /// The oref of a number that an object has.
    pub fn oref(&self, number: u32) -> Oref {
        match self.entries.get(number as usize) {
            Some(Some((oref, _))) => *oref,
            _ => unreachable!("numbers are those of entries"),
        }
    }

    pub fn lasting(&self, object: Word) -> Option<Oref> {
        self.lasting.get(&object).copied()
    }

    pub fn set_lasting(&mut self, object: Word, oref: Oref) {
        self.lasting.insert(object, oref);
    }

    /// An oref for a new object.
    pub fn fresh(&mut self, repository: &dyn Repository) -> Result<Oref, Error> {
        if self.orefs.is_empty() {
            self.orefs = repository.allocate(OREFS_AT_ONCE)?;
        }
        let oref = self.orefs.next().and_then(Oref::new);
        Ok(oref.expect("a repository gives as many orefs as it is asked for, from 1 on"))
    }

    /// Gives an object an oref.
    ///
    /// # Safety
    /// `object` is an object of the context without a number, or a lasting one.
    pub unsafe fn enter(&mut self, oref: Oref, object: Word) -> Result<(), NotCommitted> {
        // SAFETY: promised by the caller.
        if unsafe { bifrost_runtime::object::is_lasting(object) } {
            self.lasting.insert(object, oref);
            return Ok(());
        }
        if self.entries.is_empty() {
            self.entries.push(None);
        }
        let number = self.free.pop().unwrap_or(self.entries.len() as u32);
        if number > NUMBER_MAX {
            return Err(NotCommitted::TooMany);
        }
        if number as usize == self.entries.len() {
            self.entries.push(None);
        }
        self.entries[number as usize] = Some((oref, object));
        self.by_oref.insert(oref, number);
        // SAFETY: promised by the caller.
        unsafe { set_number(object, number) };
        Ok(())
    }

    /// Takes an object's oref away.
    ///
    /// # Safety
    /// `object` is an object of the context, or a lasting one.
    unsafe fn leave(&mut self, object: Word) {
        // SAFETY: promised by the caller.
        unsafe {
            if bifrost_runtime::object::is_lasting(object) {
                self.lasting.remove(&object);
                return;
            }
            self.remove(number(object));
            set_number(object, 0);
        }
    }

    fn remove(&mut self, number: u32) {
        if let Some((oref, _)) = self.entries.get_mut(number as usize).and_then(Option::take) {
            self.by_oref.remove(&oref);
            self.free.push(number);
        }
    }
}

/// What the keeper of a context and its session share.
struct Shared {
    schema: Arc<Schema>,
    residents: Arc<Mutex<Residents>>,
    valid_to: Mutex<Tid>,
}

/// The persistent objects of one session.
pub struct Cache {
    shared: Arc<Shared>,
    _registration: Registration,
}

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cache").field("valid_to", &*self.shared.valid_to.lock()).finish_non_exhaustive()
    }
}

/// What a transaction has read, as the modes of its objects say.
struct Reads<'r>(&'r RefCell<&'r mut Residents>);

impl ReadSet for Reads<'_> {
    fn contains(&self, oref: Oref) -> bool {
        let residents = self.0.borrow();
        // SAFETY: entries are objects of the context that commits; this is its thread.
        residents.find(oref).is_some_and(|object| unsafe { Table::of(object) }.mode().is_open())
            || residents.lasting.values().any(|lasting| *lasting == oref)
    }
}

impl Cache {
    /// Gives a context that was just made the objects of a repository: its root directory becomes the repository's.
    pub fn open(cx: &mut Cx, schema: Arc<Schema>) -> Cache {
        let residents = Arc::new(Mutex::new(Residents::default()));
        let registration = schema.repository().register(Arc::new(Held(residents.clone())));
        let valid_to = Mutex::new(schema.repository().head());
        let shared = Arc::new(Shared { schema, residents, valid_to });
        cx.set_keeper(Arc::new(KeptBy(shared.clone())));
        let directory = cx.root_object();
        // SAFETY: the directory is an object of the context that was just made, and empty.
        unsafe {
            cx.set_mode(directory, Mode::Absent);
            shared.residents.lock().enter(Oref::ROOT, directory).expect("the first object has a number");
        }
        Cache { shared, _registration: registration }
    }

    /// The schema.
    pub fn schema(&self) -> &Arc<Schema> {
        &self.shared.schema
    }

    /// Ends the transaction: what it wrote, and what that refers to now, becomes durable and visible to others.
    ///
    /// # Errors
    /// [`NotCommitted`]; the transaction is aborted.
    pub fn commit(&self, cx: &mut Cx, batch: Option<(BatchId, Bytes)>) -> Result<Tid, NotCommitted> {
        let done = self.try_commit(cx, batch);
        if done.is_err() {
            cx.end_transaction(true);
        }
        self.shared.advance(cx);
        done
    }

    /// Ends the transaction: everything becomes what it was when it began.
    pub fn abort(&self, cx: &mut Cx) {
        cx.end_transaction(true);
        self.shared.advance(cx);
    }

    /// Learns of what others have committed, if the session is between transactions. Costs one load if there is
    /// nothing new.
    pub fn refresh(&self, cx: &mut Cx) {
        if cx.reads().is_empty() && cx.changed().next().is_none() {
            self.shared.advance(cx);
        }
    }

    fn try_commit(&self, cx: &mut Cx, batch: Option<(BatchId, Bytes)>) -> Result<Tid, NotCommitted> {
        let Shared { schema, residents, valid_to } = &*self.shared;
        let mut residents = residents.lock();
        // SAFETY: changed objects are roots of the context, and no code runs.
        let written: Vec<Word> = unsafe { cx.changed().filter(|object| number(*object) != 0).collect() };
        let mut writes = Vec::with_capacity(written.len());
        let mut creates = Vec::new();
        let mut encoder = Encoder { cx, schema, residents: &mut residents, waiting: Vec::new() };
        let mut made = Vec::new();
        // SAFETY: as above; objects that they refer to live as they do.
        let encoded = unsafe {
            (|| {
                for object in &written {
                    let mut bytes = Vec::new();
                    encoder.record(*object, &mut bytes)?;
                    writes.push((encoder.residents.oref(number(*object)), Bytes::from(bytes)));
                }
                while let Some(object) = encoder.waiting.pop() {
                    made.push(object);
                    let mut bytes = Vec::new();
                    encoder.record(object, &mut bytes)?;
                    let oref = match encoder.residents.lasting(object) {
                        Some(oref) => oref,
                        None => encoder.residents.oref(number(object)),
                    };
                    creates.push((oref, Bytes::from(bytes)));
                }
                Ok(())
            })()
        };
        made.append(&mut encoder.waiting);
        let own: FxHashSet<Oref> = writes.iter().chain(&creates).map(|(oref, _)| *oref).collect();
        let committed = encoded.and_then(|()| {
            let reads = RefCell::new(&mut *residents);
            let reads = Reads(&reads);
            let valid_to = *valid_to.lock();
            let commit = Commit { valid_to, reads: &reads, writes, creates, batch };
            schema.repository().commit(commit).map_err(|error| match error {
                CommitError::Conflict { .. } | CommitError::TooOld { .. } => NotCommitted::Conflict,
                CommitError::Store(error) => NotCommitted::Store(error),
                other => unreachable!("commits of a cache are well formed: {other}"),
            })
        });
        match committed {
            Ok(tid) => {
                cx.end_transaction(false);
                self.shared.advance_with(cx, &mut residents, Some((tid, &own)));
                Ok(tid)
            }
            Err(error) => {
                for object in made {
                    // SAFETY: these were given orefs above.
                    unsafe { residents.leave(object) };
                }
                Err(error)
            }
        }
    }
}

impl Shared {
    fn advance(&self, cx: &mut Cx) -> bool {
        self.advance_with(cx, &mut self.residents.lock(), None)
    }

    /// Applies the changes that others have committed: what they wrote becomes absent. False if the transaction
    /// has read some of it. `own` is a commit of this session among them: what it wrote is here already, unless others have
    /// written it since.
    fn advance_with(
        &self,
        cx: &mut Cx,
        residents: &mut Residents,
        own: Option<(Tid, &FxHashSet<Oref>)>,
    ) -> bool {
        let mut valid_to = self.valid_to.lock();
        let changes = self.schema.repository().changes(*valid_to);
        // Asked after the changes, so that none of those is missing that came behind the commit.
        let later = own.map(|(tid, _)| self.schema.repository().changes(tid));
        let is_here = |oref: &Oref| match (own, &later) {
            (Some((_, own)), Some(Changes::Written { orefs, .. })) => {
                own.contains(oref) && orefs.binary_search(oref).is_err()
            }
            _ => false,
        };
        let mut good = true;
        let mut stale = |cx: &mut Cx, object: Word| {
            // SAFETY: entries are objects of the context, and no code looks into those that are not open.
            unsafe {
                match Table::of(object).mode() {
                    Mode::Unread => cx.make_absent(object),
                    Mode::Absent => {}
                    Mode::Clean | Mode::Ordinary => good = false,
                }
            }
        };
        match changes {
            Changes::Written { orefs, upto } => {
                for oref in orefs.iter().filter(|oref| !is_here(oref)) {
                    if let Some(object) = residents.find(*oref) {
                        stale(cx, object);
                    }
                }
                if good {
                    *valid_to = upto;
                }
            }
            Changes::TooOld { upto } => {
                for (_, object) in residents.entries.iter().flatten() {
                    stale(cx, *object);
                }
                if good {
                    *valid_to = upto;
                }
            }
        }
        good
    }

    fn fetch(&self, cx: &mut Cx, object: Word) -> Result<(), NotFetched> {
        let failed = |text: String| NotFetched::Failed(format!("the object cannot be fetched: {text}"));
        // SAFETY: the object is one of the context, and absent, so it has a number.
        let oref = self.residents.lock().oref(unsafe { number(object) });
        loop {
            let fetched = self.schema.repository().fetch(&[oref]).map_err(|e| failed(e.to_string()))?;
            // States of a later moment are used only after what has happened until then is known here.
            if fetched.as_of > *self.valid_to.lock() {
                if !self.advance(cx) {
                    return Err(NotFetched::Stale);
                }
                if fetched.as_of != *self.valid_to.lock() {
                    continue;
                }
            }
            let Some(Some(stored)) = fetched.states.into_iter().next() else {
                return Err(failed("it is not in the repository".to_owned()));
            };
            let mut decoder =
                Decoder { schema: &self.schema, residents: &self.residents, classes: self.schema.snapshot() };
            // SAFETY: the object is absent, and the caller of `Cx::open` keeps it.
            return unsafe {
                let mut filled = decoder.fill(cx, object, &stored.bytes);
                if let Err(Unreadable::Record(_)) = filled {
                    // Of a class that is newer than what is known here.
                    decoder.classes = self.schema.refresh();
                    cx.make_absent(object);
                    filled = decoder.fill(cx, object, &stored.bytes);
                }
                match filled {
                    Ok(()) => {
                        cx.set_mode(object, Mode::Unread);
                        Ok(())
                    }
                    Err(why) => {
                        cx.make_absent(object);
                        Err(match why {
                            Unreadable::Full(full) => NotFetched::Full(full),
                            why => failed(why.to_string()),
                        })
                    }
                }
            };
        }
    }
}

/// The keeper of a context.
struct KeptBy(Arc<Shared>);

impl Keeper for KeptBy {
    fn fetch(&self, cx: &mut Cx, object: Word) -> Result<(), NotFetched> {
        self.0.fetch(cx, object)
    }

    fn collected(&self, lives: &dyn Fn(Word) -> bool) {
        let mut residents = self.0.residents.lock();
        let dead: Vec<u32> = (0..)
            .zip(&residents.entries)
            .filter_map(|(number, entry)| entry.filter(|(_, object)| !lives(*object)).map(|_| number))
            .collect();
        dead.into_iter().for_each(|number| residents.remove(number));
    }
}
