//! The loops of a function, by number.
//!
//! A loop that runs long is compiled while it runs (`docs/internals/structures.md`). The engines
//! name it by its number: its position among all loops of its function, an outer loop before those
//! in it.

use crate::stmt::{Block, Part, Stmt, Var};

/// A loop of a function.
#[derive(Clone, Copy, Debug)]
pub struct Loop<'f> {
    /// The statement, a [`Stmt::While`] or [`Stmt::ForEach`].
    pub stmt: &'f Stmt,
    /// The number of loops around it.
    pub around: usize,
}

impl<'f> Loop<'f> {
    /// Returns the variables that the iterator fills; none of a WHILE.
    pub fn vars(self) -> &'f [Var] {
        match self.stmt {
            Stmt::ForEach { vars, .. } => vars,
            _ => &[],
        }
    }
}

/// Returns the loops of a function's body; their positions are their numbers.
///
/// Cost: linear in the number of statements.
pub fn loops(body: &Block) -> Vec<Loop<'_>> {
    let mut found = Vec::new();
    find(body, 0, &mut found);
    found
}

fn find<'f>(block: &'f Block, around: usize, found: &mut Vec<Loop<'f>>) {
    for stmt in &block.0 {
        let is = matches!(stmt, Stmt::While { .. } | Stmt::ForEach { .. });
        if is {
            found.push(Loop { stmt, around });
        }
        stmt.parts(&mut |part| {
            if let Part::Block(block) = part {
                find(block, around + usize::from(is), found);
            }
        });
    }
}
