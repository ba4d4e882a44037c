//! Stubs in C: one header of `static inline` functions.
//!
//! The structs of all types stand before the functions, which name each other's types. A function
//! `T_m` is a macro that adds the place of the call to `bf_at_T_m`.

use std::collections::BTreeSet;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, context};
use serde::Serialize;

use bifrost_wire::Interface;
use bifrost_wire::interface::Kind;

use crate::GenerateError;
use crate::clang::{Comments, layout};
use crate::model::{MethodModel, Model, SignalModel};
use crate::naming::{Naming, clear, pascal, snake};

static TEMPLATE: &str = include_str!("../templates/c.jinja");

/// The words that cannot be names of parameters.
static KEYWORDS: &[&str] = &[
    "auto",
    "bool",
    "break",
    "case",
    "char",
    "const",
    "continue",
    "default",
    "do",
    "double",
    "else",
    "enum",
    "extern",
    "false",
    "float",
    "for",
    "goto",
    "if",
    "inline",
    "int",
    "long",
    "nullptr",
    "register",
    "restrict",
    "return",
    "short",
    "signed",
    "sizeof",
    "static",
    "struct",
    "switch",
    "thread_local",
    "true",
    "typedef",
    "typeof",
    "union",
    "unsigned",
    "void",
    "volatile",
    "while",
];

/// Names that generated functions have themselves, and macros of common headers.
static TAKEN: &[&str] = &[
    "on",
    "place",
    "session",
    "arguments",
    "results",
    "made",
    "iter",
    "lookup",
    "release",
    "retain",
    "claim",
    "of",
    "of_service",
    "import",
    "service",
    "cell_new",
    "cell_put",
    "cell_get",
    "cell_full",
    "errno",
    "stdin",
    "stdout",
    "stderr",
    "_",
];

/// Macros of standard headers.
static TAKEN_TYPES: &[&str] = &["EOF", "NULL", "FILE", "DIR"];

/// The most arguments of an iterator: `BF_ITERATOR_ARGUMENTS_MAX`.
const ITERATOR_ARGUMENTS_MAX: usize = 8;

/// The most values of an exception that has a handler: `BF_VARIABLES_MAX`.
const VARIABLES_MAX: usize = 8;

pub(crate) struct C;

impl Naming for C {
    fn lower(&self, name: &str) -> String {
        clear(snake(name), &[KEYWORDS, TAKEN])
    }

    fn upper(&self, words: &[&str]) -> String {
        clear(pascal(words, char::is_ascii_alphanumeric), &[TAKEN_TYPES])
    }

    fn value(&self, kind: Kind) -> &'static str {
        match kind {
            Kind::Bool => "bf_bool",
            Kind::Int => "bf_int",
            Kind::Real => "bf_real",
            Kind::Char => "bf_char",
            Kind::String => "bf_str",
            Kind::Bytes => "bf_bytes",
            _ => "bf_nil",
        }
    }

    fn builtin(&self, name: &str) -> String {
        format!("bf_{name}")
    }

    fn cell(&self, element: &str) -> String {
        format!("{element}_cell")
    }

    fn list(&self, _: &str) -> String {
        "bf_contents".to_owned()
    }

    fn optional(&self, _: &str) -> String {
        "bf_contents".to_owned()
    }

    fn pairs(&self, _: &str, _: &str) -> String {
        "bf_contents".to_owned()
    }
}

/// Returns a text as a literal of C.
pub(crate) fn literal(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for byte in text.bytes() {
        match byte {
            b'"' => out += "\\\"",
            b'\\' => out += "\\\\",
            b'?' => out += "\\?",
            b' '..=b'~' => out.push(byte as char),
            // Three digits, so that the next character is none of them.
            other => out += &format!("\\{other:03o}"),
        }
    }
    out + "\""
}

/// Returns a line of a comment that nothing of Theta ends or makes a command.
pub(crate) fn comment(line: &str) -> String {
    line.replace("*/", "* /").replace("/*", "/ *").replace('\\', "\\\\").replace('@', "\\@")
}

/// An iterator's type: the types that it yields.
#[derive(Serialize, PartialEq, Eq, PartialOrd, Ord)]
struct Yields {
    name: String,
}

/// Returns the name of an iterator's type in a stub.
fn iterator_type(f: &MethodModel) -> String {
    let types: Vec<&str> = f.results.iter().map(|result| result.ty.as_str()).collect();
    format!("bf_iter_{}", types.join("_"))
}

/// Returns the iterators' types that the header defines.
fn iterators(model: &Model) -> BTreeSet<Yields> {
    let methods = model.types.iter().flat_map(|ty| &ty.methods).chain(&model.routines);
    let used = methods.filter(|method| method.iterator && !method.results.is_empty());
    // Those of one basic value are the veneer's.
    let own = used.filter(|f| f.results.len() > 1 || !is_plain(&f.results[0].ty));
    own.map(|f| Yields { name: iterator_type(f) }).collect()
}

fn is_plain(ty: &str) -> bool {
    ty.starts_with("bf_") && !ty.ends_with("_cell") && ty != "bf_directory"
}

/// Returns the name of an exception in C: that of Theta, with `_` behind it as the model has.
fn signal_name(s: &SignalModel) -> String {
    let more = s.name.chars().rev().take_while(|c| *c == '_').count();
    format!("{}{}", snake(&s.theta), "_".repeat(more))
}

pub(crate) fn generate(interface: &Interface) -> Result<Vec<(String, String)>, GenerateError> {
    let model = Model::new(interface, &C)?;
    let mut environment = Environment::new();
    let mut syntax = SyntaxConfig::builder();
    syntax.trim_blocks(true).lstrip_blocks(true).keep_trailing_newline(true);
    environment.set_syntax(syntax.build()?);
    environment.add_filter("comment", |line: String| comment(&line));
    environment.add_filter("iterator", |f: Serde<MethodModel>| iterator_type(&f));
    environment.add_filter("snake", |name: String| snake(&name));
    environment.add_filter("signal", |s: Serde<SignalModel>| signal_name(&s));
    environment.add_filter("fits", |f: Serde<MethodModel>| f.params.len() <= ITERATOR_ARGUMENTS_MAX);
    environment.add_template("c", TEMPLATE)?;
    let json = interface.to_json_lines();
    let lines: Vec<String> = json.lines().map(literal).collect();
    let iterators: Vec<Yields> = iterators(&model).into_iter().collect();
    let text = environment.get_template("c")?.render(context! {
        m => Serde(&model), lines, iterators => Serde(&iterators), variables_max => VARIABLES_MAX,
    })?;
    Ok(vec![("bifrost_stubs.h".to_owned(), layout(&text, Comments::Block))])
}
