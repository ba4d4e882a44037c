//! Two interfaces side by side: the numbers of one as numbers of the other, and whether a type of
//! one can be used through the other.
//!
//! Read [`Mapping::new`], by which a client finds its numbers at a server, then [`conforms`].
//! Types, methods and routines are matched by name and heading; numbers mean nothing beyond their
//! interface.

use std::collections::HashSet;

use thiserror::Error;

use super::{Heading, Interface, Numbering};
use crate::ids::{MethodNumber, RoutineNumber, TypeNumber};

/// The numbers of a client's interface as numbers of a server's; nothing for what the server lacks.
#[derive(Clone, Debug, Default)]
pub struct Mapping {
    /// By type number of the client.
    pub types: Vec<Option<TypeNumber>>,
    /// By method number of the client.
    pub methods: Vec<Option<MethodNumber>>,
    /// By routine number of the client.
    pub routines: Vec<Option<RoutineNumber>>,
}

impl Mapping {
    /// Matches all names of the client with those of the server.
    ///
    /// Cost: one step for each type, method and routine of the client.
    pub fn new(client: &Numbering, server: &Numbering) -> Mapping {
        let own = client.interface();
        let types: Vec<Option<TypeNumber>> = own.types.iter().map(|t| server.find_type(&t.name)).collect();
        let mut methods = Vec::with_capacity(client.method_count());
        for (ty, theirs) in own.types.iter().zip(&types) {
            methods.extend(ty.methods.iter().map(|method| {
                let number = server.find_method((*theirs)?, &method.name)?;
                let (_, their_method) = server.method(number)?;
                same_heading(own, &method.heading, server.interface(), &their_method.heading)
                    .then_some(number)
            }));
        }
        let routines = own.routines.iter().map(|routine| {
            let number = server.find_routine(&routine.name)?;
            let theirs = server.routine(number)?;
            same_heading(own, &routine.heading, server.interface(), &theirs.heading).then_some(number)
        });
        let routines = routines.collect();
        Mapping { types, methods, routines }
    }
}

/// True if two headings of different interfaces have the same types of arguments and of results,
/// and both yield or neither. Types are compared by name; names of arguments and signals are not
/// compared.
fn same_heading(own: &Interface, a: &Heading, other: &Interface, b: &Heading) -> bool {
    let same = |a: &TypeNumber, b: &TypeNumber| own.type_name(*a) == other.type_name(*b);
    a.params.len() == b.params.len()
        && a.params.iter().zip(&b.params).all(|(a, b)| same(&a.ty, &b.ty))
        && a.futures().len() == b.futures().len()
        && a.futures().iter().zip(b.futures()).all(|(a, b)| same(a, b))
        && a.yields.is_some() == b.yields.is_some()
}

/// The reason why a type does not conform.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum Missing {
    /// The offered type is another one than the wanted type, and not below it.
    #[error("`{offered}` is not `{wanted}`, nor a subtype of it")]
    NotBelow {
        /// The wanted type.
        wanted: String,
        /// The offered type.
        offered: String,
    },
    /// A type that the wanted type leads to is not there.
    #[error("there is no type `{name}`")]
    Type {
        /// Its name.
        name: String,
    },
    /// A method is not there, or has another heading.
    #[error("`{ty}` has no method `{heading}`")]
    Method {
        /// The type.
        ty: String,
        /// The heading that the client has.
        heading: String,
    },
}

/// Checks that objects of a type that a server offers can be used as a client's type.
///
/// The offered type has the name of the wanted one or lies below the type of that name. Every
/// method that the client has of the wanted type, and of the types that it leads to by arguments,
/// results, elements and supertypes, is there with the same heading.
///
/// # Errors
/// The first thing that is missing, in the order of the client's interface.
pub fn conforms(
    client: &Numbering,
    wanted: TypeNumber,
    server: &Numbering,
    offered: TypeNumber,
) -> Result<(), Missing> {
    let (own, theirs) = (client.interface(), server.interface());
    let is_below = server.find_type(own.type_name(wanted)).is_some_and(|ty| theirs.is_subtype(offered, ty));
    if !is_below {
        let [wanted, offered] = [own.type_name(wanted), theirs.type_name(offered)].map(str::to_owned);
        return Err(Missing::NotBelow { wanted, offered });
    }
    if client.digest() == server.digest() {
        return Ok(());
    }
    let mapping = Mapping::new(client, server);
    let reached = reached(own, wanted);
    let mut methods = &mapping.methods[..];
    for ((number, ty), theirs) in (0..).zip(&own.types).zip(&mapping.types) {
        let numbers;
        (numbers, methods) = methods.split_at(ty.methods.len());
        if !reached.contains(&TypeNumber(number)) {
            continue;
        }
        if theirs.is_none() {
            return Err(Missing::Type { name: ty.name.clone() });
        }
        if let Some((method, _)) = ty.methods.iter().zip(numbers).find(|(_, number)| number.is_none()) {
            return Err(Missing::Method { ty: ty.name.clone(), heading: own.heading(method) });
        }
    }
    Ok(())
}

/// The types that a type leads to, itself among them.
fn reached(interface: &Interface, from: TypeNumber) -> HashSet<TypeNumber> {
    let mut found = HashSet::new();
    let mut left = vec![from];
    while let Some(number) = left.pop() {
        let Some(ty) = interface.ty(number).filter(|_| found.insert(number)) else { continue };
        left.extend(ty.supertypes.iter().chain(&ty.element).chain(ty.fields.iter().map(|field| &field.ty)));
        for heading in ty.methods.iter().map(|method| &method.heading) {
            left.extend(heading.params.iter().map(|param| param.ty));
            left.extend(heading.futures());
            left.extend(heading.signals.iter().flat_map(|signal| &signal.values));
        }
    }
    found
}
