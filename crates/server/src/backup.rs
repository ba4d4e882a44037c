//! [`Backups`]: the socket in a store's folder, over which its owner copies the open store.
//!
//! The socket `backup` has mode 0600, in a folder of mode 0700. Its clients could read the files as
//! well, so no token and no role is asked for, and no client of the server gets there. The
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
const STALLED: Duration = Duration::from_secs(60);
/// The time that the next backup waits for the end of the one under way, before it is refused.
const ENDS_WITHIN: Duration = Duration::from_secs(1);
/// Most bytes of the path of a socket.
const PATH_BYTES_MAX: usize = 100;
/// The bytes that are sent, and read, at once.
const BYTES_AT_ONCE: usize = 256 << 10;

/// The times for which readers are waited for.
#[derive(Clone, Copy, Debug)]
struct Patience {
    request: Duration,
    stalled: Duration,
}

impl Default for Patience {
    fn default() -> Patience {
        Patience { request: REQUEST_WITHIN, stalled: STALLED }
    }
}

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
        Backups::start_with(folder, repository, Patience::default())
    }

    fn start_with(
        folder: &Path,
        repository: Arc<dyn Repository>,
        patience: Patience,
    ) -> Result<Backups, ListenError> {
        let fail = |source| ListenError::Io { address: Address::Unix(folder.join(SOCKET)), source };
        let (address, folder_file) = address(folder).map_err(fail)?;
        let listener = Listener::bind(&address, &ListenOptions::default())?;
        let stopper = listener.stopper();
        let running = Arc::new(Running::default());
        let shared = running.clone();
        let work = move || {
            let told = |shortage| tell_shortage(listener.local_address(), &shortage);
            listener.serve(told, |stream| begin(&shared, stream, &repository, patience));
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
fn begin(running: &Arc<Running>, mut stream: Stream, repository: &Arc<dyn Repository>, patience: Patience) {
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
        let _ =
            backup::write_failure(&mut Sending { stream: &mut stream, buffer: Vec::new(), patience }, why);
        return;
    }
    state.stream = Some(stream.stopper());
    let (repository, there) = (repository.clone(), running.clone());
    let work = move || {
        serve(&mut stream, &*repository, patience);
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
fn serve(stream: &mut Stream, repository: &dyn Repository, patience: Patience) {
    let mut request = Vec::new();
    let deadline = Instant::now() + patience.request;
    while request.len() < REQUEST.len() {
        let room = REQUEST.len() - request.len();
        match stream.read(&mut request, room, deadline) {
            Ok(count) if count > 0 => {}
            _ => return,
        }
    }
    let mut out = Sending { stream, buffer: Vec::with_capacity(BYTES_AT_ONCE), patience };
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
    patience: Patience,
}

impl Sending<'_> {
    fn send(&mut self) -> io::Result<()> {
        let sent = self.stream.write(&self.buffer, Instant::now() + self.patience.stalled);
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

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use bifrost_repository::memory::Memory;
    use bifrost_repository::{BatchId, Commit, Oref};
    use bytes::Bytes;

    use super::*;

    /// A store whose backup is larger than the buffers of a socket.
    fn large() -> Arc<Memory> {
        let store = Memory::new();
        for session in 0..100 {
            let reads: HashSet<Oref> = HashSet::new();
            let batch = Some((BatchId { session, number: 1 }, Bytes::from(vec![7; 60_000])));
            let valid_to = store.head();
            let commit = Commit { valid_to, reads: &reads, writes: vec![], creates: vec![], batch };
            store.commit(commit).unwrap();
        }
        Arc::new(store)
    }

    /// The bytes of a whole backup.
    fn bytes_of(folder: &Path) -> Vec<u8> {
        let mut bytes = Vec::new();
        let _ = Receiving::ask(folder).unwrap().read_to_end(&mut bytes);
        bytes
    }

    #[test]
    fn readers_that_say_nothing_or_take_nothing_are_given_up() {
        let folder = tempfile::tempdir().unwrap();
        let [request, stalled] = [100, 300].map(Duration::from_millis);
        let store = large();
        let backups =
            Backups::start_with(folder.path(), store.clone(), Patience { request, stalled }).unwrap();
        let whole = bytes_of(folder.path());
        assert!(whole.len() > 6_000_000, "{}", whole.len());
        // One that asks for nothing.
        let (address, _) = address(folder.path()).unwrap();
        let silent = Stream::connect(&address, &ConnectOptions::default()).unwrap();
        assert_eq!(bytes_of(folder.path()), whole);
        drop(silent);
        // One that takes nothing: the next one waits for its end, and no session is held up.
        let mut stalls = Receiving::ask(folder.path()).unwrap();
        let since = Instant::now();
        assert_eq!(bytes_of(folder.path()), whole);
        assert!(since.elapsed() >= stalled, "{:?}", since.elapsed());
        let mut rest = Vec::new();
        let _ = stalls.read_to_end(&mut rest);
        assert!(rest.len() < whole.len(), "it gets no whole backup");
        drop(backups);
        assert!(!folder.path().join(SOCKET).exists());
        assert_eq!(Arc::strong_count(&store), 1, "nothing holds the store");
    }

    #[test]
    fn a_slow_reader_gets_all() {
        let folder = tempfile::tempdir().unwrap();
        let [request, stalled] = [100, 300].map(Duration::from_millis);
        let _backups = Backups::start_with(folder.path(), large(), Patience { request, stalled }).unwrap();
        let whole = bytes_of(folder.path());
        let (mut slow, mut bytes) = (Receiving::ask(folder.path()).unwrap(), Vec::new());
        let mut piece = vec![0; 400_000];
        loop {
            match slow.read(&mut piece).unwrap() {
                0 => break,
                count => bytes.extend_from_slice(&piece[..count]),
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(bytes, whole);
    }
}
