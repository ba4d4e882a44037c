//! The figures of a benchmark: as a table, as JSON lines, as a chart.
//!
//! Read [`Case`] first: one measured figure with its place. [`Target`] is a figure that the project
//! holds itself to. [`print_cases`] and [`print_targets`] show them, [`JsonLines`] writes them to a
//! file, and [`write_chart`] draws them. A benchmark owns its cases; nothing is kept here.

use std::io::Write;
use std::path::Path;

use serde::Serialize;

use super::fit::Estimate;

/// One measured case. `value` is the median.
#[derive(Clone, Debug, Serialize)]
pub struct Case {
    /// The benchmark: `calls`, `theta`, `actors`, `sizes`, `oo7`, `sessions`, `commits`, `soak`,
    /// `files`, `blocking`, `imports`, `veneers`, `echo`.
    pub bench: &'static str,
    /// The name of the case.
    pub case: String,
    /// The way in which it was run, where there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub way: Option<&'static str>,
    /// The system: `bifrost`, or the baseline's name.
    pub peer: &'static str,
    /// The number of calls or rounds of one sample.
    pub n: u64,
    /// The median of the samples; NaN, which is null in JSON, if the figure is not measured.
    pub value: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
    /// The 99th percentile, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99: Option<f64>,
    /// The unit of the four.
    pub unit: &'static str,
    /// The result of the work, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<i64>,
    /// Pairs of crossings in one sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crossings: Option<u64>,
    /// Calls executed in one sample; those of loops count each time (000 section 5.1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls: Option<u64>,
    /// Commands sent in one sample, where they were counted: a loop is sent once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commands: Option<u64>,
    /// Calls for each pair of crossings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batching_factor: Option<f64>,
    /// The value that the model of the benchmark predicts, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predicted: Option<f64>,
    /// The standard error of a fitted value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<f64>,
    /// `cold` or `hot`, where both are measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<&'static str>,
    /// Calls of the store that fetched in one sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fetches: Option<u64>,
    /// Objects that these brought and that were used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fetched: Option<u64>,
    /// Objects that came along with others, used or not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefetched: Option<u64>,
    /// The median as a multiple of Bifrost's median, where the rounds of both alternate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub times_ours: Option<f64>,
    /// The least as a multiple of Bifrost's least.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub times_our_least: Option<f64>,
    /// Datagrams of all sides in one sample, lost and repeated ones included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub datagrams: Option<f64>,
    /// Processor time of all sides for one sample, in nanoseconds, where it was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_ns: Option<u64>,
}

/// Returns the median, least and greatest of samples.
pub fn summary(samples: &mut [f64]) -> (f64, f64, f64) {
    samples.sort_by(f64::total_cmp);
    match &*samples {
        [] => (f64::NAN, f64::NAN, f64::NAN),
        [first, .., last] => (samples[samples.len() / 2], *first, *last),
        [only] => (*only, *only, *only),
    }
}

impl Case {
    /// Makes a case from its samples.
    pub fn new(case: impl Into<String>, n: u64, unit: &'static str, samples: &mut [f64]) -> Case {
        let (value, min, max) = summary(samples);
        Case {
            bench: "calls",
            case: case.into(),
            way: None,
            peer: "bifrost",
            n,
            value,
            min,
            max,
            p99: None,
            unit,
            result: None,
            crossings: None,
            calls: None,
            commands: None,
            batching_factor: None,
            predicted: None,
            error: None,
            temperature: None,
            fetches: None,
            fetched: None,
            prefetched: None,
            times_ours: None,
            times_our_least: None,
            datagrams: None,
            cpu_ns: None,
        }
    }

    /// Makes a case of a fitted cost. One that came out negative is not measured: noise was greater
    /// than the cost.
    pub fn fitted(case: impl Into<String>, unit: &'static str, estimate: Estimate) -> Case {
        let case = Case::new(case, 1, unit, &mut [cost(estimate.value)]);
        Case { error: (!case.value.is_nan()).then_some(estimate.error), ..case }
    }

    /// Makes it the same of a baseline.
    pub fn of(mut self, peer: &'static str) -> Case {
        self.peer = peer;
        self
    }

    /// Makes it a part of another benchmark.
    pub fn part_of(mut self, bench: &'static str) -> Case {
        self.bench = bench;
        self
    }

    /// Adds the way in which it was run.
    pub fn by(mut self, way: &'static str) -> Case {
        self.way = Some(way);
        self
    }

    /// Adds the result of the work.
    pub fn gives(mut self, result: i64) -> Case {
        self.result = Some(result);
        self
    }

    /// Adds the value that a model predicts, if the model was fitted.
    pub fn predicted(mut self, value: Option<f64>) -> Case {
        self.predicted = value;
        self
    }

    /// Adds the temperature.
    pub fn at(mut self, temperature: &'static str) -> Case {
        self.temperature = Some(temperature);
        self
    }

    /// Adds the counts of fetched objects of one sample.
    pub fn fetched(mut self, fetches: u64, fetched: u64, prefetched: u64) -> Case {
        (self.fetches, self.fetched, self.prefetched) = (Some(fetches), Some(fetched), Some(prefetched));
        self
    }

    /// Adds the ratios to Bifrost's case; none of a cost that is not measured.
    pub fn beside(mut self, ours: &Case) -> Case {
        let measured = |ratio: f64| ratio.is_finite().then_some(ratio);
        self.times_ours = measured(ratio(self.value, ours.value));
        self.times_our_least = measured(ratio(self.min, ours.min));
        self
    }

    /// Adds the number of commands sent in one sample.
    pub fn sent(mut self, commands: u64) -> Case {
        self.commands = Some(commands);
        self
    }

    /// Adds the counts of crossings and calls of one sample.
    pub fn crossed(mut self, crossings: u64, calls: u64) -> Case {
        self.crossings = Some(crossings);
        self.calls = Some(calls);
        self.batching_factor = (crossings > 0).then(|| calls as f64 / crossings as f64);
        self
    }
}

/// The comparison of a measured value with its target.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub enum Verdict {
    /// The value is within the bound.
    #[serde(rename = "reached")]
    Reached,
    /// The value is beyond it.
    #[serde(rename = "missed")]
    Missed,
    /// There is no value: a cost came out negative, or is a ratio of such a cost.
    #[serde(rename = "not measured")]
    NotMeasured,
}

impl Verdict {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Reached => "reached",
            Verdict::Missed => "missed",
            Verdict::NotMeasured => "not measured",
        }
    }
}

/// A figure that the project holds itself to.
#[derive(Clone, Debug, Serialize)]
pub struct Target {
    /// The subject of the target.
    pub target: String,
    /// The measured value; NaN, which is null in JSON, if it is not measured.
    pub value: f64,
    /// The most it may be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub most: Option<f64>,
    /// The least it may be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub least: Option<f64>,
    /// The unit of both; `x` for ratios.
    pub unit: &'static str,
    /// True if it was reached.
    pub reached: bool,
    /// The comparison in words.
    pub verdict: Verdict,
}

/// Returns a cost, or NaN for one that is not measured: a fit or a difference comes out negative
/// when noise is greater than the cost.
pub fn cost(value: f64) -> f64 {
    if value >= 0.0 && value.is_finite() { value } else { f64::NAN }
}

/// Returns the ratio of two measured costs; NaN if either is not measured.
pub fn ratio(cost: f64, base: f64) -> f64 {
    if cost > 0.0 && base > 0.0 { cost / base } else { f64::NAN }
}

impl Target {
    /// Makes a target and its measured value.
    pub fn new(target: impl Into<String>, value: f64, most: f64, unit: &'static str) -> Target {
        Target::bounded(target.into(), value, (Some(most), None), unit)
    }

    /// Makes a target that is reached from below.
    pub fn at_least(target: impl Into<String>, value: f64, least: f64, unit: &'static str) -> Target {
        Target::bounded(target.into(), value, (None, Some(least)), unit)
    }

    fn bounded(
        target: String,
        value: f64,
        (most, least): (Option<f64>, Option<f64>),
        unit: &'static str,
    ) -> Target {
        let value = cost(value);
        let within = most.is_none_or(|most| value <= most) && least.is_none_or(|least| value >= least);
        let verdict = match within {
            _ if value.is_nan() => Verdict::NotMeasured,
            true => Verdict::Reached,
            false => Verdict::Missed,
        };
        Target { target, value, most, least, unit, reached: verdict == Verdict::Reached, verdict }
    }
}

/// Returns the text of a figure.
fn figure(value: f64, width: usize, digits: usize) -> String {
    match value.is_nan() {
        true => format!("{:>width$}", "-"),
        false => format!("{value:>width$.digits$}"),
    }
}

/// Prints cases for people.
pub fn print_cases(title: &str, cases: &[Case]) {
    use anstyle::Style;
    let bold = Style::new().bold();
    anstream::println!("\n{bold}{title}{bold:#}");
    for c in cases {
        let peer = if c.peer == "bifrost" { String::new() } else { format!(" ({})", c.peer) };
        let name = format!("{}{peer}", c.case);
        if c.value.is_nan() {
            anstream::println!("  {name:<44} {:>12}", "not measured");
            continue;
        }
        let factor = c.batching_factor.map_or(String::new(), |b| format!("  B = {b:.1}"));
        let predicted = c.predicted.map_or(String::new(), |value| {
            format!("  the model says {value:.1} ({:+.0} %)", 100.0 * (value / c.value - 1.0))
        });
        let range = match c.error {
            Some(error) => format!("(standard error {error:.1})"),
            None => format!("(min {:.1}, max {:.1})", c.min, c.max),
        };
        anstream::println!("  {name:<44} {:>12.1} {:<3} {range}{factor}{predicted}", c.value, c.unit);
    }
}

/// Prints targets for people.
pub fn print_targets(targets: &[Target]) {
    use anstyle::{AnsiColor, Style};
    let bold = Style::new().bold();
    anstream::println!("\n{bold}Targets{bold:#}");
    for t in targets {
        let colour = if t.reached { AnsiColor::Green } else { AnsiColor::Yellow };
        let style = Style::new().fg_color(Some(colour.into()));
        let bound = match (t.most, t.least) {
            (Some(most), _) => format!("at most {most}"),
            (None, least) => format!("at least {}", least.unwrap_or_default()),
        };
        let bound = format!("{bound} {}", t.unit);
        anstream::println!(
            "  {:<60} {} {:<3} ({})  {style}{}{style:#}",
            t.target,
            figure(t.value, 9, 2),
            t.unit,
            bound.trim_end(),
            t.verdict.name()
        );
    }
}

/// Figures as JSON, one object a line. Each is written at once, so that a run that is ended leaves
/// the figures measured until then.
pub struct JsonLines(Option<Box<dyn Write>>);

impl JsonLines {
    /// Opens a new file, or the standard output for `-`; nothing is written without a path.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn create(path: Option<&Path>) -> std::io::Result<JsonLines> {
        let out = match path {
            None => None,
            Some(path) if path.to_str() == Some("-") => Some(Box::new(std::io::stdout()) as Box<dyn Write>),
            Some(path) => Some(Box::new(std::fs::File::create(path)?) as Box<dyn Write>),
        };
        Ok(JsonLines(out))
    }

    /// Writes figures.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn write<F: Serialize>(&mut self, figures: &[F]) -> std::io::Result<()> {
        let Some(out) = &mut self.0 else { return Ok(()) };
        for figure in figures {
            writeln!(out, "{}", serde_json::to_string(figure)?)?;
        }
        out.flush()
    }
}

/// A line of a chart.
pub struct Line {
    /// Its name.
    pub name: &'static str,
    /// Rounds and microseconds.
    pub points: Vec<(f64, f64)>,
}

/// Draws the time of the loops over their rounds, both logarithmic (as figure 7-1 of Zondervan
/// 1995).
pub fn write_chart(path: &Path, title: &str, lines: &[Line]) -> Result<(), Box<dyn std::error::Error>> {
    use plotters::prelude::*;
    let points = || lines.iter().flat_map(|l| l.points.iter().copied());
    let x_max = points().map(|p| p.0).fold(2.0, f64::max);
    let y_min = points().map(|p| p.1).fold(f64::MAX, f64::min).max(0.01);
    let y_max = points().map(|p| p.1).fold(1.0, f64::max);
    let root = SVGBackend::new(path, (900, 560)).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption(title, ("sans-serif", 22))
        .margin(16)
        .x_label_area_size(44)
        .y_label_area_size(72)
        .build_cartesian_2d((1.0..x_max).log_scale(), (y_min / 1.5..y_max * 1.5).log_scale())?;
    chart.configure_mesh().x_desc("rounds").y_desc("microseconds").draw()?;
    for (i, line) in lines.iter().enumerate() {
        let colour = Palette99::pick(i).to_rgba();
        let style = ShapeStyle::from(&colour).stroke_width(2);
        chart
            .draw_series(LineSeries::new(line.points.iter().copied(), style))?
            .label(line.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
        chart.draw_series(line.points.iter().map(|p| Circle::new(*p, 3, colour.filled())))?;
    }
    chart.configure_series_labels().position(SeriesLabelPosition::UpperLeft).border_style(BLACK).draw()?;
    root.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_that_came_out_negative_is_not_measured() {
        let verdict = |value| Target::new("t_c", value, 60.0, "ns").verdict;
        assert_eq!([verdict(60.0), verdict(0.0)], [Verdict::Reached; 2]);
        assert_eq!(verdict(60.1), Verdict::Missed);
        for value in [-0.1, -1e9, f64::NAN, f64::NEG_INFINITY, f64::INFINITY] {
            assert_eq!(verdict(value), Verdict::NotMeasured, "{value}");
            for target in [Target::new("t_c", value, 60.0, "ns"), Target::at_least("B", value, -5.0, "")] {
                assert!(!target.reached, "{value}");
                let json = serde_json::to_value(&target).unwrap();
                assert_eq!((&json["verdict"], json["value"].is_null()), (&"not measured".into(), true));
            }
        }
        // Two slopes that came out negative have a ratio like any other.
        assert_eq!(ratio(3.0, 2.0), 1.5);
        for (cost, base) in [(-3.0, -3.0), (-1.0, 3.0), (1.0, -3.0), (1.0, 0.0)] {
            let target = Target::new("round", ratio(cost, base), 1.1, "x");
            assert_eq!(target.verdict, Verdict::NotMeasured, "{cost} / {base}");
        }
    }

    #[test]
    fn a_fitted_case_has_its_error_or_is_not_measured() {
        let case = |value| Case::fitted("t_d fitted", "ns", Estimate { value, error: 2.0 });
        assert_eq!((case(7.0).value, case(7.0).error), (7.0, Some(2.0)));
        let json = serde_json::to_value(case(-7.0)).unwrap();
        assert!(json["value"].is_null() && json["min"].is_null() && json.get("error").is_none(), "{json}");
    }
}
