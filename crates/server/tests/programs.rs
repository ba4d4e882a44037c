//! Programs, each run as machine code and in the interpreter: what they print is beside them.
//!
//! `tests/programs` has whole programs; `tests/definition` has a `main` for each example of the definition, which are files of
//! `theta`'s tests.

use std::path::Path;

use bifrost_engine::Mode;
use bifrost_runtime::{Collect, Limits};
use bifrost_server::{Space, program, space};

#[test]
fn programs_print_what_they_should() {
    run_all("tests/programs", None);
}

#[test]
fn examples_of_the_definition_print_what_they_should() {
    run_all("tests/definition", Some("../theta/tests/programs"));
}

/// Runs the programs of a folder; their imports start at `root`, or in the folder.
fn run_all(folder: &str, root: Option<&str>) {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (folder, root) = (here.join(folder), root.map(|root| here.join(root)));
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "theta") {
            continue;
        }
        count += 1;
        let expected = std::fs::read_to_string(path.with_extension("out")).unwrap();
        for mode in [Mode::Compiled, Mode::Interpreted] {
            for collect in [Collect::Ordinary, zeal(&path)] {
                assert_eq!(
                    run(&path, root.as_deref(), mode, collect),
                    expected,
                    "{} {mode:?} {collect:?}",
                    path.display()
                );
            }
        }
    }
    assert!(count > 0);
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

fn run(path: &Path, root: Option<&Path>, mode: Mode, collect: Collect) -> String {
    let engine = program::load(&[path.to_path_buf()], root, mode).unwrap_or_else(|e| panic!("{e}"));
    let main = engine.find_entry("main", 1).expect("a program has `main`");
    let limits = Limits { collect, ..Limits::default() };
    let space = Space::new(engine.clone(), limits).unwrap();
    space.capture_output();
    space::on_stack(limits.stack_bytes, || {
        let mut cx = space.lock();
        let arguments = engine.arguments(&mut cx, &[]).unwrap();
        // SAFETY: the context runs this engine's image, and `main` takes the arguments.
        unsafe { engine.call(&mut cx, main, &[arguments]) }.unwrap();
        cx.take_output()
    })
    .unwrap()
}
