//! Types of one interface that are used through another.

use bifrost_wire::interface::{Mapping, Missing, Numbering, conforms};
use bifrost_wire::{Interface, TypeNumber};

fn numbering(json: &str) -> Numbering {
    Numbering::new(Interface::from_json(json.as_bytes()).unwrap())
}

/// A shop with items; `item` and `more` are parts of JSON.
fn shop(item: &str, more: &str) -> Numbering {
    numbering(&format!(
        r#"{{"types":[
            {{"name":"int","kind":"int"}},
            {{"name":"string","kind":"string"}},
            {{"name":"Item","kind":"object","methods":[{item}]}},
            {{"name":"Shop","kind":"object","methods":[
                {{"name":"find","params":[{{"name":"name","type":1}}],"results":[2]}}]}},
            {{"name":"Store","kind":"object","supertypes":[3],"methods":[
                {{"name":"find","params":[{{"name":"name","type":1}}],"results":[2]}}]}}
            {more}],
          "routines":[{{"name":"open","results":[3]}}]}}"#
    ))
}

/// The same names with other numbers.
fn turned(item: &str) -> Numbering {
    numbering(&format!(
        r#"{{"types":[
            {{"name":"string","kind":"string"}},
            {{"name":"Shop","kind":"object","methods":[
                {{"name":"close"}},
                {{"name":"find","params":[{{"name":"what","type":0}}],"results":[3]}}]}},
            {{"name":"int","kind":"int"}},
            {{"name":"Item","kind":"object","methods":[{item}]}}],
          "routines":[{{"name":"close_all"}},{{"name":"open","results":[1]}}]}}"#
    ))
}

const PRICE: &str = r#"{"name":"price","results":[0]}"#;

fn named(numbering: &Numbering, name: &str) -> TypeNumber {
    numbering.find_type(name).unwrap()
}

fn check(client: &Numbering, wanted: &str, server: &Numbering, offered: &str) -> Result<(), Missing> {
    conforms(client, named(client, wanted), server, named(server, offered))
}

#[test]
fn equal_interfaces_conform_and_subtypes_do() {
    let shop = shop(PRICE, "");
    assert_eq!(check(&shop, "Shop", &shop, "Shop"), Ok(()));
    assert_eq!(check(&shop, "Shop", &shop, "Store"), Ok(()));
    let above = Err(Missing::NotBelow { wanted: "Store".into(), offered: "Shop".into() });
    assert_eq!(check(&shop, "Store", &shop, "Shop"), above);
}

#[test]
fn names_count_and_numbers_do_not() {
    let (client, server) = (shop(PRICE, ""), turned(r#"{"name":"price","results":[2]}"#));
    assert_eq!(check(&client, "Shop", &server, "Shop"), Ok(()));
    let mapping = Mapping::new(&client, &server);
    let types: Vec<Option<u32>> = mapping.types.iter().map(|ty| ty.map(|ty| ty.0)).collect();
    assert_eq!(types, [Some(2), Some(0), Some(3), Some(1), None]);
    let methods: Vec<Option<u32>> = mapping.methods.iter().map(|method| method.map(|m| m.0)).collect();
    assert_eq!(methods, [Some(2), Some(1), None]);
    assert_eq!(mapping.routines[0].map(|routine| routine.0), Some(1));
}

#[test]
fn what_a_type_leads_to_must_be_there() {
    let client = shop(PRICE, "");
    // The result of another type: nothing of `Shop` itself has changed.
    let other = turned(r#"{"name":"price","results":[0]}"#);
    let missing = Missing::Method { ty: "Item".into(), heading: "price () returns (int)".into() };
    assert_eq!(check(&client, "Shop", &other, "Shop"), Err(missing.clone()));
    assert_eq!(missing.to_string(), "`Item` has no method `price () returns (int)`");
    // An iterator is no procedure.
    let yields = turned(r#"{"name":"price","yields":[2]}"#);
    assert_eq!(check(&client, "Item", &yields, "Item"), Err(missing));
    // A type that only other types lead to is not asked for.
    let wide = shop(PRICE, r#",{"name":"Till","kind":"object","methods":[]}"#);
    assert_eq!(check(&wide, "Shop", &client, "Shop"), Ok(()));
    let deep = shop(
        r#"{"name":"price","results":[0]},{"name":"till","results":[5]}"#,
        r#",{"name":"Till","kind":"object","methods":[]}"#,
    );
    let till = Missing::Method { ty: "Item".into(), heading: "till () returns (Till)".into() };
    assert_eq!(check(&deep, "Shop", &client, "Shop"), Err(till));
    assert_eq!(
        check(&deep, "Till", &client, "Shop"),
        Err(Missing::NotBelow { wanted: "Till".into(), offered: "Shop".into() })
    );
}

#[test]
fn supertypes_are_walked_once_each() {
    // Two ways up at each of 200 steps: 2^200 ways in all.
    let ty = |n: usize| match n {
        0 => r#"{"name":"T0","kind":"object"}"#.to_owned(),
        1 => r#"{"name":"T1","kind":"object","supertypes":[0]}"#.to_owned(),
        _ => format!(r#"{{"name":"T{n}","kind":"object","supertypes":[{},{}]}}"#, n - 1, n - 2),
    };
    let types: Vec<String> = (0..200).map(ty).collect();
    let types = format!(r#"{{"types":[{},{{"name":"U","kind":"object"}}],"routines":[]}}"#, types.join(","));
    let numbering = numbering(&types);
    let interface = numbering.interface();
    let (top, other) = (named(&numbering, "T199"), named(&numbering, "U"));
    assert_eq!(interface.supertypes(top).count(), 200);
    assert!(interface.is_subtype(top, named(&numbering, "T0")) && interface.is_subtype(other, other));
    assert!(!interface.is_subtype(top, other) && !interface.is_subtype(named(&numbering, "T0"), top));
    let above = Missing::NotBelow { wanted: "T199".into(), offered: "U".into() };
    assert_eq!(check(&numbering, "T199", &numbering, "U"), Err(above));
}

#[test]
fn lines_are_the_same_json() {
    let item = r#"{"name":"a \"[{","results":[0],"doc":"types:[{}]"},{"name":"b"}"#;
    let all = [shop(PRICE, "").interface().clone(), shop(item, "").interface().clone(), Interface::default()];
    for interface in all {
        let lines = interface.to_json_lines();
        assert_eq!(Interface::from_json(lines.as_bytes()).unwrap(), interface);
        let bare: String = lines.lines().map(str::trim_start).collect();
        assert_eq!(bare.as_bytes(), interface.to_json(), "only lines are added");
    }
    let lines = shop(item, "").interface().to_json_lines();
    let heads = [
        r#"{"types":["#,
        r#" {"name":"int","#,
        r#" {"name":"string""#,
        r#" {"name":"Item","#,
        r#"  {"name":"a \"[{""#,
        r#"  {"name":"b"}"#,
        r#" ]},"#,
    ];
    for (line, head) in lines.lines().zip(heads) {
        assert!(line.starts_with(head), "{lines}");
    }
}
