//! Routines as values: their types, names of routines, methods selected without call, `bind`
//! (section 5 of the definition).
//!
//! A value is an object of a class of `bifrost_ir::routines`, made from the operands that it holds.

use bifrost_ir::{
    Callee, Operand, Param, Signature, Site, Stmt as IrStmt, TypeId, TypeKind, routines, verify,
};

use super::body::{Body, Value};
use super::calls::{Found, Target};
use super::{Checker, Env};
use crate::ast::{Expr, Outcome, Signal, TypeExpr};
use crate::diagnostic::{Code, Diagnostic};
use crate::source::Span;

impl Checker<'_> {
    /// `proc (T, ...) ...` or `iter (T, ...) ...`.
    pub(crate) fn resolve_routine_type(
        &mut self,
        env: &Env,
        written: &TypeExpr,
        iterator: bool,
        args: &[TypeExpr],
        result: &Outcome,
        signals: &[Signal],
    ) -> Option<TypeId> {
        let word = if iterator { "iter" } else { "proc" };
        if iterator != result.yields && (iterator || !result.types.is_empty()) {
            let (wrong, right) = if iterator { ("returns", "yields") } else { ("yields", "returns") };
            let message = format!("`{word}` is followed by `{right}`");
            let help = match (iterator, result.types.is_empty()) {
                (true, true) => "write `yields (…)`".to_owned(),
                _ => format!("write `{right} (…)` for `{wrong} (…)`"),
            };
            self.report(Diagnostic::error(Code::E0109, written.span, message).help(help));
            return None;
        }
        let params: Vec<Option<TypeId>> = args.iter().map(|ty| self.resolve_type(env, ty)).collect();
        let types: Vec<Option<TypeId>> = result.types.iter().map(|ty| self.resolve_type(env, ty)).collect();
        let signals = self.resolve_signals(env, signals);
        let params = params.into_iter().collect::<Option<Vec<TypeId>>>()?;
        let types = types.into_iter().collect::<Option<Vec<TypeId>>>()?;
        let params: Vec<Param> = params.into_iter().map(|ty| Param { name: String::new(), ty }).collect();
        let (results, yields) = if iterator { (vec![], Some(types)) } else { (types, None) };
        let signature = Signature { params, results, yields, signals };
        let named: Vec<TypeId> = signature.types().collect();
        if named.iter().any(|ty| self.known(*ty).is_none()) || !self.may_add_type(written.span) {
            return None;
        }
        let too_large = signature.params.len() > verify::WORDS_MAX - 2
            || signature.results.len() > verify::VALUES_MAX
            || signature.yields.as_ref().is_some_and(|yields| yields.len() > verify::YIELDS_MAX)
            || signature.signals.iter().any(|signal| signal.values.len() > verify::VALUES_MAX);
        if too_large {
            let message = format!("this `{word}` has too many arguments, results or values");
            let help = "put some of them into an object";
            self.report(Diagnostic::error(Code::E0109, written.span, message).help(help));
            return None;
        }
        self.fits_limits(named.len() + signature.signals.len(), &named, written.span)?;
        Some(self.program.types.routine_type(&signature))
    }
}

impl<'a> Body<'_, 'a> {
    /// Returns the target of a call of a value of a routine type.
    pub fn value_target(&mut self, value: Value, name: String) -> Option<Target> {
        let ty = value.ty.filter(|ty| self.cx.program.types.kind(*ty).is_routine())?;
        let method = self.cx.program.types.find_method(ty, "call")?;
        let signature = self.cx.program.types.method(method).signature.clone();
        Some(Target { callee: Callee::Method(method), receiver: Some(value.op), signature, name })
    }

    /// Returns a routine or method that is named without being called.
    pub fn routine_value(&mut self, found: Found, span: Span) -> Value {
        match found {
            Found::Target(target) => {
                let held = vec![false; target.signature.params.len()];
                self.routine_object(target, held, vec![], span)
            }
            Found::Generic(row, span) => self.needs_arguments(row.name, span),
            Found::Routine(def, span) => {
                let name = self.cx.names.routines[def].ast.heading.name.name.clone();
                self.needs_arguments(&name, span)
            }
            Found::Deliver { name, .. } => {
                self.misplaced_deliver(name);
                self.wrong()
            }
            Found::Wrong => self.wrong(),
        }
    }

    fn needs_arguments(&mut self, name: &str, span: Span) -> Value {
        let message = format!("`{name}` needs its type arguments here");
        let help = format!("write `{name}[T]` with the type for `T`");
        self.report(Diagnostic::error(Code::E0203, span, message).help(help));
        self.wrong()
    }

    /// `bind(p, *, e)`
    pub fn bind(&mut self, expr: &'a Expr, callee: &'a Expr, args: &'a [Option<Expr>]) -> Value {
        let found = self.callee(callee);
        let given: Vec<Option<(Value, Span)>> =
            args.iter().map(|arg| arg.as_ref().map(|arg| (self.value(arg), arg.span))).collect();
        let target = match found {
            Found::Target(target) => target,
            other => return self.routine_value(other, callee.span),
        };
        let params = target.signature.params.clone();
        if given.len() != params.len() {
            let plural = if params.len() == 1 { "" } else { "s" };
            let name = &target.name;
            let message = format!("`{name}` takes {} argument{plural}, {} given", params.len(), given.len());
            let heading = self.cx.program.types.heading(name, &target.signature);
            let help = format!("`{heading}`; write `*` for an argument of the call");
            self.report(Diagnostic::error(Code::E0203, expr.span, message).help(help));
            return self.wrong();
        }
        let held = given.iter().map(Option::is_some).collect();
        let mut operands = vec![];
        for (given, param) in given.into_iter().zip(&params) {
            if let Some((value, span)) = given {
                operands.push(self.convert(value, self.cx.known(param.ty), span));
            }
        }
        self.routine_object(target, held, operands, expr.span)
    }

    /// Returns an object that calls `target` with the arguments that it holds.
    fn routine_object(
        &mut self,
        target: Target,
        mut held: Vec<bool>,
        mut operands: Vec<Operand>,
        span: Span,
    ) -> Value {
        if let Callee::Method(method) = target.callee
            && self.is_actor(method.ty)
        {
            let message = format!("`{}` is a message, not a value", target.name);
            let help = "name a routine that sends the message";
            self.report(Diagnostic::error(Code::E0202, span, message).help(help));
            return self.wrong();
        }
        let wrong = target.signature.types().any(|ty| self.cx.known(ty).is_none());
        if wrong || !self.cx.may_add_type(span) {
            return self.wrong();
        }
        if let Some(receiver) = target.receiver {
            held.insert(0, true);
            operands.insert(0, receiver);
        }
        let (class, ty) = routines::class_of(&mut self.cx.program, target.callee, &held);
        let dst = self.b.temp(Some(ty));
        self.b.emit(IrStmt::New { dst, class, fields: operands, site: Site(span.start) });
        Value { op: dst.into(), ty: Some(ty) }
    }

    /// Returns the help for a routine where the value of its call is wanted.
    pub fn call_it(&self, found: TypeId, wanted: TypeId) -> Option<String> {
        let types = &self.cx.program.types;
        let heading = types.routine_heading(found)?;
        let plain = matches!(types.kind(found), TypeKind::Proc(_)) && heading.params.is_empty();
        (plain && heading.results == [wanted]).then(|| "to call it, write `()` after it".to_owned())
    }
}
