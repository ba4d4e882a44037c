//! Cycles of garbage over several nodes are found, and nothing else is let go.

#[path = "support/orders.rs"]
mod orders;

use std::collections::BTreeSet;

use bifrost_actors::WithActors;
use bifrost_capsule::Space;
use bifrost_capsule::nodes::{Nodes, nap};
use bifrost_engine::Mode;
use bifrost_runtime::{Collect, Limits};
use orders::load;
use orders::output::run_here;

/// Cells on any nodes, whose links the arguments say, and of which a keeper holds some. It changes what it can reach as they say, while searches
/// go on.
const CELLS: &str = "Cell = actor
  load: string
  links: array[Cell]
  new (doublings: int)
    s: string := \"x\"
    for i: int in 1.to(doublings) do s := s || s end
    make {load := s, links := array_new[Cell]()}
  end new
  link (c: Cell) returns (int)
    links.append(c)
    reply (links.length())
  end link
  % Its first link, if it has one, goes to another.
  move (to: Cell) returns (int)
    if links.length() = 0 then
      reply (0)
      return
    end
    c: Cell := links.bottom()
    links := array_new[Cell]()
    n: int := to.link(c)
    reply (n)
  end move
  first () returns (Cell) signals (none)
    if links.length() = 0 then signal none end
    reply (links.bottom())
  end first
  size () returns (int) reply (load.length()) end size
end Cell
Keeper = actor
  kept: array[Cell]
  new () make {kept := array_new[Cell]()} end new
  keep (c: Cell) returns (int)
    kept.append(c)
    reply (kept.length())
  end keep
  change (op: int, i: int, j: int) returns (int)
    done: int := 0
    if kept.length() > 0 then
      a: Cell := kept[1 + i // kept.length()]
      b: Cell := kept[1 + j // kept.length()]
      if op = 0 then done := a.link(b)
      elseif op = 1 then done := a.move(b)
      elseif op = 2 then
        begin
          c: Cell := a.first()
          kept.append(c)
          done := 1
        end except when none: done := 0 end
      else
        rest: array[Cell] := array_new[Cell]()
        for k: int in 1.to(kept.length()) do
          if k ~= 1 + i // kept.length() then rest.append(kept[k]) end
        end
        kept := rest
      end
    end
    reply (done)
  end change
  check (size: int) returns (int)
    wrong: int := 0
    for c: Cell in kept.elements() do
      n: int := c.size()
      if n ~= size then wrong := wrong + 1 end
    end
    reply (wrong)
  end check
end Keeper
Echo = actor
  ask (k: int) returns (int) reply (k + 1) end ask
end Echo
% Gives the keeper, so that it is there until the last packet has arrived.
main (args: sequence[string]) returns (Keeper)
  at: int := 3
  doublings: int := args[1].to_int()
  count: int := args[2].to_int()
  cells: array[Cell] := array_new[Cell]()
  for i: int in 1.to(count) do
    c: Cell := Cell.new(doublings) on args[at].to_int()
    cells.append(c)
    at := at + 1
  end
  links: int := args[at].to_int()
  at := at + 1
  for i: int in 1.to(links) do
    n: int := cells[args[at].to_int()].link(cells[args[at + 1].to_int()])
    at := at + 2
  end
  keeper: Keeper := Keeper.new() on 1
  roots: int := args[at].to_int()
  at := at + 1
  for i: int in 1.to(roots) do
    n: int := keeper.keep(cells[args[at].to_int()])
    at := at + 1
  end
  cells := array_new[Cell]()
  changes: int := args[at].to_int()
  at := at + 1
  for i: int in 1.to(changes) do
    n: int := keeper.change(args[at].to_int(), args[at + 1].to_int(), args[at + 2].to_int())
    at := at + 3
  end
  rounds: int := args[at].to_int()
  size: int := 1
  for i: int in 1.to(doublings) do size := 2 * size end
  for i: int in 1.to(rounds) do
    for k: int in 0.to(nodes() - 1) do
      begin
        e: Echo := Echo.new() on k
        n: int := e.ask(i)
      end except when failure (why: string):
        if why ~= \"node lost\" then print(why) end
      end
    end
  end
  wrong: int := keeper.check(size)
  print(wrong.unparse() || \" wrong\")
  return (keeper)
end main";

/// How often the text of a cell is doubled: it is most of what a node has.
const DOUBLINGS: u32 = 14;

/// A number below `n` (xorshift64*).
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % n
    }
}

/// What a run is given, and by node how many cells there are at its end by a plain reckoning.
fn plan(seed: u64, nodes: usize) -> (Vec<String>, Vec<usize>) {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let count = 1 + random.below(12);
    let homes: Vec<usize> = (0..count).map(|_| random.below(nodes)).collect();
    let mut links: Vec<Vec<usize>> = vec![Vec::new(); count];
    let mut numbers = vec![DOUBLINGS as usize, count];
    numbers.extend(&homes);
    let edges = random.below(2 * count + 1);
    numbers.push(edges);
    for _ in 0..edges {
        let (from, to) = (random.below(count), random.below(count));
        links[from].push(to);
        numbers.extend([from + 1, to + 1]);
    }
    let mut kept: Vec<usize> = (0..random.below(4)).map(|_| random.below(count)).collect();
    numbers.push(kept.len());
    numbers.extend(kept.iter().map(|cell| cell + 1));
    let changes: Vec<[usize; 3]> =
        (0..random.below(30)).map(|_| [random.below(4), random.below(100), random.below(100)]).collect();
    let place = numbers.len();
    let mut done = Vec::new();
    for [op, i, j] in changes {
        let length = kept.len();
        if length > 0 {
            let (a, b) = (kept[i % length], kept[j % length]);
            match op {
                0 => links[a].push(b),
                // An actor that asks itself would wait for ever.
                1 if a == b => continue,
                1 if links[a].is_empty() => {}
                1 => {
                    let first = links[a][0];
                    links[a].clear();
                    links[b].push(first);
                }
                2 => kept.extend(links[a].first().copied()),
                _ => drop(kept.remove(i % length)),
            }
        }
        done.extend([op, i, j]);
    }
    numbers.insert(place, done.len() / 3);
    numbers.extend(done);
    let mut reached: BTreeSet<usize> = BTreeSet::new();
    let mut left = kept;
    while let Some(cell) = left.pop() {
        if reached.insert(cell) {
            left.extend(&links[cell]);
        }
    }
    let lives = (0..nodes).map(|node| reached.iter().filter(|cell| homes[**cell] == node).count()).collect();
    (numbers.iter().map(usize::to_string).collect(), lives)
}

/// How many cells each node has, by the bytes that live in its heap.
fn cells(nodes: &Nodes) -> Vec<usize> {
    let cells = nodes.spaces().iter().map(|space| {
        let mut cx = space.lock();
        cx.collect();
        cx.heap_stats().usage.live_bytes >> DOUBLINGS
    });
    cells.collect()
}

/// Graphs of actors at random on simulated nodes: what the keeper leads to is there, and nothing else. With `lossy` there are nodes without
/// cells that are lost in the course of it.
#[track_caller]
fn what_is_left_is_what_can_be_reached(seeds: std::ops::Range<u64>, lossy: bool) {
    let engine = load(CELLS, Mode::Compiled);
    let main = engine.find_entry("main", 1).expect("the program has one");
    let mut swept = 0;
    for seed in seeds {
        let count = 2 + (seed % 3) as u32;
        let (mut arguments, expected) = plan(seed, count as usize);
        arguments.push(if lossy { "150" } else { "60" }.to_owned());
        let collect = if seed % 4 == 0 { Collect::Checked } else { Collect::Ordinary };
        let limits = Limits { collect, ..Limits::default() };
        let space = Space::new(engine.clone(), limits).expect("there is memory for a heap");
        let all = count + if lossy { 1 + (seed % 2) as u32 } else { 0 };
        let loss = lossy.then_some((count..all, (seed * 7 % 300) as u32));
        let nodes = Nodes::simulated_with_loss(space, all, limits, seed, loss, |_| {}).expect("nodes");
        let ran = nodes.run(|space| run_here(space, main, Some(&arguments))).expect("there are threads");
        assert_eq!(ran.output, "0 wrong\n", "seed {seed}");
        assert_eq!(cells(&nodes)[..count as usize], expected, "seed {seed}: {arguments:?}");
        swept += nodes.stats().iter().map(|node| node.swept).sum::<u64>();
    }
    assert!(swept > 100, "only {swept} were found");
}

#[test]
fn graphs_at_random_leave_what_can_be_reached_in_a_thousand_orders() {
    what_is_left_is_what_can_be_reached(0..1000, false);
}

#[test]
fn nodes_that_are_lost_in_the_middle_of_a_search_do_not_end_it() {
    what_is_left_is_what_can_be_reached(1000..1150, true);
}

#[test]
fn rings_over_two_nodes_go_and_those_in_use_stay() {
    let engine = load(include_str!("../../cli/tests/rings.theta"), Mode::Compiled);
    let main = engine.find_entry("main", 1).expect("the program has one");
    let space = Space::new(engine.clone(), Limits::default()).expect("there is memory for a heap");
    let nodes = Nodes::new(space, 2, Limits::default(), |cx| cx.actors().set_nap(nap)).expect("nodes");
    let arguments = ["40".to_owned()];
    let ran = nodes.run(|space| run_here(space, main, Some(&arguments))).expect("there are threads");
    assert_eq!(ran.output, "1000 of 1000\n");
    // 40,000 cells were made, half of them here and half there.
    let swept: Vec<u64> = nodes.stats().iter().map(|node| node.swept).collect();
    assert!(swept.iter().all(|swept| *swept > 5_000), "{swept:?}");
    let live = nodes.spaces().iter().map(|space| {
        let mut cx = space.lock();
        cx.collect();
        cx.heap_stats().usage.live_objects
    });
    let live: Vec<usize> = live.collect();
    // A cell is one object, and one more for its reference to the other node.
    assert!(live.iter().all(|live| *live < 30_000), "{live:?}");
}
