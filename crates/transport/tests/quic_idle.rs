//! Thousands of sessions over QUIC that do nothing: their memory on each side, and their time. The
//! server is this test program again, running `child` only.

mod common;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use bifrost_transport::{Address, ConnectOptions, ListenOptions, Listener, QuicLimits, Stream};
use common::quic::{SOON, say};
use common::{address_of, read_exact, self_signed};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Sessions that share connections: ten of them, at 1,024 streams each.
const SESSIONS: usize = 10_000;
/// Sessions with a connection of their own each.
const ALONE: usize = 500;
/// The descriptors of a process with all of them, and of its test program.
const DESCRIPTORS: u64 = (SESSIONS + ALONE + 500) as u64;
/// The time in which nothing happens.
const IDLE: Duration = Duration::from_secs(5);
/// Most time of a core that a process takes meanwhile: a tenth of it. At most 10 ms were
/// measured.
const IDLE_TIME_MAX: Duration = Duration::from_millis(500);
/// Most bytes of a side for an idle session that shares its connection. 2,000 were measured.
const SHARED_BYTES_MAX: usize = 4 << 10;
/// The same for one with its own connection. 26,000 were measured.
const ALONE_BYTES_MAX: usize = 64 << 10;

/// The means that a process has used.
#[derive(Clone, Copy, Debug)]
struct Used {
    resident: usize,
    time: Duration,
}

impl Used {
    fn now() -> Used {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
        let pages: usize = statm.split(' ').nth(1).unwrap().parse().unwrap();
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
        let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
        // The times of user and system, in ticks.
        let ticks: u64 = [11, 12].map(|at: usize| fields[at].parse::<u64>().unwrap()).iter().sum();
        let time = Duration::from_secs(ticks) / rustix::param::clock_ticks_per_second() as u32;
        Used { resident: pages * rustix::param::page_size(), time }
    }

    fn bytes_since(&self, before: &Used, sessions: usize) -> usize {
        self.resident.saturating_sub(before.resident) / sessions
    }
}

fn raise_descriptors() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_some_and(|current| current < DESCRIPTORS) {
        let most = maximum.map(|maximum| maximum.max(DESCRIPTORS));
        setrlimit(Resource::Nofile, Rlimit { current: Some(DESCRIPTORS), maximum: most })
            .unwrap_or_else(|error| panic!("{DESCRIPTORS} descriptors (`ulimit -Hn`): {error}"));
    }
}

/// A server that does what the lines of its input say, if this is the other process.
#[test]
fn child() {
    if std::env::var_os("BIFROST_IDLE_SERVER").is_none() {
        return;
    }
    raise_descriptors();
    let folder = tempfile::tempdir().unwrap();
    let quic = QuicLimits { handshakes_per_second: 100_000, ..QuicLimits::default() };
    let options = ListenOptions { quic, ..self_signed(folder.path()) };
    let any = Address::Quic { host: "0.0.0.0".to_owned(), port: 0, pin: None };
    let listener = Listener::bind(&any, &options).unwrap();
    println!("\nSAY {}", address_of(&listener, &options));
    let mut sessions: Vec<Stream> = Vec::new();
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        if let Some(count) = line.strip_prefix("accept ") {
            for _ in 0..count.parse::<usize>().unwrap() {
                let mut session = listener.accept().unwrap().unwrap();
                let byte = read_exact(&mut session, 1);
                say(&mut session, &byte);
                sessions.push(session);
            }
        } else if line == "answer" {
            for session in &mut sessions {
                let byte = read_exact(session, 1);
                say(session, &byte);
            }
        }
        let Used { resident, time } = Used::now();
        println!("\nSAY {resident} {}", time.as_millis());
    }
}

/// The process of the server, killed when dropped.
struct Server {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    address: Address,
}

impl Server {
    fn start() -> Server {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--nocapture", "--test-threads=1"])
            .env("BIFROST_IDLE_SERVER", "yes")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        let address = Address::Tcp { host: String::new(), port: 0 };
        let mut server = Server { process, input, output: BufReader::new(output), address };
        server.address = server.said().parse().unwrap();
        server
    }

    fn said(&mut self) -> String {
        let mut line = String::new();
        while self.output.read_line(&mut line).unwrap() > 0 {
            if let Some(said) = line.trim_end().strip_prefix("SAY ") {
                return said.to_owned();
            }
            line.clear();
        }
        panic!("the server has ended");
    }

    fn tell(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
        self.input.flush().unwrap();
    }

    /// The means that it has used, once it has done all that it was told.
    fn used(&mut self) -> Used {
        let said = self.said();
        let (resident, time) = said.split_once(' ').unwrap();
        Used { resident: resident.parse().unwrap(), time: Duration::from_millis(time.parse().unwrap()) }
    }

    /// Opens sessions, one at each address.
    fn open(&mut self, addresses: impl ExactSizeIterator<Item = Address>) -> (Vec<Stream>, Used) {
        self.tell(&format!("accept {}", addresses.len()));
        let options = ConnectOptions { timeout: SOON, ..ConnectOptions::default() };
        let open = |address: Address| {
            let mut client = Stream::connect(&address, &options).unwrap();
            exchange(&mut client);
            client
        };
        (addresses.map(open).collect(), self.used())
    }

    /// The address with another host.
    fn at(&self, host: String) -> Address {
        match &self.address {
            Address::Quic { port, pin, .. } => Address::Quic { host, port: *port, pin: *pin },
            other => panic!("{other}"),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn exchange(client: &mut Stream) {
    say(client, b"x");
    assert_eq!(read_exact(client, 1), b"x");
}

/// Waits, and returns the times that the client and the server have taken.
fn rest(server: &mut Server) -> [Duration; 2] {
    server.tell("used");
    let before = [Used::now(), server.used()];
    std::thread::sleep(IDLE);
    server.tell("used");
    let after = [Used::now(), server.used()];
    [0, 1].map(|side| after[side].time - before[side].time)
}

#[test]
fn ten_thousand_idle_sessions_cost_little() {
    raise_descriptors();
    let mut server = Server::start();
    let near = server.at("127.0.0.1".to_owned());
    // A session first, so that what all have in common is there.
    let (mut clients, server_before) = server.open([near.clone()].into_iter());
    let before = Used::now();
    let (more, server_after) = server.open(vec![near; SESSIONS - 1].into_iter());
    clients.extend(more);
    let after = Used::now();
    let shared =
        [after.bytes_since(&before, SESSIONS - 1), server_after.bytes_since(&server_before, SESSIONS - 1)];
    println!("{SESSIONS} sessions over shared connections: {shared:?} bytes each, client and server");
    let took = rest(&mut server);
    println!("{took:?} of {IDLE:?} while idle");
    assert!(took.iter().all(|time| *time < IDLE_TIME_MAX), "{took:?}");
    assert!(shared.iter().all(|bytes| *bytes < SHARED_BYTES_MAX), "{shared:?}");
    // Each is still there.
    server.tell("answer");
    clients.iter_mut().for_each(exchange);
    server.used();
    // Every address of a server has connections of its own.
    server.tell("used");
    let (server_before, before) = (server.used(), Used::now());
    let hosts: Vec<Address> =
        (0..ALONE).map(|host| server.at(format!("127.0.{}.{}", 1 + host / 250, 1 + host % 250))).collect();
    let (alone, server_after) = server.open(hosts.into_iter());
    let after = Used::now();
    let each = [after.bytes_since(&before, ALONE), server_after.bytes_since(&server_before, ALONE)];
    println!("{ALONE} sessions with connections of their own: {each:?} bytes each");
    assert!(each.iter().all(|bytes| *bytes < ALONE_BYTES_MAX), "{each:?}");
    let took = rest(&mut server);
    println!("{took:?} of {IDLE:?} while idle");
    assert!(took.iter().all(|time| *time < IDLE_TIME_MAX), "{took:?}");
    clients.extend(alone);
    server.tell("answer");
    clients.iter_mut().for_each(exchange);
    server.used();
}
