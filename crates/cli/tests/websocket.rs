//! Servers over websockets and HTTP, as processes: browsers and other clients, pages, strangers.

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use support::{Server, bifrost, example, examples, feed, kill, stderr, stdout};

/// Nothing here takes longer, on a busy machine either.
const SOON: Duration = Duration::from_secs(60);

const ASK: &str = "$db := lookup database: DataBase\n? $db.fetch(\"bob\").visits()\nbye\n";

/// A request for a websocket without origin and subprotocol.
const REQUEST: &str = "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
    Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
const PROTOCOL: &str = "Sec-WebSocket-Protocol: bifrost.1\r\n";

fn serve(more: &[&str]) -> Server {
    let listen = ["--listen", "ws://127.0.0.1:0", "--anonymous-loopback"];
    Server::start("database", &[&listen[..], more].concat())
}

fn port(url: &str) -> u16 {
    let place = url.split('#').next().unwrap().split("://").nth(1).unwrap();
    place.split('/').next().unwrap().rsplit(':').next().unwrap().parse().unwrap()
}

fn connect(url: &str) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port(url))).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    stream
}

/// The answer to a request, all of it.
fn answer(url: &str, request: &str) -> String {
    let mut stream = connect(url);
    stream.write_all(request.as_bytes()).unwrap();
    stream.write_all(b"\r\n").unwrap();
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

fn status(url: &str, request: &str) -> u16 {
    let answer = answer(url, request);
    answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or_else(|| panic!("{answer}"))
}

/// A bare websocket that is open.
fn opened(url: &str) -> BufReader<TcpStream> {
    let mut stream = connect(url);
    stream.write_all(format!("{REQUEST}{PROTOCOL}\r\n").as_bytes()).unwrap();
    let mut stream = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(stream.read_line(&mut head).unwrap() > 0, "{head}");
    }
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    assert!(head.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{head}");
    assert!(head.to_lowercase().contains("sec-websocket-protocol: bifrost.1\r\n"), "{head}");
    stream
}

/// Sends a message whose mask is 0.
fn send(stream: &mut BufReader<TcpStream>, bytes: &[u8]) {
    assert!(bytes.len() < 126);
    let frame = [&[0x82, 0x80 | bytes.len() as u8, 0, 0, 0, 0], bytes].concat();
    stream.get_mut().write_all(&frame).unwrap();
}

/// The next frame: its first byte and its content.
fn frame(stream: &mut BufReader<TcpStream>) -> (u8, Vec<u8>) {
    let mut head = [0; 2];
    stream.read_exact(&mut head).unwrap();
    let mut length = usize::from(head[1]);
    if length == 126 {
        let mut long = [0; 2];
        stream.read_exact(&mut long).unwrap();
        length = u16::from_be_bytes(long).into();
    }
    let mut content = vec![0; length];
    stream.read_exact(&mut content).unwrap();
    (head[0], content)
}

#[test]
fn clients_use_websockets_as_any_stream() {
    let server = serve(&["--listen", "wss://127.0.0.1:0/objects"]);
    let (plain, secured) = (server.urls[1].clone(), server.urls[2].clone());
    assert!(secured.contains("/objects#sha256-"), "{secured}");
    for url in [&plain, &secured] {
        let output = server.shell(url, &[], ASK);
        assert_eq!((stdout(&output), stderr(&output)), ("@3 = 0\nok 2 calls\nbye\n", ""), "{url}");
        let folder = tempfile::tempdir().unwrap();
        let made = bifrost().args(["veneer", "--from", url, "-o"]).arg(folder.path()).output().unwrap();
        assert!(made.status.success(), "{}", stderr(&made));
        let stubs = std::fs::read_to_string(folder.path().join("bifrost_stubs.rs")).unwrap();
        assert!(stubs.contains("DataBase"));
    }
    // A wrong path, a wrong pin, no authority, a server of another kind.
    let refused = |url: &str, said: &str| {
        let output = server.shell(url, &[], ASK);
        assert!(stderr(&output).contains(said), "{url}: {}", stderr(&output));
        assert_eq!(output.status.code(), Some(3));
    };
    refused(&format!("{plain}/elsewhere"), "status 404");
    let place = secured.split('#').next().unwrap();
    refused(&format!("{place}#sha256-AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"), "the server has the pin");
    refused(place, "pin is sha256-");
    refused(&format!("ws://127.0.0.1:{}", port(&secured)), "this is not a web server");
    let mut bye = opened(&plain);
    send(&mut bye, b"hello 2\nbye\n");
    assert!(String::from_utf8(frame(&mut bye).1).unwrap().starts_with("welcome 2 bifrost"));
    assert_eq!(server.end("TERM").0, Some(0));
}

#[test]
fn a_bare_websocket_is_a_stream_and_is_closed_politely() {
    let server = serve(&[]);
    let mut client = opened(&server.urls[1]);
    for byte in b"hello 2\n" {
        send(&mut client, &[*byte]);
    }
    let (kind, welcome) = frame(&mut client);
    assert!(kind == 0x82 && welcome.starts_with(b"welcome 2 bifrost"), "{welcome:?}");
    client.get_mut().write_all(&[0x89, 0x82, 0, 0, 0, 0, b'h', b'i']).unwrap();
    assert_eq!(frame(&mut client), (0x8a, b"hi".to_vec()));
    send(&mut client, b"bye\n");
    assert_eq!(frame(&mut client), (0x82, b"bye\n".to_vec()));
    assert_eq!(frame(&mut client), (0x88, 1000u16.to_be_bytes().to_vec()));
    // A session that the server ends.
    let mut client = opened(&server.urls[1]);
    send(&mut client, b"hello 2\n");
    frame(&mut client);
    kill(&server.child, "TERM");
    let (kind, told) = frame(&mut client);
    assert!(kind == 0x82 && String::from_utf8(told.clone()).unwrap().contains("shutting down"), "{told:?}");
    assert_eq!(frame(&mut client).0, 0x88);
}

#[test]
fn requests_that_open_no_websocket_are_answered() {
    let server = Server::serve_logged(
        &example("database"),
        &["--listen", "ws://127.0.0.1:0", "--anonymous-loopback", "--origin", "https://app.example"],
    );
    let url = server.urls[1].clone();
    let origin = |origin: &str| format!("{REQUEST}{PROTOCOL}Origin: {origin}\r\n");
    for wrong in ["http://evil.example", "null", "http://app.example", "https://app.example.evil.example"] {
        assert_eq!(status(&url, &origin(wrong)), 403, "{wrong}");
    }
    let two = format!("{}Origin: https://app.example\r\n", origin("https://app.example"));
    assert_eq!(status(&url, &two), 403);
    let told = answer(&url, &origin("http://evil.example"));
    assert!(told.contains("name it in the setting `websocket.origins`"), "{told}");
    assert_eq!(status(&url, REQUEST), 400);
    assert_eq!(status(&url, &format!("{REQUEST}Sec-WebSocket-Protocol: mqtt, bifrost.10\r\n")), 400);
    let asks = |from: &str, to: &str| status(&url, &format!("{}{PROTOCOL}", REQUEST.replace(from, to)));
    assert_eq!(asks("Version: 13", "Version: 8"), 400);
    assert_eq!(asks("dGhlIHNhbXBsZSBub25jZQ==", "short"), 400);
    assert_eq!(asks("Connection: Upgrade\r\n", ""), 400);
    assert_eq!(asks("GET", "POST"), 400);
    assert_eq!(asks("HTTP/1.1", "HTTP/1.0"), 400);
    let close = "Connection: close\r\n";
    assert_eq!(status(&url, &format!("GET / HTTP/1.1\r\n{close}")), 426);
    assert_eq!(status(&url, &format!("GET /objects HTTP/1.1\r\n{close}")), 404);
    assert_eq!(status(&url, &format!("GET /metrics HTTP/1.1\r\n{close}")), 404);
    assert_eq!(status(&url, &format!("DELETE /healthz HTTP/1.1\r\n{close}")), 405);
    assert_eq!(status(&url, "no request\r\n"), 400);
    assert_eq!(status(&url, &format!("GET / HTTP/1.1\r\nX: {}\r\n", "x".repeat(17 << 10))), 431);
    assert_eq!(status(&url, &format!("GET / HTTP/1.1\r\n{}", "X: y\r\n".repeat(200))), 431);
    let mut client = connect(&url);
    let right = format!("{}\r\n", origin("https://app.example"));
    client.write_all(right.as_bytes()).unwrap();
    let mut first = [0; 12];
    client.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"HTTP/1.1 101");
    let (code, log) = server.end("TERM");
    assert_eq!(code, Some(0));
    assert!(log.contains("websocket.refused") && log.contains("origin=http://evil.example"), "{log}");
    // Settings that are none.
    for (origin, said) in [("app.example", "`app.example` is not an origin"), ("https://*", "`https://*`")] {
        let output = bifrost().args(["serve", "--origin", origin, "x.theta"]).output().unwrap();
        assert!(stderr(&output).contains(said), "{}", stderr(&output));
        assert_eq!(output.status.code(), Some(2));
    }
    let output = bifrost().args(["serve", "--listen", "ws://0.0.0.0:0", "x.theta"]).output().unwrap();
    assert!(stderr(&output).contains("listen on `wss://` instead"), "{}", stderr(&output));
    let output = bifrost().args(["capsule", "--listen", "ws://127.0.0.1:0", "x.theta"]).output().unwrap();
    assert!(stderr(&output).contains("does not listen for websockets"), "{}", stderr(&output));
}

#[test]
fn a_token_is_asked_for_in_hello() {
    let listen = ["--listen", "ws://127.0.0.1:0", "--token", "open sesame"];
    let server = Server::serve_logged(&example("database"), &listen);
    let ask = |hello: &[u8]| {
        let mut client = opened(&server.urls[1]);
        send(&mut client, hello);
        String::from_utf8(frame(&mut client).1).unwrap()
    };
    assert!(ask(b"hello 2\n").contains("BadToken"));
    assert!(ask(b"hello 2 token \"open says me\"\n").contains("BadToken"));
    assert!(ask(b"hello 2 token \"open sesame\"\n").starts_with("welcome 2"));
    let (_, log) = server.end("TERM");
    assert!(log.contains("login.failed") && log.contains("peer=\"ws 127.0.0.1:"), "{log}");
    assert!(!log.contains("open sesame") && !log.contains("says me"), "{log}");
}

#[test]
fn pages_tell_the_state_of_a_server() {
    let server = serve(&["--listen", "ws://127.0.0.1:0/objects", "--metrics", "tcp://127.0.0.1:0"]);
    let url = server.urls[2].clone();
    // Two requests over one connection, the second of which comes in the same packet.
    let twice = "GET /healthz HTTP/1.1\r\n\r\nGET /readyz HTTP/1.1\r\nConnection: close\r\n";
    let told = answer(&url, twice);
    assert_eq!(told.matches("HTTP/1.1 200 OK").count(), 2, "{told}");
    assert!(told.contains("\r\n\r\nok\n") && told.ends_with("\r\n\r\nready\n"), "{told}");
    let head = answer(&url, "HEAD /healthz HTTP/1.1\r\nConnection: close\r\n");
    assert!(head.contains("Content-Length: 3\r\n") && head.ends_with("\r\n\r\n"), "{head}");
    // The requests of a connection are bounded.
    let mut many = connect(&url);
    let many_requests = "GET /healthz HTTP/1.1\r\n\r\n".repeat(150);
    let _ = many.write_all(many_requests.as_bytes());
    many.shutdown(Shutdown::Write).unwrap();
    let mut answers = String::new();
    let _ = many.read_to_string(&mut answers);
    let count = answers.matches("HTTP/1.1 200 OK").count();
    assert_eq!(count, 100);
    assert_eq!(server.end("TERM").0, Some(0));
}

#[test]
fn a_server_that_stops_is_not_ready() {
    let mut server = serve(&["--metrics", "unix://FOLDER/metrics"]);
    let folder = server.folder.path().to_owned();
    let ask = |path: &str| {
        let mut stream = UnixStream::connect(folder.join("metrics")).ok()?;
        let request = format!("GET {path} HTTP/1.1\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some(answer)
    };
    assert!(ask("/readyz").unwrap().contains("200 OK"));
    // A client that reads nothing holds up the stop for a while.
    let mut deaf = UnixStream::connect(folder.join("socket")).unwrap();
    deaf.set_nonblocking(true).unwrap();
    deaf.write_all(b"hello 2\n").unwrap();
    let (lines, start) = (b"describe\nhelp\n".repeat(100), Instant::now());
    while !ask("/metrics").unwrap().contains("bifrost_parked_sessions{reason=\"output\"} 1\n") {
        let _ = deaf.write(&lines);
        assert!(start.elapsed() < SOON);
    }
    kill(&server.child, "TERM");
    let stopping = loop {
        match ask("/readyz") {
            Some(answer) if answer.contains("200 OK") => assert!(start.elapsed() < SOON),
            other => break other.expect("an answer while it stops"),
        }
    };
    assert!(stopping.starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{stopping}");
    assert!(stopping.ends_with("the server is stopping\n"), "{stopping}");
    assert!(ask("/healthz").is_none_or(|answer| answer.contains("200 OK")));
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
    assert!(ask("/readyz").is_none());
}

#[test]
fn metrics_are_told_over_https() {
    let state = tempfile::tempdir().unwrap();
    let mut command = bifrost();
    command.env("XDG_STATE_HOME", state.path());
    let metrics = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let server = Server::spawn(command, &example("database"), &["--metrics", &format!("tls://{metrics}")]);
    let client = |request: &str| {
        let mut client = Command::new("openssl");
        client.args(["s_client", "-quiet", "-connect", &metrics.to_string(), "-alpn", "http/1.1"]);
        client.arg("-CAfile").arg(state.path().join("bifrost/self-made.pem")).arg("-verify_return_error");
        stdout(&feed(client, request)).to_owned()
    };
    let told = client("GET /metrics HTTP/1.1\r\nConnection: close\r\n\r\n");
    assert!(told.contains("HTTP/1.1 200 OK") && told.contains("bifrost_sessions 0"), "{told}");
    let (_, said) = server.end("TERM");
    assert!(said.contains(&format!("metrics on tls://{metrics}")), "{said}");
}

#[test]
fn slow_and_silent_strangers_go() {
    let server = serve(&["--set", "hello_ms_max=1000", "--listen", "wss://127.0.0.1:0"]);
    let (url, secured) = (server.urls[1].clone(), server.urls[2].clone());
    let start = Instant::now();
    // Half a handshake of TLS; half a request; one byte each 100 ms; a request and half a frame; a frame byte by byte.
    let mut shaking = connect(&secured);
    shaking.write_all(b"\x16\x03\x01\x02\0\x01").unwrap();
    let mut half = connect(&url);
    half.write_all(b"GET / HTTP/1.1\r\nHost: ").unwrap();
    let mut open = opened(&url);
    open.get_mut().write_all(&[0x82]).unwrap();
    let mut trickle = connect(&url);
    let mut frames = opened(&url);
    let bytes = format!("{REQUEST}{PROTOCOL}");
    for byte in bytes.bytes() {
        let refused = trickle.write_all(&[byte]).is_err();
        // Pings renew no time.
        let _ = frames.get_mut().write_all(&[0x89, 0x80, 0, 0, 0, 0]);
        if refused || start.elapsed() > Duration::from_secs(4) {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let mut rest = Vec::new();
    for stream in [&mut shaking, &mut half, &mut trickle, frames.get_mut(), open.get_mut()] {
        rest.clear();
        let _ = stream.read_to_end(&mut rest);
    }
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    // Those that had opened a websocket are told in it.
    assert!(String::from_utf8_lossy(&rest).contains("no `hello` has arrived within 1000 ms"));
    let output = server.shell(&url, &[], ASK);
    assert!(stdout(&output).starts_with("@3 = 0"), "{}", stderr(&output));
    assert_eq!(server.end("TERM").0, Some(0));
}

/// A thousand connections a second, for seconds, of which none says anything sensible.
#[test]
fn a_thousand_connections_a_second_keep_nobody_out() {
    let rate = ["--set", "connections_per_second_max=100000"];
    let server = serve(&[&rate[..], &["--listen", "tcp://127.0.0.1:0"]].concat());
    let (web, tcp) = (server.urls[1].clone(), server.urls[2].clone());
    let (start, mut kept) = (Instant::now(), std::collections::VecDeque::new());
    let mut asked = 0;
    for number in 0..3000u32 {
        let url = if number % 2 == 0 { &web } else { &tcp };
        let mut stream = connect(url);
        let said: &[u8] = match number % 6 {
            0 => b"GET / HTTP/1.1\r\n",
            1 => b"\xff\0\x12",
            2 => b"GET /healthz HTTP/1.1\r\n\r\n",
            3 => b"hel",
            4 => b"\x16\x03\x01\x02\0",
            _ => b"",
        };
        let _ = stream.write_all(said);
        kept.push_back(stream);
        if kept.len() > 200 {
            kept.pop_front();
        }
        let due = start + Duration::from_millis(u64::from(number));
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        if number % 1000 == 999 {
            for url in [&server.urls[0], &web, &tcp] {
                let output = server.shell(url, &[], ASK);
                assert!(stdout(&output).starts_with("@3 = 0"), "{url}: {}", stderr(&output));
                asked += 1;
            }
        }
    }
    assert_eq!(asked, 9);
    drop(kept);
    assert_eq!(server.end("TERM").0, Some(0));
}

#[test]
fn without_descriptors_a_server_keeps_its_websockets() {
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 64; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_bifrost")]);
    command
        .env_remove("BIFROST_URL")
        .env_remove("BIFROST_LOG")
        .env_remove("BIFROST_TOKEN")
        .stdin(Stdio::null());
    let listen = ["--listen", "ws://127.0.0.1:0", "--anonymous-loopback"];
    let mut server = Server::spawn(command, &example("database"), &listen);
    let url = server.urls[1].clone();
    let mut kept = opened(&url);
    send(&mut kept, b"hello 2\n");
    assert!(frame(&mut kept).1.starts_with(b"welcome"));
    let silent: Vec<TcpStream> = (0..100).map(|_| connect(&url)).collect();
    let mut said = BufReader::new(server.child.stderr.take().unwrap());
    let mut log = String::new();
    while !log.contains("accept.waits") {
        assert!(said.read_line(&mut log).unwrap() > 0, "{log}");
    }
    // The session that is there goes on.
    send(&mut kept, b"$db := lookup database: DataBase\n? $db.fetch(\"bob\").visits()\n");
    assert!(frame(&mut kept).1.starts_with(b"@3 = 0"));
    drop(silent);
    let mut later = opened(&url);
    send(&mut later, b"hello 2\n");
    assert!(frame(&mut later).1.starts_with(b"welcome"));
    kill(&server.child, "TERM");
    said.read_to_string(&mut log).unwrap();
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
    assert_eq!(log.matches("accept.waits").count(), 1, "{log}");
}

/// A browser without a window, until dropped.
struct Browser {
    child: Child,
    _profile: tempfile::TempDir,
}

impl Browser {
    fn open(page: &str) -> Browser {
        let profile = tempfile::tempdir().unwrap();
        let mut command = Command::new("chromium");
        command.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]);
        command.args(["--disable-background-networking", "--disable-component-update", "--disable-sync"]);
        command.args(["--disable-dev-shm-usage", "--ignore-certificate-errors"]);
        command.arg(format!("--user-data-dir={}", profile.path().display())).arg(page);
        // It leaves processes behind if only its first one ends.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        Browser { child: child.expect("chromium, which test.sh installs"), _profile: profile }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let group = format!("-{}", self.child.id());
        let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
        let _ = self.child.wait();
    }
}

/// A web server with one page. Returns its port, and the bodies of posts.
fn web(page: String) -> (u16, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (told, hear) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (page, told) = (page.clone(), told.clone());
            std::thread::spawn(move || {
                let mut stream = BufReader::new(stream.unwrap());
                let (mut head, mut length) = (String::new(), 0);
                while stream.read_line(&mut head).is_ok_and(|count| count > 2) {}
                for line in head.to_lowercase().lines() {
                    if let Some(count) = line.strip_prefix("content-length:") {
                        length = count.trim().parse().unwrap();
                    }
                }
                let body = if head.starts_with("POST") { "" } else { &page };
                let answer = format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\n\
                     Connection: close\r\n\r\n{body}",
                    body.len()
                );
                let mut posted = vec![0; length];
                let whole = stream.read_exact(&mut posted).is_ok();
                let _ = stream.get_mut().write_all(answer.as_bytes());
                if head.starts_with("POST") && whole {
                    let _ = told.send(String::from_utf8(posted).unwrap());
                }
            });
        }
    });
    (port, hear)
}

/// The example's page, with a script that uses it and posts what it shows.
fn page() -> String {
    let page = std::fs::read_to_string(examples().join("database/client.html")).unwrap();
    let script = "
<script type=module>
const post = (body) => fetch('/told', { method: 'POST', body });
const until = async (is) => { while (!is()) await new Promise((done) => setTimeout(done, 20)); };
const people = () => [...document.querySelectorAll('#people tr')].map((row) => row.innerText.trim());
await until(() => document.body.dataset.ready);
const fault = document.querySelector('#fault').textContent;
if (fault) {
  await post('fault: ' + fault);
} else {
  const before = people();
  document.querySelector('[name=user]').value = 'zoë \"z\"';
  document.querySelector('#new button').click();
  await until(() => people().length > before.length);
  document.querySelector('#people tr:last-child button').click();
  await until(() => /1/.test(people().at(-1)));
  document.querySelector('#new button').click();
  await until(() => document.querySelector('#fault').textContent);
  const told = { before, after: people(), fault: document.querySelector('#fault').textContent };
  await post(JSON.stringify(told));
}
</script>";
    page + script
}

#[test]
fn a_page_in_a_browser_is_a_client() {
    for listen in ["ws://127.0.0.1:0", "wss://127.0.0.1:0/objects"] {
        let (own, told) = web(page());
        let origin = format!("http://localhost:{own}");
        let server =
            Server::start("database", &["--listen", listen, "--anonymous-loopback", "--origin", &origin]);
        let url = server.urls[1].split('#').next().unwrap();
        let _browser = Browser::open(&format!("{origin}/?server={url}"));
        let told = told.recv_timeout(SOON).unwrap();
        let told: serde_json::Value = serde_json::from_str(&told).unwrap_or_else(|_| panic!("{told}"));
        let (before, after) = (told["before"].as_array().unwrap(), told["after"].as_array().unwrap());
        assert_eq!(after[..before.len()], before[..], "{told}");
        assert_eq!(after.len(), before.len() + 1, "{told}");
        assert!(after.last().unwrap().as_str().unwrap().starts_with("zoë \"z\"\t1"), "{told}");
        assert_eq!(told["fault"], "not_possible");
        assert_eq!(server.end("TERM").0, Some(0));
    }
}

#[test]
fn a_page_of_another_origin_is_kept_out() {
    let (own, told) = web(page());
    let server = serve(&["--origin", "http://localhost:1"]);
    let _browser = Browser::open(&format!("http://localhost:{own}/?server={}", server.urls[1]));
    let told = told.recv_timeout(SOON).unwrap();
    assert_eq!(told, "fault: the server has closed the connection, or cannot be reached");
    let (code, log) = server.end("TERM");
    assert_eq!(code, Some(0));
    assert!(log.contains("websocket.refused") && log.contains(&format!("http://localhost:{own}")), "{log}");
}
