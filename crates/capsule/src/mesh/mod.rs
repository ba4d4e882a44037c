//! The protocol between the capsules of a run, as a state machine (docs/spec/capsules.md).
//!
//! Frames in, events and frames out. There are no sockets, threads, clocks or locks here, and no
//! nodes: the links (`capsules/link.rs`) move bytes, own the lock around a [`Mesh`], and carry out
//! its events. The greeting before a run is in `capsules/greeting.rs`.
//!
//! Read [`Mesh`] first, then [`Event`] and [`LinkState`]. [`Layout`] knows which node belongs to
//! which capsule. `frame.rs` has the bytes of frames, [`Told`] the hints that others have, and
//! [`Intake`] the bound of bytes that wait for nodes.
//!
//! # Interface
//!
//! `Mesh` has four types of methods:
//!
//! - A. getters, taking `&self`;
//! - B. handlers of incoming events, named `handle_*`, which return an event to carry out;
//! - C. [`Mesh::count_sent`], asked before packets are written: the packets themselves never come
//!   here;
//! - D. [`Mesh::poll_transmit`], which returns the frames to send. Poll it until it is empty after
//!   each call of B, under the same lock: frames must leave in the order in which they were true.
//!
//! | call | when | event | frames |
//! | --- | --- | --- | --- |
//! | `count_sent` | a node has packets for another capsule | - | - |
//! | `handle_batch` | a batch of packets came | true: deliver it | - |
//! | `handle_frame` IDLE, NO_BACKLOG | - | `Idle`, `NoBacklog` | - |
//! | `handle_frame` REST | at the first | `Over` if the counts agree | - |
//! | `handle_frame` LOST | at the first | `Lost` | LOST to the others |
//! | `handle_frame` LOST | of the first | `Lost` | - |
//! | `handle_frame` OUTPUT | at the first | `Output` | - |
//! | `handle_frame` STOP | of the first | `Stop` | - |
//! | `handle_frame` REPORT | at the first, after STOP | `Report` | - |
//! | `handle_quiet` | the nodes here rest; at times | `Over` at the first | REST to the first |
//! | `handle_over_heard` | the first node has taken `Over` | - | - |
//! | `handle_failure` | a link failed, or a peer sent a malformed frame or packet: | | |
//! | | of another capsule, at the first | `Lost` | LOST to the others |
//! | | of another capsule, elsewhere | `Close` | LOST to the first |
//! | | of the first | `Orphaned` | - |
//! | | of any, after the end of the run | `Close` | - |
//! | `handle_end` | nothing more comes from a peer | as `handle_failure` | the same |
//! | `handle_stop` | `main` has ended, at the first | - | STOP to all that live |
//! | `handle_close` | this capsule leaves the run | - | - |
//!
//! Each other frame, and each frame with numbers that are not of the run, is [`Wrong`]: its sender
//! is to be lost at once, by `handle_failure`.
//!
//! # States of a link
//!
//! ```text
//!   Open ---- failure, not at the first: LOST to the first ----> Reported
//!     |                                                              |
//!     +---- failure at the first; LOST of another, at the first;     |
//!     |     LOST of the first -------------------> Lost <--- LOST ---+
//!     |                                                              |
//!     +---- failure after the end of the run ----> Ended <- failure -+
//! ```
//!
//! A frame of a lost capsule has no effect. One of a capsule that was only reported still counts:
//! the first capsule decides about losses, so that all see the same.
//!
//! # States of the run
//!
//! ```text
//!   Running -- handle_stop, STOP of the first, handle_close --> Over
//!      +------ failure of the link to the first --------------> Orphaned
//! ```
//!
//! # The end of the run
//!
//! Counts show that nothing can happen any more (Mattern's method of channel counts):
//!
//! 1. A capsule whose nodes all rest tells the first one how many batches it has sent to each other
//!    capsule and has received from each (REST).
//! 2. The first capsule, when its own nodes rest, compares the counts of each two. When it has
//!    those of all that live, with the same set of lost ones, and they agree, nothing is under way
//!    and no node has anything to do.
//!
//! No count is taken back: if a resting node had been woken since, a batch would be missing. A lost
//! capsule is left out, with all that it has sent and received.

use std::collections::VecDeque;
use std::ops::Range;

mod frame;
mod intake;
mod told;

pub(crate) use frame::{
    Decoder, Digest, Entries, Frame, GREETING_BYTES_MAX, Numbers, Rest, VERSION, put, put_packets, take,
    take_u32,
};
pub use frame::{FRAMES, FrameKind};
pub(crate) use intake::{Intake, Room};
pub(crate) use told::Told;

/// Most capsules of a run.
pub const CAPSULES_MAX: u32 = 64;

/// With so many bytes waiting for the nodes of a capsule, nothing more is read from others.
pub const INBOX_BYTES_MAX: usize = 1 << 30;

/// If none of these was taken for so long, the capsule that sends more is given up.
pub const STALL_MS_MAX: u64 = 30_000;

/// Most bytes of a report.
pub const REPORT_BYTES_MAX: usize = 256 << 20;

/// The numbers of the capsules and nodes of a run, as one capsule sees them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Layout {
    /// The number of this capsule; the one with `main` has 0.
    pub(crate) own: u32,
    pub(crate) capsules: u32,
    /// The number of nodes that each capsule has.
    pub(crate) nodes: u32,
}

impl Layout {
    /// True if this is the capsule with `main`.
    pub(crate) fn is_first(self) -> bool {
        self.own == 0
    }

    /// Returns the nodes of a capsule.
    pub(crate) fn nodes_of(self, capsule: u32) -> Range<u32> {
        capsule * self.nodes..(capsule + 1) * self.nodes
    }

    /// Returns the capsule of a node.
    pub(crate) fn capsule_of(self, node: u32) -> u32 {
        node / self.nodes
    }

    /// True if a number is that of another capsule of the run.
    fn is_other(self, capsule: u32) -> bool {
        capsule != self.own && capsule < self.capsules
    }

    /// Refuses a batch of packets that a capsule cannot send here.
    pub(crate) fn check_batch(self, capsule: u32, from: u32, to: u32) -> Result<(), Wrong> {
        match self.nodes_of(capsule).contains(&from) && self.nodes_of(self.own).contains(&to) {
            true => Ok(()),
            false => Err(Wrong::Batch { from, to }),
        }
    }

    /// Refuses nodes that are not those of the capsule.
    fn check_nodes(self, capsule: u32, mut nodes: Numbers<'_>) -> Result<(), Wrong> {
        let own = self.nodes_of(capsule);
        nodes.find(|node| !own.contains(node)).map_or(Ok(()), |node| Err(Wrong::Node(node)))
    }

    /// Refuses counts that are not those of the capsules of this run.
    fn check_rest(self, rest: &Rest) -> Result<(), Wrong> {
        let capsules = self.capsules as usize;
        let known = u64::MAX >> (64 - capsules);
        match [rest.sent.len(), rest.received.len()] == [capsules; 2] && rest.lost & !known == 0 {
            true => Ok(()),
            false => Err(Wrong::Counts),
        }
    }
}

/// The reason why a frame is none that its sender may send now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum Wrong {
    /// Frames of this kind come from others, or at another time.
    #[error("it has sent a frame that is not allowed here")]
    Frame,
    /// The loss of a capsule that the sender cannot lose.
    #[error("it has lost capsule {0}, which cannot be lost")]
    Loss(u32),
    /// A node of another capsule, or of none.
    #[error("it has named node {0}, which is not its own")]
    Node(u32),
    /// Counts of another number of capsules.
    #[error("it has sent counts of capsules that do not exist")]
    Counts,
    /// Packets in the name of another's node, or to one.
    #[error("it has sent packets from node {from} to node {to}")]
    Batch { from: u32, to: u32 },
}

/// The state of the link to another capsule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LinkState {
    /// Frames go both ways.
    Open,
    /// It failed. The first capsule was told, and has not decided yet.
    Reported,
    /// The first capsule has decided that the other one is lost.
    Lost,
    /// It failed after the end of the run, which is no loss.
    Ended,
}

/// The state of the run, as one capsule sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Run {
    Running,
    /// Links that fail are no losses any more.
    Over,
    /// The first capsule was lost while the run was not over.
    Orphaned,
}

/// An event that the links carry out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event<'f> {
    /// Nodes of the sender have nothing to do.
    Idle(Numbers<'f>),
    /// Nodes of the sender have nothing queued behind their present work.
    NoBacklog(Numbers<'f>),
    /// A capsule is lost: tell the nodes here, and close the link to it.
    Lost(u32),
    /// The link to a capsule is to be closed; nothing else follows from it yet.
    Close(u32),
    /// The first capsule is lost: end the nodes here.
    Orphaned,
    /// Nothing can happen any more: tell the first node.
    Over,
    /// The run is over: end the nodes here.
    Stop,
    /// Print text of a program.
    Output(&'f str),
    /// A report has come, or cannot come any more.
    Report,
}

/// The state of one capsule in a run.
#[derive(Debug)]
pub(crate) struct Mesh {
    layout: Layout,
    run: Run,
    /// By capsule; that of its own number means nothing.
    links: Vec<LinkState>,
    /// The batches sent and received, and the lost capsules.
    counts: Rest,
    /// The counts that the first capsule was told last.
    told: Option<Rest>,
    /// By capsule: the counts that it has told this one, the first.
    heard: Vec<Option<Rest>>,
    /// `Over` was returned, and the first node has not looked yet.
    over: bool,
    /// Frames to send, and the receivers.
    transmits: VecDeque<(u32, Frame<'static>)>,
    /// The capsules whose reports are awaited, as a bit set.
    awaited: u64,
    /// The capsules of which nothing more comes for the reports, as a bit set.
    done: u64,
    reports: Vec<(u32, Vec<u8>)>,
}

fn bit(capsule: u32) -> u64 {
    1 << capsule
}

impl Mesh {
    /// Makes the state of a capsule that is connected with all others.
    pub(crate) fn new(layout: Layout) -> Mesh {
        let none = vec![0; layout.capsules as usize];
        Mesh {
            layout,
            run: Run::Running,
            links: vec![LinkState::Open; layout.capsules as usize],
            counts: Rest { sent: none.clone(), received: none, lost: 0 },
            told: None,
            heard: vec![None; layout.capsules as usize],
            over: false,
            transmits: VecDeque::new(),
            awaited: 0,
            done: 0,
            reports: Vec::new(),
        }
    }

    /// True if the run is over or the first capsule is lost: links that fail are no losses.
    pub(crate) fn is_over(&self) -> bool {
        self.run != Run::Running
    }

    /// True if the first capsule was lost before the end of the run.
    pub(crate) fn is_orphaned(&self) -> bool {
        self.run == Run::Orphaned
    }

    /// True if a report may still come.
    pub(crate) fn awaits_reports(&self) -> bool {
        self.done & self.awaited != self.awaited
    }

    /// Takes the reports that have come, by capsule.
    pub(crate) fn take_reports(&mut self) -> Vec<(u32, Vec<u8>)> {
        let mut reports = std::mem::take(&mut self.reports);
        reports.sort_by_key(|(capsule, _)| *capsule);
        reports
    }

    fn is_lost(&self, capsule: u32) -> bool {
        self.counts.lost & bit(capsule) != 0
    }

    /// Returns the numbers of the other capsules that are not lost.
    fn living(&self) -> impl Iterator<Item = u32> + use<> {
        let (layout, lost) = (self.layout, self.counts.lost);
        (0..layout.capsules).filter(move |capsule| *capsule != layout.own && lost & bit(*capsule) == 0)
    }

    /// Counts a batch of packets for another capsule. Returns true if it is to be sent, and false
    /// if the capsule is lost.
    #[inline]
    pub(crate) fn count_sent(&mut self, capsule: u32) -> bool {
        if self.is_lost(capsule) {
            return false;
        }
        self.counts.sent[capsule as usize] += 1;
        true
    }

    /// Counts a batch of packets that a capsule has sent from its node to one here. Returns true if
    /// it is to be delivered before the next call, and false if the capsule is lost.
    ///
    /// # Errors
    /// [`Wrong`]; nothing is counted.
    pub(crate) fn handle_batch(&mut self, capsule: u32, from: u32, to: u32) -> Result<bool, Wrong> {
        self.layout.check_batch(capsule, from, to)?;
        if self.is_lost(capsule) {
            return Ok(false);
        }
        self.counts.received[capsule as usize] += 1;
        Ok(true)
    }

    /// Handles a frame of another capsule other than PACKETS, whose batches go through
    /// [`Mesh::handle_batch`]. `is_quiet` says whether the nodes here rest now.
    ///
    /// # Errors
    /// [`Wrong`]; the sender is to be lost.
    pub(crate) fn handle_frame<'f>(
        &mut self,
        capsule: u32,
        frame: Frame<'f>,
        is_quiet: bool,
    ) -> Result<Option<Event<'f>>, Wrong> {
        if self.is_lost(capsule) {
            return Ok(None);
        }
        let is_first = self.layout.is_first();
        let event = match frame {
            Frame::Idle(nodes) => {
                self.layout.check_nodes(capsule, nodes)?;
                Event::Idle(nodes)
            }
            Frame::NoBacklog(nodes) => {
                self.layout.check_nodes(capsule, nodes)?;
                Event::NoBacklog(nodes)
            }
            Frame::Rest(rest) if is_first => {
                self.layout.check_rest(&rest)?;
                self.heard[capsule as usize] = Some(rest);
                return Ok(if is_quiet { self.look_whether_over() } else { None });
            }
            Frame::Lost(lost) if is_first || capsule == 0 => {
                if !self.layout.is_other(lost) || lost == capsule {
                    return Err(Wrong::Loss(lost));
                }
                return Ok(if is_first { self.handle_failure(lost) } else { self.strike(lost) });
            }
            Frame::Output(text) if is_first => Event::Output(text),
            Frame::Stop if capsule == 0 => {
                self.run = Run::Over;
                Event::Stop
            }
            Frame::Report(bytes) if is_first && self.is_over() && bytes.len() <= REPORT_BYTES_MAX => {
                if self.done & bit(capsule) == 0 {
                    self.reports.push((capsule, bytes.to_vec()));
                }
                self.done |= bit(capsule);
                Event::Report
            }
            Frame::Ping => return Ok(None),
            _ => return Err(Wrong::Frame),
        };
        Ok(Some(event))
    }

    /// Handles that the nodes here rest and nothing is under way to them in this process. Called
    /// from time to time, while that cannot change.
    pub(crate) fn handle_quiet(&mut self) -> Option<Event<'static>> {
        if self.layout.is_first() {
            return self.look_whether_over();
        }
        if self.told.as_ref() != Some(&self.counts) {
            self.told = Some(self.counts.clone());
            self.transmits.push_back((0, Frame::Rest(self.counts.clone())));
        }
        None
    }

    /// Compares the counts of all that live. The nodes here rest.
    fn look_whether_over(&mut self) -> Option<Event<'static>> {
        let lost = self.counts.lost;
        let living: Vec<u32> = std::iter::once(self.layout.own).chain(self.living()).collect();
        let word = |capsule: u32| match capsule {
            0 => Some(&self.counts),
            other => self.heard[other as usize].as_ref().filter(|heard| heard.lost == lost),
        };
        let agree = living.iter().all(|a| {
            living.iter().all(|b| match (word(*a), word(*b)) {
                (Some(from), Some(to)) => from.sent.get(*b as usize) == to.received.get(*a as usize),
                _ => false,
            })
        });
        if !agree || self.over {
            return None;
        }
        self.over = true;
        Some(Event::Over)
    }

    /// Handles that the first node has looked, and is told again when the counts still agree.
    pub(crate) fn handle_over_heard(&mut self) {
        self.over = false;
    }

    /// Handles the failure of the link to a capsule: its connection ended, it was silent, or it has
    /// sent a malformed frame or packet.
    pub(crate) fn handle_failure(&mut self, capsule: u32) -> Option<Event<'static>> {
        if !self.layout.is_other(capsule) {
            return None;
        }
        if self.is_over() {
            if self.links[capsule as usize] != LinkState::Lost {
                self.links[capsule as usize] = LinkState::Ended;
            }
            return Some(Event::Close(capsule));
        }
        match (self.layout.is_first(), capsule) {
            (true, _) => {
                let event = self.strike(capsule)?;
                self.transmits.extend(self.living().map(|other| (other, Frame::Lost(capsule))));
                Some(event)
            }
            (false, 0) => {
                self.run = Run::Orphaned;
                Some(Event::Orphaned)
            }
            (false, _) => {
                if self.links[capsule as usize] == LinkState::Open {
                    self.links[capsule as usize] = LinkState::Reported;
                    self.transmits.push_back((0, Frame::Lost(capsule)));
                }
                Some(Event::Close(capsule))
            }
        }
    }

    /// Handles that nothing more comes from a capsule.
    pub(crate) fn handle_end(&mut self, capsule: u32) -> Option<Event<'static>> {
        self.done |= bit(capsule);
        self.handle_failure(capsule)
    }

    /// Leaves a capsule out from now on, if it is not lost yet.
    fn strike(&mut self, capsule: u32) -> Option<Event<'static>> {
        if self.is_lost(capsule) {
            return None;
        }
        self.counts.lost |= bit(capsule);
        self.links[capsule as usize] = LinkState::Lost;
        Some(Event::Lost(capsule))
    }

    /// Ends the run for all others, at the first capsule. Their reports are awaited.
    pub(crate) fn handle_stop(&mut self) {
        self.handle_close();
        for capsule in self.living() {
            self.awaited |= bit(capsule);
            self.transmits.push_back((capsule, Frame::Stop));
        }
    }

    /// Handles that this capsule leaves the run.
    pub(crate) fn handle_close(&mut self) {
        if self.run == Run::Running {
            self.run = Run::Over;
        }
    }

    /// Returns the next frame to send, with its receiver.
    pub(crate) fn poll_transmit(&mut self) -> Option<(u32, Frame<'static>)> {
        self.transmits.pop_front()
    }
}

#[cfg(test)]
mod tests;
