//! The body of the fuzz target `rex_message`: messages of any bytes, and a client and a server of one
//! stream beside a plain model. An ordinary test (`random.rs`) runs it for a few seconds too.

use bifrost_rex::asking::{INTERVAL_MAX, INTERVAL_MIN};
use bifrost_rex::message::MESSAGE_BYTES_MAX;
use bifrost_rex::{Asking, CallState, Message, Micros, Ran, Serving, Trip};

/// The stream of the conversation.
const STREAM: u64 = 4;

/// Reads choices from bytes; zeros behind their end.
struct Choices<'d>(&'d [u8]);

impl Choices<'_> {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    /// A number of any magnitude, up to 2^40: a quantity that a real stream or clock may have.
    fn amount(&mut self) -> u64 {
        let (bits, mantissa) = (self.byte() % 34, self.byte() & 0x7f);
        (u64::from(mantissa) << bits) >> 1
    }

    /// A number of 64 bits: as it is, near zero, near the greatest one, or near `known`.
    fn any(&mut self, known: u64) -> u64 {
        let (way, near) = (self.byte(), self.byte());
        match way % 4 {
            0 => known.wrapping_add(u64::from(near)).wrapping_sub(4),
            1 => u64::from(near),
            2 => u64::MAX - u64::from(near),
            _ => u64::from_le_bytes(std::array::from_fn(|_| self.byte())),
        }
    }
}

/// The facts about a stream, as its two ends and its packets know them together.
#[derive(Default)]
struct Model {
    now: u64,
    /// Bytes that the client has flushed, and the first one of its last call.
    flushed: u64,
    start: u64,
    waits: bool,
    /// The time of the flush with which the call began.
    since: u64,
    /// Bytes that have arrived, were read, and were read at the last write.
    arrived: u64,
    read: u64,
    answered: u64,
    /// Each read: the offset behind it, and its time.
    reads: Vec<(u64, u64)>,
    /// Bytes of the server under way.
    answers: u64,
    /// The offsets of which a state has told the client that the session has read them.
    begun: u64,
    told: Option<(CallState, u32, u32)>,
    /// True once a state was forged.
    is_forged: bool,
}

/// Reads a message, and writes it as it was.
fn message(bytes: &[u8]) -> bool {
    let Some(message) = Message::read(bytes) else { return false };
    let written = message.write();
    assert!(written.len() <= MESSAGE_BYTES_MAX && written == bytes[..written.len()], "{message:?}");
    assert_eq!(Message::read(&written), Some(message));
    if let Message::Ask { start, end, .. } = message {
        assert!(start < end, "{message:?}");
    }
    true
}

/// Runs a conversation, and returns the number of questions and answers that were told in it.
///
/// The first bytes are a message; all of them are the choices of a client, its server, and the
/// packets between them. States may be lost, late, repeated or forged, and so may questions.
pub fn rex_message(data: &[u8]) -> usize {
    let messages = usize::from(message(data));
    let (mut asking, mut serving, mut model) = (Asking::default(), Serving::default(), Model::default());
    let (mut questions, mut states) = (Vec::new(), Vec::new());
    let mut choices = Choices(data);
    while !choices.0.is_empty() {
        let now = Micros(model.now);
        match choices.byte() % 12 {
            0 => model.now += choices.amount(),
            1 => flush(&mut asking, &mut model, &mut choices),
            2 => receive(&mut asking, &mut model, &mut choices),
            3 => ask(&mut asking, &mut model, &mut questions),
            // At the time of the next question, as the owner of the timer does.
            4 => {
                model.now = model.now.max(asking.timeout().map_or(0, |at| at.0));
                ask(&mut asking, &mut model, &mut questions);
            }
            5 => {
                let count = choices.amount().min(model.flushed - model.arrived);
                model.arrived += count;
                serving.on_arrived(count as usize);
            }
            6 => {
                let count = choices.amount().min(model.arrived - model.read);
                if count > 0 {
                    model.read += count;
                    model.reads.push((model.read, model.now));
                    serving.on_read(now, count as usize);
                }
                assert_eq!(serving.read(), model.read);
            }
            7 => {
                model.answered = model.read;
                model.answers += 1;
                serving.on_written();
            }
            8 => {
                let start = choices.any(model.start);
                let end = choices.any(model.flushed);
                if start < end {
                    answer(&serving, &model, start, end);
                }
            }
            9 => {
                if let Some(at) = usize::from(choices.byte()).checked_rem(questions.len()) {
                    let (start, end) = questions[at];
                    states.push(answer(&serving, &model, start, end));
                }
            }
            10 => {
                if let Some(at) = usize::from(choices.byte()).checked_rem(states.len()) {
                    hear(&mut asking, &mut model, states[at]);
                }
            }
            _ => {
                let state = CallState::ALL[usize::from(choices.byte()) % CallState::ALL.len()].0;
                let (start, end) = (choices.any(model.start), choices.any(model.flushed));
                let (before, ms) = (choices.any(0) as u32, choices.any(0) as u32);
                model.is_forged = true;
                hear(
                    &mut asking,
                    &mut model,
                    Message::State { stream: STREAM, start, end, state, before, ms },
                );
            }
        }
        check(&asking, &model, &mut choices);
    }
    messages + questions.len() + states.len()
}

fn trip(choices: &mut Choices<'_>) -> Trip {
    let smoothed = choices.amount();
    Trip { smoothed, cautious: smoothed + choices.amount() }
}

fn flush(asking: &mut Asking, model: &mut Model, choices: &mut Choices<'_>) {
    let (end, trip) = (model.flushed + choices.amount(), trip(choices));
    let before = asking.timeout();
    asking.on_flush(Micros(model.now), end, trip);
    if end == model.flushed {
        assert_eq!(asking.timeout(), before, "a flush of nothing");
        return;
    }
    if !model.waits {
        (model.start, model.since) = (model.flushed, model.now);
    }
    (model.flushed, model.waits, model.told) = (end, true, None);
    let interval = asking.timeout().expect("it waits").0 - model.now;
    assert!((INTERVAL_MIN..=INTERVAL_MAX).contains(&interval), "{interval}");
}

fn receive(asking: &mut Asking, model: &mut Model, choices: &mut Choices<'_>) {
    let trip = trip(choices);
    if model.answers > 0 {
        (model.answers, model.waits) = (model.answers - 1, false);
        asking.on_bytes(Micros(model.now), trip);
    }
}

fn ask(asking: &mut Asking, model: &mut Model, questions: &mut Vec<(u64, u64)>) {
    let due = asking.timeout().is_some_and(|at| at.0 <= model.now);
    let question = asking.ask(Micros(model.now), STREAM);
    assert_eq!(question.is_some(), due);
    let Some(question) = question else { return };
    assert!(message(&question.write()));
    let Message::Ask { stream, start, end } = question else { panic!("{question:?}") };
    assert_eq!((stream, start, end), (STREAM, model.start, model.flushed));
    assert!(start < end && end <= model.flushed);
    let interval = asking.timeout().expect("it still waits").0 - model.now;
    assert!((2 * INTERVAL_MIN..=INTERVAL_MAX).contains(&interval), "{interval}");
    questions.push((start, end));
}

/// Answers, and compares the answer with the facts.
fn answer(serving: &Serving, model: &Model, start: u64, end: u64) -> Message {
    let answer = serving.answer(Micros(model.now), STREAM, start, end);
    assert!(message(&answer.write()));
    let Message::State { stream, start: of, end: to, state, before, ms } = answer else {
        panic!("{answer:?}")
    };
    assert_eq!((stream, of, to), (STREAM, start, end));
    let expected = match () {
        () if model.answered >= end => CallState::Answered,
        () if model.read > start => CallState::Begun,
        () if model.arrived >= end => CallState::Arrived,
        () if model.arrived > start => CallState::Partly,
        () => CallState::Unknown,
    };
    assert_eq!(state, expected, "{start}..{end}");
    assert_eq!(u64::from(before), start.saturating_sub(model.read).min(u32::MAX.into()));
    // It may have forgotten the first read, and no other time is longer.
    let first = model.reads.iter().find(|(behind, _)| *behind > start);
    let exact = first.map_or(0, |(_, at)| (model.now - at) / 1000).min(u32::MAX.into());
    let is_known = model.reads.len() <= 8 || model.reads[model.reads.len() - 8].0 <= start;
    assert!(if is_known { u64::from(ms) == exact } else { u64::from(ms) <= exact }, "{ms} of {exact}");
    answer
}

fn hear(asking: &mut Asking, model: &mut Model, state: Message) {
    let Message::State { start, end, state, before, ms, .. } = state else { panic!("{state:?}") };
    let is_ours = asking.on_state(start..end, state, before, ms);
    assert_eq!(is_ours, model.waits && start == model.start);
    if is_ours {
        // The call has grown since the question.
        let is_part = end < model.flushed;
        let state = match state {
            CallState::Arrived if is_part => CallState::Partly,
            CallState::Answered if is_part => CallState::Begun,
            state => state,
        };
        model.told = Some((state, before, ms));
    }
    // Of bytes that were never written nothing can be told.
    if state >= CallState::Begun && start < model.flushed {
        model.begun = model.begun.max(start + 1);
    }
}

/// Compares the client's knowledge with the facts.
fn check(asking: &Asking, model: &Model, choices: &mut Choices<'_>) {
    assert_eq!(asking.timeout().is_some(), model.waits);
    let call = asking.call(Micros(model.now));
    assert_eq!(call.is_some(), model.waits);
    if let Some(call) = call {
        assert_eq!(call.bytes, model.start..model.flushed);
        assert_eq!(call.waited_us, model.now - model.since);
        let (before, ms) = model.told.map_or((0, 0), |told| (told.1, told.2));
        assert_eq!((call.state, call.before, call.ms), (model.told.map(|told| told.0), before, ms));
        if !model.is_forged && call.state >= Some(CallState::Begun) {
            assert!(model.read > model.start, "a call that was not read has begun");
        }
    }
    // Before a byte has left, nothing ran, whatever was told.
    assert_eq!(asking.ran(false, Some(choices.any(model.flushed))), Ran::No);
    // The server's last word decides.
    let ends = if model.read > model.start { Ran::Began } else { Ran::No };
    assert_eq!(asking.ran(true, Some(model.read)), ends);
    let lost = asking.ran(true, None);
    assert_eq!(lost, if model.begun > model.start { Ran::Began } else { Ran::Unknown });
    if !model.is_forged && lost == Ran::Began {
        assert!(model.read > model.start, "a call that was not read began");
    }
}
