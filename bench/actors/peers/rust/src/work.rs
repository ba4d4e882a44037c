//! What the tasks and the actors have in common.

use std::f64::consts::PI;

/// The eight parts that the interval of `quadrature` has whatever the number of threads, and how often the function goes up and down.
pub fn parts(n: i64) -> (Vec<(f64, f64)>, f64) {
    let step = 5.2 * PI / 8.0;
    let part = |i: u32| (step * f64::from(i), step * f64::from(i) + step);
    ((0..8).map(part).collect(), 7.3 * n as f64)
}

fn f(x: f64, often: f64) -> f64 {
    if x <= 5.0 * PI { 1000.0 } else { (1000.0 * (often * x).sin() + 1000.0).abs() }
}

fn simpson(a: f64, b: f64, often: f64) -> f64 {
    (b - a) / 6.0 * (f(a, often) + 4.0 * f((a + b) / 2.0, often) + f(b, often))
}

/// The area if it is known well enough, or the middle.
pub fn area(a: f64, b: f64, often: f64, bound: f64) -> Result<f64, f64> {
    let m = (a + b) / 2.0;
    let halves = simpson(a, m, often) + simpson(m, b, often);
    let enough = (halves - simpson(a, b, often)).abs() <= bound || m <= a || m >= b;
    if enough { Ok(halves) } else { Err(m) }
}

/// Where queens stand: the columns and diagonals that are taken, as bits.
#[derive(Clone, Copy)]
pub struct Queens {
    col: i64,
    diag1: i64,
    diag2: i64,
    maxcol: i64,
}

impl Queens {
    /// None, on a board of n rows.
    pub fn none(n: i64) -> Queens {
        Queens { col: 0, diag1: 0, diag2: 0, maxcol: (1 << n) - 1 }
    }

    /// How many places of the next row are the last, and each way to go on.
    pub fn place(self, mut other: impl FnMut(Queens)) -> i64 {
        let Queens { col, diag1, diag2, maxcol } = self;
        let c = col | diag1 | diag2;
        let mut c1 = (c + 1) & !c;
        let mut sols = 0;
        while c1 <= maxcol {
            if col | c1 == maxcol {
                sols += 1;
            } else {
                let (diag1, diag2) = (((diag1 | c1) << 1) & maxcol, (diag2 | c1) >> 1);
                other(Queens { col: col | c1, diag1, diag2, maxcol });
            }
            c1 = ((c1 << 1) + c) & !c;
        }
        sols
    }
}
