//! The proposals of the shell when Tab is pressed.

use bifrost_wire::interface::Numbering;
use bifrost_wire::text::Translator;
use rustyline::completion::Completer;
use rustyline::{Context, Helper, Highlighter, Hinter, Validator};

/// The first words of lines.
const COMMANDS: &[&str] = &[
    "abort",
    "break",
    "bye",
    "cell",
    "clear",
    "commit",
    "continue",
    "describe",
    "do",
    "else",
    "emit",
    "end",
    "except",
    "explain",
    "flush",
    "foreach",
    "free",
    "help",
    "history",
    "if",
    "limits",
    "list",
    "live",
    "lookup",
    "names",
    "others",
    "procedure",
    "profile",
    "return",
    "rows",
    "send",
    "then",
    "transaction",
    "wait",
    "when",
    "while",
];

/// The words that can stand in a line.
#[derive(Helper, Highlighter, Hinter, Validator)]
pub struct Words {
    types: Vec<String>,
    routines: Vec<String>,
    /// Names of objects that the conversation has looked up.
    well_known: Vec<String>,
    /// Of all types together, for receivers whose type is not known.
    methods: Vec<String>,
    /// The names of the conversation, each with the methods of its object or value.
    names: Vec<(String, Vec<String>)>,
}

impl Words {
    /// Collects the words of an interface.
    pub fn new(numbering: &Numbering) -> Words {
        let interface = numbering.interface();
        let methods = interface.types.iter().flat_map(|t| &t.methods);
        Words {
            types: sorted(
                interface.types.iter().flat_map(|t| t.names.iter().chain([&t.name])).cloned().collect(),
            ),
            routines: interface.routines.iter().map(|r| r.name.clone()).collect(),
            well_known: Vec::new(),
            methods: sorted(methods.map(|m| m.name.clone()).collect()),
            names: Vec::new(),
        }
    }

    /// Takes over the names of a conversation after its last line.
    pub fn follow(&mut self, translator: &Translator, line: &str) {
        self.learn(line);
        let methods = |name: &str| translator.methods_of(name).map(str::to_owned).collect();
        self.names = translator.names().map(|name| (name.to_owned(), methods(name))).collect();
    }

    /// Remembers the names that a line looks up.
    fn learn(&mut self, line: &str) {
        for rest in line.split("lookup ").skip(1) {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            let name = rest[..end].to_owned();
            if !name.is_empty() && !self.well_known.contains(&name) {
                self.well_known.push(name);
            }
        }
    }

    /// Returns the words that can stand at the end of `line`, and the byte where that begins.
    pub fn propose(&self, line: &str) -> (usize, Vec<String>) {
        let in_word = |c: char| c.is_alphanumeric() || c == '_';
        let start = line
            .rfind(|c| !in_word(c))
            .map_or(0, |at| at + line[at..].chars().next().map_or(1, char::len_utf8));
        let (before, typed) = line.split_at(start);
        let candidates: Vec<&str> = if before.ends_with('$') {
            self.names.iter().map(|(name, _)| name.as_str()).collect()
        } else if let Some(receiver) = before.strip_suffix('.') {
            let inner = self.inner_names(before);
            if inner.is_empty() { self.methods_of(receiver) } else { inner }
        } else if before.ends_with("lookup ") {
            self.well_known.iter().map(String::as_str).collect()
        } else if ["cell ", "describe ", ": ", "returns "].iter().any(|w| before.ends_with(w)) {
            self.types.iter().map(String::as_str).collect()
        } else {
            let words = self.routines.iter().map(String::as_str);
            let commands = COMMANDS
                .iter()
                .copied()
                .filter(|c| before.trim().is_empty() || matches!(*c, "cell" | "lookup"));
            commands.chain(words).collect()
        };
        let mut found: Vec<&str> = candidates.into_iter().filter(|c| c.starts_with(typed)).collect();
        found.sort_unstable();
        found.dedup();
        (start, found.into_iter().map(str::to_owned).collect())
    }

    /// Returns the rest of the names of types and routines that begin with the path at the end of
    /// `before`.
    fn inner_names(&self, before: &str) -> Vec<&str> {
        let in_path = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '$' | '@');
        let start = before.trim_end_matches(in_path).len();
        let all = self.types.iter().chain(&self.routines);
        all.filter_map(|name| name.strip_prefix(&before[start..])).collect()
    }

    /// Returns the methods of the receiver at the end of `before`.
    fn methods_of(&self, before: &str) -> Vec<&str> {
        let name = before.rsplit_once('$').map(|(_, name)| name);
        // An inner definition of a name comes after an outer one.
        let known = self.names.iter().rev().find(|(n, _)| Some(n.as_str()) == name);
        let methods = known.map(|(_, methods)| methods).filter(|m| !m.is_empty());
        methods.unwrap_or(&self.methods).iter().map(String::as_str).collect()
    }
}

fn sorted(mut words: Vec<String>) -> Vec<String> {
    words.sort_unstable();
    words.dedup();
    words
}

impl Completer for Words {
    type Candidate = String;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        Ok(self.propose(&line[..at]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bifrost_wire::interface::{Interface, Kind, Method, Type};

    fn words() -> Words {
        let method = |name: &str| Method { name: name.into(), ..Method::default() };
        let ty = |name: &str, methods: &[&str]| Type {
            name: name.into(),
            names: Vec::new(),
            kind: Kind::Object,
            element: None,
            fields: Vec::new(),
            immutable: false,
            actor: false,
            supertypes: vec![],
            methods: methods.iter().map(|m| method(m)).collect(),
            doc: String::new(),
        };
        let interface = Interface {
            types: vec![ty("DataBase", &["fetch", "new_user"]), ty("DataElem", &["name", "touch"])],
            routines: vec![method("new_database"), method("lib.one.start"), method("lib.two.start")],
        };
        let mut words = Words::new(&Numbering::new(interface));
        words.learn("$x := lookup database: DataBase");
        words.learn("? lookup home");
        words.names = vec![("db".into(), vec!["fetch".into(), "new_user".into()]), ("e".into(), vec![])];
        words
    }

    fn check(line: &str, start: usize, expected: &[&str]) {
        let (at, found) = words().propose(line);
        assert_eq!(
            (at, found.iter().map(String::as_str).collect::<Vec<_>>()),
            (start, expected.to_vec()),
            "{line}"
        );
    }

    #[test]
    fn words_depend_on_what_is_before_them() {
        check("$", 1, &["db", "e"]);
        check("? $d", 3, &["db"]);
        check("$db.", 4, &["fetch", "new_user"]);
        check("$db.f", 4, &["fetch"]);
        check("$e.", 3, &["fetch", "name", "new_user", "touch"]);
        check("$x := lookup ", 13, &["database", "home"]);
        check("$x := lookup database: ", 23, &["DataBase", "DataElem"]);
        check("$x := n", 6, &["new_database"]);
        check("lib.o", 4, &["one.start"]);
        check("$x := lib.two.", 14, &["start"]);
        check("wh", 0, &["when", "while"]);
        check("$c := c", 6, &["cell"]);
        check("ü", 0, &[]);
    }
}
