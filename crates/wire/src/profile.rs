//! The profile of a batch: its time, and the cost of each of its commands.
//!
//! It ends the reply to a batch of a session that asked for profiles. [`Profile`] is one that was
//! read, and borrows from the bytes; [`OwnedProfile`] is one that is kept. [`Totals`], [`Entry`]
//! and [`Rest`] are its parts, by which it is also written. The layout is in `docs/spec/wire.md`,
//! section 4.

use std::fmt;

use crate::encode::{head, word};
use crate::error::ErrorNumber;
use crate::word::{Read, Reader};

/// The bytes of a profile without entries.
pub const PROFILE_BYTES: usize = 32;

/// The bytes of an entry of a profile, and those of its rest.
pub const ENTRY_BYTES: usize = 32;

/// The kinds of entries.
pub mod kind {
    /// A command outside structures.
    pub const COMMAND: u8 = 0;
    /// A whole structure.
    pub const STRUCTURE: u8 = 1;
    /// All commands and structures without an entry of their own.
    pub const REST: u8 = 2;
}

/// The time of a whole batch, and the objects that were fetched for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// The time that the server spent on the batch.
    pub nanoseconds: u64,
    /// The requests of the session to its repository for objects.
    pub fetches: u32,
    /// The objects that came with them.
    pub objects: u32,
    /// The number of times that the batch was run: more than 1 only of a transaction.
    pub runs: u32,
}

impl fmt::Display for Totals {
    /// Writes `84.2 us, 2 fetches, 9 objects, 3 runs`, without counts that are 0 and without one
    /// run.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_time(f, self.nanoseconds)?;
        write_fetches(f, self.fetches, self.objects)?;
        if self.runs > 1 { write!(f, ", {} runs", self.runs) } else { Ok(()) }
    }
}

/// The cost of a command, a structure, or several of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cost {
    /// The time from begin to end.
    pub nanoseconds: u64,
    /// The calls that were run.
    pub calls: u32,
    /// The fuel that was used.
    pub fuel: u32,
    /// The requests of the session to its repository for objects.
    pub fetches: u32,
    /// The objects that came with them.
    pub objects: u32,
}

impl Cost {
    /// Adds another cost.
    pub fn add(&mut self, other: &Cost) {
        self.nanoseconds = self.nanoseconds.saturating_add(other.nanoseconds);
        self.calls = self.calls.saturating_add(other.calls);
        self.fuel = self.fuel.saturating_add(other.fuel);
        self.fetches = self.fetches.saturating_add(other.fetches);
        self.objects = self.objects.saturating_add(other.objects);
    }

    fn read(reader: &mut Reader<'_>) -> Read<Cost> {
        let (nanoseconds, ran, fetched) = (reader.word()?, reader.word()?, reader.word()?);
        Ok(Cost {
            nanoseconds,
            calls: ran as u32,
            fuel: (ran >> 32) as u32,
            fetches: fetched as u32,
            objects: (fetched >> 32) as u32,
        })
    }

    fn write(&self, out: &mut Vec<u8>) {
        word(out, self.nanoseconds);
        word(out, u64::from(self.calls) | u64::from(self.fuel) << 32);
        word(out, u64::from(self.fetches) | u64::from(self.objects) << 32);
    }
}

impl fmt::Display for Cost {
    /// Writes `61.0 us, 1 calls, fuel 1, 2 fetches, 9 objects`, without counts that are 0.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_time(f, self.nanoseconds)?;
        if self.calls > 0 {
            write!(f, ", {} calls", self.calls)?;
        }
        if self.fuel > 0 {
            write!(f, ", fuel {}", self.fuel)?;
        }
        write_fetches(f, self.fetches, self.objects)
    }
}

fn write_time(f: &mut fmt::Formatter<'_>, nanoseconds: u64) -> fmt::Result {
    // Tenths of a microsecond, rounded.
    let tenths = nanoseconds / 100 + u64::from(nanoseconds % 100 >= 50);
    write!(f, "{}.{} us", tenths / 10, tenths % 10)
}

fn write_fetches(f: &mut fmt::Formatter<'_>, fetches: u32, objects: u32) -> fmt::Result {
    if fetches > 0 {
        write!(f, ", {fetches} fetches")?;
    }
    if objects > 0 { write!(f, ", {objects} objects") } else { Ok(()) }
}

/// The subject of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Subject {
    /// A command outside structures.
    Command,
    /// A whole structure.
    Structure,
}

/// The cost of one command outside structures, or of one structure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The kind of its subject.
    pub subject: Subject,
    /// The first position of the command's results; of a structure, the first position after its
    /// begin marker.
    pub call: u32,
    /// The cost.
    pub cost: Cost,
}

impl Entry {
    fn read(reader: &mut Reader<'_>) -> Read<Entry> {
        let word = reader.word()?;
        let (subject, call) = match (word as u32, (word >> 32) as u32) {
            (_, 0) => return reader.bad(ErrorNumber::BadWord, "the position of a call"),
            (0, call) => (Subject::Command, call),
            (1, call) => (Subject::Structure, call),
            _ => return reader.bad(ErrorNumber::BadWord, "the kind of an entry"),
        };
        Ok(Entry { subject, call, cost: Cost::read(reader)? })
    }
}

/// The commands and structures without an entry of their own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rest {
    /// Their number, at least 1.
    pub omitted: u32,
    /// Their cost.
    pub cost: Cost,
}

/// A profile, still in the bytes it came in.
#[derive(Clone, Copy, PartialEq)]
pub struct Profile<'a> {
    /// The time of the whole batch.
    pub totals: Totals,
    /// The commands and structures without an entry, if there are any.
    pub rest: Option<Rest>,
    entries: &'a [u8],
}

impl<'a> Profile<'a> {
    /// Returns the entries, in the order in which their commands were run.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = Entry> + use<'a> {
        self.entries.chunks_exact(ENTRY_BYTES).map(|bytes| {
            let mut reader = Reader::new(bytes, bytes.len());
            // They were read once when the reply was decoded.
            Entry::read(&mut reader).unwrap_or(Entry {
                subject: Subject::Command,
                call: 0,
                cost: Cost::default(),
            })
        })
    }

    pub(crate) fn read(reader: &mut Reader<'a>) -> Read<Profile<'a>> {
        let (nanoseconds, fetched, runs) = (reader.word()?, reader.word()?, reader.word()?);
        reader.check(runs >> 32 == 0, "zeros behind the number of runs")?;
        let (fetches, objects) = (fetched as u32, (fetched >> 32) as u32);
        let totals = Totals { nanoseconds, fetches, objects, runs: runs as u32 };
        let counts = reader.word()?;
        let (count, omitted) = (counts as u32, (counts >> 32) as u32);
        let start = reader.at();
        for _ in 0..count {
            Entry::read(reader)?;
        }
        let entries = reader.since(start);
        let rest = match omitted {
            0 => None,
            omitted => {
                let word = reader.word()?;
                reader.check(word == u64::from(kind::REST), "the rest of a profile")?;
                Some(Rest { omitted, cost: Cost::read(reader)? })
            }
        };
        Ok(Profile { totals, rest, entries })
    }
}

impl fmt::Debug for Profile<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Profile")
            .field("totals", &self.totals)
            .field("entries", &self.entries().collect::<Vec<_>>())
            .field("rest", &self.rest)
            .finish()
    }
}

/// A profile of its own.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OwnedProfile {
    /// The time of the whole batch.
    pub totals: Totals,
    /// The entries, in the order in which their commands were run.
    pub entries: Box<[Entry]>,
    /// The commands and structures without an entry, if there are any.
    pub rest: Option<Rest>,
}

impl From<Profile<'_>> for OwnedProfile {
    fn from(profile: Profile<'_>) -> OwnedProfile {
        OwnedProfile { totals: profile.totals, entries: profile.entries().collect(), rest: profile.rest }
    }
}

/// Appends a profile.
pub(crate) fn write(
    out: &mut Vec<u8>,
    totals: &Totals,
    entries: impl ExactSizeIterator<Item = Entry>,
    rest: Option<&Rest>,
) {
    word(out, totals.nanoseconds);
    word(out, u64::from(totals.fetches) | u64::from(totals.objects) << 32);
    word(out, u64::from(totals.runs));
    word(out, entries.len() as u64 | u64::from(rest.map_or(0, |rest| rest.omitted)) << 32);
    for entry in entries {
        let kind = match entry.subject {
            Subject::Command => kind::COMMAND,
            Subject::Structure => kind::STRUCTURE,
        };
        word(out, head(kind, 0, entry.call));
        entry.cost.write(out);
    }
    if let Some(rest) = rest {
        word(out, head(kind::REST, 0, 0));
        rest.cost.write(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_in_words() {
        let nothing = Cost { nanoseconds: 49, ..Cost::default() };
        assert_eq!(nothing.to_string(), "0.0 us");
        let all = Cost { nanoseconds: 60_950, calls: 1, fuel: 2, fetches: 3, objects: 4 };
        assert_eq!(all.to_string(), "61.0 us, 1 calls, fuel 2, 3 fetches, 4 objects");
        let totals = Totals { nanoseconds: 84_249, fetches: 2, objects: 0, runs: 1 };
        assert_eq!(totals.to_string(), "84.2 us, 2 fetches");
        assert_eq!(Totals { runs: 3, fetches: 0, ..totals }.to_string(), "84.2 us, 3 runs");
        assert!(Totals { nanoseconds: u64::MAX, ..totals }.to_string().starts_with("18446744073709551.6 us"));
    }

    #[test]
    fn costs_are_added_up_to_the_greatest_number() {
        let mut sum = Cost { nanoseconds: u64::MAX - 1, calls: u32::MAX, fuel: 1, fetches: 2, objects: 3 };
        sum.add(&Cost { nanoseconds: 2, calls: 1, fuel: 10, fetches: 20, objects: 30 });
        let expected = Cost { nanoseconds: u64::MAX, calls: u32::MAX, fuel: 11, fetches: 22, objects: 33 };
        assert_eq!(sum, expected);
    }
}
