//! Seals: keyed checksums of the values that the base has, and of the log's witness.
//!
//! A seal names its value's table and key as well, so that a value in another's place has a wrong
//! one. Every fetch checks one, which is why it is XXH3 and not BLAKE3: that would take longer than
//! the rest of the fetch. The secret is derived from the store's key, which no client knows, so
//! that bytes which a client chose look like a sealed value only by chance: one in 2^64.

use xxhash_rust::xxh3::xxh3_64_with_secret;

use crate::embedded::log::Key;

/// The bytes of a seal.
pub const SEAL: usize = 8;

/// The table of a sealed value.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub enum Table {
    /// Objects by oref.
    Objects = 1,
    /// Classes by number.
    Classes = 2,
    /// Replies by session.
    Replies = 3,
    /// Pages of the set of all orefs that have an object.
    Present = 4,
    /// The numbers of the base.
    Numbers = 5,
    /// The witness of the log, by its slot.
    Witness = 6,
    /// The identity of the store.
    Identity = 7,
}

/// The secret of a store's seals.
pub struct Seals {
    secret: [u8; 192],
}

impl Seals {
    /// Derives the secret from the store's key.
    pub fn new(key: &Key) -> Seals {
        let mut secret = [0; 192];
        blake3::Hasher::new_derive_key("bifrost store: seals of the base")
            .update(key)
            .finalize_xof()
            .fill(&mut secret);
        Seals { secret }
    }

    /// The seal of a value.
    pub fn of(&self, table: Table, id: u128, value: &[u8]) -> [u8; SEAL] {
        let mut named = [0; 8 + 16 + 1];
        named[..8].copy_from_slice(&xxh3_64_with_secret(value, &self.secret).to_le_bytes());
        named[8..24].copy_from_slice(&id.to_le_bytes());
        named[24] = table as u8;
        xxh3_64_with_secret(&named, &self.secret).to_le_bytes()
    }

    /// The value behind its seal.
    pub fn seal(&self, table: Table, id: u128, value: &[&[u8]]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(SEAL + value.iter().map(|part| part.len()).sum::<usize>());
        bytes.extend_from_slice(&[0; SEAL]);
        value.iter().for_each(|part| bytes.extend_from_slice(part));
        let seal = self.of(table, id, &bytes[SEAL..]);
        bytes[..SEAL].copy_from_slice(&seal);
        bytes
    }

    /// The value without its seal; none if the seal is wrong.
    pub fn open<'v>(&self, table: Table, id: u128, sealed: &'v [u8]) -> Option<&'v [u8]> {
        let (seal, value) = sealed.split_first_chunk::<SEAL>()?;
        (*seal == self.of(table, id, value)).then_some(value)
    }
}

/// The seal of a sealed value as a number; 0 if it has none.
pub fn seal_of(sealed: &[u8]) -> u64 {
    sealed.first_chunk().map_or(0, |seal| u64::from_le_bytes(*seal))
}
