//! Sources that nobody wrote on purpose: each command says what is wrong with them, and ends.

mod support;

use std::fmt::Write;
use std::path::Path;

use support::{bifrost, stderr, stdout};

/// The commands that read sources.
const COMMANDS: &[(&str, &[&str])] = &[
    ("check", &["check"]),
    ("run", &["run"]),
    ("fmt", &["fmt", "--check"]),
    ("doc", &["doc", "--out", "pages"]),
];

/// What each command says about a source, in the folder where it is: the exit status, and the first line that it prints.
fn said(folder: &Path, name: &str) -> String {
    let mut all = String::new();
    for (command, arguments) in COMMANDS {
        let mut program = bifrost();
        let output = program.args(*arguments).arg(name).current_dir(folder).output().unwrap();
        let status = output.status.code().unwrap_or_else(|| panic!("{command} {name}: {}", stderr(&output)));
        let line = stderr(&output).lines().next().or(stdout(&output).lines().next()).unwrap_or("nothing");
        let line: String = line.chars().take(160).collect();
        writeln!(all, "  {command}: {status}, {line}").unwrap();
    }
    all
}

#[test]
fn odd_sources_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let (open, close) = ("(".repeat(20_000), ")".repeat(20_000));
    let hello = "main ()\n  print(\"hi\")\nend main\n";
    let utf16: Vec<u8> = hello.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let sources: &[(&str, Vec<u8>)] = &[
        ("empty", vec![]),
        ("comment", b"% nothing but this".to_vec()),
        ("latin-1", b"main ()\n  print(\"caf\xe9\")\nend main\n".to_vec()),
        ("UTF-16 with a mark", [&b"\xff\xfe"[..], &utf16].concat()),
        ("UTF-16", utf16),
        ("a mark before UTF-8", [&b"\xef\xbb\xbf"[..], hello.as_bytes()].concat()),
        ("ends of lines of another system", hello.replace('\n', "\r\n").into_bytes()),
        ("NULs", b"main ()\n\0\0\nend main\n".to_vec()),
        ("a program of the machine", b"\x7fELF\x02\x01\x01\0\n\xff\xfe".to_vec()),
        ("longer than a source may be", vec![b'('; (16 << 20) + 1]),
        ("deep parentheses", format!("main ()\n  x: int := {open}1{close}\nend main\n").into_bytes()),
        ("deep blocks", format!("main ()\n{}", "begin\n".repeat(20_000)).into_bytes()),
        ("deep modules", "module m\n".repeat(20_000).into_bytes()),
        ("deep types", format!("t = {}int", "array[".repeat(20_000)).into_bytes()),
        ("a long sum", format!("main ()\n  x: int := 1{}\nend main\n", " + 1".repeat(20_000)).into_bytes()),
        ("a long number", format!("n = {}\n", "9".repeat(100_000)).into_bytes()),
        ("a long string", format!("s = \"{}\"\n", "9".repeat(100_000)).into_bytes()),
        ("only quotes", vec![b'"'; 20_001]),
    ];
    let mut all = String::new();
    for (name, bytes) in sources {
        std::fs::write(folder.path().join("odd.theta"), bytes).unwrap();
        writeln!(all, "{name}\n{}", said(folder.path(), "odd.theta")).unwrap();
    }
    std::fs::create_dir(folder.path().join("folder.theta")).unwrap();
    std::os::unix::fs::symlink("loop.theta", folder.path().join("loop.theta")).unwrap();
    let kinds = [
        ("a folder", "folder.theta"),
        ("a link to itself", "loop.theta"),
        ("no file", "missing.theta"),
        ("a file without end", "/dev/zero"),
    ];
    for (name, file) in kinds {
        writeln!(all, "{name}\n{}", said(folder.path(), file)).unwrap();
    }
    insta::assert_snapshot!(all);
}

#[test]
fn odd_imports_are_named() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("main.theta"), "import other\nmain () end main\n").unwrap();
    let mut all = said(folder.path(), "main.theta");
    std::fs::write(folder.path().join("other.theta"), b"\xff").unwrap();
    all += &said(folder.path(), "main.theta");
    std::fs::remove_file(folder.path().join("other.theta")).unwrap();
    std::fs::create_dir(folder.path().join("other.theta")).unwrap();
    all += &said(folder.path(), "main.theta");
    insta::assert_snapshot!(all);
}

#[test]
fn a_byte_order_mark_goes_when_a_source_is_formatted() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("marked.theta");
    std::fs::write(&file, "\u{feff}% first\r\nmain ()\r\n  print( \"hi\" ) % here\r\nend main\r\n").unwrap();
    for said in [format!("formatted {}\n", file.display()), String::new()] {
        let output = bifrost().arg("fmt").arg(&file).output().unwrap();
        assert_eq!((output.status.code(), stderr(&output)), (Some(0), said.as_str()));
        let text = std::fs::read_to_string(&file).unwrap();
        assert_eq!(text, "% first\nmain ()\n  print(\"hi\")  % here\nend main\n");
    }
}

#[test]
fn the_standard_input_is_held_to_the_same() {
    let output = |bytes: Vec<u8>| {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("input");
        std::fs::write(&file, bytes).unwrap();
        let mut command = bifrost();
        command.args(["fmt", "--stdin"]).stdin(std::fs::File::open(&file).unwrap());
        command.output().unwrap()
    };
    let long = output(vec![b' '; (16 << 20) + 1]);
    assert_eq!(stderr(&long), "error: cannot read the standard input: it is longer than 16 MiB\n");
    let latin = output(b"% caf\xe9".to_vec());
    assert_eq!(stderr(&latin), "error: cannot read the standard input: it is not UTF-8 text, see line 1\n");
    assert_eq!(latin.status.code(), Some(1));
}

#[test]
fn odd_settings_are_named() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("main.theta"), "main () end main\n").unwrap();
    std::fs::write(folder.path().join("latin.toml"), b"token = \"\xe9\"\n").unwrap();
    let failed = |arguments: &[&str]| {
        let output = bifrost().args(arguments).arg("main.theta").current_dir(folder.path()).output().unwrap();
        let line = stderr(&output).lines().next().unwrap_or_default();
        assert_ne!(output.status.code(), Some(0), "{arguments:?}");
        line.strip_prefix("error: ").unwrap_or(line).to_owned()
    };
    let here = failed(&["serve", "--config", "."]);
    assert!(here.starts_with("cannot read the settings in `.`: "), "{here}");
    let zeros = failed(&["serve", "--config", "/dev/zero"]);
    assert_eq!(zeros, "cannot read the settings in `/dev/zero`: it is longer than 16 MiB");
    let latin = failed(&["serve", "--config", "latin.toml"]);
    assert!(latin.starts_with("the settings cannot be used: in `") && latin.contains("UTF-8"), "{latin}");
    let huge = failed(&["run", "--stack-bytes", "99999999999999"]);
    assert!(huge.starts_with("a thread with a stack of 1000000"), "{huge}");
    let empty = failed(&["run", "--allow-files", "nowhere"]);
    assert!(empty.starts_with("cannot allow the files in `nowhere`: "), "{empty}");
}
