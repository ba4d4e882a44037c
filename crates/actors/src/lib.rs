//! Actors on one node: messages, answers, and the order in which work is done
//! (`docs/internals/actors.md`; 003 sections 3 and 4). Other nodes are in `remote.rs` and
//! `packets.rs`.
//!
//! A node is a context with a queue. [`Actors`] is the context's part that belongs to actors. A
//! message to a dormant actor is a call on the sender's stack ([`message`]). A message to a busy
//! actor is queued, and so is one that comes too deep on the stack.
//!
//! A call that cannot answer yet ends with the outcome `Pending` and the object that owes the
//! answer. That is the queued message, or the join of the method that waits. Its caller writes the
//! destination of the answer there ([`owe`]), and goes on. So nothing is allocated for a request
//! that is answered at once. No frame is ever copied: the methods that wait unwind into joins, one
//! level after the other.
//!
//! The functions to read first are [`send`] and `queue` for a message, [`answer`] and `suspend` for
//! a method that waits, and [`run_node`] for the queue. The objects and their fields are in
//! [`actor_layout`](bifrost_runtime::actor_layout).
//!
//! | caller | functions |
//! | --- | --- |
//! | code that sends | [`message`], [`create()`] |
//! | code that gets `Pending` | [`owe`] |
//! | code of a method that may wait | [`pend`], [`leave_code`] |
//! | the interpreter of such a method | [`begin`], [`answer`], [`take_message`] |
//! | the thread that runs the node | [`call_main`] |

mod answers;
mod code;
mod create;
mod credit;
mod cycles;
mod exceptions;
mod find;
mod guest;
mod host;
mod kinds;
mod mailbox;
mod network;
mod node;
pub mod outlet;
mod packets;
mod placement;
mod program;
mod remote;
mod rounds;
mod search;
mod timers;
mod told;
mod trace;
mod waits;
mod walk;

pub use answers::{delegate_early, deliver_now, keep_answer, new_replier, owe};
use answers::{deliver_owed, deliver_to, fill, owe_as};
pub use code::{
    Exit, LANDED, Next, begin, end_code, enter_message, enter_past, enter_pend, given, go_on,
    goes_on_as_code, kept, layout_for, leave_code, leave_method, leave_past, leave_way, log_sent,
    next_request, pend, settle_sent,
};
pub use create::{Site, create, enter_failed_creation};
pub use exceptions::{
    Concerned, Origin, first_exception, kept_exception, log_lost, note_exception, raise_kept,
};
use find::take_oldest;
pub use find::{Verdict, take_message};
pub use guest::{
    Asked, Base, Named, Wanted, ask, asked_at, forget_requests, grant, has_open_requests, hold_messages,
    join, leave_messages, need_no_value, number_from, open_requests, post_messages, published, release,
    set_guest, set_open_max,
};
pub use host::{HOST, WithActors};
pub use kinds::{PACKETS, PacketKind};
pub use network::{Network, Received, Wait};
pub use node::{Actors, must_make_way, run_node, set_network, start_trace, step_node, take_trace};
pub use placement::LOOKS;
pub(crate) use program::leave_transaction;
pub use program::{call_main, send_past};
pub use timers::{end_timer, start_timer};
pub use trace::{EVENTS_MAX, Event, Trace, What};

use bifrost_heap::HeapFull;
use bifrost_ir::{MethodId, MethodRef, SignalId, TypeKind};
use smallvec::SmallVec;

use bifrost_runtime::abi::{Outcome, Ret, Word, enter};
use bifrost_runtime::actor_class::{ActorClass, JoinLayout, MessageKind, State};
use bifrost_runtime::actor_layout::{Due, Kind, join, mail, message, owed};
use bifrost_runtime::cx::Cx;
use bifrost_runtime::image::{Image, Table};
use bifrost_runtime::node_words::Stats;
use bifrost_runtime::object::{self, get, set};
use bifrost_runtime::roots::KeptAll;

/// The length of mail from which a sender makes way at the end of a loop's step. Machine code
/// queues no more messages than this by itself.
pub const MAIL_LONG: u64 = 4096;

/// The number of messages in long mail of which one makes its sender make way. From twice
/// [`MAIL_LONG`] on each message does. None does if the actor runs now: that may be the sender
/// itself, and it serves no message before it is done.
const MAIL_STEP: u64 = 32;

/// The failure of a method that has a result and ends without an answer.
pub const UNANSWERED: &str = "the method ended without an answer";

/// Returns the outcome `Pending` with the object that owes the answer.
#[inline]
pub fn pending(owing: Word) -> Ret {
    Ret { outcome: Outcome::Pending as u64, value: owing }
}

/// An answer: a result or an exception.
#[derive(Clone, Copy, Debug)]
pub enum Answer {
    /// A result, or 0 without one.
    Value(Word),
    /// An exception that is kept ([`exceptions::kept_exception`](crate::exceptions::kept_exception)).
    Exception(Word),
}

/// Returns the context's image. It lives as long as the process. So nothing is counted here: all
/// contexts share one count.
unsafe fn image_of<'a>(cx: *const Cx) -> &'a Image {
    // SAFETY: promised by the caller: the context is the current one.
    unsafe { (*cx).image() }
}

/// Returns the class of an actor.
///
/// # Safety
/// `actor` is a reference to an actor.
#[inline]
pub unsafe fn class_of(actor: Word) -> &'static ActorClass {
    // SAFETY: promised by the caller.
    unsafe { Table::of(actor) }.info().actor().expect("actors have a class of actors")
}

/// Returns the state of an actor.
///
/// # Safety
/// `actor` is a reference to an actor.
#[inline]
pub unsafe fn state(actor: Word) -> State {
    // SAFETY: promised by the caller.
    unsafe { Table::of(actor) }.state()
}

/// Returns the method of an actor's class at a slot.
///
/// # Safety
/// `actor` is a reference to an actor that has the slot's method.
#[inline]
pub unsafe fn method_of(actor: Word, slot: u32) -> MethodId {
    // SAFETY: promised by the caller.
    let methods = unsafe { &Table::of(actor).info().methods };
    methods[slot as usize].expect("the actor has the method")
}

unsafe fn set_state(actor: Word, state: State) {
    // SAFETY: promised by the caller: an actor.
    unsafe { enter_state(actor, class_of(actor), state) };
}

#[inline]
unsafe fn enter_state(actor: Word, class: &ActorClass, state: State) {
    // SAFETY: promised by the caller: an actor of the class, which has a table for each state.
    unsafe { *(actor as *mut Word) = std::ptr::from_ref(class.table(state)) as Word };
}

/// Sends a message of the past form or a request. If the method ran at once and has answered, this
/// returns its result or its signal. Otherwise it returns `Pending` with the object that owes the
/// answer. A sender that wants the answer must say so then ([`owe`]); one that does not is done.
///
/// # Safety
/// `cx` is the current context. `args` are the receiver, which is an actor that has the slot's
/// method, and the method's arguments; the caller keeps them.
pub unsafe fn send(cx: *mut Cx, slot: u32, args: &[Word]) -> Ret {
    // SAFETY: promised by the caller.
    match unsafe { try_send(cx, slot, args) } {
        Ok(ret) | Err(ret) => ret,
    }
}

/// Does as [`send`], and tells exceptions of the method from those of the sender.
///
/// # Errors
/// The outcome that the sender ends with: its message was not sent.
///
/// # Safety
/// As for [`send`].
unsafe fn try_send(cx: *mut Cx, slot: u32, args: &[Word]) -> Result<Ret, Ret> {
    // SAFETY: promised by the caller.
    unsafe {
        let actor = args[0];
        let class = class_of(actor);
        Ok(match Table::of(actor).state() {
            // The actor may take the message at once.
            State::Dormant if !may_nest(cx) => return put(cx, slot, args),
            State::Dormant if class.functional => {
                (*cx).words.stats.direct += 1;
                run_method(cx, slot, args)
            }
            State::Dormant => {
                let others = (*cx).words.ran_others;
                let mut is_refused = refused(cx, class, slot, args);
                if (*cx).words.ran_others != others {
                    // The others may have sent it messages, too.
                    if state(actor) != State::Dormant {
                        return try_send(cx, slot, args);
                    }
                    is_refused = alone(cx, || refused(cx, class, slot, args));
                }
                match is_refused {
                    Ok(false) => {}
                    Ok(true) => return enqueue(cx, slot, args),
                    Err(ret) => return Ok(ret),
                }
                (*cx).words.stats.direct += 1;
                set_state(actor, State::Active);
                let ret = run_method(cx, slot, args);
                leave_method(cx, actor, ret.outcome, ret.value)
            }
            State::Active | State::Selecting => return enqueue(cx, slot, args),
            State::Failed => {
                (*cx).words.stats.refused += 1;
                failed(cx, actor)
            }
            State::Remote => packets::send(cx, slot, args),
        })
    }
}

/// Notes that nobody awaits the answer that an outcome `Pending` promised.
///
/// # Safety
/// `cx` is the current context, and `owing` came with the outcome.
pub unsafe fn drop_answer(cx: *mut Cx, owing: Word) {
    // SAFETY: promised by the caller.
    unsafe {
        if Kind::of(owing) == Kind::Outgoing {
            packets::settle_open(cx);
        }
    }
}

/// Returns the answer of an actor whose creator failed.
unsafe fn failed(cx: *mut Cx, actor: Word) -> Ret {
    // SAFETY: promised by the caller: an actor, which has mail when it failed, but for want of
    // memory.
    unsafe {
        let post = get(actor, class_of(actor).mail);
        let why = if post == 0 { 0 } else { get(post, mail::FAILURE) };
        (*cx).signal_id = u64::from(SignalId::FAILURE.as_u32());
        (*cx).signal_values[0] = if why == 0 { (*cx).image().empty_string() } else { why };
        Ret::SIGNALLED
    }
}

/// True if there is room on the stack for a call in place of a queued message.
#[inline]
unsafe fn may_nest(cx: *mut Cx) -> bool {
    // SAFETY: promised by the caller.
    unsafe { (*cx).may_nest() && !(*cx).actors().postpones() }
}

/// Runs `act` while nothing else may run above passive code on the stack.
unsafe fn alone<T>(cx: *mut Cx, act: impl FnOnce() -> T) -> T {
    // SAFETY: promised by the caller: `cx` is the current context.
    unsafe {
        let before = std::mem::replace(&mut (*cx).actors().alone, true);
        let done = act();
        (*cx).actors().alone = before;
        done
    }
}

/// True if the actor's class refuses a message now. Others may run above a condition that lasts
/// ([`Actors::ran_others`]), and change the variables that it has read.
///
/// # Safety
/// `cx` is the current context, and `args` are the actor and the arguments of the slot's method;
/// the caller keeps them.
///
/// # Errors
/// The outcome of a condition that did not return.
pub unsafe fn refused(cx: *mut Cx, class: &ActorClass, slot: u32, args: &[Word]) -> Result<bool, Ret> {
    // SAFETY: promised by the caller.
    unsafe {
        let Some(guard) = class.guard(method_of(args[0], slot)) else { return Ok(false) };
        match code::run(cx, guard, args) {
            ret if ret.returned() => Ok(ret.value != 0),
            ret => Err(ret),
        }
    }
}

/// Enters the method of an actor, for a message that is a call.
unsafe fn run_method(cx: *mut Cx, slot: u32, args: &[Word]) -> Ret {
    // SAFETY: promised by the caller.
    unsafe {
        if !(*cx).actors().is_traced() {
            return enter_method(cx, slot, args);
        }
        let (ty, start) = (Table::of(args[0]).info().ty, crate::node::trace_clock(&mut *cx));
        let what = What::Call(MethodRef { ty, method: method_of(args[0], slot) });
        let ret = enter_method(cx, slot, args);
        crate::node::note(&mut *cx, what, start);
        ret
    }
}

/// Enters the method of an actor.
unsafe fn enter_method(cx: *mut Cx, slot: u32, args: &[Word]) -> Ret {
    // SAFETY: promised by the caller.
    unsafe {
        if (*cx).image().has_engine() {
            return enter(class_of(args[0]).code.entry(slot), cx, args);
        }
        let func = (*cx).image().method_func(Table::of(args[0]).info(), slot);
        code::run(cx, func.expect("methods of actors are functions"), args)
    }
}

/// Queues a message, if its mailbox has room. Returns `Pending` with the message.
///
/// # Errors
/// The outcome that its sender ends with.
#[cold]
unsafe fn enqueue(cx: *mut Cx, slot: u32, args: &[Word]) -> Result<Ret, Ret> {
    // SAFETY: promised by the caller.
    unsafe {
        mailbox::admit(cx, args[0], slot)?;
        put(cx, slot, args)
    }
}

/// Queues a message without a look at the mailbox, else as [`enqueue`].
unsafe fn put(cx: *mut Cx, slot: u32, args: &[Word]) -> Result<Ret, Ret> {
    // SAFETY: promised by the caller.
    unsafe {
        let ret = message_of(cx, slot, args);
        if !ret.returned() {
            return Err(ret);
        }
        match queue(cx, ret.value) {
            ret if Outcome::from(ret) == Outcome::Pending => Ok(ret),
            ret => Err(ret),
        }
    }
}

/// Keeps the actor and the arguments of a message that are references.
unsafe fn keep_words(cx: *mut Cx, kind: &MessageKind, args: &[Word]) -> KeptAll {
    let references = args[1..].iter().enumerate().filter(|(at, _)| kind.references >> at & 1 == 1);
    let words: SmallVec<[Word; 8]> = references.map(|(_, word)| *word).chain([args[0]]).collect();
    // SAFETY: promised by the caller: the current context, an actor, and what a method of it takes.
    unsafe { (*cx).keep_all(&words) }
}

/// Makes the object of a message. Returns it, or the outcome to end with.
unsafe fn message_of(cx: *mut Cx, slot: u32, args: &[Word]) -> Ret {
    // SAFETY: promised by the caller; all that is allocated is kept until it is reachable.
    unsafe {
        let actor = args[0];
        let kind = class_of(actor).message(method_of(actor, slot));
        let fields = message::ARGS + kind.args;
        let made = if let Some(served) = served_message(cx, kind) {
            served
        } else if let Some(made) = (*cx).alloc_in_room(kind.table, fields) {
            made.as_ptr() as Word
        } else {
            let _words = keep_words(cx, kind, args);
            match (*cx).alloc(kind.table, fields) {
                Ok(made) => made.as_ptr() as Word,
                Err(full) => return (*cx).out_of_memory(full),
            }
        };
        let carried = if kind.carries == 0 { 0 } else { mailbox::carried(cx, kind, args) };
        set(made, owed::KIND, message::kind_with(slot, carried));
        for (at, word) in args.iter().enumerate() {
            set(made, message::RECEIVER + at, *word);
        }
        Ret::of(made)
    }
}

/// Takes a served message that nothing refers to any more, for one of a kind. Machine code takes
/// them in the same way.
unsafe fn served_message(cx: *mut Cx, kind: &MessageKind) -> Option<Word> {
    // SAFETY: promised by the caller; the list holds messages of the context with so many
    // arguments, and what owes nothing.
    unsafe {
        let list = (*cx).words.spare.get_mut(kind.args).filter(|list| **list != 0)?;
        let served = *list;
        *list = get(served, message::NEXT);
        set(served, message::NEXT, 0);
        *(served as *mut Word) = std::ptr::from_ref(kind.table) as Word;
        Some(served)
    }
}

/// Puts a message into the queue of its receiver, an actor of this node. Returns `Pending` with the
/// message, or the outcome to end with.
unsafe fn queue(cx: *mut Cx, made: Word) -> Ret {
    // SAFETY: promised by the caller.
    unsafe {
        let actor = get(made, message::RECEIVER);
        (*cx).words.stats.queued += 1;
        let class = class_of(actor);
        if class.functional {
            (*cx).actors().push(node::Work::Message(made));
            return pending(made);
        }
        let method = method_of(actor, message::slot(made));
        let post = match mail_of(cx, class, actor, made) {
            Ok(post) => post,
            Err(full) => return (*cx).out_of_memory(full),
        };
        if class.lists > 1 {
            let number = get(post, mail::NEXT_NUMBER);
            set(post, mail::NEXT_NUMBER, number + 1);
            set(made, message::NUMBER, number);
        }
        append(post, class.list_of(method), made);
        let waiting = get(post, mail::COUNT) + mail::one(made);
        set(post, mail::COUNT, waiting);
        let count = mail::count(waiting);
        if count >= MAIL_LONG
            && (count.is_multiple_of(MAIL_STEP) || count >= 2 * MAIL_LONG && !is_on_stack(post))
        {
            // The sender makes way, if it can, so that the actor serves more messages than arrive.
            (*cx).words.turn_over = true;
        }
        match state(actor) {
            // Refused, or too deep on the stack: the queue dispatches it again, and later messages
            // wait behind it.
            State::Dormant => {
                set_state(actor, State::Active);
                schedule(cx, actor, post);
            }
            State::Selecting if takes(post, method) => schedule(cx, actor, post),
            _ => {}
        }
        pending(made)
    }
}

/// True if a method of an active actor is on the stack, and neither waits nor is in a queue.
unsafe fn is_on_stack(post: Word) -> bool {
    // SAFETY: promised by the caller: the actor's mail.
    unsafe {
        let waiter = get(post, mail::WAITING);
        get(post, mail::SCHEDULED) == 0 && (waiter == 0 || get(waiter, join::FLAGS) & join::WAITS == 0)
    }
}

/// Puts an actor into the queue of those that have something to do.
unsafe fn schedule(cx: *mut Cx, actor: Word, post: Word) {
    // SAFETY: promised by the caller: an actor and its mail.
    unsafe {
        if get(post, mail::SCHEDULED) == 0 {
            set(post, mail::SCHEDULED, 1);
            (*cx).actors().push(node::Work::Actor(actor));
        }
    }
}

/// True if the selection under way takes messages for a method.
unsafe fn takes(post: Word, method: MethodId) -> bool {
    // SAFETY: promised by the caller.
    unsafe { get(post, mail::TAKES) >> bit_of(method) & 1 == 1 }
}

/// Returns the bit of a method or pending variable. Those from the 64th on share one, so a wait may
/// take too much, never too little.
pub fn bit_of(method: MethodId) -> u32 {
    method.as_u32().min(63)
}

/// Returns the mail of an actor of the class, which is made if it has none. `kept` is kept
/// meanwhile, and through it the actor.
#[inline]
unsafe fn mail_of(cx: *mut Cx, class: &ActorClass, actor: Word, kept: Word) -> Result<Word, HeapFull> {
    // SAFETY: promised by the caller.
    unsafe {
        let post = get(actor, class.mail);
        if post != 0 {
            return Ok(post);
        }
        let fields = mail::fields(class.lists);
        let made = match (*cx).alloc_in_room(class.mail_table, fields) {
            Some(made) => made,
            None => {
                let _kept = (*cx).keep(kept);
                (*cx).alloc(class.mail_table, fields)?
            }
        };
        let made = made.as_ptr() as Word;
        set(actor, class.mail, made);
        Ok(made)
    }
}

/// Puts a message behind those of the list that begins in this field.
unsafe fn append(post: Word, first: usize, made: Word) {
    // SAFETY: promised by the caller.
    unsafe {
        match get(post, first + 1) {
            0 => set(post, first, made),
            last => set(last, message::NEXT, made),
        }
        set(post, first + 1, made);
    }
}

/// Takes a message out of the list that begins in this field; `before` is the one before it.
unsafe fn remove(post: Word, first: usize, before: Word, taken: Word) {
    // SAFETY: promised by the caller.
    unsafe {
        let next = get(taken, message::NEXT);
        match before {
            0 => set(post, first, next),
            before => set(before, message::NEXT, next),
        }
        if next == 0 {
            set(post, first + 1, before);
        }
        set(taken, message::NEXT, 0);
        set(post, mail::COUNT, get(post, mail::COUNT) - mail::one(taken));
    }
}

/// Returns the words of a queued message as its method takes them: the actor first.
///
/// # Safety
/// `taken` is a message, which the caller keeps as long as it uses the words.
#[inline]
pub unsafe fn words_of<'a>(taken: Word) -> &'a [Word] {
    // SAFETY: promised by the caller.
    unsafe { object::slice(taken, message::RECEIVER, object::fields(taken) - message::RECEIVER) }
}

/// Sets the state of an actor whose method came back: it rests, waits, or has more to do. Returns
/// the outcome `Returned` or `Killed`.
unsafe fn rest(cx: *mut Cx, actor: Word, ret: Ret) -> Ret {
    // SAFETY: promised by the caller.
    unsafe {
        if ret.outcome == Outcome::Killed as u64 {
            return ret;
        }
        let class = class_of(actor);
        let post = get(actor, class.mail);
        if state(actor) == State::Failed {
            return Ret::NOTHING;
        }
        match post {
            0 => enter_state(actor, class, State::Dormant),
            // A join that waits has set the state.
            _ if get(post, mail::WAITING) != 0 => {}
            _ => rest_with(cx, actor, class, post),
        }
        Ret::NOTHING
    }
}

/// Does the same for an actor with mail, none of whose methods waits.
#[inline(always)]
unsafe fn rest_with(cx: *mut Cx, actor: Word, class: &ActorClass, post: Word) {
    // SAFETY: promised by the caller: the actor has not failed.
    unsafe {
        if get(post, mail::COUNT) == 0 {
            set(actor, class.mail, 0);
            enter_state(actor, class, State::Dormant);
        } else {
            enter_state(actor, class, State::Active);
            schedule(cx, actor, post);
        }
    }
}

/// Returns the layout of a join.
///
/// # Safety
/// `join` is a join, whose image lasts as long as the result.
#[inline]
pub unsafe fn layout_of<'a>(join: Word) -> &'a JoinLayout {
    // SAFETY: promised by the caller: who made the join has entered the address.
    unsafe { &*(get(join, join::LAYOUT) as *const JoinLayout) }
}

/// Puts a join into the queue of ready joins, once.
#[inline(never)]
unsafe fn ready(cx: *mut Cx, waiter: Word) {
    // SAFETY: promised by the caller.
    unsafe {
        let flags = get(waiter, join::FLAGS);
        if flags & join::READY == 0 {
            set(waiter, join::FLAGS, flags | join::READY);
            (*cx).actors().push(node::Work::Join(waiter));
        }
    }
}

/// Stores an element of an array or vector that nothing else refers to.
///
/// # Safety
/// `container` is a reference to an array or vector that has the element, whose type the word has.
pub unsafe fn store_element(image: &Image, container: Word, index: i64, value: Word) {
    use object::{array, vector};
    // SAFETY: promised by the caller.
    unsafe {
        match is_vector(image, container) {
            true => set(container, vector::ELEMENTS + (index - 1) as usize, value),
            false => {
                let at = (index - get(container, array::LOW) as i64) as usize;
                let head = get(container, array::HEAD) as usize;
                set(get(container, array::STORAGE), head + at, value);
            }
        }
    }
}

unsafe fn is_vector(image: &Image, container: Word) -> bool {
    // SAFETY: promised by the caller.
    let ty = unsafe { Table::of(container) }.info().ty;
    matches!(image.program().types.kind(ty), TypeKind::Vector(_))
}

/// True if an array or vector has an element.
///
/// # Safety
/// `container` is a reference to an array or vector.
pub unsafe fn has_element(image: &Image, container: Word, index: i64) -> bool {
    use object::{array, vector};
    // SAFETY: promised by the caller.
    unsafe {
        let (low, length) = match is_vector(image, container) {
            true => (1, get(container, vector::LENGTH)),
            false => (get(container, array::LOW) as i64, get(container, array::LENGTH)),
        };
        index >= low && index.wrapping_sub(low) < length as i64
    }
}

/// Answers the message that a method serves: the one taken in an arm of a selection, or that for
/// which the method itself runs.
///
/// # Safety
/// `cx` is the current context, `running` the join of the method; an exception is kept.
pub unsafe fn answer(cx: *mut Cx, running: Word, answer: Answer) {
    // SAFETY: promised by the caller.
    unsafe {
        let taken = get(running, join::TAKEN);
        if taken != 0 {
            message::set_answered(taken);
            return deliver_owed(cx, taken, answer);
        }
        let flags = get(running, join::FLAGS) | join::ANSWERED;
        set(running, join::FLAGS, flags);
        if flags & (join::DETACHED | join::NESTED) == join::DETACHED {
            return deliver_owed(cx, running, answer);
        }
        match answer {
            Answer::Value(word) => set(running, join::ANSWER, word),
            Answer::Exception(kept) => {
                set(running, join::FLAGS, flags | join::FAILED);
                set(running, join::DELEGATED, kept);
            }
        }
    }
}

/// True if the message that a method serves was answered.
///
/// # Safety
/// `running` is a join.
pub unsafe fn is_answered(running: Word) -> bool {
    // SAFETY: promised by the caller.
    unsafe {
        match get(running, join::TAKEN) {
            0 => get(running, join::FLAGS) & join::ANSWERED != 0,
            taken => message::is_answered(taken),
        }
    }
}

/// Has another object answer in place of the method: `owing` came with an outcome `Pending`.
///
/// # Safety
/// As for [`answer`].
pub unsafe fn delegate(cx: *mut Cx, running: Word, owing: Word) {
    // SAFETY: promised by the caller.
    unsafe {
        let taken = get(running, join::TAKEN);
        if taken != 0 {
            message::set_answered(taken);
            return owe_as(cx, owing, taken);
        }
        let flags = get(running, join::FLAGS) | join::ANSWERED;
        set(running, join::FLAGS, flags);
        match flags & (join::DETACHED | join::NESTED) == join::DETACHED {
            true => owe_as(cx, owing, running),
            false => {
                packets::expect_answer(cx, owing);
                set(running, join::DELEGATED, owing);
            }
        }
    }
}

/// Begins the arm of a selection for a message: until [`end_arm`], it is the one that the method
/// answers.
///
/// # Safety
/// `running` is a join, and `taken` a message that was taken for it.
pub unsafe fn begin_arm(running: Word, taken: Word) {
    // SAFETY: promised by the caller.
    unsafe {
        set(taken, message::NEXT, get(running, join::TAKEN));
        set(running, join::TAKEN, taken);
    }
}

/// Ends the arm. A message without answer gets `answer`.
///
/// # Safety
/// `cx` is the current context, and an arm of the join is under way.
pub unsafe fn end_arm(cx: *mut Cx, running: Word, given: Answer) {
    // SAFETY: promised by the caller.
    unsafe {
        let taken = get(running, join::TAKEN);
        if !message::is_answered(taken) {
            answer(cx, running, given);
        }
        set(running, join::TAKEN, get(taken, message::NEXT));
        set(taken, message::NEXT, 0);
    }
}

/// Suspends a method that stops to wait, once its join has its way. Returns the outcome that the
/// method ends with. From now on its answer goes to the object that awaits it.
///
/// # Safety
/// `cx` is the current context, and `waiter` the join, which waits.
#[inline(always)]
unsafe fn suspend(cx: *mut Cx, waiter: Word) -> Ret {
    // SAFETY: promised by the caller.
    unsafe {
        let flags = get(waiter, join::FLAGS);
        set(waiter, join::FLAGS, flags | join::WAITS | join::DETACHED);
        (*cx).words.stats.waits += 1;
        let actor = get(waiter, join::ACTOR);
        if actor != 0
            && let class = class_of(actor)
            && !class.functional
        {
            let post = match mail_of(cx, class, actor, waiter) {
                Ok(post) => post,
                Err(full) => return (*cx).out_of_memory(full),
            };
            if !waits_for_call(post, waiter) {
                set(post, mail::WAITING, waiter);
                set(post, mail::TAKES, get(waiter, join::MISSING));
                let selects = flags & join::SELECTS != 0;
                enter_state(actor, class, if selects { State::Selecting } else { State::Active });
            }
        }
        if flags & join::DETACHED != 0 {
            return Ret::NOTHING;
        }
        if flags & join::NESTED != 0 || flags & join::ANSWERED == 0 {
            return pending(waiter);
        }
        given_answer(cx, waiter, flags)
    }
}

/// True if a method of an actor waits for the end of a call of the actor on itself which waits too.
/// The innermost of such methods is the one in the mail: messages and answers resume it, and the
/// others go on behind it.
#[inline]
unsafe fn waits_for_call(post: Word, waiter: Word) -> bool {
    // SAFETY: promised by the caller: the actor's mail, and a join of the actor.
    unsafe {
        let innermost = get(post, mail::WAITING);
        innermost != 0 && innermost != waiter && get(innermost, join::FLAGS) & join::WAITS != 0
    }
}

/// Does as [`suspend`] for a method that makes way for others: it goes on by itself.
///
/// # Safety
/// As for [`suspend`].
unsafe fn make_way(cx: *mut Cx, waiter: Word) -> Ret {
    // SAFETY: promised by the caller.
    unsafe {
        let _kept = (*cx).keep(waiter);
        set(waiter, join::AWAITED, 0);
        set(waiter, join::MISSING, 0);
        let ret = suspend(cx, waiter);
        if !Outcome::from(ret).eq(&Outcome::Signalled) {
            (*cx).words.stats.ways += 1;
            match (*cx).actors().remote.credit.park(waiter) || mailbox::park(cx, waiter) {
                true => set(waiter, join::FLAGS, get(waiter, join::FLAGS) | join::READY),
                false => ready(cx, waiter),
            }
        }
        ret
    }
}

/// Returns the answer that a method has given while its caller is still there.
#[inline(never)]
unsafe fn given_answer(cx: *mut Cx, running: Word, flags: u64) -> Ret {
    // SAFETY: promised by the caller.
    unsafe {
        match get(running, join::DELEGATED) {
            0 => Ret::of(get(running, join::ANSWER)),
            kept if flags & join::FAILED != 0 => crate::exceptions::raise_kept(&mut *cx, kept),
            delegated => pending(delegated),
        }
    }
}

/// Ends a method that has a join. Without answer and without result it answers now. Returns the
/// result for its caller, or the outcome `Returned` or `Killed` if the caller is gone.
///
/// # Safety
/// `cx` is the current context, `running` the join. `ret` is returned, signalled with the exception
/// in the context, or killed.
unsafe fn end(cx: *mut Cx, running: Word, ret: Ret) -> Ret {
    // SAFETY: promised by the caller.
    unsafe {
        if ret.outcome == Outcome::Killed as u64 {
            return ret;
        }
        let flags = get(running, join::FLAGS);
        if ret.returned() && flags & join::ANSWERED != 0 && end_plainly(cx, running, 0) {
            return Ret::NOTHING;
        }
        let func = layout_of(running).func;
        let (signature, origin) = (&image_of(cx).program().funcs[func].signature, Origin::Func(func));
        let _kept = (*cx).keep(running);
        let detached = flags & join::DETACHED != 0;
        let nested = flags & join::NESTED != 0;
        if !ret.returned() && (detached || flags & join::ANSWERED != 0) {
            let kept = crate::exceptions::kept_exception(&mut *cx, &origin);
            match flags & join::ANSWERED {
                0 => answer(cx, running, Answer::Exception(kept)),
                _ => crate::exceptions::log_lost(&mut *cx, kept),
            }
        } else if ret.returned() && flags & join::ANSWERED == 0 {
            match signature.results.is_empty() {
                true => answer(cx, running, Answer::Value(0)),
                false => {
                    let _ = (*cx).failure(UNANSWERED);
                    let kept = crate::exceptions::kept_exception(&mut *cx, &origin);
                    answer(cx, running, Answer::Exception(kept));
                }
            }
        }
        let flags = get(running, join::FLAGS);
        set(running, join::FLAGS, flags | join::ENDED);
        exceptions::log_all(cx, running);
        if !detached {
            return match flags & join::ANSWERED {
                0 => ret,
                _ => given_answer(cx, running, flags),
            };
        }
        if nested {
            // Its caller is a method of the same actor, which stays busy, and waits in its place.
            let actor = get(running, join::ACTOR);
            set(get(actor, class_of(actor).mail), mail::WAITING, get(running, owed::TO));
            match given_answer(cx, running, flags) {
                ret if ret.outcome == Outcome::Pending as u64 => owe_as(cx, ret.value, running),
                ret if ret.returned() => deliver_owed(cx, running, Answer::Value(ret.value)),
                _ => {
                    let kept = crate::exceptions::kept_exception(&mut *cx, &origin);
                    deliver_owed(cx, running, Answer::Exception(kept));
                }
            }
            return Ret::NOTHING;
        }
        leave_actor(cx, running);
        Ret::NOTHING
    }
}

/// Ends a method whose caller is gone, with this value if it has not answered yet. Returns false,
/// and does nothing, if there is more to see to; else true.
///
/// # Safety
/// As for [`end`].
#[inline]
unsafe fn end_plainly(cx: *mut Cx, running: Word, value: Word) -> bool {
    // SAFETY: promised by the caller.
    unsafe {
        let flags = get(running, join::FLAGS);
        if flags & (join::DETACHED | join::NESTED) != join::DETACHED
            || get(running, join::EXCEPTIONS) | get(running, join::TAKEN) != 0
        {
            return false;
        }
        set(running, join::FLAGS, flags | join::ANSWERED | join::ENDED);
        if flags & join::ANSWERED == 0 && get(running, owed::TO) != 0 {
            deliver_owed(cx, running, Answer::Value(value));
        }
        leave_actor(cx, running);
        true
    }
}

/// Sets the state of the actor of a method that has ended after its caller was gone.
#[inline]
unsafe fn leave_actor(cx: *mut Cx, running: Word) {
    // SAFETY: promised by the caller: a join.
    unsafe {
        let actor = get(running, join::ACTOR);
        if actor == 0 {
            return;
        }
        let class = class_of(actor);
        if class.functional {
            return;
        }
        let post = get(actor, class.mail);
        set(post, mail::WAITING, 0);
        if state(actor) != State::Failed {
            rest_with(cx, actor, class, post);
        }
    }
}
