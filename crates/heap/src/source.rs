//! Memory that several heaps share.

use std::fmt::Debug;

/// The urgency with which a heap asks for memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Need {
    /// A collection may find room in the heap instead.
    #[default]
    Ordinary,
    /// The heap was collected, and its code ends without more memory.
    Urgent,
    /// The allocation must not fail.
    Always,
}

/// The source of a heap's memory, which other heaps share. It is asked for chunks and for large
/// objects, not for each object.
pub trait Source: Debug + Send + Sync {
    /// Takes so many bytes; false if there are none for this heap.
    fn take(&self, bytes: usize, need: Need) -> bool;

    /// Gives bytes back.
    fn give(&self, bytes: usize);

    /// The most bytes that all heaps may have together.
    fn limit_bytes(&self) -> usize;

    /// True if so little is left that heaps shall keep no free memory.
    fn is_tight(&self) -> bool;
}

/// Returns memory to the system that was freed and that the allocator keeps for the thread that has
/// freed it: others could not use it, and would take more from the system. Takes milliseconds.
pub fn return_free_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        unsafe extern "C" {
            fn malloc_trim(pad: usize) -> std::ffi::c_int;
        }
        // SAFETY: the C library's function of this name and form, which any thread may call at any
        // time.
        unsafe { malloc_trim(0) };
    }
    #[cfg(target_env = "musl")]
    {
        // SAFETY: a function of the allocator, which any thread may call at any time.
        unsafe { libmimalloc_sys::mi_collect(true) };
    }
}
