//! Nothing in a text can crash or hang the compiler or the reader of IR, and what compiles is accepted by the verifier.
//! The bodies are those of the targets in `fuzz/`.

#[path = "../../session/tests/support/random.rs"]
mod random;
mod support;

use bifrost_theta::{Options, Sources, compile};
use random::{Random, each_of_corpus, repeat};
use support::bodies::{WORDS, ir_text, theta_text};
use support::{compile_text, programs};

/// Characters that mean something somewhere, and some that mean nothing.
const CHARACTERS: &[&str] = &[
    "a", "T", "0", "x", "\"", "'", "\\", "u", "{", "}", "(", "[", "%", "\n", "\r", "\0", "é", "\u{feff}",
    "€", ".",
];

#[test]
fn words_at_random() {
    repeat("words_at_random", |seed| {
        let mut random = Random::new(seed);
        let words: Vec<&str> = (0..random.below(200)).map(|_| random.pick(WORDS)).collect();
        theta_text(&words.join(" "));
    });
}

#[test]
fn characters_at_random() {
    repeat("characters_at_random", |seed| {
        let mut random = Random::new(seed);
        theta_text(&(0..random.below(200)).map(|_| random.pick(CHARACTERS)).collect::<String>());
    });
}

/// Lines moved about and words changed keep much of a program's sense, so more of these compile and meet the verifier.
#[test]
fn edited_programs() {
    let programs: Vec<String> = programs().into_iter().map(|(_, text)| text).collect();
    repeat("edited_programs", |seed| {
        let mut random = Random::new(seed);
        theta_text(&edited(&programs, WORDS, &mut random));
    });
}

#[test]
fn edited_ir() {
    let texts: Vec<String> = programs()
        .into_iter()
        .filter_map(|(_, text)| compile_text(&text).1.program)
        .map(|program| bifrost_ir::text::print_program(&program))
        .filter(|text| !text.is_empty())
        .collect();
    let words: Vec<&str> = texts.iter().flat_map(|text| text.split_whitespace()).collect();
    for text in &texts {
        assert!(ir_text(text), "what was compiled reads back and is accepted:\n{text}");
    }
    let mut accepted = 0;
    repeat("edited_ir", |seed| {
        let mut random = Random::new(seed);
        accepted += u32::from(ir_text(&edited(&texts, &words, &mut random)));
    });
    println!("{accepted} accepted");
}

/// One of the texts with a few lines moved and a few words changed.
fn edited(texts: &[String], words: &[&str], random: &mut Random) -> String {
    let mut lines: Vec<&str> = texts[random.below(texts.len())].lines().collect();
    while !random.chance(3) {
        let (from, to) = (random.below(lines.len()), random.below(lines.len()));
        match random.below(3) {
            0 => lines.swap(from, to),
            1 => lines.insert(to, lines[from]),
            _ if lines.len() > 1 => drop(lines.remove(from)),
            _ => {}
        }
    }
    let text = lines.join("\n");
    let mut tokens: Vec<&str> = text.split_inclusive([' ', '\n', '(', ')', ',', '.']).collect();
    while !random.chance(3) {
        let (at, other) = (random.below(tokens.len()), random.below(tokens.len()));
        match random.below(4) {
            0 if tokens.len() > 1 => drop(tokens.remove(at)),
            1 => tokens.splice(at..at, [" ", random.pick(words), " "]).for_each(drop),
            2 => tokens.splice(at..=at, [" ", random.pick(words), " "]).for_each(drop),
            _ => tokens[at] = tokens[other],
        }
    }
    tokens.concat()
}

#[test]
fn depth_and_length_are_bounded() {
    let many = 50_000;
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
        theta_text(&text);
    }
}

#[test]
fn a_file_that_is_too_long_is_not_read() {
    let mut sources = Sources::new();
    sources.add("long.theta", " ".repeat((16 << 20) + 1));
    let compilation = compile(&sources, &Options::default());
    assert_eq!(compilation.diagnostics.len(), 1);
}

#[test]
fn texts_of_the_corpus() {
    each_of_corpus("theta_text", |data| theta_text(&String::from_utf8_lossy(data)));
    each_of_corpus("ir_text", |data| {
        ir_text(&String::from_utf8_lossy(data));
    });
}
