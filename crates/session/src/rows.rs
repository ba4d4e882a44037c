//! Tables of rows: the results of loops.
//!
//! `rows` makes a table, `emit` appends a row to it, in structures and procedures too, and `flush`
//! answers it whole. A table lives as long as its batch.
//!
//! Each column is an array of the heap: of its type, if that is basic, else of `any`. So a row is a
//! call of `append` for each column, which structures compile like any other call, and costs no
//! allocation once the arrays have grown.

use bifrost_ir::{MethodRef, TypeId, Types};
use bifrost_runtime::abi::{Word, enter};
use bifrost_runtime::object::array;
use bifrost_runtime::{Cx, Table, invoke, object};
use bifrost_wire::command::TypeNumbers;
use bifrost_wire::encode::{self, Flushed};
use bifrost_wire::value::tag;
use bifrost_wire::{Args, ErrorNumber, Limit, Ref, TypeNumber};

use crate::calls::Words;
use crate::causes::Cause;
use crate::failures::FailureKind;
use crate::futures::Future;
use crate::session::Session;
use crate::tables::Tables;

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    /// The type of its cells.
    pub ty: TypeId,
    /// The method that appends a cell.
    pub append: MethodRef,
    /// The array that has the cells. The batch keeps it.
    pub array: Word,
}

/// A table.
#[derive(Debug)]
pub(crate) struct RowTable {
    pub columns: Vec<Column>,
}

impl RowTable {
    /// Returns the number of rows: those that have all their cells.
    fn count(&self) -> usize {
        self.columns.iter().map(|column| cells(column).len()).min().unwrap_or(0)
    }

    /// True if no cell is an object, which crosses as a handle.
    pub fn has_values_only(&self, tables: &Tables) -> bool {
        self.columns.iter().all(|column| cell_tag(tables, column.ty) != tag::REF)
    }

    /// Appends the outcome of the table. `handle` returns the handle of an object, or nothing at
    /// the limit of handles. Returns the limit that the table exceeds, if it does: then the outcome
    /// is absent.
    pub fn write(
        &self,
        tables: &Tables,
        reply: &mut Flushed<'_>,
        limits: &crate::Limits,
        mut handle: impl FnMut(Word) -> Option<Ref>,
    ) -> Option<(ErrorNumber, Limit)> {
        let room = limits.size(Limit::ReplyBytes).saturating_sub(reply.bytes());
        let heads: Vec<(u8, TypeNumber)> =
            self.columns.iter().map(|c| (cell_tag(tables, c.ty), tables.type_number(c.ty))).collect();
        let columns: Vec<&[Word]> = self.columns.iter().map(cells).collect();
        let mut exceeded = None;
        reply.rows(heads.iter().copied(), |out| {
            let count = self.count();
            let start = out.len();
            if count as u64 > limits.get(Limit::Rows) {
                exceeded = Some((ErrorNumber::ReplyTooLong, Limit::Rows));
                return None;
            }
            for row in 0..count {
                for ((tag, _), cells) in heads.iter().zip(&columns) {
                    let word = cells[row];
                    match *tag {
                        tag::REF => match handle(word) {
                            Some(handle) => encode::word(out, handle.0 as u64),
                            None => {
                                exceeded = Some((ErrorNumber::TooManyHandles, Limit::Handles));
                                return None;
                            }
                        },
                        // SAFETY: the cells of a column of strings are strings.
                        tag::STRING => encode::bytes(out, unsafe { object::text(word) }.as_bytes()),
                        // SAFETY: those of a column of bytes are bytes.
                        tag::BYTES => encode::bytes(out, unsafe { object::byte_slice(word) }),
                        _ => encode::word(out, word),
                    }
                }
                if out.len() - start > room {
                    exceeded = Some((ErrorNumber::ReplyTooLong, Limit::ReplyBytes));
                    return None;
                }
            }
            Some(count as u32)
        });
        exceeded
    }
}

/// The cells of a column.
fn cells(column: &Column) -> &[Word] {
    let field = |at| {
        // SAFETY: the column is an array, which the batch keeps.
        unsafe { object::get(column.array, at) }
    };
    match field(array::LENGTH) as usize {
        0 => &[],
        // SAFETY: an array with elements has a storage with room for them, and nothing runs while
        // they are read.
        length => unsafe { object::slice(field(array::STORAGE), field(array::HEAD) as usize, length) },
    }
}

/// The tag of the cells of a type.
fn cell_tag(tables: &Tables, ty: TypeId) -> u8 {
    match ty {
        Types::NULL => tag::NIL,
        Types::BOOL => tag::BOOL,
        Types::INT => tag::INT,
        Types::REAL => tag::REAL,
        Types::CHAR => tag::CHAR,
        Types::STRING => tag::STRING,
        Types::BYTES => tag::BYTES,
        _ => {
            debug_assert!(!tables.is_basic(ty), "basic types have tags");
            tag::REF
        }
    }
}

impl Session {
    /// Ends the tables of the batch: procedures that append to them keep empty ones.
    pub(crate) fn end_tables(&mut self) {
        for column in self.batch.tables.drain(..).flat_map(|table| table.columns) {
            for field in [array::LENGTH, array::HEAD, array::STORAGE] {
                // SAFETY: the column is an array, which the batch still keeps; so a new one begins.
                unsafe { object::set(column.array, field, 0) };
            }
        }
    }

    /// Makes an empty table.
    pub(crate) fn rows(&mut self, cx: &mut Cx, columns: TypeNumbers<'_>) {
        let made: Result<Vec<Column>, FailureKind> =
            columns.iter().map(|number| self.new_column(cx, number)).collect();
        match made {
            Ok(columns) => {
                self.batch.tables.push(RowTable { columns });
                let made = Future::Rows(self.batch.tables.len() as u32 - 1);
                self.make_one(cx, made);
            }
            Err(kind) => self.fail_call(1, kind),
        }
    }

    fn new_column(&self, cx: &mut Cx, number: TypeNumber) -> Result<Column, FailureKind> {
        let ty = self.expected_type(number)?;
        let engine = self.tables.engine();
        let append = engine.program().column_append(ty);
        let mut fields = [0; array::FIELDS];
        fields[array::LOW] = 1;
        match cx.new_object(engine.image().table_of(append.ty), &fields) {
            Ok(array) => {
                self.hold(cx, array);
                Ok(Column { ty, append, array })
            }
            Err(full) => Err(FailureKind::refused(ErrorNumber::HeapLimit, full.to_string())),
        }
    }

    /// Returns the table of a reference.
    pub(crate) fn row_table(&self, rows: Ref) -> Result<&RowTable, FailureKind> {
        let future = rows.position().and_then(|position| self.batch.futures.get(position as usize - 1));
        if let Some(Future::Rows(index)) = future {
            return Ok(&self.batch.tables[*index as usize]);
        }
        match self.resolve(rows, 0) {
            Ok(_) => Err(FailureKind::refused(ErrorNumber::WrongType, "`emit` needs a table of this batch")),
            Err(kind) => Err(kind),
        }
    }

    /// Appends a row.
    pub(crate) fn emit(&mut self, cx: &mut Cx, rows: Ref, values: Args<'_>) {
        let mut words = Words::new();
        let columns = match self.row_table(rows) {
            Ok(table) => table.columns.clone(),
            Err(kind) => return self.fail_call(1, kind),
        };
        let types: Vec<TypeId> = columns.iter().map(|column| column.ty).collect();
        if let Err(kind) = self.arguments(cx, &types, values, &mut words) {
            return self.fail_call(1, kind);
        }
        for (column, word) in columns.iter().zip(words) {
            if !self.spend(cx, 1) {
                return;
            }
            let image = self.tables.engine().image();
            let slot = image.dispatch().slot(column.append);
            let words = [column.array, word];
            // SAFETY: the column is an array of the type of the cell, which was just checked.
            let ret = unsafe {
                match image.has_engine() {
                    true => enter(Table::of(column.array).entry(slot), cx, &words),
                    false => invoke::method(cx, slot, &words),
                }
            };
            if !ret.returned() {
                let heading = &self.tables.engine().program().types.method(column.append).signature;
                return self.fail_call(1, Cause::of(cx, ret, heading));
            }
        }
        self.make_one(cx, Future::Nothing);
    }
}
