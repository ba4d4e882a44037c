//! The cache of a session whose client is silent: it lets go of objects, and perhaps of their
//! places.

use std::sync::Arc;

use bifrost_repository::Oref;
use bifrost_runtime::{Cx, Kept, Object};

use crate::cache::{Cache, KeptBy, Shared};
use crate::residents::Folded;

impl Cache {
    /// Lets go of all objects that can be fetched again, also of those that the transaction has
    /// read: the client is silent. Returns the number of these objects. Their memory is given back
    /// by [`Cache::fold`] or [`Cache::shrink`].
    ///
    /// No code runs meanwhile or is to go on afterwards.
    pub fn let_go(&self, cx: &mut Cx) -> usize {
        let evicted = {
            let mut residents = self.shared.residents.lock();
            let evicted = residents.evict(cx, 0, false) + residents.evict(cx, 0, true);
            self.shared.schema.counters().evicted.add(evicted);
            cx.set_kept_bytes(residents.bytes());
            evicted
        };
        self.shared.ahead.lock().clear();
        evicted
    }

    /// Gives back the memory of objects that were [let go](Cache::let_go) of. Returns about the
    /// number of objects that nothing refers to any more.
    pub fn shrink(&self, cx: &mut Cx) -> usize {
        cx.let_go();
        self.shared.residents.lock().shrink()
    }

    /// Gives up the objects, which are all that the session names, and the directory: what is left
    /// of each is its oref and its class. If nothing else lives in the context, its whole heap is
    /// given back.
    ///
    /// Returns true if [`Cache::unfold`] must make them again before code runs. Otherwise nothing
    /// has happened: one of them is no persistent object, or is not let go of.
    ///
    /// No code runs meanwhile.
    pub fn fold(&self, cx: &mut Cx, objects: &[Object]) -> bool {
        // The orefs are held from before the residents forget them.
        if !self.shared.residents.lock().fold(objects) {
            return false;
        }
        cx.fold();
        self.shared.residents.lock().shrink();
        true
    }

    /// Makes this the cache of a context: of the first one, or of one in the place of another that
    /// is gone, when the objects were [given up](Cache::fold).
    pub fn enter(&self, cx: &mut Cx) {
        cx.set_keeper(Arc::new(KeptBy(self.shared.clone())));
    }

    /// Makes the objects of [`Cache::fold`] and the directory again, absent. Nothing keeps the
    /// objects alive until the caller does.
    pub fn unfold(&self, cx: &mut Cx) -> Vec<Object> {
        let shared = &self.shared;
        let directory = shared.residents.lock().find(Oref::ROOT);
        match directory {
            Some(directory) => cx.set_root_object(directory.word()),
            None => {
                if cx.root_object() == 0 {
                    cx.make_directory();
                }
                shared.enter_directory(cx);
            }
        }
        let folded = shared.residents.lock().folded();
        // Making one may collect the others, which asks for the residents.
        let made: Vec<(Kept, Object)> = folded.iter().map(|folded| shared.make_again(cx, folded)).collect();
        shared.residents.lock().end_fold();
        made.into_iter().map(|(_, object)| object).collect()
    }
}

impl Shared {
    /// Enters the directory of well-known objects, which was just made.
    pub(crate) fn enter_directory(&self, cx: &mut Cx) {
        let directory = cx.root_object();
        let entered = self.residents.lock().enter_absent(cx, Oref::ROOT, directory);
        entered.expect("the first object has a number");
    }

    /// Returns an object that was given up, made again unless it is there.
    fn make_again(&self, cx: &mut Cx, folded: &Folded) -> (Kept, Object) {
        let there = self.residents.lock().find(folded.oref);
        let object = there.unwrap_or_else(|| {
            let object = cx.alloc_beyond(folded.table, folded.fields);
            let entered = self.residents.lock().enter_absent(cx, folded.oref, object);
            entered.expect("there are no more objects than before")
        });
        (cx.keep(object.word()), object)
    }
}
