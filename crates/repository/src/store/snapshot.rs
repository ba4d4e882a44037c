//! [`Snapshot`]: the contents of a store at one commit, while commits go on.
//!
//! A snapshot is a base as some installation has left it, and the buffer beside it. It is taken in
//! microseconds: the layer that gathers is closed and installed first, so little is left in the
//! buffer. A base keeps what a snapshot reads until the snapshot is dropped, and grows meanwhile by
//! what is installed. So snapshots are for backups, which end, and not for sessions, which wait.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::record::ClassDescriptor;
use crate::store::Store;
use crate::store::base::{Base, Journal};
use crate::store::replies::Reply;
use crate::{Error, Oref, Stored, Tid};

/// Objects in order, each with its state.
pub type Part = Vec<(Oref, Stored)>;

/// The objects of a base as some installation has left it.
pub trait BaseSnapshot: Send {
    /// Returns the next objects, in order; none at the end. `upto` is the oref before which all
    /// were returned then.
    fn next_part(&mut self) -> Result<Option<(Part, u64)>, Error>;
}

/// All of a store at one commit.
pub struct Snapshot {
    /// The last commit in it.
    pub head: Tid,
    /// No oref from here on was given.
    pub reserved: u64,
    /// The number of objects.
    pub objects: u64,
    /// All classes by number: the first has number 1.
    pub classes: Arc<Vec<Arc<ClassDescriptor>>>,
    /// The last replies of sessions.
    pub replies: Vec<(u128, Reply)>,
    /// States that are newer than those of the base; none for freed objects.
    buffer: BTreeMap<Oref, Option<Stored>>,
    base: Box<dyn BaseSnapshot>,
    ended: bool,
}

impl Snapshot {
    /// Returns the next objects, in the order of their orefs; none at the end.
    ///
    /// # Errors
    /// The store cannot be read, or an object is lost.
    pub fn next_part(&mut self) -> Result<Option<Part>, Error> {
        while !self.ended {
            let (part, newer) = match self.base.next_part()? {
                Some((part, upto)) => {
                    let rest = Oref::new(upto).map(|upto| self.buffer.split_off(&upto)).unwrap_or_default();
                    (part, std::mem::replace(&mut self.buffer, rest))
                }
                None => {
                    self.ended = true;
                    (Part::new(), std::mem::take(&mut self.buffer))
                }
            };
            let mut states: BTreeMap<Oref, Option<Stored>> =
                part.into_iter().map(|(oref, state)| (oref, Some(state))).collect();
            states.extend(newer);
            let found: Part = states.into_iter().filter_map(|(oref, state)| Some((oref, state?))).collect();
            if !found.is_empty() {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}

impl<B: Base, J: Journal> Store<B, J> {
    /// Takes a snapshot.
    pub(super) fn take_snapshot(&self) -> Result<Snapshot, Error> {
        // What was committed so far goes into the base, without holding up commits: the buffer
        // that is copied below is small then.
        self.install()?;
        self.begin_install()?;
        self.install()?;
        // Nothing is installed between the look at the base and that at the buffer.
        let _alone = self.install.lock();
        let base = self.base.snapshot()?;
        let visible = self.visible.read();
        let mut buffer = BTreeMap::new();
        for layer in visible.layers() {
            buffer.extend(layer.states.iter().map(|(oref, state)| (*oref, state.clone())));
        }
        Ok(Snapshot {
            head: visible.head,
            reserved: visible.reserved,
            objects: visible.objects(),
            classes: visible.classes.clone(),
            replies: visible.replies.all(),
            buffer,
            base,
            ended: false,
        })
    }
}
