//! The contents of a record of the journal, as bytes.

use std::sync::Arc;

use bytes::Bytes;

use crate::record::{ClassDescriptor, Reader, RecordError, Writer, Wrong};
use crate::{BatchId, ClassNumber, Oref, Tid};

/// One change of a store. A record of the journal has those of all commits that were made durable
/// together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A commit.
    Commit(Committed),
    /// Objects are freed.
    Free(Vec<Oref>),
    /// A class is defined.
    Class(ClassNumber, Arc<ClassDescriptor>),
    /// Orefs below this one may have been given.
    Reserve(u64),
}

/// A commit that has passed validation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Its number.
    pub tid: Tid,
    /// New states of old objects.
    pub writes: Vec<(Oref, Bytes)>,
    /// States of new objects.
    pub creates: Vec<(Oref, Bytes)>,
    /// Its batch, and the reply.
    pub batch: Option<(BatchId, Bytes)>,
}

impl Committed {
    /// Returns the objects that it wrote and created.
    pub fn orefs(&self) -> impl Iterator<Item = Oref> {
        self.writes.iter().chain(&self.creates).map(|(oref, _)| *oref)
    }
}

const COMMIT: u8 = 1;
const COMMIT_OF_BATCH: u8 = 2;
const FREE: u8 = 3;
const CLASS: u8 = 4;
const RESERVE: u8 = 5;

/// Appends entries as bytes.
pub fn encode(entries: &[Entry], out: &mut Vec<u8>) {
    for entry in entries {
        match entry {
            Entry::Commit(commit) => encode_commit(commit, out),
            Entry::Free(orefs) => {
                Writer::raw(out).byte(FREE);
                encode_orefs(orefs, out);
            }
            Entry::Class(number, class) => {
                let mut bytes = Vec::new();
                class.encode(&mut bytes);
                let mut to = Writer::raw(out);
                to.byte(CLASS);
                to.count(u64::from(number.0));
                to.bytes(&bytes);
            }
            Entry::Reserve(upto) => {
                let mut to = Writer::raw(out);
                to.byte(RESERVE);
                to.count(*upto);
            }
        }
    }
}

fn encode_commit(commit: &Committed, out: &mut Vec<u8>) {
    let mut to = Writer::raw(out);
    to.byte(if commit.batch.is_some() { COMMIT_OF_BATCH } else { COMMIT });
    to.count(commit.tid.0);
    for states in [&commit.writes, &commit.creates] {
        to.count(states.len() as u64);
        for (oref, bytes) in states {
            to.count(oref.get());
            to.bytes(bytes);
        }
    }
    if let Some((batch, reply)) = &commit.batch {
        to.bytes(&batch.session.to_le_bytes());
        to.count(batch.number);
        to.bytes(reply);
    }
}

/// Appends orefs that are in order: their number, and the step to each, which is small.
pub fn encode_orefs(orefs: &[Oref], out: &mut Vec<u8>) {
    let mut to = Writer::raw(out);
    to.count(orefs.len() as u64);
    let mut last = 0;
    for oref in orefs {
        to.count(oref.get() - last);
        last = oref.get();
    }
}

/// Reads the output of [`encode_orefs`].
pub fn decode_orefs(from: &mut Reader<'_>) -> Result<Vec<Oref>, RecordError> {
    let mut orefs = Vec::new();
    let mut last = 0u64;
    for _ in 0..from.elements()? {
        let at = from.position();
        let step = from.count()?;
        let next = last.saturating_add(step);
        // A step of 0 would name one twice.
        let oref = Oref::new(next).filter(|_| step > 0);
        orefs.push(oref.ok_or(RecordError { at, wrong: Wrong::Oref(next) })?);
        last = next;
    }
    Ok(orefs)
}

/// Reads the output of [`encode`], all of it. States share the bytes.
pub fn decode(bytes: &Bytes) -> Result<Vec<Entry>, RecordError> {
    let mut from = Reader::raw(bytes);
    let mut entries = Vec::new();
    while from.left() > 0 {
        let at = from.position();
        entries.push(match from.byte()? {
            COMMIT => Entry::Commit(decode_commit(&mut from, bytes, false)?),
            COMMIT_OF_BATCH => Entry::Commit(decode_commit(&mut from, bytes, true)?),
            FREE => Entry::Free(decode_orefs(&mut from)?),
            CLASS => {
                let at = from.position();
                let number = from.count()?;
                let number =
                    u32::try_from(number).map_err(|_| RecordError { at, wrong: Wrong::Class(number) })?;
                Entry::Class(ClassNumber(number), Arc::new(ClassDescriptor::decode(from.bytes()?)?))
            }
            RESERVE => {
                let at = from.position();
                let upto = from.count()?;
                Oref::new(upto).ok_or(RecordError { at, wrong: Wrong::Oref(upto) })?;
                Entry::Reserve(upto)
            }
            other => return Err(RecordError { at, wrong: Wrong::Kind(other) }),
        });
    }
    Ok(entries)
}

fn decode_commit(from: &mut Reader<'_>, all: &Bytes, batch: bool) -> Result<Committed, RecordError> {
    let tid = Tid(from.count()?);
    let writes = decode_states(from, all)?;
    let creates = decode_states(from, all)?;
    let batch = if batch {
        let at = from.position();
        let session = from.bytes()?.try_into().map_err(|_| RecordError { at, wrong: Wrong::Number })?;
        let id = BatchId { session: u128::from_le_bytes(session), number: from.count()? };
        Some((id, all.slice_ref(from.bytes()?)))
    } else {
        None
    };
    Ok(Committed { tid, writes, creates, batch })
}

fn decode_states(from: &mut Reader<'_>, all: &Bytes) -> Result<Vec<(Oref, Bytes)>, RecordError> {
    let mut states = Vec::new();
    for _ in 0..from.elements()? {
        let at = from.position();
        let number = from.count()?;
        let oref = Oref::new(number).ok_or(RecordError { at, wrong: Wrong::Oref(number) })?;
        states.push((oref, all.slice_ref(from.bytes()?)));
    }
    Ok(states)
}
