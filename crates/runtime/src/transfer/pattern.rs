//! Message patterns: the facts about the values of every message for one method, or of every
//! result, before there is any.
//!
//! A pattern is made once, when a program is linked. Values of which none is a reference lead to no
//! object. So they are sent as their words, one after the other. Reading them needs no more than to
//! compare the words of kinds that do not allow each. All others go the general way. There is one
//! form of the bytes, that of [`encode`], for all writers.

use bifrost_ir::{Signature, Types};
use smallvec::SmallVec;

use super::{AddressOf, NotReceived, NotSent, ObjectAt, Wrong, decode, encode};
use crate::abi::Word;
use crate::content::{Place, PlaceKind, Values};
use crate::cx::Cx;
use crate::roots::KeptAll;

/// Bytes of a value that is no reference.
const WORD_BYTES: usize = size_of::<Word>();

/// The facts about the values of messages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pattern {
    places: Box<[Place]>,
    /// The places that are references: a bit for each.
    references: u32,
    /// Those of the others that do not allow each word.
    narrow: Box<[(usize, PlaceKind)]>,
}

impl Pattern {
    /// For values of these places, at most 32.
    pub fn new(places: impl IntoIterator<Item = Place>) -> Pattern {
        let places: Box<[Place]> = places.into_iter().collect();
        let bits = places.iter().enumerate();
        let references = bits.fold(0, |all, (at, place)| all | u32::from(place.is_reference()) << at);
        let is_narrow = |kind| matches!(kind, PlaceKind::Null | PlaceKind::Bool | PlaceKind::Char);
        let kinds = places.iter().map(|place| place.kind).enumerate();
        let narrow = kinds.filter(|(_, kind)| is_narrow(*kind)).collect();
        Pattern { places, references, narrow }
    }

    /// For the arguments of a method or creator.
    pub fn of_arguments(types: &Types, signature: &Signature) -> Pattern {
        Pattern::new(signature.params.iter().map(|param| Place::new(types, param.ty)))
    }

    /// For the result of a method, if it has one.
    pub fn of_result(types: &Types, signature: &Signature) -> Pattern {
        Pattern::new(signature.results.first().map(|ty| Place::new(types, *ty)))
    }

    /// The number of values.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// True if none is a reference.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.references == 0
    }

    /// Keeps those that are references.
    #[inline]
    pub fn keep(&self, cx: &mut Cx, values: &[Word]) -> Option<KeptAll> {
        if self.is_plain() {
            return None;
        }
        let references = values.iter().enumerate().filter(|(at, _)| self.references >> at & 1 == 1);
        let references: SmallVec<[Word; 8]> = references.map(|(_, word)| *word).collect();
        Some(cx.keep_all(&references))
    }

    /// As [`encode`].
    ///
    /// # Errors
    /// [`NotSent`]
    ///
    /// # Safety
    /// There are as many values as places, and each has the type of its place.
    #[inline]
    pub unsafe fn write(
        &self,
        cx: &mut Cx,
        values: &[Word],
        address: &mut AddressOf<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), NotSent> {
        if self.is_plain() {
            debug_assert_eq!(values.len(), self.len(), "a value for each place");
            let start = out.len();
            out.resize(start + values.len() * WORD_BYTES, 0);
            for (to, word) in out[start..].as_chunks_mut().0.iter_mut().zip(values) {
                *to = word.to_le_bytes();
            }
            return Ok(());
        }
        // SAFETY: promised by the caller.
        let values = unsafe { Values::new(values, &self.places) };
        encode(cx, values, address, out)
    }

    /// As [`decode`]; `words` is as long as the pattern, and gets the values.
    ///
    /// # Errors
    /// [`NotReceived`]; `words` is as it was.
    #[inline]
    pub fn read(
        &self,
        cx: &mut Cx,
        bytes: &mut &[u8],
        reference: &mut ObjectAt<'_>,
        words: &mut [Word],
    ) -> Result<(), NotReceived> {
        if !self.is_plain() {
            words.copy_from_slice(&decode(cx, bytes, &self.places, reference)?);
            return Ok(());
        }
        debug_assert_eq!(words.len(), self.len(), "a word for each place");
        let length = bytes.len();
        let Some((values, rest)) = bytes.split_at_checked(self.len() * WORD_BYTES) else {
            return Err(NotReceived::Malformed { at: length - length % WORD_BYTES, wrong: Wrong::Short });
        };
        let (values, _) = values.as_chunks::<WORD_BYTES>();
        for (at, kind) in &self.narrow {
            let word = Word::from_le_bytes(values[*at]);
            if !kind.allows(word) {
                let at = (at + 1) * WORD_BYTES;
                return Err(NotReceived::Malformed { at, wrong: Wrong::Basic(word, *kind) });
            }
        }
        for (word, bytes) in words.iter_mut().zip(values) {
            *word = Word::from_le_bytes(*bytes);
        }
        *bytes = rest;
        Ok(())
    }
}
