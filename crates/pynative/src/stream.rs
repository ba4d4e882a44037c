//! Connections over shared memory and QUIC, with the functions that the connections of the pure
//! package have. Those of sockets stay in Python, which makes fewer calls of the system for them.
//!
//! [`Connection`] is one of a session whose claims wait; [`Connection::split`] makes the halves
//! that a session of asyncio has, since shared memory has no descriptor to wait for, and QUIC has
//! timers of its own.
//!
//! A wait lets other threads of Python run. It is cut into pieces of [`PIECE`], between which
//! signals are handled: Ctrl-C ends it.

use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use bifrost_transport::{
    Address, ConnectError, ConnectOptions, KeyFiles, ReadError, Stream, StreamReading, StreamStopper,
    StreamWriting, TlsError, TlsOptions, WriteError,
};
use parking_lot::{Mutex, MutexGuard};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyConnectionError, PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::core::Core;
use crate::package::Package;

/// The longest wait after which signals are handled.
const PIECE: Duration = Duration::from_millis(50);

/// The most bytes of one read.
const READ_BYTES: usize = 256 * 1024;

fn timed_out(py: Python<'_>) -> PyErr {
    let made = || Package::get(py)?.timed_out.bind(py).call1(("the server did not answer in time",));
    made().map_or_else(|error| error, PyErr::from_value)
}

fn ended(py: Python<'_>) -> PyErr {
    let made = || Package::get(py)?.ended_connection.bind(py).call0();
    made().map_or_else(|error| error, PyErr::from_value)
}

fn unread(py: Python<'_>, error: ReadError) -> PyErr {
    match error {
        ReadError::TimedOut => timed_out(py),
        ReadError::Stopped => ended(py),
        other => PyConnectionError::new_err(other.to_string()),
    }
}

fn unwritten(py: Python<'_>, error: WriteError) -> PyErr {
    match error {
        WriteError::TimedOut => timed_out(py),
        WriteError::Closed | WriteError::Stopped => ended(py),
        other => PyConnectionError::new_err(other.to_string()),
    }
}

fn unconnected(py: Python<'_>, error: ConnectError) -> PyErr {
    match error {
        ConnectError::TimedOut { .. } => timed_out(py),
        // As Python tells it, so that both ways to connect fail alike.
        ConnectError::Refused { source, .. } | ConnectError::Io { source, .. } => of_system(source),
        ConnectError::Tls { source, .. } => untrusted(py, &source),
        ConnectError::Quic { source, .. } => PyConnectionError::new_err(source.to_string()),
        // Settings: no server is to blame.
        error @ (ConnectError::Certificates(_) | ConnectError::TwoTrusts { .. }) => {
            PyValueError::new_err(error.to_string())
        }
        other => PyConnectionError::new_err(other.to_string()),
    }
}

/// Makes the error of Python's own TLS, `ssl.SSLError`.
fn untrusted(py: Python<'_>, error: &TlsError) -> PyErr {
    let made = || py.import("ssl")?.getattr("SSLError")?.call1((error.to_string(),));
    made().map_or_else(|error| error, PyErr::from_value)
}

fn of_system(error: io::Error) -> PyErr {
    match error.raw_os_error() {
        Some(number) => {
            let text = error.to_string();
            let text = text.rsplit_once(" (os error").map_or(text.as_str(), |(text, _)| text);
            PyOSError::new_err((number, text.to_owned()))
        }
        None => PyOSError::new_err(error.to_string()),
    }
}

/// Returns the bytes of an argument.
fn bytes_of(data: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    PyBuffer::<u8>::get(data)?.to_vec(data.py())
}

/// Returns a time as Python gives it.
fn seconds(seconds: f64) -> PyResult<Duration> {
    let time = Duration::try_from_secs_f64(seconds);
    time.map_err(|_| PyValueError::new_err("the time limit is no number of seconds"))
}

/// Returns the moment after a time; one that the clock has, for times beyond it.
fn after(time: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(time).unwrap_or(now + Duration::from_secs(86_400))
}

/// Returns a time limit of Python, in seconds of its monotonic clock.
fn until(py: Python<'_>, deadline: f64) -> PyResult<Instant> {
    let now: f64 = py.import("time")?.call_method0("monotonic")?.extract()?;
    Ok(after(seconds((deadline - now).max(0.0))?))
}

/// Waits in pieces until something is there or the time is over: returns nothing then.
fn patiently<T: Send>(
    py: Python<'_>,
    deadline: Instant,
    mut work: impl FnMut(Instant) -> Option<T> + Send,
) -> PyResult<Option<T>> {
    loop {
        let piece = deadline.min(Instant::now() + PIECE);
        if let Some(done) = py.detach(|| work(piece)) {
            return Ok(Some(done));
        }
        py.check_signals()?;
        if Instant::now() >= deadline {
            return Ok(None);
        }
    }
}

/// Waits a short time until bytes can be read or written. False if the time is over.
fn wait_ready(py: Python<'_>, stream: &mut Stream, deadline: Instant) -> PyResult<bool> {
    let ready = py.detach(|| stream.wait_ready(deadline.min(Instant::now() + PIECE)));
    py.check_signals()?;
    Ok(ready || Instant::now() < deadline)
}

/// A connection to a server.
#[pyclass(frozen, module = "bifrost_native")]
pub(crate) struct Connection {
    /// The stream, until it is closed.
    stream: Mutex<Option<Stream>>,
    stopper: StreamStopper,
}

/// Connects to the server at an address, `shm:///path` or `quic://host:port`. The files in PEM are
/// those of the authorities, and of the client's own certificate and key. Raises OSError or
/// ValueError.
#[pyfunction]
#[pyo3(signature = (address, timeout, authorities=None, certificate=None, key=None))]
pub(crate) fn connect(
    py: Python<'_>,
    address: &str,
    timeout: f64,
    authorities: Option<PathBuf>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
) -> PyResult<Connection> {
    let parsed: Address =
        address.parse().map_err(|error| PyValueError::new_err(format!("`{address}`: {error}")))?;
    if !matches!(parsed, Address::Shm(_) | Address::Quic { .. }) {
        return Err(PyValueError::new_err(format!("`{address}` is no address of shared memory or QUIC")));
    }
    let timeout = seconds(timeout)?;
    // A file without one of the key has the key, too.
    let certificate = certificate
        .map(|certificate| KeyFiles { key: key.unwrap_or_else(|| certificate.clone()), certificate });
    let tls = TlsOptions { authorities, certificate };
    let options = ConnectOptions { timeout, tls, ..ConnectOptions::default() };
    let stream = py.detach(|| Stream::connect(&parsed, &options)).map_err(|error| unconnected(py, error))?;
    let stopper = stream.stopper();
    Ok(Connection { stream: Mutex::new(Some(stream)), stopper })
}

impl Connection {
    fn enter(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, Option<Stream>>> {
        let in_use = || PyConnectionError::new_err("the connection is used by another thread");
        let stream = self.stream.try_lock().ok_or_else(in_use)?;
        if stream.is_some() { Ok(stream) } else { Err(ended(py)) }
    }

    /// Writes all bytes; waits for room until a time.
    fn write_until(&self, py: Python<'_>, mut bytes: &[u8], deadline: Instant) -> PyResult<()> {
        let mut entered = self.enter(py)?;
        let Some(stream) = entered.as_mut() else { return Err(ended(py)) };
        while !bytes.is_empty() {
            let written = stream.try_write(bytes).map_err(|error| unwritten(py, error))?;
            bytes = bytes.get(written..).unwrap_or_default();
            if written == 0 && !wait_ready(py, stream, deadline)? {
                return Err(timed_out(py));
            }
        }
        // Bytes of QUIC are sent by this, or when there is no more room.
        stream.flush();
        Ok(())
    }

    /// Reads bytes; waits for them until a time.
    fn read_until(&self, py: Python<'_>, deadline: Instant) -> PyResult<Vec<u8>> {
        let mut entered = self.enter(py)?;
        let Some(stream) = entered.as_mut() else { return Err(ended(py)) };
        let mut into = Vec::new();
        let count = patiently(py, deadline, |piece| match stream.read(&mut into, READ_BYTES, piece) {
            Err(ReadError::TimedOut) => None,
            read => Some(read),
        })?;
        match count {
            None => Err(timed_out(py)),
            Some(Ok(0)) => Err(ended(py)),
            Some(Ok(_)) => Ok(into),
            Some(Err(error)) => Err(unread(py, error)),
        }
    }
}

#[pymethods]
impl Connection {
    /// Returns bytes that have come; None if there are none yet.
    fn try_read<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let mut entered = self.enter(py)?;
        let Some(stream) = entered.as_mut() else { return Err(ended(py)) };
        let mut into = Vec::new();
        match stream.try_read(&mut into, READ_BYTES) {
            Ok(None) => Ok(None),
            Ok(Some(0)) => Err(ended(py)),
            Ok(Some(_)) => Ok(Some(PyBytes::new(py, &into))),
            Err(error) => Err(unread(py, error)),
        }
    }

    /// Writes bytes for which there is room; returns their number.
    fn try_write(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<usize> {
        let bytes = bytes_of(data)?;
        let mut entered = self.enter(py)?;
        let Some(stream) = entered.as_mut() else { return Err(ended(py)) };
        let written = stream.try_write(&bytes).map_err(|error| unwritten(py, error))?;
        stream.flush();
        Ok(written)
    }

    /// Waits until bytes can be read or, with `writable`, written; it may end before.
    fn wait(&self, py: Python<'_>, writable: bool, deadline: f64) -> PyResult<()> {
        let deadline = until(py, deadline)?;
        let mut entered = self.enter(py)?;
        let Some(stream) = entered.as_mut() else { return Err(ended(py)) };
        // There is no wait for reading alone: a short wait for either is one.
        let _ = writable;
        if wait_ready(py, stream, deadline)? { Ok(()) } else { Err(timed_out(py)) }
    }

    /// Returns bytes; waits for them.
    fn read<'py>(&self, py: Python<'py>, deadline: f64) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.read_until(py, until(py, deadline)?)?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Sends the bytes of the only batch under way of a session, and waits for its answer. Raises
    /// as the functions above do, and as the recorder does.
    fn exchange(&self, py: Python<'_>, core: &Bound<'_, Core>, timeout: f64) -> PyResult<()> {
        let core = core.get();
        let (bytes, wait) = core.take_flushed()?;
        let timeout = seconds(timeout)?;
        self.write_until(py, &bytes, after(timeout))?;
        let deadline = after(timeout.saturating_add(wait));
        while !core.handle(py, &self.read_until(py, deadline)?)? {}
        Ok(())
    }

    /// Closes the connection: the server reads the bytes written, and then the end.
    fn close(&self) {
        match self.stream.try_lock() {
            Some(mut stream) => drop(stream.take()),
            None => self.stopper.stop(),
        }
    }

    /// Returns the halves, for a thread each; the connection itself is closed for others.
    fn split(&self, py: Python<'_>) -> PyResult<(Reading, Writing)> {
        let stream = self.enter(py)?.take().ok_or_else(|| ended(py))?;
        let (reading, writing) = stream.split();
        let reading = Reading { half: Mutex::new(Some(reading)), stopper: self.stopper.clone() };
        Ok((reading, Writing { half: Mutex::new(Some(writing)), stopper: self.stopper.clone() }))
    }
}

/// The half of a connection that a thread reads.
#[pyclass(frozen, module = "bifrost_native")]
pub(crate) struct Reading {
    /// The half, until the stream has ended.
    half: Mutex<Option<StreamReading>>,
    stopper: StreamStopper,
}

#[pymethods]
impl Reading {
    /// Returns bytes; waits for them as long as it takes. Empty at the end of the stream.
    fn read<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let mut into = Vec::new();
        let read = py.detach(|| {
            let mut half = self.half.lock();
            let read = half.as_mut().map_or(Ok(0), |half| half.read(&mut into, READ_BYTES, None));
            if !matches!(read, Ok(1..)) {
                *half = None;
            }
            read
        });
        match read {
            Ok(_) | Err(ReadError::Stopped) => Ok(PyBytes::new(py, &into)),
            Err(error) => Err(unread(py, error)),
        }
    }

    /// Ends a read that waits. Bytes that were written still arrive.
    fn stop(&self) {
        self.stopper.stop_reading();
    }
}

/// The half of a connection that is written.
#[pyclass(frozen, module = "bifrost_native")]
pub(crate) struct Writing {
    half: Mutex<Option<StreamWriting>>,
    stopper: StreamStopper,
}

#[pymethods]
impl Writing {
    /// Writes bytes for which there is room; returns their number.
    fn try_write(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<usize> {
        let bytes = bytes_of(data)?;
        match self.half.lock().as_mut() {
            Some(half) => half.try_write(&bytes).map_err(|error| unwritten(py, error)),
            None => Err(ended(py)),
        }
    }

    /// Writes bytes; waits for room as long as it takes.
    fn write(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let bytes = bytes_of(data)?;
        let written = py.detach(|| self.half.lock().as_mut().map(|half| half.write(&bytes, None)));
        match written {
            Some(written) => written.map_err(|error| unwritten(py, error)),
            None => Err(ended(py)),
        }
    }

    /// Closes it: the server reads the bytes written, and then the end, when the other half is
    /// gone. A write that waits is ended.
    fn close(&self) {
        match self.half.try_lock() {
            Some(mut half) => drop(half.take()),
            None => self.stopper.stop(),
        }
    }
}
