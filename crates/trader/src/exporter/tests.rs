//! Tests of the exporter's states.

use super::*;

/// An exporter of one offer at one trader, with its actions so far.
struct Test {
    exporter: Exporter,
    now: u64,
}

impl Test {
    fn new(traders: usize, exports: usize) -> Test {
        Test { exporter: Exporter::new(Options::for_lease(15_000), traders, exports, 1, 0), now: 0 }
    }

    fn actions(&mut self) -> Vec<Action> {
        std::iter::from_fn(|| self.exporter.poll(self.now)).collect()
    }

    fn event(&mut self, event: Event) -> Vec<Action> {
        self.exporter.handle(event, self.now);
        self.actions()
    }

    /// Goes to the next deadline.
    fn next(&mut self) -> Vec<Action> {
        self.now = self.exporter.next_deadline().expect("a deadline").max(self.now);
        self.actions()
    }

    /// Connects, and holds a lease of the first export.
    fn hold(&mut self) -> Via {
        let Action::Connect(via) = self.actions()[0] else { panic!() };
        assert_eq!(self.event(Event::Connected(via)), [Action::Export(via, 0)]);
        assert_eq!(self.event(Event::Exported(via, 0, 5_000)), []);
        via
    }
}

#[test]
fn a_lease_is_renewed_after_a_third() {
    let mut test = Test::new(1, 1);
    let via = test.hold();
    assert_eq!((test.next(), test.now), (vec![Action::Renew(via, 0)], 5_000));
    test.now += 20;
    assert_eq!(test.event(Event::Renewed(via, 0, 4_000)), []);
    assert_eq!((test.next(), test.now), (vec![Action::Renew(via, 0)], 9_020));
    assert_eq!(test.event(Event::Gone(via, 0)), [Action::Export(via, 0)]);
    assert_eq!(test.exporter.held(0), 0);
}

#[test]
fn no_trader_has_renewals_come_all_the_time_or_never() {
    let mut test = Test::new(1, 1);
    let via = test.hold();
    assert_eq!((test.next(), test.now), (vec![Action::Renew(via, 0)], 5_000));
    test.event(Event::Renewed(via, 0, 0));
    assert_eq!((test.next(), test.now), (vec![Action::Renew(via, 0)], 5_500));
    test.event(Event::Renewed(via, 0, u64::MAX));
    assert_eq!((test.next(), test.now), (vec![Action::Renew(via, 0)], 65_500));
}

#[test]
fn an_unknown_interface_is_taught_and_a_refusal_waits() {
    let mut test = Test::new(1, 1);
    let Action::Connect(via) = test.actions()[0] else { panic!() };
    test.event(Event::Connected(via));
    assert_eq!(test.event(Event::UnknownInterface(via, 0)), [Action::Teach(via, 0)]);
    assert_eq!(test.event(Event::Taught(via, 0)), [Action::Export(via, 0)]);
    assert_eq!(test.event(Event::Refused(via, 0)), []);
    assert_eq!((test.next(), test.now), (vec![Action::Export(via, 0)], 10_000));
}

#[test]
fn a_lost_session_is_made_again_with_all_exports() {
    let mut test = Test::new(1, 2);
    let Action::Connect(via) = test.actions()[0] else { panic!() };
    assert_eq!(test.event(Event::Connected(via)), [Action::Export(via, 0), Action::Export(via, 1)]);
    test.event(Event::Exported(via, 0, 5_000));
    test.event(Event::Exported(via, 1, 5_000));
    assert_eq!(test.exporter.held(0), 2);
    assert_eq!(test.event(Event::Lost(via)), []);
    assert_eq!(test.exporter.held(0), 0);
    let again = Via { trader: 0, attempt: 2 };
    assert_eq!(test.next(), [Action::Connect(again)]);
    assert!((125..=250).contains(&test.now), "{}", test.now);
    // An event of the earlier session is late.
    assert_eq!(test.event(Event::Connected(via)), []);
    assert_eq!(test.event(Event::Connected(again)), [Action::Export(again, 0), Action::Export(again, 1)]);
    assert_eq!(test.event(Event::Exported(via, 0, 5_000)), []);
    assert_eq!(test.exporter.held(0), 0);
}

#[test]
fn a_trader_that_does_not_answer_is_left_and_pauses_double() {
    let mut test = Test::new(1, 1);
    let Action::Connect(via) = test.actions()[0] else { panic!() };
    assert_eq!((test.next(), test.now), (vec![Action::Close(via)], 1_875));
    let mut pauses = Vec::new();
    for attempt in 2..12 {
        let (via, start) = (Via { trader: 0, attempt }, test.now);
        assert_eq!(test.next(), [Action::Connect(via)]);
        pauses.push(test.now - start);
        test.exporter.handle(Event::Lost(via), test.now);
    }
    assert!(
        pauses
            .iter()
            .zip([250, 500, 1_000, 2_000, 2_500, 2_500])
            .all(|(pause, most)| { (most / 2..=most).contains(pause) })
    );
    // All pauses and answers together are shorter than a third of the lease.
    for lease_ms in [10_000, 15_000, 60_000] {
        let Options { answer_ms, pause_ms_max, .. } = Options::for_lease(lease_ms);
        assert!(answer_ms + pause_ms_max < lease_ms / 3);
    }
}

#[test]
fn each_trader_has_its_own_session() {
    let mut test = Test::new(3, 1);
    let vias = [0, 1, 2].map(|trader| Via { trader, attempt: 1 });
    assert_eq!(test.actions(), vias.map(Action::Connect));
    assert_eq!(test.event(Event::Connected(vias[1])), [Action::Export(vias[1], 0)]);
    assert_eq!(test.event(Event::Lost(vias[0])), []);
    assert_eq!(test.event(Event::Exported(vias[1], 0, 5_000)), []);
    assert_eq!([0, 1, 2].map(|trader| test.exporter.held(trader)), [0, 1, 0]);
}

#[test]
fn a_stop_withdraws_first() {
    let mut test = Test::new(2, 1);
    let via = test.hold();
    let other = Via { trader: 1, attempt: 1 };
    let stopping = test.event(Event::Stop);
    assert_eq!(stopping, [Action::Withdraw(via, 0), Action::Close(other)]);
    assert_eq!(test.event(Event::Withdrawn(via, 0)), [Action::Stopped]);
    assert_eq!((test.actions(), test.exporter.next_deadline()), (vec![], None));
}

#[test]
fn a_stop_ends_without_answers_too() {
    let mut test = Test::new(1, 1);
    let via = test.hold();
    assert_eq!(test.event(Event::Stop), [Action::Withdraw(via, 0)]);
    let actions = test.next();
    assert_eq!((actions, test.now), (vec![Action::Close(via), Action::Stopped], 1_000));
    // An export that is answered while the server stops is withdrawn.
    let mut test = Test::new(1, 1);
    let Action::Connect(via) = test.actions()[0] else { panic!() };
    test.event(Event::Connected(via));
    assert_eq!(test.event(Event::Stop), []);
    assert_eq!(test.event(Event::Exported(via, 0, 5_000)), [Action::Withdraw(via, 0)]);
    assert_eq!(test.event(Event::Gone(via, 0)), [Action::Stopped]);
}
