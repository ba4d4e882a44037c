//! The commands and conversations of documents, run in a folder of their own.
#![allow(dead_code, reason = "each test file uses a part")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A server of a document; it ends with this value.
struct Background(Child);

impl Drop for Background {
    fn drop(&mut self) {
        // A server that has ended already was missed by its client.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A folder with `examples` in it, beside which the checkout is under the name `bifrost`, and the
/// servers that run there.
pub struct Player {
    pub folder: PathBuf,
    _outer: tempfile::TempDir,
    background: Vec<Background>,
}

impl Player {
    pub fn new() -> Player {
        let outer = tempfile::tempdir().unwrap();
        let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let folder = outer.path().join("work");
        std::fs::create_dir(&folder).unwrap();
        std::os::unix::fs::symlink(checkout.join("examples"), folder.join("examples")).unwrap();
        std::os::unix::fs::symlink(checkout, outer.path().join("bifrost")).unwrap();
        Player { folder, _outer: outer, background: Vec::new() }
    }

    /// Writes a file of the document.
    pub fn write(&self, name: &str, text: &str) {
        let path = self.folder.join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).unwrap();
        std::fs::write(&path, text).unwrap();
        if path.ends_with("Cargo.toml") {
            // The versions that are here already.
            let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.lock");
            std::fs::copy(lock, path.with_file_name("Cargo.lock")).unwrap();
        }
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
        bash.args(["-euo", "pipefail", "-c", commands]).current_dir(&self.folder).stdin(Stdio::null());
        // Crates outside the workspace are built where the next run finds them.
        let target = program.parent().unwrap().join("outside");
        bash.env("CARGO_TARGET_DIR", target).env("CARGO_NET_OFFLINE", "true");
        bash.env("PATH", path).env("BIFROST_URL", format!("shm://{}/db", self.folder.display()));
        bash
    }

    /// Starts a server and waits until it is ready; returns the addresses where it listens.
    pub fn start(&mut self, commands: &str) -> Vec<String> {
        let mut bash = self.bash(&format!("exec {commands}"));
        let mut child =
            bash.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().expect("there is a bash");
        let out = child.stdout.take().expect("it is piped");
        self.background.push(Background(child));
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line).unwrap();
        let urls = line.strip_prefix("ready ").unwrap_or_else(|| panic!("`{commands}` says: {line}"));
        urls.split_whitespace().map(str::to_owned).collect()
    }

    /// Runs commands to their end; returns what they print.
    pub fn run(&self, commands: &str) -> String {
        let output = self.bash(commands).output().expect("there is a bash");
        let said = String::from_utf8(output.stdout).unwrap();
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{commands}\nfails: {complaint}\n{said}");
        said
    }
}

/// The lines of `COMMAND <<'EOF'`.
pub fn lines(commands: &str) -> &str {
    let (head, lines) = commands.split_once('\n').expect("a command and lines");
    assert!(head.ends_with(" <<'EOF'"), "{commands}");
    lines.strip_suffix("EOF\n").expect("an end")
}

/// The address of `nc -U PATH <<'EOF'`.
pub fn socket(commands: &str) -> String {
    let path = commands.lines().next().and_then(|head| head.strip_prefix("nc -U ")?.strip_suffix(" <<'EOF'"));
    format!("unix://{}", path.expect("an `nc -U`"))
}

/// The pieces in which a conversation is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cut {
    /// Everything at once.
    Whole,
    /// A line, and the next one when the server has read it.
    Lines,
    /// A byte with each write.
    Bytes,
}

impl Cut {
    pub const ALL: [Cut; 3] = [Cut::Whole, Cut::Lines, Cut::Bytes];
}

trait Socket: Read + Write {}
impl<T: Read + Write> Socket for T {}

/// A line that the server answers at once, in the middle of structures too, and that changes
/// nothing.
const SYNC: &str = "sync";

/// Says lines over a socket without any library, and returns the answers. The last line must end
/// the session.
pub fn converse(url: String, lines: &str, cut: Cut) -> String {
    let patience = Some(Duration::from_secs(60));
    let mut socket: Box<dyn Socket> = if let Some(path) = url.strip_prefix("unix://") {
        let socket = UnixStream::connect(path).unwrap_or_else(|e| panic!("{url}: {e}"));
        socket.set_read_timeout(patience).unwrap();
        Box::new(socket)
    } else {
        let place = url.strip_prefix("tcp://").expect("a socket");
        let socket = TcpStream::connect(place).unwrap_or_else(|e| panic!("{url}: {e}"));
        socket.set_read_timeout(patience).unwrap();
        socket.set_nodelay(true).unwrap();
        Box::new(socket)
    };
    let mut said = String::new();
    match cut {
        Cut::Whole => socket.write_all(lines.as_bytes()).unwrap(),
        Cut::Bytes => lines.as_bytes().chunks(1).for_each(|byte| socket.write_all(byte).unwrap()),
        Cut::Lines => {
            for line in lines.split_inclusive('\n') {
                socket.write_all(line.as_bytes()).unwrap();
                match line.trim() {
                    "bye" => break,
                    // Nothing else is taken before the first line.
                    first if first.starts_with("hello") => said += &line_of(&mut *socket),
                    _ => said += &synchronise(&mut *socket),
                }
            }
        }
    }
    socket.read_to_string(&mut said).unwrap_or_else(|e| panic!("{url}, {cut:?}: {e} after\n{said}"));
    said
}

/// Waits until the server has worked off what was sent; returns what it has answered to that.
fn synchronise(socket: &mut dyn Socket) -> String {
    socket.write_all(format!("{SYNC}\n").as_bytes()).unwrap();
    let mut said = String::new();
    loop {
        let line = line_of(socket);
        if line.starts_with(&format!("error: column 1: `{SYNC}` is not a command or value")) {
            return said;
        }
        said += &line;
    }
}

fn line_of(socket: &mut dyn Socket) -> String {
    let mut line = Vec::new();
    let mut byte = [0];
    while line.last() != Some(&b'\n') {
        let read = socket.read(&mut byte).unwrap();
        assert!(read > 0, "the server has closed after {:?}", String::from_utf8_lossy(&line));
        line.push(byte[0]);
    }
    String::from_utf8(line).unwrap()
}
