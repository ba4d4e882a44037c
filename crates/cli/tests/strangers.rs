//! Strangers, by bare sockets, at real processes: they take nothing from others, and learn nothing.

mod support;

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use bifrost_wire::{ErrorNumber, VERSION, encode};
use rustix::net::{AddressFamily, SocketType};
use support::{Server, bifrost, example, kill, stderr, stdout};

/// Nothing here takes longer, on a busy machine either.
const SOON: Duration = Duration::from_secs(60);

const TCP: [&str; 3] = ["--listen", "tcp://127.0.0.1:0", "--anonymous-loopback"];

fn serve(arguments: &[&str]) -> Server {
    Server::start("database", arguments)
}

/// The port of the server's TCP address.
fn port(server: &Server) -> u16 {
    server.urls[1].rsplit(':').next().unwrap().parse().unwrap()
}

fn tcp(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port(server))).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    stream
}

fn unix(server: &Server) -> UnixStream {
    let stream = UnixStream::connect(server.folder.path().join("socket")).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    stream
}

/// Sends lines, and returns the first line that is answered.
fn line<S: Read + Write>(stream: &mut S, lines: &str) -> String {
    stream.write_all(lines.as_bytes()).unwrap();
    let mut answer = Vec::new();
    let mut byte = [0];
    while stream.read(&mut byte).unwrap_or(0) > 0 && byte[0] != b'\n' {
        answer.push(byte[0]);
    }
    String::from_utf8_lossy(&answer).into_owned()
}

fn is_welcome<S: Read + Write>(stream: &mut S) -> bool {
    line(stream, "hello 2\n").starts_with("welcome 2 bifrost")
}

/// A `hello` in the binary form.
fn hello(token: &str) -> Vec<u8> {
    let mut out = Vec::new();
    encode::hello(
        &mut out,
        &bifrost_wire::Hello { version: VERSION, digest: [0; 32], token, client: "", trace: None },
    );
    out
}

/// Reads to the end.
fn rest<S: Read>(stream: &mut S) -> Vec<u8> {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}"),
    }
    bytes
}

/// Sends a byte after each pause until the stream has ended, and returns how long that took, and
/// what came.
fn trickle(mut stream: UnixStream, byte: u8) -> (Duration, Vec<u8>) {
    let start = Instant::now();
    stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let mut came = Vec::new();
    while start.elapsed() < SOON {
        let mut some = [0; 4096];
        match stream.read(&mut some) {
            Ok(0) => return (start.elapsed(), came),
            Ok(count) => came.extend_from_slice(&some[..count]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => return (start.elapsed(), came),
        }
        let _ = stream.write(&[byte]);
    }
    panic!("the connection lives as long as bytes come");
}

/// True if the last reply of the binary form is this error.
fn ends_with_error(bytes: &[u8], number: ErrorNumber) -> bool {
    let mut rest = bytes;
    let mut last = None;
    while let Ok(bifrost_wire::DecodedReply::Reply(reply, length)) = bifrost_wire::decode_reply(rest, 1 << 20)
    {
        last = if let bifrost_wire::Reply::Error { number, .. } = reply { Some(number) } else { None };
        rest = &rest[length..];
    }
    last == Some(number as u32)
}

#[test]
fn connections_that_say_nothing_take_no_places() {
    let bounds = ["--set", "sessions_max=2", "--set", "greetings_max=8", "--set", "greetings_address_max=6"];
    let server = serve(&[&TCP[..], &bounds].concat());
    let mut silent: Vec<TcpStream> = Vec::new();
    for at in 0..100 {
        silent.push(tcp(&server));
        // Some say half of something.
        silent[at].write_all(&hello("")[..if at < 5 { 20 } else { 0 }]).unwrap();
    }
    let mut local: Vec<UnixStream> = (0..20).map(|_| unix(&server)).collect();
    let (mut first, mut second) = (tcp(&server), unix(&server));
    let told = [line(&mut first, "hello 2\n"), line(&mut second, "hello 2\n")];
    assert!(told.iter().all(|told| told.starts_with("welcome 2 ")), "{told:?}");
    let told = line(&mut tcp(&server), "hello 2\n");
    assert!(told.contains("TooManySessions") && told.contains("sessions_max"), "{told}");
    drop(second);
    while !is_welcome(&mut tcp(&server)) {}
    // Those that were there first have made way.
    for stream in &mut silent[..80] {
        assert!(ends_with_error(&rest(stream), ErrorNumber::Expired));
    }
    assert!(ends_with_error(&rest(&mut local[0]), ErrorNumber::Expired));
    // The server still ends in order, with the others there.
    assert_eq!(server.end("TERM").0, Some(0));
}

#[test]
fn an_address_has_a_rate_of_connections() {
    let server = serve(&[&TCP[..], &["--set", "connections_per_second_max=2"]].concat());
    let welcome = |_| usize::from(is_welcome(&mut tcp(&server)));
    let start = Instant::now();
    let came: usize = (0..60).map(welcome).sum();
    let most = 10 + 2 * (start.elapsed().as_secs() as usize + 1);
    assert!((10..=most).contains(&came), "{came} of 60");
    // Another address, and this machine's socket, have their own.
    assert!(is_welcome(&mut from([127, 0, 0, 2], port(&server))));
    assert!((0..60).all(|_| is_welcome(&mut unix(&server))));
}

/// A connection that comes from another address of this machine.
fn from(address: [u8; 4], port: u16) -> TcpStream {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&socket, &SocketAddrV4::new(Ipv4Addr::from(address), 0)).unwrap();
    rustix::net::connect(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port)).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(SOON)).unwrap();
    stream
}

#[test]
fn wrong_tokens_slow_their_address() {
    let server =
        serve(&["--listen", "tcp://127.0.0.1:0", "--token", "s3cret", "--set", "wrong_token_ms=100"]);
    let start = Instant::now();
    // A client that asks whether there is a token has shown none.
    for _ in 0..20 {
        assert!(line(&mut tcp(&server), "hello 2\n").contains("BadToken"));
    }
    let unslowed = start.elapsed();
    let start = Instant::now();
    for _ in 0..5 {
        assert!(line(&mut tcp(&server), "hello 2 token \"guess\"\n").contains("BadToken"));
    }
    assert!(start.elapsed() >= Duration::from_millis(800), "{:?} after {unslowed:?}", start.elapsed());
    // Many at once are not looked at together: those whose turn would come too late are told so.
    let mut many: Vec<TcpStream> = (0..30).map(|_| tcp(&server)).collect();
    for stream in &mut many {
        stream.write_all(b"hello 2 token \"guess\"\n").unwrap();
    }
    let mut other = from([127, 0, 0, 3], port(&server));
    assert!(line(&mut other, "hello 2 token s3cret\n").starts_with("welcome"));
    let told: Vec<String> = many.iter_mut().map(|stream| line(stream, "")).collect();
    assert!(told.iter().all(|told| told.contains("BadToken")), "{told:?}");
    let late = told.iter().filter(|told| told.contains("the next is checked in")).count();
    assert!(late >= 10, "{told:?}");
    // The right one waits for its turn as well, and is right.
    let end = Instant::now() + SOON;
    while !line(&mut tcp(&server), "hello 2 token s3cret\n").starts_with("welcome") {
        assert!(Instant::now() < end);
    }
}

#[test]
fn slow_bytes_renew_no_time() {
    let times = ["--set", "limits.idle_ms_max=600", "--set", "command_ms_max=300"];
    let server = serve(&times);
    let begin = |commands: &[u8]| {
        let mut stream = unix(&server);
        stream.write_all(&[&hello(""), commands].concat()).unwrap();
        stream
    };
    // The begin of a command that never comes to its end, also in an open structure.
    let mut lookup = Vec::new();
    encode::lookup(&mut lookup, &"x".repeat(100_000), None);
    lookup.truncate(32);
    let mut open = Vec::new();
    encode::plain(&mut open, bifrost_wire::op::WHILE);
    for commands in [&lookup[..], &[&open[..], &lookup].concat()] {
        let (took, came) = trickle(begin(commands), b'x');
        assert!(took < SOON / 2, "{took:?}");
        assert!(ends_with_error(&came, ErrorNumber::Expired), "{came:?}");
    }
    // Empty lines are no commands.
    let mut text = unix(&server);
    assert!(is_welcome(&mut text));
    let (_, came) = trickle(text, b'\n');
    assert!(String::from_utf8_lossy(&came).contains("Expired"));
}

#[test]
fn slow_bytes_do_not_renew_a_transaction() {
    let server = serve(&["--set", "limits.transaction_idle_ms_max=300", "--set", "command_ms_max=60000"]);
    let mut stream = unix(&server);
    assert!(is_welcome(&mut stream));
    stream.write_all(b"$db := lookup database: DataBase\n? $db.fetch(\"alice\")\n").unwrap();
    while !line(&mut stream, "").starts_with("ok") {}
    let start = Instant::now();
    stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    stream.write_all(b"#").unwrap();
    while start.elapsed() < Duration::from_millis(900) {
        assert!(stream.read(&mut [0]).is_err());
        stream.write_all(b"x").unwrap();
    }
    stream.set_read_timeout(Some(SOON)).unwrap();
    stream.write_all(b"\n? $db.fetch(\"alice\")\nbye\n").unwrap();
    let told = String::from_utf8(rest(&mut stream)).unwrap();
    assert!(told.contains("TransactionExpired") || told.contains("transaction_idle_ms_max"), "{told}");
}

/// Clock ticks that a process has run.
fn ticks(process: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let words: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    words[11].parse::<u64>().unwrap() + words[12].parse::<u64>().unwrap()
}

#[test]
fn without_descriptors_a_server_waits() {
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 48; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_bifrost")]);
    command
        .env_remove("BIFROST_URL")
        .env_remove("BIFROST_LOG")
        .env_remove("BIFROST_TOKEN")
        .stdin(Stdio::null());
    let mut server = Server::spawn(command, &example("database"), &[]);
    let mut said = BufReader::new(server.child.stderr.take().unwrap());
    let mut log = String::new();
    let silent: Vec<UnixStream> = (0..100).map(|_| unix(&server)).collect();
    while !log.contains("accept.waits") {
        assert!(said.read_line(&mut log).unwrap() > 0, "{log}");
    }
    let warned = log.lines().find(|line| line.contains("limits.low")).expect("a warning at the start");
    for name in ["48 open files", "sessions_max = 1000", "greetings_max = 1000"] {
        assert!(warned.contains(name), "{warned}");
    }
    let (before, start) = (ticks(server.child.id()), Instant::now());
    let mut waiting = unix(&server);
    waiting.set_read_timeout(Some(Duration::from_millis(1000))).unwrap();
    assert!(waiting.read(&mut [0]).is_err());
    // At most a tenth of a core, of which there are a hundred ticks a second.
    let ran = ticks(server.child.id()) - before;
    assert!(ran <= start.elapsed().as_millis() as u64 / 100 + 2, "{ran} ticks");
    drop(silent);
    waiting.set_read_timeout(Some(SOON)).unwrap();
    assert!(is_welcome(&mut waiting) && is_welcome(&mut unix(&server)));
    kill(&server.child, "TERM");
    said.read_to_string(&mut log).unwrap();
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
    assert_eq!(log.matches("accept.waits").count(), 1, "{log}");
}

#[test]
fn a_fifo_holds_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("files.theta");
    let text = "import std.files
remote peek (name: string) returns (int) signals (not_found)
  b: bytes := read_file(name) resignal not_found
  return (b.length())
end peek
remote poke (name: string) returns (string)
  begin write_file(name, read_file(\"files.theta\"))
  end except
    when not_found: return (\"no source\")
    when not_possible (why: string): return (\"not possible: \" || why)
  end
  return (\"done\")
end poke
";
    std::fs::write(&program, text).unwrap();
    assert!(Command::new("mkfifo").arg(folder.path().join("fifo")).status().unwrap().success());
    let allowed = folder.path().to_str().unwrap();
    let server = Server::serve(&program, &["--allow-files", allowed]);
    let mut client = unix(&server);
    client.write_all(b"hello 2\n? peek(\"fifo\")\n? peek(\"files.theta\")\n? poke(\"fifo\")\n").unwrap();
    client.write_all(b"? poke(\"copy\")\n? peek(\"copy\")\nbye\n").unwrap();
    let told = String::from_utf8(rest(&mut client)).unwrap();
    assert!(told.contains("not_found") && told.contains("not possible") && told.contains("done"), "{told}");
    assert_eq!(told.matches(&format!("= {}", text.len())).count(), 2, "{told}");
    assert_eq!(server.end("TERM").0, Some(0));
}

#[test]
fn metrics_do_not_wait_for_the_slow() {
    let server = serve(&["--metrics", "unix://FOLDER/metrics"]);
    let connect = || UnixStream::connect(server.folder.path().join("metrics")).unwrap();
    let start = Instant::now();
    let slow: Vec<UnixStream> = (0..40).map(|_| connect()).collect();
    let mut stream = connect();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("bifrost_greeting_connections 0"), "{answer}");
    // Each slow one may take two seconds.
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    assert_eq!(server.end("TERM").0, Some(0));
    drop(slow);
}

/// An actor that answers only when somebody else says so.
#[test]
fn a_half_closed_socket_cancels_no_request() {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guests/guests.theta");
    let server = Server::serve(&program, &TCP);
    let asks = "hello 2\n$c := lookup counter: Counter\n? $c.never()\n";
    let mut waiting = (unix(&server), tcp(&server));
    waiting.0.write_all(asks.as_bytes()).unwrap();
    waiting.0.shutdown(std::net::Shutdown::Write).unwrap();
    waiting.1.write_all(asks.as_bytes()).unwrap();
    waiting.1.shutdown(std::net::Shutdown::Write).unwrap();
    let mut other = unix(&server);
    assert!(is_welcome(&mut other));
    line(&mut other, "$c := lookup counter: Counter\nflush\n");
    let end = Instant::now() + SOON;
    let mut waiters = BufReader::new(other);
    loop {
        let mut said = String::new();
        waiters.get_mut().write_all(b"? $c.waiters()\n").unwrap();
        while !said.ends_with("ok 1 calls\n") {
            assert!(waiters.read_line(&mut said).unwrap() > 0, "{said}");
        }
        if said.contains("= 2\n") {
            break;
        }
        assert!(Instant::now() < end, "{said}");
    }
    waiters.get_mut().write_all(b"$c.release(7)\nflush\n").unwrap();
    for told in [rest(&mut waiting.0), rest(&mut waiting.1)] {
        let told = String::from_utf8(told).unwrap();
        assert!(told.contains("= 7\n"), "{told}");
    }
}

#[test]
fn a_hang_up_of_the_terminal_does_not_end_the_server() {
    let mut server = serve(&[]);
    // Nobody reads what it says any more.
    drop((server.child.stderr.take(), server.child.stdout.take()));
    for _ in 0..3 {
        kill(&server.child, "HUP");
        kill(&server.child, "USR1");
        assert!(is_welcome(&mut unix(&server)));
    }
    kill(&server.child, "TERM");
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
}

/// `bifrost shell` with a token in its environment.
fn shell(arguments: &[&str]) -> Command {
    let mut command = bifrost();
    command.arg("shell").args(arguments).env("BIFROST_TOKEN", "s3cret");
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
fn a_default_folder_of_somebody_else_is_refused_by_clients() {
    let runtime = tempfile::tempdir().unwrap();
    let folder = runtime.path().join("bifrost");
    std::fs::create_dir(&folder).unwrap();
    let listener = UnixListener::bind(folder.join("socket")).unwrap();
    let _shm = UnixListener::bind(folder.join("shm")).unwrap();
    listener.set_nonblocking(true).unwrap();
    // Whoever has made it can let everybody in.
    std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o777)).unwrap();
    let url = format!("unix://{}/socket", folder.display());
    for arguments in [&[][..], &[&url[..]]] {
        let output = shell(arguments).env("XDG_RUNTIME_DIR", runtime.path()).output().unwrap();
        assert!(stderr(&output).contains("is not private"), "{}", stderr(&output));
        assert_eq!(output.status.code(), Some(3));
    }
    assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
}

/// The bytes of a client up to its first wait, answered by `BadToken`.
fn ask_for_token<S: Read + Write>(stream: &mut S) -> Vec<u8> {
    let mut said = vec![0; 4096];
    let count = stream.read(&mut said).unwrap();
    said.truncate(count);
    let mut out = Vec::new();
    encode::error(&mut out, ErrorNumber::BadToken, 1, "the token is missing or wrong");
    stream.write_all(&out).unwrap();
    said
}

#[test]
fn a_token_is_sent_only_where_it_is_asked_for() {
    let holds_token = |said: &[u8]| said.windows(6).any(|bytes| bytes == b"s3cret");
    // A socket's file says who comes in: nobody there is told the token, whether he asks or not.
    let folder = tempfile::tempdir().unwrap();
    let listener = UnixListener::bind(folder.path().join("socket")).unwrap();
    let child = shell(&[&format!("unix://{}/socket", folder.path().display())]).spawn().unwrap();
    assert!(!holds_token(&ask_for_token(&mut listener.accept().unwrap().0)));
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err());
    // Over TCP it is sent when it is asked for, and not before.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("tcp://{}", listener.local_addr().unwrap());
    let child = shell(&[&url]).spawn().unwrap();
    assert!(!holds_token(&ask_for_token(&mut listener.accept().unwrap().0)));
    assert!(holds_token(&ask_for_token(&mut listener.accept().unwrap().0)));
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(4));
    // A server that lets everybody in is not told it.
    let server = serve(&TCP);
    let output = server.shell(&server.urls[1], &["--token", "s3cret"], "bye\n");
    assert_eq!(output.status.code(), Some(0), "{}{}", stdout(&output), stderr(&output));
}
