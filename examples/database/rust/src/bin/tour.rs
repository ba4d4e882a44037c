//! A tour of what a client can batch, with the objects of `examples/database/database.theta`.
//!
//! Start a server, and tell the tour where it is; it prints `tour.txt`:
//!
//! ```text
//! bifrost serve --listen unix:///tmp/db examples/database/database.theta &
//! BIFROST_URL=unix:///tmp/db cargo run -p database-client --bin tour
//! ```

#[rustfmt::skip]
#[allow(clippy::all, missing_docs, reason = "generated")]
#[path = "../bifrost_stubs.rs"]
mod bifrost_stubs;

use std::error::Error;
use std::io::Write;

use bifrost_stubs::signals::NotFound;
use bifrost_stubs::{DataBase, DataElem, INTERFACE};
use bifrost_veneer::Session;

fn main() -> Result<(), Box<dyn Error>> {
    tour(&mut std::io::stdout().lock())
}

/// Connects to where `BIFROST_URL` says, with the token `BIFROST_TOKEN` if there is one.
pub fn tour(out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let token = std::env::var("BIFROST_TOKEN").unwrap_or_default();
    let builder = Session::builder(&INTERFACE).name("tour").token(token);
    let s = builder.connect(&std::env::var("BIFROST_URL")?)?;
    let db: DataBase = s.lookup("database");
    futures(&s, &db, out)?;
    structures(&s, &db, out)?;
    exceptions(&s, &db, out)?;
    let c = s.counters();
    writeln!(out, "{} commands, {} crossings: B = {:.1}", c.calls, c.crossings, c.batching_factor())?;
    s.close()?;
    Ok(())
}

fn futures(s: &Session, db: &DataBase, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    // Every call returns at once. `carol` is used before anybody knows which object it is.
    let carol = db.new_user("carol");
    carol.touch();
    carol.touch();
    // A promise can be an argument: the server puts the value in.
    let child = db.new_user(carol.name() + " junior");
    db.loop_fetch(carol.name(), carol.visits());
    let (name, visits) = (child.name(), carol.visits());
    writeln!(out, "before the first claim: {} crossings", s.counters().crossings)?;
    writeln!(out, "{} is there; carol has {} visits", name.claim()?, visits.claim()?)?;
    // One flush kept all promises.
    writeln!(out, "after two claims: {} crossing", s.counters().crossings)?;
    Ok(())
}

fn structures(s: &Session, db: &DataBase, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    // A loop whose state is a cell at the server. The closures run once, here, and record what the server repeats.
    let bob = db.fetch("bob");
    let rounds = s.cell_with(0);
    s.while_(
        || rounds.get().lt(10),
        || {
            bob.touch();
            rounds.put(rounds.get() + 1);
        },
    );
    writeln!(out, "bob: {} visits after {} rounds", bob.visits().claim()?, rounds.get().claim()?)?;

    // Over an iterator of the server: skip whom nobody visits, and stop after the first with many visits.
    db.fetch("ann").touch();
    let seen = s.cell_with::<String>("");
    s.foreach(db.users(), |user| {
        s.if_(user.visits().eq_(0), || s.continue_());
        seen.put(seen.get() + user.name() + " ");
        s.if_(user.visits().gt(5), || s.break_()).else_(|| {
            user.touch();
        });
    });
    writeln!(out, "visited, up to the first with many: {}", seen.get().claim()?.trim_end())?;

    // A batch with a name and parameters, sent once and called as often as you like, in later batches too.
    let visit = s.procedure::<(String, i64), i64, _>("visit", |_, (name, times)| {
        let user = db.fetch(name);
        s.foreach(s.value(1).to(times), |_| {
            user.touch();
        });
        user.visits()
    });
    let ann = visit.call(("ann", 2));
    let eve = visit.call(("eve", &ann + 1));
    writeln!(out, "ann: {}, eve: {}", ann.claim()?, eve.claim()?)?;
    Ok(())
}

fn exceptions(s: &Session, db: &DataBase, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    // Handled at the server: who is not there is made.
    let found = s.cell::<DataElem>();
    s.except(|| {
        found.put(db.fetch("dora"));
    })
    .when::<NotFound>(|_| {
        found.put(db.new_user("dora"));
    });
    writeln!(out, "{} is there now", found.get().name().claim()?)?;

    // Not handled: a value of the claim, which says what went wrong and where.
    let zoe = db.fetch("zoe");
    zoe.touch();
    match zoe.visits().claim() {
        Ok(visits) => writeln!(out, "zoe: {visits}")?,
        Err(error) => {
            writeln!(out, "zoe: {}", error.root().signal().unwrap_or("another error"))?;
        }
    }
    // A failure whose stub was dropped is told by the next claim, flush or commit.
    db.new_user("bob");
    if let Err(error) = s.flush() {
        writeln!(out, "the flush: {}", brief(error.root()))?;
    }
    // All of them are in the history.
    for exception in s.exceptions() {
        writeln!(out, "history: {}", brief(&exception.error))?;
    }
    Ok(())
}

/// An error without the places in this file, which change when it is edited.
fn brief(error: &bifrost_veneer::Error) -> String {
    use bifrost_veneer::Error;
    match error {
        Error::Signal { name, call, .. } => format!("{} signalled {name}", call.name),
        Error::Unhandled { call, .. } => format!("{} was not run", call.name),
        other => other.to_string(),
    }
}
