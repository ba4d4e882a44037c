//! Peers that die or do nothing. The peer is this test program again, running `child` only.

mod common;

use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use bifrost_transport::{
    Address, ConnectOptions, ListenOptions, Listener, Stream, WriteError, default_directory,
};
use common::{far, listen, read_exact, read_to_end, while_asleep};

const MEDIA: [&str; 3] = ["shm-small", "unix", "tcp"];

/// Does what `BIFROST_TRANSPORT_CHILD` says with `BIFROST_TRANSPORT_ADDRESS`; then sleeps until killed.
#[test]
fn child() {
    let Ok(role) = std::env::var("BIFROST_TRANSPORT_CHILD") else { return };
    let address = std::env::var("BIFROST_TRANSPORT_ADDRESS").unwrap();
    let connect = || Stream::connect(&address.parse().unwrap(), &ConnectOptions::default()).unwrap();
    match role.as_str() {
        "read" => {
            let mut stream = connect();
            say("connected");
            stream.read(&mut Vec::new(), 1, None).unwrap();
        }
        "publish" => {
            let mut stream = connect();
            stream.write(&[9; 1000], None).unwrap();
            say("written");
            park();
        }
        "serve" | "serve-default" => {
            let address = match role.as_str() {
                "serve" => address.parse().unwrap(),
                _ => Address::Shm(default_directory().join("main")),
            };
            let listener = match Listener::bind(&address, &ListenOptions::default()) {
                Ok(listener) => listener,
                Err(error) => return say(&format!("error {error}")),
            };
            say(&format!("listening {}", listener.local_address()));
            let _stream = listener.accept().unwrap();
            park();
        }
        other => panic!("no role {other}"),
    }
}

fn say(what: &str) {
    println!("\nSAY {what}");
}

fn park() -> ! {
    loop {
        std::thread::park();
    }
}

/// A child process, killed when dropped.
struct Peer {
    process: Child,
    said: String,
}

impl Peer {
    /// Starts a child in this role and waits until it says something. `meanwhile` runs before the wait.
    fn start<T>(role: &str, address: &str, runtime: &Path, meanwhile: impl FnOnce() -> T) -> (Peer, T) {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--nocapture"])
            .env("BIFROST_TRANSPORT_CHILD", role)
            .env("BIFROST_TRANSPORT_ADDRESS", address)
            .env("XDG_RUNTIME_DIR", runtime)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let value = meanwhile();
        let mut lines = BufReader::new(process.stdout.take().unwrap());
        let said = loop {
            let mut line = String::new();
            assert_ne!(lines.read_line(&mut line).unwrap(), 0, "the child ended without a word");
            if let Some(said) = line.trim_end().strip_prefix("SAY ") {
                break said.to_owned();
            }
        };
        // Drained, so that the child never waits for us.
        std::thread::spawn(move || lines.read_to_end(&mut Vec::new()));
        (Peer { process, said }, value)
    }

    fn client(role: &str, listener: &Listener) -> (Peer, Stream) {
        let address = listener.local_address().to_string();
        Peer::start(role, &address, Path::new("/nowhere"), || listener.accept().unwrap().unwrap())
    }

    /// SIGKILL; returns when the process is gone.
    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_client_that_is_killed_ends_a_sleeping_read() {
    for medium in MEDIA {
        let (_directory, listener) = listen(medium);
        let (mut peer, mut server) = Peer::client("read", &listener);
        let described = server.describe_peer();
        match medium {
            "shm-small" => assert_eq!(described, format!("shm pid {}", peer.process.id())),
            "unix" => assert_eq!(described, format!("unix pid {}", peer.process.id())),
            _ => assert!(described.starts_with("tcp 127.0.0.1:"), "{described}"),
        }
        let count = while_asleep(move || server.read(&mut Vec::new(), 1, far()).unwrap(), || peer.kill());
        assert_eq!(count, 0, "{medium}");
    }
}

#[test]
fn a_client_that_is_killed_ends_a_sleeping_write() {
    for medium in MEDIA {
        let (_directory, listener) = listen(medium);
        // It reads one byte at most, and then no more.
        let (mut peer, mut server) = Peer::client("publish", &listener);
        let writing = move || {
            loop {
                if let Err(error) = server.write(&[1; 1 << 16], far()) {
                    break error;
                }
            }
        };
        let answer = while_asleep(writing, || peer.kill());
        assert!(matches!(answer, WriteError::Closed), "{medium}: {answer:?}");
    }
}

#[test]
fn what_a_client_wrote_before_it_was_killed_is_read() {
    for medium in MEDIA {
        let (_directory, listener) = listen(medium);
        let (mut peer, mut server) = Peer::client("publish", &listener);
        peer.kill();
        assert_eq!(read_to_end(&mut server), [9; 1000], "{medium}");
    }
}

#[test]
fn a_server_that_is_killed_ends_its_clients_and_its_socket_is_taken_over() {
    for scheme in ["shm", "unix"] {
        let directory = tempfile::tempdir().unwrap();
        let address = format!("{scheme}://{}/socket", directory.path().display());
        let (mut peer, ()) = Peer::start("serve", &address, Path::new("/nowhere"), || ());
        assert_eq!(peer.said, format!("listening {address}"));
        let address: Address = address.parse().unwrap();
        let mut client = Stream::connect(&address, &ConnectOptions::default()).unwrap();
        let count = while_asleep(move || client.read(&mut Vec::new(), 1, far()).unwrap(), || peer.kill());
        assert_eq!(count, 0, "{scheme}");

        let listener = Listener::bind(&address, &ListenOptions::default()).unwrap();
        let to = address.clone();
        let connecting = std::thread::spawn(move || Stream::connect(&to, &ConnectOptions::default()));
        let mut server = listener.accept().unwrap().unwrap();
        let mut client = connecting.join().unwrap().unwrap();
        client.write(b"new", None).unwrap();
        client.flush();
        assert_eq!(read_exact(&mut server, 3), b"new");
    }
}

#[test]
fn the_default_directory_is_private_or_refused() {
    let runtime = tempfile::tempdir().unwrap();
    let (peer, ()) = Peer::start("serve-default", "", runtime.path(), || ());
    let directory = runtime.path().join("bifrost");
    assert_eq!(peer.said, format!("listening shm://{}/main", directory.display()));
    let mode = |path: &Path| std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&directory), 0o700);
    assert_eq!(mode(&directory.join("main")), 0o600);
    drop(peer);

    std::fs::set_permissions(&directory, PermissionsExt::from_mode(0o755)).unwrap();
    let (peer, ()) = Peer::start("serve-default", "", runtime.path(), || ());
    assert!(peer.said.contains("is not private"), "{}", peer.said);
}
