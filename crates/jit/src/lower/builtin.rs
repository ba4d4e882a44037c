//! Methods and iterators of built-in types that are compiled in place.
//!
//! A method is compiled in place behind one comparison of the object's table with the ordinary table of its class;
//! otherwise it is called, so that an object in another mode gets the attention it wants. A loop makes its object
//! ordinary once, by a call of a method that only reads, and then looks into it.

use bifrost_heap::{HEADER_OFFSET, OBJECT_WORDS, SIZE_MASK, TABLE_OFFSET};
use bifrost_ir::builtin::Builtin;
use bifrost_ir::{Block, Callee, MethodRef, Operand, TypeId, Var};
use bifrost_runtime::image::Table;
use bifrost_runtime::object::{array, cell, list, sequence, string};
use cranelift_codegen::ir::{self, BlockArg, InstBuilder, Type, Value, condcodes::IntCC, types};

use super::Lower;
use crate::analysis::InlineLoop;

impl<'a> Lower<'_, 'a, '_> {
    /// Compiles a call of a method of a built-in type in place; false if it is to be called.
    pub(super) fn builtin_call(
        &mut self,
        m: MethodRef,
        row: &Builtin,
        args: &[Operand],
        dsts: &[Var],
    ) -> bool {
        let known = matches!(
            (row.family, row.name()),
            ("cell", "put" | "get" | "full")
                | ("array", "fetch" | "store" | "length" | "empty" | "low" | "high" | "append")
                | ("sequence", "fetch" | "length" | "empty")
                | ("list", "first" | "next" | "empty" | "notEmpty" | "length")
                | ("string", "length" | "empty")
        );
        if !known {
            return false;
        }
        let program = self.unit.image.program();
        let element = program.types.kind(m.ty).element().map_or(types::I64, |t| self.value_type(t));
        let result = program.types.method(m).signature.results.first().map(|t| self.value_type(*t));
        let object = self.operand(args[0]);
        let operands: Vec<Value> = args[1..].iter().map(|a| self.operand(*a)).collect();
        let (fast, slow, done) = (self.b.create_block(), self.cold_block(), self.b.create_block());
        let value = result.map(|ty| self.b.append_block_param(done, ty));

        let ordinary = self.is_ordinary(object, m.ty);
        self.b.ins().brif(ordinary, fast, &[], slow, &[]);
        self.start(fast);
        let fast_value = self.builtin_fast(row, element, object, &operands, slow);
        self.jump_with(done, fast_value);

        self.start(slow);
        let word = self.call(Callee::Method(m), args, None);
        let slow_value = result.map(|ty| self.unword(ty, word));
        self.jump_with(done, slow_value);

        self.start(done);
        if let ([dst], Some(value)) = (dsts, value) {
            self.write(*dst, value);
        }
        true
    }

    fn jump_with(&mut self, block: ir::Block, value: Option<Value>) {
        match value {
            Some(value) => self.b.ins().jump(block, &[BlockArg::Value(value)]),
            None => self.b.ins().jump(block, &[]),
        };
    }

    /// Whether an object's table is the ordinary one of its class.
    fn is_ordinary(&mut self, object: Value, ty: TypeId) -> Value {
        let expected = std::ptr::from_ref::<Table>(self.unit.image.table_of(ty));
        let table = self.load(types::I64, object, TABLE_OFFSET);
        let expected = self.address(expected.cast());
        self.b.ins().icmp(IntCC::Equal, table, expected)
    }

    fn field(&mut self, object: Value, field: usize) -> Value {
        self.load_field(types::I64, object, field)
    }

    fn storage(&mut self, array: Value) -> Value {
        let storage = self.field(array, array::STORAGE);
        self.mark(storage);
        storage
    }

    /// The address that is `OBJECT_WORDS + FIRST` words before a storage's or sequence's element number `at`.
    fn element_base(&mut self, object: Value, at: Value) -> Value {
        let bytes = self.b.ins().ishl_imm_s(at, 3);
        self.b.ins().iadd(object, bytes)
    }

    fn array_element(&mut self, element: Type, array: Value, at: Value) -> Value {
        let head = self.field(array, array::HEAD);
        let storage = self.storage(array);
        let at = self.b.ins().iadd(head, at);
        let base = self.element_base(storage, at);
        self.load_field(element, base, 0)
    }

    fn builtin_fast(
        &mut self,
        row: &Builtin,
        element: Type,
        object: Value,
        args: &[Value],
        slow: ir::Block,
    ) -> Option<Value> {
        let signals = *self.unit.image.signals();
        match (row.family, row.name()) {
            ("cell", "put") => {
                let full = self.int(1);
                self.store_field(object, cell::FULL, full);
                self.store_field(object, cell::VALUE, args[0]);
                None
            }
            ("cell", "full") => Some(self.field(object, cell::FULL)),
            ("cell", _) => {
                let full = self.field(object, cell::FULL);
                let empty = self.b.ins().icmp_imm_s(IntCC::Equal, full, 0);
                self.signal_if(empty, signals.not_possible);
                Some(self.load_field(element, object, cell::VALUE))
            }
            ("array", "fetch") => {
                let at = self.array_position(object, args[0]);
                Some(self.array_element(element, object, at))
            }
            ("array", "store") => {
                let at = self.array_position(object, args[0]);
                let head = self.field(object, array::HEAD);
                let storage = self.storage(object);
                let at = self.b.ins().iadd(head, at);
                let base = self.element_base(storage, at);
                self.store_field(base, 0, args[1]);
                None
            }
            ("array", "append") => {
                self.array_append(object, args[0], slow);
                None
            }
            ("array", "low") => Some(self.field(object, array::LOW)),
            ("array", "high") => {
                let low = self.field(object, array::LOW);
                let length = self.field(object, array::LENGTH);
                let sum = self.b.ins().iadd(low, length);
                Some(self.b.ins().iadd_imm_s(sum, -1))
            }
            ("sequence", "fetch") => {
                let length = self.field(object, sequence::LENGTH);
                let at = self.b.ins().iadd_imm_s(args[0], -1);
                let outside = self.b.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, at, length);
                self.signal_if(outside, signals.bounds);
                let base = self.element_base(object, at);
                Some(self.load_field(element, base, sequence::ELEMENTS))
            }
            ("list", "first" | "next") => {
                let length = self.field(object, list::LENGTH);
                let empty = self.b.ins().icmp_imm_s(IntCC::Equal, length, 0);
                self.signal_if(empty, signals.empty);
                match row.name() {
                    "first" => Some(self.load_field(element, object, list::FIRST)),
                    _ => Some(self.field(object, list::NEXT)),
                }
            }
            (family, name) => {
                let length = self.field(
                    object,
                    match family {
                        "array" => array::LENGTH,
                        "sequence" => sequence::LENGTH,
                        "list" => list::LENGTH,
                        _ => string::CHARS,
                    },
                );
                Some(match name {
                    "empty" => self.int_test(IntCC::Equal, length, 0),
                    "notEmpty" => self.int_test(IntCC::NotEqual, length, 0),
                    _ => length,
                })
            }
        }
    }

    /// An index less the low bound, inside the bounds.
    fn array_position(&mut self, object: Value, index: Value) -> Value {
        let bounds = self.unit.image.signals().bounds;
        let low = self.field(object, array::LOW);
        let length = self.field(object, array::LENGTH);
        let at = self.b.ins().isub(index, low);
        let outside = self.b.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, at, length);
        self.signal_if(outside, bounds);
        at
    }

    /// Appends where the storage has room; the method makes room otherwise.
    fn array_append(&mut self, object: Value, value: Value, slow: ir::Block) {
        let storage = self.storage(object);
        let some = self.b.create_block();
        self.b.ins().brif(storage, some, &[], slow, &[]);
        self.start(some);
        let header = self.load(types::I64, storage, HEADER_OFFSET);
        let words = self.b.ins().band_imm_s(header, SIZE_MASK as i64);
        let room = self.b.ins().iadd_imm_s(words, -(OBJECT_WORDS as i64));
        let head = self.field(object, array::HEAD);
        let length = self.field(object, array::LENGTH);
        let at = self.b.ins().iadd(head, length);
        let fits = self.b.ins().icmp(IntCC::UnsignedLessThan, at, room);
        let fast = self.b.create_block();
        self.b.ins().brif(fits, fast, &[], slow, &[]);
        self.start(fast);
        let base = self.element_base(storage, at);
        self.store_field(base, 0, value);
        let longer = self.b.ins().iadd_imm_s(length, 1);
        self.store_field(object, array::LENGTH, longer);
    }

    // Loops.

    pub(super) fn inline_loop(
        &mut self,
        known: InlineLoop,
        callee: Callee,
        args: &[Operand],
        vars: &[Var],
        body: &'a Block,
    ) {
        let operands: Vec<Value> = args.iter().map(|a| self.operand(*a)).collect();
        if let Callee::Method(m) = callee
            && !self.unit.image.program().types.kind(m.ty).is_basic()
        {
            self.make_ordinary(operands[0], args[0], m.ty);
        }
        match known {
            InlineLoop::IntTo => self.int_to(&operands, vars, body),
            InlineLoop::IntToBy => self.int_to_by(&operands, vars, body),
            InlineLoop::ArrayElements => self.array_loop(operands[0], vars, body, true),
            InlineLoop::ArrayIndexes => self.array_loop(operands[0], vars, body, false),
            InlineLoop::SequenceElements => self.sequence_loop(operands[0], vars, body, true),
            InlineLoop::SequenceIndexes => self.sequence_loop(operands[0], vars, body, false),
            InlineLoop::ListElements => self.list_loop(operands[0], vars, body),
        }
    }

    /// Calls `length` of an object whose table is not the ordinary one.
    fn make_ordinary(&mut self, object: Value, operand: Operand, ty: TypeId) {
        let Some(length) = self.unit.image.program().types.find_method(ty, "length") else { return };
        let (slow, next) = (self.cold_block(), self.b.create_block());
        let ordinary = self.is_ordinary(object, ty);
        self.b.ins().brif(ordinary, next, &[], slow, &[]);
        self.start(slow);
        self.call(Callee::Method(length), &[operand], None);
        self.b.ins().jump(next, &[]);
        self.start(next);
    }

    /// A hidden variable.
    fn counter(&mut self, start: Value) -> cranelift_frontend::Variable {
        let counter = self.b.declare_var(types::I64);
        self.b.def_var(counter, start);
        counter
    }

    fn int_to(&mut self, operands: &[Value], vars: &[Var], body: &'a Block) {
        let [from, limit] = operands else { unreachable!("the heading has one argument") };
        let (from, limit) = (*from, *limit);
        let counter = self.counter(from);
        // The test is at the end of each step, where `limit` itself is found before the counter overflows.
        let (inside, after) = (self.b.create_block(), self.b.create_block());
        let none = self.b.ins().icmp(IntCC::SignedGreaterThan, from, limit);
        self.b.ins().brif(none, after, &[], inside, &[]);
        self.start(inside);
        self.counted_loop(
            body,
            |_| None,
            |this| {
                let i = this.b.use_var(counter);
                this.write(vars[0], i);
            },
            |this| {
                let i = this.b.use_var(counter);
                let next = this.b.ins().iadd_imm_s(i, 1);
                this.b.def_var(counter, next);
                Some(this.b.ins().icmp(IntCC::SignedGreaterThanOrEqual, i, limit))
            },
        );
        self.b.ins().jump(after, &[]);
        self.start(after);
    }

    fn int_to_by(&mut self, operands: &[Value], vars: &[Var], body: &'a Block) {
        let [from, limit, by] = operands else { unreachable!("the heading has two arguments") };
        let (from, limit, by) = (*from, *limit, *by);
        let none = self.b.ins().icmp_imm_s(IntCC::Equal, by, 0);
        let zero = self.unit.image.signals().zero;
        self.signal_if(none, zero);
        let counter = self.counter(from);
        let up = self.b.ins().icmp_imm_s(IntCC::SignedGreaterThan, by, 0);
        self.counted_loop(
            body,
            |this| {
                let i = this.b.use_var(counter);
                let above = this.b.ins().icmp(IntCC::SignedGreaterThan, i, limit);
                let below = this.b.ins().icmp(IntCC::SignedLessThan, i, limit);
                Some(this.b.ins().select(up, above, below))
            },
            |this| {
                let i = this.b.use_var(counter);
                this.write(vars[0], i);
            },
            |this| {
                let i = this.b.use_var(counter);
                let (next, over) = this.b.ins().sadd_overflow(i, by);
                this.b.def_var(counter, next);
                Some(over)
            },
        );
    }

    /// Looks at the array again at each step (theta.md 16): what comes is seen, what goes is not.
    fn array_loop(&mut self, object: Value, vars: &[Var], body: &'a Block, elements: bool) {
        let element = self.var_type(vars[0]);
        let low = self.field(object, array::LOW);
        let counter = self.counter(low);
        self.counted_loop(
            body,
            |this| {
                let low = this.field(object, array::LOW);
                let i = this.b.use_var(counter);
                let i = this.b.ins().smax(i, low);
                this.b.def_var(counter, i);
                let length = this.field(object, array::LENGTH);
                let at = this.b.ins().isub(i, low);
                Some(this.b.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, at, length))
            },
            |this| {
                let i = this.b.use_var(counter);
                let value = if elements {
                    let low = this.field(object, array::LOW);
                    let at = this.b.ins().isub(i, low);
                    this.array_element(element, object, at)
                } else {
                    i
                };
                this.write(vars[0], value);
            },
            |this| {
                let i = this.b.use_var(counter);
                let next = this.b.ins().iadd_imm_s(i, 1);
                this.b.def_var(counter, next);
                None
            },
        );
    }

    fn sequence_loop(&mut self, object: Value, vars: &[Var], body: &'a Block, elements: bool) {
        let element = self.var_type(vars[0]);
        let length = self.field(object, sequence::LENGTH);
        let start = self.int(0);
        let counter = self.counter(start);
        self.counted_loop(
            body,
            |this| {
                let i = this.b.use_var(counter);
                Some(this.b.ins().icmp(IntCC::SignedGreaterThanOrEqual, i, length))
            },
            |this| {
                let i = this.b.use_var(counter);
                let value = if elements {
                    let base = this.element_base(object, i);
                    this.load_field(element, base, sequence::ELEMENTS)
                } else {
                    this.b.ins().iadd_imm_s(i, 1)
                };
                this.write(vars[0], value);
            },
            |this| {
                let i = this.b.use_var(counter);
                let next = this.b.ins().iadd_imm_s(i, 1);
                this.b.def_var(counter, next);
                None
            },
        );
    }

    fn list_loop(&mut self, object: Value, vars: &[Var], body: &'a Block) {
        let element = self.var_type(vars[0]);
        let rest = self.counter(object);
        self.counted_loop(
            body,
            |this| {
                let at = this.b.use_var(rest);
                this.mark(at);
                let length = this.field(at, list::LENGTH);
                Some(this.b.ins().icmp_imm_s(IntCC::Equal, length, 0))
            },
            |this| {
                let at = this.b.use_var(rest);
                this.mark(at);
                let value = this.load_field(element, at, list::FIRST);
                this.write(vars[0], value);
            },
            |this| {
                let at = this.b.use_var(rest);
                this.mark(at);
                let next = this.field(at, list::NEXT);
                this.b.def_var(rest, next);
                None
            },
        );
    }
}
