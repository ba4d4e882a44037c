//! Where a function that may wait can stop, and go on (`docs/internals/actors.md`).
//!
//! Such a function unwinds when it waits. To go on it is walked down again, by the numbers of the
//! statements and blocks that lead to where it stopped: a path. All paths are known from the text
//! of the function, so a join needs only the number of one of its [`ways_in`].

use crate::program::{Body, Program};
use crate::stmt::{Block, Callee, Func, FuncId, Stmt, Var};

/// At the innermost end of a path: the statement that it leads to, or its condition, was not begun.
pub const AFRESH: u32 = u32::MAX;

/// The place of a statement in its function.
#[derive(Clone, Copy, Debug)]
pub struct Spot<'p> {
    /// The way to it, the outermost step first: the number of the statement in each block, and the
    /// number of the block in each statement that has several.
    pub path: &'p [u32],
    /// True if the function ends behind it.
    pub last: bool,
    /// True if it is in a selection.
    pub selected: bool,
}

/// Shows every statement that a path leads to, an outer one before those in it. Statements in the
/// body of a loop over an iterator or of a transaction are not shown: nothing waits there.
///
/// Cost: linear in the number of statements.
pub fn walk<'a>(body: &'a Block, see: &mut dyn FnMut(&'a Stmt, Spot<'_>)) {
    walk_block(body, &mut Vec::new(), true, false, see);
}

fn walk_block<'a>(
    block: &'a Block,
    around: &mut Vec<u32>,
    last: bool,
    selected: bool,
    see: &mut dyn FnMut(&'a Stmt, Spot<'_>),
) {
    for (at, stmt) in block.0.iter().enumerate() {
        let rest = &block.0[at + 1..];
        let returns = rest.iter().all(|stmt| matches!(stmt, Stmt::Return(values) if values.is_empty()));
        let last = returns && (last || !rest.is_empty());
        around.push(at as u32);
        see(stmt, Spot { path: around, last, selected });
        let mut part = |step: usize, inner: &'a Block, last: bool, selected: bool| {
            around.push(step as u32);
            walk_block(inner, around, last, selected, see);
            around.pop();
        };
        match stmt {
            Stmt::If { then, otherwise, .. } | Stmt::TypeIf { then, otherwise, .. } => {
                part(0, then, last, selected);
                part(1, otherwise, last, selected);
            }
            Stmt::While { cond, body, .. } => {
                part(0, cond, false, selected);
                part(1, body, false, selected);
            }
            Stmt::Except { body, arms } => {
                part(0, body, last, selected);
                arms.iter().zip(1..).for_each(|(arm, step)| part(step, &arm.body, last, selected));
            }
            // The code behind an arm ends the message that it has taken.
            Stmt::Select { arms, after, .. } => {
                arms.iter().zip(0..).for_each(|(arm, step)| part(step, &arm.body, false, true));
                after.iter().for_each(|(_, late)| part(arms.len(), late, false, true));
            }
            _ => {}
        }
        around.pop();
    }
}

/// A statement at which a function can stop, and go on.
#[derive(Clone, Debug)]
pub struct WayIn<'a> {
    /// It awaits, is a loop, which stops at the end of a step and goes on with its condition,
    /// selects, or is a call of an actor on itself.
    pub stmt: &'a Stmt,
    /// The way to it, the innermost step first; it may begin with [`AFRESH`].
    pub path: Box<[u32]>,
    /// True if machine code can go on here.
    pub open: bool,
}

/// Returns all ways into a function. Their order gives their numbers.
///
/// Cost: linear in the number of statements.
pub fn ways_in<'a>(program: &Program, body: &'a Block) -> Vec<WayIn<'a>> {
    let mut found = Vec::new();
    walk(body, &mut |stmt, Spot { path, selected, .. }| {
        let (afresh, open) = match stmt {
            Stmt::Await { .. } => (None, true),
            // One that selects would leave at each step.
            Stmt::While { body, .. } => {
                (Some([AFRESH, 0]), !body.contains(&|stmt| matches!(stmt, Stmt::Select { .. })))
            }
            Stmt::Select { .. } => (None, false),
            Stmt::Call { callee, .. } if own_method(program, *callee).is_some() => (None, false),
            _ => return,
        };
        let path = afresh.into_iter().flatten().chain(path.iter().rev().copied()).collect();
        found.push(WayIn { stmt, path, open: open && !selected });
    });
    found
}

/// Returns the method of its own that a call of an actor on itself runs.
pub fn own_method(program: &Program, callee: Callee) -> Option<FuncId> {
    let Callee::Method(method) = callee else { return None };
    let class = program.class_of_type(method.ty)?;
    class.actor.as_ref()?;
    match class.bodies[method.method.as_u32() as usize] {
        Body::Func(func) => Some(func),
        Body::Native(_) => None,
    }
}

/// Returns the variables of a function that may be pending, in the order of their first request or
/// wait; the order gives their numbers.
///
/// Cost: linear in the number of statements, times that of the variables found.
pub fn pending(func: &Func) -> Vec<Var> {
    let mut found = Vec::new();
    let mut add = |var: &Var| {
        if !found.contains(var) {
            found.push(*var);
        }
    };
    func.body.each(&mut |stmt| match stmt {
        Stmt::Request { dst, .. } => add(dst),
        Stmt::Await { vars, .. } => vars.iter().for_each(&mut add),
        _ => {}
    });
    found
}
