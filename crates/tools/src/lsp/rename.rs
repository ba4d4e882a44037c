//! New names, refused where they would change what the program means.

use std::collections::HashMap;
use std::str::FromStr;

use bifrost_theta::lexer::Tok;
use lsp_types::*;

use super::analysis::Analysis;
use super::{RequestError, Server, uri_of};
use crate::index::{Def, DefId, Kind, Use};

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
            return Err(RequestError::failed("there is no name here that is known"));
        };
        let new = params.new_name;
        let old = changeable(&analysis, found)?;
        check_name(&analysis, &new)?;
        if new == old {
            return Ok(None);
        }
        for (id, def) in analysis.index.group(found.def) {
            if let Some(line) = clash(&analysis, id, def, &new) {
                return Err(RequestError::failed(format!("`{new}` is taken already (line {line})")));
            }
        }
        #[allow(clippy::mutable_key_type, reason = "the type of the protocol")]
        let mut changes: HashMap<Uri, Vec<TextEdit>> = HashMap::new();
        for place in analysis.index.places(found.def) {
            // A name given by an import stays as it is.
            if analysis.sources.slice(place.span) != old {
                continue;
            }
            let Ok(uri) = Uri::from_str(&uri_of(analysis.sources.name(place.span.file))) else { continue };
            let edit = TextEdit { range: self.range(&analysis, place.span), new_text: new.clone() };
            changes.entry(uri).or_default().push(edit);
        }
        Ok(Some(WorkspaceEdit { changes: Some(changes), ..WorkspaceEdit::default() }))
    }
}

/// The present name, if it can be changed.
fn changeable(analysis: &Analysis, found: Use) -> Result<String, RequestError> {
    let name = analysis.index.def(found.def).name.to_string();
    for (_, def) in analysis.index.group(found.def) {
        if analysis.is_prelude(def.span.file) {
            return Err(RequestError::failed(format!("`{name}` is predeclared")));
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

/// The line of another definition that the new name would meet; names that differ only in letter case meet too.
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
