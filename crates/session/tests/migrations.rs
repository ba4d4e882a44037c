//! Objects whose class has changed since they were stored.

#[macro_use]
mod delegated;
mod direct;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bifrost_cache::{MIGRATIONS_MAX, NotCommitted, Options, Prefetch, SchemaError};
use bifrost_engine::{Engine, Mode};
use bifrost_repository::memory::Memory;
use bifrost_repository::record::class_of;
use bifrost_repository::{
    Changes, Commit, CommitError, Error, Fetched, ObjectSet, Oref, Repository, Tid, go_on,
};
use bifrost_runtime::Collect;
use direct::{Session, load};

/// What all versions have in common; the first changes the store.
const TYPES: &str = r#"
account = type   show () returns (string)   deposit (n: int)   partner () returns (account) signals (none) end account
the (name: string) returns (account)
  found: any := root().lookup(name) except when not_found: signal failure("there is no " || name) end
  typecase found when account (a): return (a) others: end
  signal failure("that is no account")
end the
show () print(the("ann").show()) print(the("ben").show()) end show
show_ann () print(the("ann").show()) end show_ann
deposit () the("ann").deposit(1) end deposit
"#;

const FIRST: &str = r#"
module accounts exports new_account, join
  Plain = class implements account
    owner: string   balance: int   other: account
    show () returns (string) return (owner || " has " || balance.unparse()) end show
    deposit (n: int) balance := balance + n end deposit
    partner () returns (account) signals (none) return (other) end partner
    set_other (a: account) other := a end set_other
  end Plain
  new_account (owner: string, balance: int) returns (account)
    none: account := Nobody{}
    return (Plain{owner := owner, balance := balance, other := none})
  end new_account
  join (a, b: account)
    typecase a when Plain (p): p.set_other(b) others: end
  end join
  Nobody = class implements account
    show () returns (string) return ("nobody") end show
    deposit (n: int) end deposit
    partner () returns (account) signals (none) signal none end partner
  end Nobody
end accounts
setup ()
  a: account := new_account("ann", 7)
  b: account := new_account("ben", 8)
  join(a, b)
  join(b, a)
  root().insert("ann", a)
  root().insert("ben", b)
end setup
"#;

/// Cents, and what has happened, which is an object of its own.
const SECOND: &str = r#"
module accounts exports unused
  Plain = class implements account
    other: account   cents: int   history: array[string]   owner: string
    show () returns (string) return (owner || " has " || cents.unparse() || " " || history.unparse()) end show
    deposit (n: int) history.append("deposit") cents := cents + 100 * n end deposit
    partner () returns (account) signals (none) return (other) end partner
  end Plain
  MIGRATION
  Nobody = class implements account
    show () returns (string) return ("nobody") end show
    deposit (n: int) end deposit
    partner () returns (account) signals (none) signal none end partner
  end Nobody
  unused () end unused
end accounts
"#;

const MIGRATE: &str = r#"
  % Of an account that counted whole units.
  migrate_Plain (owner: string, balance: int, other: account) returns (Plain)
    print("once " || owner)
    history: array[string] := array_new[string]()
    history.append("migrated")
    return (Plain{owner := owner, cents := 100 * balance, other := other, history := history})
  end migrate_Plain
"#;

fn second(migration: &str) -> String {
    format!("{TYPES}{}", SECOND.replace("MIGRATION", migration))
}

/// Opens sessions of a later program.
type Later<'a> = dyn Fn(&str) -> Result<Session, SchemaError> + 'a;

/// Stores the objects of the first version, and hands over what opens sessions of later ones, in all ways to run.
fn after_the_first(test: impl Fn(&Later<'_>, &Arc<dyn Repository>)) {
    for mode in [Mode::Interpreted, Mode::Compiled] {
        for collect in [Collect::Checked, Collect::Zeal(1)] {
            let repository: Arc<dyn Repository> = Arc::new(Memory::new());
            let mut session = Session::open(&load(&format!("{TYPES}{FIRST}"), mode), &repository, collect);
            assert_eq!(session.run("setup"), "");
            session.commit().unwrap();
            assert_eq!(session.run("show"), "ann has 7\nben has 8");
            let later = |text: &str| {
                let engine: Arc<Engine> = load(text, mode);
                Session::try_open(&engine, &repository, collect)
            };
            test(&later, &repository);
            assert_eq!(repository.check(&mut |_| {}).unwrap().mistakes, vec![], "{mode:?}");
        }
    }
}

#[test]
fn a_changed_class_without_a_migration_is_refused_with_what_to_write() {
    after_the_first(|later, _| {
        let refused = later(&second("")).map(drop).unwrap_err().to_string();
        assert_eq!(
            refused,
            "the class `Plain` has changed since its objects were stored: `balance` removed and `cents`, `history` added; write a \
             routine `migrate_Plain (owner: string, balance: int, other: account) returns (Plain)` beside the class, which \
             converts them, or restore the class, or use another name"
        );
        // A migration of something else does not help.
        for wrong in [
            "migrate_Plain (owner: string, balance: real, other: account) returns (Plain)",
            "migrate_Plain (owner: string, sum: int, other: account) returns (Plain)",
            "migrate_Plain (owner: string, balance: int) returns (Plain)",
            "migrate_Plains (owner: string, balance: int, other: account) returns (Plain)",
            "migrate_Plain (owner: string, balance: int, other: account) returns (account)",
        ] {
            let name = wrong.split(' ').next().unwrap();
            let text = format!("{wrong} signal failure(\"no\") end {name}");
            assert!(later(&second(&text)).is_err(), "{wrong}");
        }
    });
}

#[test]
fn objects_are_migrated_when_they_are_touched_and_once() {
    after_the_first(|later, repository| {
        let text = second(MIGRATE);
        let mut session = later(&text).unwrap();
        let mut other = later(&text).unwrap();
        assert_eq!(session.run("show_ann"), "once ann\nann has 700 [\"migrated\"]");
        assert_eq!(session.run("deposit"), "");
        session.commit().unwrap();
        // The other of the two is as it was.
        let versions: Vec<(String, u32)> = repository
            .classes()
            .iter()
            .map(|c| (c.name.clone(), c.version))
            .filter(|c| c.0 == "Plain")
            .collect();
        assert_eq!(versions, [("Plain".to_owned(), 1), ("Plain".to_owned(), 2)]);
        assert!(repository.classes().iter().any(|c| c.specification.contains("deposit (n: int)")));
        other.abort();
        assert_eq!(
            other.run("show"),
            "ann has 800 [\"migrated\", \"deposit\"]\nonce ben\nben has 800 [\"migrated\"]"
        );
        other.commit().unwrap();
        assert_eq!(
            later(&text).unwrap().run("show"),
            "ann has 800 [\"migrated\", \"deposit\"]\nben has 800 [\"migrated\"]"
        );
        // A collection leaves all of it.
        repository.collect(&mut go_on).unwrap();
        assert_eq!(later(&text).unwrap().run("show_ann"), "ann has 800 [\"migrated\", \"deposit\"]");
    });
}

#[test]
fn an_aborted_transaction_has_migrated_nothing() {
    after_the_first(|later, repository| {
        let text = second(MIGRATE);
        let head = repository.head();
        let mut session = later(&text).unwrap();
        assert_eq!(session.run("deposit"), "once ann");
        session.abort();
        assert_eq!(repository.head(), head);
        assert_eq!(session.run("show_ann"), "once ann\nann has 700 [\"migrated\"]");
        // What the migration has made is changed and stored with it.
        assert_eq!(session.run("deposit"), "");
        session.commit().unwrap();
        assert_eq!(later(&text).unwrap().run("show_ann"), "ann has 800 [\"migrated\", \"deposit\"]");
    });
}

#[test]
fn of_two_that_migrate_an_object_one_runs_again() {
    after_the_first(|later, _| {
        let text = second(MIGRATE);
        let (mut one, mut other) = (later(&text).unwrap(), later(&text).unwrap());
        assert_eq!(one.run("show_ann"), "once ann\nann has 700 [\"migrated\"]");
        assert_eq!(other.run("show_ann"), "once ann\nann has 700 [\"migrated\"]");
        one.commit().unwrap();
        assert!(matches!(other.commit(), Err(NotCommitted::Conflict(_))));
        assert_eq!(other.run("show_ann"), "ann has 700 [\"migrated\"]");
    });
}

#[test]
fn a_migration_that_fails_fails_the_call_and_loses_nothing() {
    after_the_first(|later, _| {
        let failing = r#"
          migrate_Plain (owner: string, balance: int, other: account) returns (Plain) signals (unknown)
            if balance = 7 then signal unknown end
            other.show()
            return (Plain{owner := owner, cents := balance, other := other, history := array_new[string]()})
          end migrate_Plain"#;
        let mut session = later(&second(failing)).unwrap();
        assert_eq!(
            session.run("show_ann"),
            "failure(\"the object cannot be fetched: the migration `accounts.migrate_Plain` ended with `unknown`\")"
        );
        session.abort();
        let endless = r#"
          migrate_Plain (owner: string, balance: int, other: account) returns (Plain)
            other.show()
            return (Plain{owner := owner, cents := balance, other := other, history := array_new[string]()})
          end migrate_Plain"#;
        let mut session = later(&second(endless)).unwrap();
        // Its partner's migration looks back at it.
        assert_eq!(
            session.run("show_ann"),
            "failure(\"the object cannot be fetched: the migration `accounts.migrate_Plain` ended with `failure`\")"
        );
        session.commit().unwrap();
        let mut session = later(&second(MIGRATE)).unwrap();
        assert_eq!(
            session.run("show"),
            "once ann\nann has 700 [\"migrated\"]\nonce ben\nben has 800 [\"migrated\"]"
        );
    });
}

#[test]
fn each_version_has_its_migration_and_classes_may_be_renamed() {
    after_the_first(|later, repository| {
        let mut session = later(&second(MIGRATE)).unwrap();
        assert_eq!(session.run("show_ann"), "once ann\nann has 700 [\"migrated\"]");
        session.commit().unwrap();
        let third = format!(
            "{TYPES}{}",
            r#"
module accounts exports unused
  Named = class implements account
    owner: string   other: account
    show () returns (string) return (owner) end show
    deposit (n: int) end deposit
    partner () returns (account) signals (none) return (other) end partner
  end Named
  migrate_Plain_1 (owner: string, other: account, balance: int) returns (Named)
    return (Named{owner := owner || " of old", other := other})
  end migrate_Plain_1
  migrate_Plain_2 (owner: string, cents: int, other: account, history: array[string]) returns (Named)
    return (Named{owner := owner || " with " || history.length().unparse(), other := other})
  end migrate_Plain_2
  migrate_Nobody () returns (Named)
    signal failure("nobody is anybody")
  end migrate_Nobody
  unused () end unused
end accounts"#
        );
        let mut session = later(&third).unwrap();
        assert_eq!(session.run("show"), "ann with 1\nben of old");
        session.commit().unwrap();
        assert_eq!(later(&third).unwrap().run("show"), "ann with 1\nben of old");
        assert_eq!(repository.check(&mut |_| {}).unwrap().mistakes, vec![]);
    });
}

#[test]
fn methods_and_supertypes_come_and_go() {
    after_the_first(|later, _| {
        let more = format!("{TYPES}{FIRST}")
            .replace("returns (string)   deposit", "returns (string)   more () returns (int)   deposit")
            .replace("set_other (a", "more () returns (int) return (balance) end more\n    set_other (a")
            .replace(
                "deposit (n: int) end deposit\n",
                "deposit (n: int) end deposit\n    more () returns (int) return (0) end more\n",
            )
            .replace(
                "show_ann () print(the(\"ann\").show())",
                "show_ann () print(the(\"ann\").more().unparse())",
            );
        let mut session = later(&more).unwrap();
        assert_eq!(session.run("show_ann"), "7");
        assert_eq!(session.run("deposit"), "");
        session.commit().unwrap();
        // And the program as it was goes on with it.
        let mut session = later(&format!("{TYPES}{FIRST}")).unwrap();
        assert_eq!(session.run("show"), "ann has 8\nben has 8");
    });
}

#[test]
fn an_object_that_lost_its_type_is_no_such_object() {
    after_the_first(|later, _| {
        // Accounts hold accounts, and `Nobody` is none any more.
        let less = format!("{TYPES}{FIRST}")
            .replace("Nobody = class implements account", "Nobody = class")
            .replace("none: account := Nobody{}\n", "")
            .replace(", other := none", ", other := self_of(owner)")
            .replace(
                "  join (a",
                "  self_of (owner: string) returns (account) signal failure(owner) end self_of\n  join (a",
            );
        let alone = format!("{TYPES}{FIRST}").replace("  join(b, a)\n", "").replace(
            "setup ()",
            "alone ()\n  root().insert(\"ann\", new_account(\"ann\", 1))\nend alone\nsetup ()",
        );
        let mut session = later(&alone).unwrap();
        assert_eq!(session.run("alone"), "");
        session.commit().unwrap();
        let mut session = later(&less).unwrap();
        assert_eq!(
            session.run("show"),
            "failure(\"the object cannot be fetched: expected `account`, found `Nobody`\")"
        );
    });
}

/// A repository in which others commit whenever one of some objects is fetched, as often as said.
struct Hurried {
    inner: Arc<Memory>,
    slow: Vec<Oref>,
    other: Oref,
    times: AtomicU32,
}

impl Repository for Hurried {
    fn fetch(&self, orefs: &[Oref]) -> Result<Fetched, Error> {
        let less = |times: u32| times.checked_sub(1);
        if orefs.iter().any(|oref| self.slow.contains(oref))
            && self.times.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
        {
            let state = self.inner.fetch(&[self.other])?.states.remove(0).expect("it is there");
            let (reads, writes) = (HashSet::from([self.other]), vec![(self.other, state.bytes)]);
            let commit =
                Commit { valid_to: self.inner.head(), reads: &reads, writes, creates: vec![], batch: None };
            self.inner.commit(commit).expect("nobody else commits");
        }
        self.inner.fetch(orefs)
    }

    fn changes(&self, after: Tid, among: &dyn ObjectSet) -> Changes {
        self.inner.changes(after, among)
    }

    fn commit(&self, commit: Commit<'_>) -> Result<Tid, CommitError> {
        self.inner.commit(commit)
    }

    delegated! { inner }
}

/// Each run of the migration looks at another object, and while it is fetched others commit: so often it is run again, and no oftener.
#[test]
fn migrations_that_others_get_in_between_of() {
    let setup = "setup ()
  nodes: array[account] := array_new[account]()
  for i: int in 1.to(12) do nodes.append(new_none()) end
  root().insert(\"nodes\", nodes)
  tries: array[int] := array_new[int]()
  root().insert(\"tries\", tries)";
    let first = FIRST
        .replace("setup ()", setup)
        .replace("exports new_account", "exports new_none, new_account")
        .replace("  Nobody =", "  new_none () returns (account) return (Nobody{}) end new_none\n  Nobody =");
    let migration = MIGRATE.replace(
        "print(\"once \" || owner)",
        "typecase root().lookup(\"tries\") when array[int] (tries):
        tries.append(1)
        typecase root().lookup(\"nodes\")
          when array[account] (nodes): print(tries.length().unparse() || \" \" || nodes[tries.length()].show())
          others:
        end
      others:
    end except when not_found, bounds: print(\"nothing there\") end",
    );
    for mode in [Mode::Interpreted, Mode::Compiled] {
        let inner = Arc::new(Memory::new());
        let plain: Arc<dyn Repository> = inner.clone();
        let mut session = Session::open(&load(&format!("{TYPES}{first}"), mode), &plain, Collect::Checked);
        assert_eq!(session.run("setup"), "");
        session.commit().unwrap();
        let classes = inner.classes();
        let nobody = classes.iter().position(|class| class.name == "Nobody").unwrap() as u32 + 1;
        let objects = inner.scan(Oref::ROOT, 1000).unwrap().into_iter();
        let mut nodes: Vec<Oref> = objects
            .filter(|(_, stored)| class_of(&stored.bytes).unwrap().0 == nobody)
            .map(|(oref, _)| oref)
            .collect();
        let other = nodes.pop().unwrap();
        let engine = load(&second(&migration), mode);
        for times in [MIGRATIONS_MAX - 1, MIGRATIONS_MAX] {
            let slow = nodes.clone();
            let hurried =
                Arc::new(Hurried { inner: inner.clone(), slow, other, times: AtomicU32::new(times) });
            let repository: Arc<dyn Repository> = hurried.clone();
            let alone = Options {
                prefetch: Prefetch { objects_max: 0, ..Prefetch::default() },
                ..Options::default()
            };
            let mut session = Session::open_with(&engine, &repository, Collect::Checked, &alone).unwrap();
            let said = session.run("show_ann");
            assert_eq!(hurried.times.load(Ordering::Relaxed), 0);
            let tried = |count| (1..=count).map(|n| format!("{n} nobody\n")).collect::<String>();
            if times < MIGRATIONS_MAX {
                assert_eq!(said, tried(MIGRATIONS_MAX) + "ann has 700 [\"migrated\"]");
            } else {
                assert_eq!(said, "killed(Conflict)");
                assert_eq!(session.cx.take_output(), tried(MIGRATIONS_MAX));
            }
            // Nothing is lost, and when nobody is in between, once is enough.
            session.abort();
            assert_eq!(session.run("show_ann"), "1 nobody\nann has 700 [\"migrated\"]");
            session.abort();
        }
        assert_eq!(inner.check(&mut |_| {}).unwrap().mistakes, vec![]);
    }
}
