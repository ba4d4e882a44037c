//! Two servers over one database: what is committed over one is seen over the other, conflicts between them are found,
//! and the end of one loses nothing.

#[path = "../../repository/tests/support/cluster.rs"]
mod cluster;
mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use cluster::cluster;
use support::{Server, bifrost, feed, stderr, stdout, without_commits};

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

/// The connections of a server are ended again and again while it commits: none of its commits is lost or done twice, and nobody has to start
/// anything again.
#[test]
fn a_server_whose_connections_are_ended_goes_on() {
    const ROUNDS: usize = 300;
    const ENDED: u32 = 6;
    let folder = tempfile::tempdir().unwrap();
    let program = program(folder.path());
    let url = format!("{}&application_name=ended", cluster().fresh());
    let server = Server::serve(&program, &["--store", &url, "--metrics", "unix://FOLDER/metrics"]);
    let mut shell = Shell::start(&server);
    let ended = AtomicU32::new(0);
    let (said, rounds) = std::thread::scope(|scope| {
        let work = scope.spawn(|| {
            let round = "$c.add(1)\ncommit\nflush\n";
            shell.say(LOOKUP);
            shell.say(&round.repeat(ROUNDS));
            let mut rounds = ROUNDS;
            // A busy machine ends few connections in that time.
            while ended.load(Ordering::Relaxed) < ENDED && rounds < 100 * ROUNDS {
                std::thread::sleep(Duration::from_millis(20));
                shell.say(&round.repeat(10));
                rounds += 10;
            }
            (shell.end(), rounds)
        });
        while !work.is_finished() {
            let kill = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'ended'";
            ended.fetch_add(cluster().sql(kill).parse::<u32>().unwrap(), Ordering::Relaxed);
        }
        work.join().unwrap()
    });
    let ended = ended.into_inner();
    assert!(ended >= ENDED, "{ended} connections were ended");
    assert!(!said.contains("rror") && !said.contains("ailed"), "{said}");
    assert_eq!(value(&server), rounds as i64);
    let mut metrics = std::os::unix::net::UnixStream::connect(server.folder.path().join("metrics")).unwrap();
    metrics.write_all(b"GET /metrics HTTP/1.1\r\nConnection: close\r\n\r\n").unwrap();
    let mut told = String::new();
    metrics.read_to_string(&mut told).unwrap();
    // `setup` is one more. A database has no log of its own.
    assert!(told.contains(&format!("bifrost_commits_total{{end=\"done\"}} {}\n", rounds + 1)), "{told}");
    assert!(told.contains("bifrost_store_head") && !told.contains("bifrost_store_log_bytes"), "{told}");
    assert_eq!(server.end("TERM").0, Some(0));
}

#[test]
fn a_database_can_be_looked_into() {
    let folder = tempfile::tempdir().unwrap();
    let program = program(folder.path());
    let schema = cluster().schema();
    let url = cluster().url(&schema);
    let tool = |arguments: &[&str]| tool(arguments, "");
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

/// `bifrost store` with these arguments and that on its input: its status, and what it said.
fn tool(arguments: &[&str], input: &str) -> (Option<i32>, String) {
    let mut command = bifrost();
    command.arg("store").args(arguments);
    let output = feed(command, input);
    (output.status.code(), format!("{}{}", stdout(&output), stderr(&output)))
}

/// Adds to a counter, as often as it is told, in as many transactions; one that others have disturbed it does again.
const ADDING: &str = "
import counters (Counter)
add (n: int) returns (int)
  typecase root().lookup(\"counter\")
    when Counter (c): return (c.add(n))
    others: signal failure(\"no counter\")
  end
end add
main (args: sequence[string])
  for i: int in 1.to(args[1].to_int()) do
    n: int := 0
    while n = 0 do
      transaction n := add(1) end except when aborted (why: string): n := 0 end
    end
    print(n.unparse())
  end
end main
";

#[test]
fn programs_keep_their_objects_in_a_database() {
    let folder = tempfile::tempdir().unwrap();
    program(folder.path());
    let adding = folder.path().join("adding.theta");
    std::fs::write(&adding, ADDING).unwrap();
    let url = cluster().fresh();
    let run = |mode: &[&str], times: &str| {
        let mut command = bifrost();
        command.arg("run").args(mode).args(["--store", &url]).arg(&adding).arg(times);
        command
    };
    let said = |mode: &[&str], times: &str| {
        let output = run(mode, times).output().unwrap();
        format!("{}{}", stdout(&output), stderr(&output))
    };
    assert_eq!(said(&[], "2"), "1\n2\n");
    assert_eq!(said(&["--interpret"], "2"), "3\n4\n");
    assert_eq!(said(&[], "1"), "5\n");
    // Two at a time.
    let both = [run(&[], "20"), run(&["--interpret"], "20")];
    let both = both.map(|mut one| one.stdout(Stdio::piped()).spawn().unwrap());
    let mut all: Vec<i64> = Vec::new();
    for one in both {
        let output = one.wait_with_output().unwrap();
        all.extend(stdout(&output).lines().map(|line| line.parse::<i64>().unwrap()));
    }
    all.sort_unstable();
    assert_eq!(all, (6..=45).collect::<Vec<_>>());
    // One that is killed has kept what it said, and perhaps one more.
    let mut child = run(&[], "1000000").stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut last = 0;
    for _ in 0..5 {
        last = lines.next().unwrap().unwrap().parse().unwrap();
    }
    support::kill(&child, "KILL");
    child.wait().unwrap();
    last += lines.count() as i64;
    let found: i64 = said(&[], "1").trim_end().parse().unwrap();
    assert!(found == last + 1 || found == last + 2, "{found} after {last}");
    assert_eq!(tool(&["check", &url], "").0, Some(0));
}

#[test]
fn stores_go_into_databases_and_back() {
    let folder = tempfile::tempdir().unwrap();
    let program = program(folder.path());
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (store, back) = (path("store"), path("back"));
    let server = Server::serve(&program, &["--store", &store]);
    let add = format!("{LOOKUP}$c.add(7)\ncommit\nflush\n");
    assert_eq!(stderr(&server.shell(&server.urls[0], &[], &add)), "");
    assert_eq!(server.end("TERM").0, Some(0));
    let (_, dump) = tool(&["dump", &store], "");
    let schema = cluster().schema();
    let url = cluster().url(&schema);
    // A dump that is wrong makes nothing.
    for (text, wrong) in [
        (
            dump.replace("\"oref\":2,\"record\"", "\"oref\":3,\"record\""),
            "object 1 refers to 2, which does not exist",
        ),
        (dump.lines().take(4).collect::<Vec<_>>().join("\n"), "line 5: the dump ends here"),
    ] {
        let (status, said) = tool(&["load", &url], &text);
        assert_eq!(status, Some(1));
        assert!(said.contains(wrong), "{said}");
        let tables =
            format!("SELECT count(*) FROM information_schema.tables WHERE table_schema = '{schema}'");
        assert_eq!(cluster().sql(&tables), "0");
    }
    assert_eq!(tool(&["load", &url], &dump), (Some(0), "2 objects\n".to_owned()));
    assert_eq!(without_commits(&tool(&["dump", &url], "").1), without_commits(&dump));
    let server = Server::serve(&program, &["--store", &url]);
    assert_eq!(value(&server), 7);
    assert_eq!(stderr(&server.shell(&server.urls[0], &[], &add)), "");
    // One that has a store already, whoever uses it, is left as it is.
    let (status, said) = tool(&["load", &url], &dump);
    assert_eq!(status, Some(1));
    assert!(said.contains("the database has a store already"), "{said}");
    assert_eq!(value(&server), 14);
    assert_eq!(server.end("TERM").0, Some(0));
    let (_, dump) = tool(&["dump", &url], "");
    assert_eq!(tool(&["load", &back], &dump), (Some(0), "2 objects\n".to_owned()));
    let server = Server::serve(&program, &["--store", &back]);
    assert_eq!(value(&server), 14);
}

/// As long as a store is being filled, and when that was cut short, nobody takes it for a whole one.
#[test]
fn a_half_loaded_database_is_no_store() {
    let folder = tempfile::tempdir().unwrap();
    let program = program(folder.path());
    let source = cluster().fresh();
    Server::serve(&program, &["--store", &source]).end("TERM");
    let (_, dump) = tool(&["dump", &source], "");
    let schema = cluster().schema();
    let url = cluster().url(&schema);
    let mut load = bifrost();
    load.args(["store", "load", &url]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut load = load.spawn().unwrap();
    let (start, end) = dump.split_at(dump.rfind("{\"objects\"").unwrap());
    load.stdin.as_mut().unwrap().write_all(start.as_bytes()).unwrap();
    let classes = format!("SELECT max(classes) FROM {schema}.bifrost_store");
    let tables = format!("SELECT count(*) FROM information_schema.tables WHERE table_schema = '{schema}'");
    let begun = Instant::now();
    let is = |text: &str, wanted: &str| cluster().sql_now(text).is_some_and(|found| found == wanted);
    while !is(&tables, "9") || !is(&classes, "2") {
        assert!(begun.elapsed() < Duration::from_secs(30), "the load does not begin");
    }
    let refused = || {
        for command in ["info", "check", "dump", "gc", "load"] {
            let (status, said) = tool(&[command, &url], &dump);
            assert_eq!(status, Some(1), "{command}");
            assert!(said.contains("a dump is being loaded into the database"), "{command}: {said}");
        }
        let output = bifrost().args(["serve", "--store", &url]).arg(&program).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains("a dump is being loaded"), "{}", stderr(&output));
    };
    refused();
    support::kill(&load, "KILL");
    load.wait().unwrap();
    refused();
    // Nothing is heard of it any more.
    cluster().sql(&format!("UPDATE {schema}.bifrost_processes SET seen = now() - INTERVAL '1 hour'"));
    let mut second = bifrost();
    second.args(["store", "load", &url]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut second = second.spawn().unwrap();
    second.stdin.as_mut().unwrap().write_all(start.as_bytes()).unwrap();
    let processes =
        format!("SELECT count(*) FROM {schema}.bifrost_processes WHERE seen > now() - INTERVAL '1 minute'");
    let begun = Instant::now();
    while !is(&tables, "9") || !is(&processes, "1") || !is(&classes, "2") {
        assert!(begun.elapsed() < Duration::from_secs(30), "the second load does not begin");
    }
    // One that was silent for too long has lost its place, and leaves the third alone.
    support::kill(&second, "STOP");
    cluster().sql(&format!("UPDATE {schema}.bifrost_processes SET seen = now() - INTERVAL '1 hour'"));
    assert_eq!(tool(&["load", &url], &dump), (Some(0), "2 objects\n".to_owned()));
    support::kill(&second, "CONT");
    second.stdin.take().unwrap().write_all(end.as_bytes()).unwrap();
    let output = second.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("gave no sign of life for too long"), "{}", stderr(&output));
    assert_eq!(tool(&["check", &url], "").0, Some(0));
    let server = Server::serve(&program, &["--store", &url]);
    assert_eq!(value(&server), 0);
}
