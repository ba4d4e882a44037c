//! The types that cross the border: structs and unions of C.
//!
//! Read [`Ref`] and [`Value`] first. A program in C makes these values, so each carries a promise
//! of the header, in which it is written down: a pointer is null, or points to as many items as the
//! count beside it says, for as long as the function runs to which it is given. Fields that are
//! pointers are private, and no function of Rust makes such a value from nothing; so the functions
//! that read them are safe.

use std::ffi::{CStr, c_char};
use std::ptr::NonNull;

use crate::error::ConnectError;
use crate::interface::Interface;
use crate::session::Session;

/// A stub by value: the session, the number of its slot, and the number of the use of that slot.
///
/// All zero is no stub. A copy of the struct is the same stub. The stub lives until it is released:
/// by `bf_release`, by the end of its scope, or with its session.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ref {
    session: Option<NonNull<Session>>,
    /// The slot.
    pub slot: u32,
    /// The number of times that the slot was used before, from 1.
    pub use_count: u32,
}

impl Ref {
    /// No stub.
    pub(crate) const NONE: Ref = Ref { session: None, slot: 0, use_count: 0 };

    /// Makes a stub of a session.
    #[inline(always)]
    pub(crate) fn new(session: Option<NonNull<Session>>, slot: u32, use_count: u32) -> Ref {
        Ref { session, slot, use_count }
    }

    /// True if the stub is one of this session.
    #[inline(always)]
    pub(crate) fn is_of(&self, session: *const Session) -> bool {
        self.session.is_some_and(|own| std::ptr::eq(own.as_ptr(), session))
    }

    /// Returns the session. The caller lets go of it before it returns to the program.
    #[inline(always)]
    pub(crate) fn session<'s>(self) -> Option<&'s mut Session> {
        // SAFETY: a session is used by one thread, lives until it is closed, and no function of the
        // program runs while one of its functions does (the header).
        self.session.map(|mut session| unsafe { session.as_mut() })
    }
}

/// Bytes: a pointer and their number. Null stands for none.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Bytes {
    data: *const c_char,
    length: usize,
}

impl Bytes {
    /// Names bytes that live as long as the program may read them.
    pub(crate) fn new(bytes: &[u8]) -> Bytes {
        Bytes { data: bytes.as_ptr().cast(), length: bytes.len() }
    }

    /// Returns the bytes.
    #[inline]
    pub(crate) fn get(&self) -> &[u8] {
        if self.data.is_null() || self.length == 0 {
            return &[];
        }
        // SAFETY: so many bytes are there (the header).
        unsafe { std::slice::from_raw_parts(self.data.cast(), self.length) }
    }
}

/// A text of C, which a zero byte ends; null for none.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Chars(*const c_char);

// SAFETY: the text is not changed while somebody has it (the header).
unsafe impl Send for Chars {}
// SAFETY: as above.
unsafe impl Sync for Chars {}

impl Chars {
    /// None.
    pub(crate) const NONE: Chars = Chars(std::ptr::null());

    /// Names a text that lives as long as the program may read it.
    pub(crate) fn new(text: &CStr) -> Chars {
        Chars(text.as_ptr())
    }

    /// Returns the text; nothing for null and for what is no UTF-8.
    pub(crate) fn get(&self) -> Option<&str> {
        self.given().and_then(|given| given.ok())
    }

    /// Returns the text, which is an address.
    ///
    /// # Errors
    /// It is null, or no UTF-8.
    pub(crate) fn address(&self) -> Result<&str, ConnectError> {
        self.given().ok_or(ConnectError::NoAddress)?.map_err(|_| ConnectError::NotText("address"))
    }

    /// Returns the text, or the mistake that it is no UTF-8; nothing for null.
    pub(crate) fn given(&self) -> Option<Result<&str, std::str::Utf8Error>> {
        // SAFETY: a zero byte ends it (the header).
        (!self.0.is_null()).then(|| unsafe { CStr::from_ptr(self.0) }.to_str())
    }
}

/// A place in the source of the program. The file is a text that lives as long as the session: that
/// of `__FILE__`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Place {
    /// The file.
    pub file: Chars,
    /// The line, from 1.
    pub line: u32,
}

impl Place {
    /// No place.
    pub(crate) const NONE: Place = Place { file: Chars::NONE, line: 0 };
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.file.get().unwrap_or("?"), self.line)
    }
}

/// Items: a pointer and their number.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Values {
    items: *const Value,
    count: usize,
}

impl Values {
    /// None.
    pub(crate) const NONE: Values = Values { items: std::ptr::null(), count: 0 };

    /// Names values that live as long as the program may read them.
    pub(crate) fn new(values: &[Value]) -> Values {
        Values { items: values.as_ptr(), count: values.len() }
    }

    /// Returns the values.
    #[inline(always)]
    pub(crate) fn get(&self) -> &[Value] {
        if self.items.is_null() || self.count == 0 {
            return &[];
        }
        // SAFETY: so many values are there (the header).
        unsafe { std::slice::from_raw_parts(self.items, self.count) }
    }
}

/// Integers: a pointer and their number.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Ints {
    items: *const i64,
    count: usize,
}

impl Ints {
    /// Returns the integers.
    pub(crate) fn get(&self) -> &[i64] {
        if self.items.is_null() || self.count == 0 {
            return &[];
        }
        // SAFETY: so many integers are there (the header).
        unsafe { std::slice::from_raw_parts(self.items, self.count) }
    }
}

/// Reals: a pointer and their number.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Reals {
    items: *const f64,
    count: usize,
}

impl Reals {
    /// Returns the reals.
    pub(crate) fn get(&self) -> &[f64] {
        if self.items.is_null() || self.count == 0 {
            return &[];
        }
        // SAFETY: so many reals are there (the header).
        unsafe { std::slice::from_raw_parts(self.items, self.count) }
    }
}

/// An argument, or a value that came.
///
/// A value with items stands for a sequence, struct, oneof or `maybe`: its elements, its fields, or
/// the number of a tag and the tag's value. The last two kinds are arguments only: sequences of
/// integers and reals.
#[repr(C, u32)]
#[derive(Clone, Copy, Debug)]
pub enum Value {
    /// A stub.
    Stub(Ref),
    /// Nil.
    Nil,
    /// A truth value.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Real(f64),
    /// A character: a Unicode scalar value.
    Char(u32),
    /// A text in UTF-8. One that came has a zero byte behind it.
    Text(Bytes),
    /// Bytes.
    Bytes(Bytes),
    /// Items.
    Items {
        /// The items.
        items: *const Value,
        /// Their number.
        count: usize,
    },
    /// A sequence of integers.
    Ints(Ints),
    /// A sequence of reals.
    Reals(Reals),
}

impl Value {
    /// Makes a value of items that live as long as the program may read them.
    pub(crate) fn of_items(items: &[Value]) -> Value {
        Value::Items { items: items.as_ptr(), count: items.len() }
    }

    /// Returns the items; none for other values.
    #[inline]
    pub(crate) fn items(&self) -> &[Value] {
        match self {
            // SAFETY: so many values are there (the header).
            Value::Items { items, count } if !items.is_null() => unsafe {
                std::slice::from_raw_parts(*items, *count)
            },
            _ => &[],
        }
    }
}

/// Room for stubs: a pointer and their number.
#[repr(C)]
#[derive(Debug)]
pub struct Refs {
    items: *mut Ref,
    count: usize,
}

impl Refs {
    /// Returns the room.
    #[inline(always)]
    pub(crate) fn get(&mut self) -> &mut [Ref] {
        if self.items.is_null() || self.count == 0 {
            return &mut [];
        }
        // SAFETY: so many stubs are there, and nobody else uses them meanwhile (the header).
        unsafe { std::slice::from_raw_parts_mut(self.items, self.count) }
    }
}

/// The numbers of a type and of its cells.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CellNumbers {
    /// The type `cell[T]`; `UINT32_MAX` if the interface lacks it, as for the others.
    pub ty: u32,
    /// `put`
    pub put: u32,
    /// `full`
    pub full: u32,
    /// `get`
    pub get: u32,
}

/// The families of types.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    /// A type of the program, by its number in the interface.
    Program,
    /// A basic type: null, bool, int, real, char, string, from 0.
    Basic,
    /// A built-in type: any, directory, bytes, from 0.
    Builtin,
    /// The cells of another type.
    Cell,
}

/// A type, as generated headers name it.
#[repr(C)]
#[derive(Debug)]
pub struct Type {
    /// Its family.
    pub family: Family,
    /// Its number in the family.
    pub number: u32,
    /// The numbers of its cells; of types of the program only.
    pub cell: CellNumbers,
    /// The type of a cell's values; null for other types.
    element: *const Type,
    /// Its name, for messages.
    pub name: Chars,
}

impl Type {
    /// Returns the type of a cell's values.
    pub(crate) fn element(&self) -> Option<&Type> {
        // SAFETY: null, or a type that lives as long as this one (the header).
        unsafe { self.element.as_ref() }
    }
}

/// Types: a pointer to pointers, and their number.
#[repr(C)]
#[derive(Debug)]
pub struct Types {
    items: *const *const Type,
    count: usize,
}

impl Types {
    /// Returns the types; none if one of the pointers is null.
    pub(crate) fn get(&self) -> Option<Vec<&Type>> {
        if self.items.is_null() || self.count == 0 {
            return Some(Vec::new());
        }
        // SAFETY: so many pointers are there, to types that live as long (the header).
        let pointers = unsafe { std::slice::from_raw_parts(self.items, self.count) };
        // SAFETY: as above.
        pointers.iter().map(|pointer| unsafe { pointer.as_ref() }).collect()
    }
}

/// The most arguments of an iterator.
pub const ITERATOR_ARGUMENTS_MAX: usize = 8;

/// A call of an iterator, for `bf_foreach`.
#[repr(C)]
#[derive(Debug)]
pub struct Iterator {
    /// The object; no stub for a routine.
    pub on: Ref,
    /// The session of a routine's call; else null.
    session: Option<NonNull<Session>>,
    /// The interface of a routine; null for a method.
    interface: *const Interface,
    /// The number of the method or routine.
    pub number: u32,
    /// The number of arguments, at most `BF_ITERATOR_ARGUMENTS_MAX`.
    pub count: u32,
    /// The arguments.
    pub arguments: [Value; ITERATOR_ARGUMENTS_MAX],
    /// The place of the call.
    pub place: Place,
}

impl Iterator {
    /// Returns the session.
    pub(crate) fn session<'s>(&self) -> Option<&'s mut Session> {
        // SAFETY: as for `Ref::session`.
        self.on.session().or_else(|| self.session.map(|mut session| unsafe { session.as_mut() }))
    }

    /// True if it is the call of a routine of another session.
    pub(crate) fn is_foreign(&self, session: *const Session) -> bool {
        self.on == Ref::NONE && !self.session.is_some_and(|own| std::ptr::eq(own.as_ptr(), session))
    }

    /// Returns the interface of a routine.
    pub(crate) fn interface(&self) -> Option<&Interface> {
        // SAFETY: null, or an interface of the program's constants (the header).
        unsafe { self.interface.as_ref() }
    }
}
