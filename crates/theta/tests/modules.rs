//! The rules of section 4 of the definition: files, imports, modules, equates.

mod support;

use bifrost_theta::{Options, Sources, compile};

/// Compiles several files; gives what is said about them as code, text and place.
fn found(files: &[(&str, &str)]) -> Vec<(String, String, String)> {
    let mut sources = Sources::new();
    for (name, text) in files {
        sources.add(*name, *text);
    }
    let compilation = compile(&sources, &Options::default());
    if let Some(program) = &compilation.program {
        bifrost_ir::verify::verify_program(program).unwrap();
    }
    let rows = compilation.diagnostics.iter().map(|d| {
        let place = format!("{}: {}", sources.name(d.span.file), sources.slice(d.span));
        (d.code.name().to_owned(), d.message.clone(), place)
    });
    rows.collect()
}

#[track_caller]
fn check(files: &[(&str, &str)], expected: &[(&str, &str, &str)]) {
    let found = found(files);
    let found: Vec<_> = found.iter().map(|(a, b, c)| (a.as_str(), b.as_str(), c.as_str())).collect();
    assert_eq!(found, expected);
}

#[test]
fn imports_may_be_cyclic() {
    check(
        &[
            (
                "a.theta",
                "import b\nt = type u () returns (u) end t\nf (n: int) returns (int) return (g(n) + two) end f\none = two - 1\n",
            ),
            (
                "b.theta",
                "import a\nu = type t () returns (t) end u\ng (n: int) returns (int) if n = 0 then return (one) end return (f(n - 1)) end g\ntwo = 2\n",
            ),
        ],
        &[],
    );
}

#[test]
fn constants_and_types_of_several_files_are_not_defined_by_each_other() {
    check(
        &[("a.theta", "import b\none = two - 1\n"), ("b.theta", "import a\ntwo = one + 1\n")],
        &[("E0208", "`one` is defined by itself", "a.theta: one")],
    );
    check(
        &[("a.theta", "import b\nt = type < u end t\n"), ("b.theta", "import a\nu = type < t end u\n")],
        &[("E0208", "type `u` would be a supertype of itself", "b.theta: t")],
    );
}

#[test]
fn clashes_are_settled_by_other_names() {
    let one = ("lib/one.theta", "module m exports f   f () returns (int) return (1) end f end m\n");
    let two = ("lib/two.theta", "module m exports f   f () returns (int) return (2) end f end m\n");
    let taken = ("E0212", "the imported name `f` is used already", "a.theta: import lib.two");
    check(&[("a.theta", "import lib.one\nimport lib.two\n"), one, two], &[taken]);
    // Nobody imports both.
    check(&[("a.theta", "import lib.one\n"), one, two], &[]);
    let constant = |n| format!("limit = {n}\n");
    check(
        &[("a.theta", "import one\nimport two\n"), ("one.theta", &constant(1)), ("two.theta", &constant(2))],
        &[("E0212", "the imported name `limit` is used already", "a.theta: import two")],
    );
    check(
        &[
            ("a.theta", "import one\nimport two (limit as other)\nboth = limit + other\n"),
            ("one.theta", &constant(1)),
            ("two.theta", &constant(2)),
        ],
        &[],
    );
    check(
        &[
            (
                "a.theta",
                "import lib.one\nimport lib.two (f as g)\nh () returns (int) return (f() + g()) end h\n",
            ),
            one,
            two,
        ],
        &[],
    );
    // The same definition by two ways is no clash.
    check(
        &[("a.theta", "import lib.one\nimport lib.one (f)\nh () returns (int) return (f()) end h\n"), one],
        &[],
    );
}

#[test]
fn clients_know_names_of_several_files_by_their_paths() {
    let text = "point = type x () returns (int) end point
pile = type [T] top () returns (T) end pile
f (p: point) returns (pile[point]) signals (none) signal none end f
same [T] (v: T) returns (T) return (v) end same
native \"host.tick\" tick () returns (int)
setup () end setup
";
    let mut sources = Sources::new();
    sources.add("top/my prog.theta", format!("import lib.one (point as p, f as g)\n{text}own () end own\n"));
    sources
        .add("top/lib/one.theta", format!("{text}g () returns (point) signals (none) signal none end g\n"));
    sources.add("top/lib/two.theta", "native \"host.tock\" tick () returns (int)\nf = type end f\nset = 1\n");
    let options = Options { root: "top".to_owned(), ..Options::default() };
    let program = compile(&sources, &options).program.expect("no clash");
    bifrost_ir::verify::verify_program(&program).unwrap();
    let public = program.types.iter().filter(|(_, def)| def.public);
    let types: Vec<&str> = public.map(|(_, def)| &*def.name).filter(|name| name.contains('.')).collect();
    assert_eq!(
        types,
        [
            "my_prog.point",
            "lib.one.point",
            "lib.two.f",
            "my_prog.pile[my_prog.point]",
            "lib.one.pile[lib.one.point]"
        ]
    );
    let mut routines: Vec<&str> = program.routines.values().map(|routine| &*routine.name).collect();
    routines.sort_unstable();
    assert_eq!(
        routines,
        [
            "g",
            "lib.one.f",
            "lib.one.setup",
            "lib.one.tick",
            "lib.two.tick",
            "my_prog.f",
            "my_prog.tick",
            "own",
            "setup"
        ]
    );
}

#[test]
fn every_file_may_have_a_main() {
    let main = "main (args: sequence[string])\nend main\n";
    check(&[("a.theta", &format!("import b\n{main}")), ("b.theta", main)], &[]);
}

#[test]
fn private_names_stay_in_their_module() {
    check(
        &[(
            "a.theta",
            "module m exports f, nope
  limit = 3
  helper () returns (int) return (limit) end helper
  f () returns (int) return (helper()) end f
  t = type x () end t
end m
g (a: t) returns (int)
  return (f() + helper() + limit)
end g
",
        )],
        &[
            ("E0208", "module `m` does not define `nope`", "a.theta: nope"),
            ("E0208", "there is no type `t`", "a.theta: t"),
            ("E0208", "unknown name `helper`", "a.theta: helper"),
            ("E0208", "unknown name `limit`", "a.theta: limit"),
        ],
    );
}

#[test]
fn generic_definitions_are_imported() {
    check(
        &[
            (
                "a.theta",
                "import lib (stack, new_stack as fresh, ints)
f () returns (int)
  s: stack[int] := fresh[int]()
  t: ints := s
  return (t.size() + s.bad())
end f
",
            ),
            (
                "lib.theta",
                "stack = type [T] size () returns (int) end stack
ints = stack[int]
module m exports new_stack
  C = class [T] implements stack[T]   size: int end C
  new_stack [T] () returns (stack[T]) return (C[T]{size := limit}) end new_stack
  limit = 10 * 1024
end m
",
            ),
        ],
        &[("E0201", "type `stack[int]` has no method `bad`", "a.theta: bad")],
    );
}
