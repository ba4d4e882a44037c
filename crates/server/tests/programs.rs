//! Programs of `tests/programs`, each run as machine code and in the interpreter: what they print is beside them.

use std::path::Path;

use bifrost_engine::Mode;
use bifrost_runtime::{Collect, Limits};
use bifrost_server::{Space, program, space};

#[test]
fn programs_print_what_they_should() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "theta") {
            continue;
        }
        count += 1;
        let expected = std::fs::read_to_string(path.with_extension("out")).unwrap();
        for mode in [Mode::Compiled, Mode::Interpreted] {
            for collect in [Collect::Ordinary, Collect::Zeal(1)] {
                assert_eq!(run(&path, mode, collect), expected, "{} {mode:?} {collect:?}", path.display());
            }
        }
    }
    assert!(count > 0);
}

fn run(path: &Path, mode: Mode, collect: Collect) -> String {
    let engine = program::load(&[path.to_path_buf()], None, mode).unwrap_or_else(|e| panic!("{e}"));
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
