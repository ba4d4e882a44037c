//! Servers in processes of their own, which end with the command that started them.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use bifrost_transport::Address;

/// A server of a program.
pub struct ServerProcess {
    child: Child,
    address: Address,
}

impl ServerProcess {
    /// Serves a program from a folder that is there; `arguments` are those of `bifrost serve`. The
    /// server's messages go to a file in the folder.
    ///
    /// # Errors
    /// It does not start, for the reason that it gives.
    pub fn start(folder: &Path, program: &str, arguments: &[&str]) -> std::io::Result<ServerProcess> {
        ServerProcess::start_by(&std::env::current_exe()?, folder, program, arguments)
    }

    /// Does the same with another `bifrost`.
    ///
    /// # Errors
    /// As [`ServerProcess::start`].
    pub fn start_by(
        bifrost: &Path,
        folder: &Path,
        program: &str,
        arguments: &[&str],
    ) -> std::io::Result<ServerProcess> {
        let file = folder.join("program.theta");
        std::fs::write(&file, program)?;
        let mut command = Command::new(bifrost);
        command.arg("serve").args(arguments).arg(&file);
        ServerProcess::wait_for(command, folder)
    }

    /// Serves a trader in the same way; `arguments` are those of `bifrost trader`.
    ///
    /// # Errors
    /// As [`ServerProcess::start`].
    pub fn trader(folder: &Path, arguments: &[&str]) -> std::io::Result<ServerProcess> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("trader").args(arguments);
        ServerProcess::wait_for(command, folder)
    }

    /// Starts a server, and waits until it is ready.
    fn wait_for(mut command: Command, folder: &Path) -> std::io::Result<ServerProcess> {
        let log = folder.join("server.log");
        // Settings of other servers on this machine are not for this one.
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("BIFROST_") {
                command.env_remove(name);
            }
        }
        let said = File::create(&log)?;
        let mut child =
            command.current_dir(folder).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(said).spawn()?;
        let mut line = String::new();
        let output = child.stdout.take();
        let read = output.map_or(Ok(0), |output| BufReader::new(output).read_line(&mut line));
        let address = line.trim().strip_prefix("ready ").and_then(|url| url.parse().ok());
        if let (Ok(_), Some(address)) = (read, address) {
            return Ok(ServerProcess { child, address });
        }
        let _ = child.kill();
        let _ = child.wait();
        let said = std::fs::read_to_string(&log).unwrap_or_default();
        Err(std::io::Error::other(format!("the server did not start; its output:\n{said}")))
    }

    /// Returns the address at which it listens.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Returns the id of its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }
}

impl ServerProcess {
    /// Ends it without a word (SIGKILL).
    pub fn kill(&mut self) {
        // It may have ended by itself; then there is nothing to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        self.kill();
    }
}
