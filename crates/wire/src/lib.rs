//! Batches and replies as bytes and as text.
//!
//! The conversation of a client and a session, and nothing of how it travels: bytes in, bytes out,
//! no sockets, no clock, no threads. The normative text is `docs/spec/wire.md`; the tables in it
//! are written from the tables here ([`op`], [`error`], [`limit`]).
//!
//! Read [`Command`] and [`decode`] first (client to server), then [`Reply`] and [`decode_reply`]
//! (server to client). [`encode`] appends either to a buffer. [`interface::Interface`] is the
//! description that gives types, methods and routines their numbers. [`text`] is the same commands
//! for people: a layer that turns lines into the bytes of commands and replies into lines.
//!
//! Everything is a stream of little-endian 64-bit words. A command is self-delimiting, and decoding
//! one borrows from the bytes: it allocates nothing, reads nothing beyond the bytes it was given,
//! and never panics. A list or a string is believed only once its bytes are there.
//!
//! Implements the annotated batch of Zondervan 1995 (6.1) and the messages of Bogle and Liskov 1994
//! (3, 5, 7.1). Departs from both in that futures are numbered by position, so that a call does
//! not name its result.

#![forbid(unsafe_code)]

pub mod builtin;
pub mod command;
pub mod encode;
pub mod error;
pub mod ids;
pub mod interface;
pub mod json;
pub mod limit;
mod mention;
mod module;
pub mod op;
pub mod operator;
pub mod places;
pub mod profile;
pub mod reply;
pub mod text;
mod trace;
pub mod value;
mod word;

pub use command::{BatchName, Command, Decoded, Hello, decode, decode_call};
pub use error::{DecodeError, ErrorNumber, Scope};
pub use ids::{Earlier, MethodNumber, ModuleNumber, ProcedureNumber, Ref, RoutineNumber, TypeNumber};
pub use interface::{Interface, InterfaceError};
pub use limit::Limit;
pub use mention::{mention, with_names};
pub use module::ModuleRun;
pub use operator::Operator;
pub use places::{PLACES_MAX, Place, PlaceList, Places};
pub use profile::{OwnedProfile, Profile};
pub use reply::{DecodedReply, Exception, ExceptionKind, Outcome, Reply, decode_reply};
pub use trace::TraceContext;
pub use value::{Arg, Args, COMPOUND_DEPTH_MAX, Compound, OwnedCompound, OwnedValue, Value};

/// The version of the wire form that this crate speaks.
pub const VERSION: u32 = 2;

/// The digest of an interface; all zeros says "I have none".
pub type Digest = [u8; 32];

/// The longest command that a server accepts unless it is configured otherwise, in bytes.
pub const FRAME_BYTES_MAX: usize = 1 << 20;

/// The longest reply that a client accepts unless it is configured otherwise, in bytes.
pub const REPLY_BYTES_MAX: usize = 64 << 20;
