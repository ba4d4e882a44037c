//! What nodes share without locks, in every order and with every visibility that the memory model allows.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::mpsc::{Receiver, Sender, channel};
use loom::thread;

mod sync {
    pub(crate) use loom::sync::atomic::{AtomicUsize, Ordering};
}

#[path = "../src/active.rs"]
mod active;

use active::Active;

/// What each node has done; written without any order by the node, read by who finds that all rest.
struct Run {
    active: Active,
    done: [UnsafeCell<u32>; 2],
}

impl Run {
    fn new() -> Arc<Run> {
        Arc::new(Run { active: Active::new(2), done: [UnsafeCell::new(0), UnsafeCell::new(0)] })
    }

    fn work(&self, node: usize) {
        // SAFETY: only the node writes it while it has a part; the checker finds whoever reads it then.
        self.done[node].with_mut(|done| unsafe { *done += 1 });
    }

    /// Takes part away; if it was the last one, all that was to do is done, and that can be seen.
    fn rest(&self, todo: u32) -> bool {
        let over = self.active.rest();
        if over {
            assert!(self.active.is_quiet());
            // SAFETY: nobody has a part, so nobody writes.
            let done: u32 = self.done.iter().map(|done| done.with(|done| unsafe { *done })).sum();
            assert_eq!(done, todo, "it is said to be over, and something is still to do");
        }
        over
    }

    fn send(&self, to: &Sender<u32>, left: u32) {
        self.active.add(1);
        to.send(left).unwrap();
    }
}

/// A node that passes a message on until it was passed often enough. How often it found that all is over.
fn node(run: &Run, own: usize, mail: &Receiver<u32>, other: &Sender<u32>, messages: u32, todo: u32) -> u32 {
    let mut overs = u32::from(run.rest(todo));
    for _ in 0..messages {
        let left = mail.recv().unwrap();
        // The part of the mail becomes that of the node.
        run.work(own);
        if left > 0 {
            run.send(other, left - 1);
        }
        overs += u32::from(run.rest(todo));
    }
    overs
}

#[test]
fn it_is_over_once_and_not_before_the_last_message() {
    loom::model(|| {
        let run = Run::new();
        let ((to_first, first), (to_second, second)) = (channel(), channel());
        // There, back and there again.
        run.send(&to_second, 2);
        let (shared, answers) = (run.clone(), to_first.clone());
        let other = thread::spawn(move || node(&shared, 1, &second, &answers, 2, 3));
        let overs = node(&run, 0, &first, &to_second, 1, 3);
        assert_eq!(overs + other.join().unwrap(), 1);
    });
}

#[test]
fn mail_that_a_busy_node_takes_ends_its_part() {
    loom::model(|| {
        let run = Run::new();
        let (to_second, second) = channel();
        let shared = run.clone();
        let other = thread::spawn(move || {
            // It takes it while it is busy, or rests first.
            let mut overs = 0;
            let taken = second.try_recv();
            match taken {
                Ok(0) => {
                    shared.active.took();
                    shared.work(1);
                    overs += u32::from(shared.rest(2));
                }
                _ => {
                    overs += u32::from(shared.rest(2));
                    let _: u32 = second.recv().unwrap();
                    shared.work(1);
                    overs += u32::from(shared.rest(2));
                }
            }
            overs
        });
        run.work(0);
        run.send(&to_second, 0);
        let overs = u32::from(run.rest(2));
        assert_eq!(overs + other.join().unwrap(), 1);
    });
}
