//! The bodies of the fuzz targets, which ordinary tests run for a few seconds too.

use bifrost_ir::text::{parse, print_program};
use bifrost_ir::verify::{verify_func, verify_program};
use bifrost_theta::{Colour, render_all, to_json};

use super::compile_text;

/// Words of the language, whole pieces of it, and what is no part of it.
#[rustfmt::skip]
pub const WORDS: &[&str] = &[
    "actor", "after", "begin", "bind", "break", "class", "clone", "continue", "delegate", "disable", "do",
    "else", "elseif", "end", "except", "exit", "exports", "false", "for", "functional", "hides", "if",
    "immutable", "implements", "import", "in", "inherits", "iter", "make", "makes", "module", "new", "nil",
    "oneof", "others", "proc", "provides", "record", "reply", "replyto", "resignal", "return", "returns",
    "self", "send", "signal", "signals", "struct", "tagcase", "then", "transaction", "true", "type",
    "typecase", "wait", "when", "where", "while", "yield", "yields", ":=", "=", "~=", "<", "<=", ">", ">=",
    "+", "-", "*", "/", "//", "**", "<<", ">>", "||", "|", "&", "~", ".", "..", ",", ":", ";", "(", ")", "[",
    "]", "{", "}", "a", "b", "f", "T", "int", "array", "string", "x", "1", "2.5", "'c'", "\"s\"", "\n", "\n",
    "%c\n", "!", "\\", "\"", "'", "é", "9223372036854775808", "native", "remote", "has", "on", "anywhere", "times", "as",
    "end f", "f (a: int) returns (int)", "a: int", "a.to(b)",
];

/// Compiles and renders `text` in every form; the result must only exist, and be what the verifier accepts.
pub fn theta_text(text: &str) {
    let (sources, compilation) = compile_text(text);
    render_all(&sources, &compilation.diagnostics, Colour::Ansi);
    for diagnostic in &compilation.diagnostics {
        assert!(!to_json(&sources, diagnostic).contains('\n'));
    }
}

/// Reads and verifies `text`. What is accepted reads back as the same.
pub fn ir_text(text: &str) -> bool {
    let Ok(file) = parse(text) else { return false };
    if verify_program(&file.program).is_err() {
        return false;
    }
    for batch in &file.batches {
        let _ = verify_func(&file.program, batch);
    }
    let printed = print_program(&file.program);
    match parse(&printed) {
        Ok(again) => assert_eq!(print_program(&again.program), printed),
        Err(e) => panic!("{e} in\n{printed}"),
    }
    true
}
