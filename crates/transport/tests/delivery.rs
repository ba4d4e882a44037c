//! The wait of a process that ends, until its peers have its last words. The test has a process of
//! its own: streams of other tests would be waited for, too.

mod common;
#[allow(dead_code, reason = "each test uses some of it")]
#[path = "common/tap.rs"]
mod tap;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bifrost_transport::wait_delivered;
use common::quic::Office;
use common::read_to_end;
use tap::{Tap, Way};

#[test]
fn bytes_of_closed_streams_are_waited_for_until_the_deadline() {
    let within = |time| wait_delivered(Instant::now() + time);
    assert!(within(Duration::ZERO), "nothing was closed");
    let office = Office::new();
    let loses = Arc::new(AtomicBool::new(false));
    let fate = {
        let loses = loses.clone();
        Box::new(move |way, datagram: &[u8]| match way {
            Way::ToServer => vec![datagram.to_vec()],
            _ if loses.load(Ordering::SeqCst) => Vec::new(),
            _ => vec![datagram.to_vec()],
        })
    };
    let tap = Tap::start(office.socket(), fate);
    let (mut client, mut session) = office.pair(&office.through(tap.address.port()));
    loses.store(true, Ordering::SeqCst);
    session.write(b"last words", None).unwrap();
    session.flush();
    drop(session);
    let start = Instant::now();
    assert!(!within(Duration::from_millis(200)), "the packets are lost");
    assert!(start.elapsed() >= Duration::from_millis(200));
    loses.store(false, Ordering::SeqCst);
    assert!(within(Duration::from_secs(20)), "they are repeated");
    assert_eq!(read_to_end(&mut client), b"last words");
}
