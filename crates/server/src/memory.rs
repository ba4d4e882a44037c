//! The memory of all heaps of a server together.
//!
//! [`Memory`] counts the chunks and the large objects of all heaps against one limit. Each context
//! has a [`Share`] of it, which its heap asks. A heap of at most [`SMALL_BYTES`] gets memory up to
//! the limit, a larger one up to seven eighths of it: sessions that need little work while others
//! fill the server.
//!
//! A heap that gets nothing is collected first. Then the largest batch of all that run is ended, of
//! about equal ones the newest: either the one that asks, or another one, whose memory is waited
//! for.

use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use bifrost_heap::{Need, Source};
use bifrost_runtime::cx::{Kill, Poll};
use bifrost_workers::{Condvar, Reason};
use parking_lot::Mutex;

/// Bytes up to which a heap is small: the need of a session that has few objects.
pub(crate) const SMALL_BYTES: usize = 4 << 20;

/// The time that a heap waits for the memory of batches that were ended.
const WITHIN: Duration = Duration::from_secs(1);

/// The time between two looks at the running batches.
const LOOK: Duration = Duration::from_millis(10);

/// The memory of all heaps of a server.
#[derive(Debug)]
pub struct Memory {
    /// The limit, in bytes.
    most: usize,
    /// Bytes that all heaps have.
    taken: AtomicUsize,
    /// Counts the batches that have taken something.
    batches: AtomicU64,
    shares: Mutex<Vec<Weak<Share>>>,
    /// Signals that bytes were given back.
    given: Condvar,
}

/// The part of the memory that one context has.
#[derive(Debug)]
pub(crate) struct Share {
    memory: Arc<Memory>,
    /// Ends the context's batch; nothing for contexts whose work is no batch.
    poll: Option<Arc<Poll>>,
    held: AtomicUsize,
    /// The epoch of the run that has taken bytes last, its number among all batches, and how many
    /// bytes it has taken.
    epoch: AtomicU64,
    batch: AtomicU64,
    grown: AtomicUsize,
    /// The epoch of the run that was ended last.
    ended: AtomicU64,
}

impl Memory {
    /// Memory of at most so many bytes.
    pub fn new(most: usize) -> Arc<Memory> {
        Arc::new(Memory {
            most,
            taken: AtomicUsize::new(0),
            batches: AtomicU64::new(0),
            shares: Mutex::default(),
            given: Condvar::parking_for(Reason::Memory),
        })
    }

    /// The limit, in bytes.
    pub fn limit_bytes(&self) -> usize {
        self.most
    }

    /// Bytes that all heaps have.
    pub fn taken_bytes(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// True if nothing is left, not even for a small heap.
    pub(crate) fn is_full(&self) -> bool {
        self.taken_bytes() >= self.most
    }

    /// The share of a context. With a `poll` its batches may be ended.
    pub(crate) fn share(self: &Arc<Memory>, poll: Option<Arc<Poll>>) -> Arc<Share> {
        let share = Arc::new(Share {
            memory: self.clone(),
            poll,
            held: AtomicUsize::new(0),
            epoch: AtomicU64::new(0),
            batch: AtomicU64::new(0),
            grown: AtomicUsize::new(0),
            ended: AtomicU64::new(0),
        });
        let mut shares = self.shares.lock();
        if shares.len() == shares.capacity() {
            shares.retain(|share| share.strong_count() > 0);
        }
        shares.push(Arc::downgrade(&share));
        share
    }

    /// Forgets the shares of contexts that are gone. Each of them keeps its place in memory until
    /// then, and with it the rest of a page.
    pub(crate) fn forget_gone(&self) {
        let mut shares = self.shares.lock();
        shares.retain(|share| share.strong_count() > 0);
        shares.shrink_to_fit();
    }

    /// Takes bytes if all heaps have no more than `most` then.
    fn try_take(&self, bytes: usize, most: usize) -> bool {
        let more = |taken: usize| taken.checked_add(bytes).filter(|taken| *taken <= most);
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// Takes bytes for a heap that cannot go on without them. Ends a batch for it, unless one that
    /// was ended has still to give its memory back; false if that is its own.
    fn make_room(&self, asks: &Share, bytes: usize, most: usize) -> bool {
        let until = Instant::now() + WITHIN;
        let mut shares = self.shares.lock();
        while !self.try_take(bytes, most) {
            let running =
                shares.iter().filter_map(Weak::upgrade).filter_map(|share| Some((share.rank()?, share)));
            let running: Vec<(Rank, Arc<Share>)> = running.collect();
            if !running.iter().any(|(rank, share)| share.ended.load(Ordering::Relaxed) == rank.epoch) {
                let Some((rank, largest)) = running.iter().max_by_key(|(rank, _)| *rank) else {
                    return false;
                };
                largest.ended.store(rank.epoch, Ordering::Relaxed);
                if let Some(poll) = largest.poll.as_ref().filter(|_| !std::ptr::eq(&**largest, asks)) {
                    poll.kill(rank.epoch, Kill::Memory);
                }
            }
            // One that was ended makes room by not waiting.
            if asks.is_ended() || Instant::now() >= until {
                return false;
            }
            self.given.wait_for(&mut shares, LOOK);
        }
        true
    }
}

/// The order in which batches are ended: the greatest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Rank {
    /// The binary logarithm of the bytes that it has taken.
    size: u32,
    batch: u64,
    epoch: u64,
}

impl Share {
    /// Notes bytes that the run under way takes.
    fn note(&self, bytes: usize) {
        let epoch = self.poll.as_ref().map_or(0, |poll| poll.epoch());
        if self.epoch.swap(epoch, Ordering::Relaxed) != epoch {
            self.batch.store(self.memory.batches.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
            self.grown.store(0, Ordering::Relaxed);
        }
        self.grown.fetch_add(bytes, Ordering::Relaxed);
    }

    /// True if the run under way was ended.
    fn is_ended(&self) -> bool {
        self.poll.as_ref().is_some_and(|poll| poll.epoch() == self.ended.load(Ordering::Relaxed))
    }

    /// The rank of the batch that runs, if it has taken anything.
    fn rank(&self) -> Option<Rank> {
        let epoch = self.poll.as_ref()?.epoch();
        if epoch.is_multiple_of(2) || self.epoch.load(Ordering::Relaxed) != epoch {
            return None;
        }
        let size = self.grown.load(Ordering::Relaxed).checked_ilog2().unwrap_or(0);
        Some(Rank { size, batch: self.batch.load(Ordering::Relaxed), epoch })
    }
}

impl Source for Share {
    fn take(&self, bytes: usize, need: Need) -> bool {
        let limit = self.memory.most;
        let small = self.held.load(Ordering::Relaxed).saturating_add(bytes) <= SMALL_BYTES;
        let most = if small { limit } else { limit - limit / 8 };
        self.note(bytes);
        let taken = match need {
            Need::Always => {
                self.memory.taken.fetch_add(bytes, Ordering::Relaxed);
                true
            }
            Need::Ordinary => self.memory.try_take(bytes, most),
            Need::Urgent => self.memory.make_room(self, bytes, most),
        };
        match taken {
            true => self.held.fetch_add(bytes, Ordering::Relaxed),
            false => self.grown.fetch_sub(bytes, Ordering::Relaxed),
        };
        taken
    }

    fn give(&self, bytes: usize) {
        self.held.fetch_sub(bytes, Ordering::Relaxed);
        self.memory.taken.fetch_sub(bytes, Ordering::Relaxed);
        self.memory.given.notify_all();
    }

    fn limit_bytes(&self) -> usize {
        self.memory.most
    }

    fn is_tight(&self) -> bool {
        let Memory { most, .. } = *self.memory;
        self.memory.taken_bytes() > most - most / 4
    }
}

/// Three quarters of the memory that the control group of this process has, or the machine; no
/// limit where the system does not tell.
pub fn default_bytes() -> usize {
    let bytes = memory_bytes(Path::new("/")).unwrap_or(i64::MAX as u64);
    // As a setting it is a number with a sign.
    usize::try_from(bytes - bytes / 4).unwrap_or(isize::MAX as usize)
}

/// The least of the machine's memory and of the limits of the control groups that the process is
/// in, as the files below `root` tell.
fn memory_bytes(root: &Path) -> Option<u64> {
    let read = |path: &Path| std::fs::read_to_string(root.join(path.strip_prefix("/").unwrap_or(path))).ok();
    let machine = read(Path::new("/proc/meminfo")).and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
    });
    let groups = read(Path::new("/proc/self/cgroup")).unwrap_or_default();
    let limits = groups.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, group) = (parts.next()?, parts.next()?);
        // The second form of control groups names no controllers.
        let (folder, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            all if all.split(',').any(|one| one == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => return None,
        };
        // A container sees its own group as the root, whatever the path says.
        let group = Path::new(group.trim_start_matches('/'));
        let limit =
            |group: &Path| read(&Path::new(folder).join(group).join(file))?.trim().parse::<u64>().ok();
        group.ancestors().filter_map(limit).min()
    });
    machine.into_iter().chain(limits).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let file = folder.path().join(path);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
        folder
    }

    #[test]
    fn the_memory_is_that_of_the_control_group_or_the_machine() {
        let machine = ("proc/meminfo", "MemTotal:        1024 kB\nMemFree: 3 kB\n");
        let of = |files: &[(&str, &str)]| memory_bytes(root(files).path());
        assert_eq!(of(&[machine]), Some(1 << 20));
        let second = [
            machine,
            ("proc/self/cgroup", "0::/a/b\n"),
            ("sys/fs/cgroup/a/memory.max", "4096\n"),
            ("sys/fs/cgroup/a/b/memory.max", "max\n"),
        ];
        assert_eq!(of(&second), Some(4096));
        let first = [
            machine,
            ("proc/self/cgroup", "9:cpu:/x\n4:memory:/not/seen/here\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "8192\n"),
        ];
        assert_eq!(of(&first), Some(8192));
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn the_last_eighth_is_for_small_heaps() {
        let memory = Memory::new(64 << 20);
        let (large, small) = (memory.share(None), memory.share(None));
        assert!(large.take(56 << 20, Need::Ordinary));
        assert!(!large.take(1 << 20, Need::Urgent), "no batch can be ended for it");
        assert!(small.take(4 << 20, Need::Ordinary));
        assert!(!small.take(1 << 20, Need::Ordinary));
        assert!(small.take(8 << 20, Need::Always));
        assert!(memory.is_full() && small.is_tight());
        large.give(40 << 20);
        assert!(!small.is_tight() && small.take(1 << 20, Need::Ordinary));
        assert_eq!(memory.taken_bytes(), 29 << 20);
    }
}
