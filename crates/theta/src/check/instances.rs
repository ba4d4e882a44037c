//! Instantiations of generic definitions: made on demand, each once (section 5 of the definition).
//!
//! A definition without parameters has one instantiation, without arguments, so types, classes and
//! routines are known by the positions of their instantiations throughout. One that is met in a
//! heading is only noted; [`Checker::settle`] goes on until everything noted has its supertypes,
//! variables and methods. Between two statements of a body all types are complete.
//!
//! Nothing grows without end: nesting, names, and the number of types, methods and routines have
//! limits, and so has the length of the texts that are walked for instantiations.
//!
//! Read [`Checker::type_instance`] first; classes and routines have the same function.

use std::collections::HashMap;

use bifrost_ir::{Actor, TypeId, TypeKind, builtin};
use cranelift_entity::EntityRef;

use super::items::TypeInfo;
use super::routines::RoutineInfo;
use super::wheres::{Needs, Request};
use super::{Checker, Env, Voice, Walk};
use crate::ast::{Ident, TypeExpr};
use crate::diagnostic::{Code, Diagnostic};
use crate::resolve::Def;
use crate::source::Span;

/// The depth to which instantiations may nest (section 5 of the definition).
const DEPTH_MAX: u32 = 64;
/// Bytes in the name of an instantiation: pairs of pairs double with each level.
const NAME_BYTES_MAX: usize = 4096;
/// Instantiations of generic types, classes and routines together.
const INSTANCES_MAX: usize = 8_000;
/// Source text walked for all instantiations together, in bytes.
const CODE_BYTES_MAX: u64 = 16 << 20;

/// The purpose of an instantiation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Use {
    /// It runs. `generic` if it has arguments, so that its text is checked elsewhere.
    Runs { generic: bool },
    /// The definition as it stands, with opaque arguments.
    Stands,
    /// The same for one method, whose own where clause is assumed besides.
    Method(usize),
    /// The same for one maker.
    Maker(usize),
}

/// All instantiations, by definition and arguments.
#[derive(Default)]
pub(crate) struct Instances {
    types: HashMap<(usize, Vec<TypeId>), usize>,
    classes: HashMap<(usize, Vec<TypeId>), usize>,
    routines: HashMap<(usize, Vec<TypeId>), usize>,
    /// The depth to which the arguments of each type are nested.
    depths: HashMap<TypeId, u32>,
    /// The progress of [`Checker::settle`].
    settled: Settled,
    code_bytes: u64,
    /// The number of instantiations that have arguments.
    count: usize,
}

/// The numbers of definitions that are settled.
#[derive(Default)]
struct Settled {
    /// True if it is being done.
    busy: bool,
    /// True if bodies are being checked, so that everything must be settled at once.
    at_once: bool,
    types: usize,
    classes: usize,
    /// Types of the program, whose conditional methods are there.
    known: usize,
}

impl<'a> Checker<'a> {
    /// Returns the reports that matter for an instantiation.
    pub(crate) fn voice_of(&self, purpose: Use) -> Voice {
        match (purpose, self.walk) {
            (Use::Runs { generic: true }, Walk::Definitions) | (Use::Method(_) | Use::Maker(_), _) => {
                Voice::Limits
            }
            (Use::Runs { generic: true }, Walk::Instances) => Voice::Instance,
            _ => Voice::Everything,
        }
    }

    /// Returns the name of an instantiation, unless it is too large.
    pub(crate) fn instance_name(&mut self, base: &str, args: &[TypeId], span: Span) -> Option<String> {
        if args.is_empty() {
            return Some(base.to_owned());
        }
        self.fits_depth(args, span)?;
        let names: Vec<&str> = args.iter().map(|arg| self.program.types.name(*arg)).collect();
        let length = base.len() + names.iter().map(|name| name.len() + 2).sum::<usize>();
        if length > NAME_BYTES_MAX {
            let message = format!("the name of this instantiation is longer than {NAME_BYTES_MAX} bytes");
            self.report_limit(span, message, "define a type for the inner types");
            return None;
        }
        Some(format!("{base}[{}]", names.join(", ")))
    }

    /// Returns true if one more instantiation may be made, if it is one; reports at `span` if not.
    fn may_instantiate(&mut self, args: &[TypeId], span: Span) -> bool {
        if args.is_empty() {
            return true;
        }
        self.instances.count += 1;
        let room = self.instances.count <= INSTANCES_MAX;
        if !room {
            let message = format!("the program has more than {INSTANCES_MAX} instantiations");
            self.report_limit(
                span,
                message,
                "an instantiation that needs a larger one of itself is infinite",
            );
        }
        room
    }

    /// Reports parts of a type that nest too deep.
    pub(crate) fn fits_depth(&mut self, parts: &[TypeId], span: Span) -> Option<()> {
        let nested = parts.iter().map(|part| self.depth(*part)).max().unwrap_or(0);
        if nested >= DEPTH_MAX {
            let message = format!("type arguments are nested deeper than {DEPTH_MAX} levels");
            self.report_limit(
                span,
                message,
                "an instantiation that needs a larger one of itself is infinite",
            );
            return None;
        }
        Some(())
    }

    fn depth(&mut self, ty: TypeId) -> u32 {
        if let Some(depth) = self.instances.depths.get(&ty) {
            return *depth;
        }
        let parts = self.program.types.parts(ty);
        let depth = parts.into_iter().map(|part| 1 + self.depth(part)).max().unwrap_or(0);
        self.instances.depths.insert(ty, depth);
        depth
    }

    fn note_depth(&mut self, ty: TypeId, args: &[TypeId]) {
        let depth = args.iter().map(|arg| 1 + self.depth(*arg)).max().unwrap_or(0);
        self.instances.depths.insert(ty, depth);
    }

    /// Returns the type arguments `written` for a definition with these parameters.
    pub(crate) fn type_arguments(
        &mut self,
        env: &Env,
        name: &Ident,
        parms: &[Ident],
        written: &[TypeExpr],
        span: Span,
    ) -> Option<Vec<TypeId>> {
        if parms.len() == written.len() {
            let args: Vec<_> = written.iter().map(|arg| self.resolve_type(env, arg)).collect();
            return args.into_iter().collect();
        }
        let list = parms.iter().map(|parm| &*parm.name).collect::<Vec<_>>().join(", ");
        let (message, help) = match parms.len() {
            0 => (format!("`{name}` has no type parameters"), format!("write `{name}`")),
            n => {
                let plural = if n == 1 { "" } else { "s" };
                let message = format!("`{name}` takes {n} type argument{plural}, {} given", written.len());
                (message, format!("write `{name}[{list}]`"))
            }
        };
        self.report(Diagnostic::error(Code::E0203, span, message).help(help));
        None
    }

    /// Returns the type that an instantiation of a definition is, asked for at `span`.
    pub(crate) fn type_instance(&mut self, def: usize, args: Vec<TypeId>, span: Span) -> Option<usize> {
        if let Some(at) = self.instances.types.get(&(def, args.clone())) {
            return Some(*at);
        }
        let purpose = Use::Runs { generic: !args.is_empty() };
        self.add_type(def, args, purpose, span)
    }

    pub(crate) fn add_type(
        &mut self,
        def: usize,
        args: Vec<TypeId>,
        purpose: Use,
        span: Span,
    ) -> Option<usize> {
        let placed = &self.names.types[def];
        let base = self.names.outside_name(Def::Type(def), &placed.ast.name.name);
        let name = self.instance_name(base, &args, span)?;
        if !self.may_instantiate(&args, span) || !self.may_add_type(span) {
            return None;
        }
        let public = placed.public && args.iter().all(|arg| self.program.types.def(*arg).public);
        let ast = placed.ast;
        let ty = self.program.types.add(super::items::empty_type(
            &name,
            TypeKind::Object,
            ast.immutable,
            public,
            &ast.doc,
        ));
        self.program.types.def_mut(ty).actor = ast.actor;
        let env = Env::new(placed.inner).with(&ast.parms, &args);
        self.note_depth(ty, &args);
        let at = self.types.len();
        self.types.push(TypeInfo::new(def, ty, env, purpose, self.demands.len()));
        self.demands.push(vec![]);
        self.type_at.insert(ty, at);
        self.instances.types.insert((def, args), at);
        Some(at)
    }

    /// Returns the position of an instantiation of a class.
    pub(crate) fn class_instance(&mut self, def: usize, args: Vec<TypeId>, span: Span) -> Option<usize> {
        if let Some(at) = self.instances.classes.get(&(def, args.clone())) {
            return Some(*at);
        }
        let purpose = Use::Runs { generic: !args.is_empty() };
        self.add_class(def, args, purpose, span)
    }

    pub(crate) fn add_class(
        &mut self,
        def: usize,
        args: Vec<TypeId>,
        purpose: Use,
        span: Span,
    ) -> Option<usize> {
        let placed = &self.names.classes[def];
        let ast = placed.ast;
        if ast.native.is_some() && !ast.parms.is_empty() {
            return None;
        }
        let name =
            self.instance_name(self.names.outside_name(Def::Class(def), &ast.name.name), &args, span)?;
        if !self.may_instantiate(&args, span) || !self.may_add_type(span) {
            return None;
        }
        let env = Env::new(placed.inner).with(&ast.parms, &args);
        let (id, ty) = self.new_class(name, &ast.doc);
        if let Some(actor) = &ast.actor {
            let public = placed.public && args.iter().all(|arg| self.program.types.def(*arg).public);
            let own = self.program.types.def_mut(ty);
            (own.actor, own.public) = (true, public);
            let (functional, stops_on_failure) = (actor.functional, !actor.stops.is_empty());
            self.program.classes[id].actor = Some(Actor { functional, stops_on_failure, ..Actor::default() });
        }
        if let Some(rust) = &ast.native {
            self.declare_native_class(id, rust, ast.actor.is_some());
        }
        self.note_depth(ty, &args);
        let at = self.classes.len();
        self.classes.push(Some(super::classes::ClassInfo::new(
            def,
            id,
            ty,
            env,
            purpose,
            self.demands.len(),
        )));
        self.demands.push(vec![]);
        self.class_at.insert(ty, at);
        self.instances.classes.insert((def, args), at);
        Some(at)
    }

    /// Returns the position of an instantiation of a routine.
    pub(crate) fn routine_instance(&mut self, def: usize, args: Vec<TypeId>, span: Span) -> Option<usize> {
        if let Some(at) = self.instances.routines.get(&(def, args.clone())) {
            return Some(*at);
        }
        let purpose = Use::Runs { generic: !args.is_empty() };
        self.add_routine(def, args, purpose, span)
    }

    pub(crate) fn add_routine(
        &mut self,
        def: usize,
        args: Vec<TypeId>,
        purpose: Use,
        span: Span,
    ) -> Option<usize> {
        let base = &self.names.routines[def].ast.heading.name.name;
        let name = self.instance_name(self.names.outside_name(Def::Routine(def), base), &args, span)?;
        if !self.may_instantiate(&args, span) {
            return None;
        }
        let info: RoutineInfo = self.new_routine(def, &args, name, purpose);
        let at = self.routines.len();
        self.routines.push(info);
        self.instances.routines.insert((def, args), at);
        Some(at)
    }

    /// Notes that the owner of `needs` is used with the arguments written at `spans` (one for each,
    /// or one for all). Settles the new instantiations if a body waits for them.
    pub(crate) fn ask(&mut self, needs: Needs, spans: Vec<Span>) {
        let wanted = match needs {
            Needs::Type(at) => self.types[at].demands,
            Needs::Class(at) => self.classes[at].as_ref().map_or(usize::MAX, |info| info.demands),
            Needs::Nothing => usize::MAX,
            Needs::Other(demands) => demands,
        };
        if self.voice != Voice::Limits && !spans.is_empty() && wanted < self.demands.len() {
            self.requests.push(Request { demands: wanted, spans });
        }
        if self.instances.settled.at_once {
            self.settle();
        }
    }

    /// Makes types complete as soon as they are named, from now on.
    pub(crate) fn settle_at_once(&mut self) {
        self.instances.settled.at_once = true;
    }

    /// Completes all types and classes that were noted.
    pub(crate) fn settle(&mut self) {
        if std::mem::replace(&mut self.instances.settled.busy, true) {
            return;
        }
        let (first_type, first_class) = (self.instances.settled.types, self.instances.settled.classes);
        let (mut types, mut classes) = (vec![], vec![]);
        let (mut next_type, mut next_class) = (first_type, first_class);
        while next_type < self.types.len() || next_class < self.classes.len() {
            let (from_type, from_class) = (next_type, next_class);
            // Supertypes and superclasses first: they say in which order the rest is done.
            while next_type < self.types.len() || next_class < self.classes.len() {
                if next_type < self.types.len() {
                    self.link_type(next_type);
                    next_type += 1;
                } else {
                    self.link_class(next_class);
                    next_class += 1;
                }
            }
            let more_types = self.types_in_order(from_type..next_type);
            for at in &more_types {
                self.resolve_headings(*at);
            }
            types.extend(more_types);
            let more_classes = self.classes_in_order(from_class..next_class);
            for at in &more_classes {
                self.resolve_class(*at);
            }
            classes.extend(more_classes);
        }
        (self.instances.settled.types, self.instances.settled.classes) = (next_type, next_class);
        self.complete_types(&types);
        for at in classes {
            self.complete_class(at);
        }
        self.complete_builtins();
        self.instances.settled.known = self.program.types.len();
        self.check_requests();
        self.instances.settled.busy = false;
    }

    /// Gives new instantiations of built-in types the methods that they have for their element
    /// types.
    pub(crate) fn complete_builtins(&mut self) {
        builtin::complete(&mut self.program.types, self.instances.settled.known);
    }

    /// Notes that a type got methods after it was settled.
    pub(crate) fn unsettle(&mut self, ty: TypeId) {
        let known = &mut self.instances.settled.known;
        *known = ty.index().min(*known);
    }

    /// Returns true if another text of this length may be walked for an instantiation.
    pub(crate) fn may_walk(&mut self, purpose: Use, text: Span) -> bool {
        if purpose != (Use::Runs { generic: true }) {
            return true;
        }
        self.instances.code_bytes += u64::from(text.end.saturating_sub(text.start));
        let room = self.instances.code_bytes <= CODE_BYTES_MAX;
        if !room {
            let message = format!(
                "the instantiations of this program come from more than {CODE_BYTES_MAX} bytes of text"
            );
            self.report_limit(text, message, "use fewer type arguments, or smaller routines");
        }
        room
    }
}
