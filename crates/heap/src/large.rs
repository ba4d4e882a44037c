//! Objects with an allocation of their own.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use crate::Word;

/// Objects of so many bytes and more have pages of their own, huge ones where the system has them.
/// Accesses to tables of this size would miss the processor's address caches as often as its data
/// caches.
const PAGES_BYTES_MIN: usize = 4 << 20;

/// The memory of one object, which is zeroed at first.
#[derive(Debug)]
pub(crate) struct Large {
    object: NonNull<Word>,
    bytes: usize,
}

impl Large {
    /// Memory of so many bytes; nothing if the system has none.
    pub fn new(bytes: usize) -> Option<Large> {
        let object = match bytes {
            PAGES_BYTES_MIN.. => pages(bytes)?,
            // SAFETY: objects have at least a header.
            _ => NonNull::new(unsafe { alloc_zeroed(layout(bytes)?) })?.cast(),
        };
        Some(Large { object, bytes })
    }

    /// Its address.
    pub fn object(&self) -> NonNull<Word> {
        self.object
    }

    /// Its size.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Large {
    fn drop(&mut self) {
        let place = self.object.as_ptr();
        match self.bytes {
            PAGES_BYTES_MIN.. => {
                // SAFETY: mapped with this size in `pages`. It can only fail if it is no mapping.
                let unmapped = unsafe { munmap(place.cast(), self.bytes) };
                debug_assert_eq!(unmapped, Ok(()));
            }
            bytes => {
                let layout = layout(bytes).expect("it had one when it was made");
                // SAFETY: allocated with this layout in `new`.
                unsafe { dealloc(place.cast(), layout) };
            }
        }
    }
}

fn layout(bytes: usize) -> Option<Layout> {
    Layout::from_size_align(bytes, 16).ok()
}

/// Pages from the system, which are zeroed when they are first used.
fn pages(bytes: usize) -> Option<NonNull<Word>> {
    let (access, private) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
    // SAFETY: a new mapping, where the system likes.
    let place = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, access, private) }.ok()?;
    #[cfg(target_os = "linux")]
    // SAFETY: the mapping was just made. A system without huge pages refuses, which changes
    // nothing.
    let _ = unsafe { rustix::mm::madvise(place, bytes, rustix::mm::Advice::LinuxHugepage) };
    NonNull::new(place.cast())
}

#[cfg(test)]
mod tests {
    use super::{Large, PAGES_BYTES_MIN};

    #[test]
    fn memory_of_both_kinds_is_zeroed() {
        for bytes in [16 << 10, PAGES_BYTES_MIN, PAGES_BYTES_MIN + 8] {
            for _ in 0..2 {
                let large = Large::new(bytes).expect("memory");
                let last = bytes / 8 - 1;
                for at in [0, 511, last] {
                    // SAFETY: the words are inside.
                    unsafe {
                        let word = large.object().add(at);
                        assert_eq!(word.read(), 0, "word {at} of {bytes} bytes");
                        word.write(1);
                    }
                }
            }
        }
    }
}
