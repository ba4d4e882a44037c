//! The written form of types, routines and headings.

use std::collections::HashMap;
use std::fmt::Write;

use super::is_name;
use crate::builtin;
use crate::program::{Program, RoutineId};
use crate::types::{Signature, TypeId, TypeKind};
use crate::{boxed, tagged};

/// The names of a program. Modules may have private types and routines of one name; from the second
/// on they are written with their number, `name~2`.
pub(super) struct Names<'a> {
    program: &'a Program,
    types: HashMap<TypeId, usize>,
    routines: HashMap<RoutineId, usize>,
}

/// Returns a name, in quotes if it has other characters than names have.
pub(super) fn quoted(name: &str) -> String {
    if is_name(name) { name.to_owned() } else { format!("{name:?}") }
}

/// Returns a name and the number behind it.
pub(super) fn numbered(name: &str) -> Option<(&str, usize)> {
    let (name, number) = name.rsplit_once('~')?;
    Some((name, number.parse().ok()?))
}

/// Returns the types of a name that programs define; the first is that of
/// [`Types::find`](crate::Types::find).
pub(super) fn types_named(program: &Program, name: &str) -> Vec<TypeId> {
    let defined = program.types.iter().filter(|(_, d)| d.name == name && is_defined(d.kind));
    let mut types: Vec<_> = defined.map(|(id, d)| (!d.public, id)).collect();
    types.sort();
    types.into_iter().map(|(_, id)| id).collect()
}

/// Returns the routines of a name; the first is that of [`Program::find_routine`].
pub(super) fn routines_named(program: &Program, name: &str) -> Vec<RoutineId> {
    program.routines.iter().rev().filter(|(_, r)| r.name == name).map(|(id, _)| id).collect()
}

fn is_defined(kind: TypeKind) -> bool {
    matches!(kind, TypeKind::Object | TypeKind::Class(_))
}

impl<'a> Names<'a> {
    pub(super) fn new(program: &'a Program) -> Names<'a> {
        let mut names = Names { program, types: HashMap::new(), routines: HashMap::new() };
        let mut count: HashMap<&str, usize> = HashMap::new();
        let defined = program.types.iter().filter(|(_, d)| is_defined(d.kind));
        defined.for_each(|(_, d)| *count.entry(&d.name).or_default() += 1);
        for (name, _) in count.iter().filter(|(_, count)| **count > 1) {
            names.types.extend(types_named(program, name).into_iter().zip(1..));
        }
        let mut count: HashMap<&str, usize> = HashMap::new();
        program.routines.values().for_each(|r| *count.entry(&r.name).or_default() += 1);
        for (name, _) in count.iter().filter(|(_, count)| **count > 1) {
            names.routines.extend(routines_named(program, name).into_iter().zip(1..));
        }
        names
    }

    fn with_number(name: &str, number: Option<&usize>) -> String {
        match number {
            Some(number) if *number > 1 => format!("{:?}", format!("{name}~{number}")),
            _ => quoted(name),
        }
    }

    /// Returns a type where it is used.
    pub(super) fn ty(&self, ty: TypeId) -> String {
        let types = &self.program.types;
        let name = types.name(ty);
        match types.kind(ty) {
            TypeKind::Object => Names::with_number(name, self.types.get(&ty)),
            TypeKind::Class(class) => {
                if let Some(held) = boxed::held(self.program, class) {
                    return format!("{}#box", types.name(held));
                }
                match tagged::type_of_class(self.program, class) {
                    Some(tagged) => format!("{}#{}", self.ty(tagged), tagged::tag_of(name)),
                    None => Names::with_number(name, self.types.get(&ty)),
                }
            }
            TypeKind::Record(_) | TypeKind::Struct(_) | TypeKind::OneOf(_) => {
                let fields = types.structure(ty).unwrap_or_default();
                let fields: Vec<String> =
                    fields.iter().map(|f| format!("{}: {}", f.name, self.ty(f.ty))).collect();
                let word = name.split('[').next().unwrap_or_default();
                format!("{word}[{}]", fields.join(", "))
            }
            kind if kind.is_routine() => match types.routine_heading(ty) {
                Some(heading) => {
                    let word = if heading.is_iterator() { "iter" } else { "proc" };
                    let params = heading.params.iter().map(|p| self.ty(p.ty)).collect();
                    format!("{word} {}", self.heading(params, heading))
                }
                None => name.to_owned(),
            },
            kind => {
                let args: Vec<String> = kind.args().map(|arg| self.ty(arg)).collect();
                match args.is_empty() {
                    true => name.to_owned(),
                    false => format!("{}[{}]", builtin::family(kind).unwrap_or(name), args.join(", ")),
                }
            }
        }
    }

    fn list(&self, types: &[TypeId]) -> String {
        types.iter().map(|ty| self.ty(*ty)).collect::<Vec<_>>().join(", ")
    }

    /// Returns a heading behind its name, with the arguments written already.
    pub(super) fn heading(&self, params: Vec<String>, signature: &Signature) -> String {
        let mut out = format!("({})", params.join(", "));
        if let Some(yields) = &signature.yields {
            let _ = write!(out, " yields ({})", self.list(yields));
        } else if !signature.results.is_empty() {
            let _ = write!(out, " returns ({})", self.list(&signature.results));
        }
        let signals = signature.signals.iter().map(|signal| {
            let name = self.program.types.signal_name(signal.name);
            match signal.values.as_slice() {
                [] => name.to_owned(),
                values => format!("{name} ({})", self.list(values)),
            }
        });
        let signals: Vec<String> = signals.collect();
        if !signals.is_empty() {
            let _ = write!(out, " signals ({})", signals.join(", "));
        }
        out
    }

    /// Returns a heading without a body.
    pub(super) fn declaration(&self, name: &str, signature: &Signature) -> String {
        let params = signature.params.iter().enumerate().map(|(i, p)| match is_name(&p.name) {
            true => format!("{}: {}", p.name, self.ty(p.ty)),
            false => format!("{:?} as %{i}: {}", p.name, self.ty(p.ty)),
        });
        format!("{} {}", quoted(name), self.heading(params.collect(), signature))
    }

    /// Returns the name of a routine that the program defines.
    pub(super) fn routine(&self, routine: RoutineId) -> String {
        Names::with_number(&self.program.routines[routine].name, self.routines.get(&routine))
    }

    /// Returns a routine where it is called.
    pub(super) fn callee(&self, id: RoutineId) -> String {
        let routine = &self.program.routines[id];
        let generic = routine.name.split_once('[').filter(|(name, _)| builtin::find_routine(name).is_some());
        match generic {
            Some((name, _)) => format!("{}[{}]", quoted(name), self.list(&routine.type_args)),
            None => self.routine(id),
        }
    }
}
