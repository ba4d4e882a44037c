//! All systems with all sizes, in turn: [`measure`].
//!
//! A [`Shape`] is the bytes sent and received in an exchange. Client and server of a system are two
//! processes, each on a core of [`Cores`]. In each round each system makes its exchanges, in one
//! order and then in the other, so that a change of the machine's speed hits all. A [`Row`] has the
//! times of all exchanges of a system.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use indicatif::ProgressBar;

use super::super::common::{Failed, pin};
use super::super::process::Program;
use super::super::report::{Case, ratio};
use super::peers::{Group, LOOPBACK, System};
use super::proxy::{Proxy, Weather};

/// The longest wait for a line of a program.
const ANSWER: Duration = Duration::from_secs(600);
/// The most exchanges of the round that warms up.
const WARM_UP: u32 = 200;

/// The cores of the client and of the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cores {
    pub client: usize,
    pub server: usize,
}

impl std::str::FromStr for Cores {
    type Err = String;

    fn from_str(text: &str) -> Result<Cores, String> {
        let cores = text.split_once(',').and_then(|(client, server)| {
            Some(Cores { client: client.parse().ok()?, server: server.parse().ok()? })
        });
        cores.ok_or_else(|| "write the core of the client and that of the server, as in 0,1".to_owned())
    }
}

impl Cores {
    /// Returns their title.
    pub fn title(self) -> String {
        match self.client == self.server {
            true => format!("one core ({},{})", self.client, self.server),
            false => format!("two cores ({},{})", self.client, self.server),
        }
    }
}

/// The bytes sent and received in an exchange.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    pub sent: u32,
    pub received: u32,
}

impl Shape {
    /// Returns the shapes of some sizes, in the order of the paper: sent only, received only, both.
    pub fn all(sizes: &[u32]) -> Vec<Shape> {
        let sent = sizes.iter().map(|size| Shape { sent: *size, received: 0 });
        let received = sizes.iter().map(|size| Shape { sent: 0, received: *size });
        let both = sizes.iter().map(|size| Shape { sent: *size, received: *size });
        sent.chain(received).chain(both).collect()
    }

    /// True if as many bytes are received as sent.
    pub fn is_both(self) -> bool {
        self.sent == self.received
    }
}

/// The times and counts of a system's exchanges of a shape.
#[derive(Clone, Debug)]
pub struct Row {
    pub system: &'static str,
    pub group: Group,
    /// Microseconds of each exchange, the least first.
    us: Vec<f64>,
    /// The datagrams of both sides, if both count them.
    datagrams: Option<u64>,
    cpu_ns: u64,
}

impl Row {
    /// Makes a row from the samples of its rounds.
    pub fn new(system: &'static str, group: Group, samples: &[Sample]) -> Row {
        let mut us: Vec<f64> =
            samples.iter().flat_map(|sample| &sample.ns).map(|ns| *ns as f64 / 1e3).collect();
        us.sort_by(f64::total_cmp);
        let datagrams = samples.iter().try_fold(0, |sum, sample| Some(sum + sample.datagrams?));
        Row { system, group, us, datagrams, cpu_ns: samples.iter().map(|sample| sample.cpu_ns).sum() }
    }

    /// Returns the time in microseconds that a share of the exchanges does not exceed.
    fn percentile(&self, share: f64) -> f64 {
        let at = (self.us.len() as f64 * share) as usize;
        self.us.get(at.min(self.us.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
    }

    /// Returns the median time of an exchange.
    pub fn median(&self) -> f64 {
        self.percentile(0.5)
    }

    /// Returns the least time.
    pub fn least(&self) -> f64 {
        self.percentile(0.0)
    }

    /// Returns the 99th percentile.
    pub fn p99(&self) -> f64 {
        self.percentile(0.99)
    }

    /// Returns its times as a case of a benchmark.
    pub fn case(&self, name: String) -> Case {
        let case = Case::new(name, self.us.len() as u64, "us", &mut self.us.clone());
        Case { value: self.median(), p99: Some(self.p99()), ..case }
    }

    /// Returns the datagrams of an exchange.
    pub fn datagrams(&self) -> Option<f64> {
        Some(self.datagrams? as f64 / self.us.len() as f64)
    }

    /// Returns the processor time of both sides for an exchange, in microseconds.
    pub fn cpu_us(&self) -> f64 {
        self.cpu_ns as f64 / self.us.len() as f64 / 1e3
    }
}

/// The exchanges of a shape, by all systems.
pub struct Measured {
    pub cores: Cores,
    pub shape: Shape,
    pub rows: Vec<Row>,
}

impl Measured {
    /// Returns the row of a system.
    pub fn row(&self, system: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.system == system)
    }

    /// Returns the row to which another one is compared: that of raw sockets, or else the first one
    /// of the group.
    fn base(&self, row: &Row) -> Option<&Row> {
        let first = || self.rows.iter().find(|one| one.group == row.group);
        self.row(row.group.base()).or_else(first)
    }

    /// Returns the median of a row as a multiple of that of its base.
    pub fn ratio(&self, row: &Row) -> f64 {
        self.base(row).map_or(f64::NAN, |base| ratio(row.median(), base.median()))
    }

    /// Returns its figures as cases of a benchmark.
    pub fn cases(&self, weather: Option<&Weather>) -> Vec<Case> {
        let Measured { cores: Cores { client, server }, shape: Shape { sent, received }, .. } = self;
        let weather = weather.map_or(String::new(), |weather| {
            format!(", loss {} %, delay {} us", weather.loss * 100.0, weather.delay.as_micros())
        });
        let case = |row: &Row| {
            let name = format!("{sent} sent, {received} received, cores {client},{server}{weather}");
            Case {
                crossings: (row.group == Group::Calls).then_some(1),
                datagrams: row.datagrams(),
                cpu_ns: Some((row.cpu_us() * 1e3) as u64),
                ..row.case(name).part_of("echo").of(row.system)
            }
        };
        self.rows.iter().map(case).collect()
    }
}

/// The exchanges of a round.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sample {
    /// Nanoseconds of each.
    pub ns: Vec<u64>,
    /// The datagrams of both sides, if both count them.
    pub datagrams: Option<u64>,
    /// Processor time of both sides.
    pub cpu_ns: u64,
}

/// The work of a run.
pub struct Plan<'a> {
    pub shapes: &'a [Shape],
    /// The exchanges of a system in a round.
    pub exchanges: u32,
    pub rounds: u32,
    /// The network between client and server.
    pub way: Way,
}

/// A network between client and server.
pub enum Way {
    /// Nothing.
    Loopback,
    /// A proxy for each system, which does this harm to datagrams.
    Proxy(Weather),
    /// A network device that does harm to all packets.
    Device(Device),
}

/// A network device, which lives as long as its program.
pub struct Device {
    _program: Program,
    /// The address of servers, and that by which clients reach them.
    server: String,
    client: String,
}

impl Device {
    /// Starts the program of the network.
    ///
    /// # Errors
    /// It may not make a device.
    pub fn start(command: &mut Command) -> Result<Device, Failed> {
        let mut program = Program::start("the network", command)?;
        let line = program.hear(ANSWER).map_err(|error| {
            format!("{error}: a network device needs root; leave out `--device` for the proxy, without TCP")
        })?;
        let hosts = line.strip_prefix("ready ").and_then(|hosts| hosts.split_once(' '));
        let (server, client) = hosts.ok_or_else(|| unknown(&line))?;
        let (server, client) = (server.to_owned(), client.to_owned());
        Ok(Device { _program: program, server, client })
    }
}

/// Measures all shapes on two cores, and shows each to `each`.
///
/// # Errors
/// A program does not start, or does not get the bytes that it should.
pub fn measure(
    systems: &[System],
    cores: Cores,
    plan: &Plan<'_>,
    bar: &ProgressBar,
    mut each: impl FnMut(&Measured) -> Result<(), Failed>,
) -> Result<Vec<Measured>, Failed> {
    let folder = tempfile::tempdir()?;
    let mut pairs = Vec::new();
    for system in systems {
        bar.set_message(format!("starting {}", system.name));
        let folder = folder.path().join(pairs.len().to_string());
        let pair = Pair::start(system, cores, &plan.way, &folder);
        pairs.push(pair.map_err(|error| format!("{}: {error}", system.name))?);
    }
    let mut all = Vec::new();
    for shape in plan.shapes.iter().copied() {
        bar.set_message(format!("{}: {} sent, {} received", cores.title(), shape.sent, shape.received));
        let mut samples: Vec<Vec<Sample>> = vec![Vec::new(); systems.len()];
        for round in 0..=plan.rounds {
            let mut order: Vec<usize> = (0..systems.len()).collect();
            if round % 2 == 1 {
                order.reverse();
            }
            for at in order {
                // The first round warms up.
                let exchanges = if round == 0 { plan.exchanges.min(WARM_UP) } else { plan.exchanges };
                let sample = pairs[at].exchange(shape, exchanges);
                let sample = sample.map_err(|error| format!("{}, {shape:?}: {error}", systems[at].name))?;
                samples[at].extend((round > 0).then_some(sample));
                bar.inc(1);
            }
        }
        let rows = systems.iter().zip(&samples);
        let rows = rows.map(|(system, samples)| Row::new(system.name, system.group, samples)).collect();
        let measured = Measured { cores, shape, rows };
        each(&measured)?;
        all.push(measured);
    }
    Ok(all)
}

/// Client and server of a system.
struct Pair {
    // Dropped in this order: nobody sees the other side gone before its own input ends.
    client: Program,
    proxy: Option<Proxy>,
    server: Program,
}

impl Pair {
    fn start(system: &System, cores: Cores, way: &Way, folder: &Path) -> Result<Pair, Failed> {
        std::fs::create_dir(folder)?;
        let host = if let Way::Device(device) = way { &device.server } else { LOOPBACK };
        let mut server = start_on(cores.server, system.name, system.server(folder, host))?;
        let line = server.hear(ANSWER)?;
        let mut place = line.strip_prefix("ready ").ok_or_else(|| unknown(&line))?.to_owned();
        let proxy = match way {
            Way::Loopback => None,
            Way::Proxy(weather) => Some(proxy(&mut place, *weather)?),
            Way::Device(device) => {
                place = place.replace(&device.server, &device.client);
                None
            }
        };
        let mut client = start_on(cores.client, system.name, system.client(&place))?;
        let line = client.hear(ANSWER)?;
        if line != "ready" {
            return Err(unknown(&line));
        }
        client.say("check")?;
        let line = client.hear(ANSWER)?;
        if line != "checked" {
            return Err(unknown(&line));
        }
        Ok(Pair { client, proxy, server })
    }

    fn counts(&mut self) -> Result<Side, Failed> {
        self.server.say("counts")?;
        let line = self.server.hear(ANSWER)?;
        counts(&line).ok_or_else(|| unknown(&line))
    }

    /// Makes exchanges.
    fn exchange(&mut self, Shape { sent, received }: Shape, exchanges: u32) -> Result<Sample, Failed> {
        let before = self.counts()?;
        self.client.say(&format!("{sent} {received} {exchanges}"))?;
        let line = self.client.hear(ANSWER).map_err(|error| match &self.proxy {
            Some(proxy) => format!("{error}, after {:?} datagrams", proxy.counts()).into(),
            None => error,
        })?;
        let (client, ns) = done(&line).ok_or_else(|| unknown(&line))?;
        if ns.len() != exchanges as usize {
            return Err(format!("{} exchanges were made, not {exchanges}", ns.len()).into());
        }
        let server = self.counts()?;
        let less = |now: u64, before: u64| now.saturating_sub(before);
        let of_server = server.datagrams.zip(before.datagrams).map(|(now, before)| less(now, before));
        Ok(Sample {
            ns,
            datagrams: client.datagrams.zip(of_server).map(|(client, server)| client + server),
            cpu_ns: client.cpu_ns + less(server.cpu_ns, before.cpu_ns),
        })
    }
}

/// Puts a proxy before a place: an address, which may have a scheme before it and a pin behind it.
fn proxy(place: &mut String, weather: Weather) -> Result<Proxy, Failed> {
    let (scheme, place_there) = place.split_at(place.find("://").map_or(0, |at| at + 3));
    let (address, rest) = place_there.split_at(place_there.find('#').unwrap_or(place_there.len()));
    let server: SocketAddr = address.parse()?;
    let proxy = Proxy::start(server, weather)?;
    *place = format!("{scheme}{}{rest}", proxy.address());
    Ok(proxy)
}

/// Starts a program on a core: it has the cores of the thread that starts it.
///
/// # Errors
/// It does not start.
pub fn start_on(core: usize, name: &'static str, mut command: Command) -> Result<Program, Failed> {
    let start = || {
        pin(core);
        Program::start(name, &mut command).map_err(|error| error.to_string())
    };
    std::thread::scope(|scope| match std::thread::Builder::new().spawn_scoped(scope, start)?.join() {
        Ok(program) => Ok(program?),
        Err(_) => Err("the thread that starts a program has failed".into()),
    })
}

/// The counts of one side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Side {
    cpu_ns: u64,
    datagrams: Option<u64>,
}

/// Reads the counts of a side from the words of a line.
fn side<'a>(words: &mut impl Iterator<Item = &'a str>) -> Option<Side> {
    let cpu_ns = words.next()?.parse().ok()?;
    let datagrams = match words.next()? {
        "-" => None,
        word => Some(word.parse().ok()?),
    };
    Some(Side { cpu_ns, datagrams })
}

/// Reads the line with the counts of a server.
fn counts(line: &str) -> Option<Side> {
    let mut words = line.split(' ');
    let side = side(&mut words);
    side.filter(|_| words.next().is_none())
}

/// Reads the line of a client that has made its exchanges: its counts, and nanoseconds.
fn done(line: &str) -> Option<(Side, Vec<u64>)> {
    let mut words = line.strip_prefix("done ")?.split(' ');
    let side = side(&mut words)?;
    Some((side, words.map(|word| word.parse().ok()).collect::<Option<_>>()?))
}

/// Returns the error of a line that was not expected.
fn unknown(line: &str) -> Failed {
    match line.strip_prefix("failed ") {
        Some(reason) => format!("a program has failed: {reason}").into(),
        None => format!("a program says `{}`", line.chars().take(100).collect::<String>()).into(),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Makes a row of three exchanges with 2 datagrams each.
    pub fn row(system: &'static str, group: Group, us: u64) -> Row {
        let datagrams = (group == Group::Datagrams).then_some(6);
        let ns = vec![us * 900, us * 1000, us * 2000];
        Row::new(system, group, &[Sample { ns, datagrams, cpu_ns: 3 * us * 1100 }])
    }

    #[test]
    fn cores_are_two_numbers() {
        assert_eq!("0,1".parse(), Ok(Cores { client: 0, server: 1 }));
        assert_eq!("12,3".parse(), Ok(Cores { client: 12, server: 3 }));
        for text in ["", "0", "0,", ",1", "0,1,2", "a,b", "-1,0", "0 1"] {
            let error = text.parse::<Cores>().unwrap_err();
            assert!(error.contains("as in 0,1"), "{text}: {error}");
        }
    }

    #[test]
    fn shapes_are_those_of_the_paper() {
        let shapes = Shape::all(&[16, 512]);
        let pairs: Vec<(u32, u32)> = shapes.iter().map(|shape| (shape.sent, shape.received)).collect();
        assert_eq!(pairs, [(16, 0), (512, 0), (0, 16), (0, 512), (16, 16), (512, 512)]);
        assert_eq!(shapes.iter().filter(|shape| shape.is_both()).count(), 2);
    }

    #[test]
    fn lines_of_programs_are_read() {
        let of = |cpu_ns, datagrams| Side { cpu_ns, datagrams };
        assert_eq!(counts("12 -"), Some(of(12, None)));
        assert_eq!(counts("12 3"), Some(of(12, Some(3))));
        assert_eq!(done("done 7 2 10 11"), Some((of(7, Some(2)), vec![10, 11])));
        assert_eq!(done("done 7 -"), Some((of(7, None), vec![])));
        for line in ["", "12", "- 1", "12 3 4", "x 3", "12 -3"] {
            assert_eq!(counts(line), None, "{line}");
        }
        for line in ["", "done", "done 1", "done 1 x 5", "done 1 - 5 x", "failed 1 2 3"] {
            assert_eq!(done(line), None, "{line}");
        }
        assert_eq!(unknown("failed no bytes").to_string(), "a program has failed: no bytes");
    }

    #[test]
    fn figures_of_a_row_are_those_of_its_exchanges() {
        let sample = |ns: &[u64], datagrams| Sample { ns: ns.to_vec(), datagrams, cpu_ns: 8000 };
        let samples = [sample(&[4000, 1000], Some(4)), sample(&[3000, 2000], Some(5))];
        let row = Row::new("a", Group::Datagrams, &samples);
        assert_eq!((row.least(), row.median(), row.p99()), (1.0, 3.0, 4.0));
        assert_eq!((row.datagrams(), row.cpu_us()), (Some(2.25), 4.0));
        let unknown = Row::new("a", Group::Datagrams, &[samples[0].clone(), sample(&[1], None)]);
        assert_eq!(unknown.datagrams(), None);
        assert!(Row::new("a", Group::Calls, &[]).median().is_nan());
    }

    #[test]
    fn rows_are_compared_with_raw_sockets() {
        let rows = vec![
            row("raw udp", Group::Datagrams, 10),
            row("quinn", Group::Datagrams, 25),
            row("raw tcp", Group::Streams, 20),
            row("capnp", Group::Calls, 50),
        ];
        let (cores, shape) = (Cores { client: 0, server: 1 }, Shape { sent: 16, received: 0 });
        let mut measured = Measured { cores, shape, rows };
        assert_eq!(measured.ratio(&measured.rows[1]), 2.5);
        assert_eq!(measured.ratio(&measured.rows[3]), 2.5);
        let cases = measured.cases(None);
        assert_eq!((cases[1].value, cases[1].p99, cases[1].datagrams), (25.0, Some(50.0), Some(2.0)));
        assert_eq!((cases[1].cpu_ns, cases[1].crossings, cases[3].crossings), (Some(27_500), None, Some(1)));
        assert_eq!((&*cases[0].case, cases[0].n), ("16 sent, 0 received, cores 0,1", 3));
        // Without raw sockets the first of the group is the base.
        measured.rows.remove(0);
        assert_eq!(measured.ratio(&measured.rows[0]), 1.0);
        let weather = Weather { loss: 0.01, delay: Duration::from_micros(500), ..Weather::default() };
        assert!(measured.cases(Some(&weather))[0].case.ends_with("cores 0,1, loss 1 %, delay 500 us"));
    }
}
