//! The failures of calls, structures and sessions, as values.
//!
//! [`Error`] is the type to read first: the failure of one stub, with the [`Place`] of its call.
//! [`Closed`](crate::Closed) is the end of a session, [`ConnectError`] the failure to open one.

use std::fmt;
use std::ops::Deref;
use std::panic::Location;

pub use bifrost_client::ConnectError;

/// The reason why a stub has no result. Cheap to clone. The account of failures that the program
/// was not told of is that of the [session](crate::Session#failures-that-were-told).
pub type Error = bifrost_recorder::Error<Place>;

/// A call, for messages.
pub type CallName = bifrost_recorder::CallName<Place>;

/// An entry of the exception history.
pub type Exception = bifrost_recorder::Exception<Place>;

/// The place of a call in the source of the program: its file and line.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Place(&'static Location<'static>);

impl Place {
    /// Returns the place that calls the function that calls this one.
    #[inline]
    #[track_caller]
    pub(crate) fn caller() -> Place {
        Place(Location::caller())
    }
}

impl Deref for Place {
    type Target = Location<'static>;

    fn deref(&self) -> &Location<'static> {
        self.0
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.0.file(), self.0.line())
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.0, f)
    }
}

const _: () = {
    // So that `?` turns it into the error types that programs use.
    const fn is_shareable<T: Send + Sync + 'static>() {}
    is_shareable::<Error>();
};
