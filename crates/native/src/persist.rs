//! Values of native classes that outlive sessions (`docs/book/language/natives.md`).
//!
//! ```
//! use bifrost_native::{Cx, Parts, Persist, Registry, Stored, theta_class};
//!
//! struct Gauge {
//!     level: i64,
//! }
//!
//! #[theta_class("gauges::Gauge")]
//! impl Gauge {
//!     fn level(&self, _cx: &mut Cx) -> i64 {
//!         self.level
//!     }
//! }
//!
//! impl Persist for Gauge {
//!     fn encode(&self) -> Parts {
//!         self.level.to_le_bytes().to_vec().into()
//!     }
//!
//!     fn decode(from: &mut Stored<'_>) -> Result<Self, String> {
//!         let level = from.bytes().try_into().map_err(|_| "a level has 8 bytes")?;
//!         Ok(Gauge { level: i64::from_le_bytes(level) })
//!     }
//! }
//!
//! let registry = Registry::standard().with_persistent_class::<Gauge>();
//! ```

use bifrost_runtime::cx::Cx as Raw;
use bifrost_runtime::native;

use crate::cx::Cx;
use crate::reference::{Any, ObjectType, Ref};
use crate::registry::NativeClass;

/// The parts of which a value is made where it is stored.
#[derive(Clone, Debug, Default)]
pub struct Parts {
    /// The bytes, which only the class understands.
    pub bytes: Vec<u8>,
    /// The objects that the value holds. They are stored with it, and kept as long as it is; bytes
    /// say nothing of objects.
    pub objects: Vec<Any>,
}

impl From<Vec<u8>> for Parts {
    fn from(bytes: Vec<u8>) -> Parts {
        Parts { bytes, objects: Vec::new() }
    }
}

/// The parts of a stored value.
///
/// Its objects can be kept, not called: where a value is decoded no code runs.
#[derive(Debug)]
pub struct Stored<'a> {
    cx: &'a mut Raw,
    version: u32,
    parts: native::Parts,
    /// The number of objects taken.
    taken: usize,
}

impl<'a> Stored<'a> {
    pub(crate) fn new(cx: &'a mut Raw, version: u32, parts: native::Parts) -> Stored<'a> {
        Stored { cx, version, parts, taken: 0 }
    }

    /// Returns the version in which the value was stored.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Returns the bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.parts.bytes
    }

    /// Returns the number of objects not taken yet.
    pub fn objects(&self) -> usize {
        self.parts.objects.len() - self.taken
    }

    /// Takes the next object.
    ///
    /// # Errors
    /// There is none.
    pub fn any(&mut self) -> Result<Any, String> {
        let object = self.parts.objects.get(self.taken).copied().ok_or("an object is missing")?;
        self.taken += 1;
        Ok(Any::new(&mut Cx::new(self.cx), object))
    }

    /// Takes the next object, if it is one of the type.
    ///
    /// # Errors
    /// There is none, or it has another type.
    pub fn object<T: ObjectType>(&mut self) -> Result<Ref<T>, String> {
        let any = self.any()?;
        any.typed(&mut Cx::new(self.cx)).ok_or_else(|| format!("an object is no `{}`", T::NAME))
    }
}

/// A native class whose objects are stored: those that the root leads to when a transaction
/// commits.
///
/// A value is also copied in this way before the first method with `&mut self` of a transaction, so
/// that the transaction can be undone. Changes by a method with `&self` (in a `Cell`, say) are not
/// noted: they are neither stored nor undone.
pub trait Persist: NativeClass {
    /// The version of the result of [`encode`](Persist::encode). Parts with another meaning than
    /// before need a new one.
    const VERSION: u32 = 1;

    /// Returns the parts of the value.
    fn encode(&self) -> Parts;

    /// Makes a value of the parts of one. It may be given parts that it never gave: a store can be
    /// loaded from a text.
    ///
    /// # Errors
    /// A sentence on the fault of the parts. Nothing stored is lost; calls of the object fail with
    /// it.
    fn decode(from: &mut Stored<'_>) -> Result<Self, String>;
}
