//! The programs that are compared: each in Theta and C and with the peers that can do the same, and
//! the figures that are expected of Theta.

/// The amount of work.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// The argument of the program.
    pub n: i64,
    /// The number of messages, actors or calls that makes, by which the time is divided.
    pub operations: i64,
}

/// The number of threads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Threads {
    /// One.
    One,
    /// Two: there is a sender and a receiver.
    Two,
    /// One, and then two, which are to be faster.
    Both,
}

/// The quantity that is measured of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Quantity {
    /// Nanoseconds for an operation: of processor time on one thread, of time that passes on two.
    Time,
    /// Bytes of memory of an actor that does nothing.
    Memory,
}

/// The bound on Theta's figure.
#[derive(Clone, Copy, Debug)]
pub enum Bound {
    /// At most so many nanoseconds on a core of 3 GHz.
    Ns(f64),
    /// The same, of the processor time of the thread that sends.
    SenderNs(f64),
    /// At most so many nanoseconds that pass, on any core.
    PassedNs(f64),
    /// At most so many nanoseconds more than pass with C.
    OverC(f64),
    /// At most so many times the processor time of C.
    TimesC(f64),
    /// At most so many times the processor time of rayon.
    TimesRayon(f64),
    /// At most so many bytes.
    Bytes(f64),
}

/// A program in all languages, which gets n and gives an integer, the same everywhere.
pub struct Case {
    /// Its name, as in the table and on the command line, and that of the peers' programs.
    pub name: &'static str,
    /// The work.
    pub about: &'static str,
    /// One operation.
    pub operation: &'static str,
    /// The threads that it runs on.
    pub threads: Threads,
    /// The quantity that is measured.
    pub quantity: Quantity,
    /// The bound on Theta's figure.
    pub bound: Bound,
    /// The work of a measurement.
    pub full: Size,
    /// The same for those whose operations take a hundred times as long.
    pub slow: Size,
    /// The work of a quick run, which only looks at the results.
    pub quick: Size,
    /// True if there are two processes in place of two threads.
    pub capsules: bool,
    /// True if it is a tree of calls, which tasks can do as well as actors.
    pub tasks: bool,
    /// The additional flags of the C compiler.
    pub c_flags: &'static [&'static str],
    /// The program in Theta.
    pub theta: &'static str,
    /// In C.
    pub c: &'static str,
}

macro_rules! program {
    ($file:literal) => {
        include_str!(concat!("../../../../../bench/actors/", $file))
    };
}

/// The conversation with programs in C, which is that of `bench theta`.
pub const C_HEADERS: [(&str, &str); 2] = [
    ("bench.h", include_str!("../../../../../bench/theta/bench.h")),
    ("ints.h", include_str!("../../../../../bench/theta/ints.h")),
];
/// Additions, each of which takes a cycle.
pub const C_CLOCK: &str = program!("clock.c");
/// All cases in Go.
pub const GO: &str = program!("peers/actors.go");
/// All cases in Erlang.
pub const ERLANG: &str = program!("peers/actors.erl");
/// All cases with CAF.
pub const CAF: &str = program!("peers/caf.cpp");

/// Makes the size of a case with as many operations as n.
const fn each(n: i64) -> Size {
    Size { n, operations: n }
}

const fn size(n: i64, operations: i64) -> Size {
    Size { n, operations }
}

/// Makes a case of messages to actors, on one thread.
const fn messages(name: &'static str, about: &'static str, theta: &'static str, c: &'static str) -> Case {
    Case {
        name,
        about,
        operation: "message",
        threads: Threads::One,
        quantity: Quantity::Time,
        bound: Bound::Ns(0.0),
        full: each(50_000_000),
        slow: each(1_000_000),
        quick: each(2000),
        capsules: false,
        tasks: false,
        c_flags: &[],
        theta,
        c,
    }
}

/// Makes a case of an actor for each call, on one thread and on two.
const fn tree(name: &'static str, about: &'static str, theta: &'static str, c: &'static str) -> Case {
    let one = messages(name, about, theta, c);
    Case { operation: "call", threads: Threads::Both, bound: Bound::TimesC(2.5), tasks: true, ..one }
}

/// Compiles calls as calls. Without it the C compiler unrolls the recursion several levels deep.
const AS_MANY_CALLS: &[&str] = &["-DCALLS", "-fno-optimize-sibling-calls"];

/// All of them, in the order of the table.
pub static CASES: [Case; 15] = [
    Case {
        bound: Bound::Ns(4.0),
        ..messages("send", "messages to an actor that is dormant", program!("send.theta"), program!("send.c"))
    },
    Case {
        bound: Bound::Ns(1.5),
        ..messages(
            "send-known",
            "the same where its class is known",
            program!("send-known.theta"),
            program!("send.c"),
        )
    },
    Case {
        bound: Bound::Ns(8.0),
        full: each(5_000_000),
        ..messages(
            "queue",
            "messages to an actor that is running, which queue",
            program!("queue.theta"),
            program!("queue.c"),
        )
    },
    Case {
        threads: Threads::Two,
        bound: Bound::SenderNs(15.0),
        full: each(2_000_000),
        ..messages(
            "remote",
            "messages to an actor of another node",
            program!("remote.theta"),
            program!("remote.c"),
        )
    },
    Case {
        operation: "request",
        bound: Bound::Ns(6.0),
        full: each(10_000_000),
        slow: each(200_000),
        ..messages(
            "request",
            "requests that are answered at once",
            program!("request.theta"),
            program!("request.c"),
        )
    },
    Case {
        operation: "round",
        // A request, and the two messages and the delivery that go with it.
        bound: Bound::Ns(32.0),
        full: each(1_000_000),
        slow: each(100_000),
        ..messages(
            "suspend",
            "rounds of a request that is answered late and two messages",
            program!("suspend.theta"),
            program!("suspend.c"),
        )
    },
    Case {
        operation: "request",
        threads: Threads::Two,
        bound: Bound::PassedNs(1000.0),
        full: each(100_000),
        slow: each(50_000),
        ..messages(
            "remote-request",
            "requests to an actor of another node",
            program!("remote-request.theta"),
            program!("remote-request.c"),
        )
    },
    Case {
        threads: Threads::Two,
        capsules: true,
        bound: Bound::PassedNs(100.0),
        full: each(1_000_000),
        ..messages(
            "capsule",
            "messages to an actor of another process",
            program!("remote.theta"),
            program!("capsule.c"),
        )
    },
    Case {
        operation: "request",
        threads: Threads::Two,
        capsules: true,
        bound: Bound::OverC(3000.0),
        full: each(30_000),
        slow: each(30_000),
        ..messages(
            "capsule-request",
            "requests to an actor of another process",
            program!("remote-request.theta"),
            program!("capsule-request.c"),
        )
    },
    Case {
        operation: "actor",
        bound: Bound::Ns(5.0),
        full: each(10_000_000),
        slow: each(200_000),
        ..messages(
            "create",
            "actors made, with two variables each",
            program!("create.theta"),
            program!("create.c"),
        )
    },
    Case {
        operation: "actor",
        quantity: Quantity::Memory,
        // With a header of two words; 40 with one.
        bound: Bound::Bytes(48.0),
        full: each(1_000_000),
        slow: each(100_000),
        ..messages("idle", "memory of idle actors", program!("idle.theta"), program!("idle.c"))
    },
    Case {
        bound: Bound::TimesRayon(1.5),
        full: size(33, 11_405_773),
        slow: size(25, 242_785),
        quick: size(12, 465),
        c_flags: AS_MANY_CALLS,
        ..tree(
            "fib",
            "Fibonacci numbers; calls in C are calls",
            program!("fib.theta"),
            include_str!("../../../../../bench/theta/fib.c"),
        )
    },
    Case {
        full: size(12, 841_989),
        slow: size(10, 34_815),
        quick: size(6, 149),
        ..tree("queens12", "all solutions for 12 queens", program!("queens.theta"), program!("queens.c"))
    },
    Case {
        full: size(13, 4_601_178),
        slow: size(11, 164_246),
        quick: size(7, 512),
        ..tree("queens13", "all solutions for 13 queens", program!("queens.theta"), program!("queens.c"))
    },
    Case {
        full: size(50_000, 1_519_496),
        slow: size(1000, 35_588),
        quick: size(100, 3_378),
        ..tree(
            "quadrature",
            "adaptive quadrature: a call for an interval",
            program!("quadrature.theta"),
            program!("quadrature.c"),
        )
    },
];
