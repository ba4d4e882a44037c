//! The base of the embedded engine: a redb database in one file.
//!
//! Read [`Redb`] first, which is the [`Base`] of the store; the order of commits is in
//! [`crate::store`], and their log in `log.rs`. Every installation is one transaction, committed in
//! two phases. Clients choose the bytes of objects, and with one phase could make a page look whole
//! that is not. The file is made under another name and renamed when it is whole.
//!
//! redb does not look at the checksums of its pages when it reads them. So every value has a
//! [seal](super::seal), which is checked when it is read. Beside the objects there is a [set of
//! their orefs with a tag of each one's state](super::present). An object that is in the set and
//! not found is lost, and is never told as one that is not there. One with another state than its
//! tag says is lost too.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use redb::{
    Builder, Database, ReadOnlyTable, ReadTransaction, ReadableDatabase, ReadableTable, TableDefinition,
    TableError, WriteTransaction,
};

use crate::embedded::backend::{Backend, Overlay};
use crate::embedded::disk::{Disk, DiskFile};
use crate::embedded::guard::guarded;
use crate::embedded::log::Key;
use crate::embedded::present::{self, Page, Present, Tag, tag_of};
use crate::embedded::seal::{SEAL, Seals, Table, seal_of};
use crate::embedded::snapshot::RedbSnapshot;
use crate::record::ClassDescriptor;
use crate::store::{Base, BaseSnapshot, Installation, Loaded, Reply, Scanned, Totals, initial};
use crate::{Error, Oref, Stored, Tid};

/// The version of the base's and the log's form.
const FORMAT: u64 = 3;
/// The name of the file, and of one that is not whole yet.
pub(super) const NAME: &str = "base";
pub(super) const NEW_NAME: &str = "base.new";

/// Oref to seal, version (8 bytes, little-endian) and record.
const OBJECTS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("objects");
/// Number of a page of the set of orefs with an object to seal and tags.
const PRESENT: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("present");
/// Class number to seal and descriptor.
const CLASSES: TableDefinition<'_, u32, &[u8]> = TableDefinition::new("classes");
/// Session to seal, number and commit of its last batch (8 bytes each, little-endian) and the
/// reply.
const REPLIES: TableDefinition<'_, u128, &[u8]> = TableDefinition::new("replies");
/// The format alone, where programs of all versions find it.
const NUMBERS: TableDefinition<'_, &str, u64> = TableDefinition::new("numbers");
/// The key, twice, and the sealed numbers.
const SECRETS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("secrets");
const KEYS: [&str; 2] = ["log", "log again"];
const SEALED: &str = "numbers";

/// Orefs that are at most so far apart are read in one go, if there are enough of them in a row.
const RUN_STEP_MAX: u64 = 4;
const RUN_MIN: usize = 4;

/// The objects as of some installation.
type Objects = Arc<ReadOnlyTable<u64, &'static [u8]>>;

/// The bytes before the record of an object.
const BEFORE_RECORD: usize = SEAL + 8;

/// A base in a redb database.
pub struct Redb {
    file: Arc<dyn DiskFile>,
    key: Key,
    seals: Seals,
    /// The tables that the last installation has left, opened by the first reader: opening them
    /// costs as much as reading a few objects.
    objects: RwLock<Option<Objects>>,
    /// The orefs that have an object.
    present: RwLock<Present>,
    /// The digest of the rows that are read when the base is opened. Locked while something is
    /// installed.
    digest: Mutex<u64>,
    /// The summary read at opening, for its first reader.
    loaded: Mutex<Option<Loaded>>,
    /// Taken only when the base is dropped.
    database: Option<Database>,
}

impl Drop for Redb {
    fn drop(&mut self) {
        *self.objects.get_mut() = None;
        // redb writes when it ends. Data that it cannot write are not needed, or in the log.
        let database = self.database.take();
        let _ = guarded(|| {
            drop(database);
            Ok(())
        });
    }
}

/// The numbers of a base, sealed together.
#[derive(Clone, Copy, Debug, Default)]
struct Numbers {
    format: u64,
    head: u64,
    sequence: u64,
    generation: u64,
    reserved: u64,
    bytes: u64,
    /// All seals of classes, replies and pages of the set, combined by exclusive or: none is
    /// missing, and none is old.
    digest: u64,
}

impl Numbers {
    fn seal(&self, seals: &Seals) -> Vec<u8> {
        let Numbers { format, head, sequence, generation, reserved, bytes, digest } = *self;
        let all =
            [format, head, sequence, generation, reserved, bytes, digest].map(u64::to_le_bytes).concat();
        seals.seal(Table::Numbers, 0, &[&all])
    }

    fn open(seals: &Seals, sealed: &[u8]) -> Option<Numbers> {
        let all = seals.open(Table::Numbers, 0, sealed)?;
        let mut words =
            all.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")));
        let mut next = || words.next();
        let numbers = Numbers {
            format: next()?,
            head: next()?,
            sequence: next()?,
            generation: next()?,
            reserved: next()?,
            bytes: next()?,
            digest: next()?,
        };
        words.next().is_none().then_some(numbers)
    }
}

fn damaged(what: impl Into<String>) -> Error {
    Error::Damaged { what: what.into() }
}

impl Redb {
    /// True if there is a base.
    pub fn exists(disk: &dyn Disk) -> io::Result<bool> {
        Ok(disk.open(NAME, false)?.is_some())
    }

    /// Makes the base of a new store. All other files of the store must be there already: with the
    /// base it exists.
    pub fn create(disk: &dyn Disk, key: &Key) -> Result<(), Error> {
        let io = |source| Error::Io { what: "making a store", source };
        disk.remove(NEW_NAME).map_err(io)?;
        let file =
            disk.open(NEW_NAME, true).map_err(io)?.ok_or_else(|| io(io::ErrorKind::NotFound.into()))?;
        let database = guarded(|| Ok(Builder::new().create_with_backend(Backend(file.clone()))?))?;
        let seals = Seals::new(key);
        let (loaded, root) = initial();
        let mut digest = 0;
        guarded(|| {
            let write = begin(&database)?;
            let root = object(&seals, Oref::ROOT, &root);
            write.open_table(OBJECTS)?.insert(Oref::ROOT.get(), &root[..])?;
            write.open_table(REPLIES)?;
            let (number, at) = present::place(Oref::ROOT);
            let mut page = Present::default().page(number);
            page[at] = Some(tag_of(seal_of(&root)));
            write_page(&mut write.open_table(PRESENT)?, &seals, number, &page, &mut digest)?;
            let mut classes = write.open_table(CLASSES)?;
            for (number, class) in (1..).zip(&loaded.classes) {
                let row = class_row(&seals, number, class);
                classes.insert(number, &row[..])?;
                digest ^= seal_of(&row);
            }
            drop(classes);
            write.open_table(NUMBERS)?.insert("format", FORMAT)?;
            let numbers = Numbers {
                format: FORMAT,
                head: loaded.head.0,
                sequence: loaded.sequence,
                generation: loaded.generation,
                reserved: loaded.reserved,
                bytes: loaded.totals.bytes,
                digest,
            };
            let mut secrets = write.open_table(SECRETS)?;
            for name in KEYS {
                secrets.insert(name, &key[..])?;
            }
            secrets.insert(SEALED, &numbers.seal(&seals)[..])?;
            drop(secrets);
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
        let missing = || damaged(format!("the file {NAME} is missing"));
        let file = disk.open(NAME, false).map_err(io)?.ok_or_else(missing)?;
        // Of an empty file redb would make a new database.
        if file.is_empty().map_err(io)? {
            return Err(damaged(format!("the file {NAME} is empty")));
        }
        let mut builder = Builder::new();
        builder.set_cache_size(cache_bytes);
        let database = guarded(|| Ok(builder.create_with_backend(Backend(file.clone()))?))?;
        let key = find_key(&database)?;
        let base = Redb {
            file,
            seals: Seals::new(&key),
            key,
            objects: RwLock::default(),
            present: RwLock::default(),
            digest: Mutex::default(),
            loaded: Mutex::default(),
            database: Some(database),
        };
        let (loaded, present, digest) = base.load_all()?;
        *base.loaded.lock() = Some(loaded);
        *base.present.write() = present;
        *base.digest.lock() = digest;
        Ok(base)
    }

    /// Returns the objects as of the last installation, or of one that ends meanwhile.
    fn objects(&self) -> Result<Objects, redb::Error> {
        if let Some(objects) = &*self.objects.read() {
            return Ok(objects.clone());
        }
        // Opened under the lock: the kept table is not older than the last installation that has
        // taken it.
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

    /// Returns the key of the log's macs.
    pub fn key(&self) -> Key {
        self.key
    }

    /// Returns the seals of the store's files.
    pub fn seals(&self) -> &Seals {
        &self.seals
    }

    /// Reads all but the objects, the set of their orefs, and the digest of the rows read. Nothing
    /// of it is missing, old or changed.
    fn load_all(&self) -> Result<(Loaded, Present, u64), Error> {
        let (numbers, classes, replies, pages) = guarded(|| {
            let read = self.database().begin_read()?;
            let numbers = row(&read, SEALED)?.and_then(|sealed| Numbers::open(&self.seals, &sealed));
            let mut classes = Vec::new();
            for entry in read.open_table(CLASSES)?.iter()? {
                let (number, class) = entry?;
                classes.push((number.value(), class.value().to_vec()));
            }
            let mut replies = Vec::new();
            for entry in read.open_table(REPLIES)?.iter()? {
                let (session, reply) = entry?;
                replies.push((session.value(), reply.value().to_vec()));
            }
            let mut pages = Vec::new();
            for entry in read.open_table(PRESENT)?.iter()? {
                let (number, page) = entry?;
                pages.push((number.value(), page.value().to_vec()));
            }
            Ok((numbers, classes, replies, pages))
        })?;
        let numbers = numbers.ok_or_else(|| damaged("the numbers of the base are corrupted"))?;
        let mut loaded = Loaded {
            head: Tid(numbers.head),
            sequence: numbers.sequence,
            generation: numbers.generation,
            reserved: numbers.reserved,
            ..Loaded::default()
        };
        let mut digest = 0;
        for (expected, (number, row)) in (1..).zip(classes) {
            let descriptor = self.seals.open(Table::Classes, u128::from(number), &row);
            let class = descriptor.and_then(|bytes| ClassDescriptor::decode(bytes).ok());
            let class = class.filter(|_| number == expected);
            let class = class.ok_or_else(|| damaged(format!("class {expected} is corrupted")))?;
            loaded.classes.push(Arc::new(class));
            digest ^= seal_of(&row);
        }
        for (session, row) in replies {
            let reply = self.seals.open(Table::Replies, session, &row).and_then(parse_reply);
            let reply = reply.ok_or_else(|| damaged("the reply of a session is corrupted"))?;
            loaded.replies.push((session, reply));
            digest ^= seal_of(&row);
        }
        let mut present = Present::default();
        for (number, row) in pages {
            let page = self.seals.open(Table::Present, u128::from(number), &row).and_then(present::decode);
            let wrong = || damaged("the list of all objects is corrupted");
            present.put_page(number, page.ok_or_else(wrong)?);
            digest ^= seal_of(&row);
        }
        if digest != numbers.digest {
            return Err(damaged("classes, replies or parts of the list of all objects are missing or old"));
        }
        loaded.totals = Totals { objects: present.len(), bytes: numbers.bytes };
        Ok((loaded, present, digest))
    }

    /// Reads some objects, as many at once as are in a row.
    fn find_all(&self, orefs: &[Oref]) -> Result<Vec<Found>, redb::Error> {
        let mut order: Vec<usize> = (0..orefs.len()).collect();
        order.sort_unstable_by_key(|at| orefs[*at]);
        let mut found = vec![Found::Nothing; orefs.len()];
        let objects = self.objects()?;
        // Objects that are asked for together were mostly made together, and are in a row.
        for run in order.chunk_by(|a, b| orefs[*b].get() - orefs[*a].get() <= RUN_STEP_MAX) {
            let (first, last) = match run {
                [first, .., last] if run.len() >= RUN_MIN => (first, last),
                few => {
                    for at in few {
                        if let Some(state) = objects.get(orefs[*at].get())? {
                            found[*at] = self.parse(orefs[*at], state.value());
                        }
                    }
                    continue;
                }
            };
            let mut left = run.iter().peekable();
            for entry in objects.range(orefs[*first].get()..=orefs[*last].get())? {
                let (oref, state) = entry?;
                let oref = oref.value();
                while left.next_if(|at| orefs[**at].get() < oref).is_some() {}
                while let Some(at) = left.next_if(|at| orefs[**at].get() == oref) {
                    found[*at] = self.parse(orefs[*at], state.value());
                }
            }
        }
        Ok(found)
    }

    fn parse(&self, oref: Oref, sealed: &[u8]) -> Found {
        parse(&self.seals, oref, sealed)
    }

    /// Returns the states of some objects, if all of them agree with the set.
    fn find_sound(&self, orefs: &[Oref]) -> Result<Option<Vec<Option<Stored>>>, Error> {
        let found = match guarded(|| self.find_all(orefs)) {
            Ok(found) => found,
            // A part of the base that cannot be read is perhaps not that of all of them.
            Err(Error::Damaged { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let present = self.present.read();
        let states = orefs.iter().zip(found).map(|(oref, found)| match (found, present.tag(*oref)) {
            (Found::State(tag, stored), Some(there)) if tag == there => Some(Some(stored)),
            (Found::Nothing, None) => Some(None),
            _ => None,
        });
        Ok(states.collect())
    }

    /// Returns the state of an object, or the reason why it is lost. Nothing is installed
    /// meanwhile.
    fn find_alone(&self, oref: Oref) -> Result<Option<Stored>, Error> {
        let found = guarded(|| {
            let objects = self.database().begin_read()?.open_table(OBJECTS)?;
            Ok(objects.get(oref.get())?.map_or(Found::Nothing, |state| self.parse(oref, state.value())))
        });
        let tag = self.present.read().tag(oref);
        let what = match found {
            // A rest of it is that of a freed object.
            Ok(_) | Err(Error::Damaged { .. }) if tag.is_none() => return Ok(None),
            Ok(Found::State(found, stored)) if Some(found) == tag => return Ok(Some(stored)),
            Ok(Found::State(..)) => "its state is old",
            Ok(Found::Wrong) => "its state is corrupted",
            Ok(Found::Nothing) => "its state is missing",
            Err(Error::Damaged { .. }) => "the base cannot be read where its state is",
            Err(error) => return Err(error),
        };
        Err(Error::Object { oref, what })
    }

    /// Returns the states of some objects, all from one moment, or the reasons why they are lost.
    fn states(&self, orefs: &[Oref]) -> Result<Vec<Result<Option<Stored>, Error>>, Error> {
        if let Some(states) = self.find_sound(orefs)? {
            return Ok(states.into_iter().map(Ok).collect());
        }
        // Something is damaged, or was installed between the reads of objects and set. Nothing is
        // installed from here on.
        let _alone = self.digest.lock();
        if let Some(states) = self.find_sound(orefs)? {
            return Ok(states.into_iter().map(Ok).collect());
        }
        Ok(orefs.iter().map(|oref| self.find_alone(*oref)).collect())
    }

    /// Writes the states, and returns the bytes of all records and the pages of the set that have
    /// changed.
    fn install_states(
        &self,
        write: &WriteTransaction,
        installation: &Installation<'_>,
    ) -> Result<(u64, BTreeMap<u64, Page>), redb::Error> {
        let present = self.present.read();
        let mut pages = BTreeMap::new();
        let mut objects = write.open_table(OBJECTS)?;
        let mut totals = installation.totals;
        for (oref, state) in installation.states {
            let (number, at) = present::place(*oref);
            let tag = &mut pages.entry(number).or_insert_with(|| present.page(number))[at];
            let old = match state {
                Some(stored) => {
                    let row = object(&self.seals, *oref, stored);
                    *tag = Some(tag_of(seal_of(&row)));
                    objects.insert(oref.get(), &row[..])?
                }
                None => {
                    *tag = None;
                    objects.remove(oref.get())?
                }
            };
            let old = old.map(|old| old.value().len().saturating_sub(BEFORE_RECORD));
            totals.replace(old, state.as_ref().map(|new| new.bytes.len()));
        }
        Ok((totals.bytes, pages))
    }

    /// Reads all pages of the database and compares them with the checksums in those that refer to
    /// them, on a copy that is not written.
    fn examine_pages(&self) -> Result<(), Error> {
        let io = |source| Error::Io { what: "reading the base", source };
        let overlay = Overlay::new(self.file.clone()).map_err(io)?;
        guarded(|| {
            let mut builder = Builder::new();
            builder.set_cache_size(CHECK_CACHE_BYTES).set_check_integrity_on_open(true);
            drop(builder.create_with_backend(overlay)?);
            Ok(())
        })
    }
}

/// Bytes of the cache of an examination.
const CHECK_CACHE_BYTES: usize = 16 << 20;

/// The base's record of an object.
#[derive(Clone, Debug)]
pub(super) enum Found {
    State(Tag, Stored),
    /// No row.
    Nothing,
    /// A row with a wrong seal, or a base that cannot be read.
    Wrong,
}

/// Returns the base's record of an object, from the bytes of its row.
pub(super) fn parse(seals: &Seals, oref: Oref, sealed: &[u8]) -> Found {
    let value = seals.open(Table::Objects, u128::from(oref.get()), sealed);
    match value.and_then(|value| value.split_first_chunk()) {
        Some((tid, record)) => {
            let tid = Tid(u64::from_le_bytes(*tid));
            let stored = Stored { tid, bytes: Bytes::copy_from_slice(record) };
            Found::State(tag_of(seal_of(sealed)), stored)
        }
        None => Found::Wrong,
    }
}

/// Returns the key of a store, of which there are two copies: the one with which the seal of its
/// numbers is right.
fn find_key(database: &Database) -> Result<Key, Error> {
    let (format, keys, sealed) = guarded(|| {
        let read = database.begin_read()?;
        let format = match read.open_table(NUMBERS) {
            Ok(numbers) => numbers.get("format")?.map_or(0, |format| format.value()),
            Err(TableError::TableDoesNotExist(_)) => 0,
            Err(error) => return Err(error.into()),
        };
        let mut keys = Vec::new();
        for name in KEYS {
            keys.extend(row(&read, name)?.and_then(|key| Key::try_from(&key[..]).ok()));
        }
        Ok((format, keys, row(&read, SEALED)?))
    })?;
    let numbers = |key: &Key| Numbers::open(&Seals::new(key), sealed.as_deref()?);
    let key = keys.into_iter().find(|key| numbers(key).is_some_and(|numbers| numbers.format == FORMAT));
    match key {
        Some(key) if format == FORMAT => Ok(key),
        Some(_) => Err(damaged("the number of the format is corrupted")),
        None if format == FORMAT => {
            Err(damaged("the numbers of the base, or the keys of the log, are corrupted"))
        }
        None => Err(Error::Format { found: format, known: FORMAT }),
    }
}

/// Returns a row of the secrets.
fn row(read: &ReadTransaction, name: &str) -> Result<Option<Vec<u8>>, redb::Error> {
    match read.open_table(SECRETS) {
        Ok(secrets) => Ok(secrets.get(name)?.map(|row| row.value().to_vec())),
        Err(TableError::TableDoesNotExist(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

impl Base for Redb {
    fn load(&self) -> Result<Loaded, Error> {
        let first = self.loaded.lock().take();
        let loaded = match first {
            Some(loaded) => loaded,
            None => self.load_all()?.0,
        };
        if loaded.head == Tid::NONE || loaded.reserved <= Oref::ROOT.get() || loaded.classes.is_empty() {
            return Err(damaged("the numbers of the base are missing"));
        }
        Ok(loaded)
    }

    fn read(&self, orefs: &[Oref]) -> Result<Vec<Option<Stored>>, Error> {
        self.states(orefs)?.into_iter().collect()
    }

    fn scan(&self, from: Oref, limit: usize) -> Result<Scanned, Error> {
        let mut scanned = Scanned::new();
        let mut from = Some(from);
        while let Some(first) = from.filter(|_| scanned.len() < limit) {
            let orefs = self.present.read().from(first, limit - scanned.len());
            let states = self.states(&orefs)?;
            from = orefs.last().and_then(|last| Oref::new(last.get() + 1));
            // An object may be freed meanwhile.
            let found = orefs.into_iter().zip(states);
            scanned.extend(found.filter_map(|(oref, state)| Some((oref, state.transpose()?))));
        }
        Ok(scanned)
    }

    fn snapshot(&self) -> Result<Box<dyn BaseSnapshot>, Error> {
        let _alone = self.digest.lock();
        let count = self.present.read().len();
        let (objects, present) = guarded(|| {
            let read = self.database().begin_read()?;
            Ok((read.open_table(OBJECTS)?, read.open_table(PRESENT)?))
        })?;
        Ok(Box::new(RedbSnapshot { objects, present, seals: Seals::new(&self.key), page: 0, left: count }))
    }

    fn install(&self, installation: &Installation<'_>) -> Result<Totals, Error> {
        let mut digest = self.digest.lock();
        let (bytes, new_digest, pages) = guarded(|| {
            let write = begin(self.database())?;
            let mut digest = *digest;
            let (bytes, pages) = self.install_states(&write, installation)?;
            let mut present = write.open_table(PRESENT)?;
            for (number, page) in &pages {
                write_page(&mut present, &self.seals, *number, page, &mut digest)?;
            }
            drop(present);
            let mut classes = write.open_table(CLASSES)?;
            for (number, class) in installation.classes {
                let row = class_row(&self.seals, number.0, class);
                digest ^= seal_of(&row);
                digest ^= classes.insert(number.0, &row[..])?.map_or(0, |old| seal_of(old.value()));
            }
            drop(classes);
            let mut replies = write.open_table(REPLIES)?;
            for (session, reply) in installation.replies {
                let old = match reply {
                    Some(reply) => {
                        let row = reply_row(&self.seals, *session, reply);
                        digest ^= seal_of(&row);
                        replies.insert(session, &row[..])?
                    }
                    None => replies.remove(session)?,
                };
                digest ^= old.map_or(0, |old| seal_of(old.value()));
            }
            drop(replies);
            let numbers = Numbers {
                format: FORMAT,
                head: installation.head.0,
                sequence: installation.sequence,
                generation: installation.generation,
                reserved: installation.reserved,
                bytes,
                digest,
            };
            write.open_table(SECRETS)?.insert(SEALED, &numbers.seal(&self.seals)[..])?;
            write.commit()?;
            Ok((bytes, digest, pages))
        })?;
        *self.objects.write() = None;
        let mut present = self.present.write();
        pages.into_iter().for_each(|(number, page)| present.put_page(number, page));
        *digest = new_digest;
        Ok(Totals { objects: present.len(), bytes })
    }

    fn examine(&self) -> Result<Vec<String>, Error> {
        // Nothing is written meanwhile.
        let _alone = self.digest.lock();
        let mut wrong = Vec::new();
        for examined in [self.load_all().map(|_| ()), self.examine_pages()] {
            match examined {
                Ok(()) => {}
                Err(Error::Damaged { what }) => wrong.push(what),
                Err(error) => return Err(error),
            }
        }
        Ok(wrong)
    }
}

/// Writes a page of the set, or takes it away if it is empty, and changes the digest accordingly.
fn write_page(
    present: &mut redb::Table<'_, u64, &'static [u8]>,
    seals: &Seals,
    number: u64,
    page: &Page,
    digest: &mut u64,
) -> Result<(), redb::Error> {
    let old = match present::encode(page) {
        Some(bytes) => {
            let row = seals.seal(Table::Present, u128::from(number), &[&bytes]);
            *digest ^= seal_of(&row);
            present.insert(number, &row[..])?
        }
        None => present.remove(number)?,
    };
    *digest ^= old.map_or(0, |old| seal_of(old.value()));
    Ok(())
}

fn begin(database: &Database) -> Result<WriteTransaction, redb::Error> {
    let mut write = database.begin_write()?;
    write.set_two_phase_commit(true);
    // After a crash the file is then opened without reading all of it.
    write.set_quick_repair(true);
    Ok(write)
}

fn object(seals: &Seals, oref: Oref, stored: &Stored) -> Vec<u8> {
    let tid = stored.tid.0.to_le_bytes();
    seals.seal(Table::Objects, u128::from(oref.get()), &[&tid, &stored.bytes])
}

fn class_row(seals: &Seals, number: u32, class: &ClassDescriptor) -> Vec<u8> {
    let mut bytes = Vec::new();
    class.encode(&mut bytes);
    seals.seal(Table::Classes, u128::from(number), &[&bytes])
}

fn reply_row(seals: &Seals, session: u128, reply: &Reply) -> Vec<u8> {
    let (number, tid) = (reply.number.to_le_bytes(), reply.tid.0.to_le_bytes());
    seals.seal(Table::Replies, session, &[&number, &tid, &reply.bytes])
}

fn parse_reply(bytes: &[u8]) -> Option<Reply> {
    let (number, rest) = bytes.split_first_chunk()?;
    let (tid, reply) = rest.split_first_chunk()?;
    let (number, tid) = (u64::from_le_bytes(*number), Tid(u64::from_le_bytes(*tid)));
    Some(Reply { number, tid, bytes: Bytes::copy_from_slice(reply) })
}
