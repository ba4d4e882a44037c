//! The comparison for people: a table and a chart.

use std::path::Path;

use super::super::report::Target;
use super::cases::Case;

/// The peers in the table: their names in files, and in the table.
const PEERS: [(&str, &str); 6] = [
    ("bifrost", "Theta"),
    (CHECKED_C, CHECKED_C),
    ("C", "C plain"),
    ("Lua", "Lua 5.4"),
    ("LuaJIT", "LuaJIT"),
    ("Go", "Go"),
];

/// C that checks as Theta does: the targets are ratios to it.
pub const CHECKED_C: &str = "C checked";

/// A case with the medians of all peers that took part, in milliseconds.
pub struct Row {
    case: &'static str,
    most: f64,
    medians: [Option<f64>; PEERS.len()],
}

impl Row {
    /// Makes a row without figures.
    pub fn new(case: &Case) -> Row {
        Row { case: case.name, most: case.most, medians: [None; PEERS.len()] }
    }

    /// Adds a figure.
    pub fn set(&mut self, peer: &str, median: f64) {
        if let Some(at) = PEERS.iter().position(|(name, _)| *name == peer) {
            self.medians[at] = Some(median);
        }
    }

    /// Returns the medians as multiples of that of checked C.
    fn ratios(&self) -> Option<[Option<f64>; PEERS.len()]> {
        let checked = self.medians[1]?;
        Some(self.medians.map(|median| Some(median? / checked)))
    }

    /// Returns the target of Theta, and the measured value.
    pub fn target(&self) -> Option<Target> {
        let ratio = self.ratios()?[0]?;
        Some(Target::new(format!("{}, against checked C", self.case), ratio, self.most, "x"))
    }
}

/// Prints the rows.
pub fn print(rows: &[Row]) {
    let bold = anstyle::Style::new().bold();
    let title = "Milliseconds of processor time, medians; ratio: Theta to checked C";
    anstream::println!("\n{bold}{title}{bold:#}");
    let names: String = PEERS.iter().map(|(_, name)| format!("{name:>11}")).collect();
    anstream::println!("  {:<11}{names}{:>8}{:>8}", "", "ratio", "target");
    for row in rows {
        let median = |m: &Option<f64>| m.map_or(format!("{:>11}", "-"), |m| format!("{m:>11.1}"));
        let medians: String = row.medians.iter().map(median).collect();
        let target = row.target().map_or(String::new(), |t| {
            format!("{:>8.2}{:>8.1}  {}", t.value, t.most.unwrap_or_default(), t.verdict.name())
        });
        anstream::println!("  {:<11}{medians}{target}", row.case);
    }
}

/// Draws each case as a group of bars, on a logarithmic scale.
pub fn write_chart(path: &Path, rows: &[Row]) -> Result<(), Box<dyn std::error::Error>> {
    use plotters::prelude::*;
    let root = SVGBackend::new(path, (1000, 560)).into_drawing_area();
    root.fill(&WHITE)?;
    let ratios: Vec<_> = rows.iter().filter_map(Row::ratios).collect();
    let all = || ratios.iter().flatten().flatten().copied();
    let (least, most) = (all().fold(0.5, f64::min), all().fold(2.0, f64::max));
    // A group is as wide as 1, of which each bar takes its share.
    let width = 1.0 / (PEERS.len() + 1) as f64;
    let mut chart = ChartBuilder::on(&root)
        .caption("Time as a multiple of that of checked C", ("sans-serif", 22))
        .margin(16)
        .x_label_area_size(44)
        .y_label_area_size(60)
        .build_cartesian_2d(0.0..rows.len().max(1) as f64, (least / 1.2..most * 1.5).log_scale())?;
    let label = |x: &f64| match rows.get(*x as usize) {
        Some(row) if x.fract() == 0.5 => row.case.to_owned(),
        _ => String::new(),
    };
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(2 * rows.len() + 1)
        .x_label_formatter(&label)
        .y_desc("times checked C")
        .draw()?;
    for (at, (_, name)) in PEERS.iter().enumerate() {
        let colour = Palette99::pick(at).to_rgba();
        let bars = ratios.iter().enumerate().filter_map(|(group, ratios)| {
            let left = group as f64 + width * (at as f64 + 0.5);
            Some(Rectangle::new([(left, least / 1.2), (left + width, ratios[at]?)], colour.filled()))
        });
        chart
            .draw_series(bars)?
            .label(*name)
            .legend(move |(x, y)| Rectangle::new([(x, y - 4), (x + 18, y + 4)], colour.filled()));
    }
    chart.configure_series_labels().position(SeriesLabelPosition::UpperLeft).border_style(BLACK).draw()?;
    root.present()?;
    Ok(())
}
