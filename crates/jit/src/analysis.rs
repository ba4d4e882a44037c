//! Which loops become closures, and which variables those share with the function around them.

use std::collections::HashMap;

use bifrost_ir::{Arm, ArmMatch, Block, Callee, Func, FuncKind, Operand, Program, SignalId, Stmt, Var};

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
    /// How a call of this iterator is compiled in place, if it is.
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

/// Why a function is left to the interpreter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum NotCompiled {
    /// Its code would be too large.
    #[error("more than {STATEMENTS_MAX} statements")]
    TooLarge,
    /// Batches are metered, which compiled code is not.
    #[error("batches are interpreted")]
    Batch,
}

/// Functions with more statements are left to the interpreter: the time of code generation grows faster than
/// their number.
pub(crate) const STATEMENTS_MAX: usize = 20_000;

/// Words of the environment before the shared variables.
pub(crate) mod environment {
    /// Why the body of a loop left it, one of [`super::reason`].
    pub(crate) const REASON: u32 = 0;
    /// The first result, if it was by `return`.
    pub(crate) const RESULT: u32 = 1;
    /// In an iterator: the closure to yield to.
    pub(crate) const CLOSURE: u32 = 2;
    /// The first shared variable.
    pub(crate) const VARS: u32 = 3;
}

/// Why a body left its loop.
pub(crate) mod reason {
    /// `break`
    pub(crate) const BREAK: i64 = 1;
    /// `return`; the results are in the environment and in the context.
    pub(crate) const RETURN: i64 = 2;
    /// `signal`; the exception is in the context, and no handler of this function sees it.
    pub(crate) const SIGNAL: i64 = 3;
    /// A call signalled and no handler inside the body took it.
    pub(crate) const RAISED: i64 = 4;
    /// The body yielded, and the closure that it yielded to did not want another step.
    pub(crate) const PASS: i64 = 5;
    /// `exit` to an arm: this plus the arm's number.
    pub(crate) const EXIT: i64 = 16;
}

/// What [`analyse`] finds.
#[derive(Debug)]
pub(crate) struct Analysis {
    /// For each variable the word of the environment that holds it, if closures share it.
    pub(crate) shared: Vec<Option<u32>>,
    /// Words of the environment; 0 without closures.
    pub(crate) environment_words: u32,
    /// How many loops become closures.
    pub(crate) closures: usize,
    /// Whether the function can be part of a recursion, so that its stack must be checked.
    pub(crate) calls: bool,
    /// The number of each handler.
    pub(crate) arms: HashMap<*const Arm, u32>,
}

/// Looks through a function before it is compiled.
pub(crate) fn analyse(program: &Program, func: &Func) -> Result<Analysis, NotCompiled> {
    if matches!(func.kind, FuncKind::Batch | FuncKind::Procedure) {
        return Err(NotCompiled::Batch);
    }
    let mut walk = Walk {
        program,
        first: vec![None; func.vars.len()],
        shared: vec![false; func.vars.len()],
        closures: 0,
        at: 0,
        statements: 0,
        calls: func.signature.is_iterator(),
        handlers: Vec::new(),
        arms: HashMap::new(),
    };
    for var in func.params() {
        walk.touch(var);
    }
    walk.block(&func.body);
    if walk.statements > STATEMENTS_MAX {
        return Err(NotCompiled::TooLarge);
    }
    let mut next = environment::VARS;
    let shared = walk
        .shared
        .iter()
        .map(|shared| {
            shared.then(|| {
                next += 1;
                next - 1
            })
        })
        .collect();
    Ok(Analysis {
        shared,
        environment_words: if walk.closures > 0 { next } else { 0 },
        closures: walk.closures,
        calls: walk.calls,
        arms: walk.arms,
    })
}

/// Whether a handler takes an exception.
pub(crate) fn takes(arm: &Arm, signal: SignalId) -> bool {
    match &arm.takes {
        ArmMatch::Named(signals) => signals.contains(&signal),
        ArmMatch::Others => true,
    }
}

struct Walk<'a> {
    program: &'a Program,
    /// The function that touched a variable first: 0 is the outermost, the others are closures' bodies.
    first: Vec<Option<usize>>,
    shared: Vec<bool>,
    closures: usize,
    at: usize,
    statements: usize,
    calls: bool,
    handlers: Vec<&'a [Arm]>,
    arms: HashMap<*const Arm, u32>,
}

impl<'a> Walk<'a> {
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
        match stmt {
            Stmt::Let { dst, src } => {
                self.reads(&[*src]);
                self.touch(*dst);
            }
            Stmt::Call { callee, args, dsts, .. } => {
                self.reads(args);
                self.writes(dsts);
                self.calls |= match callee {
                    Callee::Method(m) => !self.program.types.kind(m.ty).is_basic(),
                    _ => true,
                };
            }
            Stmt::New { dst, fields: values, .. } | Stmt::NewSequence { dst, elements: values, .. } => {
                self.reads(values);
                self.touch(*dst);
            }
            Stmt::Get { dst, object, .. } => {
                self.reads(&[*object]);
                self.touch(*dst);
            }
            Stmt::Set { object, value, .. } => self.reads(&[*object, *value]),
            Stmt::If { test, then, otherwise } => {
                self.reads(&[*test]);
                self.block(then);
                self.block(otherwise);
            }
            Stmt::While { cond, test, body } => {
                self.block(cond);
                self.reads(&[*test]);
                self.block(body);
            }
            Stmt::ForEach { callee, args, vars, body, .. } => {
                self.reads(args);
                if InlineLoop::of(self.program, *callee).is_some() {
                    self.writes(vars);
                    self.block(body);
                    return;
                }
                self.calls = true;
                self.closures += 1;
                let outer = std::mem::replace(&mut self.at, self.closures);
                self.writes(vars);
                self.block(body);
                self.at = outer;
            }
            Stmt::Break | Stmt::Continue => {}
            Stmt::Return(values) | Stmt::Yield(values) | Stmt::Signal { values, .. } => self.reads(values),
            Stmt::Exit { signal, values } => {
                self.reads(values);
                let arm = self.handlers.iter().rev().find_map(|arms| arms.iter().find(|a| takes(a, *signal)));
                if let Some(arm) = arm {
                    self.writes(&arm.vars);
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
        }
    }
}
