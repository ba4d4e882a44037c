//! The tables: one of each group of systems in the form of 004 section 6.1, with the paper's
//! figures; and one of the details of a shape.

use super::contest::{Measured, Row, Shape};
use super::peers::Group;

/// The bytes sent and received, and the seconds of 100 exchanges with the vanilla version, version
/// 1 and version 2 of the paper.
const PAPER: [(u32, u32, [f64; 3]); 21] = [
    (16, 0, [2.75, 2.75, 1.35]),
    (512, 0, [3.10, 2.85, 1.35]),
    (1024, 0, [3.50, 2.90, 1.45]),
    (2048, 0, [5.15, 4.55, 2.1]),
    (4096, 0, [14.70, 10.00, 3.2]),
    (8192, 0, [29.70, 15.70, 10.0]),
    (16384, 0, [52.20, 30.95, 15.0]),
    (0, 16, [2.65, 2.70, 1.3]),
    (0, 512, [3.05, 2.85, 1.35]),
    (0, 1024, [3.45, 3.00, 1.4]),
    (0, 2048, [5.30, 4.55, 2.15]),
    (0, 4096, [15.00, 10.00, 3.3]),
    (0, 8192, [28.10, 15.35, 5.75]),
    (0, 16384, [51.15, 30.75, 11.65]),
    (16, 16, [3.15, 2.65, 1.35]),
    (512, 512, [3.45, 2.95, 1.45]),
    (1024, 1024, [4.45, 3.25, 1.55]),
    (2048, 2048, [6.60, 6.35, 2.95]),
    (4096, 4096, [20.50, 19.60, 5.25]),
    (8192, 8192, [49.55, 30.65, 13.2]),
    (16384, 16384, [106.70, 58.90, 30.1]),
];

/// Returns the paper's seconds for a shape.
fn paper(shape: Shape) -> Option<&'static [f64; 3]> {
    let found = PAPER.iter().find(|(sent, received, _)| (*sent, *received) == (shape.sent, shape.received));
    found.map(|(_, _, seconds)| seconds)
}

/// Returns the text of a figure that may be absent.
fn figure(value: f64, digits: usize) -> String {
    if value.is_nan() { "-".to_owned() } else { format!("{value:.digits$}") }
}

/// Returns the lines of a group's table: medians in microseconds, behind each the ratio to the
/// base. The table of datagrams has the paper's figures, because its protocol sent those.
pub fn lines(group: Group, measured: &[Measured]) -> Vec<String> {
    // Calls are compared with a stream, which is shown before them.
    let is_shown = |row: &&Row| row.group == group || row.system == group.base();
    let Some(first) = measured.first() else { return Vec::new() };
    let mut head = format!("  {:>6} {:>8}", "sent", "received");
    for row in first.rows.iter().filter(is_shown) {
        head.push_str(&format!(" {:>15}", row.system));
    }
    let has_paper = group == Group::Datagrams;
    if has_paper {
        head.push_str(&format!("  |{:>9} {:>7} {:>7}", "vanilla", "ver 1", "ver 2"));
    }
    let mut lines = vec![head];
    for one in measured {
        let mut line = format!("  {:>6} {:>8}", one.shape.sent, one.shape.received);
        for row in one.rows.iter().filter(is_shown) {
            line.push_str(&format!(" {:>9} {:>5}", figure(row.median(), 2), figure(one.ratio(row), 2)));
        }
        if let Some([vanilla, first, second]) = paper(one.shape).filter(|_| has_paper) {
            line.push_str(&format!("  |{vanilla:>9.2} {first:>7.2} {second:>7.2}"));
        }
        lines.push(line);
    }
    lines
}

/// Returns the head of the table of details.
pub fn detail_head() -> String {
    format!(
        "  {:<15} {:>6} {:>8} {:>9} {:>9} {:>9} {:>6} {:>9} {:>8}",
        "system", "sent", "received", "median", "least", "p99", "ratio", "datagrams", "CPU us"
    )
}

/// Returns the lines of the details of a shape.
pub fn details(measured: &Measured) -> Vec<String> {
    let Shape { sent, received } = measured.shape;
    let line = |row: &Row| {
        format!(
            "  {:<15} {sent:>6} {received:>8} {:>9} {:>9} {:>9} {:>6} {:>9} {:>8}",
            row.system,
            figure(row.median(), 2),
            figure(row.least(), 2),
            figure(row.p99(), 2),
            figure(measured.ratio(row), 2),
            figure(row.datagrams().unwrap_or(f64::NAN), 2),
            figure(row.cpu_us(), 2),
        )
    };
    measured.rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::super::contest::Cores;
    use super::super::contest::tests::row;
    use super::*;

    fn measured(sent: u32, received: u32) -> Measured {
        let rows = vec![
            row("raw udp", Group::Datagrams, 10),
            row("quinn-proto", Group::Datagrams, 14),
            row("raw tcp", Group::Streams, 20),
            row("shm", Group::Streams, 5),
            row("call over tcp", Group::Calls, 30),
        ];
        Measured { cores: Cores { client: 0, server: 0 }, shape: Shape { sent, received }, rows }
    }

    #[test]
    fn tables_have_the_form_of_the_paper() {
        let all = [measured(16, 0), measured(0, 100), measured(16384, 16384)];
        let mut text = Vec::new();
        for group in Group::ALL {
            text.extend(lines(group, &all));
        }
        text.push(detail_head());
        text.extend(details(&all[2]));
        insta::assert_snapshot!(text.join("\n"));
        assert!(lines(Group::Calls, &[]).is_empty());
    }

    #[test]
    fn the_paper_has_all_shapes() {
        let shapes = Shape::all(&super::super::SIZES);
        assert_eq!(shapes.len(), PAPER.len());
        assert!(shapes.iter().all(|shape| paper(*shape).is_some()));
        assert_eq!(paper(Shape { sent: 1, received: 0 }), None);
    }
}
