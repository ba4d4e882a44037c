//! Functions that may wait, as machine code and interpreted.
//!
//! Such a function begins as machine code, which knows of no join: the way on which all is answered at once allocates nothing. A request that
//! comes back without its answer makes one that takes the reply ([`pend`]), and the code goes on. Where it stops, at a
//! wait or at what only the interpreter does, it leaves its variables in the join ([`leave_code`]), and from then on [`go_on`] runs the function: by the
//! machine code that begins where it goes on, if that was often, else by the interpreter.

use bifrost_ir::{FuncId, MethodId, MethodRef};

use super::layout::{ActorClass, JoinLayout, State, Waits, Way, join, owed};
use super::{
    Answer, Due, Kind, Origin, answer, delegate, end, end_plainly, image_of, layout_of, make_way,
    note_exception, owe, suspend,
};
use crate::abi::{Code, Outcome, Ret, Word, enter};
use crate::cx::Cx;
use crate::engine::{Form, MethodEntry};
use crate::image::{Image, Table};
use crate::object::{get, set};

/// A place where the code of a function leaves. It lasts as long as the code.
#[derive(Debug)]
pub struct Exit {
    /// The way to the statement, the innermost step first ([`bifrost_ir::ways`]).
    pub path: Box<[u32]>,
    /// True if the statement has sent its message, which came back without a result; otherwise it has not begun.
    pub sent: bool,
    /// The way at which the function stops here; without one the interpreter goes on with the statement.
    pub way: Option<u32>,
}

/// What the message of a statement came back with.
#[derive(Clone, Copy, Debug)]
pub enum Came {
    /// An outcome that is not `Signalled`.
    With(Ret),
    /// An exception, which is kept.
    Exception(Word),
}

/// How a function goes on that has a join.
#[derive(Clone, Copy, Debug)]
pub enum Next {
    /// From its beginning.
    Begin,
    /// It stops at the way of this number, and goes on there.
    Stop(u32),
    /// It goes on at the way of this number.
    Way(u32),
    /// The interpreter goes on at a statement where code has left, and with what its message came back with, if it has sent one.
    Exit(&'static Exit, Option<Came>),
}

/// An outcome of what runs a function with a join: it goes on in another way, which [`Actors::take_next`](super::Actors::take_next) says.
pub const LANDED: u64 = 1 << 32;

/// What is added to the outcome of such code when the function has stopped: the rest is what the caller gets.
const STOPPED: u64 = 1 << 33;

/// How the answer stands of a function that runs as code.
pub mod given {
    /// It was not given.
    pub const NOT: u64 = 0;
    /// It was given: a word.
    pub const WORD: u64 = 1;
    /// Another owes it.
    pub const DELEGATED: u64 = 2;
}

/// In a run whose order a seed decides, code goes on after so many times.
const ORDERED_HOT_STEPS: u64 = 2;

/// The number of times that something is done without machine code before it gets some.
unsafe fn hot_steps(cx: *mut Cx) -> u64 {
    // SAFETY: promised by the caller: `cx` is the current context.
    unsafe {
        let interpreter = image_of(cx).interpreter().expect("an image with actors has an interpreter");
        let hot = interpreter.hot_steps();
        if (*cx).actors.is_ordered() { ORDERED_HOT_STEPS.min(hot) } else { hot }
    }
}

/// The code of the turns of a class's actors, if they have had many and it can be made: see [`Engine::turns`](crate::Engine::turns).
pub(super) unsafe fn turns(cx: *mut Cx, class: &ActorClass) -> Option<Code> {
    // SAFETY: promised by the caller: `cx` is the current context.
    unsafe {
        if !class.takes_all || (*cx).actors.is_traced() {
            return None;
        }
        class.turns.code(|| hot_steps(cx), || image_of(cx).engine()?.turns(class))
    }
}

/// True if machine code sends messages of the past type for a method to actors of other nodes, which it does once there were many, if they
/// carry no references: see [`Engine::remote_entry`](crate::Engine::remote_entry). `actor` is one that was just sent such a message.
pub(super) unsafe fn remote(cx: *mut Cx, actor: Word, slot: u32, method: MethodId) -> bool {
    // SAFETY: promised by the caller: `cx` is the current context, and `actor` is of another node and has the slot's method.
    unsafe {
        if (*cx).is_guest() {
            return false;
        }
        let class = super::class_of(actor);
        let kind = class.message(method);
        if !kind.arguments.is_plain() {
            return false;
        }
        let image = image_of(cx);
        let to = MethodEntry { class, method, slot, arity: 1 + kind.args, references: 1 };
        let code = kind.remote.code(|| hot_steps(cx), || image.engine()?.remote_entry(to));
        if let Some(code) = code {
            class.table(State::Remote).set(image.entry(slot, Form::Past), code);
        }
        code.is_some()
    }
}

/// How the joins of a function are laid out, of an image with actors.
pub fn layout_for(image: &Image, func: FuncId) -> &JoinLayout {
    image.join_layout(func).unwrap_or_else(|| {
        image.interpreter().expect("an image with actors has an interpreter").lay_out(func);
        image.join_layout(func).expect("the interpreter has said it")
    })
}

/// A join that is laid out so, of an actor or of none, or the outcome to end with. The words of its variables are still those that all begin with.
///
/// # Safety
/// `cx` is the current context; the caller keeps the actor.
#[inline]
unsafe fn new_join(cx: *mut Cx, layout: &JoinLayout, actor: Word) -> Ret {
    // SAFETY: promised by the caller.
    unsafe {
        let made = match (*cx).alloc(layout.table, layout.fields()) {
            Ok(made) => made.as_ptr() as Word,
            Err(full) => return (*cx).out_of_memory(full),
        };
        (*cx).actors.stats.joins += 1;
        set(made, owed::KIND, Kind::Join as Word);
        set(made, join::ACTOR, actor);
        set(made, join::LAYOUT, std::ptr::from_ref(layout) as Word);
        for (at, word) in &layout.constants {
            set(made, join::WORDS + *at as usize, *word);
        }
        Ret::of(made)
    }
}

/// The reply that `owing` owes goes into the join: to a pending variable, or to an element of what it has.
///
/// # Safety
/// `cx` is the current context, `owing` came with an outcome `Pending` of a request of the join's function; both are kept.
#[inline(always)]
pub unsafe fn pend(cx: *mut Cx, running: Word, owing: Word, pending: u16, element: Option<i64>) {
    // SAFETY: promised by the caller.
    unsafe {
        let count = layout_of(running).counts + usize::from(pending);
        set(running, count, get(running, count) + 1);
        let due = Due::new(pending, element.is_some()).of_request(next_request(running));
        owe(cx, owing, running, due, element.unwrap_or(0));
    }
}

/// The number of a join's next request.
///
/// # Safety
/// `running` is a join.
#[inline]
pub unsafe fn next_request(running: Word) -> u64 {
    // SAFETY: promised by the caller.
    unsafe {
        let number = get(running, join::REQUESTS);
        set(running, join::REQUESTS, number + 1);
        number
    }
}

/// As [`pend`], from machine code; `object` is what owes the reply, or the exception that came in its place. `due` is a [`Due`] without request.
///
/// # Safety
/// As for [`pend`].
pub unsafe extern "C" fn enter_pend(
    cx: *mut Cx,
    running: Word,
    outcome: u64,
    object: Word,
    due: u64,
    element: i64,
) -> Ret {
    // SAFETY: promised by the caller.
    unsafe {
        let due = Due::from_word(due);
        set(running, join::HELD, get(running, join::HELD) | 1 << due.pending());
        match outcome == Outcome::Pending as u64 {
            true => pend(cx, running, object, due.pending(), due.is_element().then_some(element)),
            false => note_exception(running, object, due.of_request(next_request(running))),
        }
        Ret::NOTHING
    }
}

/// What code ends with that leaves at an exit. Its variables are in the join, and its answer, if it was given, in `ANSWER` or `DELEGATED`;
/// `outcome` and `value` are what the statement's message came back with: who owes the answer, or an exception that is kept. At a wait
/// they are a [`Due`] without request, and who owes that reply, of which the join does not know yet; or 0.
///
/// # Safety
/// `cx` is the current context, and `running` the join of the function, whose variables it has.
pub unsafe extern "C" fn leave_code(
    cx: *mut Cx,
    exit: &'static Exit,
    running: Word,
    outcome: u64,
    value: Word,
    given: u64,
) -> Ret {
    // SAFETY: promised by the caller.
    unsafe {
        match left(cx, exit, running, Ret { outcome, value }, given) {
            Left::Stopped(ret) => ret,
            Left::Next(next) => go_on(cx, running, next),
        }
    }
}

/// As [`leave_code`], for code that [`go_on`] has entered.
///
/// # Safety
/// As for [`leave_code`].
pub unsafe extern "C" fn leave_way(
    cx: *mut Cx,
    exit: &'static Exit,
    running: Word,
    outcome: u64,
    value: Word,
    given: u64,
) -> Ret {
    // SAFETY: promised by the caller.
    unsafe {
        match left(cx, exit, running, Ret { outcome, value }, given) {
            Left::Stopped(ret) => Ret { outcome: ret.outcome | STOPPED, ..ret },
            Left::Next(next) => (*cx).actors.land(next),
        }
    }
}

/// What becomes of a function whose code has left.
enum Left {
    /// It waits: what its caller gets.
    Stopped(Ret),
    /// It goes on.
    Next(Next),
}

#[inline(always)]
unsafe fn left(cx: *mut Cx, exit: &'static Exit, running: Word, ret: Ret, given: u64) -> Left {
    // SAFETY: promised by the caller.
    unsafe {
        if given != given::NOT {
            give(cx, running, given, ret.value);
        }
        let Some(number) = exit.way else {
            let came = exit.sent.then_some(match Outcome::from(ret) {
                Outcome::Signalled => Came::Exception(ret.value),
                _ => Came::With(ret),
            });
            return Left::Next(Next::Exit(exit, came));
        };
        if ret.value != 0 {
            pend(cx, running, ret.value, Due::from_word(ret.outcome).pending(), None);
        }
        match stop(cx, running, layout_of(running), number) {
            Some(ret) => Left::Stopped(ret),
            None => Left::Next(Next::Way(number)),
        }
    }
}

/// Answers as code has said that leaves or ends, if that was not done before. What owes another answer, or an exception, is kept meanwhile.
#[cold]
unsafe fn give(cx: *mut Cx, running: Word, how: u64, came: Word) {
    // SAFETY: promised by the caller: the join has the answer.
    unsafe {
        let _references = (*cx).keep_all(&[running, came]);
        if get(running, join::FLAGS) & join::ANSWERED != 0 {
            return;
        }
        match how {
            given::WORD => answer(cx, running, Answer::Value(get(running, join::ANSWER))),
            given::DELEGATED => delegate(cx, running, get(running, join::DELEGATED)),
            _ => {}
        }
    }
}

/// The end of code that has made a join: `outcome` and `value` are what it would end with without one. What it ends with.
///
/// # Safety
/// As for [`leave_code`]; an exception is in the context.
pub unsafe extern "C" fn end_code(cx: *mut Cx, running: Word, outcome: u64, value: Word, given: u64) -> Ret {
    // SAFETY: promised by the caller.
    unsafe {
        let _running = (*cx).keep(running);
        if given != given::NOT {
            give(cx, running, given, 0);
        }
        end_at(cx, running, Ret { outcome, value })
    }
}

/// Ends a function with what its code came back with.
#[inline]
unsafe fn end_at(cx: *mut Cx, running: Word, ret: Ret) -> Ret {
    // SAFETY: promised by the caller.
    unsafe {
        if ret.returned() && end_plainly(cx, running, ret.value) {
            return Ret::NOTHING;
        }
        let answered = get(running, join::FLAGS) & join::ANSWERED != 0;
        let ret = match Outcome::from(ret) {
            Outcome::Returned if !answered => {
                answer(cx, running, Answer::Value(ret.value));
                Ret::NOTHING
            }
            Outcome::Pending if !answered => {
                delegate(cx, running, ret.value);
                Ret::NOTHING
            }
            Outcome::Returned | Outcome::Pending => Ret::NOTHING,
            _ => ret,
        };
        end(cx, running, ret)
    }
}

/// Runs a function that may wait, without code at its beginning. `flags` are of its join: those of a call of an actor on itself, or none.
///
/// # Safety
/// `cx` is the current context, and `args` are words of the types of the function's variables; the caller keeps them.
pub unsafe fn begin(cx: *mut Cx, func: FuncId, args: &[Word], flags: u64) -> Ret {
    // SAFETY: promised by the caller.
    unsafe {
        if (*cx).must_attend() {
            let ret = (*cx).attend();
            if !ret.returned() {
                return ret;
            }
        }
        let layout = layout_for(image_of(cx), func);
        let made = new_join(cx, layout, if layout.of_actor { args[0] } else { 0 });
        if !made.returned() {
            return made;
        }
        for (at, word) in args.iter().enumerate() {
            set(made.value, join::WORDS + at, *word);
        }
        set(made.value, join::FLAGS, flags);
        go_on(cx, made.value, Next::Begin)
    }
}

/// Goes on with a function that has waited: returned, or killed.
///
/// # Safety
/// `cx` is the current context, and `waiter` a join that is not waiting any more.
#[inline]
pub(super) unsafe fn resume(cx: *mut Cx, waiter: Word) -> Ret {
    // SAFETY: promised by the caller.
    unsafe {
        let number = get(waiter, join::WAY) as u32;
        let layout = layout_of(waiter);
        let ended = match layout.ways[number as usize].hot.known() {
            Some(code) if is_open(waiter) => enter_way(cx, waiter, layout, code),
            _ => Err(Next::Way(number)),
        };
        ended.unwrap_or_else(|next| go_on(cx, waiter, next))
    }
}

/// Goes on as code: what the caller gets, or how the function goes on.
#[inline(always)]
unsafe fn enter_way(cx: *mut Cx, running: Word, layout: &JoinLayout, code: Code) -> Result<Ret, Next> {
    // SAFETY: promised by the caller; the code keeps the join.
    unsafe {
        let held = match layout.counts_of(running) {
            [count] => Word::from(*count != 0),
            counts => {
                let held = counts.iter().enumerate().map(|(at, count)| Word::from(*count != 0) << at.min(63));
                held.fold(0, |all, bit| all | bit)
            }
        };
        set(running, join::HELD, held);
        let answered = get(running, join::FLAGS) & join::ANSWERED;
        let ret = enter(code, cx, &[running, answered]);
        match ret.outcome {
            LANDED => Err((*cx).actors.take_next()),
            outcome if outcome & STOPPED != 0 => Ok(Ret { outcome: outcome & !STOPPED, ..ret }),
            _ => Ok(end_at(cx, running, ret)),
        }
    }
}

/// True if machine code may go on with a function: it knows nothing of exceptions that wait, of messages under way in arms, nor of who must
/// not stop.
#[inline]
unsafe fn is_open(running: Word) -> bool {
    // SAFETY: promised by the caller: a join.
    unsafe {
        let bound = get(running, join::FLAGS) & join::BOUND;
        bound | get(running, join::EXCEPTIONS) | get(running, join::TAKEN) == 0
    }
}

/// Runs a function that has a join until it ends or waits: what its caller gets, or, if that is gone, returned or killed.
///
/// # Safety
/// `cx` is the current context, and `running` the join.
pub unsafe fn go_on(cx: *mut Cx, running: Word, mut next: Next) -> Ret {
    // SAFETY: promised by the caller.
    unsafe {
        let _running = (*cx).keep(running);
        let layout = layout_of(running);
        loop {
            if (*cx).must_attend() {
                let ret = (*cx).attend();
                if !ret.returned() {
                    return end(cx, running, ret);
                }
            }
            let (path, came) = match next {
                Next::Stop(number) => match stop(cx, running, layout, number) {
                    Some(ret) => return ret,
                    None => {
                        next = Next::Way(number);
                        continue;
                    }
                },
                Next::Way(number) => {
                    if let Some(code) = way_code(cx, running, layout, number) {
                        match enter_way(cx, running, layout, code) {
                            Ok(ret) => return ret,
                            Err(other) => next = other,
                        }
                        continue;
                    }
                    (&*layout.ways[number as usize].path, None)
                }
                Next::Begin => (&[][..], None),
                Next::Exit(exit, came) => (&*exit.path, came),
            };
            let _came = (*cx).keep(match came {
                Some(Came::Exception(kept)) => kept,
                Some(Came::With(ret)) if Outcome::from(ret) == Outcome::Pending => ret.value,
                _ => 0,
            });
            let interpreter = image_of(cx).interpreter().expect("an image with actors has an interpreter");
            let ret = interpreter.go_on(cx, running, path, came);
            if ret.outcome != LANDED {
                return end(cx, running, ret);
            }
            next = (*cx).actors.take_next();
        }
    }
}

/// Has a function wait at a way: what it ends with meanwhile. Nothing if it need not.
#[inline(always)]
unsafe fn stop(cx: *mut Cx, running: Word, layout: &JoinLayout, number: u32) -> Option<Ret> {
    // SAFETY: promised by the caller.
    unsafe {
        set(running, join::WAY, u64::from(number));
        match layout.ways[number as usize].waits {
            Waits::Replies(awaited) => {
                let missing = match layout.counts_of(running) {
                    [count] => *count * (awaited & 1),
                    counts => {
                        let awaited = |at: usize| awaited >> at.min(63) & 1;
                        counts.iter().enumerate().map(|(at, count)| count * awaited(at)).sum()
                    }
                };
                if missing == 0 {
                    return None;
                }
                set(running, join::MISSING, missing);
                set(running, join::AWAITED, awaited);
                Some(suspend(cx, running))
            }
            Waits::Turn if get(running, join::FLAGS) & join::BOUND != 0 => None,
            Waits::Turn => Some(make_way(cx, running)),
            Waits::Said => Some(suspend(cx, running)),
        }
    }
}

/// The code that goes on with a function at a way, if it was interpreted often and can be.
unsafe fn way_code(cx: *mut Cx, running: Word, layout: &JoinLayout, number: u32) -> Option<Code> {
    // SAFETY: promised by the caller.
    unsafe {
        let way: &Way = &layout.ways[number as usize];
        if !way.open || !is_open(running) {
            return None;
        }
        let compile = || image_of(cx).engine()?.compile_way(image_of(cx), layout.func, number);
        way.hot.code(|| hot_steps(cx), compile)
    }
}

/// True if code goes on at a way from now on: whoever interprets the function leaves then with that.
///
/// # Safety
/// `cx` is the current context, and `running` the join of a function that is at this way.
pub unsafe fn goes_on_as_code(cx: *mut Cx, running: Word, number: u32) -> bool {
    // SAFETY: promised by the caller.
    unsafe { way_code(cx, running, layout_of(running), number).is_some() }
}

/// The exception that a message came back with, which is in the context.
///
/// # Safety
/// `cx` is the current context, and the exception one of the method.
pub unsafe fn kept(cx: *mut Cx, method: MethodRef) -> Word {
    // SAFETY: promised by the caller.
    unsafe { (*cx).kept_exception(&Origin::Method(method)) }
}

/// The end of sending a message of the past type: returned, killed, or signalled if the message was
/// not sent. An exception of its method is logged.
///
/// # Safety
/// `cx` is the current context, and the outcome that of a message for the method.
pub unsafe fn log_sent(cx: *mut Cx, method: MethodRef, sent: Result<Ret, Ret>) -> Ret {
    let ret = match sent {
        Ok(ret) => ret,
        Err(refused) => return refused,
    };
    match Outcome::from(ret) {
        Outcome::Killed => return ret,
        Outcome::Signalled => {
            // SAFETY: promised by the caller.
            unsafe {
                let kept = kept(cx, method);
                (*cx).log_lost(kept);
            }
        }
        // SAFETY: it came with the outcome.
        Outcome::Pending => unsafe { super::drop_answer(cx, ret.value) },
        _ => {}
    }
    Ret::NOTHING
}

/// What becomes of an actor whose method has left its code with messages waiting, or without a result. What the method came back with, or
/// killed. Never collects.
///
/// # Safety
/// `cx` is the current context, and `actor` an active actor whose method ended with this.
pub unsafe extern "C" fn leave_method(cx: *mut Cx, actor: Word, outcome: u64, value: Word) -> Ret {
    // SAFETY: promised by the caller.
    unsafe {
        let ret = Ret { outcome, value };
        let ended = super::rest(cx, actor, ret);
        if ended.returned() { ret } else { ended }
    }
}

/// The same for a message of the past type, whose answer nobody awaits: returned, or killed.
///
/// # Safety
/// As for [`leave_method`]; the method is that of the slot. The caller keeps the actor.
pub unsafe extern "C" fn leave_past(cx: *mut Cx, actor: Word, slot: u64, outcome: u64, value: Word) -> Ret {
    // SAFETY: promised by the caller.
    unsafe {
        let mut ret = Ret { outcome, value };
        if !super::class_of(actor).functional {
            ret = leave_method(cx, actor, outcome, value);
        }
        log_sent(cx, method_at(actor, slot), Ok(ret))
    }
}

/// What came of a queued message that machine code has served: returned, or killed.
///
/// # Safety
/// `cx` is the current context; the caller keeps `sent`, a message whose method ended with this.
pub unsafe extern "C" fn settle_sent(cx: *mut Cx, sent: Word, outcome: u64, value: Word) -> Ret {
    // SAFETY: promised by the caller.
    unsafe { super::node::settle(cx, sent, Ret { outcome, value }) }
}

/// The method at a slot of an actor's class.
unsafe fn method_at(actor: Word, slot: u64) -> MethodRef {
    // SAFETY: promised by the caller.
    unsafe { MethodRef { ty: Table::of(actor).info().ty, method: super::method_of(actor, slot as u32) } }
}

/// A request from machine code.
///
/// # Safety
/// As for [`send`](super::send); `words` are so many.
pub unsafe extern "C" fn enter_message(cx: *mut Cx, slot: u64, words: *const Word, count: u64) -> Ret {
    // SAFETY: promised by the caller.
    unsafe {
        let words = std::slice::from_raw_parts(words, count as usize);
        super::send(cx, slot as u32, words)
    }
}

/// A message of the past type from machine code: returned, killed, or signalled if it was not sent.
///
/// # Safety
/// As for [`send_past`](super::send_past); `words` are so many.
pub unsafe extern "C" fn enter_past(cx: *mut Cx, slot: u64, words: *const Word, count: u64) -> Ret {
    // SAFETY: promised by the caller.
    unsafe {
        let words = std::slice::from_raw_parts(words, count as usize);
        let method = method_at(words[0], slot);
        let sent = super::send_past(cx, slot as u32, words);
        log_sent(cx, method, sent)
    }
}

/// Runs a method that is no script, in an image with or without machine code.
pub(super) unsafe fn run(cx: *mut Cx, func: FuncId, args: &[Word]) -> Ret {
    // SAFETY: promised by the caller: `cx` is the current context, and `args` are what the method takes.
    unsafe {
        let image = image_of(cx);
        match image.has_engine() {
            true => enter(image.code(func), cx, args),
            false => {
                image.interpreter().expect("an image with actors has an interpreter").call(cx, func, args)
            }
        }
    }
}
