//! Generic definitions: mistakes are found once, in the text that has them; where clauses hold; nothing grows
//! without end.

mod support;

use support::{check, compile_text};

const POINT: &str = "Point = type x () returns (int) end Point\n";

#[test]
fn a_mistake_in_generic_code_is_reported_once_and_without_a_use() {
    let text = "f [T] (x: T) returns (T)
  n: int := \"a\"
  return (x)
end f
";
    let row = (
        "E0202",
        "expected `int`, found `string`",
        "\"a\"",
        "`string` has `to_int () signals (bad_format, overflow)`",
    );
    check(text, &[row]);
    check(&format!("{text}g () f(1) f(\"b\") f(2.5) end g\n"), &[row]);
}

#[test]
fn a_parameter_has_just_what_its_where_clause_gives() {
    check(
        "f [T] (x: T, y: T) returns (bool)
  z: any := x
  return (x = y)
end f
",
        &[("E0201", "type `T` has no method `equal`", "=", "add `where T has equal (…) …` to the heading")],
    );
    check(
        "f [T] (x: T) returns (string) where T has name () returns (string), size () returns (int) signals (bad)
  x.nam()
  return (x.name())
end f
g [T] (x: T) returns (int) where T has size () returns (int) signals (bad)
  return (x.size())
end g
h [T] (x: T) where T has size () returns (int)
  f(x)
end h
",
        &[
            ("E0201", "type `T` has no method `nam`", "nam", "a method with a similar name exists: `name`"),
            (
                "E0206",
                "`T` has no `name () returns (string)`, which `f` requires of `T`",
                "f",
                "add `where T has name () returns (string)`",
            ),
        ],
    );
}

#[test]
fn where_clauses_hold_at_each_use() {
    let row = |span| {
        (
            "E0206",
            "`Point` has no `lt (Point) returns (bool)`, which `sorted` requires of `T`",
            span,
            "declare it in `Point`, or use another type",
        )
    };
    let sorted = "sorted = type [T] where T has lt (T) returns (bool) low () returns (T) end sorted\n";
    check(&format!("{POINT}{sorted}f (a: sorted[int], b: sorted[Point]) end f\n"), &[row("Point")]);
    // Through a generic definition that does not ask for it, too.
    check(
        &format!("{POINT}{sorted}f [T] (a: sorted[T]) end f\n"),
        &[(
            "E0206",
            "`T` has no `lt (T) returns (bool)`, which `sorted` requires of `T`",
            "T",
            "add `where T has lt (T) returns (bool)`",
        )],
    );
    check(
        &format!(
            "{POINT}{sorted}f [U] (a: sorted[U]) where U has lt (U) returns (bool) end f\ng (p: sorted[Point]) f(p) end g\n"
        ),
        &[
            row("Point"),
            (
                "E0206",
                "`Point` has no `lt (Point) returns (bool)`, which `f` requires of `U`",
                "f",
                "declare it in `Point`, or use another type",
            ),
        ],
    );
    // Basic types have the methods of their operators.
    check(
        "f [T] (a: T) where T has nope () end f\ng () f[int](1) end g\n",
        &[("E0206", "`int` has no `nope ()`, which `f` requires of `T`", "int", "use another type")],
    );
    // A method that does not conform is none.
    check(
        "P = type lt (x: int) returns (bool) end P\nf [T] (a: T) where T has lt (T) returns (bool) end f\ng (p: P) f(p) end g\n",
        &[(
            "E0206",
            "`P` has no `lt (P) returns (bool)`, which `f` requires of `T`",
            "f",
            "the heading there is `lt (x: int) returns (bool)`",
        )],
    );
    // Inherited methods count, with arguments that are wider and fewer exceptions.
    check(
        "B = type lt (x: B) returns (bool) end B\nP = type < B end P
f [T] (a: T) returns (bool) where T has lt (T) returns (bool) signals (bad)
  return (a < a) except when bad: return (false) end
end f
g (p: P) returns (bool) return (f(p)) end g\n",
        &[],
    );
}

#[test]
fn where_clauses_name_parameters() {
    check(
        "f [T] (a: T) where U has m (), T has m (), m () end f\n",
        &[
            ("E0208", "`U` is not a type parameter of `f`", "U", ""),
            ("E0209", "`m` is defined already (line 1)", "m", "choose another name"),
        ],
    );
    check(
        "t = type m () where T has m () end t\n",
        &[("E0208", "`T` is not a type parameter of `m`", "T", "")],
    );
}

#[test]
fn numbers_of_type_arguments() {
    check(
        "pair = type [A, B] end pair\nf (a: pair, b: pair[int], c: int[int]) end f
g [A, B] (a: A, b: B) end g\nh () g[int](1, 2) h[int]() end h\nk [T] (x: T[int]) end k\n",
        &[
            ("E0203", "`pair` takes 2 type arguments, 0 given", "pair", "write `pair[A, B]`"),
            ("E0203", "`pair` takes 2 type arguments, 1 given", "pair[int]", "write `pair[A, B]`"),
            ("E0203", "`int` takes 0 type arguments, 1 given", "int[int]", "write `int`"),
            ("E0203", "`g` takes 2 type arguments, 1 given", "g[int]", "write `g[A, B]`"),
            ("E0203", "`h` has no type parameters", "h[int]", "write `h`"),
            ("E0203", "`T` has no type parameters", "T[int]", "write `T`"),
        ],
    );
}

#[test]
fn type_arguments_are_inferred_by_exact_match() {
    check(
        "same [T] (a: T, b: T) end same
first [T] (a: array[T], n: int) returns (T) signals (bounds) return (a[1]) resignal bounds end first
fresh [T] () returns (array[T]) return (array_new[T]()) end fresh
all [T] (x: sequence[T]) end all
f (s: string, l: list[int])
  same(1, s)
  fresh()
  first(l, 1)
  all(.. 1, s)
  all(s)
  same(qqq, 1)
  b: array[int] := fresh[int]()
  same(b, b)
end f
",
        &[
            (
                "E0202",
                "`T` of `same` is `int` by another argument, but `string` by this one",
                "s",
                "write `same[T](…)` with the types of this call",
            ),
            (
                "E0203",
                "`T` of `fresh` cannot be found from the arguments",
                "fresh",
                "write `fresh[T](…)` with the types of this call",
            ),
            (
                "E0203",
                "`T` of `first` cannot be found from the arguments",
                "first",
                "write `first[T](…)` with the types of this call",
            ),
            (
                "E0202",
                "`T` of `all` is `int` by another argument, but `string` by this one",
                "s",
                "write `all[T](…)` with the types of this call",
            ),
            (
                "E0203",
                "`T` of `all` cannot be found from the arguments",
                "all",
                "write `all[T](…)` with the types of this call",
            ),
            ("E0208", "unknown name `qqq`", "qqq", ""),
        ],
    );
}

#[test]
fn parameters_are_types_and_nothing_else() {
    check(
        "s = type [T] < T end s
C = class [T] implements T end C
f [T, T] (x: T) returns (T)
  return (T)
end f
g [int] (x: int) end g
t = type m [U] (x: int) end t
",
        &[
            (
                "E0208",
                "`T` cannot have subtypes",
                "T",
                "built-in types have `any` as their only supertype and no subtypes",
            ),
            ("E0208", "`T` cannot be implemented", "T", "name a type defined by `type`"),
            ("E0209", "`T` is defined already (line 3)", "T", "choose another name"),
            ("E0208", "`T` is a type, not a value", "T", ""),
            ("E0211", "`int` hides the type of that name", "int", "choose another name"),
            (
                "E0109",
                "a method has no type parameters of its own",
                "U",
                "declare them at its type, or write a routine",
            ),
        ],
    );
}

#[test]
fn methods_with_a_where_clause_exist_where_it_holds() {
    check(
        &format!(
            "{POINT}bag = type [T] sort () where T has lt (T) returns (bool)   size () returns (int) end bag
big = type [T] < bag[T] {{order for sort}} end big
f (a: bag[int], b: bag[Point], c: big[int], d: big[Point])
  a.sort()
  b.sort()
  c.order()
  d.order()
end f
"
        ),
        &[
            ("E0201", "type `bag[Point]` has no method `sort`", "sort", "`bag[Point]` has `size`"),
            ("E0201", "type `big[Point]` has no method `order`", "order", "`big[Point]` has `size`"),
        ],
    );
}

#[test]
fn a_class_has_a_method_wherever_its_type_has_it() {
    let text = |clause: &str| {
        format!(
            "t = type [T] m (x: T) where T has lt (T) returns (bool) end t
C = class [T] implements t[T]
  m (x: T) where T has {clause} x.lt(x) end m
end C
new_c [T] () returns (t[T]) return (C[T]{{}}) end new_c
f () new_c[int]() end f
"
        )
    };
    check(&text("lt (T) returns (bool)"), &[]);
    check(
        &text("lt (T) returns (bool), nope ()"),
        &[(
            "E0204",
            "class `C` does not implement `m (x: int)` of `t[int]`",
            "C",
            "add the method, or an instance variable `m`",
        )],
    );
}

#[test]
fn what_a_where_clause_of_a_method_gives_holds_in_that_method_only() {
    check(
        "C = class [T]
  v: T
  m () returns (bool) where T has lt (T) returns (bool) return (v < v) end m
  n () returns (bool) return (v < v) end n
  k () returns (bool) where T has lt (T) returns (bool) return (self.m()) end k
  l () returns (bool) return (self.m()) end l
end C
",
        &[
            ("E0201", "type `T` has no method `lt`", "<", "add `where T has lt (…) …` to the heading"),
            ("E0201", "type `C[T]` has no method `m`", "m", "`C[T]` has `n`, `l`"),
        ],
    );
}

#[test]
fn equates_in_generic_definitions_may_name_parameters() {
    check(
        "C = class [T]
  rows = array[cells]
  cells = array[T]
  data: rows
  get (i: int, j: int) returns (T) signals (bounds)
    row: cells := data[i] resignal bounds
    return (row[j]) resignal bounds
  end get
end C
f (a: array[array[int]], b: array[array[string]]) returns (int) signals (bounds)
  s: string := C[string]{data := b}.get(1, 1) resignal bounds
  return (C[int]{data := a}.get(1, 1) + s.length()) resignal bounds
end f
",
        &[],
    );
}

#[test]
fn instantiations_have_their_arguments_in_their_names() {
    let (_, compilation) = compile_text(
        "pair = type [A, B] first () returns (A) end pair
f (p: pair[int, array[string]]) returns (pair[pair[int, int], string]) signals (no) signal no end f
g [T] (x: T) end g
h () g(1) g(\"x\") end h
",
    );
    let program = compilation.program.unwrap();
    for name in ["pair[int, array[string]]", "pair[pair[int, int], string]", "pair[int, int]"] {
        let ty = program.types.find(name).unwrap_or_else(|| panic!("{name}"));
        assert!(program.types.def(ty).public, "{name}");
    }
    assert!(program.types.iter().all(|(_, def)| def.name != "T" && !def.name.contains("[A")));
    assert!(program.find_routine("g[int]").is_some() && program.find_routine("g[string]").is_some());
    assert_eq!(program.routines.values().filter(|routine| routine.name.starts_with("g[")).count(), 2);
}

#[test]
fn nothing_grows_without_end() {
    let grows = "an instantiation that needs a larger one of itself is infinite";
    let deep = "type arguments are nested deeper than 64 levels";
    check("f [T] (x: T) f(array_fill(1, 1, x)) end f\ng () f(1) end g\n", &[("E0109", deep, "f", grows)]);
    // Nobody asks for an end.
    check("f [T] (x: T) f(array_fill(1, 1, x)) end f\n", &[]);
    check("t = type [T] m () returns (t[list[T]]) end t\n", &[("E0109", deep, "t[list[T]]", grows)]);
    check(
        "t = type [T] < u[list[T]] end t\nu = type [T] < t[T] end u\n",
        &[("E0109", deep, "u[list[T]]", grows)],
    );
    check("C = class [T] inherits C[list[T]] end C\n", &[("E0109", deep, "C[list[T]]", grows)]);
    let doubles = "the name of this instantiation is longer than 4096 bytes";
    let help = "define a type for the inner types";
    let pair = "pair = type [A, B] end pair\n";
    check(
        &format!("{pair}t = type [T] m () returns (t[pair[T, T]]) end t\n"),
        &[("E0109", doubles, "pair[T, T]", help)],
    );
}

#[test]
fn explosions_end() {
    let texts = [
        "t = type [T] a () returns (t[array[T]])   b () returns (t[list[T]]) end t\n",
        "f [T] (x: T) f(array_fill(1, 1, x)) f(cell_new[T]()) end f\ng () f(1) end g\n",
        "C = class [T] m () C[array[T]]{} C[list[T]]{} end m end C\nf () C[int]{} end f\n",
        "C = class [T] provides k k () makes (C[T]) make {} then D[array[T]]{k()} end end k end C
D = class [T] inherits C[T] end D\nf () D[int]{k()} end f\n",
        "C = class provides k k [T] (x: T) makes (C) make {} then D{k(array_fill(1, 1, x))} end end k end C
D = class inherits C end D\nf () D{k(1)} end f\n",
    ];
    for text in texts {
        let (_, compilation) = compile_text(text);
        assert!(compilation.program.is_none(), "{text}");
        assert!(
            compilation.diagnostics.iter().all(|d| ["E0109", "E0199"].contains(&d.code.name())),
            "{text}"
        );
    }
}

#[test]
fn cycles_through_generic_types_are_found() {
    check(
        "a = type [T] < b[T] end a\nb = type [T] < a[T] end b\n",
        &[
            ("E0208", "type `a` would be a supertype of itself", "b[T]", ""),
            ("E0208", "type `b` would be a supertype of itself", "a[T]", ""),
        ],
    );
    check(
        "A = class [T] inherits B[T] end A\nB = class [T] inherits A[T] end B\n",
        &[
            ("E0208", "class `A` would inherit from itself", "A", ""),
            ("E0208", "class `B` would inherit from itself", "B", ""),
        ],
    );
    // A type below an instantiation with itself is none.
    check("ordered = type [T] lt (x: T) returns (bool) end ordered\ns = type < ordered[s] end s\n", &[]);
}

#[test]
fn thousands_of_parameters() {
    let list = |n: usize| (0..n).map(|n| format!("T{n}")).collect::<Vec<_>>().join(", ");
    let (_, compilation) = compile_text(&format!("f [{}] () end f\n", list(100_000)));
    assert!(compilation.program.is_none());
    let (_, compilation) = compile_text(&format!("f [{}] () end f\n", list(500)));
    assert!(compilation.program.is_some());
}

/// What the body relies on is the where clause, even where an argument's method gives more.
#[test]
fn a_body_sees_no_more_than_the_where_clause_gives() {
    check(
        "base = type name () returns (string) end base
derived = type < base more () returns (int) end derived
source = type fresh () returns (derived)   all () yields (derived) end source
pick [U] (a: U, b: U) returns (U) return (b) end pick
f [T] (t: T, other: base) returns (base)
  where T has fresh () returns (base), all () yields (base), close () signals (busy)
  for x in t.all() do
    x := other
    t.close() except when busy: x := t.fresh() end
  end
  return (pick(t.fresh(), other))
end f
quiet = type < source close () end quiet
g (t: quiet, other: base) returns (base) return (f(t, other)) end g
",
        &[],
    );
}
