//! The word by which sides of a ring wake each other, and the baton of QUIC, in every order and with
//! every visibility that the memory model allows.

use loom::sync::Arc;
use loom::thread;

mod sync {
    use std::sync::LockResult;
    use std::time::Duration;

    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
    pub(crate) use loom::sync::{Mutex, MutexGuard};
    pub(crate) use std::sync::PoisonError;

    /// A condition whose waits for some time end at once: others may go first.
    #[derive(Debug)]
    pub(crate) struct Condvar(loom::sync::Condvar);

    impl Condvar {
        pub(crate) fn new() -> Condvar {
            Condvar(loom::sync::Condvar::new())
        }

        pub(crate) fn notify_one(&self) {
            self.0.notify_one();
        }

        pub(crate) fn wait<'g, T>(&self, guard: MutexGuard<'g, T>) -> LockResult<MutexGuard<'g, T>> {
            self.0.wait(guard)
        }

        pub(crate) fn wait_timeout<'g, T>(
            &self,
            guard: MutexGuard<'g, T>,
            _: Duration,
        ) -> LockResult<(MutexGuard<'g, T>, ())> {
            loom::thread::yield_now();
            Ok((guard, ()))
        }
    }
}

#[path = "../src/quic/baton.rs"]
mod baton;

#[path = "../src/shm/word.rs"]
mod word;

use baton::Baton;
use sync::{AtomicBool, AtomicU32, Mutex, Ordering};
use word::{Wake, must_wake, say_asleep, say_awake, say_resting};

/// What one side publishes, and the word on which the other sleeps. In place of the kernel there is a word that says how often it was asked to wake.
struct Side {
    published: AtomicU32,
    sleeps: AtomicU32,
    woken: AtomicU32,
    /// The number of rings of its bell.
    rung: AtomicU32,
}

impl Side {
    fn publish(&self, position: u32) {
        self.published.store(position, Ordering::Release);
        match must_wake(&self.sleeps) {
            // The kernel orders the call and the return of who sleeps.
            Some(Wake::Word) => self.woken.fetch_add(1, Ordering::SeqCst),
            Some(Wake::Bell) => self.rung.fetch_add(1, Ordering::SeqCst),
            None => 0,
        };
    }

    /// Waits until so much was published. The kernel lets nobody sleep while the word is not 1; a model in which somebody sleeps whom nobody
    /// wakes has no end, which the checker says.
    fn wait(&self, position: u32) {
        while self.published.load(Ordering::Acquire) < position {
            let woken = self.woken.load(Ordering::SeqCst);
            say_asleep(&self.sleeps);
            if self.published.load(Ordering::Relaxed) >= position {
                say_awake(&self.sleeps);
                continue;
            }
            while self.sleeps.load(Ordering::Relaxed) == 1 && self.woken.load(Ordering::SeqCst) == woken {
                thread::yield_now();
            }
        }
    }
}

impl Side {
    /// As `wait`, without a thread: another is told by the bell.
    fn rest(&self, position: u32) {
        while self.published.load(Ordering::Acquire) < position {
            let rung = self.rung.load(Ordering::SeqCst);
            say_resting(&self.sleeps);
            if self.published.load(Ordering::Relaxed) >= position {
                say_awake(&self.sleeps);
                continue;
            }
            while self.rung.load(Ordering::SeqCst) == rung {
                thread::yield_now();
            }
        }
    }
}

#[test]
fn who_rests_hears_the_bell() {
    loom::model(|| {
        let side = Arc::new(Side {
            published: AtomicU32::new(0),
            sleeps: AtomicU32::new(0),
            woken: AtomicU32::new(0),
            rung: AtomicU32::new(0),
        });
        let publishes = side.clone();
        let other = thread::spawn(move || {
            publishes.publish(1);
            publishes.publish(2);
        });
        side.rest(2);
        other.join().unwrap();
    });
}

#[test]
fn who_sleeps_is_woken() {
    loom::model(|| {
        let side = Arc::new(Side {
            published: AtomicU32::new(0),
            sleeps: AtomicU32::new(0),
            woken: AtomicU32::new(0),
            rung: AtomicU32::new(0),
        });
        let publishes = side.clone();
        let other = thread::spawn(move || publishes.publish(1));
        side.wait(1);
        other.join().unwrap();
    });
}

#[test]
fn who_answers_and_sleeps_again_is_woken_again() {
    loom::model(|| {
        let side = Arc::new(Side {
            published: AtomicU32::new(0),
            sleeps: AtomicU32::new(0),
            woken: AtomicU32::new(0),
            rung: AtomicU32::new(0),
        });
        let publishes = side.clone();
        let other = thread::spawn(move || {
            publishes.publish(1);
            publishes.publish(2);
        });
        side.wait(2);
        other.join().unwrap();
    });
}

/// A port: its baton, and a packet for the read that waits.
struct Port {
    baton: Baton,
    receiver: Mutex<()>,
    /// The packet is there, for any holder of the baton.
    has_come: AtomicBool,
    /// The bell of the read that waits: a poll ends once it is rung.
    bell: Mutex<bool>,
    rung: loom::sync::Condvar,
}

/// The most switches from a thread that could go on.
const PREEMPTIONS: usize = 3;
/// Long after any read has taken the baton: the thread sleeps until it is told.
const LATE: u64 = 100_000;

impl Port {
    fn new() -> Arc<Port> {
        Arc::new(Port {
            baton: Baton::new(),
            receiver: Mutex::new(()),
            has_come: AtomicBool::new(false),
            bell: Mutex::new(false),
            rung: loom::sync::Condvar::new(),
        })
    }

    /// Takes the packet, if it has come, and rings the bell.
    fn turn(&self) {
        if self.has_come.swap(false, Ordering::AcqRel) {
            *self.bell.lock().unwrap() = true;
            self.rung.notify_one();
        }
    }

    fn has_rung(&self) -> bool {
        *self.bell.lock().unwrap()
    }

    /// A read whose bytes were there already: it lets go of the baton without the packet.
    fn reads(&self) -> bool {
        self.baton.receive(&self.receiver, || 1, |()| {})
    }

    /// A read that wants the packet, by the baton or by its bell.
    fn waits(&self) {
        let receive = |(): &mut ()| {
            while !self.has_rung() {
                self.turn();
            }
        };
        if self.baton.receive(&self.receiver, || 1, receive) {
            return;
        }
        self.baton.wait(|| {
            let mut bell = self.bell.lock().unwrap();
            while !*bell {
                bell = self.rung.wait(bell).unwrap();
            }
        });
    }

    /// The thread: it receives whenever it has the baton, until the bell was rung.
    fn runs(&self) {
        let is_ended = || self.has_rung();
        loop {
            self.baton.keep_away(|| LATE, is_ended);
            let turn = |(): &mut ()| {
                self.turn();
                loom::thread::yield_now();
                !is_ended()
            };
            if !self.baton.take_turns(&self.receiver, || LATE, turn) {
                return;
            }
        }
    }
}

/// The thread sleeps while a read has the baton, and is told that it is free.
#[test]
fn the_thread_is_told_that_the_baton_is_free() {
    loom::model(|| {
        let port = Port::new();
        let other = port.clone();
        let read = thread::spawn(move || assert!(other.reads()));
        // A thread that nobody tells sleeps for ever, which the checker says.
        port.baton.keep_away(|| LATE, || false);
        read.join().unwrap();
    });
}

/// A read that finds the baton taken gets its packet, from the thread or from another read.
#[test]
fn a_read_that_waits_gets_a_receiver() {
    let mut model = loom::model::Builder::new();
    // All orders of three threads would take hours.
    model.preemption_bound = Some(PREEMPTIONS);
    model.check(|| {
        let port = Port::new();
        port.has_come.store(true, Ordering::Release);
        let (one, thread_of) = (port.clone(), port.clone());
        let read = thread::spawn(move || {
            one.reads();
        });
        let runs = thread::spawn(move || thread_of.runs());
        port.waits();
        assert!(port.has_rung());
        read.join().unwrap();
        runs.join().unwrap();
    });
}
