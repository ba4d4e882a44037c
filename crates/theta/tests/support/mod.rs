//! What the tests of this crate share.
#![allow(dead_code, reason = "each test uses a part")]

pub mod bodies;

use bifrost_theta::{Colour, Compilation, Options, Sources, compile, render_all};

/// A mistake as the table of section 12 has it: code, text, the source under the span, help (or "").
pub type Row<'a> = (&'a str, &'a str, &'a str, &'a str);

/// Compiles `text` as the file `test.theta`.
pub fn compile_text(text: &str) -> (Sources, Compilation) {
    let mut sources = Sources::new();
    sources.add("test.theta", text);
    let compilation = compile(&sources, &Options::default());
    if let Some(program) = &compilation.program
        && let Err(errors) = bifrost_ir::verify::verify_program(program)
    {
        let list: Vec<String> = errors.iter().map(|e| e.to_string()).collect();
        panic!("the verifier rejects what was compiled:\n{}\n{text}", list.join("\n"));
    }
    (sources, compilation)
}

/// Compiles `text`, which must give exactly the mistakes `expected`.
#[track_caller]
pub fn check(text: &str, expected: &[Row<'_>]) {
    let (sources, compilation) = compile_text(text);
    let found: Vec<Row<'_>> = compilation
        .diagnostics
        .iter()
        .map(|d| (d.code.name(), d.message.as_str(), sources.slice(d.span), d.help.as_deref().unwrap_or("")))
        .collect();
    let rendered = render_all(&sources, &compilation.diagnostics, Colour::Plain);
    assert_eq!(found, expected, "\n{rendered}");
    assert_eq!(compilation.program.is_some(), expected.is_empty());
}

/// The example programs of the definition and of this crate, by file name.
pub fn programs() -> Vec<(String, String)> {
    read_all("programs")
}

/// The texts of a folder beside the tests, by file name.
pub fn read_all(folder: &str) -> Vec<(String, String)> {
    let folder = format!("{}/tests/{folder}", env!("CARGO_MANIFEST_DIR"));
    let mut texts: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "theta"))
        .map(|path| {
            (path.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read_to_string(path).unwrap())
        })
        .collect();
    texts.sort();
    texts
}
