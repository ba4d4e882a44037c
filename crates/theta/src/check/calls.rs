//! Calls: the callee, its operands, and its results.
//!
//! Read [`Body::call`] first. It finds the callee ([`Body::callee`]), evaluates the arguments
//! ([`Body::given`]), infers type arguments where they are not written, and fits the values to the
//! heading ([`Body::fit`]). The result is a [`Target`] with its operands, which the caller emits as
//! a call, a request or a loop.

use bifrost_ir::{Callee, MethodRef, Operand, Signature, Stmt, TypeId, TypeKind, builtin};

use super::body::{Body, Role, Value};
use super::types::as_type;
use super::wheres::Needs;
use super::{Env, Voice};
use crate::ast::{Args, Expr, ExprKind, Ident, TypeExpr};
use crate::diagnostic::{Code, Diagnostic};
use crate::lower::nothing;
use crate::resolve::{Def, similar};
use crate::source::Span;

/// The target of a call, with its receiver.
pub(crate) struct Target {
    pub callee: Callee,
    pub receiver: Option<Operand>,
    pub signature: Signature,
    pub name: String,
}

/// The kind of a callee.
pub(crate) enum Found {
    Target(Target),
    /// A generic built-in whose type arguments must be found from the arguments.
    Generic(&'static builtin::BuiltinRoutine, Span),
    /// A generic routine of the program, likewise; a position in `Names::routines`.
    Routine(usize, Span),
    /// `d.deliver` of a `replier` of `result`; where it is named.
    Deliver {
        replier: Operand,
        result: TypeId,
        name: Span,
    },
    Wrong,
}

/// Arguments that were computed.
pub(crate) struct Given {
    pub plain: Vec<(Value, Span)>,
    pub rest: Option<Vec<(Value, Span)>>,
}

impl<'a> Body<'_, 'a> {
    /// Checks a call in the place of values; returns all its results.
    pub fn call(&mut self, expr: &'a Expr, callee: &'a Expr, args: &'a Args) -> Option<Vec<Value>> {
        if let Some(row) = self.deferring(callee) {
            return self.deferred_call(expr, row, callee, args);
        }
        let found = self.callee(callee);
        if let Found::Deliver { replier, result, name } = found {
            self.deliver(expr, replier, result, name, args);
            return Some(vec![]);
        }
        let (mut target, mut operands) = self.prepare_found(found, args)?;
        self.join_turn(&mut target, &mut operands);
        if target.signature.is_iterator() {
            let name = &target.name;
            let message = format!("`{name}` is an iterator and can only be called in a `for`");
            let types = target.signature.yields.as_deref().unwrap_or(&[]);
            let names = ["i", "j", "k"];
            let vars: Vec<String> = types
                .iter()
                .enumerate()
                .map(|(n, ty)| {
                    let name = names.get(n).map_or(format!("v{n}"), |n| (*n).to_owned());
                    format!("{name}: {}", self.cx.program.types.name(*ty))
                })
                .collect();
            let text = self.cx.sources.slice(expr.span);
            let help = format!("write `for {} in {text} do … end`", vars.join(", "));
            self.report(Diagnostic::error(Code::E0207, expr.span, message).help(help));
            return None;
        }
        if let Some(method) = self.requested(&target) {
            return Some(self.request(expr, method, &target, operands, args));
        }
        if let Callee::Method(method) = target.callee
            && self.is_actor(method.ty)
            && self.transaction.is_some()
        {
            self.note_call(target.callee, &target.name, expr.span);
        }
        self.raise(&target.signature);
        let dsts: Vec<_> = target.signature.results.iter().map(|ty| self.b.temp(Some(*ty))).collect();
        self.b.call(target.callee, operands, dsts.iter().copied(), expr.span.start);
        let results = target.signature.results.iter();
        Some(
            dsts.into_iter()
                .zip(results)
                .map(|(var, ty)| Value { op: var.into(), ty: self.cx.known(*ty) })
                .collect(),
        )
    }

    /// Returns the callee and operands of a call, the receiver first.
    pub fn prepare(&mut self, callee: &'a Expr, args: &'a Args) -> Option<(Target, Vec<Operand>)> {
        let found = self.callee(callee);
        self.prepare_found(found, args)
    }

    /// Does the same for a callee that is found already.
    pub fn prepare_found(&mut self, found: Found, args: &'a Args) -> Option<(Target, Vec<Operand>)> {
        if let Found::Deliver { name, .. } = found {
            self.given(args);
            self.misplaced_deliver(name);
            return None;
        }
        let given = self.given(args);
        let target = match found {
            Found::Target(target) => target,
            Found::Generic(row, span) => self.infer(row, span, &given)?,
            Found::Routine(def, span) => {
                let placed = &self.cx.names.routines[def];
                let env = Env::new(placed.inner);
                let types = self.infer_arguments(&env, &placed.ast.heading, &given, span)?;
                self.routine_target(def, types, vec![span], span)?
            }
            Found::Deliver { .. } | Found::Wrong => return None,
        };
        if let Some(compared) = self.same_values(&target, &given) {
            return Some(compared);
        }
        let mut operands: Vec<Operand> = target.receiver.into_iter().collect();
        operands.extend(self.fit(&target.name, &target.signature, given, args.span)?);
        Some((target, operands))
    }

    /// `same_object` of two basic values compares the values, which have no other identity.
    fn same_values(&mut self, target: &Target, given: &Given) -> Option<(Target, Vec<Operand>)> {
        let [(a, _), (b, _)] = given.plain.as_slice() else { return None };
        let ty = a.ty.filter(|ty| b.ty == Some(*ty) && self.cx.program.types.kind(*ty).is_basic())?;
        let Callee::Routine(id) = target.callee else { return None };
        if self.cx.program.native_name(self.cx.program.routines[id].body) != Some("same_object") {
            return None;
        }
        let method = self.cx.program.types.find_method(ty, "equal")?;
        let signature = self.cx.program.types.method(method).signature.clone();
        let compared =
            Target { callee: Callee::Method(method), receiver: None, signature, name: target.name.clone() };
        Some((compared, vec![a.op, b.op]))
    }

    pub fn given(&mut self, args: &'a Args) -> Given {
        let plain = args.plain.iter().map(|arg| (self.value(arg), arg.span)).collect();
        let rest =
            args.rest.as_ref().map(|rest| rest.iter().map(|arg| (self.value(arg), arg.span)).collect());
        Given { plain, rest }
    }

    /// Returns the form of a call whose last arguments `..` collects into a sequence, with these
    /// arguments.
    fn collecting(&self, name: &str, plain: &[(Value, Span)], wanted: usize) -> Option<String> {
        let texts: Vec<&str> = plain.iter().map(|(_, span)| self.cx.sources.slice(*span)).collect();
        let (before, rest) = texts.split_at(wanted.checked_sub(1)?.min(texts.len()));
        let space = if before.is_empty() { "" } else { ", " };
        Some(format!(
            "`..` collects a sequence: `{name}({}{space}.. {})`",
            before.join(", "),
            rest.join(", ")
        ))
    }

    /// Returns the operands for a heading; reports arguments that do not fit.
    pub fn fit(
        &mut self,
        name: &str,
        signature: &Signature,
        given: Given,
        span: Span,
    ) -> Option<Vec<Operand>> {
        let wanted = signature.params.len();
        let heading = self.cx.heading_help(name, signature);
        let last = signature.params.last().map(|param| param.ty);
        let element = last.and_then(|ty| match self.cx.program.types.kind(ty) {
            TypeKind::Sequence(element) => Some(element),
            _ => None,
        });
        if given.rest.is_some() && element.is_none() {
            let message = format!("the last argument of `{name}` is no sequence, so `..` cannot collect it");
            self.report(Diagnostic { help: heading, ..Diagnostic::error(Code::E0202, span, message) });
            return None;
        }
        let found = given.plain.len() + usize::from(given.rest.is_some());
        if found != wanted {
            let plural = if wanted == 1 { "" } else { "s" };
            let message = format!("`{name}` takes {wanted} argument{plural}, {found} given");
            let collects = element.is_some() && given.rest.is_none() && found > wanted;
            let help = if collects { self.collecting(name, &given.plain, wanted) } else { heading };
            self.report(Diagnostic { help, ..Diagnostic::error(Code::E0203, span, message) });
            return None;
        }
        let mut operands = vec![];
        // One value for a sequence of such.
        if let (Some(element), None, Some((Value { ty: Some(ty), .. }, span))) =
            (element, &given.rest, given.plain.last())
            && !last.is_some_and(|last| self.cx.fits(*ty, last))
            && self.cx.fits(*ty, element)
        {
            let mut diagnostic = self.mismatch(*ty, last.unwrap_or(element), *span);
            diagnostic.help = self.collecting(name, &given.plain, wanted);
            self.report(diagnostic);
            return None;
        }
        for ((value, span), param) in given.plain.into_iter().zip(&signature.params) {
            operands.push(self.convert(value, Some(param.ty), span));
        }
        if let (Some(rest), Some(element)) = (given.rest, element) {
            operands.push(self.collect(rest, element, span));
        }
        Some(operands)
    }

    /// Returns the sequence that `..` makes of the remaining arguments.
    fn collect(&mut self, rest: Vec<(Value, Span)>, element: TypeId, span: Span) -> Operand {
        let ty = self.cx.program.types.instance(TypeKind::Sequence(element));
        let dst = self.b.temp(Some(ty));
        let elements =
            rest.into_iter().map(|(value, place)| self.convert(value, Some(element), place)).collect();
        self.b.emit(Stmt::NewSequence { dst, elements, site: bifrost_ir::Site(span.start) });
        dst.into()
    }

    /// Calls a method that surely exists; its result, if it has one.
    pub fn call_method(&mut self, ty: TypeId, name: &str, operands: Vec<Operand>, site: u32) -> Operand {
        let Some(method) = self.cx.program.types.find_method(ty, name) else { return nothing() };
        let results = self.cx.program.types.method(method).signature.results.clone();
        let dsts: Vec<_> = results.iter().map(|ty| self.b.temp(Some(*ty))).collect();
        self.b.call(Callee::Method(method), operands, dsts.iter().copied(), site);
        dsts.first().map_or(nothing(), |var| (*var).into())
    }

    pub fn callee(&mut self, callee: &'a Expr) -> Found {
        match &callee.kind {
            ExprKind::Name(name) => self.named_callee(name),
            ExprKind::Select { object, name } => {
                if let Some(found) = self.persistent_finder(object, name) {
                    return found;
                }
                let value = self.value(object);
                self.method_callee(value, name)
            }
            ExprKind::Index { object, args } => match &object.kind {
                ExprKind::Name(name) if self.is_routine(name) => self.instantiated_callee(callee, name, args),
                _ => self.uncallable(callee),
            },
            ExprKind::Error => Found::Wrong,
            _ => self.uncallable(callee),
        }
    }

    fn uncallable(&mut self, callee: &'a Expr) -> Found {
        let value = self.value(callee);
        if let Some(target) = self.value_target(value, self.cx.sources.slice(callee.span).to_owned()) {
            return Found::Target(target);
        }
        if let Some(ty) = value.ty {
            let message = format!("a value of type `{}` cannot be called", self.cx.type_name(ty));
            self.report(Diagnostic::error(Code::E0202, callee.span, message));
        }
        Found::Wrong
    }

    /// Returns true if a bare name means a routine here.
    pub fn is_routine(&self, name: &Ident) -> bool {
        if self.local(&name.name).is_some() || self.own_ivar(&name.name).is_some() {
            return false;
        }
        match self.cx.names.lookup(self.env.scope, &name.name) {
            Some(entry) => matches!(entry.def, Def::Routine(_) | Def::Native(_)),
            None => crate::resolve::is_builtin_routine(&name.name),
        }
    }

    pub fn named_callee(&mut self, name: &Ident) -> Found {
        if name.name.is_empty() {
            return Found::Wrong;
        }
        if self.local(&name.name).is_some() || self.own_ivar(&name.name).is_some() {
            let value = self.name(name);
            if let Some(target) = self.value_target(value, name.name.to_string()) {
                return Found::Target(target);
            }
            if let Some(ty) = value.ty {
                let message = format!("a value of type `{}` cannot be called", self.cx.type_name(ty));
                self.report(Diagnostic::error(Code::E0202, name.span, message));
            }
            return Found::Wrong;
        }
        match self.cx.names.lookup(self.env.scope, &name.name).map(|entry| entry.def) {
            Some(Def::Routine(def)) if self.cx.names.routines[def].ast.heading.parms.is_empty() => {
                self.routine_target(def, vec![], vec![], name.span).map_or(Found::Wrong, Found::Target)
            }
            Some(Def::Routine(def)) => Found::Routine(def, name.span),
            Some(Def::Native(at)) => match self.cx.native_routines.get(at).copied().flatten() {
                Some(id) => {
                    let signature = self.cx.program.routines[id].signature.clone();
                    let name = name.name.to_string();
                    Found::Target(Target { callee: Callee::Routine(id), receiver: None, signature, name })
                }
                None => Found::Wrong,
            },
            Some(Def::Class(_)) => {
                let message = format!("`{name}` is a class; an object is made with braces");
                let help = format!("write `{name}{{x := e, …}}`");
                self.report(Diagnostic::error(Code::E0208, name.span, message).help(help));
                Found::Wrong
            }
            Some(Def::Type(_) | Def::Equate(_)) => {
                let message = format!("`{name}` is not a routine");
                self.report(Diagnostic::error(Code::E0208, name.span, message));
                Found::Wrong
            }
            None => self.builtin_callee(name),
        }
    }

    /// Returns an instantiation of a routine; `spans` are those of its type arguments.
    pub fn routine_target(
        &mut self,
        def: usize,
        args: Vec<TypeId>,
        spans: Vec<Span>,
        span: Span,
    ) -> Option<Target> {
        let at = self.cx.routine_instance(def, args, span)?;
        let (id, demands) = (self.cx.routines[at].id, self.cx.routines[at].demands);
        self.cx.ask(Needs::Other(demands), spans);
        let signature = self.cx.program.routines[id].signature.clone();
        let name = self.cx.names.routines[def].ast.heading.name.to_string();
        if name == "main" {
            self.note_call(Callee::Routine(id), &name, span);
        }
        Some(Target { callee: Callee::Routine(id), receiver: None, signature, name })
    }

    fn builtin_callee(&mut self, name: &Ident) -> Found {
        if let Some(row) = builtin::find_routine(&name.name) {
            if !row.parms.is_empty() {
                return Found::Generic(row, name.span);
            }
            return Found::Target(self.instantiate(row, &[]));
        }
        let diagnostic = self.unknown(name);
        self.report(diagnostic);
        Found::Wrong
    }

    /// Returns the error E0208 for a bare name.
    pub fn unknown(&self, name: &Ident) -> Diagnostic {
        let mut diagnostic = Diagnostic::error(Code::E0208, name.span, format!("unknown name `{name}`"));
        let own = self.class.and_then(|at| self.cx.classes[at].as_ref());
        if let Some(info) = own {
            if self.cx.program.types.find_method(info.ty, &name.name).is_some() {
                return diagnostic.help(format!("a method of this object is called by `self.{name}(…)`"));
            }
            if info.ivar(&name.name).is_some() && self.role == Role::Then {
                return diagnostic.help(format!("write `self.{name}`"));
            }
        }
        let mut known: Vec<&str> = self.locals.iter().map(|local| &*local.name).collect();
        known.extend(own.into_iter().flat_map(|info| info.ivars.iter().map(|ivar| &*ivar.name)));
        known.extend(self.cx.names.visible(self.env.scope));
        known.extend(builtin::ROUTINES.iter().map(|row| row.name));
        diagnostic.help = similar(&name.name, known).map(|n| format!("a similar name exists: `{n}`"));
        diagnostic
    }

    /// Returns a deep copy of a value. A value that cannot change is its own copy.
    pub fn clone_of(&mut self, value: Value, span: Span) -> Value {
        let Some(ty) = value.ty else { return value };
        let kind = self.cx.program.types.kind(ty);
        if kind.is_basic() || matches!(kind, TypeKind::String | TypeKind::Bytes) {
            return value;
        }
        let target = self.instantiate(&builtin::CLONE, &[ty]);
        let copy = self.b.temp(Some(ty));
        self.b.call(target.callee, vec![value.op], [copy], span.start);
        Value { op: copy.into(), ty: Some(ty) }
    }

    pub fn instantiate(&mut self, row: &'static builtin::BuiltinRoutine, args: &[TypeId]) -> Target {
        let id = builtin::instantiate(&mut self.cx.program, row, args);
        let signature = self.cx.program.routines[id].signature.clone();
        Target { callee: Callee::Routine(id), receiver: None, signature, name: row.name.to_owned() }
    }

    pub fn instantiated_callee(&mut self, callee: &'a Expr, name: &Ident, args: &'a [Expr]) -> Found {
        let entry = self.cx.names.lookup(self.env.scope, &name.name);
        if let Some(Def::Routine(def)) = entry.map(|entry| entry.def) {
            return self.instantiated_routine(callee, name, def, args).map_or(Found::Wrong, Found::Target);
        }
        let Some(row) = builtin::find_routine(&name.name) else {
            let message = format!("`{name}` has no type parameters");
            self.report(
                Diagnostic::error(Code::E0203, callee.span, message).help(format!("write `{name}(…)`")),
            );
            return Found::Wrong;
        };
        let wanted = row.parms.len();
        if args.len() != wanted {
            let plural = if wanted == 1 { "" } else { "s" };
            let message = format!("`{name}` takes {wanted} type argument{plural}, {} given", args.len());
            let help = match row.parms {
                [] => format!("write `{name}(…)`"),
                parms => format!("write `{name}[{}](…)`", parms.join(", ")),
            };
            self.report(Diagnostic::error(Code::E0203, callee.span, message).help(help));
            return Found::Wrong;
        }
        let env = self.env.clone();
        let Some(written) = self.written_types(args) else { return Found::Wrong };
        let types: Vec<_> = written.iter().map(|arg| self.cx.resolve_type(&env, arg)).collect();
        let Some(types) = types.into_iter().collect::<Option<Vec<TypeId>>>() else { return Found::Wrong };
        if self.check_actors(row, &types, callee.span).is_none() {
            return Found::Wrong;
        }
        let spans = args.iter().map(|arg| arg.span).collect();
        self.cx.ask_builtin(row.name, row.parms, row.needs, &types, spans);
        Found::Target(self.instantiate(row, &types))
    }

    /// Reports E0206 if a built-in that is for actors only gets something else.
    fn check_actors(&mut self, row: &builtin::BuiltinRoutine, types: &[TypeId], span: Span) -> Option<()> {
        match (row.parms, types) {
            (["A"], [ty]) => {
                let help = "name an actor or an actor type".to_owned();
                self.cx.check_actors(row.name, *ty, span, help)
            }
            _ => Some(()),
        }
    }

    /// `f[T, ...]` of a routine of the program.
    fn instantiated_routine(
        &mut self,
        callee: &'a Expr,
        name: &Ident,
        def: usize,
        args: &'a [Expr],
    ) -> Option<Target> {
        let written = self.written_types(args)?;
        let parms = &self.cx.names.routines[def].ast.heading.parms;
        let env = self.env.clone();
        let types = self.cx.type_arguments(&env, name, parms, &written, callee.span)?;
        let spans = args.iter().map(|arg| arg.span).collect();
        self.routine_target(def, types, spans, callee.span)
    }

    /// Returns type arguments, which look like expressions.
    pub fn written_types(&mut self, args: &'a [Expr]) -> Option<Vec<TypeExpr>> {
        let mut types = vec![];
        for arg in args {
            let Some(ty) = as_type(arg) else {
                self.report(Diagnostic::error(Code::E0208, arg.span, "this is not a type"));
                return None;
            };
            types.push(ty);
        }
        Some(types)
    }

    /// Returns the instantiation of a generic built-in that fits the static types of the arguments
    /// exactly.
    fn infer(&mut self, row: &'static builtin::BuiltinRoutine, span: Span, given: &Given) -> Option<Target> {
        let mut types = given.plain.iter().map(|(value, _)| value.ty).collect::<Option<Vec<TypeId>>>()?;
        if let Some((first, _)) = given.rest.as_ref().and_then(|rest| rest.first()) {
            types.push(self.cx.program.types.instance(TypeKind::Sequence(first.ty?)));
        }
        let found = builtin::infer(&self.cx.program.types, row, &types);
        if let Some(types) = found.into_iter().collect::<Option<Vec<TypeId>>>() {
            self.check_actors(row, &types, span)?;
            self.cx.ask_builtin(row.name, row.parms, row.needs, &types, vec![span]);
            return Some(self.instantiate(row, &types));
        }
        let (plural, parms) = (if row.parms.len() == 1 { "" } else { "s" }, row.parms.join(", "));
        let message = format!("`{}` needs its type argument{plural} here", row.name);
        let types = if row.parms.len() == 1 { "type" } else { "types" };
        let wanted = row.heading.split(')').next().map_or(0, |params| params.matches(": ").count());
        let collects =
            given.rest.is_none() && given.plain.len() >= wanted && row.heading.contains(": sequence[");
        let form = if collects { self.collecting(row.name, &given.plain, wanted) } else { None };
        let help = form.unwrap_or_else(|| {
            format!("write `{}[{parms}](…)` with the {types} for `{}`", row.name, row.parms.join("` and `"))
        });
        self.report(Diagnostic::error(Code::E0203, span, message).help(help));
        None
    }

    pub fn method_callee(&mut self, object: Value, name: &Ident) -> Found {
        let Some(ty) = object.ty.filter(|_| !name.name.is_empty()) else { return Found::Wrong };
        match self.method_of(ty, &name.name) {
            Some(method) => {
                let signature = self.heading_of(method);
                let name = name.name.to_string();
                Found::Target(Target {
                    callee: Callee::Method(method),
                    receiver: Some(object.op),
                    signature,
                    name,
                })
            }
            None => {
                if let (TypeKind::Replier(result), "deliver") = (self.cx.program.types.kind(ty), &*name.name)
                {
                    return Found::Deliver { replier: object.op, result, name: name.span };
                }
                let diagnostic = self.no_method(ty, &name.name, name.span);
                self.report(diagnostic);
                Found::Wrong
            }
        }
    }

    /// Returns the method of that name that may be called here.
    pub fn method_of(&self, ty: TypeId, name: &str) -> Option<MethodRef> {
        let found = self.cx.program.types.find_method(ty, name)?;
        // The callees of an instantiation were looked at where its definition stands.
        let seen = self.cx.program.types.method(found).public
            || self.cx.voice == Voice::Instance
            || self
                .cx
                .class_at
                .get(&ty)
                .is_none_or(|at| self.cx.names.is_within(self.env.scope, self.cx.class_home(*at)));
        seen.then_some(found)
    }

    /// Returns the heading of a method, as far as code here may rely on it.
    pub fn heading_of(&self, method: MethodRef) -> Signature {
        let found = self.cx.program.types.method(method);
        let mut narrowed = self.env.narrowed.iter();
        let less = narrowed.find(|demand| demand.arg == method.ty && demand.name == found.name);
        less.map_or(&found.signature, |demand| &demand.signature).clone()
    }

    /// Returns the error E0201.
    pub fn no_method(&self, ty: TypeId, name: &str, span: Span) -> Diagnostic {
        let type_name = self.cx.program.types.name(ty);
        let mut diagnostic =
            Diagnostic::error(Code::E0201, span, format!("type `{type_name}` has no method `{name}`"));
        match self.cx.program.types.kind(ty) {
            TypeKind::Group(member) if self.cx.program.types.find_method(member, name).is_some() => {
                let member = self.cx.program.types.name(member);
                let help = format!(
                    "`send g.{name}(…)` reaches all members; send a request to each: `for a: {member} in \
                        g.members() \
                        do … end`"
                );
                diagnostic.message =
                    format!("a group does not answer requests, so `{type_name}` has no `{name}`");
                return diagnostic.help(help);
            }
            TypeKind::Replier(_) => return diagnostic.help("its only operation is `d.deliver(v)`"),
            _ => {}
        }
        let private =
            self.cx.program.types.find_method(ty, name).is_some() && self.method_of(ty, name).is_none();
        diagnostic.help = self.cx.similar_method(ty, name).or_else(|| {
            if private {
                return Some(format!("`{name}` is private to the module of class `{type_name}`"));
            }
            if self.cx.opaque.contains(&ty) {
                return Some(format!("add `where {type_name} has {name} (…) …` to the heading"));
            }
            let methods = self.cx.program.types.def(ty).methods.values();
            let names: Vec<String> =
                methods.filter(|m| !m.name.contains('.')).take(8).map(|m| format!("`{}`", m.name)).collect();
            match self.visible_ivar(ty, name) {
                Some(_) => Some(format!("`{name}` is an instance variable: omit the parentheses")),
                None if names.is_empty() => Some(format!("`{type_name}` has no methods at all")),
                None => Some(format!("`{type_name}` has {}", names.join(", "))),
            }
        });
        diagnostic
    }
}
