//! The language server: requests and notifications of the Language Server Protocol in, answers out.
//!
//! Pure but for [`Files`], through which it sees the disk. [`Server`] keeps the documents that are
//! open; whatever is asked is answered from their texts as they are now, so that no order of
//! messages can leave it with an old view. Columns count as the client has chosen.
//!
//! Read [`Server::request`] and [`Server::notification`] first.

mod analysis;
mod complete;
mod rename;
mod symbols;
mod text;

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;
use std::sync::Arc;

use bifrost_theta::{FileId, NativeHeadings, Severity, Span};
use lsp_types::*;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::index::{Def, Use};
use analysis::{Analysis, View};
use text::Encoding;
pub use text::{path_of, uri_of};

/// The server's view of the disk.
pub trait Files {
    /// Returns the text of a file; `None` if it cannot be read.
    fn read(&self, path: &str) -> Option<String>;
    /// Returns the paths of all Theta files below a folder.
    fn list(&self, folder: &str) -> Vec<String>;
    /// Returns a source that programs can import without a file: `std/files.theta` for
    /// `import std.files`.
    fn built_in(&self, name: &str) -> Option<String>;
    /// Returns the names of all those sources.
    fn built_in_names(&self) -> Vec<String> {
        Vec::new()
    }
    /// Returns the natives that programs may declare, as for
    /// [`Options::natives`](bifrost_theta::Options::natives).
    fn natives(&self) -> Option<Arc<NativeHeadings>>;
}

/// The reason why a request has no result.
#[derive(PartialEq, Debug)]
pub struct RequestError {
    /// A code of the protocol.
    pub code: i32,
    /// The text for people.
    pub message: String,
}

impl RequestError {
    fn new(code: i32, message: impl Into<String>) -> RequestError {
        RequestError { code, message: message.into() }
    }

    /// Makes the error for a request that is well formed, but cannot be done.
    fn failed(message: impl Into<String>) -> RequestError {
        RequestError::new(REQUEST_FAILED, message)
    }
}

/// The message is no JSON.
pub const PARSE_ERROR: i32 = -32700;
/// The message is no request, or comes after `shutdown`.
pub const INVALID_REQUEST: i32 = -32600;
const METHOD_NOT_FOUND: i32 = -32601;
const INVALID_PARAMS: i32 = -32602;
const NOT_INITIALIZED: i32 = -32002;
const REQUEST_FAILED: i32 = -32803;
/// The client has taken the request back.
pub const REQUEST_CANCELLED: i32 = -32800;

/// A notification for the client: method and parameters.
pub type Notification = (&'static str, Value);

#[derive(PartialEq, Eq)]
enum Phase {
    New,
    Running,
    Ended,
}

/// One client's server.
pub struct Server {
    files: Box<dyn Files>,
    phase: Phase,
    open: BTreeMap<String, String>,
    folders: Vec<String>,
    encoding: Encoding,
    /// Files that the client has diagnostics of.
    reported: BTreeSet<String>,
}

impl Server {
    /// Returns a server that has not been initialised.
    pub fn new(files: Box<dyn Files>) -> Server {
        Server {
            files,
            phase: Phase::New,
            open: BTreeMap::new(),
            folders: vec![],
            encoding: Encoding::Utf16,
            reported: BTreeSet::new(),
        }
    }

    /// Returns true if the client has asked for the end.
    pub fn is_ended(&self) -> bool {
        self.phase == Phase::Ended
    }

    /// Answers a request.
    ///
    /// # Errors
    /// The error that the client is to be told instead.
    pub fn request(&mut self, method: &str, params: Value) -> Result<Value, RequestError> {
        match (&self.phase, method) {
            (Phase::New, "initialize") => return self.initialize(params),
            (Phase::New, _) => {
                return Err(RequestError::new(NOT_INITIALIZED, "the first request is `initialize`"));
            }
            (Phase::Running, "initialize") => {
                return Err(RequestError::new(INVALID_REQUEST, "the server is already initialised"));
            }
            (Phase::Ended, _) => {
                return Err(RequestError::new(INVALID_REQUEST, "the server has been shut down"));
            }
            _ => {}
        }
        match method {
            "shutdown" => {
                self.phase = Phase::Ended;
                Ok(Value::Null)
            }
            "textDocument/hover" => answer(params, |p: HoverParams| self.hover(p)),
            "textDocument/definition" => answer(params, |p: GotoDefinitionParams| self.definition(p)),
            "textDocument/references" => answer(params, |p: ReferenceParams| self.references(p)),
            "textDocument/documentHighlight" => {
                answer(params, |p: DocumentHighlightParams| self.highlights(p))
            }
            "textDocument/prepareRename" => {
                answer(params, |p: TextDocumentPositionParams| self.prepare_rename(p))
            }
            "textDocument/rename" => answer(params, |p: RenameParams| self.rename(p)),
            "textDocument/completion" => answer(params, |p: CompletionParams| self.completion(p)),
            "textDocument/formatting" => answer(params, |p: DocumentFormattingParams| self.formatting(p)),
            "textDocument/documentSymbol" => {
                answer(params, |p: DocumentSymbolParams| self.document_symbols(p))
            }
            "workspace/symbol" => answer(params, |p: WorkspaceSymbolParams| self.workspace_symbols(p)),
            _ => Err(RequestError::new(METHOD_NOT_FOUND, format!("there is no method `{method}`"))),
        }
    }

    /// Takes a notification; returns those for the client. A notification that makes no sense is
    /// ignored, as the protocol wants it.
    pub fn notification(&mut self, method: &str, params: Value) -> Vec<Notification> {
        if self.phase != Phase::Running {
            return vec![];
        }
        let known = match method {
            "textDocument/didOpen" => take(params, |p: DidOpenTextDocumentParams| {
                self.open.insert(path_of(p.text_document.uri.as_str()), p.text_document.text);
            }),
            "textDocument/didChange" => take(params, |p: DidChangeTextDocumentParams| self.change(p)),
            "textDocument/didClose" => take(params, |p: DidCloseTextDocumentParams| {
                self.open.remove(&path_of(p.text_document.uri.as_str()));
            }),
            "workspace/didChangeWatchedFiles" | "textDocument/didSave" => true,
            _ => false,
        };
        if known { self.diagnose() } else { vec![] }
    }

    fn initialize(&mut self, params: Value) -> Result<Value, RequestError> {
        let params: InitializeParams = read(params)?;
        let offered = params.capabilities.general.and_then(|general| general.position_encodings);
        if offered.is_some_and(|offered| offered.contains(&PositionEncodingKind::UTF8)) {
            self.encoding = Encoding::Utf8;
        }
        let folders = params.workspace_folders.unwrap_or_default();
        self.folders = folders.iter().map(|folder| path_of(folder.uri.as_str())).collect();
        #[allow(deprecated, reason = "older clients have no workspace folders")]
        if let (true, Some(root)) = (self.folders.is_empty(), params.root_uri) {
            self.folders.push(path_of(root.as_str()));
        }
        self.phase = Phase::Running;
        let encoding = match self.encoding {
            Encoding::Utf8 => "utf-8",
            Encoding::Utf16 => "utf-16",
        };
        Ok(json!({
            "capabilities": {
                "positionEncoding": encoding,
                // Changes of parts, and documents opened and closed.
                "textDocumentSync": { "openClose": true, "change": 2, "save": true },
                "hoverProvider": true,
                "definitionProvider": true,
                "referencesProvider": true,
                "documentHighlightProvider": true,
                "renameProvider": { "prepareProvider": true },
                "completionProvider": { "triggerCharacters": ["."] },
                "documentFormattingProvider": true,
                "documentSymbolProvider": true,
                "workspaceSymbolProvider": true,
            },
            "serverInfo": { "name": "bifrost", "version": env!("CARGO_PKG_VERSION") },
        }))
    }

    fn change(&mut self, params: DidChangeTextDocumentParams) {
        let Some(text) = self.open.get_mut(&path_of(params.text_document.uri.as_str())) else { return };
        for change in params.content_changes {
            let Some(range) = change.range else {
                *text = change.text;
                continue;
            };
            let start = self.encoding.byte(text, range.start);
            let end = self.encoding.byte(text, range.end).max(start);
            text.replace_range(start..end, &change.text);
        }
    }

    fn view(&self) -> View<'_> {
        View { open: &self.open, files: &*self.files, folders: &self.folders }
    }

    /// Returns the mistakes in every open document; files that were wrong and are no longer get an
    /// empty list.
    fn diagnose(&mut self) -> Vec<Notification> {
        let mut found: BTreeMap<String, Vec<Diagnostic>> = BTreeMap::new();
        for path in self.open.keys() {
            found.entry(path.clone()).or_default();
            let (sources, diagnostics) = self.view().diagnostics(path);
            for diagnostic in diagnostics {
                let file = sources.name(diagnostic.span.file).to_owned();
                let made = self.diagnostic(&sources, &diagnostic);
                let list = found.entry(file).or_default();
                // Two documents may import one file.
                if !list.contains(&made) {
                    list.push(made);
                }
            }
        }
        for path in &self.reported {
            found.entry(path.clone()).or_default();
        }
        self.reported =
            found.iter().filter(|(_, list)| !list.is_empty()).map(|(path, _)| path.clone()).collect();
        let publish = |(path, diagnostics): (String, Vec<Diagnostic>)| {
            let params = json!({ "uri": uri_of(&path), "diagnostics": diagnostics });
            ("textDocument/publishDiagnostics", params)
        };
        found.into_iter().map(publish).collect()
    }

    fn diagnostic(&self, sources: &bifrost_theta::Sources, it: &bifrost_theta::Diagnostic) -> Diagnostic {
        let severity = match it.severity {
            Severity::Error => DiagnosticSeverity::ERROR,
            _ => DiagnosticSeverity::WARNING,
        };
        let message = match &it.help {
            Some(help) => format!("{}\nhelp: {help}", it.message),
            None => it.message.clone(),
        };
        Diagnostic {
            range: self.encoding.range(sources.text(it.span.file), it.span.start, it.span.end),
            severity: Some(severity),
            code: Some(NumberOrString::String(it.code.name().to_owned())),
            source: Some("bifrost".to_owned()),
            message,
            ..Diagnostic::default()
        }
    }

    /// Returns the name at a place of a document.
    fn find(&self, analysis: &Analysis, place: &TextDocumentPositionParams) -> Option<(FileId, Use)> {
        let file = analysis.file(&path_of(place.text_document.uri.as_str()))?;
        let at = self.encoding.byte(analysis.sources.text(file), place.position);
        Some((file, analysis.index.at(file, at as u32)?))
    }

    fn range(&self, analysis: &Analysis, span: Span) -> Range {
        self.encoding.range(analysis.sources.text(span.file), span.start, span.end)
    }

    fn location(&self, analysis: &Analysis, span: Span) -> Option<Location> {
        if analysis.is_built_in(span.file) {
            return None;
        }
        let uri = Uri::from_str(&uri_of(analysis.sources.name(span.file))).ok()?;
        Some(Location { uri, range: self.range(analysis, span) })
    }

    fn document(&self, uri: &Uri) -> Analysis {
        self.view().document(&path_of(uri.as_str()))
    }

    fn hover(&self, params: HoverParams) -> Result<Option<Hover>, RequestError> {
        let place = params.text_document_position_params;
        let analysis = self.document(&place.text_document.uri);
        let Some((_, found)) = self.find(&analysis, &place) else { return Ok(None) };
        let value = described(analysis.index.def(found.def));
        let contents = HoverContents::Markup(MarkupContent { kind: MarkupKind::Markdown, value });
        Ok(Some(Hover { contents, range: Some(self.range(&analysis, found.span)) }))
    }

    fn definition(&self, params: GotoDefinitionParams) -> Result<Option<Location>, RequestError> {
        let place = params.text_document_position_params;
        let analysis = self.document(&place.text_document.uri);
        let found = self.find(&analysis, &place);
        Ok(found.and_then(|(_, found)| self.location(&analysis, analysis.index.def(found.def).span)))
    }

    fn references(&self, params: ReferenceParams) -> Result<Vec<Location>, RequestError> {
        let analysis = self.view().workspace();
        let Some((_, found)) = self.find(&analysis, &params.text_document_position) else {
            return Ok(vec![]);
        };
        let index = &analysis.index;
        let wanted =
            |place: &Use| params.context.include_declaration || index.def(place.def).span != place.span;
        Ok(index.places(found.def).filter(wanted).filter_map(|p| self.location(&analysis, p.span)).collect())
    }

    fn highlights(&self, params: DocumentHighlightParams) -> Result<Vec<DocumentHighlight>, RequestError> {
        let place = params.text_document_position_params;
        let analysis = self.document(&place.text_document.uri);
        let Some((file, found)) = self.find(&analysis, &place) else { return Ok(vec![]) };
        let places = analysis.index.places(found.def).filter(|place| place.span.file == file);
        Ok(places.map(|p| DocumentHighlight { range: self.range(&analysis, p.span), kind: None }).collect())
    }

    fn formatting(&self, params: DocumentFormattingParams) -> Result<Option<Vec<TextEdit>>, RequestError> {
        let path = path_of(params.text_document.uri.as_str());
        let Some(text) = self.open.get(&path) else { return Ok(None) };
        let mut sources = bifrost_theta::Sources::new();
        let file = sources.add(path, text);
        // A text that does not parse stays as it is; its diagnostics say why.
        let Ok(new_text) = crate::fmt::format(&sources, file) else { return Ok(None) };
        if new_text == *text {
            return Ok(Some(vec![]));
        }
        Ok(Some(vec![TextEdit { range: self.encoding.range(text, 0, text.len() as u32), new_text }]))
    }
}

/// Returns a definition for people: its heading and its comment.
fn described(def: &Def) -> String {
    let mut text = format!("```theta\n{}\n```\n{}", def.heading, def.kind.name());
    if !def.doc.is_empty() {
        text.push_str("\n\n");
        text.push_str(&def.doc);
    }
    text
}

fn read<P: DeserializeOwned>(params: Value) -> Result<P, RequestError> {
    serde_json::from_value(params).map_err(|e| RequestError::new(INVALID_PARAMS, e.to_string()))
}

fn answer<P: DeserializeOwned, R: Serialize>(
    params: Value,
    work: impl FnOnce(P) -> Result<R, RequestError>,
) -> Result<Value, RequestError> {
    let result = work(read(params)?)?;
    Ok(serde_json::to_value(result).expect("answers always serialise"))
}

fn take<P: DeserializeOwned>(params: Value, work: impl FnOnce(P)) -> bool {
    read(params).map(work).is_ok()
}
