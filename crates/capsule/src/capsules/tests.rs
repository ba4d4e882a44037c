//! Tests of a capsule with a peer that misbehaves: in a run the peer is lost, and nothing else
//! happens.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use bifrost_engine::{Engine, Mode};
use bifrost_runtime::Limits;
use bifrost_theta::{Options, Sources, compile};
use bifrost_transport::Stream;
use proptest::prelude::*;

use super::greeting::{Connection, Joined};
use crate::mesh::{Frame, Numbers, Rest, put, put_packets};
use crate::nodes::Nodes;
use crate::space::Space;

const PROGRAM: &str = "Sums = actor
  sum: int  seen: array[string]
  new () make {sum := 0, seen := array_new[string]()} end new
  add (n: int, text: string) returns (int) signals (odd (string, int))
    if n // 2 = 1 then signal odd(text, n) end
    sum := sum + n
    seen.append(text)
    reply (sum)
  end add
  of (rest: sequence[Sums], d: replier[int])
    for other: Sums in rest.elements() do send other.add(2, \"more\") end
    d.deliver(sum)
  end of
end Sums
main ()
  here: Sums := Sums.new()
  there: Sums := Sums.new() on 1
  send there.add(4, \"b\")
  send here.add(4, \"c\")
  x: int := there.add(2, \"a\")
  print(x.unparse())
end main";

fn engine() -> Arc<Engine> {
    let mut sources = Sources::new();
    sources.add("sums.theta", PROGRAM);
    let compiled = compile(&sources, &Options::default());
    let program = compiled.program.unwrap_or_else(|| panic!("{:?}", compiled.diagnostics));
    Engine::new(program, Mode::Interpreted).unwrap()
}

/// Returns the end of `main` when the other capsule sends this, and then closes its stream or says
/// nothing.
fn ends(engine: &Arc<Engine>, bytes: &[u8], closes: bool) -> String {
    ends_after(engine, bytes, closes, Duration::from_millis(50))
}

/// The same with a capsule that loses others when they have said nothing for so long.
fn ends_after(engine: &Arc<Engine>, bytes: &[u8], closes: bool, silence: Duration) -> String {
    let (ours, mut theirs) = Stream::pair().unwrap();
    let mut connection = Connection::new(ours);
    connection.decoder.trust();
    let mut joined = Joined::new(0, 2, 1, false, vec![None, Some(connection)]);
    joined.silence = silence;
    let space = Space::new(engine.clone(), Limits::default()).unwrap();
    let nodes = Nodes::joined(space, joined, Limits::default(), |_| {}, |_| {}).unwrap();
    // A peer that is found out is not read from any more.
    let _ = theirs.write(bytes, Duration::from_secs(10));
    let kept = (!closes).then_some(theirs);
    let main = engine.find_entry("main", 0).unwrap();
    let ended = nodes.run(|space| {
        space.capture_output();
        let mut cx = space.lock();
        // SAFETY: the context runs this engine's image, and `main` takes nothing.
        let ended = unsafe { engine.call(&mut cx, main, &[]) };
        ended.map_or_else(|raised| raised.to_string(), |_| cx.take_output())
    });
    assert!(nodes.stop_others().is_empty());
    drop(kept);
    ended.unwrap()
}

fn frame(frame: &Frame<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    put(&mut out, frame);
    out
}

fn packets(from: u32, to: u32, packets: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    put_packets(&mut out, from, to, packets);
    out
}

#[test]
fn who_sends_what_is_not_allowed_is_lost() {
    let engine = engine();
    let half = &packets(1, 0, &[1; 100])[..50];
    let table: [(&str, Vec<u8>); 13] = [
        ("nothing", Vec::new()),
        ("no frame", vec![1, 0, 0, 0, 99]),
        ("too long a frame", vec![0xff; 8]),
        ("half a frame", half.to_vec()),
        ("packets of another's node", packets(0, 0, b"")),
        ("packets of no node", packets(9, 0, b"")),
        ("packets to another's node", packets(1, 1, b"")),
        ("the end of the run", frame(&Frame::Stop)),
        ("a greeting", frame(&Frame::Ready)),
        ("a loss of itself", frame(&Frame::Lost(1))),
        ("losses of others", [frame(&Frame::Lost(0)), frame(&Frame::Lost(u32::MAX))].concat()),
        ("text that is none", vec![2, 0, 0, 0, 5, 0xff]),
        ("packets that are none", packets(1, 0, &[3; 1000])),
    ];
    for (what, bytes) in table {
        for closes in [true, false] {
            assert_eq!(ends(&engine, &bytes, closes), "failure(\"node lost\")", "{what}, {closes}");
        }
    }
}

#[test]
fn who_sends_a_packet_that_none_sends_is_lost_at_once() {
    let engine = engine();
    let table: [(&str, &[u8]); 9] = [
        ("no kind", &[1, 0, 0, 0, 99]),
        ("half a packet", &[100, 0, 0, 0, 1, 2, 3]),
        ("an empty packet", &[0, 0, 0, 0]),
        ("a class that is none", &[13, 0, 0, 0, 3, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]),
        (
            "waits that are not there",
            &[21, 0, 0, 0, 12, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        ),
        (
            "more waits than there can be",
            &[21, 0, 0, 0, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0],
        ),
        ("a question that only the first asks", &[9, 0, 0, 0, 13, 0, 0, 0, 0, 0, 0, 0, 0]),
        ("a round without requests", &[5, 0, 0, 0, 14, 0, 0, 0, 0]),
        (
            "a round over no node",
            &[17, 0, 0, 0, 14, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0],
        ),
    ];
    for (what, bytes) in table {
        // Its silence would not end the run of the test.
        let ended = ends_after(&engine, &packets(1, 0, bytes), false, Duration::from_secs(3600));
        assert_eq!(ended, "failure(\"node lost\")", "{what}");
    }
}

#[test]
fn who_speaks_of_what_does_not_exist_is_lost_at_once() {
    let engine = engine();
    let numbers = |of: &[u32]| of.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<_>>();
    let rest = |capsules, lost| {
        frame(&Frame::Rest(Rest { sent: vec![0; capsules], received: vec![0; capsules], lost }))
    };
    let table: [(&str, Vec<u8>); 9] = [
        ("rest of a node of another", frame(&Frame::Idle(Numbers::of(&numbers(&[1, 0]))))),
        ("rest of a node of none", frame(&Frame::Idle(Numbers::of(&numbers(&[2]))))),
        ("no backlog of a node of another", frame(&Frame::NoBacklog(Numbers::of(&numbers(&[0]))))),
        ("no backlog of a node of none", frame(&Frame::NoBacklog(Numbers::of(&numbers(&[u32::MAX]))))),
        ("the loss of who is told", frame(&Frame::Lost(0))),
        ("the loss of none", frame(&Frame::Lost(2))),
        ("counts of too few", rest(1, 0)),
        ("counts of too many", rest(3, 0)),
        ("losses of none in counts", rest(2, 1 << 2)),
    ];
    for (what, bytes) in table {
        // Its silence would not end the run of the test.
        let ended = ends_after(&engine, &bytes, false, Duration::from_secs(3600));
        assert_eq!(ended, "failure(\"node lost\")", "{what}");
    }
}

#[test]
fn counts_that_are_lies_end_only_the_run() {
    let engine = engine();
    // All that was sent to it has come, and it has nothing to do.
    let rest =
        |received| frame(&Frame::Rest(Rest { sent: vec![0, 0], received: vec![received, 0], lost: 0 }));
    let all: Vec<u8> = (0..10).flat_map(rest).collect();
    let short = frame(&Frame::Rest(Rest { sent: vec![], received: vec![], lost: u64::MAX }));
    for bytes in [all, short] {
        let ended = ends(&engine, &bytes, false);
        let expected = ["failure(\"node lost\")", "failure(\"no request can be answered: all methods wait"];
        assert!(expected.iter().any(|expected| ended.starts_with(expected)), "{ended}");
    }
}

/// Packets that are nearly right: kinds, and numbers that may name something.
fn packet() -> impl Strategy<Value = Vec<u8>> {
    let number = prop_oneof![
        4 => 0u32..4,
        2 => 0u32..80,
        1 => Just(u32::MAX),
        1 => any::<u32>(),
        1 => (0u32..3).prop_map(|times| times << 8),
    ];
    let parts = proptest::collection::vec(number, 0..14);
    (1u8..17, parts, proptest::collection::vec(any::<u8>(), 0..6)).prop_map(|(kind, numbers, rest)| {
        let mut out = vec![kind];
        numbers.iter().for_each(|number| out.write_all(&number.to_le_bytes()).unwrap());
        out.extend_from_slice(&rest);
        let mut packet = (out.len() as u32).to_le_bytes().to_vec();
        packet.extend_from_slice(&out);
        packet
    })
}

proptest! {
    #[test]
    fn packets_at_random_do_no_harm(all in proptest::collection::vec(packet(), 1..40)) {
        static ENGINE: std::sync::OnceLock<Arc<Engine>> = std::sync::OnceLock::new();
        let ended = ends(ENGINE.get_or_init(engine), &packets(1, 0, &all.concat()), true);
        // An answer may have been right.
        prop_assert!(ended.starts_with("failure(") || ended.starts_with("odd") || ended.ends_with('\n'), "{}", ended);
    }
}
