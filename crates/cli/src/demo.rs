//! `bifrost demo`: a tour in a few seconds, on a server of its own.
//!
//! The five ways to batch a loop are those of Zondervan 1995 (7.1). `bifrost bench calls` measures the same with
//! care; here one look is enough.

use std::time::{Duration, Instant};

use anstyle::Style;
use bifrost_wire::interface::Numbering;
use bifrost_wire::{Arg, ExceptionKind, MethodNumber, Outcome as Became, Ref, Reply, Value, encode, op};

use crate::client::Client;
use crate::failure::{Exit, Failure, Outcome};
use crate::process::ServerProcess;

/// The program that is served.
const DATABASE: &str = include_str!("../../../examples/database/database.theta");
/// How often each way is timed; the median is shown.
const TIMES: usize = 7;

/// Show in a few seconds what batches are good for
///
/// Starts a server with a small database in a process of its own, connects to it through shared memory, and
/// runs the same loop in five ways. Leaves nothing behind.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Rounds of the loop
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    rounds: u32,
}

/// Runs the command.
pub fn run(args: &Args) -> Outcome {
    let folder = tempfile::Builder::new().prefix("bifrost-demo-").tempdir()?;
    let listen = format!("shm://{}", folder.path().join("shm").display());
    let server = ServerProcess::start(folder.path(), DATABASE, &["--listen", &listen])?;
    let mut tour = Tour::new(Client::connect(server.address(), "")?)?;
    heading("1. A server with a small database runs in another process.");
    say(&format!("   Process {}, connected through shared memory: {}", server.id(), server.address()));
    tour.first_batch()?;
    tour.exceptions()?;
    tour.five_ways(i64::from(args.rounds))?;
    tour.client.close()?;
    drop(server);
    heading("5. And now?");
    say("   The program is examples/database/database.theta. Serve it, and talk to it:");
    say("     bifrost serve examples/database/database.theta");
    say("     bifrost shell");
    say("   `bifrost veneer --help` makes stubs, so that these batches are written as ordinary calls.");
    Ok(())
}

fn heading(text: &str) {
    let bold = Style::new().bold();
    anstream::println!("\n{bold}{text}{bold:#}");
}

fn say(text: &str) {
    anstream::println!("{text}");
}

/// The numbers of the methods that the tour calls.
struct Methods {
    fetch: MethodNumber,
    touch: MethodNumber,
    visits: MethodNumber,
    name: MethodNumber,
    loop_fetch: MethodNumber,
    add: MethodNumber,
    lt: MethodNumber,
    to: MethodNumber,
    get: MethodNumber,
    put: MethodNumber,
}

impl Methods {
    fn find(numbering: &Numbering) -> Option<Methods> {
        let method = |ty: &str, name: &str| numbering.find_method(numbering.find_type(ty)?, name);
        Some(Methods {
            fetch: method("DataBase", "fetch")?,
            touch: method("DataElem", "touch")?,
            visits: method("DataElem", "visits")?,
            name: method("DataElem", "name")?,
            loop_fetch: method("DataBase", "loop_fetch")?,
            add: method("int", "add")?,
            lt: method("int", "lt")?,
            to: method("int", "to")?,
            get: method("cell[int]", "get")?,
            put: method("cell[int]", "put")?,
        })
    }
}

/// A batch being written. The numbers of results are counted along, as every client does.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    results: u32,
}

impl Batch {
    fn call(&mut self, method: MethodNumber, receiver: Ref, args: &[Arg<'_>]) -> Ref {
        encode::call(&mut self.bytes, method, receiver, args);
        self.next()
    }

    fn constant(&mut self, value: i64) -> Ref {
        encode::constant(&mut self.bytes, &Value::Int(value));
        self.next()
    }

    fn mark(&mut self, code: u8) {
        encode::plain(&mut self.bytes, code);
    }

    fn next(&mut self) -> Ref {
        self.results += 1;
        Ref::future(self.results)
    }
}

/// What a way of the loop costs.
#[derive(Clone, Copy, Default)]
struct Cost {
    crossings: u64,
    calls: u64,
    time: Duration,
}

/// One of the ways to write the loop, for a number of rounds.
type Way = fn(&mut Tour, i64) -> Result<Cost, Failure>;

struct Tour {
    client: Client,
    numbering: Numbering,
    methods: Methods,
    database: Ref,
}

const BOB: Arg<'_> = Arg::Value(Value::Str("bob"));

fn int(value: i64) -> Arg<'static> {
    Arg::Value(Value::Int(value))
}

impl Tour {
    fn new(mut client: Client) -> Result<Tour, Failure> {
        let numbering = client.describe()?;
        let methods = Methods::find(&numbering).expect("the program of the demo has these methods");
        Ok(Tour { client, numbering, methods, database: Ref::NONE })
    }

    /// Sends a batch, and says what became of its last result and how many calls ran.
    fn flush(&mut self, mut batch: Batch, wanted: &[u32], tell: bool) -> Result<(Vec<Ref>, u64), Failure> {
        encode::flush(&mut batch.bytes, wanted.iter().copied(), false);
        self.client.send(&batch.bytes)?;
        let numbering = &self.numbering;
        self.client.receive(|reply| {
            let Reply::Flushed(flushed) = reply else { return None };
            let mut handles = Vec::new();
            for (number, outcome) in wanted.iter().zip(flushed.outcomes()) {
                match outcome {
                    Became::Handle { handle, ty } => {
                        handles.push(handle);
                        if tell {
                            let ty = numbering.interface().type_name(ty);
                            say(&format!("   result {number} is a handle for a {ty}"));
                        }
                    }
                    Became::Value(Value::Int(value)) if tell => {
                        say(&format!("   result {number} is {value}"))
                    }
                    _ => {}
                }
            }
            for exception in flushed.exceptions().filter(|_| tell) {
                let what = match exception.kind {
                    ExceptionKind::Signal { name, .. } => format!("signalled {name}"),
                    ExceptionKind::Unhandled { cause, .. } => {
                        format!("was not run, because it needs the result of call {cause}")
                    }
                    ExceptionKind::Refused { text, .. } => format!("was refused: {text}"),
                };
                say(&format!("   call {} {what}", exception.call));
            }
            Some((handles, u64::from(flushed.counters.calls)))
        })
    }

    fn first_batch(&mut self) -> Outcome {
        heading("2. Calls are recorded; results can be used before they exist.");
        say("   database.fetch(\"bob\") gives a record, which is touched twice and asked for its visits.");
        say("   All of it crosses at once:");
        let m = &self.methods;
        let (fetch, touch, visits) = (m.fetch, m.touch, m.visits);
        let mut batch = Batch::default();
        let expected = self.numbering.find_type("DataBase");
        encode::lookup(&mut batch.bytes, "database", expected);
        let database = batch.next();
        let record = batch.call(fetch, database, &[BOB]);
        batch.call(touch, record, &[]);
        batch.call(touch, record, &[]);
        batch.call(visits, record, &[]);
        let (handles, calls) = self.flush(batch, &[1, 2, 5], true)?;
        self.database =
            handles.first().copied().ok_or_else(|| Failure::new(Exit::Failed, "there is no `database`"))?;
        say(&format!("   calls: {calls}, crossings: 1"));
        Ok(())
    }

    fn exceptions(&mut self) -> Outcome {
        heading("3. What goes wrong is reported with the call it belongs to.");
        say("   database.fetch(\"zoe\") is call 1, and the name of what it gives is call 2:");
        let mut batch = Batch::default();
        let record = batch.call(self.methods.fetch, self.database, &[Arg::Value(Value::Str("zoe"))]);
        batch.call(self.methods.name, record, &[]);
        self.flush(batch, &[2], true)?;
        Ok(())
    }

    fn five_ways(&mut self, rounds: i64) -> Outcome {
        heading("4. Loops cross too. The same loop, written in five ways:");
        say(&format!("   {rounds} rounds of 1.add(0) and three times database.fetch(\"bob\")\n"));
        say("                      crossings     calls  calls/crossing        time   a round");
        let ways: [(&str, Way); 5] = [
            ("client loop", Tour::client_loop),
            ("perfect batching", Tour::perfect_batching),
            ("WHILE", Tour::while_loop),
            ("FOREACH", Tour::foreach_loop),
            ("Theta method", Tour::theta_method),
        ];
        for (name, way) in ways {
            let mut costs = Vec::new();
            for _ in 0..TIMES {
                costs.push(self.timed(way, rounds)?);
            }
            costs.sort_by_key(|cost| cost.time);
            row(name, costs[TIMES / 2], rounds);
        }
        say("");
        if cfg!(debug_assertions) {
            say("   (This is a debug build; a release build is several times faster.)\n");
        }
        say("   client loop       waits for the sum in each round, so each round crosses.");
        say("   perfect batching  waits for nothing: the client still sends every call.");
        say("   WHILE, FOREACH    send the loop itself, which is checked once and runs at the server.");
        say("   Theta method      was at the server before: one call, for a loop that was foreseen.");
        Ok(())
    }

    fn timed(&mut self, way: Way, rounds: i64) -> Result<Cost, Failure> {
        let (start, before) = (Instant::now(), self.client.crossings);
        let cost = way(self, rounds)?;
        Ok(Cost { crossings: self.client.crossings - before, time: start.elapsed(), ..cost })
    }

    /// The four calls of a round.
    fn body(&self, batch: &mut Batch, one: Ref) -> Ref {
        let sum = batch.call(self.methods.add, one, &[int(0)]);
        for _ in 0..3 {
            batch.call(self.methods.fetch, self.database, &[BOB]);
        }
        sum
    }

    fn client_loop(&mut self, rounds: i64) -> Result<Cost, Failure> {
        let mut calls = 0;
        for _ in 0..rounds {
            let mut batch = Batch::default();
            let one = batch.constant(1);
            self.body(&mut batch, one);
            calls += self.flush(batch, &[2], false)?.1;
        }
        Ok(Cost { calls, ..Cost::default() })
    }

    fn perfect_batching(&mut self, rounds: i64) -> Result<Cost, Failure> {
        let mut batch = Batch::default();
        let one = batch.constant(1);
        for _ in 0..rounds {
            self.body(&mut batch, one);
        }
        self.calls_of(batch)
    }

    fn while_loop(&mut self, rounds: i64) -> Result<Cost, Failure> {
        let (get, put, lt, add) = (self.methods.get, self.methods.put, self.methods.lt, self.methods.add);
        let mut batch = Batch::default();
        let one = batch.constant(1);
        let element = self.numbering.find_type("int").expect("every interface has it");
        encode::cell(&mut batch.bytes, element);
        let cell = batch.next();
        batch.call(put, cell, &[int(0)]);
        batch.mark(op::WHILE);
        let round = batch.call(get, cell, &[]);
        let test = batch.call(lt, round, &[int(rounds)]);
        encode::loop_body(&mut batch.bytes, test);
        self.body(&mut batch, one);
        let round = batch.call(get, cell, &[]);
        let next = batch.call(add, round, &[int(1)]);
        batch.call(put, cell, &[next.into()]);
        batch.mark(op::END_WHILE);
        self.calls_of(batch)
    }

    fn foreach_loop(&mut self, rounds: i64) -> Result<Cost, Failure> {
        let mut batch = Batch::default();
        let one = batch.constant(1);
        batch.mark(op::FOREACH);
        batch.call(self.methods.to, one, &[int(rounds)]);
        self.body(&mut batch, one);
        batch.mark(op::END_FOREACH);
        self.calls_of(batch)
    }

    fn theta_method(&mut self, rounds: i64) -> Result<Cost, Failure> {
        let mut batch = Batch::default();
        batch.call(self.methods.loop_fetch, self.database, &[BOB, int(rounds)]);
        self.calls_of(batch)
    }

    fn calls_of(&mut self, batch: Batch) -> Result<Cost, Failure> {
        Ok(Cost { calls: self.flush(batch, &[], false)?.1, ..Cost::default() })
    }
}

fn row(name: &str, cost: Cost, rounds: i64) {
    let factor = cost.calls as f64 / cost.crossings.max(1) as f64;
    let micros = cost.time.as_secs_f64() * 1e6;
    let round = micros / rounds as f64;
    say(&format!(
        "   {name:<18} {:>9} {:>9} {factor:>15.0} {:>8.2} ms {round:>6.2} µs",
        cost.crossings,
        cost.calls,
        micros / 1e3
    ));
}
