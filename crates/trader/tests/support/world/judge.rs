//! The invariants, and the scenes that are played when the faults are over.

use super::*;

impl World {
    /// Leases that have ended: none before its time, nor before the end of a lease after a gap.
    pub(super) fn judge_ended(&mut self, at: usize, ended: &[OfferId]) {
        for id in ended {
            let Some(account) = self.check.offers.get(&(at, *id)).cloned() else { continue };
            let since = account.renewed.max(self.traders[at].sure_gap_end);
            if self.now < since + account.lease_ms {
                self.fail(format!(
                    "trader {at} ends a lease early: {id:?}, {account:?}, last seen at {since}"
                ));
            }
        }
    }

    /// All offers that a trader lists, at times.
    pub(super) fn judge_listed(&mut self, at: usize) {
        if self.now < self.traders[at].judged + 500 {
            return;
        }
        self.traders[at].judged = self.now;
        for offer in self.listed(at) {
            self.judge_offer(at, &offer);
        }
    }

    fn listed(&mut self, at: usize) -> Vec<Offer> {
        let now = self.trader_time(at);
        let party = Party { right: &Everything, session: 0 };
        self.traders[at].board.offers(party, Page { most: 1_000, ..Page::default() }, now)
    }

    fn judge_offer(&mut self, at: usize, offer: &Offer) {
        let Some(account) = self.check.offers.get(&(at, offer.id)).cloned() else {
            return self.fail(format!("trader {at} lists {:?}, which nobody exported", offer.id));
        };
        if account.is_withdrawn {
            self.fail(format!("trader {at} lists {:?}, which was withdrawn", offer.id));
        }
        if !self.check.proved.iter().any(|(exporter, _)| *exporter == account.exporter) {
            self.fail(format!("trader {at} lists {offer:?}, which was not proved"));
        }
        // A clock that was set back loses the time since it was looked at.
        let end = account.renewed.max(self.traders[at].gap_end) + account.lease_ms + 1_000;
        if !offer.doubtful && self.now > end {
            self.fail(format!("trader {at} lists {:?} after its lease: {account:?}", offer.id));
        }
        if let Some(ended) = self.check.ended.get(&account.process) {
            let last = (ended + DELAY_MS_MAX).max(self.traders[at].gap_end) + account.lease_ms + 1_000;
            if !offer.doubtful && self.now > last {
                self.fail(format!("trader {at} lists {:?}, whose exporter ended at {ended}", offer.id));
            }
        }
    }

    /// The answer to an import.
    pub(super) fn judge_answer(&mut self, at: usize, importer: usize, offers: &[Offer]) {
        let host = format!("h{}", importer % 2);
        for offer in offers {
            self.judge_offer(at, offer);
            let is_local = |address: &std::sync::Arc<str>| address.starts_with("unix");
            if offer.host() != Some(&host) && offer.addresses.iter().any(is_local) {
                self.fail(format!("trader {at} tells a local address to {host}: {offer:?}"));
            }
        }
        if !offers.is_sorted_by_key(|offer| offer.doubtful) {
            self.fail(format!("trader {at} puts doubtful offers before others"));
        }
    }

    /// The exporters that live and tell the truth.
    pub fn living(&self) -> Vec<usize> {
        let all = 0..self.exporters.len();
        all.filter(|at| self.is_awake(Node::Exporter(*at)) && !self.exporters[*at].lies).collect()
    }

    /// The living exporters of exactly one type, if there are three.
    pub fn three_of_a_type(&self) -> Option<Vec<usize>> {
        let of_type = |service| -> Vec<usize> {
            self.living().into_iter().filter(|at| self.exporters[*at].service == service).collect()
        };
        [of_type("Store"), of_type("Fast")].into_iter().find(|all| all.len() >= 3)
    }

    /// Each living exporter is listed at each trader, once, and not doubtful; those that stop
    /// are not asked for.
    pub fn judge_whole(&mut self) {
        for at in 0..TRADERS {
            let listed = self.listed(at);
            for exporter in self.living() {
                let process = self.process(Node::Exporter(exporter));
                let own = listed.iter().filter(|offer| {
                    self.check.offers.get(&(at, offer.id)).is_some_and(|account| account.process == process)
                });
                let states: Vec<bool> = own.map(|offer| offer.doubtful).collect();
                if states != [false] {
                    self.fail(format!("exporter {exporter} is listed so at trader {at}: {states:?}"));
                }
            }
        }
    }

    /// Cuts exporters off from all traders for some time.
    pub fn cut_off(&mut self, exporters: &[usize], ms: u64) {
        for exporter in exporters {
            for at in 0..TRADERS {
                self.cuts.insert((Node::Trader(at), Node::Exporter(*exporter)), self.now + ms);
            }
        }
    }

    /// Each of these exporters is listed at each trader, as doubtful.
    pub fn judge_doubtful(&mut self, processes: &[u64]) {
        for at in 0..TRADERS {
            for process in processes {
                let listed = self.listed(at);
                let is_own = |offer: &&Offer| {
                    self.check.offers.get(&(at, offer.id)).is_some_and(|account| account.process == *process)
                };
                if !listed.iter().filter(is_own).any(|offer| offer.doubtful) {
                    self.fail(format!("process {process} is not listed as doubtful at trader {at}"));
                }
            }
        }
    }

    /// None of these processes is listed.
    pub fn judge_gone(&mut self, processes: &[u64]) {
        for at in 0..TRADERS {
            for offer in self.listed(at) {
                let account = self.check.offers.get(&(at, offer.id));
                if account.is_some_and(|account| processes.contains(&account.process)) {
                    self.fail(format!("trader {at} lists {offer:?}, which is gone"));
                }
            }
        }
    }

    /// The processes of exporters.
    pub fn processes(&self, exporters: &[usize]) -> Vec<u64> {
        exporters.iter().map(|at| self.process(Node::Exporter(*at))).collect()
    }

    /// Stops exporters in order.
    pub fn stop(&mut self, exporters: &[usize]) {
        for at in exporters {
            let now = self.now;
            self.exporters[*at].machine.handle(exporter::Event::Stop, now);
            self.step(Node::Exporter(*at));
        }
    }

    /// Each importer has been served since the faults ended.
    pub fn judge_served(&mut self) {
        if !self.living().is_empty() && self.check.late_batches.contains(&0) {
            self.fail(format!("importers were served so many times: {:?}", self.check.late_batches));
        }
    }
}
