//! [`Etcd`]: the handle of a trader on the thread that talks with etcd.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use bifrost_trader::OfferId;
use bifrost_trader::shared::{ClaimError, Exclusive, Listener, Shared, Stored};
use thiserror::Error;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::epoch::Worker;

/// The longest time that a claim of an exclusive name waits.
const CLAIM_WITHIN: Duration = Duration::from_secs(5);

/// The reason why a URL names no etcd.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum BadUrl {
    /// The form.
    #[error("`{0}` names no etcd: write `etcd://host:port`, or several as `etcd://a:2379,b:2379`")]
    Form(String),
    /// The system has no random numbers.
    #[error("the system has no random numbers: {0}")]
    Random(String),
}

/// A command to the thread.
pub(crate) enum Command {
    Put(Box<Stored>, Option<Arc<[u8]>>),
    Remove(OfferId),
    Claim(Exclusive, mpsc::Sender<Result<(), ClaimError>>),
    Bind(Exclusive, Option<OfferId>),
}

/// The offers of traders in etcd.
pub struct Etcd {
    endpoints: Vec<String>,
    trader: String,
    lease: Duration,
    commands: UnboundedSender<Command>,
    /// The end of the thread, until it is started.
    start: Mutex<Option<UnboundedReceiver<Command>>>,
    is_reachable: Arc<AtomicBool>,
}

impl std::fmt::Debug for Etcd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Etcd").field("endpoints", &self.endpoints).finish_non_exhaustive()
    }
}

impl Etcd {
    /// Reads the URL of an etcd. A trader's keys go so long after its end.
    ///
    /// # Errors
    /// See [`BadUrl`].
    pub fn new(url: &str, lease: Duration) -> Result<Etcd, BadUrl> {
        let wrong = || BadUrl::Form(url.to_owned());
        let hosts = url.strip_prefix("etcd://").ok_or_else(wrong)?;
        let is_host = |host: &str| {
            let port = host.rsplit_once(':').and_then(|(name, port)| Some((name, port.parse::<u16>().ok()?)));
            port.is_some_and(|(name, _)| !name.is_empty() && !name.contains(['/', '@']))
        };
        if !hosts.split(',').all(is_host) {
            return Err(wrong());
        }
        let mut number = [0; 16];
        getrandom::fill(&mut number).map_err(|why| BadUrl::Random(why.to_string()))?;
        let (commands, receiver) = unbounded_channel();
        Ok(Etcd {
            endpoints: hosts.split(',').map(|host| format!("http://{host}")).collect(),
            trader: crate::json::hexadecimal(&number),
            lease,
            commands,
            start: Mutex::new(Some(receiver)),
            is_reachable: Arc::default(),
        })
    }

    fn tell(&self, command: Command) {
        // The thread ends with the process only.
        let _ = self.commands.send(command);
    }
}

impl Shared for Etcd {
    fn listen(&self, listener: Box<dyn Listener>) {
        let start = self.start.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(commands) = start else { return };
        let worker = Worker::new(
            self.endpoints.clone(),
            self.trader.clone(),
            self.lease,
            listener,
            self.is_reachable.clone(),
        );
        let thread = std::thread::Builder::new().name("etcd".to_owned());
        if let Err(why) = thread.spawn(move || worker.run(commands)) {
            tracing::error!(%why, "trader.etcd_no_thread");
        }
    }

    fn put(&self, stored: Stored, interface: Option<Arc<[u8]>>) {
        self.tell(Command::Put(Box::new(stored), interface));
    }

    fn remove(&self, offer: OfferId) {
        self.tell(Command::Remove(offer));
    }

    fn claim(&self, name: &Exclusive) -> Result<(), ClaimError> {
        let (sender, answer) = mpsc::channel();
        self.tell(Command::Claim(name.clone(), sender));
        answer.recv_timeout(CLAIM_WITHIN).unwrap_or_else(|_| {
            // It may get the name after all.
            self.bind(name, None);
            Err(ClaimError::OutOfReach("etcd does not answer".to_owned()))
        })
    }

    fn bind(&self, name: &Exclusive, offer: Option<OfferId>) {
        self.tell(Command::Bind(name.clone(), offer));
    }

    fn is_reachable(&self) -> bool {
        self.is_reachable.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_hosts_and_ports() {
        let new = |url: &str| Etcd::new(url, Duration::from_secs(15)).map(|etcd| etcd.endpoints);
        assert_eq!(new("etcd://127.0.0.1:2379").unwrap(), ["http://127.0.0.1:2379"]);
        assert_eq!(new("etcd://a:1,b:2").unwrap(), ["http://a:1", "http://b:2"]);
        for wrong in ["etcd://", "etcd://a", "http://a:1", "etcd://a:1/b", "etcd://u@a:1", "etcd://a:1,"] {
            assert_eq!(new(wrong), Err(BadUrl::Form(wrong.to_owned())));
        }
    }
}
