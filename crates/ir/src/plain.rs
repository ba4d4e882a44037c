//! Methods of actors that only compute: a message to an actor at rest may be replaced by their
//! operations.

use crate::{Callee, Func, Program, Stmt};

/// Returns true if a method of an actor answers at its end or not at all, has no loops, and calls
/// nothing but methods of basic types. So nobody can tell whether the actor was busy meanwhile, and
/// nothing can have come for it.
pub fn is_plain(program: &Program, func: &Func) -> bool {
    let [front @ .., Stmt::Return(_)] = &func.body.0[..] else { return false };
    let front = match front {
        [front @ .., Stmt::Reply { .. }] => front,
        front if func.signature.results.is_empty() => front,
        _ => return false,
    };
    front.iter().all(|stmt| is_step(program, stmt))
}

/// Returns true if a statement does no more than to compute, and to read and change variables.
fn is_step(program: &Program, stmt: &Stmt) -> bool {
    let types = &program.types;
    match stmt {
        Stmt::Let { .. } | Stmt::Get { .. } | Stmt::Set { .. } => true,
        Stmt::Call { callee: Callee::Method(method), .. } => {
            types.method(*method).builtin.is_some() && types.kind(method.ty).is_basic()
        }
        Stmt::If { then, otherwise, .. } => {
            then.0.iter().chain(&otherwise.0).all(|stmt| is_step(program, stmt))
        }
        _ => false,
    }
}
