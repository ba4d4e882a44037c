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
use bifrost_wire::{Args, ErrorNumber, Limit, Ref, TypeNumber, Value};

use crate::calls::Words;
use crate::causes::Cause;
use crate::compounds::{Contents, is_compound};
use crate::failures::FailureKind;
use crate::futures::Future;
use crate::replies::Exceeded;
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
    /// The contents of the cells of a column that cross by value, by column, once they were taken.
    pub taken: Vec<Vec<u32>>,
    /// The types of the columns.
    types: Vec<TypeId>,
}

impl RowTable {
    /// Returns the number of rows: those that have all their cells.
    fn count(&self) -> usize {
        self.columns.iter().map(|column| cells(column).len()).min().unwrap_or(0)
    }

    /// Returns the types of the columns.
    pub fn types(&self) -> &[TypeId] {
        &self.types
    }

    /// Returns the cells of a column, in rows that have all their cells.
    pub fn cells(&self, column: usize) -> &[Word] {
        &cells(&self.columns[column])[..self.count()]
    }

    /// True if no cell is an object, which crosses as a handle, or has one.
    pub fn has_values_only(&self, tables: &Tables, contents: &Contents) -> bool {
        self.columns.iter().all(|column| cell_tag(tables, column.ty) != tag::REF)
            && self.taken.iter().flatten().all(|index| contents.has_values_only(*index))
    }

    /// Appends the outcome of the table. `handle` returns the handle of an object, or nothing at
    /// the limit of handles; it is not called for a table that is too long. Returns the limit that
    /// the table exceeds, if it does: then the outcome is absent.
    pub fn write(
        &self,
        tables: &Tables,
        reply: &mut Flushed<'_>,
        limits: &crate::Limits,
        contents: &mut Contents,
        mut handle: impl FnMut(Word) -> Option<Ref>,
    ) -> Option<Exceeded> {
        let room = limits.size(Limit::ReplyBytes).saturating_sub(reply.bytes());
        let heads: Vec<(u8, TypeNumber)> =
            self.columns.iter().map(|c| (cell_tag(tables, c.ty), tables.type_number(c.ty))).collect();
        let count = self.count();
        let columns: Vec<&[Word]> = self.columns.iter().map(|column| &cells(column)[..count]).collect();
        let cells = || heads.iter().zip(&columns);
        let mut exceeded = None;
        reply.rows(heads.iter().copied(), |out| {
            if count as u64 > limits.get(Limit::Rows) {
                exceeded = Some((ErrorNumber::ReplyTooLong, Limit::Rows));
                return None;
            }
            let taken = self.taken.iter().flatten().map(|index| contents.length(*index));
            let bytes: usize = cells().map(|((tag, _), words)| bytes_of(*tag, words)).sum();
            let bytes = bytes + taken.sum::<usize>();
            if HEAD_BYTES + size_of::<Word>() * heads.len() + bytes > room {
                exceeded = Some((ErrorNumber::ReplyTooLong, Limit::ReplyBytes));
                return None;
            }
            for row in 0..count {
                for (at, ((tag, _), words)) in cells().enumerate() {
                    let word = words[row];
                    match *tag {
                        tag::COMPOUND => match contents.compound(self.taken[at][row], &mut handle) {
                            Some(compound) => encode::value(out, &Value::Compound(compound)),
                            None => {
                                exceeded = Some((ErrorNumber::TooManyHandles, Limit::Handles));
                                return None;
                            }
                        },
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
            }
            Some(count as u32)
        });
        exceeded
    }
}

/// The number of bytes of a table in a reply before the heads of its columns.
const HEAD_BYTES: usize = 24;

/// The number of bytes that the cells of a column take in a reply.
fn bytes_of(tag: u8, words: &[Word]) -> usize {
    const WORD: usize = size_of::<Word>();
    let lengths = |length: fn(Word) -> usize| {
        words.iter().map(|word| length(*word).next_multiple_of(WORD)).sum::<usize>()
    };
    // The contents of a compound have all its bytes.
    if tag == tag::COMPOUND {
        return 0;
    }
    WORD * words.len()
        + match tag {
            // SAFETY: the cells of a column of strings are strings.
            tag::STRING => lengths(|word| unsafe { object::text(word) }.len()),
            // SAFETY: those of a column of bytes are bytes.
            tag::BYTES => lengths(|word| unsafe { object::byte_slice(word) }.len()),
            _ => 0,
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
        _ if is_compound(tables, ty) => tag::COMPOUND,
        _ => {
            debug_assert!(!tables.is_basic(ty), "basic types have tags");
            tag::REF
        }
    }
}

/// The failure of a row for something that is no table.
pub(crate) fn no_table() -> FailureKind {
    FailureKind::refused(ErrorNumber::WrongType, "`emit` needs a table of this batch")
}

impl Session {
    /// Ends the tables of the batch: procedures that append to them keep empty ones.
    pub(crate) fn end_tables(&mut self) {
        if self.batch.row_tables.is_empty() {
            return;
        }
        for column in self.batch.row_tables.drain(..).flat_map(|table| table.columns) {
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
                let types = columns.iter().map(|column| column.ty).collect();
                let taken = vec![Vec::new(); columns.len()];
                self.batch.row_tables.push(RowTable { columns, taken, types });
                let made = Future::Rows(self.batch.row_tables.len() as u32 - 1);
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

    /// Returns the position of the table of a reference, among those of the batch.
    pub(crate) fn row_table(&self, rows: Ref) -> Result<usize, FailureKind> {
        let future = rows.position().and_then(|position| self.batch.futures.get(position as usize - 1));
        if let Some(Future::Rows(index)) = future {
            return Ok(*index as usize);
        }
        self.resolve(rows, 0).and_then(|_| Err(no_table()))
    }

    /// Appends a row.
    pub(crate) fn emit(&mut self, cx: &mut Cx, rows: Ref, values: Args<'_>) {
        let mut words = Words::new();
        let found = self.row_table(rows).and_then(|table| {
            self.arguments(cx, &self.batch.row_tables[table].types, values, &mut words)?;
            Ok(table)
        });
        let table = match found {
            Ok(table) => table,
            Err(kind) => return self.fail_call(1, kind),
        };
        for (at, word) in words.into_iter().enumerate() {
            if !self.spend(cx, 1) {
                return;
            }
            let column = self.batch.row_tables[table].columns[at];
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
