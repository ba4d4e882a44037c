//! The connections of a capsule while a program runs.
//!
//! Read [`Links`] first: it has one [`Peer`] for each other capsule. The frames are in `frame.rs`,
//! and the greeting that makes the connections is in `greeting.rs`.
//!
//! - A node that has packets writes them itself ([`Links::post`]). If another thread writes at that
//!   moment, that one takes them along.
//! - Each peer has a thread that writes the rest, and a thread that reads ([`Links::read`]).
//!   Readers never write packets. Over shared memory, a node that looks for mail reads, too.
//! - [`Counts`] are the batches sent and received, by which the end of the run is found.
//! - A peer whose connection ends, that is silent, or that sends a wrong frame is lost
//!   ([`Links::strike`]). A connection that ends after the run is over is no loss.
//!
//! The lock of [`Out`] guards the bytes to be written, that of [`Inbox`] the bytes read. The state
//! of the nodes is [`Shared`].

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use bifrost_transport::{ReadError, StreamReading, StreamStopper, StreamWaiter, StreamWriting};
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::frame::{Decoder, Entries, Frame, Numbers, Rest, put, put_packets};
use super::greeting::{Connection, Joined};
use super::{
    INBOX_BYTES_MAX, PING_MS, QUEUE_BYTES_MAX, REPORT_BYTES_MAX, REPORT_MS_MAX, STALL_MS_MAX, WRITE_MS_MAX,
};
use crate::shared::Shared;

/// Bytes that are read at once.
const READ_BYTES: usize = 256 << 10;

/// A buffer for bytes to be written keeps at most so much room.
const KEPT_BYTES_MAX: usize = 256 << 10;

/// The reason why nothing comes any more.
const ENDED: &str = "its connection has ended";

/// The time after which a reader looks again if its capsule's nodes have taken something.
const LOOK: Duration = Duration::from_millis(1);

/// A capsule's connections with all others.
pub(crate) struct Links {
    own: u32,
    /// The number of nodes that each capsule has.
    nodes: u32,
    shared: Arc<Shared>,
    /// By number; none to itself.
    peers: Vec<Option<Peer>>,
    counts: Mutex<Counts>,
    reports: Mutex<Reports>,
    reported: Condvar,
    output: fn(&str),
    silence: Duration,
    /// By node of this capsule: how often it had rested when the others were told of it.
    told: Vec<AtomicU32>,
    /// The number of times that it had taken something when they were told that nothing is queued
    /// behind that.
    told_no_backlog: Vec<AtomicU32>,
    /// The run is over: connections that end are no losses.
    stopping: AtomicBool,
    /// The first capsule is no more.
    orphaned: AtomicBool,
    /// The threads that read and write, until all have ended.
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl std::fmt::Debug for Links {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Links")
            .field("own", &self.own)
            .field("capsules", &self.peers.len())
            .finish_non_exhaustive()
    }
}

/// The numbers of batches sent and received, and the lost capsules.
#[derive(Debug)]
struct Counts {
    now: Rest,
    /// The counts that the first capsule was told last.
    told: Option<Rest>,
    /// By capsule: the counts that it has told this one, the first.
    heard: Vec<Option<Rest>>,
    /// The first node was told that nothing can happen any more, and has not looked yet.
    over: bool,
}

/// The reports of the others at the end.
#[derive(Debug, Default)]
struct Reports {
    reports: Vec<(u32, Vec<u8>)>,
    /// Those of which nothing comes any more.
    ended: u64,
}

/// Another capsule.
#[derive(Debug)]
struct Peer {
    number: u32,
    out: Mutex<Out>,
    /// Signals bytes to the thread that writes when no other can.
    wake: Condvar,
    /// Signals that there is room again.
    room: Condvar,
    /// Locked by the thread that has set [`Out::writing`].
    stream: Mutex<StreamWriting>,
    stopper: StreamStopper,
    /// Locked by the reader: its thread, or, over shared memory, a node that looks for mail.
    inbox: Mutex<Inbox>,
    /// Over shared memory: its thread sleeps here.
    waiter: Option<StreamWaiter>,
}

/// The bytes that come from another capsule.
#[derive(Debug)]
struct Inbox {
    stream: StreamReading,
    decoder: Decoder,
    /// The number of times that something was read.
    reads: u64,
    /// A fault that a node has found, for the thread to report.
    wrong: Option<String>,
}

/// The bytes to be written to another capsule.
#[derive(Debug, Default)]
struct Out {
    bytes: Vec<u8>,
    /// A thread writes, and will write the bytes that are added meanwhile.
    writing: bool,
    closed: bool,
    /// A buffer for the next that writes.
    spare: Vec<u8>,
}

fn bit(capsule: u32) -> u64 {
    1 << capsule
}

impl Links {
    /// Makes the links of a capsule whose nodes are `shared`.
    pub(crate) fn new(joined: Joined, shared: Arc<Shared>) -> Arc<Links> {
        let Joined { own, capsules, nodes, connections, output, silence, .. } = joined;
        let peers = (0..).zip(connections).map(|(number, connection)| {
            let connection = connection?;
            let Connection { stream, decoder } = connection;
            let stopper = stream.stopper();
            let (reading, writing) = stream.split();
            Some(Peer {
                number,
                out: Mutex::default(),
                wake: Condvar::new(),
                room: Condvar::new(),
                stopper,
                stream: Mutex::new(writing),
                waiter: reading.waiter(),
                inbox: Mutex::new(Inbox { stream: reading, decoder, reads: 0, wrong: None }),
            })
        });
        let none = vec![0; capsules as usize];
        let counts = Counts {
            now: Rest { sent: none.clone(), received: none, lost: 0 },
            told: None,
            heard: vec![None; capsules as usize],
            over: false,
        };
        Arc::new(Links {
            own,
            nodes,
            shared,
            peers: peers.collect(),
            counts: Mutex::new(counts),
            reports: Mutex::default(),
            reported: Condvar::new(),
            output,
            silence,
            told: (0..nodes).map(|_| AtomicU32::new(0)).collect(),
            told_no_backlog: (0..nodes).map(|_| AtomicU32::new(0)).collect(),
            stopping: AtomicBool::new(false),
            orphaned: AtomicBool::new(false),
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

    /// Returns the nodes of a capsule.
    fn nodes_of(&self, capsule: u32) -> Range<u32> {
        capsule * self.nodes..(capsule + 1) * self.nodes
    }

    /// True if this is the capsule with `main`.
    pub(crate) fn is_first(&self) -> bool {
        self.own == 0
    }

    /// True if the first capsule is no more.
    pub(crate) fn is_orphaned(&self) -> bool {
        self.orphaned.load(Ordering::Acquire)
    }

    /// Sends packets of a node here, which is busy, to a node of another capsule. Waits while too
    /// much is to be written to that capsule.
    #[inline]
    pub(crate) fn post(&self, from: u32, to: u32, packets: &[u8]) {
        let Some(peer) = self.peer(to / self.nodes) else { return };
        {
            let mut counts = self.counts.lock();
            if counts.now.lost & bit(peer.number) != 0 {
                return;
            }
            counts.now.sent[peer.number as usize] += 1;
        }
        self.shared.take_hint(to);
        if let Err(why) = peer.write(|out| put_packets(out, from, to, packets)) {
            self.lose(peer.number, &why);
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
        let resting = self.untold(&self.told, |node| self.shared.rested(node));
        self.tell_of(&resting, &Frame::Idle(Numbers::of(&resting)));
    }

    /// Returns the nodes here that have a count now of which the others were not told, as their
    /// numbers.
    fn untold(&self, told: &[AtomicU32], count: impl Fn(u32) -> Option<u32>) -> Vec<u8> {
        let is_new = |node: &u32| {
            count(*node).is_some_and(|count| told[*node as usize].swap(count, Ordering::Relaxed) != count)
        };
        (0..self.nodes).filter(is_new).flat_map(|node| (self.own * self.nodes + node).to_le_bytes()).collect()
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
        let without_backlog = self.untold(&self.told_no_backlog, |node| self.shared.without_backlog(node));
        self.tell_of(&without_backlog, &Frame::NoBacklog(Numbers::of(&without_backlog)));
        let mut counts = self.counts.lock();
        if !self.shared.is_quiet() {
            return;
        }
        match self.peer(0) {
            None => self.look_whether_over(&mut counts),
            Some(first) => {
                if counts.told.as_ref() != Some(&counts.now) {
                    counts.told = Some(counts.now.clone());
                    // Under the lock, so that frames arrive in the order in which they were true.
                    first.add(|out| put(out, &Frame::Rest(counts.now.clone())));
                }
            }
        }
    }

    /// Tells the first node if nothing can happen any more. All nodes here rest.
    fn look_whether_over(&self, counts: &mut MutexGuard<'_, Counts>) {
        let lost = counts.now.lost;
        let alive = |capsule: &u32| lost & bit(*capsule) == 0;
        let capsules: Vec<u32> = (0..self.peers.len() as u32).filter(alive).collect();
        let word = |capsule: u32| match capsule {
            0 => Some(&counts.now),
            other => counts.heard[other as usize].as_ref().filter(|heard| heard.lost == lost),
        };
        let agree = capsules.iter().all(|a| {
            capsules.iter().all(|b| match (word(*a), word(*b)) {
                (Some(from), Some(to)) => from.sent.get(*b as usize) == to.received.get(*a as usize),
                _ => false,
            })
        });
        if agree && !counts.over {
            counts.over = true;
            self.shared.say_over();
        }
    }

    /// Notes that the first node has looked.
    pub(crate) fn over_was_heard(&self) {
        self.counts.lock().over = false;
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
        self.lose(capsule, &why);
        let mut reports = self.reports.lock();
        reports.ended |= bit(capsule);
        self.reported.notify_all();
    }

    /// Waits for bytes, reads them and handles their frames. An error is the reason why nothing
    /// more comes.
    fn read_some(&self, peer: &Peer) -> Result<(), String> {
        let silent = || format!("it has said nothing for {:?}", self.silence);
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
            match frame {
                Frame::Packets(entries) => self.receive(capsule, entries)?,
                Frame::Idle(nodes) => {
                    self.own_nodes(capsule, nodes)?.for_each(|node| self.shared.hint(node));
                }
                Frame::NoBacklog(nodes) => {
                    self.own_nodes(capsule, nodes)?.for_each(|node| self.shared.hint_no_backlog(node));
                }
                Frame::Rest(rest) if self.is_first() => {
                    self.check_rest(&rest)?;
                    let mut counts = self.counts.lock();
                    counts.heard[capsule as usize] = Some(rest);
                    if self.shared.is_quiet() {
                        self.look_whether_over(&mut counts);
                    }
                }
                Frame::Lost(lost) if self.peer(lost).is_none() => {
                    return Err(format!("it has lost capsule {lost}, which is none that it could lose"));
                }
                Frame::Lost(lost) if self.is_first() => self.lose(lost, "another capsule has lost it"),
                Frame::Lost(lost) if capsule == 0 => {
                    self.strike(lost, "the first capsule has lost it");
                }
                Frame::Output(text) if self.is_first() => (self.output)(text),
                Frame::Stop if capsule == 0 => {
                    self.stopping.store(true, Ordering::Release);
                    self.shared.end();
                }
                Frame::Report(bytes) if self.is_first() && bytes.len() <= REPORT_BYTES_MAX => {
                    let mut reports = self.reports.lock();
                    if reports.ended & bit(capsule) == 0 {
                        reports.ended |= bit(capsule);
                        reports.reports.push((capsule, bytes.to_vec()));
                        self.reported.notify_all();
                    }
                }
                Frame::Ping => {}
                _ => return Err("it has sent what does not belong here".to_owned()),
            }
        }
        Ok(())
    }

    /// Returns the nodes in a frame of a capsule, which must be its own.
    fn own_nodes<'n>(&self, capsule: u32, nodes: Numbers<'n>) -> Result<Numbers<'n>, String> {
        let own = self.nodes_of(capsule);
        match nodes.clone().find(|node| !own.contains(node)) {
            None => Ok(nodes),
            Some(node) => Err(format!("it has spoken of node {node}, which is none of its own")),
        }
    }

    /// Refuses counts that are not those of the capsules of this run.
    fn check_rest(&self, rest: &Rest) -> Result<(), String> {
        let capsules = self.peers.len();
        let known = u64::MAX >> (64 - capsules);
        match [rest.sent.len(), rest.received.len()] == [capsules; 2] && rest.lost & !known == 0 {
            true => Ok(()),
            false => Err("it has sent counts of capsules that do not exist".to_owned()),
        }
    }

    /// Hands packets over to the nodes here.
    fn receive(&self, capsule: u32, entries: Entries<'_>) -> Result<(), String> {
        let (theirs, ours) = (self.nodes_of(capsule), self.nodes_of(self.own));
        for (from, to, packets) in entries {
            if !theirs.contains(&from) || !ours.contains(&to) {
                return Err(format!("it has sent packets from node {from} to node {to}"));
            }
            self.await_room(packets.len())?;
            let mut counts = self.counts.lock();
            if counts.now.lost & bit(capsule) != 0 {
                return Ok(());
            }
            counts.now.received[capsule as usize] += 1;
            // While the counts are locked, so that no thread finds the batch received and nothing
            // to do.
            self.shared.deliver(from, to, packets.to_vec());
        }
        Ok(())
    }

    /// Waits until the nodes here have taken enough of the bytes that wait for them.
    fn await_room(&self, bytes: usize) -> Result<(), String> {
        let mut least = usize::MAX;
        let mut since = Instant::now();
        loop {
            let waiting = self.shared.waiting_bytes();
            // A message that is larger than all that may wait is let in alone.
            if waiting == 0 || waiting.saturating_add(bytes) <= INBOX_BYTES_MAX {
                return Ok(());
            }
            if waiting < least {
                (least, since) = (waiting, Instant::now());
            }
            if since.elapsed() > Duration::from_millis(STALL_MS_MAX) || self.stopping.load(Ordering::Acquire)
            {
                return Err(format!(
                    "{waiting} bytes wait for the nodes here, which have taken none for {STALL_MS_MAX} ms"
                ));
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Handles a malformed packet, which a node of another capsule has sent.
    pub(crate) fn distrust(&self, node: u32, why: &str) {
        self.lose(node / self.nodes, &format!("a packet of its node {node} is none: {why}"));
    }

    /// Handles the loss of a capsule: the first one tells all, or is told.
    fn lose(&self, capsule: u32, why: &str) {
        if self.stopping.load(Ordering::Acquire) {
            self.close(capsule);
        } else if self.is_first() {
            if self.strike(capsule, why) {
                for peer in self.others().filter(|peer| peer.number != capsule) {
                    peer.add(|out| put(out, &Frame::Lost(capsule)));
                }
            }
        } else if capsule == 0 {
            tracing::warn!(why, "capsule.orphaned");
            self.orphaned.store(true, Ordering::Release);
            self.stopping.store(true, Ordering::Release);
            self.shared.end();
        } else {
            self.close(capsule);
            if let Some(first) = self.peer(0) {
                first.add(|out| put(out, &Frame::Lost(capsule)));
            }
        }
    }

    /// Leaves a capsule out from now on, and tells the nodes here. Returns true if it was not lost
    /// before.
    fn strike(&self, capsule: u32, why: &str) -> bool {
        if capsule == self.own || self.peer(capsule).is_none() {
            return false;
        }
        {
            let mut counts = self.counts.lock();
            if counts.now.lost & bit(capsule) != 0 {
                return false;
            }
            counts.now.lost |= bit(capsule);
            self.shared.lose(self.nodes_of(capsule));
        }
        tracing::warn!(capsule, why, "capsule.lost");
        self.close(capsule);
        true
    }

    fn close(&self, capsule: u32) {
        if let Some(peer) = self.peer(capsule) {
            peer.close();
        }
    }

    /// Ends the run of all others, for the first capsule, and returns their reports.
    pub(crate) fn stop_others(&self) -> Vec<(u32, Vec<u8>)> {
        self.stopping.store(true, Ordering::Release);
        let lost = self.counts.lock().now.lost;
        let mut awaited = 0;
        for peer in self.others().filter(|peer| lost & bit(peer.number) == 0) {
            awaited |= bit(peer.number);
            peer.add(|out| put(out, &Frame::Stop));
        }
        let until = Instant::now() + Duration::from_millis(REPORT_MS_MAX);
        let mut reports = self.reports.lock();
        while reports.ended & awaited != awaited {
            if self.reported.wait_until(&mut reports, until).timed_out() {
                tracing::warn!("a capsule has not reported within {REPORT_MS_MAX} ms");
                break;
            }
        }
        let mut reports = std::mem::take(&mut reports.reports);
        reports.sort_by_key(|(capsule, _)| *capsule);
        reports
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
        self.stopping.store(true, Ordering::Release);
        self.others().for_each(Peer::close);
        let threads = std::mem::take(&mut *self.threads.lock());
        for thread in threads {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
    }
}

impl Peer {
    /// Adds frames to the bytes to be written, for its thread to write; never waits.
    fn add(&self, frames: impl FnOnce(&mut Vec<u8>)) {
        let mut out = self.out.lock();
        if !out.closed {
            frames(&mut out.bytes);
            self.wake.notify_one();
        }
    }

    /// Adds frames and writes them. If another thread writes already, it will write these, too.
    #[inline]
    fn write(&self, frames: impl FnOnce(&mut Vec<u8>)) -> Result<(), String> {
        let mut out = self.out.lock();
        while out.bytes.len() >= QUEUE_BYTES_MAX && !out.closed {
            self.room.wait(&mut out);
        }
        if out.closed {
            return Ok(());
        }
        frames(&mut out.bytes);
        if std::mem::replace(&mut out.writing, true) {
            return Ok(());
        }
        let written = self.write_out(out);
        // Bytes that were added meanwhile are for the thread, so that no node writes for others for
        // ever.
        let mut out = self.out.lock();
        out.writing = false;
        if !out.bytes.is_empty() {
            self.wake.notify_one();
        }
        written
    }

    /// Writes all that is there. Only for the thread that has set [`Out::writing`].
    #[inline]
    fn write_out(&self, mut out: MutexGuard<'_, Out>) -> Result<(), String> {
        let spare = std::mem::take(&mut out.spare);
        let mut bytes = std::mem::replace(&mut out.bytes, spare);
        drop(out);
        self.room.notify_all();
        let written = self.stream.lock().write(&bytes, Duration::from_millis(WRITE_MS_MAX));
        if bytes.capacity() <= KEPT_BYTES_MAX {
            bytes.clear();
            self.out.lock().spare = bytes;
        }
        written.map_err(|why| why.to_string())
    }

    /// Writes the bytes that no node has written, until the connection is closed. A write that
    /// fails is one of a connection that has ended, which its reader finds.
    fn write_when_woken(&self) {
        let mut out = self.out.lock();
        while !out.closed {
            if out.bytes.is_empty() || out.writing {
                let waited = self.wake.wait_for(&mut out, Duration::from_millis(PING_MS));
                if waited.timed_out() && out.bytes.is_empty() && !out.writing {
                    put(&mut out.bytes, &Frame::Ping);
                }
                continue;
            }
            out.writing = true;
            let written = self.write_out(out);
            out = self.out.lock();
            out.writing = false;
            self.room.notify_all();
            if written.is_err() {
                self.stopper.stop();
                out.closed = true;
            }
        }
        self.room.notify_all();
    }

    /// Waits until all is written, or cannot be.
    fn drain(&self) {
        let mut out = self.out.lock();
        while (out.writing || !out.bytes.is_empty()) && !out.closed {
            self.room.wait_for(&mut out, Duration::from_millis(10));
        }
    }

    fn close(&self) {
        self.stopper.stop();
        self.out.lock().closed = true;
        self.wake.notify_all();
        self.room.notify_all();
    }
}
