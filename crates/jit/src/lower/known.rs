//! What is known of objects where the code is being made.
//!
//! That an object's table is the ordinary one of its class is compared once; it holds wherever that comparison leads
//! ([`Lower::ordinary`]). Of arrays, bounds and the place of the elements are loaded once and hold until something is called that may
//! change them ([`View`]); loops that call no such thing have them loaded before.
//!
//! Known is what holds on every path: a branch adds nothing to what is known behind it, and takes away what it may have
//! changed.

use bifrost_ir::{Block, Callee, Operand, Stmt, TypeId, Var};
use bifrost_runtime::image::Table;
use bifrost_runtime::object::array;
use cranelift_codegen::ir::{InstBuilder, Value, condcodes::IntCC};

use super::Lower;
use crate::helper::Helper;
use crate::target::Calls;

/// What is known here.
#[derive(Clone, Default, Debug)]
pub(super) struct Known {
    /// Objects with the ordinary table of a type.
    ordinary: Vec<(Value, TypeId)>,
    views: Vec<View>,
    /// Counts what may have changed arrays.
    changes: u32,
}

/// Where an array's elements are.
#[derive(Clone, Copy, Debug)]
pub(super) struct View {
    array: Value,
    pub(super) low: Value,
    pub(super) length: Value,
    /// The address of the object that has the first element as its first field.
    pub(super) base: Value,
}

/// Most arrays that are looked into before a loop.
const VIEWS_MAX: usize = 6;

impl<'a> Lower<'_, 'a, '_> {
    /// Makes sure that an object, which is of the only class of a type, has its ordinary table.
    pub(super) fn ordinary(&mut self, object: Value, ty: TypeId) {
        if self.knows_ordinary(object, ty) {
            return;
        }
        let expected = std::ptr::from_ref::<Table>(self.unit.image.table_of(ty));
        let table = self.load_table(object);
        let expected = self.address(expected.cast());
        let is = self.b.ins().icmp(IntCC::Equal, table, expected);
        let (other, next) = (self.cold_block(), self.b.create_block());
        self.b.ins().brif(is, next, &[], other, &[]);
        self.start(other);
        self.call_helper(Helper::Ordinary, &[object]);
        self.b.ins().jump(next, &[]);
        self.start(next);
        self.is_ordinary(object, ty);
    }

    pub(super) fn knows_ordinary(&self, object: Value, ty: TypeId) -> bool {
        self.known.ordinary.contains(&(object, ty))
    }

    /// An object has the ordinary table of a type.
    pub(super) fn is_ordinary(&mut self, object: Value, ty: TypeId) {
        self.known.ordinary.push((object, ty));
    }

    /// What an ordinary array looks like.
    pub(super) fn view(&mut self, object: Value) -> View {
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
        self.known.views.push(view);
        view
    }

    /// Arrays may have changed.
    pub(super) fn arrays_change(&mut self) {
        self.known.views.clear();
        self.known.changes += 1;
    }

    /// What a call of these operands leaves of what is known.
    pub(super) fn known_after(&mut self, callee: Callee, args: &[Operand]) {
        let calls = self.calls();
        if !self.unit.effects.call_keeps(calls, callee, args) {
            self.arrays_change();
        }
    }

    /// Where calls are made.
    pub(super) fn calls(&self) -> Calls<'a> {
        Calls { image: self.unit.image, func: self.scope.func, class: self.scope.class }
    }

    /// Goes back to what was known before something that is not on every path to here.
    pub(super) fn known_before(&mut self, before: Known) {
        let changes = self.known.changes;
        let changed = changes != before.changes;
        self.known = before;
        self.known.changes = changes;
        if changed {
            self.known.views.clear();
        }
    }

    /// What is not on every path to what follows it.
    pub(super) fn on_some_paths(&mut self, lower: impl FnOnce(&mut Self)) {
        let before = self.known.clone();
        lower(self);
        if self.reachable {
            self.known_before(before);
        } else {
            self.known = Known { changes: self.known.changes, ..before };
        }
    }

    /// Before a loop of these blocks: what they may change is no longer known, and arrays that they look into but do not
    /// change are looked into here.
    pub(super) fn before_loop(&mut self, blocks: &[&'a Block]) {
        let analysis = self.scope.analysis.clone();
        let each = self.scope.each.map(|(_, body)| {
            let outer = self.waiting.last().expect("the function around it waits");
            let calls = Calls { image: self.unit.image, func: outer.func, class: outer.class };
            // A loop in a loop in place of calls is not followed further.
            self.unit.effects.blocks_keep(calls, &outer.analysis, &[body], None)
        });
        let calls = self.calls();
        if !self.unit.effects.blocks_keep(calls, &analysis, blocks, each) {
            self.arrays_change();
            return;
        }
        let mut arrays = Arrays::default();
        for block in blocks {
            arrays.block(self, block);
        }
        let fixed: Vec<Var> = arrays.used.iter().filter(|v| !arrays.written.contains(v)).copied().collect();
        for var in fixed.into_iter().take(VIEWS_MAX) {
            if analysis.shared[var.as_u32() as usize].is_some() {
                continue;
            }
            let object = self.read(var);
            self.make_ordinary(object, var.into(), self.scope.func.vars[var].ty);
            self.view(object);
        }
    }
}

/// The arrays that a loop looks into.
#[derive(Default)]
struct Arrays {
    /// Variables that are read as arrays where the code certainly leads, if it leads anywhere: their values exist before the loop
    /// unless they are written in it.
    used: Vec<Var>,
    written: Vec<Var>,
}

impl Arrays {
    fn block(&mut self, lower: &Lower<'_, '_, '_>, block: &Block) {
        let mut live = true;
        for stmt in &block.0 {
            self.stmt(lower, stmt, live);
            live &= !may_end(stmt);
        }
    }

    fn stmt(&mut self, lower: &Lower<'_, '_, '_>, stmt: &Stmt, live: bool) {
        let mark = self.used.len();
        match stmt {
            Stmt::Let { dst, .. }
            | Stmt::New { dst, .. }
            | Stmt::NewSequence { dst, .. }
            | Stmt::Get { dst, .. } => self.written.push(*dst),
            Stmt::Call { callee, args, dsts, .. } => {
                self.written.extend(dsts);
                if let (Callee::Method(m), Some(Operand::Var(var))) = (callee, args.first())
                    && lower.looks_into_array(*m)
                    && !self.used.contains(var)
                {
                    self.used.push(*var);
                }
            }
            Stmt::If { then, otherwise, .. } => {
                self.block(lower, then);
                self.block(lower, otherwise);
            }
            Stmt::While { cond, body, .. } => {
                self.block(lower, cond);
                self.block(lower, body);
            }
            Stmt::ForEach { vars, body, .. } => {
                self.written.extend(vars);
                self.block(lower, body);
            }
            Stmt::Except { body, arms } => {
                self.block(lower, body);
                for arm in arms {
                    self.written.extend(&arm.vars);
                    self.block(lower, &arm.body);
                }
            }
            _ => {}
        }
        if !live {
            self.used.truncate(mark);
        }
    }
}

/// Whether nothing may follow a statement in its block.
fn may_end(stmt: &Stmt) -> bool {
    let ends = |block: &Block| block.0.iter().any(may_end);
    match stmt {
        Stmt::Break | Stmt::Continue | Stmt::Return(_) | Stmt::Signal { .. } | Stmt::Exit { .. } => true,
        Stmt::If { then, otherwise, .. } => ends(then) && ends(otherwise),
        Stmt::While { test, .. } => matches!(test, Operand::Const(_)),
        Stmt::Except { .. } => true,
        _ => false,
    }
}
