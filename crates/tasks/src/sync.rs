//! The lock and the condition of the pool. They are named here alone, so that a model checker can
//! put its own in their place (`tests/loom.rs`).

pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard};

/// Waits for a notice. Others may have the lock meanwhile.
pub(crate) fn wait<'a, T>(condition: &Condvar, mut guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condition.wait(&mut guard);
    guard
}
