//! The checker: sections 4 to 7 of the definition, and the rulings of section 16.
//!
//! It works in passes over all files at once: names (`resolve`), types and their supertypes and
//! methods ([`items`]), classes ([`classes`], [`makers`]), headings of routines, and then every body
//! once ([`body`]; its parts are [`stmts`], [`handlers`], [`stores`], [`exprs`], [`calls`], [`objects`]), which is
//! type-checked and written as IR in the same walk. Types are the IR's own.
//!
//! Code is checked in an [`Env`], which says what type parameters stand for: a generic definition is
//! checked once for each instantiation, so nothing below `Env` knows about generics.
//!
//! A wrong part has type `None` and is not reported again. A program with an error is thrown away,
//! so what is emitted for wrong parts only has to be well formed.

mod body;
mod calls;
mod classes;
mod constant_calls;
mod constants;
mod exprs;
mod flow;
mod handlers;
mod items;
mod makers;
mod objects;
mod stmts;
mod stores;
mod types;

use std::collections::HashMap;
use std::sync::Arc;

use bifrost_ir::{Program, RoutineId, SignalId, TypeId, TypeKind};

use crate::ast::Ident;
use crate::diagnostic::{Code, Diagnostic};
use crate::resolve::{Names, ScopeId};
use crate::source::{Sources, Span};

use classes::ClassInfo;
use constants::Constant;

/// Reports kept of one compilation; after so many, checking stops.
const DIAGNOSTICS_MAX: usize = 200;
/// Types of one program, classes and instantiations included.
const TYPES_MAX: usize = 20_000;
/// Methods of all types and classes together, inherited ones counted each time: few lines can ask for many.
const METHODS_MAX: usize = 400_000;

/// Where code stands: the scope its names are looked up in, and its type parameters.
#[derive(Clone)]
pub(crate) struct Env {
    pub scope: ScopeId,
    pub parms: Vec<(Arc<str>, TypeId)>,
}

impl Env {
    fn new(scope: ScopeId) -> Env {
        Env { scope, parms: vec![] }
    }
}

/// What is known about an equate.
#[derive(Clone)]
pub(crate) enum Equate {
    Untouched,
    /// Being looked at; meeting it again is a cycle.
    Open,
    Type(TypeId),
    Constant(Constant),
    Wrong,
}

/// All that is known about the program so far.
pub(crate) struct Checker<'a> {
    pub sources: &'a Sources,
    pub names: Names<'a>,
    pub program: Program,
    pub diagnostics: Vec<Diagnostic>,
    /// By position in [`Names::types`]; `None` if the type cannot be used.
    pub types: Vec<Option<TypeId>>,
    pub classes: Vec<Option<ClassInfo>>,
    pub routines: Vec<Option<RoutineId>>,
    pub equates: Vec<Equate>,
    /// The type of what is wrong in a heading; made when it is needed, so no good program has it.
    pub wrong: Option<TypeId>,
    /// The definition of each user's type, by position.
    pub type_at: HashMap<TypeId, usize>,
    /// The class that each own type belongs to, by position.
    pub class_at: HashMap<TypeId, usize>,
    /// Direct subclasses of each class, by position.
    pub subclasses: Vec<Vec<usize>>,
    /// Methods of all types and classes so far; see [`METHODS_MAX`].
    pub method_count: usize,
    /// Methods that type arguments must have.
    pub needed: Vec<types::Needed>,
    /// Equates that are open, to bound the recursion over them.
    pub equate_depth: u32,
}

/// Checks everything in `names`; the program is complete if no diagnostic is an error.
pub(crate) fn check(sources: &Sources, mut names: Names<'_>) -> (Program, Vec<Diagnostic>) {
    let mut diagnostics = std::mem::take(&mut names.diagnostics);
    diagnostics.truncate(DIAGNOSTICS_MAX);
    let equates = vec![Equate::Untouched; names.equates.len()];
    let mut checker = Checker {
        sources,
        types: vec![None; names.types.len()],
        classes: names.classes.iter().map(|_| None).collect(),
        routines: vec![None; names.routines.len()],
        names,
        program: Program::new(),
        diagnostics,
        equates,
        wrong: None,
        type_at: HashMap::new(),
        class_at: HashMap::new(),
        subclasses: vec![],
        method_count: 0,
        needed: vec![],
        equate_depth: 0,
    };
    checker.declare();
    checker.complete_types();
    checker.resolve_equates();
    checker.complete_classes();
    checker.complete_routines();
    bifrost_ir::builtin::complete(&mut checker.program.types);
    if !checker.is_full() {
        checker.check_bodies();
    }
    checker.check_needed();
    bifrost_ir::builtin::complete(&mut checker.program.types);
    (checker.program, checker.diagnostics)
}

impl<'a> Checker<'a> {
    pub(crate) fn report(&mut self, diagnostic: Diagnostic) {
        if self.diagnostics.len() < DIAGNOSTICS_MAX {
            self.diagnostics.push(diagnostic);
        }
    }

    /// Whether so much is wrong that looking on is a waste.
    pub(crate) fn is_full(&self) -> bool {
        self.diagnostics.len() >= DIAGNOSTICS_MAX
    }

    /// Whether one more type may be made; reports at `span` if not.
    pub(crate) fn may_add_type(&mut self, span: Span) -> bool {
        let room = self.program.types.len() < TYPES_MAX;
        if !room {
            let message = format!("the program has more than {TYPES_MAX} types");
            self.report(Diagnostic::error(Code::E0109, span, message).help("split it into several programs"));
        }
        room
    }

    /// Whether `count` more methods may be made; reports at `span` if not.
    pub(crate) fn may_add_methods(&mut self, count: usize, span: Span) -> bool {
        self.method_count += count;
        let room = self.method_count < METHODS_MAX;
        if !room {
            let message =
                format!("the program has more than {METHODS_MAX} methods, inherited ones counted each time");
            self.report(Diagnostic::error(Code::E0109, span, message).help("split it into several programs"));
        }
        room
    }

    /// The type of what is wrong in a heading.
    pub(crate) fn wrong_type(&mut self) -> TypeId {
        if let Some(ty) = self.wrong {
            return ty;
        }
        let ty = self.program.types.add(items::empty_type("?", TypeKind::Object, false, false, ""));
        self.wrong = Some(ty);
        ty
    }

    /// A type of a heading; `None` if it is wrong.
    pub(crate) fn known(&self, ty: TypeId) -> Option<TypeId> {
        Some(ty).filter(|ty| Some(*ty) != self.wrong)
    }

    /// Whether `sub` may stand for `sup`; a wrong type fits everywhere.
    pub(crate) fn below(&self, sub: TypeId, sup: TypeId) -> bool {
        self.known(sub).is_none() || self.known(sup).is_none() || self.program.types.is_subtype(sub, sup)
    }

    /// E0199 for `what`.
    pub(crate) fn unsupported(&mut self, span: Span, what: &str) {
        self.report(Diagnostic::error(Code::E0199, span, format!("`{what}` is not supported yet")));
    }

    /// The name of a type, for messages.
    pub(crate) fn type_name(&self, ty: TypeId) -> String {
        self.program.types.name(ty).to_owned()
    }

    pub(crate) fn signal_name(&self, signal: SignalId) -> String {
        self.program.types.signal_name(signal).to_owned()
    }

    /// Reports names of one scope that are equal or differ only in letter case.
    pub(crate) fn check_distinct<'n>(&mut self, names: impl IntoIterator<Item = &'n Ident>) {
        let mut seen: HashMap<String, &Ident> = HashMap::new();
        for name in names {
            if name.name.is_empty() {
                continue;
            }
            match seen.get(&name.name.to_ascii_lowercase()) {
                Some(first) if first.name == name.name => {
                    self.report(crate::resolve::twice(self.sources, name, first.span));
                }
                Some(first) => {
                    self.report(crate::resolve::case_clash(self.sources, name, &first.name, first.span));
                }
                None => drop(seen.insert(name.name.to_ascii_lowercase(), name)),
            }
        }
    }
}
