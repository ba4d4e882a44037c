//! Classes: variables, methods, inheritance, makers (section 6 of the definition).
//!
//! The own type of a class lists the methods of its specification, its private ones, and those of its
//! superclass. A method that must not be called by name - hidden, or private to the superclass's
//! module - is listed under a name with a dot, which no program can write, because calls that the
//! superclass makes on `self` still need it.
//!
//! A maker becomes two functions: a routine that computes the values of the variables (and of the
//! locals that its `then` part uses), and a method `NAME.then` that runs on the finished object. The
//! object itself is made in one step by the constructor of the subclass.

use std::collections::HashMap;
use std::sync::Arc;

use bifrost_ir::{
    Body, ClassId, Field, FuncId, Method, MethodId, MethodRef, RoutineId, Signature, Supertype, TypeId,
    TypeKind,
};

use super::items::{CHAIN_MAX, MEMBERS_MAX, method, renamed};
use super::{Checker, Env};
use crate::ast::{self, Ident};
use crate::diagnostic::{Code, Diagnostic};
use crate::lower::{getter, setter};
use crate::resolve::Def;
use crate::source::Span;

/// An instance variable.
#[derive(Clone, Debug)]
pub(crate) struct Ivar {
    pub name: Arc<str>,
    pub ty: Option<TypeId>,
    pub span: Span,
}

/// What is known about a class.
#[derive(Clone)]
pub(crate) struct ClassInfo {
    pub id: ClassId,
    pub ty: TypeId,
    /// Position of the superclass in the list of classes.
    pub superclass: Option<usize>,
    /// Own instance variables.
    pub ivars: Vec<Ivar>,
    /// Position of the first own variable in the layout.
    pub first_field: u32,
    pub immutable: bool,
    pub makers: HashMap<Arc<str>, MakerInfo>,
    /// Own methods with their code.
    methods: Vec<(usize, FuncId, Signature)>,
}

/// A maker that has been checked.
#[derive(Clone)]
pub(crate) struct MakerInfo {
    pub signature: Signature,
    /// Gives the values of all variables, then those that `then` takes.
    pub values: RoutineId,
    pub fields: usize,
    /// The part that runs on the finished object.
    pub then: Option<String>,
}

impl ClassInfo {
    pub fn new(id: ClassId, ty: TypeId) -> ClassInfo {
        ClassInfo {
            id,
            ty,
            superclass: None,
            ivars: vec![],
            first_field: 0,
            immutable: false,
            makers: HashMap::new(),
            methods: vec![],
        }
    }

    /// The own instance variable of that name, with its position in the layout.
    pub fn ivar(&self, name: &str) -> Option<(u32, &Ivar)> {
        let at = self.ivars.iter().position(|ivar| &*ivar.name == name)?;
        Some((self.first_field + at as u32, &self.ivars[at]))
    }
}

/// A method of a class while the list is made.
struct Entry {
    method: Method,
    body: Body,
    /// Where to report that it does not fit; the class's name for one that was not written.
    span: Span,
}

impl Checker<'_> {
    pub(crate) fn complete_classes(&mut self) {
        for at in 0..self.classes.len() {
            self.link_class(at);
        }
        let order = self.classes_in_order();
        self.link_subclasses(&order);
        for at in &order {
            self.complete_variables(*at);
        }
        for at in order {
            self.complete_class(at);
        }
    }

    /// Superclass and implemented types.
    fn link_class(&mut self, at: usize) {
        let Some(info) = &self.classes[at] else { return };
        let ty = info.ty;
        let env = Env::new(self.names.classes[at].inner);
        let ast = self.names.classes[at].ast;
        for written in &ast.implements {
            let Some(up) = self.resolve_type(&env, written) else { continue };
            if self.program.types.kind(up) != TypeKind::Object {
                let message = format!("`{}` cannot be implemented", self.type_name(up));
                self.report(
                    Diagnostic::error(Code::E0208, written.span, message)
                        .help("name a type defined by `type`"),
                );
                continue;
            }
            let supertype = Supertype { ty: up, renames: vec![] };
            self.program.types.def_mut(ty).supertypes.push(supertype);
        }
        let Some((written, _)) = &ast.inherits else { return };
        let ast::TypeExprKind::Name { name, .. } = &written.kind else { return };
        match self.names.lookup(env.scope, &name.name).map(|entry| entry.def) {
            Some(Def::Class(up)) => {
                if self.classes[up].is_some()
                    && let Some(info) = &mut self.classes[at]
                {
                    info.superclass = Some(up);
                }
            }
            _ => {
                let message = format!("there is no class `{name}`");
                self.report(
                    Diagnostic::error(Code::E0208, name.span, message).help("only classes can be inherited"),
                );
            }
        }
    }

    /// The usable classes, each after its superclass; cycles are reported and cut.
    pub(crate) fn classes_in_order(&mut self) -> Vec<usize> {
        let mut placed = vec![false; self.classes.len()];
        let mut order = vec![];
        for at in 0..self.classes.len() {
            let mut chain = vec![];
            let mut next = Some(at);
            while let Some(current) = next.filter(|c| !placed[*c]) {
                placed[current] = true;
                chain.push(current);
                next = self.classes[current].as_ref().and_then(|info| info.superclass);
                if let Some(up) = next.filter(|up| chain.contains(up)) {
                    let name = &self.names.classes[up].ast.name;
                    let message = format!("class `{name}` would inherit from itself");
                    self.report(Diagnostic::error(Code::E0208, name.span, message));
                    if let Some(info) = &mut self.classes[current] {
                        info.superclass = None;
                    }
                    next = None;
                }
            }
            order.extend(chain.into_iter().rev());
        }
        order
    }

    /// Notes who inherits from whom, and cuts chains that are too long.
    fn link_subclasses(&mut self, order: &[usize]) {
        self.subclasses = vec![vec![]; self.classes.len()];
        let mut height = vec![0; self.classes.len()];
        for at in order {
            let Some(up) = self.classes[*at].as_ref().and_then(|info| info.superclass) else { continue };
            height[*at] = height[up] + 1;
            if height[*at] <= CHAIN_MAX {
                self.subclasses[up].push(*at);
                continue;
            }
            height[*at] = 0;
            let name = &self.names.classes[*at].ast.name;
            let message = format!("class `{name}` has more than {CHAIN_MAX} classes above each other");
            self.report(Diagnostic::error(Code::E0109, name.span, message));
            if let Some(info) = &mut self.classes[*at] {
                info.superclass = None;
            }
        }
    }

    fn complete_variables(&mut self, at: usize) {
        let Some(info) = &self.classes[at] else { return };
        let (id, ty, superclass) = (info.id, info.ty, info.superclass);
        let env = Env::new(self.names.classes[at].inner);
        let ast = self.names.classes[at].ast;
        self.check_distinct(ast.ivars.iter().map(|ivar| &ivar.name));
        let above = superclass.and_then(|up| self.classes[up].as_ref().map(|info| info.id));
        let mut fields = above.map_or(vec![], |up| self.program.classes[up].fields.clone());
        if fields.len() + ast.ivars.len() > MEMBERS_MAX {
            return self.too_many(&ast.name);
        }
        let first_field = fields.len() as u32;
        let mut ivars = vec![];
        for ivar in &ast.ivars {
            let ty = self.resolve_type_or_wrong(&env, &ivar.ty);
            fields.push(Field { name: ivar.name.name.to_string(), ty });
            ivars.push(Ivar { name: ivar.name.name.clone(), ty: self.known(ty), span: ivar.name.span });
        }
        let class = &mut self.program.classes[id];
        (class.fields, class.superclass) = (fields, above);
        let types = &self.program.types;
        let immutable = types.def(ty).supertypes.iter().any(|up| types.def(up.ty).immutable);
        self.program.types.def_mut(ty).immutable = immutable;
        if let Some(info) = &mut self.classes[at] {
            (info.ivars, info.first_field, info.immutable) = (ivars, first_field, immutable);
        }
    }

    fn complete_class(&mut self, at: usize) {
        let Some(info) = &self.classes[at] else { return };
        let (id, ty) = (info.id, info.ty);
        let ast = self.names.classes[at].ast;
        let most =
            [ast.methods.len(), ast.makers.len(), ast.provides.len(), ast.hides.len(), ast.implements.len()];
        if most.into_iter().any(|count| count > MEMBERS_MAX) {
            return self.too_many(&ast.name);
        }
        let required = self
            .program
            .types
            .def(ty)
            .supertypes
            .iter()
            .map(|up| self.program.types.def(up.ty).methods.len());
        let above = info.superclass.and_then(|up| self.classes[up].as_ref());
        let inherited = above.map_or(0, |up| self.program.types.def(up.ty).methods.len());
        let count = required.sum::<usize>() + inherited + ast.methods.len();
        if count > 4 * MEMBERS_MAX {
            return self.too_many(&ast.name);
        }
        if !self.may_add_methods(count, ast.name.span) {
            return;
        }
        let mut entries = self.own_methods(at);
        self.inherit(at, &mut entries);
        for up in self.program.types.def(ty).supertypes.clone() {
            for method in self.program.types.def(up.ty).methods.keys().collect::<Vec<_>>() {
                self.implement(at, &mut entries, MethodRef { ty: up.ty, method });
            }
        }
        self.program.classes[id].bodies = entries.iter().map(|entry| entry.body).collect();
        self.program.types.def_mut(ty).methods = entries.into_iter().map(|entry| entry.method).collect();
    }

    fn own_methods(&mut self, at: usize) -> Vec<Entry> {
        let env = Env::new(self.names.classes[at].inner);
        let ast = self.names.classes[at].ast;
        let makers = ast.makers.iter().map(|maker| &maker.heading.name);
        self.check_distinct(ast.methods.iter().map(|m| &m.heading.name).chain(makers));
        let mut entries: Vec<Entry> = vec![];
        for (index, routine) in ast.methods.iter().enumerate() {
            let heading = &routine.heading;
            if self.is_generic(heading) {
                continue;
            }
            let signature = self.resolve_heading(&env, heading);
            if entries.iter().any(|entry| *entry.method.name == *heading.name.name) {
                continue;
            }
            let func = self.placeholder();
            if let Some(info) = &mut self.classes[at] {
                info.methods.push((index, func, signature.clone()));
            }
            let mut method = method(&heading.name.name, signature, vec![], &heading.doc);
            method.public = false;
            entries.push(Entry { method, body: Body::Func(func), span: heading.span });
        }
        entries
    }

    /// Adds what the superclass offers.
    fn inherit(&mut self, at: usize, entries: &mut Vec<Entry>) {
        let ast = self.names.classes[at].ast;
        let Some(up) = self.classes[at].as_ref().and_then(|info| info.superclass) else { return };
        let Some(above) = self.classes[up].clone() else { return };
        let same_module = self.names.is_within(self.names.classes[at].home, self.names.classes[up].home);
        let hidden = &self.names.classes[up].ast.hides;
        let written = ast.inherits.as_ref().map_or(&[][..], |(_, renames)| renames);
        let renames: Vec<(String, String)> =
            written.iter().map(|r| (r.new.name.to_string(), r.old.name.to_string())).collect();
        for rename in written {
            self.check_old_name(above.ty, &rename.old);
        }
        let bodies = self.program.classes[above.id].bodies.clone();
        for ((method, inherited), body) in
            self.program.types.def(above.ty).methods.clone().into_iter().zip(bodies)
        {
            let from = MethodRef { ty: above.ty, method };
            let mut name = renamed(&inherited.name, &renames);
            let offered =
                (inherited.public || same_module) && !hidden.iter().any(|h| *h.name == *inherited.name);
            if !offered && !name.contains('.') {
                name = format!("{}.{}", self.program.classes[above.id].name, name);
            }
            let own = entries.iter().position(|entry| entry.method.name == name);
            match own {
                Some(own) if name == inherited.name => {
                    let span = entries[own].span;
                    self.check_conforms(span, &name, &entries[own].method.signature.clone(), from);
                    entries[own].method.stands_for.push(from);
                }
                Some(own) => {
                    let message =
                        format!("`{name}` is defined here and is the new name of an inherited method");
                    self.report(
                        Diagnostic::error(Code::E0209, entries[own].span, message)
                            .help("choose another name"),
                    );
                }
                None => {
                    let method = Method { name, stands_for: vec![from], public: false, ..inherited };
                    entries.push(Entry { method, body, span: ast.name.span });
                }
            }
        }
    }

    /// Finds or makes the method that implements `wanted`.
    fn implement(&mut self, at: usize, entries: &mut Vec<Entry>, wanted: MethodRef) {
        let required = self.program.types.method(wanted).clone();
        if let Some(own) = entries.iter().position(|entry| entry.method.name == required.name) {
            let (span, signature) = (entries[own].span, entries[own].method.signature.clone());
            self.check_conforms(span, &required.name, &signature, wanted);
            let entry = &mut entries[own].method;
            entry.stands_for.push(wanted);
            entry.public = true;
            if entry.doc.is_empty() {
                entry.doc = required.doc;
            }
            return;
        }
        let ast = self.names.classes[at].ast;
        if let Some((func, signature)) = self.abbreviated(at, &required) {
            let method = Method { name: required.name, signature, stands_for: vec![wanted], ..required };
            return entries.push(Entry { method, body: Body::Func(func), span: ast.name.span });
        }
        let heading = self.program.types.heading(&required.name, &required.signature);
        let owner = self.type_name(wanted.ty);
        let message = format!("class `{}` does not implement `{heading}` of `{owner}`", ast.name);
        let variable = required.name.strip_prefix("set_").unwrap_or(&required.name);
        let help = format!("add the method, or an instance variable `{variable}`");
        self.report(Diagnostic::error(Code::E0204, ast.name.span, message).help(help));
    }

    /// The method generated from an instance variable, if there is one that fits.
    fn abbreviated(&mut self, at: usize, required: &Method) -> Option<(FuncId, Signature)> {
        let info = self.classes[at].as_ref()?;
        let (id, own) = (info.id, info.ty);
        let wanted = &required.signature;
        let name = format!("{}.{}", self.program.classes[id].name, required.name);
        if wanted.is_iterator() {
            return None;
        }
        let func = match (wanted.params.as_slice(), wanted.results.as_slice()) {
            ([], [result]) => {
                let (field, ivar) = info.ivar(&required.name)?;
                // A variable of a wrong type has been reported; one more report would not help.
                let ty = ivar.ty.unwrap_or(*result);
                if !self.below(ty, *result) {
                    return None;
                }
                let signature = Signature { results: vec![ty], ..Signature::default() };
                getter(name, id, own, field, signature)
            }
            ([param], []) if !info.immutable => {
                let (field, ivar) = info.ivar(required.name.strip_prefix("set_")?)?;
                let ty = ivar.ty.unwrap_or(param.ty);
                if !self.below(param.ty, ty) {
                    return None;
                }
                let signature = Signature { params: vec![param.clone()], ..Signature::default() };
                setter(name, id, own, field, signature)
            }
            _ => return None,
        };
        let signature = func.signature.clone();
        Some((self.program.funcs.push(func), signature))
    }

    /// The code of a class's own methods.
    pub(crate) fn check_methods(&mut self, at: usize) {
        let Some(info) = self.classes[at].clone() else { return };
        let env = Env::new(self.names.classes[at].inner);
        let ast = self.names.classes[at].ast;
        for (index, func, signature) in info.methods {
            let routine = &ast.methods[index];
            let name = format!("{}.{}", ast.name, routine.heading.name);
            self.program.funcs[func] = self.check_routine(env.clone(), Some(at), name, signature, routine);
        }
    }

    /// The makers of a class, and what `provides` promises of them.
    pub(crate) fn check_makers(&mut self, at: usize) {
        let ast = self.names.classes[at].ast;
        if self.classes[at].is_none() {
            return;
        }
        for maker in &ast.makers {
            if !self.is_generic(&maker.heading) {
                self.check_maker(at, maker);
            }
        }
        for name in &ast.provides {
            if !ast.makers.iter().any(|maker| maker.heading.name.name == name.name) {
                let message = format!("class `{}` has no maker `{name}`", ast.name);
                self.report(Diagnostic::error(Code::E0208, name.span, message));
            }
        }
        for name in &ast.hides {
            self.check_hidden(at, name);
        }
    }

    fn check_hidden(&mut self, at: usize, name: &Ident) {
        let Some(ty) = self.classes[at].as_ref().map(|info| info.ty) else { return };
        self.check_old_name(ty, name);
    }

    /// Adds a method that no program can name to a class that is complete already, and to its subclasses.
    pub(crate) fn add_hidden_method(
        &mut self,
        at: usize,
        name: &str,
        signature: Signature,
        func: FuncId,
    ) -> MethodId {
        let Some(info) = self.classes[at].clone() else { return MethodId::from_u32(0) };
        let mut hidden = method(name, signature.clone(), vec![], "");
        hidden.public = false;
        self.program.classes[info.id].bodies.push(Body::Func(func));
        let id = self.program.types.def_mut(info.ty).methods.push(hidden);
        let mut reached: Vec<(usize, MethodRef)> = vec![(at, MethodRef { ty: info.ty, method: id })];
        while let Some((above, from)) = reached.pop() {
            for below in self.subclasses[above].clone() {
                let name_span = self.names.classes[below].ast.name.span;
                let Some((id, ty)) = self.classes[below].as_ref().map(|sub| (sub.id, sub.ty)) else {
                    continue;
                };
                if !self.may_add_methods(1, name_span) {
                    break;
                }
                let mut inherited = method(name, signature.clone(), vec![from], "");
                inherited.public = false;
                self.program.classes[id].bodies.push(Body::Func(func));
                let method = self.program.types.def_mut(ty).methods.push(inherited);
                reached.push((below, MethodRef { ty, method }));
            }
        }
        id
    }
}

impl ClassInfo {
    /// Whether this class stands above the one at position `below`.
    pub fn superclass_of(&self, below: Option<usize>, classes: &[Option<ClassInfo>]) -> bool {
        let mut next = below.and_then(|at| classes[at].as_ref()).and_then(|info| info.superclass);
        while let Some(info) = next.and_then(|at| classes[at].as_ref()) {
            if info.ty == self.ty {
                return true;
            }
            next = info.superclass;
        }
        false
    }
}
