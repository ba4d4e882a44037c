//! Modules that clients ship in WebAssembly: compiled, kept by their content, and run within
//! limits (000 section 8.3).
//!
//! Read [`Modules`] first, then [`Run`]. A module is a program of a client for its server. It has
//! no imports but those of [`IMPORTS`]: the checked calls of the session that runs it.
//!
//! 1. [`Modules::load`] compiles a module, or finds it by the SHA-256 of its bytes.
//! 2. [`Run::begin`] makes an instance of it, which begins with memory of its own.
//! 3. [`Run::step`] runs it to its next call of the session, to the end of a slice of instructions,
//!    or to its end. The session answers a call with [`Run::answer`].
//!
//! **Nothing of the engine is on the stack while the session works.** The module has a stack of
//! its own, which is left at each call. So the fiber of a session may wait in a call, and go on in
//! another thread, and the engine's state of a thread is never mixed up.
//!
//! | quantity | limit |
//! | --- | --- |
//! | linear memory | [`Bounds::memory_bytes`] |
//! | elements of tables | [`TABLE_ELEMENTS_MAX`] |
//! | depth of calls | [`STACK_BYTES`] |
//! | instructions | the session takes fuel for each slice, and ends the run |
//! | modules that are kept | [`KEPT_MAX`], and [`KEPT_BYTES_MAX`] of machine code |
//!
//! The engine is Wasmtime, whose code generator is that of `jit`. It checks every access to memory
//! by instructions and installs no handlers of signals, since the process is not its own. Without
//! the feature `wasm` the crate has the same types and refuses every module.

#![forbid(unsafe_code)]

#[cfg(feature = "wasm")]
mod engine;
#[cfg(not(feature = "wasm"))]
#[path = "absent.rs"]
mod engine;

pub use engine::{Module, Modules, Run};

/// True if this program can run modules: it was built with the feature `wasm`.
pub const IS_BUILT_IN: bool = cfg!(feature = "wasm");

/// Instructions of a slice: a run that makes no calls returns to its session after so many.
pub const SLICE: u64 = 100_000;

/// Instructions that cost one unit of the session's fuel.
pub const INSTRUCTIONS_PER_FUEL: u64 = 100;

/// Bytes of the stack of a module.
pub const STACK_BYTES: usize = 512 << 10;

/// Most elements of the tables of an instance.
pub const TABLE_ELEMENTS_MAX: usize = 10_000;

/// Most modules that the process keeps compiled.
pub const KEPT_MAX: usize = 256;

/// Most bytes of machine code of the modules that the process keeps.
pub const KEPT_BYTES_MAX: usize = 64 << 20;

/// Most bytes of a text that a module ends its run with; the rest is cut off.
pub const FAIL_BYTES_MAX: usize = 1000;

/// The name of the module that has the imports.
pub const IMPORTS_MODULE: &str = "bifrost";

/// The imports that a module may have: each with its number of parameters and its description. All
/// parameters and results are of type `i32`. An address and a length are two parameters.
pub const IMPORTS: &[(&str, usize, &str)] = &[
    ("run", 4, "Runs a command of the wire form, writes its results, returns their number."),
    ("try_run", 4, "As `run`, but returns -1 if an exception was signalled, -2 if it was refused."),
    ("text", 3, "Writes the bytes of a string or of bytes, returns their number."),
    ("failure", 2, "Writes the name of the last failure of `try_run`, returns its length."),
    ("raise", 0, "Ends the run with the last failure of `try_run`."),
    ("fail", 2, "Ends the run with the exception `failure`, and a text of at most 1000 bytes."),
    ("release", 1, "Forgets the results from a position on."),
    ("type", 2, "Returns the number of a type by its name, or -1."),
    ("method", 2, "Returns the number of a method by its name, `type:method`, or -1."),
    ("routine", 2, "Returns the number of a routine by its name, or -1."),
];

/// A value that enters or leaves a module.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Value {
    /// An integer: `i64`.
    Int(i64),
    /// A floating-point number: `f64`.
    Real(f64),
    /// The position of a result of the run: `i32`.
    Position(u32),
}

/// The type of a [`Value`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// `i64`.
    Int,
    /// `f64`.
    Real,
    /// `i32`.
    Position,
}

/// The parameters and the result of a function that a module exports.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Signature {
    /// The parameters, in order.
    pub params: Vec<Kind>,
    /// The result, if there is one.
    pub result: Option<Kind>,
}

/// The limits of one run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// Most bytes of linear memory.
    pub memory_bytes: usize,
}

/// A call of the session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HostCall {
    /// A command of the wire form, which is the input. With `tolerant` a failure does not end the
    /// run.
    Command {
        /// True for `try_run`.
        tolerant: bool,
    },
    /// The bytes of a string or of bytes.
    Text {
        /// The position of the result.
        position: u32,
    },
    /// The name of the last failure.
    Failure,
    /// The end of the run, with the last failure.
    Raise,
    /// The end of the run, with the text that is the input.
    Fail,
    /// Results are forgotten.
    Release {
        /// The position of the first.
        position: u32,
    },
    /// The number of the type whose name is the input.
    FindType,
    /// The number of the method whose name is the input.
    FindMethod,
    /// The number of the routine whose name is the input.
    FindRoutine,
}

/// The reason why [`Run::step`] has returned.
#[derive(Debug)]
pub enum Step {
    /// The module calls the session, which must [`Run::answer`]. `room` is the number of bytes of
    /// the output that the module takes.
    Call {
        /// The call.
        call: HostCall,
        /// Bytes that the module has room for.
        room: usize,
    },
    /// A slice of instructions is over.
    Slice,
    /// The function has returned.
    Done(Option<Value>),
    /// The run was ended.
    Ended(Ended),
}

/// The reason why a run has ended before its function has returned.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Ended {
    /// An instruction that cannot be carried out.
    #[error("the module has trapped: {0}")]
    Trap(String),
    /// More memory than the run may have.
    #[error("the module needs {wanted} bytes of memory: {most} is the limit (module_memory_bytes_max)")]
    Memory {
        /// The bytes that it asked for.
        wanted: usize,
        /// The limit.
        most: usize,
    },
}

/// The reason why a module is not accepted.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LoadError {
    /// The program was built without an engine.
    #[error("this server runs no modules: it was built without the feature `wasm`")]
    NotBuiltIn,
    /// The bytes are not a module, or one that needs more than there is.
    #[error("the module is not accepted: {0}")]
    Bad(String),
}
