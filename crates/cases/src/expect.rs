//! Expectations: the knowledge of a client at a place of a case.

use std::borrow::Cow;

use bifrost_wire::ErrorNumber;
use serde_json::Value as Json;

use crate::script::Machine;
use crate::script::rounds::Repeated;

/// A comparison.
#[derive(Clone, Debug)]
pub(crate) enum Check {
    /// A claim has this value.
    Value(Json),
    /// A claim fails so.
    Fails(Json),
    /// A flush ends so: `ok`, or a failure.
    Flush(Json),
    /// A table or compound has these rows or items.
    Rows(Json),
    /// A stub is an object.
    Object(String),
    /// The counters, those that are named.
    Counters(Json),
    /// The history, in order.
    History(Json),
    /// The outputs of the case have this misuse, or missing method: compared at its end.
    Named(&'static str, String),
    /// The session is closed, or not.
    Closed(bool),
}

impl Check {
    /// Returns the comparison of a round: names have its number.
    pub(crate) fn in_round(&self, round: u64) -> Cow<'_, Check> {
        match self {
            Check::Object(name) => {
                let name = Json::from(name.as_str());
                let name = Repeated::new(&name).in_round(round).as_str().unwrap_or_default().to_owned();
                Cow::Owned(Check::Object(name))
            }
            other => Cow::Borrowed(other),
        }
    }

    /// Compares with the result of its step, or with the knowledge of the machine.
    pub(crate) fn holds(&self, result: Option<&Json>, machine: &Machine<'_>) -> Result<(), String> {
        let result = result.unwrap_or(&Json::Null);
        match self {
            Check::Value(expected) => ensure(is_value(expected, &result["value"]), expected, result),
            Check::Fails(expected) => ensure(is_failure(expected, &result["error"]), expected, result),
            Check::Flush(expected) if expected == "ok" => ensure(result == "ok", expected, result),
            Check::Flush(expected) => ensure(is_failure(expected, &result["error"]), expected, result),
            Check::Rows(expected) => ensure(is_same(expected, result), expected, result),
            Check::Object(name) => {
                let known = machine.known_of(name).unwrap_or_default();
                ensure(known.get("handle").is_some(), &Json::from("an object"), &known)
            }
            Check::Counters(expected) => {
                let counters = machine.recorder().counters();
                let (crossings, calls) = (expected.get("crossings"), expected.get("calls"));
                let good = crossings.is_none_or(|n| n.as_u64() == Some(counters.crossings))
                    && calls.is_none_or(|n| n.as_u64() == Some(counters.calls));
                if good { Ok(()) } else { Err(format!("{expected} was expected, not {counters:?}")) }
            }
            Check::History(expected) => {
                let (all, listed) = (expected.as_array().cloned().unwrap_or_default(), result.as_array());
                let listed = listed.cloned().unwrap_or_default();
                let good =
                    all.len() == listed.len() && all.iter().zip(&listed).all(|(a, b)| is_failure(a, b));
                ensure(good, expected, result)
            }
            Check::Named(..) => Ok(()),
            Check::Closed(expected) => {
                let closed = machine.recorder().is_closed();
                if closed == *expected { Ok(()) } else { Err(format!("closed: {closed}")) }
            }
        }
    }
}

/// True if an error in the outputs has this part.
pub(crate) fn is_named(outputs: &Json, part: &str, name: &str) -> bool {
    match outputs {
        Json::Object(object) => {
            object.get(part).is_some_and(|found| found == name)
                || object.values().any(|inner| is_named(inner, part, name))
        }
        Json::Array(all) => all.iter().any(|inner| is_named(inner, part, name)),
        _ => false,
    }
}

fn ensure(holds: bool, expected: &Json, found: &Json) -> Result<(), String> {
    if holds { Ok(()) } else { Err(format!("{expected} was expected, not {found}")) }
}

/// True if a value of a script is the one of a case.
fn is_value(expected: &Json, value: &Json) -> bool {
    let Some((kind, value)) = value.as_object().and_then(|value| value.iter().next()) else { return false };
    match kind.as_str() {
        "nil" => expected.is_null(),
        "bool" => expected == value,
        "int" => expected.as_i64().map(|number| number.to_string()).as_deref() == value.as_str(),
        "real" => {
            let number = |json: &Json| json.as_str().and_then(|text| text.parse::<f64>().ok());
            let expected = expected.get("real").and_then(number).or_else(|| expected.as_f64());
            expected.is_some_and(|expected| {
                number(value).is_some_and(|found| found.to_bits() == expected.to_bits())
            })
        }
        "char" | "string" => expected == value,
        "bytes" => expected.get("bytes") == Some(value),
        "compound" => {
            let (all, items) = (expected.as_array(), value["items"].as_array());
            let (Some(all), Some(items)) = (all, items) else { return false };
            let same =
                |(a, b): (&Json, &Json)| if b.get("ref").is_some() { a == "object" } else { is_value(a, b) };
            all.len() == items.len() && all.iter().zip(items).all(same)
        }
        _ => false,
    }
}

/// True if rows are those of a case: values, and objects by their number among all.
fn is_same(expected: &Json, found: &Json) -> bool {
    match (expected, found) {
        (Json::Array(all), Json::Array(items)) => {
            all.len() == items.len() && all.iter().zip(items).all(|(a, b)| is_same(a, b))
        }
        (expected, found) if found.get("object").is_some() => expected == "object",
        (expected, found) => is_value(expected, found),
    }
}

/// True if a failure has all that a case names.
fn is_failure(expected: &Json, failure: &Json) -> bool {
    let Some(expected) = expected.as_object() else { return false };
    let unseen = failure["failures"].as_array().and_then(|failures| failures.first());
    let first = unseen.unwrap_or(failure);
    let root = first.get("root").unwrap_or(first);
    expected.iter().all(|(key, expected)| match key.as_str() {
        "root" => root["kind"] == "signal" && root["name"] == *expected,
        "values" => {
            let (all, values) = (expected.as_array(), root["values"].as_array());
            let (Some(all), Some(values)) = (all, values) else { return false };
            let same = |(a, b): (&Json, &Json)| if b == "object" { a == "object" } else { is_value(a, b) };
            all.len() == values.len() && all.iter().zip(values).all(same)
        }
        "via" => {
            // Those in between, the failure itself first.
            let mut names = vec![first["call"]["name"].clone()];
            names.extend(
                first["via"].as_array().into_iter().flatten().map(|call| call["call"]["name"].clone()),
            );
            expected.as_array() == Some(&names)
        }
        "kind" => failure["kind"] == *expected,
        "call" => failure["call"]["name"] == *expected,
        "argument" => failure["argument"] == *expected,
        "rounds" => root["call"]["rounds"] == *expected,
        "misuse" => root["misuse"] == *expected,
        "missing" => root["kind"] == "missing" && root["name"] == *expected,
        "refused" => {
            let number = root["number"].as_u64().and_then(|number| ErrorNumber::from_number(number as u32));
            root["kind"] == "refused" && number.map(ErrorNumber::name) == expected.as_str()
        }
        "failures" => {
            let all: Vec<&Json> = failure["failures"].as_array().into_iter().flatten().collect();
            let some = expected.as_array().map(Vec::as_slice).unwrap_or_default();
            all.len() == some.len() && some.iter().zip(all).all(|(a, b)| is_failure(a, b))
        }
        "closed" => root["kind"] == "closed" && root["by"] == *expected,
        _ => false,
    })
}
