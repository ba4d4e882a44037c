//! Functions that may wait: the places at which their code may leave, and the known facts about
//! their ends.
//!
//! Every statement at which such code may leave ([`bifrost_actors::entries::leave_code`]) must be
//! one that it can go on at: not in the body of a loop over an iterator, nor in a transaction, nor
//! in a selection.

use std::collections::HashMap;

use bifrost_ir::ways::{self, AFRESH, Spot, own_method, walk, ways_in};
use bifrost_ir::{Func, FuncKind, Operand, Part, Program, Stmt, Var, requests};

/// Functions in which more variables take replies are interpreted.
const PENDING_MAX: usize = 64;

/// A statement at which code may leave, or that answers, or where it may go on; a loop stands for
/// the end of its steps.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// The way to it, the innermost step first ([`bifrost_ir::ways`]).
    pub(crate) path: Box<[u32]>,
    /// The number of the way into the function, if the function can stop here.
    pub(crate) way: Option<u32>,
    /// True if the function ends behind it.
    pub(crate) last: bool,
    /// The variables that code may read which goes on before it.
    pub(crate) before: Box<[Var]>,
    /// The same for code that goes on with the outcome of its message.
    pub(crate) behind: Box<[Var]>,
}

/// The facts about the statements of a function that may wait.
#[derive(Default, Debug)]
pub(crate) struct Script {
    /// The places, by statement.
    pub(crate) places: HashMap<*const Stmt, Place>,
    /// True if it may go on after its answer.
    pub(crate) answers_early: bool,
    /// True if another may answer in its place.
    pub(crate) delegates: bool,
    /// True if there is a request in it.
    pub(crate) requests: bool,
    /// The variables that may be pending, by their numbers.
    pub(crate) pending: Vec<Var>,
}

impl Script {
    /// The bit of a variable that may be pending.
    pub(crate) fn bit(&self, var: Var) -> Option<i64> {
        self.pending.iter().position(|pending| *pending == var).map(|at| 1 << at)
    }
}

/// True if a function may wait.
pub(crate) fn may_wait(func: &Func) -> bool {
    func.kind == FuncKind::Script || func.body.has_request()
}

/// True if code may leave at a statement, or it answers.
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
    if !may_wait(func) {
        return script;
    }
    script.pending = ways::pending(func);
    if script.pending.len() > PENDING_MAX {
        return script;
    }
    script.requests = func.body.has_request();
    walk(&func.body, &mut |stmt, Spot { path, last, selected }| {
        if selected || !is_place(program, stmt) {
            return;
        }
        script.answers_early |= match stmt {
            Stmt::Reply { .. } | Stmt::Delegate { .. } => !last,
            Stmt::ReplyTo { .. } => true,
            _ => false,
        };
        script.delegates |= matches!(stmt, Stmt::Delegate { .. } | Stmt::ReplyTo { .. });
        let path = path.iter().rev().copied().collect();
        script.places.insert(stmt, Place::new(path, last));
    });
    for (number, way) in (0..).zip(ways_in(program, &func.body)) {
        if matches!(way.stmt, Stmt::Await { .. } | Stmt::While { .. }) {
            let place = Place { way: Some(number), ..Place::new(way.path, false) };
            script.places.insert(way.stmt, place);
        }
    }
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
    script
}

impl Place {
    fn new(path: Box<[u32]>, last: bool) -> Place {
        Place { path, way: None, last, before: Box::default(), behind: Box::default() }
    }

    /// The way by which the interpreter begins the statement.
    pub(crate) fn afresh(&self) -> Box<[u32]> {
        [AFRESH].into_iter().chain(self.path.iter().copied()).collect()
    }
}

/// True if a statement is another, or has it in itself.
pub(crate) fn has(stmt: &Stmt, other: *const Stmt) -> bool {
    let mut found = std::ptr::eq(stmt, other);
    stmt.parts(&mut |part| {
        if let Part::Block(block) = part {
            found = found || block.0.iter().any(|stmt| has(stmt, other));
        }
    });
    found
}

/// True if a method answers by its own end and not before, so that a caller in machine code gets
/// its answer when it has ended.
pub(crate) fn answers_last(program: &Program, func: &Func) -> bool {
    let script = find(program, func);
    let mut last = true;
    func.body.each(&mut |stmt| {
        last &= match stmt {
            Stmt::Reply { .. } => {
                script.places.get(&std::ptr::from_ref(stmt)).is_some_and(|place| place.last)
            }
            Stmt::ReplyTo { .. } | Stmt::Delegate { .. } | Stmt::Select { .. } => false,
            _ => true,
        };
    });
    last
}
