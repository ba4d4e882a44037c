//! Sessions: opened, flushed, ended; the descriptor for event loops.

use std::cell::RefCell;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

use bifrost_recorder::Closed;

use crate::abi::{Chars, Place};
use crate::error::{ConnectError, Failure, Status};
use crate::interface::Interface;
use crate::recorded::{Error, Recorder};
use crate::session::{Options, Session, enter, enter_own};

thread_local! {
    static FAILURE: RefCell<Option<Box<Failure>>> = const { RefCell::new(None) };
}

/// The counts of a session up to now.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Counters {
    /// Pairs of domain crossings: batches sent and answered.
    pub crossings: u64,
    /// Commands sent in them.
    pub calls: u64,
    /// Calls that the server ran for them; those made by loops count each time.
    pub executed: u64,
}

impl Session {
    /// True if the program has let go of the session and of all its stubs.
    pub(crate) fn is_over(&self) -> bool {
        self.leaving && self.uses.alive() == 0
    }

    /// Ends the session without waiting for an answer. Commands that were recorded and never
    /// flushed are sent, and run.
    fn leave(&mut self) {
        if self.recorder.leave() {
            let _ = self.wire.send(&mut self.recorder);
            self.recorder.close(Closed::ByClient);
        }
    }

    fn flush_all(&mut self, name: &str, place: Place) -> Result<(), Error> {
        self.synchronize(name, place)?;
        self.recorder.surface(true)
    }
}

/// Opens a session with the server at an address: `unix:///run/bifrost/main`, `shm://`, `tcp://`,
/// `tls://`, `quic://`, `ws://` or `wss://`; or with one that traders know:
/// `trader://host/DataBase?region=eu`. Then `bf_imported_name` has the name of the object.
/// `options` may be null. The session belongs to this thread.
///
/// Returns null if there is no session: `bf_connect_error` says why.
#[unsafe(no_mangle)]
pub extern "C" fn bf_connect(
    url: Chars,
    interface: Option<&Interface>,
    options: Option<&Options>,
) -> Option<NonNull<Session>> {
    opening(interface, |interface| {
        Ok(Session::connect(url, interface, options.unwrap_or(&Options::NONE))?.place())
    })
}

/// Opens something that may have no session; keeps the reason why it is not there.
pub(crate) fn opening<T>(
    interface: Option<&Interface>,
    open: impl FnOnce(&Interface) -> Result<T, ConnectError>,
) -> Option<T> {
    let opened = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let Some(interface) = interface else {
            return Err(Box::new(Failure::new(Status::Connect, "the interface is null", Place::NONE)));
        };
        open(interface).map_err(|error| Box::new(error.failure()))
    }));
    let opened = opened.unwrap_or_else(|_| {
        let text = "a mistake in the library has prevented the session";
        Err(Box::new(Failure::new(Status::Panic, text, Place::NONE)))
    });
    opened.map_err(|failure| FAILURE.with(|last| *last.borrow_mut() = Some(failure))).ok()
}

/// Returns the name under which the object is found at the server that a trader has named; empty if
/// the session was not imported.
#[unsafe(no_mangle)]
pub extern "C" fn bf_imported_name(session: Option<&mut Session>) -> Chars {
    enter(session, Chars::new(c""), |session| {
        session.imported.as_ref().map_or(Chars::new(c""), |(name, _)| Chars::new(name))
    })
}

/// Returns the address of that server; empty if the session was not imported.
#[unsafe(no_mangle)]
pub extern "C" fn bf_imported_address(session: Option<&mut Session>) -> Chars {
    enter(session, Chars::new(c""), |session| {
        session.imported.as_ref().map_or(Chars::new(c""), |(_, address)| Chars::new(address))
    })
}

/// Returns the reason why the last `bf_connect`, `bf_import` or `bf_service_new` of this thread
/// has returned null, until the next one fails.
#[unsafe(no_mangle)]
pub extern "C" fn bf_connect_error() -> *const Failure {
    FAILURE.with(|last| last.borrow().as_deref().map_or(std::ptr::null(), std::ptr::from_ref))
}

/// Sends the recorded commands, and waits until they have run: one pair of crossings, or none if
/// there is nothing to send. Every stub then has its object, value or failure.
///
/// Fails if the session ended, a structure is open, there are calls that were not sent, or failures
/// that no claim can tell. The failure of a call with a stub is told by its claim.
#[unsafe(no_mangle)]
pub extern "C" fn bf_flush(session: Option<&mut Session>, place: Place) -> Status {
    enter_own(session, place, |session| {
        let flushed = session.flush_all("flush", place);
        session.status(flushed)
    })
}

/// Ends the batch and sends it as far as there is room, without waiting for its answer:
/// `bf_flush_poll` goes on with it. Calls that are recorded from then on are the next batch; stubs
/// of this one are operands there as any other.
///
/// At most `batches_under_way_max` batches are under way; beyond it this waits for the oldest one.
#[unsafe(no_mangle)]
pub extern "C" fn bf_flush_start(session: Option<&mut Session>, place: Place) -> Status {
    enter_own(session, place, |session| {
        let started = session.answer_while(Recorder::is_crowded);
        let started = started.and_then(|()| session.recorder.begin_flush_for("flush", true, place));
        let started = started.and_then(|_| session.wire.step(&mut session.recorder));
        session.status(started.map(drop))
    })
}

/// Moves the bytes of batches under way as far as that needs no waiting. `BF_PENDING` until all are
/// answered: wait until `bf_fd` is readable (or writable, if `bf_wants_write`), and call it again.
/// Then as `bf_flush`.
#[unsafe(no_mangle)]
pub extern "C" fn bf_flush_poll(session: Option<&mut Session>, place: Place) -> Status {
    enter_own(session, place, |session| match session.wire.step(&mut session.recorder) {
        Ok(true) => {
            let told = session.recorder.surface(true);
            session.status(told)
        }
        Ok(false) => Status::Pending,
        Err(error) => session.told(&error),
    })
}

/// Returns the descriptor of the session's socket, for `poll` and its like; -1 over shared memory,
/// which has none. It stays the library's.
#[unsafe(no_mangle)]
pub extern "C" fn bf_fd(session: Option<&mut Session>) -> i32 {
    enter(session, -1, |session| session.wire.descriptor().unwrap_or(-1))
}

/// True if bytes of a batch under way wait for room in the socket.
#[unsafe(no_mangle)]
pub extern "C" fn bf_wants_write(session: Option<&mut Session>) -> bool {
    enter(session, false, |session| session.wire.wants_write(&session.recorder))
}

/// True if the server has not ended the session, as far as is known without waiting.
#[unsafe(no_mangle)]
pub extern "C" fn bf_is_open(session: Option<&mut Session>) -> bool {
    enter(session, false, Session::is_open)
}

/// Writes the counts of the session up to now.
#[unsafe(no_mangle)]
pub extern "C" fn bf_counters(session: Option<&mut Session>, counters: &mut MaybeUninit<Counters>) {
    let counts = enter(session, Counters::default(), |session| {
        let counts = session.recorder.counters();
        Counters { crossings: counts.crossings, calls: counts.calls, executed: counts.executed }
    });
    counters.write(counts);
}

/// Keeps a pointer of the program with the session: of a layer over this header.
#[unsafe(no_mangle)]
pub extern "C" fn bf_set_data(session: Option<&mut Session>, data: *mut c_void) {
    enter(session, (), |session| session.data = data);
}

/// Returns the pointer that `bf_set_data` was given; null before.
#[unsafe(no_mangle)]
pub extern "C" fn bf_data(session: Option<&mut Session>) -> *mut c_void {
    enter(session, std::ptr::null_mut(), |session| session.data)
}

/// Flushes, and ends the session; its stubs say so from then on. `bf_close` and `bf_let_go` still
/// have to free it.
#[unsafe(no_mangle)]
pub extern "C" fn bf_finish(session: Option<&mut Session>, place: Place) -> Status {
    enter_own(session, place, |session| {
        let flushed = session.flush_all("close", place);
        session.leave();
        session.status(flushed)
    })
}

/// Ends the session without waiting for answers, and frees it, with all its stubs, its last error
/// and its texts. Commands that were recorded and never flushed are sent, and run; to learn of
/// failures, call `bf_finish` first. Null is passed over.
#[unsafe(no_mangle)]
pub extern "C" fn bf_close(session: Option<&mut Session>) {
    end(session);
}

/// As `bf_close`, but the session lives until its last stub is released. For layers that count
/// stubs.
#[unsafe(no_mangle)]
pub extern "C" fn bf_let_go(session: Option<&mut Session>) {
    let Some(session) = session else { return };
    session.leaving = true;
    if session.is_over() {
        end(Some(session));
    }
}

/// Ends and frees a session.
pub(crate) fn end(session: Option<&mut Session>) {
    let Some(session) = session else { return };
    let this = session.this;
    enter(Some(session), (), Session::leave);
    if let Some(this) = this {
        // SAFETY: `bf_connect` has made it as a box, and the program does not use it again (the
        // header).
        let session = unsafe { Box::from_raw(this.as_ptr()) };
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(session)));
    }
}
