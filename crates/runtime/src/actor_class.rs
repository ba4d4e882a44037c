//! The classes of actors and the layouts of their joins: made when a program is linked, and part of
//! its image. The fields of the objects are in [`actor_layout`](crate::actor_layout).
//!
//! The types to read first are [`State`], [`ActorClass`] and [`JoinLayout`].

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use bifrost_heap::{OBJECT_WORDS, Shape};
use bifrost_ir::builtin::STOP;
use bifrost_ir::plain::is_plain;
use bifrost_ir::{
    Actor, Body, ClassId, Func, FuncId, FuncKind, MethodId, Operand, Part, Program, Signature, Stmt, TypeId,
    TypeKind, Types, Var, ways,
};

use crate::abi::{Code, Word};
use crate::actor_layout::{exception, join, mail, message, outgoing, owed, replier, watcher};
use crate::image::{Image, Table, inner_table};
use crate::object::{self, lasting_object};
use crate::transfer::Pattern;

/// The state of an actor: the table of its class that its first word points at (003 section 3.2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u64)]
pub enum State {
    /// It has nothing to do: a message is a call.
    Dormant = 0,
    /// A method of it has begun and not ended: messages are queued.
    Active = 1,
    /// A method of it waits for a message: messages are queued, and resume it if it takes them.
    Selecting = 2,
    /// Its creator failed, or it has ended: each message is answered with a failure.
    Failed = 3,
    /// It is on another node, and this object stands for it: messages go there.
    Remote = 4,
}

impl State {
    /// All states, in the order of their tables.
    pub const ALL: [State; 5] =
        [State::Dormant, State::Active, State::Selecting, State::Failed, State::Remote];
}

/// The part that the actors of a class have in common.
#[derive(Debug)]
pub struct ActorClass {
    /// True if its methods may overlap.
    pub functional: bool,
    /// True if its actors are values of Rust, whose methods run on tasks.
    pub native: bool,
    /// True if a method that fails ends the actor.
    pub stops_on_failure: bool,
    /// True if a method may end the actor.
    pub ends: bool,
    /// Its creators.
    pub creators: Vec<FuncId>,
    /// By creator: the pattern of its arguments, where they go to another node.
    pub creations: Vec<Pattern>,
    /// By method: the function that tells when its messages are refused.
    pub guards: Vec<Option<FuncId>>,
    /// By method: true if its guard depends on the contents of the message.
    pub looks: Vec<bool>,
    /// True if no method has a guard.
    pub takes_all: bool,
    /// The field of the actor that is its mail.
    pub mail: usize,
    /// The number of methods that the class has.
    pub methods: usize,
    /// The bytes of its largest message, without the objects that it carries.
    pub message_bytes: usize,
    /// True if a message can carry objects that count.
    pub carries: bool,
    /// The number of lists of the mail: one where the oldest message is always the next one, else
    /// one for each method.
    pub lists: usize,
    /// By method: the part that its messages have in common.
    pub messages: Vec<MessageKind>,
    /// Its tables by state. Their entries take messages.
    pub tables: [&'static Table; State::ALL.len()],
    /// The table whose entries are the methods themselves; no actor has it.
    pub code: &'static Table,
    /// The table of its mail.
    pub mail_table: &'static Table,
    /// The code of its actors' turns.
    pub turns: Hot,
    /// A permanent actor that is used in place of each new one of a class whose actors are all
    /// alike. Such a class is functional and without variables. Its creators do nothing, and its
    /// methods never use their own actor. It is used where only the creator knows the new one, and
    /// sends it one request.
    pub any: Option<Word>,
}

impl ActorClass {
    /// Returns the table of a state.
    #[inline]
    pub fn table(&self, state: State) -> &'static Table {
        self.tables[state as usize]
    }

    /// Returns the part that messages for a method have in common.
    #[inline]
    pub fn message(&self, method: MethodId) -> &MessageKind {
        &self.messages[method.as_u32() as usize]
    }

    /// Returns the field of the mail with the first message of the list for a method; the next
    /// field has the last one.
    #[inline]
    pub fn list_of(&self, method: MethodId) -> usize {
        match self.lists {
            1 => mail::LISTS,
            _ => mail::LISTS + 2 * method.as_u32() as usize,
        }
    }

    /// True if the guard of a method depends on the contents of the message.
    pub fn looks_into(&self, method: MethodId) -> bool {
        self.looks[method.as_u32() as usize]
    }

    /// Returns the guard of a method.
    #[inline]
    pub fn guard(&self, method: MethodId) -> Option<FuncId> {
        self.guards[method.as_u32() as usize]
    }
}

/// The part that messages for one method have in common.
#[derive(Debug)]
pub struct MessageKind {
    /// The arguments that are references: a bit for each.
    pub references: u32,
    /// The references that are objects that a message carries, and not actors or places of answers:
    /// a bit for each.
    pub carries: u32,
    /// The number of arguments.
    pub args: usize,
    /// The table of queued messages.
    pub table: &'static Table,
    /// The pattern of the arguments, where they go to another node.
    pub arguments: Pattern,
    /// The pattern of the result.
    pub result: Pattern,
    /// The code that sends one to another node.
    pub remote: Hot,
    /// True if the method is plain ([`bifrost_ir::plain`]) and the actor refuses nothing: a dormant
    /// actor is dormant again when the method has ended.
    pub stays_at_rest: bool,
}

impl MessageKind {
    fn new(types: &Types, signature: &Signature, stays_at_rest: bool) -> MessageKind {
        let args = signature.params.len();
        let reference = |ty: TypeId| u32::from(!types.kind(ty).is_basic());
        let params = signature.params.iter().enumerate();
        let references = params.fold(0, |all, (at, param)| all | reference(param.ty) << at);
        let is_carried = |ty: TypeId| !matches!(types.kind(ty), TypeKind::Replier(_)) && !types.def(ty).actor;
        let carried = signature.params.iter().map(|param| is_carried(param.ty));
        let carries = (0..).zip(carried).fold(0, |all, (at, is)| all | u32::from(is) << at) & references;
        let fields = (0..args as u32).filter(|at| references >> at & 1 == 1);
        let fields = fields.map(|at| message::ARGS as u32 + at);
        let own = [owed::TO, message::RECEIVER, message::NEXT].map(|at| at as u32);
        let table = inner_table("message", Shape::of(own.into_iter().chain(fields)));
        let (arguments, result) =
            (Pattern::of_arguments(types, signature), Pattern::of_result(types, signature));
        MessageKind {
            references,
            carries,
            args,
            table,
            arguments,
            result,
            remote: Hot::default(),
            stays_at_rest,
        }
    }
}

/// A thing that gets machine code after it was done often without.
#[derive(Debug, Default)]
pub struct Hot {
    steps: AtomicU64,
    code: OnceLock<Option<Code>>,
}

impl Hot {
    /// Returns the code. It is made now if this was done often enough, and if it can be.
    #[inline]
    pub fn code(
        &self,
        hot_steps: impl FnOnce() -> u64,
        compile: impl FnOnce() -> Option<Code>,
    ) -> Option<Code> {
        match self.code.get() {
            Some(code) => *code,
            None if self.steps.fetch_add(1, Ordering::Relaxed) < hot_steps() => None,
            None => *self.code.get_or_init(compile),
        }
    }

    /// Returns the code, if there is some already.
    #[inline]
    pub fn known(&self) -> Option<Code> {
        *self.code.get()?
    }

    /// True if there is code.
    pub fn has_code(&self) -> bool {
        self.known().is_some()
    }
}

/// The thing that a function waits for where it stops.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waits {
    /// The replies for pending variables, a bit for each; those from the 64th on share one.
    Replies(u64),
    /// A turn of others: it goes on when others have run.
    Turn,
    /// The thing that the statement itself has named: a message, or the end of a call.
    Said,
}

/// A place at which a function stops, and goes on ([`bifrost_ir::ways`]).
#[derive(Debug)]
pub struct Way {
    /// The path to it, the innermost step first.
    pub path: Box<[u32]>,
    /// The thing that it waits for there.
    pub waits: Waits,
    /// True if machine code can go on here.
    pub open: bool,
    /// The code that goes on here.
    pub hot: Hot,
}

impl Way {
    /// Makes a way that was not used yet.
    pub fn new(path: Box<[u32]>, waits: Waits, open: bool) -> Way {
        Way { path, waits, open, hot: Hot::default() }
    }

    /// True if machine code goes on here.
    pub fn has_code(&self) -> bool {
        self.hot.has_code()
    }
}

/// The layout of the joins of a function, and the ways by which they go on.
#[derive(Debug)]
pub struct JoinLayout {
    /// The function.
    pub func: FuncId,
    /// Their table.
    pub table: &'static Table,
    /// The words that are the variables that may be pending.
    pub pending: Box<[u32]>,
    /// The field with the number of missing replies for the first of them.
    pub counts: usize,
    /// True if the first variable is the actor.
    pub of_actor: bool,
    /// The words that are not 0 at the start, by their place among the words: constants.
    pub constants: Box<[(u32, Word)]>,
    /// The ways into the function.
    pub ways: Box<[Way]>,
}

impl JoinLayout {
    /// Makes the layout for a function. `template` is its words at the start, of which the first
    /// are the variables.
    pub fn new(image: &Image, id: FuncId, template: &[Word]) -> JoinLayout {
        let func = &image.program().funcs[id];
        let references = func.vars.iter().filter(|(_, var)| image.is_reference(var.ty));
        let answer = func.signature.results.first().is_some_and(|ty| image.is_reference(*ty));
        let pending = ways::pending(func);
        let number =
            |var: &Var| pending.iter().position(|each| each == var).expect("whoever is awaited is pending");
        let ways = ways::ways_in(image.program(), &func.body).into_iter().map(|way| {
            let waits = match way.stmt {
                Stmt::Await { vars, .. } => {
                    Waits::Replies(vars.iter().fold(0, |all, var| all | 1 << number(var).min(63)))
                }
                Stmt::While { .. } => Waits::Turn,
                _ => Waits::Said,
            };
            Way::new(way.path, waits, way.open)
        });
        JoinLayout {
            func: id,
            table: join_table(references.map(|(var, _)| var.as_u32()), answer),
            counts: join::WORDS + template.len(),
            of_actor: func.kind == FuncKind::Script,
            constants: (0..)
                .zip(template)
                .filter(|(_, word)| **word != 0)
                .map(|(at, word)| (at, *word))
                .collect(),
            ways: ways.collect(),
            pending: pending.into_iter().map(Var::as_u32).collect(),
        }
    }

    /// Returns the number of missing replies for each variable that may be pending.
    ///
    /// # Safety
    /// `join` has this layout, and its counts do not change as long as this is used.
    #[inline]
    pub unsafe fn counts_of<'a>(&self, join: Word) -> &'a [Word] {
        // SAFETY: promised by the caller.
        unsafe { object::slice(join, self.counts, self.pending.len()) }
    }

    /// Returns the number of fields of a join.
    pub fn fields(&self) -> usize {
        self.counts + self.pending.len()
    }
}

/// Makes the table of joins of a function, of whose words these are references.
fn join_table(references: impl Iterator<Item = u32>, answer: bool) -> &'static Table {
    let mut own = vec![owed::TO, join::ACTOR, join::EXCEPTIONS, join::TAKEN, join::DELEGATED, join::OWING];
    own.extend(answer.then_some(join::ANSWER));
    let own = own.into_iter().map(|at| at as u32).collect::<Vec<_>>();
    let words = references.map(|at| join::WORDS as u32 + at);
    inner_table("join", Shape::of(own.into_iter().chain(words)))
}

/// Makes the table of exceptions of which these values are references.
pub(crate) fn exception_table(references: u32) -> &'static Table {
    let values = (0..u32::BITS).filter(|at| references >> at & 1 == 1);
    let values = values.map(|at| exception::VALUES as u32 + at);
    inner_table("exception", Shape::of([exception::NEXT as u32].into_iter().chain(values)))
}

/// Returns the shape of destinations, by whether their answers are references.
pub(crate) fn replier_shape(reference: bool) -> Shape {
    let own = [owed::TO as u32, replier::EXCEPTION as u32];
    let value = reference.then_some(replier::VALUE as u32);
    Shape::of(own.into_iter().chain(value))
}

/// The tables of the objects that belong to all programs with actors.
#[derive(Debug)]
pub struct Tables {
    /// Places that keep an answer, by whether that is a reference.
    pub kept: [&'static Table; 2],
    /// The caller of the program, or the client of a session.
    pub caller: &'static Table,
    /// Messages that went to another node.
    pub outgoing: &'static Table,
    /// Waiters on another node.
    pub away: &'static Table,
    /// Watchers: entries in the list of an actor's monitors.
    pub watcher: &'static Table,
}

impl Tables {
    pub(crate) fn new() -> Tables {
        Tables {
            kept: [false, true].map(|reference| inner_table("kept answer", replier_shape(reference))),
            caller: inner_table("caller", Shape::leaf()),
            outgoing: inner_table("outgoing", Shape::of([owed::TO, outgoing::RECEIVER].map(|at| at as u32))),
            away: inner_table("away", Shape::leaf()),
            watcher: inner_table(
                "watcher",
                Shape::of([watcher::NEXT, watcher::DESTINATION].map(|at| at as u32)),
            ),
        }
    }
}

/// Makes the table of mail with so many lists.
fn mail_table(lists: usize) -> &'static Table {
    let lists = (mail::LISTS..mail::fields(lists)).map(|at| at as u32);
    let own = [mail::WAITING, mail::FAILURE, mail::WATCHERS];
    inner_table("mail", Shape::of(own.map(|at| at as u32).into_iter().chain(lists)))
}

/// True if a method reads its parameters.
fn reads_params(func: &Func) -> bool {
    reads_one_of(func, 1..func.param_count() as u32)
}

/// True if a function reads one of the variables with these numbers.
fn reads_one_of(func: &Func, vars: Range<u32>) -> bool {
    func.body.contains(&|stmt| {
        let mut reads = false;
        stmt.parts(&mut |part| {
            if let Part::Reads(Operand::Var(var)) = part {
                reads |= vars.contains(&var.as_u32());
            }
        });
        reads
    })
}

/// True if one actor of a class is as good as another, as long as only its creator knows it.
fn are_alike(program: &Program, id: ClassId, actor: &Actor) -> bool {
    let class = &program.classes[id];
    let nothing =
        |func: &FuncId| program.funcs[*func].body.0.iter().all(|stmt| matches!(stmt, Stmt::Return(_)));
    let knows_itself = |body: &Body| match body {
        Body::Func(func) => reads_one_of(&program.funcs[*func], 0..1),
        Body::Native(_) => true,
    };
    let plain = actor.functional && class.fields.is_empty() && actor.creators.iter().all(nothing);
    // A subclass may have more fields or methods.
    let last = || program.classes.values().all(|other| other.superclass != Some(id));
    plain && !class.bodies.iter().any(knows_itself) && last()
}

/// Returns the mail's field of actors of a class.
pub(crate) fn mail_field(program: &Program, kind: TypeKind) -> Option<usize> {
    let TypeKind::Class(class) = kind else { return None };
    let class = &program.classes[class];
    class.actor.is_some().then_some(class.fields.len())
}

impl ActorClass {
    /// Makes the class of a type, with its tables; nothing if it is no class of actors.
    pub(crate) fn new(
        program: &Program,
        kind: TypeKind,
        tables: [&'static Table; State::ALL.len()],
        code: &'static Table,
    ) -> Option<ActorClass> {
        let TypeKind::Class(id) = kind else { return None };
        let class = &program.classes[id];
        let actor = class.actor.as_ref()?;
        let methods = class.bodies.len();
        let (mut guards, mut looks) = (vec![None; methods], vec![false; methods]);
        for (method, func) in &actor.guards {
            let at = method.as_u32() as usize;
            guards[at] = Some(*func);
            looks[at] = reads_params(&program.funcs[*func]);
        }
        let funcs = class.bodies.iter().filter_map(|body| match body {
            Body::Func(func) => Some(func),
            Body::Native(_) => None,
        });
        let is_selection = |stmt: &Stmt| matches!(stmt, Stmt::Select { .. });
        let selects =
            funcs.chain(&actor.creators).any(|func| program.funcs[*func].body.contains(&is_selection));
        let takes_all = guards.iter().all(Option::is_none);
        let lists = if takes_all && !selects { 1 } else { methods };
        let creations = actor.creators.iter().map(|func| &program.funcs[*func].signature);
        let creations = creations.map(|signature| Pattern::of_arguments(&program.types, signature)).collect();
        let own = &program.types.def(class.ty).methods;
        let messages = own.values().zip(&class.bodies).map(|(method, body)| {
            let plain = matches!(body, Body::Func(func) if is_plain(program, &program.funcs[*func]));
            MessageKind::new(&program.types, &method.signature, takes_all && plain && !actor.stops_on_failure)
        });
        let messages: Vec<MessageKind> = messages.collect();
        let args = messages.iter().map(|kind| kind.args).max().unwrap_or_default();
        Some(ActorClass {
            message_bytes: 8 * (OBJECT_WORDS + message::ARGS + args),
            carries: messages.iter().any(|kind| kind.carries != 0),
            messages,
            functional: actor.functional,
            native: actor.native.is_some(),
            stops_on_failure: actor.stops_on_failure,
            ends: actor.stops_on_failure || program.natives.values().any(|name| name == STOP),
            creators: actor.creators.clone(),
            creations,
            takes_all,
            guards,
            looks,
            mail: class.fields.len(),
            methods,
            tables,
            code,
            lists,
            mail_table: mail_table(lists),
            turns: Hot::default(),
            any: are_alike(program, id, actor)
                .then(|| lasting_object(tables[State::Dormant as usize], class.fields.len() + 1)),
        })
    }
}

/// The result of a message's arrival, by the receiver's state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Delivery {
    /// It is a call of its method on the sender's stack.
    Call,
    /// It is queued in the receiver's mail.
    Queue,
    /// It is queued there, and the selection under way goes on if it takes it.
    Offer,
    /// It is answered with the failure of the receiver.
    Refuse,
    /// It goes to the receiver's node as a packet.
    Send,
}

/// Returns the result of a message's arrival: the rule of 003 section 4.2 and 002 section 3.
///
/// | state | request | past form | entry of machine code |
/// | --- | --- | --- | --- |
/// | dormant | call | call | [`Engine::resting_entry`], [`Engine::plain_entry`] |
/// | active | queue | queue | [`Engine::queueing_entry`] |
/// | selecting | offer | offer | [`Engine::message_stub`] |
/// | failed | refuse: the answer is the failure | refuse: the failure is logged | `message_stub` |
/// | remote | send, with a waiter | send, without one | [`Engine::remote_entry`], past form |
///
/// A call is queued nevertheless if the stack is too deep, if the class's condition refuses the
/// message, or if a seed wants it. Both forms have the same result; they differ in the answer. The
/// table is applied by `send` and `send_past` of crate `actors`, and by
/// [`Image::method_code`](crate::image::Image::method_code), which enters the code.
///
/// [`Engine::resting_entry`]: crate::Engine::resting_entry
/// [`Engine::plain_entry`]: crate::Engine::plain_entry
/// [`Engine::queueing_entry`]: crate::Engine::queueing_entry
/// [`Engine::message_stub`]: crate::Engine::message_stub
/// [`Engine::remote_entry`]: crate::Engine::remote_entry
#[inline(always)]
pub const fn delivery(state: State) -> Delivery {
    match state {
        State::Dormant => Delivery::Call,
        State::Active => Delivery::Queue,
        State::Selecting => Delivery::Offer,
        State::Failed => Delivery::Refuse,
        State::Remote => Delivery::Send,
    }
}
