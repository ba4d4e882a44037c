//! The view of a template: the interface with names spelled, types resolved and numbers written
//! out.

use serde::{Deserialize, Serialize};

use bifrost_wire::interface::{Interface, Kind, Method, Type};
use bifrost_wire::operator;
use bifrost_wire::{MethodNumber, TypeNumber, builtin};

use crate::GenerateError;
use crate::naming::{Naming, method_name, type_names};

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
#[derive(Serialize, Debug)]
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
#[derive(Serialize, Debug)]
pub struct TypeModel {
    /// Its name in the language.
    pub name: String,
    /// Its name in Theta.
    pub theta: String,
    /// Its number.
    pub number: u32,
    /// The lines of its comment.
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
    /// Its methods.
    pub methods: Vec<MethodModel>,
}

/// A method or routine.
#[derive(Serialize, Deserialize, Debug)]
pub struct MethodModel {
    /// Its name in the language.
    pub name: String,
    /// Its number.
    pub number: u32,
    /// The heading in Theta.
    pub heading: String,
    /// The lines of its comment.
    pub doc: Vec<String>,
    /// Its arguments.
    pub params: Vec<ParamModel>,
    /// The types of its results, or of the values that it yields.
    pub results: Vec<ValueModel>,
    /// True if it is an iterator.
    pub iterator: bool,
    /// The names of its exceptions.
    pub signals: Vec<String>,
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
}

impl Model {
    /// Makes the model of an interface in a language.
    ///
    /// # Errors
    /// A basic type is missing.
    pub fn new(interface: &Interface, naming: &dyn Naming) -> Result<Model, GenerateError> {
        let builder =
            Builder { interface, naming, names: type_names(interface, naming), firsts: firsts(interface) };
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
        Ok(Model {
            digest: interface.digest().to_vec(),
            basic,
            builtin: builtin.iter().map(|number| builder.builtin(*number)).collect(),
            operators: operator::numbers(interface).into_iter().map(|n| n.0).collect(),
            types,
            routines,
        })
    }
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
    names: Vec<String>,
    firsts: Vec<u32>,
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
        let first = self.firsts[number.index()];
        let methods = ty.methods.iter().enumerate();
        TypeModel {
            name: self.names[number.index()].clone(),
            theta: ty.name.clone(),
            number: number.0,
            doc: lines(&ty.doc),
            immutable: ty.immutable,
            sender: if ty.actor { self.sender(number) } else { String::new() },
            supertypes: self.supertypes(number),
            cell: self.cell(number),
            methods: methods.map(|(i, m)| self.method(first + i as u32, m, &mut taken)).collect(),
        }
    }

    /// Returns a name for the sender to the actors of a type, that no type has.
    fn sender(&self, number: TypeNumber) -> String {
        let mut name = format!("{}Send", self.names[number.index()]);
        while self.names.contains(&name) {
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
        above[1..].iter().chain(&any).map(|t| self.names[t.index()].clone()).collect()
    }

    fn value(&self, number: TypeNumber) -> ValueModel {
        let kind = self.interface.ty(number).map_or(Kind::Any, |t| t.kind);
        ValueModel { ty: self.names[number.index()].clone(), value: kind.is_value() }
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
            number: MethodNumber(number).0,
            heading: self.interface.heading(method),
            doc: lines(&method.doc),
            results: method.heading.futures().iter().map(|t| self.value(*t)).collect(),
            iterator: method.heading.yields.is_some(),
            signals: method.heading.signals.iter().map(|s| s.name.clone()).collect(),
        }
    }
}

fn lines(doc: &str) -> Vec<String> {
    doc.trim().lines().map(|l| l.trim().to_owned()).collect()
}
