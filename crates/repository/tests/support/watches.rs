//! Watchers: told of the commits to their objects, of no others, and of none too late.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use bifrost_repository::{AllObjects, Changes, Oref, Repository, Watcher};

use super::{commit_reading, fresh, put};

const LONG: Duration = Duration::from_secs(60);

/// A watcher that counts its calls, and wakes a thread that waits for one.
#[derive(Default)]
struct Bell {
    told: Mutex<usize>,
    changed: Condvar,
}

impl Bell {
    fn told(&self) -> usize {
        *self.told.lock().unwrap()
    }

    /// Waits until it was told so often. With an engine that other processes share, another thread may tell it.
    #[track_caller]
    fn comes_to(&self, times: usize) {
        let told = self.told.lock().unwrap();
        let waited = self.changed.wait_timeout_while(told, LONG, |told| *told < times).unwrap();
        assert_eq!(*waited.0, times);
    }
}

impl Watcher for Bell {
    fn changed(&self) {
        *self.told.lock().unwrap() += 1;
        self.changed.notify_all();
    }
}

pub fn told(store: &dyn Repository) {
    let [a, b, c] = fresh(store, 3)[..] else { panic!() };
    put(store, vec![], vec![(a, "a".into()), (b, "b".into()), (c, "c".into())]);
    let bell = Arc::new(Bell::default());
    let watching = store.watch(vec![a, c, a], bell.clone());
    put(store, vec![(b, "b2".into())], vec![]);
    assert_eq!(bell.told(), 0);
    // The commit is known when it is told.
    let before = store.head();
    put(store, vec![(a, "a2".into()), (c, "c2".into())], vec![]);
    bell.comes_to(1);
    assert_eq!(
        store.changes(before, &AllObjects),
        Changes::Written { orefs: vec![a, c], upto: store.head() }
    );
    // One that fails is not told.
    let lost = commit_reading(store, before, &[a], vec![(a, "a3".into())], vec![], None);
    assert!(lost.is_err() && bell.told() == 1, "{lost:?}");
    drop(watching);
    put(store, vec![(a, "a4".into())], vec![]);
    assert_eq!((bell.told(), Arc::strong_count(&bell)), (1, 1));
}

/// One thread changes an object, others wait for each change: none waits for one that was there.
pub fn none_missed(store: &dyn Repository) {
    const CHANGES: usize = 300;
    let [a] = fresh(store, 1)[..] else { panic!() };
    put(store, vec![], vec![(a, "0".into())]);
    let start = store.head();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let (mut seen, last) = (start, start.0 + CHANGES as u64);
                while seen.0 < last {
                    let bell = Arc::new(Bell::default());
                    let _watching = store.watch(vec![a], bell.clone());
                    match store.changes(seen, &AllObjects) {
                        Changes::Written { orefs, upto } if orefs.contains(&a) => seen = upto,
                        Changes::TooOld { upto } => seen = upto,
                        Changes::Written { .. } => {
                            let told = bell.told.lock().unwrap();
                            let waited = bell.changed.wait_timeout_while(told, LONG, |told| *told == 0);
                            assert!(!waited.unwrap().1.timed_out(), "a change after {seen:?} was missed");
                        }
                    }
                }
            });
        }
        for n in 1..=CHANGES {
            put(store, vec![(a, n.to_string().into())], vec![]);
        }
    });
}

/// Many objects are watched and forgotten, while commits go on.
pub fn many_objects(store: &dyn Repository) {
    let [a] = fresh(store, 1)[..] else { panic!() };
    put(store, vec![], vec![(a, "0".into())]);
    let others = (1 << 40..(1 << 40) + 20_000).filter_map(Oref::new);
    let all: Vec<Oref> = others.chain([a]).collect();
    let bells: Vec<Arc<Bell>> = (0..4).map(|_| Arc::default()).collect();
    let mut watches: Vec<_> = bells.iter().map(|bell| store.watch(all.clone(), bell.clone())).collect();
    put(store, vec![(a, "1".into())], vec![]);
    bells.iter().for_each(|bell| bell.comes_to(1));
    drop(watches.split_off(2));
    put(store, vec![(a, "2".into())], vec![]);
    for (bell, times) in bells.iter().zip([2, 2, 1, 1]) {
        bell.comes_to(times);
    }
}
