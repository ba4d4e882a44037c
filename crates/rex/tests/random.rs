//! A client and a server of one stream, with packets that are lost, late, repeated and forged, at
//! random ([`repeat`]). The body is that of the target `rex_message` in `fuzz/`.

#[path = "support/bodies.rs"]
mod bodies;
#[path = "../../session/tests/support/random.rs"]
#[allow(dead_code, reason = "others use the rest")]
mod random;

use bifrost_rex::{CallState, Message};
use bodies::rex_message;
use random::{Random, each_of_corpus, repeat};

#[test]
fn conversations() {
    let mut told = 0;
    repeat("conversations", |seed| {
        let mut random = Random::new(seed);
        let length = 1 + random.below(600);
        // A few choices, so that conversations go on for long, or any.
        let choices = if random.chance(2) { 256 } else { 16 };
        let data: Vec<u8> = (0..length).map(|_| random.below(choices) as u8).collect();
        told += rex_message(&data);
    });
    assert!(told > 100, "{told} questions and answers");
}

#[test]
fn changed_messages() {
    let ask = Message::Ask { stream: 4, start: 7, end: 1 << 40 };
    let state = CallState::Begun;
    let state = Message::State { stream: 4, start: 7, end: 9, state, before: 1, ms: u32::MAX };
    let mut read = 0;
    repeat("changed_messages", |seed| {
        let mut random = Random::new(seed);
        for message in [ask, state] {
            let mut bytes = message.write();
            random.change(&mut bytes);
            read += usize::from(Message::read(&bytes).is_some());
            rex_message(&bytes);
        }
    });
    assert!(read > 0, "some are messages still");
}

#[test]
fn inputs_that_were_found() {
    each_of_corpus("rex_message", |data| {
        rex_message(data);
    });
}
