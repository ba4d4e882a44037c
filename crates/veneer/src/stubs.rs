//! The parts that generated code is made of.

use bifrost_recorder::Stubs;

use crate::call::{Element, Reference};

/// A generated type of objects.
pub trait Object: Reference + Element<Future = Self> {
    /// The module it was generated with; none for a built-in type.
    const STUBS: Option<&'static Stubs>;
}

/// Gives a typed stub the methods that all of them have.
#[doc(hidden)]
#[macro_export]
macro_rules! typed {
    ($name:ident) => {
        impl $name {
            /// Returns the same object, seen as one of another type. Signals `wrong_type` if it is
            /// none.
            #[track_caller]
            pub fn as_<T: $crate::Element>(&self) -> T::Future {
                self.0.cast::<T>()
            }

            /// True if the object has the type.
            #[track_caller]
            pub fn is_<T: $crate::Element>(&self) -> $crate::Promise<bool> {
                self.0.test_type::<T>()
            }
        }
    };
}

/// Makes a generated type a typed stub: `object! { Name, INTERFACE, type 7, cell (30, 41, 42, 43),
/// below [Any] }`.
#[macro_export]
macro_rules! object {
    (
        $name:ident, $stubs:ident, type $number:literal,
        cell ($cell:literal, $put:literal, $full:literal, $get:literal),
        below [$($above:ty),*]
    ) => {
        impl $crate::Reference for $name {
            #[inline]
            fn from_stub(stub: $crate::Stub) -> Self {
                $name(stub)
            }

            #[inline]
            fn stub(&self) -> &$crate::Stub {
                &self.0
            }
        }

        impl $crate::Element for $name {
            type Future = $name;

            fn ty(_: &$crate::Numbered<'_>) -> u32 {
                $number
            }

            fn cell(_: &$crate::Numbered<'_>) -> $crate::CellNumbers {
                $crate::CellNumbers { ty: $cell, put: $put, full: $full, get: $get }
            }

            fn take(came: $crate::Came<'_>) -> ::core::option::Option<Self> {
                came.object().map($name)
            }
        }

        impl $crate::Object for $name {
            const STUBS: ::core::option::Option<&'static $crate::Stubs> = ::core::option::Option::Some(&$stubs);
        }

        $crate::typed!($name);
        $crate::object!(@arg $name, $name);
        $(
            $crate::object!(@arg $name, $above);

            impl ::core::convert::From<$name> for $above {
                fn from(object: $name) -> $above {
                    <$above as $crate::Reference>::from_stub(object.0)
                }
            }
        )*
    };
    (@arg $name:ident, $above:ty) => {
        impl $crate::IntoArg<$above> for $name {
            #[inline]
            fn argument(&self) -> $crate::Argument<'_> {
                $crate::Argument::Stub(&self.0)
            }
        }

        impl $crate::IntoArg<$above> for &$name {
            #[inline]
            fn argument(&self) -> $crate::Argument<'_> {
                $crate::Argument::Stub(&self.0)
            }
        }
    };
}
