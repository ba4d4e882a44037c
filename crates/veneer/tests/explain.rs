//! Explanations of batches, and advice.

mod common;

use bifrost_veneer::Session;
use common::stubs::{self, DataBase, DataElem};
use common::{Script, handle, int};

/// A text without the places in this file and the times, which differ.
fn plain(text: &str) -> String {
    let words = text.split(' ').map(|word| match word.split_once("explain.rs:") {
        Some((_, rest)) => format!("here{}", rest.trim_start_matches(|c: char| c.is_ascii_digit())),
        None => word.to_owned(),
    });
    let text = words.collect::<Vec<_>>().join(" ");
    match text.split_once(", answered in ") {
        Some((before, after)) => format!("{before}{}", after.split_once(" us").map_or("", |(_, rest)| rest)),
        None => text,
    }
}

fn advice(s: &Session) -> Vec<String> {
    s.advice().iter().map(|advice| plain(&advice.to_string())).collect()
}

#[test]
fn the_batch_so_far_is_shown_and_nothing_crosses() {
    let server = Script::default();
    let s = server.connect();
    assert_eq!(s.explain(), "# batch 1: nothing is recorded\n");
    assert_eq!(s.explain_last(), None);
    let db: DataBase = s.lookup("database");
    let total = s.cell::<i64>();
    total.put(0);
    s.foreach(db.users(), |e: DataElem| {
        s.if_(e.visits().gt(0), || {
            total.put(total.get() + e.visits());
        });
    });
    let recorded = "@1 := lookup database: DataBase
@2 := cell int
@3 := @2.put(0)
foreach $x4 in @1.users() do
  @5 := $x4.visits()
  @6 := @5.gt(0)
  if
  then @6
    @7 := @2.get()
    @8 := $x4.visits()
    @9 := @7.add(@8)
    @10 := @2.put(@9)
  end
end
";
    let told = s.explain();
    let (head, lines) = told.split_once('\n').unwrap();
    assert!(head.starts_with("# batch 1: ") && head.ends_with(" commands, not sent"), "{head}");
    assert_eq!(lines, recorded);
    assert_eq!((server.log(), s.counters().crossings), (vec![], 0));
    let sum = total.get();
    server.outcomes(vec![handle(5), handle(6), int(42)]);
    assert_eq!(sum.claim().unwrap(), 42);
    let last = s.explain_last().unwrap();
    assert!(last.contains(", answered in "), "{last}");
    let last: Vec<String> = last.lines().map(plain).collect();
    assert!(
        last[0].ends_with("; sent by the claim at here of `cell[int].get`, recorded at here"),
        "{last:?}"
    );
    assert_eq!(last.last().unwrap(), "flush # wants @1 to @2, @11");
    assert_eq!(s.explain_batches().len(), 1);
}

#[test]
fn a_claim_that_ends_no_batch_is_not_the_cause_of_the_next() {
    let server = Script::default();
    let s = server.connect();
    s.flush().unwrap();
    let db: DataBase = s.lookup("database");
    s.if_(s.value(true), || assert!(db.fetch("eve").visits().claim().is_err()));
    // More calls than a batch may have.
    for _ in 0..20_000 {
        db.new_user("zoe");
    }
    let batches = s.explain_batches();
    assert!(batches[0].ends_with(" us"), "{batches:?}");
}

#[test]
fn a_long_batch_is_shown_from_its_begin_and_says_what_is_missing() {
    let server = Script::default();
    let s = server.connect();
    let db: DataBase = s.lookup("database");
    // More than one piece is sent before the batch ends.
    for n in 0..200 {
        db.new_user(format!("user {n}"));
    }
    let told = s.explain();
    assert_eq!(told.lines().count(), 202, "{told}");
    assert!(told.lines().nth(1).unwrap() == "@1 := lookup database: DataBase", "{told}");
    assert!(told.ends_with("@201 := @1.new_user(\"user 199\")\n"), "{told}");
    let long = "x".repeat(2_000);
    for _ in 0..50 {
        db.new_user(long.as_str());
    }
    let told = s.explain();
    let last = told.lines().last().unwrap();
    assert!(last.starts_with("# ") && last.ends_with(" more bytes, which are not kept"), "{last}");
    s.flush().unwrap();
    assert_eq!(
        advice(&s),
        [
            "`DataBase.new_user` was recorded 200 times or more at here in one batch: a `foreach` or `while` is recorded \
          and sent once"
        ]
    );
}

#[test]
fn claims_that_cross_again_and_again_are_named() {
    let server = Script::default();
    let s = server.connect();
    let db: DataBase = s.lookup("database");
    let (a, b, c) = (db.fetch("a"), db.fetch("b"), db.fetch("c"));
    server.outcomes((5..9).map(handle).chain([int(1)]).collect());
    a.visits().claim().unwrap();
    server.outcomes(vec![int(2)]);
    b.visits().claim().unwrap();
    let apart = advice(&s);
    assert_eq!(apart.len(), 1);
    assert!(apart[0].starts_with("the claims at here and here crossed one after the other"), "{apart:?}");
    for _ in 0..5 {
        server.outcomes(vec![int(3)]);
        c.visits().claim().unwrap();
    }
    let again = advice(&s);
    assert!(
        again[0].starts_with("5 of the last 7 batches ended with the claim of `DataElem.visits` at here"),
        "{again:?}"
    );
    // A claim that is the end of much work, and a flush, are nothing to change.
    for _ in 0..40 {
        for _ in 0..20 {
            db.fetch("d").touch();
        }
        s.flush().unwrap();
    }
    assert_eq!(advice(&s), [""; 0]);
    let _ = stubs::nil_list(&s);
}

#[test]
fn a_profile_stands_beside_the_commands_of_the_last_batch() {
    use bifrost_veneer::wire::Limit;
    use bifrost_veneer::wire::encode::{Counters, Flushed};
    use bifrost_veneer::wire::profile::{Cost, Entry, Rest, Subject, Totals};
    use bifrost_veneer::{Error, Misuse};

    // A server that has not announced the limit makes none.
    let old = Script::default();
    let s = old.connect();
    assert!(matches!(s.profile(true), Err(Error::Misuse(Misuse::NoProfiles))));
    s.flush().unwrap();
    assert_eq!(old.log(), [""; 0]);

    let server = Script::default();
    server.0.borrow_mut().limits = vec![(Limit::ProfileEntries, 4)];
    let s = server.connect();
    s.profile(true).unwrap();
    s.profile(true).unwrap();
    let db: DataBase = s.lookup("database");
    let total = s.cell::<i64>();
    total.put(0);
    s.foreach(db.users(), |e: DataElem| {
        assert!(matches!(s.profile(false), Err(Error::Misuse(Misuse::OpenStructure))));
        total.put(total.get() + e.visits());
    });
    let sum = total.get();
    server.answer(|_, out| {
        let mut writer = Flushed::begin(out);
        [handle(5), handle(6), int(42)].iter().for_each(|outcome| writer.outcome(outcome));
        let cost = |nanoseconds, calls, fetches| Cost {
            nanoseconds,
            calls,
            fuel: calls,
            fetches,
            objects: 3 * fetches,
        };
        let entries = [
            Entry { subject: Subject::Command, call: 1, cost: cost(20_000, 0, 2) },
            Entry { subject: Subject::Command, call: 3, cost: cost(400, 1, 0) },
            Entry { subject: Subject::Structure, call: 4, cost: cost(61_040, 40, 3) },
        ];
        let rest = Rest { omitted: 1, cost: cost(350, 1, 0) };
        let totals = Totals { nanoseconds: 84_200, fetches: 5, objects: 15, runs: 1 };
        writer.profile(&totals, entries.into_iter(), Some(&rest));
        writer.finish(Counters { calls: 42, fuel: 42 }, 0);
    });
    assert_eq!(sum.claim().unwrap(), 42);
    let told = s.explain_last().unwrap();
    let lines: Vec<String> = told.lines().map(plain).collect();
    assert!(
        lines[0].starts_with("# batch 1: 12 commands, 42 calls run, fuel 42, at the server 84.2 us, 5 fetches, 15 objects; sent"),
        "{told}"
    );
    let expected = [
        "profile on",
        "@1 := lookup database: DataBase  # 20.0 us, 2 fetches, 6 objects",
        "@2 := cell int",
        "@3 := @2.put(0)  # 0.4 us, 1 calls, fuel 1",
        "foreach $x4 in @1.users() do  # 61.0 us, 40 calls, fuel 40, 3 fetches, 9 objects",
        "  @5 := @2.get()",
        "  @6 := $x4.visits()",
        "  @7 := @5.add(@6)",
        "  @8 := @2.put(@7)",
        "end",
        "@9 := @2.get()",
        "flush # wants @1 to @2, @9",
        "# 1 more: 0.4 us, 1 calls, fuel 1",
    ];
    assert_eq!(lines[1..], expected, "{told}");
    let profile = s.profile_of_last().unwrap();
    assert_eq!((profile.totals.nanoseconds, profile.entries.len()), (84_200, 3));
    // The wish ends, and the next answer has none.
    s.profile(false).unwrap();
    s.flush().unwrap();
    assert_eq!(s.profile_of_last(), None);
    assert_eq!(server.log().iter().filter(|line| line.starts_with("Profile")).count(), 2);
    let told = s.explain_last().unwrap();
    assert!(told.ends_with("profile off\nflush\n"), "{told}");
}
