//! Clients that are slow on purpose: each is told, and the server goes on.

use std::time::{Duration, Instant};

use bifrost_engine::{Mode, Run};
use bifrost_server::{Config, Server, program};
use bifrost_theta::{Options, Sources};
use bifrost_transport::{ConnectOptions, Stream};
use bifrost_wire::{DecodedReply, ErrorNumber, Hello, Ref, Reply, decode_reply, encode, op};

const PATIENT: Duration = Duration::from_secs(30);

/// A server on a unix socket, on TCP and over shared memory.
fn server(change: impl FnOnce(&mut Config)) -> (Server, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let mut sources = Sources::new();
    sources.add("text.theta", "remote long (n: int) returns (string) s: string := \"x\" for i: int in 1.to(n) do s := s || s end return (s) end long");
    let engine = program::load_sources(sources, &Options::default(), Run::kept(Mode::Compiled)).unwrap();
    let mut config = Config {
        listen: vec![
            format!("unix://{}/socket", folder.path().display()),
            "tcp://127.0.0.1:0".into(),
            format!("shm://{}/shm", folder.path().display()),
        ],
        anonymous_loopback: true,
        ..Config::default()
    };
    change(&mut config);
    (Server::start(engine, &config).unwrap(), folder)
}

fn connect(server: &Server, address: usize) -> Stream {
    Stream::connect(&server.addresses()[address], &ConnectOptions::default()).unwrap()
}

fn hello() -> Vec<u8> {
    let mut bytes = Vec::new();
    encode::hello(
        &mut bytes,
        &Hello { version: bifrost_wire::VERSION, digest: [0; 32], token: "", client: "slow", trace: None },
    );
    bytes
}

/// Reads to the end of the stream; the number of the error that it ends with.
fn ends_with(stream: &mut Stream) -> Option<u32> {
    let mut bytes = Vec::new();
    while stream.read(&mut bytes, 1 << 20, PATIENT).unwrap() > 0 {}
    let mut rest = &bytes[..];
    let mut last = None;
    while let DecodedReply::Reply(reply, length) = decode_reply(rest, 1 << 30).unwrap() {
        last = if let Reply::Error { number, .. } = reply { Some(number) } else { None };
        rest = &rest[length..];
    }
    last
}

const EXPIRED: Option<u32> = Some(ErrorNumber::Expired as u32);

#[test]
fn a_client_that_never_says_hello_is_shown_out() {
    let (server, _folder) = server(|c| c.hello_ms_max = 20);
    for address in 0..3 {
        assert_eq!(ends_with(&mut connect(&server, address)), EXPIRED);
        let mut half = connect(&server, address);
        half.write(&hello()[..20], PATIENT).unwrap();
        assert_eq!(ends_with(&mut half), EXPIRED);
    }
}

#[test]
fn a_command_must_come_to_its_end() {
    let (server, _folder) = server(|c| c.command_ms_max = 20);
    let mut stream = connect(&server, 0);
    let mut bytes = hello();
    encode::lookup(&mut bytes, "somebody", None);
    bytes.truncate(bytes.len() - 8);
    stream.write(&bytes, PATIENT).unwrap();
    assert_eq!(ends_with(&mut stream), EXPIRED);
}

#[test]
fn an_idle_session_ends() {
    let (server, _folder) = server(|c| {
        c.limits.insert("idle_ms_max".into(), 20);
    });
    let mut stream = connect(&server, 1);
    stream.write(&hello(), PATIENT).unwrap();
    assert_eq!(ends_with(&mut stream), EXPIRED);
}

const COUNTER: &str = "
Counter = type   add (n: int) returns (int)   end Counter
module counters exports new_counter
  C = class implements Counter
    value: int
    add (n: int) returns (int)
      value := value + n
      return (value)
    end add
  end C
  new_counter () returns (Counter) return (C{value := 0}) end new_counter
end counters
setup () root().insert(\"c\", new_counter()) end setup
";

/// Sends commands and reads the answer to their `flush`, as text.
fn ask(stream: &mut Stream, commands: &[u8]) -> String {
    stream.write(commands, PATIENT).unwrap();
    let mut bytes = Vec::new();
    let mut told = String::new();
    loop {
        stream.read(&mut bytes, 1 << 20, PATIENT).unwrap();
        while let DecodedReply::Reply(reply, length) = decode_reply(&bytes, 1 << 30).unwrap() {
            if let Reply::Flushed(flushed) = &reply {
                for outcome in flushed.outcomes() {
                    told.push_str(&format!("{outcome:?} "));
                }
                for exception in flushed.exceptions() {
                    told.push_str(&format!("{} {:?}", exception.call, exception.kind));
                }
                return told;
            }
            bytes.drain(..length);
        }
    }
}

#[test]
fn a_transaction_left_alone_is_aborted() {
    let mut sources = Sources::new();
    sources.add("counter.theta", COUNTER);
    let run = Run::kept(Mode::Compiled);
    let engine = program::load_sources(sources, &Options::default(), run).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut config =
        Config { listen: vec![format!("unix://{}/socket", folder.path().display())], ..Config::default() };
    config.limits.insert("transaction_idle_ms_max".into(), 50);
    let server = Server::start(engine, &config).unwrap();
    let numbering = server.tables().numbering();
    let add = numbering.find_method(numbering.find_type("Counter").unwrap(), "add").unwrap();
    let adding = |n: i64, commit: bool| {
        let mut bytes = Vec::new();
        encode::lookup(&mut bytes, "c", None);
        encode::call(&mut bytes, add, Ref::future(1), &[bifrost_wire::Value::Int(n).into()]);
        if commit {
            encode::plain(&mut bytes, op::COMMIT);
        }
        encode::flush(&mut bytes, [2], false);
        bytes
    };
    let mut idle = connect(&server, 0);
    idle.write(&hello(), PATIENT).unwrap();
    assert_eq!(ask(&mut idle, &adding(5, false)), "Value(Int(5)) ");
    // A transaction of somebody else meanwhile, many times as long as one may idle, but never left alone.
    let mut busy = connect(&server, 0);
    busy.write(&hello(), PATIENT).unwrap();
    let start = Instant::now();
    let mut n = 0;
    while start.elapsed() < Duration::from_millis(300) {
        n += 1;
        assert_eq!(ask(&mut busy, &adding(1, false)), format!("Value(Int({n})) "));
    }
    assert_eq!(ask(&mut busy, &adding(1, true)), format!("Value(Int({})) ", n + 1));
    // The first command behind it is told, and not run; then the session goes on.
    let told = ask(&mut idle, &adding(5, true));
    assert!(
        told.starts_with("Absent 1 Refused") && told.contains("50 is the limit (transaction_idle_ms_max)"),
        "{told}"
    );
    assert_eq!(ask(&mut idle, &adding(5, true)), format!("Value(Int({})) ", n + 6));
}

#[test]
fn a_client_that_does_not_read_is_cut_off() {
    let (server, _folder) = server(|c| c.unread_ms_max = 20);
    for address in 0..3 {
        let mut stream = connect(&server, address);
        // Megabytes of answers, none of which is read: the stream is full, and stays so.
        stream.write(&long_answers(&server), PATIENT).unwrap();
        stream.flush();
        let until = Instant::now() + PATIENT;
        let mut was_open = false;
        while !was_open || server.sessions() > 0 {
            was_open |= server.sessions() > 0;
            assert!(Instant::now() < until, "the session is still there");
            std::thread::yield_now();
        }
    }
}

/// Calls with sixteen answers of a megabyte.
fn long_answers(server: &Server) -> Vec<u8> {
    let mut bytes = hello();
    let long = server.tables().numbering().find_routine("long").unwrap();
    for _ in 0..16 {
        encode::call_routine(&mut bytes, long, &[bifrost_wire::Value::Int(20).into()]);
        encode::flush(&mut bytes, [1], false);
    }
    bytes
}

/// The only worker serves others while a client does not read, which then has missed nothing.
#[test]
fn a_client_that_reads_late_holds_up_nobody_and_misses_nothing() {
    let (server, _folder) = server(|c| c.workers = Some(1));
    for address in 0..3 {
        let mut late = connect(&server, address);
        late.write(&long_answers(&server), PATIENT).unwrap();
        late.flush();
        std::thread::sleep(Duration::from_millis(100));
        let mut other = connect(&server, address);
        other.write(&hello(), PATIENT).unwrap();
        let mut welcome = Vec::new();
        other.read(&mut welcome, 1 << 20, PATIENT).unwrap();
        let (mut bytes, mut answers) = (Vec::new(), 0);
        while answers < 16 {
            assert!(late.read(&mut bytes, 1 << 20, PATIENT).unwrap() > 0, "{answers} answers");
            while let DecodedReply::Reply(reply, length) = decode_reply(&bytes, 1 << 30).unwrap() {
                if let Reply::Flushed(flushed) = &reply {
                    let text = format!("{:?}", flushed.outcomes().next());
                    assert!(text.len() > 1 << 20, "{}", text.len());
                    answers += 1;
                }
                bytes.drain(..length);
            }
        }
    }
}

/// Clients whose stream is full do not keep a server from its end, nor busy.
#[test]
fn a_stop_passes_clients_that_do_not_read() {
    let (mut server, _folder) = server(|_| {});
    let full: Vec<Stream> = (0..3)
        .map(|address| {
            let mut stream = connect(&server, address);
            stream.write(&long_answers(&server), PATIENT).unwrap();
            stream.flush();
            stream
        })
        .collect();
    let until = Instant::now() + PATIENT;
    while server.sessions() < 3 {
        assert!(Instant::now() < until, "the sessions are not open");
        std::thread::yield_now();
    }
    std::thread::sleep(Duration::from_millis(100));
    let start = Instant::now();
    assert_eq!(server.stop(), 0);
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
    drop(full);
}

#[test]
fn there_is_no_place_for_one_too_many() {
    let (server, _folder) = server(|c| c.sessions_max = 1);
    let mut first = connect(&server, 0);
    first.write(&hello(), PATIENT).unwrap();
    let mut reply = Vec::new();
    first.read(&mut reply, 1 << 20, PATIENT).unwrap();
    let mut second = connect(&server, 1);
    second.write(&hello(), PATIENT).unwrap();
    assert_eq!(ends_with(&mut second), Some(ErrorNumber::TooManySessions as u32));
}
