//! Programs, each run as machine code and in the interpreter: what they print is beside them.
//!
//! `tests/programs` has whole programs; `tests/definition` has a `main` for each example of the definition, which are files of
//! `theta`'s tests.

#[path = "../../capsule/tests/support/output.rs"]
mod output;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bifrost_engine::{Engine, Mode, Run};
use bifrost_ir::text::{parse, parse_func, print_func, print_program};
use bifrost_native::Registry;
use bifrost_runtime::Collect;
use bifrost_server::program;
use output::output;

#[test]
fn programs_print_what_they_should() {
    run_all("tests/programs", None);
}

#[test]
fn examples_of_the_definition_print_what_they_should() {
    run_all("tests/definition", Some("../theta/tests/programs"));
}

/// What is compiled can be printed, reads back to the same, and does the same when it is run.
#[test]
fn programs_read_back_from_the_text_form() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let definition = here.join("../theta/tests/programs");
    let beside = programs("tests/programs").into_iter().map(|path| (path, None));
    let programs =
        beside.chain(programs("tests/definition").into_iter().map(|path| (path, Some(&definition))));
    for (path, root) in programs {
        let engine = load(&path, root.map(PathBuf::as_path), Mode::Interpreted);
        let text = print_program(engine.program());
        let name = path.display();
        let again = parse(&text).unwrap_or_else(|e| {
            let line = text.lines().nth(e.line as usize - 1).unwrap_or_default();
            panic!("{name}: {e}: {line}")
        });
        let again = again.program;
        let printed = print_program(&again);
        let lines = printed.lines().zip(text.lines()).enumerate();
        if let Some((number, (found, expected))) =
            lines.into_iter().find(|(_, (found, expected))| found != expected)
        {
            panic!("{name}: line {number} was `{expected}`, and is `{found}`");
        }
        assert_eq!(printed.len(), text.len(), "{name}");
        let mut program = engine.program().clone();
        for func in engine.program().funcs.values() {
            let text = print_func(engine.program(), func);
            let mut back = parse_func(&mut program, &text).unwrap_or_else(|e| panic!("{name}: {e}\n{text}"));
            // The form has no names of files.
            back.written = func.written;
            assert_eq!(back, *func, "{name}: {text}");
        }
        let natives = Registry::standard().natives().clone();
        let engine = Engine::with_natives(again, Mode::Interpreted, natives);
        let engine = engine.unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(output(&engine, Collect::Ordinary), expected(&path), "{name}");
    }
}

/// The programs of a folder.
fn programs(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|e| e == "theta")).collect();
    paths.sort();
    assert!(!paths.is_empty());
    paths
}

fn expected(path: &Path) -> String {
    std::fs::read_to_string(path.with_extension("out")).unwrap()
}

/// Runs the programs of a folder; their imports start at `root`, or in the folder.
fn run_all(folder: &str, root: Option<&str>) {
    let root = root.map(|root| Path::new(env!("CARGO_MANIFEST_DIR")).join(root));
    for path in programs(folder) {
        for mode in [Mode::Compiled, Mode::Interpreted] {
            // Objects that may be kept in a repository, and are in none, are like others.
            for (run, collect) in [(Run::from(mode), Collect::Ordinary), (Run::kept(mode), zeal(&path))] {
                let engine = load(&path, root.as_deref(), run);
                let found = output(&engine, collect);
                assert_eq!(found, expected(&path), "{} {mode:?} {collect:?}", path.display());
            }
        }
    }
}

/// A collection at each allocation, or at every so many if the first line says so: `% zeal=1000`.
fn zeal(path: &Path) -> Collect {
    let text = std::fs::read_to_string(path).unwrap();
    let first = text.lines().next().unwrap_or_default();
    first
        .strip_prefix("% ")
        .filter(|word| word.starts_with("zeal="))
        .map_or(Collect::Zeal(1), |word| word.parse().unwrap())
}

fn load(path: &Path, root: Option<&Path>, run: impl Into<Run>) -> Arc<Engine> {
    program::load(&[path.to_path_buf()], root, run).unwrap_or_else(|e| panic!("{e}"))
}
