//! Every client language has every part: cases, samples, runtime, generator, package, bench.
//!
//! `veneers/gaps.txt` lists the gaps that are known. `BIFROST_UPDATE=1 cargo test -p bifrost-checks
//! --test matrix` takes those out that are filled, and adds those of a language that is new.

use std::collections::BTreeSet;

use bifrost_checks::matrix::{gaps, strangers};
use bifrost_checks::repository::{none, root};

/// The most gaps. It is lowered when gaps are filled, and raised only with a new language.
const GAPS_MAX: usize = 0;

const HEAD: &str = "# The gaps of the client languages, which `crates/checks/src/matrix.rs` finds. The list only gets shorter.\n";

#[test]
#[allow(clippy::absurd_extreme_comparisons, reason = "there may be gaps again, of a new language")]
fn every_gap_is_listed() {
    let path = root().join("veneers/gaps.txt");
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    let listed: BTreeSet<String> =
        text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).map(str::to_owned).collect();
    let (gaps, count) = gaps();
    println!("{} of {count} cells are there", count - gaps.len());
    let language = |gap: &str| gap.split(':').next().unwrap_or_default().to_owned();
    let known: BTreeSet<String> = listed.iter().map(|gap| language(gap)).collect();
    let is_new = |gap: &&String| !listed.contains(*gap);
    if std::env::var_os("BIFROST_UPDATE").is_some() {
        let kept = gaps.iter().filter(|gap| listed.contains(*gap) || !known.contains(&language(gap)));
        let lines: Vec<&str> = kept.map(String::as_str).collect();
        return std::fs::write(path, format!("{HEAD}{}\n", lines.join("\n"))).expect("a writable file");
    }
    let new = gaps.iter().filter(is_new).map(|gap| format!("{gap} is a gap that is not listed"));
    let filled =
        listed.difference(&gaps).map(|gap| format!("{gap} is no gap any more: take it out of the list"));
    none(&new.chain(filled).collect::<Vec<_>>());
    assert!(listed.len() <= GAPS_MAX, "{} gaps are listed, and at most {GAPS_MAX} may be", listed.len());
}

#[test]
fn every_folder_is_a_language() {
    none(
        &strangers()
            .into_iter()
            .map(|name| format!("veneers/{name} has no place in the matrix"))
            .collect::<Vec<_>>(),
    );
}
