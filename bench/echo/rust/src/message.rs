//! Messages and lines of the programs that echo: the part that the sides of `bifrost` and those of
//! `echo-rust` have in common. `bench/echo/README.md` has both forms.
//!
//! Read [`Carrier`] first: a way to send and receive bytes. [`serve`] and [`follow_orders`] are the
//! two sides over one. A side that cannot block on a carrier uses [`Answers`], [`order`] and
//! [`Turn`].
//!
//! A message is a head of 8 bytes and bytes. The head has the number of bytes that follow and the
//! number of bytes wanted, both of 32 bits, the least byte first. The answer has the bytes wanted,
//! and wants none. [`ECHO`] wants the bytes that were sent.

use std::fmt::Write as _;
use std::io::{BufRead, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};

pub type Failed = Box<dyn std::error::Error>;

/// The bytes of a head.
pub const HEAD: usize = 8;
/// The number of bytes wanted that asks for those that were sent.
pub const ECHO: u32 = u32::MAX;
/// The most bytes of a message, without its head.
pub const BYTES_MAX: usize = 1 << 20;
/// The bytes of the exchange that checks whether bytes arrive as they were sent.
pub const CHECK: usize = 50_000;

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
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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
        false => Err(format!("a message of {follow} bytes is too long").into()),
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
    pub fn answer(&self, head: Head, bytes: &[u8], answer: &mut Vec<u8>) -> Result<(), Failed> {
        let bytes = match head.wanted {
            ECHO => bytes,
            wanted => self.pattern.get(..wanted as usize).ok_or("too many bytes are wanted")?,
        };
        write(answer, bytes, 0);
        Ok(())
    }
}

/// An order of the process that measures.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// One exchange of many bytes, whose answer has the same bytes.
    Check,
    /// So many exchanges of so many bytes.
    Turn { sent: usize, received: usize, exchanges: usize },
}

impl Order {
    /// Replaces what is in `message` by the message that it orders. Returns the bytes of the answer
    /// and the number of exchanges.
    pub fn write(self, message: &mut Vec<u8>) -> (usize, usize) {
        match self {
            Order::Check => {
                write(message, &pattern(CHECK), ECHO);
                (CHECK, 1)
            }
            Order::Turn { sent, received, exchanges } => {
                write(message, &pattern(sent), received as u32);
                (received, exchanges)
            }
        }
    }
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
        _ => Err(format!("unknown order `{line}`").into()),
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
    /// Makes a turn without exchanges, whose answers have so many bytes.
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
        Ok(write!(self.times, " {nanoseconds}")?)
    }

    /// Returns the line for the process that measures, with the datagrams that this side has sent,
    /// if it counts them.
    pub fn line(&self, datagrams: Option<u64>) -> String {
        format!("done {} {}{}", processor_ns() - self.processor, figure(datagrams), self.times)
    }
}

/// Returns the word of a figure that may be absent.
fn figure(figure: Option<u64>) -> String {
    figure.map_or("-".to_owned(), |figure| figure.to_string())
}

/// The number of datagrams that a side has sent, which other threads read.
pub type Datagrams = Arc<AtomicU64>;

/// A way to send and receive bytes.
pub trait Carrier {
    /// Sends a message.
    ///
    /// # Errors
    /// The other side is gone.
    fn send(&mut self, message: &[u8]) -> Result<(), Failed>;

    /// Waits for bytes, and appends them. Returns false if the other side has closed.
    ///
    /// # Errors
    /// The carrier is broken.
    fn receive(&mut self, inbox: &mut Vec<u8>) -> Result<bool, Failed>;

    /// Waits until a line can be read; does what the carrier has to do meanwhile.
    ///
    /// # Errors
    /// The other side is gone.
    fn await_line(&mut self, _inbox: &mut Vec<u8>) -> Result<(), Failed> {
        Ok(())
    }

    /// Returns the counter of the datagrams that this side sends, if it counts them.
    fn datagrams(&self) -> Option<&Datagrams> {
        None
    }
}

/// Waits for a message, which is at the start of the inbox then. Returns nothing if the other side
/// has closed.
fn receive(carrier: &mut impl Carrier, inbox: &mut Vec<u8>) -> Result<Option<Head>, Failed> {
    loop {
        if let Some(head) = head(inbox)?
            && inbox.len() >= HEAD + head.follow
        {
            return Ok(Some(head));
        }
        if !carrier.receive(inbox)? {
            return Ok(None);
        }
    }
}

/// Answers messages until the other side closes.
///
/// # Errors
/// The carrier is broken.
pub fn serve(carrier: &mut impl Carrier) -> Result<(), Failed> {
    let (answers, mut inbox, mut answer) = (Answers::new(), Vec::new(), Vec::new());
    while let Some(head) = receive(carrier, &mut inbox)? {
        answers.answer(head, &inbox[HEAD..HEAD + head.follow], &mut answer)?;
        inbox.drain(..HEAD + head.follow);
        carrier.send(&answer)?;
    }
    Ok(())
}

/// Follows the orders of the input until it ends.
///
/// # Errors
/// The other side is gone, or an answer is wrong.
pub fn follow_orders(carrier: &mut impl Carrier) -> Result<(), Failed> {
    let (mut inbox, mut message, mut line) = (Vec::new(), Vec::new(), String::new());
    say("ready")?;
    loop {
        carrier.await_line(&mut inbox)?;
        line.clear();
        if std::io::stdin().lock().read_line(&mut line)? == 0 {
            return Ok(());
        }
        let order = order(line.trim_end())?;
        let (received, exchanges) = order.write(&mut message);
        let count = |carrier: &dyn Carrier| Some(carrier.datagrams()?.load(Ordering::Relaxed));
        let before = count(carrier);
        let mut turn = Turn::new(received);
        for _ in 0..exchanges {
            turn.begin();
            carrier.send(&message)?;
            let head = receive(carrier, &mut inbox)?.ok_or("the server has closed")?;
            turn.end(&inbox[HEAD..HEAD + head.follow])?;
            inbox.drain(..HEAD + head.follow);
        }
        let datagrams = count(carrier).zip(before).map(|(now, before)| now - before);
        match order {
            Order::Check => say("checked")?,
            Order::Turn { .. } => say(&turn.line(datagrams))?,
        }
    }
}

/// Answers `counts` on a thread of its own, and ends the process when its input does.
pub fn answer_counts(datagrams: impl Fn() -> Option<u64> + Send + 'static) {
    std::thread::spawn(move || {
        for _ in std::io::stdin().lock().lines().map_while(Result::ok) {
            if say(&format!("{} {}", processor_ns(), figure(datagrams()))).is_err() {
                break;
            }
        }
        // There is nothing to keep.
        std::process::exit(0);
    });
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_read() {
        assert_eq!(order("check").unwrap(), Order::Check);
        let turn = Order::Turn { sent: 16, received: 0, exchanges: 5 };
        assert_eq!(order("16 0 5").unwrap(), turn);
        for line in ["", "16 0", "16 0 5 1", "16 x 5", "-1 0 5", "2000000 0 5", "checked"] {
            assert!(order(line).is_err(), "{line}");
        }
    }

    #[test]
    fn messages_have_heads() {
        let (answers, mut message, mut answer) = (Answers::new(), Vec::new(), Vec::new());
        write(&mut message, b"abc", 2);
        let read = head(&message).unwrap().unwrap();
        assert_eq!(read, Head { follow: 3, wanted: 2 });
        answers.answer(read, &message[HEAD..], &mut answer).unwrap();
        assert_eq!(answer, [2, 0, 0, 0, 0, 0, 0, 0, b'a', b'b']);
        answers.answer(Head { wanted: ECHO, ..read }, b"xyz", &mut answer).unwrap();
        assert_eq!(&answer[HEAD..], b"xyz");
        assert!(answers.answer(Head { wanted: ECHO - 1, ..read }, b"", &mut answer).is_err());
        assert_eq!(head(&message[..HEAD - 1]).unwrap(), None);
        assert!(head(&[255; HEAD]).is_err());
    }

    #[test]
    fn a_turn_has_a_line_and_wants_its_bytes() {
        let mut turn = Turn::new(2);
        turn.begin();
        turn.end(b"ab").unwrap();
        let line = turn.line(Some(7));
        let words: Vec<&str> = line.split(' ').collect();
        assert_eq!((words[0], words[2], words.len()), ("done", "7", 4), "{line}");
        assert!(turn.line(None).contains(" - "));
        for wrong in [&b"a"[..], b"ba", b"abc", b""] {
            assert!(turn.end(wrong).is_err());
        }
    }
}
