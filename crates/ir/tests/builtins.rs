//! The table of built-in types and routines against the definition of the language (`docs/book/language/library.md`), whose block of headings
//! is `builtins.theta`: nothing is missing, and nothing is different.

use std::collections::{BTreeMap, BTreeSet};

use bifrost_ir::builtin::{FAMILIES, METHODS, ROUTINES};

/// The methods that every type below `any` has, if its elements have them (`docs/book/language/library.md`).
const COMMON: &[&str] = &["equal", "similar", "copy", "unparse", "hash"];

/// A heading with its blanks in the usual places, and the methods that it needs of type parameters.
type Heading = (String, Vec<String>);

#[derive(Default)]
struct Definition {
    /// By type: its parameters, what it needs of them, whether it is immutable, and its headings by name.
    types: BTreeMap<String, Type>,
    routines: BTreeMap<String, Heading>,
}

#[derive(Default)]
struct Type {
    immutable: bool,
    parms: Vec<String>,
    needs: Vec<String>,
    methods: BTreeMap<String, Heading>,
}

struct Reader<'a> {
    tokens: Vec<&'a str>,
    at: usize,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str) -> Reader<'a> {
        let mut tokens = Vec::new();
        for line in text.lines() {
            let mut rest = line.split('%').next().unwrap_or("").trim_start();
            while !rest.is_empty() {
                let word = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
                let (token, after) = match rest.strip_prefix('"') {
                    Some(text) => rest.split_at(text.find('"').expect("a closing quote") + 2),
                    None => rest.split_at(word.max(1)),
                };
                tokens.push(token);
                rest = after.trim_start();
            }
        }
        Reader { tokens, at: 0 }
    }

    fn peek(&self) -> Option<&'a str> {
        self.tokens.get(self.at).copied()
    }

    fn next(&mut self) -> &'a str {
        self.at += 1;
        self.tokens[self.at - 1]
    }

    fn take(&mut self, token: &str) -> bool {
        let found = self.peek() == Some(token);
        self.at += usize::from(found);
        found
    }

    /// What stands in brackets, brackets included.
    fn bracketed(&mut self) -> Vec<&'a str> {
        let mut depth = 0;
        let mut inside = Vec::new();
        loop {
            let token = self.next();
            depth += i32::from(matches!(token, "(" | "[")) - i32::from(matches!(token, ")" | "]"));
            inside.push(token);
            if depth == 0 {
                return inside;
            }
        }
    }

    fn parms(&mut self) -> Vec<String> {
        if self.peek() != Some("[") {
            return Vec::new();
        }
        let inside = self.bracketed();
        inside.into_iter().filter(|t| !matches!(*t, "[" | "]" | ",")).map(str::to_owned).collect()
    }

    /// `where K has equal (K) returns (bool), ...`: `K.equal`.
    fn wheres(&mut self) -> Vec<String> {
        let mut needs = Vec::new();
        if self.take("where") {
            let parm = self.next();
            assert!(self.take("has"));
            loop {
                needs.push(format!("{parm}.{}", self.next()));
                self.bracketed();
                assert!(self.take("returns"));
                self.bracketed();
                if !self.take(",") {
                    break;
                }
            }
        }
        needs
    }

    /// A heading behind its name.
    fn heading(&mut self, name: &str) -> Heading {
        let mut tokens = vec![name];
        tokens.extend(self.bracketed());
        loop {
            self.take(",");
            match self.peek() {
                Some(word @ ("returns" | "yields" | "signals")) => {
                    self.at += 1;
                    tokens.push(word);
                    tokens.extend(self.bracketed());
                }
                _ => return (spaced(&tokens), self.wheres()),
            }
        }
    }
}

/// Tokens as the table writes them.
fn spaced(tokens: &[&str]) -> String {
    let mut out = String::new();
    for token in tokens {
        let tight = matches!(*token, ")" | "," | ":" | "[" | "]") || out.ends_with(['(', '[']);
        if !tight && !out.is_empty() {
            out.push(' ');
        }
        out.push_str(token);
    }
    out
}

fn definition() -> Definition {
    let mut reader = Reader::new(include_str!("builtins.theta"));
    let mut found = Definition::default();
    while reader.peek().is_some() {
        if reader.take("native") {
            reader.next();
            let name = reader.next();
            let parms = reader.parms();
            let heading = reader.heading(name);
            found.routines.insert(format!("{name}[{}]", parms.join(", ")), heading);
            continue;
        }
        let name = reader.next();
        assert!(reader.take("="), "`=` behind {name}");
        let immutable = reader.take("immutable");
        assert!(reader.take("type"));
        let mut ty = Type { immutable, parms: reader.parms(), needs: reader.wheres(), ..Type::default() };
        while !reader.take("end") {
            let method = reader.next();
            let heading = reader.heading(method);
            ty.methods.insert(method.to_owned(), heading);
        }
        assert!(reader.take(name));
        found.types.insert(name.to_owned(), ty);
    }
    found
}

#[test]
fn the_definition_was_read() {
    let found = definition();
    assert_eq!(found.types.len(), 18);
    assert_eq!(found.routines.len(), 28);
    let sort = &found.types["array"].methods["sort"];
    assert_eq!(sort, &("sort ()".to_owned(), vec!["T.lt".to_owned()]));
}

#[test]
fn every_heading_of_the_definition_is_in_the_table() {
    for (name, ty) in &definition().types {
        // The methods of `maybe` are not rows (`tagged`), and what a `replier` does is a statement.
        if name == "maybe" || name == "replier" {
            continue;
        }
        let own = match ty.parms.as_slice() {
            [] => name.clone(),
            parms => format!("{name}[{}]", parms.join(", ")),
        };
        let rows: BTreeMap<&str, Heading> = METHODS
            .iter()
            .filter(|row| row.family == name)
            .map(|row| {
                let needs = row.needs.iter().flat_map(|m| ty.parms.iter().map(move |p| format!("{p}.{m}")));
                (row.name(), (row.heading.replace("Self", &own), needs.collect()))
            })
            .collect();
        let mut expected = ty.methods.clone();
        // `any` has no methods, so a directory, which holds objects of that type, has only what needs none of theirs.
        let common = match name.as_str() {
            "any" => &[][..],
            "directory" => &COMMON[..1],
            // Actors have none of them: their methods are messages.
            "group" => &[][..],
            _ => &COMMON[..COMMON.len() - usize::from(!ty.immutable)],
        };
        for method in common {
            let heading = match *method {
                "equal" | "similar" => format!("{method} (x: {own}) returns (bool)"),
                "copy" => format!("copy () returns ({own})"),
                "unparse" => "unparse () returns (string)".to_owned(),
                _ => "hash () returns (int)".to_owned(),
            };
            // Identity needs nothing of the elements.
            let identity = *method == "equal" && !ty.immutable;
            let needs = ty.parms.iter().filter(|_| !identity).map(|p| format!("{p}.{method}")).collect();
            expected.insert((*method).to_owned(), (heading, needs));
        }
        let names: BTreeSet<&str> = rows.keys().copied().collect();
        assert_eq!(names, expected.keys().map(String::as_str).collect(), "methods of {name}");
        for (method, heading) in expected {
            assert_eq!(rows[method.as_str()], heading, "{name}");
        }
    }
}

#[test]
fn every_generic_type_of_the_definition_is_in_the_table() {
    let found = definition();
    let generic: Vec<_> = found.types.iter().filter(|(_, t)| !t.parms.is_empty()).collect();
    assert_eq!(generic.len(), FAMILIES.len());
    for (name, ty) in generic {
        let family = FAMILIES.iter().find(|f| f.name == name).expect("a row");
        assert_eq!(
            (family.parms, family.immutable),
            (&*ty.parms.iter().map(String::as_str).collect::<Vec<_>>(), ty.immutable)
        );
        assert_eq!(needs(family.parms, family.needs), ty.needs);
    }
}

#[test]
fn every_routine_of_the_definition_is_in_the_table() {
    let expected = definition().routines;
    let rows: BTreeMap<String, Heading> = ROUTINES
        .iter()
        .map(|row| {
            let name = format!("{}[{}]", row.name, row.parms.join(", "));
            (name, (row.heading.to_owned(), needs(row.parms, row.needs)))
        })
        .collect();
    assert_eq!(rows, expected);
}

fn needs(parms: &[&str], needs: &[(usize, &str)]) -> Vec<String> {
    needs.iter().map(|(at, method)| format!("{}.{method}", parms[*at])).collect()
}
