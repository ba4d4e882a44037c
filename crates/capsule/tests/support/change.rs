//! Batches of packets that are changed on their way, as data decides.

use std::collections::VecDeque;

use bifrost_engine::Raised;
use bifrost_runtime::{Collect, Limits};

/// Returns the limits of a context whose packets are changed: small, and with a checked heap.
pub fn limits() -> Limits {
    Limits {
        collect: Collect::Checked,
        stack_bytes: 4 << 20,
        heap_bytes: 64 << 20,
        batch_heap_bytes: 64 << 20,
        fuel: i64::MAX,
        ..Limits::default()
    }
}

/// Runs a function on a thread with the deep stack that the interpreter needs.
pub fn on_a_deep_stack<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> T {
    let run = std::thread::Builder::new().stack_size(16 << 20).spawn(run);
    match run.expect("a thread").join() {
        Ok(ended) => ended,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// A sequence of changes, and the mark that one has changed a packet.
#[derive(Default)]
pub struct Changes {
    /// The bytes that decide each change.
    pub data: VecDeque<u8>,
    pub changed: bool,
}

impl Changes {
    /// Compares the end of `main` with its usual result, if nothing was changed.
    pub fn check(&self, ended: &Result<u64, Raised>, usual: u64) {
        if !self.changed {
            let told = ended.as_ref().err().map(|e| e.to_string());
            assert_eq!((ended.as_ref().ok(), told), (Some(&usual), None), "nothing was changed");
        }
    }

    fn byte(&mut self) -> u8 {
        self.data.pop_front().unwrap_or(0)
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.byte()).collect()
    }

    /// Changes some packets of a batch.
    pub fn change(&mut self, batch: &[u8]) -> Vec<u8> {
        let (mut rest, mut out) = (batch, Vec::new());
        while let Some((length, behind)) = rest.split_first_chunk::<4>() {
            let (packet, behind) = behind.split_at(u32::from_le_bytes(*length) as usize);
            rest = behind;
            let mut packet = packet.to_vec();
            let (how, at) = (self.byte(), usize::from(self.byte()) % packet.len());
            self.changed |= (1..=12).contains(&how);
            let mut times = 1;
            match how {
                1 | 2 => packet[at] = self.byte(),
                3 | 4 => packet[at] ^= 1 << (self.byte() % 8),
                // Small numbers where there may be indices, classes, methods, tags and lengths.
                5 | 6 if packet.len() >= 5 => {
                    let at = 1 + at % (packet.len() - 4) / 4 * 4;
                    let number = [u32::from(self.byte()) % 80, u32::MAX, u32::from(self.byte()) << 8]
                        [usize::from(self.byte()) % 3];
                    let end = packet.len().min(at + 4);
                    packet[at..end].copy_from_slice(&number.to_le_bytes()[..end - at]);
                }
                7 => packet.truncate(at),
                8 => times = 2,
                9 => times = 0,
                10 => {
                    let more = self.bytes(at);
                    packet.extend(more);
                }
                11 => packet = self.bytes(at),
                12 => out.extend(self.bytes(at % 8)),
                _ => {}
            }
            for _ in 0..times {
                out.extend((packet.len() as u32).to_le_bytes());
                out.extend(&packet);
            }
        }
        out
    }
}
