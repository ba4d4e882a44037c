//! Tests of queries: their texts, their mistakes, their comparisons.

use proptest::prelude::*;

use super::*;
use crate::property::Properties;

fn offer(properties: &str) -> Offer {
    let mut properties = Properties::parse(properties, &Limits::default()).unwrap();
    Offer { load: properties.take_load(), properties, ..Offer::default() }
}

#[track_caller]
fn check(properties: &str, matching: &[&str], others: &[&str]) {
    let offer = offer(properties);
    for text in matching {
        assert!(Query::parse(text).unwrap().matches(&offer), "{text}");
    }
    for text in others {
        assert!(!Query::parse(text).unwrap().matches(&offer), "{text}");
    }
}

#[test]
fn integers_are_compared_as_numbers() {
    check(
        "tier=10",
        &[
            "tier=10",
            "tier!=9",
            "tier>9",
            "tier>=10",
            "tier<11",
            "tier<=10",
            "tier<10.5",
            "tier=10.0",
            "tier!=10.5",
        ],
        &[
            "tier=1",
            "tier!=10",
            "tier<9",
            "tier>10",
            "tier='10'",
            "tier!='1'",
            "tier^=1",
            "tier=x",
            "tier!=x",
            "tier=true",
        ],
    );
    // A conversion to a real would round the property up.
    check(
        "big=9223372036854775807",
        &["big<9223372036854775808.0", "big>9.0e18", "big>-1.0e300", "big!=9223372036854775806"],
        &["big=9223372036854775808.0", "big>=1.0e300"],
    );
    check(
        "low=-9223372036854775808",
        &["low=-9223372036854775808.0", "low<-9.0e18", "low>-1.0e19"],
        &["low>0"],
    );
}

#[test]
fn reals_bools_and_strings_are_compared_by_their_type() {
    check("x=1.5", &["x>1", "x<2", "x=1.5", "x!=1", "x>=1.50"], &["x=1", "x>2", "x^=1", "x='1.5'"]);
    check("x=-0.5", &["x<0", "x>-1", "x!=0"], &["x=0", "x>0", "x<-1"]);
    check(
        "on=true",
        &["on=true", "on!=false"],
        &["on=false", "on!=true", "on>false", "on=1", "on='true'", "on^=t"],
    );
    check(
        "region=eu-west",
        &[
            "region=eu-west",
            "region='eu-west'",
            "region^=eu",
            "region^=",
            "region<f",
            "region>=eu",
            "region!=us",
        ],
        &["region=eu", "region^=us", "region!=eu-west", "region>f"],
    );
    check("zip='01'", &["zip=01", "zip='01'", "zip^=0", "zip<1"], &["zip=1"]);
}

#[test]
fn missing_properties_never_match() {
    check("a=1", &[""], &["b=1", "b!=1", "b<1", "b^=", "load<1", "a=1&b!=1"]);
    check("a=1&load=0.5", &["load<1", "load<=0.5&a=1"], &["load>0.5", "load=5"]);
}

#[test]
fn texts_are_read_with_escapes_and_written() {
    for (text, written) in [
        ("", ""),
        ("region=eu&tier>=2&prefer=min(load)", "region=eu&tier>=2&prefer=min(load)"),
        ("prefer=spread&a!=1", "a!=1&prefer=spread"),
        ("load%3C%3D0.5", "load<=0.5"),
        ("name%5E%3Da%26b", "name^=a%26b"),
        ("a='x=y'", "a='x%3Dy'"),
        ("a==", "a=%3D"),
        ("a<'=b'", "a<'%3Db'"),
        ("a=%27q%27", "a='q'"),
        ("%61=1", "a=1"),
    ] {
        let query = Query::parse(text).unwrap();
        assert_eq!(query.to_string(), written);
        assert_eq!(Query::parse(written).unwrap(), query);
    }
    assert_eq!(Query::parse("prefer=max(x.y)").unwrap().prefer(), Some(&Prefer::Max("x.y".into())));
    check("a='=b'", &["a<='=b'", "a='=b'", "a<=b"], &["a<'=b'"]);
}

#[test]
fn mistakes_name_their_place_and_a_remedy() {
    for (text, message) in [
        (
            "region",
            "at byte 0 of the query: `region` compares with nothing; write one of `= != < <= > >= ^=` behind the name, and a value",
        ),
        (
            "a=1&&b=2",
            "at byte 4 of the query: `` does not begin with the name of a property; write `name=value`",
        ),
        (
            "a=1&=2",
            "at byte 4 of the query: `=2` does not begin with the name of a property; write `name=value`",
        ),
        (
            "a=1&b~2",
            "at byte 4 of the query: `b~2` compares with nothing; write one of `= != < <= > >= ^=` behind the name, and a value",
        ),
        (
            "a=1&b=%2",
            "at byte 6 of the query: the `%` begins no escape of a text; write `%25` for the sign itself",
        ),
        (
            "a='x",
            "at byte 0 of the query: `'x` begins with a quote and does not end with one; write a quote on both sides",
        ),
        (
            "a<99999999999999999999",
            "at byte 0 of the query: `99999999999999999999` is beyond the numbers of its type; write it in single quotes if it is a text",
        ),
        (
            "prefer=best",
            "at byte 0 of the query: `prefer=best` is no order; write `prefer=` and `first`, `random`, `spread`, `min(name)` or `max(name)`",
        ),
        (
            "prefer<first",
            "at byte 0 of the query: `prefer<first` is no order; write `prefer=` and `first`, `random`, `spread`, `min(name)` or `max(name)`",
        ),
        ("prefer=first&prefer=first", "at byte 13 of the query: `prefer` is there twice; leave one out"),
    ] {
        assert_eq!(Query::parse(text).unwrap_err().to_string(), message);
    }
}

#[test]
fn bytes_and_comparisons_are_bounded() {
    let terms = |n: usize| vec!["a=1"; n].join("&");
    Query::parse(&format!("{}&prefer=first", terms(16))).unwrap();
    assert_eq!(Query::parse(&terms(17)).unwrap_err(), BadQuery { at: 64, why: WhyBad::Terms { max: 16 } });
    let long = |bytes: usize| format!("a={}", "x".repeat(bytes - 2));
    Query::parse(&long(1024)).unwrap();
    let error = Query::parse(&long(1025)).unwrap_err();
    assert_eq!(error.why, WhyBad::Bytes { bytes: 1025, max: 1024 });
    let wide = Limits { query_bytes_max: 2_000, query_terms_max: 20, ..Limits::default() };
    Query::parse_within(&long(1025), &wide).unwrap();
    Query::parse_within(&terms(20), &wide).unwrap();
}

proptest! {
    #[test]
    fn any_text_is_read_and_written_or_refused(text in "([a-c]|=|<|>|!|\\^|&|'|%[2-7][0-9a-f]|[0-9.e-]|prefer=|min\\(|\\)|ü){0,24}") {
        match Query::parse(&text) {
            Ok(query) => prop_assert_eq!(Query::parse(&query.to_string()), Ok(query)),
            Err(error) => prop_assert!(error.at <= text.len()),
        }
    }

    #[test]
    fn integers_and_reals_have_one_order(int in any::<i64>(), real in any::<f64>()) {
        prop_assume!(real.is_finite());
        // A 128-bit integer holds both where the real is not beyond it.
        let expected = if real.abs() < 1e30 {
            i128::from(int).cmp(&(real.trunc() as i128)).then(real.trunc().partial_cmp(&real).unwrap())
        } else {
            0.0.partial_cmp(&real).unwrap()
        };
        prop_assert_eq!(compare(int, real), expected);
    }
}
