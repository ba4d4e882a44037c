//! [`Message`]: a question or an answer, as the bytes of a datagram.
//!
//! ```text
//! ASK     1 | stream u64 | start u64 | end u64
//! STATE   2 | stream u64 | start u64 | end u64 | state u8 | before u32 | ms u32
//! ```
//!
//! Numbers are little-endian. Bytes behind a message are ignored, so that later versions may add
//! some; a message of another kind is ignored as a whole.

use crate::call::CallState;

const ASK: u8 = 1;
const STATE: u8 = 2;

/// The bytes of the longest message.
pub const MESSAGE_BYTES_MAX: usize = 34;

/// A question or an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Message {
    /// Asks for the state of the call with the bytes from `start` to `end` of a stream.
    Ask {
        /// The number of the stream in QUIC.
        stream: u64,
        /// The offset of its first byte.
        start: u64,
        /// The offset behind its last byte.
        end: u64,
    },
    /// The state of the call with the bytes from `start` to `end` of a stream.
    State {
        /// As in the question.
        stream: u64,
        /// As in the question.
        start: u64,
        /// As in the question: the call may have grown since.
        end: u64,
        /// The state.
        state: CallState,
        /// The bytes before the call that its session has not read.
        before: u32,
        /// The milliseconds since its session began to read the call.
        ms: u32,
    },
}

impl Message {
    /// Returns its bytes.
    pub fn write(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(MESSAGE_BYTES_MAX);
        match self {
            Message::Ask { stream, start, end } => {
                bytes.push(ASK);
                [stream, start, end].into_iter().for_each(|number| bytes.extend(number.to_le_bytes()));
            }
            Message::State { stream, start, end, state, before, ms } => {
                bytes.push(STATE);
                [stream, start, end].into_iter().for_each(|number| bytes.extend(number.to_le_bytes()));
                bytes.push(state.number());
                [before, ms].into_iter().for_each(|number| bytes.extend(number.to_le_bytes()));
            }
        }
        bytes
    }

    /// Reads a message; `None` if the bytes are none.
    pub fn read(bytes: &[u8]) -> Option<Message> {
        let (kind, rest) = bytes.split_first()?;
        let long = |at: usize| Some(u64::from_le_bytes(*rest.get(at..)?.first_chunk()?));
        let word = |at: usize| Some(u32::from_le_bytes(*rest.get(at..)?.first_chunk()?));
        match *kind {
            ASK => {
                let (stream, start, end) = (long(0)?, long(8)?, long(16)?);
                (start < end).then_some(Message::Ask { stream, start, end })
            }
            STATE => {
                let state = CallState::of(*rest.get(24)?)?;
                let (stream, start, end) = (long(0)?, long(8)?, long(16)?);
                Some(Message::State { stream, start, end, state, before: word(25)?, ms: word(29)? })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_as_they_were_written() {
        let ask = Message::Ask { stream: 4, start: 7, end: u64::MAX };
        let state = Message::State {
            stream: 4,
            start: 7,
            end: 9,
            state: CallState::Begun,
            before: 1,
            ms: 0xffff_fffe,
        };
        for message in [ask, state] {
            let bytes = message.write();
            assert!(bytes.len() <= MESSAGE_BYTES_MAX);
            assert_eq!(Message::read(&bytes), Some(message));
            assert_eq!(Message::read(&[&bytes[..], b"more"].concat()), Some(message));
            assert!((0..bytes.len()).all(|cut| Message::read(&bytes[..cut]).is_none()));
        }
        // A call without bytes, states and kinds that are none.
        assert_eq!(Message::read(&Message::Ask { stream: 4, start: 7, end: 7 }.write()), None);
        let mut bytes = state.write();
        bytes[25] = 6;
        assert_eq!(Message::read(&bytes), None);
        bytes[0] = 3;
        assert_eq!(Message::read(&bytes), None);
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read(bytes in proptest::collection::vec(0_u8..4, 0..50)) {
            if let Some(message) = Message::read(&bytes) {
                let written = message.write();
                proptest::prop_assert_eq!(Message::read(&written), Some(message));
                proptest::prop_assert_eq!(&written[..], &bytes[..written.len()]);
            }
        }
    }
}
