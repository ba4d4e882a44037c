//! Epochs: the time between a connection with etcd and its loss.
//!
//! [`Worker`] has the own offers and names, which it writes anew in each epoch. In an epoch after
//! the first one, a key of another trader that ends within one lease is not surely gone: etcd may
//! have ended its lease because it was stopped or out of reach itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use std::time::{Duration, Instant};

use bifrost_trader::OfferId;
use bifrost_trader::shared::{ClaimError, Exclusive, Listener, Stored};
use etcd_client::{
    Client, Compare, CompareOp, ConnectOptions, EventType, GetOptions, KeyValue, LeaseKeepAliveStream,
    LeaseKeeper, PutOptions, Txn, TxnOp, TxnOpResponse, WatchOptions, WatchResponse,
};
use serde_json::json;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::mpsc::error::TryRecvError;

use crate::etcd::Command;
use crate::json::{self, hexadecimal};

const ALL: &str = "/bifrost/";
const OFFERS: &str = "/bifrost/offers/";
const INTERFACES: &str = "/bifrost/interfaces/";
const NAMES: &str = "/bifrost/names/";

/// The longest time that etcd may take for an answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// The pause between two epochs.
const PAUSE: Duration = Duration::from_millis(200);

/// The reason why an epoch ended.
#[derive(Debug, thiserror::Error)]
enum Lost {
    #[error(transparent)]
    Etcd(#[from] etcd_client::Error),
    #[error("etcd does not answer")]
    Silent,
    #[error("etcd has ended the lease")]
    Lease,
    #[error("etcd has ended the watch")]
    Watch,
    /// The trader has ended.
    #[error("the trader has ended")]
    Over,
}

/// An own offer.
struct Own {
    json: String,
    digest: String,
    interface: Option<Arc<[u8]>>,
}

/// An exclusive name of an own offer.
struct Held {
    name: Exclusive,
    /// The offer; nothing while it is being exported.
    offer: Option<OfferId>,
}

/// The state of the thread.
pub(crate) struct Worker {
    endpoints: Vec<String>,
    trader: String,
    lease: Duration,
    listener: Box<dyn Listener>,
    is_reachable: Arc<AtomicBool>,
    own: BTreeMap<OfferId, Own>,
    /// By key.
    names: BTreeMap<String, Held>,
    /// True if there was an epoch before.
    has_been: bool,
    /// The time until which nothing is surely gone.
    doubts: Option<Instant>,
}

/// The parts of an epoch.
struct Epoch {
    client: Client,
    lease: i64,
    /// The interfaces that this trader has written.
    written: BTreeSet<String>,
    /// The interfaces that were read.
    read: BTreeMap<String, Arc<[u8]>>,
}

/// Waits for an answer of etcd.
async fn within<T>(answer: impl Future<Output = Result<T, etcd_client::Error>>) -> Result<T, Lost> {
    match tokio::time::timeout(ANSWER_WITHIN, answer).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(Lost::Silent),
    }
}

fn key_of_name(name: &Exclusive) -> String {
    format!("{NAMES}{}", json!([name.service, name.name]))
}

impl Worker {
    pub(crate) fn new(
        endpoints: Vec<String>,
        trader: String,
        lease: Duration,
        listener: Box<dyn Listener>,
        is_reachable: Arc<AtomicBool>,
    ) -> Worker {
        Worker {
            endpoints,
            trader,
            lease,
            listener,
            is_reachable,
            own: BTreeMap::new(),
            names: BTreeMap::new(),
            has_been: false,
            doubts: None,
        }
    }

    /// Runs until the trader ends.
    pub(crate) fn run(mut self, mut commands: UnboundedReceiver<Command>) {
        let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(why) => return tracing::error!(%why, "trader.etcd_no_runtime"),
        };
        runtime.block_on(async {
            loop {
                let Err(why) = self.epoch(&mut commands).await;
                self.is_reachable.store(false, Ordering::Release);
                if matches!(why, Lost::Over) {
                    return;
                }
                tracing::warn!(%why, "trader.etcd_lost");
                tokio::time::sleep(PAUSE).await;
                loop {
                    match commands.try_recv() {
                        Ok(command) => self.note(command, &why),
                        Err(TryRecvError::Empty) => break,
                        Err(TryRecvError::Disconnected) => return,
                    }
                }
            }
        });
    }

    /// Takes a command while etcd is out of reach.
    fn note(&mut self, command: Command, why: &Lost) {
        match command {
            Command::Put(stored, interface) => {
                self.enter(&stored, interface);
            }
            Command::Remove(offer) => {
                self.own.remove(&offer);
                self.names.retain(|_, held| held.offer != Some(offer));
            }
            Command::Claim(_, answer) => {
                let _ = answer.send(Err(ClaimError::OutOfReach(why.to_string())));
            }
            Command::Bind(name, offer) => self.bind(&name, offer),
        }
    }

    fn enter(&mut self, stored: &Stored, interface: Option<Arc<[u8]>>) -> OfferId {
        let digest = hexadecimal(&stored.offer.digest);
        self.own.insert(stored.offer.id, Own { json: json::write(stored), digest, interface });
        stored.offer.id
    }

    fn bind(&mut self, name: &Exclusive, offer: Option<OfferId>) {
        match offer {
            Some(offer) => {
                if let Some(held) = self.names.get_mut(&key_of_name(name)) {
                    held.offer = Some(offer);
                }
            }
            None => drop(self.names.remove(&key_of_name(name))),
        }
    }

    /// Talks with etcd until that fails.
    async fn epoch(
        &mut self,
        commands: &mut UnboundedReceiver<Command>,
    ) -> Result<std::convert::Infallible, Lost> {
        let options = ConnectOptions::new().with_connect_timeout(ANSWER_WITHIN);
        let mut client = within(Client::connect(&self.endpoints, Some(options))).await?;
        let seconds = i64::try_from(self.lease.as_secs().max(2)).unwrap_or(i64::MAX);
        let lease = within(client.lease_grant(seconds, None)).await?.id();
        let (mut keeper, mut kept) = within(client.lease_keep_alive(lease)).await?;
        let all = within(client.get(OFFERS, Some(GetOptions::new().with_prefix()))).await?;
        let revision = all.header().map_or(0, |header| header.revision());
        let options = WatchOptions::new().with_prefix().with_start_revision(revision + 1);
        let mut watch = within(client.watch(ALL, Some(options))).await?;
        let mut epoch = Epoch { client, lease, written: BTreeSet::new(), read: BTreeMap::new() };

        if std::mem::replace(&mut self.has_been, true) {
            self.doubts = Some(Instant::now() + self.lease);
        }
        let mut keys = BTreeSet::new();
        for kv in all.kvs() {
            if let Some(key) = self.learn(&mut epoch, kv).await? {
                keys.insert(key);
            }
        }
        self.listener.all(&keys);
        for id in self.own.keys().copied().collect::<Vec<_>>() {
            self.write(&mut epoch, id).await?;
        }
        for key in self.names.keys().cloned().collect::<Vec<_>>() {
            self.assert_name(&mut epoch, &key).await?;
        }
        self.is_reachable.store(true, Ordering::Release);
        tracing::info!(offers = keys.len(), "trader.etcd_reached");

        let mut ticks = tokio::time::interval(self.lease / 3);
        loop {
            tokio::select! {
                command = commands.recv() => match command {
                    Some(command) => self.obey(&mut epoch, command).await?,
                    None => return Err(Lost::Over),
                },
                news = watch.message() => match news? {
                    Some(news) if !news.canceled() => self.hear(&mut epoch, &news).await?,
                    _ => return Err(Lost::Watch),
                },
                _ = ticks.tick() => keep_alive(&mut keeper, &mut kept).await?,
            }
        }
    }

    /// Carries out a command of the trader.
    async fn obey(&mut self, epoch: &mut Epoch, command: Command) -> Result<(), Lost> {
        match command {
            Command::Put(stored, interface) => {
                let id = self.enter(&stored, interface);
                self.write(epoch, id).await
            }
            Command::Remove(offer) => {
                if self.own.remove(&offer).is_some() {
                    within(epoch.client.delete(self.key_of(offer), None)).await?;
                }
                let ended = self.names.iter().filter(|(_, held)| held.offer == Some(offer));
                for key in ended.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
                    self.release(epoch, &key).await?;
                }
                Ok(())
            }
            Command::Claim(name, answer) => {
                let claimed = self.claim(epoch, &name).await;
                let told = match &claimed {
                    Ok(told) => told.clone(),
                    Err(why) => Err(ClaimError::OutOfReach(why.to_string())),
                };
                let _ = answer.send(told);
                claimed.map(drop)
            }
            Command::Bind(name, None) => self.release(epoch, &key_of_name(&name)).await,
            Command::Bind(name, offer) => {
                self.bind(&name, offer);
                Ok(())
            }
        }
    }

    fn key_of(&self, offer: OfferId) -> String {
        format!("{OFFERS}{}/{}", self.trader, offer.0)
    }

    /// Writes an own offer, and its interface before it.
    async fn write(&mut self, epoch: &mut Epoch, id: OfferId) -> Result<(), Lost> {
        let Some(own) = self.own.get(&id) else { return Ok(()) };
        let with_lease = || Some(PutOptions::new().with_lease(epoch.lease));
        if let Some(interface) = own.interface.as_ref().filter(|_| !epoch.written.contains(&own.digest)) {
            let key = format!("{INTERFACES}{}/{}", own.digest, self.trader);
            within(epoch.client.put(key, interface.to_vec(), with_lease())).await?;
            epoch.written.insert(own.digest.clone());
        }
        within(epoch.client.put(self.key_of(id), own.json.clone(), with_lease())).await?;
        Ok(())
    }

    /// Tells of an offer of another trader, and returns its key.
    async fn learn(&self, epoch: &mut Epoch, kv: &KeyValue) -> Result<Option<String>, Lost> {
        let Some((key, number)) = self.key_of_other(kv.key()) else { return Ok(None) };
        let Some(stored) = json::read(number, kv.value()) else {
            tracing::warn!(key, "trader.etcd_no_offer");
            return Ok(None);
        };
        let digest = hexadecimal(&stored.offer.digest);
        if !epoch.read.contains_key(&digest) {
            let options = GetOptions::new().with_prefix().with_limit(1);
            let found = within(epoch.client.get(format!("{INTERFACES}{digest}/"), Some(options))).await?;
            if let Some(kv) = found.kvs().first() {
                epoch.read.insert(digest.clone(), kv.value().into());
            }
        }
        self.listener.listed(key, stored, epoch.read.get(&digest).cloned());
        Ok(Some(key.to_owned()))
    }

    /// Returns the key of another trader's offer, and its number there.
    fn key_of_other<'k>(&self, key: &'k [u8]) -> Option<(&'k str, u64)> {
        let key = str::from_utf8(key).ok()?;
        let (trader, number) = key.strip_prefix(OFFERS)?.split_once('/')?;
        (trader != self.trader).then_some((key, number.parse().ok()?))
    }

    /// Takes news of keys.
    async fn hear(&mut self, epoch: &mut Epoch, news: &WatchResponse) -> Result<(), Lost> {
        for event in news.events() {
            let Some(kv) = event.kv() else { continue };
            match event.event_type() {
                EventType::Put => {
                    self.learn(epoch, kv).await?;
                }
                EventType::Delete => {
                    if let Some((key, _)) = self.key_of_other(kv.key()) {
                        let is_sure = self.doubts.is_none_or(|doubts| Instant::now() > doubts);
                        self.listener.gone(key, is_sure);
                    }
                    let name = String::from_utf8_lossy(kv.key()).into_owned();
                    if self.names.contains_key(&name) {
                        self.assert_name(epoch, &name).await?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Puts a name if nobody has it, else returns the value that it has.
    async fn put_name(&self, epoch: &mut Epoch, name: &Exclusive) -> Result<Option<Vec<u8>>, Lost> {
        let key = key_of_name(name);
        let value = json!({ "exporter": name.exporter, "trader": self.trader }).to_string();
        let options = PutOptions::new().with_lease(epoch.lease);
        let transaction = Txn::new()
            .when([Compare::version(key.clone(), CompareOp::Equal, 0)])
            .and_then([TxnOp::put(key.clone(), value, Some(options))])
            .or_else([TxnOp::get(key, None)]);
        let done = within(epoch.client.txn(transaction)).await?;
        if done.succeeded() {
            return Ok(None);
        }
        let found = done.op_responses().into_iter().find_map(|response| match response {
            TxnOpResponse::Get(found) => found.kvs().first().map(|kv| kv.value().to_vec()),
            _ => None,
        });
        Ok(Some(found.unwrap_or_default()))
    }

    /// Claims a name for an exporter. Another trader may have it for the same one.
    async fn claim(&mut self, epoch: &mut Epoch, name: &Exclusive) -> Result<Result<(), ClaimError>, Lost> {
        if let Some(other) = self.put_name(epoch, name).await?
            && exporter_of(&other) != Some(name.exporter.clone())
        {
            let Exclusive { service, name, .. } = name.clone();
            return Ok(Err(ClaimError::Taken { service, name }));
        }
        self.names.insert(key_of_name(name), Held { name: name.clone(), offer: None });
        Ok(Ok(()))
    }

    /// Has a name of an own offer be there; tells the trader if another exporter has it.
    async fn assert_name(&mut self, epoch: &mut Epoch, key: &str) -> Result<(), Lost> {
        let Some(held) = self.names.get(key) else { return Ok(()) };
        let other = self.put_name(epoch, &held.name).await?;
        let is_lost = other.is_some_and(|other| exporter_of(&other).as_ref() != Some(&held.name.exporter));
        // A name of an earlier epoch has that epoch's lease.
        if !is_lost {
            return self.renew_name(epoch, key).await;
        }
        if let Some(Held { offer: Some(offer), .. }) = self.names.remove(key) {
            self.listener.lost(offer);
        }
        Ok(())
    }

    /// Gives a name of this trader the lease of this epoch.
    async fn renew_name(&mut self, epoch: &mut Epoch, key: &str) -> Result<(), Lost> {
        let Some(held) = self.names.get(key) else { return Ok(()) };
        let value = json!({ "exporter": held.name.exporter, "trader": self.trader }).to_string();
        let options = PutOptions::new().with_lease(epoch.lease);
        let transaction = Txn::new()
            .when([Compare::value(key, CompareOp::Equal, value.clone())])
            .and_then([TxnOp::put(key, value, Some(options))]);
        within(epoch.client.txn(transaction)).await?;
        Ok(())
    }

    /// Gives a name back, if it is this trader's.
    async fn release(&mut self, epoch: &mut Epoch, key: &str) -> Result<(), Lost> {
        let Some(held) = self.names.remove(key) else { return Ok(()) };
        let value = json!({ "exporter": held.name.exporter, "trader": self.trader }).to_string();
        let transaction = Txn::new()
            .when([Compare::value(key, CompareOp::Equal, value)])
            .and_then([TxnOp::delete(key, None)]);
        within(epoch.client.txn(transaction)).await?;
        Ok(())
    }
}

/// Keeps the lease alive, and hears that it is.
async fn keep_alive(keeper: &mut LeaseKeeper, kept: &mut LeaseKeepAliveStream) -> Result<(), Lost> {
    within(keeper.keep_alive()).await?;
    match within(kept.message()).await? {
        Some(answer) if answer.ttl() > 0 => Ok(()),
        _ => Err(Lost::Lease),
    }
}

/// Returns the exporter in the value of a name.
fn exporter_of(value: &[u8]) -> Option<String> {
    let json: serde_json::Value = serde_json::from_slice(value).ok()?;
    Some(json["exporter"].as_str()?.to_owned())
}
