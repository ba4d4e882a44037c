//! Modes of objects: the work that a call to one must do first (ARCHITECTURE.md, Mode tables).
//!
//! A call, or a look at a field, does this first:
//!
//! - ordinary: nothing. The mode of objects of a session alone, and of persistent ones that its
//!   transaction has written.
//! - clean: for a change, it keeps an undo copy. The mode of persistent objects that the
//!   transaction has read, and of others that it has not written since it began.
//! - unread: it notes the read. The mode of persistent objects in the cache.
//! - absent: it fetches the object, or fails. The mode of persistent objects that something refers
//!   to, but that are not here, and of objects that an aborted transaction made.
//!
//! Read [`Mode`] first, then [`Cx::open`] and [`Cx::end_transaction`]. The [`Keeper`] owns the
//! persistent state; the context owns the objects and the lists of reads and undo copies
//! ([`Transaction`]).
//!
//! The tables of a class lie side by side so that two bits of a table's address are the mode
//! ([`Modes`]). Machine code learns by one test if it may look into an object, and by one if it may
//! change it. A mask and a comparison tell the class. Within a run an object only goes towards the
//! ordinary mode; it goes back where no code runs.
//!
//! [`Scope`] says when a context is in a transaction. In a session one is always under way. In a
//! program that is run by itself, it is in one in its `transaction` statements, which begin and end
//! while the code around them runs. Such code does not rely on facts that it has found of
//! objects before (rule 16 of the IR's verifier), but for those that never change.
//!
//! Objects never move, and are made with room for all their fields when the first reference to them
//! is read. So fetching fills them where they are, and nothing has to be told.

use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::sync::Arc;

use bifrost_heap::{HeapFull, Marker};
use bifrost_ir::ABORTED;

use crate::abi::{Ret, Word};
use crate::cx::{Cx, Kill};
use crate::image::{TABLE_WORDS, Table};
use crate::reference::{Blank, Object, Open, Unseen};
use crate::{native, object};

/// The work that a call to an object must do first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u64)]
pub enum Mode {
    /// Nothing.
    Ordinary = 0,
    /// Keep an undo copy before a change.
    Clean = 1,
    /// Note the read.
    Unread = 2,
    /// Fetch it.
    Absent = 3,
}

impl Mode {
    /// All, in the order of their tables.
    pub const ALL: [Mode; 4] = [Mode::Ordinary, Mode::Clean, Mode::Unread, Mode::Absent];

    /// True if code may look into the object.
    #[inline]
    pub fn is_open(self) -> bool {
        self <= Mode::Clean
    }
}

/// The places of the tables of a class: each `stride` bytes behind the one before, the first at a
/// multiple of all four.
#[derive(Clone, Copy, Debug)]
pub struct Modes {
    stride: usize,
}

impl Modes {
    /// For tables with so many entries.
    pub(crate) fn new(slots: u32) -> Modes {
        Modes { stride: ((TABLE_WORDS + slots as usize) * size_of::<Word>()).next_power_of_two() }
    }

    /// The bit of a table's address that says that the object may not be changed without more ado,
    /// though it may be looked into.
    pub fn clean_bit(&self) -> usize {
        self.stride
    }

    /// The bit that says that the object may not even be looked into.
    pub fn closed_bit(&self) -> usize {
        2 * self.stride
    }

    /// The distance of a table from that of the ordinary mode.
    pub(crate) fn offset(&self, mode: Mode) -> usize {
        mode as usize * self.stride
    }

    /// The address of the table of the same class in another mode, from the address of one. Looks
    /// into no table.
    #[inline]
    fn address(&self, table: Word, mode: Mode) -> Word {
        let bits = (Mode::ALL.len() - 1) * self.stride;
        table & !(bits as Word) | self.offset(mode) as Word
    }

    /// Room for the tables of a class, which is never freed.
    pub(crate) fn room(&self) -> *mut Word {
        let bytes = Mode::ALL.len() * self.stride;
        let layout = Layout::from_size_align(bytes, bytes).expect("tables are small powers of two");
        // SAFETY: the size is not 0.
        let memory = unsafe { alloc_zeroed(layout) };
        if memory.is_null() {
            handle_alloc_error(layout);
        }
        memory.cast()
    }

    /// The table of the same class in another mode. `table` is of a class that has modes.
    pub fn table(&self, table: &'static Table, mode: Mode) -> &'static Table {
        let from = std::ptr::from_ref(table).cast::<u8>();
        // SAFETY: the tables of a class lie side by side (`make_table`), and have been made all at
        // once.
        unsafe { &*from.sub(self.offset(table.mode())).add(self.offset(mode)).cast::<Table>() }
    }
}

/// The reasons for which an object could not be brought.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotFetched {
    /// The objects that the transaction has read have changed: it cannot commit, and the next reads
    /// would not fit.
    #[error("{}", changed_by_others(.0))]
    Stale(Vec<Overtaken>),
    /// There is no room for it.
    #[error(transparent)]
    Full(#[from] HeapFull),
    /// A run that was necessary for it was ended, with this outcome.
    #[error("the decoding of the object was interrupted")]
    Ended(Ret),
    /// The repository does not have it, or cannot be reached.
    #[error("{0}")]
    Failed(String),
}

/// An object that a transaction has read and others have changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overtaken {
    /// Its class.
    pub class: String,
    /// Its address: a number that tells it from others, until the next collection.
    pub object: Word,
}

/// The text about a transaction that others were faster than. It names the class of the first
/// object that the transaction has read and they have changed, if one is known.
pub fn changed_by_others(overtaken: &[Overtaken]) -> String {
    let class = overtaken.first().map_or(String::new(), |one| format!(" (`{}`)", one.class));
    format!("another session has changed an object that the transaction has read{class}")
}

/// The reasons for which an object has no undo copy.
enum NotCopied {
    Full(HeapFull),
    /// Its value cannot be copied.
    Native(String),
}

impl From<HeapFull> for NotCopied {
    fn from(full: HeapFull) -> NotCopied {
        NotCopied::Full(full)
    }
}

/// The keeper of the objects of a context that are in other modes than the ordinary one.
pub trait Keeper: Send + Sync {
    /// Fills the fields of an absent object, and puts it into the mode unread. It may make objects
    /// in the context. It runs no code of the program, but to convert an object from the form that
    /// it had before its class was changed.
    ///
    /// # Errors
    /// [`NotFetched`]; the object is as before.
    fn fetch(&self, cx: &mut Cx, object: Object) -> Result<(), NotFetched>;

    /// Begins a transaction of the program: forgets the reads noted outside, and learns the commits
    /// of others.
    fn begin(&self, cx: &mut Cx);

    /// Makes durable the changes of the program's transaction, and ends it.
    ///
    /// # Errors
    /// [`NotKept`]; the transaction is aborted.
    fn commit(&self, cx: &mut Cx) -> Result<(), NotKept>;

    /// Undoes the changes of the program's transaction, and ends it.
    fn abort(&self, cx: &mut Cx);

    /// A collection is about to free all objects of which `lives` says that they do not: forgets
    /// those that it has no roots for.
    fn collected(&self, lives: &dyn Fn(Object) -> bool);
}

/// The reasons for which a transaction of the program was not committed, for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotKept {
    /// It could not be: others were faster, or something cannot be stored. The program gets
    /// `aborted`.
    #[error("{0}")]
    Refused(String),
    /// The repository failed, or the transaction was doomed. The program gets `failure`.
    #[error("{0}")]
    Failed(String),
}

/// The reason for which a transaction can only be aborted: code was ended from outside, in the
/// middle of a method perhaps. No handler of an exception takes it away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Doom {
    /// The run was ended.
    Killed(Kill),
    /// A `failure` with this text that no code signals: stack or heap were exhausted.
    Exhausted(String),
}

impl std::fmt::Display for Doom {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Doom::Killed(why) => why.fmt(f),
            Doom::Exhausted(text) => f.write_str(text),
        }
    }
}

/// The times at which a context is in a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Scope {
    /// Always: the owner of the context ends one and so begins the next.
    #[default]
    Always,
    /// In the program's `transaction` statements, and this is none.
    Outside,
    /// The same, and this is one.
    Inside,
}

/// The changes of a transaction to objects in the modes unread and clean.
#[derive(Default)]
pub(crate) struct Transaction {
    pub scope: Scope,
    pub keeper: Option<Arc<dyn Keeper>>,
    /// The objects that were unread and are not any more.
    pub reads: Vec<Object>,
    /// The number of further objects that it has read and that are absent again.
    pub forgotten: usize,
    /// The objects that were clean and have been changed, with copies of their states of before.
    /// There is no copy outside transactions, where nothing is undone.
    pub undo: Vec<(Object, Option<Object>)>,
    /// The number of objects that the keeper was asked for, ever.
    pub fetched: u64,
    /// The objects that had changed when the context was killed for [`Kill::Conflict`] last, as far
    /// as known.
    pub stale: Vec<Overtaken>,
    /// Set while the transaction can only be aborted.
    pub doomed: Option<Doom>,
    /// The value of the last `aborted` that a transaction ended with, and its text.
    pub aborted: Option<(Word, String)>,
}

impl Transaction {
    /// Hands the objects that it has read and changed to the collector, and their copies.
    pub fn trace(&self, marker: &mut Marker) {
        let copies = self.undo.iter().flat_map(|(object, copy)| [Some(*object), *copy]);
        let objects = self.reads.iter().copied().chain(copies.flatten());
        objects.for_each(|object| marker.root(Some(object.reference())));
    }
}

impl std::fmt::Debug for Transaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (reads, changed) = (self.reads.len(), self.undo.len());
        f.debug_struct("Transaction")
            .field("scope", &self.scope)
            .field("reads", &reads)
            .field("changed", &changed)
            .finish_non_exhaustive()
    }
}

impl Cx {
    /// Makes sure that an object may be looked into, as [`Cx::open`].
    #[inline]
    pub fn opened(&mut self, object: Object) -> Ret {
        match object.mode().is_open() {
            true => Ret::NOTHING,
            false => self.open(object),
        }
    }

    /// Makes sure that an object may be looked into, as [`Cx::open`].
    ///
    /// # Errors
    /// The outcome to end with.
    #[inline]
    pub fn open_object(&mut self, object: Object) -> Result<Open, Ret> {
        if let Some(open) = object.opened() {
            return Ok(open);
        }
        let ended = self.open(object);
        match object.opened() {
            Some(open) if ended.returned() => Ok(open),
            _ => Err(ended),
        }
    }

    /// Makes sure that an object may be looked into: fetches it if it is absent, notes the read.
    /// Returned, or the outcome to end with.
    #[cold]
    pub fn open(&mut self, object: Object) -> Ret {
        // A read of a fetched object is only noted: nothing here allocates.
        let noted = object.mode() == Mode::Unread && self.transaction.scope != Scope::Outside;
        if noted && self.read_count() < self.limits.transaction_objects {
            self.note_read(object);
            return Ret::NOTHING;
        }
        // Machine code may have no more use for a receiver that it has opened.
        let _kept = self.keep(object.word());
        while let closed @ (Mode::Unread | Mode::Absent) = object.mode() {
            // An object that never changes may be looked into at any time.
            if self.transaction.scope == Scope::Outside && !self.never_changes(object) {
                return self.no_transaction();
            }
            if closed == Mode::Unread {
                if self.read_count() >= self.limits().transaction_objects {
                    return self.kill(Kill::Objects);
                }
                self.note_read(object);
                continue;
            }
            let Some(keeper) = self.transaction.keeper.clone() else {
                return self.failure("internal error: an object is absent, and it is in no cache");
            };
            self.transaction.fetched += 1;
            match keeper.fetch(self, object) {
                Ok(()) => {}
                Err(NotFetched::Stale(overtaken)) => {
                    self.transaction.stale = overtaken;
                    return self.kill(Kill::Conflict);
                }
                Err(NotFetched::Ended(ended)) => return ended,
                Err(NotFetched::Full(full)) => return self.out_of_memory(full),
                Err(NotFetched::Failed(text)) => return self.failure(&text),
            }
        }
        Ret::NOTHING
    }

    /// Notes the read of an object in the mode unread.
    #[inline]
    fn note_read(&mut self, object: Object) {
        self.transaction.reads.push(object);
        // SAFETY: the class of an unread object has modes, and its fields are here.
        unsafe { self.set_mode(object, Mode::Clean) };
    }

    /// Makes sure that an object may be changed: as [`Cx::open`], and keeps an undo copy if there
    /// is none.
    #[cold]
    pub fn open_to_change(&mut self, object: Object) -> Ret {
        let _kept = self.keep(object.word());
        let opened = self.open(object);
        if !opened.returned() {
            return opened;
        }
        if object.mode() == Mode::Clean {
            let copied = match self.transaction.scope {
                Scope::Outside => Ok(None),
                Scope::Always | Scope::Inside => self.undo_copy(object).map(Some),
            };
            match copied {
                Ok(copy) => self.transaction.undo.push((object, copy)),
                Err(NotCopied::Full(full)) => return self.out_of_memory(full),
                Err(NotCopied::Native(text)) => return self.failure(&text),
            }
            // SAFETY: the class of a clean object has modes, and there is a copy to undo changes.
            unsafe { self.set_mode(object, Mode::Ordinary) };
        }
        Ret::NOTHING
    }

    /// True if an object's type is immutable.
    pub fn never_changes(&self, object: Object) -> bool {
        self.image.program().types.def(object.info().ty).immutable
    }

    /// True if an object must stay as it is although the transaction has not read it: code around a
    /// transaction of the program may be in the middle of it, as a loop over a sequence is.
    pub fn spares(&self, object: Object) -> bool {
        self.transaction.scope != Scope::Always && self.never_changes(object)
    }

    /// Fails: the answer to code that uses persistent objects outside transactions.
    #[cold]
    pub(crate) fn no_transaction(&mut self) -> Ret {
        self.failure("no transaction")
    }

    /// True if a transaction is under way.
    pub fn in_transaction(&self) -> bool {
        self.transaction.scope != Scope::Outside
    }

    /// True for a client's batch, which can be ended, and not for a program with transactions of
    /// its own.
    pub(crate) fn is_in_batch(&self) -> bool {
        self.transaction.scope == Scope::Always && self.transaction.keeper.is_some()
    }

    /// True if a `transaction` statement of the program is under way.
    pub fn in_program_transaction(&self) -> bool {
        self.transaction.scope == Scope::Inside
    }

    fn set_scope(&mut self, scope: Scope) {
        self.transaction.scope = scope;
        self.limit_nesting();
    }

    /// Makes transactions begin and end, from now on, where the program says `transaction`, and
    /// nowhere else. Between transactions, in a context with a keeper.
    pub fn set_transactions_by_program(&mut self) {
        self.set_scope(Scope::Outside);
    }

    /// Notes that code is ended from outside: the transaction under way, if there is one, can only
    /// be aborted. The first reason stays.
    #[cold]
    pub fn doom(&mut self, why: Doom) {
        let Transaction { keeper, doomed, .. } = &self.transaction;
        if self.in_transaction() && keeper.is_some() && doomed.is_none() {
            self.transaction.doomed = Some(why);
        }
    }

    /// The reason for which the transaction can only be aborted, if there is one.
    #[inline]
    pub fn doomed(&self) -> Option<&Doom> {
        self.transaction.doomed.as_ref()
    }

    /// Begins a transaction of the program. Returned, or the outcome to end with: one is under way.
    pub fn begin_transaction(&mut self) -> Ret {
        match (self.transaction.scope, self.transaction.keeper.clone()) {
            (Scope::Outside, Some(keeper)) => {
                keeper.begin(self);
                self.set_scope(Scope::Inside);
                self.leaves_transaction = 0;
                Ret::NOTHING
            }
            _ => self.failure("a transaction is under way already"),
        }
    }

    /// Commits the transaction of the program that is under way. Returned, or the outcome to end
    /// with: `aborted` or `failure`, and then it is aborted.
    ///
    /// The exception and the results in the context stay as they are, unless it signals.
    pub fn commit_transaction(&mut self) -> Ret {
        let Some(keeper) = self.transaction.keeper.clone() else { return Ret::NOTHING };
        let kept = keeper.commit(self);
        self.set_scope(Scope::Outside);
        match kept {
            Ok(()) => self.leave_held(),
            Err(_) => self.drop_held(),
        }
        match kept {
            Ok(()) => Ret::NOTHING,
            Err(NotKept::Refused(why)) => self.aborted(&why),
            Err(NotKept::Failed(why)) => self.failure(&why),
        }
    }

    /// Aborts the transaction of the program that is under way, which `ended` so: with an
    /// exception, which goes on, or from outside. If it was ended because others have changed the
    /// objects that it has read, that becomes `aborted`.
    pub fn abort_transaction(&mut self, ended: Ret) -> Ret {
        let Some(keeper) = self.transaction.keeper.clone() else { return ended };
        keeper.abort(self);
        self.set_scope(Scope::Outside);
        self.drop_held();
        if ended == Ret::KILLED && self.forgive(Kill::Conflict) {
            let overtaken = std::mem::take(&mut self.transaction.stale);
            return self.aborted(&changed_by_others(&overtaken));
        }
        ended
    }

    /// The objects that others had changed when the context was killed for [`Kill::Conflict`] last,
    /// as far as known.
    pub fn overtaken(&self) -> &[Overtaken] {
        &self.transaction.stale
    }

    /// The reason for which a transaction was aborted, if the exception under way says one.
    pub(crate) fn why_aborted(&self) -> Option<&str> {
        let (value, why) = self.transaction.aborted.as_ref()?;
        let name = self.image.program().types.signal_name(self.signalled());
        // A program may have signals of that name with other values.
        (name == ABORTED && *value == self.signal_values[0]).then_some(why)
    }

    /// Signals `aborted(why)`.
    fn aborted(&mut self, why: &str) -> Ret {
        let failed = self.failure(why);
        self.transaction.aborted = Some((self.signal_values[0], why.to_owned()));
        if let Some(aborted) = self.image.program().types.find_signal(ABORTED) {
            self.signal_id = u64::from(aborted.as_u32());
        }
        failed
    }

    /// Puts an object into a mode.
    ///
    /// # Safety
    /// The object's class has modes, and the object fits the mode.
    pub unsafe fn set_mode(&mut self, object: Object, mode: Mode) {
        if let Some(modes) = self.image.modes() {
            let place = object.word() as *mut Word;
            // SAFETY: the first word of an object is the address of its table, and the class has a
            // table for each mode.
            unsafe { *place = modes.address(*place, mode) };
        }
    }

    /// A copy of an object and of its parts, but not of the objects that it refers to.
    fn undo_copy(&mut self, object: Object) -> Result<Object, NotCopied> {
        let table = object.table();
        if let Some(persistence) = table.info().persistence {
            let copy = self.alloc_finalizable(table.ordinary(), object.fields())?.as_ptr() as Word;
            let _kept = self.keep(copy);
            // SAFETY: the object was just made, and is kept.
            let copy = unsafe { Object::new(copy) };
            let parts = self.native_parts(object).map_err(NotCopied::Native)?;
            // SAFETY: as above; its value is still to be put behind it.
            let blank = unsafe { Blank::new(copy) };
            self.set_native(blank, persistence.version, parts).map_err(NotCopied::Native)?;
            return Ok(copy);
        }
        let copy = self.copy(object)?;
        let _kept = self.keep(copy.word());
        for field in object::inner(self.image().program().types.kind(table.info().ty)) {
            // SAFETY: inner objects of built-in ones are 0 or references.
            let inner = unsafe { Object::of(object::get(object.word(), *field)) };
            if let Some(inner) = inner {
                let inner = self.copy(inner)?;
                // SAFETY: the copy has the fields of the object.
                unsafe { object::set(copy.word(), *field, inner.word()) };
            }
        }
        Ok(copy)
    }

    /// An object with the same table and fields.
    fn copy(&mut self, object: Object) -> Result<Object, HeapFull> {
        let made = self.alloc(object.table().ordinary(), object.fields())?.as_ptr() as Word;
        // SAFETY: the object was just made.
        let copy = unsafe { Object::new(made) };
        copy.copy_fields(object);
        Ok(copy)
    }

    /// Empties an object, whose fields can be fetched again, and puts it into the mode absent.
    pub fn make_absent(&mut self, object: Unseen) {
        if object.object().table().shape().finalizer().is_some() {
            // SAFETY: only objects of native classes have finalizers, and no code uses the value.
            unsafe { native::finalize(object.object().word() as *mut Word) };
        }
        object.clear();
        // SAFETY: the class has modes, and the fields are empty.
        unsafe { self.set_mode(object.object(), Mode::Absent) };
    }

    /// Enters the keeper of the objects.
    pub fn set_keeper(&mut self, keeper: Arc<dyn Keeper>) {
        self.transaction.keeper = Some(keeper);
    }

    /// The objects that the transaction has read, each once; those that it has changed are among
    /// them, if they were not its own.
    pub fn reads(&self) -> &[Object] {
        &self.transaction.reads
    }

    /// The number of objects that the transaction has read, those included that were forgotten.
    pub fn read_count(&self) -> usize {
        self.transaction.reads.len() + self.transaction.forgotten
    }

    /// Forgets those reads of the transaction whose objects are absent again: their keeper knows
    /// them.
    pub fn forget_reads(&mut self, absent: &dyn Fn(Object) -> bool) {
        let before = self.transaction.reads.len();
        self.transaction.reads.retain(|object| !absent(*object));
        self.transaction.forgotten += before - self.transaction.reads.len();
    }

    /// The number of times that an object was not here, ever.
    pub fn fetched(&self) -> u64 {
        self.transaction.fetched
    }

    /// The objects that the transaction has changed, of those that were there when it began.
    pub fn changed(&self) -> impl Iterator<Item = Object> + '_ {
        self.transaction.undo.iter().map(|(object, _)| *object)
    }

    /// Ends the transaction: persistent objects become unread, all others clean. With `undo`
    ///
    /// - all objects get their states from the beginning of the transaction;
    /// - objects that it made can be used no more ([`Object::is_undone`]), if the scope is
    ///   [`Scope::Always`]; in a transaction of the program they stay as they are.
    ///
    /// No code runs meanwhile or is to go on afterwards, but for that around a transaction of the
    /// program.
    ///
    /// Cost: the objects read and written, and the new objects that something still refers to.
    pub fn end_transaction(&mut self, undo: bool) {
        self.transaction.doomed = None;
        if self.image.modes().is_none() {
            return;
        }
        let Transaction { reads, undo: copies, .. } = &mut self.transaction;
        let (reads, copies) = (std::mem::take(reads), std::mem::take(copies));
        self.transaction.forgotten = 0;
        if undo {
            for (object, copy) in &copies {
                // The property of a native has one owner: fields are exchanged.
                copy.iter().for_each(|copy| object.exchange_fields(*copy));
            }
        }
        for object in &reads {
            // SAFETY: only objects whose class has modes are noted, and their fields are here.
            unsafe { self.set_mode(*object, Mode::Unread) };
        }
        // Code around a transaction of the program goes on with the objects that it has made.
        let undone = undo && self.transaction.scope == Scope::Always;
        // Objects from before refer to new objects only if they were changed.
        let mut open: Vec<Word> = self.roots.words();
        if self.transaction.scope != Scope::Always {
            self.words_of_code(&mut open);
        }
        for (object, _) in &copies {
            let mode = if object.number() != 0 { Mode::Unread } else { Mode::Clean };
            // SAFETY: as above.
            unsafe { self.set_mode(*object, mode) };
            open.extend(object.references());
        }
        while let Some(word) = open.pop() {
            // SAFETY: roots are 0 or references, and so are fields that a shape names; nothing is
            // collected here.
            if let Some(object) = unsafe { Object::of(word) } {
                self.clean(object, undone, &mut open);
            }
        }
    }

    /// Makes an object clean, or unread if it is persistent, and adds the objects that it refers
    /// to. With `undone`, objects that the transaction has made can be used no more
    /// ([`Object::is_undone`]), but for those that never change.
    fn clean(&mut self, object: Object, undone: bool, open: &mut Vec<Word>) {
        if object.is_lasting() {
            return;
        }
        let table = object.table();
        let info = table.info();
        // Inner objects are part of one other object, so that the walk ends.
        let inner = info.methods.is_empty();
        let native = table.shape().finalizer().is_some() && info.persistence.is_none();
        if table.mode() != Mode::Ordinary || native || !(inner || self.image.has_modes(info.ty)) {
            return;
        }
        if !inner {
            let mode = match object.number() {
                0 if undone && !self.never_changes(object) => Mode::Absent,
                0 => Mode::Clean,
                _ => Mode::Unread,
            };
            // SAFETY: the class has modes, and the object's fields are here.
            unsafe { self.set_mode(object, mode) };
        }
        open.extend(object.references());
    }
}

/// The reason that an object of an aborted transaction cannot be used.
pub const UNDONE: &str = "the object was made in a transaction that was aborted";
