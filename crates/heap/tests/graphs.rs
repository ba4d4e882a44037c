//! Random graphs of objects against a model that says which of them live.

use std::collections::{BTreeMap, BTreeSet};

use bifrost_heap::{
    Heap, HeapFull, LARGE_BYTES_MIN, LINE_BYTES, OBJECT_WORDS, Reference, SIZE_MASK, Shape, Window, Word,
};
use proptest::prelude::*;

/// A table as the heap sees it, and what the model has to know of it.
struct Kind {
    table: &'static [&'static Shape; 1],
    references: fn(usize) -> Vec<usize>,
}

fn kinds() -> [Kind; 4] {
    let table = |shape: Shape| -> &'static [&'static Shape; 1] {
        Box::leak(Box::new([&*Box::leak(Box::new(shape))]))
    };
    [
        Kind { table: table(Shape::leaf()), references: |_| vec![] },
        Kind { table: table(Shape::of([1, 2])), references: |_| vec![1, 2] },
        Kind { table: table(Shape::tail_from(1)), references: |fields| (1..fields).collect() },
        Kind { table: table(Shape::of([0, 63, 64, 90])), references: |_| vec![0, 63, 64, 90] },
    ]
}

/// What the model knows of an object: the identity in its last field, and whom it refers to.
#[derive(Clone, Debug)]
struct Object {
    address: Word,
    fields: usize,
    references: BTreeMap<usize, usize>,
}

struct World {
    kinds: [Kind; 4],
    heap: Heap,
    window: Window,
    objects: BTreeMap<usize, Object>,
    roots: BTreeSet<usize>,
    next: usize,
}

impl World {
    fn new(limit: usize) -> World {
        let mut heap = Heap::new(limit);
        heap.set_check(true);
        let (objects, roots) = (BTreeMap::new(), BTreeSet::new());
        World { kinds: kinds(), heap, window: Window::empty(), objects, roots, next: 0 }
    }

    fn make(&mut self, kind: usize, fields: usize) -> Result<usize, HeapFull> {
        // Field numbers up to 90 exist in the last kind, and every object has one field more for its identity.
        let fields = if kind == 3 { fields.max(91) } else { fields.max(3) };
        let words = OBJECT_WORDS + fields + 1;
        let (object, header) = match self.window.take(words) {
            Some(object) => (object, words as Word & SIZE_MASK),
            None => {
                let object = self.heap.alloc(&mut self.window, words)?;
                // SAFETY: the header of the object just made.
                (object, unsafe { object.add(1).replace(0) })
            }
        };
        let id = self.next;
        self.next += 1;
        // SAFETY: an object of that many words was just made.
        unsafe {
            for i in 0..words {
                assert_eq!(object.add(i).read(), 0, "memory is zeroed");
            }
            object.write(self.kinds[kind].table.as_ptr() as Word);
            object.add(1).write(header);
            // The identity is in a field that is no reference: the first of a tail, the last of the others.
            object.add(self.identity(kind, words)).write(id as Word);
        }
        let references = (self.kinds[kind].references)(fields).into_iter().map(|f| (f, usize::MAX)).collect();
        self.objects.insert(id, Object { address: object.as_ptr() as Word, fields, references });
        self.roots.insert(id);
        Ok(id)
    }

    fn identity(&self, kind: usize, words: usize) -> usize {
        if kind == 2 { OBJECT_WORDS } else { words - 1 }
    }

    fn link(&mut self, from: usize, at: usize, to: usize) {
        let address = self.objects[&to].address;
        let Some(object) = self.objects.get_mut(&from) else { return };
        let count = object.references.len();
        if count == 0 {
            return;
        }
        let field = *object.references.keys().nth(at % count).unwrap();
        object.references.insert(field, to);
        // SAFETY: the object lives and has the field.
        unsafe { *(object.address as *mut Word).add(OBJECT_WORDS + field) = address };
    }

    fn reachable(&self) -> BTreeSet<usize> {
        let mut seen = self.roots.clone();
        let mut work: Vec<usize> = seen.iter().copied().collect();
        while let Some(id) = work.pop() {
            for to in self.objects[&id].references.values().filter(|to| **to != usize::MAX) {
                if seen.insert(*to) {
                    work.push(*to);
                }
            }
        }
        seen
    }

    fn collect(&mut self) {
        let roots: Vec<Word> = self.roots.iter().map(|id| self.objects[id].address).collect();
        self.heap.collect(&mut self.window, |marker| {
            for root in roots {
                // SAFETY: the address of an object.
                marker.root(unsafe { Reference::of(root) });
            }
        });
        let live = self.reachable();
        self.objects.retain(|id, _| live.contains(id));
        let bytes: usize = self.objects.values().map(|o| (o.fields + OBJECT_WORDS + 1) * 8).sum();
        let usage = self.heap.usage();
        assert_eq!((usage.live_objects, usage.live_bytes), (live.len(), bytes));
        self.check();
    }

    /// Everything that lives is as it was made.
    fn check(&self) {
        for (id, object) in &self.objects {
            let place = object.address as *const Word;
            // SAFETY: the object lives.
            unsafe {
                let words = (*place.add(1) & SIZE_MASK) as usize;
                assert_eq!(words, object.fields + OBJECT_WORDS + 1);
                let kind = self.kinds.iter().position(|k| k.table.as_ptr() as Word == *place).unwrap();
                assert_eq!(*place.add(self.identity(kind, words)), *id as Word);
                for (field, to) in &object.references {
                    let expected = if *to == usize::MAX { 0 } else { self.objects[to].address };
                    assert_eq!(*place.add(OBJECT_WORDS + field), expected);
                }
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Make(usize, usize),
    Link(usize, usize, usize),
    Drop(usize),
    Collect,
    /// Collects, and gives memory back.
    LetGo,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let size = prop_oneof![
        8 => 0..20_usize,
        3 => 20..LARGE_BYTES_MIN / 8 - 2,
        1 => LARGE_BYTES_MIN / 8 - 4..3 * LARGE_BYTES_MIN / 8,
    ];
    let step = prop_oneof![
        10 => (0..4_usize, size).prop_map(|(kind, fields)| Step::Make(kind, fields)),
        10 => (any::<usize>(), any::<usize>(), any::<usize>()).prop_map(|(a, b, c)| Step::Link(a, b, c)),
        9 => any::<usize>().prop_map(Step::Drop),
        1 => Just(Step::Collect),
        1 => Just(Step::LetGo),
    ];
    prop::collection::vec(step, 0..600)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn what_is_reachable_survives_and_what_is_not_goes(steps in steps()) {
        let mut world = World::new(64 << 20);
        for step in steps {
            let pick = |n: usize, world: &World| {
                let live = world.roots.len();
                (live > 0).then(|| *world.roots.iter().nth(n % live).unwrap())
            };
            match step {
                Step::Make(kind, fields) => {
                    world.make(kind, fields).unwrap();
                }
                Step::Link(from, at, to) => {
                    if let (Some(from), Some(to)) = (pick(from, &world), pick(to, &world)) {
                        world.link(from, at, to);
                    }
                }
                Step::Drop(n) => {
                    if let Some(id) = pick(n, &world) {
                        world.roots.remove(&id);
                    }
                }
                Step::Collect => world.collect(),
                Step::LetGo => {
                    world.collect();
                    world.heap.release_free();
                    world.check();
                }
            }
        }
        world.collect();
        world.roots.clear();
        world.collect();
        prop_assert_eq!(world.heap.used_bytes(), 0);
    }
}

#[test]
fn free_pages_between_objects_are_given_back() {
    const COUNT: usize = 2000;
    let mut world = World::new(64 << 20);
    for _ in 0..2 {
        let ids: Vec<usize> = (0..COUNT).map(|_| world.make(1, 5).unwrap()).collect();
        let all: Vec<Word> = ids.iter().map(|id| world.objects[id].address).collect();
        for (at, id) in ids.iter().enumerate() {
            if at % (COUNT / 8) != 0 {
                world.roots.remove(id);
            }
        }
        world.collect();
        // SAFETY: the memory of chunks that the heap still has.
        let zeros = |all: &[Word]| all.iter().filter(|at| unsafe { *(**at as *const Word) } == 0).count();
        assert_eq!(zeros(&all), 0, "freed memory is poisoned, and still there");
        world.heap.release_free();
        assert!(zeros(&all) > COUNT / 2, "{} of {COUNT} are given back", zeros(&all));
        world.check();
    }
    // New objects go between the old ones, and nothing is lost.
    let before = world.heap.used_bytes();
    (0..COUNT).for_each(|_| _ = world.make(1, 5).unwrap());
    // They have as many bytes as those blocks, and nearly all of them fit.
    assert!(world.heap.used_bytes() < 2 * before, "{} after {before}", world.heap.used_bytes());
    world.check();
    world.collect();
    assert_eq!(world.objects.len(), COUNT + 16);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn a_summary_leads_where_the_objects_do(
        kinds in prop::collection::vec(0..4_usize, 1..40),
        links in prop::collection::vec((any::<usize>(), any::<usize>(), any::<usize>()), 0..120),
        named in prop::collection::vec(any::<usize>(), 0..12),
        roots in prop::collection::vec(any::<usize>(), 0..4),
    ) {
        let mut world = World::new(64 << 20);
        let ids: Vec<usize> = kinds.iter().map(|kind| world.make(*kind, 5).unwrap()).collect();
        let pick = |n: usize| ids[n % ids.len()];
        for (from, at, to) in links {
            world.link(pick(from), at, pick(to));
        }
        world.roots = roots.iter().map(|n| pick(*n)).collect();
        let found = world.reachable();
        let named: BTreeSet<usize> = named.iter().map(|n| pick(*n)).filter(|id| !found.contains(id)).collect();
        let names: Vec<usize> = named.into_iter().collect();
        let addresses: Vec<Word> = names.iter().map(|id| world.objects[id].address).collect();
        let roots: Vec<Word> = world.roots.iter().map(|id| world.objects[id].address).collect();
        let mut summary = None;
        world.heap.collect(&mut world.window, |marker| {
            let numbers = addresses.iter().copied().zip(0..).collect();
            // SAFETY: the addresses of objects.
            let reference = |word: &Word| unsafe { Reference::new(*word) };
            roots.iter().for_each(|root| marker.root(Some(reference(root))));
            let from: Vec<Reference> = addresses.iter().map(reference).collect();
            summary = Some(marker.summarise(&numbers, &from));
        });
        let summary = summary.unwrap();
        for (name, id) in names.iter().enumerate() {
            // What the heap says, but for what the roots reach.
            let (mut seen, mut left) = (BTreeSet::from([*id]), vec![*id]);
            while let Some(id) = left.pop() {
                let links = world.objects[&id].references.values();
                left.extend(links.filter(|to| **to != usize::MAX && !found.contains(to) && seen.insert(**to)));
            }
            let expected: BTreeSet<usize> =
                (0..names.len()).filter(|name| seen.contains(&names[*name])).collect();
            // What the summary says.
            let first = summary.vertex(name).unwrap();
            let (mut seen, mut left) = (BTreeSet::from([first]), vec![first]);
            while let Some(vertex) = left.pop() {
                left.extend(summary.edges(vertex).iter().filter(|to| seen.insert(**to)));
            }
            let told = seen.iter().flat_map(|vertex| summary.names(*vertex)).map(|name| *name as usize);
            prop_assert_eq!(told.collect::<BTreeSet<_>>(), expected);
        }
        let live: BTreeSet<usize> = {
            world.roots.extend(&names);
            world.reachable()
        };
        prop_assert_eq!(world.heap.usage().live_objects, live.len());
    }
}

#[test]
fn marks_do_not_outlive_their_epochs() {
    // More collections than an epoch has values, with objects that come and go.
    let mut world = World::new(8 << 20);
    let keep = world.make(2, 40).unwrap();
    for round in 0..600 {
        let id = world.make(1 + round % 2, 3 + round % 50).unwrap();
        world.link(keep, round, id);
        world.roots.remove(&id);
        world.collect();
    }
    assert!(world.heap.used_bytes() <= 60 * bifrost_heap::BLOCK_BYTES);
}

#[test]
fn holes_are_used_again() {
    // Every second line stays in use; small objects go between, and the heap does not grow.
    let mut world = World::new(4 << 20);
    let per_line = LINE_BYTES / 8 - OBJECT_WORDS - 1;
    let ids: Vec<usize> = (0..4000).map(|_| world.make(0, per_line).unwrap()).collect();
    for id in ids.iter().step_by(2) {
        world.roots.remove(id);
    }
    world.collect();
    let used = world.heap.used_bytes();
    for _ in 0..1900 {
        world.make(0, per_line).unwrap();
    }
    assert_eq!(world.heap.used_bytes(), used);
    world.collect();
}

#[test]
fn objects_of_several_lines_find_holes_when_no_block_is_free() {
    let mut world = World::new(1 << 20);
    let mut ids = Vec::new();
    while let Ok(id) = world.make(0, 4 * LINE_BYTES / 8 - OBJECT_WORDS - 1) {
        ids.push(id);
    }
    for id in ids.iter().step_by(2) {
        world.roots.remove(id);
    }
    world.collect();
    let before = world.objects.len();
    while world.make(0, 3 * LINE_BYTES / 8).is_ok() {}
    assert!(world.objects.len() - before > ids.len() / 3, "{} {before}", world.objects.len());
    world.collect();
}

#[test]
fn the_limit_holds_and_garbage_makes_room() {
    let mut world = World::new(1 << 20);
    let refused = loop {
        match world.make(0, 10) {
            Ok(_) => assert!(world.heap.used_bytes() <= 1 << 20),
            Err(full) => break full,
        }
    };
    assert_eq!(refused, HeapFull::of_heap(1 << 20));
    assert!(world.objects.len() > 9000, "{}", world.objects.len());
    world.collect();
    assert!(world.heap.is_tight());
    assert!(world.make(0, 10).is_err());
    world.roots.clear();
    world.collect();
    assert!(!world.heap.is_tight());
    assert!(world.make(0, 10).is_ok());
    assert!(world.make(0, (1 << 20) / 8).is_err(), "a large object is held to the limit too");
    assert!(world.make(0, usize::MAX / 16).is_err());
}

#[test]
fn chunks_go_back_when_little_lives() {
    let mut world = World::new(256 << 20);
    for _ in 0..20_000 {
        world.make(0, 900).unwrap();
    }
    let held = world.heap.usage().held_bytes;
    assert!(held > 100 << 20);
    world.roots.clear();
    world.collect();
    let usage = world.heap.usage();
    assert_eq!((usage.used_bytes, usage.live_objects), (0, 0));
    assert!(usage.held_bytes <= 40 << 20, "{usage:?}");
}

#[test]
fn a_long_chain_needs_no_stack() {
    let mut heap = Heap::new(1 << 30);
    let mut window = Window::empty();
    let kinds = kinds();
    let mut last: Word = 0;
    for _ in 0..3_000_000 {
        let words = OBJECT_WORDS + 3;
        let object = match window.take(words) {
            Some(object) => object,
            None => heap.alloc(&mut window, words).unwrap(),
        };
        // SAFETY: an object of that many words was just made.
        unsafe {
            object.write(kinds[1].table.as_ptr() as Word);
            object.add(1).write(words as Word);
            object.add(OBJECT_WORDS + 1).write(last);
        }
        last = object.as_ptr() as Word;
    }
    // SAFETY: the address of an object.
    let last = unsafe { Reference::of(last) };
    heap.collect(&mut window, |marker| marker.root(last));
    assert_eq!(heap.usage().live_objects, 3_000_000);
    heap.collect(&mut window, |_| {});
    assert_eq!(heap.usage().live_objects, 0);
}

mod finalizers {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    static FINALIZED: AtomicU64 = AtomicU64::new(0);

    unsafe fn note(object: *mut Word) {
        // SAFETY: the object has a field.
        FINALIZED.fetch_add(unsafe { *object.add(OBJECT_WORDS) }, Ordering::Relaxed);
    }

    #[test]
    fn what_goes_is_finalized_once() {
        let shape: &'static Shape = Box::leak(Box::new(Shape::leaf().with_finalizer(note)));
        let table: &'static [&'static Shape; 1] = Box::leak(Box::new([shape]));
        let mut heap = Heap::new(1 << 20);
        let mut window = Window::empty();
        let make = |heap: &mut Heap, window: &mut Window, value: Word| {
            let object = window.take(3).unwrap_or_else(|| heap.alloc(window, 3).unwrap());
            // SAFETY: an object of three words was just made.
            unsafe {
                object.write(table.as_ptr() as Word);
                object.add(1).write(3);
                object.add(2).write(value);
                heap.add_finalizable(object);
            }
            object.as_ptr() as Word
        };
        let kept = make(&mut heap, &mut window, 1);
        make(&mut heap, &mut window, 10);
        for expected in [10, 10] {
            // SAFETY: the address of an object.
            let kept = unsafe { Reference::of(kept) };
            heap.collect(&mut window, |marker| marker.root(kept));
            assert_eq!(FINALIZED.load(Ordering::Relaxed), expected);
        }
        drop(heap);
        assert_eq!(FINALIZED.load(Ordering::Relaxed), 11);
    }
}
