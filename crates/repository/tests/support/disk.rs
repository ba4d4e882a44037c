//! A disk that loses its power, tears and reorders what was not synchronised, runs full and fails.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex};

use bifrost_repository::embedded::disk::{Disk, DiskFile};

use super::random::Random;

pub const SECTOR: u64 = 512;

/// What becomes of what was written and not synchronised when the power goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tear {
    /// All of it is lost.
    Lost,
    /// All of it is there.
    Kept,
    /// What was written first is there, the rest is not.
    Prefix,
    /// Each sector is as it was after any of the writes to it, or torn within.
    Sectors,
}

impl Tear {
    pub const ALL: [Tear; 4] = [Tear::Lost, Tear::Kept, Tear::Prefix, Tear::Sectors];
}

/// A way in which the disk fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    Read,
    Write,
    ShortWrite,
    Sync,
    Full,
}

impl Fault {
    pub const ALL: [Fault; 5] = [Fault::Read, Fault::Write, Fault::ShortWrite, Fault::Sync, Fault::Full];
}

#[derive(Clone)]
enum Change {
    Write(u64, Vec<u8>),
    Length(u64),
}

/// A file: what is surely on the disk, what was done since, and what reading gives.
#[derive(Clone, Default)]
struct Content {
    durable: Vec<u8>,
    current: Vec<u8>,
    pending: Vec<Change>,
}

fn write(bytes: &mut Vec<u8>, offset: u64, new: &[u8]) {
    let (start, end) = (offset as usize, offset as usize + new.len());
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[start..end].copy_from_slice(new);
}

fn apply(bytes: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Write(offset, new) => write(bytes, *offset, new),
        Change::Length(length) => bytes.resize(*length as usize, 0),
    }
}

impl Content {
    fn change(&mut self, change: Change) {
        apply(&mut self.current, &change);
        self.pending.push(change);
    }

    fn sync(&mut self) {
        for change in self.pending.drain(..) {
            apply(&mut self.durable, &change);
        }
    }

    /// Puts some of what is pending on the disk.
    fn tear(&mut self, tear: Tear, random: &mut Random) {
        let pending = std::mem::take(&mut self.pending);
        let length = self.durable.len();
        let kept = match tear {
            Tear::Lost => 0,
            Tear::Kept | Tear::Sectors => pending.len(),
            Tear::Prefix => random.below(pending.len() + 1),
        };
        for change in &pending[..kept] {
            match change {
                Change::Write(offset, bytes) if tear == Tear::Sectors => {
                    tear_write(&mut self.durable, *offset, bytes, random);
                }
                Change::Length(_) if tear == Tear::Sectors && random.chance(2) => {}
                change => apply(&mut self.durable, change),
            }
        }
        // The new length is written by itself.
        if tear == Tear::Sectors && self.durable.len() > length && random.chance(4) {
            self.durable.truncate(length);
        }
    }
}

/// Writes some sectors of it, some of them torn within.
fn tear_write(to: &mut Vec<u8>, offset: u64, bytes: &[u8], random: &mut Random) {
    let mut at = 0;
    while at < bytes.len() {
        let end = ((offset + at as u64) / SECTOR + 1) * SECTOR - offset;
        let end = (end as usize).min(bytes.len());
        match random.below(5) {
            0 | 1 => {}
            2 if random.chance(4) => {
                let torn = at + random.below(end - at + 1);
                write(to, offset + at as u64, &bytes[at..torn]);
            }
            _ => write(to, offset + at as u64, &bytes[at..end]),
        }
        at = end;
    }
}

#[derive(Clone)]
enum Naming {
    Create(String, usize),
    Rename(String, String),
    Remove(String),
}

fn name(names: &mut BTreeMap<String, usize>, naming: &Naming) {
    match naming {
        Naming::Create(name, file) => _ = names.insert(name.clone(), *file),
        Naming::Rename(from, to) => {
            if let Some(file) = names.remove(from) {
                names.insert(to.clone(), file);
            }
        }
        Naming::Remove(name) => _ = names.remove(name),
    }
}

/// Called before each change of the disk.
type Watch = Arc<dyn Fn(&Sim) + Send + Sync>;

#[derive(Clone)]
struct State {
    files: Vec<Content>,
    names: BTreeMap<String, usize>,
    durable_names: BTreeMap<String, usize>,
    pending_names: Vec<Naming>,
    random: Random,
    /// Changes so far, and at which of them the power goes.
    changes: u64,
    power_until: u64,
    /// One in so many operations fails, in these ways.
    faults: Option<(usize, Vec<Fault>)>,
    failed: u64,
    /// Files whose synchronisation does nothing: a bug planted below the engine.
    lies: BTreeSet<String>,
    watch: Option<Watch>,
    /// Others run while something is synchronised.
    slow: bool,
}

/// The disk; clones are the same one.
#[derive(Clone)]
pub struct Sim(Arc<Mutex<State>>);

impl fmt::Debug for Sim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sim")
    }
}

impl Sim {
    pub fn new(seed: u64) -> Sim {
        Sim(Arc::new(Mutex::new(State {
            files: Vec::new(),
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            pending_names: Vec::new(),
            random: Random::new(seed),
            changes: 0,
            power_until: u64::MAX,
            faults: None,
            failed: 0,
            lies: BTreeSet::new(),
            watch: None,
            slow: false,
        })))
    }

    fn state<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut self.0.lock().unwrap())
    }

    /// Another disk in the same state, without faults.
    pub fn fork(&self, seed: u64) -> Sim {
        let mut state = self.state(|state| state.clone());
        state.random = Random::new(seed);
        (state.power_until, state.faults, state.watch) = (u64::MAX, None, None);
        Sim(Arc::new(Mutex::new(state)))
    }

    pub fn changes(&self) -> u64 {
        self.state(|state| state.changes)
    }

    /// How many operations failed so far.
    pub fn failed(&self) -> u64 {
        self.state(|state| state.failed)
    }

    /// The power goes after so many changes more.
    pub fn cut_power_in(&self, changes: u64) {
        self.state(|state| state.power_until = state.changes + changes);
    }

    pub fn fail_one_in(&self, many: usize, faults: &[Fault]) {
        self.state(|state| state.faults = Some((many, faults.to_vec())));
    }

    /// Whether the power went at an earlier change than the last one.
    fn is_dark(&self) -> bool {
        self.state(|state| state.changes > state.power_until.saturating_add(1))
    }

    /// Nothing fails any more, and the power stays.
    pub fn heal(&self) {
        self.state(|state| (state.faults, state.power_until) = (None, u64::MAX));
    }

    /// Changes the bytes of a file, which no write of the engine did; all of them are on the disk
    /// then.
    pub fn rot<T>(&self, name: &str, work: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        self.state(|state| {
            let file = &mut state.files[state.names[name]];
            let done = work(&mut file.current);
            file.durable.clone_from(&file.current);
            file.pending.clear();
            done
        })
    }

    pub fn lie_about(&self, name: &str) {
        self.state(|state| _ = state.lies.insert(name.into()));
    }

    /// Lets other threads run while it synchronises, so that they gather in groups.
    pub fn be_slow(&self) {
        self.state(|state| state.slow = true);
    }

    pub fn watch(&self, watch: Option<Watch>) {
        self.state(|state| state.watch = watch);
    }

    /// The power goes, and comes back.
    pub fn lose_power(&self, tear: Tear) {
        self.heal();
        self.state(|state| {
            let State { files, random, .. } = state;
            for file in files {
                file.tear(tear, random);
                file.current = file.durable.clone();
            }
            let pending = std::mem::take(&mut state.pending_names);
            let kept = match tear {
                Tear::Lost => 0,
                Tear::Kept => pending.len(),
                Tear::Prefix | Tear::Sectors => state.random.below(pending.len() + 1),
            };
            pending[..kept].iter().for_each(|naming| name(&mut state.durable_names, naming));
            state.names = state.durable_names.clone();
        });
    }

    /// Counts a change; says how it fails.
    fn change(&self, kinds: &[Fault]) -> Result<(), Fault> {
        let watch = self.state(|state| state.watch.clone());
        if let Some(watch) = watch {
            watch(self);
        }
        self.state(|state| {
            state.changes += 1;
            if state.changes > state.power_until {
                return Err(Fault::Write);
            }
            state.draw(kinds)
        })
    }
}

impl State {
    fn draw(&mut self, kinds: &[Fault]) -> Result<(), Fault> {
        let Some((many, faults)) = &self.faults else { return Ok(()) };
        let possible: Vec<Fault> = kinds.iter().copied().filter(|kind| faults.contains(kind)).collect();
        if possible.is_empty() || !self.random.chance(*many) {
            return Ok(());
        }
        self.failed += 1;
        Err(possible[self.random.below(possible.len())])
    }
}

fn error(fault: Fault) -> io::Error {
    match fault {
        Fault::Full => io::Error::from(io::ErrorKind::StorageFull),
        _ => io::Error::other("input/output error"),
    }
}

impl Disk for Sim {
    fn open(&self, name: &str, create: bool) -> io::Result<Option<Arc<dyn DiskFile>>> {
        let known = self.state(|state| state.names.get(name).copied());
        let file = match known {
            Some(file) => file,
            None if !create => return Ok(None),
            None => {
                self.change(&[Fault::Write, Fault::Full]).map_err(error)?;
                self.state(|state| {
                    state.files.push(Content::default());
                    let file = state.files.len() - 1;
                    state.names.insert(name.into(), file);
                    state.pending_names.push(Naming::Create(name.into(), file));
                    file
                })
            }
        };
        Ok(Some(Arc::new(Open { sim: self.clone(), file, name: name.into() })))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.change(&[Fault::Write]).map_err(error)?;
        self.naming(Naming::Rename(from.into(), to.into()));
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.change(&[Fault::Write]).map_err(error)?;
        self.naming(Naming::Remove(name.into()));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.change(&[Fault::Sync]).map_err(error)?;
        self.state(|state| {
            let pending = std::mem::take(&mut state.pending_names);
            pending.iter().for_each(|naming| name(&mut state.durable_names, naming));
        });
        Ok(())
    }
}

impl Sim {
    fn naming(&self, naming: Naming) {
        self.state(|state| {
            name(&mut state.names, &naming);
            state.pending_names.push(naming);
        });
    }
}

#[derive(Debug)]
struct Open {
    sim: Sim,
    file: usize,
    name: String,
}

impl Open {
    fn content<T>(&self, work: impl FnOnce(&mut Content, &mut Random) -> T) -> T {
        self.sim.state(|state| work(&mut state.files[self.file], &mut state.random))
    }
}

impl DiskFile for Open {
    fn len(&self) -> io::Result<u64> {
        Ok(self.content(|content, _| content.current.len() as u64))
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.sim.state(|state| state.draw(&[Fault::Read])).map_err(error)?;
        self.content(|content, _| {
            let start = offset as usize;
            let found = content.current.get(start..start + out.len());
            out.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
            Ok(())
        })
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let grows = offset + bytes.len() as u64 > self.len()?;
        let kinds: &[Fault] = match grows {
            true => &[Fault::Write, Fault::ShortWrite, Fault::Full],
            false => &[Fault::Write, Fault::ShortWrite],
        };
        let result = self.sim.change(kinds);
        let written = match result {
            Ok(()) => bytes.len(),
            // Of the write at which the power goes, or the disk fails, a part may be there.
            Err(_) if self.sim.is_dark() => 0,
            Err(_) => self.content(|_, random| random.below(bytes.len() + 1)),
        };
        if written > 0 {
            self.content(|content, _| content.change(Change::Write(offset, bytes[..written].to_vec())));
        }
        result.map_err(error)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        let grows = bytes > self.len()?;
        self.sim.change(if grows { &[Fault::Write, Fault::Full] } else { &[Fault::Write] }).map_err(error)?;
        self.content(|content, _| content.change(Change::Length(bytes)));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        if self.sim.state(|state| state.slow) {
            (0..5).for_each(|_| std::thread::yield_now());
        }
        match self.sim.change(&[Fault::Sync]) {
            Ok(()) => {
                let lies = self.sim.state(|state| state.lies.contains(&self.name));
                if !lies {
                    self.content(|content, _| content.sync());
                }
                Ok(())
            }
            Err(fault) => {
                // Some is on the disk, and the system has forgotten which: it will not write the rest again, though
                // reading gives it. When the power goes, it is only pending.
                let powered = self.sim.state(|state| state.changes <= state.power_until);
                if powered {
                    self.content(|content, random| content.tear(Tear::Sectors, random));
                }
                Err(error(fault))
            }
        }
    }
}
