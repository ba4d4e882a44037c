//! Programs that are measured as processes.
//!
//! A process gets a line with n for each run. It answers with its processor time in nanoseconds and
//! its result, so that runs of all can alternate. Processor time is used because other work of the
//! machine matters less and the threads of a collector count. The time that passes is measured
//! here.

use std::fmt::Display;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::time::{ClockId, clock_gettime};

use super::common::Failed;

/// The longest time of a run.
const RUN_MAX: Duration = Duration::from_secs(600);
/// The time in which a process must end when its input has ended, in steps.
const ENDING: (u32, Duration) = (200, Duration::from_millis(10));

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

/// A process that answers lines, and ends when its input does.
pub struct Program {
    name: &'static str,
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Program {
    /// Starts it, under a name for messages.
    ///
    /// # Errors
    /// The system does not.
    pub fn start(name: &'static str, command: &mut Command) -> Result<Program, Failed> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().ok_or("no output to read")?);
        Ok(Program { name, child, input, output })
    }

    /// Writes a line.
    ///
    /// # Errors
    /// The program has ended.
    pub fn say(&mut self, line: &str) -> Result<(), Failed> {
        let input = self.input.as_mut().ok_or("no input to write to")?;
        writeln!(input, "{line}")?;
        Ok(input.flush()?)
    }

    /// Reads a line; the program writes each at once.
    ///
    /// # Errors
    /// The program has ended, or is silent for `limit`.
    pub fn hear(&mut self, limit: Duration) -> Result<String, Failed> {
        let seconds = Timespec::try_from(limit)?;
        // A line may have come with the one before.
        let is_here = !self.output.buffer().is_empty();
        if !is_here && poll(&mut [PollFd::new(self.output.get_ref(), PollFlags::IN)], Some(&seconds))? == 0 {
            self.child.kill()?;
            return Err(format!("a program of {} is silent for {} s", self.name, limit.as_secs()).into());
        }
        let mut line = String::new();
        match self.output.read_line(&mut line)? {
            0 => Err(format!("a program of {} has ended", self.name).into()),
            _ => Ok(line.trim_end().to_owned()),
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        drop(self.input.take());
        let (steps, step) = ENDING;
        for _ in 0..steps {
            if let Ok(Some(_)) = self.child.try_wait() {
                return;
            }
            std::thread::sleep(step);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A program that waits for numbers.
pub struct Process(Program);

impl Process {
    /// Starts it, under a name for tables and files.
    ///
    /// # Errors
    /// The system does not.
    pub fn start(name: &'static str, command: &mut Command) -> Result<Process, Failed> {
        Program::start(name, command).map(Process)
    }

    /// Returns its name in tables and files.
    pub fn name(&self) -> &'static str {
        self.0.name
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
        self.run_within(sizes, RUN_MAX)
    }

    /// Runs it in the same way, for no longer than `limit`.
    ///
    /// # Errors
    /// The message of the program.
    pub fn run_within(&mut self, sizes: &str, limit: Duration) -> Result<Ran, Failed> {
        let start = Instant::now();
        self.0.say(sizes)?;
        let line = self.0.hear(limit)?;
        let wall_ms = start.elapsed().as_secs_f64() * 1e3;
        let answer = || {
            let mut words = line.split_whitespace();
            let ms = words.next()?.parse::<f64>().ok()? / 1e6;
            let result = words.next()?.parse().ok()?;
            let main_ms = words.next().map(|ns| ns.parse::<f64>().map(|ns| ns / 1e6)).transpose().ok()?;
            Some(Ran { sample: Sample { ms, result }, wall_ms, main_ms })
        };
        answer().ok_or_else(|| format!("the program of {} answers `{line}`", self.0.name).into())
    }

    /// Returns a line of the system's figures of its memory, in bytes: `VmRSS`, `VmHWM`.
    ///
    /// # Errors
    /// The system does not tell.
    pub fn memory(&self, what: &str) -> Result<u64, Failed> {
        memory_of(self.0.child.id(), what)
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
