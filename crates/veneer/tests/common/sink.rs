//! A server that swallows commands and answers each flush with a handle for every wanted future, without allocating.

use std::time::Duration;

use bifrost_veneer::wire::encode;
use bifrost_veneer::wire::{Command, Decoded, FRAME_BYTES_MAX, Outcome, Ref, TypeNumber, decode};
use bifrost_veneer::{Connection, ConnectionError};

/// Costs next to nothing while calls are recorded.
pub struct Sink {
    digest: [u8; 32],
    greeted: bool,
    /// What was written last, which is looked at when an answer is asked for: a flush is in it.
    last: Vec<u8>,
    out: Vec<u8>,
}

impl Sink {
    pub fn new(digest: [u8; 32]) -> Sink {
        Sink { digest, greeted: false, last: Vec::with_capacity(1 << 16), out: Vec::with_capacity(1 << 16) }
    }
}

impl Connection for Sink {
    fn write(&mut self, bytes: &[u8], _: Duration) -> Result<(), ConnectionError> {
        if !self.greeted {
            self.greeted = true;
            encode::welcome(&mut self.out, &self.digest, &[], 1, "sink");
            return Ok(());
        }
        self.last.clear();
        self.last.extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) {}

    fn read(&mut self, into: &mut Vec<u8>, _: usize, _: Duration) -> Result<(), ConnectionError> {
        let mut rest = &self.last[..];
        while let Ok(Decoded::Command(command, length)) = decode(rest, FRAME_BYTES_MAX) {
            rest = &rest[length..];
            if let Command::Flush { wanted, .. } = command {
                let mut writer = encode::Flushed::begin(&mut self.out);
                for position in wanted.positions() {
                    let handle = Ref::handle(position, 0);
                    writer.outcome(&Outcome::Handle { handle, ty: TypeNumber(0) });
                }
                writer.finish(encode::Counters::default(), 0);
            }
        }
        self.last.clear();
        into.append(&mut self.out);
        Ok(())
    }
}
