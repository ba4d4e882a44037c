//! Objects as records.

use bifrost_heap::number;
use bifrost_ir::TypeId;
use bifrost_repository::Error;
use bifrost_repository::record::{FieldKind, Kind, Reference, Value, Writer};
use bifrost_runtime::abi::Word;
use bifrost_runtime::natives::MapEntries;
use bifrost_runtime::object::{self, array, cell, directory, list, sequence};
use bifrost_runtime::{Cx, Image, Table};

use crate::cache::NotCommitted;
use crate::residents::Residents;
use crate::schema::Schema;

/// Writes records; gives objects that persistent ones refer to for the first time orefs.
pub(crate) struct Encoder<'e> {
    pub cx: &'e mut Cx,
    pub schema: &'e Schema,
    pub residents: &'e mut Residents,
    /// Objects that became persistent and are not written yet.
    pub waiting: Vec<Word>,
}

impl Encoder<'_> {
    /// Appends the record of an object.
    ///
    /// # Safety
    /// `object` is an open object of the schema's image, and no code runs.
    pub unsafe fn record(&mut self, object: Word, out: &mut Vec<u8>) -> Result<(), NotCommitted> {
        // SAFETY: promised by the caller; fields are read as their class has them.
        unsafe {
            let ty = Table::of(object).info().ty;
            let class = self.schema.of_type(ty)??;
            let kind = class.kind.clone();
            let mut to = Writer::new(out, class.number);
            let get = |field| object::get(object, field);
            match &*kind {
                Kind::Object(fields) => {
                    for (at, field) in fields.iter().enumerate() {
                        self.value(field.kind, get(at), &mut to)?;
                    }
                }
                Kind::Array(element) => {
                    to.int(get(array::LOW) as i64);
                    let (count, head) = (get(array::LENGTH) as usize, get(array::HEAD) as usize);
                    to.count(count as u64);
                    for at in head..head + count {
                        self.value(*element, object::get(get(array::STORAGE), at), &mut to)?;
                    }
                }
                Kind::Vector(element) | Kind::Sequence(element) => {
                    let count = get(sequence::LENGTH) as usize;
                    to.count(count as u64);
                    for at in 0..count {
                        self.value(*element, get(sequence::ELEMENTS + at), &mut to)?;
                    }
                }
                Kind::List(element) => {
                    let empty = get(list::LENGTH) == 0;
                    self.value_or_nothing(*element, get(list::FIRST), empty, &mut to)?;
                    self.value(FieldKind::Ref, get(list::NEXT), &mut to)?;
                    to.count(get(list::LENGTH));
                }
                Kind::Cell(element) => {
                    let full = get(cell::FULL) != 0;
                    to.bool(full);
                    if full {
                        self.value(*element, get(cell::VALUE), &mut to)?;
                    }
                }
                Kind::Map(key, value) => {
                    to.count(get(object::map::LENGTH));
                    let mut entries = MapEntries::default();
                    while let Some((k, v)) = entries.next(object) {
                        self.value(*key, k, &mut to)?;
                        self.value(*value, v, &mut to)?;
                    }
                }
                Kind::Directory => {
                    let count = get(directory::LENGTH) as usize;
                    to.count(count as u64);
                    for at in 0..count {
                        let storage = get(directory::STORAGE);
                        to.str(object::text(object::get(storage, 2 * at)));
                        self.value(FieldKind::Ref, object::get(storage, 2 * at + 1), &mut to)?;
                    }
                }
                Kind::Native => {
                    let parts = self.cx.native_parts(object).map_err(|why| self.volatile(ty, why))?;
                    to.count(parts.objects.len() as u64);
                    for object in parts.objects {
                        self.value(FieldKind::Ref, object, &mut to)?;
                    }
                    to.bytes(&parts.bytes);
                }
            }
        }
        Ok(())
    }

    /// A place that has no value yet is written as the smallest one of its kind.
    unsafe fn value_or_nothing(
        &mut self,
        kind: FieldKind,
        word: Word,
        nothing: bool,
        to: &mut Writer<'_>,
    ) -> Result<(), NotCommitted> {
        match (nothing, kind) {
            (true, FieldKind::Str) => to.str(""),
            (true, FieldKind::Bytes) => to.bytes(&[]),
            // SAFETY: promised by the caller of `record`; a word of 0 is none or the smallest value.
            (true, _) => unsafe { self.value(kind, 0, to)? },
            // SAFETY: as above.
            (false, _) => unsafe { self.value(kind, word, to)? },
        }
        Ok(())
    }

    unsafe fn value(&mut self, kind: FieldKind, word: Word, to: &mut Writer<'_>) -> Result<(), NotCommitted> {
        // SAFETY: promised by the caller of `record`: the word has the type that the field has.
        unsafe {
            match kind {
                FieldKind::Nil => to.nil(),
                FieldKind::Bool => to.bool(word != 0),
                FieldKind::Int => to.int(word as i64),
                FieldKind::Real => to.value(Value::Real(f64::from_bits(word))),
                FieldKind::Char => {
                    to.char(char::from_u32(word as u32).unwrap_or(char::REPLACEMENT_CHARACTER))
                }
                FieldKind::Str => to.str(object::text(word)),
                FieldKind::Bytes => to.bytes(object::byte_slice(word)),
                FieldKind::Ref => {
                    let reference = self.reference(word)?;
                    to.reference(reference);
                }
            }
        }
        Ok(())
    }

    unsafe fn reference<'w>(&mut self, word: Word) -> Result<Reference<'w>, NotCommitted> {
        if word == 0 {
            return Ok(Reference::Nothing);
        }
        // SAFETY: what is not 0 is a reference, and its strings and bytes never change while the record is written.
        unsafe {
            let ty = Table::of(word).info().ty;
            match ty {
                bifrost_ir::Types::STRING => return Ok(Reference::Str(object::text(word))),
                bifrost_ir::Types::BYTES => return Ok(Reference::Bytes(object::byte_slice(word))),
                _ => {}
            }
            let class = self.schema.of_type(ty)??;
            let oref = match number(word) {
                0 if object::is_lasting(word) => match self.residents.lasting(word) {
                    Some(oref) => oref,
                    None => self.persist(word)?,
                },
                0 => self.persist(word)?,
                number => self.residents.oref(number),
            };
            let length = class.kind.has_length().then(|| object::get(word, sequence::LENGTH));
            Ok(Reference::Object { oref, class: class.number, length })
        }
    }

    unsafe fn persist(&mut self, word: Word) -> Result<bifrost_repository::Oref, NotCommitted> {
        let oref = self.residents.fresh(&**self.schema.repository())?;
        // SAFETY: promised by the caller of `record`.
        unsafe { self.residents.enter(oref, word)? };
        self.waiting.push(word);
        Ok(oref)
    }

    fn volatile(&self, ty: TypeId, why: String) -> NotCommitted {
        let class = self.image().program().types.name(ty).to_owned();
        NotCommitted::Volatile(crate::schema::Volatile { class, why })
    }

    fn image(&self) -> &Image {
        self.schema.image()
    }
}

impl From<Error> for NotCommitted {
    fn from(error: Error) -> NotCommitted {
        NotCommitted::Store(error)
    }
}
