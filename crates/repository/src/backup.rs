//! A backup as bytes: all of a store at one commit (docs/spec/repository-format.md, section 11).
//!
//! [`write()`] makes the bytes of a [`Snapshot`], [`read`] makes a new store of them. A backup is a
//! sequence of frames, of which the first says how much follows, and the last says how much there
//! was: bytes that are cut off are never taken for a whole backup.

use std::io::{self, Read, Write};
use std::sync::Arc;

use bytes::Bytes;

use crate::embedded::Restore;
use crate::record::{ClassDescriptor, Reader, RecordError, Writer};
use crate::store::{Part, Reply, Snapshot};
use crate::{CLASSES_MAX, COMMIT_BYTES_MAX, ClassNumber, Error, Oref, Progress, Stored, Tid};

/// The version of the form.
pub const VERSION: u64 = 1;
/// The bytes of records at which a frame takes no more of them.
const FRAME_BYTES: usize = 1 << 20;
/// The most bytes of a frame: those of the largest record, and those beside it.
pub const FRAME_BYTES_MAX: usize = COMMIT_BYTES_MAX + 2 * FRAME_BYTES;
/// Bytes of a frame that are read at once, so that a wrong length takes no memory.
const READ_BYTES: u64 = 1 << 20;

const BEGIN: u8 = 1;
const CLASS: u8 = 2;
const REPLY: u8 = 3;
const OBJECTS: u8 = 4;
const END: u8 = 5;
const FAILED: u8 = 6;

/// The reason why a backup is not written, or not read.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The store fails: the one that is read, or the new one.
    #[error(transparent)]
    Store(#[from] Error),
    /// The bytes cannot be written or read.
    #[error("the backup is broken off: {0}")]
    Io(#[from] io::Error),
    /// The process that has the store open cannot go on; its reason.
    #[error("the backup is broken off: {0}")]
    Refused(String),
}

/// The figures of a backup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// The last commit in it.
    pub head: Tid,
    /// Objects.
    pub objects: u64,
    /// Bytes of their records.
    pub bytes: u64,
}

fn malformed(what: impl Into<String>) -> BackupError {
    BackupError::Store(Error::Backup { what: what.into() })
}

/// Writes a frame: its length, its kind, and its contents.
fn put(out: &mut dyn Write, kind: u8, contents: &[u8]) -> io::Result<()> {
    let length = u32::try_from(contents.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    out.write_all(&length.to_le_bytes())?;
    out.write_all(&[kind])?;
    out.write_all(contents)
}

/// Writes a snapshot. `progress` is called after each frame.
///
/// # Errors
/// [`BackupError`]; the bytes have no end then.
pub fn write(
    snapshot: &mut Snapshot,
    out: &mut dyn Write,
    progress: &mut dyn FnMut(Progress),
) -> Result<Written, BackupError> {
    let mut contents = Vec::new();
    let counts = [VERSION, snapshot.head.0, snapshot.reserved, snapshot.objects];
    counts.into_iter().for_each(|count| Writer::raw(&mut contents).count(count));
    put(out, BEGIN, &contents)?;
    for class in snapshot.classes.iter() {
        contents.clear();
        class.encode(&mut contents);
        put(out, CLASS, &contents)?;
    }
    for (session, reply) in std::mem::take(&mut snapshot.replies) {
        contents.clear();
        let mut to = Writer::raw(&mut contents);
        to.bytes(&session.to_le_bytes());
        to.count(reply.number);
        to.count(reply.tid.0);
        to.bytes(&reply.bytes);
        put(out, REPLY, &contents)?;
    }
    let mut written = Written { head: snapshot.head, ..Written::default() };
    contents.clear();
    let of = snapshot.objects;
    let mut tell = |done: u64| progress(Progress { done, of: of.max(done) });
    while let Some(part) = snapshot.next_part()? {
        for (oref, stored) in part {
            let mut to = Writer::raw(&mut contents);
            to.count(oref.get());
            to.count(stored.tid.0);
            to.bytes(&stored.bytes);
            written.objects += 1;
            written.bytes += stored.bytes.len() as u64;
            if contents.len() >= FRAME_BYTES {
                put(out, OBJECTS, &contents)?;
                contents.clear();
                tell(written.objects);
            }
        }
    }
    put(out, OBJECTS, &contents)?;
    contents.clear();
    [written.objects, written.bytes].into_iter().for_each(|count| Writer::raw(&mut contents).count(count));
    put(out, END, &contents)?;
    out.flush()?;
    tell(written.objects);
    Ok(written)
}

/// Writes the reason why a backup ends here.
///
/// # Errors
/// Those of `out`.
pub fn write_failure(out: &mut dyn Write, why: &str) -> io::Result<()> {
    put(out, FAILED, why.as_bytes())?;
    out.flush()
}

/// Reads a frame; returns its kind.
fn get(input: &mut dyn Read, contents: &mut Vec<u8>) -> Result<u8, BackupError> {
    let mut head = [0; 5];
    input.read_exact(&mut head)?;
    let [length @ .., kind] = head;
    let length = u32::from_le_bytes(length) as usize;
    if length > FRAME_BYTES_MAX {
        return Err(malformed(format!("a frame has {length} bytes, and {FRAME_BYTES_MAX} is the limit")));
    }
    contents.clear();
    while contents.len() < length {
        let room = READ_BYTES.min((length - contents.len()) as u64);
        if Read::take(&mut *input, room).read_to_end(contents)? == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
    }
    Ok(kind)
}

/// Puts a backup into a new store. `progress` is called after each frame.
///
/// # Errors
/// [`BackupError`]; the store is of no use then.
pub fn read(
    input: &mut dyn Read,
    mut store: Restore,
    progress: &mut dyn FnMut(Progress),
) -> Result<Written, BackupError> {
    let wrong = |error: RecordError| malformed(error.to_string());
    let mut contents = Vec::new();
    let mut counted = Written::default();
    let mut begun: Option<Begin> = None;
    let mut classes = 0;
    loop {
        let kind = get(input, &mut contents)?;
        let mut from = Reader::raw(&contents);
        match (kind, &begun) {
            (FAILED, _) => {
                return Err(BackupError::Refused(String::from_utf8_lossy(&contents).into_owned()));
            }
            (BEGIN, None) => {
                let begin = Begin::decode(&mut from)?;
                counted.head = begin.head;
                store.begin(begin.head, begin.reserved);
                begun = Some(begin);
            }
            (CLASS, Some(_)) => {
                let class = ClassDescriptor::decode(&contents).map_err(wrong)?;
                if classes == CLASSES_MAX {
                    return Err(malformed("there are more classes than a store can have"));
                }
                classes += 1;
                store.class(ClassNumber(classes as u32), Arc::new(class));
            }
            (REPLY, Some(_)) => {
                let (session, reply) = reply(&mut from).map_err(wrong)?;
                let session = session.ok_or_else(|| malformed("the number of a session has 16 bytes"))?;
                store.reply(session, reply);
            }
            (OBJECTS, Some(begin)) => {
                let part = objects(&mut from, begin)?;
                counted.objects += part.len() as u64;
                counted.bytes += part.iter().map(|(_, stored)| stored.bytes.len() as u64).sum::<u64>();
                store.objects(part)?;
                progress(Progress { done: counted.objects, of: begin.objects.max(counted.objects) });
            }
            (END, Some(begin)) => {
                let (objects, bytes) = (from.count().map_err(wrong)?, from.count().map_err(wrong)?);
                let said = (begin.objects, objects, bytes);
                if said != (counted.objects, counted.objects, counted.bytes) || classes == 0 {
                    return Err(malformed("it has not as many objects as it says"));
                }
                store.finish()?;
                return Ok(counted);
            }
            (kind, _) => {
                return Err(malformed(format!("a frame of kind {kind} is unknown, or out of place")));
            }
        }
    }
}

/// The first frame.
struct Begin {
    head: Tid,
    reserved: u64,
    objects: u64,
}

impl Begin {
    fn decode(from: &mut Reader<'_>) -> Result<Begin, BackupError> {
        let mut count = || from.count().map_err(|error| malformed(error.to_string()));
        let version = count()?;
        if version != VERSION {
            return Err(malformed(format!("it has version {version}, and this program reads {VERSION}")));
        }
        let begin = Begin { head: Tid(count()?), reserved: count()?, objects: count()? };
        match begin.head != Tid::NONE && Oref::new(begin.reserved).is_some() {
            true => Ok(begin),
            false => Err(malformed("its first frame has numbers that no store has")),
        }
    }
}

fn reply(from: &mut Reader<'_>) -> Result<(Option<u128>, Reply), RecordError> {
    let session = from.bytes()?.try_into().ok().map(u128::from_le_bytes);
    let (number, tid) = (from.count()?, Tid(from.count()?));
    Ok((session, Reply { number, tid, bytes: Bytes::copy_from_slice(from.bytes()?) }))
}

fn objects(from: &mut Reader<'_>, begin: &Begin) -> Result<Part, BackupError> {
    let wrong = |error: RecordError| malformed(error.to_string());
    let mut part = Part::new();
    while from.left() > 0 {
        let (oref, tid) = (from.count().map_err(wrong)?, Tid(from.count().map_err(wrong)?));
        let bytes = Bytes::copy_from_slice(from.bytes().map_err(wrong)?);
        let name = Oref::new(oref).filter(|_| oref < begin.reserved && tid <= begin.head);
        let name = name.ok_or_else(|| malformed(format!("object {oref} of commit {tid} cannot be in it")))?;
        part.push((name, Stored { tid, bytes }));
    }
    Ok(part)
}
