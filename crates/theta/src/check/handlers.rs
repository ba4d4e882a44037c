//! Exceptions: `except`, `resignal`, `signal`, `exit` (section 7 of the definition).
//!
//! The handlers of a statement are frames around it ([`super::body::Frame`]). Calls note in the
//! innermost frame the exceptions that they may raise. When the frame is left, each arm is checked
//! against these, and an exception that no arm takes goes to the frame outside.
//!
//! Read [`Body::covered`] first.

use bifrost_ir::{Arm, ArmMatch, Block, Operand, SignalId, Site, Stmt as IrStmt, TypeId, Types, Var};
use smallvec::SmallVec;

use super::Checker;
use super::body::{Body, Raised, Role, Value};
use super::flow::{Answered, Flow};
use crate::ast::{self, Expr, Handler, Ident, Stmt};
use crate::diagnostic::{Code, Diagnostic};
use crate::lower::depth;
use crate::resolve::similar;
use crate::source::Span;

/// The part of a statement that its handlers stand around.
pub(crate) enum Cover {
    /// All of it.
    Whole,
    /// The first part of a maker's `make`, up to the object. Collects the exceptions it may raise;
    /// `then` if there is a second part.
    Values { then: bool, raised: Vec<SignalId> },
    /// The second part, after a first one that may raise these.
    Then(Vec<SignalId>),
}

/// The exceptions that may be raised in another part of a statement.
#[derive(Default)]
pub(crate) enum Elsewhere {
    #[default]
    Nothing,
    Anything,
    These(Vec<SignalId>),
}

impl Elsewhere {
    fn contains(&self, signal: SignalId) -> bool {
        match self {
            Elsewhere::Nothing => false,
            Elsewhere::Anything => true,
            Elsewhere::These(signals) => signals.contains(&signal),
        }
    }
}

impl Cover {
    /// Lets the parts of a statement know of each other.
    fn note(&mut self, raised: &mut Raised) {
        match self {
            Cover::Whole => {}
            Cover::Values { then, raised: all } => {
                all.extend(raised.signals.iter().map(|(signal, _)| *signal));
                raised.elsewhere = if *then { Elsewhere::Anything } else { Elsewhere::Nothing };
            }
            Cover::Then(before) => raised.elsewhere = Elsewhere::These(before.clone()),
        }
    }

    /// Returns true if an arm for these exceptions has to be looked at for this part: it is used
    /// here, or nowhere.
    fn concerns(&self, cx: &mut Checker<'_>, names: &[Ident], raised: &Raised) -> bool {
        names.is_empty()
            || names.iter().any(|name| {
                let signal = cx.signal(&name.name);
                signal == SignalId::FAILURE
                    || raised.signals.iter().any(|(raised, _)| *raised == signal)
                    || !raised.elsewhere.contains(signal)
            })
    }
}

impl<'a> Body<'_, 'a> {
    /// Checks a statement inside its handlers, of which the last is the outermost.
    pub fn covered(&mut self, stmt: &'a Stmt, handlers: &'a [Handler]) {
        self.inside(handlers, &mut Cover::Whole, &mut |body| body.simple(stmt));
    }

    /// Runs `inner`, which is (a part of) a statement, inside its handlers.
    pub fn inside(&mut self, handlers: &'a [Handler], cover: &mut Cover, inner: &mut dyn FnMut(&mut Self)) {
        let Some((handler, rest)) = handlers.split_last() else { return inner(self) };
        let mut before = self.flow.clone();
        self.b.open();
        let mut raised = self.framed(handler, |body| body.inside(rest, cover, inner));
        let mut covered = self.b.close();
        cover.note(&mut raised);
        let mut after = std::mem::replace(&mut self.flow, Flow::nowhere());
        // An exception may have come after an answer.
        before.raised(raised.answered);
        let mut arms = vec![];
        let (mut boxing, mut boxed_at) = (vec![], None);
        match handler {
            Handler::Except { arms: whens, others } => {
                for when in whens {
                    if !cover.concerns(self.cx, &when.names, &raised) {
                        continue;
                    }
                    boxed_at = when.names.first().map(|name| name.span);
                    self.flow = before.clone();
                    arms.extend(self.when_arm(when, &raised, &mut boxing));
                    self.leave_arm(cover, when.names.first().map(|name| name.span));
                    after.join(std::mem::replace(&mut self.flow, Flow::nowhere()));
                }
                if let Some(others) = others {
                    self.flow = before;
                    arms.push(self.others_arm(others));
                    self.leave_arm(cover, others.body.last().map(|stmt| stmt.span));
                    after.join(std::mem::replace(&mut self.flow, Flow::nowhere()));
                }
            }
            Handler::Resignal(names) => {
                self.flow = before;
                arms.extend(names.iter().filter_map(|name| self.resignal(name, &raised)))
            }
        }
        self.flow = after;
        if !boxing.is_empty() {
            self.check_depth(&covered, boxed_at);
            covered = Block(vec![IrStmt::Except { body: covered, arms: boxing }]);
        }
        self.b.emit(IrStmt::Except { body: covered, arms });
    }

    /// Reports at `span` if a block cannot stand inside one more.
    fn check_depth(&mut self, block: &Block, span: Option<Span>) {
        let too_deep = self.b.depth() + 2 + depth(block) >= bifrost_ir::verify::DEPTH_MAX;
        if let (true, Some(span)) = (too_deep, span) {
            let message = "blocks are nested too deep, and handlers of basic values as `any` count twice";
            let help = "move an inner part to a routine of its own";
            self.report(Diagnostic::error(Code::E0109, span, message).help(help));
        }
    }

    /// Ends an arm: before the object of a maker is made, its end must not be reached.
    fn leave_arm(&mut self, cover: &Cover, span: Option<Span>) {
        if let (Cover::Values { .. }, true) = (cover, self.flow.reachable) {
            if let Some(span) = span {
                let message = format!("this arm ends, but `{}` has no `make` before it", self.name);
                self.report(
                    Diagnostic::error(Code::E0214, span, message).help("signal an exception at its end"),
                );
            }
            self.flow.leave();
        }
    }

    /// Returns the types of the values of the exception `name` at the places where it is raised;
    /// reports if it cannot be raised.
    fn raised(&mut self, name: &Ident, raised: &Raised) -> Option<(SignalId, Vec<Vec<TypeId>>)> {
        if name.name.is_empty() {
            return None;
        }
        let signal = self.cx.signal(&name.name);
        if signal == SignalId::FAILURE {
            return Some((signal, vec![vec![Types::STRING]]));
        }
        let values: Vec<Vec<TypeId>> = raised
            .signals
            .iter()
            .filter(|(raised, _)| *raised == signal)
            .map(|(_, types)| types.clone())
            .collect();
        if !values.is_empty() {
            return Some((signal, values));
        }
        if !raised.complete || raised.elsewhere.contains(signal) {
            return None;
        }
        let message = format!("nothing in this statement can raise `{name}`");
        let mut possible: Vec<String> =
            raised.signals.iter().map(|(signal, _)| self.cx.signal_name(*signal)).collect();
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

    /// Returns an arm; `boxing` gets the arms that come before it, which put basic values into
    /// boxes for it.
    fn when_arm(&mut self, when: &'a ast::WhenArm, raised: &Raised, boxing: &mut Vec<Arm>) -> Option<Arm> {
        let mut takes: SmallVec<[SignalId; 1]> = SmallVec::new();
        let mut carried = vec![];
        for name in &when.names {
            if let Some((signal, values)) = self.raised(name, raised) {
                takes.push(signal);
                carried.push((name, signal, values));
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
            let formals = when.values.as_deref().unwrap_or(&[]);
            for (name, _, values) in &carried {
                values.iter().for_each(|types| self.check_carried(name, types, formals, &vars));
            }
            let mut lists = carried.iter().flat_map(|(_, _, values)| values);
            match lists.next() {
                Some(first) if lists.all(|other| other == first) => self.box_here(first, &mut vars),
                _ => {
                    for (name, signal, values) in &carried {
                        boxing.extend(self.boxing_arm(name, *signal, values, &vars));
                    }
                }
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
            let message = format!("`{name}` has {} value{plural}, {} named here", types.len(), vars.len());
            let help = format!("write `when {name} (*):` to ignore them");
            return self.report(Diagnostic::error(Code::E0210, name.span, message).help(help));
        }
        for ((found, (_, wanted)), formal) in types.iter().zip(vars).zip(formals) {
            if let Some(wanted) = wanted
                && !self.cx.fits(*found, *wanted)
            {
                let diagnostic = self.mismatch(*found, *wanted, formal.ty.span);
                self.report(diagnostic);
            }
        }
    }

    /// Puts the arm's values into boxes, at the start of an arm; in `vars` the variables take the
    /// places of those that get the values.
    fn box_here(&mut self, types: &[TypeId], vars: &mut [(Var, Option<TypeId>)]) {
        for (given, (var, wanted)) in types.iter().zip(vars) {
            let Some(any) = wanted.filter(|any| self.cx.is_converted(*given, *any)) else { continue };
            let filled = self.b.temp(Some(*given));
            let value = self.stand(filled.into(), *given, any, 0);
            self.b.assign(*var, value);
            (*var, *wanted) = (filled, Some(*given));
        }
    }

    /// Returns the arm that takes an exception with basic values and raises it again with the
    /// values that an arm for `vars` wants, if that has to be.
    fn boxing_arm(
        &mut self,
        name: &Ident,
        signal: SignalId,
        carried: &[Vec<TypeId>],
        wanted: &[(Var, Option<TypeId>)],
    ) -> Option<Arm> {
        let boxes = |types: &Vec<TypeId>| {
            types
                .iter()
                .zip(wanted)
                .any(|(ty, (_, any))| any.is_some_and(|any| self.cx.is_converted(*ty, any)))
        };
        let types = carried.iter().find(|types| boxes(types))?;
        if carried.iter().any(|other| other != types) {
            let message = format!("`{name}` is raised here with basic values of different types");
            let help = "write a separate handler for each statement that raises it";
            self.report(Diagnostic::error(Code::E0202, name.span, message).help(help));
            return None;
        }
        self.b.open();
        let vars: SmallVec<[Var; 1]> = types.iter().map(|ty| self.b.temp(Some(*ty))).collect();
        let given = vars.iter().zip(types).zip(wanted);
        let values = given.map(|((var, ty), (_, any))| {
            self.stand(Operand::Var(*var), *ty, any.unwrap_or(*ty), name.span.start)
        });
        let values = values.collect();
        self.b.emit(IrStmt::Exit { signal, values });
        Some(Arm { takes: ArmMatch::Named(SmallVec::from_slice(&[signal])), vars, body: self.b.close() })
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

    /// Returns the arm that passes the exception `name` on.
    fn resignal(&mut self, name: &'a Ident, raised: &Raised) -> Option<Arm> {
        let (signal, carried) = self.raised(name, raised)?;
        let listed = self.listed(name, signal, &carried[0])?;
        let equal = carried.iter().all(|types| *types == carried[0]);
        for types in &carried {
            let mut pairs = types.iter().zip(&listed);
            let fits = types.len() == listed.len()
                && pairs.all(|(a, b)| if equal { self.cx.fits(*a, *b) } else { self.cx.below(*a, *b) });
            if !fits {
                let message =
                    format!("`{name}` has other values here than in the heading of `{}`", self.name);
                self.report(Diagnostic::error(Code::E0202, name.span, message));
                return None;
            }
        }
        if self.role == Role::Script {
            self.answered_once(name.span);
            if let Some(ty) = listed.iter().find(|ty| !self.cx.is_sendable(**ty)) {
                let message = format!("`{}` is mutable and private to this actor", self.cx.type_name(*ty));
                let help = format!("handle `{name}`, and signal it with a `clone` of its values");
                self.report(Diagnostic::error(Code::E0401, name.span, message).help(help));
            }
        }
        // Values that differ have the types of the heading, which no word needs a box for.
        let given = if equal { &carried[0] } else { &listed };
        let vars: SmallVec<[Var; 1]> = given.iter().map(|ty| self.b.temp(Some(*ty))).collect();
        self.b.open();
        let pairs = vars.iter().zip(given).zip(&listed);
        let values = pairs.map(|((var, a), b)| self.stand(Operand::Var(*var), *a, *b, name.span.start));
        let values = values.collect();
        let site = Site(name.span.start);
        self.b.emit(IrStmt::Signal { signal, values, site });
        Some(Arm { takes: ArmMatch::Named(SmallVec::from_slice(&[signal])), vars, body: self.b.close() })
    }

    /// Returns the types that the heading lists for `signal`; E0303 if it does not list it.
    fn listed(&mut self, name: &Ident, signal: SignalId, given: &[TypeId]) -> Option<Vec<TypeId>> {
        if signal == SignalId::FAILURE {
            return Some(vec![Types::STRING]);
        }
        let own = self.answered_heading();
        if let Some(listed) = own.signal(signal) {
            return Some(listed.values.clone());
        }
        let message = format!("`{}` does not list `{name}`", self.answered_name());
        let types: Vec<&str> = given.iter().map(|ty| self.cx.program.types.name(*ty)).collect();
        let clause =
            if types.is_empty() { name.to_string() } else { format!("{name} ({})", types.join(", ")) };
        let help = if own.signals.is_empty() {
            format!("add `signals ({clause})` to the heading")
        } else {
            format!("add `{clause}` to the `signals` of the heading")
        };
        self.report(Diagnostic::error(Code::E0303, name.span, message).help(help));
        None
    }

    pub fn signal_statement(&mut self, stmt: &'a Stmt, name: &'a Ident, values: &'a [Expr]) {
        let value_exprs = values;
        let found: Vec<(Value, Span)> = values.iter().map(|expr| (self.value(expr), expr.span)).collect();
        if self.role == Role::Script {
            // It is an answer, too, and ends the method.
            self.answered_once(stmt.core);
            self.await_before_jump();
        }
        if !name.name.is_empty() {
            let signal = self.cx.signal(&name.name);
            let given: Vec<TypeId> = found.iter().filter_map(|(value, _)| value.ty).collect();
            if let Some(listed) = self.listed(name, signal, &given)
                && let Some(values) = self.carried(stmt, name, found, &listed)
            {
                if self.role == Role::Script {
                    for (value, ty) in value_exprs.iter().zip(&listed) {
                        self.check_sendable(value, *ty, None);
                    }
                }
                self.b.emit(IrStmt::Signal { signal, values, site: Site(stmt.core.start) });
            }
        }
        self.flow.leave();
    }

    /// Returns the values of an exception as operands.
    fn carried(
        &mut self,
        stmt: &'a Stmt,
        name: &Ident,
        found: Vec<(Value, Span)>,
        wanted: &[TypeId],
    ) -> Option<SmallVec<[Operand; 1]>> {
        if found.len() != wanted.len() {
            let plural = if wanted.len() == 1 { "" } else { "s" };
            let message = format!("`{name}` has {} value{plural}, {} given", wanted.len(), found.len());
            self.report(Diagnostic::error(Code::E0203, stmt.core, message));
            return None;
        }
        let operands = found.into_iter().zip(wanted);
        Some(operands.map(|((value, span), ty)| self.convert(value, Some(*ty), span)).collect())
    }

    /// `exit e(v)`: a jump to the innermost handler that takes it.
    pub fn exit_statement(&mut self, name: &'a Ident, values: &'a [Expr]) {
        let found: Vec<(Value, Span)> = values.iter().map(|expr| (self.value(expr), expr.span)).collect();
        let taker = self
            .frames
            .iter()
            .rposition(|f| f.others && !f.taken || f.names.iter().any(|(n, _)| *n == name.name));
        match taker {
            _ if name.name.is_empty() => {}
            None => {
                let message = format!("no handler in `{}` handles `{name}`", self.name);
                let help = format!("write `… except when {name}: … end` around it");
                self.report(Diagnostic::error(Code::E0308, name.span, message).help(help));
            }
            Some(taker) => {
                if self.frames[taker..].iter().any(|frame| frame.taken) {
                    self.check_answered(name.span);
                }
                let signal = self.cx.signal(&name.name);
                let types: Vec<TypeId> =
                    found.iter().map(|(value, _)| value.ty.unwrap_or(Types::ANY)).collect();
                // Everything inside the taker lets it pass.
                let answered = Answered::at(&self.flow);
                let frame = &mut self.frames[taker];
                frame.answered.join(answered);
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
