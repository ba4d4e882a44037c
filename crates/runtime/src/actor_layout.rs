//! The fields of the objects that belong to actors: messages, joins, destinations of answers, mail,
//! kept exceptions. Machine code uses the same numbers. The tables of these objects are in
//! [`actor_class`](crate::actor_class); crate `actors` handles them.
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
//! The items to read first are [`Kind`] and the modules [`message`] and [`join`].

use crate::abi::Word;

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
    /// The deferred messages of a node: takes their answers.
    Deferred = 9,
}

impl Kind {
    /// Returns the kind in the first field of an object.
    #[inline(always)]
    pub fn of_word(word: Word) -> Kind {
        match word & owed::KIND_MASK {
            1 => Kind::Message,
            2 => Kind::Join,
            3 => Kind::Replier,
            4 => Kind::Caller,
            5 => Kind::Outgoing,
            6 => Kind::Away,
            8 => Kind::Client,
            9 => Kind::Deferred,
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
    use super::Kind;
    use super::owed;
    use crate::abi::Word;

    /// The next message of the same list. For a message under way in an arm: the one around it.
    pub const NEXT: usize = owed::FIELDS;
    /// Its number by the receiver's count, where that has several lists.
    pub const NUMBER: usize = owed::FIELDS + 1;
    /// The actor. It and the arguments behind it are the words that the method takes.
    pub const RECEIVER: usize = owed::FIELDS + 2;
    /// The first argument.
    pub const ARGS: usize = RECEIVER + 1;

    /// In its kind: the answer was given.
    pub const ANSWERED: Word = 1 << 8;
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
}

/// The fields of a method that may wait: its *join continuation closure* (002 section 3), which
/// begins with [`owed`]. The words of its variables follow. Behind them is the number of replies
/// missing, for each variable that may be pending.
pub mod join {
    use super::owed;

    /// The actor, or 0.
    pub const ACTOR: usize = owed::FIELDS;
    /// The address of the function's [`JoinLayout`](crate::actor_class::JoinLayout), which lasts as
    /// long as the image.
    pub const LAYOUT: usize = owed::FIELDS + 1;
    /// Flags; see the constants below.
    pub const FLAGS: usize = owed::FIELDS + 2;
    /// The number of the way by which it goes on, once it has waited
    /// ([`JoinLayout::ways`](crate::actor_class::JoinLayout::ways)).
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
/// class, or in one for all ([`ActorClass::lists`](crate::actor_class::ActorClass::lists)).
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
    /// The reason of the actor's failure or end, a string: it has failed or ended, or will when the
    /// method under way has ended.
    pub const FAILURE: usize = 5;
    /// The first of its [`watcher`](super::watcher)s.
    pub const WATCHERS: usize = 6;
    /// The first and last message of the first list; those of the others follow.
    pub const LISTS: usize = 7;

    /// Returns the number of messages in a value of [`COUNT`].
    pub fn count(waiting: Word) -> u64 {
        waiting & u64::from(u32::MAX)
    }

    /// Returns the words of the objects that they carry.
    pub fn carried(waiting: Word) -> u64 {
        waiting >> CARRIED_SHIFT
    }

    /// Returns the number of fields of mail with so many lists.
    pub fn fields(lists: usize) -> usize {
        LISTS + 2 * lists
    }
}

/// The fields of a watcher: an entry in the list of an actor's monitors.
pub mod watcher {
    /// The next entry.
    pub const NEXT: usize = 0;
    /// The destination, a replier of strings, that gets the reason of the actor's end.
    pub const DESTINATION: usize = 1;
    /// The number of fields that it has.
    pub const FIELDS: usize = 2;
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
    /// The code that it came from, as one word.
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
