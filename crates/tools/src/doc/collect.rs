//! From trees to pages.

use std::collections::HashMap;

use bifrost_theta::ast::*;
use bifrost_theta::lexer::{self, Tok, Tokens};
use bifrost_theta::{Diagnostic, FileId, Options, Sources, Span, imports, parse};

use super::model::{Entry, Page, Part};
use super::{Format, markdown};

/// Returns the pages of `files`, in their order.
pub fn pages(
    sources: &Sources,
    files: &[FileId],
    options: &Options,
    format: Format,
) -> Result<Vec<Page>, Vec<Diagnostic>> {
    let mut mistakes = vec![];
    let mut trees = vec![];
    for &file in files {
        let (tree, found) = parse(sources, file);
        mistakes.extend(found);
        trees.push(tree);
    }
    if !mistakes.is_empty() {
        return Err(mistakes);
    }
    let hrefs = page_names(sources, files, options, format);
    let mut public: HashMap<FileId, HashMap<&str, String>> = HashMap::new();
    for (tree, href) in trees.iter().zip(&hrefs) {
        let names = shown(tree).into_iter().map(|(_, item)| {
            let name = &*item.name().name;
            (name, format!("{href}#{}", anchor(name)))
        });
        public.insert(tree.id, names.collect());
    }
    let pages = trees.iter().zip(hrefs).map(|(tree, href)| {
        let lexed = lexer::lex(tree.id, sources.text(tree.id));
        let mut links = HashMap::new();
        for (import, name) in tree.imports.iter().zip(imports(sources, tree.id, options)) {
            let Some(there) = sources.find(&name).and_then(|file| public.get(&file)) else { continue };
            match &import.names {
                None => links.extend(there.iter().map(|(name, href)| (name.to_string(), href.clone()))),
                Some(names) => links.extend(names.iter().filter_map(|(there_, here)| {
                    Some((here.name.to_string(), there.get(&*there_.name)?.clone()))
                })),
            }
        }
        links.extend(public[&tree.id].iter().map(|(name, href)| (name.to_string(), href.clone())));
        let view = View { text: sources.text(tree.id), lexed, links, format };
        view.page(tree, title(sources, tree.id, options), href)
    });
    Ok(pages.collect())
}

/// Returns the definitions that others can name, with the module around each.
fn shown(tree: &File) -> Vec<(Option<&Module>, &Item)> {
    fn add<'t>(
        module: Option<&'t Module>,
        items: &'t [Item],
        found: &mut Vec<(Option<&'t Module>, &'t Item)>,
    ) {
        for item in items {
            if let Item::Module(inner) = item {
                add(Some(inner), &inner.items, found);
            } else if module.is_none_or(|m| m.exports.iter().any(|name| name.name == item.name().name)) {
                found.push((module, item));
            }
        }
    }
    let mut found = vec![];
    add(None, &tree.items, &mut found);
    found
}

fn title(sources: &Sources, file: FileId, options: &Options) -> String {
    let name = sources.name(file);
    let inner = name.strip_prefix(&options.root).map_or(name, |rest| rest.trim_start_matches('/'));
    inner.trim_start_matches("./").to_owned()
}

/// Returns a name for each page, none twice.
fn page_names(sources: &Sources, files: &[FileId], options: &Options, format: Format) -> Vec<String> {
    let mut taken = vec!["index".to_owned()];
    for &file in files {
        let title = title(sources, file, options);
        let stem = title.strip_suffix(".theta").unwrap_or(&title);
        let stem: String =
            stem.chars().map(|c| if c.is_alphanumeric() || "-_".contains(c) { c } else { '.' }).collect();
        let mut name = stem.trim_start_matches('.').to_owned();
        while name.is_empty() || taken.contains(&name) {
            name.push('_');
        }
        taken.push(name);
    }
    taken.split_off(1).into_iter().map(|name| format!("{name}.{}", format.extension())).collect()
}

/// Returns the place of a definition on its page; the methods of one stand below it.
fn anchor(name: &str) -> String {
    format!("def.{name}")
}

/// One text, and the links of its names.
struct View<'a> {
    text: &'a str,
    lexed: Tokens,
    links: HashMap<String, String>,
    format: Format,
}

impl View<'_> {
    fn page(&self, tree: &File, title: String, href: String) -> Page {
        let doc = self.file_doc();
        let entries = shown(tree).into_iter().filter_map(|(_, item)| self.item(item)).collect();
        Page { title, href, summary: markdown::summary(&doc), doc: self.set(&doc), entries }
    }

    fn set(&self, doc: &str) -> String {
        match self.format {
            Format::Html => markdown::to_html(doc),
            Format::Markdown => markdown::to_markdown(doc),
        }
    }

    /// Returns the comment that starts the text, if an empty line parts it from the first
    /// definition.
    fn file_doc(&self) -> String {
        let first = self.lexed.tokens.first().map_or(0, |token| token.start);
        let (lines, end) = self.block(0, first);
        let parted = newlines(&self.text[end as usize..first as usize]) > 1 || lines.is_empty();
        if parted { lines.join("\n") } else { String::new() }
    }

    /// Returns the lines of the first block of comments between two bytes, and where it ends.
    fn block(&self, from: u32, to: u32) -> (Vec<&str>, u32) {
        let (mut lines, mut end) = (vec![], from);
        for comment in self.lexed.comments.iter().filter(|c| c.start >= from && c.start < to) {
            if !lines.is_empty() && newlines(&self.text[end as usize..comment.start as usize]) > 1 {
                break;
            }
            let text = &self.text[comment.start as usize..comment.end as usize];
            lines.push(text.trim_start_matches('%').trim());
            end = comment.end;
        }
        (lines, end)
    }

    fn item(&self, item: &Item) -> Option<Entry> {
        Some(match item {
            Item::Module(_) => return None,
            Item::Equate(it) => {
                let span = it.name.span.to(it.value.span);
                let kind = if matches!(it.value.kind, ExprKind::Type(_)) { "type name" } else { "constant" };
                self.entry(kind, &it.name, anchor(&it.name.name), span, &it.doc, vec![])
            }
            Item::Type(it) => {
                let members = it.methods.iter().map(|m| self.method(&it.name, m)).collect();
                let first = it
                    .methods
                    .iter()
                    .map(|m| m.span.start)
                    .chain(it.equates.iter().map(|e| e.name.span.start));
                let head = self.head(it.span, first.min());
                let kind = if it.actor { "actor type" } else { "type" };
                self.entry(kind, &it.name, anchor(&it.name.name), head, &it.doc, members)
            }
            Item::Class(it) => {
                let makers =
                    it.makers.iter().filter(|m| it.provides.iter().any(|p| p.name == m.heading.name.name));
                // Every holder of an actor may call all its methods; those of a class are known by
                // the types that it implements.
                let methods = it.methods.iter().map(|m| &m.heading).chain(&it.headings);
                let methods = methods.filter(|_| it.actor.is_some());
                let members =
                    makers.map(|m| &m.heading).chain(methods).map(|m| self.method(&it.name, m)).collect();
                let creators = it.actor.iter().flat_map(|actor| &actor.creators);
                let first = it.ivars.iter().map(|v| v.name.span.start);
                let first = first.chain(it.methods.iter().map(|m| m.heading.span.start));
                let first = first.chain(it.makers.iter().map(|m| m.heading.span.start));
                let first = first.chain(it.headings.iter().map(|m| m.span.start));
                let first = first.chain(it.equates.iter().map(|e| e.name.span.start));
                let first = first.chain(creators.map(|c| c.span.start));
                let head = self.head(it.span, first.min());
                let kind = if it.actor.is_some() { "actor" } else { "class" };
                self.entry(kind, &it.name, anchor(&it.name.name), head, &it.doc, members)
            }
            Item::Routine(Routine { heading, .. }) | Item::NativeRoutine(NativeRoutine { heading, .. }) => {
                let kind = if heading.result.yields { "iterator" } else { "routine" };
                self.entry(
                    kind,
                    &heading.name,
                    anchor(&heading.name.name),
                    heading.whole(),
                    &heading.doc,
                    vec![],
                )
            }
        })
    }

    fn method(&self, owner: &Ident, heading: &Heading) -> Entry {
        let kind = if heading.result.yields { "iterator" } else { "method" };
        let anchor = format!("def.{}.{}", owner.name, heading.name.name);
        self.entry(kind, &heading.name, anchor, heading.span, &heading.doc, vec![])
    }

    /// Returns the head of a definition.
    fn head(&self, span: Span, first: Option<u32>) -> Span {
        let limit = first.unwrap_or(span.end);
        let inside = self.lexed.tokens.iter().filter(|t| t.start >= span.start && t.start < limit);
        // `disable` has no place in the tree, and a definition without members ends right after its
        // head.
        let last = inside.take_while(|t| !matches!(t.tok, Tok::End | Tok::Disable)).last();
        Span { end: last.map_or(span.end, |token| token.end), ..span }
    }

    fn entry(
        &self,
        kind: &'static str,
        name: &Ident,
        anchor: String,
        heading: Span,
        doc: &str,
        members: Vec<Entry>,
    ) -> Entry {
        Entry {
            kind,
            name: name.name.to_string(),
            anchor,
            heading: self.parts(heading, name),
            doc: self.set(doc),
            summary: markdown::summary(doc),
            members,
        }
    }

    /// Returns the tokens under `span`, with the blanks between them, and links at names of types
    /// that are described.
    fn parts(&self, span: Span, name: &Ident) -> Vec<Part> {
        let mut parts: Vec<Part> = vec![];
        let mut last = None;
        let tokens = self.lexed.tokens.iter().filter(|t| t.start >= span.start && t.end <= span.end);
        let mut tokens = tokens.filter(|t| t.tok != Tok::EndOfFile).peekable();
        while let Some(token) = tokens.next() {
            if last.is_some_and(|end| end < token.start) {
                parts.push(Part { text: " ".to_owned(), href: None, word: false });
            }
            last = Some(token.end);
            let text = &self.text[token.start as usize..token.end as usize];
            // A name before `:` or `(` is that of an argument, a method or an exception.
            let is_mark = text == "remote" && token.start < name.span.start;
            let is_type = token.tok == Tok::Name
                && !is_mark
                && token.start != name.span.start
                && !tokens.peek().is_some_and(|next| matches!(next.tok, Tok::Colon | Tok::LParen));
            let href = if is_type { self.links.get(text).cloned() } else { None };
            parts.push(Part { text: text.to_owned(), href, word: token.tok.is_word() || is_mark });
        }
        parts
    }
}

fn newlines(text: &str) -> usize {
    text.bytes().filter(|b| *b == b'\n').count()
}
