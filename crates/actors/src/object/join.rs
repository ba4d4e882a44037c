//! References to joins.

use std::num::NonZero;

use bifrost_heap::HeapFull;
use bifrost_runtime::abi::Word;
use bifrost_runtime::actor_class::JoinLayout;
use bifrost_runtime::actor_layout::{Kind, join, owed};
use bifrost_runtime::cx::Cx;
use bifrost_runtime::object;

use crate::object::{Actor, Exception, Message, Owing, Party};

reference! {
    /// A method that waits, or that has begun and may wait: its *join continuation closure* (002
    /// section 3).
    Join
}

impl Join {
    data! {
        /// Returns the [flags](join).
        flags, set_flags = join::FLAGS;
        /// Returns the number of the way by which it goes on, once it has waited.
        way, set_way = join::WAY;
        /// Returns the number of missing replies among those that it waits for; while it selects, a
        /// bit for each method that it takes.
        missing, set_missing = join::MISSING;
        /// Returns a bit for each pending variable that it waits for; while it selects, the number
        /// of its timer, or 0.
        awaited, set_awaited = join::AWAITED;
        /// Returns the number of requests that it has sent.
        requests, set_requests = join::REQUESTS;
        /// Returns its answer, while nothing else has it.
        answer, set_answer = join::ANSWER;
        /// Returns a bit for each pending variable whose word is here and not with the code.
        held, set_held = join::HELD;
        /// Returns the time at which its timer is over, while it selects.
        time, set_time = join::TIME;
    }

    links! {
        /// Returns its actor, if it is a method of one.
        actor, set_actor: Actor = join::ACTOR;
        /// Returns the first of the exceptions that came instead of replies.
        exceptions, set_exceptions: Exception = join::EXCEPTIONS;
        /// Returns the message under way in an arm of a selection.
        taken, set_taken: Message = join::TAKEN;
        /// Returns the object that owes the reply to its last request.
        last_request, set_last_request: Owing = join::OWING;
    }

    /// Makes a join with a layout, of an actor or of none. The words of its variables are those
    /// with which all such joins begin. The caller keeps the actor.
    ///
    /// # Errors
    /// The heap is full.
    #[inline(always)]
    pub(crate) fn make(cx: &mut Cx, layout: &JoinLayout, actor: Option<Actor>) -> Result<Join, HeapFull> {
        let object = cx.alloc(layout.table, layout.fields())?;
        // SAFETY: the object is a new join.
        let made = unsafe { Join::new(object.as_ptr() as Word) };
        made.set(owed::KIND, Kind::Join as Word);
        made.set_actor(actor);
        made.set(join::LAYOUT, std::ptr::from_ref(layout) as Word);
        for (at, word) in &layout.constants {
            made.set_variable(*at as usize, *word);
        }
        Ok(made)
    }

    /// Returns the answer that it has given in place of a value.
    #[inline(always)]
    pub(crate) fn delegated(self) -> Option<Delegated> {
        let word = NonZero::new(self.get(join::DELEGATED))?;
        Some(match self.has(join::FAILED) {
            true => Delegated::Exception(Exception(word)),
            false => Delegated::Owing(Owing(word)),
        })
    }

    /// Enters the object that answers in its place.
    #[inline(always)]
    pub(crate) fn set_delegated(self, owing: Owing) {
        self.set(join::DELEGATED, owing.word());
    }

    /// Enters the exception that it answers with.
    #[inline(always)]
    pub(crate) fn set_failed(self, kept: Exception) {
        self.set_flags(self.flags() | join::FAILED);
        self.set(join::DELEGATED, kept.word());
    }

    /// Returns its layout, which lasts as long as the image.
    #[inline(always)]
    pub fn layout<'a>(self) -> &'a JoinLayout {
        // SAFETY: `begin` has entered the address.
        unsafe { &*(self.get(join::LAYOUT) as *const JoinLayout) }
    }

    /// Returns the word of a variable.
    #[inline(always)]
    pub fn variable(self, at: usize) -> Word {
        debug_assert!(join::WORDS + at < self.layout().counts, "a variable of the join");
        self.get(join::WORDS + at)
    }

    /// Changes the word of a variable, which has its type.
    #[inline(always)]
    pub fn set_variable(self, at: usize, word: Word) {
        debug_assert!(join::WORDS + at < self.layout().counts, "a variable of the join");
        self.set(join::WORDS + at, word);
    }

    /// Returns the address of the first variable; the others follow.
    pub fn variables(self) -> *mut Word {
        // SAFETY: the variables are fields of the join.
        unsafe { (self.word() as *mut Word).add(bifrost_heap::OBJECT_WORDS + join::WORDS) }
    }

    /// Returns the number of missing replies for a pending variable.
    #[inline(always)]
    pub fn count(self, layout: &JoinLayout, pending: u16) -> Word {
        self.get(layout.counts + usize::from(pending))
    }

    /// Changes that.
    #[inline(always)]
    pub fn set_count(self, layout: &JoinLayout, pending: u16, count: Word) {
        self.set(layout.counts + usize::from(pending), count);
    }

    /// Returns the numbers of missing replies for all pending variables. They do not change while
    /// the result is used.
    #[inline(always)]
    pub(crate) fn counts<'a>(self, layout: &JoinLayout) -> &'a [Word] {
        // SAFETY: the counts are the last fields of joins with the layout.
        unsafe { object::slice(self.word(), layout.counts, layout.pending.len()) }
    }

    /// True if it has all of these flags.
    #[inline(always)]
    pub fn has(self, flags: Word) -> bool {
        self.flags() & flags == flags
    }

    /// Returns it as an object that owes an answer.
    #[inline(always)]
    pub fn owing(self) -> Owing {
        Owing(self.0)
    }

    /// Returns it as a party of an answer.
    #[inline(always)]
    pub fn party(self) -> Party {
        Party(self.0)
    }
}

/// An answer of a method that is no value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Delegated {
    /// Another object answers in its place.
    Owing(Owing),
    /// The exception is the answer.
    Exception(Exception),
}
