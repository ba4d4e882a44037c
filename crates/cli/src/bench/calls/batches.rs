//! Batches of growing size over a stream, and the model fitted to them (001 section 6, figures 3 to
//! 6).
//!
//! [`measure`] has two [`Series`]: null calls, and the descent of a list that the paper measured.
//! In both all calls of a batch can be deferred, so the batching factor B is the size of the batch.
//! The samples of all sizes alternate. [`print_table`] is figure 3: the fits of all streams beside
//! the paper's.

use std::hint::black_box;
use std::time::Instant;

use bifrost_veneer::{Error, Session};
use indicatif::ProgressBar;

use super::super::bifrost_stubs::{IntList, Probe};
use super::super::common::Failed;
use super::super::fit::{Estimate, Fit};
use super::super::report::{Case, cost, ratio, summary};
use super::measure::{Effort, ns};

/// The sizes of batches.
const SIZES: [u64; 10] = [1, 2, 4, 8, 16, 64, 256, 1024, 4096, 8192];

/// Calls in each sample at least: small batches are repeated, and their mean is the sample.
const CALLS_MIN: u64 = 64;

/// The size whose recording is measured by itself.
const RECORDED: u64 = 1024;

/// Calls of one kind that fill a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Series {
    /// Calls of a method that does nothing.
    Null,
    /// The function `nth` of figure 1: `next` again and again, and `first` at the end.
    Descent,
}

impl Series {
    const ALL: [Series; 2] = [Series::Null, Series::Descent];

    fn name(self) -> &'static str {
        match self {
            Series::Null => "null call",
            Series::Descent => "list descent",
        }
    }
}

/// The objects that the calls are made on.
struct Objects {
    probe: Probe,
    list: IntList,
}

impl Objects {
    fn of(s: &Session) -> Result<Objects, Error> {
        let objects = Objects { probe: s.lookup("probe"), list: s.lookup("long") };
        s.flush()?;
        Ok(objects)
    }

    /// Runs a batch of so many calls; returns its nanoseconds, and those spent on recording.
    fn run(&self, s: &Session, series: Series, calls: u64) -> Result<(f64, f64), Error> {
        if series == Series::Null {
            return batch(s, &self.probe, calls);
        }
        let start = Instant::now();
        let mut at = self.list.clone();
        for _ in 1..calls {
            at = at.next();
        }
        let first = at.first();
        let recorded = ns(start);
        black_box(first.claim()?);
        Ok((ns(start), recorded))
    }
}

/// Returns the time of a flushed batch of `calls` null calls, and the part of it spent on
/// recording.
pub fn batch(session: &Session, probe: &Probe, calls: u64) -> Result<(f64, f64), Error> {
    let start = Instant::now();
    for _ in 0..calls {
        black_box(probe.nothing());
    }
    let recorded = ns(start);
    session.flush()?;
    Ok((ns(start), recorded))
}

/// A row of figure 3.
pub struct Row {
    stream: &'static str,
    series: Series,
    /// Of the medians.
    fit: Fitted,
    /// Of the least values, in which other work of the machine matters less.
    least: Fitted,
}

/// A fit, and the greatest speed-up that was measured.
struct Fitted {
    fit: Fit,
    /// The time of a call with B = 1 against that with the largest B.
    speed_up: f64,
}

impl Fitted {
    /// Fits the model to sizes and times of batches.
    fn of(points: &[(f64, f64)]) -> Fitted {
        let each = |point: Option<&(f64, f64)>| point.map_or(f64::NAN, |(n, time)| time / n);
        Fitted { fit: Fit::of(points), speed_up: ratio(each(points.first()), each(points.last())) }
    }
}

/// Batches of growing size, and the model fitted to them.
pub struct Batches {
    /// The measured sizes with the model's predictions, and the fits.
    pub cases: Vec<Case>,
    /// The rows of figure 3.
    pub rows: Vec<Row>,
    /// The nanoseconds of recording a null call, by sample.
    pub recording: Vec<f64>,
}

impl Batches {
    /// Returns the nanoseconds of a null call; NaN if they are not measured.
    pub fn t_c(&self) -> f64 {
        let null = self.rows.iter().find(|row| row.series == Series::Null);
        null.map_or(f64::NAN, |row| cost(row.fit.fit.slope.value))
    }
}

/// Measures batches over a stream, and fits t = t_c + t_d / B.
///
/// # Errors
/// The session ends.
pub fn measure(
    s: &Session,
    effort: Effort,
    bar: &ProgressBar,
    stream: &'static str,
) -> Result<Batches, Failed> {
    let objects = Objects::of(s)?;
    for _ in 0..20 {
        for series in Series::ALL {
            objects.run(s, series, 1000)?;
        }
    }
    let mut times = Series::ALL.map(|_| vec![Vec::new(); SIZES.len()]);
    let mut recording = Vec::new();
    for _ in 0..effort.samples / 10 {
        for (series, times) in Series::ALL.into_iter().zip(&mut times) {
            for (samples, n) in times.iter_mut().zip(SIZES) {
                // The server may have rested while a long batch was recorded. One call wakes it.
                objects.run(s, series, 1)?;
                let batches = (CALLS_MIN / n).max(1);
                let (mut all, mut recorded) = (0.0, 0.0);
                for _ in 0..batches {
                    let (one, of_it) = objects.run(s, series, n)?;
                    (all, recorded) = (all + one, recorded + of_it);
                }
                samples.push(all / batches as f64);
                if n == RECORDED && series == Series::Null {
                    recording.push(recorded / n as f64);
                }
            }
        }
        bar.inc(1);
    }
    let (mut cases, mut rows) = (Vec::new(), Vec::new());
    for (series, times) in Series::ALL.into_iter().zip(&mut times) {
        let (of_series, row) = fitted(stream, series, times);
        cases.extend(of_series);
        rows.push(row);
    }
    Ok(Batches { cases, rows, recording })
}

/// Returns the cases of a series, with the model beside them.
fn fitted(stream: &'static str, series: Series, times: &mut [Vec<f64>]) -> (Vec<Case>, Row) {
    // The names of cases over shared memory do not name it.
    let name = match stream {
        "shm" => series.name().to_owned(),
        _ => format!("{stream}: {}", series.name()),
    };
    let points: Vec<(f64, f64)> =
        SIZES.iter().zip(times.iter_mut()).map(|(n, samples)| (*n as f64, summary(samples).0)).collect();
    let medians = Fitted::of(&points);
    let fit = &medians.fit;
    // The samples are sorted now.
    let of_size = SIZES.iter().zip(times.iter());
    let least: Vec<(f64, f64)> =
        of_size.filter_map(|(n, samples)| Some((*n as f64, *samples.first()?))).collect();
    let least = Fitted::of(&least);
    let mut cases = Vec::new();
    for (n, samples) in SIZES.iter().zip(times.iter()) {
        let mut per_call: Vec<f64> = samples.iter().map(|t| t / *n as f64).collect();
        let case = Case::new(format!("{name} in a batch of {n}"), *n, "ns", &mut per_call).crossed(1, *n);
        cases.push(case.predicted(fit.predict(*n as f64)));
    }
    let one = |what: &str, value: f64, unit| Case::new(format!("{name}: {what}"), 1, unit, &mut [value]);
    let (t_c, t_d) = (format!("{name}: t_c fitted"), format!("{name}: t_d fitted"));
    cases.extend([Case::fitted(t_c, "ns", fit.slope), Case::fitted(t_d, "ns", fit.intercept)]);
    let (t_c, t_d) = (format!("{name}: t_c of the least values"), format!("{name}: t_d of the least values"));
    cases.extend([Case::fitted(t_c, "ns", least.fit.slope), Case::fitted(t_d, "ns", least.fit.intercept)]);
    cases.push(one("the model's greatest error", 100.0 * fit.worst, "%"));
    cases.push(one("the variance that the model explains", 100.0 * fit.explained, "%"));
    // The paper's way (6.2): with B = 1 and B = 2 the times of a call differ by half of t_d.
    let each = |at: usize| points[at].1 / points[at].0;
    let t_d = cost(2.0 * (each(0) - each(1)));
    cases.push(one("t_c from B = 1 and 2", cost(each(0) - t_d), "ns"));
    cases.push(one("t_d from B = 1 and 2", t_d, "ns"));
    (cases, Row { stream, series, fit: medians, least })
}

/// Prints figure 3 of 001 for the measured streams, and the paper's own figures in microseconds.
pub fn print_table(rows: &[Row]) {
    const PAPER: [(&str, f64, f64, &str); 3] = [
        ("local IPC", 10.0, 126.0, "over 10"),
        ("local Thor", 75.0, 130.0, "about 3"),
        ("remote Thor", 100.0, 905.0, "about 10"),
    ];
    let bold = anstyle::Style::new().bold();
    anstream::println!("\n{bold}The model t = t_c + t_d / B (001 figure 3), fitted to all sizes{bold:#}");
    anstream::println!(
        "  {:<12} {:<13} {:<8} {:>18} {:>20} {:>10} {:>10} {:>12}",
        "",
        "",
        "",
        "t_c",
        "t_d",
        "R squared",
        "worst",
        "speed-up"
    );
    for row in rows {
        let estimate = |e: Estimate| match cost(e.value).is_nan() {
            true => "not measured".to_owned(),
            false => format!("{:.1} +- {:.1} ns", e.value, e.error),
        };
        for (Fitted { fit, speed_up }, of) in [(&row.fit, "medians"), (&row.least, "least")] {
            anstream::println!(
                "  {:<12} {:<13} {of:<8} {:>18} {:>20} {:>10.4} {:>8.0} % {:>12.1}",
                row.stream,
                row.series.name(),
                estimate(fit.slope),
                estimate(fit.intercept),
                fit.explained,
                100.0 * fit.worst,
                speed_up
            );
        }
    }
    for (system, t_c, t_d, speed_up) in PAPER {
        let (t_c, t_d) = (format!("{t_c} us"), format!("{t_d} us"));
        let blank = "";
        anstream::println!(
            "  {system:<12} {:<13} {blank:<8} {t_c:>18} {t_d:>20} {blank:>10} {blank:>10} {speed_up:>12}",
            "(the paper)"
        );
    }
    anstream::println!(
        "  +- is the standard error; `worst` is the greatest deviation of the model from a measured size;\n  \
         the speed-up is that of the largest batch against B = 1."
    );
}
