//! Types as written, and the types they mean.
//!
//! Read [`Checker::resolve_type`] first; [`Checker::resolve_heading`] does the same for all types
//! of a heading, and [`Checker::misfit`] explains why one heading cannot stand for another.

use bifrost_ir::{Form, Param, SignalId, SignalSig, Signature, TypeId, Types, builtin, verify};

use super::wheres::Needs;
use super::{Checker, Env, Equate};
use crate::ast::{Expr, ExprKind, Formal, Heading, Ident, Signal, TypeExpr, TypeExprKind};
use crate::diagnostic::{Code, Diagnostic};
use crate::resolve::{Def, is_builtin_type, similar};
use crate::source::Span;

impl Checker<'_> {
    /// Returns the type that `written` means; reports and gives `None` if there is none.
    pub(crate) fn resolve_type(&mut self, env: &Env, written: &TypeExpr) -> Option<TypeId> {
        match &written.kind {
            TypeExprKind::Name { name, args } => self.resolve_named(env, written, name, args),
            TypeExprKind::Tagged { kind, fields } => {
                let form = match kind {
                    crate::ast::Tagged::Record => Form::Record,
                    crate::ast::Tagged::Struct => Form::Struct,
                    crate::ast::Tagged::Oneof => Form::OneOf,
                };
                self.resolve_tagged(env, written, form, fields)
            }
            TypeExprKind::Routine { iterator, args, result, signals } => {
                self.resolve_routine_type(env, written, *iterator, args, result, signals)
            }
            TypeExprKind::Error => None,
        }
    }

    /// Does the same, with [`Checker::wrong`] where there is none.
    pub(crate) fn resolve_type_or_wrong(&mut self, env: &Env, written: &TypeExpr) -> TypeId {
        match self.resolve_type(env, written) {
            Some(ty) => ty,
            None => self.wrong_type(),
        }
    }

    fn resolve_named(
        &mut self,
        env: &Env,
        written: &TypeExpr,
        name: &Ident,
        args: &[TypeExpr],
    ) -> Option<TypeId> {
        if name.name.is_empty() {
            return None;
        }
        if let Some(ty) = env.parm(&name.name) {
            // It has no parameters itself.
            return self.type_arguments(env, name, &[], args, written.span).map(|_| ty);
        }
        if is_builtin_type(&name.name) {
            return self.resolve_builtin(env, written, name, args);
        }
        let Some(entry) = self.names.lookup(env.scope, &name.name) else {
            self.unknown_type(env, name);
            return None;
        };
        let ty = match entry.def {
            // The mistake that keeps a type from being used has been reported where it is defined.
            Def::Type(def) => {
                let parms = &self.names.types[def].ast.parms;
                let types = self.type_arguments(env, name, parms, args, written.span)?;
                let at = self.type_instance(def, types, written.span)?;
                self.ask(Needs::Type(at), args.iter().map(|arg| arg.span).collect());
                return Some(self.types[at].ty);
            }
            Def::Class(def) => {
                let placed = &self.names.classes[def];
                if placed.ast.actor.is_none() && !self.names.is_within(env.scope, placed.home) {
                    let message = format!("class `{name}` is not visible as a type outside its module");
                    let help = "use a type that it implements";
                    self.report(Diagnostic::error(Code::E0208, name.span, message).help(help));
                    return None;
                }
                let types = self.type_arguments(env, name, &placed.ast.parms, args, written.span)?;
                let at = self.class_instance(def, types, written.span)?;
                self.ask(Needs::Class(at), args.iter().map(|arg| arg.span).collect());
                return self.classes[at].as_ref().map(|class| class.ty);
            }
            Def::Equate(at) => match self.equate(env, at) {
                Equate::Type(ty) => Some(ty),
                Equate::Constant(_) => {
                    self.not_a_type(name, "a constant");
                    None
                }
                _ => None,
            },
            Def::Routine(_) | Def::Native(_) => {
                self.not_a_type(name, "a routine");
                None
            }
        };
        let ty = ty?;
        self.type_arguments(env, name, &[], args, written.span).map(|_| ty)
    }

    fn not_a_type(&mut self, name: &Ident, what: &str) {
        let message = format!("`{name}` is {what}, not a type");
        self.report(Diagnostic::error(Code::E0208, name.span, message));
    }

    fn unknown_type(&mut self, env: &Env, name: &Ident) {
        let mut known: Vec<&str> = self.names.visible(env.scope);
        known.extend(crate::resolve::BUILTIN_TYPES);
        known.retain(|n| {
            is_builtin_type(n)
                || self
                    .names
                    .lookup(env.scope, n)
                    .is_some_and(|e| matches!(e.def, Def::Type(_) | Def::Class(_)))
        });
        let close = similar(&name.name, known).map(|n| format!("a type with a similar name exists: `{n}`"));
        let mut diagnostic = Diagnostic::error(Code::E0208, name.span, format!("there is no type `{name}`"));
        diagnostic.help = close.or(Some("define the type, or import its file".to_owned()));
        self.report(diagnostic);
    }

    fn resolve_builtin(
        &mut self,
        env: &Env,
        written: &TypeExpr,
        name: &Ident,
        args: &[TypeExpr],
    ) -> Option<TypeId> {
        let simple = match &*name.name {
            "null" => Some(Types::NULL),
            "bool" => Some(Types::BOOL),
            "int" => Some(Types::INT),
            "real" => Some(Types::REAL),
            "char" => Some(Types::CHAR),
            "string" => Some(Types::STRING),
            "bytes" => Some(Types::BYTES),
            "any" => Some(Types::ANY),
            "directory" => Some(Types::DIRECTORY),
            _ => None,
        };
        let family = builtin::find_family(&name.name);
        let wanted = family.map_or(0, |f| f.parms.len());
        if wanted != args.len() {
            let plural = if wanted == 1 { "" } else { "s" };
            let message = format!("`{name}` takes {wanted} type argument{plural}, {} given", args.len());
            let example = if wanted == 2 { format!("{name}[K, V]") } else { format!("{name}[T]") };
            let mut diagnostic = Diagnostic::error(Code::E0203, written.span, message);
            diagnostic.help =
                Some(if wanted == 0 { format!("write `{name}`") } else { format!("write `{example}`") });
            self.report(diagnostic);
            return simple;
        }
        if simple.is_some() {
            return simple;
        }
        let found: Vec<Option<TypeId>> = args.iter().map(|arg| self.resolve_type(env, arg)).collect();
        let family = family.expect("what is predeclared is simple or generic");
        let found = found.into_iter().collect::<Option<Vec<TypeId>>>()?;
        if family.name == "group" {
            let help = format!("use `sequence[{}]`", self.type_name(found[0]));
            self.check_actors("group", found[0], args[0].span, help)?;
        }
        if !self.may_add_type(written.span) {
            return None;
        }
        self.instance_name(family.name, &found, written.span)?;
        let ty = self.program.types.instance((family.kind)(&found));
        let spans = args.iter().map(|arg| arg.span).collect();
        self.ask_builtin(family.name, family.parms, family.needs, &found, spans);
        Some(ty)
    }

    /// Reports E0206 if values of a type are no actors, which a built-in needs.
    pub(crate) fn check_actors(&mut self, needs: &str, ty: TypeId, span: Span, help: String) -> Option<()> {
        let actors =
            self.program.types.def(ty).actor || self.known(ty).is_none() || self.opaque.contains(&ty);
        if actors {
            return Some(());
        }
        let message =
            format!("`{}` is not an actor type, which `{needs}` requires of `A`", self.type_name(ty));
        self.report(Diagnostic::error(Code::E0206, span, message).help(help));
        None
    }

    /// Returns true if `expr` names a type, whatever is wrong with it; reports nothing.
    pub(crate) fn names_type(&self, env: &Env, expr: &Expr) -> bool {
        match &expr.kind {
            ExprKind::Type(_) => true,
            ExprKind::Name(name) => self.is_type_name(env, &name.name),
            ExprKind::Index { object, .. } => self.names_type(env, object),
            _ => false,
        }
    }

    pub(crate) fn is_type_name(&self, env: &Env, name: &str) -> bool {
        if is_builtin_type(name) || env.parm(name).is_some() {
            return true;
        }
        match self.names.lookup(env.scope, name).map(|entry| entry.def) {
            Some(Def::Type(_) | Def::Class(_)) => true,
            Some(Def::Equate(at)) => self.is_type_equate(env, at),
            _ => false,
        }
    }

    /// Returns the exception of that name, made at its first use.
    pub(crate) fn signal(&mut self, name: &str) -> SignalId {
        self.program.types.signal(name)
    }

    /// Returns the signature of a heading. Wrong types become `any`; they have been reported.
    pub(crate) fn resolve_heading(&mut self, env: &Env, heading: &Heading) -> Signature {
        self.check_limits(heading);
        self.check_distinct(heading.args.iter().map(|arg| &arg.name));
        let params = heading.args.iter().map(|arg| self.resolve_formal(env, arg)).collect();
        let types: Vec<TypeId> =
            heading.result.types.iter().map(|ty| self.resolve_type_or_wrong(env, ty)).collect();
        let signals = self.resolve_signals(env, &heading.signals);
        if heading.result.yields {
            Signature { params, results: vec![], yields: Some(types), signals }
        } else {
            Signature { params, results: types, yields: None, signals }
        }
    }

    /// Reports headings that the IR cannot carry.
    fn check_limits(&mut self, heading: &Heading) {
        // One word is the receiver or routine, one the body of the loop.
        let many = |what: &str, max: usize| format!("`{}` has more than {max} {what}", heading.name);
        let (results, yields) = match heading.result.yields {
            true => (0, heading.result.types.len()),
            false => (heading.result.types.len(), 0),
        };
        let message = if heading.args.len() > verify::WORDS_MAX - 2 {
            many("arguments", verify::WORDS_MAX - 2)
        } else if results > verify::VALUES_MAX {
            many("results", verify::VALUES_MAX)
        } else if yields > verify::YIELDS_MAX {
            many("results", verify::YIELDS_MAX)
        } else if heading.signals.iter().any(|signal| signal.types.len() > verify::VALUES_MAX) {
            many("values in an exception", verify::VALUES_MAX)
        } else {
            return;
        };
        self.report(
            Diagnostic::error(Code::E0109, heading.span, message).help("put some of them into an object"),
        );
    }

    fn resolve_formal(&mut self, env: &Env, formal: &Formal) -> Param {
        let ty = self.resolve_type_or_wrong(env, &formal.ty);
        Param { name: formal.name.name.to_string(), ty }
    }

    pub(crate) fn resolve_signals(&mut self, env: &Env, signals: &[Signal]) -> Vec<SignalSig> {
        self.check_distinct(signals.iter().map(|signal| &signal.name));
        let mut resolved = vec![];
        for signal in signals {
            let values = signal.types.iter().map(|ty| self.resolve_type_or_wrong(env, ty)).collect();
            let name = self.signal(&signal.name.name);
            // `failure (string)` may always be signalled and is not listed in the IR.
            if name != SignalId::FAILURE {
                resolved.push(SignalSig { name, values });
            }
        }
        resolved
    }

    /// Returns the reason why a method headed `sub` cannot stand where `sup` is declared, and a
    /// change that would help. `below` says which types may stand for which.
    pub(crate) fn misfit(
        &self,
        sub: &Signature,
        sup: &Signature,
        sup_name: &str,
        below: impl Fn(&Self, TypeId, TypeId) -> bool,
    ) -> Option<(String, String)> {
        let types = &self.program.types;
        let heading = || format!("the heading there is `{}`", types.heading(sup_name, sup));
        if sub.params.len() != sup.params.len() {
            let (n, m) = (sub.params.len(), sup.params.len());
            let plural = if n == 1 { "" } else { "s" };
            return Some((format!("it takes {n} argument{plural}, not {m}"), heading()));
        }
        for (a, b) in sub.params.iter().zip(&sup.params) {
            if !below(self, b.ty, a.ty) {
                let (found, wanted) = (types.name(a.ty), types.name(b.ty));
                return Some((format!("argument `{}` is `{found}`, not `{wanted}`", a.name), heading()));
            }
        }
        if sub.is_iterator() != sup.is_iterator() {
            let what = if sub.is_iterator() { "it is an iterator" } else { "it is not an iterator" };
            return Some((what.to_owned(), heading()));
        }
        let (given, wanted) = match (&sub.yields, &sup.yields) {
            (Some(a), Some(b)) => (a, b),
            _ => (&sub.results, &sup.results),
        };
        let word = if sub.is_iterator() { "yields" } else { "returns" };
        if given.len() != wanted.len() {
            let plural = if given.len() == 1 { "" } else { "s" };
            return Some((
                format!("it {word} {} value{plural}, not {}", given.len(), wanted.len()),
                heading(),
            ));
        }
        for (a, b) in given.iter().zip(wanted) {
            if !below(self, *a, *b) {
                return Some((
                    format!("it {word} `{}`, not `{}`", types.name(*a), types.name(*b)),
                    heading(),
                ));
            }
        }
        for signal in &sub.signals {
            let name = types.signal_name(signal.name);
            let Some(wanted) = sup.signal(signal.name) else {
                let allowed: Vec<String> =
                    sup.signals.iter().map(|s| format!("`{}`", types.signal_name(s.name))).collect();
                let help = if allowed.is_empty() {
                    "a subtype may signal nothing here".to_owned()
                } else {
                    format!("a subtype may signal only {}", allowed.join(", "))
                };
                return Some((format!("it may signal `{name}`"), help));
            };
            let fits = signal.values.len() == wanted.values.len()
                && signal.values.iter().zip(&wanted.values).all(|(a, b)| below(self, *a, *b));
            if !fits {
                return Some((format!("`{name}` has other values"), heading()));
            }
        }
        None
    }
}

/// Returns the type that an expression looks like, if it has the form of one.
pub(crate) fn as_type(expr: &Expr) -> Option<TypeExpr> {
    let kind = match &expr.kind {
        ExprKind::Type(ty) => return Some(ty.clone()),
        ExprKind::Name(name) => TypeExprKind::Name { name: name.clone(), args: vec![] },
        ExprKind::Index { object, args } => {
            let ExprKind::Name(name) = &object.kind else { return None };
            let args = args.iter().map(as_type).collect::<Option<Vec<_>>>()?;
            TypeExprKind::Name { name: name.clone(), args }
        }
        _ => return None,
    };
    Some(TypeExpr { kind, span: expr.span })
}
