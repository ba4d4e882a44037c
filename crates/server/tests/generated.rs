//! Programs at random ([`generate`]): the checker accepts them, and they print the same in the interpreter and as machine
//! code, also with a collection at every few allocations.
//!
//! A failure leaves the program in the temporary folder ([`repeat`] says how to run one seed, or many).

#[path = "support/generate/mod.rs"]
mod generate;
#[allow(dead_code, reason = "it is for all random tests")]
#[path = "../../session/tests/support/random.rs"]
mod random;
#[path = "support/stored.rs"]
mod stored;

use bifrost_engine::{Mode, Run};
use bifrost_runtime::Collect;
use bifrost_server::program;
use bifrost_theta::{Options, Sources};
use random::repeat;
use stored::orders::output::output;
use stored::stored_output;

/// What a program prints and how it ends, for each way of collecting.
fn run(text: &str, run: Run, ways: &[Collect]) -> Result<Vec<String>, String> {
    let mut sources = Sources::new();
    sources.add("generated.theta", text);
    let engine = program::load_sources(sources, &Options::default(), run).map_err(|e| e.to_string())?;
    let output = if engine.program().has_transactions() { stored_output } else { output };
    Ok(ways.iter().map(|collect| output(&engine, *collect)).collect())
}

/// Where two outputs differ.
fn difference(a: &str, b: &str) -> Option<String> {
    let at = a.lines().zip(b.lines()).position(|(a, b)| a != b);
    (a != b).then(|| {
        let at = at.unwrap_or(a.lines().count().min(b.lines().count()));
        format!("line {}: {:?} and {:?}", at + 1, a.lines().nth(at), b.lines().nth(at))
    })
}

fn check(seed: u64) {
    let text = generate::program(seed);
    // Collections take most of the time, so not each program has them.
    let all = [Collect::Ordinary, Collect::Zeal(1 + (seed / 4 % 7) as u32)];
    let ways = if seed.is_multiple_of(4) { &all[..] } else { &all[..1] };
    // Every second program as one whose objects may be kept in a repository, and those that keep some.
    let kept = seed / 2 % 2 == 1 || text.contains("  transaction\n");
    let said =
        [Mode::Compiled, Mode::Interpreted].map(|mode| run(&text, Run { kept, ..Run::from(mode) }, ways));
    let wrong = match &said {
        [Ok(compiled), Ok(interpreted)] => {
            let mut all =
                ["compiled", "interpreted"].iter().zip([compiled, interpreted]).flat_map(|(mode, said)| {
                    said.iter().zip(ways).map(move |(said, collect)| (format!("{mode} {collect:?}"), said))
                });
            all.find_map(|(way, said)| Some(format!("{way}, {}", difference(&compiled[0], said)?)))
        }
        [Err(e), _] | [_, Err(e)] => Some(e.clone()),
    };
    if let Some(wrong) = wrong {
        let path = std::env::temp_dir().join(format!("generated-{seed}.theta"));
        std::fs::write(&path, &text).expect("the temporary folder takes files");
        panic!("seed {seed}, {}: {wrong}", path.display());
    }
}

#[test]
fn random_programs_print_the_same_in_both_ways() {
    repeat("random_programs_print_the_same_in_both_ways", check);
}
