//! Which objects are taken apart, and to what.

use bifrost_ir::Body;
use bifrost_ir::text::{parse, print_func};
use bifrost_ir::verify::verify_program;
use bifrost_jit::replace_objects;

const TYPES: &str = "type point
  x () returns (int)
  set_x (v: int)
  itself () returns (point)
end
class P implements point
  x: int
  y: int
  method x () returns (int)
    var r: int
    r := get P.x(self)
    return (r)
  end
  method set_x (v: int)
    set P.x(self, v)
    return
  end
  method itself () returns (point)
    return (self)
  end
end
";

/// The body of the routine `f` with these variables and statements, as it is compiled.
fn replaced(variables: &str, body: &str) -> String {
    replaced_with(TYPES, variables, body)
}

fn replaced_with(types: &str, variables: &str, body: &str) -> String {
    let text = format!("{types}routine f (n: int) returns (int)\n{variables}\n{body}\nend\n");
    let mut program = parse(&text).expect("a text that reads").program;
    verify_program(&program).expect("a valid program");
    replace_objects(&mut program);
    verify_program(&program).expect("a valid program afterwards");
    let routine = program.find_routine("f").expect("a routine");
    let Body::Func(func) = program.routines[routine].body else { panic!("not native") };
    let printed = print_func(&program, &program.funcs[func]);
    let body: Vec<&str> = printed.lines().filter(|line| !line.contains("  var ")).collect();
    body.join("\n")
}

#[test]
fn fields_become_variables() {
    let body = "t := new P(n, 1)
  p := t
  set P.y(p, 4)
  point.set_x(p, 9)
  a := point.x(p)
  b := get P.y(p)
  c := int.add(a, b)
  return (c)";
    insta::assert_snapshot!(replaced("var t: P\nvar p: P\nvar a: int\nvar b: int\nvar c: int", body), @r"
    routine f (n: int) returns (int)
      %6 := n
      %7 := 1
      %7 := 4
      v := 9
      %6 := v
      r := %6
      a := r
      b := %7
      c := int.add(a, b)
      return (c)
    end
    ");
}

#[test]
fn what_leaves_stays_an_object() {
    let leaving = [
        ("q := p", "assigned to another variable"),
        ("q := point.itself(p)", "its method hands it out"),
        ("q := new P(1, 2)\n  same := same_object(p, q)", "compared"),
        ("all := [p]", "stored"),
        ("typecase p as r then\n return (1)\n end", "asked for its class"),
        ("if true then\n p := q\n end", "filled with something else"),
    ];
    for (leaves, why) in leaving {
        let variables =
            "var p: point\nvar q: point\nvar r: P\nvar same: bool\nvar all: sequence[point]\nvar a: int";
        let body =
            format!("q := new P(0, 0)\n  p := new P(n, 1)\n  {leaves}\n  a := point.x(p)\n  return (a)");
        let printed = replaced(variables, &body);
        assert!(printed.contains("p := new P(n, 1)"), "{why}:\n{printed}");
    }
}

#[test]
fn methods_take_the_place_of_calls_up_to_a_length() {
    let stays = |statements: usize| {
        let moves = "    r := get P.x(self)\n".repeat(statements);
        let types = TYPES.replace("    r := get P.x(self)\n", &moves);
        let body = "p := new P(n, 1)\n  a := point.x(p)\n  return (a)";
        replaced_with(&types, "var p: P\nvar a: int", body).contains("new P")
    };
    assert!(!stays(11));
    assert!(stays(12));
}

#[test]
fn a_function_gets_so_many_variables_and_no_more() {
    let stays = |objects: usize| {
        let variables: String = (0..objects).map(|i| format!("var p{i}: P\n")).collect();
        let made: String = (0..objects).map(|i| format!("p{i} := new P(n, 1)\n")).collect();
        replaced(&variables, &format!("{made}return (n)")).contains("new P")
    };
    assert!(!stays(100));
    assert!(stays(101));
}
