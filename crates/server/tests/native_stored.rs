//! Objects of native classes that outlive their session: as machine code and in the interpreter, and with a collection at
//! each allocation.

#[path = "../../session/tests/direct/mod.rs"]
mod direct;
#[path = "support/lamp.rs"]
mod lamp;

use std::sync::Arc;

use bifrost_cache::NotCommitted;
use bifrost_engine::{Engine, Mode, Run};
use bifrost_native::{
    Cx, Flow, ObjectType, Parts, Persist, Raised, Ref, Registry, Stored, theta_class, theta_routine,
};
use bifrost_repository::memory::Memory;
use bifrost_repository::record::Kind;
use bifrost_repository::{Oref, Repository};
use bifrost_runtime::Collect;
use bifrost_theta::{Options, Sources};
use direct::Session;
use lamp::with_lamps;

/// `page = type … end page`
struct Page;

impl ObjectType for Page {
    const NAME: &'static str = "page";
}

/// Pages, and a count that says whether their bytes came along.
struct Shelf {
    pages: Vec<Ref<Page>>,
    added: i64,
}

#[theta_class("test::Shelf")]
impl Shelf {
    fn add(&mut self, _cx: &mut Cx, page: Ref<Page>) {
        self.pages.push(page);
        self.added += 1;
    }

    fn added(&self, _cx: &mut Cx) -> i64 {
        self.added
    }

    fn titles(&self, cx: &mut Cx, each: &mut dyn FnMut(&mut Cx, String) -> Flow) -> Result<(), Raised> {
        for page in &self.pages {
            let title: bifrost_native::Text = page.call(cx, "title", ())?;
            if each(cx, title.to_string()) == Flow::Leave {
                break;
            }
        }
        Ok(())
    }

    fn fuller(&self, cx: &mut Cx, than: bifrost_native::Obj<'_, Shelf>) -> bool {
        than.with(cx, |than| self.pages.len() > than.pages.len()).unwrap_or(false)
    }

    fn count_wrong(&mut self, _cx: &mut Cx) {
        self.added = 99;
    }

    fn fall(&mut self, _cx: &mut Cx) {
        panic!("it fell");
    }
}

impl Persist for Shelf {
    const VERSION: u32 = 3;

    fn encode(&self) -> Parts {
        Parts {
            bytes: self.added.to_le_bytes().to_vec(),
            objects: self.pages.iter().cloned().map(Into::into).collect(),
        }
    }

    fn decode(from: &mut Stored<'_>) -> Result<Self, String> {
        assert_eq!(from.version(), 3);
        let added = i64::from_le_bytes(from.bytes().try_into().map_err(|_| "a count has 8 bytes")?);
        // Changed from 2 on, so that an object that is made can be counted wrong.
        if added == 99 && from.objects() == 2 {
            return Err("99 is no count".to_owned());
        }
        let pages = (0..from.objects()).map(|_| from.object()).collect::<Result<_, _>>()?;
        Ok(Shelf { pages, added })
    }
}

#[theta_routine("test::new_shelf")]
fn new_shelf(_cx: &mut Cx) -> Shelf {
    Shelf { pages: Vec::new(), added: 0 }
}

const PROGRAM: &str = r#"
page = type title () returns (string) rename (title: string) end page
shelf = type
  add (p: page)
  added () returns (int)
  titles () yields (string)
  count_wrong ()
  fall ()
end shelf
lamp = type light () returns (bool) end lamp
module shelves exports new_shelf, new_page, new_lamp, fuller
  Shelf = class native "test::Shelf" implements shelf
    fuller (than: Shelf) returns (bool)
  end Shelf
  native "test::new_shelf" new_shelf () returns (Shelf)
  Lamp = class native "test::Lamp" implements lamp end Lamp
  native "test::new_lamp" new_lamp () returns (Lamp)
  Sheet = class implements page
    title: string
    rename (t: string) title := t end rename
  end Sheet
  new_page (title: string) returns (page) return (Sheet{title := title}) end new_page
  fuller (a, b: shelf) returns (bool)
    typecase a when Shelf (x):
      typecase b when Shelf (y): return (x.fuller(y)) others: end
      others: end
    return (false)
  end fuller
end shelves
the (name: string) returns (shelf)
  found: any := root().lookup(name) except when not_found: signal failure("there is no shelf " || name) end
  typecase found when shelf (s): return (s) others: end
  signal failure("that is no shelf")
end the
show (s: shelf)
  print(s.added().unparse())
  for t: string in s.titles() do print(t) end
end show
make_both ()
  s: shelf := new_shelf()
  s.add(new_page("one"))
  root().insert("a", s)
  root().insert("b", new_shelf())
end make_both
add_two () the("a").add(new_page("two")) end add_two
add_to_b () the("b").add(new_page("b's")) end add_to_b
look () show(the("a")) show(the("b")) end look
compare () print(fuller(the("a"), the("b")).unparse()) end compare
wrong () the("a").count_wrong() end wrong
fall () the("b").fall() end fall
lamps () root().insert("lamp", new_lamp()) end lamps
"#;

fn load(mode: Mode) -> Arc<Engine> {
    let registry = with_lamps(Registry::standard());
    let registry = registry.with_persistent_class::<Shelf>().with_routine(new_shelf::native());
    let mut sources = Sources::new();
    sources.add("main.theta", PROGRAM);
    bifrost_server::program::load_sources_with(sources, &Options::default(), Run::kept(mode), &registry)
        .unwrap_or_else(|e| panic!("{e}"))
}

/// In all ways to run.
fn each(test: impl Fn(&dyn Fn() -> Session, &Arc<dyn Repository>)) {
    for mode in [Mode::Interpreted, Mode::Compiled] {
        for collect in [Collect::Checked, Collect::Zeal(1)] {
            let engine = load(mode);
            let repository: Arc<dyn Repository> = Arc::new(Memory::new());
            let open = || Session::open(&engine, &repository, collect);
            let mut first = open();
            assert_eq!(first.run("make_both"), "");
            first.commit().unwrap();
            test(&open, &repository);
            let report = repository.check(&mut |_| {}).unwrap();
            assert_eq!(report.mistakes, vec![], "{mode:?}");
        }
    }
}

#[test]
fn values_are_what_was_committed_with_what_they_hold() {
    each(|open, _| {
        let mut writer = open();
        assert_eq!(writer.run("add_two"), "");
        assert_eq!(writer.run("look"), "2\none\ntwo\n0");
        writer.commit().unwrap();
        assert_eq!(writer.run("look"), "2\none\ntwo\n0");
        let mut reader = open();
        assert_eq!(reader.run("compare"), "true");
        assert_eq!(reader.run("look"), "2\none\ntwo\n0");
        // What others write is seen in the next transaction.
        assert_eq!(writer.run("add_to_b"), "");
        writer.commit().unwrap();
        assert_eq!(reader.run("look"), "2\none\ntwo\n0");
        reader.abort();
        assert_eq!(reader.run("look"), "2\none\ntwo\n1\nb's");
    });
}

#[test]
fn an_aborted_transaction_leaves_values_as_they_were() {
    each(|open, _| {
        let mut session = open();
        assert_eq!(session.run("add_two"), "");
        assert_eq!(session.run("add_to_b"), "");
        assert_eq!(session.run("look"), "2\none\ntwo\n1\nb's");
        session.abort();
        assert_eq!(session.run("look"), "1\none\n0");
        session.commit().unwrap();
        assert_eq!(open().run("look"), "1\none\n0");
    });
}

#[test]
fn a_method_that_only_looks_writes_nothing() {
    each(|open, repository| {
        let mut session = open();
        let before = repository.head();
        assert_eq!(session.run("compare"), "true");
        session.commit().unwrap();
        assert_eq!(repository.head(), before);
    });
}

#[test]
fn of_two_that_change_a_value_one_conflicts() {
    each(|open, _| {
        let (mut one, mut other) = (open(), open());
        assert_eq!(one.run("add_two"), "");
        assert_eq!(other.run("add_two"), "");
        one.commit().unwrap();
        assert!(matches!(other.commit(), Err(NotCommitted::Conflict(_))));
        assert_eq!(other.run("look"), "2\none\ntwo\n0");
    });
}

#[test]
fn what_is_not_persistent_is_named_and_nothing_is_stored() {
    each(|open, _| {
        let mut session = open();
        assert_eq!(session.run("add_to_b"), "");
        assert_eq!(session.run("lamps"), "");
        let error = session.commit().unwrap_err().to_string();
        assert_eq!(
            error,
            "an object of `Lamp` cannot be stored: it is native, and not persistent: implement `Persist` for its class and register it with \
             `with_persistent_class`, or keep it unreachable from the root directory"
        );
        assert_eq!(session.run("look"), "1\none\n0");
        // A value that panicked is not stored either, and it is what it was then.
        assert_eq!(session.run("fall"), "failure(\"native `test::Shelf.fall` panicked: it fell\")");
        let error = session.commit().unwrap_err().to_string();
        assert_eq!(
            error,
            "an object of `Shelf` cannot be stored: the object of `test::Shelf` is poisoned by a panic"
        );
        assert_eq!(session.run("look"), "1\none\n0");
    });
}

#[test]
fn parts_that_are_no_value_fail_the_call_and_are_not_lost() {
    each(|open, repository| {
        let mut session = open();
        assert_eq!(session.run("add_two"), "");
        assert_eq!(session.run("wrong"), "");
        session.commit().unwrap();
        let failure = "failure(\"the object cannot be fetched: 99 is no count\")";
        assert_eq!(open().run("look"), failure);
        let mut other = open();
        assert_eq!(other.run("look"), failure);
        other.commit().unwrap();
        assert_eq!(session.run("look"), "99\none\ntwo\n0");
        // Nor can it be changed where it is: there would be no way back.
        assert_eq!(session.run("add_two"), "failure(\"99 is no count\")");
        let class = |n: u32| repository.classes()[n as usize - 1].clone();
        let stored = repository.scan(Oref::ROOT, 100).unwrap();
        let natives = stored.iter().filter(|(_, stored)| {
            let (_, number) = bifrost_repository::record::Reader::new(&stored.bytes).unwrap();
            class(number.0).kind == Kind::Native
        });
        assert_eq!(natives.count(), 2);
    });
}
