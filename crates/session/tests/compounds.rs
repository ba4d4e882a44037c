//! Objects that cross by value: compounds from clients, and contents for them.

mod support;

use bifrost_runtime::Limits as CxLimits;
use bifrost_session::Limits;
use bifrost_wire::Limit;
use support::{STACK_BYTES, World, assert_text, collections, load, modes};

const TEXT: &str = "point = struct[x: int, y: int]
line = struct[name: string, from: point, to: point]
ints = sequence[int]
shape = oneof[dot: point, circle: real, nothing: null]
account = record[owner: string, sums: array[int]]
leaf = type name () returns (string) end leaf
tree = struct[at: leaf, below: sequence[struct[at: leaf, below: sequence[leaf]]]]
shop = type
  sum (all: ints) returns (int)
  length (l: line) returns (int)
  area (s: shape) returns (string)
  first (p: maybe[point]) returns (int)
  names (all: sequence[leaf]) returns (string)
  deep (all: sequence[sequence[sequence[int]]]) returns (int)
  ints (n: int) returns (ints)
  shape (n: int) returns (shape)
  maybe (n: int) returns (maybe[string])
  account () returns (account)
  deposit (n: int)
  list () returns (list[int])
  map () returns (map[string, point])
  vector () returns (vector[real])
  tree () returns (tree)
  leaf (name: string) returns (leaf)
  points (n: int) yields (point)
  thing () returns (any)
  any (a: any) returns (string)
  bits () returns (bytes)
end shop
module shops exports new_shop
  Leaf = class implements leaf
    named: string
    name () returns (string) return (named) end name
  end Leaf
  Shop = class implements shop
    held: account
    sum (all: ints) returns (int)
      total: int := 0
      for i: int in all.elements() do total := total + i end
      return (total)
    end sum
    length (l: line) returns (int) return (l.to.x - l.from.x + l.to.y - l.from.y + l.name.length()) end length
    area (s: shape) returns (string) return (s.unparse()) end area
    first (p: maybe[point]) returns (int)
      tagcase p
        when some (q: point): return (q.x)
        when none: return (-1)
      end
    end first
    names (all: sequence[leaf]) returns (string)
      text: string := \"\"
      for n: leaf in all.elements() do text := text || n.name() end
      return (text)
    end names
    deep (all: sequence[sequence[sequence[int]]]) returns (int)
      total: int := 0
      for a: sequence[sequence[int]] in all.elements() do
        for b: sequence[int] in a.elements() do total := total + self.sum(b) end
      end
      return (total)
    end deep
    ints (n: int) returns (ints)
      a: array[int] := array_new[int]()
      for i: int in 1.to(n) do a.append(i) end
      return (a.to_sequence())
    end ints
    shape (n: int) returns (shape)
      if n = 0 then return (shape{nothing: nil}) end
      if n = 1 then return (shape{circle: 1.5}) end
      return (shape{dot: point{x: n, y: n}})
    end shape
    maybe (n: int) returns (maybe[string])
      if n = 0 then return (none[string]()) end
      return (some(\"found\"))
    end maybe
    account () returns (account) return (held) end account
    deposit (n: int) held.sums.append(n) end deposit
    list () returns (list[int]) return (list_of[int](.. 3, 1, 2)) end list
    map () returns (map[string, point])
      m: map[string, point] := map_new[string, point]()
      m.store(\"one\", point{x: 1, y: 1})
      m.store(\"two\", point{x: 2, y: 2})
      return (m)
    end map
    vector () returns (vector[real])
      v: vector[real] := vector_new[real](2, 0.5)
      return (v)
    end vector
    tree () returns (tree)
      inner: struct[at: leaf, below: sequence[leaf]] :=
        struct[at: leaf, below: sequence[leaf]]{at: Leaf{named := \"b\"}, below: sequence_of[leaf](.. Leaf{named := \"c\"})}
      return (tree{at: Leaf{named := \"a\"}, below: sequence_of[struct[at: leaf, below: sequence[leaf]]](.. inner)})
    end tree
    leaf (name: string) returns (leaf) return (Leaf{named := name}) end leaf
    points (n: int) yields (point) for i: int in 1.to(n) do yield (point{x: i, y: -i}) end end points
    thing () returns (any) return (point{x: 7, y: 8}) end thing
    any (a: any) returns (string)
      typecase a
        when point (p): return (p.unparse())
        others: return (\"something\")
      end
    end any
    bits () returns (bytes) return (\"ab\".to_bytes()) end bits
  end Shop
  remote new_shop () returns (shop)
    return (Shop{held := account{owner: \"ann\", sums: array_create[int](1, .. 5)}})
  end new_shop
end shops
";

/// Plays a script in each mode, in a session that has made the shop `s`; whole, and cut into small
/// pieces, and collected in each way.
#[track_caller]
fn check(script: &str, expected: &str) {
    check_with(Limits::default(), script, expected);
}

#[track_caller]
fn check_with(limits: Limits, script: &str, expected: &str) {
    for mode in modes() {
        let Some(tables) = load(TEXT, mode) else { continue };
        for (split, collect) in [None, Some(1), Some(9)].into_iter().zip(collections().into_iter().cycle()) {
            let cx = CxLimits { stack_bytes: STACK_BYTES, collect, ..CxLimits::default() };
            let mut world = World::of(tables, cx);
            let mut client = world.client_with(limits);
            client.split = split;
            let told = client.play(&format!("s = new_shop()\n{script}"));
            assert_text(&told, expected, &format!("{mode:?}, split {split:?}, {collect:?}"));
        }
    }
}

#[test]
fn arguments_are_given_by_their_items() {
    check(
        r#"
        a = shop.sum s {1; 2; 3}
        b = shop.sum s {}
        c = shop.sum s sequence[int]{4}
        n = const 5
        d = shop.sum s {n; n}
        e = shop.length s {"ab"; {1; 2}; {5; 9}}
        f = shop.area s {0; {1; 2}}
        g = shop.area s {1; 2.5}
        h = shop.area s {2; nil}
        i = shop.first s {0; nil}
        j = shop.first s {1; {8; 9}}
        x = shop.leaf s "x"
        y = shop.leaf s "y"
        k = shop.names s {x; y; x}
        l = shop.deep s {{{1; 2}; {}}; {}; {{3}}}
        p = const struct[x: int, y: int]{3; 4}
        m = shop.length s {""; p; {3; 5}}
        flush a b c d e f g h i j k l m
        "#,
        r#"
        a = 6
        b = 0
        c = 4
        d = 10
        e = 13
        f = "{dot: {x: 1, y: 2}}"
        g = "{circle: 2.5}"
        h = "{nothing: nil}"
        i = -1
        j = 8
        k = "xyx"
        l = 6
        m = 1
        "#,
    );
}

#[test]
fn compounds_of_other_types_are_refused() {
    check(
        r#"
        a = shop.sum s {1; "2"}
        b = shop.length s {"ab"; {1; 2}}
        c = shop.length s {"ab"; {1; 2}; {5}}
        d = shop.area s {3; nil}
        e = shop.area s {2; 5}
        f = shop.area s {0}
        g = shop.area s {"dot"; {1; 2}}
        h = shop.first s {1; {8; "9"}}
        i = shop.names s {s}
        j = const {1}
        k = shop.any s {1; 2}
        l = const record[owner: string, sums: array[int]]{"ann"; nil}
        m = const #9999{1}
        n = shop.sum s {a}
        o = shop.sum s {#0}
        q = shop.sum s struct[x: int, y: int]{1; 2}
        r = shop.any s struct[x: int, y: int]{1; 2}
        flush r
        "#,
        r#"
        r = "{x: 1, y: 2}"
        -2: WrongType: argument 1: expected `int`, found `string`
        -3: WrongType: `struct[name: string, from: struct[x: int, y: int], to: struct[x: int, y: int]]` has 3 fields, and 2 are given
        -4: WrongType: `struct[x: int, y: int]` has 2 fields, and 1 are given
        -5: WrongType: a `oneof[dot: struct[x: int, y: int], circle: real, nothing: null]` has the number of a tag, and its value
        -6: WrongType: the tag `nothing` of `oneof[dot: struct[x: int, y: int], circle: real, nothing: null]` has no value but nil
        -7: WrongType: a `oneof[dot: struct[x: int, y: int], circle: real, nothing: null]` has the number of a tag, and its value
        -8: WrongType: a `oneof[dot: struct[x: int, y: int], circle: real, nothing: null]` has the number of a tag, and its value
        -9: WrongType: argument 1: expected `int`, found `string`
        -10: WrongType: argument 1: expected `leaf`, found `shop`
        -11: WrongType: the value needs a type where `any` is wanted
        -12: WrongType: the value needs a type where `any` is wanted
        -13: WrongType: objects of `record[owner: string, sums: array[int]]` are not made by value: call a routine for it
        -14: NoSuchType: there is no type number 9999
        -15: unhandled_exc, argument 1 of -2
        -16: unhandled_exc, argument 1 of -0
        -17: WrongType: argument 1: expected `sequence[int]`, found `struct[x: int, y: int]`
        "#,
    );
}

#[test]
fn contents_come_by_value() {
    check(
        r#"
        a = shop.ints s 3
        av = get a
        b = shop.shape s 0
        bv = get b
        c = shop.shape s 1
        cv = get c
        d = shop.shape s 4
        dv = get d
        e = shop.maybe s 0
        ev = get e
        f = shop.maybe s 1
        fv = get f
        g = shop.list s
        gv = get g
        h = shop.map s
        hv = get h
        i = shop.vector s
        iv = get i
        t = shop.thing s
        tv = get t
        z = shop.bits s
        zv = get z
        n = const 5
        nv = get n
        flush av bv cv dv ev fv gv hv iv tv zv nv
        "#,
        r#"
        av = sequence[int] {1, 2, 3}
        bv = oneof[dot: struct[x: int, y: int], circle: real, nothing: null] {2, nil}
        cv = oneof[dot: struct[x: int, y: int], circle: real, nothing: null] {1, 1.5}
        dv = oneof[dot: struct[x: int, y: int], circle: real, nothing: null] {0, struct[x: int, y: int] {4, 4}}
        ev = maybe[string] {0, nil}
        fv = maybe[string] {1, "found"}
        gv = list[int] {3, 1, 2}
        hv = map[string, struct[x: int, y: int]] {"one", struct[x: int, y: int] {1, 1}, "two", struct[x: int, y: int] {2, 2}}
        iv = vector[real] {0.5, 0.5}
        tv = struct[x: int, y: int] {7, 8}
        zv = x[61, 62]
        nv = 5
        "#,
    );
}

#[test]
fn contents_are_those_of_the_moment_and_have_references() {
    check(
        r#"
        a = shop.account s
        before = get a
        sums = record[owner: string, sums: array[int]].sums a
        first = get sums
        d = shop.deposit s 6
        second = get sums
        t = shop.tree s
        tree = get t
        flush before first second tree
        flush
        "#,
        r#"
        before = record[owner: string, sums: array[int]] {"ann", #1.0}
        first = array[int] {5}
        second = array[int] {5, 6}
        tree = struct[at: leaf, below: sequence[struct[at: leaf, below: sequence[leaf]]]] {#2.0, sequence[struct[at: leaf, below: sequence[leaf]]] {struct[at: leaf, below: sequence[leaf]] {#3.0, sequence[leaf] {#4.0}}}}
        done
        "#,
    );
}

#[test]
fn only_flush_names_contents() {
    check(
        r#"
        a = shop.ints s 3
        v = get a
        x = shop.sum s v
        w = get v
        y = get s
        u = shop.sum s a
        flush v x w y u
        v2 = get #-1
        flush v2
        "#,
        r#"
        v = sequence[int] {1, 2, 3}
        x = exception of -4
        w = exception of -5
        y = exception of -6
        u = 6
        -4: BadFuture: -3 is a value that `get` has taken, which only `flush` can name
        -5: BadFuture: -3 is a value that `get` has taken, which only `flush` can name
        -6: WrongType: objects of `shop` do not cross by value
        v2 = exception of -1
        -1: BadFuture: -1 is not defined yet; the next future is -1
        "#,
    );
}

#[test]
fn cells_of_tables_come_by_value() {
    check(
        r#"
        t = rows struct[x: int, y: int] int sequence[leaf] any
        foreach
            p = shop.points s 2
            x = struct[x: int, y: int].x p
            n = shop.leaf s "n"
            e = emit t p x {n; n} p
        end_foreach
        one = emit t {5; 6} 0 {} s
        flush t one
        "#,
        r#"
        t = rows (struct[x: int, y: int] {1, -1}, 1, sequence[leaf] {#1.0, #1.0}, any#2.0) (struct[x: int, y: int] {2, -2}, 2, sequence[leaf] {#3.0, #3.0}, any#4.0) (struct[x: int, y: int] {5, 6}, 0, sequence[leaf] {}, any#5.0)
        one = nil
        "#,
    );
}

#[test]
fn structures_make_compounds_of_their_own_results() {
    check(
        r#"
        total = cell int
        z = cell[int].put total 0
        five = const 5
        p0 = procedure add int -> int
            q = shop.sum s {p0; five}
            return q
        end_procedure
        foreach
            p = shop.points s 3
            x = struct[x: int, y: int].x p
            l = shop.length s {"a"; p; {x; five}}
            sum = shop.sum s {x; l; 1}
            f = shop.first s {1; p}
            c = const sequence[int]{x; x}
            d = shop.sum s c
            r = proc 0 x
            i1 = int.add sum f
            i2 = int.add i1 d
            i3 = int.add i2 r
            was = cell[int].get total
            now = int.add was i3
            st = cell[int].put total now
        end_foreach
        one = const 1
        foreach
            i = int.to one 2
            b = shop.sum s {1; 2; 3}
            e = shop.area s {0; {i; b}}
        end_foreach
        out = cell[int].get total
        flush out
        "#,
        // For x in 1, 2, 3: sum = x + (1 + 5 + x) + 1, f = x, d = 2 x, r = x + 5.
        "out = 72",
    );
}

#[test]
fn faults_of_compounds_refuse_the_structure() {
    check(
        r#"
        foreach
            p = shop.points s 3
            a = shop.length s {p; p; p}
        end_foreach
        foreach
            p = shop.points s 3
            b = shop.first s {1; p; p}
        end_foreach
        foreach
            p = shop.points s 3
            c = get p
        end_foreach
        flush
        "#,
        r#"
        -3: WrongType: item 1: expected `string`, found `struct[x: int, y: int]`
        -5: WrongType: a `maybe[struct[x: int, y: int]]` has the number of a tag, and its value
        -7: OpenStructure: this command is not allowed inside a FOREACH
        "#,
    );
}

#[test]
fn contents_that_do_not_fit_are_refused() {
    let mut limits = Limits::default();
    limits.set(Limit::ReplyBytes, 4096);
    check_with(
        limits,
        r#"
        a = shop.ints s 400
        b = get a
        c = shop.ints s 600
        d = get c
        flush d
        flush
        "#,
        r#"
        d = exception of -5
        -5: ReplyTooLong: the results are longer than a reply may be: 4096 is the limit (reply_bytes_max)
        done
        "#,
    );
    let mut limits = Limits::default();
    limits.set(Limit::Handles, 3);
    check_with(
        limits,
        r#"
        t = shop.tree s
        tree = get t
        more = get t
        flush s tree more
        n = shop.leaf s "n"
        flush n
        "#,
        r#"
        s = shop#1.0
        tree = absent
        more = absent
        -0: TooManyHandles: the session holds too many handles: 3 is the limit (handles_max)
        n = leaf#3.1
        "#,
    );
}

#[test]
fn contents_take_fuel() {
    let mut limits = Limits::default();
    limits.set(Limit::Fuel, 12);
    check_with(
        limits,
        r#"
        t = shop.list s
        a = get t
        b = get t
        c = get t
        flush a b c
        s = new_shop()
        u = shop.ints s 2
        v = get u
        flush v
        "#,
        r#"
        a = list[int] {3, 1, 2}
        b = list[int] {3, 1, 2}
        c = exception of -5
        -5: OutOfFuel: the batch ran too many steps: 12 is the limit (fuel_max)
        v = sequence[int] {1, 2}
        "#,
    );
}

#[test]
fn transactions_and_compounds() {
    check(
        r#"
        flush s
        t = transaction
        a = shop.account s
        v = get a
        d = shop.deposit s 6
        w = shop.sum s {1; 2}
        i = shop.ints s 2
        iv = get i
        flush t w iv
        i = shop.ints s 2
        iv = get i
        x = abort
        flush iv x
        "#,
        r#"
        s = shop#1.0
        t = nil
        w = 3
        iv = sequence[int] {1, 2}
        iv = exception of -2
        x = nil
        -2: NoSuchHandle: the object was made in a transaction that was aborted
        "#,
    );
}

/// The deepest type of Theta makes the deepest value.
#[test]
fn contents_nest_64_levels() {
    let mut text = "t1 = sequence[int]\n".to_owned();
    (2..=64).for_each(|n| text += &format!("t{n} = sequence[t{}]\n", n - 1));
    text += "remote deep () returns (t64)\n  x1: t1 := sequence_of[int](.. 7)\n";
    for n in 2..=64 {
        text += &format!("  x{n}: t{n} := sequence_of[t{}](.. x{})\n", n - 1, n - 1);
    }
    text += "  return (x64)\nend deep\nremote same (x: t64) returns (bool) return (x = deep()) end same\n";
    let value = "{".repeat(64) + "7" + &"}".repeat(64);
    for mode in modes() {
        let Some(tables) = load(&text, mode) else { continue };
        let mut world = World::of(tables, CxLimits::default());
        let mut client = world.client_with(Limits::default());
        let told = client.play(&format!("a = deep()\n b = get a\n c = same() {value}\n flush b c"));
        // Each level is shown with its type.
        assert_eq!(told.matches('{').count(), 64, "{mode:?}: {told}");
        assert!(told.contains(&format!("{{7{}\nc = true", "}".repeat(64))), "{mode:?}: {told}");
    }
}
