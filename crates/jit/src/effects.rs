//! Finds the code that leaves all arrays as long as they are, so that facts about an array from
//! before it hold behind it.

use std::collections::{HashMap, HashSet};

use bifrost_ir::{Block, Body, Callee, Func, FuncId, MethodRef, Operand, Part, Stmt};
use bifrost_runtime::image::Image;

use crate::analysis::{Analysis, InlineLoop};
use crate::target::{Calls, Targets};

/// Methods of arrays that change no bounds and no storage.
const OF_ARRAYS: &[&str] = &[
    "fetch",
    "store",
    "length",
    "empty",
    "low",
    "high",
    "bottom",
    "top",
    "to_sequence",
    "elements",
    "indexes",
];

/// Other containers. Maps are absent: they may call the methods of their keys.
const OTHERS: &[&str] = &["sequence", "vector", "list", "cell"];

/// Their methods that call no code of the program.
const OF_OTHERS: &[&str] = &[
    "fetch", "length", "empty", "first", "next", "notEmpty", "nth", "cons", "put", "get", "full", "append",
    "concat", "subseq", "bottom", "top", "reverse", "elements", "indexes", "store",
];

/// Routines written in Rust that change no array.
const NATIVE_ROUTINES: &[&str] = &[
    "array_new",
    "array_fill",
    "array_create",
    "sequence_of",
    "list_empty",
    "list_of",
    "cell_new",
    "random",
];

/// The facts about functions so far.
#[derive(Default, Debug)]
pub(crate) struct Effects {
    functions: HashMap<FuncId, bool>,
}

/// The effects of one function, or of a part of it, by itself.
#[derive(Default)]
struct Found {
    harmful: bool,
    calls: Vec<FuncId>,
}

impl Effects {
    /// True if a call leaves all arrays as they are.
    pub(crate) fn call_keeps(&mut self, calls: Calls<'_>, callee: Callee, args: &[Operand]) -> bool {
        let mut found = Found::default();
        call(calls, callee, args, &mut found);
        self.all_keep(calls.image, found)
    }

    /// True if the statements of a loop leave all arrays as they are. `each` tells it of the loop's
    /// body, if they are an iterator's in place.
    pub(crate) fn blocks_keep(
        &mut self,
        calls: Calls<'_>,
        analysis: &Analysis,
        blocks: &[&Block],
        each: Option<bool>,
    ) -> bool {
        let mut found = Found::default();
        for b in blocks {
            block(calls, analysis, b, each, &mut found);
        }
        self.all_keep(calls.image, found)
    }

    fn all_keep(&mut self, image: &Image, found: Found) -> bool {
        !found.harmful && found.calls.into_iter().all(|func| self.function_keeps(image, func))
    }

    /// True if a function and all that it can reach leave arrays as they are.
    fn function_keeps(&mut self, image: &Image, func: FuncId) -> bool {
        if let Some(known) = self.functions.get(&func) {
            return *known;
        }
        let (mut seen, mut work) = (HashSet::from([func]), vec![func]);
        let mut keeps = true;
        while let Some(next) = work.pop() {
            let source: &Func = &image.program().funcs[next];
            let calls = Calls { image, func: source, class: None };
            let mut found = Found { harmful: source.signature.is_iterator(), calls: Vec::new() };
            block(calls, &Analysis::default(), &source.body, None, &mut found);
            if found.harmful || self.functions.get(&next) == Some(&false) {
                keeps = false;
                break;
            }
            work.extend(found.calls.into_iter().filter(|f| seen.insert(*f)));
        }
        self.functions.insert(func, keeps);
        keeps
    }
}

fn block(calls: Calls<'_>, analysis: &Analysis, b: &Block, each: Option<bool>, found: &mut Found) {
    for s in &b.0 {
        stmt(calls, analysis, s, each, found);
    }
}

fn stmt(calls: Calls<'_>, analysis: &Analysis, s: &Stmt, each: Option<bool>, found: &mut Found) {
    s.parts(&mut |part| {
        if let Part::Block(b) = part {
            block(calls, analysis, b, each, found);
        }
    });
    match s {
        Stmt::Call { callee, args, .. } => call(calls, *callee, args, found),
        Stmt::ForEach { callee, .. } => {
            if InlineLoop::of(calls.image.program(), *callee).is_some() {
                return;
            }
            match analysis.in_place.get(&std::ptr::from_ref(s)) {
                Some(iterator) => {
                    let source = &calls.image.program().funcs[iterator.func];
                    let calls = Calls { image: calls.image, func: source, class: None };
                    block(calls, &iterator.analysis, &source.body, Some(true), found);
                }
                None => found.harmful = true,
            }
        }
        Stmt::Transaction { .. }
        | Stmt::Create { .. }
        | Stmt::Send { .. }
        | Stmt::Request { .. }
        | Stmt::Delegate { .. }
        | Stmt::Deliver { .. }
        | Stmt::Select { .. } => found.harmful = true,
        Stmt::Yield(_) => found.harmful |= each != Some(true),
        _ => {}
    }
}

fn call(calls: Calls<'_>, callee: Callee, args: &[Operand], found: &mut Found) {
    let program = calls.image.program();
    match callee {
        Callee::Method(m) if program.types.method(m).builtin.is_some() => {
            found.harmful |= !built_in(calls, m)
        }
        Callee::Routine(r) if matches!(program.routines[r].body, Body::Native(_)) => {
            let name = program.native_name(program.routines[r].body).unwrap_or_default();
            found.harmful |= !NATIVE_ROUTINES.contains(&name);
        }
        _ => match calls.targets(callee, args.first().copied()) {
            Targets::One(func) => found.calls.push(func),
            Targets::Checked { classes, all: true } => found.calls.extend(classes.iter().map(|(_, f)| *f)),
            _ => found.harmful = true,
        },
    }
}

fn built_in(calls: Calls<'_>, m: MethodRef) -> bool {
    let types = &calls.image.program().types;
    let name = types.method(m).name.as_str();
    match types.method(m).builtin {
        Some(row) if row.family == "array" => OF_ARRAYS.contains(&name),
        Some(row) if row.family == "string" => true,
        Some(row) if OTHERS.contains(&row.family) => OF_OTHERS.contains(&name),
        _ => types.kind(m.ty).is_basic(),
    }
}
