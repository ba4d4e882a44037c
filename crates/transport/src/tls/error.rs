//! [`TlsError`]: the reason why a TLS stream failed, and the remedy.

use rustls::{AlertDescription, CertificateError, InvalidMessage, PeerIncompatible};
use thiserror::Error;

use crate::pin::Pin;

/// The reason why a TLS stream failed. Each text says what to do.
#[derive(Clone, Debug, Error)]
pub enum TlsError {
    /// The other side's certificate has expired.
    #[error(
        "the other side's certificate expired {days} days ago: renew it there, and send that process SIGHUP"
    )]
    Expired {
        /// Whole days since then.
        days: u64,
    },
    /// The other side's certificate is not valid yet.
    #[error("the other side's certificate is not valid yet: compare the clocks of both machines")]
    NotYetValid,
    /// The server's certificate is for another host.
    #[error(
        "the server's certificate is for {names}, and not for `{host}`: connect to a name that it has, or \
         make it one with `bifrost certificate --name {host}`"
    )]
    WrongName {
        /// The host of the address.
        host: String,
        /// The names of the certificate.
        names: String,
    },
    /// No authority that is trusted here has signed the server's certificate.
    #[error(
        "no authority that is trusted here has signed the server's certificate, whose pin is {pin}: pass the \
         authority with `--ca FILE` or BIFROST_CA, or, if the server prints this pin itself, add `#{pin}` to \
         the address"
    )]
    UnknownAuthority {
        /// The pin of the certificate.
        pin: Pin,
    },
    /// The server has another key than the pin of the address.
    #[error(
        "the server has the pin {seen}, and the address asks for {expected}: another process answers there, \
         or the server has a new key; its `ready` line has the right pin"
    )]
    WrongPin {
        /// The pin of the address.
        expected: Pin,
        /// The pin of the certificate.
        seen: Pin,
    },
    /// The other side does not speak TLS.
    #[error("the other side does not speak TLS: a server that listens on `tcp://` is reached as `tcp://`")]
    NotTls,
    /// The other side has no TLS 1.3.
    #[error("the other side has no TLS 1.3, and no older version is spoken here")]
    OldVersion,
    /// The other side is another kind of TLS server.
    #[error("the other side speaks TLS, but not `bifrost/1`: is another server at this port?")]
    NotBifrost,
    /// The server asks for a certificate of the client.
    #[error("the server asks for the client's certificate: pass it with `--certificate FILE --key FILE`")]
    CertificateRequired,
    /// The other side refuses the certificate of this one.
    #[error(
        "the other side refuses this side's certificate ({alert}): it must trust the pin, or the authority \
         that has signed it"
    )]
    CertificateRefused {
        /// The other side's reason.
        alert: String,
    },
    /// The other side's certificate cannot be trusted for another reason.
    #[error("the other side's certificate cannot be used: {0}")]
    Certificate(String),
    /// The stream ended without the close of TLS. Bytes may be missing.
    #[error("the stream was cut off: the peer died, or the network has ended the connection")]
    Cut,
    /// The peer sends records without content.
    #[error("the peer has sent {limit} bytes of records without content, and that is the limit")]
    Empty {
        /// The limit.
        limit: usize,
    },
    /// Any other fault of the protocol.
    #[error("TLS failed: {0}")]
    Protocol(#[source] rustls::Error),
}

impl TlsError {
    /// Makes the error of that of rustls. `host` is the name in the address, `expected` its pin;
    /// `seen` is the pin of the peer's certificate.
    pub(crate) fn new(
        error: rustls::Error,
        host: &str,
        expected: Option<Pin>,
        seen: Option<Pin>,
    ) -> TlsError {
        match error {
            rustls::Error::InvalidCertificate(why) => TlsError::of_certificate(why, host, expected, seen),
            rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) => TlsError::NotTls,
            rustls::Error::PeerIncompatible(
                PeerIncompatible::SupportedVersionsExtensionRequired
                | PeerIncompatible::Tls13RequiredForQuic
                | PeerIncompatible::Tls12NotOffered
                | PeerIncompatible::Tls12NotOfferedOrEnabled
                | PeerIncompatible::ServerDoesNotSupportTls12Or13,
            )
            | rustls::Error::AlertReceived(AlertDescription::ProtocolVersion) => TlsError::OldVersion,
            rustls::Error::NoApplicationProtocol
            | rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol) => TlsError::NotBifrost,
            rustls::Error::NoCertificatesPresented
            | rustls::Error::AlertReceived(AlertDescription::CertificateRequired) => {
                TlsError::CertificateRequired
            }
            rustls::Error::AlertReceived(
                alert @ (AlertDescription::BadCertificate
                | AlertDescription::UnsupportedCertificate
                | AlertDescription::CertificateRevoked
                | AlertDescription::CertificateExpired
                | AlertDescription::CertificateUnknown
                | AlertDescription::UnknownCA
                | AlertDescription::DecryptError
                | AlertDescription::AccessDenied),
            ) => TlsError::CertificateRefused { alert: format!("{alert:?}") },
            other => TlsError::Protocol(other),
        }
    }

    fn of_certificate(
        why: CertificateError,
        host: &str,
        expected: Option<Pin>,
        seen: Option<Pin>,
    ) -> TlsError {
        match (why, expected, seen) {
            (CertificateError::ExpiredContext { time, not_after }, ..) => {
                TlsError::Expired { days: time.as_secs().saturating_sub(not_after.as_secs()) / 86_400 }
            }
            (CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. }, ..) => {
                TlsError::NotYetValid
            }
            (CertificateError::NotValidForNameContext { presented, .. }, ..) => {
                let names = match presented.is_empty() {
                    true => "no name".to_owned(),
                    false => presented.join(", "),
                };
                TlsError::WrongName { host: host.to_owned(), names }
            }
            (CertificateError::ApplicationVerificationFailure, Some(expected), Some(seen)) => {
                TlsError::WrongPin { expected, seen }
            }
            // The second one: an authority of the same name, with another key.
            (CertificateError::UnknownIssuer | CertificateError::BadSignature, _, Some(pin))
                if !host.is_empty() =>
            {
                TlsError::UnknownAuthority { pin }
            }
            (CertificateError::UnknownIssuer, ..) => {
                TlsError::Certificate("no authority that is trusted here has signed it".to_owned())
            }
            (other, ..) => TlsError::Certificate(other.to_string()),
        }
    }
}
