//! The systems that take part: processes of ours, and the programs of other systems in
//! `bench/echo`.
//!
//! Read [`System`] first: the command of a server and a client. `bench/echo/README.md` has the
//! lines that they read and print. A peer whose tools are missing does not take part, and says how
//! to install them.

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::ValueEnum;

use super::super::common::Failed;
use super::super::tools::{Library, Made, Source, build_rust};
use super::ours::Over;
use super::proxy::Weather;
use super::raw::Raw;

/// The lines of programs in C++.
const SHARED: Source = ("echo.h", include_str!("../../../../../bench/echo/echo.h"));

/// The host of servers, if there is no network between.
pub const LOOPBACK: &str = "127.0.0.1";

/// The name of the datagrams to which others are compared.
pub const RAW_UDP: &str = "raw udp";
/// The name of the stream to which others are compared.
pub const RAW_TCP: &str = "raw tcp";
/// The name of the state machine of QUIC with one thread on each side.
pub const QUINN_PROTO: &str = "quinn-proto";
/// The name of QUIC with tokio.
pub const QUINN: &str = "quinn";

/// The table that has a system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Group {
    /// Systems that send datagrams.
    Datagrams,
    /// Streams of bytes.
    Streams,
    /// Calls of an object or a service.
    Calls,
}

impl Group {
    /// All of them.
    pub const ALL: [Group; 3] = [Group::Datagrams, Group::Streams, Group::Calls];

    /// Returns the title of its table.
    pub fn title(self) -> &'static str {
        match self {
            Group::Datagrams => "Datagrams",
            Group::Streams => "Streams",
            Group::Calls => "Calls",
        }
    }

    /// Returns the system to which those of the group are compared.
    pub fn base(self) -> &'static str {
        match self {
            Group::Datagrams => RAW_UDP,
            Group::Streams | Group::Calls => RAW_TCP,
        }
    }
}

/// A system that is measured: a program that runs as server and as client.
#[derive(Clone, Debug)]
pub struct System {
    /// Its name in tables and files.
    pub name: &'static str,
    /// The table that has it.
    pub group: Group,
    /// True if it sends lost datagrams again.
    pub repeats: bool,
    /// True if it can listen at any address.
    pub roams: bool,
    program: PathBuf,
    words: Vec<String>,
    /// The address for its server; none if it gets a folder for its files.
    address: Option<&'static str>,
}

impl System {
    /// Returns the command of its server at a host, whose files go to a folder.
    pub fn server(&self, folder: &Path, host: &str) -> Command {
        let mut command = Command::new(&self.program);
        match self.address {
            Some(address) => command.args(&self.words).arg("serve").arg(address.replace(LOOPBACK, host)),
            None => command.args(&self.words).args(["--host", host, "serve"]).arg(folder),
        };
        command
    }

    /// Returns the command of its client.
    pub fn client(&self, place: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.words).args(["client", place]);
        command
    }
}

/// Returns the systems that this program runs itself: raw sockets, the transports, the call.
///
/// # Errors
/// Nobody knows where this program is.
pub fn ours(overs: &[Over], packet: usize) -> Result<Vec<System>, Failed> {
    let program = std::env::current_exe()?;
    let side = |name, group, words: &[&str]| System {
        name,
        group,
        repeats: false,
        roams: false,
        program: program.clone(),
        words: ["bench", "echo-side"].iter().chain(words).map(ToString::to_string).collect(),
        address: None,
    };
    let packet = packet.to_string();
    let raw = |name, group, raw: &str| side(name, group, &["--packet", &packet, "raw", raw]);
    let mut systems = vec![
        raw(RAW_UDP, Group::Datagrams, Raw::Udp.name()),
        raw("raw seqpacket", Group::Datagrams, Raw::Seqpacket.name()),
        System { roams: true, ..raw(RAW_TCP, Group::Streams, Raw::Tcp.name()) },
    ];
    systems.extend(overs.iter().map(|over| System {
        repeats: *over == Over::Quic,
        roams: over.has_hosts(),
        ..side(over.name(), Group::Streams, &["stream", over.name()])
    }));
    systems.push(side("call over tcp", Group::Calls, &["call"]));
    Ok(systems)
}

/// Another system.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Peer {
    /// The state machine of quinn, a Rust crate for QUIC, with one thread on each side
    QuinnProto,
    /// quinn with a tokio runtime of one thread
    Quinn,
    /// omniORB, an implementation of CORBA
    Omniorb,
    /// gRPC for C++ with its synchronous server and stub
    Grpc,
    /// Cap'n Proto for C++ over TCP
    Capnp,
}

impl Peer {
    /// All of them.
    pub const ALL: [Peer; 5] = [Peer::QuinnProto, Peer::Quinn, Peer::Omniorb, Peer::Grpc, Peer::Capnp];

    /// Returns its name in tables and files.
    pub fn name(self) -> &'static str {
        match self {
            Peer::QuinnProto => QUINN_PROTO,
            Peer::Quinn => QUINN,
            Peer::Omniorb => "omniorb",
            Peer::Grpc => "grpc",
            Peer::Capnp => "capnp",
        }
    }

    /// Returns the library, the definition of the interface and the program of a peer in C++.
    fn library(self) -> Option<(Library, [Source; 2])> {
        Some(match self {
            Peer::QuinnProto | Peer::Quinn => return None,
            Peer::Omniorb => (
                Library::Omniorb,
                [
                    ("echo.idl", include_str!("../../../../../bench/echo/echo.idl")),
                    ("omniorb.cpp", include_str!("../../../../../bench/echo/omniorb.cpp")),
                ],
            ),
            Peer::Grpc => (
                Library::Grpc,
                [
                    ("echo.proto", include_str!("../../../../../bench/echo/echo.proto")),
                    ("grpc.cpp", include_str!("../../../../../bench/echo/grpc.cpp")),
                ],
            ),
            Peer::Capnp => (
                Library::Capnp,
                [
                    ("echo.capnp", include_str!("../../../../../bench/echo/echo.capnp")),
                    ("capnp.cpp", include_str!("../../../../../bench/echo/capnp.cpp")),
                ],
            ),
        })
    }

    /// Compiles its program, in a folder that is for it alone; those in Rust in `package`. Systems
    /// over QUIC get `settings`, as `bench/echo/README.md` has them. Returns the versions, too.
    ///
    /// # Errors
    /// The reason why it does not take part.
    pub fn prepare(
        self,
        folder: &Path,
        package: &Path,
        settings: &[String],
    ) -> Result<(System, String), String> {
        let Some((library, sources)) = self.library() else {
            let made = build_rust(package, "echo-rust", ["bench/echo/rust", "--peers-folder"])?;
            let mut ask = Command::new(&made.program);
            let output = ask.args([self.name(), "version"]).output().map_err(|error| error.to_string())?;
            let version = format!("{}, by {}", String::from_utf8_lossy(&output.stdout).trim(), made.version);
            let words = [&[self.name().to_owned()], settings].concat();
            return Ok((self.system(made.program, words, "127.0.0.1:0"), version));
        };
        let Made { program, version } = library.prepare(folder, sources, &[SHARED])?;
        let address = if self == Peer::Omniorb { "giop:tcp:127.0.0.1:" } else { "127.0.0.1:0" };
        Ok((self.system(program, Vec::new(), address), version))
    }

    fn system(self, program: PathBuf, words: Vec<String>, address: &'static str) -> System {
        let repeats = matches!(self, Peer::QuinnProto | Peer::Quinn);
        let group = if repeats { Group::Datagrams } else { Group::Calls };
        // The address of omniORB is within a text that it makes.
        let roams = self != Peer::Omniorb;
        System { name: self.name(), group, repeats, roams, program, words, address: Some(address) }
    }
}

/// Returns the command of a network that harms packets, as `bench/echo/README.md` has it.
///
/// # Errors
/// Its program cannot be made.
pub fn network(package: &Path, weather: &Weather) -> Result<Command, String> {
    let made = build_rust(package, "echo-rust", ["bench/echo/rust", "--peers-folder"])?;
    let Weather { loss, repeat, reorder, delay, seed, .. } = weather;
    let mut command = Command::new(made.program);
    command.arg("net").args([loss, repeat, reorder].map(f64::to_string));
    command.arg(delay.as_micros().to_string()).arg(seed.to_string());
    Ok(command)
}
