//! The rules of section 6 of the definition: classes, inheritance, makers, visibility.

mod support;

use support::check;

const STACK: &str = "stack = type push (v: int)   size () returns (int) end stack
module stacks exports new_stack, Base
  Base = class implements stack provides make_base hides secret
    items: array[int]
    push (v: int) items.append(v) end push
    size () returns (int) return (items.length()) end size
    helper () returns (int) return (7) end helper
    secret () returns (int) return (8) end secret
    make_base () makes (Base) make {items := array_new[int]()} end make_base
  end Base
  new_stack () returns (stack) return (Base{items := array_new[int]()}) end new_stack
  raw () returns (Base) return (Base{items := array_new[int]()}) end raw
end stacks
";

#[test]
fn inherited_variables_and_hidden_methods_are_out_of_reach() {
    check(
        &format!(
            "{STACK}Sub = class implements stack inherits Base
  f () returns (int)
    return (items.length())
  end f
  g () returns (int) return (self.items.length()) end g
  h () returns (int) return (self.secret()) end h
  k () returns (int) return (self.helper()) end k
end Sub
"
        ),
        &[
            ("E0208", "unknown name `items`", "items", ""),
            (
                "E0307",
                "`items` is an instance variable of class `Base` and not visible here",
                "items",
                "an object of type `Sub` has only its methods here",
            ),
            (
                "E0201",
                "type `Sub` has no method `secret`",
                "secret",
                "`Sub` has `f`, `g`, `h`, `k`, `push`, `size`",
            ),
            (
                "E0201",
                "type `Sub` has no method `helper`",
                "helper",
                "`Sub` has `f`, `g`, `h`, `k`, `push`, `size`",
            ),
        ],
    );
}

#[test]
fn classes_of_another_module_serve_only_to_inherit() {
    check(
        &format!(
            "{STACK}f (b: Base) end f
g () returns (stack) return (Base{{items := array_new[int]()}}) end g
"
        ),
        &[
            (
                "E0208",
                "class `Base` is not visible as a type outside its module",
                "Base",
                "use a type that it implements",
            ),
            (
                "E0307",
                "objects of class `Base` are made only in its module",
                "Base",
                "call a routine that returns such an object",
            ),
        ],
    );
}

#[test]
fn private_methods_stay_in_the_module() {
    check(
        "module m exports get
  C = class
    x: int
    own () returns (int) return (x) end own
  end C
  get () returns (C) return (C{x := 1}) end get
  f () returns (int) return (get().own() + get().x) end f
end m
g () returns (int)
  return (get().own() + get().x)
end g
",
        &[
            ("E0201", "type `C` has no method `own`", "own", "`own` is private to the module of class `C`"),
            (
                "E0307",
                "`x` is an instance variable of class `C` and not visible here",
                "x",
                "an object of type `C` has only its methods here",
            ),
        ],
    );
}

#[test]
fn inheriting_makes_no_subtype() {
    check(
        &format!(
            "{STACK}Sub = class inherits Base
end Sub
f () returns (stack)
  return (Sub{{make_base()}})
end f
"
        ),
        &[("E0202", "expected `stack`, found `Sub`", "Sub{make_base()}", "")],
    );
}

#[test]
fn names_of_inherited_methods() {
    check(
        &format!(
            "{STACK}Sub = class implements stack inherits Base {{push for push, size2 for sise, push for size}}
  size2 () end size2
end Sub
"
        ),
        &[
            ("E0209", "`push` is both a method of this class and the new name of an inherited method", "Sub", "choose \
                another name"),
            ("E0204", "class `Sub` does not implement `size () returns (int)` of `stack`", "Sub", "add the method, or an instance variable `size`"),
            ("E0201", "type `Base` has no method `sise`", "sise", "a method with a similar name exists: `size`"),
            ("E0209", "`push` is defined already (line 14)", "push", "choose another name"),
        ],
    );
    // An override must fit what the superclass calls.
    check(
        &format!(
            "{STACK}Sub = class inherits Base\n  size () returns (string) return (\"\") end size\nend Sub\n"
        ),
        &[(
            "E0205",
            "`size` does not conform to `Base.size`: it returns `string`, not `int`",
            "size () returns (string)",
            "the heading there is `size () returns (int)`",
        )],
    );
}

#[test]
fn several_classes_and_several_types() {
    check(
        "named = type name () returns (string) end named
sized = type size () returns (int)   set_size (n: int) end sized
both = type < named, sized {length for size, set_length for set_size} end both
A = class implements named, sized   name: string   size: int end A
B = class implements both   name: string   length: int end B
f () returns (named)
  b: both := B{name := \"b\", length := 1}
  s: sized := b
  s.set_size(4)
  return (A{name := b.name(), size := s.size()})
end f
",
        &[],
    );
    check(
        "named = type name () returns (string) end named\nA = class implements named, named   name: string end A\n",
        &[("E0209", "`named` is named already", "named", "leave one of them out")],
    );
}

#[test]
fn methods_of_several_supertypes_conform_or_are_renamed() {
    let types = "a = type m () returns (any) end a\nb = type m () returns (string) end b\n";
    // The heading of `b` serves for both, in either order.
    check(
        &format!(
            "{types}s = type < a, b end s\nt = type < b, a end t\nf (s: s, t: t) returns (string) return (s.m() || t.m()) end f\n"
        ),
        &[],
    );
    check(
        &format!("{types}c = type m (x: int) end c\ns = type < a, c end s\n"),
        &[(
            "E0205",
            "`m` does not conform to `c.m`: it takes 0 arguments, not 1",
            "s",
            "the heading there is `m (x: int)`",
        )],
    );
    check(&format!("{types}c = type m (x: int) end c\ns = type < a, c {{n for m}} end s\n"), &[]);
}

#[test]
fn one_method_serves_each_method_of_a_supertype() {
    let types = "base = type get () returns (string)   put (s: string) end base
aa = type < base a () end aa
bb = type < base b () end bb
";
    let help = "rename the method in both supertypes, or in neither";
    let wrong = |message| [("E0205", message, "both", help)];
    let parted = "`get` and `letter` are both the method `get` of `base`";
    check(&format!("{types}both = type < aa, bb {{letter for get}} end both\n"), &wrong(parted));
    check(&format!("{types}both = type < base, bb {{letter for get}} end both\n"), &wrong(parted));
    check(
        &format!("{types}both = type < aa, bb {{letter for get}}   letter () returns (string) end both\n"),
        &wrong("`letter` and `get` are both the method `get` of `base`"),
    );
    // Said once for `base.put` and `top.put`, and once for each pair of names.
    check(
        &format!(
            "top = type put (s: string) end top\n{}both = type < aa {{fetch for get}}, bb {{store for put}} end both\n",
            types.replace("type get", "type < top get")
        ),
        &[
            ("E0205", "`fetch` and `get` are both the method `get` of `base`", "both", help),
            ("E0205", "`put` and `store` are both the method `put` of `base`", "both", help),
        ],
    );
    // The same name in both, or a method that only one of them has.
    check(
        &format!("{types}both = type < aa {{letter for get, x for a}}, bb {{letter for get}} end both\n"),
        &[],
    );
    // A method behind a box, too.
    check(
        "base = type get () returns (any) end base
aa = type < base get () returns (int) end aa
bb = type < base get () returns (int) end bb
whole = type < aa, bb end whole
both = type < aa, bb {letter for get} end both
",
        &wrong(parted),
    );
    // Classes take names as they are, which may have been parted above.
    check(
        &format!(
            "{types}cc = type < base {{letter for get}} end cc
P = class implements aa, cc
  get, letter: string
  a () end a
  put (s: string) end put
end P
Q = class implements aa, bb
  get: string
  a () end a
  b () end b
  put (s: string) end put
end Q
"
        ),
        &[(
            "E0205",
            "`get` and `letter` are both the method `get` of `base`",
            "P",
            "combine types with the same name for the method",
        )],
    );
}

#[test]
fn objects_of_immutable_types_hold_nothing_mutable() {
    let help = "use an immutable type, for example `sequence[T]` in place of `array[T]`";
    let text = "p = immutable type x () returns (int) end p
q = type < p end q
C = class implements q
  x: int   a: array[int]   s: sequence[array[int]]   p: p   n: any   ok: sequence[p]
end C
cube = immutable type [T] value () returns (T) end cube
Box = class [T] implements cube[T] value: T end Box
f () Box[array[int]]{value := array_new[int]()} end f
";
    let row = |name, ty| {
        ("E0306", format!("`{name}` belongs to an immutable type, so its type cannot be `{ty}`"), name, help)
    };
    let rows = [row("a", "array[int]"), row("s", "sequence[array[int]]"), row("n", "any")];
    let rows: Vec<_> =
        rows.iter().map(|(code, text, span, help)| (*code, text.as_str(), *span, *help)).collect();
    check(text, &rows);
    // What an instantiation holds is known when it is made.
    let generic = text.split("cube =").nth(1).unwrap();
    let (_, text, span, help) = row("value", "array[int]");
    check(&format!("cube ={generic}"), &[("E0306", text.as_str(), span, help)]);
}

#[test]
fn an_immutable_class_inherits_from_immutable_ones() {
    check(
        &format!(
            "{STACK}p = immutable type size () returns (int) end p\nSub = class implements p inherits Base end Sub\n"
        ),
        &[(
            "E0306",
            "an immutable class cannot inherit from `Base`, which is mutable",
            "Base",
            "let the superclass implement an immutable type, too",
        )],
    );
}

#[test]
fn handlers_of_make() {
    let text = |handlers: &str| {
        format!(
            "risky (n: int) returns (int) signals (bad) if n < 0 then signal bad end return (n) end risky
C = class provides m
  n: int
  use () signals (late) if n = 0 then signal late end end use
  m (n0: int) makes (C) signals (wrong)
    make {{n := risky(n0)}} then self.use() end
    {handlers}
  end m
end C
"
        )
    };
    check(&text("except when bad: signal wrong when late: end"), &[]);
    check(&text("except when bad: signal wrong when late: self.use() except when late: end end"), &[]);
    check(&text("except when bad: signal wrong others: signal wrong end"), &[]);
    check(
        &text("except when bad: when late: end"),
        &[(
            "E0214",
            "this arm ends, but `m` has no `make` before it",
            "bad",
            "signal an exception at its \
            end",
        )],
    );
    check(
        &text("except when bad: signal wrong when nope: end"),
        &[("E0304", "nothing in this statement can raise `nope`", "nope", "it can raise `late`")],
    );
    check(
        &text("resignal wrong"),
        &[("E0304", "nothing in this statement can raise `wrong`", "wrong", "it can raise `late`")],
    );
}

#[test]
fn makers_with_type_parameters() {
    check(
        "C = class [T] provides fill
  items: array[T]
  fill [U] (from: array[U], n: U) makes (C[T]) where U has lt (U) returns (bool), T has unparse () returns (string)
    make {items := array_new[T]()} then
      if n < n then self.items.clear() end
    end
  end fill
end C
D = class inherits C[int] end D
E = class inherits C[any] end E
P = type x () end P
f (p: P)
  D{fill(array_new[string](), \"\")}
  D{fill[real](array_new[real](), 1.5)}
  D{fill(array_new[P](), p)}
  D{fill[int, int](array_new[int](), 1)}
  E{fill(array_new[int](), 1)}
end f
",
        &[
            (
                "E0206",
                "`P` has no `lt (P) returns (bool)`, which `fill` requires of `U`",
                "fill",
                "declare it in `P`, or use another type",
            ),
            ("E0203", "`fill` takes 1 type argument, 2 given", "fill", "write `fill[U]`"),
            (
                "E0206",
                "`any` has no `unparse () returns (string)`, which `fill` requires of `T`",
                "fill",
                "use another type",
            ),
        ],
    );
}
