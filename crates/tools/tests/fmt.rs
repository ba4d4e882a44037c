//! The formatter changes how a text looks and nothing else.

mod support;

use std::sync::LazyLock;

use bifrost_theta::{Colour, lexer, parse, render_all};
use bifrost_tools::fmt::format;
use proptest::prelude::*;
use support::grammar::Grammar;
use support::{source, texts};

/// The tree of `text` without places; `None` if it does not parse.
fn tree(text: &str) -> Option<String> {
    let (sources, file) = source(text);
    let (tree, diagnostics) = parse(&sources, file);
    if !diagnostics.is_empty() {
        return None;
    }
    Some(without_places(&format!("{tree:?}")))
}

/// Leaves out spans (`0:12..17`) and whether statements share a line.
fn without_places(tree: &str) -> String {
    let mut out = String::new();
    for part in tree.split(", same_line: ") {
        let part = part.strip_prefix("true").or(part.strip_prefix("false")).unwrap_or(part);
        let mut rest = part;
        while let Some(at) = rest.find("0:") {
            let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
            let first = digits(&rest[at + 2..]);
            let second = rest[at + 2 + first..].strip_prefix("..").map(digits);
            out.push_str(&rest[..at]);
            match second {
                Some(second) if first > 0 && second > 0 => rest = &rest[at + 4 + first + second..],
                _ => {
                    out.push_str("0:");
                    rest = &rest[at + 2..];
                }
            }
        }
        out.push_str(rest);
    }
    out
}

/// The comments of `text`.
fn comments(text: &str) -> Vec<&str> {
    let (_, file) = source(text);
    let lexed = lexer::lex(file, text);
    lexed.comments.iter().map(|c| text[c.start as usize..c.end as usize].trim_end()).collect()
}

fn formatted(text: &str) -> String {
    let (sources, file) = source(text);
    format(&sources, file).unwrap_or_else(|errors| panic!("{errors:?}\n{text}"))
}

/// Formats `text`, which parses, and checks what must hold for every text.
fn check_rules(name: &str, text: &str) -> String {
    check_rules_by(name, text, |tree| tree)
}

fn check_rules_by(name: &str, text: &str, view: impl Fn(String) -> String) -> String {
    let tree = |text: &str| tree(text).map(&view);
    let before = tree(text).unwrap_or_else(|| panic!("{name} does not parse:\n{text}"));
    let once = formatted(text);
    let Some(after) = tree(&once) else {
        let (sources, file) = source(&once);
        let said = render_all(&sources, &parse(&sources, file).1, Colour::Plain);
        panic!("{name} no longer parses:\n{text}\n-->\n{once}\n{said}")
    };
    assert!(before == after, "{name} is another program:\n{text}\n-->\n{once}");
    assert_eq!(comments(text), comments(&once), "{name}: comments:\n{text}\n-->\n{once}");
    let twice = formatted(&once);
    if once != twice {
        let (a, b) = once.lines().zip(twice.lines()).find(|(a, b)| a != b).unwrap_or(("", ""));
        panic!("{name} is not stable: `{a}`, then `{b}`\n{text}\n-->\n{once}\n-->\n{twice}");
    }
    for line in once.lines() {
        assert_eq!(line.trim_end(), line, "{name}: blanks at the end of a line");
    }
    assert!(!once.contains("\n\n\n"), "{name}: two empty lines:\n{once}");
    once
}

#[test]
fn every_text_of_the_repository() {
    for (name, text) in texts() {
        if tree(&text).is_some() {
            check_rules(&name, &text);
        }
    }
}

/// `text` with newlines, empty lines, comments and blanks put between its tokens, and some `;` after statements.
fn disturbed(text: &str, choices: &[u8]) -> String {
    let (_, file) = source(text);
    let lexed = lexer::lex(file, text);
    let mut out = String::new();
    let mut last = 0;
    let mut comments = 0;
    for (at, token) in lexed.tokens.iter().enumerate() {
        out.push_str(&text[last..token.start as usize]);
        match choices[(at * 7 + choices.len() / 3) % choices.len()].wrapping_add((at / choices.len()) as u8) {
            0..20 => out.push('\n'),
            20..30 => out.push_str("\n\n\n"),
            30..40 => {
                comments += 1;
                out.push_str(&format!(" % c{comments}\n"));
            }
            40..50 => {
                comments += 1;
                out.push_str(&format!("\n% c{comments}\n  % d\n\n% e\n"));
            }
            50..60 => out.push_str("   "),
            60..63 => out.push_str(" ; "),
            _ => {}
        }
        out.push_str(&text[token.start as usize..token.end as usize]);
        last = token.end as usize;
    }
    out.push_str(&text[last..]);
    out
}

/// The largest part of `disturbed` lines that still parses, found by disturbing items one by one.
fn disturbed_parts(text: &str, choices: &[u8]) -> Vec<String> {
    let whole = disturbed(text, choices);
    let thin: Vec<u8> = choices.iter().map(|c| if *c % 4 == 0 { *c } else { 255 }).collect();
    let few: Vec<u8> = choices.iter().enumerate().map(|(at, c)| if at == 0 { c % 64 } else { 255 }).collect();
    [whole, disturbed(text, &thin), disturbed(text, &few)].into_iter().filter(|t| tree(t).is_some()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn texts_set_at_random(index in any::<prop::sample::Index>(), choices in prop::collection::vec(any::<u8>(), 1..400)) {
        let (name, text) = index.get(&ITEMS);
        for text in disturbed_parts(text, &choices) {
            // A comment in the middle of a heading may come to its end, where it is documentation.
            check_rules_by(name, &text, without_docs);
        }
    }
}

/// How many texts of the grammar are tried.
const TEXTS: u64 = 500;

#[test]
fn programs_at_random() {
    let all = (0..TEXTS).map(|seed| (seed, Grammar::file(seed)));
    let mut texts: Vec<_> = all.filter(|(_, text)| tree(text).is_some()).collect();
    assert!(texts.len() as u64 > TEXTS / 2, "only {} texts of the grammar parse", texts.len());
    // Short ones first: they show best what is wrong.
    texts.sort_by_key(|(_, text)| text.len());
    for (seed, text) in texts {
        check_rules_by(&format!("the text of seed {seed}"), &text, without_docs);
    }
}

fn without_docs(tree: String) -> String {
    let mut out = String::new();
    for (at, part) in tree.split("doc: \"").enumerate() {
        // Comments at random have no quotes.
        let end = if at == 0 { 0 } else { part.find('"').unwrap_or(0) };
        out.push_str(&part[end..]);
    }
    out
}

static ITEMS: LazyLock<Vec<(String, String)>> = LazyLock::new(items);

/// The items of all texts that parse.
fn items() -> Vec<(String, String)> {
    let mut all = vec![];
    for (name, text) in texts() {
        let (sources, file) = source(&text);
        let (tree, diagnostics) = parse(&sources, file);
        if !diagnostics.is_empty() {
            continue;
        }
        let starts: Vec<usize> = tree
            .items
            .iter()
            .map(|item| match item {
                bifrost_theta::ast::Item::Module(it) => it.span.start as usize,
                item => item.name().span.start as usize,
            })
            .collect();
        for (at, start) in starts.iter().enumerate() {
            let end = starts.get(at + 1).copied().unwrap_or(text.len());
            if let Some(item) = text.get(*start..end).filter(|item| self::tree(item).is_some()) {
                all.push((name.clone(), item.to_owned()));
            }
        }
    }
    all
}

/// Formats `text`, which must become `expected`.
#[track_caller]
fn check(text: &str, expected: &str) {
    assert_eq!(check_rules("the text", text), expected);
}

#[test]
fn blanks_and_empty_lines() {
    check(
        "f( a,b :int )returns(int)\nreturn(a+b)\nend f",
        "f (a, b: int) returns (int)\n  return (a + b)\nend f\n",
    );
    check(
        "f ()\n\n  a()\n\n\n\n  b()\n\nend f\n\n\n\ng () end g\n",
        "f ()\n  a()\n\n  b()\nend f\n\ng () end g\n",
    );
    check(
        "% why\nremote   f( a:int ) return(a) % all\nend f\nmodule m exports g\nremote\tnative \"x::g\"  g(a:int)\nend m",
        "% why\nremote f (a: int)\n  return (a)  % all\nend f\nmodule m exports g\n  remote native \"x::g\" g (a: int)\nend m\n",
    );
    check("", "");
}

#[test]
fn what_was_short_stays_short() {
    check("f () returns (int) return (1) end f", "f () returns (int) return (1) end f\n");
    check("f () a() b() end f", "f ()\n  a()\n  b()\nend f\n");
    check(
        "P = type x () returns (int) y () returns (int) end P",
        "P = type x () returns (int)   y () returns (int) end P\n",
    );
    check("C = class\n a: int b: int\n c: int end C", "C = class\n  a: int   b: int\n  c: int\nend C\n");
}

#[test]
fn what_is_too_long_is_broken() {
    check(
        "fetch_one (user_name: string, group_name: string) returns (DataElement) signals (not_found, denied (string)) a() end fetch_one",
        "fetch_one (user_name: string, group_name: string) returns (DataElement)\n    signals (not_found, denied (string))\n  a()\nend fetch_one\n",
    );
    check(
        "f ()\n  x := call_of_something(argument_number_one, argument_number_two, argument_number_three, four_or_more)\nend f",
        "f ()\n  x := call_of_something(\n    argument_number_one,\n    argument_number_two,\n    argument_number_three,\n    four_or_more\n  )\nend f\n",
    );
    check(
        "f ()\n  if first_condition(a, b, c) & second_condition(a, b, c) & third_condition(a, b, c) & fourth(a) then a() end\nend f",
        "f ()\n  if first_condition(a, b, c) &\n      second_condition(a, b, c) &\n      third_condition(a, b, c) &\n      fourth(a) then\n    a()\n  end\nend f\n",
    );
}

#[test]
fn comments_stay_at_what_they_are_about() {
    check(
        "f () % one\n% doc\n\n  % two\n  x: int := 1 % three\n  longer_name: int := 2 % four\n% five\nend f % six\n% seven",
        "f ()  % one\n% doc\n\n  % two\n  x: int := 1            % three\n  longer_name: int := 2  % four\n  % five\nend f  % six\n% seven\n",
    );
    check(
        "f ()\n  g(a, % the first\n % about the second\n b)\nend f",
        "f ()\n  g(\n    a,  % the first\n    % about the second\n    b\n  )\nend f\n",
    );
    check(
        "f ()\n  if a then\n    b()\n  % otherwise\n  else\n    c()\n    % done\n  end\nend f\n",
        "f ()\n  if a then\n    b()\n  % otherwise\n  else\n    c()\n    % done\n  end\nend f\n",
    );
}

#[test]
fn handlers() {
    check(
        "f ()\n g() except when a, b (x: int): h(x) end\n g()\n except when a: h()\n when b (*): h() i() others: end\n g() resignal a,b\nend f",
        "f ()\n  g() except when a, b (x: int): h(x) end\n  g()\n  except\n    when a: h()\n    when b (*):\n      h()\n      i()\n    others:\n  end\n  g() resignal a, b\nend f\n",
    );
}

#[test]
fn semicolons_stay_where_they_say_something() {
    check("f () a := b; -c end f", "f ()\n  a := b;\n  -c\nend f\n");
    check("f () a(); b(); end f", "f ()\n  a()\n  b()\nend f\n");
    let class = "C = class\n  m () makes (C) make {a := 1; m()} end m\nend C\n";
    check(class, class);
}

#[test]
fn the_line_rule_is_kept() {
    check("f ()\n  a\n  (b)\n  return\n  (c)\nend f", "f ()\n  a\n  (b)\n  return\n  (c)\nend f\n");
    // A mistake that the checker explains stays one.
    check("f ()\n  int sum = 0\nend f", "f ()\n  int sum = 0\nend f\n");
}

#[test]
fn what_does_not_parse_is_refused() {
    let (sources, file) = source("f ( return end");
    assert!(!format(&sources, file).unwrap_err().is_empty());
}

#[test]
fn the_examples_are_formatted() {
    for (name, text) in texts() {
        if name.starts_with("examples/") {
            assert_eq!(formatted(&text), text, "{name}: run `bifrost fmt`");
        }
    }
}
