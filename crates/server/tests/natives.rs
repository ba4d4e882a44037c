//! Natives seen from Theta, as machine code and in the interpreter.

mod support;

use bifrost_engine::Mode;
use bifrost_native::standard::Files;
use bifrost_native::{Cx, Flow, Registry, Seq, Signals, Text, theta_class, theta_routine};
use bifrost_runtime::Collect;
use bifrost_server::program;
use support::printed;

struct Gauge {
    name: Text,
    level: i64,
}

#[derive(Signals)]
enum FillSignal {
    Full(i64, Text),
    Failure(String),
}

#[theta_class("test::Gauge")]
impl Gauge {
    fn level(&self, _cx: &mut Cx) -> i64 {
        self.level
    }

    fn fill(&mut self, _cx: &mut Cx, by: i64) -> Result<i64, FillSignal> {
        assert!(by != 13, "thirteen is bad luck");
        if by < 0 {
            return Err(FillSignal::Failure("nothing flows back".to_owned()));
        }
        if self.level + by > 100 {
            return Err(FillSignal::Full(100 - self.level, self.name.clone()));
        }
        self.level += by;
        Ok(self.level)
    }

    fn describe(&self, _cx: &mut Cx, ratio: f64, mark: char, loud: bool) -> (String, f64, bool) {
        (format!("{}{mark}{}", &*self.name, self.level), ratio * 2.0, !loud)
    }

    fn levels(&mut self, cx: &mut Cx, upto: i64, each: &mut dyn FnMut(&mut Cx, i64, String) -> Flow) {
        for i in self.level..=upto {
            if each(cx, i, "*".repeat(i as usize)) == Flow::Leave {
                return;
            }
        }
    }

    fn outweighs(&self, cx: &mut Cx, other: bifrost_native::Obj<'_, Gauge>) -> bool {
        other.with(cx, |other| self.level > other.level).unwrap_or(false)
    }
}

#[theta_routine("test::new_gauge")]
fn new_gauge(_cx: &mut Cx, name: Text, level: i64) -> Gauge {
    Gauge { name, level }
}

#[theta_routine("test::longest")]
fn longest(_cx: &mut Cx, words: Seq<Text>) -> Seq<i64> {
    words.iter().map(|word| word.chars().count() as i64).collect()
}

#[theta_routine("test::reversed")]
fn reversed(_cx: &mut Cx, bytes: &[u8], _nothing: ()) -> Vec<u8> {
    bytes.iter().rev().copied().collect()
}

#[theta_routine("test::forever")]
fn forever(cx: &mut Cx) {
    while !cx.must_end() {}
}

fn registry() -> Registry {
    Registry::standard()
        .with_class::<Gauge>()
        .with_routine(new_gauge::native())
        .with_routine(longest::native())
        .with_routine(reversed::native())
        .with_routine(forever::native())
}

const DECLARATIONS: &str = r#"
Gauge = type
  level () returns (int)
  fill (by: int) returns (int) signals (full (int, string))
  describe (ratio: real, mark: char, loud: bool) returns (string, real, bool)
  levels (upto: int) yields (int, string)
end Gauge
module gauges exports new_gauge, heavier
  NativeGauge = class native "test::Gauge" implements Gauge
    outweighs (other: NativeGauge) returns (bool)
  end NativeGauge
  native "test::new_gauge" native_gauge (name: string, level: int) returns (NativeGauge)
  new_gauge (name: string, level: int) returns (Gauge) return (native_gauge(name, level)) end new_gauge
  heavier (a: int, b: int) returns (bool) return (native_gauge("a", a).outweighs(native_gauge("b", b))) end heavier
end gauges
native "test::longest" longest (words: sequence[string]) returns (sequence[int])
native "test::reversed" reversed (b: bytes, n: null) returns (bytes)
native "test::forever" forever ()
"#;

fn gauges(body: &str) -> String {
    printed(&registry(), DECLARATIONS, body)
}

/// What is wrong with a program.
fn mistakes(text: &str) -> String {
    support::mistakes(&registry(), text)
}

#[test]
fn values_cross_both_ways() {
    let out = gauges(
        r#"
  g: Gauge := new_gauge("tank", 40)
  print(g.fill(2).unparse() || " " || g.level().unparse())
  s: string := ""
  r: real := 0.0
  b: bool := true
  s, r, b := g.describe(1.5, ':', true)
  print(s || " " || r.unparse() || " " || b.unparse())
  print(longest(sequence_of(.. "äpfel", "", "fig")).unparse())
  print(reversed("abc".to_bytes(), nil).to_string())
  print(heavier(2, 1).unparse() || heavier(1, 2).unparse())
  o: any := g
  print(same_object(o, g).unparse())"#,
    );
    assert_eq!(out, "42 42\ntank:42 3.0 false\n[5, 0, 3]\ncba\ntruefalse\ntrue\n");
}

#[test]
fn exceptions_carry_values() {
    let out = gauges(
        r#"
  g: Gauge := new_gauge("tank", 95)
  print(g.fill(10).unparse())
    except when full (room: int, name: string): print(name || " has room for " || room.unparse()) end
  print(g.fill(-1).unparse()) except when failure (why: string): print(why) end"#,
    );
    assert_eq!(out, "tank has room for 5\nnothing flows back\n");
}

#[test]
fn loops_over_native_iterators_can_be_left() {
    let out = gauges(
        r#"
  g: Gauge := new_gauge("", 1)
  for i: int, stars: string in g.levels(3) do print(i.unparse() || stars) end
  for i: int, stars: string in g.levels(1000000) do
    if i = 2 then continue end
    if i > 3 then break end
    print(stars)
  end
  begin
    for i: int, stars: string in g.levels(9) do
      if i = 2 then exit done end
    end
  end except when done: print("done") end
  % The object is in use during its own loop.
  for i: int, stars: string in g.levels(9) do print(g.level().unparse()) end
    except when failure (why: string): print(why) end"#,
    );
    let expected = "1*\n2**\n3***\n*\n***\ndone\nnative `test::Gauge.level`: the object is in use\n";
    assert_eq!(out, expected);
}

#[test]
fn panics_are_failures_and_poison_the_object() {
    let out = gauges(
        r#"
  g: Gauge := new_gauge("", 1)
  other: Gauge := new_gauge("", 2)
  print(g.fill(13).unparse()) except when failure (why: string): print(why) end
  print(g.level().unparse()) except when failure (why: string): print(why) end
  print(other.level().unparse())"#,
    );
    let expected = "native `test::Gauge.fill` panicked: thirteen is bad luck\n\
                    native `test::Gauge.level`: the object is poisoned by a panic\n2\n";
    assert_eq!(out, expected);
}

#[test]
fn headings_must_be_those_of_rust() {
    let text = DECLARATIONS
        .replace("words: sequence[string]", "words: sequence[int]")
        .replace("outweighs (other: NativeGauge)", "outweighs (other: Gauge)")
        .replace("signals (full (int, string))", "");
    insta::assert_snapshot!(mistakes(&text));
}

#[test]
fn unknown_natives_and_misused_classes_are_mistakes() {
    let text = r#"
Empty = type end Empty
Gauge = class native "test::Gauges" implements Empty end Gauge
Sub = class implements Empty inherits Gauge end Sub
native "array_new" sneaky () returns (string)
native "test::reverse" reverse (b: bytes) returns (bytes)
native "test::any" anything [T] (b: T)
new_empty () returns (Empty) return (Gauge{}) end new_empty
"#;
    insta::assert_snapshot!(mistakes(text));
}

#[test]
fn natives_see_only_what_is_allowed() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("inside")).unwrap();
    std::fs::write(folder.path().join("secret"), "s3cret").unwrap();
    std::fs::write(folder.path().join("inside/a.txt"), "hello").unwrap();
    let body = r#"
  print(read_file("a.txt").to_string()) except when not_found: print("no a.txt") when bad_format: end
  print(read_file("../secret").to_string()) except when not_found: print("no secret") when bad_format: end
  write_file("b.txt", "world".to_bytes()) except when not_possible (why: string): print("no b.txt") end
  for name: string in entries(".") do print(name) end except when not_found: print("no folder") end
  f: BlockFile := open_host_file("b.txt") except when not_found: return end
  print(f.size().unparse() || f.read(2, 3).to_string())
    except when bounds, bad_format: print("odd") end
  print(f.read(2, 5).to_string()) except when bounds: print("bounds") when bad_format: end"#;
    let standard = Registry::standard();
    let imports = "import std.files";
    assert_eq!(run_with_imports(&standard, imports, body), "no a.txt\nno secret\nno b.txt\nno folder\n");
    let files = Files::default().and_in(folder.path().join("inside")).unwrap();
    let allowed = standard.with(files);
    let expected = "hello\nno secret\na.txt\nb.txt\n5orl\nbounds\n";
    assert_eq!(run_with_imports(&allowed, imports, body), expected);
}

/// As `printed`, from a file on the disk, whose imports are looked for.
fn run_with_imports(registry: &Registry, imports: &str, body: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("main.theta");
    std::fs::write(&path, format!("{imports}\nmain ()\n{body}\nend main\n")).unwrap();
    let engine =
        program::load_with(&[path], None, Mode::Compiled, registry).unwrap_or_else(|e| panic!("{e}"));
    support::output::output(&engine, Collect::Ordinary)
}

#[test]
fn the_standard_generator_repeats_itself() {
    let body = "
  a: Generator := new_generator(7)
  b: Generator := new_generator(7)
  for i: int in 1.to(100) do
    if a.next(1000) ~= b.next(1000) then print(\"differs\") end
  end
  f: real := a.fraction()
  print((f >= 0.0 & f < 1.0).unparse() || (monotonic_ns() <= monotonic_ns()).unparse())
  print(a.next(0).unparse()) except when bounds: print(\"bounds\") end";
    let out = run_with_imports(&Registry::standard(), "import std.random\nimport std.system", body);
    assert_eq!(out, "truetrue\nbounds\n");
}
