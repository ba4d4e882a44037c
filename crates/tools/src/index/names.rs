//! Definitions of files and modules, and the names that imports bring.

use std::collections::BTreeMap;
use std::sync::Arc;

use bifrost_theta::ast::*;
use bifrost_theta::{FileId, Sources, Span};

use super::{Def, DefId, Index, Kind, Scope, Shape, on_one_line, written};

impl Index {
    /// Enters the definitions of all files.
    pub(super) fn collect(&mut self, sources: &Sources, trees: &[File]) {
        for tree in trees {
            let mut scope = Scope::default();
            self.items(sources, &tree.items, None, &mut scope);
            self.scopes.insert(tree.id, scope);
        }
    }

    fn items(&mut self, sources: &Sources, items: &[Item], parent: Option<DefId>, scope: &mut Scope) {
        for item in items {
            let id = self.item(sources, item, scope);
            self.def_mut(id).parent = parent;
            scope.names.entry(item.name().name.clone()).or_insert(id);
        }
    }

    fn item(&mut self, sources: &Sources, item: &Item, outer: &mut Scope) -> DefId {
        match item {
            Item::Module(it) => {
                let heading = format!("module {}", it.name);
                let id = self.define(&it.name, it.span, Kind::Module, heading, String::new());
                self.end_name(sources, it.span, &it.name, id);
                let mut inner = Scope::default();
                self.items(sources, &it.items, Some(id), &mut inner);
                for export in &it.exports {
                    if let Some(def) = inner.names.get(&export.name).copied() {
                        self.use_(export.span, def);
                        outer.names.entry(export.name.clone()).or_insert(def);
                    }
                }
                self.modules.insert(id, inner);
                id
            }
            Item::Equate(it) => self.equate(sources, it),
            Item::Type(it) => {
                let first = it.methods.iter().map(|m| m.span.start).min();
                let heading = head(sources, it.span, first);
                let id = self.define(&it.name, it.span, Kind::Type, heading, it.doc.clone());
                self.end_name(sources, it.span, &it.name, id);
                for method in &it.methods {
                    self.method(sources, id, method, method.span, Kind::Method);
                }
                self.equates(sources, id, &it.equates);
                self.parameters(id, &it.parms, &it.wheres);
                id
            }
            Item::Class(it) => {
                let first = it.ivars.iter().map(|v| v.name.span.start);
                let first = first.chain(it.methods.iter().map(|m| m.heading.span.start));
                let first = first.chain(it.makers.iter().map(|m| m.heading.span.start));
                let creators = it.actor.iter().flat_map(|actor| &actor.creators);
                let first = first.chain(creators.map(|c| c.span.start));
                let heading = head(sources, it.span, first.min());
                let kind = if it.actor.is_some() { Kind::Actor } else { Kind::Class };
                let id = self.define(&it.name, it.span, kind, heading, it.doc.clone());
                self.end_name(sources, it.span, &it.name, id);
                self.variables(sources, id, &it.ivars);
                for method in &it.methods {
                    self.routine(sources, Some(id), method, Kind::Method);
                }
                for maker in &it.makers {
                    let whole = maker.heading.span.to(maker.end);
                    let made = self.method(sources, id, &maker.heading, whole, Kind::Maker);
                    self.end_name(sources, whole, &maker.heading.name, made);
                }
                for heading in &it.headings {
                    self.method(sources, id, heading, heading.span, Kind::Method);
                }
                self.equates(sources, id, &it.equates);
                self.parameters(id, &it.parms, &it.wheres);
                id
            }
            Item::Routine(it) => self.routine(sources, None, it, Kind::Routine),
            Item::NativeRoutine(it) => self.heading(sources, &it.heading, it.heading.whole(), Kind::Routine),
        }
    }

    fn routine(&mut self, sources: &Sources, owner: Option<DefId>, it: &Routine, kind: Kind) -> DefId {
        let whole = it.heading.whole().to(it.end);
        let id = match owner {
            Some(owner) => self.method(sources, owner, &it.heading, whole, kind),
            None => self.heading(sources, &it.heading, whole, kind),
        };
        self.end_name(sources, whole, &it.heading.name, id);
        id
    }

    fn heading(&mut self, sources: &Sources, it: &Heading, whole: Span, kind: Kind) -> DefId {
        let text = on_one_line(sources.slice(it.whole()));
        let id = self.define(&it.name, whole, kind, text, it.doc.clone());
        self.parameters(id, &it.parms, &it.wheres);
        id
    }

    fn method(&mut self, sources: &Sources, owner: DefId, it: &Heading, whole: Span, kind: Kind) -> DefId {
        let id = self.heading(sources, it, whole, kind);
        self.own(owner, &it.name, id);
        id
    }

    fn variables(&mut self, sources: &Sources, owner: DefId, variables: &[Formal]) {
        for it in variables {
            let id = self.value(sources, it, Kind::InstanceVariable);
            self.own(owner, &it.name, id);
        }
    }

    /// `name: type`
    pub(super) fn value(&mut self, sources: &Sources, it: &Formal, kind: Kind) -> DefId {
        let text = format!("{}: {}", it.name, written(sources, &it.ty));
        self.define(&it.name, it.name.span.to(it.ty.span), kind, text, String::new())
    }

    fn equates(&mut self, sources: &Sources, owner: DefId, equates: &[Equate]) {
        for it in equates {
            let id = self.equate(sources, it);
            self.own(owner, &it.name, id);
        }
    }

    fn equate(&mut self, sources: &Sources, it: &Equate) -> DefId {
        let whole = it.name.span.to(it.value.span);
        self.define(&it.name, whole, Kind::Constant, on_one_line(sources.slice(whole)), it.doc.clone())
    }

    /// Enters type parameters, whose members are those that a where clause asks of them.
    fn parameters(&mut self, owner: DefId, parms: &[Ident], wheres: &[Where]) {
        for parm in parms {
            let text = format!("type parameter {parm}");
            let id = self.define(parm, parm.span, Kind::TypeParameter, text, String::new());
            self.own(owner, parm, id);
            for each in wheres.iter().filter(|each| each.parm.name == parm.name) {
                for method in &each.methods {
                    let types = method.args.iter().chain(&method.result.types);
                    let end = types.map(|ty| ty.span.end).max().unwrap_or(method.name.span.end);
                    let span = Span { end, ..method.name.span };
                    let text = format!("{} of where clause of {parm}", method.name);
                    let made = self.define(&method.name, span, Kind::Method, text, String::new());
                    self.own(id, &method.name, made);
                }
            }
        }
    }

    pub(super) fn define(
        &mut self,
        name: &Ident,
        whole: Span,
        kind: Kind,
        heading: String,
        doc: String,
    ) -> DefId {
        self.add(Def {
            name: name.name.clone(),
            span: name.span,
            whole,
            kind,
            heading,
            doc,
            parent: None,
            scope: None,
            members: BTreeMap::new(),
            shape: Shape::None,
        })
    }

    pub(super) fn def_mut(&mut self, id: DefId) -> &mut Def {
        &mut self.defs[id.0 as usize]
    }

    fn own(&mut self, owner: DefId, name: &Ident, id: DefId) {
        self.def_mut(id).parent = Some(owner);
        self.def_mut(owner).members.entry(name.name.clone()).or_insert(id);
    }

    /// Notes the name after the `end` of the definition in `whole`.
    fn end_name(&mut self, sources: &Sources, whole: Span, name: &Ident, id: DefId) {
        let start = whole.end.saturating_sub(name.name.len() as u32);
        let span = Span { start, ..whole };
        if start > name.span.end && sources.slice(span) == &*name.name {
            self.use_(span, id);
        }
    }

    /// Brings the imports of files into their scopes.
    pub(super) fn join(&mut self, trees: &[File], imported: &dyn Fn(FileId, &[&str]) -> Option<FileId>) {
        for tree in trees {
            for import in &tree.imports {
                let path: Vec<&str> = import.path.iter().map(|part| &*part.name).collect();
                let Some(there) = imported(tree.id, &path).and_then(|file| self.scopes.get(&file)) else {
                    continue;
                };
                let mut found: Vec<(Arc<str>, DefId)> = vec![];
                let mut uses = vec![];
                match &import.names {
                    None => found.extend(there.names.iter().map(|(name, id)| (name.clone(), *id))),
                    Some(names) => {
                        for (name, here) in names {
                            let Some(id) = there.names.get(&name.name) else { continue };
                            uses.push((name.span, *id));
                            if here.span != name.span {
                                uses.push((here.span, *id));
                            }
                            found.push((here.name.clone(), *id));
                        }
                    }
                }
                uses.into_iter().for_each(|(span, id)| self.use_(span, id));
                if let Some(scope) = self.scopes.get_mut(&tree.id) {
                    scope.imports.extend(found);
                }
            }
        }
    }
}

/// Returns the head of a definition on one line.
fn head(sources: &Sources, span: Span, first: Option<u32>) -> String {
    let text = sources.slice(Span { end: first.unwrap_or(span.end), ..span });
    let text = on_one_line(text);
    // A definition without members ends right after its head.
    let end = text.rfind(" end ").filter(|_| first.is_none()).unwrap_or(text.len());
    text[..end].to_owned()
}
