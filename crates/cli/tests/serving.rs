//! `serve` and `shell`: two processes that talk.

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Stdio;

use support::{Server, bifrost, example, examples, stderr, stdout};

/// An answer to this needs an object of the server.
const ASK: &str = "$db := lookup database\n? $db\n? $db.fetch(\"bob\").visits()\n";
const ANSWER: &str = "$db = h1: DataBase\nok 0 calls\n@2 = 0\nok 2 calls\n";

fn check_shell(server: &Server, url: &str, arguments: &[&str]) {
    let output = server.shell(url, arguments, ASK);
    assert_eq!((stdout(&output), stderr(&output)), (ANSWER, ""), "{url}");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn every_transport_carries_the_same_conversation() {
    let server = Server::start(
        "database",
        &[
            "--listen",
            "shm://FOLDER/shm",
            "--listen",
            "tcp://127.0.0.1:0",
            "--listen",
            "tls://127.0.0.1:0",
            "--anonymous-loopback",
        ],
    );
    assert_eq!(server.urls.len(), 4);
    assert!(server.urls[2].starts_with("tcp://127.0.0.1:") && !server.urls[2].ends_with(":0"));
    assert!(server.urls[3].starts_with("tls://127.0.0.1:") && server.urls[3].contains("#sha256-"));
    for url in &server.urls {
        check_shell(&server, url, &[]);
    }
}

#[test]
fn a_shell_finds_the_server_that_was_told_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = bifrost();
    // The descriptor is the standard output here, for want of another one that is open.
    command.args(["serve", "--ready-fd", "1"]).arg(example("database")).current_dir(dir.path());
    let child =
        command.env("XDG_RUNTIME_DIR", dir.path()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let server = Server::ready(child.unwrap(), dir);
    assert!(
        server.urls[0].starts_with("shm://") && server.urls[1].starts_with("unix://"),
        "{:?}",
        server.urls
    );
    let shell = || {
        let mut command = bifrost();
        command.arg("shell").env("XDG_RUNTIME_DIR", server.folder.path());
        command
    };
    let output = support::feed(shell(), ASK);
    assert_eq!((stdout(&output), stderr(&output)), (ANSWER, ""));
    let mut other = shell();
    other.env("BIFROST_URL", &server.urls[1]);
    assert_eq!(stdout(&support::feed(other, ASK)), ANSWER);
}

#[test]
fn the_transcripts_of_the_examples_hold() {
    for (name, collect) in support::EXAMPLES.iter().flat_map(|name| [(name, "check"), (name, "zeal")]) {
        let folder = examples().join(name);
        let root = support::example_root(name);
        let root: Vec<&str> = root.iter().map(String::as_str).collect();
        let server = Server::serve_collected(&example(name), collect, &root);
        let script = std::fs::read_to_string(folder.join("client.bifrost")).unwrap();
        let output = server.shell(&server.urls[0], &["--echo"], &script);
        let file = folder.join("transcript.txt");
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            std::fs::write(&file, stdout(&output)).unwrap();
        }
        assert_eq!(stdout(&output), std::fs::read_to_string(&file).unwrap(), "{name}: {}", stderr(&output));
        let note = "note: the changes that were not committed are lost; use `commit`\n";
        assert!(["", note].contains(&stderr(&output)), "{name}: {}", stderr(&output));
        assert_eq!(output.status.code(), Some(0), "{name}");
    }
}

/// The numbers of a line about a heap, without those that vary.
fn heap_words(line: &str) -> String {
    let number = |word: &str| word.trim_end_matches([',', ';']).parse::<f64>().is_ok();
    let end = |word: &str| word.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').to_owned();
    let words =
        line.split(' ').map(|word| if number(word) { format!("N{}", end(word)) } else { word.to_owned() });
    words.collect::<Vec<_>>().join(" ")
}

const HEAP: &str = "sessions N; objects N stored, N MiB; collections N, N ms in all, N ms at most; allocated N MiB; live after the last N MiB in N \
                    objects; used N MiB, held N MiB of N MiB";

#[test]
fn a_server_says_what_its_collector_did() {
    let mut server = Server::serve_collected(&example("database"), "zeal", &["--gc-stats"]);
    check_shell(&server, &server.urls[0], &[]);
    let mut log = BufReader::new(server.child.stderr.take().unwrap());
    let mut line = || {
        let mut line = String::new();
        log.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    };
    while !line().starts_with("try: ") {}
    support::kill(&server.child, "USR1");
    let asked = line();
    assert_eq!(heap_words(&asked), HEAP);
    assert!(!asked.contains("collections 0,"), "{asked}");
    support::kill(&server.child, "TERM");
    assert_eq!(heap_words(&line()), HEAP);
    // Whether it has seen already that the shell has gone is a matter of time.
    let last = line();
    assert!(last == "stopping" || last == "stopping; open sessions: 1", "{last}");
}

#[test]
fn collections_are_events() {
    let mut command = bifrost();
    command.env("BIFROST_LOG", "bifrost=debug").env("BIFROST_GC", "zeal");
    let server = Server::spawn(command, &example("database"), &["--log", "json"]);
    check_shell(&server, &server.urls[0], &[]);
    let (_, said) = server.end("TERM");
    let event = said.lines().find(|line| line.contains("heap.collected")).unwrap_or_else(|| panic!("{said}"));
    let fields = [
        "collections",
        "pause_us",
        "pause_us_max",
        "live_bytes",
        "live_objects",
        "used_bytes",
        "held_bytes",
        "limit_bytes",
        "allocated_bytes",
    ];
    for field in fields {
        assert!(event.contains(&format!("\"{field}\":")), "no {field} in {event}");
    }
}

/// A client that asks without end and takes no answer, until the server is stuck in writing one to
/// it.
fn stuck(server: &Server) -> UnixStream {
    let mut client = UnixStream::connect(server.folder.path().join("socket")).unwrap();
    client.set_write_timeout(Some(std::time::Duration::from_millis(300))).unwrap();
    client.write_all(b"hello 2\n").unwrap();
    let questions = "describe DataBase\n".repeat(1000);
    while client.write_all(questions.as_bytes()).is_ok() {}
    client
}

#[test]
fn the_first_signal_drains_and_the_second_ends_at_once() {
    for (signals, code) in [(&["TERM"][..], 0), (&["TERM", "TERM"], 1), (&["INT", "TERM"], 1)] {
        let mut server = Server::start("database", &[]);
        // The end waits for its session, which takes no interruption for as long as it has
        // something to tell.
        let client = stuck(&server);
        let mut log = BufReader::new(server.child.stderr.take().unwrap()).lines();
        support::kill(&server.child, signals[0]);
        while log.next().unwrap().unwrap() != "stopping; open sessions: 1" {}
        assert_eq!(server.child.try_wait().unwrap(), None, "it drains");
        signals[1..].iter().for_each(|signal| support::kill(&server.child, signal));
        assert_eq!(server.child.wait().unwrap().code(), Some(code), "{signals:?}");
        let rest: Vec<String> = log.map(Result::unwrap).collect();
        assert!(rest.is_empty(), "{rest:?}");
        drop(client);
    }
}

#[test]
fn tcp_asks_for_the_token() {
    let server = Server::start("database", &["--listen", "tcp://127.0.0.1:0", "--token", "s3cret"]);
    let tcp = &server.urls[1];
    for arguments in [&[][..], &["--token", "wrong"]] {
        let output = server.shell(tcp, arguments, ASK);
        assert_eq!(output.status.code(), Some(4));
        assert!(stderr(&output).contains("--token-file"), "{}", stderr(&output));
    }
    check_shell(&server, tcp, &["--token", "s3cret"]);
    let file = server.folder.path().join("token");
    std::fs::write(&file, "s3cret\n").unwrap();
    check_shell(&server, tcp, &["--token-file", file.to_str().unwrap()]);
    // The local transports know their users by other means.
    check_shell(&server, &server.urls[0], &[]);
}

#[test]
fn a_token_of_digits_is_a_token() {
    let mut command = bifrost();
    command.args(["serve", "--config", "/dev/null", "--print-config"]).env("BIFROST_TOKEN", "12345");
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("# token is set") && !stdout(&output).contains("12345"));
}

#[test]
fn a_token_is_made_up_for_tcp() {
    let server = Server::start("database", &["--listen", "tcp://127.0.0.1:0"]);
    let output = server.shell(&server.urls[1], &[], ASK);
    assert_eq!(output.status.code(), Some(4));
    let (_, said) = server.end("TERM");
    let token = said.lines().find_map(|line| line.strip_prefix("the token is ")).unwrap();
    assert_eq!(token.len(), 32);
}

#[test]
fn signals_end_the_server_in_order() {
    for signal in ["TERM", "INT"] {
        let server = Server::start("database", &["--listen", "shm://FOLDER/shm"]);
        let folder = server.folder.path().to_owned();
        assert!(folder.join("socket").exists() && folder.join("shm").exists());
        // A session that is open does not hold the end up.
        let mut shell = bifrost();
        shell
            .arg("shell")
            .arg(&server.urls[0])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut shell = shell.spawn().unwrap();
        let mut input = shell.stdin.take().unwrap();
        input.write_all(b"? 1\n").unwrap();
        let mut lines = BufReader::new(shell.stdout.take().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "value = 1");
        let mut server = server;
        support::kill(&server.child, signal);
        assert_eq!(server.child.wait().unwrap().code(), Some(0), "{signal}");
        assert!(!folder.join("socket").exists() && !folder.join("shm").exists());
        // The client hears of it when it speaks next.
        let _ = input.write_all(b"? 2\n");
        drop(input);
        let ended = shell.wait_with_output().unwrap();
        assert_eq!(ended.status.code(), Some(4), "{}", stderr(&ended));
    }
}

#[test]
fn a_client_that_dies_in_a_batch_disturbs_nobody() {
    let server = Server::start("database", &["--listen", "shm://FOLDER/shm"]);
    for url in &server.urls {
        let mut shell = bifrost();
        shell.arg("shell").arg(url).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut shell = shell.spawn().unwrap();
        let mut input = shell.stdin.take().unwrap();
        // After the first answer a structure is open, and more of it than is kept back has been sent.
        input.write_all(b"$db := lookup database\n?\nforeach $e in $db.users() do\n").unwrap();
        let mut lines = BufReader::new(shell.stdout.take().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "$db = h1: DataBase");
        for _ in 0..3000 {
            input.write_all(b"$db.fetch(\"bob\")\n").unwrap();
        }
        shell.kill().unwrap();
        shell.wait().unwrap();
        check_shell(&server, url, &[]);
    }
}

#[test]
fn addresses_in_use_are_reported() {
    let server = Server::start("database", &[]);
    let output =
        bifrost().args(["serve", "--listen", &server.urls[0]]).arg(example("database")).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(
        stderr(&output).contains("is in use: another server listens there\nhelp: "),
        "{}",
        stderr(&output)
    );
    check_shell(&server, &server.urls[0], &[]);
}

#[test]
fn nobody_there_is_status_3() {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("unix://{}/socket", dir.path().display());
    let output = bifrost().args(["shell", &url]).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(stderr(&output).contains("help: start a server with `bifrost serve"), "{}", stderr(&output));
}

#[test]
fn bad_settings_are_named() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("bifrost.toml"), "sesions_max = 3\n").unwrap();
    let cases: &[(&[&str], &str)] = &[
        (&[], "sesions_max"),
        (&["--config", "nowhere.toml"], "nowhere.toml"),
        (&["--config", "/dev/null", "--set", "limits.fule_max=3"], "fule_max"),
        (&["--config", "/dev/null", "--set", "sessions_max=many"], "sessions_max"),
        (&["--config", "/dev/null", "--listen", "tcp:/x"], "tcp:/x"),
        (&["--config", "/dev/null", "--token-file", "nowhere"], "nowhere"),
        (&["--config", "/dev/null", "--set", "sessions_max"], "NAME=VALUE"),
        (&["--config", "/dev/null", "--store", ""], "`store` cannot be used: a store is a folder, the URL"),
    ];
    for (arguments, name) in cases {
        let output = bifrost()
            .arg("serve")
            .args(*arguments)
            .arg(example("database"))
            .current_dir(dir.path())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(name), "{arguments:?}: {}", stderr(&output));
    }
}

#[test]
fn settings_in_effect_are_shown() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("bifrost.toml"), "sessions_max = 3\n[limits]\nfuel_max = 7\n").unwrap();
    let mut command = bifrost();
    command
        .args(["serve", "--print-config", "--set", "limits.depth_max=9"])
        .env("BIFROST_STACK_BYTES", "1000000");
    let output = command.current_dir(dir.path()).output().unwrap();
    for line in ["sessions_max = 3\n", "fuel_max = 7\n", "depth_max = 9\n", "stack_bytes = 1000000\n"] {
        assert!(stdout(&output).contains(line), "{line} is not in {}", stdout(&output));
    }
}

#[test]
fn a_script_ends_at_what_is_no_command() {
    let server = Server::start("database", &[]);
    let output = server.shell(&server.urls[0], &[], "? 1\nfetch\n? 2\n");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stdout(&output), "value = 1\nok 0 calls\n");
    assert!(stderr(&output).starts_with("error: line 2, column 1: "), "{}", stderr(&output));
    let output = server.shell(&server.urls[0], &[], "foreach $i in 1.to(3) do\n");
    assert_eq!((output.status.code(), stdout(&output)), (Some(1), ""), "{}", stderr(&output));
}

#[test]
fn stubs_of_a_running_server_are_those_of_its_sources() {
    let server = Server::start("routes", &[]);
    let folder = server.folder.path();
    let from = bifrost()
        .args(["veneer", "--from", &server.urls[0], "-o", "."])
        .current_dir(folder)
        .output()
        .unwrap();
    assert_eq!(from.status.code(), Some(0), "{}", stderr(&from));
    let check = bifrost()
        .args(["veneer", "--check", "-o", "."])
        .arg(example("routes"))
        .current_dir(folder)
        .output()
        .unwrap();
    assert_eq!(check.status.code(), Some(0), "{}", stderr(&check));
}

/// Says lines to a server on a bare socket, as `nc -U` does, and returns all it answers.
fn lines(server: &Server, said: &str) -> String {
    let mut socket = UnixStream::connect(server.folder.path().join("socket")).unwrap();
    socket.write_all(said.as_bytes()).unwrap();
    let mut heard = String::new();
    socket.read_to_string(&mut heard).unwrap();
    heard
}

#[test]
fn a_bare_socket_speaks_the_text_form() {
    let server = Server::start("database", &[]);
    let said = "hello 2 name \"me\"\r\n# nothing\n$db := lookup database: DataBase\n? $db.fetch(\"bob\").visits()\nwhat\nbye\n";
    let heard = lines(&server, said);
    let expected = concat!(
        "welcome 2 bifrost ",
        env!("CARGO_PKG_VERSION"),
        " session 1\n@3 = 0\nok 2 calls\nerror: column 1: `what` is not a command or value; try `help`\nbye\n"
    );
    assert_eq!(heard, expected);
}

#[test]
fn names_of_several_files_are_called_by_their_paths() {
    let program =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../server/tests/programs/same_names.theta");
    let server = Server::serve(&program, &[]);
    let script = "$p := lib.shapes.flat.new_point(1, 2)
$s := lib.shapes.deep.new_point(3, 4, 5)
$c := cell lib.shapes.deep.point
$c.put($s)
? sum($p, $s), $c.get().z(), width($s)
describe lib.shapes.deep.point
describe lib.shapes.flat.zero
new_point(1, 2)
";
    let output = server.shell(&server.urls[0], &[], script);
    assert_eq!(
        stdout(&output),
        "@5 = 15\n@7 = 5\n@8 = 305\nok 7 calls
lib.shapes.deep.point = type < lib.shapes.flat.point
  z () returns (int)
  x () returns (int)
  y () returns (int)
lib.shapes.flat.zero () returns (lib.shapes.flat.point)
"
    );
    assert!(stderr(&output).contains("there is no routine or procedure `new_point`"), "{}", stderr(&output));
    let stubs =
        bifrost().args(["veneer", "-o", "."]).arg(&program).current_dir(&server.folder).output().unwrap();
    assert_eq!(stubs.status.code(), Some(0), "{}", stderr(&stubs));
    let stubs = std::fs::read_to_string(server.folder.path().join("bifrost_stubs.rs")).unwrap();
    for name in
        ["LibShapesFlatPoint", "LibShapesDeepPoint", "lib_shapes_flat_new_point", "lib_shapes_deep_new_point"]
    {
        assert!(stubs.contains(name), "{name}");
    }
}

#[test]
fn lines_before_hello_learn_nothing() {
    let server = Server::start("database", &[]);
    for line in ["describe\n", "help\n", "$x := lookup x: NoType\n", "? 1\n", "GET / HTTP/1.1\n"] {
        let heard = lines(&server, line);
        assert!(
            heard.starts_with("error ") && heard.ends_with("the first line must be `hello 2`\n"),
            "{line}{heard}"
        );
    }
}

#[test]
fn many_lines_with_long_answers_are_all_answered() {
    let server = Server::start("database", &[]);
    let mut said = String::from("hello 2\n");
    said.push_str(&"describe\n".repeat(5000));
    said.push_str("bye\n");
    let mut socket = UnixStream::connect(server.folder.path().join("socket")).unwrap();
    let mut reader = socket.try_clone().unwrap();
    let heard = std::thread::spawn(move || {
        let mut heard = String::new();
        reader.read_to_string(&mut heard).unwrap();
        heard
    });
    socket.write_all(said.as_bytes()).unwrap();
    let heard = heard.join().unwrap();
    assert_eq!(heard.matches("types: ").count(), 5000);
    assert!(heard.ends_with("bye\n"));
}
