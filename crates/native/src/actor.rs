//! Native actors: actors that are values of Rust. Their methods run on tasks, where they may block
//! (`docs/book/language/natives.md`).
//!
//! ```
//! use bifrost_native::{NativeActor, Registry, Reply, Signals, Task, Text, theta_actor};
//! use parking_lot::Mutex;
//!
//! /// Board = actor native "boards::Board"
//! ///   new (title: string)
//! ///   post (text: string) returns (int) signals (full (int))
//! ///   next (after: int) returns (string)
//! /// end Board
//! struct Board {
//!     title: String,
//!     posts: Mutex<Vec<String>>,
//!     waiting: Mutex<Vec<(i64, Reply<String>)>>,
//! }
//!
//! #[derive(Signals)]
//! enum Full {
//!     Full(i64),
//! }
//!
//! #[theta_actor("boards::Board", concurrency = 4)]
//! impl Board {
//!     fn new(_task: &Task, title: Text) -> Board {
//!         Board { title: title.to_string(), posts: Mutex::default(), waiting: Mutex::default() }
//!     }
//!
//!     fn post(&self, _task: &Task, text: Text) -> Result<i64, Full> {
//!         let mut posts = self.posts.lock();
//!         if posts.len() == 100 {
//!             return Err(Full::Full(100));
//!         }
//!         posts.push(format!("{}: {}", self.title, &*text));
//!         let count = posts.len() as i64;
//!         for (_, reply) in self.waiting.lock().extract_if(.., |(after, _)| *after < count) {
//!             reply.send(text.to_string());
//!         }
//!         Ok(count)
//!     }
//!
//!     /// Answers when there is a post behind `after`, and holds no task meanwhile.
//!     fn next(&self, _task: &Task, after: i64, reply: Reply<String>) {
//!         match self.posts.lock().get(after as usize) {
//!             Some(post) => reply.send(post.clone()),
//!             None => self.waiting.lock().push((after, reply)),
//!         }
//!     }
//! }
//!
//! let registry = Registry::standard().with_actor::<Board>();
//! let heading = registry.heading("boards::Board.next").unwrap();
//! assert_eq!(heading, "next (after: int) returns (string)");
//! ```
//!
//! Arguments and results are the types of [`value`](crate::value) that own their value or borrow
//! it for the call, and [`ActorRef`]s. A panic is a `failure`, and poisons the actor.
//!
//! Read [`NativeActor`] and [`Task`] first. [`Call`] is a call of a method, as the entries that the
//! attribute writes get it. [`TaskHost`] and [`Answers`] are implemented by the owner of the tasks.

use std::any::Any;
use std::collections::HashMap;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bifrost_ir::TypeId;
use bifrost_ir::native::{NativeHeading, NativeType};
use bifrost_runtime::abi::Word;
use bifrost_runtime::cx::Cx as Raw;
use bifrost_runtime::native::Natives;
use bifrost_runtime::{Object, Ret};
use parking_lot::RwLock;

use crate::cx::Cx;
use crate::glue::{Frame, message};
use crate::value::{Argument, Given, Outcome, Owned, Value};

/// A class of actors that are values of this type. Implemented by
/// [`theta_actor`](crate::theta_actor).
pub trait NativeActor: Send + Sync + Sized + 'static {
    /// The name in `actor native "..."`.
    const NAME: &'static str;

    /// The number of methods of one actor that run at once; 0 is no bound. A server's settings may
    /// say another.
    const CONCURRENCY: u32;

    /// Returns the methods, and the creator as `new`.
    fn methods() -> Vec<Method>;
}

/// A method of a class of actors.
#[derive(Clone, Debug)]
pub struct Method {
    name: &'static str,
    heading: NativeHeading,
    alone: bool,
    defers: bool,
    run: fn(&mut Call<'_>) -> Ret,
}

impl Method {
    /// Makes a method with its entry.
    pub fn new(
        name: &'static str,
        heading: NativeHeading,
        alone: bool,
        defers: bool,
        run: fn(&mut Call<'_>) -> Ret,
    ) -> Method {
        Method { name, heading, alone, defers, run }
    }

    /// Returns its name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns its heading.
    pub fn heading(&self) -> &NativeHeading {
        &self.heading
    }

    /// True if no other method of the actor may run meanwhile.
    pub fn is_alone(&self) -> bool {
        self.alone
    }

    /// True if it answers later, by a [`Reply`].
    pub fn defers(&self) -> bool {
        self.defers
    }

    /// Runs it.
    pub fn run(&self, call: &mut Call<'_>) -> Ret {
        (self.run)(call)
    }
}

/// A class of actors, without its type.
#[derive(Clone, Debug)]
pub struct ActorType {
    name: &'static str,
    concurrency: u32,
    methods: Arc<HashMap<&'static str, Method>>,
}

impl ActorType {
    /// Returns the class of a type.
    pub fn of<A: NativeActor>() -> ActorType {
        let methods = A::methods().into_iter().map(|method| (method.name, method));
        ActorType { name: A::NAME, concurrency: A::CONCURRENCY, methods: Arc::new(methods.collect()) }
    }

    /// Returns the name in `actor native "..."`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the number of methods that run at once, if the settings say nothing.
    pub fn concurrency(&self) -> u32 {
        self.concurrency
    }

    /// Returns a method by its name.
    pub fn method(&self, name: &str) -> Option<&Method> {
        self.methods.get(name)
    }

    /// Returns all methods, in no order.
    pub fn methods(&self) -> impl Iterator<Item = &Method> {
        self.methods.values()
    }
}

/// The classes of actors that a registry has.
#[derive(Clone, Debug, Default)]
pub struct NativeActors(HashMap<&'static str, ActorType>);

impl NativeActors {
    /// Adds a class. A later one of the same name takes its place.
    pub fn insert(&mut self, class: ActorType) {
        self.0.insert(class.name, class);
    }

    /// Returns the class of that name.
    pub fn find(&self, name: &str) -> Option<&ActorType> {
        self.0.get(name)
    }
}

/// The states of an actor's value.
enum Inside {
    /// Its creator has not ended.
    New,
    Ready(Box<dyn Any + Send + Sync>),
    /// It answers each message with this failure.
    Failed(String),
}

/// The value behind an actor.
pub struct ActorValue(RwLock<Inside>);

impl std::fmt::Debug for ActorValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ActorValue").finish_non_exhaustive()
    }
}

impl Default for ActorValue {
    /// Makes the value of an actor whose creator has not run.
    fn default() -> ActorValue {
        ActorValue(RwLock::new(Inside::New))
    }
}

impl ActorValue {
    /// Makes the value of an actor without a creator.
    pub fn new<A: NativeActor>(value: A) -> ActorValue {
        ActorValue(RwLock::new(Inside::Ready(Box::new(value))))
    }

    /// Lets each further message fail.
    pub fn fail(&self, why: String) {
        *self.0.write() = Inside::Failed(why);
    }
}

/// The owner of the tasks, as a method asks it.
pub trait TaskHost: Send + Sync {
    /// True if nobody waits for the answer any more, or the tasks end.
    fn must_end(&self) -> bool;

    /// Returns the time at which nobody waits any more, if it is known.
    fn deadline(&self) -> Option<Instant>;

    /// Returns the name of the role of the client that asks; empty without one.
    fn caller(&self) -> String;

    /// Returns the number of the session that asks; 0 if no session asks.
    fn session(&self) -> u64;

    /// Returns the settings of natives.
    fn natives(&self) -> &Natives;

    /// Makes an actor of a class.
    ///
    /// # Errors
    /// The program declares no such class.
    fn create(&self, class: ActorType, value: ActorValue) -> Result<Arc<dyn Handle>, String>;

    /// Returns the actor for which an object stands.
    fn handle(&self, object: Object) -> Option<Arc<dyn Handle>>;

    /// Does something after a time. Returns the way to take that back, which is true if it was not
    /// done and will not be.
    fn after(&self, time: Duration, act: Box<dyn FnOnce() + Send>) -> Box<dyn FnOnce() -> bool + Send>;

    /// Takes the right to answer later. It is there once, in a method that defers.
    fn take_answers(&self) -> Option<Box<dyn Answers>>;
}

/// An actor, as Rust holds it.
pub trait Handle: Send + Sync {
    /// Returns an object that stands for it, in the context of a task; nothing if memory is used
    /// up.
    fn object(&self, raw: &mut Raw) -> Option<Object>;
}

/// The end of a method, made in a context.
pub type Ending<'a> = Box<dyn FnOnce(&mut Raw, &Frame) -> Ret + Send + 'a>;

/// The right to answer a request.
pub trait Answers: Send {
    /// Answers it.
    fn answer(self: Box<Self>, ending: Ending<'_>);
}

/// The task that runs a method, as the method sees it. A clone may be kept on other threads.
#[derive(Clone)]
pub struct Task(Arc<dyn TaskHost>);

impl std::fmt::Debug for Task {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Task").finish_non_exhaustive()
    }
}

/// A timer of a task.
pub struct Alarm(Box<dyn FnOnce() -> bool + Send>);

impl std::fmt::Debug for Alarm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Alarm").finish_non_exhaustive()
    }
}

impl Alarm {
    /// Takes it back. Returns true if its act has not begun, and will not.
    pub fn cancel(self) -> bool {
        (self.0)()
    }
}

impl Task {
    /// Makes the task of a host.
    pub fn new(host: Arc<dyn TaskHost>) -> Task {
        Task(host)
    }

    /// Returns true if the method should return soon, because nobody waits for its answer any more
    /// or the server stops. Its result does not matter then.
    pub fn must_end(&self) -> bool {
        self.0.must_end()
    }

    /// Returns the time at which the batch that asks is over, if there is one.
    pub fn deadline(&self) -> Option<Instant> {
        self.0.deadline()
    }

    /// Returns the name of the role of the client that asks, as `caller` does; empty without one.
    pub fn caller(&self) -> String {
        self.0.caller()
    }

    /// Returns the number of the client's session, which no other session of the server has; 0 if
    /// an actor asks.
    pub fn session(&self) -> u64 {
        self.0.session()
    }

    /// Returns the settings of this type that the registry was given.
    pub fn settings<T: Clone + Send + Sync + 'static>(&self) -> Option<T> {
        self.0.natives().get::<T>().cloned()
    }

    /// Makes an actor, to be returned or kept.
    ///
    /// # Errors
    /// The program declares no such class.
    pub fn create<A: NativeActor>(&self, value: A) -> Result<ActorRef<A>, String> {
        let handle = self.0.create(ActorType::of::<A>(), ActorValue::new(value))?;
        Ok(ActorRef { handle, of: PhantomData })
    }

    /// Does something after a time, on a thread that all timers share: it must be short, and must
    /// not block. A [`Reply`] may be sent from it.
    pub fn after(&self, time: Duration, act: impl FnOnce() + Send + 'static) -> Alarm {
        Alarm(self.0.after(time, Box::new(act)))
    }
}

/// A reference to a native actor, which keeps it alive.
pub struct ActorRef<A> {
    handle: Arc<dyn Handle>,
    of: PhantomData<fn() -> A>,
}

impl<A> Clone for ActorRef<A> {
    fn clone(&self) -> ActorRef<A> {
        ActorRef { handle: self.handle.clone(), of: PhantomData }
    }
}

impl<A: NativeActor> std::fmt::Debug for ActorRef<A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ActorRef").field(&A::NAME).finish()
    }
}

impl<'a, A: NativeActor> Argument<'a> for ActorRef<A> {
    fn native_type() -> NativeType {
        NativeType::Actor(A::NAME)
    }

    fn take(cx: &mut Cx<'_>, given: Given<'a, Self>) -> Result<Self, Ret> {
        // SAFETY: actors are objects.
        let object = unsafe { given.alive() }.object();
        let handle = cx.task.and_then(|task| task.0.handle(object));
        let handle = handle.ok_or_else(|| cx.raw.failure("only native actors take native actors"))?;
        Ok(ActorRef { handle, of: PhantomData })
    }
}

impl<A: NativeActor> Owned for ActorRef<A> {}

impl<A: NativeActor> Value for ActorRef<A> {
    fn native_type() -> NativeType {
        NativeType::Actor(A::NAME)
    }

    fn give(self, cx: &mut Cx<'_>, _ty: TypeId) -> Result<Word, Ret> {
        match self.handle.object(cx.raw) {
            Some(object) => Ok(object.word()),
            None => Err(cx.raw.failure("out of memory")),
        }
    }
}

/// The right to answer a request later, from any thread. Dropped without an answer, it answers with
/// a failure.
pub struct Reply<O: Outcome> {
    to: Option<Box<dyn Answers>>,
    of: PhantomData<fn(O)>,
}

impl<O: Outcome> std::fmt::Debug for Reply<O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reply").finish_non_exhaustive()
    }
}

impl<O: Outcome> Reply<O> {
    /// Takes the right to answer from the task of a method that defers.
    ///
    /// # Errors
    /// It was taken before: a mistake of the entry.
    #[doc(hidden)]
    pub fn of(cx: &mut Cx<'_>, task: &Task) -> Result<Reply<O>, Ret> {
        match task.0.take_answers() {
            Some(to) => Ok(Reply { to: Some(to), of: PhantomData }),
            None => Err(cx.raw.failure("internal error: two replies to one request")),
        }
    }

    /// Answers.
    pub fn send(mut self, outcome: O)
    where
        O: Send,
    {
        if let Some(to) = self.to.take() {
            to.answer(Box::new(move |raw, frame| outcome.end(&mut Cx::new(raw), frame)));
        }
    }
}

impl<O: Outcome> Drop for Reply<O> {
    fn drop(&mut self) {
        if let Some(to) = self.to.take() {
            to.answer(Box::new(|raw, _| raw.failure("the request was dropped without an answer")));
        }
    }
}

/// A call of a method under way.
pub struct Call<'a> {
    /// The context of the task.
    pub raw: &'a mut Raw,
    /// The method.
    pub frame: Frame,
    /// The arguments, which the caller keeps.
    pub words: &'a [Word],
    /// The task.
    pub task: &'a Task,
    /// The actor.
    pub value: &'a ActorValue,
    /// The name of the method, for failures.
    pub name: &'a str,
}

impl std::fmt::Debug for Call<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Call").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The outcome of a creator.
pub trait Made<A> {
    /// Returns the value, or the reason why there is none.
    ///
    /// # Errors
    /// The text of the failure.
    fn made(self) -> Result<A, String>;
}

impl<A: NativeActor> Made<A> for A {
    fn made(self) -> Result<A, String> {
        Ok(self)
    }
}

impl<A: NativeActor> Made<A> for Result<A, String> {
    fn made(self) -> Result<A, String> {
        self
    }
}

/// Runs a body in the context of a task, and makes a failure of a panic. Returns false with a
/// panic.
fn guarded<T>(
    raw: &mut Raw,
    task: &Task,
    name: &str,
    body: impl FnOnce(&mut Cx<'_>) -> Result<T, Ret>,
) -> (Result<T, Ret>, bool) {
    let mut cx = Cx::of_task(raw, task);
    match catch_unwind(AssertUnwindSafe(|| body(&mut cx))) {
        Ok(ended) => (ended, true),
        Err(panic) => {
            let text = format!("native actor `{name}` panicked: {}", message(&*panic));
            (Err(raw.failure(&text)), false)
        }
    }
}

/// Runs the creator of an actor. Not for use by hand.
#[doc(hidden)]
pub fn create<A: NativeActor, M: Made<A>>(
    call: &mut Call<'_>,
    body: impl FnOnce(&mut Cx<'_>, &Frame, &Task, &[Word]) -> Result<M, Ret>,
) -> Ret {
    let Call { raw, frame, words, task, value, name } = call;
    let (made, _) = guarded(raw, task, name, |cx| body(cx, frame, task, words).map(M::made));
    match made {
        Ok(Ok(made)) => {
            *value.0.write() = Inside::Ready(Box::new(made));
            Ret::NOTHING
        }
        Ok(Err(why)) => raw.failure(&why),
        Err(ret) => ret,
    }
}

/// Returns the failure of an actor that is not of the class, or not ready.
fn unready<A: NativeActor>(raw: &mut Raw, inside: &Inside) -> Ret {
    match inside {
        Inside::New => raw.failure("internal error: a message before the creator"),
        Inside::Ready(_) => raw.failure(&format!("there are two native actors `{}`", A::NAME)),
        Inside::Failed(why) => raw.failure(why),
    }
}

/// Returns the failure of an actor that is poisoned.
fn poisoned(name: &str) -> String {
    format!("native actor `{name}`: it is poisoned by a panic")
}

/// Runs a method beside others. Not for use by hand.
#[doc(hidden)]
pub fn shared<A: NativeActor>(
    call: &mut Call<'_>,
    body: impl FnOnce(&A, &mut Cx<'_>, &Frame, &Task, &[Word]) -> Result<Ret, Ret>,
) -> Ret {
    let Call { raw, frame, words, task, value, name } = call;
    let inside = value.0.read();
    let this = if let Inside::Ready(ready) = &*inside { ready.downcast_ref::<A>() } else { None };
    let Some(this) = this else { return unready::<A>(raw, &inside) };
    let (ended, whole) = guarded(raw, task, name, |cx| body(this, cx, frame, task, words));
    drop(inside);
    if !whole {
        value.fail(poisoned(name));
    }
    ended.unwrap_or_else(|ret| ret)
}

/// Runs a method alone. Not for use by hand.
#[doc(hidden)]
pub fn alone<A: NativeActor>(
    call: &mut Call<'_>,
    body: impl FnOnce(&mut A, &mut Cx<'_>, &Frame, &Task, &[Word]) -> Result<Ret, Ret>,
) -> Ret {
    let Call { raw, frame, words, task, value, name } = call;
    let mut inside = value.0.write();
    let this = if let Inside::Ready(ready) = &mut *inside { ready.downcast_mut::<A>() } else { None };
    let Some(this) = this else { return unready::<A>(raw, &inside) };
    let (ended, whole) = guarded(raw, task, name, |cx| body(this, cx, frame, task, words));
    if !whole {
        *inside = Inside::Failed(poisoned(name));
    }
    ended.unwrap_or_else(|ret| ret)
}
