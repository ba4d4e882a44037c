//! The batched procedures of a session (000 section 8.2.3).

use std::sync::Arc;

use bifrost_actors::Base;
use bifrost_engine::Batch;
use bifrost_interp::BatchEnd;
use bifrost_ir::TypeId;
use bifrost_runtime::Cx;
use bifrost_runtime::abi::Word;
use bifrost_wire::{Args, ErrorNumber, Limit, ProcedureNumber};

use crate::calls::Words;
use crate::causes::Cause;
use crate::failures::FailureKind;
use crate::futures::Future;
use crate::scan::Scan;
use crate::session::Session;

/// A batched procedure.
#[derive(Debug)]
pub struct Procedure {
    /// The types of its declared parameters.
    pub params: Box<[TypeId]>,
    /// The type of its result.
    pub result: Option<TypeId>,
    /// The values that it uses from outside; passed behind the arguments.
    pub captured: Vec<(Word, TypeId)>,
    /// The prepared batch that runs.
    pub batch: Arc<Batch>,
    /// The number of the batch to whose tables it adds rows, if it does: it runs in that batch
    /// only.
    pub emits_in: Option<u64>,
}

/// The number of batched procedures, and of the objects that they use from outside.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    defined: usize,
    captured: usize,
}

impl Session {
    /// Returns a procedure, or the failure of its call.
    pub(crate) fn procedure(&self, number: ProcedureNumber) -> Result<Arc<Procedure>, FailureKind> {
        let found = self.procedures.get(number.index()).cloned().flatten();
        let here = found.filter(|found| found.emits_in.is_none_or(|batch| batch == self.batches));
        here.ok_or_else(|| self.no_procedure(number))
    }

    #[cold]
    fn no_procedure(&self, number: ProcedureNumber) -> FailureKind {
        let emits = self.procedures.get(number.index()).is_some_and(Option::is_some);
        let text = match self.undone_procedures.contains(&number.0) {
            _ if emits => format!(
                "batched procedure number {} adds rows to a table of an earlier batch, which is gone",
                number.0
            ),
            true => format!(
                "batched procedure number {} uses an object that was made in a transaction that was aborted",
                number.0
            ),
            false => {
                format!("there is no batched procedure number {}, or its definition was refused", number.0)
            }
        };
        FailureKind::refused(ErrorNumber::NoSuchProcedure, text)
    }

    /// Defines a procedure by its structure.
    pub(crate) fn define(&mut self, cx: &mut Cx, scan: &Scan, batch: Arc<Batch>) {
        let signature = &batch.func.signature;
        let declared = signature.params.len() - scan.params.len();
        let procedure = Procedure {
            params: signature.params[..declared].iter().map(|p| p.ty).collect(),
            result: signature.results.first().copied(),
            captured: scan.params.clone(),
            batch: batch.clone(),
            emits_in: scan.emits().then_some(self.batches),
        };
        // They live until the end of the session.
        let objects = procedure.captured.iter().filter(|(_, ty)| !self.tables.is_basic(*ty));
        cx.root_set(&self.roots().procedures).extend(objects.map(|(word, _)| *word));
        self.procedures.push(Some(Arc::new(procedure)));
    }

    /// Gives numbers to procedures whose definition was refused. Numbers beyond the limit mean
    /// nothing anyway.
    pub(crate) fn undefined(&mut self, count: usize) {
        let procedures_max = self.limits.size(Limit::Procedures);
        let length = (self.procedures.len() + count).min(procedures_max).max(self.procedures.len());
        self.procedures.resize(length, None);
    }

    /// Runs a procedure by itself.
    pub(crate) fn call_procedure(&mut self, cx: &mut Cx, number: ProcedureNumber, args: Args<'_>) {
        let procedure = match self.procedure(number) {
            Ok(procedure) => procedure,
            Err(kind) => return self.fail_call(1, kind),
        };
        let mut words = Words::new();
        if let Err(kind) = self.arguments(cx, &procedure.params, args, &mut words) {
            return self.fail_call(1, kind);
        }
        if !self.spend(cx, 1) {
            return;
        }
        words.extend(procedure.captured.iter().map(|(word, _)| *word));
        let calls = cx.calls;
        bifrost_actors::number_from(cx, Base::At(self.next()));
        // SAFETY: the arguments were just checked; the captured words have the types they were
        // captured with.
        let end = unsafe { self.tables.engine().run(cx, &procedure.batch, &words) };
        self.batch.calls += cx.calls.saturating_sub(calls);
        let cause = match end {
            BatchEnd::Done(word) => {
                let future = procedure.result.map_or(Future::Nothing, |ty| self.of_type(word, ty));
                return self.make_one(cx, future);
            }
            BatchEnd::Signalled(_) => Cause::Signalled(cx, &procedure.batch.func.signature),
            BatchEnd::Killed(_) => Cause::Killed(cx),
        };
        self.fail_call(1, cause);
    }

    /// Returns the extent of the procedures now.
    pub(crate) fn procedures_extent(&self, cx: &mut Cx) -> Extent {
        Extent { defined: self.procedures.len(), captured: cx.root_set(&self.roots().procedures).len() }
    }

    /// Forgets the procedures that were defined since.
    pub(crate) fn forget_procedures(&mut self, cx: &mut Cx, kept: Extent) {
        self.procedures.truncate(kept.defined);
        self.undone_procedures.retain(|number| (*number as usize) < kept.defined);
        cx.root_set(&self.roots().procedures).truncate(kept.captured);
    }
}
