//! Servers that keep their objects: over the end of the process, whoever ends it, and apart for each session.

mod support;

use std::path::{Path, PathBuf};

use support::{Server, bifrost, stderr, stdout};

const COUNTERS: &str = "
Counter = type   value () returns (int)   add (n: int) returns (int) signals (too_many)   end Counter
module counters exports new_counter
  C = class implements Counter
    value: int
    add (n: int) returns (int) signals (too_many)
      if value + n > 100 then signal too_many end
      value := value + n
      return (value)
    end add
  end C
  new_counter () returns (Counter) return (C{value := 0}) end new_counter
end counters
setup () root().insert(\"counter\", new_counter()) end setup
";

fn program(folder: &Path) -> PathBuf {
    let path = folder.join("counters.theta");
    std::fs::write(&path, COUNTERS).unwrap();
    path
}

#[track_caller]
fn said(server: &Server, script: &str) -> String {
    let output = server.shell(&server.urls[0], &[], script);
    assert_eq!(stderr(&output), "");
    stdout(&output).to_owned()
}

#[test]
fn what_was_committed_is_there_after_the_server_was_killed() {
    let folder = tempfile::tempdir().unwrap();
    let program = program(folder.path());
    let store = folder.path().join("store").display().to_string();
    let start = || Server::serve(&program, &["--store", &store]);
    let mut server = start();
    for round in 1..=5 {
        let script = "$c := lookup counter: Counter\n? $c.add(3)\ncommit\n? $c.add(50)\nflush\n";
        let expected = format!(
            "@2 = {}\nok 1 calls\n@2 = {}\nok 1 calls\n$c = h1: Counter\nok 0 calls\n",
            3 * round,
            3 * round + 50
        );
        assert_eq!(said(&server, script), expected);
        // Without a word to anybody: what was not committed is gone.
        server.end("KILL");
        server = start();
        assert_eq!(
            said(&server, "$c := lookup counter: Counter\n? $c.value()\n"),
            format!("@2 = {}\nok 1 calls\n", 3 * round)
        );
    }
    assert_eq!(server.end("TERM").0, Some(0));
}

#[test]
fn sessions_see_what_others_have_committed() {
    let folder = tempfile::tempdir().unwrap();
    let program = program(folder.path());
    let server = Server::serve(&program, &["--store", "memory:"]);
    said(&server, "$c := lookup counter: Counter\n$c.add(7)\nflush\n");
    assert_eq!(said(&server, "$c := lookup counter: Counter\n? $c.value()\n"), "@2 = 0\nok 1 calls\n");
    said(&server, "$c := lookup counter: Counter\n$c.add(7)\ncommit\nflush\n");
    assert_eq!(said(&server, "$c := lookup counter: Counter\n? $c.value()\n"), "@2 = 7\nok 1 calls\n");
}

#[test]
fn a_changed_class_is_refused_with_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let program = program(folder.path());
    let store = folder.path().join("store").display().to_string();
    Server::serve(&program, &["--store", &store]).end("TERM");
    std::fs::write(
        &program,
        COUNTERS
            .replace("value: int\n", "value: int   step: int\n")
            .replace("value := 0", "value := 0, step := 1"),
    )
    .unwrap();
    let output = bifrost().args(["serve", "--store", &store]).arg(&program).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(
        said.contains("the class `C` is not what it was when its objects were stored: `step` came"),
        "{said}"
    );
}

#[test]
fn a_store_has_one_server() {
    let folder = tempfile::tempdir().unwrap();
    let program = program(folder.path());
    let store = folder.path().join("store").display().to_string();
    let first = Server::serve(&program, &["--store", &store]);
    let output = bifrost().args(["serve", "--store", &store]).arg(&program).output().unwrap();
    assert!(stderr(&output).contains("another process has the store open"), "{}", stderr(&output));
    drop(first);
}

#[test]
fn a_store_can_be_looked_into() {
    let folder = tempfile::tempdir().unwrap();
    let program = program(folder.path());
    let store = folder.path().join("store").display().to_string();
    let tool = |arguments: &[&str]| {
        let output = bifrost().arg("store").args(arguments).output().unwrap();
        (output.status.code(), format!("{}{}", stdout(&output), stderr(&output)))
    };
    let (status, said) = tool(&["info", &store]);
    assert_eq!(status, Some(1));
    assert!(said.contains("there is no store in"), "{said}");
    let server = Server::serve(&program, &["--store", &store]);
    let script = "$c := lookup counter: Counter\n$c.add(7)\ncommit\nflush\n";
    assert!(self::said(&server, script).contains("ok 1 calls"));
    assert!(tool(&["info", &store]).1.contains("another process has the store open"));
    server.end("TERM");
    let (_, said) = tool(&["info", &store, "--json"]);
    assert!(said.contains("\"objects\":2"), "{said}");
    assert_eq!(tool(&["check", &store]).0, Some(0));
    let (_, said) = tool(&["dump", &store]);
    assert_eq!(said.lines().count(), 2);
    assert!(said.contains('7'), "{said}");
    let (status, said) = tool(&["gc", &store]);
    assert_eq!((status, said.as_str()), (Some(0), "2 objects live, 0 were freed, 0 bytes\n"));
}
