//! Exceptions on their way to the method that awaits a reply: objects of the heap until they are
//! raised again.

use bifrost_ir::{FuncId, MethodId, MethodRef, Program, SignalId, Signature, TypeId, Types};
use bifrost_runtime::abi::{Ret, VALUES_MAX, Word};
use bifrost_runtime::actor_layout::{Due, exception};
use bifrost_runtime::cx::Cx;
use bifrost_runtime::object;
use smallvec::SmallVec;

use crate::context::{WithActors, image_of};
use crate::object::{Exception, Join};

/// Logs the exceptions of a join that nobody awaited.
pub(crate) fn log_all(cx: &mut Cx, running: Join) {
    let mut kept = running.exceptions();
    while let Some(exception) = kept {
        if exception.signal() & exception::RAISED == 0 {
            log_lost(cx, exception);
        }
        kept = exception.next();
    }
}

/// Enters an exception that came at once in place of a reply.
pub fn note_exception(running: Join, kept: Exception, due: Due) {
    kept.set_due(due);
    kept.set_next(running.exceptions());
    running.set_exceptions(Some(kept));
}

/// The fate of an exception that a wait concerns.
#[derive(Clone, Copy, Debug)]
pub struct Concerned {
    /// It may be raised.
    pub raised: bool,
    /// It stays in the join: the variable has no value, and may be read elsewhere.
    pub stays: bool,
}

/// Returns the exception to raise at a wait: of those that may be raised the one of the first
/// request. For each exception, `concerns` gets its [`Due`], and whether it was raised before.
/// Exceptions that the wait concerns are forgotten, unless they stay.
pub fn first_exception(
    running: Join,
    concerns: &dyn Fn(Due, bool) -> Option<Concerned>,
) -> Option<Exception> {
    let (mut first, mut next, mut others) = (None::<Exception>, running.exceptions(), None);
    while let Some(kept) = next {
        next = kept.next();
        let name = kept.signal();
        let concerned = concerns(kept.due(), name & exception::RAISED != 0);
        if let Some(Concerned { raised, .. }) = concerned {
            let is_earlier = |first: Exception| kept.due().request() < first.due().request();
            if raised && first.is_none_or(is_earlier) {
                first = Some(kept);
            }
            kept.set_signal(name | exception::RAISED);
        }
        if concerned.is_none_or(|concerned| concerned.stays) {
            kept.set_next(others);
            others = Some(kept);
        }
    }
    running.set_exceptions(others);
    first
}

/// The code that an exception came from.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Origin {
    /// The runtime, for no method.
    #[default]
    Runtime,
    /// A method.
    Method(MethodRef),
    /// A function.
    Func(FuncId),
}

impl Origin {
    const METHOD: Word = 1 << 63;
    const FUNC: Word = 1 << 62;

    fn word(self) -> Word {
        match self {
            Origin::Runtime => 0,
            Origin::Method(MethodRef { ty, method }) => {
                Origin::METHOD | Word::from(ty.as_u32()) << 32 | Word::from(method.as_u32())
            }
            Origin::Func(func) => Origin::FUNC | Word::from(func.as_u32()),
        }
    }

    fn from_word(word: Word) -> Origin {
        match word {
            _ if word & Origin::METHOD != 0 => Origin::Method(MethodRef {
                ty: TypeId::from_u32((word >> 32) as u32 & !(1 << 31)),
                method: MethodId::from_u32(word as u32),
            }),
            _ if word & Origin::FUNC != 0 => Origin::Func(FuncId::from_u32(word as u32)),
            _ => Origin::Runtime,
        }
    }

    fn signature(self, program: &Program) -> Option<&Signature> {
        match self {
            Origin::Runtime => None,
            Origin::Method(method) => Some(&program.types.method(method).signature),
            Origin::Func(func) => Some(&program.funcs[func].signature),
        }
    }

    /// Returns the types of the values that an exception carries.
    fn values(self, program: &Program, signal: SignalId) -> SmallVec<[TypeId; 4]> {
        match self.signature(program).and_then(|signature| signature.signal(signal)) {
            Some(signal) => signal.values.iter().copied().collect(),
            None if signal == SignalId::FAILURE => [Types::STRING].into_iter().collect(),
            None => SmallVec::new(),
        }
    }

    /// Returns the name, for people.
    fn name(self, program: &Program) -> Option<String> {
        match self {
            Origin::Runtime => None,
            Origin::Method(method) => {
                let types = &program.types;
                Some(format!("{}.{}", types.name(method.ty), types.method(method).name))
            }
            Origin::Func(func) => Some(program.funcs[func].name.clone()),
        }
    }
}

/// Returns a value of an exception as a program writes it, or the type of an object.
fn shown(types: &Types, ty: TypeId, word: Word) -> String {
    match ty {
        Types::INT => (word as i64).to_string(),
        Types::BOOL => (word != 0).to_string(),
        Types::REAL => f64::from_bits(word).to_string(),
        Types::CHAR => format!("{:?}", char::from_u32(word as u32).unwrap_or_default()),
        // SAFETY: the word has the type.
        Types::STRING => format!("{:?}", unsafe { object::text(word) }),
        _ => types.name(ty).to_owned(),
    }
}

/// Keeps the exception under way as an object, which the caller keeps. The heading of `origin`
/// tells the types of its values.
pub fn kept_exception(cx: &mut Cx, origin: &Origin) -> Exception {
    let id = cx.signalled();
    let types = origin.values(cx.image().program(), id);
    let image = cx.image().clone();
    let references = types.iter().enumerate();
    let references = references.fold(0, |all, (at, ty)| all | u32::from(image.is_reference(*ty)) << at);
    let values: SmallVec<[Word; VALUES_MAX]> = SmallVec::from_slice(&cx.signal_values[..types.len()]);
    let words: SmallVec<[Word; VALUES_MAX]> =
        (0..types.len()).filter(|at| references >> at & 1 == 1).map(|at| values[at]).collect();
    let _kept = cx.keep_all(&words);
    let made = Exception::make(cx, references, &values);
    made.set_signal(u64::from(id.as_u32()));
    made.set_origin(origin.word());
    cx.keep_places(made.word());
    made
}

/// Signals an exception that was kept.
pub fn raise_kept(cx: &mut Cx, kept: Exception) -> Ret {
    cx.signal_id = kept.signal() & !exception::RAISED;
    cx.resume_places(kept.word());
    for at in 0..kept.count() {
        cx.signal_values[at] = kept.value(at);
    }
    Ret::SIGNALLED
}

/// Returns the places of a failure that was kept, each on a line of its own behind the text.
fn places_text(cx: &Cx, kept: Exception) -> String {
    let lines = cx.kept_places(kept.word()).lines(image_of(cx).program());
    lines.iter().map(|line| format!("\n{line}")).collect()
}

/// Logs an exception that nobody awaits, with its values, the method that it came from, this node,
/// and the places of a failure.
pub fn log_lost(cx: &mut Cx, kept: Exception) {
    let text = format!("exception without a receiver: {}", described(cx, kept));
    cx.words.stats.lost_exceptions += 1;
    cx.actors().log(&text);
}

/// Logs a failure that is answered to another node, which does not learn its places. The log is
/// bounded: others decide how often that happens.
pub(crate) fn log_answered(cx: &mut Cx, kept: Exception, node: u32) {
    if cx.kept_places(kept.word()).is_empty() {
        return;
    }
    let now = cx.now_ms();
    let Some(skipped) = cx.actors().answered_failures.next(now) else { return };
    let mut text = format!("failure answered to node {node}: {}", described(cx, kept));
    if skipped > 0 {
        text += &format!("\n  ({skipped} before it were not logged)");
    }
    cx.actors().note(&text);
}

/// Returns an exception with its values, the method that it came from, this node, and the places of
/// a failure, each on a line of its own.
fn described(cx: &Cx, kept: Exception) -> String {
    let program = image_of(cx).program();
    let origin = Origin::from_word(kept.origin());
    let id = SignalId::from_u32(kept.signal() as u32);
    let values = (0..kept.count()).zip(origin.values(program, id));
    let values =
        values.map(|(at, ty)| shown(&program.types, ty, kept.value(at))).collect::<Vec<_>>().join(", ");
    let mut text = program.types.signal_name(id).to_owned();
    if !values.is_empty() {
        text += &format!("({values})");
    }
    if let Some(name) = origin.name(program) {
        text += &format!(" of {name}");
    }
    text += &format!(", on node {}", cx.node());
    text += &places_text(cx, kept);
    text
}
