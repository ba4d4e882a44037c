//! Marking: everything that can be reached gets the epoch of the collection.

use crate::blocks::mark_lines;
use crate::{EPOCH_MASK, EPOCH_SHIFT, LARGE, LASTING, OBJECT_WORDS, POISON, SIZE_MASK, Shape, Word};

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
    stack: Vec<Word>,
    /// Objects whose fields from the given one on have not been followed.
    rest: Vec<(Word, usize)>,
    live_bytes: usize,
    live_objects: usize,
}

/// The shape of an object.
///
/// # Safety
/// `object` is a reference.
#[inline]
pub(crate) unsafe fn shape(object: Word) -> &'static Shape {
    // SAFETY: the first word of an object is its table, and the first word of that its shape;
    // tables are never freed.
    unsafe { *(*(object as *const *const &'static Shape)) }
}

/// True if an object was found by the collection of this epoch.
///
/// # Safety
/// `object` is a reference.
#[inline]
pub(crate) unsafe fn is_marked(object: Word, epoch: u8) -> bool {
    // SAFETY: the second word of an object is its header.
    let header = unsafe { *(object as *const Word).add(1) };
    (header & EPOCH_MASK) >> EPOCH_SHIFT == u64::from(epoch)
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

    /// Takes a root; 0 is none.
    ///
    /// # Safety
    /// `word` is 0 or a reference to an object of the heap that collects, or to a lasting one.
    pub unsafe fn root(&mut self, word: Word) {
        // SAFETY: promised by the caller; what objects refer to are objects.
        unsafe {
            self.mark(word);
            self.drain();
        }
    }

    /// True if an object has been found so far.
    ///
    /// # Safety
    /// `object` is a reference to an object that was there when the collection began.
    pub unsafe fn lives(&self, object: Word) -> bool {
        // SAFETY: promised by the caller.
        unsafe { is_marked(object, self.epoch) }
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
    unsafe fn mark(&mut self, object: Word) {
        // SAFETY: promised by the caller.
        unsafe {
            if self.claim(object) && !shape(object).is_leaf() {
                self.stack.push(object);
            }
        }
    }

    /// Marks an object, without the objects that it refers to. Returns true if it is one of the
    /// heap that was not marked before.
    ///
    /// # Safety
    /// As for [`Marker::root`].
    #[inline]
    pub(crate) unsafe fn claim(&mut self, object: Word) -> bool {
        if object == 0 {
            return false;
        }
        let place = object as *mut Word;
        if self.looks {
            // SAFETY: promised by the caller, and doubted here.
            unsafe { self.look(object) };
        }
        // SAFETY: promised by the caller.
        let header = unsafe { *place.add(1) };
        if header & LASTING != 0 || (header & EPOCH_MASK) >> EPOCH_SHIFT == u64::from(self.epoch) {
            return false;
        }
        // SAFETY: as above; objects of the heap are ours to write.
        unsafe { *place.add(1) = header & !EPOCH_MASK | u64::from(self.epoch) << EPOCH_SHIFT };
        let bytes = (header & SIZE_MASK) as usize * size_of::<Word>();
        self.live_bytes += bytes;
        self.live_objects += 1;
        if header & LARGE == 0 {
            // SAFETY: an object that is not large lies in a block.
            unsafe { mark_lines(object as usize, bytes, self.epoch) };
        }
        true
    }

    /// Checks a reference, if that is to be done, and names its object if it was not found before.
    #[cold]
    unsafe fn look(&mut self, object: Word) {
        // SAFETY: promised by the caller of `mark`.
        unsafe {
            if self.check {
                self.doubt(object);
            }
            let header = *(object as *const Word).add(1);
            let is_new = header & LASTING == 0 && !is_marked(object, self.epoch);
            if is_new && self.named.is_some_and(|named| named(object)) {
                self.found.push(object);
            }
        }
    }

    /// Looks whether a reference is one at all.
    #[cold]
    unsafe fn doubt(&self, object: Word) {
        assert!(
            object.is_multiple_of(8) && object != POISON,
            "a word that is no reference was followed: {object:#x}"
        );
        // SAFETY: promised by the caller of `mark`.
        let table = unsafe { *(object as *const Word) };
        assert!(table != POISON, "an object was freed while a reference to it existed: {object:#x}");
        assert!(
            table != 0 && table.is_multiple_of(8),
            "no object is at {object:#x}: its first word is {table:#x}"
        );
    }

    unsafe fn drain(&mut self) {
        loop {
            if let Some(object) = self.stack.pop() {
                // SAFETY: only references are on the stack.
                unsafe { self.scan(object) };
            } else if let Some((object, from)) = self.rest.pop() {
                // SAFETY: as above.
                unsafe { self.scan_tail(object, from) };
            } else {
                return;
            }
        }
    }

    unsafe fn scan(&mut self, object: Word) {
        // SAFETY: promised by the caller; an object has the fields that its shape names.
        unsafe {
            let shape = shape(object);
            let fields = (object as *const Word).add(OBJECT_WORDS);
            for field in shape.fixed() {
                self.mark(*fields.add(field));
            }
            if let Some(from) = shape.tail() {
                self.scan_tail(object, from);
            }
        }
    }

    /// Follows the references of the tail from one of them on.
    unsafe fn scan_tail(&mut self, object: Word, from: usize) {
        // SAFETY: promised by the caller; the header has the number of fields.
        unsafe {
            let place = object as *const Word;
            let count = (*place.add(1) & SIZE_MASK) as usize - OBJECT_WORDS;
            let to = count.min(from + FIELDS_AT_ONCE);
            if to < count {
                self.rest.push((object, to));
            }
            for field in (from..to).step_by(shape(object).step()) {
                self.mark(*place.add(OBJECT_WORDS + field));
            }
        }
    }
}
