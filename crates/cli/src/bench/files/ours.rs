//! The server of `bench/files/files.theta` and its client, as processes that read and print the
//! lines of a peer (`bench/files/files.h`).
//!
//! The server is an ordinary one: its file server is `std.FileServer`, whose methods run on tasks.

use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::time::Instant;

use bifrost_capsule::tasks::TaskCounts;
use bifrost_engine::{Engine, Mode, Run};
use bifrost_native::Registry;
use bifrost_native::standard::Files as Allowed;
use bifrost_server::{Config, Server, TasksConfig, TlsConfig, program};
use bifrost_veneer::Session;
use rustix::time::{ClockId, clock_gettime};

use super::super::common::{Failed, say};
use super::bifrost_stubs::{Disk, FileServer, INTERFACE, OpenFile};
use super::disk::{Disk as SlowDisk, DiskFolder};
use super::subject::{Done, Over, Slow, Way, Work};
use crate::common::certificates::{make_self_signed, write_new};

/// The program of the server.
const PROGRAM: &str = include_str!("../../../../../bench/files/files.theta");

/// Returns the natives of the measurement.
pub fn registry(registry: &Registry) -> Registry {
    registry.clone().with_actor::<SlowDisk>()
}

/// Runs the server: prints where it listens, answers `counts`, and ends when its input does.
///
/// # Errors
/// It cannot listen.
pub fn serve(over: Over, folder: &Path, tasks: u32, place: &Path) -> Result<(), Failed> {
    let listen = match over {
        Over::Shm => format!("shm://{}/shm", place.display()),
        Over::Unix => format!("unix://{}/unix", place.display()),
        Over::Tcp => "tcp://127.0.0.1:0".to_owned(),
        Over::Tls => "tls://127.0.0.1:0".to_owned(),
    };
    let certificate = place.join("tls.pem");
    write_new(&certificate, 0o600, &make_self_signed()?)?;
    let config = Config {
        listen: vec![listen],
        tls: TlsConfig { certificate, ..TlsConfig::default() },
        tasks: TasksConfig { threads: tasks, ..TasksConfig::default() },
        anonymous_loopback: true,
        sessions_max: 100,
        greetings_max: 100,
        ..Config::default()
    };
    let natives = registry(&Registry::standard())
        .with(Allowed::default().and_in(folder)?)
        .with(DiskFolder(folder.to_owned()))
        .with(config.task_settings()?);
    let source = place.join("files.theta");
    std::fs::write(&source, PROGRAM)?;
    let engine: std::sync::Arc<Engine> =
        program::load_with(&[source], None, Run::kept(Mode::Compiled), &natives)?;
    let mut server = Server::start(engine, &config)?;
    let address = server.addresses().first().ok_or("it listens nowhere")?;
    let address = server.pin().into_iter().fold(address.clone(), bifrost_transport::Address::with_pin);
    say(&format!("ready {address}"))?;
    for line in std::io::stdin().lock().lines() {
        match line?.as_str() {
            "counts" => say(&counts(&server)?)?,
            other => say(&format!("failed unknown order `{other}`"))?,
        }
    }
    server.stop();
    Ok(())
}

/// Returns the line with the counts of the central queue.
fn counts(server: &Server) -> Result<String, Failed> {
    let measured = server.measured();
    let tasks = measured.nodes.and_then(|nodes| nodes.tasks).ok_or("the program has no tasks")?;
    let all: &TaskCounts = &tasks.all;
    let processor = clock_ns(ClockId::ProcessCPUTime);
    Ok(format!(
        "{} {} {} {} {} {processor}",
        all.taken(),
        all.queue_length_sum(),
        all.active_sum(),
        1_000 * all.waits.sum_us(),
        1_000 * all.runs.sum_us(),
    ))
}

fn clock_ns(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// A client with its session.
struct Client {
    session: Session,
    server: FileServer,
    disk: Disk,
    name: String,
    path: PathBuf,
    block: i64,
}

/// Runs a client: connects, and does the work that its input orders.
///
/// # Errors
/// It cannot connect.
pub fn client(place: &str, name: &str, path: &Path, block: u32) -> Result<(), Failed> {
    let session = Session::builder(&INTERFACE).connect(place)?;
    let (server, disk) = (session.lookup("files"), session.lookup("disk"));
    let client =
        Client { session, server, disk, name: name.to_owned(), path: path.to_owned(), block: block.into() };
    say("ready")?;
    for line in std::io::stdin().lock().lines() {
        let answer = match line?.as_str() {
            "check" => client.check().map(|()| "checked".to_owned()),
            order => work(order).ok_or_else(|| format!("unknown order `{order}`").into()).and_then(|work| {
                let Done { ns, crossings, cpu_ns } = client.work(&work)?;
                Ok(format!("done {ns} {crossings} {cpu_ns}"))
            }),
        };
        say(&answer.unwrap_or_else(|why| format!("failed {}", why.to_string().replace('\n', " "))))?;
    }
    Ok(())
}

/// Reads the line that orders some work.
fn work(order: &str) -> Option<Work> {
    let mut words = order.split(' ');
    let way = words.next()?;
    let mut number = || words.next()?.parse().ok();
    let copy = |way, flight, slow| Work::Copy { way, flight, slow };
    Some(match way {
        "single" => copy(Way::Single, 0, Slow { compute_us: number()?, block_us: number()? }),
        "flight" => copy(Way::Flight, number()?, Slow::default()),
        "batch" => copy(Way::Batch, 0, Slow::default()),
        "whole" => copy(Way::Whole, 0, Slow::default()),
        "null" => Work::Null(number()?),
        "loop" => Work::Loop(number()?),
        _ => return None,
    })
}

impl Client {
    /// Uses each operation once, and is refused a name outside the folder.
    fn check(&self) -> Result<(), Failed> {
        let names = self.server.list(".");
        if names.length().claim()? < 1 {
            return Err("the folder is empty".into());
        }
        let file = self.server.open(&self.name);
        file.seek(1);
        let (size, first) = (file.size(), file.read(1));
        let size = size.claim()?;
        let first = first.claim()?;
        let whole = std::fs::read(&self.path)?;
        if size as usize != whole.len() || first[..] != whole[..1] {
            return Err("the file is another one".into());
        }
        file.close().claim()?;
        if self.server.open("../outside").size().claim().is_ok() {
            return Err("a name leads out of the folder".into());
        }
        self.session.clear_exceptions();
        Ok(())
    }

    fn work(&self, work: &Work) -> Result<Done, Failed> {
        let crossings = || self.session.counters().crossings;
        let before = crossings();
        let processor = clock_ns(ClockId::ProcessCPUTime);
        let start = Instant::now();
        let copied = match *work {
            Work::Null(calls) => {
                for _ in 0..calls {
                    self.disk.nothing().claim()?;
                }
                None
            }
            Work::Loop(calls) => {
                // Each round needs the answer of the one before.
                let left = self.session.cell_with(i64::from(calls));
                let call = || drop(left.put(left.get() - self.disk.nothing()));
                self.session.while_(|| left.get().gt(0), call);
                match left.get().claim()? {
                    0 => None,
                    left => return Err(format!("{left} calls were not made").into()),
                }
            }
            Work::Copy { way: Way::Single, slow, .. } if slow != Slow::default() => Some(self.slowly(slow)?),
            Work::Copy { way, .. } => Some(self.copy(way)?),
        };
        let ns = start.elapsed().as_nanos() as u64;
        let cpu_ns = clock_ns(ClockId::ProcessCPUTime) - processor;
        let done = Done { ns, crossings: crossings() - before, cpu_ns };
        // The copy is compared when its time was taken.
        match copied {
            Some(copied) if copied != std::fs::read(&self.path)? => Err("the copy is not the file".into()),
            _ => Ok(done),
        }
    }

    fn slowly(&self, Slow { compute_us, block_us }: Slow) -> Result<Vec<u8>, Failed> {
        let mut copied = Vec::new();
        loop {
            let at = copied.len() as i64 + 1;
            let read = self.disk.read(&self.name, at, self.block, i64::from(compute_us), i64::from(block_us));
            let read = read.claim()?;
            if read.is_empty() {
                return Ok(copied);
            }
            copied.extend_from_slice(&read);
        }
    }

    fn copy(&self, way: Way) -> Result<Vec<u8>, Failed> {
        let file: OpenFile = self.server.open(&self.name);
        let mut copied = Vec::new();
        match way {
            Way::Single => loop {
                let read = file.read(self.block).claim()?;
                if read.is_empty() {
                    break;
                }
                copied.extend_from_slice(&read);
            },
            Way::Whole => {
                // Opened, read and closed in one crossing.
                let read = file.read(i64::from(u32::MAX));
                file.close();
                copied = read.claim()?.to_vec();
            }
            _ => {
                // The size in one crossing, all reads in another.
                let size = file.size().claim()?;
                let places = (0..size).step_by(self.block as usize);
                let reads: Vec<_> = places.map(|at| file.read_at(at + 1, self.block)).collect();
                file.close();
                for read in reads {
                    copied.extend_from_slice(&read.claim()?);
                }
                return Ok(copied);
            }
        }
        if way == Way::Single {
            file.close().claim()?;
        }
        Ok(copied)
    }
}
