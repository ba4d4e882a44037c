//! The way on which machine code sends to another node. Behind the packets that wait to go to one
//! node there is room for more. Code that sends it messages of the past form without references
//! writes them there without a call.
//!
//! The room ends where something else must be done: packets are posted, or the sender makes way. A
//! function that reads packets which were not posted, or writes others, closes the way first
//! ([`Remote::close_outlet`]). The next such message opens it again.

use std::ptr::NonNull;
use std::sync::atomic::AtomicBool;

use bifrost_ir::MethodId;
use bifrost_runtime::abi::Word;
use bifrost_runtime::actor_layout::far;
use bifrost_runtime::node_words::Outlet;

use crate::between::kinds::MESSAGE;
use crate::between::packet::{LENGTH_BYTES, NOBODY, WAITER};
use crate::between::remote::{POST_BYTES, Remote};

/// The words of the way, at an address that machine code reads from the context.
#[derive(Debug)]
pub(crate) struct Way(NonNull<Outlet>);

// SAFETY: it owns the words, which only the thread that runs the node uses.
unsafe impl Send for Way {}

impl Default for Way {
    fn default() -> Way {
        Way(NonNull::from(Box::leak(Box::default())))
    }
}

impl Drop for Way {
    fn drop(&mut self) {
        // SAFETY: `default` has leaked the box; the context goes with its actors.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

impl Way {
    /// Returns the address of the words.
    pub(crate) fn address(&self) -> *mut Outlet {
        self.0.as_ptr()
    }

    #[inline]
    fn get(&self) -> Outlet {
        // SAFETY: the words live as long as this, and machine code does not run now.
        unsafe { self.0.read() }
    }

    fn set(&mut self, to: Outlet) {
        // SAFETY: as in `get`.
        unsafe { self.0.write(to) };
    }
}

/// The head of each packet of a message that nobody awaits, without the actor, as machine code
/// writes it.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// The first four bytes.
    pub length: u32,
    /// The fifth.
    pub kind: u8,
    /// The class and the method, behind the actor's index and generation.
    pub method: [u32; 2],
    /// The place of the waiter, behind that: no waiter.
    pub nobody: [u32; 2],
}

impl Packet {
    /// The offset of the kind.
    pub const KIND: i32 = LENGTH_BYTES as i32;
    /// The offset of the actor's index.
    pub const INDEX: i32 = Packet::GENERATION - 4;
    /// The offset of its generation.
    pub const GENERATION: i32 = Packet::METHOD - 4;
    /// The offset of the class and the method.
    pub const METHOD: i32 = Packet::NOBODY - 8;
    /// The offset of the waiter.
    pub const NOBODY: i32 = (LENGTH_BYTES + WAITER) as i32;
    /// The offset of the arguments, eight bytes for each.
    pub const ARGS: i32 = Packet::NOBODY + 8;
    /// The field of an actor of another node with the node, in its upper half, and the index.
    pub const PLACE: usize = far::PLACE;
    /// The field with the generation.
    pub const OF: usize = far::GENERATION;

    /// Makes the head of messages for a method of a class with so many arguments, none of which is
    /// a reference.
    pub fn new(class: bifrost_ir::TypeId, method: MethodId, args: usize) -> Packet {
        Packet {
            length: (Packet::ARGS as usize + 8 * args - LENGTH_BYTES) as u32,
            kind: MESSAGE,
            method: [class.as_u32(), method.as_u32()],
            nobody: [NOBODY; 2],
        }
    }

    /// Returns the number of bytes of a packet.
    pub fn bytes(&self) -> usize {
        LENGTH_BYTES + self.length as usize
    }
}

impl Remote {
    /// Opens the way to a node to which a packet was just sent, and to which no packet is under
    /// construction.
    pub(crate) fn open_outlet(&mut self, node: u32) {
        self.close_outlet();
        let Some(idle) = self.network.as_mut().and_then(|network| network.idleness(node)) else { return };
        let left = self.credit.left(node);
        let Some(packets) = self.outbox.get_mut(node as usize) else { return };
        let room = packets.capacity().min(POST_BYTES).saturating_sub(packets.len()).min(left);
        if room == 0 {
            return;
        }
        let next = packets.as_mut_ptr() as Word + packets.len() as Word;
        let idle = std::ptr::from_ref::<AtomicBool>(idle) as Word;
        self.outlet.set(Outlet { next, end: next + room as Word, node: Word::from(node), idle });
    }

    /// Closes the way: the packets that went that way are among those for their node now, and
    /// counted.
    #[inline]
    pub(crate) fn close_outlet(&mut self) {
        if self.outlet.get().next != 0 {
            self.close_open_outlet();
        }
    }

    fn close_open_outlet(&mut self) {
        let Outlet { next, node, .. } = self.outlet.get();
        self.outlet.set(Outlet::default());
        let node = node as u32;
        let packets = &mut self.outbox[node as usize];
        let length = next as usize - packets.as_ptr() as usize;
        let written = length - packets.len();
        debug_assert!(length <= packets.capacity(), "machine code writes where there is room");
        // SAFETY: nothing has touched the packets since the way was opened, at their end and for no
        // more than there is room; machine code has written all up to `next`.
        unsafe { packets.set_len(length) };
        if written > 0 {
            let windows = self.credit.sent(node, written);
            debug_assert_eq!(windows, 0, "the way ends before anybody must make way");
        }
    }
}
