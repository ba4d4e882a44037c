//! The thread of a trader: the sessions with it, one at a time.
//!
//! The thread makes the calls that wait for the trader; the driver (`super`) never does. All jobs
//! that wait for the thread are one batch, so many exports cost one crossing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

use bifrost_trader::exporter::{Event, Via};
use bifrost_veneer::trader::TRADER;
use bifrost_veneer::trader::stubs::{INTERFACE, Lease, Trader};
use bifrost_veneer::{Error, Promise, Session};

use super::{Message, Offered};

/// A call at the trader.
#[derive(Debug)]
pub(super) enum Job {
    Connect(Via),
    Close(Via),
    Teach(Via, usize),
    /// With the load.
    Export(Via, usize, f64),
    /// With the load.
    Renew(Via, usize, f64),
    Withdraw(Via, usize),
}

impl Job {
    fn via(&self) -> Via {
        match self {
            Job::Connect(via)
            | Job::Close(via)
            | Job::Teach(via, _)
            | Job::Export(via, ..)
            | Job::Renew(via, ..)
            | Job::Withdraw(via, _) => *via,
        }
    }
}

/// The parts that the thread is given.
pub(super) struct TraderThread {
    pub url: String,
    pub token: String,
    pub answer: Duration,
    pub offered: Arc<Offered>,
    pub jobs: Receiver<Job>,
    pub events: Sender<Message>,
    /// The number of the newest session that the driver wants. A job of an older one is dropped.
    pub newest: Arc<AtomicU64>,
}

/// A session with the trader, and its leases.
struct Open {
    via: Via,
    session: Session,
    trader: Trader,
    leases: Vec<Option<Lease>>,
}

/// A call that was recorded.
enum Recorded {
    Taught(usize, Promise<String>),
    Exported(usize, Lease, Promise<i64>),
    Renewed(usize, Promise<i64>),
    Withdrawn(usize, Promise<()>),
}

/// The end of a session, with the reason.
struct Lost(String);

impl TraderThread {
    /// Does jobs until the driver has ended.
    pub fn run(self) {
        let mut open: Option<Open> = None;
        while let Ok(first) = self.jobs.recv() {
            let mut jobs = vec![first];
            jobs.extend(self.jobs.try_iter());
            let newest = self.newest.load(Ordering::Acquire);
            jobs.retain(|job| job.via().attempt == newest);
            if open.as_ref().is_some_and(|open| open.via.attempt != newest) {
                open = None;
            }
            if let Some(Job::Connect(via)) = jobs.iter().find(|job| matches!(job, Job::Connect(_))) {
                let via = *via;
                open = match self.connect(via) {
                    Ok(made) => Some(made),
                    Err(why) => {
                        self.tell_lost(via, why);
                        continue;
                    }
                };
                self.tell(Event::Connected(via));
            }
            if jobs.iter().any(|job| matches!(job, Job::Close(_))) {
                open = None;
                continue;
            }
            if let Some(there) = &mut open
                && let Err(Lost(why)) = self.act(there, &jobs)
            {
                self.tell_lost(there.via, why);
                open = None;
            }
        }
    }

    fn tell(&self, event: Event) {
        // A driver that has ended wants to know nothing.
        let _ = self.events.send(Message::Event(event));
    }

    fn tell_lost(&self, via: Via, why: String) {
        let _ = self.events.send(Message::Lost(via, why));
    }

    fn connect(&self, via: Via) -> Result<Open, String> {
        let builder = Session::builder(&INTERFACE).name("bifrost-exports").timeout(self.answer);
        let session = builder.token(self.token.clone()).connect(&self.url).map_err(|why| why.to_string())?;
        let trader: Trader = session.lookup(TRADER);
        session.resolve(&trader).map_err(|why| format!("it is no trader: {why}"))?;
        let leases = self.offered.exports.iter().map(|_| None).collect();
        Ok(Open { via, session, trader, leases })
    }

    /// Records all jobs as one batch, and tells the outcomes.
    fn act(&self, open: &mut Open, jobs: &[Job]) -> Result<(), Lost> {
        let Open { via, session, trader, leases } = open;
        let via = *via;
        let mut recorded = Vec::new();
        for job in jobs {
            match job {
                Job::Connect(_) | Job::Close(_) => {}
                Job::Teach(_, at) => {
                    recorded.push(Recorded::Taught(*at, trader.teach(self.offered.interface.as_str())));
                }
                Job::Export(_, at, load) => {
                    let Some(export) = self.offered.exports.get(*at) else { continue };
                    let addresses: Vec<&str> = export.addresses.iter().map(String::as_str).collect();
                    let lease = trader.advertise(
                        export.service.as_str(),
                        self.offered.digest.as_str(),
                        export.name.as_str(),
                        addresses,
                        with_load(&export.properties.to_string(), *load),
                        export.lease_ms.and_then(|ms| i64::try_from(ms).ok()).unwrap_or(0),
                    );
                    // It says when the next renewal is due.
                    let due = lease.renew("");
                    recorded.push(Recorded::Exported(*at, lease, due));
                }
                Job::Renew(_, at, load) => match leases.get(*at) {
                    Some(Some(lease)) => {
                        recorded.push(Recorded::Renewed(*at, lease.renew(with_load("", *load))));
                    }
                    _ => self.tell(Event::Gone(via, *at)),
                },
                Job::Withdraw(_, at) => match leases.get(*at) {
                    Some(Some(lease)) => recorded.push(Recorded::Withdrawn(*at, lease.withdraw())),
                    _ => self.tell(Event::Gone(via, *at)),
                },
            }
        }
        for recorded in recorded {
            let event = match recorded {
                Recorded::Taught(at, digest) => match digest.claim() {
                    Ok(_) => Event::Taught(via, at),
                    Err(why) => self.refused(via, at, &why)?,
                },
                Recorded::Exported(at, lease, due) => match due.claim() {
                    Ok(due) => {
                        leases[at] = Some(lease);
                        Event::Exported(via, at, u64::try_from(due).unwrap_or(0))
                    }
                    Err(why) if signalled(&why, "unknown_interface") => Event::UnknownInterface(via, at),
                    Err(why) => self.refused(via, at, &why)?,
                },
                Recorded::Renewed(at, due) => match due.claim() {
                    Ok(due) => Event::Renewed(via, at, u64::try_from(due).unwrap_or(0)),
                    Err(Error::Closed(why)) => return Err(Lost(why.to_string())),
                    // A refused renewal is exported again, which tells the reason.
                    Err(_) => {
                        leases[at] = None;
                        Event::Gone(via, at)
                    }
                },
                Recorded::Withdrawn(at, done) => match done.claim() {
                    Err(Error::Closed(why)) => return Err(Lost(why.to_string())),
                    _ => {
                        leases[at] = None;
                        Event::Withdrawn(via, at)
                    }
                },
            };
            self.tell(event);
        }
        session.clear_exceptions();
        Ok(())
    }

    /// Tells the reason of a refusal, if the session has not ended.
    fn refused(&self, via: Via, at: usize, why: &Error) -> Result<Event, Lost> {
        if let Error::Closed(why) = why {
            return Err(Lost(why.to_string()));
        }
        let _ = self.events.send(Message::Why(via, at, cause(why).to_string()));
        Ok(Event::Refused(via, at))
    }
}

/// Returns the failure behind those that follow from it.
fn cause(error: &Error) -> &Error {
    match error {
        Error::Unhandled { cause: Some(inner), .. } | Error::NotReached { cause: Some(inner), .. } => {
            cause(inner)
        }
        error => error,
    }
}

/// True if a call has signalled an exception, or was not run since another one has.
fn signalled(error: &Error, exception: &str) -> bool {
    matches!(cause(error), Error::Signal { name, .. } if **name == *exception)
}

/// Returns properties as text, with the load among them.
fn with_load(properties: &str, load: f64) -> String {
    let load = bifrost_trader::Value::Real(load).to_text();
    let and = if properties.is_empty() { "" } else { "&" };
    format!("{properties}{and}load={load}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_is_a_property_of_the_text() {
        assert_eq!(with_load("", 0.5), "load=0.5");
        assert_eq!(with_load("region=eu", 2.0), "region=eu&load=2.0");
    }
}
