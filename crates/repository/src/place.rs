//! Where a store is, as settings and commands say it.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use crate::memory::Memory;
use crate::{Error, MEMORY_BYTES_MAX, Repository, embedded, postgres};

/// Where a store is. Shown without a password.
#[derive(Clone, Debug)]
pub enum Place {
    /// `memory:`: nowhere, for as long as the process runs.
    Memory {
        /// Most bytes of the objects.
        bytes_max: u64,
    },
    /// `postgres://...`: in a database.
    Database(Box<postgres::Address>),
    /// Anything else: in a folder.
    Folder(PathBuf),
}

impl FromStr for Place {
    type Err = Error;

    fn from_str(text: &str) -> Result<Place, Error> {
        Ok(match text {
            "" => return Err(Error::NoPlace),
            "memory:" => Place::Memory { bytes_max: MEMORY_BYTES_MAX },
            url if postgres::is_url(url) => Place::Database(Box::new(url.parse()?)),
            folder => Place::Folder(folder.into()),
        })
    }
}

impl Place {
    /// True if there is a store.
    pub fn has_store(&self) -> Result<bool, Error> {
        match self {
            Place::Memory { .. } => Ok(false),
            Place::Database(address) => postgres::exists(address, &postgres::Options::default()),
            Place::Folder(folder) => Ok(embedded::exists(folder)),
        }
    }

    /// Opens the store; makes one if there is none.
    pub fn open(&self) -> Result<Arc<dyn Repository>, Error> {
        Ok(match self {
            Place::Memory { bytes_max } => Arc::new(Memory::within(*bytes_max)),
            Place::Database(address) => Arc::new(postgres::open(address, &postgres::Options::default())?),
            Place::Folder(folder) => Arc::new(embedded::open(folder, &embedded::Options::default())?),
        })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Memory { .. } => write!(f, "memory:"),
            Place::Database(address) => write!(f, "{address}"),
            Place::Folder(folder) => write!(f, "{}", folder.display()),
        }
    }
}
