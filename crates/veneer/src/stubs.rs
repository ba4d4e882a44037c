//! The parts that generated code is made of.

use bifrost_recorder::Stubs;

use crate::call::{Element, Reference};

/// Makes the functions that open a session with the stubs of a generated module.
#[cfg(not(feature = "async"))]
#[macro_export]
macro_rules! connect {
    ($stubs:ident) => {
        /// Opens a session with the server at an address like `unix:///run/bifrost/main`.
        ///
        /// # Errors
        /// There is no server, or it refuses the session.
        pub fn connect(address: &str) -> ::core::result::Result<$crate::Session, $crate::ConnectError> {
            $crate::Session::builder(&$stubs).connect(address)
        }
    };
}

/// Makes the functions that open a session with the stubs of a generated module.
#[cfg(feature = "async")]
#[macro_export]
macro_rules! connect {
    ($stubs:ident) => {
        /// Opens a session with the server at an address like `unix:///run/bifrost/main`.
        ///
        /// # Errors
        /// There is no server, or it refuses the session.
        pub fn connect(address: &str) -> ::core::result::Result<$crate::Session, $crate::ConnectError> {
            $crate::Session::builder(&$stubs).connect(address)
        }

        /// Opens a session to be awaited.
        ///
        /// # Errors
        /// There is no server, or it refuses the session.
        pub async fn connect_async(
            address: &str,
        ) -> ::core::result::Result<$crate::Session, $crate::ConnectError> {
            $crate::Session::builder(&$stubs).connect_async(address).await
        }
    };
}

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

            /// Returns the exception that the call of the stub has signalled, if it is this one and
            /// its batch was answered. The program is told with it.
            pub fn caught<S: $crate::Signal>(&self) -> ::core::option::Option<S> {
                self.0.caught()
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
        below [$($above:ty),*] $(, plain $plain:ty)?
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
            type Plain = $crate::object!(@plain $name $(, $plain)?);

            fn ty(_: &$crate::Numbered<'_>) -> u32 {
                $number
            }

            fn cell(_: &$crate::Numbered<'_>) -> $crate::CellNumbers {
                $crate::CellNumbers { ty: $cell, put: $put, full: $full, get: $get }
            }
        }

        impl $crate::Plain for $name {
            fn take(items: &mut $crate::Items<'_, '_>) -> ::core::option::Option<Self> {
                items.object()
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
    (@plain $name:ident) => { $name };
    (@plain $name:ident, $plain:ty) => { $plain };
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

/// Gives a stub `get`, which returns the contents of its object: `contents! { Ints, Vec<i64> }`.
#[macro_export]
macro_rules! contents {
    ($name:ident, $plain:ty) => {
        impl $name {
            /// Returns the contents of the object as they are when the batch comes to it.
            #[track_caller]
            pub fn get(&self) -> $crate::Promise<$plain> {
                self.0.contents()
            }
        }
    };
}

/// Makes an argument of elements in Rust, where a sequence is wanted: `elements! { Ints, i64 }`.
#[macro_export]
macro_rules! elements {
    ($name:ident, $element:ty) => {
        $crate::elements! { @for $name, $element, [T], ::std::vec::Vec<T> }
        $crate::elements! { @for $name, $element, [T], &::std::vec::Vec<T> }
        $crate::elements! { @for $name, $element, [T], &[T] }
        $crate::elements! { @for $name, $element, [T, const N: usize], [T; N] }
        $crate::elements! { @for $name, $element, [T, const N: usize], &[T; N] }
    };
    (@for $name:ident, $element:ty, [$($params:tt)*], $from:ty) => {
        impl<$($params)*> $crate::IntoArg<$name> for $from
        where
            T: $crate::IntoArg<$element>,
        {
            fn argument(&self) -> $crate::Argument<'_> {
                <T as $crate::IntoArg<$element>>::sequence(&self[..])
            }
        }
    };
}

/// Makes an argument of an `Option`, where a `maybe` is wanted: `maybe! { MaybeInt, i64 }`.
#[macro_export]
macro_rules! maybe {
    ($name:ident, $some:ty) => {
        $crate::maybe! { @for $name, $some, ::core::option::Option<T> }
        $crate::maybe! { @for $name, $some, &::core::option::Option<T> }
    };
    (@for $name:ident, $some:ty, $from:ty) => {
        impl<T: $crate::IntoArg<$some>> $crate::IntoArg<$name> for $from {
            fn argument(&self) -> $crate::Argument<'_> {
                $crate::Argument::choice(
                    self.is_some().into(),
                    self.as_ref().map($crate::IntoArg::<$some>::argument),
                )
            }
        }
    };
}

/// Makes a struct in Rust the contents of a struct or record, and an argument where one is wanted:
/// `fields! { Point, [x: i64, y: i64]; for PointRef }`. Each type is that of the stubs.
#[macro_export]
macro_rules! fields {
    ($plain:ident, $fields:tt $(; for $name:ident)?) => {
        $crate::fields! { @plain $plain, $fields }
        $(
            $crate::fields! { @for $name, $plain, $fields }
            $crate::fields! { @for $name, &$plain, $fields }
        )?
    };
    (@plain $plain:ident, [$($field:ident: $ty:ty),* $(,)?]) => {
        impl $crate::Plain for $plain {
            fn take(items: &mut $crate::Items<'_, '_>) -> ::core::option::Option<Self> {
                items.within(|items| {
                    ::core::option::Option::Some($plain { $($field: $crate::Plain::take(items)?),* })
                })
            }
        }
    };
    (@for $name:ident, $from:ty, [$($field:ident: $ty:ty),* $(,)?]) => {
        impl $crate::IntoArg<$name> for $from {
            fn argument(&self) -> $crate::Argument<'_> {
                $crate::Argument::compound([$($crate::IntoArg::<$ty>::argument(&self.$field)),*])
            }
        }
    };
}

/// Makes an argument of a tuple, where a struct is wanted. Its parts may be promises: `tuple! {
/// PointRef, A 0 i64, B 1 i64 }`.
#[macro_export]
macro_rules! tuple {
    ($name:ident, $($param:ident $index:tt $ty:ty),*) => {
        impl<$($param: $crate::IntoArg<$ty>),*> $crate::IntoArg<$name> for ($($param,)*) {
            fn argument(&self) -> $crate::Argument<'_> {
                $crate::Argument::compound([$($crate::IntoArg::<$ty>::argument(&self.$index)),*])
            }
        }
    };
}

/// Makes an enum in Rust the contents of a oneof, and an argument where one is wanted: `tags! {
/// Shape, [0 Dot, 1 Circle(f64)]; for ShapeRef }`. Each type is that of the stubs.
#[macro_export]
macro_rules! tags {
    ($plain:ident, [$($tag:literal $variant:ident $(($ty:ty))?),* $(,)?]; for $name:ident) => {
        impl $crate::Plain for $plain {
            fn take(items: &mut $crate::Items<'_, '_>) -> ::core::option::Option<Self> {
                items.within(|items| match <i64 as $crate::Plain>::take(items)? {
                    $($tag => $crate::tags!(@take items, $plain, $variant $(, $ty)?),)*
                    _ => ::core::option::Option::None,
                })
            }
        }

        $crate::tags! { @for $name, $plain, $plain, [$($tag $variant $(($ty))?),*] }
        $crate::tags! { @for $name, $plain, &$plain, [$($tag $variant $(($ty))?),*] }
    };
    (@take $items:ident, $plain:ident, $variant:ident) => {
        <() as $crate::Plain>::take($items).map(|()| $plain::$variant)
    };
    (@take $items:ident, $plain:ident, $variant:ident, $ty:ty) => {
        $crate::Plain::take($items).map($plain::$variant)
    };
    (@for $name:ident, $plain:ident, $from:ty, [$($tag:literal $variant:ident $(($ty:ty))?),*]) => {
        impl $crate::IntoArg<$name> for $from {
            fn argument(&self) -> $crate::Argument<'_> {
                match self {
                    $($crate::tags!(@pattern $plain, $variant $(, value, $ty)?) => {
                        $crate::Argument::choice($tag, $crate::tags!(@value $($ty, value)?))
                    })*
                }
            }
        }
    };
    (@pattern $plain:ident, $variant:ident) => { $plain::$variant };
    (@pattern $plain:ident, $variant:ident, $value:ident, $ty:ty) => { $plain::$variant($value) };
    (@value) => { ::core::option::Option::None };
    (@value $ty:ty, $value:ident) => {
        ::core::option::Option::Some($crate::IntoArg::<$ty>::argument($value))
    };
}
