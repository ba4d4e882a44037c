//! Constructors: new objects from their initialisers and inherited makers, and the places that can
//! see inside objects.
//!
//! Read [`Body::initialise`] first: it computes the values of all variables of a class.
//! [`Body::construct`] checks a constructor call, and makes the object in one step from such
//! values.

use bifrost_ir::{Callee, Operand, Site, Stmt, TypeId, TypeKind};

use super::Checker;
use super::body::{Body, Value};
use super::calls::Given;
use super::classes::MakerInfo;
use super::types::as_type;
use super::wheres::Needs;
use crate::ast::{self, Expr, ExprKind, Init, MakerCall};
use crate::diagnostic::{Code, Diagnostic};
use crate::lower::nothing;
use crate::resolve::{Def, similar};
use crate::source::Span;

/// The parts of a new object.
pub(crate) struct Made {
    /// The values of all instance variables, inherited ones first.
    pub fields: Vec<Operand>,
    /// The inherited `then` part, and its arguments.
    pub then: Option<(String, Vec<Value>)>,
}

impl<'a> Body<'_, 'a> {
    /// Calls a method of class `at` that no program can name.
    pub fn call_hidden(&mut self, at: usize, name: &str, object: Operand, rest: Vec<Operand>, site: u32) {
        let Some(ty) = self.cx.classes[at].as_ref().map(|info| info.ty) else { return };
        if let Some(method) = self.cx.program.types.find_method(ty, name) {
            let signature = self.cx.program.types.method(method).signature.clone();
            self.raise(&signature);
        }
        let operands = std::iter::once(object).chain(rest).collect();
        self.call_method(ty, name, operands, site);
    }

    /// Returns the instance variable `name` of objects of type `ty`, if code here can reach it:
    /// class, field, type.
    pub fn visible_ivar(&self, ty: TypeId, name: &str) -> Option<(usize, u32, Option<TypeId>)> {
        let at = *self.cx.class_at.get(&ty)?;
        if !self.cx.names.is_within(self.env.scope, self.cx.class_home(at)) {
            return None;
        }
        let (field, ivar) = self.cx.classes[at].as_ref()?.ivar(name)?;
        Some((at, field, ivar.ty))
    }

    /// Returns the parts of an object of class `at` from its initialisers.
    pub fn initialise(
        &mut self,
        at: usize,
        inits: &'a [Init],
        maker: Option<&'a MakerCall>,
        span: Span,
    ) -> Made {
        let Some(info) = self.cx.classes[at].clone() else { return Made { fields: vec![], then: None } };
        let class_name = &self.cx.class_ast(at).name;
        let mut own: Vec<Option<Operand>> = vec![None; info.ivars.len()];
        for init in inits {
            let place = info.ivars.iter().position(|ivar| ivar.name == init.name.name);
            let Some(place) = place else {
                self.value(&init.value);
                if !init.name.name.is_empty() {
                    let message =
                        format!("class `{class_name}` has no instance variable `{}` of its own", init.name);
                    let close = similar(&init.name.name, info.ivars.iter().map(|ivar| &*ivar.name));
                    let mut diagnostic = Diagnostic::error(Code::E0214, init.name.span, message);
                    diagnostic.help = close.map(|n| format!("a similar name exists: `{n}`"));
                    self.report(diagnostic);
                }
                continue;
            };
            let value = self.expect(&init.value, info.ivars[place].ty);
            if own[place].replace(value).is_some() {
                let message = format!("`{}` is initialised twice", init.name);
                self.report(
                    Diagnostic::error(Code::E0214, init.name.span, message).help("leave one of them out"),
                );
            }
        }
        let missing: Vec<String> = (info.ivars.iter().zip(&own))
            .filter(|(_, value)| value.is_none())
            .map(|(ivar, _)| format!("`{}`", ivar.name))
            .collect();
        if !missing.is_empty() {
            let plural = if missing.len() == 1 { "" } else { "s" };
            let message = format!("`{class_name}` needs initialiser{plural} for {}", missing.join(", "));
            let example = missing[0].trim_matches('`').to_owned();
            let help = format!("add `{example} := …`");
            self.report(Diagnostic::error(Code::E0214, span, message).help(help));
        }
        let (mut fields, then) = self.inherited(at, maker, span);
        fields.extend(own.into_iter().map(|value| value.unwrap_or(nothing())));
        Made { fields, then }
    }

    /// Returns the values of the inherited variables, from the maker of the superclass.
    fn inherited(
        &mut self,
        at: usize,
        maker: Option<&'a MakerCall>,
        span: Span,
    ) -> (Vec<Operand>, Option<(String, Vec<Value>)>) {
        let above = self.cx.classes[at].as_ref().and_then(|info| info.superclass);
        let class_name = &self.cx.class_ast(at).name;
        let (above, call) = match (above, maker) {
            (None, None) => return (vec![], None),
            (None, Some(call)) => {
                self.given(&call.args);
                // If it has a superclass, that one is wrong and has been reported.
                if self.cx.class_ast(at).inherits.is_none() {
                    let message =
                        format!("class `{class_name}` inherits nothing, so there is no maker to call");
                    self.report(Diagnostic::error(Code::E0214, call.name.span, message));
                }
                return (vec![], None);
            }
            (Some(above), None) => {
                let up = self.cx.class_ast(above);
                let example = up.provides.first().map_or("maker".to_owned(), |name| name.to_string());
                let message = format!("`{class_name}` must call a maker of `{}`", up.name);
                let help = format!("end with `; {example}(…)`");
                self.report(Diagnostic::error(Code::E0214, span, message).help(help));
                return (vec![], None);
            }
            (Some(above), Some(call)) => (above, call),
        };
        let given = self.given(&call.args);
        let up = self.cx.class_ast(above);
        let maker = up.makers.iter().find(|maker| maker.heading.name.name == call.name.name);
        let provided = up.provides.iter().any(|name| name.name == call.name.name);
        let exists = maker.is_some();
        let Some(maker) = maker.filter(|_| provided) else {
            let message = format!("class `{}` provides no maker `{}`", up.name, call.name);
            let names = up.provides.iter().map(|name| &*name.name);
            let mut diagnostic = Diagnostic::error(Code::E0214, call.name.span, message);
            diagnostic.help = match exists {
                true => Some(format!("add it to the class: `provides {}`", call.name)),
                false => similar(&call.name.name, names).map(|n| format!("a similar name exists: `{n}`")),
            };
            self.report(diagnostic);
            return (vec![], None);
        };
        let Some(args) = self.maker_arguments(above, maker, call, &given) else { return (vec![], None) };
        let Some(known) = self.maker(above, maker, args, call) else { return (vec![], None) };
        let Some(operands) = self.fit(&call.name.name, &known.signature, given, call.args.span) else {
            return (vec![], None);
        };
        self.raise(&known.signature);
        let results = self.cx.program.routines[known.values].signature.results.clone();
        let mut values = vec![];
        let mut dsts = vec![];
        for ty in results {
            let var = self.b.temp(Some(ty));
            dsts.push(var);
            values.push(Value { op: var.into(), ty: Some(ty) });
        }
        self.b.call(Callee::Routine(known.values), operands, dsts, call.name.span.start);
        let rest = values.split_off(known.fields.min(values.len()));
        (values.into_iter().map(|value| value.op).collect(), known.then.map(|name| (name, rest)))
    }

    /// `C{x := e, ...}`
    pub fn construct(
        &mut self,
        expr: &'a Expr,
        class: &'a Expr,
        inits: &'a [Init],
        maker: Option<&'a MakerCall>,
    ) -> Value {
        let Some(at) = self.constructed(class) else {
            for init in inits {
                self.value(&init.value);
            }
            if let Some(call) = maker {
                self.given(&call.args);
            }
            return self.wrong();
        };
        let made = self.initialise(at, inits, maker, expr.span);
        let Some((id, ty)) = self.cx.classes[at].as_ref().map(|info| (info.id, info.ty)) else {
            return self.wrong();
        };
        let object = self.b.temp(Some(ty));
        let site = Site(expr.span.start);
        self.b.emit(Stmt::New { dst: object, class: id, fields: made.fields, site });
        if let Some((name, values)) = made.then {
            let values = values.into_iter().map(|value| value.op).collect();
            self.call_hidden(at, &name, object.into(), values, expr.span.start);
        }
        Value { op: object.into(), ty: Some(ty) }
    }

    /// Returns the type arguments of a maker's own parameters.
    fn maker_arguments(
        &mut self,
        above: usize,
        maker: &'a ast::Maker,
        call: &'a MakerCall,
        given: &Given,
    ) -> Option<Vec<TypeId>> {
        let heading = &maker.heading;
        if call.parms.is_empty() && !heading.parms.is_empty() {
            let env = self.cx.classes[above].as_ref()?.env.clone();
            return self.infer_arguments(&env, heading, given, call.name.span);
        }
        let env = self.env.clone();
        self.cx.type_arguments(&env, &call.name, &heading.parms, &call.parms, call.name.span)
    }

    /// Returns a maker of class `above`, checked.
    fn maker(
        &mut self,
        above: usize,
        maker: &'a ast::Maker,
        args: Vec<TypeId>,
        call: &'a MakerCall,
    ) -> Option<MakerInfo> {
        self.cx.need_makers(above, call.name.span);
        let key = (maker.heading.name.name.clone(), args);
        let known = |cx: &Checker<'_>| cx.classes[above].as_ref()?.makers.get(&key).cloned();
        if !maker.heading.wheres.is_empty() {
            self.cx.ask_maker(above, maker, &key.1, call);
        }
        if known(self.cx).is_none() && !key.1.is_empty() {
            self.cx.need_maker(above, maker, &key.1, call.name.span);
        }
        let found = known(self.cx);
        if found.is_none() && self.cx.diagnostics.is_empty() && self.cx.is_open(above) {
            self.cx.unsupported(call.name.span, "a maker that makes objects of a subclass");
        }
        found
    }

    /// Returns the class that is named before the braces.
    fn constructed(&mut self, class: &'a Expr) -> Option<usize> {
        let (name, written) = match &class.kind {
            ExprKind::Name(name) => (name, &[][..]),
            ExprKind::Index { object, args } => match &object.kind {
                ExprKind::Name(name) => (name, &args[..]),
                _ => return self.not_a_class(class),
            },
            _ => return self.not_a_class(class),
        };
        let variable = self.local(&name.name).is_some() || self.own_ivar(&name.name).is_some();
        if variable || self.env.parm(&name.name).is_some() {
            return self.not_a_class(class);
        }
        let Some(entry) = self.cx.names.lookup(self.env.scope, &name.name) else {
            if crate::resolve::is_builtin_type(&name.name) {
                return self.not_a_class(class);
            }
            let diagnostic = self.unknown(name);
            self.report(diagnostic);
            return None;
        };
        let Def::Class(def) = entry.def else { return self.not_a_class(class) };
        let placed = &self.cx.names.classes[def];
        if placed.ast.actor.is_some() {
            let message = format!("`{name}` is an actor, which is made by `new`");
            let help = format!("write `{name}.new(…)`");
            self.report(Diagnostic::error(Code::E0208, name.span, message).help(help));
            return None;
        }
        if placed.ast.native.is_some() {
            let message = format!("objects of the native class `{name}` are made in Rust");
            let help = "call a native routine that returns such an object";
            self.report(Diagnostic::error(Code::E0214, name.span, message).help(help));
            return None;
        }
        if !self.cx.names.is_within(self.env.scope, placed.home) {
            let message = format!("objects of class `{name}` are made only in its module");
            let help = "call a routine that returns such an object";
            self.report(Diagnostic::error(Code::E0307, name.span, message).help(help));
            return None;
        }
        let written = self.written_types(written)?;
        let env = self.env.clone();
        let args = self.cx.type_arguments(&env, name, &placed.ast.parms, &written, class.span)?;
        let at = self.cx.class_instance(def, args, class.span)?;
        self.cx.ask(Needs::Class(at), written.iter().map(|arg| arg.span).collect());
        Some(at)
    }

    fn not_a_class(&mut self, class: &'a Expr) -> Option<usize> {
        if matches!(class.kind, ExprKind::Error) {
            return None;
        }
        let text = self.cx.sources.slice(class.span);
        if let Some((kind, field)) = self.named_tagged(class) {
            let message = format!("the fields of a {kind} need `:`");
            let help = format!("write `{text}{{{field}: ...}}`; `:=` is for objects of classes");
            self.report(Diagnostic::error(Code::E0208, class.span, message).help(help));
            return None;
        }
        let message = format!("`{text}` is not a class");
        let help = "only a class makes objects; a type is a specification";
        self.report(Diagnostic::error(Code::E0208, class.span, message).help(help));
        None
    }

    /// Returns the kind and the first field of the record, struct or oneof that an expression
    /// names.
    fn named_tagged(&mut self, named: &'a Expr) -> Option<(&'static str, String)> {
        let env = self.env.clone();
        let written = as_type(named).filter(|_| self.cx.names_type(&env, named))?;
        let ty = self.cx.resolve_type(&env, &written)?;
        let kind = match self.cx.program.types.kind(ty) {
            TypeKind::Record(_) => "record",
            TypeKind::Struct(_) => "struct",
            TypeKind::OneOf(_) | TypeKind::Maybe(_) => "oneof",
            _ => return None,
        };
        let fields = self.cx.program.types.structure(ty)?;
        Some((kind, fields.first()?.name.clone()))
    }
}
