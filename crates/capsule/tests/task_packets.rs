//! Packets for tasks that are changed on their way, at random ([`repeat`]). The body is that of the
//! target `task_packets` in `fuzz/`.

#[path = "support/task_packets.rs"]
mod packets;
#[path = "../../session/tests/support/random.rs"]
#[allow(dead_code, reason = "others use the rest")]
mod random;

use packets::{Ended, task_packets};
use random::{Random, each_of_corpus, repeat};

#[test]
fn packets_that_nobody_changed_are_run() {
    assert_eq!(task_packets(&[]), Ended { returned: true, changed: false });
}

#[test]
fn changed_packets_do_no_harm() {
    let (mut failed, mut returned, mut runs) = (0, 0, 0);
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
        let ended = task_packets(&data);
        runs += 1;
        failed += u32::from(!ended.returned);
        returned += u32::from(ended.returned);
    });
    assert!(runs < 100 || failed > 0 && returned > 0, "of {runs} runs {failed} failed, {returned} returned");
}

#[test]
fn arbitrary_bytes_do_no_harm() {
    repeat("arbitrary_bytes_do_no_harm", |seed| {
        let mut random = Random::new(seed);
        // Behind packets of which none is changed.
        let mut data = vec![0; 2 * random.below(40)];
        data.extend((0..random.below(200)).map(|_| random.next() as u8));
        task_packets(&data);
    });
}

#[test]
fn inputs_that_were_found_do_no_harm() {
    each_of_corpus("task_packets", |data| {
        task_packets(data);
    });
}
