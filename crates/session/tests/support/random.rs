//! Random numbers for tests, and the loop that tries one seed after the other; no dependency.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// Runs `body` with one seed after the other, and says which failed: from `BIFROST_FUZZ_SEED` (or one that is new each
/// time), `BIFROST_FUZZ_RUNS` of them or as many as fit in `BIFROST_FUZZ_SECONDS` (3).
pub fn repeat(name: &str, body: impl FnMut(u64)) {
    let start = Instant::now();
    repeat_while(name, || start.elapsed() < Duration::from_secs(3), body);
}

/// As [`repeat`], but as long as `wanted` says where neither `BIFROST_FUZZ_RUNS` nor `BIFROST_FUZZ_SECONDS` does.
pub fn repeat_while(name: &str, wanted: impl Fn() -> bool, mut body: impl FnMut(u64)) {
    let first = seed();
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

/// Runs `body` with each input that fuzzing has found worth keeping for a target (`fuzz/corpus`),
/// and with a few copies of it that are changed at random.
pub fn each_of_corpus(target: &str, mut body: impl FnMut(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    assert!(!files.is_empty(), "{}", folder.display());
    let seed = seed();
    let mut random = Random::new(seed);
    for file in &files {
        let input = std::fs::read(file).expect("an input");
        for copy in 0..COPIES {
            let mut changed = input.clone();
            if copy > 0 {
                random.change(&mut changed);
            }
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| body(&changed))) {
                eprintln!("{} failed, copy {copy}: repeat it with BIFROST_FUZZ_SEED={seed}", file.display());
                resume_unwind(panic);
            }
        }
    }
    println!("{target}: {} inputs of the corpus from seed {seed}", files.len());
}

/// An input as it is, and changed copies.
const COPIES: usize = 3;

/// The seed of `BIFROST_FUZZ_SEED`, or one that is new each time.
fn seed() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    set("BIFROST_FUZZ_SEED").unwrap_or(now.map_or(1, |t| t.as_millis() as u64))
}

fn set(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
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

    /// Changes a few bytes, leaves some out, or doubles some.
    pub fn change(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..1 + self.below(4) {
            let (at, end) = (self.below(bytes.len()), self.below(bytes.len() + 1));
            let range = at.min(end)..at.max(end).min(at.min(end) + 16);
            match self.below(4) {
                _ if bytes.is_empty() => bytes.push(self.next() as u8),
                0 => drop(bytes.drain(range)),
                1 => {
                    let doubled = bytes[range].to_vec();
                    bytes.splice(at..at, doubled);
                }
                2 => bytes[at] = self.next() as u8,
                _ => bytes[at] ^= 1 << self.below(8),
            }
        }
    }

    pub fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }
}
