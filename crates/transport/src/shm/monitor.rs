//! One thread of the process that notices when peers hang up.
//!
//! A peer that dies cannot say so in shared memory, but the kernel closes its end of the unix
//! socket that the memory came through. The thread sleeps in `epoll_wait` on all those sockets at
//! once. On a hang-up it raises [`CLOSED`] in the stream's private attention word, which wakes the
//! stream's user.
//!
//! Nothing is ever read from the sockets, so a peer cannot keep the thread busy: each socket
//! reports once at most (`EPOLLONESHOT`).

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use crate::attention::{Attention, CLOSED};

struct Monitor {
    epoll: OwnedFd,
    watched: Mutex<Watched>,
}

#[derive(Default)]
struct Watched {
    next_id: u64,
    streams: HashMap<u64, Arc<Attention>>,
}

/// A socket being watched, until dropped.
#[derive(Debug)]
pub(crate) struct Watch {
    id: u64,
    socket: Arc<OwnedFd>,
}

/// Raises [`CLOSED`] in `attention` once the other end of `socket` is gone, or sends nothing any
/// more, which it may have done already.
pub(crate) fn watch(socket: Arc<OwnedFd>, attention: Arc<Attention>) -> io::Result<Watch> {
    let monitor = Monitor::of_process()?;
    let id = {
        let mut watched = monitor.watched();
        let id = watched.next_id;
        watched.next_id += 1;
        watched.streams.insert(id, attention);
        id
    };
    // Hang-ups and errors are reported without being asked for.
    let flags = EventFlags::RDHUP | EventFlags::ONESHOT;
    match epoll::add(&monitor.epoll, &socket, EventData::new_u64(id), flags) {
        Ok(()) => Ok(Watch { id, socket }),
        Err(error) => {
            monitor.watched().streams.remove(&id);
            Err(error.into())
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let monitor = Monitor::of_process().expect("a watch was made by a monitor that runs");
        let _ = epoll::delete(&monitor.epoll, self.socket.as_fd());
        monitor.watched().streams.remove(&self.id);
    }
}

impl Monitor {
    /// Returns the monitor of this process, started if this is the first call. A failed start is
    /// tried again by the next call.
    fn of_process() -> io::Result<&'static Monitor> {
        static MONITOR: Mutex<Option<&'static Monitor>> = Mutex::new(None);
        let mut started = MONITOR.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(monitor) = *started {
            return Ok(monitor);
        }
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let monitor: &'static Monitor = Box::leak(Box::new(Monitor { epoll, watched: Mutex::default() }));
        thread::Builder::new()
            .name("bifrost-monitor".to_owned())
            .stack_size(64 << 10)
            .spawn(move || monitor.run())?;
        *started = Some(monitor);
        Ok(monitor)
    }

    fn watched(&self) -> MutexGuard<'_, Watched> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut events = Vec::with_capacity(64);
        loop {
            events.clear();
            // Fails with EINTR only: then there are no events, and the loop goes on.
            let _ = epoll::wait(&self.epoll, spare_capacity(&mut events), None);
            let watched = self.watched();
            for event in &events {
                if let Some(attention) = watched.streams.get(&event.data.u64()) {
                    attention.raise(CLOSED);
                }
            }
        }
    }
}
