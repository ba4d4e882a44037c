//! Profiles: the time of a batch, and the cost of each of its commands, fetches included.

mod support;

use std::cell::Cell;
use std::sync::Arc;

use bifrost_cache::{Options, Prefetch, Schema};
use bifrost_engine::Mode;
use bifrost_repository::memory::Memory;
use bifrost_repository::{Repository, Watcher};
use bifrost_runtime::Collect;
use bifrost_session::Limits;
use bifrost_wire::profile::{Cost, Subject};
use bifrost_wire::{Limit, OwnedProfile, Ref, encode};
use support::{Client, World, each_mode, load};

const RING: &str = include_str!("ring.theta");

thread_local! {
    static NOW: Cell<u64> = const { Cell::new(0) };
}

/// A clock that goes on by a microsecond whenever it is read.
fn ticking() -> u64 {
    NOW.set(NOW.get() + 1_000);
    NOW.get()
}

/// Plays a script, and returns the profile of its last batch.
#[track_caller]
fn profile(client: &mut Client, script: &str) -> OwnedProfile {
    client.play(script);
    client.profiles.pop().expect("a batch").expect("a profile")
}

/// Returns the subject, the position and the calls of each entry.
fn subjects(profile: &OwnedProfile) -> Vec<(Subject, u32, u32)> {
    profile.entries.iter().map(|entry| (entry.subject, entry.call, entry.cost.calls)).collect()
}

use Subject::{Command, Structure};

/// Clients that fetch from a repository with 600 nodes.
fn each(prefetch: Prefetch, test: impl Fn(&mut Client, &Arc<Schema>)) {
    for mode in [Mode::Interpreted, Mode::Compiled] {
        let tables = load(RING, mode).expect("both ways are linked");
        let repository: Arc<dyn Repository> = Arc::new(Memory::new());
        World::over(tables, repository.clone(), Collect::Checked).set_up();
        let mut world = World::over(tables, repository, Collect::Checked);
        world.caching = Options { prefetch, ..Options::default() };
        let mut client = world.client();
        client.cx.set_clock(ticking);
        test(&mut client, world.schema());
    }
}

#[test]
fn fetches_are_those_of_the_commands_that_made_them() {
    let alone = Prefetch { objects_max: 0, ..Prefetch::default() };
    each(alone, |client, schema| {
        let calls = || schema.counters().get().calls;
        let before = (calls(), client.session.cache().fetched());
        let script = "profile on\nr = lookup ring Node\nn = Node.next r\nv = Node.value r\nflush r n v";
        let cold = profile(client, script);
        let fetched = (calls() - before.0, client.session.cache().fetched() - before.1);
        assert_eq!((u64::from(cold.totals.fetches), u64::from(cold.totals.objects)), fetched);
        assert_eq!(subjects(&cold), [(Command, 1, 0), (Command, 2, 1), (Command, 3, 1)]);
        let [lookup, next, value] = &*cold.entries else { panic!("{cold:?}") };
        // The directory and its parts; the node; nothing, since the node is here.
        assert!(lookup.cost.fetches > 0, "{cold:?}");
        assert_eq!((next.cost.fetches, next.cost.objects), (1, 1));
        assert_eq!((value.cost.fetches, value.cost.objects, value.cost.fuel), (0, 0, 1));
        let sum: u32 = cold.entries.iter().map(|entry| entry.cost.fetches).sum();
        assert_eq!(sum, cold.totals.fetches);
        // What is here is not fetched again.
        let warm = profile(client, "v = Node.value r\nflush v");
        assert_eq!((warm.totals.fetches, warm.totals.objects), (0, 0));
    });
    // Objects that come along count as objects, and not as requests.
    each(Prefetch::default(), |client, schema| {
        client.play("profile on\nr = lookup ring Node\nflush r");
        let (calls, objects) = (schema.counters().get().calls, client.session.cache().fetched());
        let sum = profile(client, "s = Node.sum r\nflush s");
        let (calls, objects) =
            (schema.counters().get().calls - calls, client.session.cache().fetched() - objects);
        let cost = sum.entries[0].cost;
        assert_eq!((u64::from(cost.fetches), u64::from(cost.objects)), (calls, objects));
        assert!(objects > calls && calls > 1, "{sum:?}");
        assert_eq!((sum.totals.fetches, sum.totals.objects), (cost.fetches, cost.objects));
    });
}

#[test]
fn calls_whose_receivers_are_absent_are_foreseen_as_without_a_profile() {
    let fetches = |on: &str| {
        let made = Cell::new(0);
        each(Prefetch::default(), |client, schema| {
            let handles =
                "r = lookup ring Node\na = Node.friend r\nb = Node.friend a\nc = Node.friend b\nflush a b c";
            client.play(handles);
            client.session.let_go(&mut client.cx);
            let before = schema.counters().get().calls;
            client.play(&format!(
                "profile {on}\nx = Node.value a\ny = Node.value b\nz = Node.value c\nflush x y z"
            ));
            made.set(made.get() + schema.counters().get().calls - before);
        });
        made.get()
    };
    assert_eq!(fetches("on"), fetches("off"));
}

#[test]
fn commands_and_structures_have_an_entry_each() {
    each_mode(|world| {
        let mut client = world.client();
        client.cx.set_clock(ticking);
        let script = "
            profile on
            t = new_tally()
            const 5
            c = cell int
            cell[int].put c 0
            n = const 1
            foreach
            i = int.to n 3
            Tally.bump t
            end_foreach
            except
            Tally.bump t
            when negative
            end_except
            procedure twice Tally
            end_procedure
            v = Tally.value t
            Tally.nothing v
            is t Tally
            flush v";
        // A method that is none, so that a refused call is among them.
        let script = script.replace("Tally.nothing v", "#4000000000 t");
        let told = client.play(&script);
        let of_batch = client.profiles.pop().expect("a batch").expect("a profile");
        let found = subjects(&of_batch);
        // 2 and 5 are constants, 3 is a cell.
        let expected = [
            (Command, 1, 1),
            (Command, 4, 1),
            (Structure, 6, 4),
            (Structure, 8, 1),
            (Structure, 9, 0),
            (Command, 10, 1),
            (Command, 11, 0),
            (Command, 12, 1),
        ];
        assert_eq!(found, expected, "{told}");
        assert_eq!((of_batch.totals.runs, of_batch.rest), (1, None));
        let (mut sum, mut fuel) = (0, 0);
        for entry in &of_batch.entries {
            assert!(entry.cost.nanoseconds >= 1_000, "{entry:?}");
            sum += entry.cost.nanoseconds;
            fuel += entry.cost.fuel;
        }
        assert!(sum < of_batch.totals.nanoseconds, "{of_batch:?}");
        assert!(fuel >= 8, "{of_batch:?}");
    });
}

#[test]
fn the_batch_is_measured_from_its_begin_to_its_end_and_not_while_bytes_are_missing() {
    each_mode(|world| {
        let mut client = world.client();
        client.cx.set_clock(ticking);
        client.play("profile on\nt = new_tally()\nflush t");
        let quick = profile(&mut client, "Tally.bump t\nTally.bump t\nflush");
        client.record_all("Tally.bump t");
        client.send();
        NOW.set(NOW.get() + 1_000_000_000);
        let slow = profile(&mut client, "Tally.bump t\nflush");
        assert!(slow.totals.nanoseconds < 2 * quick.totals.nanoseconds, "{slow:?} {quick:?}");
        assert_eq!(slow.entries.len(), 2);
        // From the middle of a batch on.
        client.play("profile off\nTally.bump t\nflush");
        assert_eq!(client.profiles.pop(), Some(None));
        let half =
            profile(&mut client, "Tally.bump t\nprofile on\nTally.bump t\nprofile on\nTally.bump t\nflush");
        assert_eq!(subjects(&half), [(Command, 2, 1), (Command, 3, 1)]);
        client.play("Tally.bump t\nprofile off\nTally.bump t\nflush");
        assert_eq!(client.profiles.pop(), Some(None));
    });
}

#[test]
fn a_session_that_asks_for_none_has_replies_as_ever() {
    each_mode(|world| {
        let replies = |world: &mut World, before: &str, flag: u8| {
            let mut client = world.client();
            client.record_all(before);
            client.record_all("t = new_tally()\nTally.bump t\nflush t");
            let bytes = std::mem::take(&mut client.bytes);
            client.handle(&bytes);
            let mut output = client.session.output().to_vec();
            assert_eq!(output[1], flag);
            // Without the flag, the lengths, and the profile.
            (output[1], output[8]) = (0, 0);
            output.truncate(48);
            output
        };
        let plain = replies(world, "", 0);
        assert_eq!(replies(world, "profile on", 1), plain);
        assert_eq!(replies(world, "profile on\nprofile off", 0), plain);
    });
}

#[test]
fn entries_beyond_the_limit_are_added_up() {
    each_mode(|world| {
        for limit in [0, 1, 3, 5, 6] {
            let mut limits = Limits::default();
            limits.set(Limit::ProfileEntries, limit);
            let mut client = world.client_with(limits);
            client.cx.set_clock(ticking);
            let script =
                "profile on\nt = new_tally()\nTally.bump t\nTally.bump t\nTally.bump t\nTally.bump t\nflush";
            let of_batch = profile(&mut client, script);
            let listed = limit.min(5) as u32;
            let all = [1, 2, 3, 4, 5].map(|call| (Command, call, 1));
            assert_eq!(subjects(&of_batch), all[..listed as usize]);
            match of_batch.rest {
                None => assert_eq!(listed, 5),
                Some(rest) => {
                    let Cost { nanoseconds, calls, fuel, fetches, objects } = rest.cost;
                    let omitted = 5 - listed;
                    assert_eq!((rest.omitted, calls, fuel), (omitted, omitted, omitted));
                    assert!(omitted > 0 && nanoseconds >= 1_000 * u64::from(omitted));
                    assert_eq!((fetches, objects), (0, 0));
                }
            }
            // The next batch begins anew.
            let next = profile(&mut client, "t = new_tally()\nflush");
            assert_eq!(next.entries.len() as u64 + u64::from(next.rest.map_or(0, |r| r.omitted)), 1);
        }
    });
}

#[test]
fn a_profile_keeps_within_the_bytes_of_a_reply() {
    each_mode(|world| {
        // A reply without outcomes has 32 bytes, a profile 32, each entry and the rest 32.
        for (bytes, listed, omitted) in
            [(32 + 32 + 160, 5, 0), (32 + 32 + 159, 3, 2), (32 + 32 + 64, 1, 4), (32 + 32 + 32, 0, 5)]
        {
            let mut limits = Limits::default();
            limits.set(Limit::ReplyBytes, bytes);
            let mut client = world.client_with(limits);
            let script =
                "profile on\nt = new_tally()\nTally.bump t\nTally.bump t\nTally.bump t\nTally.bump t\nflush";
            let of_batch = profile(&mut client, script);
            let rest = of_batch.rest.map_or(0, |rest| rest.omitted);
            assert_eq!((of_batch.entries.len(), rest), (listed, omitted), "{bytes} bytes");
        }
        let mut limits = Limits::default();
        limits.set(Limit::ReplyBytes, 32 + 32 + 31);
        let mut client = world.client_with(limits);
        client.play("profile on\nt = new_tally()\nflush\nflush");
        // The second one has no entries.
        assert!(matches!(&client.profiles[..], [None, Some(of_batch)] if of_batch.entries.is_empty()));
    });
}

#[test]
fn profile_is_refused_in_structures_and_transactions_and_executed_behind_an_end() {
    each_mode(|world| {
        let mut client = world.client();
        client.play("t = new_tally()\nflush t");
        let told = client.play("except\nTally.bump t\nprofile on\nend_except\nx = Tally.value t\nflush x");
        assert!(told.contains("x = absent") && told.contains("OpenStructure"), "{told}");
        assert_eq!(client.profiles.pop(), Some(None));
        let told = client.play("d = transaction\nTally.bump t\nprofile on\nflush d");
        assert!(told.contains("InTransaction"), "{told}");
        // It has ended the batch, and is executed behind it.
        let after = client.profiles.pop().unwrap().expect("a profile");
        assert!(after.entries.is_empty(), "{after:?}");
        client.play("profile off\nflush");
        // An unmatched marker ends the batch.
        client.play("Tally.bump t\nend_while\nTally.bump t\nprofile on\nTally.bump t\nflush");
        assert_eq!(client.profiles.pop().unwrap().expect("a profile").entries.len(), 0);
        let ended = profile(&mut client, "Tally.bump t\nend_while\nTally.bump t\nflush");
        assert_eq!(subjects(&ended), [(Command, 1, 1)]);
    });
}

#[test]
fn a_wait_has_the_time_that_it_lasted() {
    struct Bell;
    impl Watcher for Bell {
        fn changed(&self) {}
    }
    each_mode(|world| {
        let mut client = world.client();
        client.cx.set_clock(ticking);
        client.session.set_waker(Arc::new(Bell));
        client.play("profile on\nt = new_tally()\nflush t");
        client.record_all("Tally.value t");
        encode::wait(&mut client.bytes, 20);
        client.names.insert("w".to_owned(), Ref::future(2));
        client.next = 3;
        client.record_all("v = Tally.value t\nflush w v");
        let bytes = std::mem::take(&mut client.bytes);
        let used = client.handle(&bytes);
        assert!(client.session.is_waiting());
        NOW.set(NOW.get() + 20_000_000);
        client.handle(&bytes[used..]);
        let output = client.session.output().to_vec();
        client.session.clear_output();
        let told = client.tell(&output);
        assert!(told.contains("w = false"), "{told}");
        let of_batch = client.profiles.pop().unwrap().expect("a profile");
        assert_eq!(subjects(&of_batch), [(Command, 1, 1), (Command, 2, 0), (Command, 3, 1)]);
        let waited = of_batch.entries[1].cost.nanoseconds;
        assert!((20_000_000..20_100_000).contains(&waited), "{of_batch:?}");
        assert!(of_batch.totals.nanoseconds > waited, "{of_batch:?}");
    });
}
