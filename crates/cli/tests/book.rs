//! The book compiles: every block of Theta in it is checked, and those that say so are run both ways.
//!
//! The first word after the fence is `theta`; the others say what becomes of the block:
//!
//! - nothing: it is a program, and the compiler has nothing to say about it;
//! - `continued`: it goes on where the last block of the page ended that was no `error` and no `continued run`;
//! - `run`: `main` is run, as machine code and in the interpreter, and both ways with a collection at each allocation; an `output` block behind it is what it prints;
//! - `error=E0201` (or several, with commas): these are its mistakes; a `text` block behind it is what the compiler prints;
//! - `warning=W0001`: the same for warnings, of which other blocks may have any;
//! - `file=a/b.theta`: it has this name, and other blocks of the page can import it.
//!
//! `BIFROST_UPDATE=1 cargo test -p bifrost-cli --test book` writes what is printed.

mod document;
mod support;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use bifrost_ir::builtin::{METHODS, ROUTINES};
use bifrost_native::Registry;
use bifrost_theta::{Code, Colour, Compilation, Options, Sources, compile, render_all};
use document::{Block, Document, blocks};
use support::bifrost;

/// What a block of Theta says about itself.
#[derive(Default)]
struct Info<'a> {
    continued: bool,
    run: bool,
    errors: Vec<&'a str>,
    warned: bool,
    file: Option<&'a str>,
}

/// Reads what follows a fence; `None` if it is no Theta.
fn info<'a>(path: &str, block: &'a Block) -> Option<Info<'a>> {
    let mut words = block.info.split(' ');
    if words.next() != Some("theta") {
        return None;
    }
    let mut info = Info::default();
    for word in words {
        match word.split_once('=') {
            None if word == "continued" => info.continued = true,
            None if word == "run" => info.run = true,
            Some(("error", codes)) => info.errors = codes.split(',').collect(),
            Some(("warning", codes)) => {
                info.errors = codes.split(',').collect();
                info.warned = true;
            }
            Some(("file", name)) => info.file = Some(name),
            _ => panic!("{path}:{}: what is `{word}`?", block.lines.start),
        }
    }
    Some(info)
}

/// The program that a block makes with the files of its page, and the natives that `bifrost` has.
fn compiled(
    name: &str,
    text: &str,
    files: &BTreeMap<String, String>,
    warnings: bool,
) -> (Sources, Compilation) {
    let registry = Registry::standard();
    let read = |wanted: &str| match wanted == name {
        true => Some(text.to_owned()),
        false => files.get(wanted).cloned().or_else(|| registry.text(wanted).map(str::to_owned)),
    };
    let natives = Some(Arc::new(registry.headings()));
    let options = Options { natives, warnings, ..Options::default() };
    let sources = bifrost_theta::load(name, &options, read).expect("the text is there");
    let compilation = compile(&sources, &options);
    (sources, compilation)
}

/// What `bifrost run` prints, the same both ways and with a collection at each allocation.
fn run(name: &str, text: &str, files: &BTreeMap<String, String>) -> String {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).unwrap();
        std::fs::write(path, text).unwrap();
    };
    files.iter().for_each(|(name, text)| write(name, text));
    write(name, text);
    let said = |mode: &[&str], collect: &str| {
        let mut command = bifrost();
        command.arg("run").args(mode).arg(name).current_dir(folder.path()).env("BIFROST_GC", collect);
        let output = command.output().unwrap();
        format!("{}{}", support::stdout(&output), support::stderr(&output))
    };
    let machine = said(&[], "check");
    assert_eq!(machine, said(&["--interpret"], "check"), "{text}\nmachine code and interpreter differ");
    for mode in [&[][..], &["--interpret"]] {
        assert_eq!(machine, said(mode, "zeal"), "{text}\nwith a collection at each allocation, {mode:?}");
    }
    machine
}

/// Checks the blocks of a page; returns what is wrong.
fn check(path: &str) -> Vec<String> {
    let mut document = Document::read(path);
    let blocks = blocks(&document.text);
    let mut so_far = String::new();
    let mut files = BTreeMap::new();
    let mut mistakes = Vec::new();
    for (i, block) in blocks.iter().enumerate() {
        let Some(info) = info(path, block) else { continue };
        let text = if info.continued { format!("{so_far}\n{}", block.text) } else { block.text.clone() };
        let name = info.file.unwrap_or("example.theta");
        let (sources, compilation) = compiled(name, &text, &files, info.warned);
        let said = render_all(&sources, &compilation.diagnostics, Colour::Plain);
        let codes: Vec<&str> = compilation.diagnostics.iter().map(|d| d.code.name()).collect();
        if codes != info.errors {
            mistakes.push(format!("{path}:{}: expected {:?}\n{said}", block.lines.start, info.errors));
            continue;
        }
        let next = blocks.get(i + 1).filter(|next| next.follows(block));
        if info.run {
            let shown = next.filter(|next| next.info == "output");
            let shown = shown.unwrap_or_else(|| panic!("{path}:{}: it prints nothing?", block.lines.start));
            document.compare(shown, &block.text, run(name, &text, &files));
        }
        if !info.errors.is_empty() {
            if let Some(shown) = next.filter(|next| next.info == "text") {
                document.compare(shown, &block.text, said);
            }
            continue;
        }
        if let Some(name) = info.file {
            files.insert(name.to_owned(), text.clone());
        }
        if !(info.continued && info.run) {
            so_far = text;
        }
    }
    mistakes.extend(document.finish());
    mistakes
}

fn check_all(pages: &[String]) {
    let mistakes: Vec<String> = pages.iter().flat_map(|page| check(page)).collect();
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
}

/// The pages of a folder of the book.
fn pages(folder: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/book").join(folder);
    let names =
        std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut pages: Vec<String> =
        names.filter(|n| n.ends_with(".md")).map(|n| format!("docs/book/{folder}/{n}")).collect();
    pages.sort();
    assert!(!pages.is_empty());
    pages
}

#[test]
fn the_reference_compiles() {
    check_all(&pages("language"));
}

#[test]
fn the_programs_of_the_tutorial_compile() {
    check_all(&pages("tutorial"));
}

#[test]
fn the_programs_of_the_readme_compile() {
    check_all(&["README.md".to_owned(), "docs/book/ten-minutes.md".to_owned()]);
}

/// The text under a heading, up to the next heading of the same or a higher level.
fn section<'a>(text: &'a str, heading: &str) -> Option<&'a str> {
    let at = text.find(&format!("\n{heading}\n"))? + 1;
    let body = &text[at + heading.len() + 1..];
    let level = heading.split(' ').next().expect("a heading").len();
    let mut end = body.len();
    for deep in 1..=level {
        end = end.min(body.find(&format!("\n{} ", "#".repeat(deep))).unwrap_or(end));
    }
    Some(&body[..end])
}

#[test]
fn every_diagnostic_has_an_example() {
    let document = Document::read("docs/book/language/diagnostics.md");
    let mut missing = Vec::new();
    for code in Code::ALL {
        let section = section(&document.text, &format!("### {}", code.name()));
        let provoked =
            section.is_some_and(|s| s.contains(&format!("={}\n", code.name())) && s.contains("\n```text\n"));
        if !provoked {
            missing.push(code.name());
        }
    }
    assert!(missing.is_empty(), "docs/book/language/diagnostics.md has no example of {missing:?}");
}

/// The methods that most types have; the page says of each type which, in a line of its own.
const COMMON: &[&str] = &["equal", "similar", "copy", "unparse", "hash"];

#[test]
fn the_library_is_complete() {
    let document = Document::read("docs/book/language/library.md");
    let mut mistakes = Vec::new();
    let mut families: Vec<&str> = METHODS.iter().map(|row| row.family).collect();
    families.dedup();
    for family in families {
        let Some(section) = section(&document.text, &format!("## {family}")) else {
            mistakes.push(format!("there is no section `{family}`"));
            continue;
        };
        let rows = METHODS.iter().filter(|row| row.family == family);
        let (common, own): (Vec<_>, Vec<_>) = rows.partition(|row| COMMON.contains(&row.name()));
        let own: Vec<&str> = own.iter().map(|row| row.heading).collect();
        compare(&mut mistakes, family, &listed(section), &own);
        let also = section.lines().find_map(|line| line.strip_prefix("Also: ")).unwrap_or_default();
        let also: Vec<&str> = also.split('`').skip(1).step_by(2).collect();
        let common: Vec<&str> = common.iter().map(|row| row.name()).collect();
        compare(&mut mistakes, family, &also, &common);
    }
    let routines = section(&document.text, "## Routines").expect("a section of routines");
    let own: Vec<&str> = ROUTINES.iter().map(|row| row.heading).collect();
    compare(&mut mistakes, "Routines", &listed(routines), &own);
    assert!(mistakes.is_empty(), "docs/book/language/library.md:\n{}", mistakes.join("\n"));
}

/// The headings in the first columns of the tables of a section.
fn listed(section: &str) -> Vec<&str> {
    section.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect()
}

fn compare(mistakes: &mut Vec<String>, place: &str, page: &[&str], table: &[&str]) {
    for heading in table.iter().filter(|h| !page.contains(h)) {
        mistakes.push(format!("{place}: `{heading}` is missing"));
    }
    for heading in page.iter().filter(|h| !table.contains(h)) {
        mistakes.push(format!("{place}: there is no `{heading}`"));
    }
}
