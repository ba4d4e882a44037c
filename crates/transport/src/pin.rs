//! [`Pin`]: the name of a public key, by which a client trusts one server.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rustls::pki_types::CertificateDer;

/// The text before the digest.
const PREFIX: &str = "sha256-";

/// The SHA-256 of a public key, as `sha256-` and 43 characters of base64url.
///
/// The digest is that of the certificate's `SubjectPublicKeyInfo`. So a certificate that is renewed
/// with the same key keeps its pin.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Pin([u8; 32]);

/// The text is no [`Pin`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a pin is `sha256-` and 43 characters of base64url, as in the `ready` line of its server")]
pub struct PinError;

impl Pin {
    /// Returns the pin of a certificate's key; none if the bytes are no certificate.
    pub(crate) fn of(certificate: &CertificateDer<'_>) -> Option<Pin> {
        let parsed = webpki::EndEntityCert::try_from(certificate).ok()?;
        let digest = ring::digest::digest(&ring::digest::SHA256, &parsed.subject_public_key_info());
        Some(Pin(digest.as_ref().try_into().ok()?))
    }
}

impl fmt::Display for Pin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{PREFIX}{}", URL_SAFE_NO_PAD.encode(self.0))
    }
}

impl fmt::Debug for Pin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

impl FromStr for Pin {
    type Err = PinError;

    fn from_str(text: &str) -> Result<Pin, PinError> {
        let digest = text.strip_prefix(PREFIX).ok_or(PinError)?;
        let bytes = URL_SAFE_NO_PAD.decode(digest).map_err(|_| PinError)?;
        bytes.try_into().map(Pin).map_err(|_| PinError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pins_are_read_as_they_are_written() {
        let text = "sha256-AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";
        let pin: Pin = text.parse().unwrap();
        assert_eq!(pin.0, std::array::from_fn(|at| at as u8));
        assert_eq!(pin.to_string(), text);
    }

    #[test]
    fn other_texts_are_no_pins() {
        let texts = [
            "",
            "sha256-",
            "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8",
            "sha512-AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8",
            "sha256-AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
            "sha256-AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh",
            "sha256-+/ECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8",
        ];
        for text in texts {
            assert_eq!(text.parse::<Pin>(), Err(PinError), "{text}");
        }
    }
}
