//! A client in the process of its session, with no domain to cross.
//!
//! [`Domain`] is a program with its objects, as a server has them; [`Domain::session`] opens a
//! session of it for a client on the same thread, which [`on_stack`] starts. The
//! client records, encodes and flushes as over a
//! stream; the session decodes, checks, runs and answers as in a server. A function call stands in
//! place of the stream. So the cost of a pair of crossings is gone, and all other costs are the
//! same: this is the client that is "linked into the database" of Bogle and Liskov 1994 (6.3).

use std::sync::Arc;
use std::time::Duration;

use bifrost_capsule::Space;
use bifrost_engine::Engine;
use bifrost_runtime::Limits;
use bifrost_server::Config;
use bifrost_server::objects::Objects;
use bifrost_session::{Session as Served, Tables, Welcome};
use bifrost_veneer::{Connection, ConnectionError, Session, Stubs};
use bifrost_wire::Limit;

use super::common::Failed;

/// A program, its objects, and one session with its space.
pub struct Domain {
    space: Arc<Space>,
    served: Served,
    /// The store of the objects, which lasts as long as they do.
    _objects: Objects,
}

impl Domain {
    /// Makes the program's objects, in memory, and one session on them.
    ///
    /// # Errors
    /// The settings are wrong, or `setup` failed.
    pub fn open(engine: &Arc<Engine>, config: &Config) -> Result<Domain, Failed> {
        let limits = config.session_limits()?;
        let objects = usize::try_from(limits.get(Limit::TransactionObjects)).unwrap_or(usize::MAX);
        let run = Limits { transaction_objects: objects, ..config.run_limits() };
        let place = config.place()?;
        let objects = Objects::open(engine.clone(), &place, run, config.cache_options(), None, None, None)?;
        let (space, cache) = objects.space()?;
        let welcome = Welcome { server: "bifrost bench, linked".to_owned(), session: 1 };
        let served = Served::new(Tables::new(engine.clone()), limits, welcome, cache);
        Ok(Domain { space, served, _objects: objects })
    }

    /// Opens the session.
    ///
    /// # Errors
    /// The stubs are not those of the program.
    pub fn session(self, stubs: &'static Stubs) -> Result<Session, Failed> {
        let linked = Linked { domain: self, unused: Vec::new() };
        Ok(Session::builder(stubs).reply_bytes_max(1 << 30).over(Box::new(linked))?)
    }
}

/// Runs a client and its session on a thread with the stack that the program may use.
///
/// # Errors
/// Those of the client; or no thread can be started.
pub fn on_stack<T: Send>(
    engine: &Engine,
    config: &Config,
    client: impl FnOnce() -> Result<T, Failed> + Send,
) -> Result<T, Failed> {
    let bytes = Space::stack_bytes_for(engine, config.run_limits());
    let ended = std::thread::scope(|scope| {
        let work = || client().map_err(|error| error.to_string());
        let thread = std::thread::Builder::new().stack_size(bytes).spawn_scoped(scope, work)?;
        Ok::<_, std::io::Error>(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    Ok(ended??)
}

/// The function call that stands in place of a stream.
struct Linked {
    domain: Domain,
    /// The beginning of a structure whose end has not come.
    unused: Vec<u8>,
}

impl Connection for Linked {
    fn write(&mut self, bytes: &[u8], _: Duration) -> Result<(), ConnectionError> {
        let Domain { space, served, .. } = &mut self.domain;
        // As in a server, only an open structure leaves bytes over.
        let input = match self.unused.is_empty() {
            true => bytes,
            false => {
                self.unused.extend_from_slice(bytes);
                &self.unused
            }
        };
        let used = served.handle(&mut space.lock(), input);
        let left = input[used..].to_vec();
        self.unused = left;
        // A session that pauses waits for others, and here there are none.
        if served.pause().is_some() { Err(ConnectionError::Ended) } else { Ok(()) }
    }

    fn flush(&mut self) {}

    fn read(&mut self, into: &mut Vec<u8>, _: usize, _: Duration) -> Result<(), ConnectionError> {
        let output = self.domain.served.output();
        if output.is_empty() {
            return Err(ConnectionError::Ended);
        }
        into.extend_from_slice(output);
        self.domain.served.clear_output();
        Ok(())
    }
}
