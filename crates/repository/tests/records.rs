//! Records come back as they were written, as bytes and as JSON; and whatever the bytes, reading them ends well.

use bifrost_repository::record::{
    ClassDescriptor, Field, FieldKind, Kind, Reader, Reference, Value, Writer, Wrong, check_record, class_of,
    from_json, to_json, walk, walk_refs,
};
use std::collections::HashSet;

use bifrost_repository::dump::{self, DUMP_OREF_MAX, LoadError};
use bifrost_repository::memory::Memory;
use bifrost_repository::{ClassNumber, Commit, Oref, Repository};
use proptest::prelude::*;

fn field_kind() -> impl Strategy<Value = FieldKind> {
    prop::sample::select(&FieldKind::ALL[..])
}

fn kind() -> impl Strategy<Value = Kind> {
    let fields = prop::collection::vec(("[a-z]{0,5}", field_kind()), 0..6);
    prop_oneof![
        fields.prop_map(|fields| {
            Kind::Object(fields.into_iter().map(|(name, kind)| Field { name, kind }).collect())
        }),
        field_kind().prop_map(Kind::Array),
        field_kind().prop_map(Kind::Vector),
        field_kind().prop_map(Kind::Sequence),
        field_kind().prop_map(Kind::List),
        field_kind().prop_map(Kind::Cell),
        (field_kind(), field_kind()).prop_map(|(key, value)| Kind::Map(key, value)),
        Just(Kind::Directory),
        Just(Kind::Native),
    ]
}

fn class() -> impl Strategy<Value = ClassDescriptor> {
    (".{0,8}", any::<u32>(), kind(), prop::collection::vec(".{0,4}", 0..3), ".{0,20}").prop_map(
        |(name, version, kind, supertypes, specification)| ClassDescriptor {
            name,
            version,
            kind,
            supertypes,
            specification,
        },
    )
}

/// A few classes, the directory first.
fn classes() -> impl Strategy<Value = Vec<ClassDescriptor>> {
    prop::collection::vec(class(), 1..6).prop_map(|mut classes| {
        classes.insert(0, ClassDescriptor::directory());
        classes
    })
}

/// A value that owns what it refers to.
#[derive(Clone, Debug)]
enum Owned {
    Plain(Value<'static>),
    Str(String),
    Bytes(Vec<u8>),
    InlineStr(String),
    InlineBytes(Vec<u8>),
    Object(u64, usize, u64),
}

fn owned(kind: FieldKind) -> BoxedStrategy<Owned> {
    let plain = |value| Owned::Plain(value);
    match kind {
        FieldKind::Nil => Just(plain(Value::Nil)).boxed(),
        FieldKind::Bool => any::<bool>().prop_map(move |v| plain(Value::Bool(v))).boxed(),
        FieldKind::Int => any::<i64>().prop_map(move |v| plain(Value::Int(v))).boxed(),
        FieldKind::Real => any::<u64>().prop_map(move |v| plain(Value::Real(f64::from_bits(v)))).boxed(),
        FieldKind::Char => any::<char>().prop_map(move |v| plain(Value::Char(v))).boxed(),
        FieldKind::Str => ".{0,12}".prop_map(Owned::Str).boxed(),
        FieldKind::Bytes => any::<Vec<u8>>().prop_map(Owned::Bytes).boxed(),
        FieldKind::Ref => prop_oneof![
            Just(plain(Value::Ref(Reference::Nothing))),
            ".{0,12}".prop_map(Owned::InlineStr),
            any::<Vec<u8>>().prop_map(Owned::InlineBytes),
            (1..=Oref::MAX, any::<usize>(), any::<u64>()).prop_map(|(o, c, l)| Owned::Object(o, c, l)),
        ]
        .boxed(),
    }
}

/// Writes values as the content of a record of class `number`, cycling through enough of them.
fn write(classes: &[ClassDescriptor], number: usize, values: &[[Owned; 8]], ints: &[i64]) -> Vec<u8> {
    let mut out = Vec::new();
    let class = ClassNumber(number as u32 + 1);
    let mut to = Writer::new(&mut out, class);
    let mut used = 0;
    let mut value = |to: &mut Writer<'_>, kind: FieldKind| {
        let owned = &values[used % values.len()][kind as usize];
        used += 1;
        match owned {
            Owned::Plain(value) => to.value(*value),
            Owned::Str(text) => to.str(text),
            Owned::Bytes(bytes) => to.bytes(bytes),
            Owned::InlineStr(text) => to.reference(Reference::Str(text)),
            Owned::InlineBytes(bytes) => to.reference(Reference::Bytes(bytes)),
            Owned::Object(oref, class, length) => {
                let class = class % classes.len();
                let length = classes[class].kind.has_length().then_some(*length);
                let oref = Oref::new(*oref).unwrap();
                to.reference(Reference::Object { oref, class: ClassNumber(class as u32 + 1), length });
            }
        }
    };
    let count = values.len();
    match &classes[number].kind {
        Kind::Object(fields) => fields.iter().for_each(|field| value(&mut to, field.kind)),
        Kind::Array(of) => {
            to.int(ints[0]);
            to.count(count as u64);
            (0..count).for_each(|_| value(&mut to, *of));
        }
        Kind::Vector(of) | Kind::Sequence(of) => {
            to.count(count as u64);
            (0..count).for_each(|_| value(&mut to, *of));
        }
        Kind::List(of) => {
            value(&mut to, *of);
            value(&mut to, FieldKind::Ref);
            to.count(ints[0] as u64);
        }
        Kind::Cell(of) => {
            to.bool(ints[0] > 0);
            if ints[0] > 0 {
                value(&mut to, *of);
            }
        }
        Kind::Map(key, of) => {
            to.count(count as u64);
            (0..count).for_each(|_| {
                value(&mut to, *key);
                value(&mut to, *of);
            });
        }
        Kind::Directory => {
            to.count(count as u64);
            (0..count).for_each(|_| {
                value(&mut to, FieldKind::Str);
                value(&mut to, FieldKind::Ref);
            });
        }
        Kind::Native => {
            to.count(count as u64);
            (0..count).for_each(|_| value(&mut to, FieldKind::Ref));
            to.bytes(&ints[0].to_le_bytes());
        }
    }
    out
}

fn values() -> impl Strategy<Value = Vec<[Owned; 8]>> {
    prop::collection::vec(FieldKind::ALL.map(owned), 1..6)
}

proptest! {
    #[test]
    fn records_come_back(classes in classes(), at in any::<usize>(), values in values(), int in any::<i64>()) {
        let number = at % classes.len();
        let bytes = write(&classes, number, &values, &[int]);
        prop_assert_eq!(class_of(&bytes).unwrap().0 as usize, number + 1);
        check_record(&bytes, &classes[..]).unwrap();

        // What is walked over and written again is the same, where nothing but values is in it.
        if let Kind::Object(_) = classes[number].kind {
            let mut again = Vec::new();
            let mut to = Writer::new(&mut again, ClassNumber(number as u32 + 1));
            walk(&bytes, &classes[..], |value| to.value(value)).unwrap();
            prop_assert_eq!(&again, &bytes);
        }
        let mut refs = 0;
        walk_refs(&bytes, &classes[..], |_| refs += 1).unwrap();
        let mut objects = 0;
        walk(&bytes, &classes[..], |v| objects += usize::from(matches!(v, Value::Ref(Reference::Object { .. })))).unwrap();
        prop_assert_eq!(refs, objects);

        // As JSON, also through text.
        let json = to_json(&bytes, &classes[..]).unwrap();
        prop_assert_eq!(&from_json(&json, &classes[..]).unwrap(), &bytes);
        let text = serde_json::to_string(&json).unwrap();
        let parsed = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(&from_json(&parsed, &classes[..]).unwrap(), &bytes);

        // No part of it is a record, and nothing may follow.
        for end in 0..bytes.len() {
            prop_assert!(check_record(&bytes[..end], &classes[..]).is_err());
        }
        let mut longer = bytes;
        longer.push(0);
        let error = check_record(&longer, &classes[..]).unwrap_err();
        prop_assert_eq!(error.wrong, Wrong::Long);
        prop_assert_eq!(error.at, longer.len() - 1);
    }

    #[test]
    fn classes_come_back(class in class()) {
        let mut bytes = Vec::new();
        class.encode(&mut bytes);
        prop_assert_eq!(&ClassDescriptor::decode(&bytes).unwrap(), &class);
        for end in 0..bytes.len() {
            prop_assert!(ClassDescriptor::decode(&bytes[..end]).is_err());
        }
        *bytes.last_mut().unwrap() ^= 1;
        prop_assert_eq!(ClassDescriptor::decode(&bytes).unwrap_err().wrong, Wrong::Digest);
    }

    /// What is accepted is the one encoding of what it says.
    #[test]
    fn any_bytes(classes in classes(), bytes in prop::collection::vec(prop_oneof![0u8..8, any::<u8>()], 0..60)) {
        let mut record = vec![1];
        record.extend(&bytes);
        for bytes in [&bytes, &record] {
            let checked = check_record(bytes, &classes[..]);
            match (to_json(bytes, &classes[..]), checked) {
                (Ok(json), Ok(())) => {
                    prop_assert_eq!(&from_json(&json, &classes[..]).unwrap(), bytes);
                }
                (Err(one), Err(other)) => prop_assert!(one == other && one.at <= bytes.len()),
                (one, other) => prop_assert!(false, "{one:?} {other:?}"),
            }
            let _ = ClassDescriptor::decode(bytes);
        }
    }

    #[test]
    fn damaged_records(classes in classes(), values in values(), at in any::<usize>(), byte in any::<u8>()) {
        let mut bytes = write(&classes, at % classes.len(), &values, &[3]);
        let position = at / 8 % bytes.len();
        bytes[position] = byte;
        if let Ok(json) = to_json(&bytes, &classes[..]) {
            prop_assert_eq!(&from_json(&json, &classes[..]).unwrap(), &bytes);
        }
    }

    #[test]
    fn ints_and_counts(int in any::<i64>(), count in any::<u64>()) {
        let mut out = Vec::new();
        let mut to = Writer::raw(&mut out);
        to.int(int);
        to.count(count);
        let mut from = Reader::raw(&out);
        prop_assert_eq!((from.int().unwrap(), from.count().unwrap()), (int, count));
        from.end().unwrap();
    }
}

#[test]
fn numbers_have_one_form() {
    for (bytes, value) in [(&[0][..], 0), (&[0x7F], 127), (&[0x80, 1], 128), (&[0xFF; 9], 0)] {
        match Reader::raw(bytes).count() {
            Ok(count) => assert_eq!(count, value),
            Err(error) => assert_eq!((error.at, error.wrong), (9, Wrong::Short)),
        }
    }
    for bytes in [
        &[0x80, 0][..],
        &[0x81, 0x80, 0],
        &[0xFF; 11],
        &[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 2],
    ] {
        assert_eq!(Reader::raw(bytes).count().unwrap_err().wrong, Wrong::Number);
    }
}

#[test]
fn errors_name_the_byte() {
    let classes = [ClassDescriptor { kind: Kind::Vector(FieldKind::Bool), ..ClassDescriptor::directory() }];
    let read = |bytes: &[u8]| check_record(bytes, &classes[..]).unwrap_err();
    assert_eq!(read(&[1, 1, 2, 0, 2]).to_string(), "at byte 4: 2 is not a truth value");
    assert_eq!(read(&[1, 1, 200, 1]).to_string(), "at byte 2: the record ends too early");
    assert_eq!(read(&[1, 9]).to_string(), "at byte 1: there is no class 9");
    assert_eq!(read(&[7]).to_string(), "at byte 0: this program cannot read records of format 7");
}

/// A dump without the numbers of commits, which are those of its store.
fn dumped(store: &Memory) -> Vec<serde_json::Value> {
    let mut out = Vec::new();
    dump::write(store, &mut out, &mut |_| {}).unwrap();
    let lines = String::from_utf8(out).unwrap();
    lines
        .lines()
        .map(|line| {
            let mut json: serde_json::Value = serde_json::from_str(line).unwrap();
            json.as_object_mut().unwrap().remove("commit");
            json
        })
        .collect()
}

fn text(lines: &[serde_json::Value]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_dump_that_is_loaded_is_dumped_again(
        some in classes(),
        records in prop::collection::vec((any::<usize>(), values(), any::<i64>(), 0u32..5), 0..12),
        cut in any::<usize>(),
    ) {
        let store = Memory::new();
        let mut known = vec![ClassDescriptor::directory()];
        for class in &some[1..] {
            if store.define_class(class).unwrap().0 as usize > known.len() {
                known.push(class.clone());
            }
        }
        let mut creates = Vec::new();
        for (at, values, int, skipped) in &records {
            // Not all orefs are in use.
            let oref = Oref::new(store.allocate(skipped + 1).unwrap().end - 1).unwrap();
            creates.push((oref, write(&known, at % known.len(), values, &[*int]).into()));
        }
        let reads: HashSet<Oref> = creates.iter().map(|(oref, _)| *oref).collect();
        store.commit(Commit { valid_to: store.head(), reads: &reads, writes: vec![], creates, batch: None }).unwrap();
        let lines = dumped(&store);
        prop_assert_eq!(lines.len(), known.len() + 1 + records.len() + 1);

        let again = Memory::new();
        let objects = dump::load(&again, &mut text(&lines).as_bytes(), &mut |_| {}).unwrap();
        prop_assert_eq!(objects, 1 + records.len() as u64);
        prop_assert_eq!(dumped(&again), lines.clone());
        let twice = dump::load(&again, &mut text(&lines).as_bytes(), &mut |_| {});
        prop_assert_eq!(matches!(twice, Err(LoadError::NotEmpty)), lines.len() > 3);

        // No part of it is a dump.
        let whole = text(&lines);
        let part = &whole.as_bytes()[..cut % whole.len().saturating_sub(1).max(1)];
        let cut = dump::load(&Memory::new(), &mut &part[..], &mut |_| {});
        prop_assert!(cut.is_err(), "of {} bytes", part.len());
    }
}

#[test]
fn a_wrong_line_is_named() {
    let class = "{\"class\":1,\"name\":\"directory\",\"descriptor\":DIGITS}";
    let mut bytes = Vec::new();
    ClassDescriptor::directory().encode(&mut bytes);
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let class = class.replace("DIGITS", &format!("\"{digits}\""));
    let root = "{\"oref\":1,\"record\":{\"class\":1,\"content\":{\"entries\":[]}}}";
    let loaded = |lines: &[&str]| {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        match dump::load(&Memory::new(), &mut text.as_bytes(), &mut |_| {}) {
            Ok(objects) => objects.to_string(),
            Err(error) => error.to_string(),
        }
    };
    assert_eq!(loaded(&[&class, root, "{\"objects\":1}"]), "1");
    let wrong = [
        (vec![], "line 1: the dump ends here, and has no line `{\"objects\": …}`"),
        (vec![&*class, root], "line 3: the dump ends here, and has no line `{\"objects\": …}`"),
        (vec![&*class, "no"], "line 2: the line is not JSON: expected ident at line 1 column 2"),
        (vec![&*class, "{}"], "line 2: the line is neither a class, nor an object, nor the end"),
        (vec![&*class, "{\"objects\":0}"], "line 2: the dump has no root directory"),
        (vec![&*class, root, "{\"objects\":2}"], "line 3: 2 objects expected, 1 found"),
        (vec![&*class, root, root], "line 3: an oref above 1 expected"),
        (vec![&*class, "{\"oref\":2,\"record\":{}}"], "line 2: the root directory, oref 1, must be first"),
        (vec![&*class, "{\"oref\":1,\"record\":{}}"], "line 2: record.class: expected a member of that name"),
        (vec![root], "line 1: record: expected the number of a class of the store"),
        (vec![&*class, &*class], "line 2: class 2 expected"),
        (vec!["{\"class\":1,\"descriptor\":\"0\"}"], "line 1: expected the descriptor as hexadecimal digits"),
        (vec![&*class, root, "{\"objects\":1}", "{}"], "line 4: the dump has ended before this line"),
    ];
    for (lines, expected) in wrong {
        assert_eq!(loaded(&lines), expected);
    }
    let far = format!(
        "{{\"oref\":{},\"record\":{{\"class\":1,\"content\":{{\"entries\":[]}}}}}}",
        DUMP_OREF_MAX + 1
    );
    assert!(loaded(&[&class, root, &far]).contains("the largest oref that is loaded"));
}
