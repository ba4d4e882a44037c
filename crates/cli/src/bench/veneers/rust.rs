//! The client library of Rust, in this process.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;
use std::time::Instant;

use super::super::common::Failed;
use super::subject::{OURS, Step, Subject};

#[rustfmt::skip]
#[allow(clippy::all, dead_code, missing_docs, reason = "generated")]
#[path = "../../../tests/conformance/bifrost_stubs.rs"]
mod stubs;

/// The bytes of a message of the raw socket: those of a call with one integer and its flush.
const MESSAGE: usize = 64;

/// A client in this process.
pub struct Here {
    session: bifrost_veneer::Session,
    probe: stubs::Probe,
    echo: Echo,
}

impl Here {
    /// Connects it.
    ///
    /// # Errors
    /// There is no server of the program.
    pub fn connect(url: &str) -> Result<Here, Failed> {
        let session = stubs::connect(url)?;
        let probe: stubs::Probe = session.lookup("probe");
        session.resolve(&probe)?;
        Ok(Here { session, probe, echo: Echo::start()? })
    }
}

impl Subject for Here {
    fn name(&self) -> &'static str {
        OURS
    }

    fn run(&mut self, step: Step, count: u32) -> Result<(f64, i64), Failed> {
        let (s, probe) = (&self.session, &self.probe);
        let numbers = || (0..count).map(i64::from);
        let mut result = 0;
        let start = Instant::now();
        let spent = || start.elapsed().as_nanos() as f64;
        match step {
            Step::Record => {
                for n in numbers() {
                    drop(probe.same_int(n));
                    result += n;
                }
                let ns = spent();
                s.flush()?;
                return Ok((ns, result));
            }
            Step::Batch => {
                let all: Vec<_> = numbers().map(|n| probe.same_int(n)).collect();
                if let Some(last) = all.last() {
                    last.claim()?;
                }
                let ns = spent();
                for promise in &all {
                    result += promise.claim()?;
                }
                return Ok((ns, result));
            }
            Step::Null => {
                for _ in numbers() {
                    probe.nothing().claim()?;
                    result += 1;
                }
            }
            Step::Pair => {
                for n in numbers() {
                    result += probe.same_int(n).claim()?;
                }
            }
            Step::Two => {
                for n in numbers() {
                    result += probe.itself().same_int(n).claim()?;
                }
            }
            Step::Table => {
                let rows = s.rows::<(i64, String)>();
                s.foreach(probe.pairs(i64::from(count)), |(n, text)| rows.push((n, text)));
                for (n, text) in rows.claim()? {
                    result += n + text.len() as i64;
                }
            }
            Step::Raw => {
                for _ in numbers() {
                    self.echo.ping()?;
                    result += 1;
                }
            }
            Step::Last | Step::Socket => return Err("this client does not speak the text form".into()),
        }
        Ok((spent(), result))
    }
}

/// A pair of sockets, and a thread that sends back each message of one of them.
struct Echo {
    socket: UnixStream,
    thread: Option<JoinHandle<()>>,
}

impl Echo {
    fn start() -> Result<Echo, Failed> {
        let (socket, mut other) = UnixStream::pair()?;
        let answer = move || {
            let mut bytes = [0; MESSAGE];
            while other.read_exact(&mut bytes).and_then(|()| other.write_all(&bytes)).is_ok() {}
        };
        Ok(Echo { socket, thread: Some(std::thread::spawn(answer)) })
    }

    fn ping(&mut self) -> std::io::Result<()> {
        let mut bytes = [0; MESSAGE];
        self.socket.write_all(&bytes)?;
        self.socket.read_exact(&mut bytes)
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
