//! Methods that wait, as machine code: what of them is with the code, what in their joins, and that they go on as code (`docs/book/language/actors.md`).

#[path = "support/orders.rs"]
mod orders;

use bifrost_engine::{Engine, Mode, Run};
use bifrost_runtime::{Collect, Limits};
use orders::{load, prints, ran};

/// Answers some requests at once, some when it is told to, and some with an exception.
const LATE: &str = "Late = actor
  held: array[replier[int]]   spare: array[int]
  new () make {held := array_new[replier[int]](), spare := array_new[int]()} end new
  at_once (n: int) returns (int) signals (odd (int))
    if n // 3 = 2 then signal odd(n) end
    reply (n)
  end at_once
  later (n: int) returns (int)
    if spare.empty() then held.append(replyto) else reply (spare.remove_low()) end
  end later
  give (v: int)
    if held.empty() then spare.append(v) else held.remove_low().deliver(v) end
  end give
  by_other (l: Late, n: int) returns (int)
    delegate l.later(n)
  end by_other
end Late
";

/// Which ways into a method code goes, in their order.
fn ways_with_code(engine: &Engine, method: &str) -> Vec<bool> {
    let found = engine.program().funcs.iter().find(|(_, func)| func.name == method);
    let (func, _) = found.expect("the program has the method");
    let layout = engine.image().join_layout(func).expect("the method has waited");
    layout.ways.iter().map(|way| way.has_code()).collect()
}

#[test]
fn code_goes_on_while_several_replies_are_missing() {
    let text = format!(
        "{LATE}Asker = actor
  sum: int   log: string
  new () make {{sum := 0, log := \"\"}} end new
  go (l: Late, other: Late, n: int, f: real)
    g: real := f * 2.0
    for i: int in 1.to(n) do
      kept: string := \"r\" || i.unparse()
      x: int := l.later(i)
      h: real := g + 1.0
      z: int := other.by_other(l, i)
      send l.give(100 * i)
      send l.give(1000 * i)
      begin
        y: int := l.at_once(i)
        sum := sum + y
      end except when odd (k: int): log := log || kept || \" odd \" || k.unparse() || \", \" end
      sum := sum + x + z
      if h = g + 1.0 then sum := sum + 1 end
    end
    log := log || \"end\"
  end go
  told () returns (string) reply (log || \" \" || sum.unparse()) end told
end Asker
main ()
  a: Asker := Asker.new()
  send a.go(Late.new(), Late.new(), 9, 1.5)
  print(a.told())
end main"
    );
    // The sum of 1 to 9 but for 2, 5 and 8, 1100 of it, and 9 rounds.
    prints(&text, "r2 odd 2, r5 odd 5, r8 odd 8, end 49539\n");
}

#[test]
fn replies_for_elements_come_late() {
    let text = format!(
        "{LATE}Asker = actor
  new () make {{}} end new
  go (l: Late, n: int) returns (string)
    all: string := \"\"
    for round: int in 1.to(4) do
      a: array[int] := array_fill[int](0, n, 0)
      names: array[string] := array_new[string]()
      for i: int in 0.to(n - 1) do
        if i // 2 = 0 then a[i] := l.later(i) else a[i] := l.at_once(3 * i) end
        names.append(i.unparse())
        if i // 2 = 0 then send l.give(10 * i + round) end
      end
      for v: int in a.elements() do all := all || v.unparse() || \" \" end
      all := all || names.length().unparse() || \"; \"
    end
    reply (all)
  end go
end Asker
main ()
  print((Asker.new()).go(Late.new(), 4))
end main"
    );
    prints(&text, "1 3 21 9 4; 2 3 22 9 4; 3 3 23 9 4; 4 3 24 9 4; \n");
}

#[test]
fn a_method_that_waits_has_answered_before_or_has_another_answer() {
    let text = format!(
        "{LATE}Asker = actor
  seen: int
  new () make {{seen := 0}} end new
  early (l: Late, n: int) returns (string)
    reply (\"early \" || n.unparse())
    x: int := l.later(n)
    seen := seen + x
  end early
  other (l: Late, n: int) returns (int)
    x: int := l.later(n)
    delegate l.later(n)
    seen := seen + x
  end other
  place (l: Late, n: int) returns (int)
    r: replier[int] := replyto
    x: int := l.later(n)
    r.deliver(x + 1)
    seen := seen + x
  end place
  refused (l: Late) returns (int) signals (odd (int))
    x: int := l.later(1)
    delegate l.at_once(2)
    seen := seen + x
  end refused
  failing (l: Late, n: int) returns (int)
    reply (n)
    x: int := l.later(n)
    y: int := 1 / (x - x)
    seen := seen + y
  end failing
  so_far () returns (int) reply (seen) end so_far
end Asker
main ()
  l: Late := Late.new()
  a: Asker := Asker.new()
  for i: int in 1.to(5) do
    e: string := a.early(l, i)
    o: int := a.other(l, i)
    p: int := a.place(l, i)
    f: int := a.failing(l, i)
    for k: int in 1.to(6) do send l.give(7) end
    print(e || \" \" || o.unparse() || \" \" || p.unparse() || \" \" || f.unparse())
    begin
      q: int := a.refused(l)
      print(q.unparse())
    end except when odd (k: int): print(\"odd \" || k.unparse()) end
    print(a.so_far().unparse())
  end
end main"
    );
    let mut expected = String::new();
    for i in 1..=5 {
        expected += &format!("early {i} 7 8 {i}\nodd 2\n{}\n", 28 * i);
    }
    prints(&text, &expected);
}

#[test]
fn what_nobody_awaits_is_told_when_it_fails() {
    let text = format!(
        "{LATE}Asker = actor
  n: int
  new () make {{n := 0}} end new
  go (l: Late, k: int)
    x: int := l.at_once(k)
    y: int := l.later(k)
    n := n + 1
  end go
  count () returns (int) reply (n) end count
end Asker
main ()
  l: Late := Late.new()
  a: Asker := Asker.new()
  for i: int in 1.to(30) do send a.go(l, i) end
  unused: int := l.at_once(2)
  print(a.count().unparse())
end main"
    );
    prints(&text, "30\n");
    for mode in [Mode::Compiled, Mode::Interpreted] {
        let (_, stats) = ran(&load(&text, mode), Collect::Ordinary, None, &[]);
        assert_eq!(stats.lost_exceptions, 11, "{mode:?}");
    }
}

#[test]
fn a_call_on_itself_in_the_body_of_a_loop_over_an_iterator_makes_no_way() {
    let text = "evens (n: int) yields (int)
  i: int := 0
  while i < n do yield (i) i := i + 2 end
end evens
Counter = actor
  sum: int
  new () make {sum := 0} end new
  work (k: int) returns (int)
    i: int := 0
    while i < 50 do i := i + 1 end
    reply (self.twice(k) + i - 50)
  end work
  twice (k: int) returns (int)
    i: int := 0
    while i < k do i := i + 1 end
    reply (2 * i)
  end twice
  go (n: int) returns (int)
    for e: int in evens(n) do sum := sum + self.work(e) end
    reply (sum)
  end go
end Counter
Other = actor
  new () make {} end new
  poke () end poke
end Other
main ()
  o: Other := Other.new()
  for i: int in 1.to(20) do send o.poke() end
  print((Counter.new()).go(10).unparse())
end main";
    prints(text, "40\n");
}

#[test]
fn a_loop_behind_a_selection_becomes_code() {
    let text = "Box = actor
  sum: int
  new () make {sum := 0} end new
  put (k: int) sum := sum + k end put
  go (n: int) returns (int)
    got: int := 0
    wait when put (k: int): got := k end
    i: int := 0
    while i < n do i := i + 1 sum := sum + got end
    reply (sum)
  end go
end Box
main (args: sequence[string])
  b: Box := Box.new()
  x: int := b.go(args[1].to_int())
  send b.put(3)
  print(x.unparse())
end main";
    for seed in (0..50).map(Some).chain([None]) {
        let run = Run { hot_steps: 5, ..Run::from(Mode::Compiled) };
        let engine = load(text, run);
        let (ran, _) = ran(&engine, Collect::Zeal(5), seed, &["500"]);
        assert_eq!(ran.output, "1500\n", "{seed:?}");
        // The selection, and the loop behind it.
        assert_eq!(ways_with_code(&engine, "Box.go"), [false, true], "{seed:?}");
    }
}

#[test]
fn a_method_goes_on_as_code_when_it_has_waited_often() {
    let text = format!(
        "{LATE}Asker = actor
  sum: int
  new () make {{sum := 0}} end new
  ask (l: Late, n: int)
    x: int := l.later(n)
    y: int := l.later(n)
    sum := sum + x + y
  end ask
  value () returns (int) reply (sum) end value
end Asker
main (args: sequence[string])
  l: Late := Late.new()
  a: Asker := Asker.new()
  for i: int in 1.to(args[1].to_int()) do
    send a.ask(l, i)
    send l.give(1)
    send l.give(2)
    x: int := a.value()
    x := x + 1
  end
  print(a.value().unparse())
end main"
    );
    let engine = load(&text, Mode::Compiled);
    let (ran, stats) = ran(&engine, Collect::Ordinary, None, &["20000"]);
    assert_eq!(ran.output, "60000\n");
    assert!(ways_with_code(&engine, "Asker.ask").contains(&true));
    // One join for each that waits, and one wait: the second reply is there by then.
    assert!(stats.joins < 41_000 && stats.waits < 61_000, "{stats:?}");
}

/// Others are answered while passive code, in which nothing can wait, goes on: above it on the stack.
#[test]
fn passive_code_that_lasts_lets_others_run() {
    let text = "P = actor
  n: int
  new () make {n := 0} end new
  next () returns (int)
    words: array[string] := array_new[string]()
    for i: int in 1.to(40) do words.append(\"w\" || i.unparse()) end
    n := n + words.length() / 40
    reply (n)
  end next
end P
Ticker = actor
  new () make {} end new
  tick (p: P, k: int)
    x: int := p.next()
    if k > 1 then send self.tick(p, k + x - x - 1) end
  end tick
end Ticker
spin (n: int, names: array[string]) returns (int)
  i: int := 0
  sum: int := 0
  first: string := names.bottom()
  while i < n do
    i := i + 1
    if first.length() = 2 then sum := sum + (i & 1) end
  end
  for name: string in names.elements() do sum := sum + name.length() end
  return (sum)
end spin
inner (n: int) returns (int)
  sum: int := 0
  for i: int in 1.to(n) do sum := sum + (i & 3) end
  return (sum)
end inner
Busy = actor
  new () make {} end new
  go (n: int) returns (int)
    names: array[string] := array_new[string]()
    for i: int in 1.to(9) do names.append(\"a\" || i.unparse()) end
    x: int := spin(n, names)
    reply (x + inner(n) - n / 2 * 3 - names.bottom().length())
  end go
end Busy
main (args: sequence[string])
  n: int := args[1].to_int()
  a: Busy := Busy.new()
  b: Busy := Busy.new()
  p: P := P.new()
  send (Ticker.new()).tick(p, 200)
  x: int := a.go(n)
  y: int := b.go(n)
  print((x + y - n).unparse())
  print(p.next().unparse())
end main";
    for (mode, n) in [(Mode::Compiled, 20_000_000), (Mode::Interpreted, 400_000)] {
        let engine = load(text, mode);
        for collect in [Collect::Ordinary, Collect::Zeal(1)] {
            let limits = Limits { collect, ..Limits::default() };
            // The longer it takes the surer its time is over before it has ended.
            let made_way = (0..5).any(|longer| {
                let arguments = [(n << (2 * longer)).to_string()];
                let (ran, stats) = orders::output::run_on(&engine, limits, 1, &arguments, |_| {});
                let (sum, asked) = ran.output.split_once('\n').expect("it prints two lines");
                assert_eq!(sum, "32", "{mode:?} {collect:?}");
                // Without others above it only the first message was served, which came before.
                let served = asked.trim_end().parse::<u64>().expect("it prints a number");
                assert_eq!(stats[0].ways > 0, served > 2, "{mode:?} {collect:?}: {stats:?}");
                stats[0].ways > 0
            });
            assert!(made_way, "{mode:?} {collect:?}");
        }
    }
}

/// So many replies that each has a bit of its own, and one more.
#[test]
fn as_many_replies_are_missing_as_there_are_requests() {
    for count in [64, 65] {
        let (mut asks, mut sum) = (String::new(), "0".to_owned());
        for at in 1..=count {
            asks += &format!("    x{at}: int := l.later({at})\n");
            sum += &format!(" + {at} * x{at}");
        }
        let text = format!(
            "{LATE}Asker = actor
  new () make {{}} end new
  go (l: Late) returns (int)
{asks}    for i: int in 1.to({count}) do send l.give(i) end
    reply ({sum})
  end go
end Asker
main ()
  print((Asker.new()).go(Late.new()).unparse())
end main"
        );
        let squares: i64 = (1..=count).map(|at| at * at).sum();
        prints(&text, &format!("{squares}\n"));
    }
}

/// More passive code that lasts than may have others above it: the last is not interrupted, and all end.
#[test]
fn more_passive_code_lasts_than_may_be_interrupted() {
    let text = "spin (n: int) returns (int)
  i: int := 0
  sum: int := 0
  while i < n do
    i := i + 1
    sum := sum + (i & 1)
  end
  return (sum)
end spin
Busy = actor
  new () make {} end new
  go (n: int) returns (int) reply (spin(n)) end go
end Busy
Starter = actor
  left: int
  sum: int
  new (n: int) make {left := n, sum := 0} end new
  start (b: Busy, n: int)
    send self.one(b, n)
  end start
  one (b: Busy, n: int)
    x: int := b.go(n)
    sum := sum + x
    left := left - 1
  end one
  disable all when left > 0
  all () returns (int) reply (sum) end all
end Starter
main (args: sequence[string])
  n: int := args[1].to_int()
  starters: array[Starter] := array_new[Starter]()
  for i: int in 1.to(24) do
    s: Starter := Starter.new(1)
    starters.append(s)
    send s.start(Busy.new(), n)
  end
  sum: int := 0
  for s: Starter in starters.elements() do sum := sum + s.all() end
  print(sum.unparse())
end main";
    let engine = load(text, Mode::Compiled);
    let (ran, stats) =
        orders::output::run_on(&engine, Limits::default(), 1, &["10000000".to_owned()], |_| {});
    assert_eq!(ran.output, "120000000\n");
    assert!(stats[0].ways > 0, "{stats:?}");
}

/// Whether machine code takes out the messages that wait for a class's actors.
fn has_turns_as_code(engine: &Engine, class: &str) -> bool {
    let types = &engine.program().types;
    let (ty, _) = types.iter().find(|(_, def)| def.name == class).expect("the program has the class");
    engine.image().table_of(ty).info().actor().expect("it is one of actors").turns.has_code()
}

#[test]
fn messages_of_several_methods_are_served_in_order_by_code() {
    let text = "Box = actor
  log: int   count: int
  new () make {log := 0, count := 0} end new
  one () log := (log * 31 + 1) // 1000003 end one
  by (n: int) log := (log * 31 + n) // 1000003 end by
  both (s: string, n: int) returns (int) signals (odd (string))
    log := (log * 31 + s.length() + n) // 1000003
    count := count + 1
    if n // 5 = 3 then signal odd(s) end
    reply (n)
  end both
  begin_with (f: Feeder, k: int)
    f.feed(self, k)
  end begin_with
  value () returns (string) reply (log.unparse() || \" \" || count.unparse()) end value
end Box
Feeder = actor
  sum: int   bad: int
  new () make {sum := 0, bad := 0} end new
  feed (b: Box, k: int)
    for i: int in 1.to(k) do
      send b.by(i)
      send b.one()
      send self.ask(b, i)
      send b.by(7)
    end
    send b.one()
  end feed
  ask (b: Box, i: int)
    begin
      x: int := b.both(\"no \" || i.unparse(), i)
      sum := sum + x
    end except when odd (s: string): bad := bad + s.length() end
  end ask
  value () returns (string) reply (sum.unparse() || \" \" || bad.unparse()) end value
end Feeder
main (args: sequence[string])
  b: Box := Box.new()
  f: Feeder := Feeder.new()
  for round: int in 1.to(args[1].to_int()) do
    b.begin_with(f, 100)
    f.value()
  end
  print(b.value() || \" \" || f.value())
end main";
    let interpreted = load(text, Mode::Interpreted);
    let expected = ran(&interpreted, Collect::Ordinary, None, &["50"]).0.output;
    assert!(expected.contains(" 5000 "), "{expected}");
    // Who selects has a list for each method, and one with very many is served without code.
    let selects = "  pick () wait when by (n: int): log := n end end pick\n";
    let many: String = (0..12).map(|k| format!("  other{k} () log := {k} end other{k}\n")).collect();
    let with = |more: &str| text.replace("end Box", &format!("{more}end Box"));
    let cases = [
        (with(""), true),
        (with(selects), true),
        (with(&many), true),
        (with(&format!("{selects}{many}")), false),
    ];
    for (text, has_code) in cases {
        for collect in [Collect::Ordinary, Collect::Zeal(3)] {
            let engine = load(&text, Run { hot_steps: 3, ..Run::from(Mode::Compiled) });
            assert_eq!(ran(&engine, collect, None, &["50"]).0.output, expected);
            assert_eq!(has_turns_as_code(&engine, "Box"), has_code, "{text}");
        }
    }
}

#[test]
fn a_turn_that_is_code_ends_where_its_actor_waits() {
    let text = format!(
        "{LATE}Box = actor
  log: int
  new () make {{log := 0}} end new
  flood (d: Driver) d.flood(self) end flood
  by (n: int) log := (log * 31 + n) // 1000003 end by
  ask (l: Late) x: int := l.later(1) log := (log * 31 + x) // 1000003 end ask
  value () returns (int) reply (log) end value
end Box
Driver = actor
  late: Late
  new (l: Late) make {{late := l}} end new
  flood (b: Box)
    for i: int in 1.to(20) do send b.by(i) send b.ask(late) send b.by(-i) end
  end flood
  give () for i: int in 1.to(20) do send late.give(1000 + i) end end give
end Driver
main (args: sequence[string])
  l: Late := Late.new()
  d: Driver := Driver.new(l)
  b: Box := Box.new()
  for round: int in 1.to(30) do
    b.flood(d)
    d.give()
    b.value()
  end
  print(b.value().unparse())
end main"
    );
    let mut log = 0;
    for _ in 0..30 {
        for i in 1..=20 {
            for n in [i, 1000 + i, -i] {
                log = (log * 31 + n) % 1_000_003;
            }
        }
    }
    let expected = format!("{log}\n");
    for seed in (0..60).map(Some).chain([None]) {
        let engine = load(&text, Run { hot_steps: 3, ..Run::from(Mode::Compiled) });
        let collect = if seed == Some(7) { Collect::Zeal(3) } else { Collect::Ordinary };
        assert_eq!(ran(&engine, collect, seed, &[]).0.output, expected, "{seed:?}");
        assert!(has_turns_as_code(&engine, "Box"), "{seed:?}");
    }
}

#[test]
fn actors_that_nobody_knows_wait_and_fail_as_others() {
    let text = format!(
        "{LATE}Alike = functional actor
  % 2 to the power of n times late and more, and 1000 for each that waits for an answer that is late.
  sum (l: Late, n: int, late: int) returns (int) signals (odd (int))
    if late = 0 then signal odd(7) end
    if n = 0 then reply (late)
    else
      parts: array[int] := array_fill[int](5, 2, 0)
      x: int := 0
      if n // 4 = 3 then
        x := l.later(n)
        send l.give(1000)
      end
      parts[5] := (Alike.new() anywhere).sum(l, n - 1, late)
      parts[6] := (Alike.new()).sum(l, n - 1, late + 1)
      reply (x + parts[5] + parts[6])
    end
  end sum
end Alike
Asker = actor
  log: string
  new () make {{log := \"\"}} end new
  go (l: Late, n: int)
    for i: int in 1.to(n) do
      x: int := (Alike.new()).sum(l, i // 8, i)
      begin
        x := x + (Alike.new()).sum(l, 2, 0)
      end except when odd (k: int): x := x + k end
      log := log || x.unparse() || \" \"
    end
  end go
  told () returns (string) reply (log) end told
end Asker
main ()
  a: Asker := Asker.new()
  send a.go(Late.new(), 9)
  print(a.told())
end main"
    );
    prints(&text, "10 19 1043 2103 4247 8583 18351 15 26 \n");
}

#[test]
fn an_actor_that_nobody_knows_is_no_object() {
    let program = |kept: &str| {
        format!(
            "Fib = functional actor
  comp (n: int) returns (int)
    if n < 2 then reply (n)
    else
      {kept}
      reply (f.comp(n - 1) + (Fib.new()).comp(n - 2))
    end
  end comp
end Fib
main () print((Fib.new()).comp(20).unparse()) end main"
        )
    };
    let bytes = |kept: &str| {
        let engine = load(&program(kept), Mode::Compiled);
        let (ran, stats) = ran(&engine, Collect::Ordinary, None, &[]);
        assert_eq!(ran.output, "6765\n");
        // One for each number.
        assert_eq!(stats.created, 21_891);
        ran.heap.usage.allocated_bytes
    };
    let words = |actors: u64| 24 * actors;
    let used_once = bytes("f: Fib := Fib.new() anywhere");
    assert!(used_once < words(21_891) / 2, "{used_once}");
    // Half of the actors are sent something else besides, and need a place in memory.
    let used_again = bytes("f: Fib := Fib.new()\n      f.comp(0)\n      f.comp(1)");
    assert!(used_again >= words(10_945), "{used_again}");
}

#[test]
fn messages_that_were_served_are_used_again() {
    let text = "Counter = actor
  sum: int
  new () make {sum := 0} end new
  ask (count: int)
    for i: int in 1.to(count) do send self.add(i, \"s\") end
    send self.many(1, 1, 1, 1, 1, 1, 1, 1, 1)
  end ask
  add (by: int, what: string) sum := sum + by + what.length() end add
  % With more arguments than messages have that are used again.
  many (a: int, b: int, c: int, d: int, e: int, f: int, g: int, h: int, i: int)
    sum := sum + a + b + c + d + e + f + g + h + i
  end many
  value () returns (int) reply (sum) end value
end Counter
main ()
  c: Counter := Counter.new()
  for i: int in 1.to(10000) do
    send c.ask(100)
    c.value()
  end
  print(c.value().unparse())
end main";
    let engine = load(text, Mode::Compiled);
    for collect in [Collect::Ordinary, Collect::Zeal(100)] {
        let (ran, stats) = ran(&engine, collect, None, &[]);
        assert_eq!(ran.output, "51590000\n");
        assert!(stats.queued >= 1_000_000, "{stats:?}");
        // Each takes at least eight words; the first turns are without machine code.
        let bytes = ran.heap.usage.allocated_bytes;
        assert!(collect != Collect::Ordinary || bytes < 1_000_000 * 64 / 4, "{bytes}");
    }
}

/// Others run above a condition that lasts, and change what it has seen.
#[test]
fn conditions_that_last_are_true_when_the_method_begins() {
    let text = "Box = actor
  full: bool  wrong: int  n: int
  new (n: int) make {full := false, wrong := 0, n := n} end new
  disable put when long(full, n)
  put ()
    if full then wrong := wrong + 1 end
    full := true
  end put
  clear () full := false end clear
  disable get when long(~full, n)
  get ()
    if ~full then wrong := wrong + 1 end
    full := false
  end get
  told () returns (int) reply (wrong) end told
end Box

% Their messages are queued for each other's sake.
Putter = actor
  run (b: Box, k: int) returns (int)
    for i: int in 1.to(k) do b.put() end
    reply (k)
  end run
end Putter
Getter = actor
  run (b: Box, k: int) returns (int)
    for i: int in 1.to(k) do b.get() end
    reply (k)
  end run
end Getter

long (result: bool, n: int) returns (bool)
  sum: int := 0
  for i: int in 1.to(n) do sum := (sum + i) & 255 end
  return (result | sum < 0)
end long

Holder = actor
  held: array[replier[int]]
  new () make {held := array_new[replier[int]]()} end new
  take () returns (int) held.append(replyto) end take
  give ()
    first: replier[int] := held.remove_low()
    first.deliver(1)
  end give
end Holder

Later = actor
  run (b: Box, h: Holder)
    x: int := h.take()
    if x = 0 then b.clear() end
    b.put()
  end run
end Later

main (args: sequence[string])
  b: Box := Box.new(args[1].to_int())
  h: Holder := Holder.new()
  for i: int in 1.to(5) do
    l: Later := Later.new()
    send l.run(b, h)
    send h.give()
    send b.put()
    b.clear()
    b.clear()
  end
  p: Putter := Putter.new()
  q: Putter := Putter.new()
  g: Getter := Getter.new()
  x: int := p.run(b, 5)
  y: int := q.run(b, 5)
  z: int := g.run(b, 10)
  print((x + y + z).unparse() || \" \" || b.told().unparse())
end main";
    for (mode, n) in [(Mode::Compiled, 10_000_000), (Mode::Interpreted, 200_000)] {
        let engine = load(text, mode);
        // The longer it takes the surer others run above it.
        let made_way = (0..6).any(|longer| {
            let arguments = [(n << longer).to_string()];
            let (ran, stats) = orders::output::run_on(&engine, Limits::default(), 1, &arguments, |_| {});
            assert_eq!(ran.output, "20 0\n", "{mode:?}");
            stats[0].ways > 0
        });
        assert!(made_way, "{mode:?}");
    }
}
