//! [`Detached`]: a connection without a socket, a lock and a clock, for tests with any packets at
//! any time. It is no part of the interface of this crate.

use std::sync::Arc;
use std::time::Instant;

use bifrost_rex::{Call, Ran};
use bytes::Bytes;
use quinn_proto::{
    Connection, ConnectionEvent, ConnectionHandle, Endpoint, StreamId, Transmit, TransportConfig,
};

use super::link::{Gone, Link};
use super::{LinkError, port, settings};
use crate::tls::TlsServer;

/// Returns the endpoint of a server, or of clients.
///
/// # Panics
/// The algorithms of the certificate have none that QUIC begins with.
pub fn endpoint(server: Option<&TlsServer>) -> Endpoint {
    let key = server.map(TlsServer::reset_key);
    let config = server.map(|tls| {
        let [local, _] = settings::server(tls.quic()).expect("algorithms of QUIC");
        local
    });
    Endpoint::new(settings::endpoint(key.as_ref()), config, true, Some([7; 32]))
}

/// Returns the parameters of a client on this machine.
pub fn client_parameters() -> Arc<TransportConfig> {
    settings::transport(true, 0)
}

/// A connection without a socket.
#[derive(Debug)]
pub struct Detached {
    link: Link,
}

impl Detached {
    /// Makes one of a connection that begins.
    pub fn new(connection: Connection, now: Instant) -> Detached {
        Detached { link: Link::new(connection, now) }
    }

    /// Takes an event of the endpoint.
    pub fn handle_event(&mut self, now: Instant, event: ConnectionEvent) {
        self.link.handle_event(now, event);
    }

    /// Handles what has arrived, and sends nothing.
    pub fn settle(&mut self, now: Instant) {
        self.link.settle(now);
    }

    /// Sends the packets that are due, as `Wired::pump` does.
    pub fn pump(
        &mut self,
        now: Instant,
        endpoint: &mut Endpoint,
        handle: ConnectionHandle,
        mut send: impl FnMut(&Transmit, &[u8]),
    ) {
        let mut bytes = Vec::new();
        loop {
            self.link.settle(now);
            while let Some(event) = self.link.poll_endpoint_event() {
                if let Some(answer) = endpoint.handle_event(handle, event) {
                    self.link.handle_endpoint(answer);
                }
            }
            bytes.clear();
            let Some(transmit) = self.link.poll_transmit(now, 1, &mut bytes) else { return };
            send(&transmit, &bytes);
        }
    }

    /// Returns the time at which [`Detached::handle_timeout`] is due.
    pub fn poll_timeout(&mut self) -> Option<Instant> {
        self.link.poll_timeout()
    }

    /// Runs expired timers.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.link.handle_timeout(now);
    }

    /// True once the handshake is over, until the connection is lost.
    pub fn is_established(&self) -> bool {
        self.link.is_established()
    }

    /// True if nothing of the connection is left.
    pub fn is_drained(&self) -> bool {
        self.link.is_drained()
    }

    /// Returns the reason why the connection was lost.
    pub fn lost(&self) -> Option<LinkError> {
        self.link.lost().map(|why| (**why).clone())
    }

    /// Returns the number of streams.
    pub fn streams(&self) -> usize {
        self.link.streams()
    }

    /// Opens a stream of a client, if there is one left.
    ///
    /// # Panics
    /// The process has too many descriptors.
    pub fn open(&mut self) -> Option<StreamId> {
        self.link.open(port::bell().expect("a descriptor"))
    }

    /// Takes a stream that the client has opened.
    ///
    /// # Panics
    /// The process has too many descriptors.
    pub fn accept(&mut self) -> Option<StreamId> {
        let id = self.link.accept()?;
        self.link.enter(id, port::bell().expect("a descriptor"));
        Some(id)
    }

    /// Reads bytes; `Ok(None)`: there are none now. Of a lost connection: whether the call ran.
    ///
    /// # Errors
    /// The stream or the connection is gone.
    pub fn read(
        &mut self,
        now: Instant,
        id: StreamId,
        into: &mut Vec<u8>,
        limit: usize,
    ) -> Result<Option<usize>, Option<Ran>> {
        self.link.read(now, id, into, limit).map_err(ran)
    }

    /// Writes bytes; returns for how many there was room.
    ///
    /// # Errors
    /// The stream or the connection is gone.
    pub fn write(&mut self, id: StreamId, bytes: &[u8]) -> Result<usize, Option<Ran>> {
        self.link.write(id, bytes).map_err(ran)
    }

    /// Ends a call.
    pub fn flush(&mut self, now: Instant, id: StreamId) {
        self.link.flush(now, id);
    }

    /// Returns the call that waits.
    pub fn call(&self, now: Instant, id: StreamId) -> Option<Call> {
        self.link.call(now, id)
    }

    /// Ends a stream.
    pub fn close(&mut self, id: StreamId) {
        self.link.close(id);
    }

    /// Ends the connection.
    pub fn end(&mut self, now: Instant) {
        self.link.end(now, 0, "the test ends");
    }

    /// Sends a datagram with any bytes.
    pub fn say(&mut self, bytes: Vec<u8>) {
        self.link.say_bytes(Bytes::from(bytes));
    }
}

fn ran(gone: Gone) -> Option<Ran> {
    match gone {
        Gone::Closed => None,
        Gone::Lost(_, ran) => Some(ran),
    }
}
