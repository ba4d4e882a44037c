//! The order of offers in an answer, and of the addresses of one offer.

use std::cmp::Ordering;

use crate::offer::{Offer, is_local, scheme};
use crate::property::names;
use crate::query::Prefer;

/// Orders offers for an importer: the preferred ones first, doubtful ones last; at most `most`.
///
/// Without a preference it is [`Prefer::Spread`] if an offer has a load, else [`Prefer::Random`].
/// `Spread` takes two of those that are left at random, and of these the less loaded one; an offer
/// without a load is taken as one with the load 0.
pub fn choose<'o>(
    mut found: Vec<&'o Offer>,
    prefer: Option<&Prefer>,
    most: usize,
    seed: u64,
) -> Vec<&'o Offer> {
    let has_load = || found.iter().any(|offer| offer.load.is_some());
    let prefer = match prefer {
        Some(prefer) => prefer.clone(),
        None if has_load() => Prefer::Spread,
        None => Prefer::Random,
    };
    let mut random = fastrand::Rng::with_seed(seed);
    let doubtful: Vec<&Offer> = found.extract_if(.., |offer| offer.doubtful).collect();
    let mut chosen = Vec::new();
    for part in [found, doubtful] {
        let most = most - chosen.len();
        match &prefer {
            Prefer::First => {
                let mut part = part;
                part.sort_by_key(|offer| offer.id);
                chosen.extend(part.into_iter().take(most));
            }
            Prefer::Random => draw(part, most, &mut chosen, |left| random.usize(..left.len())),
            Prefer::Spread => draw(part, most, &mut chosen, |left| {
                let [a, b] = [random.usize(..left.len()), random.usize(..left.len())];
                if load(left[b]) < load(left[a]) { b } else { a }
            }),
            Prefer::Min(name) => sorted(part, name, most, &mut chosen, &mut random, f64::total_cmp),
            Prefer::Max(name) => {
                sorted(part, name, most, &mut chosen, &mut random, |a, b| b.total_cmp(a));
            }
        }
    }
    chosen
}

/// Returns how many offers that match are enough for [`choose`], if they come in the order of the
/// numbers for [`Prefer::First`] and else at random; sure ones first. It is more than `most`, so
/// that an importer can be told that there are others.
///
/// `Spread` has two of them for each of its choices, so it takes the less loaded of two at random
/// as if it had all. `Min` and `Max` need all.
pub fn enough(prefer: Option<&Prefer>, most: usize) -> usize {
    match prefer {
        Some(Prefer::First | Prefer::Random) => most + 1,
        Some(Prefer::Spread) | None => 2 * most.max(1),
        Some(Prefer::Min(_) | Prefer::Max(_)) => usize::MAX,
    }
}

/// Takes offers out, one after the other.
fn draw<'o>(
    mut left: Vec<&'o Offer>,
    most: usize,
    chosen: &mut Vec<&'o Offer>,
    mut next: impl FnMut(&[&Offer]) -> usize,
) {
    for _ in 0..most.min(left.len()) {
        let at = next(&left);
        chosen.push(left.swap_remove(at));
    }
}

/// Sorts offers by a number; those without it come last, and equal ones in any order.
fn sorted<'o>(
    mut part: Vec<&'o Offer>,
    name: &str,
    most: usize,
    chosen: &mut Vec<&'o Offer>,
    random: &mut fastrand::Rng,
    order: impl Fn(&f64, &f64) -> Ordering,
) {
    random.shuffle(&mut part);
    part.sort_by(|a, b| match (number(a, name), number(b, name)) {
        (Some(a), Some(b)) => order(&a, &b),
        (a, b) => b.is_some().cmp(&a.is_some()),
    });
    chosen.extend(part.into_iter().take(most));
}

fn number(offer: &Offer, name: &str) -> Option<f64> {
    if name == names::LOAD { offer.load } else { offer.properties.get(name)?.number() }
}

fn load(offer: &Offer) -> f64 {
    offer.load.unwrap_or_default()
}

/// True if an importer of a machine is told an address of an offer.
pub fn is_told(address: &str, offer: &Offer, host: Option<&str>) -> bool {
    !is_local(address) || host.is_some() && offer.host() == host
}

/// Returns the offer as an importer of a machine is told it; nothing if no address is left.
pub fn told(offer: &Offer, host: Option<&str>) -> Option<Offer> {
    let mut told = offer.clone();
    told.addresses.retain(|address| is_told(address, offer, host));
    (!told.addresses.is_empty()).then_some(told)
}

/// Returns the addresses of an offer that a process can use, in the order in which it tries them:
/// `shm` and `unix` on its own machine, then as listed. `schemes` are those that it knows.
pub fn addresses<'o>(offer: &'o Offer, host: Option<&str>, schemes: &[&str]) -> Vec<&'o str> {
    let known = |address: &&str| scheme(address).is_some_and(|scheme| schemes.contains(&scheme));
    let all = || offer.addresses.iter().map(|address| &**address).filter(known);
    let local = all().filter(|address| is_local(address) && is_told(address, offer, host));
    local.chain(all().filter(|address| !is_local(address))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;
    use crate::offer::OfferId;
    use crate::property::Properties;

    fn offer(id: u64, properties: &str) -> Offer {
        let mut properties = Properties::parse(properties, &Limits::default()).unwrap();
        Offer { id: OfferId(id), load: properties.take_load(), properties, ..Offer::default() }
    }

    fn ids(offers: &[Offer], prefer: Option<Prefer>, most: usize, seed: u64) -> Vec<u64> {
        let chosen = choose(offers.iter().collect(), prefer.as_ref(), most, seed);
        chosen.iter().map(|offer| offer.id.0).collect()
    }

    #[test]
    fn first_is_by_number_and_doubtful_ones_are_last() {
        let mut offers: Vec<Offer> = (1..=5).rev().map(|id| offer(id, "")).collect();
        offers[3].doubtful = true;
        assert_eq!(ids(&offers, Some(Prefer::First), 9, 0), [1, 3, 4, 5, 2]);
        assert_eq!(ids(&offers, Some(Prefer::First), 2, 0), [1, 3]);
        for seed in 0..50 {
            for prefer in [None, Some(Prefer::Random), Some(Prefer::Spread), Some(Prefer::Min("x".into()))] {
                let order = ids(&offers, prefer, 9, seed);
                assert_eq!((order.len(), order[4]), (5, 2));
            }
        }
    }

    #[test]
    fn random_gives_each_offer_the_first_place() {
        let offers: Vec<Offer> = (0..4).map(|id| offer(id, "")).collect();
        let mut firsts = [0; 4];
        for seed in 0..4_000 {
            let order = ids(&offers, None, 2, seed);
            assert!(order.len() == 2 && order[0] != order[1]);
            firsts[order[0] as usize] += 1;
        }
        assert!(firsts.iter().all(|n| (800..1_200).contains(n)), "{firsts:?}");
    }

    #[test]
    fn spread_prefers_the_less_loaded_of_two() {
        let offers = [offer(0, "load=0.1"), offer(1, "load=0.5"), offer(2, "load=0.9")];
        let mut firsts = [0; 3];
        (0..9_000).for_each(|seed| firsts[ids(&offers, None, 1, seed)[0] as usize] += 1);
        // Two draws of three: the least loaded one is among them in 5 of 9 cases, the most loaded
        // one is both in 1 of 9.
        let expected = [5_000, 3_000, 1_000];
        for (first, expected) in firsts.into_iter().zip(expected) {
            assert!((expected - 300..expected + 300).contains(&first), "{firsts:?}");
        }
    }

    #[test]
    fn numbers_are_sorted_and_missing_ones_are_last() {
        let offers =
            [offer(0, "p=2"), offer(1, "p=1.5"), offer(2, "p=text"), offer(3, "p=3&load=0.2"), offer(4, "")];
        for seed in 0..20 {
            assert_eq!(ids(&offers, Some(Prefer::Min("p".into())), 3, seed), [1, 0, 3]);
            assert_eq!(ids(&offers, Some(Prefer::Max("p".into())), 3, seed), [3, 0, 1]);
            assert_eq!(ids(&offers, Some(Prefer::Min("load".into())), 1, seed), [3]);
        }
        let last = |seed| ids(&offers, Some(Prefer::Min("p".into())), 5, seed)[4];
        assert!((0..20).any(|seed| last(seed) != last(0)), "equal ones are in any order");
    }

    #[test]
    fn the_same_seed_gives_the_same_order() {
        let offers: Vec<Offer> = (0..40).map(|id| offer(id, "load=0.5")).collect();
        assert_eq!(ids(&offers, None, 40, 7), ids(&offers, None, 40, 7));
        assert_ne!(ids(&offers, None, 40, 7), ids(&offers, None, 40, 8));
    }

    #[test]
    fn local_addresses_are_for_the_same_machine_and_come_first() {
        let mut offer = offer(1, "host=h");
        offer.addresses = ["tls://a:1", "tcp://a:2", "unix:///a", "shm:///a"].map(Into::into).into();
        let known = ["tcp", "tls", "unix"];
        assert_eq!(addresses(&offer, Some("h"), &known), ["unix:///a", "tls://a:1", "tcp://a:2"]);
        assert_eq!(addresses(&offer, Some("g"), &known), ["tls://a:1", "tcp://a:2"]);
        assert_eq!(addresses(&offer, None, &["shm"]), [] as [&str; 0]);
        assert_eq!(told(&offer, Some("h")).unwrap(), offer);
        assert_eq!(told(&offer, None).unwrap().addresses.len(), 2);
        offer.addresses.drain(..2);
        assert_eq!(told(&offer, Some("g")), None);
        offer.properties = Properties::new();
        assert_eq!(told(&offer, None), None, "no machine is not the same machine");
    }
}
