//! The set of all orefs that have an object in the base, with a tag of the state of each.
//!
//! A seal detects a state that was changed, or that is in another's place. It does not detect an
//! older state of the same object: a sector that was not written, or whose place got a copy of what
//! redb had left elsewhere. So a fetched state is compared with its object's tag as well, and an
//! object without a state with the set. 16 bits are enough: an older state passes once in 65,535
//! times.

use std::collections::BTreeMap;
use std::num::NonZeroU16;

use crate::Oref;

/// The tag of a state: 16 bits of its seal.
pub type Tag = NonZeroU16;

/// The tag of a state with that seal.
pub fn tag_of(seal: u64) -> Tag {
    NonZeroU16::new(seal as u16).unwrap_or(NonZeroU16::MAX)
}

/// The tags of [`PAGE`] orefs.
pub type Page = Box<[Option<Tag>; PAGE]>;

/// Orefs of a page.
pub const PAGE: usize = 256;

/// Bytes of a page in its row.
pub const PAGE_BYTES: usize = 2 * PAGE;

/// Returns the number of the page of an oref, and its place there.
pub fn place(oref: Oref) -> (u64, usize) {
    (oref.get() / PAGE as u64, (oref.get() % PAGE as u64) as usize)
}

/// Tags by oref, two bytes for each, in pages, because orefs are dense. A page without tags is not
/// kept.
#[derive(Default)]
pub struct Present {
    pages: BTreeMap<u64, Page>,
    count: u64,
}

impl Present {
    /// Returns the tag of an object; none if there is no object.
    pub fn tag(&self, oref: Oref) -> Option<Tag> {
        let (number, at) = place(oref);
        self.pages.get(&number)?[at]
    }

    /// Returns the number of objects.
    pub fn len(&self) -> u64 {
        self.count
    }

    /// Returns the first `limit` orefs from `from` on.
    pub fn from(&self, from: Oref, limit: usize) -> Vec<Oref> {
        let (first, _) = place(from);
        let orefs = self.pages.range(first..).flat_map(|(number, page)| {
            let base = number * PAGE as u64;
            let there = (base..).zip(page.iter()).filter(|(_, tag)| tag.is_some());
            there.filter_map(|(oref, _)| Oref::new(oref))
        });
        orefs.filter(|oref| *oref >= from).take(limit).collect()
    }

    /// Returns a copy of a page, to be changed.
    pub fn page(&self, number: u64) -> Page {
        self.pages.get(&number).cloned().unwrap_or_else(|| Box::new([None; PAGE]))
    }

    /// Puts a page in the place of the one with its number.
    pub fn put_page(&mut self, number: u64, page: Page) {
        let tags = |page: &Page| page.iter().flatten().count() as u64;
        let count = tags(&page);
        let old = match count {
            0 => self.pages.remove(&number),
            _ => self.pages.insert(number, page),
        };
        self.count = self.count + count - old.map_or(0, |old| tags(&old));
    }
}

/// Returns the bytes of a page: two for each oref, little-endian, 0 where no object is. None if it
/// has no tags.
pub fn encode(page: &Page) -> Option<[u8; PAGE_BYTES]> {
    let mut bytes = [0; PAGE_BYTES];
    for (bytes, tag) in bytes.as_chunks_mut::<2>().0.iter_mut().zip(page.iter()) {
        *bytes = tag.map_or(0, Tag::get).to_le_bytes();
    }
    page.iter().any(Option::is_some).then_some(bytes)
}

/// Returns the page with those bytes; none if it is not one.
pub fn decode(bytes: &[u8]) -> Option<Page> {
    let bytes = <&[u8; PAGE_BYTES]>::try_from(bytes).ok()?;
    let mut page = Box::new([None; PAGE]);
    for (tag, bytes) in page.iter_mut().zip(bytes.as_chunks::<2>().0) {
        *tag = Tag::new(u16::from_le_bytes(*bytes));
    }
    Some(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn oref(number: u64) -> Oref {
        Oref::new(number).unwrap()
    }

    #[test]
    fn pages_are_what_was_put_and_empty_ones_are_not_kept() {
        let mut present = Present::default();
        let orefs = [1, 255, 256, 257, 5000].map(oref);
        for (tag, oref) in (7..).zip(orefs) {
            let (number, at) = place(oref);
            let mut page = present.page(number);
            page[at] = Tag::new(tag);
            present.put_page(number, decode(&encode(&page).unwrap()).unwrap());
        }
        assert_eq!(present.len(), 5);
        assert_eq!(present.from(oref(1), 10), orefs);
        assert_eq!(present.from(oref(256), 2), orefs[2..4]);
        assert_eq!(present.from(oref(5001), 2), []);
        assert_eq!(present.tag(oref(257)), Tag::new(10));
        assert_eq!(present.tag(oref(258)), None);
        assert!(encode(&present.page(3)).is_none());
        present.put_page(0, present.page(3));
        assert_eq!((present.len(), present.pages.len()), (3, 2));
        assert!(decode(&[0; 511]).is_none());
        assert_eq!(tag_of(1 << 16).get(), u16::MAX);
    }
}
