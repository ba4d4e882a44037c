//! New names, refused where they would change the meaning of the program.

use std::collections::HashMap;
use std::str::FromStr;

use bifrost_theta::lexer::Tok;
use lsp_types::*;

use super::analysis::Analysis;
use super::{RequestError, Server, uri_of};
use crate::index::{Def, DefId, Family, Kind, Use};

impl Server {
    pub(super) fn prepare_rename(
        &self,
        params: TextDocumentPositionParams,
    ) -> Result<Option<PrepareRenameResponse>, RequestError> {
        let analysis = self.view().workspace();
        let Some((_, found)) = self.find(&analysis, &params) else { return Ok(None) };
        changeable(&analysis, found)?;
        Ok(Some(PrepareRenameResponse::Range(self.range(&analysis, found.span))))
    }

    pub(super) fn rename(&self, params: RenameParams) -> Result<Option<WorkspaceEdit>, RequestError> {
        let analysis = self.view().workspace();
        let Some((_, found)) = self.find(&analysis, &params.text_document_position) else {
            return Err(RequestError::failed("no known name is here"));
        };
        let new = params.new_name;
        let old = changeable(&analysis, found)?;
        check_name(&analysis, &new)?;
        if new == old {
            return Ok(None);
        }
        let change = Change::of(&analysis, found, &old, &new)?;
        #[allow(clippy::mutable_key_type, reason = "the type of the protocol")]
        let mut changes: HashMap<Uri, Vec<TextEdit>> = HashMap::new();
        for place in &analysis.index.uses {
            let Some(new_text) = change.text(&analysis, *place) else { continue };
            let Ok(uri) = Uri::from_str(&uri_of(analysis.sources.name(place.span.file))) else { continue };
            let edit = TextEdit { range: self.range(&analysis, place.span), new_text };
            changes.entry(uri).or_default().push(edit);
        }
        Ok(Some(WorkspaceEdit { changes: Some(changes), ..WorkspaceEdit::default() }))
    }
}

/// The prefixes of the name of an instance variable, field or tag `x` in the names of methods that
/// come with it.
const PREFIXES: [&str; 4] = ["set_", "replace_", "is_", "value_"];

/// A change of names: `x` and, if instance variables stand for them, methods `set_x`.
struct Change<'a> {
    family: Family,
    old: &'a str,
    new: &'a str,
}

impl<'a> Change<'a> {
    /// Returns the change that a new name for `found` asks for.
    fn of(analysis: &Analysis, found: Use, old: &'a str, new: &'a str) -> Result<Change<'a>, RequestError> {
        let family = analysis.index.family(found.def);
        let (old, new) = match (family.setters.contains(&found.def), new.strip_prefix("set_")) {
            (false, _) => (old, new),
            (true, Some(rest)) => (old.strip_prefix("set_").unwrap_or(old), rest),
            (true, None) => {
                let variable = old.strip_prefix("set_").unwrap_or(old);
                let text = format!(
                    "instance variables `{variable}` stand for `{old}`: its new name must begin with `set_`"
                );
                return Err(RequestError::failed(text));
            }
        };
        check_name(analysis, new)?;
        let plain = family.plain.iter().map(|id| (*id, new.to_owned()));
        let setters = family.setters.iter().map(|id| (*id, format!("set_{new}")));
        for (id, new) in plain.chain(setters) {
            let def = analysis.index.def(id);
            if let Some(line) = clash(analysis, id, def, &new) {
                return Err(RequestError::failed(format!("`{new}` is used already (line {line})")));
            }
        }
        Ok(Change { family, old, new })
    }

    /// Returns the new text of a place; nothing if that stays as it is.
    fn text(&self, analysis: &Analysis, place: Use) -> Option<String> {
        let text = analysis.sources.slice(place.span);
        if self.family.setters.contains(&place.def) {
            return (text.strip_prefix("set_")? == self.old).then(|| format!("set_{}", self.new));
        }
        if !self.family.plain.contains(&place.def) {
            return None;
        }
        if text == self.old {
            return Some(self.new.to_owned());
        }
        // A name given by an import stays as it is.
        let kind = analysis.index.def(place.def).kind;
        let prefix = PREFIXES.iter().find(|prefix| text.strip_prefix(**prefix) == Some(self.old))?;
        matches!(kind, Kind::InstanceVariable | Kind::Field).then(|| format!("{prefix}{}", self.new))
    }
}

/// Returns the present name, if it can be changed.
fn changeable(analysis: &Analysis, found: Use) -> Result<String, RequestError> {
    let name = analysis.index.def(found.def).name.to_string();
    let family = analysis.index.family(found.def);
    for id in family.plain.iter().chain(&family.setters) {
        let def = analysis.index.def(*id);
        if analysis.is_built_in(def.span.file) {
            return Err(RequestError::failed(format!("`{}` is predeclared", def.name)));
        }
    }
    if analysis.sources.slice(found.span) != name {
        let text = analysis.sources.slice(found.span);
        return Err(RequestError::failed(format!(
            "`{text}` stands for `{name}`; rename it where it is defined"
        )));
    }
    Ok(name)
}

fn check_name(analysis: &Analysis, new: &str) -> Result<(), RequestError> {
    let starts = new.starts_with(|c: char| c == '_' || c.is_ascii_alphabetic());
    if !starts || !new.bytes().all(|b| b == b'_' || b.is_ascii_alphanumeric()) {
        return Err(RequestError::failed(format!("`{new}` is not a name")));
    }
    if Tok::word(new).is_some() {
        return Err(RequestError::failed(format!("`{new}` is a reserved word")));
    }
    let predeclared = |def: &Def| analysis.is_prelude(def.span.file) && def.parent.is_none();
    if analysis.index.all().any(|(_, def)| predeclared(def) && &*def.name == new) {
        return Err(RequestError::failed(format!("`{new}` is predeclared")));
    }
    Ok(())
}

/// Returns the line of another definition that the new name would meet; names that differ only in
/// letter case meet too.
fn clash(analysis: &Analysis, id: DefId, def: &Def, new: &str) -> Option<u32> {
    let local = |def: &Def| matches!(def.kind, Kind::Local | Kind::Parameter);
    let other = analysis.index.all().find(|(other, it)| {
        if *other == id || !it.name.eq_ignore_ascii_case(new) {
            return false;
        }
        let meets = |a: &Def, b: &Def| {
            a.scope.is_some_and(|scope| {
                let at = b.scope.map_or(b.span, |scope| scope);
                scope.file == at.file && scope.start <= at.end && at.start <= scope.end
            })
        };
        match (local(def), local(it)) {
            (true, true) => meets(def, it),
            // A local hides an instance variable or an item that its routine uses.
            (true, false) | (false, true) => {
                let (inner, outer) = if local(def) { (def, *it) } else { (*it, def) };
                let scope = inner.scope.unwrap_or(inner.span);
                let owner = outer.parent.map(|parent| analysis.index.def(parent).whole);
                let around = owner
                    .is_none_or(|w| w.file == scope.file && w.start <= scope.start && scope.end <= w.end);
                let seen = matches!(
                    outer.kind,
                    Kind::InstanceVariable
                        | Kind::Routine
                        | Kind::Type
                        | Kind::Class
                        | Kind::Actor
                        | Kind::Constant
                );
                around && seen && outer.span.file == scope.file
            }
            // Outside of modules, names of files meet where they are imported.
            (false, false) => {
                def.parent == it.parent && (def.parent.is_some() || !analysis.is_prelude(it.span.file))
            }
        }
    });
    other.map(|(_, it)| analysis.sources.line(it.span.file, it.span.start))
}
