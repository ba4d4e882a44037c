//! Typed references to objects.
//!
//! A [`Word`] does not say to which object it refers. The types here do: each is a word whose maker
//! has promised that ([`Object::new`]), so that the functions that take them are safe. Read
//! [`Object`] first. Three rules go with all of them:
//!
//! - A reference is used only while something keeps its object: a guard, a frame, another object.
//!   Objects never move, so a reference stays the same until then.
//! - It is used on the thread that runs the object's context.
//! - A [`Word`] that is a *value* of a static type is trusted to have that type
//!   ([`Value`](crate::content::Value)).
//!
//! | type | object |
//! | --- | --- |
//! | [`Object`] | any object |
//! | [`StringRef`], [`BytesRef`] | a string, bytes |
//! | [`ArrayRef`], [`ListRef`], [`CellRef`] | one of that built-in type |
//! | [`MapRef`], [`DirectoryRef`] | the same |
//! | [`SequenceRef`] | a sequence, vector or group |
//! | [`Open`] | an object that may be looked into |
//! | [`Blank`] | an object with zeroed fields that no code has looked into |
//! | [`Unseen`] | an object that no running code has looked into |

use bifrost_heap::Reference;

use crate::abi::Word;
use crate::image::{ClassInfo, Table};
use crate::mode::Mode;
use crate::object::{self, array, cell, directory, list, map, sequence};

/// Makes a type of references.
macro_rules! reference {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(transparent)]
        pub struct $name(Reference);

        impl $name {
            /// Makes a typed reference of a word.
            ///
            /// # Safety
            /// The word is a reference to such an object, which lives as long as the result and its
            /// copies are used.
            #[inline(always)]
            pub unsafe fn new(word: Word) -> $name {
                // SAFETY: an object of this context fulfils the heap's rules.
                $name(unsafe { Reference::new(word) })
            }

            /// Makes one of a word that may be 0.
            ///
            /// # Safety
            /// As for `new`, or the word is 0.
            #[inline(always)]
            pub unsafe fn of(word: Word) -> Option<$name> {
                // SAFETY: as in `new`.
                unsafe { Reference::of(word) }.map($name)
            }

            /// The reference as a word.
            #[inline(always)]
            pub fn word(self) -> Word {
                self.0.word()
            }

            /// The reference as one to any object.
            #[inline(always)]
            pub fn object(self) -> Object {
                Object(self.0)
            }

            #[inline(always)]
            #[allow(dead_code, reason = "objects of some types are read by other functions")]
            fn get(self, field: usize) -> Word {
                // SAFETY: `new` was promised such an object, which has the field.
                unsafe { object::get(self.word(), field) }
            }

            #[inline(always)]
            #[allow(dead_code, reason = "objects of some types do not change")]
            fn set(self, field: usize, word: Word) {
                // SAFETY: as in `get`; the callers are in this file, and pass words of its type.
                unsafe { object::set(self.word(), field, word) };
            }
        }
    };
}

reference!(
    /// A reference to an object.
    Object
);
reference!(
    /// A reference to a string.
    StringRef
);
reference!(
    /// A reference to bytes.
    BytesRef
);
reference!(
    /// A reference to an array.
    ArrayRef
);
reference!(
    /// A reference to a sequence, vector or group.
    SequenceRef
);
reference!(
    /// A reference to a list.
    ListRef
);
reference!(
    /// A reference to a cell.
    CellRef
);
reference!(
    /// A reference to a map.
    MapRef
);
reference!(
    /// A reference to a directory.
    DirectoryRef
);

impl Object {
    /// The reference in the form that the heap takes.
    #[inline(always)]
    pub fn reference(self) -> Reference {
        self.0
    }

    /// The table.
    #[inline(always)]
    pub fn table(self) -> &'static Table {
        // SAFETY: every object has a table.
        unsafe { Table::of(self.word()) }
    }

    /// The facts of the object's class.
    #[inline]
    pub fn info(self) -> &'static ClassInfo {
        self.table().info()
    }

    /// The mode.
    #[inline]
    pub fn mode(self) -> Mode {
        self.table().mode()
    }

    /// The number of fields.
    #[inline]
    pub fn fields(self) -> usize {
        self.0.fields()
    }

    /// True if the object lies outside all heaps.
    #[inline]
    pub fn is_lasting(self) -> bool {
        self.0.is_lasting()
    }

    /// The number that the keeper of the object has given it; 0 for none.
    #[inline]
    pub fn number(self) -> u32 {
        self.0.number()
    }

    /// Gives the object a number ([`Reference::set_number`]).
    #[inline]
    pub fn set_number(self, number: u32) {
        self.0.set_number(number);
    }

    /// True if the object was made in a transaction of a session that was aborted: it is absent and
    /// nobody can fetch it.
    pub fn is_undone(self) -> bool {
        self.mode() == Mode::Absent && self.number() == 0
    }

    /// The object as one that may be looked into, if its mode says so.
    #[inline]
    pub fn opened(self) -> Option<Open> {
        self.mode().is_open().then_some(Open(self))
    }

    /// The fields that are references, each of them 0 or the word of an object.
    pub(crate) fn references(self) -> impl Iterator<Item = Word> {
        // SAFETY: the object has the fields that its shape names.
        let get = move |field| unsafe { object::get(self.word(), field) };
        self.table().shape().references(self.fields()).map(get)
    }

    /// Exchanges the fields of an object with those of another, which has the same table in the
    /// ordinary mode and as many.
    pub(crate) fn exchange_fields(self, other: Object) {
        debug_assert_eq!(self.fields(), other.fields(), "the fields of one class");
        for field in 0..self.fields() {
            let (word, others) = (self.get(field), other.get(field));
            other.set(field, word);
            self.set(field, others);
        }
    }

    /// Copies the fields of another object, which has the same table in the ordinary mode and as
    /// many.
    pub(crate) fn copy_fields(self, from: Object) {
        debug_assert_eq!(self.fields(), from.fields(), "the fields of one class");
        for field in 0..from.fields() {
            self.set(field, from.get(field));
        }
    }
}

/// An object that may be looked into ([`Mode::is_open`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub struct Open(Object);

impl Open {
    /// The object.
    #[inline]
    pub fn object(self) -> Object {
        self.0
    }
}

/// An object with zeroed fields that no code has looked into, and that something keeps: it is just
/// made, or absent and to be filled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub struct Blank(Object);

impl Blank {
    /// Makes a reference to a blank object.
    ///
    /// # Safety
    /// The object's fields are 0, or a source has failed to fill them, and no code has looked into
    /// it. Something keeps it.
    #[inline]
    pub unsafe fn new(object: Object) -> Blank {
        Blank(object)
    }

    /// The object.
    #[inline]
    pub fn object(self) -> Object {
        self.0
    }

    /// Copies the fields of another object.
    ///
    /// # Panics
    /// It is of another class, or has another number of fields.
    pub fn copy_fields(self, from: Open) {
        let (to, from) = (self.0, from.0);
        assert!(std::ptr::eq(to.table().ordinary(), from.table().ordinary()), "objects of one class");
        assert_eq!(to.fields(), from.fields(), "the fields of one class");
        to.copy_fields(from);
    }
}

/// An object that no running code has looked into, of a class that has modes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub struct Unseen(Object);

impl Unseen {
    /// Makes a reference to an object that no running code has looked into.
    ///
    /// # Safety
    /// No running code has looked into the object, whose class has modes.
    #[inline]
    pub unsafe fn new(object: Object) -> Unseen {
        Unseen(object)
    }

    /// The object.
    #[inline]
    pub fn object(self) -> Object {
        self.0
    }

    /// Zeroes the fields.
    pub(crate) fn clear(self) {
        for field in 0..self.0.fields() {
            self.0.set(field, 0);
        }
    }
}

impl StringRef {
    /// The text.
    #[inline]
    pub fn text(&self) -> &str {
        // SAFETY: it is a string, which never changes.
        unsafe { object::text(self.word()) }
    }
}

impl BytesRef {
    /// The bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: they are bytes, which never change.
        unsafe { object::byte_slice(self.word()) }
    }
}

impl ArrayRef {
    /// The low bound.
    #[inline]
    pub fn low(self) -> i64 {
        self.get(array::LOW) as i64
    }

    /// The elements, while nothing changes them.
    #[inline]
    pub fn elements(&self) -> &[Word] {
        let (head, length) = (self.get(array::HEAD) as usize, self.get(array::LENGTH) as usize);
        match length {
            0 => &[],
            // SAFETY: an array with elements has a storage with room for them.
            _ => unsafe { object::slice(self.get(array::STORAGE), head, length) },
        }
    }

    /// Makes a blank array one without elements, from this bound on.
    #[inline]
    pub(crate) fn begin(self, low: i64) {
        self.set(array::LOW, low as Word);
        self.set(array::HEAD, 0);
    }

    #[inline]
    pub(crate) fn set_storage(self, storage: Object) {
        self.set(array::STORAGE, storage.word());
    }

    #[inline]
    pub(crate) fn set_length(self, length: usize) {
        self.set(array::LENGTH, length as Word);
    }
}

impl SequenceRef {
    /// The elements, which are always as many.
    #[inline]
    pub fn elements(&self) -> &[Word] {
        // SAFETY: the object has its length and then that many elements.
        unsafe { object::slice(self.word(), sequence::ELEMENTS, self.get(sequence::LENGTH) as usize) }
    }

    #[inline]
    pub(crate) fn set_length(self, length: usize) {
        self.set(sequence::LENGTH, length as Word);
    }
}

impl ListRef {
    /// The first element; 0 in the empty list.
    #[inline]
    pub fn first(self) -> Word {
        self.get(list::FIRST)
    }

    /// The rest; 0 in the empty list.
    #[inline]
    pub fn next(self) -> Word {
        self.get(list::NEXT)
    }

    /// The rest as a list.
    #[inline]
    pub fn rest(self) -> Option<ListRef> {
        // SAFETY: the rest of a list is a list, or 0.
        unsafe { ListRef::of(self.next()) }
    }

    /// The number of elements.
    #[inline]
    pub fn length(self) -> u64 {
        self.get(list::LENGTH)
    }

    #[inline]
    pub(crate) fn set_first(self, first: Word) {
        self.set(list::FIRST, first);
    }

    #[inline]
    pub(crate) fn set_next(self, next: Word) {
        self.set(list::NEXT, next);
    }

    #[inline]
    pub(crate) fn set_length(self, length: u64) {
        self.set(list::LENGTH, length);
    }
}

impl CellRef {
    /// The value, if there is one.
    #[inline]
    pub fn value(self) -> Option<Word> {
        (self.get(cell::FULL) != 0).then(|| self.get(cell::VALUE))
    }

    #[inline]
    pub(crate) fn set_value(self, value: Option<Word>) {
        if let Some(value) = value {
            self.set(cell::VALUE, value);
        }
        self.set(cell::FULL, Word::from(value.is_some()));
    }
}

impl MapRef {
    /// The number of keys.
    #[inline]
    pub fn length(self) -> u64 {
        self.get(map::LENGTH)
    }

    /// The keys and values of the entries, one behind the other; none before the first key.
    #[inline]
    pub(crate) fn entries(self) -> Option<Object> {
        // SAFETY: the field is a reference or 0.
        unsafe { Object::of(self.get(map::ENTRIES)) }
    }
}

impl DirectoryRef {
    /// The number of names.
    #[inline]
    pub fn length(self) -> usize {
        self.get(directory::LENGTH) as usize
    }

    /// The names, each with its object behind it, while nothing changes them.
    #[inline]
    pub fn entries(&self) -> &[Word] {
        match self.length() {
            0 => &[],
            // SAFETY: a directory with names has a storage of two fields for each.
            length => unsafe { object::slice(self.get(directory::STORAGE), 0, 2 * length) },
        }
    }

    #[inline]
    pub(crate) fn set_storage(self, storage: Object) {
        self.set(directory::STORAGE, storage.word());
    }

    #[inline]
    pub(crate) fn set_length(self, length: usize) {
        self.set(directory::LENGTH, length as Word);
    }
}
