//! Programs on several processes: what they print does not depend on how many there are, and what is lost is told, in time.

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use support::{bifrost, examples, stderr, stdout};
use tempfile::TempDir;

/// Nothing here takes longer, on a busy machine either.
const SOON: Duration = Duration::from_secs(60);

/// A capsule that listens, and ends with its test.
struct Capsule {
    child: Option<Child>,
    url: String,
}

impl Capsule {
    fn start(program: &Path, arguments: &[&str]) -> Capsule {
        let mut command = bifrost();
        command.arg("capsule").args(arguments).arg(program).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let url = line.strip_prefix("ready ").map(|url| url.trim().to_owned());
        let Some(url) = url else { panic!("{}", stderr(&child.wait_with_output().unwrap())) };
        Capsule { child: Some(child), url }
    }

    fn end(mut self) -> Output {
        self.child.take().unwrap().wait_with_output().unwrap()
    }
}

impl Drop for Capsule {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn program(folder: &TempDir, text: &str) -> PathBuf {
    let file = folder.path().join("program.theta");
    std::fs::write(&file, text).unwrap();
    file
}

fn run(arguments: &[&str], program: &Path) -> Output {
    bifrost().arg("run").args(arguments).arg(program).output().unwrap()
}

#[test]
fn examples_print_the_same_on_several_capsules() {
    for name in ["buffers", "fib", "quadrature", "queen_objects", "queens"] {
        let file = examples().join(format!("actors/{name}.theta"));
        let expected = std::fs::read_to_string(file.with_extension("txt")).unwrap();
        let ways: [(&[&str], &str); 5] = [
            (&["--capsules", "2"], "check"),
            (&["--capsules", "2", "--nodes", "2"], "check"),
            (&["--capsules", "3", "--interpret"], "ordinary"),
            (&["--capsules", "2"], "zeal=50"),
            (&["--capsules", "2", "--nodes", "2", "--seed", "7"], "ordinary"),
        ];
        for (way, collect) in ways {
            let output =
                bifrost().arg("run").args(way).arg(&file).env("BIFROST_GC", collect).output().unwrap();
            let said = (stdout(&output), stderr(&output), output.status.code());
            assert_eq!(said, (expected.as_str(), "", Some(0)), "{name}, {way:?}, {collect}");
        }
    }
}

const NUMBERED: &str = "Checker = actor
  next: int  wrong: int
  new () make {next := 1, wrong := 0} end new
  take (n: int, text: string)
    if n ~= next | text ~= n.unparse() then wrong := wrong + 1 end
    next := n + 1
  end take
  result () returns (string)
    print(\"printed on \" || node().unparse())
    reply (node().unparse() || \" of \" || nodes().unparse() || \": \" || next.unparse() || \", wrong \" || wrong.unparse())
  end result
end Checker
Sender = actor
  start (c: Checker, count: int) returns (string)
    for n: int in 1.to(count) do send c.take(n, n.unparse()) end
    s: string := c.result()
    reply (s)
  end start
end Sender
main ()
  for k: int in 0.to(nodes() - 1) do
    c: Checker := Checker.new() on k
    s: Sender := Sender.new() on (nodes() - 1 - k)
    text: string := s.start(c, 3000)
    print(text)
  end
end main";

#[test]
fn messages_keep_their_order_and_what_is_printed_comes_first() {
    let folder = tempfile::tempdir().unwrap();
    let output = run(&["--capsules", "3", "--nodes", "2"], &program(&folder, NUMBERED));
    let expected: String = (0..6).map(|k| format!("printed on {k}\n{k} of 6: 3001, wrong 0\n")).collect();
    assert_eq!((stdout(&output), stderr(&output)), (expected.as_str(), ""));
}

#[test]
fn actors_with_state_are_spread_over_capsules() {
    let folder = tempfile::tempdir().unwrap();
    let program = program(&folder, include_str!("../../../bench/sizes/spread.theta"));
    for capsules in [&["--capsules", "2"][..], &["--capsules", "2", "--nodes", "2"]] {
        for how in ["anywhere", "later"] {
            let mut command = bifrost();
            command.arg("run").args(capsules).arg(&program).args(["1000", "10", "20", how]);
            let output = command.output().unwrap();
            let percent = stdout(&output).split(' ').next().and_then(|percent| percent.parse::<u32>().ok());
            let even = percent.is_some_and(|percent| percent <= 10);
            assert!(even, "{capsules:?}, {how}: {}{}", stdout(&output), stderr(&output));
        }
    }
}

#[test]
fn a_blocked_actor_of_another_capsule_refuses_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let program = program(&folder, include_str!("../../capsule/tests/blocked.theta"));
    let bounds = ["--mailbox-bytes-max", "1048576", "--heap-bytes-max", "33554432"];
    for at in ["0", "1"] {
        let mut command = bifrost();
        command.args(["run", "--capsules", "2"]).args(bounds).arg(&program).args(["main", at]);
        let output = command.output().unwrap();
        let (said, wrong) = (stdout(&output), stderr(&output));
        assert!(
            said.starts_with("mailbox full\n1000\n") && said.ends_with(" sent, 0 lost\n"),
            "{said}{wrong}"
        );
        assert_eq!((wrong, output.status.code()), ("", Some(0)), "on {at}");
    }
}

/// All nodes send to each other, much more than sockets and queues hold.
const FLOOD: &str = "Sink = actor
  n: int
  new () make {n := 0} end new
  take (text: string) n := n + text.length() end take
  get () returns (int) reply (n) end get
end Sink
Flooder = actor
  flood (s: Sink, count: int, text: string) returns (int)
    for i: int in 1.to(count) do send s.take(text) end
    x: int := s.get()
    reply (x)
  end flood
end Flooder
main (args: sequence[string])
  count: int := args[1].to_int()
  text: string := \"x\"
  for i: int in 1.to(10) do text := text || text end
  a: array[int] := array_fill[int](1, nodes(), 0)
  for k: int in 1.to(nodes()) do
    s: Sink := Sink.new() on (nodes() - k)
    f: Flooder := Flooder.new() on (k - 1)
    a[k] := f.flood(s, count, text)
  end
  sum: int := 0
  for v: int in a.elements() do sum := sum + v end
  print(sum.unparse())
end main";

#[test]
fn capsules_that_write_to_each_other_do_not_wait_for_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let file = program(&folder, FLOOD);
    let output = bifrost().args(["run", "--capsules", "2"]).arg(&file).arg("10000").output().unwrap();
    let sum = 2 * 10_000 * 1024;
    assert_eq!((stdout(&output), stderr(&output)), (format!("{sum}\n").as_str(), ""));
    // The same over shared memory, where nodes that have nothing to do read by themselves.
    let url = format!("shm://{}/memory", folder.path().display());
    let capsule = Capsule::start(&file, &["--listen", &url]);
    let output = bifrost().args(["run", "--join", &capsule.url]).arg(&file).arg("10000").output().unwrap();
    assert_eq!((stdout(&output), stderr(&output)), (format!("{sum}\n").as_str(), ""));
    assert_eq!(capsule.end().status.code(), Some(0));
}

#[test]
fn statistics_and_traces_are_those_of_all_capsules() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.json");
    let queens = examples().join("actors/queens.theta");
    let mut command = bifrost();
    command
        .args(["run", "--capsules", "2", "--nodes", "2", "--stats", "--gc-stats", "--trace"])
        .arg(&trace)
        .arg(&queens);
    let output = command.output().unwrap();
    assert_eq!((stdout(&output), output.status.code()), ("8 queens: 92 solutions\n", Some(0)));
    let lines: Vec<&str> = stderr(&output).lines().collect();
    assert!(lines[0].starts_with("collections "), "{lines:?}");
    let made = (0..4).map(|node| {
        let line = lines[1 + node].strip_prefix(&format!("node {node}: actors made ")).unwrap();
        line.split(',').next().unwrap().parse::<u64>().unwrap()
    });
    assert_eq!(made.sum::<u64>(), 1_965, "{lines:?}");
    let events: Vec<serde_json::Value> =
        serde_json::from_str(&std::fs::read_to_string(&trace).unwrap()).unwrap();
    for (pid, node) in [(1, 0), (1, 1), (2, 2), (2, 3)] {
        let of = events.iter().filter(|event| event["pid"] == pid && event["tid"] == node);
        assert!(of.filter(|event| event["cat"] == "call").count() > 10, "node {node}");
    }
}

#[test]
fn rings_over_two_capsules_go_and_those_in_use_stay() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rings.theta");
    let mut command = bifrost();
    let output = command.args(["run", "--capsules", "2", "--stats"]).arg(&file).arg("40").output().unwrap();
    assert_eq!((stdout(&output), output.status.code()), ("1000 of 1000\n", Some(0)));
    // 40,000 cells were made, half of them in each.
    for node in 0..2 {
        let line = stderr(&output).lines().find(|line| line.starts_with(&format!("node {node}: "))).unwrap();
        let swept = line.split("in cycles of garbage ").nth(1).unwrap();
        assert!(swept.parse::<u64>().unwrap() > 5_000, "{line}");
    }
}

#[test]
fn who_floods_a_slow_actor_of_another_capsule_waits_for_it() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../capsule/tests/flood.theta");
    let run = |what: &str, count: &str| {
        let mut command = bifrost();
        let command = command.args(["run", "--capsules", "2", "--stats"]).arg(&file).args([what, count]);
        command.output().unwrap()
    };
    // A system that stops one process for longer than the other waits for it lets mail grow in any
    // one run.
    let mut longest: Vec<u64> = vec![];
    while longest.last().is_none_or(|last| *last >= 100_000) {
        assert!(longest.len() < 6, "so many messages were queued, where 100,000 should do: {longest:?}");
        let output = run("slow", "2000000");
        let expected = "2000000 came, 0 of them in disorder\n";
        assert_eq!((stdout(&output), output.status.code()), (expected, Some(0)));
        let line = stderr(&output).lines().find(|line| line.starts_with("node 1: ")).unwrap();
        let queued = line.split("longest queue ").nth(1).and_then(|rest| rest.split(';').next()).unwrap();
        longest.push(queued.parse().unwrap());
    }
    assert_eq!(stdout(&run("peers", "100000")), "both have all\n");
}

/// Runs as long as it is let.
const LONG: &str = "Spinner = functional actor
  spin (n: int) returns (int)
    x: int := 0
    for i: int in 1.to(n) do x := x + i // 7 end
    reply (x)
  end spin
end Spinner
main ()
  print(\"begun\")
  begin
    a: array[int] := array_fill[int](1, nodes(), 0)
    for k: int in 1.to(nodes()) do
      a[k] := (Spinner.new() on (k - 1)).spin(1000000000000)
    end
    sum: int := 0
    for v: int in a.elements() do sum := sum + v end
    print(sum.unparse())
  end except when failure (why: string): print(\"caught \" || why) end
  x: int := (Spinner.new() on 0).spin(10)
  begin
    y: int := (Spinner.new() on 1).spin(10)
    print(y.unparse())
  end except when failure (why: string): print(\"again \" || why) end
end main";

/// The processes that a process has started.
fn children(of: u32) -> Vec<u32> {
    let path = format!("/proc/{of}/task/{of}/children");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().map(|id| id.parse().unwrap()).collect()
}

fn is_there(process: u32) -> bool {
    // One that has ended and was not waited for is not there.
    std::fs::read_to_string(format!("/proc/{process}/stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or_default().trim_start().starts_with('Z'))
}

fn await_end(process: u32) {
    let until = Instant::now() + SOON;
    while is_there(process) {
        assert!(Instant::now() < until, "process {process} does not end");
        std::thread::yield_now();
    }
}

fn kill(process: u32) {
    let id = rustix::process::Pid::from_raw(process as i32).unwrap();
    rustix::process::kill_process(id, rustix::process::Signal::KILL).unwrap();
}

/// A run that has begun, and the processes that it has started.
fn begin(mut command: Command) -> (Child, Vec<u32>) {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = [0; 6];
    child.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    assert_eq!(&first, b"begun\n");
    let started = children(child.id());
    (child, started)
}

#[test]
fn a_capsule_that_is_killed_fails_the_requests_to_it() {
    let folder = tempfile::tempdir().unwrap();
    // Only the lost one has something to do that lasts, but the first.
    let text = LONG.replace("on (k - 1)).spin(1000000000000)", "on (k - 1)).spin(if_last(k))").replace(
        "main ()",
        "if_last (k: int) returns (int)
  if k = nodes() then return (1000000000000) end
  return (10)
end if_last
main ()",
    );
    let mut command = bifrost();
    command.args(["run", "--capsules", "2"]).arg(program(&folder, &text));
    let (child, started) = begin(command);
    assert_eq!(started.len(), 1);
    kill(started[0]);
    let output = child.wait_with_output().unwrap();
    assert_eq!(stdout(&output), "caught node lost\nagain node lost\n");
    assert!(stderr(&output).contains("capsule.lost"), "{}", stderr(&output));
    assert_eq!(output.status.code(), Some(0), "the program has caught it");
    await_end(started[0]);
}

#[test]
fn queens_end_when_a_capsule_is_killed() {
    let queens = std::fs::read_to_string(examples().join("actors/queens.theta")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = program(&folder, &queens.replace("  n: int := 8", "  print(\"begun\")\n  n: int := 8"));
    let mut command = bifrost();
    command.args(["run", "--capsules", "3"]).arg(file).arg("14");
    let (child, started) = begin(command);
    assert_eq!(started.len(), 2);
    kill(started[1]);
    let since = Instant::now();
    let output = child.wait_with_output().unwrap();
    assert!(since.elapsed() < SOON);
    assert_eq!((stdout(&output), output.status.code()), ("", Some(1)));
    assert!(
        stderr(&output).contains("`main` ended with the exception failure(\"node lost\")"),
        "{}",
        stderr(&output)
    );
    started.into_iter().for_each(await_end);
}

#[test]
fn capsules_end_with_the_process_that_started_them() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = bifrost();
    command.args(["run", "--capsules", "3", "--nodes", "2"]).arg(program(&folder, LONG));
    let (mut child, started) = begin(command);
    assert_eq!(started.len(), 2);
    child.kill().unwrap();
    child.wait().unwrap();
    started.into_iter().for_each(await_end);
}

#[test]
fn capsules_that_listen_are_joined() {
    let folder = tempfile::tempdir().unwrap();
    let file = program(&folder, NUMBERED);
    let token = folder.path().join("token");
    std::fs::write(&token, "s3cret\n").unwrap();
    let token = token.to_str().unwrap();
    let tcp = Capsule::start(&file, &["--listen", "tcp://127.0.0.1:0", "--token-file", token]);
    let url = format!("unix://{}/socket", folder.path().display());
    let unix = Capsule::start(&file, &["--listen", &url, "--token-file", token, "--interpret"]);
    let url = format!("shm://{}/memory", folder.path().display());
    let shm = Capsule::start(&file, &["--listen", &url, "--token-file", token]);
    let list = format!("{},{},{}", tcp.url, unix.url, shm.url);
    let output = run(&["--join", &list, "--nodes", "2", "--token-file", token], &file);
    let expected = (0..8).flat_map(|k| [format!("printed on {k}"), format!("{k} of 8: 3001, wrong 0")]);
    // Where the answer comes by way of a third capsule, what is printed may come later.
    let sorted = |mut lines: Vec<String>| {
        lines.sort();
        lines
    };
    assert_eq!(sorted(stdout(&output).lines().map(String::from).collect()), sorted(expected.collect()));
    assert_eq!(stderr(&output), "");
    for capsule in [tcp, unix, shm] {
        let output = capsule.end();
        assert_eq!((stderr(&output), output.status.code()), ("", Some(0)));
    }
    assert!(!folder.path().join("socket").exists());
}

#[test]
fn who_does_not_belong_to_a_run_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = program(&folder, NUMBERED);
    let refused = |output: Output, code: i32, said: &str| {
        assert!(stderr(&output).contains(said), "{}", stderr(&output));
        assert_eq!(output.status.code(), Some(code));
    };
    let capsule = Capsule::start(&file, &["--listen", "tcp://127.0.0.1:0", "--token", "s3cret"]);
    for token in [&["--token", "s3cres"][..], &[]] {
        let output = run(&[&["--join", &capsule.url], token].concat(), &file);
        refused(output, 4, "has another token");
    }
    let other = folder.path().join("other.theta");
    std::fs::write(&other, NUMBERED.replace("3000", "3001")).unwrap();
    let output = run(&["--join", &capsule.url, "--token", "s3cret"], &other);
    refused(output, 4, "refuses: it runs another program");
    // Some say nothing, some half of something, and some what nobody understands: none keeps others waiting.
    let port: u16 = capsule.url.rsplit(':').next().unwrap().parse().unwrap();
    let mut visitors = Vec::new();
    for bytes in
        [&b""[..], b"GET / HTTP/1.1\r\n\r\n", &[45, 0, 0, 0, 16, b'B', b'I'], &[0xff; 400], &[0; 400]]
    {
        let mut visitor = TcpStream::connect(("127.0.0.1", port)).unwrap();
        visitor.write_all(bytes).unwrap();
        visitors.push(visitor);
    }
    let output = run(&["--join", &capsule.url, "--token", "s3cret"], &file);
    assert_eq!((stderr(&output), output.status.code()), ("", Some(0)));
    // Those that were not understood have been closed, and with the capsule all.
    let said = capsule.end();
    assert_eq!(said.status.code(), Some(0));
    for why in ["longer than allowed", "kind 0", "it closed the connection", "runs another program"] {
        assert!(stderr(&said).contains(why), "{why}: {}", stderr(&said));
    }
    for mut visitor in visitors {
        visitor.set_read_timeout(Some(SOON)).unwrap();
        // The end, or a reset for what was not read.
        let _ = visitor.read(&mut [0]);
    }
    let output = run(&["--join", "tcp://127.0.0.1:1", "--token", "x"], &file);
    refused(output.clone(), 3, "no server listens on tcp://127.0.0.1:1");
    refused(output, 3, "help: start the capsule with `bifrost capsule --listen ADDRESS FILE.theta`");
}

#[test]
fn strangers_who_say_nothing_keep_no_run_from_joining() {
    let folder = tempfile::tempdir().unwrap();
    let file = program(&folder, NUMBERED);
    let capsule = Capsule::start(&file, &["--listen", "tcp://127.0.0.1:0", "--token", "s3cret"]);
    let port: u16 = capsule.url.rsplit(':').next().unwrap().parse().unwrap();
    let mut strangers: Vec<TcpStream> =
        (0..300).map(|_| TcpStream::connect(("127.0.0.1", port)).unwrap()).collect();
    for stranger in &mut strangers[200..] {
        // The begin of a greeting. Its connection may have made way.
        let _ = stranger.write_all(&[45, 0, 0, 0, 16, b'B', b'I']);
    }
    let output = run(&["--join", &capsule.url, "--token", "s3cret"], &file);
    assert_eq!((stderr(&output), output.status.code()), ("", Some(0)));
    assert_eq!(capsule.end().status.code(), Some(0));
}

#[test]
fn a_capsule_that_hears_nothing_of_a_run_ends_after_its_time() {
    let folder = tempfile::tempdir().unwrap();
    let file = program(&folder, NUMBERED);
    let url = format!("unix://{}/socket", folder.path().display());
    let capsule = Capsule::start(&file, &["--listen", &url, "--wait-ms", "200"]);
    // Who says half of something does not make it wait longer.
    let mut visitor = UnixStream::connect(folder.path().join("socket")).unwrap();
    visitor.write_all(&[45, 0, 0, 0, 16]).unwrap();
    let output = capsule.end();
    assert_eq!(output.status.code(), Some(3));
    assert!(stderr(&output).contains("no run began within 200 ms"), "{}", stderr(&output));
}

#[test]
fn numbers_of_capsules_that_cannot_be() {
    let queens = examples().join("actors/queens.theta");
    for (way, code, said) in [
        (&["--capsules", "0"][..], 2, "0 is not in 1..=64"),
        (&["--capsules", "65"], 2, "65 is not in 1..=64"),
        (&["--capsules", "2", "--nodes", "128"], 2, "2 capsules with 128 nodes each are too many"),
        (&["--capsules", "2", "--store", "memory:"], 2, "a program over a store has one node"),
        (&["--join", "unix:///x", "--capsules", "2"], 2, "cannot be used with"),
        (&["--join", "unix:///x", "--seed", "2"], 2, "cannot be used with"),
        (&["--join", "nonsense"], 2, "add a scheme"),
    ] {
        let output = run(way, &queens);
        assert!(stderr(&output).contains(said), "{way:?}: {}", stderr(&output));
        assert_eq!(output.status.code(), Some(code), "{way:?}");
    }
    let mut command = bifrost();
    command.args(["capsule", "--listen", "tcp://127.0.0.1:0"]).arg(&queens);
    let output = command.output().unwrap();
    assert!(stderr(&output).contains("a capsule on TCP or TLS needs a token"), "{}", stderr(&output));
    assert_eq!(output.status.code(), Some(2));
}

/// A trader that listens, and ends with its test.
struct Trader {
    child: Child,
    url: String,
}

impl Trader {
    fn start(folder: &TempDir) -> Trader {
        Trader::spawn(bifrost(), &format!("unix://{}/trader", folder.path().display()), &[])
    }

    fn spawn(mut command: Command, listen: &str, arguments: &[&str]) -> Trader {
        command.args(["trader", "--listen", listen]).args(arguments).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let url = line.strip_prefix("ready ").expect("it starts").trim().to_owned();
        Trader { child, url }
    }

    /// The number of capsules that it lists.
    fn listed(&self) -> usize {
        let mut list = bifrost();
        let list = list.args(["trader", "list", "--json", "--service", "bifrost.Capsule", "--trader"]);
        stdout(&list.arg(&self.url).output().unwrap()).lines().count()
    }

    fn wait_until(&self, listed: usize) {
        let start = Instant::now();
        while self.listed() != listed {
            assert!(start.elapsed() < SOON, "{} are listed, and not {listed}", self.listed());
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Trader {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn capsules_are_found_through_a_trader() {
    let folder = tempfile::tempdir().unwrap();
    let trader = Trader::start(&folder);
    let queens = examples().join("actors/queens.theta");
    let at = |name: &str| format!("unix://{}/{name}", folder.path().display());
    let [one, two, shared] = ["one", "two", "shm"].map(at);
    let shared = shared.replace("unix:", "shm:");
    let of_trader = ["--trader", &trader.url, "--group", "a group"];
    let capsule = |listen: &str, more: &[&str]| {
        Capsule::start(&queens, &[&["--listen", listen], &of_trader[..], more].concat())
    };
    // One is killed and still listed; one has another token, and one another group.
    let killed = capsule(&one, &[]);
    let others = [
        capsule(&at("token"), &["--token", "other"]),
        Capsule::start(&queens, &["--listen", &at("group"), "--trader", &trader.url]),
    ];
    let good = [capsule(&two, &[]), capsule(&shared, &[]), capsule("tls://127.0.0.1:0", &["--token", "t"])];
    trader.wait_until(6);
    drop(killed);
    let few = run(&[&["--capsules", "4"], &of_trader[..]].concat(), &queens);
    assert_eq!(few.status.code(), Some(3), "{}", stderr(&few));
    assert!(
        stderr(&few).contains("3 capsules are needed, and 2 of those offered can take part"),
        "{}",
        stderr(&few)
    );
    let mut command = bifrost();
    command.args(["run", "--capsules", "3"]).args(of_trader).arg(&queens).arg("6");
    let output = command.output().unwrap();
    assert_eq!(
        (stdout(&output), output.status.code()),
        ("6 queens: 4 solutions\n", Some(0)),
        "{}",
        stderr(&output)
    );
    let [first, second, over_tls] = good;
    for capsule in [first, second] {
        assert_eq!(capsule.end().status.code(), Some(0));
    }
    // Those that have a run are withdrawn at once. The killed one is listed until its lease ends.
    assert!(trader.listed() <= 4);
    // Over TLS the offer has the pin of the certificate.
    let mut command = bifrost();
    command.args(["run", "--capsules", "2", "--token", "t"]).args(of_trader).arg(&queens).arg("6");
    let output = command.output().unwrap();
    assert_eq!(
        (stdout(&output), output.status.code()),
        ("6 queens: 4 solutions\n", Some(0)),
        "{}",
        stderr(&output)
    );
    assert_eq!(over_tls.end().status.code(), Some(0));
    drop(others);
}

/// The trader, the offers, the joining process and the links between capsules: all over QUIC.
#[test]
fn capsules_over_quic_are_joined_and_found_through_a_trader_over_quic() {
    let folder = tempfile::tempdir().unwrap();
    let file = program(&folder, NUMBERED);
    let token = folder.path().join("token");
    std::fs::write(&token, "s3cret\n").unwrap();
    let token = ["--token-file", token.to_str().unwrap()];
    let mut command = bifrost();
    command.env("XDG_STATE_HOME", folder.path());
    let trader = Trader::spawn(command, "quic://127.0.0.1:0", &["--anonymous-loopback"]);
    assert!(trader.url.starts_with("quic://127.0.0.1:") && trader.url.contains("#sha256-"), "{}", trader.url);
    let of_trader = ["--trader", &trader.url, "--group", "over QUIC"];
    let capsule = |arguments: &[&str]| {
        Capsule::start(&file, &[&["--listen", "quic://127.0.0.1:0"], &token[..], arguments].concat())
    };
    let expected = (0..3).flat_map(|k| [format!("printed on {k}"), format!("{k} of 3: 3001, wrong 0")]);
    let mut expected: Vec<String> = expected.collect();
    expected.sort();
    let check = |output: Output| {
        let mut printed: Vec<String> = stdout(&output).lines().map(String::from).collect();
        printed.sort();
        assert_eq!((printed, stderr(&output), output.status.code()), (expected.clone(), "", Some(0)));
    };
    let named = [capsule(&[]), capsule(&[])];
    let list = format!("{},{}", named[0].url, named[1].url);
    check(run(&[&["--join", &list, "--nodes", "1"], &token[..]].concat(), &file));
    let found = [capsule(&of_trader), capsule(&of_trader)];
    trader.wait_until(2);
    check(run(&[&["--capsules", "3", "--nodes", "1"], &of_trader[..], &token[..]].concat(), &file));
    for capsule in named {
        let output = capsule.end();
        assert_eq!((stderr(&output), output.status.code()), ("", Some(0)));
    }
    // The trader has called these, and they say so.
    assert!(found.map(Capsule::end).iter().all(|output| output.status.code() == Some(0)));
}

#[test]
fn a_capsule_without_an_address_for_others_is_told() {
    let queens = examples().join("actors/queens.theta");
    let mut command = bifrost();
    command.args(["capsule", "--listen", "tls://0.0.0.0:0", "--token", "t", "--trader", "unix:///nowhere"]);
    let output = command.arg(&queens).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("--advertise"), "{}", stderr(&output));
    let nobody = format!("unix://{}/nobody", tempfile::tempdir().unwrap().path().display());
    let output = run(&["--capsules", "2", "--trader", &nobody], &queens);
    assert!(stderr(&output).contains("no trader answers"), "{}", stderr(&output));
    let output = run(&["--trader", &nobody], &queens);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
}
