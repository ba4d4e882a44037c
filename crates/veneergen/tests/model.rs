//! The model that all languages share.

use bifrost_veneergen::{Model, Naming};
use bifrost_wire::Interface;
use bifrost_wire::interface::Kind;

/// A spelling that leaves names alone.
struct Plain;

impl Naming for Plain {
    fn lower(&self, name: &str) -> String {
        name.to_owned()
    }

    fn upper(&self, words: &[&str]) -> String {
        words.concat()
    }

    fn value(&self, kind: Kind) -> &'static str {
        if kind == Kind::Int { "integer" } else { "value" }
    }

    fn builtin(&self, name: &str) -> String {
        name.to_owned()
    }

    fn cell(&self, element: &str) -> String {
        format!("cell of {element}")
    }

    fn list(&self, element: &str) -> String {
        format!("list of {element}")
    }

    fn optional(&self, some: &str) -> String {
        format!("optional {some}")
    }

    fn pairs(&self, key: &str, value: &str) -> String {
        format!("{key} to {value}")
    }
}

const INTERFACE: &str = r#"{"types": [
    {"name": "null", "kind": "null"}, {"name": "bool", "kind": "bool"}, {"name": "int", "kind": "int"},
    {"name": "real", "kind": "real"}, {"name": "char", "kind": "char"}, {"name": "string", "kind": "string"},
    {"name": "sequence[int]", "kind": "sequence", "element": 2, "immutable": true},
    {"name": "oneof[number: int, text: string]", "names": ["answer", "reply"], "kind": "oneof",
     "fields": [{"name": "number", "type": 2}, {"name": "text", "type": 5}], "immutable": true},
    {"name": "shop", "kind": "object", "doc": "A `shop`.", "methods": [
        {"name": "ask", "params": [{"name": "all", "type": 6}], "results": [7],
         "signals": [{"name": "not_found", "values": [5]}, {"name": "closed"}]},
        {"name": "find", "results": [8], "signals": [{"name": "not_found", "values": [2, 5]}]}
    ]}
], "routines": []}"#;

#[test]
fn values_have_their_kinds_and_exceptions_one_class_for_each_name() {
    let interface = Interface::from_json(INTERFACE.as_bytes()).unwrap();
    let model = Model::new(&interface, &Plain).unwrap();

    let shop = model.types.iter().find(|ty| ty.theta == "shop").unwrap();
    assert_eq!((shop.kind, shop.doc.as_slice()), (Kind::Object, &["A `shop`.".to_owned()][..]));
    let [ask, find] = &shop.methods[..] else { panic!("{:?}", shop.methods) };
    let all = &ask.params[0].ty;
    assert_eq!(
        (all.kind, all.theta.as_str(), all.plain.as_str()),
        (Kind::Sequence, "sequence[int]", "list of integer")
    );
    assert!(!all.value, "a sequence has a stub");

    let answer = model.types.iter().find(|ty| ty.number == ask.results[0].number).unwrap();
    assert_eq!(
        (answer.contents.as_ref().unwrap().ty.as_str(), answer.aliases.as_slice()),
        ("answer", &["answer".to_owned(), "reply".to_owned()][..])
    );
    let parts = &answer.contents.as_ref().unwrap().parts;
    let parts: Vec<_> = parts.iter().map(|part| (part.theta.as_str(), part.of.kind, part.of.value)).collect();
    assert_eq!(parts, [("number", Kind::Int, true), ("text", Kind::String, true)]);
    let sequence = model.types.iter().find(|ty| ty.kind == Kind::Sequence).unwrap();
    assert_eq!(sequence.element.as_ref().map(|element| element.kind), Some(Kind::Int));

    let names: Vec<_> =
        model.exceptions.iter().map(|e| (e.name.as_str(), e.signals.as_slice(), e.same_count)).collect();
    assert_eq!(names, [("closed", &[0][..], true), ("notfound", &[1, 2][..], false)]);
    assert_eq!((ask.raises.as_slice(), find.raises.as_slice()), (&[2, 0][..], &[1][..]));
    let kinds =
        |signal: usize| model.signals[signal].values.iter().map(|value| value.kind).collect::<Vec<_>>();
    assert_eq!((kinds(1), kinds(2)), (vec![Kind::Int, Kind::String], vec![Kind::String]));
}
