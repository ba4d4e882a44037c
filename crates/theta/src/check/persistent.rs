//! Persistent actors: their turns, the expression `A.at(e)`, and the variables that a store can
//! have.
//!
//! The classes were replaced by their parts before (`crate::persistent`). Read [`Body::open_turn`]
//! first: it says which method is a turn and which the repetitions around one.

use bifrost_ir::{Callee, Operand, TypeId, TypeKind, Var};

use super::Checker;
use super::body::{Body, Role, Transaction, Value};
use super::calls::{Found, Target};
use crate::ast::{self, Expr, ExprKind, Ident};
use crate::diagnostic::{Code, Diagnostic};
use crate::persistent::{finder_of, turn_of};
use crate::resolve::Def;
use crate::source::Span;

/// The state of a persistent actor in a turn.
pub(crate) struct State {
    /// The variable that has the object.
    pub object: Var,
    /// Its class, by position.
    pub class: usize,
}

impl Checker<'_> {
    /// Returns true if the class at a position is a persistent actor.
    pub(crate) fn is_persistent(&self, at: usize) -> bool {
        self.class_ast(at).actor.as_ref().is_some_and(|actor| actor.persistent.is_some())
    }

    /// Reports E0412 for a second persistent actor of the same name: the store finds the actors of
    /// a class by its name.
    pub(crate) fn check_persistent(&mut self, at: usize) {
        if !self.is_persistent(at) {
            return;
        }
        let name = &self.class_ast(at).name;
        let mut before = self.names.classes.iter().take_while(|it| it.ast.name.span != name.span);
        let marked = |class: &ast::ClassDef| class.actor.as_ref().is_some_and(|it| it.persistent.is_some());
        if before.any(|it| it.ast.name.name == name.name && marked(it.ast)) {
            let message = format!("another persistent actor has the name `{name}`");
            let help = "choose another name: a store finds the actors of a class by its name";
            self.report(Diagnostic::error(Code::E0412, name.span, message).help(help));
        }
    }

    /// Reports E0412 for variables of a persistent actor that cannot be stored. The class is that
    /// of the state.
    pub(crate) fn check_stored_variables(&mut self, at: usize) {
        let Some(info) = &self.classes[at] else { return };
        let ast = self.class_ast(at);
        let is_state = |class: &ast::ClassDef| {
            class.actor.as_ref().is_some_and(|actor| actor.persistent.is_some())
                && class.name.span == ast.name.span
        };
        if ast.actor.is_some() || !self.names.classes.iter().any(|it| is_state(it.ast)) {
            return;
        }
        for ivar in info.ivars.clone() {
            let Some(never) = ivar.ty.and_then(|ty| self.never_stored(ty)) else { continue };
            let message =
                format!("`{}` cannot be stored, because `{}` cannot", ivar.name, self.type_name(never));
            let help = match self.program.types.def(never).actor {
                true => "store the name of a persistent actor, and find it with `at`",
                false => "use a type whose values can be stored",
            };
            self.report(Diagnostic::error(Code::E0412, ivar.span, message).help(help));
        }
    }

    /// Returns the type, this one or a part of it, whose values no store can have.
    fn never_stored(&self, ty: TypeId) -> Option<TypeId> {
        let kind = self.program.types.kind(ty);
        let never = self.program.types.def(ty).actor
            || kind.is_routine()
            || matches!(kind, TypeKind::Group(_) | TypeKind::Replier(_));
        match never {
            true => Some(ty),
            false => self.program.types.parts(ty).into_iter().find_map(|part| self.never_stored(part)),
        }
    }
}

impl<'a> Body<'_, 'a> {
    /// Opens the method of a persistent actor: a turn, which is in a transaction and has the state
    /// as its first argument, or the repetitions around one.
    pub fn open_turn(&mut self, heading: &ast::Heading) {
        if self.role != Role::Script || !self.class.is_some_and(|at| self.cx.is_persistent(at)) {
            return;
        }
        if !heading.name.name.starts_with('.') {
            self.repeats = true;
            return;
        }
        let ty = self.signature.params.first().map(|param| param.ty);
        let Some(class) = ty.and_then(|ty| self.cx.class_at.get(&ty).copied()) else { return };
        self.state = Some(State { object: Var::from_u32(1), class });
        self.transaction = Some(Transaction { span: heading.name.span, outside: 0 });
    }

    /// Returns the class whose variables bare names mean, by position.
    pub fn own_class(&self) -> Option<usize> {
        self.state.as_ref().map(|state| state.class).or(self.class)
    }

    /// Returns the state in place of the actor, if `name` is one of its variables.
    pub fn state_in(&self, value: Value, name: &Ident) -> Value {
        let Some(state) = &self.state else { return value };
        let info = self.cx.classes[state.class].as_ref();
        match info.filter(|info| info.ivar(&name.name).is_some()) {
            Some(info) if value.op == Operand::Var(Var::from_u32(0)) => {
                Value { op: state.object.into(), ty: Some(info.ty) }
            }
            _ => value,
        }
    }

    /// Lets a call of another method of the actor be a part of the turn.
    pub fn join_turn(&self, target: &mut Target, operands: &mut Vec<Operand>) {
        let Some(state) = &self.state else { return };
        let Callee::Method(method) = target.callee else { return };
        if target.receiver != Some(Operand::Var(Var::from_u32(0))) || !self.is_actor(method.ty) {
            return;
        }
        if let Some(turn) = self.cx.program.types.find_method(method.ty, &turn_of(&target.name)) {
            target.callee = Callee::Method(turn);
            operands.insert(1, state.object.into());
        }
    }

    /// Returns the routine that `A.at` means for a persistent actor `A`.
    pub fn persistent_finder(&mut self, object: &'a Expr, name: &Ident) -> Option<Found> {
        let ExprKind::Name(class) = &object.kind else { return None };
        if &*name.name != "at" || self.local(&class.name).is_some() || self.own_ivar(&class.name).is_some() {
            return None;
        }
        let Def::Class(def) = self.cx.names.lookup(self.env.scope, &class.name)?.def else { return None };
        let placed = &self.cx.names.classes[def];
        placed.ast.actor.as_ref()?.persistent?;
        let entry = self.cx.names.lookup(placed.home, &finder_of(&placed.ast.name.name))?;
        let Def::Routine(routine) = entry.def else { return None };
        let target = self.routine_target(routine, vec![], vec![], name.span);
        let target = target.map(|target| Target { name: format!("{class}.at"), ..target });
        Some(target.map_or(Found::Wrong, Found::Target))
    }

    /// Reports E0412 for `A.new` of a persistent actor, and returns true, but in the routine that
    /// finds it.
    pub fn is_made_by_hand(&mut self, expr: &Expr, at: usize) -> bool {
        if !self.cx.is_persistent(at) || self.name.starts_with('.') {
            return false;
        }
        let name = &self.cx.class_ast(at).name;
        let message = format!("persistent actor `{name}` is made by its first message");
        let help = format!("write `{name}.at(name)`, which finds the actor of a name");
        self.report(Diagnostic::error(Code::E0412, expr.span, message).help(help));
        true
    }

    /// Reports E0412 for something that a turn of a persistent actor does not do.
    pub fn report_in_turn(&mut self, span: Span, cannot: &str, help: &str) {
        let message = format!("a turn of a persistent actor {cannot}");
        self.report(Diagnostic::error(Code::E0412, span, message).help(help));
    }
}
