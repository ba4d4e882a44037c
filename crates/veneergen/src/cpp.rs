//! Stubs in C++: one header of classes, in the namespace `stubs`.
//!
//! All classes are declared first, then defined with the heads of their methods; bodies stand
//! behind all of them, since classes name each other.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, context};

use bifrost_wire::Interface;
use bifrost_wire::interface::Kind;

use crate::GenerateError;
use crate::c::{comment, literal};
use crate::clang::{Comments, layout};
use crate::model::{MethodModel, Model, ValueModel};
use crate::naming::{Naming, clear, pascal, snake};

static TEMPLATE: &str = include_str!("../templates/cpp.jinja");

/// The words that cannot be names.
static KEYWORDS: &[&str] = &[
    "alignas",
    "alignof",
    "and",
    "and_eq",
    "asm",
    "auto",
    "bitand",
    "bitor",
    "bool",
    "break",
    "case",
    "catch",
    "char",
    "char16_t",
    "char32_t",
    "char8_t",
    "class",
    "co_await",
    "co_return",
    "co_yield",
    "compl",
    "concept",
    "const",
    "const_cast",
    "consteval",
    "constexpr",
    "constinit",
    "continue",
    "decltype",
    "default",
    "delete",
    "do",
    "double",
    "dynamic_cast",
    "else",
    "enum",
    "explicit",
    "export",
    "extern",
    "false",
    "float",
    "for",
    "friend",
    "goto",
    "if",
    "inline",
    "int",
    "long",
    "mutable",
    "namespace",
    "new",
    "noexcept",
    "not",
    "not_eq",
    "nullptr",
    "operator",
    "or",
    "or_eq",
    "private",
    "protected",
    "public",
    "register",
    "reinterpret_cast",
    "requires",
    "return",
    "short",
    "signed",
    "sizeof",
    "static",
    "static_assert",
    "static_cast",
    "struct",
    "switch",
    "template",
    "this",
    "thread_local",
    "throw",
    "true",
    "try",
    "typedef",
    "typeid",
    "typename",
    "union",
    "unsigned",
    "using",
    "virtual",
    "void",
    "volatile",
    "wchar_t",
    "while",
    "xor",
    "xor_eq",
];

/// Names that all stubs have, names of the header, and macros of common headers.
static TAKEN: &[&str] = &[
    "stub",
    "resolve",
    "is_same",
    "as",
    "is",
    "at",
    "connect",
    "import_service",
    "interface",
    "service",
    "signals",
    "errno",
    "stdin",
    "stdout",
    "stderr",
    "bf_type_",
    "_",
];

/// Names of types that the header uses without a namespace.
static TAKEN_TYPES: &[&str] = &["Plain", "IsObject", "EOF", "NULL", "FILE", "DIR"];

pub(crate) struct Cpp;

impl Naming for Cpp {
    fn lower(&self, name: &str) -> String {
        clear(snake(name), &[KEYWORDS, TAKEN])
    }

    fn upper(&self, words: &[&str]) -> String {
        clear(pascal(words, char::is_ascii_alphanumeric), &[TAKEN_TYPES])
    }

    fn value(&self, kind: Kind) -> &'static str {
        match kind {
            Kind::Bool => "bool",
            Kind::Int => "std::int64_t",
            Kind::Real => "double",
            Kind::Char => "char32_t",
            Kind::String => "std::string",
            Kind::Bytes => "bf::Bytes",
            _ => "bf::Nil",
        }
    }

    fn builtin(&self, name: &str) -> String {
        format!("bf::{}", self.upper(&[name]))
    }

    fn cell(&self, element: &str) -> String {
        format!("bf::Cell<{element}>")
    }

    fn list(&self, element: &str) -> String {
        format!("std::vector<{element}>")
    }

    fn optional(&self, some: &str) -> String {
        format!("std::optional<{some}>")
    }

    fn pairs(&self, key: &str, value: &str) -> String {
        format!("std::vector<std::pair<{key}, {value}>>")
    }
}

/// Returns the type that stands for a result while it is not known.
fn future(value: &ValueModel) -> String {
    if value.value { format!("bf::Promise<{}>", value.ty) } else { value.ty.clone() }
}

/// Returns the type of a call.
fn result(f: &MethodModel) -> String {
    if f.iterator {
        let types: Vec<&str> = f.results.iter().map(|result| result.ty.as_str()).collect();
        return format!("bf::Iter<{}>", types.join(", "));
    }
    match f.results.as_slice() {
        [] => "bf::Promise<bf::Nil>".to_owned(),
        [one] => future(one),
        many => format!("std::tuple<{}>", many.iter().map(future).collect::<Vec<_>>().join(", ")),
    }
}

/// Returns the type of a part as it is named outside the namespace of the stubs.
fn qualified(value: &ValueModel) -> String {
    let is_own = !value.value && value.kind != Kind::Cell && !value.ty.starts_with("bf::");
    match value.ty.strip_prefix("bf::Cell<").and_then(|rest| rest.strip_suffix('>')) {
        Some(element) if element.starts_with(|c: char| c.is_ascii_uppercase()) => {
            format!("bf::Cell<stubs::{element}>")
        }
        _ if is_own => format!("stubs::{}", value.ty),
        _ => value.ty.clone(),
    }
}

pub(crate) fn generate(interface: &Interface) -> Result<Vec<(String, String)>, GenerateError> {
    let model = Model::new(interface, &Cpp)?;
    let mut environment = Environment::new();
    let mut syntax = SyntaxConfig::builder();
    syntax.trim_blocks(true).lstrip_blocks(true).keep_trailing_newline(true);
    environment.set_syntax(syntax.build()?);
    environment.add_filter("comment", |line: String| comment(&line));
    environment.add_filter("result", |f: Serde<MethodModel>| result(&f));
    environment.add_filter("qualified", |value: Serde<ValueModel>| qualified(&value));
    environment.add_template("cpp", TEMPLATE)?;
    let lines: Vec<String> = interface.to_json_lines().lines().map(literal).collect();
    let text = environment.get_template("cpp")?.render(context! { m => Serde(&model), lines })?;
    Ok(vec![("bifrost_stubs.hpp".to_owned(), layout(&text, Comments::Line))])
}
