//! Properties of offers, and their text.
//!
//! The text of properties is `name=value` with `&` between: `region=eu&tier=1`. Percent-escapes
//! stand for any byte, and are read before the type of a value is decided:
//!
//! | value | type |
//! | --- | --- |
//! | `true`, `false` | bool |
//! | digits, a `-` before them allowed, without zeros in front: `1`, `-20` | int |
//! | digits, a point, digits, an exponent allowed: `1.5`, `-0.25`, `1.0e9` | real |
//! | anything between single quotes: `'1'`, `'true'` | string |
//! | anything else: `eu`, `007`, `1e5`, nothing at all | string |
//!
//! A text that begins with a quote and does not end with one is refused, and so is a number beyond
//! the range of its type. [`Properties`] writes a string with quotes only where it would be read as
//! something else, and a text that was written is read as the same properties.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use thiserror::Error;

use crate::limits::Limits;
use crate::text::{escape, is_name, shown, unescape};

/// Names of properties with a meaning for Bifrost.
pub mod names {
    /// The machine of the exporter: the identity of its boot. Given by the exporter.
    pub const HOST: &str = "host";
    /// A number of the exporter's process that no other process has. Given by the exporter.
    pub const INCARNATION: &str = "incarnation";
    /// The identity of the exporter's repository. Given by the exporter.
    pub const STORE: &str = "store";
    /// The version of the exporter's program. Given by the exporter.
    pub const VERSION: &str = "version";
    /// The load of the exporter. Given with renewals, and no property of an offer.
    pub const LOAD: &str = "load";
    /// The link through which an offer was found. Given by the trader.
    pub const LINK: &str = "link";
    /// The order of the offers of an answer, in a query.
    pub const PREFER: &str = "prefer";
    /// The service, in a URL whose path is another thing.
    pub const SERVICE: &str = "service";

    /// Names that an exporter gives to no property.
    pub const RESERVED: [&str; 4] = [LOAD, LINK, PREFER, SERVICE];
}

/// The value of a property.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// A 64-bit integer.
    Int(i64),
    /// A finite number.
    Real(f64),
    /// A truth value.
    Bool(bool),
    /// A text.
    String(String),
}

impl Value {
    /// Reads a value without escapes.
    ///
    /// # Errors
    /// A quote without its second one, and numbers out of range.
    pub fn from_text(text: &str) -> Result<Value, BadValue> {
        if let Some(rest) = text.strip_prefix('\'') {
            let inner = rest.strip_suffix('\'').ok_or_else(|| BadValue::Quote(shown(text).into_owned()))?;
            return Ok(Value::String(inner.to_owned()));
        }
        let range = || BadValue::Range(shown(text).into_owned());
        match form(text) {
            Form::Bool => Ok(Value::Bool(text == "true")),
            Form::Int => text.parse().map(Value::Int).map_err(|_| range()),
            Form::Real => match text.parse::<f64>() {
                Ok(real) if real.is_finite() => Ok(Value::Real(real)),
                _ => Err(range()),
            },
            Form::String => Ok(Value::String(text.to_owned())),
        }
    }

    /// Writes the value without escapes: [`Value::from_text`] reads the same value.
    pub fn to_text(&self) -> String {
        match self {
            Value::Int(int) => int.to_string(),
            Value::Bool(bool) => bool.to_string(),
            Value::Real(real) => {
                let text = format!("{real:?}");
                match text.split_once('e') {
                    Some((digits, exponent)) if !digits.contains('.') => format!("{digits}.0e{exponent}"),
                    _ => text,
                }
            }
            Value::String(text) if text.starts_with('\'') || form(text) != Form::String => {
                format!("'{text}'")
            }
            Value::String(text) => text.clone(),
        }
    }

    /// Returns the value as a number, for `min` and `max`.
    pub fn number(&self) -> Option<f64> {
        match self {
            Value::Int(int) => Some(*int as f64),
            Value::Real(real) => Some(*real),
            Value::Bool(_) | Value::String(_) => None,
        }
    }
}

/// The type that a text without quotes has by its form.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    Bool,
    Int,
    Real,
    String,
}

/// The form of a text without quotes.
pub(crate) fn form(text: &str) -> Form {
    if text == "true" || text == "false" {
        return Form::Bool;
    }
    let number = text.strip_prefix('-').unwrap_or(text);
    let are_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let are_leading = |text: &str| are_digits(text) && (text == "0" || !text.starts_with('0'));
    match number.split_once('.') {
        // Minus nothing is a real, but no int.
        None if are_leading(number) && text != "-0" => Form::Int,
        Some((whole, rest)) if are_leading(whole) => {
            let (fraction, exponent) = match rest.split_once(['e', 'E']) {
                Some((fraction, exponent)) => (fraction, Some(exponent)),
                None => (rest, None),
            };
            let is_exponent = |text: &str| are_digits(text.strip_prefix(['-', '+']).unwrap_or(text));
            let is_real = are_digits(fraction) && exponent.is_none_or(is_exponent);
            if is_real { Form::Real } else { Form::String }
        }
        _ => Form::String,
    }
}

/// The reason why a text is no value.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum BadValue {
    /// A quote without its second one.
    #[error("`{0}` begins with a quote and does not end with one; write a quote on both sides")]
    Quote(String),
    /// A number that its type does not have.
    #[error("`{0}` is beyond the numbers of its type; write it in single quotes if it is a text")]
    Range(String),
}

/// The reason why a text is no properties, or a board refuses properties.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum BadProperties {
    /// A part without a value.
    #[error("property {place}: `{text}` has no value; write `name=value`")]
    NoValue {
        /// The part, from 1.
        place: usize,
        /// The part's text.
        text: String,
    },
    /// A name with other characters.
    #[error(
        "property {place}: `{name}` is no name; write letters, digits, `_`, `.` and `-`, a letter or `_` first"
    )]
    Name {
        /// The part, from 1.
        place: usize,
        /// The name.
        name: String,
    },
    /// The same name twice.
    #[error("property {place}: `{name}` is there twice; leave one out")]
    Twice {
        /// The second part, from 1.
        place: usize,
        /// The name.
        name: String,
    },
    /// An escape that is none.
    #[error(
        "property {place}: the `%` in `{text}` begins no escape of a text; write `%25` for the sign itself"
    )]
    Escape {
        /// The part, from 1.
        place: usize,
        /// The part's text.
        text: String,
    },
    /// A value that is none.
    #[error("property {place}, `{name}`: {why}")]
    Value {
        /// The part, from 1.
        place: usize,
        /// The name.
        name: String,
        /// The reason.
        why: BadValue,
    },
    /// A name that Bifrost uses.
    #[error("the property `{name}` is not given by exporters; take another name")]
    Reserved {
        /// The name.
        name: String,
    },
    /// A real that is no number.
    #[error("the property `{name}` is no finite number")]
    NotFinite {
        /// The name.
        name: String,
    },
    /// A limit.
    #[error("{what} exceeds `trader.{limit}`, which is {value}")]
    Limit {
        /// The thing that is too large.
        what: String,
        /// The name of the limit.
        limit: &'static str,
        /// Its value.
        value: u64,
    },
}

/// The properties of an offer, sorted by name. A clone shares them until one of the two is changed.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Properties(Arc<BTreeMap<String, Value>>);

impl Properties {
    /// Makes properties without any.
    pub fn new() -> Properties {
        Properties::default()
    }

    /// Reads properties from text. An empty text has none.
    ///
    /// # Errors
    /// The first part that is none, and limits: see [`BadProperties`].
    pub fn parse(text: &str, limits: &Limits) -> Result<Properties, BadProperties> {
        let mut properties = BTreeMap::new();
        let parts = text.split('&').filter(|_| !text.is_empty());
        for (place, part) in (1..).zip(parts) {
            if place as u64 > limits.properties_max {
                return Err(too_many(limits));
            }
            let escape = |_| BadProperties::Escape { place, text: shown(part).into_owned() };
            let Some((name, value)) = part.split_once('=') else {
                return Err(BadProperties::NoValue { place, text: shown(part).into_owned() });
            };
            let (name, value) = (unescape(name).map_err(escape)?, unescape(value).map_err(escape)?);
            let name = name.into_owned();
            if !is_name(&name) {
                return Err(BadProperties::Name { place, name: shown(&name).into_owned() });
            }
            let value = Value::from_text(&value).map_err(|why| BadProperties::Value {
                place,
                name: shown(&name).into_owned(),
                why,
            })?;
            check_sizes(&name, &value, limits)?;
            if properties.contains_key(&name) {
                return Err(BadProperties::Twice { place, name });
            }
            properties.insert(name, value);
        }
        Ok(Properties(Arc::new(properties)))
    }

    /// Checks properties that a program has made: names, values, and all limits.
    ///
    /// # Errors
    /// See [`BadProperties`].
    pub fn check(&self, limits: &Limits) -> Result<(), BadProperties> {
        if self.0.len() as u64 > limits.properties_max {
            return Err(too_many(limits));
        }
        for (place, (name, value)) in (1..).zip(&*self.0) {
            if !is_name(name) {
                return Err(BadProperties::Name { place, name: shown(name).into_owned() });
            }
            if matches!(value, Value::Real(real) if !real.is_finite()) {
                return Err(BadProperties::NotFinite { name: shown(name).into_owned() });
            }
            check_sizes(name, value, limits)?;
        }
        Ok(())
    }

    /// Checks that no name is one that exporters do not give.
    ///
    /// # Errors
    /// [`BadProperties::Reserved`].
    pub fn check_not_reserved(&self) -> Result<(), BadProperties> {
        match names::RESERVED.iter().find(|name| self.0.contains_key(**name)) {
            Some(name) => Err(BadProperties::Reserved { name: (*name).to_owned() }),
            None => Ok(()),
        }
    }

    /// Takes the load out, which the text of a renewal has among the properties.
    pub fn take_load(&mut self) -> Option<f64> {
        self.remove(names::LOAD)?.number()
    }

    /// Returns the value of a property.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// Returns the value of a property that is a string.
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.0.get(name) {
            Some(Value::String(text)) => Some(text),
            _ => None,
        }
    }

    /// Sets a property, and returns the value that it had.
    pub fn set(&mut self, name: &str, value: Value) -> Option<Value> {
        Arc::make_mut(&mut self.0).insert(name.to_owned(), value)
    }

    /// Removes a property, and returns the value that it had.
    pub fn remove(&mut self, name: &str) -> Option<Value> {
        // Nothing is copied to remove nothing.
        if self.0.contains_key(name) { Arc::make_mut(&mut self.0).remove(name) } else { None }
    }

    /// Returns all properties, by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// Returns the number of properties.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'n> FromIterator<(&'n str, Value)> for Properties {
    fn from_iter<I: IntoIterator<Item = (&'n str, Value)>>(all: I) -> Properties {
        Properties(Arc::new(all.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()))
    }
}

/// The text: [`Properties::parse`] reads the same properties.
impl fmt::Display for Properties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (name, value)) in self.0.iter().enumerate() {
            let between = if at == 0 { "" } else { "&" };
            write!(f, "{between}{name}={}", escape(&value.to_text()))?;
        }
        Ok(())
    }
}

fn too_many(limits: &Limits) -> BadProperties {
    let what = "the number of properties".to_owned();
    BadProperties::Limit { what, limit: "properties_max", value: limits.properties_max }
}

fn check_sizes(name: &str, value: &Value, limits: &Limits) -> Result<(), BadProperties> {
    let sizes = [
        (name.len(), "the name of", "name_bytes_max", limits.name_bytes_max),
        (
            if let Value::String(text) = value { text.len() } else { 0 },
            "the value of",
            "value_bytes_max",
            limits.value_bytes_max,
        ),
    ];
    match sizes.into_iter().find(|(bytes, _, _, max)| *bytes as u64 > *max) {
        None => Ok(()),
        Some((bytes, part, limit, value)) => {
            let what = format!("{part} `{}` with {bytes} bytes", shown(name));
            Err(BadProperties::Limit { what, limit, value })
        }
    }
}

#[cfg(test)]
mod tests;
