//! Functions that may wait, as machine code and interpreted. The code itself is made in
//! `crates/jit` (`messages.rs`, `turns.rs`, `lower/script.rs`); this file has the functions that it
//! calls, and those that enter it.
//!
//! The functions to read first are [`begin`], [`leave_code`] and [`go_on`]. A function goes through
//! these steps:
//!
//! 1. It begins as machine code without a join. As long as all requests are answered at once,
//!    nothing is allocated.
//! 2. A request that comes back without its answer makes a join that takes the reply ([`pend`]),
//!    and the code goes on.
//! 3. At a wait, or at a statement that only the interpreter runs, the code leaves its variables in
//!    the join ([`leave_code`]).
//! 4. From then on [`go_on`] runs the function. If it went on at its way often, machine code that
//!    begins there runs it, else the interpreter. [`resume`] is called when the replies are there.
//! 5. The function ends ([`end_code`], or [`go_on`] after the interpreter).
//!
//! The join belongs to the heap of the node. [`Exit`] is a place where code leaves, and belongs to
//! the code; [`Next`] is the place where the function goes on.

use bifrost_ir::{FuncId, MethodId, MethodRef};

use crate::host::WithActors;
use crate::{
    Answer, Due, Kind, Origin, answer, delegate, end, end_plainly, image_of, layout_of, make_way,
    note_exception, owe, suspend,
};
use bifrost_runtime::abi::{Code, Outcome, Ret, Word, enter};
use bifrost_runtime::actor_class::{ActorClass, JoinLayout, State, Waits, Way};
use bifrost_runtime::actor_layout::{join, owed};
use bifrost_runtime::cx::Cx;
use bifrost_runtime::engine::{Came, Form, MethodEntry};
use bifrost_runtime::image::{Image, Table};
use bifrost_runtime::object::{get, set};

/// A place where the code of a function leaves. It lasts as long as the code.
#[derive(Debug)]
pub struct Exit {
    /// The way to the statement, the innermost step first ([`bifrost_ir::ways`]).
    pub path: Box<[u32]>,
    /// True if the statement has sent its message, which came back without a result; otherwise it
    /// has not begun.
    pub sent: bool,
    /// The way at which the function stops here; without one the interpreter goes on with the
    /// statement.
    pub way: Option<u32>,
}

/// The place at which a function with a join goes on.
#[derive(Clone, Copy, Debug)]
pub enum Next {
    /// From its beginning.
    Begin,
    /// It stops at the way of this number, and goes on there.
    Stop(u32),
    /// It goes on at the way of this number.
    Way(u32),
    /// The interpreter goes on at a statement where code has left. The second field is the outcome
    /// of its message, if it has sent one.
    Exit(&'static Exit, Option<Came>),
}

/// The outcome of code or an interpreter that runs a function with a join: it goes on in another
/// way. [`Actors::take_next`](crate::Actors::take_next) returns that.
pub const LANDED: u64 = 1 << 32;

/// A bit in the outcome of such code when the function has stopped: the rest is the outcome for its
/// caller.
const STOPPED: u64 = 1 << 33;

/// The state of the answer of a function that runs as code.
pub mod given {
    /// It was not given.
    pub const NOT: u64 = 0;
    /// It was given: a word.
    pub const WORD: u64 = 1;
    /// Another object owes it.
    pub const DELEGATED: u64 = 2;
}

/// The number of steps after which code goes on, in a run whose order a seed decides.
const ORDERED_HOT_STEPS: u64 = 2;

/// Returns the number of times that something is done without machine code before it gets some.
unsafe fn hot_steps(cx: *mut Cx) -> u64 {
    // SAFETY: promised by the caller: `cx` is the current context.
    unsafe {
        let interpreter = image_of(cx).interpreter().expect("an image with actors has an interpreter");
        let hot = interpreter.hot_steps();
        if (*cx).actors().is_ordered() { ORDERED_HOT_STEPS.min(hot) } else { hot }
    }
}

/// Returns the code of the turns of a class's actors, if they have had many and it can be made: see
/// [`Engine::turns`](crate::Engine::turns).
pub(crate) unsafe fn turns(cx: *mut Cx, class: &ActorClass) -> Option<Code> {
    // SAFETY: promised by the caller: `cx` is the current context.
    unsafe {
        if !class.takes_all || (*cx).actors().is_traced() {
            return None;
        }
        class.turns.code(|| hot_steps(cx), || image_of(cx).engine()?.turns(class))
    }
}

/// True if machine code sends messages of the past form for a method to actors of other nodes. It
/// does so once there were many, if they carry no references: see
/// [`Engine::remote_entry`](crate::Engine::remote_entry). `actor` is one that was just sent such a
/// message.
pub(crate) unsafe fn remote(cx: *mut Cx, actor: Word, slot: u32, method: MethodId) -> bool {
    // SAFETY: promised by the caller: `cx` is the current context, and `actor` is of another node
    // and has the slot's method.
    unsafe {
        if (*cx).is_guest() {
            return false;
        }
        let class = crate::class_of(actor);
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

/// Returns the layout of the joins of a function, of an image with actors.
pub fn layout_for(image: &Image, func: FuncId) -> &JoinLayout {
    image.join_layout(func).unwrap_or_else(|| {
        image.interpreter().expect("an image with actors has an interpreter").lay_out(func);
        image.join_layout(func).expect("the interpreter has said it")
    })
}

/// Makes a join with a layout, of an actor or of none. Returns it, or the outcome to end with. The
/// words of its variables are those with which all such joins begin.
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
        (*cx).words.stats.joins += 1;
        set(made, owed::KIND, Kind::Join as Word);
        set(made, join::ACTOR, actor);
        set(made, join::LAYOUT, std::ptr::from_ref(layout) as Word);
        for (at, word) in &layout.constants {
            set(made, join::WORDS + *at as usize, *word);
        }
        Ret::of(made)
    }
}

/// Has the reply that `owing` owes go into the join: to a pending variable, or to an element of its
/// value.
///
/// # Safety
/// `cx` is the current context, `owing` came with an outcome `Pending` of a request of the join's
/// function; both are kept.
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

/// Returns the number of a join's next request, and counts it.
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

/// Does as [`pend`], from machine code. `object` owes the reply, or is the exception that came in
/// its place. `due` is a [`Due`] without request.
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

/// Goes on with a function whose code leaves at an exit. Its variables are in the join, and its
/// answer, if it was given, in `ANSWER` or `DELEGATED`.
///
/// - At a statement, `outcome` and `value` are those of its message: the object that owes the
///   answer, or an exception that is kept.
/// - At a wait they are a [`Due`] without request, and the object that owes that reply, or 0. The
///   join does not know of it yet.
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

/// Does as [`leave_code`], for code that [`go_on`] has entered.
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
            Left::Next(next) => (*cx).actors().land(next),
        }
    }
}

/// The result of a function whose code has left.
enum Left {
    /// It waits: the outcome for its caller.
    Stopped(Ret),
    /// It goes on here.
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

/// Gives the answer of code that leaves or ends, if that was not done before. `came`, an object
/// that owes another answer or an exception, is kept meanwhile.
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

/// Ends code that has made a join: `outcome` and `value` are those with which it would end without
/// one. Returns the outcome for its caller.
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

/// Ends a function with the outcome of its code.
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

/// Runs a function that may wait, without code at its beginning. `flags` are those of its join: of
/// a call of an actor on itself, or none.
///
/// # Safety
/// `cx` is the current context, and `args` are words of the types of the function's variables; the
/// caller keeps them.
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

/// Goes on with a function that has waited. Returns the outcome `Returned` or `Killed`.
///
/// # Safety
/// `cx` is the current context, and `waiter` a join that is not waiting any more.
#[inline]
pub(crate) unsafe fn resume(cx: *mut Cx, waiter: Word) -> Ret {
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

/// Goes on as code. Returns the outcome for the caller, or the place at which the function goes on.
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
            LANDED => Err((*cx).actors().take_next()),
            outcome if outcome & STOPPED != 0 => Ok(Ret { outcome: outcome & !STOPPED, ..ret }),
            _ => Ok(end_at(cx, running, ret)),
        }
    }
}

/// True if machine code may go on with a function. Code cannot handle exceptions that wait,
/// messages under way in arms, or functions that must not stop.
#[inline]
unsafe fn is_open(running: Word) -> bool {
    // SAFETY: promised by the caller: a join.
    unsafe {
        let bound = get(running, join::FLAGS) & join::BOUND;
        bound | get(running, join::EXCEPTIONS) | get(running, join::TAKEN) == 0
    }
}

/// Runs a function that has a join until it ends or waits. Returns the outcome for its caller, or
/// `Returned` or `Killed` if that is gone.
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
            next = (*cx).actors().take_next();
        }
    }
}

/// Has a function wait at a way. Returns the outcome with which it ends meanwhile, or nothing if it
/// need not wait.
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

/// Returns the code that goes on with a function at a way, if it was interpreted often and can be
/// compiled.
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

/// True if code goes on at a way from now on: the interpreter leaves the function then with
/// [`LANDED`].
///
/// # Safety
/// `cx` is the current context, and `running` the join of a function that is at this way.
pub unsafe fn goes_on_as_code(cx: *mut Cx, running: Word, number: u32) -> bool {
    // SAFETY: promised by the caller.
    unsafe { way_code(cx, running, layout_of(running), number).is_some() }
}

/// Keeps the exception that a message came back with, which is in the context.
///
/// # Safety
/// `cx` is the current context, and the exception one of the method.
pub unsafe fn kept(cx: *mut Cx, method: MethodRef) -> Word {
    // SAFETY: promised by the caller.
    unsafe { crate::exceptions::kept_exception(&mut *cx, &Origin::Method(method)) }
}

/// Ends the sending of a message of the past form. Returns the outcome `Returned` or `Killed`, or
/// `Signalled` if the message was not sent. An exception of its method is logged.
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
                crate::exceptions::log_lost(&mut *cx, kept);
            }
        }
        // SAFETY: it came with the outcome.
        Outcome::Pending => unsafe { crate::drop_answer(cx, ret.value) },
        _ => {}
    }
    Ret::NOTHING
}

/// Sets the state of an actor whose method has left its code with messages waiting, or without a
/// result. Returns the outcome of the method, or `Killed`. Never collects.
///
/// # Safety
/// `cx` is the current context, and `actor` an active actor whose method ended with this.
pub unsafe extern "C" fn leave_method(cx: *mut Cx, actor: Word, outcome: u64, value: Word) -> Ret {
    // SAFETY: promised by the caller.
    unsafe {
        let ret = Ret { outcome, value };
        let ended = crate::rest(cx, actor, ret);
        if ended.returned() { ret } else { ended }
    }
}

/// Does the same for a message of the past form, whose answer nobody awaits. Returns the outcome
/// `Returned` or `Killed`.
///
/// # Safety
/// As for [`leave_method`]; the method is that of the slot. The caller keeps the actor.
pub unsafe extern "C" fn leave_past(cx: *mut Cx, actor: Word, slot: u64, outcome: u64, value: Word) -> Ret {
    // SAFETY: promised by the caller.
    unsafe {
        let mut ret = Ret { outcome, value };
        if !crate::class_of(actor).functional {
            ret = leave_method(cx, actor, outcome, value);
        }
        log_sent(cx, method_at(actor, slot), Ok(ret))
    }
}

/// Delivers the outcome of a queued message that machine code has served. Returns the outcome
/// `Returned` or `Killed`.
///
/// # Safety
/// `cx` is the current context; the caller keeps `sent`, a message whose method ended with this.
pub unsafe extern "C" fn settle_sent(cx: *mut Cx, sent: Word, outcome: u64, value: Word) -> Ret {
    // SAFETY: promised by the caller.
    unsafe { crate::node::settle(cx, sent, Ret { outcome, value }) }
}

/// Returns the method at a slot of an actor's class.
unsafe fn method_at(actor: Word, slot: u64) -> MethodRef {
    // SAFETY: promised by the caller.
    unsafe { MethodRef { ty: Table::of(actor).info().ty, method: crate::method_of(actor, slot as u32) } }
}

/// Sends a request from machine code.
///
/// # Safety
/// As for [`send`](crate::send); `words` are so many.
pub unsafe extern "C" fn enter_message(cx: *mut Cx, slot: u64, words: *const Word, count: u64) -> Ret {
    // SAFETY: promised by the caller.
    unsafe {
        let words = std::slice::from_raw_parts(words, count as usize);
        crate::send(cx, slot as u32, words)
    }
}

/// Sends a message of the past form from machine code. Returns the outcome `Returned` or `Killed`,
/// or `Signalled` if it was not sent.
///
/// # Safety
/// As for [`send_past`](crate::send_past); `words` are so many.
pub unsafe extern "C" fn enter_past(cx: *mut Cx, slot: u64, words: *const Word, count: u64) -> Ret {
    // SAFETY: promised by the caller.
    unsafe {
        let words = std::slice::from_raw_parts(words, count as usize);
        let method = method_at(words[0], slot);
        let sent = crate::send_past(cx, slot as u32, words);
        log_sent(cx, method, sent)
    }
}

/// Runs a method that is no script, in an image with or without machine code.
pub(crate) unsafe fn run(cx: *mut Cx, func: FuncId, args: &[Word]) -> Ret {
    // SAFETY: promised by the caller: `cx` is the current context, and `args` are what the method
    // takes.
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
