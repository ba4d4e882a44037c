//! Batches over a link with a delay, one after the other and overlapping.
//!
//! [`Link`] is a proxy in front of the server: it passes bytes on a millisecond after they came, in
//! each direction, and as many as come. [`measure`] sends sixteen batches over it, each of which
//! needs the result of the one before. If the client waits for each answer, that takes sixteen
//! delays; if the batches overlap, one.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use bifrost_veneer::{Promise, Session};
use indicatif::ProgressBar;

use super::super::bifrost_stubs::{self as stubs, Probe};
use super::super::common::Failed;
use super::super::report::{Case, Target, ratio};
use super::measure::{Effort, ns};

/// The time that bytes take in one direction.
const DELAY: Duration = Duration::from_millis(1);

/// The number of batches.
const BATCHES: u64 = 16;

/// The calls in each.
const CALLS: u64 = 10;

/// A link with a delay to an address of TCP. Its threads end with the connection.
struct Link {
    url: String,
}

impl Link {
    fn to(address: &str) -> Result<Link, Failed> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let url = format!("tcp://{}", listener.local_addr()?);
        let server = TcpStream::connect(address)?;
        std::thread::spawn(move || {
            let Ok((client, _)) = listener.accept() else { return };
            let _ = [&client, &server].map(|stream| stream.set_nodelay(true));
            if let (Ok(from_client), Ok(from_server)) = (client.try_clone(), server.try_clone()) {
                pass(from_client, server);
                pass(from_server, client);
            }
        });
        Ok(Link { url })
    }
}

/// Passes bytes on, after the delay, in two threads: one reads, one waits and writes.
fn pass(mut from: TcpStream, mut to: TcpStream) {
    let (sender, receiver): (Sender<(Instant, Vec<u8>)>, Receiver<_>) = channel();
    std::thread::spawn(move || {
        let mut bytes = vec![0; 64 << 10];
        while let Ok(count) = from.read(&mut bytes) {
            let some = bytes.get(..count).unwrap_or_default();
            if count == 0 || sender.send((Instant::now() + DELAY, some.to_vec())).is_err() {
                return;
            }
        }
    });
    std::thread::spawn(move || {
        for (at, bytes) in receiver {
            std::thread::sleep(at.saturating_duration_since(Instant::now()));
            if to.write_all(&bytes).is_err() {
                break;
            }
        }
        // Fails if the other end was first.
        let _ = to.shutdown(Shutdown::Both);
    });
}

/// Records a batch that needs the result of the one before, and returns its own.
fn record(probe: &Probe, before: &Promise<i64>) -> Promise<i64> {
    let mut sum = before + 0;
    for _ in 1..CALLS {
        sum = sum + probe.one();
    }
    sum
}

/// Runs a number of batches, and returns the microseconds. With `overlapping` the client waits for
/// the last answer only.
fn run(s: &Session, probe: &Probe, batches: u64, overlapping: bool) -> Result<f64, Failed> {
    let start = Instant::now();
    let mut sum = s.value(0);
    for _ in 0..batches {
        sum = record(probe, &sum);
        match overlapping {
            true => s.send_batch()?,
            false => s.flush()?,
        }
    }
    let found = sum.claim()?;
    let expected = (batches * (CALLS - 1)) as i64;
    match found == expected {
        true => Ok(ns(start) / 1e3),
        false => Err(Failed::from(format!("the batches have counted {found}, and not {expected}"))),
    }
}

/// Measures batches over a link with a delay to the server at an address of TCP.
///
/// # Errors
/// The session ends, or the batches have another result than they must.
pub fn measure(address: &str, effort: Effort, bar: &ProgressBar) -> Result<(Vec<Case>, Vec<Target>), Failed> {
    let link = Link::to(address)?;
    let s = stubs::connect(&link.url)?;
    let probe: Probe = s.lookup("probe");
    s.flush()?;
    let (mut one, mut waiting, mut overlapping) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..effort.long_samples {
        one.push(run(&s, &probe, 1, false)?);
        waiting.push(run(&s, &probe, BATCHES, false)?);
        overlapping.push(run(&s, &probe, BATCHES, true)?);
        bar.inc(1);
    }
    s.close()?;
    let one = Case::new("one batch over the link", CALLS, "us", &mut one).crossed(1, CALLS);
    let calls = BATCHES * CALLS;
    let waiting = Case::new("16 batches, each awaited", calls, "us", &mut waiting).crossed(BATCHES, calls);
    let overlapping =
        Case::new("16 batches that overlap", calls, "us", &mut overlapping).crossed(BATCHES, calls);
    let target = Target::new(
        "16 overlapping batches over a link with a delay / one batch",
        ratio(overlapping.value, one.value),
        1.3,
        "x",
    );
    Ok((vec![one, waiting, overlapping], vec![target]))
}
