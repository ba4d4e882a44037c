//! Trees of calls as tasks of rayon, one for each call.

use rayon::{ThreadPool, ThreadPoolBuilder, join};

use crate::work::{Queens, area, parts};

/// Runs a case on a pool of its own.
pub fn runner(case: &str, threads: usize) -> Box<dyn Fn(i64) -> Option<i64>> {
    let pool: ThreadPool = ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
    let case = case.to_owned();
    Box::new(move |n| {
        pool.install(|| match &*case {
            "fib" => Some(fib(n)),
            "queens12" | "queens13" => Some(queens(Queens::none(n))),
            "quadrature" => Some(quadrature(n)),
            _ => None,
        })
    })
}

fn fib(n: i64) -> i64 {
    if n < 2 {
        return n;
    }
    let (one, two) = join(|| fib(n - 1), || fib(n - 2));
    one + two
}

fn queens(board: Queens) -> i64 {
    let mut ways = [board; 16];
    let mut count = 0;
    let sols = board.place(|way| {
        ways[count] = way;
        count += 1;
    });
    sols + all(&ways[..count])
}

/// A task for each way.
fn all(ways: &[Queens]) -> i64 {
    match ways {
        [] => 0,
        [way] => queens(*way),
        [way, rest @ ..] => {
            let (one, others) = join(|| queens(*way), || all(rest));
            one + others
        }
    }
}

fn sum(a: f64, b: f64, often: f64, bound: f64) -> f64 {
    match area(a, b, often, bound) {
        Ok(area) => area,
        Err(m) => {
            let (left, right) =
                join(|| sum(a, m, often, bound / 2.0), || sum(m, b, often, bound / 2.0));
            left + right
        }
    }
}

fn quadrature(n: i64) -> i64 {
    let (parts, often) = parts(n);
    all_parts(&parts, often).round() as i64
}

fn all_parts(parts: &[(f64, f64)], often: f64) -> f64 {
    match parts {
        [] => 0.0,
        [(a, b), rest @ ..] => {
            let (one, others) = join(|| sum(*a, *b, often, 0.01), || all_parts(rest, often));
            one + others
        }
    }
}
