//! The interface description of a program: comments, names, fields, values of exceptions.

mod support;

use bifrost_engine::Mode;
use bifrost_wire::interface::{Interface, Type};
use support::load;

const TEXT: &str = "
% A place
% in the plane.
point = struct[x: int, y: int]

% What a place has.
kind = oneof[none: null, some: int]

size = record[width: int, of: point]

% The minutes of a day: no type of its own.
minutes = int

% Above its head.
shop = type
  % Behind its head.
  kind (p: point) returns (kind) signals (gone, far (point, int))
  % Of a place.
  size () returns (size)
end shop

% An actor.
Clock = actor
  % That counts.
  m: int
  new () make {m := 0} end new
  now () returns (minutes)
  % Since it was made.
    reply (m)
  end now
end Clock

shelf = type [T]
  % Of anything.
  top () returns (T)
end shelf

remote all (s: shop) yields (point, kind) signals (far (point, int))
  % All places.
  signal far(point{x: 1, y: 2}, 3)
end all
remote stored () returns (shelf[int]) signals (not_found) signal not_found end stored
";

fn interface() -> &'static Interface {
    load(TEXT, Mode::Interpreted).unwrap().numbering().interface()
}

fn ty(name: &str) -> &'static Type {
    interface().types.iter().find(|ty| ty.name == name).unwrap_or_else(|| panic!("no {name}"))
}

#[test]
fn types_have_the_comments_above_them_and_behind_their_heads() {
    assert_eq!(ty("shop").doc, "Above its head.\n\nBehind its head.");
    assert_eq!(ty("Clock").doc, "An actor.\n\nThat counts.");
    assert_eq!(ty("shelf[int]").doc, "Of anything.");
    // A tagged type has the comment of its name; a basic type has none.
    assert_eq!(ty("struct[x: int, y: int]").doc, "A place\nin the plane.");
    assert_eq!(ty("oneof[none: null, some: int]").doc, "What a place has.");
    assert_eq!([&ty("int").doc, &ty("record[width: int, of: struct[x: int, y: int]]").doc], ["", ""]);
    let methods = |name: &str| ty(name).methods.iter().map(|m| m.doc.as_str()).collect::<Vec<_>>();
    assert_eq!(methods("shop"), ["Of a place.", ""]);
    assert_eq!(methods("Clock"), ["Since it was made."]);
    assert_eq!(interface().routines[0].doc, "All places.");
}

#[test]
fn types_have_the_names_that_the_program_gives_them() {
    assert_eq!(ty("struct[x: int, y: int]").names, ["point"]);
    assert_eq!(ty("oneof[none: null, some: int]").names, ["kind"]);
    assert_eq!(ty("int").names, ["minutes"]);
    assert!(ty("shop").names.is_empty());
}

#[test]
fn fields_and_values_of_exceptions_have_types() {
    let fields = |name: &str| {
        let fields = ty(name).fields.iter();
        fields.map(|f| format!("{}: {}", f.name, interface().type_name(f.ty))).collect::<Vec<_>>()
    };
    assert_eq!(fields("struct[x: int, y: int]"), ["x: int", "y: int"]);
    assert_eq!(fields("oneof[none: null, some: int]"), ["none: null", "some: int"]);
    let size = "record[width: int, of: struct[x: int, y: int]]";
    assert_eq!(fields(size), ["width: int", "of: struct[x: int, y: int]"]);
    assert!(fields("shop").is_empty());
    let headings: Vec<String> = ty("shop").methods.iter().map(|m| interface().heading(m)).collect();
    assert!(headings[0].ends_with("signals (gone, far (struct[x: int, y: int], int))"), "{headings:?}");
    let all = &interface().routines[0].heading.signals[0];
    let values: Vec<&str> = all.values.iter().map(|ty| interface().type_name(*ty)).collect();
    assert_eq!((all.name.as_str(), values), ("far", vec!["struct[x: int, y: int]", "int"]));
}
