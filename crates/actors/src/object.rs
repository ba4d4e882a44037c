//! Typed references to the objects that belong to actors. The fields are in
//! [`actor_layout`](bifrost_runtime::actor_layout).
//!
//! A [`Word`] does not say to which object it refers. The types here do: [`Actor`], [`Message`],
//! [`Join`] and the others are words whose maker has promised that ([`Actor::new`]). So the
//! functions of this crate that take them are safe, and read the fields without a promise of their
//! own. Two rules go with it:
//!
//! - A typed reference is used only while something keeps its object: a guard, a queue, another
//!   object. Objects never move, so a reference stays the same until then.
//! - A [`Word`] that is a *value* (an argument, a result, a variable) is trusted to have the type of
//!   its place. The verifier has shown that for programs, and `transfer` for packets.
//!
//! | type | object | fields |
//! | --- | --- | --- |
//! | [`Actor`] | an actor of this node, or the object that stands for one of another | its variables and its mail; [`far`] |
//! | [`Mail`] | the queued messages of an actor | [`mail`] |
//! | [`Message`] | a queued message | [`message`] |
//! | [`Join`] | a method that waits or may wait | [`join`] |
//! | [`Replier`] | a destination of an answer as a value | [`replier`] |
//! | [`Outgoing`] | a message that went to another node | [`outgoing`] |
//! | [`Away`] | a waiter on another node | [`away`] |
//! | [`Owing`] | any of `Message`, `Join`, `Replier`, `Outgoing`: it owes an answer | [`owed`] |
//! | [`Party`] | any object that begins with a [`Kind`]: answers go to it | [`owed`] |
//! | [`Exception`] | an exception that is kept | [`exception`] |

use std::num::NonZero;

use bifrost_heap::HeapFull;
use bifrost_ir::{MethodId, MethodRef, TypeId};
use bifrost_runtime::Cx;
use bifrost_runtime::abi::{Code, Word};
use bifrost_runtime::actor_class::{ActorClass, JoinLayout, MessageKind, State};
use bifrost_runtime::actor_layout::{
    Due, Kind, away, exception, far, join, mail, message, outgoing, owed, replier,
};
use bifrost_runtime::image::{ClassInfo, Table};
use bifrost_runtime::object;
use bifrost_runtime::transfer::Address;

use crate::answers::Answer;

/// Makes a type of references.
macro_rules! reference {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(transparent)]
        pub struct $name(NonZero<Word>);

        impl $name {
            /// Makes a typed reference of a word.
            ///
            /// # Safety
            /// The word is a reference to such an object, which lives as long as the result and its
            /// copies are used.
            #[inline(always)]
            pub unsafe fn new(word: Word) -> $name {
                debug_assert!(word != 0, "a reference");
                // SAFETY: references are not 0.
                $name(unsafe { NonZero::new_unchecked(word) })
            }

            /// Makes one of a word that may be 0.
            ///
            /// # Safety
            /// As for `new`, or the word is 0.
            #[inline(always)]
            pub unsafe fn of(word: Word) -> Option<$name> {
                NonZero::new(word).map($name)
            }

            /// Returns the reference as a word.
            #[inline(always)]
            pub fn word(self) -> Word {
                self.0.get()
            }

            #[inline(always)]
            fn get(self, field: usize) -> Word {
                // SAFETY: `new` was promised such an object, which has the field.
                unsafe { object::get(self.word(), field) }
            }

            #[inline(always)]
            #[allow(dead_code, reason = "objects that only others change")]
            fn set(self, field: usize, word: Word) {
                // SAFETY: `new` was promised such an object, which has the field; the callers are in
                // this file, and pass words of its type.
                unsafe { object::set(self.word(), field, word) };
            }
        }
    };
}

/// Returns a reference as a word, or 0.
macro_rules! word_of {
    ($value:expr) => {
        $value.map_or(0, |reference| reference.word())
    };
}

/// Makes a field that is data: its reader and its writer.
macro_rules! data {
    ($($(#[$doc:meta])* $name:ident, $set:ident = $field:expr;)*) => {
        $(
            $(#[$doc])*
            #[inline(always)]
            pub fn $name(self) -> Word {
                self.get($field)
            }

            /// Changes it.
            #[inline(always)]
            pub fn $set(self, word: Word) {
                self.set($field, word);
            }
        )*
    };
}

/// Makes a field that is a reference or 0: its reader and its writer.
macro_rules! links {
    ($($(#[$doc:meta])* $name:ident, $set:ident: $to:ident = $field:expr;)*) => {
        $(
            $(#[$doc])*
            #[inline(always)]
            pub fn $name(self) -> Option<$to> {
                // SAFETY: the field has such a reference or 0, and its object lives as this one.
                unsafe { $to::of(self.get($field)) }
            }

            /// Changes it.
            #[inline(always)]
            pub fn $set(self, to: Option<$to>) {
                self.set($field, word_of!(to));
            }
        )*
    };
}

reference! {
    /// An actor of this node, or the object that stands for an actor of another node.
    Actor
}

impl Actor {
    /// Returns the table of its state.
    #[inline(always)]
    pub fn table(self) -> &'static Table {
        // SAFETY: `new` was promised an object.
        unsafe { Table::of(self.word()) }
    }

    /// Returns the facts of its class.
    #[inline(always)]
    pub fn info(self) -> &'static ClassInfo {
        self.table().info()
    }

    /// Returns the facts of its class that only classes of actors have.
    #[inline(always)]
    pub fn class(self) -> &'static ActorClass {
        self.info().actor().expect("actors have a class of actors")
    }

    /// Returns its type.
    #[inline(always)]
    pub fn ty(self) -> TypeId {
        self.info().ty
    }

    /// Returns its state.
    #[inline(always)]
    pub fn state(self) -> State {
        self.table().state()
    }

    /// Changes its state.
    #[inline(always)]
    pub(crate) fn set_state(self, state: State) {
        self.enter_state(self.class(), state);
    }

    /// Changes its state; the class is its own.
    #[inline(always)]
    pub(crate) fn enter_state(self, class: &ActorClass, state: State) {
        // SAFETY: `new` was promised an actor, whose first word is one of its class's tables.
        unsafe { *(self.word() as *mut Word) = std::ptr::from_ref(class.table(state)) as Word };
    }

    /// Returns the method of its class at a slot.
    #[inline]
    pub fn method(self, slot: u32) -> MethodId {
        self.info().methods[slot as usize].expect("the actor has the method")
    }

    /// Returns the same, with its type.
    #[inline]
    pub fn method_ref(self, slot: u32) -> MethodRef {
        MethodRef { ty: self.ty(), method: self.method(slot) }
    }

    /// Makes an actor of a class, with its table, on this node.
    ///
    /// # Errors
    /// The heap is full.
    pub(crate) fn make(cx: &mut Cx, table: &'static Table, class: &ActorClass) -> Result<Actor, HeapFull> {
        let object = cx.alloc(table, class.mail + 1)?;
        // SAFETY: the object is a new actor.
        Ok(unsafe { Actor::new(object.as_ptr() as Word) })
    }

    /// Makes the object that stands for an actor of another node.
    ///
    /// # Errors
    /// The heap is full.
    pub(crate) fn make_far(cx: &mut Cx, class: &ActorClass, address: Address) -> Result<Actor, HeapFull> {
        let object = cx.alloc(class.table(State::Remote), far::FIELDS)?;
        // SAFETY: the object is such a new one.
        let made = unsafe { Actor::new(object.as_ptr() as Word) };
        made.set(far::PLACE, place_of(address));
        made.set(far::GENERATION, u64::from(address.generation));
        Ok(made)
    }

    /// Returns its mail, if messages are queued or a method waits. It is an actor of this node.
    #[inline(always)]
    pub fn mail(self) -> Option<Mail> {
        self.mail_in(self.class())
    }

    /// Returns the same; the class is its own.
    #[inline(always)]
    pub(crate) fn mail_in(self, class: &ActorClass) -> Option<Mail> {
        // SAFETY: the field has the actor's mail or 0, which lives as long as the actor has it.
        unsafe { Mail::of(self.get(class.mail)) }
    }

    /// Changes its mail; the class is its own.
    #[inline(always)]
    pub(crate) fn set_mail(self, class: &ActorClass, to: Option<Mail>) {
        self.set(class.mail, word_of!(to));
    }

    /// True if the mailbox of an actor of another node is nearly full.
    #[inline(always)]
    pub(crate) fn is_full(self) -> bool {
        self.get(far::PLACE) & far::FULL != 0
    }

    /// Changes that.
    pub(crate) fn set_full(self, is_full: bool) {
        let place = self.get(far::PLACE) & !far::FULL;
        self.set(far::PLACE, if is_full { place | far::FULL } else { place });
    }

    /// Returns the address of an actor of another node.
    #[inline(always)]
    pub(crate) fn address(self) -> Address {
        far_address(self.get(far::PLACE), self.get(far::GENERATION))
    }
}

/// Returns an address from the fields of an object that stands for another node's.
#[inline(always)]
fn far_address(place: Word, generation: Word) -> Address {
    let place = place & !far::FULL;
    Address { capsule: 0, node: (place >> 32) as u32, index: place as u32, generation: generation as u32 }
}

fn place_of(address: Address) -> Word {
    u64::from(address.node) << 32 | u64::from(address.index)
}

reference! {
    /// The queued messages of an actor, in lists.
    Mail
}

impl Mail {
    /// Makes the mail of an actor of a class. `kept` is kept meanwhile.
    ///
    /// # Errors
    /// The heap is full.
    #[inline(always)]
    pub(crate) fn make(cx: &mut Cx, class: &ActorClass, kept: Word) -> Result<Mail, HeapFull> {
        let fields = mail::fields(class.lists);
        let object = match cx.alloc_in_room(class.mail_table, fields) {
            Some(object) => object,
            None => {
                let _kept = cx.keep(kept);
                cx.alloc(class.mail_table, fields)?
            }
        };
        // SAFETY: the object is new mail.
        Ok(unsafe { Mail::new(object.as_ptr() as Word) })
    }

    data! {
        /// Returns the number of queued messages and the words that they carry, in one word.
        waiting, set_waiting = mail::COUNT;
        /// Returns the number of the next message.
        next_number, set_next_number = mail::NEXT_NUMBER;
        /// Returns 1 while the actor is in the ready queue, else 0.
        scheduled, set_scheduled = mail::SCHEDULED;
        /// Returns a bit for each method that its selection takes.
        takes, set_takes = mail::TAKES;
        /// Returns the reason of the actor's failure, a string, or 0.
        failure, set_failure = mail::FAILURE;
    }

    links! {
        /// Returns the join that waits, of a method of the actor.
        waiter, set_waiter: Join = mail::WAITING;
    }

    /// Returns the number of queued messages.
    #[inline(always)]
    pub fn count(self) -> u64 {
        mail::count(self.waiting())
    }

    /// Returns the first message of the list that begins in a field.
    #[inline(always)]
    pub fn first(self, list: usize) -> Option<Message> {
        // SAFETY: lists are in fields that the mail has, and hold messages.
        unsafe { Message::of(self.get(list)) }
    }

    /// Returns the messages of the list that begins in a field. The list does not change meanwhile.
    pub(crate) fn list(self, list: usize) -> impl Iterator<Item = Message> {
        std::iter::successors(self.first(list), |sent| sent.next())
    }

    /// Returns the fields in which lists begin, of mail of the class.
    #[inline(always)]
    pub(crate) fn lists(class: &ActorClass) -> impl Iterator<Item = usize> + use<> {
        (mail::LISTS..mail::fields(class.lists)).step_by(2)
    }

    /// Puts a message behind those of the list that begins in a field.
    #[inline(always)]
    pub(crate) fn append(self, list: usize, made: Message) {
        // SAFETY: as in `first`.
        match unsafe { Message::of(self.get(list + 1)) } {
            None => self.set(list, made.word()),
            Some(last) => last.set_next(Some(made)),
        }
        self.set(list + 1, made.word());
        self.set_waiting(self.waiting() + made.weight());
    }

    /// Takes a message out of the list that begins in a field; `before` is the one before it.
    #[inline(always)]
    pub(crate) fn remove(self, list: usize, before: Option<Message>, taken: Message) {
        let next = taken.next();
        match before {
            None => self.set(list, word_of!(next)),
            Some(before) => before.set_next(next),
        }
        if next.is_none() {
            self.set(list + 1, word_of!(before));
        }
        taken.set_next(None);
        self.set_waiting(self.waiting() - taken.weight());
    }
}

reference! {
    /// A queued message.
    Message
}

impl Message {
    data! {
        /// Returns its number by the receiver's count, where that has several lists.
        number, set_number = message::NUMBER;
    }

    links! {
        /// Returns the next message of its list, or the one around it in arms.
        next, set_next: Message = message::NEXT;
    }

    /// Makes a message without contents: a served one that nothing refers to any more, or a new
    /// object if there is room for it without a collection. Machine code does the same.
    #[inline(always)]
    pub(crate) fn in_room(cx: &mut Cx, kind: &MessageKind) -> Option<Message> {
        if let Some(list) = cx.words.spare.get_mut(kind.args)
            && let Some(served) = NonZero::new(*list).map(Message)
        {
            *list = word_of!(served.next());
            served.set_next(None);
            // SAFETY: a served message with as many arguments, whose first word is its table.
            unsafe { *(served.word() as *mut Word) = std::ptr::from_ref(kind.table) as Word };
            return Some(served);
        }
        let object = cx.alloc_in_room(kind.table, message::ARGS + kind.args)?;
        NonZero::new(object.as_ptr() as Word).map(Message)
    }

    /// Makes a message without contents, after a collection if there must be one.
    ///
    /// # Errors
    /// The heap is full.
    pub(crate) fn make(cx: &mut Cx, kind: &MessageKind) -> Result<Message, HeapFull> {
        let object = cx.alloc(kind.table, message::ARGS + kind.args)?;
        // SAFETY: the object is a new message.
        Ok(unsafe { Message::new(object.as_ptr() as Word) })
    }

    /// Enters the contents of a message; its objects have so many words.
    #[inline(always)]
    pub(crate) fn begin(self, call: Call<'_>, carried: Word) {
        self.set(owed::KIND, message::kind_with(call.slot, carried));
        for (at, word) in call.words.iter().enumerate() {
            self.set(message::RECEIVER + at, *word);
        }
    }

    /// Returns the actor.
    #[inline(always)]
    pub fn receiver(self) -> Actor {
        // SAFETY: the receiver is an actor, which lives as long as the message.
        unsafe { Actor::new(self.get(message::RECEIVER)) }
    }

    /// Returns the slot of its method.
    #[inline(always)]
    pub fn slot(self) -> u32 {
        (self.get(owed::KIND) >> message::SLOT_SHIFT) as u32
    }

    /// Returns it as a call: the actor and the arguments.
    #[inline(always)]
    pub fn call<'a>(self) -> Call<'a> {
        Call { slot: self.slot(), words: self.words() }
    }

    /// Returns the same for the method at another slot, with the same arguments: that of a supertype,
    /// by which the message is known.
    pub fn call_at<'a>(self, slot: u32) -> Call<'a> {
        Call { slot, words: self.words() }
    }

    /// Returns the actor and the arguments, as its method takes them. They are used while something
    /// keeps the message, and do not change.
    #[inline(always)]
    pub fn words<'a>(self) -> &'a [Word] {
        // SAFETY: the words are the last of the message's fields.
        unsafe {
            object::slice(self.word(), message::RECEIVER, object::fields(self.word()) - message::RECEIVER)
        }
    }

    /// Returns the amount that it adds to [`Mail::waiting`].
    #[inline(always)]
    fn weight(self) -> Word {
        let carried = self.get(owed::KIND) >> message::CARRIED_SHIFT & message::CARRIED_MAX;
        1 + (carried << mail::CARRIED_SHIFT)
    }

    /// True if it was answered.
    #[inline(always)]
    pub fn is_answered(self) -> bool {
        self.get(owed::KIND) & message::ANSWERED != 0
    }

    /// Notes that it was answered.
    #[inline(always)]
    pub(crate) fn set_answered(self) {
        self.set(owed::KIND, self.get(owed::KIND) | message::ANSWERED);
    }

    /// Returns it as an object that owes an answer.
    #[inline(always)]
    pub fn owing(self) -> Owing {
        Owing(self.0)
    }
}

/// A message that is about to be sent, or a queued one that is served: the slot of its method, and
/// the words that the method takes, the receiver first.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    slot: u32,
    words: &'a [Word],
}

impl<'a> Call<'a> {
    /// Makes a call for the method of a slot.
    ///
    /// # Safety
    /// The first word is a reference to an actor that has the slot's method; the others are the
    /// method's arguments. Something keeps them as long as the call is used.
    #[inline(always)]
    pub unsafe fn new(slot: u32, words: &'a [Word]) -> Call<'a> {
        Call { slot, words }
    }

    /// Returns the slot of the method.
    #[inline(always)]
    pub fn slot(self) -> u32 {
        self.slot
    }

    /// Returns the receiver.
    #[inline(always)]
    pub fn actor(self) -> Actor {
        // SAFETY: `new` was promised an actor.
        unsafe { Actor::new(self.words[0]) }
    }

    /// Returns the method.
    #[inline(always)]
    pub fn method(self) -> MethodId {
        self.actor().method(self.slot)
    }

    /// Returns the entry for the receiver's state, which takes messages.
    #[inline(always)]
    pub(crate) fn entry(self) -> Code {
        // SAFETY: `new` was promised an actor that has the slot.
        unsafe { self.actor().table().entry(self.slot) }
    }

    /// Returns the code of the method.
    #[inline(always)]
    pub(crate) fn code(self) -> Code {
        // SAFETY: `new` was promised an actor that has the slot.
        unsafe { self.actor().class().code.entry(self.slot) }
    }

    /// Returns the receiver and the arguments.
    #[inline(always)]
    pub fn words(self) -> &'a [Word] {
        self.words
    }

    /// Returns the arguments.
    #[inline(always)]
    pub fn arguments(self) -> &'a [Word] {
        &self.words[1..]
    }
}

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

    /// Makes a join with a layout, of an actor or of none. The words of its variables are those with
    /// which all such joins begin. The caller keeps the actor.
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
