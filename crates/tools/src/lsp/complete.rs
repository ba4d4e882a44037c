//! The completions at a place.

use bifrost_theta::lexer::Tok;
use lsp_types::*;

use super::analysis::{Analysis, View};
use super::{RequestError, Server, described, path_of};
use crate::index::{Def, DefId, Kind};

/// Stands for the name that is being written: a dot with nothing after it is not read as a
/// selection.
const PLACEHOLDER: &str = "being_written_here";

/// Statements with places to fill in.
const SNIPPETS: &[(&str, &str)] = &[
    ("if", "if ${1:condition} then\n  $0\nend"),
    ("while", "while ${1:condition} do\n  $0\nend"),
    ("for", "for ${1:name}: ${2:type} in ${3:iterator} do\n  $0\nend"),
    ("begin", "begin\n  $0\nend"),
    ("tagcase", "tagcase ${1:value}\n  when ${2:tag} (${3:name}: ${4:type}): $0\nend"),
    ("typecase", "typecase ${1:object}\n  when ${2:type} (${3:name}): $0\nend"),
    ("except", "except when ${1:name}: $0 end"),
    ("type", "${1:Name} = type\n  $0\nend ${1:Name}"),
    ("class", "${1:Name} = class implements ${2:type}\n  $0\nend ${1:Name}"),
    ("actor", "${1:Name} = actor\n  $0\nend ${1:Name}"),
    ("module", "module ${1:name} exports ${2:names}\n  $0\nend ${1:name}"),
    ("remote", "remote ${1:name} (${2:arguments}) returns (${3:type})\n  $0\nend ${1:name}"),
    ("routine", "${1:name} (${2:arguments}) returns (${3:type})\n  $0\nend ${1:name}"),
];

impl Server {
    pub(super) fn completion(&self, params: CompletionParams) -> Result<Vec<CompletionItem>, RequestError> {
        let place = params.text_document_position;
        let path = path_of(place.text_document.uri.as_str());
        let Some(text) = self.open.get(&path) else { return Ok(vec![]) };
        let at = self.encoding.byte(text, place.position);
        let is_part = |b: &u8| *b == b'_' || b.is_ascii_alphanumeric();
        let start = at - text.as_bytes()[..at].iter().rev().take_while(|b| is_part(b)).count();
        let end = at + text.as_bytes()[at..].iter().take_while(|b| is_part(b)).count();
        if is_in_comment_or_string(text, start) {
            return Ok(vec![]);
        }
        let mut written = self.open.clone();
        written.insert(path.clone(), format!("{}{PLACEHOLDER}{}", &text[..start], &text[end..]));
        let view = View { open: &written, files: &*self.files, folders: &self.folders };
        let analysis = view.document(&path);
        let Some(file) = analysis.file(&path) else { return Ok(vec![]) };
        let before = text[..start].trim_end();
        if before.ends_with('.') && !before.ends_with("..") {
            let selection = analysis.index.selections.iter().rev();
            let mut here = selection.filter(|(span, _)| span.file == file && span.start as usize == start);
            let members = here.next().map(|(_, ty)| analysis.index.members(ty)).unwrap_or_default();
            return Ok(self.items(&analysis, members));
        }
        let mut visible = analysis.index.visible(file, start as u32);
        visible.retain(|(name, _)| &**name != PLACEHOLDER);
        let mut items = self.items(&analysis, visible);
        items.extend(ends(&analysis, file, start as u32));
        items.extend(Tok::WORDS.iter().map(|word| CompletionItem {
            label: (*word).to_owned(),
            kind: Some(CompletionItemKind::KEYWORD),
            ..CompletionItem::default()
        }));
        items.extend(SNIPPETS.iter().map(|(label, text)| CompletionItem {
            label: format!("{label} …"),
            filter_text: Some((*label).to_owned()),
            kind: Some(CompletionItemKind::SNIPPET),
            insert_text: Some((*text).to_owned()),
            insert_text_format: Some(InsertTextFormat::SNIPPET),
            ..CompletionItem::default()
        }));
        Ok(items)
    }

    fn items(&self, analysis: &Analysis, names: Vec<(std::sync::Arc<str>, DefId)>) -> Vec<CompletionItem> {
        let item = |(name, id): (std::sync::Arc<str>, DefId)| {
            let def = analysis.index.def(id);
            let documentation = MarkupContent { kind: MarkupKind::Markdown, value: described(def) };
            CompletionItem {
                label: name.to_string(),
                kind: Some(item_kind(def.kind)),
                detail: Some(def.heading.clone()),
                documentation: Some(Documentation::MarkupContent(documentation)),
                ..CompletionItem::default()
            }
        };
        names.into_iter().map(item).collect()
    }
}

/// Returns `end name` of the definitions open at a place, innermost first.
fn ends(analysis: &Analysis, file: bifrost_theta::FileId, at: u32) -> Vec<CompletionItem> {
    let named = |def: &Def| {
        matches!(
            def.kind,
            Kind::Module
                | Kind::Type
                | Kind::Class
                | Kind::Actor
                | Kind::Routine
                | Kind::Method
                | Kind::Maker
        )
    };
    let holds = |def: &Def| def.whole.file == file && def.span.end < at && at <= def.whole.end;
    let mut open: Vec<&Def> =
        analysis.index.all().map(|(_, def)| def).filter(|d| named(d) && holds(d)).collect();
    open.sort_by_key(|def| def.whole.end - def.whole.start);
    let item = |(at, def): (usize, &Def)| CompletionItem {
        label: format!("end {}", def.name),
        kind: Some(CompletionItemKind::KEYWORD),
        sort_text: Some(format!("{at:02}")),
        ..CompletionItem::default()
    };
    open.into_iter().enumerate().map(item).collect()
}

fn is_in_comment_or_string(text: &str, at: usize) -> bool {
    let line = text[..at].rsplit('\n').next().unwrap_or("");
    let (mut quote, mut escaped) = (None, false);
    for c in line.chars() {
        match (quote, c) {
            _ if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(open), _) if open == c => quote = None,
            (Some(_), _) => {}
            (None, '%') => return true,
            (None, '"' | '\'') => quote = Some(c),
            (None, _) => {}
        }
    }
    quote.is_some()
}

fn item_kind(kind: Kind) -> CompletionItemKind {
    match kind {
        Kind::Module => CompletionItemKind::MODULE,
        Kind::Type => CompletionItemKind::INTERFACE,
        Kind::Class | Kind::Actor => CompletionItemKind::CLASS,
        Kind::Routine => CompletionItemKind::FUNCTION,
        Kind::Constant => CompletionItemKind::CONSTANT,
        Kind::TypeParameter => CompletionItemKind::TYPE_PARAMETER,
        Kind::Method => CompletionItemKind::METHOD,
        Kind::Maker => CompletionItemKind::CONSTRUCTOR,
        Kind::InstanceVariable | Kind::Field => CompletionItemKind::FIELD,
        Kind::Parameter | Kind::Local => CompletionItemKind::VARIABLE,
    }
}
