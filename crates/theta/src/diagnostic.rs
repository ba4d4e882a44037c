//! The messages of the compiler about a program: structured causes, turned into text and JSON in
//! this one place.
//!
//! Invariant: a diagnostic is data. No other module knows how one looks on a terminal.
//!
//! Read [`Diagnostic`] first; [`Code`] lists all mistakes, [`render`] and [`to_json`] write them.

use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use serde::Serialize;

use crate::source::{Sources, Span};

macro_rules! codes {
    ($($(#[$doc:meta])* $code:ident,)*) => {
        /// The kind of a mistake: stable, and documented by one section of the book each.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Code { $($(#[$doc])* $code,)* }

        impl Code {
            /// Every code, in order.
            pub const ALL: &[Code] = &[$(Code::$code),*];

            /// Returns the code as it is printed: `E0105`.
            pub fn name(self) -> &'static str {
                match self { $(Code::$code => stringify!($code)),* }
            }
        }
    };
}

codes! {
    /// Unknown symbol.
    E0101,
    /// An `end` names another construct than the open one.
    E0102,
    /// Two names of one scope differ only in letter case.
    E0103,
    /// A reserved word as a name.
    E0104,
    /// A declaration in the style of C.
    E0105,
    /// A comparison as a statement.
    E0106,
    /// Loop variable and type in the wrong order.
    E0107,
    /// A word after `end` that does not belong there.
    E0108,
    /// Syntax error.
    E0109,
    /// Chained comparison.
    E0110,
    /// Part of the language that this compiler does not know yet.
    E0199,
    /// No such method.
    E0201,
    /// Wrong type.
    E0202,
    /// Wrong number of arguments.
    E0203,
    /// Method of an implemented type is missing.
    E0204,
    /// A method does not conform to its specification.
    E0205,
    /// A where clause does not hold.
    E0206,
    /// Iterator called outside `for`.
    E0207,
    /// Unknown name.
    E0208,
    /// Defined twice.
    E0209,
    /// Wrong number of results or variables.
    E0210,
    /// A name hides another.
    E0211,
    /// Imported names clash.
    E0212,
    /// A native does not fit its declaration.
    E0213,
    /// Initialiser missing or unknown.
    E0214,
    /// `remote` where clients cannot call.
    E0215,
    /// Used before assignment.
    E0301,
    /// A path without return.
    E0302,
    /// Undeclared exception signalled.
    E0303,
    /// Handler for an exception that cannot happen.
    E0304,
    /// Tags not covered.
    E0305,
    /// Assignment to part of an immutable object.
    E0306,
    /// Instance variable out of reach.
    E0307,
    /// `exit` without a handler.
    E0308,
    /// `break` or `continue` outside a loop.
    E0309,
    /// `typecase` arm that cannot match.
    E0310,
    /// A message with something that belongs to the sender.
    E0401,
    /// `return` with a value in an actor.
    E0402,
    /// A path of a script without an answer.
    E0403,
    /// Passive code that would have to wait.
    E0404,
    /// A change of an object that is functional.
    E0405,
    /// A wait inside an iterator of the program.
    E0406,
    /// A second answer.
    E0407,
    /// An effect in a condition.
    E0408,
    /// A value that leaves its transaction.
    E0409,
    /// A transaction where none can stand.
    E0410,
    /// A heading that no method of an actor has.
    E0411,
    /// A form that no persistent actor has.
    E0412,
    /// An unused variable.
    W0001,
    /// An unused parameter.
    W0002,
    /// An unused import.
    W0003,
    /// Unreachable code.
    W0004,
    /// Requests that overlap, where messages of the first reach the second's actor.
    W0005,
}

/// The severity of a diagnostic.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// No program is made.
    Error,
    /// A program is made.
    Warning,
}

/// A second place that matters, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Label {
    /// The place.
    pub span: Span,
    /// The reason; one short phrase.
    pub text: String,
}

/// One mistake in a source text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diagnostic {
    /// Its kind.
    pub code: Code,
    /// The severity.
    pub severity: Severity,
    /// One line for people.
    pub message: String,
    /// The place.
    pub span: Span,
    /// Further places, of the same or other texts.
    pub labels: Vec<Label>,
    /// Advice on the change to make.
    pub help: Option<String>,
}

impl Diagnostic {
    /// Returns an error at `span`.
    pub fn error(code: Code, span: Span, message: impl Into<String>) -> Diagnostic {
        let message = message.into();
        Diagnostic { code, severity: Severity::Error, message, span, labels: vec![], help: None }
    }

    /// Returns a warning at `span`.
    pub fn warning(code: Code, span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Warning, ..Diagnostic::error(code, span, message) }
    }

    /// Adds a help line.
    pub fn help(mut self, help: impl Into<String>) -> Diagnostic {
        self.help = Some(help.into());
        self
    }

    /// Adds a second place.
    pub fn label(mut self, span: Span, text: impl Into<String>) -> Diagnostic {
        self.labels.push(Label { span, text: text.into() });
        self
    }
}

/// True if rendered text carries terminal colours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Colour {
    /// Text only.
    Plain,
    /// ANSI escapes.
    Ansi,
}

/// Returns the diagnostic as text for people, several lines, with a newline at the end.
pub fn render(sources: &Sources, diagnostic: &Diagnostic, colour: Colour) -> String {
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let mut group = level
        .primary_title(diagnostic.message.as_str())
        .id(diagnostic.code.name())
        .element(snippet(sources, diagnostic));
    for label in diagnostic.labels.iter().filter(|label| label.span.file != diagnostic.span.file) {
        let text = sources.slice(line_span(sources, label.span));
        let (line, shift) = line_and_shift(sources, label.span);
        let range = range_in(text, shift, label.span);
        let annotation = AnnotationKind::Context.span(range).label(label.text.as_str());
        group = group.element(
            Snippet::source(text).path(sources.name(label.span.file)).line_start(line).annotation(annotation),
        );
    }
    if let Some(help) = &diagnostic.help {
        group = group.element(Level::HELP.message(help.as_str()));
    }
    let renderer = match colour {
        Colour::Plain => Renderer::plain(),
        Colour::Ansi => Renderer::styled(),
    };
    let mut text = renderer.decor_style(DecorStyle::Ascii).term_width(200).render(&[group]);
    text.push('\n');
    text
}

/// Returns all of them, with an empty line between two.
pub fn render_all(sources: &Sources, diagnostics: &[Diagnostic], colour: Colour) -> String {
    diagnostics.iter().map(|d| render(sources, d, colour)).collect::<Vec<_>>().join("\n")
}

/// Lines shown for a span: its first, and its last when that is near.
const SHOWN_LINES_MAX: u32 = 6;

fn snippet<'a>(
    sources: &'a Sources,
    diagnostic: &'a Diagnostic,
) -> Snippet<'a, annotate_snippets::Annotation<'a>> {
    let file = diagnostic.span.file;
    let primary = clip(sources, diagnostic.span);
    let same_file: Vec<&Label> = diagnostic.labels.iter().filter(|label| label.span.file == file).collect();
    let mut first = sources.line(file, primary.start);
    let mut last = sources.line(file, primary.end.max(primary.start + 1) - 1);
    for label in &same_file {
        first = first.min(sources.line(file, label.span.start));
        last = last.max(sources.line(file, label.span.start));
    }
    let range = sources.line_range(file, first, last);
    let text = &sources.text(file)[range.clone()];
    let shift = range.start as u32;
    let mut snippet = Snippet::source(text)
        .path(sources.name(file))
        .line_start(first as usize)
        .annotation(AnnotationKind::Primary.span(range_in(text, shift, primary)));
    for label in same_file {
        let span = clip(sources, label.span);
        let range = range_in(text, shift, span);
        snippet = snippet.annotation(AnnotationKind::Context.span(range).label(label.text.as_str()));
    }
    snippet
}

/// Returns the span cut to its first line if it covers many lines.
fn clip(sources: &Sources, span: Span) -> Span {
    let first = sources.line(span.file, span.start);
    let last = sources.line(span.file, span.end.max(span.start));
    if last - first < SHOWN_LINES_MAX {
        return span;
    }
    let end = sources.line_range(span.file, first, first).end as u32;
    Span { end: end.max(span.start), ..span }
}

fn line_span(sources: &Sources, span: Span) -> Span {
    let line = sources.line(span.file, span.start);
    let range = sources.line_range(span.file, line, line);
    Span::new(span.file, range.start as u32, range.end as u32)
}

fn line_and_shift(sources: &Sources, span: Span) -> (usize, u32) {
    (sources.line(span.file, span.start) as usize, line_span(sources, span).start)
}

/// `span` as a range of `text`, which starts at byte `shift` of the file.
fn range_in(text: &str, shift: u32, span: Span) -> std::ops::Range<usize> {
    let start = (span.start.saturating_sub(shift) as usize).min(text.len());
    let end = (span.end.saturating_sub(shift) as usize).clamp(start, text.len());
    start..end
}

#[derive(Serialize)]
struct Line<'a> {
    code: &'static str,
    severity: Severity,
    message: &'a str,
    file: &'a str,
    line: u32,
    column: u32,
    end_line: u32,
    end_column: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    help: Option<&'a str>,
}

/// Returns the diagnostic as one JSON object on one line, without a newline at the end.
pub fn to_json(sources: &Sources, diagnostic: &Diagnostic) -> String {
    let span = diagnostic.span;
    let (line, column) = sources.line_column(span.file, span.start);
    let (end_line, end_column) = sources.line_column(span.file, span.end);
    let line = Line {
        code: diagnostic.code.name(),
        severity: diagnostic.severity,
        message: &diagnostic.message,
        file: sources.name(span.file),
        line,
        column,
        end_line,
        end_column,
        help: diagnostic.help.as_deref(),
    };
    serde_json::to_string(&line).expect("strings and numbers always serialise")
}
