//! One connection: bytes from the stream to the session and back.
//!
//! Read [`serve`] first. This module knows the forms of bytes and the time limits of clients, and
//! no commands.
//!
//! 1. A connection waits for its `hello` (`hello.rs`).
//! 2. [`open`] gives its client the place of a session, or a refusal.
//! 3. [`run_session`] moves bytes until an [`End`] is reached: the session, the client, the server,
//!    a slow client or a stream that fails.
//!
//! The thread of the connection owns the stream and the buffer of input; the session owns its
//! replies until they are written.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bifrost_capsule::Space;
use bifrost_session::{Limits, LoggedFailure, Session, Welcome};
use bifrost_transport::{Deadline, HangUp, ReadError, Stream, WriteError};
use bifrost_wire::{ErrorNumber, Limit};

use crate::bell::{Bell, Rested};
use crate::connections::Place;
use crate::hello::{self, Ended, Greeted, Refusal};
use crate::roles::{Door, Seat};
use crate::server::Shared;
use crate::text::TextForm;

/// The least progress of a client in a second, in bytes.
const PROGRESS_BYTES: u64 = 1024;
/// Most bytes taken from the stream at once.
const READ_BYTES: usize = 256 << 10;

/// The reason why a connection ended.
enum End {
    /// The session said so.
    Session,
    /// The client closed the stream, or died.
    Closed,
    /// The client was too slow.
    Slow,
    /// The server is stopping.
    Stopped,
    /// The stream failed.
    Failed(String),
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            End::Session => f.write_str("session"),
            End::Closed => f.write_str("closed"),
            End::Slow => f.write_str("slow"),
            End::Stopped => f.write_str("stopped"),
            End::Failed(why) => f.write_str(why),
        }
    }
}

/// Serves a connection to its end: waits for its `hello`, and then runs its session.
pub(crate) fn serve(shared: Arc<Shared>, mut stream: Stream, mut place: Place, door: &Door) {
    let greeting = AssertUnwindSafe(|| hello::receive(&shared, &mut stream, &place, door));
    let ended = match catch_unwind(greeting) {
        Ok(Ok(greeted)) => match open(&shared, &stream, &mut place, &greeted) {
            Ok(opened) => {
                run_session(&shared, &place, stream, greeted, opened);
                drop(shared);
                return drop(place);
            }
            Err(refusal) => Ended::Refused(refusal),
        },
        Ok(Err(ended)) => ended,
        Err(_) => Ended::Refused(Refusal::new(hello::Form::Binary, ErrorNumber::Internal, FAULT)),
    };
    match ended {
        Ended::Refused(refusal) => refusal.tell(&mut stream),
        Ended::Gone(why) => tracing::debug!(peer = stream.describe_peer(), why, "connection.gone"),
    }
    drop((stream, shared));
    drop(place);
}

/// A client that is told this is not to blame.
const FAULT: &str = "the server failed in this session";

/// A session that has a place, its objects and their context.
struct Opened {
    number: u64,
    space: Arc<Space>,
    session: Session,
    bell: Arc<Bell>,
    limits: Limits,
    /// The place among the sessions of the role.
    seat: Option<Seat>,
}

/// Gives a client that has said `hello` the place of a session.
fn open(shared: &Shared, stream: &Stream, place: &mut Place, greeted: &Greeted) -> Result<Opened, Refusal> {
    let form = greeted.form;
    let (role, mut seat) = (greeted.role.as_deref(), None);
    if let Some(role) = role {
        seat = Some(role.take_seat().map_err(|text| {
            tracing::warn!(role = role.name(), "session.refused");
            Refusal::new(form, ErrorNumber::TooManySessions, text)
        })?);
    }
    let limits = role.map_or(shared.limits, |role| role.limits());
    let policy = role.map_or(&shared.policy, |role| role.policy());
    let bell = Arc::new(Bell::default());
    let number = place.open_session(stream, &bell).map_err(|most| {
        tracing::warn!(sessions_max = most, "session.refused");
        let text = format!("{most} sessions are open, and that is the limit (sessions_max)");
        Refusal::new(form, ErrorNumber::TooManySessions, text)
    })?;
    if shared.memory.is_full() {
        let most = shared.memory.limit_bytes();
        tracing::warn!(server_heap_bytes_max = most, "session.refused");
        let text = format!(
            "the objects of all sessions have {most} bytes, and that is the limit (server_heap_bytes_max)"
        );
        return Err(Refusal::new(form, ErrorNumber::TooManySessions, text));
    }
    let (space, cache) = shared.objects.space_with(&limits).map_err(|error| {
        tracing::warn!(%error, "session.refused");
        Refusal::new(form, ErrorNumber::Internal, "no memory for the session's objects")
    })?;
    if let Some(hosts) = &shared.hosts {
        hosts.lock().enter(&space, stream);
    }
    place.runs_in(&space);
    let server = concat!("bifrost ", env!("CARGO_PKG_VERSION")).to_owned();
    let mut session = Session::new(shared.tables, limits, Welcome { server, session: number }, cache);
    session.set_policy(policy.clone());
    session.set_waker(bell.clone());
    session.set_shown_places(shared.show_places.shown(stream.peer_ip().is_none()));
    Ok(Opened { number, space, session, bell, limits, seat })
}

/// Logs the failures of a client's calls. The log is bounded for all sessions together
/// ([`LOGGED_PER_SECOND_MAX`](bifrost_runtime::places::LOGGED_PER_SECOND_MAX)).
#[cold]
fn log_failures(shared: &Shared, number: u64, session: &mut Session) {
    let (failures, omitted) = session.take_logged();
    let now = Instant::now().saturating_duration_since(shared.started).as_millis() as i64;
    for LoggedFailure { call, text, places } in failures {
        let Some(skipped) = shared.logged_failures.lock().next(now) else { continue };
        let places = places.iter().map(|line| line.trim_start()).collect::<Vec<_>>().join("; ");
        tracing::warn!(session = number, call, text, places, skipped, omitted, "call.failed");
    }
}

/// Runs a session to its end.
fn run_session(shared: &Shared, place: &Place, mut stream: Stream, greeted: Greeted, opened: Opened) {
    let Opened { number, space, mut session, bell, limits, seat } = opened;
    let peer = stream.describe_peer();
    let policy = greeted.role.as_deref().map_or(&shared.policy, |role| role.policy());
    tracing::info!(session = number, peer, role = policy.role(), "session.open");
    let mut form = match greeted.form {
        hello::Form::Binary => Form::Binary,
        hello::Form::Text { .. } => {
            let numbering = Arc::new(policy.numbering(shared.tables).clone());
            Form::Text(Box::new(TextForm::new(numbering, limits, greeted.lines)))
        }
    };
    // Room for all that is read at once: a place that does not change, and pages of its own.
    let mut input = Vec::with_capacity(READ_BYTES);
    input.extend_from_slice(&greeted.input);
    let work = || run(shared, (number, &space, &limits), &mut stream, &mut session, &bell, &mut form, input);
    let end = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(end) => end,
        Err(_) => {
            // The fault is ours, not the client's: it is told to both, and the other sessions go
            // on.
            tracing::error!(session = number, "session.fault");
            session.clear_output();
            session.fail(ErrorNumber::Internal, FAULT);
            End::Session
        }
    };
    match &end {
        End::Slow => session.fail(ErrorNumber::Expired, "the session was idle or slow for too long"),
        End::Stopped => session.fail(ErrorNumber::ShuttingDown, "the server is shutting down"),
        _ => {}
    }
    let output = form.output(&mut session);
    if !output.is_empty() && !matches!(end, End::Closed) {
        // The client may be gone already: then the message is missed by none.
        let _ = stream.write(output, Duration::from_secs(1));
        stream.flush();
    }
    let c = session.counters();
    tracing::info!(
        session = number,
        end = %end,
        crossings = c.crossings,
        calls = c.calls,
        structures = c.structures,
        prepared_hits = c.prepared_hits,
        failures = c.failures,
        "session.close"
    );
    drop((session, stream));
    let mut cx = space.lock();
    bifrost_actors::post_messages(&mut cx);
    place.runs_no_more(cx.heap_stats().past());
    drop(seat);
}

/// The form in which the client speaks.
enum Form {
    Binary,
    Text(Box<TextForm>),
}

impl Form {
    /// Gives the session the bytes that have come; returns how many were used.
    fn handle(&mut self, space: &Space, session: &mut Session, bytes: &[u8]) -> usize {
        match self {
            Form::Text(text) => text.handle(session, &mut space.lock(), bytes),
            Form::Binary => session.handle(&mut space.lock(), bytes),
        }
    }

    /// Returns the bytes to be sent.
    fn output<'o>(&'o mut self, session: &'o mut Session) -> &'o [u8] {
        match self {
            Form::Text(text) => text.output(session),
            Form::Binary => session.output(),
        }
    }

    /// Forgets the bytes that were sent.
    fn clear_output(&mut self, session: &mut Session) {
        match self {
            Form::Text(text) => text.clear_output(),
            Form::Binary => session.clear_output(),
        }
    }

    /// True if there is work left in bytes that have come.
    fn has_more(&self, session: &Session) -> bool {
        match self {
            Form::Text(text) => text.has_more(),
            Form::Binary => session.has_more(),
        }
    }

    /// True if the bytes that were not used up begin a command whose rest is missing. Those of an
    /// open structure are whole commands.
    fn is_unfinished(&self, session: &Session, unused: usize) -> bool {
        match self {
            Form::Text(_) => unused > 0,
            Form::Binary => unused > session.scanned(),
        }
    }
}

/// The times by which a client must have sent something. Bytes renew none of them: only whole
/// commands do.
struct Times {
    idle: Duration,
    /// As `idle`, in a transaction: at most that.
    transaction_idle: Duration,
    command: Duration,
    /// The time at which the client sent its last whole command, or was answered.
    since: Instant,
    /// The time at which the command began whose rest is missing.
    partial: Option<Instant>,
}

impl Times {
    /// Returns the time at which the session ends, or its transaction is aborted, if no command
    /// comes. `unused` bytes begin one.
    #[inline]
    fn next(&self, in_transaction: bool, unused: usize) -> Instant {
        let idle = self.since + if in_transaction { self.transaction_idle } else { self.idle };
        match self.partial {
            None => idle,
            Some(partial) => idle.min(self.command_end(partial, unused)),
        }
    }

    // Out of line: else all of it is computed for each batch.
    #[cold]
    #[inline(never)]
    fn command_end(&self, partial: Instant, unused: usize) -> Instant {
        partial + self.command + Duration::from_millis(unused as u64 * 1000 / PROGRESS_BYTES)
    }

    /// True if the session ends now, since no command has come.
    #[cold]
    #[inline(never)]
    fn is_over(&self, unused: usize) -> bool {
        Instant::now() >= self.next(false, unused)
    }
}

fn run(
    shared: &Shared,
    (number, space, limits): (u64, &Space, &Limits),
    stream: &mut Stream,
    session: &mut Session,
    bell: &Arc<Bell>,
    form: &mut Form,
    mut input: Vec<u8>,
) -> End {
    // Made when the session first waits for commits of others.
    let mut last_byte = None;
    let patience = shared.patience;
    let idle = Duration::from_millis(limits.get(Limit::IdleMs));
    let mut times = Times {
        idle,
        transaction_idle: idle.min(Duration::from_millis(limits.get(Limit::TransactionIdleMs))),
        command: patience.command,
        since: Instant::now(),
        partial: None,
    };
    let mut done = 0;
    loop {
        let (commands, mut answered) = (session.commands(), false);
        loop {
            done += form.handle(space, session, &input[done..]);
            if session.has_logged() {
                log_failures(shared, number, session);
            }
            match answer(stream, session, form, patience.unread) {
                Ok(some) => answered |= some,
                Err(end) => return end,
            }
            if let Some(pause) = session.pause() {
                if last_byte.is_none() && session.is_waiting() {
                    last_byte = Some(watch_last_byte(bell, stream));
                }
                match bell.rest(pause) {
                    Rested::Rung => {}
                    Rested::SentLast => session.wait_no_more(),
                    Rested::Stopped => return End::Stopped,
                }
            } else if !form.has_more(session) {
                break;
            }
        }
        let unused = input.len() - done;
        if unused == 0 {
            input.clear();
            done = 0;
            if input.capacity() > 4 * READ_BYTES {
                input.shrink_to(READ_BYTES);
            }
        }
        let now = Instant::now();
        if answered || session.commands() != commands {
            (times.since, times.partial) = (now, None);
        }
        match form.is_unfinished(session, unused) {
            true => times.partial = times.partial.or(Some(now)),
            false => times.partial = None,
        }
        // The bytes left begin a command: keep them at the front, so that the buffer does not grow
        // with the session.
        if done > READ_BYTES {
            input.drain(..done);
            done = 0;
        }
        loop {
            let deadline = Deadline::At(times.next(session.in_transaction(), unused));
            match stream.read(&mut input, READ_BYTES, deadline) {
                Ok(0) => return End::Closed,
                Ok(_) => break,
                Err(ReadError::TimedOut) if !times.is_over(unused) => session.expire(&mut space.lock()),
                Err(ReadError::TimedOut) => return End::Slow,
                Err(ReadError::Stopped) => return End::Stopped,
                Err(e) => return End::Failed(e.to_string()),
            }
        }
    }
}

/// Watches a client whose session waits. Without means for that it waits for its whole time.
fn watch_last_byte(bell: &Arc<Bell>, stream: &Stream) -> Option<HangUp> {
    bell.watch(stream).inspect_err(|error| tracing::warn!(%error, "session.unwatched")).ok()
}

/// Sends the bytes to be sent, and returns whether there were some; or the reason why the
/// connection ends.
fn answer(
    stream: &mut Stream,
    session: &mut Session,
    form: &mut Form,
    unread: Duration,
) -> Result<bool, End> {
    let output = form.output(session);
    let some = !output.is_empty();
    if some {
        match stream.write(output, unread) {
            Ok(()) => stream.flush(),
            Err(WriteError::TimedOut) => return Err(End::Slow),
            Err(WriteError::Stopped) => return Err(End::Stopped),
            Err(WriteError::Closed) => return Err(End::Closed),
            Err(e) => return Err(End::Failed(e.to_string())),
        }
        form.clear_output(session);
    }
    if session.ended() { Err(End::Session) } else { Ok(some) }
}
