//! The engine that keeps everything in memory: for tests, and for servers that need no durability.

use std::collections::BTreeMap;

use parking_lot::RwLock;

use crate::store::{
    Base, BaseSnapshot, Installation, Installing, Journal, JournalError, Loaded, Options, Part, Scanned,
    Store, Totals, initial,
};
use crate::{Error, MEMORY_BYTES_MAX, Oref, Stored};

/// A repository that is gone when it is dropped. It is the same [`Store`] as the durable engine,
/// over a map.
pub type Memory = Store<Map, Nowhere>;

impl Memory {
    /// Makes an empty one.
    pub fn new() -> Memory {
        Memory::within(MEMORY_BYTES_MAX)
    }

    /// Makes an empty one whose objects have so many bytes at most ([`Options::bytes_max`]).
    pub fn within(bytes_max: u64) -> Memory {
        // There is nothing that a large buffer would save.
        let log_bytes = 1 << 20;
        Memory::with_options(Options {
            log_bytes,
            installing: Installing::AtOnce,
            bytes_max,
            ..Options::default()
        })
    }

    /// Makes an empty one with other bounds.
    pub fn with_options(options: Options) -> Memory {
        let map = Map::default();
        let nowhere = Nowhere { bytes: 0, bytes_max: options.log_bytes, generation: 0 };
        Store::start(map, nowhere, Vec::new(), options)
            .expect("a map does not fail, and the system has random numbers")
    }
}

impl Default for Memory {
    fn default() -> Memory {
        Memory::new()
    }
}

/// The base of [`Memory`].
#[derive(Default)]
pub struct Map {
    objects: RwLock<BTreeMap<Oref, Stored>>,
}

impl Base for Map {
    fn load(&self) -> Result<Loaded, Error> {
        let (loaded, root) = initial();
        self.objects.write().insert(Oref::ROOT, root);
        Ok(loaded)
    }

    fn read(&self, orefs: &[Oref]) -> Result<Vec<Option<Stored>>, Error> {
        let objects = self.objects.read();
        Ok(orefs.iter().map(|oref| objects.get(oref).cloned()).collect())
    }

    fn scan(&self, from: Oref, limit: usize) -> Result<Scanned, Error> {
        let objects = self.objects.read();
        Ok(objects.range(from..).take(limit).map(|(oref, stored)| (*oref, Ok(stored.clone()))).collect())
    }

    fn snapshot(&self) -> Result<Box<dyn BaseSnapshot>, Error> {
        let objects = self.objects.read();
        let part = objects.iter().map(|(oref, stored)| (*oref, stored.clone())).collect();
        Ok(Box::new(Whole(Some(part))))
    }

    fn install(&self, installation: &Installation<'_>) -> Result<Totals, Error> {
        let mut objects = self.objects.write();
        let mut totals = installation.totals;
        for (oref, state) in installation.states {
            let old = match state {
                Some(stored) => objects.insert(*oref, stored.clone()),
                None => objects.remove(oref),
            };
            totals.replace(old.map(|old| old.bytes.len()), state.as_ref().map(|new| new.bytes.len()));
        }
        Ok(totals)
    }
}

/// A snapshot of a [`Map`], which shares the records with it.
struct Whole(Option<Part>);

impl BaseSnapshot for Whole {
    fn next_part(&mut self) -> Result<Option<(Part, u64)>, Error> {
        Ok(self.0.take().map(|part| (part, Oref::MAX)))
    }
}

/// The log of [`Memory`]: only counts.
pub struct Nowhere {
    bytes: usize,
    bytes_max: usize,
    generation: u64,
}

impl Journal for Nowhere {
    const WAITS: bool = false;

    fn fits(&self, bytes: usize) -> bool {
        self.bytes == 0 || self.bytes + bytes <= self.bytes_max
    }

    fn append(&mut self, _: u64, payload: &[u8]) -> Result<(), JournalError> {
        self.bytes += payload.len();
        Ok(())
    }

    fn turn(&mut self) {
        self.bytes = 0;
        self.generation += 1;
    }

    fn generation(&self) -> u64 {
        self.generation
    }

    fn used(&self) -> u64 {
        0
    }
}
