//! The functions that compiled code calls when the straight way is not enough. All of them are
//! cold.
//!
//! [`Helper`] lists them; read it first. [`Helper::address`] is the function behind each. A helper
//! has the calling convention of [`bifrost_runtime::abi`], gets the context first, and returns an
//! outcome and a value.

use bifrost_actors::{self as actors, Site, entries};
use bifrost_heap::Word;
use bifrost_ir::{FuncId, MethodId, MethodRef, SignalId, TypeId};
use bifrost_runtime::abi::{Closure, Outcome, Ret};
use bifrost_runtime::image::Table;
use bifrost_runtime::{Cx, Kill, Object, image};
use smallvec::SmallVec;

/// The functions, named by their purpose. Compiled code reaches them through entries near it
/// ([`Entries`]), so that their addresses take no registers in loops.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Helper {
    /// The poll word asks for attention: `(cx)`. Its entry keeps all registers, so that a poll
    /// costs the code around it nothing. It leaves the outcome in the first word of `Cx::results`,
    /// which no call uses.
    Attend,
    /// A loop shall attend: as `Attend`, but the outcome is `Returned` or `Killed`.
    Stop,
    /// The same in code that cannot make way for others, in a program with actors: `(cx)`.
    Share,
    /// The function ends with an outcome other than `Returned`: `(cx, outcome, func)`.
    Leave,
    /// The function signals `failure` by a statement at a site: `(cx, func, site)`; of code that
    /// clients send the first is [`NO_FUNC`].
    SignalFailure,
    /// A new object: `(cx, table, fields)`.
    Alloc,
    /// The name of the exception under way: `(cx)`.
    SignalName,
    /// An object is to be looked into: `(cx, object)`.
    Open,
    /// An object is to be changed: `(cx, object)`.
    OpenToChange,
    /// The code of a method: `(cx, receiver, slot)`.
    MethodCode,
    /// The code of a routine: `(cx, descriptor)`.
    RoutineCode,
    /// Runs a closure as a transaction: `(cx, closure)`. Ends as an iterator with one step would.
    Transaction,
    /// Runs a function that is not compiled: `(cx, func, words, count)`.
    Interpret,
    /// A structure has no fuel left: `(cx)`.
    OutOfFuel,
    /// A structure calls a procedure, and too many are under way: `(cx)`.
    TooDeep,
    /// The exception that a message came back with: `(cx, method)`.
    Kept,
    /// A join takes a reply or an exception: `(cx, join, outcome, object, due, index)`.
    Pend,
    /// The function leaves its code: `(cx, exit, join, outcome, value, given)`.
    LeaveCode,
    /// The same in code that began with a join.
    LeaveWay,
    /// The function ends and has made a join: `(cx, join, outcome, value, given)`.
    EndCode,
    /// A destination of an answer: `(cx, table)`.
    NewReplier,
    /// A place for an answer that is delegated: `(cx, owing, reference)`.
    KeepAnswer,
    /// A new actor: `(cx, creation, words, count, node)`.
    Create,
    /// The creator of an actor has failed: `(cx, actor)`.
    FailedCreation,
    /// Answers through a destination: `(cx, replier, word)`.
    Deliver,
    /// A method with a result has ended without an answer: `(cx)`.
    Unanswered,
    /// A method that has answered has failed: `(cx, func, outcome, given, answer)`.
    FailedLate,
    /// The method of an actor at rest, whose answer is awaited, has left mail or not returned:
    /// `(cx, actor, outcome, value)`.
    LeaveMethod,
    /// The same if nobody awaits it: `(cx, actor, slot, outcome, value)`.
    LeavePast,
    /// The same for a method in its entry, which ends with an outcome other than `Returned`: `(cx,
    /// actor, slot, outcome, func)`.
    FailPast,
}

/// The way in which an actor is made. It lasts as long as the code.
#[derive(Debug)]
pub(crate) struct Creation {
    pub(crate) table: &'static Table,
    pub(crate) creator: u32,
    /// The words of the creator that are references, but for the actor.
    pub(crate) references: Box<[usize]>,
    /// The destination of the actor; the node comes at run time.
    pub(crate) site: Site,
}

/// The names of the entries, by helper.
pub(crate) type Entries = [u32; Helper::ALL.len()];

impl Helper {
    /// All, in the order of their numbers, with how many words they take after the context.
    pub(crate) const ALL: [(Helper, usize); 30] = [
        (Helper::Attend, 0),
        (Helper::Stop, 0),
        (Helper::Share, 0),
        (Helper::Leave, 2),
        (Helper::SignalFailure, 2),
        (Helper::Alloc, 2),
        (Helper::SignalName, 1),
        (Helper::Open, 1),
        (Helper::OpenToChange, 1),
        (Helper::MethodCode, 2),
        (Helper::RoutineCode, 1),
        (Helper::Transaction, 1),
        (Helper::Interpret, 3),
        (Helper::OutOfFuel, 0),
        (Helper::TooDeep, 0),
        (Helper::Kept, 1),
        (Helper::Pend, 5),
        (Helper::LeaveCode, 5),
        (Helper::LeaveWay, 5),
        (Helper::EndCode, 4),
        (Helper::NewReplier, 1),
        (Helper::KeepAnswer, 2),
        (Helper::Create, 4),
        (Helper::FailedCreation, 1),
        (Helper::Deliver, 2),
        (Helper::Unanswered, 0),
        (Helper::FailedLate, 4),
        (Helper::LeaveMethod, 3),
        (Helper::LeavePast, 4),
        (Helper::FailPast, 4),
    ];

    /// True if it is called at polls, where all registers are kept.
    pub(crate) fn polls(self) -> bool {
        matches!(self, Helper::Attend | Helper::Stop | Helper::Share)
    }

    /// True if it may collect.
    pub(crate) fn collects(self) -> bool {
        !matches!(self, Helper::Attend | Helper::Stop | Helper::LeaveMethod | Helper::SignalFailure)
    }

    pub(crate) fn address(self) -> *const u8 {
        match self {
            Helper::Attend => attend as *const u8,
            Helper::Stop => stop as *const u8,
            Helper::Share => share as *const u8,
            Helper::Leave => leave as *const u8,
            Helper::SignalFailure => signal_failure as *const u8,
            Helper::Alloc => alloc as *const u8,
            Helper::SignalName => signal_name as *const u8,
            Helper::Open => open as *const u8,
            Helper::OpenToChange => open_to_change as *const u8,
            Helper::MethodCode => image::helper::method_code as *const u8,
            Helper::RoutineCode => image::helper::routine_code as *const u8,
            Helper::Transaction => transaction as *const u8,
            Helper::Interpret => interpret as *const u8,
            Helper::OutOfFuel => out_of_fuel as *const u8,
            Helper::TooDeep => too_deep as *const u8,
            Helper::Kept => kept as *const u8,
            Helper::Pend => entries::enter_pend as *const u8,
            Helper::LeaveCode => entries::leave_code as *const u8,
            Helper::LeaveWay => entries::leave_way as *const u8,
            Helper::EndCode => entries::end_code as *const u8,
            Helper::NewReplier => entries::enter_new_replier as *const u8,
            Helper::KeepAnswer => entries::enter_keep_answer as *const u8,
            Helper::Create => create as *const u8,
            Helper::FailedCreation => entries::enter_failed_creation as *const u8,
            Helper::Deliver => entries::enter_deliver as *const u8,
            Helper::Unanswered => unanswered as *const u8,
            Helper::FailedLate => failed_late as *const u8,
            Helper::LeaveMethod => entries::leave_method as *const u8,
            Helper::LeavePast => entries::leave_past as *const u8,
            Helper::FailPast => fail_past as *const u8,
        }
    }
}

unsafe extern "C" fn attend(cx: *mut Cx) -> Ret {
    // SAFETY: compiled code passes the current context.
    unsafe { (*cx).attend() }
}

unsafe extern "C" fn share(cx: *mut Cx) -> Ret {
    // SAFETY: compiled code passes the current context.
    unsafe { (*cx).share() }
}

unsafe extern "C" fn stop(cx: *mut Cx) -> Ret {
    // SAFETY: compiled code passes the current context.
    unsafe { (*cx).stop() }
}

/// The word that stands for code that is no function of the program.
pub(crate) const NO_FUNC: u32 = u32::MAX;

/// An exception that no handler took becomes `failure`; the other outcomes go on as they are.
unsafe extern "C" fn leave(cx: *mut Cx, outcome: u64, func: u64) -> Ret {
    if outcome == Outcome::Signalled as u64 {
        // SAFETY: compiled code passes the current context.
        return unsafe { (*cx).failed_in(FuncId::from_u32(func as u32)) };
    }
    Ret { outcome, value: 0 }
}

unsafe extern "C" fn signal_failure(cx: *mut Cx, func: u64, site: u64) -> Ret {
    let func = Some(func as u32).filter(|func| *func != NO_FUNC).map(FuncId::from_u32);
    // SAFETY: compiled code passes the current context.
    unsafe { (*cx).signals_failure(func, bifrost_ir::Site(site as u32)) };
    Ret::SIGNALLED
}

unsafe extern "C" fn fail_past(cx: *mut Cx, actor: Word, slot: u64, outcome: u64, func: u64) -> Ret {
    // SAFETY: compiled code passes the current context, and an actor whose method at the slot ends
    // so.
    unsafe {
        let _actor = (*cx).keep(actor);
        let ret = leave(cx, outcome, func);
        entries::leave_past(cx, actor, slot, ret.outcome, ret.value)
    }
}

unsafe extern "C" fn alloc(cx: *mut Cx, table: &'static Table, fields: u64) -> Ret {
    // SAFETY: compiled code passes the current context.
    let cx = unsafe { &mut *cx };
    match cx.alloc(table, fields as usize) {
        Ok(object) => Ret::of(object.as_ptr() as Word),
        Err(full) => cx.out_of_memory(full),
    }
}

unsafe extern "C" fn signal_name(cx: *mut Cx, signal: u64) -> Ret {
    // SAFETY: compiled code passes the current context.
    let cx = unsafe { &mut *cx };
    let image = cx.image().clone();
    match cx.new_string(image.program().types.signal_name(SignalId::from_u32(signal as u32))) {
        Ok(word) => Ret::of(word),
        Err(full) => cx.out_of_memory(full),
    }
}

unsafe extern "C" fn open(cx: *mut Cx, object: Word) -> Ret {
    // SAFETY: compiled code passes the current context, and an object that its frame or its
    // trampoline keeps.
    unsafe { (*cx).open(Object::new(object)) }
}

unsafe extern "C" fn open_to_change(cx: *mut Cx, object: Word) -> Ret {
    // SAFETY: as above.
    unsafe { (*cx).open_to_change(Object::new(object)) }
}

unsafe extern "C" fn transaction(cx: *mut Cx, body: *const Closure) -> Ret {
    // SAFETY: compiled code passes the current context; no reference to it is kept while the body
    // runs.
    unsafe {
        let begun = (*cx).begin_transaction();
        if !begun.returned() {
            return begun;
        }
        // SAFETY: compiled code passes a closure for no values, which lives in its frame.
        let ended = (*body).step(cx, &[]);
        if !ended.returned() && (*cx).leaves_transaction == 0 {
            return (*cx).abort_transaction(ended);
        }
        match (*cx).commit_transaction() {
            committed if committed.returned() => ended,
            refused => refused,
        }
    }
}

unsafe extern "C" fn interpret(cx: *mut Cx, func: u64, words: *const Word, count: u64) -> Ret {
    // SAFETY: compiled code passes the current context, and the words that it was entered with.
    let (context, words) = unsafe { (&mut *cx, std::slice::from_raw_parts(words, count as usize)) };
    match context.image().interpreter().cloned() {
        // SAFETY: as above; a function is entered with the words of its heading.
        Some(interpreter) => unsafe { interpreter.call(cx, FuncId::from_u32(func as u32), words) },
        None => context.failure("internal error: a function is too large for the compiler"),
    }
}

unsafe extern "C" fn out_of_fuel(cx: *mut Cx) -> Ret {
    // SAFETY: compiled code passes the current context.
    unsafe { (*cx).kill(Kill::Fuel) }
}

unsafe extern "C" fn too_deep(cx: *mut Cx) -> Ret {
    // SAFETY: compiled code passes the current context.
    unsafe { (*cx).procedures_too_deep() }
}

unsafe extern "C" fn create(
    cx: *mut Cx,
    creation: &'static Creation,
    words: *mut Word,
    count: u64,
    place: i64,
) -> Ret {
    // SAFETY: compiled code passes the current context, and the words of the creator in its frame.
    unsafe {
        let site = match creation.site {
            Site::Here => Site::Here,
            Site::On(_) => Site::On(place),
            Site::Anywhere(_) => Site::Anywhere(place as usize),
        };
        let words = std::slice::from_raw_parts_mut(words, count as usize);
        let references: SmallVec<[Word; 8]> = creation.references.iter().map(|at| words[*at]).collect();
        let _references = (*cx).keep_all(&references);
        words[0] = 0;
        actors::create(&mut *cx, creation.table, creation.creator, words, site)
    }
}

/// A method that code names by one word.
fn method_of(word: u64) -> MethodRef {
    MethodRef { ty: TypeId::from_u32((word >> 32) as u32), method: MethodId::from_u32(word as u32) }
}

unsafe extern "C" fn kept(cx: *mut Cx, method: u64) -> Ret {
    // SAFETY: compiled code passes the current context, and the method of the message that came
    // back with an exception.
    let cx = unsafe { &mut *cx };
    Ret::of(actors::kept(cx, method_of(method)).word())
}

unsafe extern "C" fn unanswered(cx: *mut Cx) -> Ret {
    // SAFETY: compiled code passes the current context.
    unsafe { (*cx).failure(actors::UNANSWERED) }
}

/// Nobody awaits the exception of a method that has answered.
unsafe extern "C" fn failed_late(cx: *mut Cx, func: u64, outcome: u64, given: u64, answer: Word) -> Ret {
    if outcome != Outcome::Signalled as u64 {
        return Ret { outcome, value: 0 };
    }
    // SAFETY: compiled code passes the current context.
    let cx = unsafe { &mut *cx };
    let image = cx.image().clone();
    let source = &image.program().funcs[FuncId::from_u32(func as u32)];
    let reference = source.signature.results.first().is_some_and(|ty| image.is_reference(*ty));
    let delegated = given == actors::given::DELEGATED;
    let _answer = cx.keep(if reference || delegated { answer } else { 0 });
    let kept = actors::kept_exception(cx, &actors::Origin::Func(FuncId::from_u32(func as u32)));
    actors::log_lost(cx, kept);
    if delegated { Ret { outcome: Outcome::Pending as u64, value: answer } } else { Ret::of(answer) }
}

/// Stands for functions that could not even get an entry to the interpreter. Machine code enters it
/// as it is, without a trampoline, so it must not collect.
pub(crate) extern "C" fn no_code(cx: *mut Cx) -> Ret {
    // SAFETY: every function is entered with the current context.
    unsafe { (*cx).exhausted("out of memory: no memory for code") }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bifrost_ir::text::parse;
    use bifrost_runtime::Cx;
    use bifrost_runtime::cx::{Collect, Limits};

    use crate::Jit;

    #[test]
    fn what_has_no_code_signals_without_a_collection() {
        let program = parse("routine none ()\nend").expect("a text that reads").program;
        let image =
            bifrost_runtime::link(program, Some(Arc::new(Jit::new().expect("a compiler")))).expect("linking");
        let limits = Limits { collect: Collect::Zeal(1), ..Limits::default() };
        let mut cx = Cx::new(image, limits, 1, || 0);
        let before = cx.heap_stats().usage.collections;
        let ret = super::no_code(&mut *cx);
        assert!(!ret.returned());
        assert_eq!(cx.heap_stats().usage.collections, before);
    }
}
