//! Servers and capsules over TLS, as processes: certificates, trust, and strangers.

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use support::{Server, bifrost, example, examples, feed, kill, stderr, stdout};
use tempfile::TempDir;

/// Nothing here takes longer, on a busy machine either.
const SOON: Duration = Duration::from_secs(60);

/// An answer to this needs an object of the server.
const ASK: &str = "$db := lookup database\n? $db\n? $db.fetch(\"bob\").visits()\n";
const ANSWER: &str = "$db = h1: DataBase\nok 0 calls\n@2 = 0\nok 2 calls\n";

const LISTEN: [&str; 3] = ["--listen", "tls://127.0.0.1:0", "--anonymous-loopback"];

/// Makes a certificate; returns the output of the command.
fn certificate(folder: &Path, arguments: &[&str]) -> Output {
    bifrost().arg("certificate").args(arguments).arg("-o").arg(folder).output().unwrap()
}

/// A folder with an authority, and a certificate for `localhost`.
fn office() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let made = certificate(folder.path(), &["--name", "localhost", "--name", "127.0.0.1"]);
    assert!(made.status.success(), "{}", stderr(&made));
    folder
}

/// Adds a certificate to the folder; returns the paths of certificate and key.
fn sign(office: &TempDir, kind: &str, name: &str) -> [String; 2] {
    let authority = path(office, "ca.pem");
    let made = certificate(office.path(), &[kind, "--name", name, "--ca", &authority]);
    assert!(made.status.success(), "{}", stderr(&made));
    [path(office, &format!("{name}.pem")), path(office, &format!("{name}-key.pem"))]
}

fn path(folder: &TempDir, file: &str) -> String {
    folder.path().join(file).display().to_string()
}

/// A server with the certificate of an office.
fn serve(office: &TempDir, more: &[&str]) -> Server {
    let (certificate, key) = (path(office, "localhost.pem"), path(office, "localhost-key.pem"));
    let own = ["--certificate", &certificate, "--key", &key];
    Server::start("database", &[&LISTEN[..], &own[..], more].concat())
}

/// The address with a name that the certificate has.
fn by_name(server: &Server) -> String {
    server.urls[1].replace("127.0.0.1", "localhost")
}

fn port(server: &Server) -> u16 {
    let place = server.urls[1].split('#').next().unwrap();
    place.rsplit(':').next().unwrap().parse().unwrap()
}

fn ask(server: &Server, url: &str, arguments: &[&str]) -> Output {
    server.shell(url, arguments, &format!("{ASK}bye\n"))
}

fn answered(server: &Server, url: &str, arguments: &[&str]) {
    let output = ask(server, url, arguments);
    assert!(stdout(&output).starts_with("$db = h1: DataBase\n"), "{url}: {}", stderr(&output));
    assert_eq!((stderr(&output), output.status.code()), ("", Some(0)));
}

fn refused(server: &Server, url: &str, arguments: &[&str], code: i32, said: &str) {
    let output = ask(server, url, arguments);
    assert!(stderr(&output).contains(said), "{url}: {}", stderr(&output));
    assert_eq!(output.status.code(), Some(code));
}

#[test]
fn a_server_without_a_certificate_makes_one_and_prints_its_pin() {
    let state = tempfile::tempdir().unwrap();
    let start = || {
        let mut command = bifrost();
        command.env("XDG_STATE_HOME", state.path());
        Server::spawn(command, &example("database"), &LISTEN)
    };
    let server = start();
    let url = server.urls[1].clone();
    let (place, pin) = url.split_once('#').unwrap();
    assert!(pin.starts_with("sha256-"), "{url}");
    answered(&server, &url, &[]);
    let file = state.path().join("bifrost/self-made.pem");
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o600, 0o700));
    // An authority that is not trusted, with the pin that was seen; and a wrong pin.
    refused(&server, place, &[], 3, &format!("pin is {pin}"));
    let wrong = format!("{place}#sha256-AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8");
    refused(&server, &wrong, &[], 3, &format!("the server has the pin {pin}"));
    refused(&server, &format!("{place}#sha256-x"), &[], 2, "a pin is `sha256-` and 43 characters");
    drop(server);
    // It is the same after a restart.
    assert!(start().urls[1].ends_with(pin));
    std::fs::write(&file, "nothing").unwrap();
    let mut command = bifrost();
    command.env("XDG_STATE_HOME", state.path()).arg("serve").args(LISTEN).arg(example("database"));
    let output = command.output().unwrap();
    assert!(stderr(&output).contains("it has no certificate in PEM form"), "{}", stderr(&output));
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn clients_trust_an_authority_by_option_and_by_variable() {
    let (office, other) = (office(), office());
    let server = serve(&office, &[]);
    let url = by_name(&server);
    // Clients that trust an authority need no pin, and are given none.
    assert!(!url.contains('#'));
    let authority = path(&office, "ca.pem");
    answered(&server, &url, &["--ca", &authority]);
    let mut shell = bifrost();
    shell.arg("shell").arg(&url).env("BIFROST_CA", &authority);
    assert_eq!(stdout(&feed(shell, ASK)), ANSWER);
    refused(&server, &url, &["--ca", &path(&other, "ca.pem")], 3, "add `#sha256-");
    refused(&server, &url, &["--ca", "/nowhere.pem"], 2, "cannot use `/nowhere.pem`");
    let pinned = format!("{url}#sha256-AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8");
    refused(&server, &pinned, &["--ca", &authority], 2, "leave one of them out");
    // The variable is for addresses without a pin.
    let mut shell = bifrost();
    shell.arg("shell").arg(&pinned).env("BIFROST_CA", &authority);
    assert!(stderr(&feed(shell, ASK)).contains("the address asks for sha256-AAEC"));
    // A name that the certificate has not.
    let elsewhere = tempfile::tempdir().unwrap();
    let made = certificate(elsewhere.path(), &["--name", "db1.example"]);
    assert!(made.status.success(), "{}", stderr(&made));
    let [certificate, key] = ["db1.example.pem", "db1.example-key.pem"].map(|file| path(&elsewhere, file));
    let own = ["--certificate", &certificate, "--key", &key];
    let server = Server::start("database", &[&LISTEN[..], &own[..]].concat());
    let authority = path(&elsewhere, "ca.pem");
    let said = "certificate is for DnsName(\"db1.example\"), and not for `localhost`";
    refused(&server, &by_name(&server), &["--ca", &authority], 3, said);
}

#[test]
fn plain_and_encrypted_addresses_are_told_apart() {
    let server = serve(&office(), &["--listen", "tcp://127.0.0.1:0"]);
    let plain = server.urls[2].replace("tcp://", "tls://");
    refused(&server, &plain, &[], 3, "the other side does not speak TLS");
    let encrypted = server.urls[1].replace("tls://", "tcp://");
    refused(&server, &encrypted, &[], 4, "speaks TLS: connect to `tls://...`");
    // The server goes on.
    answered(&server, &server.urls[0], &[]);
}

#[test]
fn certificates_of_clients_are_asked_for() {
    let office = office();
    let authority = path(&office, "ca.pem");
    let clients = format!("tls.clients={authority}");
    let server = serve(&office, &["--set", &clients, "--set", "tls.required=true"]);
    let url = by_name(&server);
    let trust = ["--ca", &authority];
    refused(&server, &url, &trust, 4, "pass it with `--certificate FILE --key FILE`");
    let [certificate, key] = sign(&office, "--client", "reports.example");
    let own = ["--ca", &authority, "--certificate", &certificate, "--key", &key];
    answered(&server, &url, &own);
    // That of a server is none of a client.
    let of_server = [path(&office, "localhost.pem"), path(&office, "localhost-key.pem")];
    let own = ["--ca", &authority, "--certificate", &of_server[0], "--key", &of_server[1]];
    refused(&server, &url, &own, 4, "refuses this side's certificate");
    let mixed = ["--ca", &authority, "--certificate", &certificate, "--key", &of_server[1]];
    let output = ask(&server, &url, &mixed);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
}

#[test]
fn a_certificate_is_read_again_at_sighup() {
    let office = office();
    let mut server = serve(&office, &[]);
    let pin = |output: &Output| stdout(output).split_whitespace().last().unwrap().to_owned();
    let mut said = BufReader::new(server.child.stderr.take().unwrap()).lines();
    let mut hang_up = |server: &Server| {
        kill(&server.child, "HUP");
        let told = |line: &String| line.contains("certificate.kept") || line.contains("was read again");
        said.by_ref().map(Result::unwrap).find(told).unwrap()
    };
    let url = by_name(&server);
    let authority = path(&office, "ca.pem");
    // A session that is open stays so.
    let mut open = bifrost();
    open.arg("shell").arg(&url).args(["--ca", &authority]);
    let mut open = open.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(open.stdout.take().unwrap()).lines();
    let mut input = open.stdin.take().unwrap();
    input.write_all(b"$db := lookup database\nflush\n").unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "$db = h1: DataBase");

    std::fs::write(path(&office, "localhost.pem"), "nothing").unwrap();
    let line = hang_up(&server);
    assert!(line.contains("the certificate in use stays") && line.contains("cannot use"), "{line}");
    answered(&server, &url, &["--ca", &authority]);
    for file in ["localhost.pem", "localhost-key.pem"] {
        std::fs::remove_file(office.path().join(file)).unwrap();
    }
    let made = certificate(office.path(), &["--name", "localhost", "--ca", &authority]);
    let line = hang_up(&server);
    assert!(line.contains(&format!("was read again; its pin is {}", pin(&made))), "{line}");
    answered(&server, &format!("{url}#{}", pin(&made)), &[]);
    input.write_all(b"? $db.fetch(\"bob\").visits()\nbye\n").unwrap();
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    assert!(rest.iter().any(|line| line.ends_with("= 0")), "{rest:?}");
    open.wait().unwrap();
}

#[test]
fn files_of_certificates_are_private_and_not_replaced() {
    let folder = office();
    let mode = |file: &str| folder.path().join(file).metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("ca-key.pem"), mode("localhost-key.pem")), (0o600, 0o600));
    assert_eq!(mode("localhost.pem") & 0o400, 0o400);
    let again = |arguments: &[&str], said: &str| {
        let output = certificate(folder.path(), arguments);
        assert!(stderr(&output).contains(said), "{}", stderr(&output));
        assert_eq!(output.status.code(), Some(2));
    };
    again(&["--name", "localhost"], "localhost.pem` exists already");
    again(&["--name", "other"], "ca.pem` exists already");
    again(&["--name", "../x"], "`../x` is no name for a certificate");
    again(&["--name", "other", "--ca", "/nowhere.pem"], "cannot sign with `/nowhere-key.pem`");
    again(&["--name", "other", "--days", "0"], "0 is not in 1..=36500");
    // The pin that is printed is that which clients see.
    let [certificate, key] = sign(&folder, "--capsule", "db2.example");
    let own = ["--certificate", &certificate, "--key", &key];
    let server = Server::start("database", &[&LISTEN[..], &own[..]].concat());
    refused(&server, &by_name(&server), &[], 3, "whose pin is sha256-");
}

/// `openssl s_client`, connected to a server whose authority it trusts.
fn openssl(server: &Server, office: &TempDir, more: &[&str], lines: &str) -> Output {
    let mut command = Command::new("openssl");
    command.args(["s_client", "-quiet", "-verify_return_error", "-servername", "localhost"]);
    command.arg("-connect").arg(format!("127.0.0.1:{}", port(server)));
    command.args(["-verify_hostname", "localhost", "-CAfile", &path(office, "ca.pem")]).args(more);
    feed(command, lines)
}

#[test]
fn the_text_form_is_spoken_by_openssl() {
    let office = office();
    let server = serve(&office, &[]);
    let script = std::fs::read_to_string(examples().join("database/client.bifrost")).unwrap();
    let lines = format!("hello 2\n{script}\nbye\n");
    let mut unix = std::os::unix::net::UnixStream::connect(server.folder.path().join("socket")).unwrap();
    unix.write_all(lines.as_bytes()).unwrap();
    let mut expected = String::new();
    unix.read_to_string(&mut expected).unwrap();
    drop(server);
    let without_session =
        |said: &str| said.lines().skip(1).map(|line| format!("{line}\n")).collect::<String>();
    assert!(expected.starts_with("welcome 2 bifrost") && expected.ends_with("bye\n"), "{expected}");
    for more in [&[][..], &["-alpn", "bifrost/1"]] {
        // The same objects as before.
        let server = serve(&office, &[]);
        let output = openssl(&server, &office, more, &lines);
        let said = stdout(&output);
        assert_eq!(without_session(said), without_session(&expected), "{}", stderr(&output));
    }
    let server = serve(&office, &[]);
    for (more, why) in [(["-tls1_2", ""], "protocol version"), (["-alpn", "h2"], "no application protocol")] {
        let more: Vec<&str> = more.into_iter().filter(|one| !one.is_empty()).collect();
        let output = openssl(&server, &office, &more, "hello 2\nbye\n");
        assert_eq!(stdout(&output), "");
        assert!(stderr(&output).contains(why), "{}", stderr(&output));
    }
}

fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port(server))).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    stream
}

/// The begin of a handshake.
const HALF: &[u8] = b"\x16\x03\x01\x01\x00\x01\x00";

/// Reads to the end, and returns how long that took.
fn end(mut stream: TcpStream) -> Duration {
    let start = Instant::now();
    let mut bytes = Vec::new();
    // A reset is an end.
    let _ = stream.read_to_end(&mut bytes);
    // At most an alert: nobody who is not understood is told more.
    assert!(bytes.is_empty() || bytes[0] == 0x15, "{bytes:?}");
    start.elapsed()
}

#[test]
fn half_and_slow_handshakes_end_in_time() {
    let office = office();
    let server = serve(&office, &["--set", "hello_ms_max=300"]);
    let silent = connect(&server);
    let mut half = connect(&server);
    half.write_all(HALF).unwrap();
    let slow = connect(&server);
    let mut sends = slow.try_clone().unwrap();
    let trickling = std::thread::spawn(move || {
        for byte in HALF.iter().chain(&[0; 1000]) {
            std::thread::sleep(Duration::from_millis(20));
            if sends.write_all(&[*byte]).is_err() {
                return;
            }
        }
        panic!("a handshake of twenty seconds");
    });
    answered(&server, &by_name(&server), &["--ca", &path(&office, "ca.pem")]);
    for stream in [silent, half, slow] {
        assert!(end(stream) < Duration::from_secs(10));
    }
    trickling.join().unwrap();
    // Bytes that are no handshake are not waited for.
    let mut plain = connect(&server);
    plain.write_all(b"hello 2\n").unwrap();
    end(plain);
    answered(&server, &by_name(&server), &["--ca", &path(&office, "ca.pem")]);
}

#[test]
fn handshakes_at_once_have_a_limit_and_the_oldest_makes_way() {
    let office = office();
    let server = serve(&office, &["--set", "handshakes_max=3", "--set", "hello_ms_max=60000"]);
    let mut strangers: Vec<TcpStream> = (0..3).map(|_| connect(&server)).collect();
    strangers.iter_mut().for_each(|stream| stream.write_all(HALF).unwrap());
    for _ in 0..3 {
        answered(&server, &by_name(&server), &["--ca", &path(&office, "ca.pem")]);
    }
    let first = strangers.remove(0);
    end(first);
    // One place was enough for those that came one after the other.
    strangers[1].set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    assert!(strangers[1].read(&mut [0]).is_err());
}

#[test]
fn an_address_has_a_rate_of_handshakes() {
    let office = office();
    let set = ["--set", "handshakes_per_second_max=1", "--listen", "tcp://127.0.0.1:0"];
    let server = serve(&office, &set);
    let trust = ["--ca", &path(&office, "ca.pem")];
    let start = Instant::now();
    let mut refusals = 0;
    // Those of five seconds at once.
    for _ in 0..12 {
        let output = ask(&server, &by_name(&server), &trust);
        if output.status.code() != Some(0) {
            let said = stderr(&output);
            assert!(said.contains("closed the connection at once"), "{said}");
            refusals += 1;
        }
    }
    let allowed = 5 + start.elapsed().as_secs() as usize + 1;
    assert!(refusals > 0 && 12 - refusals <= allowed, "{refusals} in {:?}", start.elapsed());
    // Other transports are not kept waiting.
    answered(&server, &server.urls[2], &[]);
}

#[test]
fn a_server_that_is_killed_is_no_clean_end() {
    let office = office();
    let mut server = serve(&office, &[]);
    let mut shell = bifrost();
    shell.arg("shell").arg(by_name(&server)).args(["--ca", &path(&office, "ca.pem")]);
    shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut shell = shell.spawn().unwrap();
    let mut input = shell.stdin.take().unwrap();
    input.write_all(b"$db := lookup database\nflush\n").unwrap();
    let mut line = String::new();
    BufReader::new(shell.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "$db = h1: DataBase\n");
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    input.write_all(b"? $db.fetch(\"bob\").visits()\n").unwrap();
    drop(input);
    let output = shell.wait_with_output().unwrap();
    assert!(
        stderr(&output).contains("was cut off") || stderr(&output).contains("closed the connection"),
        "{}",
        stderr(&output)
    );
    assert_eq!(output.status.code(), Some(4));
}

#[test]
fn plain_networks_are_asked_for() {
    let serve = |more: &[&str]| {
        let mut command = bifrost();
        command.args(["serve", "--listen", "tcp://0.0.0.0:0", "--print-config"]).args(more);
        command.output().unwrap()
    };
    let output = serve(&[]);
    assert!(stderr(&output).contains("listen on `tls://` instead, or pass `--plain-networks`"));
    assert_eq!(output.status.code(), Some(2));
    assert!(stdout(&serve(&["--plain-networks"])).contains("plain_networks = true"));
    let mut capsule = bifrost();
    capsule.args(["capsule", "--listen", "tcp://0.0.0.0:0", "--token", "x"]);
    let output = capsule.arg(examples().join("actors/queens.theta")).output().unwrap();
    assert!(stderr(&output).contains("--plain-networks"), "{}", stderr(&output));
    assert_eq!(output.status.code(), Some(2));
}

/// A capsule that listens, and ends with its test.
struct Capsule(Child, String);

impl Capsule {
    fn start(arguments: &[&str], state: &Path) -> Capsule {
        let mut command = bifrost();
        command.args(["capsule", "--listen", "tls://127.0.0.1:0"]).args(arguments).arg(queens());
        command.env("XDG_STATE_HOME", state).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let Some(url) = line.strip_prefix("ready ") else {
            panic!("{}", stderr(&child.wait_with_output().unwrap()))
        };
        Capsule(child, url.trim().to_owned())
    }

    fn end(mut self) -> Option<i32> {
        self.0.wait().unwrap().code()
    }
}

impl Drop for Capsule {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn queens() -> PathBuf {
    examples().join("actors/queens.theta")
}

fn join(capsules: &[&Capsule], arguments: &[&str]) -> Output {
    let list: Vec<String> = capsules.iter().map(|capsule| capsule.1.clone()).collect();
    let mut command = bifrost();
    command.args(["run", "--join", &list.join(",")]).args(arguments).arg(queens()).arg("6");
    command.output().unwrap()
}

#[test]
fn capsules_trust_pins_or_an_authority() {
    let state = tempfile::tempdir().unwrap();
    let joined = |capsules: [Capsule; 2], arguments: &[&str]| {
        let output = join(&[&capsules[0], &capsules[1]], arguments);
        assert_eq!((stdout(&output), stderr(&output)), ("6 queens: 4 solutions\n", ""));
        for capsule in capsules {
            assert_eq!(capsule.end(), Some(0));
        }
    };
    // The pins of servers in the addresses, and a token for both.
    let secret = ["--token", "s3cret"];
    joined([(); 2].map(|()| Capsule::start(&secret, state.path())), &secret);

    // An authority, and no token.
    let office = office();
    let authority = path(&office, "ca.pem");
    let [certificate, key] = sign(&office, "--capsule", "127.0.0.1");
    let known = ["--ca", &authority, "--certificate", &certificate, "--key", &key];
    let capsule = Capsule::start(&known, state.path());
    let output = join(&[&capsule], &["--ca", &authority]);
    assert!(stderr(&output).contains("asks for the client's certificate"), "{}", stderr(&output));
    let other = tempfile::tempdir().unwrap();
    assert!(self::certificate(other.path(), &["--capsule", "--name", "127.0.0.1"]).status.success());
    let [theirs, their_key] = ["127.0.0.1.pem", "127.0.0.1-key.pem"].map(|file| path(&other, file));
    let stranger = ["--ca", &authority, "--certificate", &theirs, "--key", &their_key];
    let output = join(&[&capsule], &stranger);
    assert!(stderr(&output).contains("refuses this side's certificate"), "{}", stderr(&output));
    joined([capsule, Capsule::start(&known, state.path())], &known);

    // Pins on both sides, and no token.
    let made = self::certificate(&other.path().join("main"), &["--client", "--name", "main"]);
    let pin = stdout(&made).split_whitespace().last().unwrap().to_owned();
    let own_pin = Capsule::start(&secret, state.path()).1.split_once('#').unwrap().1.to_owned();
    // Capsules connect to each other as well.
    let peers = ["--peer", &pin, "--peer", &own_pin];
    let [own, own_key] = ["main/main.pem", "main/main-key.pem"].map(|file| path(&other, file));
    let own = ["--certificate", &own, "--key", &own_key];
    let capsule = Capsule::start(&peers, state.path());
    let output = join(&[&capsule], &["--certificate", &theirs, "--key", &their_key]);
    assert!(stderr(&output).contains("refuses this side's certificate"), "{}", stderr(&output));
    joined([capsule, Capsule::start(&peers, state.path())], &own);
    // Anybody could join.
    let mut command = bifrost();
    command.args(["capsule", "--listen", "tls://127.0.0.1:0"]).arg(queens());
    let output = command.env("XDG_STATE_HOME", state.path()).output().unwrap();
    assert!(stderr(&output).contains("a capsule on TCP or TLS needs a token"), "{}", stderr(&output));
}
