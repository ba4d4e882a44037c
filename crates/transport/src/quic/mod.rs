//! A stream over QUIC: bytes in order, over datagrams, encrypted with TLS 1.3.
//!
//! Read [`QuicStream`] first: a bidirectional stream of a connection. `link` is the connection
//! without input or output, with its calls ([`bifrost_rex`]); `open` a stream of it; `wired` its
//! lock; `port` the socket, its timers and its thread; `baton` the right to receive; `listening`
//! the new connections of a listener; `receiver` the receiving; `settings` the parameters of QUIC;
//! `error` the ends of connections.
//!
//! ```text
//! QuicStream --- Wired (a lock, a condition) --- Link --- quinn_proto::Connection
//!                  |
//!                Port: socket, endpoint, timers, the thread that receives
//! ```
//!
//! The client streams of a process share a connection for each server. A stream has an eventfd,
//! its bell, which is readable when there is something for a user that waits.

pub mod asked;
mod baton;
pub mod detached;
pub(crate) mod error;
mod link;
mod listening;
mod open;
#[cfg(test)]
mod planted;
mod port;
mod receiver;
mod settings;
#[cfg(test)]
mod simulation;
mod sync;
mod wired;

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use bifrost_rex::Call;
use quinn_proto::{Connection, StreamId};
use rustix::event::PollFlags;
use rustls::pki_types::CertificateDer;

pub use error::LinkError;
use link::{Gone, Link};
pub(crate) use listening::Accepted;
pub use listening::QuicLimits;
use open::Bell;
pub(crate) use port::Port;
pub use port::wait_delivered;
use wired::Wired;

use crate::attention::Attention;
use crate::errors::{ReadError, WriteError};
use crate::identity::Identity;
use crate::pin::Pin;
use crate::tls::{self, CertificateFileError, Protocol, TlsError, TlsOptions, Trusting, Witness, names_of};
use crate::want::Want;

/// The silence of a connection after which a new stream first makes sure that the peer lives.
const SURE: Duration = Duration::from_secs(1);
/// The longest time for that.
const SURE_WAIT: Duration = Duration::from_secs(1);

/// One end of a stream over QUIC, or a half of it. Clones are the same end.
#[derive(Clone, Debug)]
pub(crate) struct QuicStream {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    wired: Arc<Wired>,
    id: StreamId,
    bell: Arc<Bell>,
}

/// The reason why there is no stream.
#[derive(Debug)]
pub(crate) enum ConnectFailure {
    TimedOut,
    /// The handshake failed.
    Tls(TlsError),
    /// The connection was lost.
    Lost(LinkError),
    /// A file of the options cannot be used.
    Certificates(CertificateFileError),
    Io(io::Error),
}

impl From<io::Error> for ConnectFailure {
    fn from(error: io::Error) -> ConnectFailure {
        ConnectFailure::Io(error)
    }
}

/// The time after which the next address of a host is tried, too (RFC 8305 section 5).
const NEXT_ADDRESS: Duration = Duration::from_millis(250);
/// The wait for one of several handshakes before a look at the next one.
const TURN: Duration = Duration::from_millis(5);

/// A connection that streams can share.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Key {
    remote: SocketAddr,
    host: String,
    pin: Option<Pin>,
    options: TlsOptions,
    /// The authorities that the environment names.
    authorities: Option<std::ffi::OsString>,
}

/// The ports and connections of the clients of this process.
#[derive(Default)]
struct Clients {
    ports: [Option<Arc<Port>>; 2],
    links: HashMap<Key, Arc<Wired>>,
}

fn clients() -> &'static Mutex<Clients> {
    static CLIENTS: OnceLock<Mutex<Clients>> = OnceLock::new();
    CLIENTS.get_or_init(Mutex::default)
}

/// Connects to a server: over the connection that this process has with it, if there is one that
/// lives. The addresses of a host are tried one after the other, and beside each other (RFC 8305).
///
/// # Errors
/// [`ConnectFailure`]
pub(crate) fn connect(
    (host, port, pin): (&str, u16, Option<Pin>),
    options: &TlsOptions,
    deadline: Instant,
) -> Result<QuicStream, ConnectFailure> {
    let remotes: Vec<SocketAddr> = (host, port).to_socket_addrs()?.collect();
    connect_any(&remotes, (host, pin), options, deadline)
}

fn connect_any(
    remotes: &[SocketAddr],
    place: (&str, Option<Pin>),
    options: &TlsOptions,
    deadline: Instant,
) -> Result<QuicStream, ConnectFailure> {
    let mut last = ConnectFailure::Io(io::Error::new(io::ErrorKind::NotFound, "the host has no address"));
    let (mut remotes, mut attempts) = (remotes.iter().peekable(), Vec::new());
    while remotes.peek().is_some() || !attempts.is_empty() {
        if let Some(remote) = remotes.next() {
            match begin(*remote, place, options, deadline) {
                Ok(Begun::Stream(stream)) => return Ok(stream),
                Ok(Begun::Attempt(attempt)) => attempts.push(*attempt),
                // Another address has the same files.
                Err(failure @ ConnectFailure::Certificates(_)) => return Err(failure),
                Err(failure) => last = failure,
            }
        }
        let next = remotes.peek().map(|_| deadline.min(Instant::now() + NEXT_ADDRESS));
        match first_over(&mut attempts, next.unwrap_or(deadline)).map(Attempt::finish) {
            Some(Ok(stream)) => return Ok(stream),
            Some(Err(failure)) => last = failure,
            None if Instant::now() >= deadline => return Err(ConnectFailure::TimedOut),
            None => {}
        }
    }
    Err(last)
}

/// Waits until the handshake of an attempt is over, or has failed, and takes it out.
fn first_over(attempts: &mut Vec<Attempt>, until: Instant) -> Option<Attempt> {
    loop {
        let now = Instant::now();
        let wait = if attempts.len() == 1 { until } else { until.min(now + TURN) };
        let over = attempts.iter().position(|attempt| attempt.wired.wait_established(wait));
        if let Some(over) = over {
            return Some(attempts.swap_remove(over));
        }
        if attempts.is_empty() || Instant::now() >= until {
            return None;
        }
    }
}

/// A stream over a connection that was there, or the beginning of a connection.
enum Begun {
    Stream(QuicStream),
    Attempt(Box<Attempt>),
}

/// A connection whose handshake is under way. It ends with its value, unless it is finished.
struct Attempt {
    key: Key,
    wired: Arc<Wired>,
    witness: Arc<Witness>,
    is_finished: bool,
}

fn known() -> MutexGuard<'static, Clients> {
    clients().lock().unwrap_or_else(PoisonError::into_inner)
}

fn begin(
    remote: SocketAddr,
    (host, pin): (&str, Option<Pin>),
    options: &TlsOptions,
    deadline: Instant,
) -> Result<Begun, ConnectFailure> {
    let authorities = std::env::var_os(tls::AUTHORITIES);
    let key = Key { remote, host: host.to_owned(), pin, options: options.clone(), authorities };
    let wired = known().links.get(&key).cloned();
    if let Some(wired) = wired {
        let sure = deadline.min(Instant::now() + SURE_WAIT);
        if wired.is_alive(SURE, sure)
            && let Some(stream) = QuicStream::open(&wired)?
        {
            return Ok(Begun::Stream(stream));
        }
        let mut known = known();
        if known.links.get(&key).is_some_and(|now| Arc::ptr_eq(now, &wired)) {
            known.links.remove(&key);
        }
    }
    let Trusting { config, witness } =
        tls::trusting(host, pin, options, Protocol::Rex).map_err(ConnectFailure::Certificates)?;
    let config = settings::client(config, remote.ip().to_canonical().is_loopback());
    let config = config.map_err(|why| ConnectFailure::Io(io::Error::other(why)))?;
    let port = known().port(remote.is_ipv6())?;
    let name = if rustls::pki_types::ServerName::try_from(host).is_ok() { host } else { tls::PINNED };
    let wired = port.connect(config, remote, name, witness.trusts_names());
    let wired = wired.map_err(|why| ConnectFailure::Io(io::Error::other(why)))?;
    Ok(Begun::Attempt(Box::new(Attempt { key, wired, witness, is_finished: false })))
}

impl Attempt {
    /// Opens a stream of a connection whose handshake is over, which is known then.
    fn finish(mut self) -> Result<QuicStream, ConnectFailure> {
        self.is_finished = true;
        let lost = self.wired.link().lost().cloned();
        if let Some(lost) = lost {
            return Err(why_lost(&lost, &self.witness));
        }
        let stream = QuicStream::open(&self.wired)?;
        let mut known = known();
        known.links.retain(|_, wired| wired.link().lost().is_none());
        known.links.insert(self.key.clone(), self.wired.clone());
        stream.ok_or(ConnectFailure::TimedOut)
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if !self.is_finished {
            self.wired.end("the handshake took too long");
        }
    }
}

/// The reason why a handshake failed, with its remedy.
fn why_lost(lost: &LinkError, witness: &Witness) -> ConnectFailure {
    let tls = |error| TlsError::new(error, witness.host(), witness.expected(), witness.seen());
    match (lost.alert(), witness.refused()) {
        (Some((_, false)), Some(refused)) => ConnectFailure::Tls(tls(refused)),
        (Some((alert, true)), _) => {
            let alert = rustls::AlertDescription::from(alert);
            ConnectFailure::Tls(tls(rustls::Error::AlertReceived(alert)))
        }
        _ => ConnectFailure::Lost(lost.clone()),
    }
}

impl Clients {
    fn port(&mut self, is_v6: bool) -> io::Result<Arc<Port>> {
        let place = &mut self.ports[usize::from(is_v6)];
        match place {
            Some(port) => Ok(port.clone()),
            None => {
                let port = Port::for_clients(is_v6)?;
                *place = Some(port.clone());
                Ok(port)
            }
        }
    }
}

/// Makes the port of a listener.
///
/// # Errors
/// The system refuses.
pub(crate) fn listen(
    host: &str,
    port: u16,
    tls: crate::tls::TlsServer,
    limits: QuicLimits,
) -> io::Result<(Arc<Port>, u16)> {
    let socket = UdpSocket::bind((host, port))?;
    let port = socket.local_addr()?.port();
    Ok((Port::listen(socket, tls, limits)?, port))
}

/// Returns the peer's proof about itself.
fn identity(connection: &Connection, trusts_names: bool) -> Identity {
    let chain = connection.crypto_session().peer_identity();
    let chain = chain.and_then(|chain| chain.downcast::<Vec<CertificateDer<'static>>>().ok());
    let own = chain.as_ref().and_then(|chain| chain.first());
    let Some((certificate, pin)) = own.and_then(|one| Some((one, Pin::of(one)?))) else {
        return Identity::None;
    };
    let names = if trusts_names { names_of(certificate) } else { Vec::new() };
    Identity::Certificate { names, pin: pin.to_string() }
}

impl QuicStream {
    /// Opens a stream of a client; `None` if the server allows no more on this connection.
    fn open(wired: &Arc<Wired>) -> Result<Option<QuicStream>, ConnectFailure> {
        let bell = port::bell()?;
        let id = wired.link().open(bell.clone());
        Ok(id.map(|id| QuicStream { shared: Arc::new(Shared { wired: wired.clone(), id, bell }) }))
    }

    /// Takes a stream that a client has opened.
    ///
    /// # Errors
    /// The process has too many descriptors. The stream is ended.
    pub(crate) fn accept(Accepted { wired, id }: Accepted) -> io::Result<QuicStream> {
        let made = port::bell();
        let bell = match made {
            Ok(bell) => bell,
            Err(error) => {
                wired.refuse(id);
                return Err(error);
            }
        };
        wired.link().enter(id, bell.clone());
        Ok(QuicStream { shared: Arc::new(Shared { wired, id, bell }) })
    }

    /// The bell, as the descriptor to wait for.
    pub(crate) fn event(&self) -> &Arc<OwnedFd> {
        &self.shared.bell.event
    }

    pub(crate) fn attention(&self) -> &Arc<Attention> {
        &self.shared.bell.attention
    }

    /// Returns the address of the peer.
    pub(crate) fn remote(&self) -> SocketAddr {
        self.shared.wired.remote
    }

    pub(crate) fn identity(&self) -> Identity {
        self.shared.wired.identity()
    }

    pub(crate) fn try_read(&self, into: &mut Vec<u8>, limit: usize) -> Result<Option<usize>, ReadError> {
        let Shared { wired, id, .. } = &*self.shared;
        if self.attention().is_deaf() {
            return Err(ReadError::Stopped);
        }
        let now = Instant::now();
        let mut link = wired.link();
        let read = link.read(now, *id, into, limit);
        if self.attention().is_deaf() {
            return Err(ReadError::Stopped);
        }
        match read {
            Ok(count) => {
                wired.tell_room(now, &mut link);
                Ok(count)
            }
            Err(Gone::Closed) => Ok(Some(0)),
            Err(Gone::Lost(why, ran)) => Err(ReadError::Lost { why: (*why).clone(), ran }),
        }
    }

    pub(crate) fn read(
        &self,
        into: &mut Vec<u8>,
        limit: usize,
        deadline: Option<Instant>,
    ) -> Result<usize, ReadError> {
        loop {
            if let Some(count) = self.try_read(into, limit)? {
                return Ok(count);
            }
            let Shared { wired, id, bell } = &*self.shared;
            match wired.wait_readable(*id, bell, deadline) {
                Ok(true) => {}
                Ok(false) => return Err(ReadError::TimedOut),
                Err(error) => return Err(ReadError::Io(error.into())),
            }
        }
    }

    pub(crate) fn try_write(&self, bytes: &[u8]) -> Result<usize, WriteError> {
        let mut link = self.shared.wired.link();
        self.write_some(&mut link, bytes)
    }

    fn write_some(&self, link: &mut Link, bytes: &[u8]) -> Result<usize, WriteError> {
        if self.attention().is_stopped() {
            return Err(WriteError::Stopped);
        }
        let Shared { wired, id, .. } = &*self.shared;
        let count = link.write(*id, bytes).map_err(|_| WriteError::Closed)?;
        if count < bytes.len() {
            wired.pump(Instant::now(), link);
        }
        Ok(count)
    }

    pub(crate) fn write(&self, mut bytes: &[u8], deadline: Option<Instant>) -> Result<(), WriteError> {
        let wired = &self.shared.wired;
        let mut link = wired.link();
        loop {
            let written = self.write_some(&mut link, bytes)?;
            bytes = &bytes[written..];
            if bytes.is_empty() {
                return Ok(());
            }
            // The bell is the reader's.
            link = wired.wait(link, deadline).ok_or(WriteError::TimedOut)?;
        }
    }

    /// Sends all that was written. Of a client it is a call.
    pub(crate) fn flush(&self) {
        let Shared { wired, id, .. } = &*self.shared;
        let now = Instant::now();
        let mut link = wired.link();
        link.flush(now, *id);
        wired.pump(now, &mut link);
    }

    /// Waits until a read or a write may do something; false if the deadline has passed.
    pub(crate) fn wait_ready(&self, deadline: Instant) -> bool {
        let Shared { wired, id, .. } = &*self.shared;
        let mut link = wired.link();
        let now = Instant::now();
        let is_ready = link.arm(now, *id, Want::Room) || link.arm(now, *id, Want::Bytes);
        wired.tell_room(now, &mut link);
        drop(link);
        if is_ready {
            return true;
        }
        // After an error the next read or write finds the reason.
        crate::socket::wait_for(self.event(), PollFlags::IN, Some(deadline)).unwrap_or(true)
    }

    /// True if the stream has no bytes or room, as wanted: then the bell rings once it has.
    pub(crate) fn rest(&self, want: Want) -> bool {
        let Shared { wired, id, .. } = &*self.shared;
        !wired.arm(*id, want)
    }

    /// True if the peer has sent nothing that was not read.
    pub(crate) fn is_silent(&self) -> bool {
        self.shared.wired.link().is_silent(self.shared.id)
    }

    /// Returns the watch over the calls of a client.
    pub(crate) fn watch(&self) -> CallWatch {
        let Shared { wired, id, .. } = &*self.shared;
        CallWatch { wired: wired.clone(), id: *id }
    }

    /// Ends the stream: bytes that were written still arrive.
    pub(crate) fn close(&self) {
        self.shared.wired.close(self.shared.id);
        self.wake();
    }

    /// Wakes users that wait.
    pub(crate) fn wake(&self) {
        self.shared.bell.ring();
        self.shared.wired.wake();
    }
}

/// The watch over the calls of a client, from any thread: for progress bars, and for programs that
/// give up a call that has not begun.
#[derive(Clone, Debug)]
pub struct CallWatch {
    wired: Arc<Wired>,
    id: StreamId,
}

impl CallWatch {
    /// Returns the call that waits, with all that the server has told of it; `None` if none waits,
    /// or the stream has ended.
    pub fn call(&self) -> Option<Call> {
        self.wired.link().call(Instant::now(), self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Clients as ClientCertificates, KeyFiles, TlsServer};

    /// Makes a listener, and returns its address and pin.
    fn server() -> (Arc<Port>, SocketAddr, Pin) {
        let folder = tempfile::tempdir().unwrap();
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let files = KeyFiles { certificate: folder.path().join("c.pem"), key: folder.path().join("k.pem") };
        std::fs::write(&files.certificate, made.cert.pem()).unwrap();
        std::fs::write(&files.key, made.signing_key.serialize_pem()).unwrap();
        let tls = TlsServer::load(files, ClientCertificates::Any).unwrap();
        let pin = tls.pin();
        let (listener, port) = listen("127.0.0.1", 0, tls, QuicLimits::default()).unwrap();
        (listener, SocketAddr::from(([127, 0, 0, 1], port)), pin)
    }

    #[test]
    fn a_fault_in_a_connection_ends_it_and_no_other_one() {
        let (listener, there, pin) = server();
        let far = Instant::now() + Duration::from_secs(60);
        let connect = |host| connect_any(&[there], (host, Some(pin)), &TlsOptions::default(), far);
        let [broken, other] = ["localhost", "127.0.0.1"].map(|host| connect(host).unwrap());
        let (wired, mut bytes) = (&broken.shared.wired, Vec::new());
        receiver::guard(&wired.port, wired, || panic!("a planted fault"));
        let lost = broken.try_read(&mut bytes, 1);
        assert!(matches!(lost, Err(ReadError::Lost { why: LinkError::Fault, .. })), "{lost:?}");
        assert!(!wired.is_alive(Duration::MAX, far));
        drop(broken);
        // The thread of the port goes on, and the host has a new connection.
        assert!(other.shared.wired.is_alive(Duration::ZERO, far));
        let again = connect("localhost").unwrap();
        assert!(again.shared.wired.is_alive(Duration::ZERO, far));
        listener.end();
    }

    #[test]
    fn an_address_of_a_host_that_is_silent_delays_the_next_one_little() {
        let (listener, there, pin) = server();
        let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
        let (remotes, began) = ([silent.local_addr().unwrap(), there], Instant::now());
        let deadline = began + Duration::from_secs(60);
        let stream = connect_any(&remotes, ("localhost", Some(pin)), &TlsOptions::default(), deadline);
        let stream = stream.unwrap_or_else(|why| panic!("{why:?}"));
        assert_eq!(stream.remote(), there);
        assert!((NEXT_ADDRESS..Duration::from_secs(20)).contains(&began.elapsed()), "{:?}", began.elapsed());
        // Nobody is there: all the time is used, for both.
        let others = [silent.local_addr().unwrap(), silent.local_addr().unwrap()];
        let (began, wait) = (Instant::now(), Duration::from_millis(600));
        let failed = connect_any(&others, ("localhost", Some(pin)), &TlsOptions::default(), began + wait);
        assert!(matches!(failed, Err(ConnectFailure::TimedOut)), "{failed:?}");
        assert!(began.elapsed() >= wait, "{:?}", began.elapsed());
        listener.end();
    }
}
