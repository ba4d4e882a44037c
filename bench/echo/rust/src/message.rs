//! Messages: a head of 8 bytes, and bytes.
//!
//! The head has the number of bytes that follow and the number of bytes wanted, both in 32 bits,
//! the least byte first. The answer has as many bytes as were wanted, and wants none. [`ECHO`] wants
//! the bytes that were sent.

use std::io::{BufRead, Write};
use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};

use crate::Failed;

/// The bytes of a head.
pub const HEAD: usize = 8;
/// The number of bytes wanted that asks for those that were sent.
pub const ECHO: u32 = u32::MAX;
/// The bytes of the exchange that checks whether bytes arrive as they were sent.
pub const CHECK: usize = 100_000;
/// The most bytes of a message, without its head.
pub const BYTES_MAX: usize = 1 << 20;

/// Returns bytes with a pattern that shows lost and exchanged parts.
pub fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| b'a' + (at % 23) as u8).collect()
}

/// Replaces what is in `message`.
pub fn write(message: &mut Vec<u8>, bytes: &[u8], wanted: u32) {
    message.clear();
    message.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    message.extend_from_slice(&wanted.to_le_bytes());
    message.extend_from_slice(bytes);
}

/// The numbers of a head.
pub struct Head {
    /// The bytes that follow.
    pub follow: usize,
    /// The bytes wanted.
    pub wanted: u32,
}

/// Reads the head of a message, if it is there.
///
/// # Errors
/// The message is too long.
pub fn head(bytes: &[u8]) -> Result<Option<Head>, Failed> {
    let Some((follow, behind)) = bytes.split_first_chunk() else { return Ok(None) };
    let Some((wanted, _)) = behind.split_first_chunk() else { return Ok(None) };
    let follow = u32::from_le_bytes(*follow) as usize;
    match follow <= BYTES_MAX {
        true => Ok(Some(Head { follow, wanted: u32::from_le_bytes(*wanted) })),
        false => Err("a message is too long".into()),
    }
}

/// The answers of a server.
pub struct Answers {
    pattern: Vec<u8>,
}

impl Answers {
    pub fn new() -> Answers {
        Answers { pattern: pattern(BYTES_MAX) }
    }

    /// Makes the answer to a message.
    ///
    /// # Errors
    /// Too many bytes are wanted.
    pub fn answer(&self, head: &Head, bytes: &[u8], answer: &mut Vec<u8>) -> Result<(), Failed> {
        let bytes = match head.wanted {
            ECHO => bytes,
            wanted => self.pattern.get(..wanted as usize).ok_or("too many bytes are wanted")?,
        };
        write(answer, bytes, 0);
        Ok(())
    }
}

/// An order of the process that measures.
pub enum Order {
    /// One exchange of many bytes, whose answer has the same bytes.
    Check,
    /// So many exchanges.
    Turn { sent: usize, received: usize, exchanges: usize },
}

/// Reads an order.
///
/// # Errors
/// It is none.
pub fn order(line: &str) -> Result<Order, Failed> {
    if line == "check" {
        return Ok(Order::Check);
    }
    let numbers: Vec<usize> = line.split(' ').map(str::parse).collect::<Result<_, _>>()?;
    match numbers[..] {
        [sent, received, exchanges] if sent.max(received) <= BYTES_MAX => {
            Ok(Order::Turn { sent, received, exchanges })
        }
        _ => Err("an order has three numbers".into()),
    }
}

/// The measured exchanges of an order.
pub struct Turn {
    expected: Vec<u8>,
    times: String,
    processor: u64,
    began: Instant,
}

impl Turn {
    pub fn new(received: usize) -> Turn {
        Turn {
            expected: pattern(received),
            times: String::new(),
            processor: processor_ns(),
            began: Instant::now(),
        }
    }

    /// Begins an exchange.
    pub fn begin(&mut self) {
        self.began = Instant::now();
    }

    /// Ends an exchange, whose answer had these bytes.
    ///
    /// # Errors
    /// They are others than expected.
    pub fn end(&mut self, bytes: &[u8]) -> Result<(), Failed> {
        let nanoseconds = self.began.elapsed().as_nanos();
        if bytes != self.expected {
            return Err("the bytes received are not those expected".into());
        }
        use std::fmt::Write;
        Ok(write!(self.times, " {nanoseconds}")?)
    }

    /// Returns the line for the process that measures, with the datagrams that this side sent.
    pub fn line(&self, datagrams: u64) -> String {
        format!("done {} {datagrams}{}", processor_ns() - self.processor, self.times)
    }
}

/// Returns the processor time of this process.
pub fn processor_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Writes a line at once.
///
/// # Errors
/// The reader is gone.
pub fn say(line: &str) -> Result<(), Failed> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

/// Answers `counts` on a thread of its own, and ends the process when its input does.
pub fn answer_counts(datagrams: impl Fn() -> u64 + Send + 'static) {
    std::thread::spawn(move || {
        for _ in std::io::stdin().lock().lines().map_while(Result::ok) {
            if say(&format!("{} {}", processor_ns(), datagrams())).is_err() {
                break;
            }
        }
        std::process::exit(0);
    });
}
