//! Stubs in Rust: one module, and the interface in a file beside it.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, context};

use bifrost_wire::Interface;
use bifrost_wire::interface::Kind;

use crate::GenerateError;
use crate::model::{MethodModel, Model, ValueModel};
use crate::naming::{Naming, clear, pascal, snake};

static TEMPLATE: &str = include_str!("../templates/rust.jinja");

/// The words that cannot be names, and the names that the module or the stubs need for themselves.
static KEYWORDS: &[&str] = &[
    "Self", "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate", "do",
    "dyn", "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop",
    "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return", "self", "static",
    "struct", "super", "trait", "true", "try", "type", "typeof", "unsafe", "unsized", "use", "virtual",
    "where", "while", "yield",
];

/// Names that a method or routine would hide: those of every stub, and of the module.
static TAKEN: &[&str] = &[
    "as_",
    "is_",
    "caught",
    "signals",
    "stub",
    "from_stub",
    "clone",
    "connect",
    "connect_async",
    "session",
    "_",
];

/// Names of types that generated code uses without a path.
static TAKEN_TYPES: &[&str] = &[
    "Self", "Option", "String", "Vec", "Box", "Result", "Some", "None", "Ok", "Err", "From", "Clone", "Debug",
];

/// The file of the interface, beside the stubs.
const INTERFACE_FILE: &str = "bifrost_stubs.interface.json";

pub(crate) struct Rust;

impl Naming for Rust {
    fn lower(&self, name: &str) -> String {
        clear(snake(name), &[KEYWORDS, TAKEN])
    }

    fn upper(&self, words: &[&str]) -> String {
        clear(pascal(words, |c| c.is_alphanumeric()), &[TAKEN_TYPES])
    }

    fn value(&self, kind: Kind) -> &'static str {
        match kind {
            Kind::Bool => "bool",
            Kind::Int => "i64",
            Kind::Real => "f64",
            Kind::Char => "char",
            Kind::String => "String",
            Kind::Bytes => "Vec<u8>",
            _ => "()",
        }
    }

    fn builtin(&self, name: &str) -> String {
        format!("bf::{}", self.upper(&[name]))
    }

    fn cell(&self, element: &str) -> String {
        format!("bf::Cell<{element}>")
    }

    fn list(&self, element: &str) -> String {
        format!("Vec<{element}>")
    }

    fn optional(&self, some: &str) -> String {
        format!("Option<{some}>")
    }

    fn pairs(&self, key: &str, value: &str) -> String {
        format!("Vec<({key}, {value})>")
    }
}

/// The longest line of rustfmt, in characters, where nobody has set another one.
const WIDTH: usize = 100;

/// Returns the head of a function, broken as rustfmt breaks it.
fn signature(f: &MethodModel, method: bool) -> String {
    let results: Vec<String> =
        f.results.iter().map(|r| if f.iterator { r.ty.clone() } else { future(r) }).collect();
    let result = match (f.iterator, results.as_slice()) {
        (true, [one]) => format!("bf::Iter<({one},)>"),
        (true, many) => format!("bf::Iter<({})>", many.join(", ")),
        (false, []) => "bf::Promise<()>".to_owned(),
        (false, [one]) => one.clone(),
        (false, many) => format!("({})", many.join(", ")),
    };
    head(f, method, &format!(" -> {result}"))
}

/// Returns the head of a function with this behind its arguments.
fn head(f: &MethodModel, method: bool, result: &str) -> String {
    let indent = if method { "    " } else { "" };
    let receiver = if method { "&self" } else { "session: &bf::Session" };
    let mut params = vec![receiver.to_owned()];
    params.extend(f.params.iter().map(|p| format!("{}: impl bf::IntoArg<{}>", p.name, p.ty.ty)));
    let line = format!("{indent}pub fn {}({}){result} {{", f.name, params.join(", "));
    if line.chars().count() <= WIDTH {
        return line;
    }
    let mut out = format!("{indent}pub fn {}(\n", f.name);
    for param in params {
        out += &format!("{indent}    {param},\n");
    }
    out + &format!("{indent}){result} {{")
}

/// Returns the type that stands for a result while it is not known.
fn future(value: &ValueModel) -> String {
    if value.value { format!("bf::Promise<{}>", value.ty) } else { value.ty.clone() }
}

pub(crate) fn generate(interface: &Interface) -> Result<Vec<(String, String)>, GenerateError> {
    let model = Model::new(interface, &Rust)?;
    let mut environment = Environment::new();
    let mut syntax = SyntaxConfig::builder();
    syntax.trim_blocks(true).lstrip_blocks(true).keep_trailing_newline(true);
    environment.set_syntax(syntax.build()?);
    environment.add_filter("signature", |f: Serde<MethodModel>, method: bool| signature(&f, method));
    environment.add_filter("send_signature", |f: Serde<MethodModel>| head(&f, true, ""));
    environment.add_template("rust", TEMPLATE)?;
    let text = environment
        .get_template("rust")?
        .render(context! { m => Serde(model), interface_file => INTERFACE_FILE })?;
    Ok(vec![("bifrost_stubs.rs".to_owned(), text), (INTERFACE_FILE.to_owned(), interface.to_json_lines())])
}
