//! The connection with one other capsule: the bytes to be written, and those that were read.
//!
//! Read [`Peer`] first. Three kinds of threads use it:
//!
//! | thread | does |
//! | --- | --- |
//! | a node with packets | writes them itself ([`Peer::write`]), and all that others have added |
//! | the peer's writer | writes the rest, and PING after silence ([`Peer::write_when_woken`]) |
//! | the peer's reader, or a node that looks for mail | reads ([`Inbox`]) |
//!
//! The lock of [`Out`] guards the bytes to be written, that of [`Inbox`] the bytes read. The thread
//! that has set [`Out::writing`] owns the stream for writing. A peer is closed once, and takes no
//! bytes then. The meaning of the frames is in `mesh`.

use std::time::Duration;

use bifrost_transport::{StreamReading, StreamStopper, StreamWaiter, StreamWriting};
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::greeting::Connection;
use super::{PING_MS, QUEUE_BYTES_MAX, WRITE_MS_MAX};
use crate::mesh::{Decoder, Frame, put};

/// A buffer for bytes to be written keeps at most so much room.
const KEPT_BYTES_MAX: usize = 256 << 10;

/// Another capsule.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) number: u32,
    out: Mutex<Out>,
    /// Signals bytes to the thread that writes when no other can.
    wake: Condvar,
    /// Signals that there is room again.
    room: Condvar,
    /// Locked by the thread that has set [`Out::writing`].
    stream: Mutex<StreamWriting>,
    pub(super) stopper: StreamStopper,
    /// Locked by the reader: its thread, or, over shared memory, a node that looks for mail.
    pub(super) inbox: Mutex<Inbox>,
    /// Over shared memory: its thread sleeps here.
    pub(super) waiter: Option<StreamWaiter>,
}

/// The bytes that come from another capsule.
#[derive(Debug)]
pub(super) struct Inbox {
    pub(super) stream: StreamReading,
    pub(super) decoder: Decoder,
    /// The number of times that something was read.
    pub(super) reads: u64,
    /// A fault that a node has found, for the thread to report.
    pub(super) wrong: Option<String>,
}

/// The bytes to be written to another capsule.
#[derive(Debug, Default)]
struct Out {
    bytes: Vec<u8>,
    /// A thread writes, and will write the bytes that are added meanwhile.
    writing: bool,
    closed: bool,
    /// A buffer for the next that writes.
    spare: Vec<u8>,
}

impl Peer {
    /// Makes the peer of a connection.
    pub(super) fn new(number: u32, connection: Connection) -> Peer {
        let Connection { stream, decoder } = connection;
        let stopper = stream.stopper();
        let (reading, writing) = stream.split();
        Peer {
            number,
            out: Mutex::default(),
            wake: Condvar::new(),
            room: Condvar::new(),
            stopper,
            stream: Mutex::new(writing),
            waiter: reading.waiter(),
            inbox: Mutex::new(Inbox { stream: reading, decoder, reads: 0, wrong: None }),
        }
    }

    /// Adds frames to the bytes to be written, for its thread to write; never waits.
    pub(super) fn add(&self, frames: impl FnOnce(&mut Vec<u8>)) {
        let mut out = self.out.lock();
        if !out.closed {
            frames(&mut out.bytes);
            self.wake.notify_one();
        }
    }

    /// Adds frames and writes them. If another thread writes already, it will write these, too.
    #[inline]
    pub(super) fn write(&self, frames: impl FnOnce(&mut Vec<u8>)) -> Result<(), String> {
        let mut out = self.out.lock();
        while out.bytes.len() >= QUEUE_BYTES_MAX && !out.closed {
            self.room.wait(&mut out);
        }
        if out.closed {
            return Ok(());
        }
        frames(&mut out.bytes);
        if std::mem::replace(&mut out.writing, true) {
            return Ok(());
        }
        let written = self.write_out(out);
        // Bytes that were added meanwhile are for the thread, so that no node writes for others for
        // ever.
        let mut out = self.out.lock();
        out.writing = false;
        if !out.bytes.is_empty() {
            self.wake.notify_one();
        }
        written
    }

    /// Writes all that is there. Only for the thread that has set [`Out::writing`].
    #[inline]
    fn write_out(&self, mut out: MutexGuard<'_, Out>) -> Result<(), String> {
        let spare = std::mem::take(&mut out.spare);
        let mut bytes = std::mem::replace(&mut out.bytes, spare);
        drop(out);
        self.room.notify_all();
        let written = self.stream.lock().write(&bytes, Duration::from_millis(WRITE_MS_MAX));
        if bytes.capacity() <= KEPT_BYTES_MAX {
            bytes.clear();
            self.out.lock().spare = bytes;
        }
        written.map_err(|why| why.to_string())
    }

    /// Writes the bytes that no node has written, until the connection is closed. A write that
    /// fails is one of a connection that has ended, which its reader finds.
    pub(super) fn write_when_woken(&self) {
        let mut out = self.out.lock();
        while !out.closed {
            if out.bytes.is_empty() || out.writing {
                let waited = self.wake.wait_for(&mut out, Duration::from_millis(PING_MS));
                if waited.timed_out() && out.bytes.is_empty() && !out.writing {
                    put(&mut out.bytes, &Frame::Ping);
                }
                continue;
            }
            out.writing = true;
            let written = self.write_out(out);
            out = self.out.lock();
            out.writing = false;
            self.room.notify_all();
            if written.is_err() {
                self.stopper.stop();
                out.closed = true;
            }
        }
        self.room.notify_all();
    }

    /// Waits until all is written, or cannot be.
    pub(super) fn drain(&self) {
        let mut out = self.out.lock();
        while (out.writing || !out.bytes.is_empty()) && !out.closed {
            self.room.wait_for(&mut out, Duration::from_millis(10));
        }
    }

    /// Ends the connection: nothing is read or written any more.
    pub(super) fn close(&self) {
        self.stopper.stop();
        self.out.lock().closed = true;
        self.wake.notify_all();
        self.room.notify_all();
    }
}
