//! Stubs in TypeScript: one module, and the interface in a module beside it that is loaded only for
//! a server with another interface.
//!
//! Lines are broken as prettier breaks them.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, context};

use bifrost_wire::Interface;
use bifrost_wire::interface::Kind;

use crate::model::{
    ContentsModel, ExceptionModel, MethodModel, Model, ParamModel, PartModel, SignalModel, TypeModel,
    ValueModel,
};
use crate::naming::{Naming, camel, clear, pascal, promise};
use crate::{GenerateError, Ints};

static TEMPLATE: &str = include_str!("../templates/typescript.jinja");

/// The words that cannot be names of functions and parameters.
static KEYWORDS: &[&str] = &[
    "arguments",
    "await",
    "break",
    "case",
    "catch",
    "class",
    "const",
    "continue",
    "debugger",
    "default",
    "delete",
    "do",
    "else",
    "enum",
    "eval",
    "export",
    "extends",
    "false",
    "finally",
    "for",
    "function",
    "if",
    "implements",
    "import",
    "in",
    "instanceof",
    "interface",
    "let",
    "new",
    "null",
    "package",
    "private",
    "protected",
    "public",
    "return",
    "static",
    "super",
    "switch",
    "this",
    "throw",
    "true",
    "try",
    "typeof",
    "var",
    "void",
    "while",
    "with",
    "yield",
];

/// Names that a method or routine would hide: those of every stub, and of the module.
static TAKEN: &[&str] = &[
    "as",
    "bf",
    "connect",
    "constructor",
    "is",
    "isSame",
    "release",
    "resolve",
    "session",
    "then",
    "toJSON",
    "toString",
    "valueOf",
];

/// Names of types that generated code uses itself.
static TAKEN_TYPES: &[&str] = &["INTERFACE", "Uint8Array"];

/// The files of stubs and of the interface.
const STUBS_FILE: &str = "bifrost_stubs.ts";
const INTERFACE_FILE: &str = "bifrost_stubs_interface.ts";

/// The longest line of prettier, in characters, where nobody has set another one.
const WIDTH: usize = 80;

struct TypeScript;

impl Naming for TypeScript {
    fn lower(&self, name: &str) -> String {
        clear(camel(name), &[KEYWORDS, TAKEN])
    }

    fn upper(&self, words: &[&str]) -> String {
        clear(pascal(words, |c| c.is_alphanumeric()), &[TAKEN_TYPES])
    }

    fn value(&self, kind: Kind) -> &'static str {
        promise(kind)
    }

    fn builtin(&self, name: &str) -> String {
        format!("bf.{}", self.upper(&[name]))
    }

    fn cell(&self, element: &str) -> String {
        format!("bf.Cell<{element}>")
    }

    fn list(&self, element: &str) -> String {
        match element.contains(" | ") || element.starts_with("readonly ") {
            true => format!("readonly ({element})[]"),
            false => format!("readonly {element}[]"),
        }
    }

    fn optional(&self, some: &str) -> String {
        format!("{some} | undefined")
    }

    fn pairs(&self, key: &str, value: &str) -> String {
        format!("readonly (readonly [{key}, {value}])[]")
    }
}

/// Returns a type in contents: with the host's values in place of promises.
fn plain(ty: &str, ints: Ints) -> String {
    let values = [
        ("bf.Bool", "boolean"),
        ("bf.Int", ints.name()),
        ("bf.Real", "number"),
        ("bf.Char", "string"),
        ("bf.Str", "string"),
        ("bf.Bytes", "Uint8Array"),
        ("bf.Nil", "null"),
    ];
    // Cells stay stubs, whose types are those of promises.
    let mut out = String::new();
    let mut rest = ty;
    while let Some(at) = rest.find("bf.Cell<") {
        let depth_end = |text: &str| {
            let mut depth = 0_i32;
            text.char_indices().find_map(|(index, c)| {
                depth += i32::from(c == '<') - i32::from(c == '>');
                (c == '>' && depth == 0).then_some(index + 1)
            })
        };
        let end = at + depth_end(&rest[at..]).unwrap_or(rest.len() - at);
        out += &replaced(&rest[..at], &values);
        out += &rest[at..end];
        rest = &rest[end..];
    }
    out + &replaced(rest, &values)
}

fn replaced(text: &str, values: &[(&str, &str)]) -> String {
    values.iter().fold(text.to_owned(), |text, (promise, value)| text.replace(promise, value))
}

/// Returns the expression for a type: its class.
fn class(ty: &str) -> String {
    ty.replace("bf.Cell<", "bf.cellOf(").replace('>', ")")
}

/// Returns the type of an argument.
fn argument(value: &ValueModel) -> String {
    match value.kind {
        Kind::Null | Kind::Bool | Kind::Int | Kind::Real | Kind::Char | Kind::String | Kind::Bytes => {
            format!("{}Arg", value.ty)
        }
        Kind::Any | Kind::Sequence | Kind::Struct | Kind::Oneof | Kind::Maybe => {
            format!("bf.Arg<{}>", value.ty)
        }
        _ => value.ty.clone(),
    }
}

/// Returns a list within brackets on one line, or with a line for each entry if it is too long.
/// `before` and `behind` are the rest of its line, `indent` is that of the line.
fn listed(before: &str, open: &str, entries: &[String], close: &str, behind: &str, indent: usize) -> String {
    let line = format!("{}{before}{open}{}{close}{behind}", " ".repeat(indent), entries.join(", "));
    if line.chars().count() <= WIDTH || entries.is_empty() {
        return line;
    }
    let pad = " ".repeat(indent);
    let inner: String = entries.iter().map(|entry| format!("{pad}  {entry},\n")).collect();
    format!("{pad}{before}{open}\n{inner}{pad}{close}{behind}")
}

/// Returns the type of a call's results.
fn results(f: &MethodModel) -> String {
    let types: Vec<&str> = f.results.iter().map(|result| result.ty.as_str()).collect();
    match (f.iterator, types.as_slice()) {
        (true, many) => format!("bf.Iter<[{}]>", many.join(", ")),
        (false, []) => "bf.Done".to_owned(),
        (false, [one]) => (*one).to_owned(),
        (false, many) => format!("[{}]", many.join(", ")),
    }
}

fn parameters(params: &[ParamModel]) -> Vec<String> {
    params.iter().map(|param| format!("{}: {}", param.name, argument(&param.ty))).collect()
}

/// Returns the head of a method.
fn method_head(f: &MethodModel) -> String {
    listed(&f.name, "(", &parameters(&f.params), ")", &format!(": {} {{", results(f)), 2)
}

/// Returns the head of a method of a sender.
fn sender_head(f: &MethodModel) -> String {
    listed(&f.name, "(", &parameters(&f.params), ")", ": void {", 2)
}

/// Returns the head of a routine.
fn routine_head(f: &MethodModel) -> String {
    let mut params = vec!["session: bf.Session".to_owned()];
    params.extend(parameters(&f.params));
    listed(&format!("export function {}", f.name), "(", &params, ")", &format!(": {} {{", results(f)), 0)
}

/// Returns the pairs of types and arguments of a call.
fn pairs(f: &MethodModel) -> Vec<String> {
    f.params.iter().flat_map(|param| [class(&param.ty.ty), param.name.clone()]).collect()
}

/// Returns the statement that records a call. `one`, `many` and `iter` are the functions for a
/// result, several, and an iterator; `first` are their first arguments.
fn body(f: &MethodModel, [one, many, iter]: [&str; 3], first: &[String], indent: usize) -> String {
    let mut arguments = first.to_vec();
    let types: Vec<String> = f.results.iter().map(|result| class(&result.ty)).collect();
    let list = format!("[{}]", types.join(", "));
    let function = match (f.iterator, types.as_slice()) {
        (true, _) => {
            arguments.push(list);
            iter
        }
        (false, []) => {
            arguments.push("bf.Done".to_owned());
            one
        }
        (false, [single]) => {
            arguments.push(single.clone());
            one
        }
        (false, _) => {
            arguments.push(list);
            many
        }
    };
    arguments.extend(pairs(f));
    listed(&format!("return {function}"), "(", &arguments, ")", ";", indent)
}

fn method_body(f: &MethodModel) -> String {
    body(f, ["this.$call", "this.$calls", "this.$iter"], &[f.number.to_string()], 4)
}

fn routine_body(f: &MethodModel) -> String {
    let first = ["session".to_owned(), "INTERFACE".to_owned(), f.number.to_string()];
    body(f, ["bf.callOf", "bf.callsOf", "bf.iterOf"], &first, 2)
}

fn sender_body(f: &MethodModel) -> String {
    let mut arguments = vec![f.number.to_string()];
    arguments.extend(pairs(f));
    listed("this.stub.$send", "(", &arguments, ")", ";", 4)
}

/// Returns a key of an object.
fn key(name: &str) -> String {
    let mut chars = name.chars();
    let is_name = chars.next().is_some_and(|c| c.is_alphabetic() || c == '_')
        && chars.all(|c| c.is_alphanumeric() || c == '_');
    if is_name { name.to_owned() } else { quoted(name) }
}

/// Returns a text as a string.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Returns the tags of a oneof as alternatives.
fn alternatives(contents: &ContentsModel, ints: Ints) -> String {
    let alternative = |part: &PartModel| match part.nil {
        true => format!("{{ readonly tag: {} }}", quoted(&part.theta)),
        false => {
            format!(
                "{{ readonly tag: {}; readonly value: {} }}",
                quoted(&part.theta),
                plain(&part.plain, ints)
            )
        }
    };
    let all: Vec<String> = contents.parts.iter().map(alternative).collect();
    let line = format!("export type {} = {};", contents.ty, all.join(" | "));
    if line.chars().count() <= WIDTH {
        return line;
    }
    let lines: String = all.iter().map(|one| format!("\n  | {one}")).collect();
    format!("export type {} ={lines};", contents.ty)
}

/// Returns the form of contents.
fn shape(contents: &ContentsModel) -> String {
    let part = |at: usize| contents.parts.get(at).map_or_else(|| "bf.Nil".to_owned(), |part| class(&part.ty));
    let field = |part: &PartModel| {
        let name = if contents.kind == Kind::Oneof { key(&part.theta) } else { part.name.clone() };
        format!("{name}: {}", class(&part.ty))
    };
    let (kind, of) = match contents.kind {
        Kind::Map => ("pairs", format!("[{}, {}]", part(0), part(1))),
        Kind::Maybe => ("maybe", part(1)),
        Kind::Record | Kind::Struct | Kind::Oneof => {
            let fields: Vec<String> = contents.parts.iter().map(field).collect();
            let kind = if contents.kind == Kind::Oneof { "choice" } else { "fields" };
            // An object is broken as it stands, so it is always broken.
            let lines: String = fields.iter().map(|field| format!("      {field},\n")).collect();
            return format!(
                "  static override readonly shape: bf.Shape = {{\n    kind: \"{kind}\",\n    of: () => ({{\n{lines}    }}),\n  }};"
            );
        }
        _ => ("elements", part(0)),
    };
    format!(
        "  static override readonly shape: bf.Shape = {{\n    kind: \"{kind}\",\n    of: () => {of},\n  }};"
    )
}

/// Returns the head of a class.
fn class_head(t: &TypeModel, ints: Ints) -> String {
    let name = &t.name;
    let Some(contents) = &t.contents else { return format!("export class {name} extends bf.Remote {{") };
    let whole = plain(&contents.ty, ints);
    let (base, types) = match contents.by_value {
        true => ("bf.Copied", vec![format!("{name} | bf.Input<{whole}>"), whole]),
        false => ("bf.Contents", vec![whole]),
    };
    listed(&format!("export class {name} extends {base}"), "<", &types, ">", " {", 0)
        .replace(",\n> {", "\n> {")
}

/// Returns the name of a type.
fn theta(name: &str) -> String {
    let (before, name) = ("  static override readonly theta =", format!("{};", quoted(name)));
    match before.len() + 1 + name.chars().count() <= WIDTH {
        true => format!("{before} {name}"),
        false => format!("{before}\n    {name}"),
    }
}

/// Returns the numbers of a type and of its cells.
fn numbers(t: &TypeModel) -> String {
    let cell = &t.cell;
    let cells = format!("[{}, {}, {}, {}]", cell.ty, cell.put, cell.full, cell.get);
    listed(
        "static override readonly numbers: bf.Numbers =",
        " [",
        &[t.number.to_string(), cells],
        "]",
        ";",
        2,
    )
}

/// Returns the names of a type and of all above it, by which TypeScript tells the types apart.
fn brand(t: &TypeModel) -> String {
    let above = t.supertypes.iter().filter(|name| !name.starts_with("bf."));
    let names: Vec<String> =
        std::iter::once(&t.name).chain(above).map(|name| format!("{name}: true")).collect();
    let line = format!("  declare readonly $is: {{ {} }};", names.join("; "));
    if line.chars().count() <= WIDTH {
        return line;
    }
    let lines: String = names.iter().map(|name| format!("    {name};\n")).collect();
    format!("  declare readonly $is: {{\n{lines}  }};")
}

/// Returns the static parts of an exception's class: the types of its values, which handlers take,
/// those of all its headings if there are several, and the type of its values.
fn exception(exception: &ExceptionModel, signals: &[SignalModel], ints: Ints) -> Vec<String> {
    let headings: Vec<&SignalModel> = exception.signals.iter().filter_map(|at| signals.get(*at)).collect();
    let with_values: Vec<&&SignalModel> = headings.iter().filter(|one| !one.values.is_empty()).collect();
    let classes = |signal: &SignalModel| -> Vec<String> {
        signal.values.iter().map(|value| class(&value.ty)).collect()
    };
    let handled = match (headings.as_slice(), with_values.as_slice()) {
        ([one], _) => classes(one),
        (_, [one]) => classes(one),
        _ => Vec::new(),
    };
    let mut lines = vec![function("types", &handled)];
    if headings.len() > 1 {
        let lists: Vec<String> =
            headings.iter().map(|one| format!("[{}]", classes(one).join(", "))).collect();
        lines.push(function("headings", &lists));
    }
    let tuple = |signal: &&SignalModel| -> String {
        let plains: Vec<String> = signal.values.iter().map(|value| plain(&value.plain, ints)).collect();
        format!("readonly [{}]", plains.join(", "))
    };
    let tuples: Vec<String> = headings.iter().map(tuple).collect();
    let line = format!("  declare readonly values: {};", tuples.join(" | "));
    lines.push(match (line.chars().count() <= WIDTH, headings.as_slice()) {
        (true, _) => line,
        (false, [one]) => {
            let plains: Vec<String> = one.values.iter().map(|value| plain(&value.plain, ints)).collect();
            listed("declare readonly values:", " readonly [", &plains, "]", ";", 2)
        }
        (false, _) => {
            let lines: String = tuples.iter().map(|one| format!("\n    | {one}")).collect();
            format!("  declare readonly values:{lines};")
        }
    });
    lines
}

/// Returns a static function that returns a list.
fn function(name: &str, entries: &[String]) -> String {
    let before = format!("static readonly {name} = () =>");
    let line = listed(&before, " [", entries, "]", " as const;", 2);
    // A function's body that is too long stands on lines of its own.
    match line.contains('\n') {
        true => format!("  {before}\n{}", listed("", "[", entries, "]", " as const;", 4)),
        false => line,
    }
}

/// Returns a comment's lines with what would end it replaced.
fn comment(line: &str) -> String {
    line.replace("*/", "* /")
}

pub(crate) fn generate(interface: &Interface, ints: Ints) -> Result<Vec<(String, String)>, GenerateError> {
    let model = Model::new(interface, &TypeScript)?;
    let mut environment = Environment::new();
    let mut syntax = SyntaxConfig::builder();
    syntax.trim_blocks(true).lstrip_blocks(true).keep_trailing_newline(true);
    environment.set_syntax(syntax.build()?);
    environment.add_filter("method_head", |f: Serde<MethodModel>| method_head(&f));
    environment.add_filter("method_body", |f: Serde<MethodModel>| method_body(&f));
    environment.add_filter("sender_head", |f: Serde<MethodModel>| sender_head(&f));
    environment.add_filter("sender_body", |f: Serde<MethodModel>| sender_body(&f));
    environment.add_filter("routine_head", |f: Serde<MethodModel>| routine_head(&f));
    environment.add_filter("routine_body", |f: Serde<MethodModel>| routine_body(&f));
    environment.add_filter("shape", |c: Serde<ContentsModel>| shape(&c));
    environment.add_filter("alternatives", move |c: Serde<ContentsModel>| alternatives(&c, ints));
    environment.add_filter("class_head", move |t: Serde<TypeModel>| class_head(&t, ints));
    environment.add_filter("numbers", |t: Serde<TypeModel>| numbers(&t));
    environment.add_filter("theta", |name: String| theta(&name));
    environment.add_filter("brand", |t: Serde<TypeModel>| brand(&t));
    environment.add_filter("exception", move |e: Serde<ExceptionModel>, signals: Serde<Vec<SignalModel>>| {
        exception(&e, &signals, ints)
    });
    environment.add_filter("plain", move |ty: String| plain(&ty, ints));
    environment.add_filter("quoted", |text: String| quoted(&text));
    environment.add_filter("comment", |line: String| comment(&line));
    environment.add_template("typescript", TEMPLATE)?;
    let digest: String = model.digest.iter().map(|byte| format!("{byte:02x}")).collect();
    let types: Vec<String> = interface
        .types
        .iter()
        .map(|ty| {
            let names = std::iter::once(ty.name.as_str()).chain(ty.methods.iter().map(|m| m.name.as_str()));
            names.collect::<Vec<_>>().join("|")
        })
        .collect();
    let routines: Vec<String> = interface.routines.iter().map(|routine| routine.name.clone()).collect();
    let beside = INTERFACE_FILE.replace(".ts", ".js");
    let package = match ints {
        Ints::Bigint => "bifrost-veneer",
        Ints::Number => "bifrost-veneer/numbers",
    };
    let text = environment
        .get_template("typescript")?
        .render(context! { m => Serde(model), digest, types, routines, beside, package })?;
    Ok(vec![(STUBS_FILE.to_owned(), text), (INTERFACE_FILE.to_owned(), interface_module(interface))])
}

/// Returns the module of the interface, a line of JSON for each type, method and routine.
fn interface_module(interface: &Interface) -> String {
    let json = interface.to_json_lines().replace('\\', "\\\\").replace('`', "\\`").replace("${", "\\${");
    format!(
        "// Generated by `bifrost veneer` from a server's interface; do not edit.\n\n\
         /** The interface that the stubs were made from, for servers with another one. */\n\
         export const json = `{json}`;\n"
    )
}
