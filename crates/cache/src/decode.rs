//! Records as objects.

use std::sync::Arc;

use bifrost_heap::HeapFull;
use bifrost_ir::{TypeId, Types};
use bifrost_repository::record::{FieldKind, Kind, Reader, RecordError, Reference, Value};
use bifrost_repository::{ClassNumber, Oref};
use bifrost_runtime::abi::Word;
use bifrost_runtime::native::Parts;
use bifrost_runtime::object::{self, array, cell, directory, list, map, sequence};
use bifrost_runtime::{Cx, Kept, Mode, Table, natives};
use parking_lot::Mutex;

use crate::migration::Migration;
use crate::residents::Residents;
use crate::schema::{Classes, Known, Schema};

/// Why a record cannot be an object.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unreadable {
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error(transparent)]
    Full(#[from] HeapFull),
    #[error("{0}")]
    Other(String),
}

/// What became of a record.
pub(crate) enum Filled {
    /// The object's fields.
    Whole,
    /// What the object's fields were before its class was changed, in the order of the migration's parameters.
    Before(Arc<Migration>, Vec<(Word, Option<Kept>)>),
}

/// Whether values are references.
fn is_reference(kind: FieldKind) -> bool {
    matches!(kind, FieldKind::Ref | FieldKind::Str | FieldKind::Bytes)
}

/// Fills objects from records; makes places for those that they refer to.
pub(crate) struct Decoder<'d> {
    pub schema: &'d Schema,
    pub residents: &'d Mutex<Residents>,
    pub classes: Classes,
}

impl Decoder<'_> {
    /// Fills the fields of an absent object.
    ///
    /// # Safety
    /// `object` is an absent object of the context, which something keeps.
    pub unsafe fn fill(&mut self, cx: &mut Cx, object: Word, bytes: &[u8]) -> Result<Filled, Unreadable> {
        let (mut from, number) = Reader::new(bytes)?;
        let class = self.class(number)?;
        // SAFETY: promised by the caller.
        let table = unsafe { Table::of(object) }.ordinary();
        if !std::ptr::eq(table, class.table) {
            let (said, is) = (&table.info().name, &class.table.info().name);
            return Err(Unreadable::Other(format!("what refers to a `{is}` says that it is a `{said}`")));
        }
        if let Some(migration) = &class.migration {
            let mut words = Vec::with_capacity(class.holds.len());
            if let Kind::Object(fields) = &*class.kind {
                for (field, ty) in fields.iter().zip(&class.holds) {
                    // SAFETY: as promised; what has been read is kept while the rest is.
                    let word = unsafe { self.value(cx, field.kind, *ty, &mut from)? };
                    words.push((word, is_reference(field.kind).then(|| cx.keep(word))));
                }
            }
            from.end()?;
            return Ok(Filled::Before(migration.clone(), words));
        }
        // SAFETY: promised by the caller; what is written are words of the fields' types, and the places are those of the
        // class. Objects under way are 0 where nothing is written yet, which the collector skips.
        unsafe {
            self.content(cx, object, &class, &mut from)?;
        }
        from.end()?;
        Ok(Filled::Whole)
    }

    unsafe fn content(
        &mut self,
        cx: &mut Cx,
        object: Word,
        class: &Known,
        from: &mut Reader<'_>,
    ) -> Result<(), Unreadable> {
        let holds = |at: usize| class.holds.get(at).copied().unwrap_or(Types::ANY);
        // SAFETY: promised by the caller.
        unsafe {
            match &*class.kind {
                Kind::Object(fields) => {
                    for (at, field) in fields.iter().enumerate() {
                        let word = self.value(cx, field.kind, holds(at), from)?;
                        object::set(object, at, word);
                    }
                }
                Kind::Array(element) => {
                    let low = from.int()?;
                    let count = from.elements()?;
                    object::set(object, array::LOW, low as Word);
                    object::set(object, array::HEAD, 0);
                    if count > 0 {
                        let ty = Table::of(object).info().element.unwrap_or(Types::ANY);
                        let storage = cx.image().storage_table(ty);
                        let storage = cx.alloc(storage, count)?.as_ptr() as Word;
                        object::set(object, array::STORAGE, storage);
                        for at in 0..count {
                            let word = self.value(cx, *element, holds(0), from)?;
                            object::set(storage, at, word);
                        }
                    }
                    object::set(object, array::LENGTH, count as Word);
                }
                Kind::Vector(element) | Kind::Sequence(element) => {
                    let count = from.elements()?;
                    if object::fields(object) != sequence::ELEMENTS + count {
                        return Err(Unreadable::Other("what refers to it says another length".to_owned()));
                    }
                    object::set(object, sequence::LENGTH, count as Word);
                    for at in 0..count {
                        let word = self.value(cx, *element, holds(0), from)?;
                        object::set(object, sequence::ELEMENTS + at, word);
                    }
                }
                Kind::List(element) => {
                    // The empty list has neither.
                    let first = self.value_or_nothing(cx, *element, holds(0), from)?;
                    object::set(object, list::FIRST, first);
                    let next = self.value_or_nothing(cx, FieldKind::Ref, holds(1), from)?;
                    object::set(object, list::NEXT, next);
                    let length = from.count()?;
                    if next != 0 && first == 0 && is_reference(*element) {
                        return Err(Unreadable::Other("a list lacks an element".to_owned()));
                    }
                    object::set(object, list::LENGTH, if next == 0 { 0 } else { length });
                }
                Kind::Cell(element) => {
                    let full = from.bool()?;
                    if full {
                        let value = self.value(cx, *element, holds(0), from)?;
                        object::set(object, cell::VALUE, value);
                    }
                    object::set(object, cell::FULL, Word::from(full));
                }
                Kind::Map(key, value) => {
                    let count = from.elements()?;
                    natives::prepare_map(cx, object, count)?;
                    for at in 0..count {
                        let k = self.value(cx, *key, holds(0), from)?;
                        object::set(object::get(object, map::ENTRIES), 2 * at, k);
                        let v = self.value(cx, *value, holds(1), from)?;
                        object::set(object::get(object, map::ENTRIES), 2 * at + 1, v);
                    }
                }
                Kind::Directory => {
                    let count = from.elements()?;
                    if count > 0 {
                        let storage = cx.image().storage_table(Types::ANY);
                        let storage = cx.alloc(storage, 2 * count)?.as_ptr() as Word;
                        object::set(object, directory::STORAGE, storage);
                        for at in 0..count {
                            let name = cx.new_string(from.str()?)?;
                            object::set(storage, 2 * at, name);
                            let word = self.value(cx, FieldKind::Ref, Types::ANY, from)?;
                            object::set(storage, 2 * at + 1, word);
                        }
                    }
                    object::set(object, directory::LENGTH, count as Word);
                }
                Kind::Native => {
                    let count = from.elements()?;
                    // What was decoded is kept until the value keeps it.
                    let mut objects = Vec::with_capacity(count);
                    for _ in 0..count {
                        let word = self.value(cx, FieldKind::Ref, Types::ANY, from)?;
                        objects.push(cx.keep(word));
                    }
                    let objects = objects.iter().map(Kept::word).collect();
                    let parts = Parts { bytes: from.bytes()?.to_vec(), objects };
                    cx.set_native(object, class.version, parts).map_err(Unreadable::Other)?;
                }
            }
        }
        Ok(())
    }

    /// The word of a value that has a type.
    unsafe fn value(
        &mut self,
        cx: &mut Cx,
        kind: FieldKind,
        ty: TypeId,
        from: &mut Reader<'_>,
    ) -> Result<Word, Unreadable> {
        // SAFETY: promised by the caller of `fill`.
        let word = unsafe { self.value_or_nothing(cx, kind, ty, from)? };
        if word == 0 && is_reference(kind) {
            return Err(Unreadable::Other("a reference leads nowhere".to_owned()));
        }
        Ok(word)
    }

    /// The same; a reference may be missing.
    unsafe fn value_or_nothing(
        &mut self,
        cx: &mut Cx,
        kind: FieldKind,
        ty: TypeId,
        from: &mut Reader<'_>,
    ) -> Result<Word, Unreadable> {
        let value = from.value(kind, &*self.classes)?;
        let word = match value {
            Value::Nil => 0,
            Value::Bool(b) => Word::from(b),
            Value::Int(i) => i as Word,
            Value::Real(r) => r.to_bits(),
            Value::Char(c) => Word::from(u32::from(c)),
            Value::Str(text) | Value::Ref(Reference::Str(text)) => cx.new_string(text)?,
            Value::Bytes(bytes) | Value::Ref(Reference::Bytes(bytes)) => cx.new_bytes(&[bytes])?,
            Value::Ref(Reference::Nothing) => 0,
            Value::Ref(Reference::Object { oref, class, length }) => {
                // SAFETY: promised by the caller of `fill`.
                unsafe { self.place(cx, oref, class, length)? }
            }
        };
        if word != 0 && kind == FieldKind::Ref {
            // SAFETY: the word is a reference.
            let info = unsafe { Table::of(word) }.info();
            if !info.has_type(ty) {
                let wanted = cx.image().program().types.name(ty).to_owned();
                return Err(Unreadable::Other(format!(
                    "a `{}` stands where a `{wanted}` belongs",
                    info.name
                )));
            }
        }
        Ok(word)
    }

    /// The object that stands for an oref: an absent one is made if there is none.
    ///
    /// # Safety
    /// No code runs.
    pub unsafe fn place(
        &mut self,
        cx: &mut Cx,
        oref: Oref,
        class: ClassNumber,
        length: Option<u64>,
    ) -> Result<Word, Unreadable> {
        if let Some(object) = self.residents.lock().find(oref) {
            return Ok(object);
        }
        let class = self.class(class)?;
        if let Some(lasting) = class.lasting {
            self.residents.lock().set_lasting(lasting, oref);
            return Ok(lasting);
        }
        let fields = match length {
            Some(length) => usize::try_from(length).unwrap_or(usize::MAX).saturating_add(sequence::ELEMENTS),
            None => class.fields,
        };
        let object = match class.table.shape().finalizer() {
            Some(_) => cx.alloc_finalizable(class.table, fields)?,
            None => cx.alloc(class.table, fields)?,
        };
        let object = object.as_ptr() as Word;
        // SAFETY: the object was just made; a collection in between would have had no use for it.
        unsafe {
            cx.set_mode(object, Mode::Absent);
            self.residents.lock().enter(oref, object).map_err(|e| Unreadable::Other(e.to_string()))?;
        }
        Ok(object)
    }

    fn class(&mut self, number: ClassNumber) -> Result<Arc<Known>, Unreadable> {
        self.schema.of_number(number).map_err(Unreadable::Other)
    }
}
