//! Programs with actors: what they print, whatever runs at once and in whatever order what is ready runs (section 10 of the
//! definition).
//!
//! Each program runs as it comes, with a collection at every allocation, and in orders that seeds decide: a seed decides for each
//! message whether it is a call or queued, and what of the queue runs next.

#[path = "support/orders.rs"]
mod orders;

use std::time::{Duration, Instant};

use bifrost_capsule::Space;
use bifrost_capsule::nodes::Nodes;
use bifrost_engine::Mode;
use bifrost_runtime::cx::Kill;
use bifrost_runtime::{Collect, Limits};
use orders::output::EXAMPLES;
use orders::{COUNTER, SEEDS, load, printed, prints, ran};

#[test]
fn messages_come_in_the_order_in_which_they_were_sent() {
    let text = format!(
        "{COUNTER}main ()
  c: Counter := Counter.new()
  for i: int in 1.to(100) do send c.add(i) end
  print(c.get().unparse())
end main"
    );
    prints(&text, "5050\n");
}

#[test]
fn requests_of_a_functional_actor_overlap() {
    let text = "Fib = functional actor
  comp (n: int) returns (int)
    if n <= 1 then reply (1)
    else reply (self.comp(n - 1) + (Fib.new()).comp(n - 2)) end
  end comp
end Fib
main ()
  print((Fib.new()).comp(9).unparse())
end main";
    prints(text, "55\n");
}

#[test]
fn replies_go_to_elements_of_a_local_array() {
    let text = "Square = actor
  of (n: int) returns (int) signals (odd (int))
    if n // 2 = 1 then signal odd(n) end
    reply (n * n)
  end of
end Square
main ()
  s: Square := Square.new()
  a: array[int] := array_fill[int](0, 5, 0)
  for i: int in 0.to(4) do a[i] := s.of(2 * i) end
  sum: int := 0
  for v: int in a.elements() do sum := sum + v end
  print(sum.unparse())
  begin
    b: array[int] := array_fill[int](0, 5, 0)
    for i: int in 0.to(4) do b[i] := s.of(i) end
    for v: int in b.elements() do print(v.unparse()) end
  end except when odd (n: int): print(\"odd \" || n.unparse()) end
  begin
    b: array[int] := array_fill[int](0, 1, 0)
    b[1] := s.of(0)
  end except when bounds: print(\"bounds\") end
end main";
    prints(text, "120\nodd 1\nbounds\n");
}

#[test]
fn a_method_answers_and_goes_on() {
    let text = format!(
        "{COUNTER}Early = actor
  n: int
  new () make {{n := 0}} end new
  go (c: Counter) returns (int)
    reply (1)
    x: int := c.get()
    n := n + x
  end go
  total () returns (int) reply (n) end total
end Early
main ()
  c: Counter := Counter.new()
  send c.add(41)
  e: Early := Early.new()
  print(e.go(c).unparse())
  print(e.total().unparse())
end main"
    );
    prints(&text, "1\n41\n");
}

#[test]
fn a_call_on_itself_is_used_when_it_has_ended() {
    let text = format!(
        "{COUNTER}Own = actor
  n: int
  new () make {{n := 0}} end new
  down (k: int, c: Counter) returns (int)
    if k = 0 then
      reply (c.get())
    else
      x: int := c.get()
      reply (self.down(k - 1, c) + x)
    end
  end down
  late () returns (int)
    reply (n)
    n := n + 1
  end late
  twice () returns (int)
    a: int := self.late()
    reply (10 * a + self.late())
  end twice
end Own
main ()
  c: Counter := Counter.new()
  send c.add(5)
  o: Own := Own.new()
  print(o.down(3, c).unparse())
  print(o.twice().unparse())
end main"
    );
    prints(&text, "20\n1\n");
}

#[test]
fn a_loop_that_has_waited_goes_on_with_all_that_it_needs() {
    let text = "Source = actor
  n: int
  new () make {n := 0} end new
  next (below: int) returns (int) signals (empty)
    n := n + 1
    if n // 5 = 0 then signal empty end
    reply (n // below)
  end next
  peek (i: int) returns (int)
    n := n + 1
    reply (n + i)
  end peek
end Source
Worker = actor
  log: string
  new () make {log := \"\"} end new
  run (s: Source, rows: int) returns (string)
    text: string := \"rows\"
    misses: int := 0
    for row: int in 1.to(rows) do
      got: array[int] := array_fill[int](1, 4, 0)
      for i: int in 1.to(4) do
        got[i] := s.peek(i)
      end
      sum: int := 0
      for each: int in got.elements() do sum := sum + each end
      k: int := 0
      while true do
        k := k + 1
        x: int := 0
        begin x := s.next(7) + 0 end except when empty: misses := misses + 1 end
        if x = 3 then break end
        if k > 9 then break end
      end
      text := (text || \" \") || (sum + k).unparse()
    end
    reply ((text || \" \") || misses.unparse())
    for i: int in 1.to(rows) do log := log || i.unparse() end
  end run
  logged () returns (string) reply (log) end logged
end Worker
main ()
  s: Source := Source.new()
  w: Worker := Worker.new()
  print(w.run(s, 6))
  print(w.logged())
  print(s.peek(0).unparse())
end main";
    let expected = printed(&load(text, Mode::Interpreted), Collect::Ordinary, None);
    assert!(expected.lines().count() == 3 && expected.contains("\n123456\n"), "{expected}");
    prints(text, &expected);
}

#[test]
fn who_sends_too_much_makes_way() {
    // Putting is refused while the buffer is full, so that what is sent waits.
    let text = "Buffer = actor
  items: array[int]
  new () make {items := array_new[int]()} end new
  disable put when items.length() = 10
  disable get when items.empty()
  put (v: int) items.append(v) end put
  get () returns (int) reply (items.remove_low()) end get
end Buffer
Producer = actor
  run (b: Buffer, n: int)
    for i: int in 1.to(n) do send b.put(i) end
  end run
end Producer
Consumer = actor
  run (b: Buffer, n: int) returns (int)
    sum: int := 0
    for i: int in 1.to(n) do sum := sum + b.get() end
    reply (sum)
  end run
end Consumer
main (args: sequence[string])
  n: int := args[1].to_int()
  b: Buffer := Buffer.new()
  p: Producer := Producer.new()
  c: Consumer := Consumer.new()
  send p.run(b, n)
  print(c.run(b, n).unparse())
end main";
    let (ran, stats) = ran(&load(text, Mode::Compiled), Collect::Ordinary, None, &["100000"]);
    assert_eq!(ran.output, "5000050000\n");
    assert!(stats.longest_queue < 10_000, "{stats:?}");
}

#[test]
fn who_sends_to_itself_does_not_make_way_each_time() {
    // Nobody serves what waits while it runs.
    let text = "Box = actor
  got: int
  new () make {got := 0} end new
  hit () got := got + 1 end hit
  run (n: int) returns (int)
    for i: int in 1.to(n) do send self.hit() end
    reply (n)
  end run
  value () returns (int) reply (got) end value
end Box
main (args: sequence[string])
  b: Box := Box.new()
  n: int := b.run(args[1].to_int())
  print(n.unparse() || \" \" || b.value().unparse())
end main";
    for mode in [Mode::Compiled, Mode::Interpreted] {
        let (ran, stats) = ran(&load(text, mode), Collect::Ordinary, None, &["50000"]);
        assert_eq!(ran.output, "50000 50000\n");
        // Once in 32 messages, and when its time is over, which is rare.
        assert!((1000..5000).contains(&stats.ways), "{stats:?}");
    }
}

#[test]
fn an_actor_serves_several_messages_in_a_turn() {
    // It is in a method while they come.
    let text = "Worker = actor
  done: int
  new () make {done := 0} end new
  fill (s: Source, n: int) returns (int)
    reply (s.flood(self, n))
  end fill
  step () done := done + 1 end step
  count () returns (int) reply (done) end count
end Worker
Source = actor
  flood (w: Worker, n: int) returns (int)
    for i: int in 1.to(n) do send w.step() end
    reply (n)
  end flood
end Source
main ()
  w: Worker := Worker.new()
  print(w.fill(Source.new(), 1000).unparse())
  print(w.count().unparse())
end main";
    let (ran, stats) = ran(&load(text, Mode::Compiled), Collect::Ordinary, None, &[]);
    assert_eq!(ran.output, "1000\n1000\n");
    assert!(stats.queued >= 1000, "{stats:?}");
    // 256 at most in a turn, and not a turn for each.
    assert!((1000 / 256..50).contains(&stats.turns), "{stats:?}");
}

#[test]
fn others_answer_in_place_of_a_method() {
    let text = "Deep = actor
  answer (k: int) returns (int) signals (none)
    if k < 0 then signal none end
    reply (k + 1)
  end answer
end Deep
Relay = actor
  deep: Deep
  new (d: Deep) make {deep := d} end new
  answer (k: int) returns (int) signals (none) delegate deep.answer(k) end answer
end Relay
Outer = actor
  relay: Relay
  new (r: Relay) make {relay := r} end new
  answer (k: int) returns (int) signals (none)
    delegate relay.answer(10 * k)
    print(\"delegated\")
  end answer
end Outer
main ()
  o: Outer := Outer.new(Relay.new(Deep.new()))
  print(o.answer(4).unparse())
  begin print(o.answer(-1).unparse()) end except when none: print(\"none\") end
end main";
    for mode in [Mode::Compiled, Mode::Interpreted] {
        let engine = load(text, mode);
        for seed in (0..SEEDS).map(Some).chain([None]) {
            // When the lines of the methods come is anybody's guess.
            let output = printed(&engine, Collect::Zeal(5), seed);
            let lines: Vec<_> = output.lines().filter(|line| *line != "delegated").collect();
            assert_eq!((lines.as_slice(), output.lines().count()), (&["41", "none"][..], 4), "{seed:?}");
        }
    }
}

#[test]
fn the_place_of_an_answer_is_a_value() {
    let text = "Desk = actor
  waiting: array[replier[int]]
  new () make {waiting := array_new[replier[int]]()} end new
  ask () returns (int) waiting.append(replyto) end ask
  now (k: int) returns (int)
    d: replier[int] := replyto
    d.deliver(k)
    d.deliver(k + 1)
  end now
  twice (k: int) returns (int) reply (self.now(k) + self.now(k)) end twice
  answer (k: int)
    for d: replier[int] in waiting.elements() do d.deliver(k) end
    waiting := array_new[replier[int]]()
  end answer
end Desk
Helper = actor
  give (d: replier[int], k: int) d.deliver(k) end give
end Helper
Front = actor
  helper: Helper
  new () make {helper := Helper.new()} end new
  ask (k: int) returns (int) send helper.give(replyto, k) end ask
end Front
main ()
  d: Desk := Desk.new()
  a: int := d.ask()
  b: int := d.ask()
  send d.answer(4)
  print((a + b).unparse())
  print(d.now(5).unparse())
  print(d.twice(6).unparse())
  print((Front.new()).ask(7).unparse())
end main";
    prints(text, "8\n5\n12\n7\n");
}

#[test]
fn what_a_method_knows_goes_on_with_it_when_it_waits() {
    let text = format!(
        "{COUNTER}Late = actor
  n: int
  new () make {{n := 3}} end new
  odd (k: int) returns (int) signals (odd (int))
    if k // 2 = 1 then signal odd(k) end
    reply (k + n)
  end odd
end Late
Many = actor
  log: array[string]
  new () make {{log := array_new[string]()}} end new
  step (c: Counter, k: int) returns (int)
    x: int := c.get()
    log.append(\"step \" || k.unparse())
    reply (x + k)
  end step
  go (c: Counter, l: Late, r: real) returns (string)
    p: array[string] := array_new[string]()
    p.append(\"7 pairs\")
    s: string := \"\"
    sum: int := 0
    i: int := 0
    while i < 3 do
      j: int := 0
      while true do
        j := j + 1
        if j > 2 then break end
        begin
          sum := sum + l.odd(i + j) * 10
        end except
          when odd (k: int):
            s := s || \"odd \" || k.unparse() || \" \"
            sum := sum + c.get()
        end
        sum := sum + self.step(c, j)
      end
      if i = 1 then
        x: int := c.get()
        s := s || \"one \" || x.unparse() || \" \"
      end
      i := i + 1
    end
    size: string := \"small\"
    if r * 2.0 > 2.5 then size := \"large\" end
    reply (s || p.remove_low() || \" \" || sum.unparse() || \" \" || size)
    log.append(\"end\")
    y: int := c.get()
    log.append(y.unparse())
  end go
  told () returns (string)
    all: string := \"\"
    for line: string in log.elements() do all := all || line || \", \" end
    reply (all)
  end told
end Many
main ()
  c: Counter := Counter.new()
  send c.add(2)
  m: Many := Many.new()
  print(m.go(c, Late.new(), 1.5))
  print(m.told())
end main"
    );
    prints(
        &text,
        "odd 1 odd 3 one 2 odd 3 7 pairs 197 large\nstep 1, step 2, step 1, step 2, step 1, step 2, end, 2, \n",
    );
}

#[test]
fn groups_get_messages_together() {
    let text = "Worker = actor
  n: int  at: int
  new (n: int) make {n := n, at := node()} end new
  add (k: int) n := n + k end add
  get () returns (int) reply (n) end get
end Worker
main ()
  g: group[Worker] := Worker.new(10) times 3
  send g.add(5)
  sum: int := 0
  for w: Worker in g.members() do sum := sum + w.get() end
  print(sum.unparse())
end main";
    prints(text, "45\n");
}

#[test]
fn the_buffers_of_the_definition_work() {
    let text = include_str!("../../theta/tests/programs/buffer.theta");
    prints(&format!("{text}\nmain ()\n  print((Demo.new()).go().unparse())\nend main"), "465\n");
}

#[test]
fn two_actors_that_request_each_other_are_told() {
    let text = "A = actor
  n: int
  new () make {n := 0} end new
  go (b: A, k: int) returns (int)
    n := n + 1
    if k = 0 then reply (n)
    else
      x: int := b.go(self, k - 1)
      reply (x + 1)
    end
  end go
end A
main ()
  a: A := A.new()
  b: A := A.new()
  print(a.go(b, 1).unparse())
  begin print(a.go(b, 2).unparse()) end except when failure (why: string): print(why) end
  c: A := A.new()
  % The one that requests itself is the shortest cycle; who asked it gets on.
  begin print(c.go(c, 1).unparse()) end except when failure (why: string): print(why) end
  print(c.go(a, 1).unparse())
end main";
    prints(text, "2\nrequest cycle\nrequest cycle\n4\n");
}

#[test]
fn a_cycle_is_told_of_behind_much_mail() {
    // Whom `go` asks waits for it, behind more messages than are looked at while there is something else to do. The request that comes last
    // fails, whichever that is, and the other one is answered.
    let text = "A = actor
  n: int
  new () make {n := 0} end new
  told () n := n + 1 end told
  get () returns (int) reply (n) end get
  ask (b: A) returns (int)
    reply (0)
    begin
      k: int := b.get()
      if k >= 0 then print(\"answered\") end
    end except when failure (why: string): print(why) end
  end ask
  go (b: A)
    for i: int in 1.to(1000) do send self.told() end
    x: int := b.ask(self)
    begin
      k: int := b.get()
      if k >= 0 then print(\"answered\") end
    end except when failure (why: string): print(why) end
  end go
end A
main ()
  a: A := A.new()
  send a.go(A.new())
end main";
    prints(text, "request cycle\nanswered\n");
}

#[test]
fn who_has_much_mail_and_asks_often_is_not_looked_at_each_time() {
    // Of two that ask an actor the one waits for it while it is asked by the other, behind all mail. If that were all looked at, this would take
    // minutes.
    let text = "Clock = actor
  asked: array[replier[int]]
  new () make {asked := array_new[replier[int]]()} end new
  now () returns (int)
    asked.append(replyto)
    send self.tick()
  end now
  tick () asked.remove_low().deliver(1) end tick
end Clock
Desk = actor
  get (c: Clock) returns (int) reply (c.now()) end get
end Desk
Asker = actor
  sum: int
  new () make {sum := 0} end new
  ask (d: Desk, c: Clock) sum := sum + d.get(c) end ask
  tell () print(sum.unparse()) end tell
end Asker
main ()
  a: Asker := Asker.new()
  b: Asker := Asker.new()
  d: Desk := Desk.new()
  c: Clock := Clock.new()
  for i: int in 1.to(50000) do
    send a.ask(d, c)
    send b.ask(d, c)
  end
  send a.tell()
end main";
    let engine = load(text, Mode::Compiled);
    let begun = Instant::now();
    assert_eq!(printed(&engine, Collect::Ordinary, None), "50000\n");
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
}

#[test]
fn who_can_never_be_answered_is_told() {
    let text = "Box = actor
  n: int
  new () make {n := 0} end new
  put (k: int) n := k end put
  get () returns (int)
    wait when put (k: int): n := k end
    reply (n)
  end get
end Box
main ()
  b: Box := Box.new()
  begin print(b.get().unparse()) end except when failure (why: string): print(why) end
end main";
    prints(
        text,
        "no request can be answered: all methods wait: main on node 0 waits for Box.get on node 0; \
         Box.get on node 0 waits for a message\n",
    );
}

#[test]
fn a_creator_that_fails_answers_all_requests() {
    let text = "Bad = actor
  n: int
  new (k: int) make {n := 10 / k} end new
  get () returns (int) reply (n) end get
end Bad
main ()
  good: Bad := Bad.new(2)
  bad: Bad := Bad.new(0)
  send bad.get()
  print(good.get().unparse())
  begin print(bad.get().unparse()) end except when failure (why: string): print(why) end
end main";
    prints(text, "5\nunhandled exception: zero\n");
}

#[test]
fn buffers_select_or_refuse() {
    for buffer in ["GuardBuffer", "SelectBuffer"] {
        let text = format!(
            "Box = actor type put (v: int)   get () returns (int) end Box
SelectBuffer = actor implements Box
  items: array[int]   room: int
  new (capacity: int) make {{items := array_new[int](), room := capacity}} end new
  put (v: int)
    if items.length() = room then
      wait when get (): reply (items.remove_low()) end
    end
    items.append(v)
  end put
  get () returns (int)
    if items.empty() then
      wait when put (v: int): items.append(v) end
    end
    reply (items.remove_low())
  end get
end SelectBuffer
GuardBuffer = actor implements Box
  items: array[int]   room: int
  new (capacity: int) make {{items := array_new[int](), room := capacity}} end new
  disable put when items.length() = room
  disable get when items.empty()
  put (v: int) items.append(v) end put
  get () returns (int) reply (items.remove_low()) end get
end GuardBuffer
Consumer = actor
  taken: int
  new () make {{taken := 0}} end new
  run (b: Box, n: int)
    i: int := 0
    while i < n do
      v: int := b.get()
      taken := taken + v
      i := i + 1
    end
  end run
  total () returns (int) reply (taken) end total
end Consumer
main ()
  b: Box := {buffer}.new(4)
  c: Consumer := Consumer.new()
  d: Consumer := Consumer.new()
  e: Consumer := Consumer.new()
  send c.run(b, 10)
  send d.run(b, 10)
  for i: int in 1.to(30) do send b.put(i) end
  send e.run(b, 10)
  print((c.total() + d.total() + e.total()).unparse())
end main"
        );
        for mode in [Mode::Compiled, Mode::Interpreted] {
            let engine = load(&text, mode);
            for seed in (0..SEEDS).map(Some).chain([None]) {
                assert_eq!(printed(&engine, Collect::Zeal(7), seed), "465\n", "{buffer} {mode:?} {seed:?}");
            }
        }
    }
}

#[test]
fn a_selection_takes_what_fits_first_or_ends_in_time() {
    let text = "Box = actor
  seen: array[int]
  new () make {seen := array_new[int]()} end new
  put (v: int) seen.append(v) end put
  large (ms: int) returns (int)
    got: int := 0
    wait
      when put (v: int) if v > 10: got := v
      after ms: got := -1
    end
    reply (got)
  end large
  count () returns (int) reply (seen.length()) end count
end Box
main ()
  b: Box := Box.new()
  print(b.large(0).unparse())
  print(b.large(5).unparse())
  x: int := b.large(100000)
  send b.put(3)
  send b.put(12)
  send b.put(13)
  print(x.unparse())
  print(b.count().unparse())
end main";
    // A request of `main` may be overtaken only by its own, so what is put comes after `large` has begun.
    prints(text, "-1\n-1\n12\n2\n");
}

#[test]
fn an_arm_answers_for_itself() {
    let text = "Box = actor
  n: int
  new () make {n := 0} end new
  div (k: int) returns (int) signals (small)
    if k = 1 then signal small end
    reply (100 / k)
  end div
  serve (m: int)
    i: int := 0
    while i < m do
      wait when div (k: int):
        if k = 1 then signal small end
        reply (100 / k)
      end
      n := n + 1
      i := i + 1
    end
  end serve
  count () returns (int) reply (n) end count
end Box
main ()
  b: Box := Box.new()
  send b.serve(3)
  x: int := b.div(5)
  print(x.unparse())
  begin print(b.div(1).unparse()) end except when small: print(\"small\") end
  begin print(b.div(0).unparse()) end except when failure (why: string): print(why) end
  print(b.count().unparse())
end main";
    prints(text, "20\nsmall\nunhandled exception: zero\n3\n");
}

#[test]
fn a_chain_of_sends_is_as_long_as_it_likes() {
    let text = "Link = actor
  pass (next: int, k: int)
    if k > 0 then send (Link.new()).pass(next, k - 1) else print(\"end\") end
  end pass
end Link
main (args: sequence[string])
  send (Link.new()).pass(0, args[1].to_int())
end main";
    let engine = load(text, Mode::Compiled);
    let (ran, stats) = ran(&engine, Collect::Ordinary, None, &["600000"]);
    assert_eq!(ran.output, "end\n");
    assert_eq!((stats.created, stats.messages()), (600_001, 600_001));
    assert!(stats.queued > 0, "the stack is not that deep");
}

#[test]
fn a_loop_without_end_makes_way_for_others() {
    let text = "Runaway = actor
  stop: bool
  new () make {stop := false} end new
  run (c: Counter)
    while true do send c.add(1) end
  end run
end Runaway
Counter = actor
  n: int
  new () make {n := 0} end new
  add (k: int) n := n + k end add
  get () returns (int) reply (n) end get
end Counter
main ()
  r: Runaway := Runaway.new()
  c: Counter := Counter.new()
  send r.run(c)
  n: int := 0
  while c.get() < 3 do n := n + 1 end
  print(\"on\")
end main";
    for mode in [Mode::Compiled, Mode::Interpreted] {
        let engine = load(text, mode);
        let space = Space::new(engine.clone(), Limits::default()).expect("there is memory for a heap");
        let nodes = Nodes::new(space, 1, Limits::default(), |_| {}).expect("there are means for a node");
        let main = engine.find_entry("main", 0).expect("the program has one");
        let said = nodes.run(|space| {
            space.capture_output();
            let poll = space.poll().clone();
            let (sender, receiver) = std::sync::mpsc::channel::<()>();
            // The program never ends by itself.
            std::thread::spawn(move || {
                let _ = receiver.recv_timeout(std::time::Duration::from_secs(2));
                poll.kill(poll.epoch(), Kill::Stop);
            });
            let mut cx = space.lock();
            // SAFETY: the context runs this engine's image, and `main` takes nothing.
            let ended = unsafe { engine.call(&mut cx, main, &[]) };
            drop(sender);
            (ended.map_err(|raised| raised.to_string()), cx.take_output())
        });
        assert_eq!(said.unwrap(), (Err("killed(Stop)".to_owned()), "on\n".to_owned()), "{mode:?}");
    }
}

#[test]
fn an_actor_at_rest_is_small() {
    let text = "Cell = actor
  a: int  b: int
  new (k: int) make {a := k, b := k} end new
  get () returns (int) reply (a + b) end get
end Cell
main ()
  all: array[Cell] := array_new[Cell]()
  for i: int in 1.to(300000) do all.append(Cell.new(i)) end
  print(all[300000].get().unparse())
end main";
    let engine = load(text, Mode::Compiled);
    let (ran, _) = ran(&engine, Collect::Ordinary, None, &[]);
    assert_eq!(ran.output, "600000\n");
    // Its header, two variables, its mail; and places in the array and in those that it had before it grew.
    let bytes = ran.heap.usage.used_bytes / 300_000;
    assert!(bytes <= 40 + 4 * 8, "{bytes} bytes for each actor");
}

#[test]
fn a_selection_finds_its_message_among_many() {
    let text = "Box = actor
  seen: int
  new () make {seen := 0} end new
  put (k: int) seen := seen + 1 end put
  key (k: int) seen := seen + 1000000 end key
  serve (n: int)
    i: int := 0
    while i < n do
      wait when key (k: int): seen := seen + k end
      i := i + 1
    end
  end serve
  get () returns (int) reply (seen) end get
end Box
main ()
  b: Box := Box.new()
  send b.serve(2000)
  for i: int in 1.to(100000) do send b.put(i) end
  for i: int in 1.to(2000) do send b.key(i) end
  print(b.get().unparse())
end main";
    let engine = load(text, Mode::Compiled);
    let started = std::time::Instant::now();
    let (ran, stats) = ran(&engine, Collect::Ordinary, None, &[]);
    // 2,000 keys, then 100,000 others.
    assert_eq!(ran.output, "2101000\n");
    assert!(stats.longest_queue >= 100_000);
    // Looked for one by one, 2,000 times 100,000 messages would take minutes.
    assert!(started.elapsed().as_secs() < 60);
}

#[test]
fn dead_actors_are_freed() {
    let text = format!(
        "{COUNTER}main ()
  last: Counter := Counter.new()
  for i: int in 1.to(2000000) do
    c: Counter := Counter.new()
    send c.add(i)
    last := c
  end
  print(last.get().unparse())
end main"
    );
    let engine = load(&text, Mode::Compiled);
    let (ran, _) = ran(&engine, Collect::Ordinary, None, &[]);
    assert_eq!(ran.output, "2000000\n");
    let live = ran.heap.usage.live_objects;
    assert!(ran.heap.usage.collections > 0 && live < 50_000, "{live} live objects");
}

#[test]
fn the_examples_of_the_papers_give_their_results() {
    let engine = load(include_str!("../../../examples/actors/queens.theta"), Mode::Compiled);
    let (said, stats) = ran(&engine, Collect::Ordinary, None, &["8"]);
    assert_eq!(said.output, "8 queens: 92 solutions\n");
    // 002 section 6: 1,964 actors below the root.
    assert_eq!((stats.created, stats.messages()), (1_965, 1_965));
    let engine = load(include_str!("../../../examples/actors/queen_objects.theta"), Mode::Compiled);
    let (said, stats) = ran(&engine, Collect::Ordinary, None, &["8"]);
    // 003 section 6: 2,056 queens.
    assert_eq!(said.output, "8 queens: 92 solutions, 2056 queens placed\n");
    assert_eq!(stats.created, 2_057);
}

#[test]
fn the_examples_give_the_same_in_a_thousand_orders() {
    for (text, arguments, expected) in EXAMPLES {
        let engine = load(text, Mode::Compiled);
        for seed in 0..1000 {
            let (said, _) = ran(&engine, Collect::Ordinary, Some(seed), arguments);
            assert_eq!(said.output, expected, "seed {seed}");
        }
    }
    let quadrature = load(include_str!("../../../examples/actors/quadrature.theta"), Mode::Compiled);
    for seed in 0..25 {
        assert_eq!(printed(&quadrature, Collect::Ordinary, Some(seed)), "area 16336.281799383085\n");
    }
}
