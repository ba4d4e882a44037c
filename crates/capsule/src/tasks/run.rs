//! A task: it runs invocations in a context of its own, and answers.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use bifrost_actors::{
    Names, Network, Observer, Packets, Placement, Received, Wait, WithActors, answer_from_task, begin_task,
    far_actor, native_address, take_arguments,
};
use bifrost_engine::Engine;
use bifrost_ir::MethodRef;
use bifrost_native::actor::{ActorType, ActorValue, Answers, Call, Ending, Handle, Method, Task, TaskHost};
use bifrost_native::glue::Frame;
use bifrost_runtime::abi::{ARGS_MAX, Outcome, Ret};
use bifrost_runtime::native::Natives;
use bifrost_runtime::{Cx, Object};
use bifrost_tasks::{Dropped, End, Host};
use parking_lot::Mutex;

use super::{Client, Invocation, Served, Tasks, What};
use crate::space::Space;

/// The owner of the tasks' work.
#[derive(Debug)]
pub(crate) struct Runner(Weak<Tasks>);

impl Runner {
    pub(super) fn new(tasks: &Arc<Tasks>) -> Runner {
        Runner(Arc::downgrade(tasks))
    }
}

impl Host<Invocation> for Runner {
    /// The context; nothing if there is no memory for one.
    type Task = Option<Arc<Space>>;

    fn begin_task(&self) -> Option<Arc<Space>> {
        self.0.upgrade().and_then(|tasks| tasks.context().ok())
    }

    fn run(&self, task: &mut Option<Arc<Space>>, invocation: Invocation) {
        let Some(tasks) = self.0.upgrade() else { return };
        match task {
            Some(space) => tasks.run(space, invocation),
            None => tasks.give_up(invocation, "there is no memory for the context of a task"),
        }
    }

    fn drop_unrun(&self, invocation: Invocation, why: Dropped) {
        let Some(tasks) = self.0.upgrade() else { return };
        // Nobody waits, or the server stops: the answer goes nowhere, or fails a waiter at once.
        let why = match why {
            Dropped::Expired => "its time is over",
            Dropped::Cancelled => "nobody waits for it",
            Dropped::Closed => "its server stops",
        };
        tasks.give_up(invocation, why);
    }

    fn note_stuck(&self, label: &str, since: Duration, replaced: bool) {
        tracing::warn!(method = label, seconds = since.as_secs_f64(), replaced, "tasks.stuck");
    }
}

/// The network of a task's context: packets go out, and none come.
#[derive(Debug)]
struct TaskPort(Weak<Tasks>);

impl Packets for TaskPort {
    fn post(&mut self, node: u32, packets: Vec<u8>) {
        let Some(tasks) = self.0.upgrade() else { return };
        match node == tasks.number() {
            // An answer tells its receiver of a native actor.
            true => tasks.post(node, packets),
            false => {
                if let Some(mail) = tasks.mail.get() {
                    mail.deliver(node, packets);
                }
            }
        }
    }

    fn receive(&mut self, _wait: Wait) -> Received {
        Received::Nothing
    }

    fn has_mail(&mut self) -> bool {
        false
    }
}

impl Placement for TaskPort {
    fn claim_idle_node(&mut self) -> Option<u32> {
        None
    }

    fn is_idle(&mut self, _node: u32) -> bool {
        true
    }

    fn has_tasks(&self) -> bool {
        true
    }
}

impl Names for TaskPort {}

impl Observer for TaskPort {}

impl Tasks {
    /// Makes the context of a task.
    pub(super) fn context(self: &Arc<Tasks>) -> std::io::Result<Arc<Space>> {
        let engine: Arc<Engine> = self.engine.clone();
        let space = Space::new(engine, self.settings.limits)?;
        let mut cx = space.lock();
        let network: Box<dyn Network> = Box::new(TaskPort(Arc::downgrade(self)));
        begin_task(&mut cx, network, self.nodes);
        cx.actors().set_log(|text| tracing::warn!(text, "actor.log"));
        drop(cx);
        Ok(space)
    }

    /// Does something in the context in which late answers and failures are made.
    fn with_later(self: &Arc<Tasks>, act: impl FnOnce(&mut Cx)) {
        let space = match self.later.get() {
            Some(space) => Some(space.clone()),
            None => self.context().ok().map(|made| self.later.get_or_init(|| made).clone()),
        };
        if let Some(space) = space {
            let mut cx = space.lock();
            cx.begin();
            act(&mut cx);
            cx.leave();
        }
    }

    /// Answers a request with a failure, outside a task.
    pub(super) fn answer_failure(
        self: &Arc<Tasks>,
        from: u32,
        waiter: Option<[u32; 2]>,
        method: MethodRef,
        why: &str,
    ) {
        self.end_request(from, waiter);
        self.with_later(|cx| {
            let ret = cx.failure(why);
            answer_from_task(cx, from, waiter, method, ret);
        });
    }

    /// Runs an invocation in a context, and answers.
    pub(super) fn run(self: &Arc<Tasks>, space: &Arc<Space>, invocation: Invocation) {
        let counts = self.counts.lock().get(invocation.actor.class.name()).cloned();
        let count = |end| counts.iter().for_each(|counts| counts.end(end));
        let actor = invocation.actor.clone();
        let end = match &invocation.what {
            What::End => {
                drop(invocation);
                drop(actor);
                return self.end_work();
            }
            What::Create(creator) => {
                let native = actor.class.method("new").cloned();
                let frame = Frame::of_creation(*creator);
                let mut cx = space.lock();
                cx.begin();
                let (ret, _) = self.call(&mut cx, &invocation, native.as_ref(), frame);
                if !ret.returned() {
                    actor.value.fail(failure_of(&cx, ret));
                }
                cx.leave();
                ret
            }
            What::Message(method, native) => {
                let mut cx = space.lock();
                cx.begin();
                let (ret, answers) =
                    self.call(&mut cx, &invocation, Some(native), Frame::of_message(*method));
                if answers {
                    self.end_request(invocation.from, invocation.waiter);
                    answer_from_task(&mut cx, invocation.from, invocation.waiter, *method, ret);
                }
                let_go_of_given();
                let end = end_of(&cx, ret);
                cx.leave();
                drop(cx);
                count(end);
                if answers {
                    self.end_work();
                }
                return;
            }
        };
        count(if end.returned() { End::Done } else { End::Failed });
        self.end_work();
    }

    /// Calls a method with the arguments of an invocation. Returns its end, and true if that is the
    /// answer; else that comes later.
    fn call(
        self: &Arc<Tasks>,
        cx: &mut Cx,
        invocation: &Invocation,
        method: Option<&Method>,
        frame: Frame,
    ) -> (Ret, bool) {
        let Some(method) = method else { return (cx.failure("the native has no such method"), true) };
        let actor = &invocation.actor;
        let image = self.engine.image().clone();
        let class = image.find_table(actor.ty).and_then(|table| table.info().actor());
        let Some(class) = class else { return (cx.failure("it is no actor"), true) };
        let pattern = match &invocation.what {
            What::Message(of, _) => &class.message(of.method).arguments,
            _ => &class.creations[0],
        };
        let mut words = [0; ARGS_MAX];
        let words = &mut words[..pattern.len()];
        let bytes = &invocation.packets[invocation.arguments.clone()];
        let is_there = |address, ty| self.find(address, ty).is_some();
        if let Err(why) = take_arguments(cx, bytes, pattern, &is_there, words) {
            return (cx.failure(&why), true);
        }
        let _values = pattern.keep(cx, words);
        let answers = method.defers().then(|| LateAnswer::of(self, invocation)).flatten();
        let running = Arc::new(Running {
            tasks: self.clone(),
            cancelled: invocation.cancelled.clone(),
            client: invocation.client.clone(),
            answers: Mutex::new(answers),
        });
        let task = Task::new(running.clone());
        let name = invocation.name();
        let mut call = Call { raw: cx, frame, words, task: &task, value: &actor.value, name: &name };
        let ret = method.run(&mut call);
        // A method that defers and has not come so far as to take its reply is answered as others.
        let untaken = running.answers.lock().take().map(LateAnswer::forget).is_some();
        (ret, !method.defers() || untaken)
    }
}

/// Returns the text of the failure with which a creator has ended.
fn failure_of(cx: &Cx, ret: Ret) -> String {
    if ret.outcome() == Outcome::Killed || cx.signalled() != bifrost_ir::SignalId::FAILURE {
        return "its creator has failed".to_owned();
    }
    // SAFETY: the value of `failure` is a string.
    unsafe { bifrost_runtime::object::text(cx.signal_values[0]) }.to_owned()
}

fn end_of(cx: &Cx, ret: Ret) -> End {
    match ret.outcome() {
        Outcome::Returned => End::Done,
        _ if cx.signalled() == bifrost_ir::SignalId::FAILURE => End::Failed,
        _ => End::Signalled,
    }
}

/// A method that runs, as it sees its task.
struct Running {
    tasks: Arc<Tasks>,
    cancelled: Arc<AtomicBool>,
    client: Option<Client>,
    answers: Mutex<Option<LateAnswer>>,
}

impl TaskHost for Running {
    fn must_end(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed) || self.tasks.pool().is_none_or(|pool| pool.is_stopped())
    }

    fn deadline(&self) -> Option<Instant> {
        self.client.as_ref()?.deadline
    }

    fn caller(&self) -> String {
        self.client.as_ref().map_or_else(String::new, |client| client.caller.to_string())
    }

    fn session(&self) -> u64 {
        self.client.as_ref().map_or(0, |client| client.session)
    }

    fn natives(&self) -> &Natives {
        self.tasks.engine.image().natives()
    }

    fn create(&self, class: ActorType, value: ActorValue) -> Result<Arc<dyn Handle>, String> {
        let table = self.tasks.engine.image().native_table(class.name());
        let unknown = || format!("the program declares no `actor native \"{}\"`", class.name());
        let ty = table.ok_or_else(unknown)?.info().ty;
        let made = self.tasks.enter(self.tasks.own_address(), ty, value).ok_or_else(unknown)?;
        Ok(Arc::new(Known(made)))
    }

    fn handle(&self, object: Object) -> Option<Arc<dyn Handle>> {
        let actor = self.tasks.find(native_address(object)?, object.info().ty)?;
        Some(Arc::new(Known(actor)))
    }

    fn after(&self, time: Duration, act: Box<dyn FnOnce() + Send>) -> Box<dyn FnOnce() -> bool + Send> {
        let tasks = self.tasks.clone();
        match tasks.pool().map(|pool| pool.after(time, act)) {
            Some(timer) => Box::new(move || tasks.pool().is_some_and(|pool| pool.cancel(timer))),
            None => Box::new(|| false),
        }
    }

    fn take_answers(&self) -> Option<Box<dyn Answers>> {
        Some(Box::new(self.answers.lock().take()?))
    }
}

/// A native actor that Rust holds.
struct Known(Arc<Served>);

thread_local! {
    /// The actors that the answer under way refers to: they are held until the answer has told its
    /// receiver of them.
    static GIVEN: RefCell<Vec<Arc<Served>>> = const { RefCell::new(Vec::new()) };
}

/// Lets go of the actors that an answer referred to.
fn let_go_of_given() {
    // They are dropped when the list can be used again.
    drop(GIVEN.take());
}

impl Handle for Known {
    fn object(&self, raw: &mut Cx) -> Option<Object> {
        GIVEN.with_borrow_mut(|given| given.push(self.0.clone()));
        far_actor(raw, self.0.ty, self.0.address)
    }
}

/// The right to answer a request later.
struct LateAnswer {
    tasks: Arc<Tasks>,
    from: u32,
    waiter: Option<[u32; 2]>,
    method: MethodRef,
}

impl LateAnswer {
    fn of(tasks: &Arc<Tasks>, invocation: &Invocation) -> Option<LateAnswer> {
        let What::Message(method, _) = invocation.what else { return None };
        let (from, waiter) = (invocation.from, invocation.waiter);
        Some(LateAnswer { tasks: tasks.clone(), from, waiter, method })
    }

    /// Gives the right up: the task answers.
    fn forget(self) {}
}

impl Answers for LateAnswer {
    fn answer(self: Box<Self>, ending: Ending<'_>) {
        self.tasks.end_request(self.from, self.waiter);
        self.tasks.with_later(|cx| {
            let ret = ending(cx, &Frame::of_message(self.method));
            answer_from_task(cx, self.from, self.waiter, self.method, ret);
        });
        let_go_of_given();
        self.tasks.end_work();
    }
}
