//! A server as a child process, and a stream to it.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bifrost_wire::{DecodedReply, REPLY_BYTES_MAX, decode_reply};

/// The longest time that a server takes to answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// The folder of the programs.
fn programs_folder() -> PathBuf {
    super::folder().join("programs")
}

/// The names of the programs of the cases, in order.
pub(crate) fn programs() -> Vec<String> {
    let entries = std::fs::read_dir(programs_folder()).expect("the programs");
    let paths = entries.map(|entry| entry.expect("a program").path());
    let mut names: Vec<String> = paths
        .filter(|path| path.extension().is_some_and(|extension| extension == "theta"))
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .collect();
    names.sort();
    names
}

fn program(name: &str) -> PathBuf {
    programs_folder().join(format!("{name}.theta"))
}

fn bifrost_command(bifrost: &Path) -> Command {
    let mut command = Command::new(bifrost);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("BIFROST_") {
            command.env_remove(name);
        }
    }
    command.stdin(Stdio::null());
    command
}

/// Returns the interface of a program, with a line for each type and method.
pub(crate) fn interface(bifrost: &Path, name: &str) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = bifrost_command(bifrost);
    command.args(["veneer", "--lang", "rust"]).arg(program(name)).arg("-o").arg(folder.path());
    let output = command.output().expect("the program `bifrost`");
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    std::fs::read_to_string(folder.path().join("bifrost_stubs.interface.json")).expect("an interface")
}

/// A server that is ready; it ends with this.
pub(crate) struct Server {
    child: Child,
    folder: tempfile::TempDir,
}

impl Server {
    /// Serves a program with these settings, on a unix socket of its own.
    pub(crate) fn start(bifrost: &Path, name: &str, set: &[String]) -> Server {
        let folder = tempfile::tempdir().expect("a folder");
        let mut command = bifrost_command(bifrost);
        command.arg("serve").arg("--listen").arg(format!("unix://{}/socket", folder.path().display()));
        for setting in set {
            command.args(["--set", setting]);
        }
        command.arg(program(name)).current_dir(folder.path()).env("XDG_STATE_HOME", folder.path());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program `bifrost`");
        let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        let ready = lines.by_ref().map_while(Result::ok).any(|line| line.starts_with("ready"));
        if !ready {
            let mut said = String::new();
            let _ = child.stderr.take().map(|mut errors| errors.read_to_string(&mut said));
            let _ = child.wait();
            panic!("{name} is not served: {said}");
        }
        // Programs may print: somebody has to read it.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        Server { child, folder }
    }

    pub(crate) fn connect(&self) -> Connection {
        let stream = UnixStream::connect(self.folder.path().join("socket")).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time limit");
        Connection { stream, received: Vec::new() }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A connection to a server.
pub(crate) struct Connection {
    stream: UnixStream,
    received: Vec<u8>,
}

impl Connection {
    /// Sends bytes. A server that has closed the stream has answered before.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// Returns the bytes of the next reply; nothing if the stream has ended.
    pub(crate) fn receive(&mut self) -> Option<Vec<u8>> {
        loop {
            match decode_reply(&self.received, REPLY_BYTES_MAX) {
                Ok(DecodedReply::Reply(_, length)) => return Some(self.received.drain(..length).collect()),
                Ok(DecodedReply::NeedMore(_)) => {}
                Err(why) => panic!("the server's reply cannot be read: {why}"),
            }
            let mut some = vec![0; 65_536];
            match self.stream.read(&mut some) {
                Ok(0) => return None,
                Ok(length) => self.received.extend_from_slice(&some[..length]),
                Err(why) => panic!("the server does not answer: {why}"),
            }
        }
    }
}
