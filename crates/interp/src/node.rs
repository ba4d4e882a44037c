//! Prepared nodes: the form in which the interpreter runs functions.
//!
//! [`Prepared`] is a function, shared between sessions, and [`Node`] a statement of it; read these
//! two first. Nodes are made in [`prepare`](crate::prepare) and run in [`run`](crate::run). All
//! operands are places of the frame, and nodes hold no references to objects of a heap.

use std::sync::Arc;

use bifrost_ir::builtin::Op;
use bifrost_ir::{FuncId, FuncKind, MethodId, MethodRef, SignalId, Site, TypeId};
use bifrost_runtime::abi::{Code, Word};
use bifrost_runtime::image::{RoutineDesc, Table};

use crate::structure::Structure;

/// A place in the frame: a variable, a constant, or the scratch word that takes dropped results.
pub(crate) type Place = u32;

/// The nodes that calls are prepared as.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Nodes {
    /// Nodes special to the number of operands and the kind of callee, where they fit.
    #[default]
    Special,
    /// The node of a call in general for every call: the complement to measure the special ones
    /// against (000 section 7.2).
    General,
}

/// A function ready to run. Shared between sessions; holds no references to objects of a heap.
#[derive(Debug)]
pub struct Prepared {
    pub(crate) name: String,
    pub(crate) kind: FuncKind,
    /// The number of a function of the program; none of code that clients send.
    pub(crate) id: Option<FuncId>,
    /// Words that the caller passes and that go to the first places.
    pub(crate) params: usize,
    /// The frame at the start: zeros for variables, the constants behind them.
    pub(crate) template: Box<[Word]>,
    /// The words of an activation that are references, for the collector, counted from the
    /// beginning of the environment. Constants of the program's text last anyway.
    pub(crate) references: Box<[u32]>,
    pub(crate) body: Box<[Node]>,
    pub(crate) results: usize,
    pub(crate) iterator: bool,
    /// The units of fuel that each call and each step of a loop takes: 1 in code that clients send,
    /// 0 in methods.
    pub(crate) cost: i64,
    /// True if it is code that clients send and asks actors.
    pub(crate) asks: bool,
    /// True if it is a function of the program that may wait.
    pub(crate) waits: bool,
    /// Of code that clients send: the state by which it becomes machine code.
    pub(crate) structure: Option<Structure>,
}

impl Prepared {
    /// The name of the function that it was made from, for messages.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// The thing that a call with any number of operands enters.
#[derive(Debug, Clone)]
pub(crate) enum Target {
    /// The receiver's table at a slot.
    Slot(u32),
    /// A native of a basic type.
    Native(Code),
    /// An operation of one operand or two.
    Op(Op),
    /// A routine; its descriptor goes before the operands.
    Routine(&'static RoutineDesc),
    /// A method of an object in an image without engine: interpreted, or the native in the table.
    Interpret(u32),
    /// A routine that is a function, in an image without engine.
    InterpretFunc(FuncId),
    /// A batched procedure.
    Procedure(Arc<Prepared>),
    /// The procedure that contains the call.
    Itself,
}

/// A call in general.
#[derive(Debug)]
pub(crate) struct Call {
    pub target: Target,
    pub args: Box<[Place]>,
    pub dsts: Box<[Place]>,
    pub site: Site,
}

/// A loop over an iterator.
#[derive(Debug)]
pub(crate) struct ForEach {
    /// Of code that clients send: the number of the loop ([`bifrost_ir::loops`]).
    pub number: u32,
    pub call: Call,
    /// The words of the call that are references: the loop's body may assign to the variables that
    /// they came from.
    pub references: Box<[Place]>,
    pub vars: Box<[Place]>,
    pub body: Box<[Node]>,
}

/// A loop.
#[derive(Debug)]
pub(crate) struct While {
    /// As that of a [`ForEach`].
    pub number: u32,
    pub cond: Box<[Node]>,
    pub test: Place,
    pub body: Box<[Node]>,
    /// Of functions that may wait: the number of the way in.
    pub way: Option<u32>,
}

/// Waits for replies.
#[derive(Debug)]
pub(crate) struct Await {
    /// The numbers of the variables that may be pending.
    pub pending: Box<[u16]>,
    /// Those of them that are read behind it: an exception in place of the reply is raised also if
    /// it was before.
    pub read: Box<[u16]>,
    /// Those of them that handlers around it read, or the code behind these: an exception is kept
    /// when it was raised.
    pub kept: Box<[u16]>,
    pub site: Site,
    /// Of functions that may wait: the number of the way in.
    pub way: Option<u32>,
}

/// A choice.
#[derive(Debug)]
pub(crate) struct If {
    pub test: Place,
    pub then: Box<[Node]>,
    pub otherwise: Box<[Node]>,
}

/// A choice by an object's class.
#[derive(Debug)]
pub(crate) struct TypeIf {
    pub object: Place,
    pub ty: TypeId,
    pub var: Place,
    pub then: Box<[Node]>,
    pub otherwise: Box<[Node]>,
}

/// A handler.
#[derive(Debug)]
pub(crate) struct Arm {
    /// Empty takes all.
    pub signals: Box<[SignalId]>,
    pub vars: Box<[Place]>,
    pub body: Box<[Node]>,
}

/// A covered block.
#[derive(Debug)]
pub(crate) struct Except {
    pub body: Box<[Node]>,
    pub arms: Box<[Arm]>,
}

/// A transaction.
#[derive(Debug)]
pub(crate) struct Transaction {
    pub body: Box<[Node]>,
    pub site: Site,
}

/// A message.
#[derive(Debug)]
pub(crate) struct Message {
    pub slot: u32,
    pub method: MethodRef,
    /// The receiver first.
    pub args: Box<[Place]>,
    pub site: Site,
}

/// A request.
#[derive(Debug)]
pub(crate) struct Request {
    /// Of code that clients send: true if something in it waits for the reply.
    pub awaited: bool,
    pub message: Message,
    pub dst: Place,
    /// The number of `dst` among the variables that may be pending.
    pub pending: u16,
    pub element: Option<Place>,
}

/// The destination of a new actor.
#[derive(Debug)]
pub(crate) enum Destination {
    Here,
    On(Place),
    Anywhere,
}

/// A creation.
#[derive(Debug)]
pub(crate) struct Create {
    pub table: &'static Table,
    pub creator: u32,
    pub args: Box<[Place]>,
    pub place: Destination,
    pub dst: Place,
    pub site: Site,
}

/// An actor's call on itself.
#[derive(Debug)]
pub(crate) struct SelfCall {
    pub func: FuncId,
    pub args: Box<[Place]>,
    pub dst: Place,
    pub site: Site,
    /// The number of the way in; none in the body of a loop over an iterator.
    pub way: Option<u32>,
}

/// An arm of a selection.
#[derive(Debug)]
pub(crate) struct Choice {
    pub method: MethodId,
    pub slot: u32,
    pub vars: Box<[Place]>,
    pub cond: Box<[Node]>,
    pub test: Place,
    pub body: Box<[Node]>,
}

/// A selection.
#[derive(Debug)]
pub(crate) struct Select {
    pub arms: Box<[Choice]>,
    pub after: Option<(Place, Box<[Node]>)>,
    pub site: Site,
    /// The number of the way in.
    pub way: u32,
}

/// A step of a prepared function.
#[derive(Debug)]
pub(crate) enum Node {
    Move {
        dst: Place,
        src: Place,
    },
    /// An operation. Operations of one operand have it twice.
    Op {
        op: Op,
        dst: Place,
        a: Place,
        b: Place,
        site: Site,
    },
    /// A method of an object without arguments, one result at most. A dropped result goes to the
    /// scratch word.
    Method0 {
        slot: u32,
        receiver: Place,
        dst: Place,
        site: Site,
    },
    /// The same with one argument.
    Method1 {
        slot: u32,
        receiver: Place,
        a: Place,
        dst: Place,
        site: Site,
    },
    /// The same with two arguments.
    Method2 {
        slot: u32,
        receiver: Place,
        a: Place,
        b: Place,
        dst: Place,
        site: Site,
    },
    /// Any other call.
    Call(Box<Call>),
    New {
        table: &'static Table,
        fields: Box<[Place]>,
        dst: Place,
        site: Site,
    },
    NewSequence {
        table: &'static Table,
        elements: Box<[Place]>,
        dst: Place,
        site: Site,
    },
    Get {
        dst: Place,
        object: Place,
        field: u32,
    },
    Set {
        object: Place,
        field: u32,
        value: Place,
    },
    If(Box<If>),
    TypeIf(Box<TypeIf>),
    While(Box<While>),
    ForEach(Box<ForEach>),
    Break,
    Continue,
    Return(Box<[Place]>),
    Yield(Box<[Place]>),
    Signal {
        signal: SignalId,
        values: Box<[Place]>,
        site: Site,
    },
    Exit {
        signal: SignalId,
        values: Box<[Place]>,
    },
    Except(Box<Except>),
    Transaction(Box<Transaction>),
    Create(Box<Create>),
    Send(Box<Message>),
    Request(Box<Request>),
    Await(Box<Await>),
    /// With a result, or without.
    Reply(Option<Place>),
    Delegate(Box<Message>),
    ReplyTo {
        table: &'static Table,
        dst: Place,
        site: Site,
    },
    Deliver {
        replier: Place,
        value: Option<Place>,
    },
    Select(Box<Select>),
    SelfCall(Box<SelfCall>),
}
