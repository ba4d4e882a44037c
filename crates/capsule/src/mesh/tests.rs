//! Tests of the mesh: several capsules in one test, with links that are queues of bytes.
//!
//! Read [`World`] first. A test calls it in the order in which threads and the system would: a node
//! sends ([`World::post`]) or rests, a frame arrives ([`World::deliver`]), a tick comes, a link
//! fails. [`World::settle`] lets all frames arrive. There are no sockets, threads and pauses.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proptest::prelude::*;

use super::*;

/// A capsule of a test: its mesh, and its nodes as counts.
struct Capsule {
    mesh: Mesh,
    /// The busy nodes, and the batches that no node has taken yet.
    work: u32,
    /// The capsules whose nodes are lost for the nodes here.
    lost: BTreeSet<u32>,
    /// The first node was told that nothing can happen any more.
    over: bool,
    /// The nodes were ended.
    stopped: bool,
    /// The texts that were printed.
    printed: String,
}

/// Capsules with links between them.
struct World {
    capsules: Vec<Capsule>,
    /// By sender and receiver: the frames under way. A link that is closed at either end has none.
    links: BTreeMap<(u32, u32), VecDeque<Vec<u8>>>,
}

const NODES: u32 = 2;

impl World {
    /// Makes so many capsules, whose nodes are all busy.
    fn new(count: u32) -> World {
        let capsules = (0..count).map(|own| Capsule {
            mesh: Mesh::new(Layout { own, capsules: count, nodes: NODES }),
            work: NODES,
            lost: BTreeSet::new(),
            over: false,
            stopped: false,
            printed: String::new(),
        });
        let capsules = capsules.collect();
        let pairs = (0..count).flat_map(|from| (0..count).map(move |to| (from, to)));
        let links = pairs.filter(|(from, to)| from != to).map(|link| (link, VecDeque::new())).collect();
        World { capsules, links }
    }

    /// Adds a frame to a link, as bytes, if it is open.
    fn send(&mut self, from: u32, to: u32, bytes: Vec<u8>) {
        if let Some(link) = self.links.get_mut(&(from, to)) {
            link.push_back(bytes);
        }
    }

    fn send_frame(&mut self, from: u32, to: u32, frame: &Frame<'_>) {
        let mut bytes = Vec::new();
        put(&mut bytes, frame);
        self.send(from, to, bytes);
    }

    /// Closes a link at both ends.
    fn close(&mut self, one: u32, other: u32) {
        self.links.remove(&(one, other));
        self.links.remove(&(other, one));
    }

    /// A busy node of a capsule sends a batch to a node of another one.
    fn post(&mut self, from: u32, to: u32) {
        assert!(self.capsules[from as usize].work > 0, "only a busy node sends");
        if self.capsules[from as usize].mesh.count_sent(to) {
            let mut bytes = Vec::new();
            put_packets(&mut bytes, from * NODES, to * NODES, b"work");
            self.send(from, to, bytes);
        }
    }

    /// A node of a capsule has done its work.
    fn rest(&mut self, capsule: u32) {
        self.capsules[capsule as usize].work -= 1;
    }

    /// Hands the next frame of a link to its receiver; `Wrong` loses the sender, as a link does it.
    /// Returns false if there is none.
    fn deliver(&mut self, from: u32, to: u32) -> bool {
        let next = self.links.get_mut(&(from, to)).and_then(VecDeque::pop_front);
        let Some(bytes) = next else { return false };
        let mut decoder = Decoder::new();
        decoder.room().extend_from_slice(&bytes);
        let frame = decoder.next().expect("a frame").expect("a whole frame");
        if self.take(from, to, frame).is_err() {
            let event = self.capsules[to as usize].mesh.handle_failure(from);
            self.carry_out(to, event);
        }
        true
    }

    fn take(&mut self, from: u32, to: u32, frame: Frame<'_>) -> Result<(), Wrong> {
        let capsule = &mut self.capsules[to as usize];
        if let Frame::Packets(entries) = frame {
            for (sender, receiver, _) in entries {
                capsule.work += u32::from(capsule.mesh.handle_batch(from, sender, receiver)?);
            }
            return Ok(());
        }
        let event = capsule.mesh.handle_frame(from, frame, capsule.work == 0)?;
        self.carry_out(to, event);
        Ok(())
    }

    fn carry_out(&mut self, at: u32, event: Option<Event<'_>>) {
        let capsule = &mut self.capsules[at as usize];
        match event {
            Some(Event::Lost(lost)) => {
                assert!(capsule.lost.insert(lost), "{at} has lost {lost} twice");
                self.close(at, lost);
            }
            Some(Event::Close(other)) => self.close(at, other),
            Some(Event::Over) => capsule.over = true,
            Some(Event::Stop | Event::Orphaned) => capsule.stopped = true,
            Some(Event::Output(text)) => capsule.printed += text,
            Some(Event::Idle(_) | Event::NoBacklog(_) | Event::Report) | None => {}
        }
        while let Some((to, frame)) = self.capsules[at as usize].mesh.poll_transmit() {
            self.send_frame(at, to, &frame);
        }
    }

    /// The time of a tick has come at a capsule.
    fn tick(&mut self, at: u32) {
        let capsule = &mut self.capsules[at as usize];
        if capsule.work == 0 {
            let event = capsule.mesh.handle_quiet();
            self.carry_out(at, event);
        }
    }

    /// The link of a capsule to another one fails, and the other's end sees that later.
    fn fail(&mut self, at: u32, other: u32) {
        self.close(at, other);
        let event = self.capsules[at as usize].mesh.handle_end(other);
        self.carry_out(at, event);
    }

    /// A capsule dies: all its links end at the others, in this order.
    fn kill(&mut self, dead: u32, order: &[u32]) {
        order.iter().for_each(|at| self.fail(*at, dead));
    }

    /// Delivers all frames, and ticks, until nothing more happens.
    fn settle(&mut self) {
        loop {
            (0..self.capsules.len() as u32).for_each(|at| self.tick(at));
            let links: Vec<_> = self.links.keys().copied().collect();
            let delivered = links.into_iter().filter(|(from, to)| self.deliver(*from, *to)).count();
            if delivered == 0 {
                return;
            }
        }
    }

    /// True if a capsule that the first one has not lost has work, or there is some under way
    /// between two of them.
    fn has_work(&self) -> bool {
        let lives = |capsule: u32| !self.capsules[0].lost.contains(&capsule);
        let works = |at: u32| self.capsules[at as usize].work > 0;
        let is_packets = |bytes: &Vec<u8>| bytes[4] == FRAMES[0].kind;
        (0..self.capsules.len() as u32).any(|at| lives(at) && works(at))
            || self
                .links
                .iter()
                .any(|((from, to), frames)| lives(*from) && lives(*to) && frames.iter().any(is_packets))
    }

    fn is_over(&self) -> bool {
        self.capsules[0].over
    }

    fn state(&self, at: u32, of: u32) -> LinkState {
        self.capsules[at as usize].mesh.links[of as usize]
    }
}

/// Makes capsules whose nodes all rest.
fn resting(count: u32) -> World {
    let mut world = World::new(count);
    for capsule in 0..count {
        (0..NODES).for_each(|_| world.rest(capsule));
    }
    world
}

#[test]
fn the_end_is_found_when_all_rest_and_counts_agree() {
    for count in 1..=3 {
        let mut world = resting(count);
        world.settle();
        assert!(world.is_over(), "{count} capsules");
        // It is said once, until the first node has looked.
        world.capsules[0].over = false;
        world.settle();
        assert!(!world.is_over());
        world.capsules[0].mesh.handle_over_heard();
        world.settle();
        assert!(world.is_over());
    }
}

#[test]
fn a_busy_node_prevents_the_end() {
    for busy in 0..3 {
        let mut world = resting(3);
        world.capsules[busy as usize].work = 1;
        world.settle();
        assert!(!world.is_over(), "a node of {busy} is busy");
        world.rest(busy);
        world.settle();
        assert!(world.is_over());
    }
}

#[test]
fn a_batch_under_way_prevents_the_end() {
    for (from, to) in [(0, 1), (1, 0), (1, 2), (2, 1)] {
        let mut world = World::new(3);
        world.post(from, to);
        for capsule in 0..3 {
            (0..NODES).for_each(|_| world.rest(capsule));
        }
        // All have told their counts, and the batch waits in its link.
        let batch = world.links.get_mut(&(from, to)).and_then(VecDeque::pop_front).unwrap();
        world.settle();
        assert!(!world.is_over(), "a batch from {from} to {to} is under way");
        world.send(from, to, batch);
        world.settle();
        assert!(!world.is_over(), "{to} has it and works");
        world.rest(to);
        world.settle();
        assert!(world.is_over());
    }
}

#[test]
fn a_capsule_that_was_woken_since_it_rested_prevents_the_end() {
    let mut world = World::new(3);
    (0..NODES).for_each(|_| world.rest(1));
    (0..NODES).for_each(|_| world.rest(2));
    world.settle();
    // The first wakes 1, which wakes 2 and rests: 2 has told that it rests, and so has 1.
    world.post(0, 1);
    assert!(world.deliver(0, 1));
    world.post(1, 2);
    world.rest(1);
    (0..NODES).for_each(|_| world.rest(0));
    world.tick(0);
    world.tick(1);
    while world.deliver(1, 0) {}
    world.tick(0);
    assert!(!world.is_over());
    world.settle();
    assert!(!world.is_over(), "2 works");
    world.rest(2);
    world.settle();
    assert!(world.is_over());
}

#[test]
fn counts_are_told_once_while_they_stay() {
    let mut world = resting(2);
    world.tick(1);
    world.tick(1);
    assert_eq!(world.links[&(1, 0)].len(), 1);
}

#[test]
fn a_capsule_is_lost_for_all_at_once() {
    // Found by the first; by another, which tells the first; by all.
    for order in [&[0][..], &[1], &[0, 1], &[1, 0]] {
        let mut world = World::new(3);
        world.kill(2, order);
        world.settle();
        for at in [0, 1] {
            assert_eq!(world.capsules[at as usize].lost, BTreeSet::from([2]), "{order:?}");
            assert_eq!(world.state(at, 2), LinkState::Lost);
            assert!(!world.capsules[at as usize].mesh.count_sent(2));
        }
        assert_eq!((world.state(0, 1), world.state(1, 0)), (LinkState::Open, LinkState::Open));
    }
}

#[test]
fn a_capsule_that_was_only_reported_is_lost_when_the_first_says_so() {
    let mut world = World::new(3);
    world.fail(1, 2);
    assert_eq!(world.state(1, 2), LinkState::Reported);
    assert!(world.capsules[1].mesh.count_sent(2), "the first may not agree");
    // A second failure is not told again.
    world.fail(1, 2);
    assert_eq!(world.links[&(1, 0)].len(), 1);
    world.settle();
    assert_eq!((world.state(1, 2), world.state(0, 2)), (LinkState::Lost, LinkState::Lost));
    // The lost one hears of it by the end of its link to the first.
    world.fail(2, 0);
    assert!(world.capsules[2].stopped && world.capsules[2].mesh.is_orphaned());
}

#[test]
fn a_failure_in_each_state_has_its_effect() {
    use LinkState::{Ended, Lost, Open, Reported};
    let lost = |to| Some((to, Frame::Lost(1)));
    // The capsule; its link to 1, and whether the run is over, before; the event, the frame and the
    // state of the link after.
    let table = [
        (0, Open, false, Some(Event::Lost(1)), lost(2), Lost),
        (0, Lost, false, None, None, Lost),
        (0, Open, true, Some(Event::Close(1)), None, Ended),
        (0, Lost, true, Some(Event::Close(1)), None, Lost),
        (0, Ended, true, Some(Event::Close(1)), None, Ended),
        (2, Open, false, Some(Event::Close(1)), lost(0), Reported),
        (2, Reported, false, Some(Event::Close(1)), None, Reported),
        (2, Lost, false, Some(Event::Close(1)), None, Lost),
        (2, Open, true, Some(Event::Close(1)), None, Ended),
        (2, Reported, true, Some(Event::Close(1)), None, Ended),
        (2, Lost, true, Some(Event::Close(1)), None, Lost),
        (2, Ended, true, Some(Event::Close(1)), None, Ended),
    ];
    for (own, before, over, event, frame, after) in table {
        let mut mesh = Mesh::new(Layout { own, capsules: 3, nodes: NODES });
        if before == Ended {
            mesh.handle_close();
        }
        let made = match before {
            Open => None,
            Reported | Ended => mesh.handle_failure(1),
            Lost => mesh.strike(1),
        };
        assert_eq!(made.is_some(), before != Open);
        while mesh.poll_transmit().is_some() {}
        if over {
            mesh.handle_close();
        }
        let said = format!("{own}: {before:?}, over: {over}");
        assert_eq!(mesh.handle_failure(1), event, "{said}");
        assert_eq!(mesh.poll_transmit(), frame, "{said}");
        assert_eq!((mesh.poll_transmit(), mesh.links[1]), (None, after), "{said}");
        // Its own number, and that of no capsule.
        assert_eq!([mesh.handle_failure(own), mesh.handle_failure(3)], [None, None]);
    }
}

#[test]
fn the_end_is_found_without_a_lost_capsule() {
    // It has sent batches and received some, and more is under way both ways.
    let mut world = World::new(3);
    for (from, to) in [(2, 1), (1, 2), (2, 0), (0, 2), (2, 1)] {
        world.post(from, to);
    }
    world.deliver(2, 1);
    world.deliver(1, 2);
    for capsule in [0, 1] {
        while world.capsules[capsule as usize].work > 0 {
            world.rest(capsule);
        }
    }
    world.settle();
    assert!(!world.is_over(), "2 works");
    world.kill(2, &[1]);
    for capsule in [0, 1] {
        while world.capsules[capsule as usize].work > 0 {
            world.rest(capsule);
        }
    }
    world.settle();
    assert!(world.is_over());
}

#[test]
fn counts_with_another_set_of_lost_ones_do_not_agree() {
    let mut world = resting(3);
    world.tick(1);
    world.fail(0, 2);
    while world.deliver(1, 0) {}
    world.tick(0);
    assert!(!world.is_over(), "1 has not heard of the loss");
    world.settle();
    assert!(world.is_over());
}

#[test]
fn a_frame_of_a_lost_capsule_has_no_effect() {
    let mut mesh = Mesh::new(Layout { own: 0, capsules: 3, nodes: NODES });
    assert_eq!(mesh.handle_failure(1), Some(Event::Lost(1)));
    assert_eq!(mesh.handle_failure(1), None);
    assert_eq!(mesh.handle_batch(1, NODES, 0), Ok(false));
    let node = NODES.to_le_bytes();
    for frame in [Frame::Idle(Numbers::of(&node)), Frame::Lost(2), Frame::Output("text"), Frame::Stop] {
        assert_eq!(mesh.handle_frame(1, frame, true), Ok(None));
    }
    assert_eq!(mesh.counts.received, [0; 3]);
}

#[test]
fn a_capsule_that_loses_the_first_is_orphaned() {
    let mut world = World::new(2);
    world.fail(1, 0);
    assert!(world.capsules[1].stopped && world.capsules[1].mesh.is_orphaned());
    assert!(world.capsules[1].mesh.is_over());
    // After the end of the run it is no loss.
    let mut world = World::new(2);
    world.send_frame(0, 1, &Frame::Stop);
    world.settle();
    world.fail(1, 0);
    assert!(world.capsules[1].stopped && !world.capsules[1].mesh.is_orphaned());
    assert_eq!(world.state(1, 0), LinkState::Ended);
}

#[test]
fn reports_are_awaited_of_those_that_live() {
    let mut world = World::new(4);
    // The link of the first to it may not have ended yet.
    world.fail(1, 3);
    world.settle();
    world.capsules[0].mesh.handle_stop();
    world.carry_out(0, None);
    world.settle();
    assert!(world.capsules[1].stopped && world.capsules[2].stopped && !world.capsules[3].stopped);
    assert!(world.capsules[0].mesh.awaits_reports());
    world.send_frame(2, 0, &Frame::Report(b"two"));
    // The first report of a capsule counts.
    world.send_frame(2, 0, &Frame::Report(b"again"));
    world.settle();
    assert!(world.capsules[0].mesh.awaits_reports());
    // One that ends without a report is no loss.
    world.fail(0, 1);
    assert!(!world.capsules[0].mesh.awaits_reports());
    assert_eq!(world.state(0, 1), LinkState::Ended);
    assert_eq!(world.capsules[0].mesh.take_reports(), [(2, b"two".to_vec())]);
    assert_eq!(world.capsules[0].lost, BTreeSet::from([3]));
}

#[test]
fn frames_out_of_order_are_wrong() {
    let rest = || Frame::Rest(Rest { sent: vec![0; 3], received: vec![0; 3], lost: 0 });
    let greeting = [Frame::Welcome, Frame::Ready, Frame::Refused("no")];
    // At the first: the end of the run, which is its own to say, a report before it, a greeting.
    let at_first = [Frame::Stop, Frame::Report(b"early")].into_iter().chain(greeting.clone());
    // Elsewhere: frames for the first, from the first or from others.
    let elsewhere = [rest(), Frame::Output("text"), Frame::Report(b"")].into_iter().chain(greeting);
    let of_third = [Frame::Stop, Frame::Lost(0)];
    let cases = at_first.map(|frame| (0, 1, frame));
    let cases = cases.chain(elsewhere.map(|frame| (1, 0, frame)));
    for (own, from, frame) in cases.chain(of_third.map(|frame| (1, 2, frame))) {
        let mut mesh = Mesh::new(Layout { own, capsules: 3, nodes: NODES });
        let said = format!("{frame:?} from {from} to {own}");
        assert_eq!(mesh.handle_frame(from, frame, true), Err(Wrong::Frame), "{said}");
        assert!(mesh.poll_transmit().is_none() && !mesh.is_over(), "{said}");
    }
}

#[test]
fn false_numbers_are_a_loss_at_once() {
    let node = |node: u32| node.to_le_bytes();
    let rest =
        |capsules, lost| Frame::Rest(Rest { sent: vec![0; capsules], received: vec![0; capsules], lost });
    let (other, none) = (node(0), node(u32::MAX));
    let table = [
        (Frame::Idle(Numbers::of(&other)), Wrong::Node(0)),
        (Frame::NoBacklog(Numbers::of(&none)), Wrong::Node(u32::MAX)),
        (Frame::Lost(0), Wrong::Loss(0)),
        (Frame::Lost(1), Wrong::Loss(1)),
        (Frame::Lost(3), Wrong::Loss(3)),
        (Frame::Lost(u32::MAX), Wrong::Loss(u32::MAX)),
        (rest(2, 0), Wrong::Counts),
        (rest(4, 0), Wrong::Counts),
        (rest(3, 1 << 3), Wrong::Counts),
        (Frame::Rest(Rest { sent: vec![0; 3], received: vec![], lost: 0 }), Wrong::Counts),
    ];
    for (frame, wrong) in table {
        let mut world = World::new(3);
        let said = format!("{frame:?}");
        assert_eq!(world.capsules[0].mesh.handle_frame(1, frame.clone(), false), Err(wrong), "{said}");
        if let Frame::Rest(rest) = &frame
            && rest.sent.len() != rest.received.len()
        {
            // Such a frame has no bytes.
            continue;
        }
        world.send_frame(1, 0, &frame);
        world.settle();
        assert_eq!(world.capsules[0].lost, BTreeSet::from([1]), "{said}");
        assert_eq!(world.capsules[2].lost, BTreeSet::from([1]), "{said}");
    }
    let mut mesh = Mesh::new(Layout { own: 0, capsules: 3, nodes: NODES });
    for (from, to) in [(0, 0), (4, 0), (2, 2), (2, u32::MAX), (u32::MAX, 0)] {
        assert_eq!(mesh.handle_batch(1, from, to), Err(Wrong::Batch { from, to }));
    }
    assert_eq!(mesh.counts.received, [0; 3]);
}

#[test]
fn counts_that_are_lies_do_not_panic() {
    let mut mesh = Mesh::new(Layout { own: 0, capsules: 2, nodes: 1 });
    assert!(mesh.count_sent(1));
    for received in 0..3 {
        let rest = Rest { sent: vec![0; 2], received: vec![received, 0], lost: 0 };
        let event = mesh.handle_frame(1, Frame::Rest(rest), true);
        // The one that agrees is believed: a capsule of the run is trusted that far.
        assert_eq!(event, Ok((received == 1).then_some(Event::Over)));
    }
}

#[test]
fn hints_and_texts_are_handed_on() {
    let mut world = World::new(2);
    let node = NODES.to_le_bytes();
    let frame = Frame::Idle(Numbers::of(&node));
    let event = world.capsules[0].mesh.handle_frame(1, frame, false);
    assert_eq!(event, Ok(Some(Event::Idle(Numbers::of(&node)))));
    for text in ["one ", "two"] {
        world.send_frame(1, 0, &Frame::Output(text));
    }
    world.send_frame(1, 0, &Frame::Ping);
    world.settle();
    assert_eq!(world.capsules[0].printed, "one two");
    assert!(world.capsules[0].lost.is_empty());
}

/// A step of a run at random; numbers are taken modulo those that there are.
#[derive(Clone, Debug)]
enum Step {
    Post(u32, u32),
    Rest(u32),
    Deliver(usize),
    Tick(u32),
    Fail(u32, u32),
    Heard,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (any::<u32>(), any::<u32>()).prop_map(|(from, to)| Step::Post(from, to)),
        6 => any::<u32>().prop_map(Step::Rest),
        10 => any::<usize>().prop_map(Step::Deliver),
        6 => any::<u32>().prop_map(Step::Tick),
        1 => (any::<u32>(), any::<u32>()).prop_map(|(at, of)| Step::Fail(at, of)),
        1 => Just(Step::Heard),
    ]
}

/// Takes a step, if it is possible.
fn take(world: &mut World, step: &Step, with_loss: bool) {
    let count = world.capsules.len() as u32;
    match step {
        Step::Post(from, to) => {
            let (from, to) = (from % count, to % count);
            if from != to && world.capsules[from as usize].work > 0 {
                world.post(from, to);
            }
        }
        Step::Rest(at) => {
            if world.capsules[(at % count) as usize].work > 0 {
                world.rest(at % count);
            }
        }
        Step::Deliver(link) => {
            let links: Vec<_> = world.links.keys().copied().collect();
            if !links.is_empty() {
                let (from, to) = links[link % links.len()];
                world.deliver(from, to);
            }
        }
        Step::Tick(at) => world.tick(at % count),
        Step::Fail(at, of) => {
            let (at, of) = (at % count, of % count);
            // The others end when the first is lost, which is another test.
            if with_loss && at != of && of != 0 && world.links.contains_key(&(at, of)) {
                world.fail(at, of);
            }
        }
        Step::Heard => {
            world.capsules[0].mesh.handle_over_heard();
            world.capsules[0].over = false;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// The end is never found while there is work, and is always found afterwards.
    #[test]
    fn the_end_is_found_after_all_work_and_not_before(
        count in 2u32..5,
        steps in proptest::collection::vec(step(), 0..200),
        with_loss in any::<bool>(),
    ) {
        let mut world = World::new(count);
        for step in &steps {
            let before = world.is_over();
            take(&mut world, step, with_loss);
            // Work cannot come back: only a node with work makes more.
            prop_assert!(!world.is_over() || before || !world.has_work(), "{:?}", step);
        }
        world.capsules[0].over = false;
        // Each end of a link that was closed finds that.
        for (at, of) in (0..count).flat_map(|at| (1..count).map(move |of| (at, of))) {
            if at != of && !world.links.contains_key(&(at, of)) && at == 0 {
                world.fail(at, of);
            }
        }
        world.settle();
        let lives = |world: &World, at: u32| !world.capsules[0].lost.contains(&at);
        for at in 0..count {
            while lives(&world, at) && world.capsules[at as usize].work > 0 {
                prop_assert!(!world.is_over());
                world.rest(at);
                world.settle();
            }
        }
        world.capsules[0].mesh.handle_over_heard();
        world.settle();
        prop_assert!(world.is_over());
        prop_assert!(!world.has_work());
        // All that live know of the same losses.
        let living: Vec<u32> = (0..count).filter(|at| lives(&world, *at)).collect();
        for at in &living {
            prop_assert_eq!(&world.capsules[*at as usize].lost, &world.capsules[0].lost);
        }
        // `main` ends then: all that live hear of it, and report.
        world.capsules[0].mesh.handle_stop();
        world.carry_out(0, None);
        world.settle();
        for at in living.into_iter().filter(|at| *at > 0) {
            let capsule = &world.capsules[at as usize];
            prop_assert!(capsule.stopped && !capsule.mesh.is_orphaned());
            prop_assert!(world.capsules[0].mesh.awaits_reports());
            world.send_frame(at, 0, &Frame::Report(b"report"));
            world.settle();
        }
        prop_assert!(!world.capsules[0].mesh.awaits_reports());
    }

    /// Frames of any kind, with any numbers, do no harm; one that is wrong has no effect.
    #[test]
    fn frames_at_random_do_no_harm(
        own in 0u32..3,
        frames in proptest::collection::vec((0u32..3, 0u8..10, number(), number(), number()), 0..40),
    ) {
        let mut mesh = Mesh::new(Layout { own, capsules: 3, nodes: NODES });
        for (from, kind, one, two, three) in frames.into_iter().filter(|(from, ..)| *from != own) {
            let numbers = [one.to_le_bytes(), two.to_le_bytes()].concat();
            let counts = |length: u32| vec![u64::from(three); length.min(5) as usize];
            let frame = match kind {
                0 => Frame::Idle(Numbers::of(&numbers)),
                1 => Frame::NoBacklog(Numbers::of(&numbers)),
                2 => Frame::Rest(Rest { sent: counts(one), received: counts(two), lost: u64::from(three) }),
                3 => Frame::Lost(one),
                4 => Frame::Output("text"),
                5 => Frame::Stop,
                6 => Frame::Report(b"report"),
                7 => Frame::Ping,
                _ => Frame::Welcome,
            };
            let before = (mesh.counts.clone(), mesh.heard.clone(), mesh.run);
            let is_wrong = match kind {
                8 => mesh.handle_batch(from, one, two).is_err(),
                _ => mesh.handle_frame(from, frame, three % 2 == 0).is_err(),
            };
            if is_wrong {
                prop_assert_eq!(before, (mesh.counts.clone(), mesh.heard.clone(), mesh.run));
            }
            while let Some((to, frame)) = mesh.poll_transmit() {
                prop_assert!(to != own && to < 3 && matches!(frame, Frame::Lost(1 | 2)), "{:?}", frame);
            }
        }
    }
}

/// A number that may be that of a capsule or node.
fn number() -> impl Strategy<Value = u32> {
    prop_oneof![4 => 0u32..3 * NODES, 1 => any::<u32>()]
}
