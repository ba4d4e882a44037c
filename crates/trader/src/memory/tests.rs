//! Tests of the board: limits, rights, proofs, doubt, waits, costs.

use super::*;
use crate::board::{Everything, Page, Right, WaiterId};
use crate::offer::BadOffer;
use crate::property::{Properties, Value};
use crate::query::Query;

/// `Fast` is below `Store`, which is below `Base`.
fn interface(more: &str) -> String {
    format!(
        r#"{{"types":[{{"name":"int","kind":"int"}},{{"name":"Base","kind":"object"}},
        {{"name":"Store","kind":"object","supertypes":[1],"methods":[{{"name":"get","results":[0]}}]}},
        {{"name":"Fast","kind":"object","supertypes":[2],"methods":[{{"name":"get","results":[0]}}]}}{more}],
        "routines":[]}}"#
    )
}

/// Rights to services by the beginning of their names.
struct Few {
    exports: &'static str,
    imports: &'static str,
}

impl Right for Few {
    fn role(&self) -> &str {
        "some"
    }

    fn may_export(&self, service: &str) -> bool {
        self.exports.contains(service)
    }

    fn may_import(&self, service: &str) -> bool {
        self.imports.contains(service)
    }
}

/// A board with its time, and the digest of the interface.
struct Test {
    board: Memory,
    now: u64,
    digest: Digest,
}

impl Test {
    fn new(change: impl FnOnce(&mut Limits, &mut Options)) -> Test {
        let (mut limits, mut options) =
            (Limits::default(), Options { trusts_addresses: true, ..Options::default() });
        change(&mut limits, &mut options);
        let mut board = Memory::new(limits, options);
        let digest = board.teach(interface("").as_bytes()).unwrap();
        Test { board, now: 100_000, digest }
    }

    fn offer(&self, service: &str, name: &str) -> Export {
        Export {
            service: service.into(),
            digest: self.digest,
            name: name.into(),
            addresses: vec!["tcp://a:1".into()],
            ..Export::default()
        }
    }

    fn party(session: u64) -> Party<'static> {
        Party { right: &Everything, session }
    }

    fn try_export(&mut self, session: u64, export: Export) -> Result<OfferId, ExportError> {
        self.board.export(Test::party(session), export, self.now).map(|lease| lease.id)
    }

    fn export(&mut self, service: &str, name: &str) -> OfferId {
        let export = self.offer(service, name);
        self.try_export(1, export).unwrap()
    }

    fn import(&mut self, service: &str, query: &str) -> Found {
        self.ask(service, query, |_| {})
    }

    fn ask(&mut self, service: &str, query: &str, change: impl FnOnce(&mut Question)) -> Found {
        let mut question = Question {
            service: service.into(),
            digest: Some(self.digest),
            query: Query::parse(query).unwrap(),
            ..Question::default()
        };
        change(&mut question);
        self.board.import(Test::party(9), &question, 7, self.now).unwrap()
    }

    fn names(&mut self, service: &str) -> Vec<String> {
        let found = self.import(service, "prefer=first");
        found.offers.iter().map(|offer| offer.name.to_string()).collect()
    }

    /// Lets time pass, as a trader that is called each second.
    fn pass(&mut self, ms: u64) -> Vec<OfferId> {
        let end = self.now + ms;
        let mut ended = Vec::new();
        while self.now < end {
            self.now = (self.now + 1_000).min(end);
            ended.extend(self.board.expire(self.now));
        }
        ended
    }

    fn export_all(&mut self, numbers: std::ops::Range<usize>, service: impl Fn(usize) -> String) {
        for n in numbers {
            self.export(&service(n), &format!("n{n}"));
        }
    }

    fn renew_all(&mut self, ids: &[OfferId]) {
        for id in ids {
            self.renew(*id).unwrap();
        }
    }

    fn renew(&mut self, id: OfferId) -> Result<u64, RenewError> {
        self.board.renew(id, Renewal::default(), self.now)
    }
}

#[test]
fn imports_find_subtypes_and_no_supertypes() {
    let mut test = Test::new(|_, _| {});
    test.export("Fast", "fast");
    test.export("Store", "store");
    assert_eq!(test.names("Base"), ["fast", "store"]);
    assert_eq!(test.names("Store"), ["fast", "store"]);
    assert_eq!(test.names("Fast"), ["fast"]);
    assert_eq!(test.names("int"), [] as [&str; 0]);
}

#[test]
fn offers_that_do_not_conform_are_left_out() {
    let mut test = Test::new(|_, _| {});
    test.export("Fast", "old");
    let wide = interface("")
        .replace(r#"{"name":"get","results":[0]}"#, r#"{"name":"get","results":[0]},{"name":"put"}"#);
    let own = test.board.teach(wide.as_bytes()).unwrap();
    let mut export = test.offer("Fast", "new");
    export.digest = own;
    test.try_export(1, export).unwrap();
    assert_eq!(test.names("Store"), ["old", "new"], "a server may have more");
    test.digest = own;
    assert_eq!(test.names("Store"), ["new"]);
    assert_eq!(test.names("Base"), ["old", "new"], "methods of other types are not asked for");
    let all = test.ask("Store", "", |question| question.digest = None);
    assert_eq!(all.offers.len(), 2, "without an interface all are found");
    let unknown = Question { service: "Store".into(), digest: Some([1; 32]), ..Question::default() };
    let error = test.board.import(Test::party(1), &unknown, 0, test.now);
    assert_eq!(error, Err(ImportError::UnknownInterface));
}

#[test]
fn new_comparisons_of_an_import_are_bounded() {
    let mut test = Test::new(|limits, _| limits.compared_max = 2);
    for n in 0..5 {
        let more = format!(r#",{{"name":"T{n}","kind":"object"}}"#);
        let mut export = test.offer("Store", &format!("n{n}"));
        export.digest = test.board.teach(interface(&more).as_bytes()).unwrap();
        test.try_export(1, export).unwrap();
    }
    let counts: Vec<(usize, bool)> =
        (0..4).map(|_| test.import("Store", "")).map(|found| (found.offers.len(), found.more)).collect();
    assert_eq!(counts, [(2, true), (4, true), (5, false), (5, false)], "results are kept");
}

#[test]
fn rights_decide_about_names() {
    let mut test = Test::new(|_, _| {});
    let right = Few { exports: "Fast Store", imports: "Store" };
    let party = Party { right: &right, session: 5 };
    let export = test.offer("Fast", "fast");
    test.board.export(party, export, test.now).unwrap();
    assert_eq!(test.names("Fast"), ["fast"]);
    assert_eq!(test.names("Base"), [] as [&str; 0], "it may not export under that name");
    let base = test.offer("Base", "base");
    let error = test.board.export(party, base, test.now).unwrap_err();
    assert_eq!(error, ExportError::NoRight { role: "some".into(), service: "Base".into() });
    let mut import = |service: &str| {
        let question = Question { service: service.into(), ..Question::default() };
        test.board.import(party, &question, 0, test.now).unwrap().offers.len()
    };
    assert_eq!((import("Store"), import("Fast")), (1, 0));
    let listed = test.board.offers(party, Page { most: 9, ..Page::default() }, test.now);
    assert_eq!(listed.len(), 1, "it is seen under one of its names");
    assert!(
        test.board
            .offers(party, Page { service: Some("Fast"), most: 9, ..Page::default() }, test.now)
            .is_empty()
    );
    let waits = test.board.changes(party, "Fast", test.board.forgotten, 1_000, test.now).unwrap();
    assert!(matches!(waits, Changes::Wait(_)), "as a service that nobody exports");
}

#[test]
fn quotas_hold_and_are_given_back() {
    let mut test = Test::new(|limits, _| {
        (limits.offers_session_max, limits.offers_role_max, limits.offers_max) = (2, 3, 4);
    });
    let quota = |limit, value| Err(ExportError::Quota { limit, value });
    let first = test.export("Store", "a");
    test.export("Store", "b");
    let export = test.offer("Store", "c");
    assert_eq!(test.try_export(1, export.clone()), quota("offers_session_max", 2));
    test.try_export(2, export.clone()).unwrap();
    assert_eq!(test.try_export(3, export.clone()), quota("offers_role_max", 3));
    let other = Few { exports: "Store", imports: "" };
    let of_other = |test: &mut Test, session| {
        test.board.export(Party { right: &other, session }, export.clone(), test.now).map(|lease| lease.id)
    };
    of_other(&mut test, 4).unwrap();
    assert_eq!(of_other(&mut test, 5), quota("offers_max", 4));
    assert!(test.board.withdraw(first, test.now));
    of_other(&mut test, 5).unwrap();
    assert!(!test.board.withdraw(first, test.now), "it is gone");
    test.pass(90_000);
    assert!(test.board.is_empty());
    test.export("Store", "a");
}

#[test]
fn an_export_again_replaces_the_earlier_offer() {
    let mut test = Test::new(|limits, options| {
        limits.offers_session_max = 1;
        options.trusts_addresses = false;
    });
    let mut export = test.offer("Store", "a");
    export.properties.set("incarnation", Value::Int(1));
    let first = test.try_export(1, export.clone()).unwrap();
    test.board.proved(first, &["tcp://a:1"], test.now);
    let second = test.try_export(1, export.clone()).unwrap();
    assert!(second > first);
    assert_eq!(test.renew(first), Err(RenewError::Gone));
    assert_eq!(test.names("Store"), ["a"], "its proof counts");
    export.addresses = vec!["tcp://b:1".into()];
    test.try_export(1, export.clone()).unwrap();
    assert_eq!(test.names("Store"), [] as [&str; 0], "another address is to be proved");
    export.properties.set("incarnation", Value::Int(2));
    let error = test.try_export(1, export).unwrap_err();
    assert!(matches!(error, ExportError::Quota { .. }), "another process replaces nothing");
}

#[test]
fn exclusive_names_need_the_only_board() {
    let mut test = Test::new(|_, _| {});
    let mut export = test.offer("Store", "a");
    export.exclusive = true;
    assert_eq!(test.try_export(1, export.clone()), Err(ExportError::NotAgreed));
    let mut test = Test::new(|_, options| options.is_only_board = true);
    let first = test.try_export(1, export.clone()).unwrap();
    let taken = Err(ExportError::Taken { service: "Store".into(), name: "a".into() });
    assert_eq!(test.try_export(2, export.clone()), taken);
    let plain = test.offer("Store", "a");
    assert_eq!(test.try_export(2, plain.clone()), taken);
    test.try_export(2, test.offer("Fast", "a")).unwrap();
    test.board.withdraw(first, test.now);
    test.try_export(2, plain).unwrap();
    assert_eq!(test.try_export(1, export.clone()), taken, "others have the name already");
    test.pass(70_000);
    test.try_export(1, export).unwrap();
}

#[test]
fn leases_end_and_renewals_keep_them() {
    let mut test = Test::new(|_, _| {});
    let (a, b) = (test.export("Store", "a"), test.export("Store", "b"));
    assert_eq!(test.pass(10_000), []);
    assert_eq!(test.renew(a), Ok(5_000));
    assert_eq!(test.pass(4_999), []);
    assert_eq!(test.pass(1), [b]);
    assert_eq!(test.renew(b), Err(RenewError::Gone));
    assert_eq!(test.names("Store"), ["a"]);
    assert_eq!(test.pass(10_000), [a]);
    let mut long = test.offer("Store", "c");
    long.lease_ms = Some(1_000_000);
    let c = test.try_export(1, long).unwrap();
    assert_eq!((test.pass(59_999), test.pass(1)), (vec![], vec![c]), "the longest lease");
    assert!(c > b);
}

#[test]
fn renewals_change_properties_and_load() {
    let mut test = Test::new(|_, _| {});
    let mut export = test.offer("Store", "a");
    export.properties = [("host", Value::String("h".into())), ("tier", Value::Int(1))].into_iter().collect();
    let id = test.try_export(1, export).unwrap();
    let properties = Properties::parse("tier=2&host=other&store=x", test.board.limits()).unwrap();
    let renewal = Renewal { properties: Some(properties), load: Some(0.25) };
    test.board.renew(id, renewal, test.now).unwrap();
    let offer = test.import("Store", "load<0.5").offers.remove(0);
    assert_eq!(offer.properties.to_string(), "host=h&tier=2", "the exporter's identity stays");
    let wrong = Renewal { properties: None, load: Some(-1.0) };
    assert_eq!(test.board.renew(id, wrong, test.now), Err(RenewError::Offer(BadOffer::Load)));
}

#[test]
fn a_gap_gives_each_exporter_a_lease() {
    let mut test = Test::new(|_, _| {});
    let ids: Vec<OfferId> = ["a", "b", "c"].map(|name| test.export("Store", name)).into();
    test.pass(10_000);
    test.now += 200_000;
    assert_eq!(test.board.expire(test.now), [], "the trader was stopped");
    assert_eq!(test.names("Store"), ["a", "b", "c"]);
    test.pass(14_000);
    test.renew(ids[0]).unwrap();
    test.renew(ids[1]).unwrap();
    assert_eq!(test.pass(1_000), [ids[2]]);
    // A clock that was set back is no gap, and no time.
    test.now -= 150_000;
    assert_eq!(test.pass(13_000), []);
    test.board.distrust(test.now);
    assert_eq!(test.pass(14_999), [], "renewals may have been lost elsewhere");
    assert_eq!(test.pass(1_001).len(), 2);
}

#[test]
fn most_offers_of_a_service_do_not_expire_together() {
    let mut test = Test::new(|_, _| {});
    let names = ["a", "b", "c", "d", "e"];
    let ids = names.map(|name| test.export("Store", name));
    test.pass(10_000);
    // Two of five live.
    test.renew_all(&ids[..2]);
    assert_eq!(test.pass(6_000), []);
    assert_eq!(test.names("Store"), names);
    let found = test.import("Store", "prefer=first");
    let doubtful: Vec<bool> = found.offers.iter().map(|offer| offer.doubtful).collect();
    assert_eq!(doubtful, [false, false, true, true, true]);
    // One comes back, and two go after four leases.
    test.renew(ids[4]).unwrap();
    assert!(!test.import("Store", "").offers.iter().any(|offer| offer.id == ids[4] && offer.doubtful));
    let mut ended = Vec::new();
    for _ in 0..12 {
        test.renew_all(&[ids[0], ids[1], ids[4]]);
        ended.extend(test.pass(5_000));
    }
    assert_eq!(ended, [ids[2], ids[3]]);
    assert_eq!(test.names("Store"), ["a", "b", "e"]);
}

#[test]
fn few_offers_expire_as_usual() {
    // Two of two are too few, and two of four are not more than half.
    for (all, dead) in [(2, 2), (4, 2), (7, 3)] {
        let mut test = Test::new(|_, _| {});
        let ids: Vec<OfferId> = (0..all).map(|n| test.export("Store", &format!("n{n}"))).collect();
        test.pass(10_000);
        test.renew_all(&ids[dead..]);
        assert_eq!(test.pass(5_000), ids[..dead], "{dead} of {all}");
    }
}

#[test]
fn offers_are_listed_when_they_are_proved() {
    let mut test = Test::new(|_, options| {
        options.trusts_addresses = false;
        options.host = Some("here".into());
    });
    let mut export = test.offer("Store", "a");
    export.addresses = ["tcp://a:1", "unix:///a", "tcp://b:1"].map(String::from).into();
    export.properties.set("host", Value::String("there".into()));
    let id = test.try_export(1, export).unwrap();
    assert_eq!(test.names("Store"), [] as [&str; 0]);
    let asked = test.board.to_prove(test.now);
    let dialled: Vec<&str> = asked[0].offer.addresses.iter().map(|address| &**address).collect();
    assert_eq!(dialled, ["tcp://a:1", "tcp://b:1"], "a local address of another machine is not dialled");
    assert!(test.board.to_prove(test.now).is_empty(), "once for a try");
    test.board.proved(id, &["tcp://c:1"], test.now);
    assert_eq!(test.names("Store"), [] as [&str; 0], "that is none of its addresses");
    test.board.proved(id, &["tcp://b:1"], test.now);
    let page = Page { host: Some("there"), most: 9, ..Page::default() };
    let offer = test.board.offers(Test::party(1), page, test.now).remove(0);
    assert_eq!(
        offer.addresses.iter().map(|address| &**address).collect::<Vec<_>>(),
        ["unix:///a", "tcp://b:1"]
    );
    assert_eq!(test.import("Store", "").offers[0].addresses.len(), 1, "the importer is elsewhere");
    assert!(test.board.to_prove(test.now).is_empty());
}

#[test]
fn tries_to_prove_are_bounded() {
    let mut test = Test::new(|_, options| options.trusts_addresses = false);
    let id = test.export("Store", "a");
    let mut tries = 0;
    for step in 0..120 {
        // Renewals all the time, and a try fails at once.
        if step % 10 == 9 {
            test.renew(id).unwrap();
        }
        for asked in test.board.to_prove(test.now) {
            tries += 1;
            test.board.not_proved(asked.offer.id, test.now);
        }
        test.pass(500);
        if step == 8 {
            assert_eq!(tries, 3, "three at first");
        }
    }
    assert_eq!(tries, 3 + 12, "and one for each renewal");
    // A try without an answer has failed after some time.
    test.renew(id).unwrap();
    test.pass(1_000);
    assert_eq!(test.board.to_prove(test.now).len(), 1);
    test.renew(id).unwrap();
    test.pass(4_999);
    assert!(test.board.to_prove(test.now).is_empty());
    test.pass(2_001);
    assert_eq!(test.board.to_prove(test.now).len(), 1, "a renewal came meanwhile");
}

#[test]
fn few_offers_are_dialled_at_once_and_new_ones_first() {
    let mut test = Test::new(|limits, options| {
        limits.proofs_max = 2;
        options.trusts_addresses = false;
    });
    let ids = ["a", "b", "c"].map(|name| test.export("Store", name));
    let dialled = |test: &mut Test| -> Vec<OfferId> {
        test.board.to_prove(test.now).iter().map(|asked| asked.offer.id).collect()
    };
    assert_eq!(dialled(&mut test), ids[..2]);
    assert_eq!(dialled(&mut test), []);
    test.board.not_proved(ids[0], test.now);
    test.now += 600;
    assert_eq!(dialled(&mut test), [ids[2]], "its first try comes before a second one");
    test.board.withdraw(ids[1], test.now);
    assert_eq!(dialled(&mut test), [ids[0]]);
}

#[test]
fn sessions_take_turns_to_be_dialled() {
    let mut test = Test::new(|limits, options| {
        limits.proofs_max = 1;
        options.trusts_addresses = false;
    });
    test.export_all(0..50, |_| "Store".into());
    let export = test.offer("Store", "other");
    let other = test.try_export(2, export).unwrap();
    let mut dialled = Vec::new();
    for _ in 0..3 {
        let asked = test.board.to_prove(test.now).remove(0).offer.id;
        test.board.not_proved(asked, test.now);
        dialled.push(asked);
    }
    assert_eq!(dialled[1], other, "before the second offer of the first session");
}

#[test]
fn long_names_are_waited_for_without_being_kept() {
    let mut test = Test::new(|_, _| {});
    let Ok(Changes::Now(counter)) = test.board.changes(Test::party(1), "Store", 0, 9, test.now) else {
        panic!()
    };
    let long = "s".repeat(257);
    let result = test.board.changes(Test::party(1), &long, counter, 1_000, test.now);
    assert!(matches!(result, Ok(Changes::Wait(_))) && test.board.services.is_empty());
    test.pass(1_000);
    assert_eq!(test.board.answers().len(), 1);
}

#[test]
fn waits_are_answered_by_changes_and_time() {
    let mut test = Test::new(|limits, _| (limits.waits_session_max, limits.waits_max) = (2, 3));
    let changes = |test: &mut Test, session, service: &str, since, ms| {
        test.board.changes(Test::party(session), service, since, ms, test.now)
    };
    let Ok(Changes::Now(start)) = changes(&mut test, 1, "Store", 0, 9_000) else { panic!() };
    let Ok(Changes::Wait(first)) = changes(&mut test, 1, "Store", start, 9_000) else { panic!() };
    let Ok(Changes::Wait(other)) = changes(&mut test, 1, "Till", start, 1_000_000) else { panic!() };
    let error = changes(&mut test, 1, "Till", start, 9_000).unwrap_err();
    assert_eq!((error.limit, error.value), ("waits_session_max", 2));
    changes(&mut test, 2, "Till", start, 9_000).unwrap();
    assert_eq!(changes(&mut test, 3, "Till", start, 9_000).unwrap_err().limit, "waits_max");
    assert_eq!(test.board.answers(), []);
    let id = test.export("Fast", "a");
    let answers = test.board.answers();
    assert_eq!(answers.iter().map(|answer| answer.waiter).collect::<Vec<WaiterId>>(), [first]);
    let counter = answers[0].counter;
    assert!(counter > start);
    // A renewal with another load changes nothing.
    test.board.renew(id, Renewal { properties: None, load: Some(1.0) }, test.now).unwrap();
    assert!(matches!(changes(&mut test, 1, "Store", counter, 100), Ok(Changes::Wait(_))));
    test.pass(8_000);
    assert_eq!(test.board.answers().len(), 1, "its time was over");
    test.board.end_session(2);
    assert_eq!(test.board.waits(), 1);
    test.renew(id).unwrap();
    for _ in 0..11 {
        test.pass(4_000);
        test.renew(id).unwrap();
    }
    assert_eq!(test.board.answers(), []);
    test.pass(8_000);
    assert_eq!(test.board.answers().len(), 1, "60 s are the longest wait");
    assert!(!test.board.services.contains_key("Till"), "nobody waits for it, or exports it");
    let _ = other;
}

#[test]
fn numbers_begin_where_the_trader_says() {
    let mut test = Test::new(|_, options| options.first = 5_000);
    assert_eq!(test.export("Store", "a"), OfferId(5_000));
    let result = test.board.changes(Test::party(1), "Till", 4_000, 1_000, test.now);
    assert_eq!(result, Ok(Changes::Now(5_000)), "a counter of an earlier trader is another one");
}

#[test]
fn answers_are_bounded_and_paged() {
    let mut test = Test::new(|limits, _| {
        limits.offers_session_max = 1_000;
        limits.looked_at_max = 100;
    });
    test.export_all(0..90, |_| "Store".into());
    for (query, looked_at) in
        [("", 16), ("prefer=spread", 16), ("prefer=random", 9), ("prefer=first", 9), ("prefer=min(load)", 90)]
    {
        let found = test.import("Store", query);
        assert_eq!((found.offers.len(), found.more, found.looked_at), (8, true, looked_at), "{query}");
    }
    let found = test.ask("Store", "", |question| question.most = Some(1_000));
    assert_eq!((found.offers.len(), found.more), (64, true));
    test.export_all(90..300, |_| "Store".into());
    let mut seen = BTreeSet::new();
    for seed in 0..200 {
        let question = Question { service: "Store".into(), ..Question::default() };
        let found = test.board.import(Test::party(1), &question, seed, test.now).unwrap();
        assert_eq!((found.offers.len(), found.more, found.looked_at), (8, true, 16));
        seen.extend(found.offers.iter().map(|offer| offer.id));
    }
    assert!(seen.len() > 290, "each is looked at some time: {}", seen.len());
    let found = test.import("Store", "region=nowhere");
    assert_eq!((found.offers.len(), found.more, found.looked_at), (0, true, 100));
    let (mut after, mut pages) = (OfferId(0), Vec::new());
    loop {
        let page = test.board.offers(
            Test::party(1),
            Page { service: Some("Base"), after, most: 128, host: None },
            test.now,
        );
        let Some(last) = page.last() else { break };
        after = last.id;
        pages.push(page.len());
    }
    assert_eq!(pages, [128, 128, 44]);
}

/// 10,000 offers in 200 services: an import looks at 50.
#[test]
fn imports_look_only_at_their_service() {
    let mut test = Test::new(|limits, _| limits.offers_session_max = 20_000);
    let types: String = (0..200).map(|n| format!(r#",{{"name":"S{n}","kind":"object"}}"#)).collect();
    test.digest = test.board.teach(interface(&types).as_bytes()).unwrap();
    test.export_all(0..10_000, |n| format!("S{}", n % 200));
    for service in 0..200 {
        let found = test.import(&format!("S{service}"), "tier=1");
        assert_eq!((found.offers.len(), found.looked_at), (0, 50));
    }
    let found = test.import("S7", "prefer=first");
    assert_eq!(
        (found.offers.len(), found.more, found.looked_at),
        (8, true, 9),
        "and stops when it has enough"
    );
}
