//! Marking: everything that can be reached gets the epoch of the collection.

use crate::blocks::mark_lines;
use crate::{EPOCH_MASK, EPOCH_SHIFT, LARGE, LASTING, POISON, Reference, SIZE_MASK, Word};

/// Most fields of an object that are followed before its other fields wait their turn: the mark
/// stack grows with the depth of structures, not with the length of arrays.
const FIELDS_AT_ONCE: usize = 128;

// Tails may have a reference in every second field only.
const _: () = assert!(FIELDS_AT_ONCE.is_multiple_of(2));

/// A collection under way: takes the roots and marks the objects that they reach.
///
/// Its stack is in memory of Rust, so that the depth of a structure does not matter. The stack has
/// an object once at most, which bounds it to a word for each live object; chains need only a few
/// words.
#[derive(Debug)]
pub struct Marker {
    epoch: u8,
    check: bool,
    /// True if each object is to be looked at before it is marked: to check it, or to name it.
    looks: bool,
    named: Option<fn(Word) -> bool>,
    found: Vec<Word>,
    stack: Vec<Reference>,
    /// Objects whose fields from the given one on have not been followed.
    rest: Vec<(Reference, usize)>,
    live_bytes: usize,
    live_objects: usize,
}

impl Marker {
    pub(crate) fn new(epoch: u8, check: bool) -> Marker {
        Marker {
            epoch,
            check,
            looks: check,
            named: None,
            found: Vec::new(),
            stack: Vec::new(),
            rest: Vec::new(),
            live_bytes: 0,
            live_objects: 0,
        }
    }

    /// Keeps a list, from now on, of the objects that are found and of which this is so; it gets
    /// references.
    pub fn name(&mut self, named: fn(Word) -> bool) {
        (self.looks, self.named) = (true, Some(named));
    }

    /// The list of these objects.
    pub fn named(&mut self) -> Vec<Word> {
        std::mem::take(&mut self.found)
    }

    /// Takes a root, if there is one: a reference to an object of the heap that collects, or to a
    /// lasting one.
    pub fn root(&mut self, object: Option<Reference>) {
        self.mark(object);
        self.drain();
    }

    /// True if an object has been found so far that was there when the collection began.
    pub fn lives(&self, object: Reference) -> bool {
        object.is_marked(self.epoch)
    }

    /// Bytes and number of the objects found.
    pub(crate) fn live(&self) -> (usize, usize) {
        (self.live_bytes, self.live_objects)
    }

    /// Bytes of the objects found so far.
    pub fn live_bytes(&self) -> usize {
        self.live_bytes
    }

    #[inline]
    fn mark(&mut self, object: Option<Reference>) {
        if let Some(object) = object
            && self.claim(object)
            && !object.shape().is_leaf()
        {
            self.stack.push(object);
        }
    }

    /// Marks an object, without the objects that it refers to. Returns true if it is one of the
    /// heap that was not marked before.
    #[inline]
    pub(crate) fn claim(&mut self, object: Reference) -> bool {
        if self.looks {
            self.look(object);
        }
        let header = object.header();
        if header & LASTING != 0 || (header & EPOCH_MASK) >> EPOCH_SHIFT == u64::from(self.epoch) {
            return false;
        }
        object.mark(header, self.epoch);
        let bytes = (header & SIZE_MASK) as usize * size_of::<Word>();
        self.live_bytes += bytes;
        self.live_objects += 1;
        if header & LARGE == 0 {
            // SAFETY: an object that is not large lies in a block.
            unsafe { mark_lines(object.word() as usize, bytes, self.epoch) };
        }
        true
    }

    /// Checks a reference, if that is to be done, and names its object if it was not found before.
    #[cold]
    fn look(&mut self, object: Reference) {
        if self.check {
            doubt(object.word());
        }
        let is_new = !object.is_lasting() && !object.is_marked(self.epoch);
        if is_new && self.named.is_some_and(|named| named(object.word())) {
            self.found.push(object.word());
        }
    }

    fn drain(&mut self) {
        loop {
            if let Some(object) = self.stack.pop() {
                self.scan(object);
            } else if let Some((object, from)) = self.rest.pop() {
                self.scan_tail(object, from);
            } else {
                return;
            }
        }
    }

    fn scan(&mut self, object: Reference) {
        let shape = object.shape();
        for field in shape.fixed() {
            self.mark(object.follow(field));
        }
        if let Some(from) = shape.tail() {
            self.scan_tail(object, from);
        }
    }

    /// Follows the references of the tail from one of them on.
    fn scan_tail(&mut self, object: Reference, from: usize) {
        let count = object.fields();
        let to = count.min(from + FIELDS_AT_ONCE);
        if to < count {
            self.rest.push((object, to));
        }
        for field in (from..to).step_by(object.shape().step()) {
            self.mark(object.follow(field));
        }
    }
}

/// Looks whether a reference is one at all.
#[cold]
fn doubt(object: Word) {
    assert!(
        object.is_multiple_of(8) && object != POISON,
        "a word that is no reference was followed: {object:#x}"
    );
    // SAFETY: it is said to be an object, and at least it is aligned.
    let table = unsafe { *(object as *const Word) };
    assert!(table != POISON, "an object was freed while a reference to it existed: {object:#x}");
    assert!(
        table != 0 && table.is_multiple_of(8),
        "no object is at {object:#x}: its first word is {table:#x}"
    );
}
