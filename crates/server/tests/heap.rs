//! Heaps at work: long chains, limits, and batches that make more garbage than the heap has room.

#[path = "../../capsule/tests/support/output.rs"]
mod output;

use bifrost_engine::{Engine, Mode};
use bifrost_runtime::{HeapStats, Limits};
use bifrost_server::program;
use std::sync::Arc;

/// Both ways in which functions run.
const MODES: [Mode; 2] = [Mode::Compiled, Mode::Interpreted];

fn load(text: &str, mode: Mode) -> Arc<Engine> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("test.theta");
    std::fs::write(&file, text).unwrap();
    program::load(&[file], None, mode).unwrap_or_else(|e| panic!("{e}"))
}

/// Runs `main`: what it prints or how it ends, and what became of the heap.
fn run(text: &str, mode: Mode, limits: Limits) -> (String, HeapStats) {
    let ran = output::run(&load(text, mode), limits, &[]);
    (ran.output, ran.heap)
}

fn limits(heap_bytes: usize) -> Limits {
    Limits { heap_bytes, batch_heap_bytes: heap_bytes, fuel: i64::MAX, ..Limits::default() }
}

/// A chain of objects of a class, and a list of as many elements, each dropped before the next is made.
const CHAINS: &str = "
Node = type   depth () returns (int)   next () returns (Node) signals (none) end Node
module nodes exports new_node, new_end
  Link = class implements Node
    rest: Node   depth: int
    next () returns (Node) signals (none) return (rest) end next
  end Link
  Last = class implements Node
    depth () returns (int) return (0) end depth
    next () returns (Node) signals (none) signal none end next
  end Last
  new_end () returns (Node) return (Last{}) end new_end
  new_node (rest: Node, depth: int) returns (Node) return (Link{rest := rest, depth := depth}) end new_node
end nodes
chain (n: int) returns (int)
  all: Node := new_end()
  for i: int in 1.to(n) do all := new_node(all, i) end
  return (all.depth())
end chain
long_list (n: int) returns (int)
  all: list[int] := list_empty[int]()
  for i: int in 1.to(n) do all := all.cons(i) end
  return (all.first() + all.length())
end long_list
main ()
  for i: int in 1.to(3) do
    print(chain(COUNT).unparse())
    print(long_list(COUNT).unparse())
  end
end main
";

/// Most nodes that a test makes; `BIFROST_NODES=10000000` for more.
fn nodes() -> usize {
    std::env::var("BIFROST_NODES").map_or(300_000, |n| n.parse().expect("a number"))
}

#[test]
fn long_chains_are_made_and_dropped() {
    let count = nodes();
    let text = CHAINS.replace("COUNT", &count.to_string());
    for mode in MODES {
        // Room for one of them and no more than a third of the next.
        let bytes = count * 5 * 8;
        let limits = limits(bytes * 5 / 4);
        let (output, stats) = run(&text, mode, limits);
        let expected = format!("{count}\n{}\n", 2 * count).repeat(3);
        assert_eq!(output, expected, "{mode:?}");
        assert!(stats.usage.allocated_bytes > 4 * bytes as u64, "{mode:?} {stats:?}");
        println!("{mode:?} {count} nodes: {stats:?}");
    }
}

#[test]
fn what_is_kept_is_limited_and_what_is_dropped_is_not() {
    // The variables of an interpreted routine hold what they last held until it returns: hence two routines.
    let text = "
garbage () returns (int)
  kept: int := 0
  for i: int in 1.to(100000) do
    a: array[int] := array_fill[int](1, 1000, i)
    if i // 100 = 0 then kept := kept + a[1] end
  end
  return (kept)
end garbage
fill ()
  all: array[array[int]] := array_new[array[int]]()
  while true do all.append(array_fill[int](1, 1000, 1)) end
end fill
main ()
  print(garbage().unparse())
  fill() except when failure (why: string): print(why) end
  print(array_fill[int](1, 100000, 7).top().unparse())
end main
";
    for mode in MODES {
        let (output, stats) = run(text, mode, limits(16 << 20));
        let expected = "50050000\nout of memory: the heap's limit of 16777216 bytes is reached\n7\n";
        assert_eq!(output, expected, "{mode:?}");
        assert!(stats.usage.allocated_bytes > 700 << 20, "{mode:?} {stats:?}");
        assert!(
            stats.usage.used_bytes <= 16 << 20 && stats.usage.held_bytes <= 18 << 20,
            "{mode:?} {stats:?}"
        );
    }
}
