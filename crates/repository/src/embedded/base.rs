//! The base of the embedded engine: a redb database in one file.
//!
//! Every installation is one transaction, committed in two phases: clients choose the bytes of objects, and with one
//! phase could make a page look whole that is not. The file is made under another name and renamed when it is whole.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::RwLock;
use redb::{
    Builder, Database, ReadOnlyTable, ReadableDatabase, ReadableTable, StorageBackend, TableDefinition,
    WriteTransaction,
};

use crate::embedded::disk::{Disk, DiskFile};
use crate::embedded::log::Key;
use crate::record::ClassDescriptor;
use crate::store::{Base, Installation, Loaded, Reply, Totals, initial};
use crate::{Error, Oref, Stored, Tid};

/// The version of the base's and the log's form.
const FORMAT: u64 = 1;
/// The name of the file, and of one that is not whole yet.
pub(super) const NAME: &str = "base";
const NEW_NAME: &str = "base.new";

/// Oref to version (8 bytes, little-endian) and record.
const OBJECTS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("objects");
/// Class number to descriptor.
const CLASSES: TableDefinition<'_, u32, &[u8]> = TableDefinition::new("classes");
/// Session to number and commit of its last batch (8 bytes each, little-endian) and the reply.
const REPLIES: TableDefinition<'_, u128, &[u8]> = TableDefinition::new("replies");
const NUMBERS: TableDefinition<'_, &str, u64> = TableDefinition::new("numbers");
const SECRETS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("secrets");

/// Orefs that are at most so far apart are read in one go, if there are enough of them in a row.
const RUN_STEP_MAX: u64 = 4;
const RUN_MIN: usize = 4;

/// The objects as of some installation.
type Objects = Arc<ReadOnlyTable<u64, &'static [u8]>>;

/// A base in a redb database.
pub struct Redb {
    /// What the last installation has left, opened by who reads first: opening it costs as much as reading a few objects.
    objects: RwLock<Option<Objects>>,
    /// Taken only when the base is dropped.
    database: Option<Database>,
}

impl Drop for Redb {
    fn drop(&mut self) {
        *self.objects.get_mut() = None;
        // redb writes when it ends. What it cannot write is not needed, or in the log.
        let database = self.database.take();
        let _ = guarded(|| {
            drop(database);
            Ok(())
        });
    }
}

/// A file as redb wants it.
#[derive(Debug)]
struct Backend(Arc<dyn DiskFile>);

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read_at(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write_at(offset, data)
    }
}

impl Redb {
    /// Whether there is a base.
    pub fn exists(disk: &dyn Disk) -> io::Result<bool> {
        Ok(disk.open(NAME, false)?.is_some())
    }

    /// Makes the base of a new store. Whatever else the store needs must be there already: with the base it exists.
    pub fn create(disk: &dyn Disk, key: &Key) -> Result<(), Error> {
        let io = |source| Error::Io { what: "making a store", source };
        disk.remove(NEW_NAME).map_err(io)?;
        let file =
            disk.open(NEW_NAME, true).map_err(io)?.ok_or_else(|| io(io::ErrorKind::NotFound.into()))?;
        let database = guarded(|| Ok(Builder::new().create_with_backend(Backend(file.clone()))?))?;
        let (loaded, root) = initial();
        guarded(|| {
            let write = begin(&database)?;
            write.open_table(OBJECTS)?.insert(Oref::ROOT.get(), &object(&root)[..])?;
            write.open_table(REPLIES)?;
            write.open_table(SECRETS)?.insert("log", &key[..])?;
            let mut classes = write.open_table(CLASSES)?;
            for (number, class) in (1..).zip(&loaded.classes) {
                classes.insert(number, &descriptor(class)[..])?;
            }
            drop(classes);
            let mut numbers = write.open_table(NUMBERS)?;
            for (name, number) in [
                ("format", FORMAT),
                ("head", loaded.head.0),
                ("sequence", loaded.sequence),
                ("generation", loaded.generation),
                ("reserved", loaded.reserved),
                ("objects", loaded.totals.objects),
                ("bytes", loaded.totals.bytes),
            ] {
                numbers.insert(name, number)?;
            }
            drop(numbers);
            Ok(write.commit()?)
        })?;
        guarded(|| {
            drop(database);
            Ok(())
        })?;
        file.sync().map_err(io)?;
        disk.sync().map_err(io)?;
        disk.rename(NEW_NAME, NAME).map_err(io)?;
        disk.sync().map_err(io)
    }

    /// Opens the base, which must be there, with that many bytes of cache.
    pub fn open(disk: &dyn Disk, cache_bytes: usize) -> Result<Redb, Error> {
        let io = |source| Error::Io { what: "opening the base", source };
        let missing = || Error::Damaged { what: format!("the file {NAME} is missing") };
        let file = disk.open(NAME, false).map_err(io)?.ok_or_else(missing)?;
        // Of an empty file redb would make a new database.
        if file.is_empty().map_err(io)? {
            return Err(Error::Damaged { what: format!("the file {NAME} is empty") });
        }
        let mut builder = Builder::new();
        builder.set_cache_size(cache_bytes);
        let database = guarded(|| Ok(builder.create_with_backend(Backend(file))?))?;
        let format = guarded(|| {
            let numbers = database.begin_read()?.open_table(NUMBERS)?;
            Ok(numbers.get("format")?.map_or(0, |format| format.value()))
        })?;
        if format != FORMAT {
            return Err(Error::Format { found: format, known: FORMAT });
        }
        Ok(Redb { objects: RwLock::default(), database: Some(database) })
    }

    /// The objects as of the last installation, or of one that ends meanwhile.
    fn objects(&self) -> Result<Objects, redb::Error> {
        if let Some(objects) = &*self.objects.read() {
            return Ok(objects.clone());
        }
        // Opened under the lock: what is kept is not older than the last installation that has taken it.
        let mut kept = self.objects.write();
        if let Some(objects) = &*kept {
            return Ok(objects.clone());
        }
        let objects = Arc::new(self.database().begin_read()?.open_table(OBJECTS)?);
        Ok(kept.insert(objects).clone())
    }

    fn database(&self) -> &Database {
        self.database.as_ref().expect("it is taken only when the base is dropped")
    }

    /// The key of the log's macs.
    pub fn key(&self) -> Result<Key, Error> {
        let key = guarded(|| {
            let secrets = self.database().begin_read()?.open_table(SECRETS)?;
            Ok(secrets.get("log")?.and_then(|key| Key::try_from(key.value()).ok()))
        })?;
        key.ok_or_else(|| Error::Damaged { what: "the key of the log is missing".into() })
    }
}

impl Base for Redb {
    fn load(&self) -> Result<Loaded, Error> {
        let (mut loaded, classes) = guarded(|| {
            let read = self.database().begin_read()?;
            let numbers = read.open_table(NUMBERS)?;
            let number =
                |name| -> Result<u64, redb::Error> { Ok(numbers.get(name)?.map_or(0, |n| n.value())) };
            let mut loaded = Loaded {
                head: Tid(number("head")?),
                sequence: number("sequence")?,
                generation: number("generation")?,
                reserved: number("reserved")?,
                totals: Totals { objects: number("objects")?, bytes: number("bytes")? },
                ..Loaded::default()
            };
            let mut classes = Vec::new();
            for entry in read.open_table(CLASSES)?.iter()? {
                let (number, class) = entry?;
                classes.push((number.value(), class.value().to_vec()));
            }
            for entry in read.open_table(REPLIES)?.iter()? {
                let (session, reply) = entry?;
                if let Some(reply) = parse_reply(reply.value()) {
                    loaded.replies.push((session.value(), reply));
                }
            }
            Ok((loaded, classes))
        })?;
        for (expected, (number, class)) in (1..).zip(classes) {
            let class = ClassDescriptor::decode(&class).ok().filter(|_| number == expected);
            let damaged = || Error::Damaged { what: format!("class {expected} cannot be read") };
            loaded.classes.push(Arc::new(class.ok_or_else(damaged)?));
        }
        if loaded.head == Tid::NONE || loaded.reserved <= Oref::ROOT.get() || loaded.classes.is_empty() {
            return Err(Error::Damaged { what: "the numbers of the base are missing".into() });
        }
        Ok(loaded)
    }

    fn read(&self, orefs: &[Oref]) -> Result<Vec<Option<Stored>>, Error> {
        let mut order: Vec<usize> = (0..orefs.len()).collect();
        order.sort_unstable_by_key(|at| orefs[*at]);
        let mut found: Vec<Option<Option<Stored>>> = vec![None; orefs.len()];
        guarded(|| {
            let objects = self.objects()?;
            // What is asked for together was mostly made together, and is in a row.
            for run in order.chunk_by(|a, b| orefs[*b].get() - orefs[*a].get() <= RUN_STEP_MAX) {
                let (first, last) = match run {
                    [first, .., last] if run.len() >= RUN_MIN => (first, last),
                    few => {
                        read_each(&objects, few, orefs, &mut found)?;
                        continue;
                    }
                };
                let mut left = run.iter().peekable();
                for entry in objects.range(orefs[*first].get()..=orefs[*last].get())? {
                    let (oref, state) = entry?;
                    let oref = oref.value();
                    while left.next_if(|at| orefs[**at].get() < oref).is_some() {}
                    while let Some(at) = left.next_if(|at| orefs[**at].get() == oref) {
                        found[*at] = Some(parse_object(state.value()));
                    }
                }
            }
            Ok(())
        })?;
        let states = orefs.iter().zip(found);
        states.map(|(oref, state)| state.map(|state| whole(*oref, state)).transpose()).collect()
    }

    fn scan(&self, from: Oref, limit: usize) -> Result<Vec<(Oref, Stored)>, Error> {
        let found = guarded(|| {
            let objects = self.objects()?;
            let mut found = Vec::new();
            for entry in objects.range(from.get()..)?.take(limit) {
                let (oref, state) = entry?;
                found.push((oref.value(), parse_object(state.value())));
            }
            Ok(found)
        })?;
        let known = found.into_iter().map(|(number, state)| {
            let damaged = || Error::Damaged { what: format!("{number} is no oref") };
            let oref = Oref::new(number).ok_or_else(damaged)?;
            Ok((oref, whole(oref, state)?))
        });
        known.collect()
    }

    fn install(&self, installation: &Installation<'_>) -> Result<Totals, Error> {
        guarded(|| {
            let write = begin(self.database())?;
            let totals = install_states(&write, installation)?;
            let mut classes = write.open_table(CLASSES)?;
            for (number, class) in installation.classes {
                classes.insert(number.0, &descriptor(class)[..])?;
            }
            drop(classes);
            let mut replies = write.open_table(REPLIES)?;
            for (session, reply) in installation.replies {
                match reply {
                    Some(reply) => replies.insert(session, &reply_bytes(reply)[..])?,
                    None => replies.remove(session)?,
                };
            }
            drop(replies);
            let mut numbers = write.open_table(NUMBERS)?;
            for (name, number) in [
                ("head", installation.head.0),
                ("sequence", installation.sequence),
                ("generation", installation.generation),
                ("reserved", installation.reserved),
                ("objects", totals.objects),
                ("bytes", totals.bytes),
            ] {
                numbers.insert(name, number)?;
            }
            drop(numbers);
            write.commit()?;
            *self.objects.write() = None;
            Ok(totals)
        })
    }
}

/// Reads some of the objects asked for, each by itself.
fn read_each(
    objects: &Objects,
    which: &[usize],
    orefs: &[Oref],
    found: &mut [Option<Option<Stored>>],
) -> Result<(), redb::Error> {
    for at in which {
        found[*at] = objects.get(orefs[*at].get())?.map(|state| parse_object(state.value()));
    }
    Ok(())
}

fn install_states(write: &WriteTransaction, installation: &Installation<'_>) -> Result<Totals, redb::Error> {
    let mut objects = write.open_table(OBJECTS)?;
    let mut totals = installation.totals;
    for (oref, state) in installation.states {
        let old = match state {
            Some(stored) => objects.insert(oref.get(), &object(stored)[..])?,
            None => objects.remove(oref.get())?,
        };
        let old = old.map(|old| old.value().len().saturating_sub(8));
        totals.replace(old, state.as_ref().map(|new| new.bytes.len()));
    }
    Ok(totals)
}

fn begin(database: &Database) -> Result<WriteTransaction, redb::Error> {
    let mut write = database.begin_write()?;
    write.set_two_phase_commit(true);
    // After a crash the file is then opened without reading all of it.
    write.set_quick_repair(true);
    Ok(write)
}

/// Runs something of redb, which may panic when its file is not what it wrote.
fn guarded<T>(work: impl FnOnce() -> Result<T, redb::Error>) -> Result<T, Error> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(redb::Error::Io(source))) => Err(Error::Io { what: "the base", source }),
        Ok(Err(redb::Error::Corrupted(what))) => Err(Error::Damaged { what }),
        Ok(Err(other)) => Err(Error::Io { what: "the base", source: io::Error::other(other.to_string()) }),
        Err(_) => Err(Error::Damaged { what: "the base is not what was written".into() }),
    }
}

fn object(stored: &Stored) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(8 + stored.bytes.len());
    bytes.extend_from_slice(&stored.tid.0.to_le_bytes());
    bytes.extend_from_slice(&stored.bytes);
    bytes
}

fn parse_object(bytes: &[u8]) -> Option<Stored> {
    let (tid, record) = bytes.split_first_chunk()?;
    Some(Stored { tid: Tid(u64::from_le_bytes(*tid)), bytes: Bytes::copy_from_slice(record) })
}

fn whole(oref: Oref, state: Option<Stored>) -> Result<Stored, Error> {
    state.ok_or_else(|| Error::Damaged { what: format!("object {oref} has no version") })
}

fn descriptor(class: &ClassDescriptor) -> Vec<u8> {
    let mut bytes = Vec::new();
    class.encode(&mut bytes);
    bytes
}

fn reply_bytes(reply: &Reply) -> Vec<u8> {
    let numbers = [reply.number.to_le_bytes(), reply.tid.0.to_le_bytes()].concat();
    [&numbers, &reply.bytes[..]].concat()
}

fn parse_reply(bytes: &[u8]) -> Option<Reply> {
    let (number, rest) = bytes.split_first_chunk()?;
    let (tid, reply) = rest.split_first_chunk()?;
    let (number, tid) = (u64::from_le_bytes(*number), Tid(u64::from_le_bytes(*tid)));
    Some(Reply { number, tid, bytes: Bytes::copy_from_slice(reply) })
}
