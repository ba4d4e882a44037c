//! The tables of the wire form and of recorders, as a source file of a client language.
//!
//! [`tables`] writes the file that the runtime of a language needs: codes, tags, errors, limits,
//! operators, misuses and constants. The Rust tables are the only source ([`bifrost_wire`],
//! [`bifrost_recorder`]); each language has a template. The file belongs to a runtime, not to a
//! program: stubs are written by [`generate`](crate::generate).

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, context};
use serde::Serialize;

use bifrost_recorder::Misuse;
use bifrost_recorder::{ARGUMENTS_MAX, CAUSES_MAX, HISTORY_MAX, MARKER_BYTES, PUBLISH_BYTES, REMAP_FUTURES};
use bifrost_wire::interface::Kind;
use bifrost_wire::places::PLACE_BYTES_MAX;
use bifrost_wire::profile::kind as entry;
use bifrost_wire::reply::kind;
use bifrost_wire::value::tag;
use bifrost_wire::{
    COMPOUND_DEPTH_MAX, FRAME_BYTES_MAX, Limit, Operator, PLACES_MAX, REPLY_BYTES_MAX, VERSION,
};
use bifrost_wire::{builtin, error, op, operator};

use crate::GenerateError;

/// A language whose runtime has the tables as a source file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum TablesLang {
    /// `_tables.py`
    Python,
    /// `tables.ts`
    TypeScript,
    /// `tables.go`
    Go,
    /// `Tables.java`
    Java,
}

impl TablesLang {
    /// All languages.
    pub const ALL: &[TablesLang] =
        &[TablesLang::Python, TablesLang::TypeScript, TablesLang::Go, TablesLang::Java];

    /// Returns its name in the command line, which is that of its folder in `veneers`.
    pub fn name(self) -> &'static str {
        match self {
            TablesLang::Python => "python",
            TablesLang::TypeScript => "typescript",
            TablesLang::Go => "go",
            TablesLang::Java => "java",
        }
    }

    /// Returns the language of that name.
    pub fn from_name(name: &str) -> Option<TablesLang> {
        TablesLang::ALL.iter().copied().find(|l| l.name() == name)
    }

    /// Returns the name of the file.
    pub fn file(self) -> &'static str {
        match self {
            TablesLang::Python => "_tables.py",
            TablesLang::TypeScript => "tables.ts",
            TablesLang::Go => "tables.go",
            TablesLang::Java => "Tables.java",
        }
    }

    /// Returns the folder of the file in the repository.
    pub fn folder(self) -> &'static str {
        match self {
            TablesLang::Python => "veneers/python/src/bifrost_veneer",
            TablesLang::TypeScript => "veneers/typescript/src",
            TablesLang::Go => "veneers/go",
            TablesLang::Java => "veneers/java/src/main/java/org/bifrost/veneer",
        }
    }

    fn template(self) -> &'static str {
        match self {
            TablesLang::Python => include_str!("../templates/tables.py.jinja"),
            TablesLang::TypeScript => include_str!("../templates/tables.ts.jinja"),
            TablesLang::Go => include_str!("../templates/tables.go.jinja"),
            TablesLang::Java => include_str!("../templates/tables.java.jinja"),
        }
    }
}

/// Returns the text of a language's file. Always the same one.
///
/// # Errors
/// A template failed: a mistake of this crate.
pub fn tables(language: TablesLang) -> Result<String, GenerateError> {
    let mut environment = Environment::new();
    let mut syntax = SyntaxConfig::builder();
    syntax.trim_blocks(true).lstrip_blocks(true).keep_trailing_newline(true);
    environment.set_syntax(syntax.build()?);
    environment.add_filter("quoted", quoted);
    environment.add_filter("property", property);
    environment.add_filter("wrapped", wrapped);
    environment.add_filter("camel", camel);
    environment.add_filter("exported", exported);
    environment.add_filter("padded", padded);
    environment.add_template("tables", language.template())?;
    Ok(environment.get_template("tables")?.render(context! { t => Serde(Tables::new()) })?)
}

/// The view of a template.
#[derive(Serialize)]
struct Tables {
    constants: Vec<Constant>,
    /// The bytes of `MAGIC`, in order.
    magic: Vec<u8>,
    groups: Vec<Group>,
    errors: Vec<ErrorEntry>,
    limits: Vec<LimitEntry>,
    operators: Vec<OperatorEntry>,
    builtin: Vec<BuiltinEntry>,
    misuses: Vec<MisuseEntry>,
}

/// Constants whose names have a prefix in common.
#[derive(Serialize)]
struct Group {
    /// The prefix of the names of its constants.
    prefix: String,
    /// The length of the longest name in Go.
    width: usize,
    doc: &'static str,
    constants: Vec<Constant>,
}

/// A number with a name.
#[derive(Serialize)]
struct Constant {
    name: String,
    value: u64,
    /// True if it is written in base 16.
    hex: bool,
    doc: String,
}

#[derive(Serialize)]
struct ErrorEntry {
    number: u32,
    name: &'static str,
    scope: &'static str,
    text: &'static str,
}

#[derive(Serialize)]
struct LimitEntry {
    number: u32,
    name: &'static str,
    default: u64,
}

#[derive(Serialize)]
struct OperatorEntry {
    name: String,
    kind: &'static str,
    method: &'static str,
}

#[derive(Serialize)]
struct BuiltinEntry {
    name: &'static str,
    methods: &'static [&'static str],
}

#[derive(Serialize)]
struct MisuseEntry {
    number: u32,
    name: &'static str,
    text: &'static str,
}

impl Tables {
    fn new() -> Tables {
        Tables {
            constants: constants(),
            magic: op::MAGIC.to_le_bytes().to_vec(),
            groups: groups(),
            errors: error::TABLE
                .iter()
                .map(|row| ErrorEntry {
                    number: row.number as u32,
                    name: row.name,
                    scope: row.scope.name(),
                    text: row.text,
                })
                .collect(),
            limits: Limit::ALL
                .iter()
                .map(|limit| LimitEntry {
                    number: *limit as u32,
                    name: limit.name(),
                    default: limit.default_value(),
                })
                .collect(),
            operators: Operator::ALL.iter().map(OperatorEntry::new).collect(),
            builtin: builtin::TABLE
                .iter()
                .map(|row| BuiltinEntry { name: row.name, methods: row.methods })
                .collect(),
            misuses: Misuse::ALL
                .iter()
                .map(|misuse| MisuseEntry {
                    number: *misuse as u32,
                    name: misuse.name(),
                    text: misuse.text(),
                })
                .collect(),
        }
    }
}

impl OperatorEntry {
    fn new(operator: &Operator) -> OperatorEntry {
        let (kind, method) = operator.method();
        let kind = match kind {
            Kind::Bool => "bool",
            Kind::Int => "int",
            Kind::Real => "real",
            Kind::Char => "char",
            _ => "string",
        };
        OperatorEntry { name: format!("{operator:?}"), kind, method }
    }
}

fn constants() -> Vec<Constant> {
    let constant = |name: &str, value: usize, doc: &str| Constant {
        name: name.to_owned(),
        value: value as u64,
        hex: false,
        doc: doc.to_owned(),
    };
    vec![
        constant("VERSION", VERSION as usize, "The version of the wire form."),
        constant(
            "FRAME_BYTES_MAX",
            FRAME_BYTES_MAX,
            "The longest command that servers accept by default, in bytes.",
        ),
        constant("REPLY_BYTES_MAX", REPLY_BYTES_MAX, "The longest reply that is read by default, in bytes."),
        constant("PUBLISH_BYTES", PUBLISH_BYTES, "The bytes of whole commands at which they are sent."),
        constant(
            "REMAP_FUTURES",
            REMAP_FUTURES,
            "The futures of a batch after which a flush is due by default.",
        ),
        constant(
            "HISTORY_MAX",
            HISTORY_MAX,
            "The exceptions that the history keeps; later ones are counted.",
        ),
        constant("ARGUMENTS_MAX", ARGUMENTS_MAX, "The most arguments of a call."),
        constant("CAUSES_MAX", CAUSES_MAX, "The depth of causes that an error keeps."),
        constant(
            "MARKER_BYTES",
            MARKER_BYTES,
            "The bytes of the marker of a procedure beyond its name, at most.",
        ),
        constant("COMPOUND_DEPTH_MAX", COMPOUND_DEPTH_MAX, "The levels of values with items in each other."),
        constant("PLACES_MAX", PLACES_MAX, "The places of a failure that are listed."),
        constant("PLACE_BYTES_MAX", PLACE_BYTES_MAX, "The bytes of a name in a place."),
        constant("NO_NUMBER", operator::NO_METHOD.0 as usize, "Stands for a type or method that is missing."),
        constant("HELLO_TRACED", op::HELLO_TRACED as usize, "The flag of `hello`: a trace context follows."),
        constant("FLUSH_QUIET", op::FLUSH_QUIET as usize, "The flag of `flush`: report wanted calls only."),
        constant(
            "FLUSH_KEPT",
            op::FLUSH_KEPT as usize,
            "The flag of `flush`: later batches may name its futures.",
        ),
        constant("HISTORY_CLEAR", op::HISTORY_CLEAR as usize, "The flag of `history`: clear it."),
        constant("PROFILE_ON", op::PROFILE_ON as usize, "The flag of `profile`: profiles are wanted."),
        constant(
            "FLUSHED_PROFILED",
            op::FLUSHED_PROFILED as usize,
            "The flag of `flushed`: it ends with a profile.",
        ),
        constant(
            "PROFILE_COMMAND",
            usize::from(entry::COMMAND),
            "The entry of a command outside structures.",
        ),
        constant("PROFILE_STRUCTURE", usize::from(entry::STRUCTURE), "The entry of a whole structure."),
        constant("PROFILE_REST", usize::from(entry::REST), "The entry of all commands without one."),
        constant("OTHERS_NAMED", op::OTHERS_NAMED as usize, "The flag of `others`: the name is wanted."),
        constant(
            "TRANSACTION_NAMED",
            op::TRANSACTION_NAMED as usize,
            "The flag of `transaction`: it has a name.",
        ),
    ]
}

fn groups() -> Vec<Group> {
    let group = |prefix: &str, doc: &'static str, hex: bool, rows: Vec<(String, u64, &str)>| Group {
        prefix: prefix.to_owned(),
        width: rows
            .iter()
            .map(|(name, ..)| camel(&format!("{prefix}_{}", screaming(name))).len())
            .max()
            .unwrap_or_default(),
        doc,
        constants: rows
            .into_iter()
            .map(|(name, value, doc)| Constant {
                name: format!("{prefix}_{}", screaming(&name)),
                value,
                hex,
                doc: doc.trim().trim_end_matches('.').to_owned() + ".",
            })
            .collect(),
    };
    let ops = op::TABLE.iter().map(|row| (row.name.to_owned(), u64::from(row.code), row.doc));
    let tags = tag::TABLE.iter().map(|(name, number, doc)| ((*name).to_owned(), u64::from(*number), *doc));
    let kinds = kind::TABLE.iter().map(|(name, number, doc)| ((*name).to_owned(), u64::from(*number), *doc));
    let limits = Limit::ALL.iter().map(|limit| {
        let name = limit.name().trim_end_matches("_max").to_owned();
        (name, u64::from(*limit as u32), limit.text())
    });
    let errors = error::TABLE.iter().map(|row| (row.name.to_owned(), u64::from(row.number as u32), row.text));
    let operators = Operator::ALL
        .iter()
        .enumerate()
        .map(|(index, row)| (format!("{row:?}"), index as u64, row.method().1));
    let builtin = builtin::TABLE.iter().enumerate().map(|(i, row)| (row.name.to_owned(), i as u64, row.name));
    let misuses = Misuse::ALL.iter().map(|m| (m.name().to_owned(), u64::from(*m as u32), m.doc()));
    vec![
        group("OP", "Codes of commands and replies.", true, ops.collect()),
        group("TAG", "Tags of values and outcomes.", false, tags.collect()),
        group("EXCEPTION", "Kinds of exceptions in replies.", false, kinds.collect()),
        group("LIMIT", "Numbers of limits in `welcome`.", false, limits.collect()),
        group("ERROR", "Numbers of errors.", false, errors.collect()),
        group("OPERATOR", "Positions of methods in the table of operators.", false, operators.collect()),
        group("BUILTIN", "Positions of types in the table of built-in types.", false, builtin.collect()),
        group("MISUSE", "Numbers of misuses.", false, misuses.collect()),
    ]
}

/// Returns a name in capitals: `END_IF` for `end_if`, `NO_SUCH_HANDLE` for `NoSuchHandle`.
fn screaming(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 4);
    let mut before_lower = false;
    for c in name.chars() {
        if c.is_uppercase() && before_lower {
            out.push('_');
        }
        before_lower = c.is_lowercase() || c.is_ascii_digit();
        out.extend(c.to_uppercase());
    }
    out
}

/// Returns a string literal, as JSON, Python and JavaScript have it.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Returns a name in capitals as one of Go that its package keeps: `opEndIf` for `OP_END_IF`.
fn camel(name: &str) -> String {
    let mut words = name.split('_');
    words.next().unwrap_or_default().to_lowercase() + &words.map(capitalized).collect::<String>()
}

/// Returns a name in capitals as one of Go that its package exports: `ErrorBadWord` for
/// `ERROR_BAD_WORD`.
fn exported(name: &str) -> String {
    name.split('_').map(capitalized).collect()
}

fn capitalized(word: &str) -> String {
    word.chars().take(1).chain(word.chars().skip(1).flat_map(char::to_lowercase)).collect()
}

/// Returns the name of a constant in Go, with spaces up to a width: gofmt aligns the constants of
/// a block.
fn padded(name: &str, width: usize) -> String {
    format!("{:width$}", camel(name))
}

/// Returns a property of an object; prettier leaves strings whole.
fn property(text: &str, key: u32) -> String {
    format!("  {key}: {},", quoted(text))
}

/// Returns words as lines of at most 76 columns, each behind a prefix.
fn wrapped(text: &str, prefix: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= 76 => {
                *line += &format!(" {word}")
            }
            _ => lines.push(format!("{prefix}{word}")),
        }
    }
    lines.join("\n")
}
