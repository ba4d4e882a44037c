//! Reading words from bytes that a peer chose.

use crate::error::{DecodeError, ErrorNumber};

/// The reason why reading stopped.
pub(crate) enum Stop {
    /// The command has at least this many bytes.
    Need(usize),
    /// It is none.
    Bad(DecodeError),
}

pub(crate) type Read<T> = Result<T, Stop>;

/// The bytes of one command, read from the front.
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    bytes_max: usize,
}

/// Returns a length rounded up to whole words; the caller has checked that it is far from overflow.
#[inline]
pub(crate) const fn padded(length: usize) -> usize {
    (length + 7) & !7
}

#[inline]
pub(crate) fn word_at(bytes: &[u8], at: usize) -> u64 {
    match bytes.get(at..at + 8).and_then(|b| b.first_chunk::<8>()) {
        Some(word) => u64::from_le_bytes(*word),
        None => 0,
    }
}

impl<'a> Reader<'a> {
    #[inline]
    pub(crate) fn new(bytes: &'a [u8], bytes_max: usize) -> Self {
        Reader { bytes, at: 0, bytes_max }
    }

    #[inline]
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Returns the bytes read since a place.
    #[inline]
    pub(crate) fn since(&self, start: usize) -> &'a [u8] {
        self.bytes.get(start..self.at).unwrap_or(&[])
    }

    pub(crate) fn bad<T>(&self, number: ErrorNumber, what: &'static str) -> Read<T> {
        Err(Stop::Bad(DecodeError { number, offset: self.at.saturating_sub(8), what }))
    }

    #[inline]
    pub(crate) fn check(&self, holds: bool, what: &'static str) -> Read<()> {
        if holds { Ok(()) } else { self.bad(ErrorNumber::BadWord, what) }
    }

    #[inline]
    pub(crate) fn word(&mut self) -> Read<u64> {
        match self.bytes.get(self.at..).and_then(|rest| rest.first_chunk::<8>()) {
            Some(word) => {
                self.at += 8;
                Ok(u64::from_le_bytes(*word))
            }
            None => Err(Stop::Need(self.at + 8)),
        }
    }

    /// Returns the next `length` bytes; refuses a length beyond the frame before it asks for the
    /// bytes.
    #[inline]
    pub(crate) fn take(&mut self, length: u64) -> Read<&'a [u8]> {
        let left = self.bytes_max.saturating_sub(self.at) as u64;
        if length > left {
            return self.bad(ErrorNumber::FrameTooLong, "a command within the length limit");
        }
        let end = self.at + length as usize;
        match self.bytes.get(self.at..end) {
            Some(taken) => {
                self.at = end;
                Ok(taken)
            }
            None => Err(Stop::Need(end)),
        }
    }

    /// Returns a list of `count` words.
    #[inline]
    pub(crate) fn words(&mut self, count: u64) -> Read<&'a [u8]> {
        self.take(count.saturating_mul(8))
    }

    pub(crate) fn byte_string(&mut self) -> Read<&'a [u8]> {
        let length = self.word()?;
        let taken = self.take(length.checked_next_multiple_of(8).unwrap_or(u64::MAX))?;
        let (string, padding) = taken.split_at(length as usize);
        self.check(padding.iter().all(|b| *b == 0), "zeros after a string")?;
        Ok(string)
    }

    pub(crate) fn string(&mut self) -> Read<&'a str> {
        let bytes = self.byte_string()?;
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(text),
            Err(_) => self.bad(ErrorNumber::BadText, "a string in UTF-8"),
        }
    }
}
