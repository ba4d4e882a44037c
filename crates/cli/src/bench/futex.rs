//! The least that a call to another thread can cost: two sleepers that wake each other by a futex.
//!
//! [`Turn`] is a word that says whose turn it is. Each side sleeps until it is its own, and passes
//! it on: no side spins, so an exchange is two wake-ups. Both sides are threads of one process, or
//! of two processes that share the word ([`super::raw`]).

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use rustix::io::Errno;
use rustix::thread::futex;

use super::common::{Failed, pin, say};
use super::helper::Helper;
use super::raw;

/// The turn of the asking side, of the answering side, and the end.
const ASKS: u32 = 0;
const ANSWERS: u32 = 1;
const END: u32 = 2;
/// Exchanges of a sample.
const EXCHANGES: u32 = 2000;

/// The word.
#[repr(C, align(128))]
pub struct Turn(AtomicU32);

impl Turn {
    /// Makes a word on which the asking side has its turn.
    pub fn new() -> Turn {
        Turn(AtomicU32::new(ASKS))
    }

    /// Passes the turn to the other side.
    fn pass(&self, to: u32, flags: futex::Flags) -> Result<(), Failed> {
        // Release: pairs with the Acquire in `wait`.
        self.0.store(to, Ordering::Release);
        futex::wake(&self.0, flags, 1)?;
        Ok(())
    }

    /// Sleeps while the word has a value; returns the next one.
    fn wait(&self, while_it_is: u32, flags: futex::Flags) -> Result<u32, Failed> {
        loop {
            match self.0.load(Ordering::Acquire) {
                now if now != while_it_is => return Ok(now),
                now => match futex::wait(&self.0, flags, now, None) {
                    // AGAIN: the word has changed in between.
                    Ok(()) | Err(Errno::AGAIN | Errno::INTR) => {}
                    Err(error) => return Err(error.into()),
                },
            }
        }
    }

    /// Answers until the end.
    fn answer(&self, flags: futex::Flags) -> Result<(), Failed> {
        while self.wait(ASKS, flags)? != END {
            self.pass(ASKS, flags)?;
        }
        Ok(())
    }

    /// Measures so many samples of an exchange in microseconds; one before them does not count.
    fn ask(&self, samples: u32, flags: futex::Flags) -> Result<Vec<f64>, Failed> {
        let mut times = Vec::new();
        for _ in 0..=samples {
            let start = Instant::now();
            for _ in 0..EXCHANGES {
                self.pass(ANSWERS, flags)?;
                self.wait(ANSWERS, flags)?;
            }
            times.push(start.elapsed().as_secs_f64() * 1e6 / f64::from(EXCHANGES));
        }
        self.pass(END, flags)?;
        Ok(times.split_off(1))
    }
}

/// Runs one side on a thread, which is pinned to a core if one is named.
fn start<T: Send + 'static>(
    core: Option<usize>,
    side: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> std::thread::JoinHandle<Result<T, String>> {
    std::thread::spawn(move || {
        core.into_iter().for_each(pin);
        side()
    })
}

fn joined<T>(side: std::thread::JoinHandle<Result<T, String>>) -> Result<T, Failed> {
    Ok(side.join().map_err(|_| "a side of the exchange has panicked")??)
}

/// The cores of the two sides; nothing where the system chooses.
pub type Cores = Option<[usize; 2]>;

/// Measures exchanges of two threads, in microseconds.
///
/// # Errors
/// The system has no futex.
pub fn between_threads(samples: u32, cores: Cores) -> Result<Vec<f64>, Failed> {
    let turn = Arc::new(Turn::new());
    let flags = futex::Flags::PRIVATE;
    let other = Arc::clone(&turn);
    let answering =
        start(cores.map(|cores| cores[1]), move || other.answer(flags).map_err(|error| error.to_string()));
    let asking = start(cores.map(|cores| cores[0]), move || {
        turn.ask(samples, flags).map_err(|error| error.to_string())
    });
    let times = joined(asking)?;
    joined(answering)?;
    Ok(times)
}

/// Measures exchanges of two processes, in microseconds.
///
/// # Errors
/// The other process does not start, or the system has no futex.
pub fn between_processes(samples: u32, cores: Cores) -> Result<Vec<f64>, Failed> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("turn");
    std::fs::write(&file, [0; raw::PAGE])?;
    let (path, core) = (file.display().to_string(), cores.map(|cores| cores[1].to_string()));
    let arguments: Vec<&str> = ["futex", &path].into_iter().chain(core.as_deref()).collect();
    let mut helper = Helper::start(&arguments)?;
    helper.ready()?;
    let lines = raw::map(&file)?;
    joined(start(cores.map(|cores| cores[0]), move || {
        lines.turn.ask(samples, futex::Flags::empty()).map_err(|error| error.to_string())
    }))
}

/// Runs the answering side of [`between_processes`].
///
/// # Errors
/// The memory cannot be mapped.
pub fn serve(file: &Path, core: Option<usize>) -> Result<(), Failed> {
    core.into_iter().for_each(pin);
    let lines = raw::map(file)?;
    say("ready")?;
    lines.turn.answer(futex::Flags::empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_threads_wake_each_other() {
        for cores in [None, Some([0, 0])] {
            let times = between_threads(3, cores).unwrap();
            assert!(times.len() == 3 && times.iter().all(|us| *us > 0.0), "{times:?}");
        }
    }

    #[test]
    fn a_turn_that_was_passed_early_is_not_missed() {
        let turn = Turn::new();
        turn.pass(ANSWERS, futex::Flags::PRIVATE).unwrap();
        assert_eq!(turn.wait(ASKS, futex::Flags::PRIVATE).unwrap(), ANSWERS);
    }
}
