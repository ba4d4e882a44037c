//! `bifrost-cases [--update] [NAME...]`: runs cases against servers of the program at
//! `$BIFROST_BIN`, and compares, or writes, `cases/generated/`.
//!
//! `bifrost-cases --evaluated`: runs them with a flush after each call, and compares values.

use std::path::Path;
use std::process::ExitCode;

use bifrost_cases as cases;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (options, names): (Vec<&String>, Vec<&String>) =
        arguments.iter().partition(|argument| argument.starts_with("--"));
    let evaluated = options.iter().any(|option| *option == "--evaluated");
    let update = options.iter().any(|option| *option == "--update");
    let Some(bifrost) = std::env::var_os("BIFROST_BIN") else {
        eprintln!("BIFROST_BIN is the path of the program `bifrost`");
        return ExitCode::FAILURE;
    };
    if evaluated {
        let (others, count) = cases::check_evaluated(Path::new(&bifrost));
        println!("{count} cases call by call, {} with other results: {}", others.len(), others.join(", "));
        return if others.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let stale = cases::check_live(Path::new(&bifrost), update, |case| {
        names.is_empty() || names.iter().any(|name| **name == case.name)
    });
    match stale.as_slice() {
        [] => ExitCode::SUCCESS,
        stale => {
            eprintln!("other outputs: {}", stale.join(", "));
            ExitCode::FAILURE
        }
    }
}
