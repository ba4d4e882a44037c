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
    // At its end, and where the handler assigns the variable.
    assert_eq!(told(&script(&body), "A.m"), ["8 (1) -> 8: x | s; 8: x | s", "9 (1) -> 10: y | "]);
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
    for name in ["fib_queens.theta", "quadrature.theta", "buffer.theta"] {
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
            "write `reply (v)`, then `return` to end the method here",
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
            "a request in a condition: conditions have no effects",
            "other.get()",
            "compute the value before, and compare with a variable",
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

/// The text form of one function of a program, which reads back and says the same; without declarations and places.
#[track_caller]
fn lowered(text: &str, name: &str) -> String {
    let (_, program) = good(text);
    let printed = bifrost_ir::text::print_program(&program);
    let again = bifrost_ir::text::parse(&printed).unwrap_or_else(|error| panic!("{error}\n{printed}"));
    bifrost_ir::verify::verify_program(&again.program).expect("what was read is well formed");
    assert_eq!(bifrost_ir::text::print_program(&again.program), printed);
    let func = program.funcs.values().find(|func| func.name == name).expect("the function");
    let text = bifrost_ir::text::print_func(&program, func);
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("var "));
    let without_sites = lines.map(|line| line.split(" @").next().unwrap_or_default());
    without_sites.collect::<Vec<_>>().join("\n")
}

/// The codes of the mistakes in a text.
fn codes(text: &str) -> Vec<&'static str> {
    let (_, compilation) = compile_text(text);
    compilation.diagnostics.iter().map(|d| d.code.name()).collect()
}

#[test]
fn groups_are_made_member_by_member() {
    let text = "A = actor\n  n: int\n  new (m: int) make {n := m} end new\nend A
f (n: int) returns (group[A])\n  return (A.new(n * 2) times n)\nend f\n";
    let expected = "routine f (n: int) returns (group[A])
  %1 := int.mul(n, 2)
  %2 := \"group.count\"(n)
  %3 := nodes()
  %4 := array_new[A]()
  %5 := 0
  %6 := 0
  while
    %7 := int.lt(%5, %2)
  test %7 do
    except
      %8 := int.mod(%5, %3)
      %6 := %8
      %9 := int.add(%5, 1)
      %5 := %9
    when overflow, zero:
      break
    end
    %10 := create A.0(%1) on %6
    array[A].append(%4, %10)
  end
  %11 := array[A].to_sequence(%4)
  %12 := group_of[A](%11)
  return (%12)
end";
    assert_eq!(lowered(text, "f"), expected);
}

#[test]
fn members_are_sent_to_in_their_order() {
    let text = "R = actor\n  take (n: int, a: array[int]) returns (int) reply (n) end take\nend R
f (g: group[R], n: int, a: array[int])\n  send g.take(n + 1, clone a)\nend f\n";
    // Each gets an array of its own.
    let expected = "routine f (g: group[R], n: int, a: array[int])
  %3 := int.add(n, 1)
  %4 := clone[array[int]](a)
  for %5 in group[R].members(g) do
    %6 := clone[array[int]](%4)
    send R.take(%5, %3, %6)
  end
  return
end";
    assert_eq!(lowered(text, "f"), expected);
}

#[test]
fn groups_have_members() {
    good(
        &script(
            "    g: group[R] := group_of(sequence_of(.. r, s))
    h: group[R] := R.new() times g.size() + node() + nodes()
    a: array[group[R]] := array_new[group[R]]()
    a.append(h)
    n: int := 0
    for one: R in a[1].members() do n := n + one.take(1) end
    reply (n + (g.member(2)).take(1))",
        )
        .replace("times g.size() + node() + nodes()", "times (g.size() + node() + nodes())"),
    );
    let text = "f (g: group[int]) end f\n";
    check(
        text,
        &[(
            "E0206",
            "`int` is not an actor type, which `group` requires of `A`",
            "int",
            "use \
            `sequence[int]`",
        )],
    );
    // A parameter is looked at in each instantiation.
    let text = "f [T] (g: group[T]) returns (int) return (g.size()) end f\n";
    good(&format!("{SUPPLY}{text}h (g: group[R]) returns (int) return (f(g)) end h\n"));
    let text =
        "f [T] (v: T) returns (int) a: array[group[T]] := array_new[group[T]]() return (a.length()) end f
h () returns (int) return (f(1)) end h\n";
    assert_eq!(codes(text)[0], "E0206");
}

#[test]
fn a_group_does_not_answer() {
    let text = "    g: group[R] := R.new() times 3\n    reply (g.take(1))";
    check(
        &script(text),
        &[(
            "E0201",
            "a group does not answer requests, so `group[R]` has no `take`",
            "take",
            "`send g.take(…)` reaches all members; send a request to each: `for a: R in g.members() do … \
                end`",
        )],
    );
    let text = "    g: group[R] := R.new() times 3\n    delegate g.take(1)";
    let text = script(text).replace("s: R) returns (int)", "s: R) returns (int) signals (empty)");
    check(
        &text,
        &[(
            "E0202",
            "a group does not answer, so nothing can be delegated to it",
            "g.take(1)",
            "delegate to one of its members: `delegate g.member(i).m(…)`",
        )],
    );
}

#[test]
fn who_has_the_place_of_the_answer_gives_it() {
    let text = "A = actor
  waiting: maybe[replier[int]]
  new () make {waiting := none[replier[int]]()} end new
  get () returns (int) waiting := some(replyto) end get
  put (v: int) returns (int)
    if waiting.is_none() then reply (0) return end
    d: replier[int] := waiting.value() except when wrong_tag: reply (1) return end
    d.deliver(v)
    delegate self.get()
  end put
end A
B = actor
  hand (b: B) send b.later(replyto) end hand
  later (d: replier[null]) d.deliver(nil) end later
end B
";
    let found = lowered(text, "A.get");
    assert!(found.contains("%1 := replyto"), "{found}");
    assert!(lowered(text, "A.put").contains("deliver d (v)"));
    assert!(lowered(text, "B.later").lines().any(|line| line.trim() == "deliver d"));
    // Passive code delivers what it was given.
    good("f (d: replier[string]) d.deliver(\"done\") end f\n");
}

#[test]
fn answers_are_delivered_as_messages_are_sent() {
    let text = "f (d: replier[array[int]], a: array[int]) d.deliver(a) d.deliver(clone a) end f\n";
    check(
        text,
        &[(
            "E0401",
            "`array[int]` is mutable and private to this actor",
            "a",
            "write `clone a`, or let `deliver` take `sequence[int]`",
        )],
    );
    let wrong = [
        ("d.deliver(\"a\")", "E0202"),
        ("d.deliver()", "E0203"),
        ("p: proc (int) := d.deliver", "E0202"),
        ("p: proc () := bind(d.deliver, 1)", "E0202"),
        ("send d.deliver(1)", "E0202"),
        ("n: int := d.deliver(1)", "E0210"),
        ("d.answer(1)", "E0201"),
    ];
    for (body, code) in wrong {
        assert_eq!(codes(&format!("f (d: replier[int]) {body} end f\n")), [code], "{body}");
    }
}

#[test]
fn the_place_of_the_answer_is_taken_once_and_in_methods() {
    let method = |body: &str| format!("A = actor\n  get () returns (int)\n    {body}\n  end get\nend A\n");
    assert_eq!(codes(&method("d: replier[int] := replyto\n    reply (1)")), ["E0407"]);
    assert_eq!(codes(&method("while true do d: replier[int] := replyto end")), ["E0407"]);
    assert_eq!(codes(&method("if 1 > 2 then d: replier[int] := replyto end")), ["E0403"]);
    assert_eq!(codes("main () d: replier[null] := replyto end main\n"), ["E0404"]);
    assert_eq!(codes("A = actor disable m when same_object(replyto, 1) m () end m end A\n"), ["E0408"]);
}

#[test]
fn groups_and_places_of_answers_are_sent() {
    let text =
        "B = actor\n  take (g: group[B], d: replier[array[int]], m: maybe[replier[int]]) end take\nend B
f (b: B, g: group[B], d: replier[array[int]]) send b.take(g, d, none[replier[int]]()) end f\n";
    good(text);
}

/// What each text is refused for; nothing if it is accepted.
#[track_caller]
fn told_of(rows: &[(&str, &[&str])]) {
    for (text, expected) in rows {
        let (sources, compilation) = compile_text(text);
        let found: Vec<&str> = compilation.diagnostics.iter().map(|d| d.code.name()).collect();
        let rendered = render_all(&sources, &compilation.diagnostics, Colour::Plain);
        assert_eq!(found, *expected, "{text}\n{rendered}");
    }
}

#[test]
fn definitions() {
    told_of(&[
        // An actor is an actor type with all its methods, and below those that it implements.
        (
            "T = actor type m (n: int) returns (int) end T
A = actor implements T m (n: int) returns (int) reply (n) end m k () end k end A
f () returns (T) a: A := A.new() send a.k() return (a) end f",
            &[],
        ),
        ("T = actor type m () end T\nA = actor implements T k () end k end A", &["E0204"]),
        ("B = actor end B\nA = actor inherits B end A", &["E0109"]),
        ("A = actor m () returns (int, int) signal failure(\"\") end m end A", &["E0411"]),
        ("T = actor type m () yields (int) k () returns (int, int) end T", &["E0411", "E0411"]),
        ("A = actor m [T] (v: int) end m end A", &["E0109"]),
        // Its state is its own, and set by `new`, which signals nothing.
        (
            "A = actor n: int new () make {n := 1} end new end A\nf (a: A) returns (int) return (a.n) end f",
            &["E0307"],
        ),
        ("A = actor n: int new () make {n := 1} end new m (a: A) a.n := 2 end m end A", &["E0307"]),
        ("A = actor n: int new () make {n := 1} end new m () self.n := self.n + 1 end m end A", &[]),
        ("A = actor n: int end A", &["E0214"]),
        ("A = actor n: int new () end new end A", &["E0214"]),
        ("A = actor n: int new () signal bad make {n := 1} end new end A", &["E0303"]),
        (
            "B = actor get () returns (int) reply (1) end get end B
A = actor n: int new (b: B) make {n := b.get()} end new end A",
            &["E0404"],
        ),
    ]);
}

#[test]
fn messages_and_who_sends_them() {
    told_of(&[
        ("f (a: array[int]) send a.append(1) end f", &["E0202"]),
        ("g () end g\nf () send g() end f", &["E0202"]),
        ("f () send 1 end f", &["E0202"]),
        // A result is dropped.
        ("A = actor m () returns (int) reply (1) end m end A\nf (a: A) send a.m() end f", &[]),
        // What is passive makes actors, sends and holds references.
        (
            "A = actor m () end m end A
C = class a: A go () send a.m() end go end C
it () yields (A) yield (A.new() on 0) yield (A.new() anywhere) end it",
            &[],
        ),
        ("A = actor m () returns (int) reply (1) end m end A\nC = class a: A go () n: int := a.m() end go end C", &["E0404"]),
        ("A = actor m () returns (int) reply (1) end m end A\nit (a: A) yields (int) yield (a.m()) end it", &["E0404"]),
        ("A = actor m () end m end A\nf (a: A) delegate a.m() end f", &["E0404"]),
        ("f () reply () end f", &["E0404"]),
        // A message is no value, and operators are messages, too.
        ("A = actor m (n: int) end m end A\nf (a: A) p: proc (int) := a.m end f", &["E0202"]),
        ("A = actor m (n: int) end m end A\nf (a: A) p: proc () := bind(a.m, 1) end f", &["E0202"]),
        (
            "A = actor add (n: int) returns (int) reply (n) end add fetch (n: int) returns (int) reply (n) end fetch
  store (i: int, v: int) end store end A
B = actor m (a: A) returns (int) a[1] := a + 2 reply (a[1] + a[2]) end m end B",
            &[],
        ),
        ("A = actor add (n: int) returns (int) reply (n) end add end A\nf (a: A) returns (int) return (a + 1) end f", &["E0404"]),
        (
            "A = actor equal (a: A) returns (bool) reply (true) end equal hash () returns (int) reply (1) end hash end A
f (m: map[A, int]) end f",
            // Keys are compared by who they are; nobody sends a message.
            &[],
        ),
        // `main` waits, so that nobody calls it.
        ("A = actor m () end m end A\nmain () a: A := A.new() a.m() end main\nf () main() end f", &["E0404"]),
        ("main () print(\"\") end main\nf () main() end f", &[]),
    ]);
}

#[test]
fn messages_that_are_sent_later() {
    let actor = "W = actor
  stop when failure
  n: int
  new () make {n := 0} end new
  tick () end tick
  put (k: int) end put
  keep (a: array[int]) end keep
  gone (k: int, why: string) end gone
";
    let method = |statement: &str| format!("{actor}  m (w: W) {statement} end m\nend W");
    let routine = |statement: &str| format!("{actor}end W\nf (w: W, g: group[W]) {statement} end f");
    let mut wrong = vec![];
    for (statement, expected) in [
        ("t: int := later(5, send w.put(1))  b: bool := cancel(t)", &[][..]),
        ("every(5, send w.tick())", &[]),
        ("monitor(w, send w.gone(1))", &[]),
        // The message must be one, with the right arguments.
        ("later(5, w.tick())", &["E0202"]),
        ("later(5)", &["E0203"]),
        ("later(send w.tick())", &["E0203"]),
        ("later(true, send w.tick())", &["E0202"]),
        ("later(5, send w.put())", &["E0203"]),
        ("later(5, send w)", &["E0202"]),
        ("later(5, send w.none())", &["E0201"]),
        ("later(5, send g.tick())", &["E0202"]),
        ("later(5, send w.keep(clone array_new[int]()))", &["E0401"]),
        // The reason is a string.
        ("monitor(w, send w.tick())", &["E0202"]),
        ("monitor(w, send w.put())", &["E0202"]),
        ("monitor(w, send w.gone(1, \"\"))", &["E0203"]),
        ("monitor(1, send w.gone(1))", &["E0206"]),
        // A message is no value elsewhere.
        ("n: int := send w.tick()", &["E0202"]),
        ("print(send w.tick())", &["E0202"]),
        ("transaction later(5, send w.tick()) end", &["E0410", "E0404"]),
        ("stop()", &["E0404"]),
    ] {
        wrong.extend(
            (codes(&routine(statement)) != expected).then(|| (statement, codes(&routine(statement)))),
        );
    }
    for (statement, expected) in [
        ("t: int := every(5, send self.tick())", &[][..]),
        ("stop()", &[]),
        ("stop(w)", &["E0203"]),
        ("wait when put (k: int) if later(1, send w.tick()) > 0: end", &["E0408"]),
    ] {
        wrong.extend((codes(&method(statement)) != expected).then(|| (statement, codes(&method(statement)))));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    told_of(&[
        ("F = functional actor stop when failure end F", &["E0405"]),
        ("F = functional actor m () stop() end m end F", &["E0405"]),
        ("A = actor stop when failure stop when failure end A", &["E0209"]),
        ("A = actor stop when bounds end A", &["E0109"]),
        (
            "F = functional actor end F
A = actor gone (why: string) end gone m (f: F) monitor(f, send self.gone()) end m end A",
            &["E0405"],
        ),
        // The names are taken, but not those of methods and variables.
        ("stop (n: int) end stop", &["E0209"]),
        ("A = actor stop () end stop later (n: int) end later end A", &[]),
        ("A = actor stop: int new () make {stop := 1} end new stop_it () stop := 2 end stop_it end A", &[]),
    ]);
}

#[test]
fn what_is_sent() {
    let text = |formal: &str, statement: &str| {
        format!("B = actor put (v: {formal}) end put end B\nf (b: B, v: {formal}) {statement} end f")
    };
    for (formal, statement, expected) in [
        ("sequence[string]", "send b.put(v)", &[][..]),
        ("struct[a: array[int]]", "send b.put(v)", &["E0401"]),
        ("struct[a: array[int]]", "send b.put(clone v)", &[]),
        ("any", "send b.put(clone v)", &["E0401"]),
        ("proc ()", "send b.put(v)", &["E0401"]),
        ("sequence[any]", "send b.put(clone v)", &["E0401"]),
        ("array[iter () yields (int)]", "send b.put(clone v)", &["E0401"]),
        ("B", "send b.put(v)", &[]),
        ("maybe[B]", "send b.put(v)", &[]),
    ] {
        assert_eq!(codes(&text(formal, statement)), expected, "{formal}: {statement}");
    }
    told_of(&[
        // Volatile classes are not even copied.
        (
            "C = class b: B end C
B = actor put (v: C) end put end B
f (b: B) send b.put(clone C{b := b}) end f",
            &["E0401"],
        ),
        // Exceptions, too.
        ("A = actor m (a: array[int]) signals (bad (array[int])) signal bad(a) end m end A", &["E0401"]),
        ("A = actor m (a: array[int]) signals (bad (array[int])) signal bad(clone a) end m end A", &[]),
        (
            "f (a: array[int]) signals (bad (array[int])) signal bad(a) end f
A = actor m (a: array[int]) signals (bad (array[int])) f(a) resignal bad end m end A",
            &["E0401"],
        ),
        // A call of an actor's own method sends nothing.
        ("A = actor m (a: array[int]) self.k(a) end m k (a: array[int]) end k end A", &[]),
        // Generic actors are looked at in each instantiation.
        (
            "A = actor [T] get (v: T) returns (T) reply (v) end get end A\nf (a: A[int]) send a.get(1) end f",
            &[],
        ),
        (
            "A = actor [T] get (v: T) returns (T) reply (v) end get end A\nf (a: A[array[int]]) end f",
            &["E0401"],
        ),
    ]);
}

/// An actor with methods `k` (no result), `v` (a result, and an exception) and `m` around statements.
fn waiting(body: &str) -> String {
    format!(
        "B = actor
  m () returns (int)
    {body}
  end m
  k (n: int) end k
  v () returns (string) signals (bad) reply (\"\") end v
end B
odd () yields (int) yield (1) end odd"
    )
}

#[test]
fn arms_answer_the_message_that_they_take() {
    for (body, expected) in [
        ("wait when v (): reply (\"a\") end reply (1)", &[][..]),
        ("wait when v (): reply (1) end reply (1)", &["E0202"]),
        ("wait when v (): end reply (1)", &["E0403"]),
        ("wait when v (): signal bad end reply (1)", &[]),
        ("wait when v (): signal worse end reply (1)", &["E0303"]),
        ("wait when k (n: int): reply () reply () end reply (1)", &["E0407"]),
        ("wait when v (): d: replier[string] := replyto end reply (1)", &[]),
        // An arm that ends the method answers both messages, one that goes elsewhere its own.
        ("wait when k (n: int): return end reply (1)", &["E0403"]),
        ("reply (1) wait when k (n: int): return end", &[]),
        ("reply (1) wait when v (): return end", &["E0403"]),
        ("while true do wait when v (): break end end reply (1)", &["E0403"]),
        ("while true do wait when v (): reply (\"\") break end end reply (1)", &[]),
        ("wait when v (): while true do break end reply (\"\") end reply (1)", &[]),
        ("wait when v (): exit done end except when done: end reply (1)", &["E0403"]),
        ("wait when k (n: int): exit done end except when done: end reply (1)", &[]),
        // No exception leaves an arm: the method goes on behind the `wait`.
        ("wait when k (n: int): n := n / 0 end except when zero: end reply (1)", &["E0304"]),
        ("x: int wait when k (n: int): x := n end reply (x)", &[]),
        ("x: int wait when k (n: int): x := n + 1 end reply (x)", &["E0301"]),
        ("wait when k (n: int) if n > 1: end reply (1)", &[]),
    ] {
        assert_eq!(codes(&waiting(body)), expected, "{body}");
    }
}

#[test]
fn who_waits_for_what() {
    for (body, expected) in [
        ("wait end reply (1)", &["E0109"][..]),
        ("wait after 10: end reply (1)", &["E0109"]),
        ("wait when k (n: int): after 10: end reply (1)", &[]),
        ("wait when w (): end reply (1)", &["E0201"]),
        ("wait when k (): end reply (1)", &["E0203"]),
        ("wait when k (n: string): end reply (1)", &["E0202"]),
        ("wait when k (n: int) if (B.new() times 2).size() > 1: end reply (1)", &["E0408"]),
        ("for i: int in odd() do wait when k (n: int): end end reply (1)", &["E0406"]),
        ("for i: int in 1.to(3) do wait when k (n: int): end end reply (1)", &[]),
        ("transaction wait when k (n: int): end end reply (1)", &["E0404"]),
    ] {
        assert_eq!(codes(&waiting(body)), expected, "{body}");
    }
    told_of(&[
        ("f () wait when k (): end end f", &["E0404"]),
        ("main () wait when k (): end end main", &["E0404"]),
        ("A = functional actor m () wait when m (): end end m end A", &["E0405"]),
        ("A = functional actor disable m when true m () end m end A", &["E0405"]),
        ("A = actor disable k when true m () end m end A", &["E0201"]),
        ("A = actor disable m (a, b) when true m (a: int) end m end A", &["E0203"]),
        // Several lines for one method add up.
        (
            "A = actor n: int new () make {n := 1} end new disable m (k) when k > n disable m when n = 0 m (k: int) end m end A",
            &[],
        ),
    ]);
}

#[test]
fn functional_actors() {
    told_of(&[
        ("A = functional actor m (n: int) returns (int) reply (self.m(n) + self.m(n)) end m end A", &[]),
        (
            "C = class implements T n: int end C\nT = type n () returns (int) end T
A = functional actor m () c: C := C{n := 1} c.n := 2 end m end A",
            &[],
        ),
    ]);
    // In a plain one it is a call.
    let text = |word: &str| format!("A = {word} m (n: int) returns (int) reply (self.m(n)) end m end A");
    assert!(lowered(&text("functional actor"), "A.m").contains("request A.m"));
    let plain = lowered(&text("actor"), "A.m");
    assert!(plain.contains(":= A.m(self, n)") && !plain.contains("request"), "{plain}");
}

#[test]
fn an_answer_is_not_given_again_by_a_handler() {
    let text = |body: &str| {
        format!("A = actor m (a: array[int]) returns (int) signals (bounds, bad) {body} end m end A")
    };
    for (body, expected) in [
        ("reply (a[1]) except when bounds: signal bad end", &[][..]),
        ("begin reply (1) a[1] := 2 end except when bounds: signal bad end", &["E0407"]),
        ("begin reply (1) a[1] := 2 end except when bounds: end", &[]),
        ("reply (1) a[1] := 2 resignal bounds", &["E0407"]),
        ("reply (a[1]) resignal bounds", &[]),
    ] {
        assert_eq!(codes(&text(body)), expected, "{body}");
    }
}

#[test]
fn an_exception_that_a_request_brings_before_the_answer_is_answered_by_a_handler() {
    let text = |body: &str| {
        format!(
            "B = actor f (k: int) returns (int) signals (bad) if k = 0 then signal bad end reply (k) end f end B
A = actor m (b: B, k: int, n: int) returns (int) {body} end m end A"
        )
    };
    for (body, expected) in [
        ("begin reply (b.f(k)) end except when bad: reply (0) end", &[][..]),
        ("reply (b.f(k) + b.f(n)) except when bad: reply (0) end", &[]),
        ("begin x: int := b.f(k) reply (x) end except when bad: reply (0) end", &[]),
        ("begin x: int := b.f(k) y: int := b.f(n) reply (x + y) end except when bad: reply (0) end", &[]),
        ("begin if k > n then reply (b.f(k)) else reply (1) end end except when bad: reply (0) end", &[]),
        ("begin begin reply (b.f(k)) end except others: reply (1) end end except others: end", &["E0403"]),
        ("begin delegate b.f(b.f(k)) end except when bad: reply (0) end", &["E0303"]),
        ("begin reply (b.f(k)) end except when bad: end", &["E0403"]),
        // The exception may come after the answer.
        ("begin x: int := b.f(k) reply (1) end except when bad: reply (0) end", &["E0407"]),
        ("begin x: int := b.f(k) reply (b.f(n)) end except when bad: reply (0) end", &["E0407"]),
        ("begin x: int := b.f(k) reply (1) n := x end except when bad: reply (0) end", &["E0407"]),
        ("begin reply (b.f(k)) n := b.f(n) end except when bad: reply (0) end", &["E0407"]),
        ("begin reply (b.f(k)) b.f(n) end except when bad: reply (0) end", &["E0407"]),
        (
            "begin x: int := 0 while k > n do if x > n then reply (1) return end x := x + n y: int := b.f(k) end
reply (2) end except when bad: reply (0) end",
            &["E0407"],
        ),
    ] {
        assert_eq!(codes(&text(body)), expected, "{body}");
    }
}

#[test]
fn transactions_of_actors() {
    told_of(&[
        (
            "A = actor m () returns (int) n: int := 0 transaction n := 1 end except when aborted (why: string): end reply (n) end m end A",
            &[],
        ),
        ("A = actor m (b: A) transaction send b.m(b) end end m end A", &[]),
        // An answer does not leave before the commit.
        ("A = actor m () returns (int) transaction reply (1) end end m end A", &["E0410"]),
        ("A = actor m (b: A) transaction delegate b.m(b) end end m end A", &["E0410"]),
        (
            "A = actor m () returns (int) d: replier[int] := replyto transaction d.deliver(1) end end m end A",
            &[],
        ),
        ("A = actor m (b: A) transaction b.m(b) end end m end A", &["E0404"]),
        // Its instance variables are outside.
        (
            "A = actor a: array[int] new () make {a := array_new[int]()} end new m () transaction a := array_new[int]() end end m end A",
            &["E0409"],
        ),
        // What waits or has a transaction of its own is not called there, nor what calls it.
        ("A = actor m () transaction self.k() end end m k () transaction end end k end A", &["E0404"]),
        (
            "A = actor m () transaction self.k() end end m k () self.j() end k j () wait when m (): end end j end A",
            &["E0404"],
        ),
        (
            "A = actor m () transaction self.k() end self.j() end m k () end k j () transaction end end j end A",
            &[],
        ),
    ]);
}

#[test]
fn regions_know_of_groups_and_places_of_answers() {
    let text = program("buffer.theta");
    let found = told(&text, "Demo.go");
    assert_eq!(found, ["44 (1) -> 44:  | sum"]);
    let text = script(
        "    x: int := r.take(1)
    g: group[R] := R.new() times 2
    send g.note(1)
    y: int := s.take(2)
    d: replier[int] := replyto
    d.deliver(x + y)",
    );
    assert_eq!(told(&text, "A.m"), ["7,10 (2) -> 12: x y | d"]);
}

#[test]
fn actors_are_compared_by_who_they_are() {
    good(
        "A = actor m () end m end A\nmain () a: A := A.new() b: A := A.new() if a = b | a ~= b then print(\"\") end end main\n",
    );
    good(
        "A = actor m () end m end A\nf (m: map[A, int], a: A) returns (int) signals (not_found) return (m[a]) resignal not_found end f\n",
    );
    told_of(&[
        ("A = actor m () end m end A\nf (a: A) returns (bool) return (a = 1) end f", &["E0202"]),
        ("A = actor m () end m end A\nf (a: A) returns (bool) return (a < a) end f", &["E0201"]),
        // One that takes a message of that name is asked.
        (
            "A = actor equal (a: A) returns (bool) reply (true) end equal end A\nf (a: A) returns (bool) return (a = a) end f",
            &["E0404"],
        ),
    ]);
}

#[test]
fn what_collects_a_sequence_shows_its_form() {
    let text = |call: &str| format!("f () s: sequence[int] := {call} print(s.unparse()) end f\n");
    for (call, help) in [
        ("sequence_of[int](1, 2, 3)", "`..` collects a sequence: `sequence_of(.. 1, 2, 3)`"),
        ("sequence_of[int](1)", "`..` collects a sequence: `sequence_of(.. 1)`"),
        ("sequence_of(4, 5)", "`..` collects a sequence: `sequence_of(.. 4, 5)`"),
        ("sequence_of(4)", "`..` collects a sequence: `sequence_of(.. 4)`"),
    ] {
        let (sources, compilation) = compile_text(&text(call));
        let said = render_all(&sources, &compilation.diagnostics, Colour::Plain);
        assert!(said.contains(help), "{call}: {said}");
    }
    let (sources, compilation) = compile_text("f () print(array_create(0, 4, 5).unparse()) end f\n");
    let said = render_all(&sources, &compilation.diagnostics, Colour::Plain);
    assert!(said.contains("`array_create(0, .. 4, 5)`"), "{said}");
}
