//! A client process of the soak: some clients, each with a thread, a session and an account.
//!
//! It is told its clients with the number of the last answer of each, and says on its output
//! (see [`Line`]) every answer of a batch that must be done once. When its input ends it brings the
//! batches under way to an answer, and ends. It may be killed at any moment: another process then
//! goes on from the answers that were said.
//!
//! Read [`Kind`] first: the batches of a client, of which each has a share. [`Worker::work`]
//! chooses and runs them.

use std::io::Read;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bifrost_veneer::{BatchName, Error, How, Session};
use bifrost_wire::ErrorNumber;

use super::super::common::{Failed, say};
use super::Random;
use super::bifrost_stubs::{Account, Bank, INTERFACE, Tally};

/// The longest time without an answer.
const PATIENCE: Duration = Duration::from_secs(60);
/// The longest time of one crossing.
const CROSSING: Duration = Duration::from_secs(30);
/// The pause before another connection is tried.
const AGAIN: Duration = Duration::from_millis(20);
/// The time between two lines of counts.
const COUNTS: Duration = Duration::from_millis(250);
/// The time that a client waits for changes of others.
const WAIT: Duration = Duration::from_millis(50);
/// The longest text that an account keeps.
const TEXT_BYTES_MAX: u64 = 2000;

/// A batch, or some that belong together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A named batch, which must be done once: it counts in the client's own account.
    Once,
    /// Reads of the own account, which no other client counts in, and of another one.
    Read,
    /// Loops, conditions and tables.
    Structure,
    /// A transaction that moves an amount between two accounts.
    Transfer,
    /// A transaction that reads all accounts: their sum is 0.
    Total,
    /// A transaction that keeps a text.
    Note,
    /// A wait for a change of others.
    Wait,
    /// A live batch, up to its second result.
    Live,
    /// Messages to an actor, with and without answer.
    Actor,
    /// A call that signals.
    Failure,
    /// The end of the session; another begins.
    Reopen,
}

impl Kind {
    /// All kinds, each with its name and its share of a thousand.
    pub const ALL: [(Kind, &'static str, u64); 11] = [
        (Kind::Once, "once", 300),
        (Kind::Read, "read", 200),
        (Kind::Structure, "structure", 130),
        (Kind::Transfer, "transfer", 120),
        (Kind::Total, "total", 10),
        (Kind::Note, "note", 80),
        (Kind::Wait, "wait", 20),
        (Kind::Live, "live", 20),
        (Kind::Actor, "actor", 60),
        (Kind::Failure, "failure", 50),
        (Kind::Reopen, "reopen", 10),
    ];

    fn choose(random: &mut Random) -> usize {
        let mut left = random.below(1000);
        for (at, (_, _, share)) in Kind::ALL.iter().enumerate() {
            match left.checked_sub(*share) {
                Some(rest) => left = rest,
                None => return at,
            }
        }
        0
    }
}

/// A line of a client process's output.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Line {
    /// A client's batch with this number was answered.
    Answer(usize, i64),
    /// The batches of each kind since the last such line, and the conflicts.
    Counts(Vec<u64>, u64),
    /// Something is wrong.
    Mistake(String),
}

impl std::fmt::Display for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Line::Answer(client, number) => write!(f, "answer {client} {number}"),
            Line::Counts(counts, conflicts) => {
                write!(f, "counts {conflicts}")?;
                counts.iter().try_for_each(|count| write!(f, " {count}"))
            }
            Line::Mistake(text) => write!(f, "mistake {}", text.replace('\n', "; ")),
        }
    }
}

impl Line {
    /// Reads a line; nothing if the process was killed within it.
    pub fn read(line: &str) -> Option<Line> {
        let (word, rest) = line.strip_suffix('\n')?.split_once(' ')?;
        match word {
            "mistake" => Some(Line::Mistake(rest.to_owned())),
            "answer" => {
                let (client, number) = rest.split_once(' ')?;
                Some(Line::Answer(client.parse().ok()?, number.parse().ok()?))
            }
            "counts" => {
                let mut numbers = rest.split(' ').map(|word| word.parse().ok());
                let conflicts = numbers.next()??;
                Some(Line::Counts(numbers.collect::<Option<_>>()?, conflicts))
            }
            _ => None,
        }
    }
}

/// The state that the threads of a client process share.
#[derive(Default)]
struct Shared {
    over: AtomicBool,
    counts: [AtomicU64; Kind::ALL.len()],
    conflicts: AtomicU64,
}

impl Shared {
    /// Says a line; a driver that is gone needs none.
    fn say(&self, line: &Line) {
        if say(&line.to_string()).is_err() {
            self.over.store(true, Ordering::Relaxed);
        }
    }

    fn say_counts(&self) {
        let counts = self.counts.iter().map(|count| count.swap(0, Ordering::Relaxed)).collect();
        self.say(&Line::Counts(counts, self.conflicts.swap(0, Ordering::Relaxed)));
    }
}

/// Runs some clients: the client process. `accounts` is the number of all accounts, of which the
/// last is changed by the driver now and then. `clients` has each client's number, from 0, and the
/// number of its last answer: `3:17`.
///
/// # Errors
/// The arguments make no sense.
pub fn serve(url: &str, seed: u64, accounts: i64, clients: &[String]) -> Result<(), Failed> {
    let shared = Shared::default();
    let mut workers = Vec::new();
    for client in clients {
        let numbers = client.split_once(':').and_then(|(client, answers)| {
            Some((client.parse::<usize>().ok()?, answers.parse::<i64>().ok()?))
        });
        let (client, answers) = numbers.ok_or_else(|| format!("`{client}` is no client with its answers"))?;
        let mut random = Random::new(seed ^ (client as u64) << 32 ^ answers as u64);
        random.next();
        // The process before this one may have sent the next batch, and been killed before the
        // answer.
        let sent = answers + 1;
        workers.push(Worker { shared: &shared, url, client, accounts, answers, sent, random });
    }
    let running = &AtomicU64::new(workers.len() as u64);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // The driver closes it at the end, and its end closes it too.
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
            shared.over.store(true, Ordering::Relaxed);
        });
        for mut worker in workers {
            scope.spawn(move || {
                worker.run();
                running.fetch_sub(1, Ordering::Release);
            });
        }
        while running.load(Ordering::Acquire) > 0 {
            std::thread::sleep(COUNTS);
            shared.say_counts();
        }
    });
    Ok(())
}

/// One client.
struct Worker<'a> {
    shared: &'a Shared,
    url: &'a str,
    client: usize,
    accounts: i64,
    /// The number of the last batch that was answered, of those that must be done once.
    answers: i64,
    /// The number of the last one that was sent.
    sent: i64,
    random: Random,
}

/// The end of a session, as a client sees it.
enum End {
    /// The client is done.
    Over,
    /// It opens another session.
    Again,
}

/// The objects of a session.
struct Objects {
    bank: Bank,
    own: Account,
    pulse: Account,
    tally: Tally,
}

/// A fault of the server that the soak has found, or an error of the session.
enum Fault {
    Error(Error),
    Wrong(String),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        Fault::Error(error)
    }
}

impl Worker<'_> {
    fn run(&mut self) {
        let mut since = Instant::now();
        loop {
            let answers = self.answers;
            let connected = Session::builder(&INTERFACE).timeout(CROSSING).connect(self.url);
            let ended = connected.map(|session| self.work(&session, &mut since));
            match ended {
                Ok(End::Over) => return,
                Ok(End::Again) if self.answers > answers => since = Instant::now(),
                Ok(End::Again) | Err(_) => std::thread::sleep(AGAIN),
            }
            if since.elapsed() > PATIENCE {
                return self.mistake(format!("no answer within {} s", PATIENCE.as_secs()));
            }
        }
    }

    fn mistake(&self, text: impl std::fmt::Display) {
        self.shared.say(&Line::Mistake(format!("client {}: {text}", self.client)));
    }

    /// Runs batches in a session until it ends.
    fn work(&mut self, session: &Session, since: &mut Instant) -> End {
        let bank: Bank = session.lookup("bank");
        let (own, pulse) = (bank.account(self.client as i64 + 1), bank.account(self.accounts));
        let objects = Objects { own, pulse, tally: session.lookup("tally"), bank };
        loop {
            let unanswered = self.sent > self.answers;
            if self.shared.over.load(Ordering::Relaxed) && !unanswered {
                return End::Over;
            }
            // Index 0 is that of the named batch.
            let at = if unanswered { 0 } else { Kind::choose(&mut self.random) };
            let (kind, name, _) = Kind::ALL[at];
            let ran = self.batch(kind, session, &objects);
            match ran {
                Ok(()) => {
                    *since = Instant::now();
                    self.shared.counts[at].fetch_add(1, Ordering::Relaxed);
                    if kind == Kind::Reopen {
                        return End::Again;
                    }
                }
                Err(Fault::Error(Error::Closed(_))) => return End::Again,
                // Another client was first, and nothing was done.
                Err(Fault::Error(error)) if is_conflict(&error) => {
                    self.shared.conflicts.fetch_add(1, Ordering::Relaxed);
                    session.clear_exceptions();
                }
                Err(Fault::Error(error)) => {
                    self.mistake(format!("{name}: {error}"));
                    return End::Over;
                }
                Err(Fault::Wrong(text)) => {
                    self.mistake(format!("{name}: {text}"));
                    return End::Over;
                }
            }
        }
    }

    fn other(&mut self) -> i64 {
        let others = self.accounts as u64 - 1;
        1 + (self.client as u64 + 1 + self.random.below(others)) as i64 % self.accounts
    }

    fn text(&mut self) -> String {
        let length = self.random.below(TEXT_BYTES_MAX) as usize;
        "text ".chars().cycle().take(length).collect()
    }

    fn batch(&mut self, kind: Kind, s: &Session, o: &Objects) -> Result<(), Fault> {
        match kind {
            Kind::Once => self.once(s, o)?,
            Kind::Read => {
                let other = o.bank.account(self.other());
                let (count, balance) = (o.own.count(), other.balance());
                expect("the own count", count.claim()?, self.answers)?;
                balance.claim()?;
                s.commit().claim()?;
            }
            Kind::Structure => self.structure(s, o)?,
            Kind::Transfer => {
                let (taker, amount) = (self.other(), self.random.below(100) as i64);
                s.transaction(How::default(), || o.bank.transfer(self.client as i64 + 1, taker, amount))?;
            }
            Kind::Total => {
                let total = s.transaction(How::default(), || o.bank.total())?;
                expect("the sum of all balances", total.claim()?, 0)?;
            }
            Kind::Note => {
                let text = self.text();
                s.transaction(How::default(), || o.own.note(text.as_str()))?;
            }
            Kind::Wait => {
                o.pulse.count().claim()?;
                s.wait(WAIT).claim()?;
                s.abort().claim()?;
            }
            Kind::Live => {
                let counts = s.live(|| o.pulse.count()).take(2).collect::<Result<Vec<_>, _>>()?;
                s.abort().claim()?;
                if let [first, second] = counts[..]
                    && second <= first
                {
                    return Err(Fault::Wrong(format!("a live count went from {first} to {second}")));
                }
            }
            Kind::Actor => {
                o.tally.send().add(1);
                let sum = o.tally.add(2);
                let (sum, later) = (sum.claim()?, o.tally.current().claim()?);
                s.commit().claim()?;
                if later < sum {
                    return Err(Fault::Wrong(format!("the tally went from {sum} to {later}")));
                }
            }
            Kind::Failure => {
                let failed = o.bank.account(-1).balance().claim();
                match failed {
                    Err(error @ Error::Closed(_)) => return Err(error.into()),
                    Err(Error::Unhandled { .. }) => {}
                    other => return Err(Fault::Wrong(format!("no account, and {other:?}"))),
                }
                s.clear_exceptions();
                s.abort().claim()?;
            }
            // Half of the sessions say goodbye.
            Kind::Reopen => {
                if self.random.below(2) == 0 {
                    s.clone().close()?;
                }
            }
        }
        Ok(())
    }

    /// Sends the named batch that is not answered, or the next one.
    fn once(&mut self, s: &Session, o: &Objects) -> Result<(), Fault> {
        let number = self.answers + 1;
        // Drivers with other seeds have stores of their own.
        let name = BatchName { client: self.client as u128 + 1, number: number as u64 };
        self.sent = number;
        let text = format!("batch {number}");
        let count = s.transaction(How::default().named(name), || {
            o.own.note(text.as_str());
            o.own.add()
        })?;
        expect("the count of a named batch", count.claim()?, number)?;
        self.answers = number;
        self.shared.say(&Line::Answer(self.client, number));
        Ok(())
    }

    /// Runs structures, of one of many shapes: a server keeps those that it has seen.
    fn structure(&mut self, s: &Session, o: &Objects) -> Result<(), Fault> {
        let (rounds, calls) = (1 + self.random.below(50) as i64, self.random.below(8));
        let sum = s.cell_with::<i64>(0);
        s.foreach(s.value(1_i64).to(rounds), |i| {
            sum.put(sum.get() + &i);
            s.if_(i.gt(rounds), || {
                for _ in 0..calls {
                    drop(o.own.balance());
                }
            });
        });
        let left = s.cell_with::<i64>(rounds);
        s.while_(|| left.get().gt(0), || drop(left.put(left.get() - 1)));
        let (sum, left) = (sum.get(), left.get());
        let rows = s.collect(o.own.notes(), |text| (text.clone(), text.length()));
        expect("the sum of a loop", sum.claim()?, rounds * (rounds + 1) / 2)?;
        expect("the rest of a loop", left.claim()?, 0)?;
        for (text, length) in rows.claim()? {
            expect("the length of a text", text.len() as i64, length)?;
        }
        Ok(s.commit().claim()?)
    }
}

fn expect(name: &str, is: i64, should_be: i64) -> Result<(), Fault> {
    match is == should_be {
        true => Ok(()),
        false => Err(Fault::Wrong(format!("{name} is {is}, not {should_be}"))),
    }
}

/// True if the transaction was given up because of others.
fn is_conflict(error: &Error) -> bool {
    matches!(error.root(), Error::Refused { number, .. } if ErrorNumber::is_overtaken(*number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_whole_or_not_at_all() {
        for line in [
            Line::Answer(7, 1234),
            Line::Counts((1..=Kind::ALL.len() as u64).collect(), 5),
            Line::Mistake("client 3: read: the own count is 1, not 2".to_owned()),
        ] {
            assert_eq!(Line::read(&format!("{line}\n")), Some(line.clone()));
            assert_eq!(Line::read(&line.to_string()), None);
        }
        assert_eq!(Line::read("answer 7 x\n"), None);
        assert_eq!(Line::Mistake("two\nlines".to_owned()).to_string(), "mistake two; lines");
    }

    #[test]
    fn shares_are_those_of_a_thousand() {
        assert_eq!(Kind::ALL.iter().map(|(_, _, share)| share).sum::<u64>(), 1000);
        let mut random = Random::new(1);
        let mut seen = [0; Kind::ALL.len()];
        (0..10_000).for_each(|_| seen[Kind::choose(&mut random)] += 1);
        assert!(seen.iter().all(|count| *count > 0), "{seen:?}");
        assert_eq!(Kind::ALL[0].0, Kind::Once);
    }
}
