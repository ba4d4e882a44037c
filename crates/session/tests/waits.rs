//! `wait`: the objects that a transaction has read are watched, and no others; no change is missed; nothing runs meanwhile.

mod support;

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bifrost_cache::Options;
use bifrost_engine::Mode;
use bifrost_repository::memory::Memory;
use bifrost_repository::{Repository, Watcher, store};
use bifrost_runtime::Collect;
use bifrost_session::Limits;
use bifrost_wire::{Limit, Ref, encode};
use support::{Client, World, assert_text, load};

const COUNTERS: &str = "
counter = type   value () returns (int)   add (n: int) returns (int)   end counter
module counters exports new_counter
  C = class implements counter
    value: int
    add (n: int) returns (int)
      value := value + n
      return (value)
    end add
  end C
  remote new_counter () returns (counter) return (C{value := 0}) end new_counter
end counters
setup ()
  root().insert(\"a\", new_counter())
  root().insert(\"b\", new_counter())
end setup
";

thread_local! {
    static NOW_MS: Cell<u64> = const { Cell::new(0) };
}

fn now_ns() -> u64 {
    NOW_MS.get() * 1_000_000
}

/// Counts how often a session was woken.
#[derive(Default)]
struct Bell(AtomicUsize);

impl Watcher for Bell {
    fn changed(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A client whose session may rest.
struct Seat {
    client: Client,
    bell: Arc<Bell>,
    /// Bytes that the session has not taken.
    rest: Vec<u8>,
}

impl Seat {
    /// Sends a script, and tells the answers that come before the session rests, and after.
    fn play(&mut self, script: &str) -> String {
        script.lines().for_each(|line| self.record(line));
        let bytes = std::mem::take(&mut self.client.bytes);
        self.rest.extend(bytes);
        self.go_on()
    }

    /// Records a line: `w = wait 1000`, or a command that the client knows.
    fn record(&mut self, line: &str) {
        let Some((name, ms)) = line.split_once(" = wait ") else { return self.client.record(line) };
        encode::wait(&mut self.client.bytes, ms.parse().expect("a number of milliseconds"));
        self.client.names.insert(name.to_owned(), Ref::future(self.client.next));
        self.client.next += 1;
    }

    /// The replies of the session when it is handled again.
    fn go_on(&mut self) -> String {
        let client = &mut self.client;
        let used = client.handle(&self.rest);
        self.rest.drain(..used);
        let output = client.session.output().to_vec();
        client.session.clear_output();
        client.tell(&output)
    }

    #[track_caller]
    fn expect(&mut self, script: &str, expected: &str) {
        let found = self.play(script);
        assert_text(&found, expected, script);
        assert!(!self.client.session.is_waiting(), "{script}");
    }

    /// Sends a script that ends in a rest.
    #[track_caller]
    fn rests(&mut self, script: &str) {
        assert_text(&self.play(script), "", script);
        assert!(self.client.session.is_waiting(), "{script}");
    }

    /// The rest is over.
    #[track_caller]
    fn wakes(&mut self, expected: &str) {
        assert_text(&self.go_on(), expected, "after the rest");
        assert!(!self.client.session.is_waiting());
    }

    fn rung(&self) -> usize {
        self.bell.0.load(Ordering::Relaxed)
    }
}

/// Clients over one repository: one that watches, and one that changes.
fn each(options: store::Options, caching: Options, limits: Limits, test: impl Fn(&mut Seat, &mut Seat)) {
    for mode in [Mode::Interpreted, Mode::Compiled] {
        for collect in [Collect::Checked, Collect::Zeal(1)] {
            NOW_MS.set(0);
            let tables = load(COUNTERS, mode).expect("all ways are linked");
            let repository: Arc<dyn Repository> = Arc::new(Memory::with_options(options.clone()));
            World::over(tables, repository.clone(), collect).set_up();
            let seat = || {
                let mut world = World::over(tables, repository.clone(), collect);
                world.caching = caching;
                let mut client = world.client_with(limits);
                client.cx.set_clock(now_ns);
                let bell = Arc::new(Bell::default());
                client.session.set_waker(bell.clone());
                Seat { client, bell, rest: Vec::new() }
            };
            test(&mut seat(), &mut seat());
            assert_eq!(repository.check(&mut |_| {}).unwrap().mistakes, vec![]);
        }
    }
}

fn usual(test: impl Fn(&mut Seat, &mut Seat)) {
    each(
        store::Options { installing: store::Installing::AtOnce, ..store::Options::default() },
        Options::default(),
        Limits::default(),
        test,
    );
}

const READ_A: &str = "a = lookup a\nx = counter.value a\nflush a x";
const ADD_A: &str = "a = lookup a\nx = counter.add a 1\nc = commit\nflush a x c";

#[test]
fn a_change_by_another_session_ends_the_wait() {
    usual(|watcher, writer| {
        watcher.expect(READ_A, "a = counter#1.0\nx = 0");
        watcher.rests("w = wait 1000\nx = counter.value a\nflush w x");
        // Nothing is missed, and nothing runs early.
        assert_eq!((watcher.rung(), watcher.play("")), (0, String::new()));
        writer.expect(ADD_A, "a = counter#1.0\nx = 1\nc = nil");
        assert_eq!(watcher.rung(), 1);
        // What follows is of the next transaction.
        watcher.wakes("w = true\nx = 1");
        watcher.expect("y = counter.add a 1\nc = commit\nflush y c", "y = 2\nc = nil");
    });
}

#[test]
fn a_change_between_the_read_and_the_wait_is_not_missed() {
    usual(|watcher, writer| {
        watcher.expect(READ_A, "a = counter#1.0\nx = 0");
        writer.expect(ADD_A, "a = counter#1.0\nx = 1\nc = nil");
        watcher.expect("w = wait 1000\nx = counter.value a\nflush w x", "w = true\nx = 1");
        // Also with a wait that lasts no time, and only once.
        writer.expect("x = counter.add a 1\nc = commit\nflush x c", "x = 2\nc = nil");
        watcher.expect("w = wait 0\nv = wait 0\nflush w v", "w = true\nv = false");
        assert_eq!(watcher.rung(), 0);
    });
}

#[test]
fn other_objects_wake_nobody() {
    usual(|watcher, writer| {
        watcher.expect(READ_A, "a = counter#1.0\nx = 0");
        watcher.rests("w = wait 1000\nflush w");
        for n in 1..4 {
            let script = "b = lookup b\nx = counter.add b 1\nc = commit\nflush x c";
            writer.expect(script, &format!("x = {n}\nc = nil"));
        }
        assert_eq!((watcher.rung(), watcher.go_on()), (0, String::new()));
        assert!(watcher.client.session.is_waiting());
        NOW_MS.set(1000);
        watcher.wakes("w = false");
    });
}

#[test]
fn after_its_time_the_transaction_goes_on() {
    usual(|watcher, writer| {
        watcher.expect(READ_A, "a = counter#1.0\nx = 0");
        watcher.rests("w = wait 1000\nflush w");
        NOW_MS.set(400);
        assert_eq!(watcher.go_on(), "");
        assert_eq!(watcher.client.session.pause(), Some(Duration::from_millis(600)));
        NOW_MS.set(1000);
        watcher.wakes("w = false");
        // It has read the object still.
        watcher.rests("w = wait 1000\nflush w");
        writer.expect(ADD_A, "a = counter#1.0\nx = 1\nc = nil");
        assert_eq!(watcher.rung(), 1);
        watcher.wakes("w = true");
        // The next one has read nothing.
        watcher.rests("w = wait 1000\nflush w");
        writer.expect("x = counter.add a 1\nc = commit\nflush x c", "x = 2\nc = nil");
        assert_eq!(watcher.rung(), 1);
        NOW_MS.set(2000);
        watcher.wakes("w = false");
    });
}

#[test]
fn a_transaction_with_changes_does_not_wait() {
    const REFUSED: &str =
        "InTransaction: the transaction has changed something: commit or abort it before `wait`";
    usual(|watcher, writer| {
        watcher.expect(
            "a = lookup a\nx = counter.add a 1\nw = wait 1000\ny = counter.value a\nflush a x w y",
            &format!("a = counter#1.0\nx = 1\nw = exception of -3\ny = absent\n-3: {REFUSED}"),
        );
        // The changes are there; the refusal prevents their commit until it was seen.
        watcher.expect("clear_history\nc = commit\nw = wait 0\nflush c w", "c = nil\nw = false");
        writer.expect(READ_A, "a = counter#1.0\nx = 1");
    });
}

#[test]
fn it_stands_in_no_structure_and_in_no_batch_that_is_a_transaction() {
    usual(|watcher, _| {
        let said = watcher.play("k = cell bool\nif\nt = const true\nthen t\nw = wait 10\nend_if\nflush k");
        assert!(said.contains("OpenStructure"), "{said}");
        let said = watcher.play("t = transaction\na = lookup a\nw = wait 10\nflush t");
        assert!(said.contains("InTransaction"), "{said}");
        assert!(!watcher.client.session.is_waiting());
    });
}

#[test]
fn no_wait_is_longer_than_the_limit() {
    let mut limits = Limits::default();
    limits.set(Limit::WaitMs, 50);
    each(store::Options::default(), Options::default(), limits, |watcher, _| {
        watcher.expect(READ_A, "a = counter#1.0\nx = 0");
        watcher.rests(&format!("w = wait {}\nflush w", u32::MAX));
        assert_eq!(watcher.client.session.pause(), Some(Duration::from_millis(50)));
        NOW_MS.set(50);
        watcher.wakes("w = false");
    });
    assert_eq!(Limit::WaitMs.default_value(), 60_000);
}

#[test]
fn a_client_that_sends_nothing_more_waits_no_more() {
    usual(|watcher, _| {
        watcher.expect(READ_A, "a = counter#1.0\nx = 0");
        watcher.rests("w = wait 1000\nv = wait 1000\nx = counter.value a\nflush w v x");
        watcher.client.session.wait_no_more();
        watcher.wakes("w = false\nv = false\nx = 0");
    });
}

#[test]
fn objects_that_were_evicted_count_as_read() {
    let tiny = Options { bytes_max: 1, ..Options::default() };
    each(store::Options::default(), tiny, Limits::default(), |watcher, writer| {
        watcher.expect(READ_A, "a = counter#1.0\nx = 0");
        watcher.client.session.cache().trim(&mut watcher.client.cx);
        assert_eq!(watcher.client.session.cache().used(), (0, 0), "nothing is here any more");
        watcher.rests("w = wait 1000\nflush w");
        writer.expect(ADD_A, "a = counter#1.0\nx = 1\nc = nil");
        assert_eq!(watcher.rung(), 1);
        watcher.wakes("w = true");
    });
}

#[test]
fn forgotten_changes_are_changes() {
    // The repository remembers the objects of one commit only.
    let options = store::Options { changes_kept: 2, ..store::Options::default() };
    each(options, Options::default(), Limits::default(), |watcher, writer| {
        watcher.expect(READ_A, "a = counter#1.0\nx = 0");
        let change = "b = lookup b\nx = counter.add b 1\nc = commit\nflush c";
        (0..3).for_each(|_| writer.expect(change, "c = nil"));
        watcher.expect("w = wait 1000\nflush w", "w = true");
    });
}

#[test]
fn a_session_without_a_waker_does_not_rest() {
    usual(|watcher, writer| {
        watcher.client.session.wait_no_more();
        watcher.expect(READ_A, "a = counter#1.0\nx = 0");
        watcher.expect("w = wait 1000\nflush w", "w = false");
        writer.expect(ADD_A, "a = counter#1.0\nx = 1\nc = nil");
        watcher.expect("w = wait 1000\nflush w", "w = true");
    });
}
