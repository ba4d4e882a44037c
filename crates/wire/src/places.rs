//! The places of a failure in a reply: routine, file and line, the innermost first.
//!
//! They follow the values of a `failure`, for clients that may see them. [`PlaceList`] is the
//! list to be written, [`Places`] the list that was read; it borrows from the bytes.

use crate::word::{Read, Reader, padded};

/// Most places of a failure. Those of calls further out are counted.
pub const PLACES_MAX: usize = 32;

/// Most bytes of the name of a routine or file in a place; a writer cuts longer ones.
pub const PLACE_BYTES_MAX: usize = 255;

/// A place in the program of the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place<'a> {
    /// The routine or method.
    pub routine: &'a str,
    /// The file; empty if it is not known.
    pub file: &'a str,
    /// The line, counted from 1; 0 if it is not known.
    pub line: u32,
}

impl std::fmt::Display for Place<'_> {
    /// Writes `Stack.push (lib/stack.theta:17)`, without the parts that are not known.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.routine)?;
        match (self.file, self.line) {
            ("", _) => Ok(()),
            (file, 0) => write!(f, " ({file})"),
            (file, line) => write!(f, " ({file}:{line})"),
        }
    }
}

/// The places of a failure, to be written.
#[derive(Clone, Copy, Default, Debug)]
pub struct PlaceList<'p> {
    /// The innermost places, of which [`PLACES_MAX`] are written.
    pub places: &'p [Place<'p>],
    /// The number of calls further out.
    pub more: u64,
}

impl<'p> PlaceList<'p> {
    /// No places.
    pub const NONE: PlaceList<'static> = PlaceList { places: &[], more: 0 };

    /// Returns the places that are written.
    pub(crate) fn written(&self) -> &'p [Place<'p>] {
        &self.places[..self.places.len().min(PLACES_MAX)]
    }

    /// Returns the number of bytes that they take in a reply.
    pub fn bytes(&self) -> usize {
        let string = |text: &str| 8 + padded(cut(text).len());
        let places = self.written().iter().map(|place| 8 + string(place.routine) + string(place.file));
        let bytes: usize = places.sum();
        if bytes == 0 { 0 } else { 8 + bytes }
    }

    /// Appends them; the head of the exception has their number.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let places = self.written();
        if places.is_empty() {
            return;
        }
        let cut_off = (self.places.len() - places.len()) as u64;
        out.extend_from_slice(&(self.more.saturating_add(cut_off)).to_le_bytes());
        for place in places {
            out.extend_from_slice(&u64::from(place.line).to_le_bytes());
            for text in [place.routine, place.file] {
                let text = cut(text);
                out.extend_from_slice(&(text.len() as u64).to_le_bytes());
                out.extend_from_slice(text.as_bytes());
                out.resize(out.len() + padded(text.len()) - text.len(), 0);
            }
        }
    }
}

/// Returns the part of a name that is written.
fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(PLACE_BYTES_MAX)]
}

/// The places of a failure, still in the bytes they came in.
#[derive(Clone, Copy, PartialEq)]
pub struct Places<'a> {
    count: u8,
    /// The number of calls further out than the places.
    pub more: u64,
    bytes: &'a [u8],
}

impl<'a> Places<'a> {
    /// No places.
    pub const NONE: Places<'static> = Places { count: 0, more: 0, bytes: &[] };

    /// Reads so many places.
    pub(crate) fn read(reader: &mut Reader<'a>, count: u8) -> Read<Places<'a>> {
        if count == 0 {
            return Ok(Places::NONE);
        }
        reader.check(usize::from(count) <= PLACES_MAX, "a count of places")?;
        let more = reader.word()?;
        let start = reader.at();
        for _ in 0..count {
            place(reader)?;
        }
        Ok(Places { count, more, bytes: reader.since(start) })
    }

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the places, the innermost first.
    pub fn iter(&self) -> impl Iterator<Item = Place<'a>> + use<'a> {
        let mut reader = Reader::new(self.bytes, self.bytes.len());
        // They were read once when the reply was decoded.
        (0..self.count).map_while(move |_| place(&mut reader).ok())
    }

    /// Returns the lines for people: `  at Stack.push (lib/stack.theta:17)`, and at the end
    /// `  ... 9 more`.
    pub fn lines(&self) -> impl Iterator<Item = String> + use<'a> {
        let more = (self.more > 0).then(|| format!("  ... {} more", self.more));
        self.iter().map(|place| format!("  at {place}")).chain(more)
    }
}

impl std::fmt::Debug for Places<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

fn place<'a>(reader: &mut Reader<'a>) -> Read<Place<'a>> {
    let line = reader.word()?;
    reader.check(line <= u64::from(u32::MAX), "the number of a line")?;
    let mut name = || {
        let name = reader.string()?;
        reader.check(name.len() <= PLACE_BYTES_MAX, "a name of a place no longer than its limit")?;
        Ok(name)
    };
    Ok(Place { line: line as u32, routine: name()?, file: name()? })
}
