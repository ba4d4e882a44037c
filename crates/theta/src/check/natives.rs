//! Routines and classes written in Rust (section 11 of the definition).
//!
//! An object of a native class has one instance variable, which only the runtime looks at. Its
//! methods are those of the types that it implements and the headings that it lists; each is the
//! native `NAME.method`.

use bifrost_ir::native::conforms;
use bifrost_ir::{Body, Field, MethodRef, Routine, RoutineId, Signature, TypeId, Types};

use super::classes::Entry;
use super::items::method;
use super::{Checker, Env};
use crate::ast;
use crate::diagnostic::{Code, Diagnostic};
use crate::resolve::Def;
use crate::source::Span;

/// The name of the variable that the runtime has; no program can write it.
const VALUE: &str = "native value";

/// A native that the program uses, to be compared with the registered one.
pub(crate) struct Used {
    /// The Rust name.
    name: String,
    /// The name in the program.
    own: String,
    signature: Signature,
    span: Span,
}

/// Returns the one variable of a native class.
pub(crate) fn native_field() -> Field {
    Field { name: VALUE.to_owned(), ty: Types::INT }
}

impl Checker<'_> {
    /// Notes that a class, or a class of actors, is native.
    pub(crate) fn declare_native_class(
        &mut self,
        id: bifrost_ir::ClassId,
        rust: &(String, Span),
        is_actor: bool,
    ) {
        let (name, span) = rust;
        let actors = self.program.classes.values().filter_map(|class| class.actor.as_ref()?.native.as_ref());
        if self.program.native_classes.values().chain(actors).any(|known| known == name) {
            let message = format!("there is another class of the native `{name}`");
            self.report(
                Diagnostic::error(Code::E0213, *span, message).help("declare it once, and import it"),
            );
        }
        match &mut self.program.classes[id].actor {
            Some(actor) if is_actor => actor.native = Some(name.clone()),
            _ => drop(self.program.native_classes.insert(id, name.clone())),
        }
    }

    /// Reports the parts of a native actor that are in Rust (E0213), and notes its creator.
    pub(crate) fn check_native_actor(&mut self, at: usize, rust: &str, creators: &[Signature]) {
        let ast = self.class_ast(at);
        let Some(actor) = &ast.actor else { return };
        let variable = ast.ivars.first().map(|ivar| (ivar.name.span, "instance variables"));
        let disable = actor.disables.first().map(|disable| (disable.method.span, "`disable`"));
        let functional = actor.functional.then_some((ast.name.span, "`functional`"));
        let stop = actor.stops.first().map(|span| (*span, "`stop when failure`"));
        for (span, part) in variable.into_iter().chain(disable).chain(functional).chain(stop) {
            let message = format!("native actor `{}` cannot have {part}", ast.name);
            let help = "its state and the order of its messages are in Rust";
            self.report(Diagnostic::error(Code::E0213, span, message).help(help));
        }
        let spans = actor.creators.iter().map(|creator| creator.span);
        let spans = spans.chain(actor.creators.is_empty().then_some(ast.name.span));
        for (signature, span) in creators.iter().zip(spans) {
            let (name, signature) = (format!("{rust}.new"), signature.clone());
            self.used.push(Used { name, own: "new".to_owned(), signature, span });
        }
    }

    /// Returns the methods that a native class lists.
    pub(crate) fn native_methods(&mut self, at: usize, rust: &str) -> Vec<Entry> {
        let Some(env) = self.classes[at].as_ref().map(|info| info.env.clone()) else { return vec![] };
        let ast = self.class_ast(at);
        self.check_distinct(ast.headings.iter().map(|heading| &heading.name));
        let mut entries: Vec<Entry> = vec![];
        for heading in &ast.headings {
            if self.is_generic_native(heading) {
                continue;
            }
            let signature = self.resolve_heading(&env, heading);
            if entries.iter().any(|entry| *entry.method.name == *heading.name.name) {
                continue;
            }
            let body = self.native_method(rust, &heading.name.name, &signature, heading.span);
            let mut method = method(&heading.name.name, signature, vec![], &heading.doc);
            method.public = ast.actor.is_some();
            entries.push(Entry { method, body, span: heading.span });
        }
        entries
    }

    /// Returns the body of a method of a native class.
    pub(crate) fn native_method(&mut self, rust: &str, own: &str, signature: &Signature, span: Span) -> Body {
        let name = format!("{rust}.{own}");
        let body = Body::Native(self.program.native(&name));
        self.used.push(Used { name, own: own.to_owned(), signature: signature.clone(), span });
        body
    }

    /// Returns the entry of a native class for a method of a type that it implements.
    pub(crate) fn implement_native(&mut self, at: usize, rust: &str, wanted: MethodRef) -> Entry {
        let required = self.program.types.method(wanted).clone();
        let span = self.class_ast(at).name.span;
        let body = self.native_method(rust, &required.name, &required.signature, span);
        Entry { method: bifrost_ir::Method { stands_for: vec![wanted], ..required }, body, span }
    }

    fn is_generic_native(&mut self, heading: &ast::Heading) -> bool {
        let clause = heading.wheres.first().map(|clause| clause.parm.span);
        let span = heading.parms.first().map(|parm| parm.span).or(clause);
        if let Some(span) = span {
            let message = "a native has no type parameters";
            self.report(Diagnostic::error(Code::E0213, span, message).help("write a native for each type"));
        }
        span.is_some()
    }

    /// Headings of all native routines.
    pub(crate) fn complete_natives(&mut self) {
        for at in 0..self.names.natives.len() {
            let id = self.native_routine(at);
            self.native_routines.push(id);
        }
    }

    fn native_routine(&mut self, at: usize) -> Option<RoutineId> {
        let placed = &self.names.natives[at];
        let (heading, exported) = (&placed.ast.heading, placed.exported());
        if self.is_generic_native(heading) {
            return None;
        }
        let signature = self.resolve_heading(&Env::new(placed.inner), heading);
        let (rust, own) = (placed.ast.rust.0.clone(), heading.name.name.to_string());
        let name = match &placed.module {
            Some(module) if !placed.public => format!("{module}.{own}"),
            _ => self.names.outside_name(Def::Native(at), &own).to_owned(),
        };
        let body = Body::Native(self.program.native(&rust));
        self.used.push(Used { name: rust, own, signature: signature.clone(), span: heading.span });
        let id = self.program.add_routine(Routine {
            name,
            signature,
            body,
            type_args: vec![],
            public: heading.remote.is_some(),
            doc: heading.doc.clone(),
        });
        self.check_remote(heading, exported, id);
        Some(id)
    }

    /// Reports E0213 for natives that are not registered, or take and give something else.
    pub(crate) fn check_natives(&mut self) {
        for Used { name, own, signature, span } in std::mem::take(&mut self.used) {
            let wrong = |ty: &TypeId| self.known(*ty).is_none();
            if signature.params.iter().map(|p| &p.ty).chain(&signature.results).any(wrong) {
                continue;
            }
            let declared = self.program.types.heading(&own, &signature);
            let Some(natives) = self.natives else { continue };
            let Some(native) = natives.get(&name) else {
                let message = format!("no native `{name}` is registered");
                let known = natives.keys().map(String::as_str);
                let close = crate::resolve::similar(&name, known);
                let help = close.map_or_else(
                    || "register the native in the Rust program that runs this program".to_owned(),
                    |name| format!("a native with a similar name exists: `{name}`"),
                );
                self.report(Diagnostic::error(Code::E0213, span, message).help(help));
                continue;
            };
            if !conforms(&self.program, native, &signature) {
                let message = format!("the native `{name}` is not `{declared}`");
                let help = format!("its heading in Rust is `{own} {native}`");
                self.report(Diagnostic::error(Code::E0213, span, message).help(help));
            }
        }
    }
}
