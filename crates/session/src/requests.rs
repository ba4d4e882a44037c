//! Requests to actors: sent when they come, joined where their answers are needed
//! (`docs/internals/nodes.md`).
//!
//! A call of an actor's method is a message. Its future is *open* until a command needs it: another
//! call that names it, the test of a structure, `commit`, or the end of the batch; there the
//! session waits. So requests of a batch that do not need each other run at once. They are no part
//! of the transaction.

use bifrost_actors::{self as actors, Asked, Call, Wanted};
use bifrost_ir::MethodRef;
use bifrost_runtime::abi::Word;
use bifrost_runtime::{Cx, Ret};
use bifrost_wire::{Command, Ref};
use smallvec::SmallVec;

use crate::causes::Cause;
use crate::failures::Place;
use crate::futures::Future;
use crate::session::Session;
use crate::tables::MethodRow;

impl Session {
    /// Sends a message whose operands were checked; with `awaited` a request.
    pub(crate) fn ask(&mut self, cx: &mut Cx, row: &MethodRow, slot: u32, words: &[Word], awaited: bool) {
        let wanted = if awaited { Wanted::Answer } else { Wanted::Nothing };
        let asked = Asked { call: self.next(), rounds: SmallVec::new() };
        // SAFETY: the receiver and the arguments were just checked against the method's heading;
        // what they refer to is held by the batch and the handles.
        let call = unsafe { Call::new(slot, words) };
        match actors::ask(cx, row.method, call, asked, wanted) {
            Ok(number) if awaited => self.make_one(cx, Future::Open(number, row.method)),
            Ok(_) => self.make_one(cx, Future::Nothing),
            Err(ret) => self.finished(cx, row, ret),
        }
    }

    /// Joins the futures that a command needs.
    pub(crate) fn join_operands(&mut self, cx: &mut Cx, command: &Command<'_>) {
        command.each_reference(|reference| self.join_one(cx, reference));
    }

    /// Waits for the future of a reference, if it is open.
    fn join_one(&mut self, cx: &mut Cx, reference: Ref) {
        if let Some(position) = reference.position() {
            self.join_future(cx, position);
        }
    }

    /// Waits for a future, if it is open.
    pub(crate) fn join_future(&mut self, cx: &mut Cx, position: u32) {
        let at = position as usize - 1;
        let Some(Future::Open(number, method)) = self.batch.futures.get(at).copied() else { return };
        if self.batch.dead {
            self.batch.futures[at] = Future::Inner;
            return;
        }
        let ret = actors::join(cx, number);
        let future = self.joined(cx, method, ret, Place::of(position));
        if let Future::Object(word, _) = future {
            self.hold(cx, word);
        }
        self.batch.futures[at] = future;
    }

    /// Turns an answer into the future of the batch.
    fn joined(&mut self, cx: &mut Cx, method: MethodRef, ret: Ret, place: Place) -> Future {
        let heading = &self.tables.engine().program().types.method(method).signature;
        if !ret.returned() {
            return Future::Failed(self.fail_at(place, Cause::of(cx, ret, heading)));
        }
        heading.results.first().map_or(Future::Nothing, |ty| self.of_type(ret.value, *ty))
    }

    /// Waits for all that is open, in the order in which it was asked.
    pub(crate) fn join_all(&mut self, cx: &mut Cx) {
        if !bifrost_actors::has_open_requests(cx) {
            return;
        }
        let open = |future: &Future| matches!(future, Future::Open(..));
        let positions: Vec<usize> = self
            .batch
            .futures
            .iter()
            .enumerate()
            .filter(|(_, future)| open(future))
            .map(|(at, _)| at)
            .collect();
        for at in positions {
            self.join_future(cx, at as u32 + 1);
        }
        if self.batch.dead {
            return;
        }
        // Requests of structures that nothing in them needed.
        let failed = match actors::open_requests(cx) {
            Ok(failed) => failed,
            Err(_) => {
                self.fail_here(Cause::Killed(cx));
                return;
            }
        };
        for (number, method, asked) in failed {
            // SAFETY: as above.
            let ret = actors::join(cx, number);
            self.joined(cx, method, ret, Place { call: asked.call, iterations: asked.rounds });
        }
    }
}
