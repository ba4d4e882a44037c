//! Objects as records.

use bifrost_heap::number;
use bifrost_ir::TypeId;
use bifrost_repository::record::{Reference, Value, Writer};
use bifrost_runtime::abi::Word;
use bifrost_runtime::content::{self, Content, Place, PlaceKind, Sink};
use bifrost_runtime::object::{self, sequence};
use bifrost_runtime::{Cx, Image, Table, UNDONE, is_undone};

use crate::error::{NotCommitted, Volatile};
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

/// A record being written.
struct Record<'r, 'e> {
    of: &'r mut Encoder<'e>,
    to: Writer<'r>,
}

impl Encoder<'_> {
    /// Appends the record of an object.
    ///
    /// # Safety
    /// `object` is an open object of the schema's image, and no code runs.
    pub unsafe fn record(&mut self, object: Word, out: &mut Vec<u8>) -> Result<(), NotCommitted> {
        // SAFETY: promised by the caller.
        unsafe {
            let info = Table::of(object).info();
            let class = self.schema.of_type(info.ty)??;
            let mut to = Writer::new(out, class.number);
            if info.content == Content::Native {
                let parts = self.cx.native_parts(object).map_err(|why| self.volatile(info.ty, why))?;
                to.count(parts.objects.len() as u64);
                for object in parts.objects {
                    to.reference(self.reference(object)?);
                }
                to.bytes(&parts.bytes);
                return Ok(());
            }
            content::write(object, &mut Record { of: self, to })
        }
    }

    unsafe fn reference<'w>(&mut self, word: Word) -> Result<Reference<'w>, NotCommitted> {
        if word == 0 {
            return Ok(Reference::Nothing);
        }
        // SAFETY: what is not 0 is a reference, and its strings and bytes never change while the
        // record is written.
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
                0 if is_undone(word) => return Err(self.volatile(ty, UNDONE.to_owned())),
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
        NotCommitted::Volatile(Volatile { class, why })
    }

    fn image(&self) -> &Image {
        self.schema.image()
    }
}

impl Sink for Record<'_, '_> {
    type Error = NotCommitted;

    fn bool(&mut self, value: bool) {
        self.to.bool(value);
    }

    fn int(&mut self, value: i64) {
        self.to.int(value);
    }

    fn count(&mut self, value: u64) {
        self.to.count(value);
    }

    unsafe fn value(&mut self, place: Place, word: Word) -> Result<(), NotCommitted> {
        let to = &mut self.to;
        // SAFETY: promised by the caller.
        unsafe {
            match place.kind {
                PlaceKind::Null => to.nil(),
                PlaceKind::Bool => to.bool(word != 0),
                PlaceKind::Int => to.int(word as i64),
                PlaceKind::Real => to.value(Value::Real(f64::from_bits(word))),
                PlaceKind::Char => {
                    to.char(char::from_u32(word as u32).unwrap_or(char::REPLACEMENT_CHARACTER))
                }
                PlaceKind::String => to.str(object::text(word)),
                PlaceKind::Bytes => to.bytes(object::byte_slice(word)),
                PlaceKind::Object => {
                    let reference = self.of.reference(word)?;
                    to.reference(reference);
                }
            }
        }
        Ok(())
    }

    /// It is written as the smallest value of its kind.
    fn nothing(&mut self, place: Place) -> Result<(), NotCommitted> {
        match place.kind {
            PlaceKind::String => self.to.str(""),
            PlaceKind::Bytes => self.to.bytes(&[]),
            // SAFETY: a word of 0 is none or the smallest value.
            _ => unsafe { self.value(place, 0)? },
        }
        Ok(())
    }
}
