//! References to queued messages and the mail that they are in; calls, which are messages that are
//! not queued.

use std::num::NonZero;

use bifrost_heap::HeapFull;
use bifrost_ir::MethodId;
use bifrost_runtime::abi::{Code, Word};
use bifrost_runtime::actor_class::{ActorClass, MessageKind};
use bifrost_runtime::actor_layout::{mail, message, owed, watcher};
use bifrost_runtime::cx::Cx;
use bifrost_runtime::object;

use crate::object::{Actor, Join, Owing, Party, Replier};

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
        /// Returns the reason of the actor's failure or end, a string, or 0.
        failure, set_failure = mail::FAILURE;
    }

    links! {
        /// Returns the join that waits, of a method of the actor.
        waiter, set_waiter: Join = mail::WAITING;
        /// Returns the first watcher of the actor.
        watchers, set_watchers: Watcher = mail::WATCHERS;
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

    /// Takes a message out of its list, if it is in one. Returns true if it was.
    pub(crate) fn withdraw(self, class: &ActorClass, sent: Message) -> bool {
        for list in Mail::lists(class) {
            let mut before = None;
            for each in self.list(list) {
                if each == sent {
                    self.remove(list, before, sent);
                    return true;
                }
                before = Some(each);
            }
        }
        false
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
    /// A watcher: an entry in the list of an actor's monitors.
    Watcher
}

impl Watcher {
    links! {
        /// Returns the next entry of the list.
        next, set_next: Watcher = watcher::NEXT;
    }

    /// Makes an entry for a destination.
    ///
    /// # Errors
    /// The heap is full.
    pub(crate) fn make(cx: &mut Cx, destination: Replier) -> Result<Watcher, HeapFull> {
        let _destination = cx.keep(destination.word());
        let table = cx.image().of_actors.watcher;
        let object = cx.alloc(table, watcher::FIELDS)?;
        // SAFETY: the object is such a new one.
        let made = unsafe { Watcher::new(object.as_ptr() as Word) };
        made.set(watcher::DESTINATION, destination.word());
        Ok(made)
    }

    /// Returns the destination that gets the reason of the actor's end.
    pub(crate) fn destination(self) -> Replier {
        // SAFETY: the field has a destination, which lives as long as the entry.
        unsafe { Replier::new(self.get(watcher::DESTINATION)) }
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

    /// Returns the same for the method at another slot, with the same arguments: that of a
    /// supertype, by which the message is known.
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

    /// Changes the last argument, which is a string.
    pub(crate) fn set_last_argument(self, text: Word) {
        let last = self.words().len() - 1;
        if last > 0 {
            self.set(message::RECEIVER + last, text);
        }
    }

    /// Returns it as a party of an answer: the answer becomes its last argument.
    pub(crate) fn party(self) -> Party {
        Party(self.0)
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
