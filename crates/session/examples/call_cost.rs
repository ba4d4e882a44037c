//! Prints what a null call costs inside the session, with no transport around it.
//!
//! `cargo run --release -p bifrost-session --example call_cost`

use std::sync::Arc;
use std::time::Instant;

use bifrost_cache::{Cache, Schema};
use bifrost_engine::{Engine, Mode, Run};
use bifrost_repository::memory::Memory;
use bifrost_runtime::Cx;
use bifrost_session::{Limits, Session, Tables, Welcome};
use bifrost_theta::{Options, Sources, compile};
use bifrost_wire::{DecodedReply, Hello, Ref, Reply, VERSION, decode_reply, encode};

const THETA: &str = "
Probe = type nothing () one () returns (int) end Probe
module probes exports new_probe
  Rep = class implements Probe nothing () end nothing one () returns (int) return (1) end one end Rep
  remote new_probe () returns (Probe) return (Rep{}) end new_probe
end probes
setup () root().insert(\"probe\", new_probe()) end setup
";

/// Has a session handle whole batches; it makes way for others in a long one, and behind a reply.
fn handle(session: &mut Session, cx: &mut Cx, bytes: &[u8]) {
    let mut at = session.handle(cx, bytes);
    while at < bytes.len() {
        assert!(session.has_more(), "the session has ended, or waits");
        at += session.handle(cx, &bytes[at..]);
    }
}

/// Returns the number of calls that the batches of a session's replies have run.
///
/// # Panics
/// A batch has a failure, or the session has ended with an error.
fn calls_run(mut replies: &[u8]) -> u32 {
    let mut calls = 0;
    while !replies.is_empty() {
        let Ok(DecodedReply::Reply(reply, length)) = decode_reply(replies, replies.len()) else {
            panic!("no whole reply: {replies:?}")
        };
        match reply {
            Reply::Welcome(_) => {}
            Reply::Flushed(flushed) => {
                assert!(flushed.exceptions().len() == 0 && flushed.omitted == 0, "{flushed:?}");
                calls += flushed.counters.calls;
            }
            other => panic!("{other:?}"),
        }
        replies = &replies[length..];
    }
    calls
}

fn main() {
    let mut sources = Sources::new();
    sources.add("probe.theta", THETA);
    let program = compile(&sources, &Options::default()).program.expect("the text above is right");
    let engine = Engine::new(program, Run::kept(Mode::Compiled)).expect("this machine has a compiler");
    let mut cx = Cx::new(engine.image().clone(), bifrost_runtime::Limits::default(), 1, || 0);
    let schema = Schema::new(engine.image().clone(), Arc::new(Memory::new())).expect("an empty store");
    let cache = Cache::open(&mut cx, schema);
    let setup = engine.find_entry("setup", 0).expect("the text above has it");
    // SAFETY: the context runs this engine's image, and `setup` takes nothing.
    unsafe { engine.call(&mut cx, setup, &[]) }.expect("it makes one object");
    cache.commit(&mut cx, None).expect("it can be stored");
    let tables = Tables::new(engine);
    let welcome = Welcome { server: String::new(), session: 1 };
    let mut session = Session::new(tables, Limits::default(), welcome, cache);
    let mut bytes = Vec::new();
    encode::hello(
        &mut bytes,
        &Hello { version: VERSION, digest: [0; 32], token: "", client: "", trace: None },
    );
    encode::lookup(&mut bytes, "probe", None);
    encode::flush(&mut bytes, [1], false);
    handle(&mut session, &mut cx, &bytes);
    assert_eq!(calls_run(session.output()), 0);
    session.clear_output();
    let numbering = tables.numbering();
    let ty = numbering.find_type("Probe").expect("the text above has it");
    for (name, count) in [("nothing", 10_000), ("one", 10_000), ("nothing", 1)] {
        let method = numbering.find_method(ty, name).expect("the text above has it");
        let mut bytes = Vec::new();
        for _ in 0..count {
            encode::call(&mut bytes, method, Ref::handle(1, 0), &[]);
        }
        encode::flush(&mut bytes, [], false);
        let rounds = if count == 1 { 100_000 } else { 300 };
        let mut costs: Vec<f64> = (0..rounds)
            .map(|_| {
                let start = Instant::now();
                handle(&mut session, &mut cx, &bytes);
                let spent = start.elapsed();
                assert_eq!(calls_run(session.output()), count);
                session.clear_output();
                spent.as_nanos() as f64 / f64::from(count)
            })
            .collect();
        costs.sort_by(f64::total_cmp);
        println!(
            "{name:8} in batches of {count:5}: {:6.1} ns a call (min {:.1})",
            costs[rounds / 2],
            costs[0]
        );
    }
}
