//! Statements.

use bifrost_ir::{Arm, ArmMatch, Const, Operand, SignalId, Site, Stmt as IrStmt, TypeId, Types, Var};
use smallvec::SmallVec;

use super::body::{Body, Loop, Value};
use super::flow::{Flow, Slot};
use crate::ast::{self, Expr, ExprKind, Handler, Ident, LoopVar, Stmt, StmtKind, TypeExpr};
use crate::diagnostic::{Code, Diagnostic};
use crate::resolve::similar;
use crate::source::Span;

/// Variables of one function, temporaries included.
const VARS_MAX: usize = 1 << 16;

/// A place to store a value, its object and indexes evaluated already.
enum Place {
    Var { var: Var, slot: Slot, ty: Option<TypeId> },
    Field { object: Operand, class: bifrost_ir::ClassId, field: u32, ty: Option<TypeId> },
    Element { object: Value, indexes: Vec<(Value, Span)>, span: Span },
    Wrong,
}

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
            // What is never reached is checked, but not written.
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

    /// Whether the function is not too large yet; what walks it may copy a bit for each variable at each branch.
    fn has_room(&mut self, span: Span) -> bool {
        let room = self.b.func.vars.len() < VARS_MAX;
        if !room {
            let message = format!("`{}` needs more than {VARS_MAX} variables", self.name);
            self.report(Diagnostic::error(Code::E0109, span, message).help("split it into several routines"));
        }
        room
    }

    /// E0105: `int sum = 0`, which reads as two statements on one line.
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

    /// A statement inside its handlers, of which the last is the outermost.
    fn covered(&mut self, stmt: &'a Stmt, handlers: &'a [Handler]) {
        let Some((handler, inner)) = handlers.split_last() else { return self.simple(stmt) };
        let before = self.flow.clone();
        self.b.open();
        let raised = self.framed(handler, |body| body.covered(stmt, inner));
        let covered = self.b.close();
        let mut after = std::mem::replace(&mut self.flow, Flow::nowhere());
        let mut arms = vec![];
        match handler {
            Handler::Except { arms: whens, others } => {
                for when in whens {
                    self.flow = before.clone();
                    arms.extend(self.when_arm(when, &raised));
                    after.join(std::mem::replace(&mut self.flow, Flow::nowhere()));
                }
                if let Some(others) = others {
                    self.flow = before;
                    arms.push(self.others_arm(others));
                    after.join(std::mem::replace(&mut self.flow, Flow::nowhere()));
                }
            }
            Handler::Resignal(names) => {
                arms.extend(names.iter().filter_map(|name| self.resignal(name, &raised)))
            }
        }
        self.flow = after;
        self.b.emit(IrStmt::Except { body: covered, arms });
    }

    /// Runs `inner` inside `resignal names`. Unless `strict`, a name that it cannot raise is no mistake.
    pub fn resignalling(&mut self, names: &[&'a Ident], strict: bool, inner: impl FnOnce(&mut Self)) {
        if names.is_empty() {
            return inner(self);
        }
        let handler = Handler::Resignal(names.iter().map(|name| (*name).clone()).collect());
        self.b.open();
        let raised = self.framed(&handler, inner);
        let body = self.b.close();
        let mut arms = vec![];
        for name in names {
            let signal = self.cx.signal(&name.name);
            if strict || raised.iter().any(|(raised, _)| *raised == signal) {
                arms.extend(self.resignal(name, &raised));
            }
        }
        self.b.emit(IrStmt::Except { body, arms });
    }

    /// What the exception `name` carries at the places where it is raised; reports if it cannot be.
    fn raised(
        &mut self,
        name: &Ident,
        raised: &[(SignalId, Vec<TypeId>)],
    ) -> Option<(SignalId, Vec<Vec<TypeId>>)> {
        if name.name.is_empty() {
            return None;
        }
        let signal = self.cx.signal(&name.name);
        if signal == SignalId::FAILURE {
            return Some((signal, vec![vec![Types::STRING]]));
        }
        let values: Vec<Vec<TypeId>> =
            raised.iter().filter(|(raised, _)| *raised == signal).map(|(_, types)| types.clone()).collect();
        if !values.is_empty() {
            return Some((signal, values));
        }
        let message = format!("nothing in this statement can raise `{name}`");
        let mut possible: Vec<String> =
            raised.iter().map(|(signal, _)| self.cx.signal_name(*signal)).collect();
        possible.dedup();
        let close = similar(&name.name, possible.iter().map(String::as_str)).map(str::to_owned);
        let help = match (close, possible.is_empty()) {
            (Some(close), _) => format!("it can raise `{close}`"),
            (None, false) => {
                let list: Vec<String> = possible.iter().map(|name| format!("`{name}`")).collect();
                format!("it can raise {}", list.join(", "))
            }
            (None, true) => "it can raise only `failure`".to_owned(),
        };
        self.report(Diagnostic::error(Code::E0304, name.span, message).help(help));
        None
    }

    fn when_arm(&mut self, when: &'a ast::WhenArm, raised: &[(SignalId, Vec<TypeId>)]) -> Option<Arm> {
        let mut takes: SmallVec<[SignalId; 1]> = SmallVec::new();
        let mut carried = vec![];
        for name in &when.names {
            if let Some((signal, values)) = self.raised(name, raised) {
                takes.push(signal);
                carried.extend(values.into_iter().map(|types| (name, types)));
            }
        }
        self.b.open();
        self.enter();
        let mut vars = SmallVec::new();
        for formal in when.values.iter().flatten() {
            let env = self.env.clone();
            let ty = self.cx.resolve_type(&env, &formal.ty);
            let var = self.declare_assigned(&formal.name, ty);
            vars.push((var, ty));
        }
        if when.values.is_some() {
            for (name, types) in carried {
                self.check_carried(name, &types, when.values.as_deref().unwrap_or(&[]), &vars);
            }
        }
        self.statements(&when.body);
        self.exit();
        let body = self.b.close();
        let vars = vars.into_iter().map(|(var, _)| var).collect();
        (!takes.is_empty()).then_some(Arm { takes: ArmMatch::Named(takes), vars, body })
    }

    fn check_carried(
        &mut self,
        name: &Ident,
        types: &[TypeId],
        formals: &[ast::Formal],
        vars: &SmallVec<[(Var, Option<TypeId>); 2]>,
    ) {
        if types.len() != vars.len() {
            let plural = if types.len() == 1 { "" } else { "s" };
            let message =
                format!("`{name}` carries {} value{plural}, {} named here", types.len(), vars.len());
            let help = format!("write `when {name} (*):` to ignore them");
            return self.report(Diagnostic::error(Code::E0210, name.span, message).help(help));
        }
        for ((found, (_, wanted)), formal) in types.iter().zip(vars).zip(formals) {
            if let Some(wanted) = wanted
                && !self.cx.below(*found, *wanted)
            {
                let diagnostic = self.mismatch(*found, *wanted, formal.ty.span);
                self.report(diagnostic);
            }
        }
    }

    fn others_arm(&mut self, others: &'a ast::OthersArm) -> Arm {
        self.b.open();
        self.enter();
        let mut vars = SmallVec::new();
        if let Some(formal) = &others.name {
            let env = self.env.clone();
            let ty = self.cx.resolve_type(&env, &formal.ty);
            if let Some(ty) = ty.filter(|ty| *ty != Types::STRING) {
                let diagnostic = self.mismatch(Types::STRING, ty, formal.ty.span);
                self.report(diagnostic);
            }
            let var = self.declare_assigned(&formal.name, ty);
            vars.push(var);
        }
        self.statements(&others.body);
        self.exit();
        Arm { takes: ArmMatch::Others, vars, body: self.b.close() }
    }

    /// The arm that passes the exception `name` on.
    fn resignal(&mut self, name: &'a Ident, raised: &[(SignalId, Vec<TypeId>)]) -> Option<Arm> {
        let (signal, carried) = self.raised(name, raised)?;
        let listed = self.listed(name, signal, &carried[0])?;
        for types in carried {
            let fits =
                types.len() == listed.len() && types.iter().zip(&listed).all(|(a, b)| self.cx.below(*a, *b));
            if !fits {
                let message =
                    format!("`{name}` carries other values here than in the heading of `{}`", self.name);
                self.report(Diagnostic::error(Code::E0202, name.span, message));
                return None;
            }
        }
        let vars: SmallVec<[Var; 1]> = listed.iter().map(|ty| self.b.temp(Some(*ty))).collect();
        self.b.open();
        let values = vars.iter().map(|var| Operand::Var(*var)).collect();
        self.b.emit(IrStmt::Signal { signal, values });
        Some(Arm { takes: ArmMatch::Named(SmallVec::from_slice(&[signal])), vars, body: self.b.close() })
    }

    /// The types that the heading lists for `signal`; E0303 if it does not list it.
    fn listed(&mut self, name: &Ident, signal: SignalId, given: &[TypeId]) -> Option<Vec<TypeId>> {
        if signal == SignalId::FAILURE {
            return Some(vec![Types::STRING]);
        }
        if let Some(listed) = self.signature.signal(signal) {
            return Some(listed.values.clone());
        }
        let message = format!("`{}` does not list `{name}`", self.name);
        let types: Vec<&str> = given.iter().map(|ty| self.cx.program.types.name(*ty)).collect();
        let clause =
            if types.is_empty() { name.to_string() } else { format!("{name} ({})", types.join(", ")) };
        let help = if self.signature.signals.is_empty() {
            format!("add `signals ({clause})` to the heading")
        } else {
            format!("add `{clause}` to the `signals` of the heading")
        };
        self.report(Diagnostic::error(Code::E0303, name.span, message).help(help));
        None
    }

    /// The statement without its handlers.
    fn simple(&mut self, stmt: &'a Stmt) {
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
                let message = "`make` stands only at the end of a maker";
                self.report(Diagnostic::error(Code::E0109, stmt.core, message));
            }
            StmtKind::Transaction(body) => {
                self.cx.unsupported(first_word(stmt.core, 11), "transaction");
                self.block(body);
            }
            StmtKind::Tagcase { head, .. } => drop(self.unsupported(*head, "tagcase")),
            StmtKind::Typecase { head, .. } => drop(self.unsupported(*head, "typecase")),
            StmtKind::Send(_) => drop(self.unsupported(first_word(stmt.core, 4), "send")),
            StmtKind::Delegate(_) => drop(self.unsupported(first_word(stmt.core, 8), "delegate")),
            StmtKind::Reply(_) => drop(self.unsupported(first_word(stmt.core, 5), "reply")),
            StmtKind::Wait { .. } => drop(self.unsupported(first_word(stmt.core, 4), "wait")),
            StmtKind::Error => {}
        }
    }

    fn expression(&mut self, stmt: &'a Stmt, expr: &'a Expr) {
        match &expr.kind {
            ExprKind::Binary { op: ast::Binary::Eq, left, right, .. } => {
                let subject = self.cx.sources.slice(left.span).to_owned();
                let value = self.cx.sources.slice(right.span);
                let message = format!("this compares `{subject}` with a value and drops the answer");
                let help = format!("to assign, write `{subject} := {value}`");
                self.report(Diagnostic::error(Code::E0106, stmt.core, message).help(help));
                if let Some(slot) =
                    as_name(left).and_then(|name| self.local(&name.name)).map(|local| local.slot)
                {
                    self.flow.assign(slot);
                }
            }
            ExprKind::Call { callee, args } => drop(self.call(expr, callee, args)),
            _ => drop(self.value(expr)),
        }
    }

    /// The values on the right side for `count` places; one call may give several.
    fn values(&mut self, values: &'a [Expr], count: usize, span: Span) -> Vec<(Value, Span)> {
        if let [expr] = values
            && count != 1
            && let ExprKind::Call { callee, args } = &expr.kind
        {
            let Some(results) = self.call(expr, callee, args) else { return vec![] };
            if results.len() != count {
                self.wrong_count(results.len(), count, span);
                return vec![];
            }
            return results.into_iter().map(|value| (value, expr.span)).collect();
        }
        let found: Vec<_> = values.iter().map(|expr| (self.value(expr), expr.span)).collect();
        if found.len() != count {
            self.wrong_count(found.len(), count, span);
            return vec![];
        }
        found
    }

    fn wrong_count(&mut self, found: usize, wanted: usize, span: Span) {
        let plural = |n: usize| if n == 1 { "" } else { "s" };
        let message = format!("{wanted} variable{}, but {found} value{}", plural(wanted), plural(found));
        self.report(Diagnostic::error(Code::E0210, span, message));
    }

    fn declaration(&mut self, stmt: &'a Stmt, names: &'a [Ident], ty: &'a TypeExpr, values: &'a [Expr]) {
        let env = self.env.clone();
        let ty = self.cx.resolve_type(&env, ty);
        if values.is_empty() {
            for name in names {
                self.declare(name, ty);
            }
            return;
        }
        let values = self.values(values, names.len(), stmt.core);
        for (index, name) in names.iter().enumerate() {
            let op = values.get(index).map(|(value, span)| self.convert(*value, ty, *span));
            let var = self.declare_assigned(name, ty);
            if let Some(op) = op {
                self.b.assign(var, op);
            }
        }
    }

    fn assignment(&mut self, stmt: &'a Stmt, targets: &'a [Expr], values: &'a [Expr]) {
        let places: Vec<Place> = targets.iter().map(|target| self.place(target)).collect();
        let mut values = self.values(values, targets.len(), stmt.core);
        if targets.len() > 1 {
            // All right sides come before the first store.
            for (value, _) in &mut values {
                value.op = self.b.snapshot(value.op, value.ty);
            }
        }
        for (index, place) in places.into_iter().enumerate() {
            match values.get(index) {
                Some((value, span)) => self.store(place, *value, *span),
                // The wrong number of values has been reported.
                None => {
                    if let Place::Var { slot, .. } = place {
                        self.flow.assign(slot);
                    }
                }
            }
        }
    }

    fn place(&mut self, target: &'a Expr) -> Place {
        match &target.kind {
            ExprKind::Name(name) => {
                if let Some(local) = self.local(&name.name) {
                    return Place::Var { var: local.var, slot: local.slot, ty: local.ty };
                }
                let this = Operand::Var(Var::from_u32(0));
                if let Some((field, ty)) = self.own_ivar(&name.name).map(|(field, ivar)| (field, ivar.ty)) {
                    return self.field(target, &name.name, self.class.unwrap_or(0), this, field, ty);
                }
                let known = self.cx.names.lookup(self.env.scope, &name.name).is_some();
                let diagnostic = if known {
                    let message = format!("`{name}` is not a variable");
                    Diagnostic::error(Code::E0208, name.span, message).help("there are no global variables")
                } else {
                    self.unknown(name)
                };
                if !name.name.is_empty() {
                    self.report(diagnostic);
                }
                Place::Wrong
            }
            ExprKind::Select { object, name } => {
                let value = self.value(object);
                let Some(ty) = value.ty else { return Place::Wrong };
                match self.visible_ivar(ty, &name.name) {
                    Some((at, field, ty)) => self.field(target, &name.name, at, value.op, field, ty),
                    None => {
                        let mut diagnostic = self.no_selection(ty, name);
                        let setter = format!("set_{name}");
                        if self.method_of(ty, &setter).is_some() {
                            diagnostic = diagnostic.help(format!("call `{setter}(…)`"));
                        }
                        self.report(diagnostic);
                        Place::Wrong
                    }
                }
            }
            ExprKind::Index { object, args } => {
                let object = self.value(object);
                let indexes = args.iter().map(|arg| (self.value(arg), arg.span)).collect();
                Place::Element { object, indexes, span: target.span }
            }
            ExprKind::Paren(inner) => self.place(inner),
            ExprKind::Error => Place::Wrong,
            _ => {
                self.value(target);
                let message = "this cannot be assigned to";
                let help = "assign to a variable, an instance variable `o.x` or an element `a[i]`";
                self.report(Diagnostic::error(Code::E0202, target.span, message).help(help));
                Place::Wrong
            }
        }
    }

    fn field(
        &mut self,
        target: &'a Expr,
        name: &str,
        at: usize,
        object: Operand,
        field: u32,
        ty: Option<TypeId>,
    ) -> Place {
        let Some((class, immutable)) = self.cx.classes[at].as_ref().map(|info| (info.id, info.immutable))
        else {
            return Place::Wrong;
        };
        if immutable {
            let message =
                format!("`{name}` belongs to an immutable type and is set only by a constructor or maker");
            let diagnostic =
                Diagnostic::error(Code::E0306, target.span, message).help("build a new object instead");
            self.report(diagnostic);
        }
        Place::Field { object, class, field, ty }
    }

    fn store(&mut self, place: Place, value: Value, span: Span) {
        match place {
            Place::Var { var, slot, ty } => {
                let op = self.convert(value, ty, span);
                self.b.assign(var, op);
                self.flow.assign(slot);
            }
            Place::Field { object, class, field, ty } => {
                let value = self.convert(value, ty, span);
                self.b.emit(IrStmt::Set { object, class, field, value });
            }
            Place::Element { object, mut indexes, span: place } => {
                indexes.push((value, span));
                self.operator(object, "store", indexes, place, place);
            }
            Place::Wrong => {}
        }
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
            // What comes next belongs to the `else` of this test.
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
                        "a `for` runs over the call of an iterator",
                    );
                    let elements = self.method_of(ty, "elements").is_some();
                    if elements {
                        let text = self.cx.sources.slice(iterator.span);
                        diagnostic = diagnostic.help(format!("write `{text}.elements()`"));
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
                let heading = self.cx.program.types.heading(&target.name, &target.signature);
                self.report(
                    Diagnostic::error(Code::E0207, iterator.span, message).help(format!("`{heading}`")),
                );
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
        self.loops.push(Loop::default());
        self.statements(body);
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
            let message = format!("`{}` is a type; the loop variable comes first", var.name);
            let help = format!("write `for {name}: {} in … do … end`", var.name);
            self.report(Diagnostic::error(Code::E0107, span, message).help(help));
            return self.declare_assigned(name, given);
        }
        let ty = self.cx.resolve_type(&env, written);
        if let (Some(found), Some(wanted)) = (given, ty) {
            if !self.cx.below(found, wanted) {
                let diagnostic = self.mismatch(found, wanted, written.span);
                self.report(diagnostic);
            } else if found != wanted {
                let filled = self.b.temp(given);
                let local = self.declare_assigned(&var.name, ty);
                self.b.assign(local, filled.into());
                return filled;
            }
        }
        self.declare_assigned(&var.name, ty)
    }

    fn jump(&mut self, stmt: &'a Stmt) {
        let is_break = matches!(stmt.kind, StmtKind::Break);
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
                let help = "it leaves the innermost `while` or `for` around it";
                let help =
                    if is_break { help } else { "it goes on with the innermost `while` or `for` around it" };
                self.report(Diagnostic::error(Code::E0309, stmt.core, message).help(help));
            }
        }
    }

    fn return_statement(&mut self, stmt: &'a Stmt, values: &'a [Expr]) {
        let wanted = self.signature.results.clone();
        let operands = self.results(stmt, values, &wanted, "returns");
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

    /// The operands of `return` and `yield`.
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
            let heading = self.cx.program.types.heading(&self.name, &self.signature);
            self.report(Diagnostic::error(Code::E0210, stmt.core, message).help(format!("`{heading}`")));
            return SmallVec::new();
        }
        found
            .into_iter()
            .zip(wanted)
            .map(|((value, span), ty)| self.convert(value, Some(*ty), span))
            .collect()
    }

    fn signal_statement(&mut self, stmt: &'a Stmt, name: &'a Ident, values: &'a [Expr]) {
        let found: Vec<(Value, Span)> = values.iter().map(|expr| (self.value(expr), expr.span)).collect();
        if !name.name.is_empty() {
            let signal = self.cx.signal(&name.name);
            let given: Vec<TypeId> = found.iter().filter_map(|(value, _)| value.ty).collect();
            if let Some(listed) = self.listed(name, signal, &given)
                && let Some(values) = self.carried(stmt, name, found, &listed)
            {
                self.b.emit(IrStmt::Signal { signal, values });
            }
        }
        self.flow.leave();
    }

    /// The values of an exception as operands.
    fn carried(
        &mut self,
        stmt: &'a Stmt,
        name: &Ident,
        found: Vec<(Value, Span)>,
        wanted: &[TypeId],
    ) -> Option<SmallVec<[Operand; 1]>> {
        if found.len() != wanted.len() {
            let plural = if wanted.len() == 1 { "" } else { "s" };
            let message = format!("`{name}` carries {} value{plural}, {} given", wanted.len(), found.len());
            self.report(Diagnostic::error(Code::E0203, stmt.core, message));
            return None;
        }
        let operands = found.into_iter().zip(wanted);
        Some(operands.map(|((value, span), ty)| self.convert(value, Some(*ty), span)).collect())
    }

    /// `exit e(v)`: a jump to the innermost handler that takes it.
    fn exit_statement(&mut self, name: &'a Ident, values: &'a [Expr]) {
        let found: Vec<(Value, Span)> = values.iter().map(|expr| (self.value(expr), expr.span)).collect();
        let taker =
            self.frames.iter().rposition(|f| f.others || f.names.iter().any(|(n, _)| *n == name.name));
        match taker {
            _ if name.name.is_empty() => {}
            None => {
                let message = format!("no handler in `{}` takes `{name}`", self.name);
                let help = format!("write `… except when {name}: … end` around it");
                self.report(Diagnostic::error(Code::E0308, name.span, message).help(help));
            }
            Some(taker) => {
                let signal = self.cx.signal(&name.name);
                let types: Vec<TypeId> =
                    found.iter().map(|(value, _)| value.ty.unwrap_or(Types::ANY)).collect();
                // Everything inside the taker lets it pass.
                let frame = &mut self.frames[taker];
                if !frame.raised.contains(&(signal, types.clone())) {
                    frame.raised.push((signal, types));
                }
                let values = found.into_iter().map(|(value, _)| value.op).collect();
                self.b.emit(IrStmt::Exit { signal, values });
            }
        }
        self.flow.leave();
    }
}

fn as_name(expr: &Expr) -> Option<&Ident> {
    match &expr.kind {
        ExprKind::Name(name) => Some(name),
        _ => None,
    }
}

/// The first `length` bytes of a span: its keyword.
fn first_word(span: Span, length: u32) -> Span {
    Span { end: (span.start + length).min(span.end), ..span }
}
