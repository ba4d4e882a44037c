//! The handover of a stream's memory from the server to the client: one message on the unix socket,
//! with the memfd and the server's bell attached. The format is in `docs/spec/transport.md`.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};

use super::mapped::{MAGIC, Region, VERSION};
use crate::socket::wait_readable;

/// magic, version, ring size: three words of 64 bits, in the machine's order.
const MESSAGE_BYTES: usize = 24;

/// Makes the memory and sends it. Does not wait: the socket is fresh, so the message fits.
pub(crate) fn send(socket: &OwnedFd, ring_bytes: usize) -> io::Result<(Region, OwnedFd)> {
    let (region, memory) = Region::create(ring_bytes)?;
    let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    let mut message = [0; MESSAGE_BYTES];
    for (word, bytes) in [MAGIC, VERSION, ring_bytes as u64].iter().zip(message.as_chunks_mut::<8>().0) {
        *bytes = word.to_ne_bytes();
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = [memory.as_fd(), bell.as_fd()];
    assert!(control.push(SendAncillaryMessage::ScmRights(&descriptors)), "the buffer was made for both");
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    let sent = rustix::net::sendmsg(socket, &[IoSlice::new(&message)], &mut control, flags)?;
    if sent != MESSAGE_BYTES {
        return Err(io::Error::new(io::ErrorKind::WriteZero, "the handover message was cut"));
    }
    Ok((region, bell))
}

/// Waits for the memory, checks it and maps it. `InvalidData` means that the peer is no shm server
/// of this version, and its text names the reason.
pub(crate) fn receive(socket: &OwnedFd, deadline: Instant) -> io::Result<Region> {
    let mut message = [0; MESSAGE_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        if !wait_readable(socket, deadline)? {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        match rustix::net::recvmsg(socket, &mut [IoSliceMut::new(&mut message)], &mut control, flags) {
            Err(Errno::INTR | Errno::AGAIN) => {}
            other => break other?,
        }
    };
    let attached = control.drain().find_map(|attached| match attached {
        RecvAncillaryMessage::ScmRights(mut descriptors) => Some((descriptors.next()?, descriptors.next())),
        _ => None,
    });
    let refuse = |reason| Err(io::Error::new(io::ErrorKind::InvalidData, reason));
    if received.bytes == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let words = message.as_chunks::<8>().0;
    let [magic, version, ring_bytes] = [0, 1, 2].map(|index| u64::from_ne_bytes(words[index]));
    // The message is far smaller than any that a unix socket splits.
    if received.bytes != MESSAGE_BYTES || magic != MAGIC {
        return refuse("its answer is not that of a shm listener");
    }
    if version != VERSION {
        return refuse("it has another version of the shm layout");
    }
    match attached {
        Some((memory, Some(bell))) => {
            let mut region = Region::open(&memory, ring_bytes)?;
            // A bell that blocks would hold this side up.
            let flags = rustix::fs::fcntl_getfl(&bell)?;
            rustix::fs::fcntl_setfl(&bell, flags | OFlags::NONBLOCK)?;
            region.set_bell(bell);
            Ok(region)
        }
        Some(_) => refuse("it sent no bell"),
        None => refuse("it sent no memory"),
    }
}
