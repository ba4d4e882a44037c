//! The constants of generated code, and the way its numbers become the server's.

use std::collections::HashMap;
use std::sync::Arc;

use bifrost_wire::interface::{Mapping, Numbering};
use bifrost_wire::operator::{self, Operator};
use bifrost_wire::{Digest, Interface, InterfaceError, MethodNumber, RoutineNumber, TypeNumber, encode, op};

use crate::call::{Element, Reference, missing};
use crate::error::{Error, Misuse};
use crate::state::misuse;

/// The `INTERFACE` constant of a generated module.
#[derive(Debug)]
pub struct Stubs {
    /// The digest of the interface that the stubs were made from.
    pub digest: Digest,
    /// That interface.
    pub json: &'static str,
    /// The numbers of `null`, `bool`, `int`, `real`, `char` and `string`, and of their cells.
    pub basic: [BasicNumbers; 6],
    /// The numbers of the methods behind operators, in the order of [`Operator`].
    pub operators: [u32; operator::COUNT],
}

/// The numbers of a basic type.
pub type BasicNumbers = (u32, CellNumbers);

/// The numbers of `cell[T]` and of its methods; `u32::MAX` for those that the interface lacks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CellNumbers {
    /// The type `cell[T]`.
    pub ty: u32,
    /// `put`
    pub put: u32,
    /// `full`
    pub full: u32,
    /// `get`
    pub get: u32,
}

impl CellNumbers {
    /// For types whose cells the interface does not have.
    pub const NONE: CellNumbers = CellNumbers { ty: u32::MAX, put: u32::MAX, full: u32::MAX, get: u32::MAX };
}

/// A generated type of objects.
pub trait Object: Reference + Element<Future = Self> {
    /// The module it was generated with.
    const STUBS: &'static Stubs;
}

/// The stubs' numbers as the server has them.
///
/// When client and server have the same interface nothing is mapped. Otherwise types and methods
/// are matched by name and heading; one that the server lacks fails when it is used.
#[derive(Debug)]
pub(crate) struct Numbers {
    stubs: &'static Stubs,
    map: Option<Box<Mapping>>,
    /// Read from the stubs' JSON when a message needs a name.
    names: Option<Box<Numbering>>,
}

impl Numbers {
    pub(crate) fn same(stubs: &'static Stubs) -> Numbers {
        Numbers { stubs, map: None, names: None }
    }

    /// Matches the stubs with the server's interface.
    pub(crate) fn mapped(stubs: &'static Stubs, server: Interface) -> Result<Numbers, InterfaceError> {
        let client = Numbering::new(Interface::from_json(stubs.json.as_bytes())?);
        let server = Numbering::new(server);
        let map = Some(Box::new(Mapping::new(&client, &server)));
        Ok(Numbers { stubs, map, names: Some(Box::new(client)) })
    }

    pub(crate) fn stubs(&self) -> &'static Stubs {
        self.stubs
    }

    #[inline]
    pub(crate) fn method(&self, number: u32) -> Option<MethodNumber> {
        match &self.map {
            None if number == u32::MAX => None,
            None => Some(MethodNumber(number)),
            Some(map) => map.methods.get(number as usize).copied().flatten(),
        }
    }

    fn routine(&self, number: u32) -> Option<RoutineNumber> {
        match &self.map {
            None => Some(RoutineNumber(number)),
            Some(map) => map.routines.get(number as usize).copied().flatten(),
        }
    }

    /// Returns the first word of a routine's call.
    pub(crate) fn routine_head(&mut self, stubs: &'static Stubs, number: u32) -> Result<u64, Arc<Error>> {
        if !std::ptr::eq(stubs, self.stubs) {
            return Err(misuse(Misuse::OtherInterface));
        }
        match self.routine(number) {
            Some(n) => Ok(encode::head(op::CALL_ROUTINE, 0, n.0)),
            None => Err(missing(self.routine_name(number))),
        }
    }

    pub(crate) fn ty(&self, number: u32) -> Option<TypeNumber> {
        match &self.map {
            None if number == u32::MAX => None,
            None => Some(TypeNumber(number)),
            Some(map) => map.types.get(number as usize).copied().flatten(),
        }
    }

    pub(crate) fn operator(&self, operator: Operator) -> u32 {
        self.stubs.operators.get(operator as usize).copied().unwrap_or(u32::MAX)
    }

    fn names(&mut self) -> &Numbering {
        let stubs = self.stubs;
        self.names.get_or_insert_with(|| {
            // A module that was tampered with has no names; its calls still have numbers.
            let interface = Interface::from_json(stubs.json.as_bytes()).unwrap_or_default();
            Box::new(Numbering::new(interface))
        })
    }

    /// Returns the name of a method: `DataBase.fetch`.
    pub(crate) fn method_name(&mut self, number: u32) -> Arc<str> {
        let names = self.names();
        match names.method(MethodNumber(number)) {
            Some((ty, method)) => format!("{}.{}", names.interface().type_name(ty), method.name).into(),
            None => "?".into(),
        }
    }

    pub(crate) fn routine_name(&mut self, number: u32) -> Arc<str> {
        self.names().routine(RoutineNumber(number)).map_or("?".into(), |r| r.name.as_str().into())
    }
}

/// Procedures by name, with their numbers and a description of their types.
#[derive(Debug, Default)]
pub(crate) struct Procedures {
    pub(crate) count: u32,
    pub(crate) by_name: HashMap<String, (u32, &'static str)>,
    pub(crate) names: Vec<Arc<str>>,
}

/// Makes a generated type a typed stub: `object! { Name, INTERFACE, type 7, cell (30, 41, 42, 43),
/// below [Any] }`.
#[macro_export]
macro_rules! object {
    (
        $name:ident, $stubs:ident, type $number:literal,
        cell ($cell:literal, $put:literal, $full:literal, $get:literal),
        below [$($above:ident),*]
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
        }

        impl $crate::Object for $name {
            const STUBS: &'static $crate::Stubs = &$stubs;
        }

        $crate::object!(@arg $name, $name);
        $(
            $crate::object!(@arg $name, $above);

            impl ::core::convert::From<$name> for $above {
                fn from(object: $name) -> $above {
                    $above(object.0)
                }
            }
        )*
    };
    (@arg $name:ident, $above:ident) => {
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
