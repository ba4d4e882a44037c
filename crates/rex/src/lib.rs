//! REX, the request protocol of the ANSA testbench (004 sections 2 and 4), on the streams of QUIC.
//!
//! QUIC carries the bytes: it numbers packets, repeats those that are lost, and encrypts. REX adds
//! the part that knows of **calls**: a client that waits asks, the server answers with the state of
//! the call, and a call that was lost tells whether it ran.
//!
//! | part | for | type to read first |
//! | --- | --- | --- |
//! | [`call`] | states of calls, whether they ran | [`CallState`], [`Ran`] |
//! | [`asking`] | a client that waits for the answer | [`Asking`] |
//! | [`serving`] | a server that is asked | [`Serving`] |
//! | [`message`] | the bytes of questions and answers | [`Message`] |
//!
//! A call is a range of bytes of a stream: those that were written between two flushes. So REX
//! frames nothing, and its messages name offsets. They are datagrams of QUIC (RFC 9221), which may
//! be lost: a client that still waits asks again.
//!
//! There is no input or output here, and no clock: times in microseconds are arguments.
//! `docs/spec/rex.md` is the specification, `docs/internals/rex.md` has the reasons and figures.

#![forbid(unsafe_code)]

pub mod asking;
pub mod call;
pub mod message;
pub mod serving;
mod time;

pub use asking::{Asking, Trip};
pub use call::{Call, CallState, Ran};
pub use message::Message;
pub use serving::Serving;
pub use time::Micros;
