//! Actors of kameo, with mailboxes without bounds where nobody else bounds the messages.

use std::cell::RefCell;
use std::collections::VecDeque;

use kameo::Actor;
use kameo::actor::{ActorRef, Spawn};
use kameo::mailbox;
use kameo::message::{Context, Message};
use kameo::reply::{DelegatedReply, ReplySender};
use tokio::runtime::{Builder, Runtime};

use crate::work::{Queens, area, parts};

/// Runs a case on a runtime of its own.
pub fn runner(case: &str, threads: usize) -> Box<dyn Fn(i64) -> Option<i64>> {
    let runtime: Runtime = match threads {
        1 => Builder::new_current_thread().build(),
        threads => Builder::new_multi_thread().worker_threads(threads).build(),
    }
    .expect("a runtime");
    let case = case.to_owned();
    let kept = RefCell::new(Vec::new());
    Box::new(move |n| {
        runtime.block_on(async {
            Some(match &*case {
                "send" | "send-known" | "remote" => send(n).await,
                "queue" => queue(n).await,
                "request" | "remote-request" => request(n).await,
                "suspend" => suspend(n).await,
                "create" => create(n).await,
                "idle" => {
                    let last = idle(n).await;
                    kept.borrow_mut().push(last.clone());
                    last.ask(Value).await.expect(ANSWER)
                }
                // An actor of its own begins, so that the work is on the runtime's threads.
                "fib" => spawn(Fib).ask(Call(n)).await.expect(ANSWER),
                "queens12" | "queens13" => spawn(Queen).ask(Place(Queens::none(n))).await.expect(ANSWER),
                "quadrature" => quadrature(n).await,
                _ => return None,
            })
        })
    })
}

const ANSWER: &str = "an answer";

fn spawn<A: Actor<Args = A>>(actor: A) -> ActorRef<A> {
    A::spawn_with_mailbox(actor, mailbox::unbounded())
}

#[derive(Actor)]
struct Counter {
    sum: i64,
    source: Option<ActorRef<Source>>,
}

struct Add(i64);
struct AddAndTell(i64);
struct Value;
struct AskForFlood(i64);

impl Message<Add> for Counter {
    type Reply = ();
    async fn handle(&mut self, Add(by): Add, _: &mut Context<Self, ()>) {
        self.sum += by;
    }
}

impl Message<AddAndTell> for Counter {
    type Reply = i64;
    async fn handle(&mut self, AddAndTell(by): AddAndTell, _: &mut Context<Self, i64>) -> i64 {
        self.sum += by;
        self.sum
    }
}

impl Message<Value> for Counter {
    type Reply = i64;
    async fn handle(&mut self, _: Value, _: &mut Context<Self, i64>) -> i64 {
        self.sum
    }
}

impl Message<AskForFlood> for Counter {
    type Reply = ();
    async fn handle(&mut self, AskForFlood(count): AskForFlood, context: &mut Context<Self, ()>) {
        let flood = Flood(context.actor_ref().clone(), count);
        self.source.as_ref().expect("a source").ask(flood).await.expect(ANSWER);
    }
}

#[derive(Actor)]
struct Source;

struct Flood(ActorRef<Counter>, i64);

impl Message<Flood> for Source {
    type Reply = ();
    async fn handle(&mut self, Flood(counter, count): Flood, _: &mut Context<Self, ()>) {
        for i in 1..=count {
            counter.tell(Add(i & 7)).await.expect("a receiver");
        }
    }
}

async fn send(n: i64) -> i64 {
    let counter = spawn(Counter { sum: 0, source: None });
    for i in 1..=n {
        counter.tell(Add(i & 7)).await.expect("a receiver");
    }
    counter.ask(Value).await.expect(ANSWER)
}

async fn queue(n: i64) -> i64 {
    let counter = spawn(Counter { sum: 0, source: Some(spawn(Source)) });
    let mut sum = 0;
    for _ in 0..n / 1000 {
        counter.ask(AskForFlood(1000)).await.expect(ANSWER);
        sum = counter.ask(Value).await.expect(ANSWER);
    }
    sum
}

async fn request(n: i64) -> i64 {
    let counter = spawn(Counter { sum: 0, source: None });
    let mut last = 0;
    for i in 1..=n {
        last = counter.ask(AddAndTell((last + i) & 7)).await.expect(ANSWER);
    }
    last
}

#[derive(Actor, Default)]
struct Holder {
    held: VecDeque<ReplySender<i64>>,
    early: VecDeque<i64>,
}

struct Take;
struct Give(i64);

impl Message<Take> for Holder {
    type Reply = DelegatedReply<i64>;
    async fn handle(&mut self, _: Take, context: &mut Context<Self, Self::Reply>) -> Self::Reply {
        let (reply, sender) = context.reply_sender();
        if let Some(sender) = sender {
            match self.early.pop_front() {
                Some(v) => sender.send(v),
                None => self.held.push_back(sender),
            }
        }
        reply
    }
}

impl Message<Give> for Holder {
    type Reply = ();
    async fn handle(&mut self, Give(v): Give, _: &mut Context<Self, ()>) {
        match self.held.pop_front() {
            Some(sender) => sender.send(v),
            None => self.early.push_back(v),
        }
    }
}

#[derive(Actor)]
struct Asker {
    sum: i64,
    holder: ActorRef<Holder>,
}

struct Ask;

impl Message<Ask> for Asker {
    type Reply = ();
    async fn handle(&mut self, _: Ask, _: &mut Context<Self, ()>) {
        self.sum += self.holder.ask(Take).await.expect(ANSWER);
    }
}

impl Message<Value> for Asker {
    type Reply = i64;
    async fn handle(&mut self, _: Value, _: &mut Context<Self, i64>) -> i64 {
        self.sum
    }
}

async fn suspend(n: i64) -> i64 {
    let holder = spawn(Holder::default());
    let asker = spawn(Asker { sum: 0, holder: holder.clone() });
    let mut sum = 0;
    for i in 1..=n {
        asker.tell(Ask).await.expect("a receiver");
        holder.tell(Give(i & 7)).await.expect("a receiver");
        sum = asker.ask(Value).await.expect(ANSWER);
    }
    sum
}

#[derive(Actor)]
struct Cell {
    _before: Option<ActorRef<Cell>>,
    first: i64,
    second: i64,
}

impl Message<Value> for Cell {
    type Reply = i64;
    async fn handle(&mut self, _: Value, _: &mut Context<Self, i64>) -> i64 {
        self.first + self.second
    }
}

/// So many actors are made before those that nobody keeps can end.
const MADE_AT_ONCE: i64 = 1000;

async fn create(n: i64) -> i64 {
    let cell = |i| spawn(Cell { _before: None, first: i, second: i + 1 });
    let mut last = cell(0);
    for i in 1..=n {
        last = cell(i);
        if i % MADE_AT_ONCE == 0 {
            tokio::task::yield_now().await;
        }
    }
    last.ask(Value).await.expect(ANSWER)
}

async fn idle(n: i64) -> ActorRef<Cell> {
    let mut last = None;
    for i in 1..=n {
        last = Some(spawn(Cell { _before: last, first: 0, second: i }));
        if i % MADE_AT_ONCE == 0 {
            tokio::task::yield_now().await;
        }
    }
    last.expect("at least one")
}

#[derive(Actor)]
struct Fib;

struct Call(i64);

impl Message<Call> for Fib {
    type Reply = i64;
    async fn handle(&mut self, Call(n): Call, _: &mut Context<Self, i64>) -> i64 {
        if n < 2 {
            return n;
        }
        let (one, two) = (spawn(Fib), spawn(Fib));
        let one = one.ask(Call(n - 1)).enqueue().await.expect("a receiver");
        let two = two.ask(Call(n - 2)).enqueue().await.expect("a receiver");
        one.await.expect(ANSWER) + two.await.expect(ANSWER)
    }
}

#[derive(Actor)]
struct Queen;

struct Place(Queens);

impl Message<Place> for Queen {
    type Reply = i64;
    async fn handle(&mut self, Place(board): Place, _: &mut Context<Self, i64>) -> i64 {
        let mut ways = Vec::new();
        let mut sols = board.place(|way| ways.push(way));
        let mut pending = Vec::with_capacity(ways.len());
        for way in ways {
            pending.push(spawn(Queen).ask(Place(way)).enqueue().await.expect("a receiver"));
        }
        for answer in pending {
            sols += answer.await.expect(ANSWER);
        }
        sols
    }
}

#[derive(Actor)]
struct Worker;

struct Area {
    a: f64,
    b: f64,
    often: f64,
    bound: f64,
}

impl Message<Area> for Worker {
    type Reply = f64;
    async fn handle(&mut self, asked: Area, _: &mut Context<Self, f64>) -> f64 {
        let Area { a, b, often, bound } = asked;
        match area(a, b, often, bound) {
            Ok(area) => area,
            Err(m) => {
                let bound = bound / 2.0;
                let right = spawn(Worker).ask(Area { a: m, b, often, bound }).enqueue().await.expect("a receiver");
                let left = spawn(Worker).ask(Area { a, b: m, often, bound }).enqueue().await.expect("a receiver");
                left.await.expect(ANSWER) + right.await.expect(ANSWER)
            }
        }
    }
}

async fn quadrature(n: i64) -> i64 {
    let (parts, often) = parts(n);
    let mut pending = Vec::new();
    for (a, b) in parts {
        pending.push(spawn(Worker).ask(Area { a, b, often, bound: 0.01 }).enqueue().await.expect("a receiver"));
    }
    let mut total = 0.0;
    for answer in pending {
        total += answer.await.expect(ANSWER);
    }
    total.round() as i64
}
