//! From a document, which says where lines may end, to lines of at most [`WIDTH`] columns.
//!
//! After Wadler, "A prettier printer", with one thing that its printers lack: a comment runs to the
//! end of its line. So a comment in the middle of parts that become one line has to float to that
//! line's end, and nothing of its group may be joined to the text behind it. [`Doc::Trail`] and
//! [`Doc::Own`] do that. It is the reason why this is not a printer from elsewhere.

/// The column that code should not pass; comments may.
pub const WIDTH: usize = 100;
/// Columns between code and the comment after it.
const GAP: usize = 2;

/// A text with places where its lines may end.
#[derive(Debug)]
pub enum Doc<'a> {
    /// These characters; no newline.
    Text(&'a str),
    /// A place where a line may end: in a group that fits on its line, this text instead.
    Line(&'static str),
    /// The end of a line.
    Hard,
    /// The end of a line and an empty line.
    Blank,
    /// An empty line if a comment that has a line of its own was the last, otherwise nothing.
    Gap,
    /// A comment after code: goes to the end of the line.
    Trail(&'a str),
    /// A comment that has a line of its own where the line is empty, and goes to its end otherwise.
    Own(&'a str),
    /// Parts in a row.
    Row(Vec<Doc<'a>>),
    /// The same, with lines indented by so many columns more.
    Nest(usize, Vec<Doc<'a>>),
    /// Parts that stand on one line if there is room: either no place of the group's own ends a
    /// line, or all do.
    Group(Vec<Doc<'a>>),
}

/// Returns the lines of `doc`, each ended by a newline, and whether a comment could not stay at its
/// token: then the text is to be set once more.
pub fn print(doc: &Doc<'_>) -> (String, bool) {
    let mut printer = Printer::default();
    // Still to print, last first: indentation, true where places end lines, the document.
    let mut rest = vec![(0, true, doc)];
    while let Some((indent, broken, doc)) = rest.pop() {
        match doc {
            Doc::Text(text) => printer.text(indent, text),
            Doc::Line(flat) if !broken => printer.text(indent, flat),
            Doc::Line(_) | Doc::Hard => printer.newline(indent),
            Doc::Blank => {
                printer.newline(indent);
                printer.blank();
            }
            Doc::Gap if printer.closed => {
                printer.newline(indent);
                printer.blank();
            }
            Doc::Gap => {}
            Doc::Trail(comment) => printer.comment(indent, comment, false),
            Doc::Own(comment) => printer.comment(indent, comment, true),
            Doc::Row(parts) => rest.extend(parts.iter().rev().map(|p| (indent, broken, p))),
            Doc::Nest(by, parts) => rest.extend(parts.iter().rev().map(|p| (indent + by, broken, p))),
            Doc::Group(parts) => {
                let breaks = broken && !fits(&printer, parts, &rest);
                rest.extend(parts.iter().rev().map(|p| (indent, breaks, p)));
            }
        }
    }
    printer.newline(0);
    let displaced = printer.displaced;
    (printer.finish(), displaced)
}

/// Returns true if `group` and the parts behind it, up to where the line may end, have room on the
/// line.
fn fits(printer: &Printer<'_>, group: &[Doc<'_>], rest: &[(usize, bool, &Doc<'_>)]) -> bool {
    let mut room = WIDTH.saturating_sub(printer.column()) as isize;
    let mut commented = printer.comment.is_some();
    let mut rest = rest.iter().rev();
    // Parts of the group are flat; those after it may break.
    let mut parts: Vec<(bool, &Doc<'_>)> = group.iter().rev().map(|p| (false, p)).collect();
    while room >= 0 {
        let Some((broken, doc)) = parts.pop().or_else(|| rest.next().map(|(_, broken, doc)| (*broken, *doc)))
        else {
            return true;
        };
        match doc {
            Doc::Text(text) => room -= text.chars().count() as isize,
            Doc::Line(_) | Doc::Hard | Doc::Blank if broken => return true,
            Doc::Line(_) if commented => return false,
            Doc::Line(flat) => room -= flat.len() as isize,
            Doc::Hard | Doc::Blank => return false,
            Doc::Gap => {}
            Doc::Trail(_) => commented = true,
            Doc::Own(_) => return broken,
            Doc::Row(inner) | Doc::Nest(_, inner) | Doc::Group(inner) => {
                parts.extend(inner.iter().rev().map(|p| (broken, p)));
            }
        }
    }
    false
}

#[derive(Default)]
struct Line<'a> {
    code: String,
    comment: Option<&'a str>,
    indent: usize,
}

/// The lines so far, and the one being written.
#[derive(Default)]
struct Printer<'a> {
    lines: Vec<Line<'a>>,
    code: String,
    /// Blanks before it.
    indent: usize,
    /// The comment that waits for the end of the line.
    comment: Option<&'a str>,
    /// True if the line is a comment, so that nothing can follow it.
    closed: bool,
    displaced: bool,
}

impl<'a> Printer<'a> {
    fn column(&self) -> usize {
        if self.code.is_empty() { self.indent } else { self.code.chars().count() }
    }

    fn text(&mut self, indent: usize, text: &str) {
        if self.closed {
            self.newline(indent);
        }
        if !self.code.is_empty() {
            self.code.push_str(text);
        } else if !text.trim_start().is_empty() {
            self.code.extend(std::iter::repeat_n(' ', self.indent));
            self.code.push_str(text.trim_start());
        }
    }

    fn comment(&mut self, indent: usize, comment: &'a str, own: bool) {
        // One line has one comment: a second gets a line of its own. Its place in the text was
        // followed by a newline too, so a newline is allowed there.
        self.displaced |= self.comment.is_some() || own != self.code.is_empty();
        if self.comment.is_some() || self.closed {
            self.newline(indent);
        }
        if self.code.is_empty() {
            self.text(indent, comment);
            self.closed = true;
        } else {
            self.comment = Some(comment);
        }
    }

    /// Ends the line; the next one starts after `indent` blanks.
    fn newline(&mut self, indent: usize) {
        if !self.code.is_empty() {
            let mut code = std::mem::take(&mut self.code);
            code.truncate(code.trim_end_matches(' ').len());
            self.lines.push(Line { code, comment: self.comment.take(), indent: self.indent });
            self.closed = false;
        }
        self.indent = indent;
    }

    fn blank(&mut self) {
        if self.lines.last().is_some_and(|line| !line.code.is_empty()) {
            self.lines.push(Line::default());
        }
    }

    /// Returns the text, with the comments of neighbouring lines in one column.
    fn finish(self) -> String {
        let mut text = String::new();
        let alike =
            |a: &Line<'_>, b: &Line<'_>| a.comment.is_some() && b.comment.is_some() && a.indent == b.indent;
        for lines in self.lines.chunk_by(alike) {
            let widest = lines.iter().map(|line| line.code.chars().count()).max().unwrap_or(0);
            for line in lines {
                text.push_str(&line.code);
                if let Some(comment) = line.comment {
                    let width = line.code.chars().count();
                    text.extend(std::iter::repeat_n(' ', widest - width + GAP));
                    text.push_str(comment);
                }
                text.push('\n');
            }
        }
        text
    }
}
