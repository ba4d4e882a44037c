//! Packets on their way out: a buffer for each node, in which they are written and wait until they
//! go together.

use crate::between::packet::{LENGTH_BYTES, WAITER};
use crate::between::remote::{Open, PACKET_BYTES, POST_BYTES, ROOM_BYTES, Remote, SPARE_MAX, Writing};
use crate::object::Outgoing;

impl Remote {
    pub(super) fn packets(&mut self, node: u32) -> &mut Vec<u8> {
        self.close_outlet();
        match self.outbox.get_mut(node as usize) {
            Some(packets) => packets,
            None => self.to_guests.entry(node).or_default(),
        }
    }

    /// Begins a packet in the buffer from which it leaves. Nothing else goes to the node until its
    /// end.
    #[inline]
    pub(crate) fn begin<const N: usize>(&mut self, node: u32, kind: u8, numbers: [u32; N]) -> Writing {
        debug_assert!(self.open.is_none(), "what goes to a node is settled before the next");
        let mut packets = std::mem::take(self.packets(node));
        if packets.capacity() == 0 {
            packets = self.spare.pop().unwrap_or_else(|| Vec::with_capacity(ROOM_BYTES));
        }
        let start = packets.len();
        packets.reserve(LENGTH_BYTES + PACKET_BYTES);
        packets.extend_from_slice(&[0; LENGTH_BYTES]);
        packets.push(kind);
        packets.extend_from_slice(numbers.map(u32::to_le_bytes).as_flattened());
        Writing { node, packets, start }
    }

    /// Ends the bytes of a packet. Returns its place among those for its node.
    #[inline]
    fn close(&mut self, mut writing: Writing) -> usize {
        let start = writing.start;
        let length = writing.packets.len() - start - LENGTH_BYTES;
        writing.packets[start..start + LENGTH_BYTES].copy_from_slice(&(length as u32).to_le_bytes());
        self.put_back(writing);
        start
    }

    fn put_back(&mut self, writing: Writing) {
        let packets = self.packets(writing.node);
        debug_assert!(packets.is_empty(), "nothing goes to a node while a packet to it is written");
        *packets = writing.packets;
    }

    /// Drops a packet that is being written.
    pub(crate) fn drop_packet(&mut self, mut writing: Writing) {
        writing.packets.truncate(writing.start);
        self.put_back(writing);
    }

    /// Ends a packet, which can go.
    #[inline]
    pub(crate) fn end(&mut self, writing: Writing) {
        let node = writing.node;
        self.close(writing);
        self.added(node);
    }

    /// Ends the packet of a request: it goes when it is known whether its answer is wanted.
    #[inline]
    pub(crate) fn leave_open(&mut self, writing: Writing, owing: Outgoing) {
        let node = writing.node;
        let start = self.close(writing);
        self.open = Some(Open { owing, node, start });
    }

    /// Sends the request that was left open, if there is one. Its answer is wanted if `owing` is
    /// the object of the request.
    #[inline]
    pub(crate) fn settle(&mut self, owing: Option<Outgoing>) {
        let Some(Open { owing: made, node, start }) = self.open.take() else { return };
        if owing != Some(made) {
            self.unowed = Some(made);
        } else {
            let (index, generation) = self.export(made.word());
            let export = &mut self.exports[index as usize];
            (export.asked, export.asked_at) = (Some(node), self.looks);
            self.asked += 1;
            let waiter = [index, generation].map(u32::to_le_bytes);
            let at = start + LENGTH_BYTES + WAITER;
            self.packets(node)[at..at + size_of_val(&waiter)].copy_from_slice(waiter.as_flattened());
        }
        self.added(node);
    }

    pub(crate) fn post(&mut self, node: u32, packet: &[u8]) {
        if self.is_lost(node) {
            return;
        }
        let packets = self.packets(node);
        packets.extend_from_slice(&(packet.len() as u32).to_le_bytes());
        packets.extend_from_slice(packet);
        self.added(node);
    }

    /// Hands over the packets for a node if they are many, or it has nothing to do.
    #[inline]
    fn added(&mut self, node: u32) {
        if self.open.is_some_and(|open| open.node == node) {
            return;
        }
        let gift = self.gift.take_if(|gift| *gift == node).is_some();
        let Some(network) = &mut self.network else { return };
        let idle = network.is_idle(node) || gift;
        let full = self.packets(node).len() >= POST_BYTES;
        if full || idle {
            self.tell_load(node);
        }
        if full {
            // The next packets will be as many.
            let room = self.spare.pop().unwrap_or_else(|| Vec::with_capacity(ROOM_BYTES));
            let packets = std::mem::replace(self.packets(node), room);
            if let Some(network) = &mut self.network {
                network.post(node, packets);
            }
        } else if idle {
            let packets = std::mem::take(self.packets(node));
            if let Some(network) = &mut self.network {
                network.post(node, packets);
            }
        }
    }

    /// Hands over all packets for a node.
    pub(crate) fn post_now(&mut self, node: u32) {
        let packets = std::mem::take(self.packets(node));
        if let Some(network) = self.network.as_mut().filter(|_| !packets.is_empty()) {
            network.post(node, packets);
        }
    }

    /// Keeps the buffer of packets that came, for packets to send.
    pub(crate) fn recycle(&mut self, mut packets: Vec<u8>) {
        if self.spare.len() < SPARE_MAX && (PACKET_BYTES..=2 * ROOM_BYTES).contains(&packets.capacity()) {
            packets.clear();
            self.spare.push(packets);
        }
    }

    pub(crate) fn post_all(&mut self) {
        self.release();
        self.post_unsent();
    }

    pub(super) fn post_unsent(&mut self) {
        self.settle(None);
        self.close_outlet();
        self.turns = 0;
        for node in 0..self.outbox.len() {
            if self.outbox[node].is_empty() {
                continue;
            }
            self.tell_load(node as u32);
            if let Some(network) = &mut self.network {
                network.post(node as u32, std::mem::take(&mut self.outbox[node]));
            }
        }
        let Some(network) = &mut self.network else { return };
        for (guest, packets) in self.to_guests.drain().filter(|(_, packets)| !packets.is_empty()) {
            network.post(guest, packets);
        }
    }
}
