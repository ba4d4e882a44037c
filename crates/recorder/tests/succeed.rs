//! A session whose work ends, and that goes on with other work.

use bifrost_recorder::{
    BuiltinNumbers, CellNumbers, Closed, Greeting, Known, Recorder, Settings, Slot, Stubs,
};
use bifrost_wire::{Command, Decoded, Limit, Outcome, Ref, TypeNumber, decode, encode, operator};

static STUBS: Stubs = Stubs {
    digest: [7; 32],
    json: r#"{"types":[{"name":"int","kind":"int"}],"routines":[]}"#,
    basic: [(0, CellNumbers::NONE); 6],
    builtin: [BuiltinNumbers::NONE; 3],
    operators: [0; operator::COUNT],
};

fn recorder() -> Recorder<u32> {
    let mut greeting = Greeting::new(&STUBS, "", "", Settings::default());
    greeting.sent(usize::MAX);
    let mut out = Vec::new();
    encode::welcome(&mut out, &[7; 32], &[(Limit::ProfileEntries, 8)], 1, "test");
    greeting.handle_bytes(&out).unwrap().expect("a session")
}

/// Looks objects up, which get these handles.
fn objects(r: &mut Recorder<u32>, handles: &[i64]) -> Vec<Slot> {
    let mut slots = Vec::new();
    for handle in handles {
        let made = r.lookup_any(Ok(()), &handle.to_string(), 1).unwrap();
        slots.push(r.new_result(made, 1));
    }
    assert!(r.begin_flush(false).unwrap());
    r.sent(usize::MAX);
    let mut out = Vec::new();
    let mut reply = encode::Flushed::begin(&mut out);
    for handle in handles {
        reply.outcome(&Outcome::Handle { handle: Ref(*handle), ty: TypeNumber(3) });
    }
    reply.finish(encode::Counters::default(), 0);
    assert!(r.handle_bytes(&out).unwrap());
    slots
}

/// The handles that a flush gives back.
fn freed(r: &mut Recorder<u32>) -> Vec<i64> {
    assert!(r.begin_flush(false).unwrap());
    let bytes = r.bytes_to_send().to_vec();
    let Ok(Decoded::Command(Command::Free { handles, .. }, _)) = decode(&bytes, usize::MAX) else {
        panic!("no `free`")
    };
    handles.iter().map(|handle| handle.0).collect()
}

#[test]
fn work_that_ends_gives_all_objects_back() {
    let mut r = recorder();
    let slots = objects(&mut r, &[4, 2]);
    assert!(r.holds(Ref(4)) && r.handle_count() == 2);
    assert_eq!(r.type_of(Ref(4)), Some(TypeNumber(3)));
    let more = r.new_object(Ref(4));
    r.end_work(Closed::ByClient);
    for slot in slots.iter().chain([&more]) {
        assert!(matches!(r.known(*slot), Known::Failed(_)));
    }
    // Stubs that are dropped later change nothing.
    r.release(slots[0]);
    r.release(more);
    assert_eq!(freed(&mut r), [2, 4]);
    assert_eq!(r.handle_count(), 0);
    r.release(slots[1]);
}

#[test]
fn a_recorder_is_followed_by_another_one() {
    let mut r = recorder();
    let slots = objects(&mut r, &[4]);
    r.end_work(Closed::ByClient);
    assert_eq!(freed(&mut r), [4]);
    r.sent(usize::MAX);
    let mut out = Vec::new();
    encode::Flushed::begin(&mut out).finish(encode::Counters::default(), 0);
    assert!(r.handle_bytes(&out).unwrap());
    let mut next = r.succeed(Closed::ByClient);
    assert!(r.is_closed());
    assert!(!next.is_closed() && next.is_idle());
    assert_eq!(next.counters(), r.counters());
    assert_eq!(next.batch_number(), 3);
    // The same handle is the next one's own.
    let own = objects(&mut next, &[4]);
    r.release(slots[0]);
    assert!(next.holds(Ref(4)));
    next.release(own[0]);
    assert_eq!(freed(&mut next), [4]);
    // The first one does nothing any more.
    assert!(r.due().is_err() && r.begin_flush(false).is_err());
}

#[test]
fn profiles_that_were_asked_for_are_known_to_the_next_recorder() {
    let mut r = recorder();
    assert!(r.profile_due(true).unwrap());
    r.profile(Ok(()), true).unwrap();
    objects(&mut r, &[4]);
    r.end_work(Closed::ByClient);
    let mut next = r.succeed(Closed::ByClient);
    // The server still makes them, so there is something to end.
    assert!(!next.profile_due(true).unwrap());
    assert!(next.profile_due(false).unwrap());
    next.profile(Ok(()), false).unwrap();
    assert!(!next.profile_due(false).unwrap());
}
