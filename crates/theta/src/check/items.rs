//! Types with their supertypes and methods.
//!
//! A type is known by the position of its instantiation ([`super::instances`]). It is completed in
//! steps, each for all types that are new before the next: supertypes, headings, and then the list
//! of all methods, supertypes first. A method with a where clause of its own is in the list if its
//! demands are met.

use std::ops::Range;

use bifrost_ir::{Method, MethodRef, Signature, Supertype, TypeDef, TypeId, TypeKind};
use cranelift_entity::PrimaryMap;

use super::instances::Use;
use super::wheres::Demand;
use super::{Checker, Env};
use crate::ast::{Heading, Ident, Rename};
use crate::diagnostic::{Code, Diagnostic};
use crate::resolve::similar;
use crate::source::Span;

/// The longest chain of supertypes or superclasses.
pub(crate) const CHAIN_MAX: u32 = 128;

/// Methods, variables or supertypes of one type or class.
pub(crate) const MEMBERS_MAX: usize = 1000;

/// Ways up from one type; the subtype relation walks them all.
const WAYS_MAX: u32 = 1000;

/// The number of times that methods are looked at again because others were found that where
/// clauses ask for.
const ROUNDS_MAX: u32 = 64;

/// The facts about a type.
pub(crate) struct TypeInfo {
    /// Position in [`crate::resolve::Names::types`].
    pub def: usize,
    pub ty: TypeId,
    pub env: Env,
    pub purpose: Use,
    /// Position in [`Checker::demands`].
    pub demands: usize,
    headings: Vec<OwnHeading>,
    /// The place where each supertype is written.
    written: Vec<Span>,
    /// The number of methods that have been taken over from each supertype.
    taken: Vec<usize>,
    /// The number of types above each other here, and how many ways lead up; `None` until all that
    /// is known.
    above: Option<(u32, u32)>,
}

/// A method of a type's own.
struct OwnHeading {
    name: String,
    signature: Signature,
    doc: String,
    demands: Vec<Demand>,
}

impl TypeInfo {
    pub fn new(def: usize, ty: TypeId, env: Env, purpose: Use, demands: usize) -> TypeInfo {
        TypeInfo {
            def,
            ty,
            env,
            purpose,
            demands,
            headings: vec![],
            written: vec![],
            taken: vec![],
            above: None,
        }
    }
}

impl<'a> Checker<'a> {
    /// Makes the types and classes that the texts define, still empty, so that headings can name
    /// them.
    pub(crate) fn declare(&mut self) {
        for def in 0..self.names.types.len() {
            let ast = self.names.types[def].ast;
            if let Some((args, purpose)) = self.standing(&ast.name, &ast.parms)
                && self.add_type(def, args, purpose, ast.name.span).is_none()
            {
                break;
            }
        }
        for def in 0..self.names.classes.len() {
            let ast = self.names.classes[def].ast;
            if let (Some(_), Some(parm)) = (&ast.native, ast.parms.first()) {
                let message = "a native class has no type parameters";
                self.report(
                    Diagnostic::error(Code::E0213, parm.span, message).help("write a class for each type"),
                );
                continue;
            }
            if !self.declare_class(def) {
                break;
            }
        }
    }

    /// Returns the arguments with which a definition is looked at in this walk, if it is.
    pub(crate) fn standing(&mut self, name: &Ident, parms: &[Ident]) -> Option<(Vec<TypeId>, Use)> {
        if parms.is_empty() {
            return Some((vec![], Use::Runs { generic: false }));
        }
        if self.walk == super::Walk::Instances {
            return None;
        }
        if parms.len() > MEMBERS_MAX {
            self.too_many(name);
            return None;
        }
        Some((self.opaque_types(parms), Use::Stands))
    }

    /// Resolves the supertypes of a new type.
    pub(crate) fn link_type(&mut self, at: usize) {
        let voice = self.voice_of(self.types[at].purpose);
        self.with_voice(voice, |cx| cx.resolve_supertypes(at));
    }

    fn resolve_supertypes(&mut self, at: usize) {
        let (ty, env) = (self.types[at].ty, self.types[at].env.clone());
        let ast = self.names.types[self.types[at].def].ast;
        if ast.supers.len() > MEMBERS_MAX {
            return self.too_many(&ast.name);
        }
        for (written, renames) in &ast.supers {
            let Some(up) = self.resolve_type(&env, written) else { continue };
            if !self.is_specification(up) {
                let message = format!("`{}` cannot have subtypes", self.type_name(up));
                let help = "built-in types have `any` as their only supertype and no subtypes";
                self.report(Diagnostic::error(Code::E0208, written.span, message).help(help));
                continue;
            }
            if self.program.types.def(up).actor != ast.actor {
                let (is, no) = if ast.actor {
                    ("an actor type", "not an actor type")
                } else {
                    ("not an actor type", "an actor type")
                };
                let message = format!("`{}` is {is}, and `{}` is {no}", ast.name, self.type_name(up));
                let help = "only actor types can be supertypes of actor types";
                self.report(Diagnostic::error(Code::E0208, written.span, message).help(help));
                continue;
            }
            let renames = renames
                .iter()
                .map(|rename| (rename.new.name.to_string(), rename.old.name.to_string()))
                .collect();
            self.program.types.def_mut(ty).supertypes.push(Supertype { ty: up, renames });
            self.types[at].written.push(written.span);
        }
    }

    /// Returns new types, each after its supertypes; cycles are reported and cut.
    pub(crate) fn types_in_order(&mut self, new: Range<usize>) -> Vec<usize> {
        let mut order = vec![];
        let mut open = vec![false; new.len()];
        let first = new.start;
        for at in new {
            if self.types[at].above.is_some() {
                continue;
            }
            // An explicit stack: a chain of types may be as long as the file.
            let mut stack = vec![(at, 0)];
            open[at - first] = true;
            while let Some((current, next)) = stack.pop() {
                let Some(up) = self.program.types.def(self.types[current].ty).supertypes.get(next) else {
                    self.measure(current);
                    order.push(current);
                    continue;
                };
                let up = self.type_at[&up.ty];
                stack.push((current, next + 1));
                if self.types[up].above.is_some() {
                    continue;
                }
                if std::mem::replace(&mut open[up - first], true) {
                    let name = &self.names.types[self.types[current].def].ast.name;
                    let message = format!("type `{name}` would be a supertype of itself");
                    let span = self.types[current].written.remove(next);
                    self.note(Diagnostic::error(Code::E0208, span, message));
                    self.program.types.def_mut(self.types[current].ty).supertypes.remove(next);
                    stack.pop();
                    stack.push((current, next));
                } else {
                    stack.push((up, 0));
                }
            }
        }
        order
    }

    /// Notes the height of a type and the number of ways above it, and cuts types that have too
    /// many. Immutability comes from above, too.
    fn measure(&mut self, at: usize) {
        let ty = self.types[at].ty;
        let name = &self.names.types[self.types[at].def].ast.name;
        let supertypes: Vec<TypeId> = self.program.types.def(ty).supertypes.iter().map(|up| up.ty).collect();
        let above = supertypes.iter().filter_map(|up| self.types[self.type_at[up]].above);
        let (mut height, mut ways) =
            above.fold((0, 1_u32), |(height, ways), (h, w)| (height.max(h), ways.saturating_add(w)));
        height += 1;
        if height > CHAIN_MAX || ways > WAYS_MAX {
            let message = if height > CHAIN_MAX {
                format!("this type has more than {CHAIN_MAX} supertypes in a chain")
            } else {
                format!("`{name}` has more than {WAYS_MAX} paths to its supertypes")
            };
            self.report_limit(name.span, message, "use fewer supertypes");
            self.program.types.def_mut(ty).supertypes.clear();
            (height, ways) = (1, 1);
        }
        self.types[at].above = Some((height, ways));
        if supertypes.iter().any(|up| self.program.types.def(*up).immutable) {
            self.program.types.def_mut(ty).immutable = true;
        }
    }

    /// Resolves the headings, equates and where clauses of a new type.
    pub(crate) fn resolve_headings(&mut self, at: usize) {
        let voice = self.voice_of(self.types[at].purpose);
        self.with_voice(voice, |cx| cx.resolve_own_headings(at));
    }

    fn resolve_own_headings(&mut self, at: usize) {
        let (env, purpose) = (self.types[at].env.clone(), self.types[at].purpose);
        let ast = self.names.types[self.types[at].def].ast;
        if ast.methods.len() > MEMBERS_MAX {
            return self.too_many(&ast.name);
        }
        let demands = self.resolve_wheres(&env, &ast.name, &ast.parms, &ast.wheres);
        if purpose == Use::Stands {
            self.assume(&demands);
        }
        let place = self.types[at].demands;
        self.demands[place] = demands;
        self.resolve_own_equates(&env, &ast.equates);
        self.check_distinct(ast.methods.iter().map(|heading| &heading.name));
        if ast.actor {
            self.check_messages(ast.methods.iter());
        }
        let mut headings: Vec<OwnHeading> = vec![];
        for heading in &ast.methods {
            let (signature, demands) = self.resolve_method_heading(&env, heading, &ast.parms);
            if headings.iter().any(|own| *own.name == *heading.name.name) {
                continue;
            }
            let (name, doc) = (heading.name.name.to_string(), heading.doc.clone());
            headings.push(OwnHeading { name, signature, doc, demands });
        }
        self.types[at].headings = headings;
    }

    /// Returns the heading of a method and its demands.
    pub(crate) fn resolve_method_heading(
        &mut self,
        env: &Env,
        heading: &Heading,
        parms: &[Ident],
    ) -> (Signature, Vec<Demand>) {
        if let (Some(first), Some(last)) = (heading.parms.first(), heading.parms.last()) {
            let message = "a method has no type parameters of its own";
            let help = "declare them at its type, or write a routine";
            self.report(Diagnostic::error(Code::E0109, first.span.to(last.span), message).help(help));
        }
        if heading.wheres.is_empty() {
            return (self.resolve_heading(env, heading), vec![]);
        }
        // The demands of types in the heading may be those that its own clause gives, so they are
        // not asked for here.
        let before = self.requests.len();
        let signature = self.resolve_heading(env, heading);
        let demands = self.resolve_wheres(env, &heading.name, parms, &heading.wheres);
        self.requests.truncate(before);
        (signature, demands)
    }

    /// Completes the methods of new types, which are given with supertypes first.
    pub(crate) fn complete_types(&mut self, order: &[usize]) {
        self.extend_types(order);
        for at in order {
            let voice = self.voice_of(self.types[*at].purpose);
            let (ty, span) = (self.types[*at].ty, self.names.types[self.types[*at].def].ast.name.span);
            self.with_voice(voice, |cx| cx.check_diamonds(ty, span));
        }
    }

    fn extend_types(&mut self, order: &[usize]) {
        for at in order {
            self.check_renames(*at);
            self.extend_type(*at);
        }
        let conditional =
            |cx: &Self, at: &usize| cx.types[*at].headings.iter().any(|h| !h.demands.is_empty());
        if !order.iter().any(|at| conditional(self, at)) {
            return;
        }
        for _ in 0..ROUNDS_MAX {
            self.complete_builtins();
            let mut more = false;
            for at in order {
                more |= self.extend_type(*at);
            }
            if !more {
                return;
            }
        }
        if let Some(at) = order.first() {
            let span = self.names.types[self.types[*at].def].ast.name.span;
            let message =
                format!("where clauses of methods require each other in more than {ROUNDS_MAX} rounds");
            self.report_limit(span, message, "remove some of the clauses");
        }
    }

    /// Adds the methods that a type has now and did not have before; whether there are any.
    fn extend_type(&mut self, at: usize) -> bool {
        let voice = self.voice_of(self.types[at].purpose);
        self.with_voice(voice, |cx| {
            let own = cx.add_own_methods(at);
            cx.add_inherited_methods(at) || own
        })
    }

    fn add_own_methods(&mut self, at: usize) -> bool {
        let ty = self.types[at].ty;
        let headings = std::mem::take(&mut self.types[at].headings);
        let mut more = false;
        for own in &headings {
            if self.program.types.find_method(ty, &own.name).is_none()
                && own.demands.iter().all(|demand| self.is_met(demand))
            {
                let added = method(&own.name, own.signature.clone(), vec![], &own.doc);
                self.program.types.def_mut(ty).methods.push(added);
                more = true;
            }
        }
        self.types[at].headings = headings;
        more
    }

    fn add_inherited_methods(&mut self, at: usize) -> bool {
        let ty = self.types[at].ty;
        let ast = self.names.types[self.types[at].def].ast;
        let supertypes = self.program.types.def(ty).supertypes.clone();
        self.types[at].taken.resize(supertypes.len(), 0);
        let mut more = false;
        for (place, up) in supertypes.iter().enumerate() {
            let taken = self.types[at].taken[place];
            let inherited: Vec<_> = self.program.types.def(up.ty).methods.iter().skip(taken).collect();
            if inherited.is_empty() {
                continue;
            }
            let inherited: Vec<_> = inherited.into_iter().map(|(id, method)| (id, method.clone())).collect();
            if self.program.types.def(ty).methods.len() + inherited.len() > MEMBERS_MAX {
                self.too_many(&ast.name);
                return false;
            }
            if !self.may_add_methods(inherited.len(), ast.name.span) {
                return false;
            }
            self.types[at].taken[place] += inherited.len();
            more = true;
            for (id, inherited) in inherited {
                let name = renamed(&inherited.name, &up.renames);
                let from = MethodRef { ty: up.ty, method: id };
                match self.program.types.find_method(ty, &name) {
                    Some(own) => {
                        let restated = ast.methods.iter().find(|heading| *heading.name.name == *name);
                        if restated.is_none() && self.is_stronger(&inherited.signature, own) {
                            self.program.types.def_mut(ty).methods[own.method].signature =
                                inherited.signature.clone();
                        }
                        let span = restated.map_or(ast.name.span, |heading| heading.span);
                        let signature = self.program.types.method(own).signature.clone();
                        match self.check_conforms(span, &name, &signature, from) {
                            Conforms::Boxed => self.stand_boxed(ty, name, up.ty, inherited, from),
                            Conforms::AsItIs => {
                                self.program.types.def_mut(ty).methods[own.method].stands_for.push(from);
                            }
                        }
                    }
                    None => {
                        if let Some(target) = self.bridges.get(&(up.ty, name.clone())) {
                            let target = renamed(target, &up.renames);
                            self.bridges.insert((ty, name.clone()), target);
                        }
                        let method = Method { name, stands_for: vec![from], ..inherited };
                        self.program.types.def_mut(ty).methods.push(method);
                    }
                }
            }
        }
        more
    }

    /// Reports E0109 for a type or class that is too large.
    pub(crate) fn too_many(&mut self, name: &Ident) {
        let message = format!("`{name}` has more than {MEMBERS_MAX} members, inherited ones included");
        self.report(Diagnostic::error(Code::E0109, name.span, message).help("split it into several"));
    }

    /// Returns true if `signature`, which comes from one supertype, may stand for all that the
    /// method `own` of others stands for.
    fn is_stronger(&self, signature: &Signature, own: MethodRef) -> bool {
        let own = self.program.types.method(own);
        own.stands_for.iter().all(|up| {
            let wanted = self.program.types.method(*up);
            self.misfit(signature, &wanted.signature, &wanted.name, Self::below).is_none()
        })
    }

    fn check_renames(&mut self, at: usize) {
        let voice = self.voice_of(self.types[at].purpose);
        let ast = self.names.types[self.types[at].def].ast;
        let supertypes = self.program.types.def(self.types[at].ty).supertypes.clone();
        // Supertypes that are wrong are not in the list.
        if supertypes.len() != ast.supers.len() {
            return;
        }
        self.with_voice(voice, |cx| {
            for (up, (_, renames)) in supertypes.iter().zip(&ast.supers) {
                cx.check_distinct_renames(renames);
                for rename in renames {
                    cx.check_old_name(up.ty, &rename.old);
                }
            }
        });
    }

    /// Reports names that are given, or taken away, twice.
    pub(crate) fn check_distinct_renames(&mut self, renames: &[Rename]) {
        self.check_distinct(renames.iter().map(|rename| &rename.new));
        self.check_distinct(renames.iter().map(|rename| &rename.old));
    }

    /// Reports a name for a method that `up` does not have.
    pub(crate) fn check_old_name(&mut self, up: TypeId, old: &Ident) {
        if !self.declares(up, &old.name) && !old.name.is_empty() {
            let message = format!("type `{}` has no method `{old}`", self.type_name(up));
            let mut diagnostic = Diagnostic::error(Code::E0201, old.span, message);
            diagnostic.help = self.similar_method(up, &old.name);
            self.report(diagnostic);
        }
    }

    /// Returns true if a type has a method of that name, at least in some instantiations.
    fn declares(&self, ty: TypeId, name: &str) -> bool {
        if self.program.types.find_method(ty, name).is_some() {
            return true;
        }
        if let Some(info) = self.class_at.get(&ty).and_then(|at| self.classes[*at].as_ref()) {
            let methods = &self.names.classes[info.def].ast.methods;
            let own = methods.iter().any(|own| *own.heading.name.name == *name);
            let above = info.superclass.and_then(|up| self.classes[up].as_ref());
            return own || above.is_some_and(|up| self.declares(up.ty, name));
        }
        let Some(at) = self.type_at.get(&ty) else { return false };
        self.types[*at].headings.iter().any(|own| own.name == name)
            || self.program.types.def(ty).supertypes.iter().any(|up| {
                let old = up.renames.iter().find(|(new, _)| new == name).map_or(name, |(_, old)| old);
                self.declares(up.ty, old)
            })
    }

    /// Returns the help line that names a method like `wanted`.
    pub(crate) fn similar_method(&self, ty: TypeId, wanted: &str) -> Option<String> {
        let methods = self.program.types.def(ty).methods.values();
        let names = methods.map(|m| m.name.as_str()).filter(|name| !name.contains('.'));
        similar(wanted, names).map(|name| format!("a method with a similar name exists: `{name}`"))
    }

    /// Reports E0205 at `span` if a method does not conform to `sup`; returns the way in which it
    /// conforms.
    pub(crate) fn check_conforms(
        &mut self,
        span: Span,
        name: &str,
        signature: &Signature,
        sup: MethodRef,
    ) -> Conforms {
        let wanted = self.program.types.method(sup);
        let misfit = self.misfit(signature, &wanted.signature, &wanted.name, Self::fits);
        if let Some((why, help)) = misfit {
            let place = format!("{}.{}", self.program.types.name(sup.ty), wanted.name);
            let message = format!("`{name}` does not conform to `{place}`: {why}");
            self.report(Diagnostic::error(Code::E0205, span, message).help(help));
            return Conforms::AsItIs;
        }
        let unboxed = |cx: &Self, sub, sup| !cx.is_converted(sub, sup);
        match self.misfit(signature, &wanted.signature, &wanted.name, unboxed) {
            Some(_) => Conforms::Boxed,
            None => Conforms::AsItIs,
        }
    }

    /// Lets the method `target` of a type stand for one of a supertype that has `any` where it has
    /// a basic type, or the other way round. Their words differ, so the type gets a hidden method
    /// with the heading of the supertype's, which classes implement by a call of the other.
    fn stand_boxed(&mut self, ty: TypeId, target: String, above: TypeId, method: Method, from: MethodRef) {
        let name = bridge_name(self.program.types.name(above), &method.name);
        match self.program.types.find_method(ty, &name) {
            Some(known) => self.program.types.def_mut(ty).methods[known.method].stands_for.push(from),
            None => {
                let hidden = Method { name: name.clone(), stands_for: vec![from], public: false, ..method };
                self.program.types.def_mut(ty).methods.push(hidden);
            }
        }
        self.bridges.insert((ty, name), target);
    }
}

/// The ways in which a method conforms to another.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Conforms {
    /// One can be called for the other; or it does not conform, which has been reported.
    AsItIs,
    /// Basic values go into boxes on the way.
    Boxed,
}

/// Returns the name of a hidden method that stands for one of a type.
pub(crate) fn bridge_name(ty: &str, method: &str) -> String {
    format!("{ty}.{method}")
}

/// Returns a method of a user's type.
pub(crate) fn method(name: &str, signature: Signature, stands_for: Vec<MethodRef>, doc: &str) -> Method {
    Method { name: name.to_owned(), signature, stands_for, doc: doc.to_owned(), builtin: None, public: true }
}

/// Returns the name that `old` has after `renames` (pairs of new and old).
pub(crate) fn renamed(old: &str, renames: &[(String, String)]) -> String {
    renames.iter().find(|(_, o)| o == old).map_or(old, |(new, _)| new).to_owned()
}

pub(crate) fn empty_type(name: &str, kind: TypeKind, immutable: bool, public: bool, doc: &str) -> TypeDef {
    TypeDef {
        name: name.to_owned(),
        kind,
        supertypes: vec![],
        methods: PrimaryMap::new(),
        immutable,
        actor: false,
        public,
        doc: doc.to_owned(),
    }
}
