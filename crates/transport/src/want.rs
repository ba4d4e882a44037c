//! [`Want`]: the end of a rest.

/// The end of a rest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Want {
    /// Bytes to be read.
    Bytes,
    /// Room for bytes to be written.
    Room,
    /// Nothing of the peer.
    Nothing,
}
