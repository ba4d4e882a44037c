//! Records, structs, oneofs, `maybe` and `any` as clients see them.

mod support;

use bifrost_engine::{Engine, Run};
use bifrost_session::Tables;
use bifrost_wire::interface::Kind;
use support::{World, assert_text, load, modes};

const TEXT: &str = "point = record[x: int, y: int]
named = struct[name: string, at: point]
answer = oneof[number: int, text: string, nothing: null]
box = type [T] get () returns (T)   put (v: T) end box
shop = type
  origin () returns (point)
  called (name: string) returns (named)
  answer (n: int) returns (answer)
  known (a: answer) returns (string)
  first (p: maybe[point]) returns (int)
  found (n: int) returns (maybe[point])
  boxed () returns (box[maybe[int]])
  pairs () returns (box[named])
  every () yields (named)
  thing (n: int) returns (any)
  what (a: any) returns (string)
  % Routines do not cross, so clients see none of these.
  chooser () returns (proc (int) returns (bool))
  choose (p: proc (int) returns (bool)) returns (int)
  steps () yields (iter () yields (int))
  holder () returns (record[p: proc ()])
end shop
wide = type get () returns (any) end wide
narrow = type < wide get () returns (int) end narrow
module shops exports new_shop, apply, new_narrow
  Narrow = class implements narrow get () returns (int) return (7) end get end Narrow
  remote new_narrow () returns (narrow) return (Narrow{}) end new_narrow
  Box = class [T] implements box[T]
    held: T
    get () returns (T) return (held) end get
    put (v: T) held := v end put
  end Box
  Shop = class implements shop
    at: point
    origin () returns (point) return (at) end origin
    called (name: string) returns (named) return (named{name: name, at: at}) end called
    answer (n: int) returns (answer)
      if n = 0 then return (answer{nothing: nil}) end
      if n > 9 then return (answer{text: n.unparse()}) end
      return (answer{number: n})
    end answer
    known (a: answer) returns (string) return (a.unparse()) end known
    first (p: maybe[point]) returns (int)
      tagcase p
        when some (q: point): return (q.x)
        when none: return (-1)
      end
    end first
    found (n: int) returns (maybe[point])
      if n = at.x then return (some(at)) end
      return (none[point]())
    end found
    boxed () returns (box[maybe[int]]) return (Box[maybe[int]]{held := some(3)}) end boxed
    pairs () returns (box[named]) return (Box[named]{held := self.called(\"p\")}) end pairs
    every () yields (named) for name: string in \"a b\".split(\" \") do yield (self.called(name)) end end every
    thing (n: int) returns (any)
      if n = 1 then return (n) end
      if n = 2 then return (\"two\") end
      if n = 3 then return (at) end
      return (nil)
    end thing
    what (a: any) returns (string)
      typecase a
        when int (n): return (n.unparse())
        when string (s): return (s)
        when point (p): return (p.unparse())
        when null: return (\"nothing\")
        others: return (\"something\")
      end
    end what
    chooser () returns (proc (int) returns (bool)) return (is_even) end chooser
    choose (p: proc (int) returns (bool)) returns (int) if p(1) then return (1) end return (0) end choose
    steps () yields (iter () yields (int)) end steps
    holder () returns (record[p: proc ()]) return (record[p: proc ()]{p: nothing}) end holder
  end Shop
  is_even (n: int) returns (bool) return (n // 2 = 0) end is_even
  nothing () end nothing
  apply (p: proc (int) returns (bool), n: int) returns (bool) return (p(n)) end apply
  remote new_shop () returns (shop) return (Shop{at := point{x: 1, y: 2}}) end new_shop
end shops
";

#[test]
fn the_interface_has_tagged_types_and_no_routines() {
    for mode in modes() {
        let Some(tables) = load(TEXT, mode) else { continue };
        let interface = tables.numbering().interface();
        let find = |name: &str| interface.types.iter().find(|ty| ty.name == name);
        let methods = |name: &str| {
            let ty = find(name).unwrap_or_else(|| panic!("no {name}"));
            ty.methods.iter().map(|method| method.name.as_str()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            methods("record[x: int, y: int]"),
            "x y set_x set_y equal similar copy unparse",
            "a record has no hash"
        );
        // The record in it is equal only to itself, and has no hash.
        assert_eq!(
            methods("struct[name: string, at: record[x: int, y: int]]"),
            "name at replace_name replace_at equal similar copy unparse"
        );
        assert_eq!(
            methods("oneof[number: int, text: string, nothing: null]"),
            "is_number is_text is_nothing value_number value_text value_nothing equal similar copy unparse hash"
        );
        assert!(methods("maybe[int]").starts_with("is_some is_none value value_or"));
        assert_eq!(methods("box[maybe[int]]"), "get put");
        assert_eq!(
            methods("shop"),
            "origin called answer known first found boxed pairs every thing what holder"
        );
        // A record of routines can be held, and what they are is not told.
        assert_eq!(methods("record[p: proc ()]"), "");
        assert!(interface.types.iter().all(|ty| !ty.name.contains('#')), "classes are nobody's business");
        let routines: Vec<&str> = interface.routines.iter().map(|routine| routine.name.as_str()).collect();
        assert_eq!(routines, ["new_narrow", "new_shop", "root"]);
        assert_eq!((methods("wide"), methods("narrow")), ("get".to_owned(), "get".to_owned()));
    }
}

/// Plays a script, both ways, collected in each way.
#[track_caller]
fn check(script: &str, expected: &str) {
    for mode in modes() {
        let Some(tables) = load(TEXT, mode) else { continue };
        for collect in support::collections() {
            let limits = bifrost_runtime::Limits {
                stack_bytes: support::STACK_BYTES,
                collect,
                ..bifrost_runtime::Limits::default()
            };
            let mut world = World::of(tables, limits);
            let found = world.client().play(script);
            assert_text(&found, expected, &format!("{mode:?} {collect:?}"));
        }
    }
}

#[test]
fn records_and_structs_are_read_and_stored() {
    check(
        "
        s = new_shop()
        p = shop.origin s
        record[x: int, y: int].set_x p 5
        q = shop.called s \"q\"
        at = struct[name: string, at: record[x: int, y: int]].at q
        x = record[x: int, y: int].x at
        same = record[x: int, y: int].equal at p
        r = struct[name: string, at: record[x: int, y: int]].replace_name q \"r\"
        t = struct[name: string, at: record[x: int, y: int]].unparse r
        flush x same t p
        ",
        "x = 5\nsame = true\nt = \"{name: \\\"r\\\", at: {x: 5, y: 2}}\"\np = record[x: int, y: int]#1.0",
    );
}

#[test]
fn tags_are_asked_and_taken() {
    check(
        "
        s = new_shop()
        a = shop.answer s 3
        b = shop.answer s 10
        c = shop.answer s 0
        an = oneof[number: int, text: string, nothing: null].value_number a
        bt = oneof[number: int, text: string, nothing: null].is_text b
        cn = oneof[number: int, text: string, nothing: null].value_nothing c
        no = oneof[number: int, text: string, nothing: null].value_text c
        k = shop.known s b
        m = shop.found s 1
        n = shop.found s 2
        f = shop.first s m
        g = shop.first s n
        v = maybe[record[x: int, y: int]].is_none n
        flush an bt cn no k f g v
        ",
        "an = 3\nbt = true\ncn = nil\nno = exception of -8\nk = \"{text: \\\"10\\\"}\"\nf = 1\ng = -1\nv = true\n-8: wrong_tag",
    );
}

#[test]
fn structures_use_tagged_types() {
    check(
        "
        s = new_shop()
        c = cell string
        cell[string].put c \"\"
        foreach
        e = shop.every s
        n = struct[name: string, at: record[x: int, y: int]].name e
        t = cell[string].get c
        u = string.concat t n
        cell[string].put c u
        end_foreach
        b = shop.boxed s
        m = box[maybe[int]].get b
        v = maybe[int].value_or m 9
        p = shop.pairs s
        i = box[struct[name: string, at: record[x: int, y: int]]].get p
        j = struct[name: string, at: record[x: int, y: int]].name i
        all = cell[string].get c
        flush v j all
        ",
        "v = 3\nj = \"p\"\nall = \"ab\"",
    );
}

#[test]
fn an_any_is_a_handle_that_goes_back() {
    check(
        "
        s = new_shop()
        a = shop.thing s 1
        b = shop.thing s 2
        c = shop.thing s 3
        d = shop.thing s 4
        aw = shop.what s a
        bw = shop.what s b
        cw = shop.what s c
        dw = shop.what s d
        sw = shop.what s s
        flush s a b c d aw bw cw dw sw
        x = shop.what s a
        flush x
        y = shop.what s 7
        flush y
        ",
        "s = shop#1.0\na = any#2.0\nb = \"two\"\nc = record[x: int, y: int]#3.0\nd = any#4.0\naw = \"1\"\nbw = \"two\"\n\
         cw = \"{x: 1, y: 2}\"\ndw = \"nothing\"\nsw = \"something\"\nx = \"1\"\ny = exception of -1\n\
         -1: WrongType: argument 1: expected `any`, found `int`",
    );
}

#[test]
fn one_method_gives_an_int_or_an_any() {
    check(
        "
        n = new_narrow()
        i = narrow.get n
        a = wide.get n
        s = new_shop()
        w = shop.what s a
        flush i a w
        ",
        "i = 7\na = any#1.0\nw = \"7\"",
    );
}

#[test]
fn the_interface_has_their_fields() {
    let Some(tables) = load(TEXT, bifrost_engine::Mode::Interpreted) else { return };
    let interface = tables.numbering().interface();
    let fields = |name: &str| {
        let ty = interface.find_type(name).and_then(|ty| interface.ty(ty)).expect(name);
        let fields: Vec<String> =
            ty.fields.iter().map(|f| format!("{}: {}", f.name, interface.type_name(f.ty))).collect();
        (ty.kind, fields.join(", "))
    };
    let point = "record[x: int, y: int]";
    assert_eq!(fields(point), (Kind::Record, "x: int, y: int".to_owned()));
    let named = format!("struct[name: string, at: {point}]");
    assert_eq!(fields(&named), (Kind::Struct, format!("name: string, at: {point}")));
    let answer = "number: int, text: string, nothing: null";
    assert_eq!(fields(&format!("oneof[{answer}]")), (Kind::Oneof, answer.to_owned()));
    assert_eq!(fields(&format!("maybe[{point}]")), (Kind::Maybe, format!("none: null, some: {point}")));
    assert_eq!(fields("shop"), (Kind::Object, String::new()));
}

#[test]
fn migrations_and_entries_are_not_for_clients() {
    let text = "remote helper () returns (int) return (1) end helper
migrate_Plain (n: int) returns (int) return (n) end migrate_Plain
setup () end setup
start () end start
main () end main
";
    for mode in modes() {
        let Some(tables) = load(text, mode) else { continue };
        let routines = &tables.numbering().interface().routines;
        let names: Vec<&str> = routines.iter().map(|routine| routine.name.as_str()).collect();
        assert_eq!(names, ["helper", "root"]);
        // Nor if they had the mark, which the compiler refuses.
        let mut program = tables.engine().program().clone();
        program.routines.values_mut().for_each(|routine| routine.public = true);
        let engine = Engine::new(program, Run { kept: true, ..mode }).expect("it was linked before");
        let routines = &Tables::new(engine).numbering().interface().routines;
        let names: Vec<&str> = routines.iter().map(|routine| routine.name.as_str()).collect();
        assert!(names.contains(&"helper") && names.contains(&"root"), "{names:?}");
        assert!(
            !names.iter().any(|name| ["migrate_Plain", "setup", "start", "main"].contains(name)),
            "{names:?}"
        );
    }
}
