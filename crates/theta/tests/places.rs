//! The places of compiled code: each function knows its text, and each site its line.

use bifrost_ir::{FuncKind, Program, Site, Stmt, Written};
use bifrost_theta::{Options, Sources, compile};

fn program(files: &[(&str, &str)]) -> Program {
    let mut sources = Sources::new();
    for (name, text) in files {
        sources.add(*name, *text);
    }
    let compilation = compile(&sources, &Options::default());
    assert!(compilation.diagnostics.is_empty(), "{:?}", compilation.diagnostics);
    compilation.program.expect("a program without mistakes")
}

/// The places of the calls, constructors and signals in a function, in their order.
fn places(program: &Program, name: &str) -> Vec<String> {
    let (id, func) = program.funcs.iter().find(|(_, func)| func.name == name).expect("a function");
    let mut places = Vec::new();
    func.body.each(&mut |stmt| {
        if let Stmt::Call { .. } | Stmt::New { .. } | Stmt::Signal { .. } | Stmt::ForEach { .. } = stmt {
            let site = stmt.site().expect("these have sites");
            places.push(program.place(id, site).expect("code that was written").to_string());
        }
    });
    places
}

const LIB: &str = "
half (n: int) returns (int) signals (odd)
  if n // 2 = 1 then
    signal odd
  end
  return (n / 2)
end half
";

const MAIN: &str = "import lib.half (half)

Box = class
  n: int
  fill (m: int)
    n := half(m) +
      half(m + 2)
  end fill
end Box

first [T] (all: array[T]) returns (T)
  for each: T in all.elements() do return (each) end
  signal failure(\"none\")
end first

main ()
  b: Box := Box{n := 1}
  b.fill(first[int](array_new[int]()))
end main
";

#[test]
fn sites_have_the_lines_of_their_files() {
    let program = program(&[("main.theta", MAIN), ("lib/half.theta", LIB)]);
    assert_eq!(
        places(&program, "half"),
        ["lib/half.theta:3", "lib/half.theta:3", "lib/half.theta:4", "lib/half.theta:6"]
            .map(|place| format!("half ({place})"))
    );
    // The calls of a statement over two lines have the lines that they begin on.
    let fill = places(&program, "Box.fill");
    assert!(fill.contains(&"Box.fill (main.theta:6)".to_owned()), "{fill:?}");
    assert!(fill.contains(&"Box.fill (main.theta:7)".to_owned()), "{fill:?}");
    assert_eq!(
        places(&program, "first[int]"),
        ["main.theta:12", "main.theta:13"].map(|place| format!("first[int] ({place})"))
    );
    assert_eq!(places(&program, "main").first().map(String::as_str), Some("main (main.theta:17)"));
}

#[test]
fn code_that_nobody_wrote_has_no_place() {
    let program = program(&[(
        "main.theta",
        "P = class\n  n: int\n  get () returns (int) return (n) end get\nend P\n\
         twice (f: proc (int) returns (int), n: int) returns (int) return (f(f(n))) end twice\n\
         add (a: int, b: int) returns (int) return (a + b) end add\n\
         main () print(twice(bind(add, 1, *), 2).unparse()) end main\n",
    )]);
    let made = program.funcs.iter().filter(|(_, func)| func.written == Written::Nowhere);
    let made: Vec<_> = made.map(|(id, func)| (id, func.kind)).collect();
    assert!(made.iter().any(|(_, kind)| *kind == FuncKind::Method), "the call of a routine value");
    assert!(made.iter().all(|(id, _)| program.place(*id, Site(1)).is_none()));
    for name in ["P.get", "twice", "add", "main"] {
        assert!(!places(&program, name).is_empty() || name == "P.get", "{name}");
    }
}
