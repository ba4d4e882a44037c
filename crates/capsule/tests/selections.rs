//! Which message an actor takes: in methods that it calls on itself, and where conditions raise.

#[path = "support/orders.rs"]
mod orders;

use bifrost_actors::WithActors;
use bifrost_engine::Mode;
use bifrost_runtime::{Collect, Limits};
use orders::output::{run_on, simulated};
use orders::{load, prints};

/// Orders in which two nodes run.
const SEEDS: u64 = 60;

/// The program prints this on one node and on two, in both ways to run it, in every order.
#[track_caller]
fn prints_on_one_and_two(text: &str, expected: &str) {
    prints(text, expected);
    for mode in [Mode::Compiled, Mode::Interpreted] {
        let engine = load(text, mode);
        for collect in [Collect::Ordinary, Collect::Zeal(1)] {
            let limits = Limits { collect, ..Limits::default() };
            let (ran, _) = run_on(&engine, limits, 2, &[], |cx| cx.actors().set_log(|_| {}));
            assert_eq!(ran.output, expected, "{mode:?} on two nodes, {collect:?}");
        }
        for seed in 0..SEEDS {
            let ran = simulated(&engine, Limits::default(), 2, seed, &[]);
            assert_eq!(ran.output, expected, "{mode:?} on two nodes, seed {seed}");
        }
    }
}

#[test]
fn a_call_of_an_actor_on_itself_takes_messages() {
    let text = "Shop = actor
  stock: int   seen: int
  new () make {stock := 0, seen := 0} end new
  bring (n: int) stock := stock + n end bring
  other () seen := seen + 1 end other
  fetched (n: int) returns (int)
    while stock < n do
      wait when bring (k: int): stock := stock + k end
    end
    stock := stock - n
    reply (n)
  end fetched
  twice (n: int) returns (int)
    a: int := self.fetched(n)
    b: int := self.fetched(n)
    reply (a + b)
  end twice
  buy (n: int) returns (int)
    got: int := self.twice(n)
    reply (got + self.twice(1))
  end buy
  told () returns (string) reply (seen.unparse() || \" \" || stock.unparse()) end told
end Shop
Buyer = actor
  go (s: Shop) returns (int) reply (s.buy(5)) end go
end Buyer
Carrier = actor
  go (s: Shop, n: int) send s.bring(n) end go
end Carrier
main ()
  s: Shop := Shop.new() on (nodes() - 1)
  b: Buyer := Buyer.new()
  c: Carrier := Carrier.new() anywhere
  got: int := b.go(s)
  for i: int in 1.to(4) do
    send c.go(s, 3)
    send s.other()
  end
  print(got.unparse())
  print(s.told())
end main";
    prints_on_one_and_two(text, "12\n4 0\n");
}

#[test]
fn a_call_of_an_actor_on_itself_waits_only_so_long() {
    let text = "Waiting = actor
  count: int
  new () make {count := 0} end new
  more () count := count + 1 end more
  late () returns (string)
    answer: string := \"none\"
    wait when more (): answer := \"more\" after 1: answer := \"late\" end
    reply (answer)
  end late
  asked () returns (string)
    reply (self.late() || \" \" || self.late())
  end asked
end Waiting
main ()
  w: Waiting := Waiting.new() on (nodes() - 1)
  print(w.asked())
end main";
    prints_on_one_and_two(text, "late late\n");
}

#[test]
fn who_waits_behind_a_call_on_itself_is_busy_until_the_answer() {
    // The call has ended, and another answers in its place: no message is served meanwhile.
    let text = "Desk = actor
  places: array[replier[int]]
  new () make {places := array_new[replier[int]]()} end new
  ask () returns (int) places.append(replyto) end ask
  tell (n: int) places.remove_low().deliver(n) end tell
end Desk
Clerk = actor
  busy: bool   log: string
  new () make {busy := false, log := \"\"} end new
  go () end go
  asked (d: Desk) returns (int)
    wait when go (): end
    delegate d.ask()
  end asked
  work (d: Desk) returns (int)
    busy := true
    n: int := self.asked(d)
    busy := false
    reply (n)
  end work
  look () returns (bool) reply (busy) end look
end Clerk
main ()
  d: Desk := Desk.new()
  c: Clerk := Clerk.new() on (nodes() - 1)
  n: int := c.work(d)
  send c.go()
  seen: bool := c.look()
  d2: Desk := d
  send d2.tell(7)
  print(n.unparse() || \" \" || seen.unparse())
end main";
    let text = text.replace(
        "tell (n: int) places.remove_low()",
        "tell (n: int)\n    if places.empty() then send self.tell(n) return end\n    places.remove_low()",
    );
    prints_on_one_and_two(&text, "7 false\n");
}

#[test]
fn a_condition_that_raises_fails_its_message_and_no_other() {
    let text = "Store = actor
  n: int   count: int
  new () make {n := 0, count := 0} end new
  disable put (v) when 100 / v < 5
  disable closed when n / (n - n) > 1
  put (v: int) returns (int)
    n := n + v
    count := count + 1
    reply (v)
  end put
  closed () n := 0 end closed
  pause (s: Store) returns (int)
    wait when put (v: int): n := n + v reply (v) after 1: end
    reply (s.value())
  end pause
  value () returns (int) reply (n) end value
end Store
Asker = actor
  go (s: Store, v: int) returns (string)
    begin reply (s.put(v).unparse()) end except when failure (why: string): reply (why) end
  end go
end Asker
main ()
  s: Store := Store.new() on (nodes() - 1)
  t: Store := Store.new()
  told: array[string] := array_fill[string](1, 24, \"\")
  pauses: array[int] := array_fill[int](1, 12, 0)
  for i: int in 1.to(12) do
    a: Asker := Asker.new() anywhere
    pauses[i] := s.pause(t)
    told[2 * i - 1] := a.go(s, 0)
    told[2 * i] := a.go(s, i)
    send s.put(0)
    send s.closed()
  end
  failed: int := 0
  for text: string in told.elements() do
    if text = \"unhandled exception: zero\" then failed := failed + 1 end
  end
  begin print(s.put(0).unparse()) end except when failure (why: string): print(why) end
  print(failed.unparse() || \" \" || pauses[3].unparse() || \" \" || s.value().unparse())
end main";
    prints_on_one_and_two(text, "unhandled exception: zero\n12 0 78\n");
}
