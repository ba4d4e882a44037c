//! Objects that outlive their session: every kind, shared by sessions, in both executions and with a collection at every
//! allocation.

use std::sync::Arc;

use bifrost_cache::{Cache, NotCommitted, Schema};
use bifrost_engine::{Engine, Mode, Run};
use bifrost_repository::Repository;
use bifrost_repository::memory::Memory;
use bifrost_runtime::cx::{Limits, Output};
use bifrost_runtime::{Collect, Cx};
use bifrost_theta::{Colour, Options, Sources, compile, render_all};

fn load(text: &str, mode: Mode) -> Arc<Engine> {
    let mut sources = Sources::new();
    sources.add("test.theta", text);
    let compilation = compile(&sources, &Options::default());
    let rendered = render_all(&sources, &compilation.diagnostics, Colour::Plain);
    let program = compilation.program.unwrap_or_else(|| panic!("{rendered}"));
    Engine::new(program, Run::kept(mode)).unwrap_or_else(|e| panic!("{e}"))
}

/// A session in Rust: routines of the program are its calls.
struct Session {
    engine: Arc<Engine>,
    cx: Box<Cx>,
    cache: Cache,
}

impl Session {
    fn open(engine: &Arc<Engine>, repository: &Arc<dyn Repository>, collect: Collect) -> Session {
        let schema = Schema::new(engine.image().clone(), repository.clone()).unwrap();
        let limits = Limits { stack_bytes: 512 << 10, collect, ..Limits::default() };
        let mut cx = Cx::new(engine.image().clone(), limits, 1, || 0);
        cx.set_output(Output::Buffer(String::new()));
        let cache = Cache::open(&mut cx, schema);
        Session { engine: engine.clone(), cx, cache }
    }

    /// What a routine prints, or how it ends.
    fn run(&mut self, routine: &str) -> String {
        let entry = self.engine.find_entry(routine, 0).expect("there is such a routine");
        // SAFETY: the context runs the engine's image, and the routine takes nothing.
        match unsafe { self.engine.call(&mut self.cx, entry, &[]) } {
            Ok(_) => self.cx.take_output().trim_end().to_owned(),
            Err(raised) => raised.to_string(),
        }
    }

    fn commit(&mut self) -> Result<(), NotCommitted> {
        self.cache.commit(&mut self.cx, None).map(|_| ())
    }
}

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
        assert!(matches!(second.commit(), Err(NotCommitted::Conflict)));
        assert_eq!(second.run("show"), CHANGED, "what was stale is gone");
        second.commit().unwrap();
    });
}
