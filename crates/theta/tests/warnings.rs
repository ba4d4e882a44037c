//! The warnings: class W of the diagnostics.

use bifrost_theta::{Options, Severity, Sources, compile};

/// The warnings about `files` as code, text under the span and message.
fn warnings(files: &[(&str, &str)]) -> Vec<(String, String, String)> {
    let mut sources = Sources::new();
    for (name, text) in files {
        sources.add(*name, *text);
    }
    let compilation = compile(&sources, &Options { warnings: true, ..Options::default() });
    assert!(compilation.program.is_some(), "{:?}", compilation.diagnostics);
    assert!(compilation.diagnostics.iter().all(|d| d.severity == Severity::Warning));
    let row = |d: &bifrost_theta::Diagnostic| {
        (d.code.name().to_owned(), sources.slice(d.span).to_owned(), d.message.clone())
    };
    let found: Vec<_> = compilation.diagnostics.iter().map(row).collect();
    let quiet = compile(&sources, &Options::default());
    assert!(quiet.diagnostics.is_empty(), "warnings are given to those that ask for them");
    found
}

/// The codes and places of the warnings about one text.
#[track_caller]
fn check(text: &str, expected: &[(&str, &str)]) {
    let found = warnings(&[("test.theta", text)]);
    let found: Vec<_> = found.iter().map(|(code, place, _)| (code.as_str(), place.as_str())).collect();
    assert_eq!(found, expected, "{text}");
}

#[test]
fn a_variable_is_used_where_it_is_read() {
    check(
        "f () returns (int)\n  a: int := 1\n  b: int := 2\n  c, d: int\n  b := 3\n  c := a\n  return (c)\nend f\n",
        &[("W0001", "b"), ("W0001", "d")],
    );
}

#[test]
fn names_with_an_underscore_and_loop_variables_are_never_unused() {
    check("f (_a: int)\n  _b: int := 1\n  for i: int in 1.to(3) do print(\"x\") end\nend f\n", &[]);
}

#[test]
fn results_that_a_call_gives_besides_are_no_unused_variables() {
    let two = "two () returns (int, int) return (1, 2) end two\n";
    check(&format!("{two}f () returns (int)\n  a, b: int := two()\n  return (a)\nend f\n"), &[]);
    check(&format!("{two}f () returns (int)\n  a, b: int\n  a, b := two()\n  return (a)\nend f\n"), &[]);
}

#[test]
fn parameters_that_a_type_asks_for_are_never_unused() {
    let text = "t = type m (a: int) end t\n\
                C = class implements t\n  m (a: int) end m\n  own (b: int) end own\nend C\n\
                f () returns (t) return (C{}) end f\nmigrate_C (old: int, x: real) end migrate_C\n";
    check(text, &[("W0002", "b")]);
}

#[test]
fn parameters_of_actors_and_creators_are_read() {
    let text = "A = actor\n  n: int\n  new (a: int, b: int) make {n := a} end new\n  m (c: int) n := n + 1 end m\nend A\n";
    check(text, &[("W0002", "b"), ("W0002", "c")]);
}

#[test]
fn values_of_exceptions_can_be_ignored_in_another_way() {
    let g = "g () signals (bad (int, int)) end g\n";
    check(
        &format!("{g}f () g() except when bad (a, b: int): print(\"bad\") end end f\n"),
        &[("W0001", "a"), ("W0001", "b")],
    );
    check(&format!("{g}f () g() except when bad (a, b: int): print(a.unparse()) end end f\n"), &[]);
    check(&format!("{g}f () g() except when bad (*): print(\"bad\") end end f\n"), &[]);
    check(&format!("{g}f () g() except others (n: string): print(\"bad\") end end f\n"), &[("W0001", "n")]);
}

#[test]
fn what_no_path_leads_to_is_told_once() {
    check(
        "f () returns (int)\n  return (1)\n  print(\"a\")\n  print(\"b\")\nend f\n",
        &[("W0004", "print(\"a\")")],
    );
    check("f (n: int)\n  while true do if n > 1 then break end end\n  print(\"a\")\nend f\n", &[]);
    check("f ()\n  while true do print(\"a\") end\n  print(\"b\")\nend f\n", &[("W0004", "print(\"b\")")]);
    check(
        "f (n: int) signals (no)\n  if n = 1 then return else signal no end\n  print(\"b\")\nend f\n",
        &[("W0004", "print(\"b\")")],
    );
    check("f (n: int)\n  if n = 1 then return end\n  print(\"b\")\nend f\n", &[]);
}

#[test]
fn a_handler_goes_on_where_its_statement_does_not() {
    let g = "g () returns (int) signals (bad) return (1) end g\n";
    let f = "f () returns (int)\n  return (g()) except when bad: print(\"bad\") end\n  return (2)\nend f\n";
    check(&format!("{g}{f}"), &[]);
}

#[test]
fn imports_are_used_by_name() {
    let lib = ("lib.theta", "t = type m () end t\nf () end f\ng () end g\n");
    let found = warnings(&[("a.theta", "import lib (t, f as h, g)\nmain () h() end main\n"), lib]);
    let found: Vec<_> = found.iter().map(|(code, place, _)| (code.as_str(), place.as_str())).collect();
    assert_eq!(found, [("W0003", "t"), ("W0003", "g")]);
    let found = warnings(&[("a.theta", "import lib\nmain () end main\n"), lib]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].1, "import lib");
    assert!(warnings(&[("a.theta", "import lib\nf2 (x: t) x.m() end f2\n"), lib]).is_empty());
}

#[test]
fn generic_code_is_warned_of_once() {
    let text = "id [T] (v: T) returns (T)\n  unused: int := 1\n  return (v)\nend id\n\
                f () returns (int) return (id[int](1)) end f\ng () returns (string) return (id[string](\"\")) end g\n";
    check(text, &[("W0001", "unused")]);
}

/// A program of registers and of desks that tell or ask one of them, with `body` in `main`.
fn desks(body: &str) -> String {
    format!(
        "R = actor\n  n: int\n  new () make {{n := 0}} end new\n  note () n := n + 1 end note\n  \
         count () returns (int) reply (n) end count\nend R\n\
         Q = actor\n  count () returns (int) reply (1) end count\nend Q\n\
         F = functional actor\n  count () returns (int) reply (1) end count\nend F\n\
         D = actor\n  r: R\n  new (to: R) make {{r := to}} end new\n  step () send r.note() end step\n  \
         all () returns (int) self.step() reply (1) end all\n  \
         asks () returns (int) reply (r.count()) end asks\n  \
         fresh () returns (int)\n    own: R := R.new()\n    send own.note()\n    reply (1)\n  end fresh\n  \
         quiet () returns (int) send self.step() reply (1) end quiet\n  \
         same (f: F) returns (int) reply (f.count()) end same\n  \
         none () returns (int) reply (1) end none\nend D\n\
         E = actor\n  d: D\n  r: R\n  new (a: D, b: R) make {{d := a, r := b}} end new\n  \
         far () returns (int) reply (d.all()) end far\n  \
         both () returns (int) reply (d.all() + r.count()) end both\n  \
         twice () returns (int) reply (d.all() + d.all()) end twice\nend E\n\
         main ()\n  r: R := R.new()\n  q: Q := Q.new()\n  d: D := D.new(r)\n  e: E := E.new(d, r)\n  \
         print(q.count().unparse() || e.twice().unparse())\n  {body}\nend main\n"
    )
}

/// Compares the warnings about the desks, without that in the text of `E`.
#[track_caller]
fn check_desks(body: &str, expected: &[&str]) {
    let found = warnings(&[("test.theta", &desks(body))]);
    let found: Vec<_> = found.iter().map(|(code, place, _)| format!("{code} {place}")).collect();
    assert_eq!(found.first().map(String::as_str), Some("W0005 r"), "{body}");
    assert_eq!(found[1..], *expected, "{body}");
}

#[test]
fn a_request_overlaps_with_messages_of_an_earlier_one() {
    check_desks("s: int := d.all()\n  n: int := r.count()\n  print((s + n).unparse())", &["W0005 r"]);
    check_desks("print((d.all() + r.count()).unparse())", &["W0005 r"]);
    // What it asks for counts, and so do messages of those that it asks.
    check_desks("print((d.asks() + r.count()).unparse())", &["W0005 r"]);
    check_desks("print((e.far() + r.count()).unparse())", &["W0005 r"]);
    // The request is older than a branch, and is missing behind it.
    let branch = "s: int := d.all()\n  if s = 1 then print(\"a\") end\n  print((s + r.count()).unparse())";
    check_desks(branch, &[]);
    let branch = "s: int := d.all()\n  if 1 = 2 then print(s.unparse()) end\n  n: int := r.count()\n  print((s + n).unparse())";
    check_desks(branch, &["W0005 r"]);
}

#[test]
fn requests_in_order_and_of_other_actors_do_not_overlap() {
    // The reply is used before, or the request waits.
    check_desks("s: int := d.all()\n  print(s.unparse())\n  print(r.count().unparse())", &[]);
    check_desks("d.all()\n  n: int := r.count()\n  print(n.unparse())", &[]);
    // Nothing reaches the type, or only an actor that was just made, or the asked actor itself.
    check_desks("print((d.none() + r.count()).unparse())", &[]);
    check_desks("print((d.all() + q.count()).unparse())", &[]);
    check_desks("print((d.fresh() + r.count()).unparse())", &[]);
    check_desks("f: D := D.new(r)\n  print((d.quiet() + f.none()).unparse())", &[]);
    // A functional actor has no state.
    check_desks("f: F := F.new()\n  print((d.same(f) + f.count()).unparse())", &[]);
    // The second actor is made after the first request.
    check_desks("s: int := d.all()\n  o: R := R.new()\n  print((s + o.count()).unparse())", &[]);
    // Messages to one actor keep their order.
    check_desks("s: int := d.all()\n  n: int := d.none()\n  print((s + n).unparse())", &[]);
    check_desks("o: D := d\n  s: int := d.all()\n  n: int := o.all()\n  print((s + n).unparse())", &[]);
}
