//! Messages that are sent later: `later`, `every`, `monitor`; the end of actors: `stop`.
//!
//! The message is an argument in form only. The call becomes three statements: a call that has the
//! next message caught, the `send`, and the call of the routine, which takes what was caught
//! ([`builtin::LATER`]).

use bifrost_ir::{Const, Operand, Site, Stmt as IrStmt, TypeKind, Types, builtin};

use super::Checker;
use super::body::{Body, Role, Value};
use super::calls::Found;
use crate::ast::{ActorPart, Args, ClassDef, Expr, ExprKind, Unary};
use crate::diagnostic::{Code, Diagnostic};
use crate::resolve::is_builtin_routine;
use crate::source::Span;

impl Checker<'_> {
    /// Checks the lines `stop when failure` of an actor.
    pub(crate) fn check_stops(&mut self, class: &ClassDef, actor: &ActorPart) {
        if let Some(span) = actor.stops.first().filter(|_| actor.functional) {
            let message = format!("`{}` is functional and does not end", class.name);
            self.report(Diagnostic::error(Code::E0405, *span, message).help("drop `functional`"));
        }
        if let Some(span) = actor.stops.get(1) {
            let message = format!("`{}` says `stop when failure` twice", class.name);
            self.report(Diagnostic::error(Code::E0209, *span, message).help("leave one of them out"));
        }
    }
}

impl<'a> Body<'_, 'a> {
    /// Returns the routine that a call names, if it is one of those whose calls are more than
    /// calls.
    pub fn deferring(&self, callee: &'a Expr) -> Option<&'static builtin::BuiltinRoutine> {
        let ExprKind::Name(name) = &callee.kind else { return None };
        let is_known =
            [builtin::LATER, builtin::EVERY, builtin::MONITOR, builtin::STOP].contains(&&*name.name);
        let is_ours = is_known
            && is_builtin_routine(&name.name)
            && self.local(&name.name).is_none()
            && self.own_ivar(&name.name).is_none()
            && self.cx.names.lookup(self.env.scope, &name.name).is_none();
        is_ours.then(|| builtin::find_routine(&name.name)).flatten()
    }

    /// `later(e, send a.m(e))`, `every(e, send a.m(e))`, `monitor(a, send b.m(e))`, `stop()`
    pub fn deferred_call(
        &mut self,
        expr: &'a Expr,
        row: &'static builtin::BuiltinRoutine,
        callee: &'a Expr,
        args: &'a Args,
    ) -> Option<Vec<Value>> {
        let name = row.name;
        if self.role == Role::Condition {
            self.report_effect(expr.span, &format!("`{name}`"));
            return None;
        }
        if self.state.is_some() {
            let help = "send a message to an ordinary actor, which calls it";
            self.report_in_turn(expr.span, &format!("cannot call `{name}`"), help);
            return None;
        }
        if name == builtin::STOP {
            return self.stop_call(expr, row, args);
        }
        if let Some(transaction) = &self.transaction {
            let line = self.cx.sources.line(transaction.span.file, transaction.span.start);
            let message = format!("the transaction of line {line} cannot call `{name}`");
            let help = format!("call `{name}` behind the transaction");
            self.report(Diagnostic::error(Code::E0404, expr.span, message).help(help));
        }
        let monitors = name == builtin::MONITOR;
        let first = if monitors { "a" } else { "ms" };
        let (subject, message) = match (args.plain.as_slice(), &args.rest) {
            ([subject, message], None) => (subject, message),
            _ => {
                let message = format!("`{name}` takes 2 arguments, {} given", args.plain.len());
                let help = format!("write `{name}({first}, send b.m(...))`");
                self.report(Diagnostic::error(Code::E0203, args.span, message).help(help));
                return None;
            }
        };
        let subject_value = self.value(subject);
        let ExprKind::Unary { op: Unary::Send, operand } = &message.kind else {
            let text = format!("the second argument of `{name}` is a message");
            let help = format!("write `{name}({first}, send b.m(...))`");
            self.report(Diagnostic::error(Code::E0202, message.span, text).help(help));
            return None;
        };
        let target = match monitors {
            false => {
                let ms = self.convert(subject_value, Some(Types::INT), subject.span);
                (self.instantiate(row, &[]), ms)
            }
            true => {
                let ty = subject_value.ty?;
                let help = "name an actor".to_owned();
                self.cx.check_actors(name, ty, subject.span, help)?;
                if self.is_functional_actor(ty) {
                    let message = "a functional actor does not end".to_owned();
                    let help = "monitor the actor that has made it";
                    self.report(Diagnostic::error(Code::E0405, subject.span, message).help(help));
                }
                // Its destinations are of this type.
                self.cx.program.types.instance(TypeKind::Replier(Types::STRING));
                (self.instantiate(row, &[ty]), subject_value.op)
            }
        };
        let site = Site(expr.span.start);
        let (method, operands) = self.deferred_message(operand, monitors)?;
        let catches = self.instantiate(&builtin::CATCH, &[]);
        self.b.call(catches.callee, vec![], [], site.0);
        self.b.emit(IrStmt::Send { method, args: operands.into_iter().collect(), site });
        let dst = self.b.temp(Some(Types::INT));
        self.b.call(target.0.callee, vec![target.1], [dst], callee.span.start);
        Some(vec![Value { op: dst.into(), ty: Some(Types::INT) }])
    }

    /// Returns the method and the operands of a message that is sent later. The last argument of
    /// that for the end of an actor is the reason, and not written.
    fn deferred_message(
        &mut self,
        message: &'a Expr,
        has_reason: bool,
    ) -> Option<(bifrost_ir::MethodRef, Vec<Operand>)> {
        let ExprKind::Call { callee, args } = &message.kind else {
            self.message(message, "send");
            return None;
        };
        let (method, target, mut operands, args) = match has_reason {
            true => {
                let found = match self.callee(callee) {
                    Found::Target(mut target) => {
                        let last = target.signature.params.pop();
                        if last.is_none_or(|param| param.ty != Types::STRING) {
                            let message = format!("the last argument of `{}` is not a string", target.name);
                            let help = "it gets the reason: add `why: string` to its heading";
                            self.report(Diagnostic::error(Code::E0202, callee.span, message).help(help));
                            return None;
                        }
                        Found::Target(target)
                    }
                    found => found,
                };
                self.message_to(message, "send", found, args)?
            }
            false => self.message(message, "send")?,
        };
        if self.group_of(&target).is_some() {
            let message = "a group gets no message later".to_owned();
            let help = "name one of its members";
            self.report(Diagnostic::error(Code::E0202, callee.span, message).help(help));
            return None;
        }
        let copied = args.plain.iter().zip(&target.signature.params);
        let copied: Vec<Span> =
            copied.filter(|(_, param)| !self.cx.is_sendable(param.ty)).map(|(arg, _)| arg.span).collect();
        for span in copied {
            let message = "a message that is sent later carries no copies".to_owned();
            let help = "use an immutable type in the heading";
            self.report(Diagnostic::error(Code::E0401, span, message).help(help));
        }
        if has_reason {
            let nothing = self.cx.program.literal("");
            operands.push(Operand::Const(Const::Str(nothing)));
        }
        Some((method, operands))
    }

    /// `send a.m(e)` as a value.
    pub fn misplaced_send(&mut self, expr: &'a Expr, message: &'a Expr) -> Value {
        let _ = self.message(message, "send");
        let text = "`send` is a statement, not a value";
        let help = "only `later`, `every` and `monitor` take a message as an argument";
        self.report(Diagnostic::error(Code::E0202, expr.span, text).help(help));
        self.wrong()
    }

    /// `stop()`
    fn stop_call(
        &mut self,
        expr: &'a Expr,
        row: &'static builtin::BuiltinRoutine,
        args: &'a Args,
    ) -> Option<Vec<Value>> {
        if !args.plain.is_empty() || args.rest.is_some() {
            self.given(args);
            let message = format!("`stop` takes 0 arguments, {} given", args.plain.len());
            let help = "an actor ends itself only; send it a message at which it does";
            self.report(Diagnostic::error(Code::E0203, args.span, message).help(help));
            return None;
        }
        let own = self.class.and_then(|at| self.cx.classes[at].as_ref()).map(|info| info.ty);
        let Some(ty) = own.filter(|_| self.role == Role::Script) else {
            let message = "`stop` is allowed only in methods of actors";
            self.report(Diagnostic::error(Code::E0404, expr.span, message).help("let a method call it"));
            return None;
        };
        if self.is_functional() {
            let message = "a functional actor does not end";
            self.report(Diagnostic::error(Code::E0405, expr.span, message).help("drop `functional`"));
            return None;
        }
        let target = self.instantiate(row, &[ty]);
        let this = Operand::Var(bifrost_ir::Var::from_u32(0));
        self.b.call(target.callee, vec![this], [], expr.span.start);
        Some(vec![])
    }

    /// True if a type is the class of a functional actor.
    fn is_functional_actor(&self, ty: bifrost_ir::TypeId) -> bool {
        let at = self.cx.class_at.get(&ty).copied();
        at.is_some_and(|at| self.cx.class_ast(at).actor.as_ref().is_some_and(|actor| actor.functional))
    }
}
