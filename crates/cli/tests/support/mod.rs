//! Programs under test as child processes: none outlives its test.
#![allow(dead_code, reason = "each test file uses a part")]

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use tempfile::TempDir;

/// The program, without the settings of whoever runs the tests but how to collect.
pub fn bifrost() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bifrost"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("BIFROST_") && name != "BIFROST_GC" {
            command.env_remove(name);
        }
    }
    command.env("COLUMNS", "100").stdin(Stdio::null());
    command
}

/// The examples, each in a folder of its name.
pub const EXAMPLES: &[&str] = &[
    "auctions",
    "bags",
    "boards",
    "catalogue",
    "database",
    "inventory",
    "lists",
    "oo7",
    "packages",
    "points",
    "routes",
    "sandbox",
    "scores",
    "supervised",
    "trees",
];

/// The folder of the examples.
pub fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").canonicalize().unwrap()
}

/// The Theta file of an example.
pub fn example(name: &str) -> PathBuf {
    examples().join(name).join(format!("{name}.theta"))
}

/// Where the imports of an example start, if not in its folder.
pub fn example_root(name: &str) -> Vec<String> {
    match name {
        "oo7" => vec!["--root".to_owned(), examples().join("../bench/oo7").display().to_string()],
        _ => Vec::new(),
    }
}

pub fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

pub fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

/// A dump without the numbers of commits, which are others in the store that is made of it.
pub fn without_commits(dump: &str) -> String {
    let mut out = String::new();
    for line in dump.lines() {
        let mut json: serde_json::Value = serde_json::from_str(line).unwrap();
        json.as_object_mut().unwrap().remove("commit");
        out.push_str(&format!("{json}\n"));
    }
    out
}

/// A server that is ready.
pub struct Server {
    pub child: Child,
    /// Where it listens, in the order of its arguments.
    pub urls: Vec<String>,
    pub folder: TempDir,
}

impl Server {
    /// Serves an example at `unix:///FOLDER/socket` and wherever `arguments` say.
    pub fn start(name: &str, arguments: &[&str]) -> Server {
        Server::serve(&example(name), arguments)
    }

    /// Serves a program at `unix:///FOLDER/socket` and wherever `arguments` say.
    pub fn serve(program: &Path, arguments: &[&str]) -> Server {
        Server::spawn(bifrost(), program, arguments)
    }

    /// As [`Server::serve`], with the heap collected so.
    pub fn serve_collected(program: &Path, collect: &str, arguments: &[&str]) -> Server {
        let mut command = bifrost();
        command.env("BIFROST_GC", collect);
        Server::spawn(command, program, arguments)
    }

    /// As [`Server::serve`], with a log of sessions on the standard error.
    pub fn serve_logged(program: &Path, arguments: &[&str]) -> Server {
        let mut command = bifrost();
        command.env("BIFROST_LOG", "bifrost=info");
        Server::spawn(command, program, arguments)
    }

    /// Serves a program with the settings of a command.
    pub fn spawn(mut command: Command, program: &Path, arguments: &[&str]) -> Server {
        let folder = tempfile::tempdir().unwrap();
        // A certificate that it makes is its own.
        if !command.get_envs().any(|(name, _)| name == "XDG_STATE_HOME") {
            command.env("XDG_STATE_HOME", folder.path());
        }
        command.arg("serve").arg("--listen").arg(format!("unix://{}/socket", folder.path().display()));
        command.args(arguments.iter().map(|a| a.replace("FOLDER", &folder.path().display().to_string())));
        command.arg(program).current_dir(folder.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Server::ready(command.spawn().unwrap(), folder)
    }

    /// Waits for a server to be ready.
    pub fn ready(mut child: Child, folder: TempDir) -> Server {
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let Some(urls) = line.strip_prefix("ready ") else {
            let output = child.wait_with_output().unwrap();
            panic!("the server did not start: {}", stderr(&output));
        };
        let urls = urls.split_whitespace().map(str::to_owned).collect();
        Server { child, urls, folder }
    }

    /// What a script hears in a shell.
    pub fn shell(&self, url: &str, arguments: &[&str], script: &str) -> Output {
        let mut command = bifrost();
        command.arg("shell").arg(url).args(arguments);
        feed(command, script)
    }

    /// Sends a signal, waits for the end, and returns the exit status and what was said on the standard error.
    pub fn end(mut self, signal: &str) -> (Option<i32>, String) {
        kill(&self.child, signal);
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (self.child.wait().unwrap().code(), said)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a command to its end with a text on its standard input.
pub fn feed(mut command: Command, input: &str) -> Output {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A program that ends early does not read everything.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

/// Sends a signal to a child.
pub fn kill(child: &Child, signal: &str) {
    let done = Command::new("kill").arg(format!("-{signal}")).arg(child.id().to_string()).status().unwrap();
    assert!(done.success());
}

/// A test of this same program as a process of its own, without settings. It speaks on its standard error, where the
/// harness says nothing.
pub fn again(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("BIFROST_") {
            command.env_remove(name);
        }
    }
    command.args(["--exact", test, "--nocapture"]).stdin(Stdio::null()).stdout(Stdio::null());
    command.env("BIFROST_CHILD", "1");
    command
}

/// The server that a process started by [`again`] is to talk to; nothing in any other process, where its test has nothing
/// to do.
pub fn child_url() -> Option<String> {
    std::env::var_os("BIFROST_CHILD")?;
    std::env::var("BIFROST_URL").ok()
}
