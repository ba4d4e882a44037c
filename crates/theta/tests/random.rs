//! Nothing in a text can crash or hang the compiler, and what compiles is accepted by the verifier.

mod support;

use bifrost_theta::{Colour, Options, Sources, compile, render_all, to_json};
use proptest::prelude::*;
use support::{compile_text, programs};

const WORDS: &[&str] = &[
    "actor",
    "after",
    "begin",
    "bind",
    "break",
    "class",
    "clone",
    "continue",
    "delegate",
    "disable",
    "do",
    "else",
    "elseif",
    "end",
    "except",
    "exit",
    "exports",
    "false",
    "for",
    "functional",
    "hides",
    "if",
    "immutable",
    "implements",
    "import",
    "in",
    "inherits",
    "iter",
    "make",
    "makes",
    "module",
    "new",
    "nil",
    "oneof",
    "others",
    "proc",
    "provides",
    "record",
    "reply",
    "replyto",
    "resignal",
    "return",
    "returns",
    "self",
    "send",
    "signal",
    "signals",
    "struct",
    "tagcase",
    "then",
    "transaction",
    "true",
    "type",
    "typecase",
    "wait",
    "when",
    "where",
    "while",
    "yield",
    "yields",
    ":=",
    "=",
    "~=",
    "<",
    "<=",
    ">",
    ">=",
    "+",
    "-",
    "*",
    "/",
    "//",
    "**",
    "<<",
    ">>",
    "||",
    "|",
    "&",
    "~",
    ".",
    "..",
    ",",
    ":",
    ";",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "a",
    "b",
    "f",
    "T",
    "int",
    "array",
    "string",
    "x",
    "1",
    "2.5",
    "'c'",
    "\"s\"",
    "\n",
    "\n",
    "%c\n",
    "!",
    "\\",
    "\"",
    "'",
    "é",
    "9223372036854775808",
    "native",
    "has",
    "on",
    "anywhere",
    "times",
    "as",
    "end f",
    "f (a: int) returns (int)",
    "a: int",
    "a.to(b)",
];

/// Compiles and renders `text` in every form; the result must only exist.
fn survive(text: &str) {
    let (sources, compilation) = compile_text(text);
    render_all(&sources, &compilation.diagnostics, Colour::Ansi);
    for diagnostic in &compilation.diagnostics {
        assert!(!to_json(&sources, diagnostic).contains('\n'));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn token_soup(words in proptest::collection::vec(proptest::sample::select(WORDS), 0..200)) {
        survive(&words.join(" "));
    }

    #[test]
    fn byte_soup(text in "\\PC{0,200}") {
        survive(&text);
    }

    /// Lines moved about keep much of their sense, so more of these compile and meet the verifier.
    #[test]
    fn shuffled_examples(
        which in any::<proptest::sample::Index>(),
        moves in proptest::collection::vec(
            (any::<proptest::sample::Index>(), any::<proptest::sample::Index>(), 0..3), 1..4),
    ) {
        let programs = programs();
        let (_, text) = which.get(&programs);
        let mut lines: Vec<&str> = text.lines().collect();
        for (from, to, edit) in moves {
            let (from, to) = (from.index(lines.len()), to.index(lines.len()));
            match edit {
                0 => lines.swap(from, to),
                1 => lines.insert(to, lines[from]),
                _ if lines.len() > 1 => drop(lines.remove(from)),
                _ => {}
            }
        }
        survive(&lines.join("\n"));
    }

    #[test]
    fn mutated_examples(
        which in any::<proptest::sample::Index>(),
        edits in proptest::collection::vec((any::<proptest::sample::Index>(), 0..4, proptest::sample::select(WORDS)), 1..6),
    ) {
        let programs = programs();
        let (_, text) = which.get(&programs);
        let mut tokens: Vec<String> = text.split_inclusive([' ', '\n', '(', ')', ',', '.']).map(str::to_owned).collect();
        for (place, edit, word) in edits {
            let at = place.index(tokens.len());
            match edit {
                0 => drop(tokens.remove(at)),
                1 => tokens.insert(at, format!(" {word} ")),
                2 => tokens[at] = format!(" {word} "),
                _ => {
                    let other = tokens[(at * 7 + 3) % tokens.len()].clone();
                    tokens[at] = other;
                }
            }
            if tokens.is_empty() {
                break;
            }
        }
        survive(&tokens.concat());
    }
}

#[test]
fn depth_and_length_are_bounded() {
    let many = 200_000;
    let routine = |body: String| format!("f (a: int) returns (int)\n{body}\nreturn (a)\nend f\n");
    let texts = [
        "(".repeat(many),
        "[".repeat(many),
        "a = ".to_owned() + &"array[".repeat(many),
        routine(format!("a := {}a", "-".repeat(many))),
        routine(format!("a := {}a{}", "(".repeat(many), ")".repeat(many))),
        routine(format!("a := a{}", " + a".repeat(many))),
        routine(format!("a := a{}", " ** a".repeat(many))),
        routine(format!("a := a{}", ".abs()".repeat(many))),
        routine("if a > 1 then\n".repeat(many)),
        routine(format!("if a > 1 then a := 1\n{}end", "elseif a > 1 then a := 2\n".repeat(5000))),
        routine(format!("a := 1{}", " except when e: end".repeat(many))),
        routine("begin ".repeat(200) + &"end ".repeat(200)),
        "module m\n".repeat(many),
        "m () ".repeat(many),
        "%".repeat(many),
        "\"\\u{".repeat(many),
        "!".repeat(many),
        "end for ".repeat(many),
        (0..5000).map(|i| format!("c{i} = c{}\n", i + 1)).collect(),
        (0..64).map(|i| format!("c{} = c{i} + c{i}\n", i + 1)).collect::<String>() + "c0 = 1\n",
        (0..3000).map(|i| format!("T{i} = type < T{} end T{i}\n", i + 1)).collect(),
        (0..3000).map(|i| format!("C{i} = class inherits C{} end C{i}\n", i + 1)).collect(),
        "T = type < T end T\nC = class inherits C end C\nA = B\nB = A\n".to_owned(),
        "a = t\nt = type < b end t\nb = u\nu = type < a end u\nf (x: t, y: u) x := y end f\n".to_owned(),
    ];
    for text in texts {
        survive(&text);
    }
}

#[test]
fn a_file_that_is_too_long_is_not_read() {
    let mut sources = Sources::new();
    sources.add("long.theta", " ".repeat((16 << 20) + 1));
    let compilation = compile(&sources, &Options::default());
    assert_eq!(compilation.diagnostics.len(), 1);
}
