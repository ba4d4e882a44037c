//! A log that says when it is to write, and waits until it may.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use bifrost_repository::store::{Journal, JournalError};

/// A log that keeps nothing. With a gate it stops there once: at the second record, because the first one reserves orefs.
#[derive(Default)]
pub struct Gate {
    closed: Option<(Sender<()>, Receiver<()>)>,
    /// The bytes of each record that it was given.
    pub given: Arc<Mutex<Vec<usize>>>,
}

impl Gate {
    /// One that stops; what it says when it is to write, and what lets it go on.
    pub fn closed() -> (Gate, Receiver<()>, Sender<()>) {
        let ((writes, written), (may, wait)) = (channel(), channel());
        (Gate { closed: Some((writes, wait)), ..Gate::default() }, written, may)
    }
}

impl Journal for Gate {
    fn fits(&self, _: usize) -> bool {
        true
    }

    fn append(&mut self, sequence: u64, payload: &[u8]) -> Result<(), JournalError> {
        self.given.lock().unwrap().push(payload.len());
        if sequence > 1
            && let Some((writes, may)) = self.closed.take()
        {
            writes.send(()).unwrap();
            may.recv().unwrap();
        }
        Ok(())
    }

    fn turn(&mut self) {}

    fn generation(&self) -> u64 {
        1
    }

    fn used(&self) -> u64 {
        0
    }
}
