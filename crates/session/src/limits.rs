//! The limits of a session.

use bifrost_wire::{ErrorNumber, Limit};

/// The limits of a session, each under its name in the configuration. A client is told them in
/// `welcome`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    values: [u64; Limit::ALL.len()],
}

impl Default for Limits {
    fn default() -> Self {
        let mut limits = Limits { values: [0; Limit::ALL.len()] };
        for limit in Limit::ALL {
            limits.set(*limit, limit.default_value());
        }
        limits
    }
}

impl Limits {
    /// The value of a limit.
    #[inline]
    pub fn get(&self, limit: Limit) -> u64 {
        self.values[limit as usize - 1]
    }

    /// Changes a limit.
    pub fn set(&mut self, limit: Limit, value: u64) {
        self.values[limit as usize - 1] = value;
    }

    /// The value of a limit that bounds memory of this process.
    pub(crate) fn size(&self, limit: Limit) -> usize {
        usize::try_from(self.get(limit)).unwrap_or(usize::MAX)
    }

    /// The fuel of a batch.
    pub(crate) fn fuel(&self) -> i64 {
        i64::try_from(self.get(Limit::Fuel)).unwrap_or(i64::MAX)
    }

    /// Returns the text of an error because of a limit.
    pub(crate) fn exceeded(&self, number: ErrorNumber, limit: Limit) -> String {
        format!("{}: {} is the limit ({})", number.text(), self.get(limit), limit.name())
    }

    /// All limits with their values.
    pub fn iter(&self) -> impl Iterator<Item = (Limit, u64)> + '_ {
        Limit::ALL.iter().map(|l| (*l, self.get(*l)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_limit_has_a_place() {
        for (i, limit) in Limit::ALL.iter().enumerate() {
            assert_eq!(*limit as usize - 1, i, "limits are numbered without gaps");
        }
    }
}
