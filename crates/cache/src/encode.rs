//! Objects as records.

use bifrost_ir::{TypeId, Types};
use bifrost_repository::Oref;
use bifrost_repository::record::{Reference, Value, Writer};
use bifrost_runtime::content::{self, Content, Meaning, Place, PlaceKind, Sink, Value as Held};
use bifrost_runtime::object::sequence;
use bifrost_runtime::reference::{BytesRef, Open, StringRef};
use bifrost_runtime::{Cx, Image, Object, UNDONE};

use crate::error::{NotCommitted, Volatile};
use crate::residents::Residents;
use crate::schema::Schema;

/// Writes records; gives objects that persistent ones refer to for the first time orefs.
pub(crate) struct Encoder<'e> {
    pub cx: &'e mut Cx,
    pub schema: &'e Schema,
    pub residents: &'e mut Residents,
    /// Objects that became persistent and are not written yet.
    pub waiting: Vec<Object>,
}

/// A record being written.
struct Record<'r, 'e> {
    of: &'r mut Encoder<'e>,
    to: Writer<'r>,
}

impl Encoder<'_> {
    /// Appends the record of an object of the schema's image.
    pub fn record(&mut self, object: Open, out: &mut Vec<u8>) -> Result<(), NotCommitted> {
        let info = object.object().info();
        let class = self.schema.of_type(info.ty)??;
        let mut to = Writer::new(out, class.number);
        if info.content != Content::Native {
            return content::write(object, &mut Record { of: self, to });
        }
        let parts = self.cx.native_parts(object.object()).map_err(|why| self.volatile(info.ty, why))?;
        to.count(parts.objects.len() as u64);
        for object in parts.objects {
            self.refer(Some(object), &mut to)?;
        }
        to.bytes(&parts.bytes);
        Ok(())
    }

    /// Writes a reference; gives its object an oref if it has none.
    fn refer(&mut self, object: Option<Object>, to: &mut Writer<'_>) -> Result<(), NotCommitted> {
        let Some(object) = object else {
            to.reference(Reference::Nothing);
            return Ok(());
        };
        match object.info().ty {
            Types::STRING => {
                // SAFETY: an object of this type is a string.
                let string = unsafe { StringRef::new(object.word()) };
                to.reference(Reference::Str(string.text()));
            }
            Types::BYTES => {
                // SAFETY: objects of this type are bytes.
                let bytes = unsafe { BytesRef::new(object.word()) };
                to.reference(Reference::Bytes(bytes.bytes()));
            }
            ty => {
                let reference = self.reference(object, ty)?;
                to.reference(reference);
            }
        }
        Ok(())
    }

    fn reference(&mut self, object: Object, ty: TypeId) -> Result<Reference<'static>, NotCommitted> {
        let class = self.schema.of_type(ty)??;
        let oref = match object.number() {
            0 if object.is_lasting() => match self.residents.lasting(object) {
                Some(oref) => oref,
                None => self.persist(object)?,
            },
            0 if object.is_undone() => return Err(self.volatile(ty, UNDONE.to_owned())),
            0 => self.persist(object)?,
            number => self.residents.oref(number),
        };
        let length = class.kind.has_length().then(|| (object.fields() - sequence::ELEMENTS) as u64);
        Ok(Reference::Object { oref, class: class.number, length })
    }

    fn persist(&mut self, object: Object) -> Result<Oref, NotCommitted> {
        let oref = self.residents.fresh(&**self.schema.repository())?;
        self.residents.enter(oref, object)?;
        self.waiting.push(object);
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

// SAFETY: it makes no objects, and runs no code of the program.
unsafe impl Sink for Record<'_, '_> {
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

    fn value(&mut self, value: Held) -> Result<(), NotCommitted> {
        let to = &mut self.to;
        match value.meaning() {
            Meaning::Null => to.nil(),
            Meaning::Bool(value) => to.bool(value),
            Meaning::Int(value) => to.int(value),
            Meaning::Real(value) => to.value(Value::Real(value)),
            Meaning::Char(value) => to.char(value),
            Meaning::String(string) => to.str(string.text()),
            Meaning::Bytes(bytes) => to.bytes(bytes.bytes()),
            Meaning::Object(object) => self.of.refer(object, to)?,
        }
        Ok(())
    }

    /// It is written as the smallest value of its kind.
    fn nothing(&mut self, place: Place) -> Result<(), NotCommitted> {
        match place.kind {
            PlaceKind::String => self.to.str(""),
            PlaceKind::Bytes => self.to.bytes(&[]),
            // SAFETY: a word of 0 is none or the smallest value.
            _ => self.value(unsafe { Held::new(place, 0) })?,
        }
        Ok(())
    }
}
