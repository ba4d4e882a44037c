//! Histories of concurrent transactions, and whether they are serializable.
//!
//! Commits are numbered, so the serial order is given: a transaction reads, of every object, the last state written
//! before its own number. That is all there is to check, and it is strict: nothing is searched for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use bifrost_repository::{Changes, CommitError, Oref, Repository, Tid};
use bytes::Bytes;

use super::random::Random;
use super::{commit_reading, fresh, put};

pub const CLIENTS: usize = 5;
pub const TRANSACTIONS: usize = 200;
const OBJECTS: usize = 12;

/// A transaction that committed.
pub struct Done {
    tid: Tid,
    /// Versions read; none of an object that was not there.
    reads: BTreeMap<Oref, Tid>,
    writes: BTreeSet<Oref>,
}

/// How clients take part.
#[derive(Clone, Copy, PartialEq)]
pub enum Client {
    /// By the rule of the cache.
    Careful,
    /// As if everything read were current at the end: a planted bug.
    Careless,
}

/// Runs clients against a store that has nothing but its root; gives what committed.
pub fn run(store: &dyn Repository, seed: u64, client: Client) -> Vec<Done> {
    let orefs = fresh(store, OBJECTS as u32);
    // Half of the objects are made by the clients.
    let first = orefs[..OBJECTS / 2].iter();
    put(store, vec![], first.map(|oref| (*oref, Bytes::from_static(b"0"))).collect());
    let history = Mutex::new(vec![Done {
        tid: store.head(),
        reads: BTreeMap::new(),
        writes: orefs[..OBJECTS / 2].iter().copied().collect(),
    }]);
    std::thread::scope(|scope| {
        for number in 0..CLIENTS {
            let (orefs, history) = (&orefs, &history);
            scope.spawn(move || {
                let mut random = Random::new(seed.wrapping_mul(64) + number as u64);
                let mut done = 0;
                while done < TRANSACTIONS {
                    if let Some(transaction) = transact(store, orefs, &mut random, client) {
                        history.lock().unwrap().push(transaction);
                        done += 1;
                    }
                }
            });
        }
    });
    history.into_inner().unwrap()
}

/// One transaction; none if it must be run again.
fn transact(store: &dyn Repository, orefs: &[Oref], random: &mut Random, client: Client) -> Option<Done> {
    let mut reads: BTreeMap<Oref, Tid> = BTreeMap::new();
    let mut valid_to = None;
    for _ in 0..1 + random.below(3) {
        // Some together, some one after the other.
        let wanted: Vec<Oref> = (0..1 + random.below(3)).map(|_| orefs[random.below(orefs.len())]).collect();
        let fetched = store.fetch(&wanted).unwrap();
        if let Some(from) = valid_to
            && client == Client::Careful
        {
            let Changes::Written { orefs, upto } = store.changes(from) else { return None };
            assert!(upto >= fetched.as_of, "changes are known of what was fetched");
            if orefs.iter().any(|oref| reads.contains_key(oref)) {
                return None;
            }
        }
        for (oref, state) in wanted.iter().zip(fetched.states) {
            reads.insert(*oref, state.map_or(Tid::NONE, |state| state.tid));
        }
        valid_to = Some(fetched.as_of);
        if random.chance(4) {
            std::thread::yield_now();
        }
    }
    let valid_to = match client {
        Client::Careful => valid_to?,
        Client::Careless => store.head(),
    };
    let (mut writes, mut creates) = (Vec::new(), Vec::new());
    for (oref, tid) in &reads {
        match (random.below(3), *tid) {
            (0, Tid::NONE) => creates.push((*oref, Bytes::from_static(b"new"))),
            (0, _) => writes.push((*oref, Bytes::from_static(b"written"))),
            _ => {}
        }
    }
    let written = writes.iter().chain(&creates).map(|(oref, _)| *oref).collect();
    let all: Vec<Oref> = reads.keys().copied().collect();
    match commit_reading(store, valid_to, &all, writes, creates, None) {
        Ok(tid) => Some(Done { tid, reads, writes: written }),
        Err(CommitError::Conflict { .. } | CommitError::TooOld { .. }) => None,
        Err(other) => panic!("{other}"),
    }
}

/// The first transaction that did not read what was there before it, if one did not.
pub fn anomaly(history: &[Done]) -> Option<String> {
    let mut versions: BTreeMap<Oref, BTreeSet<Tid>> = BTreeMap::new();
    for done in history.iter().filter(|done| !done.writes.is_empty()) {
        for oref in &done.writes {
            if !versions.entry(*oref).or_default().insert(done.tid) {
                return Some(format!("two commits have number {}", done.tid));
            }
        }
    }
    for done in history {
        for (oref, read) in &done.reads {
            // One that wrote comes after all commits below its number, one that only read after that commit.
            let before = if done.writes.is_empty() { Tid(done.tid.0 + 1) } else { done.tid };
            let last = versions.get(oref).and_then(|tids| tids.range(..before).next_back());
            let last = last.copied().unwrap_or(Tid::NONE);
            if last != *read {
                return Some(format!("{} read {oref:?} of {read}, but {last} wrote it last", done.tid));
            }
        }
    }
    None
}
