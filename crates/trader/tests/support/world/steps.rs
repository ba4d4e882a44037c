//! The steps of nodes: their machines are polled, and the actions carried out.

use super::*;

impl World {
    /// Polls a node until nothing is due, and wakes it when it is.
    pub(super) fn step(&mut self, node: Node) {
        if !self.is_awake(node) {
            return;
        }
        let next = match node {
            Node::Trader(at) => self.step_trader(at),
            Node::Exporter(at) => self.step_exporter(at),
            Node::Importer(at) => self.step_importer(at),
        };
        let (Some(next), now, number) = (next, self.now, self.process(node)) else { return };
        let Some(process) = self.processes.get_mut(&node).filter(|process| process.number != 0) else {
            return;
        };
        let next = next.max(now + 1);
        if process.wake == 0 || next < process.wake {
            process.wake = next;
            self.at(next - now, Happening::Wake(node, number));
        }
    }

    fn step_trader(&mut self, at: usize) -> Option<u64> {
        let now = self.trader_time(at);
        let ended = self.traders[at].board.expire(now);
        self.judge_ended(at, &ended);
        for to_prove in self.traders[at].board.to_prove(now) {
            let id = to_prove.offer.id;
            let trader = &mut self.traders[at];
            trader.last_dial += 1;
            let number = trader.last_dial;
            trader.dialling.insert(id, number);
            let process = self.process(Node::Trader(at));
            for address in &to_prove.offer.addresses {
                let server = server(address);
                self.send(
                    Node::Trader(at),
                    Node::Exporter(server),
                    Msg::Dial(id, process, address.to_string()),
                );
            }
            self.at(PATIENCE_MS, Happening::DialLate(at, process, id, number));
        }
        self.judge_listed(at);
        Some(self.now + self.traders[at].board.next_deadline().saturating_sub(now))
    }

    fn step_exporter(&mut self, at: usize) -> Option<u64> {
        let (own, now) = (Node::Exporter(at), self.now);
        while let Some(action) = self.exporters[at].machine.poll(now) {
            let session_of = |sessions: &BTreeMap<u64, Via>, via: Via| {
                sessions.iter().find(|(_, known)| **known == via).map(|(session, _)| *session)
            };
            let sessions = &mut self.exporters[at].sessions;
            let (via, msg) = match action {
                exporter::Action::Connect(via) => {
                    self.last_session += 1;
                    sessions.insert(self.last_session, via);
                    (via, Msg::Hello(self.last_session))
                }
                exporter::Action::Close(via) => {
                    sessions.retain(|_, known| *known != via);
                    continue;
                }
                exporter::Action::Teach(via, export) => {
                    (via, Msg::Teach(session_of(sessions, via).unwrap_or_default(), export))
                }
                exporter::Action::Export(via, export) => {
                    let session = session_of(sessions, via).unwrap_or_default();
                    (via, Msg::Export(session, export, Box::new(self.export(at))))
                }
                exporter::Action::Renew(via, export) => {
                    let session = session_of(sessions, via).unwrap_or_default();
                    (via, Msg::Renew(session, export, self.random.f64()))
                }
                exporter::Action::Withdraw(via, export) => {
                    (via, Msg::Withdraw(session_of(sessions, via).unwrap_or_default(), export))
                }
                exporter::Action::Stopped => {
                    self.kill(own);
                    return None;
                }
            };
            self.send(own, Node::Trader(via.trader), msg);
        }
        self.exporters[at].machine.next_deadline()
    }

    /// The offer of an exporter.
    fn export(&self, at: usize) -> Export {
        let (process, node) = (self.process(Node::Exporter(at)), &self.exporters[at]);
        let host = if node.lies { "lie" } else { "e" };
        let properties: Properties = [
            ("host", Value::String(format!("h{}", at % 2))),
            ("incarnation", Value::Int(process as i64)),
            ("store", Value::String(format!("s{}", at % 2))),
        ]
        .into_iter()
        .collect();
        Export {
            service: node.service.into(),
            digest: self.digest,
            name: format!("object{at}"),
            addresses: vec![format!("tcp://{host}{at}:1"), format!("unix:///{host}{at}")],
            properties,
            load: Some(0.5),
            lease_ms: Some(self.lease_ms),
            exclusive: false,
        }
    }

    fn step_importer(&mut self, at: usize) -> Option<u64> {
        let (own, now) = (Node::Importer(at), self.now);
        loop {
            let importer = &mut self.importers[at];
            let Some(action) = importer.machine.poll(now) else { break };
            match action {
                importer::Action::Ask(ask, trader) => {
                    self.last_session += 1;
                    importer.asked.insert(self.last_session, (trader, ask));
                    self.send(own, Node::Trader(trader), Msg::Hello(self.last_session));
                }
                importer::Action::Dial(dial, _, address) => {
                    self.last_session += 1;
                    let (connection, server) = (self.last_session, server(&address));
                    importer.dials.insert(connection, (dial, server));
                    self.send(own, Node::Exporter(server), Msg::Open(connection));
                }
                importer::Action::Cancel(dial) => importer.dials.retain(|_, (known, _)| *known != dial),
                importer::Action::Use(dial, ..) => {
                    let used = importer.dials.iter().find(|(_, (known, _))| *known == dial);
                    importer.using = used.map(|(connection, (_, server))| (*connection, *server));
                    importer.dials.clear();
                    self.run(at);
                }
                importer::Action::Fail(_) => {
                    let options = importer_options(at);
                    importer.machine = Importer::new(options, TRADERS, self.random.u64(..), now);
                    importer.batch = None;
                    importer.asked.clear();
                    importer.asks.clear();
                    importer.dials.clear();
                }
            }
        }
        let importer = &self.importers[at];
        if importer.using.is_none() {
            return importer.machine.next_deadline();
        }
        if importer.batch.is_some() {
            return None;
        }
        if importer.next_run > now {
            return Some(importer.next_run);
        }
        self.last_batch += 1;
        let kind = if self.random.bool() { Batch::Named } else { Batch::Plain };
        self.importers[at].batch = Some((self.last_batch, kind));
        self.run(at);
        None
    }

    /// Sends the batch of an importer, if it has one.
    fn run(&mut self, at: usize) {
        let importer = &self.importers[at];
        let (Some((connection, server)), Some((batch, kind))) = (importer.using, importer.batch) else {
            return;
        };
        self.send(Node::Importer(at), Node::Exporter(server), Msg::Run(connection, batch, kind));
        self.at(PATIENCE_MS, Happening::Late(at, connection, batch));
    }
}

/// The exporter that an address leads to; an address that lies leads to the first one.
fn server(address: &str) -> usize {
    if address.contains("lie") {
        return 0;
    }
    let place = address.split("://").nth(1).unwrap_or_default().trim_start_matches('/');
    place.trim_start_matches('e').split(':').next().and_then(|n| n.parse().ok()).unwrap_or_default()
}
