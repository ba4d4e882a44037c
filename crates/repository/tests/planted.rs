//! The suite can fail: twelve planted bugs over validation, invalidation, isolation, replies and
//! crashes, and each is caught by the tests that look for its like.

mod support;

use std::sync::Arc;

use bifrost_repository::memory::Memory;
use bifrost_repository::store;
use support::careless;
use support::disk::Sim;
use support::history::{Place, run};
use support::life::{Opening, live, open};
use support::planted::{Bug, Planted};

/// The first history of clients that nothing serial explains; none if all are sound.
fn history(bug: Option<Bug>, histories: u64) -> Option<u64> {
    (0..histories).find(|seed| {
        let changes_kept = if bug == Some(Bug::ForgottenIsNothing) { 4 } else { 1 << 16 };
        let options = store::Options { log_bytes: 2000, changes_kept, ..store::Options::default() };
        let planted = Planted::new(Arc::new(Memory::with_options(options)), bug);
        run(&[Place::steady(Arc::new(planted))], *seed).anomaly().is_some()
    })
}

/// The first life that finds something wrong after a loss of power; none if all are sound.
fn life(open: Opening, plant: impl Fn(&Sim)) -> Option<u64> {
    (0..300).find(|seed| {
        let sim = Sim::new(*seed);
        plant(&sim);
        live(*seed, sim, open).is_err()
    })
}

fn lying(names: &[&str]) -> Option<u64> {
    life(open, |sim| names.iter().for_each(|name| sim.lie_about(name)))
}

/// Where the bug is caught.
fn caught(bug: Bug) -> Option<u64> {
    match bug {
        Bug::ValidatedFromHead
        | Bug::WritesAlone
        | Bug::ChangesLeftOut
        | Bug::ToldOnce
        | Bug::ForgottenIsNothing
        | Bug::TornFetch
        | Bug::CommitInHalves
        | Bug::ReplyForgotten
        | Bug::ReplyOfAnother => history(Some(bug), 60),
        Bug::EarlyAcknowledgement => lying(&["log.0", "log.1"]),
        Bug::EarlyTurn => lying(&["base", "base.new"]),
        Bug::NoChecksums => life(careless::open, |_| {}),
    }
}

#[test]
fn planted_bugs_are_caught() {
    for bug in Bug::ALL {
        let at = caught(bug).unwrap_or_else(|| panic!("{bug:?} is not caught"));
        println!("{bug:?}: caught at {at}");
    }
}

/// The store in which they are planted is sound without them.
#[test]
fn nothing_is_caught_where_nothing_is_planted() {
    assert_eq!(history(None, 20), None);
}
