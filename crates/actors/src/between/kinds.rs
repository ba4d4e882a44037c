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
    GRANT = 4, "index and generation of an object of the receiver, and a node to which the sender has sent \
        its address";
    RELEASE = 5, "index and generation of an object of the receiver to which the sender no longer refers, \
        and the number of times that the sender got its address";
    SEARCH = 6, "the number of a search: the sender has made its part";
    LIVE = 7, "the number of the search; any number of times index and generation of an object of \
        the receiver that is live";
    SEARCHED = 8, "the number of the search; by node the number of LIVE sent to it, then by node the \
        number of LIVE received from it";
    SWEEP = 9, "the number of the search: objects without a LIVE can be freed";
    WANT = 10, "the number of the last search that the sender knows; requests the next one";
    TAKEN = 11, "the number of message bytes of the receiver, with their lengths, that the sender \
        acknowledges";
    WAITS = 12, "the number of the last ASK; requests that have failed since the last WAITS; the \
        [waits](#rounds-of-requests) of the sender";
    ASK = 13, "a number; 1 to request names, else 0";
    CUT = 14, "a place from 0 on; the requests of a round, each as node, index, generation";
    CUT_DONE = 15, "-";
    LOAD = 16, "the load of the sender, without the actors that the receiver has made there";
    FULL = 17, "index and generation of an actor of the sender, whose mailbox is nearly full; \
        methods whose messages are still accepted, a bit for each, in 8 bytes, the bit \
        63 for all from the 64th on";
    ROOM = 18, "index and generation of such an actor, whose mailbox is half empty again";
    WATCH = 19, "index and generation of an actor of the receiver, its class; index and generation of a \
        replier of the sender that is to be told of its end";
    UNWATCH = 20, "the same: it is not to be told any more";
    GONE = 21, "index and generation, less its low byte, of such a replier of the receiver; the reason, a string";
    MAIN_OVER = 22, "-";
    CANCEL = 23, "index and generation of a waiter that needs no answer; only to the \
        [tasks](#tasks)";
}
