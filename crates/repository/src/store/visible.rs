//! The state that all calls see: the effects of the commits that are durable.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::record::ClassDescriptor;
use crate::store::base::{Installation, Loaded, Totals};
use crate::store::changes::ChangeLog;
use crate::store::entry::{Committed, Entry};
use crate::store::replies::{Replies, Reply};
use crate::{ClassNumber, Oref, Stored, Tid};

/// The commits made while one half of the journal was written: the modified object buffer, in two
/// layers.
#[derive(Default)]
pub struct Layer {
    /// New states; none for objects that were freed. In order, because that is how they are
    /// installed.
    pub states: BTreeMap<Oref, Option<Stored>>,
    pub classes: Vec<(ClassNumber, Arc<ClassDescriptor>)>,
    pub replies: BTreeMap<u128, Option<Reply>>,
    /// Bytes of the states.
    pub bytes: u64,
    pub created: u64,
    pub freed: u64,
    /// The last commit when the layer was closed.
    pub head: Tid,
    pub sequence: u64,
    pub reserved: u64,
    pub generation: u64,
}

impl Layer {
    fn put(&mut self, oref: Oref, state: Option<Stored>) {
        self.bytes += state.as_ref().map_or(0, |new| new.bytes.len() as u64);
        let old = self.states.insert(oref, state).flatten();
        self.bytes -= old.map_or(0, |old| old.bytes.len() as u64);
    }

    pub fn installation(&self, totals: Totals) -> Installation<'_> {
        Installation {
            states: &self.states,
            classes: &self.classes,
            replies: &self.replies,
            head: self.head,
            sequence: self.sequence,
            generation: self.generation,
            reserved: self.reserved,
            totals,
        }
    }
}

/// The state of a store after its last durable commit.
pub struct Visible {
    pub head: Tid,
    /// The last record of the journal.
    pub sequence: u64,
    /// Orefs below it may have been given.
    pub reserved: u64,
    pub current: Layer,
    /// The layer that is on its way into the base.
    pub installing: Option<Arc<Layer>>,
    pub changes: ChangeLog,
    pub classes: Arc<Vec<Arc<ClassDescriptor>>>,
    /// Classes by the digest of their contents.
    pub class_numbers: HashMap<[u8; 32], ClassNumber>,
    pub replies: Replies,
    pub totals: Totals,
}

/// Returns the digest of a class, over all its contents.
pub fn class_digest(class: &ClassDescriptor) -> [u8; 32] {
    let mut bytes = Vec::new();
    class.encode(&mut bytes);
    *blake3::hash(&bytes).as_bytes()
}

impl Visible {
    pub fn new(loaded: Loaded) -> Visible {
        let mut visible = Visible {
            head: loaded.head,
            sequence: loaded.sequence,
            reserved: loaded.reserved,
            current: Layer::default(),
            installing: None,
            changes: ChangeLog::new(loaded.head),
            classes: Arc::default(),
            class_numbers: HashMap::new(),
            replies: Replies::default(),
            totals: loaded.totals,
        };
        for class in loaded.classes {
            visible.add_class(class);
        }
        // In the order of their commits, so that the oldest are forgotten first.
        let mut replies = loaded.replies;
        replies.sort_by_key(|(_, reply)| reply.tid);
        for (session, reply) in replies {
            visible.replies.insert(session, reply);
        }
        visible
    }

    fn add_class(&mut self, class: Arc<ClassDescriptor>) -> ClassNumber {
        let number = ClassNumber(self.classes.len() as u32 + 1);
        self.class_numbers.insert(class_digest(&class), number);
        Arc::make_mut(&mut self.classes).push(class);
        number
    }

    /// Makes a record of the journal visible.
    pub fn publish(&mut self, entries: impl IntoIterator<Item = Entry>) {
        self.sequence += 1;
        for entry in entries {
            match entry {
                Entry::Commit(commit) => self.publish_commit(commit),
                Entry::Free(orefs) => {
                    self.current.freed += orefs.len() as u64;
                    orefs.into_iter().for_each(|oref| self.current.put(oref, None));
                }
                Entry::Class(_, class) => {
                    let number = self.add_class(class.clone());
                    self.current.classes.push((number, class));
                }
                Entry::Reserve(upto) => self.reserved = self.reserved.max(upto),
            }
        }
    }

    fn publish_commit(&mut self, commit: Committed) {
        let tid = commit.tid;
        self.changes.push(tid, commit.orefs());
        self.current.created += commit.creates.len() as u64;
        for (oref, bytes) in commit.writes.into_iter().chain(commit.creates) {
            self.current.put(oref, Some(Stored { tid, bytes }));
        }
        if let Some((batch, bytes)) = commit.batch {
            let reply = Reply { number: batch.number, tid, bytes };
            let forgotten = self.replies.insert(batch.session, reply.clone());
            self.current.replies.insert(batch.session, Some(reply));
            self.current.replies.extend(forgotten.into_iter().map(|session| (session, None)));
        }
        self.head = tid;
    }

    /// Closes the current layer, which will be installed next. The one before must have been
    /// installed.
    pub fn close_layer(&mut self, generation: u64) {
        debug_assert!(self.installing.is_none(), "one layer at a time");
        let mut layer = std::mem::take(&mut self.current);
        (layer.head, layer.sequence, layer.reserved) = (self.head, self.sequence, self.reserved);
        layer.generation = generation;
        self.installing = Some(Arc::new(layer));
    }

    /// Returns the buffer's entry of an object: its state, that it was freed, or nothing.
    pub fn buffered(&self, oref: Oref) -> Option<&Option<Stored>> {
        self.current.states.get(&oref).or_else(|| self.installing.as_ref()?.states.get(&oref))
    }

    /// Returns the layers of the buffer, the older one first.
    pub fn layers(&self) -> impl Iterator<Item = &Layer> {
        self.installing.iter().map(|layer| &**layer).chain([&self.current])
    }

    /// Returns the number of objects.
    pub fn objects(&self) -> u64 {
        let created: u64 = self.layers().map(|layer| layer.created).sum();
        let freed: u64 = self.layers().map(|layer| layer.freed).sum();
        (self.totals.objects + created).saturating_sub(freed)
    }

    /// Returns the bytes of the states in the buffer.
    pub fn buffered_bytes(&self) -> u64 {
        self.layers().map(|layer| layer.bytes).sum()
    }

    /// Returns the first `limit` entries of the buffer from `from` on.
    pub fn buffered_from(&self, from: Oref, limit: usize) -> BTreeMap<Oref, Option<Stored>> {
        let older = self.installing.iter().flat_map(|layer| layer.states.range(from..).take(limit));
        let newer = self.current.states.range(from..).take(limit);
        let mut found: BTreeMap<_, _> =
            older.chain(newer).map(|(oref, state)| (*oref, state.clone())).collect();
        if let Some((oref, _)) = found.iter().nth(limit).map(|(oref, _)| (*oref, ())) {
            found.split_off(&oref);
        }
        found
    }
}
