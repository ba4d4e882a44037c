//! Requests that wait for themselves, over one node and several: each such round is told to a
//! requester, and nothing else is.

#[path = "support/orders.rs"]
mod orders;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bifrost_actors::WithActors;
use bifrost_capsule::nodes::nap;
use bifrost_engine::{Engine, Mode};
use bifrost_runtime::node_words::Stats;
use bifrost_runtime::{Collect, Limits};
use orders::load;
use orders::output::{run_on, simulated};

/// Orders in which each program is run on simulated nodes.
const SEEDS: u64 = 60;

/// Runs a program on nodes that are threads, or in the order of a seed: what it printed, and what
/// the nodes did.
fn run(engine: &Arc<Engine>, nodes: u32, seed: Option<u64>, arguments: &[&str]) -> (String, Stats) {
    let collect = if seed.is_some_and(|seed| seed % 8 == 0) { Collect::Zeal(3) } else { Collect::Ordinary };
    let limits = Limits { collect, ..Limits::default() };
    let arguments: Vec<String> = arguments.iter().map(|it| (*it).to_owned()).collect();
    let (output, stats) = match seed {
        Some(seed) => {
            let ran = simulated(engine, limits, nodes, seed, &arguments);
            (ran.output, ran.stats)
        }
        None => {
            let (ran, stats) = run_on(engine, limits, nodes, &arguments, |cx| cx.actors().set_nap(nap));
            (ran.output, stats)
        }
    };
    (output, stats.iter().fold(Stats::default(), |all, one| all.with(one)))
}

/// On so many nodes the program prints this, in time and in every order, and so many rounds are
/// found.
#[track_caller]
fn prints(text: &str, nodes: std::ops::RangeInclusive<u32>, expected: &str, rounds: u64) {
    for mode in [Mode::Compiled, Mode::Interpreted] {
        let engine = load(text, mode);
        for nodes in nodes.clone() {
            for seed in (0..SEEDS).map(Some).chain([None, None]) {
                let begun = Instant::now();
                let (output, stats) = run(&engine, nodes, seed, &[]);
                let found = (&*output, stats.cycles);
                assert_eq!(found, (expected, rounds), "{mode:?}, {nodes} nodes, {seed:?}");
                assert!(begun.elapsed() < Duration::from_secs(20), "{mode:?}, {nodes} nodes, {seed:?}");
            }
        }
    }
}

/// Actors that request the next one in a ring, so many steps far.
const RING: &str = "A = actor
  next: array[A]
  n: int
  new () make {next := array_new[A](), n := 0} end new
  join (a: A) returns (int)
    next.append(a)
    reply (1)
  end join
  go (k: int) returns (int)
    n := n + 1
    if k = 0 then reply (n)
    else
      x: int := next[1].go(k - 1)
      reply (x + 1)
    end
  end go
  % Another answers in its place.
  by_other (k: int) returns (int) delegate next[1].go(k) end by_other
end A
";

#[test]
fn two_actors_on_two_nodes_that_request_each_other_are_told() {
    let text = format!(
        "{RING}main ()
  a: A := A.new() on 0
  b: A := A.new() on (nodes() - 1)
  n: int := a.join(b) + b.join(a)
  print(a.go(1).unparse())
  begin print(a.go(2).unparse()) end except when failure (why: string): print(why) end
  begin print(b.go(3).unparse()) end except when failure (why: string): print(why) end
  % They go on.
  print(a.go(0).unparse() || \" \" || b.go(0).unparse())
end main"
    );
    prints(&text, 1..=3, "2\nrequest cycle\nrequest cycle\n4 4\n", 2);
}

#[test]
fn rings_over_three_nodes_are_told_and_one_request_of_each_fails() {
    let text = format!(
        "{RING}main ()
  a: A := A.new() on 0
  b: A := A.new() on (1).mod(nodes())
  c: A := A.new() on (2).mod(nodes())
  n: int := a.join(b) + b.join(c) + c.join(a)
  begin print(b.go(3).unparse()) end except when failure (why: string): print(why) end
  begin print(c.by_other(2).unparse()) end except when failure (why: string): print(why) end
  print(a.go(2).unparse())
end main"
    );
    // Who delegates waits for nothing: it serves the last request, so there is no round.
    prints(&text, 1..=3, "request cycle\n4\n5\n", 1);
}

#[test]
fn a_round_that_is_closed_by_who_waits_late_is_told() {
    // Who has asked makes way, and waits only then.
    let text = "A = actor
  sum: int
  new () make {sum := 0} end new
  go (b: B) returns (string)
    told: string := \"\"
    begin
      x: int := b.get(self)
      for i: int in 1.to(2000) do sum := sum + i end
      told := x.unparse()
    end except when failure (why: string): told := why end
    reply (told)
  end go
  value () returns (int) reply (sum) end value
end A
B = actor
  get (a: A) returns (int)
    y: int := a.value()
    reply (y)
  end get
end B
main ()
  a: A := A.new() on 0
  b: B := B.new() on (nodes() - 1)
  print(a.go(b))
end main";
    prints(text, 1..=2, "request cycle\n", 1);
}

#[test]
fn rounds_of_messages_that_nobody_awaits_are_found_before_the_end() {
    let text = "A = actor
  go (b: A)
    begin
      x: int := b.back(self)
      if x = 0 then print(\"answered\") end
    end except when failure (why: string): print(why) end
  end go
  back (a: A) returns (int)
    y: int := a.zero()
    reply (y)
  end back
  zero () returns (int) reply (0) end zero
end A
main ()
  a: A := A.new() on 0
  b: A := A.new() on (nodes() - 1)
  send a.go(b)
end main";
    prints(text, 1..=2, "request cycle\n", 1);
}

#[test]
fn many_rounds_are_told_each() {
    let text = format!(
        "{RING}main ()
  told: array[string] := array_new[string]()
  all: array[A] := array_new[A]()
  for i: int in 0.to(7) do all.append(A.new() on (i.mod(nodes()))) end
  for i: int in 0.to(3) do
    n: int := all[2 * i + 1].join(all[2 * i + 2]) + all[2 * i + 2].join(all[2 * i + 1])
  end
  begin
    a: int := all[1].go(5)
    b: int := all[3].go(5)
    c: int := all[6].go(5)
    d: int := all[8].go(5)
    print((a + b + c + d).unparse())
  end except when failure (why: string): print(why) end
  print(all[3].go(0).unparse())
end main"
    );
    prints(&text, 1..=3, "request cycle\n2\n", 4);
}

/// Programs that only look as if they waited for themselves.
const NONE: &str = "A = actor
  go (b: B) returns (int)
    % Has asked, and waits for something else.
    x: int := b.get()
    got: int := 0
    wait
      when put (v: int): got := v
      after 100000000: got := -1
    end
    if got = 0 then reply (x) else reply (got) end
  end go
  put (v: int) end put
  other () returns (int) reply (7) end other
end A
B = actor
  first (c: C, a: A) returns (int)
    y: int := c.go(a)
    reply (y)
  end first
  get () returns (int) reply (1) end get
end B
C = actor
  opened: bool
  new () make {opened := false} end new
  go (a: A) returns (int)
    if ~opened then
      wait when open (): opened := true end
    end
    y: int := a.other()
    reply (y)
  end go
  open () opened := true end open
end C
% Somebody else answers: whoever waits for it is asked meanwhile.
Desk = actor
  held: array[replier[int]]
  new () make {held := array_new[replier[int]]()} end new
  ask () returns (int) held.append(replyto) end ask
  disable give when held.empty()
  give (v: int) returns (int)
    held.remove_low().deliver(v)
    reply (v)
  end give
end Desk
Asker = actor
  ask (d: Desk) returns (int)
    x: int := d.ask()
    reply (x)
  end ask
end Asker
% Takes a message of who waits for it in the middle of another.
Host = actor
  serve (g: Visitor) returns (int)
    x: int := g.visit(self)
    got: int := 0
    wait when come (v: int): got := v reply (v) end
    reply (x + got)
  end serve
  come (v: int) returns (int) reply (v) end come
end Host
Visitor = actor
  visit (h: Host) returns (int)
    y: int := h.come(3)
    reply (y + 10)
  end visit
end Visitor
Sleeper = actor
  sleep () returns (int)
    n: int := 0
    wait
      when never (): n := 0
      after 3: n := 1
    end
    reply (n)
  end sleep
  never () end never
end Sleeper
% A tree of requests over all nodes.
Tree = functional actor
  sum (n: int) returns (int)
    if n <= 1 then reply (n)
    else
      a: int := (Tree.new() on (n.mod(nodes()))).sum(n - 1)
      b: int := (Tree.new() on ((n + 1).mod(nodes()))).sum(n - 2)
      reply (a + b)
    end
  end sum
end Tree
main ()
  a: A := A.new() on 0
  b: B := B.new() on (1).mod(nodes())
  c: C := C.new() on (2).mod(nodes())
  f: int := b.first(c, a)
  g: int := a.go(b)
  d: Desk := Desk.new() on (nodes() - 1)
  k: Asker := Asker.new() on 0
  asked: int := k.ask(d)
  tree: int := (Tree.new() on (nodes() - 1)).sum(9)
  h: Host := Host.new() on (1).mod(nodes())
  host: int := h.serve(Visitor.new() on 0)
  s: Sleeper := Sleeper.new() on 0
  send c.open()
  slept: int := s.sleep()
  slept := slept + s.sleep()
  send a.put(5)
  given: int := d.give(4)
  print(f.unparse() || \" \" || g.unparse() || \" \" || asked.unparse() || \" \" || given.unparse() || \" \" || tree.unparse() || \" \" || host.unparse() || \" \" || slept.unparse())
end main";

#[test]
fn what_does_not_wait_for_itself_is_not_told_so() {
    prints(NONE, 1..=4, "7 5 4 4 34 16 2\n", 0);
}

/// Actors in an order, each of which asks some behind it, all at once, on any nodes. Nobody waits
/// for itself, whatever overlaps.
const ORDERED: &str = "Stage = actor
  behind: array[Stage]
  sum: int
  new () make {behind := array_new[Stage](), sum := 0} end new
  join (s: Stage) behind.append(s) end join
  go (k: int) returns (int)
    parts: array[int] := array_fill[int](1, behind.length(), 0)
    for i: int in 1.to(behind.length()) do
      if (i + k).mod(3) ~= 0 then parts[i] := behind[i].go(k + 1) end
    end
    all: int := 1
    for part: int in parts.elements() do all := all + part end
    sum := sum + all
    reply (all)
  end go
  total () returns (int) reply (sum) end total
end Stage
main ()
  all: array[Stage] := array_new[Stage]()
  for i: int in 1.to(9) do all.append(Stage.new() on ((i * i).mod(nodes()))) end
  for i: int in 1.to(9) do
    for j: int in (i + 1).to(9) do
      if (i + j).mod(3) = 0 | j = i + 1 then send all[i].join(all[j]) end
    end
  end
  a: int := all[1].go(1)
  b: int := all[2].go(2)
  c: int := all[1].go(3)
  sum: int := a + b + c
  for s: Stage in all.elements() do
    t: int := s.total()
    sum := sum + t
  end
  print(sum.unparse())
end main";

#[test]
fn whoever_asks_in_order_is_never_told_of_a_round() {
    let engine = load(ORDERED, Mode::Interpreted);
    let (expected, _) = run(&engine, 1, None, &[]);
    prints(ORDERED, 1..=4, &expected, 0);
}

/// Two actors with much mail ask a third for each message, which waits for another node each time:
/// so one of them waits behind the other, and all its mail behind it.
const QUEUED: &str = "Far = actor
  get () returns (int) reply (1) end get
end Far
Near = actor
  get (f: Far) returns (int)
    x: int := f.get()
    reply (x)
  end get
end Near
Asker = actor
  sum: int
  new () make {sum := 0} end new
  ask (n: Near, f: Far) sum := sum + n.get(f) end ask
  value () returns (int) reply (sum) end value
end Asker
main (args: sequence[string])
  count: int := args[1].to_int()
  a: Asker := Asker.new() on 0
  b: Asker := Asker.new() on 0
  n: Near := Near.new() on 0
  f: Far := Far.new() on (nodes() - 1)
  for i: int in 1.to(count / 2) do
    send a.ask(n, f)
    send b.ask(n, f)
  end
  print((a.value() + b.value()).unparse())
end main";

#[test]
fn the_search_takes_steps_as_there_are_messages() {
    let engine = load(QUEUED, Mode::Compiled);
    for count in [4_000_u64, 16_000] {
        // Where a seed decides, turns pay for steps; else time does.
        for (nodes, seed, most) in [(2, None, 1000), (2, Some(1), 300), (1, None, 300), (1, Some(1), 300)] {
            let (output, stats) = run(&engine, nodes, seed, &[&count.to_string()]);
            assert_eq!((output, stats.cycles), (format!("{count}\n"), 0), "{nodes} nodes, {seed:?}");
            // If all mail were walked for each message, it would be an eighth of the messages for
            // each.
            let steps = stats.searched;
            assert!(steps < most * count, "{steps} steps for {count} messages on {nodes} nodes, {seed:?}");
        }
    }
}

#[test]
fn who_waits_in_vain_is_told_for_whom() {
    let text = "Box = actor
  n: int
  new () make {n := 0} end new
  get () returns (int)
    wait when put (k: int): n := k end
    reply (n)
  end get
  put (k: int) n := k end put
  disable shut when n = 0
  shut () returns (int) reply (n) end shut
end Box
Desk = actor
  ask (b: Box) returns (int)
    x: int := b.get()
    reply (x)
  end ask
  lose () returns (int)
    r: replier[int] := replyto
  end lose
end Desk
main ()
  b: Box := Box.new() on (nodes() - 1)
  d: Desk := Desk.new() on 0
  begin print(d.ask(b).unparse()) end except when failure (why: string): print(why) end
  begin print((Box.new() on (nodes() - 1)).shut().unparse()) end except when failure (why: string): print(why) end
  begin print((Desk.new() on (nodes() - 1)).lose().unparse()) end except when failure (why: string): print(why) end
end main";
    for nodes in 1..=3 {
        let far = nodes - 1;
        let vain = "no request can be answered: all methods wait: main on node 0 waits for";
        let expected = [
            format!("{vain} Desk.ask on node 0; "),
            format!("{vain} Box.shut on node {far}, which its actor disables"),
            "no request can be answered: all methods wait".to_owned(),
        ];
        let others = [
            format!("Box.get on node {far} waits for a message"),
            format!("Desk.ask on node 0 waits for Box.get on node {far}"),
        ];
        for mode in [Mode::Compiled, Mode::Interpreted] {
            let engine = load(text, mode);
            for seed in (0..SEEDS).map(Some).chain([None]) {
                let (output, _) = run(&engine, nodes, seed, &[]);
                let lines: Vec<&str> = output.lines().collect();
                let told = lines.iter().zip(&expected).all(|(line, expected)| line.starts_with(expected));
                let told = told && lines.len() == 3 && others.iter().all(|other| lines[0].contains(other));
                assert!(told, "{mode:?}, {nodes} nodes, {seed:?}: {output}");
            }
        }
    }
}
