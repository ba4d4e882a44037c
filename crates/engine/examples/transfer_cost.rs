//! Prints what it costs to write values for another heap, and to make them there.
//!
//! `cargo run --release -p bifrost-engine --example transfer_cost`

use std::time::Instant;

use bifrost_interp::Interp;
use bifrost_runtime::abi::Word;
use bifrost_runtime::content::{Place, Values};
use bifrost_runtime::transfer::{NotReceived, NotSent, decode, encode};
use bifrost_runtime::{Cx, Limits, invoke};
use bifrost_theta::{Options, Sources, compile};

const THETA: &str = "
pair = struct[a: int, b: int]
Node = type next () returns (maybe[Node]) end Node
module nodes exports chain
  Rep = class implements Node mark: int   next: maybe[Node] end Rep
  chain (n: int) returns (Node)
    all: Node := Rep{mark := 0, next := none[Node]()}
    for i: int in 1.to(n) do all := Rep{mark := i, next := some(all)} end
    return (all)
  end chain
end nodes
number () returns (int) return (7) end number
short_text () returns (string) return (\"a short text\") end short_text
long_text () returns (string) return (\"a text that is longer than those that are written again and again\") end long_text
small () returns (pair) return (pair{a: 1, b: 2}) end small
numbers () returns (array[int])
  a: array[int] := array_new[int]()
  for i: int in 1.to(1000000) do a.append(i) end
  return (a)
end numbers
ints () returns (list[int])
  l: list[int] := list_empty[int]()
  for i: int in 1.to(1000000) do l := l.cons(i) end
  return (l)
end ints
objects () returns (Node) return (chain(500000)) end objects
";

fn main() {
    let mut sources = Sources::new();
    sources.add("cost.theta", THETA);
    let program = compile(&sources, &Options::default()).program.expect("the text above is right");
    let image = bifrost_runtime::link(program, None).expect("it needs no natives of its own");
    Interp::new(image.clone());
    let limits = Limits { batch_heap_bytes: 1 << 30, ..Limits::default() };
    let [mut here, mut there] = [1, 2].map(|seed| Cx::new(image.clone(), limits, seed, || 0));
    println!("{:<22}{:>12}{:>14}{:>14}", "values", "bytes", "write ns", "make ns");
    let number = &["number"][..];
    for (title, names, rounds) in [
        ("nothing", &[][..], 1_000_u32),
        ("1 number", number, 1_000),
        ("4 numbers", &["number"; 4], 1_000),
        ("1 short text", &["short_text"], 1_000),
        ("4 short texts", &["short_text"; 4], 1_000),
        ("1 long text", &["long_text"], 1_000),
        ("1 struct of 2 numbers", &["small"], 1_000),
        ("4 structs", &["small"; 4], 1_000),
        ("array of 1,000,000", &["numbers"], 1),
        ("list of 1,000,000", &["ints"], 1),
        ("chain of 1,000,000", &["objects"], 1),
    ] {
        let made: Vec<(Word, Place)> = names.iter().map(|name| call(&mut here, name)).collect();
        let values: Vec<Word> = made.iter().map(|(word, _)| *word).collect();
        let places: Vec<Place> = made.iter().map(|(_, place)| *place).collect();
        let kept: Vec<_> =
            made.iter().filter(|(_, place)| place.is_reference()).map(|(word, _)| here.keep(*word)).collect();
        let mut bytes = Vec::new();
        let written = cheapest(rounds, || {
            bytes.clear();
            let mut address = |_: &mut Cx, _, _| Err(NotSent::TooLarge);
            // SAFETY: the values are those that the routines returned.
            let values = unsafe { Values::new(&values, &places) };
            encode(&mut here, values, &mut address, &mut bytes).expect("it is sent");
        });
        let received = cheapest(rounds, || {
            let mut reference = |_: &mut Cx, _, address, _| Err(NotReceived::Address(address));
            let made = decode(&mut there, &mut &bytes[..], &places, &mut reference);
            std::hint::black_box(made.expect("it was written above"));
        });
        println!("{title:<22}{:>12}{written:>14.1}{received:>14.1}", bytes.len());
        drop(kept);
        there.begin();
    }
}

/// What a round takes, in nanoseconds: that of the best of many short runs, which nothing else interrupted.
fn cheapest(rounds: u32, mut round: impl FnMut()) -> f64 {
    let runs = (0..if rounds == 1 { 10 } else { 3000 }).map(|_| {
        let start = Instant::now();
        for _ in 0..rounds {
            round();
        }
        start.elapsed().as_nanos() as f64 / f64::from(rounds)
    });
    runs.fold(f64::INFINITY, f64::min)
}

/// What a routine returns.
fn call(cx: &mut Cx, name: &str) -> (Word, Place) {
    let image = cx.image().clone();
    let routine = image.program().find_routine(name).expect("the text above has it");
    let place = Place::new(&image.program().types, image.program().routines[routine].signature.results[0]);
    cx.begin();
    // SAFETY: the context is for this image, and the routines take nothing.
    let ret = unsafe { invoke::routine(cx, image.routine(routine), &mut [0]) };
    cx.leave();
    assert!(ret.returned(), "`{name}` ended with {ret:?}");
    (ret.value, place)
}
