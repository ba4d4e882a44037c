//! Servers under a supervisor; `ping`; man pages and completions of every command.

mod support;

use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::{Duration, Instant};

use support::{Server, bifrost, example, kill, stderr, stdout};

/// The socket of a supervisor.
struct Supervisor {
    socket: UnixDatagram,
}

impl Supervisor {
    fn new(path: &Path) -> Supervisor {
        let socket = UnixDatagram::bind(path).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Supervisor { socket }
    }

    fn hear(&self) -> String {
        let mut bytes = [0; 1000];
        let count = self.socket.recv(&mut bytes).expect("a supervisor is told");
        String::from_utf8(bytes[..count].to_vec()).unwrap()
    }

    /// Returns the next words that are no sign of life.
    fn hear_more(&self) -> String {
        loop {
            let words = self.hear();
            if words.trim_end() != "WATCHDOG=1" {
                return words;
            }
        }
    }
}

#[test]
fn a_supervisor_is_told_what_the_server_does() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let supervisor = Supervisor::new(&path);
    let mut command = bifrost();
    command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "200000");
    let server = Server::spawn(command, &example("database"), &[]);
    assert_eq!(supervisor.hear_more().trim_end(), "READY=1");
    // Half of the time of the watchdog is between two signs of life, a little more when others work.
    let since = Instant::now();
    for _ in 0..5 {
        assert_eq!(supervisor.hear().trim_end(), "WATCHDOG=1");
    }
    assert!(since.elapsed() >= Duration::from_millis(350), "{:?}", since.elapsed());
    kill(&server.child, "HUP");
    let words = supervisor.hear_more();
    assert!(words.contains("RELOADING=1") && words.contains("MONOTONIC_USEC="), "{words}");
    assert_eq!(supervisor.hear_more().trim_end(), "READY=1");
    assert_eq!(server.end("TERM").0, Some(0));
    assert_eq!(supervisor.hear_more().trim_end(), "STOPPING=1");
    // Without a watchdog there are no signs of life, and a supervisor that has gone is no hindrance.
    let mut command = bifrost();
    command.env("NOTIFY_SOCKET", folder.path().join("nobody"));
    let server = Server::spawn(command, &example("database"), &[]);
    assert_eq!(server.end("TERM").0, Some(0));
}

#[test]
fn ping_tells_whether_a_server_answers() {
    let server = Server::start("database", &["--listen", "tcp://127.0.0.1:0", "--token", "s3cret"]);
    let ping = |url: &str, arguments: &[&str]| {
        let output = bifrost().arg("ping").arg(url).args(arguments).output().unwrap();
        (output.status.code(), format!("{}{}", stdout(&output), stderr(&output)))
    };
    let (status, said) = ping(&server.urls[0], &[]);
    assert_eq!((status, &said[..]), (Some(0), "the server gives sessions\n"));
    let (status, said) = ping(&server.urls[1], &[]);
    assert_eq!((status, &said[..]), (Some(0), "the server answers, and asks for a token or a role\n"));
    assert_eq!(ping(&server.urls[1], &["--token", "s3cret"]).0, Some(0));
    assert_eq!(ping(&server.urls[1], &["--token", "wrong"]).0, Some(4));
    let url = server.urls[0].clone();
    server.end("TERM");
    assert_eq!(ping(&url, &[]).0, Some(3));
}

/// The commands of the help of a command.
fn commands(path: &[&str]) -> Vec<String> {
    let output = bifrost().args(path).arg("--help").output().unwrap();
    let text = stdout(&output).split("Commands:\n").nth(1).unwrap_or_default();
    let lines = text.lines().take_while(|line| !line.is_empty());
    lines
        .filter_map(|line| line.strip_prefix("  ")?.split(' ').next())
        .map(str::to_owned)
        .filter(|name| !name.is_empty())
        .collect()
}

#[test]
fn every_command_has_a_page_and_is_completed() {
    let folder = tempfile::tempdir().unwrap();
    let output = bifrost().args(["man", "-o"]).arg(folder.path()).output().unwrap();
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""));
    let top = commands(&[]);
    assert!(top.len() > 15 && top.contains(&"man".to_owned()), "{top:?}");
    let mut pages = vec!["bifrost.1".to_owned()];
    let scripts = ["bash", "zsh", "fish", "elvish", "powershell"].map(|shell| {
        let output = bifrost().args(["completions", shell]).output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        stdout(&output).to_owned()
    });
    for command in &top {
        pages.push(format!("bifrost-{command}.1"));
        assert!(scripts.iter().all(|script| script.contains(command.as_str())), "{command}");
        let inner = commands(&[command]);
        pages.extend(inner.iter().map(|inner| format!("bifrost-{command}-{inner}.1")));
    }
    assert!(pages.contains(&"bifrost-store-backup.1".to_owned()));
    for page in &pages {
        let text =
            std::fs::read_to_string(folder.path().join(page)).unwrap_or_else(|e| panic!("{page}: {e}"));
        assert!(text.contains(".SH NAME") && text.contains(".SH SYNOPSIS"), "{page}");
    }
    let written = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(written, pages.len());
    let output = bifrost().arg("man").output().unwrap();
    assert_eq!(stdout(&output), std::fs::read_to_string(folder.path().join("bifrost.1")).unwrap());
    let output = bifrost().args(["man", "-o", "/nowhere"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("/nowhere"), "{}", stderr(&output));
}

#[test]
fn the_help_of_an_argument_is_the_sentence_of_its_setting() {
    let output = bifrost().args(["serve", "--help"]).output().unwrap();
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let help = words(stdout(&output));
    for (setting, default) in [
        ("listen", "; several times for several"),
        ("token", ""),
        ("store", " [default: memory:]"),
        ("metrics", ""),
        ("nodes", " [default: 1]"),
        ("server_heap_bytes_max", ""),
        ("show_places", " [default: local]"),
        ("root_names", " [default: read-only]"),
        ("anonymous_loopback", ""),
        ("plain_networks", ""),
        ("allow_files", "; several times for several"),
        ("tls.certificate", ""),
        ("tls.key", ""),
    ] {
        let expected = words(&format!("{}{default}", bifrost_server::annotated::sentence(setting)));
        assert!(help.contains(&expected), "{expected}\nis not in\n{help}");
    }
}
