//! Services: imports, runs with a server that traders know.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{NonNull, from_ref, null};

use bifrost_client::Ran as Known;

use crate::abi::{Chars, Place, Ref, Type};
use crate::error::{Failure, Status};
use crate::export::connect::opening;
use crate::export::transaction::How;
use crate::interface::Interface;
use crate::service::{Service, import};
use crate::session::{Options, Session};

/// The account of a run that has failed.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ran {
    /// Nothing of it was done.
    No,
    /// A part of it was done.
    Began,
    /// Nobody knows.
    Unknown,
}

/// Imports a service: connects to a server that the traders of a URL know, and looks the object up.
/// `ty` is its type, one of the program. Its stub is put into `object`; it belongs to no scope.
///
/// Returns null if there is no session: `bf_connect_error` says why.
#[unsafe(no_mangle)]
pub extern "C" fn bf_import(
    url: Chars,
    interface: Option<&Interface>,
    ty: &Type,
    options: Option<&Options>,
    object: &mut Ref,
) -> Option<NonNull<Session>> {
    *object = Ref::NONE;
    let opened =
        opening(interface, |interface| import(url, interface, ty, options.unwrap_or(&Options::NONE)));
    opened.map(|(session, stub)| {
        *object = stub;
        session
    })
}

/// Makes a service of a URL such as `trader://host/DataBase?region=eu`, whose object has a type of
/// the program. Nothing is connected before its first run. It belongs to this thread.
///
/// With `counted` a session that a run gives is the program's to end, by `bf_let_go`: for layers
/// that count stubs. Otherwise the service ends it, and the stubs that a run has made are released
/// when the next one begins.
///
/// Returns null if the options make no sense: `bf_connect_error` says why.
#[unsafe(no_mangle)]
pub extern "C" fn bf_service_new(
    url: Chars,
    interface: Option<&Interface>,
    ty: &Type,
    options: Option<&Options>,
    counted: bool,
) -> Option<NonNull<Service>> {
    let made = opening(interface, |interface| {
        Service::new(url, interface, ty, options.unwrap_or(&Options::NONE), counted)
    });
    made.map(|service| NonNull::from(Box::leak(Box::new(service))))
}

/// Enters a function of a service. A panic ends the run and its session.
pub(crate) fn run(
    service: &mut Service,
    status: &mut Status,
    work: impl FnOnce(&mut Service, &mut Status) -> Option<NonNull<Session>>,
) -> Option<NonNull<Session>> {
    match catch_unwind(AssertUnwindSafe(|| work(service, status))) {
        Ok(session) => session,
        Err(panic) => {
            *status = service.panicked(&*panic);
            None
        }
    }
}

/// Begins a run: finds a server, unless there is one, and returns its session. `bf_service_object`
/// is the object. The body ends with `bf_run_next`, and what it has not committed is lost with the
/// server.
///
/// Returns null if there is no server, with `*status`.
#[unsafe(no_mangle)]
pub extern "C" fn bf_run_begin(
    service: &mut Service,
    status: &mut Status,
    place: Place,
) -> Option<NonNull<Session>> {
    run(service, status, |service, status| service.begin(None, status, place))
}

/// Begins a run that is a transaction, as `bf_transaction_begin` does, under a name of its own: if
/// the server is lost, the batch is sent again to another one of the same store, which knows
/// whether it was done. So it is done once. `how` may be null, or have a name.
#[unsafe(no_mangle)]
pub extern "C" fn bf_run_begin_transaction(
    service: &mut Service,
    how: Option<&How>,
    status: &mut Status,
    place: Place,
) -> Option<NonNull<Session>> {
    let how = how.copied().unwrap_or(How { tries: 0, named: false, client: [0; 2], number: 0 });
    run(service, status, |service, status| service.begin(Some(how), status, place))
}

/// Ends a try of a run, whose body has failed with `*status`, or has not; a transaction is sent.
/// Returns the session of the next try: the server was lost, and nothing of the body was done, or
/// it is a transaction. Null if the run has ended, with its outcome in `*status`.
///
/// After a run that has failed, its transaction is aborted.
#[unsafe(no_mangle)]
pub extern "C" fn bf_run_next(service: &mut Service, status: &mut Status) -> Option<NonNull<Session>> {
    run(service, status, |service, status| service.next(status))
}

/// Ends a run whose body was left: nothing of it is committed.
#[unsafe(no_mangle)]
pub extern "C" fn bf_run_leave(service: &mut Service) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| service.leave())) {
        service.panicked(&*panic);
    }
}

/// Returns the object of the service at the server in use; none before the first run. It stays the
/// service's.
#[unsafe(no_mangle)]
pub extern "C" fn bf_service_object(service: &Service) -> Ref {
    service.object()
}

/// Returns the address of the server in use; empty if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn bf_service_address(service: &Service) -> Chars {
    service.server().map_or(Chars::new(c""), |(_, address)| address)
}

/// Returns the name of the object at the server in use; empty if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn bf_service_name(service: &Service) -> Chars {
    service.server().map_or(Chars::new(c""), |(name, _)| name)
}

/// Returns the failure of the last run, or else the last one of its session, as `bf_error_last`:
/// null if nothing has failed. It lives until the next run, or until another function of the
/// session fails.
#[unsafe(no_mangle)]
pub extern "C" fn bf_service_error(service: &Service) -> *const Failure {
    service.failure().map_or(null(), from_ref)
}

/// Returns what is known of the last run, if it has failed.
#[unsafe(no_mangle)]
pub extern "C" fn bf_service_ran(service: &Service) -> Ran {
    match service.ran() {
        Known::No => Ran::No,
        Known::Began => Ran::Began,
        Known::Unknown => Ran::Unknown,
    }
}

/// Ends a service, and its session. Null is passed over.
#[unsafe(no_mangle)]
pub extern "C" fn bf_service_free(service: Option<&mut Service>) {
    let Some(service) = service else { return };
    // SAFETY: `bf_service_new` has made it as a box, and the program does not use it again (the
    // header).
    let service = unsafe { Box::from_raw(service) };
    let _ = catch_unwind(AssertUnwindSafe(|| drop(service)));
}
