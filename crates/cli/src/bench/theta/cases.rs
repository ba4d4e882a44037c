//! The programs that are compared: each in Theta, C, Lua and Go, and the bounds on Theta's figures.

/// A program in all languages. Its routine or function `run` takes n and gives an integer, which is
/// the same everywhere.
pub struct Case {
    /// Its name, as in the table and on the command line.
    pub name: &'static str,
    /// The work.
    pub about: &'static str,
    /// n of a measurement.
    pub n: i64,
    /// n of a quick run, which only looks at the results.
    pub quick_n: i64,
    /// The most time that Theta may take, as a multiple of checked C.
    pub most: f64,
    /// The additional flags of the C compiler.
    pub c_flags: &'static [&'static str],
    /// The program in Theta.
    pub theta: &'static str,
    /// In C.
    pub c: &'static str,
    /// In Lua, for both implementations.
    pub lua: &'static str,
    /// In Go.
    pub go: &'static str,
}

/// The headers that the C programs include.
pub const C_HEADERS: [(&str, &str); 2] = [
    ("bench.h", include_str!("../../../../../bench/theta/bench.h")),
    ("ints.h", include_str!("../../../../../bench/theta/ints.h")),
];
/// The code behind a program in Lua.
pub const LUA_MAIN: &str = include_str!("../../../../../bench/theta/bench.lua");
/// The code that is compiled with a program in Go.
pub const GO_MAIN: &str = include_str!("../../../../../bench/theta/bench.go");

/// Loops over numbers and arrays.
const NUMERIC: f64 = 1.5;
/// Calls, dispatch and iterators.
const CALLS: f64 = 2.0;
/// Objects, maps and strings that come and go.
const ALLOCATION: f64 = 3.0;

macro_rules! case {
    ($name:literal, $file:literal, $n:literal, $quick_n:literal, $most:ident, $flags:expr, $about:literal) => {
        Case {
            name: $name,
            about: $about,
            n: $n,
            quick_n: $quick_n,
            most: $most,
            c_flags: $flags,
            theta: include_str!(concat!("../../../../../bench/theta/", $file, ".theta")),
            c: include_str!(concat!("../../../../../bench/theta/", $file, ".c")),
            lua: include_str!(concat!("../../../../../bench/theta/", $file, ".lua")),
            go: include_str!(concat!("../../../../../bench/theta/", $file, ".go")),
        }
    };
}

/// Compiles calls as calls. Without it the C compiler unrolls the recursion several levels deep.
const AS_MANY_CALLS: &[&str] = &["-DCALLS", "-fno-optimize-sibling-calls"];

/// All of them, in the order of the table.
pub static CASES: [Case; 11] = [
    case!("fib", "fib", 35, 15, CALLS, &[], "Fibonacci numbers by recursion"),
    case!("fib-calls", "fib", 35, 15, CALLS, AS_MANY_CALLS, "the same, with as many calls in C"),
    case!("nbody", "nbody", 1_000_000, 100, NUMERIC, &[], "planets: reals in objects"),
    case!("spectral", "spectral", 1000, 20, NUMERIC, &[], "spectral norm: arrays of reals, division"),
    case!("fannkuch", "fannkuch", 10, 6, NUMERIC, &[], "permutations: arrays of ints"),
    case!("mandelbrot", "mandelbrot", 1000, 20, NUMERIC, &[], "n * n points, 50 rounds: reals"),
    case!("trees", "trees", 18, 6, ALLOCATION, &[], "binary trees of depth n: small objects"),
    case!("map", "map", 1_000_000, 1000, ALLOCATION, &[], "a map of n ints: store, fetch, remove"),
    case!("strings", "strings", 300_000, 300, ALLOCATION, &[], "n lines of text, put together"),
    case!("shapes", "shapes", 10_000, 10, CALLS, &[], "three methods of a thousand objects of five classes"),
    case!(
        "iterators",
        "iterators",
        50_000_000,
        1000,
        CALLS,
        &[],
        "map and filter over a range, as iterators"
    ),
];
