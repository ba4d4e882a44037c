//! A client among many of one server: `visitor NAME TIMES` visits Ann and a person of its own, so
//! many times. `veneers/together.sh` runs it beside clients in other languages, over other media.

#[rustfmt::skip]
#[allow(clippy::all, missing_docs, dead_code, reason = "generated")]
#[path = "../tests/clients/database/bifrost_stubs.rs"]
mod stubs;

use std::error::Error;

use bifrost_veneer::How;
use stubs::DataBase;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, times] = &arguments[..] else { return Err("visitor NAME TIMES".into()) };
    let times: i64 = times.parse()?;
    let s = stubs::connect(&std::env::var("BIFROST_URL")?)?;
    let db: DataBase = s.lookup("database");
    let own = s.transaction(How::default(), || db.new_user(name.as_str()))?;
    let mut last = -1;
    for _ in 0..times {
        let seen = s.transaction(How::default(), || {
            let ann = db.fetch("ann");
            ann.touch();
            own.touch();
            ann.visits()
        })?;
        let seen = seen.claim()?;
        assert!(seen > last, "Ann had {last} visits, and has {seen}");
        last = seen;
    }
    println!("{name}: {} visits, Ann at least {last}", own.visits().claim()?);
    s.close()?;
    Ok(())
}
