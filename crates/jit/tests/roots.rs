//! Where the code of functions keeps references across calls: accesses of slots of the frame, and the calls with
//! the slots of their maps, as the code generator's form has them one after the other.

use std::sync::Arc;

use bifrost_ir::Body;
use bifrost_ir::text::parse;
use bifrost_ir::verify::verify_program;
use bifrost_jit::{Emit, Jit};

/// The accesses of the frame and the calls of a routine of a program.
fn roots(name: &str, text: &str) -> String {
    let program = parse(text).expect("a text that reads").program;
    verify_program(&program).expect("a valid program");
    let jit = Arc::new(Jit::new().expect("a compiler"));
    let image = bifrost_runtime::link(program, Some(jit.clone())).expect("linking");
    let routine = image.program().find_routine(name).expect("a routine");
    let Body::Func(func) = image.program().routines[routine].body else { panic!("`{name}` is native") };
    let clif = jit.text(&image, func, Emit::Clif).expect("a function that is compiled");
    let slots = |line: &str| -> String {
        let found = line.split(|c: char| !c.is_alphanumeric()).filter(|word| word.starts_with("ss"));
        found.map(|slot| format!(" {slot}")).collect()
    };
    let function = clif.split("\nfunction").next().unwrap_or_default();
    let shown = function.lines().filter_map(|line| match line {
        _ if line.contains(" stack_addr") => Some(format!("at{}\n", slots(line))),
        _ if line.contains(" call") => Some(format!("call{}\n", slots(line))),
        _ => None,
    });
    shown.collect()
}

const TEXT: &str = "
routine across (a: string, b: string) returns (string)
  var t: string
  t := string.trim(a)
  t := string.trim(a)
  t := string.trim(b)
  return (a)
end
routine in_loop (n: int, s: string)
  var i: int, t: string
  for i in int.to(1, n) do
    t := string.trim(s)
  end
end
routine step (s: string) yields (int)
  yield (1)
  yield (2)
end
routine shared (n: int, a: string, b: string) returns (string)
  var i: int, t: string
  for i in step(a) do
    t := string.trim(b)
  end
  t := string.trim(a)
  return (b)
end
routine merged (b: bool, a: string) returns (string)
  var s: string, t: string
  s := \"constant\"
  if b then
    s := string.trim(a)
  end
  t := string.trim(s)
  return (s)
end
";

#[test]
fn what_lives_across_calls_is_stored_once() {
    insta::assert_snapshot!(roots("across", TEXT), @r"
    call
    at ss0
    at ss1
    call ss0 ss1
    call ss0 ss1
    call ss0
    call
    ");
}

#[test]
fn what_lives_across_a_loop_is_stored_before_it() {
    insta::assert_snapshot!(roots("in_loop", TEXT), @r"
    at ss0
    call
    call ss0
    call
    call
    ");
}

#[test]
fn references_are_followed_through_joins_and_constants_are_not_kept() {
    insta::assert_snapshot!(roots("merged", TEXT), @r"
    call
    call
    at ss0
    call ss0
    call
    ");
}

#[test]
fn what_closures_share_is_found_at_all_calls() {
    insta::assert_snapshot!(roots("shared", TEXT), @r"
    at ss0
    at ss0
    at ss0
    call
    at ss0
    at ss1
    at ss0
    at ss1
    at ss1
    at ss2
    call ss2 ss0 ss0 ss0
    at ss0
    call ss0 ss0 ss0
    at ss0
    at ss0
    call ss0 ss0 ss0
    ");
}
