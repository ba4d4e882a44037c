//! The frames that go through a connection of two capsules, as bytes (docs/spec/capsules.md).
//!
//! Read [`Frame`], then [`Decoder`]. Bytes in, frames out: there is no I/O here, and no byte that
//! comes is trusted. `capsules/greeting.rs` and `mesh/mod.rs` decide which frames are allowed at
//! which time.
//!
//! 1. Bytes are read into [`Decoder::room`].
//! 2. [`Decoder::next`] checks the length, then the kind, then the contents, and returns a frame
//!    that borrows them.
//! 3. [`put`] and its like append frames to bytes to be written.

/// The bytes with which a connection begins.
pub(crate) const MAGIC: [u8; 8] = *b"BIFROSTC";

/// The version of the frames and of the greeting.
pub(crate) const VERSION: u32 = 1;

/// Most bytes of a frame behind its length: those of a batch of packets, whose last one may have as
/// many as a message.
pub(crate) const FRAME_BYTES_MAX: usize = bifrost_runtime::transfer::BYTES_MAX + (1 << 20);

/// Most bytes of a frame while the two sides do not know each other yet.
pub(crate) const GREETING_BYTES_MAX: usize = 64 << 10;

/// Bytes of the length of a frame.
const LENGTH_BYTES: usize = 4;

/// Bytes in front of each batch of packets: the sender, the receiver, and the number of bytes.
const ENTRY_BYTES: usize = 12;

/// Random bytes of a greeting, and the bytes that prove possession of the token.
pub(crate) type Digest = [u8; 32];

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Frame<'a> {
    /// Batches of packets between nodes.
    Packets(Entries<'a>),
    /// Nodes of the sender that have nothing to do.
    Idle(Numbers<'a>),
    /// Nodes of the sender that have nothing queued behind their present work.
    NoBacklog(Numbers<'a>),
    /// The sender's nodes have nothing to do.
    Rest(Rest),
    /// A capsule is no more.
    Lost(u32),
    /// Text that a program has printed.
    Output(&'a str),
    /// The run is over.
    Stop,
    /// The counts of the sender's nodes, in a form that the first capsule understands.
    Report(&'a [u8]),
    /// The sender is there.
    Ping,
    /// A capsule connects.
    Connect { version: u32, nonce: Digest },
    /// The listener shows that it has the token, and asks for the same.
    Challenge { version: u32, nonce: Digest, proof: Digest },
    /// The capsule that connects shows that, and introduces itself. The proof is of the last field.
    Hello { proof: Digest, body: &'a [u8] },
    /// It may take part.
    Welcome,
    /// It may not, for this reason.
    Refused(&'a str),
    /// The capsule is connected with all others.
    Ready,
}

/// The claim that a capsule has nothing to do, and the batches that it has sent and received until
/// then.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rest {
    /// By capsule: batches that went there.
    pub(crate) sent: Vec<u64>,
    /// By capsule: batches that came from there.
    pub(crate) received: Vec<u64>,
    /// A bit for each capsule that it knows to be lost.
    pub(crate) lost: u64,
}

/// Batches of packets, which were looked through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entries<'a>(&'a [u8]);

impl<'a> Iterator for Entries<'a> {
    /// The sending node, the receiving node, and the packets.
    type Item = (u32, u32, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let mut rest = self.0;
        let (from, to, bytes) = (take_u32(&mut rest)?, take_u32(&mut rest)?, take_u32(&mut rest)?);
        let (packets, behind) = rest.split_at_checked(bytes as usize)?;
        self.0 = behind;
        Some((from, to, packets))
    }
}

/// Numbers of 4 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Numbers<'a>(&'a [u8]);

impl<'a> Numbers<'a> {
    /// Makes so many numbers of 4 bytes.
    pub(crate) fn of(bytes: &'a [u8]) -> Numbers<'a> {
        Numbers(bytes)
    }
}

impl Iterator for Numbers<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        take_u32(&mut self.0)
    }
}

/// The reason why bytes are no frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Malformed {
    /// The length is more than allowed.
    #[error("a frame of {0} bytes is longer than allowed")]
    TooLong(usize),
    /// Nothing has that kind.
    #[error("{0} is not a kind of frame")]
    Kind(u8),
    /// The contents do not fill it, or do not fit.
    #[error("a frame of the kind {0} has another length than its body")]
    Length(u8),
    /// Not UTF-8.
    #[error("a text is not UTF-8")]
    Text,
    /// It does not begin as connections of capsules do.
    #[error("the connecting process is no capsule")]
    Magic,
}

macro_rules! frames {
    ($($name:ident = $kind:literal, $body:literal, $sender:literal;)*) => {
        $(#[doc = $body] const $name: u8 = $kind;)*

        /// All kinds of frames, in the order of their numbers; `docs/spec/capsules.md` has them.
        pub static FRAMES: &[FrameKind] = &[$(FrameKind {
            name: stringify!($name),
            kind: $kind,
            body: $body,
            sender: $sender,
        }),*];
    };
}

/// A row of the table of frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameKind {
    /// The name of the kind.
    pub name: &'static str,
    /// The first byte of the frame behind its length.
    pub kind: u8,
    /// The parts of the body.
    pub body: &'static str,
    /// The capsules that send it, and to which ones.
    pub sender: &'static str,
}

frames! {
    PACKETS = 1, "batches: sending node, receiving node, length, each in 4 bytes; the packets", "all";
    IDLE = 2, "idle nodes of the sender, each in 4 bytes", "all";
    REST = 3, "the lost capsules as a bit set in 8 bytes; by capsule the batches sent to it, \
        then by capsule those received from it, each in 8 bytes", "all to the first";
    LOST = 4, "a capsule in 4 bytes", "all to the first; the first to all";
    OUTPUT = 5, "text that a program has printed", "all to the first";
    STOP = 6, "-", "the first to all";
    REPORT = 7, "statistics of the nodes, as JSON", "all to the first, after STOP";
    PING = 8, "-", "all";
    NO_BACKLOG = 9, "nodes of the sender without work after their present work, each in 4 bytes", "all";
    CONNECT = 16, "the bytes `BIFROSTC`, version in 4 bytes, a nonce of 32 bytes", "the connecting side";
    CHALLENGE = 17, "version in 4 bytes, a nonce of 32 bytes, a proof of 32 bytes", "the listening side";
    HELLO = 18, "a proof of 32 bytes, and the body of the greeting", "the connecting side";
    WELCOME = 19, "-", "the listening side";
    REFUSED = 20, "the reason, as text", "the listening side";
    READY = 21, "-", "all to the first";
}

/// Takes frames out of the bytes that come.
#[derive(Debug)]
pub(crate) struct Decoder {
    bytes: Vec<u8>,
    start: usize,
    frame_bytes_max: usize,
}

impl Decoder {
    /// Makes a decoder for a connection that begins.
    pub(crate) fn new() -> Decoder {
        Decoder { bytes: Vec::new(), start: 0, frame_bytes_max: GREETING_BYTES_MAX }
    }

    /// Allows frames of any length from now on.
    pub(crate) fn trust(&mut self) {
        self.frame_bytes_max = FRAME_BYTES_MAX;
    }

    /// Returns the buffer to which bytes that come are appended.
    pub(crate) fn room(&mut self) -> &mut Vec<u8> {
        self.bytes.drain(..std::mem::take(&mut self.start));
        &mut self.bytes
    }

    /// Returns the next frame; none if more bytes must come first.
    ///
    /// # Errors
    /// [`Malformed`]; nothing that comes behind can be understood.
    pub(crate) fn next(&mut self) -> Result<Option<Frame<'_>>, Malformed> {
        let Some(mut rest) = self.bytes.get(self.start..) else { return Ok(None) };
        let Some(length) = take_u32(&mut rest) else { return Ok(None) };
        let length = length as usize;
        if length > self.frame_bytes_max {
            return Err(Malformed::TooLong(length));
        }
        let Some(frame) = rest.get(..length) else { return Ok(None) };
        self.start += LENGTH_BYTES + length;
        parse(frame).map(Some)
    }
}

fn parse(frame: &[u8]) -> Result<Frame<'_>, Malformed> {
    let (kind, mut rest) = frame.split_first().ok_or(Malformed::Length(0))?;
    let kind = *kind;
    let short = Malformed::Length(kind);
    let rest = &mut rest;
    let found = match kind {
        PACKETS => {
            let entries = Entries(std::mem::take(rest));
            let whole = entries.map(|(.., packets)| ENTRY_BYTES + packets.len()).sum::<usize>();
            return if whole == entries.0.len() { Ok(Frame::Packets(entries)) } else { Err(short) };
        }
        IDLE if rest.len() % 4 == 0 => Frame::Idle(Numbers(std::mem::take(rest))),
        NO_BACKLOG if rest.len() % 4 == 0 => Frame::NoBacklog(Numbers(std::mem::take(rest))),
        REST => {
            let lost = take_u64(rest).ok_or(short)?;
            let (words, odd) = rest.as_chunks::<8>();
            if !odd.is_empty() || words.len() % 2 != 0 {
                return Err(short);
            }
            let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
            let (sent, received) = words.split_at(words.len() / 2);
            return Ok(Frame::Rest(Rest { sent: sent.to_vec(), received: received.to_vec(), lost }));
        }
        LOST => Frame::Lost(take_u32(rest).ok_or(short)?),
        OUTPUT => Frame::Output(text(std::mem::take(rest))?),
        STOP => Frame::Stop,
        REPORT => Frame::Report(std::mem::take(rest)),
        PING => Frame::Ping,
        CONNECT => {
            if take::<8>(rest) != Some(MAGIC) {
                return Err(Malformed::Magic);
            }
            Frame::Connect { version: take_u32(rest).ok_or(short)?, nonce: take(rest).ok_or(short)? }
        }
        CHALLENGE => Frame::Challenge {
            version: take_u32(rest).ok_or(short)?,
            nonce: take(rest).ok_or(short)?,
            proof: take(rest).ok_or(short)?,
        },
        HELLO => Frame::Hello { proof: take(rest).ok_or(short)?, body: std::mem::take(rest) },
        WELCOME => Frame::Welcome,
        REFUSED => Frame::Refused(text(std::mem::take(rest))?),
        READY => Frame::Ready,
        IDLE | NO_BACKLOG => return Err(short),
        other => return Err(Malformed::Kind(other)),
    };
    if rest.is_empty() { Ok(found) } else { Err(short) }
}

fn text(bytes: &[u8]) -> Result<&str, Malformed> {
    std::str::from_utf8(bytes).map_err(|_| Malformed::Text)
}

pub(crate) fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*first)
}

pub(crate) fn take_u32(bytes: &mut &[u8]) -> Option<u32> {
    take(bytes).map(u32::from_le_bytes)
}

pub(crate) fn take_u64(bytes: &mut &[u8]) -> Option<u64> {
    take(bytes).map(u64::from_le_bytes)
}

/// Appends a frame with one batch of packets.
#[inline]
pub(crate) fn put_packets(out: &mut Vec<u8>, from: u32, to: u32, packets: &[u8]) {
    out.extend_from_slice(&((1 + ENTRY_BYTES + packets.len()) as u32).to_le_bytes());
    out.push(PACKETS);
    for number in [from, to, packets.len() as u32] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    out.extend_from_slice(packets);
}

/// Appends a frame.
pub(crate) fn put(out: &mut Vec<u8>, frame: &Frame<'_>) {
    let start = out.len();
    out.extend_from_slice(&[0; LENGTH_BYTES]);
    let mut with = |kind: u8, parts: &[&[u8]]| {
        out.push(kind);
        parts.iter().for_each(|part| out.extend_from_slice(part));
    };
    match frame {
        Frame::Packets(entries) => with(PACKETS, &[entries.0]),
        Frame::Idle(nodes) => with(IDLE, &[nodes.0]),
        Frame::NoBacklog(nodes) => with(NO_BACKLOG, &[nodes.0]),
        Frame::Rest(rest) => {
            with(REST, &[&rest.lost.to_le_bytes()]);
            for count in rest.sent.iter().chain(&rest.received) {
                out.extend_from_slice(&count.to_le_bytes());
            }
        }
        Frame::Lost(capsule) => with(LOST, &[&capsule.to_le_bytes()]),
        Frame::Output(text) => with(OUTPUT, &[text.as_bytes()]),
        Frame::Stop => with(STOP, &[]),
        Frame::Report(bytes) => with(REPORT, &[bytes]),
        Frame::Ping => with(PING, &[]),
        Frame::Connect { version, nonce } => with(CONNECT, &[&MAGIC, &version.to_le_bytes(), nonce]),
        Frame::Challenge { version, nonce, proof } => {
            with(CHALLENGE, &[&version.to_le_bytes(), nonce, proof]);
        }
        Frame::Hello { proof, body } => with(HELLO, &[proof, body]),
        Frame::Welcome => with(WELCOME, &[]),
        Frame::Refused(why) => with(REFUSED, &[why.as_bytes()]),
        Frame::Ready => with(READY, &[]),
    }
    let length = (out.len() - start - LENGTH_BYTES) as u32;
    out[start..start + LENGTH_BYTES].copy_from_slice(&length.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the frames that a decoder finds in bytes that come in pieces, as text, with the
    /// error that ends them.
    fn decoded(bytes: &[u8], pieces: usize, trusted: bool) -> Vec<String> {
        let mut decoder = Decoder::new();
        if trusted {
            decoder.trust();
        }
        let mut found = Vec::new();
        for piece in bytes.chunks(pieces.max(1)) {
            decoder.room().extend_from_slice(piece);
            loop {
                match decoder.next() {
                    Ok(Some(frame)) => found.push(format!("{frame:?}")),
                    Ok(None) => break,
                    Err(wrong) => {
                        found.push(wrong.to_string());
                        return found;
                    }
                }
            }
        }
        found
    }

    fn frames() -> Vec<Frame<'static>> {
        let rest = Rest { sent: vec![1, 0, u64::MAX], received: vec![3, 2, 1], lost: 5 };
        vec![
            Frame::Packets(Entries(&[])),
            Frame::Packets(Entries(b"\x01\0\0\0\x02\0\0\0\x03\0\0\0abc\x01\0\0\0\x02\0\0\0\0\0\0\0")),
            Frame::Idle(Numbers(&[1, 0, 0, 0])),
            Frame::NoBacklog(Numbers(&[1, 0, 0, 0, 2, 0, 0, 0])),
            Frame::Rest(rest),
            Frame::Lost(7),
            Frame::Output("a line\n"),
            Frame::Stop,
            Frame::Report(b"what"),
            Frame::Ping,
            Frame::Connect { version: 1, nonce: [3; 32] },
            Frame::Challenge { version: 1, nonce: [4; 32], proof: [5; 32] },
            Frame::Hello { proof: [6; 32], body: b"who" },
            Frame::Welcome,
            Frame::Refused("no"),
            Frame::Ready,
        ]
    }

    #[test]
    fn what_is_put_is_found_however_it_comes() {
        let mut bytes = Vec::new();
        frames().iter().for_each(|frame| put(&mut bytes, frame));
        let expected: Vec<String> = frames().iter().map(|frame| format!("{frame:?}")).collect();
        for pieces in [1, 2, 3, 7, 64, bytes.len()] {
            assert_eq!(decoded(&bytes, pieces, true), expected);
        }
        let mut one = Vec::new();
        put_packets(&mut one, 3, 9, b"packets");
        let mut decoder = Decoder::new();
        decoder.room().extend_from_slice(&one);
        let Ok(Some(Frame::Packets(entries))) = decoder.next() else { panic!("packets were put") };
        assert_eq!(entries.collect::<Vec<_>>(), [(3, 9, &b"packets"[..])]);
    }

    #[test]
    fn half_a_frame_is_none_yet() {
        for frame in frames() {
            let mut bytes = Vec::new();
            put(&mut bytes, &frame);
            for length in 0..bytes.len() {
                assert!(decoded(&bytes[..length], 1, true).is_empty(), "{frame:?}");
            }
        }
    }

    #[test]
    fn what_is_none_says_why() {
        let table: [(&[u8], &str); 10] = [
            (&[0, 0, 0, 0], "of the kind 0"),
            (&[1, 0, 0, 0, 99], "99 is not a kind of frame"),
            (&[2, 0, 0, 0, STOP, 0], "of the kind 6 has another length"),
            (&[3, 0, 0, 0, IDLE, 1, 2], "of the kind 2"),
            (&[3, 0, 0, 0, LOST, 1, 2], "of the kind 4"),
            (&[2, 0, 0, 0, OUTPUT, 0xff], "not UTF-8"),
            (&[2, 0, 0, 0, PACKETS, 1], "of the kind 1"),
            (&[10, 0, 0, 0, REST, 0, 0, 0, 0, 0, 0, 0, 0, 1], "of the kind 3"),
            (&[9, 0, 0, 0, CONNECT, b'G', b'E', b'T', b' ', b'/', b' ', b'H', b'T'], "no capsule"),
            (&[0xff, 0xff, 0xff, 0xff, 1], "longer than allowed"),
        ];
        for (bytes, said) in table {
            let found = decoded(bytes, 1, true);
            assert!(found.len() == 1 && found[0].contains(said), "{bytes:?}: {found:?}");
        }
        let long = (GREETING_BYTES_MAX as u32 + 1).to_le_bytes();
        assert_eq!(decoded(&long, 4, true), Vec::<String>::new());
        assert!(decoded(&long, 4, false)[0].contains("longer than allowed"));
    }

    proptest! {
        #[test]
        fn bytes_at_random_are_frames_or_not_the_same_however_they_come(
            bytes in proptest::collection::vec(prop_oneof![Just(0u8), 0u8..24, any::<u8>()], 0..200),
            pieces in 1usize..50,
        ) {
            prop_assert_eq!(decoded(&bytes, pieces, true), decoded(&bytes, bytes.len(), true));
        }

        #[test]
        fn frames_that_were_changed_do_no_harm(
            at in any::<prop::sample::Index>(), to in any::<u8>(), pieces in 1usize..50,
        ) {
            let mut bytes = Vec::new();
            frames().iter().for_each(|frame| put(&mut bytes, frame));
            let at = at.index(bytes.len());
            bytes[at] = to;
            prop_assert_eq!(decoded(&bytes, pieces, true), decoded(&bytes, bytes.len(), true));
        }
    }
}
