//! The search for cycles of garbage over several nodes, which reference listing never lets go. Read
//! [`ask`], `make_part` and [`accept`] first; the state is in `state`.
//!
//! A search is a consistent picture of all nodes, though no two of them are stopped together: K. M.
//! Chandy and L. Lamport, "Distributed Snapshots" (1985). Garbage in such a picture is garbage for
//! ever. The steps are:
//!
//! 1. The first node begins the search. Each node makes its part in a collection when it first
//!    hears of it, between two turns (`make_part`). It tells all others (`SEARCH`) before
//!    it sends them anything else. Packets between two nodes keep their order, so those that arrive
//!    before `SEARCH` were under way when the picture was taken.
//! 2. The nodes tell each other the objects that live (`LIVE`), along the pictures and not along
//!    the heaps. Those are objects of others that were reached here, those in packets, and all to
//!    which these lead.
//! 3. A node with nothing to pass on says how many such packets it has sent to each other and has
//!    received from each (`SEARCHED`). The step is over when the numbers of any two nodes agree, as
//!    in `crates/capsule/src/mesh/`.
//! 4. The first node says `SWEEP`. Each node lets go the objects that others know and that were not
//!    found to live. Its next collection frees them, and their references to other nodes.
//!
//! No node collects for others or has the whole picture: the work is spread as the references are.
//! A search begins when the objects of a node that others know, or its living bytes, have doubled
//! since the last one (`wants_search`). So its cost is a part of that of sending. Guests,
//! and the table of names, take no part ([`wait_ms`]). The loss of a node ends a search
//! (`give_up_search`). Numbers tell the searches apart.

use bifrost_runtime::cx::Cx;
use bifrost_runtime::transfer::Address;

use crate::between::kinds::{LIVE, SEARCH, SEARCHED, SWEEP, WANT};
use crate::between::packet::{Wrong, number};
use crate::between::write::settle_open;
use crate::context::WithActors;

pub(crate) mod state;

use state::Counts;

/// The rest between two searches that are made because guests have forgotten objects: so many times
/// the last one's time, and so many milliseconds.
const REST_TIMES: i64 = 20;

const REST_MS: i64 = 100;

/// Takes part in a search, unless that was done.
fn take_part(cx: &mut Cx, search: u32) {
    settle_open(cx);
    let (node, now) = (cx.node(), cx.now_ms());
    let searches = &mut cx.actors().remote.searches;
    (searches.last, searches.due, searches.part) = (search, true, None);
    (searches.dropped, searches.begun_ms) = (0, Some(now));
    cx.collect();
    let remote = &mut cx.actors().remote;
    if remote.searches.due {
        remote.make_part_unseen(node);
    }
    remote.post_to_others(node, SEARCH, search);
}

/// Begins a search, or asks for it.
pub(crate) fn ask(cx: &mut Cx) {
    let node = cx.node();
    let remote = &mut cx.actors().remote;
    if node != 0 {
        // This holds until the next collection finds that it is still wanted.
        remote.searches.wanted = false;
        remote.searches.dropped = 0;
        remote.searches.known_most = remote.searches.known_most.max(2 * remote.known());
        return remote.post_number(0, WANT, remote.searches.last);
    }
    remote.searches.heard = vec![None; remote.lost.len()];
    let next = remote.searches.last.wrapping_add(1);
    take_part(cx, next);
    pass_on(cx);
}

/// Returns the number of milliseconds before a search is to be made because guests have forgotten
/// objects; nothing if none is.
///
/// Guests, and the table of names, take no part in searches. The objects that they know live. So do
/// those in packets from them, or about them, while a search is under way. A guest says that it has
/// forgotten an object when each node that it told of it has that in its mail
/// ([`release`](crate::between::remote::Remote::release)). That is before the owner makes its part
/// then, and so before `SWEEP` there. When guests have forgotten objects that nodes know still, a
/// search is made, but not before searches have rested long enough ([`REST_TIMES`]).
pub(crate) fn wait_ms(cx: &mut Cx) -> Option<i64> {
    let remote = &cx.actors().remote;
    let searches = &remote.searches;
    if searches.dropped == 0 || searches.part.is_some() || remote.known() == 0 {
        return None;
    }
    Some(searches.next_ms.saturating_sub(cx.now_ms()).max(0))
}

/// Tells others of the objects that were found to live there. When there is nothing left to tell,
/// it says so.
pub(crate) fn pass_on(cx: &mut Cx) {
    let node = cx.node();
    let (actors, words) = cx.actors_and_words();
    actors.remote.pass_on(node);
    words.stats.swept = actors.remote.swept;
    let searches = &mut actors.remote.searches;
    if searches.part.is_none()
        && let Some(begun) = searches.begun_ms.take()
    {
        let now = cx.now_ms();
        cx.actors().remote.searches.next_ms = now + REST_MS + REST_TIMES * (now - begun).max(0);
    }
}

/// Handles a packet of a search.
///
/// # Errors
/// The fault of the packet.
pub(crate) fn accept(cx: &mut Cx, from: u32, kind: u8, packet: &mut &[u8]) -> Result<(), Wrong> {
    let search = number(packet)?;
    let node = cx.node();
    let last = cx.actors().remote.searches.last;
    let newer = search.wrapping_sub(last) as i32 > 0;
    match kind {
        SEARCH => {
            if newer {
                take_part(cx, search);
            }
            let searches = &mut cx.actors().remote.searches;
            if let Some(part) = searches.part.as_mut().filter(|_| searches.last == search) {
                part.awaited[from as usize] = false;
            }
        }
        WANT if node == 0 => {
            let searches = &cx.actors().remote.searches;
            // A node that has heard of the search under way has given it up.
            if search == last || searches.part.is_none() {
                ask(cx);
            }
        }
        // It is a packet of a search that was given up.
        _ if search != last => {}
        LIVE => {
            let Some(part) = &mut cx.actors().remote.searches.part else { return Ok(()) };
            part.counts.received[from as usize] += 1;
            while !packet.is_empty() {
                let (index, generation) = (number(packet)?, number(packet)?);
                part.mark(node, Address { capsule: 0, node, index, generation });
            }
        }
        SEARCHED if node == 0 => {
            let nodes = cx.actors().remote.lost.len();
            let mut numbers = || (0..nodes).map(|_| number(packet)).collect::<Result<Vec<u32>, Wrong>>();
            let (sent, received) = (numbers()?, numbers()?);
            cx.actors().remote.hear(from, Counts { sent, received });
        }
        SWEEP if from == 0 => cx.actors().remote.sweep(node),
        _ => return Err("it is not from the first node, or not for the first node".into()),
    }
    Ok(())
}
