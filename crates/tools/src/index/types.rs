//! Static types, as far as they are written down.

use std::collections::HashMap;
use std::sync::Arc;

use super::{DefId, Index, Kind, PRELUDE_FILE, Shape};

/// The number of steps that types are followed to those above them.
const DEPTH_MAX: u32 = 32;

/// A type, or that of something that is no value.
#[derive(Clone, PartialEq, Debug, Default)]
pub enum Ty {
    /// Not known.
    #[default]
    Unknown,
    /// A type, class, actor or type parameter with its arguments.
    Named(DefId, Vec<Ty>),
    /// A record, struct or oneof: its word and its fields.
    Tagged(&'static str, Vec<(Arc<str>, DefId)>),
    /// The name of a type where a value could stand.
    Type(Box<Ty>),
    /// The name of a routine or method, and the types that the parameters around it stand for.
    Callable(DefId, Vec<(DefId, Ty)>),
}

/// The types that type parameters stand for.
pub(super) type Bound = HashMap<DefId, Ty>;

impl Ty {
    /// Returns the same with type parameters replaced.
    pub(super) fn bind(&self, bound: &Bound) -> Ty {
        match self {
            Ty::Named(def, args) if args.is_empty() => {
                bound.get(def).cloned().unwrap_or_else(|| self.clone())
            }
            Ty::Named(def, args) => Ty::Named(*def, args.iter().map(|arg| arg.bind(bound)).collect()),
            _ => self.clone(),
        }
    }

    /// Finds the types that parameters in `self` stand for where `actual` is given.
    pub(super) fn match_with(&self, actual: &Ty, parms: &[DefId], bound: &mut Bound) {
        match (self, actual) {
            (_, Ty::Unknown) => {}
            (Ty::Named(def, _), _) if parms.contains(def) => {
                bound.entry(*def).or_insert(actual.clone());
            }
            (Ty::Named(a, xs), Ty::Named(b, ys)) if a == b => {
                xs.iter().zip(ys).for_each(|(x, y)| x.match_with(y, parms, bound));
            }
            _ => {}
        }
    }
}

impl Index {
    /// Returns a predeclared type.
    pub(super) fn basic(&self, name: &str) -> Ty {
        let def = self.scopes.get(&PRELUDE_FILE).and_then(|scope| scope.names.get(name));
        def.map_or(Ty::Unknown, |def| Ty::Named(*def, vec![]))
    }

    /// Returns the method (or, with `variables`, instance variable) of that name, and the types
    /// that parameters stand for in it.
    pub(super) fn member(&self, ty: &Ty, name: &str, variables: bool) -> Option<(DefId, Bound)> {
        self.member_within(ty, name, variables, DEPTH_MAX)
    }

    fn member_within(&self, ty: &Ty, name: &str, variables: bool, depth: u32) -> Option<(DefId, Bound)> {
        let depth = depth.checked_sub(1)?;
        match ty {
            Ty::Named(def, args) => match &self.def(*def).shape {
                Shape::Alias(target) => self.member_within(target, name, variables, depth),
                Shape::Type { parms, above } => {
                    let bound: Bound = parms.iter().copied().zip(args.iter().cloned()).collect();
                    let fits = |id: &DefId| (self.def(*id).kind == Kind::InstanceVariable) == variables;
                    if let Some(id) = self.def(*def).members.get(name).filter(|id| fits(id)) {
                        return Some((*id, bound));
                    }
                    for (up, renames) in above {
                        let old = renames.iter().find(|(new, _)| &**new == name).map(|(_, old)| &**old);
                        if old.is_none() && renames.iter().any(|(_, old)| &**old == name) {
                            continue;
                        }
                        let up = up.bind(&bound);
                        if let Some(found) = self.member_within(&up, old.unwrap_or(name), variables, depth) {
                            return Some(found);
                        }
                    }
                    // Abbreviated methods stand for variables.
                    let fields = &self.def(*def).members;
                    let id = fields.get(name).or_else(|| fields.get(name.strip_prefix("set_")?))?;
                    Some((*id, bound))
                }
                // A type parameter has the methods of its where clause.
                _ => self.def(*def).members.get(name).map(|id| (*id, Bound::new())),
            },
            Ty::Tagged(word, fields) => {
                let field = |name: &str| fields.iter().find(|(field, _)| &**field == name);
                let prefixes: &[&str] = match *word {
                    "oneof" => &["is_", "value_"],
                    "struct" => &["replace_"],
                    _ => &["set_"],
                };
                let by_prefix = || prefixes.iter().find_map(|p| field(name.strip_prefix(p)?));
                field(name).or_else(by_prefix).map(|(_, def)| (*def, Bound::new()))
            }
            _ => None,
        }
    }

    /// Returns the names that can stand after a dot.
    pub fn members(&self, ty: &Ty) -> Vec<(Arc<str>, DefId)> {
        let mut found = vec![];
        self.add_members(ty, &mut found, DEPTH_MAX);
        let mut seen = std::collections::HashSet::new();
        found.retain(|(name, _)| seen.insert(name.clone()));
        found
    }

    fn add_members(&self, ty: &Ty, found: &mut Vec<(Arc<str>, DefId)>, depth: u32) {
        let Some(depth) = depth.checked_sub(1) else { return };
        match ty {
            Ty::Named(def, _) => {
                let members =
                    self.def(*def).members.iter().filter(|(_, id)| self.def(**id).kind != Kind::Maker);
                found.extend(members.map(|(name, id)| (name.clone(), *id)));
                match &self.def(*def).shape {
                    Shape::Alias(target) => self.add_members(target, found, depth),
                    Shape::Type { above, .. } => {
                        for (up, renames) in above {
                            let mut inner = vec![];
                            self.add_members(up, &mut inner, depth);
                            // Instance variables are out of reach here.
                            inner.retain(|(_, id)| self.def(*id).kind != Kind::InstanceVariable);
                            for (name, _) in &mut inner {
                                if let Some((new, _)) = renames.iter().find(|(_, old)| old == name) {
                                    *name = new.clone();
                                }
                            }
                            found.extend(inner);
                        }
                    }
                    _ => {}
                }
            }
            Ty::Tagged(_, fields) => found.extend(fields.iter().cloned()),
            _ => {}
        }
    }

    /// Returns the first result of a call.
    pub(super) fn result(&self, def: DefId, bound: &Bound) -> Ty {
        match &self.def(def).shape {
            Shape::Call { results, .. } => results.first().map_or(Ty::Unknown, |ty| ty.bind(bound)),
            Shape::Value(ty) => ty.bind(bound),
            _ => Ty::Unknown,
        }
    }
}
