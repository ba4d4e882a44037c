//! Values that came: tables, compounds and the values of exceptions, as trees of C values.
//!
//! [`Items`] owns a tree: its values, their bytes and the stubs of its objects. The program frees
//! it with one call.

use bifrost_recorder::{Came, Known, Slot};
use bifrost_wire::{Arg, Ref as Handle, Value as Plain};

use crate::abi::{Bytes, Ref, Value, Values};
use crate::recorded::Error;
use crate::session::Session;

/// The bytes of a block of texts.
const BLOCK_BYTES: usize = 16 * 1024;

/// A table, or the items of a value, and all that they refer to.
#[derive(Debug, Default)]
pub struct Items {
    /// The values of the outermost level, row by row.
    values: Box<[Value]>,
    /// The number of columns of a table; 0 for other values.
    columns: usize,
    rows: usize,
    /// The items of values inside.
    inner: Vec<Box<[Value]>>,
    blocks: Vec<Vec<u8>>,
    stubs: Vec<Ref>,
}

impl Items {
    pub(crate) fn values(&self) -> Values {
        Values::new(&self.values)
    }

    pub(crate) fn columns(&self) -> usize {
        self.columns
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    pub(crate) fn stubs(&self) -> &[Ref] {
        &self.stubs
    }

    /// Keeps bytes, with a zero byte behind them.
    fn keep(&mut self, bytes: &[u8]) -> Bytes {
        let room = bytes.len() + 1;
        // A block never grows: its bytes have been named.
        if self.blocks.last().is_none_or(|block| block.capacity() - block.len() < room) {
            self.blocks.push(Vec::with_capacity(room.max(BLOCK_BYTES)));
        }
        let Some(block) = self.blocks.last_mut() else { return Bytes::new(&[]) };
        let from = block.len();
        block.extend_from_slice(bytes);
        block.push(0);
        Bytes::new(block.get(from..from + bytes.len()).unwrap_or_default())
    }

    fn value(&mut self, arg: Arg<'_>, stub: &mut dyn FnMut(Handle) -> Ref) -> Value {
        match arg {
            Arg::Ref(handle) => {
                let stub = stub(handle);
                self.stubs.push(stub);
                Value::Stub(stub)
            }
            Arg::Value(Plain::Nil) => Value::Nil,
            Arg::Value(Plain::Bool(b)) => Value::Bool(b),
            Arg::Value(Plain::Int(i)) => Value::Int(i),
            Arg::Value(Plain::Real(r)) => Value::Real(r),
            Arg::Value(Plain::Char(c)) => Value::Char(c as u32),
            Arg::Value(Plain::Str(s)) => Value::Text(self.keep(s.as_bytes())),
            Arg::Value(Plain::Bytes(b)) => Value::Bytes(self.keep(b)),
            // The wire form bounds the depth.
            Arg::Value(Plain::Compound(compound)) => {
                let mut items = Vec::with_capacity(compound.len());
                for item in compound.iter() {
                    items.push(self.value(item, stub));
                }
                let items = items.into_boxed_slice();
                let named = Value::of_items(&items);
                self.inner.push(items);
                named
            }
        }
    }
}

impl Session {
    /// Reads what came as the result of a stub: the cells of a table, the items of a compound, or
    /// one value. Nothing if there is neither.
    pub(crate) fn read(&mut self, slot: Slot) -> Option<Items> {
        let mut items = Items::default();
        if let Known::Value(value) = self.recorder.known(slot)
            && !matches!(value, Plain::Compound(_))
        {
            let value = items.value(Arg::Value(value), &mut |_| Ref::NONE);
            items.values = [value].into();
            return Some(items);
        }
        let (uses, this) = (&mut self.uses, self.this);
        self.recorder.read_items(slot, |came, slots| {
            let mut stub = |handle| {
                let slot = slots(handle);
                let number = uses.begin_unscoped(slot);
                Ref::new(this, slot.0, number)
            };
            let mut values = Vec::new();
            match came {
                Came::Compound(compound) => {
                    values.reserve(compound.len());
                    compound.iter().for_each(|item| values.push(items.value(item, &mut stub)));
                }
                Came::Rows(table) => {
                    (items.rows, items.columns) = (table.len() as usize, table.columns().len());
                    values.reserve(items.rows.saturating_mul(items.columns));
                    table.args().for_each(|cell| values.push(items.value(cell, &mut stub)));
                }
            }
            items.values = values.into_boxed_slice();
        })?;
        Some(items)
    }

    /// Reads the values of the exception that the call of a stub has signalled, objects as stubs.
    /// The program is told with it. Nothing if there is none.
    pub(crate) fn read_signal(&mut self, slot: Slot) -> Option<Items> {
        let mut items = Items::default();
        let (uses, this) = (&mut self.uses, self.this);
        self.recorder.read_signal(slot, |_, args, slots| {
            let mut stub = |handle| {
                let slot = slots(handle);
                let number = uses.begin_unscoped(slot);
                Ref::new(this, slot.0, number)
            };
            let mut values = Vec::new();
            args.for_each(|value| values.push(items.value(value, &mut stub)));
            items.values = values.into_boxed_slice();
        })?;
        let _: Result<(), Error> = self.recorder.claim(slot);
        Some(items)
    }

    /// Frees what was read: its objects are given back with the next batch, unless the program has
    /// retained their stubs.
    pub(crate) fn free(&mut self, items: Items) {
        items.stubs().iter().for_each(|stub| self.release(*stub));
    }
}
