//! Calls, and the code behind them that runs when they do not return: handlers, and the end of the
//! function.
//!
//! Behind each call one comparison of the outcome leads to a cold *dispatch* block, of which every
//! statement with handlers has one: it compares the exception with the handlers and goes on to that
//! of the statement around it. The outermost ends the function. Outcomes other than `Signalled`
//! pass by all handlers.
//!
//! Where the exception is known when the code is made (an operation's `overflow`), the way to the
//! handler is a jump.

use bifrost_ir::{Arm, ArmMatch, Body, Callee, FuncId, Operand, SignalId, Site, Var};
use bifrost_runtime::Form;
use bifrost_runtime::abi::Outcome;
use bifrost_runtime::cx::offset;
use bifrost_runtime::image::{RoutineDesc, Table};
use bifrost_runtime::structure::{environment, reason};
use cranelift_codegen::ir::{self, BlockArg, InstBuilder, MemFlagsData, Value, condcodes::IntCC, types};

use super::memory::Region;
use super::meter::Note;
use super::{End, Entry, Exits, Lower, Scope, Within};
use crate::analysis::takes;
use crate::helper::{Helper, NO_FUNC};

/// A statement with handlers, or the end of a function.
pub(crate) struct Context<'a> {
    pub(crate) arms: &'a [Arm],
    /// The context around it: for the end of a function in place of its call that of the call, for
    /// that of the code itself none.
    parent: Option<usize>,
    /// True if it is the end of a function.
    end: bool,
    /// For each arm its code, and the code before it that takes the values out of the context; made
    /// when needed.
    blocks: Vec<(Option<ir::Block>, Option<ir::Block>)>,
    /// Gets an outcome.
    dispatch: Option<ir::Block>,
    /// The blocks for operations that signal these exceptions, without values. Those that no
    /// handler takes have a block for each site.
    signals: Vec<(SignalId, Option<Site>, ir::Block)>,
    /// If it stands around a call of a structure, the place of that.
    site: Option<Note>,
    /// The block for a structure that has no fuel left.
    pub(crate) out_of_fuel: Option<ir::Block>,
    /// For each site in it of calls that may not return, the block that notes the site and goes on
    /// to `dispatch`.
    sites: Vec<(Site, ir::Block)>,
}

impl<'a> Context<'a> {
    /// The end of a function.
    pub(crate) fn new_end(parent: Option<usize>) -> Context<'a> {
        Context {
            arms: &[],
            parent,
            end: true,
            blocks: Vec::new(),
            dispatch: None,
            signals: Vec::new(),
            site: None,
            out_of_fuel: None,
            sites: Vec::new(),
        }
    }

    /// The context of a call of a structure.
    pub(crate) fn new_site(note: Note, parent: usize) -> Context<'a> {
        Context { site: Some(note), ..Context::new(&[], parent) }
    }

    pub(crate) fn new(arms: &'a [Arm], parent: usize) -> Context<'a> {
        let blocks = vec![(None, None); arms.len()];
        Context { arms, end: false, blocks, ..Context::new_end(Some(parent)) }
    }
}

impl<'a> Lower<'_, 'a, '_> {
    pub(crate) fn call_stmt(&mut self, callee: Callee, args: &[Operand], dsts: &[Var]) {
        let image = self.unit.image;
        if let Callee::Method(m) = callee
            && let Some(row) = image.program().types.method(m).builtin
        {
            if let Some(op) = row.op {
                let value = self.op(op, args);
                if let [dst] = dsts {
                    self.write(*dst, value);
                }
                return;
            }
            if self.builtin_call(m, row, args, dsts) {
                return;
            }
        } else if self.creator_call(callee, args, dsts) || self.call_in_place(callee, args, dsts) {
            return;
        }
        let value = self.call(callee, args, None);
        self.take_results(value, dsts);
    }

    /// Puts the results of a call into variables: the first is at hand, the others are in the
    /// context.
    pub(crate) fn take_results(&mut self, first: Value, dsts: &[Var]) {
        for (i, dst) in dsts.iter().enumerate() {
            let word = if i == 0 { first } else { self.load_cx(offset::RESULTS + 8 * i as i32) };
            self.write_word(*dst, word);
        }
    }

    /// Calls, with a closure for an iterator; the first result. Only returns are left when it comes
    /// back.
    pub(crate) fn call(
        &mut self,
        callee: Callee,
        args: &[Operand],
        closure: Option<(Value, &Exits)>,
    ) -> Value {
        let image = self.unit.image;
        let mut words: Vec<Value> = Vec::with_capacity(args.len() + 3);
        words.push(self.cx);
        if let Callee::Routine(r) = callee {
            let desc = self.address(std::ptr::from_ref::<RoutineDesc>(image.routine(r)).cast());
            words.push(desc);
        }
        for arg in args {
            let word = self.operand_word(*arg);
            words.push(word);
        }
        words.extend(closure.map(|(word, _)| word));
        let arity = words.len() - 1;
        // Procedures, and the body of the loop, take fuel too.
        let takes = closure.is_some() || matches!(callee, Callee::Procedure(_) | Callee::Itself);
        if takes {
            self.store_fuel();
        }
        let inst = match callee {
            Callee::Method(m) if image.program().types.kind(m.ty).is_basic() => {
                let native = image.basic_native(m).expect("linking found all natives");
                let code = self.address(native.0);
                let signature = self.signature_of(arity);
                self.b.ins().call_indirect(signature, code, &words)
            }
            Callee::Method(m) => {
                let entry = Table::entry_offset(image.dispatch().slot(m));
                let table = self.load_table(words[1]);
                let code = self.b.ins().load(types::I64, MemFlagsData::trusted(), table, entry);
                let signature = self.signature_of(arity);
                self.b.ins().call_indirect(signature, code, &words)
            }
            Callee::Routine(r) => {
                let body = image.program().routines[r].body;
                if self.unit.again.is_none() && self.unit.id.is_some_and(|id| body == Body::Func(id)) {
                    let this = self.unit_function(self.unit.names[0], arity);
                    self.b.ins().call(this, &words)
                } else {
                    // The code is the first word of the descriptor.
                    let code = self.b.ins().load(types::I64, MemFlagsData::trusted(), words[1], 0);
                    let signature = self.signature_of(arity);
                    self.b.ins().call_indirect(signature, code, &words)
                }
            }
            Callee::Procedure(_) | Callee::Itself => self.call_procedure(callee, &words),
        };
        if takes {
            self.load_fuel();
        }
        match closure {
            None => self.known_after(callee, args),
            Some(_) => self.arrays_change(),
        }
        let [outcome, value] = *self.b.inst_results(inst) else { unreachable!("calls have two results") };
        match closure {
            None => self.check(outcome),
            Some((_, exits)) => self.check_loop(outcome, exits, false),
        }
        value
    }

    /// Calls the helper that runs a closure as a transaction.
    pub(crate) fn call_transaction(&mut self, closure: Value, exits: &Exits) {
        self.store_fuel();
        let (outcome, _) = self.call_helper_unchecked(Helper::Transaction, &[closure]);
        self.load_fuel();
        self.check_loop(outcome, exits, true);
    }

    /// Calls a helper, which ends with an outcome like any call.
    pub(crate) fn call_helper(&mut self, helper: Helper, args: &[Value]) -> Value {
        let (outcome, value) = self.call_helper_unchecked(helper, args);
        self.check(outcome);
        value
    }

    pub(crate) fn call_helper_unchecked(&mut self, helper: Helper, args: &[Value]) -> (Value, Value) {
        let mut words = vec![self.cx];
        words.extend(args);
        let name = self.unit.helpers[helper as usize];
        let entry = self.unit_function(name, args.len());
        let inst = self.b.ins().call(entry, &words);
        let [outcome, value] = *self.b.inst_results(inst) else { unreachable!("calls have two results") };
        (outcome, value)
    }

    /// Calls a helper that does not collect and whose outcome is not looked at.
    pub(crate) fn call_quiet_helper(&mut self, helper: Helper, args: &[Value]) {
        debug_assert!(!helper.collects());
        let mut words = vec![self.cx];
        words.extend(args);
        let name = self.unit.helpers[helper as usize];
        let entry = self.unit_function(name, args.len());
        let call = self.b.ins().call(entry, &words);
        self.roots.quiet.insert(call);
    }

    /// The function of the program whose statements are lowered now, as a word.
    fn func_word(&mut self) -> Value {
        let func = self.scope.id.map_or(NO_FUNC, FuncId::as_u32);
        self.int(i64::from(func))
    }

    /// The site of the call that the function under way stands in place of.
    fn call_site(&self) -> Option<Site> {
        self.waiting.last().and_then(Scope::site)
    }

    /// Goes on only if the outcome is `Returned`.
    pub(crate) fn check(&mut self, outcome: Value) {
        let dispatch = self.dispatch();
        let next = self.b.create_block();
        self.b.ins().brif(outcome, dispatch, &[BlockArg::Value(outcome)], next, &[]);
        self.start(next);
    }

    /// Behind the call of an iterator: goes on if it came to its end or the body said `break`.
    /// Behind a `transaction`: goes on if it came to its end; `break` and `continue` are those of
    /// the loop around it.
    pub(crate) fn check_loop(&mut self, outcome: Value, exits: &Exits, transaction: bool) {
        let (next, other, left) = (self.b.create_block(), self.cold_block(), self.cold_block());
        let dispatch = self.dispatch();
        self.b.ins().brif(outcome, other, &[], next, &[]);
        self.start(other);
        let is_left = self.b.ins().icmp_imm_s(IntCC::Equal, outcome, Outcome::Left as i64);
        self.b.ins().brif(is_left, left, &[], dispatch, &[BlockArg::Value(outcome)]);
        self.start(left);
        let why = self.load_environment(types::I64, environment::REASON);
        if exits.breaks {
            let (on, yes) = (self.cold_block(), if transaction { self.cold_block() } else { next });
            let found = self.b.ins().icmp_imm_s(IntCC::Equal, why, reason::BREAK);
            self.b.ins().brif(found, yes, &[], on, &[]);
            if transaction {
                self.start(yes);
                self.break_stmt();
            }
            self.start(on);
        }
        if exits.continues {
            let (on, yes) = (self.cold_block(), self.cold_block());
            let found = self.b.ins().icmp_imm_s(IntCC::Equal, why, reason::CONTINUE);
            self.b.ins().brif(found, yes, &[], on, &[]);
            self.start(yes);
            self.continue_stmt();
            self.start(on);
        }
        if exits.raises {
            let on = self.cold_block();
            let found = self.b.ins().icmp_imm_s(IntCC::Equal, why, reason::RAISED);
            // The body has noted its site.
            let noted = self.dispatch_of(self.scope.context);
            let signalled = self.int(Outcome::Signalled as i64);
            self.b.ins().brif(found, noted, &[BlockArg::Value(signalled)], on, &[]);
            self.start(on);
        }
        for number in &exits.arms {
            match self.find_arm(*number) {
                Some((context, arm)) => {
                    let on = self.cold_block();
                    let block = self.arm_block(context, arm);
                    let found = self.b.ins().icmp_imm_s(IntCC::Equal, why, reason::EXIT + i64::from(*number));
                    self.b.ins().brif(found, block, &[], on, &[]);
                    self.start(on);
                }
                // Of a function further out.
                None => {
                    self.exits.arms.insert(*number);
                }
            }
        }
        if let End::Body = self.scope.end {
            self.exits.returns |= exits.returns;
            self.exits.signals |= exits.signals;
            self.exits.passes |= exits.passes;
            self.return_outcome(Outcome::Left);
        } else {
            self.end_loop(why, exits);
        }
        self.start(next);
    }

    /// In a whole function: the body of a loop ended it.
    pub(crate) fn end_loop(&mut self, why: Value, exits: &Exits) {
        if exits.returns {
            let (yes, on) = (self.cold_block(), self.cold_block());
            let found = self.b.ins().icmp_imm_s(IntCC::Equal, why, reason::RETURN);
            self.b.ins().brif(found, yes, &[], on, &[]);
            self.start(yes);
            if self.is_script() {
                self.end_answered();
            } else {
                let value = self.load_environment(types::I64, environment::RESULT);
                let returned = self.int(Outcome::Returned as i64);
                self.end_with(returned, value);
            }
            self.start(on);
        }
        if exits.signals {
            let (yes, on) = (self.cold_block(), self.cold_block());
            let found = self.b.ins().icmp_imm_s(IntCC::Equal, why, reason::SIGNAL);
            self.b.ins().brif(found, yes, &[], on, &[]);
            self.start(yes);
            self.end_signalled();
            self.start(on);
        }
        self.return_outcome(Outcome::Left);
    }

    /// Ends the function with the exception in the context.
    pub(crate) fn end_signalled(&mut self) {
        let (outcome, zero) = (self.int(Outcome::Signalled as i64), self.int(0));
        self.end_failed(outcome, zero);
    }

    pub(crate) fn return_outcome(&mut self, outcome: Outcome) {
        let (outcome, zero) = (self.int(outcome as i64), self.int(0));
        self.return_words(outcome, zero);
    }

    /// Returns from the code. The fuel that a structure has left is in the context then.
    pub(crate) fn return_words(&mut self, outcome: Value, value: Value) {
        self.store_fuel();
        self.b.ins().return_(&[outcome, value]);
        self.reachable = false;
    }

    /// Leaves the loop around a body.
    pub(crate) fn leave_loop(&mut self, why: i64) {
        let why = self.int(why);
        self.store_environment(environment::REASON, why);
        self.return_outcome(Outcome::Left);
    }

    /// Compares the stack pointer with the poll word, at the beginning of a function
    /// (ARCHITECTURE.md, Polls).
    pub(crate) fn poll_stack(&mut self) {
        let pointer = self.b.ins().get_stack_pointer(types::I64);
        let word = self.load_polled(offset::POLL_WORD);
        let below = self.b.ins().icmp(IntCC::UnsignedLessThan, pointer, word);
        self.attend_if(below, Helper::Attend);
    }

    /// The word that is not 0 when loops shall attend.
    pub(crate) fn attention(&mut self) -> Value {
        self.load_polled(offset::ATTENTION)
    }

    /// Polls at the end of a loop's step, where the stack is no deeper than at the beginning of the
    /// function.
    pub(crate) fn poll(&mut self) {
        let word = self.attention();
        self.attend_if(word, Helper::Stop);
    }

    /// The same where the function cannot make way for others.
    pub(crate) fn poll_passive(&mut self) {
        let word = self.attention();
        let shares = self.unit.id.is_some() && self.unit.image.program().has_actors();
        self.attend_if(word, if shares { Helper::Share } else { Helper::Stop });
    }

    /// A word that another thread writes. The load is atomic so that it is made anew each time.
    pub(crate) fn load_polled(&mut self, offset: i32) -> Value {
        let at = match offset {
            0 => self.cx,
            other => self.b.ins().iadd_imm_s(self.cx, i64::from(other)),
        };
        self.b.ins().atomic_load(types::I64, MemFlagsData::trusted(), at)
    }

    /// Calls a helper of polls and ends if it says so: no handler sees that.
    pub(crate) fn attend_if(&mut self, asked: Value, helper: Helper) {
        let (attend, next) = (self.cold_block(), self.b.create_block());
        self.b.ins().brif(asked, attend, &[], next, &[]);
        self.start(attend);
        let signature = self.b.import_signature(super::attend_signature());
        let name = self.unit.helpers[helper as usize];
        let entry = self.import(name, signature);
        let call = self.b.ins().call(entry, &[self.cx]);
        if !helper.collects() {
            self.roots.quiet.insert(call);
        }
        let outcome = self.load_cx(offset::RESULTS);
        let ended = match self.ended {
            // No handler takes it; the structure says where it was.
            _ if self.is_traced() && helper == Helper::Stop => self.dispatch(),
            Some(block) => block,
            None => {
                let block = self.cold_block();
                self.b.append_block_param(block, types::I64);
                self.ended = Some(block);
                block
            }
        };
        self.b.ins().brif(outcome, ended, &[BlockArg::Value(outcome)], next, &[]);
        self.start(next);
    }

    /// Ends the function where a poll has ended it.
    pub(crate) fn end_polls(&mut self) {
        let Some(block) = self.ended else { return };
        self.start(block);
        let (outcome, zero) = (self.b.block_params(block)[0], self.int(0));
        self.return_words(outcome, zero);
    }

    // Exceptions.

    /// The block for an outcome that is not `Returned`, of a call of the statement under way.
    pub(crate) fn dispatch(&mut self) -> ir::Block {
        self.dispatch_at(self.scope.context, self.scope.site())
    }

    /// The block for such an outcome of a call at this site, which is noted.
    fn dispatch_at(&mut self, context: usize, site: Option<Site>) -> ir::Block {
        let Some(site) = site else { return self.dispatch_of(context) };
        if let Some((_, block)) = self.contexts[context].sites.iter().find(|(known, _)| *known == site) {
            return *block;
        }
        let block = self.cold_block();
        self.b.append_block_param(block, types::I64);
        self.contexts[context].sites.push((site, block));
        block
    }

    /// Notes the site at which a function of the program fails.
    fn note_site(&mut self, site: Option<Site>) {
        if let Some(site) = site {
            let site = self.int(i64::from(site.0));
            self.store_cx(site, offset::FAILED_SITE);
        }
    }

    /// Generates the blocks that note the sites of a context.
    fn end_sites(&mut self, context: usize) {
        for (site, block) in std::mem::take(&mut self.contexts[context].sites) {
            self.start(block);
            let outcome = self.b.block_params(block)[0];
            self.note_site(Some(site));
            let dispatch = self.dispatch_of(context);
            self.b.ins().jump(dispatch, &[BlockArg::Value(outcome)]);
        }
    }

    /// The statements with handlers from a context outwards, in its function.
    pub(crate) fn around(&self, context: usize) -> impl Iterator<Item = usize> + use<'_, 'a> {
        let first = (!self.contexts[context].end).then_some(context);
        std::iter::successors(first, |c| self.contexts[*c].parent.filter(|p| !self.contexts[*p].end))
    }

    /// The end of the function that a context is in.
    pub(crate) fn end_of(&self, context: usize) -> usize {
        let outermost = self.around(context).last();
        outermost.map_or(context, |c| self.contexts[c].parent.expect("statements are in functions"))
    }

    pub(crate) fn dispatch_of(&mut self, context: usize) -> ir::Block {
        if let Some(block) = self.contexts[context].dispatch {
            return block;
        }
        let block = self.cold_block();
        self.b.append_block_param(block, types::I64);
        self.contexts[context].dispatch = Some(block);
        block
    }

    /// The block for an operation that signals an exception without values.
    pub(crate) fn signal_block(&mut self, signal: SignalId) -> ir::Block {
        let context = self.scope.context;
        let site = self.scope.site().filter(|_| self.handler(context, signal).is_none());
        let mut known = self.contexts[context].signals.iter();
        if let Some((_, _, block)) = known.find(|(s, at, _)| (*s, *at) == (signal, site)) {
            return *block;
        }
        let block = self.cold_block();
        self.contexts[context].signals.push((signal, site, block));
        block
    }

    /// The block for a structure that has no fuel left: one block for each place that there is a
    /// trace of.
    pub(crate) fn out_of_fuel(&mut self) -> ir::Block {
        let context = self.scope.context;
        let context = if self.contexts[context].site.is_some() { context } else { self.end_of(context) };
        if let Some(block) = self.contexts[context].out_of_fuel {
            return block;
        }
        let block = self.cold_block();
        self.contexts[context].out_of_fuel = Some(block);
        block
    }

    /// Signals if a condition holds.
    pub(crate) fn signal_if(&mut self, condition: Value, signal: SignalId) {
        let (block, next) = (self.signal_block(signal), self.b.create_block());
        self.b.ins().brif(condition, block, &[], next, &[]);
        self.start(next);
    }

    /// The code of an arm once its variables are filled.
    pub(crate) fn arm_block(&mut self, context: usize, arm: usize) -> ir::Block {
        if let Some(block) = self.contexts[context].blocks[arm].0 {
            return block;
        }
        let block = self.b.create_block();
        self.contexts[context].blocks[arm].0 = Some(block);
        block
    }

    /// The code of an arm that finds the exception in the context.
    pub(crate) fn arm_entry(&mut self, context: usize, arm: usize) -> ir::Block {
        if self.contexts[context].arms[arm].vars.is_empty() {
            return self.arm_block(context, arm);
        }
        if let Some(block) = self.contexts[context].blocks[arm].1 {
            return block;
        }
        let block = self.cold_block();
        self.contexts[context].blocks[arm].1 = Some(block);
        block
    }

    /// The innermost handler from a context outwards, in its function, that takes an exception.
    pub(crate) fn handler(&self, context: usize, signal: SignalId) -> Option<(usize, usize)> {
        self.around(context)
            .find_map(|c| self.contexts[c].arms.iter().position(|a| takes(a, signal)).map(|a| (c, a)))
    }

    pub(crate) fn find_arm(&self, number: u32) -> Option<(usize, usize)> {
        let numbers = &self.scope.analysis.arms;
        let is = |arm: &Arm| numbers.get(&std::ptr::from_ref(arm)) == Some(&number);
        self.around(self.scope.context)
            .find_map(|c| self.contexts[c].arms.iter().position(is).map(|a| (c, a)))
    }

    /// Goes to where an exception is taken that a call with this context has ended with, at a site:
    /// it is in the function's context.
    pub(crate) fn raise(&mut self, context: usize, signal: SignalId, at: Option<Site>) {
        match self.handler(context, signal) {
            Some((context, arm)) => {
                let entry = self.arm_entry(context, arm);
                self.b.ins().jump(entry, &[]);
            }
            None => {
                let site = self.around(context).find_map(|c| self.contexts[c].site);
                if let Some(note) = site {
                    self.note(note);
                }
                self.note_site(at);
                let end = self.end_of(context);
                let end = self.dispatch_of(end);
                let signalled = self.int(Outcome::Signalled as i64);
                self.b.ins().jump(end, &[BlockArg::Value(signalled)]);
            }
        }
        self.reachable = false;
    }

    /// The handlers around the loop whose body this is, innermost first.
    pub(crate) fn outer_arms(&self) -> impl Iterator<Item = &'a Arm> + use<'a> {
        let outer: Vec<&'a [Arm]> = self.unit.outer.iter().rev().copied().collect();
        outer.into_iter().flatten()
    }

    pub(crate) fn signal_stmt(&mut self, signal: SignalId, values: &[Operand]) {
        if signal == SignalId::FAILURE {
            let (func, site) = (self.func_word(), self.int(i64::from(self.scope.at.0)));
            self.call_quiet_helper(Helper::SignalFailure, &[func, site]);
        }
        let values: Vec<Value> = values.iter().map(|v| self.operand(*v)).collect();
        let id = self.int(i64::from(signal.as_u32()));
        self.store_cx(id, offset::SIGNAL_ID);
        for (i, value) in values.iter().enumerate() {
            self.store_cx(*value, offset::SIGNAL_VALUES + 8 * i as i32);
        }
        match self.scope.end {
            End::Function => self.end_signalled(),
            End::Body => {
                self.exits.signals = true;
                self.leave_loop(reason::SIGNAL);
            }
            End::Call { .. } => {
                let end = self.end_of(self.scope.context);
                let call = self.contexts[end].parent.expect("the context of the call");
                let site = self.call_site();
                self.raise(call, signal, site);
            }
        }
    }

    pub(crate) fn exit_stmt(&mut self, signal: SignalId, values: &[Operand]) {
        let values: Vec<Value> = values.iter().map(|v| self.operand(*v)).collect();
        if let Some((context, arm)) = self.handler(self.scope.context, signal) {
            let target = &self.contexts[context].arms[arm];
            self.fill_arm(target, signal, &values);
            let block = self.arm_block(context, arm);
            self.b.ins().jump(block, &[]);
            self.reachable = false;
            return;
        }
        let arm = self.outer_arms().find(|arm| takes(arm, signal)).expect("the verifier found the handler");
        let number = self.scope.analysis.arms[&std::ptr::from_ref(arm)];
        self.fill_arm(arm, signal, &values);
        self.exits.arms.insert(number);
        self.leave_loop(reason::EXIT + i64::from(number));
    }

    /// Fills the variables of an arm that an `exit` jumps to.
    pub(crate) fn fill_arm(&mut self, arm: &'a Arm, signal: SignalId, values: &[Value]) {
        match (&arm.takes, arm.vars.as_slice()) {
            (_, []) => {}
            (ArmMatch::Named(_), vars) => {
                for (var, value) in vars.iter().zip(values) {
                    self.write(*var, *value);
                }
            }
            (ArmMatch::Others, vars) => {
                let id = self.int(i64::from(signal.as_u32()));
                let name = self.call_helper(Helper::SignalName, &[id]);
                self.write(vars[0], name);
            }
        }
    }

    pub(crate) fn except_stmt(&mut self, body: &'a bifrost_ir::Block, arms: &'a [Arm]) {
        let before = self.known.clone();
        let number = self.contexts.len();
        self.contexts.push(Context::new(arms, self.scope.context));
        self.scope.context = number;
        self.block(body);
        let after = self.b.create_block();
        let mut goes_on = self.reachable;
        if self.reachable {
            self.b.ins().jump(after, &[]);
        }
        self.end_context();
        self.scope.context = self.contexts[number].parent.expect("statements are in functions");
        let blocks = std::mem::take(&mut self.contexts[number].blocks);
        self.known_before(before.clone());
        for (arm, (mut block, entry)) in arms.iter().zip(blocks) {
            if block.is_none() && arm.body.0.iter().any(|stmt| self.is_entered_in(stmt)) {
                // Nothing here leads to the arm, but the code begins in it.
                block = Some(self.cold_block());
            }
            // Exceptions are rare.
            entry.into_iter().chain(block).for_each(|block| self.b.set_cold_block(block));
            if let Some(entry) = entry {
                self.start(entry);
                self.take_values(arm);
                let block = block.expect("`end_context` makes it");
                self.b.ins().jump(block, &[]);
            }
            let Some(block) = block else { continue };
            self.start(block);
            self.forget_failure();
            self.block(&arm.body);
            self.known_before(before.clone());
            if self.reachable {
                self.b.ins().jump(after, &[]);
                goes_on = true;
            }
        }
        if goes_on {
            self.start(after);
        } else {
            self.reachable = false;
        }
    }

    /// Fills the variables of an arm from the exception in the context.
    pub(crate) fn take_values(&mut self, arm: &'a Arm) {
        match &arm.takes {
            ArmMatch::Named(_) => {
                for (i, var) in arm.vars.iter().enumerate() {
                    let ty = self.var_type(*var);
                    let value = self.load(ty, self.cx, offset::SIGNAL_VALUES + 8 * i as i32, Region::Context);
                    self.write(*var, value);
                }
            }
            ArmMatch::Others => {
                let id = self.load_cx(offset::SIGNAL_ID);
                let name = self.call_helper(Helper::SignalName, &[id]);
                self.write(arm.vars[0], name);
            }
        }
    }

    /// Generates the ways to the handlers of the innermost statement that has some.
    pub(crate) fn end_context(&mut self) {
        let this = self.scope.context;
        for (signal, site, block) in std::mem::take(&mut self.contexts[this].signals) {
            self.start(block);
            let target = self.handler(this, signal);
            let without_values = target.is_some_and(|(c, a)| self.contexts[c].arms[a].vars.is_empty());
            if !without_values {
                let id = self.int(i64::from(signal.as_u32()));
                self.store_cx(id, offset::SIGNAL_ID);
            }
            self.raise(this, signal, site);
        }
        self.end_fuel(this);
        self.end_sites(this);
        if let (Some(note), Some(block)) = (self.contexts[this].site, self.contexts[this].dispatch) {
            self.start(block);
            let outcome = self.b.block_params(block)[0];
            self.note(note);
            let outer = self.dispatch_of(self.contexts[this].parent.expect("calls are in functions"));
            self.b.ins().jump(outer, &[BlockArg::Value(outcome)]);
        } else if !self.contexts[this].end
            && let Some(block) = self.contexts[this].dispatch
        {
            self.start(block);
            let outcome = self.b.block_params(block)[0];
            let end = self.end_of(this);
            let end = self.dispatch_of(end);
            let signalled = self.cold_block();
            let is = self.b.ins().icmp_imm_s(IntCC::Equal, outcome, Outcome::Signalled as i64);
            self.b.ins().brif(is, signalled, &[], end, &[BlockArg::Value(outcome)]);
            self.start(signalled);
            self.choose_arm(this, outcome);
        }
        // The code before an arm goes on into the arm.
        for arm in 0..self.contexts[this].arms.len() {
            if self.contexts[this].blocks[arm].1.is_some() {
                self.arm_block(this, arm);
            }
        }
        self.reachable = false;
    }

    pub(crate) fn choose_arm(&mut self, context: usize, outcome: Value) {
        let arms = self.contexts[context].arms;
        let id = self.load_cx(offset::SIGNAL_ID);
        for (i, arm) in arms.iter().enumerate() {
            let entry = self.arm_entry(context, i);
            match &arm.takes {
                ArmMatch::Named(signals) => {
                    for signal in signals {
                        let on = self.cold_block();
                        let is = self.b.ins().icmp_imm_s(IntCC::Equal, id, i64::from(signal.as_u32()));
                        self.b.ins().brif(is, entry, &[], on, &[]);
                        self.start(on);
                    }
                }
                ArmMatch::Others => {
                    self.b.ins().jump(entry, &[]);
                    return;
                }
            }
        }
        let parent = self.contexts[context].parent.expect("statements are in functions");
        let outer = self.dispatch_of(parent);
        self.b.ins().jump(outer, &[BlockArg::Value(outcome)]);
    }

    /// Ends the function: generates the code for all outcomes that no handler took.
    pub(crate) fn end_contexts(&mut self) {
        self.end_context();
        let end = &self.contexts[self.scope.context];
        let (Some(block), call) = (end.dispatch, end.parent) else { return };
        self.start(block);
        let outcome = self.b.block_params(block)[0];
        match self.scope.end {
            End::Function if self.is_metered() => {
                // An exception that goes through a structure is told to its client as it is.
                let zero = self.int(0);
                self.return_words(outcome, zero);
            }
            End::Function if let Some(Entry { form: Form::Past, slot, .. }) = self.unit.entry => {
                // In one call, so that nothing need be kept in registers, which would have to be
                // saved first.
                let (actor, slot) = (self.read(Var::from_u32(0)), self.int(i64::from(slot)));
                let func = self.func_word();
                let (outcome, value) =
                    self.call_helper_unchecked(Helper::FailPast, &[actor, slot, outcome, func]);
                self.b.ins().return_(&[outcome, value]);
            }
            End::Function => {
                let func = self.func_word();
                let (outcome, value) = self.call_helper_unchecked(Helper::Leave, &[outcome, func]);
                self.end_failed(outcome, value);
            }
            End::Body => {
                self.exits.raises = true;
                let (raised, other) = (self.cold_block(), self.cold_block());
                let is = self.b.ins().icmp_imm_s(IntCC::Equal, outcome, Outcome::Signalled as i64);
                self.b.ins().brif(is, raised, &[], other, &[]);
                self.start(raised);
                self.leave_loop(reason::RAISED);
                self.start(other);
                let zero = self.int(0);
                self.return_words(outcome, zero);
            }
            End::Call { done, .. } => {
                let func = self.func_word();
                let (outcome, _) = self.call_helper_unchecked(Helper::Leave, &[outcome, func]);
                let within = match self.scope.within {
                    Within::Call => None,
                    Within::Creation(actor) => Some(actor),
                    Within::Message(ended) => {
                        self.b.ins().jump(ended, &[BlockArg::Value(outcome)]);
                        self.reachable = false;
                        return;
                    }
                };
                if let Some(actor) = within {
                    let (failed, other) = (self.cold_block(), self.cold_block());
                    let is = self.b.ins().icmp_imm_s(IntCC::Equal, outcome, Outcome::Signalled as i64);
                    self.b.ins().brif(is, failed, &[], other, &[]);
                    self.start(failed);
                    self.call_helper_unchecked(Helper::FailedCreation, &[actor]);
                    self.go_on(done, &[]);
                    self.start(other);
                }
                let site = self.call_site();
                let outer = self.dispatch_at(call.expect("the context of the call"), site);
                self.b.ins().jump(outer, &[BlockArg::Value(outcome)]);
            }
        }
        self.reachable = false;
    }
}
