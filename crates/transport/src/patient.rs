//! [`Patient`]: waiting reads and writes of a layer over a socket, such as TLS.
//!
//! A layer itself never waits. It reads and writes as far as it can, and may keep bytes that were
//! accepted until the socket has room.

use std::os::fd::OwnedFd;
use std::time::Instant;

use rustix::event::PollFlags;
use rustix::io::Errno;

use crate::errors::{ReadError, WriteError};
use crate::socket::wait_for;

/// A layer over a socket. The methods with a deadline wait; the others do not.
pub(crate) trait Patient {
    fn try_read(&self, into: &mut Vec<u8>, limit: usize) -> Result<Option<usize>, ReadError>;
    fn try_write(&self, bytes: &[u8]) -> Result<usize, WriteError>;
    /// True if bytes that were accepted wait for room in the socket.
    fn wants_write(&self) -> bool;
    fn socket(&self) -> &OwnedFd;

    /// The events of the socket after which a write may go on.
    fn write_events(&self) -> PollFlags {
        PollFlags::OUT
    }

    fn read(&self, into: &mut Vec<u8>, limit: usize, deadline: Option<Instant>) -> Result<usize, ReadError> {
        loop {
            if let Some(count) = self.try_read(into, limit)? {
                return Ok(count);
            }
            match self.wait(PollFlags::IN, deadline) {
                Ok(true) => {}
                Ok(false) => return Err(ReadError::TimedOut),
                Err(error) => return Err(ReadError::Io(error.into())),
            }
        }
    }

    fn write(&self, mut bytes: &[u8], deadline: Option<Instant>) -> Result<(), WriteError> {
        loop {
            let written = self.try_write(bytes)?;
            bytes = &bytes[written..];
            if bytes.is_empty() && !self.wants_write() {
                return Ok(());
            }
            match self.wait(self.write_events(), deadline) {
                Ok(true) => {}
                Ok(false) => return Err(WriteError::TimedOut),
                Err(error) => return Err(WriteError::Io(error.into())),
            }
        }
    }

    /// Waits for the socket: also for room, if bytes are to be sent. False if the deadline has
    /// passed.
    fn wait(&self, mut events: PollFlags, deadline: Option<Instant>) -> Result<bool, Errno> {
        // A peer that sends frames or records without content does not make the deadline later.
        if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            return Ok(false);
        }
        if self.wants_write() {
            events |= PollFlags::OUT;
        }
        wait_for(self.socket(), events, deadline)
    }
}
