//! Roots of compiled frames: for each call that may collect, the places in the frame of the
//! references that live across it.
//!
//! Objects do not move, so a collection only has to *find* references. A reference that lives
//! across a call is stored into a slot of the frame before it, and the slot is listed in the call's
//! map; nothing is loaded back. (The code generator's own pass reloads each reference at each use,
//! for collectors that move.) A value never changes, so one store serves all calls that it
//! dominates. Where a call lies in a loop that the value was made outside of, the store is made
//! right behind the value; calls in cold blocks have their stores there. Polls never collect.
//!
//! Lowering marks the values that are references ([`Roots`]); from there they are followed through
//! parameters of blocks. A value that is computed from a reference (an address inside the object)
//! keeps it alive as long as it lives itself. Read [`insert`] first.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::dominator_tree::DominatorTree;
use cranelift_codegen::entity::SecondaryMap;
use cranelift_codegen::flowgraph::ControlFlowGraph;
use cranelift_codegen::ir::{
    Block, Function, Inst, InstBuilder, Opcode, StackSlot, StackSlotData, StackSlotKind, UserStackMapEntry,
    Value, ValueDef, types,
};
use cranelift_codegen::loop_analysis::LoopAnalysis;

/// Functions that keep more references than this share slots between them, which costs stores and
/// saves stack.
const SLOTS_MAX: usize = 64;

/// The facts that lowering records about a function.
#[derive(Default, Debug)]
pub(crate) struct Roots {
    /// Values that are references or 0.
    pub(crate) references: HashSet<Value>,
    /// Calls of which it is known that they do not collect.
    pub(crate) quiet: HashSet<Inst>,
    /// Words of the frame that hold references, or 0, at all calls: slot and byte offset.
    pub(crate) words: Vec<(StackSlot, u32)>,
}

/// Stores the references that a collection must find, and writes the maps of all calls.
pub(crate) fn insert(func: &mut Function, roots: &Roots) {
    let calls = collecting_calls(func, roots);
    if calls.is_empty() {
        return;
    }
    let cfg = ControlFlowGraph::with_function(func);
    let references = references(func, roots);
    let live = live_across(func, &cfg, &references, &calls);
    store(func, &cfg, &live);
    for call in calls.into_values().flatten() {
        for (slot, offset) in &roots.words {
            let entry = UserStackMapEntry { ty: types::I64, slot: *slot, offset: *offset };
            func.dfg.append_user_stack_map_entry(call, entry);
        }
    }
}

/// The calls that may collect, by block.
fn collecting_calls(func: &Function, roots: &Roots) -> BTreeMap<Block, BTreeSet<Inst>> {
    let mut calls: BTreeMap<Block, BTreeSet<Inst>> = BTreeMap::new();
    for block in func.layout.blocks() {
        for inst in func.layout.block_insts(block) {
            if func.dfg.insts[inst].opcode().is_call() && !roots.quiet.contains(&inst) {
                calls.entry(block).or_default().insert(inst);
            }
        }
    }
    calls
}

/// The meaning of a value for the collector.
#[derive(Clone, Default, Debug)]
enum Reference {
    /// Nothing.
    #[default]
    None,
    /// A reference.
    Itself,
    /// An address inside the object that this refers to.
    Within(Value),
}

/// All references of a function.
fn references(func: &mut Function, roots: &Roots) -> SecondaryMap<Value, Reference> {
    let marked: BTreeSet<Value> = roots.references.iter().map(|v| func.dfg.resolve_aliases(*v)).collect();
    // Afterwards aliases are gone.
    func.dfg.resolve_all_aliases();
    let mut found: SecondaryMap<Value, Reference> = SecondaryMap::new();
    let mut work: Vec<Value> = Vec::new();
    for value in marked {
        let constant = match func.dfg.value_def(value) {
            ValueDef::Result(inst, _) => func.dfg.insts[inst].opcode() == Opcode::Iconst,
            _ => false,
        };
        // A constant reference is that of an object that lasts.
        if !constant && matches!(found[value], Reference::None) {
            found[value] = Reference::Itself;
            work.push(value);
        }
    }
    // For each parameter of a block, the values that are passed to it.
    let mut handed: BTreeMap<Value, BTreeSet<Value>> = BTreeMap::new();
    for block in func.layout.blocks() {
        let Some(last) = func.layout.last_inst(block) else { continue };
        let targets =
            func.dfg.insts[last].branch_destination(&func.dfg.jump_tables, &func.dfg.exception_tables);
        for call in targets {
            let target = call.block(&func.dfg.value_lists);
            for (at, arg) in call.args(&func.dfg.value_lists).enumerate() {
                if let Some(value) = arg.as_value() {
                    handed.entry(value).or_default().insert(func.dfg.block_params(target)[at]);
                }
            }
        }
    }
    while let Some(value) = work.pop() {
        for param in handed.get(&value).into_iter().flatten() {
            if matches!(found[*param], Reference::None) {
                found[*param] = Reference::Itself;
                work.push(*param);
            }
        }
    }
    for block in func.layout.blocks() {
        for inst in func.layout.block_insts(block) {
            if func.dfg.insts[inst].opcode() != Opcode::Iadd {
                continue;
            }
            let base = func.dfg.inst_args(inst).iter().find_map(|arg| match found[*arg] {
                Reference::None => None,
                Reference::Itself => Some(*arg),
                Reference::Within(base) => Some(base),
            });
            let sum = func.dfg.first_result(inst);
            if let (Some(base), Reference::None) = (base, &found[sum]) {
                found[sum] = Reference::Within(base);
            }
        }
    }
    found
}

/// The references that a use of a value uses.
fn used(references: &SecondaryMap<Value, Reference>, value: Value) -> Option<Value> {
    match references[value] {
        Reference::None => None,
        Reference::Itself => Some(value),
        Reference::Within(base) => Some(base),
    }
}

/// For each call the references that live across it.
fn live_across(
    func: &Function,
    cfg: &ControlFlowGraph,
    references: &SecondaryMap<Value, Reference>,
    calls: &BTreeMap<Block, BTreeSet<Inst>>,
) -> BTreeMap<Inst, BTreeSet<Value>> {
    let live_in = live_in(func, cfg, references);
    let mut across = BTreeMap::new();
    for (block, calls) in calls {
        let mut live: BTreeSet<Value> =
            cfg.succ_iter(*block).flat_map(|s| live_in[s].iter().copied()).collect();
        let mut at = func.layout.last_inst(*block);
        while let Some(inst) = at {
            for result in func.dfg.inst_results(inst) {
                live.remove(result);
            }
            if calls.contains(&inst) {
                across.insert(inst, live.clone());
            }
            live.extend(func.dfg.inst_values(inst).filter_map(|v| used(references, v)));
            at = func.layout.prev_inst(inst);
        }
    }
    across
}

/// The references that live at the beginning of each block, its parameters not counted: from each
/// use back to the value's block.
fn live_in(
    func: &Function,
    cfg: &ControlFlowGraph,
    references: &SecondaryMap<Value, Reference>,
) -> SecondaryMap<Block, Vec<Value>> {
    let mut uses: BTreeSet<(Value, Block)> = BTreeSet::new();
    for block in func.layout.blocks() {
        for inst in func.layout.block_insts(block) {
            uses.extend(
                func.dfg.inst_values(inst).filter_map(|v| used(references, v)).map(|value| (value, block)),
            );
        }
    }
    let mut live_in: SecondaryMap<Block, Vec<Value>> = SecondaryMap::new();
    let mut work = Vec::new();
    for (value, block) in uses {
        let home = home(func, value);
        work.push(block);
        while let Some(block) = work.pop() {
            if block != home && live_in[block].last() != Some(&value) {
                live_in[block].push(value);
                work.extend(cfg.pred_iter(block).map(|p| p.block));
            }
        }
    }
    live_in
}

/// The block that a value is made in.
fn home(func: &Function, value: Value) -> Block {
    match func.dfg.value_def(value) {
        ValueDef::Result(inst, _) => func.layout.inst_block(inst).expect("what is used is in a block"),
        ValueDef::Param(block, _) => block,
        ValueDef::Union(..) => unreachable!("only the optimiser makes unions"),
    }
}

/// Stores the references that live across calls, and lists them in the maps of the calls.
fn store(func: &mut Function, cfg: &ControlFlowGraph, live: &BTreeMap<Inst, BTreeSet<Value>>) {
    let (slots, own) = slots(func, live);
    let tree = DominatorTree::with_function(func, cfg);
    // Where a value is stored already: blocks, which count from their store on.
    let mut stored: BTreeMap<Value, Vec<Block>> = BTreeMap::new();
    if own {
        for value in in_deeper_loops(func, cfg, &tree, live) {
            store_behind(func, value, slots[&value]);
            stored.insert(value, vec![home(func, value)]);
        }
    }
    let order: Vec<Block> = tree.cfg_rpo().copied().collect();
    for block in order {
        let mut at = func.layout.first_inst(block);
        while let Some(inst) = at {
            at = func.layout.next_inst(inst);
            for value in live.get(&inst).into_iter().flatten() {
                let slot = slots[value];
                let places = stored.entry(*value).or_default();
                if !own || !places.iter().any(|b| tree.block_dominates(*b, block)) {
                    FuncCursor::new(func).at_inst(inst).ins().stack_store(types::I64, *value, slot, 0);
                    places.push(block);
                }
                func.dfg
                    .append_user_stack_map_entry(inst, UserStackMapEntry { ty: types::I64, slot, offset: 0 });
            }
        }
    }
}

/// The slot of each value that lives across a call, and true if each has its own.
fn slots(func: &mut Function, live: &BTreeMap<Inst, BTreeSet<Value>>) -> (BTreeMap<Value, StackSlot>, bool) {
    let values: BTreeSet<Value> = live.values().flatten().copied().collect();
    let mut new = || func.create_sized_stack_slot(StackSlotData::new(StackSlotKind::ExplicitSlot, 8, 3));
    if values.len() <= SLOTS_MAX {
        return (values.into_iter().map(|value| (value, new())).collect(), true);
    }
    // Values that are never kept at once may have the same slot.
    let mut together: BTreeMap<Value, BTreeSet<Value>> = BTreeMap::new();
    for kept in live.values() {
        for value in kept {
            together.entry(*value).or_default().extend(kept);
        }
    }
    let mut pool: Vec<StackSlot> = Vec::new();
    let mut slots: BTreeMap<Value, StackSlot> = BTreeMap::new();
    for (value, others) in &together {
        let taken: BTreeSet<StackSlot> = others.iter().filter_map(|o| slots.get(o).copied()).collect();
        let slot = pool.iter().copied().find(|s| !taken.contains(s)).unwrap_or_else(|| {
            pool.push(new());
            pool[pool.len() - 1]
        });
        slots.insert(*value, slot);
    }
    (slots, false)
}

/// The values that live across a call, not a cold one, in a loop that they were made outside of.
fn in_deeper_loops(
    func: &Function,
    cfg: &ControlFlowGraph,
    tree: &DominatorTree,
    live: &BTreeMap<Inst, BTreeSet<Value>>,
) -> BTreeSet<Value> {
    let mut loops = LoopAnalysis::new();
    loops.compute(func, cfg, tree);
    let mut deeper = BTreeSet::new();
    for (call, values) in live {
        let block = func.layout.inst_block(*call).expect("calls are in blocks");
        if func.layout.is_cold(block) {
            continue;
        }
        let level = loops.loop_level(block).level();
        deeper.extend(values.iter().filter(|v| loops.loop_level(home(func, **v)).level() < level));
    }
    deeper
}

/// Stores a value as soon as it is there.
fn store_behind(func: &mut Function, value: Value, slot: StackSlot) {
    let cursor = match func.dfg.value_def(value) {
        ValueDef::Result(inst, _) => FuncCursor::new(func).after_inst(inst),
        _ => {
            let block = home(func, value);
            FuncCursor::new(func).at_first_insertion_point(block)
        }
    };
    let mut cursor = cursor;
    cursor.ins().stack_store(types::I64, value, slot, 0);
}
