//! Types with their supertypes and methods, and headings of routines.

use bifrost_ir::{
    Block, Body, Class, Func, FuncId, FuncKind, Method, MethodRef, Routine, Signature, Supertype, TypeDef,
    TypeId, TypeKind,
};
use cranelift_entity::PrimaryMap;

use super::classes::ClassInfo;
use super::{Checker, Env, Equate};
use crate::ast::{Ident, Rename, TypeExpr, TypeExprKind};
use crate::diagnostic::{Code, Diagnostic};
use crate::resolve::{Def, ScopeId, similar};
use crate::source::Span;

/// How long a chain of supertypes or superclasses may be.
pub(crate) const CHAIN_MAX: u32 = 128;

/// Methods, variables or supertypes of one type or class.
pub(crate) const MEMBERS_MAX: usize = 1000;

/// Ways up from one type; the subtype relation walks them all.
const WAYS_MAX: u32 = 1000;

impl Checker<'_> {
    /// Makes the types and classes, still empty, so that headings can name them.
    pub(crate) fn declare(&mut self) {
        for at in 0..self.names.types.len() {
            let placed = &self.names.types[at];
            let (ast, public) = (placed.ast, placed.public);
            if !ast.parms.is_empty() {
                self.unsupported(ast.parms[0].span, "a type with parameters");
                continue;
            }
            if ast.actor {
                self.unsupported(ast.name.span, "an actor type");
                continue;
            }
            if !self.may_add_type(ast.name.span) {
                break;
            }
            let def = empty_type(&ast.name.name, TypeKind::Object, ast.immutable, public, &ast.doc);
            let ty = self.program.types.add(def);
            self.types[at] = Some(ty);
            self.type_at.insert(ty, at);
        }
        for at in 0..self.names.classes.len() {
            let ast = self.names.classes[at].ast;
            if !ast.parms.is_empty() {
                self.unsupported(ast.parms[0].span, "a class with parameters");
                continue;
            }
            if let Some((_, span)) = &ast.native {
                self.unsupported(*span, "class native");
                continue;
            }
            if !self.may_add_type(ast.name.span) {
                break;
            }
            let id = self.program.classes.next_key();
            let ty = self.program.types.add(empty_type(
                &ast.name.name,
                TypeKind::Class(id),
                false,
                false,
                &ast.doc,
            ));
            let (name, superclass) = (ast.name.name.to_string(), None);
            self.program.classes.push(Class { name, ty, superclass, fields: vec![], bodies: vec![] });
            self.classes[at] = Some(ClassInfo::new(id, ty));
            self.class_at.insert(ty, at);
        }
        for at in 0..self.names.actors.len() {
            self.unsupported(self.names.actors[at].ast.name.span, "actor");
        }
        for at in 0..self.names.natives.len() {
            self.unsupported(self.names.natives[at].ast.rust.1, "native");
        }
    }

    /// Supertypes of all types, then their methods, supertypes first.
    pub(crate) fn complete_types(&mut self) {
        let order = self.types_in_order();
        let mut ways = vec![1_u32; self.types.len()];
        for at in &order {
            self.resolve_supertypes(*at);
            let above = self.type_supers(*at);
            ways[*at] = above.iter().fold(1, |sum, up| ways[*up].saturating_add(sum));
            if ways[*at] > WAYS_MAX
                && let Some(ty) = self.types[*at]
            {
                let name = &self.names.types[*at].ast.name;
                let message = format!("more than {WAYS_MAX} ways lead up from `{name}` to its supertypes");
                self.report(Diagnostic::error(Code::E0109, name.span, message));
                self.program.types.def_mut(ty).supertypes.clear();
                ways[*at] = 1;
            }
        }
        for at in order {
            self.complete_type(at);
        }
    }

    /// The usable types, each after its supertypes; cycles are reported and cut.
    fn types_in_order(&mut self) -> Vec<usize> {
        let mut state = vec![None; self.types.len()];
        let mut order = vec![];
        for at in 0..self.types.len() {
            self.visit_type(at, &mut state, &mut order);
        }
        order.retain(|at| self.types[*at].is_some());
        order
    }

    /// Adds `at` to `order` after everything above it. `state` has for each visited type how many types are below
    /// each other above it, and 0 while it is being visited.
    fn visit_type(&mut self, at: usize, state: &mut [Option<u32>], order: &mut Vec<usize>) {
        if self.types[at].is_none() || state[at].is_some() {
            return;
        }
        // An explicit stack: a chain of types may be as long as the file.
        let mut stack = vec![(at, 0)];
        state[at] = Some(0);
        while let Some((current, next)) = stack.pop() {
            let ast = self.names.types[current].ast;
            let Some((written, _)) = ast.supers.get(next) else {
                let above = self.type_supers(current);
                let height = 1 + above.iter().filter_map(|up| state[*up]).max().unwrap_or(0);
                if height > CHAIN_MAX {
                    let message = format!("this type has more than {CHAIN_MAX} types above each other");
                    self.report(Diagnostic::error(Code::E0109, ast.name.span, message));
                    self.types[current] = None;
                }
                state[current] = Some(height);
                order.push(current);
                continue;
            };
            stack.push((current, next + 1));
            let Some(up) = self.type_item(self.names.types[current].inner, written) else { continue };
            match state[up] {
                None if self.types[up].is_some() => {
                    state[up] = Some(0);
                    stack.push((up, 0));
                }
                Some(0) => {
                    let message = format!("type `{}` would be a supertype of itself", ast.name);
                    self.report(Diagnostic::error(Code::E0208, written.span, message));
                    self.types[current] = None;
                }
                _ => {}
            }
        }
    }

    /// The type definitions that stand directly above one.
    fn type_supers(&mut self, at: usize) -> Vec<usize> {
        let (ast, inner) = (self.names.types[at].ast, self.names.types[at].inner);
        ast.supers.iter().filter_map(|(written, _)| self.type_item(inner, written)).collect()
    }

    /// The type definition that `written` names, perhaps through equates.
    fn type_item(&mut self, scope: ScopeId, written: &TypeExpr) -> Option<usize> {
        let TypeExprKind::Name { name, .. } = &written.kind else { return None };
        match self.names.lookup(scope, &name.name)?.def {
            Def::Type(at) => Some(at),
            Def::Equate(at) => match self.equate(at) {
                Equate::Type(ty) => self.type_at.get(&ty).copied(),
                _ => None,
            },
            _ => None,
        }
    }

    fn resolve_supertypes(&mut self, at: usize) {
        let Some(ty) = self.types[at] else { return };
        let env = Env::new(self.names.types[at].inner);
        let ast = self.names.types[at].ast;
        let mut immutable = ast.immutable;
        for (written, renames) in &ast.supers {
            let Some(up) = self.resolve_type(&env, written) else { continue };
            if self.program.types.kind(up) != TypeKind::Object {
                let message = format!("`{}` cannot have subtypes", self.type_name(up));
                let help = "built-in types have only `any` above them and nothing below";
                self.report(Diagnostic::error(Code::E0208, written.span, message).help(help));
                continue;
            }
            immutable |= self.program.types.def(up).immutable;
            let renames = renames
                .iter()
                .map(|rename| (rename.new.name.to_string(), rename.old.name.to_string()))
                .collect();
            self.program.types.def_mut(ty).supertypes.push(Supertype { ty: up, renames });
        }
        self.program.types.def_mut(ty).immutable = immutable;
    }

    fn complete_type(&mut self, at: usize) {
        let Some(ty) = self.types[at] else { return };
        let env = Env::new(self.names.types[at].inner);
        let ast = self.names.types[at].ast;
        if ast.methods.len() > MEMBERS_MAX || ast.supers.len() > MEMBERS_MAX {
            return self.too_many(&ast.name);
        }
        self.check_distinct(ast.methods.iter().map(|heading| &heading.name));
        let mut methods: Vec<Method> = vec![];
        for heading in &ast.methods {
            if self.is_generic(heading) {
                continue;
            }
            let signature = self.resolve_heading(&env, heading);
            if methods.iter().any(|m| *m.name == *heading.name.name) {
                continue;
            }
            methods.push(method(&heading.name.name, signature, vec![], &heading.doc));
        }
        let supertypes = self.program.types.def(ty).supertypes.clone();
        for (up, (_, renames)) in supertypes.iter().zip(&ast.supers) {
            let inherited = self.program.types.def(up.ty).methods.len();
            if methods.len() + inherited > MEMBERS_MAX {
                return self.too_many(&ast.name);
            }
            if !self.may_add_methods(inherited, ast.name.span) {
                return;
            }
            self.check_renames(up.ty, renames);
            for (id, inherited) in self.program.types.def(up.ty).methods.clone() {
                let name = renamed(&inherited.name, &up.renames);
                let from = MethodRef { ty: up.ty, method: id };
                match methods.iter().position(|m| m.name == name) {
                    Some(own) => {
                        let span = match ast.methods.iter().find(|heading| *heading.name.name == *name) {
                            Some(heading) => heading.span,
                            None => ast.name.span,
                        };
                        self.check_conforms(span, &name, &methods[own].signature.clone(), from);
                        methods[own].stands_for.push(from);
                    }
                    None => methods.push(Method { name, stands_for: vec![from], ..inherited }),
                }
            }
        }
        self.program.types.def_mut(ty).methods = methods.into_iter().collect();
    }

    /// E0109 for a type or class that is too large.
    pub(crate) fn too_many(&mut self, name: &Ident) {
        let message = format!("`{name}` has more than {MEMBERS_MAX} members, inherited ones included");
        self.report(Diagnostic::error(Code::E0109, name.span, message).help("split it into several"));
    }

    fn check_renames(&mut self, up: TypeId, renames: &[Rename]) {
        for rename in renames {
            self.check_old_name(up, &rename.old);
        }
    }

    /// Reports a name for a method that `up` does not have.
    pub(crate) fn check_old_name(&mut self, up: TypeId, old: &Ident) {
        if self.program.types.find_method(up, &old.name).is_none() && !old.name.is_empty() {
            let message = format!("type `{}` has no method `{old}`", self.type_name(up));
            let mut diagnostic = Diagnostic::error(Code::E0201, old.span, message);
            diagnostic.help = self.similar_method(up, &old.name);
            self.report(diagnostic);
        }
    }

    /// The help line that names a method like `wanted`.
    pub(crate) fn similar_method(&self, ty: TypeId, wanted: &str) -> Option<String> {
        let methods = self.program.types.def(ty).methods.values();
        let names = methods.map(|m| m.name.as_str()).filter(|name| !name.contains('.'));
        similar(wanted, names).map(|name| format!("a method with a similar name exists: `{name}`"))
    }

    /// E0205 at `span` if a method does not conform to `sup`.
    pub(crate) fn check_conforms(&mut self, span: Span, name: &str, signature: &Signature, sup: MethodRef) {
        let wanted = self.program.types.method(sup);
        let Some((why, help)) = self.misfit(signature, &wanted.signature, &wanted.name) else { return };
        let place = format!("{}.{}", self.program.types.name(sup.ty), wanted.name);
        let message = format!("`{name}` does not conform to `{place}`: {why}");
        self.report(Diagnostic::error(Code::E0205, span, message).help(help));
    }

    /// Headings of all routines.
    pub(crate) fn complete_routines(&mut self) {
        for at in 0..self.routines.len() {
            let placed = &self.names.routines[at];
            let (ast, env) = (placed.ast, Env::new(placed.inner));
            let mut name = match &placed.module {
                Some(module) if !placed.public => format!("{module}.{}", ast.heading.name),
                _ => ast.heading.name.to_string(),
            };
            let mut public = placed.public;
            if self.is_generic(&ast.heading) {
                continue;
            }
            let signature = self.resolve_heading(&env, &ast.heading);
            if name == "main" && self.program.find_routine("main").is_some() {
                // The entry of the program is that of the first text.
                name = format!("{}.main", self.sources.name(ast.heading.name.span.file));
                public = false;
            }
            let func = self.placeholder();
            let doc = ast.heading.doc.clone();
            self.routines[at] = Some(self.program.add_routine(Routine {
                name,
                signature,
                body: Body::Func(func),
                type_args: vec![],
                public,
                doc,
            }));
        }
    }

    /// A function whose code comes later.
    pub(crate) fn placeholder(&mut self) -> FuncId {
        self.program.funcs.push(Func {
            name: String::new(),
            kind: FuncKind::Routine,
            signature: Signature::default(),
            vars: PrimaryMap::new(),
            body: Block::default(),
            procedures: vec![],
        })
    }

    /// Every maker, method and routine, each once.
    pub(crate) fn check_bodies(&mut self) {
        // Makers first: a constructor of a subclass needs to know what they fill.
        for at in self.classes_in_order() {
            self.check_makers(at);
        }
        for at in 0..self.classes.len() {
            if self.is_full() {
                return;
            }
            self.check_methods(at);
        }
        for at in 0..self.routines.len() {
            if self.is_full() {
                return;
            }
            let Some(routine) = self.routines[at] else { continue };
            let Body::Func(func) = self.program.routines[routine].body else { continue };
            let placed = &self.names.routines[at];
            let (ast, env) = (placed.ast, Env::new(placed.inner));
            let name = self.program.routines[routine].name.clone();
            let signature = self.program.routines[routine].signature.clone();
            self.program.funcs[func] = self.check_routine(env, None, name, signature, ast);
        }
    }
}

/// A method of a user's type.
pub(crate) fn method(name: &str, signature: Signature, stands_for: Vec<MethodRef>, doc: &str) -> Method {
    Method { name: name.to_owned(), signature, stands_for, doc: doc.to_owned(), builtin: None, public: true }
}

/// The name that `old` has after `renames` (pairs of new and old).
pub(crate) fn renamed(old: &str, renames: &[(String, String)]) -> String {
    renames.iter().find(|(_, o)| o == old).map_or(old, |(new, _)| new).to_owned()
}

pub(crate) fn empty_type(name: &str, kind: TypeKind, immutable: bool, public: bool, doc: &str) -> TypeDef {
    TypeDef {
        name: name.to_owned(),
        kind,
        supertypes: vec![],
        methods: PrimaryMap::new(),
        immutable,
        public,
        doc: doc.to_owned(),
    }
}
