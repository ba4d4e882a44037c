//! `bifrost bench sizes session`: the memory of a session that makes and commits objects for ever.
//!
//! The server is a process of its own, and the system tells its memory. Its metrics tell the bytes
//! of the session's heap and of the store, which is a folder. The session speaks the text form over
//! a socket.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use super::{Measured, Sized};
use crate::bench::common::Failed;
use crate::bench::process::memory_of;
use crate::bench::report::Target;
use crate::process::ServerProcess;

/// Objects of one transaction.
const AT_ONCE: i64 = 1_000;

/// Reports of the memory during a run.
const TOLD: i64 = 20;

/// The settings of the server: so small a cache is full soon.
const SETTINGS: [&str; 4] = ["--set", "cache_bytes_max=4194304", "--set", "heap_bytes_max=67108864"];

/// The most that the heap may have in the second half, against the most in the first: between two
/// collections it goes up and down. The process has the buffers of the store besides, which depend
/// on how often that is collected.
const GROWN_MOST: f64 = 1.25;

/// A session that speaks the text form.
struct Talk {
    lines: BufReader<UnixStream>,
}

impl Talk {
    fn begin(socket: &Path) -> Result<Talk, Failed> {
        let mut talk = Talk { lines: BufReader::new(UnixStream::connect(socket)?) };
        talk.say("hello 2 name \"bench\"\n")?;
        let welcome = talk.line()?;
        match welcome.starts_with("welcome") {
            true => Ok(talk),
            false => Err(format!("the server answers `{}`", welcome.trim()).into()),
        }
    }

    fn say(&mut self, lines: &str) -> Result<(), Failed> {
        Ok(self.lines.get_mut().write_all(lines.as_bytes())?)
    }

    fn line(&mut self) -> Result<String, Failed> {
        let mut line = String::new();
        match self.lines.read_line(&mut line)? {
            0 => Err("the server has ended the session".into()),
            _ => Ok(line),
        }
    }

    /// Sends lines that end with a flush, and returns the answer, without the last line.
    fn ask(&mut self, lines: &str) -> Result<String, Failed> {
        self.say(lines)?;
        let mut answer = String::new();
        loop {
            let line = self.line()?;
            if line.starts_with("ok") {
                return Ok(answer);
            }
            answer.push_str(&line);
        }
    }
}

/// Returns a metric of the server, by its name.
fn metric(socket: &Path, name: &str) -> Result<f64, Failed> {
    let mut stream = UnixStream::connect(socket)?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    Ok(value.ok_or_else(|| format!("the server has no metric `{name}`"))?.parse()?)
}

/// Measures the case.
pub(super) fn session(case: &Sized, size: i64, measured: &mut Measured) -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let (socket, metrics) = (folder.path().join("socket"), folder.path().join("metrics"));
    let (listen, told) = (format!("unix://{}", socket.display()), format!("unix://{}", metrics.display()));
    let store = folder.path().join("store").display().to_string();
    let places = ["--listen", &listen, "--metrics", &told, "--store", &store];
    let server = ServerProcess::start(folder.path(), case.theta, &[&places[..], &SETTINGS].concat())?;
    let mut talk = Talk::begin(&socket)?;
    talk.ask("$chain := lookup chain: Chain\n? $chain\n")?;
    let (mut made, mut looks) = (0, Vec::new());
    println!("{:>13} {:>12} {:>12}", "objects", "heap, MB", "process, MB");
    for look in 1..=TOLD {
        while made < size * look / TOLD {
            let count = AT_ONCE.min(size - made);
            let answer =
                talk.ask(&format!("$made := $chain.grow({count})\n$done := commit\n? $made, $done\n"))?;
            made += count;
            if answer != format!("$made = {made}\n$done = nil\n") {
                return Err(format!("after {made} objects the session hears: {answer}").into());
            }
        }
        let heap = metric(&metrics, "bifrost_heap_bytes")? / 1e6;
        let process = memory_of(server.id(), "VmRSS")? as f64 / 1e6;
        println!("{made:>13} {heap:>12.1} {process:>12.1}");
        measured.figures.push(case.figure("heap", made, "MB", &mut [heap]));
        measured.figures.push(case.figure("process", made, "MB", &mut [process]));
        looks.push(heap);
    }
    let (first, second) = looks.split_at(looks.len() / 2);
    let most = |heaps: &[f64]| heaps.iter().copied().fold(0.0, f64::max);
    let grown = most(second) / most(first);
    measured.targets.push(Target::new(
        "session, heap in the second half against the first",
        grown,
        GROWN_MOST,
        "x",
    ));
    Ok(())
}
