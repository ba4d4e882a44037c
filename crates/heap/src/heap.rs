//! The heap: hands out places for objects, and frees those of dead objects in a collection.
//!
//! Read [`Heap::alloc`] and [`Heap::collect`] first. [`Heap`] owns its memory: [`Chunks`], whose
//! blocks are handed out to the [`Window`] of allocation, and large objects, each with an
//! allocation of its own. A collection leaves each block in one of three states: full, used in part
//! (its holes are handed out first), or free. The memory comes from the system, and is counted by a
//! [`Source`] if several heaps share a limit. The roots belong to the caller; the marks are made by
//! a [`Marker`].

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::blocks::{BLOCK_BYTES, Block, CHUNK_BYTES, Chunks, Hole, LINE_BYTES};
use crate::large::Large;
use crate::mark::Marker;
use crate::source::return_free_memory;
use crate::{Exhausted, HeapFull, LARGE, Need, POISON, Reference, SIZE_MASK, Source, Window, Word, supply};

/// Objects of so many bytes and more that do not fit the window are large: each has an allocation
/// of its own.
pub const LARGE_BYTES_MIN: usize = (8 << 10) + size_of::<Word>();

/// The bytes allocated between two collections are so many times those that lived after the last
/// one. They are no less than [`INTERVAL_BYTES_MIN`], and more than [`INTERVAL_BYTES_LOW`] only up
/// to as many as lived.
const INTERVAL_LIVES: usize = 32;

/// Least allocation between two collections, in bytes: memory that is handed out again is still in
/// the processor's cache then.
const INTERVAL_BYTES_MIN: usize = 2 << 20;

/// See [`INTERVAL_LIVES`].
const INTERVAL_BYTES_LOW: usize = 32 << 20;

/// The memory of one session or node.
#[derive(Debug)]
pub struct Heap {
    chunks: Chunks,
    /// Blocks without a line in use, the one with the lowest address last.
    free: Vec<Block>,
    /// The addresses of blocks of the last chunk that were never handed out, and are zero.
    untouched: Range<usize>,
    /// Blocks that the last collection found used in part.
    partial: Vec<Block>,
    /// The number of them that have been handed out.
    partial_next: usize,
    /// The lines in use of the blocks used in part, while the tables of marks have given their
    /// memory back.
    packed: Vec<u128>,
    /// The block whose holes are being handed out, and from which line on.
    current: Option<(Block, usize)>,
    /// For objects of more than a line that do not fit the window.
    overflow: Window,
    large: Vec<Large>,
    /// Objects that own something outside the heap.
    finalizable: Vec<NonNull<Word>>,
    epoch: u8,
    check: bool,
    limit_bytes: usize,
    large_bytes: usize,
    live_bytes: usize,
    live_objects: usize,
    /// Bytes handed out since the last collection.
    fresh_bytes: usize,
    /// Bytes handed out before it.
    old_bytes: u64,
    collections: u64,
    /// The source of memory, if other heaps share it, and the urgency of the need.
    source: Option<Arc<dyn Source>>,
    need: Need,
}

// SAFETY: what the heap has is owned by it and reached through it only.
unsafe impl Send for Heap {}

/// The use of a heap, in bytes and numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeapUse {
    /// The limit.
    pub limit_bytes: usize,
    /// Bytes of blocks in use, and of large objects; never more than the limit.
    pub used_bytes: usize,
    /// Bytes taken from the system, free blocks included.
    pub held_bytes: usize,
    /// Bytes of the objects that the last collection found.
    pub live_bytes: usize,
    /// The number of these objects.
    pub live_objects: usize,
    /// Bytes handed out for objects ever.
    pub allocated_bytes: u64,
    /// Collections.
    pub collections: u64,
}

impl Heap {
    /// An empty heap that uses no more than `limit_bytes`.
    pub fn new(limit_bytes: usize) -> Heap {
        Heap {
            chunks: Chunks::default(),
            free: Vec::new(),
            untouched: 0..0,
            partial: Vec::new(),
            partial_next: 0,
            packed: Vec::new(),
            current: None,
            overflow: Window::empty(),
            large: Vec::new(),
            finalizable: Vec::new(),
            epoch: 1,
            check: false,
            limit_bytes,
            large_bytes: 0,
            live_bytes: 0,
            live_objects: 0,
            fresh_bytes: 0,
            old_bytes: 0,
            collections: 0,
            source: None,
            need: Need::Ordinary,
        }
    }

    /// Makes the heap share memory with others. The memory that it has already is taken from there.
    pub fn set_source(&mut self, source: Arc<dyn Source>) {
        source.take(self.held_bytes(), Need::Always);
        self.source = Some(source);
    }

    /// The source that the heap shares with others.
    pub fn source(&self) -> Option<&Arc<dyn Source>> {
        self.source.as_ref()
    }

    /// Changes how urgent memory is from now on.
    pub fn set_need(&mut self, need: Need) {
        self.need = need;
    }

    /// Bytes taken from the system, free blocks included.
    pub fn held_bytes(&self) -> usize {
        self.chunks.len() * CHUNK_BYTES - self.untouched.len() + self.large_bytes
    }

    /// Takes bytes from the source that the heap shares with others, if it does.
    fn take(&self, bytes: usize) -> Result<(), HeapFull> {
        match &self.source {
            Some(source) if !source.take(bytes, self.need) => {
                Err(HeapFull { limit: source.limit_bytes(), exhausted: Exhausted::Shared })
            }
            _ => Ok(()),
        }
    }

    /// Gives bytes, which were freed, back to the source that the heap shares with others.
    fn give(&self, bytes: usize) {
        if let Some(source) = self.source.as_ref().filter(|_| bytes > 0) {
            if source.is_tight() {
                return_free_memory();
            }
            source.give(bytes);
        }
    }

    /// The system has no memory for so many bytes, which were taken.
    #[cold]
    fn refused(&self, bytes: usize) -> HeapFull {
        self.give(bytes);
        HeapFull { limit: 0, exhausted: Exhausted::System }
    }

    /// Makes collections look at every reference from now on, and fill freed memory with
    /// [`POISON`].
    pub fn set_check(&mut self, check: bool) {
        self.check = check;
    }

    /// The limit, in bytes.
    pub fn limit_bytes(&self) -> usize {
        self.limit_bytes
    }

    /// Changes the limit.
    pub fn set_limit_bytes(&mut self, limit_bytes: usize) {
        self.limit_bytes = limit_bytes;
    }

    /// Bytes of blocks in use, and of large objects.
    pub fn used_bytes(&self) -> usize {
        let blocks = self.chunks.len() * (CHUNK_BYTES / BLOCK_BYTES) - self.free.len();
        blocks * BLOCK_BYTES + self.large_bytes
    }

    /// Bytes of the objects that the last collection found, and of those that were handed out
    /// since.
    #[inline]
    pub fn filled_bytes(&self) -> usize {
        self.live_bytes + self.fresh_bytes
    }

    /// The number of collections so far.
    #[inline]
    pub fn collections(&self) -> u64 {
        self.collections
    }

    /// The use of the heap.
    pub fn usage(&self) -> HeapUse {
        HeapUse {
            limit_bytes: self.limit_bytes,
            used_bytes: self.used_bytes(),
            held_bytes: self.held_bytes(),
            live_bytes: self.live_bytes,
            live_objects: self.live_objects,
            allocated_bytes: self.old_bytes + self.fresh_bytes as u64,
            collections: self.collections,
        }
    }

    /// The number of bytes allocated between two collections.
    #[inline]
    fn interval_bytes(&self) -> usize {
        let many = self.live_bytes.saturating_mul(INTERVAL_LIVES);
        many.clamp(INTERVAL_BYTES_MIN, INTERVAL_BYTES_LOW).max(self.live_bytes)
    }

    /// True if so much was allocated that a collection is worth its cost.
    #[inline]
    pub fn must_collect(&self) -> bool {
        self.fresh_bytes >= self.interval_bytes()
    }

    /// True if a collection may give memory back: the heap holds more than the bytes that lived
    /// after the last one, by some chunks.
    pub fn has_spare(&self) -> bool {
        self.held_bytes() > self.live_bytes.saturating_mul(2).saturating_add(2 * CHUNK_BYTES)
    }

    /// True if live objects fill the heap so far that a collection gains too little to be repeated
    /// for the next object.
    pub fn is_tight(&self) -> bool {
        self.live_bytes > self.limit_bytes - self.limit_bytes / 32
    }

    /// True if live objects, as far as the last collection found, fill three quarters of the heap.
    pub fn is_filled(&self) -> bool {
        self.live_bytes > self.most_bytes()
    }

    /// True if that may be so by now, and so much was allocated that a collection is worth its cost
    /// to learn it.
    pub fn may_be_filled(&self) -> bool {
        self.filled_bytes() > self.most_bytes() && self.fresh_bytes > self.limit_bytes / 8
    }

    fn most_bytes(&self) -> usize {
        self.limit_bytes - self.limit_bytes / 4
    }

    /// Returns a place for an object of `words` words that did not fit the window, and gives the
    /// window new room if that is useful. The rest of the old room stays unused until the next
    /// collection. The object's header is in its place, all else is zero.
    ///
    /// # Errors
    /// [`HeapFull`] when a limit would be passed; the window is as before.
    pub fn alloc(&mut self, window: &mut Window, words: usize) -> Result<NonNull<Word>, HeapFull> {
        let bytes = words.checked_mul(size_of::<Word>()).ok_or(self.full())?;
        let (object, flags) = if bytes >= LARGE_BYTES_MIN {
            (Some(self.alloc_large(bytes)?), LARGE)
        } else if bytes > LINE_BYTES {
            (self.alloc_medium(words)?, 0)
        } else {
            // A hole has a line at least, so the object fits.
            let hole = self.next_hole()?;
            *window = self.open(hole);
            (window.take(words), 0)
        };
        let object = object.ok_or(self.full())?;
        // SAFETY: every object has a header.
        unsafe { object.add(1).write(words as u64 & SIZE_MASK | flags) };
        Ok(object)
    }

    /// Notes that an object just made owns something outside the heap, as its shape says.
    ///
    /// # Safety
    /// `object` was just allocated here, and its table is in its place.
    pub unsafe fn add_finalizable(&mut self, object: NonNull<Word>) {
        self.finalizable.push(object);
    }

    fn full(&self) -> HeapFull {
        HeapFull::of_heap(self.limit_bytes)
    }

    fn alloc_large(&mut self, bytes: usize) -> Result<NonNull<Word>, HeapFull> {
        if self.used_bytes().saturating_add(bytes) > self.limit_bytes {
            return Err(self.full());
        }
        self.take(bytes)?;
        let large = Large::new(bytes).ok_or_else(|| self.refused(bytes))?;
        let object = large.object();
        self.large.push(large);
        self.large_bytes += bytes;
        self.fresh_bytes += bytes;
        Ok(object)
    }

    /// An object of several lines goes to a block of its kind, so that the holes of others stay for
    /// small ones.
    fn alloc_medium(&mut self, words: usize) -> Result<Option<NonNull<Word>>, HeapFull> {
        if let Some(object) = self.overflow.take(words) {
            return Ok(Some(object));
        }
        let hole = match self.next_free_block() {
            Ok(hole) => hole,
            Err(full) => self.find_hole(words * size_of::<Word>()).ok_or(full)?,
        };
        self.overflow = self.open(hole);
        Ok(self.overflow.take(words))
    }

    /// Makes a hole usable.
    fn open(&mut self, hole: Hole) -> Window {
        if !hole.zero {
            // SAFETY: nothing lives in a hole.
            unsafe { hole.fill(0) };
        }
        self.fresh_bytes += hole.bytes;
        // SAFETY: the end of the hole.
        Window { next: hole.start, end: unsafe { hole.start.add(hole.bytes / size_of::<Word>()) } }
    }

    /// The next run of free lines, in the order of addresses.
    fn next_hole(&mut self) -> Result<Hole, HeapFull> {
        self.unpack();
        loop {
            if let Some((block, line)) = self.current {
                if let Some((hole, next)) = block.next_hole(line, self.epoch) {
                    self.current = Some((block, next));
                    return Ok(hole);
                }
                self.current = None;
            }
            if let Some(block) = self.partial.get(self.partial_next) {
                self.partial_next += 1;
                self.current = Some((*block, 0));
                continue;
            }
            return self.next_free_block();
        }
    }

    /// A hole of so many bytes in a block used in part, when no block is free.
    fn find_hole(&mut self, bytes: usize) -> Option<Hole> {
        self.unpack();
        for block in &self.partial[self.partial_next..] {
            let mut line = 0;
            while let Some((hole, next)) = block.next_hole(line, self.epoch) {
                if hole.bytes >= bytes {
                    hole.take(self.epoch);
                    return Some(hole);
                }
                line = next;
            }
        }
        None
    }

    /// The whole of a block without a line in use, within the limit.
    fn next_free_block(&mut self) -> Result<Hole, HeapFull> {
        if self.used_bytes() + BLOCK_BYTES > self.limit_bytes {
            return Err(self.full());
        }
        if self.free.is_empty() {
            let blocks = self.chunks.grow().ok_or_else(|| self.refused(CHUNK_BYTES))?;
            self.free.extend(blocks.rev());
            // A small heap touches no page before it needs it.
            let (first, last) = (self.free.last(), self.free.first());
            self.untouched = match (first, last) {
                (Some(first), Some(last)) => first.address()..last.address() + BLOCK_BYTES,
                _ => 0..0,
            };
        }
        let block = *self.free.last().ok_or(self.full())?;
        let zero = self.untouched.contains(&block.address());
        if zero {
            let next = block.address() + BLOCK_BYTES;
            self.take(next - self.untouched.start)?;
            self.untouched.start = next;
        }
        self.free.pop();
        Ok(block.whole(zero))
    }

    /// Frees the objects that the roots do not reach. `roots` passes all roots to the [`Marker`].
    /// The window is empty afterwards.
    ///
    /// Cost: the live objects, a byte for each line, the list of large objects, and that of objects
    /// with finalizers.
    pub fn collect(&mut self, window: &mut Window, roots: impl FnOnce(&mut Marker)) {
        *window = Window::empty();
        self.overflow = Window::empty();
        // Old marks are of no use from now on.
        self.packed = Vec::new();
        self.epoch = match self.epoch {
            u8::MAX => {
                // Marks as old as an epoch can tell would seem new.
                self.chunks.clear_marks();
                1
            }
            epoch => epoch + 1,
        };
        let mut marker = Marker::new(self.epoch, self.check);
        roots(&mut marker);
        (self.live_bytes, self.live_objects) = marker.live();
        self.old_bytes += self.fresh_bytes as u64;
        self.fresh_bytes = 0;
        self.collections += 1;
        self.finalize();
        if self.check {
            self.poison();
        }
        let given = self.sweep_large() + self.sweep_blocks();
        self.give(given);
    }

    /// Frees all objects, and gives all memory back. The window is empty afterwards.
    ///
    /// Nothing refers to an object of the heap.
    pub fn clear(&mut self, window: &mut Window) {
        *window = Window::empty();
        self.overflow = Window::empty();
        self.finalize_all();
        let held = self.held_bytes();
        (self.large, self.chunks) = (Vec::new(), Chunks::default());
        (self.free, self.partial, self.packed) = (Vec::new(), Vec::new(), Vec::new());
        (self.untouched, self.partial_next, self.current) = (0..0, 0, None);
        (self.large_bytes, self.live_bytes, self.live_objects) = (0, 0, 0);
        self.old_bytes += self.fresh_bytes as u64;
        self.fresh_bytes = 0;
        self.give(held);
    }

    /// Makes freed memory unusable. Blocks that were free before have been so already, or were
    /// never used.
    fn poison(&mut self) {
        for block in self.chunks.blocks().filter(|block| !self.free.contains(block)) {
            let mut line = 0;
            while let Some((hole, end)) = block.next_hole(line, self.epoch) {
                // SAFETY: marking is over, and nothing lives in lines without mark.
                unsafe { hole.fill(POISON) };
                line = end;
            }
        }
        for large in &self.large {
            // SAFETY: the list has objects of this heap; what is not marked is freed after this.
            unsafe {
                if !Reference::new(large.object().as_ptr() as Word).is_marked(self.epoch) {
                    large.object().write(POISON);
                }
            }
        }
    }

    fn finalize(&mut self) {
        let epoch = self.epoch;
        self.finalizable.retain(|object| {
            // SAFETY: the list has objects of this heap, whose memory is freed after this.
            let object = unsafe { Reference::new(object.as_ptr() as Word) };
            let lives = object.is_marked(epoch);
            if !lives {
                // SAFETY: as above; nothing refers to the object, and it leaves the list.
                unsafe { finalize(object) };
            }
            lives
        });
    }

    fn finalize_all(&mut self) {
        for object in std::mem::take(&mut self.finalizable) {
            // SAFETY: finalized objects leave the list; all memory is still there.
            unsafe { finalize(Reference::new(object.as_ptr() as Word)) };
        }
    }

    /// Frees large objects; returns how many bytes.
    fn sweep_large(&mut self) -> usize {
        let (epoch, mut freed) = (self.epoch, 0);
        self.large.retain(|large| {
            // SAFETY: the list has objects of this heap.
            let lives = unsafe { Reference::new(large.object().as_ptr() as Word) }.is_marked(epoch);
            if !lives {
                freed += large.bytes();
            }
            lives
        });
        self.large_bytes -= freed;
        freed
    }

    /// Gives memory back to the system, after a collection: blocks without a line in use, whole
    /// free pages of other blocks, and the tables of marks. All take memory again when used.
    pub fn release_free(&mut self) {
        // In blocks that were handed out since, new objects have no marks.
        if self.partial_next == 0 && self.current.is_none() && self.packed.is_empty() {
            for block in &self.partial {
                for (start, bytes) in block.free_pages(self.epoch) {
                    // SAFETY: nothing lives in these lines, and the table of marks is elsewhere.
                    unsafe { supply::clear(start, bytes) };
                }
            }
            // Those of other blocks are not read before the next collection.
            self.packed = self.partial.iter().map(|block| block.lines_in_use(self.epoch)).collect();
            self.chunks.release_marks();
        }
        let mut used: Vec<Block> =
            self.free.iter().filter(|block| !self.untouched.contains(&block.address())).copied().collect();
        used.sort_unstable();
        for run in used.chunk_by(|a, b| a.address() + BLOCK_BYTES == b.address() && a.chunk() == b.chunk()) {
            let (first, last) = (run[0].whole(false), run[run.len() - 1].whole(false));
            let (start, end) = (first.start as usize, last.start as usize + last.bytes);
            // SAFETY: nothing lives in these blocks, whose tables of marks are elsewhere.
            unsafe { supply::clear(start, end - start) };
        }
    }

    /// Writes the marks of blocks used in part again, before holes are looked for.
    fn unpack(&mut self) {
        for (block, lines) in self.partial.iter().zip(std::mem::take(&mut self.packed)) {
            block.mark_again(lines, self.epoch);
        }
    }

    /// Sorts the blocks by use, and gives chunks without use back, but for as much as will be
    /// allocated before the next collection. Returns how many bytes these were.
    fn sweep_blocks(&mut self) -> usize {
        self.free.clear();
        self.partial.clear();
        (self.partial_next, self.current) = (0, None);
        let tight = self.source.as_ref().is_some_and(|source| source.is_tight());
        let mut spare = if tight { 0 } else { self.interval_bytes() / CHUNK_BYTES };
        let mut idle = Vec::new();
        let blocks: Vec<Block> = self.chunks.blocks().collect();
        for chunk in blocks.chunk_by(|a, b| a.chunk() == b.chunk()) {
            let (free, partial) = (self.free.len(), self.partial.len());
            for block in chunk {
                match block.used_lines(self.epoch) {
                    0 => self.free.push(*block),
                    used if used < block.lines() => self.partial.push(*block),
                    _ => {}
                }
            }
            if self.free.len() - free == chunk.len() {
                debug_assert_eq!(self.partial.len(), partial);
                match spare.checked_sub(1) {
                    Some(less) => spare = less,
                    None => {
                        self.free.truncate(free);
                        idle.push(chunk[0].chunk());
                    }
                }
            }
        }
        self.free.reverse();
        let before = self.held_bytes();
        if idle.iter().any(|chunk| (*chunk..*chunk + CHUNK_BYTES).contains(&self.untouched.start)) {
            self.untouched = 0..0;
        }
        // SAFETY: no line of these chunks is in use, and their blocks are in no list.
        unsafe { self.chunks.release(&idle) };
        before - self.held_bytes()
    }
}

/// Frees the things that an object owns outside the heap.
///
/// # Safety
/// The object's finalizer has not been called for it.
unsafe fn finalize(object: Reference) {
    if let Some(finalizer) = object.shape().finalizer() {
        // SAFETY: the finalizer is that of the object's shape, called once; its memory is there.
        unsafe { finalizer(object.word() as *mut Word) };
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        self.clear(&mut Window::empty());
    }
}

// An object that is not large fits the block that has the chunk's table.
const _: () = assert!(LARGE_BYTES_MIN <= BLOCK_BYTES - CHUNK_BYTES / LINE_BYTES);
