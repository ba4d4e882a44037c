//! The constants of generated code, and the way its numbers become the server's.
//!
//! Read [`Stubs`] first, then [`Numbers`].

use std::collections::HashMap;
use std::sync::Arc;

use bifrost_wire::builtin;
use bifrost_wire::interface::{Mapping, Numbering};
use bifrost_wire::operator::{self, Operator};
use bifrost_wire::{Digest, Interface, InterfaceError, MethodNumber, RoutineNumber, TypeNumber, encode, op};

use crate::error::{Error, Misuse};
use crate::recorder::{missing, misuse};

/// The `INTERFACE` constant of a generated module.
#[derive(Debug)]
pub struct Stubs {
    /// The digest of the interface that the stubs were made from.
    pub digest: Digest,
    /// That interface.
    pub json: &'static str,
    /// The numbers of `null`, `bool`, `int`, `real`, `char` and `string`, and of their cells.
    pub basic: [BasicNumbers; 6],
    /// The numbers of the built-in types in [`bifrost_wire::builtin`], in its order.
    pub builtin: [BuiltinNumbers; builtin::COUNT],
    /// The numbers of the methods behind operators, in the order of [`Operator`].
    pub operators: [u32; operator::COUNT],
}

/// The numbers of a built-in type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BuiltinNumbers {
    /// The type; `u32::MAX` if the interface lacks it.
    pub ty: u32,
    /// Its cells.
    pub cell: CellNumbers,
    /// Its first method; the others follow.
    pub first: u32,
}

impl BuiltinNumbers {
    /// For types that the interface does not have.
    pub const NONE: BuiltinNumbers =
        BuiltinNumbers { ty: u32::MAX, cell: CellNumbers::NONE, first: u32::MAX };

    /// Returns the number of a method, by its place in the type.
    #[inline]
    pub fn method(&self, place: u32) -> u32 {
        self.first.saturating_add(place)
    }
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

/// The stubs' numbers as the server has them.
///
/// When client and server have the same interface nothing is mapped. Otherwise types and methods
/// are matched by name and heading; one that the server lacks fails when it is used.
#[derive(Debug)]
pub struct Numbers {
    stubs: &'static Stubs,
    map: Option<Box<Mapping>>,
    /// Read from the stubs' JSON when a message needs a name.
    names: Option<Box<Numbering>>,
    /// The server's interface, if it is another one.
    server: Option<Box<Numbering>>,
}

impl Numbers {
    pub(crate) fn same(stubs: &'static Stubs) -> Numbers {
        Numbers { stubs, map: None, names: None, server: None }
    }

    /// Matches the stubs with the server's interface.
    pub(crate) fn mapped(stubs: &'static Stubs, server: Interface) -> Result<Numbers, InterfaceError> {
        let client = Numbering::new(Interface::from_json(stubs.json.as_bytes())?);
        let server = Numbering::new(server);
        let map = Some(Box::new(Mapping::new(&client, &server)));
        Ok(Numbers { stubs, map, names: Some(Box::new(client)), server: Some(Box::new(server)) })
    }

    /// Takes the numbers out, and leaves those of an equal interface.
    pub(crate) fn take(&mut self) -> Numbers {
        let stubs = self.stubs;
        std::mem::replace(self, Numbers::same(stubs))
    }

    /// Returns the constants that the client was made with.
    pub fn stubs(&self) -> &'static Stubs {
        self.stubs
    }

    /// Returns the server's number of a method, if the server has it.
    #[inline]
    pub fn method(&self, number: u32) -> Option<MethodNumber> {
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
    pub(crate) fn routine_head<S>(
        &mut self,
        stubs: &'static Stubs,
        number: u32,
    ) -> Result<u64, Arc<Error<S>>> {
        if !std::ptr::eq(stubs, self.stubs) {
            return Err(misuse(Misuse::OtherInterface));
        }
        match self.routine(number) {
            Some(n) => Ok(encode::head(op::CALL_ROUTINE, 0, n.0)),
            None => Err(missing(self.routine_name(number))),
        }
    }

    /// Returns the server's number of a type, if the server has it.
    pub fn ty(&self, number: u32) -> Option<TypeNumber> {
        match &self.map {
            None if number == u32::MAX => None,
            None => Some(TypeNumber(number)),
            Some(map) => map.types.get(number as usize).copied().flatten(),
        }
    }

    /// Returns the client's number of the method behind an operator; `u32::MAX` for none.
    pub fn operator(&self, operator: Operator) -> u32 {
        self.stubs.operators.get(operator as usize).copied().unwrap_or(u32::MAX)
    }

    /// Returns the interface of the server.
    pub(crate) fn server(&mut self) -> &Numbering {
        match &self.server {
            Some(server) => server,
            None => self.names.get_or_insert_with(|| read_names(self.stubs)),
        }
    }

    fn names(&mut self) -> &Numbering {
        self.names.get_or_insert_with(|| read_names(self.stubs))
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

/// Reads the interface of stubs.
fn read_names(stubs: &Stubs) -> Box<Numbering> {
    // A module that was tampered with has no names; its calls still have numbers.
    Box::new(Numbering::new(Interface::from_json(stubs.json.as_bytes()).unwrap_or_default()))
}

/// The types of a procedure, by the client's numbers.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Heading {
    /// The types of its parameters.
    pub params: Vec<u32>,
    /// The type of its result, if it has one.
    pub result: Option<u32>,
}

/// The procedures that the session has defined.
#[derive(Debug, Default)]
pub(crate) struct Procedures {
    pub(crate) count: u32,
    pub(crate) by_name: HashMap<String, (u32, Heading)>,
    pub(crate) names: Vec<Arc<str>>,
    /// Those whose definitions are open, the innermost last.
    pub(crate) open: Vec<(String, Heading)>,
}
