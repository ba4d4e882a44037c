//! A service: runs with a server that traders know, and with another one when it is lost.
//!
//! The rule is that of all client libraries, `bifrost_client::Service`; [`Service`] has the
//! sessions. A run of a program in C is a loop: `begin` gives the session of the first try,
//! [`Service::next`] that of the next one, or none when the run has ended.

use std::ptr::NonNull;
use std::sync::Arc;
use std::thread::ThreadId;

use bifrost_client::{Greeted, Imported, Losses, Mark, Ran, Searcher, ServiceError, is_loss};
use bifrost_recorder::{Slot, Stubs};
use bifrost_wire::{BatchName, ErrorNumber};

use crate::abi::{Chars, Family, Place, Ref, Type};
use crate::error::{ConnectError, Failure, Status};
use crate::export::transaction::How;
use crate::interface::Interface;
use crate::recorded::Recorder;
use crate::session::{Options, Session};

/// A service at traders, and a session with one server of it.
pub struct Service {
    object: ObjectType,
    options: bifrost_client::Options,
    url: String,
    found: bifrost_client::Service<Greeted<Place>>,
    current: Option<Current>,
    run: Option<Run>,
    /// True if the program lets go of each session by itself.
    counted: bool,
    /// The failure of the last run, if it is not one of its session.
    failure: Option<Box<Failure>>,
    ran: Ran,
    owner: ThreadId,
}

/// The type of the object that a service exports.
#[derive(Clone, Debug)]
pub(crate) struct ObjectType {
    number: u32,
    name: Arc<str>,
    stubs: &'static Stubs,
}

/// The session in use, which its object's stub names. It lives as long as the service has it; a
/// program that counts keeps it as long (the header).
#[derive(Clone, Copy)]
struct Current {
    object: Ref,
    /// The scope of the last run.
    scope: Option<u32>,
}

/// The run under way.
struct Run {
    losses: Losses<Place>,
    mark: Mark,
    /// The order of its first failure.
    seen: u64,
    /// The transaction that it is.
    how: Option<How>,
    place: Place,
}

impl ObjectType {
    /// Reads the type of a stub.
    pub(crate) fn of(interface: &Interface, ty: &Type) -> Result<ObjectType, ConnectError> {
        match ty.family {
            Family::Program => Ok(ObjectType {
                number: ty.number,
                name: ty.name.get().unwrap_or("?").into(),
                stubs: interface.stubs(),
            }),
            _ => Err(ConnectError::NoService),
        }
    }

    /// Makes the function that connects to the server of an offer, and looks the object up there.
    fn dialer(&self, options: &bifrost_client::Options) -> bifrost_client::Dialer<Greeted<Place>> {
        let ObjectType { number, name, stubs } = self.clone();
        let look_up = move |recorder: &mut Recorder, at: &str| {
            recorder.lookup(Ok(()), Some(stubs), at, number, &name, Place::NONE)
        };
        Arc::new(options.dialer(Some(look_up), Place::NONE))
    }
}

/// Makes the session of a server that was found, and the stub of its object.
fn open(greeted: Greeted<Place>, stubs: &'static Stubs, imported: &Imported) -> (NonNull<Session>, Ref) {
    let slot = greeted.object.unwrap_or(Slot(u32::MAX));
    let session = Session::of(greeted, stubs, Some(imported)).place();
    let place = Ref::new(Some(session), 0, 0);
    (session, place.session().map_or(Ref::NONE, |session| session.unscoped_stub(slot)))
}

/// Imports a service: a session with a server of it, and the stub of the object.
pub(crate) fn import(
    url: Chars,
    interface: &Interface,
    ty: &Type,
    options: &Options,
) -> Result<(NonNull<Session>, Ref), ConnectError> {
    let url = url.get().ok_or(ConnectError::NotText("address"))?;
    let (object, options) = (ObjectType::of(interface, ty)?, options.of(interface.stubs())?);
    let dialer = object.dialer(&options);
    let dial = move |offer: &_, address: &_, within| dialer(offer, address, within);
    let (greeted, imported) = options.search(url)?.connect(dial)?;
    Ok(open(greeted, object.stubs, &imported))
}

impl Service {
    /// Makes a service. Nothing is connected before its first run.
    pub(crate) fn new(
        url: Chars,
        interface: &Interface,
        ty: &Type,
        options: &Options,
        counted: bool,
    ) -> Result<Service, ConnectError> {
        Ok(Service {
            object: ObjectType::of(interface, ty)?,
            options: options.of(interface.stubs())?,
            url: url.get().ok_or(ConnectError::NotText("address"))?.to_owned(),
            found: bifrost_client::Service::default(),
            current: None,
            run: None,
            counted,
            failure: None,
            ran: Ran::No,
            owner: std::thread::current().id(),
        })
    }

    /// Returns the session in use. The caller lets go of it before it returns to the program.
    fn session<'s>(&self) -> Option<&'s mut Session> {
        self.current.and_then(|current| current.object.session())
    }

    /// Begins a run, and returns its session; none if it has failed.
    pub(crate) fn begin(
        &mut self,
        how: Option<How>,
        status: &mut Status,
        place: Place,
    ) -> Option<NonNull<Session>> {
        (self.failure, self.ran) = (None, Ran::No);
        if self.owner != std::thread::current().id() {
            let text = "the service is used by another thread than the one that has made it";
            return self.fail(Failure::new(Status::OtherThread, text, place), status);
        }
        if self.run.is_some() {
            self.leave();
        }
        let how = how.map(|how| self.name(how));
        let mark = Mark { writes: 0, executed: 0 };
        self.run = Some(Run { losses: Losses::default(), mark, seen: 0, how, place });
        self.try_run(status)
    }

    /// Gives a batch the next name, unless it has one.
    fn name(&mut self, how: How) -> How {
        match how.named {
            true => how,
            false => {
                let BatchName { client, number } = self.found.name_batch();
                How { named: true, client: [client as u64, (client >> 64) as u64], number, ..how }
            }
        }
    }

    /// Begins a try of the run.
    fn try_run(&mut self, status: &mut Status) -> Option<NonNull<Session>> {
        *status = Status::Ok;
        if let Err(why) = self.ready() {
            let lost = self.run.take().map(|mut run| run.losses.no_server(why));
            return lost.and_then(|why| self.fail_run(&why, status));
        }
        let run = self.run.as_mut()?;
        let current = self.current.as_mut()?;
        let session = current.object.session()?;
        if let Some(scope) = current.scope.take() {
            session.close_scope(scope, false);
        }
        run.mark = Mark::of(session.wire.writes(), &session.recorder);
        run.seen = session.recorder.mark_seen();
        if let Some(how) = &run.how {
            *status = session.begin_transaction(Some(how), run.place);
            if *status != Status::Ok {
                return self.next(status);
            }
        }
        if !self.counted {
            current.scope = Some(session.uses.open());
        }
        session.this
    }

    /// Ends a try with the outcome of its body. Returns the session of the next one, or none if the
    /// run has ended.
    pub(crate) fn next(&mut self, status: &mut Status) -> Option<NonNull<Session>> {
        let session = self.session()?;
        let run = self.run.as_mut()?;
        if session.is_shipping() {
            match *status {
                Status::Ok => {
                    *status = session.end_transaction(run.place);
                    if *status == Status::Ok {
                        // Only objects of an answer that was given again have failed.
                        session.recorder.tell_since(run.seen);
                    }
                }
                _ => session.abandon_transaction(),
            }
        }
        let is_closed = session.recorder.is_closed();
        // A failed body has been told of it, and so the session has the reason.
        let lost = match (is_closed && *status == Status::Closed, session.recorder.due()) {
            (true, Err(why)) if is_loss(&why) => Some((*why).clone()),
            _ => None,
        };
        let Some(why) = lost else {
            self.ended(*status);
            return None;
        };
        let now = Mark::of(session.wire.writes(), &session.recorder);
        let decided = self.found.lost(&mut run.losses, (run.mark, now), why, run.how.is_some());
        self.drop_session();
        match decided {
            Some(why) => {
                self.run = None;
                self.fail_run(&why, status)
            }
            None => self.try_run(status),
        }
    }

    /// Ends a run whose session was not lost in it.
    fn ended(&mut self, status: Status) {
        self.run = None;
        self.found.done();
        let Some(session) = self.session() else { return };
        if status != Status::Ok {
            let store_failed = session.failure.as_deref().is_some_and(|failure| {
                let root = failure.root();
                root.kind == Status::Refused && root.number == ErrorNumber::StoreFailed as u32
            });
            self.ran = if store_failed { Ran::Unknown } else { Ran::Began };
        }
        if session.recorder.is_closed() {
            // The failure of the run is told after the session is gone.
            self.failure = session.failure.take().filter(|_| status != Status::Ok);
            self.drop_session();
        } else if status != Status::Ok {
            session.undo();
        }
    }

    /// Ends a run whose body was left.
    pub(crate) fn leave(&mut self) {
        if let Some(session) = self.session() {
            session.abandon_transaction();
            while session.recorder.depth() > 0 {
                session.recorder.abandon();
            }
        }
        self.ended(Status::LeftOpen);
    }

    fn fail(&mut self, failure: Failure, status: &mut Status) -> Option<NonNull<Session>> {
        *status = failure.status;
        self.failure = Some(Box::new(failure));
        None
    }

    fn fail_run(&mut self, why: &ServiceError<Place>, status: &mut Status) -> Option<NonNull<Session>> {
        self.ran = why.ran();
        let failure = match why {
            ServiceError::Lost { .. } => Failure::new(Status::Lost, why.to_string(), Place::NONE),
            ServiceError::Import(_) => Failure::new(Status::Connect, why.to_string(), Place::NONE),
            ServiceError::Call(error) => Failure::of(error),
        };
        self.fail(failure, status)
    }

    /// Sees to it that there is a session.
    fn ready(&mut self) -> Result<(), bifrost_client::ConnectError> {
        if let Some((greeted, imported)) = self.found.take_newer() {
            let newer = Current { object: open(greeted, self.object.stubs, &imported).1, scope: None };
            // If it is still there.
            if Service::is_open(newer) {
                self.drop_session();
                self.found.moved(imported);
                self.current = Some(newer);
            } else {
                Service::end(newer, false);
            }
        }
        if self.current.is_some_and(Service::is_open) {
            return Ok(());
        }
        self.drop_session();
        let (object, options, url) = (&self.object, &self.options, &self.url);
        let mut due =
            self.found.begin_search(|| Ok(Searcher::new(options.search(url)?, object.dialer(options))))?;
        let (greeted, imported) = due.search()?;
        let current = Current { object: open(greeted, self.object.stubs, &imported).1, scope: None };
        if let Err(why) = self.found.found(due, imported) {
            Service::end(current, false);
            return Err(why);
        }
        self.current = Some(current);
        Ok(())
    }

    fn is_open(current: Current) -> bool {
        current.object.session().is_some_and(Session::is_open)
    }

    /// Lets go of the session in use. It lives until the program has released its stubs.
    fn drop_session(&mut self) {
        if let Some(current) = self.current.take() {
            Service::end(current, self.counted);
        }
    }

    fn end(current: Current, counted: bool) {
        let Some(session) = current.object.session() else { return };
        if let Some(scope) = current.scope {
            session.close_scope(scope, false);
        }
        session.release(current.object);
        if !counted {
            crate::export::connect::bf_let_go(Some(session));
        }
    }

    /// Returns the stub of the object in use; none before the first run.
    pub(crate) fn object(&self) -> Ref {
        self.current.map_or(Ref::NONE, |current| current.object)
    }

    /// Returns the failure of the last run.
    pub(crate) fn failure(&self) -> Option<&Failure> {
        match &self.failure {
            Some(failure) => Some(failure),
            None => self.session().and_then(|session| session.failure.as_deref()),
        }
    }

    /// Returns what is known of the last run, if it has failed.
    pub(crate) fn ran(&self) -> Ran {
        self.ran
    }

    /// Returns the name of the object at the server in use, and the address of the server.
    pub(crate) fn server(&self) -> Option<(Chars, Chars)> {
        let (name, address) = self.session()?.imported.as_ref()?;
        Some((Chars::new(name), Chars::new(address)))
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.run = None;
        self.drop_session();
    }
}

impl Session {
    /// Undoes what is left of a run that has failed: the next one must not commit it.
    fn undo(&mut self) {
        let admitted = self.admit();
        let recorded = self.recorder.abort(admitted, Place::NONE);
        self.no_result(recorded, Place::NONE);
        self.clear_exceptions(Place::NONE);
    }
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Service").field("url", &self.url).finish_non_exhaustive()
    }
}
