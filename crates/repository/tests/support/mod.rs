//! What tests of engines share: objects that are lists of references, and the suite that every engine passes.
#![allow(dead_code, reason = "each test binary uses a part")]

pub mod barriers;
pub mod bodies;
pub mod careless;
pub mod cluster;
pub mod disk;
pub mod gate;
pub mod history;
pub mod life;
pub mod planted;
pub mod proxy;
#[path = "../../../session/tests/support/random.rs"]
pub mod random;
pub mod rot;
pub mod suite;
pub mod watches;

use std::collections::BTreeSet;

use bifrost_repository::record::{ClassDescriptor, FieldKind, Kind, Reference, Writer};
use bifrost_repository::{
    AllObjects, BatchId, Changes, ClassNumber, Commit, CommitError, Mistake, Oref, Repository, Stored, Tid,
};
use bytes::Bytes;

pub fn oref(number: u64) -> Oref {
    Oref::new(number).unwrap()
}

/// The class of objects in tests: an array of references.
pub fn links_class() -> ClassDescriptor {
    ClassDescriptor {
        name: "links".into(),
        version: 1,
        kind: Kind::Array(FieldKind::Ref),
        supertypes: vec![],
        specification: "links = type ... end".into(),
    }
}

/// An object of class `class` that refers to `targets`, and has a number and bytes to tell states apart.
pub fn links(class: ClassNumber, number: i64, filling: usize, targets: &[Oref]) -> Bytes {
    let mut out = Vec::new();
    let mut to = Writer::new(&mut out, class);
    to.int(number);
    to.count(targets.len() as u64 + 1);
    let filling: Vec<u8> = (0..filling).map(|i| (i as i64 ^ number) as u8).collect();
    to.reference(Reference::Bytes(&filling));
    targets.iter().for_each(|oref| to.reference(Reference::Object { oref: *oref, class, length: None }));
    out.into()
}

/// The root directory with these entries.
pub fn directory(class: ClassNumber, entries: &[(&str, Oref)]) -> Bytes {
    let mut out = Vec::new();
    let mut to = Writer::new(&mut out, ClassNumber::DIRECTORY);
    to.count(entries.len() as u64);
    for (name, oref) in entries {
        to.str(name);
        to.reference(Reference::Object { oref: *oref, class, length: None });
    }
    out.into()
}

/// A commit that read what it wrote and `reads`.
pub fn commit_reading(
    store: &dyn Repository,
    valid_to: Tid,
    reads: &[Oref],
    writes: Vec<(Oref, Bytes)>,
    creates: Vec<(Oref, Bytes)>,
    batch: Option<(BatchId, Bytes)>,
) -> Result<Tid, CommitError> {
    let all = writes.iter().chain(&creates).map(|(oref, _)| *oref);
    let reads: BTreeSet<Oref> = all.chain(reads.iter().copied()).collect();
    store.commit(Commit { valid_to, reads: &reads, writes, creates, batch })
}

/// A commit at the head that must succeed.
pub fn put(store: &dyn Repository, writes: Vec<(Oref, Bytes)>, creates: Vec<(Oref, Bytes)>) -> Tid {
    commit_reading(store, store.head(), &[], writes, creates, None).unwrap()
}

pub fn fetch(store: &dyn Repository, oref: Oref) -> Option<Stored> {
    store.fetch(&[oref]).unwrap().states.remove(0)
}

/// `count` fresh orefs.
pub fn fresh(store: &dyn Repository, count: u32) -> Vec<Oref> {
    store.allocate(count).unwrap().map(oref).collect()
}

pub fn changed(store: &dyn Repository, after: Tid) -> (Vec<Oref>, Tid) {
    match store.changes(after, &AllObjects) {
        Changes::Written { orefs, upto } => (orefs, upto),
        Changes::TooOld { upto } => panic!("changes after {after} are too old at {upto}"),
    }
}

/// The store is sound.
#[track_caller]
pub fn sound(store: &dyn Repository) {
    let report = store.check(&mut |_| {}).unwrap();
    assert_eq!(report.mistakes, Vec::<Mistake>::new());
}

pub fn tid(number: u64) -> Tid {
    Tid(number)
}
