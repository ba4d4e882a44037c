//! The TextMate grammar of `editors/vscode` knows the words of the lexer, and gives them the right scopes in an engine
//! that people use.

mod support;

use bifrost_theta::ast::Item;
use bifrost_theta::lexer::{self, Tok};
use bifrost_theta::{Sources, parse};
use bifrost_tools::index::PRELUDE;
use serde_json::Value;
use support::{root, source, texts};
use syntect::parsing::{ParseState, ScopeStack, SyntaxDefinition, SyntaxSet, SyntaxSetBuilder};

fn grammar() -> Value {
    let path = root().join("editors/vscode/syntaxes/theta.tmLanguage.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The words of the patterns of `group` whose scopes start so.
fn words(group: &str, scopes: &[&str]) -> Vec<String> {
    let grammar = grammar();
    let patterns = grammar["repository"][group]["patterns"].as_array().unwrap();
    let wanted =
        patterns.iter().filter(|p| scopes.iter().any(|s| p["name"].as_str().unwrap().starts_with(s)));
    let lists = wanted.map(|p| p["match"].as_str().unwrap().to_owned());
    let mut words: Vec<String> = lists
        .flat_map(|list| {
            let inner = list.strip_prefix(r"\b(").and_then(|l| l.strip_suffix(r")\b")).unwrap().to_owned();
            inner.split('|').map(str::to_owned).collect::<Vec<_>>()
        })
        .collect();
    words.sort();
    words
}

#[test]
fn the_grammar_has_the_words_of_the_lexer() {
    let mut reserved: Vec<&str> = Tok::WORDS.to_vec();
    reserved.sort();
    assert_eq!(words("words", &[""]), reserved);
}

#[test]
fn the_grammar_has_the_names_that_are_predeclared() {
    let mut sources = Sources::new();
    let file = sources.add("prelude", PRELUDE);
    let (tree, _) = parse(&sources, file);
    let names = |types: bool| {
        let found = tree.items.iter().filter(|item| matches!(item, Item::Type(_)) == types);
        let mut names: Vec<String> = found.map(|item| item.name().to_string()).collect();
        names.sort();
        names
    };
    assert_eq!(words("predeclared", &["support.type"]), names(true));
    assert_eq!(words("predeclared", &["support.function"]), names(false));
}

/// The grammar in the form that the engine reads: the same expressions and scopes, with contexts in place of pairs of
/// `begin` and `end`.
fn as_sublime(grammar: &Value) -> String {
    let mut contexts = serde_json::Map::new();
    contexts.insert("main".to_owned(), patterns(&grammar["patterns"]));
    for (name, rule) in grammar["repository"].as_object().unwrap() {
        let rules = match rule.get("patterns").filter(|_| rule.get("begin").is_none()) {
            Some(inner) => patterns(inner),
            None => Value::Array(vec![pattern(rule)]),
        };
        contexts.insert(name.clone(), rules);
    }
    let definition = serde_json::json!({
        "name": grammar["name"], "scope": grammar["scopeName"], "file_extensions": ["theta"], "contexts": contexts,
    });
    // JSON is YAML, but the keys of captures are numbers there.
    let text = (0..9)
        .fold(definition.to_string(), |text, at| text.replace(&format!("\"{at}\":"), &format!("{at}: ")));
    format!("%YAML 1.2\n---\n{text}")
}

fn patterns(list: &Value) -> Value {
    list.as_array().unwrap().iter().map(pattern).collect()
}

fn pattern(rule: &Value) -> Value {
    if let Some(name) = rule.get("include") {
        return serde_json::json!({ "include": name.as_str().unwrap().trim_start_matches('#') });
    }
    let Some(begin) = rule.get("begin") else {
        let mut made = serde_json::json!({ "match": rule["match"] });
        if let Some(name) = rule.get("name") {
            made["scope"] = name.clone();
        }
        if let Some(captures) = rule.get("captures") {
            let scopes = captures.as_object().unwrap().iter();
            let scopes = scopes.map(|(at, capture)| (at.clone(), capture["name"].clone()));
            made["captures"] = Value::Object(scopes.collect());
        }
        return made;
    };
    let mut inner = vec![
        serde_json::json!({ "meta_scope": rule["name"] }),
        serde_json::json!({ "match": rule["end"], "pop": true }),
    ];
    inner.extend(rule["patterns"].as_array().unwrap().iter().map(pattern));
    serde_json::json!({ "match": begin, "push": inner })
}

fn syntax() -> SyntaxSet {
    let definition = SyntaxDefinition::load_from_str(&as_sublime(&grammar()), true, None).unwrap();
    let mut builder = SyntaxSetBuilder::new();
    builder.add(definition);
    builder.build()
}

/// For each byte of `text`, the scopes there.
fn scopes(syntax: &SyntaxSet, text: &str) -> Vec<String> {
    let mut state = ParseState::new(syntax.find_syntax_by_extension("theta").unwrap());
    let (mut stack, mut all) = (ScopeStack::new(), vec![]);
    for line in text.split_inclusive('\n') {
        let mut last = 0;
        for (at, change) in state.parse_line(line, syntax).unwrap() {
            all.extend(std::iter::repeat_n(stack.to_string(), at - last));
            stack.apply(&change).unwrap();
            last = at;
        }
        all.extend(std::iter::repeat_n(stack.to_string(), line.len() - last));
    }
    all
}

#[test]
fn tokens_have_their_scopes() {
    let syntax = syntax();
    for (name, text) in texts() {
        let (sources, file) = source(&text);
        if !parse(&sources, file).1.is_empty() {
            continue;
        }
        let scopes = scopes(&syntax, &text);
        let lexed = lexer::lex(file, &text);
        let mut last = None;
        for token in &lexed.tokens {
            let (start, spelled) = (token.start as usize, &text[token.start as usize..token.end as usize]);
            let wanted: &[&str] = match token.tok {
                Tok::Str => &["string.quoted.double"],
                Tok::Char => &["string.quoted.single"],
                Tok::Int | Tok::Real => &["constant.numeric"],
                // A name after `end` is the one of what it ends, after a dot that of a member.
                Tok::Name if last == Some(Tok::End) => &["entity.name", "support", "source.theta"],
                Tok::Name if last == Some(Tok::Dot) => &["variable.other.member"],
                Tok::Name if spelled == "remote" || spelled == "persistent" => &["storage.modifier"],
                Tok::Name => &["support", "entity.name.function", "source.theta"],
                tok if tok.is_word() => {
                    &["keyword", "storage", "constant.language", "variable.language", "entity.name"]
                }
                _ => &[],
            };
            if let Some(found) = scopes.get(start).filter(|_| !wanted.is_empty()) {
                let innermost = found.split_whitespace().last().unwrap_or("");
                assert!(wanted.iter().any(|w| innermost.starts_with(w)), "{name}: `{spelled}` has {found}");
                // The whole token has it.
                assert_eq!(
                    scopes[token.end as usize - 1].split(' ').nth(1),
                    found.split(' ').nth(1),
                    "{name}: `{spelled}`"
                );
            }
            last = Some(token.tok);
        }
        for comment in &lexed.comments {
            for at in [comment.start, comment.end - 1] {
                assert!(scopes[at as usize].contains("comment.line"), "{name}: {}", scopes[at as usize]);
            }
        }
    }
}

#[test]
fn escapes_stand_out() {
    let found = scopes(&syntax(), "print(\"a\\n%\\u{e9}\") % \"\n");
    assert!(found[8].contains("constant.character.escape"), "{}", found[8]);
    assert!(
        found[10].trim_end().ends_with("string.quoted.double.theta"),
        "a sign of comments in a string: {}",
        found[10]
    );
    assert!(found[22].contains("comment"), "{}", found[22]);
}
