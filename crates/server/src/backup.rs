//! [`Backups`]: the socket in a store's folder, over which its owner copies the open store.
//!
//! The socket `backup` has mode 0600, in a folder of mode 0700: whoever can connect can read the
//! files as well, so no token and no role is asked for, and no client of the server gets there. The
//! server writes the bytes of a snapshot (`bifrost_repository::backup`) into the stream, and no
//! file: the command that asks writes the copy, with its own rights.
//!
//! One backup runs at a time, on a thread of its own. A reader that takes nothing for
//! [`STALLED`] is given up, since the store keeps what the snapshot reads.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use bifrost_capsule::newcomers::tell_shortage;
use bifrost_repository::Repository;
use bifrost_repository::backup::{self, BackupError};
use bifrost_transport::{
    Address, ConnectError, ConnectOptions, Identity, ListenError, ListenOptions, Listener, ReadError,
    Stopper, Stream, StreamStopper, WriteError,
};
use parking_lot::{Condvar, Mutex};

/// The name of the socket.
pub const SOCKET: &str = "backup";
/// The line that asks for a backup.
const REQUEST: &[u8] = b"backup 1\n";
/// The time that the request may take.
const REQUEST_WITHIN: Duration = Duration::from_secs(5);
/// The time that a reader may take nothing, and a server may send nothing.
pub const STALLED: Duration = Duration::from_secs(60);
/// The time that the next backup waits for the end of the one under way, before it is refused.
const ENDS_WITHIN: Duration = Duration::from_secs(1);
/// Most bytes of the path of a socket.
const PATH_BYTES_MAX: usize = 100;
/// The bytes that are sent, and read, at once.
const BYTES_AT_ONCE: usize = 256 << 10;

/// The socket of a store. It ends when it is dropped, and a backup under way with it.
#[derive(Debug)]
pub(crate) struct Backups {
    stopper: Stopper,
    thread: Option<JoinHandle<()>>,
    running: Arc<Running>,
}

/// The backup under way.
#[derive(Debug, Default)]
struct Running {
    state: Mutex<State>,
    /// The backup under way has ended.
    ended: Condvar,
}

#[derive(Debug, Default)]
struct State {
    is_stopped: bool,
    stream: Option<StreamStopper>,
    thread: Option<JoinHandle<()>>,
}

/// Returns the address of the socket in a folder. A path that is too long for a socket leads
/// through a descriptor of the folder, which is open as long as the second result lives.
fn address(folder: &Path) -> io::Result<(Address, Option<File>)> {
    let path = std::path::absolute(folder.join(SOCKET))?;
    if path.as_os_str().len() <= PATH_BYTES_MAX {
        return Ok((Address::Unix(path), None));
    }
    let folder = File::open(folder)?;
    let path = PathBuf::from(format!("/proc/self/fd/{}/{SOCKET}", folder.as_raw_fd()));
    Ok((Address::Unix(path), Some(folder)))
}

impl Backups {
    /// Listens in the folder of a store.
    ///
    /// # Errors
    /// The socket cannot be made, or there is no thread.
    pub(crate) fn start(folder: &Path, repository: Arc<dyn Repository>) -> Result<Backups, ListenError> {
        let fail = |source| ListenError::Io { address: Address::Unix(folder.join(SOCKET)), source };
        let (address, folder_file) = address(folder).map_err(fail)?;
        let listener = Listener::bind(&address, &ListenOptions::default())?;
        let stopper = listener.stopper();
        let running = Arc::new(Running::default());
        let shared = running.clone();
        let work = move || {
            let told = |shortage| tell_shortage(listener.local_address(), &shortage);
            listener.serve(told, |stream| begin(&shared, stream, &repository));
            // The socket is removed by a path that needs the folder.
            drop((listener, folder_file));
        };
        let thread = Builder::new().name("bifrost-backup".to_owned()).spawn(work).map_err(fail)?;
        Ok(Backups { stopper, thread: Some(thread), running })
    }
}

impl Drop for Backups {
    fn drop(&mut self) {
        self.stopper.stop();
        if let Some(thread) = self.thread.take() {
            // A panic in it was reported where it happened.
            let _ = thread.join();
        }
        let mut state = self.running.state.lock();
        state.is_stopped = true;
        state.stream.iter().for_each(StreamStopper::stop);
        let thread = state.thread.take();
        drop(state);
        thread.into_iter().for_each(|thread| drop(thread.join()));
    }
}

/// Begins a backup, unless one is under way.
fn begin(running: &Arc<Running>, mut stream: Stream, repository: &Arc<dyn Repository>) {
    let own = rustix::process::geteuid().as_raw();
    let is_owner = matches!(stream.identity(), Identity::Local { uid } if uid == own || uid == 0);
    let mut state = running.state.lock();
    // A backup whose reader has just gone is about to end.
    let until = Instant::now() + ENDS_WITHIN;
    while state.stream.is_some() && !running.ended.wait_until(&mut state, until).timed_out() {}
    let refusal = match () {
        () if !is_owner => Some("only the user of the server, and root, get backups"),
        () if state.stream.is_some() => Some("another backup is under way"),
        () => None,
    };
    if let Some(why) = refusal {
        let _ = backup::write_failure(&mut Sending { stream: &mut stream, buffer: Vec::new() }, why);
        return;
    }
    state.stream = Some(stream.stopper());
    let (repository, there) = (repository.clone(), running.clone());
    let work = move || {
        serve(&mut stream, &*repository);
        drop((stream, repository));
        there.state.lock().stream = None;
        there.ended.notify_all();
    };
    match Builder::new().name("bifrost-copy".to_owned()).spawn(work) {
        Ok(thread) => state.thread = Some(thread),
        Err(error) => {
            state.stream = None;
            tracing::warn!(%error, "backup.refused");
        }
    }
}

/// Answers a request with the bytes of a snapshot.
fn serve(stream: &mut Stream, repository: &dyn Repository) {
    let mut request = Vec::new();
    let deadline = Instant::now() + REQUEST_WITHIN;
    while request.len() < REQUEST.len() {
        let room = REQUEST.len() - request.len();
        match stream.read(&mut request, room, deadline) {
            Ok(count) if count > 0 => {}
            _ => return,
        }
    }
    let mut out = Sending { stream, buffer: Vec::with_capacity(BYTES_AT_ONCE) };
    if request != REQUEST {
        let _ = backup::write_failure(&mut out, "the request is not `backup 1`");
        return;
    }
    let since = Instant::now();
    let made = repository
        .snapshot()
        .map_err(BackupError::from)
        .and_then(|mut snapshot| backup::write(&mut snapshot, &mut out, &mut |_| {}));
    match made {
        Ok(made) => {
            let (commit, objects, bytes) = (made.head.0, made.objects, made.bytes);
            tracing::info!(commit, objects, bytes, ms = since.elapsed().as_millis() as u64, "backup.done");
        }
        Err(BackupError::Io(error)) => tracing::warn!(%error, "backup.broken_off"),
        Err(error) => {
            tracing::error!(%error, "backup.failed");
            let _ = backup::write_failure(&mut out, &error.to_string());
        }
    }
}

/// The bytes to a reader, in large pieces.
struct Sending<'s> {
    stream: &'s mut Stream,
    buffer: Vec<u8>,
}

impl Sending<'_> {
    fn send(&mut self) -> io::Result<()> {
        let sent = self.stream.write(&self.buffer, Instant::now() + STALLED);
        self.buffer.clear();
        sent.map_err(|error| match error {
            WriteError::TimedOut => io::Error::new(io::ErrorKind::TimedOut, "the reader has taken nothing"),
            WriteError::Stopped => io::Error::other("the server stops"),
            other => io::Error::other(other.to_string()),
        })
    }
}

impl Write for Sending<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.buffer.len() + bytes.len() > BYTES_AT_ONCE && !self.buffer.is_empty() {
            self.send()?;
        }
        if bytes.len() >= BYTES_AT_ONCE {
            // A piece for each deadline: slow readers make progress.
            self.buffer.extend_from_slice(&bytes[..BYTES_AT_ONCE]);
            self.send()?;
            return Ok(BYTES_AT_ONCE);
        }
        self.buffer.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.send()?;
        self.stream.flush();
        Ok(())
    }
}

/// The bytes of a backup of a store that a server has open.
#[derive(Debug)]
pub struct Receiving {
    stream: Stream,
    input: Vec<u8>,
    done: usize,
}

impl Receiving {
    /// Asks the server that has the store of a folder open for a backup.
    ///
    /// # Errors
    /// No server has it open.
    pub fn ask(folder: &Path) -> Result<Receiving, ConnectError> {
        let fail = |source| ConnectError::Io { address: Address::Unix(folder.join(SOCKET)), source };
        let (address, _folder) = address(folder).map_err(fail)?;
        let mut stream = Stream::connect(&address, &ConnectOptions::default())?;
        // One that does not take it is found when its answer is read.
        let _ = stream.write(REQUEST, Instant::now() + REQUEST_WITHIN);
        stream.flush();
        Ok(Receiving { stream, input: Vec::with_capacity(BYTES_AT_ONCE), done: 0 })
    }
}

impl Read for Receiving {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.done == self.input.len() {
            self.input.clear();
            self.done = 0;
            // The server may install what was committed before it begins.
            match self.stream.read(&mut self.input, BYTES_AT_ONCE, Instant::now() + 2 * STALLED) {
                Ok(0) => return Ok(0),
                Ok(_) => {}
                Err(ReadError::TimedOut) => {
                    return Err(io::Error::new(io::ErrorKind::TimedOut, "the server sends nothing"));
                }
                Err(other) => return Err(io::Error::other(other.to_string())),
            }
        }
        let count = into.len().min(self.input.len() - self.done);
        into[..count].copy_from_slice(&self.input[self.done..self.done + count]);
        self.done += count;
        Ok(count)
    }
}
