//! Functions that may wait, as machine code and interpreted. The code itself is made in
//! `crates/jit/src/actors/`; this file has the functions that enter it; those that it calls are in
//! [`entries`](crate::entries).
//!
//! The functions to read first are [`begin`], [`leave_code`](crate::entries::leave_code) and
//! [`go_on`]. A function goes through these steps:
//!
//! 1. It begins as machine code without a join. As long as all requests are answered at once,
//!    nothing is allocated.
//! 2. A request that comes back without its answer makes a join that takes the reply ([`pend`]),
//!    and the code goes on.
//! 3. At a wait, or at a statement that only the interpreter runs, the code leaves its variables in
//!    the join ([`leave_code`](crate::entries::leave_code)).
//! 4. From then on [`go_on`] runs the function. If it went on at its way often, machine code that
//!    begins there runs it, else the interpreter. [`resume`] is called when the replies are there.
//! 5. The function ends ([`end_code`](crate::entries::end_code), or after the interpreter
//!    [`go_on`]).
//!
//! The join belongs to the heap of the node. [`Exit`] is a place where code leaves, and belongs to
//! the code; [`Next`] is the place where the function goes on.

use bifrost_ir::{FuncId, MethodId, MethodRef};
use bifrost_runtime::abi::{Code, Outcome, Ret, Word};
use bifrost_runtime::actor_class::{ActorClass, JoinLayout, State, Waits, Way};
use bifrost_runtime::actor_layout::{Due, join};
use bifrost_runtime::cx::Cx;
use bifrost_runtime::engine::{Came, Form, MethodEntry};
use bifrost_runtime::image::Image;

use crate::answers::{answer, delegate, owe};
use crate::context::{WithActors, image_of, owing_of};
use crate::end::{end, end_plainly, make_way, suspend};
use crate::exceptions::{Origin, kept_exception, log_lost};
use crate::next::{Exit, LANDED, Next, STOPPED, given};
use crate::object::{Actor, Answer, Delegated, Exception, Join, Owing};
use crate::queue::rest;
use crate::send::{drop_answer, run_code};

/// The number of steps after which code goes on, in a run whose order a seed decides.
const ORDERED_HOT_STEPS: u64 = 2;

/// Returns the number of times that something is done without machine code before it gets some.
fn hot_steps(cx: &mut Cx) -> u64 {
    let interpreter = image_of(cx).interpreter().expect("an image with actors has an interpreter");
    let hot = interpreter.hot_steps();
    if cx.actors().is_ordered() { ORDERED_HOT_STEPS.min(hot) } else { hot }
}

/// Returns the code of the turns of a class's actors, if they have had many and it can be made: see
/// [`Engine::turns`](bifrost_runtime::Engine::turns).
pub(crate) fn turns(cx: &mut Cx, class: &ActorClass) -> Option<Code> {
    if !class.takes_all || cx.actors().is_traced() {
        return None;
    }
    let image = image_of(cx);
    class.turns.code(|| hot_steps(cx), || image.engine()?.turns(class))
}

/// True if machine code sends messages of the past form for a method to actors of other nodes. It
/// does so once there were many, if they carry no references: see
/// [`Engine::remote_entry`](bifrost_runtime::Engine::remote_entry). `actor` is one that was just
/// sent such a message.
pub(crate) fn remote(cx: &mut Cx, actor: Actor, slot: u32, method: MethodId) -> bool {
    if cx.is_guest() {
        return false;
    }
    let class = actor.class();
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

/// Returns the layout of the joins of a function, of an image with actors.
pub fn layout_for(image: &Image, func: FuncId) -> &JoinLayout {
    image.join_layout(func).unwrap_or_else(|| {
        image.interpreter().expect("an image with actors has an interpreter").lay_out(func);
        image.join_layout(func).expect("the interpreter has said it")
    })
}

/// Has the reply that `owing` owes go into the join: to a pending variable, or to an element of its
/// value.
///
#[inline(always)]
pub fn pend(cx: &mut Cx, running: Join, owing: Owing, pending: u16, element: Option<i64>) {
    let layout = running.layout();
    running.set_count(layout, pending, running.count(layout, pending) + 1);
    let due = Due::new(pending, element.is_some()).of_request(next_request(running));
    owe(cx, owing, Some(running.party()), due, element.unwrap_or(0));
}

/// Returns the number of a join's next request, and counts it.
///
#[inline]
pub fn next_request(running: Join) -> u64 {
    let number = running.requests();
    running.set_requests(number + 1);
    number
}

/// The result of a function whose code has left.
pub(crate) enum Left {
    /// It waits: the outcome for its caller.
    Stopped(Ret),
    /// It goes on here.
    Next(Next),
}

#[inline(always)]
pub(crate) fn left(cx: &mut Cx, exit: &'static Exit, running: Join, ret: Ret, given: u64) -> Left {
    if given != given::NOT {
        give(cx, running, given, ret.value);
    }
    let Some(number) = exit.way else {
        let came = exit.sent.then_some(match ret.outcome() {
            Outcome::Signalled => Came::Exception(ret.value),
            _ => Came::With(ret),
        });
        return Left::Next(Next::Exit(exit, came));
    };
    // SAFETY: code leaves with the object that owes the reply, or 0.
    if let Some(owing) = unsafe { Owing::of(ret.value) } {
        pend(cx, running, owing, Due::from_word(ret.outcome).pending(), None);
    }
    match stop(cx, running, running.layout(), number) {
        Some(ret) => Left::Stopped(ret),
        None => Left::Next(Next::Way(number)),
    }
}

/// Gives the answer of code that leaves or ends, if that was not done before. `came`, an object
/// that owes another answer or an exception, is kept meanwhile.
#[cold]
pub(crate) fn give(cx: &mut Cx, running: Join, how: u64, came: Word) {
    let _references = cx.keep_all(&[running.word(), came]);
    if running.has(join::ANSWERED) {
        return;
    }
    match how {
        given::WORD => answer(cx, running, Answer::Value(running.answer())),
        given::DELEGATED => {
            if let Some(Delegated::Owing(owing)) = running.delegated() {
                delegate(cx, running, owing);
            }
        }
        _ => {}
    }
}

/// Ends a function with the outcome of its code.
#[inline]
pub(crate) fn end_at(cx: &mut Cx, running: Join, ret: Ret) -> Ret {
    if ret.returned() && end_plainly(cx, running, ret.value) {
        return Ret::NOTHING;
    }
    let answered = running.has(join::ANSWERED);
    let ret = match ret.outcome() {
        Outcome::Returned if !answered => {
            answer(cx, running, Answer::Value(ret.value));
            Ret::NOTHING
        }
        Outcome::Pending if !answered => {
            delegate(cx, running, owing_of(ret));
            Ret::NOTHING
        }
        Outcome::Returned | Outcome::Pending => Ret::NOTHING,
        _ => ret,
    };
    end(cx, running, ret)
}

/// Runs a function that may wait, without code at its beginning. `flags` are those of its join: of
/// a call of an actor on itself, or none.
pub fn begin(cx: &mut Cx, func: FuncId, args: &[Word], flags: u64) -> Ret {
    if cx.must_attend() {
        let ret = cx.attend();
        if !ret.returned() {
            return ret;
        }
    }
    let layout = layout_for(image_of(cx), func);
    // SAFETY: the first word of such a function is its actor.
    let actor = layout.of_actor.then(|| unsafe { Actor::new(args[0]) });
    let made = match Join::make(cx, layout, actor) {
        Ok(made) => made,
        Err(full) => return cx.out_of_memory(full),
    };
    cx.words.stats.joins += 1;
    for (at, word) in args.iter().enumerate() {
        made.set_variable(at, *word);
    }
    made.set_flags(flags);
    go_on(cx, made, Next::Begin)
}

/// Goes on with a function that has waited. Returns the outcome `Returned` or `Killed`.
///
#[inline]
pub(crate) fn resume(cx: &mut Cx, waiter: Join) -> Ret {
    let number = waiter.way() as u32;
    let layout = waiter.layout();
    let ended = match layout.ways[number as usize].hot.known() {
        Some(code) if is_open(waiter) => enter_way(cx, waiter, layout, code),
        _ => Err(Next::Way(number)),
    };
    ended.unwrap_or_else(|next| go_on(cx, waiter, next))
}

/// Goes on as code. Returns the outcome for the caller, or the place at which the function goes on.
#[inline(always)]
fn enter_way(cx: &mut Cx, running: Join, layout: &JoinLayout, code: Code) -> Result<Ret, Next> {
    let held = match running.counts(layout) {
        [count] => Word::from(*count != 0),
        counts => {
            let held = counts.iter().enumerate().map(|(at, count)| Word::from(*count != 0) << at.min(63));
            held.fold(0, |all, bit| all | bit)
        }
    };
    running.set_held(held);
    let answered = running.flags() & join::ANSWERED;
    let ret = run_code(cx, code, &[running.word(), answered]);
    match ret.outcome {
        LANDED => Err(cx.actors().take_next()),
        outcome if outcome & STOPPED != 0 => Ok(Ret { outcome: outcome & !STOPPED, ..ret }),
        _ => Ok(end_at(cx, running, ret)),
    }
}

/// True if machine code may go on with a function. Code cannot handle exceptions that wait,
/// messages under way in arms, or functions that must not stop.
#[inline]
fn is_open(running: Join) -> bool {
    !running.has(join::BOUND) && running.exceptions().is_none() && running.taken().is_none()
}

/// Runs a function that has a join until it ends or waits. Returns the outcome for its caller, or
/// `Returned` or `Killed` if that is gone.
pub fn go_on(cx: &mut Cx, running: Join, mut next: Next) -> Ret {
    let _running = cx.keep(running.word());
    let layout = running.layout();
    loop {
        if cx.must_attend() {
            let ret = cx.attend();
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
        let _came = cx.keep(match came {
            Some(Came::Exception(kept)) => kept,
            Some(Came::With(ret)) if ret.outcome() == Outcome::Pending => ret.value,
            _ => 0,
        });
        let interpreter = image_of(cx).interpreter().expect("an image with actors has an interpreter");
        // SAFETY: the join is kept, and the path leads into its function.
        let ret = unsafe { interpreter.go_on(cx, running.word(), path, came) };
        if ret.outcome != LANDED {
            return end(cx, running, ret);
        }
        next = cx.actors().take_next();
    }
}

/// Has a function wait at a way. Returns the outcome with which it ends meanwhile, or nothing if it
/// need not wait.
#[inline(always)]
fn stop(cx: &mut Cx, running: Join, layout: &JoinLayout, number: u32) -> Option<Ret> {
    running.set_way(u64::from(number));
    match layout.ways[number as usize].waits {
        Waits::Replies(awaited) => {
            let missing = match running.counts(layout) {
                [count] => *count * (awaited & 1),
                counts => {
                    let awaited = |at: usize| awaited >> at.min(63) & 1;
                    counts.iter().enumerate().map(|(at, count)| count * awaited(at)).sum()
                }
            };
            if missing == 0 {
                return None;
            }
            running.set_missing(missing);
            running.set_awaited(awaited);
            Some(suspend(cx, running))
        }
        Waits::Turn if running.has(join::BOUND) => None,
        Waits::Turn => Some(make_way(cx, running)),
        Waits::Said => Some(suspend(cx, running)),
    }
}

/// Returns the code that goes on with a function at a way, if it was interpreted often and can be
/// compiled.
fn way_code(cx: &mut Cx, running: Join, layout: &JoinLayout, number: u32) -> Option<Code> {
    let way: &Way = &layout.ways[number as usize];
    if !way.open || !is_open(running) {
        return None;
    }
    let image = image_of(cx);
    let compile = || image.engine()?.compile_way(image, layout.func, number);
    way.hot.code(|| hot_steps(cx), compile)
}

/// True if code goes on at a way from now on: the interpreter leaves the function then with
/// [`LANDED`].
pub fn goes_on_as_code(cx: &mut Cx, running: Join, number: u32) -> bool {
    way_code(cx, running, running.layout(), number).is_some()
}

/// Keeps the exception that a message for the method came back with, which is in the context.
pub fn kept(cx: &mut Cx, method: MethodRef) -> Exception {
    kept_exception(cx, &Origin::Method(method))
}

/// Ends the sending of a message of the past form. Returns the outcome `Returned` or `Killed`, or
/// `Signalled` if the message was not sent. An exception of its method is logged.
pub fn log_sent(cx: &mut Cx, method: MethodRef, sent: Result<Ret, Ret>) -> Ret {
    let ret = match sent {
        Ok(ret) => ret,
        Err(refused) => return refused,
    };
    match ret.outcome() {
        Outcome::Killed => return ret,
        Outcome::Signalled => {
            let kept = kept(cx, method);
            log_lost(cx, kept);
        }
        Outcome::Pending => drop_answer(cx, owing_of(ret)),
        _ => {}
    }
    Ret::NOTHING
}

/// Sets the state of an actor whose method has left its code with messages waiting, or without a
/// result. Returns the outcome of the method, or `Killed`. Never collects.
pub(crate) fn leave_method(cx: &mut Cx, actor: Actor, ret: Ret) -> Ret {
    let ended = rest(cx, actor, ret);
    if ended.returned() { ret } else { ended }
}

/// Runs a method that is no script, in an image with or without machine code. The words are those
/// that it takes.
pub(crate) fn run(cx: &mut Cx, func: FuncId, args: &[Word]) -> Ret {
    let image = image_of(cx);
    if image.has_engine() {
        return run_code(cx, image.code(func), args);
    }
    let interpreter = image.interpreter().expect("an image with actors has an interpreter");
    // SAFETY: `cx` is the current context, and the words are those that the function takes.
    unsafe { interpreter.call(cx, func, args) }
}
