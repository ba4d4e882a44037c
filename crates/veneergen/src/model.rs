//! The view of a template: the interface with names spelled, types resolved and numbers written
//! out.

use serde::{Deserialize, Serialize};

use bifrost_wire::interface::{Interface, Kind, Method, Shape, Signal, Type};
use bifrost_wire::operator;
use bifrost_wire::{MethodNumber, TypeNumber, builtin};

use crate::GenerateError;
use crate::naming::{NESTING_MAX, Names, Naming, method_name, type_names};

/// The whole model.
#[derive(Serialize, Debug)]
pub struct Model {
    /// The bytes of the digest.
    pub digest: Vec<u8>,
    /// The basic types, in the order null, bool, int, real, char, string.
    pub basic: Vec<BasicModel>,
    /// The built-in types that the veneer has stubs for, in the order of `wire::builtin`.
    pub builtin: Vec<BuiltinModel>,
    /// The numbers of the methods behind operators.
    pub operators: Vec<u32>,
    /// The types that get a stub.
    pub types: Vec<TypeModel>,
    /// The routines.
    pub routines: Vec<MethodModel>,
    /// The exceptions, each with other values once, by name.
    pub signals: Vec<SignalModel>,
    /// The names of exceptions, each once, in order: for languages with one class for each.
    pub exceptions: Vec<ExceptionModel>,
}

/// A name of exceptions.
#[derive(Serialize, Deserialize, Debug)]
pub struct ExceptionModel {
    /// The name of its class in the language.
    pub name: String,
    /// Its name in Theta.
    pub theta: String,
    /// The positions in [`Model::signals`] of the exceptions with this name, each with other
    /// values.
    pub signals: Vec<usize>,
    /// True if all of them have equally many values.
    pub same_count: bool,
}

/// An exception.
#[derive(Serialize, Deserialize, Debug)]
pub struct SignalModel {
    /// Its name in the language.
    pub name: String,
    /// Its name in Theta.
    pub theta: String,
    /// Its heading in Theta.
    pub heading: String,
    /// The types of its values, objects as stubs.
    pub values: Vec<ValueModel>,
}

/// A basic type.
#[derive(Serialize, Debug)]
pub struct BasicModel {
    /// Its number.
    pub number: u32,
    /// Its cells.
    pub cell: CellModel,
}

/// A built-in type; `u32::MAX` for the numbers of one that is missing.
#[derive(Serialize, Debug)]
pub struct BuiltinModel {
    /// Its number.
    pub number: u32,
    /// Its cells.
    pub cell: CellModel,
    /// The number of its first method.
    pub first: u32,
}

/// The numbers of a cell type; `u32::MAX` for those that are missing.
#[derive(Serialize, Deserialize, Debug)]
pub struct CellModel {
    /// Of the type.
    pub ty: u32,
    /// Of the methods.
    pub put: u32,
    /// Of the methods.
    pub full: u32,
    /// Of the methods.
    pub get: u32,
}

/// A type with a stub.
#[derive(Serialize, Deserialize, Debug)]
pub struct TypeModel {
    /// Its name in the language.
    pub name: String,
    /// Its name in Theta.
    pub theta: String,
    /// Its number.
    pub number: u32,
    /// The kind of type.
    pub kind: Kind,
    /// The program's own names for it, its equates; the first is the one that [`TypeModel::name`]
    /// comes from. Empty if it has none.
    pub aliases: Vec<String>,
    /// The type of the elements of a collection.
    pub element: Option<ValueModel>,
    /// The lines of its comment: plain text, which each language escapes.
    pub doc: Vec<String>,
    /// True if its objects never change.
    pub immutable: bool,
    /// The name of the sender, which sends to its objects without awaiting anything, if they are
    /// actors; else empty.
    pub sender: String,
    /// The names of all types above it, nearest first, `any` last.
    pub supertypes: Vec<String>,
    /// Its cells.
    pub cell: CellModel,
    /// The form of its contents; absent if it has none that cross by value.
    pub contents: Option<ContentsModel>,
    /// Its methods.
    pub methods: Vec<MethodModel>,
}

/// The contents of a type.
#[derive(Serialize, Deserialize, Debug)]
pub struct ContentsModel {
    /// Their type in the language.
    pub ty: String,
    /// `sequence`, `struct`, ...: the kind of type.
    pub kind: Kind,
    /// True if a client may give them where the type is wanted, and they stand for the objects
    /// inside other contents.
    pub by_value: bool,
    /// True if two of them can be compared: no part is an object.
    pub comparable: bool,
    /// The elements, the fields, or the tags.
    pub parts: Vec<PartModel>,
}

/// A part of contents.
#[derive(Serialize, Deserialize, Debug)]
pub struct PartModel {
    /// Its name in the language; empty for elements.
    pub name: String,
    /// The name of the field or tag in Theta; `key` and `value` of a map; empty for elements.
    pub theta: String,
    /// Its type.
    pub of: ValueModel,
    /// Its type as a stub: `i64`, `DataElem`.
    pub ty: String,
    /// Its type in contents: `i64`, `Vec<i64>`, `DataElem`.
    pub plain: String,
    /// True if it is only nil.
    pub nil: bool,
}

/// A method or routine.
#[derive(Serialize, Deserialize, Debug)]
pub struct MethodModel {
    /// Its name in the language.
    pub name: String,
    /// Its number.
    pub number: u32,
    /// Its name in Theta.
    pub theta: String,
    /// The heading in Theta.
    pub heading: String,
    /// The lines of its comment: plain text, which each language escapes.
    pub doc: Vec<String>,
    /// Its arguments.
    pub params: Vec<ParamModel>,
    /// The types of its results, or of the values that it yields.
    pub results: Vec<ValueModel>,
    /// True if it is an iterator.
    pub iterator: bool,
    /// The names of its exceptions in Theta.
    pub signals: Vec<String>,
    /// The positions of its exceptions in [`Model::signals`].
    pub raises: Vec<usize>,
}

/// An argument.
#[derive(Serialize, Deserialize, Debug)]
pub struct ParamModel {
    /// Its name in the language.
    pub name: String,
    /// Its type.
    #[serde(flatten)]
    pub ty: ValueModel,
}

/// The type of an argument or result.
#[derive(Serialize, Deserialize, Debug, Clone)]
pub struct ValueModel {
    /// In the language: `i64`, `DataElem`.
    pub ty: String,
    /// True if it is a basic value or string, which promises stand for.
    pub value: bool,
    /// The kind of type: `int`, `string`, `sequence`, `object`.
    pub kind: Kind,
    /// Its number.
    pub number: u32,
    /// Its name in Theta: `array[int]`.
    pub theta: String,
    /// Its type in contents: `Vec<i64>` for a `sequence[int]`.
    pub plain: String,
}

impl Model {
    /// Makes the model of an interface in a language.
    ///
    /// # Errors
    /// A basic type is missing.
    pub fn new(interface: &Interface, naming: &dyn Naming) -> Result<Model, GenerateError> {
        let builder = Builder {
            interface,
            naming,
            names: type_names(interface, naming),
            firsts: firsts(interface),
            signals: signals(interface),
        };
        let kinds = [
            (Kind::Null, "null"),
            (Kind::Bool, "bool"),
            (Kind::Int, "int"),
            (Kind::Real, "real"),
            (Kind::Char, "char"),
            (Kind::String, "string"),
        ];
        let mut basic = Vec::new();
        for (kind, name) in kinds {
            let number = interface.find_kind(kind, None).ok_or(GenerateError::NoBasicType(name))?;
            basic.push(BasicModel { number: number.0, cell: builder.cell(number) });
        }
        let builtin = builtin::TABLE.map(|row| row.find(interface));
        let with_stub = |t: &&(usize, &Type)| {
            let is_builtin = builtin.contains(&Some(TypeNumber(t.0 as u32)));
            !t.1.kind.is_value() && t.1.kind != Kind::Cell && !is_builtin
        };
        let types: Vec<(usize, &Type)> = interface.types.iter().enumerate().collect();
        let types =
            types.iter().filter(with_stub).map(|(i, ty)| builder.ty(TypeNumber(*i as u32), ty)).collect();
        let mut taken = Vec::new();
        let routines = interface.routines.iter().enumerate();
        let routines = routines.map(|(i, r)| builder.method(i as u32, r, &mut taken)).collect();
        let signals = builder.signals();
        let exceptions = builder.exceptions(&signals);
        Ok(Model {
            digest: interface.digest().to_vec(),
            basic,
            builtin: builtin.iter().map(|number| builder.builtin(*number)).collect(),
            operators: operator::numbers(interface).into_iter().map(|n| n.0).collect(),
            types,
            routines,
            signals,
            exceptions,
        })
    }
}

/// Returns the exceptions of all headings, by name, each with other values once.
fn signals(interface: &Interface) -> Vec<&Signal> {
    let methods = interface.types.iter().flat_map(|ty| &ty.methods).chain(&interface.routines);
    let mut all: Vec<&Signal> = methods.flat_map(|method| &method.heading.signals).collect();
    all.sort_by_key(|signal| (&signal.name, &signal.values));
    all.dedup();
    all
}

/// Returns the number of each type's first method.
fn firsts(interface: &Interface) -> Vec<u32> {
    let mut next = 0;
    let mut firsts = Vec::with_capacity(interface.types.len());
    for ty in &interface.types {
        firsts.push(next);
        next += ty.methods.len() as u32;
    }
    firsts
}

struct Builder<'i> {
    interface: &'i Interface,
    naming: &'i dyn Naming,
    names: Vec<Names>,
    firsts: Vec<u32>,
    signals: Vec<&'i Signal>,
}

impl Builder<'_> {
    fn builtin(&self, number: Option<TypeNumber>) -> BuiltinModel {
        let none = operator::NO_METHOD.0;
        match number {
            Some(number) => {
                BuiltinModel { number: number.0, cell: self.cell(number), first: self.firsts[number.index()] }
            }
            None => {
                let cell = CellModel { ty: none, put: none, full: none, get: none };
                BuiltinModel { number: none, cell, first: none }
            }
        }
    }

    fn cell(&self, element: TypeNumber) -> CellModel {
        let none = operator::NO_METHOD.0;
        let Some(ty) = self.interface.find_kind(Kind::Cell, Some(element)) else {
            return CellModel { ty: none, put: none, full: none, get: none };
        };
        let method = |name: &str| {
            let methods = &self.interface.types[ty.index()].methods;
            let position = methods.iter().position(|m| m.name == name);
            position.map_or(none, |p| self.firsts[ty.index()] + p as u32)
        };
        CellModel { ty: ty.0, put: method("put"), full: method("full"), get: method("get") }
    }

    fn ty(&self, number: TypeNumber, ty: &Type) -> TypeModel {
        // Stubs of actors have a method of that name themselves.
        let mut taken = if ty.actor { vec![self.naming.lower("send")] } else { Vec::new() };
        let contents = self.contents(number, ty);
        taken.extend(contents.is_some().then(|| self.naming.lower("get")));
        let first = self.firsts[number.index()];
        let methods = ty.methods.iter().enumerate();
        TypeModel {
            name: self.names[number.index()].stub.clone(),
            theta: ty.name.clone(),
            number: number.0,
            kind: ty.kind,
            aliases: ty.names.clone(),
            element: ty.element.map(|element| self.value(element)),
            doc: lines(&ty.doc),
            immutable: ty.immutable,
            sender: if ty.actor { self.sender(number) } else { String::new() },
            supertypes: self.supertypes(number),
            cell: self.cell(number),
            contents,
            methods: methods.map(|(i, m)| self.method(first + i as u32, m, &mut taken)).collect(),
        }
    }

    /// Returns a name for the sender to the actors of a type, that no type has.
    fn sender(&self, number: TypeNumber) -> String {
        let mut name = format!("{}Send", self.names[number.index()].stub);
        while self.names.iter().any(|names| names.stub == name || names.contents == name) {
            name.push('_');
        }
        name
    }

    /// Returns all types above one, each once.
    fn supertypes(&self, number: TypeNumber) -> Vec<String> {
        let mut above: Vec<TypeNumber> = vec![number];
        let mut next = 0;
        while let Some(ty) = above.get(next).copied() {
            for sup in &self.interface.types[ty.index()].supertypes {
                if !above.contains(sup) {
                    above.push(*sup);
                }
            }
            next += 1;
        }
        let any = self.interface.find_kind(Kind::Any, None).filter(|any| !above.contains(any));
        above[1..].iter().chain(&any).map(|t| self.names[t.index()].stub.clone()).collect()
    }

    fn value(&self, number: TypeNumber) -> ValueModel {
        let kind = self.interface.ty(number).map_or(Kind::Any, |t| t.kind);
        ValueModel {
            ty: self.names[number.index()].stub.clone(),
            value: kind.is_value(),
            kind,
            number: number.0,
            theta: self.interface.type_name(number).to_owned(),
            plain: self.plain(number, 0),
        }
    }

    /// Returns the exceptions of all headings. One of the same name with other values has `_`
    /// behind its name.
    fn signals(&self) -> Vec<SignalModel> {
        let mut taken = Vec::new();
        let signals = self.signals.iter().map(|signal| {
            let mut name = self.naming.upper(&signal.name.split('_').collect::<Vec<_>>());
            while taken.contains(&name) {
                name.push('_');
            }
            taken.push(name.clone());
            let types: Vec<&str> = signal.values.iter().map(|ty| self.interface.type_name(*ty)).collect();
            let heading = match types.as_slice() {
                [] => signal.name.clone(),
                types => format!("{} ({})", signal.name, types.join(", ")),
            };
            let values = signal.values.iter().map(|ty| self.value(*ty)).collect();
            SignalModel { name, theta: signal.name.clone(), heading, values }
        });
        signals.collect()
    }

    /// Returns the position of an exception among all.
    fn position(&self, signal: &Signal) -> Option<usize> {
        self.signals.iter().position(|one| *one == signal)
    }

    /// Returns the names of the exceptions, which stand in order.
    fn exceptions(&self, signals: &[SignalModel]) -> Vec<ExceptionModel> {
        let mut exceptions: Vec<ExceptionModel> = Vec::new();
        for (position, signal) in signals.iter().enumerate() {
            match exceptions.last_mut() {
                Some(last) if last.theta == signal.theta => {
                    let first = last.signals.first().and_then(|first| signals.get(*first));
                    last.same_count &= first.is_some_and(|first| first.values.len() == signal.values.len());
                    last.signals.push(position);
                }
                _ => exceptions.push(ExceptionModel {
                    // The first one's: plain, unless two names are spelled alike.
                    name: signal.name.clone(),
                    theta: signal.theta.clone(),
                    signals: vec![position],
                    same_count: true,
                }),
            }
        }
        exceptions
    }

    /// Returns the type of a part in contents.
    fn plain(&self, number: TypeNumber, depth: usize) -> String {
        let names = &self.names[number.index()];
        let Some(ty) = self.interface.ty(number).filter(|_| depth < NESTING_MAX) else {
            return names.stub.clone();
        };
        match (ty.kind, ty.element, ty.fields.as_slice()) {
            (Kind::Sequence, Some(element), _) => self.naming.list(&self.plain(element, depth + 1)),
            (Kind::Maybe, _, [_, some]) => self.naming.optional(&self.plain(some.ty, depth + 1)),
            (Kind::Struct | Kind::Oneof, ..) => names.contents.clone(),
            _ => names.stub.clone(),
        }
    }

    /// True if values of a part can be compared.
    fn is_comparable(&self, number: TypeNumber, depth: usize) -> bool {
        let Some(ty) = self.interface.ty(number).filter(|_| depth < NESTING_MAX) else { return false };
        match ty.kind {
            Kind::Sequence => ty.element.is_some_and(|element| self.is_comparable(element, depth + 1)),
            Kind::Struct | Kind::Oneof | Kind::Maybe => {
                ty.fields.iter().all(|field| self.is_comparable(field.ty, depth + 1))
            }
            kind => kind.is_value(),
        }
    }

    fn contents(&self, number: TypeNumber, ty: &Type) -> Option<ContentsModel> {
        let shape = ty.kind.shape()?;
        let element = ty.element.map(|ty| ("", ty));
        let mut taken = Vec::new();
        let mut spell = |name: &str| {
            let mut name = match shape {
                Shape::Choice => self.naming.upper(&name.split('_').collect::<Vec<_>>()),
                _ => self.naming.lower(name),
            };
            while taken.contains(&name) {
                name.push('_');
            }
            taken.push(name.clone());
            name
        };
        let parts: Vec<(&str, TypeNumber)> = match shape {
            Shape::Elements => element.into_iter().collect(),
            _ => ty.fields.iter().map(|field| (field.name.as_str(), field.ty)).collect(),
        };
        let whole = match (shape, parts.as_slice()) {
            (Shape::Elements, [(_, element)]) => self.naming.list(&self.plain(*element, 0)),
            (Shape::Pairs, [(_, key), (_, value)]) => {
                self.naming.pairs(&self.plain(*key, 0), &self.plain(*value, 0))
            }
            (Shape::Elements | Shape::Pairs, _) => return None,
            (Shape::Choice, _) if ty.kind == Kind::Maybe => self.plain(number, 0),
            (Shape::Fields | Shape::Choice, _) => self.names[number.index()].contents.clone(),
        };
        let null = self.interface.find_kind(Kind::Null, None);
        Some(ContentsModel {
            ty: whole,
            kind: ty.kind,
            by_value: ty.kind.is_compound(),
            comparable: parts.iter().all(|(_, ty)| self.is_comparable(*ty, 0)),
            parts: parts
                .into_iter()
                .map(|(theta, ty)| PartModel {
                    name: if theta.is_empty() { String::new() } else { spell(theta) },
                    theta: theta.to_owned(),
                    of: self.value(ty),
                    ty: self.names[ty.index()].stub.clone(),
                    plain: self.plain(ty, 0),
                    nil: Some(ty) == null,
                })
                .collect(),
        })
    }

    fn method(&self, number: u32, method: &Method, taken: &mut Vec<String>) -> MethodModel {
        let name = method_name(method, self.naming, taken);
        let mut names = Vec::new();
        let params = method.heading.params.iter().map(|p| {
            let mut name = self.naming.lower(&p.name);
            while names.contains(&name) {
                name.push('_');
            }
            names.push(name.clone());
            ParamModel { name, ty: self.value(p.ty) }
        });
        MethodModel {
            params: params.collect(),
            name,
            theta: method.name.clone(),
            number: MethodNumber(number).0,
            heading: self.interface.heading(method),
            doc: lines(&method.doc),
            results: method.heading.futures().iter().map(|t| self.value(*t)).collect(),
            iterator: method.heading.yields.is_some(),
            signals: method.heading.signals.iter().map(|s| s.name.clone()).collect(),
            raises: method.heading.signals.iter().filter_map(|signal| self.position(signal)).collect(),
        }
    }
}

fn lines(doc: &str) -> Vec<String> {
    doc.trim().lines().map(|l| l.trim().to_owned()).collect()
}
