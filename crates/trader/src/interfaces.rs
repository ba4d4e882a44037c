//! The interfaces that a board knows, by digest, and the results of comparisons of two.
//!
//! An interface is kept as its canonical JSON, once. A comparison needs another form of it, which
//! takes more room, so only the last `interfaces_read_max` have it. An interface that an offer uses
//! stays; of the others the one that was not used for the longest time goes when room is needed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bifrost_wire::interface::{Kind, Numbering, conforms};
use bifrost_wire::{Digest, Interface, InterfaceError, TypeNumber};
use thiserror::Error;

use crate::limits::Limits;
use crate::text::shown;

/// The reason why an interface is refused.
#[derive(Debug, Error)]
pub enum BadInterface {
    /// Too many bytes.
    #[error("the interface has {bytes} bytes, and `trader.interface_bytes_max` is {max}")]
    TooLarge {
        /// The bytes.
        bytes: usize,
        /// The limit.
        max: u64,
    },
    /// No interface description.
    #[error(transparent)]
    Form(#[from] InterfaceError),
    /// The offers have interfaces that leave no room.
    #[error(
        "the interfaces of all offers leave no room within `trader.interfaces_bytes_max`, which is {max}"
    )]
    NoRoom {
        /// The limit.
        max: u64,
    },
}

/// The reason why an offer's type cannot be listed.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum BadService {
    /// The interface was not taught, or is forgotten.
    #[error("the interface is not known here; teach it first")]
    UnknownInterface,
    /// The interface has no such type.
    #[error("the interface has no type `{0}`")]
    NoSuchType(String),
    /// The type has no objects that clients could hold.
    #[error("`{0}` is no type of objects")]
    NotObject(String),
    /// Too many supertypes.
    #[error("`{service}` and its supertypes have {count} names, and `trader.supertypes_max` is {max}")]
    Supertypes {
        /// The type.
        service: String,
        /// Its names.
        count: usize,
        /// The limit.
        max: u64,
    },
}

/// An interface.
#[derive(Debug)]
struct Known {
    /// The canonical JSON.
    json: Arc<[u8]>,
    /// The number of offers with this interface.
    offers: usize,
    /// The moment of its last use, as a count of uses.
    used: u64,
}

/// The key of a comparison: the two digests, the wanted type and the offered type.
type Compared = (Digest, Digest, Arc<str>, Arc<str>);

/// All interfaces of a board.
#[derive(Debug, Default)]
pub(crate) struct Interfaces {
    known: BTreeMap<Digest, Known>,
    /// Interfaces that no offer has, by their last use.
    unused: BTreeSet<(u64, Digest)>,
    bytes: u64,
    uses: u64,
    /// Interfaces in the form for comparisons, the last used at the end.
    read: Vec<(Digest, Arc<Numbering>)>,
    compared: BTreeMap<Compared, bool>,
}

impl Interfaces {
    /// Keeps an interface, and returns its digest. Interfaces that no offer has make room.
    pub(crate) fn teach(&mut self, json: &[u8], limits: &Limits) -> Result<Digest, BadInterface> {
        if json.len() as u64 > limits.interface_bytes_max {
            return Err(BadInterface::TooLarge { bytes: json.len(), max: limits.interface_bytes_max });
        }
        let numbering = Arc::new(Numbering::new(Interface::from_json(json)?));
        let digest = *numbering.digest();
        if self.use_one(&digest) {
            return Ok(digest);
        }
        let json: Arc<[u8]> = numbering.interface().to_json().into();
        let (bytes, max) = (json.len() as u64, limits.interfaces_bytes_max);
        // Canonical JSON can have more bytes than the text that it was read from: escapes.
        if bytes > limits.interface_bytes_max {
            return Err(BadInterface::TooLarge { bytes: json.len(), max: limits.interface_bytes_max });
        }
        while self.bytes + bytes > max {
            let Some((_, oldest)) = self.unused.pop_first() else { return Err(BadInterface::NoRoom { max }) };
            self.forget(&oldest);
        }
        self.bytes += bytes;
        self.uses += 1;
        self.known.insert(digest, Known { json, offers: 0, used: self.uses });
        self.unused.insert((self.uses, digest));
        self.remember_read(digest, numbering, limits);
        Ok(digest)
    }

    fn forget(&mut self, digest: &Digest) {
        if let Some(known) = self.known.remove(digest) {
            self.bytes -= known.json.len() as u64;
        }
        self.read.retain(|(read, _)| read != digest);
    }

    /// Notes a use; false if the interface is not known.
    pub(crate) fn use_one(&mut self, digest: &Digest) -> bool {
        let Some(known) = self.known.get_mut(digest) else { return false };
        self.uses += 1;
        if self.unused.remove(&(known.used, *digest)) {
            self.unused.insert((self.uses, *digest));
        }
        known.used = self.uses;
        true
    }

    /// Returns an interface as its canonical JSON.
    pub(crate) fn get(&self, digest: &Digest) -> Option<Arc<[u8]>> {
        Some(self.known.get(digest)?.json.clone())
    }

    /// Notes that an offer has this interface.
    pub(crate) fn hold(&mut self, digest: &Digest) {
        if let Some(known) = self.known.get_mut(digest) {
            self.unused.remove(&(known.used, *digest));
            known.offers += 1;
        }
    }

    /// Notes that an offer with this interface is gone.
    pub(crate) fn release(&mut self, digest: &Digest) {
        if let Some(known) = self.known.get_mut(digest) {
            known.offers = known.offers.saturating_sub(1);
            if known.offers == 0 {
                self.unused.insert((known.used, *digest));
            }
        }
    }

    /// Returns the names under which objects of a type are listed: its own, and all of its
    /// supertypes but `any`.
    pub(crate) fn names(
        &mut self,
        digest: &Digest,
        service: &str,
        limits: &Limits,
    ) -> Result<Vec<Arc<str>>, BadService> {
        let numbering = self.read(digest, limits).ok_or(BadService::UnknownInterface)?;
        let interface = numbering.interface();
        let short = || shown(service).into_owned();
        let own = numbering.find_type(service).ok_or_else(|| BadService::NoSuchType(short()))?;
        if interface.ty(own).is_none_or(|ty| ty.kind != Kind::Object) {
            return Err(BadService::NotObject(short()));
        }
        let mut names: BTreeSet<&str> = BTreeSet::new();
        for ty in interface.supertypes(own).filter_map(|number| interface.ty(number)) {
            if ty.kind == Kind::Object {
                names.insert(&ty.name);
                names.extend(ty.names.iter().map(String::as_str));
            }
        }
        if names.len() as u64 > limits.supertypes_max {
            let (count, max) = (names.len(), limits.supertypes_max);
            return Err(BadService::Supertypes { service: short(), count, max });
        }
        Ok(names.into_iter().map(Arc::from).collect())
    }

    /// True if objects of an offered type can be used as a client's type. Nothing if that is not
    /// known yet, and `left`, the number of comparisons that may still be made, is 0.
    pub(crate) fn conforms(
        &mut self,
        client: &Digest,
        wanted: &Arc<str>,
        server: &Digest,
        offered: &Arc<str>,
        left: &mut u64,
        limits: &Limits,
    ) -> Option<bool> {
        if client == server && wanted == offered {
            return Some(true);
        }
        let key = (*client, *server, wanted.clone(), offered.clone());
        if let Some(known) = self.compared.get(&key) {
            return Some(*known);
        }
        *left = left.checked_sub(1)?;
        let result = self.compare(client, wanted, server, offered, limits);
        // All at once: what is used is known again after a few comparisons.
        if self.compared.len() as u64 >= limits.comparisons_max {
            self.compared.clear();
        }
        self.compared.insert(key, result);
        Some(result)
    }

    fn compare(
        &mut self,
        client: &Digest,
        wanted: &str,
        server: &Digest,
        offered: &str,
        limits: &Limits,
    ) -> bool {
        let (Some(own), Some(theirs)) = (self.read(client, limits), self.read(server, limits)) else {
            return false;
        };
        let type_of = |numbering: &Numbering, name: &str| -> Option<TypeNumber> { numbering.find_type(name) };
        match (type_of(&own, wanted), type_of(&theirs, offered)) {
            (Some(wanted), Some(offered)) => conforms(&own, wanted, &theirs, offered).is_ok(),
            _ => false,
        }
    }

    /// Returns an interface in the form for comparisons.
    fn read(&mut self, digest: &Digest, limits: &Limits) -> Option<Arc<Numbering>> {
        if let Some(at) = self.read.iter().position(|(read, _)| read == digest) {
            let entry = self.read.remove(at);
            let numbering = entry.1.clone();
            self.read.push(entry);
            return Some(numbering);
        }
        let interface = Interface::from_json(&self.known.get(digest)?.json).ok()?;
        let numbering = Arc::new(Numbering::new(interface));
        self.remember_read(*digest, numbering.clone(), limits);
        Some(numbering)
    }

    fn remember_read(&mut self, digest: Digest, numbering: Arc<Numbering>, limits: &Limits) {
        self.read.push((digest, numbering));
        let over = self.read.len().saturating_sub(limits.interfaces_read_max.max(2) as usize);
        self.read.drain(..over);
    }

    /// Returns the number of interfaces and their bytes.
    pub(crate) fn size(&self) -> (usize, u64) {
        (self.known.len(), self.bytes)
    }
}

#[cfg(test)]
mod tests;
