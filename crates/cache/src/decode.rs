//! Records as objects.

use std::sync::Arc;

use bifrost_repository::record::{Reader, Reference, Value};
use bifrost_repository::{ClassNumber, Oref};
use bifrost_runtime::abi::Word;
use bifrost_runtime::content::{self, Content, Place, PlaceKind, Source, Unfit};
use bifrost_runtime::native::Parts;
use bifrost_runtime::object::sequence;
use bifrost_runtime::reference::Blank;
use bifrost_runtime::{Cx, Kept, Object};
use parking_lot::Mutex;

use crate::error::Unreadable;
use crate::migration::Migration;
use crate::residents::Residents;
use crate::schema::{Classes, Known, Schema, field_kind};

/// The result of decoding a record.
pub(crate) enum Filled {
    /// The object's fields.
    Whole,
    /// The object's fields before its class was changed, in the order of the migration's
    /// parameters.
    Before(Arc<Migration>, Vec<(Word, Option<Kept>)>),
}

/// Fills objects from records; makes places for those that they refer to.
pub(crate) struct Decoder<'d> {
    pub schema: &'d Schema,
    pub residents: &'d Mutex<Residents>,
    pub classes: Classes,
}

/// A record being read.
struct Record<'r, 'd, 'b> {
    of: &'r mut Decoder<'d>,
    from: Reader<'b>,
}

impl Decoder<'_> {
    /// Fills the fields of an absent object.
    pub fn fill(&mut self, cx: &mut Cx, object: Blank, bytes: &[u8]) -> Result<Filled, Unreadable> {
        let (from, number) = Reader::new(bytes)?;
        let class = self.class(number)?;
        let table = object.object().table().ordinary();
        if !std::ptr::eq(table, class.table) {
            let (said, is) = (&table.info().name, &class.table.info().name);
            return Err(Unreadable::Other(format!("a reference to a `{is}` has the class `{said}`")));
        }
        if table.info().content == Content::Native {
            self.native(cx, object, class.version, from)?;
            return Ok(Filled::Whole);
        }
        let mut from = Record { of: self, from };
        if let Some(migration) = &class.migration {
            let mut words = Vec::with_capacity(class.held.len());
            for place in &class.held {
                // The words that have been read are kept while the rest is.
                let word = from.value(cx, *place)?;
                words.push((word, place.is_reference().then(|| cx.keep(word))));
            }
            from.from.end()?;
            return Ok(Filled::Before(migration.clone(), words));
        }
        content::fill(cx, object, &mut from)?;
        from.from.end()?;
        Ok(Filled::Whole)
    }

    /// Puts the native value behind an object.
    fn native(
        &mut self,
        cx: &mut Cx,
        object: Blank,
        version: u32,
        from: Reader<'_>,
    ) -> Result<(), Unreadable> {
        let mut from = Record { of: self, from };
        let count = from.elements()?;
        // Decoded objects are kept until the value keeps them.
        let mut kept = Vec::with_capacity(count);
        for _ in 0..count {
            let word = from.value(cx, Place::ANY)?;
            kept.push(cx.keep(word));
        }
        // SAFETY: a value of this place is a reference.
        let objects = kept.iter().map(|kept| unsafe { Object::new(kept.word()) }).collect();
        let parts = Parts { bytes: from.from.bytes()?.to_vec(), objects };
        cx.set_native(object, version, parts).map_err(Unreadable::Other)?;
        Ok(from.from.end()?)
    }

    /// Returns the object that stands for an oref: an absent one is made if there is none.
    pub fn place(
        &mut self,
        cx: &mut Cx,
        oref: Oref,
        class: ClassNumber,
        length: Option<u64>,
    ) -> Result<Object, Unreadable> {
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
        let entered = self.residents.lock().enter_absent(cx, oref, object.as_ptr() as Word);
        entered.map_err(|e| Unreadable::Other(e.to_string()))
    }

    fn class(&mut self, number: ClassNumber) -> Result<Arc<Known>, Unreadable> {
        self.schema.of_number(number).map_err(Unreadable::Other)
    }
}

// SAFETY: references are compared with the place, and lead to objects of the context whose
// residents these are; no code runs.
unsafe impl Source for Record<'_, '_, '_> {
    type Error = Unreadable;

    fn bool(&mut self) -> Result<bool, Unreadable> {
        Ok(self.from.bool()?)
    }

    fn int(&mut self) -> Result<i64, Unreadable> {
        Ok(self.from.int()?)
    }

    fn count(&mut self) -> Result<u64, Unreadable> {
        Ok(self.from.count()?)
    }

    fn elements(&mut self) -> Result<usize, Unreadable> {
        Ok(self.from.elements()?)
    }

    fn value_or_nothing(&mut self, cx: &mut Cx, place: Place) -> Result<Word, Unreadable> {
        let kind = field_kind(place.kind);
        let value = self.from.value(kind, &*self.of.classes)?;
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
                self.of.place(cx, oref, class, length)?.word()
            }
        };
        if word != 0 && place.kind == PlaceKind::Object {
            // SAFETY: the word is a reference.
            Unfit::check(cx.image(), unsafe { Object::new(word) }.info(), place.ty)?;
        }
        Ok(word)
    }
}
