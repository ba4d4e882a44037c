//! Identity of actors: comparison and keys of maps are the same on each node, and logs name the
//! source of an exception.

#[path = "support/orders.rs"]
mod orders;

use std::sync::Mutex;

use bifrost_actors::WithActors;
use bifrost_engine::Mode;
use bifrost_runtime::{Collect, Limits};
use orders::output::{run_on, run_with, simulated};
use orders::{load, prints};

/// Orders in which two nodes run.
const SEEDS: u64 = 60;

#[test]
fn actors_are_compared_and_are_keys_of_maps_on_each_node() {
    let text = "Thing = actor
  n: int
  new (k: int) make {n := k} end new
  get () returns (int) reply (n) end get
end Thing
Keeper = actor
  known: map[Thing, int]
  new () make {known := map_new[Thing, int]()} end new
  keep (t: Thing, n: int) known[t] := n end keep
  kept (t: Thing) returns (int) signals (not_found)
    reply (known[t]) resignal not_found
  end kept
  echo (t: Thing) returns (Thing) reply (t) end echo
  found (m: map[Thing, int], t: Thing) returns (string)
    reply (m[t].unparse() || \"/\" || m.length().unparse())
  end found
  same (t: Thing, u: Thing) returns (bool) reply (t = u) end same
end Keeper
main ()
  a: Thing := Thing.new(1) on (nodes() - 1)
  b: Thing := Thing.new(2)
  k: Keeper := Keeper.new() on (nodes() - 1)
  m: map[Thing, int] := map_new[Thing, int]()
  m[a] := 1   m[b] := 2   m[a] := 3
  print(m.length().unparse() || \" \" || m[a].unparse() || \" \" || m[b].unparse())
  print((a = b).unparse() || \" \" || (a = k.echo(a)).unparse() || \" \" || (b = k.echo(b)).unparse())
  print(k.same(a, b).unparse() || \" \" || k.same(b, b).unparse() || \" \" || (a ~= b).unparse())
  k.keep(a, 7)
  k.keep(b, 8)
  k.keep(k.echo(a), 9)
  print(k.kept(a).unparse() || \" \" || k.kept(b).unparse())
  print(k.found(clone m, a) || \" \" || k.found(clone m, b))
  begin print(k.kept(Thing.new(3)).unparse()) end except when not_found: print(\"none\") end
end main";
    let expected = "2 3 2\nfalse true true\nfalse true true\n9 8\n3/2 2/2\nnone\n";
    prints(text, expected);
    for mode in [Mode::Compiled, Mode::Interpreted] {
        let engine = load(text, mode);
        for collect in [Collect::Ordinary, Collect::Zeal(1)] {
            let limits = Limits { collect, ..Limits::default() };
            assert_eq!(run_on(&engine, limits, 2, &[], |_| {}).0.output, expected, "{mode:?}, {collect:?}");
        }
        for seed in 0..SEEDS {
            let ran = simulated(&engine, Limits::default(), 2, seed, &[]);
            assert_eq!(ran.output, expected, "{mode:?}, seed {seed}");
        }
    }
}

static LOGGED: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn log(line: &str) {
    LOGGED.lock().expect("nobody panics with it").push(line.to_owned());
}

#[test]
fn an_exception_that_nobody_awaits_is_logged_with_its_values_method_and_node() {
    let text = "Worker = actor
  fail (n: int, why: string) signals (odd (int, string, bool))
    signal odd(n, why, n > 3)
  end fail
  early (n: int) returns (int)
    reply (n)
    m: int := 1 / (n - n)
  end early
  ask (w: Worker) returns (int)
    x: int := w.value(1.5, 'x')
    reply (1)
  end ask
  value (r: real, c: char) returns (int) signals (none (real, char, sequence[int]))
    signal none(r, c, sequence_of[int](.. 1, 2))
  end value
end Worker
main ()
  w: Worker := Worker.new() on (nodes() - 1)
  send w.fail(3, \"a \\\"word\\\"\")
  print(w.early(2).unparse() || w.ask(Worker.new()).unparse())
end main";
    for mode in [Mode::Compiled, Mode::Interpreted] {
        let engine = load(text, mode);
        for nodes in [1, 2] {
            LOGGED.lock().expect("nobody panics with it").clear();
            let limits = Limits::default();
            let output = match nodes {
                1 => run_with(&engine, limits, &[], |cx| cx.actors().set_log(log)).0.output,
                nodes => run_on(&engine, limits, nodes, &[], |cx| cx.actors().set_log(log)).0.output,
            };
            assert_eq!(output, "21\n");
            let mut logged = LOGGED.lock().expect("nobody panics with it").clone();
            logged.sort();
            let node = nodes - 1;
            let expected = [
                format!(
                    "exception without a receiver: failure(\"unhandled exception: zero\") of Worker.early, \
                        on node {node}\n  at Worker.early (actors.theta:7)"
                ),
                format!(
                    "exception without a receiver: none(1.5, 'x', sequence[int]) of Worker.value, on node \
                        {node}"
                ),
                format!(
                    "exception without a receiver: odd(3, \"a \\\"word\\\"\", false) of Worker.fail, on \
                        node {node}"
                ),
            ];
            assert_eq!(logged, expected, "{mode:?} on {nodes} nodes");
        }
    }
}
