//! Quotas, exclusive names, and offers that replace others.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Entry, Options};
use crate::board::ExportError;
use crate::limits::Limits;
use crate::offer::{Offer, OfferId};
use crate::property::names;

/// The offers of one service and name.
#[derive(Clone, Copy, Debug, Default)]
struct Named {
    offers: usize,
    /// The number of those that are exclusive: 0, or the only one.
    exclusive: usize,
}

/// The key of an export: an exporter that exports again replaces its earlier offer.
pub(super) type Key = (Arc<str>, String, Arc<str>, Arc<str>);

/// Numbers of offers.
#[derive(Debug, Default)]
pub(super) struct Counts {
    roles: BTreeMap<Arc<str>, usize>,
    sessions: BTreeMap<u64, usize>,
    names: BTreeMap<(Arc<str>, Arc<str>), Named>,
    exports: BTreeMap<Key, OfferId>,
}

/// The role, incarnation, service and name of an offer; nothing without an incarnation.
pub(super) fn key(role: &Arc<str>, offer: &Offer) -> Option<Key> {
    let incarnation = offer.properties.get(names::INCARNATION)?.to_text();
    Some((role.clone(), incarnation, offer.service.clone(), offer.name.clone()))
}

impl Counts {
    /// Returns the offer that an export replaces.
    pub(super) fn earlier(&self, role: &Arc<str>, offer: &Offer) -> Option<OfferId> {
        self.exports.get(&key(role, offer)?).copied()
    }

    /// Checks the quotas and the name of an export; `earlier` is the offer that it replaces.
    #[expect(clippy::too_many_arguments, reason = "the parts of an export, and the board's")]
    pub(super) fn check(
        &self,
        session: u64,
        role: &Arc<str>,
        offer: &Offer,
        is_exclusive: bool,
        earlier: Option<&Entry>,
        all: usize,
        options: &Options,
        limits: &Limits,
    ) -> Result<(), ExportError> {
        let replaced = usize::from(earlier.is_some());
        let own = self.sessions.get(&session).copied().unwrap_or_default();
        let own = own - usize::from(earlier.is_some_and(|entry| entry.session == session));
        let of_role = self.roles.get(role).copied().unwrap_or_default() - replaced;
        let quotas = [
            (own, "offers_session_max", limits.offers_session_max),
            (of_role, "offers_role_max", limits.offers_role_max),
            (all - replaced, "offers_max", limits.offers_max),
        ];
        if let Some((_, limit, value)) = quotas.into_iter().find(|(count, _, max)| *count as u64 >= *max) {
            return Err(ExportError::Quota { limit, value });
        }
        if is_exclusive && !options.is_only_board {
            return Err(ExportError::NotAgreed);
        }
        let named = self.names.get(&(offer.service.clone(), offer.name.clone())).copied().unwrap_or_default();
        let exclusive = named.exclusive - usize::from(earlier.is_some_and(|entry| entry.is_exclusive));
        if exclusive > 0 || is_exclusive && named.offers > replaced {
            let (service, name) = (offer.service.to_string(), offer.name.to_string());
            return Err(ExportError::Taken { service, name });
        }
        Ok(())
    }

    /// Counts an offer.
    pub(super) fn add(
        &mut self,
        id: OfferId,
        role: &Arc<str>,
        session: u64,
        offer: &Offer,
        is_exclusive: bool,
    ) {
        *self.roles.entry(role.clone()).or_default() += 1;
        *self.sessions.entry(session).or_default() += 1;
        let named = self.names.entry((offer.service.clone(), offer.name.clone())).or_default();
        named.offers += 1;
        named.exclusive += usize::from(is_exclusive);
        if let Some(key) = key(role, offer) {
            self.exports.insert(key, id);
        }
    }

    /// Takes an offer back.
    pub(super) fn remove(
        &mut self,
        id: OfferId,
        role: &Arc<str>,
        session: u64,
        offer: &Offer,
        is_exclusive: bool,
    ) {
        less(&mut self.roles, role);
        less(&mut self.sessions, &session);
        let name = (offer.service.clone(), offer.name.clone());
        if let Some(named) = self.names.get_mut(&name) {
            named.offers -= 1;
            named.exclusive -= usize::from(is_exclusive);
            if named.offers == 0 {
                self.names.remove(&name);
            }
        }
        if let Some(key) = key(role, offer).filter(|key| self.exports.get(key) == Some(&id)) {
            self.exports.remove(&key);
        }
    }
}

/// Takes one from a count, which goes at 0.
fn less<K: Ord>(counts: &mut BTreeMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}
