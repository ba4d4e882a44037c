//! A stream without a thread of its own: its user rests, and a poller rings when there is
//! something.
//!
//! 1. The user enters a waker, and has a poller watch the descriptor, edge-triggered.
//! 2. It reads and writes without waiting until nothing is there ([`Stream::try_read`] returns
//!    `None`) or there is no room. It may look a little longer ([`Stream::linger`]).
//! 3. It calls [`Stream::rest`]. If that is true, the descriptor becomes readable or the waker is
//!    called when there is more. Then the user calls [`Stream::awake`], and reads again.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Weak};
use std::time::Instant;

use thiserror::Error;

use crate::attention::{Attention, CLOSED};
use crate::stream::{Medium, Stream};
use crate::want::Want;
use crate::websocket::PING_EVERY;

/// The knowledge about the end of a stream's peer.
#[derive(Debug)]
pub struct Closed(Weak<Attention>);

impl Closed {
    /// True if the peer is known to be gone.
    pub fn is_closed(&self) -> bool {
        self.0.upgrade().is_some_and(|attention| attention.bits() & CLOSED != 0)
    }
}

/// The peer of a websocket has not answered a ping.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("the peer has not answered a ping within {} s", PING_EVERY.as_secs())]
pub struct PeerSilent;

impl Stream {
    /// Returns the descriptor that a poller watches: the socket, or the bell of shared memory.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        match &self.medium {
            Medium::Shm(stream) => stream.bell().map_or(self.connection.socket.as_fd(), AsFd::as_fd),
            Medium::Socket(stream) => stream.socket().as_fd(),
            Medium::Tls(stream) => stream.shared_socket().as_fd(),
            Medium::Web(stream) => stream.shared_socket().as_fd(),
            Medium::Quic(stream) => stream.event().as_fd(),
        }
    }

    /// Enters the function that is called when the stream is stopped, and for shared memory when
    /// the peer is gone; both may be so already. It is called from other threads, and must not take
    /// long. The first one stays.
    pub fn set_waker(&self, waker: impl Fn() + Send + Sync + 'static) {
        self.connection.attention.set_waker(Box::new(waker));
    }

    /// True if the stream was stopped, or only its reads.
    pub fn is_stopped(&self) -> bool {
        self.connection.attention.is_deaf()
    }

    /// Returns the knowledge about the peer's end, for a waker. A poller knows that of a socket.
    pub fn closed(&self) -> Closed {
        Closed(Arc::downgrade(&self.connection.attention))
    }

    /// True if the descriptor is the socket that the bytes go through, so that a poller must look
    /// for room. The descriptor of QUIC tells of room by itself.
    pub fn watches_socket(&self) -> bool {
        !matches!(self.medium, Medium::Shm(_) | Medium::Quic(_))
    }

    /// True if a `try_read` that gave so many bytes, with room for more, has left none: what comes
    /// later rings. Saves a call of the system before a rest.
    #[inline]
    pub fn is_drained(&self, count: usize, room: usize) -> bool {
        matches!(self.medium, Medium::Socket(_)) && count < room
    }

    /// Looks for bytes to be read for as long as that has paid lately, while `goes_on`. True if
    /// there are some. Only shared memory is looked at without calls of the system, so a socket
    /// gives false at once.
    #[inline]
    pub fn linger(&mut self, goes_on: impl Fn() -> bool) -> bool {
        match &mut self.medium {
            Medium::Shm(stream) => stream.linger(goes_on),
            Medium::Socket(_) | Medium::Tls(_) | Medium::Web(_) | Medium::Quic(_) => false,
        }
    }

    /// Says that nobody waits here until there is something of what is wanted, of which there was
    /// nothing. False if there is some now, or the stream has ended.
    ///
    /// A poller must look for room of a socket, too, if that is wanted.
    #[inline]
    pub fn rest(&mut self, want: Want) -> bool {
        match &mut self.medium {
            Medium::Shm(stream) => stream.rest(want),
            // The kernel has an edge for whatever came after the last look.
            Medium::Socket(_) | Medium::Tls(_) | Medium::Web(_) => true,
            Medium::Quic(stream) => stream.rest(want),
        }
    }

    /// Keeps the connection alive, and returns the time at which it is to be called again: a
    /// websocket sends a ping. None for other streams, whose peers the system watches.
    ///
    /// # Errors
    /// The peer has sent nothing since the last ping, so it is gone.
    pub fn beat(&mut self) -> Result<Option<Instant>, PeerSilent> {
        match &self.medium {
            Medium::Shm(_) | Medium::Socket(_) | Medium::Tls(_) | Medium::Quic(_) => Ok(None),
            Medium::Web(stream) => stream.beat(Instant::now()).map(Some),
        }
    }

    /// Says that the user looks again.
    #[inline]
    pub fn awake(&mut self) {
        match &mut self.medium {
            Medium::Shm(stream) => stream.awake(),
            Medium::Socket(_) | Medium::Tls(_) | Medium::Web(_) | Medium::Quic(_) => {}
        }
    }
}
