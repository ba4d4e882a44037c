//! Batches made at random ([`repeat`]). The bodies are those of the targets in `fuzz/`.

#[path = "support/modules.rs"]
mod modules;
mod support;

use bifrost_session::Limits;
use bifrost_wire::value::tag;
use bifrost_wire::{Arg, Limit, ModuleNumber, OwnedCompound, Value, encode};
use modules::{module_calls, module_load};
use support::bodies::{batch_check, wire_decode};
use support::random::{Random, each_of_corpus, repeat};
use support::{GUEST, World};

fn bytes(random: &mut Random, most: usize) -> Vec<u8> {
    (0..1 + random.below(most)).map(|_| random.next() as u8).collect()
}

#[test]
fn batches_at_random() {
    repeat("batches_at_random", |seed| {
        let mut random = Random::new(seed);
        let data = bytes(&mut random, 600);
        let said: Vec<_> = support::modes().into_iter().filter_map(|mode| batch_check(&data, mode)).collect();
        // The compiler says what its oracle says.
        for pair in said.windows(2) {
            if pair[0] != pair[1] {
                let [one, two] = [&pair[0], &pair[1]].map(|s| support::replies(s));
                let at = one.lines().zip(two.lines()).find(|(a, b)| a != b);
                panic!("the modes differ: {at:#?}");
            }
        }
    });
}

/// A value with items, nested a few levels deep.
fn compound(random: &mut Random, depth: usize) -> OwnedCompound {
    let inner: Vec<OwnedCompound> =
        (0..random.below(3)).filter(|_| depth > 0).map(|_| compound(random, depth - 1)).collect();
    let mut items: Vec<Arg<'_>> = inner.iter().map(|c| Arg::Value(Value::Compound(c.view()))).collect();
    for _ in 0..random.below(19) {
        items.push(match random.below(5) {
            0 => Arg::Ref(bifrost_wire::Ref(random.below(9) as i64 - 4)),
            1 => Arg::Value(Value::Str("häl")),
            2 => Arg::Value(Value::Bytes(&[1, 2, 3])),
            _ => Arg::Value(Value::Int(random.next() as i64)),
        });
    }
    OwnedCompound::new(bifrost_wire::TypeNumber(random.below(30) as u32), &items)
}

/// Valid commands, then a few bytes changed.
fn mutated(random: &mut Random) -> Vec<u8> {
    let mut out = Vec::new();
    for _ in 0..1 + random.below(6) {
        let number = |r: &mut Random| bifrost_wire::Ref(r.below(7) as i64 - 3);
        match random.below(13) {
            10 => {
                let compound = compound(random, 3);
                encode::constant(&mut out, &Value::Compound(compound.view()));
            }
            11 => {
                let compound = compound(random, 3);
                let value = Value::Compound(compound.view());
                encode::emit(&mut out, number(random), &[Arg::Value(value), Arg::Value(value)]);
                encode::get(&mut out, number(random));
            }
            12 => {
                let compound = compound(random, 3);
                let value = Value::Compound(compound.view());
                let mut f = encode::Flushed::begin(&mut out);
                f.outcome(&bifrost_wire::Outcome::Value(value));
                f.rows([(tag::COMPOUND, bifrost_wire::TypeNumber(9))].into_iter(), |cells| {
                    encode::value(cells, &value);
                    Some(1)
                });
                f.finish(encode::Counters { calls: 1, fuel: 2 }, 0);
            }
            0 => encode::lookup(&mut out, "db", Some(bifrost_wire::TypeNumber(random.below(30) as u32))),
            1 => encode::constant(&mut out, &Value::Real(f64::NAN)),
            2 => encode::flush(&mut out, [1, 2, 5, 9], random.chance(2)),
            3 => encode::when(&mut out, "zero", [bifrost_wire::TypeNumber(1)].into_iter()),
            4 => encode::return_(&mut out, Some(&Arg::Value(Value::Str("x")))),
            5 => encode::history(&mut out, random.chance(2)),
            6 => encode::wait(&mut out, random.below(5) as u32),
            7 => {
                let mut f = encode::Flushed::begin(&mut out);
                f.outcome(&bifrost_wire::Outcome::Value(Value::Str("abc")));
                f.signal(3, &[1, 2], "zero", &[bifrost_wire::Outcome::Value(Value::Int(3))]);
                f.finish(encode::Counters { calls: 1, fuel: 2 }, 3);
            }
            _ => {
                let args: Vec<Arg<'_>> =
                    (0..random.below(8))
                        .map(|i| {
                            if i % 2 == 0 { Arg::Ref(number(random)) } else { Arg::Value(Value::Str("häl")) }
                        })
                        .collect();
                let receiver = number(random);
                encode::call(&mut out, bifrost_wire::MethodNumber(random.below(50) as u32), receiver, &args);
            }
        }
    }
    for _ in 0..random.below(4) {
        let at = random.below(out.len());
        out[at] = [0, 1, 0xff, out[at] ^ 1 << random.below(8), random.next() as u8][random.below(5)];
    }
    out.truncate(out.len() - if random.chance(4) { random.below(out.len()) } else { 0 });
    out
}

#[test]
fn bytes_at_random() {
    repeat("bytes_at_random", |seed| {
        let mut random = Random::new(seed);
        for _ in 0..100 {
            wire_decode(&mutated(&mut random));
        }
        wire_decode(&bytes(&mut random, 200));
    });
}

/// A waker of a session that is handled again anyway.
struct Deaf;

impl bifrost_repository::Watcher for Deaf {
    fn changed(&self) {}
}

/// Bytes that are partly commands, into a session: whatever they are, nothing breaks.
#[test]
fn sessions_survive_mutated_bytes() {
    repeat("sessions_survive_mutated_bytes", |seed| {
        let mut random = Random::new(seed);
        support::each_mode(|world| {
            let mut random = random.clone();
            for _ in 0..20 {
                let mut client = world.client();
                let bytes = mutated(&mut random);
                client.session.set_waker(std::sync::Arc::new(Deaf));
                let mut done = client.handle(&bytes);
                while client.session.is_waiting() {
                    client.session.wait_no_more();
                    done += client.handle(&bytes[done..]);
                }
                let output = client.session.output().to_vec();
                let mut rest = output.as_slice();
                while !rest.is_empty() {
                    match bifrost_wire::decode_reply(rest, usize::MAX) {
                        Ok(bifrost_wire::DecodedReply::Reply(_, used)) => rest = &rest[used..],
                        other => panic!("{other:?}"),
                    }
                }
            }
            let mut client = world.client();
            assert_eq!(
                client.play("t = lookup tally Tally\n x = Tally.reset t\n v = Tally.bump t\n flush v"),
                "v = 1\n"
            );
        });
        random.next();
    });
}

#[test]
fn inputs_of_the_corpus() {
    each_of_corpus("wire_decode", wire_decode);
    each_of_corpus("batch_check", |data| {
        let data = &data[..data.len().min(2000)];
        drop(batch_check(data, bifrost_engine::Mode::Interpreted.into()));
    });
}

/// Calls of all imports at random, and changed modules, as the fuzz targets play them.
#[test]
fn probes_at_random() {
    repeat("probes_at_random", |seed| {
        let mut random = Random::new(seed);
        let commands: Vec<u8> = (0..1 + random.below(4)).flat_map(|_| mutated(&mut random)).collect();
        let probes = bytes(&mut random, 400);
        module_calls(&[probes, commands].concat());
        module_load(&bytes(&mut random, 12));
    });
}

#[test]
fn modules_of_the_corpus() {
    each_of_corpus("module_load", module_load);
    each_of_corpus("module_calls", |data| drop(module_calls(data)));
}

/// The probes reach the session: calls are answered, and a command that is in the input is executed.
#[test]
fn probes_are_calls() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/module_calls");
    let played = |name: &str| module_calls(&std::fs::read(folder.join(name)).expect("an input"));
    assert!(played("constant").starts_with("p = 1005\ny = 42\n"), "{}", played("constant"));
    assert!(played("forged").contains("BadFuture: "), "{}", played("forged"));
}

/// A session that may run modules, each for a short time, with objects to call.
fn with_modules(world: &mut World) -> support::Client {
    let mut limits = Limits::default();
    limits.set(Limit::Modules, 8);
    limits.set(Limit::Fuel, 2_000);
    world.client_with(limits)
}

/// Modules of which some bytes are changed: they are refused, or run within their limits, and the
/// session goes on.
#[test]
fn modules_at_random() {
    let guest = wat::parse_str(GUEST).expect("the guest");
    let mut world = World::new(support::modes()[0]).expect("a world");
    repeat("modules_at_random", |seed| {
        let mut random = Random::new(seed);
        let mut bytes = guest.clone();
        (0..1 + random.below(4)).for_each(|_| random.change(&mut bytes));
        let mut client = with_modules(&mut world);
        encode::module(&mut client.bytes, ModuleNumber(0), &bytes);
        let functions =
            ["touch", "try_add", "raise_add", "pair_text", "raw", "spin", "deep", "grow", "command"];
        let mut script = "t = new_tally()\nx = const \"ab\"\n".to_owned();
        for _ in 0..3 {
            let function = functions[random.below(functions.len())];
            let arguments = ["", "t", "t 5", "x", "1 -1 16", "t -5"][random.below(6)];
            script +=
                &format!("r = run 0 {function} - {arguments}\nflush r\nt = new_tally()\nx = const \"c\"\n");
        }
        client.play(&script);
        assert!(!client.session.ended(), "a module has ended the session: seed {seed}");
        assert!(client.play("y = int.add 1 2\nflush y").contains("y = 3"));
    });
}

/// Commands at random from inside a module: each is executed or refused, as in a batch.
#[test]
fn commands_of_modules_at_random() {
    let guest = wat::parse_str(GUEST).expect("the guest");
    let mut world = World::new(support::modes()[0]).expect("a world");
    repeat("commands_of_modules_at_random", |seed| {
        let mut random = Random::new(seed);
        let mut client = with_modules(&mut world);
        encode::module(&mut client.bytes, ModuleNumber(0), &guest);
        for _ in 0..8 {
            let bytes = mutated(&mut random);
            encode::run(
                &mut client.bytes,
                ModuleNumber(0),
                "command",
                None,
                &[Arg::Value(Value::Bytes(&bytes))],
            );
        }
        client.play("flush");
        assert!(!client.session.ended(), "a command has ended the session: seed {seed}");
        assert!(client.play("y = int.add 1 2\nflush y").contains("y = 3"));
    });
}
