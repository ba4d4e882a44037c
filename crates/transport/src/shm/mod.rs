//! A stream over two rings in memory that both processes map.
//!
//! Read [`ShmStream`] first: one end, with a half that reads and a half that writes. `serve` and
//! `connect` make the two ends, with the message of `handover`. A read or write takes these steps:
//! it copies bytes (`ring`), wakes the peer if that sleeps (`word`), and waits if there was nothing
//! to copy (`wait`).
//!
//! Both processes own the memory (`mapped`), and nothing that the peer wrote is trusted. Each end
//! owns its positions. `monitor` has the thread that notices a peer's death.

mod handover;
mod mapped;
mod monitor;
mod ring;
mod wait;
mod word;
/// The atomics of the code that is model checked.
mod sync {
    pub(super) use std::sync::atomic::{AtomicU32, Ordering, fence};
}

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::attention::{Attention, CLOSED, DEAF, STOPPED};
use crate::deadline::Deadline;
use crate::errors::{ReadError, WriteError};
use crate::want::Want;

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
    reading: ShmReading,
    writing: ShmWriting,
    /// The bell that the other side rings while this one rests; only a server's end has one.
    bell: Option<OwnedFd>,
}

/// The part that both halves of an end share.
#[derive(Debug)]
struct Shared {
    region: Region,
    /// True if the peer broke its positions: nothing that it says is believed any more.
    is_corrupt: AtomicBool,
    attention: Arc<Attention>,
    _watch: Watch,
}

/// The half that reads.
#[derive(Debug)]
pub(crate) struct ShmReading {
    shared: Arc<Shared>,
    direction: Direction,
    consumer: Consumer,
    spin: Spin,
}

/// The half that writes.
#[derive(Debug)]
pub(crate) struct ShmWriting {
    shared: Arc<Shared>,
    direction: Direction,
    producer: Producer,
    /// True if bytes were published and the peer was not woken yet.
    owes_wake: bool,
    spin: Spin,
}

impl ShmStream {
    /// The server's end: makes the memory and sends it to the client.
    pub(crate) fn serve(
        socket: &Arc<OwnedFd>,
        attention: &Arc<Attention>,
        ring_bytes: usize,
        spin_max: Duration,
    ) -> io::Result<ShmStream> {
        let (region, bell) = handover::send(socket, ring_bytes)?;
        let directions = [Direction::ToClient, Direction::ToServer];
        let mut stream = ShmStream::new(region, directions, socket, attention, spin_max)?;
        stream.bell = Some(bell);
        Ok(stream)
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
        let shared = Arc::new(Shared {
            region,
            is_corrupt: AtomicBool::new(false),
            _watch: monitor::watch(socket.clone(), attention.clone())?,
            attention: attention.clone(),
        });
        let spin = || Spin::new(spin_max);
        Ok(ShmStream {
            reading: ShmReading {
                shared: shared.clone(),
                direction: incoming,
                consumer: Consumer::new(capacity),
                spin: spin(),
            },
            writing: ShmWriting {
                shared,
                direction: outgoing,
                producer: Producer::new(capacity),
                owes_wake: false,
                spin: spin(),
            },
            bell: None,
        })
    }

    /// Returns both halves, for a thread each.
    pub(crate) fn split(self) -> (ShmReading, ShmWriting) {
        (self.reading, self.writing)
    }

    #[inline]
    pub(crate) fn read(
        &mut self,
        into: &mut Vec<u8>,
        limit: usize,
        deadline: Deadline,
    ) -> Result<usize, ReadError> {
        // The peer may need the bytes written before it can answer.
        self.reading.read(into, limit, deadline, || self.writing.flush())
    }

    #[inline]
    pub(crate) fn try_read(&mut self, into: &mut Vec<u8>, limit: usize) -> Result<Option<usize>, ReadError> {
        self.reading.try_read(into, limit)
    }

    #[inline]
    pub(crate) fn write(&mut self, bytes: &[u8], deadline: Deadline) -> Result<(), WriteError> {
        self.writing.write(bytes, deadline)
    }

    #[inline]
    pub(crate) fn flush(&mut self) {
        self.writing.flush();
    }

    /// Writes the bytes for which there is room now, and returns their number.
    pub(crate) fn try_write(&mut self, bytes: &[u8]) -> Result<usize, WriteError> {
        self.writing.try_write(bytes)
    }

    /// Returns the bell of a server's end.
    pub(crate) fn bell(&self) -> Option<&OwnedFd> {
        self.bell.as_ref()
    }

    /// Looks for bytes for as long as that has paid lately, while `goes_on`. True if there are
    /// some.
    #[inline]
    pub(crate) fn linger(&mut self, goes_on: impl Fn() -> bool) -> bool {
        self.writing.flush();
        let ShmReading { shared, direction, consumer, spin } = &mut self.reading;
        let control = shared.region.ring(*direction).control;
        spin.linger(&|| consumer.is_ready(control), &goes_on)
    }

    /// Says that no thread waits here, and that the other side must ring the bell when there is
    /// what is wanted. False if there is something already.
    pub(crate) fn rest(&mut self, want: Want) -> bool {
        self.writing.flush();
        let shared = &self.reading.shared;
        let incoming = shared.region.ring(self.reading.direction).control;
        let outgoing = shared.region.ring(self.writing.direction).control;
        let ready = match want {
            Want::Bytes => {
                word::say_resting(&incoming.consumer_sleeps.0);
                self.reading.consumer.is_ready(incoming)
            }
            Want::Room => {
                word::say_resting(&outgoing.producer_sleeps.0);
                self.writing.producer.is_ready(outgoing)
            }
            Want::Nothing => false,
        };
        // The waker is called for what comes later. A stop of reads leaves writes as they are.
        let ends = match want {
            Want::Bytes => STOPPED | DEAF | CLOSED,
            Want::Room => STOPPED | CLOSED,
            Want::Nothing => 0,
        };
        let ended = shared.attention.bits() & ends != 0;
        if ready || ended {
            word::say_awake(&incoming.consumer_sleeps.0);
            word::say_awake(&outgoing.producer_sleeps.0);
            return false;
        }
        if want == Want::Bytes {
            self.reading.spin.begin_rest();
        }
        true
    }

    /// Says that this side is awake.
    pub(crate) fn awake(&mut self) {
        let shared = &self.reading.shared;
        word::say_awake(&shared.region.ring(self.reading.direction).control.consumer_sleeps.0);
        word::say_awake(&shared.region.ring(self.writing.direction).control.producer_sleeps.0);
        self.reading.spin.end_rest();
    }

    /// Waits a short time for room for bytes to be written. There is no wait for either direction:
    /// the caller looks at both in turn.
    pub(crate) fn wait_room(&mut self, most: Duration) {
        self.writing.wait_writable(&mut Deadline::At(Instant::now() + most));
    }
}

impl ShmReading {
    /// Reads, and calls a function before it waits.
    #[inline]
    pub(crate) fn read(
        &mut self,
        into: &mut Vec<u8>,
        limit: usize,
        mut deadline: Deadline,
        mut before_wait: impl FnMut(),
    ) -> Result<usize, ReadError> {
        let mut has_waited = false;
        loop {
            if let Some(count) = self.try_read(into, limit)? {
                return Ok(count);
            }
            // A peer that moves its position and takes it back must not keep us past the deadline.
            if has_waited && deadline.is_past() {
                return Err(ReadError::TimedOut);
            }
            has_waited = true;
            before_wait();
            let ring = self.shared.region.ring(self.direction);
            let (control, consumer) = (ring.control, &self.consumer);
            let sleeps = &control.consumer_sleeps.0;
            let ready = || consumer.is_ready(control);
            if wait(&mut self.spin, &self.shared.attention, sleeps, &mut deadline, ready) == Waited::TimedOut
            {
                return Err(ReadError::TimedOut);
            }
        }
    }

    #[inline]
    pub(crate) fn try_read(&mut self, into: &mut Vec<u8>, limit: usize) -> Result<Option<usize>, ReadError> {
        // Looked at before the ring: if the peer is gone by now, the ring holds all it ever
        // published.
        let attention = self.shared.attention.bits();
        if attention & (STOPPED | DEAF) != 0 {
            return Err(ReadError::Stopped);
        }
        if self.shared.is_corrupt.load(Ordering::Relaxed) {
            return Err(ReadError::Corrupt);
        }
        match self.consumer.pull(self.shared.region.ring(self.direction), into, limit) {
            Ok(0) if attention & CLOSED != 0 => Ok(Some(0)),
            Ok(0) => Ok(None),
            Ok(count) => Ok(Some(count)),
            Err(ring::Corrupt) => {
                self.shared.is_corrupt.store(true, Ordering::Relaxed);
                Err(ReadError::Corrupt)
            }
        }
    }
}

/// Waits for data that a half may read, while others may use that half.
#[derive(Debug)]
pub(crate) struct ShmWaiter {
    shared: Arc<Shared>,
    direction: Direction,
}

impl ShmWaiter {
    fn control(&self) -> &mapped::Control {
        self.shared.region.ring(self.direction).control
    }

    /// Sleeps until more was written than up to a position, or the stream is stopped or closed.
    /// Returns true if that was before the deadline.
    pub(crate) fn wait(&self, position: u64, mut deadline: Deadline) -> bool {
        let control = self.control();
        let ready = || control.announced.0.produced.load(Ordering::Relaxed) != position;
        let sleeps = &control.consumer_sleeps.0;
        wait(&mut Spin::new(Duration::ZERO), &self.shared.attention, sleeps, &mut deadline, ready)
            != Waited::TimedOut
    }

    /// Spares the peer to wake the sleeper: another thread looks, until [`ShmWaiter::end_look`].
    pub(crate) fn begin_look(&self) {
        word::say_awake(&self.control().consumer_sleeps.0);
    }

    /// From now on the sleeper must be woken. The caller must read the bytes that came before.
    pub(crate) fn end_look(&self) {
        word::say_asleep(&self.control().consumer_sleeps.0);
    }
}

impl ShmReading {
    /// Returns the position of the peer at the last read.
    pub(crate) fn position(&self) -> u64 {
        self.consumer.seen()
    }

    pub(crate) fn waiter(&self) -> ShmWaiter {
        ShmWaiter { shared: self.shared.clone(), direction: self.direction }
    }
}

impl ShmWriting {
    #[inline]
    pub(crate) fn write(&mut self, mut bytes: &[u8], mut deadline: Deadline) -> Result<(), WriteError> {
        let mut has_waited = false;
        while !bytes.is_empty() {
            let count = self.push(bytes)?;
            bytes = &bytes[count..];
            if !bytes.is_empty() {
                // Much is left: let the peer start on the bytes that are there.
                self.flush();
                if count == 0 {
                    // As in `read`: the peer may have taken its position back.
                    let late = has_waited && deadline.is_past();
                    if late || self.wait_writable(&mut deadline) == Waited::TimedOut {
                        return Err(WriteError::TimedOut);
                    }
                }
                has_waited = count == 0;
            }
        }
        Ok(())
    }

    /// Writes the bytes for which there is room now, and returns their number.
    pub(crate) fn try_write(&mut self, bytes: &[u8]) -> Result<usize, WriteError> {
        let count = self.push(bytes)?;
        self.flush();
        Ok(count)
    }

    /// Writes the bytes for which there is room, and returns their number.
    #[inline]
    fn push(&mut self, bytes: &[u8]) -> Result<usize, WriteError> {
        self.check_writable()?;
        let ring = self.shared.region.ring(self.direction);
        let Ok(count) = self.producer.push(ring, bytes) else {
            self.shared.is_corrupt.store(true, Ordering::Relaxed);
            return Err(WriteError::Corrupt);
        };
        self.owes_wake |= count > 0;
        Ok(count)
    }

    #[inline]
    fn check_writable(&self) -> Result<(), WriteError> {
        let attention = self.shared.attention.bits();
        if attention & STOPPED != 0 {
            return Err(WriteError::Stopped);
        }
        if self.shared.is_corrupt.load(Ordering::Relaxed) {
            return Err(WriteError::Corrupt);
        }
        if attention & CLOSED != 0 {
            return Err(WriteError::Closed);
        }
        Ok(())
    }

    #[cold]
    fn wait_writable(&mut self, deadline: &mut Deadline) -> Waited {
        let control = self.shared.region.ring(self.direction).control;
        let producer = &self.producer;
        wait(&mut self.spin, &self.shared.attention, &control.producer_sleeps.0, deadline, || {
            producer.is_ready(control)
        })
    }

    #[inline]
    pub(crate) fn flush(&mut self) {
        if self.owes_wake {
            self.owes_wake = false;
            self.producer.wake_consumer(self.shared.region.ring(self.direction));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes two ends. The tests let the client write any bytes, as a hostile one does.
    fn ends() -> (ShmStream, ShmStream) {
        let (one, other) = rustix::net::socketpair(
            rustix::net::AddressFamily::UNIX,
            rustix::net::SocketType::STREAM,
            rustix::net::SocketFlags::CLOEXEC,
            None,
        )
        .unwrap();
        let [one, other] = [one, other].map(Arc::new);
        let server = ShmStream::serve(&one, &Arc::default(), 4096, Duration::ZERO).unwrap();
        let client = ShmStream::connect(&other, &Arc::default(), Instant::now(), Duration::ZERO).unwrap();
        (server, client)
    }

    #[test]
    fn positions_broken_by_the_peer_end_the_stream_for_good() {
        let (mut server, mut client) = ends();
        client.write(b"fine", Deadline::Never).unwrap();
        let mut into = Vec::new();
        assert_eq!(server.read(&mut into, 100, Deadline::Never).unwrap(), 4);
        let control = client.reading.shared.region.ring(Direction::ToServer).control;
        control.announced.0.produced.store(3, Ordering::Relaxed);
        assert!(matches!(server.read(&mut into, 100, Deadline::Never), Err(ReadError::Corrupt)));
        control.announced.0.produced.store(5, Ordering::Relaxed);
        assert!(matches!(server.try_read(&mut into, 100), Err(ReadError::Corrupt)));
        assert!(matches!(server.write(b"x", Deadline::Never), Err(WriteError::Corrupt)));
        assert_eq!(into, b"fine");
    }

    #[test]
    fn garbage_in_all_words_of_the_peer_is_survived() {
        for garbage in [0, 1, 3, 4096, 4097, 1 << 32, u64::MAX] {
            let (mut server, client) = ends();
            for direction in [Direction::ToServer, Direction::ToClient] {
                let ring = client.reading.shared.region.ring(direction);
                let announced = &ring.control.announced.0;
                let words = [&announced.produced, &announced.copy_start, &ring.control.consumed.0];
                for word in words.into_iter().chain(&announced.copy).chain(ring.words) {
                    word.store(garbage, Ordering::Relaxed);
                }
                for sleeps in [&ring.control.consumer_sleeps.0, &ring.control.producer_sleeps.0] {
                    sleeps.store(garbage as u32, Ordering::Relaxed);
                }
            }
            let mut into = Vec::new();
            let soon = || Some(Instant::now() + Duration::from_millis(1));
            for _ in 0..10 {
                // Any answer will do.
                let _ = server.read(&mut into, 1000, soon().into());
                let _ = server.write(&[1; 3000], soon().into());
                server.flush();
            }
            assert!(into.len() <= 4096, "no more than a ring holds");
        }
    }

    #[test]
    fn a_peer_that_keeps_the_sleep_word_cannot_keep_us_from_stopping() {
        let (mut server, client) = ends();
        let attention = server.reading.shared.attention.clone();
        let reading = std::thread::spawn(move || server.read(&mut Vec::new(), 1, Deadline::Never));
        let word = &client.reading.shared.region.ring(Direction::ToServer).control.consumer_sleeps.0;
        // Sets the word to "asleep" all the time, against the sleeper's own writes.
        for _ in 0..100_000 {
            word.store(1, Ordering::Relaxed);
        }
        attention.raise(STOPPED);
        word.store(1, Ordering::Relaxed);
        assert!(matches!(reading.join().unwrap(), Err(ReadError::Stopped)));
    }

    #[test]
    fn a_peer_that_takes_its_position_back_cannot_keep_us_past_the_deadline() {
        let (mut server, client) = ends();
        let reading = std::thread::spawn(move || {
            let deadline = Instant::now() + Duration::from_millis(20);
            server.read(&mut Vec::new(), 1, deadline.into())
        });
        let produced = &client.reading.shared.region.ring(Direction::ToServer).control.announced.0.produced;
        while !reading.is_finished() {
            produced.store(1, Ordering::Relaxed);
            produced.store(0, Ordering::Relaxed);
        }
        // It may have looked at a moment when a byte was there.
        assert!(matches!(reading.join().unwrap(), Err(ReadError::TimedOut) | Ok(1)));
    }

    #[test]
    fn memory_that_is_not_as_it_must_be_is_not_mapped() {
        let (region, memory) = Region::create(4096).unwrap();
        assert!(rustix::fs::ftruncate(&memory, 0).is_err(), "sealed");
        assert!(rustix::fs::ftruncate(&memory, 1 << 20).is_err(), "sealed");
        assert!(Region::open(&memory, 4096).is_ok());
        for ring_bytes in [0, 1, 2048, 5000, 8192, 1 << 40, u64::MAX] {
            assert!(Region::open(&memory, ring_bytes).is_err(), "{ring_bytes}");
        }
        region.ring(Direction::ToServer).words[0].store(1, Ordering::Relaxed);
        let flags = rustix::fs::MemfdFlags::CLOEXEC | rustix::fs::MemfdFlags::ALLOW_SEALING;
        let unsealed = rustix::fs::memfd_create("test", flags).unwrap();
        rustix::fs::ftruncate(&unsealed, 4096 * 3).unwrap();
        let reason = Region::open(&unsealed, 4096).unwrap_err().to_string();
        assert_eq!(reason, "it is not sealed against shrinking");
        rustix::fs::fcntl_add_seals(&unsealed, rustix::fs::SealFlags::SHRINK).unwrap();
        let reason = Region::open(&unsealed, 4096).unwrap_err().to_string();
        assert_eq!(reason, "its header is not that of a version 2 ring");
    }
}
