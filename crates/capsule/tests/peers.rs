//! Peers that lie, at random ([`repeat`]). The body is that of the target `capsule_peer` in `fuzz/`.

#[path = "support/peer.rs"]
mod peer;
#[path = "../../session/tests/support/random.rs"]
#[allow(dead_code, reason = "others use the rest")]
mod random;

use peer::{Ended, capsule_peer, peer_that_ends_with};
use random::{Random, each_of_corpus, repeat};

#[test]
fn packets_that_nobody_changed_are_believed() {
    assert_eq!(capsule_peer(&[]), Ended { returned: true, changed: false, lost: false });
}

#[test]
fn changed_packets_do_no_harm() {
    let (mut lost, mut returned, mut runs) = (0, 0, 0);
    repeat("changed_packets_do_no_harm", |seed| {
        let mut random = Random::new(seed);
        let often = [2, 10, 40][random.below(3)];
        let data: Vec<u8> = (0..random.below(120))
            .map(|at| match at % 2 {
                0 if !random.chance(often) => 0,
                0 => 1 + random.below(12) as u8,
                _ => random.next() as u8,
            })
            .collect();
        let ended = capsule_peer(&data);
        runs += 1;
        lost += u32::from(ended.lost);
        returned += u32::from(ended.returned);
    });
    assert!(
        runs < 100 || lost > 0 && returned > 0,
        "of {runs} runs {lost} lost the peer, {returned} returned"
    );
}

#[test]
fn arbitrary_bytes_do_no_harm() {
    repeat("arbitrary_bytes_do_no_harm", |seed| {
        let mut random = Random::new(seed);
        // Behind packets of which none is changed.
        let mut data = vec![0; 2 * random.below(40)];
        data.extend((0..random.below(200)).map(|_| random.next() as u8));
        capsule_peer(&data);
    });
}

/// A packet that says that the peer was told of an actor which it is about to make.
fn grant(index: u32) -> Vec<u8> {
    let numbers = [index, 2, 1];
    let head = [13_u32.to_le_bytes().as_slice(), &[4]].concat();
    numbers.iter().fold(head, |packet, number| [packet, number.to_le_bytes().to_vec()].concat())
}

#[test]
fn who_speaks_of_too_many_actors_that_it_does_not_make_is_lost() {
    let most = 1 << 20;
    for (count, lost) in [(most, false), (most + 1, true)] {
        // Those that the program makes there have the first numbers.
        let last: Vec<u8> = (0..count).flat_map(|index| grant(1000 + index)).collect();
        assert_eq!(peer_that_ends_with(&[], last).lost, lost, "{count}");
    }
}

/// A packet of numbers, behind its length.
fn packet(kind: u8, numbers: &[u32]) -> Vec<u8> {
    let head = [(1 + 4 * numbers.len() as u32).to_le_bytes().as_slice(), &[kind]].concat();
    numbers.iter().fold(head, |packet, number| [packet, number.to_le_bytes().to_vec()].concat())
}

#[test]
fn packets_about_the_end_of_actors_are_checked() {
    const WATCH: u8 = 19;
    const UNWATCH: u8 = 20;
    const GONE: u8 = 21;
    const MAIN_OVER: u8 = 22;
    // Some type is the class of actors; its number is found here.
    let refused = |ty: &u32| peer_that_ends_with(&[], packet(WATCH, &[70_000, 0, *ty, 3, 0x100])).lost;
    let class = (0..400).find(|ty| !refused(ty)).expect("a class of actors");
    for (kind, numbers, lost) in [
        // An actor that does not exist has ended; its replier is not looked at.
        (WATCH, &[70_000, 0, class, 3, 0x100][..], false),
        (WATCH, &[70_000, 0, class, 3, 0x101], true),
        (WATCH, &[70_000, 0, 0, 3, 0x100], true),
        (WATCH, &[70_000, 0, u32::MAX, 3, 0x100], true),
        (WATCH, &[70_000, 0, class], true),
        (UNWATCH, &[70_000, 0, class, 3, 0x100], false),
        (UNWATCH, &[0], true),
        // No replier has that address any more.
        (GONE, &[70_000, 0], false),
        (GONE, &[7], true),
        (MAIN_OVER, &[], true),
        (MAIN_OVER + 1, &[], true),
    ] {
        let ended = peer_that_ends_with(&[], packet(kind, numbers));
        assert_eq!(ended.lost, lost, "{kind} {numbers:?}");
    }
}

#[test]
fn packets_of_the_corpus_do_no_harm() {
    each_of_corpus("capsule_peer", |data| {
        capsule_peer(data);
    });
}
