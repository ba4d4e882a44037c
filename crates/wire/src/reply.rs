//! The replies to a client, and their decoder.
//!
//! Every reply starts with two words: its code with a number, and the length in bytes of the rest.
//! So a client knows from 16 bytes how much to wait for.
//!
//! Read [`Reply`] first, then [`decode_reply`]. A reply borrows its lists from the bytes that came.

use crate::Digest;
use crate::encode::Counters;
use crate::error::{DecodeError, ErrorNumber};
use crate::ids::{Ref, TypeNumber};
use crate::op;
use crate::places::Places;
use crate::profile::Profile;
use crate::value::{Arg, Value, tag};
use crate::word::{Read, Reader, Stop, word_at};

/// A reply, borrowed from the bytes it came in.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Reply<'a> {
    /// Answers `hello`.
    Welcome(Welcome<'a>),
    /// Answers `flush`.
    Flushed(FlushedReply<'a>),
    /// Answers `describe`: the interface description as JSON.
    Interface(&'a [u8]),
    /// Answers `history`.
    Exceptions(History<'a>),
    /// Answers `bye`; nothing follows.
    Farewell,
    /// Ends the session; nothing follows.
    Error {
        /// An [`ErrorNumber`], or a number that a later version has added.
        number: u32,
        /// The command of the session that is to blame, from 1; 0 for none.
        position: u64,
        /// The mistake, as text for people.
        text: &'a str,
    },
}

/// The server's description of itself.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Welcome<'a> {
    /// The version that both will speak.
    pub version: u32,
    /// The digest of the server's interface.
    pub digest: Digest,
    /// The limits that the server accepts.
    pub limits: Limits<'a>,
    /// The number of the session in the server's logs.
    pub session: u64,
    /// The server's name and version, for logs.
    pub server: &'a str,
}

/// Pairs of a limit's number and its value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Limits<'a>(&'a [u8]);

impl<'a> Limits<'a> {
    /// Returns the pairs; numbers that [`crate::Limit`] does not know are for later versions.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (u32, u64)> + use<'a> {
        self.0.chunks_exact(16).map(|w| (word_at(w, 0) as u32, word_at(w, 8)))
    }
}

impl std::fmt::Debug for Limits<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// The outcome of a future.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Outcome<'a> {
    /// An object.
    Handle {
        /// Its handle: the same for every outcome that is this object, until it is given back.
        handle: Ref,
        /// Its type, as the session sees it.
        ty: TypeNumber,
    },
    /// A value; nil for a call without results.
    Value(Value<'a>),
    /// A table.
    Rows(Rows<'a>),
    /// An exception: its position in the reply's list, from 0.
    Exception(u32),
    /// Nothing: the call was not reached.
    Absent,
}

/// A table of rows, still in the bytes it came in.
#[derive(Clone, Copy, PartialEq)]
pub struct Rows<'a> {
    count: u32,
    columns: &'a [u8],
    cells: &'a [u8],
}

impl<'a> Rows<'a> {
    /// Reads the rest of a table with so many rows.
    fn read(reader: &mut Reader<'a>, count: u32) -> Read<Rows<'a>> {
        let length = reader.word()?;
        reader.check(length.is_multiple_of(8), "a length in whole words")?;
        let bytes = reader.take(length)?;
        let mut inner = Reader::new(bytes, bytes.len());
        match Rows::parts(&mut inner, count) {
            Ok(rows) if inner.at() == bytes.len() => Ok(rows),
            Ok(_) => reader.bad(ErrorNumber::BadWord, "a table no longer than its cells"),
            Err(Stop::Need(_)) => reader.bad(ErrorNumber::BadWord, "a table of the length in its header"),
            Err(stop) => Err(stop),
        }
    }

    fn parts(reader: &mut Reader<'a>, count: u32) -> Read<Rows<'a>> {
        let columns = reader.word()?;
        reader.check((1..=0xff).contains(&columns), "a count of columns")?;
        let columns = reader.words(columns)?;
        let good = columns.chunks_exact(8).all(|head| {
            let word = word_at(head, 0);
            let is_tag = matches!(word as u8, tag::REF..=tag::STRING | tag::BYTES | tag::COMPOUND);
            is_tag && (word >> 8) & 0xff_ffff == 0
        });
        reader.check(good, "the tag of a column, and zeros after it")?;
        let start = reader.at();
        for _ in 0..count {
            for head in columns.chunks_exact(8) {
                cell(reader, word_at(head, 0))?;
            }
        }
        Ok(Rows { count, columns, cells: reader.since(start) })
    }

    /// Returns the number of rows.
    pub fn len(&self) -> u32 {
        self.count
    }

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the columns in order, each by the tag of its cells and its type.
    pub fn columns(&self) -> impl ExactSizeIterator<Item = (u8, TypeNumber)> + use<'a> {
        self.columns.chunks_exact(8).map(|head| {
            let word = word_at(head, 0);
            (word as u8, TypeNumber((word >> 32) as u32))
        })
    }

    /// Returns the cells, row by row: [`Outcome::Handle`] with the type of the column, or
    /// [`Outcome::Value`].
    pub fn iter(&self) -> impl Iterator<Item = Outcome<'a>> + use<'a> {
        let mut reader = Reader::new(self.cells, self.cells.len());
        let heads = self.columns.chunks_exact(8).cycle();
        heads.take(self.count as usize * (self.columns.len() / 8)).map_while(move |head| {
            // They were read once when the reply was decoded.
            cell(&mut reader, word_at(head, 0)).ok()
        })
    }

    /// Returns the cells, row by row, as arguments: handles and values.
    pub fn args(&self) -> impl Iterator<Item = Arg<'a>> + use<'a> {
        self.iter().map(|cell| match cell {
            Outcome::Handle { handle, .. } => Arg::Ref(handle),
            Outcome::Value(value) => Arg::Value(value),
            _ => Arg::Value(Value::Nil),
        })
    }

    /// Calls a function for the handle of each object in it.
    pub fn each_handle(&self, each: &mut dyn FnMut(Ref)) {
        for cell in self.args() {
            match cell {
                Arg::Ref(handle) => each(handle),
                Arg::Value(Value::Compound(compound)) => compound.each_reference(each),
                Arg::Value(_) => {}
            }
        }
    }

    /// Returns the bytes of the cells.
    pub(crate) fn cells(&self) -> &'a [u8] {
        self.cells
    }
}

/// A table of its own.
#[derive(Clone, PartialEq)]
pub struct OwnedRows {
    count: u32,
    columns: Box<[u8]>,
    cells: Box<[u8]>,
}

impl From<Rows<'_>> for OwnedRows {
    fn from(rows: Rows<'_>) -> OwnedRows {
        OwnedRows { count: rows.count, columns: rows.columns.into(), cells: rows.cells.into() }
    }
}

impl OwnedRows {
    /// Returns the table.
    pub fn view(&self) -> Rows<'_> {
        Rows { count: self.count, columns: &self.columns, cells: &self.cells }
    }
}

impl std::fmt::Debug for OwnedRows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.view().fmt(f)
    }
}

impl std::fmt::Debug for Rows<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let columns: Vec<_> = self.columns().collect();
        f.debug_struct("Rows")
            .field("columns", &columns)
            .field("cells", &self.iter().collect::<Vec<_>>())
            .finish()
    }
}

/// Reads a cell of the column with this head.
fn cell<'a>(reader: &mut Reader<'a>, head: u64) -> Read<Outcome<'a>> {
    match head as u8 {
        tag::REF => {
            let handle = Ref(reader.word()? as i64);
            reader.check(handle.is_handle(), "a handle")?;
            Ok(Outcome::Handle { handle, ty: TypeNumber((head >> 32) as u32) })
        }
        code => value(reader, code).map(Outcome::Value),
    }
}

/// Reads a value, in which all references are handles.
fn value<'a>(reader: &mut Reader<'a>, tag: u8) -> Read<Value<'a>> {
    let value = Value::read(reader, tag)?;
    if let Value::Compound(compound) = value {
        reader.check(compound.has_handles_only(), "a handle")?;
    }
    Ok(value)
}

/// The answer to `flush`.
#[derive(Clone, Copy, PartialEq)]
pub struct FlushedReply<'a> {
    outcome_count: u32,
    exception_count: u32,
    /// The number of exceptions not listed because of a limit.
    pub omitted: u32,
    /// The cost of the batch.
    pub counters: Counters,
    /// The profile of the batch, if the session asked for profiles.
    pub profile: Option<Profile<'a>>,
    outcomes: &'a [u8],
    exceptions: &'a [u8],
}

impl<'a> FlushedReply<'a> {
    /// Returns the outcomes, in the order of the wanted futures.
    pub fn outcomes(&self) -> impl ExactSizeIterator<Item = Outcome<'a>> + use<'a> {
        OutcomeIter { reader: Reader::new(self.outcomes, self.outcomes.len()), left: self.outcome_count }
    }

    /// Returns the exceptions of the batch, in the order in which they arose.
    pub fn exceptions(&self) -> impl ExactSizeIterator<Item = Exception<'a>> + use<'a> {
        ExceptionIter {
            reader: Reader::new(self.exceptions, self.exceptions.len()),
            left: self.exception_count,
        }
    }
}

impl std::fmt::Debug for FlushedReply<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out = f.debug_struct("FlushedReply");
        out.field("outcomes", &self.outcomes().collect::<Vec<_>>())
            .field("exceptions", &self.exceptions().collect::<Vec<_>>())
            .field("omitted", &self.omitted)
            .field("counters", &self.counters);
        if let Some(profile) = &self.profile {
            out.field("profile", profile);
        }
        out.finish()
    }
}

/// An exception and the call it belongs to.
#[derive(Clone, Copy, PartialEq)]
pub struct Exception<'a> {
    /// The position of the call's first future in the batch; for a structure that was refused, that
    /// of the first future after its first marker.
    pub call: u32,
    iterations: &'a [u8],
    /// The kind of exception.
    pub kind: ExceptionKind<'a>,
}

impl<'a> Exception<'a> {
    /// Returns the same call and rounds with another result.
    pub(crate) fn with_kind<'b>(&self, kind: ExceptionKind<'b>) -> Exception<'b>
    where
        'a: 'b,
    {
        Exception { call: self.call, iterations: self.iterations, kind }
    }

    /// Returns the round of each loop around the call, outermost first, from 1; empty outside
    /// loops.
    pub fn iterations(&self) -> impl ExactSizeIterator<Item = u32> + use<'a> {
        self.iterations.chunks_exact(8).map(|w| word_at(w, 0) as u32)
    }
}

impl std::fmt::Debug for Exception<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Exception")
            .field("call", &self.call)
            .field("iterations", &self.iterations().collect::<Vec<_>>())
            .field("kind", &self.kind)
            .finish()
    }
}

/// The result of a call that did not return.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ExceptionKind<'a> {
    /// It signalled.
    Signal {
        /// The exception's name.
        name: &'a str,
        /// Its values.
        values: Values<'a>,
        /// The places of a `failure`, if the client may see them.
        places: Places<'a>,
    },
    /// It was not run, because an argument is the result of a call that failed: `unhandled_exc`.
    Unhandled {
        /// The argument: 0 is the receiver, the arguments count from 1.
        argument: u32,
        /// The number of batches back to the one in which the call failed; 0 for the same batch.
        back: u8,
        /// The call that failed, as in [`Exception::call`]; 0 if the client named none.
        cause: u32,
    },
    /// It, or the structure, was refused before it ran.
    Refused {
        /// An [`ErrorNumber`], or a number that a later version has added.
        number: u32,
        /// The mistake, as text for people.
        text: &'a str,
    },
}

/// The codes of [`ExceptionKind`].
pub mod kind {
    /// The call signalled.
    pub const SIGNAL: u8 = 0;
    /// The call was not run because an argument is bad.
    pub const UNHANDLED: u8 = 1;
    /// The call or structure was refused.
    pub const REFUSED: u8 = 2;

    /// All codes, in order: name, number, description.
    pub const TABLE: &[(&str, u8, &str)] = &[
        ("SIGNAL", SIGNAL, "The call signalled."),
        ("UNHANDLED", UNHANDLED, "The call was not run because an argument is bad."),
        ("REFUSED", REFUSED, "The call or structure was refused."),
    ];
}

/// The values of an exception, still in the bytes they came in.
#[derive(Clone, Copy, PartialEq)]
pub struct Values<'a> {
    count: u32,
    bytes: &'a [u8],
}

impl<'a> Values<'a> {
    /// No values.
    pub const NONE: Values<'static> = Values { count: 0, bytes: &[] };

    /// Returns the number of values.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the values: [`Outcome::Handle`] or [`Outcome::Value`].
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Outcome<'a>> + use<'a> {
        OutcomeIter { reader: Reader::new(self.bytes, self.bytes.len()), left: self.count }
    }
}

impl std::fmt::Debug for Values<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// The answer to `history`.
#[derive(Clone, Copy, PartialEq)]
pub struct History<'a> {
    count: u32,
    /// The number of exceptions not listed because of a limit.
    pub omitted: u64,
    bytes: &'a [u8],
}

impl<'a> History<'a> {
    /// Returns the exceptions, oldest first, each with the number of its batch in the session, from
    /// 1.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (u64, Exception<'a>)> + use<'a> {
        HistoryIter { reader: Reader::new(self.bytes, self.bytes.len()), left: self.count }
    }
}

impl std::fmt::Debug for History<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

macro_rules! iterator {
    ($name:ident, $item:ty, $read:expr) => {
        struct $name<'a> {
            reader: Reader<'a>,
            left: u32,
        }

        impl<'a> Iterator for $name<'a> {
            type Item = $item;

            fn next(&mut self) -> Option<$item> {
                self.left = self.left.checked_sub(1)?;
                // The whole list was read once when the reply was decoded.
                let read: fn(&mut Reader<'a>) -> Read<$item> = $read;
                read(&mut self.reader).ok()
            }

            fn size_hint(&self) -> (usize, Option<usize>) {
                (self.left as usize, Some(self.left as usize))
            }
        }

        impl ExactSizeIterator for $name<'_> {}
    };
}

iterator!(OutcomeIter, Outcome<'a>, outcome);
iterator!(ExceptionIter, Exception<'a>, exception);
iterator!(HistoryIter, (u64, Exception<'a>), |r| Ok((r.word()?, exception(r)?)));

/// The result of [`decode_reply`] at the front of the bytes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum DecodedReply<'a> {
    /// A whole reply, and how many bytes it has.
    Reply(Reply<'a>, usize),
    /// The start of one that has this many bytes in all, or at least 16.
    NeedMore(usize),
}

/// Reads the reply at the front of `bytes`; replies longer than `bytes_max` are refused before
/// their bytes have come.
///
/// Cost: no allocation; reads every outcome and exception once.
///
/// # Errors
/// The bytes are no reply: the stream cannot be read further.
pub fn decode_reply(bytes: &[u8], bytes_max: usize) -> Result<DecodedReply<'_>, DecodeError> {
    let mut reader = Reader::new(bytes, bytes_max);
    match reply(&mut reader, bytes) {
        Ok(reply) => Ok(DecodedReply::Reply(reply, reader.at())),
        Err(Stop::Need(length)) => Ok(DecodedReply::NeedMore(length.max(16))),
        Err(Stop::Bad(error)) => Err(error),
    }
}

fn reply<'a>(stream: &mut Reader<'a>, whole: &'a [u8]) -> Read<Reply<'a>> {
    let word = stream.word()?;
    let code = word as u8;
    let number = (word >> 32) as u32;
    let known = op::find(code).is_some_and(|op| op.from == op::From::Server);
    let flags = (word >> 8) as u32 & 0xff_ffff;
    let profiled = code == op::FLUSHED && flags == op::FLUSHED_PROFILED;
    stream.check(known && (flags == 0 || profiled), "the code of a reply")?;
    let length = stream.word()?;
    stream.check(length.is_multiple_of(8), "a length in whole words")?;
    stream.take(length)?;
    // From here on all bytes are there: whatever is missing is missing from the reply.
    let end = stream.at();
    let mut reader = Reader::new(whole.get(..end).unwrap_or(whole), end);
    reader.take(16)?;
    let read = match code {
        op::FLUSHED => flushed(&mut reader, number, profiled).map(Reply::Flushed),
        code => body(&mut reader, code, number),
    };
    match read {
        Err(Stop::Need(_)) => reader.bad(ErrorNumber::BadWord, "a reply of the length in its header"),
        Ok(_) if reader.at() != end => reader.bad(ErrorNumber::BadWord, "a reply no longer than its parts"),
        read => read,
    }
}

fn body<'a>(reader: &mut Reader<'a>, code: u8, number: u32) -> Read<Reply<'a>> {
    let unnumbered = |reader: &Reader<'a>| reader.check(number == 0, "zeros after the code");
    match code {
        op::WELCOME => {
            let session = reader.word()?;
            let mut digest = [0; 32];
            digest.copy_from_slice(reader.words(4)?);
            let server = reader.string()?;
            let count = reader.word()?;
            let limits = Limits(reader.words(count.saturating_mul(2))?);
            Ok(Reply::Welcome(Welcome { version: number, digest, limits, session, server }))
        }
        op::INTERFACE => {
            unnumbered(reader)?;
            Ok(Reply::Interface(reader.byte_string()?))
        }
        op::EXCEPTIONS => {
            let omitted = reader.word()?;
            let start = reader.at();
            for _ in 0..number {
                reader.word()?;
                exception(reader)?;
            }
            Ok(Reply::Exceptions(History { count: number, omitted, bytes: reader.since(start) }))
        }
        op::FAREWELL => {
            unnumbered(reader)?;
            Ok(Reply::Farewell)
        }
        op::ERROR => Ok(Reply::Error { number, position: reader.word()?, text: reader.string()? }),
        _ => reader.bad(ErrorNumber::BadWord, "the code of a reply"),
    }
}

fn flushed<'a>(reader: &mut Reader<'a>, count: u32, profiled: bool) -> Read<FlushedReply<'a>> {
    let counts = reader.word()?;
    let exception_count = counts as u32;
    let cost = reader.word()?;
    let counters = Counters { calls: cost as u32, fuel: (cost >> 32) as u32 };
    let start = reader.at();
    for _ in 0..count {
        if let Outcome::Exception(index) = outcome(reader)? {
            reader.check(index < exception_count, "an exception of the list")?;
        }
    }
    let outcomes = reader.since(start);
    let middle = reader.at();
    for _ in 0..exception_count {
        exception(reader)?;
    }
    let exceptions = reader.since(middle);
    let profile = profiled.then(|| Profile::read(reader)).transpose()?;
    Ok(FlushedReply {
        outcome_count: count,
        exception_count,
        omitted: (counts >> 32) as u32,
        counters,
        profile,
        outcomes,
        exceptions,
    })
}

fn outcome<'a>(reader: &mut Reader<'a>) -> Read<Outcome<'a>> {
    let word = reader.word()?;
    let number = (word >> 32) as u32;
    reader.check((word >> 8) & 0xff_ffff == 0, "zeros after a tag")?;
    match word as u8 {
        tag::REF => {
            let handle = Ref(reader.word()? as i64);
            reader.check(handle.is_handle(), "a handle")?;
            Ok(Outcome::Handle { handle, ty: TypeNumber(number) })
        }
        tag::EXCEPTION => Ok(Outcome::Exception(number)),
        tag::ROWS => Rows::read(reader, number).map(Outcome::Rows),
        code => {
            reader.check(number == 0, "zeros after a tag")?;
            if code == tag::ABSENT {
                return Ok(Outcome::Absent);
            }
            Ok(Outcome::Value(value(reader, code)?))
        }
    }
}

fn exception<'a>(reader: &mut Reader<'a>) -> Read<Exception<'a>> {
    let word = reader.word()?;
    let (code, values, rounds, places) =
        (word as u8, (word >> 8) as u8, (word >> 16) as u8, (word >> 24) as u8);
    reader.check((values == 0 && places == 0) || code == kind::SIGNAL, "zeros for the counts")?;
    let iterations = reader.words(u64::from(rounds))?;
    let good = iterations.chunks_exact(8).all(|w| word_at(w, 0) <= u64::from(u32::MAX));
    reader.check(good, "the number of a round")?;
    let kind = match code {
        kind::SIGNAL => {
            let (name, values) = (reader.string()?, exception_values(reader, values)?);
            ExceptionKind::Signal { name, values, places: Places::read(reader, places)? }
        }
        kind::UNHANDLED => {
            let word = reader.word()?;
            let (argument, back) = (word as u32 & 0xff_ffff, (word >> 24) as u8);
            ExceptionKind::Unhandled { argument, back, cause: (word >> 32) as u32 }
        }
        kind::REFUSED => {
            let number = reader.word()?;
            reader.check(number <= u64::from(u32::MAX), "the number of an error")?;
            ExceptionKind::Refused { number: number as u32, text: reader.string()? }
        }
        _ => return reader.bad(ErrorNumber::BadWord, "the kind of an exception"),
    };
    Ok(Exception { call: (word >> 32) as u32, iterations, kind })
}

fn exception_values<'a>(reader: &mut Reader<'a>, count: u8) -> Read<Values<'a>> {
    let start = reader.at();
    for _ in 0..count {
        let came = outcome(reader)?;
        let good = matches!(came, Outcome::Handle { .. } | Outcome::Value(_));
        reader.check(good, "a value of an exception")?;
    }
    Ok(Values { count: u32::from(count), bytes: reader.since(start) })
}
