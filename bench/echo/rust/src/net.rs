//! A network that loses and delays packets, for all systems: `echo-rust net LOSS REPEAT REORDER
//! DELAY_US SEED`, with shares from 0 to 1.
//!
//! It is a device of the kernel (TUN) with two addresses. A server listens at the first one, and its
//! client connects to the second one. The kernel sends packets for the second address to this
//! process, which exchanges sender and receiver: so they come back to the first address, and so do
//! the answers. The sums over the heads of IP, TCP and UDP stay right. The device goes with the
//! process. It needs the right to make one (CAP_NET_ADMIN).

use std::io::{BufRead, ErrorKind};
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tun_rs::{DeviceBuilder, SyncDevice};

use crate::message::{Failed, say};
use crate::proxy::{Direction, Link, Weather};

/// The most bytes of a packet.
const MTU: u16 = 1_500;
/// Sender and receiver in the head of a packet of IPv4.
const SENDER: std::ops::Range<usize> = 12..16;
const RECEIVER: std::ops::Range<usize> = 16..20;

/// Makes the device, prints its addresses, and passes packets until the input ends.
///
/// # Errors
/// The words are none of a weather, or the system refuses.
pub fn run(words: &[&str]) -> Result<(), Failed> {
    let [loss, repeat, reorder, delay_us, seed] = words else {
        return Err("usage: echo-rust net LOSS REPEAT REORDER DELAY_US SEED".into());
    };
    let weather = Weather {
        loss: loss.parse()?,
        repeat: repeat.parse()?,
        reorder: reorder.parse()?,
        delay: Duration::from_micros(delay_us.parse()?),
        seed: seed.parse()?,
        ..Weather::default()
    };
    // Two processes at a time have others (the range is that for benchmarks, RFC 2544).
    let [high, low] = (std::process::id() as u16).to_be_bytes();
    let address = |last| Ipv4Addr::new(198, 18 + (high >> 7), high, (low & 0xfc) | last);
    let device = DeviceBuilder::new().ipv4(address(1), 30_u8, None).mtu(MTU).build_sync()?;
    device.set_nonblocking(true)?;
    say(&format!("ready {} {}", address(1), address(2)))?;
    std::thread::spawn(|| {
        for _ in std::io::stdin().lock().lines().map_while(Result::ok) {}
        // The device goes with the process.
        std::process::exit(0);
    });
    pass(&device, weather)
}

fn pass(device: &SyncDevice, weather: Weather) -> Result<(), Failed> {
    let mut link = Link::new(weather);
    let mut packet = vec![0; usize::from(MTU)];
    loop {
        let now = Instant::now();
        while let Some((_, bytes)) = link.poll_arrived(now) {
            match device.send(&bytes) {
                Ok(_) => {}
                // A queue that is full loses it.
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
        }
        let wait = link.poll_timeout().map(|at| at.saturating_duration_since(now));
        let wait = wait.map(Timespec::try_from).transpose()?;
        poll(&mut [PollFd::new(device, PollFlags::IN)], wait.as_ref())?;
        loop {
            let count = match device.recv(&mut packet) {
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error.into()),
            };
            let bytes = &mut packet[..count];
            // Others of the system send, too: the search for neighbours of IPv6.
            if bytes.len() < RECEIVER.end || bytes[0] >> 4 != 4 {
                continue;
            }
            let sender: [u8; 4] = bytes[SENDER].try_into()?;
            bytes.copy_within(RECEIVER, SENDER.start);
            bytes[RECEIVER].copy_from_slice(&sender);
            link.handle_datagram(Instant::now(), Direction::ToServer, bytes);
        }
    }
}
