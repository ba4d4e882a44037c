//! Functions that may wait: methods of actors, and routines that request.
//!
//! Such a function has its variables in its join ([`bifrost_runtime::actor`]) from the start. When it must wait, it unwinds and notes on
//! its way out in which statement of each block it is; to go on, it walks down again by that path. So a wait costs the depth of
//! its blocks, and a function that does not wait pays for its join only.

use std::sync::atomic::Ordering;

use bifrost_ir::FuncId;
use bifrost_runtime::abi::{Outcome, Ret, Word, enter};
use bifrost_runtime::actor::layout::{join, owed};
use bifrost_runtime::actor::{self, AFRESH, Answer, Came, Due, Kind, LANDED, Landing, Verdict};
use bifrost_runtime::object::{self, get, set};
use bifrost_runtime::{Cx, Table};
use smallvec::SmallVec;

use crate::node::{
    Again, Await, Choice, Create, Destination, Message, Place, Prepared, Request, Script, Select, SelfCall,
};
use crate::op::OpError;
use crate::run::{Flow, Frame, Interp, Run};

/// In a run whose order a seed decides, a loop is as hot after so many steps as others after [`HOT_STEPS`](crate::HOT_STEPS).
const ORDERED_HOT_STEPS: u64 = 2;

impl Interp {
    /// Runs a function that may wait. `nested` is a call of an actor on itself.
    ///
    /// # Safety
    /// `cx` is the current context, and `args` are words of the types of the function's variables; the caller keeps them.
    pub(crate) unsafe fn begin(
        &self,
        cx: *mut Cx,
        prepared: &Prepared,
        script: &Script,
        args: &[Word],
        nested: bool,
    ) -> Ret {
        // SAFETY: promised by the caller.
        unsafe {
            if (*cx).must_attend() {
                let ret = (*cx).attend();
                if !ret.returned() {
                    return ret;
                }
            }
            let made = match self.new_join(cx, prepared, script, args) {
                Ok(made) => made,
                Err(ret) => return ret,
            };
            set(made, join::FLAGS, if nested { join::NESTED } else { 0 });
            let mut run = Run::new(self, cx, std::ptr::null());
            run.join = made;
            run.script(prepared, script)
        }
    }

    /// A join of a function whose first variables have these words.
    unsafe fn new_join(
        &self,
        cx: *mut Cx,
        prepared: &Prepared,
        script: &Script,
        args: &[Word],
    ) -> Result<Word, Ret> {
        // SAFETY: promised by the caller, as for `begin`.
        unsafe {
            let func = u64::from(script.func.as_u32());
            let layout = self.image().join_layout(func);
            let made = match (*cx).alloc(layout.table, layout.fields()) {
                Ok(made) => made.as_ptr() as Word,
                Err(full) => return Err((*cx).out_of_memory(full)),
            };
            (*cx).actors.stats.joins += 1;
            set(made, owed::KIND, Kind::Join as Word);
            set(made, join::ACTOR, if script.of_actor { args[0] } else { 0 });
            set(made, join::FUNC, func);
            for (at, word) in prepared.template.iter().enumerate() {
                set(made, join::WORDS + at, *word);
            }
            for (at, word) in args.iter().enumerate() {
                set(made, join::WORDS + at, *word);
            }
            Ok(made)
        }
    }

    /// Goes on with one that began as machine code.
    ///
    /// # Safety
    /// As for [`Interpreter::go_on_at`](bifrost_runtime::engine::Interpreter::go_on_at).
    pub(crate) unsafe fn take_over(&self, cx: *mut Cx, func: FuncId, at: Landing<'_>) -> Ret {
        // SAFETY: promised by the caller.
        unsafe {
            let prepared = self.func(func);
            let script = prepared.script.as_ref().expect("only functions that may wait leave their code");
            let made = match self.new_join(cx, prepared, script, at.words) {
                Ok(made) => made,
                Err(ret) => return ret,
            };
            if let Some(answer) = at.answer {
                set(made, join::FLAGS, join::ANSWERED);
                set(made, join::ANSWER, answer);
            }
            if (*cx).must_attend() {
                let ret = (*cx).attend();
                if !ret.returned() {
                    let _kept = (*cx).keep(made);
                    return actor::end(cx, made, ret, &script.signature);
                }
            }
            let mut run = Run::new(self, cx, std::ptr::null());
            run.path = SmallVec::from_slice(at.path);
            run.resuming = true;
            run.came = at.came;
            run.join = made;
            run.script(prepared, script)
        }
    }

    /// Goes on with one that has waited.
    ///
    /// # Safety
    /// `cx` is the current context, and `waiter` a join of this image that waited.
    pub(crate) unsafe fn go_on(&self, cx: *mut Cx, waiter: Word) -> Ret {
        // SAFETY: promised by the caller.
        unsafe {
            let prepared = self.func(FuncId::from_u32(get(waiter, join::FUNC) as u32));
            let script = prepared.script.as_ref().expect("only functions that may wait have joins");
            let path = get(waiter, join::PATH);
            let mut run = Run::new(self, cx, std::ptr::null());
            run.path = (0..object::fields(path)).map(|at| get(path, at) as u32).collect();
            run.resuming = true;
            run.join = waiter;
            run.script(prepared, script)
        }
    }
}

impl Run<'_> {
    /// Runs the function of the join, from the start or from where it goes on.
    unsafe fn script(&mut self, prepared: &Prepared, script: &Script) -> Ret {
        // SAFETY: promised by the caller.
        unsafe {
            let running = self.join;
            let _kept = self.cx().keep(running);
            let words = (running as *mut Word).add(bifrost_heap::OBJECT_WORDS + join::WORDS);
            let flow = loop {
                match self.block(prepared, Frame(words), &prepared.body) {
                    Flow::Over if self.ended.outcome == LANDED => self.land(),
                    flow => break flow,
                }
            };
            let ret = match flow {
                Flow::Over if self.ended.returned() => {
                    if get(running, join::FLAGS) & join::ANSWERED == 0 {
                        actor::answer(self.cx, running, Answer::Value(self.ended.value));
                    }
                    Ret::NOTHING
                }
                Flow::Over => self.ended,
                Flow::Pending => match self.note_path() {
                    Ok(()) if self.makes_way => return actor::make_way(self.cx, running),
                    Ok(()) => return actor::suspend(self.cx, running),
                    Err(ret) => ret,
                },
                Flow::Return => {
                    // A method of an actor answers by other statements.
                    if !script.of_actor && prepared.results > 0 {
                        let value = self.cx().results[0];
                        actor::answer(self.cx, running, Answer::Value(value));
                    }
                    Ret::NOTHING
                }
                Flow::Next | Flow::Break | Flow::Continue | Flow::Left => Ret::NOTHING,
                Flow::Raised => Ret::SIGNALLED,
                Flow::Signalled | Flow::Exit => self.cx().unhandled(),
                Flow::Killed => Ret::KILLED,
            };
            actor::end(self.cx, running, ret, &script.signature)
        }
    }

    /// Machine code has left again: the way to where.
    fn land(&mut self) {
        let left = self.cx().actors.take_landing().expect("code that has left says where");
        self.path = SmallVec::from_slice(&left.exit.path);
        self.resuming = true;
        self.came = left.came;
    }

    /// Has machine code go on here, once this was interpreted often and no reply is missing.
    pub(crate) fn go_on_again(&mut self, again: &Again) -> Option<Flow> {
        let hot = match self.cx().actors.is_ordered() {
            true => ORDERED_HOT_STEPS.min(self.interp.hot_steps),
            false => self.interp.hot_steps,
        };
        if self.join == 0 || again.steps.fetch_add(1, Ordering::Relaxed) < hot {
            return None;
        }
        let image = self.interp.image();
        // SAFETY: the join is that of the function whose loop this is.
        let (func, rests, answered) = unsafe {
            let func = get(self.join, join::FUNC);
            let layout = image.join_layout(func);
            let replies = object::slice(self.join, layout.counts, layout.pending.len());
            let rests = get(self.join, join::EXCEPTIONS) == 0 && get(self.join, join::TAKEN) == 0;
            let rests = rests && replies.iter().all(|missing| *missing == 0);
            (func, rests, get(self.join, join::FLAGS) & join::ANSWERED)
        };
        if !rests {
            return None;
        }
        let code = again
            .code
            .get_or_init(|| image.engine()?.compile_loop(image, FuncId::from_u32(func as u32), again.number));
        // SAFETY: the code is that of the loop, and takes the join, which whoever runs its function keeps.
        self.ended = unsafe { enter((*code)?, self.cx, &[self.join, answered]) };
        Some(Flow::Over)
    }

    /// Writes into the join where it goes on.
    fn note_path(&mut self) -> Result<(), Ret> {
        let path = std::mem::take(&mut self.path);
        let table = self.cx().image().data_table();
        let made = match self.cx().alloc(table, path.len()) {
            Ok(made) => made.as_ptr() as Word,
            Err(full) => return Err(self.cx().out_of_memory(full)),
        };
        // SAFETY: the object was just made with room for the path, and the join is one.
        unsafe {
            for (at, step) in path.iter().enumerate() {
                set(made, at, Word::from(*step));
            }
            set(self.join, join::PATH, made);
        }
        Ok(())
    }

    /// The next step of the way to where the function goes on.
    pub(crate) fn next_step(&mut self) -> u32 {
        let step = self.path.pop().expect("a path leads to a statement that waits");
        if self.path.last() == Some(&AFRESH) {
            self.path.clear();
            self.resuming = false;
        }
        step
    }

    /// Stops at the end of a loop's step, so that others run. It goes on with the loop's condition.
    #[cold]
    pub(crate) fn make_way(&mut self) -> Flow {
        self.makes_way = true;
        self.path.extend([AFRESH, 0]);
        Flow::Pending
    }

    /// Whether the function goes on right here.
    fn arrived(&mut self) -> bool {
        std::mem::take(&mut self.resuming)
    }

    /// Notes where a function that waits is, on its way out.
    #[inline]
    pub(crate) fn stopped(&mut self, flow: Flow, step: u32) -> Flow {
        if flow == Flow::Pending {
            self.path.push(step);
        }
        flow
    }

    pub(crate) fn words(&self, frame: Frame, places: &[Place]) -> SmallVec<[Word; 8]> {
        places.iter().map(|place| frame.get(*place)).collect()
    }

    pub(crate) fn create(&mut self, frame: Frame, create: &Create) -> Flow {
        let site = match create.place {
            Destination::Here => actor::Site::Here,
            Destination::On(place) => actor::Site::On(frame.get(place) as i64),
            Destination::Anywhere => actor::Site::Anywhere,
        };
        let mut words: SmallVec<[Word; 8]> = SmallVec::new();
        words.push(0);
        words.extend(create.args.iter().map(|place| frame.get(*place)));
        // SAFETY: the function is verified: the class is one of actors, whose creator takes these words, which the frame keeps.
        let ret = unsafe { actor::create(self.cx, create.table, create.creator, &mut words, site) };
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
        // SAFETY: the function is verified: the receiver is an actor with the method, which takes these words; the frame keeps them.
        let ret = unsafe {
            let ret = actor::send_past(self.cx, sent.slot, &words);
            actor::log_sent(self.cx, sent.method, ret)
        };
        if ret.returned() { Flow::Next } else { self.failed(ret, sent.site) }
    }

    /// What the message of this statement comes back with, if it did not come back in machine code already.
    fn came(&mut self, frame: Frame, sent: &Message) -> Came {
        if let Some(came) = self.came.take() {
            self.resuming = false;
            return came;
        }
        let words = self.words(frame, &sent.args);
        // SAFETY: as in `send`.
        let ret = unsafe { actor::send(self.cx, sent.slot, &words) };
        match Outcome::from(ret) {
            Outcome::Signalled => Came::Exception(self.kept(sent)),
            _ => Came::With(ret),
        }
    }

    /// The exception that a message came back with.
    fn kept(&mut self, sent: &Message) -> Word {
        let image = self.cx().image().clone();
        self.cx().kept_exception(&image.program().types.method(sent.method).signature)
    }

    pub(crate) fn request(&mut self, frame: Frame, request: &Request) -> Flow {
        if self.client {
            return self.client_request(frame, request);
        }
        let sent = &request.message;
        let element = request.element.map_or(0, |place| frame.get(place) as i64);
        let image = self.interp.image().clone();
        if request.element.is_some() && !self.resuming {
            // SAFETY: the function is verified: with an element, the variable is an array or vector.
            let there = unsafe { actor::has_element(&image, frame.get(request.dst), element) };
            if !there {
                return self.op_failed(OpError::Bounds, sent.site);
            }
        }
        // SAFETY: the join is this function's, which has the element.
        unsafe {
            let number = get(self.join, join::REQUESTS);
            set(self.join, join::REQUESTS, number + 1);
            let due = Due { pending: request.pending, element: request.element.is_some(), request: number };
            let ret = match self.came(frame, sent) {
                Came::With(ret) => ret,
                Came::Exception(kept) => {
                    actor::note_exception(self.join, kept, due);
                    return Flow::Next;
                }
            };
            match Outcome::from(ret) {
                Outcome::Returned if due.element => {
                    actor::store_element(&image, frame.get(request.dst), element, ret.value);
                }
                Outcome::Returned => frame.set(request.dst, ret.value),
                Outcome::Pending => {
                    let count = image.join_layout(get(self.join, join::FUNC)).counts + due.pending as usize;
                    set(self.join, count, get(self.join, count) + 1);
                    actor::owe(self.cx, ret.value, self.join, due, element);
                }
                _ => return self.failed(ret, sent.site),
            }
        }
        Flow::Next
    }

    pub(crate) fn wait(&mut self, wait: &Await) -> Flow {
        let (pending, goes_on) = (&wait.pending, self.arrived());
        let waiter = self.join;
        let image = self.interp.image().clone();
        // SAFETY: the join is this function's.
        unsafe {
            let counts = image.join_layout(get(waiter, join::FUNC)).counts;
            let count = |at: u16| get(waiter, counts + usize::from(at));
            if pending.iter().any(|at| count(*at) > 0) {
                let awaited = pending.iter().fold(0_u64, |all, at| all | 1 << at.min(&63));
                let all = image.join_layout(get(waiter, join::FUNC)).pending.len() as u16;
                let concerned = (0..all).filter(|at| awaited >> at.min(&63) & 1 == 1);
                set(waiter, join::MISSING, concerned.map(count).sum());
                set(waiter, join::AWAITED, awaited);
                return Flow::Pending;
            }
            match actor::first_exception(waiter, &|at| pending.contains(&at)) {
                Some(kept) => {
                    let ret = self.cx().raise_kept(kept);
                    self.failed(ret, wait.site)
                }
                None => {
                    let again = wait.again.as_ref().filter(|_| goes_on);
                    again.and_then(|again| self.go_on_again(again)).unwrap_or(Flow::Next)
                }
            }
        }
    }

    pub(crate) fn reply(&mut self, frame: Frame, value: Option<Place>) -> Flow {
        let value = value.map_or(0, |place| frame.get(place));
        // SAFETY: the join is this function's.
        unsafe { actor::answer(self.cx, self.join, Answer::Value(value)) };
        Flow::Next
    }

    pub(crate) fn delegate(&mut self, frame: Frame, sent: &Message) -> Flow {
        // SAFETY: the join is this function's.
        unsafe {
            let ret = match self.came(frame, sent) {
                Came::With(ret) => ret,
                Came::Exception(kept) => {
                    actor::answer(self.cx, self.join, Answer::Exception(kept));
                    return Flow::Next;
                }
            };
            match Outcome::from(ret) {
                Outcome::Returned => actor::answer(self.cx, self.join, Answer::Value(ret.value)),
                Outcome::Pending => actor::delegate(self.cx, self.join, ret.value),
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
        let ret = unsafe { actor::reply_to(self.cx, self.join, table) };
        if !ret.returned() {
            return self.failed(ret, site);
        }
        frame.set(dst, ret.value);
        Flow::Next
    }

    pub(crate) fn deliver(&mut self, frame: Frame, replier: Place, value: Option<Place>) -> Flow {
        let value = value.map_or(0, |place| frame.get(place));
        // SAFETY: the function is verified: the word is a replier, whose answers have the value's type.
        unsafe { actor::deliver_to(self.cx, frame.get(replier), value) };
        Flow::Next
    }

    pub(crate) fn self_call(&mut self, frame: Frame, call: &SelfCall) -> Flow {
        let waiter = self.join;
        let came = self.came.take();
        if self.arrived() && came.is_none() {
            return self.called(call.site);
        }
        // SAFETY: the function is verified: the words are what the method takes, and the frame keeps them.
        unsafe {
            let ret = match came {
                // Its code has called only what is a join of its own when it comes back so.
                Some(Came::With(ret)) => {
                    let flags = get(ret.value, join::FLAGS);
                    set(ret.value, join::FLAGS, flags | join::NESTED);
                    ret
                }
                _ => {
                    let words = self.words(frame, &call.args);
                    let prepared = self.interp.func(call.func);
                    let script = prepared.script.as_ref().expect("methods of actors may wait");
                    self.interp.begin(self.cx, prepared, script, &words, true)
                }
            };
            match Outcome::from(ret) {
                Outcome::Returned => frame.set(call.dst, ret.value),
                Outcome::Pending => {
                    set(waiter, join::MISSING, 1);
                    set(waiter, join::AWAITED, 0);
                    let due = Due { pending: Due::CALL, element: false, request: 0 };
                    set(waiter, join::FLAGS, get(waiter, join::FLAGS) & !join::SELECTS);
                    actor::owe(self.cx, ret.value, waiter, due, i64::from(call.dst));
                    // Who took the place of the answer may have given it already.
                    return if get(waiter, join::MISSING) == 0 {
                        self.called(call.site)
                    } else {
                        Flow::Pending
                    };
                }
                _ => return self.failed(ret, call.site),
            }
        }
        Flow::Next
    }

    /// A call on itself has ended: its result is in its variable, unless an exception came in its place.
    fn called(&mut self, site: bifrost_ir::Site) -> Flow {
        // SAFETY: the join is this function's.
        match unsafe { actor::first_exception(self.join, &|at| at == Due::CALL) } {
            Some(kept) => {
                let ret = self.cx().raise_kept(kept);
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
        // SAFETY: the join is this function's, and an actor's; what is taken from the queue is kept by its arm.
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
                actor::take_message(self.cx, actor, &mut methods, &mut |cx, method, sent| {
                    let words = actor::words_of(sent);
                    for (at, arm) in select.arms.iter().enumerate().filter(|(_, arm)| arm.method == method) {
                        if actor::refused(cx, actor::class_of(actor), arm.slot, words)? {
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
                let words = actor::words_of(taken);
                for (place, word) in select.arms[at].vars.iter().zip(&words[1..]) {
                    frame.set(*place, *word);
                }
                actor::begin_arm(running, taken);
                return self.arm(function, frame, select, at);
            }
            let flags = get(running, join::FLAGS);
            let limit = select.after.as_ref().map(|(limit, _)| frame.get(*limit) as i64);
            if flags & join::LATE != 0 || first && limit.is_some_and(|limit| limit <= 0) {
                self.selected();
                return self.arm(function, frame, select, select.arms.len());
            }
            if first {
                let token = match limit {
                    Some(limit) => {
                        let time = self.cx().now_ms().saturating_add(limit);
                        self.cx().actors.wake_at(time, running)
                    }
                    None => 0,
                };
                set(running, join::AWAITED, token);
            }
            let takes = select.arms.iter().fold(0_u64, |all, arm| all | 1 << actor::bit_of(arm.method));
            set(running, join::MISSING, takes);
            set(running, join::FLAGS, flags | join::SELECTS);
            Flow::Pending
        }
    }

    /// The selection is over.
    unsafe fn selected(&mut self) {
        // SAFETY: promised by the caller: the join is this function's.
        unsafe {
            let flags = get(self.join, join::FLAGS);
            set(self.join, join::FLAGS, flags & !(join::SELECTS | join::LATE));
            set(self.join, join::AWAITED, 0);
        }
    }

    /// The exception under way, of a method of the actor.
    fn kept_of(&mut self, method: bifrost_ir::MethodId) -> Word {
        let image = self.interp.image().clone();
        // SAFETY: the join is that of an actor's method.
        let info = unsafe { Table::of(get(self.join, join::ACTOR)) }.info();
        self.cx().kept_exception(&image.program().types.def(info.ty).methods[method].signature)
    }

    /// Whether an arm takes a message. A condition that fails takes none.
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
                self.cx().log_lost(kept);
                Ok(false)
            }
        }
    }

    /// Runs an arm, or what comes when the time is over, or goes on in it.
    fn arm(&mut self, function: &Prepared, frame: Frame, select: &Select, at: usize) -> Flow {
        let Some(arm) = select.arms.get(at) else {
            let Some((_, block)) = &select.after else { return Flow::Next };
            let flow = self.block(function, frame, block);
            return self.stopped(flow, at as u32);
        };
        let flow = self.block(function, frame, &arm.body);
        if flow == Flow::Pending {
            return self.stopped(flow, at as u32);
        }
        // No exception leaves an arm: it answers the message, and the method goes on behind the selection.
        // SAFETY: the join is this function's, and the arm's message is under way.
        unsafe {
            if matches!(flow, Flow::Signalled | Flow::Raised | Flow::Exit) {
                if flow != Flow::Raised {
                    self.cx().unhandled();
                }
                let kept = self.kept_of(arm.method);
                let _kept = self.cx().keep(kept);
                if actor::is_answered(self.join) {
                    self.cx().log_lost(kept);
                }
                self.failed = false;
                actor::end_arm(self.cx, self.join, Answer::Exception(kept));
                return Flow::Next;
            }
            actor::end_arm(self.cx, self.join, Answer::Value(0));
        }
        flow
    }
}
