//! Programs that are measured as processes.
//!
//! A process gets a line with n for each run. It answers with its processor time in nanoseconds and
//! its result, so that runs of all can alternate. Processor time is used because other work of the
//! machine matters less and the threads of a collector count. The time that passes is measured
//! here.

use std::fmt::Display;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::time::{ClockId, clock_gettime};

use super::common::Failed;

/// The longest time of a run.
const RUN_SECONDS_MAX: i64 = 600;

/// One run.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Processor time in milliseconds.
    pub ms: f64,
    /// The result of the program.
    pub result: i64,
}

/// One run of a process.
#[derive(Clone, Copy, Debug)]
pub struct Ran {
    /// As the process tells.
    pub sample: Sample,
    /// Milliseconds that passed.
    pub wall_ms: f64,
    /// Processor time in milliseconds of the thread that has `main`, if the process tells.
    pub main_ms: Option<f64>,
}

/// Returns the processor time of this process.
pub fn processor_ms() -> f64 {
    clock_ms(ClockId::ProcessCPUTime)
}

/// Returns the processor time of this thread.
pub fn thread_ms() -> f64 {
    clock_ms(ClockId::ThreadCPUTime)
}

fn clock_ms(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 * 1e3 + time.tv_nsec as f64 / 1e6
}

/// A program that waits for numbers.
pub struct Process {
    name: &'static str,
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Process {
    /// Starts it, under a name for tables and files.
    ///
    /// # Errors
    /// The system does not.
    pub fn start(name: &'static str, command: &mut Command) -> Result<Process, Failed> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().ok_or("no output to read")?);
        Ok(Process { name, child, input, output })
    }

    /// Returns its name in tables and files.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Runs the kernel once.
    ///
    /// # Errors
    /// The message of the program.
    pub fn sample(&mut self, n: i64) -> Result<Sample, Failed> {
        Ok(self.run(n)?.sample)
    }

    /// Runs it in the same way, and returns all that is known of the run.
    ///
    /// # Errors
    /// The message of the program.
    pub fn run(&mut self, n: i64) -> Result<Ran, Failed> {
        self.run_with(&n.to_string())
    }

    /// Runs it in the same way with several sizes, as words.
    ///
    /// # Errors
    /// The message of the program.
    pub fn run_with(&mut self, sizes: &str) -> Result<Ran, Failed> {
        let input = self.input.as_mut().ok_or("no input to write to")?;
        let start = Instant::now();
        writeln!(input, "{sizes}")?;
        let limit = Timespec { tv_sec: RUN_SECONDS_MAX, tv_nsec: 0 };
        // It answers by a whole line at once, and all before has been read.
        if poll(&mut [PollFd::new(self.output.get_ref(), PollFlags::IN)], Some(&limit))? == 0 {
            self.child.kill()?;
            return Err(format!("the program of {} has run for {RUN_SECONDS_MAX} seconds", self.name).into());
        }
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        let wall_ms = start.elapsed().as_secs_f64() * 1e3;
        let answer = || {
            let mut words = line.split_whitespace();
            let ms = words.next()?.parse::<f64>().ok()? / 1e6;
            let result = words.next()?.parse().ok()?;
            let main_ms = words.next().map(|ns| ns.parse::<f64>().map(|ns| ns / 1e6)).transpose().ok()?;
            Some(Ran { sample: Sample { ms, result }, wall_ms, main_ms })
        };
        answer().ok_or_else(|| format!("the program of {} answers `{}`", self.name, line.trim()).into())
    }

    /// Returns a line of the system's figures of its memory, in bytes: `VmRSS`, `VmHWM`.
    ///
    /// # Errors
    /// The system does not tell.
    pub fn memory(&self, what: &str) -> Result<u64, Failed> {
        memory_of(self.child.id(), what)
    }
}

/// Returns a line of the system's figures of the memory of a process, in bytes: `VmRSS`, `VmHWM`.
///
/// # Errors
/// The system does not tell.
pub fn memory_of(process: u32, what: &str) -> Result<u64, Failed> {
    let line = status_of(process, what)?;
    let kib = line.strip_suffix(" kB").and_then(|kib| kib.parse::<u64>().ok());
    Ok(kib.ok_or_else(|| format!("{what} of process {process} is `{line}`"))? * 1024)
}

/// Returns a line of the system's figures of a process.
///
/// # Errors
/// The system does not tell.
pub fn status_of(process: u32, what: &str) -> Result<String, Failed> {
    let path = format!("/proc/{process}/status");
    let status = std::fs::read_to_string(&path)?;
    let line = status.lines().find_map(|line| line.strip_prefix(what)?.strip_prefix(':'));
    Ok(line.ok_or_else(|| format!("`{path}` has no {what}"))?.trim().to_owned())
}

impl Drop for Process {
    fn drop(&mut self) {
        // It ends when its input does; its status does not matter any more.
        drop(self.input.take());
        let _ = self.child.wait();
    }
}

/// Returns the first line that a program says of itself, if it is on the PATH.
pub fn version(program: &str, flag: &str) -> Option<String> {
    let output = Command::new(program).arg(flag).stdin(Stdio::null()).output().ok()?;
    // Some say it as if it were a mistake.
    let said = if output.stdout.is_empty() { &output.stderr } else { &output.stdout };
    let text = String::from_utf8_lossy(said);
    output.status.success().then(|| text.lines().next().unwrap_or(program).trim().to_owned())
}

/// Runs a compiler.
///
/// # Errors
/// The message of the compiler.
pub fn succeed(command: &mut Command, of: impl Display) -> Result<(), Failed> {
    let output = command.stdin(Stdio::null()).output()?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let said = String::from_utf8_lossy(&output.stderr);
            let program = command.get_program().to_string_lossy();
            Err(format!("{program} does not compile `{of}`:\n{}", said.trim_end()).into())
        }
    }
}
