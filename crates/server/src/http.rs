//! [`Http`]: a connection that speaks HTTP, until it has become a websocket.
//!
//! All listeners share it; [`Pages`] lists the pages of one. The crate `hyper` knows the protocol.
//! It reads and writes two buffers in memory, and [`Http::go_on`] moves bytes between these and the
//! stream, so that no thread waits and no runtime is needed.
//!
//! | path | answer |
//! | --- | --- |
//! | `/healthz` | 200 while the process answers |
//! | `/readyz` | 200 while sessions are opened, 503 when the server is stopping |
//! | `/metrics` | the metrics, where the listener has them |
//! | that of the address | the websocket, where the listener has one |
//!
//! A request that has a body, or is none, ends the connection. A browser's request for a websocket
//! needs an origin that the settings name, and every one the subprotocol.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bifrost_transport::{ReadError, SUBPROTOCOL, Stream, Want};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::server::conn::http1::{self, UpgradeableConnection};
use hyper::service::Service;
use hyper::upgrade::OnUpgrade;
use hyper::{Method, Request, Response, StatusCode};
use tungstenite::handshake::server::create_response_with_body;

use crate::origins::Origins;
use crate::server::Shared;

/// Most bytes of a request without its body.
pub const REQUEST_BYTES_MAX: usize = 16 << 10;
/// Most requests over one connection.
pub const REQUESTS_MAX: u32 = 100;
/// Most bytes that are read at once, and that wait to be sent before more is produced.
const PIPE_BYTES: usize = 16 << 10;

/// The things that a listener serves over HTTP, besides the state of the server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pages {
    /// True if it has the metrics.
    pub metrics: bool,
    /// The path of the websocket, if it has one, and the pages that may open it.
    pub websocket: Option<(String, Origins)>,
}

/// The next step of a connection.
pub(crate) enum Step {
    /// It waits for something of the client, until then.
    Waits(Want, Instant),
    /// It is a websocket now. These bytes were read behind the request.
    Websocket(Vec<u8>),
    /// It has ended.
    Over,
}

/// A connection that speaks HTTP.
pub(crate) struct Http {
    connection: UpgradeableConnection<Pipe, Answers>,
    pipe: Pipe,
    exchange: Arc<Mutex<Exchange>>,
    /// Requests that were answered when the deadline was set.
    answered: u32,
    patience: Duration,
    deadline: Instant,
    /// The answer that ends the connection is on its way; or it becomes a websocket afterwards.
    ends: Option<Option<OnUpgrade>>,
}

/// The knowledge about a connection's requests.
#[derive(Default)]
struct Exchange {
    requests: u32,
    upgrade: Option<OnUpgrade>,
}

impl Http {
    /// The HTTP of a connection that has just come.
    pub(crate) fn new(shared: &Arc<Shared>, stream: &Stream, pages: &Arc<Pages>) -> Http {
        let (pipe, exchange) = (Pipe::default(), Arc::<Mutex<Exchange>>::default());
        let answers = Answers {
            shared: shared.clone(),
            pages: pages.clone(),
            exchange: exchange.clone(),
            peer: stream.describe_peer(),
        };
        let connection = http1::Builder::new()
            .max_buf_size(REQUEST_BYTES_MAX)
            .half_close(true)
            .title_case_headers(true)
            .serve_connection(pipe.clone(), answers)
            .with_upgrades();
        let patience = shared.patience.hello;
        let deadline = Instant::now() + patience;
        Http { connection, pipe, exchange, answered: 0, patience, deadline, ends: None }
    }

    /// Answers requests until nothing is there to be read, or there is no room for answers.
    pub(crate) fn go_on(&mut self, stream: &mut Stream) -> Step {
        loop {
            if self.ends.is_none() {
                self.work();
            }
            match self.send(stream) {
                None => return self.wait(Want::Room),
                // There may be more requests, which waited for room.
                Some(count) if count > 0 && self.ends.is_none() => continue,
                Some(_) => {}
            }
            if let Some(upgrade) = self.ends.take() {
                return match upgrade.and_then(|upgrade| self.upgraded(upgrade)) {
                    Some(read) => Step::Websocket(read),
                    None => Step::Over,
                };
            }
            match self.receive(stream) {
                Ok(true) => {}
                Ok(false) => return self.wait(Want::Bytes),
                Err(why) => {
                    tracing::debug!(peer = stream.describe_peer(), why, "connection.gone");
                    return Step::Over;
                }
            }
            // A client that sends one request after the other is no reason for others to wait.
            bifrost_workers::make_way();
        }
    }

    /// Lets hyper work off the bytes that were read.
    fn work(&mut self) {
        let polled = Pin::new(&mut self.connection).poll(&mut Context::from_waker(Waker::noop()));
        let mut exchange = lock(&self.exchange);
        if exchange.requests != self.answered {
            self.answered = exchange.requests;
            self.deadline = Instant::now() + self.patience;
        }
        match polled {
            Poll::Pending => {}
            // After an error, too, the answer that says so is sent.
            Poll::Ready(_) => self.ends = Some(exchange.upgrade.take()),
        }
    }

    /// Sends the answers, and returns the number of bytes; none if there is no room for all.
    fn send(&mut self, stream: &mut Stream) -> Option<usize> {
        let mut pipe = self.pipe.lock();
        let mut sent = 0;
        while sent < pipe.output.len() {
            match stream.try_write(&pipe.output[sent..]) {
                Ok(0) => {
                    pipe.output.drain(..sent);
                    return None;
                }
                Ok(count) => sent += count,
                Err(_) => {
                    // Nobody reads them.
                    pipe.is_broken = true;
                    break;
                }
            }
        }
        pipe.output.clear();
        match !stream.wants_write() || stream.try_flush().unwrap_or(true) {
            true => Some(sent),
            false => None,
        }
    }

    /// Reads the bytes that are there; false if none are.
    fn receive(&mut self, stream: &mut Stream) -> Result<bool, String> {
        let mut pipe = self.pipe.lock();
        if pipe.is_broken {
            return Err("the client has closed the connection".to_owned());
        }
        if pipe.input.len() >= PIPE_BYTES {
            return Err("a request is not taken".to_owned());
        }
        if pipe.ended {
            return Ok(false);
        }
        match stream.try_read(&mut pipe.input, PIPE_BYTES) {
            Ok(Some(0)) => pipe.ended = true,
            Ok(Some(_)) => {}
            Ok(None) => return Ok(false),
            Err(ReadError::Stopped) => return Err("the server is ending it".to_owned()),
            Err(error) => return Err(error.to_string()),
        }
        Ok(true)
    }

    fn wait(&self, want: Want) -> Step {
        match Instant::now() < self.deadline {
            true => Step::Waits(want, self.deadline),
            false => Step::Over,
        }
    }

    /// Returns the bytes behind the request for a websocket.
    fn upgraded(&self, mut upgrade: OnUpgrade) -> Option<Vec<u8>> {
        let polled = Pin::new(&mut upgrade).poll(&mut Context::from_waker(Waker::noop()));
        let Poll::Ready(Ok(upgraded)) = polled else { return None };
        let parts = upgraded.downcast::<Pipe>().ok()?;
        let mut read = parts.read_buf.to_vec();
        read.append(&mut self.pipe.lock().input);
        Some(read)
    }
}

fn lock(exchange: &Mutex<Exchange>) -> MutexGuard<'_, Exchange> {
    exchange.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The two buffers that hyper takes for a connection.
#[derive(Clone, Debug, Default)]
struct Pipe(Arc<Mutex<Pipes>>);

#[derive(Debug, Default)]
struct Pipes {
    input: Vec<u8>,
    /// The client sends no more.
    ended: bool,
    output: Vec<u8>,
    /// The client reads no more.
    is_broken: bool,
}

impl Pipe {
    fn lock(&self) -> MutexGuard<'_, Pipes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Read for Pipe {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        mut room: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let mut pipe = self.lock();
        if pipe.input.is_empty() && !pipe.ended {
            return Poll::Pending;
        }
        let count = pipe.input.len().min(room.remaining());
        room.put_slice(&pipe.input[..count]);
        pipe.input.drain(..count);
        Poll::Ready(Ok(()))
    }
}

impl Write for Pipe {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut pipe = self.lock();
        if pipe.is_broken {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        if pipe.output.len() >= PIPE_BYTES {
            return Poll::Pending;
        }
        pipe.output.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// The answers to requests. Each is there at once.
struct Answers {
    shared: Arc<Shared>,
    pages: Arc<Pages>,
    exchange: Arc<Mutex<Exchange>>,
    peer: String,
}

type Answer = Response<Full<Bytes>>;

impl Service<Request<Incoming>> for Answers {
    type Response = Answer;
    type Error = Infallible;
    type Future = Ready<Result<Answer, Infallible>>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        let requests = {
            let mut exchange = lock(&self.exchange);
            exchange.requests += 1;
            exchange.requests
        };
        let asks = |(path, origins): &(String, Origins)| {
            (path == request.uri().path()).then(|| websocket(&request, origins, &self.peer))
        };
        let mut answer = match self.pages.websocket.as_ref().and_then(asks) {
            Some(answer) => answer,
            None => self.page(&request),
        };
        if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
            lock(&self.exchange).upgrade = Some(hyper::upgrade::on(&mut request));
            return ready(Ok(answer));
        }
        let is_refusal = !answer.status().is_success();
        let headers = answer.headers_mut();
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        // A client that is refused asks again from the start.
        if requests >= REQUESTS_MAX || is_refusal {
            headers.append(header::CONNECTION, HeaderValue::from_static("close"));
        }
        ready(Ok(answer))
    }
}

impl Answers {
    fn page(&self, request: &Request<Incoming>) -> Answer {
        let is_metrics = |path: &str| path == "/metrics" && self.pages.metrics;
        let path = request.uri().path();
        if !matches!(path, "/healthz" | "/readyz") && !is_metrics(path) {
            return plain(StatusCode::NOT_FOUND, self.index());
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut answer = plain(StatusCode::METHOD_NOT_ALLOWED, "use GET\n");
            answer.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
            return answer;
        }
        match path {
            "/healthz" => plain(StatusCode::OK, "ok\n"),
            "/readyz" if self.shared.connections.is_stopping() => {
                plain(StatusCode::SERVICE_UNAVAILABLE, "the server is stopping\n")
            }
            "/readyz" => plain(StatusCode::OK, "ready\n"),
            _ => {
                let mut answer = plain(StatusCode::OK, crate::metrics::text(&self.shared.measured()));
                let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
                answer.headers_mut().insert(header::CONTENT_TYPE, kind);
                answer
            }
        }
    }

    /// Returns the words about the things that are here.
    fn index(&self) -> String {
        let mut text = "this is a Bifrost server; its state is at /healthz and /readyz".to_owned();
        if self.pages.metrics {
            text += ", metrics are at /metrics";
        }
        if let Some((path, _)) = &self.pages.websocket {
            text += &format!(", the websocket is at {path}");
        }
        text + "\n"
    }
}

/// Tells a client that there is no place for it, before it has said anything.
pub(crate) fn refuse(stream: &mut Stream, why: &str) {
    // The end of a handshake is not awaited for a refusal.
    if stream.is_established() {
        let length = why.len() + 1;
        let answer = format!(
            "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\n\
             Content-Length: {length}\r\nConnection: close\r\n\r\n{why}\n"
        );
        let _ = stream.try_write(answer.as_bytes());
    }
}

fn plain(status: StatusCode, text: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(text.into()));
    *answer.status_mut() = status;
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    answer.headers_mut().insert(header::CONTENT_TYPE, kind);
    answer
}

/// Answers a request for the websocket, or for the page in its place.
fn websocket(request: &Request<Incoming>, origins: &Origins, peer: &str) -> Answer {
    let headers = request.headers();
    let is_upgrade = words(headers, &header::UPGRADE).any(|word| word.eq_ignore_ascii_case("websocket"));
    if !is_upgrade {
        let text = format!("open a websocket here, with the subprotocol `{SUBPROTOCOL}`\n");
        let mut answer = plain(StatusCode::UPGRADE_REQUIRED, text);
        answer.headers_mut().insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        return answer;
    }
    let mut sent = headers.get_all(header::ORIGIN).iter();
    if let Some(origin) = sent.next() {
        let text = String::from_utf8_lossy(origin.as_bytes());
        if sent.next().is_some() || !origins.allow(&text) {
            tracing::warn!(peer, origin = %text.escape_debug(), "websocket.refused");
            let text = "pages of this origin may not open websockets here: name it in the setting \
                `websocket.origins`\n";
            return plain(StatusCode::FORBIDDEN, text);
        }
    }
    if !words(headers, &header::SEC_WEBSOCKET_PROTOCOL).any(|word| word == SUBPROTOCOL) {
        let text = format!("ask for the subprotocol `{SUBPROTOCOL}`\n");
        return plain(StatusCode::BAD_REQUEST, text);
    }
    match create_response_with_body(request, Full::default) {
        Ok(mut answer) => {
            let protocol = HeaderValue::from_static(SUBPROTOCOL);
            answer.headers_mut().insert(header::SEC_WEBSOCKET_PROTOCOL, protocol);
            answer
        }
        Err(why) => {
            let mut answer = plain(StatusCode::BAD_REQUEST, format!("this opens no websocket: {why}\n"));
            answer.headers_mut().insert(header::SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
            answer
        }
    }
}

/// Returns the words of a header that has a list.
fn words<'h>(headers: &'h HeaderMap, name: &'h HeaderName) -> impl Iterator<Item = &'h str> {
    headers
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|list| list.split(',').map(str::trim))
}
