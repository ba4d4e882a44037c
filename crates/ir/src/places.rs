//! The places of code in the texts that it was written in: routine, file and line.
//!
//! A function names its text ([`Func::written`](crate::Func)), and statements have sites, which are
//! byte offsets in it. [`Program::place`] makes a [`Place`] of both. Programs that are read from
//! the text form have no texts: their places are routines only.

use cranelift_entity::entity_impl;

use crate::program::Program;
use crate::stmt::{FuncId, Stmt};

/// The place that a statement comes from, for messages. In a batch it is the number of the call, by
/// which the client names it; in Theta code it is a byte offset in the file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, PartialOrd, Ord)]
pub struct Site(pub u32);

/// A text of a program.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TextId(u32);
entity_impl!(TextId, "text");

/// The name of a text, and the starts of its lines. The text itself is not kept.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Text {
    /// The name under which the compiler was given the text: a path, relative or absolute.
    pub name: String,
    /// The byte offset of the start of each line, ascending.
    pub lines: Vec<u32>,
}

impl Text {
    /// Returns the line of a byte, counted from 1.
    pub fn line(&self, at: u32) -> u32 {
        self.lines.partition_point(|start| *start <= at) as u32
    }
}

/// The origin of a function's code, by which the places of failures are told.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Written {
    /// A text that is not known: places of failures have the function's name only.
    #[default]
    Somewhere,
    /// A text of the program; sites are byte offsets in it.
    In(TextId),
    /// Nobody's: the function stands for others, and failures do not name it.
    Nowhere,
}

/// A place in the code of a program.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Place<'p> {
    /// The routine or method: `Stack.push`.
    pub routine: &'p str,
    /// The name of its text, as the compiler was given it; empty if it is not known.
    pub file: &'p str,
    /// The line, counted from 1; 0 if it is not known.
    pub line: u32,
}

impl std::fmt::Display for Place<'_> {
    /// Writes `Stack.push (lib/stack.theta:17)`, without the parts that are not known.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.routine)?;
        match (self.file, self.line) {
            ("", _) => Ok(()),
            (file, 0) => write!(f, " ({file})"),
            (file, line) => write!(f, " ({file}:{line})"),
        }
    }
}

impl Stmt {
    /// Returns the place that the statement comes from, for the kinds that have one.
    pub fn site(&self) -> Option<Site> {
        match self {
            Stmt::Call { site, .. }
            | Stmt::New { site, .. }
            | Stmt::NewSequence { site, .. }
            | Stmt::ForEach { site, .. }
            | Stmt::Transaction { site, .. }
            | Stmt::Create { site, .. }
            | Stmt::Send { site, .. }
            | Stmt::Request { site, .. }
            | Stmt::Await { site, .. }
            | Stmt::Reply { site, .. }
            | Stmt::ReplyTo { site, .. }
            | Stmt::Deliver { site, .. }
            | Stmt::Delegate { site, .. }
            | Stmt::Select { site, .. }
            | Stmt::Signal { site, .. } => Some(*site),
            _ => None,
        }
    }
}

impl Program {
    /// Returns the place of a site in a function. `None` for functions that nobody wrote, and for
    /// numbers that are out of range.
    pub fn place(&self, func: FuncId, site: Site) -> Option<Place<'_>> {
        let func = self.funcs.get(func)?;
        let text = match func.written {
            Written::Nowhere => return None,
            Written::Somewhere => None,
            Written::In(text) => self.texts.get(text),
        };
        let line = text.filter(|_| site != Site::default()).map_or(0, |text| text.line(site.0));
        Some(Place { routine: &func.name, file: text.map_or("", |text| &text.name), line })
    }
}

#[cfg(test)]
mod tests {
    use super::{Text, TextId};
    use crate::{Func, FuncId, Program, Site, Written, text};

    fn program(written: Written) -> (Program, FuncId) {
        let mut program = text::parse("routine one ()\nend").expect("a text that reads").program;
        program.texts.push(Text { name: "a/b.theta".to_owned(), lines: vec![0, 10, 30] });
        let id = program.funcs.keys().next().expect("one function");
        let func: &mut Func = &mut program.funcs[id];
        func.written = written;
        (program, id)
    }

    #[test]
    fn a_site_has_the_line_that_it_lies_in() {
        let (program, one) = program(Written::In(TextId::from_u32(0)));
        let place = |site| program.place(one, Site(site)).expect("a place").to_string();
        assert_eq!(place(9), "one (a/b.theta:1)");
        assert_eq!(place(10), "one (a/b.theta:2)");
        assert_eq!(place(4_000_000_000), "one (a/b.theta:3)");
        assert_eq!(place(0), "one (a/b.theta)", "a site that is not known");
    }

    #[test]
    fn code_without_a_text_has_its_routine_only() {
        let (program, one) = program(Written::Somewhere);
        assert_eq!(program.place(one, Site(12)).expect("a place").to_string(), "one");
    }

    #[test]
    fn made_code_and_wrong_numbers_have_no_place() {
        let (program, one) = program(Written::Nowhere);
        assert_eq!(program.place(one, Site(12)), None);
        assert_eq!(program.place(FuncId::from_u32(9), Site(12)), None);
        let (program, one) = self::program(Written::In(TextId::from_u32(7)));
        assert_eq!(program.place(one, Site(12)).expect("a place").to_string(), "one");
    }
}
