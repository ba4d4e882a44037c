//! A straight line through measured times, with the errors of its two figures.
//!
//! [`Fit::of`] fits time = intercept + slope * x by least squares of the relative deviations: noise
//! grows with the time that is measured, and a point counts as much as any other. For batches of B
//! calls the slope is t_c and the intercept t_d of t = t_c + t_d / B (001 section 6.1).
//!
//! A figure that came out negative is kept here as it is. [`super::report::cost`] makes it "not
//! measured", and there is no prediction from it.

/// A fitted figure.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Estimate {
    /// The figure.
    pub value: f64,
    /// Its standard error, by the scatter of the points; NaN with fewer than three.
    pub error: f64,
}

/// A fitted line.
#[derive(Clone, Debug)]
pub struct Fit {
    /// The time of each unit of x.
    pub slope: Estimate,
    /// The time at x = 0.
    pub intercept: Estimate,
    /// The share of the variance of time / x that the line explains (R squared).
    pub explained: f64,
    /// The greatest relative deviation of a point, as a ratio.
    pub worst: f64,
}

impl Fit {
    /// Fits a line to pairs of x and time; times are positive.
    pub fn of(points: &[(f64, f64)]) -> Fit {
        let weight = |y: f64| 1.0 / (y * y);
        let sum =
            |f: &dyn Fn(f64, f64) -> f64| points.iter().map(|(x, y)| weight(*y) * f(*x, *y)).sum::<f64>();
        let all = sum(&|_, _| 1.0);
        let (mean_x, mean_y) = (sum(&|x, _| x) / all, sum(&|_, y| y) / all);
        let spread = sum(&|x, _| (x - mean_x).powi(2));
        let slope = sum(&|x, y| (x - mean_x) * (y - mean_y)) / spread;
        let intercept = mean_y - slope * mean_x;
        let line = |x: f64| intercept + slope * x;
        // The variance of a point of weight 1, with two figures taken from the points.
        let variance = match points.len() {
            0..3 => f64::NAN,
            n => sum(&|x, y| (y - line(x)).powi(2)) / (n - 2) as f64,
        };
        Fit {
            slope: Estimate { value: slope, error: (variance / spread).sqrt() },
            intercept: Estimate {
                value: intercept,
                error: (variance * (1.0 / all + mean_x * mean_x / spread)).sqrt(),
            },
            explained: explained(points, &line),
            worst: points.iter().map(|(x, y)| (line(*x) / y - 1.0).abs()).fold(0.0, f64::max),
        }
    }

    /// Returns the time of each unit that the model predicts at x; nothing if a figure of the model
    /// is not measured.
    pub fn predict(&self, x: f64) -> Option<f64> {
        let (slope, intercept) = (self.slope.value, self.intercept.value);
        (slope >= 0.0 && intercept >= 0.0).then_some(slope + intercept / x)
    }
}

/// Returns R squared of the times of each unit; points at x = 0 have none.
fn explained(points: &[(f64, f64)], line: &dyn Fn(f64) -> f64) -> f64 {
    let each: Vec<(f64, f64)> =
        points.iter().filter(|(x, _)| *x > 0.0).map(|(x, y)| (y / x, line(*x) / x)).collect();
    let mean = each.iter().map(|(y, _)| y).sum::<f64>() / each.len() as f64;
    let left: f64 = each.iter().map(|(y, fitted)| (y - fitted).powi(2)).sum();
    1.0 - left / each.iter().map(|(y, _)| (y - mean).powi(2)).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::super::report::{Case, Target, Verdict};
    use super::*;

    fn near(found: f64, expected: f64) -> bool {
        (found - expected).abs() <= 1e-6 * expected.abs().max(1.0)
    }

    #[test]
    fn points_on_a_line_give_it_back_without_error() {
        let points: Vec<(f64, f64)> = [1.0, 2.0, 8.0, 64.0, 8192.0].map(|b| (b, 340.0 + 35.0 * b)).into();
        let fit = Fit::of(&points);
        assert!(near(fit.slope.value, 35.0) && near(fit.intercept.value, 340.0), "{fit:?}");
        assert!(near(fit.slope.error, 0.0) && fit.intercept.error < 1e-3, "{fit:?}");
        assert!(near(fit.explained, 1.0) && fit.worst < 1e-9, "{fit:?}");
        assert!(near(fit.predict(2.0).unwrap(), 35.0 + 170.0));
    }

    #[test]
    fn errors_are_those_of_the_scatter() {
        // Relative weights of equal times are equal: the textbook's line through (1, 9), (2, 11),
        // (3, 10) scaled so that weights differ little.
        let points = [(1.0, 1009.0), (2.0, 1011.0), (3.0, 1010.0)];
        let fit = Fit::of(&points);
        // Slope 0.5; residuals -0.5, 1, -0.5; variance 1.5; of the slope 1.5 / 2.
        assert!((fit.slope.value - 0.5).abs() < 0.01, "{fit:?}");
        assert!((fit.slope.error - 0.75_f64.sqrt()).abs() < 0.01, "{fit:?}");
        assert!((fit.worst - 1.0 / 1011.0).abs() < 1e-5, "{fit:?}");
        assert!(Fit::of(&points[..2]).slope.error.is_nan());
        // More scatter, more error.
        let worse = Fit::of(&[(1.0, 1000.0), (2.0, 1020.0), (3.0, 1001.0)]);
        assert!(worse.slope.error > 5.0 * fit.slope.error && worse.worst > fit.worst);
    }

    #[test]
    fn a_fit_that_came_out_negative_predicts_and_reaches_nothing() {
        // Batches whose time falls while they grow, and ones that seem to start before they begin.
        let falling = Fit::of(&[(1.0, 400.0), (2.0, 300.0), (4.0, 200.0), (8.0, 100.0)]);
        let early = Fit::of(&[(1.0, 10.0), (2.0, 30.0), (4.0, 70.0), (8.0, 150.0)]);
        assert!(falling.slope.value < 0.0 && early.intercept.value < 0.0, "{falling:?} {early:?}");
        for (fit, figure) in [(&falling, falling.slope), (&early, early.intercept)] {
            assert_eq!(fit.predict(4.0), None);
            let target = Target::new("t", figure.value, 1e9, "ns");
            assert_eq!((target.verdict, target.reached), (Verdict::NotMeasured, false));
            assert!(Case::fitted("t", "ns", figure).value.is_nan());
        }
    }
}
