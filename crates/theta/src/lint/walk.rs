//! The walk of the lints over a file: locals with their uses, and the names of definitions.
//!
//! Read [`Walk::items`] first. The walk follows the syntax tree and knows no types. It owns the
//! locals in scope; a local that is not read when its scope closes is a warning in `found`. Names
//! that are no locals are collected for the lint of imports ([`Walk::used_names`]).

use std::collections::HashSet;

use super::reach;
use crate::ast::*;
use crate::diagnostic::{Code, Diagnostic};

/// A parameter or variable in scope.
struct Local<'a> {
    name: &'a Ident,
    read: bool,
    /// The warning if nothing reads it; `None` for names that the syntax or a type asks for.
    unused: Option<Unused>,
}

/// The kind of a local that should be read.
#[derive(Clone, Copy)]
enum Unused {
    Variable,
    Parameter,
    /// A value of an exception.
    ExceptionValue,
    /// The variable of an arm of `tagcase` or `typecase`, or of `others`.
    ArmVariable,
}

/// The state of the walk over one file.
pub(super) struct Walk<'a> {
    /// Methods with given parameters.
    required: &'a HashSet<&'a str>,
    /// Locals in scope, innermost last.
    locals: Vec<Local<'a>>,
    /// Names that are no locals.
    used: HashSet<&'a str>,
    /// The warnings.
    pub found: Vec<Diagnostic>,
}

impl<'a> Walk<'a> {
    pub fn new(required: &'a HashSet<&'a str>) -> Walk<'a> {
        Walk { required, locals: vec![], used: HashSet::new(), found: vec![] }
    }

    /// Returns the names that the file uses and that are no locals.
    pub fn used_names(&mut self) -> HashSet<&'a str> {
        std::mem::take(&mut self.used)
    }

    pub fn items(&mut self, items: &'a [Item]) {
        for item in items {
            match item {
                Item::Module(module) => self.items(&module.items),
                Item::Equate(equate) => self.expr(&equate.value),
                Item::Type(def) => self.type_def(def),
                Item::Class(class) => self.class(class),
                Item::Routine(routine) => {
                    // The runtime calls migrations with the old values in their order.
                    let given = routine.heading.name.name.starts_with("migrate_");
                    self.routine(routine, given);
                }
                Item::NativeRoutine(native) => self.heading_types(&native.heading),
            }
        }
    }

    fn type_def(&mut self, def: &'a TypeDef) {
        def.supers.iter().for_each(|(ty, _)| self.ty(ty));
        self.wheres(&def.wheres);
        def.methods.iter().for_each(|heading| self.heading_types(heading));
        def.equates.iter().for_each(|equate| self.expr(&equate.value));
    }

    fn class(&mut self, class: &'a ClassDef) {
        class.implements.iter().for_each(|ty| self.ty(ty));
        class.inherits.iter().for_each(|(ty, _)| self.ty(ty));
        self.wheres(&class.wheres);
        class.ivars.iter().for_each(|ivar| self.ty(&ivar.ty));
        class.equates.iter().for_each(|equate| self.expr(&equate.value));
        class.headings.iter().for_each(|heading| self.heading_types(heading));
        for method in &class.methods {
            let given = self.required.contains(&*method.heading.name.name);
            self.routine(method, given);
        }
        for maker in &class.makers {
            self.ty(&maker.class);
            self.heading_types(&maker.heading);
            self.with_formals(&maker.heading.args, Some(Unused::Parameter), &maker.body);
        }
        let Some(actor) = &class.actor else { return };
        for creator in &actor.creators {
            creator.args.iter().for_each(|arg| self.ty(&arg.ty));
            let unused = class.native.is_none().then_some(Unused::Parameter);
            self.with_formals(&creator.args, unused, &creator.body);
        }
        actor.disables.iter().for_each(|disable| self.expr(&disable.condition));
    }

    fn routine(&mut self, routine: &'a Routine, given: bool) {
        self.heading_types(&routine.heading);
        let unused = (!given).then_some(Unused::Parameter);
        self.with_formals(&routine.heading.args, unused, &routine.body);
    }

    fn with_formals(&mut self, formals: &'a [Formal], unused: Option<Unused>, body: &'a Body) {
        let outer = self.locals.len();
        for formal in formals {
            self.local(&formal.name, unused);
        }
        self.body(body);
        self.close(outer);
    }

    fn heading_types(&mut self, heading: &'a Heading) {
        heading.args.iter().for_each(|arg| self.ty(&arg.ty));
        self.outcome(&heading.result, &heading.signals);
        self.wheres(&heading.wheres);
    }

    fn outcome(&mut self, result: &'a Outcome, signals: &'a [Signal]) {
        result.types.iter().for_each(|ty| self.ty(ty));
        signals.iter().flat_map(|signal| &signal.types).for_each(|ty| self.ty(ty));
    }

    fn wheres(&mut self, wheres: &'a [Where]) {
        for method in wheres.iter().flat_map(|it| &it.methods) {
            method.args.iter().for_each(|ty| self.ty(ty));
            self.outcome(&method.result, &method.signals);
        }
    }

    fn ty(&mut self, ty: &'a TypeExpr) {
        match &ty.kind {
            TypeExprKind::Name { name, args } => {
                self.used.insert(&name.name);
                args.iter().for_each(|arg| self.ty(arg));
            }
            TypeExprKind::Tagged { fields, .. } => fields.iter().for_each(|field| self.ty(&field.ty)),
            TypeExprKind::Routine { args, result, signals, .. } => {
                args.iter().for_each(|arg| self.ty(arg));
                self.outcome(result, signals);
            }
            TypeExprKind::Error => {}
        }
    }

    fn local(&mut self, name: &'a Ident, unused: Option<Unused>) {
        self.locals.push(Local { name, read: false, unused });
    }

    /// Ends the scope of the locals behind the first `outer`.
    fn close(&mut self, outer: usize) {
        for local in self.locals.drain(outer..) {
            let Some(unused) =
                local.unused.filter(|_| !local.read && !local.name.name.starts_with(['_', '.']))
            else {
                continue;
            };
            let name = local.name;
            let (code, what, help) = match unused {
                Unused::Variable => {
                    let help = "remove the variable; write a call for its effect as a statement";
                    (Code::W0001, format!("the variable `{name}` is never read"), help.to_owned())
                }
                Unused::Parameter => {
                    let help = format!("if callers must pass it, name it `_{name}`");
                    (Code::W0002, format!("the parameter `{name}` is never read"), help)
                }
                Unused::ExceptionValue => {
                    let help = "write `(*)` in place of the values to ignore them".to_owned();
                    (Code::W0001, format!("the value `{name}` is never read"), help)
                }
                Unused::ArmVariable => {
                    let help = "an arm needs no variable: omit the parentheses".to_owned();
                    (Code::W0001, format!("the variable `{name}` is never read"), help)
                }
            };
            self.found.push(Diagnostic::warning(code, name.span, what).help(help));
        }
    }

    fn body(&mut self, body: &'a Body) {
        let outer = self.locals.len();
        let mut reported = false;
        for (at, stmt) in body.iter().enumerate() {
            self.statement(stmt);
            if let Some(next) = body.get(at + 1)
                && !reported
                && !reach::statement_completes(stmt)
            {
                reported = true;
                let found = Diagnostic::warning(Code::W0004, next.span, "this statement is never reached")
                    .label(stmt.span, "execution ends at this statement")
                    .help("remove this statement, or the statement before it");
                self.found.push(found);
            }
        }
        self.close(outer);
    }

    fn statement(&mut self, stmt: &'a Stmt) {
        // Arms of handlers see the declarations of the statement, so its scope is that of the body
        // around.
        self.core(&stmt.kind);
        for handler in &stmt.handlers {
            let Handler::Except { arms, others } = handler else { continue };
            for arm in arms {
                let values = arm.values.as_deref().unwrap_or(&[]);
                values.iter().for_each(|value| self.ty(&value.ty));
                // `(*)` ignores all values, so a value in use excuses the others.
                let outer = self.locals.len();
                values.iter().for_each(|value| self.local(&value.name, Some(Unused::ExceptionValue)));
                self.body(&arm.body);
                if self.locals[outer..].iter().any(|local| local.read) {
                    self.locals[outer..].iter_mut().for_each(|local| local.read = true);
                }
                self.close(outer);
            }
            if let Some(others) = others {
                let outer = self.locals.len();
                if let Some(formal) = &others.name {
                    self.ty(&formal.ty);
                    self.local(&formal.name, Some(Unused::ArmVariable));
                }
                self.body(&others.body);
                self.close(outer);
            }
        }
    }

    fn core(&mut self, kind: &'a StmtKind) {
        match kind {
            StmtKind::Declare { names, ty, values } => {
                self.ty(ty);
                self.exprs(values);
                // A call may have several results of which some are wanted.
                let several = names.len() > 1 && values.len() == 1;
                let unused = (!several).then_some(Unused::Variable);
                names.iter().for_each(|name| self.local(name, unused));
            }
            StmtKind::Assign { targets, values } => {
                // A call with several results needs a variable for each of them.
                let spread = targets.len() > values.len();
                for target in targets {
                    if spread || !matches!(target.kind, ExprKind::Name(_)) {
                        self.expr(target);
                    }
                }
                self.exprs(values);
            }
            StmtKind::Expr(expr) | StmtKind::Send(expr) | StmtKind::Delegate(expr) => self.expr(expr),
            StmtKind::If { arms, otherwise } => {
                for (condition, body) in arms {
                    self.expr(condition);
                    self.body(body);
                }
                otherwise.iter().for_each(|body| self.body(body));
            }
            StmtKind::While { condition, body } => {
                self.expr(condition);
                self.body(body);
            }
            StmtKind::For { vars, iterator, body } => {
                self.expr(iterator);
                let outer = self.locals.len();
                for var in vars {
                    var.ty.iter().for_each(|ty| self.ty(ty));
                    // A loop needs a variable, also where its rounds are only counted.
                    self.local(&var.name, None);
                }
                self.body(body);
                self.close(outer);
            }
            StmtKind::Begin(body) | StmtKind::Transaction(body) => self.body(body),
            StmtKind::Return(values)
            | StmtKind::Yield(values)
            | StmtKind::Signal { values, .. }
            | StmtKind::Exit { values, .. } => self.exprs(values),
            StmtKind::Tagcase { subject, arms, others, .. } => {
                self.expr(subject);
                for arm in arms {
                    arm.var.iter().for_each(|var| self.ty(&var.ty));
                    self.arm(arm.var.as_ref().map(|var| &var.name), &arm.body);
                }
                others.iter().for_each(|body| self.body(body));
            }
            StmtKind::Typecase { subject, arms, others, .. } => {
                self.expr(subject);
                for arm in arms {
                    self.ty(&arm.ty);
                    self.arm(arm.var.as_ref(), &arm.body);
                }
                others.iter().for_each(|body| self.body(body));
            }
            StmtKind::Make { inits, maker, then } => {
                inits.iter().for_each(|init| self.expr(&init.value));
                maker.iter().for_each(|maker| self.maker_call(maker));
                then.iter().for_each(|body| self.body(body));
            }
            StmtKind::Reply(value) => value.iter().for_each(|value| self.expr(value)),
            StmtKind::Wait { arms, after } => {
                for arm in arms {
                    let outer = self.locals.len();
                    for arg in &arm.args {
                        self.ty(&arg.ty);
                        self.local(&arg.name, None);
                    }
                    arm.condition.iter().for_each(|condition| self.expr(condition));
                    self.body(&arm.body);
                    self.close(outer);
                }
                if let Some((time, body)) = after {
                    self.expr(time);
                    self.body(body);
                }
            }
            StmtKind::Break | StmtKind::Continue | StmtKind::Error => {}
        }
    }

    fn arm(&mut self, var: Option<&'a Ident>, body: &'a Body) {
        let outer = self.locals.len();
        var.into_iter().for_each(|name| self.local(name, Some(Unused::ArmVariable)));
        self.body(body);
        self.close(outer);
    }

    fn maker_call(&mut self, call: &'a MakerCall) {
        call.parms.iter().for_each(|ty| self.ty(ty));
        self.args(&call.args);
    }

    fn args(&mut self, args: &'a Args) {
        self.exprs(&args.plain);
        args.rest.iter().for_each(|rest| self.exprs(rest));
    }

    fn exprs(&mut self, exprs: &'a [Expr]) {
        exprs.iter().for_each(|expr| self.expr(expr));
    }

    fn expr(&mut self, expr: &'a Expr) {
        match &expr.kind {
            ExprKind::Name(name) => {
                match self.locals.iter_mut().rev().find(|local| local.name.name == name.name) {
                    Some(local) => local.read = true,
                    None => drop(self.used.insert(&name.name)),
                }
            }
            ExprKind::Type(ty) => self.ty(ty),
            ExprKind::Paren(inner) | ExprKind::Unary { operand: inner, .. } => self.expr(inner),
            ExprKind::Binary { left, right, .. } => {
                self.expr(left);
                self.expr(right);
            }
            ExprKind::Select { object, .. } => self.expr(object),
            ExprKind::Call { callee, args } => {
                self.expr(callee);
                self.args(args);
            }
            ExprKind::Index { object, args } => {
                self.expr(object);
                self.exprs(args);
            }
            ExprKind::Tagged { ty, fields } => {
                self.expr(ty);
                fields.iter().for_each(|field| self.expr(&field.value));
            }
            ExprKind::Construct { class, inits, maker } => {
                self.expr(class);
                inits.iter().for_each(|init| self.expr(&init.value));
                maker.iter().for_each(|maker| self.maker_call(maker));
            }
            ExprKind::New { actor, args, place } => {
                self.expr(actor);
                self.args(args);
                match place {
                    Place::On(at) | Place::Times(at) => self.expr(at),
                    Place::Here | Place::Anywhere => {}
                }
            }
            ExprKind::Bind { callee, args } => {
                self.expr(callee);
                args.iter().flatten().for_each(|arg| self.expr(arg));
            }
            ExprKind::Int(_)
            | ExprKind::Real(_)
            | ExprKind::Char(_)
            | ExprKind::Str(_)
            | ExprKind::Bool(_)
            | ExprKind::Nil
            | ExprKind::SelfValue
            | ExprKind::Replyto
            | ExprKind::Error => {}
        }
    }
}
