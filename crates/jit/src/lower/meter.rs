//! The parts that structures of clients have and methods do not: fuel, nesting of procedures, and a
//! trace of failures.
//!
//! **Fuel.** Each call and each round of a loop takes a unit of `Cx::fuel`; when there is none the
//! structure is killed, as in the interpreter. A function of a structure has the fuel in a variable
//! ([`Lower::begin_fuel`]). It is in the context while other code runs that takes fuel, and at the
//! function's end. `Cx::calls` follows from it: all units that were not
//! calls are taken off it here, and the caller of the code adds the units that were used.
//!
//! **The trace.** A batch says which call failed, and in which round of each loop around it. The
//! rounds are counted in the context all the time. Behind a call stands a statement with handlers
//! that has none, the call's *site* ([`Context`]). An exception that is not handled inside passes
//! by there on its way out, and the first to pass notes its place. A handler further out forgets it
//! again. Procedures need no trace: of a failure inside one, clients are told the call of the
//! procedure.
//!
//! **Procedures** call each other, and themselves, as the code that they are, and count how deep
//! they are.

use bifrost_ir::loops::Loop;
use bifrost_ir::{Callee, FuncKind, Site, Stmt};
use bifrost_runtime::abi::Outcome;
use bifrost_runtime::cx::offset;
use cranelift_codegen::ir::{BlockArg, Inst, InstBuilder, Value, condcodes::IntCC, types};

use super::call::Context;
use super::control::Target;
use super::{Environment, Lower};
use crate::helper::Helper;

/// The place of a call in a structure.
#[derive(Clone, Copy)]
pub(crate) struct Note {
    site: Site,
    /// The number of loops around it.
    loops: usize,
}

impl<'a> Lower<'_, 'a, '_> {
    /// True if the statements here are a structure's own.
    pub(crate) fn is_metered(&self) -> bool {
        self.waiting.is_empty() && matches!(self.unit.func.kind, FuncKind::Batch | FuncKind::Procedure)
    }

    /// True if the code says where it failed.
    pub(crate) fn is_traced(&self) -> bool {
        self.unit.func.kind == FuncKind::Batch
    }

    /// Lowers code whose failure is that of the call at this site of a structure.
    pub(crate) fn at_site(&mut self, site: Site, lower: impl FnOnce(&mut Self)) {
        if !self.is_traced() {
            return lower(self);
        }
        let outer = self.scope.context;
        let note = Note { site, loops: self.unit.loops };
        self.contexts.push(Context::new_site(note, outer));
        self.scope.context = self.contexts.len() - 1;
        lower(self);
        let after = self.reachable.then(|| self.b.create_block());
        if let Some(after) = after {
            self.b.ins().jump(after, &[]);
        }
        self.end_context();
        self.scope.context = outer;
        if let Some(after) = after {
            self.start(after);
        }
    }

    /// Writes down the place of a failure that passes by, unless that was done further in.
    pub(crate) fn note(&mut self, note: Note) {
        let (first, next) = (self.cold_block(), self.cold_block());
        let failed = self.load_cx(offset::TRACE_FAILED);
        self.b.ins().brif(failed, next, &[], first, &[]);
        self.start(first);
        let words = [
            (offset::TRACE_FAILED, 1),
            (offset::TRACE_SITE, i64::from(note.site.0)),
            (offset::TRACE_LOOPS, note.loops as i64),
        ];
        for (offset, word) in words {
            let word = self.int(word);
            self.store_cx(word, offset);
        }
        self.b.ins().jump(next, &[]);
        self.start(next);
    }

    /// Forgets the failure that a handler took.
    pub(crate) fn forget_failure(&mut self) {
        if self.is_traced() {
            let zero = self.int(0);
            self.store_cx(zero, offset::TRACE_FAILED);
        }
    }

    // Fuel.

    /// Begins to count fuel, at the entry of a function of a structure.
    pub(crate) fn begin_fuel(&mut self) {
        if matches!(self.unit.func.kind, FuncKind::Batch | FuncKind::Procedure) {
            self.fuel = Some(self.b.declare_var(types::I64));
            self.load_fuel();
        }
    }

    /// Takes over the fuel that is in the context.
    pub(crate) fn load_fuel(&mut self) {
        if let Some(fuel) = self.fuel {
            let left = self.load_cx(offset::FUEL);
            self.b.def_var(fuel, left);
        }
    }

    /// Writes the fuel into the context, for other code.
    pub(crate) fn store_fuel(&mut self) {
        if let Some(fuel) = self.fuel {
            let left = self.b.use_var(fuel);
            self.store_cx(left, offset::FUEL);
        }
    }

    /// Takes a unit of fuel for a call that has returned.
    pub(crate) fn burn(&mut self) {
        let fuel = self.fuel.expect("a structure counts its fuel");
        let left = self.b.use_var(fuel);
        let left = self.b.ins().iadd_imm_s(left, -1);
        self.b.def_var(fuel, left);
        let over = self.b.ins().icmp_imm_s(IntCC::SignedLessThan, left, 0);
        let (out, next) = (self.out_of_fuel(), self.b.create_block());
        self.b.ins().brif(over, out, &[], next, &[]);
        self.start(next);
    }

    /// Takes a unit of fuel for a round of a loop of the structure.
    pub(crate) fn burn_round(&mut self) {
        if self.is_metered() && self.reachable {
            self.add_to_cx(offset::CALLS, -1);
            self.at_site(Site::default(), Self::burn);
        }
    }

    pub(crate) fn add_to_cx(&mut self, offset: i32, number: i64) -> Value {
        let word = self.load_cx(offset);
        let sum = self.b.ins().iadd_imm_s(word, number);
        self.store_cx(sum, offset);
        sum
    }

    // Loops.

    /// Lowers a loop of the structure.
    pub(crate) fn metered_loop(&mut self, lower: impl FnOnce(&mut Self)) {
        self.unit.loops += 1;
        if self.is_traced() {
            let (one, place) = (self.int(1), self.round_place());
            self.store_cx(one, place);
        }
        lower(self);
        self.unit.loops -= 1;
    }

    /// Lowers a loop over an iterator, whose call is counted when it begins and takes no fuel.
    pub(crate) fn metered_foreach(&mut self, site: Site, lower: impl FnOnce(&mut Self)) {
        self.add_to_cx(offset::CALLS, 1);
        self.metered_loop(|this| this.at_site(site, lower));
    }

    /// The next round of the innermost loop of the structure begins.
    pub(crate) fn next_round(&mut self) {
        if self.is_metered() && self.is_traced() && self.reachable {
            let place = self.round_place();
            self.add_to_cx(place, 1);
        }
    }

    /// Lowers a loop that is under way in the interpreter ([`Extent::Loop`]): its round is in the
    /// context.
    ///
    /// [`Extent::Loop`]: bifrost_runtime::Extent::Loop
    pub(crate) fn loop_under_way(&mut self, part: Loop<'a>) {
        self.unit.loops = part.around + 1;
        match part.stmt {
            Stmt::While { cond, test, body } => {
                self.environment = Environment::Pointer(self.b.block_params(self.entry)[1]);
                self.while_stmt(part.stmt, cond, *test, body);
            }
            Stmt::ForEach { vars, body, .. } => self.closure_body(vars, body, Target::Closure),
            _ => unreachable!("a part is a loop"),
        }
    }

    pub(crate) fn round_place(&self) -> i32 {
        offset::TRACE_ROUNDS + 8 * (self.unit.loops as i32 - 1)
    }

    // Procedures.

    /// Calls a procedure with these words, the first of which is the context.
    pub(crate) fn call_procedure(&mut self, callee: Callee, words: &[Value]) -> Inst {
        let depth = self.load_cx(offset::PROCEDURE_DEPTH);
        let (deep, next) = (self.cold_block(), self.b.create_block());
        let most = self.load_cx(offset::PROCEDURE_DEPTH_MAX);
        let is = self.b.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, depth, most);
        self.b.ins().brif(is, deep, &[], next, &[]);
        self.start(deep);
        let (outcome, _) = self.call_helper_unchecked(Helper::TooDeep, &[]);
        let dispatch = self.dispatch();
        self.b.ins().jump(dispatch, &[BlockArg::Value(outcome)]);
        self.start(next);
        let deeper = self.b.ins().iadd_imm_s(depth, 1);
        self.store_cx(deeper, offset::PROCEDURE_DEPTH);
        let inst = match callee {
            Callee::Procedure(number) => {
                let code = self.address(self.unit.procedures[number as usize].0);
                let signature = self.signature_of(words.len() - 1);
                self.b.ins().call_indirect(signature, code, words)
            }
            _ if let Some(itself) = self.unit.itself => {
                let code = self.address(itself.0);
                let signature = self.signature_of(words.len() - 1);
                self.b.ins().call_indirect(signature, code, words)
            }
            _ => {
                let this = self.unit_function(self.unit.names[0], words.len() - 1);
                self.b.ins().call(this, words)
            }
        };
        self.add_to_cx(offset::PROCEDURE_DEPTH, -1);
        inst
    }

    /// The end of the context that fuel runs out in.
    pub(crate) fn end_fuel(&mut self, context: usize) {
        let Some(block) = self.contexts[context].out_of_fuel else { return };
        self.start(block);
        let (_, _) = self.call_helper_unchecked(Helper::OutOfFuel, &[]);
        let killed = self.int(Outcome::Killed as i64);
        let dispatch = self.dispatch_of(context);
        self.b.ins().jump(dispatch, &[BlockArg::Value(killed)]);
        self.reachable = false;
    }
}
