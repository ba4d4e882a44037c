//! quinn-proto with one thread: the thread that wants an answer sends, waits for datagrams, and
//! hands them to the state machine.
//!
//! One system call sends a datagram and one waits for the next; the time limit of the socket is set
//! only when the next deadline of the connection is far from it. A datagram goes out when the side
//! has something to say: acknowledgements ride on messages, as long as those follow each other.

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, Event, ReadError, ServerConfig,
    StreamId, WriteError,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::message::{self, Carrier, Datagrams, Failed, say};
use crate::settings::{self, Tuning};

/// The bytes of the largest datagram.
const DATAGRAM_MAX: usize = 65_536;
/// Shorter waits are exact, by one system call more: the time limit of a socket is counted in ticks
/// of the system.
const SHORT: Duration = Duration::from_millis(10);
/// The limit is set anew when the wait is longer than so many of it.
const FAR: u32 = 4;

/// One side: the socket, the endpoint, and its connection.
struct Side {
    socket: UdpSocket,
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, Connection)>,
    peer: Option<SocketAddr>,
    stream: Option<StreamId>,
    is_connected: bool,
    /// The time limit of the socket; zero if there is none.
    limit: Duration,
    datagram: Vec<u8>,
    outgoing: Vec<u8>,
    /// The bytes of the stream that were not used up to now.
    inbox: Vec<u8>,
    /// The datagrams sent.
    sent: Datagrams,
}

impl Side {
    fn new(socket: UdpSocket, server: Option<ServerConfig>, tuning: Tuning) -> Result<Side, Failed> {
        let config = Arc::new(tuning.endpoint()?);
        Ok(Side {
            socket,
            endpoint: Endpoint::new(config, server.map(Arc::new), true, None),
            connection: None,
            peer: None,
            stream: None,
            is_connected: false,
            limit: Duration::ZERO,
            datagram: vec![0; DATAGRAM_MAX],
            outgoing: Vec::with_capacity(DATAGRAM_MAX),
            inbox: Vec::new(),
            sent: Arc::default(),
        })
    }

    /// Connects to a server, and opens the stream.
    fn connect(peer: SocketAddr, config: ClientConfig, tuning: Tuning) -> Result<Side, Failed> {
        let socket = UdpSocket::bind(settings::local(peer))?;
        socket.connect(peer)?;
        let mut side = Side::new(socket, None, tuning)?;
        side.peer = Some(peer);
        side.connection = Some(side.endpoint.connect(Instant::now(), config, peer, settings::NAME)?);
        while !side.is_connected {
            side.step()?;
        }
        side.stream = side.connection()?.streams().open(Dir::Bi);
        Ok(side)
    }

    fn connection(&mut self) -> Result<&mut Connection, Failed> {
        Ok(&mut self.connection.as_mut().ok_or("no connection")?.1)
    }

    /// Sends what is due, and waits for a datagram or the next deadline.
    fn step(&mut self) -> Result<(), Failed> {
        let now = Instant::now();
        self.transmit(now)?;
        if let Some((_, connection)) = &mut self.connection
            && let Some(deadline) = connection.poll_timeout()
        {
            let wait = deadline.saturating_duration_since(now);
            if wait.is_zero() {
                connection.handle_timeout(now);
                return self.events();
            }
            if wait < SHORT {
                let wait = Timespec::try_from(wait)?;
                if poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&wait))? == 0 {
                    return self.handle_timeout();
                }
            } else if self.limit.is_zero() || wait < self.limit || wait > self.limit * FAR {
                // A little less, so that the next wait does not have to set it again.
                self.limit = wait * 3 / 4;
                self.socket.set_read_timeout(Some(self.limit))?;
            }
        }
        self.take_datagram()
    }

    /// Waits for a datagram until the time limit of the socket.
    fn take_datagram(&mut self) -> Result<(), Failed> {
        let received = match self.peer {
            Some(peer) => self.socket.recv(&mut self.datagram).map(|bytes| (bytes, peer)),
            None => self.socket.recv_from(&mut self.datagram),
        };
        let (bytes, from) = match received {
            Ok(received) => received,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return self.handle_timeout();
            }
            Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionRefused) => {
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        let now = Instant::now();
        self.outgoing.clear();
        let data = BytesMut::from(&self.datagram[..bytes]);
        match self.endpoint.handle(now, from, None, None, data, &mut self.outgoing) {
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                if let Some((_, connection)) = &mut self.connection {
                    connection.handle_event(event);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                // One client at a time: the socket is its from now on.
                self.socket.connect(from)?;
                self.peer = Some(from);
                let accepted = self.endpoint.accept(incoming, now, &mut self.outgoing, None);
                self.connection = Some(accepted.map_err(|error| error.cause)?);
            }
            Some(DatagramEvent::Response(transmit)) => {
                self.socket.send_to(&self.outgoing[..transmit.size], transmit.destination)?;
                self.sent.fetch_add(1, Ordering::Relaxed);
            }
            None => {}
        }
        self.events()
    }

    /// Has the connection handle its deadline, if that is over.
    fn handle_timeout(&mut self) -> Result<(), Failed> {
        let now = Instant::now();
        let connection = self.connection()?;
        match connection.poll_timeout().is_some_and(|deadline| deadline <= now) {
            true => {
                connection.handle_timeout(now);
                self.events()
            }
            false => Ok(()),
        }
    }

    /// Sends all datagrams that the connection has.
    fn transmit(&mut self, now: Instant) -> Result<(), Failed> {
        let Some((handle, connection)) = &mut self.connection else { return Ok(()) };
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(*handle, event) {
                connection.handle_event(event);
            }
        }
        loop {
            self.outgoing.clear();
            let Some(transmit) = connection.poll_transmit(now, 1, &mut self.outgoing) else { return Ok(()) };
            // Before it arrives: the process that measures may ask for the counter at once.
            self.sent.fetch_add(1, Ordering::Relaxed);
            match self.socket.send(&self.outgoing[..transmit.size]) {
                Ok(_) => {}
                // The other side is gone, which a deadline finds.
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Handles what the connection tells.
    fn events(&mut self) -> Result<(), Failed> {
        let Some((_, connection)) = &mut self.connection else { return Ok(()) };
        while let Some(event) = connection.poll() {
            match event {
                Event::Connected => self.is_connected = true,
                Event::ConnectionLost { reason } => return Err(reason.into()),
                _ => {}
            }
        }
        if self.stream.is_none() {
            self.stream = connection.streams().accept(Dir::Bi);
        }
        let Some(stream) = self.stream else { return Ok(()) };
        let mut stream = connection.recv_stream(stream);
        let Ok(mut chunks) = stream.read(true) else { return Ok(()) };
        let ended = loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => self.inbox.extend_from_slice(&chunk.bytes),
                Err(ReadError::Blocked) => break false,
                Ok(None) | Err(ReadError::Reset(_)) => break true,
            }
        };
        // What it tells about new windows is sent with the next message.
        let _ = chunks.finalize();
        if ended { Err("the stream has ended".into()) } else { Ok(()) }
    }
}

impl Carrier for Side {
    fn send(&mut self, message: &[u8]) -> Result<(), Failed> {
        let stream = self.stream.ok_or("no stream")?;
        let mut written = 0;
        while written < message.len() {
            match self.connection()?.send_stream(stream).write(&message[written..]) {
                Ok(bytes) => written += bytes,
                // The window is full.
                Err(WriteError::Blocked) => self.step()?,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn receive(&mut self, inbox: &mut Vec<u8>) -> Result<bool, Failed> {
        // A message that was written is sent here, in the step that waits for its answer.
        if self.inbox.is_empty() {
            self.step()?;
        }
        inbox.append(&mut self.inbox);
        Ok(true)
    }

    /// Serves the connection: it has acknowledgements and timers.
    fn await_line(&mut self, _inbox: &mut Vec<u8>) -> Result<(), Failed> {
        loop {
            let now = Instant::now();
            self.transmit(now)?;
            let deadline = self.connection()?.poll_timeout();
            let wait = deadline.map(|deadline| Timespec::try_from(deadline.saturating_duration_since(now)));
            let stdin = std::io::stdin();
            let mut ready = [
                PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::IN),
                PollFd::new(&self.socket, PollFlags::IN),
            ];
            poll(&mut ready, wait.transpose()?.as_ref())?;
            if !ready[0].revents().is_empty() {
                return Ok(());
            }
            if !ready[1].revents().is_empty() {
                self.take_datagram()?;
            } else {
                self.handle_timeout()?;
            }
        }
    }

    fn datagrams(&self) -> Option<&Datagrams> {
        Some(&self.sent)
    }
}

/// Runs the server: one client, one stream.
///
/// # Errors
/// The connection is lost.
pub fn serve(address: &str, tuning: Tuning) -> Result<(), Failed> {
    let (config, digits) = settings::server(tuning)?;
    let mut side = Side::new(UdpSocket::bind(address)?, Some(config), tuning)?;
    let sent = side.sent.clone();
    say(&format!("ready {}#{digits}", side.socket.local_addr()?))?;
    message::answer_counts(move || Some(sent.load(Ordering::Relaxed)));
    message::serve(&mut side)
}

/// Runs the client.
///
/// # Errors
/// The connection is lost, or an answer is wrong.
pub fn client(place: &str, tuning: Tuning) -> Result<(), Failed> {
    let (peer, config) = settings::client(place, tuning)?;
    message::follow_orders(&mut Side::connect(peer, config, tuning)?)
}
