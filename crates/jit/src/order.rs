//! Orders branches: if one way stays in a loop and the other leaves it, the one that leaves comes
//! first.
//!
//! The optimiser places values that a loop does not change before the loop. It does so only as long
//! as it has not come to a block outside of the loop. It goes through the tree of dominators, and
//! forgets a loop when it has seen the end of it. It sees the first way of a branch last. (For the
//! same reason polls in loops end the function at a place that is not inside of any loop. Functions
//! that have loops have a poll at their beginning too.)

use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::dominator_tree::DominatorTree;
use cranelift_codegen::flowgraph::ControlFlowGraph;
use cranelift_codegen::ir::condcodes::{CondCode, IntCC};
use cranelift_codegen::ir::{Block, Function, Inst, InstBuilder, InstructionData, Opcode, Value, ValueDef};
use cranelift_codegen::loop_analysis::LoopAnalysis;

/// Turns round the branches of a function that leave a loop by their second way.
pub(crate) fn exits_first(func: &mut Function) {
    let cfg = ControlFlowGraph::with_function(func);
    let tree = DominatorTree::with_function(func, &cfg);
    let mut loops = LoopAnalysis::new();
    loops.compute(func, &cfg, &tree);
    if loops.loops().next().is_none() {
        return;
    }
    let leaving: Vec<Inst> =
        func.layout.blocks().filter_map(|block| stays_first(func, &loops, block)).collect();
    for branch in leaving {
        turn_round(func, branch);
    }
}

/// The branch at the end of a block in a loop that is left if its condition does not hold, and only
/// then.
fn stays_first(func: &Function, loops: &LoopAnalysis, block: Block) -> Option<Inst> {
    let around = loops.innermost_loop(block)?;
    let branch = func.layout.last_inst(block)?;
    let InstructionData::Brif { blocks, .. } = func.dfg.insts[branch] else { return None };
    let [first, second] = blocks.map(|call| loops.is_in_loop(call.block(&func.dfg.value_lists), around));
    (first && !second).then_some(branch)
}

/// Exchanges the ways of a branch and makes its condition the opposite.
fn turn_round(func: &mut Function, branch: Inst) {
    let InstructionData::Brif { arg, blocks: [first, second], .. } = func.dfg.insts[branch] else {
        unreachable!("only such branches are collected")
    };
    let opposite = opposite(func, branch, arg);
    func.dfg.insts[branch] =
        InstructionData::Brif { opcode: Opcode::Brif, arg: opposite, blocks: [second, first] };
}

/// A value before an instruction that is 0 where another is not, and the other way round.
fn opposite(func: &mut Function, before: Inst, condition: Value) -> Value {
    let mut test = func.dfg.resolve_aliases(condition);
    while let Some(InstructionData::Unary { opcode: Opcode::Uextend, arg }) = made_by(func, test) {
        test = func.dfg.resolve_aliases(arg);
    }
    let made_by = made_by(func, test);
    let ty = func.dfg.value_type(condition);
    let mut at = FuncCursor::new(func).at_inst(before);
    match made_by {
        Some(InstructionData::IntCompare { args: [x, y], cond, .. }) => {
            at.ins().icmp(cond.complement(), x, y)
        }
        Some(InstructionData::FloatCompare { args: [x, y], cond, .. }) => {
            at.ins().fcmp(cond.complement(), x, y)
        }
        _ => {
            let zero = at.ins().iconst(ty, 0);
            at.ins().icmp(IntCC::Equal, condition, zero)
        }
    }
}

/// The instruction that makes a value.
fn made_by(func: &Function, value: Value) -> Option<InstructionData> {
    match func.dfg.value_def(value) {
        ValueDef::Result(inst, _) => Some(func.dfg.insts[inst]),
        _ => None,
    }
}
