//! Commits at chosen moments of a collection: when it asks a holder, which is after its start, and between its steps.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use bifrost_repository::{ClassNumber, Error, Holder, Oref, Repository, go_on};

use super::{directory, fetch, fresh, links, links_class, oref, put, sound};

/// A holder that names nothing, but lets something be done when it is asked.
struct Asked<'a>(Mutex<Option<Box<dyn FnOnce() + Send + 'a>>>);

impl Holder for Asked<'_> {
    fn held(&self, _: &mut dyn FnMut(Oref)) {
        if let Some(work) = self.0.lock().unwrap().take() {
            work();
        }
    }
}

/// Collects while `work` is done between the start and the first look at an object; gives how many were freed.
///
/// Holders live as long as they like, so what is done is told by a channel to a thread that knows the store.
fn collect_with(store: &dyn Repository, work: impl FnOnce() + Send) -> u64 {
    let (ask, asked) = std::sync::mpsc::channel::<()>();
    let (answer, answered) = std::sync::mpsc::channel::<()>();
    let wait = move || {
        ask.send(()).unwrap();
        answered.recv().unwrap();
    };
    std::thread::scope(|scope| {
        scope.spawn(move || {
            asked.recv().unwrap();
            work();
            answer.send(()).unwrap();
        });
        let _registration = store.register(Arc::new(Asked(Mutex::new(Some(Box::new(wait))))));
        store.collect(&mut go_on).unwrap().freed
    })
}

pub fn created(store: &dyn Repository) {
    let class = store.define_class(&links_class()).unwrap();
    let [a, b] = fresh(store, 2)[..] else { panic!() };
    // Made by somebody who was asked before, and holds it now; nothing else leads to it.
    let freed = collect_with(store, || {
        _ = put(store, vec![], vec![(a, links(class, 0, 0, &[b])), (b, links(class, 0, 0, &[]))]);
    });
    assert_eq!(freed, 0);
    assert!(fetch(store, a).is_some() && fetch(store, b).is_some());
    assert_eq!(store.collect(&mut go_on).unwrap().freed, 2);
}

/// The root leads to `slot`, `slot` to `x`.
fn chain(store: &dyn Repository) -> (ClassNumber, Oref, Oref) {
    let class = store.define_class(&links_class()).unwrap();
    let [slot, x] = fresh(store, 2)[..] else { panic!() };
    let creates = vec![(slot, links(class, 0, 0, &[x])), (x, links(class, 0, 0, &[]))];
    put(store, vec![(Oref::ROOT, directory(class, &[("slot", slot)]))], creates);
    (class, slot, x)
}

pub fn cut_off(store: &dyn Repository) {
    let (class, slot, x) = chain(store);
    // Somebody who was asked before has read `slot`, and holds `x`, when another cuts it off.
    let freed = collect_with(store, || {
        put(store, vec![(slot, links(class, 1, 0, &[]))], vec![]);
    });
    assert_eq!(freed, 0);
    assert!(fetch(store, x).is_some());
    assert_eq!(store.collect(&mut go_on).unwrap().freed, 1);
    sound(store);
}

pub fn moved(store: &dyn Repository) {
    let class = store.define_class(&links_class()).unwrap();
    // The root leads to `near` and to a long way to `x`.
    let near = fresh(store, 1)[0];
    let way = fresh(store, 10);
    let x = fresh(store, 1)[0];
    let mut creates = vec![(near, links(class, 0, 0, &[])), (x, links(class, 0, 0, &[]))];
    creates.extend((0..10).map(|i| (way[i], links(class, 0, 0, &[*way.get(i + 1).unwrap_or(&x)]))));
    put(store, vec![(Oref::ROOT, directory(class, &[("near", near), ("way", way[0])]))], creates);
    let mut steps = 0;
    let collected = store.collect(&mut |_| {
        steps += 1;
        if steps == 4 {
            // `near` was looked through, the end of the way was not.
            let writes = vec![(near, links(class, 1, 0, &[x])), (way[9], links(class, 1, 0, &[]))];
            put(store, writes, vec![]);
        }
        ControlFlow::Continue(())
    });
    assert!(steps > 4);
    assert_eq!(collected.unwrap().freed, 0);
    assert!(fetch(store, x).is_some());
    sound(store);
    assert_eq!(store.collect(&mut go_on).unwrap().freed, 0);
}

pub fn made_below(store: &dyn Repository) {
    let (class, slot, x) = chain(store);
    let garbage = fresh(store, 5);
    let ring = (0..5).map(|i| (garbage[i], links(class, 0, 0, &[garbage[(i + 1) % 5]]))).collect();
    put(store, vec![], ring);
    // After every step a new object between the root and what it led to before.
    let mut top = slot;
    let mut made = 0;
    let collected = store.collect(&mut |_| {
        if made < 20 {
            let new = fresh(store, 1)[0];
            let root = directory(class, &[("slot", new)]);
            put(store, vec![(Oref::ROOT, root)], vec![(new, links(class, 0, 0, &[top]))]);
            top = new;
            made += 1;
        }
        ControlFlow::Continue(())
    });
    assert!(made > 2);
    assert_eq!(collected.unwrap().freed, 5);
    assert!(fetch(store, x).is_some());
    sound(store);
}

pub fn mistake(store: &dyn Repository) {
    let (class, slot, x) = chain(store);
    let bad = fresh(store, 1)[0];
    let (mut steps, mut result) = (0, None);
    let collected = store.collect(&mut |_| {
        steps += 1;
        if steps == 1 {
            result = Some(put(store, vec![(slot, links(class, 1, 0, &[]))], vec![(bad, "?".into())]));
        }
        ControlFlow::Continue(())
    });
    // The commit is none the worse for it.
    assert!(result.is_some());
    match collected {
        Err(Error::Record { oref, .. }) => assert_eq!(oref, bad),
        other => panic!("{other:?}"),
    }
    assert!(fetch(store, x).is_some() && fetch(store, oref(bad.get())).is_some());
    // The next one finds nothing wrong, because nothing leads there.
    assert_eq!(store.collect(&mut go_on).unwrap().freed, 2);
}
