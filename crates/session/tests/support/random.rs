//! Random numbers for tests, and the loop that tries one seed after the other; no dependency.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant, SystemTime};

/// Runs `body` with one seed after the other, and says which failed: from `BIFROST_FUZZ_SEED` (or one that is new each
/// time), `BIFROST_FUZZ_RUNS` of them or as many as fit in `BIFROST_FUZZ_SECONDS` (3).
pub fn repeat(name: &str, body: impl FnMut(u64)) {
    let start = Instant::now();
    repeat_while(name, || start.elapsed() < Duration::from_secs(3), body);
}

/// As [`repeat`], but as long as `wanted` says where neither `BIFROST_FUZZ_RUNS` nor `BIFROST_FUZZ_SECONDS` does.
pub fn repeat_while(name: &str, wanted: impl Fn() -> bool, mut body: impl FnMut(u64)) {
    let set = |name: &str| std::env::var(name).ok().and_then(|s| s.parse::<u64>().ok());
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let first = set("BIFROST_FUZZ_SEED").unwrap_or(now.map_or(1, |t| t.as_millis() as u64));
    let (most, time) = (set("BIFROST_FUZZ_RUNS"), set("BIFROST_FUZZ_SECONDS").map(Duration::from_secs));
    let (start, mut runs) = (Instant::now(), 0);
    let goes_on = |runs| match (most, time) {
        (Some(most), _) => runs < most,
        (None, Some(time)) => start.elapsed() < time,
        (None, None) => wanted(),
    };
    while runs == 0 || goes_on(runs) {
        let seed = first.wrapping_add(runs);
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| body(seed))) {
            eprintln!("{name} failed: repeat it with BIFROST_FUZZ_RUNS=1 BIFROST_FUZZ_SEED={seed}");
            resume_unwind(panic);
        }
        runs += 1;
    }
    println!("{name}: {runs} runs from seed {first}");
}

/// xorshift64*
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number in `0..n`.
    pub fn below(&mut self, n: usize) -> usize {
        ((self.next() >> 32) as usize) % n.max(1)
    }

    pub fn chance(&mut self, one_in: usize) -> bool {
        self.below(one_in) == 0
    }

    pub fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }
}
