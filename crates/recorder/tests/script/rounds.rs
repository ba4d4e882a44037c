//! Steps one after the other, and loops of them.

use std::borrow::Cow;

use serde_json::{Value as Json, json};

use super::json::{field, whole};
use super::{Machine, Step};

/// The end of a name that has the number of its round.
const NUMBERED: &str = "_n";

/// A step of a loop.
pub struct Repeated<'s> {
    step: &'s Json,
    is_numbered: bool,
}

impl<'s> Repeated<'s> {
    pub fn new(step: &'s Json) -> Repeated<'s> {
        Repeated { step, is_numbered: is_numbered(step) }
    }

    /// Returns the step with the number of the round in its names.
    pub fn in_round(&self, round: u64) -> Cow<'s, Json> {
        match self.is_numbered {
            true => Cow::Owned(numbered(self.step, round)),
            false => Cow::Borrowed(self.step),
        }
    }
}

fn is_numbered(json: &Json) -> bool {
    match json {
        Json::String(text) => text.starts_with('$') && text.ends_with(NUMBERED),
        Json::Array(all) => all.iter().any(is_numbered),
        Json::Object(object) => object.values().any(is_numbered),
        _ => false,
    }
}

fn numbered(json: &Json, round: u64) -> Json {
    match json {
        Json::String(_) if is_numbered(json) => {
            let name = json.as_str().and_then(|name| name.strip_suffix(NUMBERED)).unwrap_or_default();
            format!("{name}_{round}").into()
        }
        Json::Array(all) => all.iter().map(|inner| numbered(inner, round)).collect(),
        Json::Object(object) => {
            let entries = object.iter().map(|(key, inner)| (key.clone(), numbered(inner, round)));
            Json::Object(entries.collect())
        }
        other => other.clone(),
    }
}

impl Machine<'_> {
    /// Runs the next step, and returns its result.
    pub fn take(&mut self, step: &Json) -> Option<Json> {
        self.begin(self.place.0 + 1);
        let Some(times) = step.get("loop") else { return self.take_here(step) };
        let steps: Vec<Repeated<'_>> =
            field(step, "steps").as_array().into_iter().flatten().map(Repeated::new).collect();
        for round in 1..=whole(times) {
            steps.iter().for_each(|step| drop(self.take_here(&step.in_round(round))));
        }
        None
    }

    /// Begins the step with this number.
    pub fn begin(&mut self, number: u32) {
        self.place = Step(number);
    }

    /// Runs a step with the number that was begun, and returns its result. In a loop, a result that
    /// equals the last one is counted.
    pub fn take_here(&mut self, step: &Json) -> Option<Json> {
        let result = self.step(step)?;
        let place = self.place.0;
        match self.results.last_mut() {
            Some(last) if last[0] == place && last[1] == result => {
                let times = last.get(2).map_or(1, whole) + 1;
                *last = json!([place, result, times]);
            }
            _ => self.results.push(json!([place, result])),
        }
        Some(result)
    }
}
