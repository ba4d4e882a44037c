//! Functions that may wait: methods of actors, and routines that request.
//!
//! The interpreter keeps the variables of such a function in its join ([`bifrost_actors`]).
//! When the function must wait, it unwinds and says at which of its ways in; to go on, it walks
//! down again by that path ([`bifrost_ir::ways`]). So a wait costs the depth of its blocks, and a
//! function that does not wait pays for its join only. Read [`Interp::run_script`] first.

use bifrost_actors::WithActors;
use bifrost_actors::{
    self as actors, Answer, Call, Concerned, Exception, Join, LANDED, Next, Origin, Replier, Verdict,
};
use bifrost_ir::ways::AFRESH;
use bifrost_ir::{MethodId, MethodRef, Site};
use bifrost_runtime::abi::{Outcome, Ret, Word};
use bifrost_runtime::actor_layout::{Due, join};
use bifrost_runtime::cx::stack_pointer;
use bifrost_runtime::engine::Came;
use bifrost_runtime::{Cx, Table};
use smallvec::SmallVec;

use crate::node::{Await, Choice, Create, Destination, Message, Place, Prepared, Request, Select, SelfCall};
use crate::op::OpError;
use crate::run::{Flow, Frame, Interp, Run};

impl Interp {
    /// Runs a function that has a join.
    pub(crate) fn run_script(&self, cx: *mut Cx, running: Join, path: &[u32], came: Option<Came>) -> Ret {
        let func = running.layout().func;
        let prepared = self.func(func);
        let mut run = Run::new(self, cx, std::ptr::null());
        run.path = SmallVec::from_slice(path);
        run.resuming = !path.is_empty();
        run.came = came;
        run.join = Some(running);
        match run.block(prepared, Frame(running.variables()), &prepared.body) {
            Flow::Return => {
                // A method of an actor answers by other statements.
                if running.actor().is_none() && prepared.results > 0 {
                    let result = run.cx().results[0];
                    actors::answer(run.cx(), running, Answer::Value(result));
                }
                Ret::NOTHING
            }
            Flow::Next | Flow::Break | Flow::Continue | Flow::Left => Ret::NOTHING,
            Flow::Raised => Ret::SIGNALLED,
            Flow::Signalled | Flow::Exit => {
                let site = run.failed_site();
                run.cx().failed_at(func, site)
            }
            Flow::Killed => Ret::KILLED,
            Flow::Landed => Ret { outcome: LANDED, value: 0 },
        }
    }
}

impl Run<'_> {
    /// The next step of the way to where the function goes on.
    pub(crate) fn next_step(&mut self) -> u32 {
        let step = self.path.pop().expect("a path leads to a statement that waits");
        if self.path.last() == Some(&AFRESH) {
            self.path.clear();
            self.resuming = false;
        }
        step
    }

    /// Leaves: the caller goes on with the function in this way.
    pub(crate) fn land(&mut self, next: Next) -> Flow {
        self.cx().actors().land(next);
        Flow::Landed
    }

    /// Ends a loop's step: stops so that others run, or has machine code go on, if it is time.
    #[inline]
    pub(crate) fn end_step(&mut self, way: Option<u32>) -> Flow {
        let (Some(way), Some(running)) = (way, self.join) else { return Flow::Next };
        if actors::must_make_way(self.cx()) {
            return self.land(Next::Stop(way));
        }
        match actors::goes_on_as_code(self.cx(), running, way) {
            true => self.land(Next::Way(way)),
            false => Flow::Next,
        }
    }

    /// The join of the function, which may wait.
    fn running(&self) -> Join {
        self.join.expect("a function that may wait has a join")
    }

    /// True if the function goes on right here.
    fn arrived(&mut self) -> bool {
        std::mem::take(&mut self.resuming)
    }

    pub(crate) fn words(&self, frame: Frame, places: &[Place]) -> SmallVec<[Word; 8]> {
        places.iter().map(|place| frame.get(*place)).collect()
    }

    pub(crate) fn create(&mut self, frame: Frame, create: &Create) -> Flow {
        let site = match create.place {
            Destination::Here => actors::Site::Here,
            Destination::On(place) => actors::Site::On(frame.get(place) as i64),
            Destination::Anywhere => actors::Site::Anywhere(stack_pointer()),
        };
        let mut words: SmallVec<[Word; 8]> = SmallVec::new();
        words.push(0);
        words.extend(create.args.iter().map(|place| frame.get(*place)));
        // The function is verified: the class is one of actors, whose creator takes these words,
        // which the frame keeps.
        let ret = actors::create(self.cx(), create.table, create.creator, &mut words, site);
        if !ret.returned() {
            return self.failed(ret, create.site);
        }
        frame.set(create.dst, ret.value);
        Flow::Next
    }

    pub(crate) fn send(&mut self, frame: Frame, sent: &Message) -> Flow {
        if self.client {
            return self.client_send(frame, sent);
        }
        let words = self.words(frame, &sent.args);
        // SAFETY: the function is verified: the receiver is an actor with the method, which takes
        // these words; the frame keeps them.
        let call = unsafe { Call::new(sent.slot, &words) };
        let left = actors::send_past(self.cx(), call);
        let ret = actors::log_sent(self.cx(), sent.method, left);
        if ret.returned() { Flow::Next } else { self.failed(ret, sent.site) }
    }

    /// The outcome of the message of this statement. Sends it, unless it did come back in machine
    /// code already.
    fn came(&mut self, frame: Frame, sent: &Message) -> Came {
        if let Some(came) = self.came.take() {
            self.resuming = false;
            return came;
        }
        let words = self.words(frame, &sent.args);
        // SAFETY: as in `send`.
        let call = unsafe { Call::new(sent.slot, &words) };
        let ret = actors::send(self.cx(), call);
        match ret.outcome() {
            Outcome::Signalled => Came::Exception(self.kept(sent).word()),
            _ => Came::With(ret),
        }
    }

    /// The exception that a message came back with.
    fn kept(&mut self, sent: &Message) -> Exception {
        actors::kept_exception(self.cx(), &Origin::Method(sent.method))
    }

    pub(crate) fn request(&mut self, frame: Frame, request: &Request) -> Flow {
        if self.client {
            return self.client_request(frame, request);
        }
        let sent = &request.message;
        let element = request.element.map_or(0, |place| frame.get(place) as i64);
        let image = self.interp.image().clone();
        // The function is verified: with an element, the variable is an array or vector.
        if request.element.is_some()
            && !self.resuming
            && !actors::has_element(&image, frame.get(request.dst), element)
        {
            return self.op_failed(OpError::Bounds, sent.site);
        }
        let running = self.running();
        let (pending, is_element) = (request.pending, request.element.is_some());
        let ret = match self.came(frame, sent) {
            Came::With(ret) => ret,
            Came::Exception(kept) => {
                let due = Due::new(pending, is_element).of_request(actors::next_request(running));
                // SAFETY: an exception that came is kept.
                actors::note_exception(running, unsafe { Exception::new(kept) }, due);
                return Flow::Next;
            }
        };
        match ret.outcome() {
            Outcome::Returned if is_element => {
                actors::store_element(&image, frame.get(request.dst), element, ret.value);
            }
            Outcome::Returned => frame.set(request.dst, ret.value),
            Outcome::Pending => {
                let element = is_element.then_some(element);
                actors::pend(self.cx(), running, actors::owing_of(ret), pending, element);
            }
            _ => return self.failed(ret, sent.site),
        }
        Flow::Next
    }

    pub(crate) fn wait(&mut self, wait: &Await) -> Flow {
        self.arrived();
        let (pending, waiter) = (&wait.pending, self.running());
        let layout = waiter.layout();
        if pending.iter().any(|at| waiter.count(layout, *at) > 0) {
            let way = wait.way.expect("only functions that may wait have something pending");
            return self.land(Next::Stop(way));
        }
        let concerns = |due: Due, before: bool| {
            let at = due.pending();
            pending.contains(&at).then(|| Concerned {
                raised: !before || wait.read.contains(&at),
                // An element has the value that it had.
                stays: wait.kept.contains(&at) && !due.is_element(),
            })
        };
        match actors::first_exception(waiter, &concerns) {
            Some(kept) => {
                let ret = actors::raise_kept(self.cx(), kept);
                self.failed(ret, wait.site)
            }
            None => Flow::Next,
        }
    }

    pub(crate) fn reply(&mut self, frame: Frame, value: Option<Place>) -> Flow {
        let value = value.map_or(0, |place| frame.get(place));
        let running = self.running();
        actors::answer(self.cx(), running, Answer::Value(value));
        Flow::Next
    }

    pub(crate) fn delegate(&mut self, frame: Frame, sent: &Message) -> Flow {
        let running = self.running();
        let ret = match self.came(frame, sent) {
            Came::With(ret) => ret,
            Came::Exception(kept) => {
                // SAFETY: an exception that came is kept.
                let kept = unsafe { Exception::new(kept) };
                actors::answer(self.cx(), running, Answer::Exception(kept));
                return Flow::Next;
            }
        };
        match ret.outcome() {
            Outcome::Returned => actors::answer(self.cx(), running, Answer::Value(ret.value)),
            Outcome::Pending => {
                let ret = actors::delegate_early(self.cx(), running, actors::owing_of(ret));
                if !ret.returned() {
                    return self.failed(ret, sent.site);
                }
            }
            _ => return self.failed(ret, sent.site),
        }
        Flow::Next
    }

    pub(crate) fn reply_to(&mut self, frame: Frame, table: &'static Table, dst: Place, site: Site) -> Flow {
        let running = self.running();
        let made = match actors::new_replier(self.cx(), table) {
            Ok(made) => made,
            Err(ret) => return self.failed(ret, site),
        };
        actors::delegate(self.cx(), running, made.owing());
        frame.set(dst, made.word());
        Flow::Next
    }

    pub(crate) fn deliver(&mut self, frame: Frame, replier: Place, value: Option<Place>) -> Flow {
        let value = value.map_or(0, |place| frame.get(place));
        // SAFETY: the function is verified: the word is a replier, whose answers have the value's
        // type.
        let replier = unsafe { Replier::new(frame.get(replier)) };
        let ret = actors::deliver_now(self.cx(), replier, value);
        if ret.returned() { Flow::Next } else { Flow::Killed }
    }

    pub(crate) fn self_call(&mut self, frame: Frame, call: &SelfCall) -> Flow {
        let waiter = self.running();
        let came = self.came.take();
        if self.arrived() && came.is_none() {
            return self.called(call.site);
        }
        let ret = match came {
            // An outcome from its code is a call that waits in a join of its own.
            Some(Came::With(ret)) => {
                // SAFETY: as the outcome says.
                let called = unsafe { Join::new(ret.value) };
                called.set_flags(called.flags() | join::NESTED);
                ret
            }
            _ => {
                // The function is verified: the words are those that the method takes, and the
                // frame keeps them.
                let words = self.words(frame, &call.args);
                let bound = match call.way {
                    Some(_) => waiter.flags() & join::BOUND,
                    None => join::BOUND,
                };
                actors::begin(self.cx(), call.func, &words, join::NESTED | bound)
            }
        };
        match ret.outcome() {
            Outcome::Returned => frame.set(call.dst, ret.value),
            Outcome::Pending => {
                waiter.set_missing(1);
                waiter.set_awaited(0);
                let due = Due::new(Due::CALL, false);
                waiter.set_flags(waiter.flags() & !join::SELECTS);
                let to = Some(waiter.party());
                actors::owe(self.cx(), actors::owing_of(ret), to, due, i64::from(call.dst));
                // The object that took the place of the answer may have given it already.
                return match waiter.missing() {
                    0 => self.called(call.site),
                    _ => self.land(Next::Stop(
                        call.way.expect("what is called in a loop's body waits for nothing"),
                    )),
                };
            }
            _ => return self.failed(ret, call.site),
        }
        Flow::Next
    }

    /// A call on itself has ended: its result is in its variable, unless an exception came in its
    /// place.
    fn called(&mut self, site: Site) -> Flow {
        let concerns = |due: Due, _| due.is_call().then_some(Concerned { raised: true, stays: false });
        match actors::first_exception(self.running(), &concerns) {
            Some(kept) => {
                let ret = actors::raise_kept(self.cx(), kept);
                self.failed(ret, site)
            }
            None => Flow::Next,
        }
    }

    pub(crate) fn select(&mut self, function: &Prepared, frame: Frame, select: &Select) -> Flow {
        let running = self.running();
        if self.resuming && !self.path.is_empty() {
            let arm = self.next_step();
            return self.arm(function, frame, select, arm as usize);
        }
        let first = !self.arrived();
        let (taken, chosen) = match self.take(function, frame, select) {
            Ok(taken) => taken,
            Err(ret) => return self.failed(ret, select.site),
        };
        if let (Some(taken), Some(at)) = (taken, chosen) {
            self.selected();
            for (place, word) in select.arms[at].vars.iter().zip(&taken.words()[1..]) {
                frame.set(*place, *word);
            }
            actors::begin_arm(running, taken);
            return self.arm(function, frame, select, at);
        }
        let limit = select.after.as_ref().map(|(limit, _)| frame.get(*limit) as i64);
        if running.has(join::LATE) || first && limit.is_some_and(|limit| limit <= 0) {
            self.selected();
            return self.arm(function, frame, select, select.arms.len());
        }
        if first {
            actors::start_timer(self.cx(), running, limit);
        }
        let takes = select.arms.iter().fold(0_u64, |all, arm| all | 1 << actors::bit_of(arm.method));
        running.set_missing(takes);
        running.set_flags(running.flags() | join::SELECTS);
        self.land(Next::Stop(select.way))
    }

    /// Takes the oldest message that an arm of a selection takes, with the arm. The caller keeps it
    /// by the arm.
    fn take(
        &mut self,
        function: &Prepared,
        frame: Frame,
        select: &Select,
    ) -> Result<(Option<actors::Message>, Option<usize>), Ret> {
        let actor = self.running().actor().expect("only methods of actors select");
        let mut methods: SmallVec<[MethodId; 8]> = SmallVec::new();
        for arm in &select.arms {
            if !methods.contains(&arm.method) {
                methods.push(arm.method);
            }
        }
        let mut chosen = None;
        // SAFETY: the context lives during the run, and `self` does not use it meanwhile.
        let cx = unsafe { &mut *self.cx };
        let taken = actors::take_message(cx, actor, &mut methods.into_iter(), &mut |cx, method, sent| {
            for (at, arm) in select.arms.iter().enumerate().filter(|(_, arm)| arm.method == method) {
                if actors::refused(cx, actor.class(), sent.call_at(arm.slot))? {
                    return Ok(Verdict::Refuses);
                }
                if self.fits(function, frame, arm, sent.words())? {
                    chosen = Some(at);
                    return Ok(Verdict::Takes);
                }
            }
            Ok(Verdict::Refuses)
        });
        Ok((taken?.map(|(_, taken)| taken), chosen))
    }

    /// The selection is over.
    fn selected(&mut self) {
        let running = self.running();
        if running.has(join::SELECTS) {
            actors::end_timer(self.cx(), running);
        }
        running.set_flags(running.flags() & !(join::SELECTS | join::LATE));
        running.set_awaited(0);
    }

    /// The exception under way, of a method of the actor.
    fn kept_of(&mut self, method: MethodId) -> Exception {
        let ty = self.running().actor().expect("only methods of actors select").ty();
        actors::kept_exception(self.cx(), &Origin::Method(MethodRef { ty, method }))
    }

    /// True if an arm takes a message. A condition that fails takes none.
    fn fits(&mut self, function: &Prepared, frame: Frame, arm: &Choice, words: &[Word]) -> Result<bool, Ret> {
        for (place, word) in arm.vars.iter().zip(&words[1..]) {
            frame.set(*place, *word);
        }
        match self.block(function, frame, &arm.cond) {
            Flow::Next => Ok(frame.get(arm.test) != 0),
            Flow::Killed => Err(Ret::KILLED),
            _ => {
                self.failed = false;
                let kept = self.kept_of(arm.method);
                actors::log_lost(self.cx(), kept);
                Ok(false)
            }
        }
    }

    /// Runs an arm, or the arm for the time limit, or goes on in it.
    fn arm(&mut self, function: &Prepared, frame: Frame, select: &Select, at: usize) -> Flow {
        let Some(arm) = select.arms.get(at) else {
            let Some((_, block)) = &select.after else { return Flow::Next };
            return self.block(function, frame, block);
        };
        let flow = self.block(function, frame, &arm.body);
        if flow == Flow::Landed {
            return flow;
        }
        // No exception leaves an arm: it answers the message, and the method goes on behind the
        // selection.
        let running = self.running();
        if matches!(flow, Flow::Signalled | Flow::Raised | Flow::Exit) {
            if flow != Flow::Raised {
                let site = self.failed_site();
                let func = running.layout().func;
                self.cx().failed_at(func, site);
            }
            let kept = self.kept_of(arm.method);
            let _kept = self.cx().keep(kept.word());
            if actors::is_answered(running) {
                actors::log_lost(self.cx(), kept);
            }
            self.failed = false;
            actors::end_arm(self.cx(), running, Answer::Exception(kept));
            return Flow::Next;
        }
        actors::end_arm(self.cx(), running, Answer::Value(0));
        flow
    }
}
