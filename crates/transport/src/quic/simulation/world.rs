//! [`World`]: a server, its clients, the net between them and their faults, by a seed.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::SocketAddr;
use std::time::Instant;

use super::configs::Configs;
use super::plans::{self, Fault, Layout};
use super::process::{Clock, Packet, Process, Seeds, Shared};
use super::sessions::{Manner, Session};
use super::tasks::{HARD, Task};
use super::truth::Truth;

/// The part of a process above its links.
enum Role {
    Server { sessions: Vec<Session>, manner: Manner },
    Client { conn: Option<Shared>, retry: u64, tasks: Vec<Task> },
}

/// A process of the world, with the place where it runs.
struct Host {
    process: Process,
    role: Role,
    seeds: Seeds,
    /// Until when it is stopped, or not started again.
    stopped: u64,
    down: u64,
    /// True if nothing comes in, or goes out.
    cut: (bool, bool),
    due: u64,
}

/// The datagrams of an address at the server.
#[derive(Default)]
struct Path {
    came: u64,
    went: u64,
    /// The paths of connections that have begun there.
    begun: u64,
    /// True if a connection has moved there: then quinn-proto counts the bytes of its other
    /// addresses, too.
    is_moved: bool,
    /// True once its owner has received something, and may have proved the address.
    is_reached: bool,
}

/// A server, its clients, and the net.
pub(super) struct World {
    pub truth: Truth,
    clock: Clock,
    random: fastrand::Rng,
    layout: Layout,
    configs: Configs,
    hosts: Vec<Host>,
    addresses: HashMap<SocketAddr, usize>,
    net: BTreeMap<(u64, u64), Packet>,
    counter: u64,
    faults: VecDeque<(u64, Fault)>,
    paths: HashMap<SocketAddr, Path>,
    /// All bytes that have come to the server.
    came: u64,
    /// Datagrams that the attacker has seen.
    seen: VecDeque<Packet>,
    spins: (u64, u32),
}

/// The datagrams that the net carries at a time. A closing client and a server that asks for proofs
/// answer each other for some round trips, and a net that repeats datagrams multiplies them.
const NET: usize = 1_500;
/// The pause before a client connects again.
const RETRY: u64 = 100_000;
/// The time in which all calls of a world end, after its last fault.
const LIMIT: u64 = 900_000_000;
/// The time after which nothing is left of sessions: a process learns by silence that its peer is
/// gone, and long faults make that longer.
const REST: u64 = 600_000_000;
/// The time after which nothing is left of connections: the silence, and more.
const LEFT: u64 = 1_000_000_000;

fn address(host: usize, port: u16) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1 + host as u8], port))
}

fn attacker(random: &mut fastrand::Rng) -> SocketAddr {
    SocketAddr::from(([10, 9, 9, 9], random.u16(1000..1004)))
}

impl World {
    pub(super) fn new(seed: u64, has_tls: bool) -> World {
        let mut random = fastrand::Rng::with_seed(seed);
        let layout = plans::layout(&mut random);
        let configs = Configs::new(seed, layout.is_local, has_tls);
        let clock = Clock(Instant::now());
        let mut world = World {
            truth: Truth::new(),
            clock,
            layout,
            configs,
            hosts: Vec::new(),
            addresses: HashMap::new(),
            net: BTreeMap::new(),
            counter: 0,
            faults: VecDeque::new(),
            paths: HashMap::new(),
            came: 0,
            seen: VecDeque::new(),
            spins: (0, 0),
            random,
        };
        let faults = plans::faults(&mut world.random, &mut world.layout);
        world.truth.calm = faults.last().map_or(0, |(at, _)| *at);
        world.truth.settled = world.truth.calm + 6 * world.layout.longest;
        let usual = world.layout.weather.mtu;
        // A path that cannot be proved at once holds up all for some round trips and pauses. The
        // attacker moves paths to its own address, for a while.
        let moves = faults.iter().any(|(_, fault)| matches!(fault, Fault::Move { .. }));
        // Packets that have become too long are lost, one after the other, and the pauses double.
        let shrinks = faults.iter().any(|(_, fault)| matches!(fault, Fault::Mtu(bytes) if *bytes != usual));
        // After a long fault some of these round trips are as long as the fault was.
        if shrinks {
            world.truth.soon = 4 * HARD + 12 * world.layout.longest;
        } else if moves || world.layout.weather.replay > 0.0 {
            world.truth.soon = HARD + 12 * world.layout.longest;
        }
        world.faults = faults.into();
        let manner = world.layout.manner;
        world.place(0, Role::Server { sessions: Vec::new(), manner });
        let mut numbers = 0;
        for host in 1..=world.layout.clients {
            let tasks = plans::tasks(&mut world.random, &world.layout, &mut numbers);
            world.place(host, Role::Client { conn: None, retry: 0, tasks });
        }
        world
    }

    fn place(&mut self, host: usize, role: Role) {
        let seeds = Seeds { key: self.random.u64(..), incarnation: self.random.u64(..) };
        let process = self.process(host, seeds);
        self.addresses.insert(process.address, host);
        self.hosts.push(Host { process, role, seeds, stopped: 0, down: 0, cut: (false, false), due: 0 });
    }

    fn process(&mut self, host: usize, seeds: Seeds) -> Process {
        let at = match self.hosts.get(host) {
            Some(host) => host.process.address,
            None => address(host, 443),
        };
        let config = (host == 0).then(|| self.configs.server());
        let mut process = Process::new(self.clock, at, seeds, config);
        process.proves = self.layout.proves;
        process
    }

    /// Lives until all calls have ended, and then until nothing is left.
    pub(super) fn live(&mut self) {
        let limit = self.truth.calm + LIMIT;
        self.run(limit, |world| world.is_done());
        if self.truth.failure.is_none() && !self.is_done() {
            let tasks: Vec<String> =
                self.tasks().filter(|task| !task.is_done()).map(Task::describe).collect();
            self.truth.fail(|| format!("calls that do not end: {tasks:?}"));
        }
        // Ends that are under way arrive.
        let rest = self.truth.now.max(self.truth.calm) + REST;
        self.run(rest, |world| world.has_no_streams());
        self.judge_streams();
        for host in &mut self.hosts[1..] {
            let Role::Client { conn: Some(conn), .. } = &host.role else { continue };
            let mut conn = conn.borrow_mut();
            if conn.link.lost().is_none() && self.random.u8(..4) > 0 {
                conn.link.end(self.clock.at(self.truth.now), 0, "the client has ended");
            }
            conn.touched = true;
            host.due = self.truth.now;
        }
        let rest = self.truth.now + LEFT;
        self.run(rest, |_| false);
        self.judge_rest();
        self.truth.seen.packets = self.counter;
    }

    fn tasks(&self) -> impl Iterator<Item = &Task> {
        self.hosts.iter().flat_map(|host| match &host.role {
            Role::Client { tasks, .. } => &tasks[..],
            Role::Server { .. } => &[],
        })
    }

    fn is_done(&self) -> bool {
        self.truth.now >= self.truth.calm && self.tasks().all(Task::is_done)
    }

    fn has_no_streams(&self) -> bool {
        let is_idle = |conn: &Shared| conn.borrow_mut().link.is_unused();
        self.hosts.iter().all(|host| {
            let has_sessions = matches!(&host.role, Role::Server { sessions, .. } if !sessions.is_empty());
            !has_sessions && host.process.conns.values().all(is_idle)
        })
    }

    fn judge_streams(&mut self) {
        for (at, host) in self.hosts.iter().enumerate() {
            for conn in host.process.conns.values() {
                let mut conn = conn.borrow_mut();
                let (streams, waiting) = (conn.link.streams(), conn.link.waiting().len());
                if streams + waiting > 0 || !conn.link.is_unused() {
                    let what = format!("process {at} keeps {streams} streams or their bytes, {waiting} wait");
                    self.truth.fail(|| what);
                }
            }
            if let Role::Server { sessions, .. } = &host.role
                && !sessions.is_empty()
            {
                let count = sessions.len();
                self.truth.fail(|| format!("{count} sessions do not end"));
            }
        }
    }

    fn judge_rest(&mut self) {
        for (at, host) in self.hosts.iter().enumerate() {
            let (links, open) = (host.process.conns.len(), host.process.endpoint.open_connections());
            if links + open > 0 || host.due != u64::MAX {
                let due = host.due;
                self.truth.fail(|| format!("process {at} keeps {links} links, {open} open, timer {due}"));
            }
        }
        if !self.net.is_empty() {
            self.truth.fail(|| "datagrams are sent without end".to_owned());
        }
    }

    /// Runs until a time, or until something is so, or has failed.
    fn run(&mut self, limit: u64, is_enough: impl Fn(&World) -> bool) {
        while self.truth.failure.is_none() && !is_enough(self) {
            let net = self.net.first_key_value().map(|((at, _), _)| *at);
            let fault = self.faults.front().map(|(at, _)| *at);
            let due = self.hosts.iter().map(|host| host.due.max(host.stopped)).min();
            let next = [net, fault, due].into_iter().flatten().min().unwrap_or(u64::MAX);
            if next > limit {
                self.truth.now = limit;
                return;
            }
            self.truth.now = self.truth.now.max(next);
            self.judge_time();
            if fault == Some(next) {
                if let Some((_, fault)) = self.faults.pop_front() {
                    self.strike(fault);
                }
            } else if net == Some(next) {
                if let Some((_, packet)) = self.net.pop_first() {
                    self.deliver(packet);
                }
            } else {
                for host in 0..self.hosts.len() {
                    if self.hosts[host].due.max(self.hosts[host].stopped) <= self.truth.now {
                        self.turn(host);
                    }
                }
            }
        }
    }

    /// Judges that timers do not stand still.
    fn judge_time(&mut self) {
        if self.spins.0 == self.truth.now {
            self.spins.1 += 1;
            if self.spins.1 > 100_000 {
                let due: Vec<u64> = self.hosts.iter().map(|host| host.due).collect();
                self.truth.fail(|| format!("time stands still; timers {due:?}"));
            }
        } else {
            self.spins = (self.truth.now, 0);
        }
    }

    /// A process works: it takes datagrams, runs timers, and its users go on.
    fn turn(&mut self, at: usize) {
        let (now, clock) = (self.truth.now, self.clock);
        let host = &mut self.hosts[at];
        if host.stopped > now {
            return;
        }
        let truth = &mut self.truth;
        host.process.receive(now, truth);
        host.process.expire(now);
        host.process.pump(now);
        match &mut host.role {
            Role::Server { sessions, manner } => {
                for conn in host.process.conns.values().map(|conn| conn.borrow()) {
                    if let (Some(_), Some(name)) = (conn.link.lost(), conn.name) {
                        truth.gone(name);
                    }
                }
                for (conn, id) in host.process.accepted.drain(..) {
                    sessions.push(Session::new(conn, id, *manner));
                }
                for session in &mut *sessions {
                    session.look(truth);
                    session.step(clock, truth);
                    session.look(truth);
                }
                sessions.retain(|session| !session.is_over);
            }
            Role::Client { conn, retry, tasks } => {
                let is_lost = conn.as_ref().is_none_or(|conn| conn.borrow().link.lost().is_some());
                if is_lost && tasks.iter().any(|task| task.wants_stream(now)) && now >= *retry {
                    *retry = now + RETRY;
                    *conn = host.process.connect(now, self.configs.client(), address(0, 443));
                    truth.seen.links += 1;
                }
                for task in tasks {
                    task.look(clock, truth);
                    task.step(clock, conn.as_ref(), truth);
                    task.look(clock, truth);
                }
            }
        }
        host.process.pump(now);
        host.due = host.next(now);
        for (path, is_moved) in host.process.paths.drain(..).filter(|_| at == 0) {
            let path = self.paths.entry(path).or_default();
            path.begun += 1;
            path.is_moved |= is_moved;
        }
        for packet in std::mem::take(&mut host.process.sent) {
            self.send(at, packet);
        }
    }

    fn strike(&mut self, fault: Fault) {
        let now = self.truth.now;
        match fault {
            Fault::Cut { host, cut } => self.hosts[host].cut = cut,
            Fault::Stop { host, time } => {
                self.hosts[host].stopped = now + time;
                self.hosts[host].due = self.hosts[host].due.min(now + time);
            }
            Fault::Move { host } => {
                let old = self.hosts[host].process.address;
                let new = address(host, old.port() + 1);
                self.addresses.remove(&old);
                self.addresses.insert(new, host);
                self.hosts[host].process.address = new;
            }
            Fault::Restart { host, down } => {
                let seeds = Seeds { incarnation: self.random.u64(..), ..self.hosts[host].seeds };
                let process = self.process(host, seeds);
                if host == 0 {
                    self.paths.clear();
                    self.truth.server_gone();
                }
                let host = &mut self.hosts[host];
                (host.process, host.seeds) = (process, seeds);
                (host.down, host.stopped, host.due) = (now + down, now + down, now + down);
                match &mut host.role {
                    Role::Server { sessions, .. } => sessions.clear(),
                    Role::Client { conn, tasks, .. } => {
                        *conn = None;
                        tasks.iter_mut().for_each(Task::forget);
                    }
                }
            }
            Fault::EndAll => {
                self.truth.server_gone();
                for conn in self.hosts[0].process.conns.values() {
                    let mut conn = conn.borrow_mut();
                    if conn.link.lost().is_none() {
                        conn.link.end(self.clock.at(now), 0, "the server has ended");
                        conn.touched = true;
                    }
                }
                self.hosts[0].due = now;
            }
            Fault::Mtu(bytes) => self.layout.weather.mtu = bytes,
            Fault::Calm => self.layout.weather = self.layout.weather.calm(),
        }
    }

    fn send(&mut self, from: usize, packet: Packet) {
        let Packet { to, bytes, .. } = &packet;
        self.truth.note(b's', from as u64 ^ u64::from(to.port()) << 8, bytes);
        if from == 0 {
            let path = self.paths.entry(*to).or_default();
            path.went += bytes.len() as u64;
            // quinn-proto sends a last packet if there is a byte of room.
            let came = if path.is_moved { self.came } else { path.came };
            if !path.is_reached && path.went > 3 * came + path.begun * self.layout.packet {
                let Path { went, begun, .. } = path;
                let what =
                    format!("{went} bytes went to {to}, which is not proved: {came} came, {begun} paths");
                self.truth.fail(|| what);
            }
        }
        self.attack(&packet);
        if self.hosts[from].cut.1 {
            return;
        }
        self.carry(packet);
    }

    /// The attacker sees a datagram.
    fn attack(&mut self, packet: &Packet) {
        let weather = self.layout.weather;
        if weather.replay > 0.0 {
            self.seen.push_back(packet.clone());
            if self.seen.len() > 64 {
                self.seen.pop_front();
            }
            if self.random.f64() < weather.replay {
                let mut old = self.seen[self.random.usize(..self.seen.len())].clone();
                if self.random.bool() {
                    old.from = attacker(&mut self.random);
                }
                self.carry(old);
            }
        }
        if self.random.f64() < weather.forge {
            let mut forged = packet.clone();
            plans::forge(&mut self.random, &mut forged.bytes);
            if self.random.bool() {
                forged.from = attacker(&mut self.random);
            }
            self.carry(forged);
        }
    }

    /// The net carries a datagram, or loses it.
    fn carry(&mut self, mut packet: Packet) {
        let weather = self.layout.weather;
        let copies = 1 + usize::from(self.random.f64() < weather.duplicate);
        for _ in 0..copies {
            let is_full = self.net.len() >= NET;
            if self.random.f64() < weather.loss || packet.bytes.len() > weather.mtu || is_full {
                continue;
            }
            let mut delay = weather.delay + self.random.u64(..=weather.jitter);
            if self.random.f64() < weather.late {
                delay += self.random.u64(..2_000_000);
            }
            if self.random.f64() < weather.flip {
                let bit = self.random.usize(..8 * packet.bytes.len());
                packet.bytes[bit / 8] ^= 1 << (bit % 8);
            }
            self.counter += 1;
            self.net.insert((self.truth.now + delay, self.counter), packet.clone());
        }
    }

    fn deliver(&mut self, packet: Packet) {
        let Some(at) = self.addresses.get(&packet.to).copied() else { return };
        let now = self.truth.now;
        let host = &mut self.hosts[at];
        if host.cut.0 || host.down > now {
            return;
        }
        self.truth.note(b'r', at as u64, &[]);
        if at == 0 {
            self.paths.entry(packet.from).or_default().came += packet.bytes.len() as u64;
            self.came += packet.bytes.len() as u64;
        } else if packet.from == address(0, 443) {
            self.paths.entry(packet.to).or_default().is_reached = true;
        }
        host.process.put(packet);
        if host.stopped <= now {
            self.turn(at);
        } else {
            host.due = host.due.min(host.stopped);
        }
    }
}

impl Host {
    fn next(&self, now: u64) -> u64 {
        let users = match &self.role {
            Role::Server { sessions, .. } => sessions.iter().filter_map(Session::due).min(),
            Role::Client { tasks, retry, conn } => {
                let waits = conn.as_ref().is_none_or(|conn| conn.borrow().link.lost().is_some())
                    && tasks.iter().any(|task| task.wants_stream(now));
                // A task that waits for a connection is woken by it.
                let due = tasks.iter().filter_map(Task::due).filter(|at| *at > now).min();
                [due, waits.then_some(*retry)].into_iter().flatten().min()
            }
        };
        [users, self.process.due()].into_iter().flatten().min().unwrap_or(u64::MAX)
    }
}
