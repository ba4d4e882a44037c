//! The address of a database, from a URL, and the encryption of its connections.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::Error;

/// The address of a database. Shown without the password.
#[derive(Clone)]
pub struct Address {
    pub(super) config: Config,
    pub(super) tls: Option<MakeRustlsConnect>,
}

/// True if the text for the place of a store names a database.
pub fn is_url(text: &str) -> bool {
    text.starts_with("postgres://") || text.starts_with("postgresql://")
}

impl FromStr for Address {
    type Err = Error;

    /// Reads `postgres://USER:PASSWORD@HOST:PORT/DATABASE?OPTIONS`, as other programs do. `sslmode`
    /// is `disable`, which is the default, or `require` or `verify-full`, which are the same here.
    /// With these the certificate must be one for the host, and signed by those in the file
    /// `sslrootcert` or by those that the system trusts.
    fn from_str(url: &str) -> Result<Address, Error> {
        // The fault is not repeated: a password that is not written as URLs want it turns up
        // anywhere.
        let wrong = || Error::Address {
            reason: "write `postgres://user@host:5432/database`; in a user's name or password, write \
                characters other than letters and digits as `%` and two digits",
        };
        let (place, query) = url.split_once('?').unwrap_or((url, ""));
        let (mut mode, mut roots, mut rest) = ("disable".to_owned(), None, Vec::new());
        for option in query.split('&').filter(|option| !option.is_empty()) {
            match option.split_once('=') {
                Some(("sslmode", value)) => mode = value.to_owned(),
                Some(("sslrootcert", value)) => {
                    roots = Some(PathBuf::from(decoded(value).ok_or_else(wrong)?))
                }
                _ => rest.push(option),
            }
        }
        let mut config = Config::from_str(&format!("{place}?{}", rest.join("&"))).map_err(|_| wrong())?;
        if !is_url(url) || config.get_hosts().is_empty() {
            return Err(wrong());
        }
        if config.get_application_name().is_none() {
            config.application_name("bifrost");
        }
        config.keepalives_idle(Duration::from_secs(10)).tcp_user_timeout(Duration::from_secs(20));
        let tls = match &mode[..] {
            "disable" => None,
            "require" | "verify-full" => Some(encryption(roots)?),
            _ => {
                let reason = "`sslmode` must be `disable`, `require` or `verify-full`: other modes do not \
                    protect the connection";
                return Err(Error::Address { reason });
            }
        };
        config.ssl_mode(if tls.is_some() { SslMode::Require } else { SslMode::Disable });
        Ok(Address { config, tls })
    }
}

/// Returns a part of a URL without its `%`.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

fn encryption(roots: Option<PathBuf>) -> Result<MakeRustlsConnect, Error> {
    let failed = |reason| Error::Address { reason };
    let mut store = rustls::RootCertStore::empty();
    match roots {
        Some(file) => {
            let unread = || failed("the certificates of `sslrootcert` cannot be read");
            for certificate in CertificateDer::pem_file_iter(&file).map_err(|_| unread())? {
                store.add(certificate.map_err(|_| unread())?).map_err(|_| unread())?;
            }
        }
        None => {
            store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    if store.is_empty() {
        return Err(failed("no certificate is trusted: set `sslrootcert=FILE`"));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|_| failed("encryption cannot be started"))?
        .with_root_certificates(store)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

impl fmt::Display for Address {
    /// Writes a URL without user, password and options.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = match self.config.get_hosts().first() {
            Some(Host::Tcp(name)) => name.clone(),
            Some(Host::Unix(path)) => path.display().to_string(),
            None => String::new(),
        };
        let port = self.config.get_ports().first().copied().unwrap_or(5432);
        write!(f, "postgres://{host}:{port}/{}", self.config.get_dbname().unwrap_or_default())
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_shown() {
        let address: Address =
            "postgres://ann:s3cret@db.example:6000/bank?connect_timeout=3".parse().unwrap();
        assert_eq!(
            format!("{address} {address:?}"),
            "postgres://db.example:6000/bank postgres://db.example:6000/bank"
        );
        assert!("postgres://".parse::<Address>().is_err());
        for url in [
            "postgres://ann:s3cret?x@db/bank",
            "postgres://ann:s3cret@db:port/bank",
            "postgres://ann:s3cret@db/bank?s3cret=1",
            "postgres://ann:s3cret@db/bank?sslmode=s3cret",
            "postgres://ann:s3cret@db/bank?sslmode=require&sslrootcert=/s3cret",
            "postgres://ann:s3cret%2@db/bank",
        ] {
            let said = match url.parse::<Address>() {
                Ok(address) => format!("{address} {address:?}"),
                Err(error) => format!("{error} {error:?}"),
            };
            assert!(!said.contains("s3cret"), "{said}");
        }
    }
}
