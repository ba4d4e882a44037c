//! Batches that are transactions of their own, while others get in between.

#[macro_use]
mod delegated;
mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bifrost_engine::Mode;
use bifrost_repository::memory::Memory;
use bifrost_repository::record::{Kind, Reader};
use bifrost_repository::{Changes, Commit, CommitError, Error, Fetched, ObjectSet, Oref, Repository, Tid};
use bifrost_runtime::Collect;
use bifrost_wire::Limit;
use bytes::Bytes;
use support::{Client, World, assert_text, load};

const COUNTERS: &str = "
counter = type   value () returns (int)   add (n: int) returns (int) signals (too_many)   name () returns (string) end counter
module counters exports new_counter
  C = class implements counter
    value: int
    add (n: int) returns (int) signals (too_many)
      if value + n > 100 then signal too_many end
      value := value + n
      return (value)
    end add
    name () returns (string)
      long: string := \"0123456789abcdef\"
      for i: int in 1.to(13) do long := long || long end
      return (long)
    end name
  end C
  remote new_counter () returns (counter) return (C{value := 0}) end new_counter
end counters
setup ()
  root().insert(\"a\", new_counter())
end setup
";

/// A repository whose objects somebody else writes just before a commit, so many times.
struct Contended {
    inner: Memory,
    rivals: AtomicU32,
}

impl Contended {
    fn write_all(&self) {
        let classes = self.inner.classes();
        let all = self.inner.scan(Oref::ROOT, 1000).unwrap();
        let objects = all.into_iter().filter(|(_, stored)| {
            let (_, number) = Reader::new(&stored.bytes).unwrap();
            matches!(classes[number.0 as usize - 1].kind, Kind::Object(_))
        });
        let writes: Vec<(Oref, Bytes)> = objects.map(|(oref, stored)| (oref, stored.bytes)).collect();
        let reads: std::collections::BTreeSet<Oref> = writes.iter().map(|(oref, _)| *oref).collect();
        let commit =
            Commit { valid_to: self.inner.head(), reads: &reads, writes, creates: Vec::new(), batch: None };
        self.inner.commit(commit).unwrap();
    }
}

impl Repository for Contended {
    fn commit(&self, commit: Commit<'_>) -> Result<Tid, CommitError> {
        let left = self.rivals.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        if left.is_ok() {
            self.write_all();
        }
        self.inner.commit(commit)
    }

    fn fetch(&self, orefs: &[Oref]) -> Result<Fetched, Error> {
        self.inner.fetch(orefs)
    }

    fn changes(&self, after: Tid, among: &dyn ObjectSet) -> Changes {
        self.inner.changes(after, among)
    }

    delegated! { inner }
}

/// Clients over one repository.
struct Site {
    clients: Vec<Client>,
    repository: Arc<Contended>,
}

impl Site {
    fn each(clients: usize, test: impl Fn(&mut Site)) {
        for (mode, collect, split) in [
            (Mode::Interpreted, Collect::Checked, None),
            (Mode::Compiled, Collect::Checked, Some(1)),
            (Mode::Compiled, Collect::Zeal(1), Some(7)),
        ] {
            let tables = load(COUNTERS, mode).expect("both ways are linked");
            let repository = Arc::new(Contended { inner: Memory::new(), rivals: AtomicU32::new(0) });
            World::over(tables, repository.clone(), collect).set_up();
            let client = |_| {
                let mut world = World::over(tables, repository.clone(), collect);
                let mut client = world.client();
                client.split = split;
                client
            };
            test(&mut Site { clients: (0..clients).map(client).collect(), repository: repository.clone() });
            assert_eq!(repository.check(&mut |_| {}).unwrap().mistakes, vec![]);
        }
    }

    /// Somebody gets in between of the next commits.
    fn contend(&self, commits: u32) {
        self.repository.rivals.store(commits, Ordering::SeqCst);
    }

    #[track_caller]
    fn play(&mut self, client: usize, script: &str, expected: &str) {
        let found = self.clients[client].play(script);
        assert_text(&found, expected, script);
    }

    fn pauses(&mut self, client: usize) -> u32 {
        std::mem::take(&mut self.clients[client].pauses)
    }
}

#[test]
fn the_profile_of_a_batch_that_is_run_again_has_the_commands_of_its_last_run() {
    Site::each(1, |site| {
        site.play(0, "profile on\na = lookup a\nflush a", "a = counter#1.0");
        site.contend(2);
        let script = "t = transaction\nx = counter.add a 5\nconst 1\ny = counter.value a\nflush t y";
        site.play(0, script, "t = nil\ny = 5");
        let client = &mut site.clients[0];
        let (of_batch, of_lookup) = (client.profiles.pop().unwrap().unwrap(), client.profiles.pop().unwrap());
        assert_eq!(of_lookup.unwrap().totals.runs, 1);
        assert_eq!(of_batch.totals.runs, 3);
        let calls: Vec<_> = of_batch.entries.iter().map(|entry| (entry.call, entry.cost.calls)).collect();
        assert_eq!(calls, [(2, 1), (4, 1)]);
        assert_eq!(of_batch.rest, None);
        // The object was fetched again for the runs behind the conflicts.
        assert!(of_batch.totals.fetches >= 2, "{of_batch:?}");
        // A stored reply has no profile.
        let named = "t = transaction 0 batch 9\nx = counter.add a 1\nflush t x";
        site.play(0, named, "t = nil\nx = 6");
        site.play(0, named, "t = nil\nx = 6");
        let client = &mut site.clients[0];
        assert_eq!(client.profiles.pop(), Some(None));
        assert!(client.profiles.pop().unwrap().is_some());
        // The next batch is measured anew.
        site.play(0, "x = counter.value a\nflush x", "x = 6");
        let next = site.clients[0].profiles.pop().unwrap().unwrap();
        assert_eq!((next.totals.runs, next.entries.len()), (1, 1));
    });
}

#[test]
fn a_batch_is_committed_as_it_ends() {
    Site::each(2, |site| {
        site.play(
            0,
            "t = transaction\na = lookup a\nx = counter.add a 5\nflush t a x",
            "t = nil\na = counter#1.0\nx = 5",
        );
        assert_eq!(site.pauses(0), 0);
        site.play(1, "a = lookup a\nx = counter.value a\nflush x", "x = 5");
        // The next batch is as any other.
        site.play(0, "x = counter.add a 1\nz = abort\ny = counter.value a\nflush y", "y = 5");
    });
}

#[test]
fn it_runs_again_while_others_get_in_between() {
    Site::each(2, |site| {
        site.contend(3);
        // What is defined and given back in it is defined and given back once.
        site.play(0, "a = lookup a\nflush a", "a = counter#1.0");
        site.play(
            0,
            "
            t = transaction
            n = procedure twice int -> int
              m = int.add n n
              return m
            end_procedure
            b = lookup a
            x = counter.add b 5
            y = proc 0 21
            free a
            flush t x y",
            "t = nil\nx = 5\ny = 42",
        );
        assert_eq!(site.pauses(0), 3);
        site.play(
            0,
            "b = lookup a\ny = proc 0 4\nx = counter.value b\nflush x y b",
            "x = 5\ny = 8\nb = counter#1.1",
        );
        site.play(1, "a = lookup a\nx = counter.value a\nflush x", "x = 5");
    });
}

#[test]
fn it_runs_no_more_often_than_it_may() {
    Site::each(2, |site| {
        let lost = "-1: Conflict: another session has changed a `counter`, which the transaction has read; the transaction is aborted";
        site.contend(100);
        site.play(
            0,
            "t = transaction 3\na = lookup a\nx = counter.add a 5\nflush t",
            &format!("t = exception of -1\n{lost}"),
        );
        assert_eq!(site.pauses(0), 2);
        site.play(
            0,
            "t = transaction\na = lookup a\nx = counter.add a 5\nflush t",
            &format!("t = exception of -1\n{lost}"),
        );
        assert_eq!(u64::from(site.pauses(0)), Limit::Tries.default_value() - 1);
        site.contend(0);
        site.play(1, "a = lookup a\nx = counter.value a\nflush x", "x = 0");
    });
}

#[test]
fn an_exception_aborts_it_and_one_that_is_handled_does_not() {
    Site::each(1, |site| {
        site.play(
            0,
            "t = transaction\na = lookup a\nx = counter.add a 5\ny = counter.add a 1000\nflush t x",
            "
            t = exception of -1
            x = 5
            -4: too_many
            -1: Unseen: exceptions were neither read nor cleared; the transaction is aborted",
        );
        assert_eq!(site.pauses(0), 0);
        site.play(
            0,
            "
            t = transaction
            a = lookup a
            x = counter.add a 5
            except
              y = counter.add a 1000
            others
            end_except
            flush t x",
            "t = nil\nx = 5",
        );
    });
}

#[test]
fn what_is_not_of_it_is_refused_and_nothing_is_run() {
    const REFUSED: &str = "InTransaction: this command is not allowed in the middle of a transaction";
    Site::each(1, |site| {
        for command in ["c = commit", "c = abort", "c = transaction"] {
            site.play(
                0,
                &format!("t = transaction\na = lookup a\nx = counter.add a 5\n{command}\nflush t x"),
                &format!("t = exception of -2\nx = absent\n-2: {REFUSED}"),
            );
        }
        site.play(
            0,
            "t = transaction\na = lookup a\nx = counter.add a 5\nwhile\nflush t x",
            "
            t = exception of -4
            x = 5
            -4: MissingEnd: the batch ended inside the condition of a WHILE: its end marker is missing",
        );
        site.play(0, "a = lookup a\nx = counter.value a\nflush x a", "x = 0\na = counter#1.0");
        // Procedures keep the numbers that the client gave them.
        site.play(
            0,
            "t = transaction\nprocedure one -> int\n return 1\nend_procedure\nc = commit\nflush t",
            &format!("t = exception of -2\n-2: {REFUSED}"),
        );
        site.play(0, "procedure two -> int\n return 2\nend_procedure\nx = proc 1\nflush x", "x = 2");
    });
}

#[test]
fn it_begins_where_nothing_is_under_way() {
    Site::each(1, |site| {
        site.play(
            0,
            "a = lookup a\nt = transaction\nx = counter.add a 5\nflush a t x",
            "
            a = counter#1.0
            t = exception of -2
            x = absent
            -2: InTransaction: `transaction` must be the first command of a batch, before calls",
        );
        // Nor does what was not run, nor what only asks.
        site.play(
            0,
            "history",
            "history 1, -2: InTransaction: `transaction` must be the first command of a batch, before calls",
        );
        // Having read does not matter, having changed does.
        site.play(0, "x = counter.value a\nflush x", "x = 0");
        site.play(0, "t = transaction\nx = counter.add a 5\nflush t x", "t = nil\nx = 5");
        site.play(0, "x = counter.add a 5\nflush x", "x = 10");
        site.play(
            0,
            "t = transaction\nx = counter.add a 5\nflush t x",
            "
            t = exception of -1
            x = absent
            -1: InTransaction: a transaction is under way that has changed something, or failed where nobody has looked: commit or abort it first",
        );
        site.play(0, "c = commit\nx = counter.value a\nflush c x", "c = nil\nx = 10");
    });
}

#[test]
fn a_named_batch_is_done_once() {
    Site::each(2, |site| {
        let batch = "t = transaction 9 batch 4\na = lookup a\nx = counter.add a 5\nflush t a x";
        site.contend(2);
        site.play(0, batch, "t = nil\na = counter#1.0\nx = 5");
        assert_eq!(site.pauses(0), 2);
        // Its objects belong to the session that was told of them.
        let again = "t = nil\na = exception of -2\nx = 5\n-2: Repeated: the batch was carried out before, and handles of its objects are not sent again";
        site.play(0, batch, again);
        site.play(1, batch, again);
        site.play(1, "a = lookup a\nx = counter.value a\nflush x", "x = 5");
        site.play(
            1,
            "t = transaction 1 batch 3\nflush t",
            "t = exception of -1\n-1: Repeated: the batch was committed before: the reply of that batch is no longer stored; the last batch of the session is 4",
        );
        site.play(
            1,
            "t = transaction 1 batch 5\na = lookup a\nx = counter.add a 5\nl = counter.name a\nflush t l",
            "t = exception of -1\nl = a string of 131072 bytes\n-1: ReplyTooLong: the reply of a batch with a number has at most 65536 bytes",
        );
        site.play(1, "a = lookup a\nx = counter.value a\nflush x", "x = 5");
    });
}

#[test]
fn the_table_of_a_named_batch_is_stored() {
    Site::each(2, |site| {
        let batch = "t = transaction 9 batch 4\na = lookup a\nr = rows int string\nx = counter.add a 5\ny = emit r x \"five\"\no = rows counter\nz = emit o a\nflush t r o";
        site.contend(1);
        site.play(0, batch, "t = nil\nr = rows (5, \"five\")\no = rows (counter#1.0)");
        let again = "t = nil\nr = rows (5, \"five\")\no = exception of -6\n-6: Repeated: the batch was carried out before, and handles of its objects are not sent again";
        site.play(0, batch, again);
        site.play(1, batch, again);
    });
}

#[test]
fn limits_hold_in_it() {
    Site::each(1, |site| {
        let many = "x = const 1\n".repeat(Limit::BatchCommands.default_value() as usize);
        let found = {
            let client = &mut site.clients[0];
            client.split = None;
            client.play(&format!("t = transaction\n{many}flush t"))
        };
        assert!(found.contains("TooManyCommands"), "{found}");
        site.play(0, "t = transaction\na = lookup a\nx = counter.add a 5\nflush t x", "t = nil\nx = 5");
    });
}
