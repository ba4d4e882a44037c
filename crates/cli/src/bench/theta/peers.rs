//! The systems that take part: the programs in C, Lua and Go as processes, those in Theta in this
//! one ([`super::ours`]).

use std::path::Path;
use std::process::Command;

use super::super::common::Failed;
use super::super::process::{Process, Sample, succeed, version};
use super::cases::{C_HEADERS, Case, GO_MAIN, LUA_MAIN};
use super::ours::Theta;

/// Languages beside Theta.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Language {
    /// C with Theta's checks, and without
    C,
    /// Lua 5.4
    Lua,
    /// LuaJIT
    Luajit,
    /// Go
    Go,
}

/// A language that is installed.
pub struct Tool {
    language: Language,
    program: &'static str,
    /// Its version line.
    pub version: String,
}

impl Language {
    /// Returns the command that it is called by, and the option that asks for its version.
    const fn command(self) -> (&'static str, &'static str) {
        match self {
            Language::C => ("gcc", "--version"),
            Language::Lua => ("lua5.4", "-v"),
            Language::Luajit => ("luajit", "-v"),
            Language::Go => ("go", "version"),
        }
    }

    /// Returns the program to install.
    pub fn program(self) -> &'static str {
        self.command().0
    }

    /// Returns the language if its program is on the PATH.
    pub fn find(self) -> Option<Tool> {
        let (program, flag) = self.command();
        Some(Tool { language: self, program, version: version(program, flag)? })
    }
}

/// A system that can run the kernel of a case.
pub enum Peer {
    /// Theta, in this process.
    Theta(Theta),
    /// A process.
    Other(Process),
}

impl Peer {
    /// Returns its name in tables and files.
    pub fn name(&self) -> &'static str {
        match self {
            Peer::Theta(_) => "bifrost",
            Peer::Other(process) => process.name(),
        }
    }

    /// Runs the kernel once.
    ///
    /// # Errors
    /// The message of the program.
    pub fn sample(&mut self, n: i64) -> Result<Sample, Failed> {
        match self {
            Peer::Theta(theta) => theta.sample(n),
            Peer::Other(process) => process.sample(n),
        }
    }
}

impl Tool {
    /// Compiles the program of a case, if the language asks for that, and starts it.
    ///
    /// # Errors
    /// The message of the compiler; or something cannot be started.
    pub fn start(&self, case: &Case, folder: &Path) -> Result<Vec<Peer>, Failed> {
        let processes = match self.language {
            Language::C => {
                let checked = self.compile_c(case, folder, "C checked", "-DCHECKED")?;
                vec![checked, self.compile_c(case, folder, "C", "-fwrapv")?]
            }
            Language::Lua => vec![self.start_lua(case, folder, "Lua")?],
            Language::Luajit => vec![self.start_lua(case, folder, "LuaJIT")?],
            Language::Go => vec![self.compile_go(case, folder)?],
        };
        Ok(processes.into_iter().map(Peer::Other).collect())
    }

    fn compile_c(
        &self,
        case: &Case,
        folder: &Path,
        name: &'static str,
        flag: &str,
    ) -> Result<Process, Failed> {
        for (file, text) in C_HEADERS {
            std::fs::write(folder.join(file), text)?;
        }
        let source = folder.join("program.c");
        let program = folder.join(format!("program{flag}"));
        std::fs::write(&source, case.c)?;
        let mut gcc = Command::new(self.program);
        // Results are compared to the last bit: no multiplication is fused with an addition.
        gcc.args(["-std=gnu11", "-O2", "-ffp-contract=off", flag]).args(case.c_flags);
        succeed(gcc.arg("-o").arg(&program).arg(&source).arg("-lm"), case.name)?;
        Process::start(name, &mut Command::new(program))
    }

    fn start_lua(&self, case: &Case, folder: &Path, name: &'static str) -> Result<Process, Failed> {
        // Each has a file of its own: one may still be reading when the next is written.
        let source = folder.join(format!("{}.lua", self.program));
        std::fs::write(&source, format!("{}\n{LUA_MAIN}", case.lua))?;
        Process::start(name, Command::new(self.program).arg(source))
    }

    fn compile_go(&self, case: &Case, folder: &Path) -> Result<Process, Failed> {
        let (source, main) = (folder.join("program.go"), folder.join("main.go"));
        let program = folder.join("program-go");
        std::fs::write(&source, case.go)?;
        std::fs::write(&main, GO_MAIN)?;
        let mut go = Command::new(self.program);
        // The Go that is there; it fetches no other.
        go.env("GOTOOLCHAIN", "local").arg("build").arg("-o").arg(&program).arg(source).arg(main);
        succeed(&mut go, case.name)?;
        Process::start("Go", &mut Command::new(program))
    }
}
