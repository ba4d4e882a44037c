//! Declarations and assignments.
//!
//! Objects and indexes of the left sides are evaluated first, then the right sides, then everything
//! is stored, each from left to right (section 16 of the definition).

use bifrost_ir::{ClassId, Operand, Stmt as IrStmt, TypeId, TypeKind, Types, Var};

use super::body::{Body, Role, Value};
use super::flow::Slot;
use crate::ast::{Expr, ExprKind, Ident, Stmt, TypeExpr};
use crate::diagnostic::{Code, Diagnostic};
use crate::source::Span;

/// A place to store a value, its object and indexes evaluated already.
enum Place<'a> {
    Var {
        var: Var,
        slot: Slot,
        ty: Option<TypeId>,
    },
    Field {
        object: Operand,
        class: ClassId,
        field: u32,
        ty: Option<TypeId>,
    },
    /// A field of a record.
    Part {
        object: Operand,
        ty: TypeId,
        name: &'a Ident,
        field: TypeId,
    },
    Element {
        object: Value,
        indexes: Vec<(Value, Span)>,
        span: Span,
    },
    Wrong,
}

impl<'a> Body<'_, 'a> {
    /// Returns the values on the right side for `count` places; one call may give several.
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

    pub fn wrong_count(&mut self, found: usize, wanted: usize, span: Span) {
        let plural = |n: usize| if n == 1 { "" } else { "s" };
        let message = format!("{wanted} variable{}, but {found} value{}", plural(wanted), plural(found));
        self.report(Diagnostic::error(Code::E0210, span, message));
    }

    pub fn declaration(&mut self, stmt: &'a Stmt, names: &'a [Ident], ty: &'a TypeExpr, values: &'a [Expr]) {
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

    pub fn assignment(&mut self, stmt: &'a Stmt, targets: &'a [Expr], values: &'a [Expr]) {
        let places: Vec<Place<'a>> = targets.iter().map(|target| self.place(target)).collect();
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

    fn place(&mut self, target: &'a Expr) -> Place<'a> {
        match &target.kind {
            ExprKind::Name(name) => {
                if let Some(local) = self.local(&name.name) {
                    return Place::Var { var: local.var, slot: local.slot, ty: local.ty };
                }
                let this = self.state.as_ref().map_or(Var::from_u32(0), |state| state.object);
                if let Some((field, ty)) = self.own_ivar(&name.name).map(|(field, ivar)| (field, ivar.ty)) {
                    let at = self.own_class().unwrap_or(0);
                    return self.field(target, &name.name, at, this.into(), field, ty);
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
                let value = self.state_in(value, name);
                let Some(ty) = value.ty else { return Place::Wrong };
                match self.visible_ivar(ty, &name.name).filter(|_| self.has_state(value.op, ty)) {
                    Some((at, field, ty)) => self.field(target, &name.name, at, value.op, field, ty),
                    None if let Some(field) = self.stored_field(ty, name, target.span) => {
                        Place::Part { object: value.op, ty, name, field }
                    }
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
                match &target.kind {
                    ExprKind::SelfValue => {}
                    ExprKind::Call { callee, args } => drop(self.call(target, callee, args)),
                    _ => drop(self.value(target)),
                }
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
    ) -> Place<'a> {
        let Some((class, immutable)) = self.cx.classes[at].as_ref().map(|info| (info.id, info.immutable))
        else {
            return Place::Wrong;
        };
        if self.role == Role::Script && self.class == Some(at) && self.is_functional() {
            let actor = &self.cx.class_ast(at).name;
            let message = format!("`{actor}` is functional; `{name}` may be set only by `new`");
            let help = "drop `functional`, or pass the value as an argument";
            self.report(Diagnostic::error(Code::E0405, target.span, message).help(help));
        }
        if immutable {
            let message =
                format!("`{name}` belongs to an immutable type and is set only by a constructor or maker");
            let diagnostic =
                Diagnostic::error(Code::E0306, target.span, message).help("build a new object instead");
            self.report(diagnostic);
        }
        Place::Field { object, class, field, ty }
    }

    /// Reports E0409: a value that a transaction assigns to a variable outside it would outlive it.
    fn check_leak(&mut self, slot: Slot, value: Value, span: Span) {
        if self.repeats {
            // The result of a turn is a copy already.
            return;
        }
        let (Some(transaction), Some(ty)) = (&self.transaction, value.ty) else { return };
        let Some(local) = self.locals[..transaction.outside].iter().find(|local| local.slot == slot) else {
            return;
        };
        if self.cx.is_sendable(ty) {
            return;
        }
        self.report_leak(&local.name.clone(), ty, span);
    }

    /// Does the same for an instance variable of an actor, which is outside all its transactions.
    fn check_leak_of_state(&mut self, object: Operand, class: ClassId, field: u32, value: Value, span: Span) {
        let own = self.role == Role::Script && object == Operand::Var(Var::from_u32(0));
        let Some(ty) = value.ty.filter(|ty| own && self.transaction.is_some() && !self.cx.is_sendable(*ty))
        else {
            return;
        };
        let name = self.cx.program.classes[class].fields[field as usize].name.clone();
        self.report_leak(&name, ty, span);
    }

    fn report_leak(&mut self, name: &str, ty: TypeId, span: Span) {
        let ty = self.cx.type_name(ty);
        let message = format!("`{name}` is declared outside this transaction, which a `{ty}` cannot leave");
        let help =
            format!("declare `{name}` in the transaction, or assign an immutable part, such as a `string`");
        self.report(Diagnostic::error(Code::E0409, span, message).help(help));
    }

    /// Returns true if a value fits an element of a local array or vector as it is.
    fn is_reply_for_element(&self, object: Value, index: Value, value: Value) -> bool {
        let types = &self.cx.program.types;
        let element = object.ty.and_then(|ty| match types.kind(ty) {
            TypeKind::Array(element) | TypeKind::Vector(element) => Some(element),
            _ => None,
        });
        let local = self.locals.iter().any(|local| Operand::Var(local.var) == object.op);
        let fits = element.zip(value.ty).is_some_and(|(element, ty)| types.is_subtype(ty, element));
        local && fits && index.ty == Some(Types::INT)
    }

    fn store(&mut self, place: Place<'a>, value: Value, span: Span) {
        match place {
            Place::Var { var, slot, ty } => {
                self.check_leak(slot, value, span);
                let op = self.convert(value, ty, span);
                self.b.assign(var, op);
                self.flow.assign(slot);
            }
            Place::Field { object, class, field, ty } => {
                self.check_leak_of_state(object, class, field, value, span);
                let value = self.convert(value, ty, span);
                self.b.emit(IrStmt::Set { object, class, field, value });
            }
            Place::Part { object, ty, name, field } => {
                let value = self.convert(value, self.cx.known(field), span);
                self.store_field(object, ty, &name.name, value, name.span.start);
            }
            Place::Element { object, mut indexes, span: place } => {
                if let (Operand::Var(array), [(index, _)]) = (object.op, indexes.as_slice())
                    && self.is_reply_for_element(object, *index, value)
                    && self.b.request_element(value.op, array, index.op)
                {
                    let store = object.ty.and_then(|ty| self.method_of(ty, "store"));
                    if let Some(signature) = store.map(|store| self.heading_of(store)) {
                        self.raise(&signature);
                    }
                    return;
                }
                indexes.push((value, span));
                self.operator(object, "store", indexes, place, place);
            }
            Place::Wrong => {}
        }
    }
}
