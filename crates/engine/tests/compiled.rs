//! What surrounds machine code: first calls from many threads, functions that are left to the interpreter.

use std::sync::Arc;

use bifrost_interp::Interp;
use bifrost_ir::text::parse;
use bifrost_ir::verify::verify_program;
use bifrost_jit::Jit;
use bifrost_runtime::abi::Word;
use bifrost_runtime::{Cx, Image, Limits, Ret, invoke};

fn link(jit: &Arc<Jit>, text: &str) -> Arc<Image> {
    let program = parse(text).expect("a text that reads").program;
    verify_program(&program).expect("a valid program");
    let image = bifrost_runtime::link(program, Some(jit.clone())).expect("linking");
    Interp::new(image.clone());
    image
}

fn call(image: &Arc<Image>, name: &str, arguments: &[i64]) -> Ret {
    let routine = image.program().find_routine(name).expect("a routine");
    let mut cx = Cx::new(image.clone(), Limits { stack_bytes: 1 << 20, ..Limits::default() }, 1, || 0);
    let mut words: Vec<Word> = vec![0];
    words.extend(arguments.iter().map(|n| *n as Word));
    cx.begin();
    // SAFETY: the context was made for this image, and the routines below take integers.
    let ret = unsafe { invoke::routine(&mut *cx, image.routine(routine), &mut words) };
    cx.leave();
    ret
}

#[test]
fn a_function_that_is_too_large_is_interpreted() {
    let many = "  n := int.add(n, 1)\n".repeat(20_001);
    let text = format!(
        "routine large (n: int) returns (int)\n{many}  return (n)\nend
routine steps (n: int) yields (int)\n{many}  yield (n)\nend
routine caller (n: int) returns (int)
  var m: int
  n := large(n)
  for m in steps(n) do
    return (m)
  end
  return (0)
end"
    );
    let image = link(&Arc::new(Jit::new().expect("a compiler")), &text);
    assert_eq!(call(&image, "caller", &[5]), Ret::int(5 + 2 * 20_001));
}

#[test]
fn first_calls_from_many_threads_agree() {
    let text = "
routine up (n: int) yields (int)
  var i: int
  for i in int.to(1, n) do
    yield (i)
  end
end
routine fib (n: int) returns (int)
  var b: bool, m: int, x: int, y: int, i: int
  b := int.lt(n, 2)
  if b then
    return (n)
  end
  x := 0
  for i in up(2) do
    m := int.sub(n, i)
    y := fib(m)
    x := int.add(x, y)
  end
  return (x)
end";
    let jit = Arc::new(Jit::new().expect("a compiler"));
    for _ in 0..20 {
        let image = link(&jit, text);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| assert_eq!(call(&image, "fib", &[12]), Ret::int(144)));
            }
        });
    }
}

#[test]
fn a_method_is_compiled_once_for_all_that_inherit_it() {
    let text = "
type thing
  id () returns (int)
end
class A implements thing
  n: int
  method id () returns (int)
    var m: int
    m := get A.n(self)
    return (m)
  end
end
class B implements thing inherits A
end
routine both (n: int) returns (int)
  var a: A, b: B, t: thing, x: int, y: int
  a := new A(n)
  b := new B(100)
  t := a
  x := thing.id(t)
  t := b
  y := thing.id(t)
  x := int.add(x, y)
  return (x)
end";
    let image = link(&Arc::new(Jit::new().expect("a compiler")), text);
    assert_eq!(call(&image, "both", &[7]), Ret::int(107));
    let program = image.program();
    let entry = |class: &str| {
        let class = &program.classes[program.find_class(class).expect("a class")];
        let method = program.types.find_method(class.ty, "id").expect("a method");
        // SAFETY: the class fills the slot of its own method.
        unsafe { image.table_of(class.ty).entry(image.dispatch().slot(method)) }
    };
    assert_eq!(entry("A"), entry("B"));
}
