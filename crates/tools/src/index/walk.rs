//! The walk that finds the meaning of names in headings and bodies.
//!
//! Read [`Index::walk`] first. It goes over the trees of all files twice, first for headings and
//! then for bodies, with a [`Walk`] for each file. A `Walk` has the definitions and locals around
//! the place it is at, and notes each use of a name in the index. [`Index::link`] then joins
//! methods with those that they implement, restate or override. A name that is not found is left
//! out: nothing is reported.

use std::collections::HashMap;
use std::sync::Arc;

use bifrost_theta::ast::*;
use bifrost_theta::{FileId, Sources, Span};

use super::types::Bound;
use super::{Above, Def, DefId, Index, Kind, PRELUDE_FILE, Shape, Ty};

impl Index {
    /// Resolves headings first, so that bodies find all types, and then bodies.
    pub(super) fn walk(&mut self, sources: &Sources, trees: &[File]) {
        for bodies in [false, true] {
            for tree in trees {
                let mut walk =
                    Walk { index: self, sources, file: tree.id, around: vec![], locals: vec![], bodies };
                walk.items(&tree.items);
            }
        }
    }

    /// Joins methods with those that they implement, restate or override.
    pub(super) fn link(&mut self) {
        let mut pairs = vec![];
        for (id, def) in self.all() {
            let Some(parent) = def.parent else { continue };
            if !matches!(def.kind, Kind::Method | Kind::InstanceVariable) {
                continue;
            }
            let Shape::Type { above, .. } = &self.def(parent).shape else { continue };
            for (up, renames) in above {
                // A renamed method is another one here.
                if renames.iter().any(|(new, old)| *new == def.name || *old == def.name) {
                    continue;
                }
                if let Some((other, _)) = self.member(up, &def.name, false) {
                    pairs.push((id, other));
                }
            }
        }
        for (a, b) in pairs {
            self.same_name(a, b);
        }
        self.setters = self.all().flat_map(|(id, def)| self.setters(id, def)).collect();
    }

    /// Returns the methods `set_x` of types that a class implements by its variable `x`: neither
    /// written nor inherited.
    fn setters(&self, id: DefId, variable: &Def) -> Vec<(DefId, DefId)> {
        let parent = variable.parent.filter(|_| variable.kind == Kind::InstanceVariable);
        let Some(parent) = parent.map(|parent| self.def(parent)) else { return vec![] };
        let name = format!("set_{}", variable.name);
        let Shape::Type { above, .. } = &parent.shape else { return vec![] };
        if parent.members.contains_key(&*name) {
            return vec![];
        }
        let found = above.iter().filter_map(|(up, _)| Some((up, self.member(up, &name, false)?.0)));
        let found: Vec<(&Ty, DefId)> =
            found.filter(|(_, method)| self.def(*method).kind == Kind::Method).collect();
        let is_class = |up: &Ty| matches!(up, Ty::Named(up, _) if self.def(*up).kind == Kind::Class);
        if found.iter().any(|(up, _)| is_class(up)) {
            return vec![];
        }
        found.into_iter().map(|(_, method)| (id, method)).collect()
    }
}

struct Walk<'a> {
    index: &'a mut Index,
    sources: &'a Sources,
    file: FileId,
    /// Modules, types, classes, routines around the place, outermost first.
    around: Vec<DefId>,
    /// Locals and parameters in scope, by name.
    locals: Vec<(Arc<str>, DefId)>,
    /// True if this is the second pass.
    bodies: bool,
}

impl Walk<'_> {
    /// Returns the definition whose name stands at `span`.
    fn defined(&self, name: &Ident) -> Option<DefId> {
        let outer = self.around.last().and_then(|id| {
            let members = self.index.def(*id).members.get(&name.name);
            members.or_else(|| self.index.modules.get(id)?.names.get(&name.name)).copied()
        });
        let found = outer.or_else(|| self.index.scopes.get(&self.file)?.names.get(&name.name).copied())?;
        // The second of two definitions of one name has no entry.
        (self.index.def(found).span == name.span).then_some(found)
    }

    fn items(&mut self, items: &[Item]) {
        for item in items {
            let Some(id) = self.defined(item.name()) else { continue };
            match item {
                Item::Module(it) => self.within(id, |w| w.items(&it.items)),
                Item::Equate(it) if !self.bodies => self.equate(id, it),
                Item::Equate(_) => {}
                Item::Type(it) => self.within(id, |w| {
                    w.wheres(id, &it.wheres);
                    let above = it.supers.iter().map(|(ty, renames)| w.above(ty, renames)).collect();
                    w.shape(id, &it.parms, above);
                    w.equates(&it.equates);
                    for method in &it.methods {
                        w.method(method, None, |_| {});
                    }
                }),
                Item::Class(it) => self.within(id, |w| w.class(id, it)),
                Item::Routine(it) => {
                    self.heading(id, &it.heading, it.heading.span.to(it.end), |w| {
                        w.body(&it.body, it.end.end)
                    });
                }
                Item::NativeRoutine(it) => self.heading(id, &it.heading, it.heading.span, |_| {}),
            }
        }
    }

    fn class(&mut self, id: DefId, it: &ClassDef) {
        if !self.bodies {
            self.wheres(id, &it.wheres);
            let mut above: Vec<_> = vec![];
            above.extend(it.inherits.as_ref().map(|(ty, renames)| self.above(ty, renames)));
            above.extend(it.implements.iter().map(|ty| self.above(ty, &[])));
            self.shape(id, &it.parms, above);
            self.variables(&it.ivars);
            self.equates(&it.equates);
        }
        for name in it.provides.iter().chain(&it.hides) {
            if let Some(def) = self.index.def(id).members.get(&name.name).copied() {
                self.index.use_(name.span, def);
            }
        }
        for method in &it.methods {
            self.method(&method.heading, Some(method.end), |w| w.body(&method.body, method.end.end));
        }
        for maker in &it.makers {
            self.method(&maker.heading, Some(maker.end), |w| {
                w.ty(&maker.class);
                w.body(&maker.body, maker.end.end);
            });
        }
        if let Some(actor) = it.actor.as_ref().filter(|_| self.bodies) {
            self.creators_and_disables(id, actor);
        }
        for heading in &it.headings {
            self.method(heading, None, |_| {});
        }
    }

    fn creators_and_disables(&mut self, id: DefId, it: &ActorPart) {
        for creator in &it.creators {
            let end = creator.body.last().map_or(creator.span.end, |stmt| stmt.span.end);
            let count = self.locals.len();
            let scope = Span { end, ..creator.span };
            creator.args.iter().for_each(|arg| self.local(arg, Kind::Parameter, scope));
            self.body(&creator.body, end);
            self.locals.truncate(count);
        }
        for disable in &it.disables {
            let method = self.index.def(id).members.get(&disable.method.name).copied();
            let count = self.locals.len();
            if let Some(method) = method {
                self.index.use_(disable.method.span, method);
                let args = match &self.index.def(method).shape {
                    Shape::Call { args, .. } => args.clone(),
                    _ => vec![],
                };
                for (name, ty) in disable.args.iter().zip(args) {
                    let whole = disable.method.span.to(disable.condition.span);
                    self.untyped(name, ty, whole);
                }
            }
            self.expr(&disable.condition);
            self.locals.truncate(count);
        }
    }

    fn within(&mut self, id: DefId, inner: impl FnOnce(&mut Self)) {
        self.around.push(id);
        inner(self);
        self.around.pop();
    }

    fn above(&mut self, ty: &TypeExpr, renames: &[Rename]) -> Above {
        let up = self.ty(ty);
        for rename in renames {
            if let Some((old, _)) = self.index.member(&up, &rename.old.name, false) {
                self.index.use_(rename.old.span, old);
            }
        }
        (up, renames.iter().map(|it| (it.new.name.clone(), it.old.name.clone())).collect())
    }

    fn shape(&mut self, id: DefId, parms: &[Ident], above: Vec<Above>) {
        let parms = self.parms(id, parms);
        self.index.def_mut(id).shape = Shape::Type { parms, above };
    }

    fn parms(&self, id: DefId, parms: &[Ident]) -> Vec<DefId> {
        parms.iter().filter_map(|parm| self.index.def(id).members.get(&parm.name).copied()).collect()
    }

    fn wheres(&mut self, id: DefId, wheres: &[Where]) {
        for each in wheres {
            let Some(parm) = self.index.def(id).members.get(&each.parm.name).copied() else { continue };
            self.index.use_(each.parm.span, parm);
            for method in &each.methods {
                let args = method.args.iter().map(|ty| self.ty(ty)).collect();
                let results = method.result.types.iter().map(|ty| self.ty(ty)).collect();
                if let Some(def) = self.index.def(parm).members.get(&method.name.name).copied() {
                    self.index.def_mut(def).shape = Shape::Call { parms: vec![], args, results };
                }
            }
        }
    }

    fn variables(&mut self, variables: &[Formal]) {
        for it in variables {
            let ty = self.ty(&it.ty);
            if let Some(id) = self.defined(&it.name) {
                self.index.def_mut(id).shape = Shape::Value(ty);
            }
        }
    }

    fn equates(&mut self, equates: &[Equate]) {
        for it in equates {
            if let Some(id) = self.defined(&it.name) {
                self.equate(id, it);
            }
        }
    }

    fn equate(&mut self, id: DefId, it: &Equate) {
        let ty = self.expr(&it.value);
        self.index.def_mut(id).shape = match ty {
            Ty::Type(ty) => Shape::Alias(*ty),
            ty => Shape::Value(ty),
        };
    }

    fn method(&mut self, heading: &Heading, end: Option<Span>, body: impl FnOnce(&mut Self)) {
        let Some(id) = self.defined(&heading.name) else { return };
        let whole = end.map_or(heading.span, |end| heading.span.to(end));
        self.heading(id, heading, whole, body);
    }

    fn heading(&mut self, id: DefId, it: &Heading, whole: Span, body: impl FnOnce(&mut Self)) {
        self.around.push(id);
        if !self.bodies {
            self.wheres(id, &it.wheres);
            let parms = self.parms(id, &it.parms);
            let args = it.args.iter().map(|arg| self.ty(&arg.ty)).collect();
            let results = it.result.types.iter().map(|ty| self.ty(ty)).collect();
            for signal in &it.signals {
                signal.types.iter().for_each(|ty| drop(self.ty(ty)));
            }
            self.index.def_mut(id).shape = Shape::Call { parms, args, results };
        } else {
            let count = self.locals.len();
            let types = match &self.index.def(id).shape {
                Shape::Call { args, .. } => args.clone(),
                _ => vec![],
            };
            for (arg, ty) in it.args.iter().zip(types) {
                let made = self.index.value(self.sources, arg, Kind::Parameter);
                self.enter(&arg.name, made, ty, whole);
            }
            body(self);
            self.locals.truncate(count);
        }
        self.around.pop();
    }

    /// Defines a local with a type.
    fn local(&mut self, it: &Formal, kind: Kind, scope: Span) {
        let ty = self.ty(&it.ty);
        let id = self.index.value(self.sources, it, kind);
        self.enter(&it.name, id, ty, scope);
    }

    /// Defines a local whose type follows from elsewhere.
    fn untyped(&mut self, name: &Ident, ty: Ty, scope: Span) {
        let id = self.index.define(name, name.span, Kind::Local, name.to_string(), String::new());
        self.enter(name, id, ty, scope);
    }

    fn enter(&mut self, name: &Ident, id: DefId, ty: Ty, scope: Span) {
        let parent = self.around.last().copied();
        let def = self.index.def_mut(id);
        (def.shape, def.scope, def.parent) = (Shape::Value(ty), Some(scope), parent);
        self.locals.push((name.name.clone(), id));
    }

    /// Returns the meaning of a bare name.
    fn lookup(&self, name: &str) -> Option<DefId> {
        if let Some((_, id)) = self.locals.iter().rev().find(|(local, _)| &**local == name) {
            return Some(*id);
        }
        for id in self.around.iter().rev() {
            let def = self.index.def(*id);
            let member = def.members.get(name).copied();
            // Methods are called on an object; the rest of the members is meant by a bare name.
            let bare = |id: &DefId| !matches!(self.index.def(*id).kind, Kind::Method | Kind::Maker);
            if let Some(found) = member.filter(bare) {
                return Some(found);
            }
            if let Some(found) = self.index.modules.get(id).and_then(|scope| scope.names.get(name)) {
                return Some(*found);
            }
        }
        let scope = self.index.scopes.get(&self.file);
        let here = scope.and_then(|scope| scope.names.get(name).or_else(|| scope.imports.get(name)));
        here.or_else(|| self.index.scopes.get(&PRELUDE_FILE)?.names.get(name)).copied()
    }

    fn ty(&mut self, ty: &TypeExpr) -> Ty {
        match &ty.kind {
            TypeExprKind::Name { name, args } => {
                let args: Vec<Ty> = args.iter().map(|arg| self.ty(arg)).collect();
                let Some(id) = self.lookup(&name.name) else { return Ty::Unknown };
                self.index.use_(name.span, id);
                match &self.index.def(id).kind {
                    Kind::Routine | Kind::Local | Kind::Parameter | Kind::InstanceVariable => Ty::Unknown,
                    _ => Ty::Named(id, args),
                }
            }
            TypeExprKind::Tagged { kind, fields } => {
                let word = match kind {
                    Tagged::Record => "record",
                    Tagged::Struct => "struct",
                    Tagged::Oneof => "oneof",
                };
                let mut known = vec![];
                for field in fields {
                    let ty = self.ty(&field.ty);
                    let id = self.index.value(self.sources, field, Kind::Field);
                    self.index.def_mut(id).shape = Shape::Value(ty);
                    known.push((field.name.name.clone(), id));
                }
                Ty::Tagged(word, known)
            }
            TypeExprKind::Routine { args, result, signals, .. } => {
                args.iter().chain(&result.types).for_each(|ty| drop(self.ty(ty)));
                signals.iter().flat_map(|signal| &signal.types).for_each(|ty| drop(self.ty(ty)));
                Ty::Unknown
            }
            TypeExprKind::Error => Ty::Unknown,
        }
    }

    /// Statements whose locals can be used up to byte `end`.
    fn body(&mut self, body: &Body, end: u32) {
        let count = self.locals.len();
        for stmt in body {
            self.stmt(stmt, end);
        }
        self.locals.truncate(count);
    }

    fn stmt(&mut self, stmt: &Stmt, end: u32) {
        let last = stmt.core.end;
        match &stmt.kind {
            StmtKind::Declare { names, ty, values } => {
                values.iter().for_each(|value| drop(self.expr(value)));
                let known = self.ty(ty);
                for name in names {
                    let formal = Formal { name: name.clone(), ty: ty.clone() };
                    let id = self.index.value(self.sources, &formal, Kind::Local);
                    self.enter(name, id, known.clone(), Span { end, ..stmt.span });
                }
            }
            StmtKind::Assign { targets, values } => {
                targets.iter().chain(values).for_each(|e| drop(self.expr(e)))
            }
            StmtKind::Expr(expr) | StmtKind::Send(expr) | StmtKind::Delegate(expr) => drop(self.expr(expr)),
            StmtKind::If { arms, otherwise } => {
                for (condition, body) in arms {
                    self.expr(condition);
                    self.body(body, last);
                }
                otherwise.iter().for_each(|body| self.body(body, last));
            }
            StmtKind::While { condition, body } => {
                self.expr(condition);
                self.body(body, last);
            }
            StmtKind::For { vars, iterator, body } => self.for_statement(stmt, vars, iterator, body),
            StmtKind::Begin(body) | StmtKind::Transaction(body) => self.body(body, last),
            StmtKind::Return(values) | StmtKind::Yield(values) => {
                values.iter().for_each(|e| drop(self.expr(e)))
            }
            StmtKind::Signal { values, .. } | StmtKind::Exit { values, .. } => {
                values.iter().for_each(|e| drop(self.expr(e)));
            }
            StmtKind::Tagcase { subject, arms, others, .. } => {
                let subject = self.expr(subject);
                for arm in arms {
                    for tag in &arm.tags {
                        if let Some((def, _)) = self.index.member(&subject, &tag.name, false) {
                            self.index.use_(tag.span, def);
                        }
                    }
                    self.arm(arm.var.as_slice(), &arm.body, stmt.core);
                }
                others.iter().for_each(|body| self.body(body, last));
            }
            StmtKind::Typecase { subject, arms, others, .. } => {
                self.expr(subject);
                for arm in arms {
                    let count = self.locals.len();
                    let ty = self.ty(&arm.ty);
                    if let Some(var) = &arm.var {
                        self.untyped(var, ty, Span { end: last, ..stmt.core });
                    }
                    self.body(&arm.body, last);
                    self.locals.truncate(count);
                }
                others.iter().for_each(|body| self.body(body, last));
            }
            StmtKind::Make { inits, maker, then } => {
                let own = self.owner().map_or(Ty::Unknown, |id| Ty::Named(id, vec![]));
                self.inits(&own, inits, maker.as_ref());
                then.iter().for_each(|body| self.body(body, last));
            }
            StmtKind::Reply(value) => value.iter().for_each(|e| drop(self.expr(e))),
            StmtKind::Wait { arms, after } => {
                for arm in arms {
                    if let Some(def) =
                        self.owner().and_then(|id| self.index.def(id).members.get(&arm.method.name))
                    {
                        self.index.use_(arm.method.span, *def);
                    }
                    let count = self.locals.len();
                    arm.args.iter().for_each(|arg| self.local(arg, Kind::Local, stmt.core));
                    arm.condition.iter().for_each(|e| drop(self.expr(e)));
                    self.body(&arm.body, last);
                    self.locals.truncate(count);
                }
                if let Some((time, body)) = after {
                    self.expr(time);
                    self.body(body, last);
                }
            }
            StmtKind::Break | StmtKind::Continue | StmtKind::Error => {}
        }
        for handler in &stmt.handlers {
            let Handler::Except { arms, others } = handler else { continue };
            for arm in arms {
                self.arm(arm.values.as_deref().unwrap_or(&[]), &arm.body, stmt.span);
            }
            if let Some(others) = others {
                self.arm(others.name.as_slice(), &others.body, stmt.span);
            }
        }
    }

    fn arm(&mut self, vars: &[Formal], body: &Body, scope: Span) {
        let count = self.locals.len();
        vars.iter().for_each(|var| self.local(var, Kind::Local, scope));
        self.body(body, scope.end);
        self.locals.truncate(count);
    }

    fn for_statement(&mut self, stmt: &Stmt, vars: &[LoopVar], iterator: &Expr, body: &Body) {
        let yielded = self.results(iterator);
        let count = self.locals.len();
        for (at, var) in vars.iter().enumerate() {
            match &var.ty {
                Some(ty) => {
                    let formal = Formal { name: var.name.clone(), ty: ty.clone() };
                    self.local(&formal, Kind::Local, stmt.core);
                }
                None => self.untyped(&var.name, yielded.get(at).cloned().unwrap_or_default(), stmt.core),
            }
        }
        self.body(body, stmt.core.end);
        self.locals.truncate(count);
    }

    /// Returns the class or actor around the place.
    fn owner(&self) -> Option<DefId> {
        let own = |id: &&DefId| matches!(self.index.def(**id).kind, Kind::Class | Kind::Actor);
        self.around.iter().rev().find(own).copied()
    }

    /// Returns the type of an expression; notes the meanings of its names.
    fn expr(&mut self, expr: &Expr) -> Ty {
        match &expr.kind {
            ExprKind::Int(_) => self.index.basic("int"),
            ExprKind::Real(_) => self.index.basic("real"),
            ExprKind::Char(_) => self.index.basic("char"),
            ExprKind::Str(_) => self.index.basic("string"),
            ExprKind::Bool(_) => self.index.basic("bool"),
            ExprKind::Nil => self.index.basic("null"),
            ExprKind::SelfValue => {
                let Some(id) = self.owner() else { return Ty::Unknown };
                let args = match &self.index.def(id).shape {
                    Shape::Type { parms, .. } => parms.iter().map(|parm| Ty::Named(*parm, vec![])).collect(),
                    _ => vec![],
                };
                Ty::Named(id, args)
            }
            ExprKind::Replyto | ExprKind::Error => Ty::Unknown,
            ExprKind::Name(name) => self.name(name),
            ExprKind::Type(ty) => Ty::Type(Box::new(self.ty(ty))),
            ExprKind::Paren(inner) => self.expr(inner),
            ExprKind::Unary { operand, .. } => self.expr(operand),
            ExprKind::Binary { op, left, right, .. } => {
                let object = self.expr(left);
                self.expr(right);
                if op.level() == 3 {
                    return self.index.basic("bool");
                }
                match self.index.member(&object, op.method(), false) {
                    Some((method, bound)) => self.index.result(method, &bound),
                    None => object,
                }
            }
            ExprKind::Select { object, name } => {
                let object = self.expr(object);
                self.index.selections.push((name.span, object.clone()));
                if let Some((variable, bound)) = self.index.member(&object, &name.name, true) {
                    self.index.use_(name.span, variable);
                    return self.index.result(variable, &bound);
                }
                match self.index.member(&object, &name.name, false) {
                    Some((method, bound)) => {
                        self.index.use_(name.span, method);
                        match self.index.def(method).shape {
                            Shape::Value(_) => self.index.result(method, &bound),
                            _ => Ty::Callable(method, bound.into_iter().collect()),
                        }
                    }
                    None => Ty::Unknown,
                }
            }
            ExprKind::Call { .. } => self.results(expr).into_iter().next().unwrap_or_default(),
            ExprKind::Index { object, args } => self.index_expr(object, args),
            ExprKind::Tagged { ty, fields } => {
                let Ty::Type(ty) = self.expr(ty) else {
                    fields.iter().for_each(|field| drop(self.expr(&field.value)));
                    return Ty::Unknown;
                };
                for field in fields {
                    if let Some((def, _)) = self.index.member(&ty, &field.name.name, false) {
                        self.index.use_(field.name.span, def);
                    }
                    self.expr(&field.value);
                }
                *ty
            }
            ExprKind::Construct { class, inits, maker } => {
                let class = match self.expr(class) {
                    Ty::Type(ty) => *ty,
                    _ => Ty::Unknown,
                };
                self.inits(&class, inits, maker.as_ref());
                class
            }
            ExprKind::New { actor, args, place } => {
                let actor = self.expr(actor);
                self.args(args);
                let Ty::Type(actor) = actor else { return Ty::Unknown };
                match place {
                    Place::Here | Place::Anywhere => *actor,
                    Place::On(node) => {
                        self.expr(node);
                        *actor
                    }
                    Place::Times(count) => {
                        self.expr(count);
                        match self.index.basic("group") {
                            Ty::Named(group, _) => Ty::Named(group, vec![*actor]),
                            _ => Ty::Unknown,
                        }
                    }
                }
            }
            ExprKind::Bind { callee, args } => {
                self.expr(callee);
                args.iter().flatten().for_each(|arg| drop(self.expr(arg)));
                Ty::Unknown
            }
        }
    }

    fn name(&mut self, name: &Ident) -> Ty {
        let Some(id) = self.lookup(&name.name) else { return Ty::Unknown };
        self.index.use_(name.span, id);
        let def = self.index.def(id);
        match (&def.kind, &def.shape) {
            (Kind::Type | Kind::Class | Kind::Actor | Kind::TypeParameter, _) => {
                Ty::Type(Box::new(Ty::Named(id, vec![])))
            }
            (_, Shape::Alias(ty)) => Ty::Type(Box::new(ty.clone())),
            (_, Shape::Value(ty)) => ty.clone(),
            (Kind::Routine, _) => Ty::Callable(id, vec![]),
            _ => Ty::Unknown,
        }
    }

    /// `p[...]`: a type or routine with its arguments, or an element.
    fn index_expr(&mut self, object: &Expr, args: &[Expr]) -> Ty {
        let object = self.expr(object);
        let args: Vec<Ty> = args.iter().map(|arg| self.expr(arg)).collect();
        let types = args.into_iter().map(|arg| match arg {
            Ty::Type(ty) => *ty,
            _ => Ty::Unknown,
        });
        match object {
            Ty::Type(ty) => match *ty {
                Ty::Named(id, _) => Ty::Type(Box::new(Ty::Named(id, types.collect()))),
                _ => Ty::Unknown,
            },
            Ty::Callable(id, mut bound) => {
                if let Shape::Call { parms, .. } = &self.index.def(id).shape {
                    bound.extend(parms.iter().copied().zip(types));
                }
                Ty::Callable(id, bound)
            }
            object => match self.index.member(&object, "fetch", false) {
                Some((method, bound)) => self.index.result(method, &bound),
                None => Ty::Unknown,
            },
        }
    }

    fn args(&mut self, args: &Args) -> Vec<Ty> {
        args.plain.iter().chain(args.rest.iter().flatten()).map(|arg| self.expr(arg)).collect()
    }

    /// Returns the results or yields of a call; of other expressions, their type.
    fn results(&mut self, expr: &Expr) -> Vec<Ty> {
        let ExprKind::Call { callee, args } = &expr.kind else { return vec![self.expr(expr)] };
        let callee = self.expr(callee);
        let given = self.args(args);
        let Ty::Callable(id, bound) = callee else { return vec![callee] };
        let mut bound: Bound = bound.into_iter().collect::<HashMap<_, _>>();
        let Shape::Call { parms, args, results } = &self.index.def(id).shape else { return vec![] };
        for (formal, actual) in args.iter().zip(&given) {
            formal.match_with(actual, parms, &mut bound);
        }
        results.iter().map(|ty| ty.bind(&bound)).collect()
    }

    fn inits(&mut self, class: &Ty, inits: &[Init], maker: Option<&MakerCall>) {
        for init in inits {
            if let Some((def, _)) = self.index.member(class, &init.name.name, true) {
                self.index.use_(init.name.span, def);
            }
            self.expr(&init.value);
        }
        let Some(maker) = maker else { return };
        if let Some((def, _)) = self.index.member(class, &maker.name.name, false) {
            self.index.use_(maker.name.span, def);
        }
        maker.parms.iter().for_each(|ty| drop(self.ty(ty)));
        self.args(&maker.args);
    }
}
