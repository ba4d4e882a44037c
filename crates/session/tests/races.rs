//! What others commit at the worst moments of a session's cache: the checkers of ZODB's races, on the cache itself. Each
//! schedule is a session that looks, moves, commits, aborts and refreshes at random over a repository that lets another session commit at
//! one kind of moment.

#[macro_use]
mod delegated;
mod direct;
#[allow(dead_code, reason = "a part is used")]
#[path = "support/random.rs"]
mod random;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bifrost_cache::{NotCommitted, Options};
use bifrost_engine::{Engine, Mode};
use bifrost_repository::memory::Memory;
use bifrost_repository::{Changes, Commit, CommitError, Error, Fetched, ObjectSet, Oref, Repository, Tid};
use bifrost_runtime::Collect;
use direct::{Session, load};
use random::Random;

const SCHEDULES: u64 = 1000;
/// Transactions of a session in a schedule.
const TRANSACTIONS: u32 = 16;
/// Both rows together, always.
const SUM: i64 = 100;

const ROWS: &str = "
row = type   value () returns (int)   add (n: int) end row
module rows exports new_row
  R = class implements row
    value: int
    add (n: int) value := value + n end add
  end R
  new_row () returns (row) return (R{value := 50}) end new_row
end rows
made () root().insert(\"a\", new_row()) root().insert(\"b\", new_row()) end made
look_a ()
  typecase root().lookup(\"a\") when row (r): print(r.value().unparse()) end except when not_found: end
end look_a
look_b ()
  typecase root().lookup(\"b\") when row (r): print(r.value().unparse()) end except when not_found: end
end look_b
move ()
  typecase root().lookup(\"a\") when row (r): r.add(-1) end except when not_found: end
  typecase root().lookup(\"b\") when row (r): r.add(1) end except when not_found: end
end move
";

/// When another session commits.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Moment {
    /// After states were fetched and before the session has them (ZEO #155).
    Fetched,
    /// Before states are fetched, of objects that the session may have read in older states.
    Fetching,
    /// Before the session asks what has changed, at the start of a transaction and elsewhere (ZODB #290).
    Asking,
    /// When the session has been told what has changed, before it is applied (ZEO #166).
    Told,
    /// Behind a commit of the session, before it hears of it.
    Committed,
    /// At any time: by another thread (ZEO #209).
    Always,
}

type Work = Box<dyn FnMut() + Send>;

/// A repository in which something happens at a kind of moment.
struct Disturbed {
    inner: Arc<Memory>,
    moment: Moment,
    random: Mutex<Random>,
    work: Mutex<Option<Work>>,
    /// A planted bug: what was fetched is said to be older than it is.
    lies: AtomicBool,
}

impl Disturbed {
    fn at(&self, moment: Moment) {
        if moment == self.moment && self.random.lock().unwrap().chance(2) {
            // Not again by what it does itself.
            let work = self.work.lock().unwrap().take();
            if let Some(mut work) = work {
                work();
                *self.work.lock().unwrap() = Some(work);
            }
        }
    }
}

impl Repository for Disturbed {
    fn fetch(&self, orefs: &[Oref]) -> Result<Fetched, Error> {
        let before = self.inner.head();
        self.at(Moment::Fetching);
        let mut fetched = self.inner.fetch(orefs)?;
        self.at(Moment::Fetched);
        if self.lies.load(Ordering::Relaxed) {
            fetched.as_of = before;
        }
        Ok(fetched)
    }

    fn changes(&self, after: Tid, among: &dyn ObjectSet) -> Changes {
        self.at(Moment::Asking);
        let changes = self.inner.changes(after, among);
        self.at(Moment::Told);
        changes
    }

    fn commit(&self, commit: Commit<'_>) -> Result<Tid, CommitError> {
        let done = self.inner.commit(commit);
        self.at(Moment::Committed);
        done
    }

    delegated! { inner }
}

/// A session that commits moves; one that is in its way is tried again.
struct Mover {
    session: Session,
    moved: Arc<AtomicU64>,
}

impl Mover {
    fn move_one(&mut self) {
        for _ in 0..100 {
            let said = self.session.run("move");
            if said.is_empty() && self.session.commit().is_ok() {
                self.moved.fetch_add(1, Ordering::Relaxed);
                return;
            }
            self.session.abort();
        }
        panic!("somebody always gets on");
    }
}

/// Runs one schedule; gives how often others committed, or what is wrong, if anything is.
fn schedule(engine: &Arc<Engine>, moment: Moment, seed: u64, lies: bool) -> Result<u64, String> {
    let inner = Arc::new(Memory::new());
    let plain: Arc<dyn Repository> = inner.clone();
    let mut first = Session::open(engine, &plain, Collect::Checked);
    first.run("made");
    first.commit().map_err(|error| error.to_string())?;
    let [moved, by_others] = [0, 0].map(|_: u64| Arc::new(AtomicU64::new(0)));
    let mut mover =
        Mover { session: Session::open(engine, &plain, Collect::Checked), moved: by_others.clone() };
    let disturbed = Arc::new(Disturbed {
        inner,
        moment,
        random: Mutex::new(Random::new(seed)),
        work: Mutex::default(),
        lies: AtomicBool::new(false),
    });
    let repository: Arc<dyn Repository> = disturbed.clone();
    // Half of them fetch each object alone, so that there are more moments.
    let mut options = Options::default();
    if seed.is_multiple_of(2) {
        options.prefetch.objects_max = 0;
    }
    let mut session = Session::open_with(engine, &repository, Collect::Checked, &options).unwrap();
    disturbed.lies.store(lies, Ordering::Relaxed);
    let mut random = Random::new(seed.wrapping_mul(31) + 7);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        if moment == Moment::Always {
            let done = &done;
            scope.spawn(move || {
                let mut mover = mover;
                for _ in 0..30 {
                    mover.move_one();
                    if done.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
        } else {
            *disturbed.work.lock().unwrap() = Some(Box::new(move || mover.move_one()));
        }
        let result = live(&mut session, &mut random, &moved);
        done.store(true, Ordering::Relaxed);
        result
    })?;
    // Nothing is lost, and nothing twice.
    *disturbed.work.lock().unwrap() = None;
    let mut last = Session::open(engine, &plain, Collect::Checked);
    let [a, b] = ["look_a", "look_b"].map(|routine| last.run(routine).parse::<i64>().unwrap_or(-1));
    let by_others = by_others.load(Ordering::Relaxed);
    let moved = (moved.load(Ordering::Relaxed) + by_others) as i64;
    if (a, b) != (SUM / 2 - moved, SUM / 2 + moved) {
        return Err(format!("{a} and {b} after {moved} moves"));
    }
    Ok(by_others)
}

/// A session's life: what its transactions see is from one moment, and what it commits counts.
fn live(session: &mut Session, random: &mut Random, moved: &AtomicU64) -> Result<(), String> {
    for _ in 0..TRANSACTIONS {
        let mut own = 0;
        let mut rows: [Option<i64>; 2] = [None; 2];
        let mut stale = false;
        for _ in 0..1 + random.below(4) {
            let routine = ["look_a", "look_b", "look_a", "look_b", "move"][random.below(5)];
            let said = session.run(routine);
            match (routine, said.parse::<i64>()) {
                ("move", _) if said.is_empty() => {
                    own += 1;
                    rows = [rows[0].map(|a| a - 1), rows[1].map(|b| b + 1)];
                }
                ("look_a", Ok(value)) | ("look_b", Ok(value)) => {
                    let place = &mut rows[usize::from(routine == "look_b")];
                    if place.is_some_and(|before| before != value) {
                        return Err(format!("{routine} gave {value} after {place:?} in one transaction"));
                    }
                    *place = Some(value);
                }
                _ => {
                    stale = true;
                    break;
                }
            }
            if let [Some(a), Some(b)] = rows
                && a + b != SUM
            {
                return Err(format!("{a} and {b} are of two moments"));
            }
        }
        if stale || random.chance(4) {
            session.abort();
        } else {
            match session.commit() {
                Ok(()) => _ = moved.fetch_add(own, Ordering::Relaxed),
                Err(NotCommitted::Conflict(_)) => session.abort(),
                Err(other) => return Err(other.to_string()),
            }
        }
        if random.chance(2) {
            session.cache.refresh(&mut session.cx);
        }
    }
    Ok(())
}

fn check(moment: Moment) {
    let engine = load(ROWS, Mode::Interpreted);
    let (count, others) = (std::cell::Cell::new(0), std::cell::Cell::new(0));
    random::repeat_while(
        &format!("races, {moment:?}"),
        || count.get() < SCHEDULES,
        |seed| {
            let by_others = schedule(&engine, moment, seed, false).unwrap_or_else(|wrong| panic!("{wrong}"));
            others.set(others.get() + by_others);
            count.set(count.get() + 1);
        },
    );
    assert!(others.get() > count.get(), "others commit in between");
}

#[test]
fn commits_when_states_were_fetched() {
    check(Moment::Fetched);
}

#[test]
fn commits_before_states_are_fetched() {
    check(Moment::Fetching);
}

#[test]
fn commits_before_changes_are_asked_for() {
    check(Moment::Asking);
}

#[test]
fn commits_before_changes_are_applied() {
    check(Moment::Told);
}

#[test]
fn commits_behind_a_commit() {
    check(Moment::Committed);
}

#[test]
fn commits_at_any_time() {
    check(Moment::Always);
}

/// States that are newer than they say break what a transaction sees, and that is found out.
#[test]
fn a_planted_bug_is_caught() {
    let engine = load(ROWS, Mode::Interpreted);
    assert!((0..100).any(|seed| schedule(&engine, Moment::Fetching, seed, true).is_err()));
}
