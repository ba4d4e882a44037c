//! Loads, stores and allocation.
//!
//! Each access names the region of memory that it is in. A store in one region changes nothing in
//! another, so that the code generator need not load again the words that it has. Calls may change
//! all of them.

use bifrost_heap::{FIELDS_OFFSET, HEADER_OFFSET, OBJECT_WORDS, SIZE_MASK, TABLE_OFFSET};
use bifrost_ir::{ClassId, TypeId};
use bifrost_runtime::cx::offset;
use bifrost_runtime::image::Table;
use cranelift_codegen::ir::{
    AliasRegionData, BlockArg, InstBuilder, InstructionData, MemFlagsData, Opcode, Type, Value,
    condcodes::IntCC, types,
};

use super::Lower;
use crate::helper::Helper;

/// Parts of memory that do not overlap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Region {
    /// The context.
    Context,
    /// Objects' tables and headers.
    Heads,
    /// The fields of arrays: bounds and storage.
    Arrays,
    /// The elements of arrays.
    Elements,
    /// Cells.
    Cells,
    /// Fields of built-in objects that never change.
    Constant,
    /// A field of a class, inherited or not.
    Field(ClassId, u32),
}

impl Region {
    /// A number of its own. Fields far behind share one.
    pub(crate) fn number(self) -> u32 {
        match self {
            Region::Context => 0,
            Region::Heads => 1,
            Region::Arrays => 2,
            Region::Elements => 3,
            Region::Cells => 4,
            Region::Constant => 5,
            Region::Field(class, field) => (class.as_u32() + 1) << 8 | field.min(255),
        }
    }
}

impl Lower<'_, '_, '_> {
    pub(crate) fn flags(&mut self, region: Region) -> MemFlagsData {
        let data = AliasRegionData { user_id: region.number(), description: String::new().into() };
        let region = self.b.func.dfg.alias_regions.insert(data);
        MemFlagsData::trusted().with_alias_region(Some(region))
    }

    pub(crate) fn load(&mut self, ty: Type, base: Value, offset: i32, region: Region) -> Value {
        let flags = self.flags(region);
        self.b.ins().load(ty, flags, base, offset)
    }

    pub(crate) fn store(&mut self, value: Value, base: Value, offset: i32, region: Region) {
        let flags = self.flags(region);
        self.b.ins().store(flags, value, base, offset);
    }

    pub(crate) fn load_table(&mut self, object: Value) -> Value {
        self.load(types::I64, object, TABLE_OFFSET, Region::Heads)
    }

    pub(crate) fn load_cx(&mut self, offset: i32) -> Value {
        self.load(types::I64, self.cx, offset, Region::Context)
    }

    pub(crate) fn store_cx(&mut self, value: Value, offset: i32) {
        self.store(value, self.cx, offset, Region::Context);
    }

    pub(crate) fn load_field(&mut self, ty: Type, object: Value, field: usize, region: Region) -> Value {
        self.load(ty, object, FIELDS_OFFSET + 8 * field as i32, region)
    }

    pub(crate) fn store_field(&mut self, object: Value, field: usize, value: Value, region: Region) {
        self.store(value, object, FIELDS_OFFSET + 8 * field as i32, region);
    }

    /// The region of a field, whichever subclass it is reached through.
    pub(crate) fn field_region(&self, class: ClassId, field: u32) -> Region {
        let classes = &self.unit.image.program().classes;
        let has = |class: &ClassId| classes[*class].fields.len() > field as usize;
        let owner = std::iter::successors(Some(class), |c| classes[*c].superclass.filter(has)).last();
        Region::Field(owner.unwrap_or(class), field)
    }

    /// A new object of a type with these fields: the allocation window is bumped in place.
    pub(crate) fn new_object(
        &mut self,
        ty: TypeId,
        values: &[Value],
        region: impl Fn(usize) -> Region,
    ) -> Value {
        self.new_object_of(self.unit.image.table_of(ty), values, region)
    }

    /// The same with the table of the type.
    pub(crate) fn new_object_of(
        &mut self,
        table: &'static Table,
        values: &[Value],
        region: impl Fn(usize) -> Region,
    ) -> Value {
        let table = std::ptr::from_ref(table).cast::<u8>();
        let words = OBJECT_WORDS + values.len();
        let next = self.load_cx(offset::ALLOC_NEXT);
        let end = self.load_cx(offset::ALLOC_END);
        let after = self.b.ins().iadd_imm_s(next, words as i64 * 8);
        let full = self.b.ins().icmp(IntCC::UnsignedGreaterThan, after, end);
        let cold = self.b.current_block().is_some_and(|block| self.b.func.layout.is_cold(block));
        let (slow, fast, done) = (self.cold_block(), self.b.create_block(), self.b.create_block());
        if cold {
            [fast, done].into_iter().for_each(|block| self.b.set_cold_block(block));
        }
        let object = self.b.append_block_param(done, types::I64);
        self.mark(object);
        self.b.ins().brif(full, slow, &[], fast, &[]);

        self.start(slow);
        let (table_word, fields) = (self.address(table), self.int(values.len() as i64));
        let made = self.call_helper(Helper::Alloc, &[table_word, fields]);
        self.b.ins().jump(done, &[BlockArg::Value(made)]);

        self.start(fast);
        self.store_cx(after, offset::ALLOC_NEXT);
        let (table_word, header) = (self.address(table), self.int((words as u64 & SIZE_MASK) as i64));
        self.store(table_word, next, TABLE_OFFSET, Region::Heads);
        self.store(header, next, HEADER_OFFSET, Region::Heads);
        self.b.ins().jump(done, &[BlockArg::Value(next)]);

        self.start(done);
        for (field, value) in values.iter().enumerate() {
            // New memory is all zero.
            if !self.is_zero(*value) {
                self.store_field(object, field, *value, region(field));
            }
        }
        object
    }

    /// True if a value is known to be a word of zeros.
    pub(crate) fn is_zero(&self, value: Value) -> bool {
        let dfg = &self.b.func.dfg;
        match dfg.value_def(value).inst().map(|inst| dfg.insts[inst]) {
            Some(InstructionData::UnaryImm { opcode: Opcode::Iconst, imm }) => imm.bits() == 0,
            Some(InstructionData::UnaryIeee64 { opcode: Opcode::F64const, imm }) => imm.bits() == 0,
            _ => false,
        }
    }
}
