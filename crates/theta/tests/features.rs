//! What the checker makes of whole programs: documentation, imports, JSON, the shape of messages.

mod support;

use bifrost_theta::{Colour, Options, Sources, compile, imports, load, render_all, to_json};
use support::{check, compile_text, read_all};

/// Compiles several files; the first of each pair is the name.
fn compile_files(files: &[(&str, &str)]) -> (Sources, bifrost_theta::Compilation) {
    let mut sources = Sources::new();
    for (name, text) in files {
        sources.add(*name, *text);
    }
    let compilation = compile(&sources, &Options::default());
    (sources, compilation)
}

/// Each text of the folder with what is said about it.
#[test]
fn mistakes() {
    for (name, text) in read_all("mistakes") {
        let mut sources = Sources::new();
        sources.add(name.clone(), text.clone());
        if text.contains("actor persistent") {
            sources.add("std/persistent.theta", include_str!("../../native/theta/std/persistent.theta"));
            sources.add("std/trees.theta", include_str!("../../native/theta/std/trees.theta"));
        }
        let compilation = compile(&sources, &Options::default());
        assert!(compilation.program.is_none(), "{name} compiles");
        let rendered = render_all(&sources, &compilation.diagnostics, Colour::Plain);
        let rendered: Vec<&str> = rendered.lines().map(str::trim_end).collect();
        insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
            insta::assert_snapshot!(name.trim_end_matches(".theta"), format!("{text}----\n{}", rendered.join("\n")));
        });
    }
}

#[test]
fn a_comment_after_a_heading_documents_it() {
    let database = support::programs().into_iter().find(|(name, _)| name == "database.theta").unwrap().1;
    let (_, compilation) = compile_text(&database);
    let program = compilation.program.unwrap();
    let data_base = program.types.find("DataBase").unwrap();
    let docs: Vec<(&str, &str)> =
        program.types.def(data_base).methods.values().map(|m| (m.name.as_str(), m.doc.as_str())).collect();
    assert_eq!(
        docs,
        [
            ("fetch", "The record of user; not_found if there is none."),
            ("new_user", "A new record; not_possible if user has one already."),
            ("users", "All records."),
            ("loop_fetch", ""),
        ]
    );
    assert!(program.routines[program.find_routine("new_database").unwrap()].public);
}

#[test]
fn a_comment_above_an_item_documents_it() {
    let (_, compilation) = compile_text(
        "% A thing.\n% Of any kind.\nthing = type\nend thing\n\n% A size.\nsize = record[a: int]\n\n% Makes none.\nf () end f\n",
    );
    let program = compilation.program.unwrap();
    assert_eq!(program.types.def(program.types.find("thing").unwrap()).doc, "A thing.\nOf any kind.");
    assert_eq!(program.types.def(program.types.find("record[a: int]").unwrap()).doc, "A size.");
    assert_eq!(program.routines[program.find_routine("f").unwrap()].doc, "Makes none.");
}

const SHAPES: &str = "shape = type area () returns (real) end shape
module shapes exports form, new_square
  Square = class implements shape
    side: real
    area () returns (real) return (side * side) end area
  end Square
  form = shape
  new_square (side: real) returns (shape) return (Square{side := side}) end new_square
  secret () end secret
end shapes
";

#[test]
fn imports_bring_public_names() {
    let main = "import lib.shapes (shape, new_square as build)
import other
main (args: sequence[string])
  s: shape := build(2.0)
  print(s.area().unparse() || help(s))
end main
";
    let other = "import lib.shapes\nhelp (s: shape) returns (string) return (s.area().unparse()) end help\n";
    let files = [("main.theta", main), ("lib/shapes.theta", SHAPES), ("other.theta", other)];
    let (sources, compilation) = compile_files(&files);
    assert!(
        compilation.program.is_some(),
        "{}",
        render_all(&sources, &compilation.diagnostics, Colour::Plain)
    );
    let read = |name: &str| files.iter().find(|(n, _)| *n == name).map(|(_, text)| (*text).to_owned());
    let loaded = load("main.theta", &Options::default(), read).unwrap();
    assert_eq!(loaded.ids().count(), 3);
    let main = loaded.find("main.theta").unwrap();
    assert_eq!(imports(&loaded, main, &Options::default()), ["lib/shapes.theta", "other.theta"]);
}

#[test]
fn mistakes_in_imports() {
    let main = "import shapes (secret)\nimport nowhere\nimport shapes\nnew_square () end new_square\n";
    let (sources, compilation) = compile_files(&[("shapes.theta", SHAPES), ("main.theta", main)]);
    let found: Vec<(&str, &str, &str)> = compilation
        .diagnostics
        .iter()
        .map(|d| (d.code.name(), d.message.as_str(), sources.slice(d.span)))
        .collect();
    assert_eq!(
        found,
        [
            ("E0208", "`shapes.theta` has no public name `secret`", "secret"),
            ("E0208", "there is no file for `nowhere`", "nowhere"),
            ("E0212", "the imported name `new_square` is used already", "import shapes"),
        ]
    );
}

#[test]
fn classes_are_closed_outside_their_module() {
    check(
        &format!("{SHAPES}f (s: Square) end f\n"),
        &[("E0208", "there is no type `Square`", "Square", "define the type, or import its file")],
    );
}

#[test]
fn json_has_one_object_a_line() {
    let (sources, compilation) =
        compile_text("f () returns (int)\n  return (\"é\")\nend f\ng () returns (string) return (1) end g\n");
    let lines: Vec<String> = compilation.diagnostics.iter().map(|d| to_json(&sources, d)).collect();
    assert_eq!(
        lines,
        [
            concat!(
                r#"{"code":"E0202","severity":"error","message":"expected `int`, found `string`","file":"test.theta","#,
                r#""line":2,"column":11,"end_line":2,"end_column":14,"#,
                r#""help":"`string` has `to_int () signals (bad_format, overflow)`"}"#
            ),
            concat!(
                r#"{"code":"E0202","severity":"error","message":"expected `string`, found `int`","file":"test.theta","#,
                r#""line":4,"column":31,"end_line":4,"end_column":32,"help":"`int` has `unparse ()`"}"#
            ),
        ]
    );
}

#[test]
fn several_mistakes_are_found_in_one_run() {
    let text = "lamp = type on ()   off () end lamp
f (a: lamp) returns (int)
  b: int := \"x\"
  c := 1
  return (a.foo())
end f
";
    check(
        text,
        &[
            (
                "E0202",
                "expected `int`, found `string`",
                "\"x\"",
                "`string` has `to_int () signals (bad_format, overflow)`",
            ),
            ("E0208", "unknown name `c`", "c", ""),
            ("E0201", "type `lamp` has no method `foo`", "foo", "`lamp` has `on`, `off`"),
        ],
    );
}

#[test]
fn a_supertype_may_be_named_by_an_equate() {
    check(
        "s = type < alias y () returns (int) end s\nalias = t\nt = type x () returns (int) end t\nf (a: s) returns (int) return (a.x() + a.y()) end f\n",
        &[],
    );
}
