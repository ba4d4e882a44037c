//! Two nodes and a clock: the deliveries by state, requests between nodes, losses, bounds, times.

mod util;

use bifrost_actors::Site;
use bifrost_runtime::abi::Outcome;
use bifrost_runtime::actor_class::{Delivery, State, delivery};
use bifrost_runtime::actor_layout::join;
use util::{Pair, advance, logged};

/// Returns a counter of node 1 as node 0 knows it, and the counter itself.
fn far(pair: &mut Pair) -> (bifrost_actors::Actor, bifrost_actors::Actor) {
    let proxy = pair.create(0, "Counter", &[100], Site::On(1));
    pair.settle();
    let born = pair.nodes[1].heap_stats();
    assert!(born.usage.allocated_bytes > 0);
    let slot = util::class(&pair.nodes[1], "Counter");
    let found = pair.nodes[1].living(|_| true).into_iter().find(|word| {
        // SAFETY: the collector hands over objects.
        let info = unsafe { bifrost_runtime::Table::of(*word) }.info();
        info.ty == slot
    });
    // SAFETY: it is the counter, which node 0 keeps alive.
    (proxy, unsafe { bifrost_actors::Actor::new(found.expect("a counter on node 1")) })
}

#[test]
fn a_dormant_actor_is_called() {
    let mut pair = Pair::new();
    let counter = pair.counter(0, 1);
    assert_eq!(delivery(counter.state()), Delivery::Call);
    let ret = pair.send(0, counter, "add", &[2]);
    assert_eq!((ret.outcome(), ret.value), (Outcome::Returned, 3));
    assert_eq!(counter.state(), State::Dormant);
    let stats = pair.nodes[0].words.stats;
    assert_eq!((stats.direct, stats.queued, stats.sent), (1, 0, 0));
    pair.tell(0, counter, "add", &[4]).expect("sent");
    assert_eq!(pair.count(counter), 7);
}

#[test]
fn a_busy_actor_queues_and_serves_in_order() {
    let mut pair = Pair::new();
    let (proxy, _) = far(&mut pair);
    let counter = pair.counter(0, 0);
    // Its method waits for the other node.
    let waiting = pair.asking(0, counter, "ask", &[proxy.word(), 5]);
    assert_eq!((counter.state(), delivery(counter.state())), (State::Active, Delivery::Queue));
    assert!(waiting.has(join::WAITS));
    for n in [10, 20] {
        let ret = pair.send(0, counter, "add", &[n]);
        assert_eq!(ret.outcome(), Outcome::Pending);
    }
    assert_eq!(pair.nodes[0].words.stats.queued, 2);
    assert_eq!(pair.run(0), 0, "messages wait for the method");
    assert_eq!(pair.count(counter), 0);
    pair.settle();
    assert_eq!(pair.count(counter), 30);
    assert_eq!((waiting.answer(), waiting.has(join::ENDED)), (0, true), "the answer went to nobody");
    assert_eq!(counter.state(), State::Dormant);
}

#[test]
fn a_message_to_another_node_is_a_packet() {
    let mut pair = Pair::new();
    let (proxy, counter) = far(&mut pair);
    assert_eq!((proxy.state(), delivery(proxy.state())), (State::Remote, Delivery::Send));
    pair.tell(0, proxy, "add", &[1]).expect("sent");
    let packets = pair.packets(1);
    let [past] = &packets[..] else { panic!("{packets:?}") };
    let message = bifrost_actors::PACKETS.iter().find(|row| row.name == "MESSAGE").expect("a row").kind;
    assert_eq!((past[0], &past[17..25]), (message, &[0xff; 8][..]), "nobody waits");
    assert_eq!(past[25..], 1_u64.to_le_bytes(), "the argument");
    pair.settle();
    assert_eq!(pair.count(counter), 101);
}

#[test]
fn a_request_names_its_waiter_only_when_the_answer_is_awaited() {
    let mut pair = Pair::new();
    let (proxy, counter) = far(&mut pair);
    let ret = pair.send(0, proxy, "add", &[1]);
    assert_eq!(ret.outcome(), Outcome::Pending);
    assert_eq!(pair.packets(1).len(), 0, "it is open");
    bifrost_actors::drop_answer(&mut pair.nodes[0], bifrost_actors::owing_of(ret));
    assert_eq!(pair.packets(1)[0][17..25], [0xff; 8], "nobody waits");
    pair.settle();
    assert_eq!(pair.count(counter), 101);

    let mine = pair.counter(0, 0);
    let waiting = pair.asking(0, mine, "ask", &[proxy.word(), 1]);
    assert_ne!(pair.packets(1)[0][17..25], [0xff; 8]);
    assert_eq!(waiting.missing(), 1);
    pair.settle();
    assert!(waiting.has(join::ENDED));
    assert_eq!(pair.count(counter), 102);
}

#[test]
fn an_exception_crosses_and_is_logged_where_nobody_awaits_it() {
    let mut pair = Pair::new();
    let (proxy, _) = far(&mut pair);
    pair.tell(0, proxy, "fail", &[]).expect("sent");
    pair.settle();
    let lines = logged();
    let [line] = &lines[..] else { panic!("{lines:?}") };
    assert!(line.contains("as it should") && line.contains("on node 1"), "{line}");
    assert_eq!(pair.nodes[1].words.stats.lost_exceptions, 1);
}

#[test]
fn the_loss_of_a_node_fails_what_waits_for_it() {
    let mut pair = Pair::new();
    let (proxy, _) = far(&mut pair);
    let mine = pair.counter(0, 0);
    let waiting = pair.asking(0, mine, "ask", &[proxy.word(), 1]);
    pair.lose(0, 1..2);
    assert!(waiting.has(join::ENDED));
    assert!(logged().iter().any(|line| line.contains("node lost")), "nobody awaits the method's failure");
    assert_eq!(mine.state(), State::Dormant);
    // Later messages fail at once.
    let ret = pair.send(0, proxy, "add", &[1]);
    assert_eq!((ret.outcome(), pair.failure(0)), (Outcome::Signalled, "node lost".to_owned()));
    let ret = pair.tell(0, proxy, "add", &[1]).expect("it is no fault of the mailbox");
    assert_eq!(ret.outcome(), Outcome::Signalled);
}

#[test]
fn a_functional_actor_runs_at_once_or_from_the_queue() {
    let mut pair = Pair::new();
    let worker = pair.create(0, "Worker", &[], Site::Here);
    let ret = pair.send(0, worker, "double", &[21]);
    assert_eq!((ret.outcome(), ret.value), (Outcome::Returned, 42));
    assert_eq!(worker.state(), State::Dormant);
}

#[test]
fn actors_that_only_others_know_live_until_they_are_released() {
    let mut pair = Pair::new();
    let proxy = pair.create(0, "Counter", &[1], Site::On(1));
    pair.settle();
    let living = |pair: &mut Pair| {
        let ty = util::class(&pair.nodes[1], "Counter");
        let all = pair.nodes[1].living(|_| true);
        // SAFETY: the collector hands over objects.
        all.iter().filter(|word| unsafe { bifrost_runtime::Table::of(**word) }.info().ty == ty).count()
    };
    assert_eq!(living(&mut pair), 1, "node 0 knows it");
    pair.tell(0, proxy, "add", &[1]).expect("sent");
    pair.settle();
    assert_eq!(living(&mut pair), 1);
    pair.kept[0].clear();
    pair.nodes[0].collect();
    let release = bifrost_actors::PACKETS.iter().find(|row| row.name == "RELEASE").expect("a row").kind;
    bifrost_actors::post_messages(&mut pair.nodes[0]);
    assert_eq!(pair.packets(1)[0][0], release);
    pair.settle();
    assert_eq!(living(&mut pair), 0, "nothing refers to it");
}

#[test]
fn an_actor_whose_creator_failed_refuses_with_that_failure() {
    let mut pair = Pair::new();
    let counter = pair.counter(0, -1);
    assert_eq!((counter.state(), delivery(counter.state())), (State::Failed, Delivery::Refuse));
    let ret = pair.send(0, counter, "add", &[1]);
    assert_eq!((ret.outcome(), pair.failure(0)), (Outcome::Signalled, "no such start".to_owned()));
    assert_eq!(pair.nodes[0].words.stats.refused, 1);
    // Made on another node it refuses there.
    let proxy = pair.create(0, "Counter", &[u64::MAX], Site::On(1));
    let mine = pair.counter(0, 0);
    let waiting = pair.asking(0, mine, "ask", &[proxy.word(), 1]);
    pair.settle();
    assert!(waiting.has(join::ENDED));
    assert!(logged().iter().any(|line| line.contains("no such start")));
    assert_eq!(pair.nodes[1].words.stats.refused, 1);
}

#[test]
fn a_sender_that_is_far_ahead_makes_way_until_its_messages_are_taken() {
    let mut pair = Pair::new();
    let (proxy, counter) = far(&mut pair);
    let mut sent = 0;
    while !pair.nodes[0].words.turn_over {
        pair.tell(0, proxy, "add", &[1]).expect("sent");
        sent += 1;
        assert!(sent < 100_000, "a window has an end");
    }
    let bytes: usize = pair.packets(1).iter().map(|packet| 4 + packet.len()).sum();
    assert!((500_000..600_000).contains(&bytes), "{bytes} bytes are under way");
    pair.carry(1);
    pair.run(1);
    assert_eq!(pair.count(counter), 100 + sent);
    let taken = bifrost_actors::PACKETS.iter().find(|row| row.name == "TAKEN").expect("a row").kind;
    assert!(pair.packets(0).iter().any(|packet| packet[0] == taken), "it acknowledges them");
    pair.settle();
    pair.nodes[0].words.turn_over = false;
    pair.tell(0, proxy, "add", &[1]).expect("sent");
    assert!(!pair.nodes[0].words.turn_over, "there is room again");
}

#[test]
fn a_request_cycle_over_two_nodes_is_found_by_the_clock() {
    let mut pair = Pair::new();
    let (proxy, _) = far(&mut pair);
    let mine = pair.counter(0, 0);
    // `mine` asks the other one to ask `mine` back: that request is queued behind `mine`.
    let waiting = pair.asking(0, mine, "chain", &[proxy.word(), mine.word()]);
    pair.settle();
    assert!(!waiting.has(join::ENDED), "nothing moves before it is time");
    for _ in 0..20 {
        advance(50);
        for node in 0..2 {
            pair.wire.lock().mail[node].push_back(bifrost_actors::Received::Look);
        }
        pair.settle();
    }
    assert!(waiting.has(join::ENDED), "the request that closes the round has failed");
    let cycles: u64 = pair.nodes.iter().map(|node| node.words.stats.cycles).sum();
    assert_eq!(cycles, 1);
    assert!(logged().iter().any(|line| line.contains("request cycle")));
    assert_eq!(mine.state(), State::Dormant);
}

#[test]
fn a_full_mailbox_refuses_after_the_time_of_its_senders() {
    let mut pair = Pair::with(|limits| limits.mailbox_bytes = 1 << 20);
    let (proxy, _) = far(&mut pair);
    let counter = pair.counter(0, 0);
    pair.asking(0, counter, "ask", &[proxy.word(), 1]);
    let mut sent = 0;
    let refused = loop {
        match pair.tell(0, counter, "add", &[1]) {
            Ok(ret) => assert_eq!(ret.outcome(), Outcome::Pending),
            Err(ret) => break ret,
        }
        sent += 1;
        assert!(sent < 1_000_000, "a mailbox has a bound");
    };
    assert_eq!(refused.outcome(), Outcome::Signalled);
    assert_eq!(pair.failure(0), "mailbox full");
    assert!(sent > 4096, "{sent} messages were taken before");
    // Nothing that was taken is lost.
    pair.settle();
    assert_eq!(pair.count(counter), sent);
    pair.tell(0, counter, "add", &[1]).expect("there is room again");
}

#[test]
fn malformed_packets_are_refused_and_reported() {
    let mut pair = Pair::new();
    for (packet, why) in [
        (&[][..], "empty"),
        (&[99][..], "99"),
        (&[1, 0, 0][..], "too early"),
        (&[1; 25][..], "there is no such"),
        (&[2; 13][..], "it"),
    ] {
        let mut batch = (packet.len() as u32).to_le_bytes().to_vec();
        batch.extend(packet);
        pair.wire.lock().mail[0].push_back(bifrost_actors::Received::Packets(1, batch));
        pair.run(0);
        let lines = logged();
        let [line] = &lines[..] else { panic!("{packet:?}: {lines:?}") };
        assert!(line.starts_with("a packet of node 1 is dropped") && line.contains(why), "{line}");
    }
    assert_eq!(pair.wire.lock().distrusted.len(), 4, "an answer that comes late is no fault");
    // The node works on.
    let counter = pair.counter(0, 1);
    assert_eq!(pair.send(0, counter, "add", &[1]).value, 2);
}

#[test]
fn everything_survives_a_collection_at_each_allocation() {
    let mut pair = Pair::with(|limits| limits.collect = bifrost_runtime::Collect::Zeal(1));
    let (proxy, counter) = far(&mut pair);
    let mine = pair.counter(0, 0);
    let waiting = pair.asking(0, mine, "ask", &[proxy.word(), 7]);
    for n in 0..5 {
        let ret = pair.send(0, mine, "add", &[n]);
        assert_eq!(ret.outcome(), Outcome::Pending);
    }
    pair.settle();
    assert!(waiting.has(join::ENDED));
    assert_eq!((pair.count(mine), pair.count(counter)), (10, 107));
}
