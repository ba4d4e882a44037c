//! The operations of OO7, and the ways to run them.

use bifrost_veneer::{Error, Promise, Session};
use clap::ValueEnum;

use super::bifrost_stubs::{Database, Oo7};
use super::client::{Action, Client, Parts};
use super::structures::Structures;

/// The way in which a client has an operation run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Way {
    /// One call a crossing; each is sent by itself
    Each,
    /// Calls one by one; each basic value is claimed at once, in the process of the server
    Linked,
    /// Calls one by one; each basic value is claimed at once
    Futures,
    /// Calls one by one; basic values are claimed when the client needs them
    Promises,
    /// Batched control structures
    Bcs,
    /// One call of the server's method
    Theta,
}

impl Way {
    /// True if it is a baseline of 001 figure 7, between which the others lie.
    pub fn is_baseline(self) -> bool {
        matches!(self, Way::Each | Way::Linked)
    }

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Way::Each => "each",
            Way::Linked => "linked",
            Way::Futures => "futures",
            Way::Promises => "promises",
            Way::Bcs => "bcs",
            Way::Theta => "theta",
        }
    }
}

/// An operation.
pub struct Op {
    /// Its name.
    pub name: &'static str,
    /// The things that the result counts.
    pub about: &'static str,
    /// The ways there are.
    pub ways: &'static [Way],
    /// The operation that has to run before, not measured.
    pub before: Option<&'static str>,
    /// The operation that restores the state before, not measured.
    pub undo: Option<&'static str>,
}

use Way::{Bcs, Each, Futures, Linked, Promises, Theta};

const ALL: &[Way] = &[Each, Futures, Promises, Linked, Bcs, Theta];

const fn op(name: &'static str, about: &'static str) -> Op {
    Op { name, about, ways: ALL, before: None, undo: None }
}

const fn undone(name: &'static str, undo: &'static str, about: &'static str) -> Op {
    Op { undo: Some(undo), ..op(name, about) }
}

const fn only(ways: &'static [Way], name: &'static str, about: &'static str) -> Op {
    Op { ways, ..op(name, about) }
}

/// All of them.
pub static OPS: [Op; 27] = [
    op("T1", "atomic parts visited"),
    only(&[Theta], "T1WW", "the same, with ten looks at the clock for each part"),
    undone("T2a", "T2a", "swaps of x and y: root parts"),
    undone("T2b", "T2b", "swaps: every part"),
    op("T2c", "swaps: every part four times"),
    undone("T3a", "T3a", "indexed dates toggled: root parts"),
    undone("T3b", "T3b", "dates toggled: every part"),
    op("T3c", "dates toggled: every part four times"),
    op("T4", "letters I in the documents visited"),
    undone("T5do", "T5undo", "texts of documents that begin otherwise now"),
    Op { before: Some("T5do"), ..op("T5undo", "the other way round") },
    op("T6", "root parts visited"),
    op("T7", "assemblies above a random atomic part"),
    only(&[Each, Futures, Linked, Theta], "T8", "letters I in the manual"),
    only(&[Each, Futures, Linked, Theta], "T9", "whether the manual ends as it begins"),
    op("T10", "T1 on every module"),
    undone("CU", "T2a", "T1, then T2a: its swaps"),
    op("Q1", "random atomic parts by their ids"),
    op("Q2", "atomic parts with the most recent 1 % of dates"),
    op("Q3", "atomic parts with the most recent 10 % of dates"),
    op("Q4", "random documents with the base assemblies that use their parts"),
    op("Q5", "base assemblies older than a part that they use"),
    op("Q6", "assemblies older than a part that is used below them"),
    op("Q7", "atomic parts"),
    op("Q8", "atomic parts with their documents"),
    undone("insert", "delete", "composite parts made"),
    Op { before: Some("insert"), ..op("delete", "composite parts removed") },
];

/// The objects and clients that the operations run on.
pub struct Ways<'s> {
    theta: &'s Oo7,
    futures: Client<'s>,
    promises: Client<'s>,
    structures: Structures<'s>,
}

impl<'s> Ways<'s> {
    /// Makes all ways in one session.
    pub fn new(session: &'s Session, db: &'s Database, theta: &'s Oo7) -> Ways<'s> {
        Ways {
            theta,
            futures: Client { session, db, promises: false },
            promises: Client { session, db, promises: true },
            structures: Structures::new(session, db),
        }
    }

    /// Runs an operation once.
    ///
    /// # Errors
    /// The failure of the calls.
    pub fn run(&self, op: &str, way: Way) -> Result<i64, Error> {
        match way {
            // The program is the same; the session differs.
            Way::Each | Way::Linked | Way::Futures => client(&self.futures, op),
            Way::Promises => client(&self.promises, op),
            Way::Bcs => structure(&self.structures, op),
            Way::Theta => method(self.theta, op).claim(),
        }
    }
}

/// Returns the parts and the action of the traversals T1 to T3.
fn action(op: &str) -> (Parts, Action) {
    match op {
        "T2a" => (Parts::Roots, Action::Swap(1)),
        "T2b" => (Parts::All, Action::Swap(1)),
        "T2c" => (Parts::All, Action::Swap(4)),
        "T3a" => (Parts::Roots, Action::Toggle(1)),
        "T3b" => (Parts::All, Action::Toggle(1)),
        "T3c" => (Parts::All, Action::Toggle(4)),
        _ => (Parts::All, Action::Nothing),
    }
}

/// The first dates of queries 2 and 3.
const RECENT: (i64, i64) = (1990, 1900);

fn client(c: &Client<'_>, op: &str) -> Result<i64, Error> {
    let (parts, todo) = action(op);
    match op {
        "T4" => c.t4(),
        "T5do" => c.t5("I am", "This is"),
        "T5undo" => c.t5("This is", "I am"),
        "T6" => c.t6(),
        "T7" => c.t7(),
        "T8" => c.t8(),
        "T9" => c.t9(),
        "T10" => c.t10(),
        "CU" => c.parts(Parts::All, Action::Nothing).and_then(|_| c.parts(Parts::Roots, Action::Swap(1))),
        "Q1" => c.q1(),
        "Q2" => c.newest(RECENT.0),
        "Q3" => c.newest(RECENT.1),
        "Q4" => c.q4(),
        "Q5" => c.q5(),
        "Q6" => c.q6(),
        "Q7" => c.q7(),
        "Q8" => c.q8(),
        "insert" => c.insert(),
        "delete" => c.delete(),
        _ => c.parts(parts, todo),
    }
}

fn structure(s: &Structures<'_>, op: &str) -> Result<i64, Error> {
    let (parts, todo) = action(op);
    match op {
        "T4" => s.t4(),
        "T5do" => s.t5("I am", "This is"),
        "T5undo" => s.t5("This is", "I am"),
        "T6" => s.t6(),
        "T7" => s.t7(),
        "T10" => s.t10(),
        "CU" => s.cu(),
        "Q1" => s.q1(),
        "Q2" => s.newest(RECENT.0),
        "Q3" => s.newest(RECENT.1),
        "Q4" => s.q4(),
        "Q5" => s.q5(),
        "Q6" => s.q6(),
        "Q7" => s.q7(),
        "Q8" => s.q8(),
        "insert" => s.insert(),
        "delete" => s.delete(),
        _ => s.parts(parts, todo),
    }
}

fn method(o: &Oo7, op: &str) -> Promise<i64> {
    match op {
        "T1WW" => o.t1ww(10),
        "T2a" => o.t2a(),
        "T2b" => o.t2b(),
        "T2c" => o.t2c(),
        "T3a" => o.t3a(),
        "T3b" => o.t3b(),
        "T3c" => o.t3c(),
        "T4" => o.t4(),
        "T5do" => o.t5_do(),
        "T5undo" => o.t5_undo(),
        "T6" => o.t6(),
        "T7" => o.t7(),
        "T8" => o.t8(),
        "T9" => o.t9(),
        "T10" => o.t10(),
        "CU" => o.cu(),
        "Q1" => o.q1(),
        "Q2" => o.q2(),
        "Q3" => o.q3(),
        "Q4" => o.q4(),
        "Q5" => o.q5(),
        "Q6" => o.q6(),
        "Q7" => o.q7(),
        "Q8" => o.q8(),
        "insert" => o.insert(),
        "delete" => o.delete(),
        _ => o.t1(),
    }
}
