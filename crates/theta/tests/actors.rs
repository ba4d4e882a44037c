//! Actors (section 10 of the definition): what is asked at once, where is waited, and what must not be written.

mod support;

use bifrost_ir::Program;
use bifrost_ir::requests::{Region, regions};
use bifrost_theta::{Colour, Sources, render_all};
use support::{check, compile_text, programs};

/// Compiles without a word.
#[track_caller]
fn good(text: &str) -> (Sources, Program) {
    let (sources, compilation) = compile_text(text);
    let rendered = render_all(&sources, &compilation.diagnostics, Colour::Plain);
    (sources, compilation.program.unwrap_or_else(|| panic!("{rendered}")))
}

/// The regions of one function, with what they say of the text: `requests -> line: awaited | live`.
#[track_caller]
fn told(text: &str, name: &str) -> Vec<String> {
    let (sources, program) = good(text);
    let func = program.funcs.values().find(|func| func.name == name).expect("the function");
    let file = sources.ids().next().expect("the text");
    let line = |site: bifrost_ir::Site| sources.line(file, site.0);
    // Those of the text.
    let names = |vars: &[bifrost_ir::Var]| {
        let mut names: Vec<&str> = vars.iter().map(|var| &*func.vars[*var].name).collect();
        names.retain(|name| !name.is_empty());
        names.sort();
        names.join(" ")
    };
    let one = |region: &Region| {
        let requests: Vec<String> = region.requests.iter().map(|site| line(*site).to_string()).collect();
        let count = region.replies.map_or("?".to_owned(), |count| count.to_string());
        let joins: Vec<String> = region
            .joins
            .iter()
            .map(|join| format!("{}: {} | {}", line(join.site), names(&join.awaited), names(&join.live)))
            .collect();
        format!("{} ({count}) -> {}", requests.join(","), joins.join("; "))
    };
    regions(func).iter().map(one).collect()
}

fn program(name: &str) -> String {
    programs().into_iter().find(|(file, _)| file == name).expect("a program").1
}

const SUPPLY: &str = "R = actor
  take (n: int) returns (int) signals (empty) reply (n) end take
  note (n: int) end note
end R
";

/// A method of an actor around statements; its first line is the seventh.
fn script(body: &str) -> String {
    format!("{SUPPLY}A = actor\n  m (r: R, s: R) returns (int)\n{body}\n  end m\nend A\n")
}

#[test]
fn both_requests_of_an_expression_are_one_region() {
    assert_eq!(told(&program("fib_queens.theta"), "Fib.comp"), ["4,4 (2) -> 4:  | "]);
}

#[test]
fn the_requests_of_a_loop_are_one_region() {
    // 002 figure 1: as many replies as requests were sent, awaited where the sum needs them.
    assert_eq!(told(&program("fib_queens.theta"), "NQueen.comp"), ["18,20 (?) -> 24: replies | sols"]);
}

#[test]
fn requests_of_main_overlap() {
    assert_eq!(told(&program("fib_queens.theta"), "main"), ["34,35 (2) -> 36: f | q; 36: q | "]);
}

#[test]
fn halves_overlap() {
    assert_eq!(told(&program("quadrature.theta"), "Worker.area"), ["16,17 (2) -> 18: left right | "]);
    assert_eq!(told(&program("quadrature.theta"), "Master.integrate"), ["29 (?) -> 32: parts | total"]);
}

#[test]
fn a_request_that_needs_another_waits_for_it() {
    let text = script("    x: int := r.take(1)\n    y: int := s.take(x)\n    reply (y)");
    assert_eq!(told(&text, "A.m"), ["7 (1) -> 8: x | s", "8 (1) -> 9: y | "]);
}

#[test]
fn neighbours_are_one_region_with_what_stands_between() {
    let text =
        script("    x: int := r.take(1)\n    n: int := 2\n    y: int := s.take(n)\n    reply (x + y + n)");
    assert_eq!(told(&text, "A.m"), ["7,9 (2) -> 10: x y | n"]);
}

#[test]
fn a_branch_may_ask_or_not() {
    let body = "    x: int := 0\n    if r.take(1) > 0 then x := s.take(2) end\n    reply (x)";
    assert_eq!(told(&script(body), "A.m"), ["8 (1) -> 8:  | s x", "8 (?) -> 9: x | "]);
}

#[test]
fn a_loop_whose_steps_need_each_other_waits_in_each() {
    let body = "    x: int := 0\n    for i: int in 1.to(9) do x := r.take(x) end\n    reply (x)";
    assert_eq!(told(&script(body), "A.m"), ["8 (1) -> 8: x | r; 9: x | "]);
    let body = "    x: int := 0\n    while x < 9 do x := r.take(1) end\n    reply (x)";
    // Who leaves such a loop has compared the last reply.
    assert_eq!(told(&script(body), "A.m"), ["8 (1) -> 8: x | r"]);
}

#[test]
fn loops_in_loops_take_no_longer_than_they_are_deep() {
    let (begin, end) = ("while x < 9 do ".repeat(40), " end".repeat(40));
    let body = format!("    x: int := 0\n    {begin}x := r.take(x){end}\n    reply (x)");
    let found = told(&script(&body), "A.m");
    // Each condition waits, so that nothing is missing when the outermost is left.
    assert_eq!((found.len(), found[0].matches("8: x |").count()), (1, 40), "{found:?}");
}

#[test]
fn a_statement_with_handlers_waits_before_it_is_left() {
    let body =
        "    x: int := r.take(1) except when empty: x := 5 end\n    y: int := s.take(2)\n    reply (y)";
    let body = body.replacen("x: int := r", "x: int\n    x := r", 1);
    assert_eq!(told(&script(&body), "A.m"), ["8 (1) -> 8: x | s", "9 (1) -> 10: y | "]);
}

#[test]
fn a_request_without_a_result_is_awaited_as_a_statement() {
    let text = script("    r.note(1)\n    s.note(2)\n    send r.note(3)\n    reply (1)");
    assert_eq!(told(&text, "A.m"), ["7 (1) -> 7:  | r s", "8 (1) -> 8:  | r"]);
}

#[test]
fn what_others_know_waits_in_place() {
    // Others could see an array whose replies are missing.
    let body = "    a: array[int] := array_fill[int](1, 3, 0)\n    b: array[int] := a\n    a[1] := r.take(1)\n    reply (b[1])";
    let (_, program) = good(&script(body));
    let func = program.funcs.values().find(|func| func.name == "A.m").expect("the function");
    let text = bifrost_ir::text::print_func(&program, func);
    assert!(text.contains("await") && !text.contains("a[1] := request"), "{text}");
    let body = body.replace("    b: array[int] := a\n", "").replace("b[1]", "a[1]");
    let (_, program) = good(&script(&body));
    let func = program.funcs.values().find(|func| func.name == "A.m").expect("the function");
    let text = bifrost_ir::text::print_func(&program, func);
    assert!(text.contains("a[1] := request"), "{text}");
}

#[test]
fn programs_come_back_from_their_text() {
    for name in ["fib_queens.theta", "quadrature.theta"] {
        let (_, program) = good(&self::program(name));
        let text = bifrost_ir::text::print_program(&program);
        let again = bifrost_ir::text::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!(bifrost_ir::text::print_program(&again.program), text);
        bifrost_ir::verify::verify_program(&again.program).expect("what was read is well formed");
    }
}

#[test]
fn selection_and_constraints() {
    let text = "B = actor
  items: array[int]   room: int
  new (capacity: int) make {items := array_new[int](), room := capacity} end new
  disable put when items.length() = room
  disable take (n) when items.length() < n
  put (v: int) items.append(v) end put
  take (n: int) returns (int)
    if n = 0 then
      wait when take (m: int) if m > n: reply (m)
           when put (v: int): items.append(v)
           after 100: reply (0) return
      end
    end
    reply (items.remove_low())
  end take
end B
";
    let (_, program) = good(text);
    let class = program.classes.values().find(|class| class.name == "B").expect("the actor");
    let actor = class.actor.as_ref().expect("an actor");
    assert_eq!((actor.creators.len(), actor.guards.len(), actor.functional), (1, 2, false));
    let printed = bifrost_ir::text::print_program(&program);
    let again = bifrost_ir::text::parse(&printed).unwrap_or_else(|error| panic!("{error}\n{printed}"));
    let other = bifrost_ir::text::print_program(&again.program);
    let differs = other.lines().zip(printed.lines()).find(|(a, b)| a != b);
    assert_eq!((differs, other.len()), (None, printed.len()));
}

#[test]
fn e0401_what_is_private_is_not_sent() {
    let text = "B = actor
  put (v: array[int]) end put
  get () returns (array[int]) reply (array_new[int]()) end get
end B
A = actor
  m (b: B, arr: array[int]) send b.put(arr) send b.put(clone arr) end m
end A
";
    check(
        text,
        &[
            (
                "E0401",
                "`array[int]` is mutable and private to this actor",
                "array_new[int]()",
                "write `clone array_new[int]()`",
            ),
            (
                "E0401",
                "`array[int]` is mutable and private to this actor",
                "arr",
                "write `clone arr`, or let `put` take `sequence[int]`",
            ),
        ],
    );
}

#[test]
fn e0402_return_of_a_value() {
    check(
        &script("    reply (1)\n    return (2)"),
        &[(
            "E0402",
            "an actor method answers with `reply`",
            "return (2)",
            "write `reply (v)`, then `return` if it should end here",
        )],
    );
}

#[test]
fn e0403_a_path_without_an_answer() {
    let text = "A = actor\n  get (n: int) returns (int)\n    if n > 1 then reply (n) end\n  end get\nend A\n";
    check(
        text,
        &[(
            "E0403",
            "`get` can end without replying",
            "end get",
            "add `reply`, `signal` or `delegate` on this path",
        )],
    );
    good(
        "A = actor\n  get (n: int) returns (int) signals (low)\n    if n > 1 then reply (n) else signal low end\n  end get\nend A\n",
    );
    good(
        &script("    delegate r.take(1)")
            .replace("m (r: R, s: R) returns (int)", "m (r: R, s: R) returns (int) signals (empty)"),
    );
}

#[test]
fn e0404_passive_code_does_not_wait() {
    let text = format!(
        "{SUPPLY}sum_all (r: R) returns (int)\n  send r.note(1)\n  return (r.take(2))\nend sum_all\n"
    );
    check(
        &text,
        &[(
            "E0404",
            "`sum_all` is passive code and cannot wait for an actor",
            "r.take(2)",
            "use `send`, or make this an actor method",
        )],
    );
}

#[test]
fn e0405_functional_actors_stay_as_they_are() {
    let text = "Fib = functional actor\n  n: int\n  new () make {n := 1} end new\n  set (v: int) n := v end set\nend Fib\n";
    check(
        text,
        &[(
            "E0405",
            "`Fib` is functional; `n` may be set only by `new`",
            "n",
            "drop `functional`, or pass the value as an argument",
        )],
    );
}

#[test]
fn e0406_no_wait_under_an_iterator_of_the_program() {
    let text =
        script("    t: int := 0\n    for i: int in some_of(3) do t := t + r.take(i) end\n    reply (t)");
    let text = format!("some_of (n: int) yields (int)\n  yield (n)\nend some_of\n{text}");
    let (sources, compilation) = compile_text(&text);
    let codes: Vec<&str> = compilation.diagnostics.iter().map(|d| d.code.name()).collect();
    assert_eq!(codes, ["E0406"], "{}", render_all(&sources, &compilation.diagnostics, Colour::Plain));
    // It may ask, as long as nobody waits.
    good(&text.replace("t := t + r.take(i)", "send r.note(i)"));
}

#[test]
fn e0407_one_answer() {
    for body in [
        "    reply (1)\n    reply (2)",
        "    if r = r then end\n    reply (1)\n    delegate s.take(1)",
        "    while true do reply (1) end",
        "    reply (1)\n    signal failure(\"x\")",
    ] {
        let text = script(body).replace("    if r = r then end\n", "");
        let (sources, compilation) = compile_text(&text);
        let codes: Vec<&str> = compilation.diagnostics.iter().map(|d| d.code.name()).collect();
        assert!(
            codes.contains(&"E0407"),
            "{body}\n{}",
            render_all(&sources, &compilation.diagnostics, Colour::Plain)
        );
    }
    good(&script("    if 1 < 2 then reply (1) else reply (2) end"));
    good(&script("    while true do\n      if 1 < 2 then reply (1) return end\n    end"));
}

#[test]
fn e0408_conditions_have_no_effects() {
    let text = "A = actor\n  other: A\n  new (a: A) make {other := a} end new\n  disable m when other.get() > 1\n  m () end m\n  get () returns (int) reply (1) end get\nend A\n";
    check(
        text,
        &[(
            "E0408",
            "a request in a condition, which may have no effects",
            "other.get()",
            "compute it before, and compare with a variable",
        )],
    );
}

#[test]
fn actors_and_objects_are_two_things() {
    let text = "T = type m () end T\nS = actor type m () end S\nA = actor implements T m () end m end A\nC = class implements S m () end m end C\nU = type < S end U\n";
    let (sources, compilation) = compile_text(text);
    let codes: Vec<&str> = compilation.diagnostics.iter().map(|d| d.code.name()).collect();
    let rendered = render_all(&sources, &compilation.diagnostics, Colour::Plain);
    assert_eq!(codes, ["E0208", "E0208", "E0208"], "{rendered}");
    let text = "A = actor m () end m end A\nf () returns (A)\n  return (A{})\nend f\n";
    check(text, &[("E0208", "`A` is an actor, which is made by `new`", "A", "write `A.new(…)`")]);
}
