//! The interface description: the types, methods and routines of a server, and the numbers by which
//! commands name them.
//!
//! `describe` answers with it as JSON, `bifrost veneer` makes stubs from it. Types, methods and
//! routines are numbered by position: the n-th type; the n-th method, counted through all types in
//! order; the n-th routine. Well-known objects are not in it: they are data, not interface. Neither
//! are methods and routines that take or give routine values (`proc`, `iter`): those do not cross.
//! Nor are routines that the program does not mark `remote`, `setup`, `start` and `main`, which run
//! the program itself, and migrations.
//!
//! Read [`Interface`] first; [`Numbering`] finds types, methods and routines by name or number.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};

use crate::Digest;
use crate::ids::{MethodNumber, RoutineNumber, TypeNumber};

mod conform;

pub use conform::{Mapping, Missing, conforms};

/// The interface of a server.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Interface {
    /// All types that clients may see; a type's number is its position.
    pub types: Vec<Type>,
    /// All routines that clients may call; a routine's number is its position.
    pub routines: Vec<Routine>,
}

/// The kind of a type.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Only `nil`.
    Null,
    /// Truth values.
    Bool,
    /// 64-bit integers.
    Int,
    /// 64-bit floating point.
    Real,
    /// Unicode scalar values.
    Char,
    /// Texts.
    String,
    /// Bytes.
    Bytes,
    /// The type above all others.
    Any,
    /// `array[T]`
    Array,
    /// `sequence[T]`
    Sequence,
    /// `list[T]`
    List,
    /// `cell[T]`
    Cell,
    /// `vector[T]`
    Vector,
    /// `map[K, V]`
    Map,
    /// `maybe[T]`
    Maybe,
    /// `record[a: T, ...]`
    Record,
    /// `struct[a: T, ...]`
    Struct,
    /// `oneof[a: T, ...]`
    Oneof,
    /// A user's type.
    Object,
}

impl Kind {
    /// Returns true if values of it cross as themselves and not as handles.
    pub fn is_value(self) -> bool {
        matches!(
            self,
            Kind::Null | Kind::Bool | Kind::Int | Kind::Real | Kind::Char | Kind::String | Kind::Bytes
        )
    }
}

/// The form of the items of a compound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// The elements.
    Elements,
    /// Keys and values, in turn.
    Pairs,
    /// The fields.
    Fields,
    /// The number of a tag, and its value.
    Choice,
}

impl Kind {
    /// Returns the form of the items of a compound of this kind; nothing for objects that do not
    /// cross by value.
    pub fn shape(self) -> Option<Shape> {
        match self {
            Kind::Sequence | Kind::Array | Kind::Vector | Kind::List => Some(Shape::Elements),
            Kind::Map => Some(Shape::Pairs),
            Kind::Record | Kind::Struct => Some(Shape::Fields),
            Kind::Oneof | Kind::Maybe => Some(Shape::Choice),
            _ => None,
        }
    }

    /// Returns true if objects of this kind cross by value wherever they are a part of one, and a
    /// client may give them by their items: a copy is as good as the object.
    pub fn is_compound(self) -> bool {
        matches!(self, Kind::Sequence | Kind::Struct | Kind::Oneof | Kind::Maybe)
    }
}

/// A type.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Type {
    /// Its name as Theta writes it: `array[int]`.
    pub name: String,
    /// Other names that the program has for it: its equates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// The kind of type.
    pub kind: Kind,
    /// The type argument of a built-in type that has one: that of the elements of an array, or of
    /// the contents of a cell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub element: Option<TypeNumber>,
    /// The fields of a record or struct, the tags of a oneof or `maybe`, or `key` and `value` of a
    /// map, each with its type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<Param>,
    /// True if its objects never change.
    #[serde(default, skip_serializing_if = "is_false")]
    pub immutable: bool,
    /// True if its objects are actors: a call of a method is a message, and its result the answer.
    #[serde(default, skip_serializing_if = "is_false")]
    pub actor: bool,
    /// The declared supertypes; `any` is not listed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub supertypes: Vec<TypeNumber>,
    /// All methods, inherited ones included.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub methods: Vec<Method>,
    /// The comment after its heading.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub doc: String,
}

/// A method, or an iterator of a type.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Method {
    /// Its name.
    pub name: String,
    /// Its heading.
    #[serde(flatten)]
    pub heading: Heading,
    /// The comment after its heading.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub doc: String,
}

/// A routine has the same parts as a method.
pub type Routine = Method;

/// The arguments and results of a call.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Heading {
    /// The arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub params: Vec<Param>,
    /// The results of a procedure.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<TypeNumber>,
    /// The types that an iterator yields at each step; absent for a procedure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub yields: Option<Vec<TypeNumber>>,
    /// The exceptions; `failure(string)` is always possible and not listed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signals: Vec<Signal>,
}

impl Heading {
    /// Returns the number of future numbers that a call of it takes.
    pub fn numbers(&self) -> u32 {
        self.yields.as_ref().unwrap_or(&self.results).len().max(1) as u32
    }

    /// Returns the types of the futures that a call of it makes: its results, or its yields.
    pub fn futures(&self) -> &[TypeNumber] {
        self.yields.as_ref().unwrap_or(&self.results)
    }
}

/// A named argument.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Param {
    /// Its name.
    pub name: String,
    /// Its type.
    #[serde(rename = "type")]
    pub ty: TypeNumber,
}

/// An exception of a heading.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Signal {
    /// Its name.
    pub name: String,
    /// The types of its values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<TypeNumber>,
}

fn is_false(b: &bool) -> bool {
    !b
}

/// The reason why a description cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum InterfaceError {
    /// It is no JSON, or not of this form.
    #[error("the interface description cannot be read: {0}")]
    Json(#[from] serde_json::Error),
    /// A number in it names nothing.
    #[error("the interface description names type {number}, but has {count} types")]
    NoSuchType {
        /// The number.
        number: u32,
        /// The number of types.
        count: usize,
    },
    /// The supertypes form a circle.
    #[error("type `{name}` is its own supertype")]
    Cycle {
        /// A type of the circle.
        name: String,
    },
}

impl Interface {
    /// Reads a description and checks that all its numbers name something.
    ///
    /// # Errors
    /// See [`InterfaceError`].
    pub fn from_json(json: &[u8]) -> Result<Interface, InterfaceError> {
        let interface: Interface = serde_json::from_slice(json)?;
        interface.check()?;
        Ok(interface)
    }

    /// Returns the canonical JSON: one line, fields in the order of the structs, empty ones left
    /// out.
    pub fn to_json(&self) -> Vec<u8> {
        // Plain structs of strings and numbers: there is nothing that could fail.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Returns the canonical JSON with a line for each type, method and routine, so that changes
    /// can be read.
    pub fn to_json_lines(&self) -> String {
        let json = String::from_utf8(self.to_json()).unwrap_or_default();
        let mut out = String::with_capacity(json.len() + json.len() / 8);
        // For each open bracket: true if it holds entries with a line of their own.
        let mut open: Vec<bool> = Vec::new();
        let (mut in_text, mut is_escaped) = (false, false);
        for (at, c) in json.char_indices() {
            if in_text {
                in_text = c != '"' || is_escaped;
                is_escaped = c == '\\' && !is_escaped;
                out.push(c);
                continue;
            }
            let is_line = open.last() == Some(&true);
            let newline = |out: &mut String, depth: usize| {
                out.push('\n');
                (0..depth).for_each(|_| out.push(' '));
            };
            let lines = open.iter().filter(|is_line| **is_line).count();
            match c {
                '"' => in_text = true,
                '{' if is_line => newline(&mut out, lines),
                ']' if is_line && !out.ends_with('[') => newline(&mut out, lines - 1),
                _ => {}
            }
            match c {
                '[' => {
                    let key = out.rsplit('"').nth(1).unwrap_or_default();
                    open.push(["types", "methods", "routines"].contains(&key) && json[..at].ends_with(':'));
                }
                '{' => open.push(false),
                ']' | '}' => drop(open.pop()),
                _ => {}
            }
            out.push(c);
        }
        out.push('\n');
        out
    }

    /// Returns the digest that tells one interface from another: BLAKE3 of the canonical JSON
    /// without the comments, so that a better comment does not make old stubs strangers.
    pub fn digest(&self) -> Digest {
        let mut bare = self.clone();
        for ty in &mut bare.types {
            ty.doc.clear();
            ty.methods.iter_mut().for_each(|m| m.doc.clear());
        }
        bare.routines.iter_mut().for_each(|r| r.doc.clear());
        *blake3::hash(&bare.to_json()).as_bytes()
    }

    fn check(&self) -> Result<(), InterfaceError> {
        let count = self.types.len();
        let headings = self.types.iter().flat_map(|t| &t.methods).chain(&self.routines).map(|m| &m.heading);
        let mut numbers: Vec<TypeNumber> = Vec::new();
        for heading in headings {
            numbers.extend(heading.params.iter().map(|p| p.ty));
            numbers.extend(heading.futures());
            numbers.extend(heading.signals.iter().flat_map(|s| &s.values));
        }
        numbers.extend(self.types.iter().flat_map(|t| t.supertypes.iter().chain(&t.element)));
        numbers.extend(self.types.iter().flat_map(|t| t.fields.iter().map(|field| field.ty)));
        if let Some(bad) = numbers.iter().find(|n| n.index() >= count) {
            return Err(InterfaceError::NoSuchType { number: bad.0, count });
        }
        self.check_supertypes()
    }

    /// Finds a circle of supertypes by taking away, again and again, types whose supertypes are all
    /// gone.
    fn check_supertypes(&self) -> Result<(), InterfaceError> {
        let mut left: Vec<usize> = (0..self.types.len()).collect();
        let mut gone = vec![false; self.types.len()];
        loop {
            let before = left.len();
            left.retain(|t| {
                let free = self.types[*t].supertypes.iter().all(|s| gone[s.index()]);
                gone[*t] |= free;
                !free
            });
            match left.first() {
                None => return Ok(()),
                Some(t) if left.len() == before => {
                    return Err(InterfaceError::Cycle { name: self.types[*t].name.clone() });
                }
                Some(_) => {}
            }
        }
    }

    /// Returns a type, if the number names one.
    pub fn ty(&self, number: TypeNumber) -> Option<&Type> {
        self.types.get(number.index())
    }

    /// Returns the name of a type, `?` if the number names none.
    pub fn type_name(&self, number: TypeNumber) -> &str {
        self.ty(number).map_or("?", |t| &t.name)
    }

    /// Returns the number of the first type of that name.
    pub fn find_type(&self, name: &str) -> Option<TypeNumber> {
        let own = self.types.iter().position(|t| t.name == name);
        let found = own.or_else(|| self.types.iter().position(|t| t.names.iter().any(|n| n == name)));
        found.map(|n| TypeNumber(n as u32))
    }

    /// Returns the number of the first type of that kind and element.
    pub fn find_kind(&self, kind: Kind, element: Option<TypeNumber>) -> Option<TypeNumber> {
        let found = self.types.iter().position(|t| t.kind == kind && t.element == element);
        found.map(|n| TypeNumber(n as u32))
    }

    /// Returns the number of the first routine of that name.
    pub fn find_routine(&self, name: &str) -> Option<RoutineNumber> {
        self.routines.iter().position(|r| r.name == name).map(|n| RoutineNumber(n as u32))
    }

    /// Returns the number of a type's first method: how many methods the types before it have.
    ///
    /// Cost: walks the types; see [`Numbering`] for many look-ups.
    pub fn first_method(&self, ty: TypeNumber) -> MethodNumber {
        MethodNumber(self.types.iter().take(ty.index()).map(|t| t.methods.len() as u32).sum())
    }

    /// Returns true if `sub` is `sup` or lies below it. As in Theta, everything is below `any`; but
    /// values do not cross where `any` is expected.
    pub fn is_subtype(&self, sub: TypeNumber, sup: TypeNumber) -> bool {
        sub == sup
            || self.ty(sup).is_some_and(|t| t.kind == Kind::Any)
            || self.supertypes(sub).any(|above| above == sup)
    }

    /// Returns a type and all types above it, each once; `any` only where it is declared.
    pub fn supertypes(&self, ty: TypeNumber) -> impl Iterator<Item = TypeNumber> {
        let (mut seen, mut left) = (HashSet::from([ty]), vec![ty]);
        std::iter::from_fn(move || {
            let next = left.pop()?;
            let above = self.ty(next).map_or(&[][..], |t| &t.supertypes);
            left.extend(above.iter().copied().filter(|number| seen.insert(*number)));
            Some(next)
        })
    }

    /// Returns the heading as Theta writes it:
    /// `fetch (user: string) returns (DataElem) signals (not_found)`.
    pub fn heading(&self, method: &Method) -> String {
        let list = |ids: &[TypeNumber]| ids.iter().map(|t| self.type_name(*t)).collect::<Vec<_>>().join(", ");
        let params: Vec<String> =
            method.heading.params.iter().map(|p| format!("{}: {}", p.name, self.type_name(p.ty))).collect();
        let mut out = format!("{} ({})", method.name, params.join(", "));
        if let Some(yields) = &method.heading.yields {
            out += &format!(" yields ({})", list(yields));
        } else if !method.heading.results.is_empty() {
            out += &format!(" returns ({})", list(&method.heading.results));
        }
        if !method.heading.signals.is_empty() {
            let signals = method.heading.signals.iter().map(|s| match s.values.as_slice() {
                [] => s.name.clone(),
                values => format!("{} ({})", s.name, list(values)),
            });
            out += &format!(" signals ({})", signals.collect::<Vec<_>>().join(", "));
        }
        out
    }
}

/// An interface with its numbers turned round: from method numbers to methods, from names to
/// numbers.
#[derive(Clone, Debug)]
pub struct Numbering {
    interface: Interface,
    digest: Digest,
    /// The type of each method number.
    owners: Vec<TypeNumber>,
    /// The first method number of each type.
    firsts: Vec<u32>,
    types: HashMap<String, TypeNumber>,
    methods: HashMap<(TypeNumber, String), MethodNumber>,
    routines: HashMap<String, RoutineNumber>,
}

impl Numbering {
    /// Numbers an interface.
    pub fn new(interface: Interface) -> Numbering {
        let mut numbering = Numbering {
            digest: interface.digest(),
            owners: Vec::new(),
            firsts: Vec::new(),
            types: HashMap::new(),
            methods: HashMap::new(),
            routines: HashMap::new(),
            interface: Interface::default(),
        };
        for (t, ty) in interface.types.iter().enumerate() {
            let number = TypeNumber(t as u32);
            numbering.types.entry(ty.name.clone()).or_insert(number);
            numbering.firsts.push(numbering.owners.len() as u32);
            for method in &ty.methods {
                let key = (number, method.name.clone());
                numbering.methods.entry(key).or_insert(MethodNumber(numbering.owners.len() as u32));
                numbering.owners.push(number);
            }
        }
        // A name of its own comes before others.
        for (t, ty) in interface.types.iter().enumerate() {
            for name in &ty.names {
                numbering.types.entry(name.clone()).or_insert(TypeNumber(t as u32));
            }
        }
        for (r, routine) in interface.routines.iter().enumerate() {
            numbering.routines.entry(routine.name.clone()).or_insert(RoutineNumber(r as u32));
        }
        numbering.interface = interface;
        numbering
    }

    /// Returns the interface.
    pub fn interface(&self) -> &Interface {
        &self.interface
    }

    /// Returns its digest, computed once.
    pub fn digest(&self) -> &Digest {
        &self.digest
    }

    /// Returns the number of methods in all types together.
    pub fn method_count(&self) -> usize {
        self.owners.len()
    }

    /// Returns the type and the method of a number.
    pub fn method(&self, number: MethodNumber) -> Option<(TypeNumber, &Method)> {
        let owner = *self.owners.get(number.index())?;
        let first = *self.firsts.get(owner.index())?;
        Some((owner, self.interface.ty(owner)?.methods.get((number.0 - first) as usize)?))
    }

    /// Returns the routine of a number.
    pub fn routine(&self, number: RoutineNumber) -> Option<&Routine> {
        self.interface.routines.get(number.index())
    }

    /// Returns the number of the type of that name.
    pub fn find_type(&self, name: &str) -> Option<TypeNumber> {
        self.types.get(name).copied()
    }

    /// Returns the number of a type's method of that name.
    pub fn find_method(&self, ty: TypeNumber, name: &str) -> Option<MethodNumber> {
        self.methods.get(&(ty, name.to_owned())).copied()
    }

    /// Returns the number of the routine of that name.
    pub fn find_routine(&self, name: &str) -> Option<RoutineNumber> {
        self.routines.get(name).copied()
    }
}
