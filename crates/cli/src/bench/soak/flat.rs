//! The test that a server's means stay flat: memory, descriptors and threads.
//!
//! Read [`Series::faults`] first. The first part of the time is for warming up. Of the rest the
//! greatest value of the last third is compared with that of the first third. A slope alone is told
//! and not judged: one process of clients that is killed late would tilt it.

use super::super::usage::Usage;

/// The part of the time in which caches and buffers fill.
pub const WARM: f64 = 0.25;
/// The growth of memory that is accepted: a part of it, and bytes besides. The store's buffer of
/// modified objects has two halves, and may fill the second one late.
pub const MEMORY_GROWTH_MOST: f64 = 0.15;
pub const MEMORY_BYTES_MOST: f64 = 32e6;
/// The growth of descriptors and threads that is accepted, besides those of the sessions of two
/// client processes: one that ends while its successor begins.
pub const OTHERS_MOST: f64 = 16.0;
/// Samples without which nothing can be compared.
const SAMPLES_LEAST: usize = 9;

/// The means over time.
#[derive(Default)]
pub struct Series {
    /// Seconds from the start, and the means at that time.
    samples: Vec<(f64, Usage)>,
}

/// One kind of means over time.
pub struct Trend {
    /// Its name.
    pub name: &'static str,
    /// The greatest value of the first third, and of the last.
    pub first: f64,
    pub last: f64,
    /// The growth in a minute, by least squares.
    pub slope: f64,
    /// The most that the last third may have.
    pub most: f64,
}

impl Series {
    /// Adds a sample.
    pub fn push(&mut self, seconds: f64, usage: Usage) {
        self.samples.push((seconds, usage));
    }

    /// Returns the greatest memory, in bytes.
    pub fn pss_max(&self) -> u64 {
        self.samples.iter().map(|(_, usage)| usage.pss).max().unwrap_or_default()
    }

    /// Returns the trends behind the warm-up; none if there are too few samples. `share` is the
    /// number of clients of a process.
    pub fn trends(&self, share: usize) -> Vec<Trend> {
        let lasted = self.samples.last().map_or(0.0, |(at, _)| *at);
        let warm: Vec<&(f64, Usage)> = self.samples.iter().filter(|(at, _)| *at >= lasted * WARM).collect();
        if warm.len() < SAMPLES_LEAST {
            return Vec::new();
        }
        let third = warm.len() / 3;
        let trend = |name, of: &dyn Fn(&Usage) -> f64, most: &dyn Fn(f64) -> f64| {
            let greatest =
                |part: &[&(f64, Usage)]| part.iter().map(|(_, usage)| of(usage)).fold(0.0, f64::max);
            let first = greatest(&warm[..third]);
            let last = greatest(&warm[warm.len() - third..]);
            let points: Vec<(f64, f64)> = warm.iter().map(|(at, usage)| (at / 60.0, of(usage))).collect();
            Trend { name, first, last, slope: slope(&points), most: most(first) }
        };
        let others = |first: f64| first + 2.0 * share as f64 + OTHERS_MOST;
        let memory = |first: f64| first * (1.0 + MEMORY_GROWTH_MOST) + MEMORY_BYTES_MOST;
        vec![
            trend("memory", &|usage| usage.pss as f64, &memory),
            trend("descriptors", &|usage| usage.descriptors as f64, &others),
            trend("threads", &|usage| usage.threads as f64, &others),
        ]
    }

    /// Returns the means that did not stay flat, as texts.
    pub fn faults(&self, share: usize) -> Vec<String> {
        let faults = self.trends(share).into_iter().filter(|trend| trend.last > trend.most);
        faults
            .map(|Trend { name, first, last, slope, most }| {
                format!(
                    "{name} grew: at most {first:.0} in the first third, {last:.0} in the last, where {most:.0} are \
                     accepted ({slope:.0} in a minute)"
                )
            })
            .collect()
    }
}

/// Returns the slope of points, by least squares; 0 for fewer than two.
fn slope(points: &[(f64, f64)]) -> f64 {
    let n = points.len().max(1) as f64;
    let (x, y) = (points.iter().map(|p| p.0).sum::<f64>() / n, points.iter().map(|p| p.1).sum::<f64>() / n);
    let over: f64 = points.iter().map(|p| (p.0 - x) * (p.1 - y)).sum();
    let under: f64 = points.iter().map(|p| (p.0 - x).powi(2)).sum();
    if under > 0.0 { over / under } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(of: impl Fn(f64) -> Usage) -> Series {
        let mut series = Series::default();
        (0..120).for_each(|at| series.push(f64::from(at), of(f64::from(at))));
        series
    }

    #[test]
    fn growth_is_told_from_noise() {
        let noise = |at: f64| (at * 7.0) % 10.0;
        let flat = |at: f64| Usage {
            pss: 200_000_000 + (noise(at) * 1e6) as u64,
            descriptors: 220 + noise(at) as u64,
            threads: 230,
            ..Usage::default()
        };
        assert_eq!(series(flat).faults(10), Vec::<String>::new());
        // What grows while it warms up does not count.
        let warm = |at: f64| Usage { pss: (at.min(25.0) * 1e7) as u64, ..flat(at) };
        assert_eq!(series(warm).faults(10), Vec::<String>::new());
        let leaks: [fn(f64) -> Usage; 3] = [
            |at| Usage { pss: 200_000_000 + (at * 2e6) as u64, ..Usage::default() },
            |at| Usage { descriptors: 220 + at as u64, ..Usage::default() },
            |at| Usage { threads: 220 + at as u64, ..Usage::default() },
        ];
        for (leak, name) in leaks.into_iter().zip(["memory", "descriptors", "threads"]) {
            let faults = series(leak).faults(10);
            assert!(faults.len() == 1 && faults[0].starts_with(name), "{name}: {faults:?}");
        }
        let slope = series(leaks[1]).trends(10)[1].slope;
        assert!((slope - 60.0).abs() < 1e-6, "{slope}");
    }
}
