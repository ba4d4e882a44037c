//! The way between the board and the place where traders share their offers.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

use bifrost_trader::shared::ClaimError;
use bifrost_trader::{Board, Export, OfferId, Party};

use super::{Core, Exclusive, Listener, State, Stored, Written};

impl Core {
    /// Has the trader hear of the offers of others.
    pub(super) fn listen(self: &Arc<Core>) {
        if let Some(shared) = &self.shared {
            shared.listen(Box::new(Listening(Arc::downgrade(self))));
        }
    }

    /// Hands over the own offers that have changed. Their order is that of the changes, since the
    /// board is locked; nothing is waited for.
    pub(super) fn share(&self, state: &mut State) {
        let Some(shared) = &self.shared else { return };
        for written in state.board.written() {
            match written {
                Written::Put(stored, interface) => shared.put(*stored, interface),
                Written::Gone(offer) => shared.remove(offer),
            }
        }
    }

    /// While the offers of others are out of reach, nothing expires.
    pub(super) fn mistrust(&self, state: &mut State, now: u64) {
        if self.shared.as_ref().is_some_and(|shared| !shared.is_reachable()) {
            state.board.distrust(now);
        }
    }

    /// Claims the name of an exclusive export from all traders, and returns it. It blocks.
    pub(super) fn claim(&self, party: Party<'_>, export: &Export) -> Result<Option<Exclusive>, ClaimError> {
        let Some(shared) = &self.shared else { return Ok(None) };
        // Others may not keep a name busy.
        if !party.right.may_export(&export.service) {
            return Ok(None);
        }
        let name = Exclusive::of(party.right.role(), export)?;
        name.iter().try_for_each(|name| shared.claim(name))?;
        Ok(name)
    }

    /// Has a name that was claimed end with an offer; without one it ends at once.
    pub(super) fn bind(&self, name: Option<&Exclusive>, offer: Option<OfferId>) {
        if let (Some(shared), Some(name)) = (&self.shared, name) {
            shared.bind(name, offer);
        }
    }
}

/// The trader, as the shared place knows it.
struct Listening(Weak<Core>);

impl Listening {
    fn act(&self, act: impl FnOnce(&mut State, u64)) {
        if let Some(core) = self.0.upgrade() {
            core.act(act);
        }
    }
}

impl Listener for Listening {
    fn listed(&self, key: &str, stored: Stored, interface: Option<Arc<[u8]>>) {
        self.act(|state, now| state.board.learn(key, stored, interface.as_deref(), now));
    }

    fn gone(&self, key: &str, is_sure: bool) {
        self.act(|state, now| state.board.forget(key, is_sure, now));
    }

    fn all(&self, keys: &BTreeSet<String>) {
        self.act(|state, now| state.board.learned_all(keys, now));
    }

    fn lost(&self, offer: OfferId) {
        self.act(|state, now| state.board.lost(offer, now));
    }
}
