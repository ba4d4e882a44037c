//! Addresses, socket files, stops, and clients that misbehave before they are clients.

mod common;

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use bifrost_transport::{
    Address, ConnectError, ConnectOptions, ListenError, ListenOptions, Listener, ReadError, Stream,
};
use common::{MEDIA, connected, far, listen, read_exact, while_asleep};

fn connect(address: &Address) -> Result<Stream, ConnectError> {
    let options = ConnectOptions { timeout: Duration::from_millis(200), ..ConnectOptions::default() };
    Stream::connect(address, &options)
}

#[test]
fn an_address_in_use_is_refused_and_named() {
    for medium in MEDIA {
        let (_directory, listener) = listen(medium);
        let address = listener.local_address();
        let error = Listener::bind(address, &ListenOptions::default()).unwrap_err();
        assert!(matches!(error, ListenError::InUse { .. }), "{medium}: {error:?}");
        assert!(error.to_string().contains(&address.to_string()), "{error}");
        // The one that was there is unharmed.
        let to = address.clone();
        let client = std::thread::spawn(move || {
            let mut client = connect(&to).unwrap();
            client.write(b"x", None).unwrap();
            client.flush();
        });
        // The probe may come first: a client that hung up.
        while listener.accept().unwrap().unwrap().read(&mut Vec::new(), 1, far()).unwrap() == 0 {}
        client.join().unwrap();
    }
}

#[test]
fn a_stale_socket_file_is_taken_over_and_removed_at_the_end() {
    for medium in ["shm", "unix"] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        // The standard library leaves its file behind.
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let address: Address = format!("{medium}://{}", path.display()).parse().unwrap();
        assert!(matches!(connect(&address), Err(ConnectError::Refused { .. })));
        let listener = Listener::bind(&address, &ListenOptions::default()).unwrap();
        UnixStream::connect(&path).unwrap();
        drop(listener);
        assert!(!path.exists());
    }
}

#[test]
fn a_file_that_is_no_socket_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("precious");
    std::fs::write(&path, "data").unwrap();
    let error = Listener::bind(&Address::Shm(path.clone()), &ListenOptions::default()).unwrap_err();
    assert!(matches!(error, ListenError::NotASocket { .. }), "{error:?}");
    assert_eq!(std::fs::read_to_string(path).unwrap(), "data");
}

#[test]
fn a_listener_removes_only_its_own_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let first = Listener::bind(&Address::Unix(path.clone()), &ListenOptions::default()).unwrap();
    std::fs::remove_file(&path).unwrap();
    let _second = Listener::bind(&Address::Unix(path.clone()), &ListenOptions::default()).unwrap();
    drop(first);
    assert!(path.exists());
}

#[test]
fn two_listeners_serve_side_by_side() {
    let directory = tempfile::tempdir().unwrap();
    let listeners = ["shm", "unix"].map(|scheme| {
        let address = format!("{scheme}://{}/new/{scheme}", directory.path().display());
        Listener::bind(&address.parse().unwrap(), &ListenOptions::default()).unwrap()
    });
    for listener in &listeners {
        let address = listener.local_address().clone();
        let client = std::thread::spawn(move || connect(&address).unwrap());
        let mut server = listener.accept().unwrap().unwrap();
        let mut client = client.join().unwrap();
        client.write(b"x", None).unwrap();
        client.flush();
        assert_eq!(read_exact(&mut server, 1), b"x");
    }
}

#[test]
fn a_stop_ends_a_waiting_accept_and_those_after_it() {
    for medium in MEDIA {
        let (_directory, listener) = listen(medium);
        let stopper = listener.stopper();
        let accepting = move || {
            assert!(listener.accept().unwrap().is_none());
            listener
        };
        let listener = while_asleep(accepting, || stopper.stop());
        assert!(listener.accept().unwrap().is_none());
    }
}

#[test]
fn nobody_there_is_said_so() {
    let directory = tempfile::tempdir().unwrap();
    let missing = Address::Shm(directory.path().join("missing"));
    let error = connect(&missing).unwrap_err();
    assert!(error.to_string().contains("is the server running?"), "{error}");

    let (_directory, listener) = listen("tcp");
    let address = listener.local_address().clone();
    drop(listener);
    assert!(matches!(connect(&address), Err(ConnectError::Refused { .. })));

    let long = Address::Unix(format!("/{}", "x".repeat(108)).into());
    assert!(matches!(connect(&long), Err(ConnectError::PathTooLong { .. })));
    let error = Listener::bind(&long, &ListenOptions::default()).unwrap_err();
    assert!(matches!(error, ListenError::PathTooLong { .. }), "{error:?}");
}

#[test]
fn a_shm_client_takes_only_a_shm_server() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let address = Address::Shm(path.clone());

    // A server of unix streams that waits for the client to speak.
    let listener = Listener::bind(&Address::Unix(path.clone()), &ListenOptions::default()).unwrap();
    assert!(matches!(connect(&address), Err(ConnectError::TimedOut { .. })));
    drop(listener);

    let answers: [(&[u8], &str); 4] = [
        (b"", "closed the connection at once"),
        (b"HTTP/1.1 400 Bad Request", "not that of a shm listener"),
        (b"BIFROSTR\x01\0\0\0\0\0\0\0\0\x10\0\0\0\0\0\0", "another version"),
        (b"BIFROSTR\x02\0\0\0\0\0\0\0\0\x10\0\0\0\0\0\0", "sent no memory"),
    ];
    for (answer, expected) in answers {
        let _ = std::fs::remove_file(&path);
        let server = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let answering = std::thread::spawn(move || server.accept().unwrap().0.write_all(answer).unwrap());
        let error = connect(&address).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        answering.join().unwrap();
    }
}

#[test]
fn clients_that_hang_up_or_say_nothing_do_not_hold_up_others() {
    for medium in ["shm-small", "unix"] {
        let (directory, listener) = listen(medium);
        let path = directory.path().join("socket");
        for _ in 0..10 {
            drop(UnixStream::connect(&path).unwrap());
        }
        let silent = UnixStream::connect(&path).unwrap();
        // Those that hung up are either not seen at all, or are streams that are at their end.
        let mut last = loop {
            let mut stream = listener.accept().unwrap().unwrap();
            let soon = Some(Instant::now() + Duration::from_millis(50));
            match stream.read(&mut Vec::new(), 1, soon) {
                Ok(count) => assert_eq!(count, 0),
                Err(error) => {
                    assert!(matches!(error, ReadError::TimedOut), "{error:?}");
                    break stream;
                }
            }
        };
        drop(silent);
        assert_eq!(last.read(&mut Vec::new(), 1, far()).unwrap(), 0);
    }
}

#[test]
fn a_ring_has_a_size_that_rings_have() {
    for ring_bytes in [0, 1, 2048, 4095, 5000, 1 << 31] {
        let options = ListenOptions { ring_bytes, ..ListenOptions::default() };
        let error = Listener::bind(&Address::Shm("/nowhere/x".into()), &options).unwrap_err();
        assert!(matches!(error, ListenError::RingSize { .. }), "{error:?}");
    }
}

#[test]
fn many_streams_share_the_monitor() {
    let mut ends: Vec<(Stream, Stream)> = (0..50).map(|_| connected("shm-small")).collect();
    for index in (0..50).rev() {
        let (client, mut server) = ends.remove(index);
        drop(client);
        assert_eq!(server.read(&mut Vec::new(), 1, far()).unwrap(), 0);
        for (other, _) in &mut ends {
            assert_eq!(other.try_read(&mut Vec::new(), 1).unwrap(), None);
        }
    }
}
