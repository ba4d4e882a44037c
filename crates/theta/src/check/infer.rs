//! Type arguments that a call leaves out (section 5 of the definition): found where the formals'
//! types, as they are written, match the static types of the arguments exactly.

use bifrost_ir::{TypeId, TypeKind, builtin};

use super::body::Body;
use super::calls::Given;
use super::{Checker, Env};
use crate::ast::{Heading, Ident, TypeExpr, TypeExprKind};
use crate::diagnostic::{Code, Diagnostic};
use crate::resolve::Def;
use crate::source::Span;

/// The type that each parameter stands for, as far as it is known, and the argument that gave it.
struct Matching<'h> {
    heading: &'h Heading,
    found: Vec<Option<TypeId>>,
    clash: Option<(usize, TypeId, Span)>,
}

impl<'a> Body<'_, 'a> {
    /// Infers the parameters of `heading`, which stands in `env`, from these arguments. Reports at
    /// `span`, or at the argument that disagrees, if that fails.
    pub fn infer_arguments(
        &mut self,
        env: &Env,
        heading: &'a Heading,
        given: &Given,
        span: Span,
    ) -> Option<Vec<TypeId>> {
        let mut matching = Matching { heading, found: vec![None; heading.parms.len()], clash: None };
        let mut wrong = false;
        for ((value, place), formal) in given.plain.iter().zip(&heading.args) {
            match value.ty {
                Some(ty) => matching.meet(self.cx, env, &formal.ty, ty, *place),
                None => wrong = true,
            }
        }
        if let (Some(rest), Some(last)) = (&given.rest, heading.args.last())
            && let TypeExprKind::Name { args, .. } = &last.ty.kind
            && let [element] = args.as_slice()
        {
            for (value, place) in rest {
                match value.ty {
                    Some(ty) => matching.meet(self.cx, env, element, ty, *place),
                    None => wrong = true,
                }
            }
        }
        let name = &heading.name;
        if let Some((parm, other, place)) = matching.clash {
            let types = &self.cx.program.types;
            let first = matching.found[parm].map_or("?", |ty| types.name(ty));
            let message = format!(
                "`{}` of `{name}` is `{first}` by another argument, but `{}` by this one",
                heading.parms[parm],
                types.name(other)
            );
            let help = format!("write `{}(…)` with the types of this call", pattern(heading));
            self.report(Diagnostic::error(Code::E0202, place, message).help(help));
            return None;
        }
        let missing = matching.found.iter().position(Option::is_none);
        let Some(missing) = missing else { return matching.found.into_iter().collect() };
        // A wrong argument has been reported.
        if !wrong {
            let message =
                format!("`{}` of `{name}` cannot be found from the arguments", heading.parms[missing]);
            let help = format!("write `{}(…)` with the types of this call", pattern(heading));
            self.report(Diagnostic::error(Code::E0203, span, message).help(help));
        }
        None
    }
}

/// `f[T, U]`
fn pattern(heading: &Heading) -> String {
    let parms: Vec<&str> = heading.parms.iter().map(|parm| &*parm.name).collect();
    format!("{}[{}]", heading.name, parms.join(", "))
}

impl Matching<'_> {
    /// Lets the type of an argument meet that of its formal.
    fn meet(&mut self, cx: &Checker<'_>, env: &Env, formal: &TypeExpr, ty: TypeId, place: Span) {
        let (name, args) = match &formal.kind {
            TypeExprKind::Name { name, args } => (name, args),
            TypeExprKind::Tagged { fields, .. } => {
                let found = cx.program.types.structure(ty).unwrap_or_default();
                for (formal, field) in fields.iter().zip(found.iter()) {
                    self.meet(cx, env, &formal.ty, field.ty, place);
                }
                return;
            }
            TypeExprKind::Routine { args, result, .. } => {
                let Some(heading) = cx.program.types.routine_heading(ty) else { return };
                let given = heading.yields.as_ref().unwrap_or(&heading.results);
                let found = heading.params.iter().map(|param| param.ty).zip(args);
                for (ty, formal) in found.chain(given.iter().copied().zip(&result.types)) {
                    self.meet(cx, env, formal, ty, place);
                }
                return;
            }
            TypeExprKind::Error => return,
        };
        if let Some(parm) = self.heading.parms.iter().position(|parm| parm.name == name.name) {
            match self.found[parm] {
                None => self.found[parm] = Some(ty),
                Some(known) if known == ty => {}
                Some(_) => drop(self.clash.get_or_insert((parm, ty, place))),
            }
            return;
        }
        let Some(parts) = cx.parts(env, name, ty).filter(|parts| parts.len() == args.len()) else { return };
        for (formal, ty) in args.iter().zip(parts) {
            self.meet(cx, env, formal, ty, place);
        }
    }
}

impl Checker<'_> {
    /// Returns the type arguments of `ty` if it is an instantiation of the definition that `name`
    /// means in `env`.
    fn parts(&self, env: &Env, name: &Ident, ty: TypeId) -> Option<Vec<TypeId>> {
        let info = match self.names.lookup(env.scope, &name.name).map(|entry| entry.def) {
            Some(Def::Type(def)) => {
                let info = &self.types[*self.type_at.get(&ty)?];
                (info.def == def).then_some(&info.env)
            }
            Some(Def::Class(def)) => {
                let info = self.classes[*self.class_at.get(&ty)?].as_ref()?;
                (info.def == def).then_some(&info.env)
            }
            Some(_) => None,
            None => {
                let kind = self.program.types.kind(ty);
                let same = builtin::family(kind) == Some(&*name.name) && kind != TypeKind::Object;
                return same.then(|| kind.args().collect());
            }
        };
        Some(info?.parms.iter().map(|(_, ty)| *ty).collect())
    }
}
