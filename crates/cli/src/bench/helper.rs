//! Processes of ours that a measurement needs beside its own.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use super::common::Failed;

/// A process of ours that ends when it is dropped.
pub struct Helper(Child);

impl Helper {
    /// Starts `bifrost bench` with these arguments.
    ///
    /// # Errors
    /// There are no means for a process.
    pub fn start(arguments: &[&str]) -> Result<Helper, Failed> {
        let program = std::env::current_exe()?;
        let mut command = Command::new(program);
        command.arg("bench").args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        Ok(Helper(command.spawn()?))
    }

    /// Returns the stream to its input.
    ///
    /// # Errors
    /// It was taken.
    pub fn input(&mut self) -> Result<&mut ChildStdin, Failed> {
        Ok(self.0.stdin.as_mut().ok_or("no input to write to")?)
    }

    /// Takes the stream to its input.
    ///
    /// # Errors
    /// It was taken.
    pub fn take_input(&mut self) -> Result<ChildStdin, Failed> {
        Ok(self.0.stdin.take().ok_or("no input to write to")?)
    }

    /// Takes the stream from its output.
    ///
    /// # Errors
    /// It was taken.
    pub fn take_output(&mut self) -> Result<ChildStdout, Failed> {
        Ok(self.0.stdout.take().ok_or("no output to read")?)
    }

    /// Reads the line that the helper prints when it is ready.
    ///
    /// # Errors
    /// It did not start.
    pub fn ready(&mut self) -> Result<String, Failed> {
        let out = self.take_output()?;
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line)?;
        match line.trim() {
            "" => Err("the measuring process did not start".into()),
            line => Ok(line.to_owned()),
        }
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        // The helper ends when its input does; one that hangs is ended.
        drop(self.0.stdin.take());
        for _ in 0..200 {
            if let Ok(Some(_)) = self.0.try_wait() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
