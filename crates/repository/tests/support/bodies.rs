//! The bodies of the fuzz targets over what a store reads back: the log, its entries, records, and dumps. An ordinary test
//! (`random.rs`) runs them for a few seconds too.

use std::sync::Arc;

use bifrost_repository::embedded::disk::{Disk, DiskFile};
use bifrost_repository::embedded::log::{BLOCK, Found, Log, NAMES};
use bifrost_repository::memory::Memory;
use bifrost_repository::record::{
    ClassDescriptor, Field, FieldKind, Kind, check_record, from_json, to_json, walk_refs,
};
use bifrost_repository::store::{Entry, Journal, decode, encode};
use bifrost_repository::{Error, dump};
use bytes::Bytes;

use super::disk::Sim;

/// A class of each kind, the directory first, so that the number in a record's second byte is often one.
pub fn classes() -> Vec<ClassDescriptor> {
    let class = |name: &str, kind| ClassDescriptor {
        name: name.into(),
        version: 1,
        kind,
        supertypes: vec!["thing".into()],
        specification: format!("{name} = type end"),
    };
    let field = |kind| Field { name: format!("{kind:?}"), kind };
    vec![
        ClassDescriptor::directory(),
        class("object", Kind::Object(FieldKind::ALL.map(field).into())),
        class("array", Kind::Array(FieldKind::Ref)),
        class("vector", Kind::Vector(FieldKind::Char)),
        class("sequence", Kind::Sequence(FieldKind::Real)),
        class("list", Kind::List(FieldKind::Int)),
        class("cell", Kind::Cell(FieldKind::Bytes)),
        class("map", Kind::Map(FieldKind::Str, FieldKind::Ref)),
        class("native", Kind::Native),
        class("empty", Kind::Object(vec![])),
    ]
}

/// Whatever the bytes are: entries of the log that are read are written as the same bytes.
pub fn log_entries(data: &[u8]) -> Option<Vec<Entry>> {
    let bytes = Bytes::copy_from_slice(data);
    match decode(&bytes) {
        Ok(entries) => {
            let mut again = Vec::new();
            encode(&entries, &mut again);
            assert_eq!(again, data, "{entries:?}");
            Some(entries)
        }
        Err(error) => {
            assert!(error.at <= data.len(), "{error}");
            None
        }
    }
}

/// Whatever the bytes are: every reader of records agrees on whether they are one, and the JSON of one gives it again.
pub fn stored_record(data: &[u8]) -> bool {
    let classes = &classes()[..];
    let checked = check_record(data, classes);
    assert_eq!(checked, walk_refs(data, classes, |_| {}));
    match (&checked, to_json(data, classes)) {
        (Ok(()), Ok(json)) => assert_eq!(from_json(&json, classes).unwrap(), data),
        (Err(one), Err(other)) => assert!(*one == other && one.at <= data.len(), "{one} {other}"),
        (one, other) => panic!("{one:?} {other:?}"),
    }
    if let Ok(class) = ClassDescriptor::decode(data) {
        let mut again = Vec::new();
        class.encode(&mut again);
        assert_eq!(again, data, "{class:?}");
    }
    checked.is_ok()
}

/// Whatever the text is: a dump that is loaded is dumped as a text that loads as the same.
pub fn dump_text(data: &[u8]) -> bool {
    let store = Memory::new();
    if dump::load(&store, &mut &*data, &mut |_| {}).is_err() {
        return false;
    }
    let mut text = Vec::new();
    dump::write(&store, &mut text, &mut |_| {}).unwrap();
    let again = Memory::new();
    dump::load(&again, &mut &text[..], &mut |_| {}).unwrap();
    let mut twice = Vec::new();
    dump::write(&again, &mut twice, &mut |_| {}).unwrap();
    assert_eq!(without_commits(&text), without_commits(&twice));
    true
}

/// The lines without the numbers of commits, which are those of a store.
fn without_commits(text: &[u8]) -> Vec<serde_json::Value> {
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines
        .map(|line| {
            let mut json: serde_json::Value = serde_json::from_slice(line).unwrap();
            json.as_object_mut().unwrap().remove("commit");
            json
        })
        .collect()
}

const KEY: [u8; 32] = [7; 32];
/// Bytes of a half of the log of [`log_files`].
const HALF: usize = 8 * BLOCK;

/// A log, what was appended to it, and its files.
struct Written {
    disk: Sim,
    records: Vec<(u64, Vec<u8>)>,
}

fn open(disk: &Sim, installed: u64) -> Result<(Log, Vec<Found>), Error> {
    Log::open(disk, KEY, (0, installed), HALF, BLOCK)
}

/// A log with a record for each of these lengths. Where a half is full it goes on in the other one, as the store does when all
/// is installed that was there.
fn write_log(lengths: &[usize]) -> (Written, u64) {
    let disk = Sim::new(1);
    Log::create(&disk).unwrap();
    let (mut log, found) = open(&disk, 0).unwrap();
    assert!(found.is_empty());
    let mut records = Vec::new();
    // What is in the half before this one, and in those before that.
    let (mut half, mut installed) = (0, 0);
    for (sequence, length) in (1..).zip(lengths) {
        let payload: Vec<u8> = (0..*length).map(|at| (at as u8) ^ sequence as u8).collect();
        if !log.fits(payload.len()) {
            log.turn();
            (installed, half) = (half, sequence - 1);
        }
        log.append(sequence, &payload).unwrap();
        records.push((sequence, payload));
    }
    (Written { disk, records }, installed)
}

fn files(disk: &Sim) -> [Arc<dyn DiskFile>; 2] {
    NAMES.map(|name| disk.open(name, true).unwrap().unwrap())
}

/// The first bytes choose a log, the others what becomes of its files: bytes changed, cut off, put elsewhere. Whatever it is, opening the
/// log refuses it, or gives records that were written, in their order, none left out; and never one that is not.
/// Gives how many of the records were there in the end; none if the log was refused.
pub fn log_files(data: &[u8]) -> Option<usize> {
    let mut from = data.iter().copied();
    let mut next = || usize::from(from.next().unwrap_or(0));
    let lengths: Vec<usize> = (0..1 + next() % 12).map(|_| next() * 48).collect();
    let (Written { disk, records }, installed) = write_log(&lengths);
    let files = files(&disk);
    for _ in 0..1 + next() % 4 {
        let file = &files[next() % 2];
        let length = file.len().unwrap();
        let at = (next() | next() << 8) as u64 % length.max(1);
        match next() % 8 {
            // One bit.
            0..=3 if length > 0 => {
                let mut byte = [0];
                file.read_at(at, &mut byte).unwrap();
                file.write_at(at, &[byte[0] ^ 1 << (next() % 8)]).unwrap();
            }
            4 => file.set_len(at).unwrap(),
            // A block of the one file, or of the other, in the place of another one.
            5 if length >= BLOCK as u64 => {
                let to = (at / BLOCK as u64) * BLOCK as u64;
                let source = &files[next() % 2];
                let blocks = source.len().unwrap() / BLOCK as u64;
                let mut block = vec![0; BLOCK];
                if blocks > 0 {
                    source.read_at(next() as u64 % blocks * BLOCK as u64, &mut block).unwrap();
                }
                file.write_at(to, &block).unwrap();
            }
            // Bytes of the data, as they come.
            _ => {
                let bytes: Vec<u8> = (0..next()).map(|_| next() as u8).collect();
                file.write_at(at, &bytes).unwrap();
            }
        }
    }
    match open(&disk, installed) {
        Err(Error::Damaged { .. }) => None,
        Err(other) => panic!("{other}"),
        Ok((_, found)) => {
            for found in &found {
                let written = &records[found.sequence as usize - 1];
                assert_eq!((found.sequence, &found.payload[..]), (written.0, &written.1[..]));
            }
            // Those of a half that is overwritten are installed; of the others none is left out in between, but the store itself looks at
            // that, as it must with what the base has.
            let numbers: Vec<u64> = found.iter().map(|found| found.sequence).collect();
            assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
            Some(found.len())
        }
    }
}

/// Files of the log with any bytes, under a key that the reader has: opening ends, and gives nothing or refuses.
pub fn log_bytes(data: &[u8]) {
    let disk = Sim::new(1);
    Log::create(&disk).unwrap();
    let (one, other) = data.split_at(data.len() / 2);
    for (file, bytes) in files(&disk).iter().zip([one, other]) {
        file.write_at(0, bytes).unwrap();
    }
    let (_, found) = open(&disk, 0).unwrap();
    assert!(found.is_empty());
}
