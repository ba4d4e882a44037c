//! A server's side of its exports, as a state machine.
//!
//! It exports to every trader, renews after a third of the lease, and exports again when a lease
//! or a session is gone; at the end it withdraws. It moves no bytes: [`Exporter::poll`] returns
//! actions, and the program that carries them out hands in events. Call `poll` until it returns
//! nothing, after each event and at [`Exporter::next_deadline`].
//!
//! # States
//!
//! Of a trader: [`Connection`]. The pause doubles with each failure, and is short again after an
//! answer.
//!
//! ```text
//!   Down -- pause over: Connect --> Connecting -- Connected --> Up
//!    ^                                  |                       |
//!    +--- Lost, or no answer in time: Close --------------------+
//! ```
//!
//! Of an export at a trader that is up: [`Slot`]. When the session is lost, each is `Absent`: a
//! lease is a reference of its session.
//!
//! ```text
//!   Absent -- Export --> Exporting -- Exported --> Held -- due: Renew --> Renewing
//!     ^  ^                |   |                     ^ ^                      |  |
//!     |  |   UnknownInterface  Refused              | +------- Renewed ------+  |
//!     |  |                v   v                     |                           |
//!     |  +- Taught -- Teaching   Refused -- pause --+--> Absent                 |
//!     +------------------------------------- Gone ------------------------------+
//! ```

/// The least time between two renewals, whatever a trader says.
const DUE_MS_MIN: u64 = 500;
/// The longest time between two renewals, whatever a trader says.
const DUE_MS_MAX: u64 = 60_000;

/// The settings of an exporter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// Milliseconds that a trader may take to answer.
    pub answer_ms: u64,
    /// Milliseconds between two tries to connect, at first.
    pub pause_ms_min: u64,
    /// The same after many failures.
    pub pause_ms_max: u64,
    /// Milliseconds after which a refused export is tried again.
    pub refused_ms: u64,
    /// Milliseconds that withdrawing takes at most.
    pub stop_ms: u64,
}

impl Options {
    /// Returns the settings for a lease: all pauses together are shorter than a third of it.
    pub fn for_lease(lease_ms: u64) -> Options {
        Options {
            answer_ms: (lease_ms / 8).clamp(250, 2_000),
            pause_ms_min: 250,
            pause_ms_max: (lease_ms / 6).max(250),
            refused_ms: 10_000,
            stop_ms: 1_000,
        }
    }
}

/// A session with a trader. Events of an earlier session are ignored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Via {
    /// The trader, by its position among the traders.
    pub trader: usize,
    /// The number of the session, from 1.
    pub attempt: u64,
}

/// An action that the program carries out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Connect to a trader.
    Connect(Via),
    /// Close a session, also one that is still being connected.
    Close(Via),
    /// Teach the interface of an export.
    Teach(Via, usize),
    /// Export, with the load of the moment.
    Export(Via, usize),
    /// Renew, with the load of the moment.
    Renew(Via, usize),
    /// Withdraw.
    Withdraw(Via, usize),
    /// Nothing more is to be done.
    Stopped,
}

/// An event that the program reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A session with a trader began.
    Connected(Via),
    /// Connecting failed, or the session has ended.
    Lost(Via),
    /// The interface of an export was taught.
    Taught(Via, usize),
    /// An export has a lease; the renewal is due within so many milliseconds.
    Exported(Via, usize, u64),
    /// The trader does not know the interface of an export.
    UnknownInterface(Via, usize),
    /// The trader refuses an export.
    Refused(Via, usize),
    /// A lease was renewed; the next renewal is due within so many milliseconds.
    Renewed(Via, usize, u64),
    /// A lease was gone.
    Gone(Via, usize),
    /// An export was withdrawn, or its lease was gone.
    Withdrawn(Via, usize),
    /// The server stops.
    Stop,
}

/// The state of a trader.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Connection {
    Down { at: u64 },
    Connecting { until: u64 },
    Up,
}

/// The state of an export at a trader.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Slot {
    Absent,
    Exporting { until: u64 },
    Unknown,
    Teaching { until: u64 },
    Refused { at: u64 },
    Held { due: u64 },
    Renewing { until: u64 },
    Withdrawing { until: u64 },
    Withdrawn,
}

impl Slot {
    /// The time at which an answer is missing.
    fn until(self) -> Option<u64> {
        match self {
            Slot::Exporting { until }
            | Slot::Teaching { until }
            | Slot::Renewing { until }
            | Slot::Withdrawing { until } => Some(until),
            _ => None,
        }
    }
}

#[derive(Debug)]
struct Trader {
    connection: Connection,
    attempt: u64,
    pause_ms: u64,
    slots: Vec<Slot>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Running,
    Stopping { until: u64 },
    Stopped,
}

/// The exports of a server at all of its traders.
#[derive(Debug)]
pub struct Exporter {
    options: Options,
    traders: Vec<Trader>,
    phase: Phase,
    random: fastrand::Rng,
}

impl Exporter {
    /// Begins with so many exports at so many traders.
    pub fn new(options: Options, traders: usize, exports: usize, seed: u64, now: u64) -> Exporter {
        let trader = || Trader {
            connection: Connection::Down { at: now },
            attempt: 0,
            pause_ms: options.pause_ms_min,
            slots: vec![Slot::Absent; exports],
        };
        let traders = (0..traders).map(|_| trader()).collect();
        Exporter { options, traders, phase: Phase::Running, random: fastrand::Rng::with_seed(seed) }
    }

    /// Returns the number of exports that have a lease at a trader.
    pub fn held(&self, trader: usize) -> usize {
        let is_held = |slot: &&Slot| matches!(slot, Slot::Held { .. } | Slot::Renewing { .. });
        self.traders.get(trader).map_or(0, |trader| trader.slots.iter().filter(is_held).count())
    }

    /// Takes an event.
    pub fn handle(&mut self, event: Event, now: u64) {
        match event {
            Event::Stop => self.stop(now),
            Event::Connected(via) => {
                if let Some(trader) = self.current(via)
                    && matches!(trader.connection, Connection::Connecting { .. })
                {
                    trader.connection = Connection::Up;
                }
            }
            Event::Lost(via) => {
                if self.current(via).is_some() {
                    self.lose(via.trader, now);
                }
            }
            Event::Exported(via, export, due_ms) | Event::Renewed(via, export, due_ms) => {
                let pause_ms = self.options.pause_ms_min;
                if let Some(trader) = self.current(via) {
                    trader.pause_ms = pause_ms;
                }
                self.step(via, export, |slot| match slot {
                    Slot::Exporting { .. } | Slot::Renewing { .. } => {
                        Slot::Held { due: now.saturating_add(due_ms.clamp(DUE_MS_MIN, DUE_MS_MAX)) }
                    }
                    other => other,
                });
            }
            Event::UnknownInterface(via, export) => self.step(via, export, |slot| match slot {
                Slot::Exporting { .. } => Slot::Unknown,
                other => other,
            }),
            Event::Taught(via, export) => self.step(via, export, |slot| match slot {
                Slot::Teaching { .. } => Slot::Absent,
                other => other,
            }),
            Event::Refused(via, export) => {
                let at = now.saturating_add(self.options.refused_ms);
                self.step(via, export, |slot| match slot {
                    Slot::Exporting { .. } | Slot::Teaching { .. } => Slot::Refused { at },
                    other => other,
                });
            }
            Event::Gone(via, export) => self.step(via, export, |slot| match slot {
                Slot::Renewing { .. } => Slot::Absent,
                Slot::Withdrawing { .. } => Slot::Withdrawn,
                other => other,
            }),
            Event::Withdrawn(via, export) => self.step(via, export, |slot| match slot {
                Slot::Withdrawing { .. } => Slot::Withdrawn,
                other => other,
            }),
        }
    }

    /// The trader of a session, if the session is the current one.
    fn current(&mut self, via: Via) -> Option<&mut Trader> {
        self.traders.get_mut(via.trader).filter(|trader| {
            trader.attempt == via.attempt && !matches!(trader.connection, Connection::Down { .. })
        })
    }

    fn step(&mut self, via: Via, export: usize, next: impl FnOnce(Slot) -> Slot) {
        if let Some(slot) = self.current(via).and_then(|trader| trader.slots.get_mut(export)) {
            *slot = next(*slot);
        }
    }

    /// Waits before the next try; all leases of the session are gone with it.
    fn lose(&mut self, trader: usize, now: u64) {
        let max = self.options.pause_ms_max;
        let Some(trader) = self.traders.get_mut(trader) else { return };
        // Not all exporters of a trader that restarts come at the same moment.
        let pause = self.random.u64(trader.pause_ms / 2..=trader.pause_ms);
        trader.connection = Connection::Down { at: now.saturating_add(pause) };
        trader.pause_ms = trader.pause_ms.saturating_mul(2).min(max);
        let gone = if self.phase == Phase::Running { Slot::Absent } else { Slot::Withdrawn };
        trader.slots.iter_mut().for_each(|slot| *slot = gone);
    }

    fn stop(&mut self, now: u64) {
        if self.phase == Phase::Running {
            self.phase = Phase::Stopping { until: now.saturating_add(self.options.stop_ms) };
        }
    }

    /// Returns the next action, if one is due.
    pub fn poll(&mut self, now: u64) -> Option<Action> {
        if self.phase == Phase::Stopped {
            return None;
        }
        if let Some(action) = (0..self.traders.len()).find_map(|trader| self.poll_trader(trader, now)) {
            return Some(action);
        }
        let Phase::Stopping { until } = self.phase else { return None };
        let is_done = |trader: &Trader| match trader.connection {
            Connection::Up => trader.slots.iter().all(|slot| *slot == Slot::Withdrawn),
            _ => true,
        };
        if until <= now || self.traders.iter().all(is_done) {
            self.phase = Phase::Stopped;
            return Some(Action::Stopped);
        }
        None
    }

    fn poll_trader(&mut self, at: usize, now: u64) -> Option<Action> {
        let (answer_ms, stop_ms) = (self.options.answer_ms, self.options.stop_ms);
        let is_running = self.phase == Phase::Running;
        let trader = self.traders.get_mut(at)?;
        let is_late = match trader.connection {
            Connection::Down { at: due } => {
                if !is_running || now < due {
                    return None;
                }
                trader.attempt += 1;
                trader.connection = Connection::Connecting { until: now.saturating_add(answer_ms) };
                return Some(Action::Connect(Via { trader: at, attempt: trader.attempt }));
            }
            Connection::Connecting { until } => until <= now || !is_running,
            Connection::Up => trader.slots.iter().any(|slot| slot.until().is_some_and(|until| until <= now)),
        };
        let via = Via { trader: at, attempt: trader.attempt };
        if is_late {
            self.lose(at, now);
            return Some(Action::Close(via));
        }
        if trader.connection != Connection::Up {
            return None;
        }
        let until = now.saturating_add(answer_ms);
        trader.slots.iter_mut().enumerate().find_map(|(export, slot)| {
            let (next, action) = match *slot {
                Slot::Absent if is_running => (Slot::Exporting { until }, Action::Export(via, export)),
                Slot::Refused { at } if is_running && at <= now => {
                    (Slot::Exporting { until }, Action::Export(via, export))
                }
                Slot::Unknown if is_running => (Slot::Teaching { until }, Action::Teach(via, export)),
                Slot::Held { due } if is_running && due <= now => {
                    (Slot::Renewing { until }, Action::Renew(via, export))
                }
                Slot::Held { .. } | Slot::Renewing { .. } if !is_running => {
                    let until = now.saturating_add(stop_ms);
                    (Slot::Withdrawing { until }, Action::Withdraw(via, export))
                }
                Slot::Absent | Slot::Refused { .. } | Slot::Unknown | Slot::Teaching { .. }
                    if !is_running =>
                {
                    *slot = Slot::Withdrawn;
                    return None;
                }
                _ => return None,
            };
            *slot = next;
            Some(action)
        })
    }

    /// Returns the time at which `poll` is to be called next; nothing if only events matter.
    pub fn next_deadline(&self) -> Option<u64> {
        let stop = match self.phase {
            Phase::Stopped => return None,
            Phase::Stopping { until } => Some(until),
            Phase::Running => None,
        };
        let is_running = self.phase == Phase::Running;
        let of_trader = |trader: &Trader| match trader.connection {
            Connection::Down { at } => is_running.then_some(at),
            Connection::Connecting { until } => Some(until),
            Connection::Up => {
                let of_slot = |slot: &Slot| match *slot {
                    Slot::Held { due } => Some(due),
                    Slot::Refused { at } => Some(at),
                    Slot::Absent | Slot::Unknown => Some(0),
                    other => other.until(),
                };
                trader.slots.iter().filter_map(of_slot).min()
            }
        };
        self.traders.iter().filter_map(of_trader).chain(stop).min()
    }
}

#[cfg(test)]
mod tests;
