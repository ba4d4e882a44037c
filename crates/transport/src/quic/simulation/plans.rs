//! The random choices of a world: its net, its faults, the calls of its clients.

use std::collections::VecDeque;

use super::sessions::{Deed, HEAD, Manner, Request};
use super::tasks::{Plan, Task};

/// The behaviour of the net.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weather {
    pub loss: f64,
    pub duplicate: f64,
    pub flip: f64,
    /// Datagrams that come up to two seconds later.
    pub late: f64,
    pub replay: f64,
    pub forge: f64,
    pub delay: u64,
    pub jitter: u64,
    pub mtu: usize,
}

impl Weather {
    /// The net without faults.
    pub(super) fn calm(self) -> Weather {
        let (loss, duplicate, flip, late, replay, forge) = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0);
        Weather { loss, duplicate, flip, late, replay, forge, jitter: 0, ..self }
    }
}

/// The choices for a world.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub clients: usize,
    pub is_local: bool,
    /// True if the server asks clients to prove their addresses.
    pub proves: bool,
    pub weather: Weather,
    /// The bytes of the longest packets.
    pub packet: u64,
    pub manner: Manner,
    /// The time of faults.
    pub rough: u64,
    /// The longest fault.
    pub longest: u64,
    has_bulk: bool,
    has_slow: bool,
}

/// A fault, or its end.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    Cut {
        host: usize,
        cut: (bool, bool),
    },
    Stop {
        host: usize,
        time: u64,
    },
    Restart {
        host: usize,
        down: u64,
    },
    Move {
        host: usize,
    },
    /// The server ends its connections.
    EndAll,
    Mtu(usize),
    Calm,
}

fn one_in(random: &mut fastrand::Rng, count: u32) -> bool {
    random.u32(..count) == 0
}

pub(super) fn layout(random: &mut fastrand::Rng) -> Layout {
    let is_local = one_in(random, 3);
    let some = |random: &mut fastrand::Rng, of: u32, most: f64| {
        if one_in(random, of) { random.f64() * most } else { 0.0 }
    };
    let delay = if is_local { random.u64(20..500) } else { random.u64(100..50_000) };
    let jitter = if one_in(random, 2) { random.u64(..=2 * delay) } else { 0 };
    let weather = Weather {
        loss: some(random, 2, 0.3),
        duplicate: some(random, 3, 0.2),
        flip: some(random, 4, 0.1),
        late: some(random, 4, 0.1),
        replay: some(random, 4, 0.2),
        forge: some(random, 4, 0.2),
        delay,
        jitter,
        mtu: if is_local { 65_507 } else { 1500 },
    };
    let limit = if one_in(random, 4) { random.usize(64..2000) } else { 64 << 10 };
    let pause = if one_in(random, 4) { random.u64(1..5_000) } else { 0 };
    let rest = if one_in(random, 4) { random.u64(1..300_000) } else { 0 };
    Layout {
        clients: random.usize(1..=4),
        is_local,
        proves: one_in(random, 4),
        weather,
        packet: if is_local { 21_800 } else { 8_952 },
        manner: Manner { limit, pause, rest },
        rough: random.u64(100_000..10_000_000),
        longest: 2_000_000,
        has_bulk: one_in(random, 20) && limit > 2000 && weather.loss < 0.1,
        has_slow: one_in(random, 4),
    }
}

pub(super) fn faults(random: &mut fastrand::Rng, layout: &mut Layout) -> Vec<(u64, Fault)> {
    let mut faults = Vec::new();
    for _ in 0..random.usize(..4) {
        let at = random.u64(..layout.rough);
        let host = random.usize(..=layout.clients);
        let client = random.usize(1..=layout.clients);
        let time = if one_in(random, 8) { random.u64(..40_000_000) } else { random.u64(..5_000_000) };
        layout.longest = layout.longest.max(time);
        match random.u8(..8) {
            0 | 1 => {
                let cut = [(true, true), (true, false), (false, true)][random.usize(..3)];
                faults.push((at, Fault::Cut { host, cut }));
                faults.push((at + time, Fault::Cut { host, cut: (false, false) }));
            }
            2 => {
                faults.push((at, Fault::Stop { host, time }));
                faults.push((at + time, Fault::Mtu(layout.weather.mtu)));
            }
            3 => faults.push((at, Fault::Restart { host: 0, down: time / 8 })),
            4 => faults.push((at, Fault::Restart { host: client, down: time / 8 })),
            5 => faults.push((at, Fault::Move { host: client })),
            6 => faults.push((at, Fault::EndAll)),
            _ if !layout.is_local => faults.push((at, Fault::Mtu(random.usize(1200..9000)))),
            _ => {}
        }
    }
    let end = faults.iter().map(|(at, _)| *at).max().unwrap_or(0).max(layout.rough);
    faults.push((end, Fault::Calm));
    faults.sort_by_key(|(at, _)| *at);
    faults
}

fn request(random: &mut fastrand::Rng, layout: &Layout, number: u64) -> Request {
    let bytes = |random: &mut fastrand::Rng| match random.u8(..40) {
        0 if layout.has_bulk => random.usize(1_200_000..2_000_000),
        0..4 => random.usize(1..100_000),
        4..12 => random.usize(1..5_000),
        _ => random.usize(1..300),
    };
    let service = match random.u8(..16) {
        0 if layout.has_slow => random.u64(..25_000_000),
        0..4 => random.u64(..500_000),
        _ => random.u64(..2_000),
    };
    let deed = match random.u8(..24) {
        0 => Deed::EndAtHead,
        1 => Deed::EndWithoutReply,
        2 | 3 => Deed::EndAfter(random.u32(..300_000)),
        _ => Deed::Reply,
    };
    Request { number, attempt: 0, bytes: HEAD + bytes(random), reply: bytes(random), service, deed }
}

pub(super) fn tasks(random: &mut fastrand::Rng, layout: &Layout, numbers: &mut u64) -> Vec<Task> {
    let count = random.usize(1..=3);
    let mut tasks = Vec::new();
    for _ in 0..count {
        let mut plans = VecDeque::new();
        for _ in 0..random.usize(1..=6) {
            *numbers += 1;
            let request = request(random, layout, *numbers);
            let goes_on = one_in(random, 5) && request.bytes < 20_000;
            let pause = if goes_on {
                random.u64(..10_000 + 4 * layout.weather.delay)
            } else if one_in(random, 3) {
                random.u64(..2_000_000)
            } else {
                random.u64(..5_000)
            };
            let patience = one_in(random, 12).then(|| random.u64(..1_000_000));
            plans.push_back(Plan { request, pause, goes_on, patience });
        }
        // A server that waits for room would not read a long one, while its client does not read.
        for at in 1..plans.len() {
            let is_long = plans[at].request.bytes > 20_000;
            plans[at - 1].goes_on &= !is_long;
        }
        let begins = if one_in(random, 2) { 0 } else { random.u64(..layout.rough) };
        tasks.push(Task::new(plans, begins, *numbers << 20));
    }
    // The smallest window of congestion has two packets for a round trip.
    let bytes: usize = tasks.iter().map(Task::bytes).sum();
    let slow = (bytes / 2400) as u64 * 2 * layout.weather.delay + 6 * layout.manner.rest;
    tasks.iter_mut().for_each(|task| task.slow = slow);
    tasks
}

/// Makes another datagram of one that was seen, without its keys.
pub(super) fn forge(random: &mut fastrand::Rng, bytes: &mut Vec<u8>) {
    match random.u8(..5) {
        // Its name, and nothing of its content.
        0 => {
            let kept = bytes.len().min(random.usize(1..30));
            random.fill(&mut bytes[kept..]);
        }
        // A guess of a reset.
        1 => {
            bytes.truncate(random.usize(21..60));
            let kept = bytes.len().saturating_sub(16);
            random.fill(&mut bytes[kept..]);
        }
        // Another version.
        2 if bytes.len() > 5 => bytes[1..5].copy_from_slice(&0x0a1a_2a3a_u32.to_be_bytes()),
        3 => {
            let at = random.usize(..bytes.len());
            bytes[at] = random.u8(..);
        }
        _ => {
            bytes.truncate(random.usize(1..1200));
            random.fill(bytes);
        }
    }
}
