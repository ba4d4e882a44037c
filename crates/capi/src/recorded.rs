//! The types of the recorder, with the place of a call as C has it.

use crate::abi::Place;

/// The reason why a stub has no result.
pub(crate) type Error = bifrost_recorder::Error<Place>;

/// The recorder of a session.
pub(crate) type Recorder = bifrost_recorder::Recorder<Place>;
