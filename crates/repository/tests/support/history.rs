//! Histories of concurrent transactions, and whether they are serializable.
//!
//! Every object is a list, and whoever writes it adds the number of its transaction. So what is read says which
//! transactions had written it before, in which order, and a history needs nothing else to be judged: a transaction depends on
//! those whose numbers it read (wr) and on the writer before it (ww), and whoever read a list depends on being before the
//! next writer (rw). If these go round in a circle, no serial order explains the history (Adya; the list-append checker of
//! Elle). Besides, no list may have a number twice, lose one, or have one of a transaction that failed; and the numbers of
//! commits are such an order: a transaction reads, of every object, the last state written before its own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, RwLock};

use bifrost_repository::{BatchId, Changes, CommitError, Error, ObjectSet, Oref, Repository, Tid};
use bytes::Bytes;

use super::commit_reading;
use super::random::Random;

pub const CLIENTS: usize = 5;
/// Of each client, those that commit.
pub const TRANSACTIONS: usize = 40;
const OBJECTS: usize = 12;

/// The number of a transaction within its history.
type Number = u32;

/// A transaction that committed.
pub struct Done {
    number: Number,
    /// None if only later readers said that it committed.
    tid: Option<Tid>,
    /// Lists read, and their versions; none of an object that was not there.
    reads: BTreeMap<Oref, (Tid, Vec<Number>)>,
    writes: BTreeSet<Oref>,
}

/// What came of the transactions of some clients.
pub struct History {
    committed: Vec<Done>,
    /// Nobody knows what became of them.
    doubtful: Vec<Done>,
    /// Those that were told to have failed.
    failed: BTreeSet<Number>,
    /// The lists at the end.
    last: BTreeMap<Oref, Vec<Number>>,
}

/// A store that may fail, and is opened again then.
pub struct Place<'a> {
    store: RwLock<Option<Arc<dyn Repository + 'a>>>,
    /// What happens before it is dropped, and how it is opened again; none if it goes on by itself.
    again: Option<(Box<dyn Fn() + Send + Sync + 'a>, Opening<'a>)>,
}

type Opening<'a> = Box<dyn Fn() -> Arc<dyn Repository + 'a> + Send + Sync + 'a>;

impl<'a> Place<'a> {
    /// A store that goes on by itself, whatever happens.
    pub fn steady(store: Arc<dyn Repository + 'a>) -> Place<'a> {
        Place { store: RwLock::new(Some(store)), again: None }
    }

    /// A store that is opened by `open`, and after each failure ended by `end` and opened again.
    pub fn failing(end: impl Fn() + Send + Sync + 'a, open: Opening<'a>) -> Place<'a> {
        Place { store: RwLock::new(Some(open())), again: Some((Box::new(end), open)) }
    }

    /// Does something, of which nothing is known if it fails.
    fn with<T>(&self, work: impl FnOnce(&dyn Repository) -> Result<T, Error>) -> Result<T, Error> {
        let guard = self.store.read().unwrap();
        let store: &dyn Repository = &**guard.as_ref().expect("it is open");
        let used = Arc::as_ptr(guard.as_ref().unwrap()).cast::<u8>();
        let result = work(store);
        drop(guard);
        if result.is_err()
            && let Some((end, open)) = &self.again
        {
            let mut guard = self.store.write().unwrap();
            // Unless another client was faster.
            if guard.as_ref().is_some_and(|now| Arc::as_ptr(now).cast::<u8>() == used) {
                end();
                *guard = None;
                *guard = Some(open());
            }
        }
        result
    }

    fn surely<T>(&self, work: impl Fn(&dyn Repository) -> Result<T, Error>) -> T {
        loop {
            if let Ok(value) = self.with(&work) {
                return value;
            }
        }
    }
}

fn list(bytes: &Bytes) -> Vec<Number> {
    bytes.chunks(4).map(|number| u32::from_le_bytes(number.try_into().unwrap())).collect()
}

fn longer(list: &[Number], number: Number) -> Bytes {
    list.iter().chain([&number]).flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>().into()
}

/// Runs clients, spread over the places, which lead to the same store; gives what came of them.
pub fn run(places: &[Place<'_>], seed: u64) -> History {
    let range = places[0].surely(|store| store.allocate(OBJECTS as u32));
    let orefs: Vec<Oref> = range.filter_map(Oref::new).collect();
    let numbers = AtomicU32::new(1);
    let history = Mutex::new(History {
        committed: Vec::new(),
        doubtful: Vec::new(),
        failed: BTreeSet::new(),
        last: BTreeMap::new(),
    });
    std::thread::scope(|scope| {
        for number in 0..CLIENTS {
            let (orefs, numbers, history) = (&orefs, &numbers, &history);
            let place = &places[number % places.len()];
            scope.spawn(move || {
                let mut random = Random::new(seed.wrapping_mul(64) + number as u64);
                // Half of the clients ask for the outcome of what is in doubt.
                let session = random.chance(2).then(|| u128::from(seed) << 64 | number as u128);
                let mut done = 0;
                while done < TRANSACTIONS {
                    let number = numbers.fetch_add(1, Ordering::Relaxed);
                    let batch = session.map(|session| BatchId { session, number: u64::from(number) });
                    let mut begun = None;
                    let result =
                        place.with(|store| transact(store, orefs, &mut random, number, batch, &mut begun));
                    let Some(mut transaction) = begun else { continue };
                    let outcome = match &result {
                        // Its end is in doubt, unless it can be asked for.
                        Err(_) => batch.map(|batch| place.surely(|store| store.outcome(batch)).is_some()),
                        Ok(tid) => Some(tid.is_some()),
                    };
                    transaction.tid = result.ok().flatten();
                    let mut history = history.lock().unwrap();
                    match outcome {
                        Some(true) => {
                            history.committed.push(transaction);
                            done += 1;
                        }
                        Some(false) => _ = history.failed.insert(number),
                        None => history.doubtful.push(transaction),
                    }
                }
            });
        }
    });
    let mut history = history.into_inner().unwrap();
    let states = places[0].surely(|store| store.fetch(&orefs)).states;
    let lists = orefs.iter().zip(states).filter_map(|(oref, state)| Some((*oref, list(&state?.bytes))));
    history.last = lists.collect();
    history
}

/// The objects that a transaction has read.
struct Read<'r>(&'r BTreeMap<Oref, (Tid, Vec<Number>)>);

impl ObjectSet for Read<'_> {
    fn contains(&self, oref: Oref) -> bool {
        self.0.contains_key(&oref)
    }

    fn count(&self) -> usize {
        self.0.len()
    }

    fn each(&self, found: &mut dyn FnMut(Oref)) {
        self.0.keys().copied().for_each(found);
    }
}

/// One transaction; none if others were in the way. What it did is in `begun` if it came to its end.
fn transact(
    store: &dyn Repository,
    orefs: &[Oref],
    random: &mut Random,
    number: Number,
    batch: Option<BatchId>,
    begun: &mut Option<Done>,
) -> Result<Option<Tid>, Error> {
    let mut reads: BTreeMap<Oref, (Tid, Vec<Number>)> = BTreeMap::new();
    let mut valid_to = Tid::NONE;
    for round in 0..1 + random.below(3) {
        // Some together, some one after the other.
        let wanted: Vec<Oref> = (0..1 + random.below(3)).map(|_| orefs[random.below(orefs.len())]).collect();
        let fetched = store.fetch(&wanted)?;
        if round > 0 {
            let Changes::Written { orefs, upto } = store.changes(valid_to, &Read(&reads)) else {
                return Ok(None);
            };
            assert!(upto >= fetched.as_of, "changes are known of what was fetched");
            if !orefs.is_empty() {
                return Ok(None);
            }
        }
        for (oref, state) in wanted.iter().zip(fetched.states) {
            let read = state.map_or((Tid::NONE, Vec::new()), |state| (state.tid, list(&state.bytes)));
            reads.insert(*oref, read);
        }
        valid_to = fetched.as_of;
        if random.chance(4) {
            std::thread::yield_now();
        }
    }
    let (mut writes, mut creates) = (Vec::new(), Vec::new());
    for (oref, (tid, list)) in &reads {
        match (random.below(3), *tid) {
            (0, Tid::NONE) => creates.push((*oref, longer(list, number))),
            (0, _) => writes.push((*oref, longer(list, number))),
            _ => {}
        }
    }
    let written = writes.iter().chain(&creates).map(|(oref, _)| *oref).collect();
    let all: Vec<Oref> = reads.keys().copied().collect();
    *begun = Some(Done { number, tid: None, reads, writes: written });
    let batch = batch.map(|batch| (batch, Bytes::from_static(b"done")));
    match commit_reading(store, valid_to, &all, writes, creates, batch) {
        Ok(tid) => Ok(Some(tid)),
        Err(CommitError::Conflict { .. } | CommitError::TooOld { .. }) => Ok(None),
        Err(CommitError::Store(error)) => Err(error),
        Err(other) => panic!("{other}"),
    }
}

impl History {
    /// How many transactions committed, and how many nobody knows about.
    pub fn counts(&self) -> (usize, usize) {
        (self.committed.len(), self.doubtful.len())
    }

    /// What no serial order explains, if there is such a thing.
    pub fn anomaly(&self) -> Option<String> {
        self.wrong_list().or_else(|| self.circle()).or_else(|| self.wrong_order())
    }

    /// Those of the doubtful whose number somebody saw.
    fn all(&self) -> impl Iterator<Item = &Done> {
        let seen = |done: &&Done| self.last.values().any(|list| list.contains(&done.number));
        self.committed.iter().chain(self.doubtful.iter().filter(seen))
    }

    fn wrong_list(&self) -> Option<String> {
        for (oref, last) in &self.last {
            let each: BTreeSet<&Number> = last.iter().collect();
            if each.len() != last.len() {
                return Some(format!("{oref:?} has a number twice: {last:?}"));
            }
            if let Some(number) = last.iter().find(|number| self.failed.contains(number)) {
                return Some(format!("{oref:?} has {number}, which failed"));
            }
        }
        let none = Vec::new();
        for done in self.all() {
            for (oref, (_, read)) in &done.reads {
                let last = self.last.get(oref).unwrap_or(&none);
                if !last.starts_with(read) {
                    return Some(format!("{} read {read:?} of {oref:?}, which became {last:?}", done.number));
                }
            }
            for oref in &done.writes {
                if !self.last.get(oref).unwrap_or(&none).contains(&done.number) {
                    return Some(format!("what {} wrote to {oref:?} is lost", done.number));
                }
            }
        }
        None
    }

    /// Transactions that depend on each other in a circle.
    fn circle(&self) -> Option<String> {
        let mut after: BTreeMap<Number, BTreeSet<Number>> = BTreeMap::new();
        let mut edge = |from: Number, to: Number| {
            if from != to {
                after.entry(from).or_default().insert(to);
            }
        };
        let none = Vec::new();
        for list in self.last.values() {
            list.windows(2).for_each(|pair| edge(pair[0], pair[1]));
        }
        for done in self.all() {
            for (oref, (_, read)) in &done.reads {
                read.last().into_iter().for_each(|writer| edge(*writer, done.number));
                let next = self.last.get(oref).unwrap_or(&none).get(read.len());
                next.into_iter().for_each(|writer| edge(done.number, *writer));
            }
        }
        let mut before: BTreeMap<Number, usize> = self.all().map(|done| (done.number, 0)).collect();
        after.values().flatten().for_each(|number| *before.entry(*number).or_default() += 1);
        let mut free: Vec<Number> =
            before.iter().filter(|(_, count)| **count == 0).map(|(n, _)| *n).collect();
        while let Some(number) = free.pop() {
            before.remove(&number);
            for next in after.get(&number).into_iter().flatten() {
                if let Some(count) = before.get_mut(next) {
                    *count -= 1;
                    if *count == 0 {
                        free.push(*next);
                    }
                }
            }
        }
        let left: Vec<&Number> = before.keys().collect();
        (!left.is_empty()).then(|| format!("these depend on each other in a circle, or on one: {left:?}"))
    }

    /// Where the numbers of commits are no serial order; only if all are known.
    fn wrong_order(&self) -> Option<String> {
        let mut versions: BTreeMap<Oref, BTreeSet<Tid>> = BTreeMap::new();
        for done in self.all() {
            let tid = done.tid?;
            for oref in &done.writes {
                if !versions.entry(*oref).or_default().insert(tid) {
                    return Some(format!("two commits have number {tid}"));
                }
            }
        }
        for done in self.all() {
            for (oref, (read, _)) in &done.reads {
                // One that wrote comes after all commits below its number, one that only read after that commit.
                let tid = done.tid?;
                let before = if done.writes.is_empty() { Tid(tid.0 + 1) } else { tid };
                let last = versions.get(oref).and_then(|tids| tids.range(..before).next_back());
                let last = last.copied().unwrap_or(Tid::NONE);
                if last != *read {
                    return Some(format!("{tid} read {oref:?} of {read}, but {last} wrote it last"));
                }
            }
        }
        None
    }
}
