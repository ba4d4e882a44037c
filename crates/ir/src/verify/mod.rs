//! The verifier: accepts only functions that cannot go wrong at run time other than by signals.
//!
//! Interpreter and compiler rely on every rule; a session relies on them against its clients, so no
//! function, however made, may panic the verifier or overflow its stack. Errors are structured
//! ([`VerifyErrorKind`]), because a session names the call and the argument to its client.
//!
//! # The rules
//!
//! 1. Every id (variable, type, class, field, method, routine, procedure, signal, literal) is in
//!    range. The parameters are the first variables, with the types of the heading. The first
//!    variable of a method is a receiver of a class's own type. A heading has results or yields,
//!    never both.
//! 2. A value that is read has a subtype of the type expected. A constant has its basic type or
//!    `string`. Basic types have no other supertype, `any` included.
//! 3. Calls pass as many operands as the heading has arguments (one more, the receiver, for a
//!    method) and take as many results as it has, or none. A loop takes as many values as its
//!    iterator yields.
//! 4. The receiver of a method is never assigned. Any other variable is assigned on every path
//!    before it is read. A loop's body does not count after the loop; a handler starts with the
//!    variables assigned before the statement it belongs to.
//! 5. `break` and `continue` have a loop around them, and do not leave the condition of a `while`.
//! 6. `return` has the values that the heading says, none in an iterator, and a function with
//!    results never reaches its end.
//! 7. `yield` stands only in iterators; a `for each` calls an iterator, a call does not.
//! 8. `signal` names an exception of the heading with fitting values, or `failure(string)`.
//! 9. `exit` has an arm around it that takes it. An arm that takes the values of exceptions fits
//!    every exception that can reach it; an arm for all others takes nothing, or the name as a
//!    `string`.
//! 10. A constructor gives every instance variable of its class; instance variables are read and
//!     written through the class's own type or that of a subclass.
//! 11. Batches and batched procedures call only public methods of public types, public routines and
//!     the creators of cells, and neither make objects of classes nor reach into them. Only they
//!     call batched procedures, and only a procedure calls itself. (A procedure was verified when
//!     it was made; its heading is trusted.)
//! 12. Blocks nest at most [`DEPTH_MAX`] deep.
//! 13. A call passes at most [`WORDS_MAX`] words (that of a batched procedure any number), and has
//!     at most [`VALUES_MAX`] results or exception values; a step has at most [`YIELDS_MAX`]
//!     values.
//! 14. Of a program: a class has a body for each method of its own type. A body belongs to the
//!     class or to a superclass. Bodies conform to their headings, and methods conform to those
//!     that they stand for. Methods that share a slot of a class's table, because they stand for
//!     one and the same, conform to each other.
//! 15. Only objects are asked for their type, and only for a type that is not basic; the variable
//!     that then stands for the object has that type. Batches do not ask.
//!
//! 16. A transaction stands in a stand-alone procedure that no function calls, and in no other
//!     transaction. Nor does it stand in a loop over an iterator of anything that may change: such
//!     iterators rely on the state they found of their objects, which a transaction's end changes.
//!
//! 17. Methods of actor types are reached by messages (`send`, `request`, `delegate`), and only
//!     they are; a script calls its own on itself. A message carries the arguments of the heading.
//!     `create` names a class of actors, and a creator of it. Requests stand in scripts, and in
//!     stand-alone procedures that no function calls. Statements that answer, take the place of the
//!     answer, delegate or select stand in scripts. None of it stands in batches, and no request in
//!     a transaction.
//!
//!     An answer delivered to such a place has the form that the place is for. An exception does
//!     not leave the arm of a `select`, and is one that the message it takes may signal. Instance
//!     variables of an actor are read and written through its own `self` alone.
//! 18. A variable that may be pending is not touched before `await` has named it
//!     ([`crate::requests`]). Statements that wait (`await`, `select`) stand in no `for each`: an
//!     iterator would be on the stack ([`crate::resumable`]).
//! 19. The methods of an actor's class are scripts, those of others are not; its creators and
//!     constraints are methods, which give nothing and one `bool`.
//!
//! Two things are the front end's business: that variables of immutable classes are written only by
//! constructors, and which code may name which class.

use std::fmt;

use crate::places::Site;
use crate::program::{ClassId, NativeId, Program};
use crate::stmt::{Callee, Func, FuncId, Var};
use crate::types::{SignalId, TypeId};

mod flow;
mod func;
mod program;
#[cfg(test)]
mod tests;

/// The greatest depth to which blocks may nest.
pub const DEPTH_MAX: usize = 256;

/// Most words of a call: receiver or routine, arguments, and an iterator's loop body.
pub const WORDS_MAX: usize = 24;

/// Most results of a call, or values of an exception.
pub const VALUES_MAX: usize = 16;

/// Most values of a step of an iterator.
pub const YIELDS_MAX: usize = 8;

/// Most errors that are reported for one function.
pub const ERRORS_MAX: usize = 20;

/// A broken rule.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{kind}")]
pub struct VerifyError {
    /// The site of the statement or, if it has none, of the last one before it that has.
    pub site: Site,
    /// The mistake found there.
    pub kind: VerifyErrorKind,
}

/// A type with its name, so that errors can be printed without the program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NamedType {
    /// The type.
    pub id: TypeId,
    /// Its name.
    pub name: String,
}

impl fmt::Display for NamedType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// An operand or variable of a statement. Numbers count from 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// The receiver of a method.
    Receiver,
    /// An argument of a call, the receiver not counted.
    Argument(usize),
    /// A variable that takes a result.
    Result(usize),
    /// A variable of a loop.
    StepVar(usize),
    /// An instance variable of a constructor, in layout order.
    Field(usize),
    /// An element of a new sequence.
    Element(usize),
    /// A value of `return`, `yield`, `signal` or `exit`.
    Value(usize),
    /// A variable of a handler.
    ArmVar(usize),
    /// The condition of an `if` or `while`.
    Test,
    /// The right side of an assignment, or the value stored in an instance variable.
    Source,
    /// The object whose instance variable is selected, or the variable that takes a new object.
    Object,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Receiver => f.write_str("the receiver"),
            Place::Argument(i) => write!(f, "argument {}", i + 1),
            Place::Result(i) => write!(f, "result {}", i + 1),
            Place::StepVar(i) => write!(f, "loop variable {}", i + 1),
            Place::Field(i) => write!(f, "instance variable {}", i + 1),
            Place::Element(i) => write!(f, "element {}", i + 1),
            Place::Value(i) => write!(f, "value {}", i + 1),
            Place::ArmVar(i) => write!(f, "handler variable {}", i + 1),
            Place::Test => f.write_str("the condition"),
            Place::Source => f.write_str("the value"),
            Place::Object => f.write_str("the object"),
        }
    }
}

/// The things counted in [`VerifyErrorKind::WrongCount`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Counted {
    Arguments,
    Results,
    StepValues,
    Fields,
    ReturnValues,
    YieldValues,
    ExceptionValues,
}

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Counted::Arguments => "arguments",
            Counted::Results => "results",
            Counted::StepValues => "loop variables",
            Counted::Fields => "instance variables",
            Counted::ReturnValues => "values returned",
            Counted::YieldValues => "values yielded",
            Counted::ExceptionValues => "exception values",
        })
    }
}

/// The kind of a mistake.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum VerifyErrorKind {
    #[error("there is no variable {0}")]
    NoSuchVar(Var),
    #[error("there is no type {0}")]
    NoSuchType(TypeId),
    #[error("there is no class {0}")]
    NoSuchClass(ClassId),
    #[error("class {class} has no instance variable {field}")]
    NoSuchField { class: String, field: u32 },
    #[error("there is no method, routine or procedure {0:?}")]
    NoSuchCallee(Callee),
    #[error("there is no function {0}")]
    NoSuchFunc(FuncId),
    #[error("objects of class {0} are made in Rust only")]
    NativeClass(String),
    #[error("no native {0}")]
    NoSuchNative(NativeId),
    #[error("there is no exception {0}")]
    NoSuchSignal(SignalId),
    #[error("there is no literal {0}")]
    NoSuchLiteral(crate::Literal),
    #[error("the variables do not begin with the parameters of the heading")]
    WrongParams,
    #[error("the heading both returns and yields")]
    ReturnsAndYields,
    #[error("{place}: expected `{expected}`, found `{found}`")]
    WrongType { place: Place, expected: NamedType, found: NamedType },
    #[error("{expected} {what} expected, {found} given")]
    WrongCount { what: Counted, expected: usize, found: usize },
    #[error("{place}: `{name}` ({var}) may be used before it has a value")]
    UnassignedVar { place: Place, var: Var, name: String },
    #[error("the receiver of a method cannot be assigned")]
    AssignedReceiver,
    #[error("`break` or `continue` outside a loop")]
    BreakOutsideLoop,
    #[error("`break` or `continue` would leave the condition of a loop")]
    BreakInCondition,
    #[error("`yield` outside an iterator")]
    YieldOutsideIterator,
    #[error("`{callee}` is an iterator and can only be called by a loop")]
    IteratorInCall { callee: String },
    #[error("`{callee}` is not an iterator")]
    NotAnIterator { callee: String },
    #[error("the end can be reached without returning a value")]
    ReturnMissing,
    #[error("the heading does not list `{signal}`")]
    SignalNotDeclared { signal: String },
    #[error("`exit {signal}` without a handler")]
    NoHandlerForExit { signal: String },
    #[error("a handler takes {expected} values, but `{signal}` has {found}")]
    ArmCount { signal: String, expected: usize, found: usize },
    #[error("a handler takes `{expected}`, but value {index} of `{signal}` is `{found}`")]
    ArmType { signal: String, index: usize, expected: NamedType, found: NamedType },
    #[error("a handler of all exceptions takes at most their name")]
    OthersTakesName,
    #[error("instance variables of `{class}` are not accessible in a `{found}`")]
    NotOfClass { class: String, found: NamedType },
    #[error("`{callee}` is not public")]
    NotPublic { callee: String },
    #[error("a batch cannot construct objects or access their instance variables")]
    ClassInBatch,
    #[error("only batches call batched procedures, and only a procedure calls itself")]
    ProcedureOutsideBatch,
    #[error("blocks are nested more than {DEPTH_MAX} deep")]
    TooDeep,
    #[error("{words} words in a call, and {WORDS_MAX} is the limit")]
    TooManyWords { words: usize },
    #[error("{values} values, and {VALUES_MAX} is the limit")]
    TooManyValues { values: usize },
    #[error("{values} values of a step, and {YIELDS_MAX} is the limit")]
    TooManyYields { values: usize },
    #[error("the type of a `{found}` cannot be tested: it is not an object")]
    BasicHasNoClass { found: NamedType },
    #[error("a transaction in a transaction")]
    NestedTransaction,
    #[error("a transaction in a function that is not a stand-alone procedure")]
    TransactionOutsideRoutine,
    #[error("a transaction in a loop over `{callee}`")]
    TransactionInLoop { callee: String },
    #[error("`{callee}` has transactions or requests and cannot be called")]
    TransactionsCalled { callee: String },
    #[error("`{callee}` is a method of an actor, and needs a message")]
    CallOfActor { callee: String },
    #[error("`{callee}` is not a method of an actor")]
    MessageToObject { callee: String },
    #[error("class `{class}` is not a class of actors, or has no such creator")]
    NoSuchCreator { class: String },
    #[error("instance variables of an actor of class `{class}` from outside")]
    StateOfActor { class: String },
    #[error("a request in a called function, in a transaction or in a batch")]
    RequestHere,
    #[error("only a script answers, delegates and selects")]
    OutsideScript,
    #[error("a reply that is needed here may be missing")]
    WaitMissing,
    #[error("a wait in a loop over `{callee}`")]
    WaitInLoop { callee: String },
    #[error("`{0}` is not a `replier` of the answered message")]
    NoReplier(NamedType),
    #[error("`{0}` is not an array or vector, and its elements cannot receive replies")]
    NoElements(NamedType),
    #[error("class `{class}`: its description as a class of actors does not fit it")]
    WrongActor { class: String },
    #[error("a sequence cannot be a `{found}`")]
    NotASequence { found: NamedType },
    #[error("class `{class}`: {bodies} bodies for {methods} methods")]
    WrongBodies { class: String, bodies: usize, methods: usize },
    #[error(
        "class `{class}`: the layout does not begin with that of the superclass, or the superclass is its own"
    )]
    WrongLayout { class: String },
    #[error("`{name}`: the body does not conform to the heading")]
    BodyDoesNotConform { name: String },
    #[error("`{name}` does not conform to `{up}`, which it implements")]
    MethodDoesNotConform { name: String, up: String },
    #[error("class `{class}`: `{first}` and `{second}` implement the same method and do not conform")]
    SameSlot { class: String, first: String, second: String },
    #[error("`{0}` is its own supertype")]
    CyclicType(String),
}

/// Checks a function against a program.
///
/// # Errors
/// The first [`ERRORS_MAX`] broken rules, in the order of the statements; never empty.
///
/// Cost: one pass; branches copy a bit for each variable.
pub fn verify_func(program: &Program, func: &Func) -> Result<(), Vec<VerifyError>> {
    func::verify(program, func)
}

/// An error in one part of a program.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("in `{name}`: {error}")]
pub struct ProgramError {
    /// The function, if it is in one.
    pub func: Option<FuncId>,
    /// The name of the function, type, class or routine.
    pub name: String,
    /// The mistake.
    pub error: VerifyError,
}

/// Checks types, classes, routines and all functions of a program.
///
/// # Errors
/// All broken rules, at most [`ERRORS_MAX`] for each function. With errors in the types, the
/// functions are not checked.
pub fn verify_program(program: &Program) -> Result<(), Vec<ProgramError>> {
    program::verify(program)
}
