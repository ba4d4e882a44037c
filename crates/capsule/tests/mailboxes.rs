//! The bound of mailboxes: an actor that is blocked fills neither its node's heap nor anybody
//! else's time, and its senders hear of it.

#[path = "support/orders.rs"]
mod orders;

use std::sync::Arc;

use bifrost_actors::WithActors;
use bifrost_capsule::nodes::nap;
use bifrost_engine::{Engine, Mode};
use bifrost_runtime::node_words::Stats;
use bifrost_runtime::{Collect, Limits};
use orders::load;
use orders::output::{run_on, simulated};

const BLOCKED: &str = include_str!("blocked.theta");

const BOUND: usize = 1 << 20;

fn limits(collect: Collect) -> Limits {
    Limits { collect, heap_bytes: 32 << 20, mailbox_bytes: BOUND, ..Limits::default() }
}

fn ran(engine: &Arc<Engine>, nodes: u32, arguments: &[&str]) -> (String, Vec<Stats>) {
    let arguments: Vec<String> = arguments.iter().map(|it| (*it).to_owned()).collect();
    let (ran, stats) = run_on(engine, limits(Collect::Ordinary), nodes, &arguments, |cx| {
        cx.actors().set_log(|said| panic!("nothing is dropped: {said}"));
        cx.actors().set_nap(nap);
    });
    (ran.output, stats)
}

/// The number of messages sent, all of which have arrived.
#[track_caller]
fn sent(output: &str, said: &[&str]) -> usize {
    let mut lines: Vec<&str> = output.lines().collect();
    let last = lines.pop().and_then(|last| last.strip_suffix(" sent, 0 lost"));
    let sent = last.unwrap_or_else(|| panic!("{output}"));
    assert_eq!(lines, said);
    sent.parse().unwrap()
}

#[test]
fn who_floods_a_blocked_actor_is_refused_and_nothing_is_lost() {
    for mode in [Mode::Compiled, Mode::Interpreted] {
        let engine = load(BLOCKED, mode);
        for who in ["main", "actor", "passive"] {
            for (nodes, at) in [(1, "0"), (2, "0"), (2, "1")] {
                let (output, _) = ran(&engine, nodes, &[who, at]);
                let sent = sent(&output, &["mailbox full", "1000"]);
                // Each takes some eighty bytes. From another node the bound is passed by what was
                // under way.
                let fits = sent > BOUND / 200 && sent < BOUND / 20;
                assert!(fits, "{mode:?}, {who}, on {at} of {nodes}: {sent}");
            }
        }
    }
}

#[test]
fn who_cannot_make_way_and_who_asks_are_refused() {
    for mode in [Mode::Compiled, Mode::Interpreted] {
        let engine = load(BLOCKED, mode);
        for (nodes, at) in [(1, "0"), (2, "1")] {
            let (output, _) = ran(&engine, nodes, &["deep", at]);
            assert!(output.starts_with("mailbox full\n1000\nof "), "{mode:?}, on {at} of {nodes}: {output}");
            let (output, _) = ran(&engine, nodes, &["ask", at]);
            sent(&output, &["mailbox full", "asked: mailbox full", "1000"]);
        }
    }
}

#[test]
fn what_messages_carry_counts() {
    for mode in [Mode::Compiled, Mode::Interpreted] {
        let engine = load(BLOCKED, mode);
        for (nodes, at) in [(1, "0"), (2, "1")] {
            // Each has 80 KiB.
            let sent = sent(&ran(&engine, nodes, &["text", at]).0, &["mailbox full", "1000"]);
            assert!((9..60).contains(&sent), "{mode:?}, on {at} of {nodes}: {sent}");
        }
    }
}

#[test]
fn the_bound_holds_in_every_order() {
    for seed in 0..4 {
        let at = (seed % 2).to_string();
        for who in ["main", "actor"] {
            let arguments = [who.to_owned(), at.clone()];
            // What is code already goes another way, so each run begins anew.
            let run = || {
                let engine = load(BLOCKED, Mode::Compiled);
                simulated(&engine, limits(Collect::Ordinary), 2, seed, &arguments).output
            };
            let output = run();
            sent(&output, &["mailbox full", "1000"]);
            assert_eq!(output, run());
        }
    }
}

#[test]
fn others_send_as_ever_while_one_floods() {
    // Who floods goes on after each refusal, all the time that the other sends to a third.
    let (actors, _) = BLOCKED.split_once("main (args").expect("it has a main");
    let text = format!(
        "{actors}
Sink = actor
  sum: int
  new () make {{sum := 0}} end new
  take (n: int, text: string) sum := sum + n + text.length() end take
  get () returns (int) reply (sum) end get
end Sink
Sender = actor
  run (sink: Sink, n: int) returns (int)
    for i: int in 1.to(n) do send sink.take(i, i.unparse()) end
    sum: int := sink.get()
    reply (sum)
  end run
end Sender
Stubborn = actor
  refused: int
  new () make {{refused := 0}} end new
  flood (gate: Gate, most: int) returns (int)
    while refused < most do
      begin send gate.take(1) end except when failure (why: string): refused := refused + 1 end
    end
    reply (refused)
  end flood
end Stubborn
main (args: sequence[string])
  at: int := args[1].to_int()
  gate: Gate := Gate.new() on at
  send gate.hold()
  stubborn: Stubborn := Stubborn.new() on 0
  sink: Sink := Sink.new() on at
  sender: Sender := Sender.new() on 0
  refused: int := stubborn.flood(gate, 2000)
  sum: int := sender.run(sink, 9999)
  print(sum.unparse() || \", \" || refused.unparse() || \" refused\")
  send gate.go()
end main"
    );
    // The sum of 1 to 9999, and all their digits.
    let expected = format!("{}, 2000 refused\n", 9999 * 5000 + 9 + 180 + 2700 + 36000);
    for mode in [Mode::Compiled, Mode::Interpreted] {
        let engine = load(&text, mode);
        for (nodes, at) in [(1, "0"), (2, "0"), (2, "1")] {
            let (output, _) = ran(&engine, nodes, &[at]);
            assert_eq!(output, expected, "{mode:?}, on {at} of {nodes}");
        }
    }
}

#[test]
fn who_waits_for_room_goes_on_when_there_is_some() {
    // The consumer waits for an actor of the other node after each hundred; the producers never
    // hear of the bound.
    let text = "Remote = actor
  pass (n: int) returns (int) reply (n) end pass
end Remote
Slow = actor
  n: int  remote: Remote
  new (r: Remote) make {n := 0, remote := r} end new
  take (text: string)
    n := n + 1
    if n // 100 = 0 then
      passed: int := remote.pass(n)
      if passed ~= n then print(\"wrong\") end
    end
  end take
  came () returns (int) reply (n) end came
end Slow
Producer = actor
  run (slow: Slow, n: int) returns (bool)
    text: string := \"0123456789\"
    for i: int in 1.to(7) do text := text || text end
    for i: int in 1.to(n) do send slow.take(text) end
    reply (true)
  end run
end Producer
main ()
  slow: Slow := Slow.new(Remote.new() on 1) on 0
  a: Producer := Producer.new() on 0
  b: Producer := Producer.new() on 1
  x: bool := a.run(slow, 5000)
  y: bool := b.run(slow, 5000)
  if x & y then print(slow.came().unparse()) end
end main";
    for mode in [Mode::Compiled, Mode::Interpreted] {
        assert_eq!(ran(&load(text, mode), 2, &[]).0, "10000\n", "{mode:?}");
    }
}
