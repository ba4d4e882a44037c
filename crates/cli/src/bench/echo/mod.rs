//! `bifrost bench echo`: a client asks a server for bytes and sends bytes (004 section 6.1), over
//! raw sockets, the transports of ours, a call, QUIC, and other systems that carry calls.
//!
//! Read [`System`] first: a program that runs as server and as client, and the lines
//! by which it is ordered. [`run`] has all of them measured in turn ([`contest`]) and prints the
//! paper's table with the paper's figures ([`table`]). Our own sides are [`raw`] and [`ours`]; the
//! form of messages and lines is `message`, which the programs in Rust outside the workspace have,
//! too. With `--loss` a [`proxy`] stands between client and server.
//!
//! Its first use is gate 0 of `docs/internals/rex.md`: the cost of QUIC with one thread on each
//! side beside raw datagrams.

#[rustfmt::skip]
#[allow(clippy::all, dead_code, reason = "generated")]
mod bifrost_stubs;
mod bulk;
mod contest;
#[path = "../../../../../bench/echo/rust/src/message.rs"]
mod message;
mod ours;
mod peers;
mod proxy;
mod raw;
mod table;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args as ClapArgs;
use indicatif::{ProgressBar, ProgressStyle};

use super::common::{Failed, note_debug_build};
use super::report::{self, JsonLines, Target};
use contest::{Cores, Device, Measured, Plan, Shape, Way};
use ours::Over;
use peers::{Group, Peer, QUINN_PROTO, RAW_UDP, System};
use proxy::Weather;
use raw::Raw;

/// The sizes of the paper.
const SIZES: [u32; 7] = [16, 512, 1024, 2048, 4096, 8192, 16384];
/// The most bytes of a message.
const SIZE_MAX: i64 = 65_536;
/// The bytes of the largest datagram of UDP, and the least that a datagram may be cut to: the queue
/// of a socket must have room for a message.
const PACKET: (usize, usize) = (512, 65_507);
/// Gate 0: a protocol of datagrams of our own gains enough if QUIC takes at least so many times a
/// raw exchange of the smallest size.
const GATE_0_LEAST: f64 = 1.4;
/// The most that TLS may take of plain TCP.
const TLS_MOST: f64 = 1.15;
/// The most that the 99th percentile of our QUIC may take of that of quinn, if packets are lost.
const TAIL_MOST: f64 = 0.5;
/// The exchanges of a turn and the rounds of `--quick`.
const QUICK: (u32, u32) = (100, 1);

/// The arguments of `bifrost bench echo`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Use a release build. Peers are measured if they are installed; quinn and quinn-proto need `cargo`. On Debian:
  apt-get install g++ omniidl libomniorb4-dev protobuf-compiler-grpc libgrpc++-dev libprotobuf-dev \\
    capnproto libcapnp-dev

Columns: the median time of an exchange in microseconds, and its ratio to raw udp (datagrams) or raw tcp (streams
and calls). The paper's columns are seconds of 100 exchanges. Details: the least time and the 99th percentile;
datagrams of both sides; CPU us, the processor time of both sides.

With --loss, --delay-us, --reorder or --duplicate a proxy stands between client and server, and only systems that
send lost datagrams again are measured. With --device it is a network device, and those over TCP are measured, too.

Examples:
  bifrost bench echo
  bifrost bench echo --sizes 16,1024 --cores 0,0 --peers quinn-proto --over tcp,tls
  bifrost bench echo --loss 1 --delay-us 500 --sizes 16 --exchanges 2000
  bifrost bench echo --device --loss 1 --delay-us 500 --sizes 16 --over tcp,tls,quic
  bifrost bench echo --bulk 16 --over tcp,tls,quic
  bifrost bench echo --json echo.jsonl")]
pub struct Args {
    /// The bytes of messages: each sent only, received only, and both
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = SIZES,
        value_parser = clap::value_parser!(u32).range(1..=SIZE_MAX))]
    sizes: Vec<u32>,
    /// The exchanges of a system in a turn
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    exchanges: u32,
    /// The turns of each system with each shape; one before them does not count
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// 100 exchanges in one round: to see that all works
    #[arg(long, conflicts_with_all = ["exchanges", "rounds"])]
    quick: bool,
    /// The core of the client and that of the server; each pair has tables of its own
    #[arg(long, value_name = "A,B", default_values = ["0,0", "0,1"])]
    cores: Vec<Cores>,
    /// The transports of ours
    #[arg(long, value_delimiter = ',', default_value = "tcp,tls,quic,unix,shm")]
    over: Vec<Over>,
    /// The other systems to measure [default: all]
    #[arg(long, value_delimiter = ',')]
    peers: Option<Vec<Peer>>,
    /// Where the programs of peers in Rust are, which `cargo` compiles there
    #[arg(long, value_name = "FOLDER", default_value = "bench/echo/rust")]
    peers_folder: PathBuf,
    /// The most bytes of a datagram of the raw sockets
    #[arg(long, value_name = "N", default_value_t = PACKET.1, value_parser = packet)]
    packet: usize,
    /// QUIC: the most bytes of a datagram, which it finds by probes [default: 1452]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1200..=65_507))]
    mtu: Option<u16>,
    /// QUIC: the longest time until a packet is acknowledged, in microseconds; a lost one is sent
    /// again after this time and some round trips [default: 25000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    ack_delay_us: Option<u32>,
    /// The share of datagrams that are lost, in percent
    #[arg(long, value_name = "PERCENT", value_parser = share)]
    loss: Option<f64>,
    /// The time under way of a datagram in each direction, in microseconds
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    delay_us: Option<u32>,
    /// The share of datagrams that others overtake, in percent
    #[arg(long, value_name = "PERCENT", value_parser = share)]
    reorder: Option<f64>,
    /// The share of datagrams that arrive twice, in percent
    #[arg(long, value_name = "PERCENT", value_parser = share)]
    duplicate: Option<f64>,
    /// Have the harm done by a network device (TUN), which TCP needs: it takes root, and `cargo`
    #[arg(long)]
    device: bool,
    /// Measure messages of so many MiB, and short exchanges beside them, over the transports of
    /// ours; nothing else
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u32).range(1..=256),
        conflicts_with_all = ["loss", "delay_us", "reorder", "duplicate", "device", "sizes", "peers"])]
    bulk: Option<u32>,
    /// The seed of the proxy
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Write the figures as JSON, one object a line; `-` for the standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// The arguments of a side of ours.
#[derive(Debug, ClapArgs)]
pub struct SideArgs {
    #[arg(long, default_value_t = PACKET.1)]
    packet: usize,
    /// The host at which a server listens
    #[arg(long, global = true, default_value = peers::LOOPBACK)]
    host: String,
    #[command(subcommand)]
    what: SideWhat,
}

#[derive(Debug, clap::Subcommand)]
enum SideWhat {
    Raw { raw: Raw, role: Role, place: String },
    Stream { over: Over, role: Role, place: String },
    Call { role: Role, place: String },
    Bulk { over: Over, role: Role, place: String },
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Role {
    Serve,
    Client,
}

/// Runs a side of ours, for the process that measures.
///
/// # Errors
/// It does not start, or an answer is wrong.
pub fn run_side(args: &SideArgs) -> Result<(), Failed> {
    match &args.what {
        SideWhat::Raw { raw, role: Role::Serve, place } => {
            raw::serve_raw(*raw, Path::new(place), args.packet, &args.host)
        }
        SideWhat::Raw { raw, role: Role::Client, place } => raw::call_raw(*raw, place, args.packet),
        SideWhat::Stream { over, role: Role::Serve, place } => {
            ours::serve_stream(*over, Path::new(place), &args.host)
        }
        SideWhat::Stream { role: Role::Client, place, .. } => ours::call_stream(place),
        SideWhat::Call { role: Role::Serve, place } => ours::serve_object(Path::new(place)),
        SideWhat::Call { role: Role::Client, place } => ours::call_object(place),
        SideWhat::Bulk { over, role: Role::Serve, place } => bulk::serve(*over, Path::new(place)),
        SideWhat::Bulk { role: Role::Client, place, .. } => bulk::call(place),
    }
}

/// Reads the bytes of a datagram.
fn packet(text: &str) -> Result<usize, String> {
    let (least, most) = PACKET;
    let bytes = text.parse().ok().filter(|bytes| (least..=most).contains(bytes));
    bytes.ok_or_else(|| format!("write a number of bytes from {least} to {most}"))
}

/// Reads a share in percent, and returns it as a number from 0 to 1.
fn share(text: &str) -> Result<f64, String> {
    let percent = text.parse().ok().filter(|percent| (0.0..=50.0).contains(percent));
    percent.map(|percent: f64| percent / 100.0).ok_or_else(|| "write a number from 0 to 50".to_owned())
}

impl Args {
    /// Returns the settings of the proxy, if one is asked for.
    fn weather(&self) -> Option<Weather> {
        let shares = [self.loss, self.reorder, self.duplicate];
        (shares.iter().any(Option::is_some) || self.delay_us.is_some() || self.device).then(|| Weather {
            loss: self.loss.unwrap_or_default(),
            reorder: self.reorder.unwrap_or_default(),
            repeat: self.duplicate.unwrap_or_default(),
            delay: Duration::from_micros(self.delay_us.unwrap_or_default().into()),
            seed: self.seed,
            ..Weather::default()
        })
    }

    /// Returns the transports of ours, each once.
    fn overs(&self) -> Vec<Over> {
        let mut overs: Vec<Over> = Vec::new();
        for over in &self.over {
            if !overs.contains(over) {
                overs.push(*over);
            }
        }
        overs
    }

    /// Returns the pairs of cores that this process may use, and says which it may not.
    fn cores(&self) -> Vec<Cores> {
        let here = core_affinity::get_core_ids().unwrap_or_default();
        let is_here = |core: usize| here.iter().any(|id| id.id == core);
        let (cores, missing): (Vec<Cores>, Vec<Cores>) =
            self.cores.iter().partition(|cores| is_here(cores.client) && is_here(cores.server));
        for Cores { client, server } in missing {
            anstream::eprintln!(
                "note: cores {client},{server} are not measured: this process may not use both"
            );
        }
        cores
    }

    /// Prepares the systems that are wanted and there, and says which are not.
    fn systems(&self, folder: &Path, bar: &ProgressBar) -> Result<Vec<System>, Failed> {
        let overs = self.overs();
        let mtu = self.mtu.map(|bytes| ["--mtu".to_owned(), bytes.to_string()]);
        let delay = self.ack_delay_us.map(|us| ["--ack-delay-us".to_owned(), us.to_string()]);
        let settings: Vec<String> = mtu.into_iter().chain(delay).flatten().collect();
        let mut systems = peers::ours(&overs, self.packet)?;
        for peer in Peer::ALL {
            if self.peers.as_ref().is_some_and(|wanted| !wanted.contains(&peer)) {
                continue;
            }
            bar.set_message(format!("making the programs of {}", peer.name()));
            let folder = folder.join(peer.name());
            std::fs::create_dir(&folder)?;
            match peer.prepare(&folder, &self.peers_folder, &settings) {
                Ok((system, version)) => {
                    bar.suspend(|| anstream::println!("{}: {version}", peer.name()));
                    systems.push(system);
                }
                Err(why) => {
                    bar.suspend(|| anstream::eprintln!("note: {} is not measured: {why}", peer.name()));
                }
            }
        }
        Ok(systems)
    }
}

/// Runs the command.
///
/// # Errors
/// A program does not start, or does not get the bytes that it should.
pub fn run(args: &Args) -> Result<(), Failed> {
    note_debug_build();
    let mut json = JsonLines::create(args.json.as_deref())?;
    let (exchanges, rounds) = if args.quick { QUICK } else { (args.exchanges, args.rounds) };
    let bar = ProgressBar::new(0);
    bar.set_style(ProgressStyle::with_template("{bar:30} {percent:>3}%  {msg}")?);
    if let Some(mebibytes) = args.bulk {
        let plan = bulk::Plan { bytes: (mebibytes as usize) << 20, exchanges, rounds };
        return run_bulk(args, plan, &bar, &mut json);
    }
    let folder = tempfile::tempdir()?;
    let weather = args.weather();
    let mut systems = args.systems(folder.path(), &bar)?;
    let way = match weather {
        None => Way::Loopback,
        Some(weather) if args.device => {
            systems.retain(|system| system.roams && system.group != Group::Calls);
            bar.set_message("making the network");
            Way::Device(Device::start(&mut peers::network(&args.peers_folder, &weather)?)?)
        }
        Some(weather) => {
            systems.retain(|system| system.repeats);
            Way::Proxy(weather)
        }
    };
    if systems.is_empty() {
        return Err("no system here sends lost datagrams again: quic, quinn-proto and quinn do".into());
    }
    let shapes = Shape::all(&args.sizes);
    let plan = Plan { shapes: &shapes, exchanges, rounds, way };
    let cores = args.cores();
    bar.set_length(cores.len() as u64 * shapes.len() as u64 * u64::from(rounds + 1) * systems.len() as u64);
    let mut targets = Vec::new();
    for cores in cores {
        let all = contest::measure(&systems, cores, &plan, &bar, |measured| {
            Ok(json.write(&measured.cases(weather.as_ref()))?)
        })?;
        bar.suspend(|| print(cores, &all, weather.as_ref()));
        targets.extend(if weather.is_some() { tails(cores, &all) } else { goals(cores, &all) });
    }
    bar.finish_and_clear();
    if !targets.is_empty() {
        report::print_targets(&targets);
    }
    Ok(json.write(&targets)?)
}

/// Measures long messages, and short exchanges beside them.
fn run_bulk(args: &Args, plan: bulk::Plan, bar: &ProgressBar, json: &mut JsonLines) -> Result<(), Failed> {
    let (overs, cores, mut targets) = (args.overs(), args.cores(), Vec::new());
    bar.set_length(cores.len() as u64 * overs.len() as u64 * u64::from(plan.rounds + 1));
    for cores in cores {
        let (cases, goals) = bulk::measure(&overs, cores, plan, bar)?;
        json.write(&cases)?;
        targets.extend(goals);
    }
    bar.finish_and_clear();
    if !targets.is_empty() {
        report::print_targets(&targets);
    }
    Ok(json.write(&targets)?)
}

/// Prints the tables of a pair of cores.
fn print(cores: Cores, all: &[Measured], weather: Option<&Weather>) {
    let bold = anstyle::Style::new().bold();
    let title = cores.title();
    if weather.is_none() {
        for group in Group::ALL {
            let (name, base) = (group.title(), group.base());
            anstream::println!("\n{bold}{name} on {title}: medians in us, ratios to {base}{bold:#}");
            for line in table::lines(group, all) {
                anstream::println!("{line}");
            }
        }
    }
    let weather = weather.map_or(String::new(), |Weather { loss, repeat, reorder, delay, seed, .. }| {
        let percent = |share: &f64| share * 100.0;
        format!(
            "; {} % lost, {} % twice, {} % late, {} us each way, seed {seed}",
            percent(loss),
            percent(repeat),
            percent(reorder),
            delay.as_micros()
        )
    });
    anstream::println!("\n{bold}Details on {title}{weather}{bold:#}\n{}", table::detail_head());
    let both: Vec<&Measured> = all.iter().filter(|one| one.shape.is_both()).collect();
    // The smallest and the largest size show the cost of an exchange and of a byte.
    let shown = if weather.is_empty() { [both.first(), both.last()] } else { [None, None] };
    let mut shown: Vec<&Measured> = shown.into_iter().flatten().copied().collect();
    if !weather.is_empty() {
        shown.extend(all);
    }
    shown.dedup_by_key(|one| one.shape);
    for line in shown.into_iter().flat_map(table::details) {
        anstream::println!("{line}");
    }
}

/// Returns the goals for the smallest size both ways: gate 0, and the cost of TLS.
fn goals(cores: Cores, all: &[Measured]) -> Vec<Target> {
    let smallest = all.iter().filter(|one| one.shape.is_both()).min_by_key(|one| one.shape.sent);
    let Some(measured) = smallest else { return Vec::new() };
    let Cores { client, server } = cores;
    let ratio =
        |of: &str, to: &str| Some(report::ratio(measured.row(of)?.median(), measured.row(to)?.median()));
    let name = |of: &str, to: &str| {
        format!("{of} / {to}, {} bytes both ways, cores {client},{server}", measured.shape.sent)
    };
    let gate = ratio(QUINN_PROTO, RAW_UDP).map(|value| {
        Target::at_least(format!("gate 0: {}", name(QUINN_PROTO, RAW_UDP)), value, GATE_0_LEAST, "x")
    });
    let (tls, tcp) = (Over::Tls.name(), Over::Tcp.name());
    let tls = ratio(tls, tcp).map(|value| Target::new(name(tls, tcp), value, TLS_MOST, "x"));
    gate.into_iter().chain(tls).collect()
}

/// Returns the goal of QUIC for the slowest exchanges where packets are lost: beside quinn.
fn tails(cores: Cores, all: &[Measured]) -> Vec<Target> {
    let Cores { client, server } = cores;
    let goal = |measured: &Measured| {
        let [ours, quinn] = [Over::Quic.name(), peers::QUINN].map(|name| measured.row(name));
        let value = report::ratio(ours?.p99(), quinn?.p99());
        let Shape { sent, received } = measured.shape;
        let name = format!(
            "quic / quinn, 99th percentile, {sent} sent, {received} received, cores {client},{server}"
        );
        Some(Target::new(name, value, TAIL_MOST, "x"))
    };
    all.iter().filter_map(goal).collect()
}

#[cfg(test)]
mod tests {
    use super::contest::tests::row;
    use super::*;

    #[test]
    fn numbers_have_limits() {
        assert_eq!((packet("512"), packet("65507")), (Ok(512), Ok(65_507)));
        for text in ["", "511", "65508", "-1", "1K"] {
            assert!(packet(text).unwrap_err().contains("from 512 to 65507"), "{text}");
        }
        assert_eq!(
            (share("0"), share("1"), share("0.5"), share("50")),
            (Ok(0.0), Ok(0.01), Ok(0.005), Ok(0.5))
        );
        for text in ["", "-1", "50.1", "NaN", "inf", "1%"] {
            assert!(share(text).unwrap_err().contains("from 0 to 50"), "{text}");
        }
    }

    #[test]
    fn the_gate_is_that_of_the_smallest_size() {
        let of = |size, us| Measured {
            cores: Cores { client: 0, server: 0 },
            shape: Shape { sent: size, received: size },
            rows: vec![row(RAW_UDP, Group::Datagrams, 10), row(QUINN_PROTO, Group::Datagrams, us)],
        };
        let cores = Cores { client: 0, server: 0 };
        let targets = goals(cores, &[of(512, 50), of(16, 13)]);
        assert_eq!((targets.len(), targets[0].value, targets[0].reached), (1, 1.3, false));
        assert_eq!(targets[0].target, "gate 0: quinn-proto / raw udp, 16 bytes both ways, cores 0,0");
        assert!(goals(cores, &[of(16, 14)])[0].reached);
        assert!(goals(cores, &[]).is_empty());
    }
}
