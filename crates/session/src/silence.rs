//! A silent client: its session lets go of all that can be had again.
//!
//! First the objects become absent that can be fetched again. Most often the client then holds
//! handles of persistent objects, and nothing else: the session keeps their orefs only, and its
//! heap is given back as a whole: it is *folded*. The next command makes the absent objects again.

use bifrost_runtime::{Cx, Object};

use crate::session::Session;

impl Session {
    /// Lets go of objects that can be fetched again, and of memory, while the client is silent.
    /// Returns about how many objects these were.
    pub fn let_go(&mut self, cx: &mut Cx) -> usize {
        if self.folded || self.scan.is_some() || self.shipped.is_some() || self.resting.is_some() {
            return 0;
        }
        self.output.shrink_to_fit();
        self.batch.futures.shrink_to_fit();
        let gone = self.transactions.cache().let_go(cx);
        match self.fold(cx) {
            true => gone,
            false => gone + self.transactions.cache().shrink(cx),
        }
    }

    /// Gives up the objects of the handles if nothing else is named, and all memory of the context
    /// with them. False if that cannot be.
    fn fold(&mut self, cx: &mut Cx) -> bool {
        let Some(roots) = &self.roots else { return false };
        let others = [&roots.batch, &roots.earlier, &roots.procedures, &roots.history];
        if self.batch.commands > 0
            || self.in_transaction()
            || cx.doomed().is_some()
            || others.into_iter().any(|set| cx.root_set(set).iter().any(|word| *word != 0))
        {
            return false;
        }
        let cache = self.transactions.cache();
        // SAFETY: the objects of handles live.
        let objects: Vec<Object> = self.handles.objects().map(|word| unsafe { Object::new(word) }).collect();
        let handles = std::mem::take(cx.root_set(&roots.handles));
        self.folded = cache.fold(cx, &objects);
        if !self.folded {
            *cx.root_set(&roots.handles) = handles;
        }
        self.folded
    }

    /// Leaves the context, so that it may be given up: the next run is in another one, which the
    /// session's cache has [entered](bifrost_cache::Cache::enter). False if something in it is
    /// needed.
    pub fn leave(&mut self, cx: &Cx) -> bool {
        let leaves = self.folded && cx.heap_stats().usage.held_bytes == 0;
        if leaves {
            (self.roots, self.is_entered) = (None, false);
        }
        leaves
    }

    /// Makes the objects of the handles again.
    #[cold]
    pub(crate) fn unfold(&mut self, cx: &mut Cx) {
        let objects = self.transactions.cache().unfold(cx);
        let roots = self.roots.as_ref().expect("made before anything runs");
        self.handles.replace(objects.into_iter().map(Object::word), cx.root_set(&roots.handles));
        self.folded = false;
    }
}
