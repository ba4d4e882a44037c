//! [`Endpoint`]: the metrics over HTTP.
//!
//! [`Endpoint::start`] listens, and answers each request on a thread of its own. Everything is in
//! memory: a request waits for no batch and for no database.

use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use bifrost_capsule::newcomers::{Bounds, Newcomers, tell_shortage};
use bifrost_transport::{Address, ListenError, ListenOptions, Listener, Stopper, Stream, StreamStopper};
use parking_lot::{Condvar, Mutex};

use super::{Measured, text};

/// Most bytes of a request.
const REQUEST_BYTES_MAX: usize = 8 << 10;
/// Most requests at a time.
const REQUESTS_MAX: usize = 16;
/// The time that a client may take to ask, and to read the answer.
const WITHIN: Duration = Duration::from_secs(2);

/// The place where metrics are told. It ends when it is dropped.
#[derive(Debug)]
pub struct Endpoint {
    address: Address,
    stopper: Stopper,
    thread: Option<JoinHandle<()>>,
    requests: Arc<Requests>,
}

/// The connections with requests that are not answered yet, each with a thread.
#[derive(Debug)]
struct Requests {
    open: Mutex<Newcomers>,
    changed: Condvar,
}

/// A request's place among these, until dropped.
struct Request {
    requests: Arc<Requests>,
    number: u64,
}

impl Requests {
    fn enter(self: &Arc<Requests>, stream: &Stream) -> Option<Request> {
        let number = self.open.lock().enter(stream).ok()?;
        Some(Request { requests: self.clone(), number })
    }

    /// Ends all, and waits until they are over.
    fn stop(&self) {
        let mut open = self.open.lock();
        while !open.is_empty() {
            open.stoppers().for_each(StreamStopper::stop);
            self.changed.wait(&mut open);
        }
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        self.requests.open.lock().leave(self.number);
        self.requests.changed.notify_all();
    }
}

impl Endpoint {
    /// Listens, and answers each `GET /metrics` with what `measure` gives then. Each request has a
    /// thread, so that none waits for a slow one; of more than [`REQUESTS_MAX`] the oldest silent
    /// one is closed.
    ///
    /// # Errors
    /// The address cannot be listened on, or there is no thread.
    pub fn start(
        address: &Address,
        measure: impl Fn() -> Measured + Send + Sync + 'static,
    ) -> Result<Endpoint, ListenError> {
        let listener = Listener::bind(address, &ListenOptions::default())?;
        let (address, stopper) = (listener.local_address().clone(), listener.stopper());
        let bounds = Bounds { all: REQUESTS_MAX, of_origin: REQUESTS_MAX, handshakes: REQUESTS_MAX };
        let open = Mutex::new(Newcomers::new(bounds));
        let requests = Arc::new(Requests { open, changed: Condvar::new() });
        let (entered, measure) = (requests.clone(), Arc::new(measure));
        let run = move || {
            let told = |shortage| tell_shortage(listener.local_address(), &shortage);
            listener.serve(told, |mut stream| {
                let Some(request) = entered.enter(&stream) else { return };
                let measure = measure.clone();
                let work = move || {
                    answer(&mut stream, &*measure);
                    drop((stream, measure));
                    drop(request);
                };
                if let Err(error) = thread().spawn(work) {
                    tracing::warn!(%error, "metrics.refused");
                }
            });
        };
        let thread = thread().spawn(run);
        let thread = thread.map_err(|source| ListenError::Io { address: address.clone(), source })?;
        Ok(Endpoint { address, stopper, thread: Some(thread), requests })
    }

    /// Where it listens, with the port that the system chose.
    pub fn address(&self) -> &Address {
        &self.address
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.stopper.stop();
        if let Some(thread) = self.thread.take() {
            // A panic in it was reported where it happened.
            let _ = thread.join();
        }
        self.requests.stop();
    }
}

fn thread() -> Builder {
    Builder::new().name("bifrost-metrics".to_owned())
}

/// Answers one request, and that is the end of the connection. A client that does not read the
/// answer does not get it.
fn answer(stream: &mut Stream, measure: &dyn Fn() -> Measured) {
    let deadline = Instant::now() + WITHIN;
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        let room = REQUEST_BYTES_MAX.saturating_sub(request.len());
        if room == 0 {
            break;
        }
        match stream.read(&mut request, room, deadline) {
            Ok(count) if count > 0 => {}
            _ => return,
        }
    }
    let (status, body) = response(&request, measure);
    let kind = if status == "200 OK" { "text/plain; version=0.0.4; charset=utf-8" } else { "text/plain" };
    let more = if status.starts_with("405") { "Allow: GET\r\n" } else { "" };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n{more}Connection: close\r\n\r\n",
        body.len()
    );
    let _ = stream.write(&[head.as_bytes(), body.as_bytes()].concat(), deadline);
    stream.flush();
}

/// Returns the status, and the text.
fn response(request: &[u8], measure: &dyn Fn() -> Measured) -> (&'static str, String) {
    let line = request.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let mut words = line.split(|byte| *byte == b' ');
    let (method, target, version) = (words.next(), words.next(), words.next());
    if !request.ends_with(b"\r\n\r\n") || !version.is_some_and(|version| version.starts_with(b"HTTP/1.")) {
        return ("400 Bad Request", format!("a request of HTTP/1.1 has at most {REQUEST_BYTES_MAX} bytes\n"));
    }
    let path = target.and_then(|target| target.split(|byte| *byte == b'?').next());
    match (method, path) {
        (Some(b"GET"), Some(b"/metrics")) => ("200 OK", text(&measure())),
        (_, Some(b"/metrics")) => ("405 Method Not Allowed", "use GET\n".to_owned()),
        _ => ("404 Not Found", "metrics are at /metrics\n".to_owned()),
    }
}
