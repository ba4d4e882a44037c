//! What a server tells those who watch it, asked as they ask.

mod support;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;

use support::{Server, bifrost, stderr};

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
