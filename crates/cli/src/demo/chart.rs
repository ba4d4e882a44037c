//! A chart of letters, for terminals.

use crate::bench::report::Line;

const WIDTH: usize = 64;
const HEIGHT: usize = 18;

/// Draws the times of the loops over their iterations, both logarithmic (as figure 7-2 of Zondervan
/// 1995). Each line has the letter of its name; `*` is more than one.
pub fn draw(lines: &[Line]) -> Vec<String> {
    let points = || lines.iter().flat_map(|line| line.points.iter().copied());
    let usable = |p: &(f64, f64)| p.0 > 0.0 && p.1 > 0.0;
    let range = |values: &mut dyn Iterator<Item = f64>| {
        values.fold((f64::MAX, f64::MIN), |(low, high), v| (low.min(v.ln()), high.max(v.ln())))
    };
    let (left, right) = range(&mut points().filter(usable).map(|p| p.0));
    let (bottom, top) = range(&mut points().filter(usable).map(|p| p.1));
    if left >= right || bottom >= top {
        return Vec::new();
    }
    let place = |value: f64, low: f64, high: f64, cells: usize| {
        ((value.ln() - low) / (high - low) * (cells - 1) as f64).round() as usize
    };
    let mut grid = vec![vec![' '; WIDTH]; HEIGHT];
    for line in lines {
        let letter = letter(line.name);
        for p in line.points.iter().filter(|p| usable(p)) {
            let row = HEIGHT - 1 - place(p.1, bottom, top, HEIGHT);
            let cell = &mut grid[row][place(p.0, left, right, WIDTH)];
            *cell = if *cell == ' ' || *cell == letter { letter } else { '*' };
        }
    }
    let mut out: Vec<String> = grid
        .into_iter()
        .enumerate()
        .map(|(row, cells)| {
            // The axis names every sixth row.
            let share = (HEIGHT - 1 - row) as f64 / (HEIGHT - 1) as f64;
            let micros = (bottom + (top - bottom) * share).exp();
            let label =
                if row % 6 == 0 || row == HEIGHT - 1 { format!("{micros:.1} us") } else { String::new() };
            let cells: String = cells.into_iter().collect();
            format!("{label:>12} |{}", cells.trim_end())
        })
        .collect();
    out.push(format!("{:>12} +{}", "", "-".repeat(WIDTH)));
    let mut axis = vec![' '; WIDTH + 4];
    for p in lines.first().map_or(&[][..], |line| &line.points) {
        let at = place(p.0, left, right, WIDTH);
        for (i, digit) in format!("{}", p.0).chars().enumerate() {
            axis[(at + i).min(WIDTH + 3)] = digit;
        }
    }
    let axis: String = axis.into_iter().collect();
    out.push(format!("{:>12}  {}  iterations", "", axis.trim_end()));
    let names: Vec<String> = lines.iter().map(|l| format!("{} {}", letter(l.name), l.name)).collect();
    out.push(format!("{:>12}  {}   * several", "", names.join("   ")));
    out
}

/// Returns the letter of a line: the first of its name, but for the word that several have.
fn letter(name: &str) -> char {
    let word = name.strip_prefix("batched ").unwrap_or(name);
    word.chars().next().unwrap_or('?').to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_where_their_logarithms_are() {
        let line = |name, from: f64| Line { name, points: [1.0, 2.0, 4.0].map(|n| (n, from * n)).to_vec() };
        let drawn = draw(&[line("client loop", 1.0), line("batched FOREACH", 4.0)]);
        assert_eq!(drawn.len(), HEIGHT + 3);
        let column = |row: usize, letter| drawn[row].find(letter).map(|at| at - 14);
        assert_eq!((column(0, 'f'), column(HEIGHT - 1, 'c')), (Some(WIDTH - 1), Some(0)));
        // Where both lines meet: 4 iterations of one cost as much as one of the other.
        assert!(drawn.iter().any(|row| row.contains('f') && row.contains('c')), "{drawn:#?}");
        assert!(drawn[HEIGHT - 1].contains("1.0 us") && drawn[0].contains("16.0 us"));
        assert_eq!(draw(&[]).len(), 0);
        let flat = Line { name: "flat", points: vec![(1.0, -1.0)] };
        assert_eq!(draw(&[flat]).len(), 0, "nothing to draw");
    }
}
