//! The cache of a session: what is fetched together, and what becomes absent again without anybody noticing.

#[macro_use]
mod delegated;
mod support;

use std::sync::{Arc, Mutex};

use bifrost_cache::{Counted, Options, Prefetch, Schema};
use bifrost_engine::Mode;
use bifrost_repository::memory::Memory;
use bifrost_repository::{Changes, Commit, CommitError, Error, Fetched, ObjectSet, Oref, Repository, Tid};
use bifrost_runtime::Collect;
use bifrost_runtime::cx::Limits as CxLimits;
use bifrost_session::{Limits, Tables};
use bifrost_wire::Limit;
use support::{Client, STACK_BYTES, World, assert_text, load};

/// Its nodes cost more than 600 KB, whose texts alone are 150 KB.
const RING: &str = include_str!("ring.theta");
const COUNT: usize = 600;
const TEXT: i64 = 256;

/// What `sum` of the first node gives.
fn sum_of_ring() -> i64 {
    let friend = |i: i64| i * 7 % COUNT as i64 + 1;
    (1..=COUNT as i64).fold(0, |s, i| s * 31 % 1_000_003 + i + friend(i) + TEXT)
}

/// A repository with the ring.
struct Place {
    tables: &'static Tables,
    repository: Arc<dyn Repository>,
    collect: Collect,
}

/// A client in a world of its own.
struct Seat {
    client: Client,
    schema: Arc<Schema>,
}

fn alone() -> Prefetch {
    Prefetch { objects_max: 0, ..Prefetch::default() }
}

fn each(test: impl Fn(&Place)) {
    for mode in [Mode::Interpreted, Mode::Compiled] {
        let tables = load(RING, mode).expect("both ways are linked");
        for collect in [Collect::Checked, Collect::Zeal(97)] {
            let repository: Arc<dyn Repository> = Arc::new(Memory::new());
            World::over(tables, repository.clone(), collect).set_up();
            test(&Place { tables, repository, collect });
        }
    }
}

impl Place {
    fn seat(&self, caching: Options) -> Seat {
        self.seat_with(caching, Limits::default())
    }

    fn seat_with(&self, caching: Options, limits: Limits) -> Seat {
        let cx = CxLimits {
            stack_bytes: STACK_BYTES,
            collect: self.collect,
            transaction_objects: limits.get(Limit::TransactionObjects) as usize,
            ..CxLimits::default()
        };
        let mut world = World::over_limited(self.tables, self.repository.clone(), cx);
        world.caching = caching;
        let schema = world.schema().clone();
        let mut client = world.client_with(limits);
        // What is fetched is counted.
        client.silent = false;
        Seat { client, schema }
    }
}

impl Seat {
    #[track_caller]
    fn play(&mut self, script: &str, expected: &str) {
        let found = self.client.play(script);
        assert_text(&found, expected, script);
    }

    fn counted(&self) -> Counted {
        self.schema.counters().get()
    }

    fn bytes(&self) -> usize {
        self.client.session.cache().used().0
    }
}

/// Much less than the ring.
fn small() -> Options {
    Options { bytes_max: 16 << 10, prefetch: Prefetch { objects_max: 16, bytes_max: 4 << 10 } }
}

#[test]
fn a_graph_far_larger_than_the_cache_is_traversed_in_one_call() {
    each(|place| {
        for caching in
            [small(), Options { prefetch: alone(), ..small() }, Options { bytes_max: 1, ..small() }]
        {
            let mut seat = place.seat(caching);
            let sum = sum_of_ring();
            seat.play("r = lookup ring Node\nx = Node.sum r\nflush r x", &format!("r = Node#1.0\nx = {sum}"));
            // What was read stays while code runs, and may go afterwards.
            seat.play("c = commit\nflush c", "c = nil");
            seat.play("x = Node.sum r\nc = commit\nflush x c", &format!("x = {sum}\nc = nil"));
            seat.play("x = Node.value r\nflush x", "x = 1");
            assert!(seat.bytes() <= caching.bytes_max.max(1 << 10), "{}", seat.bytes());
            assert!(seat.counted().evicted > COUNT as u64, "{:?}", seat.counted());
        }
    });
}

#[test]
fn a_client_that_walks_keeps_handles_and_identity() {
    each(|place| {
        let mut seat = place.seat(small());
        seat.play("r = lookup ring Node\nl = lookup nodes Nodes\nflush r l", "r = Node#1.0\nl = Nodes#2.0");
        seat.play("f = Nodes.at l 8\nflush f", "f = Node#3.0");
        // A transaction that reads much more than the cache may have.
        seat.play("n = Node.next r\nflush n", "n = Node#4.0");
        for i in 3..=COUNT {
            let handle = match i {
                8 => 3,
                i if i < 8 => i + 2,
                i => i + 1,
            };
            seat.play("n = Node.next n\nflush n", &format!("n = Node#{handle}.0"));
            assert!(seat.bytes() <= 17 << 10, "{} at {i}", seat.bytes());
        }
        // Around: the same objects have the same handles, and changes are in place.
        seat.play("n = Node.next n\ng = Node.friend r\nflush n g", "n = Node#1.0\ng = Node#3.0");
        seat.play("Node.add g 1000\nx = Node.value f\ny = Node.plus f f\nflush x y", "x = 1008\ny = 2016");
        for at in [100, 300, 500] {
            seat.play(&format!("m = Nodes.at l {at}\nx = Node.value m\nflush x"), &format!("x = {at}"));
        }
        seat.play("x = Nodes.sum l\nflush x", &format!("x = {}", COUNT * (COUNT + 1) / 2 + 1000));
        seat.play("c = commit\nx = Node.value f\nflush c x", "c = nil\nx = 1008");
        let mut other = place.seat(small());
        other.play("r = lookup ring Node\nf = Node.friend r\nx = Node.value f\nflush x", "x = 1008");
        assert!(seat.counted().evicted > COUNT as u64, "{:?}", seat.counted());
    });
}

#[test]
fn what_was_read_and_is_gone_still_counts_as_read() {
    each(|place| {
        let (mut reader, mut writer) = (place.seat(small()), place.seat(Options::default()));
        reader.play(
            "l = lookup nodes Nodes\nn = Nodes.at l 1\nx = Node.value n\nflush l x",
            "l = Nodes#1.0\nx = 1",
        );
        for at in (2..COUNT).step_by(3) {
            reader.play(&format!("n = Nodes.at l {at}\nx = Node.value n\nflush x"), &format!("x = {at}"));
        }
        assert!(reader.counted().evicted > 100);
        writer.play("l = lookup nodes Nodes\nn = Nodes.at l 2\nNode.add n 1\nc = commit\nflush c", "c = nil");
        reader.play(
            "n = Nodes.at l 3\nNode.add n 1\nc = commit\nflush c",
            "c = absent\n-2: Conflict: another session has changed an object that the transaction has \
                read; it is aborted",
        );
        reader.play(
            "n = Nodes.at l 2\nx = Node.value n\nm = Nodes.at l 3\ny = Node.value m\nflush x y",
            "x = 3\ny = 3",
        );
    });
}

#[test]
fn neighbours_come_along() {
    each(|place| {
        let sum = sum_of_ring();
        let traverse = "r = lookup ring Node\nx = Node.sum r\nflush x";
        let mut one_by_one = place.seat(Options { prefetch: alone(), ..Options::default() });
        one_by_one.play(traverse, &format!("x = {sum}"));
        let each = one_by_one.counted();
        assert_eq!((each.ahead, each.used), (0, 0));
        assert_eq!(each.calls, each.asked);
        let mut together = place.seat(Options::default());
        together.play(traverse, &format!("x = {sum}"));
        let all = together.counted();
        assert_eq!(all.asked + all.used, each.asked, "the same objects: {all:?}");
        assert!(all.calls * 8 < each.calls, "{all:?}, {each:?}");
        assert!(all.ahead < 2 * all.used, "most of it is used: {all:?}");
    });
}

#[test]
fn neighbours_that_nobody_wants_cease_to_come() {
    each(|place| {
        // Every tenth node: neither what was created nor what was read together.
        let mut seat = place.seat(Options::default());
        seat.play("l = lookup nodes Nodes\nflush l", "l = Nodes#1.0");
        let mut before = 0;
        for round in 0..20 {
            before = seat.counted().ahead;
            for at in 0..20 {
                let i = (round * 20 + at) * 199 % COUNT + 1;
                seat.play(&format!("n = Nodes.at l {i}\nx = Node.value n\nflush x"), &format!("x = {i}"));
            }
        }
        let last = seat.counted().ahead - before;
        assert!(last <= 40, "{last} objects went along with 20: {:?}", seat.counted());
    });
}

#[test]
fn the_calls_that_wait_are_foreseen() {
    each(|place| {
        let mut seat = place.seat(Options {
            prefetch: Prefetch { objects_max: 1, ..Prefetch::default() },
            ..Options::default()
        });
        seat.play("l = lookup nodes Nodes\nflush l", "l = Nodes#1.0");
        let places: Vec<usize> = (1..=40).map(|i| i * 13).collect();
        let mut script = String::new();
        for at in &places {
            script.push_str(&format!("n{at} = Nodes.at l {at}\n"));
        }
        let names: Vec<String> = places.iter().map(|at| format!("n{at}")).collect();
        script.push_str(&format!("flush {}", names.join(" ")));
        seat.client.play(&script);
        let before = seat.counted();
        // Receivers and arguments.
        let mut script = String::new();
        for pair in names.chunks(2) {
            script.push_str(&format!("x{0} = Node.plus {0} {1}\n", pair[0], pair[1]));
        }
        script.push_str("flush xn13 xn507");
        seat.play(&script, "xn13 = 39\nxn507 = 1027");
        let after = seat.counted();
        assert_eq!(after.asked + after.used - before.asked - before.used, 40);
        assert_eq!(after.calls - before.calls, 1, "{before:?}, {after:?}");
    });
}

#[test]
fn a_transaction_has_a_limit_of_objects() {
    each(|place| {
        let mut limits = Limits::default();
        limits.set(Limit::TransactionObjects, 100);
        let mut seat = place.seat_with(Options::default(), limits);
        let text = "TooManyObjects: the transaction reads and makes more objects than it may: 100 is the limit \
                    (transaction_objects_max)";
        seat.play(
            "r = lookup ring Node\nx = Node.sum r\ny = Node.value r\nflush r x y",
            &format!("r = Node#1.0\nx = exception of -2\ny = absent\n-2: {text}"),
        );
        // What it has read counts as long as it lasts, here or not.
        seat.play("a = abort\nx = Node.value r\nc = commit\nflush x c", "x = 1\nc = nil");
        let mut limits = Limits::default();
        limits.set(Limit::TransactionObjects, 300);
        let mut seat = place.seat_with(Options { bytes_max: 4 << 10, ..small() }, limits);
        seat.play("r = lookup ring Node\nn = Node.next r\nflush r n", "r = Node#1.0\nn = Node#2.0");
        let mut told = String::new();
        for _ in 0..COUNT {
            told = seat.client.play("n = Node.next n\nflush n");
            if told.contains("TooManyObjects") {
                break;
            }
        }
        assert!(told.contains("300 is the limit"), "{told}");
        assert!(seat.counted().evicted > 100);
    });
}

#[test]
fn a_transaction_left_alone_is_aborted_and_its_client_told() {
    each(|place| {
        let mut seat = place.seat(Options::default());
        seat.play("r = lookup ring Node\nflush r", "r = Node#1.0");
        seat.play("Node.add r 5\nx = Node.value r\nflush x", "x = 6");
        assert!(seat.client.session.in_transaction());
        seat.client.session.expire(&mut seat.client.cx);
        assert!(!seat.client.session.in_transaction());
        let told = "TransactionExpired: the transaction was idle for too long; it is aborted: 60000 \
            is the limit \
                    (transaction_idle_ms_max)";
        seat.play("x = Node.value r\nc = commit\nflush x c", &format!("x = absent\nc = absent\n-1: {told}"));
        seat.play("x = Node.value r\nc = commit\nflush x c", "x = 1\nc = nil");
        // Nothing is under way, so nothing expires.
        seat.client.session.expire(&mut seat.client.cx);
        seat.play("x = Node.value r\nflush x", "x = 1");
        // In the middle of a batch, and of a structure.
        seat.client.record("Node.add r 5");
        seat.client.record("while");
        seat.client.send();
        seat.client.session.expire(&mut seat.client.cx);
        seat.play(
            "t = int.lt 1 2\ndo t\nNode.add r 1\nend_while\nc = commit\nflush c",
            &format!("c = absent\n-2: {told}"),
        );
        seat.play("x = Node.value r\nflush x", "x = 1");
    });
}

/// A chain that grows at its head.
const CHAIN: &str = "
Link = type   number () returns (int)   next () returns (Link) signals (last) end Link
Chain = type   grow (n: int)   length () returns (int)   last (n: int) returns (int) end Chain
module chains exports new_chain
  First = class implements Link
    number () returns (int) return (0) end number
    next () returns (Link) signals (last) signal last end next
  end First
  L = class implements Link
    number: int
    behind: Link
    text: string
    next () returns (Link) signals (last) return (behind) end next
  end L
  C = class implements Chain
    head: Link
    length: int
    grow (n: int)
      for i: int in 1.to(n) do
        length := length + 1
        head := L{number := length, behind := head, text := \"link \" || length.unparse()}
      end
    end grow
    last (n: int) returns (int)
      l: Link := head
      for i: int in 1.to(n) do l := l.next() except when last: break end end
      return (l.number())
    end last
  end C
  remote new_chain () returns (Chain) return (C{head := First{}, length := 0}) end new_chain
end chains
setup ()
  root().insert(\"chain\", new_chain())
end setup
";

#[test]
fn a_session_that_makes_objects_for_ever_keeps_no_more_than_its_cache() {
    const HEAP_BYTES: usize = 4 << 20;
    const ROUNDS: i64 = 60;
    for mode in [Mode::Interpreted, Mode::Compiled] {
        let tables = load(CHAIN, mode).expect("both ways are linked");
        let repository: Arc<dyn Repository> = Arc::new(Memory::new());
        World::over(tables, repository.clone(), Collect::Ordinary).set_up();
        let limits = CxLimits {
            stack_bytes: STACK_BYTES,
            heap_bytes: HEAP_BYTES,
            batch_heap_bytes: HEAP_BYTES / 2,
            ..CxLimits::default()
        };
        let mut world = World::over_limited(tables, repository, limits);
        world.caching = Options { bytes_max: 256 << 10, ..Options::default() };
        let mut client = world.client();
        client.play("c = lookup chain Chain\n flush c");
        for round in 1..=ROUNDS {
            let told = client.play("Chain.grow c 1000\n d = commit\n n = Chain.length c\n flush d n");
            assert_text(&told, &format!("d = nil\n n = {}", round * 1000), "");
            let cached = client.session.cache().used().0;
            assert!(cached <= 256 << 10, "{cached} bytes of objects");
        }
        // What was made absent is there again when it is wanted.
        let told = client.play("l = Chain.last c 5000\n flush l");
        assert_text(&told, &format!("l = {}", ROUNDS * 1000 - 5000), "");
        client.cx.collect();
        let live = client.cx.heap_stats().usage.live_bytes;
        assert!(live < 2 << 20, "{live} bytes live");
    }
}

/// A repository that has lost an object, and notes what is asked for.
struct Lossy {
    inner: Arc<Memory>,
    lost: Option<Oref>,
    asked: Mutex<Vec<Vec<Oref>>>,
}

impl Repository for Lossy {
    fn fetch(&self, orefs: &[Oref]) -> Result<Fetched, Error> {
        self.asked.lock().unwrap().push(orefs.to_vec());
        match self.lost.filter(|lost| orefs.contains(lost)) {
            Some(oref) => Err(Error::Object { oref, what: "its state is corrupted" }),
            None => self.inner.fetch(orefs),
        }
    }

    fn changes(&self, after: Tid, among: &dyn ObjectSet) -> Changes {
        self.inner.changes(after, among)
    }

    fn commit(&self, commit: Commit<'_>) -> Result<Tid, CommitError> {
        self.inner.commit(commit)
    }

    delegated! { inner }
}

#[test]
fn a_neighbour_that_is_lost_is_told_only_when_it_is_asked_for() {
    let tables = load(RING, Mode::Interpreted).expect("it is linked");
    let inner = Arc::new(Memory::new());
    World::over(tables, inner.clone(), Collect::Checked).set_up();
    let play = |lost: Option<Oref>| {
        let lossy = Arc::new(Lossy { inner: inner.clone(), lost, asked: Mutex::default() });
        let place = Place { tables, repository: lossy.clone(), collect: Collect::Checked };
        let mut seat = place.seat(Options::default());
        let found = seat.client.play("r = lookup ring Node\nn = Node.next r\nx = Node.value n\nflush x");
        let asked = lossy.asked.lock().unwrap().clone();
        (found, asked)
    };
    let (sound, asked) = play(None);
    let wanted: Vec<Oref> = asked.iter().map(|orefs| orefs[0]).collect();
    let neighbour = asked.iter().flatten().find(|oref| !wanted.contains(oref)).expect("some come along");
    let (found, asked) = play(Some(*neighbour));
    assert_eq!(found, sound);
    assert!(asked.iter().any(|orefs| orefs.contains(neighbour)));
    let (found, _) = play(Some(*wanted.last().unwrap()));
    assert_ne!(found, sound);
}
