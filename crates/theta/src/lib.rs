//! The language Theta: parsing, checking and lowering to the IR.
//!
//! Pure: texts come in as [`Sources`], a program and [`Diagnostic`]s go out. No files, no clock, no
//! output. Read [`compile`] first.

use std::collections::HashMap;
use std::sync::Arc;

pub mod ast;
mod broken;
mod check;
pub mod diagnostic;
pub mod lexer;
mod lint;
mod lower;
mod parse;
mod persistent;
mod resolve;
pub mod source;

pub use diagnostic::{Code, Colour, Diagnostic, Label, Severity, render, render_all, to_json};
pub use parse::{HEIGHT_MAX, NESTING_MAX};
pub use source::{FileId, Sources, Span};

/// The options of a compilation.
#[derive(Clone, Default, Debug)]
pub struct Options {
    /// The folder, as a prefix of the texts' names, in which `import a.b` finds `a/b.theta`; empty
    /// if the names start there already.
    pub root: String,
    /// The natives that a program may declare (E0213). Without it any name and heading is taken.
    pub natives: Option<Arc<NativeHeadings>>,
    /// The names of the texts that programs can import without a file, as `std/files.theta`; for
    /// suggestions only.
    pub texts: Vec<String>,
    /// Adds the warnings (codes with `W`) to the diagnostics of a program without errors.
    pub warnings: bool,
}

/// The parameters and results of natives, by name.
pub type NativeHeadings = HashMap<String, bifrost_ir::native::NativeHeading>;

/// The result of compiling.
#[derive(Debug)]
pub struct Compilation {
    /// The program, if there was no error.
    pub program: Option<bifrost_ir::Program>,
    /// Everything there is to say, in the order of files and places.
    pub diagnostics: Vec<Diagnostic>,
}

/// The stack that parsing and checking may need: nesting is bounded (see [`NESTING_MAX`]), so this
/// is enough for every text, in debug builds too. Memory is taken only as far as it is used.
const STACK_BYTES: usize = 256 << 20;

/// Compiles all of `sources` to one program.
///
/// Never panics and never hangs, whatever the texts are; every loop and recursion in it is bounded
/// by their length and by [`NESTING_MAX`].
pub fn compile(sources: &Sources, options: &Options) -> Compilation {
    on_deep_stack(|| compile_here(sources, options))
}

fn compile_here(sources: &Sources, options: &Options) -> Compilation {
    let mut diagnostics = vec![];
    let mut files = vec![];
    for file in sources.ids() {
        let (mut tree, found) = parse::parse(sources, file);
        diagnostics.extend(found);
        diagnostics.extend(persistent::expand(&mut tree));
        files.push(tree);
    }
    let mut names = resolve::collect(sources, options, &files);
    let found = std::mem::take(&mut names.diagnostics);
    let (program, mut found) = check::check(sources, &names, found, options.natives.as_deref());
    broken::keep_trusted(sources, &files, &diagnostics, &mut found);
    diagnostics.extend(found);
    let wrong = diagnostics.iter().any(|d| d.severity == Severity::Error);
    if !options.warnings {
        diagnostics.retain(|d| d.severity == Severity::Error);
    } else if !wrong {
        diagnostics.extend(lint::lint(sources, &options.root, &files, &names));
    }
    diagnostics.sort_by_key(|d| (d.span.file, d.span.start));
    Compilation { program: (!wrong).then_some(program), diagnostics }
}

/// Runs `work` on a stack that its recursion cannot fill.
pub fn on_deep_stack<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, work);
        match thread.expect("a thread can be started").join() {
            Ok(value) => value,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Returns the tree of one text, and its syntax errors.
pub fn parse(sources: &Sources, file: FileId) -> (ast::File, Vec<Diagnostic>) {
    on_deep_stack(|| parse::parse(sources, file))
}

/// Returns the names of the texts that `file` imports, for a caller that has to find them.
pub fn imports(sources: &Sources, file: FileId, options: &Options) -> Vec<String> {
    let (mut tree, _) = parse(sources, file);
    persistent::expand(&mut tree);
    tree.imports.iter().map(|import| resolve::file_of(&options.root, import)).collect()
}

/// Returns the text `main` and all its imports, as far as `read` finds them; texts not found are
/// reported at compilation. `None` if `main` itself is not found.
pub fn load(main: &str, options: &Options, mut read: impl FnMut(&str) -> Option<String>) -> Option<Sources> {
    let mut sources = Sources::new();
    let mut pending = vec![sources.add(main, read(main)?)];
    while let Some(file) = pending.pop() {
        for name in imports(&sources, file, options) {
            if sources.find(&name).is_none()
                && let Some(text) = read(&name)
            {
                pending.push(sources.add(name, text));
            }
        }
    }
    Some(sources)
}
