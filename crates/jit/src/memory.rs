//! Memory for code, which holds many functions in a page.
//!
//! A page cannot be written and run at once, so the code generator's own provider begins each
//! function on a page of its own. Then memory for thousands of functions is wasted, and processors
//! have to know as many pages. Also, the beginnings of all functions fall into the same few lines
//! of their caches. Here the memory of code has two views: it is written through one and run
//! through the other, and neither is ever changed. References to other code are relative to
//! themselves, so that they are the same in both.
//!
//! Code of methods stays for good. That of structures, which clients choose, lies in a part of its
//! own ([`Pool`]) and is freed.
//!
//! On systems without such views, it is the code generator's provider, and there is no place for
//! structures.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use cranelift_jit::{ArenaMemoryProvider, BranchProtection, JITMemoryKind, JITMemoryProvider};
use cranelift_module::ModuleResult;
use range_alloc::RangeAllocator;

/// A line of the processor's cache. Each function begins one, so that the place of a loop in lines
/// does not depend on the code that was made before: loops differ by 10 % in that.
const GRANULE: usize = 64;

/// Memory for code.
pub(crate) struct Memory {
    /// The provider from which the code generator takes memory.
    pub provider: Box<dyn JITMemoryProvider + Send>,
    /// The distance from the address at which code is written to that at which it is run.
    pub run_at: usize,
    /// Functions begin at multiples of it.
    pub granule: usize,
    /// The memory for code of structures, if the system has a place for it.
    pub structures: Option<Arc<Pool>>,
}

impl Memory {
    /// Address space for so many bytes of code, and for so many of code of structures.
    ///
    /// # Errors
    /// When there is none.
    pub fn new(bytes: usize, structure_bytes: usize) -> Result<Memory, String> {
        #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
        if let Ok(memory) = views::new(bytes, structure_bytes) {
            return Ok(memory);
        }
        let _ = structure_bytes;
        let provider = ArenaMemoryProvider::new_with_size(bytes).map_err(|e| e.to_string())?;
        Ok(Memory { provider: Box::new(provider), run_at: 0, granule: 4096, structures: None })
    }
}

/// Memory for code that is freed.
pub(crate) struct Pool {
    /// The beginning of the view that is written.
    start: *mut u8,
    free: Mutex<Free>,
}

// SAFETY: the view is there as long as the process, and what is free is behind the lock.
unsafe impl Send for Pool {}
// SAFETY: as above.
unsafe impl Sync for Pool {}

struct Free {
    /// Offsets in the view.
    ranges: RangeAllocator<usize>,
    used_bytes: usize,
}

impl Pool {
    /// Bytes that are taken.
    pub fn used_bytes(&self) -> usize {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).used_bytes
    }
}

/// Places of a [`Pool`], which go back to it in the end.
pub(crate) struct Taken {
    pool: Arc<Pool>,
    places: Mutex<Vec<std::ops::Range<usize>>>,
}

impl Taken {
    /// None so far.
    pub fn new(pool: Arc<Pool>) -> Arc<Taken> {
        Arc::new(Taken { pool, places: Mutex::default() })
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let mut free = self.pool.free.lock().unwrap_or_else(PoisonError::into_inner);
        for place in self.places.get_mut().unwrap_or_else(PoisonError::into_inner).drain(..) {
            free.used_bytes -= place.len();
            free.ranges.free_range(place);
        }
    }
}

/// Hands places to the code generator.
pub(crate) struct Places(pub Arc<Taken>);

impl JITMemoryProvider for Places {
    fn allocate(&mut self, size: usize, align: u64, kind: JITMemoryKind) -> io::Result<*mut u8> {
        // There is only code, and no function wants more than a granule's alignment.
        if !matches!(kind, JITMemoryKind::Executable) || align as usize > GRANULE {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let Taken { pool, places } = &*self.0;
        let mut free = pool.free.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = size.max(1).next_multiple_of(GRANULE);
        let place = free.ranges.allocate_range(bytes).map_err(|_| io::ErrorKind::OutOfMemory)?;
        free.used_bytes += bytes;
        let at = place.start;
        places.lock().unwrap_or_else(PoisonError::into_inner).push(place);
        // SAFETY: the place is inside the view.
        Ok(unsafe { pool.start.add(at) })
    }

    /// The places outlive the code generator's module: they go with [`Taken`].
    unsafe fn free_memory(&mut self) {}

    fn finalize(&mut self, _: BranchProtection) -> ModuleResult<()> {
        Ok(())
    }
}

/// On x86-64 nothing else has to be done before new code is run.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod views {
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
    use rustix::mm::{MapFlags, ProtFlags, mmap};

    use super::{
        Arc, BranchProtection, Free, GRANULE, JITMemoryKind, JITMemoryProvider, Memory, ModuleResult, Mutex,
        Pool, RangeAllocator, io,
    };

    /// The view that is written.
    struct Written {
        start: *mut u8,
        bytes: usize,
        used_bytes: usize,
    }

    // SAFETY: the view is there as long as the process, and only this writes to its part of it.
    unsafe impl Send for Written {}

    pub fn new(bytes: usize, structure_bytes: usize) -> io::Result<Memory> {
        let whole = bytes + structure_bytes;
        let file = memfd_create("bifrost-code", MemfdFlags::CLOEXEC | MemfdFlags::EXEC)
            // Systems that do not know the flag need none.
            .or_else(|_| memfd_create("bifrost-code", MemfdFlags::CLOEXEC))?;
        ftruncate(&file, whole as u64)?;
        let view = |access| {
            // SAFETY: a new mapping, where the system likes.
            unsafe { mmap(std::ptr::null_mut(), whole, access, MapFlags::SHARED, &file, 0) }
        };
        // A system that refuses to run the memory does so here, before anything is written.
        let run = view(ProtFlags::READ | ProtFlags::EXEC)?;
        let start = view(ProtFlags::READ | ProtFlags::WRITE)?.cast::<u8>();
        let provider = Box::new(Written { start, bytes, used_bytes: 0 });
        let free = Free { ranges: RangeAllocator::new(bytes..whole), used_bytes: 0 };
        Ok(Memory {
            provider,
            run_at: (run as usize).wrapping_sub(start as usize),
            granule: GRANULE,
            structures: Some(Arc::new(Pool { start, free: Mutex::new(free) })),
        })
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
