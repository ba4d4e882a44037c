//! Roles from outside: admission, the rights of clients, and the secrets that nobody learns.

mod support;

#[rustfmt::skip]
#[allow(clippy::all, missing_docs, reason = "generated")]
#[path = "conformance/bifrost_stubs.rs"]
mod stubs;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use bifrost_wire::{VERSION, encode};
use rustix::net::{AddressFamily, SocketType};
use serde_json::{Value, json};
use support::{Server, bifrost, example, examples, feed, kill, stderr, stdout};

/// Nothing here takes longer, on a busy machine either.
const SOON: Duration = Duration::from_secs(60);

const READER: &str = "reader-of-the-example";
const EDITOR: &str = "editor-of-the-example";

/// A server of the example with its roles, on TCP as the second address.
fn boards(arguments: &[&str]) -> Server {
    let settings = examples().join("boards/bifrost.toml");
    let settings = ["--config", settings.to_str().unwrap(), "--listen", "tcp://127.0.0.1:0"];
    Server::start("boards", &[&settings[..], arguments].concat())
}

/// A server of the example with roles of a text, in the file `roles.toml` of its folder.
fn serve(roles: &str, arguments: &[&str]) -> Server {
    serve_with(piped(), &example("boards"), roles, arguments)
}

/// The program, whose standard error the test reads.
fn piped() -> Command {
    let mut command = bifrost();
    command.stderr(Stdio::piped());
    command
}

/// As [`serve`], with another program, by a command that says where its standard error goes.
fn serve_with(mut command: Command, program: &Path, roles: &str, arguments: &[&str]) -> Server {
    let folder = tempfile::tempdir().unwrap();
    let settings = folder.path().join("roles.toml");
    std::fs::write(&settings, roles).unwrap();
    command.arg("serve").arg("--config").arg(&settings);
    command.arg("--listen").arg(format!("unix://{}/socket", folder.path().display()));
    command.args(arguments.iter().map(|a| a.replace("FOLDER", &folder.path().display().to_string())));
    command.arg(program).current_dir(folder.path()).stdout(Stdio::piped());
    Server::ready(command.spawn().unwrap(), folder)
}

fn uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn port(server: &Server) -> u16 {
    server.urls[1].rsplit(':').next().unwrap().parse().unwrap()
}

/// A connection from an address of this machine.
fn from(last: u8, server: &Server) -> TcpStream {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&socket, &SocketAddrV4::new([127, 0, 0, last].into(), 0)).unwrap();
    rustix::net::connect(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port(server))).unwrap();
    let stream = TcpStream::from(socket);
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

/// The answer to a client that looks a board up: all lines, up to the last one.
fn ask<S: Read + Write>(stream: &mut S, board: &str) -> String {
    let mut told = line(stream, &format!("$b := lookup \"{board}\": Board\n? $b.title()\n"));
    while !told.contains("\nok ") {
        let next = line(stream, "");
        assert!(!next.is_empty(), "{told}");
        told += &format!("\n{next}");
    }
    told
}

fn hello(token: &str) -> String {
    format!("hello 2 token \"{token}\"\n")
}

/// The value of a metric.
fn metric(server: &Server, name: &str) -> u64 {
    let mut stream = UnixStream::connect(server.folder.path().join("metrics")).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let line =
        text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{name}: {text}"));
    line.trim().parse().unwrap()
}

/// Waits for a line of the standard error.
fn wait_for(said: &mut impl Read, expected: &str) -> String {
    let (mut all, mut byte) = (Vec::new(), [0]);
    while !String::from_utf8_lossy(&all).contains(expected) {
        assert!(said.read(&mut byte).unwrap() > 0, "{}", String::from_utf8_lossy(&all));
        all.push(byte[0]);
    }
    String::from_utf8_lossy(&all).into_owned()
}

#[test]
fn the_conversations_of_the_example_hold() {
    let server = boards(&[]);
    for (role, token) in [("editor", EDITOR), ("reader", READER)] {
        let file = |end: &str| examples().join(format!("boards/{role}.{end}"));
        let script = std::fs::read_to_string(file("bifrost")).unwrap();
        let output = server.shell(&server.urls[1], &["--echo", "--token", token], &script);
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            std::fs::write(file("txt"), stdout(&output)).unwrap();
        }
        assert_eq!(stdout(&output), std::fs::read_to_string(file("txt")).unwrap(), "{}", stderr(&output));
    }
    let (_, said) = server.end("TERM");
    assert!(said.contains("(clients need a role)") && !said.contains("the token is"), "{said}");
    assert!(said.contains("role editor: 1 token\n") && said.contains("role reader: 1 token\n"), "{said}");
}

#[test]
fn no_token_is_guessed_from_any_address() {
    let server = boards(&["--set", "wrong_token_ms=1", "--metrics", "unix://FOLDER/metrics"]);
    let mut hashes: Vec<String> = Vec::new();
    for found in std::fs::read_to_string(examples().join("boards/bifrost.toml")).unwrap().split('"') {
        hashes.extend(found.strip_prefix("blake3:").map(|digits| digits.to_owned()));
    }
    assert_eq!(hashes.len(), 2);
    let prefixes = (1..READER.len()).map(|length| READER[..length].to_owned());
    let longer = [format!("{READER} "), format!("{READER}x"), READER.to_uppercase(), format!(" {READER}")];
    let others = ["reader", "editor", "blake3:", "*", "\u{0}"].map(str::to_owned);
    let whole = hashes.iter().map(|digits| format!("blake3:{digits}"));
    let mut tried = 0;
    for guess in prefixes.chain(longer).chain(others).chain(hashes.iter().cloned()).chain(whole) {
        let last = 2 + (tried % 40) as u8;
        let told = line(&mut from(last, &server), &hello(&guess));
        assert!(told.starts_with("error 38 BadToken") && told.contains("token"), "{guess}: {told}");
        assert!(!told.contains(&guess) || guess.len() < 8, "{guess}: {told}");
        tried += 1;
    }
    // The empty token is no token: it is asked for one, and that is no failed login.
    assert!(line(&mut from(99, &server), &hello("")).contains("the token is missing or wrong"));
    assert_eq!(metric(&server, "bifrost_failed_logins_total{by=\"token\"}"), tried);
    assert_eq!(metric(&server, "bifrost_failed_logins_total{by=\"user\"}"), 0);
    // A token leads to its own role.
    let ask = |token: &str, name: &str| {
        let mut stream = from(100, &server);
        assert!(line(&mut stream, &hello(token)).starts_with("welcome"));
        ask(&mut stream, name)
    };
    assert!(ask(READER, "board.news").contains("\"News\""));
    assert!(ask(READER, "board.staff").contains("NoSuchName"));
    assert!(ask(EDITOR, "board.staff").contains("\"For the staff\""));
}

#[test]
fn guesses_slow_their_own_address_only() {
    let server = boards(&["--set", "wrong_token_ms=100"]);
    let start = Instant::now();
    for _ in 0..5 {
        assert!(line(&mut from(2, &server), &hello("guess")).contains("BadToken"));
    }
    assert!(start.elapsed() >= Duration::from_millis(800), "{:?}", start.elapsed());
    let mut other = from(3, &server);
    assert!(line(&mut other, &hello(READER)).starts_with("welcome"));
}

#[test]
fn a_user_without_a_role_is_nobody() {
    let roles = format!("[roles.one]\nuids = [{}]\nroots = [\"*\"]\n", uid() + 1);
    let server = serve(&roles, &["--listen", "shm://FOLDER/shm", "--metrics", "unix://FOLDER/metrics"]);
    let expected = format!("the user with the number {} has no role here", uid());
    let told = line(&mut unix(&server), "hello 2\n");
    assert!(told.contains("BadToken") && told.contains(&expected), "{told}");
    for url in &server.urls {
        // A token of the environment is not sent there.
        let output = server.shell(url, &["--token", "s3cret"], "names\n");
        assert!(stderr(&output).contains(&expected), "{}", stderr(&output));
        assert!(stderr(&output).contains("`uids`"), "{}", stderr(&output));
        assert_eq!(output.status.code(), Some(4));
    }
    assert_eq!(metric(&server, "bifrost_failed_logins_total{by=\"user\"}"), 3);
    // Other users may connect, since one of them has a role.
    let mode =
        |name: &str| std::fs::metadata(server.folder.path().join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("socket"), mode("shm")), (0o666, 0o666));
    let own = serve(&format!("[roles.one]\nuids = [{}]\nroots = [\"*\"]\n", uid()), &[]);
    let found = std::fs::metadata(own.folder.path().join("socket")).unwrap().permissions().mode();
    assert_eq!(found & 0o777, 0o600);
    assert!(line(&mut unix(&own), "hello 2\n").starts_with("welcome"));
}

/// As root, another user connects as well; others can only run the test above.
#[test]
fn another_user_has_its_own_role() {
    if uid() != 0 {
        return;
    }
    let roles = "[roles.other]\nuids = [65534]\nroutines = [\"count_*\"]\n";
    let server = serve(roles, &["--listen", "shm://FOLDER/shm"]);
    std::fs::set_permissions(server.folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    // A copy that the other user can run, wherever the checkout is.
    let program = server.folder.path().join("bifrost");
    std::fs::copy(env!("CARGO_BIN_EXE_bifrost"), &program).unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    for url in &server.urls {
        let mut command = Command::new(&program);
        command.arg("shell").arg(url).uid(65534).gid(65534).env_remove("BIFROST_TOKEN").current_dir("/");
        let output = feed(command, "? count_notes()\n");
        assert!(stdout(&output).contains("= 2"), "{}{}", stdout(&output), stderr(&output));
        let output = server.shell(url, &[], "names\n");
        assert!(stderr(&output).contains("the user with the number 0 has no role"), "{}", stderr(&output));
    }
}

#[test]
fn a_role_has_no_more_sessions_than_it_may() {
    let token = |role: &str| {
        let output = bifrost().args(["token", "--json", "--role", role]).output().unwrap();
        let made: Value = serde_json::from_slice(&output.stdout).unwrap();
        (made["token"].as_str().unwrap().to_owned(), made["entry"].as_str().unwrap().to_owned())
    };
    let ((few, few_entry), (many, many_entry)) = (token("few"), token("many"));
    let roles = format!(
        "[roles.few]\ntokens = [\"{few_entry}\"]\nsessions_max = 2\n[roles.many]\ntokens = [\"{many_entry}\"]\n"
    );
    let server = serve(&roles, &["--listen", "tcp://127.0.0.1:0", "--set", "sessions_max=4"]);
    let enter = |token: &str| {
        let mut stream = from(1, &server);
        (line(&mut stream, &hello(token)), stream)
    };
    let (told, first) = enter(&few);
    assert!(told.starts_with("welcome"), "{told}");
    let (told, _second) = enter(&few);
    assert!(told.starts_with("welcome"), "{told}");
    for _ in 0..5 {
        let (told, _) = enter(&few);
        assert!(told.contains("TooManySessions") && told.contains("roles.few.sessions_max"), "{told}");
    }
    // The places of others are there for others, up to those of the server.
    let (told, _third) = enter(&many);
    assert!(told.starts_with("welcome"), "{told}");
    let (told, fourth) = enter(&many);
    assert!(told.starts_with("welcome"), "{told}");
    let (told, _) = enter(&many);
    assert!(told.contains("TooManySessions") && told.contains("(sessions_max)"), "{told}");
    drop((first, fourth));
    let end = Instant::now() + SOON;
    while !enter(&few).0.starts_with("welcome") {
        assert!(Instant::now() < end);
    }
}

#[test]
fn a_client_sees_the_interface_and_the_limits_of_its_role() {
    let server = boards(&[]);
    let talk = |token: &str, lines: &str| {
        let mut stream = from(1, &server);
        stream.write_all(format!("hello 2 json token \"{token}\"\n{lines}bye\n").as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    };
    let reader = talk(READER, "describe\nlimits\n");
    assert!(
        reader.contains("count_notes") && reader.contains("root () returns") && !reader.contains("new_board"),
        "{reader}"
    );
    assert!(reader.contains("\"fuel_max\":1000") || reader.contains("\"fuel_max\": 1000"), "{reader}");
    let editor = talk(EDITOR, "describe\nlimits\n");
    assert!(editor.contains("new_board") && editor.contains("10000000"), "{editor}");
    // By its number it does not exist either.
    let mut stream = from(1, &server);
    let mut bytes = Vec::new();
    encode::hello(
        &mut bytes,
        &bifrost_wire::Hello { version: VERSION, digest: [0; 32], token: READER, client: "", trace: None },
    );
    for number in 0..5 {
        encode::call_routine(&mut bytes, bifrost_wire::RoutineNumber(number), &[]);
    }
    encode::flush(&mut bytes, [], false);
    encode::plain(&mut bytes, bifrost_wire::op::BYE);
    stream.write_all(&bytes).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let text = String::from_utf8_lossy(&answer);
    for number in 2..5 {
        assert!(text.contains(&format!("there is no routine number {number}")), "{text}");
    }
    assert!(!text.contains("there is no routine number 1"), "{text}");
    // A loop beyond the role's fuel ends, and an editor's does not.
    let script = "$n := cell int\n$n.put(0)\nforeach $i in 1.to(5000) do\n  $n.put($i)\nend\n? $n.get()\n";
    let run = |token: &str| server.shell(&server.urls[1], &["--token", token], script);
    let output = run(READER);
    assert!(format!("{}{}", stdout(&output), stderr(&output)).contains("fuel_max"), "{}", stderr(&output));
    assert!(stdout(&run(EDITOR)).contains("= 5000"));
}

#[test]
fn roles_are_read_again_and_open_sessions_keep_theirs() {
    let roles =
        format!("[roles.one]\nuids = [{}]\nroots = [\"board.news\"]\nroutines = [\"count_*\"]\n", uid());
    let mut server = serve(&roles, &[]);
    let mut said = server.child.stderr.take().unwrap();
    wait_for(&mut said, "try: ");
    let file = server.folder.path().join("roles.toml");
    let enter = || {
        let mut stream = unix(&server);
        assert!(line(&mut stream, "hello 2\n").starts_with("welcome"));
        stream
    };
    let mut before = enter();
    assert!(ask(&mut before, "board.news").contains("News"));
    std::fs::write(&file, roles.replace("board.news", "board.staff")).unwrap();
    kill(&server.child, "HUP");
    wait_for(&mut said, "the roles were read again");
    assert!(ask(&mut before, "board.news").contains("News"));
    let mut after = enter();
    assert!(ask(&mut after, "board.news").contains("NoSuchName"));
    // A mistake changes nothing, and shows no token.
    std::fs::write(&file, "[roles.one]\ntokens = [\"s3cret\"]\n").unwrap();
    kill(&server.child, "HUP");
    let told = wait_for(&mut said, "`bifrost token --role one` prints");
    assert!(
        told.contains("the roles were not changed: [roles.one] in the settings: `tokens`, entry 1"),
        "{told}"
    );
    assert!(!told.contains("s3cret"), "{told}");
    assert!(ask(&mut enter(), "board.news").contains("NoSuchName"));
    std::fs::write(&file, "sessions_max = 100\n").unwrap();
    kill(&server.child, "HUP");
    wait_for(&mut said, "restart it");
    assert!(ask(&mut enter(), "board.news").contains("NoSuchName"));
}

/// All that is told to people and logs, at the level that has everything.
#[test]
fn no_log_line_has_a_token() {
    let wrong = "wr0ng-s3cret-guess";
    let roles = std::fs::read_to_string(examples().join("boards/bifrost.toml")).unwrap();
    for form in ["text", "json"] {
        let mut command = bifrost();
        // Into a file: the log is longer than a pipe takes.
        let log = tempfile::NamedTempFile::new().unwrap();
        command.env("BIFROST_LOG", "trace").stderr(log.reopen().unwrap());
        let listen = ["--listen", "tcp://127.0.0.1:0", "--log", form, "--set", "wrong_token_ms=1"];
        let mut server = serve_with(command, &example("boards"), &roles, &listen);
        for token in [READER, EDITOR, wrong] {
            let (text, mut stream) = (hello(token), from(1, &server));
            let told = line(&mut stream, &text);
            assert_eq!(told.starts_with("welcome"), token != wrong, "{told}");
            // As a line that is malformed, said twice, in the binary form, and as a call.
            line(&mut from(1, &server), &format!("hello 2 tokn \"{token}\"\nhello 2 token \"{token}\"\n"));
            let _ = stream.write_all(format!("hello 2 token \"{token}\"\n? {token}\n").as_bytes());
            let mut bytes = Vec::new();
            let hello =
                bifrost_wire::Hello { version: VERSION, digest: [0; 32], token, client: "c", trace: None };
            encode::hello(&mut bytes, &hello);
            let mut stream = from(1, &server);
            stream.write_all(&bytes).unwrap();
            let _ = stream.read(&mut [0; 1]);
            // Over the socket of this machine, too.
            line(&mut unix(&server), &text);
        }
        kill(&server.child, "HUP");
        kill(&server.child, "USR1");
        kill(&server.child, "TERM");
        server.child.wait().unwrap();
        let said = std::fs::read_to_string(log.path()).unwrap();
        assert!(said.contains("login.failed") && said.contains("session.open"), "{said}");
        for token in [READER, EDITOR, wrong] {
            assert!(!said.contains(token), "{form}: {said}");
        }
    }
}

#[test]
fn a_token_is_printed_once_with_its_entry() {
    let output = bifrost().args(["token", "--role", "reader"]).output().unwrap();
    let text = stdout(&output);
    let token = text.lines().next().unwrap();
    assert!(token.len() == 32 && token.bytes().all(|b| b.is_ascii_hexdigit()), "{text}");
    assert_eq!(text.matches(token).count(), 1);
    let (_, settings) = text.split_once("bifrost.toml:\n\n").unwrap();
    assert!(settings.starts_with("[roles.reader]\ntokens = [\"blake3:"), "{text}");
    // The lines are settings, as they are.
    let server = serve(settings, &["--listen", "tcp://127.0.0.1:0"]);
    let file = server.folder.path().join("token");
    std::fs::write(&file, token).unwrap();
    let output = server.shell(&server.urls[1], &["--token-file", file.to_str().unwrap()], "names\n");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let output = bifrost().args(["token", "--role", "a b"]).output().unwrap();
    assert!(
        output.status.code() == Some(2) && stderr(&output).contains("its name must be"),
        "{}",
        stderr(&output)
    );
    assert_eq!(bifrost().arg("token").output().unwrap().status.code(), Some(2));
    let output = bifrost().args(["token", "--role", "x", "--json"]).output().unwrap();
    let made: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(made["role"], json!("x"));
}

#[test]
fn settings_that_exclude_each_other_are_told() {
    for (arguments, expected) in [
        (&["--token", "s3cret"][..], "`token` and roles exclude each other"),
        (&["--anonymous-loopback"], "`anonymous_loopback` and roles exclude each other"),
        (&["--set", "roles.reader.routines=[\"a*b\"]"], "[roles.reader] in the settings: `routines`: `a*b`"),
        (&["--set", "roles.reader.exported=[]"], "`exported` in [roles.reader]"),
    ] {
        let mut command = bifrost();
        command.args(["serve", "--config"]).arg(examples().join("boards/bifrost.toml"));
        let output = command.args(arguments).arg(example("boards")).output().unwrap();
        assert!(stderr(&output).contains(expected), "{}", stderr(&output));
        assert_eq!(output.status.code(), Some(2));
        assert!(!stderr(&output).contains("s3cret"), "{}", stderr(&output));
    }
    let mut command = bifrost();
    command.args(["serve", "--print-config", "--config"]).arg(examples().join("boards/bifrost.toml"));
    let output = command.output().unwrap();
    assert!(stdout(&output).contains("[roles.reader.limits]\nfuel_max = 1000\n"), "{}", stdout(&output));
}

#[test]
fn stubs_of_the_whole_interface_work_within_a_role() {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../cases/programs/conformance.theta");
    let roles = format!("[roles.one]\nuids = [{}]\nroots = [\"probe\"]\nroutines = [\"new_item\"]\n", uid());
    let server = serve_with(piped(), &program, &roles, &[]);
    let s = stubs::connect(&server.urls[0]).unwrap();
    let names = s.collect(stubs::root(&s).list(), |(name, ty)| (name, ty)).claim().unwrap();
    assert_eq!(names, [("probe".to_owned(), "Probe".to_owned())]);
    let probe: stubs::Probe = s.lookup("probe");
    assert_eq!(probe.same_int(7).claim().unwrap(), 7);
    assert_eq!(stubs::new_item(&s, "lamp").name().claim().unwrap(), "lamp");
    // A routine and a name that the role does not have.
    let told = stubs::new_probe(&s).same_int(7).claim().unwrap_err();
    assert!(told.root().to_string().contains("new_probe"), "{told}");
    let counter: stubs::Counter = s.lookup("counter");
    let told = counter.value().claim().unwrap_err();
    assert!(told.root().to_string().contains("there is no well-known object `counter`"), "{told}");
}

/// A program with a method that never ends, and objects to read.
const LONG: &str = "
Item = type   value () returns (int)   set (n: int) end Item
module items exports spin, sum, new_item
  C = class implements Item
    value: int
    set (n: int) value := n end set
  end C
  new_item () returns (Item) return (C{value := 1}) end new_item
  remote spin () returns (int)
    i: int := 0
    while true do i := (i + 1).mod(1000) end
  end spin
  remote sum () returns (int) signals (not_found)
    n: int := 0
    for i: int in 1.to(9) do
      typecase root().lookup(i.unparse())
        when Item (item): n := n + item.value()
        others: n := n
      end resignal not_found
    end
    return (n)
  end sum
end items
setup () for i: int in 1.to(9) do root().insert(i.unparse(), new_item()) end end setup
";

#[test]
fn limits_beside_the_session_are_those_of_the_role() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("long.theta");
    std::fs::write(&program, LONG).unwrap();
    let with = |limits: &str| {
        let roles = format!("[roles.one]\nuids = [{}]\nroutines = [\"*\"]\nlimits = {{ {limits} }}\n", uid());
        serve_with(piped(), &program, &roles, &["--set", "limits.batch_time_ms_max=600000"])
    };
    let ask = |limits: &str, call: &str| {
        let server = with(limits);
        let output = server.shell(&server.urls[0], &[], &format!("? {call}\n"));
        format!("{}{}", stdout(&output), stderr(&output))
    };
    let start = Instant::now();
    let told = ask("batch_time_ms_max = 200", "spin()");
    assert!(told.contains("TimeLimit") && start.elapsed() < SOON, "{told}");
    let told = ask("transaction_objects_max = 5", "sum()");
    assert!(told.contains("transaction_objects_max") || told.contains("more objects than it may"), "{told}");
    assert!(ask("transaction_objects_max = 50", "sum()").contains("= 9"));
    let server = with("idle_ms_max = 200");
    let mut stream = unix(&server);
    assert!(line(&mut stream, "hello 2\n").starts_with("welcome"));
    let told = line(&mut stream, "");
    assert!(told.contains("Expired"), "{told}");
}

/// A program whose actors answer with the role of their caller.
const ACTORS: &str = "
Asked = actor
  before: string
  new () make {before := caller()} end new
  who () returns (string) reply (caller()) end who
  made () returns (string) reply (before) end made
  told (role: string) returns (string) reply (role || \"/\" || caller()) end told
end Asked
module names exports direct, made_here, through
  remote direct () returns (string) return (caller()) end direct
  remote made_here () returns (Asked) return (Asked.new()) end made_here
  remote through (a: Asked) returns (string) return (caller()) end through
end names
start () publish(\"asked\", Asked.new()) end start
";

#[test]
fn an_actor_runs_for_no_role() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("asked.theta");
    std::fs::write(&program, ACTORS).unwrap();
    let roles = format!("[roles.one]\nuids = [{}]\nroots = [\"asked\"]\nroutines = [\"*\"]\n", uid());
    for arguments in [&[][..], &["--interpret"], &["--nodes", "2"]] {
        let server = serve_with(piped(), &program, &roles, arguments);
        let script = "$a := lookup asked: Asked\n? $a.who(), $a.made(), direct()\n? $a.told(direct())\n\
            $m := made_here()\n? $m.made(), $m.who(), direct()\n$n := lookup other: Asked\n? $n\n";
        let output = server.shell(&server.urls[0], &[], script);
        let said = stdout(&output);
        let values: Vec<&str> =
            said.lines().filter_map(|line| line.split_once(" = \"")).map(|(_, value)| value).collect();
        assert_eq!(values, ["\"", "\"", "one\"", "one/\"", "\"", "\"", "one\""], "{said}{}", stderr(&output));
        assert!(said.contains("NoSuchName") || stderr(&output).contains("NoSuchName"), "{said}");
    }
    // A name of an actor that the role does not have.
    let roles = format!("[roles.one]\nuids = [{}]\nroots = [\"other\"]\nroutines = [\"*\"]\n", uid());
    let server = serve_with(piped(), &program, &roles, &[]);
    let ask = |name: &str| {
        let output = server.shell(&server.urls[0], &[], &format!("$a := lookup {name}: Asked\n? $a\n"));
        format!("{}{}", stdout(&output), stderr(&output)).replace(name, "NAME")
    };
    assert_eq!(ask("asked"), ask("asket"));
    assert!(ask("asked").contains("NoSuchName"), "{}", ask("asked"));
}
