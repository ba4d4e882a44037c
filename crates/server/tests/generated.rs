//! Programs at random ([`generate`]): the checker accepts them, and they print the same in the interpreter and as machine
//! code, also when every allocation collects.
//!
//! A failure leaves the program in the temporary folder ([`repeat`] says how to run one seed, or many).

#[path = "support/generate/mod.rs"]
mod generate;
#[path = "support/output.rs"]
mod output;
#[path = "../../session/tests/support/random.rs"]
mod random;

use bifrost_engine::Mode;
use bifrost_runtime::Collect;
use bifrost_server::program;
use bifrost_theta::{Options, Sources};
use output::output;
use random::repeat;

/// What a program prints and how it ends, without and with a collection at every few allocations.
fn run(text: &str, mode: Mode, every: u32) -> Result<[String; 2], String> {
    let mut sources = Sources::new();
    sources.add("generated.theta", text);
    let engine = program::load_sources(sources, &Options::default(), mode).map_err(|e| e.to_string())?;
    Ok([Collect::Ordinary, Collect::Zeal(every)].map(|collect| output(&engine, collect)))
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
    let every = 1 + (seed % 7) as u32;
    let [compiled, interpreted] = [Mode::Compiled, Mode::Interpreted].map(|mode| run(&text, mode, every));
    let wrong = match (&compiled, &interpreted) {
        (Ok([compiled, compiled_zeal]), Ok([interpreted, interpreted_zeal])) => {
            let others = [
                ("interpreted", interpreted),
                ("with zeal", compiled_zeal),
                ("interpreted with zeal", interpreted_zeal),
            ];
            others.into_iter().find_map(|(way, said)| Some(format!("{way}, {}", difference(compiled, said)?)))
        }
        (Err(e), _) | (_, Err(e)) => Some(e.clone()),
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
