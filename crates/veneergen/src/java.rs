//! Stubs in Java: one file with a class, in which the classes of types and exceptions are nested.
//!
//! Lines are broken as google-java-format breaks them. [`layout::Code`] is an expression or a head
//! that can be broken; [`layout::javadoc`] breaks comments. The types of generated code are in
//! `members`.

use bifrost_wire::Interface;
use bifrost_wire::interface::Kind;

use crate::GenerateError;
use crate::model::{MethodModel, Model, ParamModel, ValueModel};
use crate::naming::{Naming, camel, clear, pascal};

mod layout;
mod members;

/// The words that cannot be names of methods and parameters.
static KEYWORDS: &[&str] = &[
    "_",
    "abstract",
    "assert",
    "boolean",
    "break",
    "byte",
    "case",
    "catch",
    "char",
    "class",
    "const",
    "continue",
    "default",
    "do",
    "double",
    "else",
    "enum",
    "extends",
    "false",
    "final",
    "finally",
    "float",
    "for",
    "goto",
    "if",
    "implements",
    "import",
    "instanceof",
    "int",
    "interface",
    "long",
    "native",
    "new",
    "null",
    "package",
    "private",
    "protected",
    "public",
    "return",
    "short",
    "static",
    "strictfp",
    "super",
    "switch",
    "synchronized",
    "this",
    "throw",
    "throws",
    "transient",
    "true",
    "try",
    "void",
    "volatile",
    "while",
    "yield",
];

/// Names that a method or routine would hide: those of every stub, of objects, and of the class.
static TAKEN: &[&str] = &[
    "as",
    "await",
    "call",
    "clone",
    "connect",
    "equals",
    "finalize",
    "getClass",
    "hashCode",
    "is",
    "isSame",
    "iter",
    "notify",
    "notifyAll",
    "options",
    "release",
    "send",
    "session",
    "toFuture",
    "toString",
    "wait",
];

/// Names of types that generated code uses, or that would hide one of the language.
static TAKEN_TYPES: &[&str] = &[
    "Any",
    "Bool",
    "Boolean",
    "Byte",
    "Bytes",
    "Cell",
    "Char",
    "Character",
    "CheckedSignalException",
    "Class",
    "Comparable",
    "Contents",
    "ContentsType",
    "Described",
    "Directory",
    "Done",
    "Double",
    "Entry",
    "Enum",
    "Error",
    "Exception",
    "Failure",
    "Float",
    "Int",
    "Integer",
    "Iter",
    "Iterable",
    "List",
    "Long",
    "Map",
    "Math",
    "Module",
    "Nil",
    "Number",
    "Obj",
    "Object",
    "Optional",
    "Options",
    "Override",
    "Package",
    "Part",
    "Process",
    "Promise",
    "Real",
    "Record",
    "Results",
    "Rows",
    "Runnable",
    "Runtime",
    "Session",
    "Short",
    "SignalException",
    "SignalType",
    "Str",
    "String",
    "Stub",
    "Stubs",
    "System",
    "Tag",
    "Thread",
    "Throwable",
    "Type",
    "Value",
    "Void",
];

/// The class of generated code where nobody has named another one.
pub(crate) const CLASS: &str = "bifrost.BifrostStubs";

/// The spelling of Java, in a class.
struct Java<'c> {
    /// The name of the class, without its package.
    class: &'c str,
}

impl Naming for Java<'_> {
    fn lower(&self, name: &str) -> String {
        clear(camel(name), &[KEYWORDS, TAKEN])
    }

    fn upper(&self, words: &[&str]) -> String {
        clear(pascal(words, |c| c.is_alphanumeric()), &[TAKEN_TYPES, &[self.class]])
    }

    fn value(&self, kind: Kind) -> &'static str {
        match kind {
            Kind::Bool => "Bool",
            Kind::Int => "Int",
            Kind::Real => "Real",
            Kind::Char => "Char",
            Kind::String => "Str",
            Kind::Bytes => "Bytes",
            _ => "Nil",
        }
    }

    fn builtin(&self, name: &str) -> String {
        match name {
            "any" => "Any".to_owned(),
            "directory" => "Directory".to_owned(),
            name => pascal(&[name], |c| c.is_alphanumeric()),
        }
    }

    fn cell(&self, element: &str) -> String {
        format!("Cell<{element}>")
    }

    fn list(&self, element: &str) -> String {
        format!("List<{}>", boxed(element))
    }

    fn optional(&self, some: &str) -> String {
        format!("Optional<{}>", boxed(some))
    }

    fn pairs(&self, key: &str, value: &str) -> String {
        match is_key(key) {
            true => format!("Map<{}, {}>", boxed(key), boxed(value)),
            false => format!("List<Map.Entry<{}, {}>>", boxed(key), boxed(value)),
        }
    }
}

/// True for the stub of a value that is equal to itself in a map of Java.
fn is_key(stub: &str) -> bool {
    ["Bool", "Int", "Char", "Str"].contains(&stub)
}

/// Returns the type of a value as an object of Java, for the stub of a value; else the type itself.
fn boxed(ty: &str) -> &str {
    match ty {
        "Bool" => "Boolean",
        "Int" => "Long",
        "Real" => "Double",
        "Char" => "Integer",
        "Str" => "String",
        "Bytes" => "byte[]",
        "Nil" => "Void",
        ty => ty,
    }
}

/// Returns the type of a value of Java, for the stub of a value; else the type itself.
fn host(ty: &str) -> &str {
    match ty {
        "Bool" => "boolean",
        "Int" => "long",
        "Real" => "double",
        "Char" => "int",
        ty => boxed(ty),
    }
}

/// Returns the expression for a type: its constant.
fn constant(ty: &str) -> String {
    match ty.strip_prefix("Cell<").and_then(|rest| rest.strip_suffix('>')) {
        Some(element) => format!("Cell.type({})", constant(element)),
        None => format!("{ty}.TYPE"),
    }
}

/// A way to give an argument.
#[derive(Clone)]
struct Argument {
    /// Its type and name.
    head: String,
    /// The call that adds it to what is recorded.
    add: String,
    /// It as an argument of an iterator.
    plain: String,
}

/// Returns the ways to give an argument: as a value of Java, and as a stub.
fn arguments(param: &ParamModel) -> Vec<Argument> {
    let (name, ty) = (&param.name, &param.ty);
    let stub = |class: &str| Argument {
        head: format!("{class} {name}"),
        add: format!("add({name})"),
        plain: name.clone(),
    };
    match ty.kind {
        Kind::Bool | Kind::Int | Kind::Real | Kind::String | Kind::Bytes => {
            vec![stub(host(&ty.ty)), stub(&ty.ty)]
        }
        Kind::Char => {
            let value = Argument {
                head: format!("int {name}"),
                add: format!("addChar({name})"),
                plain: format!("Value.ofChar({name})"),
            };
            vec![value, stub(&ty.ty)]
        }
        Kind::Any => vec![stub("Stub")],
        kind if kind.is_compound() => {
            let value = Argument {
                head: format!("{} {name}", ty.plain),
                add: format!("add({}, {name})", constant(&ty.ty)),
                plain: format!("{}.operand({name})", constant(&ty.ty)),
            };
            vec![value, stub(&ty.ty)]
        }
        _ => vec![stub(&ty.ty)],
    }
}

/// The most arguments that each can be given as a value or as a stub: one more doubles the methods.
const MIXED_MAX: usize = 2;

/// Returns the ways to give all arguments of a method.
fn overloads(f: &MethodModel) -> Vec<Vec<Argument>> {
    let each: Vec<Vec<Argument>> = f.params.iter().map(arguments).collect();
    if each.iter().filter(|ways| ways.len() > 1).count() > MIXED_MAX {
        let all = |at: usize| each.iter().map(|ways| ways[at.min(ways.len() - 1)].clone()).collect();
        return vec![all(0), all(1)];
    }
    each.iter().fold(vec![Vec::new()], |before, ways| {
        before
            .iter()
            .flat_map(|done| ways.iter().map(move |way| [&done[..], std::slice::from_ref(way)].concat()))
            .collect()
    })
}

/// Returns the type of a call's results.
fn results(f: &MethodModel) -> String {
    let types: Vec<&str> = f.results.iter().map(|result: &ValueModel| result.ty.as_str()).collect();
    let joined = types.join(", ");
    match (f.iterator, types.len()) {
        (true, 1) => format!("Iter<{joined}>"),
        (true, 2) => format!("Iter.Two<{joined}>"),
        (true, _) => format!("Iter.Three<{joined}>"),
        (false, 0) => "Done".to_owned(),
        (false, 1) => joined,
        (false, 2) => format!("Results.Two<{joined}>"),
        (false, 3) => format!("Results.Three<{joined}>"),
        (false, _) => "List<Stub>".to_owned(),
    }
}

/// The most values that an iterator with a method yields; the least is 1.
const YIELDS_MAX: usize = 3;

/// True if a method can be called from Java.
fn has_method(f: &MethodModel) -> bool {
    !f.iterator || (1..=YIELDS_MAX).contains(&f.results.len())
}

/// Returns the call that ends what is recorded, with the types of its results.
fn end(f: &MethodModel) -> String {
    let types: Vec<String> = f.results.iter().map(|result| constant(&result.ty)).collect();
    match types.len() {
        0 => "done()".to_owned(),
        1..=3 => format!("to({})", types.join(", ")),
        _ => format!("toAll(List.of({}))", types.join(", ")),
    }
}

/// Returns the package and the simple name of a class.
fn split(class: &str) -> (&str, &str) {
    class.rsplit_once('.').unwrap_or(("", class))
}

/// True if a text is the full name of a class.
pub(crate) fn is_class(class: &str) -> bool {
    let is_name = |name: &str| {
        let mut chars = name.chars();
        chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
            && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
            && !KEYWORDS.contains(&name)
    };
    let (package, simple) = split(class);
    class.split('.').all(is_name) && !package.is_empty() && !TAKEN_TYPES.contains(&simple)
}

/// The classes of exceptions in Java.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Exceptions {
    /// Below `SignalException`: any claim may throw them.
    #[default]
    Unchecked,
    /// Below `CheckedSignalException`: a claim that names them throws them, and its caller declares
    /// or catches them.
    Checked,
}

pub(crate) fn generate(
    interface: &Interface,
    class: &str,
    exceptions: Exceptions,
) -> Result<Vec<(String, String)>, GenerateError> {
    if !is_class(class) {
        return Err(GenerateError::NoClass(class.to_owned()));
    }
    let (package, simple) = split(class);
    let model = Model::new(interface, &Java { class: simple })?;
    let text = members::file(&model, interface, (package, simple), exceptions);
    Ok(vec![(format!("{}.java", class.replace('.', "/")), text)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_classes_have_a_package() {
        assert!(is_class("org.example.Database") && is_class("a.B_1"));
        for none in ["", "A", ".A", "a.", "a..B", "a.class.B", "a.1", "a.b-c", "a.Int", "a.\u{e4}"] {
            assert!(!is_class(none), "{none}");
        }
    }

    #[test]
    fn names_are_in_mixed_case() {
        for (theta, java) in [("new_user", "newUser"), ("_x", "x"), ("X", "x"), ("a.b", "ab"), ("1", "_1")] {
            assert_eq!(camel(theta), java);
        }
    }

    #[test]
    fn cells_have_an_expression() {
        assert_eq!(constant("Cell<Cell<Int>>"), "Cell.type(Cell.type(Int.TYPE))");
    }
}
