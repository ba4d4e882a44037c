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
use crate::object::{self, sequence};
use crate::reference::{
    ArrayRef, Blank, BytesRef, CellRef, DirectoryRef, ListRef, MapRef, Object, Open, SequenceRef, StringRef,
};

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

/// A word that has the type of its place.
#[derive(Clone, Copy, Debug)]
pub struct Value {
    place: Place,
    word: Word,
}

/// The meaning of a [`Value`].
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the types of those names")]
pub enum Meaning {
    Null,
    Bool(bool),
    Int(i64),
    Real(f64),
    Char(char),
    String(StringRef),
    Bytes(BytesRef),
    /// An object of any other type; none in the empty list.
    Object(Option<Object>),
}

impl Value {
    /// Makes a value of a word.
    ///
    /// # Safety
    /// The word has the type of the place. A reference may be 0 in the empty list only, where the
    /// value is not asked for its meaning. The object lives as long as the value is used.
    #[inline(always)]
    pub unsafe fn new(place: Place, word: Word) -> Value {
        Value { place, word }
    }

    /// The place.
    #[inline(always)]
    pub fn place(self) -> Place {
        self.place
    }

    /// The word.
    #[inline(always)]
    pub fn word(self) -> Word {
        self.word
    }

    /// The object, if it is a reference and not 0.
    #[inline(always)]
    pub fn object(self) -> Option<Object> {
        // SAFETY: the word has the type of the place, and so is a reference or 0.
        if self.place.is_reference() { unsafe { Object::of(self.word) } } else { None }
    }

    /// The meaning of the word.
    #[inline]
    pub fn meaning(self) -> Meaning {
        match self.place.kind {
            PlaceKind::Null => Meaning::Null,
            PlaceKind::Bool => Meaning::Bool(self.word != 0),
            PlaceKind::Int => Meaning::Int(self.word as i64),
            PlaceKind::Real => Meaning::Real(f64::from_bits(self.word)),
            PlaceKind::Char => {
                Meaning::Char(char::from_u32(self.word as u32).unwrap_or(char::REPLACEMENT_CHARACTER))
            }
            // SAFETY: the word has the type of the place.
            PlaceKind::String => Meaning::String(unsafe { StringRef::new(self.word) }),
            // SAFETY: as above.
            PlaceKind::Bytes => Meaning::Bytes(unsafe { BytesRef::new(self.word) }),
            PlaceKind::Object => Meaning::Object(self.object()),
        }
    }
}

/// Words with a place each.
#[derive(Clone, Copy, Debug)]
pub struct Values<'v> {
    words: &'v [Word],
    places: &'v [Place],
}

impl<'v> Values<'v> {
    /// Makes values of words.
    ///
    /// # Safety
    /// There are as many words as places, and each has the type of its place.
    #[inline]
    pub unsafe fn new(words: &'v [Word], places: &'v [Place]) -> Values<'v> {
        debug_assert_eq!(words.len(), places.len(), "a word for each place");
        Values { words, places }
    }

    /// The values, in order.
    #[inline]
    pub fn iter(self) -> impl Iterator<Item = Value> + 'v {
        self.words.iter().zip(self.places).map(|(word, place)| Value { place: *place, word: *word })
    }
}

/// Words that all have the type of one place.
#[derive(Clone, Copy, Debug)]
pub struct Alike<'v> {
    /// The place.
    pub place: Place,
    words: &'v [Word],
}

impl<'v> Alike<'v> {
    /// Makes values of words.
    ///
    /// # Safety
    /// Each word has the type of the place.
    #[inline]
    unsafe fn new(place: Place, words: &'v [Word]) -> Alike<'v> {
        Alike { place, words }
    }

    /// The words.
    #[inline]
    pub fn words(self) -> &'v [Word] {
        self.words
    }

    /// The values, in order.
    #[inline]
    pub fn iter(self) -> impl Iterator<Item = Value> + 'v {
        self.words.iter().map(move |word| Value { place: self.place, word: *word })
    }
}

/// Fields of an object to be filled with values of one place.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// The place.
    pub place: Place,
    /// The number of fields.
    pub count: usize,
    object: Object,
    first: usize,
}

impl Room {
    /// Makes room of `count` fields from `first` on.
    ///
    /// # Safety
    /// The object has the fields, of the type of the place, and something keeps it.
    #[inline]
    unsafe fn new(place: Place, object: Object, first: usize, count: usize) -> Room {
        Room { place, count, object, first }
    }

    /// Sets a field.
    ///
    /// # Safety
    /// `at` is less than `count`, and the word has the type of the place.
    #[inline]
    pub(crate) unsafe fn set(self, at: usize, word: Word) {
        debug_assert!(at < self.count, "a field of the room");
        // SAFETY: the object has the field, of that type.
        unsafe { object::set(self.object.word(), self.first + at, word) };
    }

    /// Fills the fields one after the other.
    ///
    /// # Errors
    /// As for [`Source::value`].
    #[inline]
    pub(crate) fn fill<S: Source + ?Sized>(self, cx: &mut Cx, from: &mut S) -> Result<(), S::Error> {
        for at in 0..self.count {
            let word = from.value(cx, self.place)?;
            // SAFETY: sources give words of the place's type.
            unsafe { self.set(at, word) };
        }
        Ok(())
    }
}

/// The destination of the values of objects.
///
/// # Safety
/// While a value is passed on, the implementation runs no code of a program, and changes no object.
pub unsafe trait Sink {
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
    fn value(&mut self, value: Value) -> Result<(), Self::Error>;

    /// A place that has no value.
    ///
    /// # Errors
    /// As the sink says.
    fn nothing(&mut self, place: Place) -> Result<(), Self::Error>;

    /// Values of places that are alike.
    ///
    /// # Errors
    /// As the sink says.
    #[inline]
    fn values(&mut self, values: Alike<'_>) -> Result<(), Self::Error> {
        values.iter().try_for_each(|value| self.value(value))
    }
}

/// The origin of the values of objects.
///
/// # Safety
/// The words have the types of the places: references are compared with them, and lead to objects
/// of the context that is passed. No code of a program runs.
pub unsafe trait Source {
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
    fn value_or_nothing(&mut self, cx: &mut Cx, place: Place) -> Result<Word, Self::Error>;

    /// The value of a place.
    ///
    /// # Errors
    /// As the source says; [`Unfit::Nothing`]
    #[inline]
    fn value(&mut self, cx: &mut Cx, place: Place) -> Result<Word, Self::Error> {
        let word = self.value_or_nothing(cx, place)?;
        if word == 0 && place.is_reference() {
            return Err(Unfit::Nothing.into());
        }
        Ok(word)
    }

    /// The values of fields that are alike.
    ///
    /// # Errors
    /// As for [`Source::value`].
    #[inline]
    fn values(&mut self, cx: &mut Cx, room: Room) -> Result<(), Self::Error> {
        room.fill(cx, self)
    }
}

/// Passes the contents of an object to a sink. Values of Rust are not for this, nor strings and
/// bytes: of them it passes nothing.
///
/// # Errors
/// The first of the sink.
pub fn write<S: Sink>(object: Open, to: &mut S) -> Result<(), S::Error> {
    let object = object.object();
    let word = object.word();
    // SAFETY: in each arm the content says the kind of the class's objects.
    unsafe {
        match &object.info().content {
            Content::Fields(places) => write_fields(object, places, to),
            Content::Array(element) => write_array(ArrayRef::new(word), *element, to),
            Content::Vector(element) | Content::Sequence(element) => {
                write_sequence(SequenceRef::new(word), *element, to)
            }
            Content::List(first, rest) => write_list(ListRef::new(word), *first, *rest, to),
            Content::Cell(element) => write_cell(CellRef::new(word), *element, to),
            Content::Map(key, value) => write_map(MapRef::new(word), *key, *value, to),
            Content::Directory => write_directory(DirectoryRef::new(word), to),
            Content::Native | Content::Whole => Ok(()),
        }
    }
}

#[inline]
fn write_fields<S: Sink>(object: Object, places: &[Place], to: &mut S) -> Result<(), S::Error> {
    for (at, place) in places.iter().enumerate() {
        // SAFETY: the places are those of the class, whose objects have the fields.
        to.value(unsafe { Value::new(*place, object::get(object.word(), at)) })?;
    }
    Ok(())
}

#[inline]
fn write_array<S: Sink>(array: ArrayRef, element: Place, to: &mut S) -> Result<(), S::Error> {
    let elements = array.elements();
    to.int(array.low());
    to.count(elements.len() as u64);
    if elements.is_empty() {
        return Ok(());
    }
    // SAFETY: elements have the type of the element's place.
    to.values(unsafe { Alike::new(element, elements) })
}

#[inline]
fn write_sequence<S: Sink>(sequence: SequenceRef, element: Place, to: &mut S) -> Result<(), S::Error> {
    let elements = sequence.elements();
    to.count(elements.len() as u64);
    // SAFETY: elements have the type of the element's place.
    to.values(unsafe { Alike::new(element, elements) })
}

#[inline]
fn write_list<S: Sink>(list: ListRef, first: Place, rest: Place, to: &mut S) -> Result<(), S::Error> {
    match list.length() {
        0 => {
            to.nothing(first)?;
            to.nothing(rest)?;
        }
        _ => {
            // SAFETY: a list that is not empty has an element of that type, and a list behind it.
            let (element, next) = unsafe { (Value::new(first, list.first()), Value::new(rest, list.next())) };
            to.value(element)?;
            to.value(next)?;
        }
    }
    to.count(list.length());
    Ok(())
}

#[inline]
fn write_cell<S: Sink>(cell: CellRef, element: Place, to: &mut S) -> Result<(), S::Error> {
    let value = cell.value();
    to.bool(value.is_some());
    match value {
        // SAFETY: the value of a cell has the type of its place.
        Some(word) => to.value(unsafe { Value::new(element, word) }),
        None => Ok(()),
    }
}

#[inline]
fn write_map<S: Sink>(map: MapRef, key: Place, value: Place, to: &mut S) -> Result<(), S::Error> {
    to.count(map.length());
    let mut entries = MapEntries::default();
    while let Some((k, v)) = entries.next(map.word()) {
        // SAFETY: the entries have the types of the map's places.
        let (k, v) = unsafe { (Value::new(key, k), Value::new(value, v)) };
        to.value(k)?;
        to.value(v)?;
    }
    Ok(())
}

#[inline]
fn write_directory<S: Sink>(directory: DirectoryRef, to: &mut S) -> Result<(), S::Error> {
    to.count(directory.length() as u64);
    let (entries, _) = directory.entries().as_chunks();
    for [name, object] in entries {
        // SAFETY: each entry is a string and an object.
        let (name, object) = unsafe { (Value::new(Place::STRING, *name), Value::new(Place::ANY, *object)) };
        to.value(name)?;
        to.value(object)?;
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
/// Fields are 0 where nothing is written yet, which the collector skips.
///
/// # Errors
/// The first of the source, [`HeapFull`] or [`Unfit`]. The object is one that may be collected, but
/// not one for programs.
pub fn fill<S: Source>(cx: &mut Cx, object: Blank, from: &mut S) -> Result<(), S::Error> {
    let object = object.object();
    let word = object.word();
    // SAFETY: in each arm the content says the kind of the class's objects.
    unsafe {
        match &object.info().content {
            Content::Fields(places) => fill_fields(cx, object, places, from),
            Content::Array(element) => fill_array(cx, ArrayRef::new(word), *element, from),
            Content::Vector(element) | Content::Sequence(element) => {
                fill_sequence(cx, SequenceRef::new(word), *element, from)
            }
            Content::List(first, rest) => fill_list(cx, ListRef::new(word), *first, *rest, from),
            Content::Cell(element) => fill_cell(cx, CellRef::new(word), *element, from),
            Content::Map(key, value) => fill_map(cx, MapRef::new(word), *key, *value, from),
            Content::Directory => fill_directory(cx, DirectoryRef::new(word), from),
            Content::Native | Content::Whole => Ok(()),
        }
    }
}

#[inline]
fn fill_fields<S: Source>(
    cx: &mut Cx,
    object: Object,
    places: &[Place],
    from: &mut S,
) -> Result<(), S::Error> {
    for (at, place) in places.iter().enumerate() {
        let word = from.value(cx, *place)?;
        // SAFETY: the places are those of the class, whose objects have the fields; sources give
        // words of the place's type.
        unsafe { object::set(object.word(), at, word) };
    }
    Ok(())
}

/// Makes an object with so many zeroed fields.
#[inline]
fn new_storage(cx: &mut Cx, table: &'static Table, fields: usize) -> Result<Object, HeapFull> {
    let made = cx.alloc(table, fields)?.as_ptr() as Word;
    // SAFETY: the object was just made.
    Ok(unsafe { Object::new(made) })
}

#[inline]
fn fill_array<S: Source>(cx: &mut Cx, array: ArrayRef, element: Place, from: &mut S) -> Result<(), S::Error> {
    let low = from.int()?;
    let count = from.elements()?;
    array.begin(low);
    if count > 0 {
        let storage = new_storage(cx, cx.image().storage_table(element.ty), count)?;
        array.set_storage(storage);
        // SAFETY: the storage was just made with so many fields, and the array keeps it.
        from.values(cx, unsafe { Room::new(element, storage, 0, count) })?;
    }
    array.set_length(count);
    Ok(())
}

#[inline]
fn fill_sequence<S: Source>(
    cx: &mut Cx,
    sequence: SequenceRef,
    element: Place,
    from: &mut S,
) -> Result<(), S::Error> {
    let count = from.elements()?;
    if sequence.object().fields() != sequence::ELEMENTS + count {
        return Err(Unfit::Length.into());
    }
    sequence.set_length(count);
    // SAFETY: the fields were just counted, and the caller of `fill` keeps the object.
    from.values(cx, unsafe { Room::new(element, sequence.object(), sequence::ELEMENTS, count) })
}

#[inline]
fn fill_list<S: Source>(
    cx: &mut Cx,
    list: ListRef,
    first: Place,
    rest: Place,
    from: &mut S,
) -> Result<(), S::Error> {
    // The empty list has neither.
    let word = from.value_or_nothing(cx, first)?;
    list.set_first(word);
    let next = from.value_or_nothing(cx, rest)?;
    list.set_next(next);
    let length = from.count()?;
    if next != 0 && word == 0 && first.is_reference() {
        return Err(Unfit::Element.into());
    }
    list.set_length(if next == 0 { 0 } else { length });
    Ok(())
}

#[inline]
fn fill_cell<S: Source>(cx: &mut Cx, cell: CellRef, element: Place, from: &mut S) -> Result<(), S::Error> {
    let value = match from.bool()? {
        true => Some(from.value(cx, element)?),
        false => None,
    };
    cell.set_value(value);
    Ok(())
}

#[inline]
fn fill_map<S: Source>(
    cx: &mut Cx,
    map: MapRef,
    key: Place,
    value: Place,
    from: &mut S,
) -> Result<(), S::Error> {
    let count = from.elements()?;
    prepare_map(cx, map.word(), count)?;
    let Some(entries) = map.entries() else { return Ok(()) };
    for at in 0..count {
        let k = from.value(cx, key)?;
        // SAFETY: there is room for so many entries, whose types are those of the map's places.
        unsafe { object::set(entries.word(), 2 * at, k) };
        let v = from.value(cx, value)?;
        // SAFETY: as above.
        unsafe { object::set(entries.word(), 2 * at + 1, v) };
    }
    Ok(())
}

#[inline]
fn fill_directory<S: Source>(cx: &mut Cx, directory: DirectoryRef, from: &mut S) -> Result<(), S::Error> {
    let count = from.elements()?;
    if count > 0 {
        let storage = new_storage(cx, cx.image().storage_table(Types::ANY), 2 * count)?;
        directory.set_storage(storage);
        for at in 0..count {
            let name = from.value(cx, Place::STRING)?;
            // SAFETY: the storage was just made with two fields for each name.
            unsafe { object::set(storage.word(), 2 * at, name) };
            let word = from.value(cx, Place::ANY)?;
            // SAFETY: as above.
            unsafe { object::set(storage.word(), 2 * at + 1, word) };
        }
    }
    directory.set_length(count);
    Ok(())
}
