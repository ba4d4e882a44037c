//! Methods and iterators of built-in types that are compiled in place.
//!
//! They look into objects that are open, and change those that may be changed
//! ([`known`](super::known)). Read [`Lower::builtin_call`] first for methods,
//! [`Lower::creator_call`] for creators of arrays, and [`Lower::inline_loop`] for iterators. A case
//! that is not compiled in place is left to [`call`](super::call).

use bifrost_heap::{HEADER_OFFSET, OBJECT_WORDS, SIZE_MASK, TABLE_OFFSET};
use bifrost_ir::builtin::Builtin;
use bifrost_ir::{Block, Callee, MethodRef, Operand, TypeKind, Var};
use bifrost_runtime::cx::offset;
use bifrost_runtime::image::Table;
use bifrost_runtime::object::{array, cell, list, sequence, string, vector};
use cranelift_codegen::ir::{BlockArg, InstBuilder, Type, Value, condcodes::IntCC, types};

use super::Lower;
use super::control::{Latch, POLL_STEPS, Stretch};
use super::known::View;
use super::memory::Region;
use crate::analysis::InlineLoop;

/// Most elements of an array that is filled in place.
const FILL_MAX: i64 = 1024;

impl<'a> Lower<'_, 'a, '_> {
    /// Compiles a call of a method of a built-in type in place; false if it is to be called.
    pub(crate) fn builtin_call(
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
                | ("vector", "fetch" | "store" | "length")
                | ("string", "length" | "empty" | "fetch" | "equal")
        );
        if !known {
            return false;
        }
        let program = self.unit.image.program();
        let element = program.types.kind(m.ty).element().map_or(types::I64, |t| self.value_type(t));
        let object = self.operand(args[0]);
        let operands: Vec<Value> = args[1..].iter().map(|a| self.operand(*a)).collect();
        self.attend_to_receiver(object, m, row.changes());
        let value = match (row.family, row.name()) {
            ("string", "fetch") => Some(self.string_fetch(Callee::Method(m), args, object, operands[0])),
            ("string", "equal") => Some(self.string_equal(Callee::Method(m), args, object, operands[0])),
            ("array", "append") => {
                self.array_append(Callee::Method(m), args, object, operands[0]);
                None
            }
            _ => self.builtin_fast(row, element, object, &operands),
        };
        if let ([dst], Some(value)) = (dsts, value) {
            self.write(*dst, value);
        }
        true
    }

    /// Compiles a call of a routine that makes a built-in object in place; false if it is to be
    /// called.
    pub(crate) fn creator_call(&mut self, callee: Callee, args: &[Operand], dsts: &[Var]) -> bool {
        let (Callee::Routine(routine), [dst]) = (callee, dsts) else { return false };
        let (image, program) = (self.unit.image, self.unit.image.program());
        let Some(table) = image.routine(routine).table else { return false };
        let made = match program.native_name(program.routines[routine].body).unwrap_or_default() {
            "array_fill" => {
                let view = self.array_filled(callee, args, table, self.has_private(*dst));
                if self.has_private(*dst) {
                    self.scope.private.push(view);
                    self.pin_one(*dst, view.array);
                }
                view.array
            }
            "array_new" => {
                let (low, zero) = (self.int(1), self.int(0));
                self.new_object_of(table, &[low, zero, zero, zero], |_| Region::Arrays)
            }
            "cell_new" => {
                let zero = self.int(0);
                self.new_object_of(table, &[zero; cell::FIELDS], |_| Region::Cells)
            }
            _ => return false,
        };
        self.is_changeable(made);
        self.write(*dst, made);
        true
    }

    /// A new array of so many equal elements: it and its storage are taken from the window at once,
    /// if there is room. One that is bare is its storage alone.
    pub(crate) fn array_filled(
        &mut self,
        fill: Callee,
        args: &[Operand],
        table: &'static Table,
        bare: bool,
    ) -> View {
        let operands: Vec<Value> = args.iter().map(|arg| self.operand(*arg)).collect();
        let [low, count, value] = operands[..] else { unreachable!("the heading has three arguments") };
        let element = table.info().element.expect("an array has elements");
        let storage = self.unit.image.storage_table(element);
        let (slow, few, fast) = (self.cold_block(), self.b.create_block(), self.b.create_block());
        let done = self.b.create_block();
        let [array, base] = [(); 2].map(|()| {
            let reference = self.b.append_block_param(done, types::I64);
            self.mark(reference);
            reference
        });
        let less = self.b.ins().iadd_imm_s(count, -1);
        let fits = self.b.ins().icmp_imm_u(IntCC::UnsignedLessThan, less, FILL_MAX);
        self.b.ins().brif(fits, few, &[], slow, &[]);

        self.start(few);
        let next = self.load_cx(offset::ALLOC_NEXT);
        let end = self.load_cx(offset::ALLOC_END);
        let words = if bare { 0 } else { OBJECT_WORDS + array::FIELDS };
        let begin = self.b.ins().iadd_imm_s(next, 8 * words as i64);
        let bytes = self.b.ins().ishl_imm_s(count, 3);
        let after = self.b.ins().iadd(begin, bytes);
        let after = self.b.ins().iadd_imm_s(after, 8 * OBJECT_WORDS as i64);
        let full = self.b.ins().icmp(IntCC::UnsignedGreaterThan, after, end);
        self.b.ins().brif(full, slow, &[], fast, &[]);

        self.start(fast);
        self.store_cx(after, offset::ALLOC_NEXT);
        self.begin_object(begin, storage, count);
        if !bare {
            let fields = self.int(array::FIELDS as i64);
            self.begin_object(next, table, fields);
            for (field, value) in [(array::LOW, low), (array::LENGTH, count), (array::STORAGE, begin)] {
                self.store_field(next, field, value, Region::Arrays);
            }
        }
        // New memory is all zero.
        if !self.is_zero(value) {
            let (step, filled) = (self.b.create_block(), self.b.create_block());
            let place = self.b.append_block_param(step, types::I64);
            self.b.ins().jump(step, &[BlockArg::Value(begin)]);
            self.b.switch_to_block(step);
            self.store_field(place, 0, value, Region::Elements);
            let place = self.b.ins().iadd_imm_s(place, 8);
            let last = self.b.ins().iadd_imm_s(after, -8 * OBJECT_WORDS as i64);
            let more = self.b.ins().icmp(IntCC::UnsignedLessThan, place, last);
            self.b.ins().brif(more, step, &[BlockArg::Value(place)], filled, &[]);
            self.b.seal_block(step);
            self.start(filled);
        }
        self.b.ins().jump(done, &[next, begin].map(BlockArg::Value));

        self.start(slow);
        let made = self.call(fill, args, None);
        let storage = self.array_field(made, array::STORAGE);
        self.b.ins().jump(done, &[made, storage].map(BlockArg::Value));
        self.start(done);
        // Its first element is the first of the storage.
        View { array: if bare { base } else { array }, low, length: count, base }
    }

    /// Stores the two words that a new object with so many fields begins with.
    pub(crate) fn begin_object(&mut self, object: Value, table: &'static Table, fields: Value) {
        let table = self.address(std::ptr::from_ref(table).cast());
        let header = self.b.ins().iadd_imm_s(fields, OBJECT_WORDS as i64);
        self.store(table, object, TABLE_OFFSET, Region::Heads);
        self.store(header, object, HEADER_OFFSET, Region::Heads);
    }

    /// True if a method looks into an array and is compiled in place.
    pub(crate) fn looks_into_array(&self, m: MethodRef) -> bool {
        self.unit.image.program().types.method(m).builtin.is_some_and(|row| {
            row.family == "array"
                && matches!(row.name(), "fetch" | "store" | "length" | "empty" | "low" | "high")
        })
    }

    /// A field of a built-in object that never changes.
    pub(crate) fn field(&mut self, object: Value, field: usize) -> Value {
        self.load_field(types::I64, object, field, Region::Constant)
    }

    /// A field of an array.
    pub(crate) fn array_field(&mut self, array: Value, field: usize) -> Value {
        self.load_field(types::I64, array, field, Region::Arrays)
    }

    /// The address that is `OBJECT_WORDS + FIRST` words before a storage's or sequence's element
    /// number `at`.
    pub(crate) fn element_base(&mut self, object: Value, at: Value) -> Value {
        let bytes = self.b.ins().ishl_imm_s(at, 3);
        self.b.ins().iadd(object, bytes)
    }

    pub(crate) fn array_element(&mut self, element: Type, view: View, at: Value) -> Value {
        let base = self.element_base(view.base, at);
        self.load_field(element, base, 0, Region::Elements)
    }

    pub(crate) fn builtin_fast(
        &mut self,
        row: &Builtin,
        element: Type,
        object: Value,
        args: &[Value],
    ) -> Option<Value> {
        let signals = *self.unit.image.signals();
        match (row.family, row.name()) {
            ("cell", "put") => {
                let full = self.int(1);
                self.store_field(object, cell::FULL, full, Region::Cells);
                self.store_field(object, cell::VALUE, args[0], Region::Cells);
                None
            }
            ("cell", "full") => Some(self.load_field(types::I64, object, cell::FULL, Region::Cells)),
            ("cell", _) => {
                let full = self.load_field(types::I64, object, cell::FULL, Region::Cells);
                let empty = self.b.ins().icmp_imm_s(IntCC::Equal, full, 0);
                self.signal_if(empty, signals.not_possible);
                Some(self.load_field(element, object, cell::VALUE, Region::Cells))
            }
            ("array", "fetch") => {
                let view = self.view(object);
                let at = self.array_position(view, args[0]);
                Some(self.array_element(element, view, at))
            }
            ("array", "store") => {
                let view = self.view(object);
                let at = self.array_position(view, args[0]);
                let base = self.element_base(view.base, at);
                self.store_field(base, 0, args[1], Region::Elements);
                None
            }
            ("array", "low") => Some(self.view(object).low),
            ("array", "high") => {
                let view = self.view(object);
                let sum = self.b.ins().iadd(view.low, view.length);
                Some(self.b.ins().iadd_imm_s(sum, -1))
            }
            ("vector", "fetch") => {
                let base = self.vector_element(object, args[0]);
                Some(self.load_field(element, base, vector::ELEMENTS, Region::Elements))
            }
            ("vector", "store") => {
                let base = self.vector_element(object, args[0]);
                self.store_field(base, vector::ELEMENTS, args[1], Region::Elements);
                None
            }
            ("sequence", "fetch") => {
                let length = self.field(object, sequence::LENGTH);
                let at = self.position(args[0], length);
                let base = self.element_base(object, at);
                Some(self.load_field(element, base, sequence::ELEMENTS, Region::Constant))
            }
            ("list", "first" | "next") => {
                let length = self.field(object, list::LENGTH);
                let empty = self.b.ins().icmp_imm_s(IntCC::Equal, length, 0);
                self.signal_if(empty, signals.empty);
                match row.name() {
                    "first" => Some(self.load_field(element, object, list::FIRST, Region::Constant)),
                    _ => Some(self.field(object, list::NEXT)),
                }
            }
            (family, name) => {
                let length = match family {
                    "array" => self.view(object).length,
                    "sequence" => self.field(object, sequence::LENGTH),
                    "list" => self.field(object, list::LENGTH),
                    "vector" => self.field(object, vector::LENGTH),
                    _ => self.field(object, string::CHARS),
                };
                Some(match name {
                    "empty" => self.int_test(IntCC::Equal, length, 0),
                    "notEmpty" => self.int_test(IntCC::NotEqual, length, 0),
                    _ => length,
                })
            }
        }
    }

    /// The address of the object that has an element as its first, inside the bounds of an array or
    /// vector.
    pub(crate) fn element_place(&mut self, kind: TypeKind, object: Value, index: Value) -> Value {
        self.open_to_change(object);
        if let TypeKind::Vector(_) = kind {
            return self.vector_element(object, index);
        }
        let view = self.view(object);
        let at = self.array_position(view, index);
        self.element_base(view.base, at)
    }

    /// Stores an element at its place.
    pub(crate) fn store_element(&mut self, kind: TypeKind, place: Value, value: Value) {
        let field = if let TypeKind::Vector(_) = kind { vector::ELEMENTS } else { 0 };
        self.store_field(place, field, value, Region::Elements);
    }

    /// An index less the low bound, inside the bounds.
    pub(crate) fn array_position(&mut self, view: View, index: Value) -> Value {
        let bounds = self.unit.image.signals().bounds;
        let at = self.b.ins().isub(index, view.low);
        if !self.knows_inside(view.array, index) {
            let outside = self.b.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, at, view.length);
            self.signal_if(outside, bounds);
            self.is_inside(view.array, index);
        }
        at
    }

    /// An index from 1 on, less 1, inside a length.
    pub(crate) fn position(&mut self, index: Value, length: Value) -> Value {
        let bounds = self.unit.image.signals().bounds;
        let at = self.b.ins().iadd_imm_s(index, -1);
        let outside = self.b.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, at, length);
        self.signal_if(outside, bounds);
        at
    }

    pub(crate) fn vector_element(&mut self, object: Value, index: Value) -> Value {
        let length = self.field(object, vector::LENGTH);
        let at = self.position(index, length);
        self.element_base(object, at)
    }

    /// Appends where the storage has room; the method makes room otherwise.
    pub(crate) fn array_append(&mut self, append: Callee, args: &[Operand], object: Value, value: Value) {
        let (slow, done) = (self.cold_block(), self.b.create_block());
        let storage = self.array_field(object, array::STORAGE);
        self.mark(storage);
        let some = self.b.create_block();
        self.b.ins().brif(storage, some, &[], slow, &[]);
        self.start(some);
        let header = self.load(types::I64, storage, HEADER_OFFSET, Region::Heads);
        let words = self.b.ins().band_imm_s(header, SIZE_MASK as i64);
        let room = self.b.ins().iadd_imm_s(words, -(OBJECT_WORDS as i64));
        let head = self.array_field(object, array::HEAD);
        let length = self.array_field(object, array::LENGTH);
        let at = self.b.ins().iadd(head, length);
        let fits = self.b.ins().icmp(IntCC::UnsignedLessThan, at, room);
        let fast = self.b.create_block();
        self.b.ins().brif(fits, fast, &[], slow, &[]);
        self.start(fast);
        let base = self.element_base(storage, at);
        self.store_field(base, 0, value, Region::Elements);
        let longer = self.b.ins().iadd_imm_s(length, 1);
        self.store_field(object, array::LENGTH, longer, Region::Arrays);
        self.b.ins().jump(done, &[]);
        self.start(slow);
        self.call(append, args, None);
        self.b.ins().jump(done, &[]);
        self.start(done);
        self.arrays_change();
    }

    // Loops.

    pub(crate) fn inline_loop(
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
            self.attend_to_receiver(operands[0], m, false);
        }
        match known {
            InlineLoop::IntTo => self.int_to(&operands, vars, body),
            InlineLoop::IntToBy => self.int_to_by(&operands, vars, body),
            InlineLoop::ArrayElements if !self.may_call(body) && self.arrays_stay(&[body]) => {
                self.elements_loop(operands[0], vars, body);
            }
            InlineLoop::ArrayElements => self.array_loop(operands[0], vars, body, true),
            InlineLoop::ArrayIndexes => self.array_loop(operands[0], vars, body, false),
            InlineLoop::SequenceElements => self.sequence_loop(operands[0], vars, body, true),
            InlineLoop::SequenceIndexes => self.sequence_loop(operands[0], vars, body, false),
            InlineLoop::ListElements => self.list_loop(operands[0], vars, body),
        }
    }

    /// Makes sure that the receiver of a method of a built-in type may be looked into, or changed.
    pub(crate) fn attend_to_receiver(&mut self, object: Value, m: MethodRef, changes: bool) {
        match changes {
            _ if !self.unit.image.has_modes(m.ty) => {}
            true => self.open_to_change(object),
            false => self.open(object),
        }
    }

    /// A hidden variable.
    pub(crate) fn counter(&mut self, start: Value) -> cranelift_frontend::Variable {
        let counter = self.b.declare_var(types::I64);
        self.b.def_var(counter, start);
        counter
    }

    pub(crate) fn int_to(&mut self, operands: &[Value], vars: &[Var], body: &'a Block) {
        let [from, limit] = operands else { unreachable!("the heading has one argument") };
        let (from, limit) = (*from, *limit);
        let counter = self.counter(from);
        // The test is at the end of each step, where `limit` itself is found before the counter
        // overflows.
        let none = self.b.ins().icmp(IntCC::SignedGreaterThan, from, limit);
        self.loop_unless(
            none,
            vars,
            body,
            |this| {
                let i = this.b.use_var(counter);
                this.write(vars[0], i);
            },
            |this| {
                let i = this.b.use_var(counter);
                let next = this.b.ins().iadd_imm_s(i, 1);
                this.b.def_var(counter, next);
                let ended = this.b.ins().icmp(IntCC::SignedGreaterThanOrEqual, i, limit);
                Latch { ended: Some(ended), polled: Some(this.polled_at(i, 1)), ..Latch::default() }
            },
        );
    }

    /// A loop whose end is found at the end of each step, if there is a step at all.
    pub(crate) fn loop_unless(
        &mut self,
        none: Value,
        vars: &[Var],
        body: &'a Block,
        step: impl FnOnce(&mut Self),
        latch: impl FnOnce(&mut Self) -> Latch,
    ) {
        let (inside, after) = (self.b.create_block(), self.b.create_block());
        self.b.ins().brif(none, after, &[], inside, &[]);
        self.start(inside);
        let before = self.known.clone();
        self.counted_loop(vars, body, |_| None, step, latch);
        self.b.ins().jump(after, &[]);
        self.start(after);
        self.known_before(before);
    }

    pub(crate) fn int_to_by(&mut self, operands: &[Value], vars: &[Var], body: &'a Block) {
        let [from, limit, by] = operands else { unreachable!("the heading has two arguments") };
        let (from, limit, by) = (*from, *limit, *by);
        let none = self.b.ins().icmp_imm_s(IntCC::Equal, by, 0);
        let zero = self.unit.image.signals().zero;
        self.signal_if(none, zero);
        let counter = self.counter(from);
        let up = self.b.ins().icmp_imm_s(IntCC::SignedGreaterThan, by, 0);
        self.counted_loop(
            vars,
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
                Latch { ended: Some(over), ..Latch::default() }
            },
        );
    }

    /// A value that is 0 after at most [`POLL_STEPS`] steps of a counter.
    pub(crate) fn polled_at(&mut self, counter: Value, step: i64) -> Value {
        self.b.ins().band_imm_s(counter, (POLL_STEPS - 1) * step)
    }

    /// Looks at the array again at each step (`docs/book/language/library.md`): elements that come
    /// are seen, elements that go are not.
    pub(crate) fn array_loop(&mut self, object: Value, vars: &[Var], body: &'a Block, elements: bool) {
        let element = self.var_type(vars[0]);
        let low = self.view(object).low;
        let counter = self.counter(low);
        self.counted_loop(
            vars,
            body,
            |this| {
                let view = this.view(object);
                let mut i = this.b.use_var(counter);
                // Where the loop begins with the bounds of before, it stays above them.
                if view.low != low {
                    i = this.b.ins().smax(i, view.low);
                    this.b.def_var(counter, i);
                }
                let at = this.b.ins().isub(i, view.low);
                Some(this.b.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, at, view.length))
            },
            |this| {
                let i = this.b.use_var(counter);
                this.is_inside(object, i);
                let value = if elements {
                    let view = this.view(object);
                    let at = this.b.ins().isub(i, view.low);
                    this.array_element(element, view, at)
                } else {
                    i
                };
                this.write(vars[0], value);
            },
            |this| {
                let i = this.b.use_var(counter);
                let next = this.b.ins().iadd_imm_s(i, 1);
                this.b.def_var(counter, next);
                Latch { polled: Some(this.polled_at(i, 1)), ..Latch::default() }
            },
        );
    }

    /// The same in a loop that calls nothing and so leaves the array as it is: from element to
    /// element. The end is computed from the storage, and so keeps it as long as the loop runs
    /// ([`safepoint`](crate::safepoint)).
    pub(crate) fn elements_loop(&mut self, object: Value, vars: &[Var], body: &'a Block) {
        let element = self.var_type(vars[0]);
        let view = self.view(object);
        let counter = self.counter(view.base);
        let end = self.element_base(view.base, view.length);
        let none = self.b.ins().icmp_imm_s(IntCC::Equal, view.length, 0);
        let most = 8 * POLL_STEPS;
        let stop = self.stop_of_stretch(view.base, end, most);
        let stop = self.counter(stop);
        self.loop_unless(
            none,
            vars,
            body,
            |this| {
                let at = this.b.use_var(counter);
                let value = this.load_field(element, at, 0, Region::Elements);
                this.write(vars[0], value);
            },
            |this| {
                let at = this.b.use_var(counter);
                let next = this.b.ins().iadd_imm_s(at, 8);
                this.b.def_var(counter, next);
                Latch { stretch: Some(Stretch { stop, at: counter, next, end, most }), ..Latch::default() }
            },
        );
    }

    pub(crate) fn sequence_loop(&mut self, object: Value, vars: &[Var], body: &'a Block, elements: bool) {
        let element = self.var_type(vars[0]);
        let length = self.field(object, sequence::LENGTH);
        let start = self.int(0);
        let counter = self.counter(start);
        self.counted_loop(
            vars,
            body,
            |this| {
                let i = this.b.use_var(counter);
                Some(this.b.ins().icmp(IntCC::SignedGreaterThanOrEqual, i, length))
            },
            |this| {
                let i = this.b.use_var(counter);
                let value = if elements {
                    let base = this.element_base(object, i);
                    this.load_field(element, base, sequence::ELEMENTS, Region::Constant)
                } else {
                    this.b.ins().iadd_imm_s(i, 1)
                };
                this.write(vars[0], value);
            },
            |this| {
                let i = this.b.use_var(counter);
                let next = this.b.ins().iadd_imm_s(i, 1);
                this.b.def_var(counter, next);
                Latch { polled: Some(this.polled_at(i, 1)), ..Latch::default() }
            },
        );
    }

    pub(crate) fn list_loop(&mut self, object: Value, vars: &[Var], body: &'a Block) {
        let element = self.var_type(vars[0]);
        let rest = self.counter(object);
        self.counted_loop(
            vars,
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
                let value = this.load_field(element, at, list::FIRST, Region::Constant);
                this.write(vars[0], value);
            },
            |this| {
                let at = this.b.use_var(rest);
                this.mark(at);
                let next = this.field(at, list::NEXT);
                this.mark(next);
                this.open(next);
                this.b.def_var(rest, next);
                Latch::default()
            },
        );
    }
}
