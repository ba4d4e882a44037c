//! Stubs of the built-in types, which all generated modules share.
//!
//! Their numbers are those of the session's stubs, by the table `bifrost_wire::builtin`. A method
//! has its place in that table.

use crate::call::{Argument, Element, IntoArg, Numbered, Reference, Results, Stub};
use crate::iter::Iter;
use crate::plain::{Items, Plain};
use crate::promise::Promise;
use crate::stubs::Object;
use bifrost_recorder::{BuiltinNumbers, CellNumbers, Stubs};

/// The rows of the table.
const ANY: usize = 0;
const DIRECTORY: usize = 1;
const BYTES: usize = 2;

impl Numbered<'_> {
    /// Returns the numbers of a built-in type.
    fn builtin(&self, row: usize) -> BuiltinNumbers {
        self.0.stubs().builtin.get(row).copied().unwrap_or(BuiltinNumbers::NONE)
    }

    /// Returns the numbers of bytes.
    pub(crate) fn bytes(&self) -> (u32, CellNumbers) {
        let numbers = self.builtin(BYTES);
        (numbers.ty, numbers.cell)
    }
}

/// Returns the number of a method of a built-in type, by its place in the type.
fn method(stub: &Stub, row: usize, place: u32) -> u32 {
    Numbered(stub.core.live.borrow().recorder.numbers()).builtin(row).method(place)
}

macro_rules! stubs {
    ($($(#[$doc:meta])* $name:ident, $row:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name(Stub);

        impl Reference for $name {
            #[inline]
            fn from_stub(stub: Stub) -> Self {
                $name(stub)
            }

            #[inline]
            fn stub(&self) -> &Stub {
                &self.0
            }
        }

        impl Element for $name {
            type Future = $name;
            type Plain = $name;

            fn ty(numbers: &Numbered<'_>) -> u32 {
                numbers.builtin($row).ty
            }

            fn cell(numbers: &Numbered<'_>) -> CellNumbers {
                numbers.builtin($row).cell
            }
        }

        impl Plain for $name {
            fn take(items: &mut Items<'_, '_>) -> Option<Self> {
                items.object()
            }
        }

        impl Object for $name {
            const STUBS: Option<&'static Stubs> = None;
        }

        impl $name {
            #[inline]
            #[track_caller]
            #[allow(dead_code, reason = "`any` has no methods")]
            fn call<R: Results>(&self, place: u32, arguments: &[Argument<'_>]) -> R {
                self.0.call(method(&self.0, $row, place), arguments)
            }
        }

        crate::typed!($name);
        crate::object!(@arg $name, $name);
    )*};
}

stubs! {
    /// An object of any type.
    ///
    /// Theta: `any`
    Any, ANY;
    /// Objects by their names.
    ///
    /// Theta: `directory`
    Directory, DIRECTORY;
}

macro_rules! below_any {
    ($($name:ident),*) => {$(
        crate::object!(@arg $name, Any);

        impl From<$name> for Any {
            fn from(object: $name) -> Any {
                Any(object.0)
            }
        }
    )*};
}

below_any!(Directory);

impl IntoArg<Any> for Promise<Vec<u8>> {
    fn argument(&self) -> Argument<'_> {
        Argument::Stub(self.stub())
    }
}

impl IntoArg<Any> for &Promise<Vec<u8>> {
    fn argument(&self) -> Argument<'_> {
        Argument::Stub(self.stub())
    }
}

impl Directory {
    /// Theta: `lookup (name: string) returns (any) signals (not_found)`
    #[track_caller]
    pub fn lookup(&self, name: impl IntoArg<String>) -> Any {
        self.call(0, &[name.argument()])
    }

    /// Theta: `insert (name: string, v: any)`
    #[track_caller]
    pub fn insert(&self, name: impl IntoArg<String>, v: impl IntoArg<Any>) -> Promise<()> {
        self.call(1, &[name.argument(), v.argument()])
    }

    /// Theta: `remove (name: string) signals (not_found)`
    #[track_caller]
    pub fn remove(&self, name: impl IntoArg<String>) -> Promise<()> {
        self.call(2, &[name.argument()])
    }

    /// Theta: `names () yields (string)`
    #[track_caller]
    pub fn names(&self) -> Iter<(String,)> {
        Iter::of_method(&self.0, method(&self.0, DIRECTORY, 3))
    }

    /// Each name with the name of its object's type.
    ///
    /// Theta: `list () yields (string, string)`
    #[track_caller]
    pub fn list(&self) -> Iter<(String, String)> {
        Iter::of_method(&self.0, method(&self.0, DIRECTORY, 4))
    }

    /// Theta: `equal (x: directory) returns (bool)`
    #[track_caller]
    pub fn equal(&self, x: impl IntoArg<Directory>) -> Promise<bool> {
        self.call(5, &[x.argument()])
    }
}

impl Promise<Vec<u8>> {
    #[inline]
    #[track_caller]
    fn of_bytes<R: Results>(&self, place: u32, arguments: &[Argument<'_>]) -> R {
        self.stub().call(method(self.stub(), BYTES, place), arguments)
    }

    /// Theta: `length () returns (int)`
    #[track_caller]
    pub fn length(&self) -> Promise<i64> {
        self.of_bytes(0, &[])
    }

    /// Theta: `fetch (i: int) returns (int) signals (bounds)`
    #[track_caller]
    pub fn fetch(&self, i: impl IntoArg<i64>) -> Promise<i64> {
        self.of_bytes(1, &[i.argument()])
    }

    /// Theta: `concat (x: bytes) returns (bytes)`
    #[track_caller]
    pub fn concat(&self, x: impl IntoArg<Vec<u8>>) -> Promise<Vec<u8>> {
        self.of_bytes(2, &[x.argument()])
    }

    /// Theta: `slice (at: int, count: int) returns (bytes) signals (bounds)`
    #[track_caller]
    pub fn slice(&self, at: impl IntoArg<i64>, count: impl IntoArg<i64>) -> Promise<Vec<u8>> {
        self.of_bytes(3, &[at.argument(), count.argument()])
    }

    /// Theta: `to_string () returns (string) signals (bad_format)`
    #[track_caller]
    #[allow(clippy::inherent_to_string, reason = "it records a call")]
    pub fn to_string(&self) -> Promise<String> {
        self.of_bytes(4, &[])
    }

    /// Theta: `equal (x: bytes) returns (bool)`
    #[track_caller]
    pub fn equal(&self, x: impl IntoArg<Vec<u8>>) -> Promise<bool> {
        self.of_bytes(5, &[x.argument()])
    }

    /// Theta: `similar (x: bytes) returns (bool)`
    #[track_caller]
    pub fn similar(&self, x: impl IntoArg<Vec<u8>>) -> Promise<bool> {
        self.of_bytes(6, &[x.argument()])
    }

    /// Theta: `copy () returns (bytes)`
    #[track_caller]
    pub fn copy(&self) -> Promise<Vec<u8>> {
        self.of_bytes(7, &[])
    }

    /// Theta: `unparse () returns (string)`
    #[track_caller]
    pub fn unparse(&self) -> Promise<String> {
        self.of_bytes(8, &[])
    }

    /// Theta: `hash () returns (int)`
    #[track_caller]
    pub fn hash(&self) -> Promise<i64> {
        self.of_bytes(9, &[])
    }
}
