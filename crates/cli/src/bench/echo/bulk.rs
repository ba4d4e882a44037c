//! Long messages, alone and beside short ones of the same process: `bifrost bench echo --bulk 16`.
//!
//! Read [`measure`] first. The client has two streams to one server: over QUIC they share a
//! connection, over the others each has its own. The orders of the process that measures:
//!
//! ```text
//! short N                    N exchanges of 16 bytes        short CPU_NS NS...
//! long SENT RECEIVED N       N exchanges of so many bytes   long CPU_NS NS...
//! both N SENT                N short exchanges or more      short CPU_NS NS...
//!                            while long ones are sent       long 0 NS...
//! ```

use std::io::BufRead;
use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bifrost_transport::{ConnectOptions, Deadline, Stream};
use indicatif::ProgressBar;

use super::super::common::Failed;
use super::super::process::Program;
use super::super::report::{Case, Target, ratio, summary};
use super::contest::{Cores, Row, Sample, start_on};
use super::message::{pattern, processor_ns, say};
use super::ours::{Over, READ_BYTES, listen};
use super::peers::{Group, LOOPBACK};

/// The bytes of a short exchange, both ways.
const SHORT: usize = 16;
/// The bytes of a head: how many bytes follow, and how many are wanted or have arrived.
const HEAD: usize = 16;
/// The long messages of a turn in each direction, and the least beside short ones.
const LONG: usize = 3;
/// The most bytes of a message.
const BYTES_MAX: usize = 256 << 20;
/// The longest wait for a line.
const ANSWER: Duration = Duration::from_secs(600);
/// Long messages over QUIC run at least at these shares of the bytes in a second over TCP and TLS.
const SHARE_OF_TCP: f64 = 0.3;
const SHARE_OF_TLS: f64 = 0.6;
/// The 99th percentile of short exchanges beside long messages, as a multiple of that alone.
const BESIDE_MOST: f64 = 3.0;

fn head(follow: usize, other: usize) -> [u8; HEAD] {
    (follow as u128 | (other as u128) << 64).to_le_bytes()
}

/// A stream with the bytes of it that were read.
struct End {
    stream: Stream,
    inbox: Vec<u8>,
}

impl End {
    fn new(stream: Stream) -> End {
        End { stream, inbox: Vec::new() }
    }

    /// Waits for a message: the two numbers of its head, and its bytes. `None`: the other side has
    /// closed.
    fn receive(&mut self, bytes: &mut Vec<u8>) -> Result<Option<usize>, Failed> {
        bytes.clear();
        while self.inbox.len() < HEAD {
            if self.stream.read(&mut self.inbox, READ_BYTES, Deadline::Never)? == 0 {
                return Ok(None);
            }
        }
        let numbers = u128::from_le_bytes(self.inbox[..HEAD].try_into()?);
        let (follow, other) = (numbers as u64 as usize, (numbers >> 64) as usize);
        if follow.max(other) > BYTES_MAX {
            return Err(format!("a message of {follow} bytes is too long").into());
        }
        self.inbox.drain(..HEAD);
        let here = follow.min(self.inbox.len());
        bytes.extend(self.inbox.drain(..here));
        while bytes.len() < follow {
            let most = READ_BYTES.min(follow - bytes.len());
            if self.stream.read(bytes, most, Deadline::Never)? == 0 {
                return Err("the other side has closed within a message".into());
            }
        }
        Ok(Some(other))
    }

    fn send(&mut self, head: [u8; HEAD], bytes: &[u8]) -> Result<(), Failed> {
        self.stream.write(&head, Deadline::Never)?;
        self.stream.write(bytes, Deadline::Never)?;
        self.stream.flush();
        Ok(())
    }

    /// Sends bytes, and wants the first ones of a pattern. Returns nanoseconds.
    fn exchange(&mut self, sent: &[u8], wanted: &[u8], answer: &mut Vec<u8>) -> Result<u64, Failed> {
        let began = Instant::now();
        self.send(head(sent.len(), wanted.len()), sent)?;
        let arrived = self.receive(answer)?.ok_or("the server has closed")?;
        let took = began.elapsed();
        match arrived == sent.len() && answer == wanted {
            true => Ok(took.as_nanos() as u64),
            false => Err("the bytes received are not those expected".into()),
        }
    }
}

/// Runs the server: answers all clients until its input ends.
///
/// # Errors
/// It cannot listen.
pub fn serve(over: Over, folder: &Path) -> Result<(), Failed> {
    let (listener, address) = listen(over, folder, LOOPBACK)?;
    say(&format!("ready {address}"))?;
    std::thread::spawn(|| {
        // There is nothing to keep.
        for _ in std::io::stdin().lock().lines().map_while(Result::ok) {}
        std::process::exit(0);
    });
    while let Some(stream) = listener.accept()? {
        std::thread::spawn(move || {
            let answered = answer(&mut End::new(stream));
            answered.map_err(|error| error.to_string())
        });
    }
    Ok(())
}

fn answer(end: &mut End) -> Result<(), Failed> {
    let (mut known, mut bytes) = (Vec::new(), Vec::new());
    while let Some(wanted) = end.receive(&mut bytes)? {
        let longest = wanted.max(bytes.len());
        if known.len() < longest {
            known = pattern(longest);
        }
        if bytes != known[..bytes.len()] {
            return Err("the bytes received are not those expected".into());
        }
        end.send(head(wanted, bytes.len()), &known[..wanted])?;
    }
    Ok(())
}

/// Runs the client.
///
/// # Errors
/// It cannot connect, or an answer is wrong.
pub fn call(place: &str) -> Result<(), Failed> {
    let connect = || Stream::connect(&place.parse()?, &ConnectOptions::default()).map_err(Failed::from);
    let (mut short, mut long) = (End::new(connect()?), End::new(connect()?));
    say("ready")?;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split(' ').collect();
        let numbers: Vec<usize> = words[1..].iter().map(|word| word.parse()).collect::<Result<_, _>>()?;
        if numbers.iter().any(|number| *number > BYTES_MAX) {
            return Err(format!("unknown order `{line}`").into());
        }
        match (words[0], &numbers[..]) {
            ("short", [count]) => say_times("short", || times(&mut short, SHORT, SHORT, *count))?,
            ("long", [sent, received, count]) => {
                say_times("long", || times(&mut long, *sent, *received, *count))?;
            }
            ("both", [count, sent]) => both(&mut short, &mut long, *count, *sent)?,
            _ => return Err(format!("unknown order `{line}`").into()),
        }
    }
    Ok(())
}

/// Makes exchanges, and returns the nanoseconds of each.
fn times(end: &mut End, sent: usize, received: usize, count: usize) -> Result<Vec<u64>, Failed> {
    let (sent, received, mut answer) = (pattern(sent), pattern(received), Vec::new());
    (0..count).map(|_| end.exchange(&sent, &received, &mut answer)).collect()
}

fn say_times(name: &str, make: impl FnOnce() -> Result<Vec<u64>, Failed>) -> Result<(), Failed> {
    let before = processor_ns();
    let times: Vec<String> = make()?.iter().map(u64::to_string).collect();
    say(&format!("{name} {} {}", processor_ns() - before, times.join(" ")))
}

/// Makes short exchanges while long messages are sent: at least `count`, and until enough long ones
/// have arrived.
fn both(short: &mut End, long: &mut End, count: usize, sent: usize) -> Result<(), Failed> {
    let (arrived, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let begun = Barrier::new(2);
    let each = std::thread::scope(|scope| {
        let sending = scope.spawn(|| {
            let (sent, mut answer, mut each) = (pattern(sent), Vec::new(), Vec::new());
            begun.wait();
            while !is_over.load(Ordering::Relaxed) {
                let exchanged = long.exchange(&sent, &[], &mut answer).map_err(|error| error.to_string());
                // A failure ends the other side, too.
                arrived.fetch_add(if exchanged.is_ok() { 1 } else { LONG }, Ordering::Relaxed);
                each.push(exchanged?);
            }
            Ok::<_, String>(each)
        });
        let (bytes, mut answer) = (pattern(SHORT), Vec::new());
        begun.wait();
        let said = say_times("short", || {
            let mut times = Vec::new();
            while times.len() < count || arrived.load(Ordering::Relaxed) < LONG {
                times.push(short.exchange(&bytes, &bytes, &mut answer)?);
            }
            Ok(times)
        });
        is_over.store(true, Ordering::Relaxed);
        let each = sending.join().map_err(|_| "the thread with the long messages has failed")?;
        said.and(Ok::<_, Failed>(each?))
    })?;
    say_times("long", || Ok(each))
}

/// The work of a run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The bytes of a long message.
    pub bytes: usize,
    /// The short exchanges of a system in a round.
    pub exchanges: u32,
    pub rounds: u32,
}

/// The figures of a transport.
struct Figures {
    over: Over,
    /// MiB in a second of each long message sent, and received, and sent beside short ones.
    sent: Vec<f64>,
    received: Vec<f64>,
    beside: Vec<f64>,
    /// Short exchanges alone, and beside long messages.
    alone: Row,
    both: Row,
}

/// Measures transports in turn, prints their table, and returns cases and goals.
///
/// # Errors
/// A program does not start, or an answer is wrong.
pub fn measure(
    overs: &[Over],
    cores: Cores,
    plan: Plan,
    bar: &ProgressBar,
) -> Result<(Vec<Case>, Vec<Target>), Failed> {
    let folder = tempfile::tempdir()?;
    let mut pairs = Vec::new();
    for over in overs {
        pairs.push((*over, Pair::start(*over, cores, folder.path())?));
    }
    let mut samples: Vec<[Vec<Vec<u64>>; 5]> = vec![Default::default(); pairs.len()];
    for round in 0..=plan.rounds {
        let mut order: Vec<usize> = (0..pairs.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for at in order {
            bar.set_message(format!("{}: {}", cores.title(), pairs[at].0.name()));
            let got = pairs[at].1.turn(plan)?;
            // The first round warms up.
            if round > 0 {
                samples[at].iter_mut().zip(got).for_each(|(known, got)| known.push(got));
            }
            bar.inc(1);
        }
    }
    let rate = |samples: &[Vec<u64>]| -> Vec<f64> {
        let mebibytes = plan.bytes as f64 / f64::from(1 << 20);
        samples.iter().flatten().map(|ns| mebibytes / (*ns as f64 / 1e9)).collect()
    };
    let row = |over: Over, samples: &[Vec<u64>]| {
        let sample = |ns: &Vec<u64>| Sample { ns: ns.clone(), datagrams: None, cpu_ns: 0 };
        Row::new(over.name(), Group::Streams, &samples.iter().map(sample).collect::<Vec<_>>())
    };
    let all: Vec<Figures> = pairs
        .iter()
        .zip(&samples)
        .map(|((over, _), [alone, sent, received, both, beside])| Figures {
            over: *over,
            sent: rate(sent),
            received: rate(received),
            beside: rate(beside),
            alone: row(*over, alone),
            both: row(*over, both),
        })
        .collect();
    bar.suspend(|| print(cores, plan, &all));
    let cases = all.iter().flat_map(|figures| figures.cases(cores, plan)).collect();
    Ok((cases, goals(cores, &all)))
}

impl Figures {
    fn cases(&self, Cores { client, server }: Cores, plan: Plan) -> Vec<Case> {
        let mebibytes = plan.bytes >> 20;
        let long = |what: &str, rates: &[f64]| {
            let name = format!("{mebibytes} MiB {what}, cores {client},{server}");
            Case::new(name, rates.len() as u64, "MiB/s", &mut rates.to_vec())
        };
        let short = |what: &str, row: &Row| {
            let name = format!("{SHORT} bytes both ways {what}, cores {client},{server}");
            row.case(name)
        };
        let cases = [
            long("sent", &self.sent),
            long("received", &self.received),
            long("sent beside short exchanges", &self.beside),
            short("alone", &self.alone),
            short("beside long messages", &self.both),
        ];
        cases.into_iter().map(|case| case.part_of("echo").of(self.over.name())).collect()
    }
}

fn median(samples: &[f64]) -> f64 {
    summary(&mut samples.to_vec()).0
}

fn print(cores: Cores, plan: Plan, all: &[Figures]) {
    let bold = anstyle::Style::new().bold();
    anstream::println!(
        "\n{bold}Messages of {} MiB on {}: medians in MiB/s; exchanges of {SHORT} bytes in us{bold:#}",
        plan.bytes >> 20,
        cores.title()
    );
    anstream::println!(
        "  {:<6} {:>8} {:>9} {:>9}   {:>10} {:>10}   {:>10} {:>10} {:>6}",
        "",
        "sent",
        "received",
        "beside",
        "alone",
        "p99",
        "beside",
        "p99",
        "ratio"
    );
    for one in all {
        anstream::println!(
            "  {:<6} {:>8.0} {:>9.0} {:>9.0}   {:>10.1} {:>10.1}   {:>10.1} {:>10.1} {:>6.1}",
            one.over.name(),
            median(&one.sent),
            median(&one.received),
            median(&one.beside),
            one.alone.median(),
            one.alone.p99(),
            one.both.median(),
            one.both.p99(),
            ratio(one.both.p99(), one.alone.p99()),
        );
    }
}

/// Returns the goals of QUIC: beside TCP and TLS, and of short exchanges beside long messages.
fn goals(cores: Cores, all: &[Figures]) -> Vec<Target> {
    let Cores { client, server } = cores;
    let find = |over: Over| all.iter().find(|one| one.over == over);
    let Some(quic) = find(Over::Quic) else { return Vec::new() };
    let mut goals = Vec::new();
    for (over, least) in [(Over::Tcp, SHARE_OF_TCP), (Over::Tls, SHARE_OF_TLS)] {
        let Some(other) = find(over).filter(|_| client != server) else { continue };
        for (way, ours, theirs) in
            [("sent", &quic.sent, &other.sent), ("received", &quic.received, &other.received)]
        {
            let name = format!("quic / {}, long messages {way}, cores {client},{server}", over.name());
            goals.push(Target::at_least(name, ratio(median(ours), median(theirs)), least, "x"));
        }
    }
    let name = format!("quic, short exchanges beside long messages / alone, p99, cores {client},{server}");
    goals.push(Target::new(name, ratio(quic.both.p99(), quic.alone.p99()), BESIDE_MOST, "x"));
    goals
}

/// Client and server of a transport.
struct Pair {
    // Dropped in this order.
    client: Program,
    _server: Program,
}

impl Pair {
    fn start(over: Over, cores: Cores, folder: &Path) -> Result<Pair, Failed> {
        let side = |role: &str, place: &Path| -> Result<std::process::Command, Failed> {
            let mut command = std::process::Command::new(std::env::current_exe()?);
            command.args(["bench", "echo-side", "bulk", over.name(), role]).arg(place);
            Ok(command)
        };
        let folder = folder.join(over.name());
        std::fs::create_dir(&folder)?;
        let mut server = start_on(cores.server, over.name(), side("serve", &folder)?)?;
        let line = server.hear(ANSWER)?;
        let place = line.strip_prefix("ready ").ok_or_else(|| format!("a program says `{line}`"))?;
        let mut client = start_on(cores.client, over.name(), side("client", Path::new(place))?)?;
        let line = client.hear(ANSWER)?;
        match line.as_str() {
            "ready" => Ok(Pair { client, _server: server }),
            _ => Err(format!("a program says `{line}`").into()),
        }
    }

    /// Gives an order, and returns the nanoseconds in the answer.
    fn order(&mut self, order: &str, name: &str) -> Result<Vec<u64>, Failed> {
        self.client.say(order)?;
        self.times(name)
    }

    fn times(&mut self, name: &str) -> Result<Vec<u64>, Failed> {
        let line = self.client.hear(ANSWER)?;
        let words = line.strip_prefix(name).ok_or_else(|| format!("a program says `{line}`"))?;
        // The processor time of the client is the first one.
        Ok(words.split_whitespace().skip(1).map(str::parse).collect::<Result<_, _>>()?)
    }

    /// Returns the times of a round: short exchanges, long ones in each direction, both at once.
    fn turn(&mut self, Plan { bytes, exchanges, .. }: Plan) -> Result<[Vec<u64>; 5], Failed> {
        let alone = self.order(&format!("short {exchanges}"), "short ")?;
        let sent = self.order(&format!("long {bytes} 0 {LONG}"), "long ")?;
        let received = self.order(&format!("long 0 {bytes} {LONG}"), "long ")?;
        let both = self.order(&format!("both {exchanges} {bytes}"), "short ")?;
        Ok([alone, sent, received, both, self.times("long ")?])
    }
}
