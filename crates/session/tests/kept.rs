//! Objects that outlive their session: every kind, shared by sessions, in both executions and with a collection at every
//! allocation.

mod direct;

use std::sync::Arc;

use bifrost_cache::NotCommitted;
use bifrost_engine::Mode;
use bifrost_repository::Repository;
use bifrost_repository::memory::Memory;
use bifrost_runtime::Collect;
use direct::{Session, load};

/// In all ways to run.
fn each(text: &str, test: impl Fn(&dyn Fn() -> Session)) {
    for mode in [Mode::Interpreted, Mode::Compiled] {
        for collect in [Collect::Checked, Collect::Zeal(1)] {
            let engine = load(text, mode);
            let repository: Arc<dyn Repository> = Arc::new(Memory::new());
            test(&|| Session::open(&engine, &repository, collect));
            let report = repository.check(&mut |_| {}).unwrap();
            assert_eq!(report.mistakes, vec![], "{mode:?}");
        }
    }
}

const KINDS: &str = include_str!("kinds.theta");

const SHOWN: &str = "a aba1
all a1b b1a c1first
any 42
bytes 3
cell {nothing: nil}
empty false
keys 207falsetrue
list [\"one\", \"two\", \"three\"]two3
map ba ab
maybe {some: {x: 1, y: -7}}
named {name: \"p\", at: {x: 1, y: -7}}
numbers [10, 20, 30]5
sequence 2true
text a string
vector [1.5, 2.5]";

const CHANGED: &str = "a aba42
all a42b b1a d1first b1a
bytes 3
cell {text: \"t\"}
empty false
keys 207falsetrue
list [\"one\", \"two\", \"three\"]two3
map ba za
maybe {some: {x: 2, y: -7}}
named {name: \"p\", at: {x: 2, y: -7}}
numbers [10, 20, 30]5
sequence 2true
text a string
vector [9.0, 2.5]";

#[test]
fn all_kinds_of_objects_come_back() {
    each(KINDS, |open| {
        let mut first = open();
        assert_eq!(first.run("fill"), "");
        assert_eq!(first.run("show"), SHOWN);
        assert_eq!(open().run("show"), "", "nothing is visible before it is committed");
        first.commit().unwrap();
        assert_eq!(first.run("show"), SHOWN);
        assert_eq!(open().run("show"), SHOWN);
    });
}

#[test]
fn changes_are_seen_after_the_commit_and_undone_by_an_abort() {
    each(KINDS, |open| {
        let (mut first, mut second) = (open(), open());
        first.run("fill");
        first.commit().unwrap();
        second.cache.refresh(&mut second.cx);
        assert_eq!(second.run("show"), SHOWN);
        second.commit().unwrap();
        assert_eq!(first.run("change"), "");
        assert_eq!(first.run("show"), CHANGED);
        first.cache.abort(&mut first.cx);
        assert_eq!(first.run("show"), SHOWN);
        first.run("change");
        first.commit().unwrap();
        assert_eq!(first.run("show"), CHANGED);
        second.cache.refresh(&mut second.cx);
        assert_eq!(second.run("show"), CHANGED);
        assert_eq!(open().run("show"), CHANGED);
    });
}

#[test]
fn of_two_that_read_what_the_other_writes_one_commits() {
    each(KINDS, |open| {
        let (mut first, mut second) = (open(), open());
        first.run("fill");
        first.commit().unwrap();
        second.cache.refresh(&mut second.cx);
        first.run("change");
        second.run("change");
        first.commit().unwrap();
        assert!(matches!(second.commit(), Err(NotCommitted::Conflict(_))));
        assert_eq!(second.run("show"), CHANGED, "what was stale is gone");
        second.commit().unwrap();
    });
}
