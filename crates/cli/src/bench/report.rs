//! The figures of a benchmark: as a table, as JSON lines, as a chart.
//!
//! Read [`Case`] first: one measured figure with its place. [`Target`] is a figure that the project
//! holds itself to. [`print_cases`] and [`print_targets`] show them, [`JsonLines`] writes them to a
//! file, and [`write_chart`] draws them. A benchmark owns its cases; nothing is kept here.

use std::io::Write;
use std::path::Path;

use serde::Serialize;

/// One measured case. `value` is the median.
#[derive(Clone, Debug, Serialize)]
pub struct Case {
    /// The benchmark: `calls`, `theta`, `actors`, `sizes`, `oo7`.
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
    /// The median of the samples.
    pub value: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
    /// The unit of the three.
    pub unit: &'static str,
    /// The result of the work, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<i64>,
    /// Pairs of crossings in one sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crossings: Option<u64>,
    /// Calls in one sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls: Option<u64>,
    /// Calls for each pair of crossings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batching_factor: Option<f64>,
    /// The value that the model of the benchmark predicts, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predicted: Option<f64>,
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
            unit,
            result: None,
            crossings: None,
            calls: None,
            batching_factor: None,
            predicted: None,
            temperature: None,
            fetches: None,
            fetched: None,
            prefetched: None,
        }
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

    /// Adds the value that a model predicts.
    pub fn predicted(mut self, value: f64) -> Case {
        self.predicted = Some(value);
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

    /// Adds the counts of crossings and calls of one sample.
    pub fn crossed(mut self, crossings: u64, calls: u64) -> Case {
        self.crossings = Some(crossings);
        self.calls = Some(calls);
        self.batching_factor = Some(if crossings == 0 { 0.0 } else { calls as f64 / crossings as f64 });
        self
    }
}

/// A figure that the project holds itself to.
#[derive(Clone, Debug, Serialize)]
pub struct Target {
    /// The subject of the target.
    pub target: String,
    /// The measured value.
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
}

/// Returns the ratio of two measured costs. It says nothing, and no target is reached by it, if
/// either came out negative: then noise was greater than the cost.
pub fn ratio(cost: f64, base: f64) -> f64 {
    if cost > 0.0 && base > 0.0 { cost / base } else { f64::NAN }
}

impl Target {
    /// Makes a target and its measured value. A cost that came out negative, as a fit may in noise,
    /// reaches nothing.
    pub fn new(target: impl Into<String>, value: f64, most: f64, unit: &'static str) -> Target {
        let reached = (0.0..=most).contains(&value);
        Target { target: target.into(), value, most: Some(most), least: None, unit, reached }
    }

    /// Makes a target that is reached from below.
    pub fn at_least(target: impl Into<String>, value: f64, least: f64, unit: &'static str) -> Target {
        Target { target: target.into(), value, most: None, least: Some(least), unit, reached: value >= least }
    }
}

/// Prints cases for people.
pub fn print_cases(title: &str, cases: &[Case]) {
    use anstyle::Style;
    let bold = Style::new().bold();
    anstream::println!("\n{bold}{title}{bold:#}");
    for c in cases {
        let factor = c.batching_factor.map_or(String::new(), |b| format!("  B = {b:.1}"));
        let predicted = c.predicted.map_or(String::new(), |value| format!("  the model says {value:.1}"));
        let peer = if c.peer == "bifrost" { String::new() } else { format!(" ({})", c.peer) };
        anstream::println!(
            "  {:<44} {:>12.1} {:<3} (min {:.1}, max {:.1}){factor}{predicted}",
            format!("{}{peer}", c.case),
            c.value,
            c.unit,
            c.min,
            c.max
        );
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
        let verdict = match t.reached {
            true => "reached",
            // A cost that came out negative in the noise, or a ratio of one.
            false if t.value.is_nan() || t.value < 0.0 => "not measured",
            false => "missed",
        };
        let bound = match (t.most, t.least) {
            (Some(most), _) => format!("at most {most}"),
            (None, least) => format!("at least {}", least.unwrap_or_default()),
        };
        let bound = format!("{bound} {}", t.unit);
        anstream::println!(
            "  {:<60} {:>9.2} {:<3} ({})  {style}{verdict}{style:#}",
            t.target,
            t.value,
            t.unit,
            bound.trim_end()
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
    fn a_fit_that_came_out_negative_reaches_nothing() {
        let reached = |value| Target::new("t_c", value, 60.0, "ns").reached;
        assert!(reached(60.0) && reached(0.0));
        assert!(!reached(60.1) && !reached(-0.1) && !reached(f64::NAN) && !reached(f64::NEG_INFINITY));
        // Two slopes that came out negative have a ratio like any other.
        assert_eq!(ratio(3.0, 2.0), 1.5);
        for (cost, base) in [(-3.0, -3.0), (-1.0, 3.0), (1.0, -3.0), (1.0, 0.0)] {
            assert!(!Target::new("round", ratio(cost, base), 1.1, "x").reached, "{cost} / {base}");
        }
    }
}
