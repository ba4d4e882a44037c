//! [`Subject`]: a system with a file server, as the experiments see it.
//!
//! A subject starts a [`Server`] with a number of tasks. The server gets clients, each of which
//! copies a file of its own; [`Server::run`] has all of them work at once. The server counts
//! invocations, which [`Counts`] carries: QLENGTH and NACTIVE are sums of it, divided by the number
//! of invocations (004 section 6.2).

use std::path::{Path, PathBuf};

use clap::ValueEnum;

use super::super::common::Failed;

/// The name of this program's own server in tables and files.
pub const OURS: &str = "bifrost";

/// A transport.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Over {
    /// Shared memory
    Shm,
    /// Unix sockets
    Unix,
    /// TCP on the loopback address
    Tcp,
    /// The same with TLS
    Tls,
}

impl Over {
    /// Returns its name in tables and files.
    pub fn name(self) -> &'static str {
        match self {
            Over::Shm => "shm",
            Over::Unix => "unix",
            Over::Tcp => "tcp",
            Over::Tls => "tls",
        }
    }
}

/// The way in which a client copies a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// Each read when the one before is answered, as in the paper.
    Single,
    /// Several reads under way, which do not wait for each other.
    Flight,
    /// All reads in one batch.
    Batch,
    /// One call that answers in parts.
    Stream,
    /// The whole file in one read, or in one crossing.
    Whole,
}

impl Way {
    /// All of them.
    pub const ALL: [Way; 5] = [Way::Single, Way::Flight, Way::Batch, Way::Stream, Way::Whole];

    /// Returns its name in tables and files.
    pub fn name(self) -> &'static str {
        match self {
            Way::Single => "single",
            Way::Flight => "flight",
            Way::Batch => "batch",
            Way::Stream => "stream",
            Way::Whole => "whole",
        }
    }
}

/// The simulated work before a read.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Slow {
    /// Microseconds of processor time.
    pub compute_us: u32,
    /// Microseconds of sleep.
    pub block_us: u32,
}

/// The work of a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// Opens its file, reads all of it, and closes it.
    Copy {
        way: Way,
        /// Reads under way with [`Way::Flight`].
        flight: u32,
        slow: Slow,
    },
    /// So many calls of an operation that does nothing, each when the one before is answered.
    Null(u32),
    /// The same by a loop at the server, in one crossing: only our system has this.
    Loop(u32),
}

/// The figures of one client's work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Done {
    /// Nanoseconds that passed.
    pub ns: u64,
    /// Pairs of crossings.
    pub crossings: u64,
    /// Processor time of the client in nanoseconds.
    pub cpu_ns: u64,
}

/// The counts of a server since its start; those that a system does not have are absent.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    /// Invocations that tasks have dequeued.
    pub taken: u64,
    /// Invocations that waited when each of them arrived, without it.
    pub queue_length_sum: Option<u64>,
    /// Tasks that were active when each of them was dequeued, without its own.
    pub active_sum: u64,
    /// Nanoseconds from their arrival until they were dequeued.
    pub waited_ns: Option<u64>,
    /// Nanoseconds that tasks have worked on them.
    pub ran_ns: u64,
    /// Processor time of the server in nanoseconds.
    pub cpu_ns: u64,
}

impl Counts {
    /// Returns the counts since an earlier moment.
    pub fn since(&self, before: &Counts) -> Counts {
        let less = |now: Option<u64>, before: Option<u64>| Some(now?.saturating_sub(before?));
        Counts {
            taken: self.taken.saturating_sub(before.taken),
            queue_length_sum: less(self.queue_length_sum, before.queue_length_sum),
            active_sum: self.active_sum.saturating_sub(before.active_sum),
            waited_ns: less(self.waited_ns, before.waited_ns),
            ran_ns: self.ran_ns.saturating_sub(before.ran_ns),
            cpu_ns: self.cpu_ns.saturating_sub(before.cpu_ns),
        }
    }

    /// Adds the counts of another stretch of time.
    pub fn add(&mut self, other: &Counts) {
        let sum = |a: Option<u64>, b: Option<u64>| Some(a? + b?);
        *self = Counts {
            taken: self.taken + other.taken,
            queue_length_sum: sum(self.queue_length_sum, other.queue_length_sum),
            active_sum: self.active_sum + other.active_sum,
            waited_ns: sum(self.waited_ns, other.waited_ns),
            ran_ns: self.ran_ns + other.ran_ns,
            cpu_ns: self.cpu_ns + other.cpu_ns,
        };
    }

    /// Returns counts of no invocation, to which others are added.
    pub fn none() -> Counts {
        Counts { queue_length_sum: Some(0), waited_ns: Some(0), ..Counts::default() }
    }
}

/// A system that is measured.
pub trait Subject {
    /// Returns its name in tables and files.
    fn name(&self) -> &'static str;
    /// Returns true if it is measured over a transport.
    fn goes_over(&self, over: Over) -> bool;
    /// Returns the ways in which its clients copy.
    fn ways(&self) -> &'static [Way];
    /// Starts a server of the folder with the files; its own files go to `place`, an empty folder.
    ///
    /// # Errors
    /// It does not start.
    fn start<'a>(
        &'a self,
        over: Over,
        tasks: u32,
        files: &'a Files,
        place: &Path,
    ) -> Result<Box<dyn Server + 'a>, Failed>;
}

/// A server, which ends when it is dropped, and its clients.
pub trait Server {
    /// Has so many clients, of which number i copies file i.
    ///
    /// # Errors
    /// One does not start, or finds that the server does not do what it should.
    fn connect(&mut self, clients: u32) -> Result<(), Failed>;
    /// Has all clients work at once, and returns the figures of each.
    ///
    /// # Errors
    /// One fails, or its copy is not the file.
    fn run(&mut self, work: &Work) -> Result<Vec<Done>, Failed>;
    /// Asks the server for its counts.
    ///
    /// # Errors
    /// It does not answer.
    fn counts(&mut self) -> Result<Counts, Failed>;
}

/// The files that are copied: of equal length, with different contents.
pub struct Files {
    folder: tempfile::TempDir,
    /// The bytes of a file.
    pub size: u64,
    /// The bytes of a read.
    pub block: u64,
}

impl Files {
    /// Makes so many files.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn create(number: u32, size: u64, block: u64) -> Result<Files, Failed> {
        let files = Files { folder: tempfile::tempdir()?, size, block };
        let mut bytes = vec![0; usize::try_from(size)?];
        for file in 0..number {
            getrandom::fill(&mut bytes)?;
            std::fs::write(files.path(file), &bytes)?;
        }
        Ok(files)
    }

    /// Returns the folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the name of a file.
    pub fn name(&self, number: u32) -> String {
        format!("file-{number}")
    }

    /// Returns the path of a file.
    pub fn path(&self, number: u32) -> PathBuf {
        self.folder.path().join(self.name(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_that_a_system_does_not_have_stay_absent() {
        let counts = |taken, queue| Counts { taken, queue_length_sum: queue, ..Counts::default() };
        let since = counts(9, Some(7)).since(&counts(4, Some(2)));
        assert_eq!((since.taken, since.queue_length_sum, since.waited_ns), (5, Some(5), None));
        let mut sum = Counts::none();
        sum.add(&since);
        sum.add(&since);
        assert_eq!((sum.taken, sum.queue_length_sum, sum.waited_ns), (10, Some(10), None));
    }

    #[test]
    fn files_differ_and_have_their_size() {
        let files = Files::create(2, 100, 7).unwrap();
        let read = |number| std::fs::read(files.path(number)).unwrap();
        assert_eq!((read(0).len(), read(1).len()), (100, 100));
        assert_ne!(read(0), read(1));
    }
}
