//! Requests of code that clients send (`docs/book/language/objects.md`): they wait on the session's
//! stack, where their replies are needed.

use bifrost_actors::{self as actors, Call, Wanted};
use bifrost_ir::Site;
use bifrost_runtime::abi::{Outcome, Ret};
use bifrost_runtime::cx::Kill;
use smallvec::SmallVec;

use crate::node::{Message, Place, Request};
use crate::run::{Flow, Frame, Run};

/// A request whose reply is awaited in the function that has sent it.
#[derive(Debug)]
pub(crate) struct OpenRequest {
    /// The activation.
    frame: Frame,
    /// The variable, as waits name it, and its place.
    pending: u16,
    dst: Place,
    number: u64,
    site: Site,
    rounds: SmallVec<[u32; 4]>,
}

/// The place at which the client sees code that runs in a procedure: the call of that, and the
/// number of loops around it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outer {
    pub site: Site,
    pub loops: usize,
}

impl Run<'_> {
    fn ask(&mut self, frame: Frame, sent: &Message, wanted: Wanted) -> Result<u64, Ret> {
        let words = self.words(frame, &sent.args);
        let (site, rounds) = match self.outer {
            Some(outer) => (outer.site, &self.rounds[..outer.loops]),
            None => (sent.site, &self.rounds[..]),
        };
        // SAFETY: the context is alive during the run. The function is verified: the receiver is an
        // actor with the method, which takes these words; the frame keeps them.
        unsafe {
            (*self.cx).calls += 1;
            (*self.cx).fuel -= 1;
            if (*self.cx).fuel < 0 {
                return Err((*self.cx).kill(Kill::Fuel));
            }
            let asked = actors::asked_at(&mut *self.cx, site.0, rounds);
            actors::ask(&mut *self.cx, sent.method, Call::new(sent.slot, &words), asked, wanted)
        }
    }

    pub(crate) fn client_send(&mut self, frame: Frame, sent: &Message) -> Flow {
        match self.ask(frame, sent, Wanted::Nothing) {
            Ok(_) => Flow::Next,
            Err(ret) => self.failed(ret, sent.site),
        }
    }

    pub(crate) fn client_request(&mut self, frame: Frame, request: &Request) -> Flow {
        let wanted = if request.awaited { Wanted::Answer } else { Wanted::Failure };
        let site = request.message.site;
        let number = match self.ask(frame, &request.message, wanted) {
            Ok(number) => number,
            Err(ret) => return self.failed(ret, site),
        };
        if request.awaited {
            let (pending, dst, rounds) = (request.pending, request.dst, self.rounds.clone());
            self.open.push(OpenRequest { frame, pending, dst, number, site, rounds });
        }
        Flow::Next
    }

    /// Waits for replies. Of several that are exceptions the first is raised.
    pub(crate) fn client_wait(&mut self, frame: Frame, pending: &[u16]) -> Flow {
        let own = |open: &OpenRequest| open.frame.0 == frame.0 && pending.contains(&open.pending);
        while let Some(at) = self.open.iter().position(own) {
            let open = self.open.remove(at);
            let ret = actors::join(self.cx(), open.number);
            if ret.outcome() != Outcome::Returned {
                let flow = self.failed(ret, open.site);
                self.failed_in = Some(open.rounds);
                return flow;
            }
            frame.set(open.dst, ret.value);
        }
        Flow::Next
    }

    /// Ends an activation. Of requests that it has not waited for only exceptions are of use, at
    /// the end of the batch.
    pub(crate) fn close(&mut self, frame: Frame) {
        // SAFETY: the context is alive during the run.
        let cx = unsafe { &mut *self.cx };
        self.open.retain(|open| {
            let other = open.frame.0 != frame.0;
            if !other {
                actors::need_no_value(cx, open.number);
            }
            other
        });
    }
}
