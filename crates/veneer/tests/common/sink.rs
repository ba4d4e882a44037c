//! A server that swallows commands and answers each flush with nil for every wanted future, without allocating.

use std::time::Duration;

use bifrost_veneer::wire::encode;
use bifrost_veneer::wire::{Command, Decoded, FRAME_BYTES_MAX, decode};
use bifrost_veneer::{Connection, ConnectionError};

/// Looks only at the last command of what is written, which for a flush is one word or more of known form.
pub struct Sink {
    digest: [u8; 32],
    greeted: bool,
    out: Vec<u8>,
}

impl Sink {
    pub fn new(digest: [u8; 32]) -> Sink {
        Sink { digest, greeted: false, out: Vec::with_capacity(1 << 16) }
    }
}

impl Connection for Sink {
    fn write(&mut self, bytes: &[u8], _: Duration) -> Result<(), ConnectionError> {
        if !self.greeted {
            self.greeted = true;
            encode::welcome(&mut self.out, &self.digest, &[], 1, "sink");
            return Ok(());
        }
        let mut rest = bytes;
        while let Ok(Decoded::Command(command, length)) = decode(rest, FRAME_BYTES_MAX) {
            rest = &rest[length..];
            if let Command::Flush { wanted, .. } = command {
                let mut writer = encode::Flushed::begin(&mut self.out);
                for position in wanted.positions() {
                    let handle = bifrost_veneer::wire::Ref::handle(position, 0);
                    let ty = bifrost_veneer::wire::TypeNumber(0);
                    writer.outcome(&bifrost_veneer::wire::Outcome::Handle { handle, ty });
                }
                writer.finish(encode::Counters::default(), 0);
            }
        }
        Ok(())
    }

    fn flush(&mut self) {}

    fn read(&mut self, into: &mut Vec<u8>, _: usize, _: Duration) -> Result<(), ConnectionError> {
        into.append(&mut self.out);
        Ok(())
    }
}
