//! Code that is ended from outside: by its stack, heap, fuel or time, or by cancellation. Nothing
//! that a method has done half is ever stored, whatever handles the exception and whoever commits.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bifrost_engine::Mode;
use bifrost_runtime::cx::Limits as CxLimits;
use bifrost_runtime::{Collect, Cx, Kill};
use bifrost_session::{Limits, Tables};
use bifrost_wire::Limit;
use support::random::Random;
use support::{STACK_BYTES, World, assert_text, load, modes};

/// The first allocation that may fail: the one before makes the directory of a context.
const FIRST_ALLOCATION: u32 = 2;

const PAIRS: &str = include_str!("ended.theta");

/// Calls one after the other, and such whose exceptions the batch handles.
const CALLS: &str = "
a = Pair.shift p 3
b = Pair.nested p 20
c = Pair.note p 4
d = Pair.careful p 5
except
  e = Pair.nested p 20
  f = Pair.shift p 2
  g = Pair.rounds p 40
others
end_except
y = const true
if
then y
  h = Pair.note p 3
  i = Pair.careful p 4
end_if
";

fn ordinary() -> CxLimits {
    CxLimits { stack_bytes: STACK_BYTES, ..CxLimits::default() }
}

/// True if all that is stored was done by whole methods.
#[track_caller]
fn assert_sound(world: &mut World, what: &str) {
    world.limits = ordinary();
    let told = world.client().play("p = lookup pair Pair\n s = Pair.sound p\n flush s");
    assert_text(&told, "s = true", what);
}

/// Plays calls in a session with these limits, clears the exceptions and commits; then again as one
/// batch. Whether the transaction was doomed, of both.
#[track_caller]
fn commit_whatever(
    tables: &'static Tables,
    limits: CxLimits,
    session: Limits,
    disturb: impl Fn(&Cx) -> Option<Disturbed>,
    what: &str,
) -> [bool; 2] {
    // What was committed before would make the next run longer.
    let world = &mut World::of(tables, ordinary());
    world.limits = limits;
    let mut client = world.client_with(session);
    let disturbed = disturb(&client.cx);
    let told = client.play(&format!("p = lookup pair Pair\n{CALLS} flush"));
    drop(disturbed);
    let doomed = client.cx.doomed().is_some();
    let ended = ["out of memory", "stack overflow", "OutOfFuel", "TimeLimit", "Cancelled"];
    assert!(doomed || !ended.iter().any(|name| told.contains(name)), "({what}) {told}");
    for _ in 0..2 {
        let told = client.play("clear_history\n c = commit\n flush c");
        match doomed {
            true => assert!(
                told.contains("Doomed: a limit or cancellation has interrupted code"),
                "({what}) {told}"
            ),
            false => assert_text(&told, "c = nil", what),
        }
    }
    assert_text(&client.play("a = abort\n c = commit\n flush a c"), "a = nil\n c = nil", what);
    assert_sound(world, what);

    world.limits = limits;
    let mut client = world.client_with(session);
    let disturbed = disturb(&client.cx);
    let told = client.play(&format!("t = transaction\n p = lookup pair Pair\n{CALLS} flush t"));
    drop(disturbed);
    let shipped = !told.contains("t = nil");
    assert_sound(world, what);
    [doomed, shipped]
}

fn undisturbed(_: &Cx) -> Option<Disturbed> {
    None
}

/// The number of doomed transactions, all kinds of a test together.
#[derive(Debug, Default)]
struct Doomed {
    runs: u32,
    sessions: u32,
    shipped: u32,
}

impl Doomed {
    fn count(&mut self, [session, shipped]: [bool; 2]) {
        self.runs += 1;
        self.sessions += u32::from(session);
        self.shipped += u32::from(shipped);
    }

    #[track_caller]
    fn at_least(&self, count: u32) {
        assert!(self.sessions >= count && self.shipped >= count, "{self:?}");
    }
}

fn each_way() -> impl Iterator<Item = (&'static Tables, String)> {
    modes().into_iter().filter_map(|run| Some((load(PAIRS, run)?, format!("{run:?}"))))
}

/// On a thread with room for the interpreter.
fn on_stack(test: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(16 << 20).spawn(test).expect("a thread");
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

#[test]
fn no_memory_at_any_allocation() {
    on_stack(|| {
        for (tables, mode) in each_way() {
            let mut doomed = Doomed::default();
            for number in FIRST_ALLOCATION.. {
                let limits = CxLimits { collect: Collect::Full(number), ..ordinary() };
                let what = format!("{mode}, allocation {number}");
                let ends = commit_whatever(tables, limits, Limits::default(), undisturbed, &what);
                doomed.count(ends);
                if ends == [false; 2] && number > 100 {
                    break;
                }
            }
            doomed.at_least(60);
        }
    });
}

#[test]
fn no_stack_at_any_depth() {
    on_stack(|| {
        for (tables, mode) in each_way() {
            let (mut doomed, mut good, mut stack_bytes) = (Doomed::default(), 0, 0);
            // Frames of the interpreter are larger than those of machine code.
            let step = if mode.contains("Interpreted") { 512 } else { 96 };
            while good < 5 {
                let limits = CxLimits { stack_bytes, ..ordinary() };
                let what = format!("{mode}, {stack_bytes} bytes of stack");
                let ends = commit_whatever(tables, limits, Limits::default(), undisturbed, &what);
                doomed.count(ends);
                good = if ends == [false; 2] { good + 1 } else { 0 };
                stack_bytes += step;
            }
            doomed.at_least(20);
        }
    });
}

#[test]
fn no_fuel_at_any_step() {
    for (tables, mode) in each_way() {
        let mut doomed = Doomed::default();
        for fuel in 0..20 {
            let mut session = Limits::default();
            session.set(Limit::Fuel, fuel);
            let what = format!("{mode}, {fuel} steps");
            doomed.count(commit_whatever(tables, ordinary(), session, undisturbed, &what));
        }
        doomed.at_least(5);
        assert!(doomed.sessions < doomed.runs, "{doomed:?}");
    }
}

/// A thread that ends whatever runs in a context a moment after it began.
struct Disturbed {
    over: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Disturbed {
    fn new(cx: &Cx, spins: usize, why: Kill) -> Disturbed {
        let (poll, over) = (cx.poll().clone(), Arc::new(AtomicBool::new(false)));
        let ended = over.clone();
        let thread = std::thread::spawn(move || {
            let mut epoch = poll.epoch();
            while epoch % 2 == 0 && !ended.load(Ordering::Relaxed) {
                std::hint::spin_loop();
                epoch = poll.epoch();
            }
            (0..spins).for_each(|_| std::hint::spin_loop());
            poll.kill(epoch, why);
        });
        Disturbed { over, thread: Some(thread) }
    }
}

impl Drop for Disturbed {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("it only spins");
        }
    }
}

#[test]
fn time_is_over_or_the_run_cancelled_at_any_poll() {
    support::random::repeat("time_is_over_or_the_run_cancelled_at_any_poll", |seed| {
        let random = std::cell::RefCell::new(Random::new(seed));
        for (tables, mode) in each_way() {
            for _ in 0..10 {
                let disturb = |cx: &Cx| {
                    let (mut random, most) = (random.borrow_mut(), 20_000);
                    let why = if random.chance(2) { Kill::Time } else { Kill::Stop };
                    Some(Disturbed::new(cx, random.below(most), why))
                };
                commit_whatever(tables, ordinary(), Limits::default(), disturb, &mode);
            }
        }
    });
}

/// The output of a program that runs `main` with these limits.
fn run_program(world: &mut World, limits: CxLimits) -> (String, u32) {
    world.limits = limits;
    let (mut cx, _cache) = world.context();
    cx.set_transactions_by_program();
    let engine = world.tables.engine();
    let entry = engine.find_entry("main", 0).expect("there is such a routine");
    // SAFETY: the context runs the engine's image, and the routine takes nothing.
    let ended = unsafe { engine.call(&mut cx, entry, &[]) };
    let told = ended.map_or_else(|raised| raised.to_string(), |_| cx.take_output());
    (told, cx.allocations_until_full())
}

#[test]
fn a_program_does_not_commit_what_it_has_half_done() {
    on_stack(|| {
        for mode in [Mode::Interpreted, Mode::Compiled] {
            let tables = load(PAIRS, mode).expect("both ways are linked");
            let mut world = World::of(tables, ordinary());
            assert_eq!(run_program(&mut world, ordinary()).0, "");
            let mut refused = [0, 0];
            for number in FIRST_ALLOCATION.. {
                let limits = CxLimits { collect: Collect::Full(number), ..ordinary() };
                let (told, left) = run_program(&mut world, limits);
                refused[0] += u32::from(told.contains("the transaction can only be aborted"));
                assert_sound(&mut world, &format!("{mode:?}, allocation {number}: {told}"));
                if left > 0 {
                    assert_eq!(told, "");
                    break;
                }
            }
            for step in 0..200 {
                let stack_bytes = step * if mode == Mode::Interpreted { 512 } else { 64 };
                let (told, _) = run_program(&mut world, CxLimits { stack_bytes, ..ordinary() });
                refused[1] += u32::from(told.contains("the transaction can only be aborted"));
                assert_sound(&mut world, &format!("{mode:?}, {stack_bytes} bytes of stack: {told}"));
            }
            assert!(refused.iter().all(|count| *count > 10), "{mode:?}: {refused:?}");
        }
    });
}

#[test]
fn a_doomed_transaction_is_told_of_until_it_is_aborted() {
    on_stack(|| {
        for (tables, mode) in each_way() {
            let mut world = World::of(tables, ordinary());
            let mut client = world.client();
            let told = client.play(
                "p = lookup pair Pair\n a = Pair.shift p 1\n except\n d = deep() 100000000\n others\n end_except\n c = commit\n b = Pair.shift p 1\n flush a c b",
            );
            let why = "Doomed: a limit or cancellation has interrupted code; the transaction can only be aborted \
                    (stack overflow)";
            let expected = format!("a = nil\n c = exception of -4\n b = absent\n -4: {why}");
            assert_text(&told, &expected, &mode);
            // Neither looking at it nor a batch that is a transaction ends it.
            client.play("history");
            let told = client.play("c = commit\n flush c");
            assert_text(&told, &format!("c = exception of -1\n -1: {why}"), &mode);
            let told = client.play("t = transaction\n flush t");
            assert!(told.contains("InTransaction"), "{told}");
            let script = "a = abort\n p = lookup pair Pair\n b = Pair.shift p 1\n c = commit\n flush a b c";
            assert_text(&client.play(script), "a = nil\n b = nil\n c = nil", &mode);
            assert_sound(&mut world, &mode);
        }
    });
}
