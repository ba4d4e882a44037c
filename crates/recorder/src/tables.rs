//! Tables of rows: made before the loop that fills them, one row for each round.
//!
//! | table | steps |
//! | --- | --- |
//! | the types of its columns are known | `rows`, and `emit` for each row |
//! | its first row has them | `open_table`, the loop, `set_columns` in it, `emit` |

use std::sync::Arc;

use bifrost_wire::{TypeNumber, encode, op};

use crate::Source;
use crate::call::{ARGUMENTS_MAX, Operand};
use crate::error::{Error, Misuse};
use crate::recorder::{Admission, Maker, Recorded, Recorder, missing, misuse};
use crate::slots::{Known, Slot};

/// The bytes of the command `rows` with one column.
const ONE_COLUMN: usize = 16;

impl<S: Source> Recorder<S> {
    /// Records the making of an empty table of rows, which has one result. `types` are the client's
    /// numbers of the types of its columns, each with a name for messages. Refused inside a
    /// structure.
    pub fn rows(&mut self, admitted: Admission<S>, types: &[(u32, &str)], place: S) -> Recorded<S> {
        let columns = admitted.and_then(|()| match self.scopes.is_empty() {
            true => self.columns(types),
            false => Err(misuse(Misuse::TableInside)),
        });
        match columns {
            Ok(columns) => {
                encode::rows(&mut self.batch, columns.into_iter());
                self.recorded();
                self.tables += 1;
                Ok(Maker::Rows)
            }
            Err(error) => Err(self.refuse("rows", place, error)),
        }
    }

    /// Records the making of a table whose columns are not known yet, directly before the loop that
    /// fills it: [`Recorder::set_columns`] in the loop tells them. Its one result is the table.
    /// Refused inside a structure.
    pub fn open_table(&mut self, admitted: Admission<S>, place: S) -> Recorded<S> {
        let admitted = admitted.and_then(|()| match self.scopes.is_empty() {
            true => Ok(()),
            false => Err(misuse(Misuse::TableInside)),
        });
        if let Err(error) = admitted {
            self.table_at = None;
            return Err(self.refuse("rows", place, error));
        }
        self.table_at = Some(self.batch.len());
        // A column of nil, unless others are told.
        let nil = self.numbers.ty(self.numbers.stubs().basic[0].0).unwrap_or_default();
        encode::rows(&mut self.batch, [nil].into_iter());
        self.recorded();
        self.tables += 1;
        Ok(Maker::Rows)
    }

    /// Tells the columns of the table that [`Recorder::open_table`] has made before the open loop.
    /// `types` are as in [`Recorder::rows`]. Nothing is done if the loop or the table was refused.
    pub fn set_columns(&mut self, types: &[(u32, &str)], place: S) {
        if self.refusal().is_some() {
            return;
        }
        let Some(at) = self.table_at.take() else { return };
        let columns = match self.columns(types) {
            Ok(columns) => columns,
            Err(error) => {
                self.refuse("rows", place, error);
                return;
            }
        };
        let mut command = std::mem::take(&mut self.scratch);
        command.clear();
        encode::rows(&mut command, columns.into_iter());
        if self.batch.len() >= at + ONE_COLUMN {
            self.batch.splice(at..at + ONE_COLUMN, command.iter().copied());
            let more = command.len() - ONE_COLUMN;
            self.scopes.iter_mut().for_each(|scope| scope.batch_start += more);
        }
        self.scratch = command;
    }

    /// Returns the server's numbers of the types of columns.
    fn columns(&self, types: &[(u32, &str)]) -> Result<Vec<TypeNumber>, Arc<Error<S>>> {
        if types.is_empty() || types.len() > ARGUMENTS_MAX {
            return Err(misuse(Misuse::TooLong));
        }
        let number = |(ty, name): &(u32, &str)| self.numbers.ty(*ty).ok_or_else(|| missing((*name).into()));
        types.iter().map(number).collect()
    }

    /// Records a row of a table. Its one result is nil.
    pub fn emit<'a>(
        &mut self,
        admitted: Admission<S>,
        rows: Slot,
        cells: impl ExactSizeIterator<Item = Operand<'a>>,
        place: S,
    ) -> Recorded<S> {
        let table = admitted.and_then(|()| match self.known(rows) {
            Known::UnderWay(_) | Known::Handle(_) | Known::Value(_) | Known::Rows(_) | Known::Free => {
                Err(misuse(Misuse::EndedTable))
            }
            Known::Future(_) | Known::Failed(_) => self.expect_reference(rows, place),
        });
        let recorded = table.and_then(|table| self.record_to(table, encode::head(op::EMIT, 0, 0), cells));
        match recorded {
            Ok(()) => Ok(Maker::Emit),
            Err(error) => Err(self.refuse_call(Maker::Emit, place, error)),
        }
    }
}
