//! The systems that take part: processes of ours ([`super::serve()`]), the programs in C, and the
//! peers under `bench/actors/peers`.
//!
//! A peer's program is started for a case and a number of threads, and then is as [`Process`] says.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::super::common::Failed;
use super::super::process::{Process, succeed, version};
use super::super::tools::{Made, build_rust};
use super::cases::{C_CLOCK, C_HEADERS, CAF, Case, ERLANG, GO, Size};

/// The name of ours.
pub const OURS: &str = "bifrost";
/// That of sequential C.
pub const C: &str = "C";
/// That of tasks in place of actors.
pub const RAYON: &str = "rayon";

/// Others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Peer {
    /// Tasks of rayon, the Rust crate, for trees of calls
    Rayon,
    /// Goroutines with channels
    Go,
    /// Processes of Erlang
    Erlang,
    /// CAF, actors in C++
    Caf,
    /// Actors of kameo, a Rust crate
    Kameo,
}

impl Peer {
    /// Returns its name in tables and files.
    pub fn name(self) -> &'static str {
        match self {
            Peer::Rayon => RAYON,
            Peer::Go => "Go",
            Peer::Erlang => "Erlang",
            Peer::Caf => "CAF",
            Peer::Kameo => "kameo",
        }
    }

    /// Returns true if it has a program for the case.
    pub fn has(self, case: &Case) -> bool {
        !case.capsules && (self != Peer::Rayon || case.tasks)
    }

    /// Returns the size that takes about as long as others do for theirs.
    pub fn size(self, case: &Case) -> Size {
        if self == Peer::Rayon { case.full } else { case.slow }
    }

    /// Makes its programs, in a folder that is for it alone.
    ///
    /// # Errors
    /// The reason why it does not take part.
    pub fn prepare(self, folder: &Path, peers: &Path) -> Result<Tool, String> {
        match self {
            Peer::Rayon | Peer::Kameo => self.prepare_rust(peers),
            Peer::Go => {
                let version = version("go", "version").ok_or(install("golang"))?;
                let mut go = Command::new("go");
                // The Go that is there; it fetches no other.
                go.env("GOTOOLCHAIN", "local").arg("build");
                self.compile(go, folder, "actors.go", GO, version)
            }
            Peer::Erlang => {
                let version = version("erl", "+V").ok_or(install("erlang-base"))?;
                let mut erlc = Command::new("erlc");
                erlc.current_dir(folder);
                self.compile(erlc, folder, "actors.erl", ERLANG, version)
            }
            Peer::Caf => {
                let version = version("g++", "--version").ok_or(install("g++ libcaf-dev"))?;
                let mut look = Command::new("g++");
                look.args(["-fsyntax-only", "-include", "caf/config.hpp", "-x", "c++", "/dev/null"]);
                succeed(&mut look, "caf/config.hpp").map_err(|_| install("libcaf-dev"))?;
                let mut gcc = Command::new("g++");
                gcc.args(["-std=c++17", "-O2", "-ffp-contract=off", "-pthread"]);
                self.compile(gcc, folder, "caf.cpp", CAF, format!("CAF by {version}"))
            }
        }
    }

    /// Runs a compiler for the one program that has all cases.
    fn compile(
        self,
        mut compiler: Command,
        folder: &Path,
        file: &str,
        text: &str,
        version: String,
    ) -> Result<Tool, String> {
        let (source, program) = (folder.join(file), folder.join("program"));
        std::fs::write(&source, text).map_err(|e| e.to_string())?;
        match self {
            Peer::Erlang => compiler.arg(&source),
            Peer::Caf => compiler.arg("-o").arg(&program).arg(&source).arg("-lcaf_core"),
            _ => compiler.arg("-o").arg(&program).arg(&source),
        };
        succeed(&mut compiler, file).map_err(|e| e.to_string())?;
        let program = if self == Peer::Erlang { folder.to_owned() } else { program };
        Ok(Tool { peer: self, program, version })
    }

    /// Compiles the programs in Rust. They are a package of their own, with crates that are no part
    /// of ours.
    fn prepare_rust(self, peers: &Path) -> Result<Tool, String> {
        let usual = ["bench/actors/peers", "--peers-folder"];
        let Made { program, version } = build_rust(&peers.join("rust"), "actors-rust", usual)?;
        Ok(Tool { peer: self, program, version: format!("{} by {version}", self.name()) })
    }
}

fn install(packages: &str) -> String {
    format!("to have it, on Debian: apt-get install {packages}")
}

/// A peer that is there.
pub struct Tool {
    /// Which.
    pub peer: Peer,
    program: PathBuf,
    /// Its version line.
    pub version: String,
}

impl Tool {
    /// Starts its program for a case.
    ///
    /// # Errors
    /// The system does not.
    pub fn start(&self, case: &Case, threads: u32) -> Result<Process, Failed> {
        let count = threads.to_string();
        let mut command = match self.peer {
            Peer::Erlang => {
                let mut erl = Command::new("erl");
                // Its schedulers do not spin: processor time would not be work.
                erl.args([
                    "-noshell",
                    "+P",
                    "4000000",
                    "+sbwt",
                    "none",
                    "+sbwtdcpu",
                    "none",
                    "+sbwtdio",
                    "none",
                ]);
                erl.arg("+S").arg(format!("{count}:{count}")).arg("-pa").arg(&self.program);
                erl.args(["-run", "actors", "main", case.name]);
                erl
            }
            Peer::Rayon | Peer::Kameo => {
                let mut rust = Command::new(&self.program);
                rust.args([self.peer.name(), case.name, &count]);
                rust
            }
            Peer::Go => {
                let mut go = Command::new(&self.program);
                go.env("GOMAXPROCS", &count).arg(case.name);
                go
            }
            Peer::Caf => {
                let mut caf = Command::new(&self.program);
                caf.args([case.name, &count]);
                caf
            }
        };
        Process::start(self.peer.name(), &mut command)
    }
}

/// A C compiler that is there, and the programs that it has compiled.
pub struct Compiler<'a> {
    folder: &'a Path,
    /// Its version line.
    pub version: String,
}

impl Compiler<'_> {
    /// Finds the compiler that is installed.
    ///
    /// # Errors
    /// There is none, and without C there is nothing to compare with.
    pub fn find(folder: &Path) -> Result<Compiler<'_>, Failed> {
        let version = version("cc", "--version").ok_or("`cc` is not on the PATH: install a C compiler")?;
        for (file, text) in C_HEADERS {
            std::fs::write(folder.join(file), text)?;
        }
        Ok(Compiler { folder, version })
    }

    /// Compiles the program of a case and starts it.
    ///
    /// # Errors
    /// The message of the compiler; the program cannot be started.
    pub fn start(&self, case: &Case) -> Result<Process, Failed> {
        let program = self.compile(case.name, case.c, case.c_flags)?;
        Process::start(C, &mut Command::new(program))
    }

    /// Starts the program of additions, each of which takes a cycle.
    ///
    /// # Errors
    /// As [`Compiler::start`].
    pub fn start_clock(&self) -> Result<Process, Failed> {
        Process::start("the clock", &mut Command::new(self.compile("clock", C_CLOCK, &[])?))
    }

    fn compile(&self, name: &str, text: &str, flags: &[&str]) -> Result<PathBuf, Failed> {
        let (source, program) = (self.folder.join(format!("{name}.c")), self.folder.join(name));
        std::fs::write(&source, text)?;
        let mut cc = Command::new("cc");
        // Results are compared to the last bit: no multiplication is fused with an addition.
        cc.args(["-std=gnu11", "-O2", "-fwrapv", "-ffp-contract=off", "-pthread"]).args(flags);
        succeed(cc.arg("-o").arg(&program).arg(&source).arg("-lm"), name)?;
        Ok(program)
    }
}

/// Starts a process of ours for a case.
///
/// # Errors
/// It cannot be started.
pub fn start_ours(case: &Case, nodes: u32) -> Result<Process, Failed> {
    Process::start(OURS, &mut our_command(case.name, nodes)?)
}

/// Returns the command of [`start_ours`].
///
/// # Errors
/// Nobody knows where this program is.
pub fn our_command(case: &str, nodes: u32) -> Result<Command, Failed> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["bench", "actors-node", case, &nodes.to_string()]);
    Ok(command)
}
