//! The committed header is the one that is made from the sources: `BIFROST_UPDATE=1` writes it.

use std::fmt::Write;
use std::path::Path;

use bifrost_wire::Operator;
use bifrost_wire::interface::Kind;
use cbindgen::{
    Builder, Config, DocumentationStyle, EnumConfig, ExportConfig, ItemType, Language, RenameRule, Style,
};

const CRATE: &str = env!("CARGO_MANIFEST_DIR");

/// The header, from the crate's folder.
const HEADER: &str = "../../veneers/c/include/bifrost/abi.h";

/// The exported functions, one a line, from the crate's folder: the library's version script.
const SYMBOLS: &str = "../../veneers/c/bifrost.map";

/// The operators of promises, from the crate's folder.
const OPERATORS: &str = "../../veneers/c/include/bifrost/operators.h";

/// The names of types in C.
const NAMES: &[(&str, &str)] = &[
    ("Session", "bf_session"),
    ("Ref", "bf_ref"),
    ("Refs", "bf_refs"),
    ("Bytes", "bf_text"),
    ("Chars", "bf_chars"),
    ("Place", "bf_place"),
    ("Value", "bf_value"),
    ("Values", "bf_values"),
    ("Ints", "bf_ints"),
    ("Reals", "bf_reals"),
    ("CellNumbers", "bf_cell_numbers"),
    ("Family", "bf_family"),
    ("Type", "bf_type"),
    ("Types", "bf_types"),
    ("Iterator", "bf_iterator"),
    ("Basic", "bf_basic"),
    ("Builtin", "bf_builtin"),
    ("Interface", "bf_interface"),
    ("Options", "bf_options"),
    ("Status", "bf_status"),
    ("Failure", "bf_error"),
    ("Items", "bf_items"),
    ("Live", "bf_live_batch"),
    ("Counters", "bf_counts"),
    ("How", "bf_how"),
    ("Service", "bf_service"),
    ("Ran", "bf_ran"),
    ("Opened", "bf_structure"),
    ("BASIC_TYPES", "BF_BASIC_TYPES"),
    ("BUILTIN_TYPES", "BF_BUILTIN_TYPES"),
    ("OPERATORS", "BF_OPERATORS"),
    ("NO_PROCEDURE", "BF_NO_PROCEDURE"),
    ("ITERATOR_ARGUMENTS_MAX", "BF_ITERATOR_ARGUMENTS_MAX"),
];

const HEAD: &str = "\
/* Generated from crates/capi by its tests. Do not edit. */

/**
 * @file
 * The functions of libbifrost. Programs include <bifrost/bifrost.h> or <bifrost/bifrost.hpp>, which are written over
 * them.
 *
 * The promises of a program: a pointer is null where that is allowed, or points to as many items as the count beside it
 * says; what it points to lives as long as the function runs; a text without a length ends with a zero byte.
 * A session, its errors and its items are used by the thread that has opened the session, until they are freed.
 */";

fn config() -> Config {
    let rename = NAMES.iter().map(|(rust, c)| ((*rust).to_owned(), (*c).to_owned()));
    Config {
        language: Language::C,
        header: Some(HEAD.to_owned()),
        include_guard: Some("BIFROST_ABI_H".to_owned()),
        no_includes: true,
        sys_includes: ["stdbool.h", "stddef.h", "stdint.h"].map(str::to_owned).to_vec(),
        // Anonymous structs are an extension in C++ that all compilers have.
        after_includes: Some("#if defined(__GNUC__)\n#pragma GCC system_header\n#endif".to_owned()),
        cpp_compat: true,
        style: Style::Both,
        usize_is_size_t: true,
        line_length: 120,
        documentation_style: DocumentationStyle::Doxy,
        export: ExportConfig {
            rename: rename.collect(),
            include: ["Status", "Opened", "Family", "Ran"].map(str::to_owned).to_vec(),
            item_types: vec![
                ItemType::Constants,
                ItemType::Enums,
                ItemType::Structs,
                ItemType::Unions,
                ItemType::Typedefs,
                ItemType::OpaqueItems,
                ItemType::Functions,
            ],
            ..ExportConfig::default()
        },
        enumeration: EnumConfig {
            rename_variants: RenameRule::QualifiedScreamingSnakeCase,
            ..EnumConfig::default()
        },
        ..Config::default()
    }
}

fn header() -> String {
    let files = ["abi", "interface", "error", "items", "live", "service", "session"]
        .map(|name| format!("src/{name}.rs"));
    let export =
        ["call", "claim", "compound", "connect", "explain", "failure", "service", "structure", "transaction"];
    let export = export.map(|name| format!("src/export/{name}.rs"));
    let mut builder = Builder::new().with_config(config());
    for file in files.iter().chain(&export) {
        builder = builder.with_src(Path::new(CRATE).join(file));
    }
    let bindings = builder.generate().unwrap();
    let mut text = Vec::new();
    bindings.write(&mut text);
    let mut text = String::from_utf8(text).unwrap();
    // Outcomes that are no failures have no `E`.
    for (generated, name) in [("OK", "OK"), ("PENDING", "PENDING"), ("SAME", "SAME")] {
        text = text.replace(&format!("BF_STATUS_{generated}"), &format!("BF_{name}"));
    }
    text = text.replace("Items_Body ITEMS", "bf_item_list items").replace("Items_Body", "bf_item_list");
    text.replace("BF_STATUS_", "BF_E_")
}

fn check(path: &str, text: &str) {
    let path = Path::new(CRATE).join(path);
    if std::env::var_os("BIFROST_UPDATE").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == text, "{} is stale: BIFROST_UPDATE=1 cargo test -p bifrost-capi", path.display());
}

#[test]
fn the_committed_header_is_fresh() {
    check(HEADER, &header());
}

/// The kind of an operator's result and of its operands beside the first, as they are named in C.
fn operands(operator: Operator) -> (&'static str, Vec<&'static str>) {
    let name = format!("{operator:?}");
    let own = own_kind(operator);
    let starts = ["Bool", "Int", "Real", "Char", "String"];
    let verb = starts.iter().find_map(|kind| name.strip_prefix(kind)).unwrap();
    match verb {
        "Not" => ("bool", vec![]),
        "Negate" => (own, vec![]),
        "Lt" | "Le" | "Gt" | "Ge" | "Equal" => ("bool", vec![own]),
        "Add" | "Sub" | "Mul" | "Div" | "Mod" | "Concat" => (own, vec![own]),
        "ToReal" => ("real", vec![]),
        "Unparse" => ("str", vec![]),
        "Length" => ("int", vec![]),
        "To" => ("iterator", vec![own]),
        "ToBy" => ("iterator", vec![own, own]),
        other => panic!("`{other}` has no form in C"),
    }
}

fn own_kind(operator: Operator) -> &'static str {
    match operator.method().0 {
        Kind::Bool => "bool",
        Kind::Int => "int",
        Kind::Real => "real",
        Kind::Char => "char",
        Kind::String => "str",
        other => panic!("{other:?}"),
    }
}

fn operators() -> String {
    let mut text = "\
/* Generated from the table of operators by the tests of crates/capi. Do not edit. */

/**
 * @file
 * The operators of promises. Operands are promises or values; one of them is a promise.
 */

#ifndef BIFROST_OPERATORS_H
#define BIFROST_OPERATORS_H

/** The methods behind operators, for bf_operate. */
enum {
"
    .to_owned();
    let shout = |operator: Operator| {
        let mut out = String::new();
        for c in format!("{operator:?}").chars() {
            if c.is_uppercase() {
                out.push('_');
            }
            out.extend(c.to_uppercase());
        }
        out
    };
    for operator in Operator::ALL {
        writeln!(text, "  BF_OPERATOR{},", shout(*operator)).unwrap();
    }
    text += "};\n\n#ifndef __cplusplus\n";
    for operator in Operator::ALL {
        let (own, (result, others)) = (own_kind(*operator), operands(*operator));
        let method = operator.method().1;
        let name = format!("{own}_{method}");
        let names = &["x", "y", "z"][..=others.len()];
        let params: Vec<String> = names.iter().map(|name| format!("bf_{own} {name}")).collect();
        let args: Vec<String> = names[1..].iter().map(|name| format!("bf_arg_bf_{own}({name})")).collect();
        let (ty, args_count) = (
            if result == "iterator" { "bf_iter_bf_int".to_owned() } else { format!("bf_{result}") },
            args.len(),
        );
        writeln!(text, "\n/** Theta: `{method}` of `{own}`. */").unwrap();
        writeln!(text, "#define bf_{name}({0}) bf_at_{name}({0}, BF_HERE)", names.join(", ")).unwrap();
        writeln!(text, "static inline {ty} bf_at_{name}({}, bf_place place) {{", params.join(", ")).unwrap();
        if result == "iterator" {
            writeln!(text, "  bf_iter_bf_int iter;").unwrap();
            writeln!(
                text,
                "  iter.call = bf_iterate_(bf_ref_bf_int(x), BF_OPERATOR{}, {args_count}, place);",
                shout(*operator)
            )
            .unwrap();
            for (i, arg) in args.iter().enumerate() {
                writeln!(text, "  iter.call.arguments[{i}] = {arg};").unwrap();
            }
            writeln!(text, "  return iter;\n}}").unwrap();
            continue;
        }
        let list = match args.as_slice() {
            [] => "bf_no_values_()".to_owned(),
            _ => {
                writeln!(text, "  bf_value arguments[] = {{{}}};", args.join(", ")).unwrap();
                format!("bf_values_(arguments, {args_count})")
            }
        };
        writeln!(text, "  return bf_of_{ty}(").unwrap();
        writeln!(
            text,
            "      bf_operate(NULL, BF_OPERATOR{}, bf_arg_bf_{own}(x), {list}, place));\n}}",
            shout(*operator)
        )
        .unwrap();
    }
    text + "\n#endif /* __cplusplus */\n\n#endif /* BIFROST_OPERATORS_H */\n"
}

#[test]
fn the_committed_operators_are_fresh() {
    check(OPERATORS, &operators());
}

#[test]
fn the_version_script_names_all_functions() {
    let header = header();
    let words = header.split(|c: char| !c.is_alphanumeric() && c != '_');
    let mut functions: Vec<&str> =
        words.filter(|word| word.starts_with("bf_") && header.contains(&format!("{word}("))).collect();
    functions.sort_unstable();
    functions.dedup();
    assert!(functions.len() > 60, "{functions:?}");
    let list: String = functions.iter().map(|name| format!("    {name};\n")).collect();
    let text = format!(
        "/* Generated from crates/capi by its tests. Do not edit. */\nBIFROST_0 {{\n  global:\n{list}  local:\n    *;\n}};\n"
    );
    check(SYMBOLS, &text);
}
