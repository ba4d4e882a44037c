//! The comparison for people.

use super::super::report::{Target, Verdict};
use super::peers::{C, OURS, RAYON};

/// The systems that can be in the table: their names in files, and in the table.
const PEERS: [(&str, &str); 7] = [
    (OURS, "Theta"),
    (C, C),
    (RAYON, RAYON),
    ("Go", "Go"),
    ("Erlang", "Erlang"),
    ("CAF", "CAF"),
    ("kameo", "kameo"),
];

/// A case on a number of threads, with the medians of all systems that took part.
pub struct Row {
    /// The subject of the row.
    pub title: String,
    /// Of all figures.
    pub unit: &'static str,
    figures: [Option<f64>; PEERS.len()],
    /// The target in the same unit, and its verdict.
    pub target: Option<(f64, Verdict)>,
}

impl Row {
    /// Makes a row without figures.
    pub fn new(title: impl Into<String>, unit: &'static str) -> Row {
        Row { title: title.into(), unit, figures: [None; PEERS.len()], target: None }
    }

    /// Adds a figure.
    pub fn set(&mut self, peer: &str, figure: f64) {
        if let Some(at) = PEERS.iter().position(|(name, _)| *name == peer) {
            self.figures[at] = Some(figure);
        }
    }

    /// Returns the figure of a peer that took part.
    pub fn get(&self, peer: &str) -> Option<f64> {
        self.figures[PEERS.iter().position(|(name, _)| *name == peer)?]
    }

    /// Puts the bound on Theta's figure in the same unit, and returns the target.
    pub fn expect(&mut self, target: String, most: f64) -> Option<Target> {
        let ours = self.get(OURS)?;
        let target = Target::new(target, ours, most, self.unit);
        self.target = Some((most, target.verdict));
        Some(target)
    }
}

/// Prints the rows.
pub fn print(title: &str, rows: &[Row]) {
    if rows.is_empty() {
        return;
    }
    let bold = anstyle::Style::new().bold();
    anstream::println!("\n{bold}{title}{bold:#}");
    let there: Vec<usize> =
        (0..PEERS.len()).filter(|at| rows.iter().any(|row| row.figures[*at].is_some())).collect();
    let names: String = there.iter().map(|at| format!("{:>10}", PEERS[*at].1)).collect();
    anstream::println!("  {:<22}{:<4}{names}{:>10}", "", "", "target");
    for row in rows {
        let figures: String = there.iter().map(|at| cell(row.figures[*at])).collect();
        let target = row
            .target
            .map_or(String::new(), |(most, verdict)| format!("{}  {}", cell(Some(most)), verdict.name()));
        anstream::println!("  {:<22}{:<4}{figures}{target}", row.title, row.unit);
    }
}

fn cell(figure: Option<f64>) -> String {
    figure.map_or(format!("{:>10}", "-"), |figure| {
        format!("{figure:>10.*}", if figure < 1000.0 { 1 } else { 0 })
    })
}
