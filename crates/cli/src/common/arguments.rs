//! Arguments that several subcommands have, and their values.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use bifrost_capsule::tasks::TaskSettings;
use bifrost_engine::Mode;
use bifrost_native::Registry;
use bifrost_native::standard::{Files, HttpHosts};
use bifrost_runtime::Limits;
use bifrost_server::config::collect;

use crate::failure::{Exit, Failure};

/// The token that capsules show each other.
#[derive(clap::Args, Debug)]
pub struct TokenArgs {
    /// The secret that the capsules of a run have in common, over TCP and TLS. Other users can read
    /// it in the process table, so better use a file
    #[arg(long, value_name = "TOKEN", env = "BIFROST_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// A file with the secret on its first line
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

impl TokenArgs {
    /// Returns the token, if there is one.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn token(&self) -> Result<Option<String>, Failure> {
        Ok(token(self.token.as_deref(), self.token_file.as_deref())?.filter(|token| !token.is_empty()))
    }
}

/// The way a program is compiled and run, in this process or another one.
#[derive(clap::Args, Debug)]
pub struct ProgramArgs {
    /// Run in the interpreter
    #[arg(long)]
    pub interpret: bool,
    /// Where imports start [default: the folder of the file]
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
    /// A folder whose files `std.files` reaches; several times for several [default: the current
    /// folder]
    #[arg(long, value_name = "DIR")]
    pub allow_files: Vec<PathBuf>,
    /// A host that `std.http` reaches, as `example.com`, `localhost:8080` or `*.example.com`;
    /// several times for several [default: none]
    #[arg(long, value_name = "HOST")]
    pub allow_http: Vec<String>,
    /// Most bytes of all objects of a node
    #[arg(long, value_name = "BYTES")]
    pub heap_bytes_max: Option<usize>,
    /// Most bytes of messages that wait for one actor; at least a megabyte, and at most a quarter
    /// of the heap [default: 134217728]
    #[arg(long, value_name = "BYTES")]
    pub mailbox_bytes_max: Option<usize>,
    /// Bytes of stack of a node
    #[arg(long, value_name = "BYTES")]
    pub stack_bytes: Option<usize>,
    /// Tasks: threads that run the methods of native actors [default: 8]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub tasks: Option<u32>,
}

impl ProgramArgs {
    /// Returns the mode in which methods run.
    pub fn mode(&self) -> Mode {
        if self.interpret { Mode::Interpreted } else { Mode::Compiled }
    }

    /// Returns the natives of the program, with the files that it may reach.
    ///
    /// # Errors
    /// A folder cannot be opened.
    pub fn registry(&self, registry: &Registry) -> Result<Registry, Failure> {
        let current = PathBuf::from(".");
        let allowed = match self.allow_files.is_empty() {
            true => std::slice::from_ref(&current),
            false => &self.allow_files,
        };
        let mut tasks = TaskSettings { limits: self.limits(), ..TaskSettings::default() };
        tasks.pool.tasks = self.tasks.unwrap_or(tasks.pool.tasks);
        Ok(with_files(registry, allowed)?.with(HttpHosts(self.allow_http.clone())).with(tasks))
    }

    /// Returns the limits. A program of one's own has no time limit and may fill the heap.
    pub fn limits(&self) -> Limits {
        let mut limits = Limits { fuel: i64::MAX, collect: collect(), ..Limits::default() };
        limits.heap_bytes = self.heap_bytes_max.unwrap_or(limits.heap_bytes);
        limits.batch_heap_bytes = limits.heap_bytes;
        limits.mailbox_bytes = self.mailbox_bytes_max.unwrap_or(limits.mailbox_bytes);
        limits.stack_bytes = self.stack_bytes.unwrap_or(limits.stack_bytes);
        limits
    }

    /// Returns these arguments as those of another command.
    pub fn to_arguments(&self) -> Vec<OsString> {
        let mut out: Vec<OsString> = Vec::new();
        let mut add = |name: &str, value: OsString| out.extend([name.into(), value]);
        if let Some(root) = &self.root {
            add("--root", root.into());
        }
        for folder in &self.allow_files {
            add("--allow-files", folder.into());
        }
        for host in &self.allow_http {
            add("--allow-http", host.into());
        }
        for (name, value) in [
            ("--heap-bytes-max", self.heap_bytes_max),
            ("--mailbox-bytes-max", self.mailbox_bytes_max),
            ("--stack-bytes", self.stack_bytes),
        ] {
            if let Some(value) = value {
                add(name, value.to_string().into());
            }
        }
        if let Some(tasks) = self.tasks {
            add("--tasks", tasks.to_string().into());
        }
        if self.interpret {
            out.push("--interpret".into());
        }
        out
    }
}

/// Returns the token of `--token` or `--token-file`.
///
/// # Errors
/// The file cannot be read, or has none.
pub fn token(token: Option<&str>, file: Option<&Path>) -> Result<Option<String>, Failure> {
    let Some(file) = file else { return Ok(token.map(str::to_owned)) };
    let wrong = |why: &dyn std::fmt::Display| {
        Failure::new(Exit::Usage, format!("cannot take the token from `{}`: {why}", file.display()))
    };
    let text = std::fs::read_to_string(file).map_err(|e| wrong(&e))?;
    match text.lines().next().map(str::trim) {
        Some(line) if !line.is_empty() => Ok(Some(line.to_owned())),
        _ => Err(wrong(&"its first line is empty")),
    }
}

/// Returns natives with access to the files in some folders.
///
/// # Errors
/// A folder cannot be opened.
pub fn with_files(registry: &Registry, folders: &[PathBuf]) -> Result<Registry, Failure> {
    let mut files = Files::default();
    for folder in folders {
        files = files.and_in(folder).map_err(|e| {
            Failure::new(Exit::Usage, format!("cannot allow the files in `{}`: {e}", folder.display()))
        })?;
    }
    Ok(registry.clone().with(files))
}
