//! Unreachable code: which statements never go on to the next.

use crate::ast::{Body, Expr, ExprKind, Handler, Stmt, StmtKind};

/// Returns true if control can reach the end of `body`.
pub(super) fn completes(body: &Body) -> bool {
    body.iter().all(statement_completes)
}

/// Returns true if control can reach the statement behind `stmt`; true where that is not known.
pub(super) fn statement_completes(stmt: &Stmt) -> bool {
    core_completes(&stmt.kind) || stmt.handlers.iter().any(handler_completes)
}

fn handler_completes(handler: &Handler) -> bool {
    match handler {
        Handler::Resignal(_) => false,
        Handler::Except { arms, others } => {
            arms.iter().any(|arm| completes(&arm.body))
                || others.as_ref().is_some_and(|others| completes(&others.body))
        }
    }
}

fn core_completes(kind: &StmtKind) -> bool {
    match kind {
        StmtKind::Return(_)
        | StmtKind::Signal { .. }
        | StmtKind::Exit { .. }
        | StmtKind::Break
        | StmtKind::Continue => false,
        StmtKind::Begin(body) | StmtKind::Transaction(body) => completes(body),
        StmtKind::If { arms, otherwise } => {
            arms.iter().any(|(_, body)| completes(body)) || otherwise.as_ref().is_none_or(completes)
        }
        StmtKind::While { condition, body } => !is_true(condition) || breaks(body),
        // Without `others` all tags have an arm, and an object without an arm ends in `failure`.
        StmtKind::Tagcase { arms, others, .. } => {
            arms.iter().any(|arm| completes(&arm.body)) || others.as_ref().is_some_and(completes)
        }
        StmtKind::Typecase { arms, others, .. } => {
            arms.iter().any(|arm| completes(&arm.body)) || others.as_ref().is_some_and(completes)
        }
        _ => true,
    }
}

fn is_true(condition: &Expr) -> bool {
    match &condition.kind {
        ExprKind::Bool(value) => *value,
        ExprKind::Paren(inner) => is_true(inner),
        _ => false,
    }
}

/// Returns true if a `break` of the loop around `body` is in it.
fn breaks(body: &Body) -> bool {
    body.iter().any(|stmt| {
        let inside = match &stmt.kind {
            StmtKind::Break => true,
            StmtKind::Begin(body) | StmtKind::Transaction(body) => breaks(body),
            StmtKind::If { arms, otherwise } => {
                arms.iter().any(|(_, body)| breaks(body)) || otherwise.as_ref().is_some_and(breaks)
            }
            StmtKind::Tagcase { arms, others, .. } => {
                arms.iter().any(|arm| breaks(&arm.body)) || others.as_ref().is_some_and(breaks)
            }
            StmtKind::Typecase { arms, others, .. } => {
                arms.iter().any(|arm| breaks(&arm.body)) || others.as_ref().is_some_and(breaks)
            }
            StmtKind::Wait { arms, after } => {
                arms.iter().any(|arm| breaks(&arm.body))
                    || after.as_ref().is_some_and(|(_, body)| breaks(body))
            }
            StmtKind::Make { then, .. } => then.as_ref().is_some_and(breaks),
            _ => false,
        };
        inside
            || stmt.handlers.iter().any(|handler| match handler {
                Handler::Resignal(_) => false,
                Handler::Except { arms, others } => {
                    arms.iter().any(|arm| breaks(&arm.body))
                        || others.as_ref().is_some_and(|others| breaks(&others.body))
                }
            })
    })
}
