//! Records as JSON, for dumps and for people.
//!
//! Read [`to_json`] and [`from_json`] first: each is the inverse of the other, byte for byte. The
//! records themselves are read and written by the `reader` and `writer` beside this module.

use serde_json::{Map, Value as Json, json};

use crate::record::{Classes, FieldKind, Kind, Reader, RecordError, Reference, Value, Writer, Wrong};
use crate::{ClassNumber, Oref};

/// The reason why JSON is no record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: expected {wanted}")]
pub struct JsonError {
    /// The way to it, as in `content.elements[3]`.
    pub path: String,
    /// The thing that should be there.
    pub wanted: &'static str,
}

/// Returns a record as JSON: `{"class": number, "content": ...}`. [`from_json`] gives the same
/// bytes again.
///
/// Real numbers that JSON has not, and not-a-numbers with their bits, are strings of hexadecimal
/// digits; so are bytes. A reference is `null`, `{"str": text}`, `{"bytes": digits}` or
/// `{"oref": n, "class": n, "length": n}`.
pub fn to_json(bytes: &[u8], classes: &(impl Classes + ?Sized)) -> Result<Json, RecordError> {
    let (mut from, class) = Reader::new(bytes)?;
    let unknown = RecordError { at: 1, wrong: Wrong::Class(u64::from(class.0)) };
    let kind = classes.kind(class).ok_or(unknown)?;
    let content = content_to_json(&mut from, kind, classes)?;
    from.end()?;
    Ok(json!({ "class": class.0, "content": content }))
}

fn content_to_json(
    from: &mut Reader<'_>,
    kind: &Kind,
    classes: &(impl Classes + ?Sized),
) -> Result<Json, RecordError> {
    Ok(match kind {
        Kind::Object(fields) => {
            // An array of pairs: names may repeat, and their order is the record's.
            let mut pairs = Vec::new();
            for field in fields {
                pairs.push(json!([field.name, value_to_json(from.value(field.kind, classes)?)]));
            }
            json!({ "fields": pairs })
        }
        Kind::Array(of) => {
            json!({ "low": from.int()?, "elements": list_to_json(from, *of, classes)? })
        }
        Kind::Vector(of) | Kind::Sequence(of) => json!({ "elements": list_to_json(from, *of, classes)? }),
        Kind::List(of) => {
            let first = value_to_json(from.value(*of, classes)?);
            let rest = value_to_json(Value::Ref(from.reference(classes)?));
            json!({ "first": first, "rest": rest, "length": from.count()? })
        }
        Kind::Cell(of) => match from.bool()? {
            true => json!({ "value": value_to_json(from.value(*of, classes)?) }),
            false => json!({}),
        },
        Kind::Map(key, value) => json!({ "pairs": pairs_to_json(from, *key, *value, classes)? }),
        Kind::Directory => {
            json!({ "entries": pairs_to_json(from, FieldKind::Str, FieldKind::Ref, classes)? })
        }
        Kind::Native => {
            let objects = list_to_json(from, FieldKind::Ref, classes)?;
            json!({ "objects": objects, "bytes": hex(from.bytes()?) })
        }
    })
}

fn list_to_json(
    from: &mut Reader<'_>,
    of: FieldKind,
    classes: &(impl Classes + ?Sized),
) -> Result<Vec<Json>, RecordError> {
    (0..from.elements()?).map(|_| Ok(value_to_json(from.value(of, classes)?))).collect()
}

fn pairs_to_json(
    from: &mut Reader<'_>,
    key: FieldKind,
    value: FieldKind,
    classes: &(impl Classes + ?Sized),
) -> Result<Vec<Json>, RecordError> {
    let pair = |from: &mut Reader<'_>| -> Result<Json, RecordError> {
        let key = value_to_json(from.value(key, classes)?);
        Ok(json!([key, value_to_json(from.value(value, classes)?)]))
    };
    (0..from.elements()?).map(|_| pair(from)).collect()
}

fn value_to_json(value: Value<'_>) -> Json {
    match value {
        Value::Nil | Value::Ref(Reference::Nothing) => Json::Null,
        Value::Bool(value) => value.into(),
        Value::Int(value) => value.into(),
        Value::Real(value) if value.is_finite() => value.into(),
        Value::Real(value) => hex(&value.to_bits().to_be_bytes()).into(),
        Value::Char(value) => value.to_string().into(),
        Value::Str(value) => value.into(),
        Value::Bytes(value) => hex(value).into(),
        Value::Ref(Reference::Str(value)) => json!({ "str": value }),
        Value::Ref(Reference::Bytes(value)) => json!({ "bytes": hex(value) }),
        Value::Ref(Reference::Object { oref, class, length }) => {
            let mut object = Map::new();
            object.insert("oref".into(), oref.get().into());
            object.insert("class".into(), class.0.into());
            object.extend(length.map(|length| ("length".into(), length.into())));
            Json::Object(object)
        }
    }
}

/// Returns bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the bytes of hexadecimal digits.
pub(crate) fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> =
        text.chars().map(|digit| digit.to_digit(16).map(|digit| digit as u8)).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    Some(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

/// Returns the record of which [`to_json`] made this.
pub fn from_json(json: &Json, classes: &(impl Classes + ?Sized)) -> Result<Vec<u8>, JsonError> {
    let top = At { path: "record".into(), json };
    let class = top.member("class")?.number()?;
    let class = u32::try_from(class).ok().map(ClassNumber);
    let known = class.and_then(|class| Some((class, classes.kind(class)?)));
    let (class, kind) = known.ok_or_else(|| top.wrong("the number of a class of the store"))?;
    let mut out = Vec::new();
    content_from_json(&mut Writer::new(&mut out, class), &top.member("content")?, kind, classes)?;
    Ok(out)
}

fn content_from_json(
    to: &mut Writer<'_>,
    content: &At<'_>,
    kind: &Kind,
    classes: &(impl Classes + ?Sized),
) -> Result<(), JsonError> {
    match kind {
        Kind::Object(fields) => {
            let pairs = content.member("fields")?.items()?;
            if pairs.len() != fields.len() {
                return Err(content.wrong("a pair for each field of the class"));
            }
            for (pair, field) in pairs.iter().zip(fields) {
                let [name, value] = pair.pair()?;
                if name.str()? != field.name {
                    return Err(name.wrong("the name of the class's field"));
                }
                value.write(to, field.kind, classes)?;
            }
        }
        Kind::Array(of) => {
            to.int(content.member("low")?.int()?);
            list_from_json(to, &content.member("elements")?, *of, classes)?;
        }
        Kind::Vector(of) | Kind::Sequence(of) => {
            list_from_json(to, &content.member("elements")?, *of, classes)?;
        }
        Kind::List(of) => {
            content.member("first")?.write(to, *of, classes)?;
            content.member("rest")?.write(to, FieldKind::Ref, classes)?;
            to.count(content.member("length")?.number()?);
        }
        Kind::Cell(of) => {
            let value = content.member("value").ok();
            to.bool(value.is_some());
            value.map_or(Ok(()), |value| value.write(to, *of, classes))?;
        }
        Kind::Map(key, value) => pairs_from_json(to, &content.member("pairs")?, *key, *value, classes)?,
        Kind::Directory => {
            pairs_from_json(to, &content.member("entries")?, FieldKind::Str, FieldKind::Ref, classes)?;
        }
        Kind::Native => {
            list_from_json(to, &content.member("objects")?, FieldKind::Ref, classes)?;
            to.bytes(&content.member("bytes")?.bytes()?);
        }
    }
    Ok(())
}

fn list_from_json(
    to: &mut Writer<'_>,
    list: &At<'_>,
    of: FieldKind,
    classes: &(impl Classes + ?Sized),
) -> Result<(), JsonError> {
    let items = list.items()?;
    to.count(items.len() as u64);
    items.iter().try_for_each(|item| item.write(to, of, classes))
}

fn pairs_from_json(
    to: &mut Writer<'_>,
    list: &At<'_>,
    of_key: FieldKind,
    of_value: FieldKind,
    classes: &(impl Classes + ?Sized),
) -> Result<(), JsonError> {
    let items = list.items()?;
    to.count(items.len() as u64);
    for item in items {
        let [key, value] = item.pair()?;
        key.write(to, of_key, classes)?;
        value.write(to, of_value, classes)?;
    }
    Ok(())
}

/// A place in the JSON, and the way to it.
struct At<'a> {
    path: String,
    json: &'a Json,
}

impl<'a> At<'a> {
    fn wrong(&self, wanted: &'static str) -> JsonError {
        JsonError { path: self.path.clone(), wanted }
    }

    fn member(&self, name: &'static str) -> Result<At<'a>, JsonError> {
        let path = format!("{}.{name}", self.path);
        match self.json.get(name) {
            Some(json) => Ok(At { path, json }),
            None => Err(JsonError { path, wanted: "a member of that name" }),
        }
    }

    fn items(&self) -> Result<Vec<At<'a>>, JsonError> {
        let items = self.json.as_array().ok_or_else(|| self.wrong("an array"))?;
        let at = |(i, json)| At { path: format!("{}[{i}]", self.path), json };
        Ok(items.iter().enumerate().map(at).collect())
    }

    fn pair(&self) -> Result<[At<'a>; 2], JsonError> {
        self.items()?.try_into().map_err(|_| self.wrong("an array of two"))
    }

    fn number(&self) -> Result<u64, JsonError> {
        self.json.as_u64().ok_or_else(|| self.wrong("a number that is not below 0"))
    }

    fn int(&self) -> Result<i64, JsonError> {
        self.json.as_i64().ok_or_else(|| self.wrong("an integer"))
    }

    fn str(&self) -> Result<&'a str, JsonError> {
        self.json.as_str().ok_or_else(|| self.wrong("a string"))
    }

    fn bytes(&self) -> Result<Vec<u8>, JsonError> {
        unhex(self.str()?).ok_or_else(|| self.wrong("pairs of hexadecimal digits"))
    }

    fn real(&self) -> Result<f64, JsonError> {
        if let Some(value) = self.json.as_f64() {
            return Ok(value);
        }
        let bytes = self.bytes()?.try_into().map_err(|_| self.wrong("a number or 16 hexadecimal digits"))?;
        Ok(f64::from_bits(u64::from_be_bytes(bytes)))
    }

    fn char(&self) -> Result<char, JsonError> {
        let mut chars = self.str()?.chars();
        match (chars.next(), chars.next()) {
            (Some(value), None) => Ok(value),
            _ => Err(self.wrong("a string of one character")),
        }
    }

    fn write(
        &self,
        to: &mut Writer<'_>,
        kind: FieldKind,
        classes: &(impl Classes + ?Sized),
    ) -> Result<(), JsonError> {
        match kind {
            FieldKind::Nil if self.json.is_null() => to.nil(),
            FieldKind::Nil => return Err(self.wrong("null")),
            FieldKind::Bool => to.bool(self.json.as_bool().ok_or_else(|| self.wrong("true or false"))?),
            FieldKind::Int => to.int(self.int()?),
            FieldKind::Real => to.real(self.real()?),
            FieldKind::Char => to.char(self.char()?),
            FieldKind::Str => to.str(self.str()?),
            FieldKind::Bytes => to.bytes(&self.bytes()?),
            FieldKind::Ref => self.write_reference(to, classes)?,
        }
        Ok(())
    }

    fn write_reference(
        &self,
        to: &mut Writer<'_>,
        classes: &(impl Classes + ?Sized),
    ) -> Result<(), JsonError> {
        if self.json.is_null() {
            to.reference(Reference::Nothing);
        } else if let Ok(text) = self.member("str") {
            to.reference(Reference::Str(text.str()?));
        } else if let Ok(bytes) = self.member("bytes") {
            to.reference(Reference::Bytes(&bytes.bytes()?));
        } else {
            let number = self.member("oref")?.number()?;
            let oref = Oref::new(number).ok_or_else(|| self.wrong("an oref"))?;
            let class = u32::try_from(self.member("class")?.number()?).ok().map(ClassNumber);
            let known = class.and_then(|class| Some((class, classes.kind(class)?)));
            let (class, kind) = known.ok_or_else(|| self.wrong("the number of a class of the store"))?;
            let length = if kind.has_length() { Some(self.member("length")?.number()?) } else { None };
            to.reference(Reference::Object { oref, class, length });
        }
        Ok(())
    }
}
