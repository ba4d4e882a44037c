//! Bugs that are planted in `Link`, to see that the simulation finds them.

use std::cell::Cell;

use bifrost_rex::{CallState, Message};

/// A bug of a careless programmer. Each is consulted by `planted!` where it would be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Bug {
    /// A call whose session has begun to read it is told to be answered.
    AnsweredWhenRead,
    /// A call of which a part has arrived is told to have arrived.
    ArrivedInPart,
    /// STOP_SENDING counts bytes that have arrived, not those that were read.
    StopCountsArrived,
    /// Any STOP_SENDING says that the last call did not run.
    StopMeansNo,
    /// A lost connection says that the last call did not run.
    LossMeansNo,
    /// A STATE of another stream is taken.
    StateOfAnother,
    /// A STATE of an earlier call is taken.
    StateOfEarlier,
    /// A STATE of a part of the call is taken for that of the whole.
    StateOfPart,
    /// A question is asked once.
    AskedOnce,
    /// A stream whose call was answered still waits.
    WaitsForEver,
    /// The inbox has no limit.
    InboxUnlimited,
    /// The loss of a connection rings no bell.
    NoBellOnLoss,
    /// Bytes that arrive ring no bell.
    NoBellForBytes,
    /// Room to write rings no bell.
    NoBellForRoom,
    /// The end of a stream comes before its last bytes.
    EndTooEarly,
    /// Bytes of a stream that the peer takes no more are kept.
    StoppedKept,
    /// A stream that is closed does not finish.
    NeverFinished,
    /// A stream that is closed does not say how far its session has read.
    NeverStopped,
}

impl Bug {
    /// All bugs.
    pub(super) const ALL: [Bug; 18] = [
        Bug::AnsweredWhenRead,
        Bug::ArrivedInPart,
        Bug::StopCountsArrived,
        Bug::StopMeansNo,
        Bug::LossMeansNo,
        Bug::StateOfAnother,
        Bug::StateOfEarlier,
        Bug::StateOfPart,
        Bug::AskedOnce,
        Bug::WaitsForEver,
        Bug::InboxUnlimited,
        Bug::NoBellOnLoss,
        Bug::NoBellForBytes,
        Bug::NoBellForRoom,
        Bug::EndTooEarly,
        Bug::StoppedKept,
        Bug::NeverFinished,
        Bug::NeverStopped,
    ];
}

thread_local! {
    static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
}

/// Plants a bug in the worlds of this thread.
pub(super) fn plant(bug: Option<Bug>) {
    PLANTED.set(bug);
}

/// True if this bug is planted here.
pub(crate) fn is_planted(bug: Bug) -> bool {
    PLANTED.get() == Some(bug)
}

/// An answer to a question, with the planted bugs of a server that is asked.
pub(crate) fn answer(message: Message) -> Message {
    let Message::State { stream, start, end, state, before, ms } = message else { return message };
    let state = match state {
        CallState::Begun if is_planted(Bug::AnsweredWhenRead) => CallState::Answered,
        CallState::Partly if is_planted(Bug::ArrivedInPart) => CallState::Arrived,
        state => state,
    };
    Message::State { stream, start, end, state, before, ms }
}
