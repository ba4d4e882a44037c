//! Several ways up to one supertype: a call through it must reach one method, whichever way the
//! names came down.
//!
//! Methods of one name are one method, so only renames can part methods that belong together.

use std::collections::{HashMap, HashSet};

use bifrost_ir::{Method, MethodRef, Supertype, TypeId, TypeKind};

use super::Checker;
use super::items::renamed;
use crate::diagnostic::{Code, Diagnostic};
use crate::source::Span;

impl Checker<'_> {
    /// Reports E0205 at `span` if two methods of a type, or of a class, stand for the same method
    /// of a type above.
    pub(crate) fn check_diamonds(&mut self, ty: TypeId, span: Span) {
        if !self.has_diamond(ty) {
            return;
        }
        let mut owners: HashMap<MethodRef, String> = HashMap::new();
        let mut clashes: Vec<(String, String, MethodRef)> = vec![];
        let def = self.program.types.def(ty);
        for method in def.methods.values() {
            for direct in method.stands_for.iter().filter(|up| self.is_object(up.ty)) {
                let own = self.target(ty, &def.supertypes, method, *direct);
                let mut above = vec![*direct];
                while let Some(up) = above.pop() {
                    match owners.get(&up) {
                        Some(other) if *other == own => {}
                        Some(other) => clashes.push((other.clone(), own.clone(), up)),
                        None => {
                            owners.insert(up, own.clone());
                            above.extend(&self.program.types.method(up).stands_for);
                        }
                    }
                }
            }
        }
        // Two names that part a method part all that it restates.
        let mut said = HashSet::new();
        clashes.retain(|(one, other, _)| said.insert((one.clone(), other.clone())));
        let renames = def.supertypes.iter().any(|up| !up.renames.is_empty());
        for (one, other, up) in clashes {
            let (above, name) = (self.type_name(up.ty), &self.program.types.method(up).name);
            let message = format!("`{one}` and `{other}` are both the method `{name}` of `{above}`");
            let help = match renames {
                true => "rename the method in both supertypes, or in neither",
                false => "combine types with the same name for the method",
            };
            self.report(Diagnostic::error(Code::E0205, span, message).help(help));
        }
    }

    /// Returns true if two ways lead up from a type to one supertype.
    fn has_diamond(&self, ty: TypeId) -> bool {
        let mut seen = HashSet::new();
        for way in &self.program.types.def(ty).supertypes {
            let mut own = HashSet::new();
            let mut open = vec![way.ty];
            while let Some(up) = open.pop() {
                if own.insert(up) {
                    open.extend(self.program.types.def(up).supertypes.iter().map(|up| up.ty));
                }
            }
            if !seen.is_disjoint(&own) {
                return true;
            }
            seen.extend(own);
        }
        false
    }

    /// Returns the name of the method called through `up` by way of `method` of the type `ty`:
    /// hidden methods call others.
    fn target(&self, ty: TypeId, supertypes: &[Supertype], method: &Method, up: MethodRef) -> String {
        if let Some(target) = self.bridges.get(&(up.ty, self.program.types.method(up).name.clone())) {
            let way = supertypes.iter().find(|way| way.ty == up.ty);
            return way.map_or_else(|| target.clone(), |way| renamed(target, &way.renames));
        }
        match (self.bridges.get(&(ty, method.name.clone())), method.name.rsplit_once('.')) {
            (Some(target), _) => target.clone(),
            // A class has it under the name that it implements.
            (None, Some((_, name))) => name.to_owned(),
            (None, None) => method.name.clone(),
        }
    }

    fn is_object(&self, ty: TypeId) -> bool {
        matches!(self.program.types.kind(ty), TypeKind::Object)
    }
}
