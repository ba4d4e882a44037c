//! A store as lines of JSON, and back.
//!
//! ```text
//! {"class": number, "name": text, "descriptor": digits}     classes by number, from 1
//! {"oref": number, "commit": number, "record": record}      objects by oref (`record::to_json`)
//! {"objects": number}                                       the end: how many there were
//! ```
//!
//! The digits are hexadecimal. Objects keep their orefs and classes their numbers, so that records
//! are the same, byte for byte. Not in a dump are:
//!
//! - the commit that wrote an object (`commit` is for people; in the new store it is another one);
//! - the orefs of objects that are no more;
//! - the replies of batches.

use std::collections::HashSet;
use std::io::{self, BufRead, Read, Write};
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value as Json, json};

use crate::record::{ClassDescriptor, from_json, hex, to_json, unhex};
use crate::{Commit, CommitError, Error, Oref, Progress, Repository};

/// The most bytes of a line of a dump.
pub const DUMP_LINE_BYTES_MAX: u64 = 1 << 30;
/// The largest oref that is loaded: those before it are lost, a few thousand millions at a time.
pub const DUMP_OREF_MAX: u64 = 1 << 44;

/// The number of objects read or committed at once.
const OBJECTS_AT_ONCE: usize = 1000;
/// The number of bytes of records at which a commit takes no more of them.
const BYTES_AT_ONCE: usize = 16 << 20;

/// The reason why there is no dump.
#[derive(Debug, thiserror::Error)]
pub enum DumpError {
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] Error),
    /// The dump cannot be written.
    #[error("cannot write: {0}")]
    Io(#[from] io::Error),
}

/// The reason why a dump is not loaded. The contents of the store are of no use.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A line is malformed.
    #[error("line {line}: {what}")]
    Line {
        /// Its number, from 1.
        line: u64,
        /// The fault of the line.
        what: String,
    },
    /// The store has objects already.
    #[error("the store has objects already")]
    NotEmpty,
    /// The store cannot be written.
    #[error(transparent)]
    Store(#[from] Error),
    /// The dump cannot be read.
    #[error("cannot read: {0}")]
    Io(#[from] io::Error),
}

/// Writes all classes and objects of a store. No other process may commit to it meanwhile.
///
/// # Errors
/// [`DumpError`]; the lines written so far have no end.
pub fn write(
    repository: &dyn Repository,
    out: &mut dyn Write,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), DumpError> {
    let classes = repository.classes();
    for (number, class) in (1..).zip(&classes) {
        let mut bytes = Vec::new();
        class.encode(&mut bytes);
        let number: u32 = number;
        writeln!(out, "{}", json!({"class": number, "name": class.name, "descriptor": hex(&bytes)}))?;
    }
    let (mut done, of) = (0, repository.info()?.objects);
    let mut from = Some(Oref::ROOT);
    while let Some(first) = from {
        let some = repository.scan(first, OBJECTS_AT_ONCE)?;
        for (oref, stored) in &some {
            let record = to_json(&stored.bytes, &classes[..]);
            let record = record.map_err(|source| Error::Record { oref: *oref, source })?;
            writeln!(out, "{}", json!({"oref": oref.get(), "commit": stored.tid.0, "record": record}))?;
        }
        done += some.len() as u64;
        progress(Progress { done, of: of.max(done) });
        from = some.last().and_then(|(last, _)| Oref::new(last.get() + 1));
    }
    writeln!(out, "{}", json!({ "objects": done }))?;
    Ok(out.flush()?)
}

/// Fills a new store with the output of [`write()`], and returns the number of objects. It does not
/// look if the objects that they refer to are there: [`Repository::check`] does.
///
/// # Errors
/// [`LoadError`]; the store has a part of the dump then, and is to be thrown away.
pub fn load(
    repository: &dyn Repository,
    input: &mut dyn BufRead,
    progress: &mut dyn FnMut(Progress),
) -> Result<u64, LoadError> {
    let info = repository.info()?;
    if info.objects > 1 || info.classes > 1 {
        return Err(LoadError::NotEmpty);
    }
    let mut load = Load {
        repository,
        classes: Vec::new(),
        next_oref: info.next_oref,
        last: 0,
        objects: 0,
        waiting: Vec::new(),
        waiting_bytes: 0,
    };
    let mut line = Vec::new();
    let mut ended = false;
    for number in 1.. {
        line.clear();
        let mut limited = Read::take(&mut *input, DUMP_LINE_BYTES_MAX + 1);
        if limited.read_until(b'\n', &mut line)? == 0 {
            let wrong = |what: &str| LoadError::Line { line: number, what: what.to_owned() };
            return if ended {
                Ok(load.objects)
            } else {
                Err(wrong("the dump ends here, and has no line `{\"objects\": …}`"))
            };
        }
        let taken = match line.len() as u64 > DUMP_LINE_BYTES_MAX {
            true => Err(Wrong::Line(format!("the line is longer than {DUMP_LINE_BYTES_MAX} bytes"))),
            false if ended => Err(Wrong::Line("the dump has ended before this line".to_owned())),
            false => load.line(&line),
        };
        ended = taken.map_err(|wrong| match wrong {
            Wrong::Line(what) => LoadError::Line { line: number, what },
            Wrong::Store(error) => LoadError::Store(error),
        })?;
        progress(Progress { done: load.objects, of: load.objects });
    }
    unreachable!("a file has an end")
}

/// The fault of a line, or of the store.
enum Wrong {
    Line(String),
    Store(Error),
}

impl From<Error> for Wrong {
    fn from(error: Error) -> Wrong {
        Wrong::Store(error)
    }
}

struct Load<'r> {
    repository: &'r dyn Repository,
    classes: Vec<Arc<ClassDescriptor>>,
    /// The first oref that was not given.
    next_oref: u64,
    /// The oref of the last line.
    last: u64,
    objects: u64,
    waiting: Vec<(Oref, Bytes)>,
    waiting_bytes: usize,
}

impl Load<'_> {
    /// Takes a line; returns true if it is the end.
    fn line(&mut self, line: &[u8]) -> Result<bool, Wrong> {
        let json: Json = serde_json::from_slice(line)
            .map_err(|error| Wrong::Line(format!("the line is not JSON: {error}")))?;
        let number = |name: &str| json.get(name).and_then(Json::as_u64);
        if let Some(class) = number("class") {
            self.class(class, json.get("descriptor").and_then(Json::as_str))?;
        } else if let (Some(oref), Some(record)) = (number("oref"), json.get("record")) {
            self.object(oref, record)?;
        } else if let Some(objects) = number("objects") {
            if objects != self.objects {
                return Err(Wrong::Line(format!("{objects} objects expected, {} found", self.objects)));
            }
            if self.last == 0 {
                return Err(Wrong::Line("the dump has no root directory".to_owned()));
            }
            self.commit()?;
            return Ok(true);
        } else {
            return Err(Wrong::Line("the line is neither a class, nor an object, nor the end".to_owned()));
        }
        Ok(false)
    }

    fn class(&mut self, number: u64, descriptor: Option<&str>) -> Result<(), Wrong> {
        let expected = self.classes.len() as u64 + 1;
        if number != expected {
            return Err(Wrong::Line(format!("class {expected} expected")));
        }
        let bytes = descriptor.and_then(unhex);
        let bytes =
            bytes.ok_or_else(|| Wrong::Line("expected the descriptor as hexadecimal digits".to_owned()))?;
        let class = ClassDescriptor::decode(&bytes)
            .map_err(|error| Wrong::Line(format!("the descriptor is malformed: {error}")))?;
        let given = self.repository.define_class(&class)?;
        if u64::from(given.0) != number {
            return Err(Wrong::Line(format!(
                "the class equals class {given}, or is not the directory's class"
            )));
        }
        self.classes.push(Arc::new(class));
        Ok(())
    }

    fn object(&mut self, oref: u64, record: &Json) -> Result<(), Wrong> {
        if oref <= self.last || (self.last == 0) != (oref == Oref::ROOT.get()) {
            let what = match self.last {
                0 => "the root directory, oref 1, must be first".to_owned(),
                last => format!("an oref above {last} expected"),
            };
            return Err(Wrong::Line(what));
        }
        let name = Oref::new(oref).filter(|_| oref <= DUMP_OREF_MAX);
        let name =
            name.ok_or_else(|| Wrong::Line(format!("{DUMP_OREF_MAX} is the largest oref that is loaded")))?;
        let bytes = from_json(record, &self.classes[..]).map_err(|error| Wrong::Line(error.to_string()))?;
        (self.last, self.objects) = (oref, self.objects + 1);
        self.waiting_bytes += bytes.len();
        self.waiting.push((name, Bytes::from(bytes)));
        if self.waiting.len() >= OBJECTS_AT_ONCE || self.waiting_bytes >= BYTES_AT_ONCE {
            self.commit()?;
        }
        Ok(())
    }

    fn commit(&mut self) -> Result<(), Wrong> {
        while self.next_oref <= self.last {
            let count = u32::try_from(self.last - self.next_oref + 1).unwrap_or(u32::MAX);
            self.next_oref = self.repository.allocate(count)?.end;
        }
        self.waiting_bytes = 0;
        let (writes, creates): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.waiting).into_iter().partition(|(oref, _)| *oref == Oref::ROOT);
        if writes.is_empty() && creates.is_empty() {
            return Ok(());
        }
        let reads: HashSet<Oref> = writes.iter().chain(&creates).map(|(oref, _)| *oref).collect();
        let valid_to = self.repository.head();
        let commit = Commit { valid_to, reads: &reads, writes, creates, batch: None };
        match self.repository.commit(commit) {
            Ok(_) => Ok(()),
            Err(CommitError::Store(error)) => Err(Wrong::Store(error)),
            Err(other) => Err(Wrong::Line(format!("the store refuses the object: {other}"))),
        }
    }
}
