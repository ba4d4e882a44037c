//! A planted bug: the engine with a log that has no checksums. Its records are whole if their heads are.

use std::sync::Arc;

use bifrost_repository::Error;
use bifrost_repository::embedded::base::Redb;
use bifrost_repository::embedded::disk::{Disk, DiskFile};
use bifrost_repository::embedded::log::NAMES;
use bifrost_repository::store::{Base, Entry, Journal, JournalError, Store, decode};
use bytes::Bytes;

use super::disk::Sim;
use super::life::{Engine, options};

const HEAD: usize = 24;

struct Careless {
    files: Vec<Arc<dyn DiskFile>>,
    generation: u64,
    position: u64,
}

pub fn open(sim: &Sim) -> Result<Box<dyn Engine>, Error> {
    let io = |source| Error::Io { what: "opening", source };
    if !Redb::exists(sim).map_err(io)? {
        for name in NAMES {
            sim.open(name, true).map_err(io)?;
        }
        Redb::create(sim, &[7; 32])?;
    }
    let base = Redb::open(sim, 1 << 20)?;
    let loaded = base.load()?;
    let mut halves = Vec::new();
    let mut files = Vec::new();
    for name in NAMES {
        let file =
            sim.open(name, false).map_err(io)?.ok_or_else(|| io(std::io::ErrorKind::NotFound.into()))?;
        halves.push(read(&*file).map_err(io)?);
        files.push(file);
    }
    halves.sort_by_key(|(generation, _)| *generation);
    let generation = halves.iter().map(|(generation, _)| *generation).fold(loaded.generation, u64::max) + 1;
    let mut records = Vec::new();
    for (sequence, entries) in halves.into_iter().flat_map(|(_, records)| records) {
        if sequence == loaded.sequence + 1 + records.len() as u64 {
            records.push(entries);
        }
    }
    let log = Careless { files, generation, position: 0 };
    Ok(Box::new(Store::start(base, log, records, options().store)?))
}

type Records = Vec<(u64, Vec<Entry>)>;

fn read(file: &dyn DiskFile) -> std::io::Result<(u64, Records)> {
    let mut bytes = vec![0; file.len()? as usize];
    file.read_at(0, &mut bytes)?;
    let bytes = Bytes::from(bytes);
    let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let (mut at, mut generation, mut records) = (0, 0, Vec::new());
    while at + HEAD <= bytes.len() {
        let (length, of, sequence) = (number(at) as usize, number(at + 8), number(at + 16));
        let fits = length > 0 && length <= bytes.len() - at - HEAD;
        if !fits || (at > 0 && of != generation) {
            break;
        }
        let Ok(entries) = decode(&bytes.slice(at + HEAD..at + HEAD + length)) else { break };
        generation = of;
        records.push((sequence, entries));
        at += HEAD + length;
    }
    Ok((generation, records))
}

impl Journal for Careless {
    fn fits(&self, bytes: usize) -> bool {
        self.position == 0 || self.position as usize + HEAD + bytes <= options().store.log_bytes
    }

    fn append(&mut self, sequence: u64, payload: &[u8]) -> Result<(), JournalError> {
        let head = [payload.len() as u64, self.generation, sequence].map(u64::to_le_bytes).concat();
        let file = &self.files[self.generation as usize % 2];
        let written = file.write_at(self.position, &[&head, payload].concat()).and_then(|()| file.sync());
        self.position += (HEAD + payload.len()) as u64;
        written.map_err(|error| JournalError::InDoubt("writing", error))
    }

    fn turn(&mut self) {
        (self.generation, self.position) = (self.generation + 1, 0);
    }

    fn generation(&self) -> u64 {
        self.generation
    }

    fn used(&self) -> u64 {
        self.position
    }
}
