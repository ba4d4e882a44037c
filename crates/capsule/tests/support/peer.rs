//! A node with a peer whose packets are changed on their way: whatever comes, the run ends, the
//! heap stays whole, and a peer that sends what none sends that behaves is lost.

mod change;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bifrost_actors::{Names, Observer, Packets, Placement, Received, Wait, step_node};
use bifrost_engine::{Engine, Mode};
use bifrost_runtime::Cx;
use bifrost_theta::{Options, Sources, compile};

use change::{Changes, limits, on_a_deep_stack};

const PROGRAM: &str = "Sums = actor
  sum: int  seen: array[string]
  new (start: int) make {sum := start, seen := array_new[string]()} end new
  add (n: int, text: string) returns (int) signals (odd (string, int))
    if n // 2 = 1 then signal odd(text, n) end
    sum := sum + n
    seen.append(text)
    reply (sum)
  end add
  of (rest: sequence[Sums], d: replier[int])
    for other: Sums in rest.elements() do send other.add(2, \"more\") end
    d.deliver(sum)
  end of
  all (keys: map[string, int], numbers: list[int], really: bool, sign: char) returns (map[string, int])
    sum := sum + keys.length() + numbers.length()
    keys[\"one more\"] := sum
    reply (clone keys)
  end all
  child (n: int) returns (Sums) reply (Sums.new(n) on 0) end child
  ask (other: Sums) returns (int) reply (other.add(8, \"asked\")) end ask
  gone (text: string, why: string) seen.append(text || why) end gone
  look_at (other: Sums) returns (int)
    n: int := monitor(other, send self.gone(\"watched\"))
    m: int := monitor(other, send self.gone(\"not\"))
    if cancel(m) then reply (1) else reply (0) end
  end look_at
  leave () returns (int)
    stop()
    reply (0)
  end leave
end Sums
main () returns (int)
  here: Sums := Sums.new(1)
  there: Sums := Sums.new(2) on 1
  second: Sums := Sums.new(3) on 1
  send there.add(4, \"b\")
  send here.add(4, \"c\")
  x: int := there.add(2, \"a text that is longer than what is written where it is referred to\")
  begin
    w: int := there.add(3, \"odd\")
    x := x + w
  end except when odd (text: string, n: int): x := x + n end
  keys: map[string, int] := map_new[string, int]()
  for i: int in 1.to(9) do keys[i.unparse()] := i end
  keys := there.all(clone keys, list_of(.. 1, 2, 3), true, 'x')
  child: Sums := there.child(7)
  y: int := child.add(2, \"born\")
  z: int := second.ask(child) + there.ask(here)
  leaves: Sums := Sums.new(3)
  z := z + there.look_at(leaves) - 1
  z := z + leaves.leave()
  n: int := monitor(second, send here.gone(\"second\"))
  m: int := monitor(there, send here.gone(\"there\"))
  if cancel(m) then z := z + second.leave() end
  return (x + y + z + keys.length())
end main";

/// The result of `main` if nothing is changed.
const RESULT: u64 = 60;

fn engine() -> &'static Arc<Engine> {
    static ENGINE: OnceLock<Arc<Engine>> = OnceLock::new();
    ENGINE.get_or_init(|| {
        let mut sources = Sources::new();
        sources.add("peer.theta", PROGRAM);
        let compiled = compile(&sources, &Options::default());
        let program = compiled.program.unwrap_or_else(|| panic!("{:?}", compiled.diagnostics));
        Engine::new(program, Mode::Interpreted).expect("an engine")
    })
}

/// Steps of the peer and looks of the node, at most: a run is much shorter.
const STEPS_MAX: u32 = 10_000;

/// The packets between the two nodes.
#[derive(Default)]
struct Wire {
    to_peer: VecDeque<Vec<u8>>,
    to_node: VecDeque<Vec<u8>>,
    changes: Changes,
    /// The batch of the peer when it has no other.
    last: Vec<u8>,
    distrusted: bool,
    told: bool,
    steps: u32,
}

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Wire>>);

impl Shared {
    fn wire(&self) -> MutexGuard<'_, Wire> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The way of the node to its peer, which takes its steps here.
struct Ours {
    shared: Shared,
    /// The address of the peer's context.
    peer: usize,
}

impl Ours {
    fn lost() -> Range<u32> {
        1..2
    }

    /// What comes, with what is changed of it.
    fn take(&self) -> Option<Received> {
        let mut wire = self.shared.wire();
        wire.steps += 1;
        if wire.distrusted || wire.steps > STEPS_MAX {
            return (!std::mem::replace(&mut wire.told, true)).then(|| Received::Lost(Ours::lost()));
        }
        let batch = wire.to_node.pop_front()?;
        let batch = wire.changes.change(&batch);
        Some(Received::Packets(1, batch))
    }
}

impl Packets for Ours {
    fn post(&mut self, _node: u32, packets: Vec<u8>) {
        self.shared.wire().to_peer.push_back(packets);
    }

    fn receive(&mut self, wait: Wait) -> Received {
        loop {
            if let Some(received) = self.take() {
                return received;
            }
            if wait == Wait::No {
                return Received::Nothing;
            }
            if self.shared.wire().told {
                return Received::Over;
            }
            let mut stepped = false;
            // SAFETY: the context lives as long as the run, on this thread, and nothing runs in it.
            while step_node(unsafe { &mut *(self.peer as *mut Cx) }) == Ok(true) {
                stepped = true;
                self.shared.wire().steps += 1;
                if self.shared.wire().steps > STEPS_MAX {
                    break;
                }
            }
            let mut wire = self.shared.wire();
            if !stepped && wire.to_node.is_empty() {
                // What is left is a batch.
                let mut batch = std::mem::take(&mut wire.last);
                batch.extend(std::mem::take(&mut wire.changes.data));
                if batch.is_empty() {
                    return Received::Over;
                }
                wire.changes.changed = true;
                return Received::Packets(1, batch);
            }
        }
    }

    fn has_mail(&mut self) -> bool {
        !self.shared.wire().to_node.is_empty()
    }

    fn distrust(&mut self, node: u32, _why: &str) -> bool {
        assert_eq!(node, 1);
        self.shared.wire().distrusted = true;
        true
    }
}

impl Placement for Ours {
    fn claim_idle_node(&mut self) -> Option<u32> {
        None
    }

    fn is_idle(&mut self, _node: u32) -> bool {
        false
    }
}

impl Names for Ours {}

impl Observer for Ours {}

/// The way of the peer to the node.
struct Theirs(Shared);

impl Packets for Theirs {
    fn post(&mut self, _node: u32, packets: Vec<u8>) {
        self.0.wire().to_node.push_back(packets);
    }

    fn receive(&mut self, _wait: Wait) -> Received {
        let packets = self.0.wire().to_peer.pop_front();
        packets.map_or(Received::Nothing, |packets| Received::Packets(0, packets))
    }

    fn has_mail(&mut self) -> bool {
        !self.0.wire().to_peer.is_empty()
    }

    fn distrust(&mut self, _node: u32, why: &str) -> bool {
        panic!("the node has sent what none sends: {why}")
    }
}

impl Placement for Theirs {
    fn claim_idle_node(&mut self) -> Option<u32> {
        None
    }

    fn is_idle(&mut self, _node: u32) -> bool {
        true
    }
}

impl Names for Theirs {}

impl Observer for Theirs {}

/// The outcome of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ended {
    /// True if `main` returned; its result is compared if nothing was changed.
    pub returned: bool,
    /// True if a packet was changed.
    pub changed: bool,
    /// True if the peer was lost because of its packets.
    pub lost: bool,
}

/// Runs `main` while `data` decides what is changed of what the peer sends.
pub fn capsule_peer(data: &[u8]) -> Ended {
    peer_that_ends_with(data, Vec::new())
}

/// The same with a batch that the peer sends when it has nothing else to say.
pub fn peer_that_ends_with(data: &[u8], last: Vec<u8>) -> Ended {
    let data = data.to_vec();
    on_a_deep_stack(move || run(&data, last))
}

fn run(data: &[u8], last: Vec<u8>) -> Ended {
    let engine = engine();
    let limits = limits();
    let shared = Shared::default();
    shared.wire().changes.data = data.iter().copied().collect();
    shared.wire().last = last;
    let mut contexts = [0, 1].map(|node| {
        let mut cx = Cx::new(engine.image().clone(), limits, 1, || 0);
        cx.set_node(node, 2);
        cx
    });
    let [node, peer] = &mut contexts;
    bifrost_actors::set_network(peer, Box::new(Theirs(shared.clone())), 2);
    peer.begin();
    let peer_at = std::ptr::from_mut::<Cx>(peer) as usize;
    bifrost_actors::set_network(node, Box::new(Ours { shared: shared.clone(), peer: peer_at }), 2);
    let main = engine.find_entry("main", 0).expect("it has `main`");
    // SAFETY: the context runs this engine's image, and `main` takes nothing.
    let ended = unsafe { engine.call(node, main, &[]) };
    peer.leave();
    // What came is in the heap, and must be whole.
    node.collect();
    let wire = shared.wire();
    assert!(wire.steps <= STEPS_MAX + 1, "the run does not end");
    wire.changes.check(&ended, RESULT);
    Ended { returned: ended.is_ok(), changed: wire.changes.changed, lost: wire.distrusted }
}
