//! What natives exchange with programs besides basic values: parts, objects and routine values; as machine code and in the
//! interpreter, and with a collection at each allocation.

mod support;

use bifrost_engine::Mode;
use bifrost_native::{
    Any, Cx, Flow, ObjectType, OneOf, Proc, Raised, Ref, Registry, Seq, Signals, Struct, Text, theta_class,
    theta_routine,
};
use bifrost_runtime::cx::Collect;
use support::printed;

/// `task = type … end task`
struct Task;

impl ObjectType for Task {
    const NAME: &'static str = "task";
}

/// `array[string]`
struct Texts;

impl ObjectType for Texts {
    const NAME: &'static str = "array[string]";
}

#[derive(Clone, Struct)]
struct Point {
    x: i64,
    r#move: Text,
    near: Option<Text>,
}

#[derive(Clone, OneOf)]
enum Shape {
    Nothing,
    Dot(Point),
    TwoOrMore(Seq<Point>),
    Task(Ref<Task>),
}

#[theta_routine("test::half")]
fn half(_cx: &mut Cx, n: Option<i64>) -> Option<i64> {
    n.filter(|n| n % 2 == 0).map(|n| n / 2)
}

#[theta_routine("test::first")]
fn first(_cx: &mut Cx, words: Seq<Text>) -> Option<String> {
    words.first().map(|word| word.to_uppercase())
}

#[theta_routine("test::nested")]
fn nested(_cx: &mut Cx, n: Option<Option<Text>>) -> Seq<Option<Text>> {
    [None, n.flatten()].into_iter().collect()
}

#[theta_routine("test::move_by")]
fn move_by(_cx: &mut Cx, by: i64, point: Point) -> Point {
    Point { x: point.x + by, near: Some(point.r#move.clone()), ..point }
}

#[theta_routine("test::count")]
fn count(cx: &mut Cx, shape: Shape) -> i64 {
    match shape {
        Shape::Nothing => 0,
        Shape::Dot(_) => 1,
        Shape::TwoOrMore(points) => points.len() as i64,
        Shape::Task(task) => task.call(cx, "minutes", ()).unwrap_or(-1),
    }
}

#[theta_routine("test::shapes")]
fn shapes(_cx: &mut Cx, task: Ref<Task>, each: &mut dyn FnMut(&mut Cx, Shape, Text) -> Flow) {
    let point = |x| Point { x, r#move: "point".into(), near: None };
    let points = [point(1), point(2), point(3)].into_iter().collect();
    for shape in [Shape::Nothing, Shape::Dot(point(0)), Shape::TwoOrMore(points), Shape::Task(task)] {
        if each(_cx, shape, "shape".into()) == Flow::Leave {
            return;
        }
    }
}

/// `proc (task) signals (…)`
type Then = Proc<fn(Ref<Task>)>;

/// Tasks and other objects, kept in Rust.
#[derive(Default)]
struct Keeper {
    tasks: Vec<Ref<Task>>,
    others: Vec<Any>,
    then: Option<Then>,
}

#[derive(Signals)]
enum KeeperSignal {
    NotFound,
    Raised(Raised),
}

#[theta_class("test::Keeper")]
impl Keeper {
    fn keep(&mut self, _cx: &mut Cx, task: Ref<Task>, other: Any) {
        self.tasks.push(task);
        self.others.push(other);
    }

    fn task(&self, _cx: &mut Cx, at: i64) -> Result<Ref<Task>, KeeperSignal> {
        self.tasks.get(at as usize - 1).cloned().ok_or(KeeperSignal::NotFound)
    }

    fn other(&self, _cx: &mut Cx, at: i64) -> Result<Any, KeeperSignal> {
        self.others.get(at as usize - 1).cloned().ok_or(KeeperSignal::NotFound)
    }

    fn when_done(&mut self, _cx: &mut Cx, then: Then) {
        self.then = Some(then);
    }

    fn done(&mut self, cx: &mut Cx, at: i64) -> Result<i64, KeeperSignal> {
        let task = self.task(cx, at)?;
        self.tasks.retain(|kept| *kept != task);
        if let Some(then) = &self.then {
            then.call(cx, (task,))?;
        }
        Ok(self.tasks.len() as i64)
    }

    fn tasks(&mut self, cx: &mut Cx, each: &mut dyn FnMut(&mut Cx, Ref<Task>) -> Flow) {
        for task in self.tasks.clone() {
            if each(cx, task) == Flow::Leave {
                assert!(self.tasks.len() != 3, "three tasks are left");
                return;
            }
        }
        assert!(self.tasks.len() != 2, "two tasks remain");
    }
}

#[theta_routine("test::new_keeper")]
fn new_keeper(_cx: &mut Cx) -> Keeper {
    Keeper::default()
}

#[theta_routine("test::kind")]
fn kind(cx: &mut Cx, object: Any) -> String {
    if let Some(text) = object.get::<Text>(cx) {
        return format!("the string {}", &*text);
    }
    if let Some(task) = object.get::<Ref<Task>>(cx) {
        return format!("a task of {} minutes", task.call::<_, i64>(cx, "minutes", ()).unwrap());
    }
    if let Some(n) = object.get::<i64>(cx) {
        return format!("the number {n}");
    }
    if let Some(numbers) = object.get::<Seq<i64>>(cx) {
        return format!("{} numbers", numbers.len());
    }
    match object.get::<Shape>(cx) {
        Some(_) => "a shape".to_owned(),
        None => "something else".to_owned(),
    }
}

#[theta_routine("test::apply")]
fn apply(cx: &mut Cx, f: Proc<fn(i64, Text) -> Text>, n: i64) -> Result<String, Raised> {
    let once = f.call(cx, (n, "a".into()))?;
    Ok(format!("{}{}", &*once, &*f.call(cx, (n, once.clone()))?))
}

#[theta_routine("test::outcome")]
fn outcome(cx: &mut Cx, f: Proc<fn() -> (i64, Text)>) -> String {
    match f.call(cx, ()) {
        Ok((n, text)) => format!("{n} {}", &*text),
        Err(raised) if raised.name() == "bad" => {
            let (n, text) = (raised.value::<i64>(cx, 0), raised.value::<Text>(cx, 1));
            assert!(raised.value::<Text>(cx, 0).is_none() && raised.value::<i64>(cx, 2).is_none());
            format!("bad: {} {}", n.unwrap(), &*text.unwrap())
        }
        Err(raised) => format!("{}: {raised}", raised.name()),
    }
}

#[theta_routine("test::push_all")]
fn push_all(cx: &mut Cx, texts: Ref<Texts>, words: Seq<Text>) -> Result<i64, Raised> {
    for word in words.iter() {
        texts.call::<_, ()>(cx, "append", (word.clone(),))?;
    }
    texts.call(cx, "length", ())
}

#[theta_routine("test::wrongly")]
fn wrongly(cx: &mut Cx, texts: Ref<Texts>, how: i64) -> Result<(), Raised> {
    match how {
        1 => texts.call(cx, "append", (1,)),
        2 => texts.call(cx, "add", ()),
        3 => texts.call::<_, i64>(cx, "fetch", (1,)).map(drop),
        _ => texts.call(cx, "elements", ()),
    }
}

fn registry() -> Registry {
    Registry::standard()
        .with_class::<Keeper>()
        .with_routine(new_keeper::native())
        .with_routine(half::native())
        .with_routine(first::native())
        .with_routine(nested::native())
        .with_routine(move_by::native())
        .with_routine(count::native())
        .with_routine(shapes::native())
        .with_routine(kind::native())
        .with_routine(apply::native())
        .with_routine(outcome::native())
        .with_routine(push_all::native())
        .with_routine(wrongly::native())
}

const DECLARATIONS: &str = r#"
task = type
  minutes () returns (int)
end task
point = struct[x: int, move: string, near: maybe[string]]
shape = oneof[nothing: null, dot: point, two_or_more: sequence[point], task: task]
Keeper = type
  keep (t: task, other: any)
  task (at: int) returns (task) signals (not_found)
  other (at: int) returns (any) signals (not_found)
  when_done (then_: proc (task) signals (stuck (string)))
  done (at: int) returns (int) signals (not_found, stuck (string))
  tasks () yields (task)
end Keeper
module tasks exports new_task, new_keeper
  Task = class implements task
    minutes: int
  end Task
  new_task (minutes: int) returns (task) return (Task{minutes := minutes}) end new_task
  NativeKeeper = class native "test::Keeper" implements Keeper end NativeKeeper
  native "test::new_keeper" new_keeper () returns (Keeper)
end tasks
native "test::half" half (n: maybe[int]) returns (maybe[int])
native "test::first" first (words: sequence[string]) returns (maybe[string])
native "test::nested" nested (n: maybe[maybe[string]]) returns (sequence[maybe[string]])
native "test::move_by" move_by (by: int, p: point) returns (point)
native "test::count" count (s: shape) returns (int)
native "test::shapes" shapes (t: task) yields (shape, string)
native "test::kind" kind (object: any) returns (string)
native "test::apply" apply (f: proc (int, string) returns (string) signals (bad), n: int) returns (string) signals (bad)
native "test::outcome" outcome (f: proc () returns (int, string) signals (bad (int, string), worse)) returns (string)
native "test::push_all" push_all (texts: array[string], words: sequence[string]) returns (int)
native "test::wrongly" wrongly (texts: array[string], how: int)
"#;

fn run(body: &str) -> String {
    printed(&registry(), DECLARATIONS, body)
}

#[test]
fn what_may_be_missing() {
    let out = run(r#"
  print(half(some(6)).unparse() || half(some(7)).unparse() || half(none[int]()).unparse())
  print(first(sequence_of(.. "ape", "bee")).unparse() || first(sequence_of[string](..)).unparse())
  print(nested(some(some("x"))).unparse() || nested(none[maybe[string]]()).unparse())"#);
    let expected = "{some: 3}{none: nil}{none: nil}\n\
                    {some: \"APE\"}{none: nil}\n\
                    [{none: nil}, {some: {some: \"x\"}}][{none: nil}, {none: nil}]\n";
    assert_eq!(out, expected.replace("{some: {some: \"x\"}}", "{some: \"x\"}"));
}

#[test]
fn structs_and_oneofs() {
    let out = run(r#"
  p: point := move_by(2, point{x: 40, move: "on", near: none[string]()})
  print(p.unparse())
  print(move_by(0, p).near.value().unparse()) except when wrong_tag: print("?") end
  print(count(shape{nothing: nil}).unparse() || count(shape{dot: p}).unparse())
  print(count(shape{two_or_more: sequence_of(.. p, p)}).unparse() || count(shape{task: new_task(7)}).unparse())
  for s: shape, word: string in shapes(new_task(5)) do
    tagcase s
      when nothing: print(word || " without points")
      when dot (d: point): print(word || d.unparse())
      when two_or_more (many: sequence[point]): print(word || many.unparse())
      when task (t: task): print(word || " that takes " || t.minutes().unparse())
    end
  end
  for s: shape, word: string in shapes(new_task(5)) do
    if s.is_dot() then break end
    print(word)
  end"#);
    let point = |x: i64| format!("{{x: {x}, move: \"point\", near: {{none: nil}}}}");
    let points: Vec<String> = (1..=3).map(point).collect();
    let expected = format!(
        "{{x: 42, move: \"on\", near: {{some: \"on\"}}}}\non\n01\n27\nshape without points\nshape{}\n\
         shape[{}]\nshape that takes 5\nshape\n",
        point(0),
        points.join(", ")
    );
    assert_eq!(out, expected);
}

#[test]
fn objects_are_kept_from_collections() {
    let out = run(r#"
  k: Keeper := new_keeper()
  for i: int in 1.to(3) do k.keep(new_task(i * 10), i.unparse() || "th") end
  garbage: array[string] := array_new[string]()
  for i: int in 1.to(200) do garbage := array_fill[string](1, 50, i.unparse()) end
  t: task := k.task(2)
  print(t.minutes().unparse() || " " || kind(k.other(3)))
  print(same_object(t, k.task(2)).unparse() || same_object(t, k.task(1)).unparse())
  print(k.task(4).minutes().unparse()) except when not_found: print("no task") end
  print(kind(t) || ", " || kind(sequence_of(.. 1, 2)) || ", " || kind(k))
  print(kind(shape{nothing: nil}) || ", " || kind(garbage))
  print(kind(40 + 2) || ", " || kind('x'))"#);
    let expected = "20 the string 3th\ntruefalse\nno task\na task of 20 minutes, 2 numbers, something else\n\
                    a shape, something else\nthe number 42, something else\n";
    assert_eq!(out, expected);
}

#[test]
fn natives_call_routines() {
    let declarations = format!(
        "{DECLARATIONS}
repeated (n: int, s: string) returns (string) signals (bad)
  if n < 0 then signal bad end
  if n = 0 then signal failure(\"nothing\") end
  return (array_fill[string](1, n, s).unparse()) except when bounds: signal bad end
end repeated
prefixed (prefix: string, n: int, s: string) returns (string) return (prefix || n.unparse() || s) end prefixed
pair () returns (int, string) return (3, \"three\" || \"!\") end pair
off (how: int) returns (int, string) signals (bad (int, string), worse)
  if how = 1 then signal bad(4, \"four\" || \"!\") end
  if how = 2 then signal worse end
  return (1 / 0, \"\") except when zero: signal failure(\"too \" || \"bad\") end
end off
"
    );
    let out = printed(
        &registry(),
        &declarations,
        r#"
  print(apply(repeated, 2))
  print(apply(repeated, -1)) except when bad: print("bad") end
  print(apply(repeated, 0)) except when failure (why: string): print(why) when bad: end
  print(apply(bind(prefixed, "p", *, *), 7)) except when bad: end
  print(outcome(pair))
  for how: int in 1.to(3) do print(outcome(bind(off, how))) end"#,
    );
    let expected = "[\"a\", \"a\"][\"[\\\"a\\\", \\\"a\\\"]\", \"[\\\"a\\\", \\\"a\\\"]\"]\nbad\nnothing\np7ap7p7a\n3 three!\n\
                    bad: 4 four!\nworse: worse\nfailure: too bad\n";
    assert_eq!(out, expected);
}

#[test]
fn calls_in_circles_end() {
    let declarations = format!(
        "{DECLARATIONS}
deep (n: int, s: string) returns (string) return (apply(deep, n)) except when bad: return (\"\") end end deep
"
    );
    let body = "  print(deep(1, \"\")) except when failure (why: string): print(why) end";
    for mode in [Mode::Compiled, Mode::Interpreted] {
        let out = support::printed_by(&registry(), &declarations, body, mode, Collect::Ordinary);
        assert_eq!(out, "stack overflow\n");
    }
}

#[test]
fn what_a_routine_signals_goes_through_a_native() {
    let declarations = format!(
        "{DECLARATIONS}
print_task (t: task) signals (stuck (string))
  if t.minutes() = 20 then signal stuck(\"at \" || t.minutes().unparse()) end
  print(t.minutes().unparse() || \" done\")
end print_task
again (k: Keeper, t: task) signals (stuck (string))
  k.done(1) except when not_found: when failure (why: string): signal stuck(why) end resignal stuck
end again
"
    );
    let out = printed(
        &registry(),
        &declarations,
        r#"
  k: Keeper := new_keeper()
  for i: int in 1.to(4) do k.keep(new_task(i * 10), "") end
  k.when_done(print_task)
  for at: int in 1.to(2) do
    print(k.done(1).unparse())
      except when stuck (where_: string): print("stuck " || where_) when not_found: print("none") end
  end
  % The object is in use while it calls.
  k.when_done(bind(again, k, *))
  k.done(1) except when stuck (why: string): print(why) when not_found: end"#,
    );
    let expected = "10 done\n3\nstuck at 20\nnative `test::Keeper.done`: the object is in use\n";
    assert_eq!(out, expected);
}

#[test]
fn panics_in_and_after_the_body_of_a_loop() {
    let out = run(r#"
  three: Keeper := new_keeper()
  for i: int in 1.to(3) do three.keep(new_task(i), "") end
  begin
    for t: task in three.tasks() do
      print("in " || t.minutes().unparse())
      if t.minutes() = 2 then exit found end
    end
  end except when found: print("found") when failure (why: string): print(why) end
  for t: task in three.tasks() do print("never") end except when failure (why: string): print(why) end
  two: Keeper := new_keeper()
  for i: int in 1.to(2) do two.keep(new_task(i), "") end
  for t: task in two.tasks() do print("in " || t.minutes().unparse()) end
    except when failure (why: string): print(why) end
  inner: Keeper := new_keeper()
  for i: int in 1.to(2) do inner.keep(new_task(i), "") end
  outer: Keeper := new_keeper()
  outer.keep(new_task(5), "")
  for o: task in outer.tasks() do
    for t: task in inner.tasks() do print((o.minutes() + t.minutes()).unparse()) end
  end except when failure (why: string): print(why) end
  for o: task in outer.tasks() do print("the outer is as it was") end"#);
    let expected = "in 1\nin 2\nnative `test::Keeper.tasks` panicked: three tasks are left\n\
                    native `test::Keeper.tasks`: the object is poisoned by a panic\n\
                    in 1\nin 2\nnative `test::Keeper.tasks` panicked: two tasks remain\n\
                    6\n7\nnative `test::Keeper.tasks` panicked: two tasks remain\nthe outer is as it was\n";
    assert_eq!(out, expected);
}

#[test]
fn natives_call_methods_of_built_in_types() {
    let out = run(r#"
  texts: array[string] := array_new[string]()
  print(push_all(texts, sequence_of(.. "a", "b")).unparse() || texts.unparse())
  texts.clear()
  for how: int in 1.to(4) do
    wrongly(texts, how) except when failure (why: string): print(why) end
  end"#);
    let expected = "2[\"a\", \"b\"]\n\
                    a native calls `array[string].append (v: string)` with another heading\n\
                    a native calls `array[string].add`, which does not exist\n\
                    a native calls `array[string].fetch (i: int) returns (string) signals (bounds)` with another heading\n\
                    a native calls `array[string].elements () yields (string)` with another heading\n";
    assert_eq!(out, expected);
}

#[test]
fn a_native_with_any_stands_for_one_with_a_basic_type() {
    struct Teller;

    #[theta_class("test::Teller")]
    impl Teller {
        fn tell(&self, cx: &mut Cx, what: Any) -> String {
            what.get::<i64>(cx).map_or_else(|| "no number".to_owned(), |n| (n + 1).to_string())
        }
    }

    #[theta_routine("test::new_teller")]
    fn new_teller(_cx: &mut Cx) -> Teller {
        Teller
    }

    let registry = Registry::standard().with_class::<Teller>().with_routine(new_teller::native());
    let declarations = "
narrow = type tell (what: int) returns (string) end narrow
wide = type < narrow tell (what: any) returns (string) end wide
module tellers exports new_teller
  Teller = class native \"test::Teller\" implements wide end Teller
  native \"test::new_teller\" new_teller () returns (wide)
end tellers
";
    let body = "
  w: wide := new_teller()
  n: narrow := w
  print(n.tell(41) || \" \" || w.tell(6) || \" \" || w.tell(\"x\"))";
    assert_eq!(printed(&registry, declarations, body), "42 7 no number\n");
}

#[test]
fn objects_of_another_program_stay_out() {
    static KEPT: std::sync::Mutex<Option<Any>> = std::sync::Mutex::new(None);

    #[theta_routine("test::swap")]
    fn swap(cx: &mut Cx, object: Any) -> Any {
        let before = KEPT.lock().unwrap().replace(object.clone());
        assert!(before.as_ref().is_none_or(|before| *before == object || before.get::<Text>(cx).is_none()));
        before.unwrap_or(object)
    }

    let registry = Registry::standard().with_routine(swap::native());
    let declarations = "native \"test::swap\" swap (object: any) returns (any)";
    let body = "
  s: string := \"a\" || \"b\"
  print(same_object(swap(s), s).unparse()) except when failure (why: string): print(why) end
  print(same_object(swap(s), s).unparse())";
    let run = || support::printed_by(&registry, declarations, body, Mode::Compiled, Collect::Zeal(1));
    assert_eq!(run(), "true\ntrue\n");
    assert_eq!(run(), "this object belongs to another running program\ntrue\n");
}

#[test]
fn headings_must_be_those_of_rust() {
    let text = DECLARATIONS
        .replace("n: maybe[int]", "n: maybe[real]")
        .replace("move_by (by: int, p: point)", "move_by (by: int, p: struct[x: int, near: maybe[string]])")
        .replace("count (s: shape)", "count (s: oneof[dot: point, nothing: null])")
        .replace("kind (object: any)", "kind (object: task)")
        .replace("f: proc (int, string) returns (string)", "f: proc (string, int) returns (string)")
        .replace("returns (int, string) signals (bad (int, string), worse)", "yields (int, string)")
        .replace("f: proc ()", "f: iter ()")
        .replace("texts: array[string], words", "texts: array[int], words")
        .replace("keep (t: task, ", "keep (t: Keeper, ");
    insta::assert_snapshot!(support::mistakes(&registry(), &text));
}

#[test]
fn programs_are_compared_when_they_are_linked_too() {
    let linked = |text: &str| {
        let mut sources = bifrost_theta::Sources::new();
        sources.add("main.theta", text);
        // Whoever compiles elsewhere may not know the natives.
        let program = bifrost_theta::compile(&sources, &bifrost_theta::Options::default()).program.unwrap();
        let engine =
            bifrost_engine::Engine::with_natives(program, Mode::Compiled, registry().natives().clone());
        engine.map(drop).map_err(|e| e.to_string())
    };
    assert_eq!(linked(DECLARATIONS), Ok(()));
    let other = DECLARATIONS.replace("n: maybe[int]", "n: oneof[none: null, some: int]");
    let expected = "`test::half (n: oneof[none: null, some: int]) returns (maybe[int])` is declared \
        native, but the heading of the native is `(n: maybe[int]) returns (maybe[int])`";
    assert_eq!(linked(&other), Err(expected.to_owned()));
}
