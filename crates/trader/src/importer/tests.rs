//! Tests of the importer's states.

use super::*;
use crate::limits::Limits;
use crate::property::Properties;

fn offer(name: &str, addresses: &[&str], properties: &str) -> Offer {
    Offer {
        name: name.into(),
        addresses: addresses.iter().map(|address| Arc::from(*address)).collect(),
        properties: Properties::parse(properties, &Limits::default()).unwrap(),
        ..Offer::default()
    }
}

struct Test {
    importer: Importer,
    now: u64,
}

impl Test {
    fn new(traders: usize, change: impl FnOnce(&mut Options)) -> Test {
        let mut options = Options::default();
        change(&mut options);
        Test { importer: Importer::new(options, traders, 3, 0), now: 0 }
    }

    fn actions(&mut self) -> Vec<String> {
        let shown = |action| match action {
            Action::Ask(id, trader) => format!("ask {} of {trader}", id.0),
            Action::Dial(id, _, address) => format!("dial {} {address}", id.0),
            Action::Cancel(id) => format!("cancel {}", id.0),
            Action::Use(id, offer, address) => format!("use {} {} {address}", id.0, offer.name),
            Action::Fail(failure) => format!("fail {failure}"),
        };
        std::iter::from_fn(|| self.importer.poll(self.now)).map(shown).collect()
    }

    fn event(&mut self, event: Event) -> Vec<String> {
        self.importer.handle(event, self.now);
        self.actions()
    }

    fn found(&mut self, ask: u64, offers: &[Offer]) -> Vec<String> {
        self.event(Event::Found(AskId(ask), offers.to_vec()))
    }

    fn next(&mut self) -> Vec<String> {
        self.now = self.importer.next_deadline().expect("a deadline").max(self.now);
        self.actions()
    }
}

#[test]
fn traders_are_asked_one_after_the_other_in_any_order() {
    let mut test = Test::new(3, |_| {});
    let mut asked = test.actions();
    assert_eq!(asked.len(), 1);
    asked.extend(test.next());
    assert_eq!((asked.len(), test.now), (2, 250));
    // A trader without offers: the next one is asked at once.
    asked.extend(test.found(1, &[]));
    assert_eq!((asked.len(), test.now), (3, 250));
    let order = |seed| {
        let mut importer = Importer::new(Options::default(), 3, seed, 0);
        let Some(Action::Ask(_, trader)) = importer.poll(0) else { panic!() };
        trader
    };
    assert!((0..3).all(|trader| (0..50).any(|seed| order(seed) == trader)));
}

#[test]
fn addresses_are_dialled_one_after_the_other() {
    let mut test = Test::new(1, |options| options.host = Some("h".into()));
    test.actions();
    let offers = [
        offer("a", &["tls://a:1", "rex://a:2", "unix:///a"], "host=h"),
        offer("b", &["tcp://b:1", "unix:///b"], "host=g"),
    ];
    assert_eq!(test.found(1, &offers), ["dial 1 unix:///a"]);
    assert_eq!((test.next(), test.now), (vec!["dial 2 tls://a:1".into()], 250));
    // A failure has the next one dialled at once.
    assert_eq!(test.event(Event::DialFailed(DialId(1))), ["dial 3 tcp://b:1"]);
    assert_eq!(test.event(Event::Opened(DialId(2))), ["cancel 3", "use 2 a tls://a:1"]);
    assert_eq!(test.importer.offer().unwrap().name, "a".into());
    assert_eq!((test.importer.next_deadline(), test.event(Event::Opened(DialId(3)))), (None, vec![]));
}

#[test]
fn all_failed_is_a_pause_that_doubles() {
    let mut test = Test::new(1, |_| {});
    test.actions();
    let mut pauses = Vec::new();
    for round in 1..9 {
        assert_eq!(test.found(round, &[offer("a", &["tcp://a:1"], "")]), [format!("dial {round} tcp://a:1")]);
        assert_eq!(test.event(Event::DialFailed(DialId(round))), [] as [&str; 0]);
        let start = test.now;
        assert_eq!(test.next(), [format!("ask {} of 0", round + 1)]);
        pauses.push(test.now - start);
    }
    let most = [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000];
    assert!(pauses.iter().zip(most).all(|(pause, most)| (most / 2..=most).contains(pause)), "{pauses:?}");
}

#[test]
fn silence_has_an_end() {
    let mut test = Test::new(1, |_| {});
    test.actions();
    assert_eq!((test.next(), test.now), (vec![], 5_000), "the trader does not answer");
    assert_eq!(test.next(), ["ask 2 of 0"]);
    assert_eq!(test.found(1, &[offer("a", &["tcp://a:1"], "")]), [] as [&str; 0], "it is too late");
    assert_eq!(test.found(2, &[offer("a", &["tcp://a:1"], "")]), ["dial 1 tcp://a:1"]);
    let start = test.now;
    assert_eq!((test.next(), test.now), (vec!["cancel 1".into()], start + 5_000));
}

#[test]
fn a_search_ends_with_the_worst_that_is_known() {
    let fail = |offers: Option<&[Offer]>| {
        let mut test = Test::new(1, |options| options.timeout_ms = Some(700));
        test.actions();
        if let Some(offers) = offers {
            test.found(1, offers);
            test.event(Event::DialFailed(DialId(1)));
        }
        let mut actions = Vec::new();
        while actions.is_empty() {
            actions = test.next();
        }
        assert_eq!((test.now, test.importer.next_deadline(), test.actions()), (700, None, vec![]));
        actions.remove(0)
    };
    assert_eq!(fail(None), "fail no trader has answered");
    assert_eq!(fail(Some(&[])), "fail no trader knows an offer that matches");
    let rex = offer("a", &["rex://a:1"], "");
    assert_eq!(fail(Some(&[rex])), "fail no offer has an address that this process can use");
    let tcp = offer("a", &["tcp://a:1"], "");
    assert_eq!(fail(Some(&[tcp])), "fail no server of 1 offers was reached");
}

#[test]
fn after_a_loss_others_come_first() {
    let mut test = Test::new(1, |_| {});
    test.actions();
    let all = ["a", "b", "c"].map(|name| offer(name, &[&format!("tcp://{name}:1")], "store=s"));
    test.found(1, &all);
    assert_eq!(test.event(Event::Opened(DialId(1))), ["use 1 a tcp://a:1"]);
    assert_eq!(test.event(Event::Lost(Next::Again)), ["dial 2 tcp://b:1"]);
    test.event(Event::DialFailed(DialId(2)));
    assert_eq!(test.event(Event::DialFailed(DialId(3))), ["ask 2 of 0"]);
    assert_eq!(test.found(2, &all), ["dial 4 tcp://a:1"], "the others have just failed");
    test.event(Event::Opened(DialId(4)));
    assert_eq!(test.event(Event::Lost(Next::Again)), ["ask 3 of 0"]);
    assert_eq!(test.found(3, &all[..2]), ["dial 5 tcp://b:1"]);
    assert_eq!(test.event(Event::DialFailed(DialId(5))), ["dial 6 tcp://a:1"], "the lost one is the last");
}

#[test]
fn a_named_batch_stays_with_its_store() {
    let mut test = Test::new(1, |_| {});
    test.actions();
    let all = [
        offer("a", &["tcp://a:1"], "store=s"),
        offer("b", &["tcp://b:1"], "store=t"),
        offer("c", &["tcp://c:1"], "store=s"),
        offer("d", &["tcp://d:1"], ""),
    ];
    test.found(1, &all);
    test.event(Event::Opened(DialId(1)));
    assert_eq!(test.event(Event::Lost(Next::SameStore)), ["dial 2 tcp://c:1"]);
    assert_eq!(test.event(Event::DialFailed(DialId(2))), ["ask 2 of 0"]);
    assert_eq!(test.found(2, &all), ["dial 3 tcp://a:1"], "the lost one may be there again");
    test.event(Event::Opened(DialId(3)));
    test.importer.release_store();
    assert_eq!(test.event(Event::Lost(Next::Again)), ["ask 3 of 0"]);
    assert_eq!(test.found(3, &all), ["dial 4 tcp://b:1"]);
    let mut alone = Test::new(1, |_| {});
    alone.actions();
    alone.found(1, &all[3..]);
    alone.event(Event::Opened(DialId(1)));
    let error = "fail the server is lost, and its offer names no store that another server could share";
    assert_eq!(alone.event(Event::Lost(Next::SameStore)), [error]);
}

#[test]
fn what_may_not_run_twice_ends_the_import() {
    let mut test = Test::new(1, |_| {});
    test.actions();
    test.found(1, &[offer("a", &["tcp://a:1"], "")]);
    test.event(Event::Opened(DialId(1)));
    let error = "fail the server is lost, and the batch must not run a second time";
    assert_eq!(test.event(Event::Lost(Next::GiveUp)), [error]);
    assert_eq!(test.event(Event::Lost(Next::Again)), [] as [&str; 0]);
}

#[test]
fn a_program_that_has_moved_by_itself_says_so() {
    let mut test = Test::new(1, |_| {});
    test.actions();
    let all = ["a", "b"].map(|name| offer(name, &[&format!("tcp://{name}:1")], ""));
    test.found(1, &all[..1]);
    test.event(Event::Opened(DialId(1)));
    test.importer.moved(Arc::new(all[1].clone()));
    assert_eq!((test.importer.offer().unwrap().name.clone(), test.actions()), ("b".into(), vec![]));
    // The offer that is lost is the other one, and comes last.
    assert_eq!(test.event(Event::Lost(Next::Again)), ["ask 2 of 0"]);
    assert_eq!(test.found(2, &[all[1].clone(), all[0].clone()]), ["dial 2 tcp://a:1"]);
}

#[test]
fn a_program_can_give_a_search_up() {
    let mut test = Test::new(1, |_| {});
    test.actions();
    test.found(1, &[offer("a", &["tcp://a:1"], "")]);
    test.event(Event::DialFailed(DialId(1)));
    assert!(test.importer.is_pausing());
    test.importer.give_up();
    assert_eq!(test.actions(), ["fail no server of 1 offers was reached"]);
    assert!(!test.importer.is_pausing());
}
