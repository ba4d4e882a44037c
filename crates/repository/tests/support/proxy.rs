//! Something between a client and a database server that cuts connections at random.
#![allow(dead_code, reason = "each test binary uses a part")]

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::random::Random;

/// A listener in a folder of its own. Connections that are open when it is dropped are cut.
pub struct Proxy {
    folder: tempfile::TempDir,
    state: Arc<State>,
}

struct State {
    server: PathBuf,
    random: Mutex<Random>,
    /// One in so many parts that are on their way is the last of its connection; 0 if none is.
    cut_one_in: AtomicU64,
    cuts: AtomicU64,
    stopped: AtomicBool,
    /// Nobody gets through.
    closed: AtomicBool,
    open: Mutex<Vec<UnixStream>>,
}

impl Proxy {
    pub fn start(server: &Path, seed: u64) -> Proxy {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join(".s.PGSQL.5432")).unwrap();
        let state = Arc::new(State {
            server: server.to_owned(),
            random: Mutex::new(Random::new(seed)),
            cut_one_in: AtomicU64::new(0),
            cuts: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            open: Mutex::default(),
        });
        let accepting = state.clone();
        std::thread::spawn(move || {
            for client in listener.incoming() {
                if accepting.stopped.load(Ordering::Relaxed) {
                    return;
                }
                let Ok(client) = client else { return };
                if accepting.closed.load(Ordering::Relaxed) {
                    continue;
                }
                let Ok(server) = UnixStream::connect(&accepting.server) else { continue };
                for (from, to) in [(&client, &server), (&server, &client)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let state = accepting.clone();
                    std::thread::spawn(move || state.pass(from, to));
                }
                let mut open = accepting.open.lock().unwrap();
                open.retain(|stream| stream.peer_addr().is_ok());
                open.extend([client, server]);
            }
        });
        Proxy { folder, state }
    }

    /// The folder of the socket.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn cut_one_in(&self, parts: u64) {
        self.state.cut_one_in.store(parts, Ordering::Relaxed);
    }

    /// How many connections were cut at random.
    pub fn cuts(&self) -> u64 {
        self.state.cuts.load(Ordering::Relaxed)
    }

    /// Cuts what is open, and lets nobody through until it is opened.
    pub fn close(&self) {
        self.state.closed.store(true, Ordering::Relaxed);
        self.cut_all();
    }

    pub fn open(&self) {
        self.state.closed.store(false, Ordering::Relaxed);
    }

    /// Cuts what is open.
    pub fn cut_all(&self) {
        for stream in self.state.open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.state.stopped.store(true, Ordering::Relaxed);
        self.cut_all();
        // Wakes the listener.
        let _ = UnixStream::connect(self.folder.path().join(".s.PGSQL.5432"));
    }
}

impl State {
    fn pass(&self, mut from: UnixStream, mut to: UnixStream) {
        let mut bytes = vec![0; 1 << 16];
        loop {
            let count = from.read(&mut bytes).unwrap_or(0);
            let one_in = self.cut_one_in.load(Ordering::Relaxed) as usize;
            let (cuts, arrives) = {
                let mut random = self.random.lock().unwrap();
                (one_in > 0 && random.chance(one_in), random.chance(2))
            };
            // What is cut has arrived or has not.
            let passed = count > 0 && (cuts && !arrives || to.write_all(&bytes[..count]).is_ok());
            if cuts || !passed {
                self.cuts.fetch_add(u64::from(cuts), Ordering::Relaxed);
                let _ = from.shutdown(Shutdown::Both);
                let _ = to.shutdown(Shutdown::Both);
                return;
            }
        }
    }
}
