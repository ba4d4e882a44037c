//! Facts about objects that hold where the code is being made.
//!
//! The fact that an object may be looked into, or changed, is tested once. It holds wherever that
//! test leads, because in a run an object only goes towards the ordinary mode ([`Lower::open`]);
//! but not beyond the begin or the end of a transaction of the program ([`Lower::objects_close`]).
//! Of arrays, bounds and the place of the elements are loaded once and hold until something is
//! called that may change them ([`View`]); loops that call no such thing have them loaded before.
//! Of arrays that no other code knows ([`private`](crate::private)) they hold across all calls.
//!
//! A fact is known if it holds on every path: a branch adds nothing to the facts behind it, and
//! takes away those that it may have changed.

use std::collections::{BTreeMap, BTreeSet};

use bifrost_ir::builtin::Op;
use bifrost_ir::{Block, Callee, Operand, Part, Program, Stmt, Types, Var};
use bifrost_runtime::cx::offset;
use bifrost_runtime::object::array;
use cranelift_codegen::ir::{InstBuilder, Value, types};

use super::Lower;
use crate::analysis::InlineLoop;
use crate::helper::Helper;
use crate::target::Calls;

/// The facts that hold here.
#[derive(Clone, Default, Debug)]
pub(crate) struct Known {
    /// Objects that may be looked into.
    open: Vec<Value>,
    /// Objects that may be changed.
    changeable: Vec<Value>,
    views: Vec<View>,
    /// Arrays and indexes inside their bounds.
    inside: Vec<(Value, Value)>,
    /// Results of operations that did not go over: they need not be made and checked again.
    results: Vec<(Operation, Value)>,
    /// The number of events that may have changed arrays.
    changes: u32,
    /// Counts the transactions that have begun or ended.
    transactions: u32,
}

/// An operation on two values, or on one and a constant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Operation {
    Values(Op, Value, Value),
    AddConstant(Value, i64),
}

/// The place of an array's elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View {
    pub(crate) array: Value,
    pub(crate) low: Value,
    pub(crate) length: Value,
    /// The address of the object that has the first element as its first field.
    pub(crate) base: Value,
}

/// Most facts of a kind that are kept; the oldest are forgotten.
const FACTS_MAX: usize = 64;

fn keep<T>(facts: &mut Vec<T>, fact: T) {
    if facts.len() >= FACTS_MAX {
        facts.drain(..FACTS_MAX / 2);
    }
    facts.push(fact);
}

/// Most arrays that are looked into before a loop.
const VIEWS_MAX: usize = 6;

impl<'a> Lower<'_, 'a, '_> {
    /// Makes sure that an object may be looked into.
    pub(crate) fn open(&mut self, object: Value) {
        let Some(modes) = self.unit.image.modes() else { return };
        if !self.known.open.contains(&object) && !self.known.changeable.contains(&object) {
            self.attend_to(object, modes.closed_bit(), Helper::Open);
            self.is_open(object);
        }
    }

    /// Makes sure that an object may be changed.
    pub(crate) fn open_to_change(&mut self, object: Value) {
        let Some(modes) = self.unit.image.modes() else { return };
        if !self.known.changeable.contains(&object) {
            self.attend_to(object, modes.closed_bit() | modes.clean_bit(), Helper::OpenToChange);
            self.is_changeable(object);
        }
    }

    /// Calls a helper if the address of an object's table has one of these bits.
    pub(crate) fn attend_to(&mut self, object: Value, bits: usize, helper: Helper) {
        let (other, next) = (self.cold_block(), self.b.create_block());
        let table = self.load_table(object);
        let wants = self.b.ins().band_imm_s(table, bits as i64);
        self.b.ins().brif(wants, other, &[], next, &[]);
        self.start(other);
        self.call_helper(helper, &[object]);
        self.b.ins().jump(next, &[]);
        self.start(next);
    }

    /// An object may be looked into.
    pub(crate) fn is_open(&mut self, object: Value) {
        keep(&mut self.known.open, object);
    }

    /// An object may be changed.
    pub(crate) fn is_changeable(&mut self, object: Value) {
        keep(&mut self.known.changeable, object);
    }

    /// The bounds and elements of an array that is open.
    pub(crate) fn view(&mut self, object: Value) -> View {
        if let Some(view) = self.private(object) {
            return view;
        }
        if let Some(view) = self.known.views.iter().find(|v| v.array == object) {
            return *view;
        }
        let low = self.array_field(object, array::LOW);
        let length = self.array_field(object, array::LENGTH);
        let head = self.array_field(object, array::HEAD);
        let storage = self.array_field(object, array::STORAGE);
        self.mark(storage);
        let base = self.element_base(storage, head);
        let view = View { array: object, low, length, base };
        keep(&mut self.known.views, view);
        view
    }

    /// The bounds and elements of an array that no other code knows, and of which there is no more
    /// than its storage: that is its value.
    pub(crate) fn private(&self, object: Value) -> Option<View> {
        self.scope.private.iter().find(|view| view.array == object).copied()
    }

    /// True if a variable has such an array as soon as it has one.
    pub(crate) fn has_private(&self, var: Var) -> bool {
        // Code that goes on has it from a join.
        self.unit.again.is_none() && self.scope.analysis.private.contains(&var)
    }

    /// A variable has got the only value that it ever has.
    pub(crate) fn pin_one(&mut self, var: Var, value: Value) {
        self.scope.pins[var.as_u32() as usize] = Some(value);
    }

    pub(crate) fn knows_inside(&self, array: Value, index: Value) -> bool {
        self.known.inside.contains(&(array, index))
    }

    /// An index is inside the bounds of an array.
    pub(crate) fn is_inside(&mut self, array: Value, index: Value) {
        keep(&mut self.known.inside, (array, index));
    }

    /// The result of an operation: the one that is known, or a new one.
    pub(crate) fn result_of(&mut self, operation: Operation, make: impl FnOnce(&mut Self) -> Value) -> Value {
        if let Some((_, known)) = self.known.results.iter().find(|(o, _)| *o == operation) {
            return *known;
        }
        let value = make(self);
        keep(&mut self.known.results, (operation, value));
        value
    }

    /// Arrays may have changed.
    pub(crate) fn arrays_change(&mut self) {
        self.forget_views();
        self.known.changes += 1;
    }

    pub(crate) fn forget_views(&mut self) {
        let private = &self.scope.private;
        self.known.views.clear();
        self.known.inside.retain(|(array, _)| private.iter().any(|view| view.array == *array));
    }

    /// A transaction has begun and ended: objects are in other modes than before.
    pub(crate) fn objects_close(&mut self) {
        self.arrays_change();
        self.known.open.clear();
        self.known.changeable.clear();
        self.known.transactions += 1;
    }

    /// Forgets all facts.
    pub(crate) fn forget(&mut self) {
        let Known { changes, transactions, .. } = self.known;
        self.known = Known { changes: changes + 1, transactions: transactions + 1, ..Known::default() };
    }

    /// Keeps the facts that a call of these operands leaves valid.
    pub(crate) fn known_after(&mut self, callee: Callee, args: &[Operand]) {
        let calls = self.calls();
        if !self.unit.effects.call_keeps(calls, callee, args) {
            self.arrays_change();
        }
    }

    /// The place at which calls are made.
    pub(crate) fn calls(&self) -> Calls<'a> {
        Calls { image: self.unit.image, func: self.scope.func, class: self.scope.class }
    }

    /// Goes back to the facts of before, behind code that is not on every path to here.
    pub(crate) fn known_before(&mut self, before: Known) {
        let Known { changes, transactions, .. } = self.known;
        let (changed, closed) = (changes != before.changes, transactions != before.transactions);
        self.known = Known { changes, transactions, ..before };
        if changed {
            self.forget_views();
        }
        if closed {
            self.known.open.clear();
            self.known.changeable.clear();
        }
    }

    /// Lowers code that is not on every path to the code behind it.
    pub(crate) fn on_some_paths(&mut self, lower: impl FnOnce(&mut Self)) {
        let before = self.known.clone();
        lower(self);
        if self.reachable {
            self.known_before(before);
        } else {
            let Known { changes, transactions, .. } = self.known;
            self.known = Known { changes, transactions, ..before };
        }
    }

    /// Prepares for a loop of these blocks over these variables. Facts that the blocks may change
    /// are no longer known, and arrays that they look into but do not change are looked into here.
    /// Returns the pins of before.
    pub(crate) fn before_loop(&mut self, blocks: &[&'a Block], vars: &[Var]) -> Vec<Option<Value>> {
        let pins = self.scope.pins.clone();
        let keeps = self.arrays_stay(blocks);
        if blocks.iter().any(|block| block.has_transaction()) {
            self.objects_close();
        } else if !keeps {
            self.arrays_change();
        }
        self.renew(blocks);
        let arrays = self.pinned_arrays(blocks, vars);
        for var in arrays.into_iter().take(if keeps { VIEWS_MAX } else { 0 }) {
            let object = self.read(var);
            self.open(object);
            self.view(object);
        }
        pins
    }

    /// Gives the numbers that a loop without calls changes new values before it. The code generator
    /// keeps a variable in one place through all loops that it passes, and if one of them calls
    /// something, that place is in memory.
    pub(crate) fn renew(&mut self, blocks: &[&'a Block]) {
        if blocks.iter().any(|block| self.may_call(block)) || !self.may_call(&self.unit.func.body) {
            return;
        }
        let mut uses = Uses::default();
        for block in blocks {
            uses.block(self, block);
        }
        let mut nothing = None;
        for var in uses.written.iter().filter(|var| uses.read.contains_key(var)) {
            let shared = self.scope.analysis.shared[var.as_u32() as usize].is_some();
            let number = self.scope.func.vars[*var].ty == Types::INT && self.var_type(*var) == types::I64;
            if number && !shared {
                let nothing = *nothing.get_or_insert_with(|| {
                    // Shifted, so that the sum is an address: that of an addition would be where
                    // the old value is.
                    let nothing = self.load_cx(offset::NOTHING);
                    self.b.ins().ishl_imm_s(nothing, 3)
                });
                let value = self.read(*var);
                let value = self.b.ins().iadd(value, nothing);
                self.write(*var, value);
            }
        }
    }

    /// True if something in a block may be a call on its usual way.
    pub(crate) fn may_call(&self, block: &Block) -> bool {
        let program = self.unit.image.program();
        block.contains(&|stmt| may_call(program, stmt))
    }

    /// True if some blocks of the function leave all arrays as they are.
    pub(crate) fn arrays_stay(&mut self, blocks: &[&'a Block]) -> bool {
        let analysis = self.scope.analysis.clone();
        let each = self.scope.each.map(|(_, body)| {
            let outer = self.waiting.last().expect("the function around it waits");
            let calls = Calls { image: self.unit.image, func: outer.func, class: outer.class };
            // A loop in a loop in place of calls is not followed further.
            self.unit.effects.blocks_keep(calls, &outer.analysis, &[body], None)
        });
        let calls = self.calls();
        self.unit.effects.blocks_keep(calls, &analysis, blocks, each)
    }

    /// Pins the variables that some blocks read and do not write, and that are none of `vars`. As
    /// long as the blocks are lowered, their values are those that they have here, also where the
    /// code generator cannot see it yet. Returns those that are read as arrays.
    pub(crate) fn pinned_arrays(&mut self, blocks: &[&'a Block], vars: &[Var]) -> Vec<Var> {
        let mut uses = Uses::default();
        uses.written.extend(vars);
        for block in blocks {
            uses.block(self, block);
        }
        let mut arrays = Vec::new();
        for (var, array) in uses.read {
            let shared = self.scope.analysis.shared[var.as_u32() as usize].is_some();
            if shared || uses.written.contains(&var) {
                continue;
            }
            let value = self.read(var);
            self.scope.pins[var.as_u32() as usize] = Some(value);
            if array {
                arrays.push(var);
            }
        }
        arrays
    }

    /// Pins variables for the body of a loop over some.
    pub(crate) fn pin(&mut self, body: &'a Block, vars: &[Var]) {
        self.pinned_arrays(&[body], vars);
    }
}

/// The variables that some blocks use.
#[derive(Default)]
struct Uses {
    /// Variables that are read where the code certainly leads, if it leads anywhere, and whether as
    /// arrays. Their values exist before the blocks unless they are written in them.
    read: BTreeMap<Var, bool>,
    written: BTreeSet<Var>,
}

impl Uses {
    pub(crate) fn block(&mut self, lower: &Lower<'_, '_, '_>, block: &Block) {
        let mut live = true;
        for stmt in &block.0 {
            self.stmt(lower, stmt, live);
            live &= !may_end(stmt);
        }
    }

    pub(crate) fn stmt(&mut self, lower: &Lower<'_, '_, '_>, stmt: &Stmt, live: bool) {
        let before = (!live).then(|| self.read.clone());
        stmt.parts(&mut |part| match part {
            Part::Reads(Operand::Var(var)) => _ = self.read.entry(var).or_insert(false),
            Part::Reads(Operand::Const(_)) => {}
            Part::Writes(var) => _ = self.written.insert(var),
            Part::Block(block) => self.block(lower, block),
        });
        if let Stmt::Call { callee: Callee::Method(m), args, .. } = stmt
            && let Some(Operand::Var(var)) = args.first()
            && lower.looks_into_array(*m)
        {
            self.read.insert(*var, true);
        }
        if let Some(before) = before {
            self.read = before;
        }
    }
}

/// True if the code of a statement may call something on its usual way.
fn may_call(program: &Program, stmt: &Stmt) -> bool {
    match stmt {
        Stmt::Let { .. }
        | Stmt::Get { .. }
        | Stmt::Set { .. }
        | Stmt::If { .. }
        | Stmt::While { .. }
        | Stmt::Break
        | Stmt::Continue => false,
        Stmt::Call { callee: Callee::Method(m), .. } => program.types.method(*m).builtin.is_none_or(|row| {
            let in_place = row.family == "array" && matches!(row.name(), "fetch" | "store" | "length");
            row.op.is_none() && !in_place
        }),
        Stmt::ForEach { callee, .. } => InlineLoop::of(program, *callee).is_none(),
        _ => true,
    }
}

/// True if nothing may follow a statement in its block.
fn may_end(stmt: &Stmt) -> bool {
    let ends = |block: &Block| block.0.iter().any(may_end);
    match stmt {
        Stmt::Break | Stmt::Continue | Stmt::Return(_) | Stmt::Signal { .. } | Stmt::Exit { .. } => true,
        Stmt::If { then, otherwise, .. } | Stmt::TypeIf { then, otherwise, .. } => {
            ends(then) && ends(otherwise)
        }
        Stmt::While { test, .. } => matches!(test, Operand::Const(_)),
        Stmt::Except { .. } | Stmt::Transaction { .. } => true,
        _ => false,
    }
}
