//! Byte streams between processes: shared memory, unix sockets and TCP.
//!
//! A [`Stream`] carries bytes in order, both ways, between a client process and a server process,
//! over any of the transports. It knows nothing of the meaning of the bytes: frames, limits on
//! frames and checking of their content belong to its user. Read [`Stream`] first, then
//! [`Listener`] and [`Address`].
//!
//! Deliberately absent are: an async runtime, a protocol, encryption, and any periodic wake-up. A
//! stream that nobody uses costs no time.
//!
//! ```text
//! address    names of listeners, as URLs
//! deadline   until when a read or write may wait
//! identity   the peer, as the transport vouches for it
//! stream     Stream, its errors, its stopper; chooses one of the two below
//! socket     a stream over a unix or TCP socket
//! shm        a stream over two rings in memory shared by both processes
//!   mapped     the shared memory itself: the only unsafe code
//!   ring       positions and copies; checks whatever the peer wrote
//!   wait       spin, then sleep; what ends a sleep
//!   monitor    one thread that notices peers that died
//!   handover   how the memory gets from the server to the client
//! listener   Listener, its socket files, its stopper
//! ```
//!
//! The peer is not trusted (`docs/spec/transport.md` lists its attacks and their results). Nothing
//! that it writes is read twice, no allocation has a size that it chose, and its misbehaviour ends
//! its own stream and no other.

mod address;
mod attention;
mod deadline;
mod identity;
mod listener;
mod shm;
mod socket;
mod stream;

pub use address::{Address, AddressError, default_directory};
pub use deadline::Deadline;
pub use identity::Identity;
pub use listener::{AcceptError, ListenError, ListenOptions, Listener, SHORTAGE_PAUSE, Shortage, Stopper};
pub use shm::{RING_BYTES_DEFAULT, RING_BYTES_MAX, RING_BYTES_MIN, spin_max_default};
pub use stream::{
    ConnectError, ConnectOptions, HangUp, ReadError, Stream, StreamReading, StreamStopper, StreamWaiter,
    StreamWriting, WriteError,
};
