//! What a server tells those who watch it, asked as they ask.

mod support;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use support::{Server, bifrost, stderr};

/// Nothing here takes longer, on a busy machine either.
const SOON: Duration = Duration::from_secs(60);

const COUNTER: &str = "
Counter = type   value () returns (int)   add (n: int) end Counter
module counters exports new_counter
  C = class implements Counter
    value: int
    add (n: int) value := value + n end add
  end C
  new_counter () returns (Counter) return (C{value := 0}) end new_counter
end counters
setup () root().insert(\"counter\", new_counter()) end setup
";
const LOOKUP: &str = "$c := lookup counter: Counter\n";

/// The answer to a request, all of it.
fn answer(server: &Server, request: &[u8]) -> String {
    let mut stream = UnixStream::connect(server.folder.path().join("metrics")).unwrap();
    stream.write_all(request).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// The samples, by name and labels.
fn metrics(server: &Server) -> BTreeMap<String, f64> {
    let answer = answer(server, b"GET /metrics HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n");
    let (head, text) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4;"), "{head}");
    assert!(head.contains(&format!("Content-Length: {}\r\n", text.len())), "{head}");
    // Each metric says what it is before its samples.
    let mut known = "";
    let mut samples = BTreeMap::new();
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            known = help.split(' ').next().unwrap();
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            assert!(kind.starts_with(known), "{line}");
        } else {
            assert!(line.starts_with(known), "{line}");
            let (name, value) = line.rsplit_once(' ').unwrap();
            let name = name.strip_prefix("bifrost_").unwrap();
            assert!(samples.insert(name.to_owned(), value.parse().unwrap()).is_none(), "{line}");
        }
    }
    samples
}

/// A server of the counter with a store.
fn serve(folder: &Path, more: &[&str]) -> Server {
    let program = folder.join("counter.theta");
    std::fs::write(&program, COUNTER).unwrap();
    let arguments = ["--store", "FOLDER/store", "--metrics", "unix://FOLDER/metrics"];
    Server::serve(&program, &[&arguments[..], more].concat())
}

/// One session reads, another one commits, and the first one cannot; then it aborts another transaction.
fn compete(server: &Server) {
    let mut command = bifrost();
    command.arg("shell").arg(&server.urls[0]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut late = command.spawn().unwrap();
    let mut input = late.stdin.take().unwrap();
    let mut output = BufReader::new(late.stdout.take().unwrap());
    input.write_all(format!("{LOOKUP}? $c.value()\n").as_bytes()).unwrap();
    let mut heard = String::new();
    while !heard.contains("@2 = 0") {
        assert!(output.read_line(&mut heard).unwrap() > 0, "{heard}");
    }
    assert_eq!(metrics(server)["sessions"], 1.0);
    let add = format!("{LOOKUP}$c.add(7)\ncommit\nflush\n");
    assert_eq!(stderr(&server.shell(&server.urls[0], &[], &add)), "");
    input.write_all(b"$c.add(1)\n$d := commit\nflush\n$c.add(1)\nabort\n? $c.value()\n").unwrap();
    drop(input);
    output.read_to_string(&mut heard).unwrap();
    late.wait().unwrap();
    assert!(heard.contains("Conflict") && heard.contains(" = 7"), "{heard}");
}

#[test]
fn metrics_of_a_store() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path(), &[]);
    let before = metrics(&server);
    let commits = |end: &str| format!("commits_total{{end=\"{end}\"}}");
    let done = commits("done");
    // `setup`.
    assert_eq!((before[&done], before["sessions_total"], before["store_objects"]), (1.0, 0.0, 2.0));
    assert_eq!(before["commit_seconds_count"], 1.0);
    compete(&server);
    let after = metrics(&server);
    let grown = |name: &str| after[name] - before[name];
    assert_eq!((grown(&done), grown(&commits("conflict")), grown("aborts_total")), (1.0, 1.0, 1.0));
    for end in ["repeated", "refused", "failed"] {
        assert_eq!(after[&commits(end)], 0.0, "{end}");
    }
    assert_eq!(
        (grown("sessions_total"), grown("store_head"), grown("commit_seconds_count")),
        (2.0, 1.0, 2.0)
    );
    // Both sessions fetch the directory and the counter; the one that lost does it again.
    assert!(grown("fetches_total") >= 3.0 && grown("fetches_total") == grown("fetch_seconds_count"));
    let objects = |why: &str| grown(&format!("fetched_objects_total{{why=\"{why}\"}}"));
    assert!(objects("asked") + grown("prefetch_hits_total") >= 5.0, "{after:?}");
    assert!(objects("ahead") >= grown("prefetch_hits_total"));
    assert_eq!((after["evicted_objects_total"], after["stale_fetches_total"]), (0.0, 0.0));
    assert_eq!((after["store_objects"], after["store_classes"]), (2.0, before["store_classes"]));
    assert!(after["store_log_bytes"] > 0.0 && after["store_buffered_bytes"] > 0.0);
    assert!(after.contains_key("store_base_bytes") && after["store_collections_total"] == 0.0);
    for name in ["commit_seconds", "fetch_seconds"] {
        let bucket = format!("{name}_bucket{{le=\"");
        let buckets = after.iter().filter_map(|(name, count)| {
            let bound = name.strip_prefix(&bucket)?.strip_suffix("\"}")?;
            Some((bound.replace("+Inf", "inf").parse::<f64>().unwrap(), *count))
        });
        let mut buckets: Vec<(f64, f64)> = buckets.collect();
        buckets.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        assert!(buckets.len() > 10 && buckets.is_sorted_by(|a, b| a.1 <= b.1), "{buckets:?}");
        assert_eq!(buckets.last().unwrap().1, after[&format!("{name}_count")]);
        assert!(after[&format!("{name}_sum")] > 0.0);
    }
    assert_eq!(server.end("TERM").0, Some(0));
}

/// What was read has left the cache, so that the conflict is found when it is fetched again.
#[test]
fn metrics_of_a_small_cache() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path(), &["--set", "cache_bytes_max=1"]);
    compete(&server);
    let after = metrics(&server);
    assert!(after["evicted_objects_total"] > 0.0, "{after:?}");
    let conflicts = after["stale_fetches_total"] + after["commits_total{end=\"conflict\"}"];
    assert_eq!((conflicts, after["stale_fetches_total"]), (1.0, 1.0));
}

#[test]
fn other_requests() {
    let server = Server::start("database", &["--metrics", "unix://FOLDER/metrics"]);
    let status = |request: &[u8]| answer(&server, request).lines().next().unwrap_or("").to_owned();
    assert_eq!(status(b"GET / HTTP/1.1\r\n\r\n"), "HTTP/1.1 404 Not Found");
    assert_eq!(status(b"POST /metrics HTTP/1.1\r\n\r\n"), "HTTP/1.1 405 Method Not Allowed");
    assert_eq!(status(b"GET /metrics?a=b HTTP/1.0\r\n\r\n"), "HTTP/1.0 200 OK");
    assert_eq!(status(b"\xff\0 no request \r\n\r\n"), "HTTP/1.1 400 Bad Request");
    assert_eq!(status(&[b'x'; 20 << 10]), "HTTP/1.1 431 Request Header Fields Too Large");
    // One that ends in the middle gets nothing, and the next one is answered.
    assert_eq!(status(b"GET /metr"), "");
    // A store in memory is told of like others.
    let samples = metrics(&server);
    assert!(
        samples["store_objects"] > 1.0 && samples["store_base_bytes"] + samples["store_buffered_bytes"] > 0.0
    );
    // Over TCP at a port that the system chose; over shared memory not.
    let tcp = Server::start("database", &["--metrics", "tcp://127.0.0.1:0"]);
    let (_, said) = tcp.end("TERM");
    assert!(said.contains("metrics on tcp://127.0.0.1:") && !said.contains("127.0.0.1:0\n"), "{said}");
    let output = bifrost().args(["serve", "--metrics", "shm:///metrics", "x.theta"]).output().unwrap();
    let said = "metrics cannot be exported on `shm:///metrics`: write `tcp://host:port`, \
        `unix:///path` or `tls://host:port`";
    assert!(stderr(&output).contains(said), "{}", stderr(&output));
}

/// Waits until the metrics are as they shall be.
fn metrics_when(server: &Server, is_there: impl Fn(&BTreeMap<String, f64>) -> bool) -> BTreeMap<String, f64> {
    let start = Instant::now();
    loop {
        let now = metrics(server);
        if is_there(&now) {
            return now;
        }
        assert!(start.elapsed() < SOON, "{now:#?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A client of the text form that sends lines and reads answers as it likes.
struct Talk(BufReader<UnixStream>);

impl Talk {
    fn with(server: &Server) -> Talk {
        let path = server.urls[0].strip_prefix("unix://").unwrap();
        let mut talk = Talk(BufReader::new(UnixStream::connect(path).unwrap()));
        assert!(talk.ask("hello 2\n").contains("bifrost"));
        talk.0.get_mut().write_all(LOOKUP.as_bytes()).unwrap();
        talk
    }

    /// Sends lines, and returns the next line of an answer.
    fn ask(&mut self, lines: &str) -> String {
        self.0.get_mut().write_all(lines.as_bytes()).unwrap();
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line
    }

    /// Sends a batch, and reads the answer to its `ok`.
    fn batch(&mut self, lines: &str) -> String {
        let mut answer = self.ask(lines);
        while !answer.lines().last().unwrap().starts_with("ok") {
            assert!(self.0.read_line(&mut answer).unwrap() > 0, "{answer}");
        }
        answer
    }
}

#[test]
fn metrics_of_batches() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path(), &["--listen", "tcp://127.0.0.1:0", "--anonymous-loopback"]);
    let none = metrics(&server);
    for name in ["batching_factor", "call_cost_seconds", "crossing_cost_seconds"] {
        assert!(!none.contains_key(name), "{name}");
    }
    let of = |name: &str, medium: &str| format!("{name}_total{{medium=\"{medium}\"}}");
    assert_eq!((none[&of("crossings", "unix")], none["batch_seconds_count"]), (0.0, 0.0));
    let mut talk = Talk::with(&server);
    // Batches of one size give a factor, and no costs.
    for _ in 0..3 {
        talk.batch("$c.value()\n$c.value()\nflush\n");
    }
    let same = metrics_when(&server, |now| now[&of("crossings", "unix")] == 3.0);
    assert_eq!(
        (same[&of("calls", "unix")], same["batching_factor"], same["fitted_batches"]),
        (6.0, 2.0, 3.0)
    );
    assert!(!same.contains_key("call_cost_seconds") && !same.contains_key("crossing_cost_seconds"));
    assert_eq!((same["batch_seconds_count"], same["failures_total"]), (3.0, 0.0));
    let state = |name: &str| format!("session_seconds_total{{state=\"{name}\"}}");
    let parts: f64 = ["running", "parked", "resting"].iter().map(|name| same[&state(name)]).sum();
    assert!((parts - same["batch_seconds_sum"]).abs() < 1e-6, "{same:?}");
    assert!(same[&state("running")] > 0.0 && same[&state("input")] > 0.0, "{same:?}");
    assert!(same["received_bytes_total"] > 0.0 && same["sent_bytes_total"] > 0.0);
    assert!(same["fuel_total"] >= 6.0);
    // Over another medium; calls of a loop count each time.
    let script = format!("{LOOKUP}foreach $i in 1.to(50) do\n$c.value()\nend\nflush\n");
    let url = server.urls[1].clone();
    for _ in 0..2 {
        assert_eq!(stderr(&server.shell(&url, &[], &script)), "");
    }
    let tcp = metrics_when(&server, |now| now[&of("crossings", "tcp")] >= 2.0 && now["sessions"] == 1.0);
    assert!(tcp[&of("calls", "tcp")] >= 100.0 && tcp[&of("crossings", "unix")] == 3.0, "{tcp:?}");
    assert_eq!(tcp["structures_total"], 2.0);
    assert_eq!(tcp["structure_lookups_total{found=\"miss\"}"], 1.0);
    assert_eq!(tcp["structure_lookups_total{found=\"hit\"}"], 1.0);
    assert_eq!((tcp["kept_structures"], tcp["evicted_structures_total"]), (1.0, 0.0));
    assert!(tcp["structure_key_bytes"] > 0.0 && tcp["compiled_structures"] == 0.0);
    // Exceptions, and a structure that gets hot.
    talk.batch("$none := lookup nobody\nforeach $i in 1.to(300000) do\n$c.value()\nend\nflush\n");
    let hot = metrics_when(&server, |now| now["failures_total"] == 1.0);
    assert!(hot["compiled_structures"] > 0.0 && hot["structure_code_bytes"] > 0.0, "{hot:?}");
    assert!(hot["structure_compilations_total"] >= 1.0);
    assert!(!hot.contains_key("exports_total{end=\"done\"}"));
}

/// More different structures than are kept.
#[test]
fn metrics_of_many_structures() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path(), &[]);
    let mut talk = Talk::with(&server);
    for number in 0..4100_u32 {
        let calls = (0..13).map(|bit| if number >> bit & 1 == 0 { "$c.value()\n" } else { "$c.add(0)\n" });
        let structure = format!("if true.equal(false) then\n{}end\n", calls.collect::<String>());
        talk.0.get_mut().write_all(structure.as_bytes()).unwrap();
        if number % 100 == 99 {
            talk.batch("flush\n");
        }
    }
    talk.batch("flush\n");
    let many = metrics_when(&server, |now| now["structures_total"] == 4100.0);
    assert_eq!((many["kept_structures"], many["evicted_structures_total"]), (4096.0, 4.0));
    assert_eq!(many["structure_lookups_total{found=\"miss\"}"], 4100.0);
}

/// The costs that a server fits are those that its client sees.
#[test]
fn costs_of_calls_of_known_length() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("spin.theta");
    let spin = "spin (n: int) returns (int)";
    let body = "sum: int := 0  for i: int in 1.to(n) do sum := sum + i end  return (sum)";
    let spinning = COUNTER
        .replace("add (n: int) end Counter", &format!("add (n: int)   {spin} end Counter"))
        .replace("end add\n", &format!("end add\n    {spin} {body} end spin\n"));
    std::fs::write(&program, spinning).unwrap();
    let server = Server::serve(&program, &["--metrics", "unix://FOLDER/metrics"]);
    let mut talk = Talk::with(&server);
    let mut times = |calls: usize| {
        let lines = format!("{}flush\n", "$c.spin(1000000)\n".repeat(calls));
        let mut times: Vec<f64> = (0..7)
            .map(|_| {
                let start = Instant::now();
                talk.batch(&lines);
                start.elapsed().as_secs_f64()
            })
            .collect();
        times.sort_by(f64::total_cmp);
        times[0]
    };
    times(1);
    // Programs beside this one disturb either measure: it goes on with each batch, until both agree.
    let start = Instant::now();
    let crossing = loop {
        let (few, many) = (times(2), times(12));
        let seen = (many - few) / 10.0;
        let now = metrics(&server);
        let fitted = now.get("call_cost_seconds");
        if let Some(fitted) = fitted
            && (seen * 0.7..seen * 3.0).contains(fitted)
        {
            break now.get("crossing_cost_seconds").copied();
        }
        assert!(start.elapsed() < SOON, "the client sees {seen}, the server {fitted:?}");
    };
    // Beside calls of a millisecond, the scatter may hide it.
    assert!(crossing.is_none_or(|crossing| (0.0..0.1).contains(&crossing)), "{crossing:?}");
}

#[test]
fn metrics_of_workers_and_rests() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path(), &["--set", "workers=1"]);
    let parked = |reason: &str| format!("parked_sessions{{reason=\"{reason}\"}}");
    let workers = |now: &BTreeMap<String, f64>| {
        ["running", "idle", "blocked"].map(|state| now[&format!("workers{{state=\"{state}\"}}")])
    };
    // The only worker answers this request.
    let idle = metrics_when(&server, |now| workers(now) == [1.0, 0.0, 0.0]);
    assert_eq!((idle[&parked("input")], idle["queued_jobs"], idle["fibers"]), (0.0, 0.0, 1.0));
    let mut one = Talk::with(&server);
    one.batch("$c.value()\nflush\n");
    let mut other = Talk::with(&server);
    let now = metrics_when(&server, |now| now[&parked("input")] == 2.0);
    assert_eq!((now[&parked("wait")], now[&parked("output")]), (0.0, 0.0));
    // A wait for a commit of others.
    one.0.get_mut().write_all(b"$c.value()\n$w := wait 30000\n? $w\n").unwrap();
    metrics_when(&server, |now| now[&parked("wait")] == 1.0 && now[&parked("input")] == 1.0);
    other.batch("$c.add(1)\ncommit\nflush\n");
    let mut answer = String::new();
    one.0.read_line(&mut answer).unwrap();
    assert_eq!(answer, "$w = true\n");
    metrics_when(&server, |now| now[&parked("wait")] == 0.0 && now[&parked("input")] == 2.0);
    // A long batch on the only worker makes way for another session.
    let start = Instant::now();
    while metrics(&server)["preemptions_total"] == 0.0 {
        let long = b"foreach $i in 1.to(9000000) do\n$c.value()\nend\nflush\n";
        one.0.get_mut().write_all(long).unwrap();
        other.batch("$c.value()\nflush\n");
        one.batch("");
        assert!(start.elapsed() < SOON);
    }
    // A client that does not read its answers.
    let mut deaf = Talk::with(&server);
    deaf.0.get_mut().set_nonblocking(true).unwrap();
    let lines = b"describe\nhelp\n".repeat(100);
    let start = Instant::now();
    loop {
        let _ = deaf.0.get_mut().write(&lines);
        if metrics(&server)[&parked("output")] == 1.0 {
            break;
        }
        assert!(start.elapsed() < SOON);
    }
    drop(deaf);
    metrics_when(&server, |now| now[&parked("output")] == 0.0);
}
