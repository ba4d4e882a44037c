//! The texts being compiled, and the way from byte positions to lines and columns.
//!
//! Spans are byte ranges with a file id. Nothing here reads files: the caller adds every text by
//! name, and an import `a.b` is the text named `a/b.theta`.

use std::collections::HashMap;

/// The longest source text that is looked at, in bytes; longer ones get one diagnostic.
pub const FILE_BYTES_MAX: usize = 16 << 20;

/// One source text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FileId(pub u32);

/// A byte range of one source text.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Span {
    /// The text.
    pub file: FileId,
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// Returns the range `start..end` of `file`.
    pub fn new(file: FileId, start: u32, end: u32) -> Span {
        Span { file, start, end }
    }

    /// Returns the smallest span that holds both; `other` must be of the same file.
    pub fn to(self, other: Span) -> Span {
        Span { file: self.file, start: self.start.min(other.start), end: self.end.max(other.end) }
    }
}

impl std::fmt::Debug for Span {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}..{}", self.file.0, self.start, self.end)
    }
}

#[derive(Debug)]
struct Source {
    name: String,
    text: String,
    /// Byte position of the start of each line.
    lines: Vec<u32>,
}

/// The texts of one compilation.
#[derive(Default, Debug)]
pub struct Sources {
    files: Vec<Source>,
    by_name: HashMap<String, FileId>,
}

impl Sources {
    /// Makes an empty list of texts.
    pub fn new() -> Sources {
        Sources::default()
    }

    /// Adds `text` under `name` (a path with `/`, such as `lists/int.theta`); a second text of one
    /// name takes the name over.
    pub fn add(&mut self, name: impl Into<String>, text: impl Into<String>) -> FileId {
        let (name, text) = (name.into(), text.into());
        let id = FileId(self.files.len() as u32);
        let visible = text.as_bytes().iter().take(FILE_BYTES_MAX).enumerate();
        let mut lines = vec![0];
        lines.extend(visible.filter(|(_, b)| **b == b'\n').map(|(at, _)| at as u32 + 1));
        self.by_name.insert(name.clone(), id);
        self.files.push(Source { name, text, lines });
        id
    }

    /// Returns the text added last under `name`.
    pub fn find(&self, name: &str) -> Option<FileId> {
        self.by_name.get(name).copied()
    }

    /// Returns all texts, in the order they were added.
    pub fn ids(&self) -> impl Iterator<Item = FileId> + use<> {
        (0..self.files.len() as u32).map(FileId)
    }

    /// Returns the name `file` was added under.
    pub fn name(&self, file: FileId) -> &str {
        &self.files[file.0 as usize].name
    }

    /// Returns the whole text of `file`.
    pub fn text(&self, file: FileId) -> &str {
        &self.files[file.0 as usize].text
    }

    /// Returns the byte offset of the start of each line of `file`.
    pub(crate) fn lines(&self, file: FileId) -> &[u32] {
        &self.files[file.0 as usize].lines
    }

    /// Returns the text under `span`.
    pub fn slice(&self, span: Span) -> &str {
        self.text(span.file).get(span.start as usize..span.end as usize).unwrap_or("")
    }

    /// Returns the line of a byte, counted from 1.
    pub fn line(&self, file: FileId, at: u32) -> u32 {
        self.files[file.0 as usize].lines.partition_point(|start| *start <= at) as u32
    }

    /// Returns the line and column of a byte, both counted from 1; columns count characters.
    pub fn line_column(&self, file: FileId, at: u32) -> (u32, u32) {
        let line = self.line(file, at);
        let start = self.files[file.0 as usize].lines[line as usize - 1];
        let before = self.text(file).get(start as usize..at as usize).unwrap_or("");
        (line, before.chars().count() as u32 + 1)
    }

    /// Returns the byte range of the lines `first..=last` (from 1), without the last newline.
    pub(crate) fn line_range(&self, file: FileId, first: u32, last: u32) -> std::ops::Range<usize> {
        let source = &self.files[file.0 as usize];
        let start = source.lines[first as usize - 1] as usize;
        let end = source.lines.get(last as usize).map_or(source.text.len(), |next| *next as usize - 1);
        start..end.max(start)
    }
}
