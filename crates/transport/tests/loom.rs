//! The word by which sides of a ring wake each other, in every order and with every visibility that the memory model allows.

use loom::sync::Arc;
use loom::thread;

mod sync {
    pub(crate) use loom::sync::atomic::{AtomicU32, Ordering, fence};
}

#[path = "../src/shm/word.rs"]
mod word;

use sync::{AtomicU32, Ordering};
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
