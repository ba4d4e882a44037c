//! [`Open`]: a stream of a link, with its user's bell.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use bifrost_rex::{Asking, Serving};
use bytes::Bytes;

use crate::attention::Attention;

/// The descriptor that becomes readable when a stream has something for its user.
#[derive(Debug)]
pub(crate) struct Bell {
    pub event: Arc<OwnedFd>,
    pub attention: Arc<Attention>,
}

impl Bell {
    pub(crate) fn ring(&self) {
        // Fails only if it has been rung four billion times.
        let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
    }

    fn silence(&self) {
        // It may have been silenced already.
        let _ = rustix::io::read(&self.event, &mut [0; 8]);
    }
}

/// The part of REX that a side has.
#[derive(Debug)]
pub(super) enum Role {
    Client(Asking),
    Server(Serving),
}

/// The end of the bytes from the peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    Finished,
    Reset,
}

/// A stream of a link.
#[derive(Debug)]
pub(super) struct Open {
    pub bell: Arc<Bell>,
    /// True if the user waits for the bell.
    pub is_armed: bool,
    pub is_rung: bool,
    /// True while there is no room for bytes to be written.
    pub is_full: bool,
    pub inbox: VecDeque<Bytes>,
    pub inbox_bytes: usize,
    pub end: Option<End>,
    /// The code with which the peer takes no more bytes.
    pub stopped: Option<u64>,
    /// The bytes that were written.
    pub written: u64,
    pub role: Role,
}

impl Open {
    pub(super) fn hush(&mut self) {
        if self.is_rung {
            self.bell.silence();
            self.is_rung = false;
        }
    }

    pub(super) fn ring(&mut self) {
        if self.is_armed && !self.is_rung {
            self.is_rung = true;
            self.bell.ring();
        }
    }
}
