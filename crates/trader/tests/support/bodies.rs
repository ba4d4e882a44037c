//! The bodies of the fuzz targets: texts of queries, and a board against a plain list of offers.
//! An ordinary test (`random.rs`) runs them for a few seconds too.

use std::collections::BTreeSet;

use bifrost_trader::board::{Changes, ExportError, RenewError, Renewal, WaiterId};
use bifrost_trader::query::Prefer;
use bifrost_trader::url::{TraderUrl, URL_BYTES_MAX, is_trader};
use bifrost_trader::{
    Board, Everything, Export, Limits, Memory, Offer, OfferId, Options, Party, Properties, Query, Question,
    Value,
};

/// Whatever the text is: a query and properties that are read are written as ones that are the
/// same, and comparing them does not fail.
pub fn trader_query(data: &[u8]) -> bool {
    let text = String::from_utf8_lossy(data);
    let (first, second) = text.split_once('\n').unwrap_or((&text, ""));
    let query = Query::parse(first);
    if let Err(error) = &query {
        assert!(error.at <= first.len() && !error.to_string().is_empty());
    }
    let properties = Properties::parse(second, &Limits::default());
    if let Ok(properties) = &properties {
        let wide = Limits { value_bytes_max: 1 << 20, ..Limits::default() };
        assert_eq!(Properties::parse(&properties.to_string(), &wide).as_ref(), Ok(properties));
        properties.check(&Limits::default()).expect("they were read within the limits");
    }
    let (Ok(query), Ok(mut properties)) = (query, properties) else { return false };
    let wide = Limits { query_bytes_max: 1 << 20, ..Limits::default() };
    assert_eq!(Query::parse_within(&query.to_string(), &wide).as_ref(), Ok(&query));
    let load = properties.take_load();
    let offer = Offer { properties, load, ..Offer::default() };
    let all = query.comparisons().iter().all(|comparison| {
        let one = Query::parse_within(&format!("{}{}", comparison.name(), rest(&query, comparison)), &wide);
        one.is_ok_and(|one| one.matches(&offer))
    });
    assert_eq!(query.matches(&offer), all, "a conjunction");
    true
}

/// A comparison as text, without its name.
fn rest(query: &Query, comparison: &bifrost_trader::query::Comparison) -> String {
    let at = query.comparisons().iter().position(|other| std::ptr::eq(other, comparison)).unwrap_or_default();
    let text = query.to_string();
    text.split('&').nth(at).unwrap_or_default()[comparison.name().len()..].to_owned()
}

/// An interface; `more` is a part of the methods of `Store`.
fn interface(more: &str) -> String {
    let size = r#"{"name":"size","results":[0]}"#;
    format!(
        r#"{{"types":[{{"name":"int","kind":"int"}},{{"name":"Base","kind":"object","methods":[{size}]}},
        {{"name":"Store","kind":"object","supertypes":[1],"methods":[{size}{more}]}},
        {{"name":"Fast","kind":"object","supertypes":[2],"methods":[{size}{more}]}}],"routines":[]}}"#
    )
}

const SERVICES: [&str; 3] = ["Base", "Store", "Fast"];

/// An offer of the plain list.
#[derive(Clone, Debug)]
struct Plain {
    id: OfferId,
    /// Its type by position in `SERVICES`; it is listed under this and all before it.
    service: usize,
    name: usize,
    session: u64,
    incarnation: Option<i64>,
    is_wide: bool,
    is_exclusive: bool,
    tier: i64,
    lease_ms: u64,
    deadline: u64,
    is_proven: bool,
    lapsed: Option<u64>,
}

/// A board as a plain list.
#[derive(Debug)]
struct List {
    limits: Limits,
    offers: Vec<Plain>,
    /// Leases that have ended: service, time, offer.
    lapses: Vec<(usize, u64, OfferId)>,
    time: u64,
    seen: u64,
    waiters: Vec<(WaiterId, usize, u64)>,
    /// The services that the call changes.
    changed: BTreeSet<usize>,
    ended: Vec<OfferId>,
}

impl List {
    /// Sees the time, as the rules of docs/internals/trader.md say it.
    fn look(&mut self, now: u64) {
        let gap = now.saturating_sub(self.seen);
        (self.seen, self.time) = (now, self.time + gap);
        let time = self.time;
        for offer in &mut self.offers {
            if gap * 3 > self.limits.lease_ms_min && gap * 3 > offer.lease_ms {
                offer.deadline = offer.deadline.max(time + offer.lease_ms);
            }
        }
        loop {
            let due = self.offers.iter().enumerate().filter(|(_, offer)| offer.deadline <= time);
            let Some((at, _)) = due.min_by_key(|(_, offer)| (offer.deadline, offer.id)) else { break };
            let offer = self.offers[at].clone();
            let is_sure = offer.is_proven && offer.lapsed.is_none();
            if is_sure && self.doubts(&offer) {
                self.offers[at].lapsed = Some(time);
                self.offers[at].deadline = time + 4 * offer.lease_ms;
                self.change(&offer);
            } else {
                self.ended.push(offer.id);
                self.lapses.retain(|(_, _, lapsed)| *lapsed != offer.id);
                self.change(&offer);
                self.offers.remove(at);
            }
            if is_sure {
                self.lapses.push((offer.service, time, offer.id));
            }
        }
    }

    fn doubts(&self, offer: &Plain) -> bool {
        let time = self.time;
        let lapses = self.lapses.iter();
        let lapsed =
            lapses.filter(|(service, at, _)| *service == offer.service && *at + offer.lease_ms > time);
        let lapsed = lapsed.count();
        let sure: Vec<&Plain> = self
            .offers
            .iter()
            .filter(|other| other.service == offer.service && other.is_proven && other.lapsed.is_none())
            .collect();
        let late =
            sure.iter().filter(|other| other.deadline.saturating_sub(time) < other.lease_ms / 2).count();
        lapsed + late >= 3 && (lapsed + late) * 2 > sure.len() + lapsed
    }

    /// Notes a change of the services of an offer that is seen.
    fn change(&mut self, offer: &Plain) {
        if offer.is_proven {
            self.changed.extend(0..=offer.service);
        }
    }

    /// The waiters that are answered now.
    fn answered(&mut self) -> BTreeSet<WaiterId> {
        let (time, changed) = (self.time, std::mem::take(&mut self.changed));
        let over =
            self.waiters.extract_if(.., |(_, service, until)| changed.contains(service) || *until <= time);
        over.map(|(id, ..)| id).collect()
    }
}

/// Numbers from bytes, and zeros after their end.
struct Bytes<'d>(&'d [u8]);

impl Bytes<'_> {
    fn next(&mut self) -> usize {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        usize::from(*first)
    }

    fn below(&mut self, n: usize) -> usize {
        self.next() % n.max(1)
    }
}

/// Reads a text as the URL of a service at a trader. True if it is one: then its own text is the
/// same URL.
pub fn trader_url(data: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(data) else { return false };
    let Ok(url) = TraderUrl::parse(text) else { return false };
    assert!(is_trader(text), "{text}");
    assert!(Query::parse(url.query()).is_ok(), "{text}");
    // Escapes can make it longer.
    let own = url.to_string();
    if own.len() <= URL_BYTES_MAX {
        assert_eq!(TraderUrl::parse(&own), Ok(url), "{text}");
    }
    true
}

/// Plays calls that the bytes say on a board and on a plain list; both must agree. Returns the
/// number of calls.
pub fn trader_board(data: &[u8]) -> usize {
    let mut bytes = Bytes(data);
    let setting = bytes.next();
    let limits = Limits {
        offers_session_max: 6,
        offers_role_max: 11,
        offers_max: 10 + (setting as u64 & 4),
        waits_session_max: 2,
        waits_max: 5,
        ..Limits::default()
    };
    let (trusts_addresses, is_only_board) = (setting & 1 == 0, setting & 2 == 0);
    let mut now = 1_000_000;
    let options = Options { first: 7, trusts_addresses, is_only_board, is_shared: false, host: None };
    let mut board = Memory::new(limits.clone(), options);
    let digests = ["", r#",{"name":"more"}"#]
        .map(|more| board.teach(interface(more).as_bytes()).expect("an interface"));
    let mut list = List {
        limits: limits.clone(),
        offers: Vec::new(),
        lapses: Vec::new(),
        time: now,
        seen: now,
        waiters: Vec::new(),
        changed: BTreeSet::new(),
        ended: Vec::new(),
    };
    board.expire(now);
    let (mut ids, mut known, mut calls): (Vec<OfferId>, [u64; 3], usize) = (Vec::new(), [0; 3], 0);
    while !bytes.0.is_empty() {
        calls += 1;
        let call = bytes.below(10);
        if call == 9 {
            now = now.saturating_sub(bytes.next() as u64 * 100);
        } else {
            now += [0, 10, 500, 3_000][bytes.below(4)];
        }
        list.look(now);
        let mut expected = list.answered();
        match call {
            0 | 1 => export(
                &mut bytes,
                &mut board,
                &mut list,
                &mut ids,
                &digests,
                now,
                is_only_board,
                trusts_addresses,
            ),
            2 | 3 => renew(&mut bytes, &mut board, &mut list, &ids, now),
            4 => {
                let id = pick(&mut bytes, &ids);
                let at = list.offers.iter().position(|offer| offer.id == id);
                assert_eq!(board.withdraw(id, now), at.is_some());
                if let Some(at) = at {
                    let offer = list.offers.remove(at);
                    list.lapses.retain(|(_, _, lapsed)| *lapsed != id || offer.lapsed.is_none());
                    list.change(&offer);
                }
            }
            5 => import(&mut bytes, &mut board, &list, &digests, now),
            6 => {
                let (service, session) = (bytes.below(3), bytes.below(4) as u64);
                let within_ms = bytes.next() as u64 * 50;
                let party = Party { right: &Everything, session };
                let result = board.changes(party, SERVICES[service], known[service], within_ms, now);
                match result {
                    Ok(Changes::Now(counter)) => {
                        assert!(counter > known[service] || within_ms == 0, "a counter grows");
                        known[service] = counter;
                    }
                    Ok(Changes::Wait(id)) => list.waiters.push((id, service, list.time + within_ms)),
                    Err(error) => assert!(["waits_max", "waits_session_max"].contains(&error.limit)),
                }
                assert_eq!(board.waits(), list.waiters.len());
            }
            7 => prove(&mut bytes, &mut board, &mut list, now),
            _ => {
                let ended = board.expire(now);
                assert_eq!(ended, std::mem::take(&mut list.ended));
                assert!(!trusts_addresses || board.next_deadline() > now);
            }
        }
        expected.extend(list.answered());
        let answered: BTreeSet<WaiterId> = board.answers().iter().map(|answer| answer.waiter).collect();
        assert_eq!(answered, expected, "calls of `changes` that are answered");
        assert_eq!(board.len(), list.offers.len());
    }
    calls
}

fn pick(bytes: &mut Bytes<'_>, ids: &[OfferId]) -> OfferId {
    let at = bytes.below(ids.len());
    // The last ones are likelier to be there.
    ids.iter().rev().nth(at).copied().unwrap_or(OfferId(1))
}

#[expect(clippy::too_many_arguments, reason = "the parts of the test")]
fn export(
    bytes: &mut Bytes<'_>,
    board: &mut Memory,
    list: &mut List,
    ids: &mut Vec<OfferId>,
    digests: &[bifrost_wire::Digest; 2],
    now: u64,
    is_only_board: bool,
    trusts_addresses: bool,
) {
    let (service, name, session) = (bytes.below(3), bytes.below(4), bytes.below(4) as u64);
    let detail = bytes.next();
    let incarnation = (detail & 3 != 0).then_some((detail & 3) as i64);
    let (is_wide, is_exclusive) = (detail & 4 != 0, detail & 0x38 == 0x38);
    let (tier, lease_ms) = ((detail >> 6) as i64, [10_000, 15_000, 60_000][bytes.below(3)]);
    let mut properties: Properties = [("tier", Value::Int(tier))].into_iter().collect();
    if let Some(incarnation) = incarnation {
        properties.set("incarnation", Value::Int(incarnation));
    }
    let export = Export {
        service: SERVICES[service].into(),
        digest: digests[usize::from(is_wide)],
        name: format!("n{name}"),
        addresses: vec!["tcp://a:1".into()],
        properties,
        load: None,
        lease_ms: Some(lease_ms),
        exclusive: is_exclusive,
    };
    let is_replaced = |offer: &Plain| {
        incarnation.is_some()
            && offer.incarnation == incarnation
            && offer.service == service
            && offer.name == name
    };
    let earlier = list.offers.iter().find(|offer| is_replaced(offer)).cloned();
    let others: Vec<&Plain> = list
        .offers
        .iter()
        .filter(|offer| earlier.as_ref().is_none_or(|earlier| earlier.id != offer.id))
        .collect();
    let own = others.iter().filter(|offer| offer.session == session).count() as u64;
    let all = others.len() as u64;
    let mut named = others.iter().filter(|offer| offer.service == service && offer.name == name).peekable();
    let limits = &list.limits;
    let is_over =
        own >= limits.offers_session_max || all >= limits.offers_role_max || all >= limits.offers_max;
    let is_taken = named.peek().is_some() && (is_exclusive || named.any(|offer| offer.is_exclusive));
    let result = board.export(Party { right: &Everything, session }, export, now);
    let lease = match result {
        Err(ExportError::Quota { .. }) => return assert!(is_over),
        Err(ExportError::NotAgreed) => return assert!(is_exclusive && !is_only_board && !is_over),
        Err(ExportError::Taken { .. }) => return assert!(is_taken && !is_over),
        Err(other) => panic!("{other}"),
        Ok(lease) => lease,
    };
    assert!(!is_over && !is_taken && (is_only_board || !is_exclusive));
    assert_eq!(lease.due_ms, lease_ms / 3);
    assert!(ids.iter().all(|id| *id < lease.id), "a number is never given again");
    ids.push(lease.id);
    if let Some(earlier) = &earlier {
        list.offers.retain(|offer| offer.id != earlier.id);
        list.lapses.retain(|(_, _, lapsed)| *lapsed != earlier.id || earlier.lapsed.is_none());
        list.change(earlier);
    }
    let is_proven =
        trusts_addresses || earlier.is_some_and(|earlier| earlier.is_proven && earlier.is_wide == is_wide);
    let offer = Plain {
        id: lease.id,
        service,
        name,
        session,
        incarnation,
        is_wide,
        is_exclusive,
        tier,
        lease_ms,
        deadline: list.time + lease_ms,
        is_proven,
        lapsed: None,
    };
    list.change(&offer);
    list.offers.push(offer);
}

fn renew(bytes: &mut Bytes<'_>, board: &mut Memory, list: &mut List, ids: &[OfferId], now: u64) {
    let (id, detail) = (pick(bytes, ids), bytes.next());
    let tier = (detail & 1 == 0).then_some((detail >> 1 & 3) as i64);
    let properties = tier.map(|tier| [("tier", Value::Int(tier))].into_iter().collect());
    let result = board.renew(id, Renewal { properties, load: None }, now);
    let time = list.time;
    let Some(offer) = list.offers.iter_mut().find(|offer| offer.id == id) else {
        return assert_eq!(result, Err(RenewError::Gone));
    };
    assert_eq!(result, Ok(offer.lease_ms / 3));
    offer.deadline = time + offer.lease_ms;
    let is_changed = offer.lapsed.is_some() || tier.is_some_and(|tier| tier != offer.tier);
    offer.tier = tier.unwrap_or(offer.tier);
    let was_lapsed = offer.lapsed.take().is_some();
    let offer = offer.clone();
    if is_changed {
        list.change(&offer);
    }
    if was_lapsed {
        list.lapses.retain(|(_, _, lapsed)| *lapsed != id);
    }
}

fn import(
    bytes: &mut Bytes<'_>,
    board: &mut Memory,
    list: &List,
    digests: &[bifrost_wire::Digest; 2],
    now: u64,
) {
    let (service, detail, most) = (bytes.below(3), bytes.next(), bytes.below(16));
    let (tier, is_wide) = ((detail & 3) as i64, detail & 4 != 0);
    let (sign, holds): (&str, fn(i64, i64) -> bool) = [
        ("=", (|a, b| a == b) as fn(i64, i64) -> bool),
        ("!=", |a, b| a != b),
        ("<", |a, b| a < b),
        (">=", |a, b| a >= b),
    ][detail >> 3 & 3];
    let is_first = detail & 0x20 == 0;
    let prefer = if is_first { "&prefer=first" } else { "" };
    let query = Query::parse(&format!("tier{sign}{tier}{prefer}")).expect("a query");
    assert_eq!(query.prefer().is_some_and(|prefer| *prefer == Prefer::First), is_first);
    let digest = (detail & 0x40 == 0).then_some(digests[usize::from(is_wide)]);
    let question =
        Question { service: SERVICES[service].into(), digest, query, most: Some(most as u64), host: None };
    let found = board
        .import(Party { right: &Everything, session: 0 }, &question, bytes.next() as u64, now)
        .expect("a known interface");
    // The wide interface has more methods of `Store` and `Fast`.
    let conforms = |offer: &Plain| digest.is_none() || !is_wide || offer.is_wide || service == 0;
    let mut expected: Vec<&Plain> = list
        .offers
        .iter()
        .filter(|offer| {
            offer.is_proven && offer.service >= service && holds(offer.tier, tier) && conforms(offer)
        })
        .collect();
    expected.sort_by_key(|offer| (offer.lapsed.is_some(), offer.id));
    assert_eq!(found.more, expected.len() > most, "{found:?} of {expected:?}");
    assert_eq!(found.offers.len(), expected.len().min(most));
    assert!(found.offers.is_sorted_by_key(|offer| offer.doubtful));
    if is_first {
        let ids = |all: Vec<OfferId>| all;
        let expected = expected.iter().take(most).map(|offer| offer.id).collect();
        assert_eq!(ids(found.offers.iter().map(|offer| offer.id).collect()), ids(expected));
    }
    for offer in &found.offers {
        let plain = expected.iter().find(|plain| plain.id == offer.id).expect("an offer that matches");
        assert_eq!(offer.properties.get("tier"), Some(&Value::Int(plain.tier)));
        assert_eq!(offer.doubtful, plain.lapsed.is_some());
    }
}

fn prove(bytes: &mut Bytes<'_>, board: &mut Memory, list: &mut List, now: u64) {
    for to_prove in board.to_prove(now) {
        let id = to_prove.offer.id;
        let at = list.offers.iter().position(|offer| offer.id == id).expect("an offer that is there");
        assert!(!list.offers[at].is_proven, "a proof is not asked for again");
        match bytes.below(3) {
            0 => board.not_proved(id, now),
            1 => board.proved(id, &["tcp://b:1"], now),
            _ => {
                board.proved(id, &["tcp://a:1"], now);
                list.offers[at].is_proven = true;
                let offer = list.offers[at].clone();
                list.change(&offer);
            }
        }
    }
}
