//! Byte streams between processes: shared memory, unix sockets, TCP, TLS, websocket and QUIC.
//!
//! A [`Stream`] carries bytes in order, both ways, between a client process and a server process,
//! over any of the transports. It knows nothing of the meaning of the bytes: frames, limits on
//! frames and checking of their content belong to its user. Read [`Stream`] first, then
//! [`Listener`] and [`Address`].
//!
//! Deliberately absent are: an async runtime, a protocol, and any periodic wake-up. A stream that
//! nobody uses costs no time. Certificates and encryption are rustls's; `tls` is the glue. Frames
//! of websockets are tungstenite's, packets of QUIC quinn-proto's.
//!
//! ```text
//! address    names of listeners, as URLs
//! deadline   until when a read or write may wait
//! pin        the name of a public key
//! identity   the proof of a peer about itself
//! errors     the reasons why a stream is not made, or gives and takes no bytes
//! connect    a client's sockets
//! stream     Stream, its stopper; chooses one of the media below
//! halves     the halves of a stream, for a thread each
//! host       the identity of this machine
//! patient    waiting reads and writes of the layers: TLS and websocket
//! rest       a stream whose user has no thread of its own
//! want       the end of a rest
//! socket     a stream over a unix or TCP socket
//! tls        a stream over TLS 1.3
//!   machine    the state of a connection, without its socket
//!   trust      certificates, and the authorities that are trusted
//!   error      failures, with their remedies
//! websocket  a stream over a websocket
//!   carrier    the stream under it
//!   error      failures, with their remedies
//! quic       a stream of a connection of QUIC, with the calls of REX
//!   link       a connection and its streams, without input or output
//!   wired      a connection with its lock
//!   port       a UDP socket with its connections, and its thread
//!   listening  what the port of a listener has beside that
//!   receiver   the receiving
//!   baton      the right to receive
//!   settings   the parameters of QUIC
//!   asked      counts of questions
//!   detached   a connection without a socket, for tests
//!   error      the ends of connections
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
mod connect;
mod deadline;
mod errors;
mod halves;
mod host;
mod identity;
mod listener;
mod patient;
mod pin;
mod quic;
mod rest;
mod shm;
mod socket;
mod stream;
mod tls;
mod want;
mod websocket;

pub use bifrost_rex::{Call, CallState, Ran};

pub use address::{Address, AddressError, default_directory};
pub use deadline::Deadline;
pub use errors::{ConnectError, ReadError, WriteError};
pub use halves::{StreamReading, StreamWaiter, StreamWriting};
pub use host::host;
pub use identity::Identity;
pub use listener::{AcceptError, ListenError, ListenOptions, Listener, SHORTAGE_PAUSE, Shortage, Stopper};
pub use pin::{Pin, PinError};
pub use quic::asked::answers as answered_questions;
#[doc(hidden)]
pub use quic::detached;
pub use quic::{CallWatch, LinkError, QuicLimits, wait_delivered};
pub use rest::{Closed, PeerSilent};
pub use shm::{RING_BYTES_DEFAULT, RING_BYTES_MAX, RING_BYTES_MIN, spin_max_default};
pub use stream::{ConnectOptions, Stream, StreamStopper};
pub use tls::{
    CertificateFileError, Clients, KeyFiles, Protocol, TlsError, TlsMeans, TlsOptions, TlsServer, tls_means,
};
pub use want::Want;
pub use websocket::{CONTROL_FRAMES_PER_SECOND_MAX, MESSAGE_BYTES_MAX, PING_EVERY, SUBPROTOCOL, WebError};
