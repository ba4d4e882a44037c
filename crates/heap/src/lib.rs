//! Object layout and allocation.
//!
//! An object is `[table pointer][header][fields...]`, all 64-bit words, and a reference is the address of
//! its first word. The table pointer says what a call to the object must do first (`runtime`); the header
//! keeps the object's size, and room for the collector and for identity.
//!
//! Allocation bumps a pointer inside a [`Window`]; when the window is used up, [`Heap::refill`] gives a new one
//! from a chunk, within the heap's byte limit. Compiled code bumps the window itself.
//!
//! What is deliberately absent: a heap is never shared between threads, and this crate knows no types.
//! Memory is given back when the heap is dropped.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

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

/// Bits of the header that hold the object's size in words, table pointer and header included.
pub const SIZE_MASK: u64 = 0xffff_ffff;

/// Set in the header of an object that lies outside all heaps and is there as long as the process: collectors
/// leave it alone. It refers to no object of a heap.
pub const LASTING: u64 = 1 << 63;

/// The memory that allocation may use without asking: `next <= end`, both aligned to words.
#[repr(C)]
#[derive(Debug)]
pub struct Window {
    /// Where the next object goes.
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
        // SAFETY: `words` words lie between `next` and `end`, which are inside one chunk.
        self.next = unsafe { self.next.add(words) };
        Some(start)
    }
}

/// The heap is at its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the heap's limit of {limit} bytes is reached")]
pub struct HeapFull {
    /// The limit, in bytes.
    pub limit: usize,
}

/// The memory of one session or node.
#[derive(Debug)]
pub struct Heap {
    chunks: Vec<(NonNull<u8>, Layout)>,
    used_bytes: usize,
    limit_bytes: usize,
}

// SAFETY: the chunks are owned by the heap and reached through it only.
unsafe impl Send for Heap {}

const CHUNK_BYTES_MIN: usize = 64 << 10;
const CHUNK_BYTES_MAX: usize = 4 << 20;

impl Heap {
    /// An empty heap that takes no more than `limit_bytes` from the system.
    pub fn new(limit_bytes: usize) -> Heap {
        Heap { chunks: Vec::new(), used_bytes: 0, limit_bytes }
    }

    /// Bytes taken from the system.
    pub fn used_bytes(&self) -> usize {
        self.used_bytes
    }

    /// The limit, in bytes.
    pub fn limit_bytes(&self) -> usize {
        self.limit_bytes
    }

    /// Gives the window a new piece of zeroed memory with room for at least `words` words.
    /// What was left of the old piece stays unused.
    ///
    /// # Errors
    /// [`HeapFull`] when the limit would be passed; the window is as before.
    pub fn refill(&mut self, window: &mut Window, words: usize) -> Result<(), HeapFull> {
        let full = HeapFull { limit: self.limit_bytes };
        let needed = words.checked_mul(size_of::<Word>()).ok_or(full)?;
        let room = self.limit_bytes.saturating_sub(self.used_bytes);
        let comfortable = self.used_bytes.clamp(CHUNK_BYTES_MIN, CHUNK_BYTES_MAX);
        let bytes = needed.max(comfortable.min(room));
        if bytes > room {
            return Err(full);
        }
        let bytes = bytes & !(size_of::<Word>() - 1);
        let layout = Layout::from_size_align(bytes.max(needed), 16).map_err(|_| full)?;
        // SAFETY: the layout has a size above 0, since `needed` or the room of a chunk is.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(full)?;
        self.chunks.push((start, layout));
        self.used_bytes += layout.size();
        window.next = start.as_ptr().cast();
        // SAFETY: the end of the allocation just made.
        window.end = unsafe { start.as_ptr().add(layout.size()).cast() };
        Ok(())
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        for (start, layout) in self.chunks.drain(..) {
            // SAFETY: allocated with this layout in `refill`, and freed once.
            unsafe { dealloc(start.as_ptr(), layout) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_come_from_chunks_within_the_limit() {
        let mut heap = Heap::new(1 << 20);
        let mut window = Window::empty();
        assert!(window.take(1).is_none());
        let mut taken = 0;
        loop {
            match window.take(100) {
                Some(p) => {
                    taken += 800;
                    // SAFETY: the first of 100 words just taken.
                    assert_eq!(unsafe { p.read() }, 0);
                }
                None => match heap.refill(&mut window, 100) {
                    Ok(()) => {}
                    Err(e) => {
                        assert_eq!(e, HeapFull { limit: 1 << 20 });
                        break;
                    }
                },
            }
        }
        assert!(taken > 900_000, "{taken}");
        assert!(heap.used_bytes() <= 1 << 20);
    }

    #[test]
    fn a_large_object_gets_a_chunk_of_its_own() {
        let mut heap = Heap::new(64 << 20);
        let mut window = Window::empty();
        heap.refill(&mut window, 1 << 20).unwrap();
        assert!(window.take(1 << 20).is_some());
        assert!(heap.refill(&mut window, usize::MAX / 4).is_err());
        assert!(heap.refill(&mut window, usize::MAX).is_err());
    }
}
