//! Links: a trader asks other traders.
//!
//! An import goes on to linked traders with one hop less and the number of its question. A trader
//! that knows the number already answers with nothing, which ends circles. A number is known for
//! 30 s; of more than `questions_max` the oldest one goes.
//!
//! 1. [`Links::begin`] decides for an import, and returns the links to ask.
//! 2. The program asks them at once, and hands the answers to [`Gathering::answer`].
//! 3. [`Gathering::finish`] merges the offers when all have answered, or the time is over.
//!
//! A trader waits for its links for three quarters of the time that its asker waits, so that its
//! own offers arrive also if a link of it hangs. A link that has failed ([`Links::failed`]) rests
//! for `link_rest_ms`: meanwhile no import waits for it.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use thiserror::Error;

use crate::board::{Found, Question};
use crate::choose::choose;
use crate::limits::Limits;
use crate::offer::Offer;
use crate::property::{Value, names};
use crate::text::is_name;

/// The cases in which a link is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Follow {
    /// If the trader itself has found nothing.
    #[default]
    IfNone,
    /// Always.
    Always,
}

/// A link to another trader.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Link {
    /// The name, which offers that are found through it have as property `link`.
    pub name: String,
    /// The address of the trader.
    pub url: String,
    /// The cases in which it is asked.
    pub follow: Follow,
}

/// The reason why links are refused.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum BadLinks {
    /// Too many.
    #[error("there are {count} links, and `trader.links_max` is {max}")]
    TooMany {
        /// The number of links.
        count: usize,
        /// The limit.
        max: u64,
    },
    /// A name that is none, or twice there.
    #[error("`{0}` is no name of a link, or of two; write letters, digits, `_`, `.` and `-`")]
    Name(String),
}

/// The way of a question through links.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Route {
    /// The number of the question, which no other has.
    pub number: u128,
    /// The links that it may still follow.
    pub hops: u64,
    /// The milliseconds that its asker waits.
    pub within_ms: u64,
}

impl Route {
    /// Begins the route of an importer's own question; `number` is 128 random bits.
    pub fn own(number: u128, limits: &Limits) -> Route {
        Route { number, hops: limits.hops_default, within_ms: u64::MAX }
    }

    /// Returns the route with which links are asked; nothing if none may be followed.
    fn next(self, limits: &Limits) -> Option<Route> {
        let hops = self.hops.min(limits.hops_max).checked_sub(1)?;
        let within_ms = (self.within_ms / 4 * 3).min(limits.link_ms_max);
        (within_ms > 0).then_some(Route { number: self.number, hops, within_ms })
    }
}

/// The decision about an import.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ask {
    /// The question was here before: the answer has no offers.
    Circle,
    /// The own offers are the answer.
    Nobody,
    /// Ask these links, by their position, with this route, and wait for so long.
    Links(Vec<usize>, Route),
}

/// The links of a trader, and the questions that it knows.
#[derive(Debug)]
pub struct Links {
    links: Vec<Link>,
    /// The time until which each link rests.
    rests: Vec<u64>,
    known: BTreeSet<u128>,
    /// The time until which each number is known.
    order: VecDeque<(u64, u128)>,
}

impl Links {
    /// Makes the links of a trader.
    ///
    /// # Errors
    /// See [`BadLinks`].
    pub fn new(links: Vec<Link>, limits: &Limits) -> Result<Links, BadLinks> {
        if links.len() as u64 > limits.links_max {
            return Err(BadLinks::TooMany { count: links.len(), max: limits.links_max });
        }
        let is_bad = |(at, link): (usize, &Link)| {
            !is_name(&link.name) || links.iter().skip(at + 1).any(|other| other.name == link.name)
        };
        if let Some((_, link)) = links.iter().enumerate().find(|entry| is_bad(*entry)) {
            return Err(BadLinks::Name(link.name.clone()));
        }
        let rests = vec![0; links.len()];
        Ok(Links { links, rests, known: BTreeSet::new(), order: VecDeque::new() })
    }

    /// Returns the links.
    pub fn all(&self) -> &[Link] {
        &self.links
    }

    /// Returns the number of questions that are known.
    pub fn known(&self) -> usize {
        self.known.len()
    }

    /// True if a question was here before; from now on it was.
    fn is_circle(&mut self, number: u128, limits: &Limits, now: u64) -> bool {
        while self.order.front().is_some_and(|(until, _)| *until <= now) {
            self.forget_oldest();
        }
        if self.known.contains(&number) {
            return true;
        }
        while !self.order.is_empty() && self.order.len() as u64 >= limits.questions_max {
            self.forget_oldest();
        }
        let until = now.saturating_add(limits.question_ms);
        self.known.insert(number);
        self.order.push_back((until, number));
        false
    }

    fn forget_oldest(&mut self) {
        if let Some((_, oldest)) = self.order.pop_front() {
            self.known.remove(&oldest);
        }
    }

    /// Decides about an import: `has_found` tells whether the own offers have an answer.
    pub fn begin(&mut self, route: Route, has_found: bool, limits: &Limits, now: u64) -> Ask {
        if self.is_circle(route.number, limits, now) {
            return Ask::Circle;
        }
        let Some(route) = route.next(limits) else { return Ask::Nobody };
        let is_asked =
            |(link, rests): &(&Link, &u64)| **rests <= now && (link.follow == Follow::Always || !has_found);
        let asked = self.links.iter().zip(&self.rests).enumerate();
        let asked: Vec<usize> = asked.filter(|(_, entry)| is_asked(entry)).map(|(at, _)| at).collect();
        if asked.is_empty() { Ask::Nobody } else { Ask::Links(asked, route) }
    }

    /// Notes that a link could not be asked, or did not answer in time: it rests.
    pub fn failed(&mut self, link: usize, limits: &Limits, now: u64) {
        if let Some(rests) = self.rests.get_mut(link) {
            *rests = now.saturating_add(limits.link_rest_ms);
        }
    }

    /// Notes that a link has answered.
    pub fn answered(&mut self, link: usize) {
        if let Some(rests) = self.rests.get_mut(link) {
            *rests = 0;
        }
    }
}

/// The answers of links to one import.
#[derive(Debug)]
pub struct Gathering {
    found: Found,
    /// The links that have not answered.
    left: Vec<usize>,
    until: u64,
}

impl Gathering {
    /// Begins with the own offers, and the links that are asked with a route.
    pub fn new(own: Found, asked: Vec<usize>, route: Route, now: u64) -> Gathering {
        Gathering { found: own, left: asked, until: now.saturating_add(route.within_ms) }
    }

    /// Takes the answer of a link; nothing for one that has failed. Offers beyond the limits of
    /// this trader are left out, and so are those that it has already.
    pub fn answer(&mut self, links: &Links, link: usize, answer: Option<Found>, limits: &Limits) {
        let before = self.left.len();
        self.left.retain(|left| *left != link);
        let (Some(answer), Some(link)) = (answer, links.links.get(link)) else { return };
        if self.left.len() == before {
            return;
        }
        self.found.more |= answer.more;
        for mut offer in answer.offers.into_iter().take(limits.most_max as usize) {
            let way = match offer.link() {
                Some(further) => format!("{}/{further}", link.name),
                None => link.name.clone(),
            };
            offer.properties.set(names::LINK, Value::String(way));
            // The property of this trader is none of the exporter's.
            let wide = Limits { properties_max: limits.properties_max + 1, ..limits.clone() };
            if offer.check(&wide).is_ok() && !self.found.offers.iter().any(|known| is_same(known, &offer)) {
                self.found.offers.push(offer);
            }
        }
    }

    /// Returns the time at which links are waited for no more.
    pub fn deadline(&self) -> u64 {
        self.until
    }

    /// True if all links have answered, or the time is over.
    pub fn is_done(&self, now: u64) -> bool {
        self.left.is_empty() || self.until <= now
    }

    /// Orders all offers as the query prefers. Links that have not answered are left out.
    pub fn finish(self, question: &Question, limits: &Limits, seed: u64) -> Found {
        let Found { offers, more, looked_at } = self.found;
        let most = question.most.unwrap_or(limits.most_default).min(limits.most_max) as usize;
        let chosen = choose(offers.iter().collect(), question.query.prefer(), most, seed);
        let chosen: Vec<Offer> = chosen.into_iter().cloned().collect();
        Found { more: more || offers.len() > chosen.len(), offers: chosen, looked_at }
    }
}

/// True if two offers are of the same object of the same server.
fn is_same(a: &Offer, b: &Offer) -> bool {
    let incarnation = |offer: &Offer| offer.properties.get(names::INCARNATION).cloned();
    let same = |a: &Arc<str>, b: &Arc<str>| a == b;
    same(&a.service, &b.service)
        && same(&a.name, &b.name)
        && a.addresses == b.addresses
        && incarnation(a) == incarnation(b)
}

#[cfg(test)]
mod tests;
