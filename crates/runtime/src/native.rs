//! The natives that embedders add to the built-in ones: functions and classes written in Rust
//! (`docs/book/language/natives.md`).
//!
//! [`Natives`] is a table of entries by name, with headings that linking compares with those of the
//! program. Objects of native classes have one field, the address of a value that they own
//! ([`Cx::new_native`]).

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::Arc;

use bifrost_heap::HeapFull;
use bifrost_ir::native::NativeHeading;

use crate::abi::{Code, Word};
use crate::cx::Cx;
use crate::image::Table;
use crate::object;
use crate::reference::{Blank, Object};

/// A function written in Rust.
#[derive(Clone, Debug)]
pub struct NativeFunction {
    /// Its entry, of the calling convention. The first word is the receiver of a method, the
    /// descriptor of a routine.
    pub code: Code,
    /// The types of its parameters and results.
    pub heading: NativeHeading,
    /// True if it is a method that may change its receiver.
    pub changes: bool,
}

/// The parts of which the value behind an object of a native class is made where it is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// Bytes that only the class understands.
    pub bytes: Vec<u8>,
    /// References to objects that the value holds.
    pub objects: Vec<Object>,
}

/// The functions that store and load the values behind objects of a native class. Both return the
/// reason if they cannot.
#[derive(Clone, Copy, Debug)]
pub struct Persistence {
    /// The version of the parts that `encode` gives.
    pub version: u32,
    /// Returns the parts of the value behind an object of the class; any other object is refused.
    pub encode: fn(cx: &mut Cx, object: Object) -> Result<Parts, String>,
    /// Makes a value from the parts of one in that version.
    pub decode: fn(cx: &mut Cx, version: u32, parts: Parts) -> Result<Behind, String>,
}

/// Functions and classes written in Rust, by name: `std::open_host_file`, `std::HostFile.read`.
#[derive(Clone, Default)]
pub struct Natives {
    functions: HashMap<String, NativeFunction>,
    persistent: HashMap<&'static str, Persistence>,
    settings: HashMap<TypeId, Arc<dyn Any + Send + Sync>>,
}

impl std::fmt::Debug for Natives {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Natives").field("functions", &self.functions).finish_non_exhaustive()
    }
}

impl Natives {
    /// Adds a function. A later one of the same name takes its place.
    ///
    /// # Safety
    /// The code has the calling convention ([`crate::abi`]), does not unwind, and takes and gives
    /// words as the heading says.
    pub unsafe fn add(&mut self, name: impl Into<String>, function: NativeFunction) {
        self.functions.insert(name.into(), function);
    }

    /// The function of that name.
    pub fn find(&self, name: &str) -> Option<&NativeFunction> {
        self.functions.get(name)
    }

    /// The headings of all functions.
    pub fn headings(&self) -> impl Iterator<Item = (&str, &NativeHeading)> {
        self.functions.iter().map(|(name, function)| (name.as_str(), &function.heading))
    }

    /// Enters the functions that store the values of a class.
    pub fn set_persistence(&mut self, class: &'static str, persistence: Persistence) {
        self.persistent.insert(class, persistence);
    }

    /// The functions that store the values of a class, if they can be stored.
    pub fn persistence(&self, class: &str) -> Option<Persistence> {
        self.persistent.get(class).copied()
    }

    /// Settings that functions ask for by type. A later value of the same type takes its place.
    pub fn set<T: Any + Send + Sync>(&mut self, settings: T) {
        self.settings.insert(TypeId::of::<T>(), Arc::new(settings));
    }

    /// The settings of a type.
    pub fn get<T: Any + Send + Sync>(&self) -> Option<&T> {
        self.settings.get(&TypeId::of::<T>())?.downcast_ref()
    }
}

/// A value of Rust behind an object of a native class.
#[repr(C)]
struct Owned<T> {
    free: unsafe fn(*mut ()),
    value: T,
}

/// The field of an object of a native class: the address of the value that it owns.
const VALUE: usize = 0;
/// Fields of an object of a native class.
pub(crate) const FIELDS: usize = 1;

unsafe fn free<T>(owned: *mut ()) {
    // A value whose `drop` panics is as gone as any other.
    let _ = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: promised by `finalize`.
        drop(unsafe { Box::from_raw(owned.cast::<Owned<T>>()) });
    }));
}

/// A value that is to be put behind an object of a native class.
#[derive(Debug)]
pub struct Behind(NonNull<()>);

impl Behind {
    /// Behind objects of the class whose values have this type.
    pub fn new<T: Send + 'static>(value: T) -> Behind {
        Behind(NonNull::from(Box::leak(Box::new(Owned { free: free::<T>, value }))).cast())
    }

    /// Puts it behind an object, in place of one that no code uses.
    ///
    /// # Safety
    /// The object is one of the class.
    pub(crate) unsafe fn put(self, object: Blank) {
        let word = object.object().word();
        // SAFETY: objects of native classes have this field, and a blank one's value is not used.
        unsafe {
            finalize(word as *mut Word);
            object::set(word, VALUE, self.0.as_ptr() as Word);
        }
        std::mem::forget(self);
    }
}

impl Drop for Behind {
    fn drop(&mut self) {
        // SAFETY: it is the address of an `Owned`, which begins with the function that frees it.
        unsafe { (*self.0.as_ptr().cast::<unsafe fn(*mut ())>())(self.0.as_ptr()) };
    }
}

/// Frees the value that an object of a native class owns.
///
/// # Safety
/// The object is one of a native class, and nothing uses it any more.
pub(crate) unsafe fn finalize(object: *mut Word) {
    // SAFETY: the field is the address of an `Owned`, made in `new_native`, or 0 before that; each
    // begins with the function that frees it.
    unsafe {
        let owned = object::get(object as Word, VALUE) as *mut ();
        if !owned.is_null() {
            (*owned.cast::<unsafe fn(*mut ())>())(owned);
        }
    }
}

/// The value behind an object of a native class; it lives as long as the object.
///
/// # Safety
/// The object was made by [`Cx::new_native`] with a value of this type, or one that begins like it.
pub unsafe fn value<T>(object: Word) -> *const T {
    // SAFETY: promised by the caller.
    unsafe { &raw const (*(object::get(object, VALUE) as *const Owned<T>)).value }
}

impl Cx {
    /// Puts a value of stored parts behind an object of a native class.
    ///
    /// # Errors
    /// The reason for which they are no value of the class; the object is as before.
    pub fn set_native(&mut self, object: Blank, version: u32, parts: Parts) -> Result<(), String> {
        let _kept = self.keep(object.object().word());
        let info = object.object().info();
        let persistence = info.persistence.ok_or_else(|| volatile(&info.name))?;
        let behind = (persistence.decode)(self, version, parts)?;
        // SAFETY: the functions are those of the object's class.
        unsafe { behind.put(object) };
        Ok(())
    }

    /// Returns the parts of the value behind an object of a native class.
    ///
    /// # Errors
    /// The reason for which it cannot be stored.
    pub fn native_parts(&mut self, object: Object) -> Result<Parts, String> {
        let info = object.info();
        let persistence = info.persistence.ok_or_else(|| volatile(&info.name))?;
        (persistence.encode)(self, object)
    }

    /// A new object of a native class with this value.
    ///
    /// # Errors
    /// [`HeapFull`]; the value is dropped.
    pub fn new_native<T: Send + 'static>(
        &mut self,
        table: &'static Table,
        value: T,
    ) -> Result<Word, HeapFull> {
        let value = Behind::new(value);
        let made = self.alloc_finalizable(table, FIELDS)?.as_ptr() as Word;
        // SAFETY: the object was just made with this field, and is put together here.
        unsafe { value.put(Blank::new(Object::new(made))) };
        Ok(made)
    }
}

fn volatile(class: &str) -> String {
    format!("the values of the native class `{class}` are not stored")
}
