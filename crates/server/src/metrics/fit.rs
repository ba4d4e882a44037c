//! [`Fit`]: the cost of a call and of a crossing, from batches of different sizes.
//!
//! The model is that of the papers (001 section 6, 000 section 5.1): a call costs t = t_c + t_d /
//! B, if B calls cross together. So a batch of n calls takes t_d + n t_c. Least squares over
//! batches give both; [`Sums`] has all that they need, and is exact.

/// Most calls of a batch that count.
const CALLS_MAX: u64 = u32::MAX as u64;
/// The longest time of a batch that counts, in nanoseconds: 137 seconds.
const NANOSECONDS_MAX: u64 = 1 << 37;
/// Most batches of which the sums have room: all times together have 63 bits, and the products of
/// [`Sums::fit`] 121.
const BATCHES_MAX: u64 = 1 << 26;

/// The most batches for which one stands.
const WEIGHT_MAX: u64 = 128;

/// The sums of some batches.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sums {
    /// The number of batches.
    pub batches: u64,
    /// Their calls.
    pub calls: u64,
    /// The time for which they ran, in nanoseconds.
    pub nanoseconds: u64,
    /// The squares of their calls.
    pub calls_squared: u128,
    /// The products of calls and time.
    pub calls_by_time: u128,
}

/// The costs in the model of the papers, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Fit {
    /// The cost of a call, t_c.
    pub call_ns: f64,
    /// The cost of a crossing, t_d: of a batch without calls. `None` if it is too small beside the
    /// scatter of the times: the best line would begin below zero.
    pub crossing_ns: Option<f64>,
}

impl Sums {
    /// The sums of one batch.
    #[inline]
    pub fn of(calls: u64, nanoseconds: u64) -> Sums {
        let (calls, nanoseconds) = (calls.min(CALLS_MAX), nanoseconds.min(NANOSECONDS_MAX));
        Sums {
            batches: 1,
            calls,
            nanoseconds,
            calls_squared: u128::from(calls) * u128::from(calls),
            calls_by_time: u128::from(calls) * u128::from(nanoseconds),
        }
    }

    /// Returns the sums of so many equal batches.
    #[inline]
    #[must_use]
    pub fn times(self, count: u64) -> Sums {
        let count = count.min(WEIGHT_MAX);
        let wide = u128::from(count);
        Sums {
            batches: self.batches * count,
            calls: self.calls * count,
            nanoseconds: self.nanoseconds * count,
            calls_squared: self.calls_squared * wide,
            calls_by_time: self.calls_by_time * wide,
        }
    }

    /// Returns the sums of both together. Batches beyond the room of the sums are left out.
    #[must_use]
    pub fn with(self, other: Sums) -> Sums {
        if self.batches + other.batches > BATCHES_MAX {
            return self;
        }
        Sums {
            batches: self.batches + other.batches,
            calls: self.calls + other.calls,
            nanoseconds: self.nanoseconds + other.nanoseconds,
            calls_squared: self.calls_squared + other.calls_squared,
            calls_by_time: self.calls_by_time + other.calls_by_time,
        }
    }

    /// Returns the costs, by least squares over costs that are not negative. If the line of least
    /// squares would begin below zero, that is the line through the origin. The costs are undefined
    /// if all batches have the same number of calls, and if a call would cost less than nothing:
    /// then something else than the number of calls has decided the times.
    pub fn fit(&self) -> Option<Fit> {
        let n = i128::from(self.batches);
        let (x, y) = (i128::from(self.calls), i128::from(self.nanoseconds));
        let (xx, xy) = (i128::try_from(self.calls_squared).ok()?, i128::try_from(self.calls_by_time).ok()?);
        let spread = n * xx - x * x;
        if spread <= 0 {
            return None;
        }
        let call_ns = (n * xy - x * y) as f64 / spread as f64;
        let crossing_ns = (y as f64 - call_ns * x as f64) / n as f64;
        if call_ns < 0.0 {
            return None;
        }
        if crossing_ns < 0.0 {
            // There are batches with calls, or the spread would be none.
            return Some(Fit { call_ns: xy as f64 / xx as f64, crossing_ns: None });
        }
        Some(Fit { call_ns, crossing_ns: Some(crossing_ns) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(batches: impl IntoIterator<Item = (u64, u64)>) -> Sums {
        batches.into_iter().fold(Sums::default(), |all, (calls, ns)| all.with(Sums::of(calls, ns)))
    }

    #[test]
    fn costs_are_found_again() {
        let fit = sums((0..100).map(|calls| (calls, 1500 + 40 * calls))).fit().unwrap();
        assert_eq!((fit.call_ns, fit.crossing_ns), (40.0, Some(1500.0)));
        // Two sizes that hardly differ, very often: nothing is lost.
        let many = (0..1_000_000_u64).map(|i| (1_000_000 + i % 2, 7_000_000 + 3 * (i % 2)));
        let fit = sums(many).fit().unwrap();
        assert!((fit.call_ns - 3.0).abs() < 1e-9, "{fit:?}");
        assert!((fit.crossing_ns.unwrap() - 4_000_000.0).abs() < 1e-3, "{fit:?}");
    }

    #[test]
    fn noise_around_the_costs_is_averaged() {
        let noisy = (0..10_000_u64).map(|i| (i % 50, 2000 + 100 * (i % 50) + i * 7919 % 401));
        let fit = sums(noisy).fit().unwrap();
        assert!((fit.call_ns - 100.0).abs() < 1.0, "{fit:?}");
        assert!((fit.crossing_ns.unwrap() - 2200.0).abs() < 20.0, "{fit:?}");
    }

    #[test]
    fn batches_of_one_size_give_no_costs() {
        assert_eq!(sums([]).fit(), None);
        assert_eq!(sums([(3, 100)]).fit(), None);
        assert_eq!(sums([(3, 100), (3, 900), (3, 5)]).fit(), None);
        // Larger batches took less time.
        assert_eq!(sums([(1, 500), (10, 100)]).fit(), None);
    }

    #[test]
    fn a_crossing_that_the_scatter_hides_has_no_cost() {
        // The line of least squares takes less than no time for a batch without calls. That through
        // the origin has the least squares then: 10010 / 101 for each call.
        let fit = sums([(1, 10), (10, 1000)]).fit();
        assert_eq!(fit, Some(Fit { call_ns: 10010.0 / 101.0, crossing_ns: None }));
        // One batch in seven was held up, at any length, and calls cost far more than a crossing.
        let held_up = |i: u64| if i % 7 == 3 { 3_000_000 } else { 0 };
        let fit = sums((0..70).map(|i| (i % 13, 20_000 + 1_000_000 * (i % 13) + held_up(i)))).fit().unwrap();
        assert!((800_000.0..1_300_000.0).contains(&fit.call_ns), "{fit:?}");
    }

    #[test]
    fn a_batch_stands_for_others() {
        assert_eq!(Sums::of(3, 100).times(2), sums([(3, 100), (3, 100)]));
        assert_eq!(Sums::of(3, 100).times(1), Sums::of(3, 100));
    }

    #[test]
    fn extreme_batches_do_not_overflow() {
        let extreme = [(u64::MAX, u64::MAX), (0, 0), (u64::MAX, 0)];
        let one = sums((0..BATCHES_MAX / 1024).map(|i| extreme[i as usize % 3]));
        let all = (0..1024).fold(Sums::default(), |all, _| all.with(one));
        assert!(all.fit().is_some());
        assert!(all.with(Sums::of(1, 1)).batches <= BATCHES_MAX);
    }
}
