//! A stream over two rings in memory that both processes map.

mod handover;
mod mapped;
mod monitor;
mod ring;
mod wait;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::attention::{Attention, CLOSED, STOPPED};
use crate::stream::{ReadError, WriteError};

use mapped::{Direction, Region};
use monitor::Watch;
use ring::{Consumer, Producer};
use wait::{Spin, Waited, wait};

/// The size of each ring unless the options say otherwise: 1 MiB.
pub const RING_BYTES_DEFAULT: usize = 1 << 20;
pub(crate) use mapped::is_ring_size;
pub use mapped::{RING_BYTES_MAX, RING_BYTES_MIN};
pub use wait::spin_max_default;

/// One end of a shared memory stream.
#[derive(Debug)]
pub(crate) struct ShmStream {
    region: Region,
    outgoing: Direction,
    incoming: Direction,
    producer: Producer,
    consumer: Consumer,
    /// Bytes were published and the peer was not woken yet.
    owes_wake: bool,
    /// The peer broke its positions: nothing it says is believed any more.
    is_corrupt: bool,
    read_spin: Spin,
    write_spin: Spin,
    attention: Arc<Attention>,
    _watch: Watch,
}

impl ShmStream {
    /// The server's end: makes the memory and sends it to the client.
    pub(crate) fn serve(
        socket: &Arc<OwnedFd>,
        attention: &Arc<Attention>,
        ring_bytes: usize,
        spin_max: Duration,
    ) -> io::Result<ShmStream> {
        let region = handover::send(socket, ring_bytes)?;
        ShmStream::new(region, [Direction::ToClient, Direction::ToServer], socket, attention, spin_max)
    }

    /// The client's end: waits until the deadline for the memory.
    pub(crate) fn connect(
        socket: &Arc<OwnedFd>,
        attention: &Arc<Attention>,
        deadline: Instant,
        spin_max: Duration,
    ) -> io::Result<ShmStream> {
        let region = handover::receive(socket, deadline)?;
        ShmStream::new(region, [Direction::ToServer, Direction::ToClient], socket, attention, spin_max)
    }

    fn new(
        region: Region,
        [outgoing, incoming]: [Direction; 2],
        socket: &Arc<OwnedFd>,
        attention: &Arc<Attention>,
        spin_max: Duration,
    ) -> io::Result<ShmStream> {
        let capacity = region.ring_bytes();
        Ok(ShmStream {
            producer: Producer::new(capacity),
            consumer: Consumer::new(capacity),
            region,
            outgoing,
            incoming,
            owes_wake: false,
            is_corrupt: false,
            read_spin: Spin::new(spin_max),
            write_spin: Spin::new(spin_max),
            _watch: monitor::watch(socket.clone(), attention.clone())?,
            attention: attention.clone(),
        })
    }

    #[inline]
    pub(crate) fn read(
        &mut self,
        into: &mut Vec<u8>,
        limit: usize,
        deadline: Option<Instant>,
    ) -> Result<usize, ReadError> {
        loop {
            if let Some(count) = self.try_read(into, limit)? {
                return Ok(count);
            }
            // The peer may need what we wrote before it can answer.
            self.flush();
            let ring = self.region.ring(self.incoming);
            let (control, consumer) = (ring.control, &self.consumer);
            let waited =
                wait(&mut self.read_spin, &self.attention, &control.consumer_sleeps.0, deadline, || {
                    consumer.is_ready(control)
                });
            if waited == Waited::TimedOut {
                return Err(ReadError::TimedOut);
            }
        }
    }

    #[inline]
    pub(crate) fn try_read(&mut self, into: &mut Vec<u8>, limit: usize) -> Result<Option<usize>, ReadError> {
        // Looked at before the ring: if the peer is gone by now, the ring holds all it ever published.
        let attention = self.attention.bits();
        if attention & STOPPED != 0 {
            return Err(ReadError::Stopped);
        }
        if self.is_corrupt {
            return Err(ReadError::Corrupt);
        }
        match self.consumer.pull(self.region.ring(self.incoming), into, limit) {
            Ok(0) if attention & CLOSED != 0 => Ok(Some(0)),
            Ok(0) => Ok(None),
            Ok(count) => Ok(Some(count)),
            Err(ring::Corrupt) => {
                self.is_corrupt = true;
                Err(ReadError::Corrupt)
            }
        }
    }

    #[inline]
    pub(crate) fn write(&mut self, mut bytes: &[u8], deadline: Option<Instant>) -> Result<(), WriteError> {
        while !bytes.is_empty() {
            self.check_writable()?;
            let ring = self.region.ring(self.outgoing);
            let Ok(count) = self.producer.push(ring, bytes) else {
                self.is_corrupt = true;
                return Err(WriteError::Corrupt);
            };
            bytes = &bytes[count..];
            self.owes_wake |= count > 0;
            if !bytes.is_empty() {
                // Much is left: let the peer start on what is there.
                self.flush();
                if count == 0 && self.wait_writable(deadline) == Waited::TimedOut {
                    return Err(WriteError::TimedOut);
                }
            }
        }
        Ok(())
    }

    #[inline]
    fn check_writable(&self) -> Result<(), WriteError> {
        let attention = self.attention.bits();
        if attention & STOPPED != 0 {
            return Err(WriteError::Stopped);
        }
        if self.is_corrupt {
            return Err(WriteError::Corrupt);
        }
        if attention & CLOSED != 0 {
            return Err(WriteError::Closed);
        }
        Ok(())
    }

    #[cold]
    fn wait_writable(&mut self, deadline: Option<Instant>) -> Waited {
        let control = self.region.ring(self.outgoing).control;
        let producer = &self.producer;
        wait(&mut self.write_spin, &self.attention, &control.producer_sleeps.0, deadline, || {
            producer.is_ready(control)
        })
    }

    #[inline]
    pub(crate) fn flush(&mut self) {
        if self.owes_wake {
            self.owes_wake = false;
            self.producer.wake_consumer(self.region.ring(self.outgoing).control);
        }
    }
}
