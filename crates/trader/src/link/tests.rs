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
    Route { number, hops }
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
    assert_eq!(links.begin(route(1, HOPS), false, &limits, 0), Ask::Links(vec![0, 1], route(1, 0)));
    assert_eq!(links.begin(route(2, HOPS), true, &limits, 0), Ask::Links(vec![1], route(2, 0)));
    assert_eq!(links.begin(route(3, 0), false, &limits, 0), Ask::Nobody);
    assert_eq!(
        links.begin(route(4, 99), true, &limits, 0),
        Ask::Links(vec![1], route(4, 2)),
        "three at most"
    );
    let mut none = Links::new(vec![link("eu", Follow::IfNone)], &limits).unwrap();
    assert_eq!(none.begin(route(1, 1), true, &limits, 0), Ask::Nobody);
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
    let mut gathering = Gathering::new(own, vec![0, 1], &limits, 100);
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
    let mut gathering = Gathering::new(found(many(0), false), vec![0], &limits, 0);
    gathering.answer(&links, 0, Some(found(many(100), false)), &limits);
    let question = Question { most: Some(1_000), ..Question::default() };
    let all = gathering.finish(&question, &limits, 1);
    assert_eq!((all.offers.len(), all.more), (64, true));
    assert!(all.offers.iter().any(|offer| offer.link().is_some()));
}
