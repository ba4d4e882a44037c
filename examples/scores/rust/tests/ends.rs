//! Clients in processes of their own: one watches the changes of another; one that dies while it waits leaves nothing.

mod site;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use site::{Site, score, soon};

fn watcher(url: &str, arguments: &[&str]) -> (Child, impl FnMut() -> String + use<>) {
    let mut watch = Command::new(env!("CARGO_BIN_EXE_watch"));
    watch.args(arguments).env("BIFROST_URL", url).stdout(Stdio::piped());
    let mut child = watch.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    (child, move || lines.next().unwrap().unwrap())
}

#[test]
fn one_process_watches_what_another_changes() {
    let site = Site::start_with("memory:", &["shm://FOLDER/ring", "unix://FOLDER/socket"], |_| {});
    let urls: Vec<String> = site.server.addresses().iter().map(ToString::to_string).collect();
    let (mut child, mut line) = watcher(&urls[0], &["7"]);
    assert_eq!(line(), "ada 3, bob 0");
    let scored = |name: &str, points: &str| {
        let mut score = Command::new(env!("CARGO_BIN_EXE_score"));
        let output = score.args([name, points]).env("BIFROST_URL", &urls[1]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(scored("bob", "2"), "bob has 2 points\n");
    assert_eq!(line(), "ada 3, bob 2");
    assert_eq!(scored("ann", "7"), "ann has 7 points\n");
    assert_eq!(line(), "ada 3, ann 7, bob 2");
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_client_that_dies_while_it_waits_frees_its_session() {
    let listen = ["unix://FOLDER/socket", "shm://FOLDER/ring", "tcp://127.0.0.1:0"];
    let site = Site::start_with("memory:", &listen, |config| config.anonymous_loopback = true);
    for address in site.server.addresses() {
        let (mut child, mut line) = watcher(&address.to_string(), &[]);
        assert_eq!(line(), "ada 3, bob 0");
        assert_eq!(site.server.sessions(), 1);
        // So that it waits, most probably; it is the same if it does not yet.
        std::thread::sleep(Duration::from_millis(50));
        child.kill().unwrap();
        child.wait().unwrap();
        let start = Instant::now();
        soon("the session is gone", || site.server.sessions() == 0);
        assert!(start.elapsed() < Duration::from_secs(10), "{address}: {:?}", start.elapsed());
    }
}

#[test]
fn a_client_that_closes_its_half_is_answered_at_once() {
    let site = Site::start("memory:");
    let mut socket = UnixStream::connect(site.folder.path().join("socket")).unwrap();
    let script = "hello 2\n$s := lookup scores: Scores\n$n := $s.players().length()\n? $n\n? wait 600000, wait 600000\n? $n\n";
    socket.write_all(script.as_bytes()).unwrap();
    // It waits, with commands behind that have come already.
    std::thread::sleep(Duration::from_millis(50));
    socket.shutdown(Shutdown::Write).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut said = String::new();
    socket.read_to_string(&mut said).unwrap();
    assert!(said.contains("@1 = false\n@2 = false\nok"), "{said}");
    assert!(said.ends_with("$n = 2\nok 0 calls\n"), "{said}");
}

#[test]
fn bytes_that_come_while_a_session_waits_are_handled_after_it() {
    let site = Site::start("memory:");
    let mut socket = UnixStream::connect(site.folder.path().join("socket")).unwrap();
    socket
        .write_all(b"hello 2\n$s := lookup scores: Scores\n$bob := $s.player(\"bob\")\n? $bob.points()\n")
        .unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut lines = BufReader::new(socket.try_clone().unwrap()).lines().map(Result::unwrap);
    let found: Vec<String> = lines.by_ref().take(3).collect();
    assert!(found.iter().any(|line| line.ends_with(" = 0")), "{found:?}");
    socket.write_all(b"? wait 600000\n").unwrap();
    std::thread::sleep(Duration::from_millis(50));
    socket.write_all(b"? $bob.points()\nbye\n").unwrap();
    let (s, scores) = site.session();
    score(&s, &scores, "bob", 4);
    let rest: Vec<String> = lines.collect();
    let at = |end: &str| rest.iter().position(|line| line.ends_with(end));
    assert!(at(" = true") < at(" = 4") && at(" = true").is_some(), "{rest:?}");
}
