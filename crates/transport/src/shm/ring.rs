//! One end each of a single-producer, single-consumer ring of bytes: positions and copies, no
//! waiting.
//!
//! Read [`Producer`] and [`Consumer`]. Each end owns its own position in private memory and only
//! publishes it. It remembers the peer's position as last seen, so that the common case touches no
//! line that the peer writes. Each position loaded from the peer is checked first: it must not go
//! backwards, and at most one ring full of bytes may lie between the two positions. A position that
//! fails the check is [`Corrupt`], and nothing is copied.
//!
//! Words that are half published are no problem. Only the producer writes data, and it keeps the
//! bytes of a word that it does not mean to change. The consumer picks only published bytes out of
//! a word.

use std::os::fd::OwnedFd;
use std::sync::atomic::{Ordering, fence};

use rustix::thread::futex;

use super::mapped::{Announced, COPY_WORDS, Control, Ring};
use super::word::{Wake, must_wake};
use std::sync::atomic::AtomicU32;

/// The peer wrote a position that no honest peer writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Corrupt;

/// The writing end of a ring.
#[derive(Debug)]
pub(crate) struct Producer {
    produced: u64,
    consumed_seen: u64,
    capacity: u64,
    /// Bytes after which `push` publishes although it could go on: lets the reader start early.
    step: usize,
}

/// The reading end of a ring.
#[derive(Debug)]
pub(crate) struct Consumer {
    consumed: u64,
    consumed_published: u64,
    produced_seen: u64,
    capacity: u64,
}

impl Producer {
    pub(crate) fn new(capacity: usize) -> Producer {
        let step = (capacity / 4).min(32 << 10);
        Producer { produced: 0, consumed_seen: 0, capacity: capacity as u64, step }
    }

    /// Puts in a prefix of `bytes` and publishes it; returns its length, 0 if the ring is full.
    #[inline]
    pub(crate) fn push(&mut self, ring: Ring<'_>, bytes: &[u8]) -> Result<usize, Corrupt> {
        let wanted = bytes.len().min(self.step);
        let mut free = (self.capacity - (self.produced - self.consumed_seen)) as usize;
        if free < wanted {
            // Acquire pairs with the release in `Consumer::publish`: the consumer has loaded these
            // bytes before we write over them.
            let consumed = ring.control.consumed.0.load(Ordering::Acquire);
            let in_ring = self.produced.wrapping_sub(consumed);
            if in_ring > self.produced - self.consumed_seen {
                return Err(Corrupt);
            }
            self.consumed_seen = consumed;
            free = (self.capacity - in_ring) as usize;
        }
        let count = wanted.min(free);
        if count > 0 {
            let announced = &ring.control.announced.0;
            copy_in(ring, self.produced, &bytes[..count]);
            if count <= COPY_BYTES {
                put_copy(announced, self.produced, &bytes[..count]);
            }
            self.produced += count as u64;
            // Release pairs with the acquire in `Consumer::pull`.
            announced.produced.store(self.produced, Ordering::Release);
        }
        Ok(count)
    }

    /// True if the consumer has moved since the last `push`.
    #[inline]
    pub(crate) fn is_ready(&self, control: &Control) -> bool {
        control.consumed.0.load(Ordering::Relaxed) != self.consumed_seen
    }

    /// Wakes the consumer if it sleeps. To be called between publishing and waiting.
    #[inline]
    pub(crate) fn wake_consumer(&self, ring: Ring<'_>) {
        wake(&ring.control.consumer_sleeps.0, ring.bell);
    }
}

impl Consumer {
    pub(crate) fn new(capacity: usize) -> Consumer {
        Consumer { consumed: 0, consumed_published: 0, produced_seen: 0, capacity: capacity as u64 }
    }

    /// Appends at most `limit` bytes to `into`; returns their number, 0 if the ring is empty.
    #[inline]
    pub(crate) fn pull(
        &mut self,
        ring: Ring<'_>,
        into: &mut Vec<u8>,
        limit: usize,
    ) -> Result<usize, Corrupt> {
        if self.produced_seen == self.consumed {
            // Acquire pairs with the release in `Producer::push`.
            let produced = ring.control.announced.0.produced.load(Ordering::Acquire);
            if produced.wrapping_sub(self.consumed) > self.capacity {
                return Err(Corrupt);
            }
            self.produced_seen = produced;
        }
        let available = (self.produced_seen - self.consumed) as usize;
        let count = limit.min(available);
        if count > 0 {
            let copied =
                available <= COPY_BYTES && take_copy(&ring.control.announced.0, self.consumed, count, into);
            if !copied {
                copy_out(ring, self.consumed, count, into);
            }
            self.consumed += count as u64;
            // The producer is told of free space in large steps only. It can be short of space only
            // if more than 7/8 of the ring wait here, so nothing stalls. A short message costs
            // neither a store to a shared line nor a fence.
            if self.consumed - self.consumed_published >= self.capacity / 8 {
                self.publish(ring);
            }
        }
        Ok(count)
    }

    #[cold]
    fn publish(&mut self, ring: Ring<'_>) {
        // Release pairs with the acquire in `Producer::push`.
        ring.control.consumed.0.store(self.consumed, Ordering::Release);
        self.consumed_published = self.consumed;
        wake(&ring.control.producer_sleeps.0, ring.bell);
    }

    /// Returns the producer's position as it was seen last.
    pub(crate) fn seen(&self) -> u64 {
        self.produced_seen
    }

    /// True if the producer has moved since the last `pull` found nothing.
    #[inline]
    pub(crate) fn is_ready(&self, control: &Control) -> bool {
        control.announced.0.produced.load(Ordering::Relaxed) != self.produced_seen
    }
}

/// Wakes the side that sleeps on this word, after the caller published the data or space that it
/// waits for.
#[inline]
fn wake(sleeps: &AtomicU32, bell: Option<&OwnedFd>) {
    if let Some(wake) = must_wake(sleeps) {
        wake_slowly(sleeps, wake, bell);
    }
}

#[cold]
fn wake_slowly(sleeps: &AtomicU32, wake: Wake, bell: Option<&OwnedFd>) {
    match (wake, bell) {
        // Fails only if the counter is full: then it was just written. A bell of a hostile peer
        // may be anything; it does not block.
        (Wake::Bell, Some(bell)) => drop(rustix::io::write(bell, &1u64.to_ne_bytes())),
        // Cannot fail: the word is mapped and aligned.
        _ => drop(futex::wake(sleeps, futex::Flags::empty(), 1)),
    }
}

/// Bytes that fit beside the producer's position.
const COPY_BYTES: usize = 8 * COPY_WORDS;

/// Puts bytes beside the producer's position, which is published next. `start` is theirs.
#[inline]
fn put_copy(announced: &Announced, start: u64, bytes: &[u8]) {
    // The consumer may be reading the copy before this one: it looks at the start again afterwards.
    announced.copy_start.store(start, Ordering::Relaxed);
    // Orders the start before the words; pairs with the fence in `take_copy`.
    fence(Ordering::Release);
    let (whole, rest) = bytes.as_chunks::<8>();
    for (word, chunk) in announced.copy.iter().zip(whole) {
        word.store(u64::from_ne_bytes(*chunk), Ordering::Relaxed);
    }
    if !rest.is_empty() {
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        announced.copy[whole.len()].store(u64::from_ne_bytes(last), Ordering::Relaxed);
    }
}

/// Appends the first `count` published bytes at `start` from the copy beside the position. Returns
/// false if the copy is of other bytes, or was replaced meanwhile.
///
/// To be called only if no more than COPY_BYTES are known to be published beyond `start`. Then a
/// copy that starts there has them all. More bytes put in behind it would have been few, too. So
/// they would be a copy with another start, visible before its position was.
#[inline]
fn take_copy(announced: &Announced, start: u64, count: usize, into: &mut Vec<u8>) -> bool {
    if announced.copy_start.load(Ordering::Relaxed) != start {
        return false;
    }
    let mut bytes = [0; COPY_BYTES];
    for (word, chunk) in announced.copy.iter().zip(bytes.as_chunks_mut::<8>().0) {
        *chunk = word.load(Ordering::Relaxed).to_ne_bytes();
    }
    // Orders the words before the start; pairs with the fence in `put_copy`.
    fence(Ordering::Acquire);
    if announced.copy_start.load(Ordering::Relaxed) != start {
        return false;
    }
    // A copy of fixed size and a cut are two moves; a copy of `count` bytes is a call.
    let length = into.len();
    into.extend_from_slice(&bytes);
    into.truncate(length + count);
    true
}

/// Splits `position` into the index of its word and the byte within it.
#[inline]
fn locate(ring: Ring<'_>, position: u64) -> (usize, usize) {
    ((position >> 3) as usize & (ring.words.len() - 1), position as usize & 7)
}

/// Writes bytes at `position`; the caller has made sure that they are free.
#[inline]
fn copy_in(ring: Ring<'_>, position: u64, mut bytes: &[u8]) {
    let (mut index, offset) = locate(ring, position);
    if offset != 0 {
        let count = bytes.len().min(8 - offset);
        merge(ring, index, offset, &bytes[..count]);
        bytes = &bytes[count..];
        index = (index + 1) & (ring.words.len() - 1);
    }
    let (whole, rest) = bytes.as_chunks::<8>();
    let (first, second) = whole.split_at(whole.len().min(ring.words.len() - index));
    for (run, start) in [(first, index), (second, 0)] {
        for (word, chunk) in ring.words[start..].iter().zip(run) {
            word.store(u64::from_ne_bytes(*chunk), Ordering::Relaxed);
        }
    }
    if !rest.is_empty() {
        merge(ring, (index + whole.len()) & (ring.words.len() - 1), 0, rest);
    }
}

/// Replaces some bytes of one word. Only the producer writes data, so nothing is lost in between.
#[inline]
fn merge(ring: Ring<'_>, index: usize, offset: usize, bytes: &[u8]) {
    let word = &ring.words[index];
    let mut value = word.load(Ordering::Relaxed).to_ne_bytes();
    value[offset..offset + bytes.len()].copy_from_slice(bytes);
    word.store(u64::from_ne_bytes(value), Ordering::Relaxed);
}

/// Appends `count` bytes at `position`; loads each word once.
#[inline]
fn copy_out(ring: Ring<'_>, position: u64, mut count: usize, into: &mut Vec<u8>) {
    into.reserve(count);
    let (mut index, offset) = locate(ring, position);
    if offset != 0 {
        let taken = count.min(8 - offset);
        let value = ring.words[index].load(Ordering::Relaxed).to_ne_bytes();
        into.extend_from_slice(&value[offset..offset + taken]);
        count -= taken;
        index = (index + 1) & (ring.words.len() - 1);
    }
    let whole = count / 8;
    let first = whole.min(ring.words.len() - index);
    copy_words(&ring.words[index..index + first], into);
    copy_words(&ring.words[..whole - first], into);
    if !count.is_multiple_of(8) {
        let index = (index + whole) & (ring.words.len() - 1);
        let value = ring.words[index].load(Ordering::Relaxed).to_ne_bytes();
        into.extend_from_slice(&value[..count % 8]);
    }
}

/// Appends words by way of a small buffer, so that the vector's length is not touched for each one.
#[inline]
fn copy_words(words: &[std::sync::atomic::AtomicU64], into: &mut Vec<u8>) {
    let (runs, rest) = words.as_chunks::<32>();
    for run in runs {
        let mut buffer = [0u8; 256];
        for (word, bytes) in run.iter().zip(buffer.as_chunks_mut::<8>().0) {
            *bytes = word.load(Ordering::Relaxed).to_ne_bytes();
        }
        into.extend_from_slice(&buffer);
    }
    for word in rest {
        into.extend_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::super::mapped::{Direction, Region};
    use super::*;

    const CAPACITY: usize = 4096;

    fn region() -> Region {
        Region::create(CAPACITY).unwrap().0
    }

    proptest! {
        /// A plain queue is the model: the bytes that go in come out, however they are cut, lap
        /// after lap.
        #[test]
        fn a_ring_is_a_queue(steps in prop::collection::vec((any::<bool>(), 1usize..1500, any::<u8>()), 1..400)) {
            let region = region();
            let ring = region.ring(Direction::ToServer);
            let (mut producer, mut consumer) = (Producer::new(CAPACITY), Consumer::new(CAPACITY));
            let mut model = VecDeque::new();
            for (pushes, length, first) in steps {
                // Short ones are as likely as all others together.
                let length = if first < 128 { length % 70 + 1 } else { length };
                if pushes {
                    let bytes: Vec<u8> = (0..length).map(|index| first.wrapping_add(index as u8)).collect();
                    let count = producer.push(ring, &bytes).unwrap();
                    prop_assert!(count > 0 || model.len() > CAPACITY * 7 / 8);
                    model.extend(&bytes[..count]);
                } else {
                    let mut bytes = vec![42];
                    let count = consumer.pull(ring, &mut bytes, length).unwrap();
                    prop_assert_eq!(bytes.len(), 1 + count);
                    prop_assert_eq!(count == 0, model.is_empty());
                    let expected: Vec<u8> = model.drain(..count).collect();
                    prop_assert_eq!(&bytes[1..], expected);
                }
            }
        }
    }

    #[test]
    fn a_produced_position_that_cannot_be_is_refused() {
        let region = region();
        let ring = region.ring(Direction::ToServer);
        let (mut producer, mut consumer) = (Producer::new(CAPACITY), Consumer::new(CAPACITY));
        let mut into = Vec::new();
        producer.push(ring, &[1; 100]).unwrap();
        assert_eq!(consumer.pull(ring, &mut into, 200), Ok(100));
        for position in [99, 0, 100 + CAPACITY as u64 + 1, u64::MAX, 1 << 63] {
            ring.control.announced.0.produced.store(position, Ordering::Relaxed);
            assert_eq!(consumer.pull(ring, &mut into, 200), Err(Corrupt), "{position}");
        }
        // As much as a ring holds is believed, whatever the bytes are.
        ring.control.announced.0.produced.store(100 + CAPACITY as u64, Ordering::Relaxed);
        assert_eq!(consumer.pull(ring, &mut into, usize::MAX), Ok(CAPACITY));
        assert_eq!(into.len(), 100 + CAPACITY);
    }

    #[test]
    fn a_consumed_position_that_cannot_be_is_refused() {
        let region = region();
        let ring = region.ring(Direction::ToServer);
        let mut producer = Producer::new(CAPACITY);
        while producer.push(ring, &[1; 1000]).unwrap() > 0 {}
        ring.control.consumed.0.store(1000, Ordering::Relaxed);
        assert_eq!(producer.push(ring, &[1; 1000]), Ok(1000));
        for position in [999, 0, CAPACITY as u64 + 1001, u64::MAX, 1 << 63] {
            ring.control.consumed.0.store(position, Ordering::Relaxed);
            assert_eq!(producer.push(ring, &[1]), Err(Corrupt), "{position}");
        }
    }

    #[test]
    fn a_copy_of_other_bytes_is_not_taken() {
        let region = region();
        let ring = region.ring(Direction::ToServer);
        let (mut producer, mut consumer) = (Producer::new(CAPACITY), Consumer::new(CAPACITY));
        // A long one first, at position 0, where the copy that never was also starts.
        producer.push(ring, &[1; 60]).unwrap();
        let mut into = Vec::new();
        assert_eq!(consumer.pull(ring, &mut into, 10), Ok(10));
        assert_eq!(consumer.pull(ring, &mut into, 100), Ok(50));
        // A short one, then a long one behind it, read across their border.
        producer.push(ring, &[2; 16]).unwrap();
        producer.push(ring, &[3; 60]).unwrap();
        assert_eq!(consumer.pull(ring, &mut into, 40), Ok(40));
        // A short one, then another.
        assert_eq!(consumer.pull(ring, &mut into, 100), Ok(36));
        producer.push(ring, &[4; 3]).unwrap();
        producer.push(ring, &[5; 5]).unwrap();
        assert_eq!(consumer.pull(ring, &mut into, 100), Ok(8));
        let runs = [(1, 60), (2, 16), (3, 60), (4, 3), (5, 5)];
        let expected: Vec<u8> = runs.iter().flat_map(|&(byte, count)| vec![byte; count]).collect();
        assert_eq!(into, expected);
    }
}
