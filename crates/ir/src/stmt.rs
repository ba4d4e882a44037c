//! The IR of one function: blocks and statements over numbered variables.
//!
//! The form is structured: sequence, if, while, for each, break, continue, return, yield, signal,
//! exit, except, transaction. Of actors there are create, send, request, await, reply, reply to,
//! deliver, delegate and select. Clients record structures and Theta is written in structures; a
//! graph of basic blocks would have to be rebuilt for both. Expressions are flat: each call names
//! the variables it fills.
//!
//! Read [`Func`] first, then [`Stmt`]; [`Stmt::parts`] is the way to walk over one.
//!
//! Rules that the verifier checks are listed in `verify`.

use cranelift_entity::{PrimaryMap, entity_impl};
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;
use std::{iter, slice};

use crate::places::{Site, Written};
use crate::program::{ClassId, Literal, RoutineId};
use crate::types::{MethodRef, SignalId, Signature, TypeId};

/// A variable of one function.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Var(u32);
entity_impl!(Var, "v");

/// A function of a program.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FuncId(u32);
entity_impl!(FuncId, "func");

/// A constant word.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Const {
    /// The value of `null`.
    Nil,
    /// A truth value.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// The bits of a real.
    Real(u64),
    /// A character.
    Char(char),
    /// A string of the program's table.
    Str(Literal),
}

/// The operand of a statement: a variable or a constant.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Operand {
    /// The value of a variable.
    Var(Var),
    /// A constant.
    Const(Const),
}

impl From<Var> for Operand {
    fn from(v: Var) -> Self {
        Operand::Var(v)
    }
}

impl From<Const> for Operand {
    fn from(c: Const) -> Self {
        Operand::Const(c)
    }
}

/// The target of a call.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Callee {
    /// A method of the receiver, which is the first operand. Dispatched through the receiver's
    /// table, save for basic types, whose methods are known.
    Method(MethodRef),
    /// A stand-alone routine.
    Routine(RoutineId),
    /// A batched procedure: an entry of [`Func::procedures`].
    Procedure(u32),
    /// The batched procedure that contains the call.
    Itself,
}

/// The exception of a transaction that was not committed: it carries a `string` that says why.
pub const ABORTED: &str = "aborted";

/// A sequence of statements.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Block(pub Vec<Stmt>);

impl Block {
    /// Returns true if there is a transaction among the statements, or in one of them.
    ///
    /// Cost: linear in the number of statements.
    pub fn has_transaction(&self) -> bool {
        self.contains(&|stmt| matches!(stmt, Stmt::Transaction { .. }))
    }

    /// Returns true if there is a request among the statements, or in one of them.
    ///
    /// Cost: linear in the number of statements.
    pub fn has_request(&self) -> bool {
        self.contains(&|stmt| matches!(stmt, Stmt::Request { .. }))
    }

    /// Shows every statement, an outer one before those in it.
    ///
    /// Cost: linear in the number of statements.
    pub fn each<'a>(&'a self, see: &mut dyn FnMut(&'a Stmt)) {
        for stmt in &self.0 {
            see(stmt);
            stmt.parts(&mut |part| {
                if let Part::Block(block) = part {
                    block.each(see);
                }
            });
        }
    }

    /// Returns true if something among the statements, or in one of them, requests or waits.
    ///
    /// Cost: linear in the number of statements.
    pub fn may_wait(&self) -> bool {
        self.contains(&Stmt::may_wait)
    }

    /// Returns true if there is a statement among them, or in one of them, that makes actors, sends
    /// to them, or answers.
    ///
    /// Cost: linear in the number of statements.
    pub fn has_messages(&self) -> bool {
        self.contains(&|stmt| {
            matches!(
                stmt,
                Stmt::Create { .. }
                    | Stmt::Send { .. }
                    | Stmt::Request { .. }
                    | Stmt::Await { .. }
                    | Stmt::Reply { .. }
                    | Stmt::ReplyTo { .. }
                    | Stmt::Deliver { .. }
                    | Stmt::Delegate { .. }
                    | Stmt::Select { .. }
            )
        })
    }

    /// Returns true if there is such a statement among them, or in one of them.
    pub fn contains(&self, is_one: &dyn Fn(&Stmt) -> bool) -> bool {
        self.0.iter().any(|stmt| {
            let mut found = is_one(stmt);
            stmt.parts(&mut |part| {
                if let Part::Block(block) = part {
                    found = found || block.contains(is_one);
                }
            });
            found
        })
    }
}

/// A statement.
#[derive(Clone, PartialEq, Debug)]
pub enum Stmt {
    /// `dst := src`; the type of `src` is a subtype of that of `dst`.
    Let {
        /// The variable to fill.
        dst: Var,
        /// The new value.
        src: Operand,
    },
    /// Calls a procedure (never an iterator). As many `dsts` as results, or none to drop them all.
    Call {
        /// The function called.
        callee: Callee,
        /// The operands; the receiver is the first for a method.
        args: SmallVec<[Operand; 3]>,
        /// The variables for the results.
        dsts: SmallVec<[Var; 1]>,
        /// The place that the call comes from.
        site: Site,
    },
    /// Makes an object of a class from the values of all its instance variables, inherited ones
    /// first.
    New {
        /// The variable for the object.
        dst: Var,
        /// Its class.
        class: ClassId,
        /// The instance variables' values, in layout order.
        fields: Vec<Operand>,
        /// The place that the constructor comes from.
        site: Site,
    },
    /// Makes a sequence of these elements (`..` in an argument list). The type is that of `dst`, a
    /// `sequence[T]`; each element has type `T`.
    NewSequence {
        /// The variable for the sequence.
        dst: Var,
        /// The elements.
        elements: Vec<Operand>,
        /// The place that it comes from.
        site: Site,
    },
    /// Reads an instance variable.
    Get {
        /// The variable to fill.
        dst: Var,
        /// An object whose static type is the class's own type, or that of a subclass.
        object: Operand,
        /// The class whose variable it is.
        class: ClassId,
        /// Its position in the class's layout.
        field: u32,
    },
    /// Writes an instance variable.
    Set {
        /// An object whose static type is the class's own type, or that of a subclass.
        object: Operand,
        /// The class whose variable it is.
        class: ClassId,
        /// Its position in the class's layout.
        field: u32,
        /// The new value.
        value: Operand,
    },
    /// Runs one of two blocks.
    If {
        /// A truth value.
        test: Operand,
        /// Run when it is true.
        then: Block,
        /// Run when it is false.
        otherwise: Block,
    },
    /// Runs `then`, with `var` for the object, if the object's class has the type of `var`; else
    /// `otherwise`.
    TypeIf {
        /// The object: never of a basic type.
        object: Operand,
        /// The variable that stands for the object in `then`.
        var: Var,
        /// Run when the object has the type.
        then: Block,
        /// Run when it has not.
        otherwise: Block,
    },
    /// Runs `cond`, and while `test` is then true, `body` and `cond` again.
    While {
        /// The calls that compute the condition; `break` and `continue` must not occur in it.
        cond: Block,
        /// The condition.
        test: Operand,
        /// The body.
        body: Block,
    },
    /// Calls an iterator and runs `body` for each step.
    ForEach {
        /// The iterator.
        callee: Callee,
        /// Its operands, the receiver first for a method.
        args: SmallVec<[Operand; 3]>,
        /// The variables filled at each step, as many as the iterator yields.
        vars: SmallVec<[Var; 1]>,
        /// The body.
        body: Block,
        /// The place that the call of the iterator comes from.
        site: Site,
    },
    /// Leaves the innermost loop.
    Break,
    /// Goes on with the next step of the innermost loop.
    Continue,
    /// Ends the function with its results; without results in an iterator.
    Return(SmallVec<[Operand; 1]>),
    /// Hands the loop's body a step; only in an iterator.
    Yield(SmallVec<[Operand; 1]>),
    /// Ends the function with an exception, which its heading lists or which is `failure`. Not seen
    /// by the handlers of this function.
    Signal {
        /// The exception.
        signal: SignalId,
        /// Its values.
        values: SmallVec<[Operand; 1]>,
        /// The place that it comes from.
        site: Site,
    },
    /// Jumps to the innermost arm around it that takes this exception.
    Exit {
        /// The exception.
        signal: SignalId,
        /// Its values.
        values: SmallVec<[Operand; 1]>,
    },
    /// Runs `body`. When one of its calls signals an exception, or an `exit` in it names one, the
    /// first arm that fits takes it and is run. An exception that no arm takes goes on outwards.
    /// Arms are not covered by the handlers of their own statement.
    Except {
        /// The block that is covered.
        body: Block,
        /// The handlers, tried in order.
        arms: Vec<Arm>,
    },
    /// Makes an actor, which is usable at once; its `new` runs where it is, before its first
    /// message. Never waits.
    Create {
        /// The variable for the reference.
        dst: Var,
        /// Its class, which is an actor's.
        class: ClassId,
        /// The number of its creator.
        creator: u32,
        /// The arguments of the creator.
        args: SmallVec<[Operand; 3]>,
        /// The node that the actor goes to.
        place: Destination,
        /// The place that the creation comes from.
        site: Site,
    },
    /// Sends a message of the past type: nobody waits for an answer.
    Send {
        /// The method, of an actor type or an actor's own type.
        method: MethodRef,
        /// The receiver, then the arguments.
        args: SmallVec<[Operand; 3]>,
        /// The place that it comes from.
        site: Site,
    },
    /// Sends a request, unless `element` is out of bounds, which is signalled here. It does not
    /// wait: `dst` is *pending* until [`Stmt::Await`] names it, and is not touched meanwhile but by
    /// more requests for elements of it.
    Request {
        /// The method, of an actor type or an actor's own type.
        method: MethodRef,
        /// The receiver, then the arguments.
        args: SmallVec<[Operand; 3]>,
        /// The variable for the reply, of type `null` if the method has no result; or the array or
        /// vector that has the element.
        dst: Var,
        /// The index of the element that the reply is stored at, if it is one of a local array or
        /// vector.
        element: Option<Operand>,
        /// The place that it comes from.
        site: Site,
    },
    /// Waits until all replies due to these variables are there; an exception that came instead of
    /// one is raised here, the first request's first.
    Await {
        /// Variables that may be pending.
        vars: SmallVec<[Var; 2]>,
        /// The statement that needs the replies.
        site: Site,
    },
    /// Answers the message under way. The method goes on.
    Reply {
        /// The result, if the method has one.
        values: SmallVec<[Operand; 1]>,
        /// The place that it comes from.
        site: Site,
    },
    /// Takes the place that the answer to the message under way goes to. That counts as the answer:
    /// the holder of the place gives it.
    ReplyTo {
        /// The variable for it, a `replier` of the method's result, or of `null` if it has none.
        dst: Var,
        /// The place that it comes from.
        site: Site,
    },
    /// Sends an answer to where [`Stmt::ReplyTo`] said. A second one is ignored.
    Deliver {
        /// The place.
        replier: Operand,
        /// The result, if it is one of anything but `null`.
        values: SmallVec<[Operand; 1]>,
        /// The place that it comes from.
        site: Site,
    },
    /// Sends a message whose answer goes to the awaiter of the answer to the message under way.
    Delegate {
        /// The method.
        method: MethodRef,
        /// The receiver, then the arguments.
        args: SmallVec<[Operand; 3]>,
        /// The place that it comes from.
        site: Site,
    },
    /// Waits until one of some messages is queued, takes the oldest, and runs its arm.
    Select {
        /// The messages.
        arms: Vec<Choice>,
        /// The number of milliseconds to wait at most, and the block to run then.
        after: Option<(Operand, Block)>,
        /// The place that it comes from.
        site: Site,
    },
    /// Runs `body` as one transaction of the repository. When control leaves it otherwise than by
    /// an exception, the transaction is committed first. If that is refused, `aborted(string)` is
    /// signalled in place of the end that was to come. When an exception leaves it, `exit`
    /// included, the transaction is aborted and the exception goes on.
    Transaction {
        /// The block that is one transaction.
        body: Block,
        /// The place that it comes from.
        site: Site,
    },
}

/// The node that a new actor goes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Destination {
    /// This node.
    Here,
    /// The node with that number.
    On(Operand),
    /// A node that the runtime chooses.
    Anywhere,
}

/// A message that [`Stmt::Select`] takes.
#[derive(Clone, PartialEq, Debug)]
pub struct Choice {
    /// The method that it is for, one of the actor's own.
    pub method: MethodRef,
    /// The variables for its arguments.
    pub vars: SmallVec<[Var; 2]>,
    /// The calls that compute the condition. They have no effects, and see the arguments.
    pub cond: Block,
    /// The condition.
    pub test: Operand,
    /// The block that runs in place of the method's body. `Reply` and the like answer the message,
    /// and so does `Signal`, with an exception that the method's heading lists. No exception leaves
    /// the arm: it answers the message, if that is not answered yet, and control goes on behind the
    /// statement. When the arm ends, by a jump, too, a message without result is answered, if it is
    /// not yet.
    pub body: Block,
}

impl Choice {
    /// Returns true if an exception can leave the arm, after which control goes on behind the
    /// statement.
    ///
    /// Cost: linear in the number of statements.
    pub fn may_raise(&self) -> bool {
        [&self.cond, &self.body].into_iter().any(|block| block.contains(&Stmt::may_raise))
    }
}

/// A part of a statement; see [`Stmt::parts`].
#[derive(Clone, Copy, Debug)]
pub enum Part<'s> {
    /// A variable or constant that it reads.
    Reads(Operand),
    /// A variable that it fills.
    Writes(Var),
    /// A block in it.
    Block(&'s Block),
}

impl Stmt {
    /// Returns true if the statement itself, not one in its blocks, requests or waits.
    pub fn may_wait(&self) -> bool {
        matches!(self, Stmt::Request { .. } | Stmt::Await { .. } | Stmt::Select { .. })
    }

    /// Returns true if the statement itself, not one in its blocks, can signal an exception.
    pub fn may_raise(&self) -> bool {
        match self {
            // Of an actor in its own methods.
            Stmt::Get { object, .. } | Stmt::Set { object, .. } => *object != Operand::Var(Var::from_u32(0)),
            _ => !matches!(
                self,
                Stmt::Let { .. }
                    | Stmt::If { .. }
                    | Stmt::TypeIf { .. }
                    | Stmt::While { .. }
                    | Stmt::Except { .. }
                    | Stmt::Break
                    | Stmt::Continue
                    | Stmt::Return(_)
                    | Stmt::Reply { .. }
                    | Stmt::ReplyTo { .. }
            ),
        }
    }

    /// Tells the parts of a statement in the order in which they come about when it runs, not those
    /// of the statements in its blocks. It is the one place that knows them all: a search for uses
    /// of variables or through all statements walks by this.
    ///
    /// Cost: linear in the number of parts; nothing is allocated.
    pub fn parts<'s>(&'s self, tell: &mut dyn FnMut(Part<'s>)) {
        let mut reads = SmallVec::<[&'s [Operand]; 2]>::new();
        let mut writes: &'s [Var] = &[];
        let mut blocks = SmallVec::<[&'s Block; 2]>::new();
        match self {
            Stmt::Break | Stmt::Continue => {}
            Stmt::Let { dst, src: operand } | Stmt::Get { dst, object: operand, .. } => {
                reads.push(slice::from_ref(operand));
                writes = slice::from_ref(dst);
            }
            Stmt::New { dst, fields: operands, .. } | Stmt::NewSequence { dst, elements: operands, .. } => {
                reads.push(operands);
                writes = slice::from_ref(dst);
            }
            Stmt::Call { args, dsts, .. } => {
                reads.push(args);
                writes = dsts;
            }
            Stmt::Set { object, value, .. } => {
                reads.extend([slice::from_ref(object), slice::from_ref(value)]);
            }
            Stmt::If { test, then, otherwise } => {
                reads.push(slice::from_ref(test));
                blocks.extend([then, otherwise]);
            }
            Stmt::TypeIf { object, var, then, otherwise } => {
                reads.push(slice::from_ref(object));
                writes = slice::from_ref(var);
                blocks.extend([then, otherwise]);
            }
            Stmt::While { cond, test, body } => {
                tell(Part::Block(cond));
                reads.push(slice::from_ref(test));
                blocks.push(body);
            }
            Stmt::ForEach { args, vars, body, .. } => {
                reads.push(args);
                writes = vars;
                blocks.push(body);
            }
            Stmt::Return(values) | Stmt::Yield(values) => reads.push(values),
            Stmt::Signal { values, .. } | Stmt::Exit { values, .. } => reads.push(values),
            Stmt::Except { body, arms } => {
                tell(Part::Block(body));
                for arm in arms {
                    arm.vars.iter().for_each(|var| tell(Part::Writes(*var)));
                    tell(Part::Block(&arm.body));
                }
            }
            Stmt::Transaction { body, .. } => blocks.push(body),
            Stmt::Create { dst, args, place, .. } => {
                if let Destination::On(node) = place {
                    reads.push(slice::from_ref(node));
                }
                reads.push(args);
                writes = slice::from_ref(dst);
            }
            Stmt::Send { args, .. } | Stmt::Delegate { args, .. } => reads.push(args),
            Stmt::Request { args, dst, element, .. } => {
                reads.push(args);
                reads.extend(element.iter().map(slice::from_ref));
                writes = slice::from_ref(dst);
            }
            Stmt::Await { vars, .. } => vars.iter().for_each(|var| tell(Part::Reads((*var).into()))),
            Stmt::Reply { values, .. } => reads.push(values),
            Stmt::ReplyTo { dst, .. } => writes = slice::from_ref(dst),
            Stmt::Deliver { replier, values, .. } => {
                reads.extend([slice::from_ref(replier), values.as_slice()]);
            }
            Stmt::Select { arms, after, .. } => {
                for arm in arms {
                    arm.vars.iter().for_each(|var| tell(Part::Writes(*var)));
                    tell(Part::Block(&arm.cond));
                    tell(Part::Reads(arm.test));
                    tell(Part::Block(&arm.body));
                }
                if let Some((limit, body)) = after {
                    reads.push(slice::from_ref(limit));
                    blocks.push(body);
                }
            }
        }
        reads.into_iter().flatten().for_each(|operand| tell(Part::Reads(*operand)));
        writes.iter().for_each(|var| tell(Part::Writes(*var)));
        blocks.into_iter().for_each(|block| tell(Part::Block(block)));
    }

    /// Returns the blocks in a statement, in the order of [`Stmt::parts`], to change them.
    pub fn blocks_mut(&mut self) -> SmallVec<[&mut Block; 2]> {
        match self {
            Stmt::If { then: first, otherwise: second, .. }
            | Stmt::TypeIf { then: first, otherwise: second, .. }
            | Stmt::While { cond: first, body: second, .. } => smallvec![first, second],
            Stmt::ForEach { body, .. } | Stmt::Transaction { body, .. } => smallvec![body],
            Stmt::Except { body, arms } => {
                iter::once(body).chain(arms.iter_mut().map(|arm| &mut arm.body)).collect()
            }
            Stmt::Select { arms, after, .. } => {
                let arms = arms.iter_mut().flat_map(|arm| [&mut arm.cond, &mut arm.body]);
                arms.chain(after.iter_mut().map(|(_, body)| body)).collect()
            }
            Stmt::Let { .. }
            | Stmt::Create { .. }
            | Stmt::Send { .. }
            | Stmt::Request { .. }
            | Stmt::Await { .. }
            | Stmt::Reply { .. }
            | Stmt::ReplyTo { .. }
            | Stmt::Deliver { .. }
            | Stmt::Delegate { .. }
            | Stmt::Call { .. }
            | Stmt::New { .. }
            | Stmt::NewSequence { .. }
            | Stmt::Get { .. }
            | Stmt::Set { .. }
            | Stmt::Break
            | Stmt::Continue
            | Stmt::Return(_)
            | Stmt::Yield(_)
            | Stmt::Signal { .. }
            | Stmt::Exit { .. } => smallvec![],
        }
    }
}

/// The exceptions that a handler takes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ArmMatch {
    /// These, by name. If `Arm::vars` is not empty, the exceptions have as many values, of fitting
    /// types.
    Named(SmallVec<[SignalId; 1]>),
    /// All. `Arm::vars` is empty or one variable of type `string`, filled with the exception's
    /// name.
    Others,
}

/// A handler.
#[derive(Clone, PartialEq, Debug)]
pub struct Arm {
    /// The exceptions it takes.
    pub takes: ArmMatch,
    /// The variables for the exception's values; empty ignores them.
    pub vars: SmallVec<[Var; 1]>,
    /// The block it runs.
    pub body: Block,
}

/// The purpose of a function; decides its hidden arguments and its possible callers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum FuncKind {
    /// A stand-alone procedure or iterator.
    Routine,
    /// A method; its first parameter is the receiver, whose type is the class's own type.
    Method,
    /// A method of an actor: it may request, wait and reply. Its first parameter is the actor.
    Script,
    /// A client's control structure or call sequence. Its parameters are the constant references it
    /// uses.
    Batch,
    /// A batched procedure.
    Procedure,
}

impl FuncKind {
    /// Returns true if the first parameter is the receiver.
    pub fn has_receiver(self) -> bool {
        matches!(self, FuncKind::Method | FuncKind::Script)
    }
}

/// A variable's type, and its name if the source gave one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VarDecl {
    /// The name for messages and the text form; may be empty.
    pub name: String,
    /// Its static type.
    pub ty: TypeId,
}

/// A checked or yet to be checked piece of code.
#[derive(Clone, PartialEq, Debug)]
pub struct Func {
    /// The name for messages: `Elem.touch`, `swap`.
    pub name: String,
    /// The purpose of the function.
    pub kind: FuncKind,
    /// Its heading. For a method the receiver is not part of it, but it is variable 0.
    pub signature: Signature,
    /// All variables; the receiver and the arguments come first.
    pub vars: PrimaryMap<Var, VarDecl>,
    /// The code of the function.
    pub body: Block,
    /// The batched procedures that it may call.
    pub procedures: Vec<Arc<Func>>,
    /// The origin of the code.
    pub written: Written,
}

impl Func {
    /// Returns the number of variables that the caller fills, the receiver included.
    pub fn param_count(&self) -> usize {
        self.signature.params.len() + usize::from(self.kind.has_receiver())
    }

    /// Returns the variables filled by the caller.
    pub fn params(&self) -> impl Iterator<Item = Var> + use<> {
        (0..self.param_count() as u32).map(Var::from_u32)
    }
}
