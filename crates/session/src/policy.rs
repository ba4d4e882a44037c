//! The rights of a session: the one place where they are decided.
//!
//! [`Policy::refusal`] is asked about each call of a method that a client names, alone or in a
//! structure. The program's own code is not asked: a routine that a client calls may name objects
//! for it.

use bifrost_wire::ErrorNumber;

use crate::failures::FailureKind;
use crate::session::Session;
use crate::tables::MethodRow;

/// The rights of clients to the names of the root directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RootNames {
    /// Clients look names up, list them, give them and take them away.
    ReadWrite,
    /// Clients look names up and list them.
    #[default]
    ReadOnly,
}

/// The rights of a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Policy {
    /// Those to the names of the root directory.
    pub root_names: RootNames,
}

impl Policy {
    /// Returns the refusal of a call, if the session may not make it.
    #[inline]
    pub(crate) fn refusal(self, row: &MethodRow) -> Option<FailureKind> {
        if !row.names || self.root_names == RootNames::ReadWrite {
            return None;
        }
        let text = "the names of the root directory are read-only for this session";
        Some(FailureKind::refused(ErrorNumber::NotAllowed, text))
    }
}

impl Session {
    /// Changes the rights of the session from its next command on.
    pub fn set_policy(&mut self, policy: Policy) {
        self.policy = policy;
    }
}
