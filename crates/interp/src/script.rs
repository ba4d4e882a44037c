//! Functions that may wait: methods of actors, and routines that request.
//!
//! The interpreter keeps the variables of such a function in its join ([`bifrost_actors`]).
//! When the function must wait, it unwinds and says at which of its ways in; to go on, it walks
//! down again by that path ([`bifrost_ir::ways`]). So a wait costs the depth of its blocks, and a
//! function that does not wait pays for its join only. Read [`Interp::run_script`] first.

use bifrost_actors::{self as actors, Answer, Concerned, LANDED, Next, Origin, Verdict, WithActors};
use bifrost_ir::MethodRef;
use bifrost_ir::ways::AFRESH;
use bifrost_runtime::abi::{Outcome, Ret, Word};
use bifrost_runtime::actor_layout::{Due, join};
use bifrost_runtime::cx::stack_pointer;
use bifrost_runtime::engine::Came;
use bifrost_runtime::object::{get, set};
use bifrost_runtime::{Cx, Table};
use smallvec::SmallVec;

use crate::node::{Await, Choice, Create, Destination, Message, Place, Prepared, Request, Select, SelfCall};
use crate::op::OpError;
use crate::run::{Flow, Frame, Interp, Run};

impl Interp {
    /// Runs a function that has a join.
    ///
    /// # Safety
    /// As for [`Interpreter::go_on`](bifrost_runtime::engine::Interpreter::go_on).
    pub(crate) unsafe fn run_script(
        &self,
        cx: *mut Cx,
        running: Word,
        path: &[u32],
        came: Option<Came>,
    ) -> Ret {
        // SAFETY: promised by the caller: the join has room for the variables.
        unsafe {
            let prepared = self.func(actors::layout_of(running).func);
            let mut run = Run::new(self, cx, std::ptr::null());
            run.path = SmallVec::from_slice(path);
            run.resuming = !path.is_empty();
            run.came = came;
            run.join = running;
            let words = (running as *mut Word).add(bifrost_heap::OBJECT_WORDS + join::WORDS);
            match run.block(prepared, Frame(words), &prepared.body) {
                Flow::Return => {
                    // A method of an actor answers by other statements.
                    if get(running, join::ACTOR) == 0 && prepared.results > 0 {
                        actors::answer(cx, running, Answer::Value((*cx).results[0]));
                    }
                    Ret::NOTHING
                }
                Flow::Next | Flow::Break | Flow::Continue | Flow::Left => Ret::NOTHING,
                Flow::Raised => Ret::SIGNALLED,
                Flow::Signalled | Flow::Exit => (*cx).unhandled(),
                Flow::Killed => Ret::KILLED,
                Flow::Landed => Ret { outcome: LANDED, value: 0 },
            }
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
        let Some(way) = way.filter(|_| self.join != 0) else { return Flow::Next };
        if actors::must_make_way(self.cx()) {
            return self.land(Next::Stop(way));
        }
        // SAFETY: the join is that of the function whose loop this is.
        match unsafe { actors::goes_on_as_code(self.cx, self.join, way) } {
            true => self.land(Next::Way(way)),
            false => Flow::Next,
        }
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
        // SAFETY: the function is verified: the class is one of actors, whose creator takes these
        // words, which the frame keeps.
        let ret = unsafe { actors::create(self.cx, create.table, create.creator, &mut words, site) };
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
        let ret = unsafe {
            let left = actors::send_past(self.cx, sent.slot, &words);
            actors::log_sent(self.cx, sent.method, left)
        };
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
        let ret = unsafe { actors::send(self.cx, sent.slot, &words) };
        match Outcome::from(ret) {
            Outcome::Signalled => Came::Exception(self.kept(sent)),
            _ => Came::With(ret),
        }
    }

    /// The exception that a message came back with.
    fn kept(&mut self, sent: &Message) -> Word {
        actors::kept_exception(self.cx(), &Origin::Method(sent.method))
    }

    pub(crate) fn request(&mut self, frame: Frame, request: &Request) -> Flow {
        if self.client {
            return self.client_request(frame, request);
        }
        let sent = &request.message;
        let element = request.element.map_or(0, |place| frame.get(place) as i64);
        let image = self.interp.image().clone();
        if request.element.is_some() && !self.resuming {
            // SAFETY: the function is verified: with an element, the variable is an array or
            // vector.
            let there = unsafe { actors::has_element(&image, frame.get(request.dst), element) };
            if !there {
                return self.op_failed(OpError::Bounds, sent.site);
            }
        }
        // SAFETY: the join is this function's, which has the element.
        unsafe {
            let (pending, is_element) = (request.pending, request.element.is_some());
            let ret = match self.came(frame, sent) {
                Came::With(ret) => ret,
                Came::Exception(kept) => {
                    let request = actors::next_request(self.join);
                    actors::note_exception(
                        self.join,
                        kept,
                        Due::new(pending, is_element).of_request(request),
                    );
                    return Flow::Next;
                }
            };
            match Outcome::from(ret) {
                Outcome::Returned if is_element => {
                    actors::store_element(&image, frame.get(request.dst), element, ret.value);
                }
                Outcome::Returned => frame.set(request.dst, ret.value),
                Outcome::Pending => {
                    actors::pend(self.cx, self.join, ret.value, pending, is_element.then_some(element));
                }
                _ => return self.failed(ret, sent.site),
            }
        }
        Flow::Next
    }

    pub(crate) fn wait(&mut self, wait: &Await) -> Flow {
        self.arrived();
        let (pending, waiter) = (&wait.pending, self.join);
        // SAFETY: the join is this function's.
        unsafe {
            let counts = actors::layout_of(waiter).counts;
            if pending.iter().any(|at| get(waiter, counts + usize::from(*at)) > 0) {
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
    }

    pub(crate) fn reply(&mut self, frame: Frame, value: Option<Place>) -> Flow {
        let value = value.map_or(0, |place| frame.get(place));
        // SAFETY: the join is this function's.
        unsafe { actors::answer(self.cx, self.join, Answer::Value(value)) };
        Flow::Next
    }

    pub(crate) fn delegate(&mut self, frame: Frame, sent: &Message) -> Flow {
        // SAFETY: the join is this function's.
        unsafe {
            let ret = match self.came(frame, sent) {
                Came::With(ret) => ret,
                Came::Exception(kept) => {
                    actors::answer(self.cx, self.join, Answer::Exception(kept));
                    return Flow::Next;
                }
            };
            match Outcome::from(ret) {
                Outcome::Returned => actors::answer(self.cx, self.join, Answer::Value(ret.value)),
                Outcome::Pending => {
                    let ret = actors::delegate_early(self.cx, self.join, ret.value);
                    if !ret.returned() {
                        return self.failed(ret, sent.site);
                    }
                }
                _ => return self.failed(ret, sent.site),
            }
        }
        Flow::Next
    }

    pub(crate) fn reply_to(
        &mut self,
        frame: Frame,
        table: &'static Table,
        dst: Place,
        site: bifrost_ir::Site,
    ) -> Flow {
        // SAFETY: the join is this function's, and the table one of places of answers.
        let ret = unsafe { actors::new_replier(self.cx, table) };
        if !ret.returned() {
            return self.failed(ret, site);
        }
        // SAFETY: as above.
        unsafe { actors::delegate(self.cx, self.join, ret.value) };
        frame.set(dst, ret.value);
        Flow::Next
    }

    pub(crate) fn deliver(&mut self, frame: Frame, replier: Place, value: Option<Place>) -> Flow {
        let value = value.map_or(0, |place| frame.get(place));
        // SAFETY: the function is verified: the word is a replier, whose answers have the value's
        // type.
        let ret = unsafe { actors::deliver_now(self.cx, frame.get(replier), value) };
        if ret.returned() { Flow::Next } else { Flow::Killed }
    }

    pub(crate) fn self_call(&mut self, frame: Frame, call: &SelfCall) -> Flow {
        let waiter = self.join;
        let came = self.came.take();
        if self.arrived() && came.is_none() {
            return self.called(call.site);
        }
        // SAFETY: the function is verified: the words are what the method takes, and the frame
        // keeps them.
        unsafe {
            let ret = match came {
                // An outcome from its code is a call that waits in a join of its own.
                Some(Came::With(ret)) => {
                    let flags = get(ret.value, join::FLAGS);
                    set(ret.value, join::FLAGS, flags | join::NESTED);
                    ret
                }
                _ => {
                    let words = self.words(frame, &call.args);
                    let bound = match call.way {
                        Some(_) => get(waiter, join::FLAGS) & join::BOUND,
                        None => join::BOUND,
                    };
                    actors::begin(self.cx, call.func, &words, join::NESTED | bound)
                }
            };
            match Outcome::from(ret) {
                Outcome::Returned => frame.set(call.dst, ret.value),
                Outcome::Pending => {
                    set(waiter, join::MISSING, 1);
                    set(waiter, join::AWAITED, 0);
                    let due = Due::new(Due::CALL, false);
                    set(waiter, join::FLAGS, get(waiter, join::FLAGS) & !join::SELECTS);
                    actors::owe(self.cx, ret.value, waiter, due, i64::from(call.dst));
                    // The object that took the place of the answer may have given it already.
                    return match get(waiter, join::MISSING) {
                        0 => self.called(call.site),
                        _ => self.land(Next::Stop(
                            call.way.expect("what is called in a loop's body waits for nothing"),
                        )),
                    };
                }
                _ => return self.failed(ret, call.site),
            }
        }
        Flow::Next
    }

    /// A call on itself has ended: its result is in its variable, unless an exception came in its
    /// place.
    fn called(&mut self, site: bifrost_ir::Site) -> Flow {
        let concerns = |due: Due, _| due.is_call().then_some(Concerned { raised: true, stays: false });
        // SAFETY: the join is this function's.
        match unsafe { actors::first_exception(self.join, &concerns) } {
            Some(kept) => {
                let ret = actors::raise_kept(self.cx(), kept);
                self.failed(ret, site)
            }
            None => Flow::Next,
        }
    }

    pub(crate) fn select(&mut self, function: &Prepared, frame: Frame, select: &Select) -> Flow {
        let running = self.join;
        if self.resuming && !self.path.is_empty() {
            let arm = self.next_step();
            return self.arm(function, frame, select, arm as usize);
        }
        let first = !self.arrived();
        // SAFETY: the join is this function's, and an actor's; what is taken from the queue is kept
        // by its arm.
        unsafe {
            let actor = get(running, join::ACTOR);
            let mut chosen = None;
            let found = {
                let mut methods = select.arms.iter().map(|arm| arm.method);
                let mut seen: SmallVec<[bifrost_ir::MethodId; 8]> = SmallVec::new();
                let mut methods = methods.by_ref().filter(|method| {
                    let new = !seen.contains(method);
                    seen.push(*method);
                    new
                });
                actors::take_message(self.cx, actor, &mut methods, &mut |cx, method, sent| {
                    let words = actors::words_of(sent);
                    for (at, arm) in select.arms.iter().enumerate().filter(|(_, arm)| arm.method == method) {
                        if actors::refused(cx, actors::class_of(actor), arm.slot, words)? {
                            return Ok(Verdict::Refuses);
                        }
                        if self.fits(function, frame, arm, words)? {
                            chosen = Some(at);
                            return Ok(Verdict::Takes);
                        }
                    }
                    Ok(Verdict::Refuses)
                })
            };
            let taken = match found {
                Ok(taken) => taken,
                Err(ret) => return self.failed(ret, select.site),
            };
            if let (Some((_, taken)), Some(at)) = (taken, chosen) {
                self.selected();
                let words = actors::words_of(taken);
                for (place, word) in select.arms[at].vars.iter().zip(&words[1..]) {
                    frame.set(*place, *word);
                }
                actors::begin_arm(running, taken);
                return self.arm(function, frame, select, at);
            }
            let flags = get(running, join::FLAGS);
            let limit = select.after.as_ref().map(|(limit, _)| frame.get(*limit) as i64);
            if flags & join::LATE != 0 || first && limit.is_some_and(|limit| limit <= 0) {
                self.selected();
                return self.arm(function, frame, select, select.arms.len());
            }
            if first {
                actors::start_timer(self.cx, running, limit);
            }
            let takes = select.arms.iter().fold(0_u64, |all, arm| all | 1 << actors::bit_of(arm.method));
            set(running, join::MISSING, takes);
            set(running, join::FLAGS, flags | join::SELECTS);
            self.land(Next::Stop(select.way))
        }
    }

    /// The selection is over.
    unsafe fn selected(&mut self) {
        // SAFETY: promised by the caller: the join is this function's.
        unsafe {
            let flags = get(self.join, join::FLAGS);
            if flags & join::SELECTS != 0 {
                actors::end_timer(self.cx, self.join);
            }
            set(self.join, join::FLAGS, flags & !(join::SELECTS | join::LATE));
            set(self.join, join::AWAITED, 0);
        }
    }

    /// The exception under way, of a method of the actor.
    fn kept_of(&mut self, method: bifrost_ir::MethodId) -> Word {
        // SAFETY: the join is that of an actor's method.
        let ty = unsafe { Table::of(get(self.join, join::ACTOR)) }.info().ty;
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
        // selection. SAFETY: the join is this function's, and the arm's message is under way.
        unsafe {
            if matches!(flow, Flow::Signalled | Flow::Raised | Flow::Exit) {
                if flow != Flow::Raised {
                    self.cx().unhandled();
                }
                let kept = self.kept_of(arm.method);
                let _kept = self.cx().keep(kept);
                if actors::is_answered(self.join) {
                    actors::log_lost(self.cx(), kept);
                }
                self.failed = false;
                actors::end_arm(self.cx, self.join, Answer::Exception(kept));
                return Flow::Next;
            }
            actors::end_arm(self.cx, self.join, Answer::Value(0));
        }
        flow
    }
}
