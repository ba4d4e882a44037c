//! `check`, `run` and `veneer`: what works without a server.

mod support;

use std::path::Path;

use support::{EXAMPLES, bifrost, example, example_root, examples, feed, stderr, stdout};

fn write(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

/// The ways to run a program: arguments, and how to collect.
const WAYS: &[(&[&str], &str)] =
    &[(&["--interpret"], "check"), (&["--interpret"], "zeal"), (&[], "check"), (&[], "zeal")];

#[test]
fn examples_print_what_they_should() {
    for name in EXAMPLES {
        let file = examples().join(name).join("expected.txt");
        for (mode, collect) in WAYS {
            let mut command = bifrost();
            command
                .arg("run")
                .args(*mode)
                .args(example_root(name))
                .arg(example(name))
                .env("BIFROST_GC", collect);
            let output = command.output().unwrap();
            assert!(output.status.success(), "{name} {mode:?} {collect}: {}", stderr(&output));
            if std::env::var_os("UPDATE_EXPECT").is_some() {
                std::fs::write(&file, stdout(&output)).unwrap();
            }
            let expected = std::fs::read_to_string(&file).unwrap();
            assert_eq!(stdout(&output), expected, "{name} {mode:?} {collect}");
        }
    }
}

#[test]
fn every_example_is_complete() {
    for entry in std::fs::read_dir(examples()).unwrap() {
        let folder = entry.unwrap().path();
        if !folder.is_dir() {
            continue;
        }
        let name = folder.file_name().unwrap().to_str().unwrap();
        if name == "actors" {
            // Clients do not reach them; `actors.rs` runs them.
            continue;
        }
        if name == "templates" {
            // They are for `bifrost veneer --template`; `veneergen/tests/custom.rs` runs them.
            continue;
        }
        // Its own tests run it, with the program that has its natives.
        let own = ["natives", "thumbnails"].contains(&name);
        assert!(EXAMPLES.contains(&name) || own, "the example `{name}` is not tested");
        for file in ["README.md", "expected.txt", "client.bifrost", "transcript.txt"] {
            assert!(folder.join(file).exists(), "the example `{name}` has no {file}");
        }
    }
}

#[test]
fn natives_of_another_program_are_named() {
    let folder = examples().join("natives");
    let output = bifrost().args(["check", "natives.theta"]).current_dir(folder).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(said.contains("error[E0213]: no native `index::new_index` is registered"), "{said}");
    assert!(said.contains("help: register the native in the Rust program that runs this program"), "{said}");
}

#[test]
fn mistakes_are_shown_where_they_are() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "sums.theta", "total () returns (int)\n  int sum = 0\n  return (sum)\nend total\n");
    let output = bifrost().args(["check", "sums.theta"]).current_dir(dir.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(said.contains("error[E0105]: a declaration is written `name: type := value`"), "{said}");
    assert!(said.contains("--> sums.theta:2:3"), "{said}");
    assert!(said.contains("help: write `sum: int := 0`"), "{said}");
    assert!(!said.contains('\x1b'), "no colours without a terminal: {said}");

    let output = bifrost().args(["check", "--json", "sums.theta"]).current_dir(dir.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let line: serde_json::Value = serde_json::from_str(stdout(&output).lines().next().unwrap()).unwrap();
    assert_eq!((line["code"].as_str(), line["line"].as_u64()), (Some("E0105"), Some(2)));
}

#[test]
fn sources_without_mistakes_say_nothing() {
    let output = bifrost().arg("check").arg(example("routes")).output().unwrap();
    assert_eq!((output.status.code(), stdout(&output), stderr(&output)), (Some(0), "", ""));
}

#[test]
fn unknown_modules_are_compared_with_those_that_there_are() {
    let dir = tempfile::tempdir().unwrap();
    let help = |import: &str| {
        write(dir.path(), "a.theta", &format!("import {import}\nmain () end main\n"));
        let output = bifrost().args(["check", "a.theta"]).current_dir(dir.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        stderr(&output).lines().find_map(|l| l.trim().strip_prefix("= help: ")).unwrap().to_owned()
    };
    assert_eq!(help("std.fils"), "a similar name exists: `std.files`");
    assert_eq!(
        help("std.collections"),
        "existing files: `std.file_server`, `std.files`, `std.http`, `std.persistent`, `std.random`, \
         `std.supervisor`, `std.system`, `std.trees`"
    );
    assert_eq!(help("shapes"), "the expected file is `shapes.theta`");
}

#[test]
fn warnings_fail_where_they_are_denied() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "sums.theta", "main ()\n  sum: int := 3\nend main\n");
    let check = |arguments: &[&str]| {
        let mut command = bifrost();
        command.arg("check").args(arguments).arg("sums.theta").current_dir(dir.path()).output().unwrap()
    };
    let output = check(&[]);
    assert_eq!(output.status.code(), Some(0));
    assert!(stderr(&output).starts_with("warning[W0001]: the variable `sum` is never read\n"));
    assert!(stderr(&output).ends_with("\n1 warning\n"), "{}", stderr(&output));
    let output = check(&["--deny", "warnings"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).ends_with("\n1 warning (`--deny warnings`)\n"), "{}", stderr(&output));
    let output = check(&["--json"]);
    assert!(stdout(&output).contains(r#""severity":"warning""#), "{}", stdout(&output));
    let ran = bifrost().arg("run").arg("sums.theta").current_dir(dir.path()).output().unwrap();
    assert_eq!((ran.status.code(), stderr(&ran)), (Some(0), ""), "a run warns of nothing");
}

/// The programs that people read first.
#[test]
fn examples_and_benchmarks_give_no_warnings() {
    let bench = examples().join("../bench");
    let folders = [examples(), bench, Path::new(env!("CARGO_MANIFEST_DIR")).join("src/bench")];
    let mut pending: Vec<_> = folders.to_vec();
    let mut files = 0;
    while let Some(folder) = pending.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                pending.push(path);
            } else if path.extension().is_some_and(|it| it == "theta") {
                let output = bifrost().args(["check", "--deny", "warnings"]).arg(&path).output().unwrap();
                // Some are parts of programs, or have natives of their own.
                assert!(!stderr(&output).contains("warning["), "{}: {}", path.display(), stderr(&output));
                files += 1;
            }
        }
    }
    assert!(files > 40, "{files}");
}

#[test]
fn what_sources_compile_to() {
    let interface = bifrost().args(["check", "--emit", "interface"]).arg(example("points")).output().unwrap();
    let interface: serde_json::Value = serde_json::from_str(stdout(&interface)).unwrap();
    let types = interface["types"].as_array().unwrap();
    assert!(types.iter().any(|t| t["name"] == "point"));
    let ir = bifrost().args(["check", "--emit", "ir"]).arg(example("points")).output().unwrap();
    assert!(stdout(&ir).contains("routine swap"), "{}", stdout(&ir));
}

/// The source of 002 figure 1: its requests run at once, and one join continuation adds up their replies.
#[test]
fn which_requests_run_at_once() {
    let queens = concat!(env!("CARGO_MANIFEST_DIR"), "/../theta/tests/programs/fib_queens.theta");
    let output = bifrost().args(["check", "--emit", "regions", queens]).output().unwrap();
    let expected = "\
Fib.comp
  region 1: requests in line 4, 4, 2 replies
    join in line 4: %4, %7; keeps nothing
NQueen.comp
  region 1: requests in line 18, 20, one reply for each request
    join in line 24: replies; keeps sols
main
  region 1: requests in line 34, 35, 2 replies
    join in line 36: f; keeps q
    join in line 36: q; keeps %14
";
    assert_eq!((stdout(&output), stderr(&output), output.status.code()), (expected, "", Some(0)));
    let run = bifrost().args(["run", queens, "8"]).output().unwrap();
    assert_eq!((stdout(&run), stderr(&run), run.status.code()), ("fib 34, queens 92\n", "", Some(0)));
}

#[test]
fn what_one_routine_compiles_to() {
    let emit = |what: &str, only: &str| {
        bifrost().args(["check", "--emit", what, "--only", only]).arg(example("points")).output().unwrap()
    };
    let (ir, clif, asm) = (emit("ir", "swap"), emit("clif", "swap"), emit("asm", "PointRep.x"));
    assert!(
        stdout(&ir).contains("routine swap") && !stdout(&ir).contains("routine new_point"),
        "{}",
        stdout(&ir)
    );
    assert!(stdout(&clif).starts_with("; swap\nfunction "), "{}", stdout(&clif));
    assert!(
        stdout(&asm).starts_with("; PointRep.x\n") && stdout(&asm).contains("block0:"),
        "{}",
        stdout(&asm)
    );
    let nothing = emit("asm", "nothing");
    assert_eq!(nothing.status.code(), Some(1));
    assert!(stderr(&nothing).contains("there is no routine or method `nothing`"), "{}", stderr(&nothing));
}

#[test]
fn exceptions_of_main_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let text = "main (args: sequence[string]) signals (bad (string, int))\n  signal bad(args[2], args.length())\nend main\n";
    let file = write(dir.path(), "bad.theta", text);
    for mode in [&["--interpret"][..], &[]] {
        let output = bifrost().arg("run").args(mode).args([&file, "--x", "y"]).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert_eq!(stderr(&output), "error: `main` ended with the exception bad(\"y\", 2)\n");
    }
}

#[test]
fn a_small_routine_calls_itself_100_000_deep() {
    let dir = tempfile::tempdir().unwrap();
    let text = "sum (n: int) returns (int)
  if n = 0 then return (0) end
  return (n + sum(n - 1))
end sum
main () print(sum(100_000).unparse()) end main
";
    let output = bifrost().args(["run", &write(dir.path(), "deep.theta", text)]).output().unwrap();
    assert_eq!(stdout(&output), "5000050000\n", "{}", stderr(&output));
}

#[test]
fn programs_without_main_cannot_be_run() {
    let dir = tempfile::tempdir().unwrap();
    let file = write(dir.path(), "none.theta", "setup () end setup\n");
    let output = bifrost().args(["run", &file]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("help: add `main"), "{}", stderr(&output));
}

#[test]
fn missing_files_are_named() {
    for command in ["check", "run", "serve"] {
        let output = bifrost().args([command, "nowhere.theta"]).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{command}");
        assert!(stderr(&output).starts_with("error: cannot read `nowhere.theta`"), "{}", stderr(&output));
    }
}

#[test]
fn stale_stubs_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let veneer = |name: &str, check: bool| {
        let mut command = bifrost();
        command
            .arg("veneer")
            .arg(example(name))
            .args(["--lang", "rust", "-o", "stubs"])
            .current_dir(dir.path());
        if check {
            command.arg("--check");
        }
        command.output().unwrap()
    };
    let missing = veneer("points", true);
    assert_eq!(missing.status.code(), Some(1), "{}", stderr(&missing));
    assert_eq!(veneer("points", false).status.code(), Some(0));
    assert_eq!(veneer("points", true).status.code(), Some(0));
    let stale = veneer("lists", true);
    assert_eq!(stale.status.code(), Some(1));
    assert!(stderr(&stale).contains("are stale\nhelp: "), "{}", stderr(&stale));
}

#[test]
fn a_reader_that_has_enough_is_no_mistake() {
    let mut command = std::process::Command::new("sh");
    command.arg("-c").arg(format!("'{}' --help | head -1", env!("CARGO_BIN_EXE_bifrost")));
    let output = feed(command, "");
    assert_eq!(stderr(&output), "");
}

#[test]
fn help_says_what_there_is() {
    for command in ["serve", "shell", "check", "run", "veneer", "demo"] {
        let output = bifrost().args([command, "--help"]).output().unwrap();
        assert!(output.status.success());
        assert!(stdout(&output).contains("Usage: bifrost"), "{command}");
        if command != "demo" {
            assert!(stdout(&output).contains("Examples:\n"), "{command}");
        }
    }
    let output = bifrost().arg("--help").output().unwrap();
    insta::assert_snapshot!(stdout(&output));
}
