//! The checker: sections 4 to 7 of the definition, and the rulings of section 16.
//!
//! It works in passes over all files at once: names (`resolve`), types and their supertypes and
//! methods ([`items`]), classes ([`classes`], [`makers`]), headings of routines ([`routines`]), and
//! then every body ([`body`]). A body is type-checked and written as IR in the same walk; its parts
//! are [`stmts`], [`handlers`], [`stores`], [`exprs`], [`calls`] and [`objects`]. Types are the
//! IR's own.
//!
//! Code is checked in an [`Env`], which maps type parameters to types; nothing below `Env` knows
//! about generics. A program with generic definitions is walked twice ([`Walk`]). The first walk
//! checks each generic definition as it stands, its parameters opaque; every mistake is found
//! there, in the text that has it. If there is none, the second walk checks each instantiation
//! ([`instances`]), writes the program and finds nothing but limits. The operations on an opaque
//! parameter come from its where clauses ([`wheres`]).
//!
//! A wrong part has type `None` and is not reported again. A program with an error is thrown away,
//! so the IR of wrong parts only has to be well formed.

mod actors;
mod body;
mod calls;
mod classes;
mod constant_calls;
mod constants;
mod deferred;
mod diamonds;
mod exprs;
mod flow;
mod groups;
mod handlers;
mod infer;
mod instances;
mod items;
mod makers;
mod natives;
mod objects;
mod overlaps;
mod persistent;
mod routine_values;
mod routines;
mod stmts;
mod stores;
mod tagged;
mod types;
mod waits;
mod wheres;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bifrost_ir::{Program, RoutineId, SignalId, Text, TypeId, TypeKind, Types};

use crate::NativeHeadings;
use crate::ast::Ident;
use crate::diagnostic::{Code, Diagnostic, Severity};
use crate::resolve::{Names, ScopeId};
use crate::source::{Sources, Span};

use classes::ClassInfo;
use constants::Constant;
use instances::Instances;
use items::TypeInfo;
use routines::RoutineInfo;
use wheres::{Demand, Request};

/// Reports kept of one compilation; after so many, checking stops.
const DIAGNOSTICS_MAX: usize = 200;
/// Types of one program, classes and instantiations included.
const TYPES_MAX: usize = 20_000;
/// Methods of all types and classes together, inherited ones counted each time: few lines can ask
/// for many.
const METHODS_MAX: usize = 400_000;

/// The environment of code: the scope its names are looked up in, and its type parameters.
#[derive(Clone)]
pub(crate) struct Env {
    pub scope: ScopeId,
    /// The type of each parameter, those of the definition around the code first.
    pub parms: Arc<[(Arc<str>, TypeId)]>,
    /// Methods that give less by the where clause than the argument's type has: code was checked
    /// with that.
    pub narrowed: Arc<[Demand]>,
}

impl Env {
    fn new(scope: ScopeId) -> Env {
        Env { scope, parms: Arc::new([]), narrowed: Arc::new([]) }
    }

    /// Returns the same with further parameters.
    fn with(&self, parms: &[Ident], args: &[TypeId]) -> Env {
        let more = parms.iter().map(|parm| parm.name.clone()).zip(args.iter().copied());
        let parms = self.parms.iter().cloned().chain(more).collect();
        Env { scope: self.scope, parms, narrowed: self.narrowed.clone() }
    }

    /// Returns the type that a parameter stands for.
    fn parm(&self, name: &str) -> Option<TypeId> {
        self.parms.iter().find(|(parm, _)| &**parm == name).map(|(_, ty)| *ty)
    }
}

/// The purpose of a walk over the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Walk {
    /// Every definition as it is written, those with parameters once, with opaque ones.
    Definitions,
    /// Everything that runs: definitions without parameters, and instantiations.
    Instances,
}

/// The reports that matter for the code under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Voice {
    Everything,
    /// An instantiation that runs: its arguments may have methods with fewer exceptions than the
    /// where clause has, so that some arms are useless.
    Instance,
    /// Only limits, which are about all instantiations together; other mistakes are reported
    /// elsewhere.
    Limits,
}

/// The state of an equate.
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
    pub names: &'a Names<'a>,
    pub program: Program,
    pub diagnostics: Vec<Diagnostic>,
    pub walk: Walk,
    pub voice: Voice,
    pub types: Vec<TypeInfo>,
    /// `None` if the class cannot be used.
    pub classes: Vec<Option<ClassInfo>>,
    pub routines: Vec<RoutineInfo>,
    pub instances: Instances,
    /// Types that stand for type parameters.
    pub opaque: HashSet<TypeId>,
    /// The methods that hidden methods call which stand for one with other words, by type and name
    /// of the hidden one.
    pub bridges: HashMap<(TypeId, String), String>,
    /// The demands of each instantiation on its arguments.
    pub demands: Vec<Vec<Demand>>,
    /// Uses of instantiations that are not checked against that yet.
    pub requests: Vec<Request>,
    /// The equates, by position in [`Names::equates`].
    pub equates: Vec<Equate>,
    /// Equates of generic definitions, by the types that the parameters stand for.
    pub equate_instances: HashMap<(usize, Vec<TypeId>), Equate>,
    /// The type of a wrong part of a heading; made when it is needed, so no good program has it.
    pub wrong: Option<TypeId>,
    /// The position of each user's type.
    pub type_at: HashMap<TypeId, usize>,
    /// The position of the class that each own type belongs to.
    pub class_at: HashMap<TypeId, usize>,
    /// Methods of all types and classes so far; see [`METHODS_MAX`].
    pub method_count: usize,
    /// Equates that are open, to bound the recursion over them.
    pub equate_depth: u32,
    /// Makers that are looked at in the middle of other bodies, to bound that recursion.
    pub nested: u32,
    /// The native routines, by position in [`Names::natives`]; `None` if the routine cannot be
    /// used.
    pub native_routines: Vec<Option<RoutineId>>,
    /// Calls of methods that may turn out to wait.
    pub waiting_calls: Vec<waits::WaitingCall>,
    /// Requests that overlap.
    pub overlaps: Vec<overlaps::Overlap>,
    /// Natives that the program uses.
    pub used: Vec<natives::Used>,
    /// The natives that are registered, if that is known.
    pub natives: Option<&'a NativeHeadings>,
}

/// Checks everything in `names`; the program is complete if no diagnostic is an error.
pub(crate) fn check<'a>(
    sources: &'a Sources,
    names: &'a Names<'a>,
    mut diagnostics: Vec<Diagnostic>,
    natives: Option<&'a NativeHeadings>,
) -> (Program, Vec<Diagnostic>) {
    diagnostics.truncate(DIAGNOSTICS_MAX);
    let mut checker = Checker::new(sources, names, diagnostics, Walk::Definitions, natives);
    checker.check_all();
    if !has_error(&checker.diagnostics) && names.have_parameters() {
        let warnings = std::mem::take(&mut checker.diagnostics);
        checker = Checker::new(sources, names, vec![], Walk::Instances, natives);
        checker.check_all();
        // The walk over the definitions has warned of everything already.
        checker.diagnostics.retain(|d| d.severity == Severity::Error);
        checker.diagnostics.extend(warnings);
    }
    if !has_error(&checker.diagnostics) {
        bifrost_ir::tagged::complete(&mut checker.program);
    }
    (checker.program, checker.diagnostics)
}

fn has_error(diagnostics: &[Diagnostic]) -> bool {
    diagnostics.iter().any(|d| d.severity == Severity::Error)
}

impl<'a> Checker<'a> {
    fn new(
        sources: &'a Sources,
        names: &'a Names<'a>,
        diagnostics: Vec<Diagnostic>,
        walk: Walk,
        natives: Option<&'a NativeHeadings>,
    ) -> Self {
        let text = |file| Text { name: sources.name(file).to_owned(), lines: sources.lines(file).to_vec() };
        let mut program = Program::new();
        program.texts = sources.ids().map(text).collect();
        Checker {
            sources,
            names,
            program,
            diagnostics,
            walk,
            voice: Voice::Everything,
            types: vec![],
            classes: vec![],
            routines: vec![],
            instances: Instances::default(),
            opaque: HashSet::new(),
            bridges: HashMap::new(),
            demands: vec![],
            requests: vec![],
            equates: vec![Equate::Untouched; names.equates.len()],
            equate_instances: HashMap::new(),
            wrong: None,
            type_at: HashMap::new(),
            class_at: HashMap::new(),
            method_count: 0,
            equate_depth: 0,
            nested: 0,
            native_routines: vec![],
            waiting_calls: vec![],
            overlaps: vec![],
            used: vec![],
            natives,
        }
    }

    fn check_all(&mut self) {
        self.declare();
        self.settle();
        self.resolve_equates();
        self.settle();
        self.complete_routines();
        self.complete_natives();
        self.settle();
        if !self.is_full() {
            self.check_bodies();
            self.check_waiting_calls();
            if !has_error(&self.diagnostics) {
                self.check_overlaps();
            }
        }
        self.check_natives();
    }

    /// Reports a mistake, unless it is none for the code under way.
    pub(crate) fn report(&mut self, diagnostic: Diagnostic) {
        let heard = match self.voice {
            Voice::Everything => true,
            Voice::Instance => !matches!(diagnostic.code, Code::E0304 | Code::E0310),
            Voice::Limits => false,
        };
        if heard {
            self.note(diagnostic);
        }
    }

    /// Reports that something is too large, in every walk.
    pub(crate) fn report_limit(&mut self, span: Span, message: String, help: &str) {
        self.note(Diagnostic::error(Code::E0109, span, message).help(help));
    }

    /// Reports a mistake of all instantiations together.
    pub(crate) fn note(&mut self, diagnostic: Diagnostic) {
        // Instantiations of one text make the same mistakes.
        if self.diagnostics.len() < DIAGNOSTICS_MAX && !self.diagnostics.contains(&diagnostic) {
            self.diagnostics.push(diagnostic);
        }
    }

    /// Runs `work`, of which only some reports matter.
    pub(crate) fn with_voice<R>(&mut self, voice: Voice, work: impl FnOnce(&mut Self) -> R) -> R {
        let outer = std::mem::replace(&mut self.voice, voice);
        let result = work(self);
        self.voice = outer;
        result
    }

    /// Returns true if so much is wrong that looking on is a waste.
    pub(crate) fn is_full(&self) -> bool {
        self.diagnostics.len() >= DIAGNOSTICS_MAX
    }

    /// Returns true if one more type may be made; reports at `span` if not.
    pub(crate) fn may_add_type(&mut self, span: Span) -> bool {
        let room = self.program.types.len() < TYPES_MAX;
        if !room {
            let message = format!("the program has more than {TYPES_MAX} types");
            self.report_limit(span, message, "split it into several programs");
        }
        room
    }

    /// Returns true if `count` more methods may be made; reports at `span` if not.
    pub(crate) fn may_add_methods(&mut self, count: usize, span: Span) -> bool {
        self.method_count += count;
        let room = self.method_count < METHODS_MAX;
        if !room {
            let message =
                format!("the program has more than {METHODS_MAX} methods, inherited ones counted each time");
            self.report_limit(span, message, "split it into several programs");
        }
        room
    }

    /// Returns the type of a wrong part of a heading.
    pub(crate) fn wrong_type(&mut self) -> TypeId {
        if let Some(ty) = self.wrong {
            return ty;
        }
        let ty = self.program.types.add(items::empty_type("?", TypeKind::Object, false, false, ""));
        self.wrong = Some(ty);
        ty
    }

    /// Returns a type of a heading; `None` if it is wrong.
    pub(crate) fn known(&self, ty: TypeId) -> Option<TypeId> {
        Some(ty).filter(|ty| Some(*ty) != self.wrong)
    }

    /// Returns true if `sub` may stand for `sup`; a wrong type fits everywhere.
    pub(crate) fn below(&self, sub: TypeId, sup: TypeId) -> bool {
        if self.known(sub).is_none() || self.known(sup).is_none() {
            return true;
        }
        // The argument of a parameter may be basic, and then its words are no objects.
        let hidden = sup == Types::ANY && self.opaque.contains(&sub);
        !hidden && self.program.types.is_subtype(sub, sup)
    }

    /// Returns true if a value of type `sub` may stand where one of type `sup` is wanted. The rule
    /// is that of [`Checker::below`]; besides, basic values fit where an `any` is wanted, in a box,
    /// and so do routine values whose arguments and results fit.
    pub(crate) fn fits(&self, sub: TypeId, sup: TypeId) -> bool {
        self.below(sub, sup) || sup == Types::ANY || self.adapts(sub, sup)
    }

    /// Returns true if values of routine type `sub` can stand for `sup` by an adapter (section 5 of
    /// the definition: routine types conform as methods do, and `any` is above all types).
    fn adapts(&self, sub: TypeId, sup: TypeId) -> bool {
        let types = &self.program.types;
        let (Some(a), Some(b)) = (types.routine_heading(sub), types.routine_heading(sup)) else {
            return false;
        };
        let all_fit = |from: &[TypeId], to: &[TypeId]| {
            from.len() == to.len() && from.iter().zip(to).all(|(a, b)| self.fits(*a, *b))
        };
        let given = match (&a.yields, &b.yields) {
            (None, None) => all_fit(&a.results, &b.results),
            (Some(a), Some(b)) => all_fit(a, b),
            _ => false,
        };
        given
            && a.params.len() == b.params.len()
            && a.params.iter().zip(&b.params).all(|(a, b)| self.fits(b.ty, a.ty))
            && a.signals.iter().all(|s| b.signal(s.name).is_some_and(|t| all_fit(&s.values, &t.values)))
    }

    /// Returns true if another object must be made of a value of type `sub` that fits, for it to
    /// stand for `sup`: a box, or an adapter.
    pub(crate) fn is_converted(&self, sub: TypeId, sup: TypeId) -> bool {
        let boxed = sup == Types::ANY && self.program.types.kind(sub).is_basic();
        boxed || !self.below(sub, sup) && self.adapts(sub, sup)
    }

    /// Returns true if values of a type can be sent (section 10.8 of the definition): they are
    /// immutable, and so is all that they hold. The argument of a type parameter is looked at in
    /// each instantiation.
    pub(crate) fn is_sendable(&self, ty: TypeId) -> bool {
        let def = self.program.types.def(ty);
        def.actor
            || self.known(ty).is_none()
            || self.opaque.contains(&ty)
            || matches!(def.kind, TypeKind::Group(_) | TypeKind::Replier(_))
            || def.immutable && self.program.types.parts(ty).into_iter().all(|part| self.is_sendable(part))
    }

    /// Returns the type that keeps values of `ty` from being sent, even as copies (section 10.8):
    /// an `any`, a routine, or a volatile class.
    pub(crate) fn never_sent(&self, ty: TypeId) -> Option<TypeId> {
        let kind = self.program.types.kind(ty);
        match kind {
            TypeKind::Any => Some(ty).filter(|_| self.known(ty).is_some()),
            TypeKind::Class(class) if !self.program.types.def(ty).actor => {
                let volatile = |field: TypeId| {
                    let kind = self.program.types.kind(field);
                    self.program.types.def(field).actor
                        || kind.is_routine()
                        || matches!(kind, TypeKind::Group(_) | TypeKind::Replier(_))
                };
                let native = self.program.native_class(class).is_some();
                let fields = &self.program.classes[class].fields;
                (native || fields.iter().any(|field| volatile(field.ty))).then_some(ty)
            }
            TypeKind::Group(_) | TypeKind::Replier(_) => None,
            _ if kind.is_routine() => Some(ty),
            _ => self.program.types.parts(ty).into_iter().find_map(|part| self.never_sent(part)),
        }
    }

    /// Returns true if this is a type that has subtypes and classes.
    pub(crate) fn is_specification(&self, ty: TypeId) -> bool {
        self.program.types.kind(ty) == TypeKind::Object && !self.opaque.contains(&ty)
    }

    /// Reports E0199 for `what`.
    pub(crate) fn unsupported(&mut self, span: Span, what: &str) {
        self.report(Diagnostic::error(Code::E0199, span, format!("`{what}` is not supported yet")));
    }

    /// Returns the name of a type, for messages.
    pub(crate) fn type_name(&self, ty: TypeId) -> String {
        self.program.types.name(ty).to_owned()
    }

    /// Returns the help that is a heading, if nothing in it is wrong.
    pub(crate) fn heading_help(&self, name: &str, signature: &bifrost_ir::Signature) -> Option<String> {
        let known = signature.types().all(|ty| self.known(ty).is_some());
        known.then(|| format!("`{}`", self.program.types.heading(name, signature)))
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
