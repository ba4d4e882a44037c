//! Answers, before they are lines or JSON.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Map, Value as Json, json};

use crate::error::ErrorNumber;
use crate::interface::Interface;
use crate::json::json_places;
use crate::profile::{OwnedProfile, Rest, Subject};
use crate::reply::{Exception, ExceptionKind, Outcome};
use crate::value::{Arg, Value};

use super::print::{self, Parts};

/// Most characters of a text that stands for an object.
const CONTENTS_MAX: usize = 1_000;

/// Something that is shown, in both forms.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) text: String,
    pub(super) json: Map<String, Json>,
}

impl Item {
    fn new(text: impl Into<String>, key: &str, json: Json) -> Item {
        Item { text: text.into(), json: Map::from_iter([(key.to_owned(), json)]) }
    }

    /// Returns an outcome: `h5: DataElem`, `42`, `failed`.
    pub(super) fn outcome(interface: &Interface, outcome: &Outcome<'_>) -> Item {
        let text = print::outcome(interface, outcome);
        match outcome {
            Outcome::Handle { handle, ty } => {
                let mut item = Item::new(text, "handle", json!(handle.0));
                item.json.insert("type".to_owned(), json!(interface.type_name(*ty)));
                item
            }
            Outcome::Value(value) => Item::value(interface, value),
            Outcome::Rows(rows) => {
                let columns: Vec<_> = rows.columns().map(|(_, ty)| json!(interface.type_name(ty))).collect();
                let cells: Vec<Json> = rows.iter().map(|cell| json_cell(interface, &cell)).collect();
                let lines = cells.chunks(columns.len()).map(|row| Json::from(row.to_vec())).collect();
                let mut item = Item::new(text, "rows", lines);
                item.json.insert("columns".to_owned(), columns.into());
                item
            }
            Outcome::Exception(_) => Item::new(text, "failed", json!(true)),
            Outcome::Absent => Item::new(text, "not_reached", json!(true)),
        }
    }

    /// Returns the values of one yield.
    pub(super) fn row(mut items: Vec<Item>) -> Item {
        if items.len() == 1 {
            return items.remove(0);
        }
        let texts: Vec<String> = items.iter().map(|item| item.text.clone()).collect();
        let json: Vec<Json> = items.into_iter().map(|item| item.json.into()).collect();
        Item::new(texts.join(", "), "values", json.into())
    }

    pub(super) fn value(interface: &Interface, value: &Value<'_>) -> Item {
        Item::new(print::value(interface, value), "value", json_value(interface, value))
    }

    /// Returns an exception: `@4 fetch ! not_found`; `text` is its line.
    pub(super) fn exception(
        interface: &Interface,
        exception: &Exception<'_>,
        call: Option<&str>,
        text: String,
    ) -> Item {
        let mut item = Item::new(text, "call", json!(exception.call));
        let mut put = |key: &str, json: Json| item.json.insert(key.to_owned(), json);
        if let Some(call) = call {
            put("name", json!(call));
        }
        let rounds: Vec<u32> = exception.iterations().collect();
        if !rounds.is_empty() {
            put("rounds", json!(rounds));
        }
        match exception.kind {
            ExceptionKind::Signal { name, values, places } => {
                put("signal", json!(name));
                if !values.is_empty() {
                    let values = values.iter().map(|value| Json::from(Item::outcome(interface, &value).json));
                    put("values", values.collect());
                }
                if !places.is_empty() {
                    put("places", json_places(&places));
                }
                if places.more > 0 {
                    put("more_places", json!(places.more));
                }
            }
            ExceptionKind::Unhandled { argument, cause, .. } => {
                put("unhandled", json!({"argument": argument, "cause": cause}));
            }
            ExceptionKind::Refused { number, text } => {
                put("refused", json!(ErrorNumber::from_number(number).map_or("error", ErrorNumber::name)));
                put("number", json!(number));
                put("text", json!(text));
            }
        }
        item
    }

    /// Adds the contents of an object.
    pub(super) fn contain(&mut self, contents: Contents) {
        match contents {
            Contents::Whole(text) => {
                let end = text.char_indices().nth(CONTENTS_MAX).map(|(at, _)| at);
                let shown = end.map_or_else(|| text.clone(), |end| format!("{} ...", &text[..end]));
                let _ = write!(self.text, " {}", print::plain(&shown));
                self.json.insert("contents".to_owned(), json!(text));
            }
            Contents::Fields(fields) => {
                let texts: Vec<String> =
                    fields.iter().map(|(name, item)| format!("{name}: {}", item.text)).collect();
                let _ = write!(self.text, " {{{}}}", texts.join(", "));
                let json: Map<String, Json> =
                    fields.into_iter().map(|(name, item)| (name, item.json.into())).collect();
                self.json.insert("contents".to_owned(), json.into());
            }
            Contents::Elements(items, all) => {
                let mut texts: Vec<String> = items.iter().map(|item| item.text.clone()).collect();
                let left = all.saturating_sub(items.len() as u64);
                if left > 0 {
                    texts.push(format!("... {left} more"));
                    self.json.insert("more".to_owned(), json!(left));
                }
                let _ = write!(self.text, " [{}]", texts.join(", "));
                let json: Vec<Json> = items.into_iter().map(|item| item.json.into()).collect();
                self.json.insert("contents".to_owned(), json.into());
            }
        }
    }
}

/// The contents of an object.
pub(super) enum Contents {
    /// The text that the object writes itself.
    Whole(String),
    Fields(Vec<(String, Item)>),
    /// The first elements, and how many there are.
    Elements(Vec<Item>, u64),
}

/// Returns a cell of a table: a value as itself.
fn json_cell(interface: &Interface, cell: &Outcome<'_>) -> Json {
    match cell {
        Outcome::Value(value) => json_value(interface, value),
        other => Item::outcome(interface, other).json.into(),
    }
}

fn json_value(interface: &Interface, value: &Value<'_>) -> Json {
    match value {
        Value::Nil => Json::Null,
        Value::Bool(b) => json!(b),
        Value::Int(i) => json!(i),
        // JSON has no infinities and no NaN.
        Value::Real(r) if !r.is_finite() => json!(r.to_string()),
        Value::Real(r) => json!(r),
        Value::Char(c) => json!(c),
        Value::Str(s) => json!(s),
        Value::Bytes(b) => json!({"bytes": print::hex(b)}),
        Value::Compound(c) => match print::parts(interface, c) {
            Parts::Elements(items) => items.iter().map(|item| json_item(interface, item)).collect(),
            Parts::Pairs(pairs) => {
                pairs.iter().map(|(k, v)| json!([json_item(interface, k), json_item(interface, v)])).collect()
            }
            Parts::Fields(fields) => {
                let fields = fields.into_iter().map(|(name, item)| (name, json_item(interface, &item)));
                Json::Object(fields.collect())
            }
        },
    }
}

fn json_item(interface: &Interface, item: &Arg<'_>) -> Json {
    match item {
        Arg::Ref(handle) => json!({"handle": handle.0}),
        Arg::Value(value) => json_value(interface, value),
    }
}

/// The answer to a flush.
#[derive(Clone, Debug, Default)]
pub(super) struct Answer {
    /// Each with its label.
    pub(super) shown: Vec<(String, Item)>,
    /// The yields of an iterator, if they were asked for; true if there are more.
    pub(super) listed: Option<(Vec<Item>, bool)>,
    pub(super) exceptions: Vec<Item>,
    pub(super) omitted: u64,
    pub(super) calls: u32,
    /// The profile, with the names of commands by their positions.
    pub(super) profile: Option<(OwnedProfile, BTreeMap<u32, String>)>,
}

impl Answer {
    /// Writes the lines, or the line of JSON.
    pub(super) fn write(self, json: bool, out: &mut String) {
        // Writing to a string cannot fail.
        let _ = if json { writeln!(out, "{}", self.json()) } else { self.text(out) };
    }

    fn text(self, out: &mut String) -> std::fmt::Result {
        for (label, item) in &self.shown {
            writeln!(out, "{label} = {}", item.text)?;
        }
        for item in self.listed.iter().flat_map(|(items, _)| items) {
            writeln!(out, "{}", item.text)?;
        }
        for exception in &self.exceptions {
            writeln!(out, "{}", exception.text)?;
        }
        if self.omitted > 0 {
            writeln!(out, "and {} more exceptions", self.omitted)?;
        }
        if let Some((profile, names)) = &self.profile {
            writeln!(out, "# {}", profile.totals)?;
            for entry in &profile.entries {
                let name = match entry.subject {
                    Subject::Structure => "structure",
                    Subject::Command => names.get(&entry.call).map_or("?", String::as_str),
                };
                writeln!(out, "# @{} {name}: {}", entry.call, entry.cost)?;
            }
            if let Some(Rest { omitted, cost }) = &profile.rest {
                writeln!(out, "# {omitted} more: {cost}")?;
            }
        }
        match self.listed {
            Some((items, more)) => {
                writeln!(out, "ok {} values{}", items.len(), if more { ", and more exist" } else { "" })
            }
            None => writeln!(out, "ok {} calls", self.calls),
        }
    }

    fn json(self) -> Json {
        let mut json = Map::new();
        match self.listed {
            Some((items, more)) => {
                json.insert("values".to_owned(), items.into_iter().map(|item| item.json).collect());
                json.insert("more".to_owned(), json!(more));
            }
            None => {
                let results = self.shown.into_iter().map(|(label, mut item)| {
                    item.json.insert("name".to_owned(), json!(label));
                    item.json
                });
                json.insert("results".to_owned(), results.collect());
            }
        }
        json.insert("exceptions".to_owned(), self.exceptions.into_iter().map(|item| item.json).collect());
        if self.omitted > 0 {
            json.insert("omitted".to_owned(), json!(self.omitted));
        }
        json.insert("calls".to_owned(), json!(self.calls));
        if let Some((profile, names)) = &self.profile {
            let profile = crate::json::profile_with(profile, |call| names.get(&call).cloned());
            json.insert("profile".to_owned(), profile);
        }
        json.into()
    }
}
