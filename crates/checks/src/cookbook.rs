//! The cookbook: cases as chapters, in the text form and in each client language.
//!
//! [`page`] makes `docs/book/cookbook.md` of the cases in `cases/*.yaml`, which are run by every
//! client language, and of the tests that have their names: the page shows only code that runs. A
//! language that has no test with the name of a case is not shown for it.

use std::fmt::Write as _;

use crate::matrix::{Language, languages, plain};
use crate::repository::{files, read};

/// The chapters: a heading, and the case.
const RECIPES: &[(&str, &str)] = &[
    ("Results", "results_of_all_shapes"),
    ("Cells", "cells_of_everything"),
    ("Loops and choices", "structures_nest"),
    ("Iterators", "iterators_of_methods_routines_and_values"),
    ("Exceptions", "signals_carry_their_values"),
    ("Handlers in a batch", "handlers_get_names_and_values"),
    ("Failures and what follows from them", "what_depends_on_a_failure_says_why"),
    ("Procedures", "procedures_are_kept_by_the_session"),
    ("Tables", "a_table_of_rows"),
    ("Values with items", "compounds_cross_by_value"),
    ("Types at run time", "types_at_run_time"),
    ("Commits and aborts", "transactions_commit_and_abort"),
    ("A batch that is a transaction", "a_batch_is_a_transaction"),
    ("Failures that nobody has seen", "a_commit_names_unseen_failures"),
    ("Conflicts", "p4_lost_update"),
    ("Transactions that are run again", "conflicts_are_run_again_by_the_server"),
    ("Waits for changes", "a_wait_is_ended_by_a_change"),
    ("Live batches", "a_live_batch_is_run_again"),
    ("Batches that overlap", "batches_overlap"),
    ("Actors", "actors_answer_and_are_sent_to"),
    ("A server with another interface", "another_interface_at_the_server"),
];

const HEAD: &str = "\
<!-- Made by `crates/checks/src/cookbook.rs` from cases and tests; do not edit. -->
# Cookbook

Each chapter is a case that runs: in the text form by the recorder of each client language, and in the words of
a language by its tests. `s` is a session, `p` the object with the name `probe`, and `db` the one with the name
`database`, of the program that is named. [The cases](../../cases/README.md) have all of them.

Where several sessions at one server take turns, they are `a`, `b` and `c`, each with the object `table` and its
rows `one` and `two`. In the text form a comment names the session of the lines behind it.

`bifrost shell` runs the text form, but for lines that begin with `!`, which are of libraries alone. The name of a
language opens its code.
";

/// A case: the sentence, the program, its lines.
struct Recipe {
    why: String,
    program: String,
    lines: Vec<String>,
}

/// Reads a case by its name.
fn recipe(name: &str) -> Recipe {
    for path in files(&[".yaml"]).iter().filter(|path| path.starts_with("cases/")) {
        let text = read(path);
        let Some(at) = text.find(&format!("- case: {name}\n")) else { continue };
        let rest = &text[at + 2..];
        let case = rest.find("\n- case: ").map_or(rest, |end| &rest[..end]);
        let key = |key: &str| {
            let line = case.lines().find_map(|line| line.trim_start().strip_prefix(&format!("{key}: ")));
            line.unwrap_or_else(|| panic!("{name} has no `{key}`")).to_owned()
        };
        return Recipe { why: key("why"), program: key("program"), lines: lines(case) };
    }
    panic!("there is no case {name}")
}

/// The lines of all `run` keys of a case; a comment has the session that takes them.
fn lines(case: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let (mut column, mut session) = (None, String::new());
    for line in case.lines() {
        let depth = line.len() - line.trim_start().len();
        let key = line.trim_start().trim_start_matches("- ");
        if let Some(names) = key.strip_prefix("session: ") {
            session = match names.trim_matches(['[', ']']) {
                several if several.contains(',') => format!("# sessions {several}, each in turn"),
                one => format!("# session {one}"),
            };
        } else if let Some(run) = key.strip_prefix("run: ") {
            if !session.is_empty() {
                lines.push(std::mem::take(&mut session));
            }
            column = None;
            match run {
                "|" => column = Some(line.len() - key.len()),
                run => lines.push(run.trim_matches('"').to_owned()),
            }
        } else if let Some(key) = column {
            // The key's own column is that of the other keys of the step.
            if depth > key && !line.trim().is_empty() {
                lines.push(line[key + 2..].to_owned());
            } else {
                column = None;
            }
        }
    }
    lines
}

/// Returns the test of a case in a language: its body, without what surrounds it.
fn body(language: &Language, paths: &[String], name: &str) -> Option<String> {
    let wanted = plain(name);
    let tests = paths.iter().filter(|path| language.has_test(path));
    for path in tests {
        let text = read(path);
        let all: Vec<&str> = text.lines().collect();
        let is_head = |line: &&str| {
            let begins = [
                "fn ",
                "def ",
                "async def ",
                "static ",
                "void ",
                "function ",
                "async function ",
                "test(",
                "shared(",
                "export ",
                "case ",
                "func ",
                "test ",
                "(ert-deftest ",
            ];
            let line = line.trim_start();
            let key = plain(line.split(['(', '{', ':']).next().unwrap_or_default());
            let named = line.starts_with(['"', '\'']) || begins.iter().any(|begin| line.starts_with(begin));
            // The whole name: `a_case` is not `not_a_case`.
            (named || line.contains(": "))
                && plain(line).contains(&wanted)
                && (key.ends_with(&wanted) || named)
        };
        let Some(at) = all.iter().position(is_head) else { continue };
        let depth = |line: &str| line.len() - line.trim_start().len();
        let least = depth(all[at]);
        let inside = all[at + 1..].iter().take_while(|line| line.trim().is_empty() || depth(line) > least);
        let mut inside: Vec<&str> = inside.copied().collect();
        while inside.last().is_some_and(|line| line.trim().is_empty()) {
            inside.pop();
        }
        let margin = inside.iter().filter(|line| !line.trim().is_empty()).map(|line| depth(line)).min()?;
        let lines: Vec<&str> = inside.iter().map(|line| line.get(margin..).unwrap_or_default()).collect();
        return Some(lines.join("\n"));
    }
    None
}

/// Returns the text of the page.
pub fn page() -> String {
    let paths = files(&[]);
    let mut out = HEAD.to_owned();
    for (heading, name) in RECIPES {
        let recipe = recipe(name);
        let program = format!("[`{0}.theta`](../../cases/programs/{0}.theta)", recipe.program);
        let _ = write!(out, "\n\n## {heading}\n\n{}\n\nThe program is {program}.\n", recipe.why);
        let _ = write!(out, "\n```text\n{}\n```\n", recipe.lines.join("\n"));
        for language in languages(&paths) {
            if let Some(body) = body(language, &paths, name) {
                let block = format!("```{}\n{body}\n```", language.fence());
                let title = language.title;
                let _ = write!(out, "\n<details>\n<summary>{title}</summary>\n\n{block}\n\n</details>\n");
            }
        }
    }
    out
}
