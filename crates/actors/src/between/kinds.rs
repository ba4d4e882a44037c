//! The kinds of packets: the one table from which the code and `docs/spec/packets.md` come.
//!
//! A packet is its kind in one byte, then the parts that the table names. Numbers have 4 bytes,
//! little-endian, where the table does not say otherwise.

macro_rules! packets {
    ($($name:ident = $kind:literal, $parts:literal;)*) => {
        $(#[doc = $parts] pub(crate) const $name: u8 = $kind;)*

        /// All kinds, in the order of their numbers.
        pub static PACKETS: &[PacketKind] =
            &[$(PacketKind { name: stringify!($name), kind: $kind, parts: $parts }),*];
    };
}

/// A row of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PacketKind {
    /// The name of the kind.
    pub name: &'static str,
    /// The first byte of the packet.
    pub kind: u8,
    /// The parts behind it.
    pub parts: &'static str,
}

packets! {
    MESSAGE = 1, "index and generation of the actor, its class, the method; index and generation of \
        the waiter, or twice 2^32 - 1; the arguments";
    ANSWER = 2, "index and generation of the waiter; 0 and the result, or the number of the exception \
        + 1 and its values";
    CREATE = 3, "the index of the new actor, its class, the creator; its arguments";
    GRANT = 4, "index and generation of an object of the receiver, and a node that the sender has \
        told of it";
    RELEASE = 5, "index and generation of an object of the receiver that the sender has forgotten, and \
        how often the sender was told of it";
    SEARCH = 6, "the number of a search: the sender has made its part";
    LIVE = 7, "the number of the search; any number of times index and generation of an object of \
        the receiver that lives";
    SEARCHED = 8, "the number of the search; by node how many LIVE the sender has sent it, then by node \
        how many came from it";
    SWEEP = 9, "the number of the search: objects that were not found to live can go";
    WANT = 10, "the number of the last search that the sender has heard of, which asks for another";
    TAKEN = 11, "so many bytes of messages were taken by the sender of this, with their lengths, of \
        those that the receiver has sent to it";
    WAITS = 12, "the number of the last ASK; requests that have failed since the last WAITS; the \
        [waits](#rounds-of-requests) of the sender";
    ASK = 13, "a number; 1 if the answer is to say names, else 0";
    CUT = 14, "a place from 0 on; the requests of a round, each as node, index, generation";
    CUT_DONE = 15, "-";
    LOAD = 16, "the load of the sender, without the actors that the receiver has made there";
    FULL = 17, "index and generation of an actor of the sender, whose mailbox is nearly full; \
        methods whose messages are taken nevertheless, a bit for each, in 8 bytes, the bit \
        63 for all from the 64th on";
    ROOM = 18, "index and generation of such an actor, whose mailbox is half empty again";
}
