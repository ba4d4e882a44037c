//! Recording allocates nothing once the tables have grown, and stubs that are dropped leave nothing.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

#[path = "common/sink.rs"]
mod sink;
#[rustfmt::skip]
#[path = "stubs/bifrost_stubs.rs"]
mod stubs;

use bifrost_veneer::Session;

/// Counts the allocations of each thread, and the bytes that it has.
struct Counting;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
    static BYTES: Cell<i64> = const { Cell::new(0) };
}

fn count(allocated: usize, freed: usize) {
    COUNT.with(|c| c.set(c.get() + u64::from(allocated > 0)));
    BYTES.with(|bytes| bytes.set(bytes.get() + allocated as i64 - freed as i64));
}

// SAFETY: hands everything on to the system's allocator, unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(0, layout.size());
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size, layout.size());
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn work(s: &Session, db: &stubs::DataBase, rounds: usize) {
    for i in 0..rounds {
        let e = db.fetch("somebody");
        e.touch();
        let p = stubs::new_point(s, i as i64, 2);
        p.set_x(p.y() + 1);
        let copy = e.clone();
        db.adopt(&copy);
        s.if_(p.x().lt(3), || {
            e.touch();
        })
        .else_(|| {
            p.set_y(4);
        });
    }
    s.flush().unwrap();
}

#[test]
fn a_recorded_call_allocates_nothing() {
    let sink = Box::new(sink::Sink::new(stubs::INTERFACE.digest));
    let s = Session::builder(&stubs::INTERFACE).over(sink).unwrap();
    let db: stubs::DataBase = s.lookup("database");
    work(&s, &db, 2000);
    work(&s, &db, 2000);
    let before = COUNT.with(Cell::get);
    work(&s, &db, 2000);
    let after = COUNT.with(Cell::get);
    assert_eq!(after - before, 0, "allocations in 2000 rounds of 11 commands, flushes included");
}

/// The case of `cases/limits.yaml`, with a connection that answers at once.
#[test]
fn a_million_dropped_stubs_leave_nothing() {
    let sink = Box::new(sink::Sink::new(stubs::INTERFACE.digest));
    let s = Session::builder(&stubs::INTERFACE).over(sink).unwrap();
    let db: stubs::DataBase = s.lookup("database");
    let drop_stubs = |count: usize| {
        (0..count).for_each(|_| drop(db.fetch("somebody")));
        s.flush().unwrap();
    };
    drop_stubs(40_000);
    let before = BYTES.with(Cell::get);
    drop_stubs(1_000_000);
    assert_eq!(BYTES.with(Cell::get) - before, 0, "bytes");
    assert!(s.counters().calls > 1_000_000);
}
