//! The end of actors, their monitors, and messages that are sent later.

#[path = "support/orders.rs"]
mod orders;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bifrost_actors::WithActors;
use bifrost_capsule::nodes::nap;
use bifrost_engine::{Engine, Mode};
use bifrost_runtime::{Collect, Limits};
use orders::output::{run_on, simulated, simulated_with_loss};
use orders::{load, prints};

/// Actors that end in different ways, and one that hears of it.
const WORKERS: &str = "Worker = actor
  stop when failure
  n: int
  new (n: int) make {n := n} end new
  add (k: int) returns (int)
    n := n + 100 / k
    reply (n)
  end add
  leave () returns (int)
    stop()
    reply (n)
  end leave
end Worker
Boss = actor
  heard: array[string]
  asks: array[replier[string]]
  new () make {heard := array_new[string](), asks := array_new[replier[string]]()} end new
  hire (w: Worker, name: string) returns (int)
    reply (monitor(w, send self.gone(name)))
  end hire
  dismiss (number: int) returns (bool) reply (cancel(number)) end dismiss
  gone (name: string, why: string)
    if asks.empty() then
      heard.append(name || \": \" || why)
    else
      d: replier[string] := asks.remove_low()
      d.deliver(name || \": \" || why)
    end
  end gone
  next () returns (string)
    if heard.empty() then asks.append(replyto)
    else reply (heard.remove_low()) end
  end next
  count () returns (int) reply (heard.length()) end count
end Boss
";

/// Prints this on 2 to 4 nodes, in all ways and in 100 orders.
#[track_caller]
fn prints_on_nodes(text: &str, expected: &str) {
    for mode in [Mode::Compiled, Mode::Interpreted] {
        let engine = load(text, mode);
        for nodes in 2..=4 {
            for collect in [Collect::Ordinary, Collect::Zeal(1)] {
                assert_eq!(
                    on_nodes(&engine, nodes, collect),
                    expected,
                    "{mode:?}, {nodes} nodes, {collect:?}"
                );
            }
        }
        for seed in 0..100 {
            let collect = if seed % 4 == 0 { Collect::Zeal(2) } else { Collect::Ordinary };
            let nodes = 2 + (seed % 3) as u32;
            let limits = Limits { collect, ..Limits::default() };
            let ran = simulated(&engine, limits, nodes, seed, &[]);
            assert_eq!(ran.output, expected, "{mode:?}, {nodes} nodes, seed {seed}");
        }
    }
}

fn on_nodes(engine: &Arc<Engine>, nodes: u32, collect: Collect) -> String {
    let limits = Limits { collect, ..Limits::default() };
    run_on(engine, limits, nodes, &[], |cx| cx.actors().set_nap(nap)).0.output
}

#[test]
fn whoever_monitors_an_actor_is_told_of_its_end() {
    let text = format!(
        "{WORKERS}main ()
  b: Boss := Boss.new()
  w: Worker := Worker.new(1)
  n: int := b.hire(w, \"first\")
  print(w.add(50).unparse())
  begin
    print(w.add(0).unparse())
  end except when failure (why: string): print(why) end
  print(b.next())
  begin
    print(w.add(1).unparse())
  end except when failure (why: string): print(why) end
  m: int := b.hire(w, \"late\")
  print(b.next())
  v: Worker := Worker.new(7)
  k: int := b.hire(v, \"second\")
  l: int := b.hire(v, \"again\")
  print(v.leave().unparse())
  print(b.next())
  print(b.next())
  begin
    print(v.leave().unparse())
  end except when failure (why: string): print(why) end
  print(b.dismiss(n).unparse() || b.dismiss(k).unparse() || b.count().unparse())
end main"
    );
    let expected = "3\nunhandled exception: zero\nfirst: unhandled exception: zero\n\
        unhandled exception: zero\nlate: unhandled exception: zero\n7\nsecond: actor ended\nagain: actor ended\n\
        actor ended\nfalsefalse0\n";
    prints(&text, expected);
    let far =
        text.replace("Worker.new(1)", "Worker.new(1) on 1").replace("Worker.new(7)", "Worker.new(7) on 1");
    prints_on_nodes(&text, expected);
    prints_on_nodes(&far, expected);
}

#[test]
fn an_actor_ends_behind_its_method_and_answers_what_waits() {
    // Messages that it has sent itself before are behind the end; a method that waits goes on.
    let text = "Helper = actor
  slow () returns (int)
    wait when go (): reply () after 1: end
    reply (5)
  end slow
  go ()
    reply ()
  end go
end Helper
Last = actor
  n: int
  new () make {n := 0} end new
  finish (h: Helper) returns (int)
    send self.never()
    stop()
    x: int := h.slow()
    n := n + x
    reply (n)
  end finish
  never () print(\"never\") end never
  value () returns (int) reply (n) end value
end Last
main ()
  l: Last := Last.new()
  a: int := l.finish(Helper.new())
  b: int := l.value()
  print(a.unparse())
  print(b.unparse()) except when failure (why: string): print(why) end
end main";
    prints(text, "5\nactor ended\n");
    prints_on_nodes(text, "5\nactor ended\n");
    prints_on_nodes(&text.replace("Last.new()\n", "Last.new() on 1\n"), "5\nactor ended\n");
}

#[test]
fn a_monitor_that_is_taken_back_tells_nothing() {
    let text = format!(
        "{WORKERS}main ()
  b: Boss := Boss.new()
  w: Worker := Worker.new(1)
  v: Worker := Worker.new(2)
  n: int := b.hire(w, \"first\")
  m: int := b.hire(w, \"second\")
  k: int := b.hire(v, \"third\")
  print(b.dismiss(n).unparse() || b.dismiss(n).unparse() || b.dismiss(n + 1000).unparse())
  print(w.leave().unparse())
  print(v.leave().unparse())
  one: string := b.next()
  two: string := b.next()
  if one < two then print(one) print(two) else print(two) print(one) end
  print(b.count().unparse())
end main"
    );
    let expected = "truefalsefalse\n1\n2\nsecond: actor ended\nthird: actor ended\n0\n";
    prints(&text, expected);
    let far = text.replace("Worker.new(1)", "Worker.new(1) on 1").replace("Boss.new()", "Boss.new() on 1");
    prints_on_nodes(&far.replace("Boss.new() on 1", "Boss.new()"), expected);
    prints_on_nodes(&far, expected);
}

/// A clock with timers of all kinds.
const CLOCK: &str = "Clock = actor
  ticks: int  most: int  timer: int  done: array[replier[string]]  once: int
  new () make {ticks := 0, most := 0, timer := 0, done := array_new[replier[string]](), once := 0} end new
  run (most_ticks: int) returns (string)
    most := most_ticks
    timer := every(1, send self.tick())
    done.append(replyto)
  end run
  tick ()
    ticks := ticks + 1
    if ticks = most then
      was: bool := cancel(timer)
      d: replier[string] := done.remove_low()
      d.deliver(was.unparse() || ticks.unparse())
    end
  end tick
  wait_for (ms: int) returns (string)
    once := later(ms, send self.wake(7))
    done.append(replyto)
  end wait_for
  wake (n: int)
    was: bool := cancel(once)
    d: replier[string] := done.remove_low()
    d.deliver(was.unparse() || n.unparse())
  end wake
  count () returns (int) reply (ticks) end count
  idle (ms: int) returns (int)
    wait when tick (): ticks := ticks + 1000 after ms: end
    reply (ticks)
  end idle
end Clock
";

#[test]
fn timers_send_once_or_again_until_they_are_cancelled() {
    let text = format!(
        "{CLOCK}main ()
  c: Clock := Clock.new()
  print(c.run(5))
  print(c.wait_for(3))
  print(c.wait_for(-1))
  print(c.idle(5).unparse())
  begin
    n: int := every(0, send c.tick())
  end except when failure (why: string): print(why) end
end main"
    );
    let expected = "true5\nfalse7\nfalse7\n5\n`every` needs at least 1 ms\n";
    prints(&text, expected);
    prints_on_nodes(&text, expected);
    prints_on_nodes(&text.replace("Clock.new()\n", "Clock.new() on 1\n"), expected);
    // The timers of `main` go to an actor of another node, too.
    let text = "Sink = actor
  got: array[int]  asks: array[replier[int]]
  new () make {got := array_new[int](), asks := array_new[replier[int]]()} end new
  put (n: int)
    if asks.empty() then got.append(n)
    else
      d: replier[int] := asks.remove_low()
      d.deliver(n)
    end
  end put
  take () returns (int)
    if got.empty() then asks.append(replyto) else reply (got.remove_low()) end
  end take
end Sink
main ()
  s: Sink := Sink.new() on 1
  n: int := later(2, send s.put(1))
  print(s.take().unparse())
  m: int := every(1, send s.put(2))
  print((s.take() + s.take()).unparse())
  print(cancel(m).unparse() || cancel(m).unparse() || cancel(n).unparse())
end main";
    prints_on_nodes(text, "1\n4\ntruefalsefalse\n");
}

#[test]
fn a_tick_that_waits_is_taken_back_and_none_piles_up() {
    let text = "Busy = actor
  ticks: int
  new () make {ticks := 0} end new
  go () returns (int)
    t: int := every(1, send self.tick())
    % It handles no message meanwhile, and 20 ticks are due.
    p: Pause := Pause.new()
    print(p.rest(20).unparse())
    print(cancel(t).unparse())
    reply (ticks)
  end go
  count () returns (int) reply (ticks) end count
  tick () ticks := ticks + 1 end tick
end Busy
Late = actor
  ticks: int  t: int
  new () make {ticks := 0, t := 0} end new
  begin_ticks () t := every(1, send self.tick()) end begin_ticks
  rest () returns (int)
    p: Pause := Pause.new()
    x: int := p.rest(20)
    reply (x)
  end rest
  tick ()
    ticks := ticks + 1
    cancel(t)
  end tick
  count () returns (int) reply (ticks) end count
end Late
Pause = actor
  rest (ms: int) returns (int)
    wait when go (): reply () after ms: end
    reply (ms)
  end rest
  go () reply () end go
end Pause
main ()
  b: Busy := Busy.new()
  print(b.go().unparse())
  print(b.count().unparse())
  l: Late := Late.new()
  send l.begin_ticks()
  print(l.rest().unparse())
  p: Pause := Pause.new()
  print(p.rest(5).unparse())
  print((l.count() <= 1).unparse())
end main";
    prints(text, "20\ntrue\n0\n0\n20\n5\ntrue\n");
}

#[test]
fn timers_that_repeat_let_a_run_end_and_others_do_not() {
    let text = "Speaker = actor
  say (text: string) print(text) end say
  quiet () end quiet
end Speaker
Relay = actor
  begin_both (s: Speaker)
    t: int := every(1, send self.quiet())
    n: int := later(30, send s.say(\"later\"))
  end begin_both
  quiet () end quiet
end Relay
main ()
  s: Speaker := Speaker.new()
  t: int := every(1, send s.quiet())
  r: Relay := Relay.new()
  send r.begin_both(s)
  print(\"end of main\")
end main";
    prints(text, "end of main\nlater\n");
    prints_on_nodes(text, "end of main\nlater\n");
    prints_on_nodes(&text.replace("Relay.new()\n", "Relay.new() on 1\n"), "end of main\nlater\n");
    let engine = load(&text.replace("later(30,", "later(300,"), Mode::Compiled);
    let start = Instant::now();
    assert_eq!(on_nodes(&engine, 2, Collect::Ordinary), "end of main\nlater\n");
    assert!(start.elapsed() >= Duration::from_millis(300), "{:?}", start.elapsed());
}

#[test]
fn garbage_has_ended() {
    // Nobody but those who monitor them knows the actors.
    let text = format!(
        "{WORKERS}Maker = actor
  begin_one (b: Boss, name: string) returns (int)
    w: Worker := Worker.new(1)
    reply (b.hire(w, name))
  end begin_one
end Maker
main ()
  b: Boss := Boss.new()
  m: Maker := Maker.new()
  n: int := m.begin_one(b, \"lost\")
  far: Maker := Maker.new() on (nodes() - 1)
  k: int := far.begin_one(b, \"far\")
  one: string := b.next()
  two: string := b.next()
  if one < two then print(one) print(two) else print(two) print(one) end
end main"
    );
    // Collections come with work.
    let busy = "Mill = actor
  turn () returns (int)
    a: array[int] := array_fill[int](1, 1000, 0)
    reply (a.length())
  end turn
end Mill
";
    let text = format!("{busy}{text}").replace(
        "  one: string",
        "  mill: Mill := Mill.new()
  other: Mill := Mill.new() on (nodes() - 1)
  t: int := every(1, send mill.turn())
  u: int := every(1, send other.turn())
  one: string",
    );
    let expected = "far: actor ended\nlost: actor ended\n";
    for mode in [Mode::Compiled, Mode::Interpreted] {
        let engine = load(&text, mode);
        for nodes in 1..=3 {
            assert_eq!(on_nodes(&engine, nodes, Collect::Zeal(1)), expected, "{mode:?}, {nodes} nodes");
        }
    }
}

/// Actors on each node but the first, each monitored twice, which end while nodes are lost.
const LOSS: &str = "Worker = actor
  stop when failure
  work (k: int) returns (int)
    if k = 3 then stop() end
    if k = 4 then signal failure(\"four\") end
    reply (k)
  end work
end Worker
Tally = actor
  told: array[int]  lost: int
  new () make {told := array_fill[int](0, 40, 0), lost := 0} end new
  watch (w: Worker, at: int)
    n: int := monitor(w, send self.gone(at))
    m: int := monitor(w, send self.gone(at))
  end watch
  gone (at: int, why: string)
    told[at] := told[at] + 1
    if why = \"node lost\" then lost := lost + 1 end
  end gone
  count_lost () returns (int) reply (lost) end count_lost
  all () returns (string)
    s: string := \"\"
    for n: int in told.elements() do s := s || n.unparse() end
    reply (s)
  end all
  least (n: int) returns (int)
    few: int := 0
    for at: int in 0.to(n - 1) do
      if told[at] < 2 then few := few + 1 end
    end
    reply (few)
  end least
end Tally
main ()
  t: Tally := Tally.new()
  count: int := 0
  workers: array[Worker] := array_new[Worker]()
  for k: int in 1.to(nodes() - 1) do
    for i: int in 1.to(3) do
      begin
        w: Worker := Worker.new() on k
        workers.append(w)
        send t.watch(w, count)
        count := count + 1
      end except when failure (why: string): end
    end
  end
  for i: int in 1.to(5) do
    for w: Worker in workers.elements() do
      x: int := w.work(i) except when failure (why: string): end
    end
  end
  % Each has ended or is lost.
  while t.least(count) > 0 do end
  print(t.all().substr(1, count))
  print(t.count_lost().unparse())
end main";

#[test]
fn each_monitor_is_told_once_whatever_is_lost() {
    let mut digests = vec![];
    for mode in [Mode::Compiled, Mode::Interpreted] {
        let engine = load(LOSS, mode);
        let mut lost_some = 0;
        for seed in 0..500 {
            let nodes = 2 + (seed % 3) as u32;
            let loss = (seed % 5 != 0).then_some((nodes - 1..nodes, (seed % 41) as u32 * 3));
            let collect = if seed % 4 == 0 { Collect::Zeal(2) } else { Collect::Ordinary };
            let limits = Limits { collect, ..Limits::default() };
            let ran = simulated_with_loss(&engine, limits, nodes, seed, loss.clone(), &[]);
            let (told, count) = ran.output.trim_end().split_once('\n').unwrap_or((&ran.output, ""));
            assert!(told.chars().all(|c| c == '2'), "{mode:?}, seed {seed}: {told}");
            let all = 3 * (nodes as usize - 1);
            assert!(loss.is_some() || told.len() == all, "{mode:?}, seed {seed}: {told}");
            let count: usize = count.parse().expect("the number of those that were told of a loss");
            assert!(loss.is_some() || count == 0, "{mode:?}, seed {seed}");
            lost_some += u32::from(count > 0);
            if seed % 25 == 0 && mode == Mode::Interpreted {
                let again = simulated_with_loss(&engine, limits, nodes, seed, loss, &[]);
                assert_eq!(again.events, ran.events, "{mode:?}, seed {seed}");
                digests.push(ran.events.1);
            }
        }
        assert!((50..400).contains(&lost_some), "nodes are lost before actors end, and after: {lost_some}");
    }
    digests.sort();
    digests.dedup();
    assert!(digests.len() > 10, "seeds give different orders");
}
