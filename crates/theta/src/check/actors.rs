//! Actors (section 10 of the definition): creation, messages, answers, selection.
//!
//! An actor's class is a class whose methods are scripts. A call of a method of an actor type is a
//! request: it fills its variable later, and where the reply is needed is found when the body is
//! complete (`bifrost_ir::requests`).
//!
//! Read [`Checker::complete_actor`] first for classes, and [`Body::request`] for messages.

use bifrost_ir::{
    Callee, Choice, Const, Destination, Func, FuncId, MethodRef, Operand, Param, Signature, Site,
    Stmt as IrStmt, TypeId, TypeKind, Types, Var,
};
use smallvec::smallvec;
use std::sync::Arc;

use super::body::{Body, Frame, Role, Value};
use super::calls::{Found, Given, Target};
use super::flow::Flow;
use super::handlers::Cover;
use super::{Checker, Env};
use crate::ast::{self, Args, Expr, ExprKind, Place, Stmt, StmtKind, Unary, WaitArm};
use crate::diagnostic::{Code, Diagnostic};
use crate::source::Span;

/// A message that a statement sends: its method, target and operands, and its arguments.
pub(crate) type Sent<'a> = (MethodRef, Target, Vec<Operand>, &'a Args);

/// A message whose arm is being checked (`wait`): the heading of its answer, and the state of the
/// answer to the method itself.
pub(crate) struct Taken {
    name: Arc<str>,
    signature: Signature,
    /// The number of loops around the `wait`.
    loops: usize,
    /// The state of the answer to the message before: true if every path has given it, and a place
    /// where one may have.
    before: (bool, Option<Span>),
}

impl<'a> Checker<'a> {
    /// Declares the creators and constraints of an actor's class, still without code.
    pub(crate) fn complete_actor(&mut self, at: usize) {
        let Some(info) = &self.classes[at] else { return };
        let (id, ty, env) = (info.id, info.ty, info.env.clone());
        let ast = self.class_ast(at);
        let Some(actor) = &ast.actor else { return };
        let methods = ast.methods.iter().map(|routine| &routine.heading);
        self.check_messages(methods.chain(&ast.headings));
        let mut creators = vec![];
        for creator in &actor.creators {
            self.check_distinct(creator.args.iter().map(|arg| &arg.name));
            let params = creator.args.iter().map(|arg| Param {
                name: arg.name.name.to_string(),
                ty: self.resolve_type_or_wrong(&env, &arg.ty),
            });
            let params: Vec<Param> = params.collect();
            creators.push(self.heading_only(
                &ast.name.name,
                ty,
                Signature { params, ..Signature::default() },
            ));
        }
        let mut without_code = vec![];
        match actor.creators.as_slice() {
            [] if ast.ivars.is_empty() || ast.native.is_some() => {
                creators.push(self.heading_only(&ast.name.name, ty, Signature::default()));
                without_code.clone_from(&creators);
            }
            [] => {
                let message = format!("actor `{}` has instance variables and no `new`", ast.name);
                let help = "add `new (…) … make {x := e, …} end new`";
                self.report(Diagnostic::error(Code::E0214, ast.name.span, message).help(help));
            }
            [_] => {}
            [_, second, ..] => {
                let message = format!("actor `{}` has a second `new`", ast.name);
                self.report(
                    Diagnostic::error(Code::E0209, second.span, message).help("leave one of them out"),
                );
            }
        }
        if let Some((rust, _)) = &ast.native {
            let headings = creators.iter().map(|func| self.program.funcs[*func].signature.clone());
            let headings: Vec<Signature> = headings.collect();
            self.check_native_actor(at, rust, &headings);
            without_code.clone_from(&creators);
        }
        for func in without_code {
            self.program.funcs[func].body = bifrost_ir::Block(vec![IrStmt::Return(Default::default())]);
        }
        let mut guards = vec![];
        for disable in actor.disables.iter().filter(|_| ast.native.is_none()) {
            let Some(method) = self.program.types.find_method(ty, &disable.method.name) else {
                let message = format!("`{}` has no method `{}`", ast.name, disable.method);
                let mut diagnostic = Diagnostic::error(Code::E0201, disable.method.span, message);
                diagnostic.help = self.similar_method(ty, &disable.method.name);
                self.report(diagnostic);
                continue;
            };
            if actor.functional {
                let message = format!("`{}` is functional and cannot disable messages", ast.name);
                self.report(
                    Diagnostic::error(Code::E0405, disable.method.span, message).help("drop `functional`"),
                );
            }
            let mut params = self.program.types.method(method).signature.params.clone();
            if disable.args.len() > params.len() {
                let message = format!("`{}` takes {} arguments", disable.method, params.len());
                self.report(Diagnostic::error(Code::E0203, disable.method.span, message));
            }
            for (at, param) in params.iter_mut().enumerate() {
                param.name = disable.args.get(at).map_or(String::new(), |name| name.name.to_string());
            }
            let signature = Signature { params, results: vec![Types::BOOL], ..Signature::default() };
            guards.push((method.method, self.heading_only(&ast.name.name, ty, signature)));
        }
        self.check_stops(ast, actor);
        if let Some(actor) = &mut self.program.classes[id].actor {
            (actor.creators, actor.guards) = (creators, guards);
        }
    }

    /// Reports E0411 for headings with forms that no method of an actor can have.
    pub(crate) fn check_messages<'h>(&mut self, headings: impl Iterator<Item = &'h ast::Heading>) {
        for heading in headings {
            let message = match () {
                () if heading.result.yields => "is an iterator, which a method of an actor cannot be",
                () if heading.result.types.len() > 1 => {
                    "returns several values, which a method of an actor cannot do"
                }
                () => continue,
            };
            let message = format!("`{}` {message}", heading.name);
            let help = "let it return one value, for example a `sequence` or a `struct`";
            self.report(Diagnostic::error(Code::E0411, heading.name.span, message).help(help));
        }
    }

    /// Returns a function of an actor with a heading, whose code comes later.
    fn heading_only(&mut self, name: &str, receiver: TypeId, signature: Signature) -> FuncId {
        let func = crate::lower::Builder::new(name.to_owned(), Some(receiver), signature).finish();
        self.program.funcs.push(func)
    }

    /// Checks the code of the creators and constraints of an actor's class.
    pub(crate) fn check_actor(&mut self, at: usize, env: &Env) {
        let Some(id) = self.classes[at].as_ref().map(|info| info.id) else { return };
        let Some(actor) = self.class_ast(at).actor.as_ref() else { return };
        if self.class_ast(at).native.is_some() {
            // The code is in Rust.
            return;
        }
        let Some(parts) = self.program.classes[id].actor.clone() else { return };
        let name = self.program.classes[id].name.clone();
        for (creator, func) in actor.creators.iter().zip(parts.creators) {
            let signature = self.program.funcs[func].signature.clone();
            self.program.funcs[func] =
                self.check_creator(env.clone(), at, format!("{name}.new"), signature, creator);
        }
        let known = actor.disables.iter().filter(|it| {
            let ty = self.program.classes[id].ty;
            self.program.types.find_method(ty, &it.method.name).is_some()
        });
        let known: Vec<_> = known.collect();
        for (disable, (_, func)) in known.into_iter().zip(parts.guards) {
            let signature = self.program.funcs[func].signature.clone();
            let full = format!("{name}.disable {}", disable.method);
            let mut body = Body::new(
                self,
                env.clone(),
                Role::Condition,
                Some(at),
                full,
                &disable.method.name,
                signature,
            )
            .written(disable.method.span.file);
            body.parameters(disable.args.iter());
            let value = body.expect(&disable.condition, Some(Types::BOOL));
            body.b.emit(IrStmt::Return([value].into_iter().collect()));
            body.flow.leave();
            self.program.funcs[func] = body.finish();
        }
    }

    fn check_creator(
        &mut self,
        env: Env,
        at: usize,
        full: String,
        signature: Signature,
        creator: &'a ast::Creator,
    ) -> Func {
        let name = Arc::from("new");
        let mut body =
            Body::new(self, env, Role::Creator, Some(at), full, &name, signature).written(creator.span.file);
        body.parameters(creator.args.iter().map(|arg| &arg.name));
        let make = creator.body.last().filter(|stmt| matches!(stmt.kind, StmtKind::Make { .. }));
        let Some(stmt) = make else {
            body.statements(&creator.body);
            let has_variables = !body.cx.class_ast(at).ivars.is_empty();
            if has_variables {
                let help = "write `make {x := e, …}` as its last statement";
                let message = "`new` does not end with `make`";
                body.report(Diagnostic::error(Code::E0214, creator.span, message).help(help));
            }
            return body.finish();
        };
        body.statements(&creator.body[..creator.body.len() - 1]);
        let StmtKind::Make { inits, maker, then } = &stmt.kind else { unreachable!("checked above") };
        if maker.is_some() || then.is_some() {
            let message = "an actor is made only from its instance variables";
            let help = "remove the parts after them";
            body.report(Diagnostic::error(Code::E0214, stmt.core, message).help(help));
        }
        let mut cover = Cover::Values { then: false, raised: vec![] };
        body.inside(&stmt.handlers, &mut cover, &mut |body| {
            let made = body.initialise(at, inits, None, stmt.core);
            let Some(class) = body.cx.classes[at].as_ref().map(|info| info.id) else { return };
            let object = Operand::Var(Var::from_u32(0));
            for (field, value) in made.fields.into_iter().enumerate() {
                body.b.emit(IrStmt::Set { object, class, field: field as u32, value });
            }
        });
        body.finish()
    }
}

impl<'a> Body<'_, 'a> {
    /// Returns true if values of a type are actors.
    pub fn is_actor(&self, ty: TypeId) -> bool {
        self.cx.program.types.def(ty).actor
    }

    /// Returns true if code here may wait for an actor.
    fn may_wait(&self) -> bool {
        self.role == Role::Script || self.role == Role::Routine && &*self.name == "main"
    }

    /// Returns the method of an actor that a call is a request for.
    pub fn requested(&self, target: &Target) -> Option<MethodRef> {
        let Callee::Method(method) = target.callee else { return None };
        if !self.is_actor(method.ty) {
            return None;
        }
        let own = target.receiver == Some(Operand::Var(Var::from_u32(0))) && self.role == Role::Script;
        (!own || self.is_functional()).then_some(method)
    }

    /// Returns true if this is code of a functional actor.
    pub fn is_functional(&self) -> bool {
        self.class
            .is_some_and(|at| self.cx.class_ast(at).actor.as_ref().is_some_and(|actor| actor.functional))
    }

    /// `a.m(e)` of an actor.
    pub fn request(
        &mut self,
        expr: &'a Expr,
        method: MethodRef,
        target: &Target,
        operands: Vec<Operand>,
        args: &'a Args,
    ) -> Vec<Value> {
        self.check_sent(args, &target.signature, &target.name);
        self.ask(expr.span, method, &target.signature, operands).into_iter().collect()
    }

    /// Writes a request of an actor; returns the reply, if the method has a result.
    pub fn ask(
        &mut self,
        span: Span,
        method: MethodRef,
        signature: &Signature,
        operands: Vec<Operand>,
    ) -> Option<Value> {
        if self.state.is_some() {
            self.report_in_turn(
                span,
                "cannot wait for an actor",
                "use `send`: the message leaves when the turn is committed",
            );
        } else if let Some(transaction) = &self.transaction {
            let line = self.cx.sources.line(transaction.span.file, transaction.span.start);
            let message = format!("the transaction of line {line} cannot wait for an actor");
            let help = "use `send`, which is sent when the transaction is committed, or send the request \
                before it";
            self.report(Diagnostic::error(Code::E0404, span, message).help(help));
        } else if self.role == Role::Condition {
            self.report_effect(span, "a request");
        } else if !self.may_wait() {
            let message = format!("`{}` is passive code and cannot wait for an actor", self.name);
            let help = "use `send`, or make this an actor method";
            self.report(Diagnostic::error(Code::E0404, span, message).help(help));
        }
        (self.asked_in, self.asked_at) = (Some(span.file), Site(span.start));
        self.raise(signature);
        let result = signature.results.first().copied();
        let dst = self.b.temp(Some(result.unwrap_or(Types::NULL)));
        self.b.emit(IrStmt::Request {
            method,
            args: operands.into_iter().collect(),
            dst,
            element: None,
            site: Site(span.start),
        });
        if result.is_none() {
            // Nothing else would show that it has happened.
            self.b.emit(IrStmt::Await { vars: [dst].into_iter().collect(), site: Site(span.start) });
        }
        result.map(|ty| Value { op: dst.into(), ty: self.cx.known(ty) })
    }

    /// Checks rule E0401: an argument of a message is a copy or cannot change.
    fn check_sent(&mut self, args: &'a Args, signature: &Signature, name: &str) {
        let rest = args.rest.iter().flatten();
        for (arg, param) in args.plain.iter().zip(&signature.params) {
            self.check_sendable(arg, param.ty, Some(name));
        }
        let last = signature.params.last().map(|param| param.ty);
        if let Some(TypeKind::Sequence(element)) = last.map(|ty| self.cx.program.types.kind(ty)) {
            rest.for_each(|arg| self.check_sendable(arg, element, Some(name)));
        }
    }

    pub fn check_sendable(&mut self, value: &'a Expr, ty: TypeId, of: Option<&str>) {
        if self.repeats || self.cx.is_sendable(ty) {
            return;
        }
        let kind = self.cx.program.types.kind(ty);
        let text = self.cx.sources.slice(value.span);
        let type_name = self.cx.type_name(ty);
        if let Some(never) = self.cx.never_sent(ty) {
            let message = match never == ty {
                true => format!("`{type_name}` cannot be sent"),
                false => {
                    format!("`{type_name}` cannot be sent, because `{}` cannot", self.cx.type_name(never))
                }
            };
            let help = "use an immutable type in the heading";
            self.report(Diagnostic::error(Code::E0401, value.span, message).help(help));
            return;
        }
        if matches!(value.kind, ExprKind::Unary { op: Unary::Clone, .. }) {
            return;
        }
        let message = format!("`{type_name}` is mutable and private to this actor");
        let instead = match (kind, of) {
            (TypeKind::Array(element) | TypeKind::Vector(element), Some(name)) => {
                format!(", or let `{name}` take `sequence[{}]`", self.cx.type_name(element))
            }
            _ => String::new(),
        };
        let help = format!("write `clone {text}`{instead}");
        self.report(Diagnostic::error(Code::E0401, value.span, message).help(help));
    }

    /// Returns the target and operands of the message that a statement sends.
    pub fn message(&mut self, expr: &'a Expr, word: &str) -> Option<Sent<'a>> {
        let mut inner = expr;
        while let ExprKind::Paren(within) = &inner.kind {
            inner = within;
        }
        let ExprKind::Call { callee, args } = &inner.kind else {
            let value = self.value(expr);
            if value.ty.is_some() {
                let message = format!("`{word}` needs a message");
                self.report(
                    Diagnostic::error(Code::E0202, expr.span, message).help(format!("write `{word} a.m(…)`")),
                );
            }
            return None;
        };
        let found = match &callee.kind {
            ExprKind::Select { object, name } => {
                let value = self.value(object);
                match value.ty.map(|ty| self.cx.program.types.kind(ty)) {
                    Some(TypeKind::Group(member)) => {
                        self.method_callee(Value { ty: Some(member), ..value }, name)
                    }
                    _ => self.method_callee(value, name),
                }
            }
            _ => self.callee(callee),
        };
        self.message_to(expr, word, found, args)
    }

    /// Does the same for a callee that was found.
    pub fn message_to(
        &mut self,
        expr: &'a Expr,
        word: &str,
        found: Found,
        args: &'a Args,
    ) -> Option<Sent<'a>> {
        let (target, operands) = self.prepare_found(found, args)?;
        let method = match target.callee {
            Callee::Method(method) if self.is_actor(method.ty) => method,
            _ => {
                let message = format!("`{}` is not a method of an actor", target.name);
                let help = format!("only actors receive messages; call it without `{word}`");
                self.report(Diagnostic::error(Code::E0202, expr.span, message).help(help));
                return None;
            }
        };
        self.check_sent(args, &target.signature, &target.name);
        Some((method, target, operands, args))
    }

    /// `send a.m(e)`
    pub fn send_statement(&mut self, stmt: &'a Stmt, expr: &'a Expr) {
        let Some((method, target, operands, _)) = self.message(expr, "send") else { return };
        if self.role == Role::Condition {
            return self.report_effect(stmt.core, "`send`");
        }
        let site = Site(expr.span.start);
        let Some(group) = self.group_of(&target) else {
            let args = operands.into_iter().collect();
            return self.b.emit(IrStmt::Send { method, args, site });
        };
        let Some(members) = self.cx.program.types.find_method(group, "members") else { return };
        let member = self.b.temp(Some(method.ty));
        self.b.open();
        let args = self.owned(&target.signature, &operands[1..], expr.span);
        let args = std::iter::once(member.into()).chain(args).collect();
        self.b.emit(IrStmt::Send { method, args, site });
        let body = self.b.close();
        let args = smallvec![operands[0]];
        self.b.emit(IrStmt::ForEach {
            callee: Callee::Method(members),
            args,
            vars: smallvec![member],
            body,
            site,
        });
    }

    /// `d.deliver(e)`
    pub fn deliver(&mut self, expr: &'a Expr, replier: Operand, result: TypeId, name: Span, args: &'a Args) {
        let params = vec![Param { name: "v".to_owned(), ty: result }];
        let signature = Signature { params, ..Signature::default() };
        let given = self.given(args);
        let Some(mut values) = self.fit("deliver", &signature, given, args.span) else { return };
        self.check_sent(args, &signature, "deliver");
        if self.role == Role::Condition {
            return self.report_effect(name, "`deliver`");
        }
        if result == Types::NULL {
            values.clear();
        }
        self.b.emit(IrStmt::Deliver {
            replier,
            values: values.into_iter().collect(),
            site: Site(expr.span.start),
        });
    }

    /// `deliver` where it is not called.
    pub fn misplaced_deliver(&mut self, name: Span) {
        let message = "`deliver` is a statement, not a value";
        let help = "write `d.deliver(v)` as a statement";
        self.report(Diagnostic::error(Code::E0202, name, message).help(help));
    }

    /// `replyto`
    pub fn reply_destination(&mut self, span: Span) -> Value {
        if !self.answers(span, "replyto") {
            return self.wrong();
        }
        let result = self.answered_heading().results.first().copied().unwrap_or(Types::NULL);
        let ty = self.cx.program.types.instance(TypeKind::Replier(result));
        let dst = self.b.temp(Some(ty));
        self.b.emit(IrStmt::ReplyTo { dst, site: Site(span.start) });
        Value { op: dst.into(), ty: Some(ty) }
    }

    /// `delegate a.m(e)`
    pub fn delegate_statement(&mut self, stmt: &'a Stmt, expr: &'a Expr) {
        let Some((method, target, operands, _)) = self.message(expr, "delegate") else { return };
        if !self.answers(stmt.core, "delegate") {
            return;
        }
        if self.group_of(&target).is_some() {
            let message = "a group does not answer, so nothing can be delegated to it";
            let help = "delegate to one of its members: `delegate g.member(i).m(…)`";
            self.report(Diagnostic::error(Code::E0202, expr.span, message).help(help));
            return;
        }
        let own = self.answered_heading();
        let fits = target.signature.results.len() == own.results.len()
            && target
                .signature
                .results
                .iter()
                .zip(&own.results)
                .all(|(ty, wanted)| self.cx.below(*ty, *wanted));
        if !fits {
            let message = format!("`{}` has another result than `{}`", target.name, self.name);
            let help = self.cx.heading_help(&self.name, &own);
            self.report(Diagnostic { help, ..Diagnostic::error(Code::E0202, expr.span, message) });
        }
        let more = target.signature.signals.iter().find(|signal| own.signal(signal.name).is_none());
        if let Some(signal) = more {
            let signal = self.cx.signal_name(signal.name);
            let message =
                format!("`{}` may signal `{signal}`, which `{}` does not list", target.name, self.name);
            let help = format!("add `signals ({signal})` to the heading");
            self.report(Diagnostic::error(Code::E0303, expr.span, message).help(help));
        }
        let args = operands.into_iter().collect();
        self.b.emit(IrStmt::Delegate { method, args, site: Site(expr.span.start) });
    }

    /// `reply (e)`
    pub fn reply_statement(&mut self, stmt: &'a Stmt, value: Option<&'a Expr>) {
        let found = value.map(|expr| (self.value(expr), expr));
        if !self.answers(stmt.core, "reply") {
            return;
        }
        let own = self.answered_heading();
        let mut values = vec![];
        match (found, own.results.as_slice()) {
            (Some((value, expr)), [wanted]) => {
                self.check_sendable(expr, *wanted, None);
                values.push(self.convert(value, self.cx.known(*wanted), expr.span));
            }
            (None, []) => {}
            (found, wanted) => {
                let plural = if wanted.len() == 1 { "" } else { "s" };
                let given = usize::from(found.is_some());
                let message =
                    format!("`{}` returns {} value{plural}, {given} given", self.name, wanted.len());
                let help = self.cx.heading_help(&self.name, &own);
                self.report(Diagnostic { help, ..Diagnostic::error(Code::E0210, stmt.core, message) });
            }
        }
        self.b.emit(IrStmt::Reply { values: values.into_iter().collect(), site: Site(stmt.core.start) });
    }

    /// Returns the heading of the message that is answered here.
    pub fn answered_heading(&self) -> Signature {
        self.taken.last().map_or(&self.signature, |taken| &taken.signature).clone()
    }

    /// Returns the name of the method that it is for.
    pub fn answered_name(&self) -> Arc<str> {
        self.taken.last().map_or(&self.name, |taken| &taken.name).clone()
    }

    /// Notes an answer; reports where none can be given, or a second one (E0407).
    fn answers(&mut self, span: Span, word: &str) -> bool {
        if self.role == Role::Condition {
            self.report_effect(span, &format!("`{word}`"));
            return false;
        }
        if self.role != Role::Script {
            let message = format!("`{word}` is allowed only in methods of actors");
            let help = match word {
                "reply" => "to end a routine with a value, write `return (…)`",
                "replyto" => "only messages have a reply destination; take one as an argument",
                _ => "call the method, and return its result",
            };
            self.report(Diagnostic::error(Code::E0404, span, message).help(help));
            return false;
        }
        if self.state.is_some() && word != "reply" {
            let help = "reply with the value; it leaves when the turn is committed";
            self.report_in_turn(span, &format!("has no `{word}`"), help);
            self.flow.answer(span);
            return false;
        }
        if self.transaction.is_some() && self.state.is_none() && word != "replyto" {
            let message = format!("`{word}` in a transaction would answer before it is committed");
            let help = "assign the value to a variable, and `reply` after the transaction";
            self.report(Diagnostic::error(Code::E0410, span, message).help(help));
        }
        self.answered_once(span);
        self.flow.answer(span);
        true
    }

    /// Reports E0407 if a path to here has answered.
    pub fn answered_once(&mut self, span: Span) {
        if let Some(first) = self.flow.may_have_answered().filter(|_| self.flow.reachable) {
            let line = self.cx.sources.line(first.file, first.start);
            let message = "this message may have been answered already".to_owned();
            let help = format!("it is answered in line {line}; each path answers once");
            self.report(Diagnostic::error(Code::E0407, span, message).help(help));
        }
    }

    /// Reports E0403 if the message has an answer due that a path to here has not given.
    pub fn check_answered(&mut self, span: Span) {
        if self.flow.reachable
            && !self.repeats
            && !self.flow.has_answered()
            && !self.answered_heading().results.is_empty()
        {
            self.report_unanswered(&self.answered_name(), span);
        }
    }

    fn report_unanswered(&mut self, name: &str, span: Span) {
        let message = format!("`{name}` can end without replying");
        let help = "add `reply`, `signal` or `delegate` on this path";
        self.report(Diagnostic::error(Code::E0403, span, message).help(help));
    }

    /// Does the same where the method ends, in an arm of a `wait` or outside: for the messages that
    /// were taken, and for its own.
    pub fn check_all_answered(&mut self, span: Span) {
        self.check_answered(span);
        if !self.flow.reachable {
            return;
        }
        for at in 0..self.taken.len() {
            let outer = match at {
                0 => (self.name.clone(), !self.signature.results.is_empty()),
                at => (self.taken[at - 1].name.clone(), !self.taken[at - 1].signature.results.is_empty()),
            };
            if outer.1 && !self.taken[at].before.0 {
                self.report_unanswered(&outer.0, span);
            }
        }
    }

    /// Does the same where `break` or `continue` leaves arms of `wait`; the flow state behind the
    /// jump is that of the message before.
    pub fn leave_arms(&mut self, span: Span) {
        let left = self.taken.iter().filter(|taken| taken.loops == self.loops.len()).count();
        if left > 0 {
            self.check_answered(span);
            let outermost = &self.taken[self.taken.len() - left];
            let before = outermost.before;
            self.flow.end_message(before);
        }
    }

    /// Reports answers in a loop's body that the next step would give again.
    pub fn check_repeated_answer(&mut self, before: &Flow) {
        if self.role != Role::Script
            || self.repeats
            || !self.flow.reachable
            || before.may_have_answered().is_some()
        {
            return;
        }
        if let Some(span) = self.flow.may_have_answered() {
            let message = "this message may have been answered already".to_owned();
            let help = "the loop may repeat this; leave the loop after the answer, or answer after the loop";
            self.report(Diagnostic::error(Code::E0407, span, message).help(help));
        }
    }

    /// Reports E0408.
    pub fn report_effect(&mut self, span: Span, what: &str) {
        let message = format!("{what} in a condition: conditions have no effects");
        let help = "compute the value before, and compare with a variable";
        self.report(Diagnostic::error(Code::E0408, span, message).help(help));
    }

    /// `A.new(e) place`
    pub fn new_actor(&mut self, expr: &'a Expr, actor: &'a Expr, args: &'a Args, place: &'a Place) -> Value {
        let Some(at) = self.actor_class(actor) else {
            self.given(args);
            return self.wrong();
        };
        let Some((id, ty)) = self.cx.classes[at].as_ref().map(|info| (info.id, info.ty)) else {
            return self.wrong();
        };
        if self.is_made_by_hand(expr, at) {
            return Value { ty: Some(ty), ..self.wrong() };
        }
        let parts = self.cx.program.classes[id].actor.clone().unwrap_or_default();
        let given: Given = self.given(args);
        let Some(creator) = parts.creators.first() else { return self.wrong() };
        let signature = self.cx.program.funcs[*creator].signature.clone();
        self.check_sent(args, &signature, "new");
        let Some(operands) = self.fit("new", &signature, given, args.span) else { return self.wrong() };
        if self.role == Role::Condition {
            self.report_effect(expr.span, "`new`");
        }
        if parts.native.is_some() && !matches!(place, Place::Here) {
            let message = format!("native actor `{}` has no node", self.cx.type_name(ty));
            let help = "leave the place out: the methods of native actors run on tasks";
            self.report(Diagnostic::error(Code::E0213, expr.span, message).help(help));
        }
        let place = match place {
            Place::Here => Destination::Here,
            Place::Anywhere => Destination::Anywhere,
            Place::On(node) => Destination::On(self.expect(node, Some(Types::INT))),
            Place::Times(count) => {
                let count = self.expect(count, Some(Types::INT));
                return self.new_group(expr, (id, ty), &signature, &operands, count);
            }
        };
        let dst = self.b.temp(Some(ty));
        let site = Site(expr.span.start);
        let args = operands.into_iter().collect();
        self.b.emit(IrStmt::Create { dst, class: id, creator: 0, args, place, site });
        Value { op: dst.into(), ty: Some(ty) }
    }

    /// Returns the class of the actor that `A.new` names.
    fn actor_class(&mut self, actor: &'a Expr) -> Option<usize> {
        let env = self.env.clone();
        let written = super::types::as_type(actor);
        let Some(written) = written.filter(|_| self.cx.names_type(&env, actor)) else {
            if self.value(actor).ty.is_some() {
                let text = self.cx.sources.slice(actor.span);
                let message = format!("`{text}` is not an actor");
                let help = "`new` follows the name of an actor";
                self.report(Diagnostic::error(Code::E0208, actor.span, message).help(help));
            }
            return None;
        };
        let ty = self.cx.resolve_type(&env, &written)?;
        let at = self.cx.class_at.get(&ty).copied().filter(|at| self.cx.class_ast(*at).actor.is_some());
        if at.is_none() {
            let text = self.cx.type_name(ty);
            let message = format!("`{text}` is not an actor");
            let help = match self.is_actor(ty) {
                true => "an actor type is a specification; name an actor that implements it",
                false => "`new` makes actors; objects are made by `C{…}`",
            };
            self.report(Diagnostic::error(Code::E0208, actor.span, message).help(help));
        }
        at
    }

    /// `wait when m (x: T) if e: ... after ms: ... end`
    pub fn wait_statement(
        &mut self,
        stmt: &'a Stmt,
        arms: &'a [WaitArm],
        after: Option<&'a (Expr, ast::Body)>,
        word: Span,
    ) {
        let receiver = self.class.and_then(|at| self.cx.classes[at].as_ref()).map(|info| info.ty);
        let Some(ty) = receiver.filter(|_| self.role == Role::Script) else {
            let message = format!("`{}` is passive code and cannot wait for a message", self.name);
            let help = "make this an actor method";
            self.report(Diagnostic::error(Code::E0404, word, message).help(help));
            return;
        };
        if self.is_functional() {
            let message = "a functional actor does not select messages".to_owned();
            self.report(Diagnostic::error(Code::E0405, word, message).help("drop `functional`"));
        }
        if self.state.is_some() {
            self.report_in_turn(word, "cannot wait for a message", "store what is awaited in a variable");
        } else if self.transaction.is_some() {
            let message = "a transaction cannot wait for a message";
            self.report(Diagnostic::error(Code::E0404, word, message).help("wait before the transaction"));
        }
        if arms.is_empty() && !self.repeats {
            let message = "a `wait` has at least one arm";
            let help = "write `when m (…): …` for the accepted messages";
            self.report(Diagnostic::error(Code::E0109, word, message).help(help));
        }
        (self.asked_in, self.asked_at) = (Some(word.file), Site(word.start));
        let limit = after.map(|(limit, _)| self.expect(limit, Some(Types::INT)));
        let before = self.flow.clone();
        let mut met = Flow::nowhere();
        let mut choices = vec![];
        for arm in arms {
            self.flow = before.clone();
            let choice = self.wait_arm(ty, arm);
            if choice.as_ref().is_some_and(Choice::may_raise) {
                // An exception leaves the arm, and the method goes on.
                met.join(before.clone());
            }
            choices.extend(choice);
            met.join(std::mem::replace(&mut self.flow, Flow::nowhere()));
        }
        let mut otherwise = None;
        if let (Some((_, body)), Some(limit)) = (after, limit) {
            self.flow = before;
            otherwise = Some((limit, self.block(body)));
            met.join(std::mem::replace(&mut self.flow, Flow::nowhere()));
        }
        self.flow = met;
        self.b.emit(IrStmt::Select { arms: choices, after: otherwise, site: Site(stmt.core.start) });
    }

    fn wait_arm(&mut self, ty: TypeId, arm: &'a WaitArm) -> Option<Choice> {
        let env = self.env.clone();
        let found = self.cx.program.types.find_method(ty, &arm.method.name);
        let heading = found.map(|method| self.cx.program.types.method(method).signature.clone());
        self.enter();
        let mut vars = smallvec::SmallVec::new();
        for (at, formal) in arm.args.iter().enumerate() {
            let written = self.cx.resolve_type(&env, &formal.ty);
            let given = heading.as_ref().and_then(|heading| heading.params.get(at)).map(|param| param.ty);
            if let (Some(written), Some(given)) = (written, given)
                && written != given
            {
                let diagnostic = self.mismatch(given, written, formal.ty.span);
                self.report(diagnostic);
            }
            vars.push(self.declare_assigned(&formal.name, written));
        }
        self.b.open();
        let role = std::mem::replace(&mut self.role, Role::Condition);
        let condition = arm.condition.as_ref();
        let test = condition.map(|condition| self.expect(condition, Some(Types::BOOL)));
        self.role = role;
        let cond = self.b.close();
        let signature = heading.clone().unwrap_or_default();
        let before = self.flow.begin_message();
        let name = arm.method.name.clone();
        self.taken.push(Taken { name, signature, loops: self.loops.len(), before });
        self.frames.push(Frame::of_arm(self.b.depth()));
        self.b.open();
        self.enter();
        self.statements(&arm.body);
        self.exit();
        self.await_requested();
        let body = self.b.close();
        self.frames.pop();
        self.check_answered(arm.method.span);
        self.taken.pop();
        self.flow.end_message(before);
        self.exit();
        let Some((method, heading)) = found.zip(heading) else {
            let diagnostic = self.no_method(ty, &arm.method.name, arm.method.span);
            self.report(diagnostic);
            return None;
        };
        if heading.params.len() != arm.args.len() {
            let help = self.cx.heading_help(&arm.method.name, &heading);
            let plural = if heading.params.len() == 1 { "" } else { "s" };
            let message = format!(
                "`{}` takes {} argument{plural}, {} given",
                arm.method,
                heading.params.len(),
                arm.args.len()
            );
            self.report(Diagnostic { help, ..Diagnostic::error(Code::E0203, arm.method.span, message) });
            return None;
        }
        let test = test.unwrap_or(Operand::Const(Const::Bool(true)));
        Some(Choice { method, vars, cond, test, body })
    }
}
