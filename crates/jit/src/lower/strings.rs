//! Methods of strings that are compiled in place. Strings never change.

use bifrost_ir::{Callee, Operand};
use bifrost_runtime::object::string;
use cranelift_codegen::ir::{self, BlockArg, InstBuilder, Value, condcodes::IntCC, types};

use super::Lower;
use super::memory::Region;

/// Words of the texts that are compared in place. Names and keys are mostly that short; of longer
/// texts most pairs that differ do so in these words or in their lengths.
const WORDS_IN_PLACE: usize = 2;

impl Lower<'_, '_, '_> {
    /// A character of a string: a byte, if all characters are; otherwise the method finds it.
    pub(crate) fn string_fetch(
        &mut self,
        fetch: Callee,
        args: &[Operand],
        object: Value,
        index: Value,
    ) -> Value {
        let (fast, slow, done) = (self.b.create_block(), self.cold_block(), self.b.create_block());
        let result = self.b.append_block_param(done, types::I64);
        let chars = self.field(object, string::CHARS);
        let bytes = self.field(object, string::BYTES);
        let at = self.position(index, chars);
        let plain = self.b.ins().icmp(IntCC::Equal, chars, bytes);
        self.b.ins().brif(plain, fast, &[], slow, &[]);
        self.start(fast);
        let base = self.b.ins().iadd(object, at);
        let byte = self.load_field(types::I8, base, string::TEXT, Region::Constant);
        let value = self.b.ins().uextend(types::I64, byte);
        self.b.ins().jump(done, &[BlockArg::Value(value)]);
        self.start(slow);
        let value = self.call(fetch, args, None);
        self.b.ins().jump(done, &[BlockArg::Value(value)]);
        self.start(done);
        result
    }

    /// Returns true if two strings have the same text. Their lengths and first words are compared
    /// here, the rest of two that are equal so far by the method.
    ///
    /// Whole words are compared, since the bytes behind a text are zero. Even an empty one has a
    /// word.
    pub(crate) fn string_equal(&mut self, equal: Callee, args: &[Operand], a: Value, b: Value) -> Value {
        let done = self.b.create_block();
        let result = self.b.append_block_param(done, types::I64);
        let (yes, no) = (self.int(1), self.int(0));
        let length = self.field(a, string::BYTES);
        let other = self.field(b, string::BYTES);
        self.same_or(length, other, done, no);
        for word in 0..WORDS_IN_PLACE {
            if word > 0 {
                let longer = self.b.create_block();
                let bytes = 8 * word as i64;
                let is = self.b.ins().icmp_imm_u(IntCC::UnsignedGreaterThan, length, bytes);
                self.b.ins().brif(is, longer, &[], done, &[BlockArg::Value(yes)]);
                self.start(longer);
            }
            let own = self.field(a, string::TEXT + word);
            let other = self.field(b, string::TEXT + word);
            self.same_or(own, other, done, no);
        }
        let (long, slow) = (self.b.create_block(), self.cold_block());
        let bytes = 8 * WORDS_IN_PLACE as i64;
        let is = self.b.ins().icmp_imm_u(IntCC::UnsignedGreaterThan, length, bytes);
        self.b.ins().brif(is, long, &[], done, &[BlockArg::Value(yes)]);
        self.start(long);
        let same = self.b.ins().icmp(IntCC::Equal, a, b);
        self.b.ins().brif(same, done, &[BlockArg::Value(yes)], slow, &[]);
        self.start(slow);
        let value = self.call(equal, args, None);
        self.b.ins().jump(done, &[BlockArg::Value(value)]);
        self.start(done);
        result
    }

    /// Goes to a block with a value if two words differ.
    fn same_or(&mut self, a: Value, b: Value, block: ir::Block, value: Value) {
        let on = self.b.create_block();
        let same = self.b.ins().icmp(IntCC::Equal, a, b);
        self.b.ins().brif(same, on, &[], block, &[BlockArg::Value(value)]);
        self.start(on);
    }
}
