//! Classes: variables, methods, inheritance, makers (section 6 of the definition).
//!
//! The own type of a class lists the methods of its specification, its private ones, and those of
//! its superclass. Some methods must not be called by name: those that are hidden, or private to
//! the superclass's module. They are listed under a name with a dot, which no program can write,
//! because calls that the superclass makes on `self` still need them.
//!
//! A maker becomes two functions. The first is a routine that computes the values of the variables,
//! and of the locals that its `then` part uses. The second is a method `NAME.then` that runs on the
//! finished object. The object itself is made in one step by the constructor of the subclass.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use bifrost_ir::{
    Body, ClassId, Field, FuncId, Method, MethodId, MethodRef, RoutineId, Signature, Supertype, TypeId,
};

use super::instances::Use;
use super::items::{CHAIN_MAX, Conforms, MEMBERS_MAX, bridge_name, method, renamed};
use super::natives::native_field;
use super::routines::text_of;
use super::wheres::Demand;
use super::{Checker, Env, Voice, Walk};
use crate::ast::{self, Ident};
use crate::diagnostic::{Code, Diagnostic};
use crate::lower::{bridge, getter, setter};
use crate::persistent::written_name;
use crate::resolve::Def;
use crate::source::Span;

/// The number of times that makers may need others that are not looked at yet.
const NESTED_MAX: u32 = 64;

/// An instance variable.
#[derive(Clone, Debug)]
pub(crate) struct Ivar {
    pub name: Arc<str>,
    pub ty: Option<TypeId>,
    pub span: Span,
}

/// The facts about a class.
#[derive(Clone)]
pub(crate) struct ClassInfo {
    /// Position in [`crate::resolve::Names::classes`].
    pub def: usize,
    pub id: ClassId,
    pub ty: TypeId,
    pub env: Env,
    pub purpose: Use,
    /// Position in [`Checker::demands`].
    pub demands: usize,
    /// Position of the superclass in the list of classes.
    pub superclass: Option<usize>,
    /// The number of classes above each other here; 0 until that is known.
    height: u32,
    subclasses: Vec<usize>,
    /// Own instance variables.
    pub ivars: Vec<Ivar>,
    /// Position of the first own variable in the layout.
    pub first_field: u32,
    pub immutable: bool,
    pub makers: HashMap<(Arc<str>, Vec<TypeId>), MakerInfo>,
    methods: Arc<[OwnMethod]>,
    /// True if the makers have been looked at.
    pub made: Made,
}

/// The progress of the checks of a class's makers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Made {
    Untouched,
    Open,
    Done,
}

/// A method with its code.
struct OwnMethod {
    /// Position in the text of the class.
    index: usize,
    func: FuncId,
    signature: Signature,
    demands: Vec<Demand>,
}

/// A maker that has been checked.
#[derive(Clone)]
pub(crate) struct MakerInfo {
    pub signature: Signature,
    /// Gives the values of all variables, then those that `then` takes.
    pub values: RoutineId,
    pub fields: usize,
    /// The part that runs on the finished object.
    pub then: Option<String>,
}

impl ClassInfo {
    pub fn new(def: usize, id: ClassId, ty: TypeId, env: Env, purpose: Use, demands: usize) -> ClassInfo {
        ClassInfo {
            def,
            id,
            ty,
            env,
            purpose,
            demands,
            superclass: None,
            height: 0,
            subclasses: vec![],
            ivars: vec![],
            first_field: 0,
            immutable: false,
            makers: HashMap::new(),
            methods: Arc::new([]),
            made: Made::Untouched,
        }
    }

    /// Returns the own instance variable of that name, with its position in the layout.
    pub fn ivar(&self, name: &str) -> Option<(u32, &Ivar)> {
        let at = self.ivars.iter().position(|ivar| &*ivar.name == name)?;
        Some((self.first_field + at as u32, &self.ivars[at]))
    }
}

/// A method of a class while the list is made.
pub(crate) struct Entry {
    pub method: Method,
    pub body: Body,
    /// The place for the report that it does not fit; the class's name for one that was not
    /// written.
    pub span: Span,
}

impl<'a> Checker<'a> {
    /// Returns the text of the class at a position.
    pub(crate) fn class_ast(&self, at: usize) -> &'a ast::ClassDef {
        let def = self.classes[at].as_ref().map_or(0, |info| info.def);
        self.names.classes[def].ast
    }

    /// Returns the scope in which the class at a position is defined.
    pub(crate) fn class_home(&self, at: usize) -> crate::resolve::ScopeId {
        let def = self.classes[at].as_ref().map_or(0, |info| info.def);
        self.names.classes[def].home
    }

    /// Makes the class of a definition, and one more for each member that is checked with a where
    /// clause of its own; whether there was room.
    pub(crate) fn declare_class(&mut self, def: usize) -> bool {
        let ast = self.names.classes[def].ast;
        let Some((args, purpose)) = self.standing(&ast.name, &ast.parms) else { return true };
        if self.add_class(def, args, purpose, ast.name.span).is_none() {
            return false;
        }
        if purpose != Use::Stands {
            return true;
        }
        let conditional = |heading: &ast::Heading| {
            let own = |clause: &ast::Where| heading.parms.iter().any(|parm| parm.name == clause.parm.name);
            heading.wheres.iter().any(|clause| !own(clause))
        };
        let methods = ast.methods.iter().enumerate().filter(|(_, it)| conditional(&it.heading));
        let methods = methods.map(|(index, _)| Use::Method(index));
        let makers = ast.makers.iter().enumerate().filter(|(_, it)| conditional(&it.heading));
        let makers = makers.map(|(index, _)| Use::Maker(index));
        methods.chain(makers).all(|purpose| {
            let args = self.with_voice(Voice::Limits, |cx| cx.opaque_types(&ast.parms));
            self.add_class(def, args, purpose, ast.name.span).is_some()
        })
    }

    fn in_class<R>(&mut self, at: usize, work: impl FnOnce(&mut Self) -> R) -> R {
        let voice = self.classes[at].as_ref().map_or(Voice::Limits, |info| self.voice_of(info.purpose));
        self.with_voice(voice, work)
    }

    /// Resolves the superclass and the implemented types of a new class.
    pub(crate) fn link_class(&mut self, at: usize) {
        self.in_class(at, |cx| cx.resolve_above(at));
    }

    fn resolve_above(&mut self, at: usize) {
        let Some(info) = &self.classes[at] else { return };
        let (ty, env) = (info.ty, info.env.clone());
        let ast = self.class_ast(at);
        if ast.implements.len() > MEMBERS_MAX {
            return self.too_many(&ast.name);
        }
        for written in &ast.implements {
            let Some(up) = self.resolve_type(&env, written) else { continue };
            if !self.is_specification(up) {
                let message = format!("`{}` cannot be implemented", self.type_name(up));
                self.report(
                    Diagnostic::error(Code::E0208, written.span, message)
                        .help("name a type defined by `type`"),
                );
                continue;
            }
            if self.program.types.def(up).actor != ast.actor.is_some() {
                let up = self.type_name(up);
                let (message, help) = match ast.actor {
                    Some(_) => (
                        format!("`{up}` is not an actor type"),
                        "an actor implements actor types: `type` with `actor` before it",
                    ),
                    None => (
                        format!("`{up}` is an actor type"),
                        "only actors implement it: write `actor` in place of `class`",
                    ),
                };
                self.report(Diagnostic::error(Code::E0208, written.span, message).help(help));
                continue;
            }
            let supertypes = &mut self.program.types.def_mut(ty).supertypes;
            if supertypes.iter().any(|known| known.ty == up) {
                let message = format!("`{}` is named already", self.type_name(up));
                self.report(
                    Diagnostic::error(Code::E0209, written.span, message).help("leave one of them out"),
                );
                continue;
            }
            supertypes.push(Supertype { ty: up, renames: vec![] });
        }
        let Some((written, _)) = &ast.inherits else { return };
        let ast::TypeExprKind::Name { name, args } = &written.kind else {
            let text = self.sources.slice(written.span);
            let message = format!("`{text}` is not a class");
            self.report(
                Diagnostic::error(Code::E0208, written.span, message).help("only classes can be inherited"),
            );
            return;
        };
        let known = env.parm(&name.name).is_none();
        match self.names.lookup(env.scope, &name.name).map(|entry| entry.def).filter(|_| known) {
            Some(Def::Class(def)) if self.names.classes[def].ast.native.is_some() => {
                let message = format!("class `{name}` is native and cannot be inherited");
                let help = "implement its types, and store an object of it in an instance variable";
                self.report(Diagnostic::error(Code::E0208, name.span, message).help(help));
            }
            Some(Def::Class(def)) => {
                let parms = &self.names.classes[def].ast.parms;
                let Some(types) = self.type_arguments(&env, name, parms, args, written.span) else { return };
                let Some(up) = self.class_instance(def, types, written.span) else { return };
                self.ask(super::wheres::Needs::Class(up), args.iter().map(|arg| arg.span).collect());
                if let Some(info) = &mut self.classes[at] {
                    info.superclass = Some(up);
                }
            }
            _ if name.name.is_empty() => {}
            _ => {
                let message = format!("there is no class `{name}`");
                self.report(
                    Diagnostic::error(Code::E0208, name.span, message).help("only classes can be inherited"),
                );
            }
        }
    }

    /// Returns new classes, each after its superclass; cycles are reported, and chains that are too
    /// long cut.
    pub(crate) fn classes_in_order(&mut self, new: Range<usize>) -> Vec<usize> {
        let mut order = vec![];
        let mut open = vec![false; new.len()];
        let first = new.start;
        for at in new {
            let mut chain = vec![];
            let mut next = Some(at);
            while let Some(current) = next.filter(|at| self.height(*at) == 0) {
                if std::mem::replace(&mut open[current - first], true) {
                    let name = &self.class_ast(current).name;
                    let message = format!("class `{name}` would inherit from itself");
                    self.note(Diagnostic::error(Code::E0208, name.span, message));
                    if let Some(info) = chain.last().and_then(|last: &usize| self.classes[*last].as_mut()) {
                        info.superclass = None;
                    }
                    break;
                }
                chain.push(current);
                next = self.classes[current].as_ref().and_then(|info| info.superclass);
            }
            for current in chain.into_iter().rev() {
                self.link_subclass(current);
                order.push(current);
            }
        }
        order
    }

    fn height(&self, at: usize) -> u32 {
        self.classes[at].as_ref().map_or(1, |info| info.height)
    }

    /// Notes the superclass of a class.
    fn link_subclass(&mut self, at: usize) {
        let superclass = self.classes[at].as_ref().and_then(|info| info.superclass);
        let height = 1 + superclass.map_or(0, |up| self.height(up));
        let too_high = height > CHAIN_MAX;
        if too_high {
            let name = &self.class_ast(at).name;
            let message = format!("class `{name}` has more than {CHAIN_MAX} superclasses in a chain");
            self.report_limit(name.span, message, "inherit less");
        } else if let Some(up) = superclass.and_then(|up| self.classes[up].as_mut()) {
            up.subclasses.push(at);
        }
        if let Some(info) = &mut self.classes[at] {
            info.height = if too_high { 1 } else { height };
            info.superclass = superclass.filter(|_| !too_high);
        }
    }

    /// Types of variables and headings of methods of a new class.
    pub(crate) fn resolve_class(&mut self, at: usize) {
        self.in_class(at, |cx| cx.resolve_members(at));
    }

    fn resolve_members(&mut self, at: usize) {
        let Some(info) = &self.classes[at] else { return };
        let (env, purpose, place) = (info.env.clone(), info.purpose, info.demands);
        let ast = self.class_ast(at);
        let most =
            [ast.ivars.len(), ast.methods.len(), ast.makers.len(), ast.provides.len(), ast.hides.len()];
        if most.into_iter().any(|count| count > MEMBERS_MAX) {
            return self.too_many(&ast.name);
        }
        let demands = self.resolve_wheres(&env, &ast.name, &ast.parms, &ast.wheres);
        if !matches!(purpose, Use::Runs { .. }) {
            self.assume(&demands);
            let own = match purpose {
                Use::Method(index) => &ast.methods[index].heading.wheres[..],
                Use::Maker(index) => &ast.makers[index].heading.wheres[..],
                _ => &[],
            };
            let own = self.resolve_wheres(&env, &ast.name, &ast.parms, own);
            self.assume(&own);
        }
        self.demands[place] = demands;
        self.check_persistent(at);
        self.resolve_own_equates(&env, &ast.equates);
        self.check_distinct(ast.ivars.iter().map(|ivar| &ivar.name));
        let mut ivars = vec![];
        for ivar in &ast.ivars {
            let ty = self.resolve_type_or_wrong(&env, &ivar.ty);
            ivars.push(Ivar { name: ivar.name.name.clone(), ty: self.known(ty), span: ivar.name.span });
        }
        let makers = ast.makers.iter().map(|maker| &maker.heading.name);
        self.check_distinct(ast.methods.iter().map(|m| &m.heading.name).chain(makers));
        let mut methods: Vec<OwnMethod> = vec![];
        for (index, routine) in ast.methods.iter().enumerate() {
            let heading = &routine.heading;
            let (signature, demands) = match purpose == Use::Method(index) {
                // Here the mistakes of a heading with a where clause are found.
                true => self.with_voice(Voice::Everything, |cx| {
                    let signature = cx.resolve_heading(&env, heading);
                    (signature, cx.resolve_wheres(&env, &heading.name, &ast.parms, &heading.wheres))
                }),
                false => self.resolve_method_heading(&env, heading, &ast.parms),
            };
            if !methods.iter().any(|own| ast.methods[own.index].heading.name.name == heading.name.name) {
                methods.push(OwnMethod { index, func: self.placeholder(), signature, demands });
            }
        }
        if let Some(info) = &mut self.classes[at] {
            (info.ivars, info.methods) = (ivars, methods.into());
        }
        self.check_stored_variables(at);
    }

    /// Completes the layout and methods of a new class whose superclass is complete.
    pub(crate) fn complete_class(&mut self, at: usize) {
        self.in_class(at, |cx| {
            if cx.complete_variables(at) {
                cx.complete_methods(at);
            }
        });
    }

    fn complete_variables(&mut self, at: usize) -> bool {
        let Some(info) = &self.classes[at] else { return false };
        let (id, ty) = (info.id, info.ty);
        let own: Vec<_> = info.ivars.iter().map(|ivar| (ivar.name.to_string(), ivar.ty)).collect();
        let above = info.superclass.and_then(|up| self.classes[up].as_ref().map(|info| info.id));
        let mut fields = above.map_or(vec![], |up| self.program.classes[up].fields.clone());
        let first_field = fields.len() as u32;
        for (name, ty) in own {
            let ty = match ty {
                Some(ty) => ty,
                None => self.wrong_type(),
            };
            fields.push(Field { name, ty });
        }
        if self.class_ast(at).native.is_some() && self.class_ast(at).actor.is_none() {
            fields.push(native_field());
        }
        if fields.len() > MEMBERS_MAX {
            self.too_many(&self.class_ast(at).name);
            return false;
        }
        let class = &mut self.program.classes[id];
        (class.fields, class.superclass) = (fields, above);
        let types = &self.program.types;
        let immutable = types.def(ty).supertypes.iter().any(|up| types.def(up.ty).immutable);
        self.program.types.def_mut(ty).immutable = immutable;
        if let Some(info) = &mut self.classes[at] {
            (info.first_field, info.immutable) = (first_field, immutable);
        }
        if immutable {
            self.check_sendable_variables(at);
        }
        true
    }

    /// Objects of immutable types are copied and sent, so all that they hold must be sendable
    /// (sections 9 and 10.8).
    fn check_sendable_variables(&mut self, at: usize) {
        let Some(info) = &self.classes[at] else { return };
        let (superclass, ivars) = (info.superclass, info.ivars.clone());
        for ivar in ivars {
            if ivar.ty.is_none_or(|ty| self.is_sendable(ty)) {
                continue;
            }
            let ty = ivar.ty.map_or(String::new(), |ty| self.type_name(ty));
            let message =
                format!("`{}` belongs to an immutable type, so its type cannot be `{ty}`", ivar.name);
            let help = "use an immutable type, for example `sequence[T]` in place of `array[T]`";
            self.report(Diagnostic::error(Code::E0306, ivar.span, message).help(help));
        }
        if let Some(up) = superclass.and_then(|up| self.classes[up].as_ref()).filter(|up| !up.immutable) {
            let message = format!(
                "an immutable class cannot inherit from `{}`, which is mutable",
                self.type_name(up.ty)
            );
            let help = "let the superclass implement an immutable type, too";
            let span = self.class_ast(at).inherits.as_ref().map(|(written, _)| written.span);
            if let Some(span) = span {
                self.report(Diagnostic::error(Code::E0306, span, message).help(help));
            }
        }
    }

    fn complete_methods(&mut self, at: usize) {
        let Some(info) = &self.classes[at] else { return };
        let (id, ty) = (info.id, info.ty);
        let name = &self.class_ast(at).name;
        let required = self
            .program
            .types
            .def(ty)
            .supertypes
            .iter()
            .map(|up| self.program.types.def(up.ty).methods.len());
        let above = info.superclass.and_then(|up| self.classes[up].as_ref());
        let inherited = above.map_or(0, |up| self.program.types.def(up.ty).methods.len());
        let count = required.sum::<usize>() + inherited + info.methods.len();
        if count > 4 * MEMBERS_MAX {
            return self.too_many(name);
        }
        if !self.may_add_methods(count, name.span) {
            return;
        }
        let mut entries = match &self.class_ast(at).native {
            Some((rust, _)) => self.native_methods(at, rust),
            None => self.own_methods(at),
        };
        self.inherit(at, &mut entries);
        for up in self.program.types.def(ty).supertypes.clone() {
            for method in self.program.types.def(up.ty).methods.keys().collect::<Vec<_>>() {
                self.implement(at, &mut entries, MethodRef { ty: up.ty, method });
            }
        }
        self.program.classes[id].bodies = entries.iter().map(|entry| entry.body).collect();
        self.program.types.def_mut(ty).methods = entries.into_iter().map(|entry| entry.method).collect();
        self.check_diamonds(ty, name.span);
        self.complete_actor(at);
    }

    /// Returns the methods that the class defines, and has in this instantiation.
    fn own_methods(&mut self, at: usize) -> Vec<Entry> {
        let Some(info) = &self.classes[at] else { return vec![] };
        let ast = self.class_ast(at);
        let methods = info.methods.clone();
        let there = methods.iter().filter(|own| own.demands.iter().all(|demand| self.is_met(demand)));
        there
            .map(|own| {
                let heading = &ast.methods[own.index].heading;
                let mut method = method(&heading.name.name, own.signature.clone(), vec![], &heading.doc);
                method.public = ast.actor.is_some() && !method.name.contains('.');
                Entry { method, body: Body::Func(own.func), span: heading.span }
            })
            .collect()
    }

    /// Adds the methods of the superclass.
    fn inherit(&mut self, at: usize, entries: &mut Vec<Entry>) {
        let ast = self.class_ast(at);
        let Some(up) = self.classes[at].as_ref().and_then(|info| info.superclass) else { return };
        let Some(above) = self.classes[up].clone() else { return };
        let same_module = self.names.is_within(self.class_home(at), self.class_home(up));
        let hidden = &self.class_ast(up).hides;
        let written = ast.inherits.as_ref().map_or(&[][..], |(_, renames)| renames);
        let renames: Vec<(String, String)> =
            written.iter().map(|r| (r.new.name.to_string(), r.old.name.to_string())).collect();
        self.check_distinct_renames(written);
        for rename in written {
            self.check_old_name(above.ty, &rename.old);
        }
        let bodies = self.program.classes[above.id].bodies.clone();
        for ((method, inherited), body) in
            self.program.types.def(above.ty).methods.clone().into_iter().zip(bodies)
        {
            let from = MethodRef { ty: above.ty, method };
            let mut name = renamed(&inherited.name, &renames);
            let offered =
                (inherited.public || same_module) && !hidden.iter().any(|h| *h.name == *inherited.name);
            if !offered && !name.contains('.') {
                name = format!("{}.{}", self.program.classes[above.id].name, name);
            }
            let own = entries.iter().position(|entry| entry.method.name == name);
            match own {
                Some(own) if name == inherited.name => {
                    let span = entries[own].span;
                    match self.check_conforms(span, &name, &entries[own].method.signature.clone(), from) {
                        Conforms::Boxed => self.bridge(at, entries, own, inherited, from),
                        Conforms::AsItIs => entries[own].method.stands_for.push(from),
                    }
                }
                Some(own) => {
                    let message = format!(
                        "`{name}` is both a method of this class and the new name of an inherited method"
                    );
                    self.report(
                        Diagnostic::error(Code::E0209, entries[own].span, message)
                            .help("choose another name"),
                    );
                }
                None => {
                    let method = Method { name, stands_for: vec![from], public: false, ..inherited };
                    entries.push(Entry { method, body, span: ast.name.span });
                }
            }
        }
    }

    /// Finds or makes the method that implements `wanted`.
    fn implement(&mut self, at: usize, entries: &mut Vec<Entry>, wanted: MethodRef) {
        let required = self.program.types.method(wanted).clone();
        if let Some(target) = self.bridges.get(&(wanted.ty, required.name.clone())) {
            // One that is missing has been reported.
            if let Some(own) = entries.iter().position(|entry| entry.method.name == *target) {
                self.bridge(at, entries, own, required, wanted);
            }
            return;
        }
        if let Some(own) = entries.iter().position(|entry| entry.method.name == required.name) {
            let (span, signature) = (entries[own].span, entries[own].method.signature.clone());
            let conforms = self.check_conforms(span, &required.name, &signature, wanted);
            let entry = &mut entries[own].method;
            entry.public = true;
            if entry.doc.is_empty() {
                entry.doc.clone_from(&required.doc);
            }
            return match conforms {
                Conforms::Boxed => self.bridge(at, entries, own, required, wanted),
                Conforms::AsItIs => entries[own].method.stands_for.push(wanted),
            };
        }
        let ast = self.class_ast(at);
        if let Some((rust, _)) = &ast.native {
            return entries.push(self.implement_native(at, rust, wanted));
        }
        if let Some((func, signature)) = self.abbreviated(at, &required) {
            let method = Method { name: required.name, signature, stands_for: vec![wanted], ..required };
            return entries.push(Entry { method, body: Body::Func(func), span: ast.name.span });
        }
        let heading = self.program.types.heading(&required.name, &required.signature);
        let owner = self.type_name(wanted.ty);
        let message = format!("class `{}` does not implement `{heading}` of `{owner}`", ast.name);
        let variable = required.name.strip_prefix("set_").unwrap_or(&required.name);
        let help = format!("add the method, or an instance variable `{variable}`");
        self.report(Diagnostic::error(Code::E0204, ast.name.span, message).help(help));
    }

    /// Lets the entry `own` stand for a method with other words: by a hidden one that calls it.
    fn bridge(
        &mut self,
        at: usize,
        entries: &mut Vec<Entry>,
        own: usize,
        required: Method,
        wanted: MethodRef,
    ) {
        let Some((id, ty)) = self.classes[at].as_ref().map(|info| (info.id, info.ty)) else { return };
        let name = match required.name.contains('.') {
            true => required.name.clone(),
            false => bridge_name(self.program.types.name(wanted.ty), &required.name),
        };
        let callee = MethodRef { ty, method: MethodId::from_u32(own as u32) };
        let full_name = format!("{}.{name}", self.program.classes[id].name);
        let (from, to) = (&entries[own].method.signature, &required.signature);
        let func = bridge(&mut self.program, full_name, callee, from, to);
        let body = Body::Func(self.program.funcs.push(func));
        match entries.iter().position(|entry| entry.method.name == name) {
            // An inherited method calls the one of the superclass.
            Some(known) => {
                entries[known].body = body;
                entries[known].method.stands_for.push(wanted);
                entries[known].method.public |= required.public;
            }
            None => {
                let method = Method { name, stands_for: vec![wanted], ..required };
                entries.push(Entry { method, body, span: entries[own].span });
            }
        }
    }

    /// Returns the method generated from an instance variable, if there is one that fits.
    fn abbreviated(&mut self, at: usize, required: &Method) -> Option<(FuncId, Signature)> {
        let info = self.classes[at].as_ref()?;
        let (id, own) = (info.id, info.ty);
        let wanted = &required.signature;
        let name = format!("{}.{}", self.program.classes[id].name, required.name);
        if wanted.is_iterator() {
            return None;
        }
        let func = match (wanted.params.as_slice(), wanted.results.as_slice()) {
            ([], [result]) => {
                let (field, ivar) = info.ivar(&required.name)?;
                // A variable of a wrong type has been reported; one more report would not help.
                let ty = ivar.ty.unwrap_or(*result);
                if !self.below(ty, *result) {
                    return None;
                }
                let signature = Signature { results: vec![ty], ..Signature::default() };
                getter(name, id, own, field, signature)
            }
            ([param], []) if !info.immutable => {
                let (field, ivar) = info.ivar(required.name.strip_prefix("set_")?)?;
                let ty = ivar.ty.unwrap_or(param.ty);
                if !self.below(param.ty, ty) {
                    return None;
                }
                let signature = Signature { params: vec![param.clone()], ..Signature::default() };
                setter(name, id, own, field, signature)
            }
            _ => return None,
        };
        let signature = func.signature.clone();
        Some((self.program.funcs.push(func), signature))
    }

    /// Checks the code of a class: its makers and its methods.
    pub(crate) fn check_class(&mut self, at: usize) {
        let Some(info) = self.classes[at].clone() else { return };
        if !self.is_walked(info.purpose) {
            return;
        }
        self.check_makers(at);
        self.in_class(at, |cx| {
            cx.check_methods(at, &info);
            let demands = cx.demands[info.demands].clone();
            let env = cx.narrowed(&info.env, &demands);
            cx.check_actor(at, &env);
        });
    }

    fn check_methods(&mut self, at: usize, info: &ClassInfo) {
        let ast = self.class_ast(at);
        let class_name = self.program.classes[info.id].name.clone();
        for own in info.methods.iter() {
            let routine = &ast.methods[own.index];
            if self.is_full() || !self.may_walk(info.purpose, text_of(routine.heading.span, routine.end)) {
                return;
            }
            let voice = match info.purpose {
                // Only the method that this is made for.
                Use::Method(index) if index == own.index => Voice::Everything,
                Use::Method(_) | Use::Maker(_) => continue,
                // One with a where clause of its own is checked where that is assumed.
                Use::Stands if !own.demands.is_empty() => continue,
                // It does not exist here, and nobody calls it.
                _ if !own.demands.iter().all(|demand| self.is_met(demand)) => continue,
                _ => self.voice,
            };
            let name = format!("{class_name}.{}", written_name(&routine.heading.name.name));
            let demands: Vec<Demand> =
                self.demands[info.demands].iter().chain(&own.demands).cloned().collect();
            let (env, signature) = (self.narrowed(&info.env, &demands), own.signature.clone());
            self.program.funcs[own.func] =
                self.with_voice(voice, |cx| cx.check_routine(env, Some(at), name, signature, routine));
        }
    }

    /// Checks the makers of a class, and the promises of `provides` about them; the first time it
    /// is needed.
    pub(crate) fn check_makers(&mut self, at: usize) {
        let Some(info) = &mut self.classes[at] else { return };
        if std::mem::replace(&mut info.made, Made::Open) != Made::Untouched {
            return;
        }
        let purpose = info.purpose;
        self.in_class(at, |cx| cx.check_own_makers(at, purpose));
        if let Some(info) = &mut self.classes[at] {
            info.made = Made::Done;
        }
    }

    /// Checks the makers of a class for code in the middle of another body.
    pub(crate) fn need_makers(&mut self, at: usize, span: Span) {
        if self.classes[at].as_ref().is_some_and(|info| info.made == Made::Untouched) && self.may_nest(span) {
            self.nested += 1;
            self.check_makers(at);
            self.nested -= 1;
        }
    }

    /// Does the same for one maker with type arguments of its own.
    pub(crate) fn need_maker(&mut self, at: usize, maker: &'a ast::Maker, args: &[TypeId], span: Span) {
        if self.may_nest(span) {
            let voice = self.voice_of(Use::Runs { generic: true });
            self.nested += 1;
            self.with_voice(voice, |cx| cx.check_maker(at, maker, args));
            self.nested -= 1;
        }
    }

    fn may_nest(&mut self, span: Span) -> bool {
        let room = self.nested < NESTED_MAX;
        if !room {
            let message = format!("makers call each other in a chain of more than {NESTED_MAX}");
            self.report_limit(span, message, "let a maker of the chain call a routine");
        }
        room
    }

    /// Returns true if the makers of a class are being looked at.
    pub(crate) fn is_open(&self, at: usize) -> bool {
        self.classes[at].as_ref().is_some_and(|info| info.made == Made::Open)
    }

    /// Asks for the demands of a maker on its type arguments.
    pub(crate) fn ask_maker(
        &mut self,
        at: usize,
        maker: &'a ast::Maker,
        args: &[TypeId],
        call: &ast::MakerCall,
    ) {
        let Some(info) = &self.classes[at] else { return };
        let heading = &maker.heading;
        let env = info.env.with(&heading.parms, args);
        let voice = Voice::Limits;
        let demands = self
            .with_voice(voice, |cx| cx.resolve_wheres(&env, &heading.name, &heading.parms, &heading.wheres));
        self.demands.push(demands);
        let spans: Vec<Span> = call.parms.iter().map(|parm| parm.span).collect();
        let spans = if spans.is_empty() { vec![call.name.span] } else { spans };
        self.ask(super::wheres::Needs::Other(self.demands.len() - 1), spans);
    }

    fn check_own_makers(&mut self, at: usize, purpose: Use) {
        let ast = self.class_ast(at);
        for (index, maker) in ast.makers.iter().enumerate() {
            if !self.may_walk(purpose, text_of(maker.heading.span, maker.end)) {
                return;
            }
            let voice = if purpose == Use::Maker(index) { Voice::Everything } else { self.voice };
            // One with parameters is made for each use, and looked at as it stands once.
            let args = match (maker.heading.parms.is_empty(), purpose) {
                (true, _) => vec![],
                (false, Use::Runs { generic: true }) => continue,
                (false, _) if self.walk == Walk::Instances => continue,
                (false, _) => self.with_voice(voice, |cx| cx.opaque_types(&maker.heading.parms)),
            };
            self.with_voice(voice, |cx| cx.check_maker(at, maker, &args));
        }
        for name in &ast.provides {
            if !ast.makers.iter().any(|maker| maker.heading.name.name == name.name) {
                let message = format!("class `{}` has no maker `{name}`", ast.name);
                self.report(Diagnostic::error(Code::E0208, name.span, message));
            }
        }
        for name in &ast.hides {
            self.check_hidden(at, name);
        }
    }

    fn check_hidden(&mut self, at: usize, name: &Ident) {
        let Some(ty) = self.classes[at].as_ref().map(|info| info.ty) else { return };
        self.check_old_name(ty, name);
    }

    /// Adds a method that no program can name to a class that is complete already, and to its
    /// subclasses.
    pub(crate) fn add_hidden_method(
        &mut self,
        at: usize,
        name: &str,
        signature: Signature,
        func: FuncId,
    ) -> MethodId {
        let Some(info) = self.classes[at].clone() else { return MethodId::from_u32(0) };
        let mut hidden = method(name, signature.clone(), vec![], "");
        hidden.public = false;
        self.program.classes[info.id].bodies.push(Body::Func(func));
        let id = self.program.types.def_mut(info.ty).methods.push(hidden);
        let mut reached: Vec<(usize, MethodRef)> = vec![(at, MethodRef { ty: info.ty, method: id })];
        while let Some((above, from)) = reached.pop() {
            let subclasses = self.classes[above].as_ref().map_or(vec![], |info| info.subclasses.clone());
            for below in subclasses {
                let name_span = self.class_ast(below).name.span;
                let Some((id, ty)) = self.classes[below].as_ref().map(|sub| (sub.id, sub.ty)) else {
                    continue;
                };
                if !self.may_add_methods(1, name_span) {
                    break;
                }
                let mut inherited = method(name, signature.clone(), vec![from], "");
                inherited.public = false;
                self.program.classes[id].bodies.push(Body::Func(func));
                let method = self.program.types.def_mut(ty).methods.push(inherited);
                reached.push((below, MethodRef { ty, method }));
            }
        }
        id
    }
}

impl ClassInfo {
    /// Returns true if this class stands above the one at position `below`.
    pub fn superclass_of(&self, below: Option<usize>, classes: &[Option<ClassInfo>]) -> bool {
        let mut next = below.and_then(|at| classes[at].as_ref()).and_then(|info| info.superclass);
        while let Some(info) = next.and_then(|at| classes[at].as_ref()) {
            if info.ty == self.ty {
                return true;
            }
            next = info.superclass;
        }
        false
    }
}
