//! The memory that both processes map. This module holds the crate's only unsafe code.
//!
//! The layout is that of `docs/spec/transport.md`. Everything in it is an atomic, because the peer
//! may write any of it at any time, and because loads of atomics are loads. The compiler does not
//! repeat them, so a value that was checked is the value that is used. Data are accessed as whole
//! 64-bit words; the compiler turns a relaxed load of one into a plain move.
//!
//! Invariant: a [`Region`] maps exactly `HEADER_BYTES + 2 * ring_bytes` bytes of a memfd that can
//! no longer shrink, so no access through it can fault.

use std::ffi::c_void;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};

/// "BIFROSTR" when seen as bytes.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"BIFROSTR");
/// The version of the layout and of the meaning of its words.
pub(crate) const VERSION: u64 = 2;
/// The header fills one page; the rings start behind it.
pub(crate) const HEADER_BYTES: usize = 4096;

/// The smallest ring.
pub const RING_BYTES_MIN: usize = 4096;
/// The largest ring.
pub const RING_BYTES_MAX: usize = 1 << 30;

/// True if a ring may have this size.
pub(crate) fn is_ring_size(ring_bytes: u64) -> bool {
    ring_bytes.is_power_of_two() && (RING_BYTES_MIN as u64..=RING_BYTES_MAX as u64).contains(&ring_bytes)
}

/// Keeps words that different sides write on different cache lines: 128 bytes, because processors
/// fetch lines in pairs.
#[repr(C, align(128))]
pub(crate) struct Line<T>(pub(crate) T);

/// Words that fit into a line beside the producer's position.
pub(crate) const COPY_WORDS: usize = 6;

/// The line that the producer writes and the consumer watches: one cache line of 64 bytes, so that
/// a short message and the news of it travel together.
#[repr(C)]
pub(crate) struct Announced {
    /// Bytes put in so far.
    pub(crate) produced: AtomicU64,
    /// The position of the first byte of `copy`.
    pub(crate) copy_start: AtomicU64,
    /// The bytes put in last, if they were few enough. They are in the ring as well.
    pub(crate) copy: [AtomicU64; COPY_WORDS],
}

/// The words of one ring. Positions count bytes since the start and never wrap in practice.
#[repr(C)]
pub(crate) struct Control {
    /// The line that the producer announces by.
    pub(crate) announced: Line<Announced>,
    /// Bytes taken out so far; written by the consumer.
    pub(crate) consumed: Line<AtomicU64>,
    /// 1 while the consumer sleeps or is about to, a futex; 2 while it rests and hears its bell.
    pub(crate) consumer_sleeps: Line<AtomicU32>,
    /// The same of the producer.
    pub(crate) producer_sleeps: Line<AtomicU32>,
}

#[repr(C)]
struct Identity {
    magic: AtomicU64,
    version: AtomicU64,
    ring_bytes: AtomicU64,
}

#[repr(C)]
struct Header {
    identity: Line<Identity>,
    reserved: [Line<AtomicU64>; 7],
    controls: [Control; 2],
}

const _: () = {
    assert!(size_of::<Announced>() == 64);
    assert!(size_of::<Control>() == 512);
    assert!(std::mem::offset_of!(Header, controls) == 1024);
    assert!(size_of::<Header>() <= HEADER_BYTES);
};

/// The direction of one of the two rings of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    ToServer = 0,
    ToClient = 1,
}

/// One ring, borrowed from its region.
#[derive(Clone, Copy)]
pub(crate) struct Ring<'a> {
    pub(crate) control: &'a Control,
    /// A power of two of words.
    pub(crate) words: &'a [AtomicU64],
    /// The bell of the other side, if it has one.
    pub(crate) bell: Option<&'a OwnedFd>,
}

/// A mapping of the memory of one stream.
#[derive(Debug)]
pub(crate) struct Region {
    start: NonNull<c_void>,
    ring_bytes: usize,
    bell: Option<OwnedFd>,
}

// SAFETY: the region is memory that belongs to the process, not to a thread, and everything in it
// is reached through atomics.
unsafe impl Send for Region {}
// SAFETY: as above; shared references give atomics only.
unsafe impl Sync for Region {}

impl Region {
    /// Makes a new region, and the memfd behind it, which can be neither shrunk nor grown.
    ///
    /// `ring_bytes` must be a size that `is_ring_size` allows.
    pub(crate) fn create(ring_bytes: usize) -> io::Result<(Region, OwnedFd)> {
        assert!(is_ring_size(ring_bytes as u64), "ring size was checked by the caller");
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let memory = match rustix::fs::memfd_create("bifrost", flags | MemfdFlags::NOEXEC_SEAL) {
            // Kernels before 6.3 do not know the flag.
            Err(rustix::io::Errno::INVAL) => rustix::fs::memfd_create("bifrost", flags)?,
            other => other?,
        };
        rustix::fs::ftruncate(&memory, total_bytes(ring_bytes) as u64)?;
        rustix::fs::fcntl_add_seals(&memory, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let region = Region::map(&memory, ring_bytes)?;
        let identity = &region.header().identity.0;
        identity.magic.store(MAGIC, Ordering::Relaxed);
        identity.version.store(VERSION, Ordering::Relaxed);
        identity.ring_bytes.store(ring_bytes as u64, Ordering::Relaxed);
        Ok((region, memory))
    }

    /// Maps a region that another process made, after checking that it is one; the message of the
    /// error names the fault.
    pub(crate) fn open(memory: &OwnedFd, ring_bytes: u64) -> io::Result<Region> {
        let refuse = |reason| Err(io::Error::new(io::ErrorKind::InvalidData, reason));
        if !is_ring_size(ring_bytes) {
            return refuse("the size of its rings is invalid");
        }
        let ring_bytes = ring_bytes as usize;
        // Seals are checked before the size: a sealed size stays.
        let seals = rustix::fs::fcntl_get_seals(memory)?;
        if !seals.contains(SealFlags::SHRINK) {
            return refuse("it is not sealed against shrinking");
        }
        if rustix::fs::fstat(memory)?.st_size as u64 != total_bytes(ring_bytes) as u64 {
            return refuse("its size is not that of its rings");
        }
        let region = Region::map(memory, ring_bytes)?;
        let identity = &region.header().identity.0;
        let found = [&identity.magic, &identity.version, &identity.ring_bytes]
            .map(|word| word.load(Ordering::Relaxed));
        if found != [MAGIC, VERSION, ring_bytes as u64] {
            return refuse("its header is not that of a version 2 ring");
        }
        Ok(region)
    }

    fn map(memory: &OwnedFd, ring_bytes: usize) -> io::Result<Region> {
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new mapping at an address that the kernel chooses overlaps nothing that exists.
        let start = unsafe {
            rustix::mm::mmap(ptr::null_mut(), total_bytes(ring_bytes), protection, flags, memory.as_fd(), 0)
        }?;
        let start = NonNull::new(start).expect("the kernel maps nothing at address zero");
        Ok(Region { start, ring_bytes, bell: None })
    }

    fn header(&self) -> &Header {
        // SAFETY: the mapping is page aligned, at least HEADER_BYTES long (asserted to hold a
        // Header), and lives as long as self. Header consists of atomics only, for which all bytes
        // are valid and which others may write.
        unsafe { self.start.cast::<Header>().as_ref() }
    }

    /// Enters the bell by which the other side is woken while it rests.
    pub(crate) fn set_bell(&mut self, bell: OwnedFd) {
        self.bell = Some(bell);
    }

    /// Returns the size of each of the two rings.
    pub(crate) fn ring_bytes(&self) -> usize {
        self.ring_bytes
    }

    /// Returns the ring of this direction.
    #[inline]
    pub(crate) fn ring(&self, direction: Direction) -> Ring<'_> {
        let offset = HEADER_BYTES + direction as usize * self.ring_bytes;
        // SAFETY: both rings lie inside the mapping, whose length is HEADER_BYTES + 2 * ring_bytes;
        // offset and length are multiples of 8; atomics allow any bytes and any other writer.
        let words = unsafe {
            let first = self.start.cast::<u8>().add(offset).cast::<AtomicU64>();
            slice::from_raw_parts(first.as_ptr(), self.ring_bytes / 8)
        };
        Ring { control: &self.header().controls[direction as usize], words, bell: self.bell.as_ref() }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: this is the mapping that `map` made, and every reference into it borrows self.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr(), total_bytes(self.ring_bytes)) };
    }
}

fn total_bytes(ring_bytes: usize) -> usize {
    HEADER_BYTES + 2 * ring_bytes
}
