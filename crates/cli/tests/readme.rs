//! The commands of the documents do what the documents say.
//!
//! A block `sh tested` is run; a `text` block right behind it is what it prints. A block `sh background` is started, and gone on
//! with when it has said `ready`. A block `sh socket` is a conversation over a unix socket, which the test holds itself, for not
//! every machine has an `nc`. Any other `sh` block must be in [`COVERED`]. All run in an empty folder with `examples`
//! in it, and with the blocks whose fence says `file=NAME`. `BIFROST_UPDATE=1 cargo test -p bifrost-cli --test readme` writes what the commands print.

mod document;

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use document::{Document, blocks};

/// Lines that are not run here, and what covers them.
const COVERED: &[(&str, &str)] = &[
    ("cargo run --release -p bifrost-cli -- demo", "the tests of `demo` run the program itself"),
    ("./test.sh", "it runs this test"),
    (
        "BIFROST_STORE=postgres://ann:secret@db.example/bank bifrost serve --listen tcp://0.0.0.0:7447 bank.theta",
        "crates/cli/tests/shared_store.rs",
    ),
    (
        "cargo build --release && export PATH=\"$PWD/target/release:$PATH\"",
        "the tests have built the program",
    ),
    ("cargo install --path crates/cli", "the tests have built the program"),
    ("export BIFROST_URL=shm:///tmp/bifrost-tour/db", "the test has a folder of its own"),
    ("cargo run --release -p database-client", "examples/database/rust/tests/output.rs"),
    (
        "cargo run --release -p index-server -- run examples/natives/natives.theta",
        "examples/natives/rust/tests/output.rs",
    ),
    ("cargo run -p index-server -- run examples/natives/natives.theta", "as above"),
    ("bifrost bench theta", "tests/bench.rs runs it with a small n"),
    ("bifrost bench theta fib shapes --peers c --samples 9", "tests/bench.rs runs it with a small n"),
    ("bifrost bench actors", "tests/bench_actors.rs runs it with a small n"),
    (
        "bifrost bench actors send request --peers go,erlang --samples 9",
        "tests/bench_actors.rs runs it with a small n",
    ),
    ("bifrost bench actors --instructions send", "tests/bench_actors.rs runs it with a small n"),
    ("bifrost bench sizes", "tests/sizes.rs runs it with small sizes"),
    ("bifrost bench savina", "tests/savina.rs runs it with small sizes"),
    ("bifrost bench savina counting big --nodes 2 --samples 9", "tests/savina.rs runs it with small sizes"),
    ("bifrost bench oo7", "tests/oo7.rs runs it with a small database"),
    ("bifrost bench oo7 --store DIR", "tests/oo7_stored.rs runs it with a small database"),
    ("bifrost run bench/theta/fib.theta 35", "tests/bench.rs runs the program with a small n"),
];

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

    /// Writes a file of the document.
    fn write(&self, name: &str, text: &str) {
        let path = self.folder.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).unwrap();
        std::fs::write(path, text).unwrap();
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
    let mut document = Document::read(path);
    let mut player = Player::new();
    let blocks = blocks(&document.text);
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
            info => {
                if let Some(name) = info.split(' ').find_map(|word| word.strip_prefix("file=")) {
                    player.write(name, &block.text);
                }
                continue;
            }
        };
        if let Some(shown) = blocks.get(i + 1).filter(|b| b.info == "text" && b.follows(block)) {
            document.compare(shown, &block.text, said);
        }
    }
    if let Some(wrong) = document.finish() {
        panic!("{wrong}");
    }
}

#[test]
fn the_readme_is_true() {
    play("README.md");
}

#[test]
fn the_ten_minutes_are_true() {
    play("docs/book/ten-minutes.md");
}

#[test]
fn the_chapter_on_tools_is_true() {
    play("docs/book/tools.md");
}

#[test]
fn the_chapter_on_keeping_objects_is_true() {
    play("docs/book/persistence.md");
}

#[test]
fn the_tutorial_is_true() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/book/tutorial");
    let mut chapters: Vec<String> =
        std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    chapters.sort();
    for chapter in chapters {
        play(&format!("docs/book/tutorial/{chapter}"));
    }
}

#[test]
fn the_chapter_on_performance_is_true() {
    play("docs/book/performance.md");
}
