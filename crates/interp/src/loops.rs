//! Loops: WHILE, and FOREACH with its body as the iterator sees it.
//!
//! A loop of a client's structure that runs long goes on as machine code between two rounds
//! (`docs/internals/structures.md`): [`Run::hot_loop`] decides at the end of a round. A WHILE is
//! entered at its head and comes back when the loop is over ([`Run::while_in_code`]). Of a FOREACH
//! the iterator goes on as it is, and enters code in place of [`body_step`]. The variables stay in
//! the frame of the interpreter, which the code has as its environment.

use bifrost_ir::Site;
use bifrost_runtime::abi::{Closure, Code, Outcome, Ret, Word, YIELDS_MAX, enter};
use bifrost_runtime::cx::Cx;
use bifrost_runtime::structure::{environment, reason};

use crate::node::{ForEach, Prepared, While};
use crate::run::{Flow, Frame, Run};

/// The loop of a FOREACH as its iterator's closure reaches it.
struct LoopBody<'r, 'i> {
    run: *mut Run<'i>,
    function: &'r Prepared,
    each: &'r ForEach,
    frame: Frame,
    steps: u64,
    flow: Flow,
    /// The way of the iterator to this.
    closure: *const Closure,
    /// If the iterator enters code instead, the fuel that there was when this began.
    code_from: Option<i64>,
}

impl Run<'_> {
    /// Ends a step of a loop: takes fuel and looks for interruptions.
    #[inline(always)]
    fn back_edge(&mut self, function: &Prepared, way: Option<u32>) -> Flow {
        if self.cx().must_attend() {
            let makes_way = self.join.is_some() && way.is_some();
            let ret = match makes_way || function.cost > 0 {
                true => self.cx().stop(),
                false => self.cx().share(),
            };
            if !ret.returned() {
                return self.failed(ret, Site::default());
            }
        }
        self.burn(function, Site::default())
    }

    pub(crate) fn while_loop(&mut self, function: &Prepared, frame: Frame, each: &While) -> Flow {
        if let Some(code) = compiled(function, each.number) {
            return self.while_in_code(function, frame, each, code, 1);
        }
        let mut steps: u64 = 0;
        let around = self.enter_loop(function);
        // Code that goes on in the body has seen the condition.
        let mut in_body = self.resuming && self.next_step() == 1;
        let flow = loop {
            if !in_body {
                let flow = self.block(function, frame, &each.cond);
                if flow != Flow::Next {
                    steps += 1;
                    break flow;
                }
                if frame.get(each.test) == 0 {
                    break Flow::Next;
                }
            }
            in_body = false;
            steps += 1;
            self.step_loop(function, steps);
            match self.block(function, frame, &each.body) {
                Flow::Next | Flow::Continue => {}
                Flow::Break => break Flow::Next,
                flow => break flow,
            }
            match self.back_edge(function, each.way) {
                Flow::Next => {}
                flow => break flow,
            }
            match self.end_step(each.way) {
                Flow::Next => {}
                flow => break flow,
            }
            if let Some(code) = self.hot_loop(function, each.number) {
                return self.while_in_code(function, frame, each, code, steps + 1);
            }
        };
        self.rounds.truncate(around);
        self.note_step(flow, steps);
        flow
    }

    /// In code that asks actors: counts the rounds of one more loop from now on. The number of
    /// loops around it.
    fn enter_loop(&mut self, function: &Prepared) -> usize {
        let around = self.rounds.len();
        if function.asks {
            self.rounds.push(1);
        }
        around
    }

    #[inline(always)]
    fn step_loop(&mut self, function: &Prepared, steps: u64) {
        if function.asks
            && let Some(round) = self.rounds.last_mut()
        {
            *round = u32::try_from(steps).unwrap_or(u32::MAX);
        }
    }

    /// Adds a loop to the trace of a failure on its way out.
    #[cold]
    fn note_step(&mut self, flow: Flow, steps: u64) {
        if matches!(flow, Flow::Signalled | Flow::Killed) {
            self.trace.iterations.push(steps);
        }
    }

    pub(crate) fn for_each(&mut self, function: &Prepared, frame: Frame, each: &ForEach) -> Flow {
        let mut body = LoopBody {
            run: std::ptr::null_mut(),
            function,
            each,
            frame,
            steps: 0,
            flow: Flow::Next,
            closure: std::ptr::null(),
            code_from: None,
        };
        // SAFETY: `'i` outlives this call, during which alone the closure is used.
        body.run = unsafe { std::mem::transmute::<*mut Run<'_>, *mut Run<'_>>(self) };
        let around = self.enter_loop(function);
        let body: *mut LoopBody<'_, '_> = &mut body;
        let closure = Closure::new(self.interp.bodies[each.vars.len()], body as Word);
        // SAFETY: the loop's body lives until the end of this function; nobody else uses it yet.
        unsafe { (*body).closure = &closure };
        self.cx().calls += function.cost as u64;
        if let Some(code) = compiled(function, each.number) {
            // SAFETY: as above.
            unsafe { &mut *body }.go_on_in_code(self.cx(), code);
        }
        let ret = self.enter_iterator(function, frame, each, &closure);
        self.rounds.truncate(around);
        // SAFETY: the loop's body lives until the end of this function.
        let (flow, steps, code_from) = unsafe { ((*body).flow, (*body).steps, (*body).code_from) };
        if let Some(fuel) = code_from {
            return self.after_code(function, frame, each.number, ret, fuel, each.call.site);
        }
        match ret.outcome() {
            Outcome::Returned => Flow::Next,
            // The body said why it left the loop.
            Outcome::Left => match flow {
                Flow::Break => Flow::Next,
                flow => {
                    self.note_step(flow, steps);
                    flow
                }
            },
            Outcome::Signalled | Outcome::Pending | Outcome::Killed => {
                // A body that was killed is in its round; an iterator that fails was about to begin
                // the next one, as a condition that fails is.
                let round = if flow == Flow::Killed { steps } else { steps + 1 };
                let flow = self.failed(ret, each.call.site);
                self.note_step(flow, round);
                flow
            }
        }
    }
}

impl LoopBody<'_, '_> {
    /// Has the iterator enter code from the next round on.
    fn go_on_in_code(&mut self, cx: &mut Cx, code: Code) {
        cx.trace.begin_loop(around(self.function, self.each.number), self.steps + 1);
        self.code_from = Some(cx.fuel);
        // SAFETY: the closure lives as long as this.
        unsafe { &*self.closure }.replace(code, self.frame.environment() as Word);
    }
}

impl Run<'_> {
    /// The code with which a loop goes on, if it is worth it. Compiles the loop if need be.
    #[inline(always)]
    fn hot_loop(&mut self, function: &Prepared, number: u32) -> Option<Code> {
        if self.cx().fuel > self.meter.hot {
            return None;
        }
        self.compile_loop(function, number)
    }

    #[cold]
    fn compile_loop(&mut self, function: &Prepared, number: u32) -> Option<Code> {
        let fuel = self.cx().fuel;
        let structure = function.structure.as_ref()?;
        structure.count(&mut self.meter, fuel);
        structure.compile_loop(&self.interp.image, number)
    }

    /// Runs a WHILE as code, from the head on, where this round begins.
    fn while_in_code(
        &mut self,
        function: &Prepared,
        frame: Frame,
        each: &While,
        code: Code,
        round: u64,
    ) -> Flow {
        let cx = self.cx();
        cx.trace.begin_loop(around(function, each.number), round);
        let fuel = cx.fuel;
        // SAFETY: the code is that of the loop, which takes the environment alone. The frame is one
        // of a structure, with all its variables.
        let ret = unsafe { enter(code, cx, &[frame.environment() as Word]) };
        self.after_code(function, frame, each.number, ret, fuel, Site::default())
    }

    /// Returns how a loop ended that went on as code, with so much fuel. A failure that is none of
    /// the code's own is that of the iterator, at this site.
    fn after_code(
        &mut self,
        function: &Prepared,
        frame: Frame,
        number: u32,
        ret: Ret,
        fuel: i64,
        site: Site,
    ) -> Flow {
        let cx = self.cx();
        // The code has taken off the units that were no calls.
        cx.calls = cx.calls.wrapping_add((fuel - cx.fuel) as u64);
        match ret.outcome() {
            Outcome::Returned => return Flow::Next,
            Outcome::Left => match frame.environment_word(environment::REASON) as i64 {
                reason::BREAK => return Flow::Next,
                reason::RETURN => {
                    cx.results[0] = frame.environment_word(environment::RESULT);
                    return Flow::Return;
                }
                reason::SIGNAL => return Flow::Raised,
                _ => {}
            },
            Outcome::Signalled | Outcome::Pending | Outcome::Killed => {}
        }
        let inside = around(function, number);
        let trace = &cx.trace;
        let (site, rounds) = match trace.failed {
            0 => (site, trace.rounds[inside..=inside].into()),
            _ => {
                let (site, rounds) = trace.place();
                (Site(site), rounds.get(inside..).unwrap_or_default().iter().rev().copied().collect())
            }
        };
        let flow = match ret.outcome() {
            // An exception that the body raised, and the iterator does not see.
            Outcome::Left => self.failed(Ret::SIGNALLED, site),
            _ => self.failed(ret, site),
        };
        self.trace.iterations = rounds;
        flow
    }
}

/// The code of a loop that was compiled before.
#[inline(always)]
fn compiled(function: &Prepared, number: u32) -> Option<Code> {
    function.structure.as_ref()?.loop_code(number)
}

/// The number of loops around one of a structure.
fn around(function: &Prepared, number: u32) -> usize {
    function.structure.as_ref().map_or(0, |structure| structure.loops_around(number))
}

/// One step of a FOREACH, entered by its iterator.
///
/// # Safety
/// `environment` is the address of a `LoopBody` that lives, and `values` are those that the
/// iterator yields.
unsafe fn body_step(environment: Word, values: &[Word]) -> Ret {
    // SAFETY: promised by the caller; only this function and `for_each` after it use the loop's
    // body.
    let body = unsafe { &mut *(environment as *mut LoopBody<'_, '_>) };
    for (place, value) in body.each.vars.iter().zip(values) {
        body.frame.set(*place, *value);
    }
    body.steps += 1;
    // SAFETY: the run is on the stack below; while an iterator runs nobody else uses it.
    let run = unsafe { &mut *body.run };
    run.step_loop(body.function, body.steps);
    let flow = match run.block(body.function, body.frame, &body.each.body) {
        // The iterator polls between its steps; here only the fuel is left to do, or to let others
        // run, which it does not.
        Flow::Next | Flow::Continue if body.function.cost > 0 => run.burn(body.function, Site::default()),
        Flow::Next | Flow::Continue => run.back_edge(body.function, None),
        flow => flow,
    };
    body.flow = flow;
    if flow == Flow::Next
        && let Some(code) = run.hot_loop(body.function, body.each.number)
    {
        body.go_on_in_code(run.cx(), code);
    }
    match flow {
        Flow::Next => Ret::NOTHING,
        Flow::Killed => Ret::KILLED,
        _ => Ret::LEFT,
    }
}

macro_rules! bodies {
    ($($name:ident ($($v:ident),*)),* $(,)?) => {
        $(extern "C" fn $name(_cx: *mut Cx, environment: Word $(, $v: Word)*) -> Ret {
            // SAFETY: closures are made by `for_each` with the entry for their number of variables.
            unsafe { body_step(environment, &[$($v),*]) }
        })*

        /// The entries by the number of values.
        pub(crate) static BODIES: [Code; YIELDS_MAX + 1] = [$(Code($name as *const u8)),*];
    };
}

bodies! {
    body0 (),
    body1 (a),
    body2 (a, b),
    body3 (a, b, c),
    body4 (a, b, c, d),
    body5 (a, b, c, d, e),
    body6 (a, b, c, d, e, f),
    body7 (a, b, c, d, e, f, g),
    body8 (a, b, c, d, e, f, g, h),
}
