//! The layout of actors, messages, joins and reply destinations in the heap of their node. This
//! file has their fields and tables; their handling is in the other files of this folder.
//!
//! All of them are objects of the node's heap. So the collector finds dead actors, and the objects
//! that wait for them, as it finds everything else. An actor is its instance variables and one more
//! field, its [`mail`], which is 0 while no message is queued. So a dormant actor costs its header,
//! its variables, and that word.
//!
//! Objects that can owe an answer begin with the same fields ([`owed`]). The caller that gets the
//! outcome `Pending` with such an object writes the destination of the answer there. Objects to
//! which an answer can go begin with a [`Kind`].
//!
//! The items to read first are [`Kind`], the modules [`message`] and [`join`], then [`State`],
//! [`ActorClass`] and [`JoinLayout`]. The last two are made when a program is linked, and belong to
//! its image.

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use bifrost_ir::{
    Actor, Body, ClassId, Func, FuncId, FuncKind, MethodId, Operand, Part, Program, Signature, Stmt, TypeId,
    TypeKind, Types, Var, ways,
};

use bifrost_ir::plain::is_plain;

use crate::abi::{Code, Word};
use crate::image::{Image, Table, inner_table};
use crate::object::{self, lasting_object};
use crate::transfer::Pattern;
use bifrost_heap::{OBJECT_WORDS, Shape};

/// The kind of an object that belongs to actors; its field 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum Kind {
    /// A queued message ([`message`]).
    Message = 1,
    /// A method that waits, or that has begun and may wait ([`join`]).
    Join = 2,
    /// A destination of an answer as a value ([`replier`]).
    Replier = 3,
    /// The caller of the program: takes the answer of `main`.
    Caller = 4,
    /// A message that went to another node ([`outgoing`]).
    Outgoing = 5,
    /// A waiter on another node ([`away`]).
    Away = 6,
    /// The destination of an answer on another node, as a value. Its `DUE` and `ELEMENT` are the
    /// [`far`] address.
    FarReplier = 7,
    /// The client of a session: takes the answers to its requests.
    Client = 8,
}

impl Kind {
    /// True if an object is of this kind.
    ///
    /// # Safety
    /// As for [`Kind::of`].
    #[inline]
    pub unsafe fn is(self, object: Word) -> bool {
        // SAFETY: promised by the caller.
        (unsafe { object::get(object, owed::KIND) }) & owed::KIND_MASK == self as Word
    }

    /// Returns the kind of an object.
    ///
    /// # Safety
    /// `object` is a reference to an object of one of these kinds.
    #[inline]
    pub unsafe fn of(object: Word) -> Kind {
        // SAFETY: promised by the caller.
        match unsafe { object::get(object, owed::KIND) } & owed::KIND_MASK {
            1 => Kind::Message,
            2 => Kind::Join,
            3 => Kind::Replier,
            4 => Kind::Caller,
            5 => Kind::Outgoing,
            6 => Kind::Away,
            8 => Kind::Client,
            _ => Kind::FarReplier,
        }
    }
}

/// The first fields of an object that can owe an answer.
pub mod owed {
    /// A [`Kind`](super::Kind), in its lowest byte.
    pub const KIND: usize = 0;
    /// The bits of that byte.
    pub const KIND_MASK: u64 = 0xff;
    /// The waiter for the answer: a join or a caller, or 0.
    pub const TO: usize = 1;
    /// The purpose of the answer where it is awaited; see [`super::Due`].
    pub const DUE: usize = 2;
    /// The index of the element that it is for.
    pub const ELEMENT: usize = 3;
    /// The number of these fields.
    pub const FIELDS: usize = 4;
}

/// The fields of a queued message, which begins with [`owed`]; the arguments follow. The upper half
/// of its kind is the slot of its method.
pub mod message {
    use super::{Kind, owed};
    use crate::abi::Word;
    use crate::object;

    /// The next message of the same list. For a message under way in an arm: the one around it.
    pub const NEXT: usize = owed::FIELDS;
    /// Its number by the receiver's count, where that has several lists.
    pub const NUMBER: usize = owed::FIELDS + 1;
    /// The actor. It and the arguments behind it are the words that the method takes.
    pub const RECEIVER: usize = owed::FIELDS + 2;
    /// The first argument.
    pub const ARGS: usize = RECEIVER + 1;

    /// In its kind: the answer was given.
    const ANSWERED: Word = 1 << 8;
    /// The bit at which the slot begins in it.
    pub const SLOT_SHIFT: u32 = 32;
    /// The bit at which the words of the objects that it carries begin in it.
    pub const CARRIED_SHIFT: u32 = 9;
    /// The most words that it can tell.
    pub const CARRIED_MAX: Word = (1 << (SLOT_SHIFT - CARRIED_SHIFT)) - 1;

    /// Returns the kind of messages for a slot's method that carry no objects.
    pub fn kind(slot: u32) -> Word {
        Kind::Message as Word | Word::from(slot) << SLOT_SHIFT
    }

    /// Returns the same for a message that carries objects of so many words, at most
    /// [`CARRIED_MAX`].
    pub fn kind_with(slot: u32, carried: Word) -> Word {
        kind(slot) | carried << CARRIED_SHIFT
    }

    /// Returns the words of the objects that a message carries.
    ///
    /// # Safety
    /// As for [`slot`].
    pub unsafe fn carried(sent: Word) -> Word {
        // SAFETY: promised by the caller.
        (unsafe { object::get(sent, owed::KIND) }) >> CARRIED_SHIFT & CARRIED_MAX
    }

    /// Returns the slot of a message's method.
    ///
    /// # Safety
    /// `sent` is a message.
    pub unsafe fn slot(sent: Word) -> u32 {
        // SAFETY: promised by the caller.
        (unsafe { object::get(sent, owed::KIND) } >> SLOT_SHIFT) as u32
    }

    /// True if a message was answered.
    ///
    /// # Safety
    /// As for [`slot`].
    pub unsafe fn is_answered(sent: Word) -> bool {
        // SAFETY: promised by the caller.
        unsafe { object::get(sent, owed::KIND) & ANSWERED != 0 }
    }

    /// Notes that a message was answered.
    ///
    /// # Safety
    /// As for [`slot`].
    pub unsafe fn set_answered(sent: Word) {
        // SAFETY: promised by the caller.
        unsafe { object::set(sent, owed::KIND, object::get(sent, owed::KIND) | ANSWERED) };
    }
}

/// The fields of a method that may wait: its *join continuation closure* (002 section 3), which
/// begins with [`owed`]. The words of its variables follow. Behind them is the number of replies
/// missing, for each variable that may be pending.
pub mod join {
    use super::owed;

    /// The actor, or 0.
    pub const ACTOR: usize = owed::FIELDS;
    /// The address of the function's [`JoinLayout`](super::JoinLayout), which lasts as long as the
    /// image.
    pub const LAYOUT: usize = owed::FIELDS + 1;
    /// Flags; see the constants below.
    pub const FLAGS: usize = owed::FIELDS + 2;
    /// The number of the way by which it goes on, once it has waited
    /// ([`JoinLayout::ways`](super::JoinLayout::ways)).
    pub const WAY: usize = owed::FIELDS + 3;
    /// The number of missing replies among those that it waits for; while it selects, a bit for
    /// each method that it takes.
    pub const MISSING: usize = owed::FIELDS + 4;
    /// A bit for each pending variable that it waits for; while it selects, the number of its
    /// timer, or 0.
    pub const AWAITED: usize = owed::FIELDS + 5;
    /// The exceptions that came instead of replies: a list.
    pub const EXCEPTIONS: usize = owed::FIELDS + 6;
    /// The number of requests that it has sent.
    pub const REQUESTS: usize = owed::FIELDS + 7;
    /// The message under way in an arm of a selection, or 0.
    pub const TAKEN: usize = owed::FIELDS + 8;
    /// The object that answers in its place, or the exception that it answers with, or 0.
    pub const DELEGATED: usize = owed::FIELDS + 9;
    /// Its answer, while nothing else has it; a reference by the function's result.
    pub const ANSWER: usize = owed::FIELDS + 10;
    /// While machine code runs it: a bit for each pending variable whose word is here and not with
    /// the code.
    pub const HELD: usize = owed::FIELDS + 11;
    /// While it selects: the time at which its timer is over. It never does so as machine code.
    pub const TIME: usize = HELD;
    /// While it waits: the object that owes the reply to the last of its requests, so that the
    /// answering actor lives as long.
    pub const OWING: usize = owed::FIELDS + 12;
    /// The first variable.
    pub const WORDS: usize = owed::FIELDS + 13;

    /// The message was answered, or another object answers it.
    pub const ANSWERED: u64 = 1;
    /// Its caller is gone: the answer goes to `TO`.
    pub const DETACHED: u64 = 2;
    /// It has ended.
    pub const ENDED: u64 = 4;
    /// It waits.
    pub const WAITS: u64 = 8;
    /// It waits for a message.
    pub const SELECTS: u64 = 16;
    /// The time of its selection is over.
    pub const LATE: u64 = 32;
    /// It is a call of an actor on itself: its caller goes on when it has ended.
    pub const NESTED: u64 = 64;
    /// The answer is an exception.
    pub const FAILED: u64 = 128;
    /// It is in the queue of ready joins.
    pub const READY: u64 = 256;
    /// It is a call from the body of a loop over an iterator, or from such a call. It makes no way
    /// for others, for its caller cannot stop.
    pub const BOUND: u64 = 512;
}

/// The fields of a destination as a value, or of a place that keeps an answer for a waiter that is
/// not known yet. It begins with [`owed`].
pub mod replier {
    use super::owed;

    /// 1 when it was used.
    pub const USED: usize = owed::FIELDS;
    /// The answer, when it came before it was awaited: an exception or nothing. Before that, in a
    /// place that keeps an answer: the object that owes it.
    pub const EXCEPTION: usize = owed::FIELDS + 1;
    /// The answer's word.
    pub const VALUE: usize = owed::FIELDS + 2;
    /// The number of fields that it has.
    pub const FIELDS: usize = owed::FIELDS + 3;
}

/// The fields of a message that went to another node, which begins with [`owed`].
pub mod outgoing {
    use super::owed;

    /// The class and the method, the one in the upper half.
    pub const METHOD: usize = owed::FIELDS;
    /// The actor.
    pub const RECEIVER: usize = owed::FIELDS + 1;
    /// The number of fields that it has.
    pub const FIELDS: usize = owed::FIELDS + 2;
}

/// The fields of a waiter on another node, which begins with a [`Kind`].
pub mod away {
    /// The node, in the upper half, and the index there.
    pub const PLACE: usize = 1;
    /// The generation of the index.
    pub const GENERATION: usize = 2;
    /// The class and the method that the answer is of, the one in the upper half.
    pub const METHOD: usize = 3;
    /// The number of fields that it has.
    pub const FIELDS: usize = 4;
}

/// The fields of the object that stands for an actor of another node.
pub mod far {
    /// The node, in the upper half, and the index there; for an actor also [`FULL`].
    pub const PLACE: usize = 0;
    /// The mailbox of the actor is nearly full. No node has a number with this bit.
    pub const FULL: u64 = 1 << 63;
    /// The generation of the index.
    pub const GENERATION: usize = 1;
    /// The number of fields that it has.
    pub const FIELDS: usize = 2;
}

/// The fields of an actor's mail, its queued messages. They are in a list for each method of its
/// class, or in one for all ([`ActorClass::lists`](super::ActorClass::lists)).
pub mod mail {
    use crate::abi::Word;

    /// The number of queued messages, in the lower half, and the words of the objects that they
    /// carry; 0 if none are queued.
    pub const COUNT: usize = 0;
    /// The bit at which these words begin in it.
    pub const CARRIED_SHIFT: u32 = 32;
    /// The number of the next message, where there are several lists.
    pub const NEXT_NUMBER: usize = 1;
    /// 1 while the actor is in the queue of those that have something to do.
    pub const SCHEDULED: usize = 2;
    /// The join that waits, of a method of the actor; 0 if none does.
    pub const WAITING: usize = 3;
    /// A bit for each method that its selection takes.
    pub const TAKES: usize = 4;
    /// The reason of the actor's failure, if it failed: a string.
    pub const FAILURE: usize = 5;
    /// The first and last message of the first list; those of the others follow.
    pub const LISTS: usize = 6;

    /// Returns the number of messages in a value of [`COUNT`].
    pub fn count(waiting: Word) -> u64 {
        waiting & u64::from(u32::MAX)
    }

    /// Returns the words of the objects that they carry.
    pub fn carried(waiting: Word) -> u64 {
        waiting >> CARRIED_SHIFT
    }

    /// Returns the amount that a message adds to [`COUNT`].
    ///
    /// # Safety
    /// `sent` is a message.
    pub unsafe fn one(sent: Word) -> Word {
        // SAFETY: promised by the caller.
        1 + (unsafe { super::message::carried(sent) } << CARRIED_SHIFT)
    }

    /// Returns the number of fields of mail with so many lists.
    pub fn fields(lists: usize) -> usize {
        LISTS + 2 * lists
    }
}

/// The fields of an exception that is kept.
pub mod exception {
    /// The next in a list.
    pub const NEXT: usize = 0;
    /// Its name, and [`RAISED`].
    pub const SIGNAL: usize = 1;
    /// In the word of its name: it was raised where its reply was awaited.
    pub const RAISED: u64 = 1 << 32;
    /// The [`Due`](super::Due) of the reply in whose place it came.
    pub const DUE: usize = 2;
    /// An [`Origin`](super::super::Origin), as one word.
    pub const ORIGIN: usize = 3;
    /// The first value.
    pub const VALUES: usize = 4;
}

/// The purpose of a reply. It has the pending variable of the join, whether the reply goes to an
/// element of that variable's value, and the number of the request. It is one word, as it stands in
/// the object that owes the reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Due(Word);

impl Due {
    /// The purpose of the end of a call of an actor on itself.
    pub const CALL: u16 = u16::MAX;

    /// The largest number of a request.
    pub const REQUEST_MAX: u64 = u64::MAX >> 17;

    /// Makes the purpose for the pending variable of this number, or an element of its value; the
    /// request's number is 0.
    #[inline]
    pub const fn new(pending: u16, element: bool) -> Due {
        Due(pending as Word | (element as Word) << 16)
    }

    /// Returns the same for a request of this number, at most [`Due::REQUEST_MAX`].
    #[inline]
    pub const fn of_request(self, request: u64) -> Due {
        Due(self.0 & 0x1_ffff | request << 17)
    }

    /// Returns the number of the pending variable.
    #[inline]
    pub const fn pending(self) -> u16 {
        self.0 as u16
    }

    /// True if the reply goes to an element.
    #[inline]
    pub const fn is_element(self) -> bool {
        self.0 >> 16 & 1 == 1
    }

    /// Returns the number of the request among all of the join.
    #[inline]
    pub const fn request(self) -> u64 {
        self.0 >> 17
    }

    /// True if it is the end of a call of an actor on itself.
    #[inline]
    pub const fn is_call(self) -> bool {
        self.pending() == Due::CALL
    }

    /// Returns it as one word.
    #[inline]
    pub const fn word(self) -> Word {
        self.0
    }

    /// Makes it from one word.
    #[inline]
    pub const fn from_word(word: Word) -> Due {
        Due(word)
    }
}

/// The state of an actor: the table of its class that its first word points at (003 section 3.2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u64)]
pub enum State {
    /// It has nothing to do: a message is a call.
    Dormant = 0,
    /// A method of it has begun and not ended: messages are queued.
    Active = 1,
    /// A method of it waits for a message: messages are queued, and resume it if it takes them.
    Selecting = 2,
    /// Its creator failed: each message is answered with that failure.
    Failed = 3,
    /// It is on another node, and this object stands for it: messages go there.
    Remote = 4,
}

impl State {
    /// All states, in the order of their tables.
    pub const ALL: [State; 5] =
        [State::Dormant, State::Active, State::Selecting, State::Failed, State::Remote];
}

/// The part that the actors of a class have in common.
#[derive(Debug)]
pub struct ActorClass {
    /// True if its methods may overlap.
    pub functional: bool,
    /// Its creators.
    pub creators: Vec<FuncId>,
    /// By creator: the pattern of its arguments, where they go to another node.
    pub creations: Vec<Pattern>,
    /// By method: the function that tells when its messages are refused.
    pub guards: Vec<Option<FuncId>>,
    /// By method: true if its guard depends on the contents of the message.
    pub looks: Vec<bool>,
    /// True if no method has a guard.
    pub takes_all: bool,
    /// The field of the actor that is its mail.
    pub mail: usize,
    /// The number of methods that the class has.
    pub methods: usize,
    /// The bytes of its largest message, without the objects that it carries.
    pub message_bytes: usize,
    /// True if a message can carry objects that count.
    pub carries: bool,
    /// The number of lists of the mail: one where the oldest message is always the next one, else
    /// one for each method.
    pub lists: usize,
    /// By method: the part that its messages have in common.
    pub messages: Vec<MessageKind>,
    /// Its tables by state. Their entries take messages.
    pub tables: [&'static Table; State::ALL.len()],
    /// The table whose entries are the methods themselves; no actor has it.
    pub code: &'static Table,
    /// The table of its mail.
    pub mail_table: &'static Table,
    /// The code of its actors' turns.
    pub turns: Hot,
    /// A permanent actor that is used in place of each new one of a class whose actors are all
    /// alike. Such a class is functional and without variables. Its creators do nothing, and its
    /// methods never use their own actor. It is used where only the creator knows the new one, and
    /// sends it one request.
    pub any: Option<Word>,
}

impl ActorClass {
    /// Returns the table of a state.
    #[inline]
    pub fn table(&self, state: State) -> &'static Table {
        self.tables[state as usize]
    }

    /// Returns the part that messages for a method have in common.
    #[inline]
    pub fn message(&self, method: MethodId) -> &MessageKind {
        &self.messages[method.as_u32() as usize]
    }

    /// Returns the field of the mail with the first message of the list for a method; the next
    /// field has the last one.
    #[inline]
    pub fn list_of(&self, method: MethodId) -> usize {
        match self.lists {
            1 => mail::LISTS,
            _ => mail::LISTS + 2 * method.as_u32() as usize,
        }
    }

    /// True if the guard of a method depends on the contents of the message.
    pub fn looks_into(&self, method: MethodId) -> bool {
        self.looks[method.as_u32() as usize]
    }

    /// Returns the guard of a method.
    #[inline]
    pub fn guard(&self, method: MethodId) -> Option<FuncId> {
        self.guards[method.as_u32() as usize]
    }
}

/// The part that messages for one method have in common.
#[derive(Debug)]
pub struct MessageKind {
    /// The arguments that are references: a bit for each.
    pub references: u32,
    /// The references that are objects that a message carries, and not actors or places of answers:
    /// a bit for each.
    pub carries: u32,
    /// The number of arguments.
    pub args: usize,
    /// The table of queued messages.
    pub table: &'static Table,
    /// The pattern of the arguments, where they go to another node.
    pub arguments: Pattern,
    /// The pattern of the result.
    pub result: Pattern,
    /// The code that sends one to another node.
    pub remote: Hot,
    /// True if the method is plain ([`bifrost_ir::plain`]) and the actor refuses nothing: a dormant
    /// actor is dormant again when the method has ended.
    pub stays_at_rest: bool,
}

impl MessageKind {
    fn new(types: &Types, signature: &Signature, stays_at_rest: bool) -> MessageKind {
        let args = signature.params.len();
        let reference = |ty: TypeId| u32::from(!types.kind(ty).is_basic());
        let params = signature.params.iter().enumerate();
        let references = params.fold(0, |all, (at, param)| all | reference(param.ty) << at);
        let is_carried = |ty: TypeId| !matches!(types.kind(ty), TypeKind::Replier(_)) && !types.def(ty).actor;
        let carried = signature.params.iter().map(|param| is_carried(param.ty));
        let carries = (0..).zip(carried).fold(0, |all, (at, is)| all | u32::from(is) << at) & references;
        let fields = (0..args as u32).filter(|at| references >> at & 1 == 1);
        let fields = fields.map(|at| message::ARGS as u32 + at);
        let own = [owed::TO, message::RECEIVER, message::NEXT].map(|at| at as u32);
        let table = inner_table("message", Shape::of(own.into_iter().chain(fields)));
        let (arguments, result) =
            (Pattern::of_arguments(types, signature), Pattern::of_result(types, signature));
        MessageKind {
            references,
            carries,
            args,
            table,
            arguments,
            result,
            remote: Hot::default(),
            stays_at_rest,
        }
    }
}

/// A thing that gets machine code after it was done often without.
#[derive(Debug, Default)]
pub struct Hot {
    steps: AtomicU64,
    code: OnceLock<Option<Code>>,
}

impl Hot {
    /// Returns the code. It is made now if this was done often enough, and if it can be.
    #[inline]
    pub(super) fn code(
        &self,
        hot_steps: impl FnOnce() -> u64,
        compile: impl FnOnce() -> Option<Code>,
    ) -> Option<Code> {
        match self.code.get() {
            Some(code) => *code,
            None if self.steps.fetch_add(1, Ordering::Relaxed) < hot_steps() => None,
            None => *self.code.get_or_init(compile),
        }
    }

    /// Returns the code, if there is some already.
    #[inline]
    pub(super) fn known(&self) -> Option<Code> {
        *self.code.get()?
    }

    /// True if there is code.
    pub fn has_code(&self) -> bool {
        self.known().is_some()
    }
}

/// The thing that a function waits for where it stops.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waits {
    /// The replies for pending variables, a bit for each; those from the 64th on share one.
    Replies(u64),
    /// A turn of others: it goes on when others have run.
    Turn,
    /// The thing that the statement itself has named: a message, or the end of a call.
    Said,
}

/// A place at which a function stops, and goes on ([`bifrost_ir::ways`]).
#[derive(Debug)]
pub struct Way {
    /// The path to it, the innermost step first.
    pub path: Box<[u32]>,
    /// The thing that it waits for there.
    pub waits: Waits,
    /// True if machine code can go on here.
    pub open: bool,
    /// The code that goes on here.
    pub(super) hot: Hot,
}

impl Way {
    /// Makes a way that was not used yet.
    pub fn new(path: Box<[u32]>, waits: Waits, open: bool) -> Way {
        Way { path, waits, open, hot: Hot::default() }
    }

    /// True if machine code goes on here.
    pub fn has_code(&self) -> bool {
        self.hot.has_code()
    }
}

/// The layout of the joins of a function, and the ways by which they go on.
#[derive(Debug)]
pub struct JoinLayout {
    /// The function.
    pub func: FuncId,
    /// Their table.
    pub table: &'static Table,
    /// The words that are the variables that may be pending.
    pub pending: Box<[u32]>,
    /// The field with the number of missing replies for the first of them.
    pub counts: usize,
    /// True if the first variable is the actor.
    pub of_actor: bool,
    /// The words that are not 0 at the start, by their place among the words: constants.
    pub constants: Box<[(u32, Word)]>,
    /// The ways into the function.
    pub ways: Box<[Way]>,
}

impl JoinLayout {
    /// Makes the layout for a function. `template` is its words at the start, of which the first
    /// are the variables.
    pub fn new(image: &Image, id: FuncId, template: &[Word]) -> JoinLayout {
        let func = &image.program().funcs[id];
        let references = func.vars.iter().filter(|(_, var)| image.is_reference(var.ty));
        let answer = func.signature.results.first().is_some_and(|ty| image.is_reference(*ty));
        let pending = ways::pending(func);
        let number =
            |var: &Var| pending.iter().position(|each| each == var).expect("whoever is awaited is pending");
        let ways = ways::ways_in(image.program(), &func.body).into_iter().map(|way| {
            let waits = match way.stmt {
                Stmt::Await { vars, .. } => {
                    Waits::Replies(vars.iter().fold(0, |all, var| all | 1 << number(var).min(63)))
                }
                Stmt::While { .. } => Waits::Turn,
                _ => Waits::Said,
            };
            Way::new(way.path, waits, way.open)
        });
        JoinLayout {
            func: id,
            table: join_table(references.map(|(var, _)| var.as_u32()), answer),
            counts: join::WORDS + template.len(),
            of_actor: func.kind == FuncKind::Script,
            constants: (0..)
                .zip(template)
                .filter(|(_, word)| **word != 0)
                .map(|(at, word)| (at, *word))
                .collect(),
            ways: ways.collect(),
            pending: pending.into_iter().map(Var::as_u32).collect(),
        }
    }

    /// Returns the number of missing replies for each variable that may be pending.
    ///
    /// # Safety
    /// `join` has this layout, and its counts do not change as long as this is used.
    #[inline]
    pub(super) unsafe fn counts_of<'a>(&self, join: Word) -> &'a [Word] {
        // SAFETY: promised by the caller.
        unsafe { object::slice(join, self.counts, self.pending.len()) }
    }

    /// Returns the number of fields of a join.
    pub fn fields(&self) -> usize {
        self.counts + self.pending.len()
    }
}

/// Makes the table of joins of a function, of whose words these are references.
fn join_table(references: impl Iterator<Item = u32>, answer: bool) -> &'static Table {
    let mut own = vec![owed::TO, join::ACTOR, join::EXCEPTIONS, join::TAKEN, join::DELEGATED, join::OWING];
    own.extend(answer.then_some(join::ANSWER));
    let own = own.into_iter().map(|at| at as u32).collect::<Vec<_>>();
    let words = references.map(|at| join::WORDS as u32 + at);
    inner_table("join", Shape::of(own.into_iter().chain(words)))
}

/// Makes the table of exceptions of which these values are references.
pub(crate) fn exception_table(references: u32) -> &'static Table {
    let values = (0..u32::BITS).filter(|at| references >> at & 1 == 1);
    let values = values.map(|at| exception::VALUES as u32 + at);
    inner_table("exception", Shape::of([exception::NEXT as u32].into_iter().chain(values)))
}

/// Returns the shape of destinations, by whether their answers are references.
pub(crate) fn replier_shape(reference: bool) -> Shape {
    let own = [owed::TO as u32, replier::EXCEPTION as u32];
    let value = reference.then_some(replier::VALUE as u32);
    Shape::of(own.into_iter().chain(value))
}

/// The tables of the objects that belong to all programs with actors.
#[derive(Debug)]
pub(crate) struct Tables {
    /// Places that keep an answer, by whether that is a reference.
    pub kept: [&'static Table; 2],
    pub caller: &'static Table,
    pub outgoing: &'static Table,
    pub away: &'static Table,
}

impl Tables {
    pub fn new() -> Tables {
        Tables {
            kept: [false, true].map(|reference| inner_table("kept answer", replier_shape(reference))),
            caller: inner_table("caller", Shape::leaf()),
            outgoing: inner_table("outgoing", Shape::of([owed::TO, outgoing::RECEIVER].map(|at| at as u32))),
            away: inner_table("away", Shape::leaf()),
        }
    }
}

/// Makes the table of mail with so many lists.
fn mail_table(lists: usize) -> &'static Table {
    let lists = (mail::LISTS..mail::fields(lists)).map(|at| at as u32);
    inner_table("mail", Shape::of([mail::WAITING as u32, mail::FAILURE as u32].into_iter().chain(lists)))
}

/// True if a method reads its parameters.
fn reads_params(func: &Func) -> bool {
    reads_one_of(func, 1..func.param_count() as u32)
}

/// True if a function reads one of the variables with these numbers.
fn reads_one_of(func: &Func, vars: Range<u32>) -> bool {
    func.body.contains(&|stmt| {
        let mut reads = false;
        stmt.parts(&mut |part| {
            if let Part::Reads(Operand::Var(var)) = part {
                reads |= vars.contains(&var.as_u32());
            }
        });
        reads
    })
}

/// True if one actor of a class is as good as another, as long as only its creator knows it.
fn are_alike(program: &Program, id: ClassId, actor: &Actor) -> bool {
    let class = &program.classes[id];
    let nothing =
        |func: &FuncId| program.funcs[*func].body.0.iter().all(|stmt| matches!(stmt, Stmt::Return(_)));
    let knows_itself = |body: &Body| match body {
        Body::Func(func) => reads_one_of(&program.funcs[*func], 0..1),
        Body::Native(_) => true,
    };
    let plain = actor.functional && class.fields.is_empty() && actor.creators.iter().all(nothing);
    // A subclass may have more fields or methods.
    let last = || program.classes.values().all(|other| other.superclass != Some(id));
    plain && !class.bodies.iter().any(knows_itself) && last()
}

/// Returns the mail's field of actors of a class.
pub(crate) fn mail_field(program: &Program, kind: TypeKind) -> Option<usize> {
    let TypeKind::Class(class) = kind else { return None };
    let class = &program.classes[class];
    class.actor.is_some().then_some(class.fields.len())
}

impl ActorClass {
    /// Makes the class of a type, with its tables; nothing if it is no class of actors.
    pub(crate) fn new(
        program: &Program,
        kind: TypeKind,
        tables: [&'static Table; State::ALL.len()],
        code: &'static Table,
    ) -> Option<ActorClass> {
        let TypeKind::Class(id) = kind else { return None };
        let class = &program.classes[id];
        let actor = class.actor.as_ref()?;
        let methods = class.bodies.len();
        let (mut guards, mut looks) = (vec![None; methods], vec![false; methods]);
        for (method, func) in &actor.guards {
            let at = method.as_u32() as usize;
            guards[at] = Some(*func);
            looks[at] = reads_params(&program.funcs[*func]);
        }
        let funcs = class.bodies.iter().filter_map(|body| match body {
            Body::Func(func) => Some(func),
            Body::Native(_) => None,
        });
        let is_selection = |stmt: &Stmt| matches!(stmt, Stmt::Select { .. });
        let selects =
            funcs.chain(&actor.creators).any(|func| program.funcs[*func].body.contains(&is_selection));
        let takes_all = guards.iter().all(Option::is_none);
        let lists = if takes_all && !selects { 1 } else { methods };
        let creations = actor.creators.iter().map(|func| &program.funcs[*func].signature);
        let creations = creations.map(|signature| Pattern::of_arguments(&program.types, signature)).collect();
        let own = &program.types.def(class.ty).methods;
        let messages = own.values().zip(&class.bodies).map(|(method, body)| {
            let plain = matches!(body, Body::Func(func) if is_plain(program, &program.funcs[*func]));
            MessageKind::new(&program.types, &method.signature, takes_all && plain)
        });
        let messages: Vec<MessageKind> = messages.collect();
        let args = messages.iter().map(|kind| kind.args).max().unwrap_or_default();
        Some(ActorClass {
            message_bytes: 8 * (OBJECT_WORDS + message::ARGS + args),
            carries: messages.iter().any(|kind| kind.carries != 0),
            messages,
            functional: actor.functional,
            creators: actor.creators.clone(),
            creations,
            takes_all,
            guards,
            looks,
            mail: class.fields.len(),
            methods,
            tables,
            code,
            lists,
            mail_table: mail_table(lists),
            turns: Hot::default(),
            any: are_alike(program, id, actor)
                .then(|| lasting_object(tables[State::Dormant as usize], class.fields.len() + 1)),
        })
    }
}
