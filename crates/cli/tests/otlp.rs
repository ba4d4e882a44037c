//! The export of spans and metrics, to collectors of all kinds.

mod support;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::{Metric, metric, number_data_point};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use support::{Server, bifrost, example, feed, stderr, stdout};

/// Nothing here takes longer, on a busy machine either.
const SOON: Duration = Duration::from_secs(60);

const CONTEXT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const LOOKUP: &str = "$db := lookup database: DataBase\n";

/// The answers of a collector.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mood {
    Good,
    /// It accepts all spans of a request but one.
    Picky,
    Busy,
    Rubbish,
    NoHttp,
    /// It reads, and does not answer.
    Silent,
}

/// The paths and bodies of requests.
type Requests = Arc<Mutex<Vec<(String, Vec<u8>)>>>;

/// A collector: the paths and bodies of the requests that it has got.
struct Collector {
    url: String,
    mood: Arc<Mutex<Mood>>,
    got: Requests,
    stopped: Arc<AtomicBool>,
}

impl Collector {
    fn start(mood: Mood) -> Collector {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (mood, got) = (Arc::new(Mutex::new(mood)), Arc::new(Mutex::new(Vec::new())));
        let stopped = Arc::new(AtomicBool::new(false));
        let collector = Collector { url, mood: mood.clone(), got: got.clone(), stopped: stopped.clone() };
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                let (mood, got) = (mood.clone(), got.clone());
                std::thread::spawn(move || answer_all(&stream.unwrap(), &mood, &got));
            }
        });
        collector
    }

    fn set(&self, mood: Mood) {
        *self.mood.lock().unwrap() = mood;
    }

    fn spans(&self) -> Vec<Span> {
        let got = self.got.lock().unwrap();
        let bodies = got.iter().filter(|(path, _)| path == "/v1/traces").map(|(_, body)| body);
        bodies.flat_map(|body| spans(body)).collect()
    }

    fn metrics(&self) -> Vec<Metric> {
        let got = self.got.lock().unwrap();
        let bodies = got.iter().filter(|(path, _)| path == "/v1/metrics").map(|(_, body)| body);
        let requests = bodies.map(|body| ExportMetricsServiceRequest::decode(body.as_slice()).unwrap());
        let resources = requests.flat_map(|request| request.resource_metrics);
        resources.flat_map(|one| one.scope_metrics).flat_map(|scope| scope.metrics).collect()
    }

    /// Waits for so many spans.
    fn wait(&self, count: usize) -> Vec<Span> {
        until(|| Some(self.spans()).filter(|spans| spans.len() >= count))
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.url.strip_prefix("http://").unwrap());
    }
}

fn spans(body: &[u8]) -> Vec<Span> {
    let request = ExportTraceServiceRequest::decode(body).unwrap();
    let mut spans = Vec::new();
    for resource in request.resource_spans {
        let attributes = &resource.resource.as_ref().unwrap().attributes;
        assert_eq!(text(attributes, "service.name"), "bifrost");
        assert!(!text(attributes, "service.instance.id").is_empty());
        spans.extend(resource.scope_spans.into_iter().flat_map(|scope| scope.spans));
    }
    spans
}

/// Reads requests of a connection, and answers each.
fn answer_all(stream: &TcpStream, mood: &Mutex<Mood>, got: &Mutex<Vec<(String, Vec<u8>)>>) {
    let (mut reader, mut writer) = (BufReader::new(stream), stream);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
        assert!(line.starts_with("POST ") && line.ends_with(" HTTP/1.1\r\n"), "{line}");
        let mut length = 0;
        loop {
            line.clear();
            reader.read_line(&mut line).unwrap();
            let lower = line.to_ascii_lowercase();
            if let Some(value) = lower.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if let Some(kind) = lower.strip_prefix("content-type:") {
                assert_eq!(kind.trim(), "application/x-protobuf");
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let mood = *mood.lock().unwrap();
        let mut answer = Vec::new();
        if matches!(mood, Mood::Good | Mood::Picky) {
            if mood == Mood::Picky && path == "/v1/traces" {
                let refused = ExportTracePartialSuccess { rejected_spans: 1, error_message: "no".to_owned() };
                answer = ExportTraceServiceResponse { partial_success: Some(refused) }.encode_to_vec();
            }
            got.lock().unwrap().push((path, body));
        }
        let status = match mood {
            Mood::Good | Mood::Picky => "200 OK",
            Mood::Busy => "503 Service Unavailable",
            Mood::Rubbish => {
                answer = vec![0xff; 100];
                "200 OK"
            }
            Mood::NoHttp => {
                let _ = writer.write_all(b"\x15\x03what?\r\n\r\n");
                let _ = stream.shutdown(Shutdown::Both);
                return;
            }
            Mood::Silent => {
                std::thread::sleep(SOON);
                return;
            }
        };
        let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n", answer.len());
        if writer.write_all(&[head.as_bytes(), &answer].concat()).is_err() {
            return;
        }
    }
}

/// Waits until there is something.
fn until<T>(mut there: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = there() {
            return found;
        }
        assert!(start.elapsed() < SOON);
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn value<'a>(attributes: &'a [KeyValue], key: &str) -> &'a any_value::Value {
    let found = attributes.iter().find(|attribute| attribute.key == key).expect(key);
    found.value.as_ref().unwrap().value.as_ref().unwrap()
}

fn text<'a>(attributes: &'a [KeyValue], key: &str) -> &'a str {
    match value(attributes, key) {
        any_value::Value::StringValue(text) => text,
        other => panic!("{key}: {other:?}"),
    }
}

fn whole(span: &Span, key: &str) -> i64 {
    match value(&span.attributes, key) {
        any_value::Value::IntValue(value) => *value,
        other => panic!("{key}: {other:?}"),
    }
}

fn serve(collector: &str, more: &[&str]) -> Server {
    let own = ["--otlp", collector, "--metrics", "unix://FOLDER/metrics"];
    Server::serve_logged(&example("database"), &[&own[..], more].concat())
}

/// The samples of `/metrics`, by name and labels.
fn metrics(server: &Server) -> BTreeMap<String, f64> {
    let mut stream = UnixStream::connect(server.folder.path().join("metrics")).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    let samples = body.lines().filter(|line| !line.starts_with('#'));
    let samples = samples.map(|line| line.rsplit_once(' ').unwrap());
    samples.map(|(name, value)| (name.to_owned(), value.parse().unwrap())).collect()
}

fn exported(server: &Server, end: &str) -> f64 {
    metrics(server)[&format!("bifrost_exported_spans_total{{end=\"{end}\"}}")]
}

fn unix_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64
}

fn shell(server: &Server, arguments: &[&str], script: &str) {
    let output = server.shell(&server.urls[0], arguments, script);
    assert_eq!(stderr(&output), "", "{}", stdout(&output));
}

#[test]
fn spans_have_the_parent_of_the_trace_context() {
    let collector = Collector::start(Mood::Good);
    let server = serve(&collector.url, &[]);
    let start = unix_ns();
    // Not sampled: without a trace context, and with one that says so.
    shell(&server, &[], &format!("{LOOKUP}? $db.fetch(\"bob\").visits()\n"));
    let unsampled = CONTEXT.replace("-01", "-00");
    shell(&server, &["--traceparent", &unsampled], &format!("{LOOKUP}? $db.fetch(\"bob\").visits()\n"));
    // Sampled, by a variable.
    let mut command = bifrost();
    command.arg("shell").arg(&server.urls[0]).env("TRACEPARENT", CONTEXT);
    let script = format!("{LOOKUP}$bob := $db.fetch(\"bob\")\n$bob.touch()\ncommit\n? $bob.visits()\n");
    assert_eq!(stderr(&feed(command, &script)), "");
    let spans = collector.wait(1);
    let batch = &spans[0];
    assert_eq!(batch.trace_id, 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c_u128.to_be_bytes());
    assert_eq!(batch.parent_span_id, 0xb7ad_6b71_6920_3331_u64.to_be_bytes());
    assert_eq!((batch.span_id.len(), batch.name.as_str(), batch.kind), (8, "batch", 2));
    assert!(spans.iter().all(|span| span.trace_id == batch.trace_id), "{spans:?}");
    assert_eq!((batch.flags & 0xff, batch.status.as_ref()), (1, None));
    assert!(start <= batch.start_time_unix_nano && batch.end_time_unix_nano <= unix_ns(), "{batch:?}");
    assert!(batch.start_time_unix_nano < batch.end_time_unix_nano, "{batch:?}");
    let sum = |key: &str| spans.iter().map(|span| whole(span, key)).sum::<i64>();
    assert!(sum("bifrost.calls") >= 3 && sum("bifrost.fuel") >= 3, "{spans:?}");
    assert_eq!((sum("bifrost.commits"), sum("bifrost.failures")), (1, 0));
    assert!(sum("bifrost.received_bytes") > 60 && sum("bifrost.sent_bytes") > 10);
    assert_eq!(whole(batch, "bifrost.session"), 3);
    assert_eq!(text(&batch.attributes, "bifrost.medium"), "unix");
    assert_eq!(text(&batch.attributes, "bifrost.role"), "");
    assert_eq!(text(&batch.attributes, "bifrost.outcome"), "done");
    // A failure, and an error that ends the session.
    let before = spans.len();
    let output = server.shell(
        &server.urls[0],
        &["--traceparent", CONTEXT],
        &format!("{LOOKUP}? $db.fetch(\"nobody\")\n"),
    );
    assert!(stdout(&output).contains("not_found") || stderr(&output).contains("not_found"), "{output:?}");
    let spans = collector.wait(before + 1);
    let failed = spans.iter().find(|span| text(&span.attributes, "bifrost.outcome") == "failures");
    assert_eq!(whole(failed.expect("a span"), "bifrost.failures"), 1);
    until(|| (exported(&server, "sent") >= spans.len() as f64).then_some(()));
    assert_eq!(exported(&server, "dropped"), 0.0);
    let (status, said) = server.end("TERM");
    assert_eq!((status, said.contains("otlp.failed")), (Some(0), false), "{said}");
}

/// A part of the batches of clients without a context is sampled: here all, each in a trace of its own.
#[test]
fn a_ratio_samples_the_others() {
    let collector = Collector::start(Mood::Picky);
    let server = serve(&collector.url, &["--set", "otlp_ratio=1"]);
    for _ in 0..3 {
        shell(&server, &[], &format!("{LOOKUP}? $db.fetch(\"bob\").visits()\n"));
    }
    let spans = collector.wait(3);
    let traces: std::collections::BTreeSet<_> = spans.iter().map(|span| span.trace_id.clone()).collect();
    assert_eq!(traces.len(), spans.len());
    assert!(spans.iter().all(|span| span.parent_span_id.is_empty() && span.trace_id.len() == 16));
    until(|| (exported(&server, "refused") >= 1.0).then_some(()));
    let ends = ["sent", "refused"].map(|end| exported(&server, end));
    assert_eq!(ends.iter().sum::<f64>(), collector.spans().len() as f64);
    // The last spans are sent at the end of the server.
    shell(&server, &[], &format!("{LOOKUP}? $db.fetch(\"bob\").visits()\n"));
    let before = spans.len();
    assert_eq!(server.end("TERM").0, Some(0));
    assert!(collector.spans().len() > before);
}

#[test]
fn metrics_are_exported_under_their_names() {
    let collector = Collector::start(Mood::Good);
    let server = serve(&collector.url, &["--set", "otlp_interval_ms=100"]);
    shell(&server, &[], &format!("{LOOKUP}? $db.fetch(\"bob\").visits()\n"));
    let calls = |metrics: &[Metric]| {
        let last = metrics.iter().rfind(|metric| metric.name == "bifrost_calls_total")?;
        let Some(metric::Data::Sum(sum)) = &last.data else { panic!("{last:?}") };
        assert!(sum.is_monotonic && sum.aggregation_temporality == 2);
        let point = sum.data_points.iter().find(|point| text(&point.attributes, "medium") == "unix")?;
        assert!(0 < point.start_time_unix_nano && point.start_time_unix_nano < point.time_unix_nano);
        match point.value {
            Some(number_data_point::Value::AsInt(calls)) => Some(calls).filter(|calls| *calls >= 2),
            _ => panic!("{point:?}"),
        }
    };
    until(|| calls(&collector.metrics()));
    let exported = collector.metrics();
    let find = |name: &str| exported.iter().find(|metric| metric.name == name).expect(name);
    assert!(matches!(find("bifrost_sessions").data, Some(metric::Data::Gauge(_))));
    let Some(metric::Data::Histogram(times)) = &find("bifrost_commit_seconds").data else { panic!() };
    let point = &times.data_points[0];
    assert_eq!(point.bucket_counts.len(), point.explicit_bounds.len() + 1);
    assert_eq!((point.count, find("bifrost_commit_seconds").unit.as_str()), (1, "s"));
    // All that the text has, but the metrics of the last minute, which come and go.
    let text: Vec<String> = metrics(&server).into_keys().collect();
    for name in text {
        let name = name.split('{').next().unwrap();
        let base =
            ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
        let passing = base.contains("cost_seconds") || base.contains("batching_factor");
        assert!(passing || exported.iter().any(|metric| metric.name == base), "{base}");
    }
}

/// A collector that is away, slow or confused holds up no session, is told once, and is found again.
#[test]
fn collectors_that_fail() {
    for mood in [Mood::Busy, Mood::Rubbish, Mood::NoHttp] {
        let collector = Collector::start(mood);
        let server = serve(&collector.url, &["--set", "otlp_ratio=1", "--set", "otlp_interval_ms=100"]);
        shell(&server, &[], &format!("{LOOKUP}? $db.fetch(\"bob\").visits()\n"));
        until(|| {
            let failed = metrics(&server)["bifrost_exports_total{end=\"failed\"}"];
            (failed >= 2.0).then_some(())
        });
        collector.set(Mood::Good);
        until(|| (!collector.metrics().is_empty()).then_some(()));
        shell(&server, &[], &format!("{LOOKUP}? $db.fetch(\"bob\").visits()\n"));
        collector.wait(1);
        let (status, said) = server.end("TERM");
        assert_eq!((status, said.matches("otlp.failed").count()), (Some(0), 1), "{mood:?}: {said}");
        assert_eq!(said.matches("otlp.restored").count(), 1, "{mood:?}: {said}");
    }
    // Nobody listens there.
    let nowhere = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let server = serve(&format!("http://{nowhere}"), &["--set", "otlp_ratio=1"]);
    shell(&server, &[], &format!("{LOOKUP}? $db.fetch(\"bob\").visits()\n"));
    until(|| (exported(&server, "failed") >= 1.0).then_some(()));
    let (status, said) = server.end("TERM");
    assert_eq!((status, said.matches("otlp.failed").count()), (Some(0), 1), "{said}");
}

#[test]
fn a_silent_collector_and_a_full_queue() {
    let collector = Collector::start(Mood::Silent);
    let server = serve(&collector.url, &["--set", "otlp_ratio=1", "--set", "otlp_spans_max=2"]);
    let start = Instant::now();
    until(|| {
        shell(&server, &[], &format!("{LOOKUP}? $db.fetch(\"bob\").visits()\n"));
        (exported(&server, "dropped") >= 3.0).then_some(())
    });
    // The sessions have not waited for it.
    assert!(start.elapsed() < SOON / 2);
    // Nor does the end of the server, for long.
    let start = Instant::now();
    assert_eq!(server.end("TERM").0, Some(0));
    assert!(start.elapsed() < Duration::from_secs(20));
}

#[test]
fn malformed_contexts_and_settings_are_refused() {
    let server = Server::start("database", &[]);
    let mut command = bifrost();
    command.arg("shell").arg(&server.urls[0]).args(["--traceparent", "00-x"]);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("no `traceparent`"), "{}", stderr(&output));
    // In the text form the line is answered, and the next one may do better.
    let path = server.urls[0].strip_prefix("unix://").unwrap();
    let mut stream = UnixStream::connect(path).unwrap();
    stream
        .write_all(format!("hello 2 trace \"00-x\"\nhello 2 trace \"{CONTEXT}\"\nbye\n").as_bytes())
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("error: column 15: expected a `traceparent` of W3C"), "{answer}");
    assert!(answer.lines().count() >= 2 && answer.contains("bifrost"), "{answer}");
    for (setting, said) in [
        ("otlp=localhost:4318", "cannot be exported to `localhost:4318`"),
        ("otlp_ratio=2", "a share is from 0 to 1"),
        ("otlp_interval_ms=0", "it is at least 1"),
    ] {
        let output = bifrost().args(["serve", "--set", setting, "x.theta"]).output().unwrap();
        assert!(stderr(&output).contains(said), "{}", stderr(&output));
        assert_eq!(output.status.code(), Some(2));
    }
}

/// A collector over TLS that another HTTP library serves: Python's.
const PYTHON: &str = r#"
import http.server, ssl, sys
class Collector(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        print(self.path, body.hex(), flush=True)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()
    def log_message(self, *arguments):
        pass
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1], sys.argv[2])
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_address[1], flush=True)
server.serve_forever()
"#;

/// A child that ends with its test.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_collector_over_tls_is_trusted_by_the_authorities_of_the_system() {
    let office = tempfile::tempdir().unwrap();
    let made =
        bifrost().args(["certificate", "--name", "localhost", "-o"]).arg(office.path()).output().unwrap();
    assert!(made.status.success(), "{}", stderr(&made));
    let file = |name: &str| office.path().join(name);
    let mut python = Command::new("python3");
    python.args(["-c", PYTHON]).arg(file("localhost.pem")).arg(file("localhost-key.pem"));
    let mut python = Ends(python.stdout(Stdio::piped()).spawn().unwrap());
    let mut said = BufReader::new(python.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    let url = format!("https://localhost:{}", said.next().unwrap());
    let serve = |trusts: bool| {
        let mut command = bifrost();
        command.env("BIFROST_LOG", "bifrost=info");
        if trusts {
            command.env("SSL_CERT_FILE", file("ca.pem"));
        }
        let own = ["--otlp", &url, "--set", "otlp_ratio=1", "--metrics", "unix://FOLDER/metrics"];
        Server::spawn(command, &example("database"), &own)
    };
    let server = serve(true);
    shell(&server, &[], &format!("{LOOKUP}? $db.fetch(\"bob\").visits()\n"));
    let request = said.next().unwrap();
    let (path, body) = request.split_once(' ').unwrap();
    let digits: Vec<u8> =
        (0..body.len() / 2).map(|at| u8::from_str_radix(&body[2 * at..2 * at + 2], 16).unwrap()).collect();
    assert_eq!((path, spans(&digits).is_empty()), ("/v1/traces", false));
    until(|| (exported(&server, "sent") >= 1.0).then_some(()));
    assert_eq!(server.end("TERM").0, Some(0));
    // Of an authority that the system does not know, nothing is sent.
    let server = serve(false);
    shell(&server, &[], &format!("{LOOKUP}? $db.fetch(\"bob\").visits()\n"));
    until(|| (exported(&server, "failed") >= 1.0).then_some(()));
    let (_, log) = server.end("TERM");
    assert!(log.contains("otlp.failed") && log.to_lowercase().contains("certificate"), "{log}");
}
