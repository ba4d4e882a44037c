//! The other systems: Redis, measured by `redis-benchmark` and by our load generator, and gRPC for
//! C++ (`bench/sessions/grpc.cpp`).
//!
//! Read [`Server`] first: a peer that runs on a transport. A peer whose tools are missing does not
//! take part, and says how to install them.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bifrost_transport::{Address, ConnectOptions, Stream};
use clap::ValueEnum;

use super::super::common::Failed;
use super::super::load::{self, Client, Form};
use super::super::process::{succeed, version};
use super::active::{Point, Sample, times};
use super::{Operation, Over};

/// Another system.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Peer {
    /// Redis, without persistence, under our load generator
    Redis,
    /// The same server under `redis-benchmark`
    RedisBenchmark,
    /// gRPC for C++, with its own load generator
    Grpc,
}

/// The forms of gRPC's server; the quickest one on this machine is measured.
const FORMS: [&str; 3] = ["sync", "async", "callback"];
/// The clients, and the seconds, of the choice between them.
const TRIAL: (u64, f64) = (32, 0.3);
/// The longest time in which a server of a peer must be ready.
const READY: Duration = Duration::from_secs(10);

impl Peer {
    /// All of them.
    pub const ALL: [Peer; 3] = [Peer::Redis, Peer::RedisBenchmark, Peer::Grpc];

    /// Returns its name in tables and files.
    pub fn name(self) -> &'static str {
        match self {
            Peer::Redis => "redis",
            Peer::RedisBenchmark => "redis-benchmark",
            Peer::Grpc => "grpc",
        }
    }

    /// Makes its programs, in a folder for all peers. Returns its version line.
    ///
    /// # Errors
    /// The reason why it does not take part.
    pub fn prepare(self, folder: &Path) -> Result<String, String> {
        let install = |packages: &str| format!("to have it, on Debian: apt-get install {packages}");
        match self {
            Peer::Redis => version("redis-server", "--version").ok_or(install("redis-server")),
            Peer::RedisBenchmark => {
                version("redis-server", "--version").ok_or(install("redis-server"))?;
                version("redis-benchmark", "--version").ok_or(install("redis-tools"))
            }
            Peer::Grpc => {
                let packages = "g++ protobuf-compiler-grpc libgrpc++-dev libprotobuf-dev";
                let compiler = version("g++", "--version").ok_or(install(packages))?;
                let protoc = version("protoc", "--version").ok_or(install(packages))?;
                let mut look = Command::new("g++");
                look.args([
                    "-fsyntax-only",
                    "-std=c++17",
                    "-include",
                    "grpcpp/grpcpp.h",
                    "-x",
                    "c++",
                    "/dev/null",
                ]);
                succeed(&mut look, "grpcpp/grpcpp.h").map_err(|_| install(packages))?;
                compile(folder).map_err(|error| error.to_string())?;
                Ok(format!("gRPC with {protoc}, by {compiler}"))
            }
        }
    }
}

/// Makes the program of gRPC.
fn compile(folder: &Path) -> Result<(), Failed> {
    for (file, text) in [
        ("entries.proto", include_str!("../../../../../bench/sessions/entries.proto")),
        ("grpc.cpp", include_str!("../../../../../bench/sessions/grpc.cpp")),
    ] {
        std::fs::write(folder.join(file), text)?;
    }
    let plugin = std::env::var_os("PATH").and_then(|path| {
        let mut places = std::env::split_paths(&path).map(|place| place.join("grpc_cpp_plugin"));
        places.find(|place| place.is_file())
    });
    let plugin = plugin.ok_or("`grpc_cpp_plugin` is not on the PATH")?;
    let mut protoc = Command::new("protoc");
    protoc.current_dir(folder).args(["--cpp_out=.", "--grpc_out=.", "entries.proto"]);
    succeed(protoc.arg(format!("--plugin=protoc-gen-grpc={}", plugin.display())), "entries.proto")?;
    let mut gcc = Command::new("g++");
    gcc.current_dir(folder).args(["-std=c++17", "-O2", "-pthread", "-o", "grpc", "grpc.cpp"]);
    gcc.args(["entries.pb.cc", "entries.grpc.pb.cc", "-Wl,--copy-dt-needed-entries"]);
    succeed(gcc.args(["-lgrpc++", "-lgrpc", "-lgpr", "-lprotobuf"]), "grpc.cpp")
}

/// A peer's server, which ends when this value is dropped.
pub struct Server {
    peer: Peer,
    child: Child,
    /// The folder with the programs.
    tools: PathBuf,
    /// The address as the peer writes it.
    address: String,
    /// Redis: the same address as we write it.
    url: Option<Address>,
    /// Requests in a second at the last point of each kind, from which `redis-benchmark` gets its
    /// number of requests.
    rate: f64,
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    /// Starts a peer on a transport; its files go to `folder`.
    ///
    /// # Errors
    /// It does not start.
    pub fn start(peer: Peer, over: Over, tools: &Path, folder: &Path) -> Result<Server, Failed> {
        match peer {
            Peer::Redis | Peer::RedisBenchmark => Server::start_redis(peer, over, tools, folder),
            Peer::Grpc => {
                let mut best: Option<(f64, &str)> = None;
                for form in FORMS {
                    let mut server = Server::start_grpc(over, form, tools, folder)?;
                    let (clients, seconds) = TRIAL;
                    let point =
                        Point { over, operation: Operation::Get, clients, pipeline: 1, bytes: 3, seconds };
                    let rate = server.sample(&point)?.rate;
                    if best.is_none_or(|(most, _)| rate > most) {
                        best = Some((rate, form));
                    }
                }
                Server::start_grpc(over, best.map_or(FORMS[0], |(_, form)| form), tools, folder)
            }
        }
    }

    fn start_redis(peer: Peer, over: Over, tools: &Path, folder: &Path) -> Result<Server, Failed> {
        let mut redis = Command::new("redis-server");
        redis.current_dir(folder).args(["--save", "", "--appendonly", "no", "--maxclients", "1000"]);
        let (address, url) = match over {
            Over::Unix => {
                let socket = folder.join(format!("{}.socket", peer.name())).display().to_string();
                redis.args(["--port", "0", "--unixsocket", &socket]);
                (socket.clone(), format!("unix://{socket}"))
            }
            _ => {
                let port = free_port()?;
                redis.args(["--bind", "127.0.0.1", "--port", &port.to_string()]);
                (port.to_string(), format!("tcp://127.0.0.1:{port}"))
            }
        };
        let child = redis.stdin(Stdio::null()).stdout(Stdio::null()).spawn()?;
        let url: Address = url.parse()?;
        let server =
            Server { peer, child, tools: tools.to_owned(), address, url: Some(url.clone()), rate: 20_000.0 };
        let began = Instant::now();
        while let Err(error) = Stream::connect(&url, &ConnectOptions::default()) {
            if began.elapsed() > READY {
                return Err(format!("redis-server is not ready: {error}").into());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(server)
    }

    fn start_grpc(over: Over, form: &str, tools: &Path, folder: &Path) -> Result<Server, Failed> {
        let address = match over {
            Over::Unix => format!("unix:{}", folder.join("grpc.socket").display()),
            _ => format!("127.0.0.1:{}", free_port()?),
        };
        let mut grpc = Command::new(tools.join("grpc"));
        grpc.args(["serve", &address, form]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = grpc.spawn()?;
        let output = child.stdout.take();
        let server =
            Server { peer: Peer::Grpc, child, tools: tools.to_owned(), address, url: None, rate: 0.0 };
        let mut line = String::new();
        let output = output.ok_or("no output to read")?;
        BufReader::new(output).read_line(&mut line)?;
        match line.trim() {
            "ready" => Ok(server),
            _ => Err(format!("the server of gRPC does not start at {}", server.address).into()),
        }
    }

    /// Returns its peer.
    pub fn peer(&self) -> Peer {
        self.peer
    }

    /// Measures a point.
    ///
    /// # Errors
    /// A client fails.
    pub fn sample(&mut self, point: &Point) -> Result<Sample, Failed> {
        match self.peer {
            Peer::Redis => self.sample_redis(point),
            Peer::RedisBenchmark => self.sample_redis_benchmark(point),
            Peer::Grpc => self.sample_grpc(point),
        }
    }

    fn sample_redis(&self, point: &Point) -> Result<Sample, Failed> {
        let url = self.url.as_ref().ok_or("no address of redis")?;
        let value = "x".repeat(point.bytes);
        let bulk = |text: &str| format!("${}\r\n{text}\r\n", text.len());
        let mut clients = Vec::new();
        for number in 0..point.clients {
            let key = bulk(&format!("key:{number:012}"));
            let set = format!("*3\r\n{}{key}{}", bulk("SET"), bulk(&value));
            let get = format!("*2\r\n{}{key}", bulk("GET"));
            let mut stream = Stream::connect(url, &ConnectOptions::default())?;
            stream.write(set.as_bytes(), READY)?;
            let mut answer = Vec::new();
            while answer.len() < "+OK\r\n".len() {
                if stream.read(&mut answer, 64, READY)? == 0 {
                    return Err("redis has closed a connection".into());
                }
            }
            let (request, answer) = match point.operation {
                Operation::Set => (set, "+OK\r\n".len()),
                Operation::Get | Operation::Call => (get, bulk(&value).len()),
            };
            let many = point.pipeline as usize;
            clients.push(Client::new(stream, Form::Redis(answer * many), request.repeat(many).into_bytes())?);
        }
        let (warm, measured) = times(point);
        Ok(Sample::of(&load::run(&mut clients, warm, measured)?, point))
    }

    /// Runs `redis-benchmark`, which takes a number of requests: so many as the last sample's rate
    /// gives for the time.
    fn sample_redis_benchmark(&mut self, point: &Point) -> Result<Sample, Failed> {
        let number = (self.rate * point.seconds).max(20.0 * point.clients as f64).max(100.0);
        let mut benchmark = Command::new("redis-benchmark");
        match point.over {
            Over::Unix => benchmark.args(["-s", &self.address]),
            _ => benchmark.args(["-p", &self.address]),
        };
        benchmark.args(["-t", point.operation.peers_name(), "--precision", "3"]);
        for (flag, value) in
            [("-c", point.clients), ("-P", point.pipeline), ("-d", point.bytes as u64), ("-n", number as u64)]
        {
            benchmark.args([flag, &value.to_string()]);
        }
        let output = benchmark.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let sample = redis_figures(&text).ok_or("`redis-benchmark` prints no figures that are known")?;
        self.rate = sample.rate;
        Ok(sample)
    }

    fn sample_grpc(&self, point: &Point) -> Result<Sample, Failed> {
        let mut load = Command::new(self.tools.join("grpc"));
        load.args(["load", &self.address, point.operation.peers_name()]);
        for size in [point.clients, point.pipeline, point.bytes as u64] {
            load.arg(size.to_string());
        }
        let output = load.arg(point.seconds.to_string()).stdin(Stdio::null()).output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let words: Vec<f64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        match (output.status.success(), &words[..]) {
            (true, [rate, p50, p99, p999]) => {
                Ok(Sample { rate: *rate, p50: *p50, p99: *p99, p999: *p999, processor_us: f64::NAN })
            }
            _ => {
                Err(format!("the clients of gRPC failed: {}", String::from_utf8_lossy(&output.stderr)).into())
            }
        }
    }
}

/// Returns a port of the loopback address that is free now.
fn free_port() -> std::io::Result<u16> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// Reads the figures that `redis-benchmark` prints.
fn redis_figures(text: &str) -> Option<Sample> {
    // It writes over its line of progress.
    let mut lines = text.split(['\r', '\n']);
    let percentile = lines.by_ref().find_map(|line| {
        let (percent, rest) = line.split_once("% <= ")?;
        let ms = rest.strip_suffix(')')?.split(' ').next()?.parse::<f64>().ok()?;
        (percent.trim().parse::<f64>().ok()? >= 99.9).then_some(ms)
    })?;
    let rate = lines.by_ref().find_map(|line| {
        line.trim().strip_prefix("throughput summary: ")?.split(' ').next()?.parse::<f64>().ok()
    })?;
    lines.by_ref().find(|line| line.trim_start().starts_with("avg"))?;
    let words: Vec<f64> = lines.next()?.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [_, _, p50, _, p99, _] = words[..] else { return None };
    let us = 1e3;
    Some(Sample { rate, p50: p50 * us, p99: p99 * us, p999: percentile * us, processor_us: f64::NAN })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_redis_are_read() {
        let text = "GET: rps=0.0\r====== GET ======\n  100000 requests completed in 0.64 seconds\n\
                    Latency by percentile distribution:\n0.000% <= 0.007 milliseconds (cumulative count 1)\n\
                    99.805% <= 1.543 milliseconds (cumulative count 99807)\n\
                    99.902% <= 3.607 milliseconds (cumulative count 99904)\n\n\
                    Summary:\n  throughput summary: 156006.25 requests per second\n  latency summary (msec):\n\
                    \x20         avg       min       p50       p95       p99       max\n\
                    \x20       0.035     0.000     0.031     0.039     0.063    20.095\n";
        let sample = redis_figures(text).unwrap();
        assert_eq!((sample.rate, sample.p50, sample.p99, sample.p999), (156_006.25, 31.0, 63.0, 3607.0));
        assert!(redis_figures("ERR max number of clients reached").is_none());
    }
}
