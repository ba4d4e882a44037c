//! A node's part of the network: it posts packets, takes mail, looks for more, rests and sleeps.
//!
//! Read [`Port::receive`](Packets::receive), then `rest` and `sleep`. The states of a node without
//! work are in `docs/internals/nodes.md`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant};

use bifrost_actors::{Named, Names, Observer, Packets, Placement, Received, Wait};
use bifrost_runtime::node_words::Stats;

use crate::capsules::Links;
use crate::shared::{Mail, Shared};

/// The time that a node that has nothing to do looks for mail before it says so. An answer that
/// comes within the time of a request to another node finds the node busy, as it was.
const LOOK: Duration = Duration::from_micros(2);

/// The time that it looks in all, with pauses, before it sleeps. To wake a node takes its sender a
/// system call, and the node more.
const LOOK_MAX: Duration = Duration::from_micros(50);

/// The number of times that it looks before it looks at the clock.
const LOOKS: u32 = 16;

/// One in so many short sleeps is preceded by a long look, to learn whether that pays.
const SLEEPS_PER_PROBE: u32 = 64;

/// Pauses between two looks of a node that has said that it has nothing to do.
const PAUSES: u32 = 8;

/// A node that has had nothing to do for this time is reported to nodes of other processes.
const TELL: Duration = Duration::from_micros(20);

/// The time that a node looks for mail before it sleeps: as long as that has paid lately. Where two
/// nodes have one processor, none comes while one looks.
#[derive(Debug)]
struct Patience {
    time: Duration,
    short_sleeps: u32,
}

impl Patience {
    fn new() -> Patience {
        Patience { time: LOOK_MAX, short_sleeps: 0 }
    }

    fn learn_paid(&mut self) {
        self.time = (self.time * 2).min(LOOK_MAX);
    }

    fn learn_slept(&mut self, slept: Duration) {
        self.time = (self.time / 2).max(LOOK);
        if slept < LOOK_MAX {
            self.short_sleeps += 1;
            if self.short_sleeps.is_multiple_of(SLEEPS_PER_PROBE) {
                self.time = LOOK_MAX;
            }
        }
    }
}

/// A node's way to the others: its part of the network.
#[derive(Debug)]
pub(crate) struct Port {
    node: u32,
    shared: Arc<Shared>,
    /// To the nodes of other processes, if there are any.
    links: Option<Arc<Links>>,
    mail: Receiver<Mail>,
    /// The mail that was found there and not taken yet.
    found: Option<Mail>,
    /// The node at which the search for an idle one begins.
    next: u32,
    patience: Patience,
}

impl Port {
    /// Makes the port of a node, with its receiver of mail.
    pub(crate) fn new(
        node: u32,
        shared: Arc<Shared>,
        links: Option<Arc<Links>>,
        mail: Receiver<Mail>,
    ) -> Port {
        Port { node, shared, links, mail, found: None, next: node + 1, patience: Patience::new() }
    }

    /// Turns mail into the event for a node, which is counted as busy or, with `rested`, is not.
    fn open(&self, mail: Mail, rested: bool) -> Option<Received> {
        let active = self.shared.active();
        if let (Mail::Quiet, Some(links)) = (&mail, &self.links) {
            links.over_was_heard();
        }
        match mail {
            Mail::Packets(from, packets) => {
                self.take_part(rested);
                self.shared.note_taken_bytes(from, packets.len());
                Some(Received::Packets(from, packets))
            }
            Mail::Lost(nodes) => {
                self.take_part(rested);
                Some(Received::Lost(nodes))
            }
            Mail::Guest(number) => {
                self.take_part(rested);
                Some(Received::Guest(number))
            }
            Mail::Look => {
                self.take_part(rested);
                Some(Received::Look)
            }
            Mail::Quiet if rested && active.is_quiet() => {
                active.add(1);
                self.shared.set_idle(self.node, false);
                Some(Received::Over)
            }
            Mail::Quiet => None,
            Mail::Stop => {
                if rested {
                    active.add(1);
                }
                Some(Received::Stopped)
            }
        }
    }

    /// Makes the part of the mail that was under way that of the node.
    fn take_part(&self, rested: bool) {
        if !rested {
            self.shared.active().took();
        }
        self.shared.note_taken(self.node);
    }

    /// Waits until there is mail, or nothing can happen any more, or it is time to look at its
    /// waits.
    fn rest(&mut self, look_after: Option<Duration>) -> Received {
        self.set_looking(true);
        let since = Instant::now();
        if let Some(mail) = self.look(since, LOOK, 0) {
            self.set_looking(false);
            match mail.map(|mail| self.open(mail, false)) {
                Some(None) => {}
                Some(Some(received)) => return received,
                None => return Received::Stopped,
            }
            self.set_looking(true);
        }
        let Some(time) = look_after else { return self.sleep(since) };
        self.shared.look_after(self.node, time);
        let received = self.sleep(since);
        self.shared.look_no_more(self.node);
        received
    }

    /// Sleeps: as [`Port::rest`], when nothing came soon after `since`, and without a time.
    fn sleep(&mut self, since: Instant) -> Received {
        self.shared.set_idle(self.node, true);
        if self.shared.active().rest() && self.links.is_none() {
            self.shared.say_over();
        }
        self.shared.begin_look();
        let mut found = self.look(since, self.patience.time.min(TELL), PAUSES);
        if let Some(links) = self.links.as_ref().filter(|_| found.is_none()) {
            links.tell_idle();
            found = self.look(since, self.patience.time, PAUSES);
        }
        self.shared.end_look();
        self.set_looking(false);
        if found.is_some() {
            self.patience.learn_paid();
        }
        loop {
            let mail = found.take().unwrap_or_else(|| {
                let since = Instant::now();
                let mail = self.shared.sleeper(self.node).sleep(|| self.mail.recv().ok());
                self.patience.learn_slept(since.elapsed());
                mail
            });
            match mail {
                Some(mail) => {
                    if let Some(received) = self.open(mail, true) {
                        return received;
                    }
                }
                // The senders are shared, this node's own among them.
                None => return Received::Stopped,
            }
        }
    }

    /// Tells other processes that this node looks, or has looked: while it looks, they need wake no
    /// thread.
    fn set_looking(&self, looking: bool) {
        let Some(links) = &self.links else { return };
        links.set_looking(looking);
        if !looking {
            // Mail that came before that would wake no thread.
            links.look();
        }
    }

    /// Looks for mail until so long after a time, with so many pauses between looks. Stops when
    /// others need the processor. Returns:
    ///
    /// - `None`: nothing was found;
    /// - `Some(Some(_))`: the mail;
    /// - `Some(None)`: no mail can come any more.
    fn look(&self, since: Instant, time: Duration, pauses: u32) -> Option<Option<Mail>> {
        while self.shared.may_look() && since.elapsed() < time {
            for _ in 0..LOOKS {
                match self.mail.try_recv() {
                    Ok(mail) => return Some(Some(mail)),
                    Err(TryRecvError::Empty) => {}
                    Err(TryRecvError::Disconnected) => return Some(None),
                }
                if let Some(links) = &self.links {
                    links.look();
                }
                for _ in 0..pauses {
                    std::hint::spin_loop();
                }
            }
        }
        None
    }
}

impl Packets for Port {
    fn post(&mut self, node: u32, packets: Vec<u8>) {
        if let Some(tasks) = self.shared.tasks_at(node) {
            return tasks.post(self.node, packets);
        }
        match &self.links {
            _ if node >= self.shared.nodes() => {
                if let Some(guests) = self.shared.guests() {
                    guests.post(self.node, node, packets);
                }
            }
            Some(links) if !self.shared.is_here(node) => links.post(self.node, node, &packets),
            _ => self.shared.post(self.node, node, packets),
        }
    }

    fn receive(&mut self, wait: Wait) -> Received {
        loop {
            let mail = match wait {
                _ if self.found.is_some() => self.found.take().expect("asked above"),
                Wait::Idle | Wait::IdleFor(_) => match self.mail.try_recv() {
                    Ok(mail) => mail,
                    Err(_) => {
                        return self.rest(if let Wait::IdleFor(time) = wait { Some(time) } else { None });
                    }
                },
                Wait::No => match self.mail.try_recv() {
                    Ok(mail) => mail,
                    Err(TryRecvError::Empty) => return Received::Nothing,
                    Err(TryRecvError::Disconnected) => return Received::Stopped,
                },
                Wait::For(time) => {
                    self.shared.set_idle(self.node, true);
                    let mail = self.mail.recv_timeout(time);
                    self.shared.set_idle(self.node, false);
                    match mail {
                        Ok(mail) => mail,
                        Err(RecvTimeoutError::Timeout) => return Received::Nothing,
                        Err(RecvTimeoutError::Disconnected) => return Received::Stopped,
                    }
                }
            };
            if let Some(received) = self.open(mail, false) {
                return received;
            }
        }
    }

    fn has_mail(&mut self) -> bool {
        self.found = self.found.take().or_else(|| self.mail.try_recv().ok());
        self.found.is_some()
    }

    fn distrust(&mut self, node: u32, why: &str) -> bool {
        let links = self.links.as_ref().filter(|_| node < self.shared.nodes() && !self.shared.is_here(node));
        links.inspect(|links| links.distrust(node, why)).is_some()
    }
}

impl Placement for Port {
    fn claim_idle_node(&mut self) -> Option<u32> {
        let found = self.shared.claim_idle_node(self.node, self.next);
        self.next = found.map_or(self.next, |node| node + 1);
        found
    }

    fn claim_node_without_backlog(&mut self) -> Option<u32> {
        self.shared.claim_node_without_backlog(self.node)
    }

    fn idlers(&self) -> Option<Arc<AtomicU32>> {
        Some(self.shared.idlers().clone())
    }

    fn is_idle(&mut self, node: u32) -> bool {
        match node < self.shared.nodes() {
            true => self.shared.is_idle(node),
            false if self.shared.tasks_at(node).is_some() => true,
            false => self.shared.guests().is_some_and(|guests| guests.waits(node)),
        }
    }

    fn idleness(&mut self, node: u32) -> Option<&AtomicBool> {
        self.shared.idleness(node)
    }

    fn has_tasks(&self) -> bool {
        self.shared.tasks().is_some()
    }

    fn is_here(&self, node: u32) -> bool {
        node >= self.shared.nodes() || self.shared.is_here(node)
    }
}

impl Names for Port {
    fn has_names(&self) -> bool {
        self.shared.guests().is_some()
    }

    fn publish(&mut self, name: &str, actor: Option<Named>) -> Result<bool, String> {
        match self.shared.guests() {
            Some(guests) => guests.publish(&self.shared, name, actor),
            // No actor has a name here.
            None => Ok(false),
        }
    }

    fn find(&mut self, name: &str) -> Option<Named> {
        self.shared.guests()?.find(&self.shared, name, self.node)
    }
}

impl Observer for Port {
    fn tell(&mut self, stats: &Stats) {
        self.shared.tell(self.node, stats);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_looks_in_vain_looks_less_and_who_finds_looks_more() {
        let mut patience = Patience::new();
        let short = LOOK_MAX / 2;
        for _ in 1..SLEEPS_PER_PROBE {
            patience.learn_slept(short);
        }
        assert_eq!(patience.time, LOOK);
        patience.learn_paid();
        assert_eq!(patience.time, 2 * LOOK);
        // A long sleep is no sign that a look would have paid; after so many short ones it is
        // tried.
        patience.learn_slept(LOOK_MAX);
        assert_eq!(patience.time, LOOK);
        patience.learn_slept(short);
        assert_eq!(patience.time, LOOK_MAX);
        patience.learn_paid();
        assert_eq!(patience.time, LOOK_MAX);
    }
}
