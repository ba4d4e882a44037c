//! The supply of chunks that all heaps of the process share.
//!
//! Chunks are mapped many at a time, at multiples of their size, and stay mapped. One that is given
//! back has its memory taken by the system, and is zero again: so thousands of small heaps take the
//! pages that they touch, and leave nothing behind.

use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use crate::blocks::CHUNK_BYTES;

/// Chunks that are mapped at once.
const MAPPED_AT_ONCE: usize = 16;

/// The addresses of chunks that nobody has, all of them zero.
static FREE: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// Takes a chunk of zeros; nothing if the system has no memory.
pub(crate) fn take() -> Option<NonNull<u8>> {
    let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
    if free.is_empty() {
        let (start, count) = map(MAPPED_AT_ONCE).or_else(|| map(1))?;
        free.extend((0..count).rev().map(|chunk| start + chunk * CHUNK_BYTES));
    }
    free.pop().and_then(|address| NonNull::new(std::ptr::with_exposed_provenance_mut(address)))
}

/// Gives a chunk back.
///
/// # Safety
/// It came from [`take`], nothing lives in it, and it is used no more.
pub(crate) unsafe fn give(chunk: NonNull<u8>) {
    // SAFETY: promised by the caller: the memory is that of a chunk that nobody uses. A refusal
    // would leave what is in it, so such a chunk is not used again.
    let zeroed = unsafe { madvise(chunk.as_ptr().cast(), CHUNK_BYTES, Advice::LinuxDontNeed) };
    if zeroed.is_ok() {
        let address = chunk.as_ptr().expose_provenance();
        FREE.lock().unwrap_or_else(PoisonError::into_inner).push(address);
    }
}

/// Gives the memory of a part of a chunk back, which is zero then.
///
/// # Safety
/// The part is whole pages of a chunk that came from [`take`], and nothing lives in it.
pub(crate) unsafe fn clear(address: usize, bytes: usize) {
    let start = std::ptr::with_exposed_provenance_mut(address);
    // SAFETY: promised by the caller. A refusal changes nothing.
    let _ = unsafe { madvise(start, bytes, Advice::LinuxDontNeed) };
}

/// Maps chunks; returns the address of the first, and their number.
fn map(count: usize) -> Option<(usize, usize)> {
    let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
    // One more, to cut the mapping where a chunk begins.
    let bytes = (count + 1) * CHUNK_BYTES;
    // SAFETY: a new mapping, where the system likes.
    let place = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, access, flags) }.ok()?;
    let address = place.expose_provenance();
    let start = address.next_multiple_of(CHUNK_BYTES);
    let end = start + count * CHUNK_BYTES;
    for (from, to) in [(address, start), (end, address + bytes)] {
        if from < to {
            // SAFETY: a part of the mapping that nobody knows yet.
            let _ = unsafe { munmap(std::ptr::with_exposed_provenance_mut(from), to - from) };
        }
    }
    // A huge page would be larger than most heaps. A system without such pages refuses.
    // SAFETY: the rest of the mapping that was just made.
    let _ = unsafe {
        madvise(std::ptr::with_exposed_provenance_mut(start), end - start, Advice::LinuxNoHugepage)
    };
    Some((start, count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_aligned_and_zero_whenever_they_are_taken() {
        for round in 0..3 {
            let chunks: Vec<NonNull<u8>> = (0..MAPPED_AT_ONCE + 5).map(|_| take().unwrap()).collect();
            for chunk in &chunks {
                assert_eq!(chunk.as_ptr().addr() % CHUNK_BYTES, 0);
                // SAFETY: the chunk is this test's.
                let bytes = unsafe { std::slice::from_raw_parts_mut(chunk.as_ptr(), CHUNK_BYTES) };
                assert!(bytes.iter().all(|byte| *byte == 0), "{round}");
                (bytes[0], bytes[CHUNK_BYTES - 1]) = (1, 2);
            }
            let mut addresses: Vec<usize> = chunks.iter().map(|chunk| chunk.as_ptr().addr()).collect();
            addresses.sort_unstable();
            assert!(addresses.windows(2).all(|pair| pair[1] - pair[0] >= CHUNK_BYTES));
            // SAFETY: they came from `take`, and are used no more.
            chunks.into_iter().for_each(|chunk| unsafe { give(chunk) });
        }
    }
}
