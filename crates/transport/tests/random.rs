//! Datagrams of QUIC that are lost, repeated, late, changed and forged, and frames of clients that
//! break the rules, at random ([`repeat`]). The body is that of the target `quic_datagrams` in `fuzz/`.

#[path = "support/datagrams.rs"]
mod datagrams;
#[path = "../../session/tests/support/random.rs"]
#[allow(dead_code, reason = "others use the rest")]
mod random;

use datagrams::{bytes_for_questions, quic_datagrams};
use random::{Random, each_of_corpus, repeat};

#[test]
fn any_datagrams_at_any_time() {
    let mut exchanged = 0;
    repeat("any_datagrams_at_any_time", |seed| {
        let mut random = Random::new(seed);
        let length = 1 + random.below(600);
        // Half of the clients keep to the rules: no step of theirs is one with frames or forged states.
        let (honest, mut data) = (random.chance(2), Vec::new());
        while data.len() < length {
            let step = random.below(if honest { 15 } else { 20 }) as u8;
            data.push(step);
            data.extend((0..random.below(6)).map(|_| random.below(if honest { 15 } else { 256 }) as u8));
        }
        exchanged += quic_datagrams(&data);
    });
    assert!(exchanged > 1_000, "{exchanged} bytes");
}

#[test]
fn inputs_that_were_found() {
    each_of_corpus("quic_datagrams", |data| {
        quic_datagrams(data);
    });
}

#[test]
fn answers_that_wait_are_bounded() {
    let (few, many, more) = (bytes_for_questions(50), bytes_for_questions(1_000), bytes_for_questions(2_000));
    println!("{few}, {many} and {more} bytes");
    // 26 bytes for each, with the frames and packets around them. At most 16 KiB wait, with what
    // quinn-proto needs for each: so many more questions have no more answers.
    assert!((50 * 26..50 * 26 + 1_000).contains(&few), "{few}");
    assert!((4 << 10..17 << 10).contains(&many) && more < many + many / 10, "{many} {more}");
}
