//! Transactions of sessions over one repository.

mod support;

use std::sync::Arc;

use bifrost_cache::{Options, Prefetch};
use bifrost_engine::Mode;
use bifrost_repository::Repository;
use bifrost_repository::memory::Memory;
use bifrost_runtime::Collect;
use support::{Client, WORLD, World, assert_text, load};

const STORABLE: &str = "
counter = type   value () returns (int)   add (n: int) returns (int) signals (too_many)   hold (a: any) end counter
module counters exports new_counter
  C = class implements counter
    value: int   held: any
    add (n: int) returns (int) signals (too_many)
      if value + n > 100 then signal too_many end
      value := value + n
      return (value)
    end add
    hold (a: any) held := a end hold
  end C
  remote new_counter () returns (counter) return (C{value := 0, held := 0}) end new_counter
end counters
setup ()
  root().insert(\"a\", new_counter())
  root().insert(\"b\", new_counter())
end setup
";

/// Clients over one repository.
struct Site {
    clients: Vec<Client>,
}

impl Site {
    fn each(text: &str, count: usize, test: impl Fn(&mut Site)) {
        Site::each_cached(text, count, Options::default(), test);
    }

    fn each_cached(text: &str, count: usize, caching: Options, test: impl Fn(&mut Site)) {
        for run in support::modes() {
            for collect in [Collect::Checked, Collect::Zeal(1)] {
                let tables = load(text, run).expect("all ways are linked");
                let repository: Arc<dyn Repository> = Arc::new(Memory::new());
                World::over(tables, repository.clone(), collect).set_up();
                let client = || {
                    let mut world = World::over(tables, repository.clone(), collect);
                    world.caching = caching;
                    let mut client = world.client();
                    // A session that fetches again what it has read learns of a conflict sooner.
                    client.silent = false;
                    client
                };
                test(&mut Site { clients: (0..count).map(|_| client()).collect() });
                assert_eq!(repository.check(&mut |_| {}).unwrap().mistakes, vec![]);
            }
        }
    }

    #[track_caller]
    fn play(&mut self, client: usize, script: &str, expected: &str) {
        let found = self.clients[client].play(script);
        assert_text(&found, expected, script);
    }
}

const LOST: &str = "-2: Conflict: another session has changed `counter` (handle h1), which the transaction has read; the transaction is aborted";

#[test]
fn what_is_committed_is_seen_by_others_and_nothing_else() {
    Site::each(STORABLE, 2, |site| {
        site.play(0, "a = lookup a\nx = counter.add a 5\nflush a x", "a = counter#1.0\nx = 5");
        site.play(1, "a = lookup a\nx = counter.value a\nflush a x", "a = counter#1.0\nx = 0");
        site.play(0, "c = commit\nflush c", "c = nil");
        // The second has read what has changed since.
        site.play(
            1,
            "x = counter.add a 1\nc = commit\nflush x c",
            &format!("x = 1\nc = exception of -2\n{LOST}"),
        );
        site.play(1, "x = counter.add a 1\nc = commit\nflush x c", "x = 6\nc = nil");
        site.play(0, "x = counter.value a\nflush x", "x = 6");
    });
}

#[test]
fn an_abort_takes_back_what_was_done() {
    Site::each(STORABLE, 1, |site| {
        site.play(
            0,
            "a = lookup a\nx = counter.add a 5\nz = abort\ny = counter.add a 7\nflush a x y z",
            "
            a = counter#1.0
            x = 5
            y = 7
            z = nil",
        );
        site.play(0, "k = cell int\ncell[int].put k 3\nc = commit\ncell[int].put k 4\nz = abort\nx = cell[int].get k\nflush x", "x = 3");
    });
}

#[test]
fn what_an_aborted_transaction_made_is_undone() {
    const HANDLE: &str = "NoSuchHandle: the object of handle h2 was made in a transaction that was aborted";
    const FUTURE: &str = "NoSuchHandle: the object was made in a transaction that was aborted";
    Site::each(STORABLE, 2, |site| {
        site.play(0, "k = cell int\ncell[int].put k 3\nc = commit\nflush k", "k = cell[int]#1.0");
        site.play(
            0,
            "n = new_counter()\nx = counter.add n 3\nm = new_counter()\nz = abort\ny = counter.value n\nw = counter.value m\nflush n m x y w",
            &format!(
                "n = exception of -1\nm = exception of -3\nx = 3\ny = exception of -5\nw = exception of -6\n\
                 -5: {FUTURE}\n-6: {FUTURE}\n-1: {FUTURE}\n-3: {FUTURE}"
            ),
        );
        site.play(
            0,
            "clear_history\nn = new_counter()\nx = counter.add n 3\nflush n x",
            "n = counter#2.0\nx = 3",
        );
        // What was there before is as it was then, and what was made is not there.
        site.play(
            0,
            "cell[int].put k 4\nz = abort\nx = cell[int].get k\ny = counter.value n\na = lookup a\nv = counter.hold a n\nflush x y v",
            &format!("x = 3\ny = exception of -4\nv = exception of -6\n-4: {HANDLE}\n-6: {HANDLE}"),
        );
        site.play(0, "free n\ny = counter.value n\nflush y", "y = exception of -1\n-1: NoSuchHandle: handle h2 is not a handle of this session, or it was freed");
        // The same when others were faster.
        site.play(
            0,
            "clear_history\na = lookup a\nn = new_counter()\nv = counter.value a\nflush a n v",
            "a = counter#2.1\nn = counter#3.0\nv = 0",
        );
        site.play(1, "a = lookup a\nx = counter.add a 5\nc = commit\nflush c", "c = nil");
        site.play(
            0,
            "c = commit\nflush c",
            &format!("c = exception of -1\n{}", LOST.replace("-2", "-1").replace("h1", "h4294967298")),
        );
        let gone = HANDLE.replace("h2", "h3");
        site.play(0, "v = counter.value n\nflush v", &format!("v = exception of -1\n-1: {gone}"));
    });
}

#[test]
fn the_other_ways_to_what_is_undone_end_too() {
    Site::each(STORABLE, 1, |site| {
        // A procedure that uses it, and what never changes and has it inside.
        site.play(
            0,
            "n = new_counter()\nprocedure one -> int\nv = counter.add n 1\nreturn v\nend_procedure\nx = proc 0\nz = abort\ny = proc 0\nflush x y",
            "x = 1\ny = exception of -5\n-5: NoSuchProcedure: batched procedure number 0 uses an object that was made in a transaction that was aborted",
        );
    });
}

#[test]
fn the_history_has_what_the_batch_under_way_has_failed_with() {
    Site::each(STORABLE, 1, |site| {
        site.play(
            0,
            "a = lookup a\nx = counter.add a 5\ny = counter.add a 500\nhistory\nc = commit\nflush x c",
            "history 1, -3: too_many\nx = 5\nc = nil\n-3: too_many",
        );
        site.play(0, "history\nflush", "history 1, -3: too_many\ndone");
        // What is cleared before the `flush` is told by that, and by no history.
        site.play(
            0,
            "clear_history\na = lookup a\ny = counter.add a 500\nclear_history\nw = counter.add a 600\nhistory\nc = commit\nflush c",
            "history 3, -3: too_many\nc = nil\n-2: too_many\n-3: too_many",
        );
        site.play(0, "history\nflush", "history 3, -3: too_many\ndone");
    });
}

#[test]
fn nothing_behind_a_commit_that_fails_is_run() {
    Site::each(STORABLE, 2, |site| {
        site.play(0, "a = lookup a\nx = counter.value a\nflush a x", "a = counter#1.0\nx = 0");
        site.play(1, "a = lookup a\nx = counter.add a 5\nc = commit\nflush c", "c = nil");
        site.play(
            0,
            "x = counter.add a 1\nc = commit\ny = counter.add a 1\nflush x c y",
            &format!("x = 1\nc = exception of -2\ny = absent\n{LOST}"),
        );
        site.play(0, "x = counter.value a\nflush x", "x = 5");
    });
}

#[test]
fn what_a_transaction_sees_is_from_one_moment() {
    let prefetch = Prefetch { objects_max: 0, ..Prefetch::default() };
    Site::each_cached(STORABLE, 2, Options { prefetch, ..Options::default() }, |site| {
        site.play(0, "a = lookup a\nx = counter.value a\nflush a x", "a = counter#1.0\nx = 0");
        let both =
            "a = lookup a\nb = lookup b\nx = counter.add a 5\ny = counter.add b 5\nc = commit\nflush c";
        site.play(1, both, "c = nil");
        // The new `b` does not go with the old `a` that was read.
        let found = format!("b = counter#2.0\nx = exception of -2\ny = absent\n{LOST}");
        site.play(0, "b = lookup b\nx = counter.value b\ny = counter.value a\nflush b x y", &found);
        site.play(
            0,
            "x = counter.add b 1\ny = counter.value a\nc = commit\nflush x y c",
            "x = 6\ny = 5\nc = nil",
        );
    });
}

#[test]
fn what_came_along_is_of_the_moment_of_the_rest() {
    Site::each(STORABLE, 2, |site| {
        site.play(0, "a = lookup a\nx = counter.value a\nflush a x", "a = counter#1.0\nx = 0");
        let both =
            "a = lookup a\nb = lookup b\nx = counter.add a 5\ny = counter.add b 5\nc = commit\nflush c";
        site.play(1, both, "c = nil");
        // The old `b` came along with the old `a`; the transaction can read, but not commit.
        let found = "b = counter#2.0\nx = 0\ny = 0";
        site.play(0, "b = lookup b\nx = counter.value b\ny = counter.value a\nflush b x y", found);
        site.play(0, "c = commit\nflush c", &format!("c = exception of -1\n{}", LOST.replace("-2", "-1")));
        site.play(0, "x = counter.value b\ny = counter.value a\nflush x y", "x = 5\ny = 5");
    });
    Site::each(STORABLE, 2, |site| {
        site.play(0, "a = lookup a\nx = counter.value a\nc = commit\nflush a x", "a = counter#1.0\nx = 0");
        site.play(1, "b = lookup b\nx = counter.add b 5\nc = commit\nflush c", "c = nil");
        // What came along and was changed before it was asked for is not used.
        site.play(0, "b = lookup b\nx = counter.value b\nflush x", "x = 5");
    });
}

#[test]
fn exceptions_not_looked_at_prevent_the_commit() {
    Site::each(STORABLE, 1, |site| {
        site.play(
            0,
            "a = lookup a\nx = counter.add a 5\ny = counter.add a 500\nc = commit\nflush a c",
            "
            a = counter#1.0
            c = exception of -4
            -3: too_many
            -4: Unseen: exceptions were neither read nor cleared; the transaction is aborted",
        );
        site.play(0, "x = counter.value a\nflush x", "x = 0");
        site.play(
            0,
            "x = counter.add a 5\ny = counter.add a 500\nflush x y",
            "x = 5\ny = exception of -2\n-2: too_many",
        );
        site.play(0, "clear_history\nc = commit\nx = counter.value a\nflush c x", "c = nil\nx = 5");
    });
}

#[test]
fn a_structure_is_part_of_its_transaction() {
    Site::each(STORABLE, 2, |site| {
        site.play(
            0,
            "
            a = lookup a
            b = lookup b
            while
            v = counter.value a
            t = int.lt v 50
            do t
            w = counter.add a 1
            u = counter.add b 2
            end_while
            c = commit
            flush a b c
            ",
            "a = counter#1.0\nb = counter#2.0\nc = nil",
        );
        site.play(
            1,
            "a = lookup a\nb = lookup b\nx = counter.value a\ny = counter.value b\nflush x y",
            "x = 50\ny = 100",
        );
    });
}

#[test]
fn what_others_name_becomes_persistent() {
    Site::each(STORABLE, 2, |site| {
        site.play(0, "a = lookup a\nn = new_counter()\nx = counter.add n 3\ncounter.hold a n\nm = new_counter()\ncounter.hold n m\ncounter.hold m a\nc = commit\nflush c n", "
            c = nil
            n = counter#1.0");
        site.play(0, "x = counter.add n 3\nc = commit\nflush c x", "c = nil\nx = 6");
    });
}

#[test]
fn the_world_can_be_kept() {
    Site::each(WORLD, 1, |site| site.play(0, "c = commit\nflush c", "c = nil"));
}

#[test]
fn no_change_is_lost_between_sessions() {
    const EACH: usize = 20;
    // Often, since threads seldom meet at the moments that matter.
    for mode in [Mode::Interpreted, Mode::Compiled].repeat(8) {
        let tables = load(STORABLE, mode).expect("both ways are linked");
        let repository: Arc<dyn Repository> = Arc::new(Memory::new());
        World::over(tables, repository.clone(), Collect::Checked).set_up();
        let move_some = &|from: &str, to: &str| {
            let mut world = World::over(tables, repository.clone(), Collect::Zeal(50));
            let mut client = world.client();
            client.play(&format!("f = lookup {from}\nt = lookup {to}\nflush f t"));
            let (mut done, mut tries) = (0, 0);
            while done < EACH {
                let script =
                    "x = counter.add f -1\ny = counter.add t 1\nz = int.add x y\nc = commit\nflush c";
                tries += 1;
                assert!(tries < 100_000, "somebody always gets on");
                match client.play(script).as_str() {
                    "c = nil\n" => done += 1,
                    found => assert!(found.contains("Conflict"), "{found}"),
                }
            }
        };
        std::thread::scope(|scope| {
            for (from, to) in [("a", "b"), ("b", "a"), ("a", "b"), ("a", "b")] {
                scope.spawn(move || move_some(from, to));
            }
        });
        let mut world = World::over(tables, repository, Collect::Checked);
        let found = world
            .client()
            .play("a = lookup a\nb = lookup b\nx = counter.value a\ny = counter.value b\nflush x y");
        assert_text(&found, &format!("x = -{0}\ny = {0}", 2 * EACH), "none is lost");
    }
}
