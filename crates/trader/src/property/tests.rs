//! Tests of values and properties as text.

use proptest::prelude::*;

use super::*;

fn parse(text: &str) -> Result<Properties, BadProperties> {
    Properties::parse(text, &Limits::default())
}

#[test]
fn values_have_types_by_their_form() {
    let string = |text: &str| Value::String(text.into());
    for (text, value) in [
        ("1", Value::Int(1)),
        ("-20", Value::Int(-20)),
        ("0", Value::Int(0)),
        ("9223372036854775807", Value::Int(i64::MAX)),
        ("1.5", Value::Real(1.5)),
        ("-0.25", Value::Real(-0.25)),
        ("1.0e9", Value::Real(1e9)),
        ("1.0E-9", Value::Real(1e-9)),
        ("true", Value::Bool(true)),
        ("false", Value::Bool(false)),
        ("eu", string("eu")),
        ("", string("")),
        ("'1'", string("1")),
        ("'it's'", string("it's")),
        ("''", string("")),
        ("007", string("007")),
        ("00.5", string("00.5")),
        ("1e5", string("1e5")),
        ("1.", string("1.")),
        (".5", string(".5")),
        ("1.5e", string("1.5e")),
        ("1.2.3", string("1.2.3")),
        ("-", string("-")),
        ("-0", string("-0")),
        ("+1", string("+1")),
        ("True", string("True")),
        ("inf", string("inf")),
        ("NaN", string("NaN")),
    ] {
        assert_eq!(Value::from_text(text), Ok(value), "{text}");
    }
    for wrong in ["'", "'open", "9223372036854775808", "1.0e999"] {
        assert!(Value::from_text(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn texts_are_read_and_written_sorted() {
    let text = "tier=1&region=eu&name=a%26b%3dc&zip='01'&on=true&x=1.50";
    let properties = parse(text).unwrap();
    assert_eq!(properties.to_string(), "name=a%26b%3Dc&on=true&region=eu&tier=1&x=1.5&zip=01");
    assert_eq!(properties.text("name"), Some("a&b=c"));
    assert_eq!(properties.get("tier"), Some(&Value::Int(1)));
    assert_eq!(properties.text("tier"), None);
    assert_eq!(parse("").unwrap(), Properties::new());
    // Escapes are read first: a library that writes more of them changes nothing.
    assert_eq!(parse("tier=%31").unwrap().get("tier"), Some(&Value::Int(1)));
    assert_eq!(parse("tier=%271%27").unwrap().text("tier"), Some("1"));
}

#[test]
fn mistakes_name_their_place_and_a_remedy() {
    for (text, message) in [
        ("a=1&b", "property 2: `b` has no value; write `name=value`"),
        ("a=1&", "property 2: `` has no value; write `name=value`"),
        (
            "a=1&1b=2",
            "property 2: `1b` is no name; write letters, digits, `_`, `.` and `-`, a letter or `_` first",
        ),
        ("a=1&a=2", "property 2: `a` is there twice; leave one out"),
        ("a=%2", "property 1: the `%` in `a=%2` begins no escape of a text; write `%25` for the sign itself"),
        (
            "a='x",
            "property 1, `a`: `'x` begins with a quote and does not end with one; write a quote on both sides",
        ),
        (
            "a=99999999999999999999",
            "property 1, `a`: `99999999999999999999` is beyond the numbers of its type; write it in single quotes if \
             it is a text",
        ),
    ] {
        assert_eq!(parse(text).unwrap_err().to_string(), message);
    }
}

#[test]
fn limits_hold_for_texts_and_programs() {
    let limits = Limits::default();
    let many = |n: usize| (0..n).map(|i| format!("p{i}=1")).collect::<Vec<_>>().join("&");
    let cases = [
        (many(32), many(33), "properties_max"),
        (format!("{}=1", "n".repeat(64)), format!("{}=1", "n".repeat(65)), "name_bytes_max"),
        (format!("a={}", "v".repeat(256)), format!("a={}", "v".repeat(257)), "value_bytes_max"),
    ];
    for (fits, exceeds, name) in cases {
        let properties = parse(&fits).unwrap();
        properties.check(&limits).unwrap();
        let error = parse(&exceeds).unwrap_err();
        assert!(matches!(error, BadProperties::Limit { limit, .. } if limit == name), "{error}");
        let wide =
            Limits { properties_max: 99, name_bytes_max: 999, value_bytes_max: 999, ..Limits::default() };
        let made = Properties::parse(&exceeds, &wide).unwrap();
        assert_eq!(made.check(&limits).unwrap_err(), error);
    }
    let not_finite: Properties = [("a", Value::Real(f64::NAN))].into_iter().collect();
    assert_eq!(not_finite.check(&limits), Err(BadProperties::NotFinite { name: "a".into() }));
    let unnamed: Properties = [("a b", Value::Int(1))].into_iter().collect();
    assert!(matches!(unnamed.check(&limits), Err(BadProperties::Name { .. })));
}

#[test]
fn load_is_taken_out_and_names_are_reserved() {
    let mut properties = parse("load=0.5&region=eu").unwrap();
    assert!(properties.check_not_reserved().is_err());
    assert_eq!(properties.take_load(), Some(0.5));
    assert_eq!(properties.take_load(), None);
    properties.check_not_reserved().unwrap();
    for name in names::RESERVED {
        let given: Properties = [(name, Value::Int(1))].into_iter().collect();
        assert_eq!(given.check_not_reserved(), Err(BadProperties::Reserved { name: name.into() }));
    }
}

fn values() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<i64>().prop_map(Value::Int),
        any::<bool>().prop_map(Value::Bool),
        any::<f64>().prop_filter("finite", |real| real.is_finite()).prop_map(Value::Real),
        "\\PC{0,40}".prop_map(Value::String),
        "'?-?[0-9]{0,3}[.]?[0-9]{0,2}e?[0-9]?'?".prop_map(Value::String),
        any::<String>().prop_map(|text| Value::String(text.chars().take(60).collect())),
    ]
}

proptest! {
    #[test]
    fn values_that_are_written_read_the_same(value in values()) {
        prop_assert_eq!(Value::from_text(&value.to_text()), Ok(value));
    }

    #[test]
    fn properties_that_are_written_read_the_same(
        all in proptest::collection::btree_map("[a-z_][a-z0-9_.-]{0,9}", values(), 0..20),
    ) {
        let properties: Properties = all.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
        prop_assert_eq!(parse(&properties.to_string()), Ok(properties));
    }

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,80}") {
        if let Ok(properties) = parse(&text) {
            prop_assert_eq!(parse(&properties.to_string()), Ok(properties));
        }
    }
}
