//! [`Identity`]: the proof of a stream's peer about itself.

/// The proof of a stream's peer about itself, for the decision of its rights.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Identity {
    /// No proof: a TCP connection, or a TLS connection without a certificate of the peer.
    None,
    /// A process of this machine, whose user the kernel has told.
    Local {
        /// The user.
        uid: u32,
    },
    /// A peer with a certificate, whose private key it has.
    Certificate {
        /// The names in it, as `dns:db1.example`. Empty unless an authority that is trusted here
        /// has signed the certificate.
        names: Vec<String>,
        /// The pin of its key, as `sha256-...`.
        pin: String,
    },
}
