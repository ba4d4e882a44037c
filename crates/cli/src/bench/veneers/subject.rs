//! The cases, and the programs that run them: [`Step`], [`Subject`], [`Client`].

use std::fs::File;
use std::process::Command;
use std::time::Duration;

use super::super::common::Failed;
use super::super::process::{Process, Program};
use super::Language;

/// The name of the client library among the subjects.
pub const OURS: &str = "bifrost";
/// The longest time of a run.
const RUN_MAX: Duration = Duration::from_secs(120);

/// A measured case. A client gets the name and a number n, and does n steps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Calls of `same_int` that are recorded; of a peer: begun, and not awaited in the time
    Record,
    /// Calls of `nothing`, each claimed before the next one
    Null,
    /// Calls of `same_int` with 0, 1, 2 ..., each claimed before the next one
    Pair,
    /// Calls of `same_int` of the object that a call of `itself` returns
    Two,
    /// Calls of `same_int` that do not wait for each other, until all results are there
    Batch,
    /// Rows of an integer and a text, which come together
    Table,
    /// Pairs of messages over a raw socket, as long as those of `Pair`
    Raw,
    /// Calls as in `Batch`, of whose results only the last one is held, in the text form
    Last,
    /// Calls as in `Last`, written by hand to a socket
    Socket,
}

impl Step {
    /// All of them.
    pub const ALL: [Step; 9] = [
        Step::Record,
        Step::Null,
        Step::Pair,
        Step::Two,
        Step::Batch,
        Step::Table,
        Step::Raw,
        Step::Last,
        Step::Socket,
    ];

    /// Returns its name in orders and tables.
    pub fn name(self) -> &'static str {
        match self {
            Step::Record => "record",
            Step::Null => "null",
            Step::Pair => "pair",
            Step::Two => "two",
            Step::Batch => "batch",
            Step::Table => "table",
            Step::Raw => "raw",
            Step::Last => "last",
            Step::Socket => "socket",
        }
    }

    /// Returns the steps of a sample. Goals of the text form are for batches of 1,000.
    pub fn count(self, language: Language) -> u32 {
        match self {
            Step::Record | Step::Last | Step::Socket => 1000,
            Step::Null | Step::Pair | Step::Two | Step::Raw => 200,
            Step::Batch if language.is_text() => 1000,
            Step::Batch | Step::Table => 10_000,
        }
    }

    /// Returns true if a client library or peer has it. Sockets are measured once in each language,
    /// by its client.
    pub fn is_of(self, language: Language, name: &str) -> bool {
        match self {
            Step::Raw => name == OURS,
            Step::Last | Step::Socket => name == OURS && language.is_text(),
            _ => true,
        }
    }

    /// Returns the result that each client must give: the number of steps, the last answer, or the
    /// sum of the answers; of a table the sum of its integers and of the lengths of its texts.
    pub fn result(self, count: u32) -> i64 {
        let n = i64::from(count);
        match self {
            Step::Null | Step::Raw => n,
            Step::Last | Step::Socket => n - 1,
            Step::Record | Step::Pair | Step::Two | Step::Batch => n * (n - 1) / 2,
            Step::Table => (1..=n).map(|row| row + row.to_string().len() as i64).sum(),
        }
    }
}

/// A client library or a peer.
pub trait Subject {
    /// Returns its name in tables and files.
    fn name(&self) -> &'static str;

    /// Runs a case; returns nanoseconds and result.
    ///
    /// # Errors
    /// The client fails.
    fn run(&mut self, step: Step, count: u32) -> Result<(f64, i64), Failed>;
}

/// A client that is a process: it answers lines `CASE N` by nanoseconds and result.
pub struct Client {
    process: Process,
    /// The file with its messages.
    messages: tempfile::NamedTempFile,
    // Dropped behind the process, which is connected to it.
    _server: Option<Program>,
}

impl Client {
    /// Starts a client, and has it run a first step within `limit`.
    ///
    /// # Errors
    /// It does not start, for the reason of its last message.
    pub fn start(name: &'static str, mut command: Command, limit: Duration) -> Result<Client, Failed> {
        let messages = tempfile::NamedTempFile::new()?;
        command.stderr(File::create(messages.path())?);
        let path = command.get_program().to_string_lossy().into_owned();
        let process = Process::start(name, &mut command).map_err(|why| format!("`{path}`: {why}"))?;
        let mut client = Client { process, messages, _server: None };
        client.order(Step::Null, 1, limit).map_err(|why| format!("`{path}`: {why}"))?;
        Ok(client)
    }

    /// Starts the client of a server that it ends with.
    ///
    /// # Errors
    /// As [`Client::start`].
    pub fn of(server: Program, name: &'static str, command: Command) -> Result<Client, Failed> {
        let client = Client::start(name, command, RUN_MAX)?;
        Ok(Client { _server: Some(server), ..client })
    }

    fn order(&mut self, step: Step, count: u32, limit: Duration) -> Result<(f64, i64), Failed> {
        match self.process.run_within(&format!("{} {count}", step.name()), limit) {
            Ok(ran) => Ok((ran.sample.ms * 1e6, ran.sample.result)),
            Err(why) => {
                let said = std::fs::read(self.messages.path()).unwrap_or_default();
                let said = String::from_utf8_lossy(&said);
                let last = said.trim().lines().last().unwrap_or("it has given no reason");
                Err(format!("{why}: {last}").into())
            }
        }
    }
}

impl Subject for Client {
    fn name(&self) -> &'static str {
        self.process.name()
    }

    fn run(&mut self, step: Step, count: u32) -> Result<(f64, i64), Failed> {
        self.order(step, count, RUN_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(script: &str, limit: Duration) -> Result<Client, Failed> {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Client::start("other", command, limit)
    }

    #[test]
    fn results_are_those_of_few_steps() {
        let of_three = |step: Step| step.result(3);
        assert_eq!(Step::ALL.map(of_three), [3, 3, 3, 3, 3, 9, 3, 2, 2]);
        // Ten rows have eleven digits.
        assert_eq!((Step::Table.result(10), Step::Pair.result(10)), (55 + 11, 45));
    }

    #[test]
    fn clients_answer_lines_and_tell_why_they_end() {
        let echo = "while read case n; do echo 2000 $n; done";
        let mut echo = client(echo, RUN_MAX).unwrap();
        assert_eq!((echo.name(), echo.run(Step::Pair, 7).unwrap()), ("other", (2000.0, 7)));
        let failing = client("read line; echo first >&2; echo why >&2; exit 3", RUN_MAX).err().unwrap();
        assert_eq!(failing.to_string(), "`sh`: a program of other has ended: why");
        let unknown = client("read line; echo what", RUN_MAX).err().unwrap();
        assert_eq!(unknown.to_string(), "`sh`: the program of other answers `what`: it has given no reason");
        let late = client("exec sleep 60", Duration::from_millis(50)).err().unwrap();
        assert!(late.to_string().starts_with("`sh`: a program of other is silent for 0 s"), "{late}");
    }
}
