//! Capsules that `bifrost run` starts itself, as processes that end with it.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bifrost_actors::WithActors;
use bifrost_capsule::capsules::{self, JoinError, Joined, Terms};
use bifrost_capsule::nodes::nap;
use bifrost_runtime::Cx;
use bifrost_transport::Address;
use tempfile::TempDir;

use super::arguments::ProgramArgs;
use crate::failure::{Exit, Failure};

/// The longest time that a started capsule waits for its starter, and the starter at the end for
/// the capsule.
const STARTED_MS_MAX: u64 = 30_000;
const ENDED_MS_MAX: u64 = 5_000;

/// Makes a context ready for nodes.
pub fn ready(cx: &mut Cx, traced: bool) {
    cx.actors().set_log(|text| tracing::warn!("{text}"));
    cx.actors().set_notes(|text| tracing::info!("{text}"));
    cx.actors().set_nap(nap);
    if traced {
        bifrost_actors::start_trace(cx);
    }
}

/// Capsules that this process has started, which end with it.
pub struct Started {
    children: Vec<Child>,
    addresses: Vec<Address>,
    /// The folder of their sockets, until they are connected.
    folder: Option<TempDir>,
}

impl Started {
    /// Starts so many, each with a socket in a folder that nobody else can enter.
    ///
    /// # Errors
    /// There are no means for them.
    pub fn new(count: u32, file: &Path, program: &ProgramArgs) -> Result<Started, Failure> {
        let no_means = |e: std::io::Error| Failure::new(Exit::Failed, format!("cannot start a capsule: {e}"));
        // Its mode is 0700.
        let folder = tempfile::Builder::new().prefix("bifrost-run-").tempdir().map_err(no_means)?;
        let mut started = Started { children: Vec::new(), addresses: Vec::new(), folder: None };
        for number in 1..=count {
            let address = Address::Shm(folder.path().join(number.to_string()));
            let mut command = Command::new(std::env::current_exe().map_err(no_means)?);
            command.arg("capsule").arg("--listen").arg(address.to_string());
            command.arg("--wait-ms").arg(STARTED_MS_MAX.to_string());
            // The lines that it prints come here by its connection.
            command.args(program.to_arguments()).arg(file).stdin(Stdio::null()).stdout(Stdio::null());
            started.children.push(command.env_remove("BIFROST_TOKEN").spawn().map_err(no_means)?);
            started.addresses.push(address);
        }
        started.folder = Some(folder);
        Ok(started)
    }

    /// Begins a run with them.
    ///
    /// # Errors
    /// As for [`capsules::join`].
    pub fn join(&mut self, nodes: u32, traced: bool, terms: &Terms) -> Result<Joined, JoinError> {
        let children = &mut self.children;
        let joined = capsules::join(&self.addresses, nodes, traced, terms, |at| {
            matches!(children[at].try_wait(), Ok(None))
        });
        self.folder = None;
        joined
    }

    /// Waits for the end of those that have reported (`Nodes::stop_others`); ends those that do
    /// not end, and the others.
    pub fn end(mut self, reports: &[(u32, Vec<u8>)]) {
        let reported = |number: u32| reports.iter().any(|(capsule, _)| *capsule == number);
        let until = Instant::now() + Duration::from_millis(ENDED_MS_MAX);
        for (_, child) in (1..).zip(&mut self.children).filter(|(number, _)| reported(*number)) {
            while Instant::now() < until && matches!(child.try_wait(), Ok(None)) {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        for child in &mut self.children {
            // It may have ended by itself; then there is nothing to do.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
