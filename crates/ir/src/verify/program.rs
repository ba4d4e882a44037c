//! The verifier of a program: its types, classes and routines. Rules 1 and 14.
//!
//! Read [`verify`] first. It goes in five steps, and stops behind the first that finds a mistake:
//!
//! 1. types;
//! 2. methods, classes and routines;
//! 3. slots;
//! 4. the code of every function (`func`);
//! 5. transactions and their callers (rule 16).

use std::collections::HashMap;

use super::func::type_in_range;
use super::{ProgramError, VerifyError, VerifyErrorKind as Kind};
use crate::dispatch::Dispatch;
use crate::places::Site;
use crate::program::{Body, Class, ClassId, Program};
use crate::requests::{body_of, waiting};
use crate::stmt::{Block, Callee, Func, FuncKind, Part, Stmt};
use crate::types::{Method, MethodRef, Signature, TypeId, TypeKind, Types};

/// Returns true if objects of static type `ty` have the instance variables of `class`: `ty` is its
/// own type or that of a subclass.
pub(super) fn is_of_class(program: &Program, ty: TypeId, class: ClassId) -> bool {
    let TypeKind::Class(mut at) = program.types.kind(ty) else { return false };
    // A chain of superclasses is no longer than there are classes, unless it is a cycle.
    for _ in 0..=program.classes.len() {
        if at == class {
            return program.classes.get(at).is_some();
        }
        match program.classes.get(at).and_then(|c| c.superclass) {
            Some(up) => at = up,
            None => return false,
        }
    }
    false
}

struct Errors(Vec<ProgramError>);

impl Errors {
    fn push(&mut self, name: &str, kind: Kind) {
        let error = VerifyError { site: Site::default(), kind };
        self.0.push(ProgramError { func: None, name: name.to_owned(), error });
    }
}

pub(super) fn verify(program: &Program) -> Result<(), Vec<ProgramError>> {
    let mut errors = Errors(Vec::new());
    verify_types(program, &mut errors);
    if errors.0.is_empty() {
        verify_methods(program, &mut errors);
        verify_classes(program, &mut errors);
        verify_routines(program, &mut errors);
    }
    if errors.0.is_empty() {
        verify_slots(program, &mut errors);
    }
    if errors.0.is_empty() {
        for (id, func) in program.funcs.iter() {
            if let Err(found) = super::verify_func(program, func) {
                errors.0.extend(found.into_iter().map(|error| ProgramError {
                    func: Some(id),
                    name: func.name.clone(),
                    error,
                }));
            }
        }
    }
    if errors.0.is_empty() {
        verify_transactions(program, &mut errors);
    }
    if errors.0.is_empty() { Ok(()) } else { Err(errors.0) }
}

/// Checks that no function calls one that has transactions: the code around a call relies on the
/// state it has found of objects. Rule 16.
fn verify_transactions(program: &Program, errors: &mut Errors) {
    /// Tells each call, and whether it is in a transaction.
    fn calls(block: &Block, within: bool, tell: &mut dyn FnMut(Callee, bool)) {
        for stmt in &block.0 {
            if let Stmt::Call { callee, .. } = stmt {
                tell(*callee, within);
            }
            let within = within || matches!(stmt, Stmt::Transaction { .. });
            stmt.parts(&mut |part| {
                if let Part::Block(block) = part {
                    calls(block, within, tell);
                }
            });
        }
    }
    let with = waiting(program);
    if with.is_empty() {
        return;
    }
    for func in program.funcs.values() {
        calls(&func.body, false, &mut |callee, within| {
            // A script calls its own methods, but not in a transaction.
            let never = within || matches!(callee, Callee::Routine(_));
            if never && body_of(program, callee).is_some_and(|body| with.contains(&body)) {
                let callee = program.callee_name(callee, func);
                errors.push(&func.name, Kind::TransactionsCalled { callee });
            }
        });
    }
}

/// Ids in range, and no type above itself: the subtype relation can be asked from here on.
fn verify_types(program: &Program, errors: &mut Errors) {
    let types = &program.types;
    let mut state = vec![0_u8; types.len()];
    for (ty, def) in types.iter() {
        let of_methods = def.methods.values().flat_map(|m| m.signature.types());
        let of_supertypes = def.supertypes.iter().map(|s| s.ty);
        let all = of_methods.chain(of_supertypes).chain(def.kind.args());
        for named in all.filter(|t| !type_in_range(types, *t)) {
            errors.push(&def.name, Kind::NoSuchType(named));
        }
        if let TypeKind::Class(class) = def.kind
            && program.classes.get(class).is_none_or(|c| c.ty != ty)
        {
            errors.push(&def.name, Kind::NoSuchClass(class));
        }
    }
    let of_routines = program.routines.values().map(|r| (&r.name, &r.signature));
    for (name, signature) in of_routines {
        for named in signature.types().filter(|t| !type_in_range(types, *t)) {
            errors.push(name, Kind::NoSuchType(named));
        }
    }
    if errors.0.is_empty() {
        for (ty, def) in types.iter() {
            if cyclic(types, ty, &mut state, 0) {
                errors.push(&def.name, Kind::CyclicType(def.name.clone()));
            }
        }
    }
}

/// Returns true if a walk up from `ty` comes back to where it was, or is absurdly long.
fn cyclic(types: &Types, ty: TypeId, state: &mut [u8], depth: usize) -> bool {
    const UNDER_WAY: u8 = 1;
    const DONE: u8 = 2;
    let i = ty.as_u32() as usize;
    match state[i] {
        DONE => return false,
        UNDER_WAY => return true,
        _ if depth > 1000 => return true,
        _ => state[i] = UNDER_WAY,
    }
    let found = types.def(ty).supertypes.iter().any(|s| cyclic(types, s.ty, state, depth + 1));
    state[i] = DONE;
    found
}

/// Checks that headings conform: a call through any method that another stands for reaches the
/// other's body.
fn verify_methods(program: &Program, errors: &mut Errors) {
    for (_, def) in program.types.iter() {
        for method in def.methods.values() {
            for up in &method.stands_for {
                let up_method = type_in_range(&program.types, up.ty)
                    .then(|| program.types.def(up.ty).methods.get(up.method))
                    .flatten();
                if !up_method.is_some_and(|m| program.types.conforms(&method.signature, &m.signature)) {
                    let up = up_method.map_or_else(
                        || format!("{up:?}"),
                        |m| format!("{}.{}", program.types.name(up.ty), m.name),
                    );
                    let name = format!("{}.{}", def.name, method.name);
                    errors.push(&def.name, Kind::MethodDoesNotConform { name, up });
                }
            }
        }
    }
}

fn verify_classes(program: &Program, errors: &mut Errors) {
    for (id, class) in program.classes.iter() {
        let name = &class.name;
        let own =
            type_in_range(&program.types, class.ty) && program.types.kind(class.ty) == TypeKind::Class(id);
        if !own {
            errors.push(name, Kind::NoSuchType(class.ty));
            continue;
        }
        for field in class.fields.iter().filter(|f| !type_in_range(&program.types, f.ty)) {
            errors.push(name, Kind::NoSuchType(field.ty));
        }
        if let Some(up) = class.superclass.filter(|up| program.native_class(*up).is_some()) {
            errors.push(&class.name, Kind::NativeClass(program.classes[up].name.clone()));
        }
        if let Some(up) = class.superclass {
            let fits = program.classes.get(up).is_some_and(|up| {
                class.fields.len() >= up.fields.len()
                    && class.fields.iter().zip(&up.fields).all(|(a, b)| a.ty == b.ty)
            });
            if !fits || is_of_class(program, program.classes.get(up).map_or(class.ty, |c| c.ty), id) {
                errors.push(name, Kind::WrongLayout { class: name.clone() });
            }
        }
        let methods = &program.types.def(class.ty).methods;
        if class.bodies.len() != methods.len() {
            let (bodies, methods) = (class.bodies.len(), methods.len());
            errors.push(name, Kind::WrongBodies { class: name.clone(), bodies, methods });
        }
        verify_actor(program, class, errors);
        for (method, body) in methods.values().zip(&class.bodies) {
            let fits = |func: &Func| {
                func.kind == if class.actor.is_some() { FuncKind::Script } else { FuncKind::Method }
                    && func.vars.values().next().is_some_and(|receiver| {
                        match program.types.kind(receiver.ty) {
                            TypeKind::Class(of) => is_of_class(program, class.ty, of),
                            _ => false,
                        }
                    })
            };
            let label = format!("{name}.{}", method.name);
            verify_body(program, &label, &method.signature, *body, fits, errors);
        }
    }
}

/// Checks rule 19, but for the kind of methods.
fn verify_actor(program: &Program, class: &Class, errors: &mut Errors) {
    let own = program.types.def(class.ty);
    let Some(actor) = &class.actor else {
        if own.actor {
            errors.push(&class.name, Kind::WrongActor { class: class.name.clone() });
        }
        return;
    };
    let is_own = |func: &&Func| {
        func.kind == FuncKind::Method
            && func.vars.values().next().is_some_and(|receiver| receiver.ty == class.ty)
    };
    let creators = actor.creators.iter().all(|id| {
        let func = program.funcs.get(*id).filter(is_own);
        func.is_some_and(|func| func.signature.results.is_empty() && !func.signature.is_iterator())
    });
    let guards = actor.guards.iter().all(|(method, id)| {
        let (func, method) = (program.funcs.get(*id).filter(is_own), own.methods.get(*method));
        func.zip(method).is_some_and(|(func, method)| {
            let types = |signature: &Signature| signature.params.iter().map(|p| p.ty).collect::<Vec<_>>();
            func.signature.results == [Types::BOOL] && types(&func.signature) == types(&method.signature)
        })
    });
    let alone = class.superclass.is_none();
    let is_native = |body: &Body| matches!(body, Body::Native(_));
    let native = actor.native.is_none()
        || class.fields.is_empty()
            && actor.guards.is_empty()
            && actor.creators.len() == 1
            && !actor.functional
            && class.bodies.iter().all(is_native);
    if !own.actor || !creators || !guards || !alone || !native {
        errors.push(&class.name, Kind::WrongActor { class: class.name.clone() });
    }
}

/// Checks that methods in one slot conform: a call through either may reach the other.
fn verify_slots(program: &Program, errors: &mut Errors) {
    let types = &program.types;
    let dispatch = Dispatch::new(program);
    for class in program.classes.values() {
        let mut by_slot: HashMap<u32, &Method> = HashMap::new();
        for (method, second) in types.def(class.ty).methods.iter() {
            let mut clash = None;
            for slot in dispatch.slots(program, MethodRef { ty: class.ty, method }) {
                let Some(first) = by_slot.insert(slot, second) else { continue };
                let both = types.conforms(&first.signature, &second.signature)
                    && types.conforms(&second.signature, &first.signature);
                if !both {
                    clash = Some(first.name.clone());
                }
            }
            if let Some(first) = clash {
                let (class, second) = (class.name.clone(), second.name.clone());
                errors.push(&class.clone(), Kind::SameSlot { class, first, second });
            }
        }
    }
}

fn verify_routines(program: &Program, errors: &mut Errors) {
    for routine in program.routines.values() {
        let fits = |func: &Func| func.kind == FuncKind::Routine;
        verify_body(program, &routine.name, &routine.signature, routine.body, fits, errors);
    }
}

fn verify_body(
    program: &Program,
    name: &str,
    heading: &Signature,
    body: Body,
    fits: impl Fn(&Func) -> bool,
    errors: &mut Errors,
) {
    let body = match body {
        Body::Func(body) => body,
        // The signature is compared with the registered one when the program is linked.
        Body::Native(native) => {
            if program.natives.get(native).is_none() {
                errors.push(name, Kind::NoSuchNative(native));
            }
            return;
        }
    };
    let Some(func) = program.funcs.get(body) else {
        errors.push(name, Kind::NoSuchFunc(body));
        return;
    };
    let in_range = func.signature.types().all(|t| type_in_range(&program.types, t))
        && func.vars.values().all(|v| type_in_range(&program.types, v.ty));
    if !in_range || !fits(func) || !program.types.conforms(&func.signature, heading) {
        errors.push(name, Kind::BodyDoesNotConform { name: name.to_owned() });
    }
}
