//! One body being checked and written: its locals, its handlers, its variables in scope.
//!
//! Read [`Body`] first: it is made for each routine, method and part of a maker, and walks the
//! syntax tree once. It owns the scopes, the flow state and the [`Builder`] of the IR.
//! [`Checker::check_routine`] makes one, and [`Body::finish`] returns its function. The rules for
//! statements, calls and the rest are in the files beside this one, as further methods of [`Body`].

use std::collections::HashMap;
use std::sync::Arc;

use bifrost_ir::{
    Const, Func, Operand, SignalId, Signature, Site, Stmt, TextId, TypeId, TypeKind, Types, Var, Written,
};

use super::actors::Taken;
use super::flow::{Answered, Flow, Slot};
use super::handlers::Elsewhere;
use super::persistent::State;
use super::{Checker, Env};
use crate::ast::{self, Expr, Handler, Ident};
use crate::diagnostic::{Code, Diagnostic};
use crate::lower::{Builder, stand};
use crate::persistent::written_name;
use crate::resolve::is_builtin_type;
use crate::source::{FileId, Span};

/// A value that was computed: where it is, and its static type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Value {
    pub op: Operand,
    /// `None` if the expression is wrong, which has been reported.
    pub ty: Option<TypeId>,
}

/// The kind of definition that the body belongs to; decides the meanings that its bare names may
/// have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    Routine,
    /// Bare names may be instance variables.
    Method,
    /// The part of a maker up to `make`; no `self`.
    Maker,
    /// The part after `then`; `self`, but no bare instance variables.
    Then,
    /// A method of an actor.
    Script,
    /// A `new` of an actor; no `self`.
    Creator,
    /// A condition of an actor, of `disable` or `wait`: it looks, and has no effects.
    Condition,
}

impl Role {
    /// Returns true if the first variable is the receiver.
    pub fn has_receiver(self) -> bool {
        !matches!(self, Role::Routine | Role::Maker)
    }
}

/// A parameter or local variable in scope.
#[derive(Clone, Debug)]
pub(crate) struct Local {
    pub name: Arc<str>,
    pub var: Var,
    pub slot: Slot,
    pub ty: Option<TypeId>,
    pub span: Span,
}

/// A loop around the current statement.
#[derive(Default)]
pub(crate) struct Loop {
    /// The flow state where its `break`s meet.
    pub breaks: Flow,
    /// The call of its iterator, if that relies on something that may change.
    pub changeable: Option<Span>,
}

/// The transaction around the current statement.
pub(crate) struct Transaction {
    pub span: Span,
    /// The number of locals that are declared outside it.
    pub outside: usize,
}

/// The exceptions that the statement inside a frame can raise.
pub(crate) struct Raised {
    pub signals: Vec<(SignalId, Vec<TypeId>)>,
    /// True if every call in it was understood; others could have raised more.
    pub complete: bool,
    /// The exceptions that other parts of the same statement may raise.
    pub elsewhere: Elsewhere,
    /// The state of the answer to the message at the places where an exception was raised.
    pub answered: Answered,
}

/// A statement with handlers around the current one.
pub(crate) struct Frame {
    /// The exceptions its arms name.
    pub names: Vec<(Arc<str>, Option<usize>)>,
    pub others: bool,
    /// The exceptions raised in it so far, with the types of their values.
    pub raised: Vec<(SignalId, Vec<TypeId>)>,
    /// The number of blocks open before it: the requests in the others are awaited before it is
    /// left, so that handler and request stay together.
    pub depth: usize,
    /// The state of the answer to the message at the places where an exception was raised.
    pub answered: Answered,
    /// True if this is the arm of a `wait`, which no exception leaves.
    pub taken: bool,
}

impl Frame {
    /// Returns the frame of an arm of a `wait`, whose block is the next one that is opened.
    pub fn of_arm(depth: usize) -> Frame {
        Frame {
            names: vec![],
            others: true,
            raised: vec![],
            depth,
            answered: Answered::default(),
            taken: true,
        }
    }
}

/// A body being checked.
pub(crate) struct Body<'c, 'a> {
    pub cx: &'c mut Checker<'a>,
    pub env: Env,
    pub role: Role,
    /// The class of `self`, by position.
    pub class: Option<usize>,
    pub b: Builder,
    /// The heading the body must keep to.
    pub name: Arc<str>,
    pub signature: Signature,
    pub locals: Vec<Local>,
    /// The place in `locals` of each name, in lower case.
    places: HashMap<String, usize>,
    slots: u32,
    /// The number of locals outside each open scope.
    pub scopes: Vec<usize>,
    pub flow: Flow,
    pub loops: Vec<Loop>,
    pub frames: Vec<Frame>,
    pub transaction: Option<Transaction>,
    /// The state of a persistent actor, in one of its turns.
    pub state: Option<State>,
    /// True for the repetitions around a turn, which the compiler has written.
    pub repeats: bool,
    /// Messages that `wait` has taken, the innermost last.
    pub taken: Vec<Taken>,
    /// The text that has requests of the body.
    pub asked_in: Option<FileId>,
    /// Its last request.
    pub asked_at: Site,
    /// The number of expressions so far that were wrong, or use one that was.
    pub unknown_values: usize,
}

impl<'a> Checker<'a> {
    /// Checks a routine, or a method of the class at position `class`, and returns its code.
    pub(crate) fn check_routine(
        &mut self,
        env: Env,
        class: Option<usize>,
        name: String,
        signature: Signature,
        routine: &'a ast::Routine,
    ) -> Func {
        let actor = class.is_some_and(|at| self.class_ast(at).actor.is_some());
        let role = match class {
            Some(_) if actor => Role::Script,
            Some(_) => Role::Method,
            None => Role::Routine,
        };
        let heading = &routine.heading;
        let shown = Arc::from(written_name(&heading.name.name));
        let mut body =
            Body::new(self, env, role, class, name, &shown, signature).written(heading.name.span.file);
        body.parameters(heading.args.iter().map(|arg| &arg.name));
        body.open_turn(heading);
        body.statements(&routine.body);
        if role == Role::Script {
            body.check_answered(routine.end);
        } else if body.flow.reachable && !body.signature.results.is_empty() {
            let message = format!("`{}` can reach its end without returning a value", heading.name);
            let help = "add `return (…)` or `signal …`";
            body.cx.report(Diagnostic::error(Code::E0302, routine.end, message).help(help));
        }
        body.finish()
    }
}

impl<'c, 'a> Body<'c, 'a> {
    pub fn new(
        cx: &'c mut Checker<'a>,
        env: Env,
        role: Role,
        class: Option<usize>,
        full_name: String,
        name: &Arc<str>,
        signature: Signature,
    ) -> Self {
        let receiver =
            class.filter(|_| role.has_receiver()).and_then(|at| cx.classes[at].as_ref()).map(|info| info.ty);
        let flow = Flow::start();
        Body {
            cx,
            env,
            role,
            class,
            b: Builder::new(full_name, receiver, signature.clone()).script(role == Role::Script),
            name: name.clone(),
            signature,
            locals: vec![],
            places: HashMap::new(),
            slots: 0,
            scopes: vec![],
            flow,
            loops: vec![],
            frames: vec![],
            transaction: None,
            state: None,
            repeats: false,
            taken: vec![],
            asked_in: None,
            asked_at: Site::default(),
            unknown_values: 0,
        }
    }

    /// Makes the code that of a text.
    pub fn written(mut self, file: FileId) -> Self {
        self.b.func.written = Written::In(TextId::from_u32(file.0));
        self
    }

    pub fn parameters<'n>(&mut self, names: impl Iterator<Item = &'n Ident>) {
        let first = usize::from(self.role.has_receiver());
        for (index, name) in names.enumerate() {
            let var = Var::from_u32((first + index) as u32);
            let ty = self.signature.params.get(index).and_then(|param| self.cx.known(param.ty));
            self.check_new_name(name, false);
            self.add_local(name, var, ty);
        }
    }

    pub fn finish(mut self) -> Func {
        let returns = self.signature.results.is_empty() || self.role == Role::Script;
        if self.flow.reachable && returns {
            self.b.emit(Stmt::Return(Default::default()));
        }
        let mut func =
            std::mem::replace(&mut self.b, Builder::new(String::new(), None, Signature::default())).finish();
        self.place_waits(&mut func);
        func
    }

    pub fn report(&mut self, diagnostic: Diagnostic) {
        self.cx.report(diagnostic);
    }

    /// Returns a wrong value.
    pub fn wrong(&self) -> Value {
        Value { op: Operand::Const(Const::Nil), ty: None }
    }

    pub fn enter(&mut self) {
        self.scopes.push(self.locals.len());
    }

    pub fn exit(&mut self) {
        let count = self.scopes.pop().unwrap_or(0);
        for (at, local) in self.locals.drain(count..).enumerate() {
            let key = local.name.to_ascii_lowercase();
            if self.places.get(&key) == Some(&(count + at)) {
                self.places.remove(&key);
            }
        }
    }

    pub fn local(&self, name: &str) -> Option<&Local> {
        let place = self.places.get(&name.to_ascii_lowercase())?;
        Some(&self.locals[*place]).filter(|local| &*local.name == name)
    }

    /// Adds a local with a value.
    pub fn add_local(&mut self, name: &Ident, var: Var, ty: Option<TypeId>) {
        let slot = self.unassigned_local(name, var, ty);
        self.flow.assign(slot);
    }

    fn unassigned_local(&mut self, name: &Ident, var: Var, ty: Option<TypeId>) -> Slot {
        let slot = Slot(self.slots);
        self.slots += 1;
        // A name that is taken has been reported; the first one keeps it.
        self.places.entry(name.name.to_ascii_lowercase()).or_insert(self.locals.len());
        self.locals.push(Local { name: name.name.clone(), var, slot, ty, span: name.span });
        slot
    }

    /// Returns a new local, not assigned yet.
    pub fn declare(&mut self, name: &Ident, ty: Option<TypeId>) -> (Var, Slot) {
        self.check_new_name(name, true);
        let var = self.b.var(&name.name, ty);
        (var, self.unassigned_local(name, var, ty))
    }

    /// Returns a new local that has a value from the start.
    pub fn declare_assigned(&mut self, name: &Ident, ty: Option<TypeId>) -> Var {
        let (var, slot) = self.declare(name, ty);
        self.flow.assign(slot);
        var
    }

    /// Reports a name that is taken, hides another, or differs from one only in letter case.
    fn check_new_name(&mut self, name: &Ident, local: bool) {
        if name.name.is_empty() {
            return;
        }
        let sources = self.cx.sources;
        if let Some(at) = self.places.get(&name.name.to_ascii_lowercase()).copied() {
            let other = &self.locals[at];
            // Equal parameters have been reported with the heading.
            if !local {
                return;
            }
            let line = sources.line(other.span.file, other.span.start);
            let outside = self.scopes.last().copied().unwrap_or(self.signature.params.len());
            let same_scope = at >= outside;
            let diagnostic = if other.name != name.name {
                crate::resolve::case_clash(sources, name, &other.name, other.span)
            } else if same_scope {
                crate::resolve::twice(sources, name, other.span)
            } else {
                let message = format!("`{name}` hides the variable of line {line}");
                Diagnostic::error(Code::E0211, name.span, message).help("choose another name")
            };
            return self.report(diagnostic);
        }
        if is_builtin_type(&name.name) {
            let message = format!("`{name}` hides the type of that name");
            return self
                .report(Diagnostic::error(Code::E0211, name.span, message).help("choose another name"));
        }
        let ivar = self.own_ivar(&name.name).map(|(_, ivar)| ivar.span);
        if let Some(span) = ivar {
            let line = sources.line(span.file, span.start);
            let message = format!("`{name}` hides the instance variable of line {line}");
            self.report(Diagnostic::error(Code::E0211, name.span, message).help("choose another name"));
        }
    }

    /// Returns the instance variable that a bare name means, with its place in the layout.
    pub fn own_ivar(&self, name: &str) -> Option<(u32, &super::classes::Ivar)> {
        if !matches!(self.role, Role::Method | Role::Script | Role::Condition) {
            return None;
        }
        self.cx.classes[self.own_class()?].as_ref()?.ivar(name)
    }

    /// Notes that the callee here may raise `signals`.
    pub fn raise(&mut self, signature: &Signature) {
        let answered = Answered::at(&self.flow);
        let Some(frame) = self.frames.last_mut() else { return };
        frame.answered.join(answered);
        for signal in &signature.signals {
            let known =
                frame.raised.iter().any(|(name, types)| *name == signal.name && *types == signal.values);
            if !known {
                frame.raised.push((signal.name, signal.values.clone()));
            }
        }
    }

    /// Runs `inner` inside the handlers of `handler`; returns the exceptions it raised that matter
    /// to the handler.
    pub fn framed(&mut self, handler: &Handler, inner: impl FnOnce(&mut Self)) -> Raised {
        let before = (self.cx.diagnostics.len(), self.unknown_values);
        let (names, others) = match handler {
            Handler::Except { arms, others } => {
                let names = arms.iter().flat_map(|arm| {
                    arm.names.iter().map(|name| (name.name.clone(), arm.values.as_ref().map(Vec::len)))
                });
                (names.collect(), others.is_some())
            }
            Handler::Resignal(names) => (names.iter().map(|name| (name.name.clone(), None)).collect(), false),
        };
        let frame = Frame {
            names,
            others,
            raised: vec![],
            // The block of the statement is open.
            depth: self.b.depth() - 1,
            answered: Answered::default(),
            taken: false,
        };
        self.frames.push(frame);
        inner(self);
        self.await_requested();
        let complete = (self.cx.diagnostics.len(), self.unknown_values) == before;
        let frame = self.frames.pop();
        let answered = frame.as_ref().map(|frame| frame.answered).unwrap_or_default();
        let raised = frame.map_or(vec![], |frame| self.pass_on(frame));
        Raised { signals: raised, complete, elsewhere: Elsewhere::Nothing, answered }
    }

    /// Waits for the requests of the statement that is about to be left.
    pub fn await_requested(&mut self) {
        let Some(frame) = self.frames.last_mut().filter(|_| self.asked_in.is_some()) else { return };
        let vars = self.b.requested(frame.depth);
        if vars.is_empty() {
            return;
        }
        let missing = self.b.missing(&self.cx.program);
        if !missing.at_end.is_empty() {
            frame.answered.join(Answered::at(&self.flow));
        }
        if let (Some(site), Some(file)) = (missing.at_answer, self.asked_in) {
            frame.answered.join(Answered::behind(Span { file, start: site.0, end: site.0 + 1 }));
        }
        if self.flow.reachable {
            self.b.emit(Stmt::Await { vars, site: self.asked_at });
        }
    }

    /// Waits for the requests of all statements that a jump leaves.
    pub fn await_before_jump(&mut self) {
        let Some(outermost) = self.frames.first().filter(|_| self.asked_in.is_some()) else { return };
        let vars = self.b.requested(outermost.depth);
        if !vars.is_empty() {
            self.b.emit(Stmt::Await { vars, site: self.asked_at });
        }
    }

    /// Returns the exceptions that a frame that is left has raised; those that it does not take are
    /// raised outside, too.
    fn pass_on(&mut self, frame: Frame) -> Vec<(SignalId, Vec<TypeId>)> {
        if let Some(outer) = self.frames.last_mut() {
            outer.answered.join(frame.answered);
        }
        if let Some(outer) = self.frames.last_mut()
            && !frame.others
        {
            for (signal, types) in &frame.raised {
                let name = self.cx.program.types.signal_name(*signal);
                if !frame.names.iter().any(|(n, _)| &**n == name)
                    && !outer.raised.contains(&(*signal, types.clone()))
                {
                    outer.raised.push((*signal, types.clone()));
                }
            }
        }
        frame.raised
    }

    /// Returns the value as one of type `wanted`; reports at `span` if it is none.
    pub fn convert(&mut self, value: Value, wanted: Option<TypeId>, span: Span) -> Operand {
        let (Some(found), Some(wanted)) = (value.ty, wanted) else { return value.op };
        if !self.cx.fits(found, wanted) {
            let diagnostic = self.mismatch(found, wanted, span);
            self.report(diagnostic);
        }
        self.stand(value.op, found, wanted, span.start)
    }

    /// Returns an operand of type `found`, which fits, as one of type `wanted`.
    pub fn stand(&mut self, op: Operand, found: TypeId, wanted: TypeId, site: u32) -> Operand {
        stand(&mut self.cx.program, &mut self.b, op, found, wanted, Site(site))
    }

    /// Returns the error E0202.
    pub fn mismatch(&self, found: TypeId, wanted: TypeId, span: Span) -> Diagnostic {
        let types = &self.cx.program.types;
        let (wanted_name, found_name) = (types.name(wanted), types.name(found));
        let message = format!("expected `{wanted_name}`, found `{found_name}`");
        let mut diagnostic = Diagnostic::error(Code::E0202, span, message);
        let convert = types.def(found).methods.values().find(|m| {
            let s = &m.signature;
            let named = m.name.starts_with("to_") || m.name == "unparse" || m.name == "value";
            named && s.params.is_empty() && s.yields.is_none() && s.results == [wanted]
        });
        diagnostic.help = match convert {
            _ if found == Types::NULL => Some(match types.kind(wanted) {
                TypeKind::Maybe(inner) => format!("absence is written `none[{}]()`", types.name(inner)),
                _ => format!(
                    "a value cannot be absent: use `maybe[{wanted_name}]`, with `none[{wanted_name}]()`"
                ),
            }),
            Some(m) => {
                let heading = Signature { results: vec![], ..m.signature.clone() };
                Some(format!("`{found_name}` has `{}`", types.heading(&m.name, &heading)))
            }
            None if types.kind(found).is_routine() => self.call_it(found, wanted),
            None if matches!(types.kind(wanted), TypeKind::Maybe(inner) if inner == found) => {
                Some("a present value is written `some(...)`".to_owned())
            }
            None => None,
        };
        diagnostic
    }

    /// Checks an expression that must have the type `wanted`.
    pub fn expect(&mut self, expr: &'a Expr, wanted: Option<TypeId>) -> Operand {
        let value = self.value(expr);
        self.convert(value, wanted, expr.span)
    }
}
