//! Methods of actors as machine code.
//!
//! Such code never waits. When something in it must, or a request is not answered at once, it hands its variables over to a join and
//! goes on in the interpreter at that very statement ([`leave_code`]). So the way on which all is answered at once allocates
//! nothing, and the code knows of joins only what an [`Exit`] says.

use bifrost_ir::{FuncId, MethodRef};
use smallvec::SmallVec;

use super::layout::join;
use crate::abi::{Outcome, Ret, Word, enter};
use crate::cx::Cx;
use crate::image::Image;
use crate::object::{get, set};

/// A place where the code of a function goes over to the interpreter. It lasts as long as the code.
#[derive(Debug)]
pub struct Exit {
    /// The function.
    pub func: FuncId,
    /// The way to the statement, as a join has it: the innermost step first.
    pub path: Box<[u32]>,
    /// How many variables the function has.
    pub vars: usize,
    /// Which of them are references.
    pub references: &'static [u32],
    /// Whether the function's answer is one.
    pub answer: bool,
    /// The method that the statement has sent a message for; without one the statement has not begun, and the way ends with [`AFRESH`].
    pub method: Option<MethodRef>,
}

/// At the innermost end of a path: the statement that it leads to was not begun.
pub const AFRESH: u32 = u32::MAX;

/// What the message of a statement came back with.
#[derive(Clone, Copy, Debug)]
pub enum Came {
    /// An outcome that is not `Signalled`.
    With(Ret),
    /// An exception, which is kept.
    Exception(Word),
}

/// Where the interpreter goes on, and with what.
#[derive(Debug)]
pub struct Landing<'a> {
    /// As [`Exit::path`].
    pub path: &'a [u32],
    /// The variables.
    pub words: &'a [Word],
    /// The answer, if it was given.
    pub answer: Option<Word>,
    /// What the statement's message came back with, if it has sent one.
    pub came: Option<Came>,
}

/// Words before the variables where code leaves them: 1 if the answer was given, and the answer.
pub const EXIT_WORDS: usize = 2;

/// What code ends with at an exit: what the interpreter comes to that goes on there. `outcome` and `value` are what the
/// statement's message came back with.
///
/// # Safety
/// `cx` is the current context, and `words` are what [`EXIT_WORDS`] tells, then the words of the variables, in the caller's frame.
pub unsafe extern "C" fn leave_code(
    cx: *mut Cx,
    exit: &'static Exit,
    words: *const Word,
    outcome: u64,
    value: Word,
) -> Ret {
    let ret = Ret { outcome, value };
    let came = Outcome::from(ret);
    if exit.method.is_some() && matches!(came, Outcome::Killed | Outcome::Left) {
        return ret;
    }
    // SAFETY: promised by the caller; all references are kept before anything is allocated.
    unsafe {
        let words = std::slice::from_raw_parts(words, EXIT_WORDS + exit.vars);
        let (answered, words) = words.split_at(EXIT_WORDS);
        let answer = (answered[0] != 0).then_some(answered[1]);
        let mut references: SmallVec<[Word; 16]> =
            exit.references.iter().map(|at| words[*at as usize]).collect();
        references.extend(answer.filter(|_| exit.answer));
        references.extend((exit.method.is_some() && came == Outcome::Pending).then_some(value));
        let _references = (*cx).keep_all(&references);
        let came = match exit.method {
            None => None,
            Some(method) if came == Outcome::Signalled => Some(Came::Exception(kept(cx, method))),
            Some(_) => Some(Came::With(ret)),
        };
        let _exception = (*cx).keep(if let Some(Came::Exception(kept)) = came { kept } else { 0 });
        let image = (*cx).image().clone();
        let interpreter = image.interpreter().expect("an image with actors has an interpreter");
        interpreter.go_on_at(cx, exit.func, Landing { path: &exit.path, words, answer, came })
    }
}

/// An outcome of code that went on with a join: it has left again, and [`Actors::take_landing`](super::Actors::take_landing) says where.
pub const LANDED: u64 = 1 << 32;

/// Where code has left that went on with a join, which has the variables again.
#[derive(Clone, Copy, Debug)]
pub struct Left {
    /// The place.
    pub exit: &'static Exit,
    /// What its message came back with, if it has sent one. Whoever takes it keeps it.
    pub came: Option<Came>,
}

/// As [`leave_code`], for code that went on with a join: `LANDED`, or the outcome to end with.
///
/// # Safety
/// As for [`leave_code`]; `running` is the join.
pub unsafe extern "C" fn leave_loop(
    cx: *mut Cx,
    exit: &'static Exit,
    words: *const Word,
    outcome: u64,
    value: Word,
    running: Word,
) -> Ret {
    let ret = Ret { outcome, value };
    let sent = Outcome::from(ret);
    if exit.method.is_some() && matches!(sent, Outcome::Killed | Outcome::Left) {
        return ret;
    }
    // SAFETY: promised by the caller; the join has room for the variables, and is kept by whoever entered the code.
    unsafe {
        let words = std::slice::from_raw_parts(words, EXIT_WORDS + exit.vars);
        let (answered, words) = words.split_at(EXIT_WORDS);
        for (at, word) in words.iter().enumerate() {
            set(running, join::WORDS + at, *word);
        }
        let _value = (*cx).keep(if exit.method.is_some() && sent == Outcome::Pending { value } else { 0 });
        let _answer = (*cx).keep(if exit.answer { answered[1] } else { 0 });
        let came = match exit.method {
            None => None,
            Some(method) if sent == Outcome::Signalled => Some(Came::Exception(kept(cx, method))),
            Some(_) => Some(Came::With(ret)),
        };
        let _exception = (*cx).keep(if let Some(Came::Exception(kept)) = came { kept } else { 0 });
        if answered[0] != 0 && get(running, join::FLAGS) & join::ANSWERED == 0 {
            super::answer(cx, running, super::Answer::Value(answered[1]));
        }
        (*cx).actors.land(Left { exit, came });
        Ret { outcome: LANDED, value: 0 }
    }
}

/// The exception that a message came back with.
unsafe fn kept(cx: *mut Cx, method: MethodRef) -> Word {
    // SAFETY: promised by the caller.
    unsafe {
        let image = (*cx).image().clone();
        (*cx).kept_exception(&image.program().types.method(method).signature)
    }
}

/// What a message of the past type came back with that did not return: returned, or killed. Nobody awaits an exception.
///
/// # Safety
/// `cx` is the current context, and the outcome that of a message for the method.
pub unsafe fn log_sent(cx: *mut Cx, method: MethodRef, ret: Ret) -> Ret {
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

/// A message from machine code.
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

/// A message of the past type from machine code.
///
/// # Safety
/// As for [`send_past`](super::send_past), but the caller need not keep the words; they are so many.
pub unsafe extern "C" fn enter_past(cx: *mut Cx, slot: u64, words: *const Word, count: u64) -> Ret {
    // SAFETY: promised by the caller.
    unsafe {
        let (slot, words) = (slot as u32, std::slice::from_raw_parts(words, count as usize));
        let kind = super::class_of(words[0]).message(super::method_of(words[0], slot));
        let args = words[1..].iter().enumerate().filter(|(at, _)| kind.references >> at & 1 == 1);
        let mut references: SmallVec<[Word; 8]> = args.map(|(_, word)| *word).collect();
        references.push(words[0]);
        let _references = (*cx).keep_all(&references);
        super::send_past(cx, slot, words)
    }
}

/// Runs a method that is no script, in an image with or without machine code.
pub(super) unsafe fn run(cx: *mut Cx, func: FuncId, args: &[Word]) -> Ret {
    // SAFETY: promised by the caller: `cx` is the current context, and `args` are what the method takes.
    unsafe {
        // The image lives as long as the process, and what runs may have the context.
        let image: *const Image = &raw const **(*cx).image();
        match (*image).has_engine() {
            true => enter((*image).code(func), cx, args),
            false => {
                (*image).interpreter().expect("an image with actors has an interpreter").call(cx, func, args)
            }
        }
    }
}
