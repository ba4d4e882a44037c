//! The file servers of other systems: omniORB and gRPC, in C++ (`bench/files`).
//!
//! Read [`Tool`] first: the program of a peer, compiled for this run. It is a [`Subject`]. Server
//! and clients are processes of it; `bench/files/files.h` has the lines that they read and print. A
//! peer whose tools are missing does not take part, and says how to install them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use clap::ValueEnum;

use super::super::common::Failed;
use super::super::process::Program;
use super::super::tools::{Library, Made, Source};
use super::subject::{Counts, Done, Files, OURS, Over, Server, Slow, Subject, Way, Work};

/// The sources that both peers include.
const SHARED: Source = ("files.h", include_str!("../../../../../bench/files/files.h"));
/// The longest wait for a line of a peer.
const ANSWER: Duration = Duration::from_secs(120);

/// Another system.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Peer {
    /// omniORB, an implementation of CORBA, with a pool of threads
    Omniorb,
    /// gRPC for C++, with the callback server and a queue of tasks
    Grpc,
}

impl Peer {
    /// All of them.
    pub const ALL: [Peer; 2] = [Peer::Omniorb, Peer::Grpc];

    /// Returns its name in tables and files.
    pub fn name(self) -> &'static str {
        match self {
            Peer::Omniorb => "omniorb",
            Peer::Grpc => "grpc",
        }
    }

    /// Returns the definition of its interface and its program.
    fn sources(self) -> [Source; 2] {
        match self {
            Peer::Omniorb => [
                ("files.idl", include_str!("../../../../../bench/files/omniorb/files.idl")),
                ("omniorb.cpp", include_str!("../../../../../bench/files/omniorb/omniorb.cpp")),
            ],
            Peer::Grpc => [
                ("files.proto", include_str!("../../../../../bench/files/grpc/files.proto")),
                ("grpc.cpp", include_str!("../../../../../bench/files/grpc/grpc.cpp")),
            ],
        }
    }

    /// Compiles its program, in a folder that is for it alone.
    ///
    /// # Errors
    /// The reason why it does not take part.
    pub fn prepare(self, folder: &Path) -> Result<Tool, String> {
        let library = match self {
            Peer::Omniorb => Library::Omniorb,
            Peer::Grpc => Library::Grpc,
        };
        let Made { program, version } = library.prepare(folder, self.sources(), &[SHARED])?;
        let address: fn(Over, &Path) -> Option<String> = match self {
            Peer::Omniorb => |over, place| match over {
                Over::Unix => Some(format!("giop:unix:{}/socket", place.display())),
                Over::Tcp => Some("giop:tcp:127.0.0.1:".to_owned()),
                Over::Shm | Over::Tls => None,
            },
            Peer::Grpc => |over, place| match over {
                Over::Unix => Some(format!("unix:{}/socket", place.display())),
                Over::Tcp => Some("127.0.0.1:0".to_owned()),
                Over::Shm | Over::Tls => None,
            },
        };
        let ways: &[Way] = match self {
            Peer::Omniorb => &[Way::Single, Way::Whole],
            Peer::Grpc => &[Way::Single, Way::Flight, Way::Stream, Way::Whole],
        };
        Ok(Tool { name: self.name(), program, words: &[], address, ways, version })
    }
}

/// A system that is there, with its program.
pub struct Tool {
    name: &'static str,
    program: PathBuf,
    /// The words before each order of the program.
    words: &'static [&'static str],
    /// The address to listen at, over a transport that it has, in a folder.
    address: fn(Over, &Path) -> Option<String>,
    ways: &'static [Way],
    /// The versions of its library and compiler.
    pub version: String,
}

impl Tool {
    /// Returns this program as the one that is measured.
    ///
    /// # Errors
    /// The system does not tell where it is.
    pub fn ours() -> Result<Tool, Failed> {
        Ok(Tool {
            name: OURS,
            program: std::env::current_exe()?,
            words: &["bench", "file-server"],
            address: |over, place| Some(format!("{}:{}", over.name(), place.display())),
            ways: &[Way::Single, Way::Batch, Way::Whole],
            version: env!("CARGO_PKG_VERSION").to_owned(),
        })
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(self.words);
        command
    }
}

impl Subject for Tool {
    fn name(&self) -> &'static str {
        self.name
    }

    fn goes_over(&self, over: Over) -> bool {
        (self.address)(over, Path::new("")).is_some()
    }

    fn ways(&self) -> &'static [Way] {
        self.ways
    }

    fn start<'a>(
        &'a self,
        over: Over,
        tasks: u32,
        files: &'a Files,
        place: &Path,
    ) -> Result<Box<dyn Server + 'a>, Failed> {
        let missing = || format!("{} does not go over {}", self.name, over.name());
        let address = (self.address)(over, place).ok_or_else(missing)?;
        let mut command = self.command();
        command.args(["serve", &address]).arg(files.folder()).arg(tasks.to_string());
        let mut server = Program::start(self.name(), &mut command)?;
        let line = server.hear(ANSWER)?;
        let place = line.strip_prefix("ready ").ok_or_else(|| unknown(self.name(), &line))?.to_owned();
        Ok(Box::new(PeerServer { tool: self, files, server, place, clients: Vec::new() }))
    }
}

/// A server of a peer, with its clients.
struct PeerServer<'a> {
    tool: &'a Tool,
    files: &'a Files,
    // Dropped before the server, so that no client sees its server gone.
    clients: Vec<Program>,
    server: Program,
    /// The place of the server, as its clients want it.
    place: String,
}

impl Server for PeerServer<'_> {
    fn connect(&mut self, clients: u32) -> Result<(), Failed> {
        self.clients.truncate(clients as usize);
        for number in self.clients.len() as u32..clients {
            let mut command = self.tool.command();
            command.args(["client", &self.place, &self.files.name(number)]).arg(self.files.path(number));
            command.arg(self.files.block.to_string());
            let mut client = Program::start(self.tool.name, &mut command)?;
            for (order, answer) in [(None, "ready"), (Some("check"), "checked")] {
                if let Some(order) = order {
                    client.say(order)?;
                }
                let line = client.hear(ANSWER)?;
                if line != answer {
                    return Err(unknown(self.tool.name, &line));
                }
            }
            self.clients.push(client);
        }
        Ok(())
    }

    fn run(&mut self, work: &Work) -> Result<Vec<Done>, Failed> {
        let line = order(work);
        for client in &mut self.clients {
            client.say(&line)?;
        }
        let done = self.clients.iter_mut().map(|client| {
            let line = client.hear(ANSWER)?;
            done(&line).ok_or_else(|| unknown(self.tool.name, &line))
        });
        done.collect()
    }

    fn counts(&mut self) -> Result<Counts, Failed> {
        self.server.say("counts")?;
        let line = self.server.hear(ANSWER)?;
        counts(&line).ok_or_else(|| unknown(self.tool.name, &line))
    }
}

/// Returns the line that orders some work.
fn order(work: &Work) -> String {
    match *work {
        Work::Copy { way: Way::Single, slow: Slow { compute_us, block_us }, .. } => {
            format!("single {compute_us} {block_us}")
        }
        Work::Copy { way: Way::Flight, flight, .. } => format!("flight {flight}"),
        Work::Copy { way, .. } => way.name().to_owned(),
        Work::Null(calls) => format!("null {calls}"),
        Work::Loop(calls) => format!("loop {calls}"),
    }
}

/// Reads the line of a client that has done its work.
fn done(line: &str) -> Option<Done> {
    let mut words = line.strip_prefix("done ")?.split(' ').map(str::parse);
    let mut number = || words.next()?.ok();
    let done = Done { ns: number()?, crossings: number()?, cpu_ns: number()? };
    words.next().is_none().then_some(done)
}

/// Reads the line with the counts of a server.
fn counts(line: &str) -> Option<Counts> {
    let mut words = line.split(' ');
    let mut number = || match words.next()? {
        "-" => Some(None),
        word => word.parse().ok().map(Some),
    };
    let (taken, queue_length_sum, active_sum) = (number()??, number()?, number()??);
    let (waited_ns, ran_ns, cpu_ns) = (number()?, number()??, number()??);
    let counts = Counts { taken, queue_length_sum, active_sum, waited_ns, ran_ns, cpu_ns };
    words.next().is_none().then_some(counts)
}

/// Returns the error of a line that was not expected.
fn unknown(name: &str, line: &str) -> Failed {
    match line.strip_prefix("failed ") {
        Some(reason) => format!("a client of {name} failed: {reason}").into(),
        None => format!("a program of {name} says `{line}`").into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_peers_are_read() {
        assert_eq!(done("done 12 258 7"), Some(Done { ns: 12, crossings: 258, cpu_ns: 7 }));
        let read = counts("10 - 3 - 500 6000").unwrap();
        assert_eq!((read.taken, read.queue_length_sum, read.active_sum), (10, None, 3));
        assert_eq!((read.waited_ns, read.ran_ns, read.cpu_ns), (None, 500, 6000));
        assert_eq!(counts("10 4 3 70 500 6000").unwrap().waited_ns, Some(70));
        for line in ["", "done 1 2", "done 1 2 3 4", "done 1 2 x", "failed 1 2 3"] {
            assert_eq!(done(line), None, "{line}");
        }
        for line in ["", "- 1 1 1 1 1", "1 1 - 1 1 1", "1 2 3 4 5", "1 2 3 4 5 6 7", "1 2 3 4 5 -6"] {
            assert_eq!(counts(line), None, "{line}");
        }
    }

    #[test]
    fn work_is_ordered_in_lines() {
        let slow = Slow { compute_us: 100, block_us: 2000 };
        let copy = |way| order(&Work::Copy { way, flight: 16, slow });
        assert_eq!(copy(Way::Single), "single 100 2000");
        assert_eq!((copy(Way::Flight).as_str(), copy(Way::Whole).as_str()), ("flight 16", "whole"));
        assert_eq!(order(&Work::Null(5)), "null 5");
    }
}
