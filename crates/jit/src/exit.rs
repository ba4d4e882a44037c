//! The record that machine code leaves when it calls Rust, from which a collection finds the frames
//! behind it.

use bifrost_runtime::cx::offset;
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, StackSlotData, StackSlotKind, Value, types};
use cranelift_frontend::FunctionBuilder;

/// Makes a record of the frame pointer, a count, and so many references in the frame of a function.
/// The function must have a frame pointer. The record is made known to the context:
/// [`Cx::exit_frame`](bifrost_runtime::Cx::exit_frame).
pub(crate) fn record(b: &mut FunctionBuilder<'_>, cx: Value, references: &[Value]) {
    let bytes = 8 * (2 + references.len() as u32);
    let slot = b.create_sized_stack_slot(StackSlotData::new(StackSlotKind::ExplicitSlot, bytes, 3));
    let frame = b.ins().get_frame_pointer(types::I64);
    let count = b.ins().iconst(types::I64, references.len() as i64);
    for (i, word) in [frame, count].iter().chain(references).enumerate() {
        b.ins().stack_store(types::I64, *word, slot, 8 * i as i32);
    }
    let record = b.ins().stack_addr(types::I64, slot, 0);
    b.ins().store(MemFlagsData::trusted(), record, cx, offset::EXIT_FRAME);
}
