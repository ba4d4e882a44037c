//! A client of HTTP, as an example of natives that block: they are methods of a native actor.

use std::time::{Duration, Instant};

use ureq::http::Uri;
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, Body};

use crate::{Bytes, Registry, Signals, Struct, Task, Text, theta_actor};

/// Most bytes of an answer that are taken.
pub const ANSWER_BYTES_MAX: u64 = 16 << 20;

/// Most time of a request, if its batch has no less.
pub const REQUEST_TIME_MAX: Duration = Duration::from_secs(30);

/// The hosts that programs reach by `std.http`. Without this setting, or with no hosts, none.
///
/// A host is `example.com`, for its usual ports, or with a port as `localhost:8080`;
/// `*.example.com` are all below it.
#[derive(Clone, Debug, Default)]
pub struct HttpHosts(pub Vec<String>);

impl HttpHosts {
    /// Returns true if the host of a URL is allowed.
    fn allows(&self, uri: &Uri) -> bool {
        let Some(host) = uri.host() else { return false };
        let usual = match uri.scheme_str() {
            Some("http") => 80,
            Some("https") => 443,
            _ => return false,
        };
        let port = uri.port_u16().unwrap_or(usual);
        self.0.iter().any(|allowed| {
            let (name, wanted) = match allowed.rsplit_once(':') {
                Some((name, digits)) if !digits.ends_with(']') => (name, digits.parse().ok()),
                _ => (allowed.as_str(), Some(usual)),
            };
            let same = match name.strip_prefix("*.") {
                None => host.eq_ignore_ascii_case(name),
                Some(above) => {
                    let below = host.len().checked_sub(above.len() + 1);
                    below.is_some_and(|at| {
                        at > 0
                            && host.as_bytes()[at] == b'.'
                            && host.get(at + 1..).is_some_and(|rest| rest.eq_ignore_ascii_case(above))
                    })
                }
            };
            same && wanted == Some(port)
        })
    }
}

/// Adds the actor.
pub(super) fn add_to(registry: Registry) -> Registry {
    registry.with_actor::<Http>().with_text("std/http.theta", include_str!("../../theta/std/http.theta"))
}

/// `std.Http`: requests to the hosts that are allowed.
#[derive(Debug)]
pub struct Http {
    agent: Agent,
    hosts: HttpHosts,
}

/// The answer to a request.
#[derive(Debug, Struct)]
struct Answer {
    status: i64,
    kind: Text,
    body: Bytes,
}

/// The exceptions of a request.
#[derive(Signals)]
enum HttpSignal {
    Refused(Text),
    NotPossible(Text),
}

fn not_possible(why: impl ToString) -> HttpSignal {
    HttpSignal::NotPossible(Text::from(why.to_string()))
}

#[theta_actor("std::Http", concurrency = 0)]
impl Http {
    fn new(task: &Task) -> Http {
        let means = bifrost_transport::tls_means();
        let authorities = means.authorities.iter().map(|der| Certificate::from_der(der).to_owned());
        let tls = TlsConfig::builder()
            .unversioned_rustls_crypto_provider(means.provider)
            .root_certs(RootCerts::from(authorities.collect::<Vec<_>>()));
        let config = Agent::config_builder()
            // An answer of another host is not asked for: the program follows, if it may.
            .max_redirects(0)
            .http_status_as_error(false)
            .tls_config(tls.build());
        Http { agent: config.build().new_agent(), hosts: task.settings().unwrap_or_default() }
    }

    fn get(&self, task: &Task, url: &str) -> Result<Answer, HttpSignal> {
        let url = self.checked(url)?;
        let request = self.agent.get(&url).config().timeout_global(Some(time(task))).build();
        answer(request.call())
    }

    fn post(&self, task: &Task, url: &str, kind: &str, body: &[u8]) -> Result<Answer, HttpSignal> {
        let url = self.checked(url)?;
        let request = self.agent.post(&url).config().timeout_global(Some(time(task))).build();
        answer(request.content_type(kind).send(body))
    }

    /// Returns a URL whose host is allowed.
    fn checked(&self, url: &str) -> Result<Uri, HttpSignal> {
        let uri: Uri = url.parse().map_err(|_| not_possible(format_args!("`{url}` is not a URL")))?;
        match self.hosts.allows(&uri) {
            true => Ok(uri),
            false => {
                let host = uri.authority().map_or(url, |authority| authority.as_str());
                let text = format!("`{host}` is not among the hosts of --allow-http");
                Err(HttpSignal::Refused(Text::from(text)))
            }
        }
    }
}

/// Returns the time for a request.
fn time(task: &Task) -> Duration {
    let left = task.deadline().map(|deadline| deadline.saturating_duration_since(Instant::now()));
    left.map_or(REQUEST_TIME_MAX, |left| left.min(REQUEST_TIME_MAX)).max(Duration::from_millis(1))
}

fn answer(response: Result<ureq::http::Response<Body>, ureq::Error>) -> Result<Answer, HttpSignal> {
    let mut response = response.map_err(not_possible)?;
    let kind = response.headers().get("content-type").and_then(|kind| kind.to_str().ok());
    let kind = Text::from(kind.unwrap_or_default());
    let status = i64::from(response.status().as_u16());
    let body = response.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec();
    Ok(Answer { status, kind, body: Bytes::from(body.map_err(not_possible)?) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_allowed_by_name_and_port() {
        let hosts = ["example.com", "*.b.org", "localhost:8080", "[::1]:9"].map(str::to_owned);
        let hosts = HttpHosts(hosts.into());
        let allows = |url: &str| hosts.allows(&url.parse().unwrap());
        for url in ["https://example.com/x", "http://EXAMPLE.com", "http://a.b.org/", "http://x.y.b.org"] {
            assert!(allows(url), "{url}");
        }
        assert!(allows("http://localhost:8080/") && allows("http://[::1]:9/"));
        for url in [
            "http://example.com:8080",
            "http://evil-example.com",
            "http://example.com.evil.org",
            "http://b.org",
            "http://xb.org",
            "http://localhost",
            "ftp://example.com",
            "http://[::1]/",
            "/x",
        ] {
            assert!(!allows(url), "{url}");
        }
        assert!(!HttpHosts::default().allows(&"http://example.com".parse().unwrap()));
    }
}
