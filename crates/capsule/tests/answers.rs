//! Answers that are delivered or delegated, and methods that only compute: what runs at once, and what is not lost (`docs/book/language/actors.md`).

#[path = "support/orders.rs"]
mod orders;

use bifrost_engine::Mode;
use bifrost_runtime::Collect;
use orders::{COUNTER, SEEDS, load, printed, prints, ran};

/// Answers those who take when it is given something.
const HOLDER: &str = "Holder = actor
  held: array[replier[int]]
  new () make {held := array_new[replier[int]]()} end new
  disable give when held.empty()
  take () returns (int) held.append(replyto) end take
  give (v: int) held.remove_low().deliver(v) end give
end Holder
";

#[test]
fn who_waits_for_a_destination_goes_on_at_once() {
    let text = "Holder = actor
  held: array[replier[int]]
  new () make {held := array_new[replier[int]]()} end new
  disable give when held.empty()
  take () returns (int) held.append(replyto) end take
  give (v: int)
    held.remove_low().deliver(v)
    print(\"given\")
  end give
end Holder
Asker = actor
  new () make {} end new
  ask (h: Holder)
    v: int := h.take()
    print(\"got \" || v.unparse())
    % The holder is in its method still.
    w: int := h.take()
    print(\"and \" || w.unparse())
  end ask
end Asker
main ()
  h: Holder := Holder.new()
  a: Asker := Asker.new()
  send a.ask(h)
  send h.give(7)
  send h.give(8)
end main";
    for mode in [Mode::Compiled, Mode::Interpreted] {
        let engine = load(text, mode);
        let (ran, stats) = ran(&engine, Collect::Ordinary, None, &[]);
        assert_eq!(ran.output, "got 7\ngiven\nand 8\ngiven\n", "{mode:?}");
        assert_eq!(stats.waits, 2, "{mode:?}");
        for seed in 0..SEEDS {
            let output = printed(&engine, Collect::Zeal(2), Some(seed));
            let got = output.lines().filter(|line| *line != "given").collect::<Vec<_>>();
            assert_eq!((got, output.lines().count()), (vec!["got 7", "and 8"], 4), "{mode:?}, seed {seed}");
        }
    }
}

#[test]
fn a_chain_of_those_that_wait_is_as_long_as_it_likes() {
    let text = HOLDER.to_owned()
        + "Link = actor
  new () make {} end new
  pass (from: Holder, to: Holder, last: bool)
    v: int := from.take()
    if last then print(v.unparse()) else send to.give(v + 1) end
  end pass
end Link
main (args: sequence[string])
  n: int := args[1].to_int()
  first: Holder := Holder.new()
  from: Holder := first
  for i: int in 1.to(n) do
    to: Holder := Holder.new()
    send (Link.new()).pass(from, to, i = n)
    from := to
  end
  send first.give(1)
end main";
    for (mode, n) in [(Mode::Compiled, 50_000), (Mode::Interpreted, 20_000)] {
        let (ran, _) = ran(&load(&text, mode), Collect::Ordinary, None, &[&n.to_string()]);
        assert_eq!(ran.output, format!("{n}\n"), "{mode:?}");
    }
}

#[test]
fn small_methods_take_the_place_of_messages() {
    let text = "Store = actor type add (by: int) get () returns (int) over (k: int) returns (int) end Store
Cell = actor implements Store
  n: int   r: real   name: string
  new (n0: int) make {n := n0, r := 0.5, name := \"cell\"} end new
  add (by: int) n := n + by end add
  most (k: int)
    if k > n then n := k end
  end most
  get () returns (int) reply (n) end get
  over (k: int) returns (int) reply (100 / (n - k)) end over
  half () returns (real) reply (r * n.to_real()) end half
  called () returns (string) reply (name) end called
  rename (to: string) name := to end rename
  both (k: int)
    n := n + 1
    n := n + k
  end both
end Cell
Other = actor implements Store
  new () make {} end new
  add (by: int) end add
  get () returns (int) reply (-1) end get
  over (k: int) returns (int) reply (-k) end over
end Other
Fixed = functional actor
  n: int
  new (n0: int) make {n := n0} end new
  plus (k: int) returns (int) reply (n + k) end plus
end Fixed
Driver = actor
  c: Cell
  new (c0: Cell) make {c := c0} end new
  run (n: int)
    big: int := 9223372036854775807
    f: Fixed := Fixed.new(40)
    for i: int in 1.to(n) do
      send c.add(i)
      send c.most(i)
    end
    print(c.get().unparse())
    % What fails leaves what it has done, and the actor as it was; nobody awaits it, or who asked does.
    send c.both(big)
    print(c.get().unparse())
    begin
      print(c.over(c.get()).unparse())
    end except when failure (s: string): print(s) end
    print(c.over(6).unparse())
    begin
      x: int := f.plus(big)
      print(x.unparse())
    end except when failure (s: string): print(s) end
    print(f.plus(2).unparse())
    print(c.half().unparse())
    send c.rename(c.called() || \"s\")
    print(c.called())
    s: Store := c
    for i: int in 1.to(n) do send s.add(i) end
    send s.add(big)
    print(s.get().unparse())
    begin
      print(s.over(s.get()).unparse())
    end except when failure (why: string): print(why) end
    send s.add(-9)
    print(s.over(3).unparse())
    s := Other.new()
    send s.add(1)
    print(s.get().unparse())
  end run
end Driver
main ()
  c: Cell := Cell.new(1)
  (Driver.new(c)).run(4)
  % Passive code sends, too.
  send c.add(5)
  print(c.get().unparse())
end main";
    prints(
        text,
        "11\n12\nunhandled exception: zero\n16\nunhandled exception: overflow\n42\n6.0\ncells\n22\nunhandled exception: zero\n10\n-1\n18\n",
    );
}

#[test]
fn a_message_whose_method_takes_its_place_is_seen_by_nobody() {
    let text = format!(
        "{COUNTER}Driver = actor
  new () make {{}} end new
  run (c: Counter, n: int)
    for i: int in 1.to(n) do send c.add(i & 1) end
    print(c.get().unparse())
  end run
end Driver
main (args: sequence[string])
  (Driver.new()).run(Counter.new(), args[1].to_int())
end main"
    );
    let (ran, stats) = ran(&load(&text, Mode::Compiled), Collect::Ordinary, None, &["1000"]);
    assert_eq!(ran.output, "500\n");
    // They count as calls.
    assert_eq!((stats.direct, stats.queued), (1002, 0));
}

#[test]
fn an_answer_that_comes_while_who_delegated_waits_is_not_lost() {
    let text = HOLDER.to_owned()
        + "Busy = actor
  n: int
  new () make {n := 0} end new
  disable get when n = 0
  disable name when n = 0
  disable none when n = 0
  add (k: int) n := n + k end add
  get () returns (int) reply (n) end get
  name () returns (string) reply (\"n\" || n.unparse()) end name
  none () returns (int) signals (nothing) signal nothing end none
end Busy
Asker = actor
  new () make {} end new
  late (b: Busy, h: Holder) returns (int)
    delegate b.get()
    x: int := h.take()
    print(x.unparse())
  end late
  named (b: Busy, h: Holder) returns (string)
    delegate b.name()
    x: int := h.take()
    print(x.unparse())
  end named
  failing (b: Busy, h: Holder) returns (int) signals (nothing)
    delegate b.none()
    x: int := h.take()
    print(x.unparse())
  end failing
  % Calls on itself, whose answers are used when they have ended.
  go (b: Busy, h: Holder)
    print(self.late(b, h).unparse())
  end go
  go_on (b: Busy, h: Holder)
    print(self.named(b, h))
  end go_on
  fail (b: Busy, h: Holder)
    begin
      print(self.failing(b, h).unparse())
    end except when nothing: print(\"nothing\") end
  end fail
end Asker
main ()
  h: Holder := Holder.new()
  b: Busy := Busy.new()
  a: Asker := Asker.new()
  send a.go(b, h)
  send b.add(41)
  b.get()
  h.give(1)
end main";
    for (call, result) in [("go", "41"), ("go_on", "n41"), ("fail", "nothing")] {
        let text = text.replace("send a.go(b, h)", &format!("send a.{call}(b, h)"));
        prints(&text, &format!("1\n{result}\n"));
    }
}

#[test]
fn a_cycle_that_closes_when_who_delegated_has_ended_is_told_of() {
    let text = HOLDER.to_owned()
        + "Back = actor
  new () make {} end new
  back (a: Asker) returns (int) reply (a.get()) end back
end Back
Asker = actor
  new () make {} end new
  get () returns (int) reply (1) end get
  late (b: Back, h: Holder) returns (int)
    delegate b.back(self)
    x: int := h.take()
    print(x.unparse())
  end late
  go (b: Back, h: Holder)
    begin
      print(self.late(b, h).unparse())
    end except when failure (why: string): print(why) end
  end go
end Asker
main ()
  h: Holder := Holder.new()
  a: Asker := Asker.new()
  send a.go(Back.new(), h)
  h.give(1)
end main";
    prints(&text, "1\nrequest cycle\n");
}
