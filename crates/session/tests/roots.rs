//! The root directory as an object of clients, and the routines that clients see.

mod support;

use std::sync::Arc;

use bifrost_repository::Repository;
use bifrost_repository::memory::Memory;
use bifrost_session::{Policy, RootNames};
use bifrost_wire::{Arg, RoutineNumber, Value, encode};
use support::{Client, World, assert_text, load};

const TEXT: &str = "
counter = type   value () returns (int)   add (n: int) end counter
module counters exports new_counter, unmarked, migrate_C_2
  C = class implements counter
    value: int
    add (n: int) value := value + n end add
  end C
  remote new_counter () returns (counter) return (C{value := 0}) end new_counter
  unmarked () returns (counter) return (C{value := 7}) end unmarked
  migrate_C (value: int, old: int) returns (C) root().remove(\"a\") except when not_found: end return (C{value := value}) end migrate_C
  migrate_C_2 () returns (C) root().remove(\"a\") except when not_found: end return (C{value := 0}) end migrate_C_2
end counters
drop_all () root().remove(\"a\") except when not_found: end end drop_all
remote name_it (name: string, c: counter) root().insert(name, c) end name_it
setup ()
  root().insert(\"a\", new_counter())
  root().insert(\"b\", new_counter())
end setup
";

/// Clients over one repository, in each way to run the program.
fn each(count: usize, test: impl Fn(&mut [Client])) {
    for run in support::modes() {
        for collect in support::collections() {
            let tables = load(TEXT, run).expect("all ways are linked");
            let repository: Arc<dyn Repository> = Arc::new(Memory::new());
            World::over(tables, repository.clone(), collect).set_up();
            let client = || {
                let mut client = World::over(tables, repository.clone(), collect).client();
                client.session.set_policy(Policy::of_all(RootNames::ReadWrite));
                client
            };
            test(&mut (0..count).map(|_| client()).collect::<Vec<_>>());
        }
    }
}

#[track_caller]
fn play(client: &mut Client, script: &str, expected: &str) {
    let found = client.play(script);
    assert_text(&found, expected, script);
}

/// All names with their types, from a loop over the root directory.
const LIST: &str = "
    r = root()
    t = rows string string
    foreach
    n, k = directory.list r
    emit t n k
    end_foreach
    flush t";

#[test]
fn the_root_directory_is_an_object_of_clients() {
    each(2, |clients| {
        let [one, other] = clients else { unreachable!() };
        play(one, LIST, "t = rows (\"a\", \"counter\") (\"b\", \"counter\")");
        play(
            one,
            "r = root()\nc = new_counter()\ncounter.add c 3\ndirectory.insert r \"c\" c\ndirectory.remove r \"a\"\n\
             x = directory.lookup r \"c\"\ny = as x counter\nv = counter.value y\nn = directory.lookup r \"none\"\n\
             flush v n",
            "v = 3\nn = exception of -9\n-9: not_found",
        );
        // Nobody else sees it before the commit.
        play(other, LIST, "t = rows (\"a\", \"counter\") (\"b\", \"counter\")");
        play(one, "clear_history\nk = commit\nflush k", "k = nil");
        play(other, "z = abort\nflush z", "z = nil");
        play(other, LIST, "t = rows (\"b\", \"counter\") (\"c\", \"counter\")");
        play(
            other,
            "a = lookup a counter\nflush a",
            "a = exception of -1\n-1: NoSuchName: there is no well-known object `a`",
        );
    });
}

#[test]
fn an_abort_undoes_names() {
    each(1, |clients| {
        let client = &mut clients[0];
        play(
            client,
            "r = root()\ndirectory.remove r \"a\"\ndirectory.insert r \"n\" \"five\"\nz = abort\nflush z",
            "z = nil",
        );
        play(client, LIST, "t = rows (\"a\", \"counter\") (\"b\", \"counter\")");
    });
}

#[test]
fn the_directory_is_the_unit_of_change() {
    each(3, |clients| {
        let [one, other, third] = clients else { unreachable!() };
        let name =
            |name: &str| format!("r = root()\nc = new_counter()\ndirectory.insert r \"{name}\" c\nflush");
        play(one, &name("one"), "done");
        play(other, &name("other"), "done");
        // An object that was not looked up by name in this transaction is another one.
        play(third, "a = lookup a counter\nk = commit\nflush a k", "a = counter#1.0\nk = nil");
        play(third, "counter.add a 1\nflush", "done");
        play(one, "k = commit\nflush k", "k = nil");
        let found = other.play("k = commit\nflush k");
        assert!(found.contains("Conflict"), "{found}");
        play(third, "k = commit\nflush k", "k = nil");
        // A name that was looked up is one that was read.
        play(third, "a = lookup a counter\ncounter.add a 1\nflush a", "a = counter#1.0");
        play(other, &(name("other") + "\nk = commit\nflush k"), "done\nk = nil");
        let found = third.play("k = commit\nflush k");
        assert!(found.contains("Conflict"), "{found}");
    });
}

#[test]
fn names_are_read_only_where_the_policy_says_so() {
    const REFUSED: &str = "NotAllowed: the names of the root directory are read-only for this session";
    each(1, |clients| {
        let client = &mut clients[0];
        client.session.set_policy(Policy::of_all(RootNames::ReadOnly));
        play(client, LIST, "t = rows (\"a\", \"counter\") (\"b\", \"counter\")");
        play(
            client,
            "r = root()\nc = new_counter()\ndirectory.insert r \"c\" c\ndirectory.remove r \"a\"\n\
             x = directory.lookup r \"a\"\nflush",
            &format!("-3: {REFUSED}\n-4: {REFUSED}"),
        );
        // In a structure, and in a procedure.
        let found =
            client.play("r = root()\ny = const true\nif\nthen y\ndirectory.remove r \"a\"\nend_if\nflush");
        assert!(found.contains(REFUSED), "{found}");
        let found = client.play("r = root()\nflush r");
        assert!(found.contains("directory#"), "{found}");
        let found =
            client.play("procedure drop\ndirectory.remove r \"a\"\nend_procedure\np = proc 0\nflush p");
        assert!(found.contains(REFUSED) && found.contains("NoSuchProcedure"), "{found}");
        play(client, LIST, "t = rows (\"a\", \"counter\") (\"b\", \"counter\")");
        // What the program does for a client is the program's own.
        play(
            client,
            "clear_history\nz = abort\nc = new_counter()\nname_it() \"mine\" c\nk = commit\nflush k",
            "k = nil",
        );
        play(client, LIST, "t = rows (\"a\", \"counter\") (\"b\", \"counter\") (\"mine\", \"counter\")");
    });
}

#[test]
fn clients_see_what_is_marked() {
    for run in support::modes() {
        let Some(tables) = load(TEXT, run) else { continue };
        let interface = tables.numbering().interface();
        let mut names: Vec<&str> = interface.routines.iter().map(|routine| routine.name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(names, ["name_it", "new_counter", "root"]);
    }
}

#[test]
fn no_number_runs_what_is_not_marked() {
    each(1, |clients| {
        let client = &mut clients[0];
        let count = client.numbering.interface().routines.len() as u32;
        assert_eq!(count, 3);
        let numbers: Vec<u32> = (count..count + 20).chain([u32::MAX, u32::MAX - 1, 1 << 31]).collect();
        let mut calls = 0;
        for number in &numbers {
            for arguments in [&[][..], &[Value::Int(1).into()], &[Value::Int(1).into(), Value::Int(2).into()]]
            {
                let arguments: &[Arg<'_>] = arguments;
                encode::call_routine(&mut client.bytes, RoutineNumber(*number), arguments);
                calls += 1;
            }
        }
        encode::flush(&mut client.bytes, [], false);
        let found = client.send();
        assert_eq!(found.matches("NoSuchRoutine").count(), calls, "{found}");
        client.next = 1;
        play(client, "clear_history\nflush", "done");
        play(client, LIST, "t = rows (\"a\", \"counter\") (\"b\", \"counter\")");
    });
}
