//! Object layout, allocation, and the collector.
//!
//! An object is `[table pointer][header][fields...]`, all 64-bit words, and a reference is the
//! address of its first word; 0 refers to nothing. The table pointer gives the work that a call to
//! the object must do first (`runtime`). The first word of every table is the address of a
//! [`Shape`], which says which fields are references. The header has the object's size and the
//! collector's mark.
//!
//! Read [`Heap`]. Allocation bumps a pointer inside a [`Window`], which compiled code does itself;
//! when the window is used up, [`Heap::alloc`] brings a new one. [`Heap::collect`] frees the
//! objects that cannot be reached from the roots that its caller names. Objects never move.
//!
//! The collector is that of S. M. Blackburn and K. S. McKinley, "Immix: A Mark-Region Garbage
//! Collector with Space Efficiency, Fast Collection, and Mutator Performance" (PLDI 2008): memory
//! is divided into blocks of lines, marking an object marks its lines, and allocation bumps through
//! runs of lines without mark. It departs from the paper in three points:
//!
//! - Nothing is evacuated, so that references on the stacks of compiled and of Rust code stay
//!   valid.
//! - An object's lines are marked exactly, instead of one line too many.
//! - Marks are epochs, in headers and in lines, so that no collection begins by clearing them.
//!
//! The cost of a collection is the live objects, one byte for each line, and the list of large
//! objects.
//!
//! A heap is never shared between threads. This crate knows no types and no stacks, and it does not
//! decide when to collect ([`Heap::must_collect`] advises).

mod blocks;
mod heap;
mod large;
mod mark;
mod reference;
mod shape;
mod source;
mod summary;
mod supply;

use std::ptr::NonNull;

pub use blocks::{BLOCK_BYTES, CHUNK_BYTES, LINE_BYTES};
pub use heap::{Heap, HeapUse, LARGE_BYTES_MIN};
pub use mark::Marker;
pub use reference::Reference;
pub use shape::{Finalizer, Shape};
pub use source::{Need, Source, return_free_memory};
pub use summary::Summary;

/// One untagged value: a reference, or the bits of a basic value.
pub type Word = u64;

/// Byte offset of the table pointer in an object.
pub const TABLE_OFFSET: i32 = 0;
/// Byte offset of the header.
pub const HEADER_OFFSET: i32 = 8;
/// Byte offset of the first field.
pub const FIELDS_OFFSET: i32 = 16;
/// Words of an object before its fields.
pub const OBJECT_WORDS: usize = 2;

/// Bits of the header that hold the object's size in words, table pointer and header included: 2
/// GiB at most.
pub const SIZE_MASK: u64 = 0x0fff_ffff;

/// The position in the header of the epoch of the collection that last found the object; 8 bits, 0
/// for a new object.
pub(crate) const EPOCH_SHIFT: u32 = 28;
pub(crate) const EPOCH_MASK: u64 = 0xff << EPOCH_SHIFT;

/// The position in the header of the number that the keeper of the object has given it
/// ([`Reference::number`]); 0 for none.
const NUMBER_SHIFT: u32 = 36;

/// The largest number of an object: 26 bits.
pub const NUMBER_MAX: u32 = (1 << 26) - 1;

/// Set in the header of an object with an allocation of its own. Not all objects of that size have
/// one: they may have found room in the window.
pub(crate) const LARGE: u64 = 1 << 62;

/// Set in the header of an object that lies outside all heaps and is there as long as the process:
/// collectors leave it alone. It refers to no object of a heap.
pub const LASTING: u64 = 1 << 63;

/// The word with which freed memory is filled when a heap is checked. As a reference it is no
/// address, so that code that uses an object that was freed too early is found at once.
pub const POISON: Word = 0xdead_beef_dead_beef;

/// The memory that allocation may use without asking: `next <= end`, both aligned to words.
#[repr(C)]
#[derive(Debug)]
pub struct Window {
    /// The place of the next object.
    pub next: *mut Word,
    /// The end of the usable memory.
    pub end: *mut Word,
}

impl Window {
    /// A window without room.
    pub const fn empty() -> Window {
        Window { next: std::ptr::null_mut(), end: std::ptr::null_mut() }
    }

    /// Takes `words` zeroed words, or nothing if there is no room.
    #[inline]
    pub fn take(&mut self, words: usize) -> Option<NonNull<Word>> {
        let room = (self.end as usize - self.next as usize) / size_of::<Word>();
        if words > room {
            return None;
        }
        let start = NonNull::new(self.next)?;
        // SAFETY: `words` words lie between `next` and `end`, which are inside one block.
        self.next = unsafe { self.next.add(words) };
        Some(start)
    }
}

/// The bound at which an allocation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exhausted {
    /// The limit of the heap, or of the bytes that a batch may add to it.
    Heap,
    /// The limit of all heaps that share a [`Source`].
    Shared,
    /// The memory of the system.
    System,
}

impl Exhausted {
    fn text(self, limit: usize) -> String {
        match self {
            Exhausted::Heap => format!("the heap's limit of {limit} bytes is reached"),
            Exhausted::Shared => {
                format!(
                    "the limit of {limit} bytes for all heaps together (server_heap_bytes_max) is reached"
                )
            }
            Exhausted::System => "the system has no memory left".to_owned(),
        }
    }
}

/// There is no room for an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .exhausted.text(*.limit))]
pub struct HeapFull {
    /// The limit, in bytes; 0 if the system has none left.
    pub limit: usize,
    /// The resource that was exhausted.
    pub exhausted: Exhausted,
}

impl HeapFull {
    /// The heap's own limit is reached.
    pub fn of_heap(limit: usize) -> HeapFull {
        HeapFull { limit, exhausted: Exhausted::Heap }
    }
}
