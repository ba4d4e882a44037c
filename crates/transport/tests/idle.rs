//! The memory of an idle TLS connection: no buffers are left.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

mod common;

use bifrost_transport::{Address, ConnectOptions, Listener, Stream};
use common::{address_of, far, read_exact, self_signed};

/// Counts the bytes that each thread has allocated and not freed.
struct Counting;

thread_local! {
    static BYTES: Cell<i64> = const { Cell::new(0) };
}

fn count(bytes: i64) {
    BYTES.with(|total| total.set(total.get() + bytes));
}

// SAFETY: hands everything on to the system's allocator, unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-(layout.size() as i64));
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as i64 - layout.size() as i64);
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Most bytes of the server's side of an idle connection, beside what the kernel has.
const IDLE_BYTES_MAX: i64 = 4 << 10;
const CONNECTIONS: usize = 100;

#[test]
fn an_idle_connection_has_no_buffers() {
    let folder = tempfile::tempdir().unwrap();
    let options = self_signed(folder.path());
    let any = Address::Tls { host: "127.0.0.1".to_owned(), port: 0, pin: None };
    let listener = Listener::bind(&any, &options).unwrap();
    let address = address_of(&listener, &options);
    let clients = std::thread::spawn(move || {
        let mut clients = Vec::new();
        for _ in 0..CONNECTIONS {
            let mut client = Stream::connect(&address, &ConnectOptions::default()).unwrap();
            client.write(&[7; 100_000], far()).unwrap();
            assert_eq!(read_exact(&mut client, 100_000).len(), 100_000);
            clients.push(client);
        }
        clients
    });
    let mut servers = Vec::with_capacity(CONNECTIONS);
    let before = BYTES.get();
    for _ in 0..CONNECTIONS {
        let mut server = listener.accept().unwrap().unwrap();
        // The handshake is part of it.
        let bytes = read_exact(&mut server, 100_000);
        server.write(&bytes, far()).unwrap();
        assert_eq!(server.try_read(&mut Vec::new(), 1).unwrap(), None);
        drop(bytes);
        servers.push(server);
    }
    let each = (BYTES.get() - before) / CONNECTIONS as i64;
    println!("{each} bytes for an idle connection");
    assert!(each < IDLE_BYTES_MAX, "{each} bytes for an idle connection");
    drop((clients.join().unwrap(), servers));
}
