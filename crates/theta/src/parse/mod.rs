//! From tokens to the syntax tree: recursive descent, one file for each chapter of the grammar.
//!
//! Invariants: the parser always ends, always returns a tree, and reports at most one mistake at
//! one token. Every loop either takes a token or leaves. Nesting is bounded by [`NESTING_MAX`], the
//! height of expressions by [`HEIGHT_MAX`].
//!
//! Read [`parse`] first, then `Parser::file` in `items`.

mod exprs;
mod habits;
mod items;
mod stmts;
mod types;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::ast::{self, Expr, ExprKind, Ident};
use crate::diagnostic::{Code, Diagnostic};
use crate::lexer::{self, Comment, Tok, Token};
use crate::source::{FILE_BYTES_MAX, FileId, Sources, Span};

/// The depth to which blocks, parentheses and types may nest.
pub const NESTING_MAX: u32 = 256;
/// The greatest height of an expression; chains of operators and calls count.
pub const HEIGHT_MAX: u16 = 1000;
/// Reports kept of one file; a text of noise gives no flood.
const DIAGNOSTICS_MAX: usize = 200;

/// Returns the tree of `file`, and its syntax errors.
pub fn parse(sources: &Sources, file: FileId) -> (ast::File, Vec<Diagnostic>) {
    let text = sources.text(file);
    if text.len() > FILE_BYTES_MAX {
        let span = Span::new(file, 0, 0);
        let message = format!("this file is longer than {} MiB", FILE_BYTES_MAX >> 20);
        let tree = ast::File { id: file, imports: vec![], items: vec![] };
        return (
            tree,
            vec![Diagnostic::error(Code::E0109, span, message).help("split it into several files")],
        );
    }
    let mut parser = parser_of(file, text, None);
    let tree = parser.file();
    let mut diagnostics = parser.diagnostics;
    diagnostics.sort_by_key(|d| d.span.start);
    diagnostics.truncate(DIAGNOSTICS_MAX);
    (tree, diagnostics)
}

/// Returns the items of a text that the compiler has written, for the place `span` of a program's
/// text: that is the place of each node. A name that begins with [`HIDDEN`] has a dot in place of
/// it, so that it is none of the program's.
///
/// A name of the program in the text may be a mistake, which has been reported: then items are
/// missing.
pub(crate) fn written(text: &str, span: Span) -> Vec<ast::Item> {
    parser_of(span.file, text, Some(span)).file().items
}

/// The beginning of names in texts of the compiler that become names with a dot.
pub(crate) const HIDDEN: &str = "persistent__";

fn parser_of(file: FileId, text: &str, fixed: Option<Span>) -> Parser<'_> {
    let lexed = lexer::lex(file, text);
    let ended = lexed.tokens.windows(2).filter(|pair| pair[0].tok == Tok::End && pair[1].tok == Tok::Name);
    let ended = ended.map(|pair| &text[pair[1].start as usize..pair[1].end as usize]).collect();
    Parser {
        file,
        text,
        fixed,
        ended,
        tokens: lexed.tokens,
        comments: lexed.comments,
        at: 0,
        depth: 0,
        diagnostics: lexed.diagnostics,
        last_error: None,
        names: HashMap::new(),
        open: vec![],
    }
}

/// A construct with a name whose `end` has not come yet.
struct Open {
    name: Arc<str>,
    line_at: u32,
}

struct Parser<'a> {
    file: FileId,
    text: &'a str,
    /// The place of all nodes, in a text that the compiler has written.
    fixed: Option<Span>,
    /// The names behind an `end`.
    ended: HashSet<&'a str>,
    tokens: Vec<Token>,
    comments: Vec<Comment>,
    at: usize,
    depth: u32,
    diagnostics: Vec<Diagnostic>,
    /// Token of the last report, to keep one mistake from being reported twice.
    last_error: Option<usize>,
    names: HashMap<&'a str, Arc<str>>,
    open: Vec<Open>,
}

impl<'a> Parser<'a> {
    fn token(&self) -> Token {
        self.tokens[self.at]
    }

    fn tok(&self) -> Tok {
        self.tokens[self.at].tok
    }

    fn ahead(&self, count: usize) -> Token {
        self.tokens[(self.at + count).min(self.tokens.len() - 1)]
    }

    fn bump(&mut self) -> Token {
        let token = self.token();
        if self.at + 1 < self.tokens.len() {
            self.at += 1;
        }
        token
    }

    fn is(&self, tok: Tok) -> bool {
        self.tok() == tok
    }

    /// Returns true if the next token is `tok` on the line of the token before (the line rule of
    /// section 2).
    fn is_here(&self, tok: Tok) -> bool {
        self.is(tok) && !self.token().new_line
    }

    fn take(&mut self, tok: Tok) -> bool {
        let found = self.is(tok);
        if found {
            self.bump();
        }
        found
    }

    fn is_name(&self, ahead: usize, text: &str) -> bool {
        let token = self.ahead(ahead);
        token.tok == Tok::Name && self.text_of(token) == text
    }

    fn text_of(&self, token: Token) -> &'a str {
        &self.text[token.start as usize..token.end as usize]
    }

    fn span_of(&self, token: Token) -> Span {
        self.fixed.unwrap_or_else(|| Span::new(self.file, token.start, token.end))
    }

    fn here(&self) -> Span {
        self.span_of(self.token())
    }

    /// Returns the end of the last taken token.
    fn last_end(&self) -> u32 {
        if self.at == 0 { 0 } else { self.tokens[self.at - 1].end }
    }

    /// Returns the span from byte `start` to the last taken token.
    fn since(&self, start: u32) -> Span {
        self.fixed.unwrap_or_else(|| Span::new(self.file, start, self.last_end().max(start)))
    }

    fn report(&mut self, diagnostic: Diagnostic) {
        if self.last_error == Some(self.at) {
            return;
        }
        self.diagnostics.push(diagnostic);
        if self.diagnostics.len() >= DIAGNOSTICS_MAX {
            // A text of noise: say no more, and do not spend time on it either.
            self.at = self.tokens.len() - 1;
        }
        self.last_error = Some(self.at);
    }

    /// Reports that something else was needed at the next token.
    fn expected(&mut self, what: &str) {
        let found = self.token();
        let text = match found.tok {
            Tok::Name => format!("`{}`", self.text_of(found)),
            tok => tok.describe().to_owned(),
        };
        if let Some(habit) = self.habit() {
            return self.report(habit);
        }
        let mut diagnostic =
            Diagnostic::error(Code::E0109, self.span_of(found), format!("expected {what}, found {text}"));
        if (found.tok == Tok::EndOfFile || what.starts_with("`end "))
            && let Some(open) = self.open.last()
        {
            let line = self.line(open.line_at);
            diagnostic = diagnostic
                .help(format!("`{}`, opened at line {line}, has no `end {}`", open.name, open.name));
        }
        self.report(diagnostic);
    }

    fn expect(&mut self, tok: Tok) -> bool {
        let found = self.take(tok);
        if !found {
            self.expected(tok.describe());
        }
        found
    }

    /// Returns the column of a byte in its line, from 0.
    fn column(&self, at: u32) -> usize {
        let before = &self.text.as_bytes()[..(at as usize).min(self.text.len())];
        before.iter().rev().take_while(|b| **b != b'\n').count()
    }

    fn line(&self, at: u32) -> usize {
        self.text.as_bytes()[..(at as usize).min(self.text.len())].iter().filter(|b| **b == b'\n').count() + 1
    }

    fn intern(&mut self, text: &'a str) -> Arc<str> {
        self.names.entry(text).or_insert_with(|| Arc::from(text)).clone()
    }

    fn ident_of(&mut self, token: Token) -> Ident {
        let text = self.text_of(token);
        let name = match text.strip_prefix(HIDDEN).filter(|_| self.fixed.is_some()) {
            Some(hidden) => Arc::from(format!(".{hidden}")),
            None => self.intern(text),
        };
        Ident { name, span: self.span_of(token) }
    }

    /// Reads a name that must be here; a reserved word in its place is reported and taken if `word`
    /// agrees.
    fn expect_name_or(&mut self, word: impl Fn(&Self) -> bool) -> Ident {
        if self.is(Tok::Name) {
            let token = self.bump();
            return self.ident_of(token);
        }
        if self.tok().is_word() && word(self) {
            self.reserved_word();
            let token = self.bump();
            return self.ident_of(token);
        }
        self.expected("a name");
        Ident { name: Arc::from(""), span: Span { end: self.token().start, ..self.here() } }
    }

    fn expect_name(&mut self) -> Ident {
        // A word that opens or closes something is more likely to mean itself.
        self.expect_name_or(|p| {
            let itself = matches!(p.tok(), Tok::End | Tok::Do | Tok::Then | Tok::In) || p.token().new_line;
            !itself || p.ahead(1).tok == Tok::Colon
        })
    }

    fn reserved_word(&mut self) {
        let word = self.text_of(self.token());
        let kind = if word == "type" { "kind".to_owned() } else { format!("{word}_") };
        let diagnostic = Diagnostic::error(Code::E0104, self.here(), format!("`{word}` is a reserved word"));
        self.report(diagnostic.help(format!("choose another name, for example `{kind}`")));
    }

    /// `LIST(idn)`
    fn names(&mut self) -> Vec<Ident> {
        let mut names = vec![self.expect_name()];
        while self.take(Tok::Comma) {
            names.push(self.expect_name());
        }
        names
    }

    /// Runs `inner` one level deeper; past the limit, reports, leaves the rest of the file, and
    /// gives `None`.
    fn nested<T>(&mut self, inner: impl FnOnce(&mut Self) -> T) -> Option<T> {
        if self.depth >= NESTING_MAX {
            self.too_deep();
            return None;
        }
        self.depth += 1;
        let value = inner(self);
        self.depth -= 1;
        Some(value)
    }

    fn too_deep(&mut self) {
        let message = format!("the source is nested deeper than {NESTING_MAX} levels");
        self.report(
            Diagnostic::error(Code::E0109, self.here(), message)
                .help("move an inner part to a definition of its own"),
        );
        // Going on would report each level again.
        self.at = self.tokens.len() - 1;
        self.last_error = Some(self.at);
    }

    /// Reads an expression whose height follows from its parts.
    fn expr(&mut self, kind: ExprKind, span: Span, inner: u16) -> Expr {
        if inner >= HEIGHT_MAX {
            self.too_deep();
            return Expr { kind: ExprKind::Error, span, height: 0 };
        }
        Expr { kind, span, height: inner + 1 }
    }

    /// Returns the comment block that starts right after the last taken token and ends before the
    /// next one.
    fn doc_after(&self) -> String {
        let (from, to) = (self.last_end(), self.token().start);
        let first = self.comments.partition_point(|c| c.start < from);
        let mut lines = vec![];
        let mut end = from;
        for comment in self.comments[first..].iter().take_while(|c| c.start < to) {
            if self.newlines(end, comment.start) > 1 {
                break;
            }
            lines.push(self.comment_text(*comment));
            end = comment.end;
        }
        lines.join("\n")
    }

    /// Returns the comment block that ends on the line before the next token.
    fn doc_before(&self) -> String {
        let from = self.last_end();
        let mut next = self.token().start;
        let last = self.comments.partition_point(|c| c.start < next);
        let mut lines = vec![];
        for comment in self.comments[..last].iter().rev().take_while(|c| c.start >= from) {
            let alone = from == 0 || self.newlines(from, comment.start) > 0;
            if self.newlines(comment.end, next) != 1 || !alone {
                break;
            }
            lines.push(self.comment_text(*comment));
            next = comment.start;
        }
        lines.reverse();
        lines.join("\n")
    }

    /// Returns the comment of a type or class whose head has just been read: the block above it,
    /// and the one directly behind the head as a paragraph of its own.
    fn doc_with_head(&self, above: String) -> String {
        let behind = self.doc_after();
        match (above.is_empty(), behind.is_empty()) {
            (true, _) => behind,
            (false, true) => above,
            (false, false) => format!("{above}\n\n{behind}"),
        }
    }

    fn newlines(&self, from: u32, to: u32) -> usize {
        self.text.as_bytes()[from as usize..to as usize].iter().filter(|b| **b == b'\n').count()
    }

    fn comment_text(&self, comment: Comment) -> &'a str {
        self.text[comment.start as usize..comment.end as usize].trim_start_matches('%').trim()
    }

    /// Opens a construct that is closed by `end name`.
    fn open(&mut self, name: &Ident) {
        self.open.push(Open { name: name.name.clone(), line_at: name.span.start });
    }

    /// Reads the `end name` of the construct opened last; its span.
    fn close(&mut self) -> Span {
        let Some(open) = self.open.pop() else { return self.here() };
        let start = self.token().start;
        if !self.is(Tok::End) {
            let what = format!("`end {}`", open.name);
            self.open.push(open);
            self.expected(&what);
            self.open.pop();
            return Span { end: start, ..self.here() };
        }
        let next = self.ahead(1);
        let fits = next.tok == Tok::Name || (next.tok.is_word() && &*open.name == self.text_of(next));
        if fits && self.text_of(next) == &*open.name {
            self.bump();
            self.bump();
            return self.since(start);
        }
        let line = self.line(open.line_at);
        let help = format!("write `end {}`; opened at line {line}", open.name);
        if next.tok != Tok::Name || next.new_line {
            self.bump();
            let what = if open.name.is_empty() {
                // The name itself was missing, which has been reported.
                return self.since(start);
            } else {
                format!("this `end` has no name, but `{}` is open here", open.name)
            };
            self.last_error = None;
            self.report(Diagnostic::error(Code::E0102, self.since(start), what).help(help));
            return self.since(start);
        }
        let found = self.text_of(next);
        let message = format!("this `end` names `{found}`, but `{}` is open here", open.name);
        if !open.name.is_empty() {
            self.last_error = None;
            self.report(Diagnostic::error(Code::E0102, self.span_of(next), message).help(help));
        }
        // If the name is that of an outer construct, this one's `end` is missing: leave it to the
        // outer.
        if !self.open.iter().any(|outer| &*outer.name == found) {
            self.bump();
            self.bump();
        }
        self.since(start)
    }

    /// Returns true if the `end` at the next token names an open construct, as in `end DataBase`.
    fn is_end_of_open(&self) -> bool {
        let (next, after) = (self.ahead(1), self.ahead(2));
        self.is(Tok::End)
            && next.tok == Tok::Name
            && !next.new_line
            && self.open.iter().any(|open| &*open.name == self.text_of(next))
            && (after.new_line
                || !matches!(
                    after.tok,
                    Tok::LParen | Tok::Dot | Tok::Assign | Tok::Colon | Tok::LBracket | Tok::Comma
                ))
    }
}
