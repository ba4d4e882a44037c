//! The contents of objects, value by value: the one walk over kinds of objects for all code that
//! turns objects into bytes and back.
//!
//! [`write()`] passes the values of an object to a [`Sink`], in an order that [`fill`] follows with
//! those that it takes from a [`Source`]. The form of a value is theirs: the records of a store
//! (`bifrost-cache`), and the bytes that cross from one heap to another ([`crate::transfer`]).
//! Theirs too is the frame of an object: its class, its length where objects of its class differ in
//! that ([`Content::has_length`]), and the object that a reference means.
//!
//! | kind | values passed |
//! | --- | --- |
//! | class | the instance variables, in order |
//! | array | low bound, count, elements |
//! | vector, sequence, group | count, elements |
//! | list | first element, rest, length; in the empty list neither element nor rest |
//! | cell | true if it is full; then its value |
//! | map | count; keys and values in the order in which they came |
//! | directory | count; names and objects |

use bifrost_heap::HeapFull;
use bifrost_ir::{Program, TypeId, TypeKind, Types};

use crate::abi::Word;
use crate::cx::Cx;
use crate::image::{ClassInfo, Image, Table};
use crate::map_entries::{MapEntries, prepare_map};
use crate::object::{self, array, cell, directory, list, map, sequence};

/// The kind of a word, as far as its writer must know it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the types of those names")]
pub enum PlaceKind {
    Null,
    Bool,
    Int,
    Real,
    Char,
    String,
    Bytes,
    /// A reference to an object of any other type.
    Object,
}

impl PlaceKind {
    /// True if a word is one of a basic kind.
    #[inline]
    pub fn allows(self, word: Word) -> bool {
        match self {
            PlaceKind::Null => word == 0,
            PlaceKind::Bool => word <= 1,
            PlaceKind::Char => u32::try_from(word).is_ok_and(|number| char::from_u32(number).is_some()),
            _ => true,
        }
    }
}

/// A place for values of a type: an instance variable, an element, an argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// The kind of its words.
    pub kind: PlaceKind,
    /// The static type.
    pub ty: TypeId,
}

impl Place {
    const STRING: Place = Place { kind: PlaceKind::String, ty: Types::STRING };
    /// For any object.
    pub const ANY: Place = Place { kind: PlaceKind::Object, ty: Types::ANY };

    /// A place for values of a type.
    pub fn new(types: &Types, ty: TypeId) -> Place {
        let kind = match types.kind(ty) {
            TypeKind::Null => PlaceKind::Null,
            TypeKind::Bool => PlaceKind::Bool,
            TypeKind::Int => PlaceKind::Int,
            TypeKind::Real => PlaceKind::Real,
            TypeKind::Char => PlaceKind::Char,
            TypeKind::String => PlaceKind::String,
            TypeKind::Bytes => PlaceKind::Bytes,
            _ => PlaceKind::Object,
        };
        Place { kind, ty }
    }

    /// True if its words are references.
    #[inline]
    pub fn is_reference(self) -> bool {
        matches!(self.kind, PlaceKind::String | PlaceKind::Bytes | PlaceKind::Object)
    }
}

/// The contents of the objects of a class.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Content {
    /// The instance variables.
    Fields(Box<[Place]>),
    /// Elements that come and go.
    Array(Place),
    /// Elements, always as many.
    Vector(Place),
    /// Elements, always the same.
    Sequence(Place),
    /// The first element, and the rest.
    List(Place, Place),
    /// A value, or none yet.
    Cell(Place),
    /// Keys and values.
    Map(Place, Place),
    /// Names and objects.
    Directory,
    /// A value of Rust.
    Native,
    /// A string's text, bytes, or the contents of an object inside another: its owners read and
    /// write it.
    Whole,
}

impl Content {
    /// The contents of the objects of a type.
    pub(crate) fn new(program: &Program, ty: TypeId) -> Content {
        let place = |ty| Place::new(&program.types, ty);
        match program.types.kind(ty) {
            TypeKind::Class(class) if program.native_class(class).is_some() => Content::Native,
            TypeKind::Class(class) => {
                Content::Fields(program.classes[class].fields.iter().map(|field| place(field.ty)).collect())
            }
            TypeKind::Array(element) => Content::Array(place(element)),
            TypeKind::Vector(element) => Content::Vector(place(element)),
            TypeKind::Sequence(element) | TypeKind::Group(element) => Content::Sequence(place(element)),
            TypeKind::List(element) => Content::List(place(element), place(ty)),
            TypeKind::Cell(element) => Content::Cell(place(element)),
            TypeKind::Map(key, value) => Content::Map(place(key), place(value)),
            TypeKind::Directory => Content::Directory,
            _ => Content::Whole,
        }
    }

    /// True if objects differ in how many fields they have: such an object can be made only when
    /// its length is known.
    #[inline]
    pub fn has_length(&self) -> bool {
        matches!(self, Content::Vector(_) | Content::Sequence(_))
    }
}

/// The reasons for which an object cannot have the contents that were written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// Its length is not that of the reference by which it was made.
    #[error("its reference has another length")]
    Length,
    /// A list that is not empty has no first element.
    #[error("a list lacks an element")]
    Element,
    /// There must be an object.
    #[error("a reference has no object")]
    Nothing,
    /// The object is not of the type that its place has.
    #[error("expected `{wanted}`, found `{found}`")]
    Class {
        /// The class.
        found: String,
        /// The type.
        wanted: String,
    },
}

impl Unfit {
    /// Makes sure that objects of a class have a type.
    ///
    /// # Errors
    /// [`Unfit::Class`]
    #[inline]
    pub fn check(image: &Image, class: &ClassInfo, ty: TypeId) -> Result<(), Unfit> {
        #[cold]
        fn unfit(image: &Image, class: &ClassInfo, ty: TypeId) -> Unfit {
            Unfit::Class { found: class.name.clone(), wanted: image.program().types.name(ty).to_owned() }
        }
        if class.has_type(ty) { Ok(()) } else { Err(unfit(image, class, ty)) }
    }
}

/// The destination of the values of objects.
pub trait Sink {
    /// The error if a value cannot go there.
    type Error;

    /// A truth value.
    fn bool(&mut self, value: bool);

    /// An integer.
    fn int(&mut self, value: i64);

    /// A number of elements.
    fn count(&mut self, value: u64);

    /// The value of a place.
    ///
    /// # Errors
    /// As the sink says.
    ///
    /// # Safety
    /// The word has the type of the place.
    unsafe fn value(&mut self, place: Place, word: Word) -> Result<(), Self::Error>;

    /// A place that has no value.
    ///
    /// # Errors
    /// As the sink says.
    fn nothing(&mut self, place: Place) -> Result<(), Self::Error>;

    /// Values of places that are alike.
    ///
    /// # Errors
    /// As the sink says.
    ///
    /// # Safety
    /// The words have the type of the place.
    #[inline]
    unsafe fn values(&mut self, place: Place, words: &[Word]) -> Result<(), Self::Error> {
        for word in words {
            // SAFETY: promised by the caller.
            unsafe { self.value(place, *word)? };
        }
        Ok(())
    }
}

/// The origin of the values of objects.
pub trait Source {
    /// The error if there is no value.
    type Error: From<HeapFull> + From<Unfit>;

    /// A truth value.
    ///
    /// # Errors
    /// As the source says.
    fn bool(&mut self) -> Result<bool, Self::Error>;

    /// An integer.
    ///
    /// # Errors
    /// As the source says.
    fn int(&mut self) -> Result<i64, Self::Error>;

    /// The length of a list.
    ///
    /// # Errors
    /// As the source says.
    fn count(&mut self) -> Result<u64, Self::Error>;

    /// A number of elements that follow: no more than there can be, since they are given room.
    ///
    /// # Errors
    /// As the source says.
    fn elements(&mut self) -> Result<usize, Self::Error>;

    /// The value of a place, or 0 if there is none. References have been compared with the type of
    /// the place.
    ///
    /// # Errors
    /// As the source says.
    ///
    /// # Safety
    /// `cx` is the context that the source makes objects in, and no code of a program runs.
    unsafe fn value_or_nothing(&mut self, cx: &mut Cx, place: Place) -> Result<Word, Self::Error>;

    /// The value of a place.
    ///
    /// # Errors
    /// As the source says; [`Unfit::Nothing`]
    ///
    /// # Safety
    /// As for [`Source::value_or_nothing`].
    #[inline]
    unsafe fn value(&mut self, cx: &mut Cx, place: Place) -> Result<Word, Self::Error> {
        // SAFETY: promised by the caller.
        let word = unsafe { self.value_or_nothing(cx, place)? };
        if word == 0 && place.is_reference() {
            return Err(Unfit::Nothing.into());
        }
        Ok(word)
    }

    /// The values of `count` fields of an object from the field `first` on.
    ///
    /// # Errors
    /// As for [`Source::value`].
    ///
    /// # Safety
    /// As for [`Source::value_or_nothing`]; the object has the fields, of the type of the place,
    /// and something keeps it.
    #[inline]
    unsafe fn values(
        &mut self,
        cx: &mut Cx,
        place: Place,
        object: Word,
        first: usize,
        count: usize,
    ) -> Result<(), Self::Error> {
        for field in first..first + count {
            // SAFETY: promised by the caller.
            unsafe {
                let word = self.value(cx, place)?;
                object::set(object, field, word);
            }
        }
        Ok(())
    }
}

/// Passes the contents of an object to a sink. Values of Rust are not for this, nor strings and
/// bytes: of them it passes nothing.
///
/// # Errors
/// The first of the sink.
///
/// # Safety
/// `object` is an open object, and nothing changes it meanwhile.
pub unsafe fn write<S: Sink>(object: Word, to: &mut S) -> Result<(), S::Error> {
    // SAFETY: promised by the caller; fields are read as the class has them.
    unsafe {
        let get = |field| object::get(object, field);
        match &Table::of(object).info().content {
            Content::Fields(places) => {
                for (at, place) in places.iter().enumerate() {
                    to.value(*place, get(at))?;
                }
            }
            Content::Array(element) => {
                to.int(get(array::LOW) as i64);
                let (count, head) = (get(array::LENGTH) as usize, get(array::HEAD) as usize);
                to.count(count as u64);
                if count > 0 {
                    to.values(*element, object::slice(get(array::STORAGE), head, count))?;
                }
            }
            Content::Vector(element) | Content::Sequence(element) => {
                let count = get(sequence::LENGTH) as usize;
                to.count(count as u64);
                to.values(*element, object::slice(object, sequence::ELEMENTS, count))?;
            }
            Content::List(first, rest) => {
                match get(list::LENGTH) {
                    0 => {
                        to.nothing(*first)?;
                        to.nothing(*rest)?;
                    }
                    _ => {
                        to.value(*first, get(list::FIRST))?;
                        to.value(*rest, get(list::NEXT))?;
                    }
                }
                to.count(get(list::LENGTH));
            }
            Content::Cell(element) => {
                let full = get(cell::FULL) != 0;
                to.bool(full);
                if full {
                    to.value(*element, get(cell::VALUE))?;
                }
            }
            Content::Map(key, value) => {
                to.count(get(map::LENGTH));
                let mut entries = MapEntries::default();
                while let Some((k, v)) = entries.next(object) {
                    to.value(*key, k)?;
                    to.value(*value, v)?;
                }
            }
            Content::Directory => {
                let count = get(directory::LENGTH) as usize;
                to.count(count as u64);
                for at in 0..count {
                    to.value(Place::STRING, object::get(get(directory::STORAGE), 2 * at))?;
                    to.value(Place::ANY, object::get(get(directory::STORAGE), 2 * at + 1))?;
                }
            }
            Content::Native | Content::Whole => {}
        }
    }
    Ok(())
}

/// Fills an object with the values that [`write()`] passed on.
///
/// Three conditions are not tested; a caller that cannot rely on them tests them afterwards:
///
/// - A list's length is as it was written, and so may be wrong.
/// - The keys of a map may be equal.
/// - The names of a directory may be out of order.
///
/// # Errors
/// The first of the source, [`HeapFull`] or [`Unfit`]. The object is one that may be collected, but
/// not one for programs.
///
/// # Safety
/// `object` is a new object of the context, with zeroed fields, that something keeps; no code of a
/// program runs.
pub unsafe fn fill<S: Source>(cx: &mut Cx, object: Word, from: &mut S) -> Result<(), S::Error> {
    // SAFETY: promised by the caller; what is written are words of the fields' types, and the
    // places are those of the class. Fields are 0 where nothing is written yet, which the collector
    // skips.
    unsafe {
        match &Table::of(object).info().content {
            Content::Fields(places) => {
                for (at, place) in places.iter().enumerate() {
                    let word = from.value(cx, *place)?;
                    object::set(object, at, word);
                }
            }
            Content::Array(element) => {
                let low = from.int()?;
                let count = from.elements()?;
                object::set(object, array::LOW, low as Word);
                object::set(object, array::HEAD, 0);
                if count > 0 {
                    let storage = cx.image().storage_table(element.ty);
                    let storage = cx.alloc(storage, count)?.as_ptr() as Word;
                    object::set(object, array::STORAGE, storage);
                    from.values(cx, *element, storage, 0, count)?;
                }
                object::set(object, array::LENGTH, count as Word);
            }
            Content::Vector(element) | Content::Sequence(element) => {
                let count = from.elements()?;
                if object::fields(object) != sequence::ELEMENTS + count {
                    return Err(Unfit::Length.into());
                }
                object::set(object, sequence::LENGTH, count as Word);
                from.values(cx, *element, object, sequence::ELEMENTS, count)?;
            }
            Content::List(first, rest) => {
                // The empty list has neither.
                let word = from.value_or_nothing(cx, *first)?;
                object::set(object, list::FIRST, word);
                let next = from.value_or_nothing(cx, *rest)?;
                object::set(object, list::NEXT, next);
                let length = from.count()?;
                if next != 0 && word == 0 && first.is_reference() {
                    return Err(Unfit::Element.into());
                }
                object::set(object, list::LENGTH, if next == 0 { 0 } else { length });
            }
            Content::Cell(element) => {
                let full = from.bool()?;
                if full {
                    let value = from.value(cx, *element)?;
                    object::set(object, cell::VALUE, value);
                }
                object::set(object, cell::FULL, Word::from(full));
            }
            Content::Map(key, value) => {
                let count = from.elements()?;
                prepare_map(cx, object, count)?;
                for at in 0..count {
                    let k = from.value(cx, *key)?;
                    object::set(object::get(object, map::ENTRIES), 2 * at, k);
                    let v = from.value(cx, *value)?;
                    object::set(object::get(object, map::ENTRIES), 2 * at + 1, v);
                }
            }
            Content::Directory => {
                let count = from.elements()?;
                if count > 0 {
                    let storage = cx.image().storage_table(Types::ANY);
                    let storage = cx.alloc(storage, 2 * count)?.as_ptr() as Word;
                    object::set(object, directory::STORAGE, storage);
                    for at in 0..count {
                        let name = from.value(cx, Place::STRING)?;
                        object::set(storage, 2 * at, name);
                        let word = from.value(cx, Place::ANY)?;
                        object::set(storage, 2 * at + 1, word);
                    }
                }
                object::set(object, directory::LENGTH, count as Word);
            }
            Content::Native | Content::Whole => {}
        }
    }
    Ok(())
}
