//! The cost of compiling: checking many lines, and the first call of a method.

use std::fmt::Write;
use std::time::Instant;

use bifrost_capsule::space::Space;
use bifrost_engine::{Engine, Mode};
use bifrost_runtime::Limits;
use bifrost_theta::{Options, Sources, compile};

use super::super::common::Failed;
use super::super::report::{Case, Target};
use super::ours::Routine;

/// Lines of one block of the generated program.
const BLOCK_LINES: usize = 40;

/// Makes a program of about so many lines: types, classes, routines with loops and handlers.
fn generate(lines: usize) -> String {
    let mut text = String::new();
    for i in 0..lines / BLOCK_LINES {
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "\
Account{i} = type
  balance () returns (int)
  % What is there.
  deposit (amount: int) signals (bad_amount)
  % Adds amount; bad_amount if it is not above {i}.
  moves () yields (int)
end Account{i}

module accounts{i} exports new_account{i}
  Rep{i} = class implements Account{i}
    balance: int   past: array[int]
    deposit (amount: int) signals (bad_amount)
      if amount <= {i} then signal bad_amount end
      balance := balance + amount
      past.append(amount)
    end deposit
    moves () yields (int)
      for m: int in past.elements() do yield (m) end
    end moves
  end Rep{i}
  new_account{i} () returns (Account{i})
    return (Rep{i}{{balance := 0, past := array_new[int]()}})
  end new_account{i}
end accounts{i}

mix{i} (a: int, b: int) returns (int)
  sum: int := {i}
  for i: int in a.to(b) do
    if i // 3 = 0 then sum := sum + i * 7 else sum := sum - i / 2 end
  end
  return (sum.max(a))
end mix{i}

work{i} (n: int) returns (int)
  account: Account{i} := new_account{i}()
  for i: int in 1.to(n) do
    account.deposit(mix{i}(i, n)) except when bad_amount: break end
  end
  return (account.balance())
end work{i}
"
        );
    }
    text
}

/// The cases that were measured, and the targets for them.
pub struct Measured {
    /// The cases.
    pub cases: Vec<Case>,
    /// The targets.
    pub targets: Vec<Target>,
}

/// Checks a program of 10,000 lines `samples` times, and calls each of its routines for the first
/// time.
///
/// # Errors
/// When the program that is generated is not one.
pub fn measure(samples: u32, quick: bool) -> Result<Measured, Failed> {
    let text = generate(if quick { 400 } else { 10_000 });
    let lines = text.lines().count() as u64;
    let mut sources = Sources::new();
    sources.add("generated.theta", text);
    let mut checking = Vec::new();
    let mut program = None;
    for _ in 0..samples {
        let start = Instant::now();
        program = compile(&sources, &Options::default()).program;
        checking.push(start.elapsed().as_secs_f64() * 1e3);
    }
    let start = Instant::now();
    let engine = Engine::new(program.ok_or("the generated program has mistakes")?, Mode::Compiled)?;
    let mut linking = [start.elapsed().as_secs_f64() * 1e3];
    let space = Space::new(engine.clone(), Limits::default())?;
    let blocks = lines as usize / BLOCK_LINES;
    // `mix` is compiled alone; `work` is compiled with two routines that it calls.
    let calls = space.on_stack(|| -> Result<Vec<(f64, f64)>, String> {
        let first_call = |name: String, arguments: &[i64]| -> Result<f64, String> {
            let routine = Routine::find(&engine, &name, arguments.len())?;
            let start = Instant::now();
            routine.call(&space, arguments).map_err(|raised| raised.to_string())?;
            Ok(start.elapsed().as_secs_f64() * 1e6)
        };
        let both = |i| Ok((first_call(format!("mix{i}"), &[1, 3])?, first_call(format!("work{i}"), &[0])?));
        (0..blocks).map(both).collect()
    })??;
    let (mut alone, mut together): (Vec<f64>, Vec<f64>) = calls.into_iter().unzip();
    let case = |name: &str, n, unit, samples: &mut [f64]| Case::new(name, n, unit, samples).part_of("theta");
    let checking = case(&format!("checking {lines} lines"), lines, "ms", &mut checking);
    let linking = case("verifying and linking them", lines, "ms", &mut linking);
    let alone = case("first call of a routine", blocks as u64, "us", &mut alone);
    let together = case("first call of a routine that calls two more", blocks as u64, "us", &mut together);
    let targets = vec![
        Target::new(checking.case.clone(), checking.value, 1000.0, "ms"),
        Target::new(alone.case.clone(), alone.value, 1000.0, "us"),
    ];
    Ok(Measured { cases: vec![checking, linking, alone, together], targets })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_have_the_lines_that_they_are_counted_as() {
        assert_eq!(generate(3 * BLOCK_LINES).lines().count(), 3 * BLOCK_LINES);
    }
}
