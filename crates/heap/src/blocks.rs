//! Chunks, blocks and lines: the places of objects that are not large.
//!
//! A chunk is [`CHUNK_BYTES`] of memory at a multiple of its size. It is divided into blocks, and
//! they into lines.
//!
//! The first bytes of a chunk are its table of marks, a byte for each line of the chunk. So the
//! mark of an object's line is found by its address alone. The lines that the table itself takes
//! are never used.
//!
//! A line is in use if its mark is the epoch of the last collection, and free otherwise. Objects
//! allocated after that collection have no marks: the places are handed out in order, none twice.

use std::ptr::NonNull;

use crate::{Word, supply};

/// Bytes of a line.
pub const LINE_BYTES: usize = 256;
/// Bytes of a block.
pub const BLOCK_BYTES: usize = 32 << 10;
/// Bytes of a chunk, and its alignment.
pub const CHUNK_BYTES: usize = 1 << 20;

/// The unit in which the system takes memory back.
const PAGE_BYTES: usize = 4096;

const CHUNK_LINES: usize = CHUNK_BYTES / LINE_BYTES;
pub(crate) const BLOCK_LINES: usize = BLOCK_BYTES / LINE_BYTES;
/// Lines at the start of a chunk that its table takes.
const TABLE_LINES: usize = CHUNK_LINES / LINE_BYTES;
const _: () = assert!(BLOCK_LINES == u128::BITS as usize && CHUNK_LINES.is_multiple_of(PAGE_BYTES));

/// Marks the lines of an object.
///
/// # Safety
/// The `bytes` (above 0) at `address` lie in one block of a chunk that is allocated.
#[inline]
pub(crate) unsafe fn mark_lines(address: usize, bytes: usize, epoch: u8) {
    let table = (address & !(CHUNK_BYTES - 1)) as *mut u8;
    let first = (address & (CHUNK_BYTES - 1)) / LINE_BYTES;
    let last = ((address & (CHUNK_BYTES - 1)) + bytes - 1) / LINE_BYTES;
    for line in first..=last {
        // SAFETY: promised by the caller: the lines are the chunk's.
        unsafe { *table.add(line) = epoch };
    }
}

/// One block, by the address of its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Block(usize);

/// A run of free lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hole {
    pub start: *mut Word,
    pub bytes: usize,
    /// True if the memory is zero, since nobody has used it.
    pub zero: bool,
}

impl Block {
    /// The block's line marks.
    fn marks(self) -> *mut u8 {
        let chunk = self.0 & !(CHUNK_BYTES - 1);
        (chunk + (self.0 - chunk) / LINE_BYTES) as *mut u8
    }

    /// The chunk that the block is part of.
    pub fn chunk(self) -> usize {
        self.0 & !(CHUNK_BYTES - 1)
    }

    /// The first line that is not the table's.
    fn first_line(self) -> usize {
        if self.0 == self.chunk() { TABLE_LINES } else { 0 }
    }

    fn mark(self, line: usize) -> u8 {
        debug_assert!(line < BLOCK_LINES);
        // SAFETY: blocks are made for chunks that are allocated, and forgotten before those are
        // freed.
        unsafe { *self.marks().add(line) }
    }

    /// The number of lines in use.
    pub fn used_lines(self, epoch: u8) -> usize {
        // SAFETY: as in `mark`; nobody writes marks meanwhile.
        let marks = unsafe { std::slice::from_raw_parts(self.marks(), BLOCK_LINES) };
        marks[self.first_line()..].iter().map(|mark| usize::from(*mark == epoch)).sum()
    }

    /// The lines in use, a bit for each.
    pub fn lines_in_use(self, epoch: u8) -> u128 {
        (self.first_line()..BLOCK_LINES).map(|line| u128::from(self.mark(line) == epoch) << line).sum()
    }

    /// Marks the lines of [`lines_in_use`](Self::lines_in_use).
    pub fn mark_again(self, lines: u128, epoch: u8) {
        for line in (0..BLOCK_LINES).filter(|line| lines >> line & 1 == 1) {
            // SAFETY: as in `mark`.
            unsafe { *self.marks().add(line) = epoch };
        }
    }

    /// The number of lines that objects can have.
    pub fn lines(self) -> usize {
        BLOCK_LINES - self.first_line()
    }

    /// The first run of free lines at or behind `line`, and the line behind it.
    pub fn next_hole(self, line: usize, epoch: u8) -> Option<(Hole, usize)> {
        let start = (line.max(self.first_line())..BLOCK_LINES).find(|l| self.mark(*l) != epoch)?;
        let end = (start..BLOCK_LINES).find(|l| self.mark(*l) == epoch).unwrap_or(BLOCK_LINES);
        let bytes = (end - start) * LINE_BYTES;
        Some((Hole { start: (self.0 + start * LINE_BYTES) as *mut Word, bytes, zero: false }, end))
    }

    /// The runs of whole pages without a line in use: address and bytes of each.
    pub fn free_pages(self, epoch: u8) -> impl Iterator<Item = (usize, usize)> {
        let mut line = 0;
        let holes = std::iter::from_fn(move || {
            let (hole, end) = self.next_hole(line, epoch)?;
            line = end;
            Some(hole)
        });
        holes.filter_map(|hole| {
            let (start, end) = (hole.start as usize, hole.start as usize + hole.bytes);
            let (start, end) = (start.next_multiple_of(PAGE_BYTES), end / PAGE_BYTES * PAGE_BYTES);
            (start < end).then(|| (start, end - start))
        })
    }

    /// The whole block, which is free; `zero` if nobody has used it.
    pub fn whole(self, zero: bool) -> Hole {
        let start = self.first_line() * LINE_BYTES;
        Hole { start: (self.0 + start) as *mut Word, bytes: BLOCK_BYTES - start, zero }
    }

    /// The address of the block.
    pub fn address(self) -> usize {
        self.0
    }
}

impl Hole {
    /// Fills the memory with a word.
    ///
    /// # Safety
    /// Nothing lives there.
    pub unsafe fn fill(self, word: Word) {
        // SAFETY: promised by the caller; the memory is that of lines of an allocated chunk.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.bytes / size_of::<Word>()) }.fill(word);
    }

    /// Takes the lines out of the free ones until the next collection.
    pub fn take(self, epoch: u8) {
        // SAFETY: a hole is made of lines of an allocated chunk.
        unsafe { mark_lines(self.start as usize, self.bytes, epoch) };
    }
}

/// The chunks of a heap.
#[derive(Debug, Default)]
pub(crate) struct Chunks {
    /// In the order of their addresses.
    all: Vec<NonNull<u8>>,
}

impl Chunks {
    /// The number of them.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// All blocks, in the order of their addresses.
    pub fn blocks(&self) -> impl Iterator<Item = Block> + '_ {
        self.all.iter().flat_map(|chunk| blocks_of(chunk.as_ptr() as usize))
    }

    /// Takes a chunk from the system: its blocks, which are free; nothing if the system has no
    /// memory.
    pub fn grow(&mut self) -> Option<impl DoubleEndedIterator<Item = Block> + use<>> {
        // Its table is zero, as all of it.
        let chunk = supply::take()?;
        let at = self.all.partition_point(|other| *other < chunk);
        self.all.insert(at, chunk);
        Some(blocks_of(chunk.as_ptr() as usize))
    }

    /// Gives chunks back to the system.
    ///
    /// # Safety
    /// Nothing lives in them, and no block of theirs is kept. The addresses are in order.
    pub unsafe fn release(&mut self, chunks: &[usize]) {
        self.all.retain(|chunk| {
            let goes = chunks.binary_search(&(chunk.as_ptr() as usize)).is_ok();
            if goes {
                // SAFETY: taken in `grow`, and taken off the list here.
                unsafe { supply::give(*chunk) };
            }
            !goes
        });
    }

    /// Gives the memory of the tables of marks back to the system. All marks are of no epoch then.
    pub fn release_marks(&mut self) {
        for chunk in &self.all {
            // SAFETY: the table is the chunk's beginning, and no object lives there.
            unsafe { supply::clear(chunk.as_ptr().expose_provenance(), CHUNK_LINES) };
        }
    }

    /// Makes all marks those of no epoch.
    pub fn clear_marks(&mut self) {
        for chunk in &self.all {
            // SAFETY: the table is the chunk's beginning.
            unsafe { chunk.as_ptr().write_bytes(0, CHUNK_LINES) };
        }
    }
}

fn blocks_of(chunk: usize) -> impl DoubleEndedIterator<Item = Block> {
    (0..CHUNK_BYTES / BLOCK_BYTES).map(move |i| Block(chunk + i * BLOCK_BYTES))
}

impl Drop for Chunks {
    fn drop(&mut self) {
        for chunk in self.all.drain(..) {
            // SAFETY: taken in `grow`, and given back once.
            unsafe { supply::give(chunk) };
        }
    }
}
