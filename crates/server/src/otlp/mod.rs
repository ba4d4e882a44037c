//! The export of traces and metrics to a collector of OpenTelemetry: protobuf over HTTP (OTLP).
//!
//! Read [`Exporter`] first. Sessions put a [`BatchSpan`] for each sampled batch into the queue of
//! the [`Tracer`], and never wait: a span for which the queue has no room is dropped, and counted.
//! One thread sends spans as they come and metrics at intervals.
//!
//! ```text
//! sending --a request fails--> pausing, told once in the log --the pause is over--> sending
//!                                 the pause doubles while requests fail
//! ```
//!
//! A request that fails is not sent again: its spans are counted as failed, and spans of the pause
//! wait in the queue. Times are those of the server's clock.

mod messages;
mod tracer;

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceResponse;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use parking_lot::{Condvar, Mutex};
use prost::Message;
use ureq::Agent;
use ureq::http::Uri;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

pub(crate) use tracer::{BatchSpan, Tracer};

use crate::metrics::{Measured, families};
use messages::Origin;

/// The longest time of a request. Default: 5 s.
const REQUEST_WITHIN: Duration = Duration::from_secs(5);
/// The longest time for which the end of a server waits for the last request. Default: 2 s.
const STOP_WITHIN: Duration = Duration::from_secs(2);
/// The pause after the first failure, and the longest one. Default: 1 s and 30 s.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// Most bytes of an answer that are read. Default: 64 KiB.
const ANSWER_BYTES_MAX: u64 = 64 << 10;

/// The settings of an export, checked.
#[derive(Clone, Debug)]
pub struct Target {
    /// The address of the collector, without the last part of the path.
    pub(crate) url: String,
    /// The share of the batches without a trace context that are sampled, of 1.
    pub(crate) ratio: f64,
    /// The time between two exports of metrics.
    pub(crate) interval: Duration,
    /// Most spans that wait for their export.
    pub(crate) spans_max: usize,
}

impl Target {
    /// Checks the address of a collector.
    ///
    /// # Errors
    /// The fault, for people.
    pub(crate) fn check_url(url: &str) -> Result<String, &'static str> {
        let uri: Uri = url.parse().map_err(|_| "it is no URL")?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) {
            return Err("write http://host:4318 or https://host:4318");
        }
        let authority = uri.authority().filter(|authority| !authority.host().is_empty());
        let authority = authority.ok_or("the host is missing")?;
        if authority.as_str().contains('@') {
            return Err("a user cannot be given");
        }
        if uri.query().is_some() {
            return Err("it has a query");
        }
        Ok(url.trim_end_matches('/').to_owned())
    }
}

/// The counts of an export at some moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// Spans that the collector has accepted.
    pub sent: u64,
    /// Spans that it has refused.
    pub refused: u64,
    /// Spans whose request failed.
    pub failed: u64,
    /// Spans for which the queue had no room.
    pub dropped: u64,
    /// Requests that went well.
    pub exports: u64,
    /// Requests that failed.
    pub exports_failed: u64,
}

/// The reason why a request failed.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error(transparent)]
    Http(#[from] ureq::Error),
    #[error("the collector answers with status {0}")]
    Status(u16),
    #[error("the answer of the collector is malformed: {0}")]
    Answer(#[from] prost::DecodeError),
}

/// The export of a server, until dropped.
#[derive(Debug)]
pub(crate) struct Exporter {
    tracer: Arc<Tracer>,
    ended: Arc<(Mutex<bool>, Condvar)>,
}

/// The function that measures the server; none when it has gone.
type Measure = Box<dyn Fn() -> Option<Measured> + Send>;

/// The work of the thread.
struct Sending {
    agent: Agent,
    target: Target,
    tracer: Arc<Tracer>,
    origin: Origin,
    measure: Measure,
    /// The pause after the next failure.
    pause: Duration,
    /// True since a failure was logged.
    told: bool,
}

impl Exporter {
    /// Starts the export.
    ///
    /// # Errors
    /// There is no thread, or no random number.
    pub(crate) fn start(target: Target, tracer: Arc<Tracer>, measure: Measure) -> std::io::Result<Exporter> {
        let ended: Arc<(Mutex<bool>, Condvar)> = Arc::default();
        let tells = ended.clone();
        let mut sending = Sending {
            agent: agent(&target.url),
            origin: Origin::new(tracer.instance(), SystemTime::now()),
            target,
            tracer: tracer.clone(),
            measure,
            pause: PAUSE,
            told: false,
        };
        std::thread::Builder::new().name("bifrost-otlp".to_owned()).spawn(move || {
            sending.run();
            drop(sending);
            *tells.0.lock() = true;
            tells.1.notify_all();
        })?;
        Ok(Exporter { tracer, ended })
    }
}

impl Drop for Exporter {
    /// Has the last spans and metrics sent. A request that takes too long is left alone.
    fn drop(&mut self) {
        self.tracer.stop();
        let until = Instant::now() + STOP_WITHIN;
        let (ended, changed) = &*self.ended;
        let mut ended = ended.lock();
        while !*ended && !changed.wait_until(&mut ended, until).timed_out() {}
    }
}

/// Makes the client of HTTP.
fn agent(url: &str) -> Agent {
    let config = Agent::config_builder()
        .timeout_global(Some(REQUEST_WITHIN))
        .http_status_as_error(false)
        .max_redirects(0)
        .user_agent(concat!("bifrost/", env!("CARGO_PKG_VERSION")));
    let config = match url.starts_with("https:") {
        true => {
            let means = bifrost_transport::tls_means();
            let authorities = means.authorities.iter().map(|der| Certificate::from_der(der).to_owned());
            let tls = TlsConfig::builder()
                .unversioned_rustls_crypto_provider(means.provider)
                .root_certs(RootCerts::from(authorities.collect::<Vec<_>>()));
            config.tls_config(tls.build())
        }
        false => config,
    };
    config.build().new_agent()
}

impl Sending {
    /// Sends until the server stops.
    fn run(&mut self) {
        let mut metrics_at = Instant::now() + self.target.interval;
        loop {
            let (spans, stopping) = self.tracer.take(metrics_at);
            let mut good = spans.is_empty() || self.send_spans(&spans);
            if good && (Instant::now() >= metrics_at || (stopping && spans.is_empty())) {
                good = self.send_metrics();
                metrics_at = Instant::now() + self.target.interval;
            }
            if stopping && (!good || spans.is_empty()) {
                return;
            }
            if !good {
                self.tracer.pause(Instant::now() + self.pause);
                self.pause = (self.pause * 2).min(PAUSE_MAX);
            }
        }
    }

    /// Sends spans. True if the collector has answered.
    fn send_spans(&mut self, spans: &[BatchSpan]) -> bool {
        let request = messages::spans(&self.origin, spans);
        let answer = self.post("v1/traces", &request.encode_to_vec());
        let answer = answer.and_then(|answer| Ok(ExportTraceServiceResponse::decode(answer.as_slice())?));
        let count = spans.len() as u64;
        let counts = self.tracer.counts();
        match &answer {
            Ok(answer) => {
                let refused = answer.partial_success.as_ref().map_or(0, |partial| partial.rejected_spans);
                let refused = u64::try_from(refused).unwrap_or(0).min(count);
                counts.sent.add(count - refused);
                counts.refused.add(refused);
            }
            Err(_) => counts.failed.add(count),
        }
        self.note(answer.map(|_| ()))
    }

    /// Sends the metrics of this moment. True if the collector has answered.
    fn send_metrics(&mut self) -> bool {
        let Some(measured) = (self.measure)() else { return true };
        let request = messages::metrics(&self.origin, &families(&measured), SystemTime::now());
        let answer = self.post("v1/metrics", &request.encode_to_vec());
        let answer = answer.and_then(|answer| Ok(ExportMetricsServiceResponse::decode(answer.as_slice())?));
        self.note(answer.map(|_| ()))
    }

    fn post(&self, path: &str, body: &[u8]) -> Result<Vec<u8>, Trouble> {
        let url = format!("{}/{path}", self.target.url);
        let request = self.agent.post(&url).header("Content-Type", "application/x-protobuf");
        let mut response = request.send(body)?;
        let status = response.status();
        if !status.is_success() {
            return Err(Trouble::Status(status.as_u16()));
        }
        Ok(response.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec()?)
    }

    /// Counts a request, and logs the first one that fails, and the next one that does not.
    fn note(&mut self, done: Result<(), Trouble>) -> bool {
        let counts = self.tracer.counts();
        match &done {
            Ok(()) => {
                counts.exports.add(1);
                if std::mem::take(&mut self.told) {
                    tracing::info!(url = self.target.url, "otlp.restored");
                }
                self.pause = PAUSE;
            }
            Err(error) => {
                counts.exports_failed.add(1);
                if !std::mem::replace(&mut self.told, true) {
                    tracing::warn!(url = self.target.url, %error, "otlp.failed: tried again until it works");
                }
            }
        }
        done.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_collectors_are_checked() {
        for (url, kept) in [
            ("http://localhost:4318", "http://localhost:4318"),
            ("https://otel.example/base/", "https://otel.example/base"),
            ("http://[::1]:4318/", "http://[::1]:4318"),
        ] {
            assert_eq!(Target::check_url(url), Ok(kept.to_owned()));
        }
        for wrong in [
            "",
            "localhost",
            "localhost:4318",
            "/x",
            "tcp://localhost:4318",
            "http://",
            "http://a:b@c",
            "http://a/?x=1",
            "http://a b",
        ] {
            assert!(Target::check_url(wrong).is_err(), "{wrong}");
        }
    }
}
