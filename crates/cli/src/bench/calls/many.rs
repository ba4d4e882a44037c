//! Two programs over many objects: a walk along a list with a condition, and a swap of coordinates
//! in a batch of single calls (Zondervan 1995, 3.1 and 4.1).

use std::time::Instant;

use bifrost_veneer::{Error, Session};
use indicatif::ProgressBar;

use super::super::bifrost_stubs::{IntList, Point};
use super::super::common::Failed;
use super::super::report::{Case, Target};
use super::measure::Effort;

/// The nodes of the list `long` of `bench.theta`, and the number of swaps.
const OBJECTS: i64 = 10_000;

/// Counts the numbers of a list of squares that are greater than a limit. The walk is a WHILE whose
/// place is in a cell.
fn walk(s: &Session, list: &IntList, limit: i64) -> Result<(f64, i64), Error> {
    let at = s.cell_with::<IntList>(list);
    let count = s.cell_with::<i64>(0);
    s.flush()?;
    let start = Instant::now();
    s.while_(
        || at.get().first().lt(OBJECTS * OBJECTS),
        || {
            let here = at.get();
            s.if_(here.first().gt(limit), || drop(count.put(count.get() + 1)));
            at.put(here.next());
        },
    );
    let found = count.get().claim()?;
    Ok((start.elapsed().as_nanos() as f64, found))
}

/// Swaps the coordinates of a point, in one batch of four calls for each time.
fn swap(s: &Session, point: &Point) -> Result<f64, Error> {
    s.flush()?;
    let start = Instant::now();
    for _ in 0..OBJECTS {
        let (x, y) = (point.x(), point.y());
        point.set_x(&y);
        point.set_y(&x);
    }
    s.flush()?;
    Ok(start.elapsed().as_nanos() as f64)
}

/// Measures both.
///
/// # Errors
/// The session ends, or the walk has another result than it must.
pub fn measure(s: &Session, effort: Effort, bar: &ProgressBar) -> Result<(Vec<Case>, Vec<Target>), Failed> {
    let list: IntList = s.lookup("long");
    let point: Point = s.lookup("point");
    let (mut walks, mut swaps) = (Vec::new(), Vec::new());
    for _ in 0..effort.long_samples {
        let (time, found) = walk(s, &list, OBJECTS * OBJECTS / 4)?;
        if found != OBJECTS / 2 - 1 {
            return Err(Failed::from(format!("the walk has found {found} numbers")));
        }
        walks.push(time / 1e6);
        swaps.push(swap(s, &point)? / 1e6);
        bar.inc(1);
    }
    let walk = Case::new("walk with a condition, 10,000 nodes", OBJECTS as u64, "ms", &mut walks);
    let swap = Case::new("swap of a point, 10,000 times, batched", 4 * OBJECTS as u64, "ms", &mut swaps);
    let targets = vec![
        Target::new("a walk with a condition over 10,000 nodes", walk.value, 0.1, "ms"),
        Target::new("10,000 swaps of a point, batched", swap.value, 1.5, "ms"),
    ];
    Ok((vec![walk, swap.crossed(1, 4 * OBJECTS as u64)], targets))
}
