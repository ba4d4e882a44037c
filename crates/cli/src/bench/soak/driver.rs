//! The driver's side of the soak: client processes, the ledger of their answers, kills and stops.
//!
//! Read [`Ledger`] first, and [`Herd`]: the client processes. Each has a thread that reads its
//! lines into the ledger. A process that is killed is started again with the answers that the
//! ledger has.
//!
//! ```text
//! running --SIGSTOP--> stopped --its time is over, SIGCONT--> running
//! running, stopped --SIGKILL, its last lines are read--> gone --started again--> running
//! ```

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};

use super::super::common::Failed;
use super::Random;
use super::client::{Kind, Line};

/// The mistakes that are kept.
const MISTAKES_MAX: usize = 20;
/// The time between two kills or stops of client processes.
const BETWEEN_MS: std::ops::Range<u64> = 100..900;
/// The time that a client process is stopped.
const STOPPED_MS: std::ops::Range<u64> = 20..2000;
/// The time between two stops of the server.
const SERVER_BETWEEN_MS: std::ops::Range<u64> = 2000..8000;
/// The time that the server is stopped.
const SERVER_STOPPED_MS: std::ops::Range<u64> = 20..500;
/// The longest time in which clients come to their end.
const END: Duration = Duration::from_secs(90);

/// The answers of all clients, kept outside the server.
#[derive(Default)]
pub struct Ledger {
    /// The number of the last answered batch of each client.
    pub answers: Vec<i64>,
    /// The batches of each kind.
    pub counts: [u64; Kind::ALL.len()],
    pub conflicts: u64,
    pub mistakes: Vec<String>,
}

impl Ledger {
    /// Makes the ledger of so many clients.
    pub fn new(clients: usize) -> Ledger {
        Ledger { answers: vec![0; clients], ..Ledger::default() }
    }

    /// Enters a line of a client process.
    fn enter(&mut self, line: Line) {
        match line {
            Line::Answer(client, number) => match self.answers.get_mut(client) {
                Some(last) if number == *last + 1 => *last = number,
                Some(last) => {
                    let text = format!("client {client} says that batch {number} follows {last}");
                    self.mistake(text);
                }
                None => self.mistake(format!("an answer of client {client}, whom nobody knows")),
            },
            Line::Counts(counts, conflicts) => {
                self.counts.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
                self.conflicts += conflicts;
            }
            Line::Mistake(text) => self.mistake(text),
        }
    }

    /// Keeps a mistake, if there are not many already.
    pub fn mistake(&mut self, text: String) {
        if self.mistakes.len() < MISTAKES_MAX {
            self.mistakes.push(text);
        }
    }
}

/// Sends a signal to a process that this one has started and not awaited.
///
/// # Errors
/// The system refuses.
pub fn signal(process: u32, signal: Signal) -> Result<(), Failed> {
    let pid = i32::try_from(process).ok().and_then(Pid::from_raw).ok_or("no such process")?;
    Ok(kill_process(pid, signal)?)
}

/// One client process.
struct ClientProcess {
    child: Child,
    reader: Option<JoinHandle<()>>,
    clients: std::ops::Range<usize>,
}

impl ClientProcess {
    /// Kills it, and waits until its last lines are in the ledger.
    fn kill(&mut self) {
        // Fails if it has ended by itself.
        let _ = self.child.kill();
        self.await_end();
    }

    fn await_end(&mut self) {
        let _ = self.child.wait();
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

impl Drop for ClientProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The kills and stops up to now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Blows {
    pub kills: u64,
    pub stops: u64,
    pub server_stops: u64,
}

/// All client processes.
pub struct Herd {
    url: String,
    seed: u64,
    accounts: i64,
    server: u32,
    ledger: Arc<Mutex<Ledger>>,
    processes: Vec<ClientProcess>,
    random: Random,
    /// The processes that are stopped, by index, with the time at which they go on.
    stopped: HashMap<usize, Instant>,
    next: Instant,
    server_next: Instant,
    server_goes_on: Option<Instant>,
    pub blows: Blows,
}

impl Herd {
    /// Starts processes for all clients of the ledger, each with so many. `server` is the server's
    /// process.
    ///
    /// # Errors
    /// The system starts no more processes.
    pub fn start(
        (url, server): (String, u32),
        seed: u64,
        share: usize,
        ledger: Arc<Mutex<Ledger>>,
    ) -> Result<Herd, Failed> {
        let clients = ledger.lock().answers.len();
        let now = Instant::now();
        let mut herd = Herd {
            url,
            seed,
            // The last one is the driver's.
            accounts: clients as i64 + 1,
            server,
            ledger,
            processes: Vec::new(),
            random: Random::new(seed),
            stopped: HashMap::new(),
            next: now,
            server_next: now,
            server_goes_on: None,
            blows: Blows::default(),
        };
        for first in (0..clients).step_by(share) {
            let process = herd.start_one(first..clients.min(first + share))?;
            herd.processes.push(process);
        }
        herd.next = now + herd.random.ms(BETWEEN_MS);
        herd.server_next = now + herd.random.ms(SERVER_BETWEEN_MS);
        Ok(herd)
    }

    fn start_one(&mut self, clients: std::ops::Range<usize>) -> Result<ClientProcess, Failed> {
        let mut command = Command::new(std::env::current_exe()?);
        let seed = (self.seed ^ self.blows.kills << 20).to_string();
        command.args(["bench", "soak-clients", &self.url, &seed, &self.accounts.to_string()]);
        {
            let ledger = self.ledger.lock();
            let answers = clients.clone().zip(ledger.answers.iter().skip(clients.start));
            command.args(answers.map(|(client, answers)| format!("{client}:{answers}")));
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let output = child.stdout.take();
        let ledger = self.ledger.clone();
        let reader = std::thread::spawn(move || {
            let Some(output) = output else { return };
            let mut output = BufReader::new(output);
            let mut line = String::new();
            while output.read_line(&mut line).is_ok_and(|read| read > 0) {
                if let Some(line) = Line::read(&line) {
                    ledger.lock().enter(line);
                }
                line.clear();
            }
        });
        Ok(ClientProcess { child, reader: Some(reader), clients })
    }

    /// Does what is due: kills, stops, goes on.
    ///
    /// # Errors
    /// A process cannot be started again, or a signal is refused.
    pub fn attend(&mut self) -> Result<(), Failed> {
        let now = Instant::now();
        let over: Vec<usize> =
            self.stopped.iter().filter(|(_, until)| **until <= now).map(|(at, _)| *at).collect();
        for at in over {
            self.go_on(at)?;
        }
        if self.server_goes_on.is_some_and(|until| until <= now) {
            self.server_goes_on()?;
        } else if self.server_goes_on.is_none() && self.server_next <= now {
            signal(self.server, Signal::STOP)?;
            self.server_goes_on = Some(now + self.random.ms(SERVER_STOPPED_MS));
            self.blows.server_stops += 1;
        }
        if self.next <= now && !self.processes.is_empty() {
            self.next = now + self.random.ms(BETWEEN_MS);
            let at = self.random.below(self.processes.len() as u64) as usize;
            if self.random.below(2) == 0 {
                self.kill(at)?;
            } else if !self.stopped.contains_key(&at) {
                signal(self.processes[at].child.id(), Signal::STOP)?;
                self.stopped.insert(at, now + self.random.ms(STOPPED_MS));
                self.blows.stops += 1;
            }
        }
        Ok(())
    }

    fn kill(&mut self, at: usize) -> Result<(), Failed> {
        self.stopped.remove(&at);
        self.processes[at].kill();
        self.blows.kills += 1;
        let clients = self.processes[at].clients.clone();
        self.processes[at] = self.start_one(clients)?;
        Ok(())
    }

    fn go_on(&mut self, at: usize) -> Result<(), Failed> {
        self.stopped.remove(&at);
        signal(self.processes[at].child.id(), Signal::CONT)
    }

    fn server_goes_on(&mut self) -> Result<(), Failed> {
        self.server_goes_on = None;
        self.server_next = Instant::now() + self.random.ms(SERVER_BETWEEN_MS);
        signal(self.server, Signal::CONT)
    }

    /// Lets all go on, and waits until every client has brought its batch to an answer.
    ///
    /// # Errors
    /// A process does not end.
    pub fn end(&mut self) -> Result<(), Failed> {
        self.server_goes_on()?;
        let stopped: Vec<usize> = self.stopped.keys().copied().collect();
        for at in stopped {
            self.go_on(at)?;
        }
        for process in &mut self.processes {
            drop(process.child.stdin.take());
        }
        let until = Instant::now() + END;
        for mut process in self.processes.drain(..) {
            while process.child.try_wait()?.is_none() {
                if Instant::now() > until {
                    return Err(format!("the clients {:?} do not end", process.clients).into());
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            process.await_end();
        }
        Ok(())
    }
}

impl Drop for Herd {
    fn drop(&mut self) {
        // A stopped server would not even end.
        let _ = self.server_goes_on();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_that_do_not_follow_are_mistakes() {
        let mut ledger = Ledger::new(2);
        [1, 2].into_iter().for_each(|number| ledger.enter(Line::Answer(1, number)));
        assert_eq!((&ledger.answers[..], ledger.mistakes.len()), (&[0, 2][..], 0));
        ledger.enter(Line::Answer(1, 4));
        ledger.enter(Line::Answer(1, 2));
        ledger.enter(Line::Answer(2, 1));
        assert_eq!((&ledger.answers[..], ledger.mistakes.len()), (&[0, 2][..], 3));
        ledger.enter(Line::Counts(vec![1; Kind::ALL.len()], 3));
        ledger.enter(Line::Counts(vec![2; Kind::ALL.len()], 4));
        assert_eq!((ledger.counts, ledger.conflicts), ([3; Kind::ALL.len()], 7));
    }
}
