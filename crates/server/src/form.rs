//! [`Form`]: the form in which a client speaks, for the bytes between its stream and its session.

use bifrost_capsule::Space;
use bifrost_session::Session;

use crate::text::TextForm;

/// The form in which the client speaks.
pub(crate) enum Form {
    Binary,
    Text(Box<TextForm>),
}

impl Form {
    /// Gives the session the bytes that have come; returns how many were used.
    pub fn handle(&mut self, space: &Space, session: &mut Session, bytes: &[u8]) -> usize {
        match self {
            Form::Text(text) => text.handle(session, &mut space.lock(), bytes),
            Form::Binary => session.handle(&mut space.lock(), bytes),
        }
    }

    /// Returns the bytes to be sent.
    pub fn output<'o>(&'o mut self, session: &'o mut Session) -> &'o [u8] {
        match self {
            Form::Text(text) => text.output(session),
            Form::Binary => session.output(),
        }
    }

    /// Forgets the bytes that were sent.
    pub fn clear_output(&mut self, session: &mut Session) {
        match self {
            Form::Text(text) => text.clear_output(),
            Form::Binary => session.clear_output(),
        }
    }

    /// True if there is work left in bytes that have come.
    pub fn has_more(&self, session: &Session) -> bool {
        match self {
            Form::Text(text) => text.has_more(),
            Form::Binary => session.has_more(),
        }
    }

    /// True if the bytes that were not used up begin a command whose rest is missing. Those of an
    /// open structure are whole commands.
    pub fn is_unfinished(&self, session: &Session, unused: usize) -> bool {
        match self {
            Form::Text(_) => unused > 0,
            Form::Binary => unused > session.scanned(),
        }
    }
}
