//! The least that a pair of crossings can cost: two cache lines in memory that two processes share.

use std::fs::File;
use std::hint::spin_loop;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use super::futex::Turn;

/// One direction: a number, and two words that travel with it.
#[repr(C, align(128))]
pub struct Line {
    number: AtomicU64,
    words: [AtomicU64; 2],
}

/// Both directions, and a word for sides that sleep.
#[repr(C)]
pub struct Lines {
    /// To the echoing side.
    pub forth: Line,
    /// Back.
    pub back: Line,
    /// The word of `bench blocking --null`.
    pub turn: Turn,
}

/// The bytes of the file that is mapped: a page.
pub const PAGE: usize = 4096;

/// The number that ends the exchange.
const END: u64 = u64::MAX;

impl Line {
    /// Publishes two words under the next number.
    pub fn put(&self, number: u64, words: [u64; 2]) {
        for (place, word) in self.words.iter().zip(words) {
            place.store(word, Ordering::Relaxed);
        }
        // Release: pairs with the Acquire in `take`.
        self.number.store(number, Ordering::Release);
    }

    /// Waits for a number and takes its words; nothing at the end.
    pub fn take(&self, number: u64) -> Option<[u64; 2]> {
        loop {
            match self.number.load(Ordering::Acquire) {
                END => return None,
                found if found == number => break,
                _ => spin_loop(),
            }
        }
        Some([self.words[0].load(Ordering::Relaxed), self.words[1].load(Ordering::Relaxed)])
    }

    /// Ends the exchange in this direction.
    fn end(&self) {
        self.number.store(END, Ordering::Release);
    }
}

impl Lines {
    /// Makes both lines as they were at the start.
    pub fn reset(&self) {
        self.forth.number.store(0, Ordering::Release);
        self.back.number.store(0, Ordering::Release);
    }

    /// Ends the exchange, and waits until the echoing side has seen it.
    pub fn end(&self) {
        self.forth.end();
        while self.back.take(END).is_some() {}
    }
}

/// Answers until the end, and answers that as well.
pub fn echo(lines: &Lines) {
    let mut number = 1;
    while let Some(words) = lines.forth.take(number) {
        lines.back.put(number, words);
        number += 1;
    }
    lines.back.end();
}

/// Maps the lines that lie in a file of a page of zeros.
pub fn map(path: &Path) -> io::Result<&'static Lines> {
    let file = File::options().read(true).write(true).open(path)?;
    let protection = rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE;
    // SAFETY: a new mapping of a page that is in the file, never unmapped; the lines consist of
    // atomics.
    unsafe {
        let start =
            rustix::mm::mmap(std::ptr::null_mut(), PAGE, protection, rustix::mm::MapFlags::SHARED, &file, 0)?;
        Ok(&*start.cast::<Lines>())
    }
}
