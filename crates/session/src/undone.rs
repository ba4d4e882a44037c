//! Objects of an aborted transaction.
//!
//! Objects made in a transaction are gone when it is aborted ([`Object::is_undone`]). The
//! client may have handles and futures for it; they stand for nothing from then on, and say why.

use bifrost_runtime::abi::Word;
use bifrost_runtime::{Cx, Object, UNDONE};
use bifrost_wire::ErrorNumber;
use bifrost_wire::command::Ranges;

use crate::failures::{Failure, FailureKind};
use crate::futures::Future;
use crate::limits::Limits;
use crate::session::{Batch, Session};

impl Session {
    /// Forgets the objects that the aborted transaction has made: handles and futures for them say
    /// so from now on, procedures that use them are gone, and exceptions are told without them.
    pub(crate) fn forget_undone(&mut self, cx: &mut Cx) {
        // SAFETY: the words of handles, futures of objects, exceptions and procedures are
        // references.
        let undone = |word: Word| unsafe { Object::new(word) }.is_undone();
        let tables = self.tables;
        let roots = self.roots.as_ref().expect("made before anything runs");
        self.handles.undo(undone, cx.root_set(&roots.handles));
        self.earlier.undo(undone);
        for future in &mut self.batch.futures {
            let gone = match future {
                Future::Object(word, _) => undone(*word),
                // They may have such objects.
                Future::Rows(_) | Future::Contents(_) => true,
                _ => false,
            };
            if gone {
                *future = Future::Undone;
                self.batch.undone = true;
            }
        }
        for (number, procedure) in self.procedures.iter_mut().enumerate() {
            let captured = procedure.iter().flat_map(|procedure| &procedure.captured);
            let mut objects = captured.filter(|(_, ty)| !tables.is_basic(*ty));
            if objects.any(|(word, _)| undone(*word)) {
                *procedure = None;
                self.undone_procedures.insert(number as u32);
            }
        }
        let mut lost = false;
        for failure in self.batch.failures.iter_mut().chain(self.history.failures_mut()) {
            lost |= failure.forget(tables, undone);
        }
        if lost {
            let words = cx.root_set(&roots.history);
            words.clear();
            words.extend(self.history.objects(tables));
        }
    }
}

impl Batch {
    /// Makes failures of the futures that are wanted and whose objects are undone. They are told,
    /// and are no exceptions of a transaction that would have to be looked at.
    #[cold]
    pub(crate) fn fail_undone(&mut self, wanted: Ranges<'_>, limits: &Limits) {
        for position in wanted.positions() {
            let at = position as usize - 1;
            if self.futures.get(at) == Some(&Future::Undone) {
                let kind = FailureKind::refused(ErrorNumber::NoSuchHandle, UNDONE);
                self.futures[at] = Future::Failed(self.add(Failure::of(position, kind), limits));
            }
        }
    }
}
