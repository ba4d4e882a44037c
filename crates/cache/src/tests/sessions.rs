//! Sessions over one repository: records, commits, aborts, fetches and migrations.

use super::*;

#[test]
fn objects_of_every_kind_come_back_as_they_were() {
    let (image, repository) = (image(KINDS), Arc::new(Memory::new()));
    let schema = schema(&image, &repository);
    let (mut here, cache) = session(&schema);
    let made = shelf(&mut here);
    enter(&mut here, "shelf", made);
    cache.commit(&mut here, None).unwrap();
    let (mut there, _cache) = session(&schema);
    let cx = &mut *there;
    let shelf = find(cx, "shelf");
    assert_eq!(shelf.mode(), Mode::Absent);
    let basic: Vec<Word> = (0..5).map(|at| field(cx, shelf, at)).collect();
    assert_eq!(basic, [-4i64 as Word, 0, 1, 1.5f64.to_bits(), 0xdf]);
    assert_eq!(text(field(cx, shelf, 5)), "grün");
    // SAFETY: the field has bytes.
    assert_eq!(unsafe { object::byte_slice(field(cx, shelf, 6)) }, [0, 255]);
    let one = reference(cx, shelf, 7);
    assert_eq!(text(field(cx, one, 0)), "one");
    assert_eq!(text(field(cx, shelf, 8)), "grün");
    assert_eq!(reference(cx, shelf, 9).info().name, "Only");
    // SAFETY: these fields have arrays.
    let array = |object: Object| unsafe { ArrayRef::new(object.word()) };
    let numbers = array(reference(cx, shelf, 10));
    assert_eq!((numbers.low(), numbers.elements()), (-3, &[5, 6, 7][..]));
    let void = array(reference(cx, shelf, 11));
    assert_eq!((void.low(), void.elements().len()), (9, 0));
    let items = array(reference(cx, shelf, 12));
    assert_eq!(items.elements().len(), 3);
    assert_eq!([items.elements()[0], items.elements()[2]], [one.word(); 2]);
    assert_ne!(items.elements()[1], one.word());
    // SAFETY: these fields have a vector and a sequence.
    let sequence = |object: Object| unsafe { SequenceRef::new(object.word()) };
    let names = sequence(reference(cx, shelf, 13));
    assert_eq!(names.elements().iter().map(|word| text(*word)).collect::<Vec<_>>(), ["grün", "grün"]);
    assert_eq!(sequence(reference(cx, shelf, 14)).elements(), [0.5f64.to_bits()]);
    let mut rest = Some(reference(cx, shelf, 15));
    let mut numbers = Vec::new();
    while let Some(object) = rest {
        assert!(cx.opened(object).returned());
        // SAFETY: it is a list.
        let list = unsafe { ListRef::new(object.word()) };
        numbers.push((list.first(), list.length()));
        rest = list.rest().map(ListRef::object);
    }
    assert_eq!(numbers, [(1, 3), (2, 2), (3, 1), (0, 0)]);
    // SAFETY: the field has a list.
    let void = unsafe { ListRef::new(reference(cx, shelf, 16).word()) };
    assert_eq!((void.length(), void.rest()), (0, None));
    // SAFETY: these fields have cells.
    let cell = |object: Object| unsafe { CellRef::new(object.word()) };
    assert_eq!(cell(reference(cx, shelf, 17)).value(), Some(8));
    assert_eq!(cell(reference(cx, shelf, 18)).value(), None);
    let prices = reference(cx, shelf, 19);
    let (mut entries, mut found) = (MapEntries::default(), Vec::new());
    while let Some((key, value)) = entries.next(prices.word()) {
        found.push((text(key), value));
    }
    assert_eq!(found, [("grün".to_owned(), 10), ("blau".to_owned(), 20)]);
}

#[test]
fn references_to_absent_sequences_keep_their_lengths() {
    let (image, repository) = (image(KINDS), Arc::new(Memory::new()));
    let schema = schema(&image, &repository);
    let (mut here, cache) = session(&schema);
    let made = shelf(&mut here);
    enter(&mut here, "shelf", made);
    cache.commit(&mut here, None).unwrap();
    let (mut there, cache) = session(&schema);
    let shelf = find(&mut there, "shelf");
    change(&mut there, shelf, 0, 77);
    // SAFETY: the field has a vector.
    let names = unsafe { Object::new(object::get(shelf.word(), 13)) };
    assert_eq!((names.mode(), names.fields()), (Mode::Absent, 3));
    cache.commit(&mut there, None).unwrap();
    let (mut third, _cache) = session(&schema);
    let shelf = find(&mut third, "shelf");
    assert_eq!(field(&mut third, shelf, 0), 77);
    let names = reference(&mut third, shelf, 13);
    assert_eq!(names.fields() - sequence::ELEMENTS, 2);
}

#[test]
fn an_abort_restores_objects_and_undoes_new_ones() {
    let (image, repository) = (image(KINDS), Arc::new(Memory::new()));
    let schema = schema(&image, &repository);
    let (mut cx, cache) = session(&schema);
    let made = item(&mut cx, "old");
    enter(&mut cx, "item", made);
    assert!(cache.is_busy(&cx));
    cache.commit(&mut cx, None).unwrap();
    assert!(!cache.is_busy(&cx));
    let object = find(&mut cx, "item");
    let other = cx.new_string("new").unwrap();
    change(&mut cx, object, 0, other);
    let made = item(&mut cx, "undone");
    let kept = cx.root(made);
    assert_eq!(text(field(&mut cx, object, 0)), "new");
    cache.abort(&mut cx);
    assert_eq!(text(field(&mut cx, object, 0)), "old");
    // SAFETY: it is rooted.
    let undone = unsafe { Object::new(kept.word()) };
    assert!(undone.is_undone() && !object.is_undone());
    assert!(!cx.opened(undone).returned());
    assert!(failure(&cx).contains("aborted"), "{}", failure(&cx));
    // It cannot be stored either.
    enter(&mut cx, "undone", undone.word());
    let refused = cache.commit(&mut cx, None).unwrap_err();
    assert!(matches!(refused, NotCommitted::Volatile(_)), "{refused}");
    assert_eq!(cx.lookup("undone").unwrap(), None);
}

#[test]
fn the_second_of_two_writers_conflicts() {
    let (image, repository) = (image(KINDS), Arc::new(Memory::new()));
    let schema = schema(&image, &repository);
    let (mut first, first_cache) = session(&schema);
    let made = item(&mut first, "old");
    enter(&mut first, "item", made);
    first_cache.commit(&mut first, None).unwrap();
    let (mut second, second_cache) = session(&schema);
    for cx in [&mut first, &mut second] {
        let object = find(cx, "item");
        let name = cx.new_string("new").unwrap();
        change(cx, object, 0, name);
    }
    first_cache.commit(&mut first, None).unwrap();
    match second_cache.commit(&mut second, None) {
        Err(NotCommitted::Conflict(objects)) => {
            assert_eq!(objects.iter().map(|one| &*one.class).collect::<Vec<_>>(), ["I"]);
        }
        other => panic!("{other:?}"),
    }
    // The state of the other is seen from then on.
    let object = find(&mut second, "item");
    assert_eq!(object.mode(), Mode::Absent);
    assert_eq!(text(field(&mut second, object, 0)), "new");
    let counted = schema.counters().get();
    assert_eq!((counted.commits, counted.conflicts), (2, 1));
}

#[test]
fn transactions_that_cannot_be_committed_say_why() {
    let (image, repository) = (image(KINDS), Arc::new(Memory::new()));
    let schema = schema(&image, &repository);
    let (mut cx, cache) = session(&schema);
    let batch = |number| Some((BatchId { session: 7, number }, Bytes::from_static(b"reply")));
    let made = item(&mut cx, "one");
    enter(&mut cx, "one", made);
    cache.commit(&mut cx, batch(2)).unwrap();
    match cache.commit(&mut cx, batch(2)) {
        Err(NotCommitted::Repeated(reply)) => assert_eq!(&*reply, b"reply"),
        other => panic!("{other:?}"),
    }
    let early = cache.commit(&mut cx, batch(1)).unwrap_err();
    assert!(matches!(early, NotCommitted::OutOfOrder { last: 2 }), "{early}");
    let object = find(&mut cx, "one");
    let name = cx.new_string("doomed").unwrap();
    change(&mut cx, object, 0, name);
    cx.doom(Doom::Killed(Kill::Time));
    let doomed = cache.commit(&mut cx, None).unwrap_err();
    assert!(matches!(doomed, NotCommitted::Doomed(_)), "{doomed}");
    // Such a transaction stays until it is aborted.
    assert_eq!(text(field(&mut cx, object, 0)), "doomed");
    cache.abort(&mut cx);
    assert_eq!(text(field(&mut cx, object, 0)), "one");
}

#[test]
fn a_transaction_with_too_many_objects_is_refused() {
    let (image, repository) = (image(KINDS), Arc::new(Memory::new()));
    let schema = schema(&image, &repository);
    let limits = Limits { transaction_objects: 4, ..Limits::default() };
    let mut cx = Cx::new(image, limits, 1, || 0);
    let cache = Cache::open(&mut cx, schema);
    cx.begin();
    let mut kept = Vec::new();
    for count in 1..=4 {
        let made = item(&mut cx, "one of them");
        kept.push(cx.root(made));
        enter(&mut cx, &format!("item {count}"), made);
    }
    match cache.commit(&mut cx, None) {
        // With the directory, which was read.
        Err(NotCommitted::TooManyObjects { count: 5, limit: 4 }) => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(cx.lookup("item 1").unwrap(), None);
    // Their orefs were taken away.
    // SAFETY: they are rooted.
    assert!(kept.iter().all(|root| unsafe { Object::new(root.word()) }.is_undone()));
}

/// A repository that has lost the objects from an oref on, and the ends of others.
struct Lossy {
    inner: Memory,
    lost: AtomicU64,
    /// The bytes that are left of each object but the root.
    left: AtomicUsize,
    /// The most objects that a session has asked about at once.
    asked: AtomicUsize,
}

impl Lossy {
    fn new() -> Lossy {
        Lossy {
            inner: Memory::new(),
            lost: AtomicU64::new(u64::MAX),
            left: AtomicUsize::new(usize::MAX),
            asked: AtomicUsize::new(0),
        }
    }
}

impl Repository for Lossy {
    fn fetch(&self, orefs: &[Oref]) -> Result<Fetched, Error> {
        let mut fetched = self.inner.fetch(orefs)?;
        for (oref, state) in orefs.iter().zip(&mut fetched.states) {
            if oref.get() >= self.lost.load(Ordering::Relaxed) {
                *state = None;
            }
            if let Some(stored) = state.as_mut().filter(|_| *oref != Oref::ROOT) {
                stored.bytes.truncate(self.left.load(Ordering::Relaxed));
            }
        }
        Ok(fetched)
    }

    fn identity(&self) -> Identity {
        self.inner.identity()
    }

    fn head(&self) -> Tid {
        self.inner.head()
    }

    fn changes(&self, after: Tid, among: &dyn ObjectSet) -> Changes {
        self.asked.fetch_max(among.count(), Ordering::Relaxed);
        self.inner.changes(after, among)
    }

    fn allocate(&self, count: u32) -> Result<Range<u64>, Error> {
        self.inner.allocate(count)
    }

    fn commit(&self, commit: Commit<'_>) -> Result<Tid, CommitError> {
        self.inner.commit(commit)
    }

    fn outcome(&self, batch: BatchId) -> Result<Option<Bytes>, Error> {
        self.inner.outcome(batch)
    }

    fn define_class(&self, class: &ClassDescriptor) -> Result<ClassNumber, Error> {
        self.inner.define_class(class)
    }

    fn classes(&self) -> Vec<Arc<ClassDescriptor>> {
        self.inner.classes()
    }

    fn register(&self, holder: Arc<dyn Holder>) -> Registration {
        self.inner.register(holder)
    }

    fn watch(&self, orefs: Vec<Oref>, watcher: Arc<dyn Watcher>) -> Watching {
        self.inner.watch(orefs, watcher)
    }

    fn scan(&self, from: Oref, limit: usize) -> Result<Vec<(Oref, Stored)>, Error> {
        self.inner.scan(from, limit)
    }

    fn collect(&self, progress: &mut dyn FnMut(Progress) -> ControlFlow<()>) -> Result<Collected, Error> {
        self.inner.collect(progress)
    }

    fn check(&self, progress: &mut dyn FnMut(Progress)) -> Result<Report, Error> {
        self.inner.check(progress)
    }

    fn info(&self) -> Result<Info, Error> {
        self.inner.info()
    }

    fn gauges(&self) -> Gauges {
        self.inner.gauges()
    }
}

/// A session that refers to many objects and has few of them asks about the few. It loses those
/// that others have changed, and no others, however many are changed.
#[test]
fn a_session_asks_about_the_objects_that_are_here() {
    const ITEMS: usize = 1000;
    let image = image(KINDS);
    let repository = Arc::new(Lossy::new());
    let schema = Schema::new(image.clone(), repository.clone()).unwrap();
    let (mut here, cache) = session(&schema);
    let items: Vec<Word> = (0..ITEMS).map(|_| item(&mut here, "old")).collect();
    let array = here.new_array(image.table_of(named(&image, "array[item]")), 0, &items).unwrap();
    enter(&mut here, "items", array);
    cache.commit(&mut here, None).unwrap();
    let alone = Options { prefetch: Prefetch { objects_max: 0, bytes_max: 0 }, ..Options::default() };
    let (mut there, other) = session_with(&schema, &alone);
    let elements = |cx: &mut Cx| -> Vec<Object> {
        let array = find(cx, "items");
        assert!(cx.opened(array).returned());
        // SAFETY: it is an array of items, and it is here.
        let words = unsafe { ArrayRef::new(array.word()).elements().to_vec() };
        // SAFETY: the array has items.
        words.into_iter().map(|word| unsafe { Object::new(word) }).collect()
    };
    let all = elements(&mut there);
    let some = [3, 500, 700];
    for at in some {
        assert_eq!(text(field(&mut there, all[at], 0)), "old");
    }
    other.end(&mut there);
    let changed = |at: usize| at.is_multiple_of(2);
    for (at, item) in items.iter().enumerate().filter(|(at, _)| changed(*at)) {
        let name = here.new_string("new").unwrap();
        // SAFETY: it is an item.
        change(&mut here, unsafe { Object::new(*item) }, 0, name);
        if at % 10 == 0 {
            cache.commit(&mut here, None).unwrap();
        }
    }
    cache.commit(&mut here, None).unwrap();
    repository.asked.store(0, Ordering::Relaxed);
    other.refresh(&mut there);
    // The directory, the array, and the three.
    assert_eq!(repository.asked.load(Ordering::Relaxed), 5);
    for at in some {
        assert_eq!(all[at].mode() == Mode::Absent, changed(at), "item {at}");
        assert_eq!(text(field(&mut there, all[at], 0)), if changed(at) { "new" } else { "old" });
    }
    // After many were here and are not any more, the few are asked about again.
    for item in &all {
        assert!(there.opened(*item).returned());
    }
    other.end(&mut there);
    assert!(other.let_go(&mut there) + other.shrink(&mut there) >= ITEMS);
    let all = elements(&mut there);
    assert_eq!(text(field(&mut there, all[3], 0)), "old");
    other.end(&mut there);
    cache.commit(&mut here, None).unwrap();
    let name = here.new_string("newer").unwrap();
    // SAFETY: it is an item.
    change(&mut here, unsafe { Object::new(items[3]) }, 0, name);
    cache.commit(&mut here, None).unwrap();
    repository.asked.store(0, Ordering::Relaxed);
    other.refresh(&mut there);
    assert_eq!(repository.asked.load(Ordering::Relaxed), 3);
    assert_eq!(all[3].mode(), Mode::Absent);
}

#[test]
fn an_object_that_the_repository_has_lost_cannot_be_fetched() {
    let image = image(KINDS);
    let repository = Arc::new(Lossy::new());
    let schema = Schema::new(image, repository.clone()).unwrap();
    let (mut cx, cache) = session(&schema);
    let made = item(&mut cx, "lost");
    enter(&mut cx, "item", made);
    cache.commit(&mut cx, None).unwrap();
    let alone = Options { prefetch: Prefetch { objects_max: 0, bytes_max: 0 }, ..Options::default() };
    let (mut cx, _cache) = session_with(&schema, &alone);
    let lost = find(&mut cx, "item");
    repository.lost.store(Oref::ROOT.get() + 1, Ordering::Relaxed);
    assert!(!cx.opened(lost).returned());
    assert_eq!(failure(&cx), "the object cannot be fetched: it is not in the repository");
    assert_eq!(lost.mode(), Mode::Absent);
    repository.lost.store(u64::MAX, Ordering::Relaxed);
    assert_eq!(text(field(&mut cx, lost, 0)), "lost");
}

#[test]
fn an_object_whose_record_is_damaged_stays_absent_and_empty() {
    let image = image(KINDS);
    let repository = Arc::new(Lossy::new());
    let schema = Schema::new(image, repository.clone()).unwrap();
    let (mut cx, cache) = session(&schema);
    let made = shelf(&mut cx);
    enter(&mut cx, "shelf", made);
    cache.commit(&mut cx, None).unwrap();
    repository.left.store(40, Ordering::Relaxed);
    let (mut cx, _cache) = session(&schema);
    let shelf = find(&mut cx, "shelf");
    assert!(!cx.opened(shelf).returned());
    let told = failure(&cx);
    assert!(told.starts_with("the object cannot be fetched: "), "{told}");
    assert_eq!(shelf.mode(), Mode::Absent);
    // SAFETY: it has such a field.
    assert_eq!(unsafe { object::get(shelf.word(), 0) }, 0);
    repository.left.store(usize::MAX, Ordering::Relaxed);
    let (mut cx, _cache) = session(&schema);
    let shelf = find(&mut cx, "shelf");
    assert_eq!(field(&mut cx, shelf, 0), -4i64 as Word);
}

#[test]
fn a_reference_says_the_class_and_length_of_its_object() {
    let (image, repository) = (image(KINDS), Arc::new(Memory::new()));
    let schema = schema(&image, &repository);
    let (mut cx, cache) = session(&schema);
    let made = item(&mut cx, "item");
    enter(&mut cx, "item", made);
    cache.commit(&mut cx, None).unwrap();
    let item = find(&mut cx, "item");
    assert_ne!(item.number(), 0);
    // The first object that was made.
    let objects = repository.scan(Oref::ROOT, 10).unwrap();
    let (_, stored) = objects.into_iter().find(|(oref, _)| *oref != Oref::ROOT).unwrap();
    // A place of another class.
    let (mut cx, _cache) = session(&schema);
    let residents = Mutex::new(Residents::default());
    let mut decoder = Decoder { schema: &schema, residents: &residents, classes: schema.snapshot() };
    // SAFETY: they were just made, and nothing is collected.
    let [other, one] = ["cell[int]", "I"].map(|class| unsafe {
        Blank::new(Object::new(new(&mut cx, class, &[0; 2][..if class == "I" { 1 } else { 2 }])))
    });
    let wrong = decoder.fill(&mut cx, other, &stored.bytes).err().unwrap().to_string();
    assert_eq!(wrong, "a reference to a `I` has the class `cell[int]`");
    assert!(matches!(decoder.fill(&mut cx, one, &stored.bytes), Ok(Filled::Whole)));
    assert_eq!(text(field(&mut cx, one.object(), 0)), "item");
    // Something stands behind the record.
    let longer = [&stored.bytes[..], &[0]].concat();
    assert!(matches!(decoder.fill(&mut cx, one, &longer), Err(Unreadable::Record(_))));
}

#[test]
fn objects_that_are_not_used_are_evicted_and_fetched_again() {
    let (image, repository) = (image(KINDS), Arc::new(Memory::new()));
    let schema = schema(&image, &repository);
    let (mut cx, cache) = session(&schema);
    let names: Vec<String> = (0..50).map(|number| format!("item {number}")).collect();
    for name in &names {
        let made = item(&mut cx, name);
        enter(&mut cx, name, made);
    }
    cache.commit(&mut cx, None).unwrap();
    let options = Options { bytes_max: 1 << 10, ..Options::default() };
    let (mut cx, cache) = session_with(&schema, &options);
    let read = |cx: &mut Cx| {
        for name in &names {
            let object = find(cx, name);
            assert_eq!(text(field(cx, object, 0)), *name);
        }
    };
    read(&mut cx);
    // What the transaction has read stays while it may be used.
    assert!(cache.used().0 > options.bytes_max, "{:?}", cache.used());
    assert!(cx.read_count() > names.len());
    cache.trim(&mut cx);
    assert!(cache.used().0 <= options.bytes_max, "{:?}", cache.used());
    assert!(schema.counters().get().evicted > 0);
    // It still counts as read.
    assert!(cx.read_count() > names.len());
    read(&mut cx);
    cache.end(&mut cx);
    assert_eq!(cx.read_count(), 0);
    read(&mut cx);
}

#[test]
fn neighbours_come_along() {
    let (image, repository) = (image(KINDS), Arc::new(Memory::new()));
    let schema = schema(&image, &repository);
    let (mut cx, cache) = session(&schema);
    for number in 0..8 {
        let made = item(&mut cx, "neighbour");
        enter(&mut cx, &format!("item {number}"), made);
    }
    cache.commit(&mut cx, None).unwrap();
    let calls_of = |prefetch: Prefetch| {
        let (mut cx, _cache) = session_with(&schema, &Options { prefetch, ..Options::default() });
        let before = schema.counters().get();
        for number in 0..8 {
            let object = find(&mut cx, &format!("item {number}"));
            field(&mut cx, object, 0);
        }
        let after = schema.counters().get();
        (after.calls - before.calls, after.used - before.used)
    };
    assert_eq!(calls_of(Prefetch { objects_max: 0, bytes_max: 1 << 20 }), (9, 0));
    let (calls, used) = calls_of(Prefetch::default());
    assert!(calls < 9 && used == 9 - calls, "{calls} calls, {used} used");
}

#[test]
fn residents_have_numbers_that_are_used_again() {
    let (image, repository) = (image(KINDS), Arc::new(Memory::new()));
    let (mut cx, _cache) = session(&schema(&image, &repository));
    let mut residents = Residents::default();
    let oref = |number| Oref::new(number).unwrap();
    // SAFETY: they were just made.
    let objects = [1, 2, 3].map(|_| unsafe { Object::new(item(&mut cx, "resident")) });
    for (number, object) in (1..).zip(objects) {
        residents.enter(oref(10 * number), object).unwrap();
        assert_eq!(u64::from(object.number()), number);
        residents.charge(object.number(), 100);
    }
    assert_eq!((residents.bytes(), residents.find(oref(20))), (300, Some(objects[1])));
    residents.charge(2, 150);
    assert_eq!(residents.bytes(), 350);
    residents.leave(objects[1]);
    assert_eq!((residents.bytes(), residents.find(oref(20)), objects[1].number()), (200, None, 0));
    residents.enter(oref(40), objects[1]).unwrap();
    assert_eq!((objects[1].number(), residents.oref(2)), (2, oref(40)));
    assert_eq!(residents.find(oref(20)), None);
    residents.collected(&|object| object == objects[2]);
    assert_eq!(residents.objects().collect::<Vec<_>>(), [objects[2]]);
    assert_eq!(residents.bytes(), 100);
    // An object that all contexts share has an oref and no number.
    let class = image.program().find_class("Only").unwrap();
    // SAFETY: it is the only object of its class.
    let only = unsafe { Object::new(image.lasting(class).unwrap()) };
    residents.enter(oref(50), only).unwrap();
    assert_eq!((residents.lasting(only), only.number(), residents.find(oref(50))), (Some(oref(50)), 0, None));
    assert!(residents.has_read(oref(50)));
    residents.leave(only);
    assert_eq!(residents.lasting(only), None);
}

#[test]
fn objects_of_an_older_class_are_migrated() {
    let (before, repository) = (image(ACCOUNT), Arc::new(Memory::new()));
    let first = schema(&before, &repository);
    let (mut cx, cache) = session(&first);
    for (name, cents) in [("ann", 7), ("ben", 0)] {
        let made = new(&mut cx, "Plain", &[cents]);
        enter(&mut cx, name, made);
    }
    cache.commit(&mut cx, None).unwrap();
    drop((cx, cache));
    // Without a migration the store is refused, with the heading of one.
    let repository: Arc<dyn Repository> = repository;
    let refused = Schema::new(image(&CHANGED.replace("MIGRATION", "")), repository.clone()).unwrap_err();
    let SchemaError::Changed { name, migration, .. } = &refused else { panic!("{refused}") };
    assert_eq!(name, "Plain");
    assert_eq!(migration.as_deref(), Some("migrate_Plain (cents: int) returns (Plain)"));
    let after = image(&CHANGED.replace("MIGRATION", MIGRATION));
    let second = Schema::new(after.clone(), repository.clone()).unwrap();
    let (mut cx, cache) = session(&second);
    let ann = find(&mut cx, "ann");
    assert_eq!(text(field(&mut cx, ann, 0)), "7 cents");
    // The migration of the other fails, and the object stays as it was.
    let ben = find(&mut cx, "ben");
    assert!(!cx.opened(ben).returned());
    assert!(failure(&cx).contains("`accounts.migrate_Plain` ended with `failure`"), "{}", failure(&cx));
    assert_eq!(ben.mode(), Mode::Absent);
    // The new state is written with the transaction, and is undone with it.
    assert_eq!(cx.changed().collect::<Vec<_>>(), [ann]);
    cache.abort(&mut cx);
    assert_eq!(ann.mode(), Mode::Absent);
    assert_eq!(text(field(&mut cx, ann, 0)), "7 cents");
    cache.commit(&mut cx, None).unwrap();
    let (mut cx, _cache) = session(&second);
    let ann = find(&mut cx, "ann");
    assert_eq!(text(field(&mut cx, ann, 0)), "7 cents");
    assert_eq!(cx.changed().count(), 0, "the stored state is the new one");
}

/// The objects that a silent session has given up are held in the repository all the same, and come
/// back in their order. An object that it cannot have again keeps its heap.
#[test]
fn a_silent_session_keeps_orefs_alone() {
    /// The fields of a shelf that refer to its first item.
    const ONE: usize = 7;
    const ITEMS: usize = 12;
    let (image, repository) = (image(KINDS), Arc::new(Memory::new()));
    let schema = schema(&image, &repository);
    let (mut here, cache) = session(&schema);
    let keeper = shelf(&mut here);
    enter(&mut here, "keeper", keeper);
    let made = item(&mut here, "other");
    enter(&mut here, "other", made);
    cache.commit(&mut here, None).unwrap();

    let (mut there, silent) = session(&schema);
    let keeper = find(&mut there, "keeper");
    let kept = reference(&mut there, keeper, ONE);
    let objects = [find(&mut there, "other"), kept];
    assert!(!silent.fold(&mut there, &objects), "it is not let go of");
    assert_eq!(text(field(&mut there, kept, 0)), "one");
    silent.end(&mut there);
    silent.let_go(&mut there);
    assert!(silent.fold(&mut there, &objects));
    assert_eq!(there.heap_stats().usage.held_bytes, 0);

    // Nobody but the silent session names it now.
    let keeper = find(&mut here, "keeper");
    let another = item(&mut here, "another");
    change(&mut here, keeper, ONE, another);
    let items = here.new_array(image.table_of(named(&image, "array[item]")), 1, &[another]).unwrap();
    change(&mut here, keeper, ITEMS, items);
    cache.commit(&mut here, None).unwrap();
    cache.let_go(&mut here);
    cache.shrink(&mut here);
    repository.collect(&mut |_| ControlFlow::Continue(())).unwrap();
    let before = repository.info().unwrap().objects;
    let again = silent.unfold(&mut there);
    assert_eq!(again.len(), 2);
    let names = [again[0], again[1]].map(|one| text(field(&mut there, one, 0)));
    assert_eq!(names, ["other", "one"]);
    assert!(find(&mut there, "other") == again[0]);

    silent.end(&mut there);
    let own = item(&mut there, "own");
    let own = there.root(own);
    silent.let_go(&mut there);
    assert!(silent.fold(&mut there, &again[..1]));
    assert!(there.heap_stats().usage.held_bytes > 0);
    let again = silent.unfold(&mut there);
    assert_eq!(text(field(&mut there, again[0], 0)), "other");
    // SAFETY: it is an item.
    assert_eq!(text(field(&mut there, unsafe { Object::new(own.word()) }, 0)), "own");
    // The other one is gone for good.
    silent.end(&mut there);
    silent.let_go(&mut there);
    repository.collect(&mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(repository.info().unwrap().objects, before - 1);
}
