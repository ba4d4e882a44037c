//! Prints the measures of the repository, each with its goal and its worst places.

use std::process::ExitCode;

use bifrost_checks::measures::{largest_circle, measure};

const HELP: &str = "Measures of the repository's text and code, each with its worst places

Usage: cargo run -p bifrost-checks [-- [--worst N] [--json] | --circle CRATE]

Options:
  --worst N  The number of places that are named for each measure [default: 5]
  --json     One JSON object a line
  --circle CRATE  Prints only the largest circle of files of a crate, with the files that each names

Environment:
  BIFROST_CHECKS_ROOT  Another checkout to measure, to compare before and after
";

fn main() -> ExitCode {
    let (mut worst, mut is_json) = (5, false);
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--json" => is_json = true,
            "--circle" => match args.next() {
                Some(name) => return print_circle(&name),
                None => return usage("`--circle` needs the name of a crate, as `runtime`"),
            },
            "--worst" => match args.next().and_then(|number| number.parse().ok()) {
                Some(number) => worst = number,
                None => return usage("`--worst` needs a number"),
            },
            "--help" | "-h" => {
                print!("{HELP}");
                return ExitCode::SUCCESS;
            }
            other => return usage(&format!("`{other}` is no option")),
        }
    }
    let measures = match measure(worst) {
        Ok(measures) => measures,
        Err(why) => {
            eprintln!("error: {why}");
            return ExitCode::FAILURE;
        }
    };
    for measure in measures {
        if is_json {
            println!("{}", serde_json::to_string(&measure).expect("names and numbers"));
            continue;
        }
        let goal = match measure.goal {
            Some(goal) if measure.is_reached() => format!("(goal {goal}, reached)"),
            Some(goal) => format!("(goal {goal})"),
            None => String::new(),
        };
        println!("{:<70} {:>8.1}  {goal}", measure.name, measure.value);
        measure.worst.iter().for_each(|place| println!("    {place}"));
    }
    ExitCode::SUCCESS
}

fn print_circle(name: &str) -> ExitCode {
    match largest_circle(name) {
        Ok(lines) => {
            lines.iter().for_each(|line| println!("{line}"));
            ExitCode::SUCCESS
        }
        Err(why) => usage(&why),
    }
}

fn usage(why: &str) -> ExitCode {
    eprint!("error: {why}\n\n{HELP}");
    ExitCode::from(2)
}
