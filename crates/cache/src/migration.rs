//! Objects of classes that have changed since they were stored.
//!
//! A migration is a routine `migrate_C`, or one whose name begins with `migrate_C_`. It has a
//! parameter for each instance variable that the class `C` had, and returns an object of the class
//! as it is. It runs when an object of that time is touched for the first time. The result is the
//! object's state from then on. It is written when the transaction commits, which so counts as one
//! that has changed the object.

use std::sync::Arc;

use bifrost_ir::{Program, RoutineId, SignalId, Signature, TypeId, TypeKind};
use bifrost_repository::record::{ClassDescriptor, Field, FieldKind, Kind};
use bifrost_runtime::abi::{Outcome, Word};
use bifrost_runtime::content::Place;
use bifrost_runtime::reference::Blank;
use bifrost_runtime::{Cx, Kept, NotFetched, Object, invoke};

use crate::schema::field_kind;

/// A migration from a class as it was to the class as it is.
#[derive(Debug)]
pub(crate) struct Migration {
    routine: RoutineId,
    /// For each parameter the place of the instance variable.
    places: Vec<usize>,
}

/// Finds the migration in a program for objects of a stored class: the type of objects now, the
/// migration, and the places of its parameters, in the order of the stored instance variables.
pub(crate) fn find(
    program: &Program,
    stored: &ClassDescriptor,
) -> Option<(TypeId, Arc<Migration>, Vec<Place>)> {
    let Kind::Object(fields) = &stored.kind else { return None };
    let own = own_name(&stored.name);
    program.routines.iter().find_map(|(routine, def)| {
        let rest = own_name(&def.name).strip_prefix("migrate_")?.strip_prefix(own)?;
        if !rest.is_empty() && !rest.starts_with('_') {
            return None;
        }
        let [result] = def.signature.results[..] else { return None };
        if !matches!(program.types.kind(result), TypeKind::Class(_)) || def.signature.is_iterator() {
            return None;
        }
        let places = places(program, &def.signature, fields)?;
        let mut held = vec![Place::ANY; fields.len()];
        for (param, place) in def.signature.params.iter().zip(&places) {
            held[*place] = Place::new(&program.types, param.ty);
        }
        Some((result, Arc::new(Migration { routine, places }), held))
    })
}

/// Returns the instance variable of each parameter, if each is one and each has one.
fn places(program: &Program, signature: &Signature, fields: &[Field]) -> Option<Vec<usize>> {
    if signature.params.len() != fields.len() {
        return None;
    }
    let place = |param: &bifrost_ir::Param| {
        let kind = field_kind(Place::new(&program.types, param.ty).kind);
        fields.iter().position(|field| field.name == param.name && field.kind == kind)
    };
    signature.params.iter().map(place).collect()
}

/// Returns a name without the modules that it is in. Its type arguments keep theirs.
fn own_name(name: &str) -> &str {
    let base = name.split('[').next().unwrap_or(name);
    base.rfind('.').map_or(name, |dot| &name[dot + 1..])
}

/// Returns the heading of a migration that is missing. `now` is the class as it is; `taken` has the
/// names of other routines.
pub(crate) fn heading(
    program: &Program,
    stored: &ClassDescriptor,
    now: TypeId,
    taken: &dyn Fn(&str) -> bool,
) -> Option<String> {
    let Kind::Object(fields) = &stored.kind else { return None };
    let class = own_name(&stored.name);
    let base = format!("migrate_{class}");
    let numbered = (2..).map(|number: u32| format!("{base}_{number}"));
    let name = [base.clone()].into_iter().chain(numbered).find(|name| !taken(name))?;
    let params: Vec<String> =
        fields.iter().map(|field| format!("{}: {}", field.name, type_of(program, now, field))).collect();
    Some(format!("{name} ({}) returns ({class})", params.join(", ")))
}

/// True if a program has a routine of that name, in any module.
pub(crate) fn has_routine(program: &Program, name: &str) -> bool {
    program.routines.values().any(|def| own_name(&def.name) == name)
}

/// Returns the type of an instance variable that was stored. Of references a store keeps no types:
/// it is that of the variable which has the name now, or `any`.
fn type_of<'p>(program: &'p Program, now: TypeId, field: &Field) -> &'p str {
    match field.kind {
        FieldKind::Nil => "null",
        FieldKind::Bool => "bool",
        FieldKind::Int => "int",
        FieldKind::Real => "real",
        FieldKind::Char => "char",
        FieldKind::Str => "string",
        FieldKind::Bytes => "bytes",
        FieldKind::Ref => {
            let TypeKind::Class(class) = program.types.kind(now) else { return "any" };
            let same = program.classes[class].fields.iter().find(|other| other.name == field.name);
            let kind = |ty| field_kind(Place::new(&program.types, ty).kind);
            let same = same.filter(|other| kind(other.ty) == FieldKind::Ref);
            same.map_or("any", |other| program.types.name(other.ty))
        }
    }
}

impl Migration {
    /// Runs the routine, and copies the contents of its result to an object. `words` are the values
    /// of the instance variables in the order of the class as it was.
    pub fn run(&self, cx: &mut Cx, object: Blank, words: &[(Word, Option<Kept>)]) -> Result<(), NotFetched> {
        let made = self.call(cx, words)?;
        let _kept = cx.keep(made.word());
        let name = || &cx.image().routine(self.routine).name;
        if !std::ptr::eq(made.table().ordinary(), object.object().table().ordinary()) {
            let class = &made.info().name;
            let text = format!("the migration `{}` returned an object of `{class}`", name());
            return Err(NotFetched::Failed(text));
        }
        let made = cx.open_object(made).map_err(NotFetched::Ended)?;
        object.copy_fields(made);
        Ok(())
    }

    /// Runs the routine, and returns its result.
    fn call(&self, cx: &mut Cx, words: &[(Word, Option<Kept>)]) -> Result<Object, NotFetched> {
        let image = cx.image().clone();
        let desc = image.routine(self.routine);
        let mut args = vec![0];
        args.extend(self.places.iter().map(|place| words[*place].0));
        // SAFETY: the parameters' types were compared when the migration was found, and references
        // were compared with them when they were read.
        let ended = unsafe { invoke::routine(cx, desc, &mut args) };
        if ended.returned() {
            // SAFETY: a migration returns an object.
            return Ok(unsafe { Object::new(ended.value) });
        }
        if ended.outcome() == Outcome::Signalled {
            let name = image.program().types.signal_name(SignalId::from_u32(cx.signal_id as u32));
            let text = format!("the migration `{}` ended with `{name}`", desc.name);
            return Err(NotFetched::Failed(text));
        }
        Err(NotFetched::Ended(ended))
    }
}
