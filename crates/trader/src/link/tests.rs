//! Tests of links.

use super::*;
use crate::offer::OfferId;
use crate::property::Properties;
use crate::query::Query;

fn link(name: &str, follow: Follow) -> Link {
    Link { name: name.into(), url: format!("tls://{name}"), follow }
}

fn links() -> Links {
    let all = vec![link("eu", Follow::IfNone), link("us", Follow::Always)];
    Links::new(all, &Limits::default()).unwrap()
}

fn route(number: u128, hops: u64) -> Route {
    Route { number, hops, within_ms: u64::MAX }
}

/// The route with which links are asked.
fn further(number: u128, hops: u64) -> Route {
    Route { number, hops, within_ms: 1_000 }
}

fn offer(id: u64, name: &str, properties: &str) -> Offer {
    Offer {
        id: OfferId(id),
        service: "Store".into(),
        name: name.into(),
        addresses: vec!["tcp://a:1".into()],
        properties: Properties::parse(properties, &Limits::default()).unwrap(),
        ..Offer::default()
    }
}

fn found(offers: Vec<Offer>, more: bool) -> Found {
    Found { offers, more, looked_at: 0 }
}

#[test]
fn links_have_names_and_a_limit() {
    let limits = Limits::default();
    let many = |n: usize| (0..n).map(|n| link(&format!("l{n}"), Follow::Always)).collect();
    Links::new(many(16), &limits).unwrap();
    assert_eq!(Links::new(many(17), &limits).unwrap_err(), BadLinks::TooMany { count: 17, max: 16 });
    for names in [["a", "a"], ["", "b"], ["a/b", "c"]] {
        let all = names.map(|name| link(name, Follow::Always)).into();
        assert_eq!(Links::new(all, &limits).unwrap_err(), BadLinks::Name(names[0].into()));
    }
}

#[test]
fn hops_and_answers_decide_about_links() {
    let (mut links, limits) = (links(), Limits::default());
    assert_eq!(links.begin(Route::own(1, &limits), false, &limits, 0), Ask::Links(vec![0, 1], further(1, 0)));
    assert_eq!(links.begin(Route::own(2, &limits), true, &limits, 0), Ask::Links(vec![1], further(2, 0)));
    assert_eq!(links.begin(route(3, 0), false, &limits, 0), Ask::Nobody);
    assert_eq!(
        links.begin(route(4, 99), true, &limits, 0),
        Ask::Links(vec![1], further(4, 2)),
        "three at most"
    );
    let mut none = Links::new(vec![link("eu", Follow::IfNone)], &limits).unwrap();
    assert_eq!(none.begin(route(1, 1), true, &limits, 0), Ask::Nobody);
}

#[test]
fn a_trader_waits_less_than_its_asker() {
    let (mut links, limits) = (links(), Limits::default());
    let mut waits =
        |number, within_ms| match links.begin(Route { number, hops: 1, within_ms }, false, &limits, 0) {
            Ask::Links(_, route) => Some(route.within_ms),
            _ => None,
        };
    assert_eq!((waits(1, 1_000), waits(2, 750), waits(3, 60_000)), (Some(750), Some(561), Some(1_000)));
    assert_eq!((waits(4, 3), waits(5, 0)), (None, None), "no time is left");
}

#[test]
fn a_link_that_has_failed_rests() {
    let (mut links, limits) = (links(), Limits::default());
    let mut number = 0;
    let mut asked = |links: &mut Links, now| {
        number += 1;
        match links.begin(route(number, 1), false, &limits, now) {
            Ask::Links(asked, _) => asked,
            _ => Vec::new(),
        }
    };
    links.failed(1, &limits, 100);
    links.failed(9, &limits, 100);
    assert_eq!((asked(&mut links, 1_099), asked(&mut links, 1_100)), (vec![0], vec![0, 1]));
    links.failed(0, &limits, 2_000);
    links.failed(1, &limits, 2_000);
    assert!(asked(&mut links, 2_000).is_empty());
    links.answered(0);
    assert_eq!(asked(&mut links, 2_000), [0]);
}

#[test]
fn questions_that_come_again_are_circles() {
    let (mut links, limits) = (links(), Limits { questions_max: 3, ..Limits::default() });
    let mut is_circle = |number, now| links.begin(route(number, 0), false, &limits, now) == Ask::Circle;
    assert!(!is_circle(1, 0) && is_circle(1, 29_999) && !is_circle(1, 30_000), "known for 30 s");
    assert!(!is_circle(2, 30_000) && !is_circle(3, 30_001) && is_circle(1, 30_002));
    // The oldest one goes.
    assert!(!is_circle(4, 30_003) && !is_circle(1, 30_004));
    assert_eq!(links.known(), 3);
}

#[test]
fn answers_are_merged_with_the_name_of_the_link() {
    let (links, limits) = (links(), Limits::default());
    let own = found(vec![offer(1, "a", "incarnation=1")], false);
    let mut gathering = Gathering::new(own, vec![0, 1], further(1, 0), 100);
    assert!(!gathering.is_done(1_099) && gathering.is_done(1_100) && gathering.deadline() == 1_100);
    let mut wrong = offer(9, "d", "");
    wrong.addresses.clear();
    // The first one is known here already, at another number.
    let answer = vec![offer(1, "b", ""), offer(7, "a", "incarnation=1"), wrong, offer(3, "c", "link=far")];
    gathering.answer(&links, 1, Some(found(answer.clone(), true)), &limits);
    gathering.answer(&links, 1, Some(found(vec![offer(4, "e", "")], true)), &limits);
    gathering.answer(&links, 7, None, &limits);
    assert!(!gathering.is_done(200), "the other link has not answered");
    gathering.answer(&links, 0, None, &limits);
    assert!(gathering.is_done(200));
    let question = Question { query: Query::parse("prefer=first").unwrap(), ..Question::default() };
    let all = gathering.finish(&question, &limits, 0);
    let mut seen: Vec<(&str, Option<&str>)> =
        all.offers.iter().map(|offer| (&*offer.name, offer.link())).collect();
    seen.sort();
    assert_eq!(seen, [("a", None), ("b", Some("us")), ("c", Some("us/far"))]);
    assert!(all.more);
}

#[test]
fn merged_answers_are_as_long_as_wanted() {
    let (links, limits) = (links(), Limits::default());
    let many = |from: u64| (from..from + 70).map(|n| offer(n, &format!("n{n}"), "")).collect::<Vec<_>>();
    let mut gathering = Gathering::new(found(many(0), false), vec![0], further(1, 0), 0);
    gathering.answer(&links, 0, Some(found(many(100), false)), &limits);
    let question = Question { most: Some(1_000), ..Question::default() };
    let all = gathering.finish(&question, &limits, 1);
    assert_eq!((all.offers.len(), all.more), (64, true));
    assert!(all.offers.iter().any(|offer| offer.link().is_some()));
}
