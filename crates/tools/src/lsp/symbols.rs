//! Outlines of documents and of the workspace.

use lsp_types::*;

use super::analysis::Analysis;
use super::{RequestError, Server, path_of};
use crate::index::{Def, DefId, Kind};

/// Symbols that a search for names gives at most.
const FOUND_MAX: usize = 500;

impl Server {
    pub(super) fn document_symbols(
        &self,
        params: DocumentSymbolParams,
    ) -> Result<Option<DocumentSymbolResponse>, RequestError> {
        let path = path_of(params.text_document.uri.as_str());
        let analysis = self.view().document(&path);
        let Some(file) = analysis.file(&path) else { return Ok(None) };
        let here = analysis.index.all().filter(|(_, def)| def.span.file == file).collect::<Vec<_>>();
        Ok(Some(DocumentSymbolResponse::Nested(self.symbols(&analysis, &here, None))))
    }

    /// Returns the symbols right inside `parent`.
    fn symbols(
        &self,
        analysis: &Analysis,
        all: &[(DefId, &Def)],
        parent: Option<DefId>,
    ) -> Vec<DocumentSymbol> {
        let shown = all.iter().filter(|(_, def)| def.parent == parent && !def.name.is_empty());
        let mut symbols: Vec<DocumentSymbol> = shown
            .filter_map(|(id, def)| {
                let kind = symbol_kind(def.kind)?;
                #[allow(deprecated, reason = "the field has to be filled")]
                Some(DocumentSymbol {
                    name: def.name.to_string(),
                    detail: Some(def.heading.clone()),
                    kind,
                    tags: None,
                    deprecated: None,
                    range: self.range(analysis, def.whole.to(def.span)),
                    selection_range: self.range(analysis, def.span),
                    children: Some(self.symbols(analysis, all, Some(*id))),
                })
            })
            .collect();
        symbols.sort_by_key(|symbol| symbol.range.start);
        symbols
    }

    pub(super) fn workspace_symbols(
        &self,
        params: WorkspaceSymbolParams,
    ) -> Result<Vec<SymbolInformation>, RequestError> {
        let analysis = self.view().workspace();
        let wanted = params.query.to_lowercase();
        let named = analysis.index.all().filter(|(_, def)| def.name.to_lowercase().contains(&wanted));
        let symbols = named.filter_map(|(_, def)| {
            #[allow(deprecated, reason = "the field has to be filled")]
            Some(SymbolInformation {
                name: def.name.to_string(),
                kind: symbol_kind(def.kind)?,
                tags: None,
                deprecated: None,
                location: self.location(&analysis, def.span)?,
                container_name: def.parent.map(|id| analysis.index.def(id).name.to_string()),
            })
        });
        Ok(symbols.take(FOUND_MAX).collect())
    }
}

/// Returns the kind of a definition in an outline; definitions inside of routines are not shown.
fn symbol_kind(kind: Kind) -> Option<SymbolKind> {
    Some(match kind {
        Kind::Module => SymbolKind::MODULE,
        Kind::Type => SymbolKind::INTERFACE,
        Kind::Class | Kind::Actor => SymbolKind::CLASS,
        Kind::Routine => SymbolKind::FUNCTION,
        Kind::Constant => SymbolKind::CONSTANT,
        Kind::Method => SymbolKind::METHOD,
        Kind::Maker => SymbolKind::CONSTRUCTOR,
        Kind::InstanceVariable => SymbolKind::FIELD,
        Kind::TypeParameter | Kind::Field | Kind::Parameter | Kind::Local => return None,
    })
}
