//! Measures the round trip of 16-byte messages between two processes on cores 0 and 1: over each
//! transport, and as the raw exchange of two cache lines in shared memory, the least that any can cost.
//!
//! `cargo run --release -p bifrost-transport --example pingpong [rounds]`
//!
//! The raw exchange and the streams are measured in turn, five times over, so that a change of the
//! machine's speed hits both; the figures are the medians, and the ratio is that of the medians.

use std::fs::File;
use std::hint::spin_loop;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use bifrost_transport::{Address, ConnectOptions, ListenOptions, Listener, Stream};

const MESSAGE_BYTES: usize = 16;
const REPEATS: usize = 5;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.get(1).map(String::as_str) {
        Some("client-of") => echo_stream(&arguments[2]),
        Some("raw-client-of") => echo_raw(&arguments[2]),
        rounds => measure_all(rounds.map_or(200_000, |text| text.parse().expect("a number of rounds"))),
    }
}

fn measure_all(rounds: usize) {
    pin_to(0);
    let directory = std::env::temp_dir().join(format!("bifrost-pingpong-{}", std::process::id()));
    std::fs::create_dir(&directory).expect("a fresh directory");
    let cases = [
        ("raw", String::new()),
        ("shm", format!("shm://{}/shm", directory.display())),
        ("unix", format!("unix://{}/unix", directory.display())),
        ("tcp", "tcp://127.0.0.1:0".to_owned()),
    ];
    let mut results: [Vec<f64>; 4] = Default::default();
    for _ in 0..REPEATS {
        for (index, (name, url)) in cases.iter().enumerate() {
            let rounds = if *name == "raw" || *name == "shm" { rounds } else { rounds / 20 };
            results[index].push(match *name {
                "raw" => measure_raw(&directory.join("raw"), rounds),
                _ => measure_stream(url, rounds),
            });
        }
    }
    std::fs::remove_dir_all(&directory).expect("our own directory");
    let raw = median(&mut results[0]);
    println!("round trip of {MESSAGE_BYTES} bytes, cores 0 and 1, {rounds} rounds, {REPEATS} repeats");
    println!("{:6} {:>10} {:>10} {:>10} {:>8}", "", "median ns", "min ns", "max ns", "ratio");
    for ((name, _), times) in cases.iter().zip(&mut results) {
        let middle = median(times);
        println!(
            "{name:6} {middle:10.1} {:10.1} {:10.1} {:8.2}",
            times[0],
            times[times.len() - 1],
            middle / raw
        );
    }
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn measure_stream(url: &str, rounds: usize) -> f64 {
    let address: Address = url.parse().expect("our own address");
    let listener = Listener::bind(&address, &ListenOptions::default()).expect("a listener");
    let child = start(&["client-of", &listener.local_address().to_string()]);
    let mut stream = listener.accept().expect("a client").expect("nobody stops");
    let mut into = Vec::new();
    let time = measure(rounds, |message| {
        stream.write(&message, None).expect("the client lives");
        stream.flush();
        receive(&mut stream, &mut into)
    });
    drop(stream);
    finish(child);
    time
}

fn echo_stream(url: &str) {
    pin_to(1);
    let address = url.parse().expect("an address from our parent");
    let mut stream = Stream::connect(&address, &ConnectOptions::default()).expect("our parent listens");
    let mut into = Vec::new();
    while let Some(message) = receive(&mut stream, &mut into) {
        stream.write(&message, None).expect("our parent lives");
        stream.flush();
    }
}

fn receive(stream: &mut Stream, into: &mut Vec<u8>) -> Option<[u8; MESSAGE_BYTES]> {
    into.clear();
    while into.len() < MESSAGE_BYTES {
        let missing = MESSAGE_BYTES - into.len();
        if stream.read(into, missing, None).expect("no error") == 0 {
            return None;
        }
    }
    Some(into[..].try_into().expect("read as much"))
}

/// The median time of a round, in nanoseconds, over rounds in groups of 16: the clock itself takes time.
fn measure(rounds: usize, mut round: impl FnMut([u8; MESSAGE_BYTES]) -> Option<[u8; MESSAGE_BYTES]>) -> f64 {
    let mut times: Vec<f64> = Vec::with_capacity(rounds / 16);
    for group in 0..rounds / 16 {
        let started = Instant::now();
        for index in 0..16 {
            let message = [(group as u8).wrapping_add(index); MESSAGE_BYTES];
            assert_eq!(round(message), Some(message));
        }
        times.push(started.elapsed().as_nanos() as f64 / 16.0);
    }
    median(&mut times)
}

/// One cache line: a number, then 16 bytes.
#[repr(C, align(128))]
struct RawLine {
    number: AtomicU64,
    bytes: [AtomicU64; 2],
}

impl RawLine {
    fn put(&self, number: u64, message: [u8; MESSAGE_BYTES]) {
        for (word, bytes) in self.bytes.iter().zip(message.as_chunks::<8>().0) {
            word.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
        }
        self.number.store(number, Ordering::Release);
    }

    /// Waits for the number, or for the one that ends the exchange.
    fn take(&self, number: u64) -> Option<[u8; MESSAGE_BYTES]> {
        loop {
            let found = self.number.load(Ordering::Acquire);
            if found == number {
                break;
            }
            if found == u64::MAX {
                return None;
            }
            spin_loop();
        }
        let mut message = [0; MESSAGE_BYTES];
        for (word, bytes) in self.bytes.iter().zip(message.as_chunks_mut::<8>().0) {
            *bytes = word.load(Ordering::Relaxed).to_ne_bytes();
        }
        Some(message)
    }
}

fn measure_raw(path: &std::path::Path, rounds: usize) -> f64 {
    std::fs::write(path, [0; 4096]).expect("a file");
    let [to_client, to_server] = map_lines(path);
    let child = start(&["raw-client-of", path.to_str().expect("our own path")]);
    let mut number = 0;
    let mut exchange = |message| {
        number += 1;
        to_client.put(number, message);
        to_server.take(number)
    };
    // Waits until the client runs.
    exchange([0; MESSAGE_BYTES]);
    let time = measure(rounds, exchange);
    to_client.put(u64::MAX, [0; MESSAGE_BYTES]);
    finish(child);
    time
}

fn echo_raw(path: &str) {
    pin_to(1);
    let [to_client, to_server] = map_lines(path.as_ref());
    let mut number = 1;
    while let Some(message) = to_client.take(number) {
        to_server.put(number, message);
        number += 1;
    }
}

fn map_lines(path: &std::path::Path) -> &'static [RawLine; 2] {
    let file = File::options().read(true).write(true).open(path).expect("our own file");
    let (protection, flags) =
        (rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE, rustix::mm::MapFlags::SHARED);
    // SAFETY: a new mapping of a page that is in the file, never unmapped; the lines are atomics only.
    unsafe {
        let start = rustix::mm::mmap(std::ptr::null_mut(), 4096, protection, flags, &file, 0);
        &*start.expect("a mapping").cast::<[RawLine; 2]>()
    }
}

fn pin_to(core: usize) {
    core_affinity::set_for_current(core_affinity::CoreId { id: core });
}

fn start(arguments: &[&str]) -> Child {
    let program = std::env::current_exe().expect("our own path");
    Command::new(program).args(arguments).spawn().expect("ourselves again")
}

fn finish(mut child: Child) {
    assert!(child.wait().expect("our own child").success(), "the client failed");
}
