//! Messages that arrive, and their effects.

use super::*;

impl World {
    pub(super) fn mail(&mut self, from: Node, process: u64, to: Node, msg: Msg) {
        if self.process(to) == 0 {
            // The machine says that nobody listens.
            let answer = match msg {
                Msg::Hello(s)
                | Msg::Teach(s, _)
                | Msg::Export(s, ..)
                | Msg::Renew(s, ..)
                | Msg::Withdraw(s, _)
                | Msg::Find(s, _) => Msg::Broken(s),
                Msg::Open(s) => Msg::Opened(s, false),
                Msg::Run(s, ..) => Msg::Broken(s),
                Msg::Dial(id, trader, _) => Msg::Dialled(id, trader, None),
                _ => return,
            };
            return self.send(to, from, answer);
        }
        match to {
            Node::Trader(at) => self.trader_mail(at, from, process, msg),
            Node::Exporter(at) => self.exporter_mail(at, from, msg),
            Node::Importer(at) => self.importer_mail(at, msg),
        }
        self.step(to);
    }

    fn trader_mail(&mut self, at: usize, from: Node, process: u64, msg: Msg) {
        let now = self.trader_time(at);
        let real = self.now;
        let trader = &mut self.traders[at];
        let session = match &msg {
            Msg::Hello(s) => {
                trader.sessions.insert(*s, (from, process, BTreeMap::new()));
                return self.send(Node::Trader(at), from, Msg::Reply(*s, Reply::Welcome));
            }
            Msg::Dialled(id, of, address) => {
                if *of == self.process(Node::Trader(at)) {
                    let trader = &mut self.traders[at];
                    trader.dialling.remove(id);
                    match address {
                        Some(address) => trader.board.proved(*id, &[address], now),
                        None => trader.board.not_proved(*id, now),
                    }
                }
                return;
            }
            Msg::Teach(s, _)
            | Msg::Export(s, ..)
            | Msg::Renew(s, ..)
            | Msg::Withdraw(s, _)
            | Msg::Find(s, _) => *s,
            _ => return,
        };
        let Some((_, process, leases)) = trader.sessions.get_mut(&session) else {
            return self.send(Node::Trader(at), from, Msg::Broken(session));
        };
        let party = Party { right: &Everything, session };
        let reply = match msg {
            Msg::Teach(_, export) => match trader.board.teach(INTERFACE.as_bytes()) {
                Ok(_) => Reply::Taught(export),
                Err(_) => Reply::Refused(export),
            },
            Msg::Export(_, export, offer) => match trader.board.export(party, *offer, now) {
                Ok(lease) => {
                    leases.insert(export, lease.id);
                    let Node::Exporter(exporter) = from else { return };
                    let account = Account {
                        exporter,
                        process: *process,
                        lease_ms: self.lease_ms,
                        renewed: real,
                        is_withdrawn: false,
                    };
                    if self.check.offers.insert((at, lease.id), account).is_some() {
                        self.fail(format!("trader {at} gives the number {:?} again", lease.id));
                    }
                    Reply::Exported(export, lease.due_ms)
                }
                Err(ExportError::Service(_)) => Reply::Unknown(export),
                Err(_) => Reply::Refused(export),
            },
            Msg::Renew(_, export, load) => {
                let lease = leases.get(&export).copied().unwrap_or_default();
                match trader.board.renew(lease, Renewal { properties: None, load: Some(load) }, now) {
                    Ok(due_ms) => {
                        if let Some(account) = self.check.offers.get_mut(&(at, lease)) {
                            account.renewed = real;
                        }
                        Reply::Renewed(export, due_ms)
                    }
                    Err(RenewError::Gone) => Reply::Gone(export),
                    Err(RenewError::Offer(error)) => return self.fail(error.to_string()),
                }
            }
            Msg::Withdraw(_, export) => {
                let lease = leases.get(&export).copied().unwrap_or_default();
                if trader.board.withdraw(lease, now)
                    && let Some(account) = self.check.offers.get_mut(&(at, lease))
                {
                    account.is_withdrawn = true;
                }
                Reply::Withdrawn(export)
            }
            Msg::Find(_, ask) => {
                let Node::Importer(importer) = from else { return };
                let host = Some(format!("h{}", importer % 2));
                let service = ["Base", "Store"][importer % 2].into();
                let question = Question { service, digest: Some(self.digest), host, ..Question::default() };
                let seed = self.random.u64(..);
                let mut found = trader.board.import(party, &question, seed, now);
                if found == Err(ImportError::UnknownInterface)
                    && trader.board.teach(INTERFACE.as_bytes()).is_ok()
                {
                    found = trader.board.import(party, &question, seed, now);
                }
                let offers = match found {
                    Ok(found) => found.offers,
                    Err(error) => return self.fail(error.to_string()),
                };
                self.judge_answer(at, importer, &offers);
                Reply::Found(ask, offers)
            }
            _ => return,
        };
        self.send(Node::Trader(at), from, Msg::Reply(session, reply));
    }

    fn exporter_mail(&mut self, at: usize, from: Node, msg: Msg) {
        let now = self.now;
        let own = Node::Exporter(at);
        let exporter = &mut self.exporters[at];
        match msg {
            Msg::Reply(session, reply) => {
                let Some(via) = exporter.sessions.get(&session).copied() else { return };
                let event = match reply {
                    Reply::Welcome => exporter::Event::Connected(via),
                    Reply::Taught(export) => exporter::Event::Taught(via, export),
                    Reply::Exported(export, due_ms) => exporter::Event::Exported(via, export, due_ms),
                    Reply::Unknown(export) => exporter::Event::UnknownInterface(via, export),
                    Reply::Refused(export) => exporter::Event::Refused(via, export),
                    Reply::Renewed(export, due_ms) => exporter::Event::Renewed(via, export, due_ms),
                    Reply::Gone(export) if self.bug == Some(Bug::GoneIgnored) => {
                        exporter::Event::Renewed(via, export, 5_000)
                    }
                    Reply::Gone(export) => exporter::Event::Gone(via, export),
                    Reply::Withdrawn(export) => exporter::Event::Withdrawn(via, export),
                    Reply::Found(..) => return,
                };
                exporter.machine.handle(event, now);
            }
            Msg::Broken(session) => {
                let is_ignored = self.bug == Some(Bug::LossIgnored);
                if let Some(via) = exporter.sessions.remove(&session).filter(|_| !is_ignored) {
                    exporter.machine.handle(exporter::Event::Lost(via), now);
                }
            }
            Msg::Dial(id, process, address) => {
                // A server that lies does not have the object at the address that it told.
                let found = !address.contains("lie");
                if found {
                    let process = self.process(own);
                    self.check.proved.insert((at, process));
                }
                self.send(own, from, Msg::Dialled(id, process, found.then_some(address)));
            }
            Msg::Open(connection) => {
                exporter.connections.insert(connection);
                self.send(own, from, Msg::Opened(connection, true));
            }
            Msg::Run(connection, ..) if !exporter.connections.contains(&connection) => {
                self.send(own, from, Msg::Broken(connection));
            }
            Msg::Run(connection, batch, kind) => {
                let is_known = kind == Batch::Named && !self.check.stored.insert((at % 2, batch));
                if !is_known {
                    let ran = self.check.ran.entry(batch).or_default();
                    *ran += 1;
                    if *ran > 1 {
                        self.fail(format!("batch {batch} ran a second time, {kind:?}"));
                    }
                }
                self.send(own, from, Msg::Done(connection, batch));
            }
            _ => {}
        }
    }

    fn importer_mail(&mut self, at: usize, msg: Msg) {
        let (now, importer) = (self.now, &mut self.importers[at]);
        match msg {
            Msg::Reply(session, Reply::Welcome) => {
                if let Some((trader, ask)) = importer.asked.remove(&session) {
                    importer.asks.insert(session, ask);
                    self.send(Node::Importer(at), Node::Trader(trader), Msg::Find(session, ask));
                }
            }
            Msg::Reply(session, Reply::Found(ask, offers)) if importer.asks.remove(&session).is_some() => {
                importer.machine.handle(importer::Event::Found(ask, offers), now);
            }
            Msg::Broken(number) => {
                let ask =
                    importer.asks.remove(&number).or(importer.asked.remove(&number).map(|(_, ask)| ask));
                if let Some(ask) = ask {
                    importer.machine.handle(importer::Event::AskFailed(ask), now);
                } else if importer.using.is_some_and(|(using, _)| using == number) {
                    self.lose(at, Loss::Lost(Ran::No));
                }
            }
            Msg::Opened(connection, is_open) => {
                let Some((dial, _)) = importer.dials.get(&connection).copied() else { return };
                let event =
                    if is_open { importer::Event::Opened(dial) } else { importer::Event::DialFailed(dial) };
                importer.machine.handle(event, now);
            }
            Msg::Done(connection, batch) => {
                let is_own = importer.using.is_some_and(|(using, _)| using == connection)
                    && importer.batch.is_some_and(|(number, _)| number == batch);
                if is_own {
                    importer.batch = None;
                    importer.machine.release_store();
                    importer.next_run = now + 2_000;
                    self.check.acknowledged.insert(batch);
                    if self.check.ran.get(&batch) != Some(&1) {
                        self.fail(format!("batch {batch} is acknowledged and did not run"));
                    }
                    self.check.late_batches[at] += usize::from(now > self.quiet);
                }
            }
            _ => {}
        }
    }

    /// An importer has lost its server.
    pub(super) fn lose(&mut self, at: usize, loss: Loss) {
        let (now, importer) = (self.now, &mut self.importers[at]);
        let kind = importer.batch.map_or(Batch::Nothing, |(_, kind)| kind);
        let mut next = failover(loss, kind);
        if self.bug == Some(Bug::RunsAgain) {
            next = failover(Loss::NoConnection, kind);
        }
        importer.using = None;
        importer.machine.handle(importer::Event::Lost(next), now);
    }
}
