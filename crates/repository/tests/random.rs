//! Whatever bytes a store reads back, from its log, from records, from a dump: nothing panics, nothing takes more memory than the bytes
//! are worth, and a log that was damaged is refused or cut off, never taken for another one. The bodies are those of the targets in `fuzz/`.

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use bifrost_repository::embedded::disk::Disk;
use bifrost_repository::embedded::log::NAMES;
use bifrost_repository::memory::Memory;
use bifrost_repository::record::{FieldKind, Kind, Reference, Value, Writer};
use bifrost_repository::store::{Committed, Entry, encode};
use bifrost_repository::{BatchId, ClassNumber, Error, Oref, Repository, Tid, dump};
use bytes::Bytes;
use support::bodies::{classes, dump_text, log_bytes, log_entries, log_files, stored_record};
use support::disk::Sim;
use support::life::{self, Model};
use support::random::{Random, each_of_corpus, repeat};
use support::{commit_reading, fresh, links, links_class, oref, put};

/// Counts the bytes that each thread has at a time.
struct Counting;

thread_local! {
    /// Now, and the most since it was asked.
    static BYTES: Cell<(isize, isize)> = const { Cell::new((0, 0)) };
}

fn count(bytes: isize) {
    BYTES.with(|counted| {
        let (now, most) = counted.get();
        counted.set((now + bytes, most.max(now + bytes)));
    });
}

// SAFETY: hands everything on to the system's allocator, unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Runs it, and refuses if it took more memory at a time than so many bytes for each byte of its input, and some.
fn within<T>(each: usize, input: &[u8], work: impl FnOnce(&[u8]) -> T) -> T {
    let before = BYTES.with(|counted| {
        let (now, _) = counted.get();
        counted.set((now, now));
        now
    });
    let result = work(input);
    let most = BYTES.with(|counted| counted.get().1 - before);
    let allowed = (1 << 16) + each * input.len();
    assert!(most as usize <= allowed, "{most} bytes were taken for {} of input", input.len());
    result
}

fn bytes(random: &mut Random, most: usize) -> Vec<u8> {
    (0..random.below(most)).map(|_| random.next() as u8).collect()
}

/// A few bytes changed, as numbers and lengths are; or cut off, or something in front of it twice.
fn mutate(random: &mut Random, bytes: &mut Vec<u8>) {
    for _ in 0..random.below(4) {
        if bytes.is_empty() {
            return;
        }
        let at = random.below(bytes.len());
        match random.below(8) {
            0 => bytes.truncate(at),
            1 => {
                let part = bytes[at..].to_vec();
                bytes.splice(at..at, part);
            }
            2 => _ = bytes.splice(at..=at, [0xFF; 9].into_iter().chain([1])),
            _ => {
                let flipped = bytes[at] ^ 1 << random.below(8);
                bytes[at] = [0, 1, 0x7F, 0x80, 0xFF, flipped, random.next() as u8][random.below(7)];
            }
        }
    }
}

/// A record of one of [`classes`].
fn record(random: &mut Random) -> Vec<u8> {
    let classes = classes();
    let number = random.below(classes.len());
    let mut out = Vec::new();
    let mut to = Writer::new(&mut out, ClassNumber(number as u32 + 1));
    let count = random.below(5);
    let values = |to: &mut Writer<'_>, random: &mut Random, kinds: &[FieldKind]| {
        to.count(count as u64);
        for _ in 0..count {
            kinds.iter().for_each(|kind| value(to, random, *kind));
        }
    };
    match &classes[number].kind {
        Kind::Object(fields) => fields.iter().for_each(|field| value(&mut to, random, field.kind)),
        Kind::Array(of) => {
            to.int(random.next() as i64 >> random.below(64));
            values(&mut to, random, &[*of]);
        }
        Kind::Vector(of) | Kind::Sequence(of) => values(&mut to, random, &[*of]),
        Kind::List(of) => {
            value(&mut to, random, *of);
            value(&mut to, random, FieldKind::Ref);
            to.count(1);
        }
        Kind::Cell(of) => {
            to.bool(true);
            value(&mut to, random, *of);
        }
        Kind::Map(key, of) => values(&mut to, random, &[*key, *of]),
        Kind::Directory => values(&mut to, random, &[FieldKind::Str, FieldKind::Ref]),
        Kind::Native => {
            values(&mut to, random, &[FieldKind::Ref]);
            to.bytes(&bytes(random, 9));
        }
    }
    out
}

fn value(to: &mut Writer<'_>, random: &mut Random, kind: FieldKind) {
    let text = ["", "a", "häl", "\u{10FFFF}"][random.below(4)];
    match kind {
        FieldKind::Nil => to.nil(),
        FieldKind::Bool => to.bool(random.chance(2)),
        FieldKind::Int => to.int(random.next() as i64 >> random.below(64)),
        FieldKind::Real => to.value(Value::Real(f64::from_bits(random.next()))),
        FieldKind::Char => to.value(Value::Char(['a', '\0', '€'][random.below(3)])),
        FieldKind::Str => to.str(text),
        FieldKind::Bytes => to.bytes(text.as_bytes()),
        FieldKind::Ref => to.reference(match random.below(4) {
            0 => Reference::Nothing,
            1 => Reference::Str(text),
            2 => Reference::Bytes(text.as_bytes()),
            _ => {
                let class = 1 + random.below(9);
                let length = classes()[class - 1].kind.has_length().then_some(random.next() >> 40);
                let oref = oref(1 + (random.next() >> (17 + random.below(47))));
                Reference::Object { oref, class: ClassNumber(class as u32), length }
            }
        }),
    }
}

fn entries(random: &mut Random) -> Vec<Entry> {
    let mut tid = 1 + random.below(1000) as u64;
    let mut one = |random: &mut Random| match random.below(6) {
        0 => {
            let step = 1 + (random.next() >> 50);
            Entry::Free((1..1 + random.below(5)).map(|i| oref(i as u64 * step)).collect())
        }
        1 => {
            let class = random.below(9);
            Entry::Class(ClassNumber(class as u32 + 1), classes()[class].clone().into())
        }
        2 => Entry::Reserve(random.next() >> 20),
        _ => {
            let states = |random: &mut Random| {
                (0..random.below(4)).map(|i| (oref(1 + i as u64), Bytes::from(record(random)))).collect()
            };
            let (writes, creates) = (states(random), states(random));
            let id = BatchId { session: u128::from(random.next()), number: random.next() };
            let batch = random.chance(2).then(|| (id, Bytes::from("reply")));
            tid += 1;
            Entry::Commit(Committed { tid: Tid(tid), writes, creates, batch })
        }
    };
    (0..random.below(5)).map(|_| one(random)).collect()
}

#[test]
fn entries_of_the_log_at_random() {
    let mut read = 0;
    repeat("entries_of_the_log_at_random", |seed| {
        let mut random = Random::new(seed);
        for _ in 0..100 {
            let entries = entries(&mut random);
            let mut data = Vec::new();
            encode(&entries, &mut data);
            assert_eq!(log_entries(&data), Some(entries));
            mutate(&mut random, &mut data);
            read += usize::from(within(100, &data, log_entries).is_some());
            within(100, &bytes(&mut random, 100), log_entries);
        }
    });
    println!("{read} were entries");
    assert!(read > 0);
}

#[test]
fn records_at_random() {
    let mut read = 0;
    repeat("records_at_random", |seed| {
        let mut random = Random::new(seed);
        for _ in 0..100 {
            let mut data = record(&mut random);
            assert!(stored_record(&data));
            mutate(&mut random, &mut data);
            // JSON in memory is large.
            read += usize::from(within(1000, &data, stored_record));
            let class = &classes()[random.below(9)];
            data.clear();
            class.encode(&mut data);
            mutate(&mut random, &mut data);
            within(1000, &data, stored_record);
            within(1000, &bytes(&mut random, 100), stored_record);
        }
    });
    println!("{read} were records");
    assert!(read > 0);
}

#[test]
fn dumps_at_random() {
    let mut loaded = 0;
    repeat("dumps_at_random", |seed| {
        let mut random = Random::new(seed);
        let store = Memory::new();
        classes()[1..].iter().for_each(|class| _ = store.define_class(class).unwrap());
        let creates = fresh(&store, 1 + random.below(9) as u32).into_iter();
        let creates = creates.map(|oref| (oref, record(&mut random).into())).collect();
        put(&store, vec![], creates);
        let mut text = Vec::new();
        dump::write(&store, &mut text, &mut |_| {}).unwrap();
        assert!(dump_text(&text));
        for _ in 0..20 {
            let mut changed = text.clone();
            mutate(&mut random, &mut changed);
            loaded += usize::from(dump_text(&changed));
        }
        dump_text(&bytes(&mut random, 200));
    });
    println!("{loaded} were dumps");
    assert!(loaded > 0);
}

#[test]
fn files_of_the_log_at_random() {
    let (mut refused, mut opened) = (0, 0);
    repeat("files_of_the_log_at_random", |seed| {
        let mut random = Random::new(seed);
        for _ in 0..20 {
            let data: Vec<u8> = (0..40).map(|_| random.next() as u8).collect();
            match log_files(&data) {
                None => refused += 1,
                Some(_) => opened += 1,
            }
            log_bytes(&bytes(&mut random, 20_000));
        }
    });
    println!("{refused} were refused, {opened} were opened");
    assert!(refused > 0 && opened > 0);
}

/// One bit of a log turned round: the whole store refuses to open, or has the first commits, one after the other as they were.
#[test]
fn a_bit_of_the_log_is_turned_round() {
    let (mut refused, mut cut, mut whole) = (0, 0, 0);
    repeat("a_bit_of_the_log_is_turned_round", |seed| {
        let mut random = Random::new(seed);
        let disk = Sim::new(seed);
        let store = life::open(&disk).unwrap();
        let class = store.define_class(&links_class()).unwrap();
        let orefs = fresh(&*store, 5);
        let creates = orefs.iter().map(|oref| (*oref, links(class, 0, 3, &[]))).collect();
        put(&*store, vec![], creates);
        let model = |store: &dyn Repository| Model::of(store, std::iter::empty()).unwrap();
        let mut models = vec![model(&*store)];
        for number in 0..1 + random.below(12) {
            let writes = orefs.iter().filter(|_| random.clone().chance(2));
            let writes: Vec<(Oref, Bytes)> = writes
                .map(|o| (*o, links(class, number as i64, random.clone().below(9000), &orefs)))
                .collect();
            random.next();
            commit_reading(&*store, store.head(), &[], writes, vec![], None).unwrap();
            models.push(model(&*store));
        }
        let all = disk.fork(seed);
        drop(store);
        for _ in 0..10 {
            let disk = all.fork(seed);
            let file = disk.open(NAMES[random.below(2)], false).unwrap().unwrap();
            let length = file.len().unwrap();
            if length == 0 {
                continue;
            }
            let at = (random.next() % length) & if random.chance(2) { !0 } else { !4095 | 63 };
            let mut byte = [0];
            file.read_at(at, &mut byte).unwrap();
            file.write_at(at, &[byte[0] ^ 1 << random.below(8)]).unwrap();
            match life::open(&disk) {
                Err(Error::Damaged { .. }) => refused += 1,
                Err(other) => panic!("{other}"),
                Ok(store) => {
                    let found = model(&*store);
                    let at = models.iter().position(|model| *model == found);
                    // What was committed before the first of these may be cut off as well.
                    let at = at.or((found.head < models[0].head).then_some(0));
                    let at = at.unwrap_or_else(|| panic!("commit {} is not as it was", found.head));
                    *if at + 1 == models.len() { &mut whole } else { &mut cut } += 1;
                }
            }
        }
    });
    println!("{refused} were refused, {cut} cut off, {whole} had everything");
    assert!(refused > 0);
}

#[test]
fn entries_have_one_form() {
    // Orefs to free: one, then the same again; none at all; beyond the last; a reservation beyond the last.
    let most = [0xFF; 9];
    let beyond = |start: &[u8]| [start, &most, &[1]].concat();
    for data in [vec![3, 2, 5, 0], vec![3, 1, 0], beyond(&[3, 1]), beyond(&[5])] {
        assert_eq!(log_entries(&data), None, "{data:?}");
    }
}

#[test]
fn inputs_of_the_corpus() {
    each_of_corpus("log_entries", |data| {
        log_entries(data);
    });
    each_of_corpus("log_files", |data| {
        log_files(data);
        log_bytes(data);
    });
    each_of_corpus("stored_record", |data| {
        stored_record(data);
    });
    each_of_corpus("dump_text", |data| {
        dump_text(data);
    });
}
