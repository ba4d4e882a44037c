//! What happens at chosen moments within a commit, a fetch or a collection: a log and a base that stop there.

mod support;

use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, OnceLock};

use bifrost_repository::memory::Map;
use bifrost_repository::store::{Base, Installation, Loaded, Options, Scanned, Store, Totals};
use bifrost_repository::{BatchId, ClassNumber, CommitError, Error, Holder, Oref, Repository, Stored, go_on};
use support::gate::Gate;

struct Asked(Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl Holder for Asked {
    fn held(&self, _: &mut dyn FnMut(Oref)) {
        self.0.lock().unwrap().take().into_iter().for_each(|work| work());
    }
}

/// A commit that is being written when a collection starts counts as a later one: what it makes stays.
#[test]
fn commits_on_their_way_when_a_collection_starts() {
    let (gate, written, may) = Gate::closed();
    let store = Store::start(Map::default(), gate, vec![], Options::default()).unwrap();
    let new = support::fresh(&store, 1)[0];
    let before = store.head();
    std::thread::scope(|scope| {
        let commit = scope.spawn(|| support::put(&store, vec![], vec![(new, root_like())]));
        written.recv().unwrap();
        // Nobody sees it, or hears that it is in the way of others.
        assert_eq!((store.head(), support::fetch(&store, new)), (before, None));
        // It goes on when the collection has started and asks for what is held.
        let (ask, asked) = channel();
        let (answer, answered) = channel();
        let holder = Asked(Mutex::new(Some(Box::new(move || {
            ask.send(()).unwrap();
            answered.recv().unwrap();
        }))));
        let _registration = store.register(Arc::new(holder));
        let collection = scope.spawn(|| store.collect(&mut go_on).unwrap());
        asked.recv().unwrap();
        may.send(()).unwrap();
        commit.join().unwrap();
        answer.send(()).unwrap();
        assert_eq!(collection.join().unwrap().freed, 0);
    });
    assert!(support::fetch(&store, new).is_some());
    assert_eq!(store.collect(&mut go_on).unwrap().freed, 1);
}

fn root_like() -> bytes::Bytes {
    support::directory(ClassNumber::DIRECTORY, &[])
}

/// A conflict with a commit that is not durable yet is told when that is, and so is a batch that is committed twice.
#[test]
fn conflicts_with_commits_on_their_way() {
    let (gate, written, may) = Gate::closed();
    let store = Store::start(Map::default(), gate, vec![], Options::default()).unwrap();
    let start = store.head();
    let id = BatchId { session: 1, number: 1 };
    let commit = |reply: &'static str, batch: bool| {
        let batch = batch.then(|| (id, reply.into()));
        support::commit_reading(&store, start, &[], vec![(Oref::ROOT, root_like())], vec![], batch)
    };
    // Reserves orefs, so that the gate is at the next record.
    support::fresh(&store, 1);
    std::thread::scope(|scope| {
        let first = scope.spawn(|| commit("first", true));
        written.recv().unwrap();
        let again = scope.spawn(|| commit("again", true));
        let other = scope.spawn(|| commit("other", false));
        // A reader of what nobody sees yet is not in anybody's way.
        let read = support::commit_reading(&store, start, &[Oref::ROOT], vec![], vec![], None);
        assert_eq!(read.unwrap(), start);
        may.send(()).unwrap();
        let head = first.join().unwrap().unwrap();
        assert!(matches!(again.join().unwrap(), Err(CommitError::Repeated(reply)) if reply == "first"));
        match other.join().unwrap() {
            Err(CommitError::Conflict { orefs, upto }) => {
                assert_eq!((&orefs[..], upto), (&[Oref::ROOT][..], head))
            }
            other => panic!("{other:?}"),
        }
    });
}

/// What is done when the base is asked, once.
type Hook = Mutex<Option<Box<dyn FnOnce() + Send>>>;

/// A base that lets something be done when it is asked.
#[derive(Default)]
struct Hooked {
    map: Map,
    before_read: Hook,
    before_scan: Hook,
    after_scan: Hook,
}

fn run(hook: &Hook) {
    let work = hook.lock().unwrap().take();
    work.into_iter().for_each(|work| work());
}

impl Base for Hooked {
    fn load(&self) -> Result<Loaded, Error> {
        self.map.load()
    }

    fn read(&self, orefs: &[Oref]) -> Result<Vec<Option<Stored>>, Error> {
        run(&self.before_read);
        self.map.read(orefs)
    }

    fn scan(&self, from: Oref, limit: usize) -> Result<Scanned, Error> {
        run(&self.before_scan);
        let found = self.map.scan(from, limit);
        run(&self.after_scan);
        found
    }

    fn install(&self, installation: &Installation<'_>) -> Result<Totals, Error> {
        self.map.install(installation)
    }
}

type HookedStore = Store<Hooked, Gate>;

/// A store whose base can be hooked, for work that knows the store.
fn hooked() -> Arc<HookedStore> {
    Arc::new(Store::start(Hooked::default(), Gate::default(), vec![], Options::default()).unwrap())
}

fn set(hook: &Hook, work: impl FnOnce() + Send + 'static) {
    *hook.lock().unwrap() = Some(Box::new(work));
}

/// A fetch whose objects go from the buffer into the base, in newer states, after it has looked into the buffer.
#[test]
fn fetch_while_newer_states_are_installed() {
    let store = hooked();
    let [a, b] = support::fresh(&*store, 2)[..] else { panic!() };
    support::put(&*store, vec![], vec![(a, "old".into()), (b, "old".into())]);
    store.install_all().unwrap();
    let (other, seen) = (store.clone(), Arc::new(OnceLock::new()));
    let told = seen.clone();
    set(&store.base().before_read, move || {
        told.set(support::put(&*other, vec![(a, "new".into()), (b, "new".into())], vec![])).unwrap();
        other.install_all().unwrap();
    });
    let fetched = store.fetch(&[a, b]).unwrap();
    let new = *seen.get().expect("the base was asked");
    let current = if fetched.as_of >= new { "new" } else { "old" };
    assert!(
        fetched.states.iter().flatten().all(|state| state.bytes == current && state.tid <= fetched.as_of)
    );
}

/// A scan during which states go from the buffer into the base, after the base was looked at.
#[test]
fn scan_while_states_are_installed() {
    let store = hooked();
    let orefs = support::fresh(&*store, 3);
    support::put(&*store, vec![], orefs.iter().map(|oref| (*oref, "x".into())).collect());
    let other = store.clone();
    set(&store.base().after_scan, move || other.install_all().unwrap());
    let found: Vec<Oref> = store.scan(orefs[0], 10).unwrap().into_iter().map(|(oref, _)| oref).collect();
    assert_eq!(found, orefs);
}

/// A commit that names garbage after marking ended, against the rule: it is not freed, and nothing is left dangling.
#[test]
fn commit_names_garbage_during_the_sweep() {
    let store = hooked();
    let class = store.define_class(&support::links_class()).unwrap();
    let [a, b] = support::fresh(&*store, 2)[..] else { panic!() };
    let creates = vec![(a, support::links(class, 0, 0, &[])), (b, support::links(class, 0, 0, &[]))];
    support::put(&*store, vec![], creates);
    let other = store.clone();
    // The first part of the sweep finds both, the second nothing more.
    set(&store.base().before_scan, move || {
        let again = other.clone();
        set(&other.base().before_scan, move || {
            support::put(&*again, vec![(Oref::ROOT, support::directory(class, &[("a", a)]))], vec![]);
        });
    });
    assert_eq!(store.collect(&mut go_on).unwrap().freed, 1);
    assert!(support::fetch(&*store, a).is_some() && support::fetch(&*store, b).is_none());
    support::sound(&*store);
}
