//! Imports: the own offers of the board, and those of links.
//!
//! ```text
//!   import --> no link is asked ------------------------------------> answered
//!        \--> Open, each link is asked --> all have answered -------> answered
//!                                     \--> the time is over --------> answered, with what came
//! ```
//!
//! An open import holds no task: its [`Reply`] is kept here, and sent by the thread of the last
//! link that answers, or by a timer.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use bifrost_native::{Reply, Task};
use bifrost_trader::link::{Ask, Gathering, Route};
use bifrost_trader::{Board, Found, Party, Query, Question};

use super::links::{Answer, Asked, Asker, Import};
use super::{Core, FindSignal, Imported, State, digest_of, host_of, text, wanted};

/// The way on which an import came.
pub(super) enum Way {
    /// From an importer: its number is made here.
    Own,
    /// From another trader, or from an importer that chooses the hops.
    Through(Route),
}

/// An import that waits for links.
pub(super) struct Open {
    gathering: Gathering,
    question: Question,
    seed: u64,
    reply: Reply<Imported>,
}

/// The decision about an import.
enum Next {
    Answer(Reply<Imported>, Imported),
    Ask { gathering: u64, links: Vec<usize>, route: Route },
}

impl Import {
    /// Makes an import of the arguments of a call.
    pub(super) fn new(service: &str, digest: &str, query: &str, most: i64, host: &str) -> Import {
        let [service, digest, query, host] = [service, digest, query, host].map(str::to_owned);
        Import { service, digest, query, most, host }
    }
}

impl Core {
    /// Answers an import, or asks links first.
    pub(super) fn import(self: &Arc<Core>, task: &Task, import: Import, way: Way, reply: Reply<Imported>) {
        let question = match self.question(&import) {
            Ok(question) => question,
            Err(signal) => return reply.send(Err(signal)),
        };
        let right = self.caller(task);
        let party = Party { right: &right, session: task.session() };
        let next = self.act(|state, now| {
            let seed = random();
            let found = match state.board.import(party, &question, seed as u64, now) {
                Ok(found) => found,
                Err(_) => return Next::Answer(reply, Err(FindSignal::UnknownInterface)),
            };
            self.decide(state, found, question, way, seed, reply, now)
        });
        match next {
            Next::Answer(reply, outcome) => reply.send(outcome),
            Next::Ask { gathering, links, route } => self.ask(task, import, gathering, links, route),
        }
    }

    /// Reads the query and the digest.
    fn question(&self, import: &Import) -> Result<Question, FindSignal> {
        let query = Query::parse_within(&import.query, &self.limits);
        let query = query.map_err(|why| FindSignal::BadQuery(text(why)))?;
        let digest = match import.digest.as_str() {
            "" => None,
            digest => Some(digest_of(digest).ok_or(FindSignal::UnknownInterface)?),
        };
        Ok(Question {
            service: import.service.clone(),
            digest,
            query,
            most: wanted(import.most),
            host: host_of(&import.host).map(str::to_owned),
        })
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of an import")]
    fn decide(
        &self,
        state: &mut State,
        mut found: Found,
        question: Question,
        way: Way,
        seed: u128,
        reply: Reply<Imported>,
        now: u64,
    ) -> Next {
        let route = match way {
            // The number of a question that goes nowhere need not be known.
            Way::Own if state.links.all().is_empty() => return Next::Answer(reply, Ok(found.into())),
            Way::Own => Route::own(seed, &self.limits),
            Way::Through(route) => route,
        };
        let (links, route) = match state.links.begin(route, !found.offers.is_empty(), &self.limits, now) {
            Ask::Circle => return Next::Answer(reply, Ok(Found::default().into())),
            Ask::Nobody => return Next::Answer(reply, Ok(found.into())),
            Ask::Links(links, route) => (links, route),
        };
        if state.gatherings.len() as u64 >= self.limits.gatherings_max {
            found.more = true;
            return Next::Answer(reply, Ok(found.into()));
        }
        let gathering = Gathering::new(found, links.clone(), route, now);
        let number = state.next;
        state.next += 1;
        state.gatherings.insert(number, Open { gathering, question, seed: seed as u64, reply });
        Next::Ask { gathering: number, links, route }
    }

    /// Asks links at once, and sets the time at which the import is answered anyhow.
    fn ask(self: &Arc<Core>, task: &Task, import: Import, gathering: u64, links: Vec<usize>, route: Route) {
        let within = Duration::from_millis(route.within_ms);
        let asked = Asked { gathering, import: Arc::new(import), route, until: Instant::now() + within };
        let core = Arc::downgrade(self);
        task.after(within, move || {
            if let Some(core) = core.upgrade() {
                core.finish(gathering, None);
            }
        });
        for link in links {
            let asker = || Box::new(Threads(Arc::downgrade(self))) as Box<dyn Asker>;
            let is_asked = self.lines.get(link).is_some_and(|line| line.ask(asked.clone(), asker));
            if !is_asked {
                self.finish(gathering, Some((link, None)));
            }
        }
    }

    /// Takes the answer of a link, or the end of the time without one, and answers the import if
    /// nothing is left to wait for.
    fn finish(self: &Arc<Core>, number: u64, answer: Option<(usize, Option<Found>)>) {
        let ended = self.act(|state, now| {
            let open = state.gatherings.get_mut(&number)?;
            // A timer may be early by less than a millisecond.
            let is_over = answer.is_none();
            if let Some((link, found)) = answer {
                open.gathering.answer(&state.links, link, found, &self.limits);
            }
            if !is_over && !open.gathering.is_done(now) {
                return None;
            }
            state.gatherings.remove(&number)
        });
        if let Some(Open { gathering, question, seed, reply }) = ended {
            reply.send(Ok(gathering.finish(&question, &self.limits, seed).into()));
        }
    }
}

/// The trader, as the threads of its links know it.
struct Threads(Weak<Core>);

impl Asker for Threads {
    fn interface(&self, digest: &str) -> Option<String> {
        let digest = digest_of(digest)?;
        let interface = self.0.upgrade()?.act(|state, _| state.board.interface(&digest))?;
        String::from_utf8(interface.to_vec()).ok()
    }

    fn take(&self, link: usize, gathering: u64, answer: Answer) -> bool {
        let Some(core) = self.0.upgrade() else { return false };
        core.act(|state, now| match answer {
            Answer::Lost => state.links.failed(link, &core.limits, now),
            Answer::Found(_) | Answer::Refused => state.links.answered(link),
        });
        let found = match answer {
            Answer::Found(found) => Some(found),
            Answer::Refused | Answer::Lost => None,
        };
        core.finish(gathering, Some((link, found)));
        true
    }
}

impl From<Found> for super::Found {
    fn from(found: Found) -> super::Found {
        let offers: Vec<super::Offer> = found.offers.into_iter().map(super::Offer::from).collect();
        super::Found { offers: offers.into(), more: found.more }
    }
}

/// Returns a number that nobody guesses, for a question and the order of offers.
fn random() -> u128 {
    let mut bytes = [0; 16];
    // Without random numbers the order is not random, and links take a question for one that they
    // know: everything else is right.
    let _ = getrandom::fill(&mut bytes);
    u128::from_ne_bytes(bytes)
}

/// Reads the number of a question; nothing if the text is none.
pub(super) fn number_of(text: &str) -> Option<u128> {
    let is_number = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_number { u128::from_str_radix(text, 16).ok() } else { None }
}
