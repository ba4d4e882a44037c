//! Types, signatures and programs: the one form that methods and batches share.
//!
//! A Theta method and a client's batch are the same thing here: a [`Func`], a typed structured
//! program over numbered variables. One verifier checks both, one interpreter and one compiler run
//! both. A [`Program`] is everything a server has loaded: types, classes, routines and their funcs.
//!
//! Read [`Program`] first, then [`Stmt`] for the statements of a program and [`builtin`] for the
//! types that are always there.
//!
//! Deliberately absent are I/O, object layout, code addresses and source text. Every value is one
//! untagged 64-bit word (the IR's static types say which words are references), but nothing here
//! depends on it.

pub mod boxed;
pub mod builtin;
pub mod dispatch;
pub mod loops;
pub mod native;
pub mod places;
pub mod plain;
pub mod program;
pub mod requests;
pub mod resumable;
pub mod routines;
pub mod stmt;
pub mod tagged;
pub mod text;
pub mod types;
pub mod verify;
pub mod ways;

pub use places::{Place, Site, Text, TextId, Written};
pub use program::{Actor, Body, Class, ClassId, Field, Literal, NativeId, Program, Routine, RoutineId};
pub use stmt::{
    ABORTED, Arm, ArmMatch, Block, Callee, Choice, Const, Destination, Func, FuncId, FuncKind, Operand, Part,
    Stmt, Var, VarDecl,
};
pub use types::{
    Form, HeadingId, Method, MethodId, MethodRef, Param, SignalId, SignalSig, Signature, StructureId,
    Supertype, TypeDef, TypeId, TypeKind, Types,
};
