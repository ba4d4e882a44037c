//! One computation in seven forms: the cost of shares, from the offers of a book at a server.
//!
//! ```text
//! examples/sandbox/build.sh /tmp/modules
//! bifrost serve --set limits.modules_max=8 --listen unix:///tmp/book \
//!   examples/sandbox/sandbox.theta &
//! BIFROST_URL=unix:///tmp/book cargo run --release -p sandbox-client -- /tmp/modules
//! ```

mod counted;

#[rustfmt::skip]
#[allow(clippy::all, missing_docs, reason = "generated")]
mod bifrost_stubs;

use std::cell::Cell;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Instant;

use bifrost_stubs::signals::Withdrawn;
use bifrost_stubs::{Book, INTERFACE};
use bifrost_veneer::{Module, Procedure, Promise, Session};
use counted::Counted;

/// The buyer, and the number of shares that are wanted.
const BUYER: &str = "zoe";
const WANTED: i64 = 300;
/// Runs of each form: the first is cold, the quickest of the others is hot.
const RUNS: usize = 10;

type Failed = Box<dyn Error>;

/// A result, the time in microseconds, crossings and bytes sent.
struct Ran {
    result: i64,
    us: f64,
    crossings: u64,
    bytes: u64,
}

fn main() -> Result<(), Failed> {
    let folder = std::env::args_os().nth(1).map(PathBuf::from);
    let folder = folder.ok_or("name the folder of the modules, which build.sh has filled")?;
    let url = std::env::var("BIFROST_URL").map_err(|_| "BIFROST_URL is not set: the server's URL")?;
    let sent = Rc::new(Cell::new(0));
    let connection = Counted::connect(&url, sent.clone())?;
    let s = Session::builder(&INTERFACE).name("sandbox-client").over(Box::new(connection))?;
    let book: Book = s.lookup("book");
    s.flush()?;

    let mut procedure = None;
    let in_rust = module(&folder, "cost-rust.wasm")?;
    let in_c = module(&folder, "cost-c.wasm")?;
    type Form<'a> = (&'static str, Box<dyn FnMut() -> Result<i64, Failed> + 'a>);
    let forms: [Form<'_>; 7] = [
        ("client loop", Box::new(|| client_loop(&book))),
        ("batch", Box::new(|| batch(&book))),
        (
            "structure",
            Box::new(|| Ok(structure(&s, &book, &s.value(BUYER.to_owned()), &s.value(WANTED)).claim()?)),
        ),
        ("procedure", Box::new(|| Ok(defined(&s, &mut procedure).call((&book, BUYER, WANTED)).claim()?))),
        ("Theta method", Box::new(|| Ok(book.cost(BUYER, WANTED).claim()?))),
        ("module in Rust", Box::new(|| run(&s, &in_rust, &book))),
        ("module in C", Box::new(|| run(&s, &in_c, &book))),
    ];

    println!(
        "{:<15} {:>6} {:>10} {:>12} {:>11} {:>9} {:>8}",
        "form", "cost", "crossings", "bytes, first", "bytes, then", "us, first", "us, then"
    );
    let mut results = Vec::new();
    for (name, mut form) in forms {
        let mut ran = Vec::new();
        for _ in 0..RUNS {
            let (crossings, bytes, start) = (s.counters().crossings, sent.get(), Instant::now());
            let result = form()?;
            ran.push(Ran {
                result,
                us: start.elapsed().as_secs_f64() * 1e6,
                crossings: s.counters().crossings - crossings,
                bytes: sent.get() - bytes,
            });
        }
        let (cold, hot) = (&ran[0], &ran[RUNS - 1]);
        let quickest = ran[1..].iter().map(|ran| ran.us).fold(f64::INFINITY, f64::min);
        println!(
            "{name:<15} {:>6} {:>10} {:>12} {:>11} {:>9.0} {quickest:>8.0}",
            hot.result, hot.crossings, cold.bytes, hot.bytes, cold.us
        );
        results.extend(ran.iter().map(|ran| ran.result));
    }
    if results.iter().any(|result| *result != results[0]) {
        return Err(format!("the forms have different results: {results:?}").into());
    }

    // An exception that a module does not handle is that of its run, as it is that of a call.
    for (name, module) in [("Rust", &in_rust), ("C", &in_c)] {
        let none = s.run_wasm::<(Book, i64), i64>(module, "price", (&book, 1000));
        let signal = none.claim().err().and_then(|error| error.root().signal().map(str::to_owned));
        println!("offer 1000, by the module in {name}: {}", signal.as_deref().unwrap_or("no exception"));
        // A module has no exceptions of its own, but a text.
        let none = s.run_wasm::<(Book, String, i64), i64>(module, "cost", (&book, BUYER, -1));
        let error = none.claim().err().map(|error| error.root().to_string());
        println!("-1 shares, by the module in {name}: {}", error.as_deref().unwrap_or("no exception"));
    }
    s.close()?;
    Ok(())
}

fn module(folder: &Path, name: &str) -> Result<Module, Failed> {
    let file = folder.join(name);
    let bytes = std::fs::read(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(Module::new(bytes))
}

/// The number of shares of an offer; none if it was withdrawn.
fn shares(size: &Promise<i64>) -> Result<Option<i64>, Failed> {
    match size.claim() {
        Ok(size) => Ok(Some(size)),
        Err(error) if error.root().signal() == Some("withdrawn") => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Each call is a crossing, and its result decides which is next.
fn client_loop(book: &Book) -> Result<i64, Failed> {
    let (mut cost, mut left) = (0, WANTED);
    for n in 1..=book.length().claim()? {
        if left == 0 {
            break;
        }
        let offer = book.offer(n);
        if offer.owner().claim()? == BUYER {
            continue;
        }
        let Some(size) = shares(&offer.size())? else { continue };
        let take = size.min(left);
        cost += take * offer.price().claim()?;
        left -= take;
    }
    Ok(cost)
}

/// The calls for all offers are one batch, with more calls than are needed; the client computes.
fn batch(book: &Book) -> Result<i64, Failed> {
    let offers: Vec<_> = (1..=book.length().claim()?)
        .map(|n| {
            let offer = book.offer(n);
            (offer.owner(), offer.size(), offer.price())
        })
        .collect();
    let (mut cost, mut left) = (0, WANTED);
    for (owner, size, price) in offers {
        let (owner, size) = (owner.claim()?, shares(&size)?);
        if owner != BUYER {
            let take = size.unwrap_or(0).min(left);
            cost += take * price.claim()?;
            left -= take;
        }
    }
    Ok(cost)
}

/// The loop runs at the server, which gets its commands each time.
fn structure(s: &Session, book: &Book, buyer: &Promise<String>, wanted: &Promise<i64>) -> Promise<i64> {
    let (left, cost, take) = (s.cell_with(wanted), s.cell_with(0), s.cell_with(0));
    s.foreach(book.offers(), |offer| {
        s.if_(left.get().eq_(0), || s.break_());
        s.if_(offer.owner().eq_(buyer), || s.continue_());
        s.except(|| {
            take.put(offer.size());
        })
        .when::<Withdrawn>(|_| {
            take.put(0);
        });
        s.if_(take.get().gt(left.get()), || {
            take.put(left.get());
        });
        cost.put(cost.get() + take.get() * offer.price());
        left.put(left.get() - take.get());
    });
    cost.get()
}

type Defined = Procedure<(Book, String, i64), i64>;

/// The same loop with a name, which the server gets once.
fn defined<'a>(s: &Session, procedure: &'a mut Option<Defined>) -> &'a Defined {
    procedure.get_or_insert_with(|| {
        s.procedure("cost", |_, (book, buyer, wanted)| structure(s, &book, &buyer, &wanted))
    })
}

/// The loop is a program of the client, which the server gets once.
fn run(s: &Session, module: &Module, book: &Book) -> Result<i64, Failed> {
    Ok(s.run_wasm::<(Book, String, i64), i64>(module, "cost", (book, BUYER, WANTED)).claim()?)
}
