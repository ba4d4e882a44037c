//! Everything that a server has loaded: types, classes, routines, and their code.

use cranelift_entity::{PrimaryMap, entity_impl};
use std::collections::HashMap;

use crate::builtin;
use crate::places::{Text, TextId};
use crate::stmt::{Callee, Func, FuncId};
use crate::types::{MethodId, MethodRef, Signature, TypeId, TypeKind, Types};

/// A class.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClassId(u32);
entity_impl!(ClassId, "class");

/// A stand-alone routine or an instantiation of a generic one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RoutineId(u32);
entity_impl!(RoutineId, "routine");

/// A string of the program's text.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Literal(u32);
entity_impl!(Literal, "literal");

/// The name of a function written in Rust, under which the runtime finds it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NativeId(u32);
entity_impl!(NativeId, "native");

/// An instance variable, a field of a record or struct, or a tag of a oneof.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Its static type.
    pub ty: TypeId,
}

/// An implementation of types.
#[derive(Clone, Debug)]
pub struct Class {
    /// Its name.
    pub name: String,
    /// Its own type, of kind [`TypeKind::Class`]. The supertypes of that type are the types that
    /// the class implements.
    pub ty: TypeId,
    /// The class that its code is inherited from; the subclass's instance variables begin with the
    /// superclass's.
    pub superclass: Option<ClassId>,
    /// All instance variables, inherited ones first.
    pub fields: Vec<Field>,
    /// The body of each method of the class's own type, in that type's order; inherited bodies
    /// included.
    pub bodies: Vec<Body>,
    /// The creators and guards of an actor's class, if it is one.
    pub actor: Option<Actor>,
}

/// The parts that only the class of an actor has.
#[derive(Clone, Debug, Default)]
pub struct Actor {
    /// True if its state never changes, so that its methods may overlap and run anywhere.
    pub functional: bool,
    /// True if a method that fails ends the actor: `stop when failure`.
    pub stops_on_failure: bool,
    /// Its creators: methods that fill the instance variables of a new actor.
    pub creators: Vec<FuncId>,
    /// Its constraints: a message for the method stays queued while the function, a method with the
    /// message's arguments, gives `true`.
    pub guards: Vec<(MethodId, FuncId)>,
    /// The Rust name of a class whose actors are values of Rust. It has no variables and no guards,
    /// one creator without code, and only native methods: messages run on tasks.
    pub native: Option<String>,
}

/// The code of a routine or method.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Body {
    /// Theta code.
    Func(FuncId),
    /// Rust code, registered under a name: one of [`Program::natives`].
    Native(NativeId),
}

/// A stand-alone routine.
#[derive(Clone, Debug)]
pub struct Routine {
    /// Its name, `array_new[int]` for an instantiation.
    pub name: String,
    /// Its heading.
    pub signature: Signature,
    /// The code that it runs.
    pub body: Body,
    /// The types it was instantiated with.
    pub type_args: Vec<TypeId>,
    /// True if clients may call it: it is marked `remote`.
    pub public: bool,
    /// The comment after its heading.
    pub doc: String,
}

impl Routine {
    /// Returns its name without the path of its file.
    fn own_name(&self) -> &str {
        self.name.rsplit('.').next().unwrap_or(&self.name)
    }

    /// Returns true if its name is that of a migration, which makes objects of their state before
    /// their class was changed.
    pub fn is_migration(&self) -> bool {
        self.own_name().starts_with("migrate_")
    }

    /// Returns true if it is one that runs the program itself, which nobody else calls: `setup` and
    /// `start` without arguments, and `main`, also those that are called by the path of their file.
    pub fn is_entry(&self) -> bool {
        let name = self.own_name();
        matches!(self.body, Body::Func(_))
            && match name {
                "main" => true,
                "setup" | "start" => self.signature.params.is_empty(),
                _ => false,
            }
    }
}

/// Everything that was loaded. Complete and unchanging once a server runs it.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// All types.
    pub types: Types,
    /// All classes.
    pub classes: PrimaryMap<ClassId, Class>,
    /// All routines.
    pub routines: PrimaryMap<RoutineId, Routine>,
    /// All code.
    pub funcs: PrimaryMap<FuncId, Func>,
    /// The texts that the code was written in.
    pub texts: PrimaryMap<TextId, Text>,
    /// The strings that the code names.
    pub literals: PrimaryMap<Literal, String>,
    /// The names of the native functions that routines and methods run.
    pub natives: PrimaryMap<NativeId, String>,
    /// The Rust names of classes whose objects are values of Rust. Their only instance variable is
    /// the runtime's.
    pub native_classes: HashMap<ClassId, String>,
    /// Names of types besides their own: the public equates.
    pub type_names: Vec<(String, TypeId)>,
    /// The methods that append to the columns of clients' tables, each with the type of the
    /// elements; see [`Program::add_for_clients`].
    pub columns: Vec<(TypeId, MethodRef)>,
    literal_ids: HashMap<String, Literal>,
    native_ids: HashMap<String, NativeId>,
    routine_ids: HashMap<String, RoutineId>,
    /// The classes of tagged types' objects; see [`crate::tagged`].
    pub(crate) tagged: HashMap<TypeId, Vec<ClassId>>,
    /// The classes of boxed basic values; see [`crate::boxed`].
    pub(crate) boxes: HashMap<TypeId, ClassId>,
    /// The classes of routine values, by callee and by the operands that they hold.
    pub(crate) bound: HashMap<(Callee, Vec<bool>), ClassId>,
    /// The classes of routine values that stand for another routine type: the type that they hold,
    /// and their own.
    pub(crate) adapters: HashMap<(TypeId, TypeId), ClassId>,
}

impl Program {
    /// Returns a program with the built-in types and nothing else.
    pub fn new() -> Program {
        Program::default()
    }

    /// Returns the id of a string, made at its first use.
    pub fn literal(&mut self, text: &str) -> Literal {
        if let Some(id) = self.literal_ids.get(text) {
            return *id;
        }
        let id = self.literals.push(text.to_owned());
        self.literal_ids.insert(text.to_owned(), id);
        id
    }

    /// Returns the id of a native function's name, made at its first use.
    pub fn native(&mut self, name: &str) -> NativeId {
        if let Some(id) = self.native_ids.get(name) {
            return *id;
        }
        let id = self.natives.push(name.to_owned());
        self.native_ids.insert(name.to_owned(), id);
        id
    }

    /// Returns the name of the native function that a body is.
    pub fn native_name(&self, body: Body) -> Option<&str> {
        match body {
            Body::Native(id) => self.natives.get(id).map(String::as_str),
            Body::Func(_) => None,
        }
    }

    /// Adds a routine. A later one of the same name hides the earlier from
    /// [`Program::find_routine`].
    pub fn add_routine(&mut self, routine: Routine) -> RoutineId {
        let name = routine.name.clone();
        let id = self.routines.push(routine);
        self.routine_ids.insert(name, id);
        id
    }

    /// Returns the routine of that name.
    pub fn find_routine(&self, name: &str) -> Option<RoutineId> {
        self.routine_ids.get(name).copied()
    }

    /// Returns the class of that name.
    pub fn find_class(&self, name: &str) -> Option<ClassId> {
        self.classes.iter().find(|(_, c)| c.name == name).map(|(id, _)| id)
    }

    /// Returns the heading of the callee; `within` is the function that contains the call. `None`
    /// when a number in the callee is out of range.
    pub fn signature<'a>(&'a self, callee: Callee, within: &'a Func) -> Option<&'a Signature> {
        match callee {
            Callee::Method(m) => {
                if m.ty.as_u32() as usize >= self.types.len() {
                    return None;
                }
                self.types.def(m.ty).methods.get(m.method).map(|m| &m.signature)
            }
            Callee::Routine(r) => self.routines.get(r).map(|r| &r.signature),
            Callee::Procedure(i) => within.procedures.get(i as usize).map(|f| &f.signature),
            Callee::Itself => Some(&within.signature),
        }
    }

    /// Returns the name of the callee, for messages.
    pub fn callee_name(&self, callee: Callee, within: &Func) -> String {
        match callee {
            Callee::Method(m) => {
                format!("{}.{}", self.types.name(m.ty), self.types.method(m).name)
            }
            Callee::Routine(r) => self.routines[r].name.clone(),
            Callee::Procedure(i) => {
                within.procedures.get(i as usize).map_or_else(|| format!("procedure {i}"), |p| p.name.clone())
            }
            Callee::Itself => within.name.clone(),
        }
    }

    /// Returns true if a loop over this iterator relies on nothing that may change: it is one of an
    /// immutable built-in type. `callee` is in range.
    pub fn iterates_immutable(&self, callee: Callee) -> bool {
        match callee {
            Callee::Method(m) => self.types.def(m.ty).immutable && self.types.method(m).builtin.is_some(),
            Callee::Routine(_) | Callee::Procedure(_) | Callee::Itself => false,
        }
    }

    /// Returns true if code has transactions, so that the program wants a repository.
    ///
    /// Cost: linear in the size of all routines.
    pub fn has_transactions(&self) -> bool {
        self.funcs.values().any(|func| func.body.has_transaction())
    }

    /// Returns true if there are actors, or somebody sends to them.
    ///
    /// Cost: linear in the number of classes and types.
    pub fn has_actors(&self) -> bool {
        self.types.iter().any(|(_, def)| def.actor)
    }

    /// Makes what clients' commands need, so that the program need not change while it runs:
    ///
    /// - `cell[T]` and its creator for every public type; cells of cells are left out;
    /// - the routines behind `as` and `is` for every public type;
    /// - the routine of the root directory, and those behind its methods for clients of roles;
    /// - the arrays of the columns of tables.
    pub fn add_for_clients(&mut self) {
        self.add_cells();
        let root = builtin::find_routine(builtin::ROOT).expect("a row of the table");
        builtin::instantiate(self, root, &[]);
        builtin::GRANTED.iter().for_each(|row| {
            builtin::instantiate(self, row, &[]);
        });
        let public: Vec<TypeId> = self.types.iter().filter(|(_, d)| d.public).map(|(id, _)| id).collect();
        for ty in public {
            builtin::instantiate(self, &builtin::TYPE_AS, &[ty]);
            builtin::instantiate(self, &builtin::TYPE_IS, &[ty]);
        }
        self.columns.clear();
        let known = self.types.len();
        for element in [Types::ANY, Types::NULL, Types::BOOL, Types::INT, Types::REAL, Types::CHAR] {
            let ty = self.types.instance(TypeKind::Array(element));
            let method = self.types.find_method(ty, "append").expect("arrays have it");
            self.columns.push((element, method));
        }
        // Only columns need the new types: clients see none of them.
        let new: Vec<TypeId> = self.types.iter().skip(known).map(|(id, _)| id).collect();
        for ty in new {
            self.types.def_mut(ty).public = false;
        }
    }

    /// Returns the method that appends a value of a type to the column of a table. The column is an
    /// array of the type, if that is basic, else of `any`.
    pub fn column_append(&self, ty: TypeId) -> MethodRef {
        let element = if self.types.kind(ty).is_basic() { ty } else { Types::ANY };
        let found = self.columns.iter().find(|(of, _)| *of == element);
        found.expect("columns of all basic types and of `any` were made").1
    }

    fn add_cells(&mut self) {
        let row = builtin::find_routine(builtin::CELL_NEW).expect("a row of the table");
        let elements: Vec<TypeId> = self
            .types
            .iter()
            .filter(|(_, d)| d.public && !matches!(d.kind, TypeKind::Cell(_)))
            .map(|(id, _)| id)
            .collect();
        for element in elements {
            builtin::instantiate(self, row, &[element]);
        }
    }

    /// Returns the class whose own type this is.
    pub fn class_of_type(&self, ty: TypeId) -> Option<&Class> {
        match self.types.kind(ty) {
            TypeKind::Class(c) => self.classes.get(c),
            _ => None,
        }
    }
}
