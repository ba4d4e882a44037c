//! Watches the traders of a service, so that new servers are used before old ones are lost.
//!
//! A thread for each trader waits in `changes` and asks again after each change. It connects to
//! another server for one of these reasons, and the next run takes it:
//!
//! | reason | server |
//! | --- | --- |
//! | the first offer is new, and so no run has had the choice | that of the first offer |
//! | the query orders offers by a property or by age, and another one is the first now | the same |
//! | the offer in use was listed by this trader, and is not any more | the same |
//!
//! A load alone is no change at a trader, and moves nobody. So clients spread over a new server by
//! the query's order, and otherwise stay where they are.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bifrost_trader::Offer;
use bifrost_trader::choose::addresses;
use bifrost_trader::query::{Prefer, Query};

use crate::Imported;
use crate::error::ConnectError;
use crate::search::{Dialer, PATIENCE, Search, is_same, spawn};

/// The time of one call of `changes`, and so the longest time until a thread ends.
const WITHIN: Duration = Duration::from_secs(5);

/// The pauses before a trader that was lost is asked again.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// The most offers that are remembered as known.
const KNOWN_MAX: usize = 256;

/// The watch of a service. The threads end when it is dropped.
pub(crate) struct Watch<C>(Arc<Shared<C>>);

struct Shared<C> {
    search: Arc<Search>,
    dialer: Dialer<C>,
    is_ordered: bool,
    state: Mutex<State<C>>,
    stop: Condvar,
}

struct State<C> {
    stopped: bool,
    in_use: Imported,
    /// The offers that were seen at any trader, the last ones at the end.
    known: Vec<Arc<Offer>>,
    /// A server for the next run.
    ready: Option<(C, Imported)>,
}

impl<C: Send + 'static> Watch<C> {
    /// Starts the threads. `seen` are the offers that the search has had to choose from.
    ///
    /// # Errors
    /// The system has no thread.
    pub(crate) fn start(
        search: Arc<Search>,
        dialer: Dialer<C>,
        in_use: Imported,
        seen: &[Offer],
    ) -> Result<Watch<C>, ConnectError> {
        let query = Query::parse(search.url().query()).unwrap_or_default();
        let known = seen.iter().cloned().map(Arc::new).collect();
        let state = Mutex::new(State { stopped: false, in_use, known, ready: None });
        let is_ordered = is_ordered(query.prefer());
        let traders = search.traders().len();
        let shared = Shared { search, dialer, is_ordered, state, stop: Condvar::new() };
        let watch = Watch(Arc::new(shared));
        for trader in 0..traders {
            let shared = watch.0.clone();
            spawn(move || shared.watch(trader))?;
        }
        Ok(watch)
    }

    /// Takes the server for the next run, if there is one.
    pub(crate) fn take_ready(&self) -> Option<(C, Imported)> {
        self.0.state().ready.take()
    }

    /// Notes the server in use.
    pub(crate) fn use_server(&self, imported: Imported) {
        let mut state = self.0.state();
        state.in_use = imported;
        // It was made for another one.
        let old = state.ready.take();
        drop(state);
        drop(old);
    }
}

impl<C> Drop for Watch<C> {
    fn drop(&mut self) {
        lock(&self.0.state).stopped = true;
        self.0.stop.notify_all();
    }
}

/// True if the preference names the same best offer for all clients. A load does not: it differs
/// from call to call.
fn is_ordered(prefer: Option<&Prefer>) -> bool {
    match prefer {
        Some(Prefer::First) => true,
        Some(Prefer::Min(name) | Prefer::Max(name)) => name != "load",
        Some(Prefer::Random | Prefer::Spread) | None => false,
    }
}

fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<C: Send> Shared<C> {
    fn state(&self) -> MutexGuard<'_, State<C>> {
        lock(&self.state)
    }

    fn watch(&self, trader: usize) {
        let mut pause = PAUSES.0;
        while !self.state().stopped {
            // Its error is told by the next search, if that needs this trader.
            let followed = self.follow(trader, &mut pause);
            if followed.is_ok() {
                return;
            }
            let state = self.state();
            let waited = self.stop.wait_timeout_while(state, pause, |state| !state.stopped);
            drop(waited);
            pause = (2 * pause).min(PAUSES.1);
        }
    }

    /// Follows the changes at a trader until the watch ends.
    ///
    /// # Errors
    /// The trader is lost, or has refused.
    fn follow(&self, trader: usize, pause: &mut Duration) -> Result<(), ConnectError> {
        let mut session = self.search.session(trader, WITHIN + PATIENCE)?;
        let within = i64::try_from(WITHIN.as_millis()).unwrap_or(i64::MAX);
        let (mut counter, mut listed) = (0, Vec::new());
        loop {
            let before = counter;
            let changes = session.changes(self.search.service(), before, within);
            counter = changes.map_err(ConnectError::Trader)?;
            *pause = PAUSES.0;
            if self.state().stopped {
                return Ok(());
            }
            if counter != before {
                let (offers, all) = self.search.find(&mut session, 0).map_err(ConnectError::Trader)?;
                self.consider(&offers, all, &listed);
                listed = offers;
            }
        }
    }

    /// Connects to another server if there is a reason.
    fn consider(&self, offers: &[Offer], all: bool, listed: &[Offer]) {
        let chosen = {
            let state = &mut *self.state();
            let chosen = self.choose(state, offers, all, listed).map(|offer| Arc::new(offer.clone()));
            for offer in offers {
                if !state.known.iter().any(|known| is_same(known, offer)) {
                    state.known.push(Arc::new(offer.clone()));
                }
            }
            let over = state.known.len().saturating_sub(KNOWN_MAX);
            state.known.drain(..over);
            chosen
        };
        let Some(offer) = chosen else { return };
        for address in addresses(&offer, self.search.host(), self.search.schemes()) {
            let Ok(parsed) = address.parse() else { continue };
            if let Ok(connection) = (self.dialer)(&offer, &parsed, PATIENCE) {
                let imported = Imported::new(offer.clone(), address.into());
                let old = self.state().ready.replace((connection, imported));
                drop(old);
                return;
            }
        }
    }

    /// Returns the offer whose server is to be used instead of the one in use.
    fn choose<'o>(
        &self,
        state: &State<C>,
        offers: &'o [Offer],
        all: bool,
        listed: &[Offer],
    ) -> Option<&'o Offer> {
        let in_use = state.in_use.offer();
        let first = offers.first().filter(|first| !first.doubtful && !is_same(first, in_use))?;
        let is_new = !state.known.iter().any(|known| is_same(known, first));
        let has = |offers: &[Offer]| offers.iter().any(|offer| is_same(offer, in_use));
        let is_gone = all && has(listed) && !has(offers);
        (is_new || self.is_ordered || is_gone).then_some(first)
    }
}

#[cfg(test)]
mod tests {
    use bifrost_transport::ConnectError as NoConnection;

    use super::*;

    fn offer(name: &str) -> Offer {
        Offer { name: name.into(), addresses: vec!["tcp://127.0.0.1:1".into()], ..Offer::default() }
    }

    /// The offer to which a client of `a` moves, that knows `a` and `b`.
    fn moves(query: &str, offers: &[&str], all: bool, listed: &[&str]) -> Option<String> {
        let search = Search::new(&format!("trader+tcp://127.0.0.1:1/Store?{query}")).unwrap();
        let query = Query::parse(search.url().query()).unwrap();
        let in_use = Imported::new(Arc::new(offer("a")), "tcp://127.0.0.1:1".into());
        let known = ["a", "b"].map(|name| Arc::new(offer(name))).to_vec();
        let shared = Shared::<()> {
            search: Arc::new(search),
            dialer: Arc::new(|_, address, _| {
                let address = address.clone();
                Err(NoConnection::Closed { address }.into())
            }),
            is_ordered: is_ordered(query.prefer()),
            state: Mutex::new(State { stopped: true, in_use, known, ready: None }),
            stop: Condvar::new(),
        };
        let of = |names: &[&str]| names.iter().map(|name| offer(name)).collect::<Vec<_>>();
        let (offers, listed) = (of(offers), of(listed));
        let state = shared.state();
        shared.choose(&state, &offers, all, &listed).map(|offer| offer.name.to_string())
    }

    #[test]
    fn clients_move_for_a_reason_only() {
        let moves_to = |query, offers, all, listed| moves(query, offers, all, listed).unwrap_or_default();
        // A new one that comes first, and one that does not.
        assert_eq!(moves_to("", &["c", "a"], true, &["a"]), "c");
        assert_eq!(moves_to("", &["a", "c"], true, &["a"]), "");
        // A known one, in any order, in the order of a load, and in a fixed one.
        assert_eq!(moves_to("", &["b", "a"], true, &["a"]), "");
        assert_eq!(moves_to("prefer=min(load)", &["b", "a"], true, &["a"]), "");
        assert_eq!(moves_to("prefer=spread", &["b", "a"], true, &["a"]), "");
        for ordered in ["prefer=first", "prefer=min(tier)", "prefer=max(tier)"] {
            assert_eq!(moves_to(ordered, &["b", "a"], true, &["a"]), "b");
            assert_eq!(moves_to(ordered, &["a", "b"], true, &["a"]), "");
        }
        // The one in use is gone; it was not there before; the list is not whole; nobody is left.
        assert_eq!(moves_to("", &["b"], true, &["a", "b"]), "b");
        assert_eq!(moves_to("", &["b"], true, &["b"]), "");
        assert_eq!(moves_to("", &["b"], false, &["a", "b"]), "");
        assert_eq!(moves_to("", &[], true, &["a", "b"]), "");
    }
}
