//! The knowledge that this process has of the store: commits and classes, up to some commit.

use std::collections::HashMap;
use std::sync::Arc;

use tokio_postgres::Row;

use crate::postgres::tables::{bytes, maybe_number, number, orefs_of_bytes};
use crate::record::ClassDescriptor;
use crate::store::changes::ChangeLog;
use crate::store::class_digest;
use crate::{ClassNumber, Error, Oref, Tid};

/// The orefs that a commit wrote or created, in order.
pub type Written = Arc<[Oref]>;

/// The name of a group of commits that are made together: 128 random bits.
pub type Ticket = [u8; 16];

/// The knowledge of a process.
pub struct Known {
    /// Everything up to here.
    pub head: Tid,
    /// The objects that the last commits wrote.
    pub changes: ChangeLog,
    changes_kept: usize,
    pub classes: Arc<Vec<Arc<ClassDescriptor>>>,
    pub class_numbers: HashMap<[u8; 32], ClassNumber>,
}

/// The contents of a commit in the log.
pub struct Logged {
    pub tid: Tid,
    pub ticket: Vec<u8>,
    pub written: Written,
}

/// The position of the store, all of it at one moment.
pub struct Position {
    pub head: Tid,
    pub classes: u64,
    /// The collection that is running, or 0.
    pub collection: u64,
    /// The last collection that this process has answered.
    pub answered: u64,
    /// The commits after the one asked for that are kept, in order.
    pub log: Vec<Logged>,
}

impl Position {
    /// Reads the answer to the statement `Log`.
    pub fn read(rows: &[Row]) -> Result<Position, Error> {
        let first = rows.first().ok_or_else(no_row)?;
        let mut position = Position {
            head: Tid(number(first, 0)?),
            classes: number(first, 1)?,
            collection: number(first, 2)?,
            answered: maybe_number(first, 3)?.ok_or(Error::Lost)?,
            log: Vec::with_capacity(rows.len()),
        };
        for row in rows {
            if let Some(tid) = maybe_number(row, 4)? {
                let written = orefs_of_bytes(bytes(row, 6)?)?.into();
                position.log.push(Logged { tid: Tid(tid), ticket: bytes(row, 5)?.to_vec(), written });
            }
        }
        Ok(position)
    }

    /// True if the log has every commit after that one.
    pub fn is_whole_after(&self, tid: Tid) -> bool {
        let after = self.log.iter().filter(|logged| logged.tid > tid);
        after.map(|logged| logged.tid.0).eq(tid.0 + 1..=self.head.0)
    }
}

/// Returns the error for a store whose only row is gone.
pub fn no_row() -> Error {
    Error::Damaged { what: "the table `bifrost_store` is empty".to_owned() }
}

impl Known {
    pub fn new(head: Tid, changes_kept: usize) -> Known {
        let mut known = Known {
            head,
            changes: ChangeLog::new(head),
            changes_kept,
            classes: Arc::default(),
            class_numbers: HashMap::new(),
        };
        known.changes.limit(changes_kept);
        known
    }

    /// Learns of commits. If the log was trimmed too far, everything before is too old from now on.
    pub fn learn(&mut self, position: Position) {
        if position.head <= self.head {
            return;
        }
        if position.is_whole_after(self.head) {
            let head = self.head;
            for logged in position.log.into_iter().filter(|logged| logged.tid > head) {
                self.changes.push(logged.tid, logged.written.iter().copied());
            }
        } else {
            self.changes = ChangeLog::new(position.head);
            self.changes.limit(self.changes_kept);
        }
        self.head = position.head;
    }

    /// Learns of a class; known ones are left alone.
    pub fn learn_class(&mut self, place: u64, class: ClassDescriptor) -> Result<(), Error> {
        let next = self.classes.len() as u64 + 1;
        if place > next {
            return Err(Error::Damaged { what: format!("class {next} of the database is missing") });
        }
        if place == next {
            let number = ClassNumber(u32::try_from(next).map_err(|_| no_row())?);
            self.class_numbers.insert(class_digest(&class), number);
            Arc::make_mut(&mut self.classes).push(Arc::new(class));
        }
        Ok(())
    }
}
