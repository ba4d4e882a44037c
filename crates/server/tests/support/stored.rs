//! Runs programs over a store in memory.
#![allow(dead_code, reason = "each test file uses what it needs")]

#[path = "../../../capsule/tests/support/orders.rs"]
pub mod orders;

use std::sync::Arc;

use bifrost_engine::Engine;
use bifrost_repository::ClassNumber;
use bifrost_runtime::{Collect, Limits};
use bifrost_server::objects::Objects;
use orders::output::run_in;

/// The output of a program with transactions, over a new store in memory. Behind it are the objects
/// that the store has then.
pub fn stored_output(engine: &Arc<Engine>, collect: Collect) -> String {
    let limits = Limits { collect, ..Limits::default() };
    let place = "memory:".parse().expect("it is a place");
    let objects = Objects::open(engine.clone(), &place, limits, Default::default(), None, None, None)
        .expect("there is memory for a store");
    let (space, cache) = objects.space().expect("there is memory for a heap");
    space.lock().set_transactions_by_program();
    let plain = engine.find_entry("main", 0);
    let main = plain.or_else(|| engine.find_entry("main", 1)).expect("a program has `main`");
    let ran = run_in(&space, main, plain.is_none().then_some(&[]));
    let repository = cache.schema().repository();
    let report = repository.check(&mut |_| {}).expect("memory does not fail");
    assert_eq!(report.mistakes, []);
    let classes = repository.classes();
    let name = |class: ClassNumber| &classes[class.0 as usize - 1].name;
    let counts: Vec<_> = report.by_class.iter().map(|(class, count)| (name(*class), count)).collect();
    format!("{}\n{counts:?}", ran.output)
}
