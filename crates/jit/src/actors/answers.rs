//! Answers of methods, and the ends of functions that may wait.

use crate::helper::Helper;
use crate::lower::{End, Lower};
use bifrost_actors::given;
use bifrost_ir::{Operand, Stmt, Var};
use bifrost_runtime::abi::Outcome;
use bifrost_runtime::actor_layout::join;
use bifrost_runtime::image::Table;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, StackSlotData, StackSlotKind, Value, types};
use cranelift_frontend::Variable;

/// The state of the answer of a function that may go on after it.
#[derive(Clone, Copy)]
pub(crate) struct Answer {
    /// One of [`given`].
    pub(crate) given: Variable,
    pub(crate) word: Variable,
    /// The object that owes the answer, if it was delegated.
    pub(crate) owing: Option<Variable>,
}

impl<'a> Lower<'_, 'a, '_> {
    /// At the beginning of a function: nothing was answered, and there is no join.
    pub(crate) fn begin_answer(&mut self) {
        let analysis = self.unit.analysis.clone();
        let script = &analysis.script;
        let zero = self.int(0);
        if script.answers_early {
            let mut declare = || {
                let var = self.b.declare_var(types::I64);
                self.b.def_var(var, zero);
                var
            };
            let (given, word) = (declare(), declare());
            let owing = script.delegates.then(declare);
            self.wait.answer = Some(Answer { given, word, owing });
        }
        if script.requests && self.unit.again.is_none() {
            let slot = self.b.create_sized_stack_slot(StackSlotData::new(StackSlotKind::ExplicitSlot, 8, 3));
            self.b.ins().stack_store(types::I64, zero, slot, 0);
            self.roots.words.push((slot, 0));
            self.wait.join = Some(slot);
        }
    }

    /// The state of the answer: one of [`given`], the word, and the object that owes it.
    pub(crate) fn answer(&mut self) -> Option<(Value, Value, Option<Value>)> {
        let Answer { given, word, owing } = self.wait.answer?;
        let (given, word) = (self.b.use_var(given), self.b.use_var(word));
        if self.answers_reference() {
            self.mark(word);
        }
        let owing = owing.map(|owing| self.b.use_var(owing));
        owing.into_iter().for_each(|owing| self.mark(owing));
        Some((given, word, owing))
    }

    /// Answers with a word, or has another answer in its place.
    pub(crate) fn give_answer(&mut self, stmt: &Stmt, how: u64, value: Value) {
        let by_other = how == given::DELEGATED;
        if self.unit.analysis.script.places[&std::ptr::from_ref(stmt)].last {
            let outcome = self.int(if by_other { Outcome::Pending as i64 } else { 0 });
            return self.end_with(outcome, value);
        }
        let answer = self.wait.answer.expect("the analysis has found that it answers early");
        if by_other || self.answers_reference() {
            self.mark(value);
        }
        let how = self.int(how as i64);
        self.b.def_var(answer.given, how);
        self.b.def_var(if by_other { answer.owing.expect("it delegates") } else { answer.word }, value);
    }

    /// True if the answer of the function is a reference.
    pub(crate) fn answers_reference(&self) -> bool {
        self.unit.func.signature.results.first().is_some_and(|ty| self.unit.is_reference(*ty))
    }

    pub(crate) fn reply_stmt(&mut self, stmt: &Stmt, values: &[Operand]) {
        if let End::Call { done, .. } = self.scope.end {
            // A method in place of its message answers last.
            let value = values.first().map(|value| self.operand(*value));
            return self.go_on(done, value.as_slice());
        }
        let word = match values {
            [value, ..] => self.operand_word(*value),
            [] => self.int(0),
        };
        self.give_answer(stmt, given::WORD, word);
    }

    pub(crate) fn reply_to_stmt(&mut self, stmt: &Stmt, dst: Var) {
        let table = self.unit.image.table_of(self.unit.func.vars[dst].ty);
        let table = self.address(std::ptr::from_ref::<Table>(table).cast());
        let replier = self.call_helper(Helper::NewReplier, &[table]);
        self.write(dst, replier);
        self.give_answer(stmt, given::DELEGATED, replier);
    }

    /// Ends a method of an actor that comes to its end, or a function that returns.
    pub(crate) fn end_answered(&mut self) {
        let zero = self.int(0);
        self.reachable = false;
        if !self.is_script() {
            return self.end_with(zero, zero);
        }
        let results = self.unit.func.signature.results.len();
        let Some((given, word, owing)) = self.answer() else {
            return if results == 0 { self.end_with(zero, zero) } else { self.end_unanswered() };
        };
        if let Some(owing) = owing {
            let (delegated, own) = (self.b.create_block(), self.b.create_block());
            let by_other = self.b.ins().icmp_imm_s(IntCC::Equal, given, given::DELEGATED as i64);
            self.b.ins().brif(by_other, delegated, &[], own, &[]);
            self.start(delegated);
            let pending = self.int(Outcome::Pending as i64);
            self.end_with(pending, owing);
            self.start(own);
        }
        // Without result, a message that was not answered is answered now.
        if results > 0 {
            let (none, done) = (self.cold_block(), self.b.create_block());
            self.b.ins().brif(given, done, &[], none, &[]);
            self.start(none);
            self.end_unanswered();
            self.start(done);
        }
        let zero = self.int(0);
        self.end_with(zero, word);
    }

    pub(crate) fn end_unanswered(&mut self) {
        let (outcome, value) = self.call_helper_unchecked(Helper::Unanswered, &[]);
        self.end_with(outcome, value);
    }

    /// Ends the function, which may have a join that replies are still on their way to.
    pub(crate) fn end_with(&mut self, outcome: Value, value: Value) {
        self.end_joined(outcome, value, None);
        self.return_words(outcome, value);
    }

    /// Ends the function if it has made a join. `given` is how the answer stands that is not in
    /// `outcome` and `value`.
    pub(crate) fn end_joined(
        &mut self,
        outcome: Value,
        value: Value,
        answer: Option<(Value, Value, Option<Value>)>,
    ) {
        let (Some(slot), None, End::Function) = (self.wait.join, self.wait.again, self.scope.end) else {
            return;
        };
        let (joined, plain) = (self.cold_block(), self.b.create_block());
        let join = self.b.ins().stack_load(types::I64, types::I64, slot, 0);
        self.b.ins().brif(join, joined, &[], plain, &[]);
        self.start(joined);
        let given = self.store_answer(join, answer);
        let (outcome, value) = self.call_helper_unchecked(Helper::EndCode, &[join, outcome, value, given]);
        self.b.ins().return_(&[outcome, value]);
        self.start(plain);
    }

    /// Stores how the answer stands in a join; the word that says so.
    pub(crate) fn store_answer(
        &mut self,
        join: Value,
        answer: Option<(Value, Value, Option<Value>)>,
    ) -> Value {
        let Some((given, word, owing)) = answer else { return self.int(given::NOT as i64) };
        self.store_join(join, join::ANSWER, word);
        if let Some(owing) = owing {
            self.store_join(join, join::DELEGATED, owing);
        }
        given
    }

    /// Ends the function with an outcome that is not `Returned`. If it has answered, nobody awaits
    /// an exception.
    pub(crate) fn end_failed(&mut self, outcome: Value, value: Value) {
        self.reachable = false;
        let answer = self.answer();
        self.end_joined(outcome, value, answer);
        self.reachable = false;
        let Some((given, word, owing)) = answer else {
            return self.return_words(outcome, value);
        };
        let (late, early) = (self.cold_block(), self.cold_block());
        self.b.ins().brif(given, late, &[], early, &[]);
        self.start(early);
        self.b.ins().return_(&[outcome, value]);
        self.start(late);
        let func = self.unit.id.expect("what clients send does not answer");
        let func = self.int(i64::from(func.as_u32()));
        let answer = owing.map_or(word, |owing| {
            let by_other = self.b.ins().icmp_imm_s(IntCC::Equal, given, given::DELEGATED as i64);
            self.b.ins().select(by_other, owing, word)
        });
        let (outcome, value) =
            self.call_helper_unchecked(Helper::FailedLate, &[func, outcome, given, answer]);
        self.b.ins().return_(&[outcome, value]);
        self.reachable = false;
    }

    pub(crate) fn deliver_stmt(&mut self, replier: Operand, values: &[Operand]) {
        let replier = self.operand(replier);
        let word = match values {
            [value, ..] => self.operand_word(*value),
            [] => self.int(0),
        };
        self.call_helper(Helper::Deliver, &[replier, word]);
        self.arrays_change();
    }
}
