//! Headings of the table as they are written, and their signatures for given types.

use super::{Family, find_family};
use crate::types::{Param, SignalSig, Signature, TypeId, Types};

/// A type as a heading writes it.
#[derive(Debug)]
enum Pattern {
    /// The type that has the method.
    Own,
    /// A type parameter.
    Parm(usize),
    /// A type that is not generic.
    Named(&'static str),
    /// An instantiation.
    Instance(&'static Family, Vec<Pattern>),
}

impl Pattern {
    fn resolve(&self, types: &mut Types, own: TypeId, args: &[TypeId]) -> TypeId {
        match self {
            Pattern::Own => own,
            Pattern::Parm(at) => args[*at],
            Pattern::Named(name) => types.find(name).unwrap_or_else(|| panic!("no built-in type `{name}`")),
            Pattern::Instance(family, patterns) => {
                let args: Vec<TypeId> = patterns.iter().map(|p| p.resolve(types, own, args)).collect();
                types.instance((family.kind)(&args))
            }
        }
    }

    /// Notes the types of the parameters in it if it is to be `ty`.
    fn bind(&self, types: &Types, ty: TypeId, found: &mut [Option<TypeId>]) {
        match self {
            Pattern::Own | Pattern::Named(_) => {}
            Pattern::Parm(at) => drop(found[*at].get_or_insert(ty)),
            Pattern::Instance(family, patterns) => {
                let kind = types.kind(ty);
                if super::family(kind) == Some(family.name) {
                    for (pattern, arg) in patterns.iter().zip(kind.args()) {
                        pattern.bind(types, arg, found);
                    }
                }
            }
        }
    }
}

/// A heading without its name.
#[derive(Debug, Default)]
pub(super) struct Heading {
    params: Vec<(&'static str, Pattern)>,
    results: Vec<Pattern>,
    yields: Option<Vec<Pattern>>,
    signals: Vec<&'static str>,
}

impl Heading {
    /// Reads a heading of the table. The table is ours, so a mistake in it is a bug and panics
    /// (the tests read all rows).
    pub(super) fn read(text: &'static str, parms: &[&str]) -> Heading {
        let tokens = tokenize(text);
        let mut reader = Reader { tokens: &tokens, at: 1, parms };
        let mut heading = Heading::default();
        reader.expect("(");
        while !reader.take(")") {
            let name = reader.next();
            reader.expect(":");
            heading.params.push((name, reader.ty()));
            reader.take(",");
        }
        while reader.at < tokens.len() {
            match reader.next() {
                "returns" => heading.results = reader.types(),
                "yields" => heading.yields = Some(reader.types()),
                "signals" => {
                    reader.expect("(");
                    while !reader.take(")") {
                        heading.signals.push(reader.next());
                        reader.take(",");
                    }
                }
                other => panic!("`{other}` in the built-in heading `{text}`"),
            }
        }
        heading
    }

    /// Returns the heading for the type `own` and these type arguments.
    pub(super) fn signature(&self, types: &mut Types, own: TypeId, args: &[TypeId]) -> Signature {
        let mut list =
            |patterns: &[Pattern]| patterns.iter().map(|p| p.resolve(types, own, args)).collect::<Vec<_>>();
        let (results, yields) = (list(&self.results), self.yields.as_deref().map(&mut list));
        let params = self
            .params
            .iter()
            .map(|(name, pattern)| Param { name: (*name).to_owned(), ty: pattern.resolve(types, own, args) });
        let params = params.collect();
        let signals =
            self.signals.iter().map(|name| SignalSig { name: types.signal(name), values: Vec::new() });
        Signature { params, results, yields, signals: signals.collect() }
    }

    /// Returns the type parameters if the formals are to be `given`.
    pub(super) fn infer(&self, types: &Types, given: &[TypeId], parms: usize) -> Vec<Option<TypeId>> {
        let mut found = vec![None; parms];
        for ((_, pattern), ty) in self.params.iter().zip(given) {
            pattern.bind(types, *ty, &mut found);
        }
        found
    }
}

fn tokenize(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut start = None;
    for (i, c) in text.char_indices() {
        if c.is_alphanumeric() || c == '_' {
            start.get_or_insert(i);
            continue;
        }
        if let Some(s) = start.take() {
            tokens.push(&text[s..i]);
        }
        if !c.is_whitespace() {
            tokens.push(&text[i..i + c.len_utf8()]);
        }
    }
    if let Some(s) = start {
        tokens.push(&text[s..]);
    }
    tokens
}

struct Reader<'a> {
    tokens: &'a [&'static str],
    at: usize,
    parms: &'a [&'a str],
}

impl Reader<'_> {
    fn next(&mut self) -> &'static str {
        self.at += 1;
        self.tokens[self.at - 1]
    }

    fn take(&mut self, token: &str) -> bool {
        let found = self.tokens.get(self.at) == Some(&token);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, token: &str) {
        assert!(self.take(token), "`{token}` expected in the built-in heading {:?}", self.tokens);
    }

    fn types(&mut self) -> Vec<Pattern> {
        self.expect("(");
        self.list(")")
    }

    fn list(&mut self, end: &str) -> Vec<Pattern> {
        let mut list = Vec::new();
        while !self.take(end) {
            list.push(self.ty());
            self.take(",");
        }
        list
    }

    fn ty(&mut self) -> Pattern {
        let name = self.next();
        if self.take("[") {
            let family =
                find_family(name).unwrap_or_else(|| panic!("no generic type `{name}` in {:?}", self.tokens));
            return Pattern::Instance(family, self.list("]"));
        }
        match self.parms.iter().position(|parm| *parm == name) {
            Some(at) => Pattern::Parm(at),
            None if name == "Self" => Pattern::Own,
            None => Pattern::Named(name),
        }
    }
}
