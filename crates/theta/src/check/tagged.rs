//! Records, structs, oneofs and `maybe`: their types, values and fields; `tagcase` and `typecase`
//! (sections 5, 7 and 8 of the definition).
//!
//! The types and classes behind them are `bifrost_ir::tagged`'s; here they are named, constructed
//! and taken apart.
//!
//! Read [`Checker::resolve_tagged`] first for types, and [`Body::tagcase`] for statements.

use std::borrow::Cow;

use bifrost_ir::{
    Block, Callee, Const, Field, Form, Operand, SignalId, Site, Stmt as IrStmt, TypeId, TypeKind, Types,
    boxed, tagged,
};
use smallvec::smallvec;

use super::body::{Body, Value};
use super::flow::Flow;
use super::items::MEMBERS_MAX;
use super::types::as_type;
use super::{Checker, Env};
use crate::ast::{self, Expr, Formal, Ident, Init, Stmt, TagArm, TypeArm, TypeExpr};
use crate::diagnostic::{Code, Diagnostic};
use crate::resolve::similar;
use crate::source::Span;

/// The greatest length of the types that one is made of, written out in full.
const NAME_BYTES_MAX: usize = 16 << 10;

impl Checker<'_> {
    /// `record[a: T, ...]` and the like.
    pub(crate) fn resolve_tagged(
        &mut self,
        env: &Env,
        written: &TypeExpr,
        form: Form,
        fields: &[Formal],
    ) -> Option<TypeId> {
        self.check_distinct(fields.iter().map(|field| &field.name));
        let types: Vec<Option<TypeId>> =
            fields.iter().map(|field| self.resolve_type(env, &field.ty)).collect();
        let types = types.into_iter().collect::<Option<Vec<TypeId>>>()?;
        for (at, field) in fields.iter().enumerate() {
            if fields[..at].iter().any(|f| f.name.name.eq_ignore_ascii_case(&field.name.name)) {
                return None;
            }
            let prefix = match form {
                Form::Record => "set_",
                Form::Struct => "replace_",
                Form::OneOf => continue,
            };
            let accessor = format!("{prefix}{}", field.name);
            if let Some(other) = fields.iter().find(|f| *f.name.name == *accessor) {
                let message = format!("`{accessor}` is also the method for the field `{}`", field.name);
                let diagnostic = Diagnostic::error(Code::E0209, other.name.span, message);
                self.report(diagnostic.help("choose another name"));
                return None;
            }
        }
        if !self.may_add_type(written.span) {
            return None;
        }
        self.fits_limits(fields.len(), &types, written.span)?;
        let parts = fields.iter().zip(types);
        let parts = parts.map(|(field, ty)| Field { name: field.name.name.to_string(), ty }).collect();
        let before = self.program.types.len();
        let ty = self.program.types.structured(form, parts);
        // The classes of a oneof have two methods for each tag.
        let methods = 2 * fields.len() * if form == Form::OneOf { 1 + fields.len() } else { 2 };
        let fits = self.program.types.len() == before || self.may_add_methods(methods, written.span);
        fits.then_some(ty)
    }

    /// Reports a type made of too many parts, or of parts that nest too deep.
    pub(crate) fn fits_limits(&mut self, count: usize, types: &[TypeId], span: Span) -> Option<()> {
        if count > MEMBERS_MAX {
            let message = format!("this type has more than {MEMBERS_MAX} parts");
            self.report(Diagnostic::error(Code::E0109, span, message).help("split it into several"));
            return None;
        }
        let bytes = types.iter().map(|ty| self.program.types.name(*ty).len()).sum::<usize>();
        if bytes > NAME_BYTES_MAX {
            let message = "this type, written out in full, is too long";
            let help = "define a part of it by `type`";
            self.report(Diagnostic::error(Code::E0109, span, message).help(help));
            return None;
        }
        self.fits_depth(types, span)
    }
}

/// An arm of `tagcase` or `typecase` that was checked: its test, and the block it runs.
enum Choice {
    /// The object has the type of the variable.
    Type(bifrost_ir::Var, Block),
    /// A truth value was computed before.
    Test(Operand, Block),
}

impl<'a> Body<'_, 'a> {
    /// Returns the fields of a record or struct, if `ty` is one.
    pub fn fields_of(&self, ty: TypeId) -> Option<Cow<'_, [Field]>> {
        match self.cx.program.types.kind(ty) {
            TypeKind::Record(_) | TypeKind::Struct(_) => self.cx.program.types.structure(ty),
            _ => None,
        }
    }

    /// Returns the tags of a oneof or `maybe`, if `ty` is one.
    fn tags_of(&self, ty: TypeId) -> Option<Vec<Field>> {
        match self.cx.program.types.kind(ty) {
            TypeKind::OneOf(_) | TypeKind::Maybe(_) => {
                self.cx.program.types.structure(ty).map(Cow::into_owned)
            }
            _ => None,
        }
    }

    /// `r.a` of a record or struct; `None` if there is no such field.
    pub fn field_value(&mut self, object: Value, name: &Ident) -> Option<Value> {
        let ty = object.ty?;
        self.fields_of(ty)?.iter().find(|f| *f.name == *name.name)?;
        let op = self.call_method(ty, &name.name, vec![object.op], name.span.start);
        let field = self.fields_of(ty)?.iter().find(|f| *f.name == *name.name)?.ty;
        Some(Value { op, ty: self.cx.known(field) })
    }

    /// Returns the type of a record's field, to store into it; reports E0306 for that of a struct.
    /// `None` if there is no such field.
    pub fn stored_field(&mut self, ty: TypeId, name: &Ident, target: Span) -> Option<TypeId> {
        let field = self.fields_of(ty)?.iter().find(|f| *f.name == *name.name)?.ty;
        if matches!(self.cx.program.types.kind(ty), TypeKind::Struct(_)) {
            let message =
                format!("`{name}` belongs to an immutable type and is set only by a constructor or maker");
            let help = format!("build a new object instead: `….replace_{name}(…)`");
            self.report(Diagnostic::error(Code::E0306, target, message).help(help));
        }
        Some(field)
    }

    /// `record[...]{a: e}` and the like.
    pub fn tagged_value(&mut self, expr: &'a Expr, ty: &'a Expr, inits: &'a [Init]) -> Value {
        let env = self.env.clone();
        let resolved = match as_type(ty) {
            Some(written) => self.cx.resolve_type(&env, &written),
            None => {
                let diagnostic = Diagnostic::error(Code::E0208, ty.span, "this is not a type");
                self.report(diagnostic.help("`T{a: e}` makes a record, struct or oneof of type `T`"));
                None
            }
        };
        let structure = resolved.and_then(|ty| self.cx.program.types.structure(ty)).map(Cow::into_owned);
        let (Some(ty_id), Some(fields)) = (resolved, structure) else {
            for init in inits {
                self.value(&init.value);
            }
            if let Some(ty_id) = resolved {
                let message = format!("`{}` has neither fields nor tags", self.cx.type_name(ty_id));
                let class = self.cx.class_at.contains_key(&ty_id);
                let help = if class {
                    "write `{x := e}` for an object of a class"
                } else {
                    "call a routine that returns such an object"
                };
                self.report(Diagnostic::error(Code::E0208, ty.span, message).help(help));
            }
            return self.wrong();
        };
        let values = self.initialisers(ty_id, &fields, inits);
        let chosen = self.check_initialisers(expr.span, ty_id, &fields, &values, inits.len());
        let Some((tag, fields)) = chosen else { return self.wrong() };
        let class = tagged::class_of(&mut self.cx.program, ty_id, tag);
        let dst = self.b.temp(Some(ty_id));
        self.b.emit(IrStmt::New { dst, class, fields, site: Site(expr.span.start) });
        Value { op: dst.into(), ty: Some(ty_id) }
    }

    /// Returns the given values, by field or tag.
    fn initialisers(&mut self, ty: TypeId, fields: &[Field], inits: &'a [Init]) -> Vec<Option<Operand>> {
        let mut values: Vec<Option<Operand>> = vec![None; fields.len()];
        for init in inits {
            let Some(at) = fields.iter().position(|f| *f.name == *init.name.name) else {
                self.value(&init.value);
                if !init.name.name.is_empty() {
                    let diagnostic = self.no_part(ty, fields, &init.name, Code::E0214);
                    self.report(diagnostic);
                }
                continue;
            };
            let wanted = self.cx.known(fields[at].ty);
            let value = self.expect(&init.value, wanted);
            if values[at].replace(value).is_some() {
                let message = format!("`{}` is initialised twice", init.name);
                let diagnostic = Diagnostic::error(Code::E0214, init.name.span, message);
                self.report(diagnostic.help("leave one of them out"));
            }
        }
        values
    }

    /// Returns the error for a field or tag that a type does not have.
    pub fn no_part(&self, ty: TypeId, fields: &[Field], name: &Ident, code: Code) -> Diagnostic {
        let word = if self.fields_of(ty).is_some() { "field" } else { "tag" };
        let message = format!("`{}` has no {word} `{name}`", self.cx.type_name(ty));
        let mut diagnostic = Diagnostic::error(code, name.span, message);
        let close = similar(&name.name, fields.iter().map(|f| &*f.name));
        diagnostic.help = close.map(|n| format!("a similar name exists: `{n}`"));
        diagnostic
    }

    /// Returns the tag, and the instance variables of its class; all fields of a record or struct.
    fn check_initialisers(
        &mut self,
        span: Span,
        ty: TypeId,
        fields: &[Field],
        values: &[Option<Operand>],
        given_names: usize,
    ) -> Option<(usize, Vec<Operand>)> {
        let name = self.cx.type_name(ty);
        if self.fields_of(ty).is_some() {
            let missing: Vec<String> = (fields.iter().zip(values))
                .filter(|(_, value)| value.is_none())
                .map(|(field, _)| format!("`{}`", field.name))
                .collect();
            if let Some(first) = missing.first() {
                let plural = if missing.len() == 1 { "" } else { "s" };
                let message = format!("`{name}` needs initialiser{plural} for {}", missing.join(", "));
                let help = format!("add `{}: …`", first.trim_matches('`'));
                self.report(Diagnostic::error(Code::E0214, span, message).help(help));
                return None;
            }
            return Some((0, values.iter().copied().flatten().collect()));
        }
        let mut given = values.iter().enumerate().filter_map(|(at, value)| Some((at, (*value)?)));
        match (given.next(), given.next()) {
            (Some((at, value)), None) => {
                let null = fields[at].ty == Types::NULL;
                Some((at, if null { vec![] } else { vec![value] }))
            }
            // Another name was given, which has been reported.
            (None, _) if given_names > 0 => None,
            (first, _) => {
                let message = match first {
                    Some(_) => format!("a value of `{name}` has one tag, not several"),
                    None => format!("a value of `{name}` needs a tag"),
                };
                let example = fields.first().map_or("tag", |f| &*f.name);
                let help = format!("write one of them: `{{{example}: …}}`");
                self.report(Diagnostic::error(Code::E0214, span, message).help(help));
                None
            }
        }
    }

    /// `tagcase`: a chain over the classes of the tags.
    pub fn tagcase(&mut self, subject: &'a Expr, arms: &'a [TagArm], others: Option<&'a [Stmt]>, head: Span) {
        let value = self.value(subject);
        let tags = value.ty.and_then(|ty| self.tags_of(ty));
        if let (Some(ty), None) = (value.ty, &tags) {
            let message = format!("`tagcase` needs a `oneof` or `maybe`, not a `{}`", self.cx.type_name(ty));
            self.report(Diagnostic::error(Code::E0202, subject.span, message));
        }
        let known = value.ty.zip(tags);
        let mut covered = vec![false; known.as_ref().map_or(0, |(_, tags)| tags.len())];
        let mut after = Flow::nowhere();
        let mut choices = vec![];
        for arm in arms {
            if !self.may_nest(head) {
                break;
            }
            let chosen = match &known {
                Some((ty, tags)) => self.arm_tags(*ty, tags, arm, &mut covered),
                None => vec![],
            };
            let (choice, flow) = self.tag_arm(value, known.as_ref().map(|(_, t)| &**t), arm, &chosen);
            after.join(flow);
            choices.push(choice);
            self.b.open();
        }
        if let (Some((_, tags)), None) = (&known, others) {
            let missing: Vec<&str> =
                tags.iter().zip(&covered).filter(|(_, c)| !**c).map(|(tag, _)| &*tag.name).collect();
            self.check_covered(&missing, head);
        }
        self.finish_choices(value, choices, others, after);
    }

    /// Reports E0305.
    fn check_covered(&mut self, missing: &[&str], head: Span) {
        if missing.is_empty() {
            return;
        }
        let plural = if missing.len() == 1 { "" } else { "s" };
        let list: Vec<String> = missing.iter().map(|tag| format!("`{tag}`")).collect();
        let message = format!("`tagcase` does not cover tag{plural} {}", list.join(", "));
        let help = format!("add `when {}:` or `others:`", missing.join(", "));
        self.report(Diagnostic::error(Code::E0305, head, message).help(help));
    }

    /// Returns the positions of the tags that an arm names.
    fn arm_tags(&mut self, ty: TypeId, tags: &[Field], arm: &'a TagArm, covered: &mut [bool]) -> Vec<usize> {
        let mut chosen = vec![];
        for name in arm.tags.iter().filter(|name| !name.name.is_empty()) {
            match tags.iter().position(|tag| *tag.name == *name.name) {
                None => {
                    let diagnostic = self.no_part(ty, tags, name, Code::E0201);
                    self.report(diagnostic);
                }
                Some(at) if covered[at] => {
                    let message = format!("this arm cannot match: tag `{name}` has an arm before it");
                    self.report(
                        Diagnostic::error(Code::E0310, name.span, message).help("leave one of them out"),
                    );
                }
                Some(at) => {
                    covered[at] = true;
                    chosen.push(at);
                }
            }
        }
        chosen
    }

    /// Checks one arm, and joins the flow state at its end.
    fn tag_arm(
        &mut self,
        subject: Value,
        tags: Option<&[Field]>,
        arm: &'a TagArm,
        chosen: &[usize],
    ) -> (Choice, Flow) {
        let ty = arm.var.as_ref().and_then(|var| {
            let env = self.env.clone();
            self.cx.resolve_type(&env, &var.ty)
        });
        if let (Some(ty), Some(var), Some(tags)) = (ty, &arm.var, tags) {
            let misfit = chosen.iter().find(|at| !self.cx.fits(tags[**at].ty, ty));
            if let Some(at) = misfit {
                let diagnostic = self.mismatch(tags[*at].ty, ty, var.ty.span);
                self.report(diagnostic);
            }
        }
        let before = self.flow.clone();
        let several = chosen.len() > 1;
        // With several tags the choice is made first, and the value fetched once more by tag.
        let test = several.then(|| self.any_of(subject, chosen));
        self.b.open();
        self.enter();
        let object = if several { None } else { chosen.first().map(|at| self.tag_object(subject, *at)) };
        if let Some(var) = &arm.var {
            let var = self.declare_assigned(&var.name, ty);
            let tag_types: Vec<TypeId> = tags.into_iter().flatten().map(|tag| tag.ty).collect();
            match (object, chosen) {
                (Some(object), [at]) => self.tag_value(subject, *at, tag_types[*at], object, (var, ty)),
                _ => self.value_of_any(subject, chosen, &tag_types, (var, ty)),
            }
        }
        self.statements(&arm.body);
        self.exit();
        let then = self.b.close();
        let flow = std::mem::replace(&mut self.flow, before);
        let choice = match (test, object) {
            (Some(test), _) => Choice::Test(test, then),
            (None, Some(object)) => Choice::Type(object, then),
            (None, None) => Choice::Test(Operand::Const(Const::Bool(false)), then),
        };
        (choice, flow)
    }

    /// Returns a variable for an object that has the tag at a position.
    fn tag_object(&mut self, subject: Value, at: usize) -> bifrost_ir::Var {
        let own = subject.ty.map(|ty| {
            let class = tagged::class_of(&mut self.cx.program, ty, at);
            self.cx.program.classes[class].ty
        });
        self.b.temp(own)
    }

    /// Puts the value of a tag into a variable.
    fn tag_value(
        &mut self,
        subject: Value,
        at: usize,
        tag: TypeId,
        object: bifrost_ir::Var,
        (dst, wanted): (bifrost_ir::Var, Option<TypeId>),
    ) {
        let (Some(ty), Some(wanted)) = (subject.ty, wanted) else { return };
        let value = if tag == Types::NULL {
            Operand::Const(Const::Nil)
        } else {
            let class = tagged::class_of(&mut self.cx.program, ty, at);
            let value = self.b.temp(Some(tag));
            self.b.emit(IrStmt::Get { dst: value, object: object.into(), class, field: 0 });
            value.into()
        };
        let value = self.stand(value, tag, wanted, 0);
        self.b.assign(dst, value);
    }

    /// Returns an operand that is true if the subject has one of several tags.
    fn any_of(&mut self, subject: Value, chosen: &[usize]) -> Operand {
        let test = self.b.temp(Some(Types::BOOL));
        self.b.assign(test, Operand::Const(Const::Bool(false)));
        for at in chosen {
            let var = self.tag_object(subject, *at);
            self.b.open();
            self.b.assign(test, Operand::Const(Const::Bool(true)));
            let then = self.b.close();
            self.b.emit(IrStmt::TypeIf { object: subject.op, var, then, otherwise: Block::default() });
        }
        test.into()
    }

    /// Puts the value of whichever tag the subject has into a variable; it has one of them.
    fn value_of_any(
        &mut self,
        subject: Value,
        chosen: &[usize],
        tags: &[TypeId],
        dst: (bifrost_ir::Var, Option<TypeId>),
    ) {
        let mut found = vec![];
        for at in chosen {
            let object = self.tag_object(subject, *at);
            self.b.open();
            self.tag_value(subject, *at, tags[*at], object, dst);
            found.push((object, self.b.close()));
            self.b.open();
        }
        self.fail("no tag fits");
        for (var, then) in found.into_iter().rev() {
            let otherwise = self.b.close();
            self.b.emit(IrStmt::TypeIf { object: subject.op, var, then, otherwise });
        }
    }

    fn fail(&mut self, text: &str) {
        let text = self.cx.program.literal(text);
        let values = smallvec![Operand::Const(Const::Str(text))];
        self.b.emit(IrStmt::Signal { signal: SignalId::FAILURE, values, site: Site::default() });
    }

    /// Returns true if one more block may be opened inside this one; reports if not.
    fn may_nest(&mut self, span: Span) -> bool {
        let room = self.b.depth() + 4 < bifrost_ir::verify::DEPTH_MAX;
        if !room {
            let message = "blocks are nested too deep, and each arm counts";
            let help = "move an inner part to a routine of its own";
            self.report(Diagnostic::error(Code::E0109, span, message).help(help));
        }
        room
    }

    /// Writes the chain of choices, from the last one; for each a block for the choices behind it
    /// is open.
    fn finish_choices(
        &mut self,
        subject: Value,
        choices: Vec<Choice>,
        others: Option<&'a [Stmt]>,
        mut after: Flow,
    ) {
        match others {
            Some(body) => {
                self.enter();
                self.statements(body);
                self.exit();
            }
            None => {
                self.fail("no arm fits");
                self.flow.leave();
            }
        }
        after.join(std::mem::replace(&mut self.flow, Flow::nowhere()));
        self.flow = after;
        for choice in choices.into_iter().rev() {
            let otherwise = self.b.close();
            self.b.emit(match choice {
                Choice::Type(var, then) => IrStmt::TypeIf { object: subject.op, var, then, otherwise },
                Choice::Test(test, then) => IrStmt::If { test, then, otherwise },
            });
        }
    }

    /// `typecase`: a chain over types.
    pub fn typecase(
        &mut self,
        subject: &'a Expr,
        arms: &'a [TypeArm],
        others: Option<&'a [Stmt]>,
        head: Span,
    ) {
        let value = self.value(subject);
        let ty = value.ty.filter(|ty| !self.cx.program.types.kind(*ty).is_basic());
        if let (Some(ty), None) = (value.ty, ty) {
            let message = format!("`typecase` needs an object, not a `{}`", self.cx.type_name(ty));
            self.report(Diagnostic::error(Code::E0202, subject.span, message));
        }
        let mut after = Flow::nowhere();
        let mut choices = vec![];
        let mut before: Vec<TypeId> = vec![];
        for arm in arms {
            if !self.may_nest(head) {
                break;
            }
            let env = self.env.clone();
            let wanted = self.cx.resolve_type(&env, &arm.ty);
            if let (Some(ty), Some(wanted)) = (ty, wanted) {
                self.check_arm(ty, wanted, &before, &arm.ty);
            }
            before.extend(wanted);
            let flow = self.flow.clone();
            self.b.open();
            self.enter();
            let var = self.type_arm_variable(arm, wanted);
            self.statements(&arm.body);
            self.exit();
            let then = self.b.close();
            after.join(std::mem::replace(&mut self.flow, flow));
            choices.push(Choice::Type(var, then));
            self.b.open();
        }
        self.finish_choices(value, choices, others, after);
    }

    /// Returns the variable that stands for the object in an arm, after emitting the code that
    /// makes the arm's own variable of it.
    fn type_arm_variable(&mut self, arm: &'a TypeArm, wanted: Option<TypeId>) -> bifrost_ir::Var {
        let basic = wanted.filter(|ty| self.cx.program.types.kind(*ty).is_basic());
        let named = arm.var.as_ref().map(|name| self.declare_assigned(name, wanted));
        let Some(basic) = basic else { return named.unwrap_or_else(|| self.b.temp(wanted)) };
        let class = boxed::class_of(&mut self.cx.program, basic);
        let own = self.cx.program.classes[class].ty;
        let object = self.b.temp(Some(own));
        if let Some(dst) = named {
            self.b.emit(IrStmt::Get { dst, object: object.into(), class, field: boxed::VALUE });
        }
        object
    }

    /// Reports E0310 for an arm that no object can come to.
    fn check_arm(&mut self, ty: TypeId, wanted: TypeId, before: &[TypeId], written: &ast::TypeExpr) {
        let types = &self.cx.program.types;
        let (name, arm) = (types.name(ty), types.name(wanted));
        let (why, help) = if wanted == ty {
            (format!("every object here is a `{arm}`"), "write `others:`".to_owned())
        } else if !self.cx.below(wanted, ty) && ty != Types::ANY {
            (format!("`{arm}` is not a subtype of `{name}`"), format!("name a subtype of `{name}`"))
        } else if let Some(above) = before.iter().find(|above| self.cx.below(wanted, **above)) {
            let above = types.name(*above);
            (
                format!("an arm for `{above}` is before it"),
                "place subtypes before their supertypes".to_owned(),
            )
        } else {
            return;
        };
        let message = format!("this arm cannot match: {why}");
        self.report(Diagnostic::error(Code::E0310, written.span, message).help(help));
    }

    /// Stores a field of a record.
    pub fn store_field(&mut self, object: Operand, ty: TypeId, name: &str, value: Operand, site: u32) {
        let Some(method) = self.cx.program.types.find_method(ty, &format!("set_{name}")) else { return };
        self.b.call(Callee::Method(method), [object, value], [], site);
    }
}
