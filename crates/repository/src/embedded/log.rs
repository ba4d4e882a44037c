//! The log: two files, written in turn, that make commits durable before they are in the base.
//!
//! A file has records one after the other. Each starts at a multiple of [`BLOCK`], so that no write
//! touches a sector that has part of an acknowledged record:
//!
//! ```text
//! 0        16       20       24           32         40            40 + length
//! | mac    | length | 0      | generation | sequence | payload ... | zeros up to the next block
//! ```
//!
//! The mac is keyed BLAKE3 over position, length, generation, sequence and payload, cut to 128
//! bits. The key is random and only in the base, so a client that chooses the bytes of objects can
//! make no record of them. A file's records have one generation; the next generation is in the
//! other file. Reading stops at the first block that has no record of the file's generation: that
//! is the end of the log, or where a write was torn. A write can be torn only at the end, so if a
//! later record is there, the log is damaged.
//!
//! A third file, the *witness*, has the number of the last record that was acknowledged. It is
//! written after each record, and not synchronised, so it is never ahead of the durable records.
//! After a loss of power it may be behind, or of no use. A log that ends before it is not the one
//! that was written last, and is refused. So is one that has neither the last record that the base
//! has nor a later one. That record may be missing only if it was installed when the store was
//! opened: it may have been readable without being durable. The witness says so, durably, before
//! such records are installed.
//!
//! Files grow in large steps, of zeros that are synchronised, so that writing a record changes no
//! metadata.
//!
//! Read [`Log::open`] first, then the [`Journal`] that [`Log`] is. Records are made and understood
//! by [`crate::store`].

use std::io;
use std::sync::Arc;

use bytes::Bytes;

use crate::Error;
use crate::embedded::disk::{Disk, DiskFile};
use crate::embedded::seal::{SEAL, Seals, Table};
use crate::store::{Journal, JournalError};

/// The length of the log's steps in bytes: the largest physical sector that is common.
pub const BLOCK: usize = 4096;
const HEAD: usize = 40;
const MAC: usize = 16;

/// The names of the two files.
pub const NAMES: [&str; 2] = ["log.0", "log.1"];
/// The name of the witness: four slots, each in a block of its own, with a seal and the number of a
/// record.
pub const WITNESS: &str = "acknowledged";

/// The key of a store's macs.
pub type Key = [u8; 32];

/// A record that was found.
pub struct Found {
    /// Its number, counted from 1 in the life of the store.
    pub sequence: u64,
    /// Its contents.
    pub payload: Bytes,
}

/// The log of a store.
pub struct Log {
    files: [Arc<dyn DiskFile>; 2],
    lengths: [u64; 2],
    witness: Witness,
    key: Key,
    generation: u64,
    position: u64,
    bytes_max: u64,
    step_bytes: u64,
    buffer: Vec<u8>,
}

impl Log {
    /// Creates the files of a new store, empty.
    pub fn create(disk: &dyn Disk) -> io::Result<()> {
        for name in NAMES.into_iter().chain([WITNESS]) {
            let file = disk.open(name, true)?.ok_or(io::ErrorKind::NotFound)?;
            file.set_len(0)?;
            file.sync()?;
        }
        Ok(())
    }

    /// True if something was written to a log, which happens only when its store has a base.
    pub fn was_used(disk: &dyn Disk) -> io::Result<bool> {
        for name in NAMES.into_iter().chain([WITNESS]) {
            if let Some(file) = disk.open(name, false)?
                && !file.is_empty()?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Opens the log and returns its records, oldest first. It goes on in a generation that neither
    /// the files nor the base have seen, and overwrites the records found: they must be installed
    /// first. `generation` and `installed`, a record's number, are those of the base.
    pub fn open(
        disk: &dyn Disk,
        key: Key,
        (generation, installed): (u64, u64),
        bytes_max: usize,
        step_bytes: usize,
    ) -> Result<(Log, Vec<Found>), Error> {
        let io = |source| Error::Io { what: "opening the log", source };
        let missing = |name| Error::Damaged { what: format!("the file {name} is missing") };
        let mut files = Vec::new();
        let mut halves = Vec::new();
        // A record that the base has, or a later one, can be read.
        let mut current = installed == 0;
        for (half, name) in NAMES.into_iter().enumerate() {
            let file = disk.open(name, false).map_err(io)?;
            let file = file.ok_or_else(|| missing(name))?;
            let length = file.len().map_err(io)?;
            let (generation, found, end) = read(&*file, half, length, &key).map_err(io)?;
            let last = found.last().map_or(installed, |last| installed.max(last.sequence));
            if let Some(beyond) = read_beyond(&*file, end, length, &key, last).map_err(io)? {
                let what = format!("record {beyond} of the log exists, but an earlier record cannot be read");
                return Err(Error::Damaged { what });
            }
            let known = |found: &[Found]| found.last().is_some_and(|last| last.sequence >= installed);
            current = current
                || known(&found)
                || read_beyond(&*file, end, length, &key, installed - 1).map_err(io)?.is_some();
            halves.push((generation, found));
            files.push((file, length));
        }
        let witness = disk.open(WITNESS, false).map_err(io)?.ok_or_else(|| missing(WITNESS))?;
        let witness = Witness { file: witness, seals: Seals::new(&key) };
        let acknowledged = witness.newest(ACKNOWLEDGED).map_err(io)?;
        let covered = witness.newest(COVERED).map_err(io)?;
        let newest = halves.iter().filter_map(|(of, found)| Some((found.last()?.sequence, *of))).max();
        let last = newest.map_or(installed, |(sequence, _)| sequence.max(installed));
        if let Some(acknowledged) = acknowledged.filter(|acknowledged| *acknowledged > last) {
            let what = format!(
                "{acknowledged} records of the log were acknowledged, and it ends with {last}: the log is older than the \
                 store, or parts of the log are lost"
            );
            return Err(Error::Damaged { what });
        }
        // Of a log that the base has all of, nothing is needed.
        let needed = acknowledged != Some(installed) && covered.is_none_or(|covered| covered < installed);
        if !current && needed {
            let what = format!(
                "the base has {installed} records of the log, and the log does not have the last of them: the log is older \
                 than the base, or belongs to another store"
            );
            return Err(Error::Damaged { what });
        }
        if last > installed {
            // The slot that has not the newest one: a write may be torn.
            let newest = covered.is_some() && witness.read(COVERED[0]).map_err(io)? == covered;
            let slot = COVERED[usize::from(newest)];
            witness.write(slot, last).and_then(|()| witness.file.sync()).map_err(io)?;
        }
        if acknowledged.is_none_or(|acknowledged| acknowledged < installed) {
            // The number that is there then is an older one, which is as good as none.
            let _ = witness.acknowledge(installed);
        }
        // The half of the older generation first.
        halves.sort_by_key(|(generation, _)| *generation);
        let seen = halves.iter().map(|(generation, _)| *generation).fold(generation, u64::max);
        // The half with the newest record stays until the other one has a newer one.
        let newest_half = newest.map_or(half_of(seen), |(_, of)| half_of(of));
        let generation = if half_of(seen + 1) == newest_half { seen + 2 } else { seen + 1 };
        let [(first, one), (second, two)] = [files.remove(0), files.remove(0)];
        let log = Log {
            files: [first, second],
            lengths: [one, two],
            witness,
            key,
            generation,
            position: 0,
            bytes_max: bytes_max as u64,
            step_bytes: step_bytes.max(BLOCK) as u64,
            buffer: Vec::new(),
        };
        Ok((log, halves.into_iter().flat_map(|(_, found)| found).collect()))
    }

    fn half(&self) -> usize {
        half_of(self.generation)
    }

    /// Makes the half being written at least that long.
    fn grow(&mut self, wanted: u64) -> Result<(), JournalError> {
        let half = self.half();
        if wanted <= self.lengths[half] {
            return Ok(());
        }
        let end = wanted.next_multiple_of(self.step_bytes).min(wanted.max(self.bytes_max));
        let zeros = vec![0; (1 << 20).min((end - self.lengths[half]) as usize)];
        let mut at = self.lengths[half];
        while at < end {
            let count = (zeros.len() as u64).min(end - at) as usize;
            // Nothing relies on the zeros until they are synchronised.
            self.files[half].write_at(at, &zeros[..count]).map_err(JournalError::NoRoom)?;
            at += count as u64;
        }
        self.files[half]
            .sync()
            .map_err(|error| JournalError::InDoubt("synchronising the grown log", error))?;
        self.lengths[half] = end;
        Ok(())
    }
}

impl Journal for Log {
    fn fits(&self, bytes: usize) -> bool {
        self.position == 0 || self.position + framed(bytes) <= self.bytes_max
    }

    fn append(&mut self, sequence: u64, payload: &[u8]) -> Result<(), JournalError> {
        let length = u32::try_from(payload.len())
            .map_err(|_| JournalError::NoRoom(io::Error::other("a record of the log holds 4 GiB at most")))?;
        let end = self.position + framed(payload.len());
        self.grow(end)?;
        self.buffer.clear();
        self.buffer.extend_from_slice(&[0; MAC]);
        self.buffer.extend_from_slice(&length.to_le_bytes());
        self.buffer.extend_from_slice(&[0; 4]);
        self.buffer.extend_from_slice(&self.generation.to_le_bytes());
        self.buffer.extend_from_slice(&sequence.to_le_bytes());
        self.buffer.extend_from_slice(payload);
        let mac = mac(&self.key, self.position, &self.buffer[MAC..]);
        self.buffer[..MAC].copy_from_slice(&mac);
        self.buffer.resize(framed(payload.len()) as usize, 0);
        let file = &self.files[self.half()];
        file.write_at(self.position, &self.buffer)
            .map_err(|error| JournalError::InDoubt("writing the log", error))?;
        file.sync().map_err(|error| JournalError::InDoubt("synchronising the log", error))?;
        self.position = end;
        // The number that is there then is an older one, which is as good as none.
        let _ = self.witness.acknowledge(sequence);
        // One large commit should not keep its memory for ever.
        self.buffer.shrink_to(1 << 20);
        Ok(())
    }

    fn turn(&mut self) {
        // The newest record is in the other half still.
        if self.position > 0 {
            self.generation += 1;
            self.position = 0;
        }
    }

    fn generation(&self) -> u64 {
        self.generation
    }

    fn used(&self) -> u64 {
        self.position
    }

    fn examine(&self) -> Result<Vec<String>, Error> {
        let io = |source| Error::Io { what: "reading the log", source };
        let half = self.half();
        let (generation, _, end) =
            read(&*self.files[half], half, self.lengths[half], &self.key).map_err(io)?;
        let whole = self.position == 0 || (generation, end) == (self.generation, self.position);
        let wrong = format!("the log is corrupted, from byte {end} of {} on", NAMES[half]);
        Ok(if whole { Vec::new() } else { vec![wrong] })
    }
}

/// Numbers of records, in a file of its own.
struct Witness {
    file: Arc<dyn DiskFile>,
    seals: Seals,
}

/// The slots of the last record that was acknowledged.
const ACKNOWLEDGED: [u64; 2] = [0, 1];
/// The slots of the last record that was installed when the store was opened.
const COVERED: [u64; 2] = [2, 3];

impl Witness {
    /// Returns the number in a slot; none if there is none, or it was torn.
    fn read(&self, slot: u64) -> io::Result<Option<u64>> {
        let mut bytes = [0; SEAL + 8];
        let at = slot * BLOCK as u64;
        if at + bytes.len() as u64 > self.file.len()? {
            return Ok(None);
        }
        self.file.read_at(at, &mut bytes)?;
        let number = self.seals.open(Table::Witness, u128::from(slot), &bytes);
        Ok(number.and_then(|number| Some(u64::from_le_bytes(number.try_into().ok()?))))
    }

    /// Returns the newest number in two slots.
    fn newest(&self, [one, other]: [u64; 2]) -> io::Result<Option<u64>> {
        Ok(self.read(one)?.max(self.read(other)?))
    }

    /// Writes the number of a record that is acknowledged; numbers that follow each other go to
    /// different slots.
    fn acknowledge(&self, number: u64) -> io::Result<()> {
        self.write(ACKNOWLEDGED[(number % 2) as usize], number)
    }

    fn write(&self, slot: u64, number: u64) -> io::Result<()> {
        let bytes = self.seals.seal(Table::Witness, u128::from(slot), &[&number.to_le_bytes()]);
        self.file.write_at(slot * BLOCK as u64, &bytes)
    }
}

/// Returns the number of the file that has a generation.
fn half_of(generation: u64) -> usize {
    (generation % 2) as usize
}

/// Returns the bytes that a record with such a payload takes.
fn framed(payload: usize) -> u64 {
    (HEAD + payload).next_multiple_of(BLOCK) as u64
}

fn mac(key: &Key, position: u64, rest: &[u8]) -> [u8; MAC] {
    let mut hasher = blake3::Hasher::new_keyed(key);
    hasher.update(&position.to_le_bytes());
    hasher.update(rest);
    let mut mac = [0; MAC];
    mac.copy_from_slice(&hasher.finalize().as_bytes()[..MAC]);
    mac
}

/// Returns the generation of a file, 0 if it has none, its records, and where they end.
fn read(file: &dyn DiskFile, half: usize, length: u64, key: &Key) -> io::Result<(u64, Vec<Found>, u64)> {
    let mut found: Vec<Found> = Vec::new();
    let (mut generation, mut position) = (0, 0);
    while let Some((of, record)) = read_record(file, position, length, key)? {
        // A record that a disk put into the wrong file is not of this one.
        let next = match found.last() {
            Some(last) => (of, record.sequence) == (generation, last.sequence + 1),
            None => half_of(of) == half,
        };
        if !next {
            break;
        }
        generation = of;
        position += framed(record.payload.len());
        found.push(record);
    }
    Ok((generation, found, position))
}

/// Returns a record from `position` on with a number above `last`, if there is one.
///
/// Bytes of clients may look like heads of records and make this slow. So it gives up when it has
/// looked at as many bytes as the file has twice.
fn read_beyond(
    file: &dyn DiskFile,
    position: u64,
    length: u64,
    key: &Key,
    last: u64,
) -> io::Result<Option<u64>> {
    let mut budget = 2 * length;
    for position in (position..length).step_by(BLOCK) {
        if position + HEAD as u64 > length || budget < BLOCK as u64 {
            break;
        }
        let mut head = [0; HEAD];
        file.read_at(position, &mut head)?;
        let payload = u32::from_le_bytes(head[16..20].try_into().expect("four bytes")) as usize;
        let sequence = u64::from_le_bytes(head[32..40].try_into().expect("eight bytes"));
        if sequence <= last || framed(payload) > budget {
            continue;
        }
        budget -= framed(payload);
        if let Some((_, found)) = read_record(file, position, length, key)? {
            return Ok(Some(found.sequence));
        }
    }
    Ok(None)
}

/// Returns the record at that position and its generation, if there is a whole one.
fn read_record(
    file: &dyn DiskFile,
    position: u64,
    length: u64,
    key: &Key,
) -> io::Result<Option<(u64, Found)>> {
    if position + HEAD as u64 > length {
        return Ok(None);
    }
    let mut bytes = vec![0; HEAD];
    file.read_at(position, &mut bytes)?;
    let payload = u32::from_le_bytes(bytes[16..20].try_into().expect("four bytes")) as usize;
    if framed(payload) > length - position {
        return Ok(None);
    }
    bytes.resize(HEAD + payload, 0);
    file.read_at(position + HEAD as u64, &mut bytes[HEAD..])?;
    if bytes[..MAC] != mac(key, position, &bytes[MAC..]) {
        return Ok(None);
    }
    let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let (generation, sequence) = (number(24), number(32));
    Ok(Some((generation, Found { sequence, payload: Bytes::from(bytes).slice(HEAD..) })))
}
