//! Tasks without nodes and threads, for tests: packets come and go by function calls.

use std::sync::Arc;

use bifrost_engine::Engine;
use parking_lot::Mutex;

use super::{Client, TaskMail, Tasks};

/// Packets, each batch with the number of its receiver.
type Batches = Arc<Mutex<Vec<(u32, Vec<u8>)>>>;

/// The tasks of a program. Invocations run on the stack of [`TasksAlone::post`].
#[derive(Debug)]
pub struct TasksAlone {
    tasks: Arc<Tasks>,
    delivered: Batches,
}

#[derive(Debug)]
struct Delivered(Batches);

impl TaskMail for Delivered {
    fn deliver(&self, to: u32, packets: Vec<u8>) {
        self.0.lock().push((to, packets));
    }

    fn begin_work(&self) {}

    fn end_work(&self) {}

    fn client(&self, _guest: u32) -> Option<Client> {
        None
    }
}

impl TasksAlone {
    /// Makes the tasks beside so many nodes; nothing if the program declares no native actors.
    ///
    /// # Errors
    /// When no context can be made.
    pub fn new(engine: &Arc<Engine>, nodes: u32) -> std::io::Result<Option<TasksAlone>> {
        let Some(tasks) = Tasks::of(engine, nodes) else { return Ok(None) };
        let delivered = Batches::default();
        tasks.connect(Box::new(Delivered(delivered.clone())));
        tasks.simulate()?;
        Ok(Some(TasksAlone { tasks, delivered }))
    }

    /// Returns the number under which nodes know the tasks.
    pub fn number(&self) -> u32 {
        self.tasks.number()
    }

    /// Hands over packets of a node or guest.
    pub fn post(&self, from: u32, packets: Vec<u8>) {
        self.tasks.post(from, packets);
    }

    /// Takes the packets to nodes and guests, in their order.
    pub fn delivered(&self) -> Vec<(u32, Vec<u8>)> {
        std::mem::take(&mut self.delivered.lock())
    }

    /// Notes that the nodes are no more.
    pub fn lose(&self, nodes: std::ops::Range<u32>) {
        self.tasks.lose(&nodes);
    }

    /// Returns the number of actors, and of invocations that have not ended.
    pub fn size(&self) -> (usize, usize) {
        (self.tasks.table.lock().actors.len(), self.tasks.pending())
    }
}
