//! Values that cross from one heap to another: every kind of them, whatever refers to what, and bytes that nobody wrote.
//!
//! `BIFROST_FUZZ_RUNS` is the number of random cases; proptest prints the seed of one that fails.

use std::sync::{Arc, LazyLock};

use bifrost_interp::Interp;
use bifrost_ir::{TypeId, Types};
use bifrost_runtime::abi::Word;
use bifrost_runtime::content::{Content, Place, Unfit, Values};
use bifrost_runtime::object::{self, array, cell, list, map, sequence};
use bifrost_runtime::transfer::{
    Address, Leaf, NotReceived, NotSent, Pattern, Transfer, Wrong, decode, encode,
};
use bifrost_runtime::{Collect, Cx, Image, Limits, Object, RootSet, Table, invoke};
use bifrost_theta::{Colour, Options, Sources, compile, render_all};
use proptest::prelude::*;

static IMAGE: LazyLock<Arc<Image>> = LazyLock::new(|| {
    let mut sources = Sources::new();
    sources.add("kinds.theta", include_str!("transfer/kinds.theta"));
    let compiled = compile(&sources, &Options::default());
    let mistakes = render_all(&sources, &compiled.diagnostics, Colour::Plain);
    let program = compiled.program.unwrap_or_else(|| panic!("{mistakes}"));
    let image = bifrost_runtime::link(program, None).expect("linking");
    Interp::new(image.clone());
    image
});

fn context(collect: Collect) -> Box<Cx> {
    let limits = Limits { collect, batch_heap_bytes: 1 << 30, ..Limits::default() };
    Cx::new(IMAGE.clone(), limits, 1, || 0)
}

fn place(ty: TypeId) -> Place {
    Place::new(&IMAGE.program().types, ty)
}

fn named(name: &str) -> TypeId {
    IMAGE.program().types.find(name).unwrap_or_else(|| panic!("a type `{name}`"))
}

/// What a routine returns, and the place that it fits.
fn call(cx: &mut Cx, name: &str, args: &[Word]) -> (Word, Place) {
    let image = IMAGE.clone();
    let routine = image.program().find_routine(name).unwrap_or_else(|| panic!("a routine `{name}`"));
    let result = image.program().routines[routine].signature.results[0];
    let mut words = vec![0];
    words.extend_from_slice(args);
    cx.begin();
    // SAFETY: the context is for this image, and the callers pass what the routines below take.
    let ret = unsafe { invoke::routine(cx, image.routine(routine), &mut words) };
    cx.leave();
    assert!(ret.returned(), "`{name}` ended with {ret:?}");
    (ret.value, place(result))
}

/// The text that a routine returns.
fn text(cx: &mut Cx, name: &str, args: &[Word]) -> String {
    let (word, _) = call(cx, name, args);
    // SAFETY: the routines that this is used for return strings.
    unsafe { object::text(word) }.to_owned()
}

/// What is sent as an address has that in its first field.
fn address_of(_: &mut Cx, object: Object, leaf: Leaf) -> Result<Address, NotSent> {
    // SAFETY: it was made below.
    let (class, index) = (object.info(), unsafe { object::get(object.word(), 0) } as u32);
    assert_eq!(class.transfer, Transfer::Address(leaf));
    Ok(Address { capsule: 1, node: 2, index, generation: 3 })
}

fn new_addressed(cx: &mut Cx, class: TypeId, index: Word) -> Word {
    // More fields than an actor or a destination of answers has.
    let mut fields = [0; 16];
    fields[0] = index;
    cx.new_object(IMAGE.table_of(class), &fields).unwrap()
}

fn tally() -> TypeId {
    IMAGE.program().classes[IMAGE.program().find_class("Tally").unwrap()].ty
}

fn object_at(cx: &mut Cx, leaf: Leaf, address: Address, class: TypeId) -> Result<Object, NotReceived> {
    assert_eq!(IMAGE.table_of(class).info().transfer, Transfer::Address(leaf));
    match address {
        Address { capsule: 1, node: 2, index, generation: 3 } => {
            // SAFETY: it was just made.
            Ok(unsafe { Object::new(new_addressed(cx, class, Word::from(index))) })
        }
        _ => Err(NotReceived::Address(address)),
    }
}

fn try_encoded(cx: &mut Cx, values: &[Word], places: &[Place]) -> Result<Vec<u8>, NotSent> {
    let mut bytes = b"before".to_vec();
    // SAFETY: the callers pass values of the places' types.
    let values = unsafe { Values::new(values, places) };
    let sent = encode(cx, values, &mut address_of, &mut bytes);
    let rest = bytes.split_off(6);
    assert_eq!(bytes, b"before");
    assert!(sent.is_ok() || rest.is_empty(), "what is not sent leaves nothing behind");
    sent.map(|()| rest)
}

fn encoded(cx: &mut Cx, values: &[Word], places: &[Place]) -> Vec<u8> {
    try_encoded(cx, values, places).unwrap_or_else(|e| panic!("{e}"))
}

fn try_decoded(cx: &mut Cx, mut bytes: &[u8], places: &[Place]) -> Result<Vec<Word>, NotReceived> {
    let made = decode(cx, &mut bytes, places, &mut object_at)?;
    Ok(made.to_vec())
}

fn decoded(cx: &mut Cx, bytes: &[u8], places: &[Place]) -> Vec<Word> {
    let mut rest = [bytes, b"behind"].concat();
    let mut left = &rest[..];
    let made = decode(cx, &mut left, places, &mut object_at).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(left, b"behind");
    rest.fill(0xff);
    made.to_vec()
}

#[test]
fn every_kind_arrives_as_it_was() {
    let names: Vec<&str> =
        IMAGE.program().routines.values().filter_map(|r| r.name.strip_prefix("make_")).collect();
    assert!(names.len() > 30);
    for collect in [Collect::Checked, Collect::Zeal(1)] {
        for name in &names {
            let (mut here, mut there) = (context(collect), context(collect));
            let (value, place) = call(&mut here, &format!("make_{name}"), &[]);
            let kept = here.keep(if place.is_reference() { value } else { 0 });
            let bytes = encoded(&mut here, &[value], &[place]);
            let made = decoded(&mut there, &bytes, &[place])[0];
            let root = there.keep(if place.is_reference() { made } else { 0 });
            assert_eq!(encoded(&mut there, &[made], &[place]), bytes, "{name}");
            drop(kept);
            let (show, again) = (format!("show_{name}"), format!("make_{name}"));
            let expected = {
                let (value, _) = call(&mut here, &again, &[]);
                let _kept = here.keep(if place.is_reference() { value } else { 0 });
                text(&mut here, &show, &[value])
            };
            assert_eq!(text(&mut there, &show, &[made]), expected, "{name}");
            assert!(!expected.contains('?'), "{name}: {expected}");
            drop(root);
        }
    }
}

#[test]
fn values_share_what_they_shared() {
    for collect in [Collect::Checked, Collect::Zeal(1)] {
        let (mut here, mut there) = (context(collect), context(collect));
        let (row, row_place) = call(&mut here, "make_array", &[]);
        let _row = here.keep(row);
        let (long, long_place) = call(&mut here, "make_long", &[]);
        let _long = here.keep(long);
        let values = [row, 5, long, row, long];
        let places = [row_place, place(Types::INT), long_place, row_place, long_place];
        let bytes = encoded(&mut here, &values, &places);
        let made = decoded(&mut there, &bytes, &places);
        assert_eq!((made[0], made[1], made[2]), (made[3], 5, made[4]));
        assert_ne!(made[0], made[2]);
    }
}

#[test]
fn actors_and_destinations_of_answers_are_sent_as_addresses() {
    for collect in [Collect::Checked, Collect::Zeal(1)] {
        let (mut here, mut there) = (context(collect), context(collect));
        let actor = new_addressed(&mut here, tally(), 77);
        let _actor = here.keep(actor);
        let (holder, holder_place) = call(&mut here, "new_holder", &[actor]);
        let _holder = here.keep(holder);
        let (group, group_place) = call(&mut here, "new_group", &[actor, actor]);
        let _group = here.keep(group);
        let answer = new_addressed(&mut here, named("replier[int]"), 78);
        let _answer = here.keep(answer);
        let values = [actor, holder, group, answer, actor];
        let places = [
            place(named("Counter")),
            holder_place,
            group_place,
            place(named("replier[int]")),
            place(Types::ANY),
        ];
        let bytes = encoded(&mut here, &values, &places);
        let made = decoded(&mut there, &bytes, &places);
        // SAFETY: they were compared with the places' types.
        unsafe {
            assert_eq!(object::get(made[0], 0), 77);
            assert_eq!(object::get(object::get(made[1], 0), 0), 77);
            assert_eq!(object::get(made[2], sequence::LENGTH), 2);
            assert_eq!(object::get(object::get(made[2], sequence::ELEMENTS + 1), 0), 77);
            assert_eq!(object::get(made[3], 0), 78);
            assert_eq!(object::get(made[4], 0), 77);
        }
        // An actor is no value for a place of another type, and nobody is made who is not there.
        let node = place(named("Node"));
        let unfit = try_decoded(&mut there, &bytes, &[node]).unwrap_err();
        assert_eq!(unfit.to_string(), "expected `Node`, found `Tally`");
        let mut unknown = bytes.clone();
        unknown[8] = 9;
        let error = try_decoded(&mut there, &unknown, &places).unwrap_err();
        assert!(matches!(error, NotReceived::Address(Address { capsule: 9, .. })), "{error}");
    }
}

#[test]
fn deep_values_need_no_stack() {
    const DEPTH: Word = 1_000_000;
    let (mut here, mut there) = (context(Collect::Ordinary), context(Collect::Ordinary));
    for (make, sum, expected) in [
        ("deep_list", "deep_list_sum", DEPTH * (DEPTH + 1) / 2 + DEPTH),
        ("deep_chain", "deep_chain_sum", DEPTH * (DEPTH + 1) / 2),
    ] {
        let (value, place) = call(&mut here, make, &[DEPTH]);
        let _kept = here.keep(value);
        let bytes = encoded(&mut here, &[value], &[place]);
        let made = decoded(&mut there, &bytes, &[place])[0];
        let _root = there.keep(made);
        assert_eq!(call(&mut there, sum, &[made]).0, expected);
    }
}

#[test]
fn what_stays_is_refused_by_name() {
    let mut here = context(Collect::Checked);
    for (name, text) in [
        ("refused_routine", "an object of `plus#"),
        ("refused_directory", "an object of `directory` cannot be sent: its names belong to one store"),
    ] {
        let (value, place) = call(&mut here, name, &[]);
        let _kept = here.keep(value);
        let error = try_encoded(&mut here, &[value], &[place]).unwrap_err().to_string();
        assert!(error.starts_with(text), "{error}");
    }
}

/// The bytes of a reference to a new object of a class.
fn object_of(class: u32) -> Vec<u8> {
    [3_u32.to_le_bytes(), class.to_le_bytes()].concat()
}

#[test]
fn bytes_of_others_are_refused() {
    let mut there = context(Collect::Checked);
    let mut check = |bytes: &[u8], name: &str, expected: &str| {
        let ty = named(name);
        let error = try_decoded(&mut there, bytes, &[place(ty)]).expect_err(name);
        assert_eq!(error.to_string(), expected);
    };
    let word = |n: u64| n.to_le_bytes().to_vec();
    let short = |n: u32| n.to_le_bytes().to_vec();
    check(&word(2), "bool", "at byte 8: 2 is no value of the kind Bool");
    check(&word(0xd800), "char", "at byte 8: 55296 is no value of the kind Char");
    check(&word(1), "null", "at byte 8: 1 is no value of the kind Null");
    check(&[0; 7], "int", "at byte 0: the bytes end too early");
    check(&short(0), "string", "a reference has no object");
    check(&short(9), "string", "at byte 4: there is no object 9 before this place");
    check(&short(7), "string", "at byte 4: there is no object 7 before this place");
    check(&[short(1), short(2), vec![0xc3, 0x28]].concat(), "string", "at byte 10: the string is not UTF-8");
    check(&[short(1), short(u32::MAX), vec![0; 40]].concat(), "string", "at byte 8: the bytes end too early");
    check(&[short(1), short(0)].concat(), "Node", "expected `Node`, found `string`");
    check(
        &object_of(u32::MAX),
        "any",
        "at byte 8: no class 4294967295 has objects that are sent in this \
        form",
    );
    let numbers = named("array[int]").as_u32();
    check(&object_of(numbers), "Node", "expected `Node`, found `array[int]`");
    check(&object_of(numbers), "array[int]", "at byte 8: the bytes end too early");
    let array = |count: u64| [object_of(numbers), word(1), word(count), word(7)].concat();
    check(&array(2), "array[int]", "at byte 24: the bytes end too early");
    check(&array(u64::MAX), "array[int]", "at byte 24: the bytes end too early");
    let class = |name: &str| IMAGE.program().classes[IMAGE.program().find_class(name).unwrap()].ty.as_u32();
    let wrong = |class: u32| format!("at byte 8: no class {class} has objects that are sent in this form");
    check(&object_of(tally().as_u32()), "Counter", &wrong(tally().as_u32()));
    check(&object_of(Types::DIRECTORY.as_u32()), "directory", &wrong(Types::DIRECTORY.as_u32()));
    check(&object_of(Types::STRING.as_u32()), "string", &wrong(Types::STRING.as_u32()));
    check(&[short(4), short(class("N"))].concat(), "Node", &wrong(class("N")));
    // Lists whose length is none, and that are their own rest.
    let ints = named("list[int]").as_u32();
    let cell = |rest: Vec<u8>, length: u64| [object_of(ints), word(7), rest, word(length)].concat();
    let end = [word(0), short(0), word(0)].concat();
    for bytes in [
        cell(short(8), 1),
        cell(short(8), u64::MAX),
        [cell(object_of(ints), 2), end.clone()].concat(),
        [cell(object_of(ints), 0), end.clone()].concat(),
    ] {
        let error = try_decoded(&mut there, &bytes, &[place(named("list[int]"))]).unwrap_err();
        assert!(matches!(error, NotReceived::Malformed { wrong: Wrong::List, .. }), "{error}");
    }
    let fine = [cell(object_of(ints), 1), end].concat();
    try_decoded(&mut there, &fine, &[place(named("list[int]"))]).unwrap();
}

#[test]
fn a_wrong_length_is_refused() {
    let mut there = context(Collect::Checked);
    let numbers = named("vector[real]").as_u32();
    let bytes = [&object_of(numbers)[..], &2_u32.to_le_bytes(), &1_u64.to_le_bytes(), &[0; 16]].concat();
    let error = try_decoded(&mut there, &bytes, &[place(named("vector[real]"))]).unwrap_err();
    assert_eq!(error, NotReceived::Unfit(Unfit::Length));
}

#[test]
fn promises_are_bounded_by_what_is_there() {
    let mut there = context(Collect::Checked);
    // Each vector would have room for all bytes behind it.
    let vectors = named("vector[any]");
    let count = 100_000_u32;
    let mut bytes = [object_of(vectors.as_u32()), count.to_le_bytes().to_vec()].concat();
    bytes.extend(u64::from(count).to_le_bytes());
    for _ in 0..count / 8 {
        bytes.extend([object_of(vectors.as_u32()), (count / 2).to_le_bytes().to_vec()].concat());
    }
    let error = try_decoded(&mut there, &bytes, &[place(vectors)]).unwrap_err();
    assert!(matches!(error, NotReceived::Malformed { wrong: Wrong::Short, .. }), "{error}");
    assert!(there.taken_bytes() < 20 * bytes.len() as u64, "{} of {}", there.taken_bytes(), bytes.len());
}

#[test]
fn a_full_heap_is_an_error() {
    let (mut here, limits) = (context(Collect::Checked), Limits::default());
    let (value, place) = call(&mut here, "deep_list", &[100_000]);
    let _kept = here.keep(value);
    let bytes = encoded(&mut here, &[value], &[place]);
    let limits =
        Limits { heap_bytes: 1 << 20, batch_heap_bytes: 1 << 20, collect: Collect::Checked, ..limits };
    let mut there = Cx::new(IMAGE.clone(), limits, 1, || 0);
    let error = try_decoded(&mut there, &bytes, &[place]).unwrap_err();
    assert!(matches!(error, NotReceived::Full(_)), "{error}");
    there.collect();
    let (small, place) = call(&mut there, "make_many", &[]);
    let _kept = there.keep(small);
    let bytes = encoded(&mut there, &[small], &[place]);
    decoded(&mut there, &bytes, &[place]);
}

/// Whether keys are one, as far as that can be said without running the program.
fn same_key(place: Place, one: Word, other: Word) -> bool {
    use bifrost_runtime::content::PlaceKind;
    // SAFETY: the words are of the place's type.
    unsafe {
        match place.kind {
            PlaceKind::String => object::text(one) == object::text(other),
            PlaceKind::Bytes => object::byte_slice(one) == object::byte_slice(other),
            PlaceKind::Real => f64::from_bits(one) == f64::from_bits(other),
            _ => one == other,
        }
    }
}

#[test]
fn a_map_with_a_key_twice_is_refused() {
    let map = |cx: &mut Cx, ty: &str, pairs: &[[Word; 2]]| {
        let table = IMAGE.tables().find(|table| table.info().name == ty).unwrap_or_else(|| panic!("no {ty}"));
        let made = cx.alloc(table, map::FIELDS).unwrap().as_ptr() as Word;
        let _made = cx.keep(made);
        bifrost_runtime::map_entries::prepare_map(cx, made, pairs.len()).unwrap();
        for (at, word) in pairs.as_flattened().iter().enumerate() {
            // SAFETY: there is room for so many pairs of words of the types.
            unsafe { object::set(object::get(made, map::ENTRIES), at, *word) };
        }
        (made, place(table.info().ty))
    };
    let (mut here, mut there) = (context(Collect::Checked), context(Collect::Checked));
    let mut string = |text: &str| here.new_string(text).unwrap();
    let [a, other, b] = [string("a"), string("a"), string("b")];
    let long = string(&"long".repeat(20));
    let kept = here.keep_all(&[a, other, b, long]);
    for (keys, are_fine) in
        [([a, b, long], true), ([a, b, other], false), ([long, a, long], false), ([b, long, a], true)]
    {
        let (made, place) = map(&mut here, "map[string, int]", &keys.map(|key| [key, 7]));
        let bytes = encoded(&mut here, &[made], &[place]);
        let received = try_decoded(&mut there, &bytes, &[place]);
        let told = received.map(|_| ()).map_err(|wrong| wrong.to_string());
        match are_fine {
            true => assert_eq!(told, Ok(())),
            false => assert!(told.is_err_and(|wrong| wrong.ends_with("a map has a key twice"))),
        }
    }
    drop(kept);
}

/// Makes values of any type at random.
struct Maker {
    state: u64,
    /// Everything that was made.
    made: RootSet,
}

impl Maker {
    fn new(cx: &mut Cx, seed: u64) -> Maker {
        Maker { state: seed | 1, made: cx.new_root_set() }
    }

    /// A number below `n` (xorshift64*).
    fn below(&mut self, n: usize) -> usize {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        (self.state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % n
    }

    fn keep(&mut self, cx: &mut Cx, word: Word) -> Word {
        cx.root_set(&self.made).push(word);
        word
    }

    fn value(&mut self, cx: &mut Cx, place: Place, depth: usize) -> Word {
        use bifrost_runtime::content::PlaceKind::*;
        match place.kind {
            Null => 0,
            Bool => self.below(2) as Word,
            Int => (self.below(1000) as Word).wrapping_sub(500).wrapping_mul(0x1_2345_6789),
            Real => (self.below(1000) as f64 / 8.0).to_bits(),
            Char => Word::from(char::from_u32(0x20 + self.below(0x2000) as u32).map_or(0, u32::from)),
            String | Bytes | Object => {
                let fits = |word: &Word| {
                    // SAFETY: what was made are references.
                    unsafe { Table::of(*word) }.info().has_type(place.ty)
                };
                let known: Vec<Word> = cx.root_set(&self.made).iter().copied().filter(fits).collect();
                if !known.is_empty() && (depth == 0 || self.below(4) == 0) {
                    return known[self.below(known.len())];
                }
                self.object(cx, place.ty, depth.saturating_sub(1))
            }
        }
    }

    fn object(&mut self, cx: &mut Cx, ty: TypeId, depth: usize) -> Word {
        let mut tables: Vec<&'static Table> = IMAGE
            .tables()
            .filter(|table| table.info().has_type(ty) && !matches!(table.info().transfer, Transfer::Never(_)))
            .collect();
        if depth == 0 {
            let small = |table: &&'static Table| match &table.info().content {
                Content::Fields(places) => places.iter().all(|place| !place.is_reference()),
                _ => true,
            };
            if tables.iter().any(small) {
                tables.retain(small);
            }
        }
        let table = tables[self.below(tables.len())];
        let count = if depth == 0 { 0 } else { self.below(6) };
        match table.info().transfer {
            Transfer::Text => {
                let text = "abcä".repeat(self.below(14));
                let word = cx.new_string(&text).unwrap();
                self.keep(cx, word)
            }
            Transfer::Bytes => {
                let bytes = vec![7; self.below(80)];
                let word = cx.new_bytes(&[&bytes]).unwrap();
                self.keep(cx, word)
            }
            Transfer::Class => IMAGE.lasting(table.info().class.unwrap()).unwrap(),
            Transfer::Boxed(place) => {
                let value = self.value(cx, place, 0);
                let word = cx.new_object(table, &[value]).unwrap();
                self.keep(cx, word)
            }
            Transfer::Address(_) => {
                let index = self.below(100) as Word;
                let word = new_addressed(cx, table.info().ty, index);
                self.keep(cx, word)
            }
            Transfer::Content => self.content(cx, table, count, depth),
            Transfer::Never(_) => unreachable!("left out above"),
        }
    }

    /// An object with `count` elements.
    fn content(&mut self, cx: &mut Cx, table: &'static Table, count: usize, depth: usize) -> Word {
        if let Content::List(first, _) = &table.info().content {
            return self.list(cx, table, *first, count, depth);
        }
        let fields = match &table.info().content {
            content if content.has_length() => sequence::ELEMENTS + count,
            _ => object::field_count(IMAGE.program(), table.info().ty),
        };
        let made = cx.alloc(table, fields).unwrap().as_ptr() as Word;
        self.keep(cx, made);
        // SAFETY: the object was just made with these fields, and the values are made for their places.
        unsafe {
            let fill = |maker: &mut Maker, cx: &mut Cx, into: Word, at: usize, place: Place| {
                let word = maker.value(cx, place, depth);
                object::set(into, at, word);
            };
            match &table.info().content {
                Content::Fields(places) => {
                    for (at, place) in places.iter().enumerate() {
                        fill(self, cx, made, at, *place);
                    }
                }
                Content::Array(element) => {
                    let (head, room) = (self.below(3), count + 5);
                    let storage = cx.alloc(IMAGE.storage_table(element.ty), room).unwrap().as_ptr() as Word;
                    object::set(made, array::STORAGE, storage);
                    object::set(made, array::LOW, self.below(9) as Word);
                    for at in 0..count {
                        fill(self, cx, storage, head + at, *element);
                    }
                    object::set(made, array::HEAD, head as Word);
                    object::set(made, array::LENGTH, count as Word);
                }
                Content::Vector(element) | Content::Sequence(element) => {
                    object::set(made, sequence::LENGTH, count as Word);
                    for at in 0..count {
                        fill(self, cx, made, sequence::ELEMENTS + at, *element);
                    }
                }
                Content::Cell(element) if count > 0 => {
                    fill(self, cx, made, cell::VALUE, *element);
                    object::set(made, cell::FULL, 1);
                }
                Content::Map(key, value) => {
                    let mut pairs: Vec<[Word; 2]> = Vec::new();
                    for _ in 0..count {
                        let pair = [self.value(cx, *key, depth), self.value(cx, *value, depth)];
                        if pairs.iter().all(|other| !same_key(*key, other[0], pair[0])) {
                            pairs.push(pair);
                        }
                    }
                    bifrost_runtime::map_entries::prepare_map(cx, made, pairs.len()).unwrap();
                    for (at, word) in pairs.as_flattened().iter().enumerate() {
                        object::set(object::get(made, map::ENTRIES), at, *word);
                    }
                }
                _ => {}
            }
        }
        made
    }

    fn list(&mut self, cx: &mut Cx, table: &'static Table, first: Place, count: usize, depth: usize) -> Word {
        let mut made = cx.new_object(table, &[0, 0, 0]).unwrap();
        self.keep(cx, made);
        for length in 1..=count {
            let word = self.value(cx, first, depth);
            let mut fields = [0; list::FIELDS];
            (fields[list::FIRST], fields[list::NEXT], fields[list::LENGTH]) = (word, made, length as Word);
            made = cx.new_object(table, &fields).unwrap();
            self.keep(cx, made);
        }
        made
    }
}

/// The types that programs have values of which are sent.
fn sendable() -> Vec<TypeId> {
    let types = IMAGE.program().types.iter().map(|(ty, _)| ty);
    let has_values = |ty: &TypeId| {
        !place(*ty).is_reference()
            || IMAGE
                .tables()
                .any(|t| t.info().has_type(*ty) && !matches!(t.info().transfer, Transfer::Never(_)))
    };
    types.filter(has_values).collect()
}

fn cases(most: u32) -> ProptestConfig {
    let runs = std::env::var("BIFROST_FUZZ_RUNS").ok().and_then(|runs| runs.parse().ok());
    ProptestConfig { cases: runs.unwrap_or(most), failure_persistence: None, ..ProptestConfig::default() }
}

/// Random values of some random types.
fn values(cx: &mut Cx, seed: u64) -> (Maker, Vec<Word>, Vec<Place>) {
    let mut maker = Maker::new(cx, seed);
    let types = sendable();
    let places: Vec<Place> =
        (0..1 + maker.below(4)).map(|_| place(types[maker.below(types.len())])).collect();
    let values = places.iter().map(|place| maker.value(cx, *place, 6)).collect();
    (maker, values, places)
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn random_values_arrive_as_they_were(seed: u64, zeal in 0..8) {
        let collect = if zeal == 0 { Collect::Zeal(1) } else { Collect::Checked };
        let (mut here, mut there) = (context(Collect::Checked), context(collect));
        let (_made, values, places) = values(&mut here, seed);
        let bytes = encoded(&mut here, &values, &places);
        let made = decoded(&mut there, &bytes, &places);
        let references = made.iter().zip(&places).filter(|(_, place)| place.is_reference());
        let references: Vec<Word> = references.map(|(word, _)| *word).collect();
        let _kept = there.keep_all(&references);
        there.collect();
        // Numbers go by the order in which objects are met: what is written the same is the same graph.
        prop_assert_eq!(encoded(&mut there, &made, &places), bytes);
    }

    #[test]
    fn patterns_write_and_read_the_general_form(
        seed: u64,
        kinds in proptest::collection::vec(0..6_usize, 0..5),
        at: proptest::sample::Index,
        with: u64,
        cut in 0..4_usize,
    ) {
        let (mut here, mut there) = (context(Collect::Checked), context(Collect::Checked));
        let mut maker = Maker::new(&mut here, seed);
        // The last kind is a reference, which leads the general way.
        let types = ["null", "bool", "int", "real", "char", "string"].map(named);
        let places: Vec<Place> = kinds.iter().map(|kind| place(types[*kind])).collect();
        let values: Vec<Word> = places.iter().map(|place| maker.value(&mut here, *place, 1)).collect();
        let pattern = Pattern::new(places.iter().copied());
        prop_assert_eq!(pattern.is_plain(), !kinds.contains(&5));
        let mut bytes = encoded(&mut here, &values, &places);
        let mut written = Vec::new();
        // SAFETY: the values are of the places' types.
        unsafe { pattern.write(&mut here, &values, &mut address_of, &mut written) }.unwrap();
        prop_assert_eq!(&written, &bytes);
        // What somebody has changed is refused by both or means the same.
        if !bytes.is_empty() && cut < 2 {
            let at = at.index(bytes.len().div_ceil(8)) * 8;
            for (byte, with) in bytes[at..].iter_mut().zip(with.to_le_bytes()) {
                *byte = with;
            }
        }
        bytes.truncate(bytes.len() - [0, 1, 9, 0][cut].min(bytes.len()));
        let (mut rest, mut words) = (&bytes[..], vec![0; places.len()]);
        let read = pattern.read(&mut there, &mut rest, &mut object_at, &mut words);
        match try_decoded(&mut there, &bytes, &places) {
            Err(_) => prop_assert!(read.is_err()),
            Ok(made) => {
                prop_assert_eq!(read, Ok(()));
                let again = encoded(&mut there, &words, &places);
                prop_assert_eq!(again, encoded(&mut there, &made, &places));
            }
        }
    }
}

proptest! {
    #![proptest_config(cases(1000))]

    #[test]
    fn changed_bytes_do_no_harm(seed: u64, changes in proptest::collection::vec((any::<usize>(), any::<u32>(), 0..5_u8), 1..6)) {
        let (mut here, mut there) = (context(Collect::Checked), context(Collect::Checked));
        let (_made, values, places) = values(&mut here, seed);
        let mut bytes = encoded(&mut here, &values, &places);
        for (at, with, how) in changes {
            if bytes.is_empty() {
                break;
            }
            let at = at % bytes.len();
            match how {
                0 => bytes[at] ^= with as u8,
                1 => bytes.truncate(at),
                // Small numbers where there may be tags, numbers, classes and lengths.
                2 if at + 4 <= bytes.len() => {
                    bytes[at / 4 * 4..at / 4 * 4 + 4].copy_from_slice(&(with % 64).to_le_bytes());
                }
                3 => {
                    let part = bytes[at..].to_vec();
                    bytes.extend(part);
                }
                _ => {
                    bytes.drain(at..bytes.len().min(at + 4));
                }
            }
        }
        let received = try_decoded(&mut there, &bytes, &places);
        prop_assert!(there.taken_bytes() < 40 * bytes.len() as u64 + 4096, "{} of {}", there.taken_bytes(), bytes.len());
        if let Ok(made) = received {
            let references = made.iter().zip(&places).filter(|(_, place)| place.is_reference());
            let references: Vec<Word> = references.map(|(word, _)| *word).collect();
            let _kept = there.keep_all(&references);
            there.collect();
            let again = encoded(&mut there, &made, &places);
            let made = decoded(&mut there, &again, &places);
            prop_assert_eq!(encoded(&mut there, &made, &places), again);
        }
    }

    #[test]
    fn any_bytes_do_no_harm(seed: u64, words in proptest::collection::vec(0..24_u32, 0..60)) {
        let mut there = context(Collect::Checked);
        let types = sendable();
        let ty = types[seed as usize % types.len()];
        let table = IMAGE.tables().find(|t| t.info().has_type(ty)).map_or(0, |t| t.info().ty.as_u32());
        let mut bytes = object_of(table);
        bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        if let Ok(made) = try_decoded(&mut there, &bytes, &[place(ty)]) {
            let _kept = there.keep(if place(ty).is_reference() { made[0] } else { 0 });
            there.collect();
            encoded(&mut there, &made, &[place(ty)]);
        }
    }
}
