//! The interfaces to the engines that run functions: as machine code, or interpreted.

use bifrost_ir::{Func, FuncId, MethodId};

use crate::abi::{Code, Ret, Word};
use crate::actor_class::ActorClass;
use crate::cx::Cx;
use crate::image::Image;
use crate::node_host::NodeHost;
use crate::structure::{Extent, StructureCode};

/// The form of a message to an actor; each has an entry of its own in the actor's table.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Form {
    /// Its answer is awaited: the entry comes back with that, or with the object that owes it
    /// (`actors::enter_message`).
    Request,
    /// Its answer is not: the entry comes back returned, or killed (`actors::enter_past`).
    Past,
}

impl Form {
    /// Both.
    pub const ALL: [Form; 2] = [Form::Request, Form::Past];
}

/// The method of actors that an entry is for.
#[derive(Clone, Copy, Debug)]
pub struct MethodEntry<'a> {
    /// The class.
    pub class: &'a ActorClass,
    /// The method.
    pub method: MethodId,
    /// The slot through which it is called.
    pub slot: u32,
    /// Words after the context.
    pub arity: usize,
    /// As for [`Engine::native_entry`].
    pub references: u32,
}

/// The services that the runtime needs of the engines.
pub trait Engine: Send + Sync {
    /// An entry of the arity (words after the context) for a receiver's table, at `slot`. It gets
    /// the method's code from [`Image::method_code`] and goes on into it with the same words.
    fn method_stub(&self, slot: u32, arity: usize) -> Code;

    /// The same for routines, whose first word is their [`RoutineDesc`](crate::image::RoutineDesc)
    /// and whose code comes from [`Image::routine_code`].
    fn routine_stub(&self, arity: usize) -> Code;

    /// The code of a function.
    fn compile(&self, image: &Image, func: FuncId) -> Code;

    /// The code of a verified batch or batched procedure, or of a loop of it. It takes fuel, polls,
    /// and says where it failed, as the interpreter does ([`crate::structure`]). `procedures` is
    /// the code of those that it calls, in the order of [`Func::procedures`]; the caller keeps them
    /// as long as the code returned. `None` if it is to be interpreted.
    fn compile_structure(
        &self,
        image: &Image,
        func: &Func,
        extent: Extent,
        procedures: &[Code],
    ) -> Option<StructureCode> {
        let _ = (image, func, extent, procedures);
        None
    }

    /// Code that goes on with a function that may wait at the way into it of that number
    /// ([`bifrost_ir::ways`]). It takes a join that has the function's variables and no exception,
    /// and true if that has answered. It comes back as the function does, or as
    /// `actors::leave_way` has. `None` if it is to be interpreted from there.
    fn compile_way(&self, image: &Image, func: FuncId, number: u32) -> Option<Code> {
        let _ = (image, func, number);
        None
    }

    /// An entry of the arity for a receiver in a mode other than the ordinary one, at `slot`. It
    /// has the receiver opened ([`Cx::open`], or [`Cx::open_to_change`] if `changes`) and goes on
    /// into the code that its table has at the slot then, with the same words. `references` is as
    /// for [`Engine::native_entry`].
    fn mode_stub(&self, slot: u32, arity: usize, references: u32, changes: bool) -> Code;

    /// An entry of the arity to actors in any state: sends them a message for the slot's
    /// method. `references` is as for [`Engine::native_entry`].
    fn message_stub(&self, slot: u32, arity: usize, references: u32, form: Form) -> Code;

    /// An entry of the arity to actors at rest. A message for the slot's method is a call of `code`
    /// on the sender's stack, but for three cases, which go the way of [`Engine::message_stub`]:
    ///
    /// - the stack is too deep;
    /// - messages are looked at (003 section 4.2);
    /// - the method's guard, whose code is given, refuses them.
    ///
    /// Without this entry all messages go that way.
    fn resting_entry(
        &self,
        to: MethodEntry<'_>,
        form: Form,
        code: Code,
        guard: Option<Code>,
    ) -> Option<Code> {
        let _ = (to, form, code, guard);
        None
    }

    /// The same for a method that leaves the actor at rest
    /// ([`MessageKind::stays_at_rest`](crate::actor_class::MessageKind::stays_at_rest)), whose
    /// function is given: its statements are in the entry.
    fn plain_entry(&self, image: &Image, to: MethodEntry<'_>, form: Form, func: FuncId) -> Option<Code> {
        let _ = (image, to, form, func);
        None
    }

    /// An entry to active actors: the message is queued (003 section 4.2), if there is room and
    /// messages are not looked at. Without it they go the way of [`Engine::message_stub`].
    fn queueing_entry(&self, to: MethodEntry<'_>, form: Form) -> Option<Code> {
        let _ = (to, form);
        None
    }

    /// An entry for messages of the past type without references to actors of other nodes. They are
    /// written where the [`Outlet`](crate::node_words::Outlet) is, if there is room and it leads to
    /// the actor's node. Without it they go the way of [`Engine::message_stub`].
    fn remote_entry(&self, to: MethodEntry<'_>) -> Option<Code> {
        let _ = to;
        None
    }

    /// The code of turns of a class's actors, none of whose methods has a guard. It takes two
    /// arguments: an active actor that has messages and waits for none, and the greatest number
    /// that it may serve. It serves the oldest as long as that is so and its time is not over (003
    /// section 4.2). Returned, or killed. Without it the runtime takes them out one by one.
    fn turns(&self, class: &ActorClass) -> Option<Code> {
        let _ = class;
        None
    }

    /// An entry to a function written in Rust for machine code. It leaves an exit frame
    /// ([`crate::abi`]) in which the words are kept that `references` has a bit for, counting from
    /// the word after the context.
    fn native_entry(&self, code: Code, arity: usize, references: u32) -> Code {
        let _ = (arity, references);
        code
    }

    /// Adds the places of the references that a caller in machine code needs after the call that
    /// returns to this address: their byte offsets from its stack pointer at the call. False for
    /// addresses that are not the engine's.
    fn stack_map(&self, return_address: usize, offsets: &mut Vec<u32>) -> bool {
        let _ = (return_address, offsets);
        false
    }

    /// True if all references of the machine code can be found, so that heaps may be collected.
    fn collects(&self) -> bool {
        false
    }
}

/// The outcome of the message of a statement.
#[derive(Clone, Copy, Debug)]
pub enum Came {
    /// An outcome that is not `Signalled`.
    With(Ret),
    /// An exception, which is kept.
    Exception(Word),
}

/// The services that the runtime needs of the interpreter: functions run without machine code.
pub trait Interpreter: Send + Sync {
    /// Runs a function with the words that its code would be entered with.
    ///
    /// # Safety
    /// `cx` is the current context, and `args` are the words that [`crate::abi::enter`] would pass.
    unsafe fn call(&self, cx: *mut Cx, func: FuncId, args: &[Word]) -> Ret;

    /// Runs a function that may wait and has a join, from its beginning or from the place to which
    /// the path leads ([`bifrost_ir::ways`]). `came` is the outcome of the message of the statement
    /// there, if it was sent. It ends as code does, but that the answer is in the join; or with
    /// `actors::LANDED`.
    ///
    /// # Safety
    /// `cx` is the current context, and `running` a join of the function
    /// ([`join`](crate::actor_layout::join)), which the caller keeps.
    unsafe fn go_on(&self, cx: *mut Cx, running: Word, path: &[u32], came: Option<Came>) -> Ret;

    /// Makes sure that the image has the layout of the joins of a function
    /// ([`Image::set_join_layout`]).
    fn lay_out(&self, func: FuncId);

    /// The actors of the nodes that run its program, which new contexts get their state from.
    fn node_host(&self) -> &'static dyn NodeHost;

    /// The number of times that something is interpreted before it becomes machine code.
    fn hot_steps(&self) -> u64;
}
