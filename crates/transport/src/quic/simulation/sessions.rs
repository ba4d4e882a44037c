//! The sessions of a simulated server.

use std::sync::Arc;

use quinn_proto::StreamId;

use super::super::link::{CHUNK_BYTES, INBOX_BYTES};
use super::super::open::Bell;
use super::super::port;
use super::process::{Clock, Conn, Shared, rings};
use super::truth::{StreamKey, Truth};
use crate::want::Want;

/// The bytes of a call: a head, and a body that depends on its attempt.
pub(super) const HEAD: usize = 48;

/// The deed of a session after it has read a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Deed {
    Reply,
    /// It ends once it has read the head.
    EndAtHead,
    /// It executes the call, and ends.
    EndWithoutReply,
    /// It replies, and ends some microseconds later.
    EndAfter(u32),
}

/// A call as its bytes say it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub number: u64,
    pub attempt: u64,
    pub bytes: usize,
    pub reply: usize,
    /// The time of its execution.
    pub service: u64,
    pub deed: Deed,
}

impl Request {
    pub(super) fn write(&self) -> Vec<u8> {
        let deed = match self.deed {
            Deed::Reply => 0,
            Deed::EndAtHead => 1,
            Deed::EndWithoutReply => 2,
            Deed::EndAfter(after) => 3 | u64::from(after) << 8,
        };
        let words = [self.number, self.attempt, self.bytes as u64, self.reply as u64, self.service, deed];
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.extend((HEAD..self.bytes).map(|at| byte(self.attempt, at)));
        bytes
    }

    fn read(head: &[u8]) -> Request {
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| head[8 * at + byte]));
        let deed = match word(5) & 0xff {
            1 => Deed::EndAtHead,
            2 => Deed::EndWithoutReply,
            3 => Deed::EndAfter((word(5) >> 8) as u32),
            _ => Deed::Reply,
        };
        let (number, attempt, service) = (word(0), word(1), word(4));
        Request { number, attempt, bytes: word(2) as usize, reply: word(3) as usize, service, deed }
    }
}

/// A byte of a body or reply.
pub(super) fn byte(of: u64, at: usize) -> u8 {
    (of as u8).wrapping_mul(167).wrapping_add((at as u8).wrapping_mul(13)).wrapping_add((at >> 8) as u8)
}

/// True if these are the bytes of a body or reply, from an offset on.
pub(super) fn are_bytes(of: u64, at: usize, bytes: &[u8]) -> bool {
    bytes.iter().enumerate().all(|(more, found)| *found == byte(of, at + more))
}

/// The manner of the sessions of a server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manner {
    /// The most bytes of a read.
    pub limit: usize,
    /// The pause after one.
    pub pause: u64,
    /// The pause after a reply.
    pub rest: u64,
}

#[derive(Debug)]
enum Phase {
    Read,
    Work,
    Write { bytes: Vec<u8>, at: usize },
}

/// A session of a server.
pub(super) struct Session {
    conn: Shared,
    id: StreamId,
    bell: Arc<Bell>,
    pub key: StreamKey,
    manner: Manner,
    phase: Phase,
    head: Vec<u8>,
    request: Option<Request>,
    body: usize,
    /// The time until which it does nothing.
    pub wake: Option<u64>,
    leaves: Option<u64>,
    is_resting: bool,
    pub is_over: bool,
}

impl Session {
    pub(super) fn new(conn: Shared, id: StreamId, manner: Manner) -> Session {
        let bell = port::bell().expect("an eventfd");
        conn.borrow_mut().link.enter(id, bell.clone());
        let key = (conn.borrow().name.unwrap_or(0), id.into());
        Session {
            conn,
            id,
            bell,
            key,
            manner,
            phase: Phase::Read,
            head: Vec::new(),
            request: None,
            body: 0,
            wake: None,
            leaves: None,
            is_resting: false,
            is_over: false,
        }
    }

    /// The time at which it does something by itself.
    pub(super) fn due(&self) -> Option<u64> {
        [self.wake, self.leaves].into_iter().flatten().min()
    }

    fn close(&mut self, conn: &mut Conn) {
        conn.link.close(self.id);
        conn.touched = true;
        (self.is_over, self.wake, self.leaves) = (true, None, None);
    }

    /// Notes the bytes that have arrived, and judges their number.
    pub(super) fn look(&self, truth: &mut Truth) {
        if self.is_over {
            return;
        }
        let inbox = self.conn.borrow().link.inbox_bytes(self.id);
        judge_inbox(truth, inbox);
        truth.arrived(self.key, inbox);
    }

    /// Goes on until it waits.
    pub(super) fn step(&mut self, clock: Clock, truth: &mut Truth) {
        let (now, shared) = (truth.now, self.conn.clone());
        let mut conn = shared.borrow_mut();
        let mut turns = 0;
        while !self.is_over {
            turns += 1;
            if turns > 10_000 {
                return truth.fail(|| format!("a session of the server spins: {:?}", self.phase));
            }
            if self.leaves.is_some_and(|at| at <= now) {
                return self.close(&mut conn);
            }
            if self.wake.is_some_and(|at| at > now) {
                return;
            }
            self.wake = None;
            if self.is_resting && !rings(&self.bell) {
                return;
            }
            self.is_resting = false;
            let at = clock.at(now);
            match &mut self.phase {
                Phase::Read if self.request.is_none() && self.head.len() >= HEAD => {
                    self.take(&[], &mut conn, truth);
                }
                Phase::Read => {
                    let mut bytes = Vec::new();
                    match conn.link.read(at, self.id, &mut bytes, self.manner.limit) {
                        Ok(Some(count)) if count > 0 => {
                            conn.touched |= conn.link.owes_room();
                            truth.read(self.key, count);
                            self.take(&bytes, &mut conn, truth);
                            if self.manner.pause > 0 && self.wake.is_none() {
                                self.wake = Some(now + self.manner.pause);
                            }
                        }
                        Ok(Some(_)) | Err(_) => self.close(&mut conn),
                        Ok(None) => {
                            self.is_resting = !conn.link.arm(at, self.id, Want::Bytes);
                            conn.touched |= conn.link.owes_room();
                        }
                    }
                }
                Phase::Work => {
                    let Some(request) = self.request.take() else { return };
                    truth.execute(request.number, request.attempt);
                    match request.deed {
                        Deed::EndWithoutReply => self.close(&mut conn),
                        Deed::EndAfter(after) => {
                            self.leaves = Some(now + u64::from(after));
                            self.reply(&request);
                        }
                        _ => self.reply(&request),
                    }
                }
                Phase::Write { bytes, at: written } => match conn.link.write(self.id, &bytes[*written..]) {
                    Ok(count) => {
                        conn.touched = true;
                        truth.wrote(self.key, count);
                        *written += count;
                        if *written == bytes.len() {
                            self.phase = Phase::Read;
                            if self.manner.rest > 0 {
                                self.wake = Some(now + self.manner.rest);
                            }
                        } else {
                            self.is_resting = !conn.link.arm(at, self.id, Want::Room);
                        }
                    }
                    Err(_) => self.close(&mut conn),
                },
            }
        }
    }

    fn reply(&mut self, request: &Request) {
        let bytes = (0..request.reply).map(|at| byte(request.number, at)).collect();
        self.phase = Phase::Write { bytes, at: 0 };
    }

    /// Takes bytes of the client. Those of a call that is executed are not followed by others yet.
    fn take(&mut self, more: &[u8], conn: &mut Conn, truth: &mut Truth) {
        // Calls that were written before an answer come together: the rest waits in `head`.
        let mut all = std::mem::take(&mut self.head);
        all.extend(more);
        let mut bytes = &all[..];
        if self.request.is_none() {
            let Some((head, body)) = bytes.split_at_checked(HEAD) else {
                self.head = all;
                return;
            };
            let request = Request::read(head);
            (self.request, self.body, bytes) = (Some(request), HEAD, body);
            if request.deed == Deed::EndAtHead {
                return self.close(conn);
            }
        }
        let Some(request) = self.request else { return };
        let (body, rest) = bytes.split_at(bytes.len().min(request.bytes - self.body));
        if !are_bytes(request.attempt, self.body, body) {
            truth.fail(|| format!("the body of {request:?} has other bytes, from {} on", self.body));
        }
        self.body += body.len();
        self.head = rest.to_vec();
        if self.body == request.bytes {
            self.phase = Phase::Work;
            self.wake = Some(truth.now + request.service);
        }
    }
}

/// Judges the bytes that have arrived and were not read.
pub(super) fn judge_inbox(truth: &mut Truth, inbox: usize) {
    if inbox > INBOX_BYTES + CHUNK_BYTES {
        truth.fail(|| format!("an inbox has {inbox} bytes"));
    }
}
