//! Two servers over one database: what is committed over one is seen over the other, conflicts between them are found,
//! and the end of one loses nothing.

#[path = "../../repository/tests/support/cluster.rs"]
mod cluster;
mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use cluster::cluster;
use support::{Server, bifrost, stderr, stdout};

const COUNTERS: &str = "
Counter = type   value () returns (int)   add (n: int) returns (int)   end Counter
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
setup () root().insert(\"counter\", new_counter()) end setup
";

const LOOKUP: &str = "$c := lookup counter: Counter\n";

fn program(folder: &Path) -> PathBuf {
    let path = folder.join("counters.theta");
    std::fs::write(&path, COUNTERS).unwrap();
    path
}

/// What the counter is over a server.
fn value(server: &Server) -> i64 {
    let output = server.shell(&server.urls[0], &[], &format!("{LOOKUP}? $c.value()\n"));
    let said = stdout(&output);
    let value = said.lines().find_map(|line| line.strip_prefix("@2 = ")).map(str::parse);
    value.unwrap_or_else(|| panic!("{said}{}", stderr(&output))).unwrap()
}

/// It is so within a bounded time, without anybody starting anything again.
#[track_caller]
fn soon(server: &Server, wanted: i64) {
    let start = Instant::now();
    while value(server) != wanted {
        assert!(start.elapsed() < Duration::from_secs(10), "{} instead of {wanted}", value(server));
    }
}

/// A shell that is asked line by line.
struct Shell(Child);

impl Shell {
    fn start(server: &Server) -> Shell {
        let mut command = bifrost();
        command
            .arg("shell")
            .arg(&server.urls[0])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Shell(command.spawn().unwrap())
    }

    fn say(&mut self, script: &str) {
        let input = self.0.stdin.as_mut().unwrap();
        input.write_all(script.as_bytes()).unwrap();
        input.flush().unwrap();
    }

    /// Everything that it still says.
    fn end(mut self) -> String {
        drop(self.0.stdin.take());
        let output = self.0.wait_with_output().unwrap();
        format!("{}{}", stdout(&output), stderr(&output))
    }
}

#[test]
fn servers_share_a_database() {
    let folder = tempfile::tempdir().unwrap();
    let program = program(folder.path());
    let url = cluster().fresh();
    // Both at once: the objects are made by one of them.
    let start = || Server::serve(&program, &["--store", &url]);
    let [one, other] =
        std::thread::scope(|scope| [0, 1].map(|_| scope.spawn(start)).map(|server| server.join().unwrap()));
    let add = format!("{LOOKUP}$c.add(7)\ncommit\nflush\n");
    assert_eq!(stderr(&one.shell(&one.urls[0], &[], &add)), "");
    soon(&other, 7);
    // A session reads over one server, and another commits over the other.
    let mut late = Shell::start(&one);
    late.say(&format!("{LOOKUP}? $c.value()\n"));
    let mut heard = String::new();
    let mut output = BufReader::new(late.0.stdout.take().unwrap());
    while !heard.contains("ok ") {
        output.read_line(&mut heard).unwrap();
    }
    assert!(heard.contains("@2 = 7"), "{heard}");
    assert_eq!(stderr(&other.shell(&other.urls[0], &[], &add)), "");
    late.say("$c.add(1)\n$d := commit\nflush\n");
    let said = late.end();
    output.read_to_string(&mut heard).unwrap();
    assert!(format!("{heard}{said}").contains("Conflict"), "{heard}{said}");
    soon(&one, 14);
    soon(&other, 14);
    for server in [one, other] {
        assert_eq!(server.end("TERM").0, Some(0));
    }
}

#[test]
fn a_server_that_is_killed_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let program = program(folder.path());
    let url = cluster().fresh();
    let start = || Server::serve(&program, &["--store", &url]);
    let other = start();
    for round in 1..=4 {
        let before = value(&other);
        let one = start();
        let mut shell = Shell::start(&one);
        shell.say(LOOKUP);
        shell.say(&"$c.add(1)\ncommit\n? $c.value()\n".repeat(2000));
        // In the middle of its commits.
        let mut output = BufReader::new(shell.0.stdout.take().unwrap());
        let (mut heard, mut last) = (String::new(), before);
        while last < before + 7 * round {
            heard.clear();
            assert!(output.read_line(&mut heard).unwrap() > 0, "the server ended by itself");
            last = heard.split(" = ").nth(1).and_then(|n| n.trim().parse().ok()).unwrap_or(last);
        }
        one.end("KILL");
        let mut rest = String::new();
        output.read_to_string(&mut rest).unwrap();
        shell.end();
        for line in rest.lines() {
            last = line.split(" = ").nth(1).and_then(|n| n.trim().parse().ok()).unwrap_or(last);
        }
        // What was acknowledged is there, and perhaps the commit that was under way.
        let start = Instant::now();
        while value(&other) < last {
            assert!(start.elapsed() < Duration::from_secs(10), "{} instead of {last}", value(&other));
        }
        let found = value(&other);
        assert!(found == last || found == last + 1, "{found} after {last} was acknowledged");
    }
}

#[test]
fn a_database_can_be_looked_into() {
    let folder = tempfile::tempdir().unwrap();
    let program = program(folder.path());
    let schema = cluster().schema();
    let url = cluster().url(&schema);
    let tool = |arguments: &[&str]| {
        let output = bifrost().arg("store").args(arguments).output().unwrap();
        (output.status.code(), format!("{}{}", stdout(&output), stderr(&output)))
    };
    let (status, said) = tool(&["info", &url.replace("bifrost@", "bifrost:s3cret@")]);
    assert_eq!(status, Some(1));
    assert!(said.contains("there is no store in `postgres://") && !said.contains("s3cret"), "{said}");
    let server = Server::serve(&program, &["--store", &url]);
    let (_, said) = tool(&["info", &url, "--json"]);
    assert!(said.contains("\"objects\":2"), "{said}");
    assert_eq!(tool(&["check", &url]).0, Some(0));
    assert_eq!(
        tool(&["dump", &url])
            .1
            .lines()
            .filter(|line| line.contains("\"oref\":") && line.contains("\"commit\":"))
            .count(),
        2
    );
    let (status, said) = tool(&["gc", &url]);
    assert_eq!((status, said.as_str()), (Some(0), "2 objects live, 0 were freed, 0 bytes\n"));
    // A changed class is refused as with a folder.
    assert_eq!(server.end("TERM").0, Some(0));
    cluster().sql(&format!("UPDATE {schema}.bifrost_store SET format = 2"));
    let output = bifrost().args(["serve", "--store", &url]).arg(&program).output().unwrap();
    assert!(stderr(&output).contains("the store has format 2"), "{}", stderr(&output));
}
