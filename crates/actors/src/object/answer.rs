//! Answers, and references to the objects that owe them or take them.

use std::num::NonZero;

use bifrost_heap::HeapFull;
use bifrost_ir::{MethodId, MethodRef, TypeId};
use bifrost_runtime::abi::Word;
use bifrost_runtime::actor_layout::{Due, Kind, away, exception, outgoing, owed, replier};
use bifrost_runtime::cx::Cx;
use bifrost_runtime::image::Table;
use bifrost_runtime::object;
use bifrost_runtime::transfer::Address;

use super::actor::{far_address, place_of};
use crate::object::{Actor, Join, Message};

/// An answer: a result or an exception.
#[derive(Clone, Copy, Debug)]
pub enum Answer {
    /// A result, or 0 without one.
    Value(Word),
    /// An exception that is kept ([`kept_exception`](crate::kept_exception)).
    Exception(Exception),
}

reference! {
    /// A destination of an answer as a value, or a place that keeps an answer for a waiter that is
    /// not known yet. One of another node has its address in place of the purpose.
    Replier
}

impl Replier {
    /// Returns the answer that came before it was awaited.
    pub(crate) fn kept(self) -> Answer {
        match NonZero::new(self.get(replier::EXCEPTION)) {
            None => Answer::Value(self.get(replier::VALUE)),
            Some(kept) => Answer::Exception(Exception(kept)),
        }
    }

    /// Keeps an answer, and notes that the destination was used.
    #[inline(always)]
    pub(crate) fn keep(self, answer: Answer) {
        let (value, kept) = match answer {
            Answer::Value(value) => (value, 0),
            Answer::Exception(kept) => (0, kept.word()),
        };
        self.set(replier::USED, 1);
        self.set(replier::VALUE, value);
        self.set(replier::EXCEPTION, kept);
    }

    /// Returns the object that owes the answer which an unused place is to keep.
    pub(crate) fn source(self) -> Option<Owing> {
        NonZero::new(self.get(replier::EXCEPTION)).map(Owing)
    }

    /// Enters that.
    pub(crate) fn set_source(self, owing: Owing) {
        self.set(replier::EXCEPTION, owing.word());
    }

    /// Makes a destination with a table of such.
    ///
    /// # Errors
    /// The heap is full.
    pub(crate) fn make(cx: &mut Cx, table: &'static Table) -> Result<Replier, HeapFull> {
        let object = cx.alloc(table, replier::FIELDS)?;
        // SAFETY: the object is a new destination.
        let made = unsafe { Replier::new(object.as_ptr() as Word) };
        made.set(owed::KIND, Kind::Replier as Word);
        Ok(made)
    }

    /// Makes the object that stands for a destination on another node.
    ///
    /// # Errors
    /// The heap is full.
    pub(crate) fn make_far(
        cx: &mut Cx,
        table: &'static Table,
        address: Address,
    ) -> Result<Replier, HeapFull> {
        let made = Replier::make(cx, table)?;
        made.set(owed::KIND, Kind::FarReplier as Word);
        made.set(owed::DUE, place_of(address));
        made.set(owed::ELEMENT, u64::from(address.generation));
        Ok(made)
    }

    /// Returns the address of a destination on another node.
    pub(crate) fn address(self) -> Address {
        far_address(self.get(owed::DUE), self.get(owed::ELEMENT))
    }

    /// Notes that it is used, without an answer.
    pub(crate) fn set_used(self) {
        self.set(replier::USED, 1);
    }

    /// True if it was used.
    #[inline(always)]
    pub(crate) fn is_used(self) -> bool {
        self.get(replier::USED) != 0
    }

    /// Returns its type.
    #[inline(always)]
    pub(crate) fn ty(self) -> TypeId {
        // SAFETY: `new` was promised an object.
        unsafe { Table::of(self.word()) }.info().ty
    }

    /// True if it is of another node.
    #[inline(always)]
    pub(crate) fn is_far(self) -> bool {
        self.owing().kind() == Kind::FarReplier
    }

    /// Returns it as an object that owes an answer.
    #[inline(always)]
    pub fn owing(self) -> Owing {
        Owing(self.0)
    }

    /// Returns it as a party of an answer.
    #[inline(always)]
    pub(crate) fn party(self) -> Party {
        Party(self.0)
    }
}

reference! {
    /// A message that went to another node, and may be awaited.
    Outgoing
}

impl Outgoing {
    /// Makes one without contents.
    ///
    /// # Errors
    /// The heap is full.
    pub(crate) fn make(cx: &mut Cx) -> Result<Outgoing, HeapFull> {
        let table = cx.image().of_actors.outgoing;
        let object = cx.alloc(table, outgoing::FIELDS)?;
        // SAFETY: the object is such a new one.
        Ok(unsafe { Outgoing::new(object.as_ptr() as Word) })
    }

    /// Enters the receiver and the method.
    #[inline(always)]
    pub(crate) fn begin(self, receiver: Actor, method: MethodRef) {
        self.set(owed::KIND, Kind::Outgoing as Word);
        self.set(outgoing::RECEIVER, receiver.word());
        self.set(outgoing::METHOD, word_of_method(method));
    }

    /// Returns the method.
    pub(crate) fn method(self) -> MethodRef {
        method_of_word(self.get(outgoing::METHOD))
    }

    /// Returns it as an object that owes an answer.
    #[inline(always)]
    pub fn owing(self) -> Owing {
        Owing(self.0)
    }
}

fn word_of_method(method: MethodRef) -> Word {
    u64::from(method.ty.as_u32()) << 32 | u64::from(method.method.as_u32())
}

fn method_of_word(word: Word) -> MethodRef {
    MethodRef { ty: TypeId::from_u32((word >> 32) as u32), method: MethodId::from_u32(word as u32) }
}

reference! {
    /// A waiter on another node.
    Away
}

/// The waiter on another node for the answer to a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Waiting {
    /// Its node.
    pub(crate) node: u32,
    /// Its index there.
    pub(crate) index: u32,
    /// The generation of the index.
    pub(crate) generation: u32,
    /// The method that the answer is of.
    pub(crate) method: MethodRef,
}

impl Away {
    /// Makes the object of a waiter. It is made even if the heap is full.
    pub(crate) fn make(cx: &mut Cx, waiting: Waiting) -> Away {
        let table = cx.image().of_actors.away;
        // SAFETY: the object is such a new one.
        let made = unsafe { Away::new(cx.alloc_beyond(table, away::FIELDS)) };
        made.set(owed::KIND, Kind::Away as Word);
        made.set(away::PLACE, u64::from(waiting.node) << 32 | u64::from(waiting.index));
        made.set(away::GENERATION, u64::from(waiting.generation));
        made.set(away::METHOD, word_of_method(waiting.method));
        made
    }

    /// Returns the waiter.
    pub(crate) fn waiting(self) -> Waiting {
        let place = self.get(away::PLACE);
        Waiting {
            node: (place >> 32) as u32,
            index: place as u32,
            generation: self.get(away::GENERATION) as u32,
            method: method_of_word(self.get(away::METHOD)),
        }
    }

    /// Returns it as a party of an answer.
    pub(crate) fn party(self) -> Party {
        Party(self.0)
    }
}

reference! {
    /// An object that owes an answer: it begins with [`owed`].
    Owing
}

impl Owing {
    links! {
        /// Returns the waiter for the answer, where it is known.
        to, set_to: Party = owed::TO;
    }

    /// Returns its kind.
    #[inline(always)]
    pub fn kind(self) -> Kind {
        Kind::of_word(self.get(owed::KIND))
    }

    /// Returns the purpose of the answer where it is awaited.
    #[inline(always)]
    pub fn due(self) -> Due {
        Due::from_word(self.get(owed::DUE))
    }

    /// Returns the index of the element that it is for.
    #[inline(always)]
    pub fn element(self) -> i64 {
        self.get(owed::ELEMENT) as i64
    }

    /// Enters the destination of the answer.
    #[inline(always)]
    pub(crate) fn set_destination(self, to: Option<Party>, due: Due, element: i64) {
        self.set_to(to);
        self.set(owed::DUE, due.word());
        self.set(owed::ELEMENT, element as Word);
    }

    /// Returns it as a join, if it is one.
    pub(crate) fn join(self) -> Option<Join> {
        (self.kind() == Kind::Join).then_some(Join(self.0))
    }

    /// Returns it as a message, if it is one.
    #[inline(always)]
    pub(crate) fn message(self) -> Option<Message> {
        (self.kind() == Kind::Message).then_some(Message(self.0))
    }

    /// Returns it as a place of answers of this node, if it is one.
    #[inline(always)]
    pub(crate) fn replier(self) -> Option<Replier> {
        (self.kind() == Kind::Replier).then_some(Replier(self.0))
    }

    /// Returns it as a message that went to another node, if it is one.
    #[inline(always)]
    pub(crate) fn outgoing(self) -> Option<Outgoing> {
        (self.kind() == Kind::Outgoing).then_some(Outgoing(self.0))
    }
}

reference! {
    /// An object that begins with a [`Kind`]: an answer can go there.
    Party
}

impl Party {
    /// Returns its kind.
    #[inline(always)]
    pub fn kind(self) -> Kind {
        Kind::of_word(self.get(owed::KIND))
    }

    /// Makes the caller of the program or the client of a session. It is made even if the heap is
    /// full.
    pub(crate) fn make(cx: &mut Cx, kind: Kind) -> Party {
        let table = cx.image().of_actors.caller;
        // SAFETY: the object is such a new one.
        let made = unsafe { Party::new(cx.alloc_beyond(table, owed::FIELDS)) };
        made.set(owed::KIND, kind as Word);
        made
    }

    /// Returns it as a join, if it is one.
    #[inline(always)]
    pub(crate) fn join(self) -> Option<Join> {
        (self.kind() == Kind::Join).then_some(Join(self.0))
    }

    /// Returns it as a place of answers of this node, if it is one.
    #[inline(always)]
    pub(crate) fn replier(self) -> Option<Replier> {
        (self.kind() == Kind::Replier).then_some(Replier(self.0))
    }

    /// Returns it as a message, if it is one: a deferred one, which the answer completes.
    pub(crate) fn message(self) -> Option<Message> {
        (self.kind() == Kind::Message).then_some(Message(self.0))
    }

    /// Returns it as a waiter on another node, if it is one.
    #[inline(always)]
    pub(crate) fn away(self) -> Option<Away> {
        (self.kind() == Kind::Away).then_some(Away(self.0))
    }
}

reference! {
    /// An exception that is kept until it is raised again.
    Exception
}

impl Exception {
    /// Makes an exception with values, which the caller keeps. It is made even if the heap is full.
    pub(crate) fn make(cx: &mut Cx, references: u32, values: &[Word]) -> Exception {
        let table = cx.image().exception_table(references);
        // SAFETY: the object is such a new one.
        let made = unsafe { Exception::new(cx.alloc_beyond(table, exception::VALUES + values.len())) };
        for (at, value) in values.iter().enumerate() {
            made.set(exception::VALUES + at, *value);
        }
        made
    }

    data! {
        /// Returns the code that it came from, as one word.
        origin, set_origin = exception::ORIGIN;
        /// Returns its name and [`exception::RAISED`].
        signal, set_signal = exception::SIGNAL;
    }

    links! {
        /// Returns the next of its list.
        next, set_next: Exception = exception::NEXT;
    }

    /// Returns the purpose of the reply in whose place it came.
    pub fn due(self) -> Due {
        Due::from_word(self.get(exception::DUE))
    }

    /// Changes that.
    pub(crate) fn set_due(self, due: Due) {
        self.set(exception::DUE, due.word());
    }

    /// Returns the number of its values.
    pub(crate) fn count(self) -> usize {
        // SAFETY: `new` was promised an object.
        (unsafe { object::fields(self.word()) }) - exception::VALUES
    }

    /// Returns a value.
    pub(crate) fn value(self, at: usize) -> Word {
        assert!(at < self.count(), "value {at} of an exception");
        self.get(exception::VALUES + at)
    }
}

/// An object of this node that other nodes know.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Known {
    /// An actor.
    Actor(Actor),
    /// A destination of answers.
    Replier(Replier),
    /// A message that went to another node, whose answer is awaited.
    Outgoing(Outgoing),
}

impl Known {
    /// Returns the object of a word.
    ///
    /// # Safety
    /// The word is a reference to an object of one of these kinds.
    pub(crate) unsafe fn new(word: Word) -> Known {
        // SAFETY: promised by the caller; the table tells the kind.
        unsafe {
            if Table::of(word).info().actor().is_some() {
                return Known::Actor(Actor::new(word));
            }
            match Party::new(word).kind() {
                Kind::Outgoing => Known::Outgoing(Outgoing::new(word)),
                _ => Known::Replier(Replier::new(word)),
            }
        }
    }
}
