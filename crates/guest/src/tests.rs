//! The bytes of commands beside those of the wire form's own encoder.

extern crate std;

use alloc::string::String;
use alloc::vec::Vec;

use bifrost_wire::{Arg, MethodNumber, Ref, RoutineNumber, TypeNumber, encode, op};

use crate::command::{self, Given, Value, code, given, tag};
use crate::{Object, Outcome};

/// The same argument for the encoder of the wire form.
fn argument(value: Value<'_>) -> Arg<'_> {
    use bifrost_wire::Value as Wire;
    Arg::Value(match value {
        Value::Nil => Wire::Nil,
        Value::Bool(b) => Wire::Bool(b),
        Value::Int(i) => Wire::Int(i),
        Value::Real(r) => Wire::Real(r),
        Value::Char(c) => Wire::Char(c),
        Value::Str(text) => Wire::Str(text),
        Value::Bytes(bytes) => Wire::Bytes(bytes),
        Value::Object(object) => return Arg::Ref(Ref::future(object.position())),
    })
}

const VALUES: [Value<'_>; 9] = [
    Value::Nil,
    Value::Bool(true),
    Value::Int(i64::MIN),
    Value::Real(-0.5),
    Value::Char('ä'),
    Value::Str("häl"),
    Value::Str(""),
    Value::Bytes(&[1, 2, 3, 4, 5, 6, 7, 8, 9]),
    Value::Object(Object::at(u32::MAX)),
];

#[test]
fn calls_are_those_of_the_wire_form() {
    for count in (0..=40).chain([255]) {
        let args: Vec<Value<'_>> = (0..count).map(|i| VALUES[(i * 7 + count) % VALUES.len()]).collect();
        let wire: Vec<Arg<'_>> = args.iter().copied().map(argument).collect();
        let mut expected = Vec::new();
        encode::call(&mut expected, MethodNumber(300), Ref::future(5), &wire);
        assert_eq!(command::call(code::CALL, 300, Some(Object::at(5)), &args), expected, "{args:?}");
        expected.clear();
        encode::send(&mut expected, MethodNumber(u32::MAX), Ref::future(1), &wire);
        assert_eq!(command::call(code::SEND, u32::MAX, Some(Object::at(1)), &args), expected);
        expected.clear();
        encode::call_routine(&mut expected, RoutineNumber(2), &wire);
        assert_eq!(command::call(code::CALL_ROUTINE, 2, None, &args), expected);
    }
}

#[test]
fn other_commands_are_those_of_the_wire_form() {
    for value in &VALUES[..8] {
        let Arg::Value(wire) = argument(*value) else { panic!("{value:?} is no value") };
        let mut expected = Vec::new();
        encode::constant(&mut expected, &wire);
        assert_eq!(command::constant(value), expected, "{value:?}");
    }
    for (number, ty) in [(7, Some(TypeNumber(7))), (u32::MAX, None)] {
        let mut expected = Vec::new();
        encode::lookup(&mut expected, "database", ty);
        assert_eq!(command::lookup("database", number), expected);
    }
    let mut expected = Vec::new();
    encode::cast(&mut expected, TypeNumber(9), Ref::future(3));
    assert_eq!(command::cast(code::AS, 9, Object::at(3)), expected);
    expected.clear();
    encode::test_type(&mut expected, TypeNumber(9), Ref::future(3));
    assert_eq!(command::cast(code::IS, 9, Object::at(3)), expected);
}

#[test]
fn codes_and_tags_are_those_of_the_wire_form() {
    let codes =
        [code::CALL, code::CALL_ROUTINE, code::LOOKUP, code::CONSTANT, code::SEND, code::AS, code::IS];
    assert_eq!(codes, [op::CALL, op::CALL_ROUTINE, op::LOOKUP, op::CONSTANT, op::SEND, op::AS, op::IS]);
    use bifrost_wire::value::tag as wire;
    let tags = [tag::REF, tag::NIL, tag::BOOL, tag::INT, tag::REAL, tag::CHAR, tag::STR, tag::BYTES];
    assert_eq!(
        tags,
        [wire::REF, wire::NIL, wire::BOOL, wire::INT, wire::REAL, wire::CHAR, wire::STRING, wire::BYTES]
    );
}

fn words(tag: u8, word: u64) -> Vec<u8> {
    [u64::from(tag).to_le_bytes(), word.to_le_bytes()].concat()
}

#[test]
fn results_are_read_as_they_are_written() {
    let cases = [
        (tag::NIL, 0, Some(Given::Nil)),
        (tag::BOOL, 1, Some(Given::Bool(true))),
        (tag::INT, u64::MAX, Some(Given::Int(-1))),
        (tag::REAL, 1.5_f64.to_bits(), Some(Given::Real(1.5))),
        (tag::CHAR, 0xe4, Some(Given::Char('ä'))),
        (tag::REF, 12, Some(Given::Object(Object::at(12)))),
        // No character, no position, no result.
        (tag::CHAR, 0xd800, None),
        (tag::REF, 1 << 32, None),
        (tag::STR, 0, None),
    ];
    for (tag, word, expected) in cases {
        assert_eq!(given(&words(tag, word)), expected, "{tag} {word}");
    }
    assert_eq!(given(&words(tag::INT, 1)[..15]), None);
    assert_eq!(given(&[]), None);
}

#[test]
fn results_have_the_types_that_are_asked_for() {
    let two = [Given::Int(4), Given::Bool(true)];
    assert_eq!(<(i64, bool)>::of(&two), Some((4, true)));
    assert_eq!(<(i64, i64)>::of(&two), None);
    assert_eq!(i64::of(&two), None);
    assert_eq!(i64::of(&two[..1]), Some(4));
    assert_eq!(f64::of(&two[..1]), None);
    assert_eq!(String::of(&two[..1]), None);
    assert_eq!(<()>::of(&[]), Some(()));
    assert_eq!(<()>::of(&[Given::Nil]), Some(()));
    assert_eq!(<()>::of(&two[..1]), None);
}
