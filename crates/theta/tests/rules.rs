//! Sentences of sections 4, 6 and 7 of the definition that no other test is about.

mod support;

use support::{Row, check};

/// What is fine says nothing.
#[track_caller]
fn fine(text: &str) {
    check(text, &[]);
}

/// One mistake.
#[track_caller]
fn one(text: &str, row: Row<'_>) {
    check(text, &[row]);
}

mod names {
    use super::*;

    #[test]
    fn there_are_no_global_variables() {
        one(
            "x: int := 1\nf () end f\n",
            (
                "E0109",
                "there are no variables outside routines",
                ":",
                "put it into an object reachable from the root directory, or write a constant as `name = \
                    value`",
            ),
        );
    }

    #[test]
    fn a_class_outside_modules_is_known_in_its_file() {
        fine(
            "C = class\n  x: int\n  own () returns (int) return (x) end own\nend C
module m exports g\n  g (c: C) returns (int) return (c.x + c.own()) end g\nend m
make_c () returns (C) return (C{x := 1}) end make_c\n",
        );
    }

    #[test]
    fn modules_nest_and_each_keeps_its_own() {
        check(
            "module m exports g
  module n exports f
    f () returns (int) return (h()) end f
    h () returns (int) return (k()) end h
  end n
  k () returns (int) return (1) end k
  g () returns (int) return (f() + h()) end g
end m
z () returns (int) return (g() + f()) end z
",
            &[("E0208", "unknown name `h`", "h", ""), ("E0208", "unknown name `f`", "f", "")],
        );
        one(
            "module m exports f\n  f () end f\nend n\n",
            ("E0102", "this `end` names `n`, but `m` is open here", "n", "write `end m`; opened at line 1"),
        );
        one(
            "module m exports f, f\n  f () end f\nend m\n",
            ("E0209", "`f` is defined already (line 1)", "f", "choose another name"),
        );
    }

    #[test]
    fn routines_types_and_equates_share_a_name_space() {
        let twice = ("E0209", "`a` is defined already (line 1)", "a", "choose another name");
        check("a = 1\na = type end a\na () end a\n", &[twice, twice]);
    }

    #[test]
    fn methods_and_instance_variables_are_two_more() {
        fine(
            "T = type m () returns (int) end T\nC = class implements T\n  m: int\n  m () returns (int) return (m + self.m()) end m\nend C\n",
        );
        one(
            "C = class\n  x, x: int\nend C\n",
            ("E0209", "`x` is defined already (line 2)", "x", "choose another name"),
        );
        one(
            "C = class\n  m () end m\n  m (n: int) end m\nend C\n",
            ("E0209", "`m` is defined already (line 2)", "m", "choose another name"),
        );
    }

    #[test]
    fn what_is_predeclared_stays() {
        let rows = ["print", "int", "array_new"]
            .map(|name| ("E0209", format!("`{name}` is predeclared and cannot be defined again"), name));
        let rows: Vec<Row<'_>> = rows
            .iter()
            .map(|(code, text, name)| (*code, text.as_str(), *name, "choose another name"))
            .collect();
        check("print (s: string) end print\nint = type end int\narray_new () end array_new\n", &rows);
    }

    #[test]
    fn a_bare_name_is_a_local_then_an_instance_variable_then_an_item() {
        fine("f () returns (int) return (1) end f\ng () returns (int)\n  f: int := 2\n  return (f)\nend g\n");
        one(
            "x () returns (int) return (7) end x
C = class
  x: int
  m () returns (int) return (x + x()) end m
end C
",
            ("E0202", "a value of type `int` cannot be called", "x", ""),
        );
    }

    #[test]
    fn locals_hide_neither_parameters_nor_instance_variables() {
        check(
            "C = class provides make_c
  x: int
  m (x: int) y: int := 1  y: int := 2 end m
  % In a maker the instance variables are not in scope.
  make_c (x: int) makes (C) make {x := x} then self.x := x end end make_c
end C
",
            &[
                ("E0211", "`x` hides the instance variable of line 2", "x", "choose another name"),
                ("E0209", "`y` is defined already (line 3)", "y", "choose another name"),
            ],
        );
    }

    #[test]
    fn equates_are_no_statements() {
        one(
            "f () returns (int)\n  a = 3\n  return (a)\nend f\n",
            (
                "E0106",
                "this compares `a` with a value and drops the result",
                "a = 3",
                "to declare it, write `a: int := 3`",
            ),
        );
        one(
            "C = class\n  limit = 3\n  m () returns (int) return (limit) end m\nend C\nf () returns (int) return (limit) end f\n",
            ("E0208", "unknown name `limit`", "limit", ""),
        );
    }
}

mod classes {
    use super::*;

    const BASE: &str = "B = class provides make_b
  x: int
  make_b () makes (B) make {x := 1} end make_b
  other () makes (B) make {x := 2} end other
  p (n: int) returns (int) return (n) end p
end B
";

    #[test]
    fn methods_are_generated_from_instance_variables_of_their_type() {
        fine("T = type x () returns (int)   set_x (v: int) end T\nC = class implements T\n  x: int\nend C\n");
        let missing = |heading: &str, name: &str| {
            (
                "E0204",
                format!("class `C` does not implement `{heading}` of `T`"),
                "C",
                format!("add the method, or an instance variable `{name}`"),
            )
        };
        for (heading, ivar, name) in [
            ("y () returns (real)", "y: int", "y"),
            ("x (n: int) returns (int)", "x: int", "x"),
            ("x () yields (int)", "x: int", "x"),
            ("set_x (v: string)", "x: int", "x"),
        ] {
            let (code, text, span, help) = missing(heading, name);
            let text_of = format!("T = type {heading} end T\nC = class implements T\n  {ivar}\nend C\n");
            check(&text_of, &[(code, text.as_str(), span, help.as_str())]);
        }
    }

    #[test]
    fn methods_conform_to_what_they_implement() {
        let heading = "x (n: int) returns (int) signals (bad)";
        let there = format!("the heading there is `{heading}`");
        for (own, body, why, help) in [
            (
                "x (n: string) returns (int)",
                "return (1)",
                "argument `n` is `string`, not `int`",
                there.as_str(),
            ),
            ("x (n: int) returns (string)", "return (\"\")", "it returns `string`, not `int`", &there),
            (
                "x (n: int) returns (int) signals (worse)",
                "signal worse",
                "it may signal `worse`",
                "a subtype may signal only `bad`",
            ),
            ("x (n: int) yields (int)", "yield (n)", "it is an iterator", &there),
        ] {
            let text =
                format!("T = type {heading} end T\nC = class implements T\n  {own} {body} end x\nend C\n");
            let why = format!("`x` does not conform to `T.x`: {why}");
            check(&text, &[("E0205", why.as_str(), own, help)]);
        }
    }

    #[test]
    fn a_class_is_a_subtype_of_each_of_its_types() {
        one(
            "T = type end T\nU = type end U\nC = class implements T, U end C
f (c: C) returns (T, U) return (c, c) end f
g (t: T) returns (C) return (t) end g
",
            ("E0202", "expected `C`, found `T`", "t", ""),
        );
    }

    #[test]
    fn a_selection_is_no_call() {
        one(
            "C = class\n  x: int\n  f (o: C) returns (int) return (o.x + o.x()) end f\nend C\n",
            ("E0201", "type `C` has no method `x`", "x", "`x` is an instance variable: omit the parentheses"),
        );
    }

    #[test]
    fn only_classes_make_objects_and_are_inherited() {
        one(
            "T = type x () returns (int) end T\nf () returns (T) return (T{x := 1}) end f\n",
            ("E0208", "`T` is not a class", "T", "only a class makes objects; a type is a specification"),
        );
        let no_class = |name| ("E0208", format!("there is no class `{name}`"), name);
        for name in ["T", "int"] {
            let (code, text, span) = no_class(name);
            let program = format!("T = type end T\nS = class inherits {name} end S\n");
            check(&program, &[(code, text.as_str(), span, "only classes can be inherited")]);
        }
        one(
            "Q = class implements int end Q\n",
            ("E0208", "`int` cannot be implemented", "int", "name a type defined by `type`"),
        );
        one("P = class inherits P end P\n", ("E0208", "class `P` would inherit from itself", "P", ""));
    }

    #[test]
    fn self_exists_only_after_then() {
        one(
            "C = class\n  x: int\n  m () makes (C) self.p() make {x := 1} then self.p() end end m\n  p () end p\nend C\n",
            ("E0208", "`self` exists only after `then`", "self", "write `make {…} then … end`"),
        );
        one(
            "f () make {x := 1} end f\n",
            ("E0109", "`make` is allowed only at the end of a maker", "make {x := 1}", ""),
        );
    }

    #[test]
    fn constructors_end_with_a_maker_that_the_superclass_provides() {
        let sub = |body: &str| {
            format!("{BASE}S = class inherits B\n  y: int\nend S\nf () returns (S) return ({body}) end f\n")
        };
        fine(&sub("S{y := 1; make_b()}"));
        one(
            &sub("S{y := 1}"),
            ("E0214", "`S` must call a maker of `B`", "S{y := 1}", "end with `; make_b(…)`"),
        );
        one(
            &sub("S{y := 1; other()}"),
            (
                "E0214",
                "class `B` provides no maker `other`",
                "other",
                "add it to the class: `provides \
                other`",
            ),
        );
        one(
            &sub("S{y := 1, x := 2; make_b()}"),
            ("E0214", "class `S` has no instance variable `x` of its own", "x", ""),
        );
        one(
            "B = class provides make_b, make_c\n  make_b () makes (B) make {} end make_b\nend B\n",
            ("E0208", "class `B` has no maker `make_c`", "make_c", ""),
        );
        one(
            "B = class provides make_b hides q\n  make_b () makes (B) make {} end make_b\nend B\n",
            ("E0201", "type `B` has no method `q`", "q", ""),
        );
    }

    #[test]
    fn overriding_conforms_and_renaming_sets_free() {
        let own = "p (n: int) returns (string)";
        one(
            &format!("{BASE}S = class inherits B\n  {own} return (\"\") end p\nend S\n"),
            (
                "E0205",
                "`p` does not conform to `B.p`: it returns `string`, not `int`",
                own,
                "the heading there is `p (n: int) returns (int)`",
            ),
        );
        fine(&format!(
            "{BASE}S = class inherits B {{q for p}}\n  {own} return (self.q(1).unparse()) end p\nend S\n"
        ));
        one(
            &format!("{BASE}S = class inherits B {{q for z}} end S\n"),
            ("E0201", "type `B` has no method `z`", "z", ""),
        );
        one(
            &format!("{BASE}S = class inherits B {{q for p}}\n  q () end q\nend S\n"),
            (
                "E0209",
                "`q` is both a method of this class and the new name of an inherited method",
                "q ()",
                "choose another name",
            ),
        );
    }
}

mod statements {
    use super::*;

    #[test]
    fn operators_are_methods() {
        let t = "T = type add (t: T) returns (T)   lt (t: T) returns (int) end T\n";
        check(
            &format!(
                "{t}f (a: T, b: T) returns (T)
  c: T := a + b
  d: T := a - b
  if a < b then return (c) end
  e: bool := ~a
  return (a + 1)
end f
"
            ),
            &[
                ("E0201", "type `T` has no method `sub`", "-", "`T` has `add`, `lt`"),
                ("E0202", "expected `bool`, found `int`", "a < b", ""),
                ("E0201", "type `T` has no method `bnot`", "~a", "`T` has `add`, `lt`"),
                ("E0202", "expected `T`, found `int`", "1", ""),
            ],
        );
    }

    #[test]
    fn nothing_is_converted() {
        let to_real = "`int` has `to_real ()`";
        one("f () x: real := 1 end f\n", ("E0202", "expected `real`, found `int`", "1", to_real));
        // One operand is wrong, and what comes of it is not looked at again.
        one(
            "f () returns (real) return (1 + 2.0) end f\n",
            ("E0202", "expected `int`, found `real`", "2.0", ""),
        );
        check(
            "f (a: int, b: bool) returns (bool)\n  while a do end\n  return (a & b | b & a)\nend f\n",
            &[
                ("E0202", "expected `bool`, found `int`", "a", ""),
                ("E0202", "expected `int`, found `bool`", "b", ""),
                ("E0202", "expected `bool`, found `int`", "a", ""),
            ],
        );
    }

    #[test]
    fn dots_collect_the_remaining_arguments() {
        let f = "f (a: int, rest: sequence[int]) end f\n";
        fine(&format!("{f}g () f(1, .. 2, 3)  f(1, ..)  f(1, sequence_of[int](.. 2)) end g\n"));
        check(
            &format!("{f}g () f(.. 1)  f(1, .. \"a\")  f(1, 2)  g(.. 1) end g\n"),
            &[
                ("E0203", "`f` takes 2 arguments, 1 given", "(.. 1)", "`f (a: int, rest: sequence[int])`"),
                (
                    "E0202",
                    "expected `int`, found `string`",
                    "\"a\"",
                    "`string` has `to_int () signals (bad_format, overflow)`",
                ),
                (
                    "E0202",
                    "expected `sequence[int]`, found `int`",
                    "2",
                    "`..` collects a sequence: `f(1, .. 2)`",
                ),
                (
                    "E0202",
                    "the last argument of `g` is no sequence, so `..` cannot collect it",
                    "(.. 1)",
                    "`g ()`",
                ),
            ],
        );
    }

    #[test]
    fn several_results_go_to_several_variables_or_nowhere() {
        let d = "d () returns (int, int) return (1, 2) end d\n";
        fine(&format!(
            "{d}f () returns (int, int)\n  a, b: int := d()\n  d()\n  a, b := d()\n  return (d())\nend f\n"
        ));
        let help = "assign them to variables: `a, b: T := …`";
        let two = "this call returns 2 values where one is needed";
        check(
            &format!("{d}f (a: int, b: int) returns (int)\n  a := d()\n  a, b := 1\n  return (d())\nend f\n"),
            &[
                ("E0210", two, "d()", help),
                ("E0210", "2 variables, but 1 value", "a, b := 1", ""),
                ("E0210", two, "d()", help),
            ],
        );
    }

    #[test]
    fn only_for_calls_iterators() {
        let write = "write `for i: int in it() do … end`";
        let iterator = "`it` is an iterator and can only be called in a `for`";
        check(
            "it () yields (int) yield (1) return end it
f () returns (int)
  it()
  for i: int in f() do end
  yield (1)
  return (it())
end f
",
            &[
                ("E0207", iterator, "it()", write),
                ("E0207", "`f` is not an iterator", "f()", "`f () returns (int)`"),
                (
                    "E0207",
                    "`f` is not an iterator",
                    "yield (1)",
                    "only an iterator, headed `yields (T)`, can yield",
                ),
                ("E0207", iterator, "it()", write),
            ],
        );
        one(
            "it () yields (int) return (1) end it\n",
            (
                "E0210",
                "`it` is an iterator, so its `return` has no values",
                "return (1)",
                "`it () yields (int)`",
            ),
        );
    }

    #[test]
    fn a_loop_without_break_needs_no_return() {
        fine("f () returns (int) while true do end end f\n");
        one(
            "h (b: bool) returns (int)\n  while true do if b then break end end\nend h\n",
            (
                "E0302",
                "`h` can reach its end without returning a value",
                "end h",
                "add `return (…)` or `signal …`",
            ),
        );
    }

    #[test]
    fn arms_take_the_values_of_their_exceptions() {
        let p = "p () returns (int) signals (a (int), b (int), c (int, string)) signal a(1) end p\n";
        fine(&format!(
            "{p}f () returns (int)
  p() except when a, b (x: int): return (x) others (n: string): return (n.length()) end
  p() except when a: when b, c (*): others: end
  return (p())
end f
"
        ));
        check(
            &format!(
                "{p}f ()
  p() except when a, c (x: int): end
  p() except when a (x: string): end
  p() except others (n: int): end
end f
"
            ),
            &[
                ("E0210", "`c` has 2 values, 1 named here", "c", "write `when c (*):` to ignore them"),
                ("E0202", "expected `string`, found `int`", "string", "`int` has `unparse ()`"),
                (
                    "E0202",
                    "expected `int`, found `string`",
                    "int",
                    "`string` has `to_int () signals (bad_format, overflow)`",
                ),
            ],
        );
    }

    #[test]
    fn handlers_cover_neither_signals_nor_their_own_arms() {
        let p = "p () returns (int) signals (a) signal a end p\n";
        fine(&format!("{p}f () returns (int) return (p()) except when a: return (p()) end end f\n"));
        one(
            &format!("{p}g () returns (int) signals (a)\n  signal a except when a: return (1) end\nend g\n"),
            ("E0304", "nothing in this statement can raise `a`", "a", "it can raise only `failure`"),
        );
        fine(&format!("{p}h () returns (int) signals (a) return (p()) resignal a end h\n"));
        one(
            &format!("{p}k () returns (int) return (p()) resignal a end k\n"),
            ("E0303", "`k` does not list `a`", "a", "add `signals (a)` to the heading"),
        );
    }

    #[test]
    fn handlers_nest_as_deep_as_blocks() {
        let nested = |count: usize, arm: &str| {
            format!(
                "p () signals (a (int)) signal a(1) end p\nq () signals (b (real)) signal b(1.0) end q\n\
                 f ()\n{}{}end f\n",
                "begin\np() q()\n".repeat(count),
                format!("end except when {arm}: end\n").repeat(count)
            )
        };
        fine(&nested(240, "a (v: int): when b (*)"));
        fine(&nested(240, "a (v: any): when b (*)"));
        fine(&nested(120, "a, b (v: any)"));
        let mistakes = nested(200, "a, b (v: any)");
        let (sources, compilation) = support::compile_text(&mistakes);
        let first = &compilation.diagnostics[0];
        assert_eq!((first.code.name(), sources.slice(first.span)), ("E0109", "a"));
    }

    #[test]
    fn exits_carry_what_their_handler_takes() {
        one(
            "f (n: int) returns (int)
  begin
    if n > 1 then exit big(n, \"x\") end
    exit done
  end except when big (m: int): return (m) when done: return (0) end
end f
",
            ("E0210", "`big` has 2 values, 1 named here", "big", "write `when big (*):` to ignore them"),
        );
    }

    #[test]
    fn failure_carries_a_text() {
        fine("f () signal failure(\"no\") end f\n");
        one("g () signal failure end g\n", ("E0203", "`failure` has 1 value, 0 given", "signal failure", ""));
        one(
            "h () signal failure(1) end h\n",
            ("E0202", "expected `string`, found `int`", "1", "`int` has `unparse ()`"),
        );
    }

    #[test]
    fn what_can_be_assigned() {
        let help = "assign to a variable, an instance variable `o.x` or an element `a[i]`";
        let not = "this cannot be assigned to";
        check(
            "f (a: int, s: array[int])
  1 := 2
  f := 3
  a.x := 3
  f(1, s) := 2
  self := 1
  s[\"x\"] := 1
  s[1, 2] := 3
end f
",
            &[
                ("E0202", not, "1", help),
                ("E0208", "`f` is not a variable", "f", "there are no global variables"),
                ("E0201", "type `int` has no instance variable `x`", "x", ""),
                ("E0202", not, "f(1, s)", help),
                ("E0202", not, "self", help),
                (
                    "E0202",
                    "expected `int`, found `string`",
                    "\"x\"",
                    "`string` has `to_int () signals (bad_format, overflow)`",
                ),
                (
                    "E0203",
                    "`store` of `array[int]` does not fit this operator",
                    "s[1, 2]",
                    "`store (i: int, v: int) signals (bounds)`",
                ),
            ],
        );
    }

    #[test]
    fn numbers_fit() {
        fine("f () returns (int) return (-9223372036854775808) end f\n");
        one(
            "f () returns (int) return (9223372036854775808) end f\n",
            (
                "E0109",
                "this number does not fit in 64 bits",
                "9223372036854775808",
                "an `int` lies between -9223372036854775808 and 9223372036854775807",
            ),
        );
    }
}

/// Mistakes of all kinds in one text: each is found, and none of them brings others.
#[test]
fn many_mistakes_in_one_run() {
    let to_int = "`string` has `to_int () signals (bad_format, overflow)`";
    check(
        "import nowhere
T = type get () returns (int)   put (v: int) signals (full) end T
S = type < T get () returns (string) end S
C = class implements T
  get: int   room: flot
  put (v: int) signals (full)
    if v > room then signal ful end
    get := v + \"1\"
  end put
  check_it () returns (bool)
    if get > 0 then return (true) end
  end check_it
end C
D = class implements T
  get: string
  put (v: int) get := v end put
end D
first (a: array[int]) returns (int)
  x: int
  for i in a do x := i end
  for int: k in a.elements() do x := k end
  b: int := a[1] except when not_found: return (2) end
  return (x + b)
end first
second (t: T, u: U) returns (int)
  n = t.get()
  string s = \"a\"
  n := n + t.gett() + s.length()
  t.put(1, 2)
  u.put(n)
  break
  m: maybe[int] := some(n)
  tagcase m when some (v: int): n := v end
  return (n, n)
end second
",
        &[
            ("E0208", "there is no file for `nowhere`", "nowhere", "the expected file is `nowhere.theta`"),
            (
                "E0205",
                "`get` does not conform to `T.get`: it returns `string`, not `int`",
                "get () returns (string)",
                "the heading there is `get () returns (int)`",
            ),
            ("E0208", "there is no type `flot`", "flot", "define the type, or import its file"),
            ("E0303", "`put` does not list `ful`", "ful", "add `ful` to the `signals` of the heading"),
            ("E0202", "expected `int`, found `string`", "\"1\"", to_int),
            (
                "E0302",
                "`check_it` can reach its end without returning a value",
                "end check_it",
                "add `return (…)` or `signal …`",
            ),
            (
                "E0204",
                "class `D` does not implement `get () returns (int)` of `T`",
                "D",
                "add the method, or an instance variable `get`",
            ),
            ("E0202", "expected `string`, found `int`", "v", "`int` has `unparse ()`"),
            ("E0207", "a `for` needs the call of an iterator", "a", "write `a.elements()`"),
            (
                "E0107",
                "`int` is a type; the loop variable must be first",
                "int: k",
                "write `for k: int in … do … end`",
            ),
            (
                "E0304",
                "nothing in this statement can raise `not_found`",
                "not_found",
                "it can raise `bounds`",
            ),
            (
                "E0301",
                "`x` may be used before it has a value",
                "x",
                "assign it on every path, for example at its declaration",
            ),
            ("E0208", "there is no type `U`", "U", "define the type, or import its file"),
            (
                "E0106",
                "this compares `n` with a value and drops the result",
                "n = t.get()",
                "to declare it, write `n: int := t.get()`",
            ),
            (
                "E0105",
                "a declaration is written `name: type := value`",
                "string s = \"a\"",
                "write `s: string := \"a\"`",
            ),
            ("E0201", "type `T` has no method `gett`", "gett", "a method with a similar name exists: `get`"),
            ("E0203", "`put` takes 1 argument, 2 given", "(1, 2)", "`put (v: int) signals (full)`"),
            (
                "E0309",
                "`break` outside a loop",
                "break",
                "`break` leaves the innermost enclosing `while` or `for`",
            ),
            ("E0305", "`tagcase` does not cover tag `none`", "tagcase", "add `when none:` or `others:`"),
            ("E0210", "`second` returns 1 value, 2 given", "return (n, n)", ""),
        ],
    );
}
