//! What the tests share: connected streams of each transport, a seeded source of numbers, and a way to
//! know that a thread sleeps.
#![allow(dead_code)] // Each test program uses its part.

use std::time::{Duration, Instant};

use bifrost_transport::{Address, ConnectOptions, ListenOptions, Listener, RING_BYTES_MIN, Stream};

/// Every medium, rings small and large.
pub const MEDIA: [&str; 4] = ["shm-small", "shm", "unix", "tcp"];

/// A listener of this medium in a directory of its own.
pub fn listen(medium: &str) -> (tempfile::TempDir, Listener) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let (address, ring_bytes) = match medium {
        "shm-small" => (Address::Shm(path), RING_BYTES_MIN),
        "shm" => (Address::Shm(path), 1 << 20),
        "unix" => (Address::Unix(path), 1 << 20),
        "tcp" => (Address::Tcp { host: "127.0.0.1".to_owned(), port: 0 }, 1 << 20),
        other => panic!("no medium {other}"),
    };
    let options = ListenOptions { ring_bytes, ..ListenOptions::default() };
    (directory, Listener::bind(&address, &options).unwrap())
}

/// Client and server, connected.
pub fn connected(medium: &str) -> (Stream, Stream) {
    let (_directory, listener) = listen(medium);
    let address = listener.local_address().clone();
    let client = std::thread::spawn(move || Stream::connect(&address, &ConnectOptions::default()).unwrap());
    let server = listener.accept().unwrap().unwrap();
    (client.join().unwrap(), server)
}

/// A deadline that only a failing test reaches.
pub fn far() -> Option<Instant> {
    Some(Instant::now() + Duration::from_secs(60))
}

pub fn read_exact(stream: &mut Stream, count: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while bytes.len() < count {
        let missing = count - bytes.len();
        assert_ne!(stream.read(&mut bytes, missing, far()).unwrap(), 0, "end after {}", bytes.len());
    }
    bytes
}

pub fn read_to_end(stream: &mut Stream) -> Vec<u8> {
    let mut bytes = Vec::new();
    while stream.read(&mut bytes, usize::MAX, far()).unwrap() > 0 {}
    bytes
}

/// Numbers from a seed (splitmix64).
pub struct Numbers(pub u64);

impl Numbers {
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }

    /// Mostly short, sometimes long: all magnitudes are equally likely.
    pub fn length(&mut self, bits_max: usize) -> usize {
        let bits = self.below(bits_max) + 1;
        self.below(1 << bits) + 1
    }

    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.below(256) as u8).collect()
    }
}

/// The kernel's number of the calling thread.
pub fn thread_number() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}

/// Returns once the thread of this process sleeps in the kernel, or has ended.
pub fn wait_until_asleep(thread: i32) {
    loop {
        let Ok(status) = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")) else {
            return; // It has ended already: whoever joins it finds out why.
        };
        // The state follows the name, which is in parentheses.
        if status.rsplit_once(") ").unwrap().1.starts_with('S') {
            return;
        }
        std::thread::yield_now();
    }
}

/// Runs `blocked` on a thread of its own and `then` here once that thread sleeps.
pub fn while_asleep<T: Send + 'static>(
    blocked: impl FnOnce() -> T + Send + 'static,
    then: impl FnOnce(),
) -> T {
    let (send, receive) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        send.send(thread_number()).unwrap();
        blocked()
    });
    wait_until_asleep(receive.recv().unwrap());
    then();
    thread.join().unwrap()
}
