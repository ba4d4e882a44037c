//! A service: runs with a server that traders know, and with another one when it is lost.
//!
//! The rule is that of all client libraries, `bifrost_client::Service`; [`Service`] has the
//! sessions. A run of a program in C is a loop: `begin` gives the session of the first try,
//! [`Service::next`] that of the next one, or none when the run has ended.

use std::any::Any;
use std::ptr::NonNull;
use std::sync::Arc;
use std::thread::ThreadId;

use bifrost_client::{Greeted, Imported, Losses, Mark, Ran, Searcher, ServiceError, is_loss};
use bifrost_recorder::{Misuse, Slot, Stubs};
use bifrost_wire::{BatchName, ErrorNumber};

use crate::abi::{Chars, Family, Place, Ref, Type};
use crate::error::{ConnectError, Failure, Status};
use crate::export::transaction::How;
use crate::interface::Interface;
use crate::recorded::{Error, Recorder};
use crate::session::{Options, Session, ended_by_panic};

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
/// program that counts keeps it as long (the header). A session that is lost is the one in use
/// until another one is found, for the stubs and texts of its run.
#[derive(Clone, Copy)]
struct Current {
    object: Ref,
    /// The scope of the last run.
    scope: Option<u32>,
    /// True if the program has the session, and lets go of it by itself.
    given: bool,
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
    let url = url.address()?;
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
            url: url.address()?.to_owned(),
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
        if self.owner != std::thread::current().id() {
            let text = "the service is used by another thread than the one that has made it";
            return self.fail(Failure::new(Status::OtherThread, text, place), status);
        }
        if self.run.is_some() {
            self.leave();
        }
        (self.failure, self.ran) = (None, Ran::No);
        let how = how.map(|how| self.name(how));
        let mark = Mark { writes: 0, executed: 0, flushed: 0 };
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
        session.failure = None;
        run.mark = Mark::of(session.wire.writes(), &session.recorder);
        run.seen = session.recorder.mark_seen();
        if let Some(how) = &run.how {
            *status = session.begin_transaction(Some(how), run.place);
            if *status != Status::Ok {
                return self.next(status);
            }
        }
        if self.counted {
            current.given = true;
        } else {
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
        session.wire.stop();
        match self.found.lost(&mut run.losses, (run.mark, now), why, run.how.is_some()) {
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
        if status != Status::Ok && !session.recorder.is_closed() {
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
        let failure = Failure::of(&Error::Misuse(Misuse::LeftOpen));
        self.failure = Some(Box::new(failure));
    }

    /// Ends a run after a panic, and its session, whose recorder may be in no state to go on.
    pub(crate) fn panicked(&mut self, panic: &(dyn Any + Send)) -> Status {
        (self.run, self.ran) = (None, Ran::Unknown);
        self.found.done();
        match self.session() {
            Some(session) => ended_by_panic(session, panic),
            None => {
                let text = "a mistake in the library has ended the run";
                self.failure = Some(Box::new(Failure::new(Status::Panic, text, Place::NONE)));
                Status::Panic
            }
        }
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
            let newer = Current::of(open(greeted, self.object.stubs, &imported).1);
            // If it is still there.
            if newer.is_open() {
                self.drop_session();
                self.found.moved(imported);
                self.current = Some(newer);
            } else {
                newer.end();
            }
        }
        if self.current.is_some_and(Current::is_open) {
            return Ok(());
        }
        let (object, options, url) = (&self.object, &self.options, &self.url);
        let mut due =
            self.found.begin_search(|| Ok(Searcher::new(options.search(url)?, object.dialer(options))))?;
        let (greeted, imported) = due.search()?;
        let current = Current::of(open(greeted, self.object.stubs, &imported).1);
        if let Err(why) = self.found.found(due, imported) {
            current.end();
            return Err(why);
        }
        self.drop_session();
        self.current = Some(current);
        Ok(())
    }

    /// Lets go of the session in use. It lives until the program has released its stubs.
    fn drop_session(&mut self) {
        if let Some(current) = self.current.take() {
            current.end();
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

impl Current {
    /// Makes the session in use of the stub of its object.
    fn of(object: Ref) -> Current {
        Current { object, scope: None, given: false }
    }

    fn is_open(self) -> bool {
        self.object.session().is_some_and(Session::is_open)
    }

    /// Releases the stubs of the service, and lets go of a session that the program does not have.
    fn end(self) {
        let Some(session) = self.object.session() else { return };
        if let Some(scope) = self.scope {
            session.close_scope(scope, false);
        }
        session.release(self.object);
        session.leaving |= !self.given;
        if session.is_over() {
            crate::export::connect::end(Some(session));
        }
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bifrost_client::Wire;
    use bifrost_recorder::{BuiltinNumbers, CellNumbers};
    use bifrost_transport::Stream;
    use bifrost_wire::{Value, builtin, encode, operator};

    use super::*;
    use crate::export::service::run;

    static STUBS: Stubs = Stubs {
        digest: [0; 32],
        json: "{}",
        basic: [(u32::MAX, CellNumbers::NONE); 6],
        builtin: [BuiltinNumbers::NONE; builtin::COUNT],
        operators: [u32::MAX; operator::COUNT],
    };

    const SECOND: Duration = Duration::from_secs(1);

    /// A service with a session that was opened, and the server's end of the connection. There are
    /// no traders.
    fn service(counted: bool) -> (Service, Stream) {
        let mut options = bifrost_client::Options::new(&STUBS);
        options.timeout = Duration::from_millis(50);
        let (client, mut server) = Stream::pair().unwrap();
        let mut welcome = Vec::new();
        encode::welcome(&mut welcome, &STUBS.digest, &[], 1, "test");
        server.write(&welcome, SECOND).unwrap();
        let mut wire = Wire::new(Box::new(client), SECOND);
        let mut recorder = wire.greet(options.greeting("")).unwrap();
        let object = recorder.new_value(Value::Int(1));
        let session = Session::of(Greeted { recorder, wire, object: None }, &STUBS, None).place();
        let session = Ref::new(Some(session), 0, 0).session().unwrap();
        let service = Service {
            object: ObjectType { number: 0, name: "Test".into(), stubs: &STUBS },
            options,
            url: "trader+unix:///none/trader?service=Test".to_owned(),
            found: bifrost_client::Service::default(),
            current: Some(Current::of(session.unscoped_stub(object))),
            run: None,
            counted,
            failure: None,
            ran: Ran::No,
            owner: std::thread::current().id(),
        };
        (service, server)
    }

    /// True if the client has ended the connection.
    fn has_ended(server: &mut Stream) -> bool {
        let mut bytes = Vec::new();
        while let Ok(Some(read)) = server.try_read(&mut bytes, 4096) {
            if read == 0 {
                return true;
            }
        }
        false
    }

    fn texts(service: &Service) -> String {
        service
            .failure()
            .map(|failure| failure.text().get().unwrap_or_default().to_owned())
            .unwrap_or_default()
    }

    #[test]
    fn stubs_of_a_run_outlive_the_loss_of_its_server() {
        let (mut service, server) = service(false);
        let mut status = Status::Ok;
        assert!(service.begin(None, &mut status, Place::NONE).is_some());
        let session = service.session().unwrap();
        let slot = session.recorder.new_value(Value::Int(7));
        let kept = session.stub(slot);
        drop(server);
        status = session.commit_now();
        assert_eq!(status, Status::Closed);
        assert!(service.next(&mut status).is_none());
        assert_eq!((status, service.ran()), (Status::Lost, Ran::Unknown));
        assert!(texts(&service).starts_with("the server is lost, and nobody knows"), "{}", texts(&service));
        let session = kept.session().unwrap();
        assert_eq!(session.slot(kept), Ok(slot));
        // There is no other server: the stub is still there.
        assert!(service.begin(None, &mut status, Place::NONE).is_none());
        assert_eq!((status, service.ran()), (Status::Connect, Ran::No));
        assert_eq!(session.slot(kept), Ok(slot));
    }

    impl Session {
        /// Records a commit, and waits for it.
        fn commit_now(&mut self) -> Status {
            let admitted = self.admit_commit();
            let recorded = self.recorder.commit(admitted, Place::NONE);
            self.no_result(recorded, Place::NONE);
            let flushed = self.flush();
            self.status(flushed)
        }
    }

    #[test]
    fn a_block_that_is_left_is_a_failure() {
        let (mut service, _server) = service(false);
        let mut status = Status::Ok;
        assert!(service.begin(None, &mut status, Place::NONE).is_some());
        service.leave();
        assert!(texts(&service).contains("left by a jump"), "{}", texts(&service));
        assert!(service.begin(None, &mut status, Place::NONE).is_some());
        assert_eq!((texts(&service), status), (String::new(), Status::Ok));
        assert!(service.next(&mut status).is_none());
        assert_eq!((texts(&service), status), (String::new(), Status::Ok));
    }

    #[test]
    fn a_panic_ends_the_run_and_its_session() {
        let (mut service, mut server) = service(false);
        let mut status = Status::Ok;
        assert!(service.begin(None, &mut status, Place::NONE).is_some());
        assert!(run(&mut service, &mut status, |_, _| panic!("of a test")).is_none());
        assert_eq!((status, service.ran()), (Status::Panic, Ran::Unknown));
        assert!(texts(&service).ends_with("has ended the session: of a test"), "{}", texts(&service));
        assert!(service.begin(None, &mut status, Place::NONE).is_none());
        assert_eq!(status, Status::Connect);
        drop(service);
        assert!(has_ended(&mut server));
    }

    #[test]
    fn a_session_is_ended_by_the_one_that_has_it() {
        // It was never given to the program.
        let (first, mut server) = service(true);
        assert!(!has_ended(&mut server));
        drop(first);
        assert!(has_ended(&mut server));

        let (mut second, mut server) = service(true);
        let mut status = Status::Ok;
        let session = second.begin(None, &mut status, Place::NONE);
        assert!(second.next(&mut status).is_none());
        drop(second);
        assert!(!has_ended(&mut server));
        crate::export::connect::bf_let_go(Ref::new(session, 0, 0).session());
        assert!(has_ended(&mut server));
    }
}
