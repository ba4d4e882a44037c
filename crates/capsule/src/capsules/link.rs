//! The connections of a capsule while a program runs: threads and a lock around the mesh.
//!
//! Read [`Links`] first: it has one [`Peer`] for each other capsule, and the [`Mesh`] that decides.
//! The bytes of a connection are in `peer.rs`, the protocol and its states are in `mesh`, and the
//! greeting that makes the connections is in `greeting.rs`.
//!
//! - A node that has packets counts them in the mesh and writes them itself ([`Links::post`]).
//! - Each peer has a thread that reads ([`Links::read`]) and hands each frame to the mesh. Readers
//!   never write packets. Over shared memory, a node that looks for mail reads, too.
//! - An event of the mesh is carried out under the lock of the mesh as far as it concerns the nodes
//!   ([`Shared`]). Connections are closed and texts printed after it ([`Links::carry_out`]).
//! - Frames of the mesh are added to the bytes of peers under the same lock, and are written by the
//!   peers' own threads. So they leave in the order in which they were true.
//!
//! Locks are taken in the order inbox, mesh, out.

use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use bifrost_transport::ReadError;
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::greeting::Joined;
use super::peer::{Inbox, Peer};
use super::{INBOX_BYTES_MAX, REPORT_MS_MAX, STALL_MS_MAX};
use crate::mesh::{
    Decoder, Entries, Event, Frame, Intake, Layout, Mesh, Numbers, Room, Told, put, put_packets,
};
use crate::shared::Shared;

/// Bytes that are read at once.
const READ_BYTES: usize = 256 << 10;

/// The reason why nothing comes any more.
const ENDED: &str = "its connection has ended";

/// The time after which a reader looks again if its capsule's nodes have taken something.
const LOOK: Duration = Duration::from_millis(1);

/// A capsule's connections with all others.
pub(crate) struct Links {
    layout: Layout,
    shared: Arc<Shared>,
    /// By number; none to itself.
    peers: Vec<Option<Peer>>,
    mesh: Mutex<Mesh>,
    /// Signals, with the lock of the mesh, that a report has come or cannot come any more.
    reported: Condvar,
    output: fn(&str),
    silence: Duration,
    /// By node of this capsule: how often it had rested when the others were told of it.
    told: Told,
    /// The number of times that it had taken something when they were told that nothing is queued
    /// behind that.
    told_no_backlog: Told,
    /// The threads that read and write, until all have ended.
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl std::fmt::Debug for Links {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Links").field("layout", &self.layout).finish_non_exhaustive()
    }
}

impl Links {
    /// Makes the links of a capsule whose nodes are `shared`.
    pub(crate) fn new(joined: Joined, shared: Arc<Shared>) -> Arc<Links> {
        let Joined { own, capsules, nodes, connections, output, silence, .. } = joined;
        let layout = Layout { own, capsules, nodes };
        let peers = (0..).zip(connections).map(|(number, connection)| Some(Peer::new(number, connection?)));
        let first = layout.nodes_of(own).start;
        Arc::new(Links {
            layout,
            shared,
            peers: peers.collect(),
            mesh: Mutex::new(Mesh::new(layout)),
            reported: Condvar::new(),
            output,
            silence,
            told: Told::new(first, nodes),
            told_no_backlog: Told::new(first, nodes),
            threads: Mutex::default(),
        })
    }

    /// Starts the threads that read and write.
    pub(crate) fn start(self: &Arc<Links>) -> std::io::Result<()> {
        for at in 0..self.peers.len() {
            if self.peers[at].is_none() {
                continue;
            }
            let (reads, writes) = (self.clone(), self.clone());
            let name = |what: &str| Builder::new().name(format!("bifrost-{what}-{at}"));
            let reader = name("from").spawn(move || reads.read(at))?;
            let writer = name("to").spawn(move || {
                if let Some(peer) = &writes.peers[at] {
                    peer.write_when_woken();
                }
            })?;
            self.threads.lock().extend([reader, writer]);
        }
        Ok(())
    }

    fn others(&self) -> impl Iterator<Item = &Peer> {
        self.peers.iter().flatten()
    }

    fn peer(&self, capsule: u32) -> Option<&Peer> {
        self.peers.get(capsule as usize)?.as_ref()
    }

    /// True if this is the capsule with `main`.
    pub(crate) fn is_first(&self) -> bool {
        self.layout.is_first()
    }

    /// True if the first capsule was lost before the end of the run.
    pub(crate) fn is_orphaned(&self) -> bool {
        self.mesh.lock().is_orphaned()
    }

    /// Sends packets of a node here, which is busy, to a node of another capsule. Waits while too
    /// much is to be written to that capsule.
    #[inline]
    pub(crate) fn post(&self, from: u32, to: u32, packets: &[u8]) {
        let Some(peer) = self.peer(self.layout.capsule_of(to)) else { return };
        if !self.mesh.lock().count_sent(peer.number) {
            return;
        }
        self.shared.take_hint(to);
        if let Err(why) = peer.write(|out| put_packets(out, from, to, packets)) {
            self.fail(peer.number, &why);
        }
    }

    /// Sends text that a program here has printed to the first capsule.
    pub(crate) fn print(&self, text: &str) {
        if let Some(first) = self.peer(0) {
            // Its reader finds out, too, that it is gone.
            let _ = first.write(|out| put(out, &Frame::Output(text)));
        }
    }

    /// Tells others of nodes that have nothing to do, of each once while that lasts.
    pub(crate) fn tell_idle(&self) {
        let resting = self.told.news(|node| self.shared.rested(node));
        self.tell_of(&resting, &Frame::Idle(Numbers::of(&resting)));
    }

    /// Tells others of nodes, if there are any.
    fn tell_of(&self, nodes: &[u8], frame: &Frame<'_>) {
        if !nodes.is_empty() {
            self.others().for_each(|peer| peer.add(|out| put(out, frame)));
        }
    }

    /// Tells others, from time to time, three things:
    ///
    /// - nodes that have nothing to do;
    /// - nodes that have nothing queued behind their present work;
    /// - the counts, while the nodes here rest, by which the first capsule finds that nothing can
    ///   happen any more.
    pub(crate) fn tick(&self) {
        self.tell_idle();
        let without_backlog = self.told_no_backlog.news(|node| self.shared.without_backlog(node));
        self.tell_of(&without_backlog, &Frame::NoBacklog(Numbers::of(&without_backlog)));
        let mut mesh = self.mesh.lock();
        // Under the lock, so that no reader counts a batch meanwhile.
        if self.shared.is_quiet() {
            let event = mesh.handle_quiet();
            self.carry_out(mesh, event, "");
        }
    }

    /// Notes that the first node has looked.
    pub(crate) fn over_was_heard(&self) {
        self.mesh.lock().handle_over_heard();
    }

    /// Carries out an event of the mesh, and sends the frames that it has made.
    fn carry_out(&self, mut mesh: MutexGuard<'_, Mesh>, event: Option<Event<'_>>, why: &str) {
        match &event {
            Some(Event::Idle(nodes)) => nodes.for_each(|node| self.shared.hint(node)),
            Some(Event::NoBacklog(nodes)) => nodes.for_each(|node| self.shared.hint_no_backlog(node)),
            Some(Event::Lost(capsule)) => self.shared.lose(self.layout.nodes_of(*capsule)),
            Some(Event::Over) => self.shared.say_over(),
            Some(Event::Stop | Event::Orphaned) => self.shared.end(),
            Some(Event::Report) => {
                self.reported.notify_all();
            }
            Some(Event::Close(_) | Event::Output(_)) | None => {}
        }
        self.transmit(&mut mesh);
        drop(mesh);
        match event {
            Some(Event::Lost(capsule)) => {
                tracing::warn!(capsule, why, "capsule.lost");
                self.close(capsule);
            }
            Some(Event::Close(capsule)) => self.close(capsule),
            Some(Event::Orphaned) => tracing::warn!(why, "capsule.orphaned"),
            Some(Event::Output(text)) => (self.output)(text),
            _ => {}
        }
    }

    /// Adds the frames of the mesh to the bytes to be written.
    fn transmit(&self, mesh: &mut Mesh) {
        while let Some((capsule, frame)) = mesh.poll_transmit() {
            if let Some(peer) = self.peer(capsule) {
                peer.add(|out| put(out, &frame));
            }
        }
    }

    /// Reads the bytes that another capsule sends, until they end.
    fn read(&self, at: usize) {
        let capsule = at as u32;
        let Some(peer) = self.peer(capsule) else { return };
        let why = loop {
            if let Err(why) = self.read_some(peer) {
                break why;
            }
        };
        let mut mesh = self.mesh.lock();
        let event = mesh.handle_end(capsule);
        self.carry_out(mesh, event, &why);
        self.reported.notify_all();
    }

    /// Waits for bytes, reads them and handles their frames. An error is the reason why nothing
    /// more comes.
    fn read_some(&self, peer: &Peer) -> Result<(), String> {
        let silent = || format!("it has sent nothing for {:?}", self.silence);
        let mut inbox = peer.inbox.lock();
        if let Some(waiter) = &peer.waiter {
            if self.drain(peer, &mut inbox)? {
                return Ok(());
            }
            let (position, reads) = (inbox.stream.position(), inbox.reads);
            drop(inbox);
            let heard = waiter.wait(position, self.silence);
            return if heard || peer.inbox.lock().reads != reads { Ok(()) } else { Err(silent()) };
        }
        let Inbox { stream, decoder, .. } = &mut *inbox;
        self.take_frames(peer.number, decoder)?;
        match stream.read(decoder.room(), READ_BYTES, self.silence) {
            Ok(0) => Err(ENDED.to_owned()),
            Ok(_) => Ok(()),
            Err(ReadError::TimedOut) => Err(silent()),
            Err(why) => Err(why.to_string()),
        }
    }

    /// Handles the frames that were sent over shared memory until now. Returns true if there were
    /// any.
    fn drain(&self, peer: &Peer, inbox: &mut Inbox) -> Result<bool, String> {
        if let Some(wrong) = inbox.wrong.take() {
            return Err(wrong);
        }
        let before = inbox.reads;
        loop {
            self.take_frames(peer.number, &mut inbox.decoder)?;
            match inbox.stream.try_read(inbox.decoder.room(), READ_BYTES) {
                Ok(Some(0)) => return Err(ENDED.to_owned()),
                Ok(Some(_)) => inbox.reads += 1,
                Ok(None) => return Ok(inbox.reads != before),
                Err(why) => return Err(why.to_string()),
            }
        }
    }

    /// Reads shared memory for a node that has nothing to do, so that no thread need be woken for
    /// it.
    pub(crate) fn look(&self) {
        // A node takes its own mail first when much waits.
        if self.shared.waiting_bytes() > INBOX_BYTES_MAX / 2 {
            return;
        }
        for peer in self.others().filter(|peer| peer.waiter.is_some()) {
            let Some(mut inbox) = peer.inbox.try_lock() else { continue };
            if let Err(wrong) = self.drain(peer, &mut inbox) {
                inbox.wrong = Some(wrong);
                // Its thread finds it.
                peer.stopper.stop();
            }
        }
    }

    /// Notes that a node will look for a while, so that peers need wake no thread; or that it has
    /// looked.
    pub(crate) fn set_looking(&self, looking: bool) {
        for waiter in self.others().filter_map(|peer| peer.waiter.as_ref()) {
            match looking {
                true => waiter.begin_look(),
                false => waiter.end_look(),
            }
        }
    }

    fn take_frames(&self, capsule: u32, decoder: &mut Decoder) -> Result<(), String> {
        while let Some(frame) = decoder.next().map_err(|wrong| wrong.to_string())? {
            if let Frame::Packets(entries) = frame {
                self.receive(capsule, entries)?;
                continue;
            }
            let why = match capsule {
                0 => "the first capsule has lost its connection",
                _ => "another capsule has lost its connection",
            };
            let mut mesh = self.mesh.lock();
            // Under the lock, so that no other reader counts a batch meanwhile.
            let is_quiet = self.shared.is_quiet();
            let event = mesh.handle_frame(capsule, frame, is_quiet).map_err(|wrong| wrong.to_string())?;
            self.carry_out(mesh, event, why);
        }
        Ok(())
    }

    /// Hands packets over to the nodes here.
    fn receive(&self, capsule: u32, entries: Entries<'_>) -> Result<(), String> {
        for (from, to, packets) in entries {
            // First, since the wait for room may be long.
            self.layout.check_batch(capsule, from, to).map_err(|wrong| wrong.to_string())?;
            self.await_room(packets.len())?;
            let mut mesh = self.mesh.lock();
            if !mesh.handle_batch(capsule, from, to).map_err(|wrong| wrong.to_string())? {
                return Ok(());
            }
            // Under the lock, so that no thread finds the batch received and nothing to do.
            self.shared.deliver(from, to, packets.to_vec());
        }
        Ok(())
    }

    /// Waits until the nodes here have taken enough of the bytes that wait for them.
    fn await_room(&self, bytes: usize) -> Result<(), String> {
        let (mut intake, mut began) = (Intake::new(), None);
        loop {
            let waiting = self.shared.waiting_bytes();
            let elapsed = began.map_or(Duration::ZERO, |began: Instant| began.elapsed());
            match intake.ask(waiting, bytes, elapsed) {
                Room::Free => return Ok(()),
                Room::Wait if !self.mesh.lock().is_over() => {}
                Room::Wait | Room::Stalled => {
                    return Err(format!(
                        "{waiting} bytes wait for the nodes here, which have read none for {STALL_MS_MAX} ms"
                    ));
                }
            }
            began = began.or_else(|| Some(Instant::now()));
            std::thread::sleep(LOOK);
        }
    }

    /// Handles a malformed packet, which a node of another capsule has sent.
    pub(crate) fn distrust(&self, node: u32, why: &str) {
        let capsule = self.layout.capsule_of(node);
        self.fail(capsule, &format!("a packet of its node {node} is malformed: {why}"));
    }

    /// Handles the failure of the link to a capsule.
    fn fail(&self, capsule: u32, why: &str) {
        let mut mesh = self.mesh.lock();
        let event = mesh.handle_failure(capsule);
        self.carry_out(mesh, event, why);
    }

    fn close(&self, capsule: u32) {
        if let Some(peer) = self.peer(capsule) {
            peer.close();
        }
    }

    /// Ends the run of all others, for the first capsule, and returns their reports.
    pub(crate) fn stop_others(&self) -> Vec<(u32, Vec<u8>)> {
        let mut mesh = self.mesh.lock();
        mesh.handle_stop();
        self.transmit(&mut mesh);
        let until = Instant::now() + Duration::from_millis(REPORT_MS_MAX);
        while mesh.awaits_reports() {
            if self.reported.wait_until(&mut mesh, until).timed_out() {
                tracing::warn!("a capsule has not reported within {REPORT_MS_MAX} ms");
                break;
            }
        }
        mesh.take_reports()
    }

    /// Sends the first capsule the report of the nodes here.
    pub(crate) fn report(&self, bytes: &[u8]) {
        if let Some(first) = self.peer(0) {
            // The first capsule does not wait for ever.
            let _ = first.write(|out| put(out, &Frame::Report(bytes)));
            first.drain();
        }
    }

    /// Ends all connections, and waits for their threads.
    pub(crate) fn close_all(&self) {
        self.mesh.lock().handle_close();
        self.others().for_each(Peer::close);
        let threads = std::mem::take(&mut *self.threads.lock());
        for thread in threads {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
    }
}
