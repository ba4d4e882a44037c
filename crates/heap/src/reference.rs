//! Typed references to objects.

use std::num::NonZero;

use crate::{
    EPOCH_MASK, EPOCH_SHIFT, LASTING, NUMBER_MAX, NUMBER_SHIFT, OBJECT_WORDS, SIZE_MASK, Shape, Word,
};

/// A reference to an object: its constructor carries the promise, so that the functions that take
/// one are safe.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(transparent)]
pub struct Reference(NonZero<Word>);

impl Reference {
    /// Makes a reference of a word.
    ///
    /// # Safety
    /// The word is the address of an object of a heap, or of a lasting one. Its memory stays as
    /// long as the result and its copies are used, which is on the thread of the heap. The fields
    /// that its shape names are 0 or such addresses.
    #[inline(always)]
    pub unsafe fn new(word: Word) -> Reference {
        debug_assert!(word != 0, "a reference");
        // SAFETY: addresses of objects are not 0.
        Reference(unsafe { NonZero::new_unchecked(word) })
    }

    /// Makes a reference of a word that may be 0.
    ///
    /// # Safety
    /// As for [`Reference::new`], or the word is 0.
    #[inline(always)]
    pub unsafe fn of(word: Word) -> Option<Reference> {
        NonZero::new(word).map(Reference)
    }

    /// The reference as a word.
    #[inline(always)]
    pub fn word(self) -> Word {
        self.0.get()
    }

    /// The number of fields.
    #[inline]
    pub fn fields(self) -> usize {
        (self.header() & SIZE_MASK) as usize - OBJECT_WORDS
    }

    /// True if the object lies outside all heaps.
    #[inline]
    pub fn is_lasting(self) -> bool {
        self.header() & LASTING != 0
    }

    /// The number that the object was given; 0 for none.
    #[inline]
    pub fn number(self) -> u32 {
        (self.header() >> NUMBER_SHIFT) as u32 & NUMBER_MAX
    }

    /// Gives the object a number of at most [`NUMBER_MAX`]; 0 takes it away.
    ///
    /// # Panics
    /// The object is lasting: all threads read its header.
    #[inline]
    pub fn set_number(self, number: u32) {
        debug_assert!(number <= NUMBER_MAX);
        assert!(!self.is_lasting(), "a lasting object has no number");
        self.set_header(
            self.header() & !(u64::from(NUMBER_MAX) << NUMBER_SHIFT) | u64::from(number) << NUMBER_SHIFT,
        );
    }

    /// The shape.
    #[inline]
    pub(crate) fn shape(self) -> &'static Shape {
        // SAFETY: the first word of an object is its table, and the first word of that its shape;
        // tables are never freed.
        unsafe { *(*(self.word() as *const *const &'static Shape)) }
    }

    /// The reference in a field that the shape names.
    #[inline]
    pub(crate) fn follow(self, field: usize) -> Option<Reference> {
        debug_assert!(field < self.fields(), "a field of the object");
        // SAFETY: the callers pass fields that the shape names, which the object has.
        unsafe { Reference::of(*(self.word() as *const Word).add(OBJECT_WORDS + field)) }
    }

    #[inline]
    pub(crate) fn header(self) -> Word {
        // SAFETY: the second word of an object is its header.
        unsafe { *(self.word() as *const Word).add(1) }
    }

    /// Changes the header of an object that is not lasting.
    #[inline]
    fn set_header(self, header: Word) {
        // SAFETY: as in `header`; an object of a heap is used by the heap's thread only.
        unsafe { *(self.word() as *mut Word).add(1) = header };
    }

    /// True if the collection of this epoch has found the object.
    #[inline]
    pub(crate) fn is_marked(self, epoch: u8) -> bool {
        (self.header() & EPOCH_MASK) >> EPOCH_SHIFT == u64::from(epoch)
    }

    /// Marks an object that is not lasting, whose header this is.
    #[inline]
    pub(crate) fn mark(self, header: Word, epoch: u8) {
        self.set_header(header & !EPOCH_MASK | u64::from(epoch) << EPOCH_SHIFT);
    }
}
