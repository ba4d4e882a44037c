//! [`ConfigError`]: the faults of settings, with their remedies.

use bifrost_transport::{Address, AddressError, CertificateFileError};

use crate::claims::CLAIM_MS_MIN;
use crate::exports::ExportError;
use crate::guests::HOSTS_MAX;
use crate::origins::OriginError;
use crate::roles::RoleError;

/// The reason why the settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file, variable or flag has a value that does not fit, or an unknown name.
    #[error("the settings cannot be used: {}", list(.0))]
    Settings(#[from] Box<figment::Error>),
    /// Modules are allowed, and the program cannot run them.
    #[error("limits.modules_max: this program runs no modules: it was built without the feature `wasm`")]
    NoModules,
    /// A limit that does not exist.
    #[error("there is no limit `{name}`; the limits are {known}")]
    NoSuchLimit {
        /// The name.
        name: String,
        /// All names.
        known: String,
    },
    /// Claims of persistent actors would change hands without rest.
    #[error("the setting `claim_ms` is {0}: it is at least {CLAIM_MS_MIN}")]
    ClaimMs(u32),
    /// The server has no identity for the claims of persistent actors.
    #[error("the operating system gives no random bytes: {0}")]
    NoIdentity(#[source] std::io::Error),
    /// TCP that other machines reach, without TLS.
    #[error(
        "`{0}` can be reached from other machines, and tokens and objects would pass unencrypted: listen on \
         `{instead}://` instead, or pass `--plain-networks` if every machine of the network is trusted",
        instead = if .0.is_web() { "wss" } else { "tls" }
    )]
    PlainNetwork(Address),
    /// A text in the list of origins is none.
    #[error("the setting `websocket.origins` cannot be used: {0}")]
    Origins(#[from] OriginError),
    /// There is no certificate for `tls://`, `wss://` or `quic://`.
    #[error("`{0}` needs a certificate: set `tls.certificate` and `tls.key`")]
    NoCertificate(Address),
    /// Clients' certificates are required, and no authority is known.
    #[error("the setting `tls.required` needs `tls.clients`, the file of the authorities of clients")]
    NoAuthority,
    /// A file of certificates cannot be used.
    #[error(transparent)]
    Certificates(#[from] CertificateFileError),
    /// Metrics over shared memory, websocket or QUIC.
    #[error(
        "metrics cannot be exported on `{url}`: write `tcp://host:port`, `unix:///path` or `tls://host:port`"
    )]
    Metrics {
        /// The URL as it was written.
        url: String,
    },
    /// An export that cannot be.
    #[error("metrics and spans cannot be exported to `{url}`: {why}")]
    Otlp {
        /// The URL as it was written.
        url: String,
        /// The fault.
        why: &'static str,
    },
    /// A share that is none.
    #[error("the setting `otlp_ratio` is {0}: a share is from 0 to 1")]
    OtlpRatio(f64),
    /// An interval without an end.
    #[error("the setting `otlp_interval_ms` is 0: it is at least 1")]
    OtlpInterval,
    /// More nodes than there can be, or none.
    #[error("the setting `nodes` is {0}: a server has 1 to {HOSTS_MAX} nodes")]
    Nodes(u32),
    /// The setting for the place of objects is no place.
    #[error("the setting `store` cannot be used: {0}")]
    Store(#[from] bifrost_repository::Error),
    /// A role that cannot be used.
    #[error("[roles.{role}] in the settings: {source}")]
    Role {
        /// The name of the role.
        role: String,
        /// The fault.
        source: RoleError,
    },
    /// A setting that lets clients in without a role.
    #[error(
        "the setting `{0}` and roles exclude each other, since it lets clients in without one; a token \
         may come from BIFROST_TOKEN"
    )]
    BesideRoles(&'static str),
    /// Exports to traders.
    #[error(transparent)]
    Export(#[from] ExportError),
    /// The number of tasks.
    #[error("a server has 1 to 1024 tasks, not {0} (`tasks.threads`)")]
    Tasks(u32),
    /// The priority of a native actor.
    #[error("a priority is a number from 0 to 7 (`tasks.actors.\"{0}\".priority`)")]
    TaskPriority(String),
    /// The server was started without roles, and shall have some, or the reverse.
    #[error("roles can be changed, but not be introduced or given up, while a server runs: restart it")]
    RolesAtStart,
    /// An address that is none.
    #[error("cannot listen on `{url}`: {source}")]
    Address {
        /// The URL as it was written.
        url: String,
        /// The fault of the URL.
        source: AddressError,
    },
}

/// Lists the faults, each with its setting and where it comes from.
fn list(error: &figment::Error) -> String {
    let line = |error: figment::Error| {
        let metadata = error.metadata.as_ref();
        let place = match metadata.and_then(|m| m.source.as_ref()) {
            Some(figment::Source::File(path)) => format!("in `{}`", path.display()),
            _ if metadata.is_some_and(|m| m.name.contains("environment")) => "in the environment".to_owned(),
            _ => "on the command line".to_owned(),
        };
        let setting =
            if error.path.is_empty() { String::new() } else { format!("`{}` ", error.path.join(".")) };
        match &error.kind {
            figment::error::Kind::UnknownField(name, known) => {
                let table = match error.path.split_last() {
                    Some((last, table)) if last == name && !table.is_empty() => table,
                    Some((last, _)) if last == name => &[],
                    _ => &error.path[..],
                };
                let table =
                    if table.is_empty() { String::new() } else { format!(" in [{}]", table.join(".")) };
                format!(
                    "there is no setting `{name}`{table} ({place}); the settings are {}",
                    known.join(", ")
                )
            }
            kind => format!("{setting}{place}: {kind}"),
        }
    };
    error.clone().into_iter().map(line).collect::<Vec<_>>().join("; ")
}
