//! Prints the cost of the bookkeeping for explanations at a flush.
//!
//! `cargo run --release -p bifrost-recorder --example explain_cost`
//!
//! A flush is the end of a batch: its frees, the ranges of wanted results, the account, the copy
//! of its bytes. The column `copy` is the time of a second copy of the same bytes, in the same
//! pieces, so a flush without the copy takes the difference. From 64 results on, the calls are
//! also counted by their places: compare 63 with 64.

use std::time::{Duration, Instant};

use bifrost_recorder::{BuiltinNumbers, CellNumbers, Due, Greeting, Operand, Recorder, Settings, Stubs};
use bifrost_wire::encode::{self, Counters, Flushed};
use bifrost_wire::interface::Interface;
use bifrost_wire::text::Kept;
use bifrost_wire::{Limit, operator};

/// A session whose server is not there: each batch is answered as one without wanted results.
struct Client {
    recorder: Recorder<u32>,
    second: Kept,
    answer: Vec<u8>,
}

impl Client {
    fn new() -> Client {
        let json = include_str!("../../../vectors/interface.json");
        let interface = Interface::from_json(json.as_bytes()).expect("the interface of the vectors");
        let digest = interface.digest();
        let (basic, builtin) =
            ([(u32::MAX, CellNumbers::NONE); 6], [BuiltinNumbers::NONE; bifrost_wire::builtin::COUNT]);
        let stubs = Stubs { digest, json, basic, builtin, operators: [u32::MAX; operator::COUNT] };
        let stubs: &'static Stubs = Box::leak(Box::new(stubs));
        let settings = Settings { remap_futures: 100_000, ..Settings::default() };
        let mut greeting = Greeting::new(stubs, "", "bench", settings);
        greeting.sent(greeting.bytes_to_send().len());
        let limits: Vec<(Limit, u64)> =
            Limit::ALL.iter().map(|limit| (*limit, limit.default_value())).collect();
        let mut welcome = Vec::new();
        encode::welcome(&mut welcome, &digest, &limits, 1, "bench");
        let recorder = greeting.handle_bytes(&welcome).expect("a welcome").expect("the same digest");
        let mut answer = Vec::new();
        Flushed::begin(&mut answer).finish(Counters::default(), 0);
        Client { recorder, second: Kept::default(), answer }
    }

    /// Sends what there is; returns the times of that, and of a second copy.
    fn send(&mut self) -> (Duration, Duration) {
        let bytes = self.recorder.bytes_to_send();
        let begin = Instant::now();
        self.second.keep(bytes);
        let copied = begin.elapsed();
        let length = bytes.len();
        let begin = Instant::now();
        self.recorder.sent(length);
        (begin.elapsed(), copied)
    }

    /// Records calls, and flushes; returns the times of the flush, and of a second copy.
    fn batch(&mut self, calls: u32) -> (Duration, Duration) {
        let (mut flushed, mut copied) = (Duration::ZERO, Duration::ZERO);
        let made = self.recorder.cell(Ok(()), 0, "cell", 0);
        let receiver = self.recorder.new_result(made.expect("a cell"), 0);
        for _ in 1..calls {
            if !self.recorder.is_ready() && self.recorder.due().expect("an open session") == Due::Send {
                let times = self.send();
                (flushed, copied) = (flushed + times.0, copied + times.1);
            }
            let recorded = self.recorder.call(Ok(()), receiver, 0, std::iter::empty::<Operand<'_>>(), 1);
            let slot = self.recorder.new_result(recorded.expect("a call"), 1);
            self.recorder.release(slot);
        }
        self.recorder.release(receiver);
        let begin = Instant::now();
        self.recorder.begin_flush(false).expect("an open session");
        flushed += begin.elapsed();
        let begin = Instant::now();
        self.second.keep(self.recorder.flushed_bytes());
        copied += begin.elapsed();
        self.second.clear();
        self.recorder.sent(self.recorder.bytes_to_send().len());
        let answer = std::mem::take(&mut self.answer);
        assert!(self.recorder.handle_bytes(&answer).expect("an answer"));
        self.answer = answer;
        (flushed, copied)
    }
}

fn main() {
    let mut client = Client::new();
    println!("{:>9} {:>12} {:>12} {:>16}", "commands", "flush [ns]", "copy [ns]", "without [ns]");
    for (calls, rounds) in [(1, 20_000), (63, 10_000), (64, 10_000), (100, 10_000), (10_000, 500)] {
        let mut times: Vec<(Duration, Duration)> = (0..rounds).map(|_| client.batch(calls)).collect();
        let median = |times: &mut Vec<(Duration, Duration)>, of: fn(&(Duration, Duration)) -> Duration| {
            times.sort_by_key(of);
            of(&times[times.len() / 2]).as_nanos() as f64
        };
        let flush = median(&mut times, |time| time.0);
        let copy = median(&mut times, |time| time.1);
        println!("{calls:>9} {flush:>12.0} {copy:>12.0} {:>16.0}", flush - copy);
    }
}
