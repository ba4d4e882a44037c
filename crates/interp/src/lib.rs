//! Programs run as prepared nodes: the reference semantics.
//!
//! A [`Func`](bifrost_ir::Func) is prepared once into a tree of nodes ([`node`]). Nodes are special
//! to the number of operands and to the kind of callee; some keep a result and some drop it. They
//! work on a frame of words in which constants have places like variables, so that no operand is
//! looked at twice ([`prepare`]). Dispatch of methods of basic types, routines and operations is
//! done at preparation; a method of an object is one load from its table. [`run`] executes nodes.
//!
//! Two uses share all of this: a client's batches, which are metered and tell where they failed,
//! and, as an oracle for the compiler, all functions of an image that has no engine.
//!
//! Sources: 000 section 6.4 (parse trees of specialised nodes, shared places for variable futures,
//! closures for iterators), 8.2 (break, continue, procedures).
//!
//! A structure that ran long enough is handed to the compiler, and its code runs in place of its
//! nodes ([`structure`]). A loop of it that is under way then goes on as code ([`loops`]).
//!
//! [`Nodes::General`] makes every call the node of a call in general. It is for measuring what the
//! special ones save (000 figure 7-3), and tests compare the two.
//!
//! It does no checking: only verified functions are prepared.

mod client;
mod loops;
mod node;
mod op;
mod prepare;
mod run;
mod script;
mod structure;

pub use node::{Nodes, Prepared};
pub use op::{OpError, apply};
pub use run::{BatchEnd, Interp, Trace};
pub use structure::HOT_STEPS;
