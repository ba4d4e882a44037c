//! A relay between two unix sockets that counts the bytes of the client.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A relay of one connection.
pub struct Relay {
    sent: Arc<AtomicU64>,
}

impl Relay {
    /// Listens at a path; connects to the server when a client comes. Its threads end with the
    /// connection.
    ///
    /// # Errors
    /// The path cannot be listened at.
    pub fn start(at: &Path, server: &Path) -> std::io::Result<Relay> {
        let listener = UnixListener::bind(at)?;
        let sent = Arc::new(AtomicU64::new(0));
        let (counted, server) = (sent.clone(), server.to_owned());
        std::thread::spawn(move || -> std::io::Result<()> {
            let (client, _) = listener.accept()?;
            let server = UnixStream::connect(server)?;
            let (answers, to) = (server.try_clone()?, client.try_clone()?);
            std::thread::spawn(move || copy(answers, to, None));
            copy(client, server, Some(&counted))
        });
        Ok(Relay { sent })
    }

    /// The bytes that the client has sent. All those of a batch are counted when it is answered.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }
}

fn copy(mut from: UnixStream, mut to: UnixStream, count: Option<&AtomicU64>) -> std::io::Result<()> {
    let mut buffer = vec![0; 1 << 16];
    loop {
        let length = from.read(&mut buffer)?;
        if length == 0 {
            return to.shutdown(Shutdown::Write);
        }
        if let Some(count) = count {
            count.fetch_add(length as u64, Ordering::Relaxed);
        }
        to.write_all(&buffer[..length])?;
    }
}
