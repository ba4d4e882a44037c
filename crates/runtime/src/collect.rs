//! Allocation, and the times and roots of collections.
//!
//! A collection happens where an object does not fit the window, in three cases:
//!
//! - So much was allocated as to be worth it
//!   ([`Heap::must_collect`](bifrost_heap::Heap::must_collect)).
//! - The allocation would fail at the limit of the heap.
//! - It would fail at the limit of the batch.
//!
//! The limit of a batch is on the bytes that it *adds* to the heap, counted after a collection. A
//! batch that makes garbage may make as much as it likes; one that keeps its objects is stopped.
//! Garbage from before the batch counts for it, not against it. Read [`Cx::alloc`] first.

use std::ptr::NonNull;
use std::sync::Arc;

use bifrost_heap::{
    Exhausted, Heap, HeapFull, HeapUse, Need, OBJECT_WORDS, Reference, SIZE_MASK, Source, Window,
};

use crate::abi::{Activation, ExitFrame, Ret, Word};
use crate::cx::{Collect, Cx, Hosting, Kill};
use crate::engine::Engine;
use crate::image::Table;
use crate::mode::Doom;
use crate::roots::Frame;

/// The bytes of objects from which on a silent session's heap is collected: two pages, of which the
/// marks take one.
const LET_GO_BYTES: usize = 8 << 10;
/// The bytes that may be allocated beyond the heap's limit for the text that says that it is
/// reached.
const RESERVE_BYTES: usize = 256 << 10;

/// The settings by which a context collects, and its measurements.
#[derive(Debug)]
pub(crate) struct Collecting {
    /// In place of the context's window when each allocation shall take the slow way.
    hidden: Window,
    /// Allocations until the next collection, or until the one that fails, when they are counted.
    countdown: u32,
    forbidden: bool,
    /// The living objects that the next collection is to name, and the names.
    named: Option<fn(Word) -> bool>,
    living: Vec<Word>,
    pub now_ns: fn() -> u64,
    pause_ns: u64,
    pause_ns_max: u64,
    pauses_ns: u64,
}

/// The use of a context's heap, and the time of its collections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeapStats {
    /// Bytes and numbers.
    pub usage: HeapUse,
    /// The time of the last collection.
    pub pause_ns: u64,
    /// The time of the longest.
    pub pause_ns_max: u64,
    /// The time of all together.
    pub pauses_ns: u64,
}

impl HeapStats {
    /// Of two heaps together; the last pause is the longer one.
    #[must_use]
    pub fn with(&self, other: &HeapStats) -> HeapStats {
        let (a, b) = (&self.usage, &other.usage);
        HeapStats {
            usage: HeapUse {
                limit_bytes: a.limit_bytes.saturating_add(b.limit_bytes),
                used_bytes: a.used_bytes.saturating_add(b.used_bytes),
                held_bytes: a.held_bytes.saturating_add(b.held_bytes),
                live_bytes: a.live_bytes.saturating_add(b.live_bytes),
                live_objects: a.live_objects.saturating_add(b.live_objects),
                allocated_bytes: a.allocated_bytes.saturating_add(b.allocated_bytes),
                collections: a.collections.saturating_add(b.collections),
            },
            pause_ns: self.pause_ns.max(other.pause_ns),
            pause_ns_max: self.pause_ns_max.max(other.pause_ns_max),
            pauses_ns: self.pauses_ns.saturating_add(other.pauses_ns),
        }
    }

    /// The part that remains of a heap that is gone: the time of its collections, and the bytes
    /// that it allocated.
    #[must_use]
    pub fn past(&self) -> HeapStats {
        let HeapUse { allocated_bytes, collections, .. } = self.usage;
        HeapStats { usage: HeapUse { allocated_bytes, collections, ..HeapUse::default() }, ..*self }
    }
}

impl Collecting {
    pub fn new(collect: Collect) -> Collecting {
        let countdown = match collect {
            Collect::Zeal(count) | Collect::Full(count) => count,
            Collect::Ordinary | Collect::Checked => 0,
        };
        Collecting {
            hidden: Window::empty(),
            countdown,
            forbidden: false,
            named: None,
            living: Vec::new(),
            now_ns: || 0,
            pause_ns: 0,
            pause_ns_max: 0,
            pauses_ns: 0,
        }
    }
}

impl Cx {
    /// A new object with `fields` zeroed fields.
    ///
    /// May collect: objects that nothing refers to but the caller's words are gone afterwards
    /// ([`roots`](crate::roots)).
    ///
    /// # Errors
    /// [`HeapFull`] at the heap's or the batch's limit.
    #[inline]
    pub fn alloc(&mut self, table: &'static Table, fields: usize) -> Result<NonNull<Word>, HeapFull> {
        let words = OBJECT_WORDS + fields;
        let object = match self.window.take(words) {
            Some(object) => {
                // SAFETY: the object has at least two words.
                unsafe { object.add(1).write(words as u64 & SIZE_MASK) };
                object
            }
            None => self.alloc_slow(words)?,
        };
        // SAFETY: as above.
        unsafe { object.write(table as *const Table as Word) };
        Ok(object)
    }

    /// The same without a collection, if there is room for that.
    #[inline]
    pub fn alloc_in_room(&mut self, table: &'static Table, fields: usize) -> Option<NonNull<Word>> {
        let words = OBJECT_WORDS + fields;
        let object = self.window.take(words)?;
        // SAFETY: the object has at least two words.
        unsafe {
            object.write(table as *const Table as Word);
            object.add(1).write(words as u64 & SIZE_MASK);
        }
        Some(object)
    }

    /// A new object whose shape has a finalizer, with zeroed fields: the finalizer may be called
    /// from now on.
    ///
    /// # Errors
    /// As for [`Cx::alloc`].
    pub fn alloc_finalizable(
        &mut self,
        table: &'static Table,
        fields: usize,
    ) -> Result<NonNull<Word>, HeapFull> {
        let object = self.alloc(table, fields)?;
        // SAFETY: the object was just made in this heap.
        unsafe { self.heap.add_finalizable(object) };
        Ok(object)
    }

    /// A place for an object with its header.
    #[cold]
    fn alloc_slow(&mut self, words: usize) -> Result<NonNull<Word>, HeapFull> {
        let bytes = words.saturating_mul(size_of::<Word>());
        let batch = HeapFull::of_heap(self.limits.batch_heap_bytes);
        if words as u64 > SIZE_MASK {
            return Err(batch);
        }
        if self.full_is_due() {
            return Err(batch);
        }
        let collects = self.collects();
        if collects && (self.heap.must_collect() || self.zeal_is_due()) {
            self.collect();
        }
        if self.batch_is_over(bytes) {
            if !collects {
                return Err(batch);
            }
            self.collect();
            // A batch that is close to its limit would have a collection for every few objects.
            if self.batch_is_over(bytes.max(self.limits.batch_heap_bytes / 32)) {
                return Err(batch);
            }
        }
        let first = self.place(words);
        if first.is_ok() || !collects {
            return first;
        }
        self.collect();
        if self.heap.is_tight() {
            return first;
        }
        self.heap.set_need(Need::Urgent);
        let second = self.place(words);
        self.heap.set_need(Need::Ordinary);
        second
    }

    fn place(&mut self, words: usize) -> Result<NonNull<Word>, HeapFull> {
        let window = match self.limits.collect {
            Collect::Zeal(_) | Collect::Full(_) => &mut self.collecting.hidden,
            _ => &mut self.window,
        };
        match window.take(words) {
            Some(object) => {
                // SAFETY: the object has at least two words.
                unsafe { object.add(1).write(words as u64 & SIZE_MASK) };
                Ok(object)
            }
            None => self.heap.alloc(window, words),
        }
    }

    fn batch_is_over(&self, bytes: usize) -> bool {
        self.batch_heap_bytes().saturating_add(bytes) > self.limits.batch_heap_bytes
    }

    fn zeal_is_due(&mut self) -> bool {
        let Collect::Zeal(every) = self.limits.collect else { return false };
        self.collecting.countdown -= 1;
        let due = self.collecting.countdown == 0;
        if due {
            self.collecting.countdown = every;
        }
        due
    }

    /// True for the allocation that a test has chosen to fail.
    fn full_is_due(&mut self) -> bool {
        if !matches!(self.limits.collect, Collect::Full(_)) || self.collecting.countdown == 0 {
            return false;
        }
        self.collecting.countdown -= 1;
        self.collecting.countdown == 0
    }

    /// Allocations until the one that fails, with [`Collect::Full`]; 0 if it has failed.
    pub fn allocations_until_full(&self) -> u32 {
        self.collecting.countdown
    }

    /// True if all references on the stack can be found.
    fn collects(&self) -> bool {
        !self.collecting.forbidden && self.image.engine().is_none_or(|engine| engine.collects())
    }

    /// Frees the objects that nothing refers to any more.
    #[cold]
    pub fn collect(&mut self) {
        if !self.collects() {
            return;
        }
        let start = (self.collecting.now_ns)();
        self.collecting.hidden = Window::empty();
        let Cx {
            heap,
            window,
            roots,
            image,
            root_object,
            exit_frame,
            activation,
            frames,
            transaction,
            node_state,
            host,
            words,
            node,
            collecting,
            ..
        } = self;
        heap.collect(window, |marker| {
            // SAFETY: all that is handed over are references or 0: of the context itself, and what
            // the stack has by the rules of `abi` and `roots`.
            unsafe {
                if let Some(named) = collecting.named.take() {
                    marker.name(named);
                }
                marker.root(Reference::of(*root_object));
                transaction.trace(marker);
                roots.trace(marker);
                words.spare = Default::default();
                if let (Some(Hosting(host)), Some(state)) = (&*host, node_state.as_mut()) {
                    host.trace(state, marker);
                }
                Frame::trace(*frames, &mut |word| marker.root(Reference::of(word)));
                if let Some(engine) = image.engine() {
                    trace_code(&**engine, *exit_frame, *activation, &mut |word| {
                        marker.root(Reference::of(word))
                    });
                }
                if let (Some(Hosting(host)), Some(state)) = (&*host, node_state.as_mut()) {
                    host.trace_known(state, *node, marker);
                }
                if let Some(keeper) = &transaction.keeper {
                    keeper.collected(&|object| marker.lives(object.reference()));
                }
                collecting.living = marker.named();
            }
        });
        let took = (self.collecting.now_ns)().saturating_sub(start);
        if let Some(host) = self.host() {
            host.collected(self, start);
        }
        self.collecting.pause_ns = took;
        self.collecting.pause_ns_max = self.collecting.pause_ns_max.max(took);
        self.collecting.pauses_ns += took;
    }

    /// Frees the objects that nothing refers to any more, and gives the memory back that they had.
    /// A heap with few objects is left as it is: the marks would take as much.
    pub fn let_go(&mut self) {
        if self.heap.filled_bytes() <= LET_GO_BYTES {
            return;
        }
        self.collect();
        self.heap.release_free();
    }

    /// Gives the directory of well-known objects up, and with it the whole heap if nothing else
    /// lives there. Returns false if something does, or may. Either way a directory must be
    /// [entered](Cx::set_root_object) before code runs.
    ///
    /// Cost: a collection.
    pub fn fold(&mut self) -> bool {
        self.root_object = 0;
        if !self.collects() {
            return false;
        }
        self.collect();
        let folds = self.heap.usage().live_objects == 0;
        match folds {
            true => self.heap.clear(&mut self.window),
            false => self.heap.release_free(),
        }
        folds
    }

    /// The living objects of which this is so, found by a collection; none if there can be none
    /// now. They live until the next one.
    pub fn living(&mut self, named: fn(Word) -> bool) -> Vec<Word> {
        self.collecting.named = Some(named);
        self.collect();
        self.collecting.named = None;
        std::mem::take(&mut self.collecting.living)
    }

    /// Adds the references that running code has on the stack.
    pub fn words_of_code(&self, words: &mut Vec<Word>) {
        // SAFETY: the lists are those of the context, and what is on the stack is there by the
        // rules of `abi` and `roots`.
        unsafe {
            Frame::trace(self.frames, &mut |word| words.push(word));
            if let Some(engine) = self.image.engine() {
                trace_code(&**engine, self.exit_frame, self.activation, &mut |word| words.push(word));
            }
        }
    }

    /// The heap.
    pub fn heap(&self) -> &Heap {
        &self.heap
    }

    /// The number of collections of the heap so far.
    #[inline]
    pub fn collections(&self) -> u64 {
        self.heap.collections()
    }

    /// The use of the heap, and the time of its collections.
    pub fn heap_stats(&self) -> HeapStats {
        let Collecting { pause_ns, pause_ns_max, pauses_ns, .. } = self.collecting;
        HeapStats { usage: self.heap.usage(), pause_ns, pause_ns_max, pauses_ns }
    }

    /// Has the heap share memory with others.
    pub fn set_memory(&mut self, source: Arc<dyn Source>) {
        self.heap.set_source(source);
    }

    /// The most bytes that all heaps may have that share memory with this one; 0 if there are none.
    pub fn shared_bytes_max(&self) -> usize {
        self.heap.source().map_or(0, |source| source.limit_bytes())
    }

    /// Gives memory back that is not needed, if others may lack it. No code runs.
    #[inline]
    pub fn make_room_for_others(&mut self) {
        if self.heap.source().is_some_and(|source| source.is_tight()) && self.heap.has_spare() {
            self.collect();
        }
    }

    /// Ends the code for which there is no memory left: by `failure`, or, if all sessions together
    /// have too much, with its batch.
    #[cold]
    pub fn out_of_memory(&mut self, full: HeapFull) -> Ret {
        if full.exhausted == Exhausted::Shared && self.is_in_batch() {
            let killed = self.kill(Kill::Memory);
            self.ask();
            return killed;
        }
        // The collection before was in vain.
        self.exhausted(&format!("out of memory: {full}"))
    }

    /// Signals `failure(text)` because stack or heap are exhausted, which [dooms](Cx::doom) the
    /// transaction. Does not collect, for code that is entered without an exit frame. The text goes
    /// beyond the limits if need be, into a small reserve; when that is used up it is empty.
    #[cold]
    pub fn exhausted(&mut self, text: &str) -> Ret {
        self.doom(Doom::Exhausted(text.to_owned()));
        self.beyond(RESERVE_BYTES, |cx| cx.failure(text))
    }
}

impl Cx {
    /// A new object as [`Cx::alloc`] makes it, or [`Cx::alloc_finalizable`] if its shape has a
    /// finalizer; beyond the limits and without a collection if need be: for objects whose making
    /// must not fail for lack of room.
    ///
    /// # Panics
    /// When the process has no memory left.
    #[cold]
    pub fn alloc_beyond(&mut self, table: &'static Table, fields: usize) -> Word {
        let made = self.alloc(table, fields);
        let made = made.or_else(|_| self.beyond(usize::MAX, |cx| cx.alloc(table, fields)));
        let object = made.expect("there is no limit");
        if table.shape().finalizer().is_some() {
            // SAFETY: the object was just made in this heap.
            unsafe { self.heap.add_finalizable(object) };
        }
        object.as_ptr() as Word
    }

    /// Does something while the heap may grow by so many bytes beyond its limit, and is not
    /// collected.
    fn beyond<T>(&mut self, bytes: usize, act: impl FnOnce(&mut Cx) -> T) -> T {
        let limits = self.limits;
        self.collecting.forbidden = true;
        self.limits.batch_heap_bytes = usize::MAX;
        self.heap.set_limit_bytes(limits.heap_bytes.saturating_add(bytes));
        self.heap.set_need(Need::Always);
        let done = act(self);
        self.heap.set_need(Need::Ordinary);
        self.heap.set_limit_bytes(limits.heap_bytes);
        self.limits = limits;
        self.collecting.forbidden = false;
        done
    }
}

/// Tells the references in frames of machine code.
///
/// # Safety
/// `exit` and `activation` are those of the context that runs, and the engine made all machine code
/// between them.
unsafe fn trace_code(
    engine: &dyn Engine,
    mut exit: *const ExitFrame,
    mut activation: *const Activation,
    tell: &mut impl FnMut(Word),
) {
    loop {
        if !exit.is_null() {
            // SAFETY: an exit frame lies in the frame of a trampoline that has not returned.
            unsafe { trace_exit(engine, exit, tell) };
        }
        if activation.is_null() {
            return;
        }
        // SAFETY: activations in the list belong to calls that have not returned.
        unsafe { Activation { exit_frame: exit, previous: activation } = std::ptr::read(activation) };
    }
}

/// Tells the references of a trampoline and of the machine code below it.
///
/// # Safety
/// As for [`trace_code`].
unsafe fn trace_exit(engine: &dyn Engine, exit: *const ExitFrame, tell: &mut impl FnMut(Word)) {
    // SAFETY: the layout of frames is that of `abi`; the walk ends at the first return address that
    // is not the compiler's.
    unsafe {
        let arguments = (&raw const (*exit).references).cast::<Word>();
        for i in 0..(*exit).count {
            tell(*arguments.add(i));
        }
        let mut frame = (*exit).frame_pointer as *const usize;
        // Copied, so that nobody waits for a table of the engine's while objects are marked.
        let mut offsets = Vec::new();
        while engine.stack_map(*frame.add(1), &mut offsets) {
            let stack = frame.add(2).cast::<u8>();
            for offset in offsets.drain(..) {
                tell(*stack.add(offset as usize).cast::<Word>());
            }
            frame = *frame as *const usize;
        }
    }
}
