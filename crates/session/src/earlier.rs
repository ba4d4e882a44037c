//! The results of batches that are answered, which the next batches may name.
//!
//! A client may send batches before the earlier ones are answered, so that a slow link costs one
//! delay, and not one for each batch. It has no handles then, and names the results by the number
//! of batches back and their positions ([`Earlier`]).
//!
//! - `flush` says if its results may be named, and how many batches before it are unanswered: older
//!   ones are forgotten.
//! - Only results that a `flush` has asked for are kept.
//! - [`Limit::BatchesUnderWay`] bounds the batches, and [`Limit::Futures`] the results of all of
//!   them: the oldest batches are forgotten first.
//!
//! The objects among the results are in a root set, oldest first.

use std::collections::VecDeque;

use bifrost_runtime::abi::Word;
use bifrost_runtime::{Cx, UNDONE};
use bifrost_wire::command::Ranges;
use bifrost_wire::{Earlier, ErrorNumber, Limit};

use crate::calls::Operand;
use crate::failures::{Failure, FailureKind};
use crate::futures::Future;
use crate::session::Session;

/// A batch that is answered.
#[derive(Debug, Default)]
struct Kept {
    /// The results by position. A failed one has the position of its call, and not of the failure.
    results: Vec<(u32, Future)>,
    /// The number of objects among them.
    objects: usize,
    /// The call that has ended the batch: results that are not here were not reached.
    ended: Option<u32>,
    /// True if the batch was carried out before, so that its results are not known.
    repeated: bool,
}

/// The batches whose results may be named, the newest first.
#[derive(Debug, Default)]
pub(crate) struct EarlierBatches {
    batches: VecDeque<Kept>,
    /// The number of results of all of them.
    results: usize,
}

impl EarlierBatches {
    /// Forgets the oldest batches until `most` batches with `results` results are left.
    fn shrink(&mut self, most: usize, results: usize, roots: &mut Vec<Word>) {
        let mut objects = 0;
        while self.batches.len() > most || self.results > results {
            let Some(oldest) = self.batches.pop_back() else { break };
            self.results -= oldest.results.len();
            objects += oldest.objects;
        }
        roots.drain(..objects);
    }

    /// Marks the objects of which `undone` says that an aborted transaction made them.
    pub fn undo(&mut self, undone: impl Fn(Word) -> bool) {
        for (_, future) in self.batches.iter_mut().flat_map(|kept| &mut kept.results) {
            if matches!(future, Future::Object(word, _) if undone(*word)) {
                *future = Future::Undone;
            }
        }
    }
}

impl Session {
    /// Keeps the wanted results of the batch that is answered now, as its `flush` says.
    pub(crate) fn keep_results(
        &mut self,
        cx: &mut Cx,
        wanted: Ranges<'_>,
        kept: Option<u8>,
        failures: &[Failure],
    ) {
        if kept.is_none() && self.earlier.batches.is_empty() {
            return;
        }
        let mut batch = Kept::default();
        if kept.is_some() {
            let call = |index: usize| failures.get(index).map_or(0, |failure| failure.place.call);
            let known = |position: u32| {
                let future = *self.batch.futures.get(position as usize - 1)?;
                match future {
                    Future::Failed(index) => Some((position, Future::Failed(call(index as usize)))),
                    Future::Inner | Future::Open(..) => None,
                    future => Some((position, future)),
                }
            };
            batch.results = wanted.positions().filter_map(known).collect();
            batch.ended = self.batch.dead.then(|| call(failures.len().wrapping_sub(1)));
        }
        self.keep(cx, batch, kept);
    }

    /// Notes a batch that was carried out before: nothing can name its results.
    pub(crate) fn keep_none(&mut self, cx: &mut Cx, kept: Option<u8>) {
        self.keep(cx, Kept { repeated: true, ..Kept::default() }, kept);
    }

    fn keep(&mut self, cx: &mut Cx, mut batch: Kept, kept: Option<u8>) {
        let roots = cx.root_set(&self.roots.as_ref().expect("made before anything runs").earlier);
        let Some(unanswered) = kept else { return self.earlier.shrink(0, 0, roots) };
        let most = self.limits.size(Limit::BatchesUnderWay).min(usize::from(u8::MAX));
        self.earlier.shrink(usize::from(unanswered), usize::MAX, roots);
        for (_, future) in &batch.results {
            if let Future::Object(word, _) = future {
                roots.push(*word);
                batch.objects += 1;
            }
        }
        self.earlier.results += batch.results.len();
        self.earlier.batches.push_front(batch);
        self.earlier.shrink(most, self.limits.size(Limit::Futures), roots);
    }

    /// Returns the operand of a result of an earlier batch; `argument` is for the failure.
    #[cold]
    pub(crate) fn resolve_earlier(&self, earlier: Earlier, argument: u32) -> Result<Operand, FailureKind> {
        let Earlier { back, position } = earlier;
        let bad = |text: String| Err(FailureKind::refused(ErrorNumber::BadFuture, text));
        let Some(kept) = self.earlier.batches.get(usize::from(back).wrapping_sub(1)) else {
            let most = self.earlier.batches.len();
            return bad(format!("{earlier} is not kept; the number of batches that are: {most}"));
        };
        if kept.repeated {
            let text = "the batch was carried out before, and its results cannot be named";
            return Err(FailureKind::refused(ErrorNumber::Repeated, text));
        }
        let known = kept.results.binary_search_by_key(&position, |(at, _)| *at).ok();
        match known.and_then(|at| kept.results.get(at)).map(|(_, future)| *future) {
            Some(Future::Object(word, ty)) => Ok(Operand { word, ty, object: true }),
            Some(Future::Basic(word, ty)) => Ok(Operand { word, ty, object: false }),
            Some(Future::Nothing) => bad(format!("{earlier} has no result")),
            Some(Future::Failed(cause)) => Err(FailureKind::Unhandled { argument, back, cause }),
            Some(Future::Undone) => Err(FailureKind::refused(ErrorNumber::NoSuchHandle, UNDONE)),
            Some(Future::Rows(_)) => {
                bad(format!("{earlier} is a table of rows, which has ended with its batch"))
            }
            Some(Future::Contents(_)) => {
                bad(format!("{earlier} is a value that `get` has taken, which only `flush` can name"))
            }
            None | Some(Future::Inner | Future::Open(..)) => match kept.ended {
                Some(cause) => Err(FailureKind::Unhandled { argument, back, cause }),
                None => bad(format!("{earlier} was not wanted by the `flush` of its batch")),
            },
        }
    }
}
