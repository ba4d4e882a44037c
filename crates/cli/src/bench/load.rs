//! A load generator: one thread drives many connections, as `redis-benchmark` does.
//!
//! Each client is a closed loop: it sends its request, which was made before, and sends it again
//! when the answer is whole. A poller ([`rustix::event::epoll`]) wakes the thread for the
//! connections that have bytes. Times go to a histogram of three digits.
//!
//! Read [`run`] first. It knows two forms of answers, ours and those of Redis, so that the same
//! generator measures both.
//!
//! ```text
//! idle --the run begins--> sent --the answer is whole, time is left--> sent
//!                          sent --the answer is whole, the time is over--> idle
//! ```

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bifrost_transport::Stream;
use bifrost_wire::{DecodedReply, REPLY_BYTES_MAX, decode_reply};
use hdrhistogram::Histogram;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};

use super::bare::{Bare, READ_BYTES, succeeded};
use super::common::Failed;

/// The longest time that is told apart, in nanoseconds.
const LONGEST_NS: u64 = 60_000_000_000;
/// The digits of times.
const DIGITS: u8 = 3;
/// The longest wait for the answers under way when the time is over.
const PATIENCE: Duration = Duration::from_secs(60);
/// The events that one call of the poller gives.
const EVENTS: usize = 256;

/// The form of answers.
#[derive(Clone, Copy, Debug)]
pub enum Form {
    /// The answer to one `flush`.
    Bifrost,
    /// So many bytes, of which none begins an error.
    Redis(usize),
}

/// A connection with its request.
pub struct Client {
    stream: Stream,
    socket: Arc<OwnedFd>,
    form: Form,
    request: Vec<u8>,
    /// The bytes of the request that were sent.
    sent: usize,
    received: Vec<u8>,
    began: Instant,
}

/// The figures of a run.
pub struct Figures {
    /// Nanoseconds from the request to its answer.
    pub times: Histogram<u64>,
    /// Requests answered in each second.
    pub rate: f64,
    /// Bytes of all answers, those outside the measured time too.
    pub answer_bytes: u64,
    /// Answers, those outside the measured time too.
    pub answers: u64,
}

impl Figures {
    /// Returns a percentile in microseconds; NaN if nothing was measured.
    pub fn us(&self, percentile: f64) -> f64 {
        match self.times.is_empty() {
            true => f64::NAN,
            false => self.times.value_at_percentile(percentile) as f64 / 1e3,
        }
    }
}

impl Client {
    /// Makes a client of a connection on which nothing is under way.
    ///
    /// # Errors
    /// The stream is no socket.
    pub fn new(stream: Stream, form: Form, request: Vec<u8>) -> Result<Client, Failed> {
        let socket = stream.socket().ok_or("only sockets are polled: unix, tcp")?.clone();
        Ok(Client { stream, socket, form, request, sent: 0, received: Vec::new(), began: Instant::now() })
    }

    /// Sends what there is room for. True if all was sent.
    fn send(&mut self) -> Result<bool, Failed> {
        let left = self.request.get(self.sent..).unwrap_or_default();
        self.sent += self.stream.try_write(left)?;
        Ok(self.sent == self.request.len())
    }

    /// Reads what there is. Returns the bytes of the answer when it is whole.
    fn receive(&mut self) -> Result<Option<usize>, Failed> {
        loop {
            match self.stream.try_read(&mut self.received, READ_BYTES)? {
                None => return Ok(None),
                Some(0) => return Err("the server has closed a connection".into()),
                Some(_) => {}
            }
            if let Some(length) = self.answer()? {
                self.received.clear();
                self.sent = 0;
                return Ok(Some(length));
            }
        }
    }

    /// Returns the bytes of the answer if it is whole.
    fn answer(&self) -> Result<Option<usize>, Failed> {
        let length = match self.form {
            Form::Bifrost => match decode_reply(&self.received, REPLY_BYTES_MAX)? {
                DecodedReply::NeedMore(_) => return Ok(None),
                DecodedReply::Reply(reply, length) => {
                    succeeded(&reply)?;
                    length
                }
            },
            Form::Redis(_) if self.received.first() == Some(&b'-') => {
                return Err(format!("redis says {}", String::from_utf8_lossy(&self.received)).into());
            }
            Form::Redis(bytes) if self.received.len() < bytes => return Ok(None),
            Form::Redis(bytes) => bytes,
        };
        match self.received.len() == length {
            true => Ok(Some(length)),
            false => Err("more was answered than was asked".into()),
        }
    }
}

/// The measured part of a run.
///
/// If no request ends within it, as when one takes longer, those that end behind it count.
struct Window {
    from: Instant,
    until: Instant,
    times: Histogram<u64>,
    late: Histogram<u64>,
    last: Instant,
    answers: u64,
    answer_bytes: u64,
}

impl Window {
    fn new(warm: Duration, measured: Duration) -> Result<Window, Failed> {
        let (start, times) = (Instant::now(), Histogram::new_with_bounds(1, LONGEST_NS, DIGITS)?);
        let from = start + warm;
        let until = from + measured;
        Ok(Window { from, until, late: times.clone(), times, last: start, answers: 0, answer_bytes: 0 })
    }

    /// Notes an answer; returns the time, and true if no further request is to be sent.
    fn note(&mut self, began: Instant, bytes: usize) -> (Instant, bool) {
        let now = Instant::now();
        (self.last, self.answers) = (now, self.answers + 1);
        self.answer_bytes += bytes as u64;
        let ns = (now - began).as_nanos() as u64;
        if now >= self.until {
            self.late.saturating_record(ns);
        } else if now >= self.from {
            self.times.saturating_record(ns);
        }
        (now, now >= self.until)
    }

    fn figures(self) -> Figures {
        let Window { from, until, times, late, last, answers, answer_bytes } = self;
        let (times, until) = if times.is_empty() { (late, last) } else { (times, until) };
        let seconds = until.saturating_duration_since(from).as_secs_f64();
        Figures { rate: times.len() as f64 / seconds, times, answer_bytes, answers }
    }
}

/// Has one session work, which waits for each answer: over any transport.
///
/// # Errors
/// The session ends, or an answer is a failure.
pub fn run_alone(
    session: &mut Bare,
    request: &[u8],
    warm: Duration,
    measured: Duration,
) -> Result<Figures, Failed> {
    let mut window = Window::new(warm, measured)?;
    let (mut began, mut is_over) = (Instant::now(), false);
    while !is_over {
        let bytes = session.ask(request, |reply, bytes| succeeded(&reply).map(|_| bytes))?;
        (began, is_over) = window.note(began, bytes);
    }
    Ok(window.figures())
}

/// Has all clients work for a time, of which the first part is not measured.
///
/// # Errors
/// A connection ends, or an answer is a failure.
pub fn run(clients: &mut [Client], warm: Duration, measured: Duration) -> Result<Figures, Failed> {
    let poller = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let flags = |unsent: bool| match unsent {
        true => epoll::EventFlags::IN | epoll::EventFlags::OUT,
        false => epoll::EventFlags::IN,
    };
    let mut window = Window::new(warm, measured)?;
    let mut under_way = 0;
    for (at, client) in clients.iter_mut().enumerate() {
        client.began = Instant::now();
        let unsent = !client.send()?;
        epoll::add(&poller, &client.socket, epoll::EventData::new_u64(at as u64), flags(unsent))?;
        under_way += 1;
    }
    let mut events: Vec<epoll::Event> = Vec::with_capacity(EVENTS);
    let wait = Timespec { tv_sec: 1, tv_nsec: 0 };
    while under_way > 0 {
        events.clear();
        match epoll::wait(&poller, spare_capacity(&mut events), Some(&wait)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if events.is_empty() && Instant::now() > window.until + PATIENCE {
            return Err(format!("{under_way} requests are not answered").into());
        }
        for event in &events {
            // Copies, since the system's record is packed.
            let (at, ready) = ({ event.data }.u64(), { event.flags });
            let Some(client) = clients.get_mut(at as usize) else { continue };
            let data = epoll::EventData::new_u64(at);
            if ready.contains(epoll::EventFlags::OUT) {
                let unsent = !client.send()?;
                epoll::modify(&poller, &client.socket, data, flags(unsent))?;
            }
            let Some(bytes) = client.receive()? else { continue };
            let (now, is_over) = window.note(client.began, bytes);
            if is_over {
                under_way -= 1;
                continue;
            }
            client.began = now;
            if !client.send()? {
                epoll::modify(&poller, &client.socket, data, flags(true))?;
            }
        }
    }
    Ok(window.figures())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_count_within_the_window_or_behind_it_if_there_are_none() {
        let mut window = Window::new(Duration::ZERO, Duration::from_secs(3600)).unwrap();
        let began = Instant::now();
        assert!(!window.note(began, 7).1 && !window.note(began, 5).1);
        let figures = window.figures();
        assert_eq!((figures.times.len(), figures.answers, figures.answer_bytes), (2, 2, 12));
        assert!((figures.rate * 3600.0 - 2.0).abs() < 1e-9);
        // The first requests end behind the window.
        let mut window = Window::new(Duration::ZERO, Duration::ZERO).unwrap();
        std::thread::sleep(Duration::from_millis(2));
        assert!(window.note(began, 7).1);
        let figures = window.figures();
        assert!(figures.times.len() == 1 && figures.us(50.0) >= 2000.0);
        assert!(figures.rate > 0.0 && figures.rate <= 500.0, "{}", figures.rate);
    }
}
