//! Names and numbers, each a type of its own.

use std::fmt;
use std::num::NonZeroU64;

use crate::Error;

/// The name of a persistent object: 1 ..= [`Oref::MAX`], never given twice in the life of a store.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Oref(NonZeroU64);

impl Oref {
    /// The root directory, which is there from the start and never collected.
    pub const ROOT: Oref = Oref(NonZeroU64::MIN);
    /// The largest number of an oref: the largest in a signed 64-bit column of a database.
    pub const MAX: u64 = i64::MAX as u64;

    /// The oref with that number; none for 0 and above [`Oref::MAX`].
    pub fn new(number: u64) -> Option<Oref> {
        NonZeroU64::new(number).filter(|n| n.get() <= Oref::MAX).map(Oref)
    }

    /// Its number.
    pub fn get(self) -> u64 {
        self.0.get()
    }
}

impl fmt::Debug for Oref {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "oref {}", self.0)
    }
}

impl fmt::Display for Oref {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The identity of a store: 16 random bytes, made with the store. As text they are 32 hexadecimal
/// digits.
///
/// Two processes that have stores of one identity have the same commits: a batch that one of them
/// has committed is known to the other. A copy of a store has another identity, because it lacks
/// later commits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity([u8; Identity::BYTES]);

impl Identity {
    /// The bytes of an identity.
    pub const BYTES: usize = 16;

    /// Returns a new identity.
    ///
    /// # Errors
    /// [`Error::Io`] if the system has no random numbers.
    pub fn random() -> Result<Identity, Error> {
        let mut bytes = [0; Identity::BYTES];
        getrandom::fill(&mut bytes).map_err(|error| {
            let source = std::io::Error::other(error.to_string());
            Error::Io { what: "making the identity of a store", source }
        })?;
        Ok(Identity(bytes))
    }

    /// Returns the identity with these bytes.
    pub fn from_bytes(bytes: [u8; Identity::BYTES]) -> Identity {
        Identity(bytes)
    }

    /// Returns the bytes.
    pub fn as_bytes(&self) -> &[u8; Identity::BYTES] {
        &self.0
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "store {self}")
    }
}

/// The number of a commit, counted from 1; as the version of an object, that of the commit that
/// wrote its state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tid(pub u64);

impl Tid {
    /// Before every commit.
    pub const NONE: Tid = Tid(0);
}

impl fmt::Display for Tid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The number of a class in one store: small, counted from 1, never given to another class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassNumber(pub u32);

impl ClassNumber {
    /// The class of directories, which every store has from the start.
    pub const DIRECTORY: ClassNumber = ClassNumber(1);
}

impl fmt::Display for ClassNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The batch and session that a commit belongs to, so that it is done exactly once.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BatchId {
    /// The session's token: 128 random bits.
    pub session: u128,
    /// The batch's number, growing within the session.
    pub number: u64,
}

impl fmt::Debug for BatchId {
    /// Without the token, which is a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "batch {}", self.number)
    }
}
