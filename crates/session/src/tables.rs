//! The tables from the numbers of commands to the program: computed once for all sessions of a
//! server.
//!
//! Read [`Tables`] first. It owns the interface that clients see, with its numbers, and the rows by
//! which calls are checked and dispatched: one [`MethodRow`] for each method number, one
//! [`RoutineRow`] for each routine number. Both have a [`CallRow`], which is the heading of the
//! call. Nothing here changes after [`Tables::new`], and nothing belongs to a session.
//!
//! 1. [`visible_types`] finds the types that clients see.
//! 2. The methods and routines that cross are numbered ([`crosses`], [`is_called`]).
//! 3. Each number gets its row, with the way in which it is entered ([`Dispatch`]).

use std::collections::HashSet;
use std::sync::Arc;

use bifrost_engine::Engine;
use bifrost_ir::builtin::{self, BuiltinRoutine, Op};
use bifrost_ir::{
    Body, Field, FuncId, MethodRef, Program, Routine, RoutineId, Signature, TypeDef, TypeId, TypeKind,
    requests,
};
use bifrost_runtime::RoutineDesc;
use bifrost_runtime::abi::Code;
use bifrost_wire::interface::{Heading, Interface, Kind, Method, Numbering, Param, Signal, Type};
use bifrost_wire::{MethodNumber, RoutineNumber, TypeNumber};
use cranelift_entity::EntityRef;

use crate::casts::Cast;

/// The ways in which a method is entered.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Dispatch {
    /// Through the receiver's table.
    Table(u32),
    /// A message to an actor, for this slot.
    Actor(u32),
    /// A native of a basic type.
    Native(Code),
    /// An operation on basic words.
    Op(Op),
}

/// The meaning of a method number.
#[derive(Debug)]
pub(crate) struct MethodRow {
    pub method: MethodRef,
    pub dispatch: Dispatch,
    pub call: CallRow,
    /// The part of a method that looks at names of the root directory.
    pub names: Option<Box<NamesRow>>,
}

/// A method that looks at names of the root directory.
#[derive(Debug)]
pub(crate) struct NamesRow {
    /// True if it gives and takes names.
    pub changes: bool,
    /// The routine that does the same within the names of a role.
    pub granted: RoutineRow,
}

/// The meaning of a routine number.
#[derive(Debug)]
pub(crate) struct RoutineRow {
    pub routine: RoutineId,
    pub desc: &'static RoutineDesc,
    pub call: CallRow,
}

/// The parts of a heading that are needed to check a call.
#[derive(Debug)]
pub(crate) struct CallRow {
    pub params: Box<[TypeId]>,
    pub results: Box<[TypeId]>,
    pub iterator: bool,
    /// The number of future numbers that the call takes.
    pub numbers: u32,
}

impl CallRow {
    fn new(signature: &Signature) -> CallRow {
        let results = signature.yields.as_ref().unwrap_or(&signature.results);
        CallRow {
            params: signature.params.iter().map(|p| p.ty).collect(),
            results: results.iter().copied().collect(),
            iterator: signature.is_iterator(),
            numbers: results.len().max(1) as u32,
        }
    }
}

/// The interface of a program and the meaning of its numbers.
#[derive(Debug)]
pub struct Tables {
    engine: Arc<Engine>,
    numbering: Arc<Numbering>,
    json: Vec<u8>,
    types: Vec<TypeId>,
    type_numbers: Vec<TypeNumber>,
    methods: Vec<MethodRow>,
    routines: Vec<RoutineRow>,
    /// For each type, the routines of `as` and `is`.
    casts: Vec<Option<[RoutineRow; 2]>>,
    basic: Vec<bool>,
}

impl Tables {
    /// Describes a program and numbers it. The tables live as long as the process, as linked
    /// programs do. So no session counts references to them on the path of a call.
    pub fn new(engine: Arc<Engine>) -> &'static Tables {
        let program = engine.program();
        let types = visible_types(&engine);
        let mut type_numbers = vec![TypeNumber::NONE; program.types.len()];
        for (number, ty) in types.iter().enumerate() {
            type_numbers[ty.index()] = TypeNumber(number as u32);
        }
        let row = |routine: RoutineId| {
            let call = CallRow::new(&program.routines[routine].signature);
            RoutineRow { routine, desc: engine.image().routine(routine), call }
        };
        let mut interface = Interface::default();
        let mut methods = Vec::new();
        for ty in &types {
            let def = program.types.def(*ty);
            let also = program.type_names.iter().filter(|(name, named)| named == ty && *name != def.name);
            let mut names: Vec<String> = also.map(|(name, _)| name.clone()).collect();
            names.sort_unstable();
            names.dedup();
            interface.types.push(describe_type(&engine, *ty, names, &type_numbers));
            if !def.public {
                continue;
            }
            for (method, m) in def.methods.iter().filter(|(_, m)| crosses(program, def, m)) {
                let method = MethodRef { ty: *ty, method };
                let dispatch = match (def.kind.is_basic(), m.builtin.and_then(|b| b.op)) {
                    (true, Some(op)) => Dispatch::Op(op),
                    (true, None) => Dispatch::Native(
                        engine.image().basic_native(method).expect("linked natives are there"),
                    ),
                    (false, _) if def.actor => Dispatch::Actor(engine.image().dispatch().slot(method)),
                    (false, _) => Dispatch::Table(engine.image().dispatch().slot(method)),
                };
                let builtin = m.builtin.filter(|_| def.kind == TypeKind::Directory);
                let names = builtin.and_then(|method| {
                    let granted = program.find_routine(builtin::granted(method.name())?.name)?;
                    Some(Box::new(NamesRow { changes: method.changes(), granted: row(granted) }))
                });
                methods.push(MethodRow { method, dispatch, call: CallRow::new(&m.signature), names });
            }
        }
        let casts = types.iter().map(|ty| {
            let name = program.types.name(*ty);
            let find = |row: &BuiltinRoutine| program.find_routine(&format!("{}[{name}]", row.name));
            Some([row(find(&builtin::TYPE_AS)?), row(find(&builtin::TYPE_IS)?)])
        });
        let casts = casts.collect();
        let mut routines = Vec::new();
        let waiting = requests::waiting(program);
        for (routine, r) in program.routines.iter().filter(|(_, r)| is_called(program, &waiting, r)) {
            interface.routines.push(Method {
                name: r.name.clone(),
                heading: describe_heading(&engine, &r.signature, &type_numbers),
                doc: r.doc.clone(),
            });
            routines.push(row(routine));
        }
        let json = interface.to_json();
        let basic = program.types.iter().map(|(_, d)| d.kind.is_basic()).collect();
        Box::leak(Box::new(Tables {
            numbering: Arc::new(Numbering::new(interface)),
            json,
            types,
            type_numbers,
            methods,
            routines,
            casts,
            basic,
            engine,
        }))
    }

    /// Returns the engine that runs the program.
    #[inline]
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Returns the interface with its numbers.
    pub fn numbering(&self) -> &Arc<Numbering> {
        &self.numbering
    }

    /// Returns the interface as `describe` answers.
    pub fn json(&self) -> &[u8] {
        &self.json
    }

    #[inline]
    pub(crate) fn method(&self, number: MethodNumber) -> Option<&MethodRow> {
        self.methods.get(number.index())
    }

    #[inline]
    pub(crate) fn routine(&self, number: RoutineNumber) -> Option<&RoutineRow> {
        self.routines.get(number.index())
    }

    /// True if a number is that of the routine of the root directory.
    pub(crate) fn is_root(&self, number: RoutineNumber) -> bool {
        let program = self.engine.program();
        let body = self.routine(number).map(|row| program.routines[row.routine].body);
        body.and_then(|body| program.native_name(body)) == Some(builtin::ROOT)
    }

    /// Returns the routine of `as` or `is` for a type; none if it has none.
    pub(crate) fn cast(&self, ty: TypeNumber, cast: Cast) -> Option<&RoutineRow> {
        self.casts.get(ty.index())?.as_ref().map(|rows| &rows[cast as usize])
    }

    pub(crate) fn ty(&self, number: TypeNumber) -> Option<TypeId> {
        self.types.get(number.index()).copied()
    }

    /// Returns the number of a type; `any` for types that clients cannot see.
    #[inline]
    pub(crate) fn type_number(&self, ty: TypeId) -> TypeNumber {
        match self.type_numbers[ty.index()].known() {
            Some(number) => number,
            None => self.type_numbers[bifrost_ir::Types::ANY.index()],
        }
    }

    #[inline]
    pub(crate) fn is_basic(&self, ty: TypeId) -> bool {
        self.basic[ty.index()]
    }

    /// True if a type is one of actors.
    pub(crate) fn is_actor(&self, ty: TypeId) -> bool {
        self.engine.program().types.def(ty).actor
    }

    pub(crate) fn type_name(&self, ty: TypeId) -> &str {
        let types = &self.engine.program().types;
        match types.kind(ty) {
            // Clients know an object of a class by its type, but an actor's class is one.
            TypeKind::Class(_) if !types.def(ty).actor || !types.def(ty).public => {
                match types.def(ty).supertypes.first() {
                    Some(s) => types.name(s.ty),
                    None => "any",
                }
            }
            _ => types.name(ty),
        }
    }
}

/// True if clients can call a method of a type, if they see that.
fn crosses(program: &Program, def: &TypeDef, method: &bifrost_ir::Method) -> bool {
    let sent = || method.signature.params.iter().all(|param| is_sendable(program, param.ty));
    method.public && only_data(program, &method.signature) && (!def.actor || sent())
}

/// True if a client can send a value of a type to an actor (`docs/book/language/actors.md`): it has
/// no way to ask for a copy of an object that may change.
fn is_sendable(program: &Program, ty: TypeId) -> bool {
    let def = program.types.def(ty);
    let built_in = matches!(def.kind, TypeKind::Group(_) | TypeKind::Replier(_));
    let never = matches!(def.kind, TypeKind::Any);
    let parts = || program.types.parts(ty).into_iter().all(|part| is_sendable(program, part));
    def.actor || built_in || !never && (def.kind.is_basic() || def.immutable) && parts()
}

/// True if clients can call a routine: it is marked `remote`, or is the built-in one of the root
/// directory. The compiler refuses the mark for others; programs of the IR may have it anywhere.
/// One that runs the program itself ([`Routine::is_entry`]) would replace the objects of all
/// clients, and migrations are for stored objects. One that waits for actors runs as the main one
/// of a program, not in a session.
fn is_called(program: &Program, waiting: &HashSet<FuncId>, routine: &Routine) -> bool {
    let waits = matches!(routine.body, Body::Func(func) if waiting.contains(&func));
    let ours = routine.is_entry() || routine.is_migration();
    let root = program.native_name(routine.body) == Some(builtin::ROOT);
    root || routine.public && !ours && only_data(program, &routine.signature) && !waits
}

/// True if a heading takes and gives no routines: they do not cross, so that clients have no use
/// for it.
fn only_data(program: &Program, signature: &Signature) -> bool {
    signature.types().all(|ty| !program.types.kind(ty).is_routine())
}

/// Returns public types, and the others that public headings name; those have no methods for
/// clients.
fn visible_types(engine: &Engine) -> Vec<TypeId> {
    let program = engine.program();
    let mut seen = vec![false; program.types.len()];
    let note = |seen: &mut Vec<bool>, signature: &Signature| {
        let signals = signature.signals.iter().flat_map(|s| &s.values);
        let yields = signature.yields.iter().flatten();
        for ty in signature.results.iter().chain(signals).chain(yields) {
            seen[ty.index()] = true;
        }
        for param in &signature.params {
            seen[param.ty.index()] = true;
        }
    };
    for (ty, def) in program.types.iter().filter(|(_, d)| d.public) {
        seen[ty.index()] = true;
        for method in def.methods.values().filter(|m| crosses(program, def, m)) {
            note(&mut seen, &method.signature);
        }
    }
    let waiting = requests::waiting(program);
    for routine in program.routines.values().filter(|r| is_called(program, &waiting, r)) {
        note(&mut seen, &routine.signature);
    }
    // Element types and supertypes of visible types are visible.
    loop {
        let before = seen.iter().filter(|s| **s).count();
        for (ty, def) in program.types.iter() {
            if seen[ty.index()] {
                for part in program.types.parts(ty) {
                    seen[part.index()] = true;
                }
                for s in &def.supertypes {
                    seen[s.ty.index()] = true;
                }
            }
        }
        if seen.iter().filter(|s| **s).count() == before {
            break;
        }
    }
    program.types.iter().map(|(ty, _)| ty).filter(|ty| seen[ty.index()]).collect()
}

fn describe_type(engine: &Engine, ty: TypeId, names: Vec<String>, numbers: &[TypeNumber]) -> Type {
    let types = &engine.program().types;
    let def = types.def(ty);
    let mut fields = types.structure(ty).unwrap_or_default().into_owned();
    if let TypeKind::Map(key, value) = def.kind {
        fields.extend([("key", key), ("value", value)].map(|(name, ty)| Field { name: name.to_owned(), ty }));
    }
    let methods = def.methods.values().filter(|m| def.public && crosses(engine.program(), def, m));
    Type {
        name: def.name.clone(),
        names,
        kind: match def.kind {
            TypeKind::Null => Kind::Null,
            TypeKind::Bool => Kind::Bool,
            TypeKind::Int => Kind::Int,
            TypeKind::Real => Kind::Real,
            TypeKind::Char => Kind::Char,
            TypeKind::String => Kind::String,
            TypeKind::Any => Kind::Any,
            TypeKind::Array(_) => Kind::Array,
            TypeKind::Sequence(_) => Kind::Sequence,
            TypeKind::List(_) => Kind::List,
            TypeKind::Cell(_) => Kind::Cell,
            TypeKind::Bytes => Kind::Bytes,
            TypeKind::Vector(_) => Kind::Vector,
            TypeKind::Map(..) => Kind::Map,
            TypeKind::Maybe(_) => Kind::Maybe,
            TypeKind::Record(_) => Kind::Record,
            TypeKind::Struct(_) => Kind::Struct,
            TypeKind::OneOf(_) => Kind::Oneof,
            TypeKind::Group(_)
            | TypeKind::Replier(_)
            | TypeKind::Proc(_)
            | TypeKind::Iter(_)
            | TypeKind::Directory
            | TypeKind::Object
            | TypeKind::Class(_) => Kind::Object,
        },
        element: def.kind.element().map(|t| numbers[t.index()]),
        fields: fields.iter().map(|f| Param { name: f.name.clone(), ty: numbers[f.ty.index()] }).collect(),
        immutable: def.immutable,
        actor: def.actor,
        supertypes: def.supertypes.iter().map(|s| numbers[s.ty.index()]).collect(),
        methods: methods
            .map(|m| Method {
                name: m.name.clone(),
                heading: describe_heading(engine, &m.signature, numbers),
                doc: m.doc.clone(),
            })
            .collect(),
        doc: def.doc.clone(),
    }
}

fn describe_heading(engine: &Engine, signature: &Signature, numbers: &[TypeNumber]) -> Heading {
    let list = |types: &[TypeId]| types.iter().map(|t| numbers[t.index()]).collect::<Vec<_>>();
    Heading {
        params: signature
            .params
            .iter()
            .map(|p| Param { name: p.name.clone(), ty: numbers[p.ty.index()] })
            .collect(),
        results: list(&signature.results),
        yields: signature.yields.as_deref().map(list),
        signals: signature
            .signals
            .iter()
            .map(|s| Signal {
                name: engine.program().types.signal_name(s.name).to_owned(),
                values: list(&s.values),
            })
            .collect(),
    }
}
