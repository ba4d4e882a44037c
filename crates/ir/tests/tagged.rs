//! The methods of tagged types and of routine types, and when two of them are one.

use bifrost_ir::{Field, Form, Param, Program, SignalSig, Signature, TypeId, TypeKind, Types, tagged};

fn field(name: &str, ty: TypeId) -> Field {
    Field { name: name.to_owned(), ty }
}

fn headings(types: &Types, ty: TypeId) -> Vec<String> {
    types.def(ty).methods.values().map(|m| types.heading(&m.name, &m.signature)).collect()
}

#[test]
fn maybe_has_the_methods_of_the_definition() {
    let mut types = Types::new();
    let ty = types.instance(TypeKind::Maybe(Types::INT));
    assert_eq!(
        headings(&types, ty),
        [
            "is_some () returns (bool)",
            "is_none () returns (bool)",
            "value () returns (int) signals (wrong_tag)",
            "value_or (v: int) returns (int)",
            "equal (x: maybe[int]) returns (bool)",
            "similar (x: maybe[int]) returns (bool)",
            "copy () returns (maybe[int])",
            "unparse () returns (string)",
            "hash () returns (int)",
        ]
    );
    assert!(types.def(ty).immutable);
}

#[test]
fn fields_and_tags_have_methods() {
    let mut types = Types::new();
    let record = types.structured(Form::Record, vec![field("a", Types::INT), field("b", Types::ANY)]);
    assert_eq!(
        headings(&types, record),
        [
            "a () returns (int)",
            "b () returns (any)",
            "set_a (v: int)",
            "set_b (v: any)",
            "equal (x: record[a: int, b: any]) returns (bool)",
        ],
        "`any` has nothing that the record could use"
    );
    let point = types.structured(Form::Struct, vec![field("x", Types::REAL)]);
    assert_eq!(
        headings(&types, point)[..2],
        ["x () returns (real)", "replace_x (v: real) returns (struct[x: real])"]
    );
    let number = types.structured(Form::OneOf, vec![field("i", Types::INT), field("none", Types::NULL)]);
    assert_eq!(
        headings(&types, number)[..4],
        [
            "is_i () returns (bool)",
            "is_none () returns (bool)",
            "value_i () returns (int) signals (wrong_tag)",
            "value_none () returns (null) signals (wrong_tag)",
        ]
    );
}

#[test]
fn order_counts_and_structure_is_identity() {
    let mut types = Types::new();
    let (a, b) = (field("a", Types::INT), field("b", Types::REAL));
    let one = types.structured(Form::Record, vec![a.clone(), b.clone()]);
    assert_eq!(one, types.structured(Form::Record, vec![a.clone(), b.clone()]));
    assert_ne!(one, types.structured(Form::Record, vec![b.clone(), a.clone()]));
    assert_ne!(one, types.structured(Form::Struct, vec![a, b]));
    assert_eq!(types.name(one), "record[a: int, b: real]");
}

#[test]
fn methods_come_with_those_of_the_parts() {
    let mut program = Program::new();
    let part = program.types.structured(Form::Struct, vec![field("x", Types::ANY)]);
    let whole = program.types.structured(Form::Struct, vec![field("part", part)]);
    let class = tagged::class_of(&mut program, whole, 0);
    tagged::complete(&mut program);
    assert!(program.types.find_method(whole, "equal").is_none());
    assert_eq!(program.classes[class].bodies.len(), program.types.def(whole).methods.len());
    assert_eq!(tagged::class_of(&mut program, whole, 0), class, "a class is made once");
    bifrost_ir::verify::verify_program(&program).unwrap();
}

/// `proc (params) returns (results) signals (signals)`
fn routine(types: &mut Types, params: &[TypeId], results: &[TypeId], signals: &[&str]) -> TypeId {
    let signals = signals.iter().map(|name| SignalSig { name: types.signal(name), values: vec![] }).collect();
    let params = params.iter().map(|ty| Param { name: "x".to_owned(), ty: *ty }).collect();
    types.routine_type(&Signature { params, results: results.to_vec(), yields: None, signals })
}

#[test]
fn routines_conform() {
    let mut types = Types::new();
    let (text, any) = (Types::STRING, Types::ANY);
    let plain = routine(&mut types, &[any], &[text], &[]);
    assert_eq!(types.name(plain), "proc (any) returns (string)");
    assert_eq!(headings(&types, plain), ["call (any) returns (string)"]);
    let wider = routine(&mut types, &[text], &[any], &["b", "a"]);
    assert_eq!(wider, routine(&mut types, &[text], &[any], &["a", "b"]), "exceptions have no order");
    assert!(types.is_subtype(plain, wider));
    assert!(!types.is_subtype(wider, plain));
    let other = routine(&mut types, &[text, text], &[any], &[]);
    assert!(!types.is_subtype(plain, other) && !types.is_subtype(other, plain));
    assert!(types.is_subtype(plain, any));
    let steps = types.routine_type(&Signature { yields: Some(vec![text]), ..Signature::default() });
    assert_eq!(types.name(steps), "iter () yields (string)");
    let nothing = routine(&mut types, &[], &[], &[]);
    assert!(!types.is_subtype(steps, nothing));
    // Deep inside, both ways turn.
    let takes_plain = routine(&mut types, &[plain], &[], &[]);
    let takes_wider = routine(&mut types, &[wider], &[], &[]);
    assert!(types.is_subtype(takes_wider, takes_plain));
    assert!(!types.is_subtype(takes_plain, takes_wider));
}
