use super::{parse, parse_func, print_func, print_program};
use crate::verify::verify_program;

const TEXT: &str = r#"
; Everything that the text form has.
type counter
  bump (by: int) returns (int) signals (full (int))
end
type named < counter {advance for bump} immutable
  name () returns (string)
  get () returns (int)
end
class Counter implements counter
  count: int
  method bump (by: int) returns (int) signals (full (int))
    var sum: int
    var b: bool
    sum := get Counter.count(self)
    except
      sum := int.add(sum, by)
    when overflow:
      signal full (0)
    end
    set Counter.count(self, sum)
    b := int.gt(sum, 10)
    if b then
      signal full (sum)
    else
      return (sum)
    end
  end
end
class Named implements named inherits Counter
  text: string
  set: int
  method advance (by: int) returns (int) signals (full (int))
    var n: int
    n := Counter.bump(self, by) 
    return (n)
  end
  method get () returns (int)
    return (1)
  end
  method name () returns (string)
    var s: string
    s := get Named.text(self)
    return (s)
  end
end
class Gauge implements named native "gauges::Gauge"
  state: int
  native "gauges::Gauge.bump" method bump (by: int) returns (int) signals (full (int))
  native "gauges::Gauge.advance" method advance (by: int) returns (int) signals (full (int))
  native "gauges::Gauge.name" method name () returns (string)
  native "gauges::Gauge.get" private method get () returns (int)
end
private native "gauges::open" routine open (name: string) returns (named)
routine pairs (n: int) yields (int, real)
  var i: int, r: real
  for i in int.to(1, n) do
    r := int.to_real(i)
    yield (i, r)
  end
  return
end
private routine all (c: counter) returns (int, string)
  var x%1: int, x%2: int, r: real, s: string, q: sequence[int], name: string, b: bool, ch: char, z: null
  x%1 := -9223372036854775808
  r := 1.5
  r := -1e300
  r := real%7ff8000000000000
  ch := '\u{10ffff}'
  z := nil
  s := "quote \" and \\ and \n"
  q := [1, 2, 3] @9
  except
    for x%2, r in pairs(3) do @4
      x%1 := counter.bump(c, x%2) @5
      continue
    end
    print(s)
    exit full (7)
  when full, overflow:
  others (name):
    s := name
  end
  while
    b := int.gt(x%1, 3)
  test b do
    x%1 := int.sub(x%1, 1)
    break
  end
  while
  test true do
    return (x%1, s)
  end
end
routine main () returns (int)
  var n: int, why: string
  except
    transaction @3
      n := 1
    end
    transaction
      return (n)
    end
  when aborted (why):
  end
  return (0)
end
routine "test" (if%0: int) returns (int)
  if%0 := "test"(if%0)
  "test"(if%0)
  return (if%0)
end
procedure p (n: int) returns (int)
  var m: int
  m := itself(n)
  return (m)
end
batch b (c: counter) calls p
  var m: int
  m := procedure 0(1)
  m := counter.bump(c, m)
end
"#;

#[test]
fn what_is_printed_reads_back() {
    let mut file = parse(&TEXT.replace("Counter.bump(self, by)", "Named.bump(self, by)")).unwrap();
    assert_eq!(
        verify_program(&file.program).map_err(|e| e.iter().map(ToString::to_string).collect::<Vec<_>>()),
        Ok(())
    );
    for func in file.program.funcs.values().cloned().collect::<Vec<_>>() {
        let text = print_func(&file.program, &func);
        let back = parse_func(&mut file.program, &text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        assert_eq!(back, func, "{text}");
    }
    let text = print_program(&file.program);
    let again = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    assert_eq!(print_program(&again.program), text);
    assert_eq!(file.batches.len(), 2);
    assert_eq!(file.batches[1].procedures[0].name, "p");
}

#[test]
fn mistakes_name_their_line() {
    let error = |text: &str| parse(text).unwrap_err().to_string();
    assert_eq!(error("routine f ()\n  x := 1\nend"), "line 2: there is no variable `x`");
    assert_eq!(error("routine f ()\n  if true then"), "line 2: `end` is missing");
    assert_eq!(error("routine f (x: foo) end"), "line 1: there is no type `foo`");
    assert_eq!(error("?"), "line 1: `?` is not a token");
}
