//! Every row of the table in section 12 of the definition that concerns what is supported: code, text,
//! span and help, word for word.

mod support;

use support::check;

/// A routine around statements.
fn routine(body: &str) -> String {
    format!("f (a: int, b: int) returns (int)\n{body}\n  return (a)\nend f\n")
}

#[test]
fn e0101_unknown_symbol() {
    let text = routine("  if a != b then return (1) end");
    check(&text, &[("E0101", "unknown symbol `!`", "!=", "not-equal is written `~=`")]);
}

#[test]
fn e0102_wrong_name_at_end() {
    check(
        "DataBase = type\n  size () returns (int)\nend DataBas\n",
        &[(
            "E0102",
            "this `end` names `DataBas`, but `DataBase` is open here",
            "DataBas",
            "write `end DataBase`; opened at line 1",
        )],
    );
}

#[test]
fn a_missing_end_is_found_where_it_should_be() {
    check(
        "module m\n  f (a: int)\n    g(a)\n  g (a: int)\n  end g\nend m\n",
        &[("E0109", "expected `end f`, found `g`", "g", "`f`, opened at line 2, has no `end f`")],
    );
    check(
        "f (a: int)\n  while a > 1 do\n    a := a - 1\nend f\ng () end g\n",
        &[("E0109", "the `while` of line 2 has no `end` before `end f`", "end f", "")],
    );
    check(
        "module m\n  T = type\n    x () returns (int)\nend m\n",
        &[("E0102", "this `end` names `m`, but `T` is open here", "m", "write `end T`; opened at line 2")],
    );
}

#[test]
fn e0103_letter_case() {
    check(
        "point = type\n  x () returns (int)\n  X () returns (int)\nend point\n",
        &[(
            "E0103",
            "`X` differs from `x` (line 2) only in letter case",
            "X",
            "veneers use the capital for promises; choose another name",
        )],
    );
}

#[test]
fn e0104_reserved_word() {
    check(
        "Part = type\n  type () returns (string)\n  id () returns (int)\nend Part\n",
        &[("E0104", "`type` is a reserved word", "type", "choose another name, for example `kind`")],
    );
}

#[test]
fn e0105_declaration_of_c() {
    check(
        &routine("  int sum = 0\n  a := sum"),
        &[(
            "E0105",
            "a declaration is written `name: type := value`",
            "int sum = 0",
            "write `sum: int := 0`",
        )],
    );
}

#[test]
fn e0106_comparison_as_statement() {
    check(
        &routine("  sum: int := 0\n  sum = sum + a"),
        &[(
            "E0106",
            "this compares `sum` with a value and drops the result",
            "sum = sum + a",
            "to assign, write `sum := sum + a`",
        )],
    );
}

#[test]
fn e0107_type_before_variable() {
    check(
        &routine("  for int: i in 1.to(a) do b := b + i end"),
        &[(
            "E0107",
            "`int` is a type; the loop variable must be first",
            "int: i",
            "write `for i: int in … do … end`",
        )],
    );
}

#[test]
fn e0108_word_after_end() {
    check(
        &routine("  for i: int in 1.to(a) do b := b + i end for"),
        &[("E0108", "`for` does not belong after `end`", "for", "write `end`")],
    );
    check(
        &routine("  while a > b do b := b + 1 end while\n  if a = b then b := 1 end if\n  b := 2"),
        &[
            ("E0108", "`while` does not belong after `end`", "while", "write `end`"),
            ("E0108", "`if` does not belong after `end`", "if", "write `end`"),
        ],
    );
    check(&routine("  for i: int in 1.to(a) do b := i end for j: int in 1.to(b) do a := j end"), &[]);
}

#[test]
fn e0110_chained_comparison() {
    check(
        &routine("  if 1 < a < b then b := 1 end"),
        &[("E0110", "comparisons cannot be chained", "<", "join two comparisons with `&`: `a < b & b < c`")],
    );
}

const INT_LIST: &str = "IntList = type
  first () returns (int) signals (empty)   next () returns (IntList) signals (empty)
end IntList
";

#[test]
fn e0201_no_such_method() {
    check(
        &format!("{INT_LIST}f (l: IntList) returns (int)\n  return (l.frist())\nend f\n"),
        &[(
            "E0201",
            "type `IntList` has no method `frist`",
            "frist",
            "a method with a similar name exists: `first`",
        )],
    );
}

#[test]
fn e0202_wrong_type() {
    check(
        &routine("  n: int := \"a\""),
        &[(
            "E0202",
            "expected `int`, found `string`",
            "\"a\"",
            "`string` has `to_int () signals (bad_format, overflow)`",
        )],
    );
}

const DATA_BASE: &str = "DataElem = type name () returns (string) end DataElem
DataBase = type
  fetch (user: string) returns (DataElem) signals (not_found)
  users () yields (DataElem)
end DataBase
";

#[test]
fn e0203_wrong_number_of_arguments() {
    check(
        &format!("{DATA_BASE}f (d: DataBase)\n  d.fetch()\nend f\n"),
        &[(
            "E0203",
            "`fetch` takes 1 argument, 0 given",
            "()",
            "`fetch (user: string) returns (DataElem) signals (not_found)`",
        )],
    );
}

#[test]
fn e0204_missing_method() {
    let class = "ArrayDB = class implements DataBase
  elems: array[DataElem]
  fetch (user: string) returns (DataElem) signals (not_found)
    signal not_found
  end fetch
end ArrayDB\n";
    check(
        &format!("{DATA_BASE}{class}"),
        &[(
            "E0204",
            "class `ArrayDB` does not implement `users () yields (DataElem)` of `DataBase`",
            "ArrayDB",
            "add the method, or an instance variable `users`",
        )],
    );
}

#[test]
fn e0205_restated_method() {
    let heading = "fetch (user: string) returns (DataElem) signals (not_found, denied)";
    check(
        &format!("{DATA_BASE}SafeBase = type < DataBase\n  {heading}\nend SafeBase\n"),
        &[(
            "E0205",
            "`fetch` does not conform to `DataBase.fetch`: it may signal `denied`",
            heading,
            "a subtype may signal only `not_found`",
        )],
    );
}

#[test]
fn e0206_type_argument_without_method() {
    let point = "Point = type\n  x () returns (int)\n  equal (p: Point) returns (bool)\nend Point\n";
    let expected = (
        "E0206",
        "`Point` has no `hash () returns (int)`, which `map` requires of `K`",
        "Point",
        "declare it in `Point`, or use another key type",
    );
    check(&format!("{point}f (m: map[Point, int]) end f\n"), &[expected]);
    let made = "which `map_new` requires of `K`";
    check(
        "f ()\n  map_new[directory, int]()\nend f\n",
        &[(
            "E0206",
            &format!("`directory` has no `hash () returns (int)`, {made}"),
            "directory",
            "use another key type",
        )],
    );
}

#[test]
fn e0207_iterator_outside_for() {
    check(
        &routine("  b := 1.to(9)"),
        &[(
            "E0207",
            "`to` is an iterator and can only be called in a `for`",
            "1.to(9)",
            "write `for i: int in 1.to(9) do … end`",
        )],
    );
}

#[test]
fn e0208_unknown_name() {
    check(&routine("  b := nothing"), &[("E0208", "unknown name `nothing`", "nothing", "")]);
    check(
        &routine("  b := ff(1, 2)\n  limit: int := 3\n  b := limt"),
        &[
            ("E0208", "unknown name `ff`", "ff", ""),
            ("E0208", "unknown name `limt`", "limt", "a similar name exists: `limit`"),
        ],
    );
}

#[test]
fn e0209_defined_twice() {
    check(
        "f () end f\ng () end g\nf () end f\n",
        &[("E0209", "`f` is defined already (line 1)", "f", "choose another name")],
    );
}

#[test]
fn e0210_number_of_results() {
    let two = "divide (a: int, b: int) returns (int, int) signals (zero)\n  return (a / b, a // b) resignal zero\nend divide\n";
    check(two, &[]);
    check(
        &format!("{two}{}", routine("  q, r, s: int := divide(7, 2)")),
        &[("E0210", "3 variables, but 2 values", "q, r, s: int := divide(7, 2)", "")],
    );
    check(&format!("{two}{}", routine("  q, r: int := divide(7, 2)\n  a := q + r")), &[]);
}

#[test]
fn e0211_hides_a_name() {
    check(
        &routine("  if a > 1 then\n    b: int := 1\n  end"),
        &[("E0211", "`b` hides the variable of line 1", "b", "choose another name")],
    );
    check(
        &routine("  string: int := 1"),
        &[("E0211", "`string` hides the type of that name", "string", "choose another name")],
    );
}

#[test]
fn e0214_initialisers() {
    let class = "P = type x () returns (int) end P\nC = class implements P\n  x, y: int\nend C\n";
    check(
        &format!("{class}make_p () returns (P)\n  return (C{{x := 1, z := 2}})\nend make_p\n"),
        &[
            ("E0214", "`C` needs initialiser for `y`", "C{x := 1, z := 2}", "add `y := …`"),
            ("E0214", "class `C` has no instance variable `z` of its own", "z", ""),
        ],
    );
}

#[test]
fn e0301_use_before_assignment() {
    check(
        "f (a: int) returns (int)\n  total: int\n  if a > 1 then total := 1 end\n  return (total)\nend f\n",
        &[(
            "E0301",
            "`total` may be used before it has a value",
            "total",
            "assign it on every path, for example at its declaration",
        )],
    );
    check(
        "f (a: int) returns (int)\n  total: int\n  if a > 1 then total := 1 else signal failure(\"\") end\n  return (total)\nend f\n",
        &[],
    );
}

#[test]
fn e0302_path_without_return() {
    check(
        "nth (n: int) returns (int)\n  if n > 1 then return (1) end\nend nth\n",
        &[(
            "E0302",
            "`nth` can reach its end without returning a value",
            "end nth",
            "add `return (…)` or `signal …`",
        )],
    );
    check(
        "nth (n: int) returns (int)\n  while true do\n    n := n + 1\n    if n > 9 then return (n) end\n  end\nend nth\n",
        &[],
    );
}

#[test]
fn e0303_signal_not_declared() {
    check(
        "put (n: int)\n  if n > 1 then signal full end\nend put\n",
        &[("E0303", "`put` does not list `full`", "full", "add `signals (full)` to the heading")],
    );
}

#[test]
fn e0304_handler_for_nothing() {
    check(
        &format!("{DATA_BASE}f (d: DataBase)\n  d.fetch(\"a\") except when not_foud: end\nend f\n"),
        &[(
            "E0304",
            "nothing in this statement can raise `not_foud`",
            "not_foud",
            "it can raise `not_found`",
        )],
    );
}

#[test]
fn e0306_assignment_in_an_immutable_object() {
    let text = "N = immutable type name () returns (string) end N
C = class implements N
  name: string
  change ()
    name := \"b\"
  end change
end C
";
    check(
        text,
        &[(
            "E0306",
            "`name` belongs to an immutable type and is set only by a constructor or maker",
            "name",
            "build a new object instead",
        )],
    );
}

#[test]
fn e0307_instance_variable_out_of_reach() {
    let text = "N = type size () returns (int) end N
module m exports make_n
  C = class implements N
    size, hidden: int
  end C
  make_n () returns (N) return (C{size := 1, hidden := 2}) end make_n
end m
f (n: N) returns (int)
  return (n.hidden)
end f
";
    check(
        text,
        &[(
            "E0307",
            "`hidden` is an instance variable of class `C` and not visible here",
            "hidden",
            "an object of type `N` has only its methods here",
        )],
    );
}

#[test]
fn e0308_exit_without_handler() {
    check(
        &routine("  exit done"),
        &[(
            "E0308",
            "no handler in `f` handles `done`",
            "done",
            "write `… except when done: … end` around \
            it",
        )],
    );
    check(&routine("  begin\n    exit done(1)\n  end except when done (n: int): b := n end"), &[]);
}

#[test]
fn e0309_break_outside_a_loop() {
    check(
        &routine("  break"),
        &[(
            "E0309",
            "`break` outside a loop",
            "break",
            "`break` leaves the innermost enclosing `while` or `for`",
        )],
    );
}

#[test]
fn a_maker_makes_on_every_path() {
    let class = |body: &str| {
        format!(
            "P = type x () returns (int) end P\nC = class implements P\n  x: int\n  m (n: int) makes (C)\n    {body}\n  end m\nend C\n"
        )
    };
    check(&class("if n > 1 then n := 1 end\n    make {x := n} then self.x := 2 return end"), &[]);
    check(
        &class("if n > 1 then return end\n    make {x := n}"),
        &[(
            "E0214",
            "this `return` ends the maker `m` before `make`",
            "return",
            "signal an exception, or move the other statements into an `if`",
        )],
    );
    check(
        &class("n := 1"),
        &[(
            "E0214",
            "`m` does not end with `make`",
            "end m",
            "write `make {x := e, …}` as its last statement",
        )],
    );
}

/// What a call raises that was not understood is not known, so handlers for it are no second mistake.
#[test]
fn handlers_of_a_wrong_call_are_no_mistake() {
    check(
        "f (s: string) returns (string) signals (bounds)\n  return (s.substr(2)) resignal bounds\nend f\n",
        &[(
            "E0203",
            "`substr` takes 2 arguments, 1 given",
            "(2)",
            "`substr (at: int, count: int) returns (string) signals (bounds)`",
        )],
    );
    check(
        &format!("{DATA_BASE}f (d: DataBase)\n  d.fetsh(\"a\") except when not_found: end\nend f\n"),
        &[(
            "E0201",
            "type `DataBase` has no method `fetsh`",
            "fetsh",
            "a method with a similar name exists: `fetch`",
        )],
    );
    check(
        "f () returns (int)\n  b: nothing := 1\n  return (b.size()) except when bounds: return (0) end\nend f\n",
        &[("E0208", "there is no type `nothing`", "nothing", "define the type, or import its file")],
    );
}

#[test]
fn several_mistakes_in_one_run() {
    check(
        "n = type x () returns (int) end n
f (a: int) returns (int)
  total: int
  if a > 1 then total := \"b\" end
  b: bool := a
  for i: int in a.to(9, 1) do a := a + i end
  return (total.lenght() + c)
end f
g () returns (nothing)
  return (f(1, 2))
end g
",
        &[
            (
                "E0202",
                "expected `int`, found `string`",
                "\"b\"",
                "`string` has `to_int () signals (bad_format, overflow)`",
            ),
            ("E0202", "expected `bool`, found `int`", "a", ""),
            ("E0203", "`to` takes 1 argument, 2 given", "(9, 1)", "`to (limit: int) yields (int)`"),
            (
                "E0301",
                "`total` may be used before it has a value",
                "total",
                "assign it on every path, for example at its declaration",
            ),
            (
                "E0201",
                "type `int` has no method `lenght`",
                "lenght",
                "`int` has `add`, `sub`, `mul`, `div`, `mod`, `power`, `negate`, `abs`",
            ),
            ("E0208", "unknown name `c`", "c", ""),
            ("E0208", "there is no type `nothing`", "nothing", "define the type, or import its file"),
            ("E0203", "`f` takes 1 argument, 2 given", "(1, 2)", "`f (a: int) returns (int)`"),
        ],
    );
}

#[test]
fn constants_are_computed_here() {
    check("a = 7.unparse()\nb = a || 'x'.to_string()\nf () returns (string)\n  return (b)\nend f\n", &[]);
    let help = "a constant is made of literals, other constants and operators";
    check(
        "a = 9223372036854775807.add(1)\nb = \"x\".to_int()\nc = \"x\".fetch(2)\n",
        &[
            ("E0202", "this is not a constant", "9223372036854775807.add(1)", help),
            ("E0202", "this is not a constant", "\"x\".to_int()", help),
            ("E0202", "this is not a constant", "\"x\".fetch(2)", help),
        ],
    );
}

#[test]
fn e0212_import_clash() {
    let mut sources = bifrost_theta::Sources::new();
    sources.add("a.theta", "limit = 1\n");
    sources.add("b.theta", "import a\nlimit = 2\n");
    let found = bifrost_theta::compile(&sources, &bifrost_theta::Options::default()).diagnostics;
    let [clash] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!(
        (clash.code.name(), clash.message.as_str()),
        ("E0212", "the imported name `limit` is used already")
    );
    assert_eq!(sources.slice(clash.span), "import a");
    assert_eq!(clash.help.as_deref(), Some("import it under another name: `(limit as …)`"));
}

#[test]
fn e0305_tags_not_covered() {
    let text = |arms: &str| {
        format!(
            "f (m: maybe[int]) returns (int)\n  tagcase m\n{arms}\n  end\nend f\n\
             g (m: oneof[a: int, b, c: null]) returns (int)\n  tagcase m\n    when a: return (1)\n    when b, c: return (2)\n  end\nend g\n"
        )
    };
    check(
        &text("    when some (v: int): return (v)"),
        &[("E0305", "`tagcase` does not cover tag `none`", "tagcase", "add `when none:` or `others:`")],
    );
    check(&text("    when some (v: int): return (v)\n    when none: return (0)"), &[]);
    check(&text("    when some (v: int): return (v)\n    others: return (0)"), &[]);
    check(
        "f (m: oneof[a, b, c: int])\n  tagcase m\n    when b:\n  end\nend f\n",
        &[("E0305", "`tagcase` does not cover tags `a`, `c`", "tagcase", "add `when a, c:` or `others:`")],
    );
}

#[test]
fn e0306_a_struct_does_not_change() {
    check(
        "f (s: struct[a: int])\n  s.a := 1\nend f\n",
        &[(
            "E0306",
            "`a` belongs to an immutable type and is set only by a constructor or maker",
            "s.a",
            "build a new object instead: `….replace_a(…)`",
        )],
    );
}

#[test]
fn e0310_arms_that_cannot_match() {
    let text = |arms: &str| {
        format!(
            "shape = type end shape\nround = type < shape end round\nball = type < round end ball\n\
             f (s: shape)\n  typecase s\n{arms}  end\nend f\n"
        )
    };
    check(&text("    when ball (b):\n    when round:\n    others:\n"), &[]);
    check(
        &text("    when round:\n    when ball (b):\n"),
        &[(
            "E0310",
            "this arm cannot match: an arm for `round` is before it",
            "ball",
            "place subtypes before their supertypes",
        )],
    );
    check(
        &text("    when shape:\n"),
        &[("E0310", "this arm cannot match: every object here is a `shape`", "shape", "write `others:`")],
    );
    check(
        &text("    when string:\n"),
        &[(
            "E0310",
            "this arm cannot match: `string` is not a subtype of `shape`",
            "string",
            "name a subtype of `shape`",
        )],
    );
    check(
        "f (a: any)\n  typecase a\n    when int (n):\n    when null:\n    when int:\n  end\nend f\n",
        &[(
            "E0310",
            "this arm cannot match: an arm for `int` is before it",
            "int",
            "place subtypes before their supertypes",
        )],
    );
    check(
        "f (m: maybe[int])\n  tagcase m\n    when some:\n    when none, some:\n  end\nend f\n",
        &[(
            "E0310",
            "this arm cannot match: tag `some` has an arm before it",
            "some",
            "leave one of them out",
        )],
    );
}

#[test]
fn basic_values_of_one_exception_have_one_type() {
    let text = |arm: &str| {
        format!(
            "p () signals (bad (int)) end p\nq () signals (bad (string)) end q\n\
             f () signals (bad (any))\n  begin p() q() end {arm}\nend f\n"
        )
    };
    check(&text("except when bad (*): end"), &[]);
    check(
        &text("except when bad (v: any): end"),
        &[(
            "E0202",
            "`bad` is raised here with basic values of different types",
            "bad",
            "write a separate handler for each statement that raises it",
        )],
    );
    check(
        &text("resignal bad"),
        &[("E0202", "`bad` has other values here than in the heading of `f`", "bad", "")],
    );
}

/// An account, and `main` around statements.
fn main_with(body: &str) -> String {
    format!(
        "Account = type balance () returns (int)   deposit (n: int) end Account
next (a: Account) returns (Account) return (a) end next
each (a: array[Account]) yields (Account) for b: Account in a.elements() do yield (b) end end each
main (all: array[Account], best: Account)
{body}
end main
"
    )
}

#[test]
fn e0409_a_value_that_leaves_its_transaction() {
    let body = "  n: int\n  s: sequence[string]\n  x: any\n  transaction
    n := best.balance()
    s := sequence_of[string](.. n.unparse())
    x := n
    inner: Account := best
    inner := next(inner)
    best, n := next(best), 1
  end";
    check(
        &main_with(body),
        &[(
            "E0409",
            "`best` is declared outside this transaction, which a `Account` cannot leave",
            "next(best)",
            "declare `best` in the transaction, or assign an immutable part, such as a `string`",
        )],
    );
    let body = "  copies: array[int]\n  transaction\n    copies := array_new[int]()\n  end";
    check(
        &main_with(body),
        &[(
            "E0409",
            "`copies` is declared outside this transaction, which a `array[int]` cannot leave",
            "array_new[int]()",
            "declare `copies` in the transaction, or assign an immutable part, such as a `string`",
        )],
    );
}

#[test]
fn e0410_a_transaction_where_none_can_stand() {
    let elsewhere = (
        "E0410",
        "a transaction is allowed only in `main` and in methods of actors",
        "transaction",
        "call this from a transaction in `main`; calls of clients are in a transaction",
    );
    check(&routine("  transaction a := b end"), &[elsewhere]);
    let method = "C = class\n  x: int\n  main () transaction x := 1 end end main\nend C\n";
    check(method, &[elsewhere]);
    check(
        &main_with("  transaction\n    if true then transaction best.deposit(1) end end\n  end"),
        &[(
            "E0410",
            "a transaction in the transaction of line 5",
            "transaction best",
            "remove this transaction: its statements belong to the outer one",
        )]
        .map(|(code, message, _, help)| (code, message, "transaction", help)),
    );
    let of_elements = "  for a: Account in all.elements() do\n    for i: int in 1.to(2) do transaction a.deposit(i) end end\n  end";
    check(
        &main_with(of_elements),
        &[(
            "E0410",
            "a transaction in a loop over `all.elements()`, which is mutable",
            "transaction",
            "loop over the elements of a `sequence`, or use `while`",
        )],
    );
    let of_iterator = "  for a: Account in each(all) do transaction a.deposit(1) end end";
    check(
        &main_with(of_iterator),
        &[(
            "E0410",
            "a transaction in a loop over `each(all)`, which is mutable",
            "transaction",
            "loop over the elements of a `sequence`, or use `while`",
        )],
    );
    let fine = "  for a: Account in all.to_sequence().elements() do\n    while a.balance() < 9 do transaction\n      for b: Account in each(all) do b.deposit(1) end\n    end end\n  end";
    check(&main_with(fine), &[]);
    let called = format!(
        "{}f (a: array[Account], b: Account) main(a, b) end f\n",
        main_with("  transaction best.deposit(1) end")
    );
    check(
        &called,
        &[(
            "E0410",
            "`main` has transactions and cannot be called",
            "main",
            "move the common part to a routine of its own",
        )],
    );
}

#[test]
fn e0215_the_word_for_clients_where_they_cannot_call() {
    let leave = "leave the word out, or give the routine another name";
    let mistake = |text: &str, why: &str, help: &str| {
        let message = format!("clients cannot call `{}`: {why}", text.split(' ').nth(1).unwrap());
        check(text, &[("E0215", &message, "remote", help)]);
    };
    let runs = "it runs the program itself";
    mistake("remote setup () end setup\n", runs, leave);
    mistake("remote start () end start\n", runs, leave);
    mistake("remote main () end main\n", runs, leave);
    mistake("remote main (args: sequence[string]) end main\n", runs, leave);
    let begins = "leave the word out, or give the routine a name that begins otherwise";
    mistake("remote migrate_C (n: int) end migrate_C\n", "it is a migration of stored objects", begins);
    mistake(
        "remote one [T] (v: T) returns (T) return (v) end one\n",
        "it has type parameters, and clients know no instantiations of it",
        "write a routine without type parameters that calls it, and mark that one",
    );
    mistake(
        "remote apply (f: proc (int)) f(1) end apply\n",
        "clients cannot give or take routines",
        "take and return objects and values",
    );
    let hidden = "module m exports g\n  remote f () end f\n  g () f() end g\nend m\n";
    let message = "clients cannot call `f`: its module does not export it";
    check(hidden, &[("E0215", message, "remote", "list it: `module m exports ..., f`")]);
    let help = "leave the word out: clients see types and their methods without it";
    for text in ["remote size = int\n", "remote T = type end T\n", "remote A = actor end A\n"] {
        check(text, &[("E0215", "only routines can be `remote`", "remote", help)]);
    }
    // Where it is right; and it is a name like others.
    check("remote f (n: int) returns (int) return (n) end f\nremote setup (n: int) f(n) end setup\n", &[]);
    check("module m exports f\n  remote f () yields (int) yield (1) end f\nend m\n", &[]);
    check("remote (remote: int) returns (int) return (remote) end remote\nf () remote(1) end f\n", &[]);
    check("remote remote () end remote\n", &[]);
}
