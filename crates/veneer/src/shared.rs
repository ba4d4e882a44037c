//! The sharing of a session among its stubs.
//!
//! The sources of the veneer are compiled twice. In the package `bifrost-veneer` a session belongs
//! to one thread: counts and borrows are plain words. In the package `bifrost-veneer-async`, which
//! has the feature `async`, a session and its stubs may move between threads and be used by several
//! at once: counts are atomic, and each call takes a lock. Nothing else differs, so that a program
//! with one thread pays nothing for the others.

pub(crate) use way::{Alone, Guarded, Shared};

#[cfg(not(feature = "async"))]
mod way {
    use std::cell::{Ref, RefCell, RefMut};
    pub(crate) use std::rc::Rc as Shared;

    /// The state of a session.
    pub(crate) struct Guarded<T>(RefCell<T>);

    impl<T> Guarded<T> {
        pub(crate) fn new(value: T) -> Guarded<T> {
            Guarded(RefCell::new(value))
        }

        #[inline(always)]
        pub(crate) fn borrow(&self) -> Ref<'_, T> {
            self.0.borrow()
        }

        #[inline(always)]
        pub(crate) fn borrow_mut(&self) -> RefMut<'_, T> {
            self.0.borrow_mut()
        }

        /// Borrows the state, unless this thread has borrowed it.
        #[inline(always)]
        pub(crate) fn try_borrow_mut(&self) -> Option<RefMut<'_, T>> {
            self.0.try_borrow_mut().ok()
        }

        /// Keeps other threads from recording; there are none.
        pub(crate) fn alone(&self) -> Alone<'_> {
            Alone(std::marker::PhantomData)
        }
    }

    /// Exists while a structure or a transaction is recorded.
    pub(crate) struct Alone<'g>(std::marker::PhantomData<&'g ()>);
}

#[cfg(feature = "async")]
mod way {
    use std::cell::Cell;
    use std::marker::PhantomData;
    use std::ops::{Deref, DerefMut};
    pub(crate) use std::sync::Arc as Shared;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

    /// The state of a session, behind a lock.
    ///
    /// A thread that records a structure keeps the others out until the structure has ended: calls
    /// of theirs would become part of it.
    pub(crate) struct Guarded<T> {
        inside: Mutex<Inside<T>>,
        /// The thread that holds the lock, or 0.
        holder: AtomicU64,
        /// Told when no thread is alone any more.
        free: Condvar,
    }

    struct Inside<T> {
        value: T,
        /// The thread that records a structure, or 0, and the number of its structures.
        alone: (u64, u32),
    }

    /// The number of this thread, from 1.
    fn this_thread() -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        thread_local! {
            static NUMBER: Cell<u64> = const { Cell::new(0) };
        }
        NUMBER.with(|number| {
            if number.get() == 0 {
                number.set(NEXT.fetch_add(1, Ordering::Relaxed));
            }
            number.get()
        })
    }

    impl<T> Guarded<T> {
        pub(crate) fn new(value: T) -> Guarded<T> {
            Guarded {
                inside: Mutex::new(Inside { value, alone: (0, 0) }),
                holder: AtomicU64::new(0),
                free: Condvar::new(),
            }
        }

        pub(crate) fn borrow(&self) -> Held<'_, T> {
            self.borrow_mut()
        }

        /// Waits until no other thread has the state.
        ///
        /// # Panics
        /// This thread has it.
        pub(crate) fn borrow_mut(&self) -> Held<'_, T> {
            self.try_borrow_mut().expect("no code of the program runs while the state is borrowed")
        }

        /// Waits until no other thread has the state; nothing if this thread has it.
        pub(crate) fn try_borrow_mut(&self) -> Option<Held<'_, T>> {
            let this = this_thread();
            // Only this thread writes its own number, so a stale one of another does no harm.
            if self.holder.load(Ordering::Relaxed) == this {
                return None;
            }
            let mut inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
            while inside.alone.0 != 0 && inside.alone.0 != this {
                inside = self.free.wait(inside).unwrap_or_else(PoisonError::into_inner);
            }
            self.holder.store(this, Ordering::Relaxed);
            Some(Held { inside, guarded: self })
        }

        /// Keeps other threads from recording until the value is dropped.
        pub(crate) fn alone(&self) -> Alone<'_> {
            let mut held = self.borrow_mut();
            let inside = &mut held.inside;
            inside.alone = (this_thread(), inside.alone.1 + 1);
            drop(held);
            Alone { leave: self, of_thread: PhantomData }
        }
    }

    /// The state while it is borrowed.
    pub(crate) struct Held<'g, T> {
        inside: MutexGuard<'g, Inside<T>>,
        guarded: &'g Guarded<T>,
    }

    impl<T> Deref for Held<'_, T> {
        type Target = T;

        fn deref(&self) -> &T {
            &self.inside.value
        }
    }

    impl<T> DerefMut for Held<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            &mut self.inside.value
        }
    }

    impl<T> Drop for Held<'_, T> {
        fn drop(&mut self) {
            self.guarded.holder.store(0, Ordering::Relaxed);
        }
    }

    trait Leave {
        fn leave(&self);
    }

    impl<T> Leave for Guarded<T> {
        fn leave(&self) {
            let Some(mut held) = self.try_borrow_mut() else { return };
            held.inside.alone.1 -= 1;
            if held.inside.alone.1 == 0 {
                held.inside.alone.0 = 0;
                drop(held);
                self.free.notify_all();
            }
        }
    }

    /// Exists while a structure or a transaction is recorded. It stays on its thread.
    pub(crate) struct Alone<'g> {
        leave: &'g dyn Leave,
        of_thread: PhantomData<*const ()>,
    }

    impl Drop for Alone<'_> {
        fn drop(&mut self) {
            self.leave.leave();
        }
    }
}
