//! The commands of the documents do what the documents say.
//!
//! A block `sh tested` is run; a `text` block right behind it is what it prints. A block `sh background` is started, and gone on
//! with when it has said `ready`. A block `sh socket` is a conversation over a unix socket, which the test holds itself, for not
//! every machine has an `nc`. Any other `sh` block must be in [`COVERED`]. All run in an empty folder with `examples`
//! in it. `BIFROST_UPDATE=1 cargo test -p bifrost-cli --test readme` writes what the commands print.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Lines that are not run here, and what covers them.
const COVERED: &[(&str, &str)] = &[
    ("cargo run --release -p bifrost-cli -- demo", "the tests of `demo` run the program itself"),
    ("./test.sh", "it runs this test"),
    (
        "cargo build --release && export PATH=\"$PWD/target/release:$PATH\"",
        "the tests have built the program",
    ),
    ("export BIFROST_URL=shm:///tmp/bifrost-tour/db", "the test has a folder of its own"),
    ("cargo run --release -p database-client", "examples/database/rust/tests/output.rs"),
    ("bifrost bench theta", "tests/bench.rs runs it with a small n"),
    ("bifrost bench theta fib shapes --peers c --samples 9", "tests/bench.rs runs it with a small n"),
    ("bifrost run bench/theta/fib.theta 35", "tests/bench.rs runs the program with a small n"),
];

/// A fenced block: what follows the fence, and its lines.
struct Block {
    info: String,
    text: String,
    /// The lines of the document, fences excluded.
    lines: std::ops::Range<usize>,
}

fn blocks(document: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for (number, line) in document.lines().enumerate() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(info)) => {
                open = Some(Block { info: info.to_owned(), text: String::new(), lines: number + 1..0 });
            }
            (Some(_), Some(_)) => {
                let mut block = open.take().expect("a block is open");
                block.lines.end = number;
                blocks.push(block);
            }
            (Some(block), None) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
            (None, None) => {}
        }
    }
    blocks
}

/// A server of a document; it ends with this value.
struct Background(Child);

impl Drop for Background {
    fn drop(&mut self) {
        // If it has ended already, its client has said so.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Player {
    folder: tempfile::TempDir,
    background: Vec<Background>,
}

impl Player {
    fn new() -> Player {
        let folder = tempfile::tempdir().unwrap();
        let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
        std::os::unix::fs::symlink(examples, folder.path().join("examples")).unwrap();
        Player { folder, background: Vec::new() }
    }

    fn bash(&self, commands: &str) -> Command {
        let program = PathBuf::from(env!("CARGO_BIN_EXE_bifrost"));
        let mut path = program.parent().unwrap().as_os_str().to_owned();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        let mut bash = Command::new("bash");
        for (name, _) in
            std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("BIFROST_"))
        {
            bash.env_remove(name);
        }
        bash.args(["-euo", "pipefail", "-c", commands]).current_dir(self.folder.path()).stdin(Stdio::null());
        bash.env("PATH", path).env("BIFROST_URL", format!("shm://{}/db", self.folder.path().display()));
        bash
    }

    fn start(&mut self, commands: &str) {
        let mut bash = self.bash(&format!("exec {commands}"));
        let mut child =
            bash.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().expect("there is a bash");
        let out = child.stdout.take().expect("it is piped");
        self.background.push(Background(child));
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line).unwrap();
        assert!(line.starts_with("ready "), "`{}` says: {line}", commands.trim());
    }

    /// Says the lines of `nc -U PATH <<'EOF'`.
    fn converse(&self, commands: &str) -> String {
        let (head, lines) = commands.split_once('\n').expect("a command and lines");
        let path =
            head.strip_prefix("nc -U ").and_then(|rest| rest.strip_suffix(" <<'EOF'")).expect("an `nc -U`");
        let mut socket = UnixStream::connect(path).unwrap_or_else(|e| panic!("{path}: {e}"));
        socket.write_all(lines.strip_suffix("EOF\n").expect("an end").as_bytes()).unwrap();
        let mut said = String::new();
        socket.read_to_string(&mut said).unwrap();
        said
    }

    fn run(&self, commands: &str) -> String {
        let output = self.bash(commands).output().expect("there is a bash");
        let said = String::from_utf8(output.stdout).unwrap();
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{commands}\nfails: {complaint}\n{said}");
        said
    }
}

fn play(path: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    let document = std::fs::read_to_string(&file).unwrap();
    let mut lines: Vec<String> = document.lines().map(str::to_owned).collect();
    let mut player = Player::new();
    let mut wrong = Vec::new();
    let blocks = blocks(&document);
    for (i, block) in blocks.iter().enumerate() {
        // Several tests at a time must not meet.
        let commands = block.text.replace("/tmp/bifrost-tour", &player.folder.path().display().to_string());
        let said = match block.info.as_str() {
            "sh background" => {
                player.start(&commands);
                continue;
            }
            "sh tested" => player.run(&commands),
            "sh socket" => player.converse(&commands),
            "sh" => {
                for line in block.text.lines() {
                    let covered = COVERED.iter().any(|(covered, _)| *covered == line);
                    assert!(covered, "{path}: `{line}` is neither tested nor covered");
                }
                continue;
            }
            _ => continue,
        };
        let shown = blocks.get(i + 1).filter(|b| b.info == "text" && b.lines.start <= block.lines.end + 3);
        if let Some(shown) = shown.filter(|b| b.text != said) {
            wrong.push((shown.lines.clone(), &block.text, said));
        }
    }
    if wrong.is_empty() {
        return;
    }
    if std::env::var_os("BIFROST_UPDATE").is_some() {
        for (range, _, said) in wrong.into_iter().rev() {
            lines.splice(range, said.lines().map(str::to_owned));
        }
        std::fs::write(&file, lines.join("\n") + "\n").unwrap();
    } else {
        let texts = wrong.into_iter().map(|(_, commands, said)| format!("{commands}prints\n{said}"));
        panic!("{path} shows something else:\n{}", texts.collect::<Vec<_>>().join("\n"));
    }
}

#[test]
fn the_readme_is_true() {
    play("README.md");
}

#[test]
fn the_tutorial_is_true() {
    play("docs/book/ten-minutes.md");
}

#[test]
fn the_chapter_on_tools_is_true() {
    play("docs/book/tools.md");
}

#[test]
fn the_chapter_on_performance_is_true() {
    play("docs/book/performance.md");
}
