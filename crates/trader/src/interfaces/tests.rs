//! Tests of the interfaces of a board.

use super::*;

fn interface(name: &str) -> String {
    format!(r#"{{"types":[{{"name":"{name}","kind":"object"}}],"routines":[]}}"#)
}

#[test]
fn interfaces_are_kept_once() {
    let (mut all, limits) = (Interfaces::default(), Limits::default());
    let digest = all.teach(interface("A").as_bytes(), &limits).unwrap();
    let spaced = interface("A").replace(',', " ,\n");
    assert_eq!(all.teach(spaced.as_bytes(), &limits).unwrap(), digest);
    assert_eq!(all.size(), (1, interface("A").len() as u64));
}

#[test]
fn malformed_and_large_interfaces_are_refused() {
    let mut all = Interfaces::default();
    let limits = Limits { interface_bytes_max: 100, ..Limits::default() };
    for wrong in ["", "{}", r#"{"types":[],"routines":[{"name":"a","results":[0]}]}"#] {
        assert!(matches!(all.teach(wrong.as_bytes(), &limits), Err(BadInterface::Form(_))), "{wrong}");
    }
    let circle = r#"{"types":[{"name":"A","kind":"object","supertypes":[0]}],"routines":[]}"#;
    assert!(matches!(all.teach(circle.as_bytes(), &limits), Err(BadInterface::Form(_))));
    let long = interface(&"a".repeat(100));
    let error = all.teach(long.as_bytes(), &limits).unwrap_err();
    assert!(matches!(error, BadInterface::TooLarge { max: 100, .. }), "{error}");
    assert_eq!(all.size(), (0, 0));
}

#[test]
fn the_least_used_one_makes_room_and_those_of_offers_stay() {
    let mut all = Interfaces::default();
    let one = interface("A").len() as u64;
    let limits = Limits { interfaces_bytes_max: 3 * one, ..Limits::default() };
    let [a, b, c] = ["A", "B", "C"].map(|name| all.teach(interface(name).as_bytes(), &limits).unwrap());
    all.hold(&a);
    assert!(all.use_one(&b));
    let d = all.teach(interface("D").as_bytes(), &limits).unwrap();
    assert_eq!([a, b, c, d].map(|digest| all.known.contains_key(&digest)), [true, true, false, true]);
    assert!(!all.use_one(&c));
    all.hold(&b);
    all.hold(&d);
    let error = all.teach(interface("C").as_bytes(), &limits).unwrap_err();
    assert!(matches!(error, BadInterface::NoRoom { .. }), "{error}");
    all.hold(&d);
    all.release(&d);
    assert!(all.teach(interface("C").as_bytes(), &limits).is_err(), "another offer has it");
    all.release(&d);
    all.teach(interface("C").as_bytes(), &limits).unwrap();
    assert_eq!(all.size(), (3, 3 * one));
}

#[test]
fn names_are_the_type_and_all_above_it() {
    let (mut all, limits) = (Interfaces::default(), Limits { supertypes_max: 4, ..Limits::default() });
    let json = r#"{"types":[{"name":"any","kind":"any"},{"name":"A","kind":"object","supertypes":[0]},
        {"name":"B","names":["Bee"],"kind":"object","supertypes":[1]},{"name":"C","kind":"object","supertypes":[2,1]},
        {"name":"D","kind":"object","supertypes":[3]},{"name":"int","kind":"int"}],"routines":[]}"#;
    let digest = all.teach(json.as_bytes(), &limits).unwrap();
    let mut names = |service: &str| {
        all.names(&digest, service, &limits)
            .map(|names| names.iter().map(|name| name.to_string()).collect::<Vec<_>>())
    };
    assert_eq!(names("C").unwrap(), ["A", "B", "Bee", "C"]);
    assert_eq!(names("Bee").unwrap(), ["A", "B", "Bee"]);
    assert_eq!(names("D"), Err(BadService::Supertypes { service: "D".into(), count: 5, max: 4 }));
    assert_eq!(names("E"), Err(BadService::NoSuchType("E".into())));
    assert_eq!(names("int"), Err(BadService::NotObject("int".into())));
    assert_eq!(all.names(&[0; 32], "A", &limits), Err(BadService::UnknownInterface));
}

#[test]
fn comparisons_are_kept_and_bounded() {
    let mut all = Interfaces::default();
    let limits = Limits { comparisons_max: 3, interfaces_read_max: 2, ..Limits::default() };
    let digests: Vec<Digest> = (0..6)
        .map(|n| {
            let json = interface("A").replace("}]", &format!(r#"}},{{"name":"T{n}","kind":"object"}}]"#));
            all.teach(json.as_bytes(), &limits).unwrap()
        })
        .collect();
    let name: Arc<str> = "A".into();
    let mut left = 4;
    let mut ask = |all: &mut Interfaces, n: usize| {
        let result = all.conforms(&digests[0], &name, &digests[n], &name, &mut left, &limits);
        (result, left)
    };
    assert_eq!(ask(&mut all, 0), (Some(true), 4), "equal digests need no look");
    assert_eq!(ask(&mut all, 1), (Some(true), 3));
    assert_eq!(ask(&mut all, 1), (Some(true), 3), "the result is kept");
    assert_eq!((ask(&mut all, 2), ask(&mut all, 3)), ((Some(true), 2), (Some(true), 1)));
    assert_eq!(all.compared.len(), 3);
    assert_eq!(ask(&mut all, 4), (Some(true), 0));
    assert_eq!(all.compared.len(), 1, "room was made");
    assert_eq!(ask(&mut all, 5), (None, 0));
    assert_eq!(all.read.len(), 2);
    let other: Arc<str> = "T1".into();
    let mut left = 9;
    let result = all.conforms(&digests[1], &other, &digests[0], &name, &mut left, &limits);
    assert_eq!(result, Some(false));
}
