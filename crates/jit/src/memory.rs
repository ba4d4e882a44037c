//! Memory for code, which holds many functions in a page.
//!
//! A page cannot be written and run at once, so the code generator's own provider begins each function on a page of its
//! own: memory for thousands of functions is wasted, processors have to know as many pages, and the beginnings of all functions fall
//! into the same few lines of their caches. Here the memory of code has two views: it is written through one and run through the
//! other, and neither is ever changed. What refers to other code does so relative to itself, so that it is the same in both.
//!
//! Where the system has no such views, it is the code generator's provider.

use std::io;

use cranelift_jit::{ArenaMemoryProvider, JITMemoryProvider};

/// Memory for code.
pub(crate) struct Memory {
    /// What the code generator takes memory from.
    pub provider: Box<dyn JITMemoryProvider + Send>,
    /// How far behind what was written it is run.
    pub run_at: usize,
    /// Functions begin at multiples of it.
    pub granule: usize,
}

impl Memory {
    /// Address space for so many bytes of code.
    ///
    /// # Errors
    /// When there is none.
    pub fn new(bytes: usize) -> Result<Memory, String> {
        #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
        if let Ok(memory) = views::new(bytes) {
            return Ok(memory);
        }
        let provider = ArenaMemoryProvider::new_with_size(bytes).map_err(|e| e.to_string())?;
        Ok(Memory { provider: Box::new(provider), run_at: 0, granule: 4096 })
    }
}

/// On x86-64 nothing else has to be done before new code is run.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod views {
    use cranelift_jit::{BranchProtection, JITMemoryKind};
    use cranelift_module::ModuleResult;
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
    use rustix::mm::{MapFlags, ProtFlags, mmap};

    use super::{JITMemoryProvider, Memory, io};

    /// A line of the processor's cache has the beginnings of two small functions.
    const GRANULE: usize = 32;

    /// The view that is written.
    struct Written {
        start: *mut u8,
        bytes: usize,
        used_bytes: usize,
    }

    // SAFETY: the view is there as long as the process, and only this writes to it.
    unsafe impl Send for Written {}

    pub fn new(bytes: usize) -> io::Result<Memory> {
        let file = memfd_create("bifrost-code", MemfdFlags::CLOEXEC | MemfdFlags::EXEC)
            // Systems that do not know the flag need none.
            .or_else(|_| memfd_create("bifrost-code", MemfdFlags::CLOEXEC))?;
        ftruncate(&file, bytes as u64)?;
        let view = |access| {
            // SAFETY: a new mapping, where the system likes.
            unsafe { mmap(std::ptr::null_mut(), bytes, access, MapFlags::SHARED, &file, 0) }
        };
        // What may not be run is refused here, before anything is written.
        let run = view(ProtFlags::READ | ProtFlags::EXEC)?;
        let start = view(ProtFlags::READ | ProtFlags::WRITE)?.cast::<u8>();
        let provider = Box::new(Written { start, bytes, used_bytes: 0 });
        Ok(Memory { provider, run_at: (run as usize).wrapping_sub(start as usize), granule: GRANULE })
    }

    impl JITMemoryProvider for Written {
        fn allocate(&mut self, size: usize, align: u64, kind: JITMemoryKind) -> io::Result<*mut u8> {
            let at = self.used_bytes.next_multiple_of(GRANULE.max(align as usize));
            let end = at.checked_add(size).filter(|end| *end <= self.bytes);
            match (kind, end) {
                (JITMemoryKind::Executable, Some(end)) => {
                    self.used_bytes = end;
                    // SAFETY: the place is inside the view.
                    Ok(unsafe { self.start.add(at) })
                }
                (JITMemoryKind::Executable, None) => Err(io::ErrorKind::OutOfMemory.into()),
                // There is only code.
                _ => Err(io::ErrorKind::Unsupported.into()),
            }
        }

        /// Code is never freed.
        unsafe fn free_memory(&mut self) {}

        fn finalize(&mut self, _: BranchProtection) -> ModuleResult<()> {
            Ok(())
        }
    }
}
