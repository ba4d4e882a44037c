//! Links as sessions: threads that ask other traders.
//!
//! A [`Line`] is a link with its questions, and with up to `link_sessions_max` threads. Each thread
//! has a session of its own and asks one question at a time, so that an answer that takes long
//! holds up no other question. A session is kept between questions, and made anew after its loss.
//!
//! A thread is never waited for: an import that waits for links has a timer of its own. So a
//! question whose time is over is dropped when its turn comes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bifrost_trader::link::{Link, Route};
use bifrost_trader::{Found, Limits};
use bifrost_veneer::trader::stubs::{INTERFACE, Trader};
use bifrost_veneer::trader::{TRADER, offer};
use bifrost_veneer::{Error, Session};
use parking_lot::{Condvar, Mutex};

/// A link, and the token for its trader.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LinkSettings {
    /// The link.
    pub link: Link,
    /// The token for a trader that asks for one over TCP or TLS; empty for none.
    pub token: String,
}

/// An import as a linked trader gets it.
#[derive(Debug)]
pub(super) struct Import {
    pub service: String,
    /// Hexadecimal digits; empty for none.
    pub digest: String,
    pub query: String,
    pub most: i64,
    pub host: String,
}

/// A question to a link.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    /// The import that waits for the answer.
    pub gathering: u64,
    pub import: Arc<Import>,
    pub route: Route,
    pub until: Instant,
}

/// The answer to a question.
pub(super) enum Answer {
    Found(Found),
    /// The trader has refused the question: its limits are others, or its version is.
    Refused,
    /// There is no session, or no answer in time.
    Lost,
}

/// The threads' side of a trader.
pub(super) trait Asker: Send + 'static {
    /// Returns an interface as JSON; nothing if it is forgotten.
    fn interface(&self, digest: &str) -> Option<String>;
    /// Takes an answer. False if the trader has ended.
    fn take(&self, link: usize, gathering: u64, answer: Answer) -> bool;
}

#[derive(Default)]
struct Waiting {
    asked: VecDeque<Asked>,
    threads: u64,
    idle: usize,
    is_over: bool,
}

/// A link with its questions.
pub(super) struct Line {
    /// The position among the links.
    at: usize,
    settings: LinkSettings,
    limits: Limits,
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

impl Line {
    pub(super) fn new(at: usize, settings: LinkSettings, limits: Limits) -> Arc<Line> {
        Arc::new(Line { at, settings, limits, waiting: Mutex::default(), changed: Condvar::new() })
    }

    /// Enters a question. False if too many wait, or if there is no thread for it.
    pub(super) fn ask(self: &Arc<Line>, asked: Asked, asker: impl FnOnce() -> Box<dyn Asker>) -> bool {
        let mut waiting = self.waiting.lock();
        let now = Instant::now();
        waiting.asked.retain(|asked| asked.until > now);
        if waiting.asked.len() as u64 >= self.limits.gatherings_max {
            return false;
        }
        waiting.asked.push_back(asked);
        if waiting.asked.len() <= waiting.idle {
            self.changed.notify_one();
            return true;
        }
        if waiting.threads < self.limits.link_sessions_max {
            let (line, asker) = (self.clone(), asker());
            let thread = std::thread::Builder::new().name("link".to_owned());
            waiting.threads += u64::from(thread.spawn(move || line.work(&*asker)).is_ok());
        }
        if waiting.threads == 0 {
            waiting.asked.clear();
        }
        waiting.threads > 0
    }

    /// Ends the threads, each after its question.
    pub(super) fn end(&self) {
        self.waiting.lock().is_over = true;
        self.changed.notify_all();
    }

    /// Takes the next question; nothing at the end.
    fn next(&self) -> Option<Asked> {
        let mut waiting = self.waiting.lock();
        loop {
            if waiting.is_over {
                return None;
            }
            let now = Instant::now();
            if let Some(asked) = waiting.asked.pop_front() {
                if asked.until > now {
                    return Some(asked);
                }
                continue;
            }
            waiting.idle += 1;
            self.changed.wait(&mut waiting);
            waiting.idle -= 1;
        }
    }

    /// Answers questions, until the trader ends.
    fn work(&self, asker: &dyn Asker) {
        let mut session = None;
        while let Some(asked) = self.next() {
            let answer = self.answer(&mut session, &asked, asker);
            if !asker.take(self.at, asked.gathering, answer) {
                return;
            }
        }
    }

    /// Asks the linked trader. A session from before may have been lost since, so there are two
    /// tries with it.
    fn answer(&self, session: &mut Option<Linked>, asked: &Asked, asker: &dyn Asker) -> Answer {
        loop {
            let is_kept = session.is_some();
            let linked = match session.take() {
                Some(linked) => linked,
                None => match self.connect() {
                    Ok(linked) => linked,
                    Err(why) => {
                        tracing::info!(link = %self.settings.link.name, %why, "trader.link_not_there");
                        return Answer::Lost;
                    }
                },
            };
            match linked.find(asked, asker) {
                Ok(found) => {
                    *session = Some(linked);
                    return Answer::Found(found);
                }
                Err(why) if matches!(why.root(), Error::Closed(_)) => {
                    tracing::info!(link = %self.settings.link.name, %why, "trader.link_lost");
                    if !is_kept || Instant::now() >= asked.until {
                        return Answer::Lost;
                    }
                }
                Err(why) => {
                    tracing::info!(link = %self.settings.link.name, %why, "trader.link_refused");
                    linked.session.clear_exceptions();
                    *session = Some(linked);
                    return Answer::Refused;
                }
            }
        }
    }

    fn connect(&self) -> Result<Linked, bifrost_veneer::ConnectError> {
        let session = Session::builder(&INTERFACE)
            .name("bifrost-trader")
            .token(self.settings.token.as_str())
            .timeout(Duration::from_millis(self.limits.link_ms_max))
            .connect(&self.settings.link.url)?;
        Ok(Linked { trader: session.lookup(TRADER), session })
    }
}

/// A session with a linked trader.
struct Linked {
    trader: Trader,
    session: Session,
}

impl Linked {
    /// Imports offers. A trader that does not know the importer's interface is taught it.
    fn find(&self, asked: &Asked, asker: &dyn Asker) -> Result<Found, Error> {
        let digest = asked.import.digest.as_str();
        let found = self.find_once(asked);
        let is_unknown = |why: &Error| match why.root() {
            Error::Signal { name, .. } => &**name == "unknown_interface",
            _ => false,
        };
        if !digest.is_empty()
            && found.as_ref().is_err_and(is_unknown)
            && let Some(interface) = asker.interface(digest)
        {
            self.session.clear_exceptions();
            self.trader.teach(interface).claim()?;
            return self.find_once(asked);
        }
        found
    }

    fn find_once(&self, asked: &Asked) -> Result<Found, Error> {
        let Asked { import, route, until, .. } = asked;
        let left_ms = until.saturating_duration_since(Instant::now()).as_millis();
        let found = self.trader.find_through(
            import.service.as_str(),
            import.digest.as_str(),
            import.query.as_str(),
            import.most,
            import.host.as_str(),
            format!("{:032x}", route.number),
            i64::try_from(route.hops).unwrap_or(i64::MAX),
            i64::try_from(left_ms).unwrap_or(i64::MAX),
        );
        let found = found.get().claim()?;
        let offers = found.offers.into_iter().map(offer).collect();
        Ok(Found { offers, more: found.more, looked_at: 0 })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::sync::mpsc;

    use bifrost_trader::link::Follow;

    use super::*;

    /// Tells the answers to a test.
    struct Told(mpsc::Sender<(u64, bool)>);

    impl Asker for Told {
        fn interface(&self, _: &str) -> Option<String> {
            None
        }

        fn take(&self, _: usize, gathering: u64, answer: Answer) -> bool {
            self.0.send((gathering, matches!(answer, Answer::Lost))).is_ok()
        }
    }

    /// A link to a socket at which nobody answers, with its limits.
    fn line(socket: &std::path::Path, limits: Limits) -> Arc<Line> {
        let link =
            Link { name: "us".into(), url: format!("unix://{}", socket.display()), follow: Follow::Always };
        Line::new(0, LinkSettings { link, token: String::new() }, limits)
    }

    fn asked(gathering: u64, within_ms: u64) -> Asked {
        let import = Arc::new(Import::new("Store", "", "", 0, ""));
        let until = Instant::now() + Duration::from_millis(within_ms);
        Asked { gathering, import, route: Route { number: 1, hops: 0, within_ms }, until }
    }

    #[test]
    fn a_link_has_few_sessions_and_few_questions_that_wait() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("trader");
        let _silent = UnixListener::bind(&socket).unwrap();
        let limits =
            Limits { link_sessions_max: 2, gatherings_max: 3, link_ms_max: 2_000, ..Limits::default() };
        let line = line(&socket, limits.clone());
        let (sender, answers) = mpsc::channel();
        let ask = |number, within_ms| {
            let sender = sender.clone();
            line.ask(asked(number, within_ms), || Box::new(Told(sender)) as Box<dyn Asker>)
        };
        assert!((0..2).all(|number| ask(number, 60_000)));
        assert_eq!(line.waiting.lock().threads, 2);
        // One of the two may not have taken its question yet.
        let entered = (2..10).filter(|number| ask(*number, 60_000)).count();
        assert!((1..=3).contains(&entered), "{entered}");
        assert_eq!(line.waiting.lock().threads, 2);
        // Both fail, after the time for a link, and take the next ones.
        let all: Vec<(u64, bool)> = (0..entered + 2).map(|_| answers.recv().unwrap()).collect();
        assert!(all.iter().all(|(_, is_lost)| *is_lost), "{all:?}");
        line.end();
    }

    #[test]
    fn a_question_whose_time_is_over_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let line = line(&folder.path().join("nobody"), Limits::default());
        let (sender, answers) = mpsc::channel();
        for (number, within_ms) in [(1, 0), (2, 60_000)] {
            let sender = sender.clone();
            line.ask(asked(number, within_ms), || Box::new(Told(sender)) as Box<dyn Asker>);
        }
        assert_eq!(answers.recv().unwrap(), (2, true));
        let none = Limits { link_sessions_max: 0, ..Limits::default() };
        let line = self::line(&folder.path().join("nobody"), none);
        assert!(!line.ask(asked(3, 60_000), || unreachable!("no thread may be started")));
    }
}
