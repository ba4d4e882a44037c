//! Finds the loops and transactions that become closures, and the variables that those share with
//! the function around them.
//!
//! It only reads the IR, before a function is lowered; [`Analysis`] has all that it finds, and
//! [`analyse`] is the function to read first. [`of_call`] and [`of_message`] do the same for a
//! function that may take the place of a call or of a message.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use bifrost_ir::loops::Loop;
use bifrost_ir::plain::is_plain;
use bifrost_ir::{
    Arm, ArmMatch, Block, Callee, Func, FuncId, FuncKind, Operand, Part, Program, SignalId, Stmt, Var,
};
use bifrost_runtime::abi::ARGS_MAX;
use bifrost_runtime::image::Image;
use bifrost_runtime::structure::{LOOPS_MAX, environment};

use crate::actors::places::{self, Script};
use crate::private::{self, ForRequest};
use crate::target::{Calls, Targets};

/// A loop whose iterator is known well enough to be compiled in place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum InlineLoop {
    /// `int.to`
    IntTo,
    /// `int.to_by`
    IntToBy,
    /// `array.elements`
    ArrayElements,
    /// `array.indexes`
    ArrayIndexes,
    /// `sequence.elements`
    SequenceElements,
    /// `sequence.indexes`
    SequenceIndexes,
    /// `list.elements`
    ListElements,
}

impl InlineLoop {
    /// The way in which a call of this iterator is compiled in place, if it is.
    pub(crate) fn of(program: &Program, callee: Callee) -> Option<InlineLoop> {
        let Callee::Method(m) = callee else { return None };
        let row = program.types.method(m).builtin?;
        Some(match (row.family, row.name()) {
            ("int", "to") => InlineLoop::IntTo,
            ("int", "to_by") => InlineLoop::IntToBy,
            ("array", "elements") => InlineLoop::ArrayElements,
            ("array", "indexes") => InlineLoop::ArrayIndexes,
            ("sequence", "elements") => InlineLoop::SequenceElements,
            ("sequence", "indexes") => InlineLoop::SequenceIndexes,
            ("list", "elements") => InlineLoop::ListElements,
            _ => return None,
        })
    }
}

/// The reasons for which a function is left to the interpreter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum NotCompiled {
    /// Its code would be too large.
    #[error("more than {0} statements")]
    TooLarge(usize),
    /// There is no room in a trace for so many loops.
    #[error("more than {LOOPS_MAX} nested loops")]
    TooDeep,
    /// It is entered with more words than the calling convention has.
    #[error("more than {ARGS_MAX} arguments")]
    Arguments,
    /// Something may wait, or answers, where the interpreter cannot go on: in a loop over an
    /// iterator, or in a transaction.
    #[error("the function waits or answers in a loop over an iterator or in a transaction")]
    Waits,
}

/// Functions with more statements are left to the interpreter: the time of code generation grows
/// faster than their number.
pub(crate) const STATEMENTS_MAX: usize = 20_000;

/// The same for structures, which are compiled while their client waits, and may be many.
pub(crate) const STRUCTURE_STATEMENTS_MAX: usize = 2_000;

/// The result of [`analyse`].
#[derive(Default, Debug)]
pub(crate) struct Analysis {
    /// For each variable the word of the environment that holds it, if closures share it.
    pub(crate) shared: Vec<Option<u32>>,
    /// Words of the environment; 0 without closures.
    pub(crate) environment_words: u32,
    /// The number of loops that become closures.
    pub(crate) closures: usize,
    /// True if the function can be part of a recursion, so that its stack must be checked.
    pub(crate) calls: bool,
    /// True if it has loops of its own.
    pub(crate) loops: bool,
    /// The number of each handler.
    pub(crate) arms: HashMap<*const Arm, u32>,
    /// The loops whose iterators take the place of their calls.
    pub(crate) in_place: HashMap<*const Stmt, InPlace>,
    /// The number of statements, those of iterators in place included.
    pub(crate) statements: usize,
    /// Variables that get an array once which nobody else knows ([`private`]).
    pub(crate) private: HashSet<Var>,
    /// Variables that get an actor of which nobody else knows ([`private`]).
    pub(crate) for_requests: HashMap<Var, ForRequest>,
    /// Of a function that may wait: the facts about its statements.
    pub(crate) script: Script,
    /// The number of them that yield.
    yields: usize,
}

/// An iterator that takes the place of its call.
#[derive(Clone, Debug)]
pub(crate) struct InPlace {
    pub(crate) func: FuncId,
    pub(crate) analysis: Rc<Analysis>,
    /// True if its receiver is that of the function around it.
    pub(crate) on_self: bool,
}

/// Iterators with more statements are called.
const ITERATOR_MAX: usize = 40;

/// Iterators that are deeper in others are called.
const ITERATOR_DEPTH_MAX: usize = 3;

/// Looks through a function before it is compiled, or through a loop of a structure.
pub(crate) fn analyse(
    image: &Image,
    func: &Func,
    id: Option<FuncId>,
    part: Option<Loop<'_>>,
) -> Result<Analysis, NotCompiled> {
    walk(image, func, part, &mut id.into_iter().collect())
}

/// Looks through a function that may take the place of a call: a procedure without closures that is
/// not too large.
pub(crate) fn of_call(image: &Image, func: FuncId, statements_max: usize) -> Option<Analysis> {
    let source = &image.program().funcs[func];
    if source.signature.is_iterator() || has_messages(source) || larger(&source.body, &mut { statements_max })
    {
        return None;
    }
    analyse(image, source, Some(func), None).ok().filter(|a| a.closures == 0)
}

/// The same for a method of an actor that takes the place of a message to one at rest
/// ([`is_plain`]).
pub(crate) fn of_message(image: &Image, func: FuncId, statements_max: usize) -> Option<Analysis> {
    let source = &image.program().funcs[func];
    if !is_plain(image.program(), source) || larger(&source.body, &mut { statements_max }) {
        return None;
    }
    analyse(image, source, Some(func), None).ok().filter(|a| a.closures == 0)
}

/// True if a function sends messages or is a method of an actor: it does not take the place of its
/// call.
fn has_messages(func: &Func) -> bool {
    func.kind == FuncKind::Script || func.body.has_messages()
}

/// True if a block has more statements than are left; counts them down.
fn larger(block: &Block, left: &mut usize) -> bool {
    block.0.iter().any(|stmt| {
        *left = left.saturating_sub(1);
        let mut found = *left == 0;
        stmt.parts(&mut |part| {
            if let Part::Block(block) = part {
                found = found || larger(block, left);
            }
        });
        found
    })
}

/// `active` are the functions that this one is in place in, itself last.
fn walk(
    image: &Image,
    func: &Func,
    part: Option<Loop<'_>>,
    active: &mut Vec<FuncId>,
) -> Result<Analysis, NotCompiled> {
    if func.kind == FuncKind::Procedure && func.signature.params.len() > ARGS_MAX {
        return Err(NotCompiled::Arguments);
    }
    let mut walk = Walk {
        image,
        func,
        active,
        first: vec![None; func.vars.len()],
        shared: vec![false; func.vars.len()],
        closures: 0,
        at: 0,
        statements: 0,
        calls: func.signature.is_iterator(),
        loops: false,
        handlers: Vec::new(),
        arms: HashMap::new(),
        in_place: HashMap::new(),
        yields: 0,
        script: places::find(image.program(), func),
        astray: false,
    };
    for var in func.params() {
        walk.touch(var);
    }
    match part.map(|part| part.stmt) {
        None => walk.block(&func.body),
        Some(Stmt::ForEach { vars, body, .. }) => {
            walk.writes(vars);
            walk.block(body);
        }
        Some(stmt) => {
            walk.statements += 1;
            walk.stmt(stmt);
        }
    }
    let (structure, most) = match func.kind {
        FuncKind::Batch | FuncKind::Procedure => (true, STRUCTURE_STATEMENTS_MAX),
        _ => (false, STATEMENTS_MAX),
    };
    if walk.astray {
        return Err(NotCompiled::Waits);
    }
    if walk.statements > most {
        return Err(NotCompiled::TooLarge(most));
    }
    if structure && loops(&func.body) > LOOPS_MAX {
        return Err(NotCompiled::TooDeep);
    }
    if let Some(part) = part {
        used_outside(func, part, &mut walk.shared);
    }
    let mut next = environment::VARS;
    let private = private::find(image.program(), func, &walk.shared);
    let shared = walk
        .shared
        .iter()
        .enumerate()
        .map(|(var, shared)| {
            shared.then(|| {
                next += 1;
                if part.is_some() { environment::VARS + var as u32 } else { next - 1 }
            })
        })
        .collect();
    // Passive code may run in a session, which has no actors.
    let for_requests = match func.kind {
        FuncKind::Script => private::for_requests(image, func),
        _ => HashMap::new(),
    };
    Ok(Analysis {
        private,
        for_requests,
        shared,
        environment_words: if walk.closures > 0 { next } else { 0 },
        closures: walk.closures,
        calls: walk.calls,
        loops: walk.loops,
        arms: walk.arms,
        in_place: walk.in_place,
        statements: walk.statements,
        yields: walk.yields,
        script: walk.script,
    })
}

/// Marks the variables that a function uses outside a loop. The loop finds them where the
/// interpreter has them. All others begin in each round, since the verifier lets none be read that
/// may not have been assigned before, and nothing is assigned in a loop that has no round.
fn used_outside(func: &Func, part: Loop<'_>, used: &mut [bool]) {
    fn mark(block: &Block, part: *const Stmt, used: &mut [bool]) {
        for stmt in &block.0 {
            if std::ptr::eq(stmt, part) {
                // The arguments of an iterator: the interpreter has read them.
                continue;
            }
            stmt.parts(&mut |inner| match inner {
                Part::Reads(Operand::Var(var)) | Part::Writes(var) => used[var.as_u32() as usize] = true,
                Part::Reads(Operand::Const(_)) => {}
                Part::Block(block) => mark(block, part, used),
            });
        }
    }
    for var in func.params() {
        used[var.as_u32() as usize] = true;
    }
    mark(&func.body, part.stmt, used);
}

/// The number of loops inside each other.
fn loops(block: &Block) -> usize {
    let of = |stmt: &Stmt| {
        let mut inside = 0;
        stmt.parts(&mut |part| {
            if let Part::Block(block) = part {
                inside = inside.max(loops(block));
            }
        });
        inside + usize::from(matches!(stmt, Stmt::While { .. } | Stmt::ForEach { .. }))
    };
    block.0.iter().map(of).max().unwrap_or(0)
}

/// True if a handler takes an exception.
pub(crate) fn takes(arm: &Arm, signal: SignalId) -> bool {
    match &arm.takes {
        ArmMatch::Named(signals) => signals.contains(&signal),
        ArmMatch::Others => true,
    }
}

struct Walk<'a, 'f> {
    image: &'a Image,
    func: &'a Func,
    active: &'f mut Vec<FuncId>,
    /// The function that touched a variable first: 0 is the outermost, the others are closures'
    /// bodies.
    first: Vec<Option<usize>>,
    shared: Vec<bool>,
    closures: usize,
    at: usize,
    statements: usize,
    calls: bool,
    loops: bool,
    handlers: Vec<&'a [Arm]>,
    arms: HashMap<*const Arm, u32>,
    in_place: HashMap<*const Stmt, InPlace>,
    yields: usize,
    script: Script,
    /// True if there is a statement from which code could leave, and that is no place to do it.
    astray: bool,
}

impl<'a> Walk<'a, '_> {
    fn touch(&mut self, var: Var) {
        let i = var.as_u32() as usize;
        match self.first[i] {
            None => self.first[i] = Some(self.at),
            Some(first) => self.shared[i] |= first != self.at,
        }
    }

    fn reads(&mut self, operands: &[Operand]) {
        for operand in operands {
            if let Operand::Var(var) = operand {
                self.touch(*var);
            }
        }
    }

    fn writes(&mut self, vars: &[Var]) {
        for var in vars {
            self.touch(*var);
        }
    }

    fn block(&mut self, block: &'a Block) {
        for stmt in &block.0 {
            self.statements += 1;
            self.stmt(stmt);
        }
    }

    fn stmt(&mut self, stmt: &'a Stmt) {
        if places::is_place(self.image.program(), stmt) {
            self.astray |= !self.script.places.contains_key(&std::ptr::from_ref(stmt));
        }
        match stmt {
            // From there on it is interpreted.
            Stmt::Select { .. } => {}
            Stmt::Create { .. } | Stmt::Send { .. } | Stmt::Request { .. } | Stmt::Delegate { .. } => {
                self.calls = true;
                self.parts(stmt);
            }
            Stmt::Call { callee, .. } => {
                self.calls |= match callee {
                    Callee::Method(m) => !self.image.program().types.kind(m.ty).is_basic(),
                    _ => true,
                };
                self.parts(stmt);
            }
            Stmt::While { .. } => {
                self.loops = true;
                self.parts(stmt);
            }
            Stmt::ForEach { callee, args, vars, body, .. } => {
                self.reads(args);
                if InlineLoop::of(self.image.program(), *callee).is_some() {
                    self.loops = true;
                    self.writes(vars);
                    self.block(body);
                    return;
                }
                self.calls = true;
                if let Some(iterator) = self.iterator(*callee, args.first().copied()) {
                    self.statements += iterator.analysis.statements;
                    self.loops |= iterator.analysis.loops;
                    self.in_place.insert(stmt, iterator);
                    self.writes(vars);
                    self.block(body);
                    return;
                }
                self.closures += 1;
                let outer = std::mem::replace(&mut self.at, self.closures);
                self.writes(vars);
                self.block(body);
                self.at = outer;
            }
            Stmt::Transaction { body, .. } => {
                self.calls = true;
                self.closures += 1;
                let outer = std::mem::replace(&mut self.at, self.closures);
                self.block(body);
                self.at = outer;
            }
            Stmt::Yield(_) => {
                self.yields += 1;
                self.parts(stmt);
            }
            Stmt::Exit { signal, values } => {
                self.reads(values);
                let arm = self.handlers.iter().rev().find_map(|arms| arms.iter().find(|a| takes(a, *signal)));
                match arm {
                    Some(arm) => self.writes(&arm.vars),
                    // It is outside the part that is compiled.
                    None => self.astray = true,
                }
            }
            Stmt::Except { body, arms } => {
                self.handlers.push(arms);
                self.block(body);
                self.handlers.pop();
                for arm in arms {
                    let number = self.arms.len() as u32;
                    self.arms.insert(arm, number);
                    self.writes(&arm.vars);
                    self.block(&arm.body);
                }
            }
            _ => self.parts(stmt),
        }
    }

    fn parts(&mut self, stmt: &'a Stmt) {
        stmt.parts(&mut |part| match part {
            Part::Reads(operand) => self.reads(&[operand]),
            Part::Writes(var) => self.touch(var),
            Part::Block(block) => self.block(block),
        });
    }

    /// Returns the facts about a loop's iterator by which it is compiled in place, if it is worth
    /// it. It yields at one place, where the loop's body will be.
    fn iterator(&mut self, callee: Callee, receiver: Option<Operand>) -> Option<InPlace> {
        let calls = Calls { image: self.image, func: self.func, class: None };
        let Targets::One(id) = calls.targets(callee, receiver) else { return None };
        if self.active.contains(&id) || self.active.len() > ITERATOR_DEPTH_MAX {
            return None;
        }
        let func = &self.image.program().funcs[id];
        if has_messages(func) || larger(&func.body, &mut { ITERATOR_MAX }) {
            return None;
        }
        self.active.push(id);
        let found = walk(self.image, func, None, self.active);
        self.active.pop();
        let analysis = found.ok().filter(|a| a.closures == 0 && a.yields == 1)?;
        let on_self = matches!(callee, Callee::Method(_));
        Some(InPlace { func: id, analysis: Rc::new(analysis), on_self })
    }
}
