//! The layouts of built-in objects, and the functions by which Rust code makes and reads them.
//!
//! Field numbers count from the first word after the header. Compiled code uses the same numbers.
//! The reading functions are `unsafe` because a word does not say to which object it refers: their
//! callers know it from the static type that the verifier or the session's check has established.

use bifrost_heap::{HeapFull, OBJECT_WORDS};
use bifrost_ir::{Program, TypeId, TypeKind};

use crate::abi::Word;
use crate::cx::Cx;
use crate::image::Table;

/// Fields of a string: its length in bytes, in characters, and then its UTF-8 bytes.
pub mod string {
    /// Bytes.
    pub const BYTES: usize = 0;
    /// Characters.
    pub const CHARS: usize = 1;
    /// The first word of the text.
    pub const TEXT: usize = 2;
}

/// Fields of an array. Elements are at `storage[HEAD + i - LOW]`.
pub mod array {
    /// The low bound.
    pub const LOW: usize = 0;
    /// The number of elements.
    pub const LENGTH: usize = 1;
    /// The position of the first element in the storage.
    pub const HEAD: usize = 2;
    /// The storage, whose fields are the elements; 0 before the first.
    pub const STORAGE: usize = 3;
    /// The number of fields that an array has.
    pub const FIELDS: usize = 4;
}

/// Fields of a sequence: its length, and then the elements.
pub mod sequence {
    /// The number of elements.
    pub const LENGTH: usize = 0;
    /// The first element.
    pub const ELEMENTS: usize = 1;
}

/// Fields of a vector: its length, and then the elements.
pub mod vector {
    /// The number of elements.
    pub const LENGTH: usize = 0;
    /// The first element.
    pub const ELEMENTS: usize = 1;
}

/// Fields of bytes: how many, and then the bytes themselves.
pub mod bytes {
    /// The number of bytes.
    pub const LENGTH: usize = 0;
    /// The first word of the bytes.
    pub const BYTES: usize = 1;
}

/// Fields of a list.
pub mod list {
    /// The first element; unused in the empty list.
    pub const FIRST: usize = 0;
    /// The rest; 0 in the empty list.
    pub const NEXT: usize = 1;
    /// The number of elements.
    pub const LENGTH: usize = 2;
    /// The number of fields that a list has.
    pub const FIELDS: usize = 3;
}

/// Fields of a cell.
pub mod cell {
    /// 1 after the first put.
    pub const FULL: usize = 0;
    /// The value.
    pub const VALUE: usize = 1;
    /// The number of fields that a cell has.
    pub const FIELDS: usize = 2;
}

/// Fields of a directory. Names are in order; behind each is its object.
pub mod directory {
    /// The number of names.
    pub const LENGTH: usize = 0;
    /// The storage, two fields for each name; 0 before the first.
    pub const STORAGE: usize = 1;
    /// The number of fields that a directory has.
    pub const FIELDS: usize = 2;
}

/// Fields of a map. `natives::map` says how they work together.
pub mod map {
    /// The number of keys.
    pub const LENGTH: usize = 0;
    /// The number of entries, those of removed keys included.
    pub const USED: usize = 1;
    /// The number of the next new key.
    pub const NEXT_STAMP: usize = 2;
    /// The number of times that the entries got other places.
    pub const EPOCH: usize = 3;
    /// Data: numbers of entries, found by hash; 0 before the first key.
    pub const INDEX: usize = 4;
    /// Data: two words for each entry.
    pub const META: usize = 5;
    /// The key and the value of each entry.
    pub const ENTRIES: usize = 6;
    /// The number of fields that a map has.
    pub const FIELDS: usize = 7;
}

/// The fields of built-in objects that are objects inside them: parts that nothing else refers to.
pub fn inner(kind: TypeKind) -> &'static [usize] {
    match kind {
        TypeKind::Array(_) => &[array::STORAGE],
        TypeKind::Map(..) => &[map::INDEX, map::META, map::ENTRIES],
        TypeKind::Directory => &[directory::STORAGE],
        _ => &[],
    }
}

/// The number of fields that objects of a type have; 0 if they differ in that.
pub fn field_count(program: &Program, ty: TypeId) -> usize {
    match program.types.kind(ty) {
        TypeKind::Class(class) if program.native_class(class).is_some() => crate::native::FIELDS,
        TypeKind::Class(class) => {
            let own = program.classes[class].fields.len();
            own + usize::from(program.classes[class].actor.is_some())
        }
        TypeKind::Array(_) => array::FIELDS,
        TypeKind::List(_) => list::FIELDS,
        TypeKind::Cell(_) => cell::FIELDS,
        TypeKind::Map(..) => map::FIELDS,
        TypeKind::Directory => directory::FIELDS,
        _ => 0,
    }
}

/// A field of an object.
///
/// # Safety
/// `object` is a reference to an object with more than `field` fields.
#[inline]
pub unsafe fn get(object: Word, field: usize) -> Word {
    // SAFETY: promised by the caller.
    unsafe { *(object as *const Word).add(OBJECT_WORDS + field) }
}

/// Changes a field of an object.
///
/// # Safety
/// `object` is a reference to an object with more than `field` fields, and `value` has the field's
/// type.
#[inline]
pub unsafe fn set(object: Word, field: usize, value: Word) {
    // SAFETY: promised by the caller.
    unsafe { *(object as *mut Word).add(OBJECT_WORDS + field) = value }
}

/// The number of fields that an object has.
///
/// # Safety
/// `object` is a reference.
#[inline]
pub unsafe fn fields(object: Word) -> usize {
    // SAFETY: every object has a header.
    let header = unsafe { *(object as *const Word).add(1) };
    (header & bifrost_heap::SIZE_MASK) as usize - OBJECT_WORDS
}

/// The fields from `from` on, `count` of them.
///
/// # Safety
/// `object` is a reference to an object with at least `from + count` fields, which do not change
/// while the slice lives.
#[inline]
pub unsafe fn slice<'a>(object: Word, from: usize, count: usize) -> &'a [Word] {
    // SAFETY: promised by the caller.
    unsafe { std::slice::from_raw_parts((object as *const Word).add(OBJECT_WORDS + from), count) }
}

/// The text of a string.
///
/// # Safety
/// `word` is a reference to a string. Strings never change; the text is used as long as something
/// keeps the string.
#[inline]
pub unsafe fn text<'a>(word: Word) -> &'a str {
    // SAFETY: strings are made from Rust strings by `Cx::new_string` only, with their length in the
    // field.
    unsafe { std::str::from_utf8_unchecked(octets(word, string::TEXT, get(word, string::BYTES))) }
}

/// The bytes of a `bytes` object.
///
/// # Safety
/// `word` is a reference to bytes, which never change; they live as long as the object.
#[inline]
pub unsafe fn byte_slice<'a>(word: Word) -> &'a [u8] {
    // SAFETY: the object has its length and then that many bytes.
    unsafe { octets(word, bytes::BYTES, get(word, bytes::LENGTH)) }
}

/// The bytes of an object from a field on.
///
/// # Safety
/// `object` is a reference to an object that has so many, which never change.
#[inline(always)]
unsafe fn octets<'a>(object: Word, field: usize, count: Word) -> &'a [u8] {
    // SAFETY: promised by the caller.
    unsafe {
        let start = (object as *const Word).add(OBJECT_WORDS + field).cast::<u8>();
        std::slice::from_raw_parts(start, count as usize)
    }
}

/// Writes a string's fields; the characters are those of the parts, one after the other.
///
/// # Safety
/// `object` has room for the two lengths and the bytes of all parts.
unsafe fn write_string<'p>(object: *mut Word, parts: impl Iterator<Item = &'p str>) {
    let (mut bytes, mut chars) = (0, 0);
    // SAFETY: promised by the caller.
    unsafe {
        let text = object.add(OBJECT_WORDS + string::TEXT).cast::<u8>();
        for part in parts {
            text.add(bytes).copy_from_nonoverlapping(part.as_ptr(), part.len());
            bytes += part.len();
            chars += if part.is_ascii() { part.len() } else { part.chars().count() };
        }
        object.add(OBJECT_WORDS + string::BYTES).write(bytes as Word);
        object.add(OBJECT_WORDS + string::CHARS).write(chars as Word);
    }
}

/// A string outside all heaps, which is there as long as the process.
pub(crate) fn lasting_string(strings: &'static Table, text: &str) -> Word {
    // Machine code compares the first words of two strings before it looks if there is a text.
    let words = OBJECT_WORDS + string::TEXT + text.len().div_ceil(8).max(1);
    let object = Box::leak(vec![0; words].into_boxed_slice()).as_mut_ptr();
    // SAFETY: the object was just made, with room for the text.
    unsafe {
        object.write(strings as *const Table as Word);
        object.add(1).write(words as Word | bifrost_heap::LASTING);
        write_string(object, std::iter::once(text));
    }
    object as Word
}

/// An object outside all heaps with so many fields, all 0, which is there as long as the process.
pub(crate) fn lasting_object(table: &'static Table, fields: usize) -> Word {
    let size = OBJECT_WORDS + fields;
    let mut words = vec![0; size];
    words[0] = std::ptr::from_ref(table) as Word;
    words[1] = size as Word | bifrost_heap::LASTING;
    words.leak().as_ptr() as Word
}

impl Cx {
    /// A new string.
    ///
    /// # Errors
    /// [`HeapFull`]
    pub fn new_string(&mut self, text: &str) -> Result<Word, HeapFull> {
        self.new_string_of(&[text])
    }

    /// A new string, the concatenation of the parts. Strings that parts are the texts of are the
    /// caller's to keep.
    ///
    /// # Errors
    /// [`HeapFull`]
    #[inline]
    pub fn new_string_of(&mut self, parts: &[&str]) -> Result<Word, HeapFull> {
        self.new_string_from(parts.iter().copied())
    }

    /// Makes a string of parts that are computed twice: once for their length, and once more when
    /// there is room for them. Otherwise as [`Cx::new_string_of`].
    ///
    /// # Errors
    /// [`HeapFull`]
    #[inline]
    pub fn new_string_from<'p>(
        &mut self,
        parts: impl Iterator<Item = &'p str> + Clone,
    ) -> Result<Word, HeapFull> {
        let bytes = parts.clone().fold(0, |bytes: usize, part| bytes.saturating_add(part.len()));
        if bytes == 0 {
            return Ok(self.image().empty_string());
        }
        let table = self.image().table_of(bifrost_ir::Types::STRING);
        let object = self.alloc(table, string::TEXT + bytes.div_ceil(8))?.as_ptr();
        // SAFETY: the object was just made with room for the two lengths and `bytes` bytes.
        unsafe { write_string(object, parts) };
        Ok(object as Word)
    }

    /// New bytes, those of the parts one after the other.
    ///
    /// # Errors
    /// [`HeapFull`]
    pub fn new_bytes(&mut self, parts: &[&[u8]]) -> Result<Word, HeapFull> {
        let length: usize = parts.iter().map(|p| p.len()).sum();
        let table = self.image().table_of(bifrost_ir::Types::BYTES);
        let object = self.alloc(table, bytes::BYTES + length.div_ceil(8))?.as_ptr();
        // SAFETY: the object was just made with room for the length and that many bytes.
        unsafe {
            object.add(OBJECT_WORDS + bytes::LENGTH).write(length as Word);
            let mut to = object.add(OBJECT_WORDS + bytes::BYTES).cast::<u8>();
            for part in parts {
                to.copy_from_nonoverlapping(part.as_ptr(), part.len());
                to = to.add(part.len());
            }
        }
        Ok(object as Word)
    }

    /// A new object of this table with these fields. References among them are the caller's to
    /// keep.
    ///
    /// # Errors
    /// [`HeapFull`]
    #[inline]
    pub fn new_object(&mut self, table: &'static Table, values: &[Word]) -> Result<Word, HeapFull> {
        let object = self.alloc(table, values.len())?.as_ptr();
        // SAFETY: the object was just made with that many fields.
        unsafe { object.add(OBJECT_WORDS).copy_from_nonoverlapping(values.as_ptr(), values.len()) };
        Ok(object as Word)
    }

    /// A new object of this table whose first field is the number of elements, followed by the
    /// elements. If they are references the caller keeps them.
    ///
    /// # Errors
    /// [`HeapFull`]
    pub fn new_sequence(&mut self, table: &'static Table, parts: &[&[Word]]) -> Result<Word, HeapFull> {
        let length: usize = parts.iter().map(|p| p.len()).sum();
        let object = self.alloc(table, sequence::ELEMENTS + length)?.as_ptr();
        // SAFETY: the object was just made with room for the length and that many elements.
        unsafe {
            object.add(OBJECT_WORDS + sequence::LENGTH).write(length as Word);
            let mut to = object.add(OBJECT_WORDS + sequence::ELEMENTS);
            for part in parts {
                to.copy_from_nonoverlapping(part.as_ptr(), part.len());
                to = to.add(part.len());
            }
        }
        Ok(object as Word)
    }

    /// A new array of this table with these elements, which are the caller's to keep if they are
    /// references.
    ///
    /// # Errors
    /// [`HeapFull`]
    pub fn new_array(
        &mut self,
        table: &'static Table,
        low: i64,
        elements: &[Word],
    ) -> Result<Word, HeapFull> {
        let storage = match elements {
            [] => 0,
            _ => self.new_object(
                self.image().storage_table(table.info().element.unwrap_or(bifrost_ir::Types::ANY)),
                elements,
            )?,
        };
        let _storage = self.keep(storage);
        self.new_object(table, &[low as Word, elements.len() as Word, 0, storage])
    }
}
