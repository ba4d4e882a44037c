//! The one way to set Theta: two columns for each level, an empty line at most, 100 columns.
//!
//! [`format`](fn@format) changes blanks, newlines, and tokens without meaning (a `;` after a
//! statement, the comma before `signals`). Other tokens and comments stay as they are and where
//! they are: [`writer::Writer`] hands them out one after the other. A construct that was short
//! enough for one line stays on one, and a broken one stays broken, so the writer of a text decides
//! which bodies are short. Formatting twice changes nothing more.

mod exprs;
mod items;
mod layout;
mod stmts;
mod types;
mod writer;

use bifrost_theta::lexer::{self, Tok};
use bifrost_theta::{Diagnostic, FileId, Sources, on_deep_stack, parse};

use layout::Doc;
use writer::Writer;

/// Columns of a level.
const INDENT: usize = 2;
/// Columns of the rest of a heading or an expression that needs more than a line; not those of a
/// body.
const CONTINUED: usize = 4;
/// The number of times that a text is set again in which a comment came to another token.
const ROUNDS_MAX: usize = 3;
const SPACE: Doc<'static> = Doc::Text(" ");
/// The space between short members on one line.
const APART: Doc<'static> = Doc::Line("   ");

/// Returns the text of `file` as it should be set.
///
/// # Errors
/// The text does not parse: its syntax errors.
pub fn format(sources: &Sources, file: FileId) -> Result<String, Vec<Diagnostic>> {
    let (mut text, mut again) = format_once(sources, file)?;
    for _ in 0..ROUNDS_MAX {
        if !again {
            break;
        }
        let mut sources = Sources::new();
        let file = sources.add("", std::mem::take(&mut text));
        (text, again) = format_once(&sources, file)?;
    }
    Ok(text)
}

fn format_once(sources: &Sources, file: FileId) -> Result<(String, bool), Vec<Diagnostic>> {
    let (tree, diagnostics) = parse(sources, file);
    if !diagnostics.is_empty() {
        return Err(diagnostics);
    }
    let text = sources.text(file);
    let lexed = lexer::lex(file, text);
    Ok(on_deep_stack(|| {
        let mut writer = Writer::new(text, &lexed);
        let doc = writer.file(&tree);
        assert_eq!(writer.tok(), Tok::EndOfFile, "every token has been printed");
        layout::print(&doc)
    }))
}
