//! Statements; exceptions are in `handlers`, declarations and assignments in `stores`.
//!
//! Read [`Body::statements`] first: it checks each statement of a body with its handlers, and
//! [`Body::simple`] the statement without them. Both write IR as they go; the flow state tells if
//! the next statement can be reached.

use bifrost_ir::{
    ABORTED, Const, Operand, SignalSig, Signature, Site, Stmt as IrStmt, TypeId, TypeKind, Types, Var,
};
use smallvec::SmallVec;

use super::Voice;
use super::body::{Body, Loop, Role, Transaction, Value};
use super::flow::Flow;
use crate::ast::{self, Expr, ExprKind, Ident, LoopVar, Stmt, StmtKind};
use crate::diagnostic::{Code, Diagnostic};
use crate::source::Span;

/// Variables of one function, temporaries included.
const VARS_MAX: usize = 1 << 16;

impl<'a> Body<'_, 'a> {
    /// Statements in a scope of their own.
    pub fn block(&mut self, body: &'a [Stmt]) -> bifrost_ir::Block {
        self.b.open();
        self.enter();
        self.statements(body);
        self.exit();
        self.b.close()
    }

    pub fn statements(&mut self, body: &'a [Stmt]) {
        let mut at = 0;
        while let Some(stmt) = body.get(at) {
            at += 1;
            if self.cx.is_full() || !self.has_room(stmt.core) {
                return;
            }
            if self.b.depth() + 2 >= bifrost_ir::verify::DEPTH_MAX {
                let message = "blocks are nested too deep";
                let help = "move an inner part, or a part of the `elseif`s, to a routine of its own";
                return self.report(Diagnostic::error(Code::E0109, stmt.core, message).help(help));
            }
            // A statement that is never reached is checked, but not written.
            let dead = !self.flow.reachable;
            if dead {
                self.b.open();
            }
            let next = body.get(at).filter(|next| next.same_line);
            if self.c_declaration(stmt, next) {
                at += usize::from(next.is_some());
            } else {
                self.covered(stmt, &stmt.handlers);
            }
            if dead {
                self.b.close();
            }
        }
    }

    /// Returns true if the function is not too large yet; a walk over it may copy a bit for each
    /// variable at each branch.
    fn has_room(&mut self, span: Span) -> bool {
        let room = self.b.func.vars.len() < VARS_MAX;
        if !room {
            let message = format!("`{}` needs more than {VARS_MAX} variables", self.name);
            self.report(Diagnostic::error(Code::E0109, span, message).help("split it into several routines"));
        }
        room
    }

    /// Reports E0105: `int sum = 0`, which reads as two statements on one line.
    fn c_declaration(&mut self, stmt: &'a Stmt, next: Option<&'a Stmt>) -> bool {
        let StmtKind::Expr(first) = &stmt.kind else { return false };
        let bare = match &first.kind {
            ExprKind::Name(name) => self.local(&name.name).is_none() && self.own_ivar(&name.name).is_none(),
            ExprKind::Index { .. } | ExprKind::Type(_) => true,
            _ => false,
        };
        if !bare || !self.cx.names_type(&self.env, first) {
            return false;
        }
        let text = self.cx.sources.slice(first.span).to_owned();
        let (name, value) = match next.map(|next| &next.kind) {
            Some(StmtKind::Expr(e)) => match &e.kind {
                ExprKind::Binary { op: ast::Binary::Eq, left, right, .. } => (as_name(left), Some(&**right)),
                ExprKind::Name(name) => (Some(name), None),
                _ => (None, None),
            },
            Some(StmtKind::Assign { targets, values }) => match (targets.as_slice(), values.as_slice()) {
                ([target], [value]) => (as_name(target), Some(value)),
                _ => (None, None),
            },
            _ => (None, None),
        };
        let span = if name.is_some() { stmt.span.to(next.unwrap_or(stmt).span) } else { stmt.span };
        let help = match (&name, value) {
            (Some(name), Some(value)) => {
                format!("write `{name}: {text} := {}`", self.cx.sources.slice(value.span))
            }
            (Some(name), None) => format!("write `{name}: {text}`"),
            _ => format!("write `name: {text} := value`"),
        };
        let message = "a declaration is written `name: type := value`";
        self.report(Diagnostic::error(Code::E0105, span, message).help(help));
        if let Some(name) = name {
            let env = self.env.clone();
            let ty = super::types::as_type(first).and_then(|ty| self.cx.resolve_type(&env, &ty));
            if let Some(value) = value {
                self.expect(value, ty);
            }
            self.declare_assigned(name, ty);
            return true;
        }
        // Only the type itself was misread.
        if let Some(next) = next {
            self.covered(next, &next.handlers);
        }
        true
    }

    /// Checks the statement without its handlers.
    pub fn simple(&mut self, stmt: &'a Stmt) {
        match &stmt.kind {
            StmtKind::Declare { names, ty, values } => self.declaration(stmt, names, ty, values),
            StmtKind::Assign { targets, values } => self.assignment(stmt, targets, values),
            StmtKind::Expr(expr) => self.expression(stmt, expr),
            StmtKind::If { arms, otherwise } => self.if_statement(arms, otherwise.as_deref()),
            StmtKind::While { condition, body } => self.while_statement(condition, body),
            StmtKind::For { vars, iterator, body } => self.for_statement(vars, iterator, body),
            StmtKind::Break | StmtKind::Continue => self.jump(stmt),
            StmtKind::Begin(body) => {
                self.enter();
                self.statements(body);
                self.exit();
            }
            StmtKind::Return(values) => self.return_statement(stmt, values),
            StmtKind::Yield(values) => self.yield_statement(stmt, values),
            StmtKind::Signal { name, values } => self.signal_statement(stmt, name, values),
            StmtKind::Exit { name, values } => self.exit_statement(name, values),
            StmtKind::Make { .. } => {
                let message = "`make` is allowed only at the end of a maker";
                self.report(Diagnostic::error(Code::E0109, stmt.core, message));
            }
            StmtKind::Transaction(body) => self.transaction_statement(stmt, body),
            StmtKind::Tagcase { subject, arms, others, head } => {
                self.tagcase(subject, arms, others.as_deref(), *head);
            }
            StmtKind::Typecase { subject, arms, others, head } => {
                self.typecase(subject, arms, others.as_deref(), *head);
            }
            StmtKind::Send(message) => self.send_statement(stmt, message),
            StmtKind::Delegate(message) => self.delegate_statement(stmt, message),
            StmtKind::Reply(value) => self.reply_statement(stmt, value.as_ref()),
            StmtKind::Wait { arms, after } => {
                self.wait_statement(stmt, arms, after.as_ref(), first_word(stmt.core, 4));
            }
            StmtKind::Error => {}
        }
    }

    fn expression(&mut self, stmt: &'a Stmt, expr: &'a Expr) {
        match &expr.kind {
            ExprKind::Binary { op: ast::Binary::Eq, left, right, .. } => {
                let subject = self.cx.sources.slice(left.span).to_owned();
                let value = self.cx.sources.slice(right.span);
                let message = format!("this compares `{subject}` with a value and drops the result");
                let mut help = format!("to assign, write `{subject} := {value}`");
                let meant = as_name(left).filter(|name| self.is_new(name));
                let ty = meant.and_then(|_| self.type_of(right));
                if let (Some(name), Some(ty)) = (meant, ty) {
                    let ty = self.cx.type_name(ty);
                    help = format!("to declare it, write `{name}: {ty} := {value}`");
                }
                self.report(Diagnostic::error(Code::E0106, stmt.core, message).help(help));
                let slot = as_name(left).and_then(|name| self.local(&name.name)).map(|local| local.slot);
                match (slot, meant) {
                    (Some(slot), _) => self.flow.assign(slot),
                    (None, Some(name)) => drop(self.declare_assigned(name, ty)),
                    (None, None) => {}
                }
            }
            ExprKind::Call { callee, args } => {
                let values = self.call(expr, callee, args);
                self.await_dropped(values.as_deref().unwrap_or(&[]));
            }
            _ => {
                let value = self.value(expr);
                self.await_dropped(&[value]);
            }
        }
    }

    /// Waits for a request whose reply a statement drops: this is how to force an order.
    fn await_dropped(&mut self, values: &[Value]) {
        if let Some(reply) = values.iter().find_map(|value| self.b.asked_last(value.op)) {
            self.b.emit(IrStmt::Await { vars: SmallVec::from_slice(&[reply]), site: self.asked_at });
        }
    }

    /// Returns true if a name means nothing yet.
    fn is_new(&self, name: &Ident) -> bool {
        self.local(&name.name).is_none()
            && self.own_ivar(&name.name).is_none()
            && self.cx.names.lookup(self.env.scope, &name.name).is_none()
    }

    /// Returns the type of an expression in a statement that is wrong already; says nothing of
    /// other mistakes in it.
    fn type_of(&mut self, expr: &'a Expr) -> Option<TypeId> {
        let voice = std::mem::replace(&mut self.cx.voice, Voice::Limits);
        let value = self.value(expr);
        self.cx.voice = voice;
        value.ty
    }

    fn if_statement(&mut self, arms: &'a [(Expr, ast::Body)], otherwise: Option<&'a [Stmt]>) {
        let mut after = Flow::nowhere();
        let mut tests = vec![];
        for (condition, body) in arms {
            let test = self.expect(condition, Some(Types::BOOL));
            let before = self.flow.clone();
            let then = self.block(body);
            after.join(std::mem::replace(&mut self.flow, before));
            tests.push((test, then));
            // The statements that come next belong to the `else` of this test.
            self.b.open();
        }
        if let Some(body) = otherwise {
            self.enter();
            self.statements(body);
            self.exit();
        }
        after.join(std::mem::replace(&mut self.flow, Flow::nowhere()));
        self.flow = after;
        for (test, then) in tests.into_iter().rev() {
            let otherwise = self.b.close();
            self.b.emit(IrStmt::If { test, then, otherwise });
        }
    }

    fn while_statement(&mut self, condition: &'a Expr, body: &'a [Stmt]) {
        self.b.open();
        let test = self.expect(condition, Some(Types::BOOL));
        let cond = self.b.close();
        let before = self.flow.clone();
        self.loops.push(Loop::default());
        let body = self.block(body);
        self.check_repeated_answer(&before);
        let breaks = self.loops.pop().map_or(Flow::nowhere(), |l| l.breaks);
        let endless = test == Operand::Const(Const::Bool(true));
        self.flow = if endless { breaks } else { before };
        self.b.emit(IrStmt::While { cond, test, body });
    }

    fn for_statement(&mut self, vars: &'a [LoopVar], iterator: &'a Expr, body: &'a [Stmt]) {
        let found = match &iterator.kind {
            ExprKind::Call { callee, args } => self.prepare(callee, args),
            _ => {
                let value = self.value(iterator);
                if let Some(ty) = value.ty {
                    let mut diagnostic = Diagnostic::error(
                        Code::E0207,
                        iterator.span,
                        "a `for` needs the call of an iterator",
                    );
                    let elements = self.method_of(ty, "elements").is_some();
                    if elements {
                        let text = self.cx.sources.slice(iterator.span);
                        diagnostic = diagnostic.help(format!("write `{text}.elements()`"));
                    } else if matches!(self.cx.program.types.kind(ty), TypeKind::Iter(_)) {
                        let text = self.cx.sources.slice(iterator.span);
                        diagnostic = diagnostic.help(format!("to call it, write `{text}(…)`"));
                    }
                    self.report(diagnostic);
                }
                None
            }
        };
        let mut yields = None;
        if let Some((target, _)) = &found {
            self.raise(&target.signature);
            yields = target.signature.yields.clone();
            if yields.is_none() {
                let message = format!("`{}` is not an iterator", target.name);
                let help = self.cx.heading_help(&target.name, &target.signature);
                self.report(Diagnostic { help, ..Diagnostic::error(Code::E0207, iterator.span, message) });
            }
        }
        if let Some(yields) = &yields
            && yields.len() != vars.len()
            && let (Some(first), Some(last)) = (vars.first(), vars.last())
        {
            let span = first.name.span.to(last.ty.as_ref().map_or(last.name.span, |ty| ty.span));
            self.wrong_count(yields.len(), vars.len(), span);
        }
        let before = self.flow.clone();
        self.b.open();
        self.enter();
        let filled: SmallVec<[Var; 1]> = vars
            .iter()
            .enumerate()
            .map(|(index, var)| self.loop_variable(var, yields.as_ref().and_then(|y| y.get(index)).copied()))
            .collect();
        let changeable = found.as_ref().filter(|(to, _)| !self.cx.program.iterates_immutable(to.callee));
        let changeable = changeable.map(|_| iterator.span);
        self.loops.push(Loop { breaks: Flow::nowhere(), changeable });
        self.statements(body);
        self.check_repeated_answer(&before);
        self.loops.pop();
        self.exit();
        let block = self.b.close();
        // The loop may run no step at all.
        self.flow = before;
        if let Some((target, operands)) = found {
            self.b.emit(IrStmt::ForEach {
                callee: target.callee,
                args: operands.into_iter().collect(),
                vars: filled,
                body: block,
                site: Site(iterator.span.start),
            });
        }
    }

    /// Declares a variable of `for`; gives the variable that the iterator fills.
    fn loop_variable(&mut self, var: &'a LoopVar, given: Option<TypeId>) -> Var {
        let env = self.env.clone();
        let Some(written) = &var.ty else {
            return self.declare_assigned(&var.name, given);
        };
        if let ast::TypeExprKind::Name { name, args } = &written.kind
            && args.is_empty()
            && self.cx.is_type_name(&env, &var.name.name)
            && !self.cx.is_type_name(&env, &name.name)
        {
            let span = var.name.span.to(written.span);
            let message = format!("`{}` is a type; the loop variable must be first", var.name);
            let help = format!("write `for {name}: {} in … do … end`", var.name);
            self.report(Diagnostic::error(Code::E0107, span, message).help(help));
            return self.declare_assigned(name, given);
        }
        let ty = self.cx.resolve_type(&env, written);
        if let (Some(found), Some(wanted)) = (given, ty) {
            if !self.cx.fits(found, wanted) {
                let diagnostic = self.mismatch(found, wanted, written.span);
                self.report(diagnostic);
            } else if found != wanted {
                let filled = self.b.temp(given);
                let local = self.declare_assigned(&var.name, ty);
                let value = self.stand(filled.into(), found, wanted, written.span.start);
                self.b.assign(local, value);
                return filled;
            }
        }
        self.declare_assigned(&var.name, ty)
    }

    /// `transaction body end`: the body runs once, in a transaction of its own.
    fn transaction_statement(&mut self, stmt: &'a Stmt, body: &'a [Stmt]) {
        let word = first_word(stmt.core, 11);
        self.check_transaction(word);
        let values = vec![Types::STRING];
        let aborted = SignalSig { name: self.cx.signal(ABORTED), values };
        self.raise(&Signature { signals: vec![aborted], ..Signature::default() });
        let transaction = Transaction { span: word, outside: self.locals.len() };
        let around = self.transaction.replace(transaction);
        let body = self.block(body);
        self.transaction = around;
        self.b.emit(IrStmt::Transaction { body, site: Site(word.start) });
    }

    /// Reports a transaction where none can stand.
    fn check_transaction(&mut self, word: Span) {
        let (message, help) = if self.state.is_some() {
            let message = "a transaction in a turn of a persistent actor".to_owned();
            (message, "remove it: the turn is a transaction".to_owned())
        } else if let Some(outer) = &self.transaction {
            let line = self.cx.sources.line(outer.span.file, outer.span.start);
            let message = format!("a transaction in the transaction of line {line}");
            (message, "remove this transaction: its statements belong to the outer one".to_owned())
        } else if self.role != Role::Script && (self.role != Role::Routine || &*self.name != "main") {
            let message = "a transaction is allowed only in `main` and in methods of actors".to_owned();
            (
                message,
                "call this from a transaction in `main`; calls of clients are in a transaction".to_owned(),
            )
        } else if let Some(iterator) = self.loops.iter().rev().find_map(|l| l.changeable) {
            let text = self.cx.sources.slice(iterator);
            let message = format!("a transaction in a loop over `{text}`, which is mutable");
            (message, "loop over the elements of a `sequence`, or use `while`".to_owned())
        } else {
            return;
        };
        self.report(Diagnostic::error(Code::E0410, word, message).help(help));
    }

    fn jump(&mut self, stmt: &'a Stmt) {
        let is_break = matches!(stmt.kind, StmtKind::Break);
        self.await_before_jump();
        self.leave_arms(stmt.core);
        let before = self.flow.leave();
        match self.loops.last_mut() {
            Some(inner) if is_break => {
                inner.breaks.join(before);
                self.b.emit(IrStmt::Break);
            }
            Some(_) => self.b.emit(IrStmt::Continue),
            None => {
                let word = if is_break { "break" } else { "continue" };
                let message = format!("`{word}` outside a loop");
                let help = "`break` leaves the innermost enclosing `while` or `for`";
                let help = if is_break {
                    help
                } else {
                    "`continue` continues the innermost enclosing `while` or `for`"
                };
                self.report(Diagnostic::error(Code::E0309, stmt.core, message).help(help));
            }
        }
    }

    fn return_statement(&mut self, stmt: &'a Stmt, values: &'a [Expr]) {
        if self.role == Role::Maker {
            let message = format!("this `return` ends the maker `{}` before `make`", self.name);
            let help = "signal an exception, or move the other statements into an `if`";
            self.report(Diagnostic::error(Code::E0214, stmt.core, message).help(help));
        }
        if self.role == Role::Script {
            if !values.is_empty() {
                for value in values {
                    self.value(value);
                }
                let help = "write `reply (v)`, then `return` to end the method here";
                let message = "an actor method answers with `reply`";
                self.report(Diagnostic::error(Code::E0402, stmt.core, message).help(help));
            } else {
                self.check_all_answered(stmt.core);
            }
            self.await_before_jump();
            self.b.emit(IrStmt::Return(SmallVec::new()));
            self.flow.leave();
            return;
        }
        let wanted = self.signature.results.clone();
        let operands = self.results(stmt, values, &wanted, "returns");
        self.await_before_jump();
        self.b.emit(IrStmt::Return(operands));
        self.flow.leave();
    }

    fn yield_statement(&mut self, stmt: &'a Stmt, values: &'a [Expr]) {
        let Some(wanted) = self.signature.yields.clone() else {
            let message = format!("`{}` is not an iterator", self.name);
            let help = "only an iterator, headed `yields (T)`, can yield";
            self.report(Diagnostic::error(Code::E0207, stmt.core, message).help(help));
            return;
        };
        let operands = self.results(stmt, values, &wanted, "yields");
        self.b.emit(IrStmt::Yield(operands));
    }

    /// Returns the operands of `return` and `yield`.
    fn results(
        &mut self,
        stmt: &'a Stmt,
        values: &'a [Expr],
        wanted: &[TypeId],
        word: &str,
    ) -> SmallVec<[Operand; 1]> {
        // One call may give all of several results.
        let found: Vec<(Value, Span)> = match values {
            [expr] if wanted.len() > 1 => match &expr.kind {
                ExprKind::Call { callee, args } => {
                    let Some(results) = self.call(expr, callee, args) else { return SmallVec::new() };
                    results.into_iter().map(|value| (value, expr.span)).collect()
                }
                _ => vec![(self.value(expr), expr.span)],
            },
            _ => values.iter().map(|expr| (self.value(expr), expr.span)).collect(),
        };
        if found.len() != wanted.len() {
            let plural = if wanted.len() == 1 { "" } else { "s" };
            let message = if self.signature.is_iterator() && word == "returns" {
                format!("`{}` is an iterator, so its `return` has no values", self.name)
            } else {
                format!("`{}` {word} {} value{plural}, {} given", self.name, wanted.len(), found.len())
            };
            let help = self.cx.heading_help(&self.name, &self.signature);
            self.report(Diagnostic { help, ..Diagnostic::error(Code::E0210, stmt.core, message) });
            return SmallVec::new();
        }
        found
            .into_iter()
            .zip(wanted)
            .map(|((value, span), ty)| self.convert(value, Some(*ty), span))
            .collect()
    }
}

fn as_name(expr: &Expr) -> Option<&Ident> {
    match &expr.kind {
        ExprKind::Name(name) => Some(name),
        _ => None,
    }
}

/// Returns the first `length` bytes of a span: its keyword.
fn first_word(span: Span, length: u32) -> Span {
    Span { end: (span.start + length).min(span.end), ..span }
}
