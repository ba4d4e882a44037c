//! Instantiations of generic types as clients see them.

mod support;

use support::{World, assert_text, load, modes};

const TEXT: &str = "bag = type [T] put (v: T)   size () returns (int) end bag
stack = type [T] < bag[T] {push for put}   pop () returns (T) signals (empty) end stack
pair = type [A, B] first () returns (A)   second () returns (B) end pair
module m exports ints, both
  Stack = class [T] implements stack[T]
    items: array[T]
    push (v: T) items.append(v) end push
    size () returns (int) return (items.length()) end size
    pop () returns (T) signals (empty) return (items.remove()) except when bounds: signal empty end end pop
  end Stack
  Pair = class [A, B] implements pair[A, B]   first: A   second: B end Pair
  new_stack [T] () returns (stack[T]) return (Stack[T]{items := array_new[T]()}) end new_stack
  remote ints () returns (stack[int]) return (new_stack[int]()) end ints
  remote both () returns (pair[stack[int], string]) return (Pair[stack[int], string]{first := ints(), second := \"x\"}) end both
  unused () new_stack[real]() end unused
end m
";

#[test]
fn instantiations_are_types_of_the_interface() {
    for mode in modes() {
        let Some(tables) = load(TEXT, mode) else { continue };
        let interface = tables.numbering().interface();
        let methods = |name: &str| {
            let ty = interface.types.iter().find(|ty| ty.name == name).unwrap_or_else(|| panic!("no {name}"));
            ty.methods.iter().map(|method| method.name.as_str()).collect::<Vec<_>>()
        };
        assert_eq!(methods("stack[int]"), ["pop", "push", "size"]);
        assert_eq!(methods("bag[int]"), ["put", "size"]);
        assert_eq!(methods("pair[stack[int], string]"), ["first", "second"]);
        assert!(interface.types.iter().all(|ty| ty.name != "T" && !ty.name.contains("[T]")));
        // Which instantiations of routines there are is the program's business.
        let routines: Vec<&str> = interface.routines.iter().map(|routine| routine.name.as_str()).collect();
        assert_eq!(routines, ["ints", "both", "root"]);
    }
}

#[test]
fn methods_of_instantiations_are_called() {
    for mode in modes() {
        let Some(tables) = load(TEXT, mode) else { continue };
        let limits = bifrost_runtime::Limits { stack_bytes: support::STACK_BYTES, ..Default::default() };
        let mut world = World::of(tables, limits);
        let mut client = world.client();
        let script = "
            s = ints()
            stack[int].push s 4
            bag[int].put s 5
            n = bag[int].size s
            v = stack[int].pop s
            flush n v
        ";
        let found = client.play(script);
        assert_text(&found, "n = 2\nv = 5", &format!("{mode:?}"));
    }
}
