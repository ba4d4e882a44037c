//! The sides that use sockets of the system alone: the least that each kind of transport can cost.
//!
//! Datagrams carry a message whole if it fits, else in parts of `packet` bytes. The receiver counts
//! the bytes: nothing is lost or reordered between two sockets of one machine, as long as the queue
//! of a socket has room for a message.

use std::io::Write;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::Ordering;

use clap::ValueEnum;
use rustix::buffer::spare_capacity;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect,
    listen, recv, send, socket_with, sockopt,
};

use super::message::{Carrier, Datagrams, Failed, answer_counts, follow_orders, say, serve};

/// The bytes of a receive at most: a datagram is not longer.
const RECEIVE_BYTES: usize = 65_536;
/// The size of a queue that is asked for; the system has a limit for it.
const QUEUE_BYTES: usize = 1 << 20;

/// A kind of socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Raw {
    Udp,
    Seqpacket,
    Tcp,
}

impl Raw {
    /// Returns its name in the arguments of a side.
    pub fn name(self) -> &'static str {
        match self {
            Raw::Udp => "udp",
            Raw::Seqpacket => "seqpacket",
            Raw::Tcp => "tcp",
        }
    }
}

/// A connected socket of datagrams.
struct Packets {
    socket: OwnedFd,
    packet: usize,
    sent: Datagrams,
}

impl Packets {
    fn new(socket: OwnedFd, packet: usize) -> Result<Packets, Failed> {
        sockopt::set_socket_recv_buffer_size(&socket, QUEUE_BYTES)?;
        sockopt::set_socket_send_buffer_size(&socket, QUEUE_BYTES)?;
        Ok(Packets { socket, packet, sent: Datagrams::default() })
    }
}

/// Waits for bytes of a socket, and appends them. Returns false at the end.
fn receive(socket: impl AsFd, inbox: &mut Vec<u8>) -> Result<bool, Failed> {
    inbox.reserve(RECEIVE_BYTES);
    let (bytes, _) = recv(socket, spare_capacity(inbox), RecvFlags::empty())?;
    Ok(bytes > 0)
}

impl Carrier for Packets {
    fn send(&mut self, message: &[u8]) -> Result<(), Failed> {
        for part in message.chunks(self.packet) {
            // Before it arrives: the process that measures may ask for the counter at once.
            self.sent.fetch_add(1, Ordering::Relaxed);
            send(&self.socket, part, SendFlags::NOSIGNAL)?;
        }
        Ok(())
    }

    fn receive(&mut self, inbox: &mut Vec<u8>) -> Result<bool, Failed> {
        receive(&self.socket, inbox)
    }

    fn datagrams(&self) -> Option<&Datagrams> {
        Some(&self.sent)
    }
}

impl Carrier for TcpStream {
    fn send(&mut self, message: &[u8]) -> Result<(), Failed> {
        Ok(self.write_all(message)?)
    }

    fn receive(&mut self, inbox: &mut Vec<u8>) -> Result<bool, Failed> {
        receive(self, inbox)
    }
}

fn seqpacket(path: &str) -> Result<(OwnedFd, SocketAddrUnix), Failed> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    Ok((socket, SocketAddrUnix::new(path)?))
}

/// Runs the server: prints where it is, and answers one client.
///
/// # Errors
/// The socket cannot be made, or is broken.
pub fn serve_raw(raw: Raw, folder: &Path, packet: usize, host: &str) -> Result<(), Failed> {
    match raw {
        Raw::Udp => {
            let socket = UdpSocket::bind("127.0.0.1:0")?;
            say(&format!("ready {}", socket.local_addr()?))?;
            // The socket is that of the client which sends first.
            let (_, client) = socket.peek_from(&mut [])?;
            socket.connect(client)?;
            serve_packets(Packets::new(socket.into(), packet)?)
        }
        Raw::Seqpacket => {
            let path = folder.join("socket").to_string_lossy().into_owned();
            let (socket, address) = seqpacket(&path)?;
            bind(&socket, &address)?;
            listen(&socket, 1)?;
            say(&format!("ready {path}"))?;
            serve_packets(Packets::new(accept_with(&socket, SocketFlags::CLOEXEC)?, packet)?)
        }
        Raw::Tcp => {
            let listener = TcpListener::bind((host, 0))?;
            say(&format!("ready {}", listener.local_addr()?))?;
            answer_counts(|| None);
            let (mut stream, _) = listener.accept()?;
            stream.set_nodelay(true)?;
            serve(&mut stream)
        }
    }
}

fn serve_packets(mut packets: Packets) -> Result<(), Failed> {
    let sent = packets.sent.clone();
    answer_counts(move || Some(sent.load(Ordering::Relaxed)));
    serve(&mut packets)
}

/// Runs the client.
///
/// # Errors
/// It cannot connect, or an answer is wrong.
pub fn call_raw(raw: Raw, place: &str, packet: usize) -> Result<(), Failed> {
    match raw {
        Raw::Udp => {
            let socket = UdpSocket::bind("127.0.0.1:0")?;
            socket.connect(place)?;
            follow_orders(&mut Packets::new(socket.into(), packet)?)
        }
        Raw::Seqpacket => {
            let (socket, address) = seqpacket(place)?;
            connect(&socket, &address)?;
            follow_orders(&mut Packets::new(socket, packet)?)
        }
        Raw::Tcp => {
            let mut stream = TcpStream::connect(place)?;
            stream.set_nodelay(true)?;
            follow_orders(&mut stream)
        }
    }
}
