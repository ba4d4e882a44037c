//! [`Identity`]: the peer of a stream, as the transport vouches for it.
//!
//! A claim of the peer itself, such as a token, is no identity: it is in the bytes.

use std::os::fd::AsFd;

use rustix::net::sockopt;

/// The identity of a peer, established by the kernel or by a handshake.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Identity {
    /// None: anybody who reaches the address.
    #[default]
    None,
    /// A process of this machine, by its effective user at the time when it connected.
    Local {
        /// The number of the user.
        uid: u32,
    },
    /// The holder of the key of a certificate that was checked.
    Certificate {
        /// The names in the certificate.
        names: Vec<String>,
        /// The pin of its public key: BASE64URL of SHA-256.
        pin: String,
    },
}

impl Identity {
    /// Returns the identity of the process at the other end of a unix socket.
    pub(crate) fn of_process(socket: impl AsFd) -> Identity {
        match sockopt::socket_peercred(socket) {
            Ok(peer) => Identity::Local { uid: peer.uid.as_raw() },
            Err(_) => Identity::None,
        }
    }
}
