//! Looks into objects that are shown, and at the yields of iterators.
//!
//! An object crosses as a handle. The translator asks for the contents of a record, a struct or a
//! sequence in batches of its own, behind the one that the line has ended. The first batch asks for
//! the size of the contents, then others ask for the parts.

use crate::encode;
use crate::ids::{MethodNumber, Ref, TypeNumber};
use crate::interface::{Interface, Kind};
use crate::op;
use crate::reply::{FlushedReply, Outcome};
use crate::value::{Arg, Value};

use super::answer::{Answer, Contents, Item};
use super::parser::{Expr, ExprKind};
use super::translate::{Asked, Due, Known, LineError, Stage, Translated, Translator};

/// Most objects of an answer that are looked into.
const LOOKS_MAX: usize = 100;
/// Most elements of a sequence that are shown.
const ELEMENTS_MAX: u64 = 20;
/// Values of an iterator that are listed if nothing else is said.
const LISTED: i64 = 20;
/// Most values of an iterator that are listed at once.
pub(super) const LISTED_MAX: i64 = 1_000;

/// A value that was asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Read {
    /// Its position.
    value: u32,
    /// The position of the text that it writes of itself.
    text: Option<u32>,
}

/// A part of an answer whose contents are asked for.
#[derive(Debug)]
pub(super) struct Look {
    /// Its place in the answer.
    line: usize,
    object: Ref,
    ty: TypeNumber,
    ask: Ask,
}

#[derive(Debug)]
enum Ask {
    /// The text that it writes of itself, by its position.
    Whole(u32),
    Fields(Vec<(String, Read)>),
    /// The positions of the number of elements and of the first index.
    Length(u32, Option<u32>),
    /// The elements that come, and how many there are.
    Elements(Vec<Read>, u64),
}

/// An iterator whose values are listed: the positions of the counter and of the table.
#[derive(Clone, Debug)]
pub(super) struct Listing {
    count: u32,
    rows: u32,
    /// For each part of a value, true if the text that it writes of itself follows it in the row.
    texts: Vec<bool>,
}

impl Listing {
    pub(super) fn positions(&self) -> impl Iterator<Item = u32> {
        [self.rows, self.count].into_iter()
    }

    /// Returns the values, and true if the iterator would have yielded more. `of` gives the outcome
    /// of a position.
    pub(super) fn items<'o>(
        &self,
        interface: &Interface,
        of: &dyn Fn(u32) -> Outcome<'o>,
    ) -> (Vec<Item>, bool) {
        let Outcome::Rows(rows) = of(self.rows) else { return (Vec::new(), false) };
        let mut cells = rows.iter();
        let values = (0..rows.len()).map(|_| {
            let mut parts = Vec::new();
            for has_text in &self.texts {
                let mut part = Item::outcome(interface, &cells.next().unwrap_or(Outcome::Absent));
                if *has_text && let Some(Outcome::Value(Value::Str(text))) = cells.next() {
                    part.contain(Contents::Whole(text.to_owned()));
                }
                parts.push(part);
            }
            Item::row(parts)
        });
        let values: Vec<Item> = values.collect();
        let count = match of(self.count) {
            Outcome::Value(Value::Int(count)) => usize::try_from(count).unwrap_or(0),
            _ => 0,
        };
        let more = count > values.len();
        (values, more)
    }
}

impl Translator {
    /// Records a call without checks: the method is one of the interface and takes these arguments.
    fn ask(&mut self, method: MethodNumber, receiver: Ref, args: &[Arg<'_>], out: &mut Vec<u8>) -> u32 {
        encode::call(out, method, receiver, args);
        let numbering = self.numbering.clone();
        let found = numbering.method(method);
        let ty = found.and_then(|(_, m)| m.heading.futures().first().copied());
        let name = found.map_or("", |(_, m)| m.name.as_str());
        self.future(ty.unwrap_or(TypeNumber::NONE), name);
        self.position()
    }

    fn method(&self, ty: TypeNumber, name: &str) -> Option<MethodNumber> {
        self.numbering.find_method(ty, name)
    }

    /// Asks a value, which a call gives, for a text of its own if it is a record or the like.
    fn read(&mut self, method: MethodNumber, receiver: Ref, args: &[Arg<'_>], out: &mut Vec<u8>) -> Read {
        let value = self.ask(method, receiver, args, out);
        let ty = self.numbering.method(method).and_then(|(_, m)| m.heading.results.first().copied());
        let unparse = ty.and_then(|ty| self.unparse(ty));
        let text = unparse.map(|unparse| self.ask(unparse, Ref::future(value), &[], out));
        Read { value, text }
    }

    /// Returns the method by which a record or the like writes a text of itself.
    fn unparse(&self, ty: TypeNumber) -> Option<MethodNumber> {
        if self.is_tagged(ty) { self.method(ty, "unparse") } else { None }
    }

    /// Returns the method by which an object of a type writes a text for a row. One that crosses by
    /// value is in the row itself.
    fn text_in_row(&self, ty: TypeNumber) -> Option<MethodNumber> {
        let is_value = self.numbering.interface().ty(ty).is_some_and(|ty| ty.kind.is_compound());
        if is_value { None } else { self.unparse(ty) }
    }

    /// Returns true if a type is one of records, structs, oneofs or `maybe`.
    fn is_tagged(&self, ty: TypeNumber) -> bool {
        let kind = self.numbering.interface().ty(ty).map(|ty| ty.kind);
        matches!(kind, Some(Kind::Record | Kind::Struct | Kind::Oneof | Kind::Maybe))
    }

    /// Returns the fields of a record or struct, each with the method that reads it.
    fn fields(&self, ty: TypeNumber) -> Vec<(String, MethodNumber)> {
        let fields = self.numbering.interface().ty(ty).map_or(&[][..], |ty| &ty.fields);
        fields.iter().filter_map(|f| Some((f.name.clone(), self.method(ty, &f.name)?))).collect()
    }

    /// Returns the first question about an object, if its contents are shown.
    fn first_ask(&mut self, object: Ref, ty: TypeNumber, out: &mut Vec<u8>) -> Option<Ask> {
        let numbering = self.numbering.clone();
        let known = numbering.interface().ty(ty)?;
        if self.is_tagged(ty) {
            if let Some(unparse) = self.unparse(ty) {
                return Some(Ask::Whole(self.ask(unparse, object, &[], out)));
            }
            let fields = self.fields(ty);
            let fields: Vec<(String, Read)> =
                fields.into_iter().map(|(name, get)| (name, self.read(get, object, &[], out))).collect();
            return (!fields.is_empty()).then_some(Ask::Fields(fields));
        }
        if !matches!(known.kind, Kind::Sequence | Kind::Array | Kind::Vector) {
            return None;
        }
        let length = self.method(ty, "length")?;
        let length = self.ask(length, object, &[], out);
        let low = self.method(ty, "low").map(|low| self.ask(low, object, &[], out));
        Some(Ask::Length(length, low))
    }

    /// Asks for the contents of the objects that an answer shows, or writes the answer if there is
    /// nothing to ask.
    pub(super) fn look(
        &mut self,
        answer: Answer,
        shown: &[(usize, Ref, TypeNumber)],
        out: &mut Vec<u8>,
        text: &mut String,
    ) -> Due {
        let mut looks = Vec::new();
        for (line, object, ty) in shown.iter().take(LOOKS_MAX) {
            if let Some(ask) = self.first_ask(*object, *ty, out) {
                looks.push(Look { line: *line, object: *object, ty: *ty, ask });
            }
        }
        self.go_on(answer, looks, out, text)
    }

    fn go_on(&mut self, answer: Answer, looks: Vec<Look>, out: &mut Vec<u8>, text: &mut String) -> Due {
        if looks.is_empty() {
            answer.write(self.json, text);
            return Due::Nothing;
        }
        encode::flush(out, 1..=self.position(), false);
        self.stage = Stage::Looks(answer, looks);
        Due::Reply
    }

    /// Takes over the contents asked for, and asks on.
    pub(super) fn looked(
        &mut self,
        mut answer: Answer,
        looks: Vec<Look>,
        reply: &FlushedReply<'_>,
        out: &mut Vec<u8>,
        text: &mut String,
    ) -> Due {
        let outcomes: Vec<Outcome<'_>> = reply.outcomes().collect();
        let of = |position: u32| outcomes.get(position as usize - 1).copied().unwrap_or(Outcome::Absent);
        self.add_exceptions(&mut answer, reply);
        let mut next = Vec::new();
        for look in looks {
            let contents = match look.ask {
                Ask::Whole(at) => match of(at) {
                    Outcome::Value(Value::Str(text)) => Some(Contents::Whole(text.to_owned())),
                    _ => None,
                },
                Ask::Fields(fields) => {
                    let item = |read: Read| self.item(read, &of);
                    Some(Contents::Fields(fields.into_iter().map(|(name, r)| (name, item(r))).collect()))
                }
                Ask::Length(length, low) => {
                    if let Outcome::Value(Value::Int(length)) = of(length) {
                        let low = match low.map(of) {
                            Some(Outcome::Value(Value::Int(low))) => low,
                            _ => 1,
                        };
                        next.push((look.line, look.object, look.ty, length.max(0) as u64, low));
                    }
                    None
                }
                Ask::Elements(reads, all) => Some(Contents::Elements(
                    reads.into_iter().map(|read| self.item(read, &of)).collect(),
                    all,
                )),
            };
            if let (Some(contents), Some((_, item))) = (contents, answer.shown.get_mut(look.line)) {
                item.contain(contents);
            }
        }
        self.forget_batch(&outcomes);
        let mut looks = Vec::new();
        for (line, object, ty, length, low) in next {
            let Some(fetch) = self.method(ty, "fetch") else { continue };
            let indices = (0..length.min(ELEMENTS_MAX)).map(|at| low.saturating_add(at as i64));
            let reads =
                indices.map(|at| self.read(fetch, object, &[Arg::Value(Value::Int(at))], out)).collect();
            looks.push(Look { line, object, ty, ask: Ask::Elements(reads, length) });
        }
        // Empty ones need no answer.
        let (empty, looks): (Vec<Look>, Vec<Look>) =
            looks.into_iter().partition(|look| matches!(look.ask, Ask::Elements(_, 0)));
        for look in empty {
            if let Some((_, item)) = answer.shown.get_mut(look.line) {
                item.contain(Contents::Elements(Vec::new(), 0));
            }
        }
        self.go_on(answer, looks, out, text)
    }

    fn item<'o>(&self, read: Read, of: &dyn Fn(u32) -> Outcome<'o>) -> Item {
        let mut item = Item::outcome(self.numbering.interface(), &of(read.value));
        if let Some(Outcome::Value(Value::Str(text))) = read.text.map(of) {
            item.contain(Contents::Whole(text.to_owned()));
        }
        item
    }

    /// Ends a batch of the translator's own: its handles go with the next flush.
    fn forget_batch(&mut self, outcomes: &[Outcome<'_>]) {
        outcomes.iter().for_each(|outcome| self.unname_outcome(outcome));
        self.clear_futures();
    }

    /// Records `list 10 $db.users()`: a loop that puts the values of an iterator into a table.
    pub(super) fn list(&mut self, limit: Option<i64>, iterator: &Expr, out: &mut Vec<u8>) -> Translated<Due> {
        let bad = |text: String| LineError::new(iterator.column, text);
        let ExprKind::Call(receiver, name, args) = &iterator.kind else {
            return Err(bad("the call of an iterator was expected".to_owned()));
        };
        self.outside("list")?;
        let limit = limit.unwrap_or(LISTED);
        if !(1..=LISTED_MAX).contains(&limit) {
            return Err(bad(format!("`list` prints 1 to {LISTED_MAX} values")));
        }
        // Its types are known when it is recorded, and the table comes before it.
        let (bytes, futures) = (out.len(), self.position());
        let yields = self.call(iterator.column, receiver.as_deref(), name, args, op::FOREACH, out)?;
        out.truncate(bytes);
        self.truncate_futures(futures);
        let texts = yields.iter().map(|part| self.text_in_row(part.ty));
        let texts: Vec<Option<MethodNumber>> = texts.collect();
        let (int, string) = (self.kind(Kind::Int), self.kind(Kind::String));
        let counter = self.numbering.interface().find_kind(Kind::Cell, Some(int));
        let method = |ty: Option<TypeNumber>, name: &str| {
            let found = ty.and_then(|ty| self.numbering.find_method(ty, name));
            found.ok_or_else(|| bad("the server has no cells of `int`".to_owned()))
        };
        let (get, put) = (method(counter, "get")?, method(counter, "put")?);
        let (less, add) = (method(Some(int), "lt")?, method(Some(int), "add")?);
        let columns = yields.iter().zip(&texts);
        let columns: Vec<TypeNumber> =
            columns.flat_map(|(part, text)| std::iter::once(part.ty).chain(text.map(|_| string))).collect();
        encode::rows(out, columns.into_iter());
        self.future(TypeNumber::NONE, "rows");
        let rows = self.position();
        encode::cell(out, int);
        self.future(counter.unwrap_or(TypeNumber::NONE), "cell");
        let count_cell = Ref::future(self.position());
        self.ask(put, count_cell, &[Arg::Value(Value::Int(0))], out);
        let values = self.call(iterator.column, receiver.as_deref(), name, args, op::FOREACH, out)?;
        let at = Ref::future(self.ask(get, count_cell, &[], out));
        let next = self.ask(add, at, &[Arg::Value(Value::Int(1))], out);
        self.ask(put, count_cell, &[Arg::Ref(Ref::future(next))], out);
        encode::plain(out, op::IF);
        let goes_on = self.ask(less, at, &[Arg::Value(Value::Int(limit))], out);
        encode::then(out, Ref::future(goes_on));
        let mut cells: Vec<Ref> = Vec::new();
        for (value, text) in values.iter().zip(&texts) {
            let Known::Ref(value) = value.known else { continue };
            cells.push(value);
            cells.extend(text.map(|unparse| Ref::future(self.ask(unparse, value, &[], out))));
        }
        let cells: Vec<Arg<'_>> = cells.into_iter().map(Arg::Ref).collect();
        encode::emit(out, Ref::future(rows), &cells);
        self.future(self.kind(Kind::Null), "emit");
        encode::plain(out, op::ELSE);
        encode::plain(out, op::BREAK);
        encode::plain(out, op::END_IF);
        encode::plain(out, op::END_FOREACH);
        let count = self.ask(get, count_cell, &[], out);
        let texts = texts.iter().map(Option::is_some).collect();
        self.end_batch(Asked { listing: Some(Listing { count, rows, texts }), ..Asked::default() }, out);
        Ok(Due::Reply)
    }
}
