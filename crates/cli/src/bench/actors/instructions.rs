//! The instructions of an operation: two runs under callgrind, of which one has so many operations
//! more.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use super::super::common::Failed;
use super::super::process::{succeed, version};
use super::super::report::{self, JsonLines};
use super::cases::{Case, Quantity, Threads};
use super::peers::our_command;

/// Parts of less are not shown.
const PART_MIN: f64 = 0.1;

/// The name of code that was made while the program ran.
const MACHINE_CODE: &str = "(machine code of the program)";

/// Instructions in all, and by function.
#[derive(Debug, Default, PartialEq)]
struct Counted {
    total: u64,
    by_function: BTreeMap<String, u64>,
}

/// Counts and prints the instructions of an operation of each case.
///
/// # Errors
/// `valgrind` is not there, or its message.
pub fn count(cases: &[&Case], quick: bool, json: &mut JsonLines) -> Result<(), Failed> {
    let version = version("valgrind", "--version").ok_or(
        "`valgrind` counts instructions, and is not on the PATH; on Debian: apt-get install valgrind",
    )?;
    anstream::println!("{version}");
    let folder = tempfile::tempdir()?;
    for case in cases {
        if case.quantity != Quantity::Time || case.capsules {
            anstream::println!(
                "\n{}: instructions are counted in one process, of messages and actors",
                case.name
            );
            continue;
        }
        // Starting does not take the same number of instructions each time; beside so many
        // operations that is nothing.
        let more = if quick { 4_400_000 } else { case.slow.n };
        let less = more / 11_000 * 1000;
        let counted = [run(case, less, folder.path())?, run(case, more, folder.path())?];
        let [few, many] = &counted;
        let each = |few: u64, many: u64| (many as f64 - few as f64) / (more - less) as f64;
        let total = each(few.total, many.total);
        let bold = anstyle::Style::new().bold();
        let title = format!("{}: {total:.1} instructions for each {}", case.name, case.operation);
        anstream::println!("\n{bold}{title}{bold:#}");
        let of_few = |function: &String| few.by_function.get(function).copied().unwrap_or(0);
        let mut parts: Vec<(&String, f64)> = many
            .by_function
            .iter()
            .map(|(function, count)| (function, each(of_few(function), *count)))
            .collect();
        parts.retain(|(_, part)| *part >= PART_MIN);
        parts.sort_by(|one, other| other.1.total_cmp(&one.1));
        for (function, part) in &parts {
            anstream::println!("  {part:>9.1}  {function}");
        }
        let name = |part: &str| format!("{}, instructions{part}", case.name);
        let figure = |name: String, value: f64| {
            let case = report::Case::new(name, more as u64, "instructions", &mut [value]);
            case.part_of("actors").by("callgrind")
        };
        let mut figures = vec![figure(name(""), total)];
        figures.extend(parts.iter().map(|(function, part)| figure(name(&format!(": {function}")), *part)));
        json.write(&figures)?;
    }
    Ok(())
}

/// Runs a case once under callgrind.
fn run(case: &Case, n: i64, folder: &Path) -> Result<Counted, Failed> {
    let out = folder.join(format!("{}.{n}", case.name));
    let ours = our_command(case.name, if case.threads == Threads::Two { 2 } else { 1 })?;
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--quiet"]).arg(format!("--callgrind-out-file={}", out.display()));
    valgrind.arg(ours.get_program()).args(ours.get_args()).arg("--untimed");
    let mut child = valgrind.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
    let mut input = child.stdin.take().ok_or("no input to write to")?;
    writeln!(input, "{n}")?;
    drop(input);
    let output = child.wait_with_output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("valgrind does not run `{}`:\n{}", case.name, said.trim_end()).into());
    }
    let mut annotate = Command::new("callgrind_annotate");
    annotate.args(["--threshold=100", "--auto=no"]).arg(&out).stdin(Stdio::null());
    let annotated = annotate.output()?;
    if !annotated.status.success() {
        succeed(&mut annotate, case.name)?;
    }
    parse(&String::from_utf8_lossy(&annotated.stdout))
        .ok_or_else(|| "`callgrind_annotate` prints no totals".into())
}

/// Reads the output of `callgrind_annotate`: a line of the total, and one for each function, as
/// `1,234 (5.67%)  file:function [object]`.
fn parse(annotated: &str) -> Option<Counted> {
    let mut counted = Counted::default();
    for line in annotated.lines() {
        let Some((count, rest)) = line.trim_start().split_once(" (") else { continue };
        let Ok(count) = count.replace(',', "").parse::<u64>() else { continue };
        let Some((_, place)) = rest.split_once("%)") else { continue };
        let place = place.trim();
        if place == "PROGRAM TOTALS" {
            counted.total = count;
            continue;
        }
        let function = place.split_once(':').map_or(place, |(_, function)| function);
        let function = function.rsplit_once(" [").map_or(function, |(function, _)| function);
        let function = if function.starts_with("0x") { MACHINE_CODE } else { function };
        *counted.by_function.entry(function.to_owned()).or_default() += count;
    }
    (counted.total > 0).then_some(counted)
}

#[cfg(test)]
mod tests {
    use super::{MACHINE_CODE, parse};

    #[test]
    fn functions_and_machine_code_are_told_apart() {
        let text = "\
--------------------------------------------------------------------------------
Profile data file 'send.1000' (creator: callgrind-3.19.0)
--------------------------------------------------------------------------------
Ir
--------------------------------------------------------------------------------
1,234,567 (100.0%)  PROGRAM TOTALS

--------------------------------------------------------------------------------
Ir                  file:function
--------------------------------------------------------------------------------
  800,000 (64.80%)  ???:0x0000000004a3b2c0 [???]
  300,000 (24.30%)  actor/mod.rs:bifrost_actors::send'2 [/bin/bifrost]
  100,000 ( 8.10%)  ???:0x0000000004a3b300 [???]
";
        let counted = parse(text).unwrap();
        assert_eq!(counted.total, 1_234_567);
        let functions: Vec<(&str, u64)> =
            counted.by_function.iter().map(|(function, count)| (&**function, *count)).collect();
        assert_eq!(functions, [(MACHINE_CODE, 900_000), ("bifrost_actors::send'2", 300_000)]);
        assert_eq!(parse("nothing"), None);
    }
}
