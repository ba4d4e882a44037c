//! The search for requests that wait for themselves over several nodes. The requests of one node
//! are searched in [`cycles`](crate::cycles). The functions to read first are [`tell`], [`accept`]
//! and `join_when_due`; the state is in [`Rounds`](crate::between::round_waits::Rounds).
//!
//! Each node tells the first one its waits: which answers to requests of others cannot come before
//! which of its own requests are answered ([`WAITS`]). Each wait stays true until the request is
//! answered, and names requests that are never the same again. So waits of any time, of any node,
//! may be joined. If they close a round, none of its requests can be the first that is answered,
//! whatever has happened since. No picture of all nodes at one time is needed, and no false wait is
//! told.
//!
//! ```text
//! node                                     first node
//! WAITS   the waits of the node       ->   joins the waits of all nodes; for each round:
//!                                     <-   CUT     the requests of the round
//! fails a queued request of its part,
//! or passes CUT on to the next node
//! CUT_DONE                            ->   when all rounds are cut: forgets all waits
//!                                     <-   ASK     a new number; others are ignored
//! WAITS                               ->   ...
//! ```
//!
//! A node tells its waits when it has looked at all its requests ([`look_at_all`]), and only if it
//! has new ones. A request is left out that was made since it looked before. The first node asks
//! all when nothing can happen any more ([`may_go_on`]).

use std::hash::Hash;

use bifrost_runtime::cx::Cx;
use rustc_hash::FxHashMap;

use crate::between::kinds::{ASK, CUT, CUT_DONE, WAITS};
use crate::between::line;
use crate::between::line::Line;
use crate::between::packet::{Wrong, number, numbers, put};
use crate::between::round_waits::{Request, WAITS_MAX, Waits};
use crate::between::write::settle_open;
use crate::context::WithActors;
use crate::cycles::waits::{Waiter, each_waiter, waiter_of};
use crate::cycles::walk::{Cut, FIRM, cycles};
use crate::cycles::{fail_all, look_at_all, told};
use crate::object::{Away, Join, Known, Message};

/// The most rounds that are cut before all nodes are asked again.
const ROUNDS_MAX: usize = 64;

/// The milliseconds between two joins of all waits, and the multiple of the time that the last
/// took.
const JOIN_MS: i64 = 10;

const JOIN_TIMES: i64 = 50;

const JOIN_MS_MAX: i64 = 400;

/// The methods that are numbered in a node's waits.
#[derive(Default)]
struct Methods {
    numbers: FxHashMap<Join, u32>,
    /// By number: the join; nothing for an answer that another node gives in place of a method.
    joins: Vec<Option<Join>>,
}

impl Methods {
    fn number(&mut self, waiter: Join) -> u32 {
        *self.numbers.entry(waiter).or_insert_with(|| {
            self.joins.push(Some(waiter));
            self.joins.len() as u32 - 1
        })
    }

    /// Enters a waiter that cannot go on before a method does.
    fn enter(&mut self, waits: &mut Waits, method: u32, waiter: Waiter, nodes: u32) {
        match waiter {
            Waiter::Method(waiter) => {
                let waiter = self.number(waiter);
                waits.methods.push([method, waiter]);
            }
            Waiter::Away(away) => {
                let [node, index, generation] = request_of(away);
                // Nobody waits for a guest.
                if node < nodes {
                    waits.answers.push([method, node, index, generation]);
                }
            }
        }
    }
}

/// Returns the request whose answer goes to another node.
fn request_of(away: Away) -> Request {
    let at = away.waiting();
    [at.node, at.index, at.generation]
}

/// Returns the waits that this node has to tell, and the number of steps that it took to find them.
/// The last value is true if requests were left out because they are `young`.
fn waits_here(cx: &mut Cx, with_young: bool) -> (Waits, u64, bool) {
    let (mut waits, mut methods, mut steps, mut young) = (Waits::default(), Methods::default(), 0, false);
    let nodes = cx.nodes();
    let remote = &cx.actors().remote;
    if remote.asked == 0 {
        return (waits, steps, young);
    }
    for (index, export) in (0..).zip(&remote.exports) {
        steps += 1;
        let Some(awaited) = export.awaited() else { continue };
        if !with_young && export.asked_at == remote.looks {
            young = true;
            continue;
        }
        let Some(waiter) = waiter_of(awaited) else { continue };
        let method = match waiter {
            Waiter::Method(waiter) => methods.number(waiter),
            Waiter::Away(_) => {
                methods.joins.push(None);
                let method = methods.joins.len() as u32 - 1;
                methods.enter(&mut waits, method, waiter, nodes);
                method
            }
        };
        waits.requests.push([index, export.generation, method]);
        if waits.requests.len() == WAITS_MAX {
            break;
        }
    }
    let mut at = 0;
    let mut found = Vec::new();
    while let Some(waiter) = methods.joins.get(at).copied() {
        if let Some(waiter) = waiter {
            each_waiter(waiter, &mut steps, |waiter, _| found.push(waiter));
        }
        for waiter in found.drain(..) {
            methods.enter(&mut waits, at as u32, waiter, nodes);
        }
        if waits.methods.len().max(waits.answers.len()) >= WAITS_MAX {
            waits.methods.truncate(WAITS_MAX);
            waits.answers.truncate(WAITS_MAX);
            break;
        }
        at += 1;
    }
    waits.trim(methods.joins.len());
    (waits, steps, young)
}

/// Tells the first node the waits of this one, if they are new or it has asked. Returns the number
/// of steps that this took.
pub(crate) fn tell(cx: &mut Cx) -> u64 {
    if !cx.actors().remote.has_network() || cx.nodes() < 2 {
        return 0;
    }
    settle_open(cx);
    let is_asked = std::mem::take(&mut cx.actors().rounds.is_asked);
    let (waits, steps, young) = waits_here(cx, is_asked);
    cx.actors().suspects.young = young;
    let with_names = std::mem::take(&mut cx.actors().rounds.with_names);
    let rounds = &mut cx.actors().rounds;
    let mut packet = vec![WAITS];
    put(&mut packet, &[rounds.number, rounds.cut]);
    waits.write(&mut packet);
    let is_new = match &rounds.told {
        Some(told) => *told != packet,
        None => !waits.is_empty() || rounds.cut > 0,
    };
    if is_asked || is_new {
        rounds.cut = 0;
        rounds.told = Some(packet.clone());
        if with_names {
            told::lines(cx).iter().for_each(|line| line.write(&mut packet));
        }
        match cx.node() {
            0 => {
                let _ = hear(cx, 0, &mut &packet[1..]);
            }
            _ => cx.actors().remote.post(0, &packet),
        }
    }
    join_when_due(cx, false);
    steps
}

/// Enters, in the first node, the waits that a node tells.
fn hear(cx: &mut Cx, from: u32, packet: &mut &[u8]) -> Result<(), Wrong> {
    let [number, cut] = numbers(packet)?;
    let waits = Waits::read(packet)?;
    let lines = Line::read_all(packet)?;
    let nodes = cx.nodes() as usize;
    let rounds = &mut cx.actors().rounds;
    if cut > 0 {
        rounds.note_cut();
    }
    if number == rounds.number {
        rounds.heard.resize_with(nodes, || None);
        rounds.heard[from as usize] = Some(waits);
        rounds.lines.extend(lines);
        rounds.is_new = true;
    }
    Ok(())
}

/// A place in the waits of all nodes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Place {
    Request(Request),
    Method(u32, u32),
}

/// Joins the waits of all nodes, if there are new ones and it is time, or it must be done. Rounds
/// are cut.
fn join_when_due(cx: &mut Cx, must: bool) {
    if !cx.actors().rounds.is_due() {
        return;
    }
    let begun = if cx.actors().is_ordered() { 0 } else { cx.now_ms() };
    if !must && begun < cx.actors().rounds.next_ms {
        return;
    }
    let rounds = &mut cx.actors().rounds;
    rounds.is_new = false;
    let found = rounds_in(&rounds.heard);
    let steps: usize = rounds.heard.iter().flatten().map(Waits::len).sum();
    rounds.cutting = found.len() as u32;
    if !found.is_empty() {
        rounds.note_cut();
    }
    cx.words.stats.searched += steps as u64;
    if !cx.actors().is_ordered() {
        let now = cx.now_ms();
        cx.actors().rounds.next_ms = now + (JOIN_TIMES * (now - begun).max(0)).clamp(JOIN_MS, JOIN_MS_MAX);
    }
    for round in found {
        cut(cx, round, 0);
    }
}

/// Returns the rounds in the waits of nodes, each as requests of which the answer to one comes
/// after that to the one before.
fn rounds_in(heard: &[Option<Waits>]) -> Vec<Vec<Request>> {
    let mut ways: FxHashMap<Place, Vec<(Place, Cut)>> = FxHashMap::default();
    let (mut starts, mut found) = (Vec::new(), Vec::new());
    for (node, waits) in (0..).zip(heard).filter_map(|(node, waits)| Some((node, waits.as_ref()?))) {
        for [index, generation, method] in &waits.requests {
            let request = Place::Request([node, *index, *generation]);
            starts.push(request);
            // Each round has a request of which the way goes on, and only that way.
            ways.entry(request).or_default().push((Place::Method(node, *method), starts.len() as Cut));
        }
        for [method, waiter] in &waits.methods {
            ways.entry(Place::Method(node, *method)).or_default().push((Place::Method(node, *waiter), FIRM));
        }
        for [method, of, index, generation] in &waits.answers {
            let request = Place::Request([*of, *index, *generation]);
            ways.entry(Place::Method(node, *method)).or_default().push((request, FIRM));
        }
    }
    let follow = |place: Place, open: &mut Vec<(Place, Cut)>| {
        open.extend(ways.get(&place).into_iter().flatten().copied());
    };
    cycles(starts, follow, |cycle| {
        let requests = cycle.vertices.filter_map(|place| match place {
            Place::Request(request) => Some(request),
            Place::Method(..) => None,
        });
        let mut round: Vec<Request> = requests.collect();
        // The same round is always cut at the same place.
        let first = (0..round.len()).min_by_key(|at| round[*at]).unwrap_or_default();
        round.rotate_left(first);
        found.push(round);
        found.len() < ROUNDS_MAX
    });
    found
}

/// Fails a request of a round, at the node of the request at this place or of one behind it.
fn cut(cx: &mut Cx, round: Vec<Request>, mut place: usize) {
    settle_open(cx);
    let own = cx.node();
    while let Some(request) = round.get(place).copied() {
        if request[0] != own {
            let mut packet = vec![CUT];
            put(&mut packet, &[place as u32]);
            put(&mut packet, round.as_flattened());
            return cx.actors().remote.post(request[0], &packet);
        }
        match queued_between(cx, request, round[(place + 1) % round.len()]) {
            Between::Queued(sent) => {
                fail_all(cx, &[sent]);
                break;
            }
            // It is cut already.
            Between::Nothing => break,
            Between::Answers => place += 1,
        }
    }
    match own {
        0 => cut_done(cx),
        _ => cx.actors().remote.post(0, &[CUT_DONE]),
    }
}

/// The way by which an answer to another node cannot come before an answer to this one.
enum Between {
    /// Among others of a queued request.
    Queued(Message),
    /// Of answers only.
    Answers,
    /// There is none: it can come before.
    Nothing,
}

fn queued_between(cx: &mut Cx, [_, index, generation]: Request, answer: Request) -> Between {
    let Some((Known::Outgoing(owing), Some(_))) = cx.actors().remote.awaited(index, generation) else {
        return Between::Nothing;
    };
    let first = match waiter_of(owing.owing()) {
        Some(Waiter::Method(waiter)) => waiter,
        Some(Waiter::Away(away)) if request_of(away) == answer => return Between::Answers,
        _ => return Between::Nothing,
    };
    let mut steps = 0;
    // By join: the one that it was found from, and the queued request in between.
    let mut from: FxHashMap<Join, Option<(Join, Cut)>> = FxHashMap::default();
    from.insert(first, None);
    let mut open = vec![first];
    while let Some(blocked) = open.pop() {
        let mut found = None;
        each_waiter(blocked, &mut steps, |waiter, sent| match waiter {
            Waiter::Method(waiter) => {
                from.entry(waiter).or_insert_with(|| {
                    open.push(waiter);
                    Some((blocked, sent))
                });
            }
            Waiter::Away(away) if request_of(away) == answer => found = Some(sent),
            Waiter::Away(_) => {}
        });
        let Some(mut sent) = found else { continue };
        let mut at = blocked;
        while sent == FIRM {
            match from.get(&at) {
                Some(None) | None => return Between::Answers,
                Some(Some((before, queued))) => (at, sent) = (*before, *queued),
            }
        }
        // SAFETY: edges that can be cut are queued messages.
        return Between::Queued(unsafe { Message::new(sent) });
    }
    Between::Nothing
}

/// Notes, in the first node, that a round was cut.
fn cut_done(cx: &mut Cx) {
    let rounds = &mut cx.actors().rounds;
    if rounds.cutting > 0 {
        rounds.cutting -= 1;
        if rounds.cutting == 0 {
            ask_all(cx, false);
        }
    }
}

/// Asks all nodes for their waits, from the first node, which ignores waits that were told before.
fn ask_all(cx: &mut Cx, with_names: bool) {
    let nodes = cx.nodes();
    let actors = cx.actors();
    let rounds = &mut actors.rounds;
    rounds.number = rounds.number.wrapping_add(1);
    (rounds.is_asked, rounds.with_names, rounds.told) = (true, with_names, None);
    (rounds.cutting, rounds.is_new) = (0, false);
    rounds.heard.clear();
    rounds.lines.clear();
    let mut packet = vec![ASK];
    put(&mut packet, &[rounds.number, u32::from(with_names)]);
    for node in 1..nodes {
        actors.remote.post(node, &packet);
    }
    look_at_all(cx);
}

/// Asks the other nodes, from the first node, when the network says that nothing can happen any
/// more: requests may wait for themselves. It asks once more after each answer that has failed a
/// request; then the run is over indeed. If `main` waits still, the answers name the methods that
/// wait ([`told`]). Returns true if something may happen, and the node is to go on.
pub(crate) fn may_go_on(cx: &mut Cx) -> bool {
    if cx.nodes() < 2 {
        return crate::cycles::may_be_stuck(cx) && look_at_all(cx);
    }
    if cx.node() != 0 {
        return false;
    }
    if std::mem::take(&mut cx.actors().rounds.cutting) > 0 {
        // The node that was to cut a round has not said that it did, and never will.
        return false;
    }
    join_when_due(cx, true);
    let rounds = &mut cx.actors().rounds;
    if std::mem::take(&mut rounds.at_end) {
        return false;
    }
    if !std::mem::take(&mut rounds.has_cut) {
        rounds.at_end = true;
        let with_names = cx.actors().main().is_none();
        ask_all(cx, with_names);
    }
    true
}

/// Drops all waits that were told, because nodes are lost. The waits of the lost nodes, and those
/// of others on them, are not true any more.
pub(crate) fn lose(cx: &mut Cx) {
    cx.actors().rounds.told = None;
    if cx.node() == 0 {
        ask_all(cx, false);
    }
}

/// Handles a packet about rounds.
///
/// # Errors
/// The reason why a packet is refused.
pub(crate) fn accept(cx: &mut Cx, from: u32, kind: u8, packet: &mut &[u8]) -> Result<(), Wrong> {
    let (node, nodes) = (cx.node(), cx.nodes());
    if from >= nodes || node >= nodes {
        return Err("sessions do not handle this packet".into());
    }
    match kind {
        WAITS if node == 0 => {
            hear(cx, from, packet)?;
            join_when_due(cx, false);
        }
        ASK if from == 0 => {
            let [number, with_names] = numbers(packet)?;
            let rounds = &mut cx.actors().rounds;
            (rounds.number, rounds.told) = (number, None);
            (rounds.is_asked, rounds.with_names) = (true, with_names != 0);
            look_at_all(cx);
        }
        CUT => {
            let place = number(packet)? as usize;
            let count = packet.len() / size_of::<Request>();
            let round = (0..count).map(|_| numbers(packet)).collect::<Result<Vec<Request>, _>>()?;
            if place >= count || !packet.is_empty() || round.iter().any(|request| request[0] >= nodes) {
                return Err("it is not a round of requests".into());
            }
            cut(cx, round, place);
        }
        CUT_DONE if node == 0 => cut_done(cx),
        _ => return Err("it is not from the first node, or not for the first node".into()),
    }
    Ok(())
}

/// Returns the waits of all nodes as text, for a method that waits in vain.
pub(crate) fn waits_as_text(cx: &mut Cx) -> String {
    let lines = match cx.actors().remote.has_network() && cx.nodes() > 1 {
        true => std::mem::take(&mut cx.actors().rounds.lines),
        false => told::lines(cx),
    };
    line::text(&lines)
}
