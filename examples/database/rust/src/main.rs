//! A client of `examples/database/database.theta`.
//!
//! `bifrost veneer examples/database/database.theta -o examples/database/rust/src` made the stubs.

#[rustfmt::skip]
#[allow(clippy::all, missing_docs, reason = "generated")]
mod bifrost_stubs;

use bifrost_stubs::signals::NotFound;
use bifrost_stubs::{DataBase, DataElem, Query, connect, root};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let s = connect(&std::env::var("BIFROST_URL")?)?;
    let db: DataBase = s.lookup("database");

    // Calls are recorded; `claim` sends all of them at once and waits for the value.
    let eve = db.fetch("eve");
    eve.touch();
    eve.touch();
    println!("eve: {} visits", eve.visits().claim()?);
    println!("commands: {}, crossings: {}", s.counters().calls, s.counters().crossings);

    // A loop over an iterator of the server. It crosses as a whole; the closure runs once, here.
    let total = s.cell_with(0);
    s.foreach(db.users(), |e| {
        s.if_(e.visits().gt(0), || {
            total.put(total.get() + e.visits());
        });
    });
    println!("visits in all: {}", total.get().claim()?);

    // A loop whose state is in a cell at the server.
    let round = s.cell_with(0);
    s.while_(
        || round.get().lt(1000),
        || {
            eve.touch();
            round.put(round.get() + 1);
        },
    );
    println!("eve: {} visits", eve.visits().claim()?);

    // What goes wrong is told where a value is claimed, and can be handled at the server.
    let zoe = db.fetch("zoe").name();
    if let Err(error) = zoe.claim() {
        println!("zoe: {}", error.root().signal().unwrap_or("another failure"));
    }
    let found = s.cell::<DataElem>();
    s.except(|| {
        found.put(db.fetch("zoe"));
    })
    .when::<NotFound>(|_| {
        found.put(db.new_user("zoe"));
    });
    println!("{} is there now", found.get().name().claim()?);

    // A table of all users: one crossing, whatever their number.
    let users = s.collect(db.users(), |e| (e.name(), e.visits()));
    for (name, visits) in users.claim()? {
        println!("{name}: {visits} visits");
    }

    // A struct as argument and a sequence as result: values cross with all their items.
    let often = db.matching(Query { prefix: "e".to_owned(), visits: 2 });
    println!("often here: {:?}", often.get().claim()?);

    // The root directory has objects of any type. A cast inside a loop makes them what they are.
    let (root, eves) = (root(&s), s.rows::<(String, i64)>());
    s.foreach(root.list(), |(name, _)| {
        let object = root.lookup(&name);
        s.if_(object.is_::<DataBase>(), || {
            let eve = object.as_::<DataBase>().fetch("eve");
            eves.push((&name, eve.visits()));
        });
    });
    println!("eve's visits, by database: {:?}", eves.claim()?);

    // Others see what this session has done when it commits. A failure that nobody was told of
    // would prevent that; zoe's was told.
    s.commit().claim()?;
    s.close()?;
    Ok(())
}
