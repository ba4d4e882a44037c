//! The processors on which nodes begin and go on.

#[cfg(target_os = "linux")]
pub(crate) use linux::{Sleeper, begin_on};

#[cfg(not(target_os = "linux"))]
pub(crate) use others::{Sleeper, begin_on};

#[cfg(target_os = "linux")]
mod linux {
    use std::sync::atomic::{AtomicBool, Ordering};

    use parking_lot::Mutex;
    use rustix::thread::{CpuSet, Pid, gettid, sched_getaffinity, sched_getcpu, sched_setaffinity};

    /// Moves the calling thread to the processor of this number, counted round among those that it
    /// may use. From there it may go anywhere. A new thread begins on the processor of its creator.
    /// It may take the system a tenth of a second to see that another one has nothing to do.
    pub(crate) fn begin_on(number: u32) {
        let Ok(may) = sched_getaffinity(None) else { return };
        let usable: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|processor| may.is_set(*processor)).collect();
        if usable.len() < 2 {
            return;
        }
        let mut one = CpuSet::new();
        one.set(usable[number as usize % usable.len()]);
        if sched_setaffinity(None, &one).is_ok() {
            // The processors that it may use are those of before.
            let _ = sched_setaffinity(None, &may);
        }
    }

    /// A thread that sleeps until it has something to do.
    ///
    /// The system likes to wake a thread on the processor of the waker, even if others rest: in a
    /// virtual machine it cannot tell whether those would run at once. There the thread waits until
    /// the waker makes way, which may be for milliseconds.
    #[derive(Debug, Default)]
    pub(crate) struct Sleeper {
        /// True if it sleeps and was not sent elsewhere yet: a hint.
        asleep: AtomicBool,
        asleep_as: Mutex<Option<Asleep>>,
    }

    #[derive(Debug)]
    struct Asleep {
        thread: Pid,
        /// The processors on which it may run, if it was sent elsewhere.
        may: Option<CpuSet>,
    }

    impl Sleeper {
        /// Notes that the calling thread is it, and runs `work`, in which it sleeps.
        pub(crate) fn sleep<T>(&self, work: impl FnOnce() -> T) -> T {
            *self.asleep_as.lock() = Some(Asleep { thread: gettid(), may: None });
            self.asleep.store(true, Ordering::Release);
            let done = work();
            self.asleep.store(false, Ordering::Relaxed);
            let may = self.asleep_as.lock().take().and_then(|asleep| asleep.may);
            if let Some(may) = may {
                let _ = sched_setaffinity(None, &may);
            }
            done
        }

        /// Prepares the waking of the thread by the calling one, which goes on. The thread goes to
        /// another processor, if there is one that it may use.
        pub(crate) fn will_wake(&self) {
            // Each post asks: mostly it is awake, and then nothing is written.
            if !self.asleep.load(Ordering::Relaxed) || !self.asleep.swap(false, Ordering::Acquire) {
                return;
            }
            let mut asleep = self.asleep_as.lock();
            let Some(Asleep { thread, may: kept }) = &mut *asleep else { return };
            let Ok(may) = sched_getaffinity(Some(*thread)) else { return };
            let mut others = may;
            others.unset(sched_getcpu());
            if others.count() > 0 && sched_setaffinity(Some(*thread), &others).is_ok() {
                *kept = Some(may);
            }
        }
    }

    #[cfg(test)]
    mod tests {
        use std::collections::BTreeSet;
        use std::sync::mpsc;
        use std::time::Duration;

        use super::*;

        #[test]
        fn a_thread_begins_elsewhere_and_may_go_anywhere() {
            let before = sched_getaffinity(None).expect("Linux tells");
            let mut begun = BTreeSet::new();
            for number in 0..before.count() {
                begin_on(number);
                begun.insert(sched_getcpu());
                assert_eq!(sched_getaffinity(None).expect("Linux tells"), before);
            }
            // The system may move it at once, but hardly each time to where it was.
            assert!(before.count() == 1 || begun.len() > 1, "{begun:?}");
        }

        #[test]
        fn who_is_woken_wakes_elsewhere_and_may_go_anywhere() {
            let before = sched_getaffinity(None).expect("Linux tells");
            let sleeper = Sleeper::default();
            let (wake, sleeps) = mpsc::channel();
            let (tell, told) = mpsc::channel();
            std::thread::scope(|scope| {
                let sleeper = &sleeper;
                scope.spawn(move || {
                    while sleeper.sleep(|| sleeps.recv()).is_ok() {
                        let _ = tell.send((sched_getcpu(), sched_getaffinity(None).expect("Linux tells")));
                    }
                });
                let mut elsewhere = 0;
                for _ in 0..100 {
                    while !sleeper.asleep.load(Ordering::Relaxed) {
                        std::thread::yield_now();
                    }
                    std::thread::sleep(Duration::from_micros(100));
                    sleeper.will_wake();
                    let here = sched_getcpu();
                    let _ = wake.send(());
                    let (there, may) = told.recv().expect("it tells each time");
                    assert_eq!(may, before);
                    elsewhere += usize::from(there != here);
                }
                // A thread that is not woken, because it does not sleep, stays as it is.
                drop(wake);
                assert!(before.count() == 1 || elsewhere > 50, "{elsewhere}");
            });
            sleeper.will_wake();
            assert_eq!(sched_getaffinity(None).expect("Linux tells"), before);
        }
    }
}

/// Elsewhere the system places threads.
#[cfg(not(target_os = "linux"))]
mod others {
    pub(crate) fn begin_on(_number: u32) {}

    #[derive(Debug, Default)]
    pub(crate) struct Sleeper;

    impl Sleeper {
        pub(crate) fn sleep<T>(&self, work: impl FnOnce() -> T) -> T {
            work()
        }

        pub(crate) fn will_wake(&self) {}
    }
}
