//! The last reply of each session, so that no batch is committed twice.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;

use crate::{REPLIES_KEPT_BYTES_MAX, SESSIONS_KEPT_MAX, Tid};

/// The reply of the last batch that a session committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The batch's number.
    pub number: u64,
    /// Its commit.
    pub tid: Tid,
    /// The reply.
    pub bytes: Bytes,
}

/// The last replies of the sessions that committed last.
#[derive(Default)]
pub struct Replies {
    by_session: HashMap<u128, Reply>,
    by_age: BTreeMap<Tid, u128>,
    bytes: usize,
}

impl Replies {
    pub fn get(&self, session: u128) -> Option<&Reply> {
        self.by_session.get(&session)
    }

    pub fn all(&self) -> Vec<(u128, Reply)> {
        self.by_session.iter().map(|(session, reply)| (*session, reply.clone())).collect()
    }

    pub fn len(&self) -> usize {
        self.by_session.len()
    }

    /// Keeps a reply in place of the session's last one; returns the sessions that are forgotten
    /// for it.
    pub fn insert(&mut self, session: u128, reply: Reply) -> Vec<u128> {
        self.remove(session);
        self.bytes += reply.bytes.len();
        self.by_age.insert(reply.tid, session);
        self.by_session.insert(session, reply);
        let mut forgotten = Vec::new();
        while self.len() > SESSIONS_KEPT_MAX || self.bytes > REPLIES_KEPT_BYTES_MAX {
            let Some((_, oldest)) = self.by_age.first_key_value() else { break };
            let oldest = *oldest;
            self.remove(oldest);
            forgotten.push(oldest);
        }
        forgotten
    }

    fn remove(&mut self, session: u128) {
        if let Some(old) = self.by_session.remove(&session) {
            self.bytes -= old.bytes.len();
            self.by_age.remove(&old.tid);
        }
    }
}
