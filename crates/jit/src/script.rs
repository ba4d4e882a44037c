//! Functions that may wait: where their code may leave for the interpreter, and what of their ends is known.
//!
//! The code of such a function never waits itself ([`bifrost_runtime::actor::leave_code`]). So every statement from which it may
//! leave must be one that the interpreter can begin at: not in the body of a loop over an iterator, nor in a transaction.

use std::collections::HashMap;
use std::iter;

use bifrost_ir::{Block, Body, Callee, Func, FuncId, FuncKind, Operand, Part, Program, Stmt, Var, requests};

/// A statement from which code may leave, or that answers, or where it may go on; a loop stands for the end of its steps.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// The way to it, as a join has it: the innermost step first.
    pub(crate) path: Box<[u32]>,
    /// Whether the function ends behind it.
    pub(crate) last: bool,
    /// The variables that whoever goes on before it may read.
    pub(crate) before: Box<[Var]>,
    /// The same for who goes on with what its message came back with.
    pub(crate) behind: Box<[Var]>,
}

impl Place {
    fn new(path: Box<[u32]>, last: bool) -> Place {
        Place { path, last, before: Box::default(), behind: Box::default() }
    }
}

/// What is known of the statements of a function that may wait.
#[derive(Default, Debug)]
pub(crate) struct Script {
    /// The places, by statement.
    pub(crate) places: HashMap<*const Stmt, Place>,
    /// Whether it may go on after its answer.
    pub(crate) answers_early: bool,
}

/// Whether a function may wait, so that it can go on in the interpreter.
pub(crate) fn may_wait(func: &Func) -> bool {
    func.kind == FuncKind::Script || func.body.has_request()
}

/// The method of its own that a call of an actor on itself runs.
pub(crate) fn own_method(program: &Program, callee: Callee) -> Option<FuncId> {
    let Callee::Method(method) = callee else { return None };
    let class = program.class_of_type(method.ty)?;
    class.actor.as_ref()?;
    match class.bodies[method.method.as_u32() as usize] {
        Body::Func(func) => Some(func),
        Body::Native(_) => None,
    }
}

/// Whether code may leave at a statement, or it answers.
pub(crate) fn is_place(program: &Program, stmt: &Stmt) -> bool {
    match stmt {
        Stmt::Request { .. }
        | Stmt::Reply { .. }
        | Stmt::ReplyTo { .. }
        | Stmt::Delegate { .. }
        | Stmt::Select { .. } => true,
        Stmt::Call { callee, .. } => own_method(program, *callee).is_some(),
        _ => false,
    }
}

/// Looks for the places of a function.
pub(crate) fn find(program: &Program, func: &Func) -> Script {
    let mut script = Script::default();
    if may_wait(func) {
        block(program, &func.body, &mut Vec::new(), true, &mut script);
        let receiver = func.kind.has_receiver().then_some(Var::from_u32(0));
        requests::live(func, &mut |stmt, before, behind| {
            let Some(place) = script.places.get_mut(&std::ptr::from_ref(stmt)) else { return };
            let mut behind = behind.clone();
            match stmt {
                Stmt::Request { dst, element: None, .. } => {
                    behind.remove(dst);
                }
                Stmt::Request { dst, element: Some(index), .. } => {
                    behind.insert(*dst);
                    if let Operand::Var(index) = index {
                        behind.insert(*index);
                    }
                }
                Stmt::Call { dsts, .. } => behind.retain(|var| !dsts.contains(var)),
                _ => {}
            }
            place.before = before.iter().copied().chain(receiver).collect();
            place.behind = behind.into_iter().chain(receiver).collect();
        });
    }
    script
}

/// `around` is the way to the block, the outermost step first; `last` tells whether the function ends behind it.
fn block(program: &Program, it: &Block, around: &mut Vec<u32>, last: bool, script: &mut Script) {
    for (at, stmt) in it.0.iter().enumerate() {
        let rest = &it.0[at + 1..];
        let returns = rest.iter().all(|stmt| matches!(stmt, Stmt::Return(values) if values.is_empty()));
        let last = returns && (last || !rest.is_empty());
        around.push(at as u32);
        if is_place(program, stmt) {
            script.answers_early |= match stmt {
                Stmt::Reply { .. } => !last,
                Stmt::Delegate { .. } => true,
                _ => false,
            };
            let path = around.iter().rev().copied().collect();
            script.places.insert(stmt, Place::new(path, last));
        }
        if let Stmt::While { .. } = stmt {
            // At the end of a step it may make way for others, and goes on with its condition.
            let path = iter::once(0).chain(around.iter().rev().copied()).collect();
            script.places.insert(stmt, Place::new(path, false));
        }
        if let Stmt::Await { .. } = stmt {
            // Nothing is awaited in code, but it may go on here.
            let path = around.iter().rev().copied().collect();
            script.places.insert(stmt, Place::new(path, false));
        }
        let mut part = |step: u32, inner: &Block, last: bool| {
            around.push(step);
            block(program, inner, around, last, script);
            around.pop();
        };
        match stmt {
            Stmt::If { then, otherwise, .. } | Stmt::TypeIf { then, otherwise, .. } => {
                part(0, then, last);
                part(1, otherwise, last);
            }
            Stmt::While { cond, body, .. } => {
                part(0, cond, false);
                part(1, body, false);
            }
            Stmt::Except { body, arms } => {
                part(0, body, last);
                for (step, arm) in (1..).zip(arms) {
                    part(step, &arm.body, last);
                }
            }
            // Whoever selects is interpreted from there on, and of loops over iterators and transactions there is no way in.
            _ => {}
        }
        around.pop();
    }
}

/// Whether a statement is another, or has it in itself.
pub(crate) fn has(stmt: &Stmt, other: *const Stmt) -> bool {
    let mut found = std::ptr::eq(stmt, other);
    stmt.parts(&mut |part| {
        if let Part::Block(block) = part {
            found = found || block.0.iter().any(|stmt| has(stmt, other));
        }
    });
    found
}

/// Whether a method answers by its own end and not before, so that a caller in machine code gets its answer when it has ended.
pub(crate) fn answers_last(program: &Program, func: &Func) -> bool {
    let mut replies = 0;
    let mut others = false;
    count(&func.body, &mut |stmt| match stmt {
        Stmt::Reply { .. } => replies += 1,
        Stmt::ReplyTo { .. } | Stmt::Delegate { .. } | Stmt::Select { .. } => others = true,
        _ => {}
    });
    if others {
        return false;
    }
    let script = find(program, func);
    let mut last = 0;
    count(&func.body, &mut |stmt| {
        let place = script.places.get(&std::ptr::from_ref(stmt));
        last += usize::from(matches!(stmt, Stmt::Reply { .. }) && place.is_some_and(|place| place.last));
    });
    last == replies
}

fn count(block: &Block, see: &mut dyn FnMut(&Stmt)) {
    for stmt in &block.0 {
        see(stmt);
        stmt.parts(&mut |part| {
            if let Part::Block(block) = part {
                count(block, see);
            }
        });
    }
}
