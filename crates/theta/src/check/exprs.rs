//! Expressions, evaluated from left to right.
//!
//! Read [`Body::value`] first: it checks an expression, writes its code, and returns the operand
//! with its type. Calls are in `calls`, constructors in `objects`. Names, selections, indexes and
//! operators are here.

use bifrost_ir::{Callee, Const, Operand, Stmt, TypeId, TypeKind, Types, Var, builtin};

use super::Equate;
use super::body::{Body, Role, Value};
use super::calls::Target;
use crate::ast::{Binary, Expr, ExprKind, Ident, Unary};
use crate::diagnostic::{Code, Diagnostic};
use crate::lower::nothing;
use crate::resolve::Def;
use crate::source::Span;

impl<'a> Body<'_, 'a> {
    /// Returns the one value of an expression.
    pub fn value(&mut self, expr: &'a Expr) -> Value {
        let value = self.value_of(expr);
        self.unknown_values += usize::from(value.ty.is_none());
        value
    }

    fn value_of(&mut self, expr: &'a Expr) -> Value {
        match &expr.kind {
            ExprKind::Int(v) => self.constant(Const::Int(*v), Types::INT),
            ExprKind::Real(v) => self.constant(Const::Real(v.to_bits()), Types::REAL),
            ExprKind::Char(v) => self.constant(Const::Char(*v), Types::CHAR),
            ExprKind::Bool(v) => self.constant(Const::Bool(*v), Types::BOOL),
            ExprKind::Nil => self.constant(Const::Nil, Types::NULL),
            ExprKind::Str(v) => {
                let literal = self.cx.program.literal(v);
                self.constant(Const::Str(literal), Types::STRING)
            }
            ExprKind::Paren(inner) => self.value(inner),
            ExprKind::Name(name) => self.name(name),
            ExprKind::SelfValue => self.self_value(expr.span),
            ExprKind::Unary { op, operand } => self.unary(expr, *op, operand),
            ExprKind::Binary { op, op_span, left, right } => self.binary(expr, *op, *op_span, left, right),
            ExprKind::Select { object, name } => self.select(object, name),
            ExprKind::Call { callee, args } => match self.call(expr, callee, args) {
                Some(results) => self.only(results, expr.span),
                None => self.wrong(),
            },
            ExprKind::Index { object, args } => self.index(expr, object, args),
            ExprKind::Construct { class, inits, maker } => self.construct(expr, class, inits, maker.as_ref()),
            ExprKind::Type(ty) => {
                let env = self.env.clone();
                if self.cx.resolve_type(&env, ty).is_some() {
                    self.not_a_value(expr.span);
                }
                self.wrong()
            }
            ExprKind::Replyto => self.reply_destination(expr.span),
            ExprKind::Tagged { ty, fields } => self.tagged_value(expr, ty, fields),
            ExprKind::New { actor, args, place } => self.new_actor(expr, actor, args, place),
            ExprKind::Bind { callee, args } => self.bind(expr, callee, args),
            ExprKind::Error => self.wrong(),
        }
    }

    fn constant(&self, value: Const, ty: TypeId) -> Value {
        Value { op: Operand::Const(value), ty: Some(ty) }
    }

    fn not_a_value(&mut self, span: Span) {
        let text = self.cx.sources.slice(span);
        self.report(Diagnostic::error(Code::E0208, span, format!("`{text}` is a type, not a value")));
    }

    /// Returns the one value of a call; E0210 if there are more or fewer.
    fn only(&mut self, results: Vec<Value>, span: Span) -> Value {
        if let [value] = results.as_slice() {
            return *value;
        }
        let message = match results.len() {
            0 => "this call returns no value".to_owned(),
            n => format!("this call returns {n} values where one is needed"),
        };
        let mut diagnostic = Diagnostic::error(Code::E0210, span, message);
        if results.len() > 1 {
            diagnostic = diagnostic.help("assign them to variables: `a, b: T := …`");
        }
        self.report(diagnostic);
        self.wrong()
    }

    fn self_value(&mut self, span: Span) -> Value {
        let ty = self.class.and_then(|at| self.cx.classes[at].as_ref()).map(|info| info.ty);
        match self.role {
            Role::Method | Role::Then | Role::Script | Role::Condition => {
                Value { op: Operand::Var(bifrost_ir::Var::from_u32(0)), ty }
            }
            Role::Routine => {
                let message = "`self` exists only in methods";
                self.report(
                    Diagnostic::error(Code::E0208, span, message).help("pass the object as an argument"),
                );
                self.wrong()
            }
            Role::Creator => {
                let message = "`self` exists only in methods";
                let help = "the actor exists after `new`";
                self.report(Diagnostic::error(Code::E0208, span, message).help(help));
                self.wrong()
            }
            Role::Maker => {
                let message = "`self` exists only after `then`";
                self.report(
                    Diagnostic::error(Code::E0208, span, message).help("write `make {…} then … end`"),
                );
                self.wrong()
            }
        }
    }

    /// Checks a bare name: local, instance variable, then item.
    pub fn name(&mut self, name: &Ident) -> Value {
        if name.name.is_empty() {
            return self.wrong();
        }
        if let Some(local) = self.local(&name.name) {
            let (var, slot, ty) = (local.var, local.slot, local.ty);
            if !self.flow.is_assigned(slot) {
                let message = format!("`{name}` may be used before it has a value");
                let help = "assign it on every path, for example at its declaration";
                self.report(Diagnostic::error(Code::E0301, name.span, message).help(help));
                // One report for each variable is enough.
                self.flow.assign(slot);
            }
            return Value { op: var.into(), ty };
        }
        if let Some((field, ty)) = self.own_ivar(&name.name).map(|(field, ivar)| (field, ivar.ty)) {
            let this = match &self.state {
                Some(state) => Value { op: state.object.into(), ty: None },
                None => self.self_value(name.span),
            };
            let at = self.own_class().unwrap_or(0);
            return self.get(this, at, field, ty);
        }
        if self.env.parm(&name.name).is_some() {
            self.not_a_value(name.span);
            return self.wrong();
        }
        match self.cx.names.lookup(self.env.scope, &name.name).map(|entry| entry.def) {
            Some(Def::Equate(at)) => match self.cx.equate(&self.env, at) {
                Equate::Constant(value) => {
                    let op = self.cx.constant_operand(&value);
                    self.constant(op, value.ty())
                }
                Equate::Type(_) => {
                    self.not_a_value(name.span);
                    self.wrong()
                }
                _ => self.wrong(),
            },
            Some(Def::Routine(_) | Def::Native(_)) => self.named_routine(name),
            Some(Def::Type(_) | Def::Class(_)) => {
                self.not_a_value(name.span);
                self.wrong()
            }
            None if crate::resolve::is_builtin_type(&name.name) => {
                self.not_a_value(name.span);
                self.wrong()
            }
            None if crate::resolve::is_builtin_routine(&name.name) => self.named_routine(name),
            None => {
                let diagnostic = self.unknown(name);
                self.report(diagnostic);
                self.wrong()
            }
        }
    }

    fn named_routine(&mut self, name: &Ident) -> Value {
        let found = self.named_callee(name);
        self.routine_value(found, name.span)
    }

    /// Reads the instance variable at `field` of an object of class `at`.
    fn get(&mut self, object: Value, at: usize, field: u32, ty: Option<TypeId>) -> Value {
        let Some(class) = self.cx.classes[at].as_ref().map(|info| info.id) else { return self.wrong() };
        let dst = self.b.temp(ty);
        self.b.emit(Stmt::Get { dst, object: object.op, class, field });
        Value { op: dst.into(), ty }
    }

    /// `o.x` without a call.
    fn select(&mut self, object: &'a Expr, name: &Ident) -> Value {
        let value = self.value(object);
        let value = self.state_in(value, name);
        let Some(ty) = value.ty.filter(|_| !name.name.is_empty()) else { return self.wrong() };
        if let Some((at, field, field_type)) =
            self.visible_ivar(ty, &name.name).filter(|_| self.has_state(value.op, ty))
        {
            return self.get(value, at, field, field_type);
        }
        if let Some(field) = self.field_value(value, name) {
            return field;
        }
        if self.method_of(ty, &name.name).is_some() {
            let found = self.method_callee(value, name);
            return self.routine_value(found, name.span);
        }
        match self.cx.program.types.kind(ty) {
            TypeKind::Replier(_) if &*name.name == "deliver" => self.misplaced_deliver(name.span),
            _ => {
                let diagnostic = self.no_selection(ty, name);
                self.report(diagnostic);
            }
        }
        self.wrong()
    }

    /// Returns true if code here may look at the instance variables of an object: those of an actor
    /// are its own.
    pub fn has_state(&self, object: Operand, ty: TypeId) -> bool {
        !self.is_actor(ty) || self.role.has_receiver() && object == Operand::Var(Var::from_u32(0))
    }

    /// Returns the error E0307 for an instance variable out of reach, E0201 for a name that does
    /// not exist.
    pub fn no_selection(&self, ty: TypeId, name: &Ident) -> Diagnostic {
        if let Some(fields) = self.fields_of(ty) {
            return self.no_part(ty, &fields, name, Code::E0201);
        }
        let types = &self.cx.program.types;
        let at = self.cx.class_at.get(&ty).copied();
        let owner = self.cx.classes.iter().flatten().find(|info| {
            let below = types.is_subtype(info.ty, ty);
            // The own type of a subclass hides the variables of its superclasses.
            let above = info.superclass_of(at, &self.cx.classes);
            (below || above) && info.ivar(&name.name).is_some()
        });
        match owner {
            Some(info) => {
                let class = &self.cx.program.classes[info.id].name;
                let message =
                    format!("`{name}` is an instance variable of class `{class}` and not visible here");
                let help = format!("an object of type `{}` has only its methods here", types.name(ty));
                Diagnostic::error(Code::E0307, name.span, message).help(help)
            }
            None => {
                let text = format!("type `{}` has no instance variable `{name}`", types.name(ty));
                let mut diagnostic = Diagnostic::error(Code::E0201, name.span, text);
                let own = at.and_then(|at| self.cx.classes[at].as_ref());
                let names = own.into_iter().flat_map(|info| info.ivars.iter().map(|ivar| &*ivar.name));
                diagnostic.help = crate::resolve::similar(&name.name, names)
                    .map(|n| format!("an instance variable with a similar name exists: `{n}`"))
                    .or_else(|| self.cx.similar_method(ty, &name.name));
                diagnostic
            }
        }
    }

    /// `p[...]` as a value: `p.fetch(...)`.
    fn index(&mut self, expr: &'a Expr, object: &'a Expr, args: &'a [Expr]) -> Value {
        if let ExprKind::Name(name) = &object.kind {
            if self.is_routine(name) {
                let found = self.instantiated_callee(expr, name, args);
                return self.routine_value(found, expr.span);
            }
            let local = self.local(&name.name).is_some() || self.own_ivar(&name.name).is_some();
            if !local && self.cx.names_type(&self.env, object) {
                self.not_a_value(expr.span);
                return self.wrong();
            }
        }
        let value = self.value(object);
        let args: Vec<(Value, Span)> = args.iter().map(|arg| (self.value(arg), arg.span)).collect();
        self.operator(value, "fetch", args, expr.span, expr.span)
    }

    /// Calls the method that an operator is short for.
    pub fn operator(
        &mut self,
        object: Value,
        method: &str,
        args: Vec<(Value, Span)>,
        op_span: Span,
        span: Span,
    ) -> Value {
        let Some(ty) = object.ty else { return self.wrong() };
        let Some(found) = self.method_of(ty, method) else {
            if let ("equal", true, [(other, other_span)]) = (method, self.is_actor(ty), args.as_slice()) {
                return self.same_actors((object, op_span), (*other, *other_span), span);
            }
            let mut diagnostic = self.no_method(ty, method, op_span);
            if let Some(help) = self.operator_help(ty, method, args.first().and_then(|(value, _)| value.ty)) {
                diagnostic.help = Some(help);
            }
            self.report(diagnostic);
            return self.wrong();
        };
        let signature = self.heading_of(found);
        if signature.params.len() != args.len() || signature.is_iterator() || signature.results.len() > 1 {
            let heading = self.cx.program.types.heading(method, &signature);
            let message = format!("`{method}` of `{}` does not fit this operator", self.cx.type_name(ty));
            self.report(Diagnostic::error(Code::E0203, op_span, message).help(format!("`{heading}`")));
            return self.wrong();
        }
        let mut operands = vec![object.op];
        let mut fits = true;
        for ((value, span), param) in args.into_iter().zip(&signature.params) {
            fits &= value.ty.is_none_or(|found| self.cx.fits(found, param.ty));
            operands.push(self.convert(value, Some(param.ty), span));
        }
        if !fits && signature.results == [ty] {
            // Perhaps it is the other side that is right.
            return self.wrong();
        }
        let target = Target {
            callee: Callee::Method(found),
            receiver: Some(object.op),
            signature: signature.clone(),
            name: method.to_owned(),
        };
        if let Some(message) = self.requested(&target) {
            let unsent = signature.params.iter().find(|param| !self.cx.is_sendable(param.ty));
            if let Some(param) = unsent {
                let text = format!("`{}` is mutable and private to this actor", self.cx.type_name(param.ty));
                let help = format!("call `{method}` by its name, with `clone` before the argument");
                self.report(Diagnostic::error(Code::E0401, span, text).help(help));
            }
            let reply = self.ask(span, message, &signature, operands);
            return reply.unwrap_or(Value { op: nothing(), ty: Some(Types::NULL) });
        }
        self.raise(&signature);
        let dsts: Vec<_> = signature.results.iter().map(|ty| self.b.temp(Some(*ty))).collect();
        self.b.call(target.callee, operands, dsts.iter().copied(), span.start);
        match (dsts.first(), signature.results.first()) {
            (Some(var), Some(ty)) => Value { op: (*var).into(), ty: self.cx.known(*ty) },
            _ => Value { op: nothing(), ty: Some(Types::NULL) },
        }
    }

    /// Returns the way to write an operation for which the type has no method, if people know it by
    /// another operator.
    fn operator_help(&self, ty: TypeId, method: &str, other: Option<TypeId>) -> Option<String> {
        let text = |ty: TypeId| self.cx.program.types.kind(ty) == TypeKind::String;
        let is_text = |ty: Option<TypeId>| ty.is_some_and(text);
        let join = |wrong: TypeId| {
            let name = self.cx.program.types.name(wrong);
            format!("strings are joined by `||`; a `{name}` becomes one by `unparse()`")
        };
        match method {
            "equal" if !self.cx.opaque.contains(&ty) => {
                Some("declare it, or compare identities with `same_object(a, b)`".to_owned())
            }
            "add" if text(ty) && other.is_none_or(text) => Some("strings are joined by `||`".to_owned()),
            "add" if text(ty) => other.map(join),
            "add" | "concat" if is_text(other) => Some(join(ty)),
            "concat" if ty == Types::BOOL => Some("or is written `|`; `||` joins strings".to_owned()),
            "concat" => Some("`||` joins strings; or of two `bool` is `|`".to_owned()),
            _ => None,
        }
    }

    /// `a = b` of actors that take no message `equal`: whether they are one.
    fn same_actors(&mut self, (a, a_span): (Value, Span), (b, b_span): (Value, Span), span: Span) -> Value {
        let other = b.ty.filter(|ty| !self.is_actor(*ty));
        if let (Some(found), Some(wanted)) = (other, a.ty) {
            let diagnostic = self.mismatch(found, wanted, b_span);
            self.report(diagnostic);
            return self.wrong();
        }
        let operands =
            [(a, a_span), (b, b_span)].map(|(value, at)| self.convert(value, Some(Types::ANY), at));
        let row = builtin::find_routine("same_object").expect("the routine is built in");
        let compared = builtin::instantiate(&mut self.cx.program, row, &[]);
        let dst = self.b.temp(Some(Types::BOOL));
        self.b.call(Callee::Routine(compared), operands, [dst], span.start);
        Value { op: dst.into(), ty: Some(Types::BOOL) }
    }

    fn unary(&mut self, expr: &'a Expr, op: Unary, operand: &'a Expr) -> Value {
        match (op, &operand.kind) {
            (Unary::Negate, ExprKind::Int(v)) => {
                return self.constant(Const::Int(v.wrapping_neg()), Types::INT);
            }
            (Unary::Negate, ExprKind::Real(v)) => {
                return self.constant(Const::Real((-v).to_bits()), Types::REAL);
            }
            (Unary::Send, _) => return self.misplaced_send(expr, operand),
            (Unary::Clone, _) => {
                let value = self.value(operand);
                return self.clone_of(value, expr.span);
            }
            _ => {}
        }
        let value = self.value(operand);
        let method = if op == Unary::Negate { "negate" } else { "bnot" };
        self.operator(value, method, vec![], expr.span, expr.span)
    }

    fn binary(
        &mut self,
        expr: &'a Expr,
        op: Binary,
        op_span: Span,
        left: &'a Expr,
        right: &'a Expr,
    ) -> Value {
        let object = self.value(left);
        if matches!(op, Binary::And | Binary::Or) && object.ty == Some(Types::BOOL) {
            return self.shortcut(op, object, right);
        }
        let argument = self.value(right);
        let answer = self.operator(object, op.method(), vec![(argument, right.span)], op_span, expr.span);
        if op != Binary::Ne || answer.ty.is_none() {
            return answer;
        }
        self.operator(answer, "bnot", vec![], op_span, expr.span)
    }

    /// `&` and `|` of `bool`: the right side is evaluated only if needed.
    fn shortcut(&mut self, op: Binary, left: Value, right: &'a Expr) -> Value {
        let result = self.b.temp(Some(Types::BOOL));
        self.b.open();
        let value = self.expect(right, Some(Types::BOOL));
        self.b.assign(result, value);
        let evaluated = self.b.close();
        self.b.open();
        self.b.assign(result, Operand::Const(Const::Bool(op == Binary::Or)));
        let known = self.b.close();
        let (then, otherwise) = if op == Binary::And { (evaluated, known) } else { (known, evaluated) };
        self.b.emit(Stmt::If { test: left.op, then, otherwise });
        Value { op: result.into(), ty: Some(Types::BOOL) }
    }
}
