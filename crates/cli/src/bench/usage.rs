//! The means that a process uses, as the system tells them: memory, threads, descriptors, time.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::common::Failed;
use super::process::status_of;

/// The means of a process at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// Bytes of memory that are resident, those that are shared in part: `Pss`.
    pub pss: u64,
    /// Bytes of memory that are resident: `Rss`.
    pub rss: u64,
    /// Threads.
    pub threads: u64,
    /// Open descriptors.
    pub descriptors: u64,
    /// Processor time up to now in milliseconds, in steps of the system's clock.
    pub processor_ms: f64,
}

/// The steps in a second of the times in `/proc`: the same on every Linux.
const TICKS: f64 = 100.0;

impl Usage {
    /// Asks for the means of a process.
    ///
    /// # Errors
    /// There is no such process, or it is another user's.
    pub fn of(process: u32) -> Result<Usage, Failed> {
        let rollup = std::fs::read_to_string(format!("/proc/{process}/smaps_rollup"))?;
        let kib = |name: &str| {
            let line = rollup.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
            kib.ok_or_else(|| format!("/proc/{process}/smaps_rollup has no {name}"))
        };
        Ok(Usage {
            pss: kib("Pss")? * 1024,
            rss: kib("Rss")? * 1024,
            threads: status_of(process, "Threads")?.parse()?,
            descriptors: std::fs::read_dir(format!("/proc/{process}/fd"))?.count() as u64,
            processor_ms: processor_ms_of(process)?,
        })
    }
}

/// Returns the processor time of a process up to now, in milliseconds.
///
/// # Errors
/// There is no such process.
pub fn processor_ms_of(process: u32) -> Result<f64, Failed> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The name, which may have blanks, ends with the last parenthesis.
    let behind = stat.rsplit_once(')').map_or("", |(_, behind)| behind);
    let ticks = |at: usize| behind.split_whitespace().nth(at).and_then(|word| word.parse::<f64>().ok());
    let sum = ticks(11).zip(ticks(12)).map(|(user, system)| user + system);
    Ok(sum.ok_or_else(|| format!("/proc/{process}/stat has no times"))? * 1e3 / TICKS)
}

/// Returns the bytes that a process has handed to the system's writing calls up to now, sockets
/// included.
///
/// # Errors
/// There is no such process.
pub fn written_by(process: u32) -> Result<u64, Failed> {
    let io = std::fs::read_to_string(format!("/proc/{process}/io"))?;
    let written = io.lines().find_map(|line| line.strip_prefix("wchar: ")?.trim().parse().ok());
    Ok(written.ok_or_else(|| format!("/proc/{process}/io has no wchar"))?)
}

/// Raises the limit of open descriptors of this process, and of those that it starts, to so many
/// if it is lower. Returns the limit in effect, which may be less.
pub fn raise_descriptors(wanted: u64) -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let (now, most) = (current.unwrap_or(u64::MAX), maximum.unwrap_or(u64::MAX));
    // The hard limit can be raised by those who may; for others it stays.
    for maximum in [most.max(wanted), most] {
        let current = wanted.max(now).min(maximum);
        if setrlimit(Resource::Nofile, Rlimit { current: Some(current), maximum: Some(maximum) }).is_ok() {
            return current;
        }
    }
    now
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_means() {
        let (before, text) = (Usage::of(std::process::id()).unwrap(), vec![1_u8; 32 << 20]);
        let file = std::fs::File::open("/proc/self/stat").unwrap();
        let after = Usage::of(std::process::id()).unwrap();
        assert!(after.rss >= before.rss + (24 << 20), "{before:?} {after:?} {}", text.len());
        assert!(after.pss <= after.rss && after.threads >= 1);
        assert!(after.descriptors > 3, "{after:?} {file:?}");
        let written = written_by(std::process::id()).unwrap();
        std::fs::write("/dev/null", [0; 1000]).unwrap();
        assert!(written_by(std::process::id()).unwrap() >= written + 1000);
    }

    #[test]
    fn the_limit_of_descriptors_is_told() {
        let now = raise_descriptors(0);
        assert_eq!(raise_descriptors(now), now);
    }
}
