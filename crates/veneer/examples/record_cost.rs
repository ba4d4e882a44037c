//! Prints what recording a call costs, in nanoseconds, with nothing behind the connection.
//!
//! `cargo run --release -p bifrost-veneer --example record_cost`

use std::hint::black_box;
use std::time::Instant;

#[path = "../tests/common/sink.rs"]
mod sink;
#[rustfmt::skip]
#[path = "../tests/stubs/bifrost_stubs.rs"]
mod stubs;

use bifrost_veneer::Session;

const CALLS: usize = 10_000;
const ROUNDS: usize = 300;

fn measure(name: &str, s: &Session, mut call: impl FnMut(usize)) {
    let mut costs: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            (0..CALLS).for_each(&mut call);
            let spent = start.elapsed();
            s.flush().expect("the sink answers");
            spent.as_secs_f64() * 1e9 / CALLS as f64
        })
        .collect();
    costs.sort_by(f64::total_cmp);
    println!("{name:<34} {:6.1} ns a call (min {:.1})", costs[ROUNDS / 2], costs[0]);
}

fn main() {
    let sink = Box::new(sink::Sink::new(stubs::INTERFACE.digest));
    let s = Session::builder(&stubs::INTERFACE).over(sink).expect("the sink answers");
    let db: stubs::DataBase = s.lookup("database");
    let p = stubs::new_point(&s, 1, 2);
    let e = db.fetch("x");
    s.flush().expect("the sink answers");
    println!("recording, with publishing every 4 KiB to a sink:");
    measure("no argument, result dropped", &s, |_| drop(black_box(e.touch())));
    measure("one int, result dropped", &s, |i| drop(black_box(p.set_x(i as i64))));
    measure("one object, result dropped", &s, |_| drop(black_box(db.adopt(&e))));
    measure("one string of 8, result dropped", &s, |_| drop(black_box(db.fetch("somebody"))));
    let mut list = stubs::nil_list(&s);
    measure("chain: the result is the receiver", &s, |_| list = list.next());
}
