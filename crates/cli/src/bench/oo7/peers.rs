//! OO7 by others: programs under `bench/oo7/peers`, each with a database of the same objects from
//! the same seed. They print the result of each operation, which must be that of ours, and its
//! time.

use std::path::Path;
use std::process::{Command, Stdio};

use clap::ValueEnum;

use super::super::common::Failed;
use super::super::report::Case;
use super::ops::{Op, Way};
use super::{Args, find};

/// Another object or data base.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Peer {
    /// SQLite in a process, with prepared statements (`bench/oo7/peers/sqlite`)
    Sqlite,
    /// ZODB over ZEO, in Python (`bench/oo7/peers/zeo`)
    Zeo,
}

impl Peer {
    fn name(self) -> &'static str {
        match self {
            Peer::Sqlite => "sqlite",
            Peer::Zeo => "zeo",
        }
    }

    /// Returns the command that starts it, and the way to make it.
    fn command(self, folder: &Path) -> (Command, String) {
        let at = folder.display();
        match self {
            Peer::Sqlite => (
                Command::new(folder.join("sqlite/target/release/oo7-sqlite")),
                format!("cargo build --release --manifest-path {at}/sqlite/Cargo.toml"),
            ),
            Peer::Zeo => {
                let mut python = Command::new(folder.join("zeo/venv/bin/python"));
                python.arg(folder.join("zeo/oo7.py"));
                let make = format!(
                    "python3 -m venv {at}/zeo/venv && {at}/zeo/venv/bin/pip install -r {at}/zeo/requirements.txt"
                );
                (python, make)
            }
        }
    }

    /// Runs the operations that it has; `folder` is empty.
    pub fn measure(self, args: &Args, ops: &[&Op], folder: &Path) -> Result<Vec<Case>, Failed> {
        let (mut command, make) = self.command(&args.peers_folder);
        command.args([&args.size, &args.seed.to_string()]).arg(folder).arg(args.samples.to_string());
        let output = command.args(ops.iter().map(|op| op.name)).stderr(Stdio::inherit()).output();
        let output = output
            .map_err(|e| format!("{} cannot be measured ({e}); make it with\n  {make}", self.name()))?;
        if !output.status.success() {
            return Err(format!("{} failed: {}", self.name(), output.status).into());
        }
        let text = String::from_utf8(output.stdout)?;
        text.lines().map(|line| self.case(line, ops)).collect()
    }

    /// Reads a line: operation, temperature, result, milliseconds.
    fn case(self, line: &str, ops: &[&Op]) -> Result<Case, Failed> {
        let unknown = || format!("{} says `{line}`", self.name());
        let words: Vec<&str> = line.split_whitespace().collect();
        let [op, temperature, result, times @ ..] = &words[..] else { return Err(unknown().into()) };
        let op = ops.iter().find(|o| o.name == *op).ok_or_else(unknown)?;
        let temperature = ["cold", "hot"].into_iter().find(|t| t == temperature).ok_or_else(unknown)?;
        let mut times = times.iter().map(|ms| ms.parse()).collect::<Result<Vec<f64>, _>>()?;
        let case = Case::new(op.name, times.len() as u64, "ms", &mut times).part_of("oo7").of(self.name());
        Ok(case.gives(result.parse()?).at(temperature))
    }
}

/// Prints the times of peers, against our method.
pub fn print(cases: &[Case]) {
    let bold = anstyle::Style::new().bold();
    anstream::println!("\n{bold}Others, against one call of the method{bold:#}");
    anstream::println!(
        "  {:<7} {:>9}  {:<6} {:>5} {:>12} {:>12} {:>9}",
        "",
        "result",
        "",
        "",
        "ms",
        "ours",
        "ratio"
    );
    for c in cases.iter().filter(|c| c.peer != "bifrost") {
        let temperature = c.temperature.unwrap_or_default();
        let ours = find(cases, &c.case, Way::Theta, c.temperature).map_or(f64::NAN, |ours| ours.value);
        anstream::println!(
            "  {:<7} {:>9}  {:<6} {temperature:>5} {:>12.3} {ours:>12.3} {:>8.2}x",
            c.case,
            c.result.unwrap_or_default(),
            c.peer,
            c.value,
            c.value / ours
        );
    }
}
