//! A store on a disk that fails, and a model of what it must have.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use bifrost_repository::embedded::{Options, open_on};
use bifrost_repository::record::{ClassDescriptor, Kind, walk_refs};
use bifrost_repository::store::{Base, Installing, Journal, Store};
use bifrost_repository::{BatchId, ClassNumber, CommitError, Error, Oref, Repository, Tid, go_on, store};
use bytes::Bytes;

use super::disk::{Fault, Sim, Tear};
use super::random::Random;
use super::{commit_reading, directory, links, links_class, oref};

/// What a store must have: a plain map is the oracle.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    pub head: Tid,
    pub objects: BTreeMap<Oref, (Tid, Bytes)>,
    pub classes: Vec<ClassDescriptor>,
    pub replies: BTreeMap<u128, (u64, Bytes)>,
}

impl Model {
    pub fn new() -> Model {
        let root = directory(ClassNumber::DIRECTORY, &[]);
        Model {
            head: Tid(1),
            objects: BTreeMap::from([(Oref::ROOT, (Tid(1), root))]),
            classes: vec![ClassDescriptor::directory()],
            replies: BTreeMap::new(),
        }
    }

    /// What the store has.
    pub fn of(store: &dyn Repository, sessions: impl Iterator<Item = BatchId>) -> Result<Model, Error> {
        let mut objects = BTreeMap::new();
        let mut from = Oref::ROOT;
        loop {
            let chunk = store.scan(from, 50)?;
            let Some((last, _)) = chunk.last() else { break };
            from = oref(last.get() + 1);
            objects.extend(chunk.into_iter().map(|(oref, stored)| (oref, (stored.tid, stored.bytes))));
        }
        let mut replies = BTreeMap::new();
        for batch in sessions {
            if let Some(reply) = store.outcome(batch)? {
                replies.insert(batch.session, (batch.number, reply));
            }
        }
        let classes = store.classes().iter().map(|class| (**class).clone()).collect();
        Ok(Model { head: store.head(), objects, classes, replies })
    }

    /// It after a collection with no holders.
    fn collected(&self) -> Model {
        let mut reached = BTreeSet::new();
        let mut next = vec![Oref::ROOT];
        while let Some(at) = next.pop() {
            if reached.insert(at) {
                let (_, bytes) = &self.objects[&at];
                walk_refs(bytes, &self.classes[..], |target| next.push(target)).unwrap();
            }
        }
        let mut collected = self.clone();
        collected.objects.retain(|oref, _| reached.contains(oref));
        collected
    }

    fn committed(&self, states: &[(Oref, Bytes)], batch: &Option<(BatchId, Bytes)>) -> Model {
        let mut model = self.clone();
        model.head.0 += 1;
        for (oref, bytes) in states {
            model.objects.insert(*oref, (model.head, bytes.clone()));
        }
        if let Some((batch, reply)) = batch {
            model.replies.insert(batch.session, (batch.number, reply.clone()));
        }
        model
    }
}

/// Small halves of the log, so that everything happens often.
pub fn options() -> Options {
    let store =
        store::Options { log_bytes: 64 << 10, installing: Installing::Later, ..store::Options::default() };
    Options { store, cache_bytes: 1 << 20, log_step_bytes: 16 << 10 }
}

/// What a disk must have, what it may have instead, and the orefs that were given.
#[derive(Clone)]
pub struct Told {
    pub model: Model,
    pub doubt: Option<Model>,
    pub given: u64,
}

/// An engine without a thread of its own.
pub trait Engine: Repository {
    fn install(&self) -> Result<(), Error>;
    fn install_all(&self) -> Result<(), Error>;
}

impl<B: Base, J: Journal> Engine for Store<B, J> {
    fn install(&self) -> Result<(), Error> {
        Store::install(self)
    }

    fn install_all(&self) -> Result<(), Error> {
        Store::install_all(self)
    }
}

/// How an engine is opened on a disk.
pub type Opening = fn(&Sim) -> Result<Box<dyn Engine>, Error>;

/// The engine that is tested.
pub fn open(sim: &Sim) -> Result<Box<dyn Engine>, Error> {
    Ok(Box::new(open_on(sim, [7; 32], &options())?))
}

/// A store, what it must have, and what it may have instead.
pub struct Life {
    pub sim: Sim,
    pub open: Opening,
    pub store: Option<Box<dyn Engine>>,
    pub model: Model,
    /// What the store has if the last commit, whose end is in doubt, was done.
    pub doubt: Option<Model>,
    /// No oref below it may be given again.
    pub given: u64,
    pub random: Random,
    batches: u64,
    /// Where it is told what the disk must have, for who looks at the disk in the middle of a step.
    pub told: Option<Arc<Mutex<Told>>>,
    /// Acknowledged commits, and powers lost.
    pub acknowledged: u64,
    pub losses: u64,
}

impl Life {
    pub fn new(sim: Sim, seed: u64) -> Life {
        Life {
            sim,
            open,
            store: None,
            model: Model::new(),
            doubt: None,
            given: 2,
            random: Random::new(seed),
            batches: 0,
            told: None,
            acknowledged: 0,
            losses: 0,
        }
    }

    /// A life that is to find on a disk what was told.
    pub fn of(told: Told, sim: Sim) -> Life {
        Life { model: told.model, doubt: told.doubt, given: told.given, ..Life::new(sim, 0) }
    }

    /// Does what has `next` as its result, if it succeeds.
    fn attempt<T>(&mut self, next: &Model, work: impl FnOnce(&dyn Engine) -> T) -> T {
        self.doubt = Some(next.clone());
        self.tell();
        let result = work(self.store());
        self.doubt = None;
        result
    }

    fn tell(&self) {
        if let Some(told) = &self.told {
            let (model, doubt) = (self.model.clone(), self.doubt.clone());
            *told.lock().unwrap() = Told { model, doubt, given: self.given };
        }
    }

    pub fn store(&self) -> &dyn Engine {
        self.store.as_deref().expect("it is open")
    }

    /// Whatever may be asked for again.
    fn sessions(&self) -> impl Iterator<Item = BatchId> {
        let doubt = self.doubt.iter().flat_map(|model| &model.replies);
        let known = self.model.replies.iter().chain(doubt);
        let batches = known.map(|(session, (number, _))| BatchId { session: *session, number: *number });
        batches.collect::<BTreeSet<_>>().into_iter()
    }

    /// What is wrong with an open store, if anything; settles the doubt.
    pub fn examine(&mut self, store: &dyn Engine) -> Result<(), String> {
        let found = self.found(store).map_err(|error| error.to_string())?;
        match self.doubt.take() {
            Some(doubt) if found == doubt => self.model = doubt,
            doubt if found != self.model => {
                return Err(format!("found {found:?}\nwanted {:?}\nor {doubt:?}", self.model));
            }
            _ => {}
        }
        let info = store.info().map_err(|error| error.to_string())?;
        if info.objects != self.model.objects.len() as u64 {
            return Err(format!("{info:?}, but there are {} objects", self.model.objects.len()));
        }
        if info.next_oref < self.given {
            return Err(format!("{} would be given again", info.next_oref));
        }
        let report = store.check(&mut |_| {}).map_err(|error| error.to_string())?;
        if report.mistakes.is_empty() { Ok(()) } else { Err(format!("{:?}", report.mistakes)) }
    }

    fn found(&self, store: &dyn Engine) -> Result<Model, Error> {
        let known: BTreeMap<u128, BatchId> = self.sessions().map(|batch| (batch.session, batch)).collect();
        // Of a session whose last batch is in doubt, one of two is kept.
        let mut found = Model::of(store, std::iter::empty())?;
        for session in known.keys() {
            for batch in self.sessions().filter(|batch| batch.session == *session) {
                match store.outcome(batch) {
                    Ok(Some(reply)) => _ = found.replies.insert(*session, (batch.number, reply)),
                    Ok(None) | Err(Error::Forgotten { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(found)
    }

    /// Opens the store, however often that fails too, and examines it.
    pub fn recover(&mut self) -> Result<(), String> {
        for again in 0.. {
            let disturbed = again < 3 && self.random.chance(4);
            if disturbed {
                match self.random.below(3) {
                    0 => self.sim.fail_one_in(20, &Fault::ALL),
                    _ => self.sim.cut_power_in(self.random.below(40) as u64),
                }
            }
            let opened = (self.open)(&self.sim);
            match opened {
                Ok(store) => {
                    self.sim.heal();
                    self.examine(&*store)?;
                    self.store = Some(store);
                    return Ok(());
                }
                Err(error) if !disturbed => return Err(format!("opening failed: {error}")),
                Err(_) => {
                    let kind = self.random.below(4);
                    self.end(kind > 0);
                }
            }
        }
        unreachable!("the loop ends")
    }

    /// The process ends where it is, with the power or alone.
    pub fn end(&mut self, with_the_power: bool) {
        self.sim.cut_power_in(0);
        // A redb that is dropped writes; one that is killed does not.
        self.store = None;
        if with_the_power {
            self.losses += 1;
            self.sim.lose_power(Tear::ALL[self.random.below(4)]);
        } else {
            self.sim.heal();
        }
    }

    /// Does something; false if the store does not go on.
    pub fn step(&mut self) -> Result<bool, String> {
        self.tell();
        match self.random.below(40) {
            0 | 1 => self.collect(),
            2 => self.define(),
            3 | 4 => Ok(self.store().install().is_ok()),
            5 => {
                let installed = self.store().install_all().is_ok();
                if installed && self.random.chance(2) {
                    self.store = None;
                    let opened = (self.open)(&self.sim);
                    let Ok(store) = opened else { return Ok(false) };
                    self.store = Some(store);
                }
                Ok(installed)
            }
            6 => self.conflict(),
            _ => self.commit(),
        }
    }

    /// Whether the store goes on after that, and what may have become of `next`.
    fn settle(&mut self, error: &Error, next: Model) -> Result<bool, String> {
        match error {
            Error::NoRoom { .. } => Ok(true),
            Error::InDoubt { .. } => {
                self.doubt = Some(next);
                Ok(false)
            }
            Error::ReadOnly { .. } | Error::Io { .. } => Ok(false),
            other => Err(other.to_string()),
        }
    }

    fn collect(&mut self) -> Result<bool, String> {
        let next = self.model.collected();
        match self.attempt(&next, |store| store.collect(&mut go_on)) {
            Ok(collected) => {
                let gone = self.model.objects.len() - next.objects.len();
                self.model = next;
                if collected.freed == gone as u64 {
                    Ok(true)
                } else {
                    Err(format!("{collected:?}, but {gone} should go"))
                }
            }
            Err(error) => self.settle(&error, next),
        }
    }

    fn define(&mut self) -> Result<bool, String> {
        let version = self.random.below(20) as u32 + 1;
        let class = match self.random.chance(3) {
            true => ClassDescriptor { version, ..links_class() },
            false => ClassDescriptor { version, kind: Kind::Native, ..links_class() },
        };
        let mut next = self.model.clone();
        if !next.classes.contains(&class) {
            next.classes.push(class.clone());
        }
        match self.attempt(&next, |store| store.define_class(&class)) {
            Ok(number) => {
                self.model = next;
                let known = self.model.classes.get(number.0 as usize - 1) == Some(&class);
                if known { Ok(true) } else { Err(format!("{number} is not the class")) }
            }
            Err(error) => self.settle(&error, next),
        }
    }

    /// A transaction that must not commit.
    fn conflict(&mut self) -> Result<bool, String> {
        let head = self.model.head;
        let (oref, (tid, bytes)) = self.model.objects.iter().next_back().expect("there is the root");
        let writes = vec![(*oref, bytes.clone())];
        match commit_reading(self.store(), Tid(tid.0 - 1), &[], writes, vec![], None) {
            Err(CommitError::Conflict { upto, .. } | CommitError::TooOld { upto }) if upto == head => {
                Ok(true)
            }
            Err(CommitError::Store(Error::ReadOnly { .. } | Error::Io { .. })) => Ok(false),
            other => Err(format!("{other:?}")),
        }
    }

    fn commit(&mut self) -> Result<bool, String> {
        let Some(class) = self.model.classes.iter().position(|class| *class == links_class()) else {
            let mut next = self.model.clone();
            next.classes.push(links_class());
            return match self.attempt(&next, |store| store.define_class(&links_class())) {
                Ok(_) => {
                    self.model = next;
                    Ok(true)
                }
                Err(error) => self.settle(&error, next),
            };
        };
        let class = ClassNumber(class as u32 + 1);
        let room = self.model.objects.len() < 60;
        let fresh = if room { self.random.below(4) as u32 } else { 0 };
        self.tell();
        let fresh = match self.store().allocate(fresh) {
            Ok(range) if range.start < self.given => {
                return Err(format!("{range:?} is given again, after {}", self.given));
            }
            Ok(range) => range,
            // Nothing that is seen hangs on it.
            Err(error) => {
                let same = self.model.clone();
                return self.settle(&error, same);
            }
        };
        self.given = fresh.end;
        let fresh: Vec<Oref> = fresh.map(oref).collect();
        let mut known: Vec<Oref> = self.model.objects.keys().copied().collect();
        let mut writes = BTreeMap::new();
        let old = known.clone();
        known.extend(&fresh);
        for _ in 0..self.random.below(4) {
            let at = old[self.random.below(old.len())];
            writes.insert(at, self.state(at, class, &known));
        }
        let creates: Vec<_> = fresh.iter().map(|oref| (*oref, self.state(*oref, class, &known))).collect();
        let writes: Vec<_> = writes.into_iter().collect();
        let batch = self.random.chance(3).then(|| {
            self.batches += 1;
            let session = self.random.below(3) as u128;
            (BatchId { session, number: self.batches }, format!("reply {}", self.batches).into())
        });
        if writes.is_empty() && creates.is_empty() && batch.is_none() {
            return Ok(true);
        }
        let states: Vec<_> = writes.iter().chain(&creates).cloned().collect();
        let next = self.model.committed(&states, &batch);
        let head = self.model.head;
        let result = self.attempt(&next, |store| commit_reading(store, head, &[], writes, creates, batch));
        match result {
            Ok(tid) if tid == next.head => {
                self.model = next;
                self.acknowledged += 1;
                Ok(true)
            }
            Ok(tid) => Err(format!("commit {tid} instead of {}", next.head)),
            Err(CommitError::Store(error)) => self.settle(&error, next),
            Err(other) => Err(other.to_string()),
        }
    }

    fn state(&mut self, at: Oref, class: ClassNumber, known: &[Oref]) -> Bytes {
        let mut targets: Vec<Oref> = Vec::new();
        for _ in 0..self.random.below(4) {
            // References say the class of their target, which for the root is another one.
            targets.push(known[self.random.below(known.len())]);
        }
        targets.retain(|target| *target != Oref::ROOT);
        if at == Oref::ROOT {
            let entries: Vec<_> = targets.iter().map(|target| ("entry", *target)).collect();
            return directory(class, &entries);
        }
        let filling = match self.random.below(8) {
            0 => self.random.below(9000),
            _ => self.random.below(300),
        };
        links(class, self.random.next() as i64, filling, &targets)
    }
}

/// A life: works, loses its power or its process or parts of its disk, recovers, and so on. Says
/// what is wrong.
pub fn live(seed: u64, sim: Sim, open: Opening) -> Result<Life, String> {
    let mut life = Life::new(sim, seed);
    life.open = open;
    // The disk may fail while the store is made.
    life.recover()?;
    for _ in 0..12 {
        match life.random.below(8) {
            0 => life.sim.fail_one_in(60, &Fault::ALL),
            1 => life.sim.fail_one_in(8, &[Fault::Full]),
            _ => life.sim.cut_power_in(life.random.below(100) as u64),
        }
        let mut steps = 0;
        while steps < 60 && life.step()? {
            steps += 1;
        }
        let with_the_power = !life.random.chance(5);
        life.end(with_the_power);
        life.recover()?;
    }
    Ok(life)
}
