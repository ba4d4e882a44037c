//! [`RedbSnapshot`]: the objects of a base as one installation has left them.
//!
//! redb keeps the pages of a transaction that reads, while others write. The set of orefs with
//! their tags is read from the same moment, a page at a time, so each state is compared with its
//! tag as in a fetch.

use redb::ReadOnlyTable;

use super::base::{Found, parse};
use super::guard::guarded;
use super::present::{self, PAGE};
use super::seal::{Seals, Table};
use crate::store::{BaseSnapshot, Part};
use crate::{Error, Oref};

/// A base at the time of a transaction that reads.
pub(super) struct RedbSnapshot {
    pub objects: ReadOnlyTable<u64, &'static [u8]>,
    pub present: ReadOnlyTable<u64, &'static [u8]>,
    pub seals: Seals,
    /// The number of the next page of the set.
    pub page: u64,
    /// Objects that were not returned yet.
    pub left: u64,
}

fn damaged() -> Error {
    Error::Damaged { what: "the list of all objects is corrupted".to_owned() }
}

impl BaseSnapshot for RedbSnapshot {
    fn next_part(&mut self) -> Result<Option<(Part, u64)>, Error> {
        let found = guarded(|| {
            let Some(entry) = self.present.range(self.page..)?.next() else { return Ok(None) };
            let (number, row) = entry?;
            let (number, row) = (number.value(), row.value().to_vec());
            let first = number.saturating_mul(PAGE as u64);
            let mut rows = Vec::new();
            for entry in self.objects.range(first..first.saturating_add(PAGE as u64))? {
                let (oref, state) = entry?;
                if let Some(oref) = Oref::new(oref.value()) {
                    rows.push((oref, parse(&self.seals, oref, state.value())));
                }
            }
            Ok(Some((number, row, rows)))
        })?;
        let Some((number, row, rows)) = found else {
            return if self.left == 0 { Ok(None) } else { Err(damaged()) };
        };
        let page = self.seals.open(Table::Present, u128::from(number), &row).and_then(present::decode);
        let page = page.ok_or_else(damaged)?;
        let first = number.saturating_mul(PAGE as u64);
        let mut rows = rows.into_iter().peekable();
        let mut part = Part::new();
        for (oref, tag) in (first..).zip(page.iter()) {
            let (Some(oref), Some(tag)) = (Oref::new(oref), tag) else { continue };
            // A row that is not in the set is the rest of a freed object.
            while rows.next_if(|(other, _)| *other < oref).is_some() {}
            let what = match rows.next_if(|(other, _)| *other == oref) {
                Some((_, Found::State(found, stored))) if found == *tag => {
                    part.push((oref, stored));
                    continue;
                }
                Some((_, Found::State(..))) => "its state is old",
                Some(_) => "its state is corrupted",
                None => "its state is missing",
            };
            return Err(Error::Object { oref, what });
        }
        self.page = number + 1;
        self.left = self.left.checked_sub(part.len() as u64).ok_or_else(damaged)?;
        Ok(Some((part, first.saturating_add(PAGE as u64))))
    }
}
