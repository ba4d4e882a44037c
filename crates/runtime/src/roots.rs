//! Roots: the references that keep objects alive besides those of other objects.
//!
//! Objects never move, so a root is a copy of a reference that the collector can find; the word
//! itself may be anywhere else besides. There is a kind for each way to hold references:
//!
//! | holder | kept by | until |
//! | --- | --- | --- |
//! | a running native | [`Cx::keep`], [`Cx::keep_all`], [`Cx::keep_list`] | the guard is dropped |
//! | a Rust value that outlives a call | [`Cx::root`] | the last clone is dropped |
//! | a table of references, as a session's handles | [`Cx::new_root_set`] | the set is dropped |
//! | the interpreter's variables | [`Frame`] | the guard is dropped |
//! | compiled code | stack maps, see [`crate::abi`] | |

use std::cell::RefCell;
use std::ptr::NonNull;
use std::sync::{Arc, Weak};

use bifrost_heap::{Marker, Reference};

use crate::abi::Word;
use crate::cx::Cx;

/// The words that natives keep, behind a pointer of its own so that guards need not borrow the
/// context.
#[derive(Debug, Default)]
pub(crate) struct KeptWords {
    words: RefCell<Vec<Word>>,
}

impl KeptWords {
    #[inline]
    fn push_one(&self, word: Word) -> usize {
        let mut all = self.words.borrow_mut();
        all.push(word);
        all.len() - 1
    }

    fn push(&self, words: &[Word]) -> usize {
        let mut all = self.words.borrow_mut();
        all.extend_from_slice(words);
        all.len() - words.len()
    }

    #[inline]
    fn remove(&self, from: usize, count: usize) {
        let mut all = self.words.borrow_mut();
        // Guards usually go in the reverse order of their coming.
        match from + count == all.len() {
            true => all.truncate(from),
            false => all[from..from + count].fill(0),
        }
    }
}

/// The roots of a context that are not on its stack.
#[derive(Debug)]
pub(crate) struct Roots {
    kept: NonNull<KeptWords>,
    rooted: Vec<Weak<Word>>,
    /// The length of `rooted` at which the dropped ones are sorted out.
    rooted_most: usize,
    sets: Vec<Option<(Weak<()>, Vec<Word>)>>,
}

impl Roots {
    pub fn new() -> Roots {
        let kept = NonNull::from(Box::leak(Box::default()));
        Roots { kept, rooted: Vec::new(), rooted_most: 64, sets: Vec::new() }
    }

    /// Hands all roots to the collector, and forgets those whose owners are gone.
    pub fn trace(&mut self, marker: &mut Marker) {
        // SAFETY: each word that is kept is 0 or a reference to an object of the context.
        let mut root = |word: Word| marker.root(unsafe { Reference::of(word) });
        self.kept().words.borrow().iter().for_each(|word| root(*word));
        self.forget_dropped();
        self.rooted.iter().filter_map(Weak::upgrade).for_each(|word| root(*word));
        self.sets.iter().flatten().flat_map(|(_, words)| words).for_each(|word| root(*word));
    }

    /// All words; each is 0 or a reference.
    pub fn words(&self) -> Vec<Word> {
        let rooted = self.rooted.iter().filter_map(|root| root.upgrade().map(|word| *word));
        let sets = self.sets.iter().flatten().flat_map(|(_, words)| words.iter().copied());
        self.kept().words.borrow().iter().copied().chain(rooted).chain(sets).collect()
    }

    fn kept(&self) -> &KeptWords {
        // SAFETY: the words live as long as the context, see `Drop`.
        unsafe { self.kept.as_ref() }
    }

    fn forget_dropped(&mut self) {
        self.rooted.retain(|root| root.strong_count() > 0);
        self.rooted_most = (self.rooted.len() * 2).max(64);
        for set in &mut self.sets {
            if set.as_ref().is_some_and(|(alive, _)| alive.strong_count() == 0) {
                *set = None;
            }
        }
    }
}

impl Drop for Roots {
    fn drop(&mut self) {
        // A guard that outlives its context finds its words still there.
        if self.kept().words.borrow().is_empty() {
            // SAFETY: made by `Box::leak`, and no guard points at it.
            drop(unsafe { Box::from_raw(self.kept.as_ptr()) });
        }
    }
}

/// Keeps an object alive while a native runs. It belongs to the thread that runs the context.
#[derive(Debug)]
#[must_use = "the object is kept as long as this lives"]
pub struct Kept {
    kept: NonNull<KeptWords>,
    at: usize,
}

impl Kept {
    /// Keeps another object instead.
    pub fn set(&self, word: Word) {
        // SAFETY: guards live no longer than the words, see `Roots::drop`.
        unsafe { self.kept.as_ref() }.words.borrow_mut()[self.at] = word;
    }

    /// The reference.
    pub fn word(&self) -> Word {
        // SAFETY: as in `set`.
        unsafe { self.kept.as_ref() }.words.borrow()[self.at]
    }
}

impl Drop for Kept {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: as in `set`.
        unsafe { self.kept.as_ref() }.remove(self.at, 1);
    }
}

/// Keeps objects alive while a native runs. It belongs to the thread that runs the context.
#[derive(Debug)]
#[must_use = "the objects are kept as long as this lives"]
pub struct KeptAll {
    kept: NonNull<KeptWords>,
    from: usize,
    count: usize,
}

impl Drop for KeptAll {
    fn drop(&mut self) {
        // SAFETY: as in `Kept::set`.
        unsafe { self.kept.as_ref() }.remove(self.from, self.count);
    }
}

/// Keeps objects alive that come one after the other. It belongs to the thread that runs the
/// context.
#[derive(Debug)]
#[must_use = "the objects are kept as long as this lives"]
pub struct KeptList(KeptAll);

impl KeptList {
    /// The number of words.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.count
    }

    /// True if there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A word.
    ///
    /// # Panics
    /// There are not so many.
    #[inline]
    pub fn get(&self, at: usize) -> Word {
        assert!(at < self.len(), "a word of the list");
        self.words().borrow()[self.0.from + at]
    }

    /// Keeps another object instead.
    ///
    /// # Panics
    /// There are not so many.
    #[inline]
    pub fn set(&mut self, at: usize, word: Word) {
        assert!(at < self.len(), "a word of the list");
        self.words().borrow_mut()[self.0.from + at] = word;
    }

    /// Keeps one more.
    #[inline]
    pub fn push(&mut self, word: Word) {
        let KeptAll { kept, from, count } = &mut self.0;
        // SAFETY: as in `Kept::set`.
        let mut all = unsafe { kept.as_ref() }.words.borrow_mut();
        if *from + *count != all.len() {
            // Another guard came behind these and is still there.
            let end = all.len();
            all.extend_from_within(*from..*from + *count);
            all[*from..*from + *count].fill(0);
            *from = end;
        }
        all.push(word);
        *count += 1;
    }

    fn words(&self) -> &RefCell<Vec<Word>> {
        // SAFETY: as in `Kept::set`.
        &unsafe { self.0.kept.as_ref() }.words
    }
}

/// Keeps an object alive from anywhere: in a Rust value, on another thread. Cheap to clone.
///
/// Two objects that hold roots of each other are never freed.
#[derive(Clone, Debug)]
pub struct Root(Arc<Word>);

impl Root {
    /// The reference.
    #[inline]
    pub fn word(&self) -> Word {
        *self.0
    }
}

/// Names a list of roots of one context, which lives until this is dropped.
#[derive(Debug)]
pub struct RootSet {
    index: usize,
    _alive: Arc<()>,
}

impl Cx {
    /// Keeps an object alive until the guard is dropped. `word` is a reference, or 0 for nothing.
    #[inline]
    pub fn keep(&mut self, word: Word) -> Kept {
        let roots = &mut self.roots;
        Kept { kept: roots.kept, at: roots.kept().push_one(word) }
    }

    /// Keeps objects alive until the guard is dropped. Each word is a reference or 0.
    pub fn keep_all(&mut self, words: &[Word]) -> KeptAll {
        let roots = &mut self.roots;
        KeptAll { kept: roots.kept, from: roots.kept().push(words), count: words.len() }
    }

    /// Keeps alive the references put into the list, until that is dropped. It begins with `count`
    /// places for words, which are 0.
    pub fn keep_list(&mut self, count: usize) -> KeptList {
        let kept = self.roots.kept;
        let mut words = self.roots.kept().words.borrow_mut();
        let from = words.len();
        words.resize(from + count, 0);
        KeptList(KeptAll { kept, from, count })
    }

    /// Keeps an object alive until the root and its clones are dropped. `word` is a reference, or 0
    /// for nothing.
    pub fn root(&mut self, word: Word) -> Root {
        let roots = &mut self.roots;
        if roots.rooted.len() >= roots.rooted_most {
            roots.forget_dropped();
        }
        let root = Root(Arc::new(word));
        roots.rooted.push(Arc::downgrade(&root.0));
        root
    }

    /// An empty list of roots, which this context has until the name is dropped.
    pub fn new_root_set(&mut self) -> RootSet {
        let roots = &mut self.roots;
        roots.forget_dropped();
        let alive = Arc::new(());
        let set = Some((Arc::downgrade(&alive), Vec::new()));
        let index = match roots.sets.iter().position(Option::is_none) {
            Some(free) => {
                roots.sets[free] = set;
                free
            }
            None => {
                roots.sets.push(set);
                roots.sets.len() - 1
            }
        };
        RootSet { index, _alive: alive }
    }

    /// The words of a root set of this context; each is 0 or a reference.
    ///
    /// # Panics
    /// With the set of another context.
    #[inline]
    pub fn root_set(&mut self, set: &RootSet) -> &mut Vec<Word> {
        match self.roots.sets.get_mut(set.index) {
            Some(Some((_, words))) => words,
            _ => panic!("a root set of another context"),
        }
    }
}

/// An activation of interpreted code: its words, and which of them are references.
#[derive(Debug)]
pub struct Frame {
    previous: *const Frame,
    words: *const Word,
    references: *const [u32],
}

/// Takes the frame out of the context's list.
#[derive(Debug)]
pub struct FrameGuard {
    cx: *mut Cx,
    previous: *const Frame,
}

impl Frame {
    /// A frame whose words at these places are references or 0 as long as it is in the list.
    pub fn new(words: *const Word, references: &[u32]) -> Frame {
        Frame { previous: std::ptr::null(), words, references }
    }

    /// Puts the frame into the context's list until the guard is dropped.
    ///
    /// # Safety
    /// `cx` is the current context. The frame, its words and the list of places stay where they are
    /// while the guard lives, and guards are dropped in the reverse order of their making.
    #[inline]
    pub unsafe fn link(&mut self, cx: *mut Cx) -> FrameGuard {
        // SAFETY: promised by the caller.
        let cx_frames = unsafe { &mut (*cx).frames };
        self.previous = *cx_frames;
        *cx_frames = self;
        FrameGuard { cx, previous: self.previous }
    }

    /// Tells the references of this frame and of those before it.
    ///
    /// # Safety
    /// The frames are in the list of a context.
    pub(crate) unsafe fn trace(mut frame: *const Frame, tell: &mut impl FnMut(Word)) {
        while !frame.is_null() {
            // SAFETY: frames in the list live, and so do their words, as `link` was promised.
            unsafe {
                let Frame { previous, words, references } = *frame;
                for place in &*references {
                    tell(*words.add(*place as usize));
                }
                frame = previous;
            }
        }
    }
}

impl Drop for FrameGuard {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the context outlives what runs in it.
        unsafe { (*self.cx).frames = self.previous };
    }
}
