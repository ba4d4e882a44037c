//! Queries: conjunctions of comparisons with properties, and the preferred order of offers.
//!
//! ```text
//! query      = [ part { "&" part } ]
//! part       = comparison | "prefer=" order
//! comparison = name op value
//! op         = "=" | "!=" | "<" | "<=" | ">" | ">=" | "^="
//! order      = "first" | "random" | "spread" | "min(" name ")" | "max(" name ")"
//! ```
//!
//! A part is cut at `&` first, and then its percent-escapes are read, so `load%3C0.5` is
//! `load<0.5`. The longest operator counts. A value is everything behind the operator; in single
//! quotes it is a string (`zip='01'`), and begins where the quote is: `a<'=b'` compares with `=b`.
//!
//! The type of the offer's property decides the comparison:
//!
//! | property | value | comparisons |
//! | --- | --- | --- |
//! | int, real | a number | all but `^=`; an int and a real are compared exactly |
//! | bool | `true`, `false` | `=`, `!=` |
//! | string | any text | all, by bytes; `^=` is true if the property begins with the value |
//!
//! A property that is missing, or a value of another type, does not match; nor does `!=`. The name
//! `load` is the load of the offer.

use std::cmp::Ordering;
use std::fmt;

use thiserror::Error;

use crate::limits::Limits;
use crate::offer::Offer;
use crate::property::{Form, Value, form, names};
use crate::text::{escape, is_name, name_end, shown, unescape};

/// The operator of a comparison.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// `=`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
    /// `^=`: begins with.
    Begins,
}

impl Op {
    /// All operators with their signs; longer signs come before their beginnings.
    const SIGNS: [(&str, Op); 7] = [
        ("!=", Op::NotEqual),
        ("<=", Op::LessOrEqual),
        (">=", Op::GreaterOrEqual),
        ("^=", Op::Begins),
        ("=", Op::Equal),
        ("<", Op::Less),
        (">", Op::Greater),
    ];

    fn sign(self) -> &'static str {
        Op::SIGNS.iter().find(|(_, op)| *op == self).map_or("=", |(sign, _)| sign)
    }

    /// True if the operator holds for two values in that order; `^=` never does.
    fn holds(self, order: Ordering) -> bool {
        match self {
            Op::Equal => order.is_eq(),
            Op::NotEqual => order.is_ne(),
            Op::Less => order.is_lt(),
            Op::LessOrEqual => order.is_le(),
            Op::Greater => order.is_gt(),
            Op::GreaterOrEqual => order.is_ge(),
            Op::Begins => false,
        }
    }
}

/// A comparison of a property with a value.
#[derive(Clone, PartialEq, Debug)]
pub struct Comparison {
    name: String,
    op: Op,
    text: String,
    is_quoted: bool,
    number: Option<Number>,
}

/// The number that a text without quotes is.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Number {
    Int(i64),
    Real(f64),
}

impl Comparison {
    /// Returns the name of the property.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the operator.
    pub fn op(&self) -> Op {
        self.op
    }

    fn matches(&self, offer: &Offer) -> bool {
        if self.name == names::LOAD {
            return offer.load.is_some_and(|load| self.holds(&Value::Real(load)));
        }
        offer.properties.get(&self.name).is_some_and(|value| self.holds(value))
    }

    fn holds(&self, value: &Value) -> bool {
        let order = match (value, self.number) {
            (Value::String(text), _) if self.op == Op::Begins => return text.starts_with(&self.text),
            (Value::String(text), _) => Some(text.as_str().cmp(&self.text)),
            (Value::Bool(bool), None) if !self.is_quoted && form(&self.text) == Form::Bool => {
                let order = bool.cmp(&(self.text == "true"));
                return matches!(self.op, Op::Equal | Op::NotEqual) && self.op.holds(order);
            }
            (Value::Int(own), Some(Number::Int(int))) => Some(own.cmp(&int)),
            (Value::Int(own), Some(Number::Real(real))) => Some(compare(*own, real)),
            (Value::Real(own), Some(Number::Int(int))) => Some(compare(int, *own).reverse()),
            (Value::Real(own), Some(Number::Real(real))) => own.partial_cmp(&real),
            _ => None,
        };
        order.is_some_and(|order| self.op.holds(order))
    }
}

/// Compares an integer with a finite number exactly: a conversion would round large integers.
fn compare(int: i64, real: f64) -> Ordering {
    // Every i64 is within these, and `BEYOND` is a real itself.
    const BEYOND: f64 = 9_223_372_036_854_775_808.0;
    if real >= BEYOND {
        return Ordering::Less;
    }
    if real < -BEYOND {
        return Ordering::Greater;
    }
    let whole = real.trunc();
    int.cmp(&(whole as i64)).then_with(|| whole.partial_cmp(&real).unwrap_or(Ordering::Equal))
}

/// The order of the offers of an answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Prefer {
    /// The order in which they were exported.
    First,
    /// Any order.
    Random,
    /// The less loaded of two that are chosen at random, again and again.
    Spread,
    /// The smallest value of a property first, then the offers without it.
    Min(String),
    /// The largest value of a property first, then the offers without it.
    Max(String),
}

impl fmt::Display for Prefer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Prefer::First => f.write_str("first"),
            Prefer::Random => f.write_str("random"),
            Prefer::Spread => f.write_str("spread"),
            Prefer::Min(name) => write!(f, "min({name})"),
            Prefer::Max(name) => write!(f, "max({name})"),
        }
    }
}

/// A query.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Query {
    comparisons: Vec<Comparison>,
    prefer: Option<Prefer>,
}

/// The reason why a text is no query, with its place.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("at byte {at} of the query: {why}")]
pub struct BadQuery {
    /// The byte of the text at which the part begins that is wrong, from 0.
    pub at: usize,
    /// The reason.
    pub why: WhyBad,
}

/// The reason why a part of a query is none.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum WhyBad {
    /// Too many bytes.
    #[error("it has {bytes} bytes, and `trader.query_bytes_max` is {max}; compare fewer properties")]
    Bytes {
        /// The bytes.
        bytes: usize,
        /// The limit.
        max: u64,
    },
    /// Too many comparisons.
    #[error("`trader.query_terms_max` allows {max} comparisons; leave some out")]
    Terms {
        /// The limit.
        max: u64,
    },
    /// An escape that is none.
    #[error("the `%` begins no escape of a text; write `%25` for the sign itself")]
    Escape,
    /// No name at the beginning.
    #[error("`{0}` does not begin with the name of a property; write `name=value`")]
    Name(String),
    /// No operator behind the name.
    #[error("`{0}` compares with nothing; write one of `= != < <= > >= ^=` behind the name, and a value")]
    Op(String),
    /// A quote without its second one.
    #[error("`{0}` begins with a quote and does not end with one; write a quote on both sides")]
    Quote(String),
    /// A number out of range.
    #[error("`{0}` is beyond the numbers of its type; write it in single quotes if it is a text")]
    Range(String),
    /// An order that is none.
    #[error("`{0}` is no order; write `prefer=` and `first`, `random`, `spread`, `min(name)` or `max(name)`")]
    Prefer(String),
    /// Two orders.
    #[error("`prefer` is there twice; leave one out")]
    Twice,
}

impl Query {
    /// Reads a query, within the default limits. An empty text matches every offer.
    ///
    /// # Errors
    /// The first part that is none, with its place.
    pub fn parse(text: &str) -> Result<Query, BadQuery> {
        Query::parse_within(text, &Limits::default())
    }

    /// Reads a query.
    ///
    /// # Errors
    /// The first part that is none, with its place.
    pub fn parse_within(text: &str, limits: &Limits) -> Result<Query, BadQuery> {
        let bad = |at, why| BadQuery { at, why };
        if text.len() as u64 > limits.query_bytes_max {
            return Err(bad(0, WhyBad::Bytes { bytes: text.len(), max: limits.query_bytes_max }));
        }
        let mut query = Query::default();
        let mut at = 0;
        for part in text.split('&').filter(|_| !text.is_empty()) {
            let plain = unescape(part).map_err(|error| bad(at + error.0, WhyBad::Escape))?;
            query.add(&plain, limits).map_err(|why| bad(at, why))?;
            at += part.len() + 1;
        }
        Ok(query)
    }

    /// Adds a part without escapes.
    fn add(&mut self, part: &str, limits: &Limits) -> Result<(), WhyBad> {
        let (name, rest) = part.split_at(name_end(part));
        if !is_name(name) {
            return Err(WhyBad::Name(shown(part).into_owned()));
        }
        let Some((sign, op)) = Op::SIGNS.into_iter().find(|(sign, _)| rest.starts_with(sign)) else {
            return Err(WhyBad::Op(shown(part).into_owned()));
        };
        let value = &rest[sign.len()..];
        if name == names::PREFER {
            let prefer = order(value).filter(|_| op == Op::Equal);
            let prefer = prefer.ok_or_else(|| WhyBad::Prefer(shown(part).into_owned()))?;
            return match self.prefer.replace(prefer) {
                None => Ok(()),
                Some(_) => Err(WhyBad::Twice),
            };
        }
        if self.comparisons.len() as u64 >= limits.query_terms_max {
            return Err(WhyBad::Terms { max: limits.query_terms_max });
        }
        let (text, is_quoted) = match value.strip_prefix('\'') {
            Some(inner) => match inner.strip_suffix('\'') {
                Some(text) => (text, true),
                None => return Err(WhyBad::Quote(shown(value).into_owned())),
            },
            None => (value, false),
        };
        let number = if is_quoted { None } else { number(text)? };
        self.comparisons.push(Comparison { name: name.into(), op, text: text.into(), is_quoted, number });
        Ok(())
    }

    /// True if an offer fulfils all comparisons.
    pub fn matches(&self, offer: &Offer) -> bool {
        self.comparisons.iter().all(|comparison| comparison.matches(offer))
    }

    /// Returns the comparisons, in their order.
    pub fn comparisons(&self) -> &[Comparison] {
        &self.comparisons
    }

    /// Returns the preferred order, if the query names one.
    pub fn prefer(&self) -> Option<&Prefer> {
        self.prefer.as_ref()
    }
}

/// The number that a text is, or none.
fn number(text: &str) -> Result<Option<Number>, WhyBad> {
    match form(text) {
        Form::Int | Form::Real => match Value::from_text(text) {
            Ok(Value::Int(int)) => Ok(Some(Number::Int(int))),
            Ok(Value::Real(real)) => Ok(Some(Number::Real(real))),
            _ => Err(WhyBad::Range(shown(text).into_owned())),
        },
        Form::Bool | Form::String => Ok(None),
    }
}

fn order(text: &str) -> Option<Prefer> {
    let of = |beginning: &str| {
        let name = text.strip_prefix(beginning)?.strip_suffix(')')?;
        is_name(name).then(|| name.to_owned())
    };
    match text {
        "first" => Some(Prefer::First),
        "random" => Some(Prefer::Random),
        "spread" => Some(Prefer::Spread),
        _ => of("min(").map(Prefer::Min).or_else(|| of("max(").map(Prefer::Max)),
    }
}

/// The text: [`Query::parse`] reads the same query.
impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut between = "";
        for Comparison { name, op, text, is_quoted, .. } in &self.comparisons {
            let quote = if *is_quoted { "'" } else { "" };
            write!(f, "{between}{name}{}{quote}{}{quote}", op.sign(), escape(text))?;
            between = "&";
        }
        match &self.prefer {
            Some(prefer) => write!(f, "{between}{}={prefer}", names::PREFER),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
